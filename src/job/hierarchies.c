/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hierarchies.c: where the hierarchies of control groups are mounted, and which folder a group has there. The lists of
 * /proc are read up to a limit, and what does not fit is left out.
 */
#include "zernel.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool zn_hierarchy_has_dots(const char *path)
{
	for (const char *at = path; (at = strstr(at, "..")); at += 2)
		if ((at == path || at[-1] == '/') && (!at[2] || at[2] == '/'))
			return true;
	return false;
}

/* A field of mountinfo. False: it does not fit. */
static bool field_decode(char to[ZN_TEXT_MAX], char *from)
{
	zn_str_unescape(from);
	return snprintf(to, ZN_TEXT_MAX, "%s", from) < ZN_TEXT_MAX;
}

static void mount_read(void *to, char *line)
{
	struct zn_hierarchies *all = to;
	struct zn_hierarchy *m = &all->mount[all->count];
	struct zn_mount_line l;
	struct stat st;

	if (all->count == ZN_HIERARCHIES_MAX || !zn_mountinfo_read(line, &l) || strncmp(l.type, "cgroup", 6))
		return;
	*m = (struct zn_hierarchy){.v2 = strcmp(l.type, "cgroup2") == 0, .hierarchy = ZN_UNKNOWN};
	if (!m->v2 && l.type[6])
		return;
	if (!field_decode(m->root, l.root) || !field_decode(m->point, l.point) ||
		strlen(l.options) >= sizeof(m->options) || stat(m->point, &st))
		return;
	if (strcmp(m->root, "/") == 0)
		m->root[0] = 0;
	strcpy(m->options, l.options);
	m->dev = st.st_dev;
	m->owner = st.st_uid;
	all->count++;
}

bool zn_hierarchy_listed(const char *list, const char *words)
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

char *zn_hierarchy_line(char *line, uint32_t *hierarchy, char **controllers)
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
	struct zn_hierarchies *all = to;
	uint32_t hierarchy;
	char *controllers;

	if (!zn_hierarchy_line(line, &hierarchy, &controllers))
		return;
	for (uint32_t i = 0; i < all->count; i++) {
		struct zn_hierarchy *m = &all->mount[i];

		if (controllers[0] ? !m->v2 && zn_hierarchy_listed(m->options, controllers) : m->v2)
			m->hierarchy = hierarchy;
	}
}

const struct zn_hierarchies *zn_hierarchies_read(const char *proc_root)
{
	static _Thread_local struct zn_hierarchies all; /* the loop reads it while the loader looks for jobs */
	char path[ZN_TEXT_MAX];

	all.count = 0;
	snprintf(path, sizeof(path), "%s/self/mountinfo", proc_root);
	zn_file_lines(path, mount_read, &all);
	snprintf(path, sizeof(path), "%s/self/cgroup", proc_root);
	zn_file_lines(path, hierarchy_read, &all);
	return &all;
}

void zn_cgroup_points(void (*visit)(void *to, const char *path), void *to)
{
	const struct zn_hierarchies *all = zn_hierarchies_read("/proc");

	for (uint32_t i = 0; i < all->count; i++)
		visit(to, all->mount[i].point);
}

const struct zn_hierarchy *zn_hierarchy_folder(
	const struct zn_hierarchies *all, uint32_t hierarchy, const char *group, char *to)
{
	for (uint32_t i = 0; i < all->count; i++) {
		const struct zn_hierarchy *m = &all->mount[i];
		size_t n = strlen(m->root);

		if (m->hierarchy != hierarchy || strncmp(group, m->root, n) || (group[n] && group[n] != '/'))
			continue;
		if (snprintf(to, ZN_CGROUP_PATH, "%s%s", m->point, group + n) < ZN_CGROUP_PATH)
			return m;
	}
	return NULL;
}

/* Whether the folder of a group is there; a folder that does not fit is none. */
static bool folder_try(const struct zn_hierarchy *m, const char *path, char to[ZN_CGROUP_FOLDER])
{
	size_t n = strlen(m->root);
	struct stat st;

	if (strncmp(path, m->root, n) || (path[n] && path[n] != '/') ||
		snprintf(to, ZN_CGROUP_FOLDER, "%s%s", m->point, path + n) >= ZN_CGROUP_FOLDER)
		return false;
	return lstat(to, &st) == 0 && S_ISDIR(st.st_mode) && st.st_dev == m->dev;
}

static bool folder_find(
	const struct zn_hierarchies *all, const char *controller, const char *path, char to[ZN_CGROUP_FOLDER])
{
	for (uint32_t i = 0; i < all->count; i++) {
		const struct zn_hierarchy *m = &all->mount[i];

		if ((controller ? !m->v2 && zn_hierarchy_listed(m->options, controller) : m->v2) &&
			folder_try(m, path, to))
			return true;
	}
	to[0] = 0;
	return false;
}

void zn_cgroup_folders(const char *path, struct zn_cgroup_folders *to)
{
	static const char *const names[ZN_CONTROLLERS] = {"cpuacct", "cpu", "memory", "cpuset"};
	const struct zn_hierarchies *all = zn_hierarchies_read("/proc");

	for (enum zn_controller c = 0; c < ZN_CONTROLLERS; c++) {
		to->v2[c] = !folder_find(all, names[c], path, to->at[c]);
		if (to->v2[c])
			folder_find(all, NULL, path, to->at[c]);
	}
}
