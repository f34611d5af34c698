/* SPDX-License-Identifier: GPL-2.0 */
/*
 * requests LIBRARY [COMMAND...]: a server whose calls are timed, and its client, a process of its own; with a LIBRARY
 * that is not "none", beside a child that uses a GPU, so that the daemon watches it. With COMMAND it becomes that
 * instead. Reads lines: time KIND BLOCKS CALLS prints the time of one, ns of its thread on its CPU, in the block that a
 * tenth of the blocks are faster than: others' work fills caches. Kinds: request, which is received and answered;
 * event, a send of a streamed answer; receive, of a part of a request's body. All that is received in a block lies in
 * the socket when it begins, and all that is sent is read after it, so that nobody is waited for. Each block of events
 * or receives is within one request more, which is not timed.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <signal.h>
#include <unistd.h>

#include "bench.h"

#define BLOCKS_MAX 1000
#define REST_US    200 /* after each block, for who else wants this CPU */
#define LAUNCH_US  50000

static const char request[] = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char event[] = "2a\r\ndata: {\"id\":\"chatcmpl-1\",\"text\":\"a word\"}\n\n\r\n";
static const char last[] = "0\r\n\r\n";
static const char part[] = "a part of a body, as long as a line of text of this program is\n";
static int client_fd, server_fd, to_client[2], from_client[2];

static void check(bool good, const char *what)
{
	if (!good)
		die(what, "failed");
}

/* ---- both ends ---- */

struct order {
	uint32_t requests, parts, answer_bytes; /* to send; to read, after a word */
};

static void all_sent(int fd, const char *text, size_t len)
{
	check(send(fd, text, len, MSG_NOSIGNAL) == (ssize_t)len, "send");
}

static void all_read(int fd, size_t len)
{
	static char bytes[1 << 16];

	while (len) {
		ssize_t n = recv(fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes), 0);

		check(n > 0, "recv");
		len -= (size_t)n;
	}
}

static void told(int fd)
{
	char word;

	check(read(fd, &word, 1) == 1, "the other end");
}

static void client_run(void)
{
	struct order o;

	while (read(to_client[0], &o, sizeof(o)) == sizeof(o)) {
		for (uint32_t i = 0; i < o.requests; i++)
			all_sent(client_fd, request, sizeof(request) - 1);
		for (uint32_t i = 0; i < o.parts; i++)
			all_sent(client_fd, part, sizeof(part) - 1);
		check(write(from_client[1], "s", 1) == 1, "write");
		told(to_client[0]);
		all_read(client_fd, o.answer_bytes);
		check(write(from_client[1], "r", 1) == 1, "write");
	}
}

static void ends_open(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	socklen_t len = sizeof(at);

	check(pipe(to_client) == 0 && pipe(from_client) == 0, "pipe");
	check(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0 &&
			getsockname(listener, (struct sockaddr *)&at, &len) == 0,
		"listen");
	client_fd = socket(AF_INET, SOCK_STREAM, 0);
	check(connect(client_fd, (struct sockaddr *)&at, len) == 0, "connect");
	server_fd = accept(listener, NULL, NULL);
	check(server_fd >= 0, "accept");
	setsockopt(client_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(server_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(listener);
		close(server_fd);
		client_run();
		_exit(0);
	}
	close(client_fd);
}

/* ---- a block ---- */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double requests_time(uint32_t calls)
{
	uint64_t start = cpu_ns();

	for (uint32_t i = 0; i < calls; i++) {
		all_read(server_fd, sizeof(request) - 1);
		all_sent(server_fd, answer, sizeof(answer) - 1);
	}
	return (double)(cpu_ns() - start) / calls;
}

static double events_time(uint32_t calls)
{
	uint64_t start, end;

	all_read(server_fd, sizeof(request) - 1);
	all_sent(server_fd, head, sizeof(head) - 1);
	start = cpu_ns();
	for (uint32_t i = 0; i < calls; i++)
		all_sent(server_fd, event, sizeof(event) - 1);
	end = cpu_ns();
	all_sent(server_fd, last, sizeof(last) - 1);
	return (double)(end - start) / calls;
}

static double receives_time(uint32_t calls)
{
	uint64_t start, end;

	all_read(server_fd, sizeof(request) - 1);
	start = cpu_ns();
	for (uint32_t i = 0; i < calls; i++)
		all_read(server_fd, sizeof(part) - 1);
	end = cpu_ns();
	all_sent(server_fd, answer, sizeof(answer) - 1);
	return (double)(end - start) / calls;
}

static const struct {
	const char *name;
	double (*time)(uint32_t calls);
	uint32_t requests, parts, answer, more; /* for each call; bytes of its answer; of what is beside them */
} kinds[] = {{"request", requests_time, 1, 0, sizeof(answer) - 1, 0},
	{"event", events_time, 0, 0, sizeof(event) - 1, sizeof(head) - 1 + sizeof(last) - 1},
	{"receive", receives_time, 0, 1, 0, sizeof(answer) - 1}};

static double block_time(size_t k, uint32_t calls)
{
	struct order o = {.requests = kinds[k].requests ? calls : 1,
		.parts = kinds[k].parts * calls,
		.answer_bytes = kinds[k].answer * calls + kinds[k].more};
	double ns;

	check(write(to_client[1], &o, sizeof(o)) == sizeof(o), "write");
	told(from_client[0]);
	ns = kinds[k].time(calls);
	check(write(to_client[1], "r", 1) == 1, "write");
	told(from_client[0]);
	return ns;
}

static void time_calls(const char *name, uint32_t blocks, uint32_t calls)
{
	static double ns[BLOCKS_MAX];
	size_t k = 0;

	while (k < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[k].name, name))
		k++;
	if (k == sizeof(kinds) / sizeof(kinds[0]))
		die(name, "no such kind");
	for (uint32_t i = 0; i < blocks; i++) {
		ns[i] = block_time(k, calls);
		pause_us(REST_US);
	}
	qsort(ns, blocks, sizeof(ns[0]), by_value);
	printf("%.2f\n", ns[blocks / 10]);
}

/* ---- beside a GPU ---- */

static void gpu_use(const char *path)
{
	void *library = library_open(path), *context;

	((int (*)(unsigned))symbol(library, "cuInit"))(0);
	((int (*)(void **, int))symbol(library, "cuDevicePrimaryCtxRetain"))(&context, 0);
	((int (*)(void *))symbol(library, "cuCtxSetCurrent"))(context);
	for (;;) {
		((int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
			void **))symbol(library, "cuLaunchKernel"))(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
		pause_us(LAUNCH_US);
	}
}

static void gpu_begin(const char *path)
{
	if (strcmp(path, "none") == 0 || fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	gpu_use(path);
}

int main(int argc, char **argv)
{
	char line[256], kind[32];
	uint32_t blocks, calls;

	if (argc < 2)
		die("usage", "requests LIBRARY [COMMAND...]");
	gpu_begin(argv[1]);
	if (argc > 2) {
		execv(argv[2], argv + 2);
		die(argv[2], "cannot be run");
	}
	ends_open();
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "time %31s %u %u", kind, &blocks, &calls) != 3 || !blocks || blocks > BLOCKS_MAX ||
			!calls)
			die("not understood", line);
		time_calls(kind, blocks, calls);
		fflush(stdout);
	}
	return 0;
}
