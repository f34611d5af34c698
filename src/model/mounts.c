/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mounts.c: where the file systems that are used are mounted. The kernel names a device, and /proc/PID/mountinfo its
 * mount point: that of process 1 for what the host sees, and of the process that used the device for what only a
 * container sees. Only devices in use are kept, so that a host with ten thousand mounts costs a walk over its list
 * and no memory. The list is read in slices of a millisecond, and again when poll() says that it has changed.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLICE_NS  ZN_NS_PER_MS
#define RESUME_MS 5
#define REST      50                 /* times as long as a walk took that was more than a slice, before the next one */
#define IDLE_NS   (60 * ZN_NS_PER_S) /* an entry that no series needs any more */

/* ---- What is shown of a line. ---- */

static uint32_t hash_of(const char *text)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 16777619u;
	return h;
}

/* Where a text may be cut at or before a byte without a character being cut; of what is no UTF-8 that is anywhere. */
static size_t cut_at(const char *text, size_t at)
{
	size_t back = 0;

	while (back < 3 && back < at && ((uint8_t)text[at - back] & 0xc0) == 0x80)
		back++;
	return at - back;
}

/* What is shown of a field: UTF-8, so that two that look alike are alike. A field that is too long is cut at a
 * whole character and ends in a hash of all of it. */
static void show_point(char *to, size_t cap, const char *text)
{
	struct zn_out o = {.at = to, .cap = cap - 1};
	size_t len = strlen(text), fits = len;

	zn_out_utf8(&o, text, len);
	if (o.full && fits > cap - 10)
		fits = cap - 10;
	while (o.full) {
		fits = cut_at(text, fits);
		o = (struct zn_out){.at = to, .cap = cap - 10};
		zn_out_utf8(&o, text, fits);
		fits -= o.full;
	}
	o.cap = cap - 1;
	if (fits < len) {
		zn_out_char(&o, '~');
		zn_out_hex(&o, hash_of(text), 8);
	}
	to[o.len] = 0;
}

/* A mount point that was removed from its directory is still one. */
static void point_show(char to[ZN_MOUNT_BYTES], char *text)
{
	static const char deleted[] = "//deleted";
	size_t len;

	zn_str_unescape(text);
	len = strlen(text);
	if (len > strlen(deleted) && !strcmp(text + len - strlen(deleted), deleted))
		text[len - strlen(deleted)] = 0;
	show_point(to, ZN_MOUNT_BYTES, text);
}

/* ---- The table. ---- */

#define LAST_AT(dev) ((dev) & (ZN_MOUNTS_MAX - 1))

static bool is_of(const struct zn_mount *e, uint32_t dev)
{
	return e->state != ZN_MOUNT_FREE && e->dev == dev;
}

/* Thousands of series ask for a few devices: the last one with the same low bits is looked at first. */
static struct zn_mount *find_mount(struct zn_mounts *m, uint32_t dev)
{
	uint16_t *last = &m->last[LAST_AT(dev)];

	if (is_of(&m->mount[*last], dev))
		return &m->mount[*last];
	for (uint32_t i = 0; i < m->high; i++)
		if (is_of(&m->mount[i], dev)) {
			*last = (uint16_t)i;
			return &m->mount[i];
		}
	return NULL;
}

static void name_unknown(struct zn_mount *e)
{
	snprintf(e->point, sizeof(e->point), "unknown:%u:%u", e->dev >> 20, e->dev & 0xfffff);
	strcpy(e->fstype, "unknown");
}

/* NULL: there is no room for one more of this owner; the caller says so of what it is for. */
static struct zn_mount *add_mount(struct zn_mounts *m, uint32_t dev, uint32_t owner)
{
	struct zn_mount *e = NULL;

	if (!zn_quota_try(&m->quota, owner))
		return NULL;
	for (uint32_t i = 0; i < ZN_MOUNTS_MAX && !e; i++)
		if (m->mount[i].state == ZN_MOUNT_FREE)
			e = &m->mount[i];
	if (!e) {
		zn_quota_give(&m->quota, owner);
		return NULL;
	}
	if (e - m->mount >= m->high)
		m->high = (uint32_t)(e - m->mount) + 1;
	m->count++;
	*e = (struct zn_mount){.dev = dev, .owner = owner, .state = ZN_MOUNT_UNKNOWN, .version = ++m->version};
	m->last[LAST_AT(dev)] = (uint16_t)(e - m->mount);
	name_unknown(e);
	return e;
}

/* A first name for a device is the same file system. Another name is a new file system under an old number. Counts
 * since the old one went belong to the new one, as the list may be read after its first bytes. */
static void name_mount(struct zn_mounts *m, struct zn_mount *e, enum zn_mount_state state)
{
	bool same = !strcmp(e->point, e->best_point) && !strcmp(e->fstype, e->best_fstype);

	if (!same) {
		e->version = ++m->version;
		if (e->state != ZN_MOUNT_UNKNOWN && e->state != ZN_MOUNT_GONE)
			e->cut = e->version;
		memcpy(e->point, e->best_point, sizeof(e->point));
		memcpy(e->fstype, e->best_fstype, sizeof(e->fstype));
	}
	e->rooted = e->best_rooted;
	e->state = state;
	e->tgid = m->tgid;
	memset(e->ask, 0, sizeof(e->ask));
}

/* The process that was asked is gone, or does not have this mount. */
static void ask_next(struct zn_mount *e)
{
	for (size_t i = 0; i + 1 < ZN_LEN(e->ask); i++)
		e->ask[i] = e->ask[i + 1];
	e->ask[ZN_LEN(e->ask) - 1] = 0;
}

/* The shortest mount point whose root is the root of the file system; of no such, the shortest. */
static void consider_line(struct zn_mount *e, struct zn_mount_line *l)
{
	char point[ZN_MOUNT_BYTES], fstype[ZN_FSTYPE_BYTES];
	bool rooted = !strcmp(l->root, "/");

	point_show(point, l->point);
	zn_str_unescape(l->type);
	show_point(fstype, sizeof(fstype), l->type);
	if (rooted == e->rooted && !strcmp(point, e->point) && !strcmp(fstype, e->fstype))
		e->there = true;
	if (e->best_point[0] &&
		(e->best_rooted > rooted || (e->best_rooted == rooted && strlen(point) >= strlen(e->best_point))))
		return;
	memcpy(e->best_point, point, sizeof(point));
	memcpy(e->best_fstype, fstype, sizeof(fstype));
	e->best_rooted = rooted;
}

static bool is_alive(const struct zn_mounts *m, uint32_t tgid)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%u", m->proc, tgid);
	return stat(path, &st) == 0;
}

/* ---- A walk over one list. ---- */

static void line_take(struct zn_mounts *m, char *text)
{
	struct zn_mount_line l;
	struct zn_mount *e;

	if (!zn_mountinfo_read(text, &l))
		return;
	e = find_mount(m, l.dev);
	if (e && !e->fixed && (!m->tgid || e->ask[0] == m->tgid || e->state == ZN_MOUNT_UNKNOWN))
		consider_line(e, &l);
}

/* Of the host's list: a name that is still right stays, so that series do not change theirs without need. */
static void host_conclude(struct zn_mounts *m, struct zn_mount *e)
{
	if (e->there && (e->rooted || !e->best_rooted)) {
		e->state = ZN_MOUNT_HOST;
		memset(e->ask, 0, sizeof(e->ask));
	} else if (e->best_point[0]) {
		name_mount(m, e, ZN_MOUNT_HOST);
	} else if (e->state == ZN_MOUNT_HOST) {
		e->state = ZN_MOUNT_GONE;
		e->cut = e->version = ++m->version;
	}
}

static void other_conclude(struct zn_mounts *m, struct zn_mount *e)
{
	if (e->state != ZN_MOUNT_HOST && e->there) {
		e->state = ZN_MOUNT_OTHER;
		e->tgid = m->tgid;
		memset(e->ask, 0, sizeof(e->ask));
	} else if (e->state != ZN_MOUNT_HOST && e->best_point[0]) {
		name_mount(m, e, ZN_MOUNT_OTHER);
	}
	if (e->ask[0] == m->tgid)
		ask_next(e);
}

/* The owner of figures by name is called before a name changes, so that all figures so far get the old name, and
 * after it. */
static void call_look(struct zn_mounts *m)
{
	if (m->look)
		m->look(m->owner);
}

static void conclude_walk(struct zn_mounts *m)
{
	call_look(m);
	for (uint32_t i = 0; i < m->high; i++) {
		struct zn_mount *e = &m->mount[i];

		if (e->state == ZN_MOUNT_FREE || e->fixed)
			continue;
		(m->tgid ? other_conclude : host_conclude)(m, e);
	}
	call_look(m);
}

static void walk_begin(struct zn_mounts *m, int fd, uint32_t tgid)
{
	m->walk_fd = fd;
	m->tgid = tgid;
	m->have = 0;
	m->skip = false;
	m->walk_ns = 0;
	for (uint32_t i = 0; i < m->high; i++) {
		m->mount[i].there = m->mount[i].best_rooted = false;
		m->mount[i].best_point[0] = 0;
	}
}

static void walk_end(struct zn_mounts *m, bool whole)
{
	if (whole || m->tgid)
		conclude_walk(m); /* while it still counts as a walk, so that none begins in it */
	if (m->tgid)
		close(m->walk_fd);
	else if (m->walk_ns > SLICE_NS)
		m->rest_until_ns = zn_now_ns() + REST * m->walk_ns;
	m->walk_fd = -1;
}

/* A line that is longer than the buffer is nobody's: it is passed over. */
static void chunk_take(struct zn_mounts *m, size_t n)
{
	char *line = m->text, *end;

	m->have += n;
	m->text[m->have] = 0;
	for (; (end = memchr(line, '\n', m->text + m->have - line)); line = end + 1) {
		*end = 0;
		if (!m->skip)
			line_take(m, line);
		m->skip = false;
	}
	m->have = m->text + m->have - line;
	memmove(m->text, line, m->have);
	if (m->have == sizeof(m->text) - 1) {
		m->have = 0;
		m->skip = true;
	}
}

/* Of the calling thread. Time that other threads took meanwhile is no reason to rest. */
static uint64_t cpu_ns(void)
{
	return zn_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Goes on with the list at hand until its end, or for a slice. */
static void walk_slice(struct zn_mounts *m)
{
	uint64_t begin_ns = zn_now_ns(), now_ns = begin_ns, spent_ns = cpu_ns();
	ssize_t n = 1;

	while (n > 0 && now_ns - begin_ns < SLICE_NS) {
		n = read(m->walk_fd, m->text + m->have, sizeof(m->text) - 1 - m->have);
		if (n > 0)
			chunk_take(m, (size_t)n);
		now_ns = zn_now_ns();
	}
	m->walk_ns += cpu_ns() - spent_ns;
	if (n <= 0)
		walk_end(m, n == 0);
}

/* The number of the first mount in a process's list: no other one of the node has it. 0: it cannot be read. */
static unsigned long first_mount(const struct zn_mounts *m, uint32_t tgid)
{
	char path[128], text[32] = "";
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%u/mountinfo", m->proc, tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	return n > 0 ? strtoul(text, NULL, 10) : 0;
}

/* Whether a process has the host's mounts, so that its list says nothing new. The namespace itself would tell too,
 * but to look at it takes the right to trace the process, which the loop has given up. */
static bool same_mounts(const struct zn_mounts *m, uint32_t tgid)
{
	unsigned long first = first_mount(m, tgid);

	return first && first == first_mount(m, 1);
}

/* The list of a process that used a device which the host's does not have. A list of its own may be as long as the
 * host's is: it is read in slices too. */
static void other_begin(struct zn_mounts *m, struct zn_mount *e)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%u/mountinfo", m->proc, e->ask[0]);
	fd = same_mounts(m, e->ask[0]) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		ask_next(e);
	else
		walk_begin(m, fd, e->ask[0]);
}

/* Who is asked next, one after the other, so that no mount keeps the others waiting. NULL: nobody. */
static struct zn_mount *next_asking(struct zn_mounts *m)
{
	for (uint32_t n = 0; n < m->high; n++) {
		struct zn_mount *e = &m->mount[m->asking++ % m->high];

		if (e->ask[0] && e->state != ZN_MOUNT_FREE)
			return e;
	}
	return NULL;
}

/* The next walk that is due, or one process that could not be asked. False: there is nothing to do. */
static bool next_walk(struct zn_mounts *m)
{
	struct zn_mount *e;

	if (m->changed && m->host.fd >= 0 && (m->fresh || zn_now_ns() >= m->rest_until_ns)) {
		m->changed = m->fresh = false;
		lseek(m->host.fd, 0, SEEK_SET);
		walk_begin(m, m->host.fd, 0);
		return true;
	}
	e = next_asking(m);
	if (e)
		other_begin(m, e);
	return e;
}

static uint64_t rest_ms(const struct zn_mounts *m)
{
	uint64_t now_ns = zn_now_ns();

	return m->rest_until_ns > now_ns ? (m->rest_until_ns - now_ns) / ZN_NS_PER_MS + 1 : 1;
}

/* Goes on for a slice, however many lists and processes that takes. Whatever is left waits for the timer. */
static void run_walks(struct zn_mounts *m)
{
	uint64_t until_ns = cpu_ns() + SLICE_NS;
	bool left;

	while ((left = m->walk_fd >= 0 || next_walk(m)) && cpu_ns() < until_ns)
		if (m->walk_fd >= 0)
			walk_slice(m);
	if (m->loop)
		zn_timer_set(&m->timer, left ? RESUME_MS : m->changed ? rest_ms(m) : 0);
}

static void on_timer(struct zn_io *io, uint32_t events)
{
	(void)events;
	if (zn_timer_count(io))
		run_walks((struct zn_mounts *)((char *)io - offsetof(struct zn_mounts, timer)));
}

static void on_change(struct zn_io *io, uint32_t events)
{
	struct zn_mounts *m = (struct zn_mounts *)((char *)io - offsetof(struct zn_mounts, host));

	(void)events;
	m->changed = true;
	if (m->walk_fd < 0)
		run_walks(m);
}

struct zn_mount *zn_mounts_use(struct zn_mounts *m, uint32_t dev, uint32_t tgid, uint64_t elders, uint32_t owner)
{
	struct zn_mount *e = find_mount(m, dev);
	bool asks = tgid && (!e || (!e->fixed && e->state != ZN_MOUNT_HOST && (!e->tgid || !is_alive(m, e->tgid))));

	if (!e) {
		e = add_mount(m, dev, owner);
		if (!e)
			return NULL; /* no list has to be read for it */
		m->changed = m->fresh = true;
	}
	e->used_ns = zn_now_ns();
	if (asks) {
		e->ask[0] = tgid;
		e->ask[1] = (uint32_t)elders;
		e->ask[2] = (uint32_t)(elders >> 32);
	}
	m->due = m->due || m->fresh || asks;
	return e;
}

void zn_mounts_hurry(struct zn_mounts *m)
{
	if (!m->due || m->walk_fd >= 0)
		return;
	m->due = false;
	run_walks(m);
}

struct zn_mount *zn_mounts_fix(struct zn_mounts *m, uint32_t dev, const char *point, const char *fstype)
{
	struct zn_mount *e = find_mount(m, dev);

	if (!e)
		e = add_mount(m, dev, ZN_OWNER_ROOT);
	if (!e)
		return NULL;
	show_point(e->point, sizeof(e->point), point);
	show_point(e->fstype, sizeof(e->fstype), fstype);
	e->state = ZN_MOUNT_HOST;
	e->fixed = true;
	return e;
}

void zn_mounts_tick(struct zn_mounts *m, uint64_t now_ns)
{
	for (uint32_t i = 0; i < m->high; i++) {
		struct zn_mount *e = &m->mount[i];

		if (e->state == ZN_MOUNT_FREE || e->fixed || e->used_ns + IDLE_NS > now_ns)
			continue;
		e->state = ZN_MOUNT_FREE;
		m->count--;
		zn_quota_give(&m->quota, e->owner);
	}
	run_walks(m);
}

void zn_mounts_init(struct zn_mounts *m)
{
	m->walk_fd = m->host.fd = m->timer.fd = -1;
	m->quota = (struct zn_quota){.size = ZN_MOUNTS_MAX, .reserve = ZN_MOUNTS_MAX / 16};
}

int zn_mounts_open(struct zn_mounts *m, struct zn_loop *loop, const char *proc)
{
	static const char *const owner[] = {"1", "self"}; /* a container may not be shown the first process of all */
	char path[128];
	int err;

	m->proc = proc;
	m->host.ready = on_change;
	m->timer.ready = on_timer;
	for (size_t i = 0; i < ZN_LEN(owner) && m->host.fd < 0; i++) {
		snprintf(path, sizeof(path), "%s/%s/mountinfo", proc, owner[i]);
		m->host.fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (m->host.fd < 0)
		return -errno;
	m->changed = true;
	m->loop = loop;
	if (!loop)
		return 0;
	err = zn_loop_add(loop, &m->host, EPOLLPRI);
	if (!err)
		err = zn_timer_open(&m->timer, 0);
	if (!err)
		err = zn_loop_add(loop, &m->timer, EPOLLIN);
	return err;
}

void zn_mounts_close(struct zn_mounts *m)
{
	if (m->walk_fd >= 0 && m->tgid)
		close(m->walk_fd);
	m->walk_fd = -1;
	if (m->loop) {
		zn_loop_forget(m->loop, &m->timer);
		zn_loop_forget(m->loop, &m->host);
	} else if (m->host.fd >= 0) {
		close(m->host.fd);
	}
	m->host.fd = -1;
	m->loop = NULL;
}
