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

static __always_inline void group_counted(const struct zn_cgroup *c)
{
	struct zn_job_shared *row = job_of(&c->job);

	if (!row || c->level != ZN_CGROUP_JOB)
		return;
	ZN_ADD(row->cgroups, 1);
	row->cgroup_seen = 1;
	row->gone_ns = 0;
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
		group_counted(&group);
		return 0;
	}
	zn_quota_give_to(ZN_QUOTA_CGROUP, zn_cgroup_owner(&group));
	zn_lost(ZN_LOST_TASK);
	return 0;
}

/* ---- a control group is removed ---- */

/* The highest use of memory, from the controller's own counter: the controller leaves only after this. 0: this group
 * has no memory controller. */
static __always_inline __u64 mem_peak(struct cgroup *cgrp)
{
	struct cgroup_subsys_state *css = NULL, **subsys;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id) ||
		!bpf_core_field_exists(struct mem_cgroup, memory))
		return 0;
	subsys = __builtin_preserve_access_index(&cgrp->subsys[0]);
	subsys += bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	if (bpf_probe_read_kernel(&css, sizeof(css), subsys) || !css)
		return 0;
	return BPF_CORE_READ((struct mem_cgroup *)css, memory.watermark) * shared.page_bytes;
}

static __always_inline void step_gone(struct zn_job_shared *row, __u32 index, __u64 peak)
{
	struct zn_step *step;

	if (index >= ZN_STEPS_MAX)
		return;
	ZN_OPAQUE(index); /* verifiers up to 6.1 forget the check once the value is spilled */
	step = &row->step[index & (ZN_STEPS_MAX - 1)];
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

/* (pid), on newer kernels (task, uid): of a thread that has the memory. That is no process by its number once the
 * first thread of one has ended; an address of the kernel is a negative number, and none is. */
static __always_inline __u32 victim_of(const struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *task = (void *)ctx->args[0];

	return (__s64)ctx->args[0] < 0 ? (__u32)BPF_CORE_READ(task, tgid) : (__u32)ctx->args[0];
}

SEC("raw_tp/mark_victim")
int oom_victim(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 tgid = victim_of(ctx);
	struct zn_proc *p = zn_tracked(tgid);
	struct zn_job_ref *tag = bpf_map_lookup_elem(&tasks, &tgid);
	struct zn_job_shared *row = tag ? job_of(tag) : p ? job_of(&p->job) : NULL;

	if (row)
		ZN_ADD(row->oom_kills, 1);
	else if (p || bpf_map_lookup_elem(&workers, &tgid))
		ZN_ADD(shared.oom_kills, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
