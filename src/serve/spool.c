/* SPDX-License-Identifier: GPL-2.0 */
/*
 * spool.c: the folder beside the control socket. Clients leave messages there while the daemon is down or does not
 * answer; the daemon keeps a record there of each job that runs, and so knows it again after a restart. Only root can
 * write there, yet what is read is checked like any message. The daemon only reads; the writer removes.
 *
 * Limits: 2,048 files at a time, in the order of their time; what is beyond them waits until those are removed.
 */
#include "zernel.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FILES       2048
#define TAKEN       1024
#define SETTLED     1000  /* ms: a folder changed this long ago shows by its time when it changes again */
#define CLOCK_SLACK 10000 /* ms by which the clock may have been set meanwhile */

struct entry {
	uint64_t time_ms;
	char name[ZN_NAME_BYTES];
};

struct zn_spool {
	const struct zn_state *state;
	uid_t owner;
	char folder[ZN_TEXT_MAX];
	bool started;    /* what was there at the start has been read */
	bool complained; /* of the folder itself */
	bool left;       /* a file that could not be read is still there */
	struct timespec changed;
	struct zn_moment now; /* when the folder was listed last */
	struct entry entry[FILES];
	uint32_t count;
	uint64_t taken[TAKEN]; /* hashes of messages, the oldest is written over */
	uint32_t taken_count;
	struct zn_message message, bare;
	char text[ZN_MESSAGE_BYTES + 1];
};

bool zn_spool_taken(struct zn_spool *s, struct zn_str text)
{
	uint64_t h = zn_str_hash(text);

	if (!s)
		return false;
	for (uint32_t i = 0; i < s->taken_count && i < TAKEN; i++)
		if (s->taken[i] == h)
			return true;
	s->taken[s->taken_count++ % TAKEN] = h;
	return false;
}

static bool begins_with(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

/* The writer alone can: the filter of system calls is there already. */
static void take_away(struct zn_spool *s, const char *name)
{
	struct zn_writer *writer = s->state->writer;

	if (writer && writer->wanted[ZN_DIRECTORY_SPOOL])
		zn_writer_remove(writer, ZN_DIRECTORY_SPOOL, name);
}

static void refuse_file(struct zn_spool *s, const char *name, const char *why)
{
	zn_log(ZN_WARN, "spool: %s: %s; removed", name, why);
	take_away(s, name);
}

/* Nothing is wrong with a file that cannot be read for want of descriptors or memory: it stays, and is read at a later
 * look. */
static bool is_passing(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

static void refuse_or_leave(struct zn_spool *s, const char *name, int err, const char *why)
{
	if (!is_passing(err)) {
		refuse_file(s, name, why);
		return;
	}
	zn_log(ZN_WARN, "spool: %s: cannot read it: %s; it is tried again", name, strerror(-err));
	s->left = true;
}

/* The message in an open file, which is closed: 0, or -errno with why. */
static int read_message(struct zn_spool *s, int fd, char why[ZN_TEXT_MAX])
{
	size_t len = 0;
	struct stat st;
	ssize_t got = 0;
	int err = fstat(fd, &st) ? -errno : 0;

	if (!err && (!S_ISREG(st.st_mode) || st.st_uid != s->owner || st.st_mode & (S_IWGRP | S_IWOTH)))
		err = -EPERM;
	while (!err && len < sizeof(s->text) && (got = read(fd, s->text + len, sizeof(s->text) - len)) > 0)
		len += (size_t)got;
	if (got < 0)
		err = -errno;
	close(fd);
	if (err == -EPERM)
		snprintf(why, ZN_TEXT_MAX, "it is not a plain file that its owner alone can write");
	else if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot read it: %s", strerror(-err));
	else
		err = zn_message_read_file(&s->message, s->text, len, why);
	if (!err && s->message.verb != ZN_VERB_START && s->message.verb != ZN_VERB_END) {
		snprintf(why, ZN_TEXT_MAX, "it is neither of a start nor of an end");
		err = -EINVAL;
	}
	return err;
}

/* Whether a file could be read; s->message is what it says. A file that cannot be read is refused. */
static bool read_file(struct zn_spool *s, int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char why[ZN_TEXT_MAX];
	int err = fd < 0 ? -errno : 0;

	if (err == -ENOENT) /* removed meanwhile */
		return false;
	if (err)
		snprintf(why, sizeof(why), "%s", err == -ELOOP ? "it is a symbolic link" : strerror(-err));
	else
		err = read_message(s, fd, why);
	if (err)
		refuse_or_leave(s, name, err, why);
	return !err;
}

/* When it was said, by today's wall clock. */
static uint64_t said_ms(const struct zn_spool *s, const struct zn_message *m)
{
	if (m->value[ZN_KEY_UPTIME][0] && !strcmp(m->value[ZN_KEY_BOOT], s->now.boot))
		return s->now.wall_ms - s->now.uptime_ms + strtoull(m->value[ZN_KEY_UPTIME], NULL, 10);
	return strtoull(m->value[ZN_KEY_TIME], NULL, 10);
}

static void note_entry(struct zn_spool *s, int folder, const char *name)
{
	bool record = begins_with(name, ZN_SPOOL_RECORD);
	struct entry *e = &s->entry[s->count];

	if (*name == '.' || (record && s->started)) /* half written; our own */
		return;
	if ((!record && !begins_with(name, ZN_SPOOL_LEFT)) || strlen(name) >= sizeof(e->name)) {
		if (!s->started)
			zn_log(ZN_WARN, "spool: %.80s: not a file of ours; left alone", name);
		return;
	}
	if (s->count == FILES || !read_file(s, folder, name))
		return;
	e->time_ms = said_ms(s, &s->message);
	strcpy(e->name, name);
	s->count++;
}

struct listing {
	struct zn_spool *spool;
	int folder;
};

static bool list_entry(void *listing, const struct dirent64 *e)
{
	struct listing *l = listing;

	note_entry(l->spool, l->folder, e->d_name);
	return true;
}

static void list_folder(struct zn_spool *s, int folder)
{
	s->count = 0;
	zn_moment_now(&s->now);
	zn_file_names(folder, list_entry, &(struct listing){s, folder});
}

/* The oldest of entries from..count, records before what was left at the same time; it comes to `from`. */
static struct entry *next_entry(struct zn_spool *s, uint32_t from)
{
	uint32_t best = from;
	struct entry e;

	for (uint32_t i = from + 1; i < s->count; i++)
		if (s->entry[i].time_ms < s->entry[best].time_ms ||
			(s->entry[i].time_ms == s->entry[best].time_ms &&
				strcmp(s->entry[i].name, s->entry[best].name) < 0))
			best = i;
	e = s->entry[best];
	s->entry[best] = s->entry[from];
	s->entry[from] = e;
	return &s->entry[from];
}

/* How long ago a process was started, in ms. False: there is none. */
static bool is_born(const char *pid, uint64_t now_ms, uint64_t *ago_ms)
{
	struct zn_procfs_stat s;
	uint64_t born_ms;

	if (!zn_procfs_stat("/proc", (uint32_t)strtoul(pid, NULL, 10), &s))
		return false;
	born_ms = s.start_ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	*ago_ms = born_ms < now_ms ? now_ms - born_ms : 0;
	return true;
}

/* The number of a process that was tagged may be another's by now, which began after the file was made. */
static bool is_stale(const struct zn_spool *s)
{
	const struct zn_message *m = &s->message;
	uint64_t born_ago_ms, said_ago_ms;

	if (!*m->value[ZN_KEY_PID])
		return false;
	return !is_born(m->value[ZN_KEY_PID], s->now.uptime_ms, &born_ago_ms) ||
		!zn_message_ago(m, &s->now, &said_ago_ms) || born_ago_ms + CLOCK_SLACK < said_ago_ms;
}

/* Returns whether the message came over the socket already, where it has no boot id. */
static bool is_taken(struct zn_spool *s)
{
	struct zn_out o = {.at = s->text, .cap = sizeof(s->text)};

	s->bare = s->message;
	s->bare.value[ZN_KEY_BOOT][0] = s->bare.value[ZN_KEY_UPTIME][0] = '\0';
	zn_message_write(&o, &s->bare);
	return zn_spool_taken(s, (struct zn_str){s->text, o.len});
}

/* Acts on s->message. The record of a job whose epilog has come has the time of the start: it ends now, but for a
 * control group that is still there. */
static int act_on(struct zn_spool *s, bool record, char why[ZN_TEXT_MAX])
{
	struct zn_message *m = &s->message;
	int err = 0;

	if (record || m->verb == ZN_VERB_START)
		err = zn_jobs_start(s->state->jobs, m, is_stale(s) ? ZN_JOB_BY_OLD_FILE : ZN_JOB_BY_FILE, why);
	if (err || m->verb == ZN_VERB_START)
		return err;
	if (record)
		m->value[ZN_KEY_TIME][0] = m->value[ZN_KEY_BOOT][0] = m->value[ZN_KEY_UPTIME][0] = '\0';
	return zn_jobs_end(s->state->jobs, m, why);
}

static void take_file(struct zn_spool *s, int folder, const char *name)
{
	bool record = begins_with(name, ZN_SPOOL_RECORD), again;
	char why[ZN_TEXT_MAX] = "";
	int err = 0;

	if (!read_file(s, folder, name))
		return;
	again = is_taken(s) && !record;
	if (!again)
		err = act_on(s, record, why);
	if (!err && why[0])
		zn_log(ZN_INFO, "spool: %s: %s; its report has what is known", name, why);
	if (err)
		refuse_file(s, name, why);
	else if (!record)
		take_away(s, name);
}

/* A folder that others may write into would let them tag. */
static bool is_ours(struct zn_spool *s, const struct stat *st)
{
	bool good = st->st_uid == s->owner && !(st->st_mode & (S_IWGRP | S_IWOTH));

	if (!good && !s->complained)
		zn_log(ZN_WARN, "spool: %s: others than its owner can write there, or it is not ours; not read",
			s->folder);
	s->complained = !good;
	return good;
}

static void read_folder(struct zn_spool *s)
{
	int folder = open(s->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t now_ms = zn_wall_ms(), changed_ms;
	struct stat st;

	if (folder < 0)
		return;
	if (!fstat(folder, &st) && is_ours(s, &st)) {
		s->left = false;
		list_folder(s, folder);
		for (uint32_t i = 0; i < s->count; i++)
			take_file(s, folder, next_entry(s, i)->name);
		s->changed = st.st_mtim;
		changed_ms = (uint64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
		if (s->left || changed_ms + SETTLED > now_ms)
			s->changed = (struct timespec){0};
	}
	close(folder);
}

void zn_spool_check(struct zn_spool *s)
{
	struct zn_writer *writer = s ? s->state->writer : NULL;
	struct stat st;

	if (!writer || !writer->available[ZN_DIRECTORY_SPOOL] || !s->state->jobs)
		return;
	if (lstat(s->folder, &st) ||
		(st.st_mtim.tv_sec == s->changed.tv_sec && st.st_mtim.tv_nsec == s->changed.tv_nsec))
		return;
	read_folder(s);
}

/* A job that was requeued while no daemon ran has groups that were found under its id before it was heard that this is
 * another run: they were taken for the earlier one's. */
static void find_groups(struct zn_jobs *jobs)
{
	if (jobs->regroup)
		zn_cgroup_scan(jobs->agg->arena, "/proc");
	jobs->regroup = false;
}

int zn_spool_open(struct zn_spool **to, const struct zn_state *state, const char *folder, uid_t owner)
{
	struct zn_spool *s;

	*to = NULL;
	if (!*folder || !state->jobs)
		return 0;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return -errno;
	s->state = state;
	s->owner = owner;
	snprintf(s->folder, sizeof(s->folder), "%s", folder);
	read_folder(s);
	s->started = true;
	find_groups(state->jobs);
	*to = s;
	return 0;
}

void zn_spool_close(struct zn_spool *s)
{
	if (s)
		munmap(s, sizeof(*s));
}

void zn_spool_record(struct zn_writer *writer, const struct zn_job *job)
{
	static struct zn_message m;
	static char text[ZN_MESSAGE_BYTES];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	char name[ZN_NAME_BYTES];
	struct zn_moment start;
	uint64_t ago_ms;

	if (!writer || !writer->available[ZN_DIRECTORY_SPOOL] || !job->about.value[ZN_KEY_ID][0])
		return;
	m = job->about;
	m.verb = job->epilog ? ZN_VERB_END : ZN_VERB_START;
	ago_ms = (zn_now_ns() - job->start_ns) / ZN_NS_PER_MS;
	zn_moment_now(&start);
	start.wall_ms = job->start_wall_ms;
	start.uptime_ms = start.uptime_ms > ago_ms ? start.uptime_ms - ago_ms : 0;
	zn_message_date(&m, &start);
	zn_job_file(name, ZN_SPOOL_RECORD, job->id, job->restart, "");
	if (zn_message_write(&o, &m))
		zn_writer_write(writer, ZN_DIRECTORY_SPOOL, name, (struct zn_str){text, o.len});
}

void zn_spool_forget(struct zn_writer *writer, const struct zn_job *job)
{
	char name[ZN_NAME_BYTES];

	zn_job_file(name, ZN_SPOOL_RECORD, job->id, job->restart, "");
	if (writer && writer->available[ZN_DIRECTORY_SPOOL])
		zn_writer_remove(writer, ZN_DIRECTORY_SPOOL, name);
}
