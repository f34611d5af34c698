/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ws.c: the WebSocket protocol (RFC 6455) of a server without extensions: the handshake's arithmetic, headers
 * of outgoing frames, and an incremental reader of incoming ones. The reader stores nothing but control
 * payloads; pieces of messages are unmasked where they lie. Where TCP cuts the stream changes how data is cut
 * into pieces, nothing else.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "zernel.h"

#define KEY_LEN       24   /* base64 of 16 bytes */
#define FRAGMENTS_MAX 1024 /* of a message, and one more for each FRAGMENT_LEN bytes that it had so far */
#define FRAGMENT_LEN  16
#define FIN           0x80
#define RESERVED      0x70
#define MASKED        0x80
#define CODE_NONE     1005
#define CODE_PROTOCOL 1002
#define CODE_TEXT     1007
#define CODE_TOO_BIG  1009

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static uint32_t rotate_left(uint32_t v, int by)
{
	return v << by | v >> (32 - by);
}

/* FIPS 180-4, section 6.1.2. */
static void sha1_block(uint32_t hash[5], const uint8_t block[64])
{
	static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
	uint32_t w[80], a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];

	for (int t = 0; t < 16; t++)
		w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
			(uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
	for (int t = 16; t < 80; t++)
		w[t] = rotate_left(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
	for (int t = 0; t < 80; t++) {
		uint32_t choice = (b & c) ^ (~b & d), parity = b ^ c ^ d, majority = (b & c) ^ (b & d) ^ (c & d);
		uint32_t f = t < 20 ? choice : t < 40 || t >= 60 ? parity : majority;
		uint32_t next = rotate_left(a, 5) + f + e + constants[t / 20] + w[t];

		e = d;
		d = c;
		c = rotate_left(b, 30);
		b = a;
		a = next;
	}
	hash[0] += a;
	hash[1] += b;
	hash[2] += c;
	hash[3] += d;
	hash[4] += e;
}

/* Of a message of 56 to 63 bytes, whose padding takes exactly one more block. */
static void hash_sha1(const uint8_t *message, uint8_t len, uint8_t digest[20])
{
	uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	uint8_t blocks[128] = {0};

	memcpy(blocks, message, len);
	blocks[len] = 0x80;
	blocks[126] = (uint8_t)(len >> 5); /* the length in bits, big-endian */
	blocks[127] = (uint8_t)(len << 3);
	sha1_block(hash, blocks);
	sha1_block(hash, blocks + 64);
	for (int i = 0; i < 20; i++)
		digest[i] = (uint8_t)(hash[i / 4] >> (24 - i % 4 * 8));
}

static bool valid_key(struct zn_str key)
{
	if (key.len != KEY_LEN || memcmp(key.at + KEY_LEN - 2, "==", 2))
		return false;
	for (size_t i = 0; i < KEY_LEN - 2; i++)
		if (!key.at[i] || !strchr(base64, key.at[i]))
			return false;
	return true;
}

int zn_ws_accept(struct zn_str key, char accept[ZN_WS_ACCEPT_LEN + 1])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455, section 1.3 */
	uint8_t message[KEY_LEN + sizeof(guid) - 1], digest[21] = {0};

	if (!valid_key(key))
		return -EINVAL;
	memcpy(message, key.at, KEY_LEN);
	memcpy(message + KEY_LEN, guid, sizeof(guid) - 1);
	hash_sha1(message, sizeof(message), digest);
	for (int i = 0; i < ZN_WS_ACCEPT_LEN; i++) {
		const uint8_t *three = digest + i / 4 * 3;
		uint32_t bits = (uint32_t)three[0] << 16 | (uint32_t)three[1] << 8 | three[2];

		accept[i] = base64[bits >> (18 - i % 4 * 6) & 63];
	}
	accept[ZN_WS_ACCEPT_LEN - 1] = '='; /* 20 bytes lack one of a multiple of three */
	accept[ZN_WS_ACCEPT_LEN] = '\0';
	return 0;
}

int zn_ws_handshake(const struct zn_http_req *req)
{
	if (req->method != ZN_GET || !req->upgrade || !req->ws_version.at)
		return 400;
	if (req->ws_version.len != 2 || memcmp(req->ws_version.at, "13", 2))
		return 426;
	return req->ws_keys == 1 && valid_key(req->ws_key) ? 0 : 400;
}

size_t zn_ws_header(uint8_t to[10], enum zn_ws_op op, uint64_t payload)
{
	size_t extra = payload < 126 ? 0 : payload <= 0xffff ? 2 : 8;

	to[0] = (uint8_t)(FIN | op);
	to[1] = (uint8_t)(extra == 0 ? payload : extra == 2 ? 126 : 127);
	for (size_t i = 0; i < extra; i++)
		to[2 + i] = (uint8_t)(payload >> 8 * (extra - 1 - i));
	return 2 + extra;
}

size_t zn_ws_close_frame(uint8_t to[4 + ZN_WS_CONTROL_MAX], uint16_t code, const char *reason)
{
	size_t len = strlen(reason), at;

	if (!code)
		return zn_ws_header(to, ZN_WS_CLOSE, 0);
	if (len > ZN_WS_CONTROL_MAX - 2)
		for (len = ZN_WS_CONTROL_MAX - 2; len && ((uint8_t)reason[len] & 0xc0) == 0x80; len--)
			;
	at = zn_ws_header(to, ZN_WS_CLOSE, 2 + len);
	to[at++] = (uint8_t)(code >> 8);
	to[at++] = (uint8_t)code;
	memcpy(to + at, reason, len);
	return at + len;
}

void zn_ws_init(struct zn_ws *ws, uint64_t max_message)
{
	*ws = (struct zn_ws){.max = max_message};
}

static bool is_control(const struct zn_ws *ws)
{
	return ws->op & 8;
}

static uint32_t utf8_run(uint32_t state, const char *at, size_t len)
{
	while (len-- && state != ZN_UTF8_BAD)
		state = zn_utf8_step(state, (uint8_t)*at++);
	return state;
}

/* How the frame at hand fits into the message that is open: 0, or the code to close with. */
static int open_frame(struct zn_ws *ws)
{
	bool goes_on = ws->op == ZN_WS_CONT;

	if (is_control(ws))
		return 0;
	if (goes_on != (ws->message_op != 0))
		return CODE_PROTOCOL;
	if (!goes_on) {
		ws->message_op = ws->op;
		ws->have = ws->fragments = ws->utf8 = 0;
	}
	return ws->fragments++ >= FRAGMENTS_MAX + ws->have / FRAGMENT_LEN ? CODE_TOO_BIG : 0;
}

/* Judges the first two bytes of a frame (RFC 6455, section 5.2), and tells how long its header is. */
static int start_frame(struct zn_ws *ws)
{
	uint8_t len = ws->head[1] & 127;

	ws->fin = ws->head[0] & FIN;
	ws->op = ws->head[0] & 15;
	if (ws->head[0] & RESERVED || !(ws->head[1] & MASKED) || (ws->op & 7) > 2)
		return CODE_PROTOCOL;
	if (is_control(ws) && (!ws->fin || len > ZN_WS_CONTROL_MAX))
		return CODE_PROTOCOL;
	ws->head_need = (uint8_t)(6 + (len == 126 ? 2 : len == 127 ? 8 : 0));
	return open_frame(ws);
}

/* Judges the length, which must be in its shortest form, once the whole header is there. */
static int finish_header(struct zn_ws *ws)
{
	uint64_t len = 0, shortest = ws->head_need == 8 ? 126 : ws->head_need == 14 ? 0x10000 : 0;

	for (int i = 2; i < ws->head_need - 4; i++)
		len = len << 8 | ws->head[i];
	if (ws->head_need == 6)
		len = ws->head[1] & 127;
	if (len < shortest || len >> 63)
		return CODE_PROTOCOL;
	if (!is_control(ws) && len > ws->max - ws->have)
		return CODE_TOO_BIG;
	memcpy(ws->mask, ws->head + ws->head_need - 4, 4);
	ws->left = len;
	ws->mask_at = ws->control_len = 0;
	return 0;
}

static void end_with_error(struct zn_ws *ws, struct zn_ws_event *ev, int code)
{
	ws->done = true;
	*ev = (struct zn_ws_event){.type = ZN_WS_EV_ERROR, .code = (uint16_t)code};
}

/* Takes bytes of a header; the number used. *code is set if they are wrong. */
static size_t read_header(struct zn_ws *ws, const char *buf, size_t len, int *code)
{
	size_t used = 0;

	while (used < len && !*code && (ws->head_len < 2 || ws->head_len < ws->head_need)) {
		ws->head[ws->head_len++] = (uint8_t)buf[used++];
		if (ws->head_len == 2)
			*code = start_frame(ws);
		else if (ws->head_len == ws->head_need)
			*code = finish_header(ws);
	}
	return used;
}

/* RFC 6455, section 7.4; 1012 to 1014 are in the registry that it founded. */
static bool valid_code(unsigned code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

static int finish_close(struct zn_ws *ws, struct zn_ws_event *ev)
{
	ev->code = CODE_NONE;
	ws->done = true;
	if (!ev->data.len)
		return 0;
	ev->code = (uint16_t)(ws->control[0] << 8 | ws->control[1]);
	if (ev->data.len == 1 || !valid_code(ev->code))
		return CODE_PROTOCOL;
	ev->data.at += 2;
	ev->data.len -= 2;
	return utf8_run(0, ev->data.at, ev->data.len) ? CODE_TEXT : 0;
}

static int control_piece(struct zn_ws *ws, struct zn_ws_event *ev, struct zn_str piece)
{
	memcpy(ws->control + ws->control_len, piece.at, piece.len);
	ws->control_len = (uint8_t)(ws->control_len + piece.len);
	if (ws->left)
		return 0;
	*ev = (struct zn_ws_event){.op = ws->op, .final = true};
	ev->data = (struct zn_str){(const char *)ws->control, ws->control_len};
	ev->type = ws->op == ZN_WS_PING ? ZN_WS_EV_PING : ws->op == ZN_WS_PONG ? ZN_WS_EV_PONG : ZN_WS_EV_CLOSE;
	return ws->op == ZN_WS_CLOSE ? finish_close(ws, ev) : 0;
}

static int data_piece(struct zn_ws *ws, struct zn_ws_event *ev, struct zn_str piece)
{
	bool final = ws->fin && !ws->left;

	ws->have += piece.len;
	if (ws->message_op == ZN_WS_TEXT)
		ws->utf8 = utf8_run(ws->utf8, piece.at, piece.len);
	if (ws->utf8 == ZN_UTF8_BAD || (final && ws->utf8))
		return CODE_TEXT;
	if (piece.len || final)
		*ev = (struct zn_ws_event){ZN_WS_EV_DATA, ws->message_op, final, 0, piece};
	if (final)
		ws->message_op = 0;
	return 0;
}

/* Unmasks what there is of the current frame's payload, and hands it on; the number of bytes used. */
static size_t read_payload(struct zn_ws *ws, char *buf, size_t len, struct zn_ws_event *ev)
{
	struct zn_str piece = {buf, len < ws->left ? len : (size_t)ws->left};
	int code;

	for (size_t i = 0; i < piece.len; i++)
		buf[i] = (char)(buf[i] ^ ws->mask[ws->mask_at++ & 3]);
	ws->left -= piece.len;
	if (!ws->left)
		ws->head_len = ws->head_need = 0;
	code = is_control(ws) ? control_piece(ws, ev, piece) : data_piece(ws, ev, piece);
	if (code)
		end_with_error(ws, ev, code);
	return piece.len;
}

int zn_ws_read(struct zn_ws *ws, char *buf, size_t len, struct zn_ws_event *ev)
{
	size_t used = 0;
	int code = 0;

	*ev = (struct zn_ws_event){0};
	if (ws->done)
		return -1;
	if (len > INT_MAX)
		len = INT_MAX;
	while (used < len && ev->type == ZN_WS_EV_NONE) {
		used += read_header(ws, buf + used, len - used, &code);
		if (code)
			end_with_error(ws, ev, code);
		else if (ws->head_len > 2 && ws->head_len == ws->head_need)
			used += read_payload(ws, buf + used, len - used, ev);
	}
	return (int)used;
}
