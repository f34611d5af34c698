// SPDX-License-Identifier: GPL-2.0
/*
 * The end of threads and processes, and exec, which ends a program without ending its process. Raw tracepoints: they
 * need no BTF to attach. The row itself is given back by the daemon, after it has read the last figures.
 */
#include "stall.bpf.h"
#include <bpf/bpf_core_read.h>

/* Those since it left its CPU last; all of them, if it never did since its process was known. Of threads that end at
 * one time the first one may have taken the row out of the table: the others have it by their entries still. */
static __always_inline void faults_gone(__u32 tid, __u32 tgid)
{
	const struct task_struct *task = (void *)bpf_get_current_task();
	struct zn_sched_entry *r = zn_is_on(ZN_FAM_SCHED) ? zn_sched_entry_find(tid) : NULL, none = {0};
	struct zn_proc *p = r && r->flags & ZN_SCHED_FAULTS ? zn_sched_entry_proc(r) : NULL;

	if (!p || p->tgid != tgid) {
		p = zn_is_on(ZN_FAM_SCHED) ? zn_tracked(tgid) : NULL;
		if (!p || BPF_CORE_READ(task, start_time) <= p->first_ns)
			return;
		r = &none;
	}
	zn_faults_add(r, p, BPF_CORE_READ(task, min_flt), BPF_CORE_READ(task, maj_flt), false);
}

static __always_inline void thread_gone(__u32 tid)
{
	struct zn_thread *t = zn_thread_find(tid);

	zn_sched_entry_gone(tid);
	zn_quota_refused_end(ZN_REFUSED_THREAD, tid);
	if (!t)
		return;
	if (t->depth)
		zn_lost_many(ZN_LOST_INFLIGHT, t->depth);
	zn_thread_forget(t, tid);
}

/* A thread that dies inside a system call leaves it without a return (an oops in a driver). */
static __always_inline void calls_gone(__u32 tgid)
{
	struct zn_proc *p = zn_tracked(tgid);
	struct zn_timed_call c;

	if (!p)
		return;
	if (zn_timed_end(p, ZN_TIMED_IOCTL, &c))
		zn_gpu_leave(p, bpf_ktime_get_ns());
	zn_timed_end(p, ZN_TIMED_RECEIVE, &c);
}

/* A thread that was killed inside of a system call; and the next one with its id may be of another job. */
static __always_inline void io_pending_gone(__u32 tid)
{
	for (int kind = ZN_IO_DATA; kind < ZN_IO_KINDS; kind++) {
		__u32 owner = ZN_IO_OWNER(tid, kind);
		struct zn_io_pending *s = zn_io_pending_find(owner);

		zn_io_pending_forget(owner);
		if (!s)
			continue;
		if (s->start_ns && kind != ZN_IO_FAULT)
			zn_lost(ZN_LOST_INFLIGHT);
		zn_io_pending_free(s, owner);
	}
}

#ifdef ZN_NO_FETCH
#define TRACKS 0
#else
#define TRACKS 1
#endif

static __always_inline void proc_gone(__u32 tgid, __u32 exit_code)
{
	__u32 *found = bpf_map_lookup_elem(&rows, &tgid);
	struct zn_proc *p;
	__u32 row;

	if (!found)
		return;
	row = *found;
	p = bpf_map_lookup_elem(&procs, &row);
	if (!p || bpf_map_delete_elem(&rows, &tgid))
		return;
	ZN_ADD(shared.pid_filter[ZN_PID_FILTER_AT(tgid)], -ZN_PID_TRACKED);
	p->exit_code = exit_code;
	p->exit_ns = bpf_ktime_get_ns();
	zn_emit(ZN_EV_EXIT, row, 0, 0);
}

static __always_inline void task_gone(__u32 tgid)
{
	if (TRACKS && shared.pid_filter[ZN_PID_FILTER_AT(tgid)] >= ZN_PID_WORKER)
		zn_worker_gone(tgid);
	if (TRACKS)
		zn_quota_refused_end(ZN_REFUSED_PROCESS, tgid);
	if (shared.jobs)
		zn_task_drop(tgid);
}

SEC("raw_tp/sched_process_exit")
int process_exit(void *ctx __attribute__((unused)))
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 id = bpf_get_current_pid_tgid();

	if (TRACKS) {
		faults_gone(id, id >> 32);
		thread_gone(id);
		calls_gone(id >> 32);
	}
	io_pending_gone(id);
	/* live was counted down before this tracepoint: 0 means that no thread of the group runs user code
	 * any more */
	if (BPF_CORE_READ(task, signal, live.counter) == 0) {
		proc_gone(id >> 32, BPF_CORE_READ(task, exit_code));
		task_gone(id >> 32);
	}
	return 0;
}

/* (task, old_pid, bprm): the calling thread took over the leader's id, all other threads have exited. */
SEC("raw_tp/sched_process_exec")
int process_exec(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	io_pending_gone(ctx->args[1]);
	if (!TRACKS)
		return 0;
	thread_gone(ctx->args[1]);
	thread_gone(id);
	proc_gone(id >> 32, ZN_UNKNOWN);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
