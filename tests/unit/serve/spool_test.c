/* SPDX-License-Identifier: GPL-2.0 */
/*
 * spool_test.c: messages and records that lie in files (spool.c): their order, hostile files, files from before
 * the clock was set.
 */
#include "control.h"
#include <sys/resource.h>

static void make_spool(void)
{
	mkdir(at("run"), 0755);
	mkdir(at("run/jobs.d"), 0750);
}

/* No daemon runs, and nothing was asked of one. */
static void empty_spool(void)
{
	fresh();
	down();
	forget_all();
	make_spool();
}

T(what_was_left_is_taken_in_order)
{
	empty_spool();
	write_text("run/jobs.d/left-3", H "end\nid=7\ntime=300\n");
	write_text("run/jobs.d/left-1", H "end\nid=6\ntime=9\n");
	write_text("run/jobs.d/left-2", H "start\nid=7\ntime=200\n");
	write_text("run/jobs.d/job-5", H "start\nid=5\ntime=100\n");
	write_text("run/jobs.d/job-8", H "end\nid=8\ntime=250\nexit_code=1:0\n"); /* its epilog has come */
	write_text("run/jobs.d/.left-9", H "start\nid=9");
	up();
	CHECK_STR(said, "end 6\nstart 5 by 3\nstart 7 by 3\nstart 8 by 3\nend 8\nend 7\n");
	CHECK_EQ(log_lines, 0);
	CHECK(!there("run/jobs.d/left-1") && !there("run/jobs.d/left-2") && !there("run/jobs.d/left-3"));
	CHECK(there("run/jobs.d/job-5") && there("run/jobs.d/.left-9"));
	down();
}

/* After a downgrade, files have keys of the version before. */
T(keys_of_a_later_version_are_passed_over)
{
	empty_spool();
	write_text("run/jobs.d/job-5", H "start\nid=5\nnewkey=1\ntime=100\n");
	write_text("run/jobs.d/left-1", H "end\nnew_key=\x1b\nid=5\ntime=200\nnewkey=\n");
	up();
	CHECK_STR(said, "start 5 by 3\nend 5\n");
	CHECK_EQ(log_lines, 0);
	CHECK(there("run/jobs.d/job-5") && !there("run/jobs.d/left-1"));
	CHECK_GOT(ask(H "start\nid=6\nnewkey=1\n"), "error: an unknown key\n");
	down();
}

static const struct {
	const char *name, *text, *why;
} hostile[] = {
	{"spool: empty", "", "spool: left-1: the first line is not \"zernel 1 VERB\"; removed"},
	{"spool: cut", H "start\nid=7\nna", "spool: left-1: the last line has no end; removed"},
	{"spool: a question", H "list\n", "spool: left-1: it is neither of a start nor of an end; removed"},
	{"spool: a label that ends", H "start\nid=7\nname=\x1b[2J\n",
		"spool: left-1: name: a byte that is not printable ASCII; removed"},
	{"spool: what can be no key", H "start\nid=7\nNew=1\n", "spool: left-1: an unknown key; removed"},
	{"spool: no key", H "start\nid=7\n=1\n", "spool: left-1: an unknown key; removed"},
	{"spool: id of 2^64", H "start\nid=18446744073709551616\n",
		"spool: left-1: id must be a number from 1 to 4294967294, or a word of up to 15 of A-Z a-z 0-9 . _ -, but not NUMBER_NUMBER; removed"},
};

static void hostile_files(void)
{
	for (size_t i = 0; i < ZN_LEN(hostile); i++) {
		t_begin(hostile[i].name);
		fresh();
		down();
		make_spool();
		write_text("run/jobs.d/left-1", hostile[i].text);
		up();
		CHECK_STR(said, "");
		CHECK_EQ(log_lines, 1);
		CHECK_STR(logged, hostile[i].why);
		CHECK(!there("run/jobs.d/left-1"));
		down();
	}
}

T(what_is_no_file_of_a_client)
{
	static char huge[9000] = H "start\nid=7\n";

	fresh();
	down();
	make_spool();
	write_text("secret", H "start\nid=7\n");
	CHECK(!symlink(at("secret"), at("run/jobs.d/left-1")));
	CHECK(!mkfifo(at("run/jobs.d/left-2"), 0600));
	write_bytes("run/jobs.d/left-3", huge, sizeof(huge));
	write_text("run/jobs.d/left-4", H "start\nid=7\n");
	chmod(at("run/jobs.d/left-4"), 0622);
	write_text("run/jobs.d/notes", H "start\nid=7\n");
	up();
	CHECK_STR(said, "");
	CHECK_EQ(log_lines, 5);
	CHECK(there("run/jobs.d/notes") && there("secret"));
	for (char name[] = "run/jobs.d/left-1"; name[16] <= '4'; name[16]++)
		CHECK(!there(name));
	unlink(at("secret"));
	down();
}

T(a_folder_that_others_can_write_is_not_read)
{
	fresh();
	down();
	make_spool();
	chmod(at("run/jobs.d"), 0777);
	write_text("run/jobs.d/left-1", H "start\nid=7\n");
	up();
	CHECK_STR(said, "");
	CHECK_EQ(log_lines, 1);
	zn_control_tick(c, zn_now_ns());
	CHECK_EQ(log_lines, 1);
	CHECK(there("run/jobs.d/left-1"));
	down();
	remove_run();
	mkdir(at("run"), 0755);
	mkdir(at("elsewhere"), 0750);
	CHECK(!symlink(at("elsewhere"), at("run/jobs.d")));
	write_text("elsewhere/left-1", H "start\nid=7\n");
	up();
	CHECK_STR(said, "");
	down();
	unlink(at("elsewhere/left-1"));
	rmdir(at("elsewhere"));
}

T(what_is_left_while_it_runs)
{
	fresh();
	make_spool();
	zn_control_tick(c, zn_now_ns());
	write_text("run/jobs.d/left-1", H "start\nid=7\ntime=1\n");
	write_text("run/jobs.d/job-8", H "start\nid=8\ntime=1\n"); /* our own */
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "start 7 by 3\nremove 1 left-1\n");
	zn_control_tick(c, zn_now_ns());
	writer.available[ZN_DIRECTORY_SPOOL] = false; /* nobody could remove it */
	write_text("run/jobs.d/left-2", H "start\nid=9\ntime=2\n");
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "start 7 by 3\nremove 1 left-1\n");
	down();
}

/* What comes in the same tick of the kernel's clock as what was read before leaves the folder's time as it was. Here
 * that is at the end of a second, and the next one has begun. */
T(what_comes_at_the_same_time_is_seen)
{
	struct timespec at_end[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = 999000000}};
	uint64_t ms;

	fresh();
	make_spool();
	write_text("run/jobs.d/left-1", H "start\nid=7\ntime=1\n");
	do {
		ms = zn_wall_ms();
		at_end[1].tv_sec = (time_t)(ms / 1000) - 1;
		CHECK_EQ(utimensat(AT_FDCWD, at("run/jobs.d"), at_end, 0), 0);
		zn_control_tick(c, zn_now_ns());
	} while (zn_wall_ms() / 1000 != ms / 1000 || ms % 1000 > 900);
	CHECK_STR(said, "start 7 by 3\nremove 1 left-1\n");
	write_text("run/jobs.d/left-2", H "start\nid=8\ntime=2\n");
	CHECK_EQ(utimensat(AT_FDCWD, at("run/jobs.d"), at_end, 0), 0);
	zn_control_tick(c, zn_now_ns());
	CHECK(strstr(said, "start 8 by 3\nremove 1 left-2\n"));
	down();
}

/* Without a descriptor for it a message is not lost. */
T(what_cannot_be_opened_for_now_stays)
{
	struct rlimit files, few;
	int next;

	fresh();
	make_spool();
	zn_control_tick(c, zn_now_ns());
	write_text("run/jobs.d/left-1", H "start\nid=7\ntime=1\n");
	next = dup(STDERR_FILENO);
	close(next);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	few = (struct rlimit){(rlim_t)next + 1, files.rlim_max}; /* for the folder alone */
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "");
	CHECK(there("run/jobs.d/left-1"));
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "start 7 by 3\nremove 1 left-1\n");
	down();
}

/* Who was not answered in time leaves what it said, and the daemon reads it twice, in either order. */
T(what_is_told_twice_is_told_once)
{
	fresh();
	make_spool();
	CHECK_GOT(ask(H "start\nid=7\ntime=5\n"), "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}");
	CHECK_GOT(ask(H "end\nid=7\ntime=6\n"), "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"ended\"}");
	write_text("run/jobs.d/left-1", H "start\nid=7\ntime=5\n");
	write_text("run/jobs.d/left-2", H "end\nid=7\ntime=6\n");
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "start 7 by 1\nend 7\nremove 1 left-1\nremove 1 left-2\n");
	said[0] = '\0';
	write_text("run/jobs.d/left-3", H "start\nid=8\ntime=7\n");
	CHECK_GOT(ask(H "start\nid=8\ntime=7\n"), "ok\n{\"job_id\":\"8\",\"restart\":0,\"state\":\"running\"}");
	CHECK_STR(said, "start 8 by 3\nremove 1 left-3\n"); /* the file came first */
	CHECK(there("run/jobs.d/left-3") == false);
	down();
}

/* A message that was left names its boot and the time since then, which tell the order however the clock was set
 * meanwhile. Over the socket it has neither, and is the same message. */
T(messages_from_before_the_clock_was_set)
{
	uint64_t uptime_ms = clock_ns(CLOCK_BOOTTIME) / ZN_NS_PER_MS;
	char text[256];

	fresh();
	make_spool();
	CHECK_GOT(ask(H "start\nid=7\ntime=5\n"), "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}");
	snprintf(text, sizeof(text), H "start\nid=7\ntime=5\n" IS_BOOT "uptime=%llu\n",
		(unsigned long long)uptime_ms - 1);
	write_text("run/jobs.d/left-1", text);
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "start 7 by 1\nremove 1 left-1\n");
	said[0] = '\0';
	snprintf(text, sizeof(text), H "end\nid=7\ntime=%llu\n" IS_BOOT "uptime=%llu\n",
		(unsigned long long)zn_wall_ms(), (unsigned long long)uptime_ms - 50);
	write_text("run/jobs.d/left-2", text);
	snprintf(text, sizeof(text), H "start\nid=8\ntime=1234\n" IS_BOOT "uptime=%llu\n",
		(unsigned long long)uptime_ms - 20);
	write_text("run/jobs.d/left-1", text); /* the clock was at 1970 again */
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "end 7\nremove 1 left-2\nstart 8 by 3\nremove 1 left-1\n");
	down();
}

T(a_full_table_refuses_files_too)
{
	fresh();
	down();
	make_spool();
	start_error = -ENOSPC;
	write_text("run/jobs.d/left-1", H "start\nid=7\ntime=1\n");
	write_text("run/jobs.d/job-8", H "start\nid=8\ntime=2\n");
	up();
	CHECK_EQ(log_lines, 2);
	CHECK_STR(logged, "spool: job-8: the table of jobs is full; removed");
	CHECK(!there("run/jobs.d/left-1") && !there("run/jobs.d/job-8"));
	down();
}

T(records_of_processes)
{
	char text[256], name[64];

	empty_spool();
	snprintf(text, sizeof(text), H "start\nid=1\npid=%d\ntime=%llu\n", getpid(), (unsigned long long)zn_wall_ms());
	write_text("run/jobs.d/job-1", text);
	snprintf(text, sizeof(text), H "start\nid=2\npid=%d\ntime=1711800000000\n", getpid()); /* before it began */
	write_text("run/jobs.d/job-2", text);
	write_text("run/jobs.d/job-3", H "start\nid=3\npid=4194304\ntime=1\n"); /* no process can have it */
	snprintf(text, sizeof(text), H "start\nid=4\npid=%d\ntime=1234\n" IS_BOOT "uptime=%llu\n", getpid(),
		(unsigned long long)(clock_ns(CLOCK_BOOTTIME) / ZN_NS_PER_MS - 500)); /* the clock was set since */
	write_text("run/jobs.d/job-4", text);
	up();
	CHECK_STR(said, "start 3 by 4\nstart 2 by 4\nstart 4 by 3\nstart 1 by 3\n"); /* by 4: nothing is tagged */
	CHECK_EQ(log_lines, 0);
	for (int i = 1; i <= 4; i++) {
		snprintf(name, sizeof(name), "run/jobs.d/job-%d", i);
		CHECK(there(name)); /* until its job has ended */
	}
	down();
}

T(more_files_than_it_can_sort)
{
	char name[64], text[64];

	fresh();
	down();
	make_spool();
	for (int i = 0; i < 2100; i++) {
		snprintf(name, sizeof(name), "run/jobs.d/left-%d", i);
		snprintf(text, sizeof(text), H "end\nid=7\ntime=%d\n", i);
		write_text(name, text);
	}
	up();
	zn_control_tick(c, zn_now_ns());
	CHECK_EQ(log_lines, 0);
	for (int i = 0; i < 2100; i++) {
		snprintf(name, sizeof(name), "run/jobs.d/left-%d", i);
		CHECK(!there(name));
	}
	down();
}

T(records)
{
	fresh();
	add_job(3, "70", 1000, ZN_JOB_RUNNING);
	jobs.job[3].restart = 2;
	zn_spool_record(&writer, &jobs.job[3]);
	zn_spool_forget(&writer, &jobs.job[3]);
	CHECK_STR(said, "write 1 job-70_2: zernel 1 start\nid=70\ntime=1234\n" IS_BOOT "remove 1 job-70_2\n");
	said[0] = '\0';
	jobs.job[3].epilog = true; /* its group is still there */
	zn_spool_record(&writer, &jobs.job[3]);
	CHECK_STR(said, "write 1 job-70_2: zernel 1 end\nid=70\ntime=1234\n" IS_BOOT);
	said[0] = '\0';
	jobs.job[3].about = (struct zn_message){0}; /* known by its control group alone */
	zn_spool_record(&writer, &jobs.job[3]);
	zn_spool_record(NULL, &jobs.job[3]);
	zn_spool_forget(NULL, &jobs.job[3]);
	CHECK_STR(said, "");
	down();
}

int main(void)
{
	int status;

	if (!mkdtemp(folder) || chmod(folder, 0755))
		return 1;
	RUN(what_was_left_is_taken_in_order);
	RUN(keys_of_a_later_version_are_passed_over);
	hostile_files();
	RUN(what_is_no_file_of_a_client);
	RUN(a_folder_that_others_can_write_is_not_read);
	RUN(what_is_left_while_it_runs);
	RUN(what_comes_at_the_same_time_is_seen);
	RUN(what_cannot_be_opened_for_now_stays);
	RUN(what_is_told_twice_is_told_once);
	RUN(messages_from_before_the_clock_was_set);
	RUN(a_full_table_refuses_files_too);
	RUN(records_of_processes);
	RUN(more_files_than_it_can_sort);
	RUN(records);
	status = t_end();
	remove_run();
	rmdir(folder);
	return status;
}
