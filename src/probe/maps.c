/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The list of BPF maps that all objects share: their names, their sizes on this machine, what they cost, and how the daemon
 * has the large ones as memory.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const map_name[ZN_MAP_COUNT] = {".bss", "procs", "hists", "free_rows", "free_hists", "events",
	"rows", "seats", "threads", "allocs", "ctxs", "comms", "streams", "skews", "jobs", "free_jobs", "job_names",
	"cgroups", "tasks", "io_rows", "coarse_hists", "free_coarse", "calls", "sends", "socks", "io_seats",
	"io_requests", "aios", "runs", "opens", "workers", "spilled"};

/* NULL: the object lacks it, or has variables besides struct zn_shared. */
static struct bpf_map *map_of(struct bpf_object *o, enum zn_map m)
{
	struct bpf_map *map = bpf_object__find_map_by_name(o, map_name[m]);

	return map && (m != ZN_MAP_SHARED || bpf_map__value_size(map) == sizeof(struct zn_shared)) ? map : NULL;
}

/* Hands the maps that exist already to a further object, so that all families share them. */
int zn_bpf_map_share(const struct zn_probe *p, struct bpf_object *o)
{
	int err = 0;

	for (int i = 0; i < ZN_MAP_COUNT && !err; i++) {
		struct bpf_map *map = map_of(o, i);

		err = map ? bpf_map__reuse_fd(map, p->map_fd[i]) : -ENOENT;
	}
	return err;
}

int zn_bpf_map_keep(struct zn_probe *p, struct bpf_object *o)
{
	for (int i = 0; i < ZN_MAP_COUNT; i++) {
		struct bpf_map *map = map_of(o, i);

		p->map_fd[i] = map ? zn_fd_keep(bpf_map__fd(map)) : -1;
		if (p->map_fd[i] < 0)
			return -ENOENT;
	}
	return 0;
}

/* Tables of which a node uses a small part. A kernel whose BPF has an allocator of its own (6.1 on) takes their memory as
 * it is used, up to the same limits; before, that could stall a program, so there they are whole from the start. */
static const enum zn_map sparse[] = {ZN_MAP_ALLOCS, ZN_MAP_CTXS, ZN_MAP_COMMS, ZN_MAP_STREAMS, ZN_MAP_CGROUPS,
	ZN_MAP_TASKS, ZN_MAP_THREADS, ZN_MAP_SPILLED, ZN_MAP_WORKERS};

int zn_bpf_map_sparse(struct zn_probe *p, struct bpf_object *o)
{
	struct btf *kernel = btf__load_vmlinux_btf();
	int err = 0;

	p->grows = kernel && btf__find_by_name_kind(kernel, "bpf_mem_alloc", BTF_KIND_STRUCT) > 0;
	p->has_images = kernel && btf__find_by_name_kind(kernel, "bpf_tramp_image", BTF_KIND_STRUCT) > 0;
	p->keeps_shadow = kernel && btf__find_by_name_kind(kernel, "shstk_update_last_frame", BTF_KIND_FUNC) > 0;
	btf__free(kernel);
	for (size_t i = 0; p->grows && i < ZN_LEN(sparse) && !err; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(o, map_name[sparse[i]]);

		err = map ? bpf_map__set_map_flags(map, BPF_F_NO_PREALLOC) : -ENOENT;
	}
	return err;
}

#define LIBRARIES (1u << ZN_FAM_GPU_MEM | 1u << ZN_FAM_CUDA_TRACE | 1u << ZN_FAM_NCCL)
#define FILES     (1u << ZN_FAM_VFS | 1u << ZN_FAM_META)

/* Tables of processes that call a hooked library, and what else only some families need: who has none of them has one entry
 * of it. */
static const struct {
	enum zn_map map;
	uint32_t families;
} needed[] = {{ZN_MAP_PROCS, LIBRARIES}, {ZN_MAP_ROWS, LIBRARIES}, {ZN_MAP_SEATS, LIBRARIES},
	{ZN_MAP_ALLOCS, 1 << ZN_FAM_GPU_MEM}, {ZN_MAP_CTXS, 1 << ZN_FAM_GPU_MEM}, {ZN_MAP_COMMS, 1 << ZN_FAM_NCCL},
	{ZN_MAP_SKEWS, 1 << ZN_FAM_NCCL}, {ZN_MAP_STREAMS, 1 << ZN_FAM_CUDA_TRACE}, {ZN_MAP_CALLS, LIBRARIES},
	{ZN_MAP_SENDS, LIBRARIES}, {ZN_MAP_SOCKS, LIBRARIES}, {ZN_MAP_OPENS, LIBRARIES}, {ZN_MAP_IO_ROWS, FILES},
	{ZN_MAP_COARSE, FILES}, {ZN_MAP_IO_SEATS, FILES}, {ZN_MAP_IO_REQUESTS, FILES}, {ZN_MAP_AIOS, FILES}};

static int table_size(struct bpf_object *o, enum zn_map m, uint32_t entries)
{
	struct bpf_map *map = bpf_object__find_map_by_name(o, map_name[m]);

	return map ? bpf_map__set_max_entries(map, entries) : -ENOENT;
}

/* Tables whose size follows from the machine, and those that nobody will use. A kernel that is too old tracks no process. */
int zn_bpf_map_sizes(struct zn_probe *p, struct bpf_object *o)
{
	struct zn_sizes s = zn_sizes(p->cpus, p->grows);
	uint64_t on = p->old ? p->families & ~(uint64_t)LIBRARIES : p->families;
	bool follows = (on & LIBRARIES) && (on >> ZN_FAM_SCHED & 1);
	int err = 0;

	p->sizes = s;
	for (size_t i = 0; i < ZN_LEN(needed) && !err; i++)
		if (!(on & needed[i].families))
			err = table_size(o, needed[i].map, 1);
	if (!err && (on & LIBRARIES))
		err = table_size(o, ZN_MAP_THREADS, ZN_THREADS_MAX + ZN_LAUNCHES_MAX);
	if (!err && follows)
		err = table_size(o, ZN_MAP_RUNS, s.runs / ZN_SCHED_WAYS);
	if (!err && follows)
		err = table_size(o, ZN_MAP_SPILLED, ZN_SPILLED_MAX + ZN_RESERVED_MAX);
	return err || !follows ? err : table_size(o, ZN_MAP_WORKERS, ZN_WORKERS_MAX);
}

/* Tables that are mapped as their rows are used: the kernel fills a mapping of a table at once. */
static const struct {
	size_t size, count;
} rows[ZN_MAP_COUNT] = {
	[ZN_MAP_PROCS] = {sizeof(struct zn_proc), ZN_PROCS_MAX},
	[ZN_MAP_HISTS] = {sizeof(struct zn_hist), ZN_HISTS_MAX},
	[ZN_MAP_JOBS] = {sizeof(struct zn_job_shared), ZN_JOBS_MAX},
	[ZN_MAP_SKEWS] = {sizeof(struct zn_skew), ZN_SKEWS_MAX},
	[ZN_MAP_OPENS] = {sizeof(struct zn_thread_states), ZN_PROCS_MAX},
	[ZN_MAP_COARSE] = {sizeof(struct zn_coarse_hist), ZN_IO_MAX},
};

/* Maps the pages that hold a row of a table at base, and sets the bits of all rows that lie in them as a whole. */
int zn_bpf_map_row(const struct zn_probe *p, enum zn_map m, void *base, uint8_t *bits, size_t row)
{
	size_t page = sysconf(_SC_PAGESIZE), size = rows[m].size, from = row * size / page * page;
	size_t to = ((row + 1) * size + page - 1) / page * page;
	void *got = mmap(
		(char *)base + from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->map_fd[m], from);

	if (got == MAP_FAILED)
		return -errno;
	for (size_t i = (from + size - 1) / size; i < rows[m].count && (i + 1) * size <= to; i++)
		bits[i / 8] |= 1 << (i % 8);
	return 0;
}

/* What goes on in a process's threads; NULL: it cannot be mapped. */
struct zn_thread_states *zn_bpf_map_opens(struct zn_probe *p, uint32_t row)
{
	bool mapped = p->opens_mapped[row / 8] >> (row % 8) & 1;

	return mapped || zn_bpf_map_row(p, ZN_MAP_OPENS, p->opens, p->opens_mapped, row) == 0 ? &p->opens[row] : NULL;
}

/* Room for a table's rows. NULL with errno. */
void *zn_bpf_map_reserve(enum zn_map m)
{
	void *at =
		mmap(NULL, rows[m].size * rows[m].count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

void zn_bpf_map_unreserve(enum zn_map m, void *at)
{
	if (at)
		munmap(at, rows[m].size * rows[m].count);
}

/* What belongs together in a table's account. */
static const enum zn_map_group group_of[ZN_MAP_COUNT] = {[ZN_MAP_HISTS] = ZN_MAPS_HISTOGRAMS,
	[ZN_MAP_FREE_HISTS] = ZN_MAPS_HISTOGRAMS,
	[ZN_MAP_PROCS] = ZN_MAPS_PROCESSES,
	[ZN_MAP_FREE_ROWS] = ZN_MAPS_PROCESSES,
	[ZN_MAP_ROWS] = ZN_MAPS_PROCESSES,
	[ZN_MAP_SEATS] = ZN_MAPS_THREADS,
	[ZN_MAP_THREADS] = ZN_MAPS_THREADS,
	[ZN_MAP_SENDS] = ZN_MAPS_THREADS,
	[ZN_MAP_CALLS] = ZN_MAPS_THREADS,
	[ZN_MAP_RUNS] = ZN_MAPS_THREADS,
	[ZN_MAP_SPILLED] = ZN_MAPS_THREADS,
	[ZN_MAP_OPENS] = ZN_MAPS_THREADS,
	[ZN_MAP_WORKERS] = ZN_MAPS_THREADS,
	[ZN_MAP_ALLOCS] = ZN_MAPS_LEDGER,
	[ZN_MAP_CTXS] = ZN_MAPS_LEDGER,
	[ZN_MAP_COMMS] = ZN_MAPS_LEDGER,
	[ZN_MAP_STREAMS] = ZN_MAPS_LEDGER,
	[ZN_MAP_SKEWS] = ZN_MAPS_LEDGER,
	[ZN_MAP_JOBS] = ZN_MAPS_JOBS,
	[ZN_MAP_FREE_JOBS] = ZN_MAPS_JOBS,
	[ZN_MAP_JOB_NAMES] = ZN_MAPS_JOBS,
	[ZN_MAP_CGROUPS] = ZN_MAPS_JOBS,
	[ZN_MAP_TASKS] = ZN_MAPS_JOBS,
	[ZN_MAP_IO_ROWS] = ZN_MAPS_FILES,
	[ZN_MAP_COARSE] = ZN_MAPS_FILES,
	[ZN_MAP_FREE_COARSE] = ZN_MAPS_FILES,
	[ZN_MAP_IO_SEATS] = ZN_MAPS_FILES,
	[ZN_MAP_IO_REQUESTS] = ZN_MAPS_FILES,
	[ZN_MAP_AIOS] = ZN_MAPS_FILES};

/* Entries of a hash that takes its memory as it is used come from the sizes that the kernel has (kernel/bpf/memalloc.c), each
 * with a head of 48 bytes; there is a list of 16 bytes for each of a power of two of entries. */
static uint64_t sparse_bytes(const struct bpf_map_info *info)
{
	static const uint32_t size[] = {64, 96, 128, 192, 256, 512, 1024};
	uint32_t entry = 48 + (info->key_size + 7) / 8 * 8 + (info->value_size + 7) / 8 * 8, i = 0, lists = 1;

	while (i + 1 < ZN_LEN(size) && size[i] < entry)
		i++;
	while (lists < info->max_entries)
		lists *= 2;
	return (uint64_t)info->max_entries * size[i] + 16ULL * lists;
}

static uint64_t map_bytes(int fd)
{
	uint64_t bytes = 0, found;
	char path[48], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "memlock: %lu", &found) == 1)
			bytes = found;
	if (f)
		fclose(f);
	return bytes;
}

struct zn_map_bytes zn_bpf_map_bytes(const struct zn_probe *p)
{
	struct zn_map_bytes b = {0};

	for (int i = 0; i < ZN_MAP_COUNT; i++) {
		struct bpf_map_info info = {0};
		uint32_t len = sizeof(info);
		uint64_t now = map_bytes(p->map_fd[i]), most = now;

		if (bpf_obj_get_info_by_fd(p->map_fd[i], &info, &len) == 0 && info.map_flags & BPF_F_NO_PREALLOC)
			most = sparse_bytes(&info);
		b.now += now;
		b.most += most > now ? most : now;
		b.group[group_of[i]] += now;
	}
	return b;
}
