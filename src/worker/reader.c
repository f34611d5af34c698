/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reader.c: a process that reads what users' processes may hold up for as long as they like: their memory, where a page
 * of it is a file of a user's own file system or comes from userfaultfd(2). It answers one request at a time, in memory
 * that both sides see, and has a time limit: the kernel's alarm ends it, and the process that watches it starts the
 * next one. That one keeps to nothing but this, for the daemon itself can start no process and end none.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"

#define LIMIT_MS 3000 /* of one request */
#define LOOK_MS  250  /* the watching process looks so often whether it has ended */
#define STUCK    8    /* readers at most that do not end even when they are killed */

struct shared {
	_Alignas(64) uint64_t since_ns; /* the reader writes it: since when it reads; 0: it does not */
	_Alignas(64) char page[];
};

/* ---- The reader, and who watches it. ---- */

static void set_alarm(unsigned ms)
{
	struct itimerval limit = {.it_value = {ms / 1000, (suseconds_t)(ms % 1000) * 1000}};

	setitimer(ITIMER_REAL, &limit, NULL);
}

static void run_reader(int fd, struct shared *s, void (*answer)(void *page))
{
	uint32_t number;
	ssize_t n;

	signal(SIGALRM, SIG_DFL);
	if (zn_sandbox_reader())
		_exit(EXIT_FAILURE);
	for (;;) {
		do
			n = recv(fd, &number, sizeof(number), 0);
		while (n < 0 && errno == EINTR);
		if (n != sizeof(number))
			_exit(EXIT_SUCCESS);
		__atomic_store_n(&s->since_ns, zn_now_ns(), __ATOMIC_RELEASE);
		set_alarm(LIMIT_MS);
		answer(s->page);
		set_alarm(0);
		__atomic_store_n(&s->since_ns, 0, __ATOMIC_RELEASE);
		send(fd, &number, sizeof(number), MSG_NOSIGNAL);
	}
}

static bool daemon_is_gone(int fd, int ms)
{
	struct pollfd one = {.fd = fd};

	return poll(&one, 1, ms) > 0 && one.revents & (POLLHUP | POLLERR | POLLNVAL);
}

/* Waits until it has ended, or hangs although its time is up: then it is left to itself. True: the daemon has gone. */
static bool watch_reader(int fd, pid_t pid, const struct shared *s)
{
	for (;;) {
		uint64_t since_ns, now_ns;

		if (daemon_is_gone(fd, LOOK_MS)) {
			kill(pid, SIGKILL);
			return true;
		}
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return false;
		since_ns = __atomic_load_n(&s->since_ns, __ATOMIC_ACQUIRE);
		now_ns = zn_now_ns();
		if (since_ns && now_ns > since_ns && now_ns - since_ns > 2ULL * LIMIT_MS * ZN_NS_PER_MS) {
			kill(pid, SIGKILL);
			return false;
		}
	}
}

static void keep_reader(int fd, struct shared *s, void (*answer)(void *page))
{
	int stuck = 0;

	zn_worker_become("zernel: readers", fd);
	if (zn_sandbox_readers())
		_exit(EXIT_FAILURE);
	for (;;) {
		pid_t pid;

		while (waitpid(-1, NULL, WNOHANG) > 0)
			stuck -= stuck > 0;
		if (stuck >= STUCK) {
			if (daemon_is_gone(fd, LOOK_MS))
				break;
			continue;
		}
		s->since_ns = 0;
		pid = fork();
		if (pid == 0)
			run_reader(fd, s, answer);
		if (pid < 0 ? daemon_is_gone(fd, LOOK_MS) : watch_reader(fd, pid, s))
			break;
		stuck += pid > 0 && kill(pid, 0) == 0;
	}
	_exit(EXIT_SUCCESS);
}

/* ---- The daemon. ---- */

int zn_reader_open(struct zn_reader *r, size_t bytes, void (*answer)(void *page))
{
	int ends[2];
	pid_t pid;

	*r = (struct zn_reader){.fd = -1, .bytes = sizeof(struct shared) + bytes};
	r->shared = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r->shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		r->shared = r->shared == MAP_FAILED ? NULL : r->shared;
		zn_reader_close(r);
		return -errno;
	}
	pid = fork();
	if (pid == 0)
		close(ends[0]);
	if (pid == 0)
		keep_reader(ends[1], r->shared, answer);
	close(ends[1]);
	r->fd = ends[0];
	if (pid > 0) {
		madvise(r->shared, r->bytes, MADV_DONTFORK);
		r->page = ((struct shared *)r->shared)->page;
		return 0;
	}
	zn_reader_close(r);
	return -EAGAIN;
}

static uint64_t reads_since(const struct zn_reader *r)
{
	return __atomic_load_n(&((const struct shared *)r->shared)->since_ns, __ATOMIC_ACQUIRE);
}

/* Answers of a request that was given up come late, and are passed over. One that was begun, is not at work any more,
 * and has no answer, has cost the reader its life. */
int zn_reader_ask(struct zn_reader *r)
{
	uint64_t begin_ns = zn_now_ns(), end_ns = begin_ns + (2ULL * LIMIT_MS + 1000) * ZN_NS_PER_MS;
	uint64_t since_ns = 0, begun_ns = 0;
	uint32_t number;

	if (r->fd < 0)
		return -EPIPE;
	r->number++;
	if (send(r->fd, &r->number, sizeof(r->number), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(r->number))
		return -errno;
	while (zn_now_ns() < end_ns) {
		if (!zn_worker_wait(r->fd, LOOK_MS)) {
			if (begun_ns && since_ns != begun_ns)
				return -ETIMEDOUT;
		} else if (recv(r->fd, &number, sizeof(number), MSG_DONTWAIT) != sizeof(number)) {
			return -EPIPE;
		} else if (number == r->number) {
			return 0;
		}
		since_ns = reads_since(r);
		if (since_ns >= begin_ns && !begun_ns)
			begun_ns = since_ns;
	}
	return begun_ns ? -ETIMEDOUT : -EAGAIN;
}

void zn_reader_hang_up(struct zn_reader *r)
{
	if (r->fd >= 0)
		shutdown(r->fd, SHUT_RDWR);
}

void zn_reader_close(struct zn_reader *r)
{
	if (!r->bytes)
		return;
	if (r->fd >= 0)
		close(r->fd);
	if (r->shared)
		munmap(r->shared, r->bytes);
	*r = (struct zn_reader){.fd = -1};
}
