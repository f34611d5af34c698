/* SPDX-License-Identifier: GPL-2.0 */
/* why.c: `zernel why`, what the jobs of a node lose their time to, longest first, as plain lines; or what one
 * process does. */
#include "zernel.h"

#include <limits.h>
#include <string.h>

#define USAGE     "usage: zernel why [JOB | PID] [http://ADDRESS:PORT | unix:PATH] [--json] [--token-file FILE]"
#define TEXT_MAX  768
#define PROCESSES "/json?topics=processes"
#define UNKNOWN   "no job or process %s is known here"

static char buffer[ZN_CLIENT_BUFFER], lines[1 << 16];
static struct zn_client client;

/* ---- Jobs. ---- */

static void put_cause(struct zn_term *t, struct zn_str cause, unsigned number)
{
	char says[TEXT_MAX], next[TEXT_MAX], metric[TEXT_MAX], sure[ZN_UNITS_CELL];

	zn_term_line(t, ZN_STYLE_PLAIN, "  %u. %s", number, zn_path_text(cause, "says", says, sizeof(says)));
	zn_term_line(t, ZN_STYLE_PLAIN, "     next: %s", zn_path_text(cause, "next", next, sizeof(next)));
	zn_term_line(t, ZN_STYLE_PLAIN, "     %s by %s", zn_path_text(cause, "sure", sure, sizeof(sure)),
		zn_path_text(cause, "metric", metric, sizeof(metric)));
}

/* The lines of Python that have most of it. */
static void put_where(struct zn_term *t, struct zn_str job)
{
	struct zn_str list = zn_path_find(job, "where"), key, row;
	char text[TEXT_MAX];
	size_t at = 0;

	while (zn_json_next(list, &at, &key, &row))
		zn_term_line(t, ZN_STYLE_PLAIN, "  line: %s", zn_path_text(row, "", text, sizeof(text)));
}

/* Puts what is known of ranks on other nodes; nothing is, of a job that does not seem to hang. */
static void put_ras(struct zn_term *t, struct zn_str job)
{
	char says[TEXT_MAX];

	if (!zn_path_known(job, "ras"))
		return;
	zn_path_text(job, "ras.says", says, sizeof(says));
	if (!strncmp(says, "NCCL's RAS", 10))
		zn_term_line(t, ZN_STYLE_PLAIN, "  other nodes: %s", says);
	else
		zn_term_line(t, ZN_STYLE_PLAIN, "  other nodes: NCCL's RAS says: %s", says);
}

/* Puts what its programs said of themselves. */
static void put_labels(struct zn_term *t, struct zn_str job)
{
	struct zn_str list = zn_path_find(job, "labels"), key, label;
	char name[ZN_ANNOTATION_KEY], value[ZN_ANNOTATION_VALUE];
	size_t at = 0;

	if (!zn_json_next(list, &at, &key, &label))
		return;
	zn_term_put(t, "  says of itself:");
	for (at = 0; zn_json_next(list, &at, &key, &label);)
		zn_term_putf(t, " %s=%s", zn_path_text(label, "key", name, sizeof(name)),
			zn_path_text(label, "value", value, sizeof(value)));
	zn_term_end(t);
}

static void put_job(struct zn_term *t, struct zn_str job, struct zn_str window)
{
	char id[ZN_UNITS_CELL], says[TEXT_MAX], processes[ZN_UNITS_CELL];
	struct zn_str causes = zn_path_find(job, "causes"), key, cause;
	bool named = zn_path_known(job, "job_id");
	unsigned count = 0;
	size_t at = 0;

	zn_term_line(t, ZN_STYLE_PLAIN, "%s%s (processes: %s; the last %u s)", named ? "job " : "processes of no job",
		named ? zn_path_text(job, "job_id", id, sizeof(id)) : "",
		zn_path_text(job, "processes", processes, sizeof(processes)), (unsigned)zn_json_integer(window));
	put_labels(t, job);
	while (zn_json_next(causes, &at, &key, &cause))
		put_cause(t, cause, ++count);
	if (!count)
		zn_term_line(t, ZN_STYLE_PLAIN, "  %s", zn_path_text(job, "says", says, sizeof(says)));
	put_where(t, job);
	put_ras(t, job);
}

static bool is_job(struct zn_str job, const char *wanted)
{
	char id[TEXT_MAX];

	return !wanted ||
		(zn_path_known(job, "job_id") && !strcmp(zn_path_text(job, "job_id", id, sizeof(id)), wanted));
}

/* How many there were. */
static unsigned put_jobs(struct zn_term *t, struct zn_str answer, const char *wanted)
{
	struct zn_str list = zn_path_find(answer, "why"), key, job;
	unsigned count = 0;
	size_t at = 0;

	while (zn_json_next(list, &at, &key, &job))
		if (is_job(job, wanted)) {
			put_job(t, job, zn_path_find(answer, "window_s"));
			count++;
		}
	return count;
}

/* ---- A process. ---- */

/* Empty: there is none of that number. */
static struct zn_str find_process(struct zn_str snapshot, const char *wanted)
{
	struct zn_str list = zn_path_find(snapshot, "processes"), key, process;
	char pid[ZN_UNITS_CELL];
	size_t at = 0;

	while (zn_json_next(list, &at, &key, &process))
		if (!strcmp(zn_path_text(process, "pid", pid, sizeof(pid)), wanted))
			return process;
	return (struct zn_str){0};
}

static unsigned put_process(struct zn_term *t, struct zn_str process)
{
	char pid[ZN_UNITS_CELL], says[TEXT_MAX];

	if (!process.len)
		return 0;
	zn_term_line(t, ZN_STYLE_PLAIN, "process %s: %s", zn_path_text(process, "pid", pid, sizeof(pid)),
		zn_path_known(process, "stalls.says") ? zn_path_text(process, "stalls.says", says, sizeof(says))
						      : "where its time goes is not known");
	return 1;
}

/* ---- The verb. ---- */

struct arguments {
	struct zn_client_args client;
	bool json;
};

/* 0, or the exit status. */
static int read_arguments(struct arguments *a, int argc, char **argv)
{
	for (int i = 1, used; i < argc; i += used) {
		used = 1;
		if (!strcmp(argv[i], "--json"))
			a->json = true;
		else if ((used = zn_client_argument(&a->client, argv, i)) < 0)
			return 2;
	}
	return 0;
}

/* 0, or the exit status. */
static int get_json(const struct arguments *a, const char *path)
{
	int status = zn_client_open(&client, &a->client, path, buffer);

	if (status)
		return status;
	return zn_client_get(&client) ? zn_client_complain(&client, "why") : 0;
}

/* What is wanted, a job or else a process; empty: neither is known. 0, or the exit status. */
static int get_wanted(const struct arguments *a, struct zn_str *json)
{
	char path[ZN_PARAMETER_PATH] = "/why";
	struct zn_str key, job;
	size_t at = 0;
	int status;

	if (!zn_parameter_add(path, "job", a->client.wanted))
		return zn_client_misused(&a->client, "a value that cannot be", a->client.wanted);
	status = get_json(a, path);
	*json = client.answer;
	if (status || !a->client.wanted || zn_json_next(zn_path_find(client.answer, "why"), &at, &key, &job))
		return status;
	status = get_json(a, PROCESSES);
	*json = find_process(client.answer, a->client.wanted);
	return status;
}

static int print_json(const struct arguments *a)
{
	struct zn_str json = {0};
	int status = get_wanted(a, &json);

	if (status)
		return status;
	if (!json.len)
		fprintf(stderr, "zernel: why: " UNKNOWN "\n", a->client.wanted);
	return json.len && zn_client_print(json) ? 0 : 1;
}

int zn_why_main(int argc, char **argv)
{
	struct zn_term t = {.out = {.at = lines, .cap = sizeof(lines)}, .cols = INT_MAX};
	struct arguments a = {.client = {.verb = "why", .usage = USAGE, .of_job = true}};
	unsigned count;
	int status;

	if (argc > 1 && !strcmp(argv[1], "--help"))
		return puts(USAGE) < 0;
	status = read_arguments(&a, argc, argv);
	if (status || a.json)
		return status ? status : print_json(&a);
	status = get_json(&a, "/why");
	if (status)
		return status;
	zn_term_begin(&t);
	count = put_jobs(&t, client.answer, a.client.wanted);
	if (!count && a.client.wanted) {
		status = get_json(&a, PROCESSES);
		if (status)
			return status;
		count = put_process(&t, find_process(client.answer, a.client.wanted));
	}
	if (!count && a.client.wanted)
		zn_term_line(&t, ZN_STYLE_PLAIN, UNKNOWN, a.client.wanted);
	else if (!count)
		zn_term_line(&t, ZN_STYLE_PLAIN, "nothing has launched work on a GPU here since the daemon began");
	return zn_term_flush(&t) && (count || !a.client.wanted) ? 0 : 1;
}
