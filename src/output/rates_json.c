/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rates_json.c: what the kernel's counters say of a process, a job and the GPUs' drivers, as JSON.
 */
#include "zernel.h"

/* What JSON calls a counter, and how many decimals it has. */
struct counter_key {
	const char *key;
	enum zn_counter count;
	int decimals;
};

static void key_rate(struct zn_json *j, const char *key, uint64_t v)
{
	if (v == ZN_NOT_KNOWN)
		zn_json_key_null(j, key);
	else
		zn_json_key_scaled(j, key, v, 3);
}

static void key_whole(struct zn_json *j, const char *key, uint64_t per_1000_s)
{
	if (per_1000_s == ZN_NOT_KNOWN)
		zn_json_key_null(j, key);
	else
		zn_json_key_u64(j, key, per_1000_s / 1000);
}

static void key_counts(struct zn_json *j, const struct counter_key *keys, uint32_t n, const __u64 *count)
{
	for (uint32_t i = 0; i < n; i++)
		zn_json_key_scaled(j, keys[i].key, count[keys[i].count], keys[i].decimals);
}

static void put_times(struct zn_json *j, const struct zn_hist *h)
{
	struct zn_summary s = h ? zn_hist_summary(h) : (struct zn_summary){0};

	zn_json_key_u64(j, "count", s.count);
	zn_json_key_scaled(j, "p50_us", s.p50_ns, 3);
	zn_json_key_scaled(j, "p99_us", s.p99_ns, 3);
}

static void key_times(struct zn_json *j, const char *key, const struct zn_hist *h)
{
	zn_json_key_open(j, key, '{');
	put_times(j, h);
	zn_json_close(j, '}');
}

/* Opens the object of a family, unless this kernel has no such family. */
static bool family_open(struct zn_json *j, const struct zn_state *state, const char *key, enum zn_family f)
{
	if (!zn_agg_measures(state->agg, f)) {
		zn_json_key_null(j, key);
		return false;
	}
	zn_json_key_open(j, key, '{');
	return true;
}

#define S 9 /* decimals from nanoseconds to seconds */
static const struct counter_key call_keys[] = {{"count", ZN_C_SYSCALLS, 0}, {"mmap_calls", ZN_C_MMAP_CALLS, 0},
	{"munmap_calls", ZN_C_MUNMAP_CALLS, 0}, {"mmap_bytes", ZN_C_MMAP_BYTES, 0},
	{"munmap_bytes", ZN_C_MUNMAP_BYTES, 0}};
static const struct counter_key sched_keys[] = {{"voluntary", ZN_C_SWITCH_VOLUNTARY, 0},
	{"involuntary", ZN_C_SWITCH_INVOLUNTARY, 0}, {"minor_faults", ZN_C_FAULTS_MINOR, 0},
	{"major_faults", ZN_C_FAULTS_MAJOR, 0}, {"migrations", ZN_C_MIGRATE_CPU, 0},
	{"numa_migrations", ZN_C_MIGRATE_NUMA, 0}, {"offcpu_io_s", ZN_C_OFFCPU_IO, S},
	{"offcpu_futex_s", ZN_C_OFFCPU_FUTEX, S}, {"offcpu_poll_s", ZN_C_OFFCPU_POLL, S},
	{"offcpu_sleep_s", ZN_C_OFFCPU_SLEEP, S}, {"offcpu_other_s", ZN_C_OFFCPU_OTHER, S}};
static const struct counter_key tcp_keys[] = {{"sent_bytes", ZN_C_TCP_SENT, 0},
	{"received_bytes", ZN_C_TCP_RECEIVED, 0}, {"retransmits", ZN_C_TCP_RETRANSMITS, 0}};
#define KEYS(of) of, ZN_LEN(of)

static void calls_json(
	struct zn_json *j, const struct zn_state *state, const struct zn_proc *p, const struct zn_rates *r)
{
	if (!family_open(j, state, "syscalls", ZN_FAM_SYSCALLS))
		return;
	key_counts(j, KEYS(call_keys), p->count);
	key_rate(j, "rate", r->per_1000_s[ZN_RATED_SYSCALLS]);
	key_rate(j, "per_launch", r->syscalls_per_launch);
	key_rate(j, "mmap_churn", r->churn);
	zn_json_close(j, '}');
}

static void sched_json(
	struct zn_json *j, const struct zn_state *state, const struct zn_proc *p, const struct zn_rates *r)
{
	if (!family_open(j, state, "sched", ZN_FAM_SCHED))
		return;
	key_counts(j, KEYS(sched_keys), p->count);
	key_rate(j, "switch_rate", r->per_1000_s[ZN_RATED_SWITCHES]);
	key_rate(j, "switches_per_launch", r->switches_per_launch);
	key_rate(j, "migration_rate", r->per_1000_s[ZN_RATED_MIGRATIONS]);
	key_times(j, "runqueue", zn_arena_hist(state->agg->arena, p->hist[ZN_H_RUNQUEUE]));
	zn_json_close(j, '}');
}

static void tcp_json(struct zn_json *j, const struct zn_state *state, const struct zn_proc *p, const struct zn_rates *r)
{
	if (!family_open(j, state, "tcp", ZN_FAM_NET))
		return;
	key_counts(j, KEYS(tcp_keys), p->count);
	key_whole(j, "sent_rate", r->per_1000_s[ZN_RATED_SENT]);
	key_whole(j, "received_rate", r->per_1000_s[ZN_RATED_RECEIVED]);
	key_times(j, "send", zn_arena_hist(state->agg->arena, p->hist[ZN_H_TCP_SEND]));
	zn_json_close(j, '}');
}

void zn_rates_json(struct zn_json *j, const struct zn_state *state, uint32_t row, const struct zn_proc *p)
{
	struct zn_rates r;

	zn_rates_of(state->rates, row, p->id, &r);
	zn_json_key_open(j, "signals", '{');
	calls_json(j, state, p, &r);
	if (family_open(j, state, "ioctl", ZN_FAM_IOCTL)) {
		put_times(j, zn_arena_hist(state->agg->arena, p->hist[ZN_H_IOCTL]));
		zn_json_close(j, '}');
	}
	sched_json(j, state, p, &r);
	tcp_json(j, state, p, &r);
	zn_json_close(j, '}');
}

void zn_rates_node_json(struct zn_json *j, const struct zn_state *state)
{
	uint64_t contention = zn_rates_contention(state->rates);

	if (!state->rates || !family_open(j, state, "gpu_ioctl", ZN_FAM_IOCTL))
		return;
	zn_json_key_scaled(j, "busy_s", state->rates->gpu.busy_ns, S);
	zn_json_key_scaled(j, "contended_s", state->rates->gpu.contended_ns, S);
	if (contention == ZN_NOT_KNOWN)
		zn_json_key_null(j, "contention");
	else
		zn_json_key_scaled(j, "contention", contention, 6);
	zn_json_close(j, '}');
}

/* Of all processes of a job: sums, and quantiles of merged histograms. */
void zn_rates_job_json(struct zn_json *j, const struct zn_state *state, struct zn_job *job, const uint64_t *count)
{
	static const struct {
		const char *key;
		enum zn_family family;
		const struct counter_key *keys;
		uint32_t n;
		const char *times;
		enum zn_operation operation;
	} parts[] = {
		{"syscalls", ZN_FAM_SYSCALLS, KEYS(call_keys), NULL, 0},
		{"gpu_ioctl", ZN_FAM_IOCTL, NULL, 0, "calls", ZN_H_IOCTL},
		{"sched", ZN_FAM_SCHED, KEYS(sched_keys), "runqueue", ZN_H_RUNQUEUE},
		{"tcp", ZN_FAM_NET, KEYS(tcp_keys), "send", ZN_H_TCP_SEND},
	};

	zn_json_key_open(j, "signals", '{');
	for (uint32_t i = 0; i < ZN_LEN(parts); i++) {
		if (!family_open(j, state, parts[i].key, parts[i].family))
			continue;
		key_counts(j, parts[i].keys, parts[i].n, (const __u64 *)count);
		if (parts[i].times)
			key_times(j, parts[i].times, zn_job_merge(state->jobs, job, parts[i].operation));
		zn_json_close(j, '}');
	}
	zn_json_close(j, '}');
}
