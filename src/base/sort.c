/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sort.c: sorts in place. qsort() of glibc takes memory for what is larger than 1 KiB, of which the daemon takes none
 * once it is ready. A heap takes as long for whatever somebody else's entries are in.
 */
#include <string.h>

#include "zernel.h"

struct heap {
	char *at;
	size_t size;
	int (*compare)(const void *a, const void *b);
};

static void *entry_of(const struct heap *h, size_t i)
{
	return h->at + i * h->size;
}

static void swap_entries(const struct heap *h, size_t i, size_t j)
{
	char *a = entry_of(h, i), *b = entry_of(h, j), kept;

	for (size_t n = 0; n < h->size; n++) {
		kept = a[n];
		a[n] = b[n];
		b[n] = kept;
	}
}

/* Until none below is larger. */
static void sink_entry(const struct heap *h, size_t i, size_t count)
{
	for (size_t below; (below = 2 * i + 1) < count; i = below) {
		if (below + 1 < count && h->compare(entry_of(h, below), entry_of(h, below + 1)) < 0)
			below++;
		if (h->compare(entry_of(h, i), entry_of(h, below)) >= 0)
			return;
		swap_entries(h, i, below);
	}
}

void zn_sort(void *entries, size_t count, size_t size, int (*compare)(const void *a, const void *b))
{
	struct heap h = {entries, size, compare};

	for (size_t i = count / 2; i-- > 0;)
		sink_entry(&h, i, count);
	for (size_t left = count; left-- > 1;) {
		swap_entries(&h, 0, left);
		sink_entry(&h, 0, left);
	}
}
