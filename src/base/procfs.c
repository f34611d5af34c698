/* SPDX-License-Identifier: GPL-2.0 */
/*
 * procfs.c: what a process has started, by /proc, a step at a time. The processes are those of users: a step may
 * block, and a tree may grow faster than it is read.
 */
#include <ctype.h>
#include <dirent.h> /* struct dirent64 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"

#define RING_AT(i) ((i) & (ZN_TREE_MAX - 1))

void zn_tree_init(struct zn_tree *t, const char *proc_root)
{
	char path[ZN_TEXT_MAX];
	struct stat st;

	zn_pages_clear(t, sizeof(*t));
	t->proc_root = proc_root;
	snprintf(path, sizeof(path), "%s/thread-self/children", proc_root);
	t->by_children = stat(path, &st) == 0;
}

bool zn_tree_add(struct zn_tree *t, const struct zn_tree_process *p)
{
	if (t->end - t->rest == ZN_TREE_MAX) {
		t->dropped++;
		return false;
	}
	t->process[RING_AT(t->end++)] = *p;
	return true;
}

static void child_found(struct zn_tree *t, const struct zn_tree_process *parent, uint32_t pid)
{
	struct zn_tree_process child = *parent;

	child.pid = pid;
	if (pid && t->add(t->owner, parent, pid) == 0)
		zn_tree_add(t, &child);
}

/* Numbers with a blank behind each. A read may end within one. */
static void children_read(struct zn_tree *t, const struct zn_tree_process *parent, uint32_t tid)
{
	char path[ZN_TEXT_MAX], text[4096];
	uint32_t pid = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%u/task/%u/children", t->proc_root, parent->pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (isdigit((unsigned char)text[i])) {
				pid = 10 * pid + (uint32_t)(text[i] - '0');
				continue;
			}
			child_found(t, parent, pid);
			pid = 0;
		}
	if (fd >= 0)
		close(fd);
	child_found(t, parent, pid);
}

/* Some entries of the folder that is read, which it opens if none is. False: that was all of it. */
static bool folder_read(struct zn_tree *t, const char *path, void (*visit)(struct zn_tree *t, uint32_t number))
{
	struct zn_names names = {.have = 0};
	const struct dirent64 *e;

	if (!t->reading) {
		t->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		t->reading = t->fd >= 0;
	}
	if (!zn_names_read(&names, t->reading ? t->fd : -1)) {
		zn_tree_close(t);
		return false;
	}
	while ((e = zn_names_take(&names)))
		if (isdigit((unsigned char)e->d_name[0]))
			visit(t, zn_names_number(e));
	return true;
}

static void thread_visit(struct zn_tree *t, uint32_t tid)
{
	const struct zn_tree_process parent = t->process[RING_AT(t->rest)];

	if (tid != parent.pid)
		children_read(t, &parent, tid);
}

/* Where the kernel lists the children of a thread: of all main threads first, because they have nearly all
 * children, and a process of very many threads must not keep the others waiting. */
static void list_step(struct zn_tree *t)
{
	struct zn_tree_process parent;
	char path[ZN_TEXT_MAX];

	if (t->first != t->end) {
		parent = t->process[RING_AT(t->first++)];
		children_read(t, &parent, parent.pid);
		return;
	}
	snprintf(path, sizeof(path), "%s/%u/task", t->proc_root, t->process[RING_AT(t->rest)].pid);
	if (!folder_read(t, path, thread_visit))
		t->rest++;
}

static const struct zn_tree_process *tree_find(const struct zn_tree *t, uint32_t pid)
{
	for (uint32_t i = t->rest; i != t->end; i++)
		if (t->process[RING_AT(i)].pid == pid)
			return &t->process[RING_AT(i)];
	return NULL;
}

/* 0: none, or it has ended. */
static uint32_t parent_of(const char *proc_root, uint32_t pid)
{
	struct zn_procfs_stat s;

	return zn_procfs_stat(proc_root, pid, &s) ? s.parent : 0;
}

static void process_visit_tree(struct zn_tree *t, uint32_t pid)
{
	const struct zn_tree_process *parent;
	struct zn_tree_process copy;

	if (tree_find(t, pid))
		return;
	parent = tree_find(t, parent_of(t->proc_root, pid));
	if (!parent)
		return;
	copy = *parent;
	child_found(t, &copy, pid);
}

/* Where the kernel lists no children, passes over all of /proc find them, each for all processes that are there when it
 * begins. A child of a process that is found on the way may lie behind it: the next pass looks for that. */
static void pass_step(struct zn_tree *t)
{
	if (!t->reading)
		t->pass_end = t->end;
	if (!folder_read(t, t->proc_root, process_visit_tree))
		t->rest = t->first = t->pass_end;
}

bool zn_tree_step(struct zn_tree *t)
{
	if (t->rest == t->end)
		return false;
	if (t->by_children)
		list_step(t);
	else
		pass_step(t);
	return t->rest != t->end;
}

void zn_tree_close(struct zn_tree *t)
{
	if (t->reading)
		close(t->fd);
	t->reading = false;
}

/* A mask in hexadecimal, with commas between words: the last digit is of the first four CPUs. */
static uint32_t add_cpus(struct zn_cpu_set *to, const char *mask)
{
	size_t len = strspn(mask, "0123456789abcdefABCDEF,");
	uint32_t bits = 0, digit = 0;

	while (len--) {
		char c = mask[len];
		uint64_t four = (uint64_t)(isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10);

		if (c == ',')
			continue;
		bits += (uint32_t)__builtin_popcountll(four);
		if (digit / 16 < ZN_LEN(to->word))
			to->word[digit / 16] |= four << digit % 16 * 4;
		digit++;
	}
	return bits;
}

uint32_t zn_procfs_cpus_in(const struct zn_cpu_set *s)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < ZN_LEN(s->word); i++)
		bits += (uint32_t)__builtin_popcountll(s->word[i]);
	return bits;
}

struct status_value {
	const char *key;
	char *to;
	size_t cap;
	bool found;
};

static void status_line(void *value, char *line)
{
	struct status_value *v = value;
	size_t n = strlen(v->key);

	if (v->found || strncmp(line, v->key, n) || line[n] != ':')
		return;
	v->found = true;
	line += n + 1;
	snprintf(v->to, v->cap, "%s", line + strspn(line, " \t"));
}

int zn_procfs_status(const char *path, const char *key, char *to, size_t cap)
{
	struct status_value v = {key, to, cap, false};
	int err;

	*to = 0;
	err = zn_file_lines(path, status_line, &v);
	return v.found ? 1 : err;
}

uint32_t zn_procfs_cpus(const char *proc_root, uint32_t pid, struct zn_cpu_set *to)
{
	char path[ZN_TEXT_MAX], mask[4096];

	snprintf(path, sizeof(path), "%s/%u/status", proc_root, pid);
	zn_procfs_status(path, "Cpus_allowed", mask, sizeof(mask));
	return add_cpus(to, mask);
}

bool zn_procfs_contained(const char *proc_root, uint32_t pid)
{
	char path[ZN_TEXT_MAX], ids[512];

	snprintf(path, sizeof(path), "%s/%u/status", proc_root, pid);
	zn_procfs_status(path, "NSpid", ids, sizeof(ids));
	return strchr(ids, '\t');
}

/* The name before the last ')' is hostile. Fields 3 (state), 4 (parent), 6 (session), 14 and 15 (time in user space
 * and in the kernel), 20 (threads), 22 (start). */
bool zn_procfs_stat(const char *proc_root, uint32_t pid, struct zn_procfs_stat *to)
{
	char path[ZN_TEXT_MAX], text[1024];
	unsigned long long user = 0, system = 0, start = 0;
	const char *at;

	*to = (struct zn_procfs_stat){0};
	snprintf(path, sizeof(path), "%s/%u/stat", proc_root, pid);
	at = zn_file_read(path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
	if (!at ||
		sscanf(at, ") %c %u %*d %u %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %u %*d %llu",
			&to->state, &to->parent, &to->session, &user, &system, &to->threads, &start) != 7)
		return false;
	to->cpu_ticks = user + system;
	to->start_ticks = start;
	return true;
}

bool zn_procfs_headless(const struct zn_procfs_stat *s)
{
	return s->state == 'Z' && s->threads > 1;
}

bool zn_procfs_ended(const struct zn_procfs_stat *s)
{
	return s->state == 'X' || (s->state == 'Z' && !zn_procfs_headless(s));
}

bool zn_procfs_schedstat(const char *proc_root, uint32_t pid, uint64_t *run_ns, uint64_t *queued_ns)
{
	unsigned long long run = 0, queued = 0;
	char path[ZN_TEXT_MAX], text[128];

	snprintf(path, sizeof(path), "%s/%u/schedstat", proc_root, pid);
	if (zn_file_read(path, text, sizeof(text)) <= 0 || sscanf(text, "%llu %llu", &run, &queued) != 2)
		return false;
	*run_ns = run;
	*queued_ns = queued;
	return true;
}
