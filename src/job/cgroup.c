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
#include <unistd.h>

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

/* ---- what is entered into the tables ---- */

/* Of the job's own group, for usage.c. */
static void path_keep(struct zn_arena *a, uint32_t slot, const struct zn_hierarchy *m, const char *folder)
{
	struct zn_job_shared *row = zn_arena_job(a, slot);
	const char *below = folder + strlen(m->point);

	if (row && snprintf(row->path, sizeof(row->path), "%s%s", m->root, below) >= (int)sizeof(row->path))
		row->path[0] = 0;
}

static bool folder_key(const struct zn_hierarchy *m, const char *folder, struct zn_cgroup_key *key, uid_t *owner)
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
static void group_enter(struct zn_arena *a, uint32_t slot, const struct zn_hierarchy *m, const char *folder,
	const struct zn_cgroup_name *name)
{
	struct zn_cgroup_key key, again;
	uid_t owner;

	if (!folder_key(m, folder, &key, &owner))
		return;
	if (name->level == ZN_CGROUP_JOB)
		path_keep(a, slot, m, folder);
	a->ops->job_cgroup(a, slot, &key, name->level, name->level == ZN_CGROUP_STEP ? name->step : NULL);
	if (!folder_key(m, folder, &again, &owner) || again.id != key.id)
		a->ops->job_cgroup_gone(a, &key);
}

/* ---- what runs when the daemon starts ---- */

struct scan {
	struct zn_arena *arena;
	const char *proc_root;
	const struct zn_hierarchies *mounts;
	uint32_t found; /* processes of jobs, in one pass */
};

/* The job's group and those below it that a path goes through. Users may make folders of any name below their own,
 * so a job's group must have the same owner as the hierarchy. Returns the slot, or below 0: none. */
static int groups_enter(struct scan *s, uint32_t hierarchy, const char *group)
{
	struct zn_cgroup_name name = {.level = ZN_CGROUP_JOB};
	const char *at = job_find(group, name.job);
	char prefix[ZN_CGROUP_PATH], folder[ZN_CGROUP_PATH];
	const struct zn_hierarchy *m = NULL;
	struct zn_cgroup_key key;
	struct zn_str part;
	uid_t owner;
	int slot = -1;

	while (at && (size_t)(at - group) < sizeof(prefix)) {
		snprintf(prefix, sizeof(prefix), "%.*s", (int)(at - group), group);
		m = zn_hierarchy_folder(s->mounts, hierarchy, prefix, folder);
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
		group = zn_hierarchy_line(line, &hierarchy, &controllers);
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
		group = zn_hierarchy_line(line, &hierarchy, &controllers);
		last = group ? groups_enter(s, hierarchy, group) : -1;
		slot = last < 0 ? slot : last;
	}
	if (slot >= 0 && s->arena->ops->job_task(s->arena, slot, pid) == 0)
		s->found++;
}

static bool process_visit(void *to, const struct dirent64 *e)
{
	if (isdigit((unsigned char)e->d_name[0]))
		process_scan(to, strtoul(e->d_name, NULL, 10));
	return true;
}

/* What a process starts after it was tagged has its tag. What it started before, behind the place that the pass
 * had come to, is found by the next one: until a pass finds no more than the one before. */
void zn_cgroup_scan(struct zn_arena *a, const char *proc_root)
{
	struct scan s = {.arena = a, .proc_root = proc_root, .mounts = zn_hierarchies_read(proc_root)};
	uint32_t before;

	for (int pass = 0; pass < PASSES_MAX; pass++) {
		int fd = open(proc_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		before = s.found;
		s.found = 0;
		if (fd < 0)
			return;
		zn_file_names(fd, process_visit, &s);
		close(fd);
		if (s.found == before)
			return;
	}
}

/* ---- what an administrator names ---- */

struct tagging {
	struct zn_arena *arena;
	uint32_t slot;
	const struct zn_hierarchy *mount;
	struct zn_cgroup_name name; /* of the folder at hand */
	char folder[ZN_CGROUP_PATH];
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

static bool folder_visit(void *to, const struct dirent64 *e)
{
	struct tagging *t = to;
	struct zn_cgroup_name name = t->name;
	size_t len = strlen(t->folder);

	if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		t->depth == ZN_CGROUP_DEPTH || len + 1 + strlen(e->d_name) >= ZN_CGROUP_PATH)
		return true;
	sprintf(t->folder + len, "/%s", e->d_name);
	name_below(&t->name, (struct zn_str){e->d_name, strlen(e->d_name)});
	t->depth++;
	folder_tag(t);
	t->depth--;
	t->name = name;
	t->folder[len] = 0;
	return true;
}

/* The group first: what enters it from then on is tagged by the kernel. */
static void folder_tag(struct tagging *t)
{
	int fd = open(t->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	size_t len = strlen(t->folder);

	group_enter(t->arena, t->slot, t->mount, t->folder, &t->name);
	if (len + sizeof("/cgroup.procs") <= ZN_CGROUP_PATH) {
		strcpy(t->folder + len, "/cgroup.procs");
		zn_file_lines(t->folder, process_tag, t);
		t->folder[len] = 0;
	}
	if (fd < 0)
		return;
	zn_file_names(fd, folder_visit, t);
	close(fd);
}

/* A folder as it is (longest mount point first, by its device), a line of /proc/PID/cgroup, or a group of version 2. */
static const struct zn_hierarchy *path_resolve(const struct zn_hierarchies *all, const char *path, char *folder)
{
	char line[ZN_CGROUP_PATH], *controllers, *group;
	uint32_t hierarchy;
	struct stat st;

	if (snprintf(line, sizeof(line), "%s", path) >= (int)sizeof(line) || zn_hierarchy_has_dots(path))
		return NULL;
	if (line[0] != '/') {
		group = zn_hierarchy_line(line, &hierarchy, &controllers);
		return group ? zn_hierarchy_folder(all, hierarchy, group, folder) : NULL;
	}
	snprintf(folder, ZN_CGROUP_PATH, "%s", path);
	for (uint32_t i = 0; lstat(path, &st) == 0 && i < all->count; i++)
		if (all->mount[i].dev == st.st_dev && all->mount[i].hierarchy != ZN_UNKNOWN)
			return &all->mount[i];
	return zn_hierarchy_folder(all, 0, path, folder);
}

int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	static struct tagging t;
	struct zn_cgroup_key key;
	uid_t owner;

	t = (struct tagging){.arena = a, .slot = slot};
	t.mount = path_resolve(zn_hierarchies_read("/proc"), path, t.folder);
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
