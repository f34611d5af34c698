/* SPDX-License-Identifier: GPL-2.0 */
/*
 * handshake_fuzz.c: any bytes as the opening of a WebSocket, cut anywhere: the head, what the handshake makes of it,
 * its key, and what follows in the same segment as frames. What is let in must have in its head, line by line, all that
 * section 4.2.1 of RFC 6455 asks for.
 */
#include <stdlib.h>

#include "json.c"
#include "http.c"
#include "ws.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static char *copy_of(const char *at, size_t len)
{
	char *block = malloc(len ? len : 1);

	memcpy(block, at, len);
	return block;
}

/* The line of the head that has this name: its value; *count is how many there are. */
static struct zn_str find_line(struct zn_str head, const char *name, size_t *count)
{
	struct zn_str line, value = {0};

	*count = 0;
	while (head.len) {
		zn_str_split(&head, "\n", &line);
		if (line.len <= strlen(name) || line.at[strlen(name)] != ':' ||
			strncasecmp(line.at, name, strlen(name)))
			continue;
		value = zn_str_trim(zn_str_between(line.at + strlen(name) + 1, line.at + line.len - 1), " \t");
		++*count;
	}
	return value;
}

static bool holds(struct zn_str head, const char *text)
{
	for (; head.len >= strlen(text); head.at++, head.len--)
		if (!strncasecmp(head.at, text, strlen(text)))
			return true;
	return false;
}

/* A handshake that is let in, against its own bytes. */
static void check_open(struct zn_str head, const struct zn_http_req *req)
{
	char accept[ZN_WS_ACCEPT_LEN + 1] = "";
	struct zn_str key, first = head;
	size_t count;

	while (first.len && *first.at == '\r')
		first.at += 2, first.len -= 2;
	check(!memcmp(first.at, "GET ", 4) && req->method == ZN_GET && !req->http10);
	find_line(head, "host", &count);
	check(count == 1 && req->host.len);
	check(zn_str_is(find_line(head, "sec-websocket-version", &count), "13") && count == 1);
	key = find_line(head, "sec-websocket-key", &count);
	check(count == 1 && key.len == 24 && key.at == req->ws_key.at);
	check(holds(find_line(head, "upgrade", &count), "websocket") || count > 1);
	check(holds(find_line(head, "connection", &count), "upgrade") || count > 1);
	find_line(head, "transfer-encoding", &count);
	check(!count && !req->length);
	check(zn_ws_accept(key, accept) == 0 && strlen(accept) == ZN_WS_ACCEPT_LEN);
	check(accept[ZN_WS_ACCEPT_LEN - 1] == '=' && strspn(accept, base64) == ZN_WS_ACCEPT_LEN - 1);
}

/* What follows the head, as frames, up to the end of the stream or of the input. */
static void read_frames(const char *at, size_t len)
{
	char *block = copy_of(at, len);
	struct zn_ws_event ev;
	struct zn_ws ws;
	size_t done = 0;

	zn_ws_init(&ws, 300);
	while (done < len && !ws.done) {
		int used = zn_ws_read(&ws, block + done, len - done, &ev);

		check(used > 0 && (size_t)used <= len - done);
		done += (size_t)used;
	}
	free(block);
}

/* The same bytes up to `len`: what has come of the head so far is let in only once it is whole. */
static int open_part(const char *text, size_t len)
{
	char *block = copy_of(text, len);
	struct zn_http_req req;
	int used = zn_http_parse(block, len, &req), status = used > 0 ? zn_ws_handshake(&req) : -1;

	check(status == -1 || status == 0 || status == 400 || status == 426);
	free(block);
	return status;
}

/* A key on its own: it is good, or the buffer stays as it was. */
static void check_key(const char *text, size_t len)
{
	char accept[ZN_WS_ACCEPT_LEN + 1] = "untouched";
	int err = zn_ws_accept((struct zn_str){text, len}, accept);

	check(err == 0 || err == -EINVAL);
	check(err ? !strcmp(accept, "untouched") : len == 24 && strlen(accept) == ZN_WS_ACCEPT_LEN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data;
	struct zn_http_req req;
	int used = zn_http_parse(text, len, &req), status = used > 0 ? zn_ws_handshake(&req) : -1;

	if (!status) {
		check_open((struct zn_str){text, (size_t)used}, &req);
		read_frames(text + used, len - (size_t)used);
	}
	for (size_t at = 0; at <= len; at += len / 64 + 1)
		check(open_part(text, at) == (used > 0 && at >= (size_t)used ? status : -1));
	check_key(text, len);
	return 0;
}
