/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fanout PORT CLIENTS SNAPSHOTS: that many WebSocket clients of one daemon, which all read what they are sent. Waits
 * for so many snapshots that every client has got, and prints of them p50 and the longest time, in us, from the time
 * that a snapshot bears (whole milliseconds, cut off: up to 1 ms too much) until the last client had all of it; the
 * bytes of one frame; and how many snapshots some client did not get. Says "ready" first, once all have had one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define CLIENTS_MAX   8000
#define SNAPSHOTS_MAX 1000
#define FRAME_HEAD    10
#define HEAD_BYTES    8192 /* of a frame: its own head, and where a snapshot tells its time */
#define RECENT        4    /* snapshots that may be on their way at one time */

/* What a client has of the frame at hand. */
struct client {
	int fd;
	size_t have, need; /* bytes; need is 0 until the length is known */
	char head[HEAD_BYTES];
};
struct snapshot {
	uint64_t ms; /* since 1970; 0: free */
	uint32_t clients;
};

static struct client client[CLIENTS_MAX];
static uint32_t client_count, wanted, done, missed;
static struct snapshot recent[RECENT];
static uint64_t delay_us[SNAPSHOTS_MAX];
static size_t frame_bytes;

static uint64_t wall_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int join(int port)
{
	static const char request[] =
		"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: emVybmVsIGJlbmNobWFyaw==\r\n\r\n";
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char answer[1024];
	size_t len = 0;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connect", strerror(errno));
	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
		die("send", strerror(errno));
	/* byte by byte, so that the first frame stays in the socket */
	while (len < 4 || memcmp(answer + len - 4, "\r\n\r\n", 4))
		if (len == sizeof(answer) || recv(fd, answer + len++, 1, 0) != 1)
			die("handshake", "no answer");
	if (memcmp(answer, "HTTP/1.1 101", 12))
		die("handshake", "it is refused");
	return fd;
}

/* The length of a frame with its head, 0: more is needed. */
static size_t frame_len(const struct client *c)
{
	const uint8_t *b = (const uint8_t *)c->head;
	size_t extra = c->have < 2 ? 0 : b[1] == 126 ? 2 : b[1] == 127 ? 8 : 0, len = 0;

	if (c->have < 2 + extra)
		return 0;
	if (!extra)
		return 2 + b[1];
	for (size_t i = 0; i < extra; i++)
		len = len << 8 | b[2 + i];
	return 2 + extra + len;
}

static struct snapshot *snapshot_of(uint64_t ms)
{
	struct snapshot *oldest = recent;

	for (size_t i = 0; i < RECENT; i++) {
		if (recent[i].ms == ms)
			return &recent[i];
		if (recent[i].ms < oldest->ms)
			oldest = &recent[i];
	}
	missed += oldest->ms && oldest->clients < client_count;
	*oldest = (struct snapshot){.ms = ms};
	return oldest;
}

static void note(const struct client *c)
{
	static const char key[] = "\"last_update_ms\":";
	size_t len = c->need < HEAD_BYTES ? c->need : HEAD_BYTES;
	const char *at = memmem(c->head, len, key, sizeof(key) - 1);
	struct snapshot *s;

	if (!at)
		return; /* a ping, or a snapshot of a node with too many processes for this tool */
	s = snapshot_of(strtoull(at + sizeof(key) - 1, NULL, 10));
	frame_bytes = c->need;
	if (++s->clients == client_count && done < wanted)
		delay_us[done++] = wall_us() - s->ms * 1000;
}

/* Takes what belongs to the frame at hand; the bytes used. */
static size_t take(struct client *c, const char *at, size_t len)
{
	size_t room = c->have < HEAD_BYTES ? HEAD_BYTES - c->have : 0, end = c->need ? c->need - c->have : FRAME_HEAD;

	if (!c->need)
		len = 1; /* until the length is known */
	if (len > end)
		len = end;
	memcpy(c->head + c->have, at, len < room ? len : room);
	c->have += len;
	if (!c->need)
		c->need = frame_len(c);
	if (c->need && c->have == c->need) {
		note(c);
		c->have = c->need = 0;
	}
	return len;
}

static void receive(struct client *c)
{
	static char buffer[1 << 20];
	ssize_t n = recv(c->fd, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		die("recv", "the daemon closed a connection");
	for (ssize_t at = 0; at < n;)
		at += (ssize_t)take(c, buffer + at, (size_t)(n - at));
}

static void turn(int epoll)
{
	struct epoll_event event[256];
	int n = epoll_wait(epoll, event, 256, 10000);

	if (n <= 0 && errno != EINTR)
		die("epoll_wait", "nothing for 10 s");
	for (int i = 0; i < n; i++)
		receive(event[i].data.ptr);
}

static void connect_all(int epoll, int port)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (uint32_t i = 0; i < client_count; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &client[i]};

		client[i].fd = join(port);
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, client[i].fd, &event))
			die("epoll_ctl", strerror(errno));
	}
}

static void await(int epoll, uint32_t snapshots)
{
	memset(recent, 0, sizeof(recent));
	done = missed = 0;
	wanted = snapshots;
	while (done < wanted)
		turn(epoll);
}

int main(int argc, char **argv)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint32_t snapshots = argc == 4 ? (uint32_t)atoi(argv[3]) : 0;

	client_count = argc == 4 ? (uint32_t)atoi(argv[2]) : 0;
	if (!client_count || client_count > CLIENTS_MAX || !snapshots || snapshots > SNAPSHOTS_MAX)
		die("usage", "fanout PORT CLIENTS SNAPSHOTS");
	connect_all(epoll, atoi(argv[1]));
	await(epoll, 1); /* what came while some were not there yet */
	puts("ready");
	fflush(stdout);
	await(epoll, snapshots);
	qsort(delay_us, done, sizeof(delay_us[0]), by_size);
	printf("%lu %lu %zu %u\n", delay_us[done / 2], delay_us[done - 1], frame_bytes, missed);
	return 0;
}
