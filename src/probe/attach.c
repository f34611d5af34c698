/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Puts probes on functions of libraries, and takes them away: one link for all where the kernel has sessions, one for
 * entries and one for returns where it has multi-uprobes, else a perf event each. These are bare system calls, which
 * allocate nothing.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UPROBE_MULTI_RETURN_FLAG_ 1

/* union bpf_attr of BPF_LINK_CREATE for uprobe_multi, linux/bpf.h from 6.6 on. */
struct multi_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, pad;
};

int zn_attach_multi(int prog_fd, enum zn_way way, const struct zn_spots *s, uint32_t first, uint32_t count)
{
	struct multi_attr attr = {
		.prog_fd = prog_fd,
		.attach_type = way == ZN_WAY_SESSION ? ZN_TRACE_UPROBE_SESSION : ZN_TRACE_UPROBE_MULTI,
		.path = (uintptr_t)s->path,
		.offsets = (uintptr_t)&s->offset[first],
		.cookies = (uintptr_t)&s->cookie[first],
		.count = count,
		.pid = (uint32_t)s->pid,
		.multi_flags = way == ZN_WAY_RETURN ? UPROBE_MULTI_RETURN_FLAG_ : 0,
	};
	int fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}

int zn_attach_event(struct perf_event_attr *event, pid_t pid, int prog_fd, uint64_t cookie)
{
	int event_fd = syscall(SYS_perf_event_open, event, pid ? pid : -1, pid ? -1 : 0, -1, PERF_FLAG_FD_CLOEXEC), fd;
	union bpf_attr attr = {0};

	if (event_fd < 0)
		return -errno;
	attr.link_create.prog_fd = prog_fd;
	attr.link_create.target_fd = event_fd;
	attr.link_create.attach_type = BPF_PERF_EVENT;
	attr.link_create.perf_event.bpf_cookie = cookie;
	fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	if (fd < 0 && errno == EINVAL && !cookie && ioctl(event_fd, PERF_EVENT_IOC_SET_BPF, prog_fd) == 0)
		return event_fd; /* before 5.15 there is no link: the event itself keeps the program */
	if (fd < 0)
		fd = -errno;
	close(event_fd); /* the link holds it */
	return fd;
}

int zn_attach_perf(const struct zn_probe *p, int prog_fd, bool ret, const struct zn_spots *s, uint32_t i)
{
	struct perf_event_attr event = {
		.type = p->perf_type,
		.size = sizeof(event),
		.config = ret ? 1 : 0, /* format/retprobe: config:0 */
		.config1 = (uintptr_t)s->path,
		.config2 = s->offset[i],
	};

	return zn_attach_event(&event, s->pid, prog_fd, s->cookie[i]);
}

uint32_t zn_perf_type(const char *kind)
{
	char path[64];
	unsigned type = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", kind);
	f = fopen(path, "re");
	if (f && fscanf(f, "%u", &type) != 1)
		type = 0;
	if (f)
		fclose(f);
	return type;
}

static struct zn_place places[ZN_HOOKS_MAX]; /* by hook, of the library that was read last */

const struct zn_entry *zn_attach_place(uint32_t hook)
{
	return places[hook].offset ? &places[hook].entry : NULL;
}

bool zn_attach_same(const struct zn_probe *p, const struct zn_lib *lib)
{
	for (uint32_t i = 0; i < p->hook_count; i++)
		if (places[i].offset && lib->symbol[i] == ZN_SYM_ATTACHED && !zn_place_same(lib->fd, &places[i]))
			return false;
	return true;
}

static struct zn_spots spots;

static bool spot_known(uint64_t offset)
{
	for (uint32_t i = 0; i < spots.count; i++)
		if (spots.offset[i] == offset)
			return true;
	return false;
}

/* Offsets of one library and family where the kernel refused a probe. */
static struct {
	uint64_t offset[2 * ZN_HOOKS_MAX];
	uint32_t count;
} bad;

static bool is_bad(uint64_t offset)
{
	for (uint32_t i = 0; i < bad.count; i++)
		if (bad.offset[i] == offset)
			return true;
	return false;
}

/* Collects where one family's programs go. Two names of one function are one spot, or a call would count twice. */
static void spots_collect(const struct zn_probe *p, enum zn_family f, bool ret)
{
	spots.count = 0;
	for (uint32_t i = 0; i < p->hook_count; i++) {
		const struct zn_hook *h = &p->hook[i];

		if (h->family != f || !places[i].offset || spot_known(places[i].offset) || is_bad(places[i].offset))
			continue;
		if (ret && h->flags & ZN_HOOK_ENTRY_ONLY)
			continue;
		spots.offset[spots.count] = places[i].offset;
		spots.hook[spots.count] = i;
		spots.cookie[spots.count] =
			ZN_COOKIE(h->shape, h->detail, places[i].entry.first, f) | ZN_COOKIE_OF_CALL(p->hook_call[i]);
		spots.cookie[spots.count++] |= h->flags & ZN_HOOK_HIP ? ZN_COOKIE_HIP : 0;
	}
}

/* A link is all or nothing, so one function that the kernel refuses would cost the family: try each alone, leave out
 * the refused ones. */
static int multi_link_good(int prog_fd, enum zn_way way)
{
	uint32_t good = 0;
	int err = 0;

	for (uint32_t i = 0; i < spots.count; i++) {
		int fd = zn_attach_multi(prog_fd, way, &spots, i, 1);

		if (fd < 0) {
			err = fd;
			bad.offset[bad.count++] = spots.offset[i];
			continue;
		}
		close(fd);
		spots.offset[good] = spots.offset[i];
		spots.cookie[good++] = spots.cookie[i];
	}
	spots.count = good;
	return good ? zn_attach_multi(prog_fd, way, &spots, 0, good) : err;
}

static int family_attach_multi(struct zn_probe *p, struct zn_lib *lib, enum zn_family f, bool ret)
{
	enum zn_way way = p->session ? ZN_WAY_SESSION : ret ? ZN_WAY_RETURN : ZN_WAY_ENTRY;
	int prog_fd = ret ? p->return_fd[f] : p->entry_fd[f], fd;

	if (lib->link[f][ret] >= 0)
		return 0;
	fd = zn_attach_multi(prog_fd, way, &spots, 0, spots.count);
	if (fd < 0)
		fd = multi_link_good(prog_fd, way);
	lib->link[f][ret] = fd < 0 ? -1 : fd;
	return fd < 0 ? fd : 0;
}

static int family_attach_perf(struct zn_probe *p, struct zn_lib *lib, enum zn_family f, bool ret)
{
	int prog_fd = ret ? p->return_fd[f] : p->entry_fd[f], err = 0;

	for (uint32_t i = 0; i < spots.count; i++) {
		int *event = &lib->event[spots.hook[i]][ret];

		if (*event >= 0)
			continue;
		*event = zn_attach_perf(p, prog_fd, ret, &spots, i);
		__atomic_store_n(&lib->step_ns, zn_now_ns(), __ATOMIC_RELAXED);
		if (*event < 0) {
			err = *event;
			bad.offset[bad.count++] = spots.offset[i];
		}
	}
	return err;
}

/* Returns first, then entries: a return without its entry is passed over, the reverse would leave a frame behind. So a
 * function whose return could not be hooked is not hooked at all. A session is both at once. */
static int family_attach(struct zn_probe *p, struct zn_lib *lib, enum zn_family f)
{
	int err = 0, last = 0;

	bad.count = 0;
	for (int ret = !p->session; ret >= 0; ret--) {
		spots_collect(p, f, ret);
		if (spots.count == 0)
			continue;
		last = p->multi ? family_attach_multi(p, lib, f, ret) : family_attach_perf(p, lib, f, ret);
		if (last)
			err = last;
		if (last && bad.count == 0)
			break;
	}
	for (uint32_t i = 0; i < p->hook_count; i++)
		if (p->hook[i].family == f && places[i].offset)
			lib->symbol[i] =
				(last && bad.count == 0) || is_bad(places[i].offset) ? ZN_SYM_FAILED : ZN_SYM_ATTACHED;
	return err;
}

static int symbols_find(struct zn_probe *p, struct zn_lib *lib, size_t budget)
{
	static struct zn_elf_symbol wanted[ZN_HOOKS_MAX];
	static uint32_t hook[ZN_HOOKS_MAX];
	const char *why = "";
	uint32_t n = 0;
	int found;

	memset(places, 0, sizeof(places));
	for (uint32_t i = 0; i < p->hook_count; i++)
		if (zn_hook_fits(&p->hook[i], lib->kind) && p->available[p->hook[i].family] &&
			(p->multi || !(p->hook[i].flags & ZN_HOOK_ONE_LINK))) {
			hook[n] = i;
			wanted[n++] = (struct zn_elf_symbol){.name = p->hook[i].name};
		}
	found = n ? zn_elf_symbols(lib->fd, wanted, n, budget, &why) : 0;
	for (uint32_t i = 0; i < n; i++)
		places[hook[i]] = zn_place_of(lib->fd, &wanted[i]);
	if (found == -EOPNOTSUPP)
		snprintf(lib->why, sizeof(lib->why), "%s", why);
	else if (found < 0)
		snprintf(lib->why, sizeof(lib->why), "not a well-formed ELF file: %.200s", why);
	else if (found == 0)
		snprintf(lib->why, sizeof(lib->why), n ? "has none of the hooked functions" : "its families are off");
	return found;
}

void zn_attach_clear(struct zn_lib *lib)
{
	memset(lib->link, -1, sizeof(lib->link));
	memset(lib->event, -1, sizeof(lib->event));
}

void zn_attach_read(struct zn_probe *p, struct zn_lib *lib, size_t budget)
{
	int err;

	lib->why[0] = 0;
	memset(lib->symbol, ZN_SYM_MISSING, sizeof(lib->symbol));
	err = symbols_find(p, lib, budget);
	lib->malformed = err < 0 && err != -EOPNOTSUPP; /* many nodes have the driver's libraries of 32 bits too */
	lib->found = err > 0 ? err : 0;
}

void zn_attach_library(struct zn_probe *p, struct zn_lib *lib)
{
	char path[32];
	int err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", lib->fd);
	spots.path = path;
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		if (!p->available[f] || !zn_family_fits(f, lib->kind))
			continue;
		err = family_attach(p, lib, f);
		if (err)
			snprintf(lib->why, sizeof(lib->why), "%s: %s", zn_family_label(f), strerror(-err));
	}
}

int zn_fd_keep(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void zn_fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Entries go before returns: an entry without its return would leave a frame behind. */
bool zn_attach_undo(struct zn_lib *lib, int steps)
{
	for (int f = 0; f < ZN_FAMILY_COUNT; f++)
		for (int ret = 0; ret < 2; ret++)
			zn_fd_close(&lib->link[f][ret]);
	for (int i = 0; i < 2 * ZN_HOOKS_MAX; i++) {
		int *event = &lib->event[i % ZN_HOOKS_MAX][i / ZN_HOOKS_MAX];

		if (*event >= 0 && steps-- == 0)
			return false;
		if (*event >= 0)
			__atomic_store_n(&lib->step_ns, zn_now_ns(), __ATOMIC_RELAXED);
		zn_fd_close(event);
	}
	return true;
}

uint32_t zn_attach_count(const struct zn_probe *p, const struct zn_lib *lib)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->hook_count; i++)
		n += lib->symbol[i] == ZN_SYM_ATTACHED;
	return n;
}
