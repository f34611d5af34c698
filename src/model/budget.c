/* SPDX-License-Identifier: GPL-2.0 */
/*
 * budget.c: what the probes may cost a process, and what is spared to keep to it. Once a second the cost of each part
 * is known: what was measured where it runs, or hits at their calibrated cost. Where all of it is too much for a
 * process, what says least for its cost is measured in a part of the time: so many slots of a twentieth of a second.
 * Nothing is scaled up for that; how much of the time was seen is told with the figures.
 *
 * It steps down after OVER_S looks with too high a cost, to BELOW of the budget, and up again only when more could be
 * had for ROOM of it at ROOM_S looks in a row: a load that stays as it is changes nothing any more.
 *
 * Limits: of hooked calls of libraries, whose probes stand in a file for all processes, launches alone are spared, and
 * of these what their returns cost; nothing is of system calls, where the kernel's way to the program is nearly all of
 * the cost. They are paid first; the parts have what is left, and half of the budget in any case, for else they would
 * be lost and nothing won.
 * Sums of switches are of the process and its data loader's workers. What the requests of a server cost has a budget of
 * its own, beside that of the same process for all else.
 */
#include "zernel.h"
#include <stdio.h>
#include <string.h>

#define PPM        1000000u
#define OVER_S     2
#define ROOM_S     10
#define BELOW      90 /* percent */
#define ROOM       80
#define SMALL      20                  /* a part that costs less than one in so many of the budget is always measured */
#define SEEN_LEAST (20 * ZN_NS_PER_MS) /* of a look: less of a part says nothing about its cost */
#define LOG_NS     (60 * ZN_NS_PER_S)
#define FILE_LEFT                                                                                                      \
	2 /* of what a read costs, one in so many is left where it is spared: the kernel's way to the programs */

uint32_t zn_spare_duty(const struct zn_spent *s, enum zn_spare part)
{
	return s->duty[part] ? s->duty[part] : ZN_DUTY_ONE;
}

uint32_t zn_spare_now(const struct zn_spent *s, enum zn_spare part)
{
	return zn_spare_duty(s, part) * 1000 / ZN_DUTY_ONE;
}

bool zn_spare_told(const struct zn_spent *s, enum zn_spare part)
{
	return s->unseen_ns[part] || zn_spare_duty(s, part) < ZN_DUTY_ONE;
}

uint32_t zn_spare_seen(const struct zn_spent *s, enum zn_spare part, uint64_t lived_ns)
{
	uint64_t unseen_ns = s->unseen_ns[part] < lived_ns ? s->unseen_ns[part] : lived_ns;

	if (!s->unseen_ns[part])
		return 1000;
	return lived_ns ? (uint32_t)((lived_ns - unseen_ns) / (lived_ns / 1000 + 1)) : 0;
}

static bool is_whole(const struct zn_spent *s)
{
	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++)
		if (zn_spare_duty(s, i) < ZN_DUTY_ONE)
			return false;
	return true;
}

const struct zn_spent *zn_spare_spent(const struct zn_arena *a, uint32_t row, uint32_t id)
{
	const struct zn_spent *s = &a->shared->spent[row];

	if (s->id != id)
		return NULL;
	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++)
		if (zn_spare_told(s, i))
			return s;
	return NULL;
}

void zn_budget_init(struct zn_budget *b, struct zn_agg *agg, const struct zn_options *options, uint32_t cpus)
{
	zn_pages_clear(b, sizeof(*b));
	b->agg = agg;
	b->ppm = options->overhead_budget;
	b->cpus = cpus ? cpus : 1;
	b->random = zn_now_ns() | 1;
}

/* Who pays: a process, or a server. */
struct payer {
	uint32_t row, id, owner, tgid;
	const struct zn_proc *proc; /* NULL: it is a server */
	uint32_t *spares;           /* what has the bits of ZN_SPARES() */
};

static bool server_read(const struct zn_arena *a, uint32_t i, struct payer *to)
{
	struct zn_server *s = a->servers ? &a->servers[i] : NULL;

	if (!s || !s->id || s->gone_ns)
		return false;
	*to = (struct payer){
		.row = ZN_SPENT_SERVER(i), .id = s->id, .owner = s->owner, .tgid = s->tgid, .spares = &s->spares};
	return true;
}

/* i: below the number of rows in use and that of servers. */
static bool payer_read(const struct zn_budget *b, uint32_t i, struct payer *to)
{
	const struct zn_agg *agg = b->agg;
	struct zn_proc *p = i < agg->row_count ? zn_arena_proc(agg->arena, agg->row[i]) : NULL;

	if (i >= agg->row_count)
		return server_read(agg->arena, i - agg->row_count, to);
	if (!p)
		return false;
	*to = (struct payer){
		.row = agg->row[i], .id = p->id, .owner = p->owner, .tgid = p->tgid, .proc = p, .spares = &p->calls};
	return true;
}

#define EACH_PAYER(b, y)                                                                                               \
	for (uint32_t payer_ = 0; payer_ < (b)->agg->row_count + ZN_SERVERS_MAX; payer_++)                             \
		if (payer_read(b, payer_, &(y)))

static struct zn_spent *spent_of(const struct zn_budget *b, uint32_t row)
{
	return &b->agg->arena->shared->spent[row];
}

static uint64_t part_of(uint64_t whole, uint32_t part, uint32_t of)
{
	return (uint64_t)((__uint128_t)whole * part / of);
}

/* ---- What it costs. ---- */

static uint64_t per_second(uint64_t sum, uint64_t of_ns)
{
	return (uint64_t)((__uint128_t)sum * ZN_NS_PER_S / (of_ns + !of_ns));
}

static uint64_t hooked_of(const struct zn_budget *b, uint32_t row)
{
	return b->agg->info[row].cost_rate / 1000;
}

/* What the returns of launches took so far; 0: they cannot be spared. A launch is counted before it is said not to have
 * been timed. */
static uint64_t launches_of(const struct zn_budget *b, const struct zn_proc *p)
{
	uint64_t untimed = __atomic_load_n(&p->count[ZN_C_LAUNCH_UNTIMED], __ATOMIC_ACQUIRE);

	return (ZN_LAUNCHES(p->count) + p->count[ZN_C_LAUNCH_CAPTURED] - untimed) * b->agg->arena->shared->return_ns;
}

static uint64_t files_of(const struct zn_proc *p)
{
	return p->count[ZN_C_IO_READ_CALLS] + p->count[ZN_C_IO_WRITE_CALLS];
}

/* What each part has taken so far. */
static void sums_read(
	const struct zn_budget *b, const struct zn_spent *s, const struct zn_proc *p, uint64_t to[ZN_SPARE_COUNT])
{
	to[ZN_SPARE_STACKS] = s->walk_ns;
	to[ZN_SPARE_SWITCHES] = s->switch_ns;
	to[ZN_SPARE_FILES] = p ? files_of(p) * b->file_ns : 0;
	to[ZN_SPARE_REQUESTS] = s->request_ns;
	to[ZN_SPARE_LAUNCHES] = p ? launches_of(b, p) : 0;
}

static uint64_t calls_of(const struct zn_proc *p)
{
	return p ? p->count[ZN_C_SYSCALLS] : 0;
}

static void row_begin(struct zn_budget *b, const struct payer *y)
{
	struct zn_budget_row *r = &b->row[y->row];
	struct zn_spent *s = spent_of(b, y->row);

	*r = (struct zn_budget_row){.id = y->id, .spared_before = s->spared_ns, .calls_before = calls_of(y->proc)};
	memset(s->unseen_ns, 0, sizeof(s->unseen_ns));
	memset(s->duty, 0, sizeof(s->duty));
	s->id = y->id;
	sums_read(b, s, y->proc, r->before);
	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++)
		__atomic_fetch_and(y->spares, ~ZN_SPARES(i), __ATOMIC_RELAXED);
}

/* Of a part whose cost is also measured where it is spared. */
static void floor_read(struct zn_budget_row *r, enum zn_spare part, const struct zn_spent *s, uint64_t unseen_ns)
{
	bool is_measured = part == ZN_SPARE_SWITCHES || part == ZN_SPARE_REQUESTS;

	if (is_measured && unseen_ns >= SEEN_LEAST)
		r->floor[part] = per_second(s->spared_ns - r->spared_before, unseen_ns);
}

/* Of a part that was seen in none of the slots of this look, what is known of it stays. */
static void costs_read(struct zn_budget *b, const struct payer *y, uint64_t elapsed_ns)
{
	struct zn_budget_row *r = &b->row[y->row];
	struct zn_spent *s = spent_of(b, y->row);
	uint64_t now[ZN_SPARE_COUNT], unseen_ns, seen_ns, more = 0, hooked = y->proc ? hooked_of(b, y->row) : 0,
							  returns;

	sums_read(b, s, y->proc, now);
	r->calls = zn_counter_advance(&r->calls_before, calls_of(y->proc)) * b->call_ns * ZN_NS_PER_MS /
		(elapsed_ns / 1000 + 1);
	r->full = 0;
	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++) {
		more = zn_counter_advance(&r->before[i], now[i]);
		unseen_ns = zn_counter_advance(&r->unseen_before[i], s->unseen_ns[i]);
		seen_ns = elapsed_ns > unseen_ns ? elapsed_ns - unseen_ns : 0;
		if (seen_ns >= SEEN_LEAST)
			r->cost[i] = per_second(more, seen_ns);
		floor_read(r, i, s, unseen_ns);
		r->full += r->cost[i];
	}
	returns = per_second(more, elapsed_ns); /* of launches, the last part */
	r->fixed = (hooked > returns ? hooked - returns : 0) + r->calls;
	r->full += r->fixed;
	r->spared_before = s->spared_ns;
	r->floor[ZN_SPARE_FILES] = r->cost[ZN_SPARE_FILES] / FILE_LEFT;
}

static uint64_t floor_of(const struct zn_budget_row *r, enum zn_spare part)
{
	return r->floor[part] < r->cost[part] ? r->floor[part] : r->cost[part];
}

static uint64_t cost_at(const struct zn_budget_row *r, enum zn_spare part, uint32_t duty)
{
	uint64_t least = floor_of(r, part);

	return least + part_of(r->cost[part] - least, duty, ZN_DUTY_ONE);
}

/* Of all but launches, which are among the hooked calls. */
static uint64_t parts_cost(const struct zn_budget_row *r, const struct zn_spent *s)
{
	uint64_t ns = 0;

	for (enum zn_spare i = 0; i < ZN_SPARE_LAUNCHES; i++)
		ns += cost_at(r, i, zn_spare_duty(s, i));
	return ns;
}

uint64_t zn_budget_cost(const struct zn_budget *b, uint32_t row, uint32_t id)
{
	const struct zn_spent *s = spent_of(b, row);

	uint32_t same = b->row[row].same;

	if (b->row[row].id != id || s->id != id)
		return 0;
	return parts_cost(&b->row[row], s) + b->row[row].calls +
		(same && row < ZN_PROCS_MAX ? parts_cost(&b->row[same - 1], spent_of(b, same - 1)) : 0);
}

bool zn_budget_knows(const struct zn_budget *b, uint32_t row, uint32_t id)
{
	return b->row[row].id == id;
}

/* A server may be a process with a row as well. */
static void same_find(struct zn_budget *b)
{
	const struct zn_agg *agg = b->agg;
	struct payer y;

	EACH_PAYER(b, y)
	{
		b->row[y.row].same = 0;
		for (uint32_t i = 0; !y.proc && i < agg->row_count; i++) {
			const struct zn_proc *p = zn_arena_proc(agg->arena, agg->row[i]);

			if (!p || p->tgid != y.tgid)
				continue;
			b->row[y.row].same = agg->row[i] + 1;
			b->row[agg->row[i]].same = y.row + 1;
		}
	}
}

/* ---- What a process may cost. ---- */

static uint64_t least_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* So much each may have of a whole: who needs less than the others leaves the rest to them. After so many rounds it may
 * be a little too low. UINT64_MAX: there is enough for all. */
static uint64_t level_of(const uint64_t *want, uint32_t count, uint64_t whole)
{
	uint64_t level = 0, before = UINT64_MAX;

	for (int round = 0; round < 16 && level != before; round++) {
		uint64_t small = 0;
		uint32_t large = 0;

		for (uint32_t i = 0; i < count; i++)
			if (want[i] <= level)
				small += want[i];
			else
				large++;
		if (!large)
			return UINT64_MAX;
		before = level;
		level = whole > small ? (whole - small) / large : 0;
	}
	return level;
}

static struct zn_budget_owner *owner_of(struct zn_budget *b, uint32_t id)
{
	for (uint32_t i = 0; i < b->owner_count; i++)
		if (b->owner[i].id == id)
			return &b->owner[i];
	b->owner[b->owner_count] = (struct zn_budget_owner){.id = id};
	return &b->owner[b->owner_count++];
}

/* What the processes of each owner want, of which each has a limit. */
static void wants_read(struct zn_budget *b, uint64_t each)
{
	struct payer y;

	b->owner_count = 0;
	EACH_PAYER(b, y)
	{
		struct zn_budget_owner *o = owner_of(b, y.owner);

		o->want += least_of(b->row[y.row].full, each);
		b->row[y.row].next = o->rows;
		o->rows = y.row + 1;
	}
}

/* An owner's part is shared by his processes and servers. */
static void owner_share(struct zn_budget *b, const struct zn_budget_owner *o, uint64_t each, uint64_t part)
{
	uint64_t want[ZN_SPENT_ROWS], level;
	uint32_t count = 0;

	for (uint32_t at = o->rows; at; at = b->row[at - 1].next)
		want[count++] = least_of(b->row[at - 1].full, each);
	level = level_of(want, count, part);
	for (uint32_t at = o->rows; at; at = b->row[at - 1].next)
		b->row[at - 1].allowed = least_of(level, each);
}

/* All together have the node's budget. It is shared by owner first, so that nobody has more by having more processes. */
static void allowances_find(struct zn_budget *b)
{
	uint64_t each = b->ppm * (ZN_NS_PER_S / PPM), want[ZN_SPENT_ROWS], level;

	wants_read(b, each);
	for (uint32_t i = 0; i < b->owner_count; i++)
		want[i] = b->owner[i].want;
	level = level_of(want, b->owner_count, each * b->cpus);
	for (uint32_t i = 0; i < b->owner_count; i++)
		owner_share(b, &b->owner[i], each, level);
}

/* In what part of the time each may be measured for so much. What is spared last is paid for first. */
static void target_find(const struct zn_budget_row *r, uint64_t budget, uint32_t to[ZN_SPARE_COUNT])
{
	uint64_t left = r->fixed < budget / 2 ? budget - r->fixed : budget / 2, least = 0;

	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++)
		least += floor_of(r, i);
	left = left > least ? left - least : 0;
	for (int i = ZN_SPARE_COUNT - 1; i >= 0; i--) {
		uint64_t more = r->cost[i] - floor_of(r, (enum zn_spare)i), duty = ZN_DUTY_ONE;

		if (more > left && more > budget / SMALL)
			duty = left * ZN_DUTY_ONE / more;
		to[i] = duty < ZN_BUDGET_LEAST ? ZN_BUDGET_LEAST : (uint32_t)duty;
		more = part_of(more, to[i], ZN_DUTY_ONE);
		left = left > more ? left - more : 0;
	}
	if (to[ZN_SPARE_STACKS] > to[ZN_SPARE_LAUNCHES]) /* a launch whose return is spared has no walk */
		to[ZN_SPARE_STACKS] = to[ZN_SPARE_LAUNCHES];
}

/* Some part has to be measured less: by a twentieth at least, for costs are not the same at any two looks. */
static bool needs_less(const struct zn_spent *s, const uint32_t target[ZN_SPARE_COUNT])
{
	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++)
		if (20 * target[i] < 19 * zn_spare_duty(s, i))
			return true;
	return false;
}

/* Some part could be measured a quarter more, and none would be much less. */
static bool gives_more(const struct zn_spent *s, const uint32_t target[ZN_SPARE_COUNT])
{
	bool more = false;

	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++) {
		uint32_t duty = zn_spare_duty(s, i);

		if (5 * target[i] < 4 * duty)
			return false;
		more |= target[i] == ZN_DUTY_ONE ? duty < ZN_DUTY_ONE : 4 * target[i] >= 5 * duty;
	}
	return more;
}

static void duties_set(struct zn_spent *s, const uint32_t target[ZN_SPARE_COUNT])
{
	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++)
		s->duty[i] = (uint16_t)target[i];
}

static void log_spared(struct zn_budget *b, uint32_t tgid, const struct zn_budget_row *r, uint64_t now_ns)
{
	const struct zn_spent *s = spent_of(b, (uint32_t)(r - b->row));
	char text[128];
	int len = 0;

	if (b->logged_ns && now_ns - b->logged_ns < LOG_NS)
		return;
	b->logged_ns = now_ns;
	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT && len < (int)sizeof(text) - 1; i++)
		if (zn_spare_duty(s, i) < ZN_DUTY_ONE)
			len += snprintf(text + len, sizeof(text) - (size_t)len, "%s %s %u %%", len ? "," : "",
				zn_spare_label(i), zn_spare_duty(s, i) * 100 / ZN_DUTY_ONE);
	zn_log(ZN_INFO,
		"process %u: all of it would cost %llu.%02llu %% of a core, more than --overhead-budget: measured in a "
		"part of the time:%s",
		tgid, (unsigned long long)(r->full / 10000000), (unsigned long long)(r->full / 100000 % 100), text);
}

static void row_decide(struct zn_budget *b, const struct payer *y, uint64_t now_ns)
{
	struct zn_budget_row *r = &b->row[y->row];
	uint64_t allowed = r->allowed;
	struct zn_spent *s = spent_of(b, y->row);
	bool was_whole = is_whole(s);
	uint32_t target[ZN_SPARE_COUNT];

	target_find(r, allowed, target);
	r->over_s = needs_less(s, target) ? r->over_s + 1 : 0;
	target_find(r, allowed / 100 * ROOM, target);
	r->room_s = !was_whole && gives_more(s, target) ? r->room_s + 1 : 0;
	if (r->over_s < OVER_S && r->room_s < ROOM_S)
		return;
	if (r->over_s >= OVER_S)
		target_find(r, allowed / 100 * BELOW, target);
	duties_set(s, target);
	r->over_s = r->room_s = 0;
	if (was_whole && !is_whole(s))
		log_spared(b, y->tgid, r, now_ns);
}

void zn_budget_tick(struct zn_budget *b, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns - b->look_ns;
	struct payer y;

	if (!b->ppm || (b->look_ns && elapsed_ns < ZN_NS_PER_S * 9 / 10))
		return;
	EACH_PAYER(b, y)
	{
		if (b->row[y.row].id != y.id || spent_of(b, y.row)->id != y.id)
			row_begin(b, &y);
		else
			costs_read(b, &y, elapsed_ns);
	}
	same_find(b);
	allowances_find(b);
	EACH_PAYER(b, y)
	{
		if (b->look_ns && b->row[y.row].id == y.id)
			row_decide(b, &y, now_ns);
	}
	b->look_ns = now_ns;
}

/* ---- What is spared until the next slot. ---- */

/* xorshift64 */
static uint32_t next_random(struct zn_budget *b)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return (uint32_t)(b->random >> 32);
}

/* Whether a part is spared in the next slot. In the long run it is measured in its part of the time, and the gap
 * between two slots is at most twice the mean. Which slots it is depends on chance: else a program whose steps take a
 * multiple of a slot would show the same piece of its step again and again. */
static bool is_slot_spared(struct zn_budget *b, int32_t *carry, uint32_t duty)
{
	if (duty == ZN_DUTY_ONE) {
		*carry = 0;
		return false;
	}
	*carry += (int32_t)duty;
	if (*carry < ZN_DUTY_ONE / 2 + (int32_t)(next_random(b) % ZN_DUTY_ONE))
		return true;
	*carry -= ZN_DUTY_ONE;
	return false;
}

/* Stacks are of slots in which launches are timed, for else it were by chance whose stacks are seen. So of these slots
 * it is the part that all in all is theirs. */
static uint32_t slot_duty(const struct zn_spent *s, enum zn_spare part)
{
	uint32_t duty = zn_spare_duty(s, part), of = zn_spare_duty(s, ZN_SPARE_LAUNCHES);

	if (part != ZN_SPARE_STACKS)
		return duty;
	return duty < of ? duty * ZN_DUTY_ONE / of : ZN_DUTY_ONE;
}

static uint32_t slot_spared(struct zn_budget *b, struct zn_budget_row *r, const struct zn_spent *s)
{
	uint32_t spared = 0;

	for (int i = ZN_SPARE_COUNT - 1; i >= 0; i--) {
		bool follows = i == ZN_SPARE_STACKS && spared & ZN_SPARES(ZN_SPARE_LAUNCHES);

		if (follows || is_slot_spared(b, &r->carry[i], slot_duty(s, (enum zn_spare)i)))
			spared |= ZN_SPARES(i);
	}
	return spared;
}

static uint32_t row_slot(struct zn_budget *b, const struct payer *y, uint64_t elapsed_ns)
{
	struct zn_spent *s = spent_of(b, y->row);
	uint32_t was = *y->spares, spared = slot_spared(b, &b->row[y->row], s), all = 0;

	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++) {
		all |= ZN_SPARES(i);
		if (was & ZN_SPARES(i))
			s->unseen_ns[i] += elapsed_ns;
	}
	if (spared & ~was)
		__atomic_fetch_or(y->spares, spared, __ATOMIC_RELAXED);
	if (was & all & ~spared)
		__atomic_fetch_and(y->spares, ~(all & ~spared), __ATOMIC_RELAXED);
	return spared;
}

void zn_budget_slot(struct zn_budget *b, uint64_t now_ns)
{
	uint64_t elapsed_ns = b->slot_ns ? now_ns - b->slot_ns : 0;
	uint32_t spared = 0;
	struct payer y;

	if (!b->ppm)
		return;
	EACH_PAYER(b, y)
	{
		if (!y.proc)
			b->agg->arena->servers[y.row - ZN_PROCS_MAX].slot_ns = now_ns;
		if (b->row[y.row].id == y.id && spent_of(b, y.row)->id == y.id)
			spared |= row_slot(b, &y, elapsed_ns);
	}
	__atomic_store_n(&b->agg->arena->shared->spared, spared, __ATOMIC_RELAXED);
	b->slot_ns = now_ns;
}
