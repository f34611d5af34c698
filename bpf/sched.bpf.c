// SPDX-License-Identifier: GPL-2.0
/*
 * Context switches, migrations, and what threads of tracked processes wait for. A thread that leaves its CPU by
 * itself is in a system call (or a page fault), and its saved registers say in which one; the rest follows from that:
 *
 *   a pipe, in poll() with a time limit, of a process with children   a batch of its data loader
 *   a TCP socket, in poll(), epoll or a blocking call                 other ranks
 *   a file, a page fault, an uninterruptible sleep                    I/O
 *   a futex                                                           what its waker had been waiting for just before
 *
 * A thread that is stopped, traced or frozen sleeps for none of these, whatever call that came upon it in.
 *
 * The last one follows a chain: the pinning thread of a data loader, or a thread of gloo, comes out of its own wait
 * and wakes the one that launches, maybe by way of another. What is handed on must have ended after the sleeper fell
 * asleep: one that was held up by a lock alone inherits nothing, and neither does one that would have woken within 50
 * ms by itself, as Python's threads do while they wait for the interpreter's lock.
 *
 * BTF tracepoints: fields of tasks are then plain loads. All others on the node pay two array look-ups for each
 * switch, and while no process is tracked these programs are not attached at all.
 */
#include "place.bpf.h"
#include "record.bpf.h"
#include "sleep.bpf.h"
#include <asm/unistd.h>

#define TASK_INTERRUPTIBLE   1
#define TASK_UNINTERRUPTIBLE 2
#define TASK_STOPPED         4
#define TASK_TRACED          8
#define TASK_NOLOAD          0x400
#define TASK_FROZEN          0x8000  /* by the freezer of cgroup v1, from 6.1 on */
#define PF_FROZEN            0x10000 /* the same before 6.1; later a thread of the kernel's own */
#define PF_EXITING           4
#define S_IFMT               0170000
#define S_IFIFO              0010000
#define S_IFDIR              0040000
#define S_IFBLK              0060000
#define S_IFREG              0100000
#define S_IFSOCK             0140000
#define AF_UNIX              1
#define AF_INET              2
#define AF_INET6             10
#define FUTEX_WAIT           0
#define FUTEX_WAIT_BITSET    9
#define FUTEX_COMMAND        0x7f
#define FUTEX_CLOCK_REALTIME 0x100

#define MS 1000000ULL
/* Python waits for its interpreter's lock in steps of 5 ms */
#define LOCK_LIMIT (50 * MS)
/* MP_STATUS_CHECK_INTERVAL of PyTorch; the deadline was computed a little before the sleep */
#define LOADER_LIMIT_LOW  (4900 * MS)
#define LOADER_LIMIT_HIGH (5001 * MS)
/* A wait goes on in the next sleep if that begins within this after a time limit ran out. */
#define RETRY_GAP (10 * MS)
/* A thread that slept this long for a reason of its own has nothing to tell about what was before. */
#define NEWS_OVER (20 * MS)
/* Timers fire late, never early; the limit counts from a little before the sleep. */
#define LIMIT_SLACK (MS / 5)

enum call { OTHER, FUTEX, POLL, PPOLL, SELECT, EPOLL, SLEEP, DESCRIPTOR, FILES, CHILD };

/* A bit for each call in which an uninterruptible sleep is one for I/O: in the others another thread ends it. */
#define NO_WAKER (~(1u << FUTEX | 1u << CHILD))

#define CALLS 512 /* a power of two; newer calls are OTHER */
const __u8 call_of[CALLS] = {
	[__NR_futex] = FUTEX,
#ifdef __NR_poll
	[__NR_poll] = POLL,
	[__NR_select] = SELECT,
	[__NR_epoll_wait] = EPOLL,
	[__NR_open] = FILES,
	[__NR_stat] = FILES,
	[__NR_lstat] = FILES,
	[__NR_unlink] = FILES,
	[__NR_rename] = FILES,
	[__NR_mkdir] = FILES,
	[__NR_rmdir] = FILES,
	[__NR_vfork] = CHILD,
#endif
	[__NR_ppoll] = PPOLL,
	[__NR_pselect6] = SELECT,
	[__NR_epoll_pwait] = EPOLL,
	[441 /* epoll_pwait2 */] = EPOLL,
	[__NR_nanosleep] = SLEEP,
	[__NR_clock_nanosleep] = SLEEP,
	[__NR_read] = DESCRIPTOR,
	[__NR_write] = DESCRIPTOR,
	[__NR_readv] = DESCRIPTOR,
	[__NR_writev] = DESCRIPTOR,
	[__NR_pread64] = DESCRIPTOR,
	[__NR_pwrite64] = DESCRIPTOR,
	[__NR_preadv] = DESCRIPTOR,
	[__NR_pwritev] = DESCRIPTOR,
	[__NR_preadv2] = DESCRIPTOR,
	[__NR_pwritev2] = DESCRIPTOR,
	[__NR_recvfrom] = DESCRIPTOR,
	[__NR_recvmsg] = DESCRIPTOR,
	[__NR_recvmmsg] = DESCRIPTOR,
	[__NR_sendto] = DESCRIPTOR,
	[__NR_sendmsg] = DESCRIPTOR,
	[__NR_sendmmsg] = DESCRIPTOR,
	[__NR_accept] = DESCRIPTOR,
	[__NR_accept4] = DESCRIPTOR,
	[__NR_connect] = DESCRIPTOR,
	[__NR_getdents64] = DESCRIPTOR,
	[__NR_fsync] = FILES,
	[__NR_fdatasync] = FILES,
	[__NR_sync_file_range] = FILES,
	[__NR_ftruncate] = FILES,
	[__NR_fallocate] = FILES,
	[__NR_openat] = FILES,
	[437 /* openat2 */] = FILES,
	[__NR_newfstatat] = FILES,
	[__NR_statx] = FILES,
	[__NR_unlinkat] = FILES,
	[__NR_renameat2] = FILES,
	[__NR_mkdirat] = FILES,
	[__NR_io_getevents] = FILES,
	[426 /* io_uring_enter */] = FILES,
	[__NR_clone] = CHILD,
	[435 /* clone3 */] = CHILD,
};

/* A sleep that begins: what is known of it now. */
struct sleep {
	struct task_struct *task;
	struct zn_sched_entry *run;
	struct zn_proc *proc;
	__u64 now;
	__u32 state;
};

static __always_inline void set_cause(struct zn_sched_entry *r, __u8 kind, __u8 cause)
{
	r->kind = kind - ZN_C_OFFCPU_IO;
	r->cause = cause;
}

/* ---- descriptors ---- */

static __always_inline __u32 type_of(struct file *file)
{
	if (!file)
		return 0;
	return (zn_casts ? ZN_CAST(file, struct file)->f_inode->i_mode : BPF_CORE_READ(file, f_inode, i_mode)) & S_IFMT;
}

/* Regular files, folders and disks. Memory without a name and event descriptors may be like the first, but lie on
 * mounts of the kernel's own. Without a branch, both ways of which the verifier would follow to the end. */
static __always_inline bool is_of_files(struct file *file, __u32 type)
{
	unsigned long flags = zn_casts ? ZN_CAST(file, struct file)->f_inode->i_sb->s_flags
				       : BPF_CORE_READ(file, f_inode, i_sb, s_flags);
	__u32 own = flags / SB_KERNMOUNT & 1, kind = type / S_IFIFO;

	ZN_OPAQUE(kind);
	return (1u << S_IFDIR / S_IFIFO | 1u << S_IFBLK / S_IFIFO | (own ^ 1) << S_IFREG / S_IFIFO) >> (kind & 15) & 1;
}

static __always_inline __u32 family_of(struct file *file)
{
	struct socket *socket = ZN_FIELD(file, struct file, private_data);

	return zn_casts ? ZN_CAST(socket, struct socket)->sk->__sk_common.skc_family
			: BPF_CORE_READ(socket, sk, __sk_common.skc_family);
}

static __always_inline bool is_tcp(struct file *file)
{
	__u32 family = type_of(file) == S_IFSOCK ? family_of(file) : 0;

	return family == AF_INET || family == AF_INET6;
}

/* Who answers requests waits for them at its sockets, and not for other ranks. */
static __always_inline __u8 tcp_cause(const struct sleep *s)
{
	return s->proc->calls & ZN_IS_ASKED ? ZN_STALL_OTHER : ZN_STALL_DIST;
}

/* Shared memory's descriptors come from workers over Unix sockets. */
static __always_inline __u8 socket_cause(const struct sleep *s, struct file *file)
{
	__u32 family = family_of(file);

	if (family == AF_INET || family == AF_INET6)
		return tcp_cause(s);
	return family == AF_UNIX && s->proc->count[ZN_C_CHILDREN] ? ZN_STALL_DATA : ZN_STALL_OTHER;
}

/* A blocking call on a descriptor: the rest of a batch after its first bytes, a socket, a file, or a terminal, an event
 * or a device, which are none. */
static __always_inline void descriptor_classify(const struct sleep *s, __u32 fd)
{
	struct file *file = file_of(s->task, fd);
	__u32 type = type_of(file);
	struct zn_sched_entry *r = s->run;

	set_cause(r, ZN_C_OFFCPU_POLL, ZN_STALL_OTHER);
	if (type == S_IFSOCK) {
		r->cause = socket_cause(s, file);
		return;
	}
	if (type == S_IFIFO && r->file == (__u64)file && r->wake_cause == ZN_STALL_DATA &&
		s->now - r->wake_ns < RETRY_GAP)
		r->cause = ZN_STALL_DATA;
	else if (is_of_files(file, type))
		set_cause(r, ZN_C_OFFCPU_IO, ZN_STALL_IO);
}

/* Apart from its callers for the verifier of 6.1, which follows each of its ways to their end. */
static __noinline void classify_descriptor(const struct sleep *s, __u32 fd)
{
	descriptor_classify(s, fd);
}

struct poll_fd {
	__s32 fd;
	__s16 events, revents;
};
struct timespec64 {
	__s64 sec, nsec;
};

static __always_inline __u64 timespec_ns(__u64 at)
{
	struct timespec64 t;

	if (!at || bpf_probe_read_user(&t, sizeof(t), (void *)at) || t.sec < 0 || t.sec >> 32)
		return 0;
	return t.sec * 1000 * MS + t.nsec;
}

/* poll() of one descriptor; the limit is in its entry, 0: for ever. */
static __noinline void poll_one(const struct sleep *s, __u64 at)
{
	struct zn_sched_entry *r = s->run;
	struct poll_fd poll;
	struct file *file;
	__u32 type;

	set_cause(r, ZN_C_OFFCPU_POLL, ZN_STALL_OTHER);
	if (bpf_probe_read_user(&poll, sizeof(poll), (void *)at)) {
		r->limit_ns = 0;
		return;
	}
	file = file_of(s->task, poll.fd);
	type = type_of(file);
	r->file = (__u64)file;
	if (type == S_IFSOCK)
		r->cause = socket_cause(s, file);
	else if (type == S_IFIFO && r->limit_ns && (s->proc->count[ZN_C_CHILDREN] || r->flags & ZN_SCHED_WORKER))
		r->cause = ZN_STALL_DATA;
}

static __always_inline struct file *item_file(struct rb_node *node)
{
	struct epitem *item = (void *)node; /* the node is its first member */

	return node ? BPF_CORE_READ(item, ffd.file) : NULL;
}

/* An epoll instance is for what the topmost of its descriptors are. */
static __noinline void classify_epoll(const struct sleep *s, __u32 fd)
{
	struct file *file = file_of(s->task, fd);
	struct eventpoll *ep = file ? BPF_CORE_READ(file, private_data) : NULL;
	struct rb_node *root = ep ? BPF_CORE_READ(ep, rbr.rb_root.rb_node) : NULL;
	bool tcp = false;

	if (root)
		tcp = is_tcp(item_file(root)) || is_tcp(item_file(BPF_CORE_READ(root, rb_left))) ||
			is_tcp(item_file(BPF_CORE_READ(root, rb_right)));
	set_cause(s->run, ZN_C_OFFCPU_POLL, tcp ? tcp_cause(s) : ZN_STALL_OTHER);
}

/* ---- futexes ---- */

/* Not static: the verifier looks at it by itself, once, and not after all that may have come before. */
__noinline int classify_futex(struct zn_sched_entry *r, __u32 op, __u64 timeout, __u64 now, __u32 children)
{
	__u64 limit = timespec_ns(timeout), from = now;

	if (!r)
		return 0;
	set_cause(r, ZN_C_OFFCPU_FUTEX, ZN_STALL_PENDING);
	if (!limit)
		return 0;
	if (op & FUTEX_CLOCK_REALTIME)
		from += shared.wall_ns;
	if ((op & FUTEX_COMMAND) != FUTEX_WAIT)
		limit = zn_minus(limit, from);
	r->limit_ns = limit;
	if (limit < LOCK_LIMIT)
		r->cause = ZN_STALL_OTHER;
	else if (limit >= LOADER_LIMIT_LOW && limit <= LOADER_LIMIT_HIGH && children)
		r->cause = ZN_STALL_DATA;
	return 0;
}

/* ---- falling asleep ---- */

static __always_inline void call_classify(const struct sleep *s, const struct pt_regs *regs, __u32 call)
{
	struct zn_sched_entry *r = s->run;

	switch (call) {
	case FUTEX:
		classify_futex(r, ZN_CALL_ARG2(regs), ZN_CALL_ARG4(regs), s->now, s->proc->count[ZN_C_CHILDREN]);
		break;
	case SLEEP: set_cause(r, ZN_C_OFFCPU_SLEEP, ZN_STALL_OTHER); break;
	case FILES: set_cause(r, ZN_C_OFFCPU_IO, ZN_STALL_IO); break;
	case DESCRIPTOR:
		if (zn_casts)
			descriptor_classify(s, ZN_CALL_ARG1(regs));
		else
			classify_descriptor(s, ZN_CALL_ARG1(regs));
		break;
	case EPOLL: classify_epoll(s, ZN_CALL_ARG1(regs)); break;
	case SELECT: set_cause(r, ZN_C_OFFCPU_POLL, ZN_STALL_OTHER); break;
	case POLL:
	case PPOLL:
		set_cause(r, ZN_C_OFFCPU_POLL, ZN_STALL_OTHER);
		if (ZN_CALL_ARG2(regs) != 1)
			break;
		if (call == PPOLL)
			r->limit_ns = timespec_ns(ZN_CALL_ARG3(regs));
		else if ((__s32)ZN_CALL_ARG3(regs) > 0)
			r->limit_ns = (__u32)ZN_CALL_ARG3(regs) * MS;
		poll_one(s, ZN_CALL_ARG1(regs));
		break;
	default: set_cause(r, ZN_C_OFFCPU_OTHER, ZN_STALL_OTHER);
	}
}

/* By a signal, by who traces it, or by the freezer of its control group. Who waits in vfork() bears the freezer's mark
 * too, but does not sleep as who is frozen. */
static __always_inline bool is_stopped(const struct sleep *s)
{
	struct task_struct *task = s->task;

	if (s->state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN) || task->flags & PF_FROZEN)
		return true;
	return s->state & TASK_INTERRUPTIBLE && bpf_core_field_exists(task->frozen) &&
		BPF_CORE_READ_BITFIELD(task, frozen);
}

static __always_inline void classify_sleep(const struct sleep *s)
{
	const struct pt_regs *regs = zn_registers_of(s->task);
	int number = ZN_CALL_NUMBER(regs);
	__u32 call = number >= 0 && number < CALLS ? call_of[number & (CALLS - 1)] : OTHER;
	__u32 deep = s->state / TASK_UNINTERRUPTIBLE & ~(s->state / TASK_NOLOAD) & 1;

	s->run->limit_ns = 0;
	s->run->flags &= ~(ZN_SCHED_GIVEN | ZN_SCHED_DEEP | ZN_SCHED_STOPPED);
	if (is_stopped(s)) {
		s->run->flags |= ZN_SCHED_STOPPED;
		set_cause(s->run, ZN_C_OFFCPU_OTHER, ZN_STALL_OTHER);
		return;
	}
	s->run->flags |= deep * ZN_SCHED_DEEP;
	if ((deep & NO_WAKER >> call) | (__u32)number >> 31)
		set_cause(s->run, ZN_C_OFFCPU_IO, ZN_STALL_IO);
	else
		call_classify(s, regs, call);
}

/* ---- workers ---- */

/* The first sign that a child is a data loader's worker. What it did before counts too. */
static __always_inline void loader_found(struct zn_sched_entry *r, struct zn_proc *p)
{
	__u32 tgid = r->tid; /* it is the main thread's */
	struct zn_loader_worker *w;

	if (r->flags & ZN_SCHED_LOADER)
		return;
	r->flags |= ZN_SCHED_LOADER;
	w = bpf_map_lookup_elem(&workers, &tgid);
	if (!w || w->loader)
		return;
	w->loader = 1;
	ZN_ADD(p->count[ZN_C_WORKERS], 1);
}

static __always_inline void worker_busy(struct zn_sched_entry *r, struct zn_proc *p, __u64 now)
{
	r->busy_ns += zn_minus(now, r->mark_ns);
	r->mark_ns = now;
	if (!(r->flags & ZN_SCHED_LOADER))
		return;
	ZN_ADD(p->count[ZN_C_WORKER_BUSY_NS], r->busy_ns);
	r->busy_ns = 0;
}

static __always_inline void worker_off(const struct sleep *s, bool asleep)
{
	struct zn_sched_entry *r = s->run;

	if (asleep)
		classify_sleep(s);
	if (asleep && r->cause == ZN_STALL_DATA && r->limit_ns) {
		loader_found(r, s->proc);
		r->flags |= ZN_SCHED_ASKING;
	}
	worker_busy(r, s->proc, s->now);
}

/* ---- the end of a wait ---- */

/* One wait may be several sleeps, each but the last of which ran into its time limit. */
static __always_inline void wait_over(struct zn_sched_entry *r, __u32 operation, __u64 slept)
{
	if (r->wait_ns && r->wake_ns + RETRY_GAP < r->off_ns) { /* given up after a time limit */
		zn_record_row(r->row, operation, r->wait_ns, 0, false);
		r->wait_ns = 0;
	}
	r->wait_ns += slept;
	if (r->limit_ns && slept + LIMIT_SLACK >= r->limit_ns && !(r->flags & ZN_SCHED_GIVEN))
		return;
	zn_record_row(r->row, operation, r->wait_ns, 0, false);
	r->wait_ns = 0;
}

static __always_inline void worker_on(struct zn_sched_entry *r, struct zn_proc *p, __u64 ready, __u64 slept)
{
	if (r->flags & ZN_SCHED_STOPPED)
		r->mark_ns = ready; /* it was neither busy nor idle */
	if (!(r->flags & ZN_SCHED_ASKING))
		return;
	r->flags &= ~ZN_SCHED_ASKING;
	ZN_ADD(p->count[ZN_C_WORKER_IDLE_NS], zn_minus(ready, r->mark_ns));
	r->mark_ns = ready;
	if (zn_is_on(ZN_FAM_DATALOAD))
		wait_over(r, ZN_H_WORKER_IDLE, slept);
	r->wake_ns = ready;
}

static __always_inline void end_wait(
	struct zn_sched_entry *r, struct zn_proc *p, const struct zn_thread_state *o, __u64 ready, __u64 slept)
{
	__u32 kind = r->kind;
	/* of a batch whose beginning came in poll(): part of the stall, but no wait of its own */
	bool rest = kind == ZN_C_OFFCPU_POLL - ZN_C_OFFCPU_IO && !r->limit_ns;

	if (kind <= ZN_C_OFFCPU_OTHER - ZN_C_OFFCPU_IO)
		ZN_ADD(p->count[ZN_C_OFFCPU_IO + kind], slept);
	if (r->cause != ZN_STALL_DATA && r->cause != ZN_STALL_DIST) {
		if (slept >= NEWS_OVER)
			r->wake_cause = 0;
		return;
	}
	if (o && o->inside == ZN_STALL_CPU) { /* a wait inside a function of NCCL is recorded at its return */
		if (r->cause == ZN_STALL_DATA && !rest && zn_is_on(ZN_FAM_DATALOAD))
			wait_over(r, ZN_H_DATALOAD, slept);
		else if (r->cause == ZN_STALL_DIST && zn_is_on(ZN_FAM_DIST_SYNC))
			wait_over(r, ZN_H_DIST_SYNC, slept);
	}
	r->wake_cause = r->cause;
	r->wake_ns = ready;
}

/* ---- the switch ---- */

/* A place for the thread that leaves, if it is of a tracked process or the main thread of a worker. */
static __noinline struct zn_sched_entry *run_of(struct task_struct *task, __u32 filter)
{
	__u32 tid = task->pid, tgid = task->tgid, *row;
	struct zn_loader_worker *w;
	struct zn_proc *p;
	struct zn_sched_entry *r;

	if (task->flags & PF_EXITING)
		return NULL;
	row = filter & (ZN_PID_WORKER - 1) ? bpf_map_lookup_elem(&rows, &tgid) : NULL;
	p = row ? bpf_map_lookup_elem(&procs, row) : NULL;
	if (p)
		return zn_sched_entry_claim(tid, *row, p, false);
	w = filter >= ZN_PID_WORKER && tid == tgid ? bpf_map_lookup_elem(&workers, &tgid) : NULL;
	p = w ? zn_worker_proc(w) : NULL;
	if (w && !p) {
		zn_worker_gone(tgid); /* the process that it was one of has gone */
		return NULL;
	}
	r = w ? zn_sched_entry_claim(tid, w->row, p, false) : NULL;
	if (!r)
		return NULL;
	r->flags = ZN_SCHED_WORKER;
	r->mark_ns = w->start_ns;
	return r;
}

/* Not static, for the verifier, as classify_futex(). */
__noinline int is_tracked(__u32 tgid)
{
	return zn_tracked(tgid) != NULL;
}

/* False: it is an earlier thread's of this id, whose end was missed, or it was a worker's, which is tracked itself by
 * now. */
static __always_inline bool is_of(
	const struct zn_sched_entry *r, const struct zn_proc *p, const struct task_struct *task)
{
	__u32 first = task->pid; /* of the process, if it is that one's */

	ZN_OPAQUE(first); /* the verifier refuses one load of either place */
	if (!(r->flags & ZN_SCHED_WORKER))
		first = p->tgid;
	else if (is_tracked(first))
		return false;
	return first == (__u32)task->tgid;
}

/* Of a thread that leaves its CPU, what costs next to nothing. */
static __always_inline void count_switch(const struct sleep *s, bool asleep)
{
	const struct task_struct *task = s->task;

	ZN_ADD(s->proc->count[asleep ? ZN_C_SWITCH_VOLUNTARY : ZN_C_SWITCH_INVOLUNTARY], 1);
	zn_faults_add(s->run, s->proc, task->min_flt, task->maj_flt, task->start_time <= s->proc->first_ns);
}

static __always_inline void proc_off(const struct sleep *s, bool asleep)
{
	struct zn_sched_entry *r = s->run;
	struct zn_thread_state *o = zn_thread_state_at(r->row, r->state_at);
	__u32 state = ZN_STALL_RUNQUEUE;

	count_switch(s, asleep);
	if (asleep)
		classify_sleep(s);
	if (!o)
		return;
	if (asleep && o->inside != ZN_STALL_CPU)
		r->cause = o->inside;
	if (asleep)
		state = r->cause;
	zn_stall_to(o, s->proc, s->now, state);
}

/* Of what its process does not have room for in its budget, switches alone are counted. What the thread does was known
 * until now; what it sleeps for is not, and nothing is until a switch is looked at again. Inside a call that waits,
 * that call is what it waits for: a hang in it must not go unseen because it began while the process was spared. */
static __always_inline bool spare_switch(const struct sleep *s, bool asleep)
{
	struct zn_thread_state *o = zn_thread_state_at(s->run->row, s->run->state_at);

	if (!(s->run->flags & ZN_SCHED_WORKER))
		count_switch(s, asleep);
	if (o && o->inside == ZN_STALL_CPU)
		zn_stall_blind(o, s->proc, s->now);
	s->run->off_ns = s->run->ready_ns = s->run->wait_ns = 0;
	return false;
}

/* True: its stack is to be walked. */
static __always_inline bool switch_off(struct task_struct *task, __u32 filter, bool preempt, __u64 now)
{
	struct sleep s = {.task = task, .now = now, .state = task->__state};
	bool asleep = !preempt && s.state;

	s.run = zn_sched_entry_find(task->pid);
	s.proc = s.run ? zn_sched_entry_proc(s.run) : NULL;
	if (!s.proc || !is_of(s.run, s.proc, task)) {
		if (s.run)
			zn_sched_entry_drop(s.run, task->pid);
		s.run = run_of(task, filter);
		s.proc = s.run ? zn_sched_entry_proc(s.run) : NULL;
	}
	if (!s.proc)
		return false;
	if (zn_spares(s.proc, ZN_SPARE_SWITCHES))
		return spare_switch(&s, asleep);
	s.run->kind = ZN_SCHED_PREEMPTED;
	if (s.run->flags & ZN_SCHED_WORKER)
		worker_off(&s, asleep);
	else
		proc_off(&s, asleep);
	s.run->ready_ns = asleep ? 0 : now;
	s.run->off_ns = now;
	return zn_sleep_begin(s.run, s.proc, task, asleep);
}

/* It fell asleep before these programs were attached, or while it was spared: what that was for is not known, and is
 * not counted as anything, but inside a call that waits. */
static __always_inline void end_unseen(struct zn_sched_entry *r, __u64 now)
{
	struct zn_proc *p = zn_sched_entry_proc(r);
	struct zn_thread_state *o = p ? zn_thread_state_at(r->row, r->state_at) : NULL;

	if (r->flags & ZN_SCHED_WORKER)
		r->mark_ns = now;
	if (o && (!o->word || o->inside == ZN_STALL_CPU) && !zn_spares(p, ZN_SPARE_SWITCHES))
		o->word = ZN_THREAD_STATE_WORD(now, o->inside);
}

/* From one moment to another; 0 if the clocks of two CPUs say that the latter was first. Without a branch, both ways of
 * which the verifier would follow to the end. */
static __always_inline __u64 time_between(__u64 from, __u64 to)
{
	__u64 ns = to - from, before = (__s64)ns >> 63; /* all ones: it was */

	ZN_OPAQUE(before);
	return ns & ~before;
}

static __always_inline void switch_on(struct task_struct *task, __u64 now)
{
	struct zn_sched_entry *r = zn_sched_entry_find(task->pid);
	struct zn_proc *p = r && r->off_ns ? zn_sched_entry_proc(r) : NULL;
	struct zn_thread_state *o = p ? zn_thread_state_at(r->row, r->state_at) : NULL;
	__u64 ready, slept, queued;

	if (!p && r && !r->off_ns)
		end_unseen(r, now);
	if (!p)
		return;
	if (!r->ready_ns) /* nobody was seen who woke it */
		r->ready_ns = now;
	ready = *(volatile __u64 *)&r->ready_ns;
	if (r->cause == ZN_STALL_PENDING)
		r->cause = ZN_STALL_OTHER;
	slept = time_between(r->off_ns, ready);
	queued = time_between(ready, now);
	zn_sleep_end(r, p, task, o && o->inside != ZN_STALL_CPU, slept, queued);
	if (r->flags & ZN_SCHED_WORKER) {
		worker_on(r, p, ready, slept);
	} else {
		if (r->kind != ZN_SCHED_PREEMPTED)
			end_wait(r, p, o, ready, slept);
		zn_record(p, ZN_H_RUNQUEUE, queued, 0, false);
	}
	if (o)
		zn_stall_on(o, p, ready, now, r->cause);
	r->off_ns = 0;
}

/* Where there is no walker the program has no tail call: kernels for arm64 before 6.0 would refuse it. */
#ifdef __TARGET_ARCH_x86
#define WALK_SLEEPER(ctx) bpf_tail_call(ctx, &sleep_walkers, 0)
#else
#define WALK_SLEEPER(ctx) (void)ctx
#endif

/* What one switch in so many took, by the clock's low bits. Wake-ups take half as much, and are in it. Not static, for
 * the verifier, as classify_futex(). */
__noinline int charge_switch(__u32 tid, __u64 now)
{
	struct zn_sched_entry *r = zn_sched_entry_find(tid);
	struct zn_proc *p = r ? zn_sched_entry_proc(r) : NULL;
	struct zn_spent *spent;
	__u64 ns;

	if (!p)
		return 0;
	spent = &shared.spent[r->row & (ZN_PROCS_MAX - 1)];
	ns = zn_minus(bpf_ktime_get_ns(), now) * (ZN_SPENT_EVERY + ZN_SPENT_EVERY / 2);
	if (zn_spares(p, ZN_SPARE_SWITCHES))
		ZN_ADD(spent->spared_ns, ns);
	else
		ZN_ADD(spent->switch_ns, ns);
	return 0;
}

static __always_inline bool is_measured(__u64 now)
{
	return now * 0x9e3779b97f4a7c15ULL >> 32 & (ZN_SPENT_EVERY - 1) ? false : true;
}

/* (preempt, prev, next): the thread that runs is still prev. */
SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	bool walk = false;
	__u32 off, on;
	__u64 now;

	off = shared.pid_filter[ZN_PID_FILTER_AT(prev->tgid)];
	on = shared.pid_filter[ZN_PID_FILTER_AT(next->tgid)];
	if (!(off | on))
		return 0;
	zn_cpu_ran();
	now = bpf_ktime_get_ns();
	if (on)
		switch_on(next, now);
	if (off) {
		zn_registers_ready();
		walk = switch_off(prev, off, ctx[0] & 1, now);
	}
	if (ZN_RARE(is_measured(now)))
		charge_switch(off ? prev->pid : next->pid, now);
	if (walk)
		WALK_SLEEPER(ctx);
	return 0;
}

/* ---- waking ---- */

/* What the waker had been waiting for, if that explains the wait that ends here. */
static __always_inline __u8 inherited_cause(const struct zn_sched_entry *r)
{
	struct zn_sched_entry *waker = zn_sched_entry_find(bpf_get_current_pid_tgid());

	if (!waker || waker->id != r->id || waker->row != r->row || waker->wake_ns < r->off_ns)
		return ZN_STALL_OTHER;
	return waker->wake_cause ? waker->wake_cause : ZN_STALL_OTHER;
}

/* A batch that a child has written: that child is a worker of the data loader. */
static __always_inline void batch_from(struct zn_sched_entry *r)
{
	struct zn_sched_entry *waker = zn_sched_entry_find(bpf_get_current_pid_tgid() >> 32);
	struct zn_proc *p = waker && waker->flags & ZN_SCHED_WORKER ? zn_sched_entry_proc(r) : NULL;

	if (!p || waker->row != r->row || waker->id != r->id)
		return;
	loader_found(waker, p);
	r->flags |= ZN_SCHED_GIVEN;
}

static __always_inline void wake_task(struct task_struct *task)
{
	struct zn_sched_entry *r = zn_sched_entry_find(task->pid);
	struct zn_thread_state *o;

	if (!r || !r->off_ns || r->ready_ns)
		return;
	if (r->cause == ZN_STALL_PENDING)
		r->cause = inherited_cause(r);
	else if (r->cause == ZN_STALL_DATA && !(r->flags & ZN_SCHED_WORKER))
		batch_from(r);
	r->ready_ns = bpf_ktime_get_ns();
	o = zn_thread_state_at(r->row, r->state_at);
	if (o && o->id == r->id)
		o->ready_ns = r->ready_ns;
}

/* (task): it is about to be made runnable, by the thread that runs, or by an interrupt of that. */
SEC("tp_btf/sched_waking")
int sched_waking(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	if (shared.pid_filter[ZN_PID_FILTER_AT(task->tgid)])
		wake_task(task);
	return 0;
}

/* ---- migrations ---- */

static __always_inline __u32 cpu_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return ((struct task_struct___before_516 *)task)->cpu;
}

/* (task, to): the kernel asks for it even where the thread stays. */
SEC("tp_btf/sched_migrate_task")
int sched_migrate_task(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	__u32 to = ctx[1], from;
	struct zn_proc *p;
	__u8 a, b;

	p = zn_tracked(task->tgid);
	from = p ? cpu_of(task) : to;
	if (!p || from == to)
		return 0;
	ZN_ADD(p->count[ZN_C_MIGRATE_CPU], 1);
	if (from >= ZN_CPUS_MAX || to >= ZN_CPUS_MAX)
		return 0;
	a = shared.cpu_node[from & (ZN_CPUS_MAX - 1)];
	b = shared.cpu_node[to & (ZN_CPUS_MAX - 1)];
	if (a && b && a != b)
		ZN_ADD(p->count[ZN_C_MIGRATE_NUMA], 1);
	return 0;
}

/* ---- children ---- */

static __always_inline bool parent_row(__u32 tgid, struct zn_loader_worker *to)
{
	__u32 *row = bpf_map_lookup_elem(&rows, &tgid);
	struct zn_proc *p = row ? bpf_map_lookup_elem(&procs, row) : NULL;
	struct zn_loader_worker *w;

	if (p) {
		*to = (struct zn_loader_worker){.row = *row, .id = p->id};
		return true;
	}
	w = bpf_map_lookup_elem(&workers, &tgid);
	if (w)
		*to = *w;
	return w;
}

/* (parent, child) */
SEC("tp_btf/sched_process_fork")
int sched_fork(__u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	__u32 tgid = child->tgid;
	struct zn_loader_worker w;
	struct zn_proc *p;

	if (!shared.pid_filter[ZN_PID_FILTER_AT(parent->tgid)] || (__u32)child->pid != tgid ||
		!parent_row(parent->tgid, &w))
		return 0;
	p = zn_worker_proc(&w);
	w.start_ns = bpf_ktime_get_ns();
	w.loader = 0;
	if (!p)
		return 0;
	zn_sched_entry_gone(tgid); /* an earlier thread's of this id, whose end was missed */
	w.owner = p->owner;
	if (!zn_quota_claim(ZN_QUOTA_WORKER, w.owner))
		return 0;
	if (bpf_map_update_elem(&workers, &tgid, &w, BPF_NOEXIST)) {
		zn_quota_give_to(ZN_QUOTA_WORKER, w.owner);
		zn_lost(ZN_LOST_THREAD);
		return 0;
	}
	ZN_ADD(shared.pid_filter[ZN_PID_FILTER_AT(tgid)], ZN_PID_WORKER);
	ZN_ADD(p->count[ZN_C_CHILDREN], 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
