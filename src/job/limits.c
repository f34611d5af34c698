/* SPDX-License-Identifier: GPL-2.0 */
/* limits.c: for how long limits of control groups kept a process from its CPUs, and what memory its group has. */
#include "zernel.h"
#include <ctype.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Where control groups are mounted. A node may have ten thousand mounts, so the list is read again only when poll()
 * says that it has changed. The loop's alone. */
static struct {
	char proc_root[ZN_TEXT_MAX];
	int fd;     /* the list, once there is a root; below 0: it cannot be watched, and is read each time */
	bool known; /* else it is read anew, too: there was no group in it */
	struct zn_hierarchies mounts;
} kept;

static void follow_mounts(const char *proc_root)
{
	char path[ZN_TEXT_MAX + 16];
	struct statfs fs;

	if (strcmp(kept.proc_root, proc_root) == 0)
		return;
	if (kept.proc_root[0] && kept.fd >= 0)
		close(kept.fd);
	snprintf(kept.proc_root, sizeof(kept.proc_root), "%s", proc_root);
	snprintf(path, sizeof(path), "%s/self/mountinfo", proc_root);
	kept.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (kept.fd >= 0 && (fstatfs(kept.fd, &fs) || fs.f_type != PROC_SUPER_MAGIC)) {
		close(kept.fd);
		kept.fd = -1;
	}
	kept.known = false;
}

/* poll() says each change once: before the list is read, so that none is missed. */
static const struct zn_hierarchies *mounts_now(const char *proc_root)
{
	struct pollfd change;

	follow_mounts(proc_root);
	change = (struct pollfd){.fd = kept.fd, .events = POLLPRI};
	if (kept.fd < 0 || poll(&change, 1, 0) != 0 || !kept.known)
		kept.mounts = *zn_hierarchies_read(proc_root);
	kept.known = kept.mounts.count > 0;
	return &kept.mounts;
}

/* Of a group of either version: throttled_usec, or throttled_time in nanoseconds. */
static uint64_t throttled_of(const char *folder)
{
	static const struct {
		const char *key;
		uint64_t ns;
	} keys[] = {{"\nthrottled_usec ", 1000}, {"\nthrottled_time ", 1}};
	char path[ZN_CGROUP_PATH + 16], text[1024];

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
	const struct zn_hierarchies *mounts;
	const struct zn_hierarchy *mount; /* of the hierarchy that does; NULL: none */
	char folder[ZN_CGROUP_PATH];
};

static void limit_read(void *to, char *line)
{
	struct limits *l = to;
	char *controllers, *group, folder[ZN_CGROUP_PATH];
	const struct zn_hierarchy *m;
	uint32_t hierarchy;

	group = zn_hierarchy_line(line, &hierarchy, &controllers);
	if (!group || zn_hierarchy_has_dots(group) ||
		(controllers[0] ? !zn_hierarchy_listed(controllers, l->controller) : l->mount != NULL))
		return;
	m = zn_hierarchy_folder(l->mounts, hierarchy, group, folder);
	if (!m)
		return;
	l->mount = m;
	strcpy(l->folder, folder);
}

static struct limits *limits_of(const char *proc_root, uint32_t pid, const char *controller)
{
	static struct limits l;
	char path[ZN_TEXT_MAX];

	l = (struct limits){.controller = controller, .mounts = mounts_now(proc_root)};
	snprintf(path, sizeof(path), "%s/%u/cgroup", proc_root, pid);
	zn_file_lines(path, limit_read, &l);
	return &l;
}

/* Of its group and of all above it, as far as they can be seen. of: a hash of the group's folder, which is that of no
 * folder where there is none. */
static uint64_t throttled_ns(const char *proc_root, uint32_t pid, uint64_t *of)
{
	struct limits l = *limits_of(proc_root, pid, "cpu");
	uint64_t ns = 0;
	char *end;

	*of = zn_str_hash(zn_str_of(l.folder));
	for (int depth = 0; l.mount && depth < ZN_CGROUP_DEPTH; depth++) {
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
	uint64_t of, ns;

	follow_mounts(proc_root); /* at the first tick: later on no descriptor comes that was not there */
	for (uint32_t i = 0; i <= ZN_JOBS_MAX; i++) {
		struct zn_cause_group *g = &c->group[c->throttle_next++ % (ZN_JOBS_MAX + 1)];

		if (!g->used || !g->queue_pid)
			continue;
		ns = throttled_ns(proc_root, g->queue_pid, &of);
		zn_causes_throttled(c, g, of, ns);
		return;
	}
}

/* A number at the start of a file, or behind a key at the start of a line; "max" is none. */
static uint64_t number_of(const struct limits *l, const char *file, const char *key)
{
	char path[ZN_CGROUP_PATH + 32], text[1024] = "\n";
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
