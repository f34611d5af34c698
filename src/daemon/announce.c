/* SPDX-License-Identifier: GPL-2.0 */
/* announce.c: what the log says once the daemon runs: what is absent and why, and where it listens. */
#include "zernel.h"

static void log_kernel_family(const struct zn_options *o, const struct zn_kernel *k, enum zn_family f)
{
	bool asked = o->families >> f & 1;

	if (k->method[f] == ZN_METHOD_NONE && k->why[f][0])
		zn_log(asked ? ZN_WARN : ZN_INFO, "probe: %s: %s; its metrics are absent", zn_family_label(f),
			k->why[f]);
	else if (k->why[f][0])
		zn_log(ZN_INFO, "probe: %s: not all of it is there: %s", zn_family_label(f), k->why[f]);
}

void zn_announce_families(const struct zn_options *o, const struct zn_probe *p)
{
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
		if (!p->available[f])
			zn_log(o->families >> f & 1 ? ZN_WARN : ZN_INFO, "probe: %s: %s; its metrics are absent",
				zn_family_label(f), p->why[f]);
	for (enum zn_family f = ZN_FAMILY_COUNT; f < ZN_FAM_ALL; f++)
		log_kernel_family(o, &p->kernel, f);
}

void zn_announce_no_xids(const struct zn_options *o, int err)
{
	char why[ZN_TEXT_MAX];

	zn_xids_why(o->kmsg, err, why);
	zn_log(ZN_WARN, "xid: %s; errors of GPUs are not counted", why);
}

static const char *some_missing(const struct zn_serve *s)
{
	return s->stats.ports_missing ? " (not all of them yet)" : "";
}

void zn_announce_serving(const struct zn_options *o, const struct zn_serve *s)
{
	char ports[64] = "";
	uint16_t metrics = zn_serve_port(s, false), ws = zn_serve_port(s, true);

	if (metrics || ws) /* none: Unix sockets alone */
		snprintf(ports, sizeof(ports), ", ports %u and %u%s", metrics, ws, some_missing(s));
	zn_log(ZN_INFO, "serving: listening on %s%s; probes are being loaded", o->listen, ports);
}

void zn_announce_ready(const struct zn_options *o, const struct zn_serve *s)
{
	char ports[96] = "";
	uint16_t metrics = zn_serve_port(s, false), ws = zn_serve_port(s, true);

	if (metrics || ws) /* none: Unix sockets alone */
		snprintf(ports, sizeof(ports), "metrics on port %u, WebSocket on port %u%s, ", metrics, ws,
			some_missing(s));
	zn_log(ZN_INFO, "ready: %s data, %slistening on %s, %s", o->simulate ? "simulated" : "live", ports, o->listen,
		s->access.tokens.count ? "asking for a token" : "no token asked for");
}
