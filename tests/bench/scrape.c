/* SPDX-License-Identifier: GPL-2.0 */
/*
 * scrape PORT PATH MS [gzip]: asks one server again and again over one kept connection for that long, and prints
 * scrapes per second, p50 and p99 in us, and the bytes and sample lines of the last answer. It never sleeps, so
 * that the server spends no time on waking it. Understands Content-Length and chunked answers, no others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define ANSWER_MAX  (16 << 20)
#define SAMPLES_MAX 1000000

static char answer[ANSWER_MAX + 1];
static size_t answer_len;
static uint64_t sample[SAMPLES_MAX];

static int open_port(int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connect", "nobody listens");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* The end of a chunked body that starts at `at`, NULL if it is not all there. */
static const char *chunks_end(const char *at)
{
	const char *end = answer + answer_len;

	while (at < end) {
		char *after;
		unsigned long len = strtoul(at, &after, 16);

		if (end - after < (long)len + 4)
			return NULL;
		at = after + 2 + len + 2;
		if (!len)
			return at;
	}
	return NULL;
}

static bool complete(void)
{
	const char *body = strstr(answer, "\r\n\r\n"), *length;

	if (!body)
		return false;
	body += 4;
	length = strcasestr(answer, "\r\nContent-Length:");
	if (length && length < body)
		return answer + answer_len >= body + strtoul(length + 17, NULL, 10);
	return chunks_end(body) != NULL;
}

static void ask(int fd, const char *request)
{
	answer_len = answer[0] = 0;
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		die("send", "the server has gone");
	do {
		ssize_t n = recv(fd, answer + answer_len, ANSWER_MAX - answer_len, MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			die("recv", "the server closed the connection");
		answer_len += (size_t)n;
		answer[answer_len] = 0;
	} while (!complete());
}

static size_t lines(void)
{
	size_t count = 0;

	for (const char *at = strstr(answer, "\r\n\r\n") + 4; at && *at; at = strchr(at, '\n')) {
		at += *at == '\n';
		count += *at && *at != '#' && *at != '\r' && strchr("0123456789", *at) == NULL;
	}
	return count;
}

int main(int argc, char **argv)
{
	char request[512];
	uint64_t start, end;
	size_t n = 0;
	int fd;

	if (argc < 4)
		die("usage", "scrape PORT PATH MS [gzip]");
	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", argv[2],
		argc > 4 ? "Accept-Encoding: gzip\r\n" : "");
	fd = open_port(atoi(argv[1]));
	ask(fd, request);
	start = now_ns();
	end = start + strtoull(argv[3], NULL, 10) * 1000000;
	while (now_ns() < end && n < SAMPLES_MAX) {
		uint64_t begin = now_ns();

		ask(fd, request);
		sample[n++] = now_ns() - begin;
	}
	end = now_ns();
	if (strncmp(answer, "HTTP/1.1 200", 12))
		die("answer", "is not 200");
	qsort(sample, n, sizeof(sample[0]), by_size);
	printf("%.1f %.1f %.1f %zu %zu\n", (double)n * 1e9 / (double)(end - start), (double)sample[n / 2] / 1e3,
		(double)sample[n * 99 / 100] / 1e3, answer_len, lines());
	return 0;
}
