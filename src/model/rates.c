/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rates.c: what the kernel's counters of a process say over the last tick, beside its launches; how long GPU drivers
 * were in use, and by two processes at once; and which devices are GPUs. What a tick does not tell is marked as unknown.
 */
#include "zernel.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void signals_of(const struct zn_proc *p, uint64_t to[ZN_SIGNAL_COUNT])
{
	to[ZN_SIGNAL_LAUNCHES] = ZN_LAUNCHES(p->count);
	to[ZN_SIGNAL_SYSCALLS] = p->count[ZN_C_SYSCALLS];
	to[ZN_SIGNAL_MAPPED] = p->count[ZN_C_MMAP_BYTES];
	to[ZN_SIGNAL_UNMAPPED] = p->count[ZN_C_MUNMAP_BYTES];
	to[ZN_SIGNAL_SWITCHES] = p->count[ZN_C_SWITCH_VOLUNTARY] + p->count[ZN_C_SWITCH_INVOLUNTARY];
	to[ZN_SIGNAL_MIGRATIONS] = p->count[ZN_C_MIGRATE_CPU];
	to[ZN_SIGNAL_SENT] = p->count[ZN_C_TCP_SENT];
	to[ZN_SIGNAL_RECEIVED] = p->count[ZN_C_TCP_RECEIVED];
}

static void row_tick(struct zn_signal_row *row, const struct zn_proc *p, uint64_t ns, uint64_t now_ns)
{
	uint64_t lived_ns = now_ns > p->first_ns ? now_ns - p->first_ns : 0, all[ZN_SIGNAL_COUNT];

	if (row->id != p->id)
		*row = (struct zn_signal_row){.id = p->id};
	signals_of(p, all);
	for (uint32_t i = 0; i < ZN_SIGNAL_COUNT; i++) {
		row->tick[i] = all[i] - row->all[i];
		row->all[i] = all[i];
	}
	row->ns = lived_ns < ns ? lived_ns : ns;
}

#define READS 1000 /* of the few loads, until no change fell between them */

bool zn_gpu_calls_read(const struct zn_shared *s, struct zn_gpu_time *to)
{
	const struct zn_gpu_calls *c = &s->gpu_calls;

	for (int i = 0; i < READS; i++) {
		uint64_t done = __atomic_load_n(&c->done, __ATOMIC_ACQUIRE);
		uint64_t busy = __atomic_load_n(&c->busy_ns, __ATOMIC_ACQUIRE);
		uint64_t contended = __atomic_load_n(&c->contended_ns, __ATOMIC_ACQUIRE);
		uint32_t inside = __atomic_load_n(&c->processes, __ATOMIC_ACQUIRE);
		uint64_t now = zn_now_ns();

		if (__atomic_load_n(&c->begun, __ATOMIC_ACQUIRE) != done)
			continue;
		to->busy_ns = inside >= 1 ? busy + now : busy;
		to->contended_ns = inside >= 2 ? contended + now : contended;
		return true;
	}
	return false;
}

/* Clocks of two CPUs may be some nanoseconds apart, and a counter never goes down. */
static void gpu_tick(struct zn_signals *s, const struct zn_shared *shared)
{
	struct zn_gpu_time now;

	s->gpu_tick = (struct zn_gpu_time){0};
	if (!zn_gpu_calls_read(shared, &now))
		return; /* the next tick has this one's too */
	s->gpu_tick.busy_ns = zn_counter_advance(&s->gpu.busy_ns, now.busy_ns);
	s->gpu_tick.contended_ns = zn_counter_advance(&s->gpu.contended_ns, now.contended_ns);
	if (s->gpu_tick.contended_ns > s->gpu_tick.busy_ns)
		s->gpu_tick.contended_ns = s->gpu_tick.busy_ns;
}

void zn_signals_tick(struct zn_signals *s, struct zn_agg *a, uint64_t now_ns)
{
	uint64_t ns = s->tick_ns ? now_ns - s->tick_ns : 0;

	for (uint32_t r = 0; r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);

		if (p)
			row_tick(&s->row[a->row[r]], p, ns, now_ns);
	}
	gpu_tick(s, a->arena->shared);
	s->tick_ns = now_ns;
}

static uint64_t ratio(uint64_t part, uint64_t whole, uint64_t scale)
{
	__uint128_t v = whole ? (__uint128_t)part * scale / whole : ZN_NOT_KNOWN;

	return v < ZN_NOT_KNOWN ? (uint64_t)v : ZN_NOT_KNOWN;
}

bool zn_signals_rates(const struct zn_signals *s, uint32_t row, uint32_t id, struct zn_rates *to)
{
	const struct zn_signal_row *r = s ? &s->row[row] : NULL;
	uint64_t in, out;

	for (uint32_t i = 0; i < ZN_SIGNAL_COUNT; i++)
		to->per_1000_s[i] = ZN_NOT_KNOWN;
	to->syscalls_per_launch = to->switches_per_launch = to->churn = ZN_NOT_KNOWN;
	if (!r || r->id != id || r->ns == 0)
		return false;
	for (uint32_t i = 0; i < ZN_SIGNAL_COUNT; i++)
		to->per_1000_s[i] = ratio(r->tick[i], r->ns, 1000 * ZN_NS_PER_S);
	to->syscalls_per_launch = ratio(r->tick[ZN_SIGNAL_SYSCALLS], r->tick[ZN_SIGNAL_LAUNCHES], 1000);
	to->switches_per_launch = ratio(r->tick[ZN_SIGNAL_SWITCHES], r->tick[ZN_SIGNAL_LAUNCHES], 1000);
	in = r->tick[ZN_SIGNAL_MAPPED];
	out = r->tick[ZN_SIGNAL_UNMAPPED];
	to->churn = in < out ? ratio(in, out, 1000) : ratio(out, in, 1000);
	return true;
}

uint64_t zn_signals_contention(const struct zn_signals *s)
{
	return s ? ratio(s->gpu_tick.contended_ns, s->gpu_tick.busy_ns, 1000000) : ZN_NOT_KNOWN;
}

/* ---- JSON ---- */

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

static void key_counts(struct zn_json *j, const struct zn_signal_key *keys, uint32_t n, const __u64 *count)
{
	for (uint32_t i = 0; i < n; i++)
		zn_json_key_scaled(j, keys[i].key, count[keys[i].count], keys[i].decimals);
}

static void times(struct zn_json *j, const struct zn_hist *h)
{
	struct zn_summary s = h ? zn_hist_summary(h) : (struct zn_summary){0};

	zn_json_key_u64(j, "count", s.count);
	zn_json_key_scaled(j, "p50_us", s.p50_ns, 3);
	zn_json_key_scaled(j, "p99_us", s.p99_ns, 3);
}

static void key_times(struct zn_json *j, const char *key, const struct zn_hist *h)
{
	zn_json_key_open(j, key, '{');
	times(j, h);
	zn_json_close(j, '}');
}

/* Opens the object of a family, unless this kernel has no such family. */
static bool family_open(struct zn_json *j, const struct zn_view *v, const char *key, enum zn_family f)
{
	if (!zn_agg_measures(v->agg, f)) {
		zn_json_key_null(j, key);
		return false;
	}
	zn_json_key_open(j, key, '{');
	return true;
}

#define S 9 /* decimals from nanoseconds to seconds */
static const struct zn_signal_key call_keys[] = {{"count", ZN_C_SYSCALLS, 0}, {"mmap_calls", ZN_C_MMAP_CALLS, 0},
	{"munmap_calls", ZN_C_MUNMAP_CALLS, 0}, {"mmap_bytes", ZN_C_MMAP_BYTES, 0},
	{"munmap_bytes", ZN_C_MUNMAP_BYTES, 0}};
static const struct zn_signal_key sched_keys[] = {{"voluntary", ZN_C_SWITCH_VOLUNTARY, 0},
	{"involuntary", ZN_C_SWITCH_INVOLUNTARY, 0}, {"migrations", ZN_C_MIGRATE_CPU, 0},
	{"numa_migrations", ZN_C_MIGRATE_NUMA, 0}, {"offcpu_io_s", ZN_C_OFFCPU_IO, S},
	{"offcpu_futex_s", ZN_C_OFFCPU_FUTEX, S}, {"offcpu_poll_s", ZN_C_OFFCPU_POLL, S},
	{"offcpu_sleep_s", ZN_C_OFFCPU_SLEEP, S}, {"offcpu_other_s", ZN_C_OFFCPU_OTHER, S}};
static const struct zn_signal_key tcp_keys[] = {{"sent_bytes", ZN_C_TCP_SENT, 0},
	{"received_bytes", ZN_C_TCP_RECEIVED, 0}, {"retransmits", ZN_C_TCP_RETRANSMITS, 0}};
#define KEYS(of) of, ZN_LEN(of)

static void calls_json(struct zn_json *j, const struct zn_view *v, const struct zn_proc *p, const struct zn_rates *r)
{
	if (!family_open(j, v, "syscalls", ZN_FAM_SYSCALLS))
		return;
	key_counts(j, KEYS(call_keys), p->count);
	key_rate(j, "rate", r->per_1000_s[ZN_SIGNAL_SYSCALLS]);
	key_rate(j, "per_launch", r->syscalls_per_launch);
	key_rate(j, "mmap_churn", r->churn);
	zn_json_close(j, '}');
}

static void sched_json(struct zn_json *j, const struct zn_view *v, const struct zn_proc *p, const struct zn_rates *r)
{
	if (!family_open(j, v, "sched", ZN_FAM_SCHED))
		return;
	key_counts(j, KEYS(sched_keys), p->count);
	key_rate(j, "switch_rate", r->per_1000_s[ZN_SIGNAL_SWITCHES]);
	key_rate(j, "switches_per_launch", r->switches_per_launch);
	key_rate(j, "migration_rate", r->per_1000_s[ZN_SIGNAL_MIGRATIONS]);
	key_times(j, "runqueue", zn_arena_hist(v->agg->arena, p->hist[ZN_H_RUNQUEUE]));
	zn_json_close(j, '}');
}

static void tcp_json(struct zn_json *j, const struct zn_view *v, const struct zn_proc *p, const struct zn_rates *r)
{
	if (!family_open(j, v, "tcp", ZN_FAM_NET))
		return;
	key_counts(j, KEYS(tcp_keys), p->count);
	key_whole(j, "sent_rate", r->per_1000_s[ZN_SIGNAL_SENT]);
	key_whole(j, "received_rate", r->per_1000_s[ZN_SIGNAL_RECEIVED]);
	key_times(j, "send", zn_arena_hist(v->agg->arena, p->hist[ZN_H_TCP_SEND]));
	zn_json_close(j, '}');
}

void zn_signals_json(struct zn_json *j, const struct zn_view *v, uint32_t row, const struct zn_proc *p)
{
	struct zn_rates r;

	zn_signals_rates(v->signals, row, p->id, &r);
	zn_json_key_open(j, "signals", '{');
	calls_json(j, v, p, &r);
	if (family_open(j, v, "ioctl", ZN_FAM_IOCTL)) {
		times(j, zn_arena_hist(v->agg->arena, p->hist[ZN_H_IOCTL]));
		zn_json_close(j, '}');
	}
	sched_json(j, v, p, &r);
	tcp_json(j, v, p, &r);
	zn_json_close(j, '}');
}

void zn_signals_node_json(struct zn_json *j, const struct zn_view *v)
{
	uint64_t contention = zn_signals_contention(v->signals);

	if (!v->signals || !family_open(j, v, "gpu_ioctl", ZN_FAM_IOCTL))
		return;
	zn_json_key_scaled(j, "busy_s", v->signals->gpu.busy_ns, S);
	zn_json_key_scaled(j, "contended_s", v->signals->gpu.contended_ns, S);
	if (contention == ZN_NOT_KNOWN)
		zn_json_key_null(j, "contention");
	else
		zn_json_key_scaled(j, "contention", contention, 6);
	zn_json_close(j, '}');
}

/* Of all processes of a job: sums, and quantiles of merged histograms. */
void zn_signals_job_json(struct zn_json *j, struct zn_view *v, struct zn_job *job, const uint64_t *count)
{
	static const struct {
		const char *key;
		enum zn_family family;
		const struct zn_signal_key *keys;
		uint32_t n;
		const char *times;
		enum zn_operation detail;
	} parts[] = {
		{"syscalls", ZN_FAM_SYSCALLS, KEYS(call_keys), NULL, 0},
		{"gpu_ioctl", ZN_FAM_IOCTL, NULL, 0, "calls", ZN_H_IOCTL},
		{"sched", ZN_FAM_SCHED, KEYS(sched_keys), "runqueue", ZN_H_RUNQUEUE},
		{"tcp", ZN_FAM_NET, KEYS(tcp_keys), "send", ZN_H_TCP_SEND},
	};

	zn_json_key_open(j, "signals", '{');
	for (uint32_t i = 0; i < ZN_LEN(parts); i++) {
		if (!family_open(j, v, parts[i].key, parts[i].family))
			continue;
		key_counts(j, parts[i].keys, parts[i].n, (const __u64 *)count);
		if (parts[i].times)
			key_times(j, parts[i].times, zn_job_merge(v->jobs, job, parts[i].detail));
		zn_json_close(j, '}');
	}
	zn_json_close(j, '}');
}

/* ---- devices ---- */

static bool is_gpu_driver(const char *name)
{
	return !strncmp(name, "nvidia", 6) || !strcmp(name, "drm") || !strcmp(name, "kfd");
}

static void major_set(uint64_t to[ZN_MAJOR_WORDS], unsigned long major)
{
	if (major < 64 * ZN_MAJOR_WORDS)
		to[major / 64] |= 1ULL << (major % 64);
}

void zn_gpu_majors_read(const char *path, uint64_t to[ZN_MAJOR_WORDS])
{
	char text[8192], *line, *rest = text, *name;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	memset(to, 0, ZN_MAJOR_WORDS * sizeof(*to));
	major_set(to, 195); /* NVIDIA's and DRM's are always these */
	major_set(to, 226);
	text[len > 0 ? len : 0] = 0;
	while ((line = strsep(&rest, "\n")) && strcmp(line, "Block devices:")) {
		unsigned long major = strtoul(line, &name, 10);

		name += strspn(name, " ");
		if (name > line && is_gpu_driver(name))
			major_set(to, major);
	}
}
