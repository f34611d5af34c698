/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ws_fuzz.c: any bytes as a stream of frames, and messages put together from it. The first input byte says how the
 * stream is cut; read whole and read in pieces, it must mean the same. Messages keep to their limit, texts and reasons
 * are UTF-8 by a second reading of the rules, codes are ones that may be sent. What the daemon sends as a close frame
 * must itself be good.
 */
#include <stdlib.h>

#include "json.c"
#include "ws.c"

#define STORY_MAX   (1 << 20)
#define MESSAGE_MAX 300

/* Events as bytes: type, code, data. After an error, data of an unfinished message does not count. */
struct story {
	struct zn_out out;
	size_t sure;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void tell(struct story *s, const struct zn_ws_event *ev)
{
	if (ev->type == ZN_WS_EV_NONE)
		return;
	if (ev->type == ZN_WS_EV_ERROR)
		s->out.len = s->sure;
	if (ev->type != ZN_WS_EV_DATA) {
		zn_out_char(&s->out, (char)ev->type);
		zn_out_u64(&s->out, ev->code);
	}
	zn_out_bytes(&s->out, ev->data.at, ev->data.len);
	if (ev->type != ZN_WS_EV_DATA || ev->final) {
		zn_out_char(&s->out, (char)ev->op);
		s->sure = s->out.len;
	}
}

/* Unicode 15, table 3-7, as it stands there. */
static bool is_text(const uint8_t *at, size_t len)
{
	static const struct {
		uint8_t first[2], second[2], more;
	} rows[] = {{{0xc2, 0xdf}, {0x80, 0xbf}, 0}, {{0xe0, 0xe0}, {0xa0, 0xbf}, 1}, {{0xe1, 0xec}, {0x80, 0xbf}, 1},
		{{0xed, 0xed}, {0x80, 0x9f}, 1}, {{0xee, 0xef}, {0x80, 0xbf}, 1}, {{0xf0, 0xf0}, {0x90, 0xbf}, 2},
		{{0xf1, 0xf3}, {0x80, 0xbf}, 2}, {{0xf4, 0xf4}, {0x80, 0x8f}, 2}};
	const uint8_t *end = len ? at + len : at; /* NULL of no length: nothing may be added to that */

	while (at < end) {
		size_t i = 0;

		if (*at < 0x80) {
			at++;
			continue;
		}
		while (i < ZN_LEN(rows) && (*at < rows[i].first[0] || *at > rows[i].first[1]))
			i++;
		if (i == ZN_LEN(rows) || end - at < 2 + rows[i].more || at[1] < rows[i].second[0] ||
			at[1] > rows[i].second[1])
			return false;
		at += 2;
		for (uint8_t more = rows[i].more; more; more--)
			if (*at++ >> 6 != 2)
				return false;
	}
	return true;
}

static void check_close(const struct zn_ws_event *ev)
{
	check(is_text((const uint8_t *)ev->data.at, ev->data.len) && ev->data.len <= ZN_WS_CONTROL_MAX - 2);
	if (ev->type == ZN_WS_EV_ERROR)
		check(ev->code == 1002 || ev->code == 1007 || ev->code == 1009);
	else
		check(ev->code == 1005 || (ev->code >= 3000 && ev->code < 5000) ||
			(ev->code >= 1000 && ev->code < 1015 && ev->code != 1004 && ev->code != 1006));
}

/* Puts messages together. */
static void check_event(struct zn_out *message, const struct zn_ws_event *ev)
{
	if (ev->type >= ZN_WS_EV_CLOSE)
		check_close(ev);
	if (ev->type == ZN_WS_EV_PING || ev->type == ZN_WS_EV_PONG)
		check(ev->data.len <= ZN_WS_CONTROL_MAX);
	if (ev->type != ZN_WS_EV_DATA)
		return;
	check(ev->op == ZN_WS_TEXT || ev->op == ZN_WS_BINARY);
	zn_out_bytes(message, ev->data.at, ev->data.len);
	check(!message->full);
	if (!ev->final)
		return;
	check(ev->op != ZN_WS_TEXT || is_text((uint8_t *)message->at, message->len));
	message->len = 0;
}

static void read_in_pieces(struct story *s, const uint8_t *data, size_t len, size_t step)
{
	char text[MESSAGE_MAX];
	struct zn_out message = {.at = text, .cap = sizeof(text)};
	struct zn_ws_event ev;
	struct zn_ws ws;

	zn_ws_init(&ws, MESSAGE_MAX);
	for (size_t at = 0; at < len && !ws.done; at += step) {
		size_t n = len - at < step ? len - at : step, done = 0;
		char *block = malloc(n);

		memcpy(block, data + at, n);
		while (done < n && !ws.done) {
			int used = zn_ws_read(&ws, block + done, n - done, &ev);

			check(used > 0 && (size_t)used <= n - done && ws.have <= ws.max);
			done += (size_t)used;
			tell(s, &ev);
			check_event(&message, &ev);
		}
		free(block);
	}
	check(!ws.done || zn_ws_read(&ws, NULL, 0, &ev) == -1);
}

static void check_close_frame(const uint8_t *data, size_t len)
{
	uint8_t bytes[4 + ZN_WS_CONTROL_MAX], masked[8 + ZN_WS_CONTROL_MAX] = {0};
	char reason[256] = "";
	struct zn_out o = {.at = reason, .cap = sizeof(reason) - 1};
	struct zn_ws_event ev;
	struct zn_ws ws;
	size_t size;

	zn_out_utf8(&o, (const char *)data, len < 80 ? len : 80);
	size = zn_ws_close_frame(bytes, 1001, reason);
	memcpy(masked, bytes, 2);
	masked[1] |= 0x80;
	memcpy(masked + 6, bytes + 2, size - 2);
	zn_ws_init(&ws, 0);
	check(zn_ws_read(&ws, (char *)masked, size + 4, &ev) == (int)size + 4);
	check(ev.type == ZN_WS_EV_CLOSE && ev.code == 1001 && !memcmp(ev.data.at, reason, ev.data.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static char whole_text[STORY_MAX], pieces_text[STORY_MAX];
	struct story whole = {.out = {.at = whole_text, .cap = STORY_MAX}};
	struct story pieces = {.out = {.at = pieces_text, .cap = STORY_MAX}};

	if (!len)
		return 0;
	check_close_frame(data + 1, len - 1);
	read_in_pieces(&whole, data + 1, len - 1, len);
	read_in_pieces(&pieces, data + 1, len - 1, 1 + data[0] % 17);
	check(!whole.out.full && whole.out.len == pieces.out.len);
	check(!memcmp(whole_text, pieces_text, whole.out.len));
	return 0;
}
