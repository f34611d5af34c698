/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kept.c: the lines of zernel_probe_attached, a third of a page, kept for each library until anything changes that they
 * are made of. All of that is compared, so that no line can be old: which file it is, its path, and the state of each
 * of its functions. The hooks themselves are the same while the daemon lives.
 *
 * Limits: the first ZN_KEPT_LIBS libraries, and ZN_KEPT_BYTES of text; the lines of others are made each time.
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
