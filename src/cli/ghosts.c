/* SPDX-License-Identifier: GPL-2.0 */
/* ghosts.c: `zernel ghosts`: processes that hold a GPU which is not theirs, as plain lines, and an exit status for
 * epilogs. */
#include "zernel.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                                                    \
	"usage: zernel ghosts [http://ADDRESS:PORT | unix:PATH] [--older SECONDS] [--quiet] [--json] [--token-file FILE]\n"      \
	"  exit status: 0 none, 1 there are some, 2 not known: no daemon answers, it asks for a token, or has not looked yet;\n" \
	"               or the answer cannot be written"

static char buffer[ZN_CLIENT_BUFFER], lines[1 << 16];
static struct zn_client client;

struct arguments {
	struct zn_client_args client;
	double older_s; /* below 0: as the daemon counts */
	bool quiet, json;
};

static const char *span_of(char to[ZN_UNITS_CELL], struct zn_str json, const char *key)
{
	double s = zn_json_number(zn_path_find(json, key));

	return zn_units_span(to, s > 0 && s < 1e15 ? (uint64_t)s : 0);
}

static void put_ghost(struct zn_term *t, struct zn_str g)
{
	char pid[ZN_UNITS_CELL], uid[ZN_UNITS_CELL], job[64], gpu[56], command[32], says[64], age[ZN_UNITS_CELL],
		bytes[ZN_UNITS_CELL] = "-";
	bool named;

	span_of(age, g, "since_s");
	if (zn_path_known(g, "gpu_bytes"))
		zn_units_bytes(bytes, zn_json_integer(zn_path_find(g, "gpu_bytes")));
	zn_path_text(g, "job_id", job, sizeof(job));
	named = strcmp(zn_path_text(g, "gpu_id", gpu, sizeof(gpu)), "-");
	zn_term_line(t, ZN_STYLE_PLAIN, "%-8s %-8s %-16s %8s %14s %-12s %s%s%s",
		zn_path_text(g, "pid", pid, sizeof(pid)), zn_path_text(g, "uid", uid, sizeof(uid)),
		zn_path_text(g, "command", command, sizeof(command)), bytes, age, job,
		zn_path_text(g, "says", says, sizeof(says)), named ? ": GPU " : "", named ? gpu : "");
}

static bool has_lines(const struct arguments *a)
{
	return !a->json && !a->quiet;
}

/* Counts them, and puts their lines if there are any. */
static uint32_t put_ghosts(struct zn_term *t, const struct arguments *a)
{
	struct zn_str list = zn_path_find(client.answer, "ghosts"), key, g;
	double least_s = a->older_s < 0 ? zn_json_number(zn_path_find(client.answer, "after_s")) : a->older_s;
	uint32_t count = 0;

	for (size_t at = 0; zn_json_next(list, &at, &key, &g);) {
		if (zn_json_number(zn_path_find(g, "since_s")) < least_s)
			continue;
		count++;
		if (!has_lines(a))
			continue;
		if (count == 1)
			zn_term_line(t, ZN_STYLE_PLAIN, "%-8s %-8s %-16s %8s %14s %-12s %s", "PID", "UID", "COMMAND",
				"MEMORY", "FOR", "JOB", "WHY");
		put_ghost(t, g);
	}
	return count;
}

static void put_idle(struct zn_term *t)
{
	struct zn_str list = zn_path_find(client.answer, "idle_gpus"), key, g;
	char job[64], gpu[56], span[ZN_UNITS_CELL];

	for (size_t at = 0; zn_json_next(list, &at, &key, &g);)
		zn_term_line(t, ZN_STYLE_PLAIN, "job %s has GPU %s and has not used it for %s",
			zn_path_text(g, "job_id", job, sizeof(job)), zn_path_text(g, "gpu_id", gpu, sizeof(gpu)),
			span_of(span, g, "idle_s"));
}

/* Of these it is not said that they hold one, nor that they do not. */
static void put_unknown(struct zn_term *t)
{
	uint64_t count = zn_json_integer(zn_path_find(client.answer, "unknown"));

	if (count)
		zn_term_line(t, ZN_STYLE_PLAIN,
			"not known of %llu more processes: they have too many open files, or hide them",
			(unsigned long long)count);
}

/* Lines, or the answer as it came. False: it cannot be written. */
static bool put_answer(struct zn_term *t, const struct arguments *a, bool none)
{
	if (a->quiet)
		return true;
	if (a->json)
		return zn_client_print(client.answer);
	if (none && !t->out.len)
		zn_term_line(t, ZN_STYLE_PLAIN, "no process holds a GPU that is not its own");
	put_unknown(t);
	return zn_term_flush(t);
}

/* The exit status. */
static int show_ghosts(const struct arguments *a)
{
	struct zn_term t = {.out = {.at = lines, .cap = sizeof(lines)}, .cols = INT_MAX};
	bool looked = !zn_str_is(zn_path_find(client.answer, "looked"), "false");
	uint32_t count;

	zn_term_begin(&t);
	count = put_ghosts(&t, a);
	if (has_lines(a))
		put_idle(&t);
	if (!count && !looked)
		fprintf(stderr, "zernel: ghosts: %s: nobody has looked yet\n", client.name);
	if (!put_answer(&t, a, !count && looked)) {
		fprintf(stderr, "zernel: ghosts: the answer cannot be written: %s\n", strerror(errno));
		looked = false;
	}
	return count ? 1 : looked ? 0 : 2;
}

/* 0, or the exit status. */
static int read_arguments(struct arguments *a, int argc, char **argv)
{
	char *end;

	for (int i = 1, used; i < argc; i += used) {
		used = 1;
		if (!strcmp(argv[i], "--json")) {
			a->json = true;
		} else if (!strcmp(argv[i], "--quiet")) {
			a->quiet = true;
		} else if (!strcmp(argv[i], "--older") && i + 1 < argc) {
			a->older_s = strtod(argv[i + 1], &end);
			if (*end || end == argv[i + 1] || !(a->older_s >= 0))
				return zn_client_misused(&a->client, "not a number of seconds:", argv[i + 1]);
			used = 2;
		} else if ((used = zn_client_argument(&a->client, argv, i)) < 0) {
			return 2;
		}
	}
	return 0;
}

int zn_ghosts_main(int argc, char **argv)
{
	struct arguments a = {.client = {.verb = "ghosts", .usage = USAGE}, .older_s = -1};
	int status;

	if (argc > 1 && !strcmp(argv[1], "--help"))
		return puts(USAGE) < 0;
	status = read_arguments(&a, argc, argv);
	if (!status)
		status = zn_client_open(&client, &a.client, "/ghosts", buffer);
	if (status)
		return status;
	if (zn_client_get(&client)) {
		zn_client_complain(&client, "ghosts");
		return 2;
	}
	return show_ghosts(&a);
}
