/* SPDX-License-Identifier: GPL-2.0 */
/*
 * annotate.c: `zernel annotate`: a program says of itself which step, epoch or phase it is in. The calling program
 * has other things to do, so the verb waits for a second at most.
 */
#include "zernel.h"
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                                          \
	"usage: zernel annotate KEY=VALUE... [--pid N] [--id JOB] [--control PATH]\n"                                  \
	"  KEY=VALUE   up to 8 labels of the job, as step=1200 or phase=evaluation; KEY= takes one away\n"             \
	"  --pid N     of which process it is said, one of your own; else of the one that calls this program\n"        \
	"  --id JOB    of which job, one of your own; else of the one that the process belongs to\n"                   \
	"  --control   the daemon's socket; else as in /etc/zernel.conf\n"                                             \
	"Labels are shown by zernel why, in the job's report and in the record of a hang; nothing depends on them.\n"
#define EXIT_USAGE  2
#define PATIENCE_NS ZN_NS_PER_S

static int fail_usage(const char *what, const char *argument)
{
	fprintf(stderr, "zernel: annotate: %s '", what);
	for (size_t i = 0; argument[i] && i < 64; i++)
		fputc(argument[i] < ' ' || argument[i] > '~' ? '?' : argument[i], stderr);
	fputs("'; zernel annotate --help says what there is\n", stderr);
	return EXIT_USAGE;
}

/* 0, or the exit status. */
static int say_key(struct zn_call *c, enum zn_key key, const char *value)
{
	char why[ZN_TEXT_MAX];

	if (c->message.value[key][0])
		return fail_usage("a second value of", zn_key_name(key));
	if (!zn_message_check(key, value, why))
		return fail_usage(why, value);
	zn_message_set(&c->message, key, value);
	return 0;
}

/* A comma ends a value where labels are sent together. */
static int add_label(struct zn_call *c, const char *label)
{
	char *labels = c->message.value[ZN_KEY_LABELS], all[ZN_VALUE_BYTES], why[ZN_TEXT_MAX];
	int len = snprintf(all, sizeof(all), "%s%s%s", labels, *labels ? "," : "", label);

	if (strchr(label, ','))
		return fail_usage("a label has no comma:", label);
	if (len >= (int)sizeof(all))
		return fail_usage("the labels together are longer than 256 bytes, from here on:", label);
	if (!zn_message_check(ZN_KEY_LABELS, all, why))
		return fail_usage(why, label);
	zn_message_set(&c->message, ZN_KEY_LABELS, all);
	return 0;
}

static bool is_option(const char *option, size_t len, const char *name)
{
	return strlen(name) == len && !memcmp(option, name, len);
}

/* The value stands behind '=' or is the next argument. */
static int take_option(struct zn_call *c, const char *option, const char *next)
{
	size_t len = strcspn(option, "=");
	const char *value = option[len] ? option + len + 1 : next;

	if (!is_option(option, len, "--pid") && !is_option(option, len, "--id") && !is_option(option, len, "--control"))
		return fail_usage("unknown option", option);
	if (!value)
		return fail_usage("a value must follow", option);
	if (is_option(option, len, "--pid"))
		return say_key(c, ZN_KEY_PID, value);
	if (is_option(option, len, "--id"))
		return say_key(c, ZN_KEY_ID, value);
	return zn_call_at(c, value) ? 0
				    : fail_usage("--control must be an absolute path of up to 107 bytes, not", value);
}

static int take_arguments(struct zn_call *c, int argc, char **argv)
{
	int status = 0;

	for (int i = 1; i < argc && !status; i++) {
		if (*argv[i] != '-') {
			status = strchr(argv[i], '=') ? add_label(c, argv[i]) : fail_usage("no KEY=VALUE:", argv[i]);
			continue;
		}
		status = take_option(c, argv[i], argv[i + 1]);
		i += !strchr(argv[i], '=');
	}
	if (!status && !c->message.value[ZN_KEY_LABELS][0])
		return fail_usage("a label must follow:", "KEY=VALUE");
	return status;
}

int zn_annotate_main(int argc, char **argv)
{
	static struct zn_call c;
	struct zn_out o = {.at = c.text, .cap = sizeof(c.text)};
	int status;

	if (argc > 1 && !strcmp(argv[1], "--help"))
		return fputs(USAGE, stdout) < 0;
	c.fd = -1;
	c.deadline_ns = zn_now_ns() + PATIENCE_NS;
	c.message.verb = ZN_VERB_ANNOTATE;
	zn_options_control(c.socket);
	status = take_arguments(&c, argc, argv);
	if (status)
		return status;
	if (!c.message.value[ZN_KEY_PID][0])
		zn_message_set(&c.message, ZN_KEY_PARENT, "1");
	zn_message_write(&o, &c.message);
	c.len = o.len;
	if (zn_call(&c) == ZN_CALL_ANSWERED)
		return EXIT_SUCCESS;
	fprintf(stderr, "zernel: annotate: %s\n", c.why);
	return EXIT_FAILURE;
}
