/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Control groups as user space sees them: what is in jobs already when the daemon starts, and groups that an
 * administrator names. What is made, removed and entered later is seen in bpf/job.bpf.c; both enter into the same
 * tables, and both ask zn_cgroup_parse() what a path means.
 *
 * /proc and the groups belong to others: files are read up to a limit, a folder is entered once and never followed out
 * of its file system, and what is cut is left alone. Nothing is allocated.
 */
#include "zernel.h"
#include <ctype.h>
#include <dirent.h> /* struct dirent64 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_BYTES  4096
#define DEPTH_MAX   32
#define MOUNTS_MAX  32
#define PASSES_MAX  4
#define GROUPS_TEXT (32 * 1024) /* of /proc/PID/cgroup: eight times the longest path */

/* ---- names ---- */

static struct zn_cgroup_part part_of(const char *at, size_t len)
{
	struct zn_cgroup_part p = {.len = (uint32_t)len};

	memcpy(p.head, at, len < sizeof(p.head) - 1 ? len : sizeof(p.head) - 1);
	if (len >= sizeof(p.tail))
		memcpy(p.tail, at + len - sizeof(p.tail), sizeof(p.tail));
	if (len > sizeof(p.tail))
		p.before = at[len - sizeof(p.tail) - 1];
	return p;
}

/* The next name of a path, and *at behind it; empty at the end. */
static struct zn_str name_next(const char **at)
{
	struct zn_str name;

	*at += strspn(*at, "/");
	name = (struct zn_str){*at, strcspn(*at, "/")};
	*at += name.len;
	return name;
}

/* What the name that follows a job's or one of its groups' makes of it, as job.bpf.c has it. */
static void name_below(struct zn_cgroup_name *to, struct zn_str name)
{
	bool step = to->level == ZN_CGROUP_JOB && name.len >= 5 && memcmp(name.at, "step_", 5) == 0;

	to->level = step ? ZN_CGROUP_STEP : ZN_CGROUP_BELOW;
	if (step)
		snprintf(to->step, sizeof(to->step), "%.*s", (int)(name.len - 5), name.at + 5);
}

/* Where the name of the job's own group ends in a path; NULL: it has none. */
static const char *job_find(const char *path, char job[ZN_JOB_NAME])
{
	struct zn_cgroup_part own = {0}, above, top = {0};
	const char *at = path;
	struct zn_str name;

	for (above = own; (name = name_next(&at)).len; top = above, above = own) {
		own = part_of(name.at, name.len);
		if (zn_cgroup_parse(&own, &above, &top, job))
			return at;
	}
	return NULL;
}

bool zn_cgroup_name(const char *path, struct zn_cgroup_name *to)
{
	const char *at = job_find(path, to->job);
	struct zn_str name;

	memset(to->step, 0, sizeof(to->step));
	if (!at)
		return false;
	for (to->level = ZN_CGROUP_JOB; (name = name_next(&at)).len;)
		name_below(to, name);
	return true;
}

/* ---- where the hierarchies are mounted ---- */

struct mount {
	char point[ZN_TEXT_MAX], root[ZN_TEXT_MAX]; /* root: which group is at the point; "" for the topmost */
	char options[128];                          /* of version 1: controllers, or name=... */
	bool v2;
	uint32_t hierarchy; /* ZN_UNKNOWN: not found */
	dev_t dev;
	uid_t owner;
};
struct mounts {
	struct mount mount[MOUNTS_MAX];
	uint32_t count;
};

/* Reads a file of lines and calls visit with each, without its end; lines that do not fit are left out. */
static void lines_read(const char *path, void (*visit)(void *to, char *line), void *to)
{
	static char text[2 * PATH_BYTES];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool skip = false;
	size_t have = 0;
	ssize_t n;

	while (fd >= 0 && (n = read(fd, text + have, sizeof(text) - have)) > 0) {
		char *line = text, *end;

		have += n;
		for (; (end = memchr(line, '\n', have - (line - text))); line = end + 1) {
			*end = 0;
			if (!skip)
				visit(to, line);
			skip = false;
		}
		have -= line - text;
		memmove(text, line, have);
		skip |= have == sizeof(text);
		have = have == sizeof(text) ? 0 : have;
	}
	if (fd >= 0)
		close(fd);
}

/* A field of mountinfo: blanks and the like are there as \ooo. False: it does not fit. */
static bool field_decode(char *to, size_t cap, const char *from)
{
	size_t n = 0;

	for (; *from; n++) {
		bool escaped = from[0] == '\\' && isdigit((unsigned char)from[1]) && isdigit((unsigned char)from[2]) &&
			isdigit((unsigned char)from[3]);

		if (n == cap - 1)
			return false;
		to[n] = escaped ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')) : *from;
		from += escaped ? 4 : 1;
	}
	to[n] = 0;
	return true;
}

/* proc(5): id parent major:minor root point options [optional...] - type source super-options */
static void mount_read(void *to, char *line)
{
	struct mounts *all = to;
	struct mount *m = &all->mount[all->count];
	char *field[64], *save, *word = strtok_r(line, " ", &save);
	size_t n = 0, dash = 6;
	struct stat st;

	for (; word && n < ZN_LEN(field); word = strtok_r(NULL, " ", &save))
		field[n++] = word;
	while (dash < n && strcmp(field[dash], "-"))
		dash++;
	if (dash + 3 >= n || strncmp(field[dash + 1], "cgroup", 6) || all->count == MOUNTS_MAX)
		return;
	*m = (struct mount){.v2 = strcmp(field[dash + 1], "cgroup2") == 0, .hierarchy = ZN_UNKNOWN};
	if (!m->v2 && field[dash + 1][6])
		return;
	if (!field_decode(m->root, sizeof(m->root), field[3]) || !field_decode(m->point, sizeof(m->point), field[4]) ||
		strlen(field[dash + 3]) >= sizeof(m->options) || stat(m->point, &st))
		return;
	if (strcmp(m->root, "/") == 0)
		m->root[0] = 0;
	strcpy(m->options, field[dash + 3]);
	m->dev = st.st_dev;
	m->owner = st.st_uid;
	all->count++;
}

/* Whether a list with commas has the first word of another one. */
static bool list_has(const char *list, const char *words)
{
	size_t len = strcspn(words, ",");

	for (const char *at = list; *at; at += strspn(at, ",")) {
		size_t n = strcspn(at, ",");

		if (n == len && memcmp(at, words, n) == 0)
			return true;
		at += n;
	}
	return false;
}

/* A line of /proc/PID/cgroup is hierarchy:controllers:path. The path may have colons; the line is cut up. */
static char *line_split(char *line, uint32_t *hierarchy, char **controllers)
{
	char *end;

	*hierarchy = strtoul(line, &end, 10);
	if (end == line || *end != ':')
		return NULL;
	*controllers = end + 1;
	end = strchr(*controllers, ':');
	if (!end || end[1] != '/')
		return NULL;
	*end = 0;
	return end + 1;
}

static void hierarchy_read(void *to, char *line)
{
	struct mounts *all = to;
	uint32_t hierarchy;
	char *controllers;

	if (!line_split(line, &hierarchy, &controllers))
		return;
	for (uint32_t i = 0; i < all->count; i++) {
		struct mount *m = &all->mount[i];

		if (controllers[0] ? !m->v2 && list_has(m->options, controllers) : m->v2)
			m->hierarchy = hierarchy;
	}
}

static const struct mounts *mounts_read(const char *proc_root)
{
	static struct mounts all;
	char path[ZN_TEXT_MAX];

	all.count = 0;
	snprintf(path, sizeof(path), "%s/self/mountinfo", proc_root);
	lines_read(path, mount_read, &all);
	snprintf(path, sizeof(path), "%s/self/cgroup", proc_root);
	lines_read(path, hierarchy_read, &all);
	return &all;
}

void zn_cgroup_points(void (*visit)(void *to, const char *path), void *to)
{
	const struct mounts *all = mounts_read("/proc");

	for (uint32_t i = 0; i < all->count; i++)
		visit(to, all->mount[i].point);
}

/* The folder of a group, "" for the topmost one; NULL: it lies outside of what is mounted. */
static const struct mount *folder_of(const struct mounts *all, uint32_t hierarchy, const char *group, char *to)
{
	for (uint32_t i = 0; i < all->count; i++) {
		const struct mount *m = &all->mount[i];
		size_t n = strlen(m->root);

		if (m->hierarchy != hierarchy || strncmp(group, m->root, n) || (group[n] && group[n] != '/'))
			continue;
		if (snprintf(to, PATH_BYTES, "%s%s", m->point, group + n) < PATH_BYTES)
			return m;
	}
	return NULL;
}

/* ---- what is entered into the tables ---- */

static bool folder_key(const struct mount *m, const char *folder, struct zn_cgroup_key *key, uid_t *owner)
{
	struct stat st;

	if (lstat(folder, &st) || !S_ISDIR(st.st_mode) || st.st_dev != m->dev)
		return false;
	*key = (struct zn_cgroup_key){.id = st.st_ino, .hierarchy = m->hierarchy};
	*owner = st.st_uid;
	return true;
}

/* A group that was removed between the look and the entry would stay for ever: BPF saw its removal before the
 * entry existed. */
static void group_enter(
	struct zn_arena *a, uint32_t slot, const struct mount *m, const char *folder, const struct zn_cgroup_name *name)
{
	struct zn_cgroup_key key, again;
	uid_t owner;

	if (!folder_key(m, folder, &key, &owner))
		return;
	a->ops->job_cgroup(a, slot, &key, name->level, name->level == ZN_CGROUP_STEP ? name->step : NULL);
	if (!folder_key(m, folder, &again, &owner) || again.id != key.id)
		a->ops->job_cgroup_gone(a, &key);
}

/* ---- what runs when the daemon starts ---- */

struct scan {
	struct zn_arena *arena;
	const char *proc_root;
	const struct mounts *mounts;
	uint32_t found; /* processes of jobs, in one pass */
};

/* The job's group and those below it that a path goes through. Users may make folders of any name below their own,
 * so a job's group must have the same owner as the hierarchy. Returns the slot, or below 0: none. */
static int groups_enter(struct scan *s, uint32_t hierarchy, const char *group)
{
	struct zn_cgroup_name name = {.level = ZN_CGROUP_JOB};
	const char *at = job_find(group, name.job);
	char prefix[PATH_BYTES], folder[PATH_BYTES];
	const struct mount *m = NULL;
	struct zn_cgroup_key key;
	struct zn_str part;
	uid_t owner;
	int slot = -1;

	while (at && (size_t)(at - group) < sizeof(prefix)) {
		snprintf(prefix, sizeof(prefix), "%.*s", (int)(at - group), group);
		m = folder_of(s->mounts, hierarchy, prefix, folder);
		if (slot < 0 && m && folder_key(m, folder, &key, &owner) && owner == m->owner)
			slot = s->arena->ops->job_claim(s->arena, name.job);
		if (slot < 0 || !m)
			break;
		group_enter(s->arena, slot, m, folder, &name);
		part = name_next(&at);
		if (!part.len)
			break;
		name_below(&name, part);
	}
	return slot;
}

/* A line that was cut has no end and is left out. */
bool zn_cgroup_of(const char *proc_root, uint32_t pid, struct zn_cgroup_name *to)
{
	static char text[GROUPS_TEXT];
	char path[ZN_TEXT_MAX], *controllers, *group, *end;
	uint32_t hierarchy;

	snprintf(path, sizeof(path), "%s/%u/cgroup", proc_root, pid);
	zn_file_read(path, text, sizeof(text));
	for (char *line = text; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		group = line_split(line, &hierarchy, &controllers);
		if (group && zn_cgroup_name(group, to))
			return true;
	}
	return false;
}

/* Finds the one job that any hierarchy names. A line that was cut has no end and is left out. */
static void process_scan(struct scan *s, uint32_t pid)
{
	static char text[GROUPS_TEXT];
	char path[ZN_TEXT_MAX], *controllers, *group, *end;
	uint32_t hierarchy;
	int slot = -1, last;

	snprintf(path, sizeof(path), "%s/%u/cgroup", s->proc_root, pid);
	zn_file_read(path, text, sizeof(text));
	for (char *line = text; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		group = line_split(line, &hierarchy, &controllers);
		last = group ? groups_enter(s, hierarchy, group) : -1;
		slot = last < 0 ? slot : last;
	}
	if (slot >= 0 && s->arena->ops->job_task(s->arena, slot, pid) == 0)
		s->found++;
}

/* Calls visit for each name of a directory. getdents64() itself: opendir() allocates. */
static void dir_read(int fd, void (*visit)(void *to, const struct dirent64 *e), void *to)
{
	char buffer[4096] __attribute__((aligned(8)));
	ssize_t n;

	while ((n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e = (const void *)(buffer + at);

			visit(to, e);
			at += e->d_reclen;
		}
}

static void process_visit(void *to, const struct dirent64 *e)
{
	if (isdigit((unsigned char)e->d_name[0]))
		process_scan(to, strtoul(e->d_name, NULL, 10));
}

/* What a process starts after it was tagged has its tag. What it started before, behind the place that the pass
 * had come to, is found by the next one: until a pass finds no more than the one before. */
void zn_cgroup_scan(struct zn_arena *a, const char *proc_root)
{
	struct scan s = {.arena = a, .proc_root = proc_root, .mounts = mounts_read(proc_root)};
	uint32_t before;

	for (int pass = 0; pass < PASSES_MAX; pass++) {
		int fd = open(proc_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		before = s.found;
		s.found = 0;
		if (fd < 0)
			return;
		dir_read(fd, process_visit, &s);
		close(fd);
		if (s.found == before)
			return;
	}
}

/* ---- what an administrator names ---- */

struct tagging {
	struct zn_arena *arena;
	uint32_t slot;
	const struct mount *mount;
	struct zn_cgroup_name name; /* of the folder at hand */
	char folder[PATH_BYTES];
	uint32_t depth;
	int err;
};

static void process_tag(void *to, char *line)
{
	struct tagging *t = to;
	uint32_t pid = strtoul(line, NULL, 10);
	int err = pid ? t->arena->ops->job_task(t->arena, t->slot, pid) : 0;

	if (err && err != -ESRCH)
		t->err = err;
}

static void folder_tag(struct tagging *t);

static void folder_visit(void *to, const struct dirent64 *e)
{
	struct tagging *t = to;
	struct zn_cgroup_name name = t->name;
	size_t len = strlen(t->folder);

	if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		t->depth == DEPTH_MAX || len + 1 + strlen(e->d_name) >= PATH_BYTES)
		return;
	sprintf(t->folder + len, "/%s", e->d_name);
	name_below(&t->name, (struct zn_str){e->d_name, strlen(e->d_name)});
	t->depth++;
	folder_tag(t);
	t->depth--;
	t->name = name;
	t->folder[len] = 0;
}

/* The group first: what enters it from then on is tagged by the kernel. */
static void folder_tag(struct tagging *t)
{
	int fd = open(t->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	size_t len = strlen(t->folder);

	group_enter(t->arena, t->slot, t->mount, t->folder, &t->name);
	if (len + sizeof("/cgroup.procs") <= PATH_BYTES) {
		strcpy(t->folder + len, "/cgroup.procs");
		lines_read(t->folder, process_tag, t);
		t->folder[len] = 0;
	}
	if (fd < 0)
		return;
	dir_read(fd, folder_visit, t);
	close(fd);
}

static bool has_dots(const char *path)
{
	struct zn_str name;

	while ((name = name_next(&path)).len)
		if (name.len == 2 && memcmp(name.at, "..", 2) == 0)
			return true;
	return false;
}

/* A folder as it is (longest mount point first, by its device), a line of /proc/PID/cgroup, or a group of version 2. */
static const struct mount *path_resolve(const struct mounts *all, const char *path, char *folder)
{
	char line[PATH_BYTES], *controllers, *group;
	uint32_t hierarchy;
	struct stat st;

	if (snprintf(line, sizeof(line), "%s", path) >= (int)sizeof(line) || has_dots(path))
		return NULL;
	if (line[0] != '/') {
		group = line_split(line, &hierarchy, &controllers);
		return group ? folder_of(all, hierarchy, group, folder) : NULL;
	}
	snprintf(folder, PATH_BYTES, "%s", path);
	for (uint32_t i = 0; lstat(path, &st) == 0 && i < all->count; i++)
		if (all->mount[i].dev == st.st_dev && all->mount[i].hierarchy != ZN_UNKNOWN)
			return &all->mount[i];
	return folder_of(all, 0, path, folder);
}

int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	static struct tagging t;
	struct zn_cgroup_key key;
	uid_t owner;

	t = (struct tagging){.arena = a, .slot = slot};
	t.mount = path_resolve(mounts_read("/proc"), path, t.folder);
	if (!t.mount) {
		snprintf(why, ZN_TEXT_MAX, "not a control group: %.150s", path);
		return -EINVAL;
	}
	if (!folder_key(t.mount, t.folder, &key, &owner)) {
		snprintf(why, ZN_TEXT_MAX, "there is no control group %.150s", path);
		return -ENOENT;
	}
	for (int pass = 0; pass < 2 && !t.err; pass++) { /* twice, for the same reason as in zn_cgroup_scan() */
		t.name = (struct zn_cgroup_name){.level = ZN_CGROUP_JOB};
		folder_tag(&t);
	}
	if (t.err)
		snprintf(why, ZN_TEXT_MAX, "not all processes of %.150s can be tagged: %s", path, strerror(-t.err));
	return t.err;
}

/* ---- what processes have started ---- */

#define TREE_STEPS 65536u /* for all groups at once: a process may fork faster than the walk reads */

static int task_add(void *arena, const struct zn_tree_process *parent, uint32_t pid)
{
	struct zn_arena *a = arena;

	return a->ops->job_task(a, parent->index, pid);
}

int zn_cgroup_tree(struct zn_arena *a, uint32_t slot, uint32_t tgid)
{
	static struct zn_tree t;
	int err = a->ops->job_task(a, slot, tgid);

	if (err)
		return err;
	zn_tree_init(&t, "/proc");
	t.add = task_add;
	t.owner = a;
	zn_tree_add(&t, &(struct zn_tree_process){.pid = tgid, .index = slot});
	for (uint32_t left = TREE_STEPS; left && zn_tree_step(&t); left--)
		;
	zn_tree_close(&t);
	return 0;
}

/* ---- limits ---- */

/* Of a group of either version: throttled_usec, or throttled_time in nanoseconds. */
static uint64_t throttled_of(const char *folder)
{
	static const struct {
		const char *key;
		uint64_t ns;
	} keys[] = {{"\nthrottled_usec ", 1000}, {"\nthrottled_time ", 1}};
	char path[PATH_BYTES + 16], text[1024];

	snprintf(path, sizeof(path), "%s/cpu.stat", folder);
	if (zn_file_read(path, text, sizeof(text)) <= 0)
		return 0;
	for (size_t i = 0; i < ZN_LEN(keys); i++) {
		const char *at = strstr(text, keys[i].key);

		if (at)
			return strtoull(at + strlen(keys[i].key), NULL, 10) * keys[i].ns;
	}
	return 0;
}

/* Which group of a process a controller limits, of its lines in /proc. */
struct limits {
	const char *controller;
	const struct mounts *mounts;
	const struct mount *mount; /* of the hierarchy that does; NULL: none */
	char folder[PATH_BYTES];
};

static void limit_read(void *to, char *line)
{
	struct limits *l = to;
	char *controllers, *group, folder[PATH_BYTES];
	const struct mount *m;
	uint32_t hierarchy;

	group = line_split(line, &hierarchy, &controllers);
	if (!group || has_dots(group) || (controllers[0] ? !list_has(controllers, l->controller) : l->mount != NULL))
		return;
	m = folder_of(l->mounts, hierarchy, group, folder);
	if (!m)
		return;
	l->mount = m;
	strcpy(l->folder, folder);
}

static struct limits *limits_of(const char *proc_root, uint32_t pid, const char *controller)
{
	static struct limits l;
	char path[ZN_TEXT_MAX];

	l = (struct limits){.controller = controller, .mounts = mounts_read(proc_root)};
	snprintf(path, sizeof(path), "%s/%u/cgroup", proc_root, pid);
	lines_read(path, limit_read, &l);
	return &l;
}

/* Of its group and of all above it, as far as they can be seen. */
static uint64_t throttled_ns(const char *proc_root, uint32_t pid)
{
	struct limits l = *limits_of(proc_root, pid, "cpu");
	uint64_t ns = 0;
	char *end;

	for (int depth = 0; l.mount && depth < DEPTH_MAX; depth++) {
		ns += throttled_of(l.folder);
		end = strrchr(l.folder, '/');
		if (!end || (size_t)(end - l.folder) < strlen(l.mount->point))
			break;
		*end = 0;
	}
	return ns;
}

void zn_cgroup_throttle(struct zn_causes *c, const char *proc_root)
{
	for (uint32_t i = 0; i <= ZN_JOBS_MAX; i++) {
		struct zn_cause_group *g = &c->group[c->throttle_next++ % (ZN_JOBS_MAX + 1)];

		if (!g->used || !g->queue_pid)
			continue;
		zn_causes_throttled(c, g, throttled_ns(proc_root, g->queue_pid));
		return;
	}
}

/* A number at the start of a file, or behind a key at the start of a line; "max" is none. */
static uint64_t number_of(const struct limits *l, const char *file, const char *key)
{
	char path[PATH_BYTES + 32], text[1024] = "\n";
	const char *at;

	snprintf(path, sizeof(path), "%s/%s", l->folder, file);
	if (zn_file_read(path, text + 1, sizeof(text) - 1) <= 0)
		return ZN_NOT_KNOWN;
	at = strstr(text, key);
	at += at ? strlen(key) : 0;
	return at && isdigit((unsigned char)*at) ? strtoull(at, NULL, 10) : ZN_NOT_KNOWN;
}

bool zn_cgroup_memory(const char *proc_root, uint32_t pid, struct zn_cgroup_memory *to)
{
	struct limits l = *limits_of(proc_root, pid, "memory");

	if (!l.mount)
		return false;
	*to = (struct zn_cgroup_memory){
		.used = number_of(&l, l.mount->v2 ? "memory.current" : "memory.usage_in_bytes", "\n"),
		.limit = number_of(&l, l.mount->v2 ? "memory.max" : "memory.limit_in_bytes", "\n"),
		.oom_kills = number_of(&l, l.mount->v2 ? "memory.events" : "memory.oom_control", "\noom_kill "),
	};
	return to->used != ZN_NOT_KNOWN;
}
