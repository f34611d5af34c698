/* SPDX-License-Identifier: GPL-2.0 */
/*
 * change.c: a change of probes that is under way: how long it takes, and which process the kernel waits for
 * meanwhile. The finder's thread makes the change and hangs with it, so a thread of its own looks.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define HANG_MS 800 /* a change of probes that takes longer hangs */
#define SUSPECT_MS                                                                                                     \
	400 /* a change that takes longer may hang: then the watcher looks which process the kernel waits for */
#define WATCH_MS 200 /* between such looks */

void zn_change_begin(struct zn_change *c, const struct zn_lib *lib, const struct zn_mapper_list *who, bool detach)
{
	struct itimerspec in = {.it_value.tv_nsec = HANG_MS * ZN_NS_PER_MS, .it_interval.tv_sec = 1};
	struct itimerspec watch = {
		.it_value.tv_nsec = SUSPECT_MS * ZN_NS_PER_MS, .it_interval.tv_nsec = WATCH_MS * ZN_NS_PER_MS};

	pthread_mutex_lock(c->lock);
	c->lib = lib;
	c->hang = (struct zn_hang){.since_ns = zn_now_ns(), .detach = detach, .tid = gettid()};
	c->hang.who = *who;
	snprintf(c->hang.path, sizeof(c->hang.path), "%s", lib->path);
	pthread_mutex_unlock(c->lock);
	if (c->hang_timer >= 0)
		timerfd_settime(c->hang_timer, 0, &in, NULL);
	if (c->watched)
		timerfd_settime(c->watch_timer, 0, &watch, NULL);
}

bool zn_change_hang(struct zn_change *c, struct zn_hang *to)
{
	uint64_t step_ns;

	pthread_mutex_lock(c->lock);
	*to = c->hang;
	step_ns = c->lib ? __atomic_load_n(&c->lib->step_ns, __ATOMIC_RELAXED) : 0;
	pthread_mutex_unlock(c->lock);
	if (to->since_ns && step_ns > to->since_ns) /* before 6.6 there are many steps, and none of them hangs */
		to->since_ns = step_ns;
	/* Without a process that maps the file, or while the change itself runs, the kernel waits for nobody: it
	 * is slow. */
	return to->since_ns && to->who.count && !to->runs && zn_now_ns() - to->since_ns >= HANG_MS * ZN_NS_PER_MS;
}

/* Whether a thread of this process is on a CPU, or waits for one. */
static bool thread_runs(pid_t tid)
{
	char path[40], text[256] = "", *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	end = n > 0 ? strrchr(text, ')') : NULL;
	return end && end[1] == ' ' && end[2] == 'R';
}

/* Whether the kernel waits, and for which process. */
static void watch_change(struct zn_change *c)
{
	uint32_t tgid = 0;
	static struct zn_hang h; /* large, and there is one watcher */
	bool runs;

	pthread_mutex_lock(c->lock);
	h = c->hang;
	pthread_mutex_unlock(c->lock);
	if (!h.since_ns)
		return;
	runs = thread_runs(h.tid);
	pthread_mutex_lock(c->lock);
	if (c->hang.since_ns == h.since_ns)
		c->hang.runs = runs;
	pthread_mutex_unlock(c->lock);
	if (runs || !zn_mappers_blocked(&h.who, &tgid) || !tgid)
		return;
	pthread_mutex_lock(c->lock);
	if (c->hang.since_ns == h.since_ns)
		c->hang.blocked_tgid = tgid;
	pthread_mutex_unlock(c->lock);
}

/* The finder hangs itself then, and the loop may not see where processes sleep (zn_sandbox_loop()). */
static void *run_watcher(void *arg)
{
	struct zn_change *c = arg;
	uint64_t times;

	while (read(c->watch_timer, &times, sizeof(times)) > 0 && !__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE))
		watch_change(c);
	return NULL;
}

int zn_change_start(struct zn_change *c)
{
	int err;

	c->watch_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (c->watch_timer < 0)
		return -errno;
	err = zn_pages_thread(&c->watcher, run_watcher, c);
	c->watched = err == 0;
	return err;
}

uint64_t zn_change_end(struct zn_change *c)
{
	struct itimerspec off = {0};
	uint64_t took_ns = zn_now_ns() - c->hang.since_ns;

	if (c->hang_timer >= 0)
		timerfd_settime(c->hang_timer, 0, &off, NULL);
	if (c->watched)
		timerfd_settime(c->watch_timer, 0, &off, NULL);
	pthread_mutex_lock(c->lock);
	c->hang.since_ns = 0;
	pthread_mutex_unlock(c->lock);
	return took_ns;
}

void zn_change_open(struct zn_change *c, pthread_mutex_t *lock)
{
	c->lock = lock;
	c->hang_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
}

void zn_change_stop(struct zn_change *c)
{
	struct itimerspec now = {.it_value.tv_nsec = 1};

	if (!c->watched)
		return;
	__atomic_store_n(&c->stop, true, __ATOMIC_RELEASE);
	timerfd_settime(c->watch_timer, 0, &now, NULL);
	pthread_join(c->watcher, NULL);
	c->watched = c->stop = false;
	zn_fd_close(&c->watch_timer);
}

void zn_change_close(struct zn_change *c)
{
	zn_fd_close(&c->hang_timer);
}
