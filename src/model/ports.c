/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ports.c: the ports of InfiniBand and RoCE devices: what each sent, received and found wrong since the daemon came.
 *
 * Limits: a counter that goes back was set back, and what it had lost before is not known; one of 32 bits that goes
 * back from its last quarter to its first has wrapped. Ports beyond ZN_PORTS_MAX are not shown, and as
 * long as there are such, jobs have no bytes.
 */
#include <string.h>

#include "zernel.h"

static const struct {
	enum zn_port_group group;
	const char *label, *file;
} counters[] = {
#define X(e, group, label, file) {ZN_PORT_##group, label, file},
	ZN_PORT_COUNTERS(X)
#undef X
};

const char *zn_port_label(enum zn_port_counter c)
{
	return counters[c].label;
}

const char *zn_port_file(enum zn_port_counter c)
{
	return counters[c].file;
}

enum zn_port_group zn_port_group(enum zn_port_counter c)
{
	return counters[c].group;
}

/* Data is counted in words of four bytes. */
static uint64_t more_of(enum zn_port_counter c, uint64_t before, uint64_t now)
{
	uint64_t more = now - before;

	if (now < before)
		more = before >> 30 == 3 && now >> 30 == 0 ? (1ULL << 32) - before + now : now;
	return counters[c].group == ZN_PORT_BYTES ? more * 4 : more;
}

/* The place of a counter in the sums over all ports; -1: it is in none. */
static int sum_of(enum zn_port_counter c)
{
	if (c == ZN_PORT_COUNTER_SENT || c == ZN_PORT_COUNTER_RECEIVED)
		return c == ZN_PORT_COUNTER_RECEIVED;
	return counters[c].group == ZN_PORT_ERRORS ? 2 : -1;
}

static void add_counters(struct zn_ports *p, struct zn_port *to, const struct zn_port_reading *r)
{
	for (enum zn_port_counter c = 0; c < ZN_PORT_COUNTER_COUNT; c++) {
		uint64_t bit = 1ULL << c, more;
		int sum = sum_of(c);

		if (!(r->known & bit))
			continue;
		if (sum >= 0)
			p->summed |= 1u << sum;
		if (to->counted & bit) {
			more = more_of(c, to->now.value[c], r->value[c]);
			to->total[c] += more;
			if (sum >= 0)
				p->sum[sum] += more;
		}
		to->counted |= bit;
		to->now.value[c] = r->value[c];
	}
	to->now.known = r->known;
	to->now.active = r->active;
	to->now.mbit = r->mbit;
	memcpy(to->now.link, r->link, sizeof(to->now.link));
}

/* Its place; else that of a port that has gone, or a new one; NULL: there is no room. */
static struct zn_port *place_port(struct zn_ports *p, const struct zn_port_reading *r)
{
	struct zn_port *free = NULL;

	for (uint32_t i = 0; i < p->count; i++) {
		struct zn_port *at = &p->port[i];

		if (at->now.port == r->port && !strcmp(at->now.device, r->device))
			return at;
		if (at->round != p->round && at->round + 1 != p->round)
			free = at;
	}
	if (!free && p->count < ZN_PORTS_MAX)
		free = &p->port[p->count++];
	if (free) {
		*free = (struct zn_port){0};
		memcpy(free->now.device, r->device, sizeof(free->now.device));
		free->now.port = r->port;
	}
	return free;
}

void zn_ports_take(struct zn_ports *p, const struct zn_port_reading *r, uint32_t count, uint32_t beyond, uint64_t at_ns)
{
	p->round++;
	p->at_ns = at_ns;
	p->beyond = beyond;
	for (uint32_t i = 0; i < count && i < ZN_PORTS_MAX; i++) {
		struct zn_port_reading one = r[i];
		struct zn_port *to;

		one.device[sizeof(one.device) - 1] = one.link[sizeof(one.link) - 1] = 0;
		to = place_port(p, &one);
		if (!to)
			continue;
		add_counters(p, to, &one);
		to->round = p->round;
	}
}

const struct zn_port *zn_ports_at(const struct zn_ports *p, uint32_t i)
{
	return i < p->count && p->port[i].round == p->round ? &p->port[i] : NULL;
}
