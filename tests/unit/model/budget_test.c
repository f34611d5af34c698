/* SPDX-License-Identifier: GPL-2.0 */
/* budget_test.c: what is spared of processes that cost too much, and when it is measured again, over plain memory. */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <string.h>

#define SLOTS   20 /* of a look */
#define PERCENT (ZN_NS_PER_S / 100)
#define FILE_NS 250

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_budget budget;

static uint32_t row_of(const struct zn_proc *p)
{
	return (uint32_t)(p - memory.arena.procs);
}

static void start(uint64_t ppm, uint32_t cpus)
{
	struct zn_options options = {.overhead_budget = ppm};

	clock_ns = 1000 * ZN_NS_PER_S;
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	memset(&agg, 0, sizeof(agg));
	zn_agg_init(&agg, &memory.arena);
	zn_budget_init(&budget, &agg, &options, cpus);
	budget.file_ns = FILE_NS;
	budget.call_ns = 100;
}

/* What one process does in a second, as programs would count it. */
struct load {
	struct zn_proc *p;
	uint64_t walk_ns, switch_ns, reads, calls, launches;
	uint64_t launch_walk_ns; /* of each launch whose return is there */
};

static bool is_spared(const struct zn_proc *p, enum zn_spare part)
{
	CHECK(!(p->calls & ZN_SPARES(part)) || memory.arena.shared->spared & ZN_SPARES(part));
	return p->calls & ZN_SPARES(part);
}

static void do_launches(struct zn_proc *p, uint64_t count)
{
	p->count[ZN_C_LAUNCH_KERNEL] += count;
	p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_PUSH)] += count;
	if (is_spared(p, ZN_SPARE_LAUNCHES))
		p->count[ZN_C_LAUNCH_UNTIMED] += count;
}

static void do_slot(const struct load *l)
{
	struct zn_spent *s = &memory.arena.shared->spent[row_of(l->p)];

	do_launches(l->p, l->launches / SLOTS);
	l->p->count[ZN_C_SYSCALLS] += l->calls / SLOTS;
	if (!is_spared(l->p, ZN_SPARE_STACKS))
		s->walk_ns += l->walk_ns / SLOTS;
	if (!is_spared(l->p, ZN_SPARE_STACKS) && !is_spared(l->p, ZN_SPARE_LAUNCHES))
		s->walk_ns += l->launches / SLOTS * l->launch_walk_ns;
	if (is_spared(l->p, ZN_SPARE_SWITCHES))
		s->spared_ns += l->switch_ns / 4 / SLOTS;
	else
		s->switch_ns += l->switch_ns / SLOTS;
	if (!is_spared(l->p, ZN_SPARE_FILES))
		l->p->count[ZN_C_IO_READ_CALLS] += l->reads / SLOTS;
}

static void seconds(int n, const struct load *load, size_t count)
{
	for (int i = 0; i < n * SLOTS; i++) {
		for (size_t at = 0; at < count; at++)
			do_slot(&load[at]);
		clock_ns += ZN_NS_PER_S / SLOTS;
		zn_budget_slot(&budget, clock_ns);
		if (i % SLOTS)
			continue;
		zn_agg_tick(&agg, clock_ns);
		zn_budget_tick(&budget, clock_ns);
	}
}

static const struct zn_spent *spent(const struct zn_proc *p)
{
	return zn_spare_spent(&memory.arena, row_of(p), p->id);
}

static uint32_t duty(const struct zn_proc *p, enum zn_spare part)
{
	return zn_spare_duty(&memory.arena.shared->spent[row_of(p)], part);
}

static uint64_t cost(const struct zn_proc *p)
{
	return zn_budget_cost(&budget, row_of(p), p->id);
}

T(what_costs_little_is_left_alone)
{
	struct load l = {.walk_ns = PERCENT / 4, .switch_ns = PERCENT / 4, .reads = PERCENT / 4 / FILE_NS};

	start(10000, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(30, &l, 1);
	CHECK(!spent(l.p));
	CHECK_EQ(memory.arena.shared->spared, 0);
	CHECK(cost(l.p) > PERCENT / 2 && cost(l.p) < PERCENT);
}

/* What says least for its cost comes first, and what is counted anyway goes on. */
T(stacks_are_spared_before_switches_and_those_before_files)
{
	struct load l = {.walk_ns = PERCENT, .switch_ns = PERCENT / 4, .reads = PERCENT / 4 / FILE_NS};

	start(10000, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(5, &l, 1);
	CHECK(duty(l.p, ZN_SPARE_STACKS) < ZN_DUTY_ONE / 2);
	CHECK_EQ(duty(l.p, ZN_SPARE_SWITCHES), ZN_DUTY_ONE);
	CHECK_EQ(duty(l.p, ZN_SPARE_FILES), ZN_DUTY_ONE);
	l.switch_ns = 2 * PERCENT;
	seconds(5, &l, 1);
	CHECK(duty(l.p, ZN_SPARE_SWITCHES) < ZN_DUTY_ONE / 2);
	CHECK_EQ(duty(l.p, ZN_SPARE_FILES), ZN_DUTY_ONE);
	CHECK(cost(l.p) <= PERCENT);
}

T(it_costs_its_budget_within_five_seconds)
{
	struct load l = {.walk_ns = PERCENT / 2, .switch_ns = 3 * PERCENT};

	start(10000, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(5, &l, 1);
	CHECK(cost(l.p) <= PERCENT);
	seconds(60, &l, 1);
	CHECK(cost(l.p) <= PERCENT);
	CHECK(cost(l.p) > PERCENT / 2);
}

/* A load that stays as it is, but for a few per cent, changes nothing any more. */
T(it_does_not_swing)
{
	struct load l = {.switch_ns = 3 * PERCENT};
	uint32_t first;

	start(10000, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(5, &l, 1);
	first = duty(l.p, ZN_SPARE_SWITCHES);
	CHECK(first < ZN_DUTY_ONE);
	for (int i = 0; i < 60; i++) {
		l.switch_ns = 3 * PERCENT + (i % 2 ? 1 : -1) * (PERCENT / 20);
		seconds(1, &l, 1);
		CHECK_EQ(duty(l.p, ZN_SPARE_SWITCHES), first);
	}
}

T(it_steps_up_once_there_is_room_and_says_what_it_has_not_seen)
{
	struct load l = {.switch_ns = 5 * PERCENT};
	uint64_t lived_ns;

	start(10000, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(20, &l, 1);
	l.switch_ns = PERCENT / 10;
	seconds(5, &l, 1);
	CHECK(duty(l.p, ZN_SPARE_SWITCHES) < ZN_DUTY_ONE);
	seconds(60, &l, 1);
	CHECK_EQ(duty(l.p, ZN_SPARE_SWITCHES), ZN_DUTY_ONE);
	CHECK_EQ(memory.arena.shared->spared, 0);
	CHECK_EQ(l.p->calls, 0);
	CHECK(spent(l.p));
	lived_ns = 85 * ZN_NS_PER_S;
	CHECK(zn_spare_seen(spent(l.p), ZN_SPARE_SWITCHES, lived_ns) < 900);
	CHECK_EQ(zn_spare_seen(spent(l.p), ZN_SPARE_FILES, lived_ns), 1000);
}

T(a_storm_takes_nothing_from_its_neighbours)
{
	struct load l[] = {{.switch_ns = 50 * PERCENT, .reads = 1000000}, {.switch_ns = PERCENT / 3, .reads = 1009},
		{.walk_ns = PERCENT / 3}};

	start(10000, 4);
	for (size_t i = 0; i < ZN_LEN(l); i++)
		l[i].p = zn_memory_claim(&memory, 100 + (uint32_t)i, "python3");
	seconds(30, l, ZN_LEN(l));
	CHECK(spent(l[0].p));
	CHECK(!spent(l[1].p));
	CHECK(!spent(l[2].p));
	CHECK_EQ(l[1].p->count[ZN_C_IO_READ_CALLS], 30 * SLOTS * (l[1].reads / SLOTS));
}

/* Of so many slots, how many are measured: of even ones and of odd ones; and the longest gap. */
static void slots(const struct zn_proc *p, uint32_t part, int count, int seen[2], int *gap)
{
	int last = 0;

	seen[0] = seen[1] = *gap = 0;
	memory.arena.shared->spent[row_of(p)].duty[ZN_SPARE_SWITCHES] = (uint16_t)part;
	for (int i = 0; i < count; i++) {
		clock_ns += ZN_NS_PER_S / SLOTS;
		zn_budget_slot(&budget, clock_ns);
		if (is_spared(p, ZN_SPARE_SWITCHES))
			continue;
		seen[i % 2]++;
		*gap = i - last > *gap ? i - last : *gap;
		last = i;
	}
}

/* A program whose step takes two slots is seen in both halves of it. */
T(slots_are_not_a_pattern)
{
	struct load l = {0};
	int seen[2], gap;

	start(10000, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(2, &l, 1);
	slots(l.p, ZN_DUTY_ONE / 2, 2000, seen, &gap);
	CHECK(seen[0] > 400 && seen[0] < 600 && seen[1] > 400 && seen[1] < 600);
	CHECK(seen[0] + seen[1] >= 999 && seen[0] + seen[1] <= 1001);
	CHECK(gap > 1 && gap <= 4);
	slots(l.p, ZN_BUDGET_LEAST, 64 * 1000, seen, &gap);
	CHECK(seen[0] + seen[1] >= 999 && seen[0] + seen[1] <= 1001);
	CHECK(gap > 64 && gap <= 128);
	slots(l.p, ZN_DUTY_ONE, 100, seen, &gap);
	CHECK_EQ(seen[0] + seen[1], 100);
}

/* More processes than processors: who needs less than the others leaves the rest to them. */
T(the_nodes_budget_is_shared_by_process)
{
	struct load l[] = {{.switch_ns = 3 * PERCENT}, {.switch_ns = 3 * PERCENT}, {.switch_ns = 3 * PERCENT},
		{.switch_ns = PERCENT / 5}};
	uint64_t all = 0;

	start(10000, 2);
	for (size_t i = 0; i < ZN_LEN(l); i++)
		l[i].p = zn_memory_claim(&memory, 100 + (uint32_t)i, "python3");
	seconds(30, l, ZN_LEN(l));
	CHECK(!spent(l[3].p));
	for (size_t i = 0; i < ZN_LEN(l); i++)
		all += cost(l[i].p);
	CHECK_EQ(duty(l[0].p, ZN_SPARE_SWITCHES), duty(l[1].p, ZN_SPARE_SWITCHES));
	CHECK_EQ(duty(l[0].p, ZN_SPARE_SWITCHES), duty(l[2].p, ZN_SPARE_SWITCHES));
	CHECK(spent(l[0].p));
	CHECK(all <= 3 * PERCENT); /* 0.25 of each switch is left, which is more than there is for all of them */
}

/* Who has many processes takes nothing from who has one. */
T(the_nodes_budget_is_shared_by_owner_first)
{
	struct load l[65] = {{0}};

	start(10000, 4);
	for (size_t i = 0; i < ZN_LEN(l); i++) {
		l[i].p = zn_memory_claim(&memory, 100 + (uint32_t)i, "python3");
		l[i].p->owner = i ? 1001 : 1002;
		l[i].switch_ns = i ? 3 * PERCENT : PERCENT * 9 / 10;
	}
	seconds(30, l, ZN_LEN(l));
	CHECK(!spent(l[0].p));
	for (size_t i = 1; i < ZN_LEN(l); i++)
		CHECK_EQ(duty(l[i].p, ZN_SPARE_SWITCHES), ZN_BUDGET_LEAST);
}

/* What one owner leaves is the others'; each shares his part among his own. */
T(an_owners_processes_share_his_part)
{
	struct load l[] = {{.walk_ns = PERCENT}, {.walk_ns = PERCENT}, {.walk_ns = PERCENT}, {.walk_ns = PERCENT},
		{.walk_ns = PERCENT / 10}, {.walk_ns = PERCENT / 2}};
	static const uint32_t owner[] = {1001, 1001, 1001, 1001, 1001, 1002};

	start(10000, 3);
	for (size_t i = 0; i < ZN_LEN(l); i++) {
		l[i].p = zn_memory_claim(&memory, 100 + (uint32_t)i, "python3");
		l[i].p->owner = owner[i];
	}
	seconds(30, l, ZN_LEN(l));
	CHECK(!spent(l[4].p) && !spent(l[5].p));
	for (size_t i = 0; i < 4; i++) { /* 2.4 % are left for four */
		CHECK_EQ(duty(l[i].p, ZN_SPARE_STACKS), duty(l[0].p, ZN_SPARE_STACKS));
		CHECK(cost(l[i].p) > PERCENT / 2 && cost(l[i].p) <= PERCENT * 6 / 10);
	}
}

/* System calls and hooked calls are not spared: what is has half of the budget then, for else it would be lost for
 * nothing. */
T(what_cannot_be_spared_leaves_the_rest_its_half)
{
	struct load l = {.switch_ns = PERCENT / 3, .calls = 1000000};

	start(10000, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(30, &l, 1);
	CHECK(!spent(l.p));
	CHECK(cost(l.p) > 9 * PERCENT);
	CHECK_EQ(l.p->count[ZN_C_SYSCALLS], 30 * l.calls);
}

/* They are counted all the same, which has its cost: what else there is shares half of the budget. */
T(returns_of_launches_are_spared_last)
{
	struct load l = {.switch_ns = PERCENT / 3, .launches = 20000};
	uint64_t whole = 0;

	start(10000, 4);
	memory.arena.shared->cost_ns[ZN_INSN_PUSH] = 1000;
	memory.arena.shared->return_ns = 400;
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(3, &l, 1);
	whole = agg.info[row_of(l.p)].cost_rate;
	CHECK(whole > 1900 * ZN_NS_PER_MS / 100 * 1000 && whole < 2100 * ZN_NS_PER_MS / 100 * 1000);
	seconds(3, &l, 1);
	CHECK(duty(l.p, ZN_SPARE_LAUNCHES) > ZN_DUTY_ONE / 3 && duty(l.p, ZN_SPARE_LAUNCHES) < ZN_DUTY_ONE * 3 / 4);
	CHECK_EQ(duty(l.p, ZN_SPARE_SWITCHES), ZN_BUDGET_LEAST);
	seconds(30, &l, 1);
	CHECK_EQ(l.p->count[ZN_C_LAUNCH_KERNEL], 36 * l.launches);
	CHECK(agg.info[row_of(l.p)].cost_rate < whole * 9 / 10);
	CHECK(agg.info[row_of(l.p)].cost_rate >= whole * 6 / 10);
	CHECK(cost(l.p) < PERCENT / 2); /* launches are not in it: they are among the hooked calls */
	l.launches = 1000;
	seconds(60, &l, 1);
	CHECK_EQ(duty(l.p, ZN_SPARE_LAUNCHES), ZN_DUTY_ONE);
	CHECK_EQ(memory.arena.shared->spared, 0);
	CHECK(zn_spare_seen(spent(l.p), ZN_SPARE_LAUNCHES, 96 * ZN_NS_PER_S) < 900);
}

/* Walks are at the returns of launches: what they cost is known of slots in which these are there, and nothing swings. */
T(stacks_are_seen_with_launches)
{
	struct load l = {.launches = 20000, .launch_walk_ns = 250};
	uint32_t first;

	start(10000, 4);
	memory.arena.shared->cost_ns[ZN_INSN_PUSH] = 1000;
	memory.arena.shared->return_ns = 400;
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(10, &l, 1);
	first = duty(l.p, ZN_SPARE_STACKS);
	CHECK(first <= duty(l.p, ZN_SPARE_LAUNCHES) && duty(l.p, ZN_SPARE_LAUNCHES) < ZN_DUTY_ONE);
	for (int i = 0; i < 60; i++) {
		seconds(1, &l, 1);
		CHECK_EQ(duty(l.p, ZN_SPARE_STACKS), first);
	}
	CHECK(spent(l.p)->unseen_ns[ZN_SPARE_STACKS] >= spent(l.p)->unseen_ns[ZN_SPARE_LAUNCHES]);
}

T(without_sessions_launches_are_not_spared)
{
	struct load l = {.launches = 100000};

	start(10000, 4);
	memory.arena.shared->cost_ns[ZN_INSN_PUSH] = 1000;
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(30, &l, 1);
	CHECK(!spent(l.p));
	CHECK_EQ(l.p->count[ZN_C_LAUNCH_UNTIMED], 0);
}

T(a_budget_of_none_spares_nothing)
{
	struct load l = {.walk_ns = 50 * PERCENT, .switch_ns = 50 * PERCENT, .reads = 1000000};

	start(0, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	seconds(30, &l, 1);
	CHECK(!spent(l.p));
	CHECK_EQ(l.p->calls, 0);
}

/* The row is another one's: nothing is left of what was spared of the one before. */
T(the_next_process_of_a_row_begins_whole)
{
	struct load l = {.switch_ns = 5 * PERCENT};
	uint32_t row;

	start(10000, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	row = row_of(l.p);
	seconds(10, &l, 1);
	CHECK(spent(l.p));
	l.p->exit_ns = clock_ns;
	zn_agg_tick(&agg, clock_ns);
	l.p = zn_memory_claim(&memory, 200, "python3");
	CHECK_EQ(row_of(l.p), row);
	CHECK(!spent(l.p));
	l.switch_ns = PERCENT / 10;
	seconds(2, &l, 1);
	CHECK(!spent(l.p));
	CHECK_EQ(l.p->calls, 0);
	CHECK_EQ(memory.arena.shared->spared, 0);
}

/* ---- servers ---- */

static uint32_t add_server(uint32_t tgid)
{
	struct zn_server server = {.tgid = tgid, .owner = 7};
	int at = memory.arena.ops->server_add(&memory.arena, &server);

	CHECK(at >= 0);
	return (uint32_t)at;
}

/* In each second requests cost so much, those that are only counted so much. */
static void serve(int n, uint32_t at, uint64_t read_ns, uint64_t passed_ns)
{
	const struct zn_server *server = &memory.arena.servers[at];
	struct zn_spent *s = &memory.arena.shared->spent[ZN_SPENT_SERVER(at)];

	for (int i = 0; i < n * SLOTS; i++) {
		CHECK(!server->spares || memory.arena.shared->spared & ZN_SPARES(ZN_SPARE_REQUESTS));
		if (server->spares)
			s->spared_ns += passed_ns / SLOTS;
		else
			s->request_ns += read_ns / SLOTS;
		clock_ns += ZN_NS_PER_S / SLOTS;
		zn_budget_slot(&budget, clock_ns);
		CHECK_EQ(server->slot_ns, clock_ns);
		if (i % SLOTS)
			continue;
		zn_agg_tick(&agg, clock_ns);
		zn_budget_tick(&budget, clock_ns);
	}
}

static uint32_t server_duty(uint32_t at)
{
	return zn_spare_duty(&memory.arena.shared->spent[ZN_SPENT_SERVER(at)], ZN_SPARE_REQUESTS);
}

static uint64_t server_cost(uint32_t at)
{
	return zn_budget_cost(&budget, ZN_SPENT_SERVER(at), memory.arena.servers[at].id);
}

T(a_server_has_its_requests_read_as_far_as_its_budget_goes)
{
	uint32_t at, other;

	start(10000, 4);
	at = add_server(100);
	other = add_server(200);
	serve(20, at, PERCENT / 2, PERCENT / 10);
	CHECK_EQ(server_duty(at), ZN_DUTY_ONE);
	serve(20, at, 5 * PERCENT, PERCENT / 10);
	CHECK(server_duty(at) < ZN_DUTY_ONE / 4);
	CHECK(server_cost(at) > PERCENT / 2 && server_cost(at) <= PERCENT);
	CHECK(zn_spare_told(&memory.arena.shared->spent[ZN_SPENT_SERVER(at)], ZN_SPARE_REQUESTS));
	CHECK_EQ(server_duty(other), ZN_DUTY_ONE);
	CHECK(!zn_spare_spent(&memory.arena, ZN_SPENT_SERVER(other), memory.arena.servers[other].id));
	serve(20, at, 50 * PERCENT, 2 * PERCENT); /* to count them is too much already */
	CHECK_EQ(server_duty(at), ZN_BUDGET_LEAST);
	serve(30, at, PERCENT / 2, PERCENT / 10);
	CHECK_EQ(server_duty(at), ZN_DUTY_ONE);
	CHECK_EQ(memory.arena.servers[at].spares, 0);
}

/* Frames are read always: then nothing is won by reading fewer. */
T(requests_that_cost_the_same_are_read_all_the_time)
{
	uint32_t at;

	start(10000, 4);
	at = add_server(100);
	serve(30, at, 5 * PERCENT, 5 * PERCENT);
	CHECK_EQ(server_duty(at), ZN_DUTY_ONE);
	for (int i = 0; i < 30; i++) {
		serve(1, at, 5 * PERCENT, 5 * PERCENT);
		CHECK_EQ(server_duty(at), ZN_DUTY_ONE);
	}
}

T(what_a_server_costs_is_in_what_its_process_does)
{
	struct load l = {.walk_ns = PERCENT / 4};
	uint32_t at;

	start(10000, 4);
	l.p = zn_memory_claim(&memory, 100, "python3");
	at = add_server(100);
	serve(5, at, PERCENT / 2, 0);
	CHECK(zn_budget_knows(&budget, ZN_SPENT_SERVER(at), memory.arena.servers[at].id));
	CHECK(cost(l.p) > PERCENT * 2 / 5 && cost(l.p) < PERCENT * 3 / 5);
	at = add_server(200);
	serve(5, at, PERCENT / 2, 0);
	CHECK(cost(l.p) < PERCENT / 100);
	CHECK(server_cost(at) > PERCENT * 2 / 5);
}

int main(void)
{
	RUN(what_costs_little_is_left_alone);
	RUN(stacks_are_spared_before_switches_and_those_before_files);
	RUN(it_costs_its_budget_within_five_seconds);
	RUN(it_does_not_swing);
	RUN(it_steps_up_once_there_is_room_and_says_what_it_has_not_seen);
	RUN(a_storm_takes_nothing_from_its_neighbours);
	RUN(slots_are_not_a_pattern);
	RUN(the_nodes_budget_is_shared_by_process);
	RUN(the_nodes_budget_is_shared_by_owner_first);
	RUN(an_owners_processes_share_his_part);
	RUN(what_cannot_be_spared_leaves_the_rest_its_half);
	RUN(returns_of_launches_are_spared_last);
	RUN(stacks_are_seen_with_launches);
	RUN(without_sessions_launches_are_not_spared);
	RUN(a_budget_of_none_spares_nothing);
	RUN(the_next_process_of_a_row_begins_whole);
	RUN(a_server_has_its_requests_read_as_far_as_its_budget_goes);
	RUN(requests_that_cost_the_same_are_read_all_the_time);
	RUN(what_a_server_costs_is_in_what_its_process_does);
	return t_end();
}
