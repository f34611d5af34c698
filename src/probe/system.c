/* SPDX-License-Identifier: GPL-2.0 */
/*
 * system.c: which libraries are the system's own: those that the administrator names, and those of the dynamic
 * linker's cache.
 */
#include "zernel.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE       "/etc/ld.so.cache" /* of the dynamic linker */
#define CACHE_BYTES (1 << 20)

int zn_library_kind(const char *path, size_t len)
{
	static const struct {
		const char *prefix;
		enum zn_lib_kind kind;
	} known[] = {
		{"libcuda.so", ZN_LIB_CUDA}, {"libamdhip64.so", ZN_LIB_HIP}, {"libnccl.so", ZN_LIB_NCCL},
		{"librccl.so", ZN_LIB_NCCL}, {"libtorch_cuda.so", ZN_LIB_NCCL}, /* NCCL may be linked into it */
	};
	const char *slash = memrchr(path, '/', len);
	const char *name = slash ? slash + 1 : path;
	size_t left = len - (name - path);

	for (size_t i = 0; i < ZN_LEN(known); i++) {
		size_t n = strlen(known[i].prefix);

		if (left >= n && memcmp(name, known[i].prefix, n) == 0)
			return known[i].kind;
	}
	return -1;
}

/* The dynamic linker's cache as glibc 2.2 and later write it (sysdeps/generic/dl-cache.h): a header, entries,
 * strings. */
struct cache_header {
	char magic[20];
	uint32_t count, string_bytes, unused[5];
};
struct cache_entry {
	uint32_t flags, key, value, os;
	uint64_t hwcap;
};

/* Reads those entries of the cache that have one of our names. Offsets are from the header on. */
static void visit_cached(const char *at, size_t len, zn_library_visit *visit, void *to)
{
	const struct cache_header *h = (const void *)at;
	const struct cache_entry *e = (const void *)(at + sizeof(*h));

	for (uint32_t i = 0; i < h->count && (i + 1) * sizeof(*e) + sizeof(*h) <= len; i++) {
		size_t value = e[i].value;
		size_t n = value < len ? strnlen(at + value, len - value) : 0;

		if (n && value + n < len && zn_library_kind(at + value, n) >= 0)
			visit(to, at + value, true);
	}
}

static void visit_cache(zn_library_visit *visit, void *to)
{
	static char cache[CACHE_BYTES];
	static const char magic[] = "glibc-ld.so.cache1.1";
	int fd = open(CACHE, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, cache, sizeof(cache));
	const char *at;

	if (fd >= 0)
		close(fd);
	at = n > 0 ? memmem(cache, n, magic, sizeof(magic) - 1) : NULL; /* an older form may stand before it */
	if (at && (at - cache) % 4 == 0 && cache + n - at >= (ssize_t)sizeof(struct cache_header))
		visit_cached(at, cache + n - at, visit, to);
	zn_pages_drop(cache, sizeof(cache));
}

static void visit_given(const struct zn_options *options, zn_library_visit *visit, void *to)
{
	char list[sizeof(options->libraries)], *at, *save = NULL;

	snprintf(list, sizeof(list), "%s", options->libraries);
	for (at = strtok_r(list, ",", &save); at; at = strtok_r(NULL, ",", &save))
		visit(to, at, false);
}

void zn_system_libraries(const struct zn_options *options, zn_library_visit *visit, void *to)
{
	visit_given(options, visit, to);
	visit_cache(visit, to);
}

static void add_to_stamp(void *stamp, const char *path, bool root_only)
{
	struct stat st;

	(void)root_only;
	if (stat(path, &st))
		st = (struct stat){0};
	*(uint64_t *)stamp = zn_file_fingerprint(*(uint64_t *)stamp, &st);
}

uint64_t zn_system_stamp(const struct zn_options *options)
{
	uint64_t stamp = 1;

	add_to_stamp(&stamp, CACHE, true);
	visit_given(options, add_to_stamp, &stamp);
	return stamp;
}
