// SPDX-License-Identifier: GPL-2.0
/*
 * Which processes belong to which job. A job's slot is claimed when its control group is made, before anything can run
 * in it, so what its first process does is the job's own. A process joins by being moved into a group of a job, by
 * being forked from one that is in, or by being created in one (CLONE_INTO_CGROUP); it leaves only for another job. The
 * end of a process is in proc.bpf.c.
 *
 * Raw tracepoints: no BTF is needed to attach. Groups are made, removed and filled with cgroup_mutex held
 * (kernel/cgroup/cgroup.c), so these handlers never run against each other, only against the daemon and forks.
 */
#include "zernel.bpf.h"
#include <bpf/bpf_core_read.h>

static __always_inline struct zn_job_shared *job_of(const struct zn_job_ref *tag)
{
	__u32 slot = tag->slot;
	struct zn_job_shared *row = bpf_map_lookup_elem(&jobs, &slot);

	return row && tag->serial && row->serial == tag->serial ? row : NULL;
}

static __always_inline struct zn_cgroup_key key_of(struct cgroup *cgrp)
{
	return (struct zn_cgroup_key){
		.id = BPF_CORE_READ(cgrp, kn, id), .hierarchy = BPF_CORE_READ(cgrp, root, hierarchy_id)};
}

static __always_inline struct cgroup *parent_of(struct cgroup *cgrp)
{
	struct cgroup_subsys_state *css = BPF_CORE_READ(cgrp, self.parent);

	return css ? BPF_CORE_READ(css, cgroup) : NULL;
}

/* ---- a control group is made ---- */

static __noinline void part_read(struct zn_cgroup_part *p, struct cgroup *cgrp)
{
	const char *name = cgrp ? BPF_CORE_READ(cgrp, kn, name) : NULL;
	char whole[256]; /* NAME_MAX and a NUL */
	long n;

	__builtin_memset(p, 0, sizeof(*p));
	n = name ? bpf_probe_read_kernel_str(whole, sizeof(whole), name) : 0;
	if (n <= 1)
		return;
	p->len = n - 1;
	bpf_probe_read_kernel_str(p->head, sizeof(p->head), name);
	if (p->len >= sizeof(p->tail))
		bpf_probe_read_kernel(p->tail, sizeof(p->tail), name + p->len - sizeof(p->tail));
	if (p->len > sizeof(p->tail))
		bpf_probe_read_kernel(&p->before, 1, name + p->len - sizeof(p->tail) - 1);
}

static __always_inline bool name_read(struct zn_job_name *name, struct cgroup *cgrp)
{
	struct zn_cgroup_part own, above, top;
	struct cgroup *parent = parent_of(cgrp);

	part_read(&own, cgrp);
	part_read(&above, parent);
	part_read(&top, parent ? parent_of(parent) : NULL);
	return zn_cgroup_parse(&own, &above, &top, name->text);
}

/* The serial is stored before the name can be found; the daemon looks at serials and enters jobs itself; if it was
 * faster with this name, it is not looking right now. */
static __noinline int job_claim(const struct zn_job_name *name)
{
	__u32 slot, *known = bpf_map_lookup_elem(&job_names, name);
	struct zn_job_shared *row;

	if (known)
		return *known;
	if (bpf_map_pop_elem(&free_jobs, &slot)) {
		zn_lost(ZN_LOST_JOB);
		return -1;
	}
	row = bpf_map_lookup_elem(&jobs, &slot);
	if (!row)
		return -1;
	__builtin_memcpy(row->name, name, sizeof(row->name));
	row->start_ns = bpf_ktime_get_ns();
	row->serial = zn_next_id();
	if (bpf_map_update_elem(&job_names, name, &slot, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&job_names, name);
		row->serial = 0;
		row->start_ns = 0;
		__builtin_memset(row->name, 0, sizeof(row->name));
		bpf_map_push_elem(&free_jobs, &slot, 0);
		return known ? *known : -1;
	}
	ZN_ADD(shared.jobs, 1);
	zn_emit(ZN_EV_JOB, slot, 0, 0);
	return slot;
}

/* The job that a group of this tag is of now. A requeued job is announced again while the group of its earlier run
 * may still exist. Groups made in it from then on belong to the new run, which the name leads to. */
static __always_inline bool tag_now(struct zn_job_ref *to, const struct zn_job_ref *tag)
{
	struct zn_job_shared *row = job_of(tag), *newer;
	__u32 *slot;

	if (!row)
		return false;
	*to = *tag;
	slot = bpf_map_lookup_elem(&job_names, row->name);
	newer = slot && *slot != tag->slot ? bpf_map_lookup_elem(&jobs, slot) : NULL;
	if (newer && newer->serial)
		*to = (struct zn_job_ref){.slot = *slot, .serial = newer->serial};
	return true;
}

static __always_inline bool same_step(const struct zn_step *step, const char name[16])
{
	const __u64 *a = (const void *)step->name, *b = (const void *)name;

	return a[0] == b[0] && a[1] == b[1];
}

/* The step of this name, a new one if there is none: its index, or ZN_STEPS_MAX. */
static __noinline __u32 step_claim(__u32 slot, const struct zn_job_name *name)
{
	struct zn_job_shared *row = bpf_map_lookup_elem(&jobs, &slot);
	__u32 i;

	if (!row)
		return ZN_STEPS_MAX;
	for (i = 0; i < ZN_STEPS_MAX; i++) {
		struct zn_step *step = &row->step[i];

		if (i >= row->step_count) {
			__builtin_memcpy(step->name, name, sizeof(step->name));
			step->start_ns = bpf_ktime_get_ns();
			row->step_count = i + 1;
			return i;
		}
		if (same_step(step, name->text)) {
			step->end_ns = 0;
			return i;
		}
	}
	row->steps_lost++;
	return ZN_STEPS_MAX;
}

/* A group right in a job's is a step if it is called step_<x>; it needs no more than its name. */
static __always_inline bool step_read(struct zn_job_name *name, struct cgroup *cgrp)
{
	const char *own = BPF_CORE_READ(cgrp, kn, name);

	__builtin_memset(name, 0, sizeof(*name));
	bpf_probe_read_kernel_str(name, sizeof("step_"), own);
	if (!zn_cgroup_begins(name->text, "step_", 5))
		return false;
	__builtin_memset(name, 0, sizeof(*name));
	bpf_probe_read_kernel_str(name, sizeof(*name), own + 5);
	return true;
}

/* False, as of group_top(): there is no entry for it, which was counted. That is asked first, so that a group
 * without one takes neither a step nor a job's slot, which would stay until the daemon ends. */
static __always_inline bool group_below(struct zn_cgroup *to, const struct zn_cgroup *parent, struct cgroup *cgrp)
{
	struct zn_job_name name;

	to->level = ZN_CGROUP_BELOW;
	if (!zn_quota_claim(ZN_QUOTA_CGROUP, zn_cgroup_owner(to)))
		return false;
	to->step = to->job.serial == parent->job.serial ? parent->step : ZN_STEPS_MAX;
	if (parent->level == ZN_CGROUP_JOB && step_read(&name, cgrp)) {
		to->level = ZN_CGROUP_STEP;
		to->step = step_claim(to->job.slot, &name);
	}
	return true;
}

/* Users may make folders of any name in a subtree of their own, so a job's group is one that root made. */
static __always_inline bool group_top(struct zn_cgroup *to, struct cgroup *cgrp)
{
	struct zn_job_name name;
	struct zn_job_shared *row;
	int slot;

	if ((__u32)bpf_get_current_uid_gid() || !name_read(&name, cgrp))
		return false;
	to->level = ZN_CGROUP_JOB;
	to->step = ZN_STEPS_MAX;
	if (!zn_quota_claim(ZN_QUOTA_CGROUP, zn_cgroup_owner(to)))
		return false;
	slot = job_claim(&name);
	to->job.slot = slot;
	row = slot < 0 ? NULL : bpf_map_lookup_elem(&jobs, &to->job.slot);
	if (!row) {
		zn_quota_give_to(ZN_QUOTA_CGROUP, zn_cgroup_owner(to));
		return false;
	}
	to->job.serial = row->serial;
	return true;
}

static __always_inline void group_counted(const struct zn_cgroup *c, const char *path)
{
	struct zn_job_shared *row = job_of(&c->job);

	if (!row || c->level != ZN_CGROUP_JOB)
		return;
	ZN_ADD(row->cgroups, 1);
	row->cgroup_seen = 1;
	row->gone_ns = 0;
	if (bpf_probe_read_kernel_str(row->path, sizeof(row->path), path) == sizeof(row->path))
		row->path[0] = 0; /* it may have been cut */
}

/* (cgroup, path): it can be seen, and entered, only after this. */
SEC("raw_tp/cgroup_mkdir")
int job_mkdir(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup *cgrp = (void *)ctx->args[0], *parent = parent_of(cgrp);
	struct zn_cgroup_key key = {}, above = {};
	struct zn_cgroup *in = NULL, group = {.step = ZN_STEPS_MAX};

	if (parent) {
		above = key_of(parent);
		in = bpf_map_lookup_elem(&cgroups, &above);
	}
	if (in && tag_now(&group.job, &in->job)) {
		if (!group_below(&group, in, cgrp))
			return 0;
	} else if (!group_top(&group, cgrp)) {
		return 0;
	}
	key = key_of(cgrp);
	if (bpf_map_update_elem(&cgroups, &key, &group, BPF_NOEXIST) == 0) {
		group_counted(&group, (void *)ctx->args[1]);
		return 0;
	}
	zn_quota_give_to(ZN_QUOTA_CGROUP, zn_cgroup_owner(&group));
	zn_lost(ZN_LOST_TASK);
	return 0;
}

/* ---- a control group is removed ---- */

/* The state of a controller in a group; NULL: it has none, or the kernel knows no such controller. */
#define CONTROLLER_OF(cgrp, name)                                                                                      \
	(bpf_core_enum_value_exists(enum cgroup_subsys_id, name##_cgrp_id)                                             \
			? controller_at(cgrp, bpf_core_enum_value(enum cgroup_subsys_id, name##_cgrp_id))              \
			: NULL)
static __always_inline struct cgroup_subsys_state *controller_at(struct cgroup *cgrp, int index)
{
	struct cgroup_subsys_state *css = NULL, **subsys = __builtin_preserve_access_index(&cgrp->subsys[0]);

	return bpf_probe_read_kernel(&css, sizeof(css), subsys + index) ? NULL : css;
}

/* Tells where each CPU has its variables, as the address of an element of it is known for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} anchor SEC(".maps");

/* An address as a number, by way of this CPU's own memory: groups that go, and kills for want of memory, come at one
 * time. */
static __always_inline __u64 number_of(const void *address)
{
	const __u32 first = 0;
	volatile __u64 *own = bpf_map_lookup_elem(&anchor, &first);

	if (!own)
		return 0;
	*own = (__u64)address;
	return *own;
}

/* Kernels from 5.19 on. */
static __always_inline bool has_anchor(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_map_lookup_percpu_elem);
}

/* How far a CPU's variables are from where per-CPU pointers point. False: not known. */
static __always_inline bool offset_of(__u32 cpu, __u64 *offset)
{
	const __u32 first = 0;
	struct bpf_array *array;
	void *at, *element;

	if (!has_anchor())
		return bpf_probe_read_kernel(
			       offset, sizeof(*offset), (void *)(shared.per_cpu_offset + cpu * sizeof(*offset))) == 0;
	array = (void *)number_of(&anchor);
	element = bpf_map_lookup_percpu_elem(&anchor, &first, cpu);
	if (!element || bpf_probe_read_kernel(&at, sizeof(at), __builtin_preserve_access_index(&array->pptrs[0])))
		return false;
	*offset = number_of(element) - (__u64)at;
	return true;
}

/* A CPU's part of what is there once for each CPU; NULL: not known where. */
static __always_inline void *per_cpu(const void *base, __u32 cpu)
{
	__u64 offset = 0;

	return offset_of(cpu, &offset) ? (void *)base + offset : NULL;
}

static __always_inline void add_base_stat(const struct cgroup_base_stat *stat)
{
	shared.cpu_sum.ns += BPF_CORE_READ(stat, cputime.sum_exec_runtime);
	shared.cpu_sum.user += BPF_CORE_READ(stat, cputime.utime);
	shared.cpu_sum.system += BPF_CORE_READ(stat, cputime.stime);
}

/* These are no static functions, so that the verifier looks at them once and not once for each CPU. */
__noinline int add_own_time(__u64 base, __u32 cpu)
{
	void *at = per_cpu((void *)base, cpu);

	if (!at)
		return 1;
	if (bpf_core_field_exists(struct cgroup, rstat_base_cpu))
		add_base_stat(__builtin_preserve_access_index(&((struct cgroup_rstat_base_cpu *)at)->bstat));
	else
		add_base_stat(__builtin_preserve_access_index(&((struct cgroup_rstat_cpu *)at)->bstat));
	return 0;
}

__noinline int add_accounted_time(__u64 usage, __u64 stat, __u32 cpu)
{
	__u64 ns[2] = {}, ticks[5] = {}, offset;

	if (!offset_of(cpu, &offset))
		return 1;
	bpf_probe_read_kernel(
		ns, bpf_core_type_exists(struct cpuacct_usage) ? sizeof(ns) : sizeof(*ns), (void *)(usage + offset));
	bpf_probe_read_kernel(ticks, sizeof(ticks), (void *)(stat + offset));
	shared.cpu_sum.ns += ns[0] + ns[1];
	shared.cpu_sum.user += ticks[0] + ticks[1];
	shared.cpu_sum.system += ticks[2] + ticks[3] + ticks[4];
	return 0;
}

/* So many CPUs are gone through by a function of its own, for the same reason. */
#define CPUS_AT_ONCE 64

__noinline int add_own_times(__u64 base, __u32 first)
{
	for (__u32 i = 0; i < CPUS_AT_ONCE && first + i < shared.cpu_count; i++)
		add_own_time(base, first + i);
	return 0;
}

__noinline int add_accounted_times(__u64 usage, __u64 stat, __u32 first)
{
	for (__u32 i = 0; i < CPUS_AT_ONCE && first + i < shared.cpu_count; i++)
		add_accounted_time(usage, stat, first + i);
	return 0;
}

/* Of a group of version 2: what was charged to it and not to the groups below. What the kernel has added up so far
 * would miss the last moments, so each CPU is asked. */
static __always_inline void own_time(struct cgroup *cgrp)
{
	__u64 base = bpf_core_field_exists(struct cgroup, rstat_base_cpu)
		? (__u64)BPF_CORE_READ(cgrp, rstat_base_cpu)
		: (__u64)BPF_CORE_READ((struct cgroup___before_616 *)cgrp, rstat_cpu);

	for (__u32 cpu = 0; base && cpu < ZN_CPUS_MAX && cpu < shared.cpu_count; cpu += CPUS_AT_ONCE)
		add_own_times(base, cpu);
}

/* Of a group of version 1, with those below. */
static __always_inline void accounted_time(struct cgroup *cgrp)
{
	struct cpuacct *account = (void *)CONTROLLER_OF(cgrp, cpuacct);
	__u64 usage = account ? (__u64)BPF_CORE_READ(account, cpuusage) : 0;
	__u64 stat = account ? (__u64)BPF_CORE_READ(account, cpustat) : 0;

	for (__u32 cpu = 0; usage && cpu < ZN_CPUS_MAX && cpu < shared.cpu_count; cpu += CPUS_AT_ONCE)
		add_accounted_times(usage, stat, cpu);
}

static __always_inline struct zn_step *step_of(struct zn_job_shared *row, __u32 index)
{
	if (index >= ZN_STEPS_MAX)
		return NULL;
	ZN_OPAQUE(index); /* verifiers up to 6.1 forget the check once the value is spilled */
	return &row->step[index & (ZN_STEPS_MAX - 1)];
}

static __always_inline void add_time(struct zn_cpu_time *to, const struct zn_cpu_time *sum)
{
	to->ns += sum->ns;
	to->user += sum->user;
	to->system += sum->system;
}

/* No user of control groups makes a step in both versions. Of a job's hierarchies of version 1 one accounts CPU time; a
 * job may have had several groups there, one after another. */
static __always_inline void cpu_gone(
	struct zn_job_shared *row, const struct zn_cgroup *group, struct cgroup *cgrp, __u32 hierarchy)
{
	struct zn_step *step = step_of(row, group->step);
	const struct zn_cpu_time *sum = &shared.cpu_sum;

	if (!has_anchor() && !shared.per_cpu_offset)
		return;
	__builtin_memset(&shared.cpu_sum, 0, sizeof(shared.cpu_sum));
	if (!hierarchy) {
		own_time(cgrp);
		add_time(&row->cpu_gone, sum);
		if (step)
			step->cpu_ns += sum->ns;
		return;
	}
	if (group->level != ZN_CGROUP_BELOW)
		accounted_time(cgrp);
	if (group->level == ZN_CGROUP_JOB)
		add_time(&row->cpuacct_gone, sum);
	else if (group->level == ZN_CGROUP_STEP && step && sum->ns > step->cpu_ns)
		step->cpu_ns = sum->ns;
}

/* The highest use of memory, from the controller's own counter: the controller leaves only after this. 0: this group
 * has no memory controller. */
static __always_inline __u64 mem_peak(struct cgroup *cgrp)
{
	struct cgroup_subsys_state *css = CONTROLLER_OF(cgrp, memory);

	if (!css || !bpf_core_field_exists(struct mem_cgroup, memory))
		return 0;
	return BPF_CORE_READ((struct mem_cgroup *)css, memory.watermark) * shared.page_bytes;
}

static __always_inline void step_gone(struct zn_job_shared *row, __u32 index, __u64 peak)
{
	struct zn_step *step = step_of(row, index);

	if (!step)
		return;
	step->end_ns = bpf_ktime_get_ns();
	if (peak > step->mem_peak_bytes)
		step->mem_peak_bytes = peak;
}

static __always_inline void job_gone(struct zn_job_shared *row, __u32 slot, __u64 peak)
{
	if (peak > row->mem_peak_bytes)
		row->mem_peak_bytes = peak;
	if (zn_one_less(&row->cgroups))
		return;
	row->gone_ns = bpf_ktime_get_ns();
	zn_emit(ZN_EV_JOB, slot, 0, 0);
}

SEC("raw_tp/cgroup_rmdir")
int job_rmdir(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup *cgrp = (void *)ctx->args[0];
	struct zn_cgroup_key key = key_of(cgrp);
	struct zn_cgroup *found = bpf_map_lookup_elem(&cgroups, &key), group;
	struct zn_job_shared *row;

	if (!found)
		return 0;
	group = *found; /* an element may be another's once it is deleted */
	row = job_of(&group.job);
	if (bpf_map_delete_elem(&cgroups, &key))
		return 0;
	zn_quota_give_to(ZN_QUOTA_CGROUP, zn_cgroup_owner(&group));
	if (!row)
		return 0;
	cpu_gone(row, &group, cgrp, key.hierarchy);
	if (group.level == ZN_CGROUP_STEP)
		step_gone(row, group.step, mem_peak(cgrp));
	else if (group.level == ZN_CGROUP_JOB)
		job_gone(row, group.job.slot, mem_peak(cgrp));
	return 0;
}

/* ---- processes ---- */

static __always_inline void row_tag(__u32 tgid, const struct zn_job_ref *tag)
{
	__u32 *row = bpf_map_lookup_elem(&rows, &tgid);
	struct zn_proc *p = row ? bpf_map_lookup_elem(&procs, row) : NULL;

	if (p && p->tgid == tgid)
		p->job = *tag;
}

/* (dst_cgroup, path, task, threadgroup), after the move. A process that is just ending must not leave a tag behind for
 * the next one with its id: the last thread counts `live` down before its end is seen in proc.bpf.c. */
SEC("raw_tp/cgroup_attach_task")
int job_attach(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[2];
	struct zn_cgroup_key key;
	struct zn_cgroup *group;
	struct zn_job_ref job = {};
	__u32 tgid;

	if (!shared.jobs)
		return 0;
	key = key_of((void *)ctx->args[0]);
	group = bpf_map_lookup_elem(&cgroups, &key);
	if (!group || !tag_now(&job, &group->job))
		return 0;
	tgid = BPF_CORE_READ(task, tgid);
	if (!zn_task_put(tgid, &job))
		return 0;
	ZN_ADD(shared.io_change, 1);
	row_tag(tgid, &job);
	if (BPF_CORE_READ(task, signal, live.counter) == 0)
		zn_task_drop(tgid);
	return 0;
}

/* What a new process belongs to: the job of the group it was created in, else its parent's. Only with CLONE_INTO_CGROUP
 * its set of groups is not the parent's own. */
static __always_inline struct zn_job_ref *tag_of_new(struct task_struct *child)
{
	struct task_struct *parent = (void *)bpf_get_current_task();
	struct css_set *set = BPF_CORE_READ(child, cgroups);
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct zn_cgroup_key key = {};
	struct zn_cgroup *group;

	if (set != BPF_CORE_READ(parent, cgroups)) {
		key.id = BPF_CORE_READ(set, dfl_cgrp, kn, id);
		group = bpf_map_lookup_elem(&cgroups, &key);
		if (group && job_of(&group->job))
			return &group->job;
	}
	return bpf_map_lookup_elem(&tasks, &tgid);
}

/* (parent, child), before the child runs. */
SEC("raw_tp/sched_process_fork")
int job_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *child = (void *)ctx->args[1];
	struct zn_job_ref *tag;
	__u32 tgid;

	if (!shared.jobs)
		return 0;
	tgid = BPF_CORE_READ(child, tgid);
	if ((__u32)BPF_CORE_READ(child, pid) != tgid)
		return 0; /* a thread */
	tag = tag_of_new(child);
	if (!tag || !job_of(tag))
		zn_task_drop(tgid); /* of an earlier process of this id, whose end was missed */
	else
		zn_task_put(tgid, tag);
	return 0;
}

/* ---- what the kernel kills for want of memory ---- */

/* Whose limit was reached. The kernel does this with one lock held, so there is one at a time, and its victims follow
 * on the same thread. */
struct oom_case {
	__u64 ns;
	__u64 chosen; /* its task */
	__u64 used, limit;
	__u32 tid;
	__u32 scope;
	char group[32];
	__s64 pages[4]; /* of the victim at hand, by enum zn_oom_memory */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct oom_case);
} oom_cases SEC(".maps");

#define OOM_CASE_NS  60000000000ULL /* a victim that is marked later was chosen elsewhere; a full node takes seconds */
#define GROUPS_DEEP  8
#define PAGES_WANTED 8  /* at most, by one that kills for it (PAGE_ALLOC_COSTLY_ORDER) */
#define PAGES_KEPT   64 /* of a group by each CPU, which gives them back when it comes to it (MEMCG_CHARGE_BATCH) */

static __always_inline struct oom_case *oom_case(void)
{
	const __u32 first = 0;

	return bpf_map_lookup_elem(&oom_cases, &first);
}

static __always_inline __u32 scope_of(struct cgroup *cgrp)
{
	struct zn_cgroup_key key = key_of(cgrp);
	struct zn_cgroup *group = bpf_map_lookup_elem(&cgroups, &key);

	if (!group)
		return ZN_OOM_OTHER;
	return group->level == ZN_CGROUP_JOB ? ZN_OOM_JOB : group->level == ZN_CGROUP_STEP ? ZN_OOM_STEP : ZN_OOM_BELOW;
}

SEC("kprobe/oom_kill_process")
int oom_begin(struct pt_regs *ctx)
{
	struct oom_control *oc = (void *)ZN_ARG1(ctx);
	struct mem_cgroup *memcg = BPF_CORE_READ(oc, memcg);
	struct oom_case *c = oom_case();
	struct cgroup *cgrp;

	if (!c)
		return 0;
	__builtin_memset(c, 0, sizeof(*c));
	c->ns = bpf_ktime_get_ns();
	c->chosen = (__u64)BPF_CORE_READ(oc, chosen);
	c->tid = bpf_get_current_pid_tgid();
	c->scope = ZN_OOM_NODE;
	c->used = c->limit = ZN_NOT_KNOWN;
	if (!memcg)
		return 0;
	cgrp = BPF_CORE_READ(memcg, css.cgroup);
	c->scope = scope_of(cgrp);
	c->used = BPF_CORE_READ(memcg, memory.usage.counter) * shared.page_bytes;
	c->limit = BPF_CORE_READ(memcg, memory.max) * shared.page_bytes;
	bpf_probe_read_kernel_str(c->group, sizeof(c->group), BPF_CORE_READ(cgrp, kn, name));
	return 0;
}

/* (pid), on newer kernels (task, uid): of a thread that has the memory. That is no process by its number once the
 * first thread of one has ended; an address of the kernel is a negative number, and none is. */
static __always_inline __u32 victim_of(const struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *task = (void *)ctx->args[0];

	return (__s64)ctx->args[0] < 0 ? (__u32)BPF_CORE_READ(task, tgid) : (__u32)ctx->args[0];
}

/* The same as a task: where the number alone is told, it is the calling process, or the one that was chosen. NULL:
 * another one. */
static __always_inline struct task_struct *victim_task(
	const struct bpf_raw_tracepoint_args *ctx, const struct oom_case *c, __u32 tgid)
{
	struct task_struct *chosen = c ? (void *)c->chosen : NULL;

	if ((__s64)ctx->args[0] < 0)
		return (void *)ctx->args[0];
	if (bpf_get_current_pid_tgid() >> 32 == tgid)
		return (void *)bpf_get_current_task();
	return chosen && (__u32)BPF_CORE_READ(chosen, pid) == (__u32)ctx->args[0] ? chosen : NULL;
}

/* What a CPU has counted of a kind and not added to its sum: over many CPUs that may be much. */
__noinline int add_own_pages(__u64 counter, __u32 cpu, __u32 kind)
{
	__s32 *base = BPF_CORE_READ((struct percpu_counter *)counter, counters), pages = 0;
	struct oom_case *c = oom_case();
	void *at = base ? per_cpu(base, cpu) : NULL;

	if (!c || !at)
		return 1;
	bpf_probe_read_kernel(&pages, sizeof(pages), at);
	ZN_OPAQUE(kind);
	c->pages[kind & 3] += pages;
	return 0;
}

static __always_inline void pages_sum(struct oom_case *c, struct mm_struct *mm)
{
	struct mm_struct___before_62 *older = (void *)mm;
	struct percpu_counter *file, *anon, *shmem;

	if (bpf_core_field_exists(struct mm_struct___before_62, rss_stat)) {
		c->pages[ZN_OOM_FILE] = BPF_CORE_READ(older, rss_stat.count[0].counter);
		c->pages[ZN_OOM_ANON] = BPF_CORE_READ(older, rss_stat.count[1].counter);
		c->pages[ZN_OOM_SHMEM] = BPF_CORE_READ(older, rss_stat.count[3].counter);
		return;
	}
	file = __builtin_preserve_access_index(&mm->rss_stat[0]);
	anon = __builtin_preserve_access_index(&mm->rss_stat[1]);
	shmem = __builtin_preserve_access_index(&mm->rss_stat[3]);
	c->pages[ZN_OOM_FILE] = BPF_CORE_READ(file, count);
	c->pages[ZN_OOM_ANON] = BPF_CORE_READ(anon, count);
	c->pages[ZN_OOM_SHMEM] = BPF_CORE_READ(shmem, count);
	for (__u32 cpu = 0; cpu < ZN_CPUS_MAX && cpu < shared.cpu_count; cpu++) {
		add_own_pages((__u64)file, cpu, ZN_OOM_FILE);
		add_own_pages((__u64)anon, cpu, ZN_OOM_ANON);
		add_own_pages((__u64)shmem, cpu, ZN_OOM_SHMEM);
	}
}

/* Of the group that counts a task's memory; NULL: the kernel counts none. */
static __always_inline struct cgroup_subsys_state *memory_of(struct task_struct *task)
{
	struct cgroup_subsys_state *css = NULL, **subsys;
	struct css_set *set = BPF_CORE_READ(task, cgroups);

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return NULL;
	subsys = __builtin_preserve_access_index(&set->subsys[0]);
	bpf_probe_read_kernel(&css, sizeof(css), subsys + bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id));
	return css;
}

/* The group of a job that counts a task's memory, or that of version 2. NULL: none. */
static __always_inline struct zn_cgroup *group_of_task(struct task_struct *task)
{
	struct cgroup_subsys_state *css = memory_of(task);
	struct zn_cgroup *group = NULL;
	struct zn_cgroup_key key;

	if (css) {
		key = key_of(BPF_CORE_READ(css, cgroup));
		group = bpf_map_lookup_elem(&cgroups, &key);
	}
	if (group)
		return group;
	key = key_of(BPF_CORE_READ(task, cgroups, dfl_cgrp));
	return bpf_map_lookup_elem(&cgroups, &key);
}

static __always_inline void fill_memory(struct zn_oom *to, struct oom_case *c, struct task_struct *task)
{
	struct mm_struct *mm = task ? BPF_CORE_READ(task, mm) : NULL;

	if (!mm || !c)
		return;
	pages_sum(c, mm);
	for (int kind = 0; kind < ZN_OOM_MEMORIES; kind++)
		to->bytes[kind] = c->pages[kind] > 0 ? c->pages[kind] * shared.page_bytes : 0;
}

/* Where the kernel's function was not seen: of the groups of the thread that wanted memory the one with the least room,
 * unless it has more than what CPUs have given back since. */
static __always_inline void fill_full_group(struct zn_oom *to)
{
	struct cgroup_subsys_state *css = memory_of((void *)bpf_get_current_task()), *full = NULL;
	__s64 least = PAGES_WANTED + PAGES_KEPT * shared.cpu_count, room;

	for (int depth = 0; css && depth < GROUPS_DEEP; depth++) {
		room = BPF_CORE_READ((struct mem_cgroup *)css, memory.max);
		room -= BPF_CORE_READ((struct mem_cgroup *)css, memory.usage.counter);
		if (room < least) {
			least = room;
			full = css;
		}
		css = BPF_CORE_READ(css, parent);
	}
	if (!full)
		return;
	to->event.detail = scope_of(BPF_CORE_READ(full, cgroup));
	to->used = BPF_CORE_READ((struct mem_cgroup *)full, memory.usage.counter) * shared.page_bytes;
	to->limit = BPF_CORE_READ((struct mem_cgroup *)full, memory.max) * shared.page_bytes;
	bpf_probe_read_kernel_str(to->group, sizeof(to->group), BPF_CORE_READ(full, cgroup, kn, name));
}

static __always_inline void fill_case(struct zn_oom *to, const struct oom_case *c)
{
	if (!c || c->tid != (__u32)bpf_get_current_pid_tgid() || to->ns - c->ns > OOM_CASE_NS) {
		fill_full_group(to);
		return;
	}
	to->event.detail = c->scope;
	to->used = c->used;
	to->limit = c->limit;
	__builtin_memcpy(to->group, c->group, sizeof(to->group));
}

static __always_inline void oom_tell(
	const struct bpf_raw_tracepoint_args *ctx, __u32 tgid, const struct zn_job_ref *job)
{
	struct zn_oom *to = bpf_ringbuf_reserve(&events, sizeof(*to), 0);
	struct oom_case *c = oom_case();
	struct task_struct *task;
	struct zn_cgroup *group;

	if (!to) {
		zn_lost(ZN_LOST_RINGBUF);
		return;
	}
	__builtin_memset(to, 0, sizeof(*to));
	to->event = (struct zn_event){.type = ZN_EV_OOM, .tgid = tgid, .row = ZN_STEPS_MAX};
	if (job)
		to->job = *job;
	to->ns = bpf_ktime_get_ns();
	to->used = to->limit = to->bytes[ZN_OOM_FILE] = to->bytes[ZN_OOM_ANON] = to->bytes[ZN_OOM_SHMEM] = ZN_NOT_KNOWN;
	task = victim_task(ctx, c, tgid);
	if (task) {
		BPF_CORE_READ_STR_INTO(&to->comm, task, group_leader, comm);
		group = group_of_task(task);
		if (job && group && group->job.slot == job->slot && group->job.serial == job->serial)
			to->event.row = group->step;
	}
	fill_memory(to, c, task);
	fill_case(to, c);
	bpf_ringbuf_submit(to, 0);
}

SEC("raw_tp/mark_victim")
int oom_victim(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 tgid = victim_of(ctx);
	struct zn_proc *p = zn_tracked(tgid);
	struct zn_job_ref *tag = bpf_map_lookup_elem(&tasks, &tgid), job = {};
	struct zn_job_shared *row;

	if (tag)
		job = *tag;
	else if (p)
		job = p->job;
	row = job_of(&job);
	if (row)
		ZN_ADD(row->oom_kills, 1);
	else if (p || bpf_map_lookup_elem(&workers, &tgid))
		ZN_ADD(shared.oom_kills, 1);
	else
		return 0;
	oom_tell(ctx, tgid, row ? &job : NULL);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
