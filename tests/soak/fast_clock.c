/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fast_clock.c: linked into a test build of the daemon with --wrap for each of the functions below: its clocks stand
 * still while it works, and where it would sleep they jump to its next timer. So a day takes as long as there is work
 * to be done in it, and no tick is missed. Clocks of CPU time are the true ones.
 *
 * Limits: for simulated data, where one thread has all timers; timers with an absolute time are as they are.
 */
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#define NS     1000000000LL
#define TIMERS 64 /* by descriptor */

int __real_clock_gettime(clockid_t clock, struct timespec *to);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *old);
int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);
int __wrap_clock_gettime(clockid_t clock, struct timespec *to);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *old);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);

static long long elapsed_ns; /* since the start */
static struct {
	long long due_ns, interval_ns; /* due_ns 0: it is off */
} timer[TIMERS];

static long long ns_of(struct timespec t)
{
	return t.tv_sec * NS + t.tv_nsec;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *to)
{
	static long long began[CLOCK_BOOTTIME + 1]; /* in ns */

	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)
		return __real_clock_gettime(clock, to);
	if (!began[clock]) {
		if (__real_clock_gettime(clock, to))
			return -1;
		began[clock] = ns_of(*to) - elapsed_ns;
	}
	*to = (struct timespec){(began[clock] + elapsed_ns) / NS, (began[clock] + elapsed_ns) % NS};
	return 0;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *old)
{
	static const struct itimerspec off;

	if (fd >= TIMERS || flags & TFD_TIMER_ABSTIME)
		return __real_timerfd_settime(fd, flags, spec, old);
	timer[fd].due_ns = ns_of(spec->it_value) ? elapsed_ns + ns_of(spec->it_value) : 0;
	timer[fd].interval_ns = ns_of(spec->it_interval);
	return __real_timerfd_settime(fd, 0, &off, old);
}

/* The next timer is due now. */
static void jump(void)
{
	static const struct itimerspec at_once = {.it_value = {0, 1}};
	int next = -1;

	for (int fd = 0; fd < TIMERS; fd++)
		if (timer[fd].due_ns && (next < 0 || timer[fd].due_ns < timer[next].due_ns))
			next = fd;
	if (next < 0)
		return;
	elapsed_ns = timer[next].due_ns;
	timer[next].due_ns = timer[next].interval_ns ? elapsed_ns + timer[next].interval_ns : 0;
	__real_timerfd_settime(next, 0, &at_once, NULL);
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	int count = __real_epoll_wait(fd, events, max, 0);

	if (count)
		return count;
	jump();
	return __real_epoll_wait(fd, events, max, timeout_ms);
}
