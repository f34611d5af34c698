/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The BPF maps that all objects share (ZN_MAPS): their sizes on this machine, what they cost, how the daemon has the
 * large ones as memory, and how it reads hashes.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ZN_NEEDS_ALL        (~0u)
#define ZN_NEEDS_GPU_MEM    (1u << ZN_FAM_GPU_MEM)
#define ZN_NEEDS_CUDA_TRACE (1u << ZN_FAM_CUDA_TRACE)
#define ZN_NEEDS_NCCL       (1u << ZN_FAM_NCCL)
#define ZN_NEEDS_LIBRARIES  (ZN_NEEDS_GPU_MEM | ZN_NEEDS_CUDA_TRACE | ZN_NEEDS_NCCL)
#define ZN_NEEDS_STACKS     (1u << ZN_FAM_STACKS)
#define ZN_NEEDS_REQUESTS   (1u << ZN_FAM_REQUESTS)
#define ZN_NEEDS_FILES      (1u << ZN_FAM_VFS | 1u << ZN_FAM_META)

enum kind { ARRAY, MAPPED, HASH, SPARSE, STACK, PERCPU, PENDING, PROGS };

static const struct {
	const char *name;
	uint32_t families;
	enum zn_map_group group;
	enum kind kind;
	enum zn_swept swept;
	size_t key_bytes, value_bytes, entries;
} maps[ZN_MAP_COUNT] = {[ZN_MAP_SHARED] = {.name = ".bss", .families = ZN_NEEDS_ALL},
	[ZN_MAP_EVENTS] = {.name = "events", .families = ZN_NEEDS_ALL},
#define X(NAME, name, kind, entries, key, value, group, needs, swept)                                                  \
	[ZN_MAP_##NAME] = {#name, ZN_NEEDS_##needs, ZN_MAPS_##group, kind, ZN_SWEPT_##swept, sizeof(key),              \
		sizeof(value), entries},
	ZN_MAPS(X)
#undef X
};

enum zn_swept zn_bpf_map_swept(enum zn_map m)
{
	return maps[m].swept;
}

/* NULL: the object lacks it, or has variables besides struct zn_shared. */
static struct bpf_map *map_of(struct bpf_object *o, enum zn_map m)
{
	struct bpf_map *map = bpf_object__find_map_by_name(o, maps[m].name);

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

/* A kernel whose BPF has an allocator of its own (6.1 on) takes the memory of tables of which a node uses a small
 * part as it is used, up to the same limits; before, that could stall a program, so there they are whole from the
 * start. */
int zn_bpf_map_sparse(struct zn_probe *p, struct bpf_object *o)
{
	struct btf *kernel = btf__load_vmlinux_btf();
	int err = 0;

	p->grows = kernel && btf__find_by_name_kind(kernel, "bpf_mem_alloc", BTF_KIND_STRUCT) > 0;
	p->has_images = kernel && btf__find_by_name_kind(kernel, "bpf_tramp_image", BTF_KIND_STRUCT) > 0;
	p->keeps_shadow = kernel && btf__find_by_name_kind(kernel, "shstk_update_last_frame", BTF_KIND_FUNC) > 0;
	btf__free(kernel);
	for (enum zn_map m = 0; p->grows && m < ZN_MAP_COUNT && !err; m++) {
		struct bpf_map *map = maps[m].kind == SPARSE ? bpf_object__find_map_by_name(o, maps[m].name) : NULL;

		if (maps[m].kind == SPARSE)
			err = map ? bpf_map__set_map_flags(map, BPF_F_NO_PREALLOC) : -ENOENT;
	}
	return err;
}

static int table_size(struct bpf_object *o, enum zn_map m, uint32_t entries)
{
	struct bpf_map *map = bpf_object__find_map_by_name(o, maps[m].name);

	return map ? bpf_map__set_max_entries(map, entries) : -ENOENT;
}

/* Tables whose size follows from the machine, and those that nobody will use. A kernel that is too old tracks no
 * process. */
int zn_bpf_map_sizes(struct zn_probe *p, struct bpf_object *o)
{
	struct zn_sizes s = zn_sizes(p->cpus, p->grows);
	uint64_t on = p->old ? p->families & ~(uint64_t)ZN_NEEDS_LIBRARIES : p->families;
	bool follows = (on & ZN_NEEDS_LIBRARIES) && (on >> ZN_FAM_SCHED & 1);
	int err = 0;

	p->sizes = s;
	for (enum zn_map i = 0; i < ZN_MAP_COUNT && !err; i++)
		if (maps[i].families != ZN_NEEDS_ALL && !(on & maps[i].families))
			err = table_size(o, i, 1);
	if (!err && (on & ZN_NEEDS_LIBRARIES))
		err = table_size(o, ZN_MAP_THREADS, ZN_THREADS_MAX + ZN_LAUNCHES_MAX);
	if (!err && follows)
		err = table_size(o, ZN_MAP_SCHED_SETS, s.sched_entries / ZN_SCHED_WAYS);
	if (!err && follows)
		err = table_size(o, ZN_MAP_SPILLED, ZN_SPILLED_MAX + ZN_RESERVED_MAX);
	return err || !follows ? err : table_size(o, ZN_MAP_WORKERS, ZN_WORKERS_MAX);
}

/* Tables are mapped as their rows are used: the kernel fills a mapping of a table at once. */

/* Maps the pages that hold a row of a table at base, and sets the bits of all rows that lie in them as a whole. */
int zn_bpf_map_row(const struct zn_probe *p, enum zn_map m, void *base, uint8_t *bits, size_t row)
{
	size_t page = sysconf(_SC_PAGESIZE), size = maps[m].value_bytes, from = row * size / page * page;
	size_t to = ((row + 1) * size + page - 1) / page * page;
	void *got = mmap(
		(char *)base + from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->map_fd[m], from);

	if (got == MAP_FAILED)
		return -errno;
	for (size_t i = (from + size - 1) / size; i < maps[m].entries && (i + 1) * size <= to; i++)
		bits[i / 8] |= 1 << (i % 8);
	return 0;
}

/* What goes on in a process's threads; NULL: it cannot be mapped. */
struct zn_thread_states *zn_bpf_map_thread_states(struct zn_probe *p, uint32_t row)
{
	bool mapped = p->states_mapped[row / 8] >> (row % 8) & 1;

	return mapped || zn_bpf_map_row(p, ZN_MAP_THREAD_STATES, p->thread_states, p->states_mapped, row) == 0
		? &p->thread_states[row]
		: NULL;
}

/* Room for a table's rows. NULL with errno. */
void *zn_bpf_map_reserve(enum zn_map m)
{
	void *at = mmap(NULL, maps[m].value_bytes * maps[m].entries, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

void zn_bpf_map_unreserve(enum zn_map m, void *at)
{
	if (at)
		munmap(at, maps[m].value_bytes * maps[m].entries);
}

/* Entries of a hash that takes its memory as it is used come from the sizes that the kernel has
 * (kernel/bpf/memalloc.c), each with a head of 56 bytes; there is a list of 16 bytes for each of a power of two of
 * entries. */
static uint64_t sparse_bytes(const struct bpf_map_info *info)
{
	static const uint32_t size[] = {64, 96, 128, 192, 256, 512, 1024};
	uint32_t entry = 56 + (info->key_size + 7) / 8 * 8 + (info->value_size + 7) / 8 * 8, i = 0, lists = 1;

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
		b.group[maps[i].group] += now;
	}
	return b;
}

/* ---- hashes, in pieces ---- */

#define BATCH     512
#define KEY_MAX   32
#define VALUE_MAX 128
static char batch_key[BATCH * KEY_MAX], batch_value[BATCH * VALUE_MAX];
#define X(NAME, name, kind, entries, key, value, group, needs, swept)                                                  \
	_Static_assert(                                                                                                \
		ZN_SWEPT_##swept == ZN_SWEPT_NOT || (sizeof(key) <= KEY_MAX && sizeof(value) <= VALUE_MAX), #name);
ZN_MAPS(X)
#undef X

/* A hash of larger entries is not for this, and shows none. */
struct zn_batch zn_batch_begin(const struct zn_probe *p, enum zn_map m)
{
	return (struct zn_batch){.fd = p->map_fd[m],
		.key_bytes = maps[m].key_bytes,
		.value_bytes = maps[m].value_bytes,
		.over = maps[m].key_bytes > KEY_MAX || maps[m].value_bytes > VALUE_MAX};
}

bool zn_batch_next(struct zn_batch *b)
{
	uint32_t next = 0;
	int err;

	if (b->over)
		return false;
	b->count = BATCH;
	err = bpf_map_lookup_batch(b->fd, b->begun ? &b->at : NULL, &next, batch_key, batch_value, &b->count, NULL);
	b->at = next;
	b->begun = true;
	b->over = err != 0;
	if (err && err != -ENOENT)
		b->count = 0;
	return true;
}

const void *zn_batch_key(const struct zn_batch *b, uint32_t i)
{
	return batch_key + i * b->key_bytes;
}

const void *zn_batch_value(const struct zn_batch *b, uint32_t i)
{
	return batch_value + i * b->value_bytes;
}
