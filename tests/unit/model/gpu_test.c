/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gpu_test.c: the driver's list of GPUs, read from a tree made here, and which GPU a process means by an
 * ordinal.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define LISTED 3

static struct zn_gpus gpus;
static char root[] = "/tmp/proc_test.XXXXXX";

/* As the driver has them, in an order of its own; indices follow from the addresses. */
static const struct {
	const char *pci, *text;
} tree[] = {
	{"0000:9d:00.0",
		"Model: \t\t NVIDIA A100\nIRQ:   \t\t 26\n"
		"GPU UUID: \t GPU-03000000-0000-0000-0000-0000000000c3\n"
		"Video BIOS: \t 92.00\nDevice Minor: \t 1\n"},
	{"0000:1b:00.0", "GPU UUID: \t GPU-01000000-0000-0000-0000-0000000000c1\nDevice Minor: \t 2\n"},
	{"0000:43:00.0", "GPU UUID: \t GPU-02000000-0000-0000-0000-0000000000c2\nDevice Minor: \t 0\n"},
};

static void path_of(char path[256], const char *pci, const char *file)
{
	snprintf(path, 256, "%s/%s%s", root, pci, file);
}

static void put(const char *pci, const char *text)
{
	char path[256];
	FILE *f;

	path_of(path, pci, "");
	if (mkdir(path, 0700))
		abort();
	path_of(path, pci, "/information");
	f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		abort();
}

static void take(const char *pci)
{
	char path[256];

	path_of(path, pci, "/information");
	unlink(path);
	path_of(path, pci, "");
	if (rmdir(path))
		abort();
}

static void list(void)
{
	for (size_t i = 0; i < ZN_LEN(tree); i++)
		put(tree[i].pci, tree[i].text);
	zn_gpus_read(&gpus, root, "/nowhere");
	for (size_t i = 0; i < ZN_LEN(tree); i++)
		take(tree[i].pci);
}

T(the_list_is_in_pci_order)
{
	static const struct zn_gpu want[LISTED] = {
		{.id = "0", .uuid = "GPU-01000000-0000-0000-0000-0000000000c1", .pci = "0000:1b:00.0", .minor = 2},
		{.id = "1", .uuid = "GPU-02000000-0000-0000-0000-0000000000c2", .pci = "0000:43:00.0", .minor = 0},
		{.id = "2", .uuid = "GPU-03000000-0000-0000-0000-0000000000c3", .pci = "0000:9d:00.0", .minor = 1},
	};

	list();
	CHECK_EQ(gpus.count, LISTED);
	CHECK_EQ(gpus.listed, LISTED);
	for (uint32_t i = 0; i < LISTED; i++) {
		CHECK_STR(gpus.gpu[i].id, want[i].id);
		CHECK_STR(gpus.gpu[i].uuid, want[i].uuid);
		CHECK_STR(gpus.gpu[i].pci, want[i].pci);
		CHECK_EQ(gpus.gpu[i].minor, want[i].minor);
		CHECK_EQ(gpus.gpu[i].total_bytes, 0);
	}
}

T(no_driver)
{
	gpus.count = 5;
	zn_gpus_read(&gpus, "/nowhere/at/all", "/nowhere");
	CHECK_EQ(gpus.count, 0);
	CHECK_EQ(gpus.listed, 0);
	zn_gpus_read(&gpus, root, "/nowhere");
	CHECK_EQ(gpus.count, 0);
}

/* Files as they should not be. */
static const struct {
	const char *name, *text, *uuid;
	uint32_t count;
	int minor;
} files[] = {
	{"file: empty", "", "", 0, -1},
	{"file: no line that counts", "Model: \t x\n", "", 1, -1},
	{"file: no end of line", "Device Minor: 7", "", 1, 7},
	{"file: no values", "GPU UUID:\nDevice Minor: \t\n", "", 1, -1},
	{"file: GPU that sleeps", "GPU UUID: \t GPU-\?\?\?\?\?\?\?\?-\?\?\?\?\nDevice Minor: 3\n", "", 1, 3},
	{"file: long value",
		"GPU UUID: 0123456789012345678901234567890123456789012345678901234567890123456789\nDevice Minor: 3\n",
		"01234567890123456789012345678901234567890123456", 1, 3},
};

static void broken_files(void)
{
	for (size_t i = 0; i < ZN_LEN(files); i++) {
		t_begin(files[i].name);
		put("0000:1b:00.0", files[i].text);
		zn_gpus_read(&gpus, root, "/nowhere");
		CHECK_EQ(gpus.count, files[i].count);
		CHECK_STR(gpus.gpu[0].uuid, files[i].uuid);
		CHECK(!files[i].count || gpus.gpu[0].minor == files[i].minor);
		take("0000:1b:00.0");
	}
}

T(a_file_of_many_bytes)
{
	static char text[1 << 16];

	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "Device Minor: 5\n", 16);
	put("0000:1b:00.0", text);
	put("a-name-that-is-no-pci-address", text);
	zn_gpus_read(&gpus, root, "/nowhere");
	CHECK_EQ(gpus.count, 1);
	CHECK_EQ(gpus.gpu[0].minor, 5);
	take("0000:1b:00.0");
	take("a-name-that-is-no-pci-address");
}

T(more_gpus_than_there_is_room_for)
{
	char pci[16];

	for (int i = 0; i < ZN_GPUS_MAX + 7; i++) {
		snprintf(pci, sizeof(pci), "0000:%02x:00.0", i);
		put(pci, "Device Minor: 1\n");
	}
	zn_gpus_read(&gpus, root, "/nowhere");
	CHECK_EQ(gpus.count, ZN_GPUS_MAX);
	CHECK_EQ(gpus.listed, ZN_GPUS_MAX);
	for (int i = 0; i < ZN_GPUS_MAX + 7; i++) {
		snprintf(pci, sizeof(pci), "0000:%02x:00.0", i);
		take(pci);
	}
}

/* A process was there first: the GPU that it uses was given a name, and is used. */
T(a_list_that_comes_later)
{
	const struct zn_process_info f = {0};
	const struct zn_proc p = {0};

	zn_gpus_read(&gpus, root, "/nowhere");
	CHECK(!zn_gpus_grown(&gpus, root, NULL));
	CHECK(zn_gpus_resolve(&gpus, &p, &f, 0) == 0 && gpus.count == 1);
	CHECK(!zn_gpus_grown(&gpus, root, NULL));
	put(tree[0].pci, tree[0].text);
	put(tree[1].pci, "");
	CHECK(zn_gpus_grown(&gpus, root, NULL));
	zn_gpus_read(&gpus, root, "/nowhere");
	CHECK_EQ(gpus.listed, 1);
	CHECK(!zn_gpus_grown(&gpus, root, NULL)); /* the other one cannot be read */
	take(tree[0].pci);
	take(tree[1].pci);
}

T(uuid_as_text)
{
	static const uint8_t uuid[16] = {0, 0x1a, 0xff, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xf0};
	char text[48];

	zn_uuid_text(text, uuid);
	CHECK_STR(text, "GPU-001aff03-0405-0607-0809-0a0b0c0d0ef0");
}

T(amd_uuid_as_text)
{
	char text[48];

	zn_uuid_text(text, (const uint8_t *)"18a3f7c20b9d4E51");
	CHECK_STR(text, "GPU-18a3f7c20b9d4E51");
}

#define UNKNOWN ZN_PROC_GPUS
#define CLOSED  .id = 1

/* ---- AMD's ---- */

/* As /sys/class/drm has them: nodes of other drivers, a partition without an address, and names that are none. */
static const struct {
	const char *node, *device, *driver, *unique, *total, *mode;
} nodes[] = {
	{"renderD131", "0000:c3:00.0", "amdgpu", "18a3f7c20b9d4e51\n", "206141652992\n", "CPX\n"},
	{"renderD128", "0000:02:00.0", "nvidia", NULL, NULL, NULL},
	{"renderD129", "0000:1d:00.0", "amdgpu", "77b16be19d0c3f02\n", "206141652992\n", "SPX\n"},
	{"renderD130", "amdgpu_xcp_0", NULL, NULL, NULL, NULL}, /* of one that is not divided */
	{"renderD1000", "amdgpu_xcp_1", NULL, NULL, NULL, NULL},
	{"renderD127", "0000:03:00.0", "i915", NULL, NULL, NULL},
	{"card0", "0000:1d:00.0", "amdgpu", NULL, NULL, NULL},
	{"renderDx", "0000:1d:00.0", "amdgpu", NULL, NULL, NULL},
	{"renderD", "0000:1d:00.0", "amdgpu", NULL, NULL, NULL},
	{"renderD132x", "0000:1d:00.0", "amdgpu", NULL, NULL, NULL},
};
static char drm[] = "/tmp/proc_drm.XXXXXX";

static void put_file(const char *folder, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = text ? fopen(path, "w") : NULL;
	if (text && (!f || fputs(text, f) < 0 || fclose(f)))
		abort();
}

static void nodes_make(void)
{
	char command[512], folder[256];

	strcpy(drm, "/tmp/proc_drm.XXXXXX");
	if (!mkdtemp(drm))
		abort();
	for (size_t i = 0; i < ZN_LEN(nodes); i++) {
		snprintf(command, sizeof(command),
			"cd %s && mkdir -p %s devices/%s/drm && ln -s ../devices/%s %s/device", drm, nodes[i].node,
			nodes[i].device, nodes[i].device, nodes[i].node);
		if (system(command))
			abort();
		snprintf(folder, sizeof(folder), "%s/devices/%s", drm, nodes[i].device);
		put_file(folder, "unique_id", nodes[i].unique);
		put_file(folder, "mem_info_vram_total", nodes[i].total);
		put_file(folder, "current_compute_partition", nodes[i].mode);
		snprintf(command, sizeof(command), "ln -sfn ../../../bus/pci/drivers/%s %s/driver",
			nodes[i].driver ? nodes[i].driver : "", folder);
		if (nodes[i].driver && system(command))
			abort();
	}
}

static void nodes_remove(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", drm);
	if (system(command))
		abort();
}

T(amd_gpus_are_listed_by_their_render_nodes)
{
	static const struct zn_gpu want[] = {
		{.id = "0",
			.uuid = "GPU-77b16be19d0c3f02",
			.pci = "0000:1d:00.0",
			.minor = 129,
			.total_bytes = 206141652992},
		{.id = "1",
			.uuid = "GPU-18a3f7c20b9d4e51",
			.pci = "0000:c3:00.0",
			.minor = 131,
			.total_bytes = 206141652992},
		{.id = "2", .uuid = "", .pci = "", .minor = 1000, .total_bytes = 0},
	};

	nodes_make();
	zn_gpus_read(&gpus, "/nowhere", drm);
	nodes_remove();
	CHECK_EQ(gpus.listed, 3);
	CHECK_EQ(gpus.nvidia, 0);
	for (size_t i = 0; i < ZN_LEN(want); i++) {
		CHECK_STR(gpus.gpu[i].id, want[i].id);
		CHECK_STR(gpus.gpu[i].uuid, want[i].uuid);
		CHECK_STR(gpus.gpu[i].pci, want[i].pci);
		CHECK_EQ(gpus.gpu[i].minor, want[i].minor);
		CHECK_EQ(gpus.gpu[i].total_bytes, want[i].total_bytes);
		CHECK_EQ(gpus.gpu[i].vendor, ZN_VENDOR_AMD);
	}
}

/* Looked for once a minute; NVIDIA's, that come after them, take the first indices. */
T(an_amd_driver_that_is_loaded_later)
{
	static struct zn_agg agg;

	zn_agg_follow_gpus(&agg, root, "/nowhere");
	nodes_make();
	zn_agg_follow_gpus(&agg, root, drm);
	CHECK_EQ(agg.gpus.listed, 0);
	agg.drm_due_ns = 0;
	zn_agg_follow_gpus(&agg, root, drm);
	CHECK_EQ(agg.gpus.listed, 3);
	CHECK(!zn_gpus_grown(&agg.gpus, root, drm));
	put(tree[0].pci, tree[0].text);
	zn_agg_follow_gpus(&agg, root, drm);
	take(tree[0].pci);
	nodes_remove();
	CHECK_EQ(agg.gpus.nvidia, 1);
	CHECK_EQ(agg.gpus.listed, 4);
	CHECK(agg.drm_due_ns > zn_now_ns() + 50 * ZN_NS_PER_S);
}

#define RENDERS(n, ...) .render_count = n, .renders = {__VA_ARGS__}
#define HIP(n, ...)     .hip.set = true, .hip.count = n, .hip.index = {__VA_ARGS__}

/* Four GPUs of AMD's, of minors 128 to 131, alone or beside two of NVIDIA's, of minors 0 and 1. */
static const struct {
	const char *name;
	uint32_t ordinal;
	const char *uuid, *pci; /* NULL: the runtime did not tell */
	struct zn_process_info process_info;
	const char *alone, *mixed;
} amd_cases[] = {
	{"all open", 2, NULL, NULL, {CLOSED, RENDERS(4, 131, 130, 129, 128)}, "2", "4"},
	{"all open, beyond", 4, NULL, NULL, {CLOSED, RENDERS(4, 128, 129, 130, 131)}, "unknown", "unknown"},
	{"two of them in a control group", 1, NULL, NULL, {CLOSED, RENDERS(2, 129, 131)}, "3", "5"},
	{"one of them in a control group", 0, NULL, NULL, {CLOSED, RENDERS(1, 130)}, "2", "4"},
	{"one of them, beyond", 1, NULL, NULL, {CLOSED, RENDERS(1, 130)}, "unknown", "unknown"},
	{"none is open", 0, NULL, NULL, {CLOSED}, "unknown", "unknown"},
	{"one of another driver's is open", 0, NULL, NULL, {CLOSED, RENDERS(1, 140)}, "unknown", "unknown"},
	{"visible 3,1", 0, NULL, NULL, {CLOSED, RENDERS(4, 128, 129, 130, 131), HIP(2, 3, 1)}, "3", "5"},
	{"visible 3,1, in a control group of two", 1, NULL, NULL, {CLOSED, RENDERS(2, 129, 131), HIP(2, 3, 1)}, "3",
		"5"},
	{"visible by number", 0, NULL, NULL,
		{CLOSED, RENDERS(4, 128, 129, 130, 131), HIP(1, -1), .hip.uuid = {"GPU-00000000000000a2"}}, "2", "4"},
	{"the number that it told", 0, "00000000000000a1", NULL, {CLOSED, RENDERS(4, 128, 129, 130, 131)}, "1", "3"},
	{"the address that it told", 0, NULL, "0000:c3:00.0", {CLOSED, RENDERS(4, 128, 129, 130, 131)}, "3", "5"},
	{"the number of one that is not open", 0, "00000000000000a1", NULL, {CLOSED, RENDERS(1, 131)}, "3", "5"},
	{"no context, one open", UNKNOWN, NULL, NULL, {CLOSED, RENDERS(1, 129)}, "1", "3"},
	{"no context, one visible", UNKNOWN, NULL, NULL, {CLOSED, RENDERS(4, 128, 129, 130, 131), HIP(1, 2)}, "2", "4"},
	{"CUDA's list is not HIP's", 0, NULL, NULL,
		{CLOSED, RENDERS(4, 128, 129, 130, 131), .cuda.set = true, .cuda.count = 1, .cuda.index = {1}}, "0",
		"2"},
	{"NVIDIA's open too", 1, NULL, NULL,
		{CLOSED, RENDERS(4, 128, 129, 130, 131), .minor_count = 2, .minors = {0, 1}}, "5", "1"},
	{"one of NVIDIA's, which have a list or none", 0, NULL, NULL, {CLOSED, .minor_count = 1, .minors = {0}}, "4",
		"0"},
	{"another number than the kernel has", 2, "00000000000000ff", "0000:c2:00.0",
		{CLOSED, RENDERS(4, 128, 129, 130, 131)}, "2", "4"},
	{"no number but text", 0, "GPU-XX\0\0\0\0\0\0\0\0\0", "0000:c0:00.0", {CLOSED, RENDERS(4, 128, 129, 130, 131)},
		"0", "2"},
};

static void list_of_both(uint32_t nvidia)
{
	gpus = (struct zn_gpus){.count = nvidia + 4, .listed = nvidia + 4, .nvidia = nvidia};
	for (uint32_t i = 0; i < gpus.count; i++) {
		struct zn_gpu *gpu = &gpus.gpu[i];
		uint32_t amd = i - nvidia;

		*gpu = (struct zn_gpu){.vendor = i < nvidia ? ZN_VENDOR_NVIDIA : ZN_VENDOR_AMD, .minor = (int)i};
		snprintf(gpu->id, sizeof(gpu->id), "%u", i);
		if (i < nvidia)
			continue;
		gpu->minor = (int)(128 + amd);
		snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-00000000000000a%u", amd);
		snprintf(gpu->pci, sizeof(gpu->pci), "0000:c%u:00.0", amd);
	}
}

static const char *amd_resolve(size_t i, uint32_t nvidia)
{
	static struct zn_proc p;
	struct zn_proc_gpu *told = &p.gpu[amd_cases[i].ordinal];
	int gpu;

	list_of_both(nvidia);
	memset(&p, 0, sizeof(p));
	if (amd_cases[i].uuid)
		memcpy(told->uuid, amd_cases[i].uuid, sizeof(told->uuid));
	if (amd_cases[i].pci)
		memcpy(told->pci, amd_cases[i].pci, strlen(amd_cases[i].pci));
	gpu = zn_gpus_resolve(&gpus, &p, &amd_cases[i].process_info, amd_cases[i].ordinal);
	return gpu < 0 ? "none" : gpus.gpu[gpu].id;
}

/* A process that has GPUs of both vendors open; by whose functions it calls. */
T(whose_functions_are_called_decides)
{
	static const struct {
		uint32_t calls, nvidia;
		const char *want;
	} vectors[] = {{0, 2, "0"}, {ZN_CALLS_CUDA, 2, "0"}, {ZN_CALLS_HIP, 2, "2"},
		{ZN_CALLS_CUDA | ZN_CALLS_HIP, 2, "0"}, {0, 0, "4"}, {ZN_CALLS_HIP, 0, "0"}};
	static const struct zn_process_info process_info = {
		.id = 1, .minor_count = 2, .minors = {0, 1}, RENDERS(4, 128, 129, 130, 131)};
	static struct zn_proc p;

	for (size_t i = 0; i < ZN_LEN(vectors); i++) {
		list_of_both(vectors[i].nvidia);
		p.calls = vectors[i].calls;
		CHECK_STR(gpus.gpu[zn_gpus_resolve(&gpus, &p, &process_info, 0)].id, vectors[i].want);
	}
}

/* No render node is in no set: from the 64th on they share a place. */
T(render_nodes_in_a_set)
{
	uint64_t set = 0;

	CHECK_EQ(ZN_RENDER_BIT(ZN_RENDER_FIRST - 1), 0);
	for (int i = 0; i < 64; i++) {
		CHECK_EQ(set & ZN_RENDER_BIT(ZN_RENDER_FIRST + i), 0);
		set |= ZN_RENDER_BIT(ZN_RENDER_FIRST + i);
	}
	CHECK_EQ(set, UINT64_MAX);
	for (int i = 64; i < 2000; i++)
		CHECK_EQ(ZN_RENDER_BIT(ZN_RENDER_FIRST + i), ZN_RENDER_BIT(ZN_RENDER_FIRST + 63));
}

/* The partitions of a GPU share its address, and the runtime's number for all of them may be one: what is open
 * decides. */
T(partitions_are_told_apart_by_what_is_open)
{
	static const struct zn_process_info process_info = {.id = 1, .render_count = 3, .renders = {130, 129, 131}};
	static struct zn_proc p;

	list_of_both(0);
	for (uint32_t i = 1; i < 4; i++)
		gpus.gpu[i].pci[0] = gpus.gpu[i].uuid[0] = 0;
	memset(&p, 0, sizeof(p));
	for (uint32_t i = 0; i < 3; i++) {
		memcpy(p.gpu[i].uuid, "00000000000000a0", sizeof(p.gpu[i].uuid));
		memcpy(p.gpu[i].pci, "0000:c0:00.0", 12);
	}
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(zn_gpus_resolve(&gpus, &p, &process_info, i), i + 1);
	CHECK_STR(gpus.gpu[zn_gpus_resolve(&gpus, &p, &process_info, 3)].id, "unknown");
}

/* What a process says of a GPU that the kernel lists changes nothing for others. */
T(the_kernel_is_believed_on_amd_gpus)
{
	struct zn_proc_gpu told = {.total_bytes = 7, .pci = "0000:99:00.0"};

	list_of_both(0);
	gpus.gpu[1].uuid[0] = 0;
	gpus.gpu[1].total_bytes = 1000;
	memcpy(told.uuid, "not hexadecimal!", sizeof(told.uuid));
	CHECK(zn_gpu_identify(&gpus.gpu[1], &told));
	CHECK_EQ(gpus.gpu[1].vendor, ZN_VENDOR_AMD);
	CHECK_EQ(gpus.gpu[1].total_bytes, 1000);
	CHECK_STR(gpus.gpu[1].pci, "0000:c1:00.0");
	CHECK_STR(gpus.gpu[1].uuid, "");
	gpus.gpu[0] = (struct zn_gpu){.id = "0", .vendor = ZN_VENDOR_NVIDIA, .minor = 0};
	memcpy(told.uuid, "00000000000000a1", sizeof(told.uuid));
	CHECK(zn_gpu_identify(&gpus.gpu[0], &told));
	CHECK_EQ(gpus.gpu[0].vendor, ZN_VENDOR_NVIDIA);
}

/* Eight GPUs with seven partitions each, none in use: as many GPUs as there are cards, and one entry is left. */
T(more_render_nodes_than_there_is_room_for)
{
	char command[256];

	snprintf(command, sizeof(command),
		"mkdir -p %s.many && cd %s.many && for i in $(seq 128 300); do mkdir -p d/0:$i renderD$i && "
		"ln -s ../d/0:$i renderD$i/device && ln -s /x/amdgpu d/0:$i/driver; done",
		root, root);
	CHECK_EQ(system(command), 0);
	snprintf(command, sizeof(command), "%s.many", root);
	zn_gpus_read(&gpus, "/nowhere", command);
	CHECK_EQ(gpus.listed, ZN_GPUS_MAX - 1);
	CHECK_EQ(gpus.gpu[0].minor, 128);
	CHECK_EQ(gpus.gpu[ZN_GPUS_MAX - 2].minor, 128 + ZN_GPUS_MAX - 2);
	snprintf(command, sizeof(command), "rm -r %s.many", root);
	CHECK_EQ(system(command), 0);
}

static void amd_ordinals(void)
{
	for (size_t i = 0; i < ZN_LEN(amd_cases); i++) {
		t_begin(amd_cases[i].name);
		CHECK_STR(amd_resolve(i, 0), amd_cases[i].alone);
		CHECK_STR(amd_resolve(i, 2), amd_cases[i].mixed);
	}
}

#define LIST(n, ...)                                                                                                   \
	{                                                                                                              \
		.set = true, .count = n, .index = { __VA_ARGS__ }                                                      \
	}

static const struct {
	const char *name;
	struct zn_visible hip, rocr;
	struct zn_visible want;
} lists[] = {
	{"nothing is said", {0}, {0}, {0}},
	{"HIP's alone", LIST(2, 3, 1), {0}, LIST(2, 3, 1)},
	{"the runtime's alone", {0}, LIST(2, 3, 1), LIST(2, 3, 1)},
	{"HIP's of the runtime's", LIST(2, 1, 0), LIST(3, 7, 5, 2), LIST(2, 5, 7)},
	{"HIP's beyond the runtime's", LIST(3, 1, 3, 0), LIST(3, 7, 5, 2), LIST(1, 5)},
	{"HIP's is empty", LIST(0), LIST(2, 3, 1), LIST(2, 3, 1)},
	{"the runtime's is empty", LIST(1, 0), LIST(0), LIST(0)},
	{"both are empty", LIST(0), {0}, {0}},
};

static void lists_of_lists(void)
{
	struct zn_visible got;

	for (size_t i = 0; i < ZN_LEN(lists); i++) {
		t_begin(lists[i].name);
		zn_visible_hip(&got, &lists[i].hip, &lists[i].rocr);
		CHECK_EQ(got.set, lists[i].want.set);
		CHECK_EQ(got.count, lists[i].want.count);
		for (uint8_t n = 0; n < got.count; n++)
			CHECK_EQ(got.index[n], lists[i].want.index[n]);
	}
}

T(a_number_behind_an_index)
{
	struct zn_visible hip = LIST(2, 1, -1), rocr = LIST(2, 4, -1), got;

	strcpy(hip.uuid[1], "GPU-a");
	strcpy(rocr.uuid[1], "GPU-b");
	zn_visible_hip(&got, &hip, &rocr);
	CHECK_EQ(got.count, 2);
	CHECK_EQ(got.index[0], -1);
	CHECK_STR(got.uuid[0], "GPU-b");
	CHECK_STR(got.uuid[1], "GPU-a");
}

/* One UUID of the tree by its number, as the driver tells it to a process. */
static void uuid_of(uint8_t uuid[16], uint8_t number)
{
	if (!number)
		return;
	uuid[0] = number;
	uuid[15] = 0xc0 + number;
}

/* All devices of the list are open, but for the first two. */
#define NAMES(n) .id = 1, .cuda.set = true, .cuda.count = n
#define OPEN     .minor_count = 3, .minors = {0, 1, 2}
#define FACTS    CLOSED, OPEN
#define SEES(n)  NAMES(n), OPEN
#define MIG      .instances = true
#define MIG_1    "MIG-1c4d5b7e-72b2-5a0f-b2cb-4f6c4fc5bf51"

/* Which GPU an ordinal means: with the driver's list, and without (NULL: not asked). */
static const struct {
	const char *name;
	uint32_t ordinal;
	uint8_t uuid;    /* 0: the driver did not tell */
	const char *pci; /* likewise NULL */
	struct zn_process_info process_info;
	const char *listed, *bare;
} cases[] = {
	{"ordinal alone", 1, 0, NULL, {FACTS}, "1", "1"},
	{"ordinal alone, beyond the list", 3, 0, NULL, {FACTS}, "unknown", "3"},
	{"facts gone", 1, 0, NULL, {.id = 1, .gone = true}, "unknown", "unknown"},
	{"facts of nobody", 1, 0, NULL, {0}, "unknown", "unknown"},
	{"facts gone, UUID known", 0, 3, NULL, {.gone = true}, "unknown", "GPU-03000000-0000-0000-0000-0000000000c3"},
	{"facts gone, PCI known", 0, 0, "0000:43:00.0", {.gone = true}, "unknown", "unknown"},
	{"PCI in other letters", 0, 0, "0000:9D:00.0", {.gone = true, OPEN}, "2", "unknown"},
	{"UUID decides over what is visible", 0, 1, NULL, {SEES(1), .cuda.index = {2}}, "0", "2"},
	{"PCI decides over what is visible", 0, 0, "0000:1b:00.0", {SEES(1), .cuda.index = {2}}, "0", "2"},
	{"UUID decides over PCI", 0, 3, "0000:1b:00.0", {FACTS}, "2", "0"},
	{"UUID that is not listed", 0, 9, NULL, {FACTS}, "unknown", "0"},
	{"UUID that is not listed, of an instance", 0, 9, NULL, {FACTS, MIG},
		"GPU-09000000-0000-0000-0000-0000000000c9", "0"},
	{"UUID, another device is open", 0, 1, NULL, {CLOSED, .minor_count = 2, .minors = {0, 1}}, "unknown", "0"},
	{"UUID, one other device is open", 0, 1, NULL, {CLOSED, .minor_count = 1, .minors = {0}}, "unknown", "0"},
	{"UUID, no device is open", 0, 1, NULL, {CLOSED}, "unknown", "0"},
	{"PCI, another device is open", 0, 0, "0000:1b:00.0", {CLOSED, .minor_count = 2, .minors = {0, 1}}, "unknown",
		"0"},
	{"ordinal, no device is open", 1, 0, NULL, {CLOSED}, "unknown", "1"},
	{"visible index, another device is open", 0, 0, NULL,
		{NAMES(1), .cuda.index = {2}, .minor_count = 2, .minors = {0, 2}}, "unknown", "2"},
	{"visible UUID, another device is open", 0, 0, NULL,
		{NAMES(1), .cuda.index = {-1}, .cuda.uuid = {"GPU-03"}, .minor_count = 2, .minors = {0, 2}}, "unknown",
		"GPU-03"},
	{"visible 2,3: first", 0, 0, NULL, {SEES(2), .cuda.index = {2, 1}}, "2", "2"},
	{"visible 2,3: second", 1, 0, NULL, {SEES(2), .cuda.index = {2, 1}}, "1", "1"},
	{"visible 2,3: ordinal beyond", 2, 0, NULL, {SEES(2), .cuda.index = {2, 1}}, "unknown", "unknown"},
	{"visible: index beyond the list", 0, 0, NULL, {SEES(1), .cuda.index = {7}}, "unknown", "7"},
	{"visible: nothing", 0, 0, NULL, {SEES(0)}, "unknown", "unknown"},
	{"visible: nothing, but the driver tells", 0, 2, NULL, {SEES(0)}, "1",
		"GPU-02000000-0000-0000-0000-0000000000c2"},
	{"visible: UUID", 0, 0, NULL,
		{SEES(1), .cuda.index = {-1}, .cuda.uuid = {"GPU-02000000-0000-0000-0000-0000000000c2"}}, "1",
		"GPU-02000000-0000-0000-0000-0000000000c2"},
	{"visible: beginning of a UUID", 0, 0, NULL, {SEES(1), .cuda.index = {-1}, .cuda.uuid = {"GPU-02"}}, "1",
		"GPU-02"},
	{"visible: UUID in capitals", 0, 0, NULL,
		{SEES(1), .cuda.index = {-1}, .cuda.uuid = {"GPU-03000000-0000-0000-0000-0000000000C3"}}, "2", NULL},
	{"visible: beginning of all UUIDs", 0, 0, NULL, {SEES(1), .cuda.index = {-1}, .cuda.uuid = {"GPU-0"}},
		"unknown", "GPU-0"},
	{"visible: MIG", 0, 0, NULL, {SEES(1), MIG, .cuda.index = {-1}, .cuda.uuid = {MIG_1}}, MIG_1, MIG_1},
	{"visible: MIG, and one GPU is open", 0, 0, NULL,
		{NAMES(1), MIG, .minor_count = 1, .minors = {2}, .cuda.index = {-1}, .cuda.uuid = {MIG_1}}, MIG_1,
		MIG_1},
	{"visible: MIG, none is open, and one GPU is", 0, 0, NULL,
		{NAMES(1), .minor_count = 1, .minors = {2}, .cuda.index = {-1}, .cuda.uuid = {MIG_1}}, "0", "2"},
	{"visible: MIG, none is open", 0, 0, NULL, {SEES(1), .cuda.index = {-1}, .cuda.uuid = {MIG_1}}, "unknown",
		MIG_1},
	{"visible: MIG, the driver says of which GPU", 0, 0, "0000:43:00.0",
		{SEES(1), MIG, .cuda.index = {-1}, .cuda.uuid = {MIG_1}}, "1", MIG_1},
	{"visible: MIG of old", 0, 0, NULL, {SEES(1), MIG, .cuda.index = {-1}, .cuda.uuid = {"MIG-GPU-0100/1/0"}},
		"MIG-GPU-0100/1/0", "MIG-GPU-0100/1/0"},
	{"visible: bytes that name nothing", 0, 0, NULL, {SEES(1), .cuda.index = {-1}, .cuda.uuid = {"GPU-\xff\"\n"}},
		"unknown", "unknown"},
	{"visible: UUID and index", 1, 0, NULL,
		{SEES(2), .cuda.index = {-1, 0}, .cuda.uuid = {"GPU-03000000-0000-0000-0000-0000000000c3"}}, "0", "0"},
	{"no context, one visible", UNKNOWN, 0, NULL, {SEES(1), .cuda.index = {2}}, "2", "2"},
	{"no context, one UUID visible", UNKNOWN, 0, NULL, {SEES(1), .cuda.index = {-1}, .cuda.uuid = {"GPU-03"}}, "2",
		"GPU-03"},
	{"no context, two visible", UNKNOWN, 0, NULL, {SEES(2), .cuda.index = {2, 1}}, "unknown", "unknown"},
	{"no context, nothing visible", UNKNOWN, 0, NULL, {SEES(0)}, "unknown", "unknown"},
	{"no context, nothing said", UNKNOWN, 0, NULL, {FACTS}, "unknown", "unknown"},
	{"no context, one device open", UNKNOWN, 0, NULL, {CLOSED, .minor_count = 1, .minors = {2}}, "0", "2"},
	{"no context, one device open that is not listed", UNKNOWN, 0, NULL, {CLOSED, .minor_count = 1, .minors = {9}},
		"unknown", "9"},
	{"no context, two devices open", UNKNOWN, 0, NULL, {CLOSED, .minor_count = 2, .minors = {1, 2}}, "unknown",
		"unknown"},
	{"no context, two visible and one open", UNKNOWN, 0, NULL,
		{NAMES(2), .cuda.index = {2, 1}, .minor_count = 1, .minors = {1}}, "2", "1"},
	{"no context, UUID of elsewhere", UNKNOWN, 3, NULL, {FACTS}, "unknown", "unknown"},
	{"no context, facts gone", UNKNOWN, 0, NULL, {.gone = true}, "unknown", "unknown"},
};

static const char *resolve(size_t i)
{
	static struct zn_proc p;
	int gpu, again;

	memset(&p, 0, sizeof(p));
	uuid_of(p.gpu[cases[i].ordinal].uuid, cases[i].uuid);
	if (cases[i].pci)
		memcpy(p.gpu[cases[i].ordinal].pci, cases[i].pci, strlen(cases[i].pci));
	gpu = zn_gpus_resolve(&gpus, &p, &cases[i].process_info, cases[i].ordinal);
	again = zn_gpus_resolve(&gpus, &p, &cases[i].process_info, cases[i].ordinal);
	CHECK_EQ(gpu, again);
	CHECK(gpu >= 0 && gpu < (int)gpus.count);
	return gpu < 0 ? "none" : gpus.gpu[gpu].id;
}

static void ordinals(void)
{
	for (size_t i = 0; i < ZN_LEN(cases); i++) {
		t_begin(cases[i].name);
		list();
		CHECK_STR(resolve(i), cases[i].listed);
		CHECK(gpus.count <= LISTED + 1);
		memset(&gpus, 0, sizeof(gpus));
		if (cases[i].bare)
			CHECK_STR(resolve(i), cases[i].bare);
	}
}

static struct zn_proc_gpu seen(uint8_t uuid, const char *pci, uint64_t total)
{
	struct zn_proc_gpu g = {.total_bytes = total};

	uuid_of(g.uuid, uuid);
	memcpy(g.pci, pci, strlen(pci));
	return g;
}

T(identify)
{
	struct zn_gpu gpu = {.id = "0", .minor = -1};
	struct zn_proc_gpu g = seen(0, "", 0);

	CHECK(zn_gpu_identify(&gpu, &g));
	CHECK(!gpu.uuid[0] && !gpu.pci[0] && !gpu.total_bytes);
	g = seen(2, "0000:43:00.0", 800);
	CHECK(zn_gpu_identify(&gpu, &g));
	CHECK_STR(gpu.uuid, "GPU-02000000-0000-0000-0000-0000000000c2");
	CHECK_STR(gpu.pci, "0000:43:00.0");
	CHECK_EQ(gpu.total_bytes, 800);
	g = seen(0, "", 0);
	CHECK(zn_gpu_identify(&gpu, &g));
	CHECK_EQ(gpu.total_bytes, 800);
}

T(identify_refuses_another_gpu)
{
	struct zn_gpu gpu = {.uuid = "gpu-02000000-0000-0000-0000-0000000000C2", .pci = "0000:43:00.0"};
	struct zn_proc_gpu g = seen(3, "0000:43:00.0", 800);

	CHECK(!zn_gpu_identify(&gpu, &g));
	CHECK_EQ(gpu.total_bytes, 0);
	g = seen(0, "0000:44:00.0", 800);
	CHECK(!zn_gpu_identify(&gpu, &g));
	CHECK_EQ(gpu.total_bytes, 0);
	g = seen(2, "", 800);
	CHECK(zn_gpu_identify(&gpu, &g));
	CHECK_EQ(gpu.total_bytes, 800);
	g = seen(0, "0000:43:00.0", 900);
	CHECK(zn_gpu_identify(&gpu, &g));
	CHECK_EQ(gpu.total_bytes, 900);
}

T(a_pci_address_without_its_end)
{
	struct zn_gpu gpu = {.id = "0"};
	struct zn_proc_gpu g = seen(0, "0123456789abcdef", 1);

	CHECK(zn_gpu_identify(&gpu, &g));
	CHECK_STR(gpu.pci, "0123456789abcde");
}

/* Two containers without the driver's list, each with its own GPU 0. */
T(two_gpus_of_one_ordinal)
{
	static struct zn_proc a, b;
	struct zn_process_info process_info = {FACTS};
	int first, second;

	memset(&gpus, 0, sizeof(gpus));
	a.gpu[0] = seen(1, "0000:1b:00.0", 0);
	b.gpu[0] = seen(2, "0000:43:00.0", 0);
	first = zn_gpus_resolve(&gpus, &a, &process_info, 0);
	second = zn_gpus_resolve(&gpus, &b, &process_info, 0);
	CHECK_STR(gpus.gpu[first].id, "0");
	CHECK_STR(gpus.gpu[second].id, "GPU-02000000-0000-0000-0000-0000000000c2");
	memset(b.gpu[0].uuid, 0, 16);
	CHECK_EQ(zn_gpus_resolve(&gpus, &b, &process_info, 0), second);
	memset(&gpus, 0, sizeof(gpus));
	first = zn_gpus_resolve(&gpus, &a, &process_info, 0);
	second = zn_gpus_resolve(&gpus, &b, &process_info, 0);
	CHECK_STR(gpus.gpu[first].id, "0");
	CHECK(second >= 0 && zn_gpu_unknown(&gpus.gpu[second]));
}

static int name_by(uint32_t owner, bool instances, const char *name)
{
	static struct zn_proc p;
	struct zn_process_info process_info = {NAMES(1), .cuda.index = {-1}, .instances = instances, .owner = owner};

	snprintf(process_info.cuda.uuid[0], sizeof(process_info.cuda.uuid[0]), "%s", name);
	return zn_gpus_resolve(&gpus, &p, &process_info, 0);
}

/* How many of a hundred names are not the unknown GPU. */
static int names_of(uint32_t owner, bool instances)
{
	char name[44];
	int n = 0;

	for (int i = 0; i < 100; i++) {
		int gpu;

		snprintf(name, sizeof(name), "MIG-%u-%d", owner, i);
		gpu = name_by(owner, instances, name);
		CHECK(gpu >= 0);
		n += gpu >= 0 && !zn_gpu_unknown(&gpus.gpu[gpu]);
	}
	return n;
}

/* The last entry is for what cannot be told. */
T(a_full_table)
{
	static struct zn_proc p;
	struct zn_process_info process_info = {NAMES(1)};
	int unknown;

	memset(&gpus, 0, sizeof(gpus));
	for (int i = 0; i < ZN_GPUS_MAX - 1; i++) {
		process_info.cuda.index[0] = i;
		CHECK_EQ(zn_gpus_resolve(&gpus, &p, &process_info, 0), i);
	}
	process_info.cuda.index[0] = ZN_GPUS_MAX;
	unknown = zn_gpus_resolve(&gpus, &p, &process_info, 0);
	CHECK(unknown == ZN_GPUS_MAX - 1 && zn_gpu_unknown(&gpus.gpu[unknown]));
	CHECK_EQ(zn_gpus_resolve(&gpus, &p, &process_info, UNKNOWN), unknown);
	uuid_of(p.gpu[0].uuid, 5);
	CHECK_EQ(zn_gpus_resolve(&gpus, &p, &process_info, 0), unknown);
	CHECK_EQ(gpus.count, ZN_GPUS_MAX);
	process_info.cuda.index[0] = 6;
	memset(p.gpu[0].uuid, 0, 16);
	CHECK_EQ(zn_gpus_resolve(&gpus, &p, &process_info, 0), 6);
}

T(names_of_users_have_shares)
{
	static const bool none[ZN_GPUS_MAX];

	memset(&gpus, 0, sizeof(gpus));
	CHECK_EQ(names_of(1000, false), ZN_GPU_NAMES);
	CHECK_EQ(names_of(1001, false), ZN_GPU_NAMES);
	CHECK_EQ(name_by(1002, false, "MIG-mine"), (int)gpus.count - 1);
	CHECK(names_of(ZN_OWNER_ROOT, false) > ZN_GPU_NAMES);
	CHECK(gpus.quota.refused > 0);
	zn_gpus_forget(&gpus, none);
	CHECK_EQ(gpus.count, 0);
	CHECK_EQ(gpus.quota.used, 0);
	CHECK_EQ(names_of(1000, false), ZN_GPU_NAMES);
}

/* Who has MIG instances may have many, and they are his. */
T(instances_on_a_node_with_a_list)
{
	int mine;

	list();
	CHECK_EQ(names_of(1000, false), 0);
	CHECK_EQ(names_of(1000, true), (ZN_GPUS_MAX - 1 - LISTED) / 2);
	mine = name_by(1001, true, "MIG-mine");
	CHECK_STR(gpus.gpu[mine].id, "MIG-mine");
	CHECK_EQ(name_by(1001, true, "MIG-mine"), mine);
	CHECK(zn_gpu_unknown(&gpus.gpu[name_by(1002, true, "MIG-mine")]));
	CHECK_EQ(name_by(ZN_OWNER_ROOT, false, "MIG-mine"), mine);
}

/* ---- Open devices. Those of memory stand for GPUs: 3, 5 and 7 are null, zero and full. ---- */

#define MEMORY 1

static const struct {
	const char *name, *path;
	uint32_t major, minor; /* 0: a regular file */
	int flags;
	bool open;
} devices[] = {
	{"device", "/dev/nvidia3", MEMORY, 3, O_RDWR, true},
	{"device, to read", "/dev/nvidia5", MEMORY, 5, O_RDONLY, true},
	{"device, to write", "/dev/nvidia7", MEMORY, 7, O_WRONLY, true},
	{"device under another name", "/tmp/anything", MEMORY, 3, O_RDWR, true},
	{"device that is only looked up", "/dev/nvidia3", MEMORY, 3, O_PATH, false},
	{"file", "/dev/nvidia3", 0, 0, O_RDWR, false},
};

static void device_is(size_t i, const struct zn_gpu_files *of, enum zn_gpu_file want)
{
	mode_t type = devices[i].major ? S_IFCHR : S_IFREG;
	int fd, dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
	uint32_t minor = 999;
	char name[16];

	CHECK_EQ(mknod(devices[i].path, type | 0600, makedev(devices[i].major, devices[i].minor)), 0);
	fd = open(devices[i].path, devices[i].flags);
	CHECK(fd >= 0);
	snprintf(name, sizeof(name), "%d", fd);
	CHECK_EQ(zn_gpu_file(of, dir, name, &minor), (int)want);
	if (want)
		CHECK_EQ(minor, devices[i].minor);
	close(fd);
	close(dir);
	unlink(devices[i].path);
}

/* In a file system of the test's own in place of /dev, as a user may have one. */
static void open_devices(void)
{
	static const struct zn_gpu_files memory = {.gpu = MEMORY}, instances = {ZN_NVIDIA_MAJOR, MEMORY, false},
					 others = {.gpu = ZN_NVIDIA_MAJOR};

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("none", "/dev", "tmpfs", 0, NULL) || mount("none", "/tmp", "tmpfs", 0, NULL)) {
		printf("absent: open devices: %s\n", strerror(errno));
		return;
	}
	for (size_t i = 0; i < ZN_LEN(devices); i++) {
		t_begin(devices[i].name);
		device_is(i, &memory, devices[i].open ? ZN_GPU_FILE_GPU : ZN_GPU_FILE_NONE);
		device_is(i, &instances, devices[i].open ? ZN_GPU_FILE_INSTANCE : ZN_GPU_FILE_NONE);
		device_is(i, &others, ZN_GPU_FILE_NONE);
	}
}

T(majors_of_devices)
{
	char path[] = "/tmp/proc_test.XXXXXX";
	int fd = mkstemp(path);

	dprintf(fd,
		"Character devices:\n  1 mem\n195 nvidia-frontend\n510 nvidia-caps\n\nBlock devices:\n259 nvidia-caps\n");
	close(fd);
	CHECK_EQ(zn_gpu_files_read(path).gpu, 195);
	CHECK_EQ(zn_gpu_files_read(path).instance, 510);
	unlink(path);
	CHECK_EQ(zn_gpu_files_read(path).gpu, 195);
	CHECK_EQ(zn_gpu_files_read(path).instance, 0);
}

/* Slurm counts instances like GPUs, so that its numbers are no indices as long as there is one. */
T(numbers_on_a_node_with_instances)
{
	static const char *const folders[] = {
		"gpus", "capabilities", "capabilities/gpu1", "capabilities/gpu1/mig", "capabilities/gpu1/mig/gi1"};
	char list[256], path[256];

	for (size_t i = 0; i < ZN_LEN(folders); i++) {
		path_of(path, folders[i], "");
		CHECK_EQ(mkdir(path, 0700), 0);
	}
	path_of(list, "gpus", "");
	put("gpus/0000:1b:00.0", "Device Minor: 0\n");
	put("gpus/0000:43:00.0", "Device Minor: 1\n");
	zn_gpus_read(&gpus, list, "/nowhere");
	CHECK_EQ(gpus.nvidia, 2);
	CHECK(!zn_gpus_numbered(&gpus));
	rmdir(path); /* the instance */
	CHECK(zn_gpus_numbered(&gpus));
	take("gpus/0000:1b:00.0");
	take("gpus/0000:43:00.0");
	for (size_t i = ZN_LEN(folders) - 1; i; i--) {
		path_of(path, folders[i - 1], "");
		CHECK_EQ(rmdir(path), 0);
	}
	CHECK(zn_gpus_numbered(&gpus)); /* the driver was unloaded */
}

int main(void)
{
	if (!mkdtemp(root))
		abort();
	RUN(the_list_is_in_pci_order);
	RUN(no_driver);
	broken_files();
	RUN(a_file_of_many_bytes);
	RUN(more_gpus_than_there_is_room_for);
	RUN(a_list_that_comes_later);
	RUN(uuid_as_text);
	RUN(amd_uuid_as_text);
	RUN(amd_gpus_are_listed_by_their_render_nodes);
	RUN(an_amd_driver_that_is_loaded_later);
	RUN(a_number_behind_an_index);
	ordinals();
	amd_ordinals();
	RUN(whose_functions_are_called_decides);
	RUN(render_nodes_in_a_set);
	RUN(partitions_are_told_apart_by_what_is_open);
	RUN(the_kernel_is_believed_on_amd_gpus);
	RUN(more_render_nodes_than_there_is_room_for);
	lists_of_lists();
	RUN(identify);
	RUN(identify_refuses_another_gpu);
	RUN(a_pci_address_without_its_end);
	RUN(two_gpus_of_one_ordinal);
	RUN(a_full_table);
	RUN(names_of_users_have_shares);
	RUN(instances_on_a_node_with_a_list);
	RUN(majors_of_devices);
	RUN(numbers_on_a_node_with_instances);
	rmdir(root);
	open_devices(); /* the last one, as it has mounts of its own from there on */
	return t_end();
}
