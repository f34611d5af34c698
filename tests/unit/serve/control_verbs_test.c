/* SPDX-License-Identifier: GPL-2.0 */
/*
 * control_verbs_test.c: what is asked for on the control socket (control_verbs.c): the answer to each verb, and
 * reports that were kept.
 */
#include "control.h"

/* ---- What is asked. ---- */

static const struct {
	const char *name, *text, *answer, *said;
} asked[] = {
	{"start", H "start\nid=7\n", "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}", "start 7 by 1\n"},
	{"start by a process", H "start\nid=7\npid=1\n", "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}",
		"start 7 by 2\n"},
	{"start by a control group", H "start\nid=7\ncgroup=/a\n",
		"ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}", "start 7 by 2\n"},
	{"the end of an unknown job", H "end\nid=7\n", "ok\nnull", "end 7\n"},
	{"the end", H "end\nid=1000\n", "ok\n{\"job_id\":\"1000\",\"restart\":0,\"state\":\"ended\"}", "end 1000\n"},
	{"list", H "list\njson=1\n", "ok\n{\"jobs\":[{\"job_id\":\"1000\",\"secret\":\"a\\\"b\\\\\"}]}", ""},
	{"list for a table", H "list\n", "ok\n{\"jobs\":[{\"job_id\":\"1000\",\"row\":\"of a table\"}]}", ""},
	{"show", H "show\nid=1000\n", "ok\n{\"job_id\":\"1000\",\"secret\":\"a\\\"b\\\\\"}", ""},
	{"show nothing", H "show\nid=7\n", "error: no job 7 here\n", ""},
	{"show another restart", H "show\nid=1000\nrestart=3\n", "error: no job 1000 here\n", ""},
	{"report", H "report\nid=1000\n", "ok\npage of {\"job_id\":\"1000\"}", ""},
	{"report as JSON", H "report\nid=1000\njson=1\n", "ok\n{\"job_id\":\"1000\"}", ""},
	{"report as a line", H "report\nid=1000\nline=1\n", "ok\nline of {\"job_id\":\"1000\"}", ""},
	{"no report", H "report\nid=7\n", "error: no report of job 7 here, or it is not yours\n", ""},
	{"annotate", H "annotate\nlabels=a=1,b=2\n", "ok\n", ""},
	{"annotate, refused", H "annotate\nlabels=refused=1\n", "error: refused, as was asked for\n", ""},
	{"no message", "hello\n", "error: the first line is not \"zernel 1 VERB\"\n", ""},
	{"GET", "GET / HTTP/1.1\r\n\r\n", "error: the first line is not \"zernel 1 VERB\"\n", ""},
	{"bad UTF-8", H "start\nid=7\nname=\xff\xfe\n", "error: name: a byte that is not printable ASCII\n", ""},
	{"path as id", H "report\nid=../../etc/passwd\n",
		"error: id must be a number from 1 to 4294967294, or a word of up to 15 of A-Z a-z 0-9 . _ -, but not NUMBER_NUMBER\n",
		""},
	{"id of 2^64", H "start\nid=18446744073709551616\n",
		"error: id must be a number from 1 to 4294967294, or a word of up to 15 of A-Z a-z 0-9 . _ -, but not NUMBER_NUMBER\n",
		""},
	{"line feed in a label", H "start\nid=7\nname=a\nb\n", "error: a line without '='\n", ""},
};

static void answers(void)
{
	for (size_t i = 0; i < ZN_LEN(asked); i++) {
		t_begin(asked[i].name);
		fresh();
		add_job(5, "1000", 1000, ZN_JOB_RUNNING);
		zn_message_set(&jobs.job[5].about, ZN_KEY_NAME, "a\"b\\");
		CHECK_GOT(ask(asked[i].text), asked[i].answer);
		CHECK_STR(said, asked[i].said);
		down();
	}
}

T(who_annotates)
{
	static const char message[] = H "annotate\nlabels=step=7\n";

	fresh();
	view.annotations = NULL;
	CHECK_GOT(ask(message), "error: this daemon keeps no annotations\n");
	view.annotations = &annotations;
	CHECK_GOT(ask(message), "ok\n");
	CHECK(annotator.any && annotator.uid == 0 && annotator.pid == (uint32_t)getpid());
	CHECK_STR(annotated, "step=7");
	CHECK_GOT(ask_bytes(NOBODY, message, strlen(message)), "ok\n");
	CHECK(!annotator.any && annotator.uid == NOBODY && annotator.owner == NOBODY);
	down();
}

T(a_full_table_is_told)
{
	fresh();
	start_error = -ENOSPC;
	CHECK_GOT(ask(H "start\nid=7\n"), "error: the table of jobs is full\n");
	down();
}

T(messages_of_any_size)
{
	static char text[300000] = H "start\nid=7\nname=";
	size_t head = strlen(text);

	fresh();
	memset(text + head, 'a', sizeof(text) - head);
	CHECK_GOT(ask_bytes(getuid(), text, 4097), "error: a message longer than 4096 bytes\n");
	CHECK_GOT(ask_bytes(getuid(), text, 100000), "error: a message longer than 4096 bytes\n");
	CHECK_GOT(ask_bytes(getuid(), text, 4096), "error: the last line has no end\n");
	CHECK_GOT(ask_bytes(getuid(), text, 0), ""); /* none: the end */
	CHECK_STR(said, "");
	down();
}

static uint32_t count_listed(struct zn_str list)
{
	struct zn_str of = zn_json_member(list, "jobs"), key, job;
	uint32_t count = 0;

	for (size_t at = 0; zn_json_next(of, &at, &key, &job);)
		count++;
	return count;
}

/* As JSON with all that is known of them; in the table all have room. */
T(many_jobs_are_cut)
{
	struct zn_str list;

	fresh();
	for (uint32_t i = 0; i < ZN_JOBS_MAX; i++) {
		char id[ZN_JOB_NAME];

		snprintf(id, sizeof(id), "%u", 100000 + i);
		add_job(i, id, 1000, i % 2 ? ZN_JOB_RUNNING : ZN_JOB_ENDED);
		memset(jobs.job[i].about.value[ZN_KEY_NAME], '"', 256); /* twice as long in JSON */
	}
	ask(H "list\n");
	list = (struct zn_str){answer + 3, strlen(answer + 3)};
	CHECK_EQ(zn_json_check(list), 0);
	CHECK_EQ(zn_json_member(list, "truncated").len, 0);
	CHECK_EQ(count_listed(list), ZN_JOBS_MAX);
	ask(H "list\njson=1\n");
	list = (struct zn_str){answer + 3, strlen(answer + 3)};
	CHECK_EQ(zn_json_check(list), 0);
	CHECK(zn_json_member(list, "truncated").len > 0);
	CHECK(list.len > 100000 && list.len < ZN_ANSWER_BYTES);
	CHECK(!strncmp(list.at, "{\"jobs\":[{\"job_id\":\"100001\"", 27)); /* one that runs */
	down();
}

/* ---- Reports that were kept. ---- */

#define NO_REPORT(id) "error: no report of job " id " here, or it is not yours\n"

T(kept_reports)
{
	fresh();
	write_text("reports/50.json", "{\"job_id\":\"50\",\"uid\":1,\"restart\":0}");
	write_text("reports/50_2.json", "{\"job_id\":\"50\",\"uid\":1,\"restart\":2}");
	CHECK_GOT(ask(H "report\nid=50\njson=1\n"), "ok\n{\"job_id\":\"50\",\"uid\":1,\"restart\":2}");
	CHECK_GOT(ask(H "report\nid=50\nrestart=0\njson=1\n"), "ok\n{\"job_id\":\"50\",\"uid\":1,\"restart\":0}");
	CHECK_GOT(ask(H "report\nid=50\nrestart=1\njson=1\n"), NO_REPORT("50"));
	CHECK_GOT(ask(H "report\nid=50\nrestart=4294967293\njson=1\n"), NO_REPORT("50"));
	CHECK_GOT(ask(H "report\nid=50\nrestart=0\n"), "ok\npage of {\"job_id\":\"50\",\"uid\":1,\"restart\":0}");
	options.report_dir[0] = '\0';
	CHECK_GOT(ask(H "report\nid=50\njson=1\n"), NO_REPORT("50"));
	down();
}

T(what_is_no_report)
{
	static char huge[ZN_ANSWER_BYTES + 16];

	fresh();
	write_text("secret", "{\"job_id\":\"60\",\"uid\":0}");
	CHECK(!symlink(at("secret"), at("reports/60.json")));
	CHECK_GOT(ask(H "report\nid=60\n"), NO_REPORT("60"));
	CHECK(!mkfifo(at("reports/61.json"), 0600));
	CHECK_GOT(ask(H "report\nid=61\n"), NO_REPORT("61"));
	CHECK(!mkdir(at("reports/62.json"), 0700));
	CHECK_GOT(ask(H "report\nid=62\n"), NO_REPORT("62"));
	write_text("reports/63.json", "{\"job_id\":\"64\",\"uid\":0}");
	CHECK_GOT(ask(H "report\nid=63\n"), NO_REPORT("63"));
	write_text("reports/64.json", "{\"job_id\":\"64\",\"uid\":0");
	CHECK_GOT(ask(H "report\nid=64\n"), NO_REPORT("64"));
	write_text("reports/65.json", "");
	CHECK_GOT(ask(H "report\nid=65\n"), NO_REPORT("65"));
	memset(huge, ' ', sizeof(huge));
	memcpy(huge, "{\"job_id\":\"66\",\"uid\":0}", 23);
	write_bytes("reports/66.json", huge, sizeof(huge));
	CHECK_GOT(ask(H "report\nid=66\n"), NO_REPORT("66"));
	unlink(at("secret"));
	down();
}

int main(void)
{
	int status;

	if (!mkdtemp(folder) || chmod(folder, 0755))
		return 1;
	answers();
	RUN(who_annotates);
	RUN(a_full_table_is_told);
	RUN(messages_of_any_size);
	RUN(many_jobs_are_cut);
	RUN(kept_reports);
	RUN(what_is_no_report);
	status = t_end();
	remove_run();
	rmdir(folder);
	return status;
}
