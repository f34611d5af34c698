/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the finder looks at, a little at a time, so that nothing keeps it from the next event for long: a queue of
 * mappings that takes owners in turn, a reader of one process's maps, a sweep over all processes, and how much of a
 * core each kind of work may take. Nothing here knows what a library is.
 *
 * The files are those of users' processes. They may be as long as a user likes, and reading one may block.
 */
#include "zernel.h"
#include <ctype.h>
#include <dirent.h> /* struct dirent64 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- how much of a core ---- */

#define WAIT_MAX_NS  (250 * ZN_NS_PER_MS)
#define COUNT_MAX_NS (3600 * ZN_NS_PER_S) /* of time that has passed: a larger one may not fit when it is multiplied */

static int64_t earned_ns(const struct zn_pace *p, uint64_t time_ns)
{
	return (int64_t)(time_ns * p->percent / 100);
}

bool zn_pace_may(struct zn_pace *p, uint64_t now_ns)
{
	uint64_t since_ns = p->counted_ns ? now_ns - p->counted_ns : 0;
	int64_t most_ns = (int64_t)p->burst_ns;

	if (!p->counted_ns)
		p->credit_ns = most_ns;
	else
		p->credit_ns += earned_ns(p, since_ns < COUNT_MAX_NS ? since_ns : COUNT_MAX_NS);
	if (p->credit_ns > most_ns)
		p->credit_ns = most_ns;
	p->counted_ns = now_ns;
	return p->credit_ns > 0;
}

void zn_pace_spend(struct zn_pace *p, uint64_t spent_ns)
{
	int64_t least_ns = -earned_ns(p, WAIT_MAX_NS);

	p->credit_ns -= (int64_t)spent_ns;
	if (p->credit_ns < least_ns)
		p->credit_ns = least_ns;
}

uint64_t zn_pace_wait_ns(const struct zn_pace *p)
{
	return p->credit_ns > 0 ? 0 : (uint64_t)(1 - p->credit_ns) * 100 / p->percent;
}

/* ---- the size of rings ---- */

#define RINGS_BYTES    (16 << 20) /* of all CPUs together, if there are not very many */
#define RING_BYTES_MIN (32 << 10) /* some 250 mappings, as many as 30 programs make when they are loaded */
#define RING_BYTES_MAX (256 << 10)

size_t zn_ring_pages(int cpus, size_t page_bytes)
{
	size_t bytes = RINGS_BYTES / (size_t)(cpus > 0 ? cpus : 1), pages = 1;

	bytes = bytes < RING_BYTES_MIN ? RING_BYTES_MIN : bytes > RING_BYTES_MAX ? RING_BYTES_MAX : bytes;
	while (2 * pages * page_bytes <= bytes)
		pages *= 2;
	return pages;
}

/* ---- mappings to look at ---- */

/* Owners whose numbers have the same rest share a queue: a fair turn needs no table of owners that could be full. */
static uint32_t queue_of(uint32_t owner)
{
	return owner % ZN_MAP_EVENT_QUEUES;
}

static bool event_again(const struct zn_map_event *a, const struct zn_map_event *b)
{
	return a->pid == b->pid && a->from == b->from && a->to == b->to && a->dev == b->dev && a->ino == b->ino;
}

bool zn_map_events_add(struct zn_map_events *all, const struct zn_map_event *m)
{
	struct zn_map_event_queue *q = &all->queue[queue_of(m->owner)];
	uint32_t i;

	if (q->count && event_again(&all->entry[q->last].event, m))
		return true;
	all->quota.size = ZN_MAP_EVENTS_MAX;
	all->quota.reserve = ZN_MAP_EVENTS_MAX / 8;
	if (!zn_quota_take(&all->quota, m->owner))
		return false;
	i = all->free ? all->free - 1 : all->used++;
	if (all->free)
		all->free = all->entry[i].next;
	all->entry[i].event = *m;
	all->entry[i].next = 0;
	if (q->count++)
		all->entry[q->last].next = i + 1;
	else
		q->first = i;
	q->last = i;
	return true;
}

struct zn_map_event *zn_map_events_next(struct zn_map_events *all)
{
	for (uint32_t i = 1; i <= ZN_MAP_EVENT_QUEUES; i++) {
		uint32_t turn = (all->turn + i) % ZN_MAP_EVENT_QUEUES;

		if (all->queue[turn].count) {
			all->turn = turn;
			return &all->entry[all->queue[turn].first].event;
		}
	}
	return NULL;
}

void zn_map_events_done(struct zn_map_events *all)
{
	struct zn_map_event_queue *q = &all->queue[all->turn];
	uint32_t i = q->first;

	if (!q->count)
		return;
	q->count--;
	q->first = q->count ? all->entry[i].next - 1 : 0;
	all->entry[i].next = all->free;
	all->free = i + 1;
	zn_quota_give(&all->quota, all->entry[i].event.owner);
}

uint64_t zn_map_events_since(const struct zn_map_events *all, uint32_t pid)
{
	for (uint32_t turn = 0; turn < ZN_MAP_EVENT_QUEUES; turn++) {
		uint32_t i = all->queue[turn].first;

		for (uint32_t n = all->queue[turn].count; n; n--, i = all->entry[i].next - 1)
			if (all->entry[i].event.pid == pid && all->entry[i].event.mapped_ns)
				return all->entry[i].event.mapped_ns;
	}
	return 0;
}

/* ---- the maps of one process ---- */

/* "from-to perms offset maj:min inode   path" */
const char *zn_maps_path(const char *line)
{
	for (int field = 1; field < 6; field++) {
		line += strcspn(line, " ");
		line += strspn(line, " ");
	}
	return *line == '/' ? line : NULL;
}

bool zn_maps_open(struct zn_maps *m, const char *proc_root, uint32_t pid)
{
	char path[ZN_TEXT_MAX];

	zn_maps_close(m);
	snprintf(path, sizeof(path), "%s/%u/maps", proc_root, pid);
	m->fd = open(path, O_RDONLY | O_CLOEXEC);
	m->open = m->fd >= 0;
	m->pid = pid;
	m->any = m->skip = false;
	m->have = 0;
	return m->open;
}

/* Lines are cut at the end of what was read and completed by the next read. */
bool zn_maps_step(struct zn_maps *m, zn_maps_line *visit, void *to)
{
	char *line = m->text, *end;
	ssize_t n = m->open ? read(m->fd, m->text + m->have, ZN_MAPS_TEXT - m->have) : -1;

	if (n <= 0) {
		zn_maps_close(m);
		return false;
	}
	m->any = true;
	m->have += (size_t)n;
	for (; (end = memchr(line, '\n', m->have - (size_t)(line - m->text))); line = end + 1) {
		*end = 0;
		if (!m->skip)
			visit(to, m->pid, line, (size_t)(end - line));
		m->skip = false;
	}
	m->have -= (size_t)(line - m->text);
	memmove(m->text, line, m->have);
	m->skip |= m->have == ZN_MAPS_TEXT;
	m->have = m->have == ZN_MAPS_TEXT ? 0 : m->have;
	return true;
}

void zn_maps_close(struct zn_maps *m)
{
	if (m->open)
		close(m->fd);
	m->open = false;
}

/* ---- all processes ---- */

/* The id that was given last: /proc/loadavg is "1.00 1.00 1.00 running/all last". 0: not known. */
static uint32_t newest_pid(const char *proc_root)
{
	char path[ZN_TEXT_MAX], text[128];
	uint32_t pid = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/loadavg", proc_root);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return sscanf(text, "%*s %*s %*s %*s %u", &pid) == 1 ? pid : 0;
}

/* Whether it may have begun after the sweep before this one did. Ids are given in ascending order and begin anew. */
static bool is_young(const struct zn_sweep *s, uint32_t pid)
{
	if (!s->before || !s->newest)
		return true;
	return pid > s->before || (s->newest < s->before && pid <= s->newest);
}

void zn_sweep_begin(struct zn_sweep *s, const char *proc_root)
{
	zn_sweep_close(s);
	s->proc_root = proc_root;
	s->newest = newest_pid(proc_root);
	s->running = s->young = true;
	s->names.at = s->names.have = 0;
}

/* More names of /proc. False: there are none left. */
static bool names_read(struct zn_sweep *s)
{
	if (!s->reading) {
		s->dir = open(s->proc_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		s->reading = s->dir >= 0;
	}
	if (zn_names_read(&s->names, s->reading ? s->dir : -1))
		return true;
	if (s->reading)
		close(s->dir);
	s->reading = false;
	return false;
}

/* The next process of this half of the sweep whose maps can be read. False: no more of them among the names at hand. */
static bool process_next(struct zn_sweep *s)
{
	const struct dirent64 *e;

	while ((e = zn_names_take(&s->names))) {
		uint32_t pid = zn_names_number(e);

		if (pid && is_young(s, pid) == s->young && zn_maps_open(&s->maps, s->proc_root, pid))
			return true;
	}
	return false;
}

bool zn_sweep_step(struct zn_sweep *s, zn_maps_line *visit, void *to)
{
	if (!s->running)
		return false;
	if (zn_maps_step(&s->maps, visit, to) || process_next(s) || names_read(s))
		return true;
	if (s->young && s->before && s->newest) {
		s->young = false;
		return true;
	}
	s->before = s->newest;
	zn_sweep_close(s);
	return false;
}

void zn_sweep_close(struct zn_sweep *s)
{
	zn_maps_close(&s->maps);
	if (s->reading)
		close(s->dir);
	s->reading = s->running = false;
}
