/* SPDX-License-Identifier: GPL-2.0 */
/* What the text and the JSON forms both show: losses, the use of tables, and the daemon's own figures. */
#include "zernel.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *const loss_text[][2] = {
#define X(e, label, help) {label, help},
	ZN_LOSSES(X)
#undef X
};

const char *zn_loss_label(enum zn_loss what)
{
	return loss_text[what][0];
}

const char *zn_loss_help(enum zn_loss what)
{
	return loss_text[what][1];
}

uint64_t zn_state_lost(const struct zn_state *state, enum zn_loss what)
{
	uint64_t n = __atomic_load_n(&state->agg->arena->shared->lost[what], __ATOMIC_RELAXED);

	if (what == ZN_LOST_MISSED && state->probe)
		n += zn_stats_missed(state->probe);
	if (what == ZN_LOST_REPORT && state->writer)
		n += zn_writer_lost(state->writer);
	if (what == ZN_LOST_NOTIFICATION && state->notify)
		n += zn_notify_lost(state->notify);
	if (what == ZN_LOST_OTLP && state->sender)
		n += zn_sender_lost(state->sender, ZN_TO_OTLP);
	if (what == ZN_LOST_KMSG && state->xids)
		n += state->xids->lost;
	if (what == ZN_LOST_LOG)
		n += zn_log_lost();
	if (what == ZN_LOST_ALERT)
		n += zn_alerts_lost(state->alerts);
	return n + (state->http ? state->http->lost[what] : 0);
}

static void lib_count(void *to, const struct zn_lib *lib)
{
	(void)lib;
	(*(uint64_t *)to)++;
}

static uint64_t allocs_used(const struct zn_agg *a)
{
	uint64_t n = 0;

	for (uint32_t r = 0; r < a->row_count; r++)
		n += a->arena->procs[a->row[r]].count[ZN_C_LIVE_ALLOCS];
	return n;
}

static uint64_t jobs_used(const struct zn_jobs *j)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < ZN_JOBS_MAX; i++)
		n += j->job[i].state != ZN_JOB_FREE;
	return n;
}

/* Of processes, their threads and communicators, and of reads and writes of files. */
static uint64_t hists_used(const struct zn_shared *s)
{
	int64_t n = (int64_t)s->quota[ZN_QUOTA_HISTOGRAM].used + s->quota[ZN_QUOTA_SHARD].used +
		s->quota[ZN_QUOTA_IO_HIST].used;

	return n > 0 ? n : 0;
}

/* Tables of the kernel that no structure of the daemon counts. Simulated data has none of them. */
static size_t shares_usage(const struct zn_shared *s, struct zn_usage *to)
{
	static const struct {
		const char *table;
		enum zn_quota_table of;
	} shown[] = {{"threads", ZN_QUOTA_THREAD}, {"sched_threads", ZN_QUOTA_SCHED}, {"workers", ZN_QUOTA_WORKER},
		{"job_processes", ZN_QUOTA_TASK}, {"job_cgroups", ZN_QUOTA_CGROUP},
		{"request_connections", ZN_QUOTA_REQUEST}};
	size_t n = 0;

	for (size_t i = 0; i < ZN_LEN(shown); i++) {
		const struct zn_quota *q = &s->quota[shown[i].of];

		if (q->size)
			to[n++] = (struct zn_usage){shown[i].table, q->used > 0 ? q->used : 0, q->size};
	}
	return n;
}

size_t zn_state_usage(const struct zn_state *state, struct zn_usage to[ZN_USAGES_MAX])
{
	uint64_t libs = 0;
	size_t n = 0;

	if (state->find)
		zn_libraries_visit(zn_find_libraries(state->find), lib_count, &libs);
	to[n++] = (struct zn_usage){"processes", state->agg->arena->shared->procs, ZN_PROCS_MAX};
	to[n++] = (struct zn_usage){"histograms", hists_used(state->agg->arena->shared), ZN_HISTS_MAX - ZN_HISTS_FIRST};
	to[n++] = (struct zn_usage){"allocations", allocs_used(state->agg), ZN_ALLOCS_MAX};
	to[n++] = (struct zn_usage){"gpus", state->agg->gpus.count, ZN_GPUS_MAX};
	to[n++] = (struct zn_usage){"communicators", state->agg->comm_count, ZN_COMMS_MAX};
	to[n++] = (struct zn_usage){"libraries", libs, ZN_LIBS_MAX};
	to[n++] = (struct zn_usage){"alerts", state->alerts->count, ZN_ALERTS_MAX};
	if (state->jobs)
		to[n++] = (struct zn_usage){"jobs", jobs_used(state->jobs), ZN_JOBS_MAX};
	if (state->io_sums) {
		to[n++] = (struct zn_usage){"io_series", state->io_sums->row_count, ZN_IO_MAX};
		to[n++] = (struct zn_usage){"mounts", state->io_sums->mounts.count, ZN_MOUNTS_MAX};
	}
	n += shares_usage(state->agg->arena->shared, &to[n]);
	if (state->http)
		to[n++] = (struct zn_usage){"connections", state->http->conn_count, state->options->max_connections};
	return n;
}

uint64_t zn_state_hang(const struct zn_state *state, char why[ZN_TEXT_MAX])
{
	struct zn_hang hang;
	uint32_t tgid;
	char who[64];
	uint64_t ns;

	why[0] = 0;
	if (!state->find || !zn_libraries_hang(zn_find_libraries(state->find), &hang))
		return 0;
	tgid = hang.who.fuse_tgid ? hang.who.fuse_tgid : hang.blocked_tgid;
	if (tgid)
		snprintf(who, sizeof(who), "process %u", tgid);
	else
		snprintf(who, sizeof(who), "one of %u processes, such as %u,", hang.who.count, hang.who.tgid[0]);
	ns = zn_now_ns() - hang.since_ns;
	snprintf(why, ZN_TEXT_MAX,
		"%s probes %s %.80s waits since %u ms for %s that maps it; forks of this node may wait too; to end it helps",
		hang.detach ? "taking" : "putting", hang.detach ? "from" : "on", hang.path,
		(unsigned)(ns / ZN_NS_PER_MS), who);
	return ns;
}

static uint64_t resident_bytes(void)
{
	char text[128], *at;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	at = strchr(text, ' ');
	return at ? strtoull(at, NULL, 10) * sysconf(_SC_PAGESIZE) : 0;
}

static bool count_entry(void *count, const struct dirent64 *e)
{
	(void)e;
	++*(uint64_t *)count;
	return true;
}

/* The descriptor that reads the folder is not counted. */
static uint64_t fds_open(void)
{
	int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	uint64_t count = 0;

	if (fd < 0)
		return 0;
	/* from 6.2 on (commit f1f1f2569901) its size is their number; to list a thousand takes half a millisecond */
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		count = (uint64_t)st.st_size - 1;
	} else {
		zn_file_names(fd, count_entry, &count);
		count = count > 3 ? count - 3 : 0; /* "." and ".." too */
	}
	close(fd);
	return count;
}

/* Both clocks go alike but for when the time of day is set, as by the first answer of a time server after boot. */
static void follow_clock(struct zn_state *state)
{
	int64_t by_ms = (int64_t)(zn_wall_ms() - zn_state_wall_ms(state, zn_now_ns()));

	if (by_ms > -ZN_CLOCK_STEP_MS && by_ms < ZN_CLOCK_STEP_MS)
		return;
	state->start_wall_ms += (uint64_t)by_ms;
	zn_log(ZN_INFO, "clock: the time of day was set %lld s %s; what began before is told by the new one",
		(long long)(by_ms < 0 ? -by_ms : by_ms) / 1000, by_ms < 0 ? "back" : "forward");
}

/* The node's may be set after the daemon has started, as by DHCP or cloud-init. */
static void follow_names(struct zn_state *state)
{
	char before[sizeof(state->node)];
	struct utsname u;

	if (uname(&u))
		return;
	memcpy(before, state->node, sizeof(before));
	snprintf(state->node, sizeof(state->node), "%.64s", u.nodename);
	snprintf(state->release, sizeof(state->release), "%.64s", u.release);
	if (before[0] && strcmp(before, state->node))
		zn_log(ZN_INFO, "node: its name is %s now, and was %s", state->node, before);
}

void zn_state_tick(struct zn_state *state)
{
	follow_clock(state);
	follow_names(state);
	state->resident_bytes = resident_bytes();
	state->open_fds = fds_open();
}

uint64_t zn_state_job_wall_ms(const struct zn_state *state, const struct zn_job *job)
{
	bool later = job && job->start_ns > state->start_ns;

	return later ? zn_state_wall_ms(state, job->start_ns) : state->start_wall_ms;
}

void zn_state_refresh(const struct zn_state *state)
{
	if (state->loading) /* another thread has the tables, and nothing is in them */
		return;
	zn_agg_refresh(state->agg);
	if (state->io_sums)
		zn_io_sums_refresh(state->io_sums);
}
