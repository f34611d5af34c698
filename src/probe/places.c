/* SPDX-License-Identifier: GPL-2.0 */
/*
 * places.c: where processes and their threads sleep, by the kernel's name. The kernel shows it only to those who may
 * trace the process. The loop may not: it asks, and the finder's thread looks.
 */
#include "zernel.h"
#include <stdlib.h>
#include <string.h>

#define PLACE_MS        3000 /* for so long after it was asked for */
#define SERVE_MS        250  /* between two looks */
#define THREADS_COUNTED 4096 /* of a process, at most */

static bool is_held(const struct zn_sleep_place *x, uint64_t now_ns)
{
	return x->pid && now_ns - x->asked_ns < PLACE_MS * ZN_NS_PER_MS;
}

static bool is_older(const struct zn_sleep_place *x, const struct zn_sleep_place *than)
{
	return !than || x->asked_ns < than->asked_ns;
}

/* A user has one more as long as he holds fewer than are free; else his own oldest one makes room. So who has many
 * processes that sleep hides nobody else's. */
static struct zn_sleep_place *place_of(struct zn_places *s, uint32_t pid, uint32_t user, uint64_t now_ns)
{
	struct zn_sleep_place *room = NULL, *own = NULL;
	uint32_t left = 0, held = 0;

	for (size_t i = 0; i < ZN_PLACES_MAX; i++) {
		struct zn_sleep_place *x = &s->place[i];

		if (x->pid == pid && x->user == user)
			return x;
		if (!is_held(x, now_ns)) {
			left++;
			room = is_older(x, room) ? x : room;
		} else if (x->user == user) {
			held++;
			own = is_older(x, own) ? x : own;
		}
	}
	if (held >= left)
		room = own;
	if (room)
		*room = (struct zn_sleep_place){.pid = pid, .user = user};
	return room;
}

void zn_places_ask(struct zn_places *s, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES])
{
	uint64_t now_ns = zn_now_ns();
	struct zn_sleep_place *place;

	to[0] = 0;
	pthread_mutex_lock(s->lock);
	place = place_of(s, pid, user, now_ns);
	if (place) {
		place->asked_ns = now_ns;
		memcpy(to, place->name, ZN_PLACE_BYTES);
	}
	pthread_mutex_unlock(s->lock);
}

bool zn_places_threads(struct zn_places *s, struct zn_threads *to)
{
	pthread_mutex_lock(s->lock);
	if (s->threads.pid == to->pid && s->threads.done)
		*to = s->threads;
	else if (s->threads.pid != to->pid)
		s->threads = (struct zn_threads){.pid = to->pid};
	if (to->done)
		s->threads.pid = 0;
	pthread_mutex_unlock(s->lock);
	return to->done;
}

/* A line of a thread's file, without its end; empty: it cannot be read. */
static void thread_line(uint32_t pid, uint32_t tid, const char *file, char *to, size_t cap)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u/%s", pid, tid, file);
	if (zn_file_read(path, to, cap) <= 0)
		to[0] = 0;
	to[strcspn(to, "\n")] = 0;
}

/* "7 0x4 0x7f..": the number and the first argument say enough. */
static void thread_see(uint32_t pid, struct zn_thread_seen *t)
{
	struct zn_procfs_stat stat;
	char text[256], *end, proc[48];

	snprintf(proc, sizeof(proc), "/proc/%u/task", pid);
	t->state = zn_procfs_stat(proc, t->tid, &stat) ? stat.state : '?';
	thread_line(pid, t->tid, "comm", t->name, sizeof(t->name));
	thread_line(pid, t->tid, "wchan", t->place, sizeof(t->place));
	thread_line(pid, t->tid, "syscall", text, sizeof(text));
	end = strchr(text, ' ');
	end = end ? strchr(end + 1, ' ') : NULL;
	snprintf(t->syscall, sizeof(t->syscall), "%.*s", end ? (int)(end - text) : 31, text);
}

/* Threads beyond this number are not counted. */
static bool thread_found(void *to, int dir, const char *name)
{
	struct zn_threads *t = to;
	unsigned long tid = strtoul(name, NULL, 10);

	(void)dir;
	if (!tid)
		return true;
	t->all++;
	if (t->count < ZN_THREADS_SEEN)
		t->thread[t->count++].tid = (uint32_t)tid;
	return t->all < THREADS_COUNTED;
}

static void threads_serve(struct zn_places *s)
{
	static struct zn_threads t;
	char path[64];

	pthread_mutex_lock(s->lock);
	t = s->threads;
	pthread_mutex_unlock(s->lock);
	if (!t.pid || t.done)
		return;
	snprintf(path, sizeof(path), "/proc/%u/task", t.pid);
	zn_dir_read(path, thread_found, &t);
	for (uint32_t i = 0; i < t.count; i++)
		thread_see(t.pid, &t.thread[i]);
	t.done = true;
	pthread_mutex_lock(s->lock);
	if (s->threads.pid == t.pid)
		s->threads = t;
	pthread_mutex_unlock(s->lock);
}

/* Looks at the processes that were asked for of late. */
static void places_serve(struct zn_places *s, uint64_t now_ns)
{
	for (size_t i = 0; i < ZN_PLACES_MAX; i++) {
		char path[64], name[ZN_PLACE_BYTES];
		uint32_t pid;

		pthread_mutex_lock(s->lock);
		pid = is_held(&s->place[i], now_ns) && now_ns - s->place[i].served_ns >= SERVE_MS * ZN_NS_PER_MS
			? s->place[i].pid
			: 0;
		pthread_mutex_unlock(s->lock);
		if (!pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%u/wchan", pid);
		zn_file_read(path, name, sizeof(name));
		pthread_mutex_lock(s->lock);
		if (s->place[i].pid == pid) {
			memcpy(s->place[i].name, name, sizeof(name));
			s->place[i].served_ns = now_ns;
		}
		pthread_mutex_unlock(s->lock);
	}
}

void zn_places_serve(struct zn_places *s, uint64_t now_ns)
{
	places_serve(s, now_ns);
	threads_serve(s);
}
