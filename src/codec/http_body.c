/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http_body.c: finds the end of a request's body (RFC 9112, sections 6 and 7). The body is measured and thrown away: no
 * route takes one.
 */
#include <limits.h>

#include "zernel.h"

static bool is_hex(char c)
{
	return zn_str_hex_digit(c) >= 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

enum {
	SIZE_FIRST,
	SIZE,
	SIZE_LF,
	EXT_FIRST,
	EXT_NAME,
	EXT_NAME_GAP,
	EXT_VALUE_FIRST,
	EXT_VALUE,
	EXT_QUOTED,
	EXT_ESCAPED,
	EXT_QUOTED_END,
	EXT_GAP,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER_FIRST,
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	LAST_LF,
	BAD
};

/* RFC 9112 section 7.1, byte by byte; the first row that fits counts, and a byte that fits none is bad. */
static const struct {
	uint8_t state;
	char byte; /* '\0': the bytes that `takes` takes */
	bool (*takes)(char);
	uint8_t next;
} steps[] = {
	{SIZE_FIRST, 0, is_hex, SIZE},
	{SIZE, 0, is_hex, SIZE},
	{SIZE, '\r', NULL, SIZE_LF},
	{SIZE, ';', NULL, EXT_FIRST},
	{SIZE, 0, is_blank, EXT_GAP},
	{SIZE_LF, '\n', NULL, DATA},
	{EXT_FIRST, 0, is_blank, EXT_FIRST},
	{EXT_FIRST, 0, zn_http_is_token, EXT_NAME},
	{EXT_NAME, 0, zn_http_is_token, EXT_NAME},
	{EXT_NAME, '=', NULL, EXT_VALUE_FIRST},
	{EXT_NAME, ';', NULL, EXT_FIRST},
	{EXT_NAME, '\r', NULL, SIZE_LF},
	{EXT_NAME, 0, is_blank, EXT_NAME_GAP},
	{EXT_NAME_GAP, 0, is_blank, EXT_NAME_GAP},
	{EXT_NAME_GAP, '=', NULL, EXT_VALUE_FIRST},
	{EXT_NAME_GAP, ';', NULL, EXT_FIRST},
	{EXT_VALUE_FIRST, 0, is_blank, EXT_VALUE_FIRST},
	{EXT_VALUE_FIRST, 0, zn_http_is_token, EXT_VALUE},
	{EXT_VALUE_FIRST, '"', NULL, EXT_QUOTED},
	{EXT_VALUE, 0, zn_http_is_token, EXT_VALUE},
	{EXT_VALUE, ';', NULL, EXT_FIRST},
	{EXT_VALUE, '\r', NULL, SIZE_LF},
	{EXT_VALUE, 0, is_blank, EXT_GAP},
	{EXT_QUOTED, '"', NULL, EXT_QUOTED_END},
	{EXT_QUOTED, '\\', NULL, EXT_ESCAPED},
	{EXT_QUOTED, 0, zn_http_is_value, EXT_QUOTED},
	{EXT_ESCAPED, 0, zn_http_is_value, EXT_QUOTED},
	{EXT_QUOTED_END, ';', NULL, EXT_FIRST},
	{EXT_QUOTED_END, '\r', NULL, SIZE_LF},
	{EXT_QUOTED_END, 0, is_blank, EXT_GAP},
	{EXT_GAP, 0, is_blank, EXT_GAP},
	{EXT_GAP, ';', NULL, EXT_FIRST},
	{DATA_CR, '\r', NULL, DATA_LF},
	{DATA_LF, '\n', NULL, SIZE_FIRST},
	{TRAILER_FIRST, '\r', NULL, LAST_LF},
	{TRAILER_FIRST, 0, zn_http_is_token, TRAILER_NAME},
	{TRAILER_NAME, 0, zn_http_is_token, TRAILER_NAME},
	{TRAILER_NAME, ':', NULL, TRAILER_VALUE},
	{TRAILER_VALUE, '\r', NULL, TRAILER_LF},
	{TRAILER_VALUE, 0, zn_http_is_value, TRAILER_VALUE},
	{TRAILER_LF, '\n', NULL, TRAILER_FIRST},
	{LAST_LF, '\n', NULL, LAST_LF},
};

void zn_http_body_init(struct zn_http_body *b, const struct zn_http_req *req)
{
	*b = (struct zn_http_body){.left = req->length, .chunked = req->chunked};
	b->state = req->chunked ? SIZE_FIRST : DATA;
	b->done = !req->chunked && !req->length;
}

static uint8_t next_state(uint8_t state, char c)
{
	for (size_t i = 0; i < ZN_LEN(steps); i++)
		if (steps[i].state == state && (steps[i].takes ? steps[i].takes(c) : steps[i].byte == c))
			return steps[i].next;
	return BAD;
}

/* Adds a digit to a chunk's size. A size that would overflow is refused as too long. */
static int add_digit(struct zn_http_body *b, char c)
{
	b->left = b->left * 16 + (uint64_t)zn_str_hex_digit(c);
	return b->left > ZN_HTTP_BODY_MAX - b->content ? -413 : 0;
}

/* Takes one byte of the framing, which is no content. */
static int take_framing(struct zn_http_body *b, char c)
{
	uint8_t state = next_state(b->state, c);
	bool line_ends = c == '\n' && b->state != TRAILER_LF;

	if (state == BAD || ++b->line > ZN_HTTP_LINE_MAX)
		return -400;
	if (++b->framing > ZN_HTTP_BODY_MAX)
		return -413;
	b->done = b->state == LAST_LF;
	b->state = state == DATA && !b->left ? TRAILER_FIRST : state;
	if (line_ends)
		b->line = 0;
	return state == SIZE ? add_digit(b, c) : 0;
}

/* Content there is, of which len bytes have come; how many of them. */
static size_t take_content(struct zn_http_body *b, size_t len)
{
	size_t part = len < b->left ? len : (size_t)b->left;

	b->content += part;
	b->left -= part;
	if (!b->left)
		b->state = DATA_CR;
	b->done = !b->left && !b->chunked;
	return part;
}

int zn_http_body_read(struct zn_http_body *b, const char *buf, size_t len)
{
	size_t used = 0;
	int err = 0;

	if (len > INT_MAX)
		len = INT_MAX;
	while (used < len && !b->done && !err) {
		if (b->state == DATA)
			used += take_content(b, len - used);
		else
			err = take_framing(b, buf[used++]);
	}
	if (err)
		b->state = BAD;
	return err ? err : (int)used;
}
