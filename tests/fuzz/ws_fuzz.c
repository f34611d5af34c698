/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ws_fuzz.c: any bytes as a stream of frames. The first input byte says how the stream is cut; read whole and
 * read in pieces, it must mean the same. What the daemon sends as a close frame must itself be good.
 */
#include <stdlib.h>

#include "../../json.c"
#include "../../ws.c"

#define STORY_MAX (1 << 20)

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

static void read_in_pieces(struct story *s, const uint8_t *data, size_t len, size_t step)
{
	struct zn_ws_event ev;
	struct zn_ws ws;

	zn_ws_init(&ws, 300);
	for (size_t at = 0; at < len && !ws.done; at += step) {
		size_t n = len - at < step ? len - at : step, done = 0;
		char *block = malloc(n);

		memcpy(block, data + at, n);
		while (done < n && !ws.done) {
			int used = zn_ws_read(&ws, block + done, n - done, &ev);

			check(used > 0 && (size_t)used <= n - done && ws.have <= ws.max);
			done += (size_t)used;
			tell(s, &ev);
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
