/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kept.c: lines that are kept from one page to the next until anything changes that they are made of. All of that is
 * compared, so that no line can be old.
 *
 * Those of zernel_probe_attached, a sixth of a page, by library: which file it is, its path, and the state of each of
 * its functions. The hooks themselves are the same while the daemon lives. Those of a histogram, a half of a page, by
 * its place on it: its metric, its labels, and all of its counts.
 *
 * Limits: the first ZN_KEPT_LIBS libraries, and ZN_KEPT_BYTES of their text; the first ZN_KEPT_HISTS histograms, of no
 * more than ZN_KEPT_HIST_BYTES each. The lines of others are made each time.
 */
#include <string.h>

#include "zernel.h"

static struct {
	struct {
		uint64_t dev, ino;
		enum zn_lib_kind kind;
		char path[ZN_TEXT_MAX];
		uint8_t symbol[ZN_HOOKS_MAX];
		size_t end; /* of its lines; they begin where those of the library before it end */
	} lib[ZN_KEPT_LIBS];
	uint32_t count;
	char text[ZN_KEPT_BYTES];
} kept;

static bool is_same(uint32_t i, const struct zn_lib *lib)
{
	return i < kept.count && kept.lib[i].dev == lib->dev && kept.lib[i].ino == lib->ino &&
		kept.lib[i].kind == lib->kind && !strcmp(kept.lib[i].path, lib->path) &&
		!memcmp(kept.lib[i].symbol, lib->symbol, sizeof(lib->symbol));
}

static size_t begin_of(uint32_t i)
{
	return i ? kept.lib[i - 1].end : 0;
}

bool zn_kept_put(struct zn_out *o, uint32_t i, const struct zn_lib *lib)
{
	if (is_same(i, lib)) {
		zn_out_bytes(o, kept.text + begin_of(i), kept.lib[i].end - begin_of(i));
		return true;
	}
	if (i < kept.count)
		kept.count = i;
	return false;
}

void zn_kept_note(const struct zn_out *o, size_t from, uint32_t i, const struct zn_lib *lib)
{
	size_t len = o->len - from;

	if (o->full || i != kept.count || i == ZN_KEPT_LIBS || len > sizeof(kept.text) - begin_of(i))
		return;
	kept.lib[i].dev = lib->dev;
	kept.lib[i].ino = lib->ino;
	kept.lib[i].kind = lib->kind;
	memcpy(kept.lib[i].path, lib->path, sizeof(lib->path));
	memcpy(kept.lib[i].symbol, lib->symbol, sizeof(lib->symbol));
	memcpy(kept.text + begin_of(i), o->at + from, len);
	kept.lib[i].end = begin_of(i) + len;
	kept.count++;
}

/* ---- histograms ---- */

static struct {
	const char *name;
	uint64_t since_ms;
	struct zn_spread spread;
	uint32_t labels_at, labels_len, len; /* of its text; 0: nothing is kept here */
	char text[ZN_KEPT_HIST_BYTES];
} hists[ZN_KEPT_HISTS];

static size_t spread_bytes(const struct zn_kept_hist *h)
{
	return offsetof(struct zn_spread, le) + zn_le_count(h->fine) * sizeof(h->spread->le[0]);
}

static bool is_same_hist(uint32_t i, const struct zn_kept_hist *h)
{
	return hists[i].len && hists[i].name == h->name && hists[i].since_ms == h->since_ms &&
		hists[i].labels_len == h->labels.len &&
		!memcmp(hists[i].text + hists[i].labels_at, h->labels.at, h->labels.len) &&
		!memcmp(&hists[i].spread, h->spread, spread_bytes(h));
}

bool zn_kept_hist_put(struct zn_out *o, uint32_t i, const struct zn_kept_hist *h)
{
	if (i >= ZN_KEPT_HISTS || !is_same_hist(i, h))
		return false;
	zn_out_bytes(o, hists[i].text, hists[i].len);
	return true;
}

void zn_kept_hist_note(const struct zn_out *o, size_t from, uint32_t i, const struct zn_kept_hist *h)
{
	size_t len = o->len - from;

	if (i >= ZN_KEPT_HISTS)
		return;
	hists[i].len = 0;
	if (o->full || len > sizeof(hists[i].text))
		return;
	hists[i].name = h->name;
	hists[i].since_ms = h->since_ms;
	memcpy(&hists[i].spread, h->spread, spread_bytes(h));
	hists[i].labels_at = (uint32_t)h->labels_at;
	hists[i].labels_len = (uint32_t)h->labels.len;
	memcpy(hists[i].text, o->at + from, len);
	hists[i].len = (uint32_t)len;
}
