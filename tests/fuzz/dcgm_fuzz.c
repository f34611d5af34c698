/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dcgm_fuzz.c: any bytes as the page of a dcgm-exporter: what comes of them is the same however they were cut, is
 * within its tables, names a GPU by characters of UUIDs and addresses alone, and is no figure that the kernel's side
 * tells.
 */
#include <stdlib.h>

#include "src/codec/dcgm.c"

#define CUTS 4 /* bytes at the beginning: sizes of chunks */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void read_all(struct zn_dcgm_parse *p, const uint8_t *sizes, const uint8_t *at, size_t len)
{
	zn_dcgm_init(p);
	for (size_t turn = 0, n; len; at += n, len -= n, turn++) {
		char *exact;

		n = sizes ? sizes[turn % CUTS] + 1u : len;
		n = n < len ? n : len;
		exact = malloc(n);
		memcpy(exact, at, n);
		zn_dcgm_take(p, exact, n);
		free(exact);
	}
}

static void check_reading(const struct zn_reading *r)
{
	check(memchr(r->uuid, 0, sizeof(r->uuid)) && memchr(r->pci, 0, sizeof(r->pci)) && r->uuid[0]);
	for (const char *c = r->uuid; *c; c++)
		check(isalnum((unsigned char)*c) || *c == '-');
	for (const char *c = r->pci; *c; c++)
		check(isxdigit((unsigned char)*c) || *c == ':' || *c == '.');
	check(!(r->known >> ZN_FIGURE_LINK_SPEED)); /* none of the PCI device */
	if (zn_reading_has(r, ZN_FIGURE_THROTTLE))
		check(r->value[ZN_FIGURE_THROTTLE] < 1ULL << ZN_THROTTLE_COUNT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct zn_dcgm_parse whole, cut;

	if (len < CUTS)
		return 0;
	read_all(&whole, NULL, data + CUTS, len - CUTS);
	read_all(&cut, data, data + CUTS, len - CUTS);
	check(whole.count == cut.count && whole.count <= ZN_GPUS_MAX);
	for (uint32_t i = 0; i < whole.count; i++) {
		check_reading(&whole.reading[i]);
		check(!strcmp(whole.reading[i].uuid, cut.reading[i].uuid));
		check(!strcmp(whole.reading[i].pci, cut.reading[i].pci));
		check(whole.reading[i].known == cut.reading[i].known);
		for (enum zn_figure f = 0; f < ZN_FIGURE_COUNT; f++)
			check(!zn_reading_has(&whole.reading[i], f) ||
				whole.reading[i].value[f] == cut.reading[i].value[f]);
	}
	return 0;
}
