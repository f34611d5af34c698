/* SPDX-License-Identifier: GPL-2.0 */
/*
 * loop_test.c: the loop (loop.c): what is closed within a batch of events is passed over; timers.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "t.h"
#include "zernel.h"

static struct zn_loop loop;

static void quit_ready(struct zn_io *io, uint32_t events)
{
	(void)events;
	zn_timer_count(io);
	loop.stop = true;
}

struct waiter {
	struct zn_io io; /* first */
	struct waiter *other;
	unsigned woken;
};

static void waiter_ready(struct zn_io *io, uint32_t events)
{
	struct waiter *w = (struct waiter *)io;

	(void)events;
	w->woken++;
	zn_loop_forget(&loop, &w->other->io);
	loop.stop = true;
}

/* Of two that are ready in one batch, the first closes the second: the second is passed over. */
T(closed_within_the_batch)
{
	struct waiter w[2] = {{.other = &w[1]}, {.other = &w[0]}};

	loop = (struct zn_loop){0};
	CHECK_EQ(zn_loop_open(&loop), 0);
	for (int i = 0; i < 2; i++) {
		w[i].io = (struct zn_io){eventfd(1, EFD_CLOEXEC), waiter_ready};
		CHECK_EQ(zn_loop_add(&loop, &w[i].io, EPOLLIN), 0);
	}
	CHECK_EQ(zn_loop_run(&loop), 0);
	CHECK_EQ(w[0].woken + w[1].woken, 1);
	for (int i = 0; i < 2; i++) {
		zn_loop_forget(&loop, &w[i].io);
		CHECK_EQ(w[i].io.fd, -1);
	}
	zn_loop_close(&loop);
	zn_loop_close(&loop);
}

T(timer)
{
	struct zn_io t = {.ready = quit_ready};

	CHECK_EQ(zn_loop_open(&loop), 0);
	CHECK_EQ(zn_timer_open(&t, 0), 0);
	CHECK_EQ(zn_timer_count(&t), 0);
	CHECK_EQ(zn_loop_add(&loop, &t, EPOLLIN), 0);
	CHECK_EQ(zn_timer_set(&t, 1), 0);
	CHECK_EQ(zn_loop_run(&loop), 0);
	poll(&(struct pollfd){.fd = t.fd, .events = POLLIN}, 1, -1);
	CHECK(zn_timer_count(&t) >= 1);
	CHECK_EQ(zn_timer_set(&t, 0), 0);
	CHECK_EQ(zn_timer_count(&t), 0);
	zn_loop_forget(&loop, &t);
	CHECK_EQ(zn_timer_set(&t, 1), -EBADF);
	zn_loop_close(&loop);
}

int main(void)
{
	RUN(closed_within_the_batch);
	RUN(timer);
	return t_end();
}
