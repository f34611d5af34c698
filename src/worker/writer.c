/* SPDX-License-Identifier: GPL-2.0 */
/*
 * writer.c: writes files for the daemon, in a process of its own: a slow or stuck disk stops nobody, and the daemon
 * itself needs no right to write. What it may do is little: no capability, a short list of system calls, and, where the
 * kernel has Landlock, no folder but its own.
 *
 * A file is handed over as a message (worker.c). It is written under a temporary name, flushed, and renamed: whole, or
 * not there. What has been handed over is written even if the daemon ends or is killed; then the socket's end says so,
 * and no signal does.
 *
 * Nothing here waits for another process: those who may read a folder can lock it, so there is no lock. Each writer
 * has a temporary name of its own instead, on whatever node it runs, and several of them share a folder.
 *
 * A path may come to lead to another folder, which is mounted over it or made anew. The writer looks before each file,
 * and goes there if it may: Landlock knows the folders of the start alone.
 */
#include <dirent.h> /* struct dirent64 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"

#define TEXT_MAX    (256 << 10) /* of one file */
#define PATIENCE_MS 5000        /* for the folders to answer at the start, and for the rest to be written at the end */
#define NEW_FILE    ".new"      /* begins a temporary name: no other one begins with a dot */
#define LEFT_S      3600        /* a temporary file that old is of a writer that was killed */
#define SWEEP_MS    500         /* for looking for such files, in a folder that may be large and slow */

enum verb { WRITE, REMOVE };

struct message {
	uint32_t directory, verb;
	char name[ZN_NAME_BYTES];
	char text[TEXT_MAX];
};
#define HEAD_BYTES offsetof(struct message, text)

/* What both processes see; the writer alone writes. */
struct shared {
	struct zn_writer_done done;
	bool open[ZN_DIRECTORY_COUNT];     /* the folder is there, and each file is tried */
	int32_t state[ZN_DIRECTORY_COUNT]; /* -errno: it could not be written to at the start, and not since */
};

static bool is_name(const char *name)
{
	size_t len = strnlen(name, ZN_NAME_BYTES);

	if (!len || len == ZN_NAME_BYTES || *name == '.')
		return false;
	for (; *name; name++)
		if (!(*name >= '0' && *name <= '9') && !(*name >= 'A' && *name <= 'Z') &&
			!(*name >= 'a' && *name <= 'z') && !strchr("._-", *name))
			return false;
	return true;
}

/* ---- the writer ---- */

struct identity {
	dev_t dev;
	ino_t ino;
};

struct writer {
	struct shared *shared;
	struct zn_worker worker;
	int folder[ZN_DIRECTORY_COUNT];              /* below 0: none */
	const char *path[ZN_DIRECTORY_COUNT];        /* NULL: none */
	bool failing[ZN_DIRECTORY_COUNT];            /* the last file could not be written */
	struct identity refused[ZN_DIRECTORY_COUNT]; /* another folder, of which the log says that it cannot be used */
	char temporary[32];                          /* what a file is called until it is whole */
	struct message message;
};

static void add_one(uint64_t *to)
{
	__atomic_fetch_add(to, 1, __ATOMIC_RELAXED);
}

static int write_all(int fd, const char *at, size_t len)
{
	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int write_new(int folder, const char *name, const char *text, size_t len)
{
	int fd, err;

	unlinkat(folder, name, 0); /* left by a file that could be neither renamed nor removed */
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fd < 0)
		return -errno;
	err = write_all(fd, text, len);
	if (!err && fsync(fd))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	return err;
}

static int write_file(const struct writer *s, int folder, const char *name, size_t len)
{
	int err = write_new(folder, s->temporary, s->message.text, len);

	if (!err && renameat(folder, s->temporary, folder, name))
		err = -errno;
	if (err)
		unlinkat(folder, s->temporary, 0);
	return err;
}

/* Logs one line when a folder begins to fail. */
static void note_failure(struct writer *s, enum zn_directory directory, const char *what, int err)
{
	if (!s->failing[directory])
		zn_log(ZN_WARN, "writer: cannot %s %s/%s: %s; such files are lost, and counted, until it works again",
			what, s->path[directory], s->message.name, strerror(-err));
	s->failing[directory] = true;
	add_one(&s->shared->done.failed);
}

/* Logs one line when a folder works again. A file that is removed is no sign of that: on a full disk it can be. */
static void note_written(struct writer *s, enum zn_directory directory)
{
	if (s->failing[directory] || s->shared->state[directory])
		zn_log(ZN_INFO, "writer: files are written to %s from here on", s->path[directory]);
	s->failing[directory] = false;
	s->shared->state[directory] = 0;
	add_one(&s->shared->done.written);
}

static void do_write(struct writer *s, size_t len)
{
	const struct message *m = &s->message;
	int err = write_file(s, s->folder[m->directory], m->name, len);

	if (err)
		note_failure(s, m->directory, "write", err);
	else
		note_written(s, m->directory);
}

/* A file that is not there counts as removed. */
static void do_remove(struct writer *s)
{
	const struct message *m = &s->message;
	int err = unlinkat(s->folder[m->directory], m->name, 0) && errno != ENOENT ? -errno : 0;

	if (err)
		note_failure(s, m->directory, "remove", err);
	else
		add_one(&s->shared->done.removed);
}

/* Bare: C libraries have several calls for it, and the filter lets this one pass. */
static int stat_folder(int folder, struct stat *st)
{
	return (int)syscall(SYS_fstat, folder, st);
}

static struct identity identify_folder(int folder)
{
	struct stat st;

	return stat_folder(folder, &st) ? (struct identity){0} : (struct identity){st.st_dev, st.st_ino};
}

static bool is_same(struct identity a, struct identity b)
{
	return a.dev == b.dev && a.ino == b.ino;
}

static void warn_if_open(int folder, const char *path)
{
	struct stat st;

	if (stat_folder(folder, &st))
		return;
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
		zn_log(ZN_WARN, "writer: %s can be written to by others, who may forge what lies there", path);
}

/* Writes a file to find out: the folder's mode and its file system do not say whether that works. */
static int try_folder(const struct writer *s, int folder)
{
	int err;

	if (folder < 0)
		return folder;
	err = write_new(folder, s->temporary, "", 0);
	if (!err && unlinkat(folder, s->temporary, 0))
		err = -errno;
	return err;
}

/* Takes the descriptor. Its line of the log also ends what was said of the former folder. */
static void take_folder(struct writer *s, enum zn_directory directory, int folder)
{
	zn_log(ZN_INFO,
		"writer: %s is another folder than before, mounted over or replaced; files go there from here on",
		s->path[directory]);
	warn_if_open(folder, s->path[directory]);
	close(s->folder[directory]);
	s->folder[directory] = folder;
	s->failing[directory] = false;
	s->shared->state[directory] = 0;
}

/* Logs one line for each folder that the path comes to lead to. */
static void refuse_folder(struct writer *s, enum zn_directory directory, struct identity now, int err)
{
	if (!is_same(now, s->refused[directory]))
		zn_log(ZN_WARN,
			"writer: %s is another folder than before, mounted over or replaced, and cannot be written "
			"to: %s; until that works or zerneld is restarted, files go to the former one, if it is left",
			s->path[directory], strerror(-err));
	s->refused[directory] = now;
}

/* Whether the writer has taken the folder that its path leads to now. */
static bool use_folder(struct writer *s, enum zn_directory directory, int folder)
{
	struct identity now = identify_folder(folder);
	int err;

	if (is_same(now, identify_folder(s->folder[directory]))) {
		s->refused[directory] = (struct identity){0};
		return false;
	}
	err = try_folder(s, folder);
	if (err)
		refuse_folder(s, directory, now, err);
	else
		take_folder(s, directory, folder);
	return !err;
}

/* A path that leads to no folder, or cannot be followed, changes nothing. */
static void follow_path(struct writer *s, enum zn_directory directory)
{
	int fd = openat(AT_FDCWD, s->path[directory], O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && !use_folder(s, directory, fd))
		close(fd);
}

static void take_message(struct writer *s, size_t bytes)
{
	const struct message *m = &s->message;

	if (bytes < HEAD_BYTES || m->directory >= ZN_DIRECTORY_COUNT || !s->path[m->directory] || !is_name(m->name))
		return;
	if (s->folder[m->directory] < 0) { /* which was not known when this was handed over */
		note_failure(s, m->directory, m->verb == REMOVE ? "remove" : "write", s->folder[m->directory]);
		return;
	}
	follow_path(s, m->directory);
	if (m->verb == REMOVE)
		do_remove(s);
	else
		do_write(s, bytes - HEAD_BYTES);
}

/* Works until the daemon has gone and all is read. */
static void serve_daemon(struct writer *s)
{
	size_t bytes;
	bool there = true;

	while (there) {
		there = zn_worker_woken(&s->worker, true);
		while ((bytes = zn_worker_take(&s->worker, &s->message, sizeof(s->message))))
			take_message(s, bytes);
	}
}

/* Makes a folder and what leads to it. */
static int make_folder(const char *path)
{
	char part[ZN_TEXT_MAX];

	if (strlen(path) >= sizeof(part))
		return -ENAMETOOLONG;
	for (size_t i = 1; path[i]; i++) {
		if (path[i] != '/')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0755) && errno != EEXIST)
			return -errno;
	}
	return mkdir(path, 0750) && errno != EEXIST ? -errno : 0;
}

/* The descriptor, or -errno. */
static int open_folder(const char *path)
{
	int err = make_folder(path), fd;

	if (err)
		return err;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	warn_if_open(fd, path);
	return fd;
}

static bool is_left(int folder, const char *name, time_t now)
{
	struct stat st;

	return !strncmp(name, NEW_FILE, strlen(NEW_FILE)) && !fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) &&
		S_ISREG(st.st_mode) && st.st_mtim.tv_sec + LEFT_S < now;
}

/* Removes what writers left that were killed while they wrote, as far as that is found in time. */
static void sweep_folder(int folder)
{
	uint64_t end_ns = zn_now_ns() + SWEEP_MS * ZN_NS_PER_MS;
	int fd = folder < 0 ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	time_t now = (time_t)(zn_wall_ms() / 1000);
	struct zn_names names = {.have = 0};
	const struct dirent64 *e;

	while (zn_now_ns() < end_ns && (e = zn_names_next(&names, fd)))
		if (is_left(folder, e->d_name, now))
			unlinkat(folder, e->d_name, 0);
	if (fd >= 0)
		close(fd);
}

/* Process numbers are not enough: other nodes may share the folder. */
static void choose_temporary(struct writer *s)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = zn_now_ns() << 20 ^ (uint64_t)getpid();
	snprintf(s->temporary, sizeof(s->temporary), NEW_FILE ".%016llx", (unsigned long long)number);
}

static void serve_writer(struct writer *s)
{
	int err;

	zn_worker_become("zerneld: writer", s->worker.fd);
	umask(0);
	choose_temporary(s);
	for (enum zn_directory i = 0; i < ZN_DIRECTORY_COUNT; i++) {
		s->folder[i] = s->path[i] ? open_folder(s->path[i]) : -EBADF;
		sweep_folder(s->folder[i]);
	}
	err = zn_sandbox_writer(s->folder, ZN_DIRECTORY_COUNT);
	for (enum zn_directory i = 0; i < ZN_DIRECTORY_COUNT; i++) {
		s->shared->open[i] = !err && s->folder[i] >= 0;
		s->shared->state[i] = err ? err : try_folder(s, s->folder[i]);
	}
	if (send(s->worker.fd, "", 1, MSG_NOSIGNAL) == 1)
		serve_daemon(s);
	syscall(SYS_exit_group, 0); /* bare: what a sanitizer does before an exit is refused */
}

/* ---- the daemon's side ---- */

/* The writer has tried its folders. If one does not answer in time, it may do so later. */
static void await_start(struct zn_writer *s, const struct shared *shared)
{
	bool answered =
		zn_worker_wait(s->worker.fd, PATIENCE_MS) && recv(s->worker.fd, &(char){0}, 1, MSG_DONTWAIT) == 1;

	for (enum zn_directory i = 0; i < ZN_DIRECTORY_COUNT; i++) {
		s->available[i] = s->wanted[i] && (!answered || shared->open[i]);
		s->refused[i] = s->wanted[i] && answered ? shared->state[i] : 0;
	}
	if (!answered)
		zn_log(ZN_WARN, "writer: its folders do not answer; what is written may come late, or not at all");
}

static void run_writer(struct shared *shared, const struct zn_writer *s, const char *const dir[ZN_DIRECTORY_COUNT])
{
	static struct writer writer;

	writer.shared = shared;
	writer.worker = s->worker;
	for (enum zn_directory i = 0; i < ZN_DIRECTORY_COUNT; i++)
		writer.path[i] = s->wanted[i] ? dir[i] : NULL;
	serve_writer(&writer);
}

static int start_writer(struct zn_writer *s, struct shared *shared, const char *const dir[ZN_DIRECTORY_COUNT])
{
	int err = zn_worker_open(&s->worker);

	if (err)
		return err;
	if (s->worker.pid == 0)
		run_writer(shared, s, dir);
	s->done = &shared->done;
	await_start(s, shared);
	return 0;
}

int zn_writer_open(struct zn_writer *s, const char *const dir[ZN_DIRECTORY_COUNT], char why[ZN_TEXT_MAX])
{
	struct shared *shared;
	bool any = false;
	int err;

	*s = (struct zn_writer){.worker.fd = -1};
	for (enum zn_directory i = 0; i < ZN_DIRECTORY_COUNT; i++)
		any |= s->wanted[i] = dir[i] && *dir[i];
	if (!any)
		return 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	err = shared == MAP_FAILED ? -errno : start_writer(s, shared, dir);
	if (!err)
		return 0;
	snprintf(why, ZN_TEXT_MAX, "cannot start the process that writes files: %s", strerror(-err));
	if (shared != MAP_FAILED)
		munmap(shared, sizeof(*shared));
	*s = (struct zn_writer){.worker.fd = -1};
	return err;
}

void zn_writer_warn(const struct zn_writer *s, const char *const dir[ZN_DIRECTORY_COUNT])
{
	for (enum zn_directory i = 0; i < ZN_DIRECTORY_COUNT; i++)
		if (s->refused[i])
			zn_log(ZN_WARN, "writer: cannot write to %s: %s; %s", dir[i], strerror(-s->refused[i]),
				s->available[i] ? "each file is tried, and lost and counted until it works"
						: "nothing is kept there");
}

/* It cannot be started again: that needs rights that the daemon gave up. */
static void worker_exited(struct zn_writer *s, int err)
{
	int status = 0;

	zn_worker_hang_up(&s->worker);
	memset(s->available, 0, sizeof(s->available));
	if (waitpid(s->worker.pid, &status, WNOHANG) == s->worker.pid && WIFSIGNALED(status))
		zn_log(ZN_ERROR, "writer: killed by signal %d; reports and records of jobs are lost from here on",
			WTERMSIG(status));
	else
		zn_log(ZN_ERROR, "writer: %s; reports and records of jobs are lost from here on", strerror(-err));
}

static bool send_message(
	struct zn_writer *s, enum zn_directory directory, enum verb verb, const char *name, struct zn_str text)
{
	struct {
		uint32_t directory, verb;
		char name[ZN_NAME_BYTES];
	} head = {.directory = directory, .verb = verb};
	int err;

	_Static_assert(sizeof(head) == HEAD_BYTES, "as a message begins");
	bool may = verb == REMOVE ? s->wanted[directory] : s->available[directory]; /* no folder: nothing to remove */

	if (!may || s->worker.fd < 0 || !is_name(name) || text.len > TEXT_MAX)
		return false;
	strcpy(head.name, name);
	err = zn_worker_put(&s->worker, &head, sizeof(head), text);
	if (err == -EPIPE || err == -ECONNRESET)
		worker_exited(s, err);
	return !err;
}

static bool hand_over(
	struct zn_writer *s, enum zn_directory directory, enum verb verb, const char *name, struct zn_str text)
{
	bool sent = send_message(s, directory, verb, name, text);

	s->lost += !sent && s->wanted[directory];
	return sent;
}

bool zn_writer_write(struct zn_writer *s, enum zn_directory directory, const char *name, struct zn_str text)
{
	return hand_over(s, directory, WRITE, name, text);
}

bool zn_writer_remove(struct zn_writer *s, enum zn_directory directory, const char *name)
{
	return hand_over(s, directory, REMOVE, name, (struct zn_str){"", 0});
}

/* The writer's end of the socket closes when it ends. Before that there may be the byte by which it says that it has
 * tried its folders, if those were slow. */
static bool await_end(const struct zn_writer *s)
{
	ssize_t n = 1;

	while (n > 0 && zn_worker_wait(s->worker.fd, PATIENCE_MS))
		n = recv(s->worker.fd, &(char){0}, 1, MSG_DONTWAIT);
	return n <= 0;
}

void zn_writer_close(struct zn_writer *s)
{
	if (s->worker.pid > 0 && s->worker.fd >= 0) {
		shutdown(s->worker.fd, SHUT_WR);
		if (await_end(s))
			waitpid(s->worker.pid, NULL, 0);
		else
			zn_log(ZN_WARN, "writer: the disk is slow; it goes on writing after the daemon has ended");
	}
	zn_worker_close(&s->worker);
	if (s->done)
		munmap((void *)s->done, sizeof(struct shared));
	*s = (struct zn_writer){.worker.fd = -1};
}
