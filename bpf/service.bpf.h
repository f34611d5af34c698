/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the engines of a service do, divided among the requests in flight: see struct zn_serving. A part of
 * requests.bpf.c. A begin or an end of a request reads what each engine has done, some 10,000 times a second at most;
 * nothing is done for an event, but that a long answer brings the clock up to date a few times a second.
 */
#ifndef ZN_SERVICE_BPF_H
#define ZN_SERVICE_BPF_H

#define LOCK_TRIES 32
#define REFRESH_NS 250000000
/* In each window as many begins and ends of requests as this bring the clock up to date, and then one in so long. */
#define WINDOW_NS    10000000
#define WINDOW_STEPS 64
#define STEP_NS      200000

static __always_inline struct zn_serving *service_at(__u32 index)
{
	__u32 at = index - 1;

	return index ? bpf_map_lookup_elem(&services, &at) : NULL;
}

/* A thread that is preempted in here keeps it: then the others do without. */
static __always_inline bool service_lock(struct zn_serving *s)
{
	for (int i = 0; i < LOCK_TRIES; i++)
		if (__sync_val_compare_and_swap(&s->lock, 0, 1) == 0)
			return true;
	return false;
}

static __always_inline void service_unlock(struct zn_serving *s)
{
	__sync_lock_test_and_set(&s->lock, 0);
}

static __always_inline __u64 hist_sum(__u32 slot)
{
	struct zn_hist *h = slot ? bpf_map_lookup_elem(&hists, &slot) : NULL;

	return h ? h->sum_ns : 0;
}

/* What lasts in its launching threads. Returns how many these are, which is counted in memory: else the verifier would
 * follow each number of them by itself. */
static __always_inline __u64 states_add(struct zn_serving *s, __u32 row, __u32 id, __u64 now)
{
	struct zn_thread_states *all = bpf_map_lookup_elem(&thread_states, &row);
	volatile __u64 *threads = &s->seen[ZN_WORK_COUNT];

	*threads = 0;
	if (!all)
		return 0;
	for (int i = 0; i < ZN_THREAD_STATES; i++) {
		__u64 word = all->thread[i].word, ready = all->thread[i].ready_ns, since = ZN_THREAD_STATE_SINCE(word);
		__u32 state = ZN_THREAD_STATE_STATE(word);

		if (!word || all->thread[i].id != id)
			continue;
		*threads = *threads + 1;
		if (state >= ZN_STALL_COUNT || since >= now)
			continue;
		if (ready <= since || ready > now)
			ready = now;
		s->seen[(ZN_WORK_STALL + state) & (ZN_WORK_SLOTS - 1)] += ready - since;
		s->seen[ZN_WORK_WAITS_CPU] += now - ready;
	}
	return *threads;
}

/* What the daemon moves meanwhile is not seen at all this time, and not twice: counters are read before shards. */
static __always_inline __u64 launches_of(const struct zn_proc *p)
{
	__u64 all = ZN_LAUNCHES(p->count);

#pragma unroll
	for (int i = 0; i < ZN_SHARDS; i++) {
		__u32 index = p->shard[i];
		struct zn_hist *shard = index ? bpf_map_lookup_elem(&hists, &index) : NULL;

		if (shard)
			all += shard->launches;
	}
	return all;
}

static __always_inline void counters_read(struct zn_serving *s, const struct zn_proc *p)
{
	s->seen[ZN_WORK_LAUNCHES] = launches_of(p);
	s->seen[ZN_WORK_SYSCALLS] = p->count[ZN_C_SYSCALLS];
	s->seen[ZN_WORK_SWITCHES] = p->count[ZN_C_SWITCH_VOLUNTARY] + p->count[ZN_C_SWITCH_INVOLUNTARY];
	s->seen[ZN_WORK_FAULTS] = p->count[ZN_C_FAULTS_MINOR] + p->count[ZN_C_FAULTS_MAJOR];
	s->seen[ZN_WORK_QUEUED] = hist_sum(p->hist[ZN_H_RUNQUEUE]);
	s->seen[ZN_WORK_IOCTL] = hist_sum(p->hist[ZN_H_IOCTL]);
#pragma unroll
	for (int i = 0; i < ZN_STALL_COUNT; i++)
		s->seen[ZN_WORK_STALL + i] = p->count[ZN_C_STALL_CPU + i];
}

/* What an engine has done since it was seen last. A wait whose cause comes out at its end is not of longer ago than
 * that. Not static: verified once. */
__noinline int engine_read(struct zn_serving *s, __u32 i, __u64 now)
{
	struct zn_engine *e;
	struct zn_proc *p;
	__u64 most, threads;
	__u32 row;

	if (!s)
		return 0;
	row = s->row[i & (ZN_ENGINES_MAX - 1)];
	p = bpf_map_lookup_elem(&procs, &row);
	e = bpf_map_lookup_elem(&engines, &row);
	if (!p || !e || p->id != s->row_id[i & (ZN_ENGINES_MAX - 1)])
		return 0;
	counters_read(s, p); /* first: a wait that ends meanwhile is seen short, not twice */
	threads = states_add(s, row, p->id, now);
	most = zn_minus(now, s->at_ns) * (threads ? threads : 1);
	for (__u32 k = 0; k < ZN_WORK_COUNT; k++) {
		__u64 seen = s->seen[k], last = e->last[k], more = seen > last ? seen - last : 0;

		if (k >= ZN_WORK_STALL && more > most)
			more = most;
		if (e->id == p->id)
			s->grown[k] += more;
		if (seen > last || e->id != p->id)
			e->last[k] = seen;
	}
	e->id = p->id;
	return 0;
}

/* Brings the clock up to date, with the lock held. */
__noinline int clock_advance(struct zn_serving *s, __u64 now)
{
	__s32 n;

	if (!s || now <= s->at_ns)
		return 0;
	for (__u32 i = 0; i < ZN_ENGINES_MAX; i++)
		if (i < s->engines)
			engine_read(s, i, now);
	n = s->in_flight;
	for (__u32 k = 0; k < ZN_WORK_COUNT; k++) {
		__u64 more = s->grown[k];

		s->grown[k] = 0;
		if (n > 0) {
			s->clock[k] += (more << ZN_SHARE_BITS) / (__u32)n;
			s->work[k] += more;
		} else {
			s->idle[k] += more;
		}
	}
	if (n > 0)
		s->serving_ns += now - s->at_ns;
	s->at_ns = now;
	return 0;
}

/* ---- requests ---- */

/* The server of the service that asks over a Unix socket has a request of its own for this one. */
static __always_inline bool is_asked_by_service(struct sock *sk, const struct zn_server *server)
{
	__u32 peer = BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr), *at = bpf_map_lookup_elem(&served, &peer), index;
	struct zn_server *other;

	if (!at || peer == server->tgid)
		return false;
	index = *at;
	other = bpf_map_lookup_elem(&servers, &index);
	return other && other->service_at && other->service_at == server->service_at;
}

static __always_inline bool is_nested(const struct zn_request *c, const struct zn_server *server)
{
	__u32 at = server->above - 1;
	struct zn_server *above = server->above ? bpf_map_lookup_elem(&servers, &at) : NULL;

	return c->nested || (above && above->begun && above->service_at == server->service_at);
}

/* Brings the clock up to date as a request begins or ends, with the lock held: so often at most where there are very
 * many. What was done since the last time is then divided among those in flight at the next one, all of it, so the sums
 * stay what they are; no request is said to be exact whose begin or end was left out. */
static __always_inline bool clock_step(struct zn_serving *s, __u64 now)
{
	if (zn_minus(now, s->window_ns) >= WINDOW_NS) {
		s->window_ns = now;
		s->steps = 0;
	}
	if (s->steps >= WINDOW_STEPS && zn_minus(now, s->at_ns) < STEP_NS)
		return false;
	s->steps++;
	clock_advance(s, now);
	return true;
}

/* Not static: verified once. */
__noinline int share_begin(struct zn_request *c, __u32 index, __u64 now)
{
	struct zn_serving *s = service_at(index);
	bool locked, steps;

	if (!c || !s || !s->id)
		return 0;
	locked = service_lock(s);
	steps = locked && clock_step(s, now);
	c->alone = __sync_fetch_and_add(&s->in_flight, 1) == 0 && steps;
	c->begun = __sync_fetch_and_add(&s->begun, 1) + 1;
	for (__u32 k = 0; k < ZN_WORK_COUNT; k++)
		c->share[k] = s->clock[k];
	c->service_id = s->id;
	c->service = index;
	if (locked)
		service_unlock(s);
	return 0;
}

static __always_inline void shares_give(struct zn_serving *s, struct zn_request *c)
{
	for (__u32 k = 0; k < ZN_WORK_COUNT; k++) {
		__u64 share = s->clock[k] - c->share[k];
		__u64 part = s->given_part[k] + (share & ((1 << ZN_SHARE_BITS) - 1));

		s->given[k] += (share >> ZN_SHARE_BITS) + (part >> ZN_SHARE_BITS);
		s->given_part[k] = part & ((1 << ZN_SHARE_BITS) - 1);
		c->share[k] = share;
	}
}

/* The place of a request that took so long, among the slowest; NULL: it is none of them. */
static __always_inline struct zn_slow_request *slow_place(struct zn_serving *s, __u64 ns)
{
	__u32 of = s->slow_of & 1, at = s->slow_count;

	if (at < ZN_SLOWEST) {
		s->slow_count = at + 1;
		return &s->slowest[of][at];
	}
	at = 0;
	for (__u32 i = 1; i < ZN_SLOWEST; i++)
		if (s->slowest[of][i].ns < s->slowest[of][at & 15 ? (at < ZN_SLOWEST ? at : 0) : 0].ns)
			at = i;
	return at < ZN_SLOWEST && s->slowest[of][at].ns < ns ? &s->slowest[of][at] : NULL;
}

static __always_inline void slow_keep(
	struct zn_serving *s, const struct zn_request *c, __u32 route_code, bool exact, __u64 at)
{
	__u64 ns = zn_minus(at, c->start_ns);
	struct zn_slow_request *to = slow_place(s, ns);
	__u32 index = c->server;
	struct zn_server *server = bpf_map_lookup_elem(&servers, &index);

	if (!to)
		return;
	to->ns = ns;
	to->end_ns = at;
	to->first_ns = c->events ? zn_minus(c->first_event_ns, c->read_ns) : 0;
	to->unread_ns = c->unread_ns;
	for (__u32 k = 0; k < ZN_WORK_COUNT; k++)
		to->share[k] = c->share[k];
	to->tgid = server ? server->tgid : 0;
	to->events = c->events;
	to->route = route_code & 0xffff;
	to->code = route_code >> 16;
	to->held = c->held;
	to->exact = exact;
}

/* A request ends that was counted: once. */
static __always_inline void share_end(struct zn_request *c, __u32 route_code, __u64 at)
{
	struct zn_serving *s = service_at(c->service);
	bool locked, steps, exact;

	if (!s || s->id != c->service_id)
		return;
	c->service = 0;
	locked = service_lock(s);
	steps = locked && clock_step(s, at);
	exact = steps && c->alone && s->begun == c->begun;
	ZN_ADD(s->in_flight, -1);
	ZN_ADD(s->done, 1);
	ZN_ADD(s->open_ns, zn_minus(at, c->start_ns));
	if (!locked)
		return;
	if (exact)
		s->exact++;
	shares_give(s, c);
	slow_keep(s, c, route_code, exact, at);
	service_unlock(s);
}

/* An event of a long answer. */
static __always_inline void share_refresh(struct zn_request *c, __u64 now)
{
	struct zn_serving *s = service_at(c->service);

	if (!s || s->id != c->service_id || zn_minus(now, s->at_ns) < REFRESH_NS || !service_lock(s))
		return;
	clock_advance(s, now);
	service_unlock(s);
}

#endif
