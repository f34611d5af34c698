/* SPDX-License-Identifier: GPL-2.0 */
/*
 * matrix_ring.c: the same by io_uring and by libaio.
 */
#include <linux/io_uring.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "matrix.h"

struct ring {
	int fd;
	struct io_uring_params p;
	char *sq, *cq;
	struct io_uring_sqe *sqes;
};

static bool ring_open(struct ring *r, unsigned flags)
{
	size_t len;

	memset(r, 0, sizeof(*r));
	r->p.flags = flags;
	r->p.sq_thread_idle = 2000;
	r->fd = syscall(SYS_io_uring_setup, 8, &r->p);
	if (r->fd < 0)
		return false;
	len = r->p.sq_off.array + r->p.sq_entries * sizeof(unsigned);
	r->sq = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
	len = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
	r->cq = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_CQ_RING);
	len = r->p.sq_entries * sizeof(struct io_uring_sqe);
	r->sqes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQES);
	if (r->sq == MAP_FAILED || r->cq == MAP_FAILED || r->sqes == MAP_FAILED)
		die("io_uring");
	return true;
}

static unsigned *in_ring(char *base, unsigned offset)
{
	return (unsigned *)(base + offset);
}

/* Submits one request and waits for it. */
static ssize_t ring_do(struct ring *r, const struct io_uring_sqe *sqe)
{
	unsigned *tail = in_ring(r->sq, r->p.sq_off.tail), mask = *in_ring(r->sq, r->p.sq_off.ring_mask);
	unsigned *head = in_ring(r->cq, r->p.cq_off.head), at = *tail & mask, enter = IORING_ENTER_GETEVENTS;
	unsigned submit = r->p.flags & IORING_SETUP_SQPOLL ? 0 : 1;
	struct io_uring_cqe *cqe;

	r->sqes[at] = *sqe;
	in_ring(r->sq, r->p.sq_off.array)[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (*in_ring(r->sq, r->p.sq_off.flags) & IORING_SQ_NEED_WAKEUP)
		enter |= IORING_ENTER_SQ_WAKEUP;
	while (__atomic_load_n(in_ring(r->cq, r->p.cq_off.tail), __ATOMIC_ACQUIRE) == *head) {
		if (syscall(SYS_io_uring_enter, r->fd, submit, 1, enter, NULL, 0) < 0 && errno != EINTR)
			die("io_uring_enter");
		submit = 0;
	}
	cqe = (struct io_uring_cqe *)(r->cq + r->p.cq_off.cqes) + (*head & *in_ring(r->cq, r->p.cq_off.ring_mask));
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return cqe->res;
}

/* opened: flags of the file that is written to. */
static void ring_run_opened(unsigned setup, unsigned flags, int opcode, int opened)
{
	bool is_read = opcode == IORING_OP_READ || opcode == IORING_OP_READV || opcode == IORING_OP_READ_FIXED;
	bool is_vec = opcode == IORING_OP_READV || opcode == IORING_OP_WRITEV;
	struct iovec whole = {buffer, CHUNK};
	int fd = is_read ? source(0) : target(opened);
	struct ring r;

	if (!ring_open(&r, setup))
		die("io_uring_setup");
	if ((opcode == IORING_OP_READ_FIXED || opcode == IORING_OP_WRITE_FIXED) &&
		syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_BUFFERS, &whole, 1))
		die("io_uring_register");
	for (int i = 0; i < CHUNKS; i++) {
		struct io_uring_sqe sqe = {.opcode = opcode, .fd = fd, .flags = flags, .off = (uint64_t)i * CHUNK};

		sqe.addr = is_vec ? (uintptr_t)two() : (uintptr_t)buffer;
		sqe.len = is_vec ? 2 : CHUNK;
		expect(is_read ? ZN_IO_READ : ZN_IO_WRITE, ring_do(&r, &sqe));
	}
	close(r.fd);
	close(fd);
}

static void ring_run(unsigned setup, unsigned flags, int opcode)
{
	ring_run_opened(setup, flags, opcode, 0);
}

static void case_ring_read(void)
{
	ring_run(0, 0, IORING_OP_READ);
}
static void case_ring_write(void)
{
	ring_run(0, 0, IORING_OP_WRITE);
}
static void case_ring_readv(void)
{
	ring_run(0, 0, IORING_OP_READV);
}
static void case_ring_writev(void)
{
	ring_run(0, 0, IORING_OP_WRITEV);
}
static void case_ring_fixed(void)
{
	ring_run(0, 0, IORING_OP_READ_FIXED);
}
static void case_ring_fixed_write(void)
{
	ring_run(0, 0, IORING_OP_WRITE_FIXED);
}
static void case_ring_async(void)
{
	ring_run(0, IOSQE_ASYNC, IORING_OP_READ);
}
static void case_ring_async_write(void)
{
	ring_run(0, IOSQE_ASYNC, IORING_OP_WRITE);
}
static void case_ring_sqpoll(void)
{
	ring_run(IORING_SETUP_SQPOLL, 0, IORING_OP_READ);
}
static void case_ring_sqpoll_write(void)
{
	ring_run(IORING_SETUP_SQPOLL, 0, IORING_OP_WRITE);
}
/* Each is a write, and no fsync besides. */
static void case_ring_synced(void)
{
	ring_run_opened(0, 0, IORING_OP_WRITE, O_DSYNC);
	ring_run_opened(0, IOSQE_ASYNC, IORING_OP_WRITE, O_SYNC);
}

/* ---- libaio ---- */

static void aio_run(int opcode, int opened)
{
	int fd = opcode == IOCB_CMD_PREAD ? source(0) : target(opened);
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, 8, &context))
		die("io_setup");
	for (int i = 0; i < CHUNKS; i++) {
		struct iocb iocb = {.aio_lio_opcode = opcode,
			.aio_fildes = fd,
			.aio_buf = (uintptr_t)buffer,
			.aio_nbytes = CHUNK,
			.aio_offset = (int64_t)i * CHUNK};
		struct iocb *list = &iocb;
		struct io_event event;

		if (syscall(SYS_io_submit, context, 1, &list) != 1 ||
			syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
			die("libaio");
		if (!by_call)
			expect(opcode == IOCB_CMD_PREAD ? ZN_IO_READ : ZN_IO_WRITE, event.res);
	}
	syscall(SYS_io_destroy, context);
	close(fd);
}

static void case_aio_read(void)
{
	aio_run(IOCB_CMD_PREAD, 0);
}
static void case_aio_write(void)
{
	aio_run(IOCB_CMD_PWRITE, 0);
}
static void case_aio_synced(void)
{
	aio_run(IOCB_CMD_PWRITE, O_DSYNC);
}

const struct io_case ring_cases[] = {
	{"io_uring read", case_ring_read},
	{"io_uring write", case_ring_write},
	{"io_uring readv", case_ring_readv},
	{"io_uring writev", case_ring_writev},
	{"io_uring fixed read", case_ring_fixed},
	{"io_uring fixed write", case_ring_fixed_write},
	{"io_uring async read", case_ring_async},
	{"io_uring async write", case_ring_async_write},
	{"io_uring sqpoll read", case_ring_sqpoll},
	{"io_uring sqpoll write", case_ring_sqpoll_write},
	{"io_uring synced write", case_ring_synced},
	{"libaio read", case_aio_read},
	{"libaio write", case_aio_write},
	{"libaio synced write", case_aio_synced},
	{0},
};
