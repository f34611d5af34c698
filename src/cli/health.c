/* SPDX-License-Identifier: GPL-2.0 */
/*
 * health.c: `zernel health`: one line and an exit status on whether a node should get jobs, for checks of node health.
 * A node is faulty by the alerts that fire and are about it and not about a program.
 */
#include "zernel.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                                          \
	"usage: zernel health [--nhc] [http://ADDRESS:PORT | unix:PATH] [--token-file FILE]\n"                         \
	"  exit status: 0 well, 1 a fault of the node, 2 not known: no daemon answers, another user has\n"             \
	"  its port, it asks for a token, or has just started"
#define LINE_BYTES 480

static char buffer[ZN_CLIENT_BUFFER], lines[1 << 12];
static struct zn_client client;

/* Alerts that are faults of the node: all of a name, or those of one error. */
static const struct {
	const char *name, *error;
} faults[] = {
	{"gpu_ghost", NULL},
	{"gpu_lost", NULL},
	{"gpu_hardware_errors", NULL},
	{"gpu_driver_not_answering", NULL},
	{"gpu_amdgpu", "reset_failed"},
	{"gpu_amdgpu", "uncorrectable"},
	{"gpu_amdgpu", "deferred"},
};

static bool is_fault(struct zn_str alert, const char *name)
{
	char error[32];

	zn_path_text(alert, "error", error, sizeof(error));
	for (size_t i = 0; i < ZN_LEN(faults); i++)
		if (!strcmp(name, faults[i].name) && (!faults[i].error || !strcmp(error, faults[i].error)))
			return true;
	return false;
}

/* An XID that is a program's doing says nothing of the node. */
static bool is_of_node(struct zn_str alert, const char *name)
{
	const struct zn_xid_about *about;
	char xid[16];

	if (is_fault(alert, name))
		return true;
	if (strcmp(name, "gpu_xid"))
		return false;
	zn_path_text(alert, "xid", xid, sizeof(xid));
	about = zn_xid_about((uint32_t)strtoul(xid, NULL, 10), zn_path_known(alert, "nonfatal"));
	return about && !strcmp(about->severity, "critical");
}

/* What a program may bring about without a fault of the node, so it is told, and drains none: a library of its own says
 * that a context is lost; a call of the driver does not come back, as its argument lies in a page of a file on FUSE, or
 * on a file server that hangs; amdgpu reports a page fault at an address that is not the program's, and a ring that
 * timed out and a reset that went well after a kernel without an end. */
static bool is_of_program(struct zn_str alert, const char *name)
{
	return !strcmp(name, "cuda_context_lost") || !strcmp(name, "driver_unresponsive") ||
		(!strcmp(name, "gpu_amdgpu") && !is_of_node(alert, name));
}

/* The alerts that are so, in a line; how many there are. */
static uint32_t find_alerts(
	struct zn_str answer, bool (*is_so)(struct zn_str alert, const char *name), struct zn_out *o)
{
	struct zn_str list = zn_path_find(answer, "alerts"), key, alert;
	char name[48], state[16], summary[200];
	uint32_t count = 0;

	for (size_t at = 0; zn_json_next(list, &at, &key, &alert);) {
		zn_path_text(alert, "alert", name, sizeof(name));
		if (strcmp(zn_path_text(alert, "state", state, sizeof(state)), "firing") || !is_so(alert, name))
			continue;
		zn_out_text(o, count++ ? "; " : "");
		zn_out_text(o, name);
		zn_out_text(o, ": ");
		zn_out_text(o, zn_path_text(alert, "summary", summary, sizeof(summary)));
	}
	return count;
}

static int print_result(const char *word, const char *text, int status)
{
	struct zn_term t = {.out = {.at = lines, .cap = sizeof(lines)}, .cols = INT_MAX};

	zn_term_begin(&t);
	zn_term_line(&t, ZN_STYLE_PLAIN, "%s: zernel: %s", word, text);
	return zn_term_flush(&t) ? status : 2;
}

/* 0, or the exit status. */
static int get_path(const struct zn_client_args *args, const char *path)
{
	int status = zn_client_open(&client, args, path, buffer);

	client.also = 503;
	if (status)
		return 2;
	if (!zn_client_get(&client))
		return 0;
	zn_client_complain(&client, "health");
	return 2;
}

/* A daemon that says no is not one that is away: its own words. */
static int print_unanswered(void)
{
	char text[LINE_BYTES] = "the daemon does not answer";

	if (client.refused)
		snprintf(text, sizeof(text), "%s: %s", client.name, client.why);
	return print_result("ERROR", text, 2);
}

static bool is_loading(struct zn_str health)
{
	char status[48];

	return !strcmp(zn_path_text(health, "status", status, sizeof(status)), "loading");
}

int zn_health_main(int argc, char **argv)
{
	struct zn_client_args args = {.verb = "health", .usage = USAGE};
	char text[LINE_BYTES + 1];
	struct zn_out o = {.at = text, .cap = LINE_BYTES};

	for (int i = 1, used = 1; i < argc; i += used, used = 1) {
		if (!strcmp(argv[i], "--help"))
			return puts(USAGE) < 0;
		if (strcmp(argv[i], "--nhc") && (used = zn_client_argument(&args, argv, i)) < 0)
			return 2;
	}
	if (get_path(&args, "/health"))
		return print_unanswered();
	if (is_loading(client.answer)) /* for seconds, and that is no fault of the node */
		return print_result("ERROR", "the daemon has just started", 2);
	if (client.status != 200)
		return print_result("ERROR", "the daemon is not well, see zernel status", 1);
	if (get_path(&args, "/alerts"))
		return print_unanswered();
	if (find_alerts(client.answer, is_of_node, &o)) {
		text[o.len] = 0;
		return print_result("ERROR", text, 1);
	}
	zn_out_text(&o, "no fault of the node; ");
	if (!find_alerts(client.answer, is_of_program, &o))
		o.len -= strlen("; ");
	text[o.len] = 0;
	return print_result("OK", text, 0);
}
