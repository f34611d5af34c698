/* SPDX-License-Identifier: GPL-2.0 */
/* Shares of tables: what greedy owners leave to the others, and whose a process is, with real user namespaces. */
#include "t.h"
#include "zernel.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct zn_quota q;

static uint32_t take_all(uint32_t owner)
{
	uint32_t n = 0;

	while (n < 10000 && zn_quota_take(&q, owner))
		n++;
	return n;
}

T(greedy_owners_leave_room)
{
	q = (struct zn_quota){.size = 1024, .reserve = 64};
	CHECK_EQ(take_all(1000), 480);
	CHECK_EQ(take_all(1001), 240);
	CHECK_EQ(take_all(1002), 120);
	CHECK(zn_quota_take(&q, 1003));
	CHECK_EQ(q.refused, 3);
	CHECK_EQ(q.refused_owner, 1003);
}

T(root_has_the_reserve)
{
	q = (struct zn_quota){.size = 128, .reserve = 16};
	for (uint32_t owner = 1; owner < 100; owner++)
		take_all(owner);
	CHECK(q.used <= 112);
	CHECK(take_all(ZN_OWNER_ROOT) >= 16);
	CHECK_EQ(q.used, 128);
}

T(trying_is_no_refusal)
{
	q = (struct zn_quota){.size = 8};
	for (int i = 0; i < 4; i++)
		CHECK(zn_quota_try(&q, 7));
	CHECK(!zn_quota_try(&q, 7));
	CHECK_EQ(q.refused, 0);
	CHECK_EQ(q.refused_owner, 0);
	CHECK_EQ(q.used, 4);
}

T(what_is_given_back_can_be_taken)
{
	q = (struct zn_quota){.size = 8};
	CHECK_EQ(take_all(7), 4);
	zn_quota_give(&q, 7);
	CHECK(zn_quota_take(&q, 7));
	CHECK(!zn_quota_take(&q, 7));
	for (int i = 0; i < 4; i++)
		zn_quota_give(&q, 7);
	CHECK_EQ(q.used, 0);
}

T(owners_without_a_place_share_one)
{
	q = (struct zn_quota){.size = 1 << 20};
	for (uint32_t owner = 1; owner < 2000; owner++)
		CHECK(zn_quota_take(&q, owner * 7919));
	CHECK(q.rest.held > 0);
	for (uint32_t owner = 1; owner < 2000; owner++)
		zn_quota_give(&q, owner * 7919);
	CHECK_EQ(q.rest.held, 0);
	CHECK_EQ(q.used, 0);
}

static void check_all_give_back(void)
{
	for (uint32_t i = 0; i < ZN_QUOTA_OWNERS; i++)
		CHECK_EQ(q.row[i].held, 0);
	CHECK_EQ(q.rest.held, 0);
	CHECK_EQ(q.used, 0);
}

T(places_of_owners_who_hold_nothing_are_given_to_others)
{
	q = (struct zn_quota){.size = 1 << 20};
	for (uint32_t owner = 1; owner < 20000; owner++) {
		CHECK(zn_quota_take(&q, owner));
		CHECK(zn_quota_owner(&q, owner) != &q.rest);
		zn_quota_give(&q, owner);
	}
	check_all_give_back();
}

T(what_was_taken_from_the_shared_place_goes_back_there)
{
	uint32_t shares = 0, other;

	q = (struct zn_quota){.size = 1 << 20};
	while (q.rest.held == 0)
		CHECK(zn_quota_take(&q, ++shares));
	for (other = 1; other < shares; other++)
		zn_quota_give(&q, other);
	CHECK(zn_quota_owner(&q, shares) == &q.rest); /* places are free, but what he holds is counted here */
	CHECK(zn_quota_owner(&q, shares + 1000) == &q.rest || zn_quota_owner(&q, shares + 1000)->held == 0);
	zn_quota_give(&q, shares);
	CHECK(zn_quota_take(&q, shares));
	CHECK(zn_quota_owner(&q, shares) != &q.rest);
	zn_quota_give(&q, shares);
	check_all_give_back();
}

#define ROUNDS 200000

/* Takes and gives as one of many owners, so that places change hands all the time. */
static void *take_and_give(void *first)
{
	uint32_t seed = (uint32_t)(uintptr_t)first, owner;

	for (int i = 0; i < ROUNDS; i++) {
		seed = seed * 1103515245 + 12345;
		owner = 1 + (seed >> 16) % 3000 * 4 + (uint32_t)(uintptr_t)first;
		if (zn_quota_take(&q, owner))
			zn_quota_give(&q, owner);
	}
	return NULL;
}

T(places_that_change_hands_lose_no_entry)
{
	pthread_t thread[4];

	q = (struct zn_quota){.size = 1 << 20};
	for (uintptr_t i = 0; i < ZN_LEN(thread); i++)
		CHECK(pthread_create(&thread[i], NULL, take_and_give, (void *)i) == 0);
	for (size_t i = 0; i < ZN_LEN(thread); i++)
		pthread_join(thread[i], NULL);
	check_all_give_back();
}

T(the_log_is_told_once_a_minute)
{
	q = (struct zn_quota){.size = 2};
	take_all(1000);
	zn_quota_tell(&q, "things", ZN_NS_PER_S);
	CHECK_EQ(q.refused_owner, 0);
	take_all(1001);
	zn_quota_tell(&q, "things", 60 * ZN_NS_PER_S);
	CHECK_EQ(q.refused_owner, 1002);
	zn_quota_tell(&q, "things", 61 * ZN_NS_PER_S);
	CHECK_EQ(q.refused_owner, 0);
}

T(who_asks_quietly_is_not_told_of)
{
	q = (struct zn_quota){.size = 4};
	while (zn_quota_try(&q, 7))
		;
	CHECK_EQ(q.refused, 0);
	CHECK_EQ(q.refused_owner, 0);
	zn_quota_give_many(&q, 7, 2);
	CHECK_EQ(q.used, 0);
	zn_quota_give_many(&q, 7, -3); /* whatever the share is */
	CHECK_EQ(zn_quota_owner(&q, 7)->held, 3);
	CHECK_EQ(q.used, 3);
}

T(a_difference_that_stays_is_set_right)
{
	static int32_t held[ZN_QUOTA_OWNERS + 1], before[ZN_QUOTA_OWNERS + 1];

	q = (struct zn_quota){.size = 100};
	zn_quota_give_many(&q, 7, -10);
	zn_quota_give_many(&q, 8, -20);
	held[zn_quota_at(&q, 7)] = 9; /* one was lost */
	held[zn_quota_at(&q, 8)] = 22;
	zn_quota_correct(&q, held, before);
	CHECK_EQ(q.used, 30);
	zn_quota_give(&q, 8); /* and this one's entries come and go */
	zn_quota_correct(&q, held, before);
	CHECK_EQ(zn_quota_owner(&q, 7)->held, 9);
	CHECK_EQ(zn_quota_owner(&q, 8)->held, 19);
	CHECK_EQ(q.used, 28);
	zn_quota_correct(&q, held, before);
	CHECK_EQ(zn_quota_owner(&q, 8)->held, 22);
	zn_quota_correct(&q, held, before);
	CHECK_EQ(q.used, 31);
}

T(sizes_follow_the_machine)
{
	static const uint32_t vector[][3] = {{1, 4096, 8192}, {8, 4096, 8192}, {64, 4096, 8192}, {128, 4096, 16384},
		{160, 5120, 16384}, {256, 6144, 32768}, {512, 6144, 32768}, {8192, 6144, 32768}};

	for (size_t i = 0; i < sizeof(vector) / sizeof(vector[0]); i++) {
		struct zn_sizes s = zn_sizes(vector[i][0], 1);

		CHECK_EQ(s.threads, vector[i][1]);
		CHECK_EQ(s.sched_entries, vector[i][2]);
		CHECK_EQ(zn_sizes(vector[i][0], 0).threads, 4096);
	}
}

/* The log speaks of users and of jobs by name; each table once a minute. */
static char told[4096];

/* What the log says. */
static void tell_all(struct zn_arena *a, uint64_t now_ns)
{
	int file = memfd_create("log", 0), before = dup(2);

	dup2(file, 2);
	zn_log_level = ZN_WARN;
	zn_quotas_tell(a, now_ns);
	zn_log_level = ZN_ERROR;
	dup2(before, 2);
	close(before);
	told[pread(file, told, sizeof(told) - 1, 0)] = 0;
	close(file);
}

T(the_kernels_tables_are_told_of)
{
	static struct zn_shared shared;
	static struct zn_job_shared jobs[ZN_JOBS_MAX];
	static const struct zn_arena_ops ops; /* all of it is memory */
	static struct zn_arena arena = {.ops = &ops, .shared = &shared, .jobs = jobs};

	strcpy(jobs[3].name, "4711");
	zn_quota_refuse(&shared.quota[ZN_QUOTA_TASK], ZN_OWNER_JOB(3));
	zn_quota_refuse(&shared.quota[ZN_QUOTA_CGROUP], ZN_OWNER_JOB(4));
	zn_quota_refuse(&shared.quota[ZN_QUOTA_PROCESS], 1000);
	tell_all(&arena, ZN_NS_PER_S);
	for (enum zn_quota_table t = 0; t < ZN_QUOTA_COUNT; t++)
		CHECK_EQ(shared.quota[t].refused_owner, 0);
	CHECK(strstr(told, "processes: 1 refused, the last one to user 1000, who"));
	CHECK(strstr(told, "processes of jobs: 1 refused, the last one to job 4711, who"));
	CHECK(strstr(told, "the last one to the job in slot 4, who"));
	zn_quota_refuse(&shared.quota[ZN_QUOTA_PROCESS], 1000);
	zn_quotas_tell(&arena, 2 * ZN_NS_PER_S);
	CHECK_EQ(shared.quota[ZN_QUOTA_PROCESS].refused_owner, 1001);
}

T(a_job_that_was_forgotten_lends_its_name_to_no_other)
{
	static struct zn_shared shared;
	static struct zn_job_shared jobs[ZN_JOBS_MAX];
	static const struct zn_arena_ops ops; /* all of it is memory */
	static struct zn_arena arena = {.ops = &ops, .shared = &shared, .jobs = jobs};

	zn_quota_refuse(&shared.quota[ZN_QUOTA_TASK], ZN_OWNER_JOB(3));
	zn_quota_refuse(&shared.quota[ZN_QUOTA_CGROUP], ZN_OWNER_JOB(4));
	zn_quotas_forget_job(&shared, 3);
	strcpy(jobs[3].name, "4712");
	strcpy(jobs[4].name, "4711");
	tell_all(&arena, ZN_NS_PER_S);
	CHECK(strstr(told, "processes of jobs: 1 refused, the last one to a job that has been forgotten, who"));
	CHECK(strstr(told, "the last one to job 4711, who"));
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* A user namespace in which the caller's user is user 0, so that it may make further ones. */
static bool enter_namespace(void)
{
	char uid[32], gid[32];

	snprintf(uid, sizeof(uid), "0 %u 1", geteuid());
	snprintf(gid, sizeof(gid), "0 %u 1", getegid());
	prctl(PR_SET_DUMPABLE, 1); /* files in /proc/self are the user's */
	return unshare(CLONE_NEWUSER) == 0 && write_text("/proc/self/setgroups", "deny") &&
		write_text("/proc/self/uid_map", uid) && write_text("/proc/self/gid_map", gid);
}

/* A child that becomes uid, makes user namespaces inside one another, and waits. */
static int child_of(uid_t uid, int namespaces)
{
	int ready[2], pid;
	char c;

	if (pipe(ready) || (pid = fork()) < 0)
		return -1;
	if (pid == 0) {
		if (uid && setresuid(uid, uid, uid))
			_exit(1);
		while (namespaces-- > 0)
			if (!enter_namespace())
				_exit(1);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

static void check_owner(uid_t uid, int namespaces, uint32_t owner)
{
	int pid = child_of(uid, namespaces);

	CHECK(pid > 0);
	if (pid <= 0)
		return;
	CHECK_EQ(zn_owner_of(pid), owner);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

T(a_process_is_its_users)
{
	CHECK_EQ(zn_owner_of(getpid()), getuid());
	CHECK_EQ(zn_owner_of(0x7fffffff), 65534);
	if (getuid())
		return;
	check_owner(1234, 0, 1234);
}

T(a_user_namespace_is_its_makers)
{
	if (getuid())
		return check_owner(0, 1, getuid());
	check_owner(1234, 1, 1234);
	check_owner(1234, 2, 1234);
}

#define MAKER 1234

/* A process in a user namespace that this user made, with user ids that root mapped; its id is the one that 1 is mapped
 * to. */
static pid_t child_with_range(uid_t maker, const char *map)
{
	int step[2];
	char path[64], c;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, step) || (pid = fork()) < 0)
		return -1;
	if (pid == 0) {
		if (setresuid(maker, maker, maker) || prctl(PR_SET_DUMPABLE, 1) || unshare(CLONE_NEWUSER) ||
			write(step[1], "x", 1) != 1 || read(step[1], &c, 1) != 1 || setresuid(1, 1, 1) ||
			write(step[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	close(step[1]);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	CHECK(read(step[0], &c, 1) == 1 && write_text(path, map) && write(step[0], "x", 1) == 1 &&
		read(step[0], &c, 1) == 1);
	close(step[0]);
	return pid;
}

static void check_range(const char *map, uint32_t owner)
{
	pid_t pid = child_with_range(0, map);

	CHECK_EQ(zn_owner_of(pid), owner);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* As containers with user ids of their own have it. Below 65,536 are users of the node. */
T(a_range_of_users_in_a_namespace_of_root_is_one_owner)
{
	if (getuid())
		return;
	check_range("0 200000 65536\n", 196608);
	check_range("0 200000 1\n1 250000 1\n", 196608);
	check_range("0 200000 1\n1 270000 1\n", 262144);
	check_range("0 200000 1\n1 5678 1\n", 5678);
	check_range("0 0 65536\n", 1);
}

/* The exit status: 0, it is MAKER's; 1, it is not; 2, there is no Landlock here. */
static int confined_look(pid_t pid)
{
	struct zn_sandbox_folders f = {.count = 0};

	zn_sandbox_folder(&f, "/proc");
	if (zn_owner_start() || zn_sandbox_loop(&f))
		return 2;
	return zn_owner_of(pid) != MAKER;
}

T(a_range_of_users_is_its_makers)
{
	int status = 0;
	pid_t pid, looker;

	if (getuid())
		return;
	pid = child_with_range(MAKER, "0 1234 1\n1 5678 1\n");
	CHECK_EQ(zn_owner_of(pid), MAKER);
	looker = fork();
	if (looker == 0)
		_exit(confined_look(pid));
	CHECK(waitpid(looker, &status, 0) == looker && WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		printf("absent: a look from the loop's place needs Landlock\n");
	else
		CHECK_EQ(WEXITSTATUS(status), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	zn_log_level = ZN_ERROR;
	RUN(greedy_owners_leave_room);
	RUN(root_has_the_reserve);
	RUN(trying_is_no_refusal);
	RUN(what_is_given_back_can_be_taken);
	RUN(owners_without_a_place_share_one);
	RUN(places_of_owners_who_hold_nothing_are_given_to_others);
	RUN(what_was_taken_from_the_shared_place_goes_back_there);
	RUN(places_that_change_hands_lose_no_entry);
	RUN(the_log_is_told_once_a_minute);
	RUN(who_asks_quietly_is_not_told_of);
	RUN(a_difference_that_stays_is_set_right);
	RUN(sizes_follow_the_machine);
	RUN(the_kernels_tables_are_told_of);
	RUN(a_job_that_was_forgotten_lends_its_name_to_no_other);
	RUN(a_process_is_its_users);
	RUN(a_user_namespace_is_its_makers);
	RUN(a_range_of_users_is_its_makers);
	RUN(a_range_of_users_in_a_namespace_of_root_is_one_owner);
	return t_end();
}
