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

enum kind { ARRAY, MAPPED, HASH, SPARSE, STACK, PENDING, PROGS, RING };

static const struct {
	const char *name;
	uint32_t families;
	enum zn_map_group group;
	enum kind kind;
	enum zn_swept swept;
	size_t key_bytes, value_bytes, entries;
} maps[ZN_MAP_COUNT] = {[ZN_MAP_SHARED] = {.name = ".bss",
				.families = ZN_NEEDS_ALL,
				.kind = MAPPED,
				.value_bytes = sizeof(struct zn_shared),
				.entries = 1},
	[ZN_MAP_EVENTS] = {.name = "events", .families = ZN_NEEDS_ALL, .kind = RING, .entries = ZN_RING_BYTES},
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

/* Programs that walk stacks go round in the kernel's own loop, from Linux 5.17 on, and need to know where threads keep
 * what is theirs, which is x86-64's. Where the kernel does not say, loading them will. */
static bool walks_stacks(const struct zn_probe *p)
{
#ifdef __x86_64__
	return p->families & ZN_NEEDS_STACKS &&
		libbpf_probe_bpf_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_loop, NULL) != 0;
#else
	(void)p;
	return false;
#endif
}

/* The event of a completion of io_uring has its ring and the request, from Linux 5.18 on; before, in the place of the
 * request, what the program gave it as a number. Nothing is known of an event that is not there. */
bool zn_bpf_ring_named(const struct btf *kernel)
{
	int at = btf__find_by_name_kind(kernel, "btf_trace_io_uring_complete", BTF_KIND_TYPEDEF);
	const struct btf_type *t = at > 0 ? btf__type_by_id(kernel, (uint32_t)at) : NULL; /* of a pointer to it */

	t = t ? btf__type_by_id(kernel, t->type) : NULL;
	t = t ? btf__type_by_id(kernel, t->type) : NULL;
	if (!t || !btf_is_func_proto(t) || btf_vlen(t) < 3)
		return true;
	at = btf__resolve_type(kernel, btf_params(t)[2].type); /* the first one is the tracepoint's own */
	t = at > 0 ? btf__type_by_id(kernel, (uint32_t)at) : NULL;
	return t && btf_is_ptr(t);
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
	p->ring_named = !kernel || zn_bpf_ring_named(kernel);
	p->walks = walks_stacks(p);
	p->keeps_shadow = kernel && btf__find_by_name_kind(kernel, "shstk_update_last_frame", BTF_KIND_FUNC) > 0;
	btf__free(kernel);
	for (enum zn_map m = 0; p->grows && m < ZN_MAP_COUNT && !err; m++) {
		struct bpf_map *map = maps[m].kind == SPARSE ? bpf_object__find_map_by_name(o, maps[m].name) : NULL;

		if (maps[m].kind == SPARSE)
			err = map ? bpf_map__set_map_flags(map, BPF_F_NO_PREALLOC) : -ENOENT;
	}
	return err;
}

/* How large a table is where these families are on: what follows from the machine, and what nobody will use. */
static uint32_t table_entries(enum zn_map m, uint64_t on, const struct zn_sizes *s)
{
	bool libraries = on & ZN_NEEDS_LIBRARIES, follows = libraries && (on >> ZN_FAM_SCHED & 1);

	if (maps[m].families != ZN_NEEDS_ALL && !(on & maps[m].families))
		return 1;
	switch (m) {
	case ZN_MAP_THREADS: return libraries ? ZN_THREADS_MAX + ZN_LAUNCHES_MAX : 1;
	case ZN_MAP_SCHED_SETS: return follows ? s->sched_entries / ZN_SCHED_WAYS : 1;
	case ZN_MAP_SPILLED: return follows ? ZN_SPILLED_MAX + ZN_RESERVED_MAX : 1;
	case ZN_MAP_WORKERS: return follows ? ZN_WORKERS_MAX : 1;
	default: return maps[m].entries;
	}
}

/* A kernel that is too old tracks no process. */
int zn_bpf_map_sizes(struct zn_probe *p, struct bpf_object *o)
{
	uint64_t on = p->families & ~(uint64_t)((p->old ? ZN_NEEDS_LIBRARIES : 0) | (p->walks ? 0 : ZN_NEEDS_STACKS));
	int err = 0;

	p->sizes = zn_sizes(p->cpus, p->grows);
	for (enum zn_map m = 0; m < ZN_MAP_COUNT && !err; m++) {
		uint32_t entries = table_entries(m, on, &p->sizes);
		struct bpf_map *map = entries == maps[m].entries ? NULL : map_of(o, m);

		if (entries != maps[m].entries)
			err = map ? bpf_map__set_max_entries(map, entries) : -ENOENT;
	}
	return err;
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

/* Nobody else has these tables as memory, so what is looked at is given back at once. */
void *zn_bpf_map_piece(const struct zn_probe *p, enum zn_map m, size_t from, size_t bytes, struct zn_piece *piece)
{
	size_t page = sysconf(_SC_PAGESIZE);

	piece->offset = from % page;
	piece->bytes = (piece->offset + bytes + page - 1) / page * page;
	piece->at = mmap(NULL, piece->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->map_fd[m], from - piece->offset);
	return piece->at == MAP_FAILED ? NULL : (char *)piece->at + piece->offset;
}

void zn_bpf_map_piece_end(const struct zn_piece *piece)
{
	if (piece->at != MAP_FAILED)
		munmap(piece->at, piece->bytes);
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

/* An entry of a hash that takes its memory as it is used is of one of the sizes that the kernel has
 * (kernel/bpf/memalloc.c), with 8 bytes more. */
static uint64_t sparse_bytes(uint64_t entry)
{
	static const uint32_t size[] = {64, 96, 128, 192, 256, 512, 1024};
	uint32_t i = 0;

	while (i + 1 < ZN_LEN(size) && size[i] < entry + 8)
		i++;
	return size[i];
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

#define TABLE_HEAD 1024 /* what each has besides its entries: somewhat less */
#define HASH_HEAD  48   /* of an entry */

/* What the kernel accounts for a table that is full (arraymap.c, hashtab.c and others of kernel/bpf). A hash that has
 * its memory from the start has one entry more for each CPU that there may be. */
static uint64_t table_bytes(enum zn_map m, uint32_t entries, uint32_t cpus, bool grows)
{
	uint64_t value = round_up(maps[m].value_bytes, 8), page = 4096, lists;
	uint64_t entry = HASH_HEAD + round_up(maps[m].key_bytes, 8) + value;

	switch (maps[m].kind) {
	case MAPPED:
	case PENDING: return page + round_up(entries * value, page);
	case STACK: return TABLE_HEAD + (entries + 1) * maps[m].value_bytes;
	case RING: return entries + 4 * page;
	case HASH:
	case SPARSE: lists = 16ULL * zn_power_of_two(1, 1u << 31, entries); break;
	default: return TABLE_HEAD + entries * value;
	}
	if (maps[m].kind == SPARSE && grows)
		return TABLE_HEAD + lists + entries * sparse_bytes(entry);
	return TABLE_HEAD + lists + (entries + cpus) * entry;
}

uint64_t zn_bpf_map_most(uint32_t cpus, bool grows)
{
	struct zn_sizes s = zn_sizes(cpus, grows);
	uint64_t bytes = 0;

	for (enum zn_map m = 0; m < ZN_MAP_COUNT; m++)
		bytes += table_bytes(m, table_entries(m, ~0ULL, &s), cpus, grows);
	return bytes;
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

		if (bpf_obj_get_info_by_fd(p->map_fd[i], &info, &len) == 0)
			most = table_bytes(i, info.max_entries, p->cpus, info.map_flags & BPF_F_NO_PREALLOC);
		b.now += now;
		b.most += most > now ? most : now;
		b.group[maps[i].group] += now;
	}
	if (p->natives_fd >= 0) {
		uint64_t natives = map_bytes(p->natives_fd);

		b.now += natives;
		b.most += natives;
		b.group[ZN_MAPS_STACKS] += natives;
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

/* Of larger entries fewer come at one time. */
struct zn_batch zn_batch_begin(const struct zn_probe *p, enum zn_map m)
{
	return (struct zn_batch){.fd = p->map_fd[m],
		.key_bytes = maps[m].key_bytes,
		.value_bytes = maps[m].value_bytes,
		.over = maps[m].key_bytes > KEY_MAX || maps[m].value_bytes > sizeof(batch_value)};
}

bool zn_batch_next(struct zn_batch *b)
{
	uint32_t next = 0;
	int err;

	if (b->over)
		return false;
	b->count = b->value_bytes > VALUE_MAX ? sizeof(batch_value) / b->value_bytes : BATCH;
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
