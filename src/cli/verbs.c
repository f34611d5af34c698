/* SPDX-License-Identifier: GPL-2.0 */
/* verbs.c: the verbs of `zernel`, what each is for, and which function it is. */
#include <stdlib.h>
#include <string.h>

#include "zernel.h"

#define EXIT_USAGE 2

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} verbs[] = {
	{"watch", zn_watch_main, "a terminal view of a node: zernel watch [URL] [--token-file FILE] [--once] [--json]"},
	{"top", zn_watch_main, "the same, with the file I/O of jobs and mounts first"},
	{"why", zn_why_main, "what jobs lose their time to, and what to do: zernel why [JOB | PID] [URL] [--json]"},
	{"flame", zn_flame_main,
		"which lines of Python time and GPU memory go to: zernel flame [JOB | PID] [--cause CAUSE] [--folded]"},
	{"status", zn_status_main, "whether a node's daemon is well: zernel status [URL] [--token-file FILE]"},
	{"alerts", zn_alertctl_main, "rules of alerts: zernel alerts check|test|defaults; docs/ALERTS.md"},
	{"health", zn_health_main, "one line on whether this node should get jobs: zernel health [--nhc] [URL]"},
	{"ghosts", zn_ghosts_main,
		"processes that hold a GPU which is not theirs: zernel ghosts [URL] [--older SECONDS] [--quiet] [--json]"},
	{"annotate", zn_annotate_main, "what a program says of itself: zernel annotate KEY=VALUE..."},
	{"job", zn_jobctl_main, "jobs of this node and their reports: zernel job start|end|list|show|report|hang"},
};

static int print_usage(FILE *to)
{
	fprintf(to, "usage: zernel VERB\n");
	for (size_t i = 0; i < ZN_LEN(verbs); i++)
		fprintf(to, "  %-8s %s\n", verbs[i].name, verbs[i].help);
	fprintf(to,
		"Without a URL it is this node's daemon, as /etc/zernel.conf or ZERNEL_... have it.\n"
		"The daemon is zerneld; see zerneld --help.\n");
	return to == stdout ? EXIT_SUCCESS : EXIT_USAGE;
}

int zn_verbs_run(int argc, char **argv)
{
	for (size_t i = 0; i < ZN_LEN(verbs); i++)
		if (argc > 1 && strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return print_usage(stdout);
	if (argc > 1)
		fprintf(stderr, "zernel: no verb '%.64s'\n", argv[1]);
	return print_usage(stderr);
}
