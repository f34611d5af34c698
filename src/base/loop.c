/* SPDX-License-Identifier: GPL-2.0 */
/*
 * loop.c: one level-triggered epoll loop on one thread, and periodic timers for it. It owns no memory: what
 * waits is a struct zn_io inside its owner, which stays valid until the turn that closed it has ended.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "zernel.h"

#define BATCH 64

int zn_loop_open(struct zn_loop *l)
{
	*l = (struct zn_loop){.fd = epoll_create1(EPOLL_CLOEXEC)};
	return l->fd < 0 ? -errno : 0;
}

void zn_loop_close(struct zn_loop *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

static int control_epoll(struct zn_loop *l, int op, struct zn_io *io, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = io};

	return epoll_ctl(l->fd, op, io->fd, &ev) ? -errno : 0;
}

int zn_loop_add(struct zn_loop *l, struct zn_io *io, uint32_t events)
{
	return control_epoll(l, EPOLL_CTL_ADD, io, events);
}

int zn_loop_change(struct zn_loop *l, struct zn_io *io, uint32_t events)
{
	return control_epoll(l, EPOLL_CTL_MOD, io, events);
}

void zn_loop_forget(struct zn_loop *l, struct zn_io *io)
{
	if (io->fd < 0)
		return;
	/* by hand: closing is not enough where a child process holds a copy of the descriptor (epoll(7)) */
	control_epoll(l, EPOLL_CTL_DEL, io, 0);
	close(io->fd);
	io->fd = -1;
}

/* A batch of what is ready. */
static int run_batch(struct zn_loop *l, int most, int timeout_ms)
{
	struct epoll_event events[BATCH];
	int count = epoll_wait(l->fd, events, most, timeout_ms);

	if (count < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < count; i++) {
		struct zn_io *io = events[i].data.ptr;

		if (io->fd >= 0)
			io->ready(io, events[i].events);
	}
	return 0;
}

int zn_loop_run(struct zn_loop *l)
{
	int err = 0;

	while (!l->stop && !err) {
		err = run_batch(l, BATCH, -1);
		if (l->after && !err)
			l->after(l->owner);
	}
	return err;
}

void zn_loop_turn(struct zn_loop *l, int most)
{
	run_batch(l, most, 0);
}

int zn_timer_set(struct zn_io *io, uint64_t interval_ms)
{
	struct timespec t = {(time_t)(interval_ms / 1000), (long)(interval_ms % 1000 * ZN_NS_PER_MS)};
	struct itimerspec spec = {.it_interval = t, .it_value = t};

	return timerfd_settime(io->fd, 0, &spec, NULL) ? -errno : 0;
}

int zn_timer_open(struct zn_io *io, uint64_t interval_ms)
{
	int err;

	io->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (io->fd < 0)
		return -errno;
	err = zn_timer_set(io, interval_ms);
	if (err) {
		close(io->fd);
		io->fd = -1;
	}
	return err;
}

uint64_t zn_timer_count(struct zn_io *io)
{
	uint64_t count = 0;

	return read(io->fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}
