/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gzip.c: makes answers smaller with zlib, at its fastest level: the text of metrics shrinks to a tenth all the same,
 * and the loop waits for it. Unpacks what was compressed when this was built. zlib's memory is a static block, of which
 * nothing becomes resident before the first use.
 */
#include <limits.h>
#include <zlib.h>

#include "zernel.h"

#define LEVEL       1
#define WINDOW_BITS (15 + 16) /* the largest window; 16: with the header and trailer of gzip, not of zlib */
#define MEMORY      8
#define ALIGN       16
/* zconf.h: (1 << (windowBits + 2)) + (1 << (memLevel + 9)), and deflate's own struct of some 6 KiB; inflate's, of some
 * 10 KiB, lies behind it while it is at work, and needs no window, as it writes to the end in one go */
#define BLOCK_BYTES ((1 << (15 + 2)) + (1 << (MEMORY + 9)) + (32 << 10))

static char block[BLOCK_BYTES] __attribute__((aligned(ALIGN)));
static size_t used;
static z_stream stream;
static bool ready;

static voidpf take_memory(voidpf owner, uInt items, uInt size)
{
	size_t len = ((size_t)items * size + ALIGN - 1) / ALIGN * ALIGN;

	(void)owner;
	if (len > sizeof(block) - used)
		return Z_NULL;
	used += len;
	return block + used - len;
}

/* Memory is never freed: zlib's one state is used again and again. */
static void keep_memory(voidpf owner, voidpf at)
{
	(void)owner;
	(void)at;
}

static bool start_stream(void)
{
	if (ready)
		return deflateReset(&stream) == Z_OK;
	used = 0;
	stream = (z_stream){.zalloc = take_memory, .zfree = keep_memory};
	ready = deflateInit2(&stream, LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY, Z_DEFAULT_STRATEGY) == Z_OK;
	return ready;
}

bool zn_gzip(struct zn_out *o, const char *bytes, size_t len)
{
	size_t room = o->cap - o->len;

	if (o->full || len > UINT_MAX || !start_stream())
		return false;
	stream.next_in = (Bytef *)bytes;
	stream.avail_in = (uInt)len;
	stream.next_out = (Bytef *)o->at + o->len;
	stream.avail_out = room < UINT_MAX ? (uInt)room : UINT_MAX;
	if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
		return false;
	o->len += stream.total_out;
	return true;
}

bool zn_gunzip(struct zn_out *o, const char *bytes, size_t len)
{
	size_t before = used, room = o->cap - o->len;
	z_stream z = {.zalloc = take_memory,
		.zfree = keep_memory,
		.next_in = (Bytef *)bytes,
		.avail_in = (uInt)len,
		.next_out = (Bytef *)o->at + o->len,
		.avail_out = (uInt)room};
	bool done = !o->full && len <= UINT_MAX && room <= UINT_MAX && inflateInit2(&z, WINDOW_BITS) == Z_OK &&
		inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out == 0;

	used = before;
	if (done)
		o->len += room;
	return done;
}
