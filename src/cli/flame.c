/* SPDX-License-Identifier: GPL-2.0 */
/* flame.c: `zernel flame`, which lines of Python time and GPU memory go to, in words; or for other
 * tools. */
#include "zernel.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                                            \
	"usage: zernel flame [JOB | PID] [http://ADDRESS:PORT | unix:PATH] [--seconds N] [--cause launch|gpu|nccl|\n"    \
	"                    alloc|load|cpu|data|dist|io|runqueue|other] [--folded | --pprof | --speedscope | --json]\n" \
	"                    [--token-file FILE]"
#define TEXT_MAX    768
#define EXAMPLE_MAX 6 /* functions */

static char buffer[ZN_CLIENT_BUFFER], lines[1 << 16];
static struct zn_client client;

/* ---- In words. ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The end of a path, as much of it as tells which library it is of. */
static const char *short_name(const char *path)
{
	const char *at = strstr(path, "-packages/"), *slash = base_name(path);

	if (at)
		return at + strlen("-packages/");
	while (slash > path + 1 && slash[-2] != '/')
		slash--;
	return slash > path + 1 ? slash - 1 : path;
}

/* "train.py:212 in step" */
static void put_place(struct zn_term *t, struct zn_str place, bool whole)
{
	char file[TEXT_MAX] = "", function[TEXT_MAX], line[ZN_UNITS_CELL];

	zn_path_text(place, "function", function, sizeof(function));
	if (strcmp(zn_path_text(place, "file", file, sizeof(file)), "-") == 0) {
		zn_term_put(t, function);
		return;
	}
	zn_term_put(t, whole ? short_name(file) : base_name(file));
	if (zn_path_known(place, "line"))
		zn_term_putf(t, ":%s", zn_path_text(place, "line", line, sizeof(line)));
	zn_term_putf(t, " in %s", function);
}

static void put_amount(struct zn_term *t, struct zn_str of, bool seconds, const char *of_what)
{
	struct zn_str value = zn_path_find(of, "value"), count = zn_path_find(of, "count");
	char text[ZN_UNITS_CELL];

	if (seconds) {
		zn_term_putf(t, "%.3f s", strtod(zn_path_text(value, "", text, sizeof(text)), NULL));
	} else {
		zn_units_bytes(text, (uint64_t)zn_json_integer(value));
		zn_term_put(t, text);
	}
	zn_term_putf(t, " in %llu %s", (unsigned long long)zn_json_integer(count), of_what);
}

/* The innermost functions, in one line: "for example in ncclX (libnccl.so.2), for cat (libtorch.so), ..." */
static void put_example(struct zn_term *t, struct zn_str line)
{
	struct zn_str list = zn_path_find(line, "native_example"), key, function;
	char name[TEXT_MAX], file[TEXT_MAX];
	size_t at = 0;
	int i;

	for (i = 0; zn_json_next(list, &at, &key, &function); i++) {
		if (i == EXAMPLE_MAX) {
			zn_term_put(t, ", ...");
			break;
		}
		zn_term_put(t, i ? ", for " : "         for example in ");
		zn_term_put(t, zn_path_text(function, "function", name, sizeof(name)));
		if (*zn_path_text(function, "file", file, sizeof(file)) && strcmp(file, "-"))
			zn_term_putf(t, " (%s)", file);
	}
	if (i)
		zn_term_end(t);
}

static void put_line(struct zn_term *t, struct zn_str line, bool seconds, const char *of_what)
{
	char percent[ZN_UNITS_CELL], thread[TEXT_MAX];

	zn_term_putf(t, "  %3s %%  ", zn_path_text(line, "percent", percent, sizeof(percent)));
	put_place(t, line, false);
	if (zn_path_known(line, "through")) {
		zn_term_put(t, ", through ");
		put_place(t, zn_path_find(line, "through"), true);
	}
	if (zn_path_known(line, "thread"))
		zn_term_putf(t, ", for %s", zn_path_text(line, "thread", thread, sizeof(thread)));
	zn_term_put(t, "  (");
	put_amount(t, line, seconds, of_what);
	zn_term_put(t, ")");
	zn_term_end(t);
	put_example(t, line);
}

static void put_cause(struct zn_term *t, struct zn_str cause)
{
	char says[TEXT_MAX], unit[ZN_UNITS_CELL], counts[ZN_UNITS_CELL];
	struct zn_str list = zn_path_find(cause, "lines"), key, line;
	bool seconds = !strcmp(zn_path_text(cause, "unit", unit, sizeof(unit)), "seconds");
	size_t at = 0;

	zn_term_putf(t, "%s: ", zn_path_text(cause, "says", says, sizeof(says)));
	zn_path_text(cause, "counts", counts, sizeof(counts));
	put_amount(t, cause, seconds, counts);
	zn_term_put(t, zn_str_is(zn_path_find(cause, "estimated"), "true") ? ", estimated" : "");
	zn_term_end(t);
	while (zn_json_next(list, &at, &key, &line))
		put_line(t, line, seconds, counts);
}

/* What has no stacks, and why. */
static void put_unknown(struct zn_term *t, struct zn_str answer)
{
	struct zn_str list = zn_path_find(answer, "unknown"), key, process;
	char pid[ZN_UNITS_CELL], why[TEXT_MAX];
	size_t at = 0;

	while (zn_json_next(list, &at, &key, &process))
		zn_term_line(t, ZN_STYLE_PLAIN, "process %s has no stacks: %s",
			zn_path_text(process, "pid", pid, sizeof(pid)), zn_path_text(process, "why", why, sizeof(why)));
}

/* False: there is nothing to show. */
static bool put_words(struct zn_term *t, struct zn_str answer)
{
	struct zn_str list = zn_path_find(answer, "causes"), key, cause;
	char why[TEXT_MAX], seconds[ZN_UNITS_CELL];
	bool any = false;
	size_t at = 0;

	if (zn_path_known(answer, "why") && strcmp(zn_path_text(answer, "why", why, sizeof(why)), "-"))
		zn_term_line(t, ZN_STYLE_PLAIN, "stacks: %s", why);
	if (zn_path_known(answer, "seconds"))
		zn_term_line(
			t, ZN_STYLE_PLAIN, "the last %s s", zn_path_text(answer, "seconds", seconds, sizeof(seconds)));
	for (; zn_json_next(list, &at, &key, &cause); any = true)
		put_cause(t, cause);
	put_unknown(t, answer);
	if (!any)
		zn_term_line(t, ZN_STYLE_PLAIN, "no Python function has called a GPU library here");
	return any;
}

/* ---- The verb. ---- */

enum form { WORDS, FOLDED, PPROF, SPEEDSCOPE, JSON };
static const char *const flags[] = {
	[FOLDED] = "--folded", [PPROF] = "--pprof", [SPEEDSCOPE] = "--speedscope", [JSON] = "--json"};
static const char *const paths[] = {
	"/stacks", "/stacks/folded", "/debug/pprof/profile", "/stacks/speedscope", "/stacks"};

struct arguments {
	struct zn_client_args client;
	enum form form;
	const char *cause, *seconds;
};

static bool is_form(struct arguments *a, const char *text)
{
	for (enum form f = FOLDED; f <= JSON; f++)
		if (!strcmp(text, flags[f])) {
			a->form = f;
			return true;
		}
	return false;
}

/* 0, or the exit status. */
static int read_arguments(struct arguments *a, int argc, char **argv)
{
	for (int i = 1, used; i < argc; i += used) {
		used = 1;
		if (is_form(a, argv[i]))
			continue;
		if ((!strcmp(argv[i], "--cause") || !strcmp(argv[i], "--seconds")) && i + 1 < argc) {
			*(argv[i][2] == 'c' ? &a->cause : &a->seconds) = argv[i + 1];
			used = 2;
		} else if ((used = zn_client_argument(&a->client, argv, i)) < 0) {
			return 2;
		}
	}
	return 0;
}

/* 0, or the exit status. job: what is wanted is taken for one. */
static int get_answer(const struct arguments *a, bool job)
{
	char path[ZN_PARAMETER_PATH];
	int status;

	snprintf(path, sizeof(path), "%s", paths[a->form]);
	if (!zn_parameter_add(path, job ? "job" : "pid", a->client.wanted) ||
		!zn_parameter_add(path, "cause", a->cause) || !zn_parameter_add(path, "seconds", a->seconds))
		return zn_client_misused(
			&a->client, "a value that cannot be", a->client.wanted ? a->client.wanted : "");
	status = zn_client_open(&client, &a->client, path, buffer);
	if (status)
		return status;
	client.text = a->form == FOLDED || a->form == PPROF;
	return zn_client_get(&client) ? zn_client_complain(&client, "flame") : 0;
}

static bool answer_has(const char *list)
{
	struct zn_str key, process;
	size_t at = 0;

	return zn_json_next(zn_path_find(client.answer, list), &at, &key, &process);
}

/* A number is a job if processes of one of that id are known, as for `zernel why`; else a process. 0, or the exit
 * status. */
static int get_wanted(const struct arguments *a)
{
	struct arguments ask = *a;
	int status;

	if (!a->client.wanted || strspn(a->client.wanted, "0123456789") != strlen(a->client.wanted))
		return get_answer(a, true);
	ask.form = JSON;
	status = get_answer(&ask, true);
	if (status)
		return status;
	return get_answer(a, answer_has("processes") || answer_has("unknown"));
}

int zn_flame_main(int argc, char **argv)
{
	struct zn_term t = {.out = {.at = lines, .cap = sizeof(lines)}, .cols = INT_MAX};
	struct arguments a = {.client = {.verb = "flame", .usage = USAGE, .of_job = true}};
	bool any;
	int status;

	if (argc > 1 && !strcmp(argv[1], "--help"))
		return puts(USAGE) < 0;
	status = read_arguments(&a, argc, argv);
	if (!status)
		status = get_wanted(&a);
	if (status)
		return status;
	if (a.form == FOLDED || a.form == PPROF)
		return fwrite(client.answer.at, 1, client.answer.len, stdout) != client.answer.len || fflush(stdout);
	if (a.form != WORDS)
		return !zn_client_print(client.answer);
	zn_term_begin(&t);
	any = put_words(&t, client.answer);
	return zn_term_flush(&t) && (any || !a.client.wanted) ? 0 : 1;
}
