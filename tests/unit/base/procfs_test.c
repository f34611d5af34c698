/* SPDX-License-Identifier: GPL-2.0 */
/* procfs_test.c: what /proc says of processes whose names are hostile, and trees of processes of either kind of
 * kernel. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"
#include "folder.h"

#define TAIL " 0 0 0 0 0 0 0 11 22 0 0 20 0 1 0 4444 0 0"

static const struct {
	const char *stat;
	bool is;
	char state;
	uint32_t parent, session;
} stats[] = {
	{"7 (python3) S 3 7 5" TAIL, true, 'S', 3, 5},
	{"7 (a) R 1 (b) D 3 7 5" TAIL, true, 'D', 3, 5}, /* the name is "a) R 1 (b" */
	{"7 (\n) Z 0 0 0" TAIL, true, 'Z', 0, 0},
	{"7 (python3 S 3 7 5" TAIL, false, 0, 0, 0},
	{"7 (python3)", false, 0, 0, 0},
	{"7 (python3) S 3 7 5 0", false, 0, 0, 0},
	{"", false, 0, 0, 0},
};

T(stat_lines)
{
	struct zn_procfs_stat s;

	for (size_t i = 0; i < ZN_LEN(stats); i++) {
		put("7/stat", stats[i].stat);
		CHECK_EQ(zn_procfs_stat(root, 7, &s), stats[i].is);
		if (!stats[i].is)
			continue;
		CHECK_EQ(s.state, stats[i].state);
		CHECK_EQ(s.parent, stats[i].parent);
		CHECK_EQ(s.session, stats[i].session);
		CHECK_EQ(s.cpu_ticks, 33);
		CHECK_EQ(s.start_ticks, 4444);
	}
	CHECK(!zn_procfs_stat(root, 8, &s));
	CHECK(!s.state && !s.start_ticks);
}

T(status)
{
	struct zn_cpu_set set = {0};

	put("7/status", "Name:\tx\nCpus_allowed:\tff,00000001\nNSpid:\t7\t1\n");
	CHECK_EQ(zn_procfs_cpus(root, 7, &set), 9);
	CHECK(set.word[0] == 0xff00000001);
	CHECK(zn_procfs_contained(root, 7));
	put("7/status", "Name:\tCpus_allowed:\\tff\nCpus_allowed:\t8\nNSpid:\t7\n");
	CHECK_EQ(zn_procfs_cpus(root, 7, &set), 1);
	CHECK(set.word[0] == 0xff00000009);
	CHECK_EQ(zn_procfs_cpus_in(&set), 10);
	CHECK(!zn_procfs_contained(root, 7));
	put("7/status", "Name:\tx\n");
	CHECK_EQ(zn_procfs_cpus(root, 7, &set), 0);
	CHECK(!zn_procfs_contained(root, 7));
	CHECK_EQ(zn_procfs_cpus(root, 8, &set), 0);
}

/* Some 6 kB of groups lie before what is asked for. */
T(status_with_many_groups)
{
	char text[6200] = "Name:\tx\nGroups:\t";
	struct zn_cpu_set set = {0};
	size_t n = strlen(text);

	memset(text + n, '1', 6000);
	strcpy(text + n + 6000, " \nNSpid:\t7\t1\nCpus_allowed:\t1f\n");
	put("7/status", text);
	CHECK_EQ(zn_procfs_cpus(root, 7, &set), 5);
	CHECK(zn_procfs_contained(root, 7));
}

/* ---- trees ---- */

static struct zn_tree tree;
static uint32_t found[16], count;

static int add(void *owner, const struct zn_tree_process *parent, uint32_t pid)
{
	CHECK(owner == &count);
	CHECK_EQ(parent->index, 5);
	for (uint32_t i = 0; i < count; i++)
		if (found[i] == pid)
			return -EEXIST;
	if (count < ZN_LEN(found))
		found[count++] = pid;
	return 0;
}

static bool has_found(uint32_t pid)
{
	for (uint32_t i = 0; i < count; i++)
		if (found[i] == pid)
			return true;
	return false;
}

static void search(uint32_t pid)
{
	count = 0;
	zn_tree_init(&tree, root);
	tree.add = add;
	tree.owner = &count;
	CHECK(zn_tree_add(&tree, &(struct zn_tree_process){.pid = pid, .index = 5}));
	for (int i = 0; i < 100 && zn_tree_step(&tree); i++)
		;
	CHECK(!zn_tree_step(&tree)); /* it has come to an end */
	zn_tree_close(&tree);
}

/* 10 has 11 and, by its thread 12, 13; 11 says that it has 10 again, as numbers that are used anew may make it look. */
T(by_lists_of_children)
{
	put("thread-self/children", "");
	put("10/task/10/children", "11 ");
	put("10/task/12/children", "13 ");
	put("11/task/11/children", "10 14");
	search(10);
	CHECK(has_found(11) && has_found(13) && has_found(14));
	CHECK(count <= 4);
	search(99);
	CHECK_EQ(count, 0);
}

T(by_parents)
{
	char path[80];

	snprintf(path, sizeof(path), "%s/thread-self/children", root);
	unlink(path);
	put("20/stat", "20 (x) S 1 0 0" TAIL);
	put("21/stat", "21 (x) S 20 0 0" TAIL);
	put("22/stat", "22 () S 20) S 21 0 0" TAIL);
	put("23/stat", "23 (x");
	search(20);
	CHECK(has_found(21) && has_found(22));
	CHECK_EQ(count, 2);
}

T(a_full_tree_counts_what_it_drops)
{
	zn_tree_init(&tree, root);
	for (uint32_t i = 0; i < ZN_TREE_MAX; i++)
		CHECK(zn_tree_add(&tree, &(struct zn_tree_process){.pid = i + 1}));
	CHECK(!zn_tree_add(&tree, &(struct zn_tree_process){.pid = 1}));
	CHECK_EQ(tree.dropped, 1);
	zn_tree_close(&tree);
}

int main(void)
{
	open_folder();
	RUN(stat_lines);
	RUN(status);
	RUN(status_with_many_groups);
	RUN(by_lists_of_children);
	RUN(by_parents);
	RUN(a_full_tree_counts_what_it_drops);
	close_folder();
	return t_end();
}
