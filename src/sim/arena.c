/* SPDX-License-Identifier: GPL-2.0 */
/* arena.c: an arena of plain memory with its own free lists, to which --simulate and the tests write. */
#include "zernel.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void memory_untask(struct zn_memory_arena *p, uint32_t tgid)
{
	for (uint32_t i = 0; i < p->task_count; i++)
		if (p->tasks[i].tgid == tgid) {
			p->tasks[i] = p->tasks[--p->task_count];
			return;
		}
}

/* A histogram that is nobody's any more. */
static void memory_hist_free(struct zn_memory_arena *p, uint32_t hist)
{
	zn_hist_clear(&p->arena.hists[hist]);
	p->hists[p->hist_count++] = hist;
	p->arena.shared->quota[ZN_QUOTA_HISTOGRAM].used--;
}

static void memory_release(struct zn_arena *a, uint32_t row)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	struct zn_proc *proc = &a->procs[row];

	for (uint32_t d = 0; d < ZN_OPERATION_SLOTS; d++)
		if (proc->hist[d])
			memory_hist_free(p, proc->hist[d]);
	memory_untask(p, proc->tgid);
	memset(&a->failed[row], 0, sizeof(a->failed[row]));
	memset(proc, 0, sizeof(*proc));
	a->shared->row_tgid[row] = 0;
	a->shared->procs--;
	p->rows[p->row_count++] = row;
}

static size_t memory_comms(struct zn_arena *a, struct zn_comm *to, size_t cap)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	size_t n = p->comm_count < cap ? p->comm_count : cap;

	memcpy(to, p->comms, n * sizeof(*to));
	return n;
}

static uint32_t memory_name_at(const struct zn_memory_arena *p, const char *name)
{
	uint32_t i = 0;

	while (i < p->name_count && strncmp(p->names[i].name, name, ZN_JOB_NAME))
		i++;
	return i;
}

static int memory_job_alias(struct zn_arena *a, uint32_t slot, const char name[ZN_JOB_NAME])
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	uint32_t i = memory_name_at(p, name);

	if (i < p->name_count)
		return p->names[i].slot == slot ? 0 : -EEXIST;
	if (i == ZN_LEN(p->names))
		return -ENOSPC;
	memset(p->names[i].name, 0, ZN_JOB_NAME);
	strncpy(p->names[i].name, name, ZN_JOB_NAME - 1);
	p->names[i].slot = slot;
	p->name_count++;
	return 0;
}

static int memory_job_claim(struct zn_arena *a, const char name[ZN_JOB_NAME])
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	uint32_t i = memory_name_at(p, name), slot = 0;

	if (i < p->name_count)
		return p->names[i].slot;
	while (slot < ZN_JOBS_MAX && a->jobs[slot].serial)
		slot++;
	if (slot == ZN_JOBS_MAX || memory_job_alias(a, slot, name)) {
		a->shared->lost[ZN_LOST_JOB]++;
		return -ENOSPC;
	}
	zn_job_shared_claim(&a->jobs[slot], name, ++a->shared->next_id);
	a->shared->jobs++;
	return slot;
}

static void memory_job_unname(struct zn_arena *a, uint32_t slot)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;

	for (uint32_t i = p->name_count; i-- > 0;)
		if (p->names[i].slot == slot)
			p->names[i] = p->names[--p->name_count];
}

static void memory_job_forget(struct zn_arena *a, uint32_t slot)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;

	if (!a->jobs[slot].serial)
		return;
	memory_job_unname(a, slot);
	for (uint32_t i = p->task_count; i-- > 0;)
		if (p->tasks[i].job.slot == slot)
			p->tasks[i] = p->tasks[--p->task_count];
	for (uint32_t i = p->cgroup_count; i-- > 0;)
		if (p->cgroups[i].cgroup.job.slot == slot)
			p->cgroups[i] = p->cgroups[--p->cgroup_count];
	memset(&a->jobs[slot], 0, sizeof(a->jobs[slot]));
	a->shared->jobs--;
}

static int memory_job_task(struct zn_arena *a, uint32_t slot, uint32_t tgid)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	struct zn_job_ref tag = {slot, a->jobs[slot].serial};

	memory_untask(p, tgid);
	if (p->task_count == ZN_LEN(p->tasks)) {
		a->shared->lost[ZN_LOST_TASK]++;
		return -ENOSPC;
	}
	p->tasks[p->task_count].tgid = tgid;
	p->tasks[p->task_count++].job = tag;
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		if (a->shared->row_tgid[row] == tgid && !a->procs[row].exit_ns)
			a->procs[row].job = tag;
	return 0;
}

static void memory_job_tasks(struct zn_arena *a, void (*task)(void *to, const struct zn_job_ref *job), void *to)
{
	const struct zn_memory_arena *p = (const struct zn_memory_arena *)a;

	for (uint32_t i = 0; i < p->task_count; i++)
		task(to, &p->tasks[i].job);
}

static uint32_t memory_cgroup_at(const struct zn_memory_arena *p, const struct zn_cgroup_key *key)
{
	uint32_t i = 0;

	while (i < p->cgroup_count && memcmp(&p->cgroups[i].key, key, sizeof(*key)))
		i++;
	return i;
}

static void memory_job_cgroup_gone(struct zn_arena *a, const struct zn_cgroup_key *key)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	uint32_t i = memory_cgroup_at(p, key);
	struct zn_cgroup group;

	if (i == p->cgroup_count)
		return;
	group = p->cgroups[i].cgroup;
	p->cgroups[i] = p->cgroups[--p->cgroup_count];
	if (group.job.serial == a->jobs[group.job.slot].serial)
		zn_job_shared_group_gone(&a->jobs[group.job.slot], &group);
}

static int memory_job_cgroup(
	struct zn_arena *a, uint32_t slot, const struct zn_cgroup_key *key, uint32_t level, const char *step)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	struct zn_cgroup cgroup = {{slot, a->jobs[slot].serial}, level, ZN_STEPS_MAX};
	uint32_t i = memory_cgroup_at(p, key);

	if (i < p->cgroup_count && p->cgroups[i].cgroup.job.serial == cgroup.job.serial)
		return 0;
	memory_job_cgroup_gone(a, key); /* it was another job's, or still is */
	i = p->cgroup_count;
	if (i == ZN_LEN(p->cgroups)) {
		a->shared->lost[ZN_LOST_TASK]++;
		return -ENOSPC;
	}
	if (step)
		cgroup.step = zn_job_shared_step(&a->jobs[slot], step);
	p->cgroups[i].key = *key;
	p->cgroups[i].cgroup = cgroup;
	p->cgroup_count++;
	zn_job_shared_group(&a->jobs[slot], &cgroup);
	return 0;
}

static size_t memory_io(struct zn_arena *a, struct zn_io_entry *to, size_t cap)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	size_t n = p->io_count < cap ? p->io_count : cap;

	memcpy(to, p->io, n * sizeof(*to));
	return n;
}

static struct zn_io_entry *memory_io_find(struct zn_memory_arena *p, const struct zn_io_key *key)
{
	for (uint32_t i = 0; i < p->io_count; i++)
		if (memcmp(&p->io[i].key, key, sizeof(*key)) == 0)
			return &p->io[i];
	return NULL;
}

static void memory_io_cut(struct zn_arena *a, const struct zn_io_key *key)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	struct zn_io_entry *e = memory_io_find(p, key);

	if (e)
		*e = p->io[--p->io_count];
}

static void memory_io_free(struct zn_arena *a, const struct zn_io_row *row)
{
	struct zn_memory_arena *p = (struct zn_memory_arena *)a;
	struct zn_quota *quota = a->shared->quota;

	if (row->hist < ZN_HISTS_MAX) {
		memory_hist_free(p, row->hist);
	} else {
		zn_hist_clear_coarse(&a->coarse[row->hist - ZN_HISTS_MAX]);
		p->coarse[p->coarse_count++] = row->hist - ZN_HISTS_MAX;
	}
	zn_quota_give(&quota[ZN_QUOTA_IO], row->owner);
	zn_quota_give(&quota[ZN_QUOTA_IO_USER], row->user);
}

static void memory_skew_release(struct zn_arena *a, uint32_t slot)
{
	uint32_t hist = a->skews[slot].hist;

	if (hist)
		memory_hist_free((struct zn_memory_arena *)a, hist);
	memset(&a->skews[slot], 0, sizeof(a->skews[slot]));
	a->shared->skew_used[slot] = 0;
}

static int memory_server_add(struct zn_arena *a, const struct zn_server *server)
{
	uint32_t i = 0;

	while (i < ZN_SERVERS_MAX && a->servers[i].id)
		i++;
	if (i == ZN_SERVERS_MAX)
		return -ENOSPC;
	a->servers[i] = *server;
	a->servers[i].id = ++a->shared->next_id;
	return (int)i;
}

static void memory_server_gone(struct zn_arena *a, uint32_t index)
{
	(void)a, (void)index;
}

static void memory_hists_free(struct zn_arena *a, const uint32_t *hist, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (hist[i])
			memory_hist_free((struct zn_memory_arena *)a, hist[i]);
}

static void memory_server_free(struct zn_arena *a, uint32_t index)
{
	struct zn_server *server = &a->servers[index];

	for (uint32_t i = 0; i < ZN_REQUEST_SERIES; i++)
		if (a->request_series[i].id == server->id) {
			memory_hists_free(a, a->request_series[i].hist, ZN_REQUEST_DURATIONS);
			memset(&a->request_series[i], 0, sizeof(a->request_series[i]));
		}
	memory_hists_free(a, server->hist, ZN_SERVER_DURATIONS);
	memset(server, 0, sizeof(*server));
}

static void memory_ioctls(struct zn_arena *a, void (*call)(void *to, uint32_t id, uint64_t start_ns), void *to)
{
	const struct zn_memory_arena *p = (const struct zn_memory_arena *)a;

	if (p->ioctl_id)
		call(to, p->ioctl_id, p->ioctl_ns);
}

static const struct zn_arena_ops memory_ops = {
	.release = memory_release,
	.comms = memory_comms,
	.skew_release = memory_skew_release,
	.ioctls = memory_ioctls,
	.job_claim = memory_job_claim,
	.job_alias = memory_job_alias,
	.job_unname = memory_job_unname,
	.job_forget = memory_job_forget,
	.job_task = memory_job_task,
	.job_tasks = memory_job_tasks,
	.job_cgroup = memory_job_cgroup,
	.job_cgroup_gone = memory_job_cgroup_gone,
	.io = memory_io,
	.io_cut = memory_io_cut,
	.io_free = memory_io_free,
	.server_add = memory_server_add,
	.server_gone = memory_server_gone,
	.server_free = memory_server_free,
};

#define PLAIN_SHARED ((sizeof(struct zn_shared) + 4095) & ~4095UL)
#define PLAIN_PROCS  (ZN_PROCS_MAX * sizeof(struct zn_proc))
#define PLAIN_HISTS  (ZN_HISTS_MAX * sizeof(struct zn_hist))
#define PLAIN_JOBS   (ZN_JOBS_MAX * sizeof(struct zn_job_shared))
#define PLAIN_COARSE (ZN_IO_MAX * sizeof(struct zn_coarse_hist))
#define PLAIN_SKEWS  (ZN_SKEWS_MAX * sizeof(struct zn_skew))
#define PLAIN_SERVED (ZN_SERVERS_MAX * sizeof(struct zn_server))
#define PLAIN_SERIES (ZN_REQUEST_SERIES * sizeof(struct zn_request_series))
#define PLAIN_JOINED (ZN_SERVICES_MAX * sizeof(struct zn_serving))
#define MEMORY_BYTES                                                                                                   \
	(PLAIN_SHARED + PLAIN_PROCS + PLAIN_HISTS + PLAIN_JOBS + PLAIN_COARSE + PLAIN_SKEWS + PLAIN_SERVED +           \
		PLAIN_SERIES + PLAIN_JOINED + ZN_PROCS_MAX * sizeof(struct zn_failed))

int zn_memory_open(struct zn_memory_arena *p)
{
	char *at = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	memset(p, 0, sizeof(*p));
	if (at == MAP_FAILED)
		return -errno;
	p->memory = at;
	p->arena.ops = &memory_ops;
	p->arena.shared = (void *)at;
	p->arena.procs = (void *)(at + PLAIN_SHARED);
	p->arena.hists = (void *)(at + PLAIN_SHARED + PLAIN_PROCS);
	p->arena.jobs = (void *)(at + PLAIN_SHARED + PLAIN_PROCS + PLAIN_HISTS);
	p->arena.coarse = (void *)(at + PLAIN_SHARED + PLAIN_PROCS + PLAIN_HISTS + PLAIN_JOBS);
	at += PLAIN_SHARED + PLAIN_PROCS + PLAIN_HISTS + PLAIN_JOBS + PLAIN_COARSE;
	p->arena.skews = (void *)at;
	p->arena.servers = (void *)(at + PLAIN_SKEWS);
	p->arena.request_series = (void *)(at + PLAIN_SKEWS + PLAIN_SERVED);
	p->arena.services = (void *)(at + PLAIN_SKEWS + PLAIN_SERVED + PLAIN_SERIES);
	p->arena.failed = (void *)(at + PLAIN_SKEWS + PLAIN_SERVED + PLAIN_SERIES + PLAIN_JOINED);
	p->arena.shared->quota[ZN_QUOTA_IO] = (struct zn_quota){.size = ZN_IO_MAX, .reserve = ZN_IO_MAX / 16};
	p->arena.shared->quota[ZN_QUOTA_SERVICE] = (struct zn_quota){.size = ZN_SERVICES_MAX};
	p->arena.shared->quota[ZN_QUOTA_IO_USER] = (struct zn_quota){.size = ZN_IO_OF_USER};
	while (p->row_count < ZN_PROCS_MAX) {
		p->rows[p->row_count] = ZN_PROCS_MAX - 1 - p->row_count;
		p->row_count++;
	}
	for (uint32_t slot = ZN_HISTS_MAX - 1; slot >= ZN_HISTS_FIRST; slot--)
		p->hists[p->hist_count++] = slot;
	for (uint32_t i = ZN_IO_MAX; i-- > 0;)
		p->coarse[p->coarse_count++] = i;
	return 0;
}

void zn_memory_close(struct zn_memory_arena *p)
{
	if (p->memory)
		munmap(p->memory, MEMORY_BYTES);
	p->memory = NULL;
}

struct zn_proc *zn_memory_claim(struct zn_memory_arena *p, uint32_t tgid, const char *comm)
{
	struct zn_shared *s = p->arena.shared;
	struct zn_proc *proc;
	uint32_t row;

	if (p->row_count == 0) {
		s->lost[ZN_LOST_PROCESS]++;
		return NULL;
	}
	row = p->rows[--p->row_count];
	proc = &p->arena.procs[row];
	proc->tgid = tgid;
	proc->id = ++s->next_id;
	proc->first_ns = zn_now_ns();
	strncpy(proc->comm, comm, sizeof(proc->comm) - 1);
	for (uint32_t i = 0; i < p->task_count; i++)
		if (p->tasks[i].tgid == tgid)
			proc->job = p->tasks[i].job;
	s->row_tgid[row] = tgid;
	s->procs++;
	return proc;
}

void zn_memory_exit(struct zn_memory_arena *p, struct zn_proc *proc)
{
	(void)p;
	proc->exit_ns = zn_now_ns();
}

uint32_t zn_memory_hist(struct zn_memory_arena *p)
{
	if (p->hist_count == 0)
		return 0;
	p->arena.shared->quota[ZN_QUOTA_HISTOGRAM].used++;
	return p->hists[--p->hist_count];
}

struct zn_request_series *zn_memory_series(
	struct zn_memory_arena *p, struct zn_server *server, enum zn_request_route route)
{
	struct zn_request_series *s = p->arena.request_series;
	uint32_t i = 0;

	if (server->series[route])
		return &s[server->series[route] - 1];
	while (i < ZN_REQUEST_SERIES && s[i].id)
		i++;
	if (i == ZN_REQUEST_SERIES) {
		p->arena.shared->lost[ZN_LOST_ROUTE]++;
		return NULL;
	}
	s[i] = (struct zn_request_series){.id = server->id, .route = route};
	server->series[route] = i + 1;
	return &s[i];
}

bool zn_memory_record(
	struct zn_memory_arena *p, struct zn_proc *proc, enum zn_operation operation, uint64_t ns, uint64_t bytes)
{
	struct zn_hist *h;

	if (!proc->hist[operation]) {
		if (p->hist_count == 0) {
			p->arena.shared->lost[ZN_LOST_SERIES]++;
			return false;
		}
		proc->hist[operation] = zn_memory_hist(p);
	}
	h = &p->arena.hists[proc->hist[operation]];
	zn_hist_add(h, ns);
	h->bytes += bytes;
	return true;
}

/* The same as BPF does, but a read or a write is never coarse. NULL: there is no room for its owner. */
static struct zn_io_entry *memory_io_claim(struct zn_memory_arena *p, const struct zn_io_key *key)
{
	struct zn_quota *quota = p->arena.shared->quota;
	struct zn_io_entry e = {.key = *key, .row = p->io_of};
	bool whole = key->op <= ZN_IO_WRITE;

	if (p->io_count == ZN_LEN(p->io) || !(whole ? p->hist_count : p->coarse_count))
		return NULL;
	if (!zn_quota_take(&quota[ZN_QUOTA_IO_USER], e.row.user))
		return NULL;
	if (!zn_quota_take(&quota[ZN_QUOTA_IO], e.row.owner)) {
		zn_quota_give(&quota[ZN_QUOTA_IO_USER], e.row.user);
		return NULL;
	}
	e.row.hist = whole ? zn_memory_hist(p) : ZN_HISTS_MAX + p->coarse[--p->coarse_count];
	p->io[p->io_count] = e;
	p->arena.shared->io_made++;
	return &p->io[p->io_count++];
}

static struct zn_hist *memory_coarse_add(struct zn_coarse_hist *h, uint64_t ns)
{
	h->calls++;
	h->sum_ns += ns;
	h->bucket[zn_coarse_bucket(ns)]++;
	if (ns > h->max_ns)
		h->max_ns = ns;
	return (struct zn_hist *)h;
}

struct zn_hist *zn_memory_io(struct zn_memory_arena *p, const struct zn_io_key *key, uint64_t ns)
{
	struct zn_io_entry *e = memory_io_find(p, key);

	if (!e)
		e = memory_io_claim(p, key);
	if (!e) {
		p->arena.shared->lost[ZN_LOST_IO]++;
		return NULL;
	}
	if (e->row.hist >= ZN_HISTS_MAX)
		return memory_coarse_add(&p->arena.coarse[e->row.hist - ZN_HISTS_MAX], ns);
	zn_hist_add(&p->arena.hists[e->row.hist], ns);
	return &p->arena.hists[e->row.hist];
}
