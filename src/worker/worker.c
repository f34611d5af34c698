/* SPDX-License-Identifier: GPL-2.0 */
/*
 * worker.c: what the processes beside the daemon have in common (writer.c, sender.c): how they are started, what they
 * let go of first, and how something is handed over to them.
 *
 * Messages lie in a queue in memory that both processes see, made before the fork: how much may wait depends on no
 * limit of sockets (net.core.wmem_max), no privilege, and no memory in one piece. A socket pair between the two carries
 * no more than a byte that wakes the child, and the end of either. What lies in the queue is read also after the daemon
 * has ended.
 *
 * Each side keeps its own place in the queue to itself and believes nothing that the other one writes: at worst
 * messages are lost, which are of the side that lied.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"

#define QUEUE_BYTES (8u << 20) /* of messages that wait; a page becomes resident when it is used */
#define HEAD_BYTES  8u         /* before each message: its length */

/* Places count bytes and only grow. */
struct zn_queue {
	/* the daemon alone writes these: the end of what it put, and a place whose byte is the first one of bytes */
	_Alignas(64) uint64_t put, origin;
	_Alignas(64) uint64_t taken; /* the child alone writes it */
	_Alignas(64) char bytes[QUEUE_BYTES];
};

static int queue_open(struct zn_worker *c)
{
	c->queue = mmap(NULL, sizeof(*c->queue), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->queue != MAP_FAILED)
		return 0;
	c->queue = NULL;
	return -errno;
}

static void queue_close(struct zn_worker *c)
{
	if (c->queue)
		munmap(c->queue, sizeof(*c->queue));
	c->queue = NULL;
}

void zn_worker_hang_up(struct zn_worker *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* Further processes get neither the queue nor the socket of this one. */
static int fork_with(struct zn_worker *c, int ends[2])
{
	int err;

	c->pid = fork();
	err = c->pid < 0 ? -errno : 0;
	c->fd = ends[c->pid == 0];
	close(ends[c->pid != 0]);
	if (c->pid > 0)
		madvise(c->queue, sizeof(*c->queue), MADV_DONTFORK);
	if (err)
		zn_worker_hang_up(c);
	return err;
}

int zn_worker_open(struct zn_worker *c)
{
	int ends[2], err;

	*c = (struct zn_worker){.fd = -1};
	err = queue_open(c);
	if (!err && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		err = -errno;
	if (!err)
		err = fork_with(c, ends);
	if (err) {
		queue_close(c);
		*c = (struct zn_worker){.fd = -1};
	}
	return err;
}

void zn_worker_close(struct zn_worker *c)
{
	if (c->queue) /* else it was never opened */
		zn_worker_hang_up(c);
	queue_close(c);
	*c = (struct zn_worker){.fd = -1};
}

/* One by one where the kernel has no such call (before 5.9), or systemd does not know it and so refuses it. */
static void close_between(unsigned first, unsigned last)
{
	struct rlimit files = {0};

	if (!close_range(first, last, 0))
		return;
	getrlimit(RLIMIT_NOFILE, &files);
	for (unsigned fd = first; fd <= last && fd < files.rlim_cur; fd++)
		close((int)fd);
}

/* Closes all descriptors but the socket and the standard ones: a child that kept the daemon's end of the socket would
 * not see that end. */
static void close_others(int socket)
{
	if (socket > 3)
		close_between(3, (unsigned)socket - 1);
	close_between((unsigned)socket + 1, UINT_MAX);
}

/* Standard error stays: it is where the log goes. */
static void close_standard(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (null > STDERR_FILENO)
		close(null);
}

void zn_worker_become(const char *name, int socket)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

	for (size_t i = 0; i < ZN_LEN(ignored); i++)
		signal(ignored[i], SIG_IGN);
	prctl(PR_SET_NAME, name, 0, 0, 0);
	close_standard();
	close_others(socket);
	zn_log_burst = 20;
}

bool zn_worker_wait(int fd, unsigned ms)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	uint64_t end_ns = zn_now_ns() + ms * ZN_NS_PER_MS, now_ns;
	int n = 0;

	while (n != 1 && (now_ns = zn_now_ns()) < end_ns)
		n = poll(&one, 1, (int)((end_ns - now_ns) / ZN_NS_PER_MS) + 1);
	return n == 1;
}

/* ---- the queue ---- */

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + HEAD_BYTES - 1) / HEAD_BYTES * HEAD_BYTES;
}

/* Copies to or from a place in the queue; the end of its memory may lie in between. */
static void copy_in(struct zn_worker *c, uint64_t place, const void *from, size_t len)
{
	size_t begin = (place - c->origin) % QUEUE_BYTES, first = QUEUE_BYTES - begin;

	if (first > len)
		first = len;
	memcpy(c->queue->bytes + begin, from, first);
	memcpy(c->queue->bytes, (const char *)from + first, len - first);
}

static void copy_out(const struct zn_worker *c, uint64_t place, void *to, size_t len)
{
	size_t begin = (place - c->origin) % QUEUE_BYTES, first = QUEUE_BYTES - begin;

	if (first > len)
		first = len;
	memcpy(to, c->queue->bytes + begin, first);
	memcpy((char *)to + first, c->queue->bytes, len - first);
}

/* A byte that cannot be sent is one of many that wait. */
static int wake_worker(struct zn_worker *c)
{
	if (send(c->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN && errno != EINTR &&
		errno != ENOBUFS)
		return -errno;
	return 0;
}

/* An empty queue begins anew at its first byte, so that no more memory is used than messages ever waited. */
int zn_worker_put(struct zn_worker *c, const void *head, size_t head_len, struct zn_str text)
{
	uint32_t length[2] = {(uint32_t)(head_len + text.len)};
	uint64_t need = HEAD_BYTES + round_up(head_len + text.len);
	uint64_t waits = c->place - __atomic_load_n(&c->queue->taken, __ATOMIC_ACQUIRE);

	if (need > QUEUE_BYTES || waits > QUEUE_BYTES - need)
		return -EAGAIN;
	if (!waits)
		c->queue->origin = c->origin = c->place;
	copy_in(c, c->place, length, HEAD_BYTES);
	copy_in(c, c->place + HEAD_BYTES, head, head_len);
	copy_in(c, c->place + HEAD_BYTES + head_len, text.at, text.len);
	c->place += need;
	__atomic_store_n(&c->queue->put, c->place, __ATOMIC_RELEASE);
	return wake_worker(c);
}

/* The length of the next message; 0: there is none. A queue that makes no sense is passed over as a whole. */
static size_t next_length(struct zn_worker *c, size_t cap)
{
	uint64_t put = __atomic_load_n(&c->queue->put, __ATOMIC_ACQUIRE), waits = put - c->place;
	uint32_t length[2];

	if (!waits)
		return 0;
	c->origin = c->queue->origin;
	copy_out(c, c->place, length, HEAD_BYTES);
	if (waits <= QUEUE_BYTES && length[0] && length[0] <= cap && HEAD_BYTES + round_up(length[0]) <= waits)
		return length[0];
	c->place = put;
	return 0;
}

size_t zn_worker_take(struct zn_worker *c, void *to, size_t cap)
{
	size_t len = next_length(c, cap);

	if (len) {
		copy_out(c, c->place + HEAD_BYTES, to, len);
		c->place += HEAD_BYTES + round_up(len);
	}
	__atomic_store_n(&c->queue->taken, c->place, __ATOMIC_RELEASE);
	return len;
}

bool zn_worker_woken(const struct zn_worker *c, bool waits)
{
	char byte;
	ssize_t n;

	do
		n = recv(c->fd, &byte, 1, waits ? 0 : MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	while (n > 0)
		n = recv(c->fd, &byte, 1, MSG_DONTWAIT);
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}
