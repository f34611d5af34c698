/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pycode.c: what CPython keeps of a function's lines, and its texts, read from the memory of a process that nobody
 * vouches for. Pure: whatever the bytes are, only those are read, and what comes out is valid UTF-8 without control
 * characters.
 *
 * The forms are those of CPython's Objects/lnotab_notes.txt (to 3.10) and InternalDocs/code_objects.md (from 3.11 on).
 */
#include "zernel.h"

#define UNIT            2 /* bytes of an instruction */
#define NO_LINE_310     (-128)
#define KIND_SHORT_LAST 9
#define KIND_ONE_LINE   10 /* to 12: the line goes on by 0, 1, 2 */
#define KIND_NO_COLUMNS 13
#define KIND_LONG       14
#define KIND_NONE       15
#define LINE_MAX_       (1 << 30)

/* To 3.9: (bytes, lines) pairs that are added up. */
static int line_by_pairs(const uint8_t *table, size_t len, int line, int at)
{
	int bytes = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		bytes += table[i];
		if (bytes > at)
			break;
		line += (int8_t)table[i + 1];
	}
	return line;
}

/* 3.10: each pair is a range of code, with its line's distance from that of the range before. */
static int line_by_ranges(const uint8_t *table, size_t len, int line, int at)
{
	int end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		int8_t lines = (int8_t)table[i + 1];

		end += table[i];
		line += lines == NO_LINE_310 ? 0 : lines;
		if (end > at)
			return lines == NO_LINE_310 ? ZN_PYCODE_NO_LINE : line;
	}
	return ZN_PYCODE_GONE;
}

struct reader {
	const uint8_t *at, *end;
};

/* 6 bits a byte, the low ones first. What goes beyond 32 bits is cut off. */
static uint32_t read_varint(struct reader *r)
{
	uint32_t value = 0, shift = 0;

	while (r->at < r->end) {
		uint8_t b = *r->at++;

		if (shift < 32)
			value |= (uint32_t)(b & 63) << shift;
		shift += 6;
		if (!(b & 64))
			break;
	}
	return value;
}

static int64_t read_signed(struct reader *r)
{
	uint32_t value = read_varint(r);

	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Passes over what an entry has behind its first byte; how far its line is from that of the entry before. */
static int64_t read_entry(struct reader *r, int kind)
{
	int64_t lines;

	if (kind <= KIND_SHORT_LAST) {
		r->at++;
		return 0;
	}
	if (kind < KIND_NO_COLUMNS) {
		r->at += 2;
		return kind - KIND_ONE_LINE;
	}
	if (kind == KIND_NONE)
		return 0;
	lines = read_signed(r);
	for (int i = 0; kind == KIND_LONG && i < 3; i++)
		read_varint(r);
	return lines;
}

/* From 3.11 on. */
static int line_by_entries(const uint8_t *table, size_t len, int first, int index)
{
	struct reader r = {table, table + len};
	int64_t line = first, units = 0;

	while (r.at < r.end) {
		uint8_t head = *r.at++;
		int kind = head >> 3 & 15;

		if (!(head & 0x80))
			return ZN_PYCODE_GONE;
		line += read_entry(&r, kind);
		units += (head & 7) + 1;
		if (r.at > r.end || line < -LINE_MAX_ || line > LINE_MAX_)
			return ZN_PYCODE_GONE;
		if (units > index)
			return kind == KIND_NONE ? ZN_PYCODE_NO_LINE : (int)line;
	}
	return ZN_PYCODE_GONE;
}

int zn_pycode_line(enum zn_pycode_lines form, const uint8_t *table, size_t len, int first, int index)
{
	int line;

	if (first < 0 || first > LINE_MAX_ || index > LINE_MAX_)
		return ZN_PYCODE_GONE;
	if (index < 0)
		return first;
	if (form == ZN_PYCODE_PAIRS)
		line = line_by_pairs(table, len, first, index * UNIT);
	else if (form == ZN_PYCODE_RANGES)
		line = line_by_ranges(table, len, first, index * UNIT);
	else
		line = line_by_entries(table, len, first, index);
	return line < 0 ? ZN_PYCODE_GONE : line;
}

static uint32_t character_at(const uint8_t *at, unsigned width)
{
	uint32_t c = 0;

	for (unsigned i = 0; i < width; i++)
		c |= (uint32_t)at[i] << 8 * i;
	return c;
}

/* Surrogates, what lies behind the last code point, and control characters are not shown. */
static void put_character(struct zn_out *o, uint32_t c)
{
	if (c < ' ' || (c >= 0x7f && c < 0xa0) || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
		c = 0xfffd;
	if (c < 0x80) {
		zn_out_char(o, (char)c);
		return;
	}
	if (c < 0x800) {
		zn_out_char(o, (char)(0xc0 | c >> 6));
	} else if (c < 0x10000) {
		zn_out_char(o, (char)(0xe0 | c >> 12));
		zn_out_char(o, (char)(0x80 | (c >> 6 & 63)));
	} else {
		zn_out_char(o, (char)(0xf0 | c >> 18));
		zn_out_char(o, (char)(0x80 | (c >> 12 & 63)));
		zn_out_char(o, (char)(0x80 | (c >> 6 & 63)));
	}
	zn_out_char(o, (char)(0x80 | (c & 63)));
}

void zn_pycode_text(struct zn_out *o, const uint8_t *bytes, size_t count, unsigned width)
{
	for (size_t i = 0; i < count && !o->full; i++) {
		size_t before = o->len;

		put_character(o, character_at(bytes + i * width, width));
		if (o->full)
			o->len = before; /* whole characters alone */
	}
}
