/* SPDX-License-Identifier: GPL-2.0 */
/* status.c: `zernel status`, the health of a daemon as plain lines: itself, what each family is attached to, and
 * whether its receivers can be reached. */
#include "zernel.h"

#include <limits.h>
#include <string.h>

#define USAGE     "usage: zernel status [http://ADDRESS:PORT | unix:PATH] [--token-file FILE]"
#define VALUE_MAX 512

static void put_value(struct zn_term *t, struct zn_str health, const char *key)
{
	char value[VALUE_MAX];

	zn_term_line(t, ZN_STYLE_PLAIN, "%-12s %s", key, zn_path_text(health, key, value, sizeof(value)));
}

static void put_uptime(struct zn_term *t, struct zn_str health)
{
	char span[ZN_UNITS_CELL] = "-";

	if (zn_path_known(health, "uptime_s"))
		zn_units_span(span, zn_json_integer(zn_path_find(health, "uptime_s")));
	zn_term_line(t, ZN_STYLE_PLAIN, "%-12s %s", "uptime", span);
}

/* ": " and the reason, or nothing. */
static const char *put_reason(struct zn_str object, char to[VALUE_MAX])
{
	memcpy(to, ": ", 2);
	zn_path_text(object, "why", to + 2, VALUE_MAX - 2);
	return strcmp(to, ": -") ? to : "";
}

static void put_library(struct zn_term *t, struct zn_str library)
{
	char attached[ZN_UNITS_CELL], symbols[ZN_UNITS_CELL], path[VALUE_MAX], why[VALUE_MAX];

	zn_term_line(t, ZN_STYLE_PLAIN, "%-12s %s of %s functions of %s%s", "",
		zn_path_text(library, "attached", attached, sizeof(attached)),
		zn_path_text(library, "symbols", symbols, sizeof(symbols)),
		zn_path_text(library, "path", path, sizeof(path)), put_reason(library, why));
}

static void put_family(struct zn_term *t, struct zn_str probe)
{
	char family[ZN_UNITS_CELL], state[ZN_UNITS_CELL], why[VALUE_MAX];
	struct zn_str libraries = zn_path_find(probe, "libraries"), key, library;
	size_t at = 0;

	zn_term_line(t, ZN_STYLE_PLAIN, "%-12s %s%s", zn_path_text(probe, "family", family, sizeof(family)),
		zn_path_text(probe, "state", state, sizeof(state)), put_reason(probe, why));
	while (zn_json_next(libraries, &at, &key, &library))
		put_library(t, library);
}

static void put_outbound(struct zn_term *t, struct zn_str outbound)
{
	char to[ZN_UNITS_CELL], state[ZN_UNITS_CELL], down[ZN_UNITS_CELL], all[ZN_UNITS_CELL];

	zn_term_line(t, ZN_STYLE_PLAIN, "%-12s %s: %s of %s down", zn_path_text(outbound, "to", to, sizeof(to)),
		zn_path_text(outbound, "state", state, sizeof(state)),
		zn_path_text(outbound, "down", down, sizeof(down)),
		zn_path_text(outbound, "destinations", all, sizeof(all)));
}

static bool print_health(struct zn_str health)
{
	static char lines[1 << 16];
	struct zn_term t = {.out = {.at = lines, .cap = sizeof(lines)}, .cols = INT_MAX};
	struct zn_str probes = zn_path_find(health, "probes"), outbound = zn_path_find(health, "outbound"), key, item;
	size_t at = 0;

	zn_term_begin(&t);
	put_value(&t, health, "node");
	put_value(&t, health, "source");
	put_value(&t, health, "version");
	put_uptime(&t, health);
	put_value(&t, health, "status");
	while (zn_json_next(probes, &at, &key, &item))
		put_family(&t, item);
	for (at = 0; zn_json_next(outbound, &at, &key, &item);)
		put_outbound(&t, item);
	return zn_term_flush(&t);
}

int zn_status_main(int argc, char **argv)
{
	static char buffer[ZN_CLIENT_BUFFER];
	static struct zn_client c;
	struct zn_client_args args = {.verb = "status", .usage = USAGE};

	for (int i = 1, used; i < argc; i += used) {
		if (!strcmp(argv[i], "--help"))
			return puts(USAGE) < 0;
		used = zn_client_argument(&args, argv, i);
		if (used < 0)
			return 2;
	}
	if (zn_client_open(&c, &args, "/health", buffer))
		return 2;
	c.also = 503;
	if (zn_client_get(&c))
		return zn_client_complain(&c, "status");
	return print_health(c.answer) && c.status == 200 ? 0 : 1;
}
