/* SPDX-License-Identifier: GPL-2.0 */
/* hierarchies_test.c: lists of mounts and of groups as a hostile user may make them look, and which folder a group
 * has. */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"
#include "folder.h"

static const struct {
	const char *line, *controllers, *group; /* NULL: it is none */
	uint32_t hierarchy;
} lines[] = {
	{"0::/", "", "/", 0},
	{"0::/a:b", "", "/a:b", 0},
	{"4:memory:/slurm/job_7", "memory", "/slurm/job_7", 4},
	{"12:cpu,cpuacct:/x", "cpu,cpuacct", "/x", 12},
	{"1:name=systemd:/", "name=systemd", "/", 1},
	{"0::", NULL, NULL, 0},
	{"0::x", NULL, NULL, 0},
	{"0:/x", NULL, NULL, 0},
	{":memory:/x", NULL, NULL, 0},
	{"x:memory:/x", NULL, NULL, 0},
	{"4", NULL, NULL, 0},
	{"", NULL, NULL, 0},
};

T(group_lines)
{
	for (size_t i = 0; i < ZN_LEN(lines); i++) {
		char *line = strdup(lines[i].line), *controllers = NULL;
		uint32_t hierarchy = 99;
		const char *group = zn_hierarchy_line(line, &hierarchy, &controllers);

		CHECK_EQ(group != NULL, lines[i].group != NULL);
		if (group && lines[i].group) {
			CHECK_STR(group, lines[i].group);
			CHECK_STR(controllers, lines[i].controllers);
			CHECK_EQ(hierarchy, lines[i].hierarchy);
		}
		free(line);
	}
}

T(lists_of_controllers)
{
	CHECK(zn_hierarchy_listed("rw,cpu,cpuacct", "cpu"));
	CHECK(zn_hierarchy_listed("rw,cpu,cpuacct", "cpuacct,cpu"));
	CHECK(!zn_hierarchy_listed("rw,cpuacct", "cpu"));
	CHECK(!zn_hierarchy_listed("rw,cp", "cpu"));
	CHECK(!zn_hierarchy_listed("", "cpu"));
	CHECK(!zn_hierarchy_listed(",,,", "cpu"));
}

T(dots)
{
	CHECK(zn_hierarchy_has_dots(".."));
	CHECK(zn_hierarchy_has_dots("/a/../b"));
	CHECK(zn_hierarchy_has_dots("/a/.."));
	CHECK(zn_hierarchy_has_dots("../a"));
	CHECK(zn_hierarchy_has_dots("/a..b/.."));
	CHECK(!zn_hierarchy_has_dots("/a..b"));
	CHECK(!zn_hierarchy_has_dots("/..."));
	CHECK(!zn_hierarchy_has_dots("/a.../b"));
	CHECK(!zn_hierarchy_has_dots("/.a/b."));
	CHECK(!zn_hierarchy_has_dots(""));
}

/* One of version 2 whose folder has a blank, one of version 1 of which a part is mounted, and what is none. */
T(mounts)
{
	char text[1024], want[128], folder[ZN_CGROUP_PATH];
	const struct zn_hierarchies *all;

	put("v 2", NULL);
	put("memory", NULL);
	snprintf(text, sizeof(text),
		"30 1 0:26 / %s/v\\0402 rw - cgroup2 cgroup2 rw\n"
		"31 1 0:27 /part %s/memory rw shared:1 - cgroup cgroup rw,memory\n"
		"32 1 0:28 / %s/missing rw - cgroup cgroup rw,cpu\n"
		"33 1 0:29 / %s/memory rw - cgroupfs x rw,cpu\n"
		"34 1 0:30 / /\n"
		"35 1 - cgroup\n",
		root, root, root, root);
	put("self/mountinfo", text);
	put("self/cgroup", "4:memory:/\n0::/\n9:cpu:/\n");
	all = zn_hierarchies_read(root);
	CHECK_EQ(all->count, 2);
	CHECK(all->mount[0].v2 && !all->mount[1].v2);
	CHECK_EQ(all->mount[0].hierarchy, 0);
	CHECK_EQ(all->mount[1].hierarchy, 4);
	snprintf(want, sizeof(want), "%s/v 2/a", root);
	CHECK(zn_hierarchy_folder(all, 0, "/a", folder) == &all->mount[0]);
	CHECK_STR(folder, want);
	snprintf(want, sizeof(want), "%s/memory/a", root);
	CHECK(zn_hierarchy_folder(all, 4, "/part/a", folder) == &all->mount[1]);
	CHECK_STR(folder, want);
	CHECK(!zn_hierarchy_folder(all, 4, "/partly/a", folder));
	CHECK(!zn_hierarchy_folder(all, 4, "/other", folder));
	CHECK(!zn_hierarchy_folder(all, 9, "/", folder));
}

T(too_many_mounts_and_too_long_ones)
{
	static char text[64000], group[2 * ZN_CGROUP_PATH], folder[ZN_CGROUP_PATH];
	const struct zn_hierarchies *all;
	size_t len = 0;

	len += (size_t)snprintf(text, sizeof(text), "30 1 0:26 / /%0300d rw - cgroup2 x rw\n", 0);
	for (int i = 0; i < ZN_HIERARCHIES_MAX + 8; i++)
		len += (size_t)snprintf(
			text + len, sizeof(text) - len, "30 1 0:26 / %s/memory rw - cgroup2 x rw\n", root);
	put("self/mountinfo", text);
	all = zn_hierarchies_read(root);
	CHECK_EQ(all->count, ZN_HIERARCHIES_MAX);
	memset(group, '/', sizeof(group) - 1);
	CHECK(!zn_hierarchy_folder(all, 0, group, folder));
}

int main(void)
{
	open_folder();
	RUN(group_lines);
	RUN(lists_of_controllers);
	RUN(dots);
	RUN(mounts);
	RUN(too_many_mounts_and_too_long_ones);
	close_folder();
	return t_end();
}
