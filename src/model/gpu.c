/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The GPUs of the node, and which of them a process means by its ordinals of CUDA or HIP. The driver's answer to the
 * process (UUID, PCI address) decides; then the variables of the environment that limit what it sees; else the answer
 * is "unknown", never a guess.
 */
#include "zernel.h"
#include <ctype.h>
#include <dirent.h> /* struct dirent64 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define NVIDIA_MINOR_MAX 253 /* those above are not GPUs: modeset, control */

static const char unknown_id[] = "unknown";

const char *zn_vendor_label(enum zn_vendor v)
{
	static const char *const label[] = {"", "nvidia", "amd"};

	return label[v];
}

/* HIP writes the 16 digits of a GPU's unique number as text. */
static bool is_amd_uuid(const uint8_t uuid[16])
{
	for (int i = 0; i < 16; i++)
		if (!isxdigit(uuid[i]))
			return false;
	return true;
}

void zn_uuid_text(char to[48], const uint8_t uuid[16])
{
	struct zn_out o = {.at = to, .cap = 47};

	if (is_amd_uuid(uuid)) {
		snprintf(to, 48, "GPU-%.16s", (const char *)uuid);
		return;
	}
	zn_out_text(&o, "GPU-");
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			zn_out_char(&o, '-');
		zn_out_hex(&o, uuid[i], 2);
	}
	to[o.len] = 0;
}

bool zn_gpu_unknown(const struct zn_gpu *gpu)
{
	return strcmp(gpu->id, unknown_id) == 0;
}

bool zn_gpu_shown(const struct zn_gpu *gpu)
{
	return gpu->id[0] && (!zn_gpu_unknown(gpu) || gpu->used_bytes);
}

void zn_gpus_forget(struct zn_gpus *g, const bool used[ZN_GPUS_MAX])
{
	for (uint32_t i = g->listed; i < g->count; i++) {
		if (used[i])
			continue;
		if (g->gpu[i].is_name)
			zn_quota_give(&g->quota, g->gpu[i].owner);
		g->gpu[i] = (struct zn_gpu){.minor = -1};
	}
	while (g->count > g->listed && !g->gpu[g->count - 1].id[0])
		g->count--;
}

static struct zn_gpu *gpu_add(struct zn_gpus *g, const char *id)
{
	struct zn_gpu *gpu = NULL;

	for (uint32_t i = g->listed; i < g->count && !gpu; i++)
		if (!g->gpu[i].id[0])
			gpu = &g->gpu[i];
	if (!gpu && g->count < ZN_GPUS_MAX)
		gpu = &g->gpu[g->count++];
	if (!gpu)
		return NULL;
	*gpu = (struct zn_gpu){.minor = -1};
	strncpy(gpu->id, id, sizeof(gpu->id) - 1);
	return gpu;
}

/* Copies the value of a line "Key: <spaces>value" of the driver's information file. */
static bool info_value(const char *text, const char *key, char *to, size_t cap)
{
	const char *at = strstr(text, key);
	size_t n;

	if (!at)
		return false;
	at += strlen(key);
	at += strspn(at, ": \t");
	n = strcspn(at, "\n");
	if (n >= cap)
		n = cap - 1;
	memcpy(to, at, n);
	to[n] = 0;
	return n > 0;
}

#define INFORMATION_BYTES 2048

static bool read_information(char text[INFORMATION_BYTES], const char *root, const char *pci)
{
	char path[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%.15s/information", root, pci);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, INFORMATION_BYTES - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

static void gpu_read(struct zn_gpus *g, const char *root, const char *pci)
{
	char text[INFORMATION_BYTES], number[16], id[16];
	struct zn_gpu *gpu;

	if (!read_information(text, root, pci))
		return;
	snprintf(id, sizeof(id), "%u", g->count);
	gpu = gpu_add(g, id);
	if (!gpu)
		return;
	gpu->vendor = ZN_VENDOR_NVIDIA;
	snprintf(gpu->pci, sizeof(gpu->pci), "%.15s", pci);
	if (info_value(text, "GPU UUID", gpu->uuid, sizeof(gpu->uuid)) && strchr(gpu->uuid, '?'))
		gpu->uuid[0] = 0; /* as long as nobody has woken the GPU up */
	if (info_value(text, "Device Minor", number, sizeof(number)))
		gpu->minor = atoi(number);
}

/* ---- AMD's, by the files of amdgpu ---- */

/* The last part of where a link leads; empty: there is none. */
static void link_name(int dir, const char *path, char to[64])
{
	char target[512], *slash;
	ssize_t n = readlinkat(dir, path, target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = 0;
	slash = strrchr(target, '/');
	snprintf(to, 64, "%.63s", slash ? slash + 1 : target);
}

/* A word in a small file; empty: there is none. */
static void word_read(int dir, const char *path, char to[32])
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, 31);

	if (fd >= 0)
		close(fd);
	to[n > 0 ? n : 0] = 0;
	to[strcspn(to, " \n")] = 0;
}

/* A partition of a GPU has a device of its own (amdgpu_xcp_drv.c), without an address and a unique number. */
static bool is_amdgpu(int node, char device[64])
{
	char driver[64];

	link_name(node, "device", device);
	link_name(node, "device/driver", driver);
	return strcmp(driver, "amdgpu") == 0 || strncmp(device, "amdgpu_xcp", 10) == 0;
}

static void amd_read(struct zn_gpus *g, int node, const char device[64], int minor)
{
	char id[16], word[32];
	struct zn_gpu *gpu;

	snprintf(id, sizeof(id), "%u", g->count);
	gpu = gpu_add(g, id);
	if (!gpu)
		return;
	gpu->vendor = ZN_VENDOR_AMD;
	gpu->minor = minor;
	if (strchr(device, ':') && strlen(device) < sizeof(gpu->pci))
		strcpy(gpu->pci, device);
	word_read(node, "device/unique_id", word);
	if (word[0])
		snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%s", word);
	word_read(node, "device/mem_info_vram_total", word);
	gpu->total_bytes = strtoull(word, NULL, 10);
}

/* The minor of a render node; -1: it is none. */
static int render_minor(const char *name)
{
	char *end;
	long minor =
		strncmp(name, "renderD", 7) == 0 && isdigit((unsigned char)name[7]) ? strtol(name + 7, &end, 10) : -1;

	return minor >= 0 && !*end && minor <= 1 << 20 ? (int)minor : -1;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* How many devices of partitions (amdgpu_xcp) follow a GPU that are in use: the driver makes them for each mode at
 * the start. */
static uint32_t partitions_of(int node)
{
	static const struct {
		const char *mode;
		uint32_t more;
	} known[] = {{"DPX", 1}, {"TPX", 2}, {"QPX", 3}, {"CPX", UINT32_MAX}};
	char mode[32];

	word_read(node, "device/current_compute_partition", mode);
	for (size_t i = 0; i < ZN_LEN(known); i++)
		if (strcmp(mode, known[i].mode) == 0)
			return known[i].more;
	return 0;
}

static int node_open(int dir, int minor)
{
	char name[32];

	snprintf(name, sizeof(name), "renderD%d", minor);
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* One node of the list, in the order of the minors: a GPU's partitions follow it. left: how many of them are in use. */
static void amd_take(struct zn_gpus *g, int dir, int minor, uint32_t *left)
{
	char device[64];
	int node = node_open(dir, minor);

	if (node < 0)
		return;
	if (is_amdgpu(node, device)) {
		bool partition = !strchr(device, ':');

		if (!partition || *left)
			amd_read(g, node, device, minor);
		*left = partition ? *left - (*left > 0) : partitions_of(node);
	}
	close(node);
}

#define NODES_MAX 512 /* render nodes of a machine that are looked at */

static size_t minors_read(int nodes, int minor[NODES_MAX])
{
	struct zn_names names = {.have = 0};
	const struct dirent64 *e;
	size_t n = 0;

	while (n < NODES_MAX && (e = zn_names_next(&names, nodes)))
		if ((minor[n] = render_minor(e->d_name)) >= 0)
			n++;
	zn_sort(minor, n, sizeof(minor[0]), by_number);
	return n;
}

/* One entry stays for the unknown GPU. */
static void amd_list(struct zn_gpus *g, const char *drm)
{
	int minor[NODES_MAX], nodes = open(drm, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t n = minors_read(nodes, minor);
	uint32_t left = 0;

	for (size_t i = 0; i < n && g->count < ZN_GPUS_MAX - 1; i++)
		amd_take(g, nodes, minor[i], &left);
	if (nodes >= 0)
		close(nodes);
}

/* How many there are, without their partitions, by links alone: no driver is asked. */
static uint32_t amd_count(const char *drm)
{
	int minor[NODES_MAX], nodes = open(drm, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t n = minors_read(nodes, minor);
	uint32_t count = 0;
	char device[64];

	for (size_t i = 0; i < n; i++) {
		int node = node_open(nodes, minor[i]);

		count += node >= 0 && is_amdgpu(node, device) && strchr(device, ':');
		if (node >= 0)
			close(node);
	}
	if (nodes >= 0)
		close(nodes);
	return count;
}

static bool amd_grown(const struct zn_gpus *g, const char *drm)
{
	uint32_t listed = 0;

	for (uint32_t i = g->nvidia; i < g->listed; i++)
		listed += g->gpu[i].pci[0] != 0;
	return g->listed < ZN_GPUS_MAX - 1 && amd_count(drm) > listed;
}

/* ---- NVIDIA's, and all ---- */

#define PCI_NAME_MAX 16

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static uint32_t nvidia_names(const char *root, char name[ZN_GPUS_MAX][PCI_NAME_MAX])
{
	int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct zn_names names = {.have = 0};
	const struct dirent64 *e;
	uint32_t n = 0;

	while (n < ZN_GPUS_MAX && (e = zn_names_next(&names, dir)))
		if (e->d_name[0] != '.' && strlen(e->d_name) < PCI_NAME_MAX)
			memcpy(name[n++], e->d_name, strlen(e->d_name) + 1);
	if (dir >= 0)
		close(dir);
	return n;
}

static void nvidia_list(struct zn_gpus *g, const char *root)
{
	static char name[ZN_GPUS_MAX][PCI_NAME_MAX]; /* in PCI order once sorted, as nvidia-smi counts */
	uint32_t n = nvidia_names(root, name);

	zn_sort(name, n, PCI_NAME_MAX, by_text);
	for (uint32_t i = 0; i < n; i++)
		gpu_read(g, root, name[i]);
}

void zn_gpus_read(struct zn_gpus *g, const char *nvidia, const char *drm)
{
	memset(g, 0, sizeof(*g));
	g->root = nvidia;
	nvidia_list(g, nvidia);
	g->nvidia = g->count;
	amd_list(g, drm);
	g->listed = g->count;
}

bool zn_gpus_grown(const struct zn_gpus *g, const char *nvidia, const char *drm)
{
	static char name[ZN_GPUS_MAX][PCI_NAME_MAX];
	uint32_t n = nvidia_names(nvidia, name), readable = 0;
	char text[INFORMATION_BYTES];

	for (uint32_t i = 0; i < n && n > g->nvidia; i++)
		readable += read_information(text, nvidia, name[i]);
	return readable > g->nvidia || (drm && amd_grown(g, drm));
}

/* ---- Open devices. ---- */

struct zn_gpu_files zn_gpu_files_read(const char *path)
{
	struct zn_gpu_files files = {.gpu = ZN_NVIDIA_MAJOR};
	char text[8192], *line, *rest = text, *name;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = 0;
	while ((line = strsep(&rest, "\n")) && strcmp(line, "Block devices:")) {
		unsigned long major = strtoul(line, &name, 10);

		name += strspn(name, " ");
		if (name > line && !strcmp(name, "nvidia-caps"))
			files.instance = (uint32_t)major;
	}
	return files;
}

/* The link in /proc says whether it is open, and a file system that should be asked what it is, a user's own, is
 * not waited for: the attributes are taken as the kernel has them. */
bool zn_device_open(int dir, const char *name, uint32_t *major, uint32_t *minor)
{
	struct statx st;

	if (!isdigit((unsigned char)name[0]) || statx(dir, name, AT_STATX_DONT_SYNC, STATX_TYPE, &st) ||
		!S_ISCHR(st.stx_mode))
		return false;
	*major = st.stx_rdev_major;
	*minor = st.stx_rdev_minor;
	if (*major == ZN_NVIDIA_MAJOR && *minor > NVIDIA_MINOR_MAX)
		return false;
	return statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_MODE, &st) == 0 &&
		st.stx_mode & (S_IRUSR | S_IWUSR);
}

int zn_gpu_file(const struct zn_gpu_files *of, int dir, const char *name, uint32_t *minor)
{
	uint32_t major;

	if (!zn_device_open(dir, name, &major, minor))
		return ZN_GPU_FILE_NONE;
	if (major == of->gpu)
		return of->given ? ZN_GPU_FILE_GPU | ZN_GPU_FILE_RENDER : ZN_GPU_FILE_GPU;
	if (major == ZN_DRM_MAJOR && *minor >= ZN_RENDER_FIRST)
		return ZN_GPU_FILE_RENDER;
	return of->instance && major == of->instance ? ZN_GPU_FILE_INSTANCE : ZN_GPU_FILE_NONE;
}

static int gpu_by_id(struct zn_gpus *g, const char *id)
{
	struct zn_gpu *gpu;

	for (uint32_t i = 0; i < g->count; i++)
		if (strcmp(g->gpu[i].id, id) == 0)
			return i;
	gpu = gpu_add(g, id);
	return gpu ? (int)(gpu - g->gpu) : -1;
}

/* Whether a process's ordinals are HIP's: on a node with GPUs of both vendors by whose functions it calls. As long as
 * that is not known, or both are, who has one of NVIDIA's GPUs open uses CUDA. given: with --gpu-majors one device is
 * taken for both. */
static bool uses_amd(const struct zn_gpus *g, const struct zn_process_info *f)
{
	bool given = f->render_count && f->render_count == f->minor_count && f->renders[0] == f->minors[0];

	if (g->listed == g->nvidia)
		return false;
	if (f->calls == ZN_CALLS_HIP)
		return true;
	if (f->calls == ZN_CALLS_CUDA && g->nvidia)
		return false;
	return !f->minor_count || given;
}

/* Whether the driver of this process's GPUs has a list of them. */
static bool is_listed(const struct zn_gpus *g, const struct zn_process_info *f)
{
	return g->nvidia || uses_amd(g, f);
}

/* Room for one more name: one entry is for the unknown GPU, and where there is no list some are for indices. */
static bool name_room(struct zn_gpus *g, const struct zn_process_info *f)
{
	g->quota.size = ZN_GPUS_MAX - 1 - (g->listed ? g->listed : ZN_PROC_GPUS);
	if (f->owner != ZN_OWNER_ROOT && !f->instances && zn_quota_owner(&g->quota, f->owner)->held >= ZN_GPU_NAMES) {
		g->quota.refused++;
		g->quota.refused_owner = f->owner + 1;
		return false;
	}
	return zn_quota_take(&g->quota, f->owner);
}

/* Where the driver has a list, a name is the one's who gave it first. */
static bool is_his(const struct zn_gpus *g, const struct zn_gpu *gpu, const struct zn_process_info *f)
{
	return !g->listed || !gpu->is_name || gpu->owner == f->owner || f->owner == ZN_OWNER_ROOT;
}

/* A GPU that no list has: a MIG instance, or any GPU where there is no list. -1: the process is not believed, or
 * its share is used up. */
static int gpu_by_name(struct zn_gpus *g, const struct zn_process_info *f, const char *name)
{
	struct zn_gpu *gpu;

	for (uint32_t i = g->listed; i < g->count; i++)
		if (g->gpu[i].id[0] && strcmp(g->gpu[i].id, name) == 0)
			return is_his(g, &g->gpu[i], f) ? (int)i : -1;
	if ((is_listed(g, f) && !f->instances) || !name_room(g, f))
		return -1;
	gpu = gpu_add(g, name);
	if (!gpu) {
		zn_quota_give(&g->quota, f->owner);
		return -1;
	}
	gpu->is_name = true;
	gpu->owner = f->owner;
	return (int)(gpu - g->gpu);
}

static bool is_open(const struct zn_process_info *f, const struct zn_gpu *gpu)
{
	bool amd = gpu->vendor == ZN_VENDOR_AMD;
	uint8_t count = amd ? f->render_count : f->minor_count;

	for (uint8_t i = 0; i < count; i++)
		if ((amd ? f->renders : f->minors)[i] == gpu->minor)
			return true;
	return false;
}

/* HIP opens all GPUs that it may, and counts them in this order, in a control group and in a container too. */
static int gpu_by_render(const struct zn_gpus *g, const struct zn_process_info *f, uint32_t nth)
{
	for (uint32_t i = g->nvidia; i < g->listed; i++)
		if (is_open(f, &g->gpu[i]) && nth-- == 0)
			return (int)i;
	return -1;
}

static int gpu_by_index(struct zn_gpus *g, const struct zn_process_info *f, int index)
{
	char id[16];

	if (uses_amd(g, f))
		return gpu_by_render(g, f, (uint32_t)index);
	if (g->nvidia && (uint32_t)index >= g->nvidia)
		return gpu_by_id(g, unknown_id);
	snprintf(id, sizeof(id), "%u", g->nvidia ? (uint32_t)index : g->listed + (uint32_t)index);
	return index < ZN_PROC_GPUS ? gpu_by_id(g, id) : gpu_by_name(g, f, id);
}

static int gpu_by_minor(struct zn_gpus *g, const struct zn_process_info *f, int minor)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (g->gpu[i].minor == minor && g->gpu[i].vendor != ZN_VENDOR_AMD)
			return i;
	return g->nvidia ? gpu_by_id(g, unknown_id) : gpu_by_index(g, f, minor);
}

/* A UUID as in CUDA_VISIBLE_DEVICES may be cut short, as long as it is unique. */
static int gpu_by_uuid(const struct zn_gpus *g, const char *uuid)
{
	int found = -1, matches = 0;

	for (uint32_t i = 0; i < g->count; i++) {
		if (strcasecmp(g->gpu[i].uuid, uuid) == 0)
			return i;
		if (strncasecmp(g->gpu[i].uuid, uuid, strlen(uuid)) == 0) {
			found = i;
			matches++;
		}
	}
	return matches == 1 ? found : -1;
}

static bool same_pci(const struct zn_gpu *gpu, const char pci[16])
{
	return gpu->pci[0] && strncasecmp(gpu->pci, pci, 16) == 0;
}

static int gpu_by_pci(const struct zn_gpus *g, const char pci[16])
{
	for (uint32_t i = 0; i < g->count; i++)
		if (same_pci(&g->gpu[i], pci))
			return i;
	return -1;
}

/* A GPU or MIG instance as a user's environment names it. Other bytes than these name none. */
static int gpu_by_text(struct zn_gpus *g, const struct zn_process_info *f, const char *text)
{
	int gpu = gpu_by_uuid(g, text);
	size_t i = 0;

	while (isalnum((unsigned char)text[i]) || text[i] == '-' || text[i] == '/')
		i++;
	if (gpu >= 0 || text[i])
		return gpu;
	return gpu_by_name(g, f, text);
}

/* Whether a GPU has instances of MIG: folders such as gi1. They come and go while the node runs, so it is looked at
 * each time. */
static bool is_divided(const struct zn_gpus *g, int minor)
{
	char path[512];
	struct zn_names names = {.have = 0};
	const struct dirent64 *e;
	bool found = false;
	int dir;

	snprintf(path, sizeof(path), "%s/../capabilities/gpu%d/mig", g->root, minor);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (!found && (e = zn_names_next(&names, dir)))
		found = !strncmp(e->d_name, "gi", 2);
	if (dir >= 0)
		close(dir);
	return found;
}

bool zn_gpus_numbered(const struct zn_gpus *g)
{
	for (uint32_t i = 0; i < g->nvidia; i++)
		if (g->gpu[i].minor != (int)i || (g->root && is_divided(g, (int)i)))
			return false;
	return true;
}

void zn_gpus_name(const struct zn_gpus *g, const char *text, char id[48])
{
	bool index = text[0] && text[strspn(text, "0123456789")] == 0;
	int gpu = index ? -1 : gpu_by_uuid(g, text);

	if (index && g->listed && strtoul(text, NULL, 10) >= g->listed)
		text = unknown_id;
	snprintf(id, 48, "%.47s", gpu >= 0 ? g->gpu[gpu].id : text);
}

/* HIP's list counts the GPUs that the runtime below it may see. Without a list of its own HIP takes CUDA's, and an
 * empty list counts as none. */
void zn_visible_hip(struct zn_visible *to, const struct zn_visible *hip, const struct zn_visible *rocr)
{
	*to = hip->set && hip->count ? *hip : *rocr;
	if (!hip->set || !hip->count || !rocr->set)
		return;
	for (uint8_t i = 0; i < to->count; i++) {
		int32_t index = to->index[i];

		if (index < 0)
			continue;
		if (index >= rocr->count) { /* it ends the list */
			to->count = i;
			return;
		}
		to->index[i] = rocr->index[index];
		memcpy(to->uuid[i], rocr->uuid[index], sizeof(to->uuid[i]));
	}
}

/* By the environment: the list's entry at the ordinal, or the ordinal itself if there is no list. */
static int gpu_by_visible(struct zn_gpus *g, const struct zn_process_info *f, uint32_t ordinal)
{
	const struct zn_visible *v = uses_amd(g, f) ? &f->hip : &f->cuda;

	if (f->gone || f->id == 0)
		return -1;
	if (!v->set)
		return gpu_by_index(g, f, ordinal);
	if (ordinal >= v->count)
		return -1;
	if (v->index[ordinal] >= 0)
		return gpu_by_index(g, f, v->index[ordinal]);
	return gpu_by_text(g, f, v->uuid[ordinal]);
}

/* Whether a process may mean this GPU. A GPU of the driver's list has a device, and the process must have it open:
 * a process that fakes the driver could name any GPU. */
static bool is_believed(const struct zn_gpus *g, const struct zn_process_info *f, int gpu)
{
	if (gpu < 0)
		return false;
	if ((uint32_t)gpu >= g->listed)
		return is_his(g, &g->gpu[gpu], f);
	return is_open(f, &g->gpu[gpu]);
}

static bool uuid_known(const struct zn_proc_gpu *g)
{
	static const uint8_t none[16];

	return memcmp(g->uuid, none, sizeof(none)) != 0;
}

bool zn_gpu_identify(struct zn_gpu *gpu, const struct zn_proc_gpu *g)
{
	char uuid[48];

	if (gpu->vendor == ZN_VENDOR_AMD && gpu->minor >= 0)
		return true; /* the kernel has said all of it, and what HIP calls the number of a partition differs by version */
	if (uuid_known(g)) {
		zn_uuid_text(uuid, g->uuid);
		if (gpu->uuid[0] && strcasecmp(gpu->uuid, uuid))
			return false;
		strcpy(gpu->uuid, uuid);
		if (gpu->vendor == ZN_VENDOR_UNKNOWN)
			gpu->vendor = is_amd_uuid(g->uuid) ? ZN_VENDOR_AMD : ZN_VENDOR_NVIDIA;
	} else if (gpu->pci[0] && g->pci[0] && !same_pci(gpu, g->pci)) {
		return false;
	}
	if (!gpu->pci[0])
		memcpy(gpu->pci, g->pci, sizeof(gpu->pci) - 1);
	if (g->total_bytes)
		gpu->total_bytes = g->total_bytes;
	return true;
}

/* The device files that a process has open are a fact, its environment is a claim: inside a cgroup or a container,
 * numbers start at 0 whichever GPUs it was given. One open device is the answer; an answer that is not among them
 * does not count. */
static int gpu_of_process(struct zn_gpus *g, const struct zn_process_info *f, uint32_t ordinal)
{
	bool instance = f->instances && ordinal < f->cuda.count && strncmp(f->cuda.uuid[ordinal], "MIG-", 4) == 0;
	int gpu;

	if (uses_amd(g, f) && f->render_count == 1)
		return ordinal ? -1 : gpu_by_render(g, f, 0);
	if (f->minor_count == 1 && !instance)
		return ordinal ? -1 : gpu_by_minor(g, f, f->minors[0]);
	gpu = gpu_by_visible(g, f, ordinal);
	return is_believed(g, f, gpu) ? gpu : -1;
}

static int resolve_unknown(struct zn_gpus *g, const struct zn_process_info *f)
{
	bool amd = uses_amd(g, f);
	const struct zn_visible *v = amd ? &f->hip : &f->cuda;
	int gpu = -1;

	if ((amd ? f->render_count : f->minor_count) == 1 || (v->set && v->count == 1))
		gpu = gpu_of_process(g, f, 0);
	return gpu >= 0 ? gpu : gpu_by_id(g, unknown_id);
}

/* A process that has a partition open: all of one GPU have its address, and its number or none. */
static bool has_partitions(const struct zn_gpus *g, const struct zn_process_info *f)
{
	for (uint32_t i = g->nvidia; i < g->listed; i++)
		if (!g->gpu[i].pci[0] && is_open(f, &g->gpu[i]))
			return true;
	return false;
}

/* An ordinal of the process that the driver told something about, or may have. */
static int resolve_seen(
	struct zn_gpus *g, const struct zn_proc_gpu *seen, const struct zn_process_info *f, uint32_t ordinal)
{
	char uuid[48];
	int gpu;

	if (uses_amd(g, f) && has_partitions(g, f)) {
		gpu = gpu_of_process(g, f, ordinal);
		return gpu >= 0 ? gpu : gpu_by_id(g, unknown_id);
	}
	if (uuid_known(seen)) {
		zn_uuid_text(uuid, seen->uuid);
		gpu = gpu_by_uuid(g, uuid);
		if (is_believed(g, f, gpu))
			return gpu;
	}
	gpu = seen->pci[0] ? gpu_by_pci(g, seen->pci) : -1;
	if (is_believed(g, f, gpu) && zn_gpu_identify(&g->gpu[gpu], seen))
		return gpu;
	gpu = gpu_of_process(g, f, ordinal);
	if (gpu >= 0 && !zn_gpu_unknown(&g->gpu[gpu]) && zn_gpu_identify(&g->gpu[gpu], seen))
		return gpu;
	gpu = uuid_known(seen) ? gpu_by_name(g, f, uuid) : -1;
	if (gpu >= 0)
		zn_gpu_identify(&g->gpu[gpu], seen);
	return gpu >= 0 ? gpu : gpu_by_id(g, unknown_id);
}

int zn_gpus_resolve(struct zn_gpus *g, const struct zn_proc *p, const struct zn_process_info *f, uint32_t ordinal)
{
	struct zn_process_info whole = *f;

	whole.calls = (uint8_t)p->calls;
	return ordinal < ZN_PROC_GPUS ? resolve_seen(g, &p->gpu[ordinal], &whole, ordinal) : resolve_unknown(g, &whole);
}
