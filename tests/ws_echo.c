/* SPDX-License-Identifier: GPL-2.0 */
/* ws_echo.c: `ws_echo [-m MAX] PORT` sends the messages of WebSocket clients on 127.0.0.1 back, through the daemon's
 * ws.c, http.c and loop.c, so that conformance suites can run on them. MAX: bytes of the largest message. Port 0 is
 * any; the port is printed. Each client has a process, which holds a message whole and sends it before it reads on. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "zernel.h"

static struct zn_ws ws;
static struct zn_out message;
static char in[1 << 16];

static void answer(int fd, enum zn_ws_op op, struct zn_str payload)
{
	uint8_t head[10];

	send(fd, head, zn_ws_header(head, op, payload.len), MSG_NOSIGNAL | (payload.len ? MSG_MORE : 0));
	send(fd, payload.at, payload.len, MSG_NOSIGNAL);
}
static void act(int fd, const struct zn_ws_event *ev)
{
	if (ev->type == ZN_WS_EV_PING)
		answer(fd, ZN_WS_PONG, ev->data);
	if (ev->type == ZN_WS_EV_DATA)
		zn_out_bytes(&message, ev->data.at, ev->data.len);
	if (ev->type == ZN_WS_EV_DATA && ev->final)
		answer(fd, ev->op, (struct zn_str){message.at, message.len}), message.len = 0;
	if (ev->type < ZN_WS_EV_CLOSE)
		return;
	answer(fd, ZN_WS_CLOSE,
		(struct zn_str){(char[]){(char)(ev->code >> 8), (char)ev->code}, ev->code == 1005 ? 0 : 2});
	exit(shutdown(fd, SHUT_WR) || recv(fd, in, sizeof(in), MSG_WAITALL) < 0);
}
static void ready(struct zn_io *io, uint32_t events)
{
	ssize_t got = events ? recv(io->fd, in, sizeof(in), 0) : 0;
	struct zn_ws_event ev;

	if (got <= 0)
		exit(0);
	for (size_t at = 0; at < (size_t)got; act(io->fd, &ev))
		at += (size_t)zn_ws_read(&ws, in + at, (size_t)got - at, &ev);
}
static void greet(int fd)
{
	char accept[ZN_WS_ACCEPT_LEN + 1];
	struct zn_http_req req;
	int used = 0;

	for (size_t len = 0; !used && recv(fd, in + len, 1, 0) == 1;) /* byte by byte: no frame comes with it */
		used = zn_http_parse(in, ++len, &req);
	if (used <= 0 || zn_ws_handshake(&req) || zn_ws_accept(req.ws_key, accept))
		exit(1);
	dprintf(fd, "HTTP/1.1 101 \r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		accept);
}
int main(int argc, char **argv)
{
	struct sockaddr_in at = {AF_INET, htons((uint16_t)atoi(argv[argc - 1])), {htonl(INADDR_LOOPBACK)}, {0}};
	struct zn_io io = {.ready = ready};
	struct zn_loop loop;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	zn_ws_init(&ws, argc == 4 && !strcmp(argv[1], "-m") ? strtoull(argv[2], NULL, 10) : 16 << 20);
	message = (struct zn_out){.at = malloc(ws.max + 1), .cap = ws.max};
	if (!message.at || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
		bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 128) ||
		getsockname(fd, (struct sockaddr *)&at, &(socklen_t){sizeof(at)}))
		return 1;
	dprintf(STDOUT_FILENO, "%u\n", ntohs(at.sin_port));
	while ((io.fd = accept(fd, NULL, NULL)) >= 0 && fork())
		close(io.fd);
	greet(io.fd);
	return zn_loop_open(&loop) || zn_loop_add(&loop, &io, EPOLLIN) || zn_loop_run(&loop);
}
