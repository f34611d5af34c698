/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ports_test.c: counters of ports since the daemon came: the first look, a wrap, a counter that was set back, ports
 * that go and come, and more of them than there is room for.
 */
#include <string.h>

#include "zernel.h"
#include "t.h"

static struct zn_ports ports;

static struct zn_port_reading reading_of(const char *device, uint32_t port)
{
	struct zn_port_reading r = {.port = port, .active = 1, .mbit = 200000};

	snprintf(r.device, sizeof(r.device), "%s", device);
	snprintf(r.link, sizeof(r.link), "InfiniBand");
	return r;
}

static void set_counter(struct zn_port_reading *r, enum zn_port_counter c, uint64_t v)
{
	r->known |= 1ULL << c;
	r->value[c] = v;
}

static const struct {
	const char *name;
	enum zn_port_counter counter;
	uint64_t before, now, want;
} steps[] = {
	{"words are four bytes", ZN_PORT_COUNTER_SENT, 1000, 1003, 12},
	{"nothing", ZN_PORT_COUNTER_SENT, 7, 7, 0},
	{"errors are one each", ZN_PORT_COUNTER_SYMBOL, 1, 6, 5},
	{"a wrap of 32 bits", ZN_PORT_COUNTER_SYMBOL, 0xfffffffe, 3, 5},
	{"a wrap of 32 bits, of words", ZN_PORT_COUNTER_RECEIVED, 0xffffffff, 1, 8},
	{"set back", ZN_PORT_COUNTER_SYMBOL, 1000, 4, 4},
	{"set back from beyond 32 bits", ZN_PORT_COUNTER_SENT, 1ULL << 40, 2, 8},
	{"set back from the middle of 32 bits", ZN_PORT_COUNTER_DOWNED, 0x80000000, 0, 0},
	{"beyond 32 bits", ZN_PORT_COUNTER_SENT, 0xffffffff, 0x100000000, 4},
};

T(what_is_added)
{
	for (size_t i = 0; i < ZN_LEN(steps); i++) {
		struct zn_port_reading r = reading_of("mlx5_0", 1);
		const struct zn_port *p;

		t_begin(steps[i].name);
		ports = (struct zn_ports){0};
		set_counter(&r, steps[i].counter, steps[i].before);
		zn_ports_take(&ports, &r, 1, 0, 1);
		CHECK_EQ(zn_ports_at(&ports, 0)->total[steps[i].counter], 0);
		set_counter(&r, steps[i].counter, steps[i].now);
		zn_ports_take(&ports, &r, 1, 0, 1);
		p = zn_ports_at(&ports, 0);
		CHECK(p && p->counted == 1ULL << steps[i].counter);
		CHECK_EQ(p->total[steps[i].counter], steps[i].want);
	}
}

/* A file that is missing for a while, and comes back. */
T(a_counter_that_is_missing)
{
	struct zn_port_reading r = reading_of("mlx5_0", 1);

	ports = (struct zn_ports){0};
	set_counter(&r, ZN_PORT_COUNTER_SYMBOL, 5);
	zn_ports_take(&ports, &r, 1, 0, 1);
	r.known = 0;
	zn_ports_take(&ports, &r, 1, 0, 1);
	set_counter(&r, ZN_PORT_COUNTER_SYMBOL, 9);
	zn_ports_take(&ports, &r, 1, 0, 1);
	CHECK_EQ(zn_ports_at(&ports, 0)->total[ZN_PORT_COUNTER_SYMBOL], 4);
	CHECK_EQ(ports.sum[2], 4);
}

T(ports_that_go_and_come)
{
	struct zn_port_reading r[ZN_PORTS_MAX + 1];

	ports = (struct zn_ports){0};
	for (uint32_t i = 0; i < ZN_LEN(r); i++)
		r[i] = reading_of("rocep1s0", i);
	zn_ports_take(&ports, r, ZN_PORTS_MAX + 1, 1, 1);
	CHECK_EQ(ports.count, ZN_PORTS_MAX);
	CHECK_EQ(ports.beyond, 1);
	zn_ports_take(&ports, r + 1, ZN_PORTS_MAX - 1, 0, 1); /* the first one has gone */
	CHECK(!zn_ports_at(&ports, 0));
	CHECK(zn_ports_at(&ports, 1) && zn_ports_at(&ports, 1)->now.port == 1);
	zn_ports_take(&ports, r + 1, ZN_PORTS_MAX, 0, 1); /* two rounds later its place is free for the last one */
	CHECK(zn_ports_at(&ports, 0) && zn_ports_at(&ports, 0)->now.port == ZN_PORTS_MAX);
	CHECK(!zn_ports_at(&ports, ZN_PORTS_MAX));
}

/* What the process that reads has written is taken as it is, but never beyond its ends. */
T(a_reading_without_ends)
{
	struct zn_port_reading r;

	memset(&r, 0x41, sizeof(r));
	ports = (struct zn_ports){0};
	zn_ports_take(&ports, &r, 1, 0, 1);
	CHECK_EQ(strlen(zn_ports_at(&ports, 0)->now.device), sizeof(r.device) - 1);
	CHECK_EQ(strlen(zn_ports_at(&ports, 0)->now.link), sizeof(r.link) - 1);
}

int main(void)
{
	what_is_added();
	RUN(a_counter_that_is_missing);
	RUN(ports_that_go_and_come);
	RUN(a_reading_without_ends);
	return t_end();
}
