/* SPDX-License-Identifier: GPL-2.0 */
/*
 * zernel.h: the one header. Section 1 holds every limit, section 2 the histogram, section 3 what the BPF programs and
 * the daemon share: both compilers read these. Then each source file has a section, headed by its path below src/, the
 * prefixes of its public names, and its purpose.
 *
 * Contents, in call order: a file calls its own folder and those above it.
 *   base     log clock version pages loop options options_read text file mountinfo url token units procfs
 *            listening
 *   codec    json http http_body http_value http_answer ws http_client protobuf crc32 gzip elf callsite unwind
 *            symbols pycode dns json_path ras dcgm figures nvml
 *   model    labels quota gpu arena histogram aggregate rates stalls progress ranks startup activity budget stopped
 *            blocked checkpoints causes mounts history baseline xid xid_about oom rdma failed stacks requests latency
 *            serving slowness ports hardware
 *   alert    parse lexer expr fill eval alert findings why slow
 *   worker   worker writer destination inquiry scrape sender reader sandbox sysfs companion gauge
 *   probe    entry hooks process_info kernel attach maps objects calibrate cost stats arena arena_job arena_quota
 *            arena_request sleepers ends probe shadow mappers system file_budget change mapped judge libraries scan
 *            mappings places members services holders children find python native naming clock examples nodes
 *            every walker
 *   job      message table sums gpu_time lifecycle io progress suspicion hierarchies limits cgroup usage
 *            energy fabric ghosts annotations annotator
 *   sim      arena sim scenario random gpu kernel files inference flames jobs hardware
 *   output   metrics_walk metrics_process metrics_failed metrics_job metrics_node metrics_gpu metrics_hardware ports
 *            metrics_io metrics_request metrics_self metrics kept metrics_text metrics_protobuf otlp samples export
 *            snapshot labels pprof speedscope lines why rates_json stalls_json baseline_json history_json io_json
 *            requests_json hardware_json date failed_json usage_json ghosts_json job_json report_gaps report flight
 *            report_cells report_text report_line notify self
 *   serve    auth query buffer conn listen push routes server control_verbs control spool
 *   cli      client parameter call term status why flame hang health ghosts job annotate alerts watch_data
 *            watch_panels watch_jobs watch_cells watch_failed watch_serving watch_views watch verbs
 *   daemon   check diagnose systemd announce confine tick live
 *   zerneld.c
 *
 * What stands within #ifdef ZN_IN_<folder> is for the files and unit tests of that folder alone; the Makefile sees to
 * it.
 *
 * Conventions: functions return 0 or -errno unless they say otherwise; times are nanoseconds of CLOCK_MONOTONIC in
 * fields that end in _ns; sizes are bytes; strings handed in stay the caller's.
 */
#ifndef ZERNEL_H
#define ZERNEL_H

#include <linux/types.h>

/* ---- 1. Limits. Nothing is allocated after start-up: these are all the tables there are. ---- */

#define ZN_PROCS_MAX        1024 /* processes that call a hooked library at one time; the next is dropped and counted */
#define ZN_HISTS_MAX        3200 /* histograms of half a page each: 6.25 MiB of kernel memory */
#define ZN_HISTS_FIRST      1    /* histogram 0 is never handed out, so that 0 can mean "none" */
#define ZN_CALLS_MAX        4096 /* system calls that are under way and timed, but for sends: one per thread and kind */
#define ZN_SOCKS_MAX        4096 /* TCP connections of processes that call a hooked library */
#define ZN_THREAD_CACHE     4096 /* threads found by the low bits of their id alone, and their sends; a power of two */
#define ZN_THREADS_MAX      2560 /* of these threads, those whose place in the cache is another's */
#define ZN_SERVERS_MAX      256  /* processes whose requests are counted */
#define ZN_REQUEST_MAX      4096 /* connections with requests of such processes */
#define ZN_REQUEST_SERIES   512  /* pairs of such a process and a route */
#define ZN_SCRATCHES        64   /* sends and receives of theirs that are read at one time; a power of two */
#define ZN_SERVICES_MAX     64   /* such processes that serve together */
#define ZN_ENGINES_MAX      16   /* processes of one of these that use a GPU; a power of two */
#define ZN_ALLOCS_MAX       32768 /* live GPU allocations of all processes */
#define ZN_CTXS_MAX         4096  /* CUDA contexts and primary-context records */
#define ZN_COMMS_MAX        4096  /* NCCL communicators */
#define ZN_STACKS_MAX       1024  /* stacks of Python functions that calls were counted for lately; a power of two */
#define ZN_STACK_FRAMES     96    /* innermost functions of one of them that are told */
#define ZN_WALKS            64    /* walks at one time; a power of two */
#define ZN_SKEWS_MAX        128   /* communicators whose ranks on this node are compared */
#define ZN_SKEW_RANKS       16    /* ranks of one of them */
#define ZN_SKEW_WINDOW      64    /* collectives that one rank may be ahead of another */
#define ZN_H2_BROKEN_KEPT   16    /* a power of two */
#define ZN_STREAMS_MAX      1024  /* streams that are being captured into a graph */
#define ZN_SCHED_WAYS       4     /* threads in each set of struct zn_sizes */
#define ZN_THREAD_STATES    16    /* threads of one process whose time is followed: those that launch; a power of two */
#define ZN_WORKERS_MAX      3584  /* children of tracked processes that are not tracked themselves */
#define ZN_CPUS_MAX         1024  /* CPUs whose NUMA node is known, and whose part of a job's CPU time */
#define ZN_PID_FILTER_BYTES 16384 /* what the low bits of a thread group id are looked up in first; a power of two */
#define ZN_SERVED_BITS      4096  /* the same of processes whose requests are counted */
#define ZN_FRAMES           4     /* hooked calls nested in one another on one thread */
#define ZN_CTX_STACK        4     /* contexts pushed on one thread */
#define ZN_PROC_GPUS        16    /* CUDA ordinals of one process; ordinal 16 stands for "unknown" */
#define ZN_GPUS_MAX         64    /* GPUs of the node, MIG instances included */
#define ZN_JOBS_MAX         256   /* jobs at one time, those that have ended and are still shown included */
#define ZN_STEPS_MAX        64    /* steps of one job that are told apart */
#define ZN_TASKS_MAX        16384 /* processes that belong to a job */
#define ZN_CGROUPS_MAX      8192  /* control groups of jobs, their steps and tasks, in all hierarchies */
#define ZN_IO_MAX           7168  /* series of file I/O: job, device, operation, shard; with a coarse histogram each */
#define ZN_IO_HISTS         768   /* of them with a whole histogram: reads and writes */
#define ZN_SHARDS_MAX       256   /* histograms to which threads add their launches beside their process's */
#define ZN_IO_OF_USER       12288 /* twice what one user's series may be, those of all his jobs together */
#define ZN_IO_PENDING_MAX   8192  /* threads inside of a file operation at one time; a power of two */
#define ZN_IO_REQUESTS      4096  /* requests of io_uring whose duration is known; a power of two */
#define ZN_AIOS_MAX         5632  /* requests of libaio under way */
/* Alert rules (docs/ALERTS.md). What is at work in one evaluation is given back after it. */
#define ZN_RULES_MAX     64
#define ZN_RULE_NODES    48        /* operations and operands of one rule, its clear included */
#define ZN_SELECTORS_MAX 192       /* metrics named in all rules */
#define ZN_RULE_WORDS    768       /* names and values of their matchers, and of by (...), of all rules */
#define ZN_RULE_BYTES    32768     /* of a file of rules */
#define ZN_ELEMENTS_MAX  16384     /* instances at work */
#define ZN_ELEMENT_TEXT  (1 << 20) /* bytes of their labels */
#define ZN_PASTS_MAX     4096      /* series whose past is kept for rate() and the like; one more has no value there */
#define ZN_ALERTS_OWN    256       /* alerts that are pending or firing, of one instance each */
#define ZN_ALERTS_MAX    320       /* with one of each rule that stands for its further instances */
#define ZN_ALERT_BYTES   384       /* of the labels of one alert */
#define ZN_IO_SUMS_MAX   2048      /* pairs of a job and a mount that have series */
#define ZN_MOUNTS_MAX    1024      /* devices in use whose mount is known; a power of two */
#define ZN_XIDS_MAX      256       /* pairs of a GPU and an error that its driver reported */
#define ZN_RING_BYTES    (64 * 1024)
#define ZN_LIBS_MAX      128 /* files that have a library's name, by inode, hooked or waiting */
#define ZN_CALIB_MAX     512 /* samples of the calibration at start */

/* Tables whose size follows from the CPUs that the machine may have: the threads that work on a node grow with them.
 * Threads that launch have a reserve, so that those that do not cannot keep them out. */
#define ZN_CPU_THREADS       32 /* threads for each CPU that call hooked libraries, from 4096 to: */
#define ZN_CALLERS_MAX       6144
#define ZN_CPU_SCHED_ENTRIES 96   /* threads for each CPU that are of processes that call one */
#define ZN_LAUNCHES_MAX      1024 /* threads that launch, beyond the former */
#define ZN_SPILLED_MAX       1024 /* of the latter whose set was full */
#define ZN_RESERVED_MAX      3072 /* of the latter that launch, where their owner has his share or their set is full */
struct zn_sizes {
	__u32 threads;
	__u32 sched_entries;
};
static inline __u32 zn_power_of_two(__u32 least, __u32 most, __u32 n)
{
	__u32 size = least;

	while (size < n && size < most)
		size *= 2;
	return size;
}
/* sparse: the kernel takes the memory of a hash as it is used. */
static inline struct zn_sizes zn_sizes(__u32 cpus, int sparse)
{
	__u32 threads = sparse ? cpus * ZN_CPU_THREADS : 0;

	return (struct zn_sizes){
		.threads = threads < 4096          ? 4096
			: threads < ZN_CALLERS_MAX ? threads
						   : ZN_CALLERS_MAX,
		.sched_entries = zn_power_of_two(8192, 32768, cpus * ZN_CPU_SCHED_ENTRIES),
	};
}

/* ---- 2. The histogram: log-linear, 16 buckets per power of two, 128 ns to 137 s. ---- */

#define ZN_BUCKET_BITS 4  /* log2 of the buckets per power of two */
#define ZN_FIRST_POWER 7  /* bucket 0 holds everything below 2^7 ns */
#define ZN_LAST_POWER  37 /* the last bucket holds everything from 2^37 ns (137 s) on */
#define ZN_BUCKETS     (2 + ((ZN_LAST_POWER - ZN_FIRST_POWER) << ZN_BUCKET_BITS))

/* The bucket of a duration. Shared by both compilers, so that they cannot disagree. */
static inline __u32 zn_bucket_of(__u64 ns)
{
	__u64 v = ns >> ZN_FIRST_POWER;
	__u32 power = ZN_FIRST_POWER;

	if (v == 0)
		return 0;
	if (ns >> ZN_LAST_POWER)
		return ZN_BUCKETS - 1;
	/* log2 by halving: BPF has no instruction to count leading zeros, and shifts by constants are cheap */
	if (v >> 16)
		v >>= 16, power += 16;
	if (v >> 8)
		v >>= 8, power += 8;
	if (v >> 4)
		v >>= 4, power += 4;
	if (v >> 2)
		v >>= 2, power += 2;
	power += (__u32)(v >> 1);
	return 1 + ((power - ZN_FIRST_POWER) << ZN_BUCKET_BITS) +
		((__u32)(ns >> (power - ZN_BUCKET_BITS)) & ((1 << ZN_BUCKET_BITS) - 1));
}

/* The smallest duration of a bucket, in ns: 0 for bucket 0. The upper end of bucket i is the floor of bucket i + 1. */
static inline __u64 zn_bucket_floor(__u32 bucket)
{
	__u32 i = bucket - 1;

	if (bucket == 0)
		return 0;
	return ((1ULL << ZN_BUCKET_BITS) + (i & ((1 << ZN_BUCKET_BITS) - 1)))
		<< ((i >> ZN_BUCKET_BITS) + ZN_FIRST_POWER - ZN_BUCKET_BITS);
}

/* Half a page. Added to with atomics by BPF and read with plain loads by the daemon; only zeroing all of it resets it,
 * but what is in a shard is taken out piece by piece (zn_hist_gather()).
 * A bucket has 32 bits: the daemon takes 2^31 out of one that has them and keeps how often it did (zn_hist_carry()).
 * So what a bucket holds is told by the functions of model/histogram.c alone. */
#define ZN_CARRY_BITS 31
struct zn_hist {
	__u64 calls;
	__u64 errors;
	__u64 bytes;
	__u64 sum_ns;
	__u64 max_ns;
	__u32 owner;         /* who holds it of the quota */
	__u32 carries;       /* where what was taken out of the buckets is; 0: nothing was; ZN_CARRIES_BEHIND */
	__u64 spread;        /* of reads or writes of files: so many that each group of CPUs has a series of its own */
	__u64 carried_calls; /* at the last look at the buckets for that */
	/* of a shard alone, see struct zn_proc: since the daemon looked, launches of ZN_C_LAUNCH_KERNEL, and hits of
	 * cuda_trace by enum zn_insn */
	__u64 launches;
	__u64 hits[6];
	__u32 bucket[ZN_BUCKETS];
};
_Static_assert(sizeof(struct zn_hist) == 2048, "two histograms are one page");

/* The same with 4 buckets per power of two, in a quarter of the memory; it begins as the other one does. A quantile is
 * at most 12.5 % off. */
#define ZN_COARSE_BITS    2
#define ZN_COARSE_BUCKETS (2 + ((ZN_LAST_POWER - ZN_FIRST_POWER) << ZN_COARSE_BITS))
struct zn_coarse_hist {
	__u64 calls;
	__u64 errors;
	__u64 bytes;
	__u64 sum_ns;
	__u64 max_ns;
	__u32 carries;       /* as in struct zn_hist */
	__u32 carried_calls; /* the low half */
	__u32 bucket[ZN_COARSE_BUCKETS];
};
_Static_assert(sizeof(struct zn_coarse_hist) == 536 &&
		__builtin_offsetof(struct zn_coarse_hist, max_ns) == __builtin_offsetof(struct zn_hist, max_ns),
	"a coarse histogram begins as a whole one");

/* The bucket of a duration. */
static inline __u32 zn_coarse_bucket(__u64 ns)
{
	__u32 whole = zn_bucket_of(ns);

	return whole ? 1 + ((whole - 1) >> (ZN_BUCKET_BITS - ZN_COARSE_BITS)) : 0;
}

/* The bucket of a whole histogram that has the middle of a coarse bucket. */
static inline __u32 zn_coarse_middle(__u32 bucket)
{
	if (bucket == 0 || bucket == ZN_COARSE_BUCKETS - 1)
		return bucket ? ZN_BUCKETS - 1 : 0;
	return 1 + ((bucket - 1) << (ZN_BUCKET_BITS - ZN_COARSE_BITS)) + 1;
}

/* ---- 2a. The quota: what one owner may hold of a table that several owners share (quota.c, quota.bpf.h). ---- */

/*
 * An owner may take an entry as long as he holds fewer than are free besides the reserve. So whoever takes all that he
 * can get ends with half of the table, the next one with a quarter, and who needs little always finds room; a node with
 * one user leaves him half. The owner ZN_OWNER_ROOT is bound by the size of the table alone, and the reserve is his.
 *
 * An owner of a process is its user, or, inside a user namespace, the user who made the outermost such namespace that
 * is not root's: a user who is given a range of user ids stays one owner. Where root made the outermost one, as for
 * containers with user ids of their own, ZN_OWNER_RANGE() of ids are one owner. Other tables have other owners: rules,
 * jobs.
 *
 * Both compilers build this; BPF programs on many CPUs and the daemon may take and give at one time. Two owners who
 * take the last entry together may both get it, so whatever hands out the entries has the last word.
 */
#define ZN_OWNER_ROOT       0u
#define ZN_OWNER_NOBODY     65534u                                          /* whose user is not known */
#define ZN_OWNER_NONE       0xffffffffu                                     /* no user, and no job */
#define ZN_OWNER_RANGE(uid) ((uid)&0xffff0000u ? (uid)&0xffff0000u : (uid)) /* its 65,536 ids; below that its own */
#define ZN_OWNER_JOB(slot)  (0xffff0000u + (slot))                          /* a job; no user is given such an id */
#define ZN_QUOTA_OWNERS     256 /* owners who are told apart; further ones share one place. A power of two */
#define ZN_QUOTA_TRIES      8   /* places where an owner may be */
struct zn_quota_owner {
	union {
		struct {
			__u32 owner; /* and 1; 0: nobody's place */
			__s32 held;
		};
		__u64 word; /* both */
	};
};
struct zn_quota {
	__u32 size;    /* entries of the table. It may change while entries are held */
	__u32 reserve; /* of them for root alone */
	__s32 used;
	__u32 refused_owner; /* and 1: who was refused last; 0: nobody was since it was logged */
	__u64 refused;
	__u64 logged_ns;      /* when it was logged last, and what refused was then */
	__u64 logged_refused; /* both are the daemon's */
	struct zn_quota_owner rest;
	struct zn_quota_owner row[ZN_QUOTA_OWNERS];
};
_Static_assert(sizeof(struct zn_quota) == 48 + 8 * ZN_QUOTA_OWNERS, "padding");

/* BPF of kernels before 5.12: of two owners who come at one time, one shares the other's place for good. */
#ifdef ZN_NO_FETCH
#define ZN_QUOTA_CLAIM(at, value)  (*(at) ? *(volatile __u32 *)(at) : (*(volatile __u32 *)(at) = (value), 0))
#define ZN_QUOTA_SWAP(at, old, to) (0 && (old) == (to))
#else
#define ZN_QUOTA_CLAIM(at, value)  __sync_val_compare_and_swap(at, 0, value)
#define ZN_QUOTA_SWAP(at, old, to) (__sync_val_compare_and_swap(at, old, to) == (old))
#endif

/* The place of a key between two places, which takes the first free one if it has none; below 0: none is free. */
static inline __attribute__((always_inline)) int zn_key_place(__u32 *keys, int from, int to, __u32 key)
{
	for (int i = from; i < to; i++) {
		__u32 seen = keys[i];

		if (seen == 0)
			seen = ZN_QUOTA_CLAIM(&keys[i], key);
		if (seen == 0 || seen == key)
			return i;
	}
	return -1;
}

/* His place, one that nobody has had, or NULL. */
static inline struct zn_quota_owner *zn_quota_find(struct zn_quota *q, __u32 first, __u32 key)
{
	for (__u32 i = 0; i < ZN_QUOTA_TRIES; i++) {
		struct zn_quota_owner *o = &q->row[(first + i) & (ZN_QUOTA_OWNERS - 1)];
		__u32 seen = o->owner;

		if (seen == 0) {
			seen = ZN_QUOTA_CLAIM(&o->owner, key);
			if (seen == 0)
				return o;
		}
		if (seen == key)
			return o;
	}
	return 0;
}

/* The place of an owner who holds nothing. Only while nobody holds anything in the shared place: entries that were
 * taken there are given back there. Two CPUs that do this for one owner at the same instant may give him two, of which
 * one stays unused. */
static inline struct zn_quota_owner *zn_quota_take_over(struct zn_quota *q, __u32 first, __u32 key)
{
	struct zn_quota_owner to = {.owner = key};

	for (__u32 i = 0; q->rest.held == 0 && i < ZN_QUOTA_TRIES; i++) {
		struct zn_quota_owner *o = &q->row[(first + i) & (ZN_QUOTA_OWNERS - 1)], old = {.word = o->word};

		if (old.held == 0 && ZN_QUOTA_SWAP(&o->word, old.word, to.word))
			return o;
	}
	return 0;
}

/* Where an owner's entries are counted; he is given a place if he has none. */
static inline struct zn_quota_owner *zn_quota_owner(struct zn_quota *q, __u32 owner)
{
	__u32 first = owner * 2654435761u >> 16, key = owner + 1;
	struct zn_quota_owner *o = zn_quota_find(q, first, key);

	if (!o)
		o = zn_quota_take_over(q, first, key);
	return o ? o : &q->rest;
}

/* Whether he would get one, whose entries are counted at o. */
static inline __attribute__((always_inline)) int zn_quota_may(
	const struct zn_quota *q, const struct zn_quota_owner *o, __u32 owner)
{
	__s32 free = (__s32)q->size - q->used;

	return free > 0 && (owner == ZN_OWNER_ROOT || o->held < free - (__s32)q->reserve);
}

/* Takes one entry. 0: the owner has his share, or the table is full; nobody is told. */
static inline int zn_quota_try(struct zn_quota *q, __u32 owner)
{
	struct zn_quota_owner *o = zn_quota_owner(q, owner);

	if (!zn_quota_may(q, o, owner))
		return 0;
	(void)__sync_fetch_and_add(&o->held, 1);
	if (o != &q->rest && *(volatile __u32 *)&o->owner != owner + 1) { /* it became another owner's meanwhile */
		(void)__sync_fetch_and_add(&o->held, -1);
		return 0;
	}
	(void)__sync_fetch_and_add(&q->used, 1);
	return 1;
}

/* An owner did not get one: it is counted, and kept for the log. */
static inline void zn_quota_refuse(struct zn_quota *q, __u32 owner)
{
	(void)__sync_fetch_and_add(&q->refused, 1);
	q->refused_owner = owner + 1;
}

/* Both in one. */
static inline int zn_quota_take(struct zn_quota *q, __u32 owner)
{
	int taken = zn_quota_try(q, owner);

	if (!taken)
		zn_quota_refuse(q, owner);
	return taken;
}

/* Gives so many back. */
static inline void zn_quota_give_many(struct zn_quota *q, __u32 owner, __s32 count)
{
	(void)__sync_fetch_and_add(&zn_quota_owner(q, owner)->held, -count);
	(void)__sync_fetch_and_add(&q->used, -count);
}

static inline void zn_quota_give(struct zn_quota *q, __u32 owner)
{
	zn_quota_give_many(q, owner, 1);
}

/* ---- 3. Shared with BPF. ---- */

/* Probe families: switched on and off together. Columns: name of the enum, label, option. These stand on functions of
 * libraries, one BPF object each. */
#define ZN_FAMILIES(X)                                                                                                 \
	X(GPU_MEM, "gpu_mem", "gpu")                                                                                   \
	X(CUDA_TRACE, "cuda_trace", "cuda")                                                                            \
	X(NCCL, "nccl", "nccl")

/* And these on the kernel itself, see kernel.c. */
#define ZN_KERNEL_FAMILIES(X)                                                                                          \
	X(SCHED, "sched", "sched")                                                                                     \
	X(DATALOAD, "dataload", "dataload")                                                                            \
	X(DIST_SYNC, "dist_sync", "dist")                                                                              \
	X(SYSCALLS, "syscalls", "syscalls")                                                                            \
	X(IOCTL, "ioctl", "ioctl")                                                                                     \
	X(NET, "net", "net")                                                                                           \
	X(VFS, "vfs", "vfs")                                                                                           \
	X(META, "meta", "meta")                                                                                        \
	X(STACKS, "stacks", "stacks")                                                                                  \
	X(REQUESTS, "requests", "requests")

enum zn_family {
#define X(e, label, option) ZN_FAM_##e,
	ZN_FAMILIES(X)
#undef X
		ZN_FAMILY_COUNT, /* of those on libraries */
	ZN_FAM_BEFORE_KERNEL_ = ZN_FAMILY_COUNT - 1,
#define X(e, label, option) ZN_FAM_##e,
	ZN_KERNEL_FAMILIES(X)
#undef X
		ZN_FAM_ALL /* of both */
};

/* What a process can have a histogram of. Column 2 is the value of the label `call` or `op`. */
#define ZN_OPERATIONS(X)                                                                                               \
	X(LAUNCH, "launch")                                                                                            \
	X(SYNC_STREAM, "stream_synchronize")                                                                           \
	X(SYNC_EVENT, "event_synchronize")                                                                             \
	X(SYNC_CTX, "ctx_synchronize")                                                                                 \
	X(SYNC_DTOH, "memcpy_dtoh")                                                                                    \
	X(SYNC_HTOD, "memcpy_htod")                                                                                    \
	X(SYNC_FREE, "mem_free")                                                                                       \
	X(NCCL_ALL_REDUCE, "all_reduce")                                                                               \
	X(NCCL_BROADCAST, "broadcast")                                                                                 \
	X(NCCL_ALL_GATHER, "all_gather")                                                                               \
	X(NCCL_REDUCE_SCATTER, "reduce_scatter")                                                                       \
	X(NCCL_REDUCE, "reduce")                                                                                       \
	X(NCCL_ALL_TO_ALL, "all_to_all")                                                                               \
	X(NCCL_GATHER, "gather")                                                                                       \
	X(NCCL_SCATTER, "scatter")                                                                                     \
	X(NCCL_SEND, "send")                                                                                           \
	X(NCCL_RECV, "recv")                                                                                           \
	X(NCCL_PUT, "put")                                                                                             \
	X(NCCL_SIGNAL, "signal")                                                                                       \
	X(NCCL_WAIT_SIGNAL, "wait_signal")                                                                             \
	X(NCCL_WINDOW, "window_register")                                                                              \
	X(NCCL_GROUP, "group")                                                                                         \
	X(NCCL_INIT, "comm_init")                                                                                      \
	X(DATALOAD, "dataloader")                                                                                      \
	X(WORKER_IDLE, "worker_idle")                                                                                  \
	X(DIST_SYNC, "dist_sync")                                                                                      \
	X(RUNQUEUE, "runqueue")                                                                                        \
	X(IOCTL, "ioctl")                                                                                              \
	X(TCP_SEND, "tcp_sendmsg")                                                                                     \
	X(LOAD_MODULE, "module")                                                                                       \
	X(LOAD_LIBRARY, "library")                                                                                     \
	X(LOAD_FUNCTION, "function")                                                                                   \
	X(LOAD_GRAPH, "graph")

enum zn_operation {
#define X(e, label) ZN_H_##e,
	ZN_OPERATIONS(X)
#undef X
		ZN_OPERATION_COUNT
};
#define ZN_H_NCCL_FIRST    ZN_H_NCCL_ALL_REDUCE /* operations of NCCL */
#define ZN_H_NCCL_LAST     ZN_H_NCCL_WINDOW
#define ZN_OPERATION_SLOTS 64 /* room in struct zn_proc; a new operation takes the next one */
_Static_assert(ZN_OPERATION_COUNT <= ZN_OPERATION_SLOTS, "struct zn_proc has no room for another histogram");

/* The instruction that a probe stands on, see entry.c: uprobes emulate some and single-step the others, which takes one
 * more trap inside the measured interval. What each costs depends on the kernel, so all are calibrated. */
enum zn_insn {
	ZN_INSN_NOP, /* of one byte, or arm64's */
	ZN_INSN_PUSH,
	ZN_INSN_LANDING,  /* endbr64, bti: single-stepped */
	ZN_INSN_OTHER,    /* single-stepped */
	ZN_INSN_BRANCH,   /* a jump or call to a fixed place; on arm64 all that is relative to the program counter */
	ZN_INSN_LONG_NOP, /* of several bytes: single-stepped, but emulated from Linux 6.18 on */
	ZN_INSN_COUNT
};
#define ZN_INSN_SLOTS 8 /* room for them, a power of two */
_Static_assert(ZN_INSN_COUNT <= sizeof(((struct zn_hist *)0)->hits) / 8, "a shard has no room for another kind");
_Static_assert(ZN_INSN_COUNT < ZN_INSN_SLOTS, "struct zn_shared and ZN_C_SAVED_NS() have no room for another kind");

/* Plain per-process counters. Gauges (that also go down) are marked. */
enum zn_counter {
	ZN_C_LAUNCH_KERNEL, /* launch kinds: keep the four together, in this order */
	ZN_C_LAUNCH_GRAPH,
	ZN_C_LAUNCH_COOPERATIVE,
	ZN_C_LAUNCH_CAPTURED,
	ZN_C_LAUNCH_ERRORS,
	ZN_C_COPY_BYTES_HTOD, /* directions: keep the four together, in this order */
	ZN_C_COPY_BYTES_DTOH,
	ZN_C_COPY_BYTES_DTOD,
	ZN_C_COPY_BYTES_OTHER,
	ZN_C_COPY_CALLS_HTOD,
	ZN_C_COPY_CALLS_DTOH,
	ZN_C_COPY_CALLS_DTOD,
	ZN_C_COPY_CALLS_OTHER,
	ZN_C_SYNC_ERRORS,
	ZN_C_HOST_PINNED, /* gauge, bytes */
	ZN_C_LIVE_ALLOCS, /* gauge, entries of the allocation table */
	ZN_C_CAPTURES,    /* gauge, streams being captured */
	ZN_C_UNMATCHED_FREE,
	ZN_C_SWITCH_VOLUNTARY, /* context switches: keep the two together, in this order */
	ZN_C_SWITCH_INVOLUNTARY,
	ZN_C_FAULTS_MINOR, /* page faults: keep the two together, in this order */
	ZN_C_FAULTS_MAJOR,
	ZN_C_MIGRATE_CPU, /* thread migrations, those to another NUMA node in both: keep the two together */
	ZN_C_MIGRATE_NUMA,
	ZN_C_OFFCPU_IO, /* ns that threads slept, by what they slept in: keep the five together, in this order */
	ZN_C_OFFCPU_FUTEX,
	ZN_C_OFFCPU_POLL, /* until a descriptor is ready: poll, select, epoll, and calls on pipes and sockets */
	ZN_C_OFFCPU_SLEEP,
	ZN_C_OFFCPU_OTHER,
	ZN_C_STALL_CPU, /* ns of launching threads, by enum zn_stall: keep the seven together, in its order */
	ZN_C_STALL_GPU,
	ZN_C_STALL_DATA,
	ZN_C_STALL_DIST,
	ZN_C_STALL_IO,
	ZN_C_STALL_RUNQUEUE,
	ZN_C_STALL_OTHER,
	ZN_C_CHILDREN, /* gauge: live processes that it, or one of them, forked, and that call no hooked library */
	ZN_C_WORKERS,  /* gauge: those of them that have handed it a batch, or waited to be asked for one */
	ZN_C_WORKER_BUSY_NS, /* of data loader workers, summed up: keep the two together */
	ZN_C_WORKER_IDLE_NS, /* asleep until they are asked for another batch */
	ZN_C_SYSCALLS,
	ZN_C_MMAP_CALLS, /* mmap, munmap: keep each two together, in this order */
	ZN_C_MUNMAP_CALLS,
	ZN_C_MMAP_BYTES,
	ZN_C_MUNMAP_BYTES,
	ZN_C_TCP_SENT, /* bytes */
	ZN_C_TCP_RECEIVED,
	ZN_C_TCP_RETRANSMITS,
	ZN_C_IO_READ_BYTES, /* of files, as enum zn_io_op; copies and mapped files not included: keep the four together */
	ZN_C_IO_WRITE_BYTES,
	ZN_C_IO_READ_CALLS,
	ZN_C_IO_WRITE_CALLS,
	ZN_C_MEMSET_BYTES, /* of memory that is set: keep the two together, in this order */
	ZN_C_MEMSET_CALLS,
	ZN_C_CUDA_ERRORS,    /* calls of CUDA or HIP that failed; those that only asked whether work is done not */
	ZN_C_RDMA_ERRORS,    /* system calls on devices of RDMA that failed */
	ZN_C_ALLOC_DROPPED,  /* allocations and mappings that the ledger had no room for */
	ZN_C_LAUNCH_UNTIMED, /* launches of all four kinds that were counted at their entry alone */
	ZN_C_HITS,           /* hooked calls: ZN_C_HIT(family, first) from here on */
	ZN_C_HITS_END = ZN_C_HITS + ZN_FAMILY_COUNT * ZN_INSN_SLOTS,
	ZN_COUNTER_COUNT = ZN_C_HITS_END
};
/* Launches that ran: those that were recorded into a graph did not. */
#define ZN_LAUNCHES(c)          ((c)[ZN_C_LAUNCH_KERNEL] + (c)[ZN_C_LAUNCH_GRAPH] + (c)[ZN_C_LAUNCH_COOPERATIVE])
#define ZN_C_HIT(family, first) (ZN_C_HITS + (family) + (first)*ZN_FAMILY_COUNT)
/* What calls that are hooked at their entry alone cost less than whole ones; in place of an instruction's hits. */
#define ZN_C_SAVED_NS(family) ZN_C_HIT(family, ZN_INSN_COUNT)
#define ZN_COUNTER_SLOTS      92
_Static_assert(ZN_COUNTER_COUNT <= ZN_COUNTER_SLOTS, "struct zn_proc has no room for another counter");

/* Where the time of a thread goes that launches work on a GPU; together they are its wall time. Column 2 is the label
 * `cause`, column 3 is for docs/METRICS.md. */
#define ZN_STALLS(X)                                                                                                   \
	X(CPU, "cpu", "it runs, outside of the GPU's and NCCL's functions")                                            \
	X(GPU, "gpu", "it waits for the GPU, spinning or asleep, inside a synchronizing call")                         \
	X(DATA, "data", "it waits for a batch of its data loader")                                                     \
	X(DIST, "dist", "it waits for other ranks")                                                                    \
	X(IO, "io", "it is blocked on a file or in a page fault")                                                      \
	X(RUNQUEUE, "runqueue", "it could run, and no CPU was free")                                                   \
	X(OTHER, "other", "it sleeps for any other reason, such as a lock")
enum zn_stall {
#define X(e, label, help) ZN_STALL_##e,
	ZN_STALLS(X)
#undef X
		ZN_STALL_COUNT
};
_Static_assert(ZN_C_STALL_OTHER - ZN_C_STALL_CPU + 1 == ZN_STALL_COUNT, "each cause has its counter");
/* Not known yet: it is asleep on a futex, until it is woken; or no switch of it was seen, until one is. */
#define ZN_STALL_PENDING ZN_STALL_COUNT
/* Whether the time of threads that launch is followed. The tracepoints of the scheduler come at the first tick at which
 * there is a tracked process: until then nobody says that a thread sleeps. */
enum zn_stalls_followed { ZN_STALLS_NOT, ZN_STALLS_ONCE_WATCHED, ZN_STALLS_WATCHED };

enum zn_alloc_kind { ZN_K_DEVICE, ZN_K_MANAGED, ZN_K_ASYNC, ZN_K_POOL, ZN_K_VMM, ZN_K_HOST, ZN_KIND_COUNT };

/* One GPU as one process sees it, by CUDA ordinal. uuid, pci and total_bytes are what the driver told the process. */
struct zn_proc_gpu {
	__u64 used_bytes; /* live, pinned host memory not included */
	__u64 peak_bytes;
	__u64 alloc_calls[ZN_KIND_COUNT];
	__u64 alloc_bytes[ZN_KIND_COUNT];
	__u64 free_calls;
	__u64 fail_oom;
	__u64 fail_other;
	__u64 total_bytes; /* 0: not known */
	__u8 uuid[16];     /* all zero: not known */
	char pci[16];      /* "0000:3b:00.0", may lack its NUL; empty: not known */
};

/* Which job something belongs to: a slot of the table of jobs, and the serial that the job there must have. */
struct zn_job_ref {
	__u32 slot;
	__u32 serial; /* 0: no job */
};

static inline int zn_job_ref_same(struct zn_job_ref a, struct zn_job_ref b)
{
	return a.serial == b.serial && (!a.serial || a.slot == b.slot);
}

/* One process, one page. Claimed by BPF at the first hooked call, given back by the daemon after the process is gone.
 *
 * Threads that launch at the same time would wait for one another's additions. So only the first one, and each eighth
 * after it, adds the kernels that it launches, and its hits, to the process's own counters and histogram; the others
 * add them to shards, in turn, but for launches that fail. Each refresh moves what is in these to the process's
 * (zn_arena_gather()); whoever reads launches in between asks zn_arena_launches(). */
#define ZN_SHARDS 7 /* beside the process's own; one less than a power of two */
struct zn_proc {
	__u32 tgid;
	__u32 id;       /* unique over the daemon's life: keys of other tables hold this, never the tgid, which is
		     reused */
	__u64 first_ns; /* the first hooked call */
	__u64 exit_ns;  /* 0 while the thread group lives (or has not replaced itself by exec) */
	char comm[16];  /* of the calling thread, raw bytes */
	struct zn_job_ref job; /* serial 0: none, or not known yet */
	__u32 in_ioctl;        /* threads of it inside ioctl() on a GPU device */
	__u32 owner;           /* who holds its entries of the quotas */
	__u64 hist_refused;    /* bit by enum zn_operation: it did not get this histogram, and that was counted */
	__u64 count[ZN_COUNTER_SLOTS];
	__u32 hist[ZN_OPERATION_SLOTS]; /* index into the histograms, 0: none yet */
	__u32 launchers;                /* threads that have launched so far */
	__u32 shard[ZN_SHARDS];         /* index into the histograms, 0: none yet */
	struct zn_proc_gpu gpu[ZN_PROC_GPUS + 1];
	__u32 ctxs, comms; /* entries of these tables that it holds of the quotas */
	__u32 exit_code; /* of the last thread, as task_struct has it: a signal in the low 7 bits, else a status << 8 */
	__u32 calls;     /* ZN_CALLS_*: whose functions it called */
};
#define ZN_CALLS_CUDA 1u
#define ZN_CALLS_HIP  2u
#define ZN_HAS_PYTHON 0x80000000u /* of calls: its row of struct zn_python is there; the daemon sets it */
#define ZN_IS_ASKED   0x40000000u /* of calls: it is asked things over HTTP; the daemon sets it (model/requests.c) */
/* Bits of calls, and of a server's spares, that the daemon sets and takes away (model/budget.c): what is not measured of
 * a process at this moment, as it would cost more than its budget. In the order in which they are spared: what says
 * least for its cost comes first. Columns: name; label `family`. */
#define ZN_SPARE_PARTS(X)                                                                                              \
	X(STACKS, "stacks")                                                                                            \
	X(SWITCHES, "sched")                                                                                           \
	X(FILES, "vfs")                                                                                                \
	X(REQUESTS, "requests")                                                                                        \
	X(LAUNCHES, "cuda_trace")
enum zn_spare {
#define X(e, ...) ZN_SPARE_##e,
	ZN_SPARE_PARTS(X)
#undef X
		ZN_SPARE_COUNT
};
#define ZN_SPARES(part) (0x10000u << (part))
_Static_assert(ZN_SPARES(ZN_SPARE_COUNT) < ZN_IS_ASKED, "bits of calls");
_Static_assert(sizeof(struct zn_proc) == 4096, "a process is one page, so that the daemon maps only those in use");

/* File operations. A byte is in one of read, write, copy and mmap, each a figure of its own: copy_file_range() may move
 * nothing at all (a reflink), and a fault brings in whole pages. Column 2 is the label `op`. */
#define ZN_IO_OPS(X)                                                                                                   \
	X(READ, "read")                                                                                                \
	X(WRITE, "write")                                                                                              \
	X(COPY, "copy")                                                                                                \
	X(MMAP, "mmap")                                                                                                \
	X(OPEN, "open")                                                                                                \
	X(CREATE, "create")                                                                                            \
	X(UNLINK, "unlink")                                                                                            \
	X(MKDIR, "mkdir")                                                                                              \
	X(RMDIR, "rmdir")                                                                                              \
	X(RENAME, "rename")                                                                                            \
	X(FSYNC, "fsync")                                                                                              \
	X(STAT, "stat")
enum zn_io_op {
#define X(e, label) ZN_IO_##e,
	ZN_IO_OPS(X)
#undef X
		ZN_IO_OP_COUNT
};

/* A series of file I/O: its histogram has calls, errors, bytes and durations; a coarse one, but for the first
 * ZN_IO_HISTS of reads and writes. Reads or writes that are very many are spread over shards, one for each group of
 * CPUs, which the daemon adds up: atomics on one cache line are cheap among few CPUs, and per-CPU values would need 4
 * KiB for each series and possible CPU. Shard 0 is that of the first group, and of all while they are not spread. */
#define ZN_IO_SHARD_CPUS 16 /* CPUs that share one */
#define ZN_IO_SHARDS     16
struct zn_io_key {
	struct zn_job_ref job; /* serial 0: none */
	__u32 dev;             /* of the file system, as the kernel has it: major << 20 | minor */
	__u8 op;               /* enum zn_io_op */
	__u8 shard;
	__u8 pad[2];
};
_Static_assert(sizeof(struct zn_io_key) == 16, "padding");
/* Where it is counted, and whose share of the table it is of. */
struct zn_io_row {
	__u32 hist;    /* a histogram, or from ZN_HISTS_MAX on a coarse one */
	__u32 owner;   /* of ZN_QUOTA_IO and ZN_QUOTA_IO_HIST: its job, else its user */
	__u32 user;    /* of ZN_QUOTA_IO_USER */
	__u32 partial; /* 1: such operations of its job were lost before it was made */
};
_Static_assert(sizeof(struct zn_io_row) == 16, "padding");

/* A file operation that a thread is in. Taken at its entry and given back at its return; proc.bpf.c does so for threads
 * that end inside of one. */
enum zn_io_kind { ZN_IO_DATA = 1, ZN_IO_META, ZN_IO_FAULT, ZN_IO_KINDS };
struct zn_io_pending {
	__u32 owner; /* thread and kind; 0: free */
	__u8 op[2];
	__u8 stacked; /* its file system calls another one for it */
	__u8 inner;   /* calls of that that have not returned */
	__u32 dev[2]; /* 0: nothing is counted for this side */
	__u64 start_ns;
	__u64 bytes; /* FAULT: brought in; else calls of its file system that were taken for a part of it */
	/* What follows stays when the entry is given back. */
	__u64 last_for; /* whom it is of (low half), and zn_shared.io_change as it was then: the next one ends last[] */
	/* The series of the last read and of the last write, which most go to again: a look-up in a hash less.
	 * ZN_IO_SERIES, and above it zn_io_row.hist or ZN_IO_REFUSED. 0: none */
	__u64 last[2];
	/* Whose thread that is, by what it was when it came: it keeps this until it ends or becomes another program. */
	__u32 user, tgid;
};
_Static_assert(sizeof(struct zn_io_pending) == 64, "padding");

/* What was lost and why. Column 2 is the label `what`; column 3 is for docs/METRICS.md. */
#define ZN_LOSSES(X)                                                                                                   \
	X(RINGBUF, "ringbuf", "rare events that found the ring buffer full, or half of it if users can make many")     \
	X(SERIES, "series", "histograms that a process or a series did not get")                                       \
	X(PROCESS, "process", "processes that were not measured: no row was free, or their owner has his share")       \
	X(THREAD, "thread", "threads or children without a free entry, or that found that of an earlier thread")       \
	X(INFLIGHT, "inflight", "calls that never returned, or nested too deep")                                       \
	X(ALLOC, "alloc", "allocations that the ledger had no room for")                                               \
	X(CONTEXT, "context", "contexts or captured streams without a free entry")                                     \
	X(CALL, "call", "system calls and sends that were not timed: too many at one time")                            \
	X(SOCKET, "socket", "TCP connections without a free entry: their retransmissions are not counted")             \
	X(COMM, "comm", "communicators without a free entry, with a late address, or of a size that is not known")     \
	X(SKEW, "skew", "communicators, ranks or collectives whose time of issue could not be compared")               \
	X(JOB, "job", "jobs without a free slot")                                                                      \
	X(TASK, "task", "processes or control groups of jobs without a free entry")                                    \
	X(UNMATCHED_FREE, "unmatched_free", "frees of allocations made before the daemon came")                        \
	X(NCCL_TYPE, "nccl_type", "NCCL operations whose element type is not known: their bytes are not counted")      \
	X(USER_READ, "user_read", "arguments that could not be read from the process")                                 \
	X(BATCH, "batch", "copies of one batch beyond the number that is read: their bytes are not counted")           \
	X(MISSED, "missed", "probe hits that the kernel skipped")                                                      \
	X(GPU, "gpu", "GPUs beyond the limit: memory on them is shown as that of an unknown one")                      \
	X(LIBRARY, "library", "libraries beyond the limit")                                                            \
	X(ELF, "elf", "files with a library's name that are not well-formed ELF")                                      \
	X(MAPPING, "mapping",                                                                                          \
		"mapping events dropped, by the kernel or as one owner had too many; all of /proc is looked at then")  \
	X(CONNECTION, "connection", "clients refused, or closed for others, because all connections were in use")      \
	X(PEER, "peer", "clients refused, or closed for others, because their address has too many connections")       \
	X(WS_FRAME, "ws_frame", "snapshots a slow WebSocket client did not get")                                       \
	X(WS_CLIENT, "ws_client", "WebSocket clients closed because they did not read")                                \
	X(RESPONSE, "response", "answers refused because no buffer was free, or the text did not fit")                 \
	X(ANSWER, "answer", "answers cut off because the client took too long to read them")                           \
	X(TRUNCATED, "truncated", "snapshots that were cut, and mounts whose durations found no room on a page")       \
	X(REPORT, "report", "reports and records of jobs that could not be written")                                   \
	X(IO, "io", "file operations without a free series")                                                           \
	X(MOUNT, "mount", "series of file I/O that found no free entry for their mount, each once")                    \
	X(ALERT, "alert", "instances of alert rules without room: their alerts may be missing")                        \
	X(NOTIFICATION, "notification", "messages about alerts that nobody took: refused, or not even handed over")    \
	X(OTLP, "otlp", "OTLP requests that nobody took: refused, or pushed out of the queue by newer ones")           \
	X(LOG, "log", "lines of the log that nobody took, or that its disk had no room for")                           \
	X(KMSG, "kmsg",                                                                                                \
		"times that the kernel's log was overwritten before it was read, and errors of GPUs beyond the limit") \
	X(OPERATION, "operation", "file operations that were not followed: too many under way at one time")            \
	X(STACK, "stack", "calls whose stack of Python functions found no free entry")                                 \
	X(REQUEST, "request",                                                                                          \
		"answers of servers whose request was not seen: a pipelined one, or one cut strangely; and times "     \
		"that a connection of HTTP/2 could not be followed")                                                   \
	X(CONNECTION_STATE, "connection_state", "connections of servers without a free entry: requests not counted")   \
	X(ROUTE, "route", "pairs of a server and a route without a free entry: requests that were not counted")        \
	X(SERVICE, "service", "services without a free entry, or with more engines than it has room for")              \
	X(SERVER, "server",                                                                                            \
		"servers that were not watched: too many, or their owner has his share; or sockets that listen beyond the limit")

enum zn_loss {
#define X(e, label, help) ZN_LOST_##e,
	ZN_LOSSES(X)
#undef X
		ZN_LOSS_COUNT
};

/* Tables of the kernel that several owners share. Columns: name of the enum; what the log calls it; what it counts that
 * is refused, of enum zn_loss; of SHARD nothing is: who finds none adds to his process's own. */
#define ZN_QUOTAS(X)                                                                                                   \
	X(PROCESS, "processes", PROCESS)                                                                               \
	X(HISTOGRAM, "histograms", SERIES)                                                                             \
	X(SHARD, "histograms of threads that launch", SERIES)                                                          \
	X(THREAD, "threads that call hooked libraries", THREAD)                                                        \
	X(LAUNCH, "such threads that launch", THREAD)                                                                  \
	X(SCHED, "threads of processes that do", THREAD)                                                               \
	X(SPILL, "such threads beside their set", THREAD)                                                              \
	X(RESERVE, "such threads beside their set that launch", THREAD)                                                \
	X(WORKER, "children of such processes", THREAD)                                                                \
	X(ALLOC, "allocations", ALLOC)                                                                                 \
	X(CONTEXT, "contexts", CONTEXT)                                                                                \
	X(STREAM, "captured streams", CONTEXT)                                                                         \
	X(COMM, "communicators", COMM)                                                                                 \
	X(TASK, "processes of jobs", TASK)                                                                             \
	X(CGROUP, "control groups of jobs", TASK)                                                                      \
	X(IO, "series of file I/O", IO)                                                                                \
	X(IO_USER, "series of file I/O of one user", IO)                                                               \
	X(IO_HIST, "histograms of file I/O", IO)                                                                       \
	X(IO_PENDING, "file operations under way", OPERATION)                                                          \
	X(AIO, "requests of libaio under way", OPERATION)                                                              \
	X(SKEW, "communicators that are compared", SKEW)                                                               \
	X(CALL, "timed system calls", CALL)                                                                            \
	X(SOCKET, "connections", SOCKET)                                                                               \
	X(STACK, "stacks of Python functions", STACK)                                                                  \
	X(SERVER, "servers whose requests are counted", SERVER)                                                        \
	X(ROUTE, "routes of such servers", ROUTE)                                                                      \
	X(REQUEST, "connections of such servers", CONNECTION_STATE)                                                    \
	X(SERVICE, "services", SERVICE)
enum zn_quota_table {
#define X(e, label, loss) ZN_QUOTA_##e,
	ZN_QUOTAS(X)
#undef X
		ZN_QUOTA_COUNT
};

/*
 * How long some process was inside the GPU's driver, and how long two or more were: a sum over the changes of how many
 * are inside, each with its time. From 0 to 1 and back is the busy time, from 1 to 2 and back the contended one; a
 * change up takes the time off, the change down adds it. The atomic counter puts all changes into one order, and sums
 * do not depend on the order in which CPUs add to them, so nothing is lost or counted twice, and no lock is held. What
 * remains is that a clock is read some nanoseconds before its change. While somebody is inside, a sum lacks the time
 * now.
 */
struct zn_gpu_calls {
	__u64 begun; /* changes; equal to done while none is half made: see zn_gpu_calls_read() */
	__u64 done;
	__u64 busy_ns;
	__u64 contended_ns;
	__u32 processes; /* that are inside */
	__u32 pad;
};
_Static_assert(sizeof(struct zn_gpu_calls) == 40, "padding");

enum zn_refused { ZN_REFUSED_THREAD, ZN_REFUSED_PROCESS, ZN_REFUSED_SOCKET, ZN_REFUSED_KINDS };
#define ZN_REFUSED_WORDS 1024 /* of 64 bits */
#define ZN_MAJOR_WORDS   8    /* of 64 bits: device numbers below 512 are all that Linux gives out */

/* CPU time by the kernel's accounts. ns is exact; user and system are samples of it, of which only the ratio counts. */
struct zn_cpu_time {
	__u64 ns, user, system;
};

/* What our programs took of a process, by its row, or of a server, measured where they run: it only grows, whoever has
 * the row. And what the daemon spares of it: it writes the rest. */
#define ZN_SPENT_EVERY     64 /* one in so many switches is measured, and stands for all of them; a power of two */
#define ZN_SPENT_REQUESTS  61 /* likewise of receives and sends; a prime, so that it is each of a request's in turn */
#define ZN_SPENT_ROWS      (ZN_PROCS_MAX + ZN_SERVERS_MAX)
#define ZN_SPENT_SERVER(i) (ZN_PROCS_MAX + (i)) /* the row of a server */
#define ZN_DUTY_ONE        1024
struct zn_spent {
	__u64 walk_ns;
	__u64 switch_ns, request_ns;     /* of switches that were looked at; of what a server receives and sends */
	__u64 spared_ns;                 /* of switches, or requests, that were only counted */
	__u64 unseen_ns[ZN_SPARE_COUNT]; /* for how long each part was spared, since the process is known */
	__u32 id;                        /* of the process that what follows, and unseen_ns, is of; 0: none */
	__u16 duty[ZN_SPARE_COUNT];      /* in what part of the time it is measured now, of ZN_DUTY_ONE; 0: all of it */
	__u16 pad[1];
};
_Static_assert(sizeof(struct zn_spent) == 32 + 8 * ZN_SPARE_COUNT + 16, "padding");

/* Globals, one mmap'ed element. The daemon writes the first block, BPF the second, both by plain aligned stores. */
struct zn_shared {
	__u64 bias_ns[ZN_INSN_SLOTS]; /* taken off each interval, by enum zn_insn */
	__u64 cost_ns[ZN_INSN_SLOTS]; /* what a hooked call costs in all; taken off the call it is nested in */
	__u64 return_ns;              /* how much of that is for its return; 0: returns cannot be spared */

	__u64 lost[48]; /* by enum zn_loss, added to with atomics */
	__u32 next_id;  /* of processes, servers and jobs; never 0 */
	__u32 calib_count;
	__u32 daemon_tgid; /* its own calls are for calibration and belong to no row */
	__u32 jobs;        /* slots of jobs in use: while there are none, fork and exit cost nothing */
	__u32 page_bytes;  /* of a page, for what the kernel counts in pages */
	__u32 procs;       /* rows in use: while there are none, the signals of processes cost next to nothing */
	__u64 families;    /* that are on, 1 << enum zn_family */
	__u64 gpu_majors[ZN_MAJOR_WORDS];  /* of character devices that are GPUs, a bit each; the daemon writes it */
	__u64 rdma_majors[ZN_MAJOR_WORDS]; /* the same of devices of RDMA */
	struct zn_gpu_calls gpu_calls;
	__u64 io_change; /* raised at each tick, when a series of file I/O has gone, and when a process changes its job */
	__u64 io_made;   /* raised when a program has made a series of file I/O */
	__u64 oom_kills; /* of tracked processes and their workers, of no job */
	__u64 by_call;   /* those of them that stand on the tracepoints of system calls */
	__u64 since_ns; /* a thread that is older may have called libraries before they were hooked; the daemon writes it */
	__u64 calib_ns[ZN_CALIB_MAX];
	__u32 row_tgid[ZN_PROCS_MAX]; /* 0: row free. The last store of a claim, and of a release */
	/* By the low bits of a thread group id: how many tracked processes have them (low half) and how many workers of
	 * such processes (high half). 0: it is neither, which is nearly all that most programs on the kernel need to
	 * know. */
	__u32 pid_filter[ZN_PID_FILTER_BYTES];
	__u16 mark_row
		[ZN_PID_FILTER_BYTES]; /* the row of one of those tracked processes; the others are found in a hash */
	__u64 served_bits[ZN_SERVED_BITS /
		64];       /* likewise of processes whose requests are counted; the daemon writes it */
	__u32 stalls;      /* enum zn_stalls_followed: whether the time of threads that launch can be; the daemon's */
	__u32 next_job_id; /* of jobs, where BPF has no atomic operation that returns a value */
	__u32 sched_mask;  /* sets of threads less one; the daemon writes it at start */
	__u32 jiffy_ns;    /* of the kernel's own clock tick; the daemon writes it at start */
	__u64 wall_ns;     /* CLOCK_REALTIME less CLOCK_MONOTONIC, at the last tick */
	struct zn_cpu_time cpu_sum; /* of job.bpf.c */
	__u64 regs_at; /* of each thread: where its registers lie above its kernel stack; 0: no program has asked yet */
	__u64 per_cpu_offset; /* before 5.19: the kernel's table of where each CPU has its variables; 0: not known */
	__u32 cpu_count;      /* entries of it that count, at most ZN_CPUS_MAX */
	__u32 spared;         /* ZN_SPARES() of all processes together: 0, as a rule; the daemon writes it */
	__u32 rdma;           /* 1: there are some of rdma_majors; the daemon writes it */
	__u32 h2_closed;      /* connections of HTTP/2, so that the daemon looks after their streams */
	__u32 next_h2;        /* the number of the last such connection: the keys of its streams begin with it */
	__u32 next_gen;       /* of contexts; apart from next_id, as a program can use up all of them */
	__u32 h2_broken[ZN_H2_BROKEN_KEPT]; /* of those that broke last what the keys of their streams begin with */
	__u8 cpu_node[ZN_CPUS_MAX];         /* NUMA node and 1; 0: not known */
	__u8 cpu_ran[ZN_CPUS_MAX]; /* 1: it ran a thread of a tracked process or of a worker since the daemon looked */
	__u8 skew_used[ZN_SKEWS_MAX]; /* 1: this struct zn_skew is a communicator's; the others are not looked at */
	struct zn_quota quota[ZN_QUOTA_COUNT]; /* by enum zn_quota_table; the daemon sets their sizes at start */
	/* Bits by the low bits of an id: a thread, process or connection of it found no entry, and was counted. */
	__u64 refused[ZN_REFUSED_KINDS][ZN_REFUSED_WORDS];
	struct zn_spent spent[ZN_SPENT_ROWS]; /* by row */
	__u64 stacks_new[ZN_STACKS_MAX / 64]; /* slots of stacks that were taken since the daemon looked, a bit each */
	__u16 stack_thread
		[ZN_THREAD_CACHE]; /* by where a kernel stack is: the place of its thread in the thread cache */
};
#define ZN_PID_TRACKED         1u
#define ZN_PID_WORKER          0x10000u
#define ZN_PID_FILTER_AT(tgid) ((tgid) & (ZN_PID_FILTER_BYTES - 1))
#define ZN_SERVED_AT(tgid)     ((tgid) & (ZN_SERVED_BITS - 1))
_Static_assert(ZN_LOSS_COUNT <= 48, "struct zn_shared has no room for another loss");
_Static_assert(sizeof(struct zn_shared) ==
		8 * (2 * ZN_INSN_SLOTS + 48 + 6 + 2 * ZN_MAJOR_WORDS + 16 + ZN_CALIB_MAX) +
			4 * (ZN_PROCS_MAX + ZN_PID_FILTER_BYTES + ZN_H2_BROKEN_KEPT) + 2 * ZN_PID_FILTER_BYTES +
			ZN_SERVED_BITS / 8 + 32 + 2 * ZN_CPUS_MAX + ZN_SKEWS_MAX +
			sizeof(struct zn_quota) * ZN_QUOTA_COUNT + 8 * ZN_REFUSED_KINDS * ZN_REFUSED_WORDS +
			ZN_STACKS_MAX / 8 + 2 * ZN_THREAD_CACHE + sizeof(struct zn_spent) * ZN_SPENT_ROWS,
	"padding");

/* A hooked call that has not returned. sp tells nested calls of one thread apart. */
struct zn_frame {
	__u64 sp;
	__u64 start_ns;
	__u64 arg[6];
	__u64 nested_ns; /* what the probes of hooked calls inside this one cost */
	__u32 cookie;    /* low half of the attach cookie */
	__u32 around;    /* of a wait: what its thread was inside of before, enum zn_stall, and 1; 0: of no wait */
};
_Static_assert(sizeof(struct zn_frame) == 80, "padding");

/* A system call that is timed and has not returned. Key: the thread, and what it is. */
enum zn_timed { ZN_TIMED_IOCTL, ZN_TIMED_RECEIVE };
#define ZN_TIMED_KEY(tid, what) ((__u64)(what) << 32 | (__u32)(tid))
struct zn_timed_call {
	__u64 start_ns;
	__u64 arg;   /* a pointer to the kernel's struct sock */
	__u32 id;    /* of its process */
	__u32 owner; /* who holds it of the quota */
};
_Static_assert(sizeof(struct zn_timed_call) == 24, "padding");

/* A send that a thread is in, or was: most calls that may be one are not, and are not looked at when they end. The next
 * thread of the same place takes it, which costs a duration. */
struct zn_send {
	__u32 tid;
	__u32 id;       /* of its process */
	__u64 start_ns; /* 0: it has ended, or had begun before it was watched */
};
_Static_assert(sizeof(struct zn_send) == 16, "padding");

/* Whose a TCP connection is: its last sender. Key: the address of the kernel's struct sock. */
struct zn_sock {
	__u32 row : 10;
	__u32 id : 22; /* the low bits of it */
	__u32 owner;   /* who holds it of the quota */
};
#define ZN_SOCK_ID(id) ((id)&0x3fffff)
_Static_assert(sizeof(struct zn_sock) == 8 && ZN_PROCS_MAX <= 1 << 10, "bits");

/* What an owner may hold of the quotas for one thread. */
#define ZN_HELD_THREAD  1
#define ZN_HELD_LAUNCH  2
#define ZN_HELD_SCHED   1
#define ZN_HELD_SPILL   2
#define ZN_HELD_RESERVE 4

/* A thread that called a hooked library. Only its own thread writes it; it goes when the thread exits. */
#define ZN_ROW_NONE 0xffffffffu
struct zn_thread {
	__u32 row;   /* of its process; ZN_ROW_NONE: a thread of the daemon */
	__u32 id;    /* of its process */
	__u32 depth; /* frames in use */
	__u32 ctx_depth;
	__u32 group_depth; /* ncclGroupStart without ncclGroupEnd */
	__u32 tid;         /* whose entry it is; 0: free, or not in the cache */
	__u64 group_start_ns;
	__u64 group_nested_ns;   /* what the probes inside the outermost group cost */
	__u64 ctx[ZN_CTX_STACK]; /* CUcontext; the current one is ctx[ctx_depth - 1] */
	__u16 state_at;          /* index and 1 into zn_thread_states of its row; 0: it has not launched yet */
	__u8 held;               /* ZN_HELD_*: what its owner holds of the quotas for it */
	__u8 awaited;            /* communicators that its group makes */
	__u32 owner;
	__u64 stack; /* says which kernel stack it runs on, see zn_stack_of(); 0: not known */
	__u32 tgid;
	__u32 shard; /* index into the histograms; else ZN_SHARD_NOT or ZN_SHARD_OWN */
	struct zn_frame frame[ZN_FRAMES];
};
#define ZN_SHARD_NOT         0xffffffffu /* it has not launched yet */
#define ZN_SHARD_OWN         0xfffffffeu /* it adds to its process's own counters and histogram */
#define ZN_THREAD_STATE_NONE 0xffffu     /* its time is not followed */
_Static_assert(sizeof(struct zn_thread) == 64 + 8 * ZN_CTX_STACK + 80 * ZN_FRAMES, "padding");

/* A thread of a tracked process, or the main thread of a worker, as the scheduler sees it. */
struct zn_sched_entry {
	__u32 tid; /* 0: free; ZN_SCHED_BUSY: about to be some thread's */
	__u32 row;
	__u32 id;      /* of the row's process */
	__u8 state_at; /* as in struct zn_thread; 0: none */
	__u8 held; /* ZN_HELD_*: what its owner holds of the quotas for it; outside of its set if more than ZN_HELD_SCHED */
	__u16 stack;     /* what it sleeps in, ZN_SLEEP_*; 0: that is not looked at */
	__u64 off_ns;    /* when it left its CPU; 0: it runs */
	__u64 ready_ns;  /* since when it could run again; 0: it sleeps */
	__u64 wake_ns;   /* when the last wait ended that explains the waits of those it wakes */
	__u64 limit_ns;  /* time limit of the sleep at hand; 0: none */
	__u8 kind;       /* ZN_C_OFFCPU_* from ZN_C_OFFCPU_IO on; ZN_SCHED_PREEMPTED */
	__u8 cause;      /* enum zn_stall, or ZN_STALL_PENDING */
	__u8 wake_cause; /* what that last wait was for: ZN_STALL_DATA or ZN_STALL_DIST; 0: neither */
	__u8 flags;
	__u32 owner;
	__u64 file;    /* the pipe that it last waited for a batch on */
	__u64 wait_ns; /* of the wait at hand: earlier sleeps that only ran into their time limit */
	__u64 mark_ns; /* worker: up to where its time is accounted for */
	__u64 busy_ns; /* worker: before it was known to be one of a data loader */
	/* page faults that are counted, or were before, in the low bits; see ZN_SCHED_FAULTS */
	__u32 minor_faults, major_faults;
};
/* The slot of a stack and 1, which is held until the thread runs again, and the logarithm of one in how many and 1. */
#define ZN_SLEEP_WEIGHT_BITS      5
#define ZN_SLEEP_OF(slot, weight) ((slot) << ZN_SLEEP_WEIGHT_BITS | (weight))
#define ZN_SLEEP_SLOT(of)         ((of) >> ZN_SLEEP_WEIGHT_BITS)
#define ZN_SLEEP_WEIGHT(of)       ((of) & ((1u << ZN_SLEEP_WEIGHT_BITS) - 1))
#define ZN_SLEEP_MISSED           2040 /* and enum zn_stack_miss */
#define ZN_SCHED_PREEMPTED        0xff
#define ZN_SCHED_BUSY             0xffffffffu /* of tid */
#define ZN_SCHED_WORKER           1           /* main thread of a worker */
#define ZN_SCHED_LOADER           2           /* and that is known to be one of a data loader */
#define ZN_SCHED_ASKING           4           /* asleep until it is asked for a batch */
#define ZN_SCHED_GIVEN            8           /* woken by a worker, so not by its time limit */
#define ZN_SCHED_DEEP             16          /* its last sleep by itself was an uninterruptible one (state D) */
#define ZN_SCHED_FAULTS           32          /* from where on its page faults are counted is known */
#define ZN_SCHED_STOPPED          64          /* what it slept last as: stopped, traced or frozen */
struct zn_sched_set {
	struct zn_sched_entry way[ZN_SCHED_WAYS];
	__u32 spilled; /* threads that found it full; they are found in a hash */
	__u32 pad;
};
_Static_assert(sizeof(struct zn_sched_entry) == 96, "padding");

/* The first of a set's ways whose bits (1, 2, 4, 8) are set in found. Without a branch, for the verifier. */
static inline __attribute__((always_inline)) __u64 zn_sched_way_first(__u64 found)
{
	__u64 first = found & -found;

	return ((first >> 1) - (first >> 3)) & (ZN_SCHED_WAYS - 1);
}

/* What a launching thread does right now: one word, so that it is read and exchanged as a whole. Time before it is in
 * the counters of the process, ZN_C_STALL_CPU and up. */
struct zn_thread_state {
	__u64 word;
	__u64 ready_ns; /* later than the word's: since when it could run again; 0 while it runs */
	__u32 tid;      /* 0: free */
	__u32 id;       /* of the process */
	__u32 inside;   /* enum zn_stall while it runs: CPU, or what it waits for in a function that may spin */
	__u32 pad;
};
#define ZN_THREAD_STATE_WORD(ns, state) ((ns) << 3 | (state))
#define ZN_THREAD_STATE_STATE(word)     ((__u32)(word)&7)
#define ZN_THREAD_STATE_SINCE(word)     ((word) >> 3)
struct zn_thread_states {
	struct zn_thread_state thread[ZN_THREAD_STATES];
};
_Static_assert(sizeof(struct zn_thread_states) == 32 * ZN_THREAD_STATES && ZN_STALL_PENDING < 8, "padding");

/* Calls of a process that failed, by its row: how often, by what was called and with what result. Whoever finds no room
 * is in the sums of the process alone, ZN_C_CUDA_ERRORS and ZN_C_RDMA_ERRORS. */
#define ZN_FAILED_PAIRS 12 /* of a call and a result; behind them: results of whatever call */
#define ZN_FAILED_CUDA  16
#define ZN_FAILED_RDMA  6
struct zn_failed {
	__u64 count[ZN_FAILED_CUDA];
	__u64 rdma_count[ZN_FAILED_RDMA];
	__u64 since_ns, last_ns;        /* the last result: when it came first, without another one between, and last */
	__u64 rdma_ns;                  /* the last one */
	__u32 key[ZN_FAILED_CUDA];      /* ZN_FAILED_KEY; 0: free */
	__u32 rdma_key[ZN_FAILED_RDMA]; /* ZN_RDMA_KEY; 0: free */
	__u32 since_key;                /* what returned it first */
	__u32 rdma_last;
};
_Static_assert(sizeof(struct zn_failed) ==
		8 * (ZN_FAILED_CUDA + ZN_FAILED_RDMA + 3) + 4 * (ZN_FAILED_CUDA + ZN_FAILED_RDMA + 2),
	"padding");
/* call: zn_probe.hook_call, 0: any; result: a CUresult, or hipError_t. */
#define ZN_FAILED_HIP               0x80000000u
#define ZN_FAILED_RESULT_MAX        0xffffu /* this and what is above it */
#define ZN_FAILED_KEY(call, result) ((__u32)(call) << 16 | (__u32)(result))
#define ZN_FAILED_CALL(key)         ((key) >> 16 & 0x7fff)
#define ZN_FAILED_RESULT(key)       ((key)&0xffff)
/* After these the context, and what is in it, is lost: each further call returns the same. */
static inline int zn_failed_takes_context(__u32 result)
{
	switch (result) {
	case 214: /* as src/model/failed.c names them */
	case 220:
	case 226:
	case 700:
	case 702:
	case 710:
	case 714:
	case 715:
	case 716:
	case 717:
	case 718:
	case 719:
	case 721:
	case 810:
	case 911: return 1;
	}
	return 0;
}
/* method: the command, where it was written, or ioctl() only carried it. */
#define ZN_RDMA_WRITE  1u
#define ZN_RDMA_IOCTL  2u
#define ZN_RDMA_OTHER  3u    /* a call that could not be read, or another one than for verbs */
#define ZN_RDMA_DRIVER 0xffu /* the object, or method, is a driver's own */
#define ZN_RDMA_KEY(way, object, method, error)                                                                        \
	((__u32)(way) << 28 | (__u32)(object) << 20 | (__u32)(method) << 12 | (__u32)(error))
#define ZN_RDMA_WAY(key)    ((key) >> 28)
#define ZN_RDMA_OBJECT(key) ((key) >> 20 & 0xff)
#define ZN_RDMA_METHOD(key) ((key) >> 12 & 0xff)
#define ZN_RDMA_ERRNO(key)  ((key)&0xfff)

/* A child of a tracked process, by its thread group id. */
struct zn_loader_worker {
	__u32 row;
	__u32 id; /* of the row's process */
	__u64 start_ns;
	__u32 loader; /* 1: it is one of a data loader, and counted as that */
	__u32 owner;  /* who holds it of the quota */
};
_Static_assert(sizeof(struct zn_loader_worker) == 24, "padding");

/* Ledger of live allocations. kind ZN_K_VMM: addr is the handle. ZN_ADDR_MAPPING: addr is where a handle is mapped. */
#define ZN_ADDR_MAPPING ZN_KIND_COUNT
struct zn_alloc_key {
	__u64 addr;
	__u32 id;   /* zn_proc.id */
	__u32 kind; /* 0 device address space, ZN_K_VMM, ZN_K_HOST or ZN_ADDR_MAPPING */
};
struct zn_alloc {
	__u64 bytes;
	__u64 ctx; /* 0: not known, as of VMM; a mapping: its handle */
	union {
		__u32 ctx_gen; /* generation of that context: an older one is gone, and with it these bytes */
		__u32 refs;    /* key.kind ZN_K_VMM: handles and mappings that keep it alive */
	};
	__u16 gpu; /* ordinal or ZN_PROC_GPUS */
	__u16 kind;
};
_Static_assert(sizeof(struct zn_alloc_key) == 16 && sizeof(struct zn_alloc) == 24, "padding");

/* CUDA contexts: key addr = CUcontext. Primary contexts by device: key addr = ordinal (never a pointer). */
struct zn_ctx_key {
	__u64 addr;
	__u32 id;
	__u32 pad;
};
struct zn_ctx {
	__u64 primary;    /* record of an ordinal: its primary context */
	__u64 live_bytes; /* device memory allocated in this context and not freed */
	__u64 live_host;  /* pinned host memory, likewise */
	__u32 gpu;        /* ordinal */
	__u32 gen;
};
_Static_assert(sizeof(struct zn_ctx_key) == 16 && sizeof(struct zn_ctx) == 32, "padding");

/* NCCL communicators by pointer: key as zn_ctx_key. */
struct zn_comm {
	__u64 hash;   /* of ncclUniqueId, equal on all ranks; of a split: its parent, color, count; 0: not known */
	__u32 rank;   /* ZN_UNKNOWN: not known */
	__u32 nranks; /* ZN_UNKNOWN: not known */
	__u32 splits;
	__u32 tgid; /* 0: it is being made, by a group that has not ended */
	union {
		struct {
			__u16 skew;   /* its index in the table of skews, plus 1; 0: none */
			__u16 member; /* there */
			__u32 pad;
		};
		__u64 at; /* of one that is being made: where its address will be */
	};
};
#define ZN_UNKNOWN 0xffffffffu
_Static_assert(sizeof(struct zn_comm) == 32, "padding");

/* When the ranks of this node issued the collectives of one communicator: the n-th of each is the same one. Made by the
 * first rank, given back by the daemon once all have gone. Only a rank itself writes its times and its count. */
struct zn_skew_rank {
	__u32 tgid;
	__u32 row, id; /* of its process; id 0: it has left */
	__u32 rank;    /* ZN_UNKNOWN: not known */
	__u64 issued;  /* collectives */
	__u64 late_ns; /* in which it had yet to issue what the first one had, each moment once */
	__u64 last;    /* collectives that it was the last to issue */
};
struct zn_skew {
	__u64 of;   /* ZN_SKEW_OF; 0: free. A place is taken by it, and the hash follows */
	__u64 hash; /* as of zn_comm; 0: not known yet */
	__u64 done; /* collectives that all have issued */
	__u32 members;
	__u32 hist;         /* of the difference between the last and the first */
	__u32 hist_refused; /* 1: it did not get one, and that was counted */
	__u32 nranks;       /* of all nodes; 0 or ZN_UNKNOWN: not known */
	struct zn_skew_rank member[ZN_SKEW_RANKS];
	__u64 at_ns[ZN_SKEW_WINDOW][ZN_SKEW_RANKS];
	/* Point to point, between members whose ranks are known: sends of the first one to the second, and receives of
	 * the first one from the second. Both go around at 2^32. */
	__u32 sent[ZN_SKEW_RANKS][ZN_SKEW_RANKS], received[ZN_SKEW_RANKS][ZN_SKEW_RANKS];
};
/* Whose a communicator is, and half of its hash: who knows the hash of another user's, which is shown, has no part in
 * it. */
#define ZN_SKEW_OF(owner, hash) ((__u64)((owner) + 1) << 32 | (__u32)(hash))
#define ZN_SKEW_OWNER(of)       ((__u32)((of) >> 32) - 1)
_Static_assert(sizeof(struct zn_skew) ==
		40 + 40 * ZN_SKEW_RANKS + 8 * ZN_SKEW_WINDOW * ZN_SKEW_RANKS + 8 * ZN_SKEW_RANKS * ZN_SKEW_RANKS,
	"padding");

/* What is counted by its stack of Python functions. Columns: the cause's label; what the value of a sum is; how a line
 * that does most of it is told; what its count is of. From DATA on: sleeps, and waits for a CPU, in the order of enum
 * zn_stall. */
#define ZN_LEAVES(X)                                                                                                   \
	X(LAUNCH, "launch", NS, "launches work", "calls")                                                              \
	X(GPU, "gpu", NS, "waits for the GPU", "calls")                                                                \
	X(NCCL, "nccl", NS, "is in NCCL", "calls")                                                                     \
	X(ALLOC, "alloc", BYTES, "takes GPU memory", "calls")                                                          \
	X(LOAD, "load", NS, "loads modules", "calls")                                                                  \
	X(CPU, "cpu", NS, "is on the CPU", "samples")                                                                  \
	X(DATA, "data", NS, "waits for its data loader", "waits")                                                      \
	X(DIST, "dist", NS, "waits for other ranks", "waits")                                                          \
	X(IO, "io", NS, "is blocked on files", "waits")                                                                \
	X(RUNQUEUE, "runqueue", NS, "waits for a CPU", "waits")                                                        \
	X(OTHER, "other", NS, "sleeps for another reason", "waits")
enum zn_leaf {
#define X(e, ...) ZN_LEAF_##e,
	ZN_LEAVES(X)
#undef X
		ZN_LEAF_COUNT
};
#define ZN_LEAF_OF_STALL(cause) (ZN_LEAF_DATA + (cause)-ZN_STALL_DATA)
_Static_assert(ZN_LEAF_OF_STALL(ZN_STALL_OTHER) == ZN_LEAF_OTHER, "causes of sleeps are leaves");
#define ZN_LEAF_SLOTS 12
_Static_assert(ZN_LEAF_COUNT <= ZN_LEAF_SLOTS, "no room for another leaf");
struct zn_stack_sum {
	__u64 count, value; /* value: nanoseconds or bytes */
};

/*
 * Where Python keeps what the walker reads, of one process, by its row; the daemon writes it (probe/python.c,
 * probe/walker.c). Offsets are bytes. A walk is of the thread state whose address lies `slot` bytes from the thread
 * pointer.
 */
enum zn_python_kind { ZN_PY_POINTER, ZN_PY_LASTI_BYTES, ZN_PY_LASTI_UNITS }; /* what a frame has of its instruction */
enum zn_python_every { ZN_EVERY_LAUNCH, ZN_EVERY_OTHER, ZN_EVERY_SLEEP, ZN_EVERY_COUNT };
enum zn_stack_miss { ZN_MISSED_UNREADABLE, ZN_MISSED_ROOM, ZN_MISSED_COUNT };
#define ZN_PY_NO_CFRAME  0xff
#define ZN_STACK_LONG_NS 10000000 /* a call that takes so long is always walked */
#define ZN_SLEEP_LONG_NS 10000000 /* so is a sleep where the last one took so long */
#define ZN_SLEEP_PLACES  32       /* of a process, by where it sleeps; a power of two */
#define ZN_CLOCK_NS      20408163 /* of a CPU's time between two walks: 49 a second */
struct zn_python {
	__u32 id; /* of the process; 0: not known */
	__s32 slot;
	__u64 main_state, main_pointer; /* thread state and thread pointer of the first thread */
	__u8 frame_at, cframe_at;       /* of a thread state; cframe_at: the pointer there leads to this first */
	__u8 code_at, back_at, instruction_at, owner_at, skip_from, frame_bytes; /* of a frame */
	__u16 first_at;              /* of a code object: its instructions */
	__u8 kind, no_natives;       /* 1: a copy of a native stack would be given up unread */
	__u32 every[ZN_EVERY_COUNT]; /* one in so many is walked; of sleeps its logarithm and 1, 0: none */
	__u64 walks, walk_ns;
	__u64 copies, copy_ns;                  /* of native stacks; beside the walks */
	struct zn_stack_sum all[ZN_LEAF_SLOTS]; /* whether walked or not; of the CPU none */
	struct zn_stack_sum missed[ZN_MISSED_COUNT][ZN_LEAF_SLOTS];
	__u8 slept_long[ZN_SLEEP_PLACES];                    /* whether the last sleep there was long */
	struct zn_stack_sum workers_missed[ZN_MISSED_COUNT]; /* cause cpu, of its workers; in none of the sums above */
};
_Static_assert(sizeof(struct zn_python) == 720, "padding");

/* A stack of Python functions and what calls from it did; the innermost function comes first. A slot is claimed by its
 * hash. The daemon takes the hash away, waits until nobody adds to the slot, and clears it. */
#define ZN_STACK_GONE          1
#define ZN_STACK_DEEPER        1 /* it has more functions than are told */
#define ZN_STACK_THREAD        2 /* of a thread without Python: comm, or, if there are functions, the first thread */
#define ZN_STACK_WORKER        4 /* of a worker of the data loader, a child of the process */
#define ZN_STACK_INDEX_BITS    20
#define ZN_STACK_NO_INDEX      ((1u << ZN_STACK_INDEX_BITS) - 1)
#define ZN_STACK_WORD(code, i) ((code) >> 4 << ZN_STACK_INDEX_BITS | (i))
#define ZN_STACK_WORD_CODE(w)  ((w) >> ZN_STACK_INDEX_BITS << 4)
#define ZN_STACK_WORD_INDEX(w) ((int)((w)&ZN_STACK_NO_INDEX) - 1) /* -1: not begun */
struct zn_stack {
	__u64 hash; /* 0: free */
	__u32 id;   /* of the process */
	__u32 owner;
	__u32 users, ready; /* programs that add to it, and sleepers that will; 1: what follows is there */
	__u16 row;
	__u8 depth, flags;
	__u32 pid; /* whose memory it is of: the process, or a worker of its data loader */
	__u64 first_ns;
	char comm[16];
	struct zn_stack_sum leaf[ZN_LEAF_SLOTS];
	__u64 frame[ZN_STACK_FRAMES];
	__u32 copied;  /* leaves of which a native stack was copied, a bit each; ZN_NATIVE_SLEEP */
	__u32 sleeper; /* the thread whose sleep was copied, until it sleeps in this stack again */
};
_Static_assert(sizeof(struct zn_stack) == 1024, "padding");

/* A copy of a thread's registers and of the pages of its stack from the one on that it is in, for an example of what is
 * below a stack of Python functions (probe/examples.c). Free, being filled, filled: the daemon frees it, once it has
 * overwritten what it had. */
#define ZN_NATIVE_FRAMES 64 /* innermost functions that are told */
#define ZN_NATIVES       16 /* a power of two */
#define ZN_NATIVE_PAGES  4
#define ZN_NATIVE_PAGE   4096
#define ZN_NATIVE_SLEEP  ZN_LEAF_SLOTS /* in place of a leaf: asleep, and the cause is not known yet */
enum zn_native_state { ZN_NATIVE_FREE, ZN_NATIVE_BUSY, ZN_NATIVE_READY };
struct zn_native {
	__u32 state, at; /* enum zn_native_state; slot of the stack */
	__u64 hash;      /* of the stack */
	__u32 leaf, pages;
	__u64 since_ns;
	__u64 ip, sp, bp, bx, r12, r13, r14, r15;
	__u32 returned, pad; /* 1: ip is where a function has returned to */
	__u8 page[ZN_NATIVE_PAGES][ZN_NATIVE_PAGE];
};
_Static_assert(sizeof(struct zn_native) == 104 + ZN_NATIVE_PAGES * ZN_NATIVE_PAGE, "padding");

/* The memory of one walk. */
enum zn_walk_end { ZN_WALK_WHOLE, ZN_WALK_DEEPER, ZN_WALK_UNREADABLE };
#define ZN_STACK_WORDS 128
#define ZN_FRAME_BYTES 128
struct zn_stack_walk {
	__u32 busy, depth;
	__u64 frame, hash;
	__u32 end, flags;
	char comm[16];
	__u8 frame_bytes[2 * ZN_FRAME_BYTES]; /* twice: a field may begin at any byte of the first */
	__u64 word[ZN_STACK_WORDS];
};
_Static_assert(ZN_STACK_FRAMES <= ZN_STACK_WORDS && ZN_STACK_FRAMES < 256, "depth");

/* A job as the kernel sees it, one page. A slot is claimed by BPF when the job's control group is made, or by the
 * daemon when a message names the job, whichever comes first; the daemon alone gives it back. */
#define ZN_JOB_NAME 16 /* bytes of a job's name in a path: "4711", or a SLUID ("s" and 13 characters); NUL-padded */
struct zn_step {
	char name[16]; /* "batch", "extern", "0"; NUL-padded, cut */
	__u64 start_ns;
	__u64 end_ns;         /* 0: it has a control group */
	__u64 mem_peak_bytes; /* of its control group, read when that is removed; 0: not known */
	__u64 cpu_ns;         /* of its control groups that were removed; 0: not known */
};
#define ZN_JOB_PATH 256
struct zn_job_shared {
	__u32 serial;  /* unique as zn_proc.id; 0: free */
	__u32 cgroups; /* of the job itself, one per hierarchy, that exist */
	char name[ZN_JOB_NAME];
	__u64 start_ns; /* when it was first heard of */
	__u64 gone_ns;  /* when the last of its control groups was removed; 0: it has some, or never had one */
	__u64 mem_peak_bytes;
	__u32 step_count;
	__u32 steps_lost;  /* beyond ZN_STEPS_MAX */
	__u32 cgroup_seen; /* 1 once it had a control group */
	__u32 pad;
	__u64 oom_kills; /* of its processes, by the kernel */
	/* How often a series of this operation was refused: then its figures are not whole, but for series that were
	 * there. */
	__u64 io_lost[ZN_IO_OP_COUNT];
	__u64 io_missed[ZN_IO_OP_COUNT]; /* such operations that no entry was left for: then none of its figures are */
	/* Of its control groups that were removed: of version 2 each one's own, added up; of version 1 the job's
	 * whole. */
	struct zn_cpu_time cpu_gone, cpuacct_gone;
	char path
		[ZN_JOB_PATH]; /* of its control group in its hierarchy; empty: it had none, or one that does not fit */
	__u64 reserved[81 - 2 * ZN_IO_OP_COUNT];
	struct zn_step step[ZN_STEPS_MAX];
};
_Static_assert(sizeof(struct zn_step) == 48 && sizeof(struct zn_job_shared) == 4096, "a job is one page");

/* Control groups of jobs. A hierarchy of version 1 numbers its groups apart; version 2 is hierarchy 0. The id is the
 * inode number of the group's folder. */
struct zn_cgroup_key {
	__u64 id;
	__u32 hierarchy;
	__u32 pad;
};
enum zn_cgroup_level { ZN_CGROUP_JOB = 1, ZN_CGROUP_STEP, ZN_CGROUP_BELOW };
struct zn_cgroup {
	struct zn_job_ref job;
	__u32 level;
	__u32 step; /* index into zn_job_shared.step; ZN_STEPS_MAX: none */
};
_Static_assert(sizeof(struct zn_cgroup_key) == 16 && sizeof(struct zn_cgroup) == 16, "padding");

/* Whose entry of the quota a group is: that of a job itself is made by root alone, so others cannot keep it out. */
static inline __u32 zn_cgroup_owner(const struct zn_cgroup *c)
{
	return c->level == ZN_CGROUP_JOB ? ZN_OWNER_ROOT : ZN_OWNER_JOB(c->job.slot);
}

/* One name in a path of control groups: as much of it as can decide, so that BPF needs no loop over a whole path. */
#define ZN_SCOPE "slurmstepd.scope" /* 16 bytes without its NUL */
struct zn_cgroup_part {
	char head[16]; /* its first bytes, NUL-padded */
	char tail[16]; /* its last bytes; only if it has 16 or more */
	__u32 len;     /* 0: there is none */
	char before;   /* the byte before tail; 0: none */
	char pad[3];
};
_Static_assert(sizeof(struct zn_cgroup_part) == 40, "padding");

/* Whether a text begins as another one; BPF has no memcmp(). */
static inline int zn_cgroup_begins(const char *text, const char *with, int len)
{
	int other = 0;

#pragma GCC unroll 16
	for (int i = 0; i < len; i++)
		other |= text[i] ^ with[i];
	return other == 0;
}

/* A decimal number in its only form: no leading zero, at most 2^32 - 2 (Slurm's NO_VAL is one more). */
static inline int zn_cgroup_number(const char at[12], __u64 least)
{
	__u64 n = 0;
	int i;

#pragma GCC unroll 12
	for (i = 0; i < 12; i++) {
		if (at[i] == 0)
			break;
		if (i == 10 || at[i] < '0' || at[i] > '9')
			return 0;
		n = n * 10 + (__u64)(at[i] - '0');
	}
	return i && (i == 1 || at[0] != '0') && n >= least && n <= 0xfffffffe;
}

/* "[<node>_]slurmstepd.scope", of version 2. */
static inline int zn_cgroup_is_scope(const struct zn_cgroup_part *p)
{
	return p->len >= 16 && zn_cgroup_begins(p->tail, ZN_SCOPE, 16) && (p->len == 16 || p->before == '_');
}

/* "slurm[_<node>]" and "uid_<uid>" in it, of version 1. */
static inline int zn_cgroup_is_uid(const struct zn_cgroup_part *p, const struct zn_cgroup_part *above)
{
	return zn_cgroup_begins(p->head, "uid_", 4) && zn_cgroup_number(p->head + 4, 0) &&
		zn_cgroup_begins(above->head, "slurm", 5) && (above->len == 5 || above->head[5] == '_');
}

/* "s" and 13 letters and digits, instead of "job_<id>" from Slurm 26.05 on. */
static inline int zn_cgroup_is_sluid(const struct zn_cgroup_part *p)
{
	if (p->len != 14 || p->head[0] != 's')
		return 0;
#pragma GCC unroll 13
	for (int i = 1; i < 14; i++)
		if ((p->head[i] < '0' || p->head[i] > '9') && (p->head[i] < 'A' || p->head[i] > 'Z'))
			return 0;
	return 1;
}

/* Whether a control group is the one of a job, by its own name and the two above it; true: job is the job's name. What
 * is below a job's group belongs to that job, whatever it is called. Paths: Slurm's src/plugins/cgroup. */
static inline int zn_cgroup_parse(const struct zn_cgroup_part *own, const struct zn_cgroup_part *above,
	const struct zn_cgroup_part *top, char job[ZN_JOB_NAME])
{
	int scope = zn_cgroup_is_scope(above);

	__builtin_memset(job, 0, ZN_JOB_NAME);
	if (zn_cgroup_begins(own->head, "job_", 4) && zn_cgroup_number(own->head + 4, 1)) {
		__builtin_memcpy(job, own->head + 4, 12);
		return scope || zn_cgroup_is_uid(above, top);
	}
	if (!scope || !zn_cgroup_is_sluid(own))
		return 0;
	__builtin_memcpy(job, own->head, 16);
	return 1;
}

/* What a server is asked for. Others than these are "other": a path as it came may have ids and secrets in it. Columns:
 * name of the enum, the label `route`, its pattern: "*" is one name or more, and the last name behind it counts. */
#define ZN_REQUEST_ROUTES(X)                                                                                           \
	X(OTHER, "other", "")                                                                                          \
	X(CHAT, "/v1/chat/completions", "/v1/chat/completions")                                                        \
	X(COMPLETIONS, "/v1/completions", "/v1/completions")                                                           \
	X(RESPONSES, "/v1/responses", "/v1/responses")                                                                 \
	X(EMBEDDINGS, "/v1/embeddings", "/v1/embeddings")                                                              \
	X(MESSAGES, "/v1/messages", "/v1/messages")                                                                    \
	X(RERANK, "/v1/rerank", "/v1/rerank")                                                                          \
	X(GENERATE, "/generate", "/generate")                                                                          \
	X(GENERATE_STREAM, "/generate_stream", "/generate_stream")                                                     \
	X(COMPLETION, "/completion", "/completion")                                                                    \
	X(API_CHAT, "/api/chat", "/api/chat")                                                                          \
	X(API_GENERATE, "/api/generate", "/api/generate")                                                              \
	X(API_EMBED, "/api/embed", "/api/embed")                                                                       \
	X(INVOCATIONS, "/invocations", "/invocations")                                                                 \
	X(PREDICTIONS, "/predictions/*", "/predictions/*")                                                             \
	X(INFER, "/v2/models/*/infer", "/v2/models/*/infer")                                                           \
	X(MODEL_GENERATE, "/v2/models/*/generate", "/v2/models/*/generate")                                            \
	X(MODEL_STREAM, "/v2/models/*/generate_stream", "/v2/models/*/generate_stream")                                \
	X(H2, "h2", "")                                                                                                \
	X(NOT_READ, "not_read", "") /* beyond the budget, see struct zn_spent */
enum zn_request_route {
#define X(e, label, pattern) ZN_ROUTE_##e,
	ZN_REQUEST_ROUTES(X)
#undef X
		ZN_ROUTE_COUNT
};
#define ZN_ROUTE_SLOTS 32 /* room in struct zn_server; a power of two */
_Static_assert(ZN_ROUTE_COUNT <= ZN_ROUTE_SLOTS, "struct zn_server has no room for another route");

/* What became of a request. Column 2 is the label `code`. */
#define ZN_REQUEST_CODES(X)                                                                                            \
	X(2XX, "2xx")                                                                                                  \
	X(3XX, "3xx")                                                                                                  \
	X(4XX, "4xx")                                                                                                  \
	X(5XX, "5xx")                                                                                                  \
	X(ABORTED, "aborted")                                                                                          \
	X(UNKNOWN, "unknown")
enum zn_request_code {
#define X(e, label) ZN_OUTCOME_##e,
	ZN_REQUEST_CODES(X)
#undef X
		ZN_OUTCOME_COUNT
};
enum zn_request_duration { ZN_REQUEST_WHOLE, ZN_REQUEST_FIRST, ZN_REQUEST_GAP, ZN_REQUEST_DURATIONS };

/* What a server answered on one route. */
struct zn_request_series {
	__u32 id; /* of the server; 0: free */
	__u32 owner;
	__u64 done[ZN_OUTCOME_COUNT];
	__u64 events;
	__u64 open_ns;   /* of requests that have ended: from the begin to the end */
	__s64 in_flight; /* begun and not ended */
	__u32 hist[ZN_REQUEST_DURATIONS];
	__u32 route;
};
_Static_assert(sizeof(struct zn_request_series) == 96, "padding");

/* What a connection speaks, by its first bytes. Column 2 is the label `protocol`. */
#define ZN_REQUEST_PROTOCOLS(X)                                                                                        \
	X(HTTP1, "http1")                                                                                              \
	X(HTTP2, "http2")                                                                                              \
	X(TLS, "tls")                                                                                                  \
	X(UPGRADED, "other")
enum zn_request_protocol {
#define X(e, label) ZN_PROTOCOL_##e,
	ZN_REQUEST_PROTOCOLS(X)
#undef X
		ZN_PROTOCOL_COUNT
};

/* A process whose requests are counted: it serves, together with a process that uses a GPU. The daemon claims it and
 * gives it back; found by `served`, by its thread group id. */
struct zn_server {
	__u32 tgid;
	__u32 id; /* unique as zn_proc.id; 0: free */
	__u32 owner;
	__u32 port; /* where it listens; 0: on no port of TCP */
	char comm[16];
	__u64 since_ns;
	__u64 gone_ns; /* 0: it lives */
	__u64 connections[ZN_PROTOCOL_COUNT];
	__u64 held[2];         /* sends of which the kernel kept bytes back: of the first event, of a later one */
	__u32 hist[2];         /* unread time, and the round trip at the end of a request */
	__u32 refused;         /* bits by route: it did not get one, and that was counted */
	__u32 role;            /* enum zn_server_role */
	__u32 service;         /* the thread group id of its outermost server */
	__u32 begun;           /* requests */
	struct zn_job_ref job; /* serial 0: none */
	__u32 series[ZN_ROUTE_SLOTS]; /* index and 1 */
	__u32 service_at;             /* index and 1 of struct zn_serving */
	__u32 above;                  /* index and 1 of the server that hands it what it is asked; 0: none */
	__u64 slot_ns;                /* when the daemon wrote what follows: the time of what is not read */
	__u32 spares;                 /* ZN_SPARES(): requests that begin now are counted, and not read */
	__u32 until;                  /* receives and sends, to the next one that is measured */
};
enum zn_server_role { ZN_ROLE_FRONT, ZN_ROLE_BOTH, ZN_ROLE_GPU };
enum zn_server_duration { ZN_SERVER_UNREAD, ZN_SERVER_RTT, ZN_SERVER_DURATIONS };
_Static_assert(sizeof(struct zn_server) == 280, "padding");

/*
 * What the engines of a service (its processes that use a GPU) do, of which requests have shares. Columns: name of the
 * enum; key in JSON; decimals: 0 of a count, 9 of ns. The seven causes of stalls are in the order of enum zn_stall.
 */
#define ZN_WORKS(X)                                                                                                    \
	X(LAUNCHES, "launches", 0)                                                                                     \
	X(SYSCALLS, "system_calls", 0)                                                                                 \
	X(SWITCHES, "context_switches", 0)                                                                             \
	X(FAULTS, "page_faults", 0)                                                                                    \
	X(QUEUED, "runqueue_s", 9)                                                                                     \
	X(IOCTL, "ioctl_s", 9)                                                                                         \
	X(CPU, "cpu_s", 9)                                                                                             \
	X(GPU, "gpu_s", 9)                                                                                             \
	X(DATA, "data_s", 9)                                                                                           \
	X(DIST, "dist_s", 9)                                                                                           \
	X(IO, "io_s", 9)                                                                                               \
	X(WAITS_CPU, "waits_cpu_s", 9)                                                                                 \
	X(OTHER, "other_s", 9)
enum zn_work {
#define X(e, key, decimals) ZN_WORK_##e,
	ZN_WORKS(X)
#undef X
		ZN_WORK_COUNT
};
#define ZN_WORK_STALL ZN_WORK_CPU
_Static_assert(ZN_WORK_OTHER - ZN_WORK_STALL + 1 == ZN_STALL_COUNT, "each cause has its place");
#define ZN_WORK_SLOTS 16 /* a power of two */
#define ZN_SHARE_BITS 16 /* of a share, behind the point */

/* A request that has ended. */
#define ZN_SLOWEST 10
struct zn_slow_request {
	__u64 ns, end_ns;
	__u64 first_ns; /* to the first event; 0: it had none */
	__u64 unread_ns;
	__u64 share[ZN_WORK_COUNT]; /* with ZN_SHARE_BITS behind the point */
	__u32 tgid;                 /* of the server */
	__u32 events;
	__u16 route, code;
	__u16 held;  /* events of which TCP kept bytes back */
	__u16 exact; /* 1: it was alone from its begin to its end, so that the shares are its own */
};
_Static_assert(sizeof(struct zn_slow_request) == 152, "padding");

/*
 * Servers and engines that serve together. An engine works for all requests in flight at one time; a fair-share clock
 * divides that: it grows by what was done over the number of requests in flight, whenever a request begins or ends, and
 * a request's share is by how much it has grown from its begin to its end. So all shares add up to what was done while
 * a request was in flight. Who cannot get the lock leaves that to the next one, which changes no sum. The daemon writes
 * who belongs to it, with the lock held.
 */
struct zn_serving {
	__u32 pid; /* of its outermost server; 0: free */
	__u32 id;  /* unique as zn_proc.id */
	__u32 owner;
	__u32 lock;
	__u32 engines;
	__u32 begun; /* requests; of one that was alone it is the same at its end */
	__s32 in_flight;
	__u32 slow_count, slow_of;                         /* of slowest[], and which of the two is written to */
	__u32 refused;                                     /* engines beyond the limit: that was counted */
	__u32 row[ZN_ENGINES_MAX], row_id[ZN_ENGINES_MAX]; /* of struct zn_proc */
	__u64 at_ns;                                       /* when the clock was brought up to date last */
	__u64 window_ns, steps;                            /* how often that was since then, by begins and ends */
	__u64 serving_ns;
	__u64 done, exact;          /* requests that ended, and those of them that were alone */
	__u64 open_ns;              /* of those that ended: from the begin to the end */
	__u64 clock[ZN_WORK_COUNT]; /* with ZN_SHARE_BITS behind the point */
	__u64 work[ZN_WORK_COUNT];  /* while a request was in flight */
	__u64 idle[ZN_WORK_COUNT];  /* while none was */
	__u64 given[ZN_WORK_COUNT], given_part[ZN_WORK_COUNT]; /* the sum of all shares, and what is behind its point */
	__u64 seen[ZN_WORK_SLOTS], grown[ZN_WORK_COUNT];       /* of one engine, of all: while the lock is held */
	struct zn_slow_request slowest[2][ZN_SLOWEST];
};
_Static_assert(sizeof(struct zn_serving) == 4016, "padding");

/* How far what an engine does was seen, by its row. */
struct zn_engine {
	__u32 id, pad;
	__u64 last[ZN_WORK_COUNT];
};
_Static_assert(sizeof(struct zn_engine) == 112, "padding");

/* A direction of a connection of HTTP/2: the frame at hand. */
#define ZN_H2_HEAD 16 /* a power of two */
struct zn_h2_side {
	__u32 left;      /* bytes of its payload that are to come */
	__u8 have, want; /* bytes of what follows */
	__u8 pad[2];
	__u8 head[ZN_H2_HEAD]; /* its header, and of data that are sent their first bytes */
};

/* The header block that the server sends, while it is read; what is known of entries of its table. */
#define ZN_H2_KNOWN 6
struct zn_h2_block {
	__u64 last;               /* bytes of the string at hand */
	__u32 inserted;           /* entries so far */
	__u32 known[ZN_H2_KNOWN]; /* how many were inserted with it << 8 | ZN_H2_IS_* */
	__u32 number;             /* that is being read; bytes of a string that are to come */
	__u8 state, kind, name;   /* enum zn_hpack_* */
	__u8 shift;               /* of the number; then the length of the string, at most 255 */
	__u8 huffman, next;       /* next: place in known[] */
	__u8 http, grpc;          /* found: hundreds of the status; code of gRPC, and 1 */
	__u8 unsure;              /* it has entries from before */
	__u8 pad[3];
};
_Static_assert(sizeof(struct zn_h2_side) == 24 && sizeof(struct zn_h2_block) == 56, "padding");
struct zn_h2 {
	struct zn_h2_side side[2]; /* received, sent */
	struct zn_h2_block block;
};

/*
 * A connection of a server, by the address of the kernel's struct sock. scan[] is the memory of the parser below:
 * hashes of the path while a request begins, the last bytes of the head while an answer does. Nothing else of either is
 * kept. A connection of HTTP/2 has an entry of its own and one for each stream, by zn_h2_key(). There scan[0] is what
 * the keys of its streams begin with, and scan[1] the first such number that it had; of a stream scan[] is the address
 * of its connection, and both numbers.
 */
struct zn_request {
	__u64 scan[4];
	__u64 length; /* of the answer's body: what its head says, less what was sent; of HTTP/2 the last stream that began,
		       * and of a stream what is to come of its message, or ZN_H2_UNPLACED */
	__u64 first_ns; /* when the first byte of the next request came */
	__u64 start_ns, read_ns, last_ns, event_ns;
	__u32 id; /* of the server */
	__u32 owner;
	__u32 state; /* enum zn_request_state */
	__u32 events;
	__u32 series; /* index and 1 of the request at hand; 0: none */
	__u16 server;
	__u16 status;
	__u16 scanned;     /* bytes of the path, or of the head */
	__u8 line, head;   /* enum zn_http1_line, zn_http1_head */
	__u8 flags, field; /* ZN_HTTP1_*; enum zn_http1_field */
	__u8 protocol;     /* enum zn_request_protocol, and 1; 0: not known yet */
	__u8 slashes;
	__u8 asks_head; /* the request that begins has no answer with a body */
	__u8 is_unix;
	__u8 ends;     /* so many bytes of the last chunk's line and what follows it were the last that were sent */
	__u8 nested;   /* a server of the same service asks it: its requests are parts of others */
	__u8 alone;    /* no other request was in flight when it began */
	__u8 broken;   /* of HTTP/2: where a frame begins is not known; of a stream: how it ended is not */
	__u16 held;    /* events of which TCP kept bytes back */
	__u32 service; /* index and 1 of the service that it has shares of; 0: none */
	__u32 service_id, begun;
	__u8 name;   /* bytes of the line of the head at hand, up to its colon: 0, it is empty so far */
	__u8 spared; /* the request that began last is counted, and nothing else */
	__u8 pad2[2];
	__u64 unread_ns, first_event_ns;
	union {
		__u64 share[ZN_WORK_COUNT]; /* the clock at its begin */
		struct zn_h2 h2;            /* of a connection */
	};
};
enum zn_request_state { ZN_REQUEST_IDLE, ZN_REQUEST_ASKED, ZN_REQUEST_BODY };
_Static_assert(sizeof(struct zn_request) == 256, "padding");

/* Where in a send or receive of HTTP/2 we are. */
struct zn_h2_walk {
	__u64 at, base; /* of the pieces; of what is left of the one at hand */
	__u64 now;
	__u32 count, piece;
	__u32 piece_left, left;
	__u32 effects, sends;
	__u32 moved, pad;
};

/* Memory for one send or receive: its first bytes. */
#define ZN_REQUEST_BYTES 1024
struct zn_request_scratch {
	struct zn_request fresh;
	__u32 busy;     /* some CPU's */
	__u32 have;     /* bytes */
	__u32 last_len; /* of what follows */
	__u32 slot;     /* its place in the map */
	__u64 start_ns; /* when it began, if it is measured what it takes; 0: it is not */
	__u32 server;   /* whose index that is charged to */
	__u32 pad;
	struct zn_h2_walk walk;
	__u8 last[8];                     /* the last bytes of a send */
	__u8 bytes[2 * ZN_REQUEST_BYTES]; /* nothing reads the second half as a part of it */
};
_Static_assert(sizeof(struct zn_request_scratch) == 352 + 2 * ZN_REQUEST_BYTES, "padding");

/*
 * HTTP/1 as a server speaks it, one byte at a time, so that it does not matter where the bytes are cut. Both compilers
 * build this. What is found lies in memory that is volatile, and each byte is read anew: else the verifier would follow
 * each way through the head by itself.
 */
enum zn_http1_line { ZN_LINE_NONE, ZN_LINE_METHOD, ZN_LINE_PATH, ZN_LINE_DONE, ZN_LINE_BAD };
enum zn_http1_head { ZN_HEAD_STATUS, ZN_HEAD_FIELDS, ZN_HEAD_DONE, ZN_HEAD_BAD };
/* Of the line of the head at hand, what is read: its name, one of three values, or nothing of it. */
enum zn_http1_field { ZN_FIELD_NAME, ZN_FIELD_OTHER, ZN_FIELD_LENGTH, ZN_FIELD_TYPE, ZN_FIELD_CODING };
#define ZN_HTTP1_CHUNKED 1
#define ZN_HTTP1_LENGTH  2
#define ZN_HTTP1_SSE     4
#define ZN_HTTP1_NDJSON  8
#define ZN_HTTP1_EMPTY   16  /* the answer to HEAD */
#define ZN_H2_OF_GRPC    64  /* a stream, not a head */
#define ZN_H2_LAST_BLOCK 128 /* likewise: it ends with the header block that is being sent */
#define ZN_HTTP1_LONG    32  /* its head is longer than what is looked at: how its body ends is not known */
#define ZN_PATH_MAX      96
#define ZN_LINE_MAX      128
/* Of HTTP/2: see below. */
enum zn_h2_type {
	ZN_H2_DATA,
	ZN_H2_HEADERS,
	ZN_H2_PRIORITY,
	ZN_H2_RST,
	ZN_H2_SETTINGS,
	ZN_H2_PUSH,
	ZN_H2_PING,
	ZN_H2_GOAWAY,
	ZN_H2_WINDOW,
	ZN_H2_CONTINUATION
};
#define ZN_H2_END_STREAM   1
#define ZN_H2_END_HEADERS  4
#define ZN_H2_PADDED       8
#define ZN_H2_PRIORITIZED  32
#define ZN_H2_FRAME        9  /* bytes of its header */
#define ZN_H2_PREFACE      24 /* read as a frame of no type */
#define ZN_H2_PREFACE_TYPE 0xff
#define ZN_H2_PART         64      /* of a header block that is looked at in one step */
#define ZN_H2_STATIC       62      /* the first index that is not of the static table */
#define ZN_H2_IS_STATUS    0x10    /* of what is known of an entry; in the low bits the hundreds */
#define ZN_H2_IS_GRPC      0x20    /* likewise; behind it the code, of at most 16 */
#define ZN_H2_IS_GRPC_NAME 0x40    /* its value is not known */
#define ZN_H2_UNPLACED     (~0ULL) /* as what is to come of a message: where the next one begins is not known */
/* What follows of the bytes that were read. */
#define ZN_H2_BEGINS 1 /* a frame: its header, and the first bytes of the data that are sent */
#define ZN_H2_ENDS   2
#define ZN_H2_BROKEN 4
enum zn_hpack_state {
	ZN_HPACK_FIELD,
	ZN_HPACK_INDEX,
	ZN_HPACK_NAME_LEN,
	ZN_HPACK_NAME_MORE,
	ZN_HPACK_NAME,
	ZN_HPACK_VALUE_LEN,
	ZN_HPACK_VALUE_MORE,
	ZN_HPACK_VALUE
};
enum zn_hpack_kind { ZN_HPACK_LITERAL, ZN_HPACK_INDEXED, ZN_HPACK_INSERTED, ZN_HPACK_SIZE };
enum zn_hpack_name { ZN_HPACK_OTHER, ZN_HPACK_STATUS, ZN_HPACK_GRPC, ZN_HPACK_ANY }; /* ANY: of before */
/* What follows from a send or a receive, in this order. */
#define ZN_DO_END    1
#define ZN_DO_BEGIN  2
#define ZN_DO_EVENT  4
#define ZN_DO_LATE   8 /* as ZN_DO_END, but after the event, and now */
#define ZN_DO_LOST   16
#define ZN_DO_KNOWN  32 /* the protocol is known from here on */
#define ZN_FNV_BASIS 0xcbf29ce484222325ULL
#define ZN_FNV_PRIME 0x100000001b3ULL
#define ZN_8(a, b, c, d, e, f, g, h)                                                                                   \
	((__u64)(a) << 56 | (__u64)(b) << 48 | (__u64)(c) << 40 | (__u64)(d) << 32 | (__u64)(e) << 24 |                \
		(__u64)(f) << 16 | (__u64)(g) << 8 | (__u64)(h))
/* As memory has them where the first byte is the lowest. */
#define ZN_TEXT_8(a, b, c, d, e, f, g, h) ZN_8(h, g, f, e, d, c, b, a)
#define ZN_ALL_8(b)                       (0x0101010101010101ULL * (b))
#define ZN_LESS_8(word)                   (((word)-ZN_ALL_8(1)) & ~(word)&ZN_ALL_8(0x80))
#define ZN_HAS_BYTE(word, b)              (ZN_LESS_8((word) ^ ZN_ALL_8(b)) != 0)
#ifdef __bpf__
/* By way of a variable, or it would be read byte by byte, as the array allows. */
#define ZN_BYTES_8(at)                                                                                                 \
	({                                                                                                             \
		const void *at_ = (at);                                                                                \
		*(const volatile __u64 *)at_;                                                                          \
	})
#define ZN_HTTP1_LOOP __attribute__((noinline)) /* not static: verified once, by itself */
#define ZN_HTTP1_STEP static inline __attribute__((always_inline))
#else
#define ZN_BYTES_8(at)                                                                                                 \
	({                                                                                                             \
		__u64 word_;                                                                                           \
		__builtin_memcpy(&word_, at, sizeof(word_));                                                           \
		word_;                                                                                                 \
	})
#define ZN_HTTP1_LOOP static inline
#define ZN_HTTP1_STEP static inline
#endif

#if !defined(__bpf__) || defined(ZN_HTTP1) /* the loops would be in each object */
ZN_HTTP1_STEP int zn_http1_is_method(__u64 name)
{
	return name == ZN_8(0, 0, 0, 0, 'P', 'O', 'S', 'T') || name == ZN_8(0, 0, 0, 0, 0, 'G', 'E', 'T') ||
		name == ZN_8(0, 0, 0, 0, 'H', 'E', 'A', 'D') || name == ZN_8(0, 0, 0, 0, 0, 'P', 'U', 'T') ||
		name == ZN_8(0, 0, 'D', 'E', 'L', 'E', 'T', 'E') || name == ZN_8(0, 0, 0, 'P', 'A', 'T', 'C', 'H') ||
		name == ZN_8(0, 'O', 'P', 'T', 'I', 'O', 'N', 'S');
}

/* scan: the letters so far. */
ZN_HTTP1_STEP void zn_http1_method_byte(volatile struct zn_request *c, __u8 b)
{
	if (b == ' ' && zn_http1_is_method(c->scan[0])) {
		c->asks_head = c->scan[0] == ZN_8(0, 0, 0, 0, 'H', 'E', 'A', 'D');
		c->line = ZN_LINE_PATH;
		c->scan[0] = c->scan[3] = ZN_FNV_BASIS;
		c->scan[1] = c->scan[2] = 0;
		c->scanned = c->slashes = 0;
	} else if (b < 'A' || b > 'Z' || c->scanned >= 7) {
		c->line = ZN_LINE_BAD;
	} else {
		c->scan[0] = c->scan[0] << 8 | b;
		c->scanned = c->scanned + 1;
	}
}

/* scan: hashes of the path, of what it begins with up to the second and the third slash, and of its last name. */
ZN_HTTP1_STEP void zn_http1_path_byte(volatile struct zn_request *c, __u8 b)
{
	if (b == ' ' || b == '?' || c->scanned >= ZN_PATH_MAX) {
		if (b != ' ' && b != '?')
			c->scan[0] = c->scan[1] = c->scan[2] = 0;
		c->line = ZN_LINE_DONE;
		return;
	}
	if (b < ' ') {
		c->line = ZN_LINE_BAD;
		return;
	}
	c->scan[0] = (c->scan[0] ^ b) * ZN_FNV_PRIME;
	if (b == '/') {
		c->scan[3] = ZN_FNV_BASIS;
		if (c->slashes < 4)
			c->slashes = c->slashes + 1;
		if (c->slashes == 2)
			c->scan[1] = c->scan[0];
		if (c->slashes == 3)
			c->scan[2] = c->scan[0];
	}
	c->scan[3] = (c->scan[3] ^ b) * ZN_FNV_PRIME;
	c->scanned = c->scanned + 1;
}

/* The key of a route for a path: the path itself, its beginning up to a "*", the same with the last name. */
enum zn_route_key { ZN_ROUTE_EXACT, ZN_ROUTE_BELOW, ZN_ROUTE_LAST };
ZN_HTTP1_STEP __u64 zn_http1_key(const struct zn_request *c, enum zn_route_key kind)
{
	if (kind == ZN_ROUTE_BELOW)
		return c->scan[1] + 1;
	if (kind == ZN_ROUTE_LAST && c->slashes < 4)
		return 0; /* no name stands for the "*" */
	return kind == ZN_ROUTE_LAST ? (c->scan[2] ^ (c->scan[3] >> 7)) * ZN_FNV_PRIME : c->scan[0];
}

/* In parts: the verifier follows each turn of a loop by itself, and a function that is not static once. Returns where
 * it stopped. */
#define ZN_HTTP1_PART     16
#define ZN_HTTP1_PARTS    (3 * ZN_REQUEST_BYTES / 2 / ZN_HTTP1_PART) /* of a head: some end with a line */
#define ZN_CONTINUE_BYTES 25 /* of "HTTP/1.1 100 Continue" and an empty line, and of no answer that could be */
#define ZN_STATUS_BYTES   12 /* of "HTTP/1.1 200" */
ZN_HTTP1_LOOP int zn_http1_line_part(struct zn_request *c, const struct zn_request_scratch *s, __u32 from)
{
	volatile struct zn_request *v = c;
	__u32 at = from & (ZN_LINE_MAX - 1);

	if (!c || !s)
		return 0;
	for (__u32 i = 0; i < ZN_HTTP1_PART; i++) {
		if (at >= *(volatile const __u32 *)&s->have || v->line >= ZN_LINE_DONE)
			break;
		if (v->line == ZN_LINE_METHOD)
			zn_http1_method_byte(v, s->bytes[at]);
		else
			zn_http1_path_byte(v, s->bytes[at]);
		at++;
	}
	return at;
}

ZN_HTTP1_STEP void zn_http1_line(struct zn_request *c, const struct zn_request_scratch *s)
{
	__u32 at = 0;

	for (int i = 0; i < ZN_LINE_MAX / ZN_HTTP1_PART; i++) {
		if (at >= s->have || c->line >= ZN_LINE_DONE)
			break;
		at = zn_http1_line_part(c, s, at);
	}
}

/* Nothing is read of the rest of this line, which is not empty. */
ZN_HTTP1_STEP void zn_http1_line_leave(volatile struct zn_request *c)
{
	c->field = ZN_FIELD_OTHER;
	c->name = 2;
}

ZN_HTTP1_STEP void zn_http1_status_byte(volatile struct zn_request *c, __u8 b)
{
	c->scanned = c->scanned + 1;
	if (c->scanned >= 10 && (b < '0' || b > '9'))
		c->head = ZN_HEAD_BAD;
	else if (c->scanned >= 10)
		c->status = c->status * 10 + (b - '0');
	if (c->scanned == 5 && (c->scan[1] & 0xffffffffff) != ZN_8(0, 0, 0, 'h', 't', 't', 'p', '/'))
		c->head = ZN_HEAD_BAD;
	if (c->scanned != ZN_STATUS_BYTES || c->head != ZN_HEAD_STATUS)
		return;
	c->head = ZN_HEAD_FIELDS;
	zn_http1_line_leave(c);
}

/* The answer's own head follows one of "100 Continue" and the like. */
ZN_HTTP1_STEP void zn_http1_head_end(volatile struct zn_request *c)
{
	if (c->status >= 200 || c->status == 101) {
		c->head = ZN_HEAD_DONE;
		return;
	}
	c->head = ZN_HEAD_STATUS;
	c->scanned = c->status = 0;
	c->flags = c->flags & ZN_HTTP1_EMPTY;
}

/* scan[0] and scan[1]: the name, and its colon; what a longer one begins with is not in them. */
ZN_HTTP1_STEP void zn_http1_name_end(volatile struct zn_request *c)
{
	__u64 before = c->scan[0], last = c->scan[1];
	__u32 len = c->name;

	zn_http1_line_leave(c);
	if (len == 15 && last == ZN_8('-', 'l', 'e', 'n', 'g', 't', 'h', ':') &&
		before << 8 == ZN_8('c', 'o', 'n', 't', 'e', 'n', 't', 0)) {
		c->field = ZN_FIELD_LENGTH;
		c->length = 0;
		c->flags = c->flags | ZN_HTTP1_LENGTH;
	} else if (len == 13 && last == ZN_8('n', 't', '-', 't', 'y', 'p', 'e', ':') &&
		before << 24 == ZN_8('c', 'o', 'n', 't', 'e', 0, 0, 0)) {
		c->field = ZN_FIELD_TYPE;
	} else if (len == 18 && last == ZN_8('n', 'c', 'o', 'd', 'i', 'n', 'g', ':') &&
		before == ZN_8('a', 'n', 's', 'f', 'e', 'r', '-', 'e')) {
		c->field = ZN_FIELD_CODING;
	}
}

ZN_HTTP1_STEP void zn_http1_value_byte(volatile struct zn_request *c, __u8 b)
{
	__u64 last = c->scan[1];

	if (c->field == ZN_FIELD_LENGTH && b >= '0' && b <= '9')
		c->length = c->length * 10 + (b - '0');
	else if (c->field == ZN_FIELD_TYPE && last == ZN_8('t', 'e', 'x', 't', '/', 'e', 'v', 'e'))
		c->flags = c->flags | ZN_HTTP1_SSE;
	else if (c->field == ZN_FIELD_TYPE && last == ZN_8('x', '-', 'n', 'd', 'j', 's', 'o', 'n'))
		c->flags = c->flags | ZN_HTTP1_NDJSON;
	else if (c->field == ZN_FIELD_CODING && last << 8 == ZN_8('c', 'h', 'u', 'n', 'k', 'e', 'd', 0))
		c->flags = c->flags | ZN_HTTP1_CHUNKED;
}

/* An empty line ends the head. */
ZN_HTTP1_STEP void zn_http1_line_end(volatile struct zn_request *c)
{
	__u8 name = c->name, last = c->scan[1];

	c->name = 0;
	c->field = ZN_FIELD_NAME;
	if (name == 0 || (name == 1 && last == '\r'))
		zn_http1_head_end(c);
}

ZN_HTTP1_STEP void zn_http1_field_byte(volatile struct zn_request *c, __u8 b)
{
	if (c->field != ZN_FIELD_NAME) {
		zn_http1_value_byte(c, b);
		return;
	}
	if (c->name < 0xff)
		c->name = c->name + 1;
	if (b == ':')
		zn_http1_name_end(c);
}

/* scan[0] and scan[1]: the last 16 bytes of what is looked at, in lower case. */
ZN_HTTP1_STEP void zn_http1_head_byte(volatile struct zn_request *c, __u8 b)
{
	__u8 lower = b >= 'A' && b <= 'Z' ? b | 0x20 : b;

	if (b == '\n' && c->head == ZN_HEAD_FIELDS) {
		zn_http1_line_end(c);
		return;
	}
	if (c->head == ZN_HEAD_FIELDS && c->field == ZN_FIELD_OTHER)
		return;
	c->scan[0] = c->scan[0] << 8 | c->scan[1] >> 56;
	c->scan[1] = c->scan[1] << 8 | lower;
	if (c->head == ZN_HEAD_STATUS)
		zn_http1_status_byte(c, lower);
	else
		zn_http1_field_byte(c, lower);
}

/* Likewise. It stops behind the end of a line. */
ZN_HTTP1_LOOP int zn_http1_head_part(struct zn_request *c, const struct zn_request_scratch *s, __u32 from)
{
	volatile struct zn_request *v = c;
	__u32 at = from & (ZN_REQUEST_BYTES - 1);
	__u8 b;

	if (!c || !s)
		return 0;
	for (__u32 i = 0; i < ZN_HTTP1_PART; i++) {
		if (at >= *(volatile const __u32 *)&s->have || v->head >= ZN_HEAD_DONE)
			break;
		b = s->bytes[at & (2 * ZN_REQUEST_BYTES - 1)];
		zn_http1_head_byte(v, b);
		at++;
		if (b == '\n')
			break;
	}
	return at;
}

/* Whether a line may begin with the name of a field that is read, by its first eight bytes in lower case: none is
 * missed. */
ZN_HTTP1_STEP int zn_http1_is_read(__u64 word)
{
	word |= 0x2020202020202020ULL;
	return word == ZN_TEXT_8('c', 'o', 'n', 't', 'e', 'n', 't', '-') ||
		word >> 16 == ZN_TEXT_8('a', 'n', 's', 'f', 'e', 'r', 0, 0);
}

/* Passes over a line of which nothing is read, eight bytes at a time, up to those that its end is in, or a part of it. */
ZN_HTTP1_LOOP int zn_http1_pass(struct zn_request *c, const struct zn_request_scratch *s, __u32 from)
{
	__u32 at = from & (ZN_REQUEST_BYTES - 1);
	__u64 word;

	if (!c || !s || c->head != ZN_HEAD_FIELDS || at + 8 > s->have)
		return from;
	word = ZN_BYTES_8(&s->bytes[at]);
	if (c->field == ZN_FIELD_NAME && !c->name && !ZN_HAS_BYTE(word, '\n') && !zn_http1_is_read(word))
		zn_http1_line_leave(c);
	if (c->field != ZN_FIELD_OTHER)
		return at;
	for (__u32 i = 0; i < ZN_HTTP1_PART; i++) {
		if (at + 8 > *(volatile const __u32 *)&s->have || ZN_HAS_BYTE(word, '\n'))
			break;
		at += 8;
		word = ZN_BYTES_8(&s->bytes[at & (ZN_REQUEST_BYTES - 1)]);
	}
	return at;
}

/* How many of the bytes are of the head. */
ZN_HTTP1_LOOP int zn_http1_head(struct zn_request *c, const struct zn_request_scratch *s)
{
	__u32 at = 0;

	if (!c || !s)
		return 0;
	for (int i = 0; i < ZN_HTTP1_PARTS; i++) {
		if (at >= s->have || c->head >= ZN_HEAD_DONE)
			break;
		if (c->field == ZN_FIELD_OTHER || !c->name)
			at = zn_http1_pass(c, s, at);
		at = zn_http1_head_part(c, s, at);
	}
	return at;
}

/* Where the data of a chunk begin, if a line with its size lies at this place. A size of 0 is the end, and has none. */
#define ZN_CHUNK_NONE 0xffffu
ZN_HTTP1_LOOP int zn_http1_chunk(const struct zn_request_scratch *s, __u32 at)
{
	if (!s || at >= ZN_REQUEST_BYTES || s->bytes[at] == '0')
		return ZN_CHUNK_NONE;
#pragma GCC unroll 12 /* kernels before 6.3 do not take the loop that the compiler makes of it */
	for (__u32 i = 0; i < 12; i++) {
		__u8 b = s->bytes[at + i], letter = b | 0x20;

		if (b == '\n')
			return i >= 2 ? at + i + 1 : ZN_CHUNK_NONE;
		if (b != '\r' && (b < '0' || b > '9') && (letter < 'a' || letter > 'f'))
			return ZN_CHUNK_NONE;
	}
	return ZN_CHUNK_NONE;
}

ZN_HTTP1_STEP int zn_http1_is_data(const struct zn_request_scratch *s, __u32 at)
{
	const __u8 *b = &s->bytes[at & (ZN_REQUEST_BYTES - 1)];

	if (b[0] == 'e')
		return b[1] == 'v' && b[2] == 'e' && b[3] == 'n' && b[4] == 't' && b[5] == ':';
	return b[0] == 'd' && b[1] == 'a' && b[2] == 't' && b[3] == 'a' && b[4] == ':' && b[5] != '[' &&
		!(b[5] == ' ' && b[6] == '[' && b[7] == 'D');
}

/* Whether what is sent of a body begins with an event. */
ZN_HTTP1_STEP int zn_http1_is_event(const struct zn_request *c, const struct zn_request_scratch *s, __u32 at)
{
	__u32 data = c->flags & ZN_HTTP1_CHUNKED ? (__u32)zn_http1_chunk(s, at) : ZN_CHUNK_NONE;

	if (c->flags & ZN_HTTP1_SSE) {
		data = data == ZN_CHUNK_NONE ? at : data;
		return data + 6 <= s->have && zn_http1_is_data(s, data);
	}
	if (c->flags & ZN_HTTP1_CHUNKED)
		return data != ZN_CHUNK_NONE && data < s->have;
	return c->flags & ZN_HTTP1_NDJSON && at < s->have;
}

/* The last chunk is "0\r\n\r\n". */
#define ZN_LAST_CHUNK 5

/* Fields may follow its size (trailers): seen where all that is one send. */
ZN_HTTP1_STEP int zn_http1_is_trailed(const struct zn_request_scratch *s)
{
	const __u8 *b = s->bytes, *last = s->last;

	return s->have > ZN_LAST_CHUNK && s->last_len >= ZN_LAST_CHUNK && b[0] == '0' && b[1] == '\r' && b[2] == '\n' &&
		last[1] == '\r' && last[2] == '\n' && last[3] == '\r' && last[4] == '\n';
}

/* Whether what was sent ends in the last chunk, however that was cut. */
ZN_HTTP1_LOOP int zn_http1_ends(struct zn_request *c, const struct zn_request_scratch *s)
{
	__u32 n = c ? c->ends : 0;

	if (!c || !s)
		return 0;
	if (s->last_len >= ZN_LAST_CHUNK)
		n = 0;
	for (__u32 i = 0; i < ZN_LAST_CHUNK; i++) {
		__u8 b = s->last[i];

		if (i >= s->last_len)
			break;
		if (b == (n == 1 || n == 3 ? '\r' : n == 2 || n == 4 ? '\n' : '0'))
			n = n == ZN_LAST_CHUNK ? 1 : n + 1;
		else
			n = b == '0';
	}
	c->ends = n;
	return n == ZN_LAST_CHUNK || zn_http1_is_trailed(s);
}

ZN_HTTP1_STEP __u32 zn_http1_body(struct zn_request *c, const struct zn_request_scratch *s, __u32 at, __u64 sent)
{
	__u32 effects = 0;

	if (!(c->flags & ZN_HTTP1_CHUNKED) && c->flags & ZN_HTTP1_LENGTH) {
		if (sent > c->length) /* the answer to a request that came with this one follows */
			effects = ZN_DO_LOST;
		c->length = c->length > sent ? c->length - sent : 0;
		return c->length ? 0 : effects | ZN_DO_LATE;
	}
	if (sent && at < s->have && zn_http1_is_event(c, s, at))
		effects |= ZN_DO_EVENT;
	if (zn_http1_ends(c, s) && sent && c->flags & (ZN_HTTP1_CHUNKED | ZN_HTTP1_LONG))
		effects |= ZN_DO_LATE;
	return effects;
}

/* The head is behind us. */
ZN_HTTP1_STEP __u32 zn_http1_answered(struct zn_request *c, const struct zn_request_scratch *s, __u32 at, __u64 sent)
{
	c->state = ZN_REQUEST_BODY;
	if (c->status == 101) {
		c->protocol = ZN_PROTOCOL_UPGRADED + 1;
		return ZN_DO_LATE | ZN_DO_KNOWN;
	}
	if (c->flags & ZN_HTTP1_EMPTY || c->status == 204 || c->status == 304)
		return ZN_DO_LATE;
	return zn_http1_body(c, s, at, sent - at);
}

/* The server sent so many bytes, of which the first are at hand: none where they cannot be read. */
ZN_HTTP1_STEP __u32 zn_http1_sent(struct zn_request *c, const struct zn_request_scratch *s, __u64 sent, __u64 now)
{
	__u32 effects = 0, at;

	if (c->state == ZN_REQUEST_IDLE) {
		c->line = ZN_LINE_NONE;
		return s->have >= 9 && s->bytes[0] == 'H' && s->bytes[4] == '/' && s->bytes[8] == ' ' ? ZN_DO_LOST : 0;
	}
	c->last_ns = now;
	if (c->state == ZN_REQUEST_BODY)
		return zn_http1_body(c, s, 0, sent);
	at = zn_http1_head(c, s);
	if (c->head < ZN_HEAD_DONE && at == sent)
		return 0; /* the rest of it comes */
	if (c->head != ZN_HEAD_DONE) {
		c->state = ZN_REQUEST_BODY;
		c->flags = ZN_HTTP1_LONG;
		return zn_http1_ends(c, s) ? ZN_DO_LATE : 0;
	}
	effects = zn_http1_answered(c, s, at, sent);
	return effects;
}

/* A request has begun, of which all is known that is kept. */
ZN_HTTP1_STEP void zn_http1_begin(struct zn_request *c, __u64 now)
{
	c->state = ZN_REQUEST_ASKED;
	c->start_ns = c->first_ns;
	c->read_ns = c->last_ns = now;
	c->event_ns = c->length = 0;
	c->events = 0;
	c->line = ZN_LINE_NONE;
	c->head = ZN_HEAD_STATUS;
	c->scanned = c->status = c->field = c->name = c->ends = 0;
	c->flags = c->asks_head ? ZN_HTTP1_EMPTY : 0;
}

#define ZN_H2_ASKED_LEAST 24   /* bytes of a request's headers with those of their frame */
#define ZN_TLS_HANDSHAKE  0x16 /* what a record of it begins with, of RFC 8446, section 5.1 */

/* Whether what is received on a connection of which nothing is known may begin anything that is counted. None is
 * missed: methods and the preface of HTTP/2 are of capital letters, and a frame begins with its length. */
ZN_HTTP1_STEP int zn_http1_may_begin(__u8 first, __u32 received)
{
	return (first >= 'A' && first <= 'Z') || first == ZN_TLS_HANDSHAKE || (!first && received >= ZN_H2_ASKED_LEAST);
}

/* Whether what is received begins with the headers of a request. */
ZN_HTTP1_STEP int zn_h2_is_asked(const struct zn_request_scratch *s)
{
	const __u8 *b = s->bytes;
	__u32 len = (__u32)b[1] << 8 | b[2], at = ZN_H2_FRAME;

	if (s->have < ZN_H2_ASKED_LEAST || b[0] || len < 3 || len > 16384 || b[3] != ZN_H2_HEADERS || b[5] & 0x80 ||
		!(b[8] & 1))
		return 0;
	if (!(b[4] & ZN_H2_END_HEADERS) ||
		b[4] & ~(ZN_H2_END_STREAM | ZN_H2_END_HEADERS | ZN_H2_PADDED | ZN_H2_PRIORITIZED))
		return 0;
	at += (b[4] & ZN_H2_PADDED ? 1 : 0) + (b[4] & ZN_H2_PRIORITIZED ? 5 : 0);
	return b[at & 15] & 0xe0;
}

/* A record of TLS with the first message of a client; the preface of HTTP/2. */
ZN_HTTP1_STEP __u32 zn_http1_other(struct zn_request *c, const struct zn_request_scratch *s)
{
	const __u8 *b = s->bytes;

	if (c->protocol)
		return 0;
	if (s->have >= 6 && b[0] == ZN_TLS_HANDSHAKE && b[1] == 3 && b[5] == 1)
		c->protocol = ZN_PROTOCOL_TLS + 1;
	else if (s->have >= 6 && b[0] == 'P' && b[1] == 'R' && b[2] == 'I' && b[3] == ' ' && b[4] == '*')
		c->protocol = ZN_PROTOCOL_HTTP2 + 1;
	else if (zn_h2_is_asked(s)) /* a connection from before */
		c->protocol = ZN_PROTOCOL_HTTP2 + 1;
	return c->protocol ? ZN_DO_KNOWN : 0;
}

/* The server received something. With ZN_DO_BEGIN the caller takes the route from c->scan, and calls
 * zn_http1_begin(). */
ZN_HTTP1_STEP __u32 zn_http1_received(struct zn_request *c, const struct zn_request_scratch *s, __u64 now)
{
	__u32 effects = c->state == ZN_REQUEST_BODY ? ZN_DO_END : 0;

	if (c->protocol > ZN_PROTOCOL_HTTP1 + 1)
		return 0;
	if (c->state == ZN_REQUEST_ASKED) {
		c->read_ns = now;
		return 0;
	}
	if (c->line != ZN_LINE_METHOD && c->line != ZN_LINE_PATH) {
		c->line = ZN_LINE_METHOD;
		c->scan[0] = c->scanned = 0;
		c->first_ns = now;
	}
	zn_http1_line(c, s);
	if (c->line == ZN_LINE_BAD) {
		c->line = ZN_LINE_NONE;
		return zn_http1_other(c, s);
	}
	if (c->line != ZN_LINE_DONE)
		return 0;
	if (!c->protocol)
		effects |= ZN_DO_KNOWN;
	c->protocol = ZN_PROTOCOL_HTTP1 + 1;
	return effects | ZN_DO_BEGIN;
}

/* How a request ended whose connection is closed. */
ZN_HTTP1_STEP int zn_http1_is_aborted(const struct zn_request *c)
{
	return c->state != ZN_REQUEST_BODY || c->flags & (ZN_HTTP1_CHUNKED | ZN_HTTP1_LENGTH);
}

/* 101 is a success: the client has the protocol that it asked for. */
ZN_HTTP1_STEP enum zn_request_code zn_http1_code(const struct zn_request *c)
{
	__u32 hundreds = c->status == 101 ? 2 : c->status / 100;

	return hundreds >= 2 && hundreds <= 5 ? (enum zn_request_code)(ZN_OUTCOME_2XX + hundreds - 2)
					      : ZN_OUTCOME_ABORTED;
}
#endif

/*
 * HTTP/2 as a server speaks it, by its frames. An entry of the connection has the frame at hand of both directions, and
 * an entry of each stream the times. Of the header blocks that the server sends the status is read, and that of gRPC:
 * HPACK as far as it takes. Entries of its table are known by how many were inserted before them, so that those from
 * before the daemon are not known, and all others are.
 */

#if !defined(__bpf__) || defined(ZN_HTTP1)
ZN_HTTP1_STEP __u32 zn_h2_length(const struct zn_h2_side *d)
{
	return (__u32)d->head[0] << 16 | (__u32)d->head[1] << 8 | d->head[2];
}

ZN_HTTP1_STEP __u32 zn_h2_stream(const struct zn_h2_side *d)
{
	return ((__u32)d->head[5] << 24 | (__u32)d->head[6] << 16 | (__u32)d->head[7] << 8 | d->head[8]) & 0x7fffffff;
}

/* Of an entry of a stream; those of connections are addresses of the kernel, whose highest bit is set. */
ZN_HTTP1_STEP __u64 zn_h2_key(const struct zn_request *c, __u32 stream)
{
	return (c->scan[0] & 0x7fffffff) << 32 | stream;
}
#define ZN_H2_IS_STREAM(key) ((__u64)(key) >> 63 == 0)

/* A connection is seen from here on. */
ZN_HTTP1_STEP void zn_h2_init(struct zn_request *c, const struct zn_request_scratch *s, __u32 serial)
{
	__builtin_memset(&c->h2, 0, sizeof(c->h2));
	c->scan[0] = serial;
	c->length = c->broken = 0;
	if (s->bytes[0] != 'P')
		return;
	c->h2.side[0].have = c->h2.side[0].want = ZN_H2_FRAME;
	c->h2.side[0].left = ZN_H2_PREFACE;
	c->h2.side[0].head[3] = ZN_H2_PREFACE_TYPE;
}

ZN_HTTP1_STEP int zn_h2_is_frame(const struct zn_h2_side *d)
{
	__u32 len = zn_h2_length(d), of_stream = zn_h2_stream(d) != 0;

	if (d->head[5] & 0x80)
		return 0;
	switch (d->head[3]) {
	case ZN_H2_DATA:
	case ZN_H2_HEADERS:
	case ZN_H2_PUSH:
	case ZN_H2_CONTINUATION: return of_stream;
	case ZN_H2_PRIORITY: return of_stream && len == 5;
	case ZN_H2_RST: return of_stream && len == 4;
	case ZN_H2_SETTINGS: return !of_stream && len % 6 == 0;
	case ZN_H2_PING: return !of_stream && len == 8;
	case ZN_H2_GOAWAY: return !of_stream && len >= 8;
	case ZN_H2_WINDOW: return len == 4;
	}
	return d->head[3] <= 32 && len <= 16384;
}

ZN_HTTP1_STEP int zn_h2_is_block(const struct zn_h2_side *d)
{
	return (d->head[3] == ZN_H2_HEADERS && !(d->head[4] & (ZN_H2_PADDED | ZN_H2_PRIORITIZED))) ||
		d->head[3] == ZN_H2_CONTINUATION;
}

/* So many bytes are looked at next, at most; 0: what is left of the frame is not. */
ZN_HTTP1_STEP __u32 zn_h2_look(const struct zn_h2_side *d, int sends)
{
	__u32 want = d->want ? d->want : ZN_H2_FRAME;

	if (d->have < want)
		return want - d->have;
	if (!sends || !zn_h2_is_block(d))
		return 0;
	return d->left < ZN_H2_PART ? d->left : ZN_H2_PART;
}

/* ---- what the server sends as headers ---- */

ZN_HTTP1_STEP void zn_hpack_apply(volatile struct zn_h2_block *k, __u32 what)
{
	if (what >= ZN_H2_IS_GRPC_NAME)
		k->unsure = 1;
	else if (what >= ZN_H2_IS_GRPC)
		k->grpc = what - ZN_H2_IS_GRPC + 1;
	else if (what > ZN_H2_IS_STATUS + 1) /* not that of "100 Continue" and the like */
		k->http = what - ZN_H2_IS_STATUS;
}

/* All that is in the table is of before. */
ZN_HTTP1_STEP void zn_hpack_forget(struct zn_h2_block *k)
{
	__builtin_memset(k->known, 0, sizeof(k->known));
	k->inserted = k->next = 0;
}

/* What is known of an entry of the table. */
ZN_HTTP1_STEP __u32 zn_hpack_find(volatile struct zn_h2_block *k, __u32 index)
{
	__u32 number, what = 0, next = k->next, oldest = next < ZN_H2_KNOWN ? k->known[next] >> 8 : 0;

	if (index >= 8 && index <= 14)
		return ZN_H2_IS_STATUS + (index < 11 ? 2 : index == 11 ? 3 : index < 14 ? 4 : 5);
	if (index < ZN_H2_STATIC)
		return 0;
	if (index - ZN_H2_STATIC >= k->inserted)
		return ZN_H2_IS_GRPC_NAME; /* it is of before: of any name */
	number = (k->inserted - (index - ZN_H2_STATIC)) & 0xffffff;
	if (number < oldest)
		return ZN_H2_IS_GRPC_NAME; /* it may have lost its place */
#pragma GCC unroll 6
	for (__u32 i = 0; i < ZN_H2_KNOWN; i++) {
		__u32 known = k->known[i];

		if (known >> 8 == number && known)
			what = known & 0xff;
	}
	return what;
}

/* Digits as they are, or by the code of Huffman for them: 5 bits for 0 to 2, 6 for the others. -1: it is not known. */
ZN_HTTP1_STEP int zn_hpack_digit(__u32 bits)
{
	if (bits >> 11 <= 2)
		return bits >> 11;
	return bits >> 10 >= 25 && bits >> 10 <= 31 ? (int)(bits >> 10) - 22 : -1;
}

ZN_HTTP1_STEP __u32 zn_hpack_value(volatile struct zn_h2_block *k)
{
	__u64 last = k->last;
	__u32 len = k->shift, bits;
	int first, second;

	if (k->name == ZN_HPACK_OTHER)
		return 0;
	if (k->name == ZN_HPACK_ANY || len == 0 || len > 3)
		return ZN_H2_IS_GRPC_NAME;
	bits = len == 1 ? (__u32)(last & 0xff) << 8 | 0xff : (__u32)(last >> (len - 2) * 8) & 0xffff;
	if (!k->huffman) {
		first = (int)(bits >> 8) - '0';
		second = len == 1 ? -1 : (int)(bits & 0xff) - '0';
	} else {
		first = zn_hpack_digit(bits);
		second = first < 0 || len == 1 ? -1 : zn_hpack_digit((bits << (first <= 2 ? 5 : 6)) & 0xffff);
	}
	if (first < 0 || first > 9 || second > 9)
		return ZN_H2_IS_GRPC_NAME;
	if (k->name == ZN_HPACK_STATUS)
		return ZN_H2_IS_STATUS + (first <= 5 ? first : 0);
	if (second >= 0)
		first = first * 10 + second;
	return first <= 16 ? ZN_H2_IS_GRPC + first : ZN_H2_IS_GRPC_NAME;
}

ZN_HTTP1_STEP void zn_hpack_insert(volatile struct zn_h2_block *k, __u32 what)
{
	__u32 at = k->next;

	k->inserted = k->inserted + 1;
	if (!what || at >= ZN_H2_KNOWN)
		return;
	k->known[at] = k->inserted << 8 | what;
	k->next = at + 1 < ZN_H2_KNOWN ? at + 1 : 0;
}

ZN_HTTP1_STEP void zn_hpack_field_end(volatile struct zn_h2_block *k)
{
	__u32 what = zn_hpack_value(k);

	zn_hpack_apply(k, what);
	if (k->kind == ZN_HPACK_INSERTED)
		zn_hpack_insert(k, what);
	k->state = ZN_HPACK_FIELD;
}

ZN_HTTP1_STEP void zn_hpack_index_end(volatile struct zn_h2_block *k)
{
	__u32 what, kind = k->kind;

	k->state = ZN_HPACK_FIELD;
	if (kind == ZN_HPACK_SIZE)
		return;
	what = zn_hpack_find(k, k->number);
	if (kind == ZN_HPACK_INDEXED) {
		zn_hpack_apply(k, what);
		return;
	}
	k->state = k->number ? ZN_HPACK_VALUE_LEN : ZN_HPACK_NAME_LEN;
	if (what >= ZN_H2_IS_GRPC_NAME)
		k->name = ZN_HPACK_ANY;
	else if (what >= ZN_H2_IS_GRPC)
		k->name = ZN_HPACK_GRPC;
	else
		k->name = what ? ZN_HPACK_STATUS : ZN_HPACK_OTHER;
}

ZN_HTTP1_STEP void zn_hpack_field_byte(volatile struct zn_h2_block *k, __u8 b)
{
	__u32 most = b & 0x80 ? 0x7f : b & 0x40 ? 0x3f : b & 0x20 ? 0x1f : 0x0f;

	k->kind = b & 0x80 ? ZN_HPACK_INDEXED
		: b & 0x40 ? ZN_HPACK_INSERTED
		: b & 0x20 ? ZN_HPACK_SIZE
			   : ZN_HPACK_LITERAL;
	k->name = ZN_HPACK_OTHER;
	k->shift = 0;
	k->number = b & most;
	if ((b & most) == most)
		k->state = ZN_HPACK_INDEX;
	else
		zn_hpack_index_end(k);
}

/* A byte more of a number. Whether it is the last one. */
ZN_HTTP1_STEP int zn_hpack_number(volatile struct zn_h2_block *k, __u8 b)
{
	__u32 shift = k->shift;

	if (shift < 28)
		k->number = k->number + ((__u32)(b & 0x7f) << (shift & 31));
	k->shift = shift < 28 ? shift + 7 : shift;
	return !(b & 0x80);
}

ZN_HTTP1_STEP void zn_hpack_string_end(volatile struct zn_h2_block *k)
{
	if (k->state == ZN_HPACK_VALUE) {
		zn_hpack_field_end(k);
		return;
	}
	if (k->huffman ? k->shift == 8 && k->last == 0x9acac8b21234da8fULL /* "grpc-status" */
		       : k->shift == 11 && k->last == ZN_8('c', '-', 's', 't', 'a', 't', 'u', 's'))
		k->name = ZN_HPACK_GRPC;
	k->state = ZN_HPACK_VALUE_LEN;
}

/* The length of a string is known. */
ZN_HTTP1_STEP void zn_hpack_string_begin(volatile struct zn_h2_block *k)
{
	__u32 number = k->number, state = k->state;

	k->state = state == ZN_HPACK_NAME_LEN || state == ZN_HPACK_NAME_MORE ? ZN_HPACK_NAME : ZN_HPACK_VALUE;
	k->shift = number < 255 ? number : 255;
	k->last = 0;
	if (!number)
		zn_hpack_string_end(k);
}

/* A function of its own: in the loop the verifier would follow each way through it 64 times. */
ZN_HTTP1_LOOP int zn_hpack_byte(struct zn_request *c, __u32 byte)
{
	volatile struct zn_h2_block *k;
	__u32 state;
	__u8 b = byte;

	if (!c)
		return 0;
	k = &c->h2.block;
	state = k->state;

	if (state == ZN_HPACK_FIELD) {
		zn_hpack_field_byte(k, b);
	} else if (state == ZN_HPACK_INDEX) {
		if (zn_hpack_number(k, b))
			zn_hpack_index_end(k);
	} else if (state == ZN_HPACK_NAME_LEN || state == ZN_HPACK_VALUE_LEN) {
		k->huffman = b >> 7;
		k->number = b & 0x7f;
		k->shift = 0;
		k->state = state + 1;
		if ((b & 0x7f) != 0x7f)
			zn_hpack_string_begin(k);
	} else if (state == ZN_HPACK_NAME_MORE || state == ZN_HPACK_VALUE_MORE) {
		if (zn_hpack_number(k, b))
			zn_hpack_string_begin(k);
	} else {
		k->last = k->last << 8 | b;
		k->number = k->number - 1;
		if (!k->number)
			zn_hpack_string_end(k);
	}
	return 0;
}

ZN_HTTP1_LOOP int zn_hpack_bytes(struct zn_request *c, const struct zn_request_scratch *s)
{
	if (!c || !s)
		return 0;
	for (__u32 i = 0; i < ZN_H2_PART; i++) {
		if (i >= *(volatile const __u32 *)&s->have)
			break;
		zn_hpack_byte(c, s->bytes[i]);
	}
	return 0;
}

/* ---- frames ---- */

ZN_HTTP1_LOOP int zn_h2_head(struct zn_request *c, const struct zn_request_scratch *s, __u32 sends)
{
	volatile struct zn_h2_side *d;

	if (!c || !s)
		return 0;
	d = &c->h2.side[sends & 1];
#pragma GCC unroll 16
	for (__u32 i = 0; i < ZN_H2_HEAD; i++) {
		__u32 at = d->have;

		if (i >= *(volatile const __u32 *)&s->have)
			break;
		d->head[at & (ZN_H2_HEAD - 1)] = s->bytes[i];
		d->have = at + 1;
	}
	return 0;
}

/* The header of a frame is there. */
ZN_HTTP1_STEP __u32 zn_h2_head_end(struct zn_request *c, struct zn_h2_side *d, int sends)
{
	__u32 more = zn_h2_length(d);

	if (!zn_h2_is_frame(d))
		return ZN_H2_BROKEN;
	d->left = more;
	if (more > ZN_H2_HEAD - ZN_H2_FRAME)
		more = ZN_H2_HEAD - ZN_H2_FRAME;
	d->want = ZN_H2_FRAME + (sends && d->head[3] == ZN_H2_DATA ? more : 0);
	if (sends && d->head[3] == ZN_H2_HEADERS) {
		c->h2.block.state = ZN_HPACK_FIELD;
		c->h2.block.http = c->h2.block.grpc = c->h2.block.unsure = 0;
	}
	if (sends && (d->head[3] == ZN_H2_PUSH || (d->head[3] == ZN_H2_HEADERS && !zn_h2_is_block(d))))
		zn_hpack_forget(&c->h2.block); /* it is not read */
	return d->want > ZN_H2_FRAME ? 0 : ZN_H2_BEGINS | (d->left ? 0 : ZN_H2_ENDS);
}

/* So many bytes of what zn_h2_look() said are at hand, or were skipped. After ZN_H2_ENDS: zn_h2_next(). */
ZN_HTTP1_STEP __u32 zn_h2_feed(struct zn_request *c, const struct zn_request_scratch *s, __u32 n, int sends)
{
	struct zn_h2_side *d = &c->h2.side[sends & 1];
	__u32 had = d->have;

	if (!d->want)
		d->want = ZN_H2_FRAME;
	if (had < d->want) {
		zn_h2_head(c, s, sends);
		if (d->have < d->want)
			return 0;
		if (had < ZN_H2_FRAME)
			return zn_h2_head_end(c, d, sends);
		d->left -= d->want - ZN_H2_FRAME;
		return ZN_H2_BEGINS | (d->left ? 0 : ZN_H2_ENDS);
	}
	if (sends && zn_h2_is_block(d))
		zn_hpack_bytes(c, s);
	d->left = d->left > n ? d->left - n : 0;
	return d->left ? 0 : ZN_H2_ENDS;
}

ZN_HTTP1_STEP void zn_h2_next(struct zn_h2_side *d)
{
	d->have = 0;
	d->want = ZN_H2_FRAME;
}

/* ---- streams ---- */

/* Bytes of data in a frame, without its padding. */
ZN_HTTP1_STEP __u32 zn_h2_data(const struct zn_h2_side *d)
{
	__u32 len = zn_h2_length(d), pad = d->head[4] & ZN_H2_PADDED ? 1 + (__u32)d->head[ZN_H2_FRAME] : 0;

	return len > pad ? len - pad : 0;
}

/* So many bytes of data are sent, where so many of a message were to come. Of one that begins amid them the length is
 * not read. */
ZN_HTTP1_STEP __u64 zn_h2_rest(__u64 message, __u32 data)
{
	return message >= data ? message - data : ZN_H2_UNPLACED;
}

/* Whether a frame of data begins with a message of gRPC. Where that is not known it is taken for an event, until a
 * frame is just as long as the message that it would begin with. */
ZN_HTTP1_STEP int zn_h2_is_message(struct zn_request *r, const __u8 *b, __u32 data)
{
	__u64 whole = ((__u64)b[1] << 24 | (__u64)b[2] << 16 | (__u64)b[3] << 8 | b[4]) + 5;
	int begins = data >= 5 && b[0] <= 1;

	if (r->length == ZN_H2_UNPLACED) {
		r->length = begins && whole == data ? 0 : ZN_H2_UNPLACED;
		return 1;
	}
	if (b[0] > 1)
		return 0;
	r->length = begins ? zn_h2_rest(whole, data) : ZN_H2_UNPLACED;
	r->flags |= begins ? ZN_H2_OF_GRPC : 0;
	return begins;
}

/* Whether data that are sent begin with an event: a message of gRPC, or one of text/event-stream. */
ZN_HTTP1_STEP int zn_h2_is_event(struct zn_request *r, const struct zn_h2_side *d)
{
	__u32 pad = d->head[4] & ZN_H2_PADDED ? 1 : 0, data = zn_h2_data(d);
	const __u8 *b = &d->head[ZN_H2_FRAME + pad];

	if (!data)
		return 0;
	if (r->length && r->length != ZN_H2_UNPLACED) { /* of a message that had no room in one frame */
		r->length = zn_h2_rest(r->length, data);
		return 0;
	}
	if (zn_h2_is_message(r, b, data))
		return 1;
	if (data < 5)
		return 0;
	if (b[0] == 'e')
		return b[1] == 'v' && b[2] == 'e' && b[3] == 'n' && b[4] == 't';
	return d->have == ZN_H2_HEAD && !pad && b[0] == 'd' && b[1] == 'a' && b[2] == 't' && b[3] == 'a' &&
		b[4] == ':' && b[5] != '[' && b[6] != '[';
}

/* Whether a frame that was sent ends its stream. END_STREAM of a header block is in its first frame, and the block may
 * go on in others: RFC 9113, section 6.10. */
ZN_HTTP1_STEP int zn_h2_is_last(struct zn_request *r, const struct zn_h2_side *d)
{
	__u32 type = d->head[3], flags = d->head[4];

	if (type == ZN_H2_DATA)
		return flags & ZN_H2_END_STREAM;
	if (type == ZN_H2_HEADERS && flags & ZN_H2_END_STREAM)
		r->flags |= ZN_H2_LAST_BLOCK;
	return (type == ZN_H2_HEADERS || type == ZN_H2_CONTINUATION) && flags & ZN_H2_END_HEADERS &&
		r->flags & ZN_H2_LAST_BLOCK;
}

/* A header block of a stream was sent to its end. */
ZN_HTTP1_STEP void zn_h2_answered(struct zn_request *r, const struct zn_h2_block *k, int last)
{
	r->state = ZN_REQUEST_BODY;
	if (k->http)
		r->status = k->http * 100;
	if (k->grpc)
		r->field = k->grpc;
	r->broken = last && k->unsure;
}

/* As gRPC itself writes its codes for HTTP: unknown, deadline, unimplemented, internal, unavailable, data loss. */
#define ZN_GRPC_5XX (1u << 2 | 1u << 4 | 1u << 12 | 1u << 13 | 1u << 14 | 1u << 15)
ZN_HTTP1_STEP enum zn_request_code zn_h2_code(const struct zn_request *r)
{
	__u32 hundreds = r->status / 100, grpc = r->field;

	if (grpc > 1)
		return ZN_GRPC_5XX >> ((grpc - 1) & 31) & 1 ? ZN_OUTCOME_5XX : ZN_OUTCOME_4XX;
	if (hundreds < 2 || hundreds > 5)
		return ZN_OUTCOME_UNKNOWN;
	if (hundreds == 2 && !grpc && (r->broken || r->flags & ZN_H2_OF_GRPC))
		return ZN_OUTCOME_UNKNOWN;
	return (enum zn_request_code)(ZN_OUTCOME_2XX + hundreds - 2);
}
#endif

/* Ring buffer: rare events. State is in the tables, so an event only hurries the daemon or feeds the log. */
enum zn_event_type {
	ZN_EV_EXIT,
	ZN_EV_COMM_ABORT,
	ZN_EV_STACK,  /* stacks of Python functions that are new: their names are to be read while they can be */
	ZN_EV_JOB,    /* row: its slot */
	ZN_EV_PROC,   /* a row was claimed */
	ZN_EV_LISTEN, /* a process listens on a port of TCP; detail: which */
	ZN_EV_DEVICE, /* I/O on a device that the daemon may have no mount for; detail: as zn_io_key.dev; row: whose it is */
	ZN_EV_OOM /* a struct zn_oom */
};
struct zn_event {
	__u32 type;
	__u32 tgid;
	__u32 row;
	__u32 detail;
	__u64 bytes; /* DEVICE: its parent, and in the upper half the first process of its container */
};
_Static_assert(sizeof(struct zn_event) == 24, "padding");

/* What the kernel killed for want of memory, at that moment. */
#define ZN_NOT_KNOWN (~0UL) /* in both places 64 bits */
enum zn_oom_scope {         /* whose limit was reached */
	ZN_OOM_UNKNOWN,     /* the kernel has no such function, or lets nobody watch it */
	ZN_OOM_NODE,        /* none: the node had no memory left */
	ZN_OOM_JOB,
	ZN_OOM_STEP,
	ZN_OOM_BELOW, /* that of a group below its step */
	ZN_OOM_OTHER, /* that of a group that is no job's */
	ZN_OOM_SCOPES
};
enum zn_oom_memory { ZN_OOM_FILE, ZN_OOM_ANON, ZN_OOM_SHMEM, ZN_OOM_MEMORIES }; /* as it had mapped it */
struct zn_oom {
	struct zn_event
		event; /* tgid: who was killed; detail: enum zn_oom_scope; row: index of its step, or ZN_STEPS_MAX */
	struct zn_job_ref job; /* serial 0: of none */
	__u64 ns;
	__u64 bytes[ZN_OOM_MEMORIES]; /* ZN_NOT_KNOWN */
	__u64 used, limit;            /* of the group whose limit was reached; ZN_NOT_KNOWN */
	char comm[16];                /* empty: not known */
	char group[32];               /* its name, as much of it as fits */
};
_Static_assert(sizeof(struct zn_oom) == 128, "padding");

/* Who maps a file (bpf/mappers.bpf.c, mappers.c): what is asked, and an answer for each memory area that it is true
 * of. */
struct zn_mapping_query {
	__u64 ino;   /* of the file itself, below any overlay; 0: none */
	__u64 inode; /* as in struct zn_mapping; 0: not known */
	__u64 start;
	__u32 dev;  /* as the kernel has it: major << 20 | minor */
	__u32 tgid; /* which file is mapped at start by this process? 0: it is not asked */
};
#define ZN_MAPPING_ASKED   1 /* it maps the file that is asked for */
#define ZN_MAPPING_AT      2 /* it is the area that is asked for */
#define ZN_MAPPING_FUSE    4 /* the file is of a FUSE file system */
#define ZN_MAPPING_USER_NS 8 /* and that was mounted inside a user namespace */
struct zn_mapping {
	__u64 ino;
	__u64 inode; /* where the kernel has it: subvolumes of btrfs have one device, and numbers of their own each */
	__u64 start;
	__u32 dev;
	__u32 tgid;
	__u32 flags;
	__u32 pad;
};
_Static_assert(sizeof(struct zn_mapping_query) == 32 && sizeof(struct zn_mapping) == 40, "padding");

/* A process has a Unix socket whose other end that one made; peer 0: one that listens. */
struct zn_service_edge {
	__u32 pid, peer;
};

/* Attach cookies: what a handler needs to know about the function it stands on. */
#define ZN_COOKIE(shape, detail, first, family)                                                                        \
	((__u64)(shape) | (__u64)(detail) << 8 | (__u64)(first) << 16 | (__u64)(family) << 24)
#define ZN_COOKIE_OF_CALL(call) ((__u64)(call) << 32)
#define ZN_COOKIE_SHAPE(c)      ((c)&0xff)
#define ZN_COOKIE_DETAIL(c)     ((c) >> 8 & 0xff)
#define ZN_COOKIE_FIRST(c)      ((c) >> 16 & (ZN_INSN_SLOTS - 1))
#define ZN_COOKIE_FAMILY(c)     ((c) >> 24 & 0xff)
#define ZN_COOKIE_HIP           (1u << 23)  /* a function of HIP: it means the device of its thread */
#define ZN_COOKIE_CALL(c)       ((c) >> 32) /* zn_probe.hook_call */

/* What a program on functions of a library is loaded for. A session is entry and return as one link, whose run at the
 * entry says whether there is one at the return. */
enum zn_way { ZN_WAY_ENTRY, ZN_WAY_RETURN, ZN_WAY_SESSION };
#define ZN_CALL_OF_CAST 0x7a6e /* a number that no helper has; see bpf/cast.bpf.h */

/* Shapes: where a function has its arguments and what they mean. One handler each, in bpf/<family>.bpf.c. */
enum zn_shape {
	ZN_S_CALIBRATE = 1,
	/* gpu_mem: (result *, size), detail = kind */
	ZN_S_ALLOC,
	ZN_S_ALLOC_PITCH,
	ZN_S_VMM_CREATE,
	ZN_S_VMM_RELEASE,
	ZN_S_VMM_RETAIN,
	ZN_S_VMM_IMPORT,
	ZN_S_VMM_MAP,
	ZN_S_VMM_UNMAP,
	ZN_S_HOST_REGISTER, /* (address, size) */
	ZN_S_FREE,          /* (address), detail = kind of the address space */
	ZN_S_CTX_DESTROY,
	ZN_S_PRIMARY_RESET,
	ZN_S_PRIMARY_RETAIN,
	ZN_S_CTX_CREATE, /* detail = position of the device argument, 1-based */
	ZN_S_GREEN_CREATE,
	ZN_S_GREEN_CTX,
	ZN_S_CTX_SET, /* entry only */
	ZN_S_CTX_PUSH,
	ZN_S_CTX_POP,
	ZN_S_DEVICE_UUID,
	ZN_S_DEVICE_PCI,
	ZN_S_DEVICE_TOTAL,
	ZN_S_MEM_INFO,
	ZN_S_HIP_SET_DEVICE, /* (device): of the calling thread, from now on */
	ZN_S_HIP_RESET,      /* (): all memory of the thread's device goes */
	ZN_S_HIP_PROPERTIES, /* (hipDeviceProp_t *, device), as from ROCm 6 on */
	/* cuda_trace */
	ZN_S_LAUNCH,     /* detail = launch kind (enum zn_counter) */
	ZN_S_HIP_LAUNCH, /* (function, dim3, dim3, args, bytes of shared memory, stream) */
	ZN_S_LAUNCH_EX,
	ZN_S_GRAPH_LAUNCH,
	ZN_S_CAPTURE_BEGIN,
	ZN_S_CAPTURE_END,
	ZN_S_SYNC,       /* detail = enum zn_operation */
	ZN_S_COPY,       /* blocking copy, size is argument 3, detail = direction */
	ZN_S_COPY_KIND,  /* the same, with hipMemcpyKind as argument 4 */
	ZN_S_COPY_PITCH, /* blocking copy; width, height and hipMemcpyKind are arguments 5 to 7 */
	ZN_S_COPY_ASYNC, /* as ZN_S_COPY, entry only */
	ZN_S_COPY_PEER,  /* entry only, size is argument 5 */
	ZN_S_COPY_KIND_ASYNC,
	ZN_S_COPY_PITCH_ASYNC,
	ZN_S_PEER_WAIT, /* the same, blocking */
	ZN_S_BOX, /* blocking copy that a struct describes, see struct box in cuda_trace.bpf.c; detail = enum zn_box */
	ZN_S_BOX_ASYNC, /* the same, entry only */
	ZN_S_BATCH,     /* entry only: sizes are argument 3, how many argument 4 */
	ZN_S_BATCH_3D,  /* entry only: how many is argument 1, a struct for each argument 2 */
	ZN_S_MEMSET,    /* entry only: count is argument 3, detail = bytes of an element */
	ZN_S_MEMSET_2D, /* entry only: width and height are arguments 4 and 5 */
	ZN_S_LOAD,      /* detail = enum zn_operation */
	/* nccl: detail = enum zn_operation */
	ZN_S_COLL,     /* count3 dtype4; comm5 for all_to_all, whose bytes depend on the communicator's size */
	ZN_S_BCAST,    /* count2 dtype3 comm5 */
	ZN_S_P2P,      /* count2 dtype3 */
	ZN_S_NO_BYTES, /* an operation that moves none */
	ZN_S_GROUP_START,
	ZN_S_GROUP_END,
	ZN_S_GROUP_SIMULATE,
	ZN_S_COMM_RANK,
	ZN_S_COMM_COUNT,
	ZN_S_COMM_INIT, /* this one and those below may wait for other ranks */
	ZN_S_COMM_INIT_SCALABLE,
	ZN_S_COMM_INIT_ALL,
	ZN_S_COMM_SPLIT,
	ZN_S_COMM_SHRINK,
	ZN_S_COMM_GROW,
	ZN_S_COMM_WAIT, /* makes none */
	ZN_S_COMM_DESTROY,
	ZN_S_COMM_ABORT,
	ZN_SHAPE_COUNT
};
enum zn_box { ZN_BOX_2D = 2, ZN_BOX_3D, ZN_BOX_HIP_2D, ZN_BOX_HIP_3D };

/* ---- 3a. The BPF maps. ---- */

/* The name of a job as a key. */
struct zn_job_name {
	char text[ZN_JOB_NAME];
};
/* A request of io_uring, found by its address; the next one of the same place takes it, which costs a duration. */
struct zn_io_request {
	__u64 at;
	__u64 start_ns;
};
/* A request of libaio, by the address of its kiocb: what completes it knows nothing of who made it. */
struct zn_aio {
	__u64 start_ns;
	__u32 owner; /* who holds it of the quota */
	__u32 tgid : 24;
	__u32 op : 8;
};
_Static_assert(sizeof(struct zn_aio) == 16, "padding");
/* The maps that all BPF objects share by descriptor, but for the variables (struct zn_shared) and the ring of events:
 *   X(NAME, name, kind, entries, key, value, group, needs, swept)
 * name: what BPF programs call it. kind: ARRAY; MAPPED, an array that the daemon has as memory; HASH; SPARSE, a hash
 * that takes its memory as it is used, where the kernel can do that; STACK, of free indices, so that the lowest ones
 * stay in use and few pages are ever touched; PENDING, as MAPPED, but in objects for kernels before 5.12 a HASH. None
 * is there for each CPU. entries: where it says 1, it is the machine that decides (zn_bpf_map_sizes()). group: its line
 * in the account of memory, enum zn_map_group. needs: without one of these families (ZN_NEEDS_*) it has one entry.
 * swept: whose entries are taken out once he has gone: PROCESS, by the id of a process at byte 8 of the key; JOB, by
 * the slot of a job that the value begins with; NOT. */
#define ZN_MAPS(X)                                                                                                     \
	X(PROCS, procs, MAPPED, ZN_PROCS_MAX, __u32, struct zn_proc, PROCESSES, LIBRARIES, NOT)                        \
	X(HISTS, hists, MAPPED, ZN_HISTS_MAX, __u32, struct zn_hist, HISTOGRAMS, ALL, NOT)                             \
	X(FREE_ROWS, free_rows, STACK, ZN_PROCS_MAX, __u32, __u32, PROCESSES, ALL, NOT)                                \
	X(FREE_HISTS, free_hists, STACK, ZN_HISTS_MAX, __u32, __u32, HISTOGRAMS, ALL, NOT)                             \
	X(ROWS, rows, HASH, ZN_PROCS_MAX, __u32, __u32, PROCESSES, LIBRARIES, NOT)                                     \
	X(THREAD_CACHE, thread_cache, MAPPED, ZN_THREAD_CACHE, __u32, struct zn_thread, THREADS, LIBRARIES, NOT)       \
	X(THREADS, threads, SPARSE, 1, __u32, struct zn_thread, THREADS, ALL, NOT)                                     \
	X(SENDS, sends, ARRAY, ZN_THREAD_CACHE, __u32, struct zn_send, THREADS, LIBRARIES, NOT)                        \
	X(CALLS, calls, HASH, ZN_CALLS_MAX, __u64, struct zn_timed_call, THREADS, LIBRARIES, NOT)                      \
	X(SOCKS, socks, HASH, ZN_SOCKS_MAX, __u64, struct zn_sock, OTHER, LIBRARIES, NOT)                              \
	X(SCHED_SETS, sched_sets, MAPPED, 1, __u32, struct zn_sched_set, THREADS, ALL, NOT)                            \
	X(SPILLED, spilled, SPARSE, 1, __u32, struct zn_sched_entry, THREADS, ALL, NOT)                                \
	X(THREAD_STATES, thread_states, MAPPED, ZN_PROCS_MAX, __u32, struct zn_thread_states, THREADS, LIBRARIES, NOT) \
	X(WORKERS, workers, SPARSE, 1, __u32, struct zn_loader_worker, THREADS, ALL, NOT)                              \
	X(FAILED, failed, MAPPED, ZN_PROCS_MAX, __u32, struct zn_failed, PROCESSES, LIBRARIES, NOT)                    \
	X(ALLOCS, allocs, SPARSE, ZN_ALLOCS_MAX, struct zn_alloc_key, struct zn_alloc, LEDGER, GPU_MEM, PROCESS)       \
	X(CTXS, ctxs, SPARSE, ZN_CTXS_MAX, struct zn_ctx_key, struct zn_ctx, LEDGER, GPU_MEM, PROCESS)                 \
	X(COMMS, comms, SPARSE, ZN_COMMS_MAX, struct zn_ctx_key, struct zn_comm, LEDGER, NCCL, PROCESS)                \
	X(STREAMS, streams, SPARSE, ZN_STREAMS_MAX, struct zn_ctx_key, __u32, LEDGER, CUDA_TRACE, PROCESS)             \
	X(SKEWS, skews, MAPPED, ZN_SKEWS_MAX, __u32, struct zn_skew, LEDGER, NCCL, NOT)                                \
	X(JOBS, jobs, MAPPED, ZN_JOBS_MAX, __u32, struct zn_job_shared, JOBS, ALL, NOT)                                \
	X(FREE_JOBS, free_jobs, STACK, ZN_JOBS_MAX, __u32, __u32, JOBS, ALL, NOT)                                      \
	X(JOB_NAMES, job_names, HASH, 2 * ZN_JOBS_MAX, struct zn_job_name, __u32, JOBS, ALL, JOB)                      \
	X(CGROUPS, cgroups, SPARSE, ZN_CGROUPS_MAX, struct zn_cgroup_key, struct zn_cgroup, JOBS, ALL, JOB)            \
	X(TASKS, tasks, SPARSE, ZN_TASKS_MAX, __u32, struct zn_job_ref, JOBS, ALL, JOB)                                \
	X(IO_ROWS, io_rows, HASH, ZN_IO_MAX, struct zn_io_key, struct zn_io_row, FILES, FILES, NOT)                    \
	X(COARSE, coarse_hists, MAPPED, ZN_IO_MAX, __u32, struct zn_coarse_hist, FILES, FILES, NOT)                    \
	X(FREE_COARSE, free_coarse, STACK, ZN_IO_MAX, __u32, __u32, FILES, ALL, NOT)                                   \
	X(IO_PENDING, io_pending, PENDING, ZN_IO_PENDING_MAX, __u32, struct zn_io_pending, FILES, FILES, NOT)          \
	X(IO_REQUESTS, io_requests, ARRAY, ZN_IO_REQUESTS, __u32, struct zn_io_request, FILES, FILES, NOT)             \
	X(AIOS, aios, HASH, ZN_AIOS_MAX, __u64, struct zn_aio, FILES, FILES, NOT)                                      \
	X(STACKS, stacks, MAPPED, ZN_STACKS_MAX, __u32, struct zn_stack, STACKS, STACKS, NOT)                          \
	X(PYTHONS, pythons, MAPPED, ZN_PROCS_MAX, __u32, struct zn_python, STACKS, STACKS, NOT)                        \
	X(WALKS, walks, ARRAY, ZN_WALKS, __u32, struct zn_stack_walk, STACKS, STACKS, NOT)                             \
	X(WALKERS, walkers, PROGS, 1, __u32, __u32, STACKS, ALL, NOT)                                                  \
	X(SLEEP_WALKERS, sleep_walkers, PROGS, 1, __u32, __u32, STACKS, ALL, NOT)                                      \
	X(SERVERS, servers, MAPPED, ZN_SERVERS_MAX, __u32, struct zn_server, OTHER, REQUESTS, NOT)                     \
	X(SERVED, served, HASH, ZN_SERVERS_MAX, __u32, __u32, OTHER, REQUESTS, NOT)                                    \
	X(REQUEST_SERIES, request_series, MAPPED, ZN_REQUEST_SERIES, __u32, struct zn_request_series, OTHER, REQUESTS, \
		NOT)                                                                                                   \
	X(REQUESTS, requests, SPARSE, ZN_REQUEST_MAX, __u64, struct zn_request, OTHER, REQUESTS, NOT)                  \
	X(SERVICES, services, MAPPED, ZN_SERVICES_MAX, __u32, struct zn_serving, OTHER, REQUESTS, NOT)                 \
	X(ENGINES, engines, ARRAY, ZN_PROCS_MAX, __u32, struct zn_engine, OTHER, REQUESTS, NOT)                        \
	X(ROUTES, routes, HASH, 2 * ZN_ROUTE_SLOTS, __u64, __u32, OTHER, ALL, NOT)                                     \
	X(SCRATCH, scratch, ARRAY, ZN_SCRATCHES, __u32, struct zn_request_scratch, OTHER, REQUESTS, NOT)

#ifndef __bpf__
/* ---- The daemon's side. ---- */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdarg.h>
#include <string.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>

#define ZN_LEN(a)    (sizeof(a) / sizeof((a)[0]))
#define ZN_NS_PER_S  1000000000ULL
#define ZN_NS_PER_MS 1000000ULL

/* A piece of somebody else's bytes; not NUL-terminated. */
struct zn_str {
	const char *at;
	size_t len;
};

/* What several folders name. A label of a series, and one series of a metric as a value. */
struct zn_label {
	struct zn_str name, value; /* value: raw bytes, of whatever a user chose; who writes it makes it valid */
};
#define ZN_LABELS_MAX 12
enum zn_metric_type { ZN_METRIC_COUNTER, ZN_METRIC_GAUGE, ZN_METRIC_INFO, ZN_METRIC_SUMMARY };
/* One series of a metric, as a value. All that it points to lives until visit() returns. */
#define ZN_EXEMPLAR_WAITED 80
struct zn_exemplar {
	uint64_t ns, at_ms; /* at_ms: since 1970 */
	uint32_t events;
	bool alone;
	char waited[ZN_EXEMPLAR_WAITED]; /* what it waited for, in visible ASCII */
};
struct zn_sample {
	const char *metric, *help;
	enum zn_metric_type type;
	struct zn_label label[ZN_LABELS_MAX]; /* as in the text, without quantile */
	uint32_t label_count;
	double value;    /* in base units; exact up to 2^53. Summaries: NaN, and hist or bias is there */
	uint64_t number; /* what value is made from: number / 10^decimals, which are 0 to 12 */
	int decimals;
	bool negative;
	const struct zn_hist *hist; /* durations; BPF may be adding to it: take what belongs together in one pass */
	bool fine;                  /* its buckets in text are at powers of 2 */
	/* Durations that are in it, each of one request. OpenMetrics shows the first one that is in a bucket. */
	const struct zn_exemplar *exemplar;
	uint32_t exemplars;
	const struct zn_bias *bias; /* the calibration, of which only quantiles are kept */
	uint64_t since_ms;          /* since 1970: when it began to count; 0: not known */
	bool hides_0;               /* a counter that has no series while it is 0 */
};
struct zn_state;
struct zn_json;
struct zn_probe;
struct zn_filter;

/* ---- base/log.c (zn_log): one line on stderr. ---- */

/* One line on stderr, "zerneld: <message>". Level from ZERNEL_LOG (error, warn, info, debug). Bytes outside
 * printable ASCII are shown as \xNN, so that a file name cannot forge a line. */
enum zn_level { ZN_ERROR, ZN_WARN, ZN_INFO, ZN_DEBUG };
extern enum zn_level zn_log_level;
/* 0: no limit; else so many lines of one kind pass at a time, and one a second after that. Lines of one format are one
 * kind. */
extern unsigned zn_log_burst;
#define ZN_LOG_SUBJECT 256 /* lines about one subject that pass at a time */
void zn_log(enum zn_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, but lines about one subject (not 0) are one kind, of whatever format. */
void zn_log_about(enum zn_level level, uint64_t subject, const char *format, ...) __attribute__((format(printf, 3, 4)));
void zn_log_tick(uint64_t now_ns);  /* says how many lines were held back of kinds that have gone quiet */
uint64_t zn_log_lost(void);         /* lines of this process that could not be written, as nobody took them */
int zn_log_parse(const char *name); /* the level, or -EINVAL */

/* ---- base/clock.c (zn_now_ zn_wall_ zn_moment_): the clocks. ---- */

static inline uint64_t zn_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * ZN_NS_PER_S + (uint64_t)t.tv_nsec;
}
uint64_t zn_now_ns(void);  /* CLOCK_MONOTONIC: what bpf_ktime_get_ns() reads */
uint64_t zn_wall_ms(void); /* since 1970 */
#define ZN_BOOT_BYTES 37
/* A moment by all clocks that outlive the daemon. */
struct zn_moment {
	uint64_t wall_ms;
	uint64_t uptime_ms;       /* CLOCK_BOOTTIME: nothing sets it, and /proc/PID/stat counts in it */
	char boot[ZN_BOOT_BYTES]; /* another one after each boot; "" where it cannot be read */
};
void zn_moment_now(struct zn_moment *m);

/* ---- base/version.c (zn_version zn_commit): which version and commit this is. ---- */

extern const char zn_version[], zn_commit[];

/* ---- base/pages.c (zn_pages_): keeps out of memory what is not needed. ---- */

/* As memset() to 0, but memory that is zero is not written to, so that it is not taken. */
void zn_pages_clear(void *at, size_t len);
/* Like memcpy(), but writes to no page that is the same already. */
void zn_pages_copy(void *to, const void *from, size_t len);
/* From here on memory is taken in small pages alone, by this process and those that it starts. */
void zn_pages_small(void);
/* Gives back memory of the program's own variables: whole pages in it are zero from then on. */
void zn_pages_drop(void *at, size_t len);
/* Gives back the program's own code and constants; what of them is still used comes back by itself. */
void zn_pages_drop_program(void);
/* Gives back what the calling thread's stack once had, and variables of its own that are zero: the C library writes to
 * all of them when it starts a thread. Not for the first thread. */
void zn_pages_drop_stack(void);
/* Starts a thread that does so first, and waits until it has: that takes memory, as nothing may once the daemon is
 * ready. */
int zn_pages_thread(pthread_t *thread, void *(*run)(void *), void *arg);
bool zn_pages_joined(pthread_t thread, int seconds); /* false: it has not ended by then */

/* ---- base/loop.c (zn_loop_ zn_timer_): the epoll loop. ---- */

/* The first member of everything that waits: a listener, a connection, a timer, a signal, the ring buffer. */
struct zn_io {
	int fd; /* below 0: closed; the loop passes over it */
	void (*ready)(struct zn_io *io, uint32_t events);
};
struct zn_loop {
	int fd;
	bool stop;
	void (*after)(void *owner); /* called after each batch: closed slots may be reused from here on */
	void *owner;
};
int zn_loop_open(struct zn_loop *l);
void zn_loop_close(struct zn_loop *l);
int zn_loop_add(struct zn_loop *l, struct zn_io *io, uint32_t events);
int zn_loop_change(struct zn_loop *l, struct zn_io *io, uint32_t events);
/* Takes io out, closes its descriptor and sets it to -1. Safe on one that is closed. */
void zn_loop_forget(struct zn_loop *l, struct zn_io *io);
/* Runs until stop is set: 0, or -errno of epoll_wait(). */
int zn_loop_run(struct zn_loop *l);
/* At most so many (64) of those that are ready, without waiting: of a loop within another one, where it is one of many. */
void zn_loop_turn(struct zn_loop *l, int most);
/* A periodic timer as an io; the ready function must read its count with zn_timer_count(). Interval 0: it rests. */
int zn_timer_open(struct zn_io *io, uint64_t interval_ms);
int zn_timer_set(struct zn_io *io, uint64_t interval_ms);
uint64_t zn_timer_count(struct zn_io *io);

/* ---- base/options.c (zn_option_ zn_options_help): the table of settings. ---- */

/* What goes wrong in a simulation. MIXED is some of it, always; HEALTHY nothing; each other one is a healthy node with
 * one fault in the second half of each cycle, so that alerts fire and are resolved: docs/ALERTS.md says which. */
#define ZN_SCENARIOS(X)                                                                                                \
	X(MIXED, "mixed")                                                                                              \
	X(HEALTHY, "healthy")                                                                                          \
	X(MEMORY_LEAK, "memory-leak")                                                                                  \
	X(STARVATION, "starvation")                                                                                    \
	X(STRAGGLER, "straggler")                                                                                      \
	X(IDLE_GPU, "idle-gpu")                                                                                        \
	X(NEARLY_IDLE, "nearly-idle")                                                                                  \
	X(SLOW_LAUNCH, "slow-launch")                                                                                  \
	X(CONTENTION, "contention")                                                                                    \
	X(RETRANSMITS, "retransmits")                                                                                  \
	X(OVERHEAD, "overhead")                                                                                        \
	X(LOSSES, "losses")                                                                                            \
	X(OOM, "oom")                                                                                                  \
	X(XID, "xid")                                                                                                  \
	X(AMDGPU, "amdgpu")                                                                                            \
	X(THROTTLED, "throttled")                                                                                      \
	X(LINK, "link")                                                                                                \
	X(LOST, "lost")                                                                                                \
	X(SYSFS_HANG, "sysfs-hang")                                                                                    \
	X(HANG, "hang")                                                                                                \
	X(DRIVER, "driver")                                                                                            \
	X(ALL_WAIT, "all-wait")                                                                                        \
	X(PAUSES, "pauses")                                                                                            \
	X(COMMUNICATION, "communication")                                                                              \
	X(CPU_SHORTAGE, "cpu-shortage")                                                                                \
	X(STORAGE, "storage")                                                                                          \
	X(HOST_CODE, "host-code")                                                                                      \
	X(HOST_COPIES, "host-copies")                                                                                  \
	X(CPU_LIMIT, "cpu-limit")                                                                                      \
	X(FEW_WORKERS, "few-workers")                                                                                  \
	X(SLOW_FILES, "slow-files")                                                                                    \
	X(SLOW_TRANSFER, "slow-transfer")                                                                              \
	X(LAUNCH_BOUND, "launch-bound")                                                                                \
	X(CHECKPOINTS, "checkpoints")                                                                                  \
	X(STARTUP, "startup")                                                                                          \
	X(OWN_LOADER, "own-loader")                                                                                    \
	X(STOPPED, "stopped")                                                                                          \
	X(HOST_MEMORY, "host-memory")                                                                                  \
	X(GHOSTS, "ghosts")                                                                                            \
	X(NODE_SLOW, "node-slow")                                                                                      \
	X(NODE_SLOW_PEER, "node-slow-peer")                                                                            \
	X(NODE_HANG, "node-hang")                                                                                      \
	X(NODE_HANG_PEER, "node-hang-peer")                                                                            \
	X(SERVER, "server")
enum zn_scenario {
#define X(e, name) ZN_SCENARIO_##e,
	ZN_SCENARIOS(X)
#undef X
		ZN_SCENARIO_COUNT
};

#define ZN_LISTEN_MAX    8
#define ZN_CONTROL_PATH  "/run/zernel/control.sock"
#define ZN_TEXT_MAX      256
#define ZN_TOKEN_MAX     128 /* characters */
#define ZN_URLS_MAX      4   /* Alertmanagers */
#define ZN_URLS_TEXT_MAX (ZN_URLS_MAX * ZN_TEXT_MAX)
/* Which libraries besides the system's own are hooked: libraries.c. */
enum zn_user_libraries { ZN_USER_LIBRARIES_SAFE, ZN_USER_LIBRARIES_ALL, ZN_USER_LIBRARIES_NONE };
/* Of what an example is shown too: of the native stack below one of Python. */
enum zn_stacks_wanted { ZN_STACKS_OFF, ZN_STACKS_PYTHON, ZN_STACKS_NATIVE };
enum zn_series { ZN_SERIES_PROCESS, ZN_SERIES_JOB, ZN_SERIES_NODE };
struct zn_options {
	bool simulate;
	bool check;
	bool list_metrics;
	bool list_probes;
	bool version;
	bool help;
	uint64_t simulate_seed;
	uint64_t simulate_scenario; /* enum zn_scenario */
	uint64_t simulate_cycle_s;  /* 0: as long as the scenario needs for the built-in rules */
	uint64_t metrics_port;
	uint64_t ws_port;
	uint64_t push_interval_ms;
	uint64_t overhead_budget;             /* parts per million of one core; 0: none is kept */
	uint64_t families;                    /* bit 1 << enum zn_family */
	uint64_t gpu_majors[ZN_MAJOR_WORDS];  /* a bit each; none: those of /proc/devices */
	uint64_t rdma_majors[ZN_MAJOR_WORDS]; /* the same of devices of RDMA */
	uint64_t method;                      /* enum zn_probe_method; ZN_METHOD_NONE: the best there is */
	uint64_t user_libraries;              /* enum zn_user_libraries */
	uint64_t two_links;                   /* 1: no sessions, whatever the kernel has */
	uint64_t stacks;                      /* enum zn_stacks_wanted */
	uint64_t ras;                         /* 1: NCCL's RAS service is asked about jobs that hang */
	uint64_t series;                      /* enum zn_series */
	char libraries[ZN_TEXT_MAX];          /* files, with commas, that are hooked at the start and stay hooked */
	uint64_t table_cpus;                  /* 0: as many as the machine may have */
	uint64_t max_connections;
	uint64_t max_connections_per_peer;
	char listen[ZN_TEXT_MAX];    /* addresses with commas between them; "*": all, IPv6 and IPv4; unix:PATH */
	char ws_origin[ZN_TEXT_MAX]; /* origins with commas between them */
	char host_names
		[ZN_TEXT_MAX]; /* further names of this node, with commas; one that begins with a dot: all under it */
	char token_file[ZN_TEXT_MAX];        /* empty: no token is asked for */
	char control[ZN_TEXT_MAX];           /* absolute path of the control socket; empty: none */
	char report_dir[ZN_TEXT_MAX];        /* empty: reports are not kept */
	char alertmanager[ZN_URLS_TEXT_MAX]; /* URLs with commas between them; empty: none, as in the next two */
	char webhook[ZN_TEXT_MAX], otlp[ZN_TEXT_MAX];
	char dcgm[ZN_TEXT_MAX];                /* a URL; empty: no dcgm-exporter is asked */
	char kmsg[ZN_TEXT_MAX];                /* empty: none */
	char sysfs[ZN_TEXT_MAX];               /* a folder like /sys; empty: none */
	char outbound_token_file[ZN_TEXT_MAX]; /* empty: none is sent */
	uint64_t otlp_interval_ms, notify_repeat_ms;
	char alerts[ZN_TEXT_MAX]; /* file of alert rules; empty: the built-in ones alone */
	const char *config;       /* the file named by --config or ZERNEL_CONFIG; NULL: the default one */
};
void zn_options_help(FILE *to);

#ifdef ZN_IN_base
#define ZN_OPTION_DEFAULT_FILE "/etc/zernel.conf"
#define ZN_OPTION_PREFIX       "ZERNEL_" /* of environment variables */
#define ZN_OPTION_REPORT_PATH  "/var/lib/zernel/jobs"
enum zn_option_origin {
	ZN_OPTION_FILE = 1,
	ZN_OPTION_ENVIRONMENT = 2,
	ZN_OPTION_ARGUMENTS = 4,
	ZN_OPTION_ANYWHERE = 7
};

struct zn_option {
	const char *name;
	bool (*set)(const struct zn_option *opt, void *field, const char *value); /* false: the value is bad */
	size_t offset;
	const char *argument; /* in the help; NULL: a flag */
	const char *initial;  /* NULL: zero */
	const char *is;       /* ends "'value' is not ..." */
	uint64_t min, max;    /* of a number */
	enum zn_option_origin where;
	const char *help;
};
extern const struct zn_option zn_option_table[];
extern const size_t zn_option_count;
/* ": MIN to MAX" of a number; else empty. */
void zn_option_range(const struct zn_option *opt, char *to, size_t cap);
#endif

/* ---- base/options_read.c (zn_options_): file, then environment, then command line; later ones win. ---- */

/* Fills o from /etc/zernel.conf (or `file`, which must then exist; NULL: the default), the environment and argv, and
 * sets zn_log_level from ZERNEL_LOG. With --help or --version on the command line nothing else is read. -EINVAL with
 * a line in why, in printable ASCII, that names the bad option or value, where it stands, and what it may be. */
int zn_options_read(struct zn_options *o, const char *file, int argc, char **argv, char why[ZN_TEXT_MAX]);
/* Control, listen, metrics_port and token_file as a client of this node's daemon finds them: by the file and, but for
 * the token file, the environment; the command line of the daemon is not known. 0, or with a line in why: -EACCES for
 * a file that this user may not read; -EINVAL for a bad one, which counts as empty, or a bad variable, which is left
 * out. */
int zn_options_client(struct zn_options *o, char why[ZN_TEXT_MAX]);
/* Where a client finds the control socket by them, empty: nowhere. What is wrong with them is not told. */
void zn_options_control(char to[ZN_TEXT_MAX]);

/* ---- base/text.c (zn_out_ zn_text_ zn_utf8_ zn_str_): bounded output, UTF-8, slices of text. ---- */

/* A bounded buffer. Once something did not fit, full is set and stays, and nothing more is written: check it at the
 * end. */
struct zn_out {
	char *at;
	size_t cap;
	size_t len;
	bool full;
};
static inline void zn_out_bytes(struct zn_out *o, const void *bytes, size_t len)
{
	if (o->full || len > o->cap - o->len) {
		o->full = true;
		return;
	}
	if (len)
		memcpy(o->at + o->len, bytes, len);
	o->len += len;
}
static inline void zn_out_text(struct zn_out *o, const char *text)
{
	zn_out_bytes(o, text, strlen(text));
}
static inline void zn_out_char(struct zn_out *o, char c)
{
	zn_out_bytes(o, &c, 1);
}
void zn_out_u64(struct zn_out *o, uint64_t v);
void zn_out_i64(struct zn_out *o, int64_t v);
void zn_out_hex(struct zn_out *o, uint64_t v, int digits); /* lower case, at least that many digits, up to 16 */
/* v / 10^decimals, exactly, without trailing zeros: (142500, 6) gives 0.1425. No floating point. 0 to 19 decimals. */
void zn_out_scaled(struct zn_out *o, uint64_t v, int decimals);
void zn_out_fraction(
	struct zn_out *o, uint64_t v, unsigned decimals, unsigned keep); /* keep: digits that stay, even 0 */
/* The same without a bound, where there is room for ZN_TEXT_NUMBER bytes. Returns the end. */
#define ZN_TEXT_NUMBER 40
char *zn_text_u64(char *to, uint64_t v);
char *zn_text_scaled(char *to, uint64_t v, int decimals);
/* The fewest digits, at most 17, that read back as the same double; NaN, +Inf and -Inf as Prometheus has them. */
void zn_out_double(struct zn_out *o, double v);
/* Whatever of a text is no printable ASCII becomes '?'. */
void zn_str_plain(char *text);
/* UTF-8 from raw bytes: each byte that is not part of well-formed UTF-8 (RFC 3629) becomes U+FFFD. */
void zn_out_utf8(struct zn_out *o, const char *bytes, size_t len);
/* Streaming UTF-8: the state after one more byte. 0: between two characters (and at the start); BAD stays BAD. */
#define ZN_UTF8_BAD 0xffffffffu
uint32_t zn_utf8_step(uint32_t state, uint8_t byte);
#define ZN_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
/* The bytes of the character at the start of a text, or 0 if it is cut or not well-formed. */
size_t zn_utf8_length(const char *at, size_t len);
/* The bytes of the control character at the start of a text, which may steer a terminal: below U+0020, or U+007F to
 * U+009F. 0: it begins with none. */
size_t zn_utf8_control(const char *at, size_t len);

/* Takes off what stands before the first `until`; false: there is none, and nothing is taken. */
bool zn_str_cut(struct zn_str *text, char until, struct zn_str *before);
/* Takes what stands before the next separator, or the rest, off the front. False: nothing is left. */
bool zn_str_split(struct zn_str *rest, const char *separators, struct zn_str *to);
struct zn_str zn_str_of(const char *text);
struct zn_str zn_str_skip(struct zn_str s, size_t n); /* n: at most its length */
struct zn_str zn_str_trim(struct zn_str s, const char *blanks);
bool zn_str_equal(struct zn_str a, struct zn_str b);
static inline struct zn_str zn_str_between(const char *from, const char *to)
{
	return (struct zn_str){from, (size_t)(to - from)};
}
static inline bool zn_str_is(struct zn_str s, const char *text)
{
	return s.len == strlen(text) && (!s.len || !memcmp(s.at, text, s.len));
}
bool zn_str_is_nocase(struct zn_str s, const char *text); /* of ASCII */
bool zn_str_is_one_of(char c, const char *set);           /* NUL never is */
uint64_t zn_str_hash(struct zn_str s);                    /* FNV-1a: who chooses the text can make two the same */
int zn_str_hex_digit(char c);                             /* 0 to 15, or -1 */
/* In place. In lists of mounts the kernel writes blanks and backslashes as a backslash and three octal digits. */
void zn_str_unescape(char *text);

/* ---- base/file.c (zn_file_ zn_names_): small files, and names in directories. ---- */

struct stat;
uint64_t zn_file_mtime_ns(const struct stat *st); /* when it was written last */
/* Of a file that stays the same. 64 bits: of a million files two agree once in ten million tries. */
uint64_t zn_file_fingerprint(uint64_t seed, const struct stat *st);
/* Reads up to cap - 1 bytes and puts a NUL behind them: how many, or -1 where it cannot be opened. */
int zn_file_read(const char *path, char *to, size_t cap);
/* Reads up to cap bytes of a regular file: how many, or -errno; -EISDIR or -ENOTSUP where it is something else. */
ssize_t zn_file_read_regular(const char *path, char *to, size_t cap);
/* Calls visit with each line of a file, without its end. Lines of 8 KiB and more are left out. An error, as that the
 * file is not there, may come after lines. */
int zn_file_lines(const char *path, void (*visit)(void *to, char *line), void *to);
/* Takes away a socket that a daemon left behind when it ended. -EADDRINUSE: somebody listens on it; -EEXIST: it is
 * something else. */
int zn_file_clear_socket(const struct sockaddr_un *at, socklen_t len, int type);
/* A Unix socket for messages, to which everybody may connect; its folder is made if it is missing, those above it must
 * be there, and what a daemon left behind is taken away. Its descriptor, or -errno; -ENAMETOOLONG: the path is not
 * absolute, or too long. */
int zn_file_listen(const char *path, int backlog);
/* Opens /dev/null as each of the descriptors 0 to 2 that is closed: else something of ours would get its number, and
 * with it what is read and written as standard input, output and errors. */
void zn_file_standard(void);
/* The names in a directory, some 40 at one time, as the kernel gives them: opendir() allocates. The directory is open,
 * and stays the caller's; one below 0 has no names. Zero is valid, and begins at the place where the directory stands.
 *  */
struct dirent64;
struct zn_names {
	uint32_t at, have;
	char bytes[1024] __attribute__((aligned(8)));
};
bool zn_names_read(struct zn_names *n, int dir);                   /* the next of them; false: there are none */
const struct dirent64 *zn_names_take(struct zn_names *n);          /* one of these; NULL: no more of these */
const struct dirent64 *zn_names_next(struct zn_names *n, int dir); /* both; NULL: there are no more */
uint32_t zn_names_number(const struct dirent64 *e);                /* 0: it begins with no digit */
/* Calls visit with each, until it returns false. */
void zn_file_names(int dir, bool (*visit)(void *to, const struct dirent64 *e), void *to);

/* ---- base/mountinfo.c (zn_mountinfo_): lines of /proc/PID/mountinfo. ---- */

struct zn_mount_line {
	uint32_t dev;              /* as struct zn_file_id has it */
	char *root, *point, *type; /* zn_str_unescape() makes of them what was mounted */
	const char *options;       /* of the file system, with commas; empty: none */
};
/* Cuts a line without its end up, in place. False: it is none. */
bool zn_mountinfo_read(char *text, struct zn_mount_line *l);

/* ---- base/url.c (zn_url_): URLs of the scheme http. ---- */

#define ZN_HOST_MAX  254                   /* bytes of a host's name, its NUL included */
#define ZN_BASIC_MAX (ZN_TEXT_MAX * 4 / 3) /* of a user and a password in base64 */
/* http://[USER:PASSWORD@]HOST[:PORT][/PATH][?QUERY] */
struct zn_url {
	char host[ZN_HOST_MAX]; /* a name or an address, without brackets */
	bool v6;                /* it stood in brackets */
	uint16_t port;
	char target[ZN_TEXT_MAX]; /* path and query; empty: it ended with the port */
	char basic[ZN_BASIC_MAX]; /* user and password as a header has them; empty: none */
};
int zn_url_read(struct zn_url *u, struct zn_str text); /* -EINVAL: it is none, or longer than ZN_TEXT_MAX - 1 */

/* ---- base/sort.c (zn_sort): sorts in place. ---- */

/* As qsort(), and takes no memory. */
void zn_sort(void *entries, size_t count, size_t size, int (*compare)(const void *a, const void *b));

/* ---- base/token.c (zn_token_): files of bearer tokens. ---- */

#define ZN_TOKENS_MAX 8 /* so that a new one can be rolled out beside the old */
struct zn_tokens {
	uint32_t count;
	char token[ZN_TOKENS_MAX][ZN_TOKEN_MAX]; /* zero-padded */
};
/* Reads a token file into *to, which is empty before. -errno with a line in why. */
int zn_token_read(struct zn_tokens *to, const char *path, char why[ZN_TEXT_MAX]);
int zn_token_check(const char *path, char why[ZN_TEXT_MAX]); /* the same, and keeps nothing; an empty path is none */
void zn_token_warn(const char *path);                        /* of a token file that is open to all */
bool zn_token_is_valid(struct zn_str s);                     /* b64token of RFC 6750, and long enough */

/* ---- base/units.c (zn_units_): figures for people. ---- */

/* Figures for people; each returns to. */
#define ZN_UNITS_CELL 64
char *zn_units_bytes(char to[ZN_UNITS_CELL], uint64_t v);
char *zn_units_count(char to[ZN_UNITS_CELL], double v);
char *zn_units_duration(char to[ZN_UNITS_CELL], double us); /* "-" for 0, which is no measurement */
char *zn_units_span(char to[ZN_UNITS_CELL], uint64_t s);
char *zn_units_clock(char to[ZN_UNITS_CELL], uint64_t ms); /* time of day, here, of a time since 1970 */

/* ---- base/cpus.c (zn_cpus_): which CPUs there are now, by /sys. ---- */

/* How many a list such as "0-3,8" has; 0: it has none, or is no such list. */
uint32_t zn_cpus_listed(const char *list);
uint32_t zn_cpus_online(void);
/* A number that is another one each time that the CPU comes online; 0: it is offline, or the kernel does not tell. */
uint64_t zn_cpus_stay(uint32_t cpu);

/* ---- base/procfs.c (zn_tree_ zn_procfs_): what a process has started, and what it does, by /proc. ---- */

/* A search, a step at a time, for what processes have started, what that has started, and so on. Where the kernel lists
 * the children of a thread (CONFIG_PROC_CHILDREN) a step reads one such list, or those of some 40 threads; elsewhere it
 * reads the parents of some 40 processes. A process whose parent has ended before is nobody's child any more, and not
 * found. From one thread; steps may block. */
#define ZN_TREE_MAX 8192 /* processes whose children are still to be looked for; a power of two */
struct zn_tree_process {
	uint32_t pid;
	uint32_t index, id; /* of what it belongs to: add() knows */
};
struct zn_tree {
	/* Called with each child, possibly more than once. 0: its children are looked for too. */
	int (*add)(void *owner, const struct zn_tree_process *parent, uint32_t pid);
	void *owner;
	const char *proc_root;
	uint32_t dropped; /* processes that found no room */
	/* private */
	struct zn_tree_process process[ZN_TREE_MAX];
	uint32_t rest, first, end; /* where those begin whose threads, whose main thread was not looked at; their end */
	bool by_children;
	bool reading; /* a folder, behind fd */
	int fd;
	uint32_t pass_end;
};
void zn_tree_init(struct zn_tree *t, const char *proc_root);
bool zn_tree_add(struct zn_tree *t, const struct zn_tree_process *p); /* false: there is no room */
bool zn_tree_step(struct zn_tree *t);                                 /* false: nothing is left to do */
void zn_tree_close(struct zn_tree *t);

struct zn_procfs_stat {
	char state; /* of its main thread, as proc(5) has it: R, S, D, T, t, Z, ...; 0: not known */
	uint32_t parent, session;
	uint32_t threads;     /* a main thread that has ended counts until the last one has */
	uint64_t cpu_ticks;   /* of all its threads, without its children; sysconf(_SC_CLK_TCK) a second */
	uint64_t start_ticks; /* since boot */
};
/* Reads proc_root/PID/stat, which takes no lock that a user could hold. False: there is none. */
bool zn_procfs_stat(const char *proc_root, uint32_t pid, struct zn_procfs_stat *to);
/* Its main thread has ended, and others have not: /proc/PID shows none of what they have, as their open files. */
bool zn_procfs_headless(const struct zn_procfs_stat *s);
bool zn_procfs_ended(const struct zn_procfs_stat *s); /* all its threads have */
/* The value behind "key:" and blanks of a file like /proc/PID/status, whose list of groups, in the midst of it, may be
 * as long as 700 kB; cut to cap - 1 bytes. 1; 0: it has no such line; -errno. */
int zn_procfs_status(const char *path, const char *key, char *to, size_t cap);
/* CPUs, of the first 1,024; what is beyond is left out. */
struct zn_cpu_set {
	uint64_t word[16];
};
uint32_t zn_procfs_cpus_in(const struct zn_cpu_set *s);
/* On how many CPUs a process may run, by proc_root/PID/status; 0: not known. They are added to the set. */
uint32_t zn_procfs_cpus(const char *proc_root, uint32_t pid, struct zn_cpu_set *to);
/* Of its main thread alone, by proc_root/PID/schedstat: how long it ran, and waited for a CPU. False: not known. */
bool zn_procfs_schedstat(const char *proc_root, uint32_t pid, uint64_t *run_ns, uint64_t *queued_ns);
/* Whether it is in a PID namespace below ours (NSpid of proc(5)): it and what it calls itself by have other numbers. */
bool zn_procfs_contained(const char *proc_root, uint32_t pid);

/* ---- base/listening.c (zn_listening_): which user listens at a TCP address of this machine, or answers there. ---- */

/* The user who made the socket that gets connections to an address of IPv4 or IPv6 and its port; any address: whoever
 * has the port, at any of them. There: somebody does; ZN_UNKNOWN is then several users, or not known, as the kernel's
 * list, in proc/net, is longer than most bytes. */
uint32_t zn_listening_user(const struct sockaddr *at, const char *proc, size_t most, bool *there);
/* The user who has taken the connection from one address to the other, where nobody listens there any more; ZN_UNKNOWN
 * with *there: he has closed it already. */
uint32_t zn_listening_taken(const struct sockaddr *at, const struct sockaddr *from, bool *there);

/* ---- json.c (zn_json_): JSON writer and reader. ---- */

/* JSON writer (RFC 8259). Commas are its business: a key or a value is preceded by one where needed. Depth is at most
 * 32. In an object, zn_json_key() comes before each value. */
struct zn_json {
	struct zn_out *out;
	uint32_t nonempty; /* bit per depth: something was written at this depth */
	uint8_t depth;
	bool after_key;
};
void zn_json_begin(struct zn_json *j, struct zn_out *out);
void zn_json_open(struct zn_json *j, char bracket);  /* '{' or '[' */
void zn_json_close(struct zn_json *j, char bracket); /* '}' or ']' */
void zn_json_key(struct zn_json *j, const char *key);
void zn_json_text(struct zn_json *j, const char *text);
void zn_json_bytes(struct zn_json *j, const char *bytes, size_t len); /* any bytes; invalid UTF-8 is replaced */
void zn_json_u64(struct zn_json *j, uint64_t v);
void zn_json_scaled(struct zn_json *j, uint64_t v, int decimals);
/* As zn_json_scaled, but always with a fraction ("0.0", "142.0"): the form of the snapshot's starred numbers. */
void zn_json_decimal(struct zn_json *j, uint64_t v, int decimals);
void zn_json_double(struct zn_json *j, double v); /* null for NaN and infinities: JSON has none */
void zn_json_bool(struct zn_json *j, bool v);
void zn_json_null(struct zn_json *j);
/* A key and its value. */
void zn_json_key_open(struct zn_json *j, const char *key, char bracket);
void zn_json_key_text(struct zn_json *j, const char *key, const char *text);
void zn_json_key_u64(struct zn_json *j, const char *key, uint64_t v);
void zn_json_key_scaled(struct zn_json *j, const char *key, uint64_t v, int decimals);
void zn_json_key_null(struct zn_json *j, const char *key);
void zn_json_key_known(
	struct zn_json *j, const char *key, uint64_t v); /* null for 0, where that means that it is not known */
/* A place to come back to when what follows did not fit: the document and its buffer are as they were there. */
struct zn_json_mark {
	struct zn_json json;
	struct zn_out out;
};
struct zn_json_mark zn_json_mark(const struct zn_json *j);
void zn_json_back(struct zn_json *j, const struct zn_json_mark *mark);
/* A document that is cut between items where it would not fit. Room for its end is set aside once its first bracket and
 * the members that must be there are written; then come lists; then the end. Full if the room is not there. */
#define ZN_JSON_END (sizeof(",\"truncated\":true}") - 1)
void zn_json_reserve(struct zn_json *j, size_t bytes);
void zn_json_release(struct zn_json *j, size_t bytes);
/* Writes item 0 and up, until item() returns false; it may write nothing for one. False: one did not fit, and neither
 * it nor those after it are there. */
bool zn_json_items(
	struct zn_json *j, bool (*item)(const void *owner, struct zn_json *j, uint32_t i), const void *owner);
/* The key and a list of items, bracket '[' or '{'. False: it was cut, or, if not even an empty one fits, left out. */
bool zn_json_list(struct zn_json *j, const char *key, char bracket,
	bool (*item)(const void *owner, struct zn_json *j, uint32_t i), const void *owner);
void zn_json_end(struct zn_json *j, bool whole); /* the last bracket; before it, "truncated": true if not whole */

/* JSON reader for `zernel watch`: no tree, no allocation. A value is the slice of text that holds it. */
/* Checks one whole document strictly (RFC 8259, depth up to 64, valid UTF-8): 0, or -EINVAL. Call it once, first. */
int zn_json_check(struct zn_str text);
/* The member `key` of an object, or an empty slice. Keys are compared raw (ours have no escapes). */
struct zn_str zn_json_member(struct zn_str object, const char *key);
/* The next element of an array (or "key":value pair's value of an object); *at is 0 at first. False at the end. */
bool zn_json_next(struct zn_str container, size_t *at, struct zn_str *key, struct zn_str *value);
double zn_json_number(struct zn_str value);    /* 0.0 if it is no number, not finite or over 64 characters */
uint64_t zn_json_integer(struct zn_str value); /* exact up to 2^64-1; 0 if it is no plain integer */
/* Decodes a string value to UTF-8 with a NUL, cut at a whole character; the length. 0 if it is no string. */
size_t zn_json_string(struct zn_str value, char *to, size_t cap);

/* ---- http.c (zn_http_): heads of requests, for a small read-only server (RFC 9110, 9112). Pure: bytes in, bytes out.
 * ---- */

#define ZN_HTTP_TARGET_MAX  2048 /* request target; a longer one is 414 */
#define ZN_HTTP_HEAD_MAX    8192 /* whole head; a longer one is 431 */
#define ZN_HTTP_HEADERS_MAX 64
#define ZN_WS_PROTOCOLS     4 /* lines of Sec-WebSocket-Protocol (RFC 6455, section 11.3.4); a further one is 400 */

enum zn_format { ZN_FORMAT_TEXT, ZN_FORMAT_OPENMETRICS, ZN_FORMAT_PROTO, ZN_FORMAT_COUNT };
enum zn_method { ZN_GET, ZN_HEAD, ZN_OPTIONS, ZN_OTHER_METHOD }; /* the last: known, and never allowed here */

/* A parsed head. Slices point into the parsed buffer and die with it. */
struct zn_http_req {
	enum zn_method method;
	bool http10;
	bool keep_alive;       /* false: close after the answer (asked for, HTTP/1.0 by default, or a body follows) */
	bool expect;           /* Expect: 100-continue; the answer comes at once, and the body is not asked for */
	bool chunked;          /* a body follows in chunks */
	uint64_t length;       /* of the body that follows; 0: none, or chunked */
	enum zn_format format; /* of the metrics: which one Accept prefers, by q-value; text where it says nothing */
	bool gzip;             /* Accept-Encoding has gzip with q above 0, and not below that of identity */
	bool upgrade;          /* Upgrade: websocket and Connection: upgrade, both as tokens, on HTTP/1.1, no body */
	struct zn_str
		path; /* absolute path as sent, query cut off; absolute-form is reduced to its path; "*": OPTIONS */
	struct zn_str query; /* after '?', may be empty */
	struct zn_str host;
	struct zn_str origin;        /* at == NULL: absent */
	struct zn_str if_none_match; /* at == NULL: absent; more than one header line: the last */
	struct zn_str authorization; /* at == NULL: absent */
	struct zn_str ws_key;        /* Sec-WebSocket-Key; at == NULL: absent */
	struct zn_str ws_version;
	struct zn_str ws_protocol[ZN_WS_PROTOCOLS]; /* Sec-WebSocket-Protocol, by line; at == NULL: no more */
	unsigned ws_keys;                           /* how many Sec-WebSocket-Key headers there were */
};

/* Parses one request head at the start of buf. Incremental: call again from the same start with more bytes. Returns
 * the bytes used by the head, 0 for "more needed", or -status (-400, -413, -414, -417, -421, -431, -501, -505) for a
 * request that gets this answer and then a close; method is then right, if it was there. Never reads past len. 414 is
 * decided before 431, both as soon as the limit is passed. */
int zn_http_parse(const char *buf, size_t len, struct zn_http_req *req);

/* True if a comma-separated header value has the token, compared whole and without case. */
bool zn_http_has_token(struct zn_str value, const char *token);
#ifdef ZN_IN_codec
bool zn_http_is_token(char c); /* part of a name: tchar of RFC 9110, section 5.6.2 */
bool zn_http_is_value(char c); /* part of a header's value */
#endif

/* ---- codec/http_body.c (zn_http_body_): where the body of a request ends. ---- */

/* A request body is read, bounded, and thrown away: no route takes one, but where it ends is where the request ends. */
#define ZN_HTTP_BODY_MAX 65536 /* content; a longer one is 413 */
#define ZN_HTTP_LINE_MAX 256   /* a chunk's line with its size and extensions, and all trailers together: 400 */
struct zn_http_body {
	uint64_t left;    /* of the content, or of the chunk at hand */
	uint64_t content; /* bytes so far */
	uint32_t line;    /* bytes of the line at hand, or of the trailers, with CRLF */
	uint32_t framing; /* bytes that are no content; more than ZN_HTTP_BODY_MAX of them is 413 too */
	uint8_t state;
	bool chunked;
	bool done;
};
void zn_http_body_init(struct zn_http_body *b, const struct zn_http_req *req);
/* Uses up what belongs to the body; the bytes used, or -400 or -413. Call until done (0 from then on), or an error. */
int zn_http_body_read(struct zn_http_body *b, const char *buf, size_t len);

/* ---- codec/http_value.c (zn_http_path zn_http_pair zn_http_etag_): paths, queries and entity tags of requests. ----
 *  */

/* The path that is looked up (RFC 3986, section 6.2.2): percent-escapes decoded once, then dot segments taken out;
 * they do not lead above the root. The length, without a NUL, or 0 for one that does not begin with '/', has a bad
 * escape, a NUL or an escaped '/', or does not fit while it is resolved. */
size_t zn_http_path(struct zn_str path, char *to, size_t cap);
/* Takes the next name=value pair off a query, percent-decoded, '+' as a space, both with a NUL. 1, or 0 at the end, or
 * -EINVAL: a bad escape, a NUL, or one that does not fit; it is taken off as well, and both are cut short. Empty pairs
 * are passed over; one without '=' has an empty value. */
int zn_http_pair(struct zn_str *query, char *name, size_t name_cap, char *value, size_t value_cap);

/* If-None-Match against an entity tag in quotes: weak comparison (RFC 9110, section 13.1.2). True: answer 304. */
bool zn_http_etag_matches(struct zn_str if_none_match, const char *etag);

/* ---- codec/http_answer.c (zn_http_head zn_http_reason): heads of answers. ---- */

/* What an answer needs to say. Server, Date, Content-Length and Connection are added; 1xx, 204 and 304 never have
 * a Content-Length. */
struct zn_http_res {
	int status;
	const char *type;  /* Content-Type, or NULL */
	const char *extra; /* further header lines, each with CRLF, or NULL */
	uint64_t length;
	bool close;
	bool keep_alive; /* say so: the connection stays, and the request was HTTP/1.0 */
	bool no_length;
	int64_t date_s; /* seconds since 1970; below 0: no Date */
};
void zn_http_head(struct zn_out *o, const struct zn_http_res *res);
const char *zn_http_reason(int status);

/* ---- ws.c (zn_ws_): RFC 6455. Pure: bytes in, bytes out. ---- */

#define ZN_WS_ACCEPT_LEN  28
#define ZN_WS_CONTROL_MAX 125

/* Sec-WebSocket-Accept of a key (section 4.2.2). -EINVAL if the key does not decode to 16 bytes. */
int zn_ws_accept(struct zn_str key, char accept[ZN_WS_ACCEPT_LEN + 1]);
/* 0 if the request is a valid opening handshake, else the HTTP status to answer: 400, or 426 (version). Origin policy
 * is the caller's. */
int zn_ws_handshake(const struct zn_http_req *req);

enum zn_ws_op { ZN_WS_CONT = 0, ZN_WS_TEXT = 1, ZN_WS_BINARY = 2, ZN_WS_CLOSE = 8, ZN_WS_PING = 9, ZN_WS_PONG = 10 };

/* Header of an unmasked final frame in its shortest form, 2 to 10 bytes; the length. */
size_t zn_ws_header(uint8_t to[10], enum zn_ws_op op, uint64_t payload);
/* A whole close frame (code 0: without a code); the length. reason is cut to 123 bytes at a whole character. */
size_t zn_ws_close_frame(uint8_t to[4 + ZN_WS_CONTROL_MAX], uint16_t code, const char *reason);

/* Receiving side: frames, fragments, UTF-8, close codes. Data payload is handed on in pieces and never stored here. */
enum zn_ws_event_type {
	ZN_WS_EV_NONE, /* all input used, nothing to do */
	ZN_WS_EV_DATA, /* piece of a message: data, op (of the message), final when the message ends with it
			*/
	ZN_WS_EV_PING, /* answer with a pong of data */
	ZN_WS_EV_PONG,
	ZN_WS_EV_CLOSE, /* peer closes: code (1005 if it sent none), data = reason; echo it */
	ZN_WS_EV_ERROR, /* protocol error: close with code (1002, 1007, 1009) at once, read no more */
};
struct zn_ws_event {
	enum zn_ws_event_type type;
	enum zn_ws_op op;
	bool final;
	uint16_t code;
	struct zn_str data; /* unmasked in place in the input buffer, or in control[] */
};
struct zn_ws {
	uint64_t max;       /* largest message, payload bytes */
	uint64_t have;      /* payload bytes of the message so far */
	uint64_t left;      /* payload bytes of the current frame still to come */
	uint32_t fragments; /* of the current message */
	uint32_t utf8;      /* state of the streaming UTF-8 automaton */
	uint8_t head[14];
	uint8_t head_len;
	uint8_t head_need;
	uint8_t mask[4];
	uint8_t mask_at;
	uint8_t op;         /* of the current frame */
	uint8_t message_op; /* 0: no message open */
	bool fin;
	bool done; /* after CLOSE or ERROR: further input is refused with -1 */
	uint8_t control[ZN_WS_CONTROL_MAX];
	uint8_t control_len;
};
void zn_ws_init(struct zn_ws *ws, uint64_t max_message);
/* Consumes some of buf and reports one event. Returns the bytes used (0 only if len is 0), or -1 after the end. Call
 * until all bytes are used. Everything that the header shows to be wrong is an error before the payload comes. */
int zn_ws_read(struct zn_ws *ws, char *buf, size_t len, struct zn_ws_event *ev);

/* ---- codec/http_client.c (zn_post_ zn_reply_ zn_retry_): HTTP/1.1 as a client that posts. Pure: bytes in,
 * bytes out. ---- */

struct zn_post {
	const struct zn_url *url;
	const char *target, *type, *token; /* token: empty, or sent where the URL has no user */
	size_t length;                     /* of the body */
};
void zn_post_head(struct zn_out *o, const struct zn_post *p);

/* What the head of an answer says. */
struct zn_reply_head {
	int status;
	int64_t length; /* of the body; -1: not said */
	bool http10, chunked, coded, close, keep;
	uint32_t retry_after_s; /* 0: not said, or a date; at most 120 */
};
/* Reads a head, the empty line at its end included: 0, or -EBADMSG for what is no HTTP/1. */
int zn_reply_head(struct zn_reply_head *to, struct zn_str head);
bool zn_reply_keeps(const struct zn_reply_head *h); /* the connection can be used again */

/* An answer that is coming in. */
struct zn_reply {
	int status; /* 200 and up; 0: the head is not complete */
	uint32_t retry_after_s;
	bool keep_alive; /* the connection can be used again once it is done */
	bool done;       /* all of it has come, or the rest is not wanted */
	/* for codec/http_client.c only */
	uint8_t interim;
	size_t len;
	struct zn_http_body body;
	char head[ZN_HTTP_HEAD_MAX];
};
void zn_reply_init(struct zn_reply *r);
/* Takes what came: the bytes used, or -EBADMSG for what is no HTTP or has a head beyond ZN_HTTP_HEAD_MAX. A body beyond
 * ZN_HTTP_BODY_MAX, or one that is not well formed, is no error: it is done, and the connection cannot be kept. */
int zn_reply_read(struct zn_reply *r, const char *buf, size_t len);
/* How long to wait after so many failures in a row: 0.5 s, doubled up to 60 s, of which a random part is taken off, and
 * what the answer asked for (up to 120 s) on top. */
uint64_t zn_retry_ms(unsigned failures, uint32_t retry_after_s, uint32_t random);

/* ---- codec/protobuf.c (zn_protobuf_): Protocol Buffers, written. ---- */

/* Fields in the order of the calls; all are bounded by o, as everything that is written. A packed field is a nested one
 * whose elements are put one after the other. */
void zn_protobuf_u64(struct zn_out *o, uint32_t field, uint64_t v); /* uint64, uint32, bool, enum */
void zn_protobuf_i64(struct zn_out *o, uint32_t field, int64_t v);  /* sint64, sint32 */
void zn_protobuf_fixed64(struct zn_out *o, uint32_t field, uint64_t v);
void zn_protobuf_double(struct zn_out *o, uint32_t field, double v);
void zn_protobuf_text(struct zn_out *o, uint32_t field, struct zn_str s); /* any bytes, by zn_out_utf8() */
void zn_protobuf_word(struct zn_out *o, uint32_t field, const char *word);
/* Begins a nested message; field 0: one without a tag, as in a stream of delimited messages. What is returned ends
 * it. */
size_t zn_protobuf_open(struct zn_out *o, uint32_t field);
void zn_protobuf_close(struct zn_out *o, size_t mark);
/* Elements of a packed field. */
void zn_protobuf_put(struct zn_out *o, uint64_t v);
void zn_protobuf_put_signed(struct zn_out *o, int64_t v);

/* ---- codec/crc32.c (zn_crc32): the checksum of gzip (RFC 1952, section 8). ---- */

uint32_t zn_crc32(const char *bytes, size_t len);

/* ---- codec/gzip.c (zn_gzip zn_gunzip): answers made smaller (RFC 1952), in memory that is set aside at the start.
 * ---- */

#define ZN_GZIP_MIN 1024      /* bytes; a smaller answer goes as it is */
#define ZN_GZIP_MAX (4 << 20) /* a larger one too: it would hold the loop up too long */
/* False: it did not fit, and o is as it was. Not thread-safe: one state for all. */
bool zn_gzip(struct zn_out *o, const char *bytes, size_t len);
/* Unpacks what becomes as many bytes as o has room for, and no fewer. False: it is not that. */
bool zn_gunzip(struct zn_out *o, const char *bytes, size_t len);

/* ---- codec/elf.c (zn_elf_): symbols of a hostile file. ---- */

struct zn_elf_symbol {
	const char *name; /* in: what to look for */
	uint64_t offset;  /* out: file offset of its first instruction, 0: not there */
	uint64_t size; /* out: as the symbol says, cut at the end of the segment's file content; 0: it says nothing */
	uint64_t room; /* out: to where the next symbol begins; as far as the segment goes if none does */
	uint8_t code[16]; /* out: its first bytes, zero-padded at the end of the file */
};
/* Finds defined function symbols (any binding but local, any version) in .dynsym, then, for what is still missing, in
 * .symtab. Reads only with pread, never maps the file (a cut file would raise SIGBUS), and at most `budget` bytes. Up
 * to 256 names of 2 to 127 bytes. ELF64 of this machine's class and order only. No allocation: each thread has buffers
 * of its own. Returns how many were found, or an error with *why set to what is wrong and where: -EOPNOTSUPP for a file
 * of another class, order or machine, else -ENOEXEC. */
#define ZN_ELF_BUDGET ((size_t)256 << 20) /* for files that can be trusted to be no larger than they need be */
int zn_elf_symbols(int fd, struct zn_elf_symbol *symbols, size_t count, size_t budget, const char **why);
/* The same of variables: offset is then the symbol's address, as the file has it, and room, size and code are empty.
 * *base: the address that the beginning of the file is to have. An error in .symtab is none if .dynsym had some:
 * these are returned, and *why says what is wrong with it. It is empty if nothing is. */
int zn_elf_variables(
	int fd, struct zn_elf_symbol *symbols, size_t count, size_t budget, uint64_t *base, const char **why);

/* ---- codec/callsite.c (zn_callsite_): what stands before an address that is returned to. ---- */

bool zn_callsite_ends(const uint8_t *code, size_t len); /* whether it ends with a call */

/* ---- codec/unwind.c (zn_unwind_): from a function to its caller, by .eh_frame of a hostile file. ---- */

#define ZN_UNWIND_REGS     17 /* by their DWARF numbers; 16: the address that is returned to */
#define ZN_UNWIND_SEGMENTS 32
struct zn_unwind_segment {
	uint64_t address, offset, len;
	bool executable;
};
/* A file. Addresses are those that it is made for. */
struct zn_unwind_file {
	int fd;
	uint64_t size, budget, until_ns; /* budget: bytes that may still be read; until_ns: and until when */
	uint64_t table;                  /* .eh_frame_hdr; 0: none */
	uint64_t sections_at;            /* 0: none */
	uint16_t sections;
	size_t segments;
	struct zn_unwind_segment segment[ZN_UNWIND_SEGMENTS];
};
struct zn_unwind_regs {
	uint64_t reg[ZN_UNWIND_REGS];
	uint32_t known;   /* a bit each */
	bool interrupted; /* by a signal: reg[16] is where it goes on, and is behind no call */
};
/* A copy of a part of the stack. */
struct zn_unwind_stack {
	const uint8_t *bytes;
	uint64_t from, len;
};
enum zn_unwind_step { ZN_UNWIND_CALLER, ZN_UNWIND_END, ZN_UNWIND_LOST };
/* The descriptor stays the caller's. until_ns: 0: without a limit. */
bool zn_unwind_open(struct zn_unwind_file *f, int fd, uint64_t budget, uint64_t until_ns);
bool zn_unwind_read(struct zn_unwind_file *f, uint64_t offset, void *to, size_t len); /* all of it, or false */
/* The address of code at an offset of the file; false: there is none. */
bool zn_unwind_address(const struct zn_unwind_file *f, uint64_t offset, uint64_t *address);
/* pc: an address within the instruction that is being run, or that called. CALLER: regs are the caller's. END: nobody
 * called it. LOST: that cannot be said for certain, and regs are as they were. */
enum zn_unwind_step zn_unwind_step(
	struct zn_unwind_file *f, uint64_t pc, const struct zn_unwind_stack *stack, struct zn_unwind_regs *regs);
bool zn_unwind_is_behind_call(struct zn_unwind_file *f, uint64_t address);
bool zn_unwind_is_signal(struct zn_unwind_file *f, uint64_t pc); /* where a signal's handler returns to */

/* ---- codec/symbols.c (zn_symbols_): which functions addresses of a hostile ELF file lie in. ---- */

#define ZN_SYMBOLS_NAME 256
struct zn_symbol {
	uint64_t address;           /* in */
	uint64_t begin, size;       /* out; size 0: no symbol says that it is there */
	char name[ZN_SYMBOLS_NAME]; /* out: printable ASCII; of C++, with neither templates nor parameters, demangled */
	uint32_t at[4], count;      /* private: its names */
};
/* In .symtab, or else in .dynsym. Sorts the list by address. */
void zn_symbols_find(struct zn_unwind_file *f, struct zn_symbol *list, size_t count);
/* The qualified name of a C++ function; false: it is none, or has what is not read here, and o is as it was. */
bool zn_symbols_demangle(struct zn_out *o, const char *mangled);

/* ---- codec/pycode.c (zn_pycode_): lines and texts of CPython, from hostile memory. ---- */

/* How a version keeps the lines of a function: to 3.9, 3.10, from 3.11 on. */
enum zn_pycode_lines { ZN_PYCODE_PAIRS, ZN_PYCODE_RANGES, ZN_PYCODE_ENTRIES };
#define ZN_PYCODE_NO_LINE 0    /* the compiler's own instruction */
#define ZN_PYCODE_GONE    (-1) /* no such instruction: the code object is another one by now */
/* The line of an instruction, by its index in units of two bytes; -1: the function has not begun. first: its first
 * line. */
int zn_pycode_line(enum zn_pycode_lines form, const uint8_t *table, size_t len, int first, int index);
/* A text of `count` characters of 1, 2 or 4 bytes as UTF-8, as far as there is room; o->full: it was cut. */
void zn_pycode_text(struct zn_out *o, const uint8_t *bytes, size_t count, unsigned width);

/* ---- codec/dns.c (zn_dns_ zn_resolver_ zn_hosts_ zn_peer_): names of hosts, as a stub resolver sees them. Pure.
 * ---- */

#define ZN_PEERS_MAX    8 /* addresses of one name */
#define ZN_DNS_PORT     53
#define ZN_DNS_QUESTION 272 /* bytes of the longest question: a name of 255, and 16 more */
struct zn_peer {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	socklen_t len; /* 0: none */
};
bool zn_peer_read(struct zn_peer *p, const char *text, uint16_t port); /* false: it is no address */
/* The addresses of a name in the text of /etc/hosts. */
size_t zn_hosts_find(struct zn_str text, const char *name, uint16_t port, struct zn_peer to[ZN_PEERS_MAX]);
/* What /etc/resolv.conf says; without a server it is 127.0.0.1. */
struct zn_resolver {
	struct zn_peer server[3];
	unsigned server_count, search_count;
	char search[6][ZN_HOST_MAX];
	unsigned ndots, timeout_s, attempts;
};
void zn_resolver_read(struct zn_resolver *r, struct zn_str text);
/* The i-th name to ask for, alone or in a domain of the search list; empty if it is too long. False: there are no
 * more. */
bool zn_resolver_name(const struct zn_resolver *r, const char *name, unsigned i, char to[ZN_HOST_MAX]);
enum zn_dns_type { ZN_DNS_A = 1, ZN_DNS_AAAA = 28 };
size_t zn_dns_ask(uint8_t to[ZN_DNS_QUESTION], uint16_t id, const char *name, enum zn_dns_type type); /* 0: no name */
struct zn_dns_wanted {
	const uint8_t *question; /* as asked */
	size_t question_len;
	uint16_t port;
	struct zn_peer *to;
	size_t cap;
};
/* How many addresses came; -EAGAIN: it answers something else; -EBADMSG: the server failed, or it is no answer. */
int zn_dns_answer(const uint8_t *at, size_t len, const struct zn_dns_wanted *want);

/* ---- codec/json_path.c (zn_path_): what lies at a path of keys in an object of JSON. ---- */

/* The value at "member.member" of nested objects, the value itself for ""; empty if it is missing. */
struct zn_str zn_path_find(struct zn_str value, const char *path);
bool zn_path_known(struct zn_str object, const char *path); /* it is there, and not null */
/* Of a string; of a number or a literal as it stands; "-" if it is empty, null or missing. Returns to. */
const char *zn_path_text(struct zn_str object, const char *path, char *to, size_t cap);

/* ---- codec/ras.c (zn_ras_): what NCCL's RAS service answers, as it comes in. Pure. ---- */

#define ZN_RAS_COMMS 8  /* communicators of the job that are kept */
#define ZN_RAS_RANKS 8  /* of one: those that stand out the most */
#define ZN_RAS_PIDS  64 /* processes of the job on this node */
#define ZN_RAS_HOSTS 32 /* addresses of this node */
#define ZN_RAS_HOST  46 /* of a host, which NCCL calls by its address */
/* How a rank stands out; the first ones say more. */
#define ZN_RAS_STATES(X)                                                                                               \
	X(DEAD, "dead")                                                                                                \
	X(SILENT, "silent")                                                                                            \
	X(BEHIND, "behind")                                                                                            \
	X(LEFT, "left")
enum zn_ras_state {
#define X(e, label) ZN_RAS_##e,
	ZN_RAS_STATES(X)
#undef X
		ZN_RAS_STATE_COUNT
};
const char *zn_ras_state_label(enum zn_ras_state s);
struct zn_ras_rank {
	uint32_t rank, pid; /* rank ZN_UNKNOWN: a process, whichever ranks it has; pid 0: not known */
	uint32_t state;     /* enum zn_ras_state */
	uint32_t pad;
	uint64_t issued, fewer; /* collectives; than the rank farthest ahead. Only if it is behind */
	char host[ZN_RAS_HOST]; /* of letters, digits and .:-_; empty: not known */
};
struct zn_ras_comm {
	uint64_t hash;   /* NCCL's own; 0: processes that are missing as a whole */
	uint64_t most;   /* collectives that the rank farthest ahead has issued */
	uint32_t size;   /* ranks; 0: not said */
	uint32_t heard;  /* ranks that said how many they have issued */
	uint32_t odd;    /* ranks that stand out, with those that the list has no room for */
	uint32_t fewest; /* ranks that have issued the fewest */
	uint32_t count;
	struct zn_ras_rank rank[ZN_RAS_RANKS];
};
struct zn_ras_answer {
	bool understood, whole; /* it is of that form; up to its end */
	bool text;              /* of the form before JSON */
	uint32_t comms;         /* communicators in it */
	uint32_t foreign, lost; /* of them, those of other jobs; those that there was no room for */
	uint32_t count;
	struct zn_ras_comm comm[ZN_RAS_COMMS];
};
/* What is looked for: a communicator with one of these processes on one of these hosts is the job's. */
struct zn_ras_wanted {
	bool alone; /* who answers can have no other job here, so that all it says is of this one: text names few processes */
	uint32_t pid_count, host_count;
	uint32_t pid[ZN_RAS_PIDS];
	char host[ZN_RAS_HOSTS][ZN_RAS_HOST];
};
enum zn_ras_token { ZN_RAS_NOTHING, ZN_RAS_STRING, ZN_RAS_STRING_OVER, ZN_RAS_NUMBER, ZN_RAS_WORD };
enum zn_ras_part { ZN_RAS_PART_NONE, ZN_RAS_PART_DEAD, ZN_RAS_PART_SILENT, ZN_RAS_PART_STATUS, ZN_RAS_PART_COUNTS };
struct zn_ras_parse {
	const struct zn_ras_wanted *want;
	struct zn_ras_answer answer;
	/* for codec/ras.c only: the communicator and the rank at hand */
	struct zn_ras_comm comm;
	struct zn_ras_rank rank;
	uint64_t least;
	uint32_t at_most, at_least, absent; /* ranks that have issued the most, the least; that are missing */
	bool in_comm, in_rank, in_missing, in_counts, ours, counted, dead, unresponsive;
	/* JSON */
	bool json, escaped, negative, fraction;
	enum zn_ras_token token;
	int key;
	uint64_t number;
	size_t len;
	char text[64];
	/* text */
	enum zn_ras_part part;
	uint64_t group; /* collectives that the ranks in the lines below have issued */
	bool group_gone;
	size_t line_len;
	char line[256];
};
void zn_ras_parse_init(struct zn_ras_parse *p, const struct zn_ras_wanted *want); /* want: stays */
void zn_ras_parse_take(struct zn_ras_parse *p, const char *bytes, size_t len);
void zn_ras_parse_end(struct zn_ras_parse *p); /* p->answer is there */
/* Makes whatever bytes an answer that can be read. */
void zn_ras_answer_check(struct zn_ras_answer *a);

/* ---- codec/dcgm.c (zn_dcgm_): the page of a dcgm-exporter, as it comes in. Pure. ---- */

/* Figures of a GPU: their names, and the decimals of the whole numbers that they are kept as. Those from LINK_SPEED on
 * are of the PCI device, of any vendor. */
#define ZN_FIGURES(X)                                                                                                  \
	X(UTILIZATION, "utilization", 6)                                                                               \
	X(SM_ACTIVE, "sm_active", 6)                                                                                   \
	X(TENSOR_ACTIVE, "tensor_active", 6)                                                                           \
	X(DRAM_ACTIVE, "dram_active", 6)                                                                               \
	X(VRAM_USED, "vram_used_bytes", 0)                                                                             \
	X(VRAM_TOTAL, "vram_total_bytes", 0)                                                                           \
	X(POWER, "power_watts", 3)                                                                                     \
	X(POWER_LIMIT, "power_limit_watts", 3)                                                                         \
	X(ENERGY, "energy_joules", 3)                                                                                  \
	X(TEMPERATURE, "temperature_celsius", 3)                                                                       \
	X(HOTSPOT, "hotspot_celsius", 3)                                                                               \
	X(MEMORY_TEMPERATURE, "memory_celsius", 3)                                                                     \
	X(CLOCK, "clock_hertz", 0)                                                                                     \
	X(MEMORY_CLOCK, "memory_clock_hertz", 0)                                                                       \
	X(THROTTLE, "throttle", 0) /* bits 1 << enum zn_throttle */                                                    \
	X(ECC_CORRECTED, "ecc_corrected", 0)                                                                           \
	X(ECC_UNCORRECTED, "ecc_uncorrected", 0)                                                                       \
	X(REMAPPED_CORRECTABLE, "remapped_correctable", 0)                                                             \
	X(REMAPPED_UNCORRECTABLE, "remapped_uncorrectable", 0)                                                         \
	X(REMAPPED_PENDING, "remapped_pending", 0)                                                                     \
	X(REMAPPED_FAILED, "remapped_failed", 0)                                                                       \
	X(RETIRED_CORRECTABLE, "retired_correctable", 0)                                                               \
	X(RETIRED_UNCORRECTABLE, "retired_uncorrectable", 0)                                                           \
	X(NVLINK_SENT, "nvlink_sent_bytes", 0)                                                                         \
	X(NVLINK_RECEIVED, "nvlink_received_bytes", 0)                                                                 \
	X(PCIE_SENT, "pcie_sent_bytes_per_second", 0)                                                                  \
	X(PCIE_RECEIVED, "pcie_received_bytes_per_second", 0)                                                          \
	X(PCIE_REPLAYS, "pcie_replays", 0)                                                                             \
	X(MIG, "mig", 0)                                                                                               \
	X(LINK_SPEED, "link_speed", 1) /* GT/s */                                                                      \
	X(LINK_SPEED_MAX, "link_speed_max", 1)                                                                         \
	X(LINK_WIDTH, "link_width", 0)                                                                                 \
	X(LINK_WIDTH_MAX, "link_width_max", 0)                                                                         \
	X(PCIE_CORRECTABLE, "pcie_correctable", 0)                                                                     \
	X(PCIE_NONFATAL, "pcie_nonfatal", 0)                                                                           \
	X(PCIE_FATAL, "pcie_fatal", 0)                                                                                 \
	X(NUMA_NODE, "numa_node", 0)                                                                                   \
	X(SUSPENDED, "suspended", 0)                                                                                   \
	X(LOST, "lost", 0)
enum zn_figure {
#define X(e, name, decimals) ZN_FIGURE_##e,
	ZN_FIGURES(X)
#undef X
		ZN_FIGURE_COUNT
};
_Static_assert(ZN_FIGURE_COUNT <= 64, "a bit each");

/* Why a GPU is slower than it could be. */
#define ZN_THROTTLES(X)                                                                                                \
	X(POWER, "power")                                                                                              \
	X(THERMAL, "thermal")                                                                                          \
	X(HARDWARE, "hardware")                                                                                        \
	X(SYNC, "sync")                                                                                                \
	X(SETTING, "setting")
enum zn_throttle {
#define X(e, name) ZN_THROTTLE_##e,
	ZN_THROTTLES(X)
#undef X
		ZN_THROTTLE_COUNT
};

/* What a source says of a GPU. */
struct zn_reading {
	char pci[16];   /* as in /sys; empty: not said */
	char uuid[48];  /* likewise */
	uint64_t known; /* bit 1 << enum zn_figure */
	uint64_t value[ZN_FIGURE_COUNT];
};
static inline void zn_reading_set(struct zn_reading *r, enum zn_figure f, uint64_t v)
{
	r->known |= 1ULL << f;
	r->value[f] = v;
}
static inline bool zn_reading_has(const struct zn_reading *r, enum zn_figure f)
{
	return r->known >> f & 1;
}

/* What came of asking for the page (worker/scrape.c). */
#define ZN_SCRAPES(X)                                                                                                  \
	X(OK, "ok")                                                                                                    \
	X(UNREACHABLE, "unreachable")                                                                                  \
	X(TIMEOUT, "timeout")                                                                                          \
	X(REFUSED, "refused")                                                                                          \
	X(TOO_LONG, "too_long")                                                                                        \
	X(NOT_UNDERSTOOD, "not_understood")
enum zn_scrape_outcome {
#define X(e, label) ZN_SCRAPE_##e,
	ZN_SCRAPES(X)
#undef X
		ZN_SCRAPE_COUNT
};
/* In memory that both processes see. */
struct zn_scrape_done {
	uint64_t version; /* odd: it is being written; 0: nothing was asked yet */
	uint64_t times[ZN_SCRAPE_COUNT];
	uint32_t up; /* the last one was answered */
	uint32_t count;
	struct zn_reading reading[ZN_GPUS_MAX];
};
struct zn_dcgm_parse {
	uint32_t count;
	bool skips; /* a line that is too long, up to its end */
	size_t line_len;
	char line[2048];
	struct zn_reading reading[ZN_GPUS_MAX];
};
void zn_dcgm_init(struct zn_dcgm_parse *p);
void zn_dcgm_take(struct zn_dcgm_parse *p, const char *bytes, size_t len);
uint64_t zn_dcgm_throttle(uint64_t reasons); /* bits of enum zn_throttle of NVML's */
/* "0000:1b:00.0" of "00000000:1B:00.0"; empty: it is no address. */
void zn_dcgm_pci(char to[16], struct zn_str text);
bool zn_dcgm_uuid(char to[48], struct zn_str text); /* false: it is none, and nothing is written */

/* ---- codec/figures.c (zn_figure_): the names of figures of a GPU. ---- */

const char *zn_figure_name(enum zn_figure f);
int zn_figure_decimals(enum zn_figure f);
enum zn_figure zn_figure_find(struct zn_str name); /* ZN_FIGURE_COUNT: there is none */

/* ---- codec/nvml.c (zn_nvml_): messages of the companion zernel-gpu. Pure. ---- */

#define ZN_NVML_BYTES     131072u /* of a message */
#define ZN_NVML_PROCESSES 512u
#define ZN_NVML_INSTANCES 128u
#define ZN_NVML_STALE_MS  5000u /* a message that waited longer is passed over */
/* What one says, whole: it has all that is known. */
struct zn_nvml_said {
	uint64_t stale_ms; /* for how long the library has not answered; 0: it does */
	char step[32];     /* what it was asked for then */
	char why[128];     /* why it cannot be asked; empty: it can */
	char driver[32];   /* version; empty: not said */
	uint32_t count, processes, instances, pad;
	struct zn_reading reading[ZN_GPUS_MAX];
	char model[ZN_GPUS_MAX][64];
	struct {
		uint32_t pid, gpu; /* gpu: index of reading */
		uint64_t bytes;
	} process[ZN_NVML_PROCESSES];
	struct {
		uint32_t gpu, gpu_instance, compute_instance, pad;
		uint64_t used_bytes, total_bytes;
		char uuid[48], model[64];
	} instance[ZN_NVML_INSTANCES];
};
/* False: it is no such message, or too old, or of a later moment than now. Lines that are not understood are passed
 * over. */
bool zn_nvml_read(struct zn_nvml_said *to, struct zn_str text, uint64_t now_ms);
void zn_nvml_check(struct zn_nvml_said *said); /* makes one that comes from shared memory fit to be read */

/* ---- model/labels.c (zn_family_ zn_method_ zn_operation_ zn_stall_ zn_spare_label zn_leaf_ zn_io_label zn_doing_
 * zn_cause_ zn_request_route zn_request_code zn_request_protocol zn_server_role zn_outbound_label zn_sent_label): label
 * values. ---- */

/* A way to hook the kernel. */
enum zn_probe_method {
	ZN_METHOD_NONE,
	ZN_METHOD_FENTRY,
	ZN_METHOD_KPROBE,
	ZN_METHOD_TRACEPOINT,
	ZN_METHOD_UPROBE,         /* a perf event for each function */
	ZN_METHOD_UPROBE_MULTI,   /* a link for all entries of a library, and one for all returns */
	ZN_METHOD_UPROBE_SESSION, /* one for both */
};
const char *zn_family_label(enum zn_family f); /* of both kinds */
const char *zn_method_label(enum zn_probe_method t);
const char *zn_leaf_label(enum zn_leaf leaf);
const char *zn_operation_label(enum zn_operation d);
const char *zn_stall_label(enum zn_stall s);
const char *zn_io_label(enum zn_io_op op); /* of the operation */
const char *zn_request_route(enum zn_request_route route);
const char *zn_request_code(enum zn_request_code code);
const char *zn_request_protocol(enum zn_request_protocol protocol);
const char *zn_server_role(enum zn_server_role role);

/* What a rank does that others wait for. Columns: name of the enum, label `doing`, in words. */
#define ZN_DOINGS(X)                                                                                                   \
	X(GONE, "gone", "has ended")                                                                                   \
	X(ASLEEP, "asleep", "is asleep")                                                                               \
	X(DRIVER, "driver", "is inside the GPU driver")                                                                \
	X(DATA, "data", "waits for data")                                                                              \
	X(IO, "io", "reads or writes files")                                                                           \
	X(CPU, "cpu", "runs on the CPU")                                                                               \
	X(GPU, "gpu", "works on its own GPU, or waits for it")
enum zn_doing {
#define X(e, label, says) ZN_DOING_##e,
	ZN_DOINGS(X)
#undef X
		ZN_DOING_COUNT
};
const char *zn_doing_label(enum zn_doing doing);

/* Label values of `cause`. What they mean and what to do is in alert/why.c. */
#define ZN_CAUSES(X)                                                                                                   \
	X(HANG, "hang")                                                                                                \
	X(ALL_WAIT, "all_wait")                                                                                        \
	X(STRAGGLER, "straggler")                                                                                      \
	X(NETWORK, "network")                                                                                          \
	X(COMMUNICATION, "communication")                                                                              \
	X(INPUT_CPU, "input_cpu")                                                                                      \
	X(INPUT_WORKERS, "input_workers")                                                                              \
	X(INPUT_FILES, "input_files")                                                                                  \
	X(INPUT_TRANSFER, "input_transfer")                                                                            \
	X(INPUT_ITSELF, "input_in_process")                                                                            \
	X(CHECKPOINT, "checkpoint")                                                                                    \
	X(STORAGE, "storage")                                                                                          \
	X(CPUS, "cpu_shortage")                                                                                        \
	X(THROTTLED, "cpu_throttled")                                                                                  \
	X(LAUNCHES, "launch_bound")                                                                                    \
	X(COPIES, "host_copies")                                                                                       \
	X(HOST, "host_code")                                                                                           \
	X(IDLE, "idle")                                                                                                \
	X(STARTUP, "startup")                                                                                          \
	X(STOPPED, "stopped")
enum zn_cause {
#define X(e, label) ZN_CAUSE_##e,
	ZN_CAUSES(X)
#undef X
		ZN_CAUSE_COUNT
};
const char *zn_cause_label(enum zn_cause cause);

/* ---- model/quota.c (zn_quota_ zn_quotas_ zn_owner_ zn_uid_): shares of tables, see struct zn_quota. ---- */

/* Logs who was refused entries of the table, at most once a minute; the table's name goes into the line. Call it each
 * tick. */
void zn_quota_tell(struct zn_quota *q, const char *table, uint64_t now_ns);
/* The same of all tables of the kernel. */
struct zn_arena;
struct zn_shared;
void zn_quotas_tell(struct zn_arena *a, uint64_t now_ns);
/* Before a job's slot is another one's: the log names no later job in its place. */
void zn_quotas_forget_job(struct zn_shared *s, uint32_t slot);
/* Where an owner's entries are counted: below ZN_QUOTA_OWNERS, or that for those who share a place. */
uint32_t zn_quota_at(struct zn_quota *q, uint32_t owner);
/* held: what a walk over the table found, by that. What differs from the counts by as much as it did at the last walk
 * (before) is set right: entries come and go while one walks, so a difference that is seen once says nothing. */
void zn_quota_correct(struct zn_quota *q, const int32_t held[ZN_QUOTA_OWNERS + 1], int32_t before[ZN_QUOTA_OWNERS + 1]);
/* The owner of a process, of its status and its user namespace in /proc: two to five system calls. 65534, the user that
 * stands for no other, where it cannot be told. */
uint32_t zn_owner_of(int pid);
uint32_t zn_uid_of(int pid); /* the real user id; ZN_UNKNOWN: it is gone */
/* Starts a thread, with the rights of the caller, that looks for threads which may not: zn_sandbox_loop(). It never
 * ends. */
int zn_owner_start(void);

/*
 * The rate: how often each of several owners may do something. Each has an allowance of so many at a time (burst),
 * which fills up again by one every interval. Owners with a full allowance need no place; where no place is free,
 * owners share one.
 */
#define ZN_RATE_OWNERS 256 /* a power of two */
#define ZN_RATE_TRIES  8   /* places where an owner may be */
struct zn_rate_owner {
	uint64_t owner;   /* 0: nobody's place */
	uint64_t full_ns; /* when his allowance is full again */
	uint32_t refused; /* since it was last looked at */
	uint32_t burst;   /* as he had it last */
};
struct zn_rate {
	struct zn_rate_owner row[ZN_RATE_OWNERS], rest;
};

/* Where an owner (not 0) is counted. */
static inline struct zn_rate_owner *zn_rate_owner(struct zn_rate *r, uint64_t owner, uint64_t now_ns)
{
	uint64_t first = owner * 0x9e3779b97f4a7c15 >> 32;
	struct zn_rate_owner *idle = NULL;

	for (uint32_t i = 0; i < ZN_RATE_TRIES; i++) {
		struct zn_rate_owner *o = &r->row[(first + i) & (ZN_RATE_OWNERS - 1)];

		if (o->owner == owner)
			return o;
		if (!idle && o->full_ns <= now_ns && !o->refused)
			idle = o;
	}
	if (!idle)
		return &r->rest;
	*idle = (struct zn_rate_owner){.owner = owner};
	return idle;
}

/* Whether he may do one more now; else it is counted in refused. */
static inline bool zn_rate_take(struct zn_rate_owner *o, uint32_t burst, uint64_t interval_ns, uint64_t now_ns)
{
	uint64_t full_ns = (o->full_ns > now_ns ? o->full_ns : now_ns) + interval_ns;

	o->burst = burst;
	if (full_ns - now_ns > burst * interval_ns) {
		o->refused++;
		return false;
	}
	o->full_ns = full_ns;
	return true;
}

/* ---- model/gpu.c (zn_gpu_ zn_gpus_ zn_device_ zn_uuid_ zn_vendor_ zn_visible_): the GPUs of the node, and which of
 * them a process means by its ordinals. ---- */

/* What a process's environment says of its job: the user's own claim, but for uid. */
struct zn_slurm_env {
	char job[ZN_JOB_NAME]; /* SLURM_JOB_ID; empty: none */
	char array_job[12], array_task[12];
	char name[64];
	uint32_t uid; /* of the process, from the kernel; ZN_UNKNOWN: not known */
	char ras[64]; /* NCCL_RAS_ADDR; empty: none */
};

/* What process_info.c learned about a process from /proc: its open devices and its owner; all else is the user's own
 * claim. */
#define ZN_VISIBLE_MAX 16
struct zn_visible {
	bool set;
	uint8_t count;
	int32_t index[ZN_VISIBLE_MAX]; /* -1: as text below */
	char uuid[ZN_VISIBLE_MAX][44];
};
struct zn_process_info {
	uint32_t id;            /* zn_proc.id it belongs to; 0: none */
	bool gone;              /* the process ended before it could be asked */
	bool instances;         /* the device of a MIG instance is open, or was at an earlier look */
	uint8_t minor_count;    /* of NVIDIA's GPUs whose device is open, or was */
	uint8_t render_count;   /* of render nodes that are open, or were */
	uint8_t calls;          /* ZN_CALLS_*, while a GPU of it is looked for */
	uint32_t looks;         /* how often its open devices were looked at */
	struct zn_visible cuda; /* CUDA_VISIBLE_DEVICES, else SLURM_JOB_GPUS */
	struct zn_visible hip;  /* HIP_VISIBLE_DEVICES, else as CUDA's, of those that ROCR_VISIBLE_DEVICES names */
	int32_t minors[ZN_VISIBLE_MAX];
	int32_t renders[ZN_VISIBLE_MAX];
	uint32_t owner;    /* zn_owner_of() */
	uint64_t start_ns; /* of the process; 0: not known */
	struct zn_slurm_env slurm;
};

enum zn_vendor { ZN_VENDOR_UNKNOWN, ZN_VENDOR_NVIDIA, ZN_VENDOR_AMD };
const char *zn_vendor_label(enum zn_vendor v); /* "" if it is not known */
struct zn_gpu {
	char id[48]; /* label gpu_id: index in PCI order, a UUID where there is no index, or "unknown" */
	char uuid[48];
	char pci[16];
	enum zn_vendor vendor;
	int minor;      /* of its device, AMD's: of its render node; -1: not known */
	bool is_name;   /* of a user's, and of his share of the table: not listed, and no index */
	uint32_t owner; /* whose share */
	uint64_t total_bytes;
	uint64_t used_bytes; /* of all processes, at the last refresh */
	uint64_t peak_bytes; /* the highest used_bytes of a refresh */
	uint32_t processes;
	bool partial; /* a process has it open whose memory was not seen as a whole: used, peak and processes are not known */
};
struct zn_gpus {
	struct zn_gpu gpu[ZN_GPUS_MAX];
	uint32_t count;
	uint32_t listed;       /* how many of them the drivers' own lists have: indices come from there alone */
	uint32_t nvidia;       /* how many of those are NVIDIA's; AMD's follow */
	const char *root;      /* where NVIDIA's list is, its caller's; NULL: there is none */
	struct zn_quota quota; /* of names */
};
#define ZN_GPU_NAMES    8   /* that one user may give, unless he has MIG instances; root has no such limit */
#define ZN_NVIDIA_MAJOR 195 /* Documentation/admin-guide/devices.txt: Nvidia graphics devices */
/* The device behind an entry of /proc/PID/fd, by the kernel's numbers, whatever its file is called. False: it is none,
 * or was only looked up (O_PATH), for which nobody needs the right to use it. */
bool zn_device_open(int dir, const char *name, uint32_t *major, uint32_t *minor);
#define ZN_DRM_MAJOR    226 /* Documentation/admin-guide/devices.txt: Direct Rendering Infrastructure */
#define ZN_RENDER_FIRST 128 /* its minors from here on are render nodes (Documentation/gpu/drm-uapi.rst) */
/* In a set of 64 GPUs render nodes are counted from the other end; no node has so many of both. The last place is that
 * of all further ones too, so that a set may have too many of them, and never too few. */
#define ZN_RENDER_BIT(minor)                                                                                           \
	((minor) < ZN_RENDER_FIRST                       ? 0                                                           \
			: (minor) < ZN_RENDER_FIRST + 63 ? 1ULL << (63 - ((minor)-ZN_RENDER_FIRST))                    \
							 : 1ULL)
/* Whether that is a GPU of NVIDIA's, a MIG instance, a render node: bits. */
struct zn_gpu_files {
	uint32_t gpu, instance; /* majors of /dev/nvidiaN and of /dev/nvidia-caps/nvidia-capN; 0: there are none */
	bool given;             /* gpu is of --gpu-majors, and its minors are those of render nodes too */
};
enum zn_gpu_file { ZN_GPU_FILE_NONE, ZN_GPU_FILE_GPU, ZN_GPU_FILE_INSTANCE, ZN_GPU_FILE_RENDER = 4 };
int zn_gpu_file(const struct zn_gpu_files *of, int dir, const char *name, uint32_t *minor);
/* Which GPUs HIP counts: its own list, of those that the runtime below it has. */
void zn_visible_hip(struct zn_visible *to, const struct zn_visible *hip, const struct zn_visible *rocr);
/* The majors of this machine, by a file like /proc/devices. */
struct zn_gpu_files zn_gpu_files_read(const char *path);

#define ZN_NVIDIA_GPUS "/proc/driver/nvidia/gpus"
#define ZN_DRM_NODES   "/sys/class/drm"
/* Reads `nvidia`/<pci>/information (ZN_NVIDIA_GPUS), then what amdgpu has in `drm`/renderD<minor>/device
 * (ZN_DRM_NODES), in the order of the minors, which is that of HIP where all are seen. No driver: 0 GPUs, and no
 * error. */
void zn_gpus_read(struct zn_gpus *g, const char *nvidia, const char *drm);
/* Whether there are more than were read; drm NULL: of NVIDIA's. */
bool zn_gpus_grown(const struct zn_gpus *g, const char *nvidia, const char *drm);
/* Adds to a GPU what the driver told a process about it. False: the driver spoke of another one. */
bool zn_gpu_identify(struct zn_gpu *gpu, const struct zn_proc_gpu *seen);
bool zn_gpu_unknown(const struct zn_gpu *gpu); /* the entry for memory whose GPU is not known */
bool zn_gpu_shown(const struct zn_gpu *gpu);   /* it is in use or known to the driver: its slot is not free */
/* Whether a number of SLURM_JOB_GPUS says which GPU is meant. With a static gres.conf it is the minor of the device's
 * file, and only where all minors are in PCI order is that the index. Where a GPU is divided, Slurm counts instances
 * (gres_common_prep_set_env() of Slurm). */
bool zn_gpus_numbered(const struct zn_gpus *g);
/* How a GPU that SLURM_JOB_GPUS lists by index or UUID is called here, whether it is in use or not. */
void zn_gpus_name(const struct zn_gpus *g, const char *text, char id[48]);
void zn_uuid_text(char to[48], const uint8_t uuid[16]);

#ifdef ZN_IN_model
/* Index of the GPU that a process means by an ordinal (ZN_PROC_GPUS: context not known), added if it is new. A listed
 * GPU is believed only of a process that has its device open, a name that is not listed only of one that has an
 * instance open; else it is "unknown". -1: the table is full. */
int zn_gpus_resolve(struct zn_gpus *g, const struct zn_proc *p, const struct zn_process_info *f, uint32_t ordinal);
/* Frees the slots of GPUs that are neither on the driver's list nor in use by any process. */
void zn_gpus_forget(struct zn_gpus *g, const bool used[ZN_GPUS_MAX]);
#endif

/* ---- model/arena.c (zn_arena_ zn_job_shared_): the shared pages as memory. ---- */

/* The tables of section 3 as memory: mmap'ed BPF maps, or plain pages in simulate mode and in unit tests. */
struct zn_arena;
struct zn_io_entry;
struct zn_arena_ops {
	int (*map_proc)(struct zn_arena *a, uint32_t row); /* makes a page readable; NULL: all of them are */
	int (*map_hist)(struct zn_arena *a, uint32_t index);
	int (*map_job)(struct zn_arena *a, uint32_t slot);
	int (*map_skew)(struct zn_arena *a, uint32_t index);
	int (*map_failed)(struct zn_arena *a, uint32_t row);
	void (*release)(struct zn_arena *a, uint32_t row); /* nobody finds the row any more */
	void (*reuse)(
		struct zn_arena *a); /* gives back rows that were released a moment ago. NULL: release() does it */
	void (*sweep)(struct zn_arena *a); /* removes what other tables hold of released rows; NULL: nothing */
	size_t (*comms)(struct zn_arena *a, struct zn_comm *to, size_t cap); /* NULL: none */
	/* Jobs. The slot of the job of this name, claimed if there is none: 0 to ZN_JOBS_MAX - 1, or -ENOSPC. */
	int (*job_claim)(struct zn_arena *a, const char name[ZN_JOB_NAME]);
	int (*job_alias)(struct zn_arena *a, uint32_t slot, const char name[ZN_JOB_NAME]); /* a second name for it */
	/* A job that starts again under its name is another one: the name is free from here on, the slot is not. */
	void (*job_unname)(struct zn_arena *a, uint32_t slot);
	void (*job_forget)(struct zn_arena *a, uint32_t slot); /* names, tags, and the slot itself */
	/* Tags a process that runs, and what it starts from here on; its row too if it has one. */
	int (*job_task)(struct zn_arena *a, uint32_t slot, uint32_t tgid);
	/* The job of each process that lives and is of one. Reads a whole table: once for all jobs. */
	void (*job_tasks)(struct zn_arena *a, void (*task)(void *to, const struct zn_job_ref *job), void *to);
	int (*job_cgroup)(struct zn_arena *a, uint32_t slot, const struct zn_cgroup_key *key, uint32_t level,
		const char *step); /* step: its name, or NULL */
	void (*job_cgroup_gone)(struct zn_arena *a, const struct zn_cgroup_key *key);
	/* File I/O: the series there are, in no order; at most cap of them; returns how many. NULL: none. */
	size_t (*io)(struct zn_arena *a, struct zn_io_entry *to, size_t cap);
	void (*skew_release)(struct zn_arena *a, uint32_t index); /* gives it and its histogram back */
	/* ZN_C_STALL_* of a process with what has begun and not ended by now. NULL: the counters are all there is. */
	void (*stalls)(struct zn_arena *a, uint32_t row, uint64_t now_ns, uint64_t ns[ZN_STALL_COUNT]);
	/* A child of a row's process, or of one of its children, that was forked when nobody watched. 0, or -errno: it
	 * is known already, tracked itself, or has ended. NULL: nobody follows workers. */
	int (*worker_add)(struct zn_arena *a, uint32_t row, uint32_t tgid);
	/* Takes a series out of the table: who comes next makes another one. Its histogram stays, for those who are
	 * adding to it right now, until it is given back, at least a second later. */
	void (*io_cut)(struct zn_arena *a, const struct zn_io_key *key);
	void (*io_free)(struct zn_arena *a, const struct zn_io_row *row); /* with its owner's share */
	int (*map_coarse)(struct zn_arena *a, uint32_t index);
	/* A server is watched from here on: its index, or -errno. gone(): nobody finds it any more. free(), at least a
	 * second later, gives it and its routes back. */
	int (*server_add)(struct zn_arena *a, const struct zn_server *server);
	void (*server_gone)(struct zn_arena *a, uint32_t index);
	void (*server_free)(struct zn_arena *a, uint32_t index);
	/* Calls of ioctl() on GPUs that are under way: which process's, and since when. NULL: nobody knows. */
	void (*ioctls)(struct zn_arena *a, void (*call)(void *to, uint32_t id, uint64_t start_ns), void *to);
	/* Threads that are in uninterruptible sleep: all, or at each call some, in five seconds all of them. NULL: nobody
	 * knows. still(): whether it is the same sleep that began then. */
	void (*sleepers)(
		struct zn_arena *a, bool all, void (*sleeper)(void *to, const struct zn_sched_entry *thread), void *to);
	bool (*still)(struct zn_arena *a, uint32_t tid, uint64_t since_ns);
};
/* What threads remember of their series (vfs.bpf.c) is of no use from here on. */
static inline void zn_io_changed(struct zn_shared *s)
{
	__atomic_fetch_add(&s->io_change, 1, __ATOMIC_SEQ_CST);
}
/* zn_arena_hist(arena, row.hist), or zn_arena_coarse() of what is above ZN_HISTS_MAX, is valid until the series is
 * given back. */
struct zn_io_entry {
	struct zn_io_key key;
	struct zn_io_row row;
};
struct zn_arena {
	struct zn_shared *shared;
	struct zn_proc *procs;
	struct zn_hist *hists;
	struct zn_job_shared *jobs;               /* ZN_JOBS_MAX pages; NULL: none */
	struct zn_skew *skews;                    /* ZN_SKEWS_MAX; NULL: none */
	struct zn_coarse_hist *coarse;            /* ZN_IO_MAX; NULL: none */
	struct zn_server *servers;                /* ZN_SERVERS_MAX; NULL: none */
	struct zn_request_series *request_series; /* ZN_REQUEST_SERIES; NULL: none */
	struct zn_serving *services;              /* ZN_SERVICES_MAX; NULL: none */
	struct zn_failed *failed;                 /* ZN_PROCS_MAX; NULL: none */
	const struct zn_arena_ops *ops;
	/* ops->job_task() of a process and of all that it has started already. NULL: of the process alone. The caller's
	 * to set. */
	int (*job_tree)(struct zn_arena *a, uint32_t slot, uint32_t tgid);
	uint8_t proc_mapped[ZN_PROCS_MAX / 8];
	uint8_t hist_mapped[ZN_HISTS_MAX / 8];
	uint8_t job_mapped[ZN_JOBS_MAX / 8];
	uint8_t skew_mapped[ZN_SKEWS_MAX / 8];
	uint8_t coarse_mapped[ZN_IO_MAX / 8];
	uint8_t failed_mapped[ZN_PROCS_MAX / 8];
};
/* What becomes of a job's row, for whoever writes to an arena of their own. The serial is stored last: it makes the row
 * a job's. group() and group_gone() are for a control group that has just been entered into, or taken out of, the
 * table. */
void zn_job_shared_claim(struct zn_job_shared *row, const char name[ZN_JOB_NAME], uint32_t serial);
uint32_t zn_job_shared_step(
	struct zn_job_shared *row, const char *step); /* its index; ZN_STEPS_MAX: no room, counted */
void zn_job_shared_group(struct zn_job_shared *row, const struct zn_cgroup *cgroup);
void zn_job_shared_group_gone(struct zn_job_shared *row, const struct zn_cgroup *cgroup);
/* Row or histogram as memory; NULL if the index is out of range or cannot be mapped, or is histogram 0. */
struct zn_proc *zn_arena_proc(struct zn_arena *a, uint32_t row);
/* The same, but NULL where the process is not one of that job; serial 0: one without a job. */
struct zn_proc *zn_arena_proc_of(struct zn_arena *a, uint32_t row, struct zn_job_ref job);
struct zn_hist *zn_arena_hist(struct zn_arena *a, uint32_t index);
struct zn_coarse_hist *zn_arena_coarse(struct zn_arena *a, uint32_t index);
struct zn_job_shared *zn_arena_job(struct zn_arena *a, uint32_t slot);
struct zn_skew *zn_arena_skew(struct zn_arena *a, uint32_t index); /* NULL also if it is free */
struct zn_failed *zn_arena_failed(struct zn_arena *a, uint32_t row);
void zn_arena_carry(struct zn_arena *a); /* each tick: see zn_hist_carry() */
/* Moves to a process what its threads have put into their shards since; zn_agg_refresh() does. */
void zn_arena_gather(struct zn_arena *a, struct zn_proc *p);
/* Launches that ran, with those that are in shards still: for whoever looks between two refreshes. */
uint64_t zn_arena_launches(struct zn_arena *a, const struct zn_proc *p);

/* ---- model/histogram.c (zn_hist_ zn_le_): sums, quantiles and buckets of histograms. ---- */

static inline void zn_hist_add(struct zn_hist *h, uint64_t ns)
{
	h->calls++;
	h->sum_ns += ns;
	h->bucket[zn_bucket_of(ns)]++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}
/* A sum of histograms, which is read as one by way of its first member. Zero is an empty one. One page. */
#define ZN_CARRIES_BEHIND 0xffffffffu
struct zn_hist_sum {
	struct zn_hist hist;
	uint32_t carried[ZN_BUCKETS];
	uint32_t pad[30];
};
_Static_assert(sizeof(struct zn_hist_sum) == 4096, "one page");
void zn_hist_merge(struct zn_hist_sum *to, const struct zn_hist *from);
void zn_hist_merge_coarse(struct zn_hist_sum *to, const struct zn_coarse_hist *from);
/* Adds one to another of an arena, which nobody else adds to; slot: of that one in its table. */
void zn_hist_fold(struct zn_hist *to, uint32_t slot, const struct zn_hist *from);
void zn_hist_fold_coarse(struct zn_coarse_hist *to, uint32_t index, const struct zn_coarse_hist *from);
/* Takes out what programs have put there, and adds it to where they may add, too. */
static inline void zn_move(__u64 *to, __u64 *from)
{
	if (__atomic_load_n(from, __ATOMIC_RELAXED))
		__atomic_fetch_add(to, __atomic_exchange_n(from, 0, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}
void zn_hist_gather(struct zn_hist *to, struct zn_hist *from);
/* Takes what is too much out of the buckets of one of an arena. On each tick: a bucket that is not looked at for 2^30
 * calls and those of a tick may be full. */
void zn_hist_carry(struct zn_hist *h, uint32_t slot);
void zn_hist_carry_coarse(struct zn_coarse_hist *h, uint32_t index);
/* Of one that is nobody's any more. */
void zn_hist_clear(struct zn_hist *h);
void zn_hist_clear_coarse(struct zn_coarse_hist *h);
uint64_t zn_hist_bucket(const struct zn_hist *h, uint32_t bucket);
/* The low halves of all buckets, for differences; add: to what is there. */
void zn_hist_low(const struct zn_hist *h, uint32_t to[ZN_BUCKETS]);
void zn_hist_low_add(const struct zn_hist *h, uint32_t to[ZN_BUCKETS]);
/* q in per mille of the recorded durations, in ns: the middle of the bucket that holds it, at most 3.2 % off from 128
 * ns on, never above the largest. 0 if there is none. */
uint64_t zn_hist_quantile(const struct zn_hist *h, uint32_t q);
/* What a summary shows, from one pass over the buckets. */
struct zn_summary {
	uint64_t count, p50_ns, p99_ns;
};
struct zn_summary zn_hist_summary(const struct zn_hist *h);
uint64_t zn_hist_count(const struct zn_hist *h); /* sum of the buckets: agrees with the quantiles while BPF is adding */
/* What a summary and a histogram show together, from one pass, so that they agree while BPF is adding. le: cumulative
 * counts at powers of 4 from 1.024 us to 68.7 s, which are limits of buckets and so exact; the last is all. Fine ones
 * are at powers of 2 from 1.05 ms to 137 s. */
#define ZN_LE_COUNT      15
#define ZN_LE_FINE_COUNT 19
struct zn_spread {
	uint64_t count, sum_ns, p50_ns, p99_ns, le[ZN_LE_FINE_COUNT];
};
void zn_hist_spread(const struct zn_hist *h, bool is_fine, struct zn_spread *to);
uint64_t zn_le_ns(uint32_t i, bool is_fine); /* upper limit of bucket i; UINT64_MAX for the last */
static inline uint32_t zn_le_count(bool is_fine)
{
	return is_fine ? ZN_LE_FINE_COUNT : ZN_LE_COUNT;
}

/* Exponential buckets, as Prometheus' native histograms and OpenTelemetry have them: bucket i of this scale is above
 * 2^(i/32) and up to 2^((i+1)/32) seconds, 2.2 % wide. Our buckets are 3.1 to 6.3 % wide and have other limits, so each
 * goes whole to the exponential one that its middle is in (the last: its floor): no two share one, and no count ever
 * shrinks. */
#define ZN_SCALE       5
#define ZN_ZERO_BELOW  128e-9 /* seconds: bucket 0 has no middle to speak of, and goes to the bucket of zero */
#define ZN_BUCKETS_MAX (ZN_BUCKETS - 1)
struct zn_exp_bucket {
	int32_t index;
	uint64_t count; /* above 0 */
};
struct zn_exp_buckets {
	uint64_t count; /* of all, those in zero included, from one pass */
	uint64_t zero, sum_ns, max_ns;
	uint32_t used;
	struct zn_exp_bucket bucket[ZN_BUCKETS_MAX]; /* by index */
};
void zn_hist_buckets(const struct zn_hist *h, struct zn_exp_buckets *to);

/* ---- model/aggregate.c (zn_agg_ zn_counter_): what follows from the arena: processes, GPUs, rates, totals. ---- */

/* Whether the ledger has all GPU memory that a process holds. It has not where the process made its context before its
 * library was hooked, as each process did that runs while the daemon is restarted, and where a table was full. */
enum zn_ledger { ZN_LEDGER_UNKNOWN, ZN_LEDGER_WHOLE, ZN_LEDGER_PARTIAL };

/* What a process holds on one GPU: the sum over the ordinals that mean it. */
struct zn_gpu_usage {
	uint32_t gpu; /* index into zn_gpus */
	bool partial; /* the ledger is not known to be whole: used_bytes and peak_bytes of sum are not to be shown */
	struct zn_proc_gpu sum;
};

struct zn_info {
	uint32_t id; /* of the row this belongs to; 0: free */
	bool resolved[ZN_PROC_GPUS + 1];
	int8_t gpu[ZN_PROC_GPUS + 1];
	uint8_t ledger; /* enum zn_ledger, at the last refresh */
	uint64_t first_tick_ns;
	uint64_t launches;    /* at the last tick */
	uint64_t cost_ns;     /* of our probes, at the last tick */
	uint64_t launch_rate; /* per 1000 s, over the last tick */
	uint64_t cost_rate;   /* ns of probes per 1000 s, over the last tick */
	uint64_t share_peak[ZN_PROC_GPUS + 1];
	/* of its launching threads, at the last tick since the process began, and over the last tick; all 0: not
	 * known */
	uint64_t stall_ns[ZN_STALL_COUNT], stall_tick_ns[ZN_STALL_COUNT];
	/* in which its threads were spared (budget.c), likewise: of that only waits inside of hooked calls are known */
	uint64_t unseen_ns, unseen_tick_ns;
	uint64_t worker_ns[2], worker_tick_ns[2]; /* busy and idle, likewise */
	/* where a GPU is not known: which look at its open devices that is of, and when the next one is due */
	uint32_t looks;
	uint64_t look_ns, look_wait_ns;
	char comm[16];
	/* of the process that had the row before: its id, how it ended, and when */
	uint32_t gone_id, exit_code;
	uint64_t gone_ns;
};

struct zn_agg {
	struct zn_arena *arena;
	uint64_t measured; /* families on the kernel itself, 1 << enum zn_family; init(): all, as simulated data has */
	struct zn_gpus gpus;
	uint64_t drm_due_ns; /* when AMD's are looked for again */
	struct zn_info info[ZN_PROCS_MAX];
	uint32_t row[ZN_PROCS_MAX]; /* rows in use, ascending */
	uint32_t row_count;
	uint64_t tick_ns;
	uint64_t interval_ns; /* from the tick before the last one to that; 0: there was none before */
	/* sums of processes that have gone */
	struct zn_hist_sum gone[ZN_OPERATION_COUNT];
	__u64 gone_count[ZN_COUNTER_SLOTS];
	uint64_t family_cost_ns[ZN_FAMILY_COUNT]; /* of all processes, as in struct zn_info */
	uint64_t family_cost_rate[ZN_FAMILY_COUNT];
	struct zn_hist_sum merged; /* scratch of zn_agg_merge(); without a call: all of it is 0 */
	struct zn_comm comms[ZN_COMMS_MAX];
	size_t comm_count;
	/* called before the row of a process that has gone is given back; NULL: nobody asks */
	void (*gone_row)(void *jobs, uint32_t row, const struct zn_proc *p);
	void *jobs;
	/* asks what is known of a row's process; false: not there yet. NULL: nothing is known about any process */
	bool (*process_info)(void *owner, const struct zn_proc *p, struct zn_process_info *to);
	/* NULL: every ledger is whole */
	enum zn_ledger (*ledger)(void *owner, const struct zn_proc *p);
	/* minor numbers, a bit each, of the GPUs that processes with a partial ledger have open; NULL: none */
	uint64_t (*partial_gpus)(void *owner);
	/* asks for another look at its open devices, which zn_process_info.looks tells; NULL: there is none */
	void (*look)(void *owner, const struct zn_proc *p);
	void *owner;
};
void zn_agg_init(struct zn_agg *a, struct zn_arena *arena);
/* Whether a family is measured, so that 0 means none. */
static inline bool zn_agg_measures(const struct zn_agg *a, enum zn_family f)
{
	return a->measured >> f & 1;
}
/* Brings the list of rows, the GPUs and their sums up to date; moves to processes what is in their shards; gives back
 * the rows of those that have gone. */
void zn_agg_refresh(struct zn_agg *a);
/* A driver may be loaded later than the daemon, and lists its GPUs one by one (`nvidia`: ZN_NVIDIA_GPUS; `drm`, which
 * is looked at once a minute: ZN_DRM_NODES). All are read anew, and looked up anew for each process, if there are more
 * than before. */
void zn_agg_follow_gpus(struct zn_agg *a, const char *nvidia, const char *drm);
void zn_agg_tick(struct zn_agg *a, uint64_t now_ns); /* a refresh, and new rates */
/* All processes' histograms of one operation, gone ones included. The result lives until the next call. */
const struct zn_hist *zn_agg_merge(struct zn_agg *a, enum zn_operation operation);
/* Only the living. */
const struct zn_hist *zn_agg_merge_live(struct zn_agg *a, enum zn_operation operation);
size_t zn_agg_shares(struct zn_agg *a, uint32_t row, struct zn_gpu_usage to[ZN_PROC_GPUS + 1]);
/* A counter of a process, by enum zn_counter. Where its time went has the waits that go on as of the last tick: it
 * never falls, also when the process ends. */
uint64_t zn_agg_count(const struct zn_agg *a, uint32_t row, uint32_t count);
/* Whether the memory of a process is known: the figures that come from its ledger may be shown. */
bool zn_agg_memory_known(const struct zn_agg *a, uint32_t row);
/* By how much a counter has grown since it was last looked at; *seen follows it, but never goes back. */
uint64_t zn_counter_advance(uint64_t *seen, uint64_t now);
bool zn_counter_is_gauge(uint32_t count); /* it goes down too, and ends with its process */

/* ---- model/rates.c (zn_rates_ zn_gpu_calls_ zn_gpu_majors_ zn_rdma_majors_): what the kernel's counters say of a
 * process over the last tick, and of the GPUs' drivers. ---- */

enum zn_rated {
	ZN_RATED_LAUNCHES, /* without captured ones */
	ZN_RATED_SYSCALLS,
	ZN_RATED_MAPPED, /* bytes */
	ZN_RATED_UNMAPPED,
	ZN_RATED_SWITCHES,
	ZN_RATED_MIGRATIONS,
	ZN_RATED_SENT, /* bytes */
	ZN_RATED_RECEIVED,
	ZN_RATED_COUNT
};
struct zn_rated_row {
	uint32_t id;                   /* of the process */
	uint64_t ns;                   /* of the last tick in which it lived; 0: not known yet */
	uint64_t all[ZN_RATED_COUNT];  /* at the last tick */
	uint64_t tick[ZN_RATED_COUNT]; /* over it */
};
struct zn_gpu_time {
	uint64_t busy_ns, contended_ns;
};
struct zn_counter_rates {
	struct zn_rated_row row[ZN_PROCS_MAX];
	uint64_t tick_ns;
	struct zn_gpu_time gpu,
		gpu_tick; /* since the daemon started, and over the last tick; see struct zn_gpu_calls */
};
void zn_rates_tick(struct zn_counter_rates *s, struct zn_agg *a, uint64_t now_ns); /* after zn_agg_tick() */
struct zn_rates {
	uint64_t per_1000_s[ZN_RATED_COUNT];
	uint64_t syscalls_per_launch, switches_per_launch; /* in thousandths; not known without a launch */
	uint64_t
		churn; /* the smaller of bytes mapped and unmapped by the larger, in thousandths; not known without either */
};
/* Of the process that has this id in this row, over the last tick; false, and all not known: there was no whole one. */
bool zn_rates_of(const struct zn_counter_rates *s, uint32_t row, uint32_t id, struct zn_rates *to);
/* Share of the time with a process inside a GPU's driver in which two or more were, in parts per million, over the last
 * tick; not known if nobody was inside. */
uint64_t zn_rates_contention(const struct zn_counter_rates *s);
/* The device numbers of GPU drivers, a bit each, from a file such as /proc/devices: some are given out when a module is
 * loaded. NVIDIA's and DRM's fixed ones are always among them. */
void zn_gpu_majors_read(const char *path, uint64_t to[ZN_MAJOR_WORDS]);
void zn_rdma_majors_read(const char *path, uint64_t to[ZN_MAJOR_WORDS]); /* none where there is no such device */

#ifdef ZN_IN_model
/* One moment of counters that BPF changes; false: it was changed at each try. */
bool zn_gpu_calls_read(const struct zn_shared *s, struct zn_gpu_time *to);
#endif

/* ---- model/stalls.c (zn_stalls_): why a GPU is idle. ---- */

/* Why a process cannot go on: a signal or a debugger, its control group, or a sleep that no signal ends (stopped.c). */
enum zn_stop { ZN_STOP_NONE, ZN_STOP_SIGNAL, ZN_STOP_FROZEN, ZN_STOP_BLOCKED };
struct zn_json;
/* Of one process's launching threads: shares of the last tick in units of 1e-9, which add up to one, and sums since it
 * began. A cause that cannot be measured in this process is not known: its share is 0, and part of another one's. Of a
 * process that is spared, shares are an estimate from the time that was seen, and sums are of that time alone. */
struct zn_stall_ratios {
	uint32_t share[ZN_STALL_COUNT];
	bool known[ZN_STALL_COUNT];
	uint64_t seconds_ns[ZN_STALL_COUNT];
};
bool zn_stalls_shares(
	const struct zn_agg *a, uint32_t row, struct zn_stall_ratios *to); /* false: no time, or too little was seen */
struct zn_ranks;
/* Waits of a data loader were seen: PyTorch's, the only one that is known. */
bool zn_stalls_loader(const struct zn_agg *a, uint32_t row);
/* The share of the last tick in which its loader's workers were busy, in units of 1e-9; ZN_UNKNOWN: not known. */
uint32_t zn_stalls_workers_busy(const struct zn_agg *a, uint32_t row);
/* What a sentence about a process is made of. */
struct zn_stalls_summary {
	char who[24];                   /* "rank 3" or "process 4711" */
	bool asked;                     /* it is asked things over HTTP */
	uint32_t share[ZN_STALL_COUNT]; /* as of struct zn_stall_ratios */
	uint32_t workers;               /* of its data loader; 0: none are known */
	uint32_t worker_busy;           /* share, over the last tick; ZN_UNKNOWN: not known */
	uint32_t late_pid, late_rank;   /* whom it waits for; 0, and ZN_UNKNOWN: nobody stands out */
	uint64_t late_ns;               /* of the last tick, where that is known by when it issues */
	const struct zn_missing *waits_for,
		*missing;                   /* who is missing, and that this one is; NULL: nobody, it is not */
	const struct zn_all_wait *all_wait; /* with all others of this node; NULL: it does not */
	uint64_t stopped_ns;                /* since when it is stopped; 0: it is not */
	enum zn_stop stop;                  /* and by what */
	uint64_t now_ns;
};
#define ZN_SAYS_MAX 224
void zn_stalls_says(const struct zn_stalls_summary *f, char to[ZN_SAYS_MAX]);
struct zn_stopped;
/* Of the process of this row, whose ratios s are. k and stopped may be NULL. */
void zn_stalls_summary(const struct zn_agg *a, const struct zn_ranks *k, const struct zn_stopped *stopped, uint32_t row,
	const struct zn_stall_ratios *s, struct zn_stalls_summary *f);

#ifdef ZN_IN_model
/* Whom the process of this row waits for among the ranks that communicate: another one that was late for most of the
 * last tick, or that waits much less itself. False: nobody stands out. k: NULL for tests. */
bool zn_stalls_late(struct zn_agg *a, const struct zn_ranks *k, uint32_t row, uint32_t *pid, uint32_t *rank);
/* For how long in the last tick a rank of its communicators issued later than others; 0: none, or it is this one. */
uint64_t zn_stalls_late_issue(const struct zn_ranks *k, uint32_t tgid, uint32_t *pid, uint32_t *rank);
#endif

/* ---- model/progress.c (zn_progress_): when each process last did something for its work. ---- */

enum zn_progress_kind {
	ZN_PROGRESS_LAUNCH,
	ZN_PROGRESS_COPY,
	ZN_PROGRESS_ISSUE, /* calls to NCCL */
	ZN_PROGRESS_BATCH,
	ZN_PROGRESS_IO, /* bytes of files */
	ZN_PROGRESS_COUNT
};
struct zn_progress_row {
	uint32_t id; /* of the process; 0: none */
	uint64_t first_ns;
	uint64_t inside_ns; /* since when a thread of it was inside of the driver at each tick; 0: none is */
	uint64_t stuck_ns;  /* when the oldest such call began that was there at two ticks; 0: none was */
	uint64_t seen[ZN_PROGRESS_COUNT];     /* counters at the last tick */
	uint64_t moved_ns[ZN_PROGRESS_COUNT]; /* the tick at which they had moved; 0: never */
};
struct zn_progress {
	uint64_t tick_ns, before_ns; /* the last tick, and the one before */
	bool asks;                   /* for the calls that are under way */
	struct zn_progress_row row[ZN_PROCS_MAX];
};
void zn_progress_tick(struct zn_progress *g, struct zn_agg *a, uint64_t now_ns); /* after zn_agg_tick() */
/* Whether a process did this over the last tick. */
bool zn_progress_moved(const struct zn_progress *g, uint32_t row, uint32_t id, enum zn_progress_kind kind);
/* For how long a call to the GPU's driver has not come back, ns; 0: none that is longer than a tick. */
uint64_t zn_progress_stuck(const struct zn_progress *g, uint32_t row, uint32_t id);
/* When it did anything last, or began; 0: it is not known. */
uint64_t zn_progress_last(const struct zn_progress *g, uint32_t row, uint32_t id);

/* ---- model/ranks.c (zn_ranks_ zn_missing_ zn_all_wait): which rank the others wait for, and what it does instead.
 * ---- */

#define ZN_DOING_TEXT   96
#define ZN_THREADS_SEEN 64 /* of one process */
struct zn_thread_seen {
	uint32_t tid;
	char state; /* as in struct zn_procfs_stat */
	char name[16], place[48];
	char syscall[32]; /* number and the first argument, "running", or empty: not known */
};
struct zn_threads {
	uint32_t pid;
	bool done;
	uint32_t count, all; /* of thread[]; of the process */
	struct zn_thread_seen thread[ZN_THREADS_SEEN];
};
#define ZN_PLACE_BYTES 64 /* of the name of a function of the kernel */
/* A rank of a communicator that others may wait for. */
struct zn_missing {
	uint32_t slot, member; /* of struct zn_skew */
	uint64_t comm;         /* its hash */
	uint32_t tgid, row, id, rank;
	uint32_t waiters;    /* members that wait for it, a bit each; 0: nobody does, and the rest says nothing */
	enum zn_doing doing; /* at the last tick */
	enum zn_stop stop;   /* asleep: by what, if it cannot go on */
	bool cycle;          /* those it keeps waiting keep it waiting in another communicator */
	bool follows;        /* it waits itself, for somebody who does not wait for it */
	uint64_t since_ns;   /* for it: when the first of them issued what it has not, or when it ended */
	uint64_t collective_since_ns; /* likewise, for a collective; 0: nobody waits for one */
	uint64_t doing_ns;            /* since when it does nothing else */
	uint64_t issued;              /* collectives of it at the last tick */
	uint32_t pairs;               /* sends and receives of it, likewise */
	uint64_t gone_ns;             /* when its process ended; 0: it lives */
	uint32_t exit_code;           /* as in struct zn_proc; ZN_UNKNOWN: not known */
	uint64_t look_ns;             /* when /proc was asked last, and what it had used of the CPU by then */
	uint64_t cpu_ticks;
	char in[56]; /* asleep: in which call; empty: not known */
};
#define ZN_ALL_WAIT_TEXT 128
/* The ranks of a communicator on this node, all of which wait, and have issued the same. */
struct zn_all_wait {
	uint64_t comm;
	uint64_t since_ns;     /* the last launch, copy, call to NCCL or batch of any of them */
	uint32_t here, nranks; /* of this node, 0: they do not; of all, 0: not known */
};
struct zn_ranks {
	struct zn_agg *agg;
	const struct zn_progress *progress;
	const char *proc; /* "/proc"; NULL: there are no such processes */
	/* in which function of the kernel a process sleeps; NULL: nobody knows. The caller's to set */
	void (*place)(void *owner, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES]);
	void *owner;
	uint64_t tick_ns, interval_ns;
	uint64_t looked_ns;        /* of this tick, spent on looks into /proc */
	uint32_t first, next;      /* slots: where this tick begins; where the next one does, ZN_SKEWS_MAX: at 0 */
	uint64_t tick_hz_ns;       /* of one clock tick */
	uint64_t of[ZN_SKEWS_MAX]; /* hashes of the communicators at the last tick; 0: none */
	uint64_t longest_ns[ZN_SKEWS_MAX]; /* that others waited for a rank of it which came in the end */
	struct zn_missing missing[ZN_SKEWS_MAX][ZN_SKEW_RANKS];
	uint32_t waits_id[ZN_PROCS_MAX];                  /* of the process that this is of */
	const struct zn_missing *waits_for[ZN_PROCS_MAX]; /* by row: the one waited for the longest */
	const struct zn_missing
		*missing_of[ZN_PROCS_MAX]; /* by row: what it keeps others waiting for, if it is shown */
	struct zn_all_wait all_wait[ZN_SKEWS_MAX];
	const struct zn_all_wait *all_wait_of[ZN_PROCS_MAX]; /* by row; NULL: it does not wait with all others */
	/* as late_ns of struct zn_skew_rank, with lateness that goes on; over the last tick */
	uint64_t late_ns[ZN_SKEWS_MAX][ZN_SKEW_RANKS], late_tick_ns[ZN_SKEWS_MAX][ZN_SKEW_RANKS];
	/* of late_ns, what BPF has not added and will not; once so many collectives are done it has decided on all */
	uint64_t late_extra_ns[ZN_SKEWS_MAX][ZN_SKEW_RANKS], late_until[ZN_SKEWS_MAX][ZN_SKEW_RANKS];
	uint64_t done[ZN_SKEWS_MAX]; /* collectives that all ranks had issued at the last tick */
};
/* k is zero. All three live as long as it. */
void zn_ranks_init(struct zn_ranks *k, struct zn_agg *agg, const struct zn_progress *progress, const char *proc);
void zn_ranks_tick(struct zn_ranks *k, uint64_t now_ns); /* after zn_progress_tick() */
/* Whether others have waited for it for as long as a person would mind, and nobody else is to blame. */
bool zn_missing_shown(const struct zn_ranks *k, const struct zn_missing *m);
/* How late a rank was in all, a wait that goes on included; it never falls. k: NULL for tests. */
uint64_t zn_ranks_late(const struct zn_ranks *k, const struct zn_skew *s, uint32_t index, uint32_t member);
/* Whether they have waited for longer than a GPU's work usually takes. */
bool zn_all_wait_shown(const struct zn_ranks *k, const struct zn_all_wait *w);
/* With all other ranks of this node, for nobody on it; NULL: it does not, or not for long. */
const struct zn_all_wait *zn_ranks_all_wait(const struct zn_ranks *k, uint32_t row);
void zn_all_wait_says(const struct zn_all_wait *w, uint64_t now_ns, char to[ZN_ALL_WAIT_TEXT]);
void zn_all_wait_for(const struct zn_all_wait *w, char to[ZN_ALL_WAIT_TEXT]); /* what they may wait for */
/* What it does, as the rest of a sentence about it. */
void zn_missing_says(const struct zn_missing *m, char to[ZN_DOING_TEXT]);

#ifdef ZN_IN_model
/* Whom the process of this row waits for in the end; NULL: nobody. */
const struct zn_missing *zn_ranks_waited_for(const struct zn_ranks *k, uint32_t row);
#endif

/* ---- model/activity.c (zn_activity_): for how long each process had its GPU at work. ---- */

#define ZN_ACTIVITY_MS 50 /* between two looks */
struct zn_activity_row {
	uint32_t id;        /* of the process; 0: none */
	bool hangs;         /* at the last look: it waits for a rank that does not come */
	uint64_t calls;     /* that gave a GPU something to do, at the last look */
	uint64_t gave_ns;   /* the look at which there were more of them; 0: never */
	uint64_t wait_ns;   /* of its waits, at the last look */
	uint64_t busy_ns;   /* looks at which it had given its GPU something, and else its waits */
	uint64_t active_ns; /* the same, and a tenth of a second after it gave something, if it has not waited */
};
struct zn_activity {
	uint64_t look_ns, interval_ns;
	struct zn_activity_row row[ZN_PROCS_MAX];
};
/* k: NULL for tests. Waits for ranks are those of the last tick. */
void zn_activity_look(struct zn_activity *t, const struct zn_agg *a, const struct zn_ranks *k, uint64_t now_ns);
const struct zn_activity_row *zn_activity_of(const struct zn_activity *t, uint32_t row, uint32_t id); /* NULL: none */

/* ---- model/budget.c (zn_budget_ zn_spare_): what the probes may cost a process, and what is spared to keep to it. ---- */

#define ZN_BUDGET_LEAST (ZN_DUTY_ONE / 64) /* a part is measured in so much of the time at least */

/* Of a process, or of a server as ZN_SPENT_SERVER(): what its requests cost is apart from what it costs otherwise.
 * Costs and floors are ns a second: of a part that is measured all the time, and of one that is spared. */
struct zn_budget_row {
	uint32_t id;             /* of the process or the server; 0: none */
	uint32_t over_s, room_s; /* for how many looks in a row it has cost too much, or could be shown more of */
	uint64_t cost[ZN_SPARE_COUNT], floor[ZN_SPARE_COUNT];
	uint64_t before[ZN_SPARE_COUNT], spared_before; /* sums at the last look */
	uint64_t unseen_before[ZN_SPARE_COUNT];
	uint64_t calls, calls_before; /* what system calls cost; how many there were at the last look */
	uint64_t fixed;               /* what its hooked calls and its system calls cost, which nothing is spared of */
	uint64_t full;                /* what all would cost */
	uint64_t allowed;             /* what it may cost */
	uint32_t next;                /* row and 1 of its owner's next one; 0: there is none */
	uint32_t same; /* row and 1 of what is the same process; 0: it is a process, or a server, alone */
	int32_t carry[ZN_SPARE_COUNT]; /* what it is owed of its parts of the time, of ZN_DUTY_ONE */
};
/* Whose processes share a part of the node's budget. */
struct zn_budget_owner {
	uint32_t id;   /* as of struct zn_proc */
	uint32_t rows; /* row and 1 of one of them */
	uint64_t want; /* what all of them would cost, each at most its budget */
};
struct zn_budget {
	struct zn_agg *agg;
	uint64_t ppm;              /* of a core, for each process; 0: there is no budget */
	uint32_t cpus;             /* so many times of that for all together */
	uint64_t file_ns, call_ns; /* what a read or write costs, and a system call; 0: not known */
	uint64_t look_ns, slot_ns; /* when each was done last */
	uint64_t logged_ns;
	uint64_t random; /* the state of the random numbers; never 0 */
	uint32_t owner_count;
	struct zn_budget_owner owner[ZN_SPENT_ROWS];
	struct zn_budget_row row[ZN_SPENT_ROWS];
};
void zn_budget_init(struct zn_budget *b, struct zn_agg *agg, const struct zn_options *options, uint32_t cpus);
void zn_budget_tick(struct zn_budget *b, uint64_t now_ns); /* decides, once a second */
void zn_budget_slot(
	struct zn_budget *b, uint64_t now_ns); /* twenty times a second: what is measured until the next time */
/* What all but hooked calls cost a process now, or the requests of a server that is no process with a row, ns a second:
 * those of one that is are in what the process costs. */
uint64_t zn_budget_cost(const struct zn_budget *b, uint32_t row, uint32_t id);
bool zn_budget_knows(const struct zn_budget *b, uint32_t row, uint32_t id); /* false: what it costs is not known yet */
const char *zn_spare_label(enum zn_spare part);                             /* of labels.c */
/* What is kept of a process; NULL: nothing of it is or was spared. */
const struct zn_spent *zn_spare_spent(const struct zn_arena *a, uint32_t row, uint32_t id);
/* In what part of the time it is measured now, of ZN_DUTY_ONE. */
uint32_t zn_spare_duty(const struct zn_spent *s, enum zn_spare part);
uint32_t zn_spare_now(const struct zn_spent *s, enum zn_spare part); /* the same, in thousandths */
bool zn_spare_told(const struct zn_spent *s, enum zn_spare part);    /* it is or was spared */
/* In what part of the time that it lived it was, in thousandths: below 1000 if any is missing. */
uint32_t zn_spare_seen(const struct zn_spent *s, enum zn_spare part, uint64_t lived_ns);

/* ---- model/stopped.c (zn_stopped_): processes that cannot go on: stopped, frozen, or in uninterruptible sleep. ----
 *  */

#define ZN_STOPPED_AGAIN 16
struct zn_stopped {
	const char *proc; /* "/proc"; NULL: there are no such processes */
	/* In which function of the kernel a process sleeps, as of struct zn_ranks; NULL: nobody knows. The caller's to
	 * set */
	void (*place)(void *owner, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES]);
	void *owner;
	uint64_t tick_ns;
	uint32_t next;                                 /* of agg->row[]: where the next tick goes on */
	uint32_t again[ZN_STOPPED_AGAIN], again_count; /* rows whose place is known by the next tick */
	uint32_t id[ZN_PROCS_MAX];
	uint64_t since_ns[ZN_PROCS_MAX]; /* by row; 0: it is not */
	uint8_t kind[ZN_PROCS_MAX];      /* enum zn_stop */
};
/* Looks at processes that have done nothing for some seconds, as many as there is time for. After
 * zn_progress_tick(). */
void zn_stopped_tick(struct zn_stopped *s, const struct zn_agg *a, const struct zn_progress *progress, uint64_t now_ns);
uint64_t zn_stopped_since(const struct zn_stopped *s, uint32_t row, uint32_t id); /* 0: it is not */
/* What a state of proc(5) and the place of a sleep mean; place is empty where it is not known. */
enum zn_stop zn_stopped_kind(char state, const char *place);
const char *zn_stopped_label(enum zn_stop kind); /* in the snapshot */
const char *zn_stopped_says(enum zn_stop kind);  /* as behind "process 7": "is stopped by a signal or a debugger" */

/* ---- model/blocked.c (zn_blocked_): the thread of a process that has been in uninterruptible sleep longest. ---- */

#define ZN_BLOCKED_LEAST_NS (5 * ZN_NS_PER_S) /* a shorter sleep is no sign of anything */
struct zn_blocked_thread {
	uint32_t id;  /* of the process */
	uint32_t tid; /* 0: none of it sleeps so */
	uint64_t since_ns;
	uint64_t looked_ns;         /* when /proc was asked for one of its threads */
	char place[ZN_PLACE_BYTES]; /* the function of the kernel that it sleeps in; empty: not known, or not yet */
};
struct zn_blocked {
	const char *proc; /* "/proc"; NULL: there are no such threads */
	/* As of struct zn_stopped. The caller's to set. */
	void (*place)(void *owner, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES]);
	void *owner;
	const struct zn_stopped *stopped; /* knows of first threads that slept before anybody watched; or NULL */
	struct zn_arena *arena;           /* of this tick */
	uint64_t tick_ns;
	uint32_t looks, places; /* in this tick */
	struct zn_blocked_thread row[ZN_PROCS_MAX];
};
void zn_blocked_tick(struct zn_blocked *b, const struct zn_agg *a, uint64_t now_ns); /* after zn_stopped_tick() */
/* Of the process of this row; false: none of its threads has been in such a sleep for ZN_BLOCKED_LEAST_NS, or the one
 * that has waits for a child in vfork(), for a dump of its memory, or in a frozen control group. */
bool zn_blocked_oldest(const struct zn_blocked *b, uint32_t row, const struct zn_proc *p, struct zn_blocked_thread *to);

/* ---- model/startup.c (zn_startup_): what processes do from their start to the first steady launch. ---- */

/* Column 2 is the label `phase`. */
#define ZN_STARTUP_PHASES(X)                                                                                           \
	X(IMPORT, "import")   /* up to the first call of a hooked library */                                           \
	X(LIBRARY, "library") /* calls that load code for the GPU */                                                   \
	X(CONTEXT, "context") /* until it has a context */                                                             \
	X(MODEL, "model")     /* ticks that read files, or copy to the GPU */                                          \
	X(NCCL, "nccl_init")  /* calls that make communicators */                                                      \
	X(CAPTURE, "capture") /* ticks that capture graphs */                                                          \
	X(REST, "rest")
enum zn_startup_phase {
#define X(e, label) ZN_STARTUP_##e,
	ZN_STARTUP_PHASES(X)
#undef X
		ZN_STARTUP_COUNT
};
enum zn_startup_state { ZN_STARTUP_UNKNOWN, ZN_STARTUP_GOES_ON, ZN_STARTUP_OVER };
struct zn_startup_row {
	uint32_t id; /* of the process */
	enum zn_startup_state state;
	bool phases_known; /* it began after the daemon */
	struct zn_job_ref job;
	uint64_t start_ns, counted_ns; /* of the process; up to when its time is in a phase */
	uint64_t steady_ns, worked_ns; /* since when it may be steady, 0: it is not; its last tick with work */
	uint64_t phase_ns[ZN_STARTUP_COUNT], kept_ns[ZN_STARTUP_COUNT]; /* kept: as of steady_ns */
	uint64_t bytes, captured, load_ns, nccl_ns, launches;           /* at the last tick */
};
struct zn_startup {
	struct zn_agg *agg;
	uint64_t began_ns, tick_ns;
	struct zn_startup_row row[ZN_PROCS_MAX];
	struct zn_startup_row
		gone[ZN_JOBS_MAX]; /* by slot: the longest of processes whose row is another one's by now */
};
/* s is zero. */
void zn_startup_init(struct zn_startup *s, struct zn_agg *agg, uint64_t now_ns);
void zn_startup_tick(struct zn_startup *s, uint64_t now_ns);
const char *zn_startup_label(enum zn_startup_phase phase);
uint64_t zn_startup_sum(const struct zn_startup_row *r); /* of its phases, ns */
/* NULL: it is not known. */
const struct zn_startup_row *zn_startup_of(const struct zn_startup *s, uint32_t row, uint32_t id);
/* That of the job's process that took longest; NULL: none is known. */
const struct zn_startup_row *zn_startup_job(const struct zn_startup *s, struct zn_job_ref job);
/* It has launched nothing so far, and is not so old that this is its way. */
bool zn_startup_goes_on(const struct zn_startup *s, uint32_t row, uint32_t id);

/* ---- model/checkpoints.c (zn_checkpoint): times in which a job writes files and launches nothing. ---- */

struct zn_checkpoint_sum {
	uint64_t count, ns, bytes; /* one that goes on included */
	uint64_t last_ns, last_bytes;
};
struct zn_checkpoint_job {
	uint32_t serial;                   /* of the job; 0: of none */
	bool begun;                        /* it has launched something */
	struct zn_checkpoint_sum sum;      /* of those that are over */
	uint64_t first_ns, last_ns, bytes; /* of the one at hand; first_ns 0: there is none */
	bool launched, blocked;            /* in this tick */
	uint64_t written;
};
struct zn_checkpoint_row {
	uint32_t id; /* of the process */
	uint64_t launches, written;
};
struct zn_checkpoints {
	struct zn_agg *agg;
	uint64_t tick_ns;
	struct zn_checkpoint_row row[ZN_PROCS_MAX];
	struct zn_checkpoint_job job[ZN_JOBS_MAX + 1]; /* by slot of a job; the last one: no job */
};
void zn_checkpoints_init(struct zn_checkpoints *c, struct zn_agg *agg); /* c is zero */
void zn_checkpoints_tick(struct zn_checkpoints *c, uint64_t now_ns);    /* after zn_agg_tick() */
struct zn_checkpoint_sum zn_checkpoint_sum(const struct zn_checkpoint_job *g);
struct zn_checkpoint_sum zn_checkpoints_of(const struct zn_checkpoints *c, struct zn_job_ref job);

/* ---- model/causes.c (zn_causes_): what the time of jobs is lost to. ---- */

#define ZN_CAUSE_STEP_S 5
#define ZN_CAUSE_STEPS  180 /* that are kept: 15 minutes */
struct zn_cause_step {
	uint64_t time_ns; /* of all processes: each has one second in a second */
	uint64_t gpu_ns;  /* of it, waits for the GPU that are lost to nothing */
	uint64_t lost_ns[ZN_CAUSE_COUNT];
};
/* Numbers of sentences: each as of the last tick that lost time to what it explains. */
struct zn_cause_numbers {
	uint32_t workers;             /* of a loader */
	uint32_t workers_busy;        /* per cent; ZN_UNKNOWN: not known */
	uint32_t cpus;                /* that its process may use; 0: not known */
	uint32_t late_pid, late_rank; /* whom others wait for; 0: nobody stands out */
	bool late_likely;             /* others wait for it on their GPUs, which is not seen */
	enum zn_stall late_in;        /* what that one does for longer than the others; ZN_STALL_COUNT: nothing */
	uint32_t late_percent, others_percent; /* of its time, and of theirs */
	uint64_t retransmits;                  /* a second */
	uint64_t read_rate;                    /* bytes a second of a process that loads its data itself */
	struct zn_checkpoint_sum checkpoints;
	char mount[64]; /* where most of the time in files was, cut */
};
/* A job, or all processes of none. */
struct zn_cause_group {
	bool used;
	uint32_t serial;                  /* of the job; 0: of none */
	uint64_t lost_ns[ZN_CAUSE_COUNT]; /* since it was first seen */
	uint32_t steps;                   /* that are over */
	/* of the last tick */
	uint32_t processes;                /* that have launched something */
	uint32_t workers, workers_before;  /* of its loaders; in the tick before */
	uint64_t retransmits;              /* of all */
	uint64_t queue_ns;                 /* in run queues */
	uint32_t queue_pid;                /* who was the longest there; 0: nobody */
	uint32_t stopped;                  /* processes that cannot go on */
	uint32_t stopped_pid;              /* one of them, or that is blocked on a file; 0: none is */
	enum zn_stop stop;                 /* and by what */
	struct zn_all_wait all_wait;       /* here 0: not all wait */
	struct zn_missing missing;         /* whom others wait for that does not come; waiters 0: nobody */
	uint64_t stall_ns[ZN_STALL_COUNT]; /* of all its processes, lately */
	uint64_t workers_ns, launch_ns;    /* busy workers; time in launches */
	uint64_t files_ns, mount_ns;       /* that all its processes spent in operations on files; on those of mount */
	char mount[64];                    /* where most of that was, cut */
	struct zn_cause_numbers numbers;
	/* CPUs of those that waited for data in the last step, and in this one */
	struct zn_cpu_set cpus[2];
	/* of the last tick in which workers were busy */
	bool files_rule; /* their time is in files */
	/* of the tick before */
	bool network_rule;                        /* TCP sends much again */
	uint64_t network_count;                   /* so many segments a second */
	uint64_t stall_before_ns[ZN_STALL_COUNT]; /* stall_ns, as of the last tick */
	uint64_t sent;                            /* bytes over TCP in the tick at hand */
	uint64_t resent_lately, sent_lately;      /* segments times 256, and bytes: at each tick a quarter fades */
	uint64_t sent_long;                       /* bytes, of which a 32nd fades */
	bool throttle_rule;                       /* the time in run queues is that of a limit of its control group */
	uint32_t throttled_percent;               /* of one CPU's time, at the last look; at most 100 */
	uint64_t throttled_ns, throttle_look_ns;  /* of control groups, when they were looked at last; 0: never */
	uint64_t throttle_of;                     /* which ones these were */
	/* By its number modulo. The one at hand is not over; those that were not begun are not set. */
	struct zn_cause_step step[ZN_CAUSE_STEPS];
};
struct zn_cause_row {
	uint32_t id;                                                               /* of the process */
	uint64_t launch_ns, copy_ns, read_bytes, written_bytes, retransmits, sent; /* at the last tick */
	uint64_t timed, ran;                                                       /* launches, likewise */
	uint64_t stall_ns[ZN_STALL_COUNT]; /* lately: at each tick an eighth fades */
	uint64_t read_rate;                /* bytes a second, likewise */
	uint32_t cpus;                     /* on how many it may run; 0: not known */
	uint32_t cpus_step;                /* in which that was asked, plus one */
};
struct zn_causes {
	struct zn_agg *agg;
	const struct zn_progress *progress;
	const struct zn_ranks *ranks;             /* NULL: nothing is known of ranks (tests) */
	const struct zn_stopped *stopped;         /* NULL: nothing is known of that. The caller's to set */
	const struct zn_checkpoints *checkpoints; /* likewise */
	const char *proc;                         /* "/proc"; NULL: there are no such processes. The caller's to set */
	const struct zn_startup *startup;         /* likewise */
	uint64_t tick_ns, step_ns, interval_ns;
	uint32_t throttle_next; /* group that is looked at next */
	uint32_t cpus;          /* that each process may use, where /proc is not asked: proc is NULL; 0: not known */
	struct zn_cause_row row[ZN_PROCS_MAX];
	struct zn_cause_group group[ZN_JOBS_MAX + 1]; /* by slot of a job; the last one: no job */
};
/* c is zero. */
void zn_causes_init(
	struct zn_causes *c, struct zn_agg *agg, const struct zn_progress *progress, const struct zn_ranks *ranks);
void zn_causes_tick(struct zn_causes *c, uint64_t now_ns); /* after zn_ranks_tick() */
/* Adds what a job's processes spent in operations on the files of a mount over the last tick. */
void zn_causes_files(struct zn_causes *c, struct zn_job_ref job, uint64_t ns, const char *mount);
/* For how long the control groups of a process were kept from their CPUs so far. of: a number that tells such groups
 * apart, as processes of one job, or of none, may be in several. */
void zn_causes_throttled(struct zn_causes *c, struct zn_cause_group *g, uint64_t of, uint64_t ns);
/* The sum of the step at hand and the last ones before it. */
struct zn_cause_step zn_causes_window(const struct zn_cause_group *g, uint32_t steps);

/* ---- model/mounts.c (zn_mounts_): where the file systems that are used are mounted. ---- */

#define ZN_MOUNT_BYTES  256 /* of a mount point with its NUL, as it is shown: UTF-8; a longer one ends in a hash */
#define ZN_FSTYPE_BYTES 32
enum zn_mount_state {
	ZN_MOUNT_FREE,
	ZN_MOUNT_UNKNOWN, /* point is "unknown:MAJOR:MINOR" */
	ZN_MOUNT_HOST,    /* it is in the host's list */
	ZN_MOUNT_OTHER,   /* only in that of a process, as a container's own mounts are */
	ZN_MOUNT_GONE     /* it was in the host's list, and keeps its name */
};
struct zn_mount {
	uint32_t dev;   /* as zn_io_key.dev */
	uint32_t owner; /* whose share of the table it is of: the first one who used it */
	enum zn_mount_state state;
	bool fixed;       /* not from a list */
	bool rooted;      /* point is where the root of the file system is */
	uint32_t version; /* changes with the name; no two entries have the same */
	uint32_t
		cut; /* the version from which on it is another file system: what was counted before is not of this name */
	uint64_t used_ns; /* set it while series of the device exist: else the entry is free a minute later */
	uint32_t tgid;    /* whose list it is from; 0: the host's, or none */
	char point[ZN_MOUNT_BYTES], fstype[ZN_FSTYPE_BYTES];
	/* for the walk over a list */
	uint32_t ask
		[3]; /* processes whose lists may have it: the first is asked, and when it is gone, the next; 0: none */
	bool there, best_rooted;
	char best_point[ZN_MOUNT_BYTES], best_fstype[ZN_FSTYPE_BYTES];
};
struct zn_mounts {
	struct zn_io host; /* the host's list: poll() tells when it changes */
	struct zn_io timer;
	struct zn_loop *loop;
	const char *proc;
	void (*look)(void *owner); /* called before names change, and after it; NULL: nobody minds */
	void *owner;
	struct zn_mount mount[ZN_MOUNTS_MAX];
	struct zn_quota quota;
	uint16_t last[ZN_MOUNTS_MAX]; /* by the low bits of a device: where it was found last */
	uint32_t high, count;         /* entries that were ever used, and that are */
	uint32_t version;
	bool changed, fresh; /* the host's list must be read again; at once, for a device that is new */
	bool due;            /* somebody asked since lists were read */
	int walk_fd;         /* the list that is being read; below 0: none */
	uint32_t tgid;       /* whose it is; 0: the host's */
	uint32_t asking;     /* the entry whose users are asked next */
	bool skip;           /* up to the end of a line */
	size_t have;
	uint64_t walk_ns, rest_until_ns;
	char text[64 * 1024];
};
void zn_mounts_init(struct zn_mounts *m);
/* proc: "/proc". loop: NULL for tests: changes are not heard of, and what is left of a walk goes on at the next tick.
 * -errno: the list cannot be read, all devices are unknown. */
int zn_mounts_open(struct zn_mounts *m, struct zn_loop *loop, const char *proc);
void zn_mounts_close(struct zn_mounts *m);
/* The entry of a device, made if there is none; NULL: no room for this owner. tgid: who used it, or 0. elders: its
 * parent, and in the upper half the first process of its container; they are asked where it is gone. The name comes
 * later: watch the version. Reads nothing, so whoever goes through figures may call it. */
struct zn_mount *zn_mounts_use(struct zn_mounts *m, uint32_t dev, uint32_t tgid, uint64_t elders, uint32_t owner);
/* Reads the lists that may have the names that were asked for, for a slice of time; the rest follows by itself. look()
 * is called in it, and may call this again, which does nothing then. */
void zn_mounts_hurry(struct zn_mounts *m);
/* Names a device once and for all. NULL: no room. */
struct zn_mount *zn_mounts_fix(struct zn_mounts *m, uint32_t dev, const char *point, const char *fstype);
void zn_mounts_tick(struct zn_mounts *m, uint64_t now_ns);

/* ---- model/history.c (zn_history_): the last 15 minutes, for charts. ---- */

#define ZN_HISTORY_POINTS  180
#define ZN_HISTORY_STEP_MS 5000
/* One process over one step. */
struct zn_point {
	float rate;           /* launches per second */
	float p50_us, p99_us; /* of the launches of this step; 0: there was none */
};
/* One mapping made at the start, of which only what is used becomes resident. */
struct zn_history;
int zn_history_open(struct zn_history **h);
void zn_history_close(struct zn_history *h);
/* Takes a point of every process and GPU once a step is over. Call it after zn_agg_tick(), with a clock that goes on
 * while the machine is suspended: else older points would seem to be of later than they are. */
void zn_history_tick(struct zn_history *h, struct zn_agg *a, uint64_t now_ns);
/* The newest point of a row; NULL: none yet. */
const struct zn_point *zn_history_last(const struct zn_history *h, uint32_t row, uint32_t id);
uint64_t zn_history_steps(const struct zn_history *h); /* steps since the start: it changes when there are new points */
/* How many points there are of a row, and one of them: 0 ago is the newest. */
uint32_t zn_history_points(const struct zn_history *h, uint32_t row, uint32_t id);
const struct zn_point *zn_history_point(const struct zn_history *h, uint32_t row, uint32_t ago);
/* The same of the i-th GPU: its id, NULL after the last one; its used bytes may be ZN_NOT_KNOWN. */
const char *zn_history_gpu(const struct zn_history *h, uint32_t i, uint32_t *points);
uint64_t zn_history_gpu_used(const struct zn_history *h, uint32_t i, uint32_t ago);
uint64_t zn_history_end_ms(const struct zn_history *h); /* of the newest step, since 1970; 0: there is none */

/* ---- model/baseline.c (zn_baseline_ zn_baselines_): what is usual for a process, and how far from it the newest
 * step is. ---- */

#define ZN_BASELINES       13  /* signals */
#define ZN_BASELINE_POINTS 120 /* values that the level is of: 10 minutes, if none is missing */
#define ZN_BASELINE_WARM   36  /* values before the first score: 3 minutes */
#define ZN_EXCURSIONS      8   /* that are remembered */
#define ZN_ANOMALY_LIMIT   5   /* standard deviations; what is above it is shown, and is an excursion */
#define ZN_SCORE_NONE      INT32_MIN
#define ZN_SCORE_MAX       100000 /* scores are in thousandths of a standard deviation, above the level positive */
/* All of all processes: one mapping made at the start, of which only what is used becomes resident, 4 pages of a
 * process. */
struct zn_baselines;
int zn_baselines_open(struct zn_baselines **b);
void zn_baselines_close(struct zn_baselines *b);
/* Takes a step of every process once the history has one. Call it after zn_history_tick(), with the same clock. */
void zn_baselines_tick(
	struct zn_baselines *b, const struct zn_agg *a, const struct zn_history *history, uint64_t now_ns);
/* Of the newest step. ZN_SCORE_NONE: not known; also if b is NULL, or the row is not this process's. */
int32_t zn_baselines_score(const struct zn_baselines *b, uint32_t row, uint32_t id, uint32_t signal);
const char *zn_baseline_name(uint32_t signal);

#ifdef ZN_IN_model
/* A value x is taken as asinh(x / unit), and floor is the least spread, in thousandths of that. */
struct zn_baseline_scale {
	double unit;
	int32_t floor;
};
struct zn_excursion {
	int32_t peak; /* the farthest from the level, signed */
	uint32_t end; /* step */
	uint16_t steps;
};
struct zn_baseline {
	int16_t past
		[ZN_BASELINE_POINTS]; /* a ring; next: the place of the next one, and of the oldest once it is full */
	int16_t sorted[ZN_BASELINE_POINTS];
	uint16_t count, next;
	uint8_t before_next;
	bool scored;
	uint32_t scored_at; /* step */
	int32_t score;
	struct zn_excursion before[ZN_EXCURSIONS], now; /* now.steps 0: none is under way */
};
/* Takes the value of a step and tells its score by the values before it; zero is a valid baseline. ZN_SCORE_NONE: there
 * were too few. No finite number is no value: nothing changes, and the last score is shown up to 10 s longer. step
 * counts up all the same. */
int32_t zn_baseline_take(struct zn_baseline *b, double value, const struct zn_baseline_scale *scale, uint32_t step);
/* What is usual: the median of the last values. NaN: there were too few. */
double zn_baseline_level(const struct zn_baseline *b, const struct zn_baseline_scale *scale);
#endif

/* ---- model/xid.c (zn_xid_parse zn_xid_process zn_xids_ zn_amdgpu_): errors of GPUs, as their drivers report them in
 * the kernel's log: NVIDIA's by number (XIDs), amdgpu's by name. ---- */

#define ZN_PCI_BYTES  24   /* as in zernel_gpu_info: 0000:3b:00.0, the domain of up to 8 digits */
#define ZN_KMSG_BYTES 8192 /* the longest record */
/* Column 2 is the label `error`. */
#define ZN_AMDGPU_ERRORS(X)                                                                                            \
	X(PAGE_FAULT, "page_fault")                                                                                    \
	X(RING_TIMEOUT, "ring_timeout")                                                                                \
	X(RESET, "reset")                                                                                              \
	X(RESET_FAILED, "reset_failed")                                                                                \
	X(CORRECTABLE, "correctable")                                                                                  \
	X(UNCORRECTABLE, "uncorrectable")                                                                              \
	X(DEFERRED, "deferred")
enum zn_amdgpu_error {
	ZN_AMDGPU_NONE,
#define X(e, label) ZN_AMDGPU_##e,
	ZN_AMDGPU_ERRORS(X)
#undef X
};
const char *zn_amdgpu_label(enum zn_amdgpu_error e);
struct zn_xid {
	char pci[ZN_PCI_BYTES];
	uint32_t xid;
	bool nonfatal;                     /* the line itself says that nothing is broken: of 144 to 150, and of 154 */
	enum zn_amdgpu_error amdgpu;       /* NONE: it is an XID */
	uint64_t times, since_ns, last_ns; /* the first of them, and the last */
	uint32_t pid;                      /* of the last one, as the driver says; 0: it names none */
	char command[16];
	char job[ZN_JOB_NAME]; /* of that process; empty: none, or not known any more */
};
struct zn_xids {
	int fd;                 /* below 0: the log is not read */
	uint64_t kernel, other; /* records read: of the kernel itself, and of who writes to it */
	uint64_t lost;          /* times that records were overwritten, and errors without an entry */
	uint32_t count;
	struct zn_xid xid[ZN_XIDS_MAX];
	bool cut; /* the line at hand is too long */
	size_t len;
	char text[ZN_KMSG_BYTES];
};
/* path: /dev/kmsg, or a file or pipe of such records; needs CAP_SYSLOG where the kernel keeps its log from others
 * (sysctl kernel.dmesg_restrict), and later nothing. -errno: it is closed. */
void zn_xids_why(const char *path, int err, char to[ZN_TEXT_MAX]); /* what an error of open() means */
int zn_xids_open(struct zn_xids *x, const char *path);
void zn_xids_tick(struct zn_xids *x); /* never blocks, unless the path does */
/* Its entry; NULL: there is no room. */
struct zn_xid *zn_xids_add(struct zn_xids *x, const char *pci, uint32_t xid, bool nonfatal);
void zn_amdgpu_add(struct zn_xids *x, const char *pci, enum zn_amdgpu_error e);
void zn_xids_close(struct zn_xids *x);
/* The text of a record; false: it reports no error of a GPU. */
void zn_xid_process(struct zn_str text, uint32_t *pid, char command[16]); /* whom it names; 0 and empty: nobody */
bool zn_xid_parse(struct zn_str text, char pci[ZN_PCI_BYTES], uint32_t *xid);
enum zn_amdgpu_error zn_amdgpu_parse(struct zn_str text, char pci[ZN_PCI_BYTES]);

/* ---- model/xid_about.c (zn_xid_about): what they mean. ---- */

struct zn_xid_about {
	uint32_t xid;
	const char *class, *severity; /* application, memory, link, firmware or power; info, warning or critical */
	const char *says, *next;
};
/* nonfatal: as in struct zn_xid. NULL: nothing is known of it. */
const struct zn_xid_about *zn_xid_about(uint32_t xid, bool nonfatal);

/* ---- model/oom.c (zn_oom): what the kernel killed for want of memory. ---- */

#define ZN_OOMS_KEPT 4 /* of a job, the last ones */
#define ZN_OOM_TEXT  240
struct zn_oom_kill {
	struct zn_oom oom;
	uint64_t job[ZN_OOM_MEMORIES]; /* that its job had, at the last look before; ZN_NOT_KNOWN */
	char step[16];                 /* empty: of none */
};
struct zn_oom_job {
	uint32_t serial, kills;
	struct zn_oom_kill kill[ZN_OOMS_KEPT]; /* kills % ZN_OOMS_KEPT is the oldest, once there are as many */
};
struct zn_ooms {
	struct zn_oom_job job[ZN_JOBS_MAX + 1]; /* by slot; the last: of processes of no job */
};
/* The new entry, whose job's memory is not known yet. */
struct zn_oom_kill *zn_oom_add(struct zn_ooms *o, const struct zn_oom *oom, struct zn_arena *a);
/* The i-th newest of a job, or of none (serial 0). NULL: there is none. */
const struct zn_oom_kill *zn_oom_kill(const struct zn_ooms *o, struct zn_job_ref job, uint32_t i);
uint64_t zn_oom_bytes(const struct zn_oom *oom); /* that it had, of all kinds; ZN_NOT_KNOWN */
const char *zn_oom_label(enum zn_oom_scope scope);
/* Who was killed, with how much, and why, in a sentence without a stop. */
void zn_oom_says(const struct zn_oom_kill *k, char to[ZN_OOM_TEXT]);

/* ---- model/rdma.c (zn_rdma_): system calls on devices of RDMA, by name. ---- */

const char *zn_rdma_call(uint32_t key);  /* "create_qp", "ioctl" */
const char *zn_rdma_error(uint32_t key); /* "ENOMEM", "other" */
void zn_rdma_add(struct zn_failed *to, const struct zn_failed *from);

/* ---- model/failed.c (zn_failed_): calls of CUDA and HIP that failed. ---- */

#define ZN_FAILED_NAME    48
#define ZN_FAILED_RESULTS (ZN_FAILED_CUDA + 1)
struct zn_failed_result {
	uint32_t key; /* without a call; 0: others */
	uint64_t count;
};
/* The last result that a process was given, and what returned it first: once a context is lost, all its calls return
 * one result. */
struct zn_failed_call {
	uint32_t pid;
	uint32_t key; /* 0: none */
	uint64_t since_ns, last_ns;
	char comm[16];
};
/* As the vendor's header has it, or "other". */
void zn_failed_name(uint32_t key, char to[ZN_FAILED_NAME]);
struct zn_failed *zn_failed_of(struct zn_arena *a, uint32_t row, const struct zn_proc *p); /* NULL: nothing failed */
bool zn_failed_is_fatal(uint32_t key);                                                     /* the context is lost */
void zn_failed_count(struct zn_failed *f, uint32_t key, uint64_t n);
void zn_failed_add(struct zn_failed *to, const struct zn_failed *from); /* counts, those of RDMA too */
/* How often each result came, and last, as key 0, all that have no name or no place; all: of both. */
uint32_t zn_failed_results(const struct zn_failed *f, uint64_t all, struct zn_failed_result to[ZN_FAILED_RESULTS]);
/* False: nothing failed. */
bool zn_failed_last(const struct zn_failed *f, const struct zn_proc *p, struct zn_failed_call *to);
/* Of two processes of a job: which one is told of. One whose context is lost, and of these the first. */
bool zn_failed_before(const struct zn_failed_call *a, const struct zn_failed_call *b);

/* ---- model/stacks.c (zn_stacks_): what calls did, by the functions and lines that made them. ---- */

#define ZN_STACKS_NO_ROOT     UINT32_MAX
#define ZN_STACKS_NO_NODE     UINT32_MAX
#define ZN_STACKS_NO_FUNCTION UINT32_MAX
#define ZN_STACKS_ROOTS       2048
#define ZN_STACKS_NODES       32768
#define ZN_STACKS_NODES_ALL   (ZN_STACKS_NODES + ZN_STACKS_ROOTS) /* with that of what found no room, of each process */
#define ZN_STACKS_FUNCTIONS   8192
struct zn_stacks;
/* A process. */
struct zn_stacks_root {
	bool used;
	uint32_t pid, id, owner;
	struct zn_job_ref job;
	char comm[16];
	uint8_t minor;      /* CPython 3.minor; 0: it has none */
	uint32_t estimated; /* leaves of which not each call was looked at, a bit each */
	uint64_t start_ns;  /* when its process began, which may have run other programs since; 0: not known */
	uint64_t ended_ns;  /* 0: it lives */
	uint64_t folded;    /* stacks and sums that found no room */
	bool lacks;         /* something of it has found none since stacks were cut */
	bool pid_reused;    /* its number is a later process's by now */
};
/* A line of a function that was called from the line of its parent. line 0: it has none, below 0: not known any
 * more. */
struct zn_stacks_node {
	uint32_t root, parent, function;
	int32_t line;
};
struct zn_stacks_function {
	struct zn_str name, file;
	int first;
};
int zn_stacks_open(struct zn_stacks **to);
void zn_stacks_close(struct zn_stacks *s);
/* All that follows, between these two. */
void zn_stacks_lock(struct zn_stacks *s);
void zn_stacks_unlock(struct zn_stacks *s);
/* A new process, for which older ones may go that have ended; NO_ROOT: there is no room, or its owner has his share, of
 * processes that live. Texts are valid UTF-8. */
uint32_t zn_stacks_root(struct zn_stacks *s, const struct zn_stacks_root *who, uint64_t now_ns);
struct zn_stacks_root *zn_stacks_root_at(struct zn_stacks *s, uint32_t root); /* NULL: none any more */
/* What is there already, or new; where there is no room, NO_FUNCTION, and the parent: of an outermost function the
 * root's node `(no room)`, for which there always is, and which has nothing below it. What is added to a node that gets
 * no sum is added to one above it, or to that. */
uint32_t zn_stacks_function(struct zn_stacks *s, uint32_t root, struct zn_str name, struct zn_str file, int first);
uint32_t zn_stacks_node(struct zn_stacks *s, uint32_t root, uint32_t parent, uint32_t function, int line);
void zn_stacks_add(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf, const struct zn_stack_sum *what);
/* An example of what is below a node, of one leaf: a node below it. */
#define ZN_STACKS_EXAMPLE "[native example]"
bool zn_stacks_has_example(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf); /* or there is no room for one */
void zn_stacks_put_example(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf, uint32_t example);
/* Whether it has one, and how many were dropped because their leaf was not known; lacks: something was added to it, and
 * it has none. Nothing is entered by who asks. */
bool zn_stacks_find_example(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf, uint32_t *dropped, bool *lacks);
void zn_stacks_drop_example(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf);
uint64_t zn_stacks_lacked(const struct zn_stacks *s); /* how often something found no room */
/* Whether the owner of a root has room for one more example, with a third of his share left for what is counted. */
bool zn_stacks_spares(struct zn_stacks *s, uint32_t root);
void zn_stacks_tick(struct zn_stacks *s, uint64_t now_ns);
/* Of what was sampled, as much as is told: so much that all is what it is known to be, but no more than four times as
 * much, as then it says too little about the rest. */
uint64_t zn_stacks_scale(uint64_t part, uint64_t sampled, uint64_t exact);
/* Makes room if there is little. Where the generation changes by that or by a new root, nodes have moved: from where
 * they were in the generation before, or to NO_NODE; functions have too. */
void zn_stacks_room(struct zn_stacks *s, uint64_t now_ns);
uint32_t zn_stacks_generation(const struct zn_stacks *s);
uint32_t zn_stacks_moved(const struct zn_stacks *s, uint32_t node);
/* What is shown: of the last seconds, in whole windows of 5 s as far as they are kept, or with 0 since each process
 * began. How long that is; 0: since it began. */
uint64_t zn_stacks_show(struct zn_stacks *s, uint64_t seconds, uint64_t now_ns);
struct zn_stacks_shown {
	uint32_t node, root, leaf;
	uint32_t example; /* the innermost node of an example of what is below it; the node itself: there is none */
	struct zn_stack_sum sum;
};
/* Nodes of a stack with its example, at most, with [worker], (deeper), [thread ...], [native example], (truncated). */
#define ZN_STACKS_DEPTH (ZN_STACK_FRAMES + ZN_NATIVE_FRAMES + 5)
bool zn_stacks_shown(const struct zn_stacks *s, uint32_t i, struct zn_stacks_shown *to); /* false: there are no more */
/* What of it is asked for. */
struct zn_stacks_query {
	uint32_t pid;     /* 0: all; of processes that had one after another, the last one */
	uint32_t leaf;    /* ZN_LEAF_COUNT: all */
	uint64_t seconds; /* 0: since each process began */
	char job[64];     /* empty: all; zero-padded */
	bool no_job;      /* processes of no job alone */
};
const struct zn_stacks_node *zn_stacks_node_at(const struct zn_stacks *s, uint32_t node);
struct zn_stacks_function zn_stacks_function_at(const struct zn_stacks *s, uint32_t function);
struct zn_stacks_usage {
	uint64_t nodes, nodes_limit, functions, functions_limit, bytes, bytes_limit;
};
void zn_stacks_usage(struct zn_stacks *s, struct zn_stacks_usage *to); /* takes the lock itself */

/* ---- model/requests.c (zn_request_ zn_requests_ zn_server_at zn_server_by zn_server_is zn_server_series): servers
 * whose requests are counted. ---- */

/* The key of a route for the map `routes`; OTHER has none. */
uint64_t zn_request_route_key(enum zn_request_route route);
/* The server of an index, or NULL; its series of a route, or NULL: it had no such request. */
static inline const struct zn_server *zn_server_at(const struct zn_arena *a, uint32_t index)
{
	const struct zn_server *server = a->servers && index < ZN_SERVERS_MAX ? &a->servers[index] : NULL;

	return server && server->id && !server->gone_ns ? server : NULL;
}
const struct zn_server *zn_server_by_id(const struct zn_arena *a, uint32_t id);
bool zn_server_is(const struct zn_arena *a, uint32_t tgid);
const struct zn_request_series *zn_server_series(
	const struct zn_arena *a, const struct zn_server *server, enum zn_request_route route);
/* The histogram, or NULL: it has none. */
const struct zn_hist *zn_request_hist(struct zn_arena *a, uint32_t slot);
struct zn_requests {
	struct zn_arena *arena;
	bool (*ended)(uint32_t tgid); /* NULL: none ends by itself */
	uint32_t count;               /* servers that live */
};
void zn_requests_init(struct zn_requests *r, struct zn_arena *a);
/* A process that serves was found: it is watched from here on, if it is not already. */
void zn_requests_found(void *requests, const struct zn_server *server);
void zn_requests_tick(struct zn_requests *r, uint64_t now_ns);

/* ---- model/latency.c (zn_latency_): requests of servers in steps of 5 s, and of the last half minute. ---- */

/* What a server did in one step: durations by enum zn_request_duration, 0: there was none. */
struct zn_latency_point {
	float p50_ms[ZN_REQUEST_DURATIONS], p99_ms[ZN_REQUEST_DURATIONS];
	float rate, errors; /* requests that ended, and those of them with 5xx, per second */
	float in_flight;    /* at the end of the step */
};
#define ZN_LATENCY_SIGNALS 2
/* What a route did in the last 30 s to a minute, as far as the server was known by then. */
struct zn_latency_recent {
	uint64_t ns, done[ZN_OUTCOME_COUNT], events;
	struct zn_summary of[ZN_REQUEST_DURATIONS];
};
/* One mapping made at the start, of which only what is used becomes resident. */
struct zn_latency;
int zn_latency_open(struct zn_latency **l);
void zn_latency_close(struct zn_latency *l);
/* steps: zn_history_steps(). Call it after zn_history_tick(), with the same clock. */
void zn_latency_tick(struct zn_latency *l, struct zn_arena *a, uint64_t steps, uint64_t now_ns);
/* How many points there are of a server, and one of them: 0 ago is the newest. l may be NULL. */
uint32_t zn_latency_points(const struct zn_latency *l, uint32_t server, uint32_t id);
const struct zn_latency_point *zn_latency_point(const struct zn_latency *l, uint32_t server, uint32_t ago);
/* By index into zn_arena.request_series. NULL: not known yet, also if l is NULL. */
const struct zn_latency_recent *zn_latency_recent(const struct zn_latency *l, uint32_t series, uint32_t id);
/* How unusual the newest step of a server is, as zn_baselines_score(); signal below ZN_LATENCY_SIGNALS. l may be
 * NULL. */
int32_t zn_latency_score(const struct zn_latency *l, uint32_t server, uint32_t id, uint32_t signal);
const char *zn_latency_signal(uint32_t signal);
/* The 99th percentile, in ms: of the newest step (0: it had none), and what is usual (NaN: not known). */
double zn_latency_p99_ms(const struct zn_latency *l, uint32_t server, uint32_t id, uint32_t signal);
double zn_latency_usual_ms(const struct zn_latency *l, uint32_t server, uint32_t id, uint32_t signal);

/* ---- model/serving.c (zn_serving_): services: servers and engines that serve together. ---- */

/* What the finder says belongs together. root: index of the outermost server; above, engine[].root: index and 1; 0:
 * none. */
struct zn_joined {
	struct {
		uint32_t id, root, above;
	} server[ZN_SERVERS_MAX];
	struct {
		uint32_t id, root;
	} engine[ZN_PROCS_MAX]; /* by row */
};
#define ZN_SERVING_MARKS 6
struct zn_serving_mark {
	uint64_t at_ns, done, open_ns, work[ZN_WORK_COUNT];
};
struct zn_serving_view { /* of the service of the same index */
	bool leaves;
	bool per_request;  /* what follows is known: over the last minute, in thousandths */
	uint64_t requests; /* that ended in it */
	uint64_t work[ZN_WORK_COUNT];
	uint32_t marks;
	struct zn_serving_mark mark[ZN_SERVING_MARKS];
	uint64_t slow_ns; /* when the tick ended in which these did, the slowest first */
	uint32_t slow_count;
	struct zn_slow_request slow[ZN_SLOWEST];
};
struct zn_servings {
	struct zn_arena *arena;
	uint32_t refused; /* the last server that got no service */
	bool again;       /* something was locked: join them once more */
	struct zn_serving_view view[ZN_SERVICES_MAX];
};
void zn_serving_init(struct zn_servings *v, struct zn_arena *a);
void zn_serving_join(struct zn_servings *v, const struct zn_joined *j);
void zn_serving_tick(struct zn_servings *v, uint64_t now_ns);
/* The service of an index, its process that uses a GPU; NULL: there is none. */
const struct zn_serving *zn_serving_at(const struct zn_arena *a, uint32_t index);
const struct zn_proc *zn_serving_engine(const struct zn_arena *a, const struct zn_serving *s, uint32_t i);
const char *zn_serving_work_key(enum zn_work work);
/* Whether this kernel, and the options, let it be counted. */
bool zn_serving_measured(const struct zn_agg *a, enum zn_work work);
int zn_serving_work_decimals(enum zn_work work);

/* ---- model/slowness.c (zn_slowness_): what the requests of a server wait for, now and as a rule. ---- */

/* What a request waits for until its first event, or an event for the one before; on the average of the newest step
 * that had any. Column 2 is the key in JSON. Those of the engine are in the order of enum zn_stall. */
#define ZN_SLOW_PARTS(X)                                                                                               \
	X(UNREAD, "unread")                                                                                            \
	X(QUEUED, "front_runqueue")                                                                                    \
	X(CPU, "engine_cpu")                                                                                           \
	X(GPU, "engine_gpu")                                                                                           \
	X(DATA, "engine_data")                                                                                         \
	X(DIST, "engine_dist")                                                                                         \
	X(IO, "engine_io")                                                                                             \
	X(WAITS_CPU, "engine_runqueue")                                                                                \
	X(OTHER, "engine_other")
enum zn_slow_part {
#define X(e, key) ZN_SLOW_##e,
	ZN_SLOW_PARTS(X)
#undef X
		ZN_SLOW_PARTS
};
/* A figure now, and what is usual. NaN: not known. */
struct zn_slow_figure {
	double now, usual;
};
struct zn_slow { /* of a server, and a signal of latency.c */
	bool unusual;
	uint32_t over;                /* steps on end in which it was over the limit */
	struct zn_slow_figure p99_ms; /* of the newest step; the usual one */
	struct zn_slow_figure part_ms[ZN_SLOW_PARTS];
	struct zn_slow_figure held; /* the share of these events of which TCP kept bytes back */
};
struct zn_slow_server {
	struct zn_slow of[ZN_LATENCY_SIGNALS];
	struct zn_slow_figure busy;      /* the share of the time that the front end's main thread runs, where that does
					  * most of what the process does */
	struct zn_slow_figure in_flight; /* of the whole server */
	struct zn_slow_figure resent;    /* segments that TCP of its engines sends again, per second */
	struct zn_slow_figure driver;    /* threads of its engines inside ioctl() on a GPU, while they serve */
	struct zn_slow_figure contended; /* the share of the time that several processes of the node are inside */
};
/* What /proc says of a server: CPU time of the process; of its main thread, and how long that waited for a CPU. */
struct zn_front_times {
	uint64_t cpu_ns, main_ns, queued_ns;
};
/* One mapping made at the start, of which only what is used becomes resident: some 12 KiB of a server. */
struct zn_slowness;
int zn_slowness_open(struct zn_slowness **z);
void zn_slowness_close(struct zn_slowness *z);
/* Who tells these times, in place of /proc. False: not known. */
void zn_slowness_front(
	struct zn_slowness *z, bool (*front)(void *of, uint32_t tgid, struct zn_front_times *to), void *of);
/* Call it after zn_latency_tick(), with the same steps and clock. */
void zn_slowness_tick(
	struct zn_slowness *z, const struct zn_latency *l, const struct zn_agg *agg, uint64_t steps, uint64_t now_ns);
/* NULL: nothing is known of it; also if z is NULL. */
const struct zn_slow_server *zn_slowness_of(const struct zn_slowness *z, uint32_t server, uint32_t id);
const char *zn_slowness_part(enum zn_slow_part part);
/* Whose job it is about: that of the first engine of its service, else the server's own. */
struct zn_job_ref zn_slowness_job(const struct zn_arena *a, const struct zn_server *s);

/* ---- model/ports.c (zn_ports_take zn_ports_at zn_port_): ports of InfiniBand and RoCE devices. ---- */

/* Of which sum, the label, and the file below that of the port. */
#define ZN_PORT_COUNTERS(X)                                                                                            \
	X(SENT, BYTES, "sent", "counters/port_xmit_data")                                                              \
	X(RECEIVED, BYTES, "received", "counters/port_rcv_data")                                                       \
	X(PACKETS_SENT, PACKETS, "sent", "counters/port_xmit_packets")                                                 \
	X(PACKETS_RECEIVED, PACKETS, "received", "counters/port_rcv_packets")                                          \
	X(SYMBOL, ERRORS, "symbol", "counters/symbol_error")                                                           \
	X(RECOVERY, ERRORS, "link_recovery", "counters/link_error_recovery")                                           \
	X(DOWNED, ERRORS, "link_downed", "counters/link_downed")                                                       \
	X(RECEIVE, ERRORS, "receive", "counters/port_rcv_errors")                                                      \
	X(DISCARD, ERRORS, "discard", "counters/port_xmit_discards")                                                   \
	X(INTEGRITY, ERRORS, "link_integrity", "counters/local_link_integrity_errors")                                 \
	X(OVERRUN, ERRORS, "buffer_overrun", "counters/excessive_buffer_overrun_errors")                               \
	X(OUT_OF_SEQUENCE, ERRORS, "out_of_sequence", "hw_counters/out_of_sequence")                                   \
	X(PACKET_SEQUENCE, ERRORS, "packet_sequence", "hw_counters/packet_seq_err")                                    \
	X(ACK_TIMEOUT, ERRORS, "ack_timeout", "hw_counters/local_ack_timeout_err")                                     \
	X(NOT_READY, ERRORS, "receiver_not_ready", "hw_counters/rnr_nak_retry_err")                                    \
	X(OUT_OF_BUFFER, ERRORS, "out_of_buffer", "hw_counters/out_of_buffer")                                         \
	X(DUPLICATE, ERRORS, "duplicate_request", "hw_counters/duplicate_request")                                     \
	X(RETRY, ERRORS, "retry_exceeded", "hw_counters/retry_exceeded_err")                                           \
	X(CNP_SENT, CONGESTION, "cnp_sent", "hw_counters/np_cnp_sent")                                                 \
	X(CNP_HANDLED, CONGESTION, "cnp_handled", "hw_counters/rp_cnp_handled")                                        \
	X(ECN, CONGESTION, "ecn_marked", "hw_counters/np_ecn_marked_roce_packets")
enum zn_port_counter {
#define X(e, group, label, file) ZN_PORT_COUNTER_##e,
	ZN_PORT_COUNTERS(X)
#undef X
		ZN_PORT_COUNTER_COUNT
};
enum zn_port_group { ZN_PORT_BYTES, ZN_PORT_PACKETS, ZN_PORT_ERRORS, ZN_PORT_CONGESTION };
const char *zn_port_label(enum zn_port_counter c);
const char *zn_port_file(enum zn_port_counter c);
enum zn_port_group zn_port_group(enum zn_port_counter c);

#define ZN_PORTS_MAX 32
struct zn_port_reading {
	char device[24], link[16]; /* as in /sys; link: its kind */
	uint32_t port, active;
	uint64_t mbit;                         /* per second; 0: not said */
	uint64_t known;                        /* bit 1 << enum zn_port_counter */
	uint64_t value[ZN_PORT_COUNTER_COUNT]; /* as the kernel has it: data in words of four bytes */
};
struct zn_port {
	struct zn_port_reading now;            /* with the last value of each counter */
	uint64_t counted;                      /* a bit each: it was read */
	uint64_t total[ZN_PORT_COUNTER_COUNT]; /* since then; bytes are bytes */
	uint64_t round;
};
struct zn_ports {
	uint64_t round;  /* how often they were looked at */
	uint32_t count;  /* places in use */
	uint32_t beyond; /* ports that there is no room for */
	uint64_t at_ns;  /* when they were read last */
	struct zn_port port[ZN_PORTS_MAX];
	uint64_t sum[3]; /* over all: bytes sent, bytes received, errors */
	uint32_t summed; /* bit i: there was a port that counts what is in sum[i] */
};
void zn_ports_take(
	struct zn_ports *p, const struct zn_port_reading *r, uint32_t count, uint32_t beyond, uint64_t at_ns);
const struct zn_port *zn_ports_at(const struct zn_ports *p, uint32_t i); /* NULL: it has gone */

/* ---- model/hardware.c (zn_hardware_ zn_source_ zn_throttle_ zn_energy_): the state of the GPUs themselves, whoever
 * tells it. ---- */

const char *zn_throttle_label(enum zn_throttle t);

/* Who tells it, best first. SYS is one reading: the label is "sysfs" for figures of the PCI device, and "drm" for
 * others. */
enum zn_source { ZN_SOURCE_NVML, ZN_SOURCE_DCGM, ZN_SOURCE_SYS, ZN_SOURCE_COUNT };
const char *zn_source_label(enum zn_source s, enum zn_figure f);

/* Energy of the node that is counted by part of it. */
#define ZN_ENERGIES(X)                                                                                                 \
	X(CPU, "cpu")                                                                                                  \
	X(DRAM, "dram")                                                                                                \
	X(NODE, "node")
enum zn_energy {
#define X(e, name) ZN_ENERGY_##e,
	ZN_ENERGIES(X)
#undef X
		ZN_ENERGY_COUNT
};
const char *zn_energy_label(enum zn_energy e); /* also of ZN_ENERGY_COUNT: "gpu" */

struct zn_device {
	char id[48]; /* label gpu_id: that of struct zn_gpu, or the PCI address where CUDA and HIP do not know it */
	bool listed; /* it is among struct zn_gpus */
	struct zn_reading now;
	uint8_t from[ZN_FIGURE_COUNT]; /* enum zn_source of each figure that is known */
	uint64_t counted;              /* a bit each: counts that were shown once; their values and sources stay */
	uint64_t sources;              /* bit 1 << enum zn_source: they tell something now */
	uint64_t throttled_ns[ZN_THROTTLE_COUNT];
	bool throttle_known;
	uint32_t nvml;  /* 1 + index of what zernel-gpu says of it; 0: nothing */
	bool nvml_knew; /* it has told of this one */
	struct {
		uint64_t at_ns; /* 0: never */
		struct zn_reading reading;
		uint64_t fell; /* a bit each: counts that are less than before, since the last tick */
	} by[ZN_SOURCE_COUNT];
};
struct zn_hardware {
	const struct zn_gpus *gpus;
	uint32_t count;
	struct zn_device device[ZN_GPUS_MAX];
	uint64_t tick_ns;
	bool asked;                                        /* a dcgm-exporter */
	struct zn_scrape_done scrape;                      /* what it said last */
	uint64_t energy_uj[ZN_ENERGY_COUNT], energy_known; /* of the node; a bit each */
	const struct zn_nvml_said *nvml;                   /* what zernel-gpu said last; NULL: it never did */
	uint64_t nvml_ns;                                  /* when that was */
	bool nvml_heard;                                   /* not long ago */
	uint64_t nvml_taken, nvml_refused;                 /* messages, and who may not speak; both 0: nobody came */
	uint64_t blocked_ns;                               /* for how long the kernel does not answer; 0: it does */
	char blocked[64];                                  /* the file, when it does not */
	struct zn_ports ports;
};
void zn_hardware_init(struct zn_hardware *h, const struct zn_gpus *gpus);
/* Takes what a source says. False: it is of no GPU that is known, or there is no room; only SYS makes new ones
 * known. */
bool zn_hardware_take(struct zn_hardware *h, enum zn_source s, const struct zn_reading *r, uint64_t now_ns);
/* Takes what a dcgm-exporter said, if it is new; copy: zn_scrape_copy(). */
void zn_hardware_scraped(struct zn_hardware *h, const struct zn_scrape_done *from,
	bool (*copy)(struct zn_scrape_done *to, const struct zn_scrape_done *from), uint64_t now_ns);
/* Takes what zernel-gpu said; said stays there. */
void zn_hardware_heard(struct zn_hardware *h, const struct zn_nvml_said *said, uint64_t now_ns);
/* What is old goes, and of what is left the best source is shown. */
void zn_hardware_tick(struct zn_hardware *h, uint64_t now_ns);
/* The index of the device that has this gpu_id or UUID; ZN_GPUS_MAX: nothing is known of it. */
uint32_t zn_hardware_named(const struct zn_hardware *h, const char *id);
const struct zn_device *zn_hardware_of(
	const struct zn_hardware *h, const struct zn_gpu *gpu); /* NULL: none; h may be */
/* What the link carries now of what it could, in parts per million; width: by its lanes alone. ZN_NOT_KNOWN: not
 * said. */
uint64_t zn_hardware_link(const struct zn_device *d, bool width);
/* ---- alert/parse.c (zn_rules_): the language of alert rules. Text becomes a fixed program once; nothing is
 * allocated. ---- */

enum zn_rule_op {
	ZN_OP_NUMBER,
	ZN_OP_SELECT, /* of a selector; the next ones too */
	ZN_OP_QUANTILE,
	ZN_OP_RATE,
	ZN_OP_INCREASE,
	ZN_OP_SLOPE,
	ZN_OP_TIME_TO,
	ZN_OP_AVG, /* of left, by some labels; the next ones too */
	ZN_OP_MAX,
	ZN_OP_MIN,
	ZN_OP_SUM,
	ZN_OP_COUNT,
	ZN_OP_ADD, /* of left and right; the next ones too */
	ZN_OP_SUB,
	ZN_OP_MUL,
	ZN_OP_DIV,
	ZN_OP_GT, /* a condition; the next ones too */
	ZN_OP_GE,
	ZN_OP_LT,
	ZN_OP_LE,
	ZN_OP_EQ,
	ZN_OP_NE,
	ZN_OP_AND,
	ZN_OP_OR,
	ZN_OP_UNLESS
};
enum zn_unit { ZN_UNIT_NONE, ZN_UNIT_TIME, ZN_UNIT_RATIO, ZN_UNIT_BYTES }; /* of numbers, as they are written */
struct zn_rule_node {
	uint8_t op, left, right;
	uint8_t by_count;
	uint16_t by;       /* the first of its words; of a number its enum zn_unit */
	uint16_t selector; /* index */
	double number;     /* itself; the limit of time_to() */
};
enum zn_rule_part { ZN_PART_VALUE, ZN_PART_SUM, ZN_PART_COUNT };
struct zn_matcher {
	uint16_t name, values; /* words; the values are one after the other */
	uint8_t value_count;
	bool negated; /* none of them */
};
#define ZN_MATCHERS_MAX 8 /* of one selector */
struct zn_selector {
	char metric[64];
	enum zn_rule_part part; /* of a summary */
	uint8_t matcher_count;
	bool counter;       /* it only grows, but for resets */
	uint32_t q;         /* of a quantile, in per mille */
	uint64_t window_ns; /* of a past */
	uint64_t id;        /* equal for what has the same past */
	uint64_t began_ns;  /* since when it is looked at each tick, also by earlier rules; 0: not known */
	struct zn_matcher matcher[ZN_MATCHERS_MAX];
};
enum zn_clear { ZN_CLEAR_NOT /* when expr does not hold */, ZN_CLEAR_AT, ZN_CLEAR_WHEN };
struct zn_rule {
	char name[32];
	char severity[16];
	struct zn_str expr, summary, description, runbook; /* as written */
	struct zn_rule_node node[ZN_RULE_NODES];
	uint8_t node_count, root, clear_root;
	uint8_t first; /* comparison of expr: its left side is the value */
	enum zn_clear clear;
	bool below;       /* of the first comparison: the value must be below the limit */
	bool built_in;    /* not of a file */
	uint8_t unit;     /* enum zn_unit: that of limit */
	double limit;     /* of the first comparison, if that is a number; NaN: none */
	double clear_at;  /* no longer pending, or resolved, from here on; between the two nothing changes */
	uint64_t for_ms;  /* pending this long before it fires */
	uint64_t keep_ms; /* firing until it was clear for this long */
};
struct zn_rules {
	struct zn_rule rule[ZN_RULES_MAX];
	uint32_t rule_count;
	struct zn_selector selector[ZN_SELECTORS_MAX];
	uint32_t selector_count;
	struct zn_str word[ZN_RULE_WORDS];
	uint32_t word_count;
	char text[ZN_RULE_BYTES]; /* for a text that would not stay otherwise; the words and texts are slices of one */
};
/* What a rule may name. type: enum zn_metric_type, or below 0 if there is no such metric. */
struct zn_rule_names {
	int (*type)(const char *metric);
	double overhead_budget;
};

#ifdef ZN_IN_alert
/* Adds the rules of a text, which must stay. A rule takes the place of a built-in one of its name; disable NAME takes
 * one away. name: of the text, for why. -EINVAL with "name:line:column: what was expected" in why; r is then of no
 * use. */
int zn_rules_parse(struct zn_rules *r, const char *name, struct zn_str text, const struct zn_rule_names *names,
	char why[ZN_TEXT_MAX]);
/* The rules of a file on top of those that are there: read into r->text, then as zn_rules_parse(). */
int zn_rules_read(struct zn_rules *r, const char *path, const struct zn_rule_names *names, char why[ZN_TEXT_MAX]);
static inline uint64_t zn_rule_hash(uint64_t h, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < len; i++)
		h = (h ^ at[i]) * 0x100000001b3;
	h = (h ^ h >> 32) * 0xd6e8feb86659fd93;
	return h ^ h >> 32;
}
#endif

/* ---- alert/lexer.c (zn_lex_): words, signs and numbers of rules. ---- */

#ifdef ZN_IN_alert
#define ZN_LEX_BLANKS  " \t\r"
#define ZN_LEX_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define ZN_LEX_DIGITS  "0123456789"
#define ZN_NO_NODE     (-1)
struct zn_parser {
	struct zn_rules *to;
	struct zn_rule *rule;
	const struct zn_rule_names *names;
	const char *name; /* of the text */
	const char *start, *at, *end;
	const char *node_at[ZN_RULE_NODES];
	uint32_t mine; /* the first rule that this text may replace nothing of: its own rules begin there */
	int depth;     /* of brackets: in them an end of line is a blank */
	int nest;
	uint32_t fields; /* of the rule at hand, that were there: bit by index of the table */
	char *why;       /* not empty: it failed */
};
/* Only the first mistake is reported: later ones may follow from it. Always returns ZN_NO_NODE. */
__attribute__((format(printf, 3, 4))) int zn_lex_fail(struct zn_parser *p, const char *at, const char *format, ...);
/* "expected X, not 'Y'", Y being what stands there. */
int zn_lex_expected(struct zn_parser *p, const char *what);
/* Blanks and comments; the ends of lines too if `lines`, or, of the second, within brackets. */
void zn_lex_skip(struct zn_parser *p, bool lines);
void zn_lex_skip_here(struct zn_parser *p);
/* ..._here() says what comes, and takes nothing; what takes something fails with "expected WHAT". */
struct zn_str zn_lex_word_here(struct zn_parser *p);
struct zn_str zn_lex_word(struct zn_parser *p, const char *what); /* empty: there is none */
bool zn_lex_sign_here(struct zn_parser *p, const char *sign);
bool zn_lex_sign(struct zn_parser *p, const char *sign); /* if it is there */
bool zn_lex_need_sign(struct zn_parser *p, const char *sign, const char *what);
bool zn_lex_open(struct zn_parser *p, const char *bracket, const char *what);
bool zn_lex_close(struct zn_parser *p, const char *bracket, const char *what);
bool zn_lex_quoted(struct zn_parser *p, struct zn_str *to);
bool zn_lex_number_here(struct zn_parser *p);
bool zn_lex_number(struct zn_parser *p, double *number, enum zn_unit *unit);
bool zn_lex_duration(struct zn_parser *p, double *seconds, double max); /* 0 to max */
#endif

/* ---- alert/expr.c (zn_expr_): expressions of rules. ---- */

#ifdef ZN_IN_alert
bool zn_expr_condition(struct zn_parser *p, uint8_t *root); /* a whole expression that must be a condition */
int zn_expr_number(struct zn_parser *p);                    /* a node, or ZN_NO_NODE: no comparison */
bool zn_expr_is_number(const struct zn_rule_node *n);
double zn_expr_compute(enum zn_rule_op op, double a, double b); /* + - * /; NaN for a division by zero */
#endif

/* ---- alert/fill.c (zn_fill_): the places {{...}} in texts of rules. ---- */

#ifdef ZN_IN_alert
bool zn_fill_is_known(struct zn_str inside); /* a label, or the value, and maybe a form of it */
/* The next {{...}} in a text: its inside, and where it begins and ends. False: no more, or (inside->at NULL) not
 * closed. */
bool zn_fill_next(struct zn_str text, struct zn_str *inside, const char **from, const char **to);
/* A summary or description with {{label}}, {{value}} and {{value|percent}}, |bytes, |duration filled in. */
void zn_fill_text(struct zn_out *o, struct zn_str text, double value,
	struct zn_str (*label)(const void *of, struct zn_str), const void *of);
#endif

/* ---- alert/eval.c (zn_rule_): runs the rules. ---- */

/* Where values come from: all samples of a metric, by zn_metrics_walk() or from a saved page. A sample of a page has
 * the number itself and no hist: part and q say which. */
struct zn_rule_wanted {
	const char *metric;
	enum zn_rule_part part;
	uint32_t q; /* 0: no quantile is wanted */
};
struct zn_rule_source {
	void (*walk)(void *from, const struct zn_rule_wanted *wanted,
		void (*sample)(void *to, const struct zn_sample *s), void *to);
	void *from;
};
/* Whether a condition holds; and is the least of two, or the greatest. */
enum zn_truth { ZN_NO, ZN_UNKNOWN_TRUTH /* what it needs was not measured */, ZN_YES };
struct zn_element {
	double value;
	uint64_t key;   /* of all labels */
	uint64_t match; /* of those that are compared at the moment */
	uint32_t first; /* label */
	uint16_t count;
	uint8_t truth;
	uint8_t loose; /* the same with clear at in place of the first limit */
	bool many;     /* not the only one that matches */
};
struct zn_element_label {
	struct zn_label label;
	uint64_t hash, name_hash;
};
#define ZN_ELEMENT_LABELS (2 * ZN_ELEMENTS_MAX)
#define ZN_PAST_POINTS    10
struct zn_past {
	uint64_t key, seen_ns;
	double last, total; /* total: without the resets of a counter */
	uint32_t count, newest;
	uint32_t whose;
	struct {
		uint64_t ns;
		double total;
	} point[ZN_PAST_POINTS];
};
/* Scratch, and the past of series. Large, but touched only as far as it is used. Zero is valid. */
struct zn_rule_work {
	struct zn_rule_source source;
	uint32_t (*whose)(void *source_from, uint32_t pid); /* the owner of a process; NULL: nobody knows */
	const struct zn_rules *rules;
	const struct zn_rule_node *first; /* of a rule with clear at: its first comparison */
	double clear_at;
	uint64_t now_ns, wall_ms; /* of this evaluation */
	uint64_t last_ns;         /* of the one before */
	uint64_t lost;            /* instances and series without room */
	struct zn_element element[ZN_ELEMENTS_MAX];
	uint32_t element_count;
	uint32_t tally[ZN_ELEMENTS_MAX]; /* of an aggregation: what was added to an element */
	struct zn_element_label label[ZN_ELEMENT_LABELS];
	uint32_t label_count;
	char text[ZN_ELEMENT_TEXT];
	size_t text_len;
	uint32_t slot[2 * ZN_ELEMENTS_MAX]; /* elements by match, plus 1 */
	struct zn_past past[ZN_PASTS_MAX];
	uint32_t past_count;
	struct zn_quota past_quota;
	uint64_t refused_ns[ZN_QUOTA_OWNERS]; /* by owner: when a series of his found no room last */
	uint16_t past_slot[2 * ZN_PASTS_MAX]; /* plus 1 */
};
struct zn_instance {
	double value;
	enum zn_truth truth;
	bool clear;
	uint64_t key; /* of its labels */
	const struct zn_element_label *label;
	uint32_t label_count;
};
/* Evaluates a rule: each instance that it has now, whether its condition holds or not. */
void zn_rule_run(struct zn_rule_work *w, const struct zn_rule *rule,
	void (*instance)(void *to, const struct zn_instance *i), void *to);

#ifdef ZN_IN_alert
/* The owner of the process whose number the label pid is; ZN_OWNER_ROOT: there is none, so it is about the node. */
uint32_t zn_rule_whose(const struct zn_rule_work *w, struct zn_str pid);
/* After all rules: forgets the past of series that were not there. */
void zn_rule_sweep(struct zn_rule_work *w);
/* The key of a past is a hash: nobody who chooses labels may know it. */
void zn_rule_seed(uint64_t seed);
#endif

/* ---- alert/alert.c (zn_alert_ zn_alerts_): states of alerts, by rules that are evaluated every tick. ---- */

enum zn_alert_state { ZN_INACTIVE, ZN_PENDING, ZN_FIRING };
struct zn_alert {
	const struct zn_rule *rule;
	uint64_t id;  /* of this alert; never used again, not by a later daemon either */
	uint64_t key; /* of its labels */
	enum zn_alert_state state;
	double value;
	uint64_t since_ns;       /* of the state */
	uint64_t clear_since_ns; /* while cleared: since when */
	bool cleared;
	bool seen;
	bool summed;    /* it stands for the instances of its rule without a place of their own; value: how many */
	uint8_t room;   /* enum zn_alert_room */
	uint32_t whose; /* zn_rule_whose() */
	uint8_t label_count;
	char labels[ZN_ALERT_BYTES]; /* of its instance: names and values in turn, each with a NUL */
};
/* Two parts of the table, each shared by rules. Rules of severity "critical" may use both. */
enum zn_alert_room { ZN_ROOM_CRITICAL, ZN_ROOM_ALL, ZN_ROOM_COUNT };
struct zn_alerts {
	const struct zn_rules *rules;
	struct zn_rule_names names;
	const char *file; /* empty: the built-in rules alone */
	uint32_t count;   /* of alert[] */
	uint64_t lost;    /* times that an instance found no place; it is tried again at the next tick */
	uint64_t next_id;
	uint64_t run_ns; /* of the last tick */
	void (*changed)(
		void *owner, const struct zn_alert *alert); /* it fires, or is resolved: state; NULL: nobody asks */
	void *owner;
	/* What is taken of each, counted anew at every tick: of the two parts by rule, of what one rule may have by
	 * user. */
	struct zn_quota room[ZN_ROOM_COUNT], of_rule[ZN_RULES_MAX];
	uint64_t logged_ns[ZN_RULES_MAX]; /* when it was last logged that a rule has no place for all its instances */
	struct zn_rules book[2];          /* one is in use, the other is for a reload */
	struct zn_alert alert[ZN_ALERTS_MAX]; /* what is pending or firing; the rest is inactive and takes no place */
	struct zn_rule_work work;
};
extern const char zn_alerts_defaults[]; /* the built-in rules, as text */
/* Reads the rules: the built-in ones, then those of options->alerts if it is not empty. -EINVAL or -errno with why. */
int zn_alerts_open(
	struct zn_alerts *a, const struct zn_options *o, int (*type)(const char *metric), char why[ZN_TEXT_MAX]);
/* Reads them again. An alert goes on if there is still a rule of its name; else it is resolved. On an error, with why,
 * all stays as it was; else why says what is in use now. */
int zn_alerts_reload(struct zn_alerts *a, char why[ZN_TEXT_MAX]);
/* Evaluates every rule, a->work.source being set. An instance that its rule no longer delivers is resolved. */
void zn_alerts_tick(struct zn_alerts *a, uint64_t now_ns);
static inline uint64_t zn_alerts_lost(const struct zn_alerts *a)
{
	return a->lost + a->work.lost;
}
const char *zn_alert_state_label(enum zn_alert_state s);
const char *zn_alert_unit(const struct zn_alert *alert); /* of its value and limit; NULL: the rule does not say */
/* The highest state of a rule's instances. */
enum zn_alert_state zn_alerts_rule_state(const struct zn_alerts *a, const struct zn_rule *r);
/* alertname, severity, then the labels of the instance; without the node. How many; they live as long as the alert. */
size_t zn_alert_labels(const struct zn_alert *alert, struct zn_label to[ZN_LABELS_MAX]);
const char *zn_alert_label(const struct zn_alert *alert, const char *name); /* of the instance; "" if it has none */
bool zn_alert_label_add(struct zn_alert *alert, struct zn_str name, struct zn_str value); /* false: no room */
/* summary, description or runbook_url, filled in as of the last evaluation; nothing if the rule has none. What there is
 * no room for is cut off, and it ends in "...", for which there must be room. */
void zn_alert_annotation(struct zn_out *o, const struct zn_alert *alert, const char *name);

/* ---- alert/findings.c (zn_finding): alerts that are about a job. ---- */

#define ZN_FINDINGS_MAX 8 /* of a job; beyond, those of the least weight are left out */
struct zn_finding {
	const char *rule; /* its name */
	bool critical;
	const char *next, *metric; /* what to do; where its figure is */
	uint32_t more;             /* alerts of that rule that are about the job, too */
	char says[360];            /* the first one's summary, or a sentence of slow.c */
};
struct zn_finding_of {
	struct zn_agg *agg;
	struct zn_job_ref job;      /* serial 0: the processes of none */
	const char *job_id;         /* empty: none */
	const struct zn_ooms *ooms; /* NULL: not known */
};
bool zn_finding_concerns(const struct zn_finding_of *of, const struct zn_alert *a);
/* Those that fire, the weightiest first: how many. What a cause of lost time says already is not among them. */
size_t zn_findings(const struct zn_alerts *a, const struct zn_finding_of *of, struct zn_finding to[ZN_FINDINGS_MAX]);

/* ---- alert/why.c (zn_why_): what a cause of lost time means, and what to do about it, in words. ---- */

#define ZN_WHY_LEAST 10 /* per cent of the time: less is no cause that is worth a person's time */
#define ZN_WHY_MAX   240
struct zn_why {
	enum zn_cause cause;
	uint64_t lost_ns;   /* over the window */
	uint32_t percent;   /* of the processes' time in it */
	bool still;         /* nothing else goes on at this moment */
	const char *next;   /* what to do */
	const char *sure;   /* "measured", or "likely" where another explanation is possible */
	const char *metric; /* where its figure is shown */
	char says[ZN_WHY_MAX];
};
/* The causes of a job over a window, longest first: how many. */
size_t zn_why_list(const struct zn_cause_group *g, const struct zn_cause_step *window, uint64_t now_ns,
	struct zn_why to[ZN_CAUSE_COUNT]);
uint32_t zn_why_percent(uint64_t part, uint64_t all); /* rounded; 0 of nothing */
/* Where there is none, what the job's time is made of. */
void zn_why_none(const struct zn_cause_step *window, char to[ZN_WHY_MAX]);

/* ---- alert/slow.c (zn_slow_): what holds up the requests of a server, in words. ---- */

/* Of the servers of a job whose requests are unusually slow: the worst one, by signal. How many. */
size_t zn_slow_findings(const struct zn_slowness *z, const struct zn_arena *a, struct zn_job_ref job,
	struct zn_finding to[ZN_LATENCY_SIGNALS]);
/* Of one server; "": nothing is unusual. Returns whether there is something. */
bool zn_slow_says(const struct zn_slow_server *s, uint32_t signal, uint32_t pid, struct zn_finding *to);
/* What a request that was slow waited for. */
#define ZN_SLOW_TEXT 160
void zn_slow_waited(const struct zn_agg *agg, const struct zn_slow_request *r, char to[ZN_SLOW_TEXT]);

/* ---- worker/worker.c (zn_worker_): what the processes beside the daemon, sender.c and writer.c, have in common. ----
 * */

struct zn_queue;
struct zn_worker {
	pid_t pid;
	int fd;                 /* of a socket to the other process; below 0: there is none, or no more */
	struct zn_queue *queue; /* of messages to the child, in memory that both see */
	uint64_t place, origin; /* in the queue: of this process */
};

#ifdef ZN_IN_worker
/* Forks, before any thread. pid 0: this is the child. Or -errno. 8 MiB of messages may wait for the child, which takes
 * them also after the daemon has ended or was killed. */
int zn_worker_open(struct zn_worker *c);
void zn_worker_hang_up(struct zn_worker *c); /* closes the socket, by which the other process learns of it */
void zn_worker_close(struct zn_worker *c);   /* of the daemon; waits for nothing */
/* The first thing that a child does: signals that end the daemon leave it alone, and of the descriptors it keeps
 * standard error and the socket. name: up to 15 characters. */
void zn_worker_become(const char *name, int socket);
/* Of the daemon. Waits: true if something came or the other end has gone. */
bool zn_worker_wait(int fd, unsigned ms);
/* Of the daemon: a message of a head and a text. Never blocks. -EAGAIN: there is no room. */
int zn_worker_put(struct zn_worker *c, const void *head, size_t head_len, struct zn_str text);
/* Of the child: hears what woke it, or with waits, waits for that; then it takes all messages that are there. False:
 * the daemon has gone. */
bool zn_worker_woken(const struct zn_worker *c, bool waits);
/* The length of the next message, or 0. One that is longer than cap, or makes no sense, is lost with all that wait. */
size_t zn_worker_take(struct zn_worker *c, void *to, size_t cap);
#endif

/* ---- worker/writer.c (zn_writer_): a process that writes files: a slow disk stops nobody, and the daemon itself can
 * write none. ---- */

enum zn_directory { ZN_DIRECTORY_REPORTS, ZN_DIRECTORY_SPOOL, ZN_DIRECTORY_COUNT };
struct zn_writer {
	struct zn_worker worker;
	bool wanted[ZN_DIRECTORY_COUNT]; /* a folder was given; else what is written there is not lost, but not kept */
	bool available[ZN_DIRECTORY_COUNT]; /* and is there: each file is tried */
	int refused[ZN_DIRECTORY_COUNT];    /* -errno: why none could be made in it at the start */
	uint64_t lost;                      /* files that could not be handed over */
	const struct zn_writer_done *done;  /* what became of the others, told by the writer; NULL: there is none */
};
struct zn_writer_done {
	uint64_t written, removed, failed;
};
static inline uint64_t zn_writer_lost(const struct zn_writer *s)
{
	return s->lost + (s->done ? __atomic_load_n(&s->done->failed, __ATOMIC_RELAXED) : 0);
}
/* Starts it; before any thread and any filter. dir: the folder of each directory, made if it is missing, 0750; NULL or
 * empty: none. A folder that cannot be opened is not available. -errno with why: no process, or no memory. */
int zn_writer_open(struct zn_writer *s, const char *const dir[ZN_DIRECTORY_COUNT], char why[ZN_TEXT_MAX]);
/* Says of each folder why it cannot be written to: once the daemon runs, as a start that fails is one line. */
void zn_writer_warn(const struct zn_writer *s, const char *const dir[ZN_DIRECTORY_COUNT]);
void zn_writer_close(struct zn_writer *s); /* waits, bounded, until everything is written */
/* Hands a file of up to 256 KiB over: it is written whole or not at all (a new name, fsync, rename), 0640. Never
 * blocks. name: as of zn_job_file(), up to 63 bytes of [A-Za-z0-9._-], not beginning with a dot. False: it is lost, and
 * counted. */
bool zn_writer_write(struct zn_writer *s, enum zn_directory directory, const char *name, struct zn_str text);
bool zn_writer_remove(struct zn_writer *s, enum zn_directory directory, const char *name);

/* ---- worker/destination.c (zn_destination_): one destination: its queue, its connection, and when it is tried again.
 * Never blocks, but for the two files that say where names are. ---- */

/* Column 2 is the label `to`. */
#define ZN_OUTBOUNDS(X)                                                                                                \
	X(ALERTMANAGER, "alertmanager")                                                                                \
	X(WEBHOOK, "webhook")                                                                                          \
	X(OTLP, "otlp")
enum zn_outbound {
#define X(e, label) ZN_TO_##e,
	ZN_OUTBOUNDS(X)
#undef X
		ZN_TO_COUNT
};
const char *zn_outbound_label(enum zn_outbound to); /* of labels.c */
/* What became of a request, and the label `result`: ok is 2xx; retried is no answer, no HTTP, or 408, 429, 5xx; refused
 * is another status: it is dropped, as it would be refused again; failed is dropped for newer ones after it was
 * retried. */
#define ZN_SENTS(X)                                                                                                    \
	X(OK, "ok")                                                                                                    \
	X(RETRIED, "retried")                                                                                          \
	X(REFUSED, "refused")                                                                                          \
	X(FAILED, "failed")
enum zn_sent {
#define X(e, label) ZN_SENT_##e,
	ZN_SENTS(X)
#undef X
		ZN_SENT_COUNT
};
const char *zn_sent_label(enum zn_sent s); /* of labels.c */
struct zn_destination_done {
	uint64_t sent[ZN_SENT_COUNT];
	uint64_t dropped; /* deliveries that were not taken: refused, or pushed out of the queue */
	uint64_t settled; /* the number of the last delivery that was taken or refused */
	uint32_t queued;  /* deliveries, that under way included */
	uint32_t down;    /* 1: the last try failed */
};
#define ZN_DELIVERY_BYTES   (256 << 10)
#define ZN_DELIVERIES_STATE 2  /* those that hold all that is: a newer one makes the older one void */
#define ZN_DELIVERIES_OTLP  16 /* at one time; the oldest is dropped first */
#define ZN_DELIVERIES_MAX   ZN_DELIVERIES_OTLP
struct zn_delivery {
	uint64_t number;
	uint32_t len;
	bool tried;
	char text[ZN_DELIVERY_BYTES];
};
enum zn_destination_state {
	ZN_SENDER_IDLE,
	ZN_SENDER_ASKING,
	ZN_SENDER_CONNECTING,
	ZN_SENDER_TALKING,
	ZN_SENDER_WAITING
};
struct zn_destination {
	enum zn_outbound to;
	struct zn_url url;
	char target[ZN_TEXT_MAX + 16];
	char token[ZN_TOKEN_MAX + 1]; /* empty: none */
	struct zn_destination_done *done;
	struct zn_delivery *queue[ZN_DELIVERIES_MAX];
	unsigned depth, count;
	enum zn_destination_state state;
	int fd;          /* below 0: none */
	uint64_t due_ns; /* when it wants to be stepped whatever is ready; UINT64_MAX: never */
	bool kept;       /* the connection has carried an answer before */
	bool heard;      /* something came on it since */
	unsigned failures;
	uint64_t said_ns; /* when a refusal was last logged */
	size_t at, head_len;
	struct zn_reply reply;
	struct zn_peer peer[ZN_PEERS_MAX];
	size_t peer_count, peer_at;
	const char *hosts, *resolv_conf; /* the two files */
	struct zn_resolver resolver;
	unsigned name_at, server_at; /* server_at counts on through all attempts */
	uint8_t question[2][ZN_DNS_QUESTION];
	size_t question_len[2];
	bool answered[2], unsure;
	char head[2048];
};
static inline unsigned zn_destination_depth(enum zn_outbound to) /* deliveries that are queued at most */
{
	return to == ZN_TO_OTLP ? ZN_DELIVERIES_OTLP : ZN_DELIVERIES_STATE;
}
/* deliveries: zn_destination_depth() of them, the caller's, as done is, and both must stay. */
void zn_destination_init(struct zn_destination *s, enum zn_outbound to, const struct zn_url *url,
	struct zn_delivery *deliveries, struct zn_destination_done *done);
void zn_destination_push(
	struct zn_destination *s, struct zn_str text, uint64_t number); /* copies up to ZN_DELIVERY_BYTES */
struct pollfd zn_destination_poll(const struct zn_destination *s);
void zn_destination_step(struct zn_destination *s, short ready, uint64_t now_ns); /* after poll(), or when it is due */
bool zn_destination_busy(const struct zn_destination *s); /* it has deliveries, and does not wait after a failure */
void zn_destination_close(struct zn_destination *s);
/* The addresses of a URL's host by /etc/hosts, or another file like it, of which the first 16 MiB are read. How many. */
size_t zn_destination_hosts(const char *path, const struct zn_url *url, struct zn_peer to[ZN_PEERS_MAX]);

/* ---- worker/inquiry.c (zn_inquiry_): one question to NCCL's RAS service at a time. ---- */

/* What came of it, and the label `outcome`. The last ones are known before anybody is asked. */
#define ZN_INQUIRIES(X)                                                                                                \
	X(ANSWERED, "answered")                                                                                        \
	X(INCOMPLETE, "incomplete")                                                                                    \
	X(TOO_LONG, "too_long")                                                                                        \
	X(NOT_UNDERSTOOD, "not_understood")                                                                            \
	X(NO_ANSWER, "no_answer")                                                                                      \
	X(NOBODY, "nobody_listens")                                                                                    \
	X(FOREIGN, "of_another_user")                                                                                  \
	X(ELSEWHERE, "not_on_this_node")
enum zn_inquiry_outcome {
#define X(e, label) ZN_INQUIRY_##e,
	ZN_INQUIRIES(X)
#undef X
		ZN_INQUIRY_COUNT
};
const char *zn_inquiry_label(enum zn_inquiry_outcome o);
#define ZN_INQUIRY_TIMEOUT_S  5 /* that the service waits for ranks */
#define ZN_INQUIRY_PATIENCE_S (ZN_INQUIRY_TIMEOUT_S + 5)
#define ZN_INQUIRY_BYTES      (4u << 20) /* of an answer; what follows is not read */
struct zn_inquiry_ask {
	struct zn_peer peer;
	struct zn_ras_wanted want; /* its hosts are those of this node, whatever it says */
};
/* In memory that both processes see. */
struct zn_inquiry_done {
	uint64_t number; /* of the question that this is the answer to; 0: none yet. Written last */
	uint32_t outcome;
	uint32_t pad;
	uint64_t bytes;
	struct zn_ras_answer answer;
};
enum zn_inquiry_state { ZN_INQUIRY_IDLE, ZN_INQUIRY_CONNECTING, ZN_INQUIRY_TALKING };
struct zn_inquiry {
	enum zn_inquiry_state state;
	int fd;                              /* below 0: none */
	uint64_t due_ns;                     /* when no more is waited for; UINT64_MAX: nobody is asked */
	uint64_t number, bytes, parse_bytes; /* bytes that came in all; of the document */
	struct zn_inquiry_ask ask;
	struct zn_inquiry_done *done;
	int list[2];   /* zn_inquiry_open_lists(): nobody but this node is asked */
	unsigned step; /* commands that were answered */
	size_t reply_len;
	char reply[64]; /* to a command, its beginning */
	struct zn_ras_parse parse;
};
/* What the kernel says of this node's addresses, to be read as often as is wanted. Below 0: it says nothing. */
void zn_inquiry_open_lists(int list[2], const char *proc);
/* The addresses that this node has now, those of the loopback first: how many. */
uint32_t zn_inquiry_hosts(const int list[2], char to[ZN_RAS_HOSTS][ZN_RAS_HOST]);
/* done: stays; NULL: nobody is ever asked. Before files and system calls are restricted. */
void zn_inquiry_init(struct zn_inquiry *q, struct zn_inquiry_done *done);
/* One that is under way is given up. */
void zn_inquiry_begin(struct zn_inquiry *q, const struct zn_inquiry_ask *ask, uint64_t number, uint64_t now_ns);
struct pollfd zn_inquiry_poll(const struct zn_inquiry *q);
void zn_inquiry_step(struct zn_inquiry *q, short ready, uint64_t now_ns); /* after poll(), or when it is due */
void zn_inquiry_close(struct zn_inquiry *q);

/* ---- worker/scrape.c (zn_scrape_): asks a dcgm-exporter for its page. ---- */

const char *zn_scrape_label(enum zn_scrape_outcome o);
bool zn_scrape_copy(struct zn_scrape_done *to, const struct zn_scrape_done *from); /* false: not now */
enum zn_scrape_state { ZN_SCRAPE_IDLE, ZN_SCRAPE_CONNECTING, ZN_SCRAPE_TALKING };
struct zn_scrape {
	enum zn_scrape_state state;
	int fd; /* below 0: none */
	struct zn_url url;
	struct zn_peer peer;
	uint64_t due_ns, begun_ns; /* when it is asked, or no more waited for; UINT64_MAX: never */
	size_t bytes, head_len;
	unsigned empty_line; /* line ends that followed one another */
	bool in_body;
	char head[12]; /* "HTTP/1.1 200" */
	struct zn_dcgm_parse parse;
	struct zn_scrape_done *done;
};
/* url: empty: nobody is asked. False: its host is no address, and no name of /etc/hosts. Before files are out of
 * reach. */
bool zn_scrape_init(struct zn_scrape *s, const char *url, struct zn_scrape_done *done);
struct pollfd zn_scrape_poll(const struct zn_scrape *s);
void zn_scrape_step(struct zn_scrape *s, short ready, uint64_t now_ns); /* after poll(), or when it is due */
void zn_scrape_close(struct zn_scrape *s);

/* ---- worker/sender.c (zn_sender_): a process of its own that makes connections, as the daemon itself may not. ----
 * */

struct zn_sender {
	struct zn_worker worker;
	unsigned destinations[ZN_TO_COUNT];     /* destinations of each kind */
	uint64_t number[ZN_TO_COUNT];           /* of the last delivery handed over */
	uint64_t lost[ZN_TO_COUNT];             /* deliveries that could not be handed over */
	const struct zn_destination_done *done; /* by destination, those of the first kind first; NULL: none */
	/* at the last tick, of all destinations of a kind: sums, but settled is the least; down: how many are */
	struct zn_destination_done sum[ZN_TO_COUNT];
	const struct zn_inquiry_done *inquiry; /* NULL: nobody is asked */
	uint64_t inquiry_number;               /* of the last question */
	const struct zn_scrape_done *scrape;   /* NULL: no dcgm-exporter is asked */
};
/* Starts it if any destination is given, or --ras is on; before any thread and any filter. -errno with a line in
 * why. */
bool zn_sender_wanted(const struct zn_options *o); /* a destination is given */
bool zn_sender_sends(const struct zn_options *o);  /* one that gets the token: no dcgm-exporter */
int zn_sender_open(struct zn_sender *c, const struct zn_options *o, char why[ZN_TEXT_MAX]);
void zn_sender_close(struct zn_sender *c); /* what waits gets 2 s to be sent */
/* Reads the file of the token again, which the next request has then; says in why what came of it, or nothing if there
 * is no such file. On an error the old token stays. */
int zn_sender_reload(struct zn_sender *c, const struct zn_options *o, char why[ZN_TEXT_MAX]);
/* Hands a body over to all destinations of a kind. Never blocks. Its number, or 0: it is lost, and counted. */
uint64_t zn_sender_send(struct zn_sender *c, enum zn_outbound to, struct zn_str text);
/* Hands a question over. Never blocks. Its number, which c->inquiry has once it is answered, or 0: it is not asked. */
uint64_t zn_sender_ask(struct zn_sender *c, const struct zn_inquiry_ask *ask);
void zn_sender_tick(struct zn_sender *c); /* brings sum up to date; notices that the sender has ended */
static inline uint32_t zn_sender_down(const struct zn_sender *c, enum zn_outbound to)
{
	return c->worker.fd < 0 ? c->destinations[to] : c->sum[to].down; /* none works without it */
}
static inline uint64_t zn_sender_lost(const struct zn_sender *c, enum zn_outbound to) /* deliveries that nobody took */
{
	return c->lost[to] + c->sum[to].dropped;
}

/* ---- worker/reader.c (zn_reader_): a process that reads what users may hold up, and that has a time limit for it.
 * ---- */

struct zn_reader {
	int fd;
	size_t bytes;
	void *shared, *page; /* page: of the request and its answer, in memory that both see */
	uint32_t number;
};
/* Starts it, before any thread and any filter. answer: in that process, turns a request into its answer. */
int zn_reader_open(struct zn_reader *r, size_t bytes, void (*answer)(void *page));
/* Waits for the answer to what is in the page. -ETIMEDOUT: what it read held it up, and it is started anew. Else
 * -errno. */
int zn_reader_ask(struct zn_reader *r);
void zn_reader_hang_up(struct zn_reader *r); /* by another thread: nothing is asked any more */
void zn_reader_close(struct zn_reader *r);

/* ---- worker/sandbox.c (zn_sandbox_): what is given up once everything is open. ---- */

uint64_t zn_sandbox_capable(void); /* bit 1 << CAP_...: what this thread may do now */
/* Capabilities are per thread: those that it starts later have what it has then. */
int zn_sandbox_capabilities(bool sys_admin);
/* First the calling thread alone, while another one loads programs; then all of them, called by the same one. */
enum zn_sandbox_threads { ZN_SANDBOX_THIS_THREAD, ZN_SANDBOX_ALL_THREADS };
int zn_sandbox_system_calls(enum zn_sandbox_threads of);

/* What the thread of the loop may still open files in: the first that are added. */
struct zn_sandbox_folders {
	int fd[64]; /* below 0: it is not there */
	size_t count;
};
void zn_sandbox_folder(struct zn_sandbox_folders *f, const char *path);
void zn_sandbox_folder_of(struct zn_sandbox_folders *f, const char *path); /* that of a file; "": none */
/* Takes from the calling thread, once all others run and before the system calls are filtered, all capabilities but
 * those for tables and for reading, and all files but those below the folders, which are closed: the kernel counts the
 * memory of other processes among them. 0, or -errno and nothing is taken: the kernel has no Landlock, or, -EACCES, the
 * thread would not see other processes (hidepid=). */
int zn_sandbox_loop(struct zn_sandbox_folders *f);
/* Before the two above: with this socket the loop may bind() to this port, and listen(). */
void zn_sandbox_listen(int fd, uint16_t port);

#ifdef ZN_IN_worker
/* For the process that writes files, which keeps no capability: it makes, renames and removes files, where the kernel
 * has Landlock in these folders alone (below 0: none), and talks over descriptors that are open. */
int zn_sandbox_writer(const int *folder, size_t count);
/* For the process that makes connections, which keeps no capability: sockets of IPv4 and IPv6, and files to read, where
 * the kernel has Landlock those in these folders alone (below 0: none). */
int zn_sandbox_sender(const int *folder, size_t count);
/* For the process that starts readers of users' memory: it keeps the right to do that. */
int zn_sandbox_readers(void);
/* For a reader itself, after that: files to read, and one socket. */
int zn_sandbox_reader(void);
/* For the process that reads /sys, which may read the files of root: files and folders below this one alone. */
int zn_sandbox_gauge(int folder);
#endif

/* ---- worker/sysfs.c (zn_sysfs_): what a tree like /sys says of GPUs and of energy. ---- */

#define ZN_ZONES_MAX 32 /* zones of RAPL, and meters of power */
/* In memory that the daemon sees. Each side believes the other one's numbers within their limits alone. */
struct zn_sysfs_seen {
	uint64_t version; /* odd: it is being written */
	uint64_t round_ns;
	uint32_t count;
	uint32_t pad;
	struct zn_reading gpu[ZN_GPUS_MAX];
	uint64_t energy_uj[ZN_ENERGY_COUNT], energy_known;
	uint64_t ports_round; /* when ports were looked at; 0: never */
	uint32_t port_count, ports_beyond;
	struct zn_port_reading port[ZN_PORTS_MAX];
};
/* What is being read, since when (0: nothing), outside of what has a version. */
struct zn_sysfs_at {
	uint64_t since_ns;
	char file[64];
};
#ifdef ZN_IN_worker
struct zn_sysfs_gpu {
	char pci[16];
	char driver[8];
	char card[64];                /* its folder for DRM, below the device's; empty: none */
	char hwmon[64];               /* likewise, of hwmon */
	uint64_t power_ns, energy_uj; /* when the power was read last; the sum over time */
	bool counts;                  /* hwmon has a counter of energy */
	bool driven;                  /* its driver had it at the last look */
	bool is_virtual;              /* it is a function that another device makes and takes away */
	bool lost;                    /* it went all the same, or answers no more */
};
struct zn_sysfs_zone {
	char path[96]; /* below the root, of its file */
	enum zn_energy part;
	uint64_t last,
		range; /* of RAPL: where it begins anew; 0: it is a meter of power, or a counter that does not wrap */
	uint64_t unit; /* microjoules of one */
	bool power;    /* microwatts: they are summed up over time */
	uint64_t last_ns; /* 0: not read yet */
};
struct zn_sysfs {
	int root;
	uint32_t rounds;
	struct zn_sysfs_gpu gpu[ZN_GPUS_MAX];
	struct zn_sysfs_zone zone[ZN_ZONES_MAX];
	uint32_t zone_count;
	struct zn_sysfs_seen seen; /* made here, and then copied to where the daemon sees it */
	struct zn_sysfs_at *at;
};
/* root: a folder like /sys, open. at: told before each file is read. */
void zn_sysfs_init(struct zn_sysfs *s, int root, struct zn_sysfs_at *at);
/* Reads what is due into s->seen: what changes fast each time, links, errors and what is there at all each tenth or
 * sixtieth time. */
void zn_sysfs_round(struct zn_sysfs *s, uint64_t now_ns);
#endif

/* ---- worker/companion.c (zn_companion_): hears what zernel-gpu says, in the process that reads /sys. ---- */

#define ZN_COMPANION_OWNER "/run/zernel-gpu" /* who owns this folder may speak, and root */
/* In memory that the daemon sees. */
struct zn_companion_seen {
	uint64_t version; /* odd: it is being written; 0: nothing was heard yet */
	uint64_t heard;   /* messages that were taken */
	uint64_t refused; /* those that were not, and connections of others */
	uint64_t heard_ns;
	struct zn_nvml_said said; /* the last one */
};
#ifdef ZN_IN_worker
struct zn_companion {
	int listener, fd;  /* below 0: none */
	unsigned left;     /* connections that are looked at until the next round */
	uint64_t spoke_ns; /* when who is connected said something last */
	const char *owner; /* a folder; who owns it may speak */
	struct zn_companion_seen seen;
};
/* path: of the socket; empty: nobody is heard. -errno: nobody is. */
int zn_companion_open(struct zn_companion *c, const char *path, const char *owner);
/* Who connects and what is said by now. True: c->seen has changed. */
bool zn_companion_round(struct zn_companion *c, uint64_t now_ns);
void zn_companion_close(struct zn_companion *c);
#endif

/* ---- worker/gauge.c (zn_gauge_): a process of its own that reads /sys, where a driver that hangs keeps whoever asks.
 * ---- */

#define ZN_GAUGE_MS 1000 /* from one round to the next */
struct zn_gauge_shared;
struct zn_gauge {
	struct zn_worker worker;
	const struct zn_gauge_shared *shared; /* NULL: there is none */
	uint64_t round_ns, ports_round;       /* of the last round that was taken */
	struct zn_sysfs_seen seen;
	struct zn_companion_seen companion;
	char told[128];   /* what zernel-gpu said that was logged last */
	uint64_t told_ns; /* when */
};
/* Starts it, before any thread and any filter. root: a folder; empty: none is started. control: path of the control
 * socket, beside which zernel-gpu finds its own; empty: nobody is heard. -errno with a line in why. */
int zn_gauge_open(struct zn_gauge *g, const char *root, const char *control, char why[ZN_TEXT_MAX]);
void zn_gauge_tick(struct zn_gauge *g, struct zn_hardware *to, uint64_t now_ns);
void zn_gauge_close(struct zn_gauge *g);

/* ---- probe/entry.c (zn_entry_ zn_place_ zn_insn_): where a probe on a function costs least. ---- */

/* Where the probe goes, and what stands there. */
struct zn_entry {
	uint32_t at; /* bytes behind the function's entry */
	enum zn_insn first;
};
/* A place behind the entry is taken only where a probe costs less there, and where it is the same as at the entry: what
 * comes before it changes neither arguments nor stack nor return address and leads nowhere else, the place lies before
 * `room`, where another symbol may begin, and no instruction of the function jumps to it. code: all of the function,
 * `len` bytes, at most ZN_ENTRY_BODY; 0 of them: nothing is known. Whatever the bytes are, only those are read. */
struct zn_entry zn_entry_of(const uint8_t *code, size_t len, uint64_t room); /* for this machine's instructions */
struct zn_entry zn_entry_of_x86(const uint8_t *code, size_t len, uint64_t room);
struct zn_entry zn_entry_of_arm64(const uint8_t *code, size_t len, uint64_t room);
const char *zn_insn_label(enum zn_insn first);

#ifdef ZN_IN_probe
#define ZN_ENTRY_BODY 16384 /* bytes of a function that are looked at; a longer one is hooked at its entry */
/* The place in a file, of a function that zn_elf_symbols() found there. offset 0: there is none, or the file changes.
 * Not thread-safe: uses a static buffer. */
struct zn_place {
	uint64_t offset; /* of the place itself */
	struct zn_entry entry;
	uint64_t hash; /* of the code by which it was chosen */
};
struct zn_place zn_place_of(int fd, const struct zn_elf_symbol *symbol);
bool zn_place_same(int fd, const struct zn_place *place); /* whether that code is there still */
#endif

/* ---- probe/hooks.c (zn_hooks_): the table of hooked functions of libraries. ---- */

#define ZN_HOOKS_MAX 352 /* hooked names, all suffixes spelled out */
struct zn_hook {
	char name[112];
	uint8_t family, shape, detail, flags;
};
#define ZN_HOOK_ENTRY_ONLY 1
#define ZN_HOOK_ONE_LINK   2 /* not where each probe is a perf event */
#define ZN_HOOK_HIP        4

enum zn_lib_kind { ZN_LIB_CUDA, ZN_LIB_HIP, ZN_LIB_NCCL };

/* Whether a library of this kind has functions of the family, and whether this one is one of them. */
static inline bool zn_family_fits(enum zn_family f, enum zn_lib_kind kind)
{
	return (f == ZN_FAM_NCCL) == (kind == ZN_LIB_NCCL);
}
static inline bool zn_hook_fits(const struct zn_hook *h, enum zn_lib_kind kind)
{
	return zn_family_fits(h->family, kind) && !(h->flags & ZN_HOOK_HIP) == (kind != ZN_LIB_HIP);
}
/* Fills hook and hook_count, without touching the kernel: what --list-probes shows. */
void zn_hooks_fill(struct zn_probe *p);
const char *zn_hooks_call(uint32_t call);   /* without a suffix for its stream; NULL: there is none */
uint32_t zn_hooks_number(const char *call); /* the same number; 0: there is none */

/* ---- probe/process_info.c (zn_process_ zn_start_ zn_open_ zn_dir_): what /proc says of one process. ---- */

#ifdef ZN_IN_probe
/* All its threads have ended. False: it lives, or cannot be asked. */
bool zn_process_ended(uint32_t tgid);
bool zn_process_all_shown(void); /* whether /proc shows all processes here */
/* Start time of a process in clock ticks; 0: it is gone. */
uint64_t zn_start_ticks(int pid);
uint64_t zn_start_ns(int pid); /* of CLOCK_BOOTTIME; 0: gone */
/* Whether a process has a device of a driver of GPUs open, by the kernel's numbers, whatever its file is called.
 * Unknown: it has more open files than are looked at, and none of those is one; or they cannot be read; or its main
 * thread has ended and no other one shows any. minors: the
 * numbers of its GPUs, a bit each, where the major number is one of numbered (none of them: NVIDIA's). */
enum zn_open_gpus { ZN_OPEN_GPUS_NONE, ZN_OPEN_GPUS_SOME, ZN_OPEN_GPUS_UNKNOWN };
enum zn_open_gpus zn_open_gpus(
	int pid, const uint64_t majors[ZN_MAJOR_WORDS], const uint64_t numbered[ZN_MAJOR_WORDS], uint64_t *minors);
/* Calls visit for each name of a directory until it says stop. getdents64() itself: opendir() allocates.
 * False: it cannot be opened. */
bool zn_dir_read(const char *path, bool (*visit)(void *to, int dir, const char *name), void *to);
/* Its environment and its open devices, as far as they tell of GPUs and of a job. files: as /proc/devices has them, if
 * gpu is 0. */
void zn_process_environ(int pid, struct zn_process_info *to);
void zn_process_devices(const struct zn_gpu_files *files, int pid, struct zn_process_info *to);
#endif

/* ---- probe/kernel.c (zn_kernel_): families on the kernel itself. What a kernel allows is found by trying, best
 * first. ---- */

/* One program of ours at one place of the kernel. */
struct zn_attach_point {
	const char *program, *place; /* place: the function or tracepoint, the label `symbol` */
	uint8_t family, method;
	uint8_t state; /* enum zn_symbol_state; MISSING: another place or method does it, or its family is off */
	uint16_t of;   /* index and 1 of the point whose program serves this one too; 0: it has its own, or none */
	int prog_fd, link_fd;
};
#define ZN_ATTACH_POINTS_MAX 192
struct zn_kernel {
	struct zn_attach_point point[ZN_ATTACH_POINTS_MAX];
	uint32_t point_count;
	enum zn_probe_method method[ZN_FAM_ALL]; /* NONE: the family is not available */
	char why[ZN_FAM_ALL][ZN_TEXT_MAX];       /* why not; or, if it is, what of it is missing */
	bool on_demand[ZN_FAM_ALL];              /* all of its points are attached only while they are wanted */
	bool wanted;                             /* some process is hooked: points that are on demand are attached */
	bool serves;                             /* some server is watched: those that this needs are, too */
	uint32_t kprobe_type;                    /* of kprobes as perf events; 0: none */
};

/* Loads and attaches families (bit mask by enum zn_family) on the kernel itself. None of them is no error: why says
 * it. */
void zn_kernel_open(struct zn_probe *p, uint64_t families, enum zn_probe_method method);
void zn_kernel_nodes(struct zn_shared *s); /* of CPUs that are online, their NUMA nodes */
void zn_kernel_close(struct zn_kernel *k);
uint64_t zn_kernel_measured(const struct zn_kernel *k); /* the families that are there, for zn_agg.measured */
/* What only tracked processes need is attached while there are any. Call it when that may have changed; it is cheap. */
void zn_kernel_want(struct zn_kernel *k, bool wanted);
void zn_kernel_serve(struct zn_kernel *k, bool serves); /* the same for what only servers need */
void zn_kernel_table(struct zn_kernel *k);              /* the points alone, for --list-probes */

#ifdef ZN_IN_probe
#define ZN_TOO_OLD "this kernel is too old: 5.15 is needed"
#endif

/* ---- probe/attach.c (zn_attach_ zn_perf_ zn_fd_): probes on functions of libraries. ---- */

enum zn_symbol_state { ZN_SYM_MISSING, ZN_SYM_FAILED, ZN_SYM_ATTACHED };
struct zn_file_id {
	uint64_t ino;   /* as the kernel itself knows the file, below any overlay; 0: not known */
	uint64_t inode; /* as in struct zn_mapping, while the file is open or mapped; 0: not known */
	uint32_t dev;
	uint32_t flags; /* ZN_MAPPING_FUSE, ZN_MAPPING_USER_NS */
};
/* As stat() shows a file through one overlay. */
struct zn_alias {
	uint64_t dev, ino;
};
#define ZN_ALIASES 8
struct zn_lib {
	bool used;
	bool ready;   /* what follows may be shown */
	bool waiting; /* not hooked, and why says what for */
	bool leaving; /* no process maps it any more, or it was written over; its probes are going */
	bool changed; /* it was written over, and is to be read anew */
	bool partly;  /* of those that leave, some may be gone already */
	bool held;    /* the log has said that they have to stay for now */
	bool kept;    /* the system's: hooked for as long as it is that, whether or not it is mapped */
	bool named;   /* as one of the system's, when it was last read which those are */
	enum zn_lib_kind kind;
	uint32_t owner; /* of a process that maps it, at first of that which brought it: whose time it takes */
	int fd; /* keeps the inode, so that its number cannot be reused while we hold it; -1: root may not open it */
	uint64_t dev, ino, size, mtime_ns; /* as stat() showed it first */
	uint64_t changed_ns, retry_ns;     /* retry: when it is looked again whether its probes may go */
	uint64_t step_ns;                  /* when the kernel last put on or took away one of its probes */
	struct zn_file_id id;
	struct zn_alias alias[ZN_ALIASES];
	uint32_t alias_next;
	char path[ZN_TEXT_MAX]; /* as its first process sees it; raw bytes */
	char why[ZN_TEXT_MAX];  /* not empty: why nothing is attached */
	uint32_t mappers;
	uint64_t unused_ns;           /* since when there are none; 0: there are */
	uint64_t hooked_ns;           /* when its probes were attached, of CLOCK_BOOTTIME; 0: none is */
	int link[ZN_FAMILY_COUNT][2]; /* multi-uprobe links, entry or session, and return; -1: none */
	int event[ZN_HOOKS_MAX][2];   /* by hook, on kernels without multi-uprobe links; -1: none */
	bool malformed;               /* its file; one for another kind of machine is not */
	uint32_t found;               /* hooked functions that it has */
	uint8_t symbol[ZN_HOOKS_MAX]; /* enum zn_symbol_state, by hook */
};

/* Finds the functions of the library behind lib->fd, reading at most `budget` bytes; fills malformed, found and why. */
void zn_attach_read(struct zn_probe *p, struct zn_lib *lib, size_t budget);
/* Where the probe on a function of the library that was read last goes; NULL: the library lacks it. */
const struct zn_entry *zn_attach_place(uint32_t hook);

/* The type that perf events of a kind ("uprobe", "kprobe") have on this kernel; 0: none. */
uint32_t zn_perf_type(const char *kind);
void zn_fd_close(int *fd); /* below 0 from then on, as it may be already */
int zn_fd_keep(int fd);    /* a descriptor of its own for the same, which is not inherited; -1 with errno */

#ifdef ZN_IN_probe
void zn_attach_clear(struct zn_lib *lib); /* nothing is attached yet */
/* Hooks what is not yet hooked of the library that was read last, and fills link, event, symbol and why. May take long,
 * as may zn_attach_undo(): never on the loop. */
void zn_attach_library(struct zn_probe *p, struct zn_lib *lib);
/* Whether the file still has the code by which the places of its probes were chosen, right after they were attached. */
uint32_t zn_attach_count(const struct zn_probe *p, const struct zn_lib *lib); /* functions that are attached */
bool zn_attach_same(const struct zn_probe *p, const struct zn_lib *lib);
/* Takes probes away, at most `steps` of those that are perf events: each of these costs some 0.1 s. True: all are
 * gone. */
bool zn_attach_undo(struct zn_lib *lib, int steps);

/* What one program is put on: offsets in the file and a cookie each. */
struct zn_spots {
	const char *path;
	uint64_t offset[ZN_HOOKS_MAX], cookie[ZN_HOOKS_MAX];
	uint32_t hook[ZN_HOOKS_MAX];
	uint32_t count;
	pid_t pid; /* whose calls alone count; 0: everybody's */
};
/* One link for `count` places from `first` on, or a perf event for place i. A descriptor, or -errno. */
int zn_attach_multi(int prog_fd, enum zn_way way, const struct zn_spots *s, uint32_t first, uint32_t count);
/* A link from a perf event to a program, or, before kernel 5.15 and without a cookie, the event itself. pid 0: of
 * all. */
struct perf_event_attr;
int zn_attach_event(struct perf_event_attr *event, pid_t pid, int prog_fd, uint64_t cookie);
int zn_attach_perf(const struct zn_probe *p, int prog_fd, bool ret, const struct zn_spots *s, uint32_t i);
#define ZN_TRACE_UPROBE_MULTI   48 /* linux/bpf.h from 6.6 on: enum bpf_attach_type */
#define ZN_TRACE_UPROBE_SESSION 57 /* from 6.13 on */
#endif

/* ---- probe/maps.c (zn_bpf_map_ zn_bpf_ring_ zn_batch_): the BPF maps that all objects share, how hashes are read, and
 * what the kernel's own types say. ---- */

struct bpf_object;
struct btf;
enum zn_map {
	ZN_MAP_SHARED,
	ZN_MAP_EVENTS,
#define X(NAME, ...) ZN_MAP_##NAME,
	ZN_MAPS(X)
#undef X
		ZN_MAP_COUNT
};
/* By whom the entries of a hash are taken out. */
enum zn_swept { ZN_SWEPT_NOT, ZN_SWEPT_PROCESS, ZN_SWEPT_JOB };
enum zn_swept zn_bpf_map_swept(enum zn_map m);
/* Hands the maps that exist already to a further object. keep(): has those of the first object from here on. */
int zn_bpf_map_share(const struct zn_probe *p, struct bpf_object *o);
int zn_bpf_map_keep(struct zn_probe *p, struct bpf_object *o);
/* Before the first object is loaded: which maps take memory as they are used, and how large each is. */
int zn_bpf_map_sparse(struct zn_probe *p, struct bpf_object *o);
int zn_bpf_map_sizes(struct zn_probe *p, struct bpf_object *o);
bool zn_bpf_ring_named(const struct btf *kernel); /* see ring_named of struct zn_probe */
/* Room for all rows of a map, of which row() maps one, and what lies on its pages, with a bit each. NULL with errno. */
void *zn_bpf_map_reserve(enum zn_map m);
void zn_bpf_map_unreserve(enum zn_map m, void *at);
int zn_bpf_map_row(const struct zn_probe *p, enum zn_map m, void *base, uint8_t *bits, size_t row);
/* What goes on in a process's threads; NULL: it cannot be mapped. */
struct zn_thread_states *zn_bpf_map_thread_states(struct zn_probe *p, uint32_t row);
/* A piece of a table as memory, from an entry on, for as long as it is looked at. NULL: it cannot be mapped. */
struct zn_piece {
	void *at;
	size_t offset, bytes;
};
void *zn_bpf_map_piece(const struct zn_probe *p, enum zn_map m, size_t from, size_t bytes, struct zn_piece *piece);
void zn_bpf_map_piece_end(const struct zn_piece *piece);
/* Kernel memory of all maps, bytes, as the kernel accounts it: now, when all of them are full, and by what they are
 * for, now. */
enum zn_map_group {
	ZN_MAPS_OTHER,
	ZN_MAPS_HISTOGRAMS,
	ZN_MAPS_PROCESSES,
	ZN_MAPS_THREADS,
	ZN_MAPS_LEDGER,
	ZN_MAPS_JOBS,
	ZN_MAPS_FILES,
	ZN_MAPS_STACKS,
	ZN_MAPS_COUNT
};
struct zn_map_bytes {
	uint64_t now, most, group[ZN_MAPS_COUNT];
};
struct zn_map_bytes zn_bpf_map_bytes(const struct zn_probe *p);
/* The same by arithmetic: of all maps when they are full, with all families, on a node that may have so many CPUs.
 * grows: its kernel takes the memory of hashes as it is used. */
uint64_t zn_bpf_map_most(uint32_t cpus, bool grows);

/* Reads a hash, some hundred entries at a time. Their memory is one for all: nobody reads two hashes at one time. */
struct zn_batch {
	int fd;
	size_t key_bytes, value_bytes;
	uint64_t at; /* where the kernel goes on */
	bool begun, over;
	uint32_t count;
};
struct zn_batch zn_batch_begin(const struct zn_probe *p, enum zn_map m);
bool zn_batch_next(struct zn_batch *b); /* reads the next count entries, which may be none. False: there are no more */
const void *zn_batch_key(const struct zn_batch *b, uint32_t i);
const void *zn_batch_value(const struct zn_batch *b, uint32_t i);

/* ---- probe/objects.c (zn_object_ zn_raw_): opens and loads BPF objects. ---- */

/* A program on a raw tracepoint. Below 0: it is not there. */
struct zn_raw {
	int link, prog;
};

#ifdef ZN_IN_probe
/* A file that is part of this program, compressed with gzip. */
struct zn_blob {
	const uint8_t *bytes;
	uint32_t len, plain_len;
};
extern const struct zn_blob zn_bpf_proc, zn_bpf_job, zn_bpf_gpu_mem, zn_bpf_cuda_trace, zn_bpf_nccl, zn_bpf_sched,
	zn_bpf_mappers, zn_bpf_requests, zn_bpf_net, zn_bpf_stacks, zn_bpf_vfs, zn_bpf_proc_old, zn_bpf_job_old,
	zn_bpf_vfs_old;
/* Opens an embedded object, or what stands in for it on a kernel as old as p says (NULL with errno). */
struct bpf_object *zn_object_open(const struct zn_probe *p, const struct zn_blob *blob);
/* While it is true, all objects share what libbpf read of the kernel's types. */
void zn_object_share_types(bool shared);
/* The first object: makes the maps, and watches the end of processes. */
int zn_object_load_base(struct zn_probe *p);
/* The programs on libraries; sets available and why. */
void zn_object_load_families(struct zn_probe *p, uint64_t families);
void zn_object_load_jobs(struct zn_probe *p);   /* control groups, forks and moves; sets job and job_why */
void zn_object_load_stacks(struct zn_probe *p); /* the walker; behind zn_kernel_open(), whose method and why it sets */
const char *zn_object_hint(int err);            /* what helps against an error of loading */
const char *zn_object_program(enum zn_family f, enum zn_way way); /* what it is called in a label */
void zn_raw_close(struct zn_raw *r, size_t count);
#endif

/* ---- probe/calibrate.c (zn_calib_): what our own probes cost a call. ---- */

/* Calibration of one kind of first instruction. */
struct zn_bias {
	uint32_t samples;
	uint64_t sum_ns;
	uint64_t p10_ns, p50_ns, p90_ns, p99_ns; /* between the two probes of a function that does nothing */
	uint64_t call_ns;                        /* added to a call in all */
};

#ifdef ZN_IN_probe
/* Fills bias, multi and perf_type. Where it fails, no family on libraries is available any more, and why says it. */
void zn_calib_families(struct zn_probe *p);
#endif

/* ---- probe/cost.c (zn_cost_): what a system call costs with our programs, and a read of a file. ---- */

/* On system calls of the daemon's own that fail at once. Nothing was attached yet: */
void zn_cost_before(struct zn_probe *p);
/* Once the families on system calls are attached. False: they are not, or it was done. */
bool zn_cost_after(struct zn_probe *p, uint64_t *file_ns, uint64_t *call_ns);

/* ---- probe/stats.c (zn_stats_): what the kernel counts of our own programs. ---- */

#define ZN_PROGRAMS (2 * ZN_FAMILY_COUNT)
uint64_t zn_stats_missed(struct zn_probe *p); /* hits that the kernel skipped, as of the last 0.1 s */
/* Run time of one of our programs and its name. 0 unless the kernel keeps statistics (sysctl
 * kernel.bpf_stats_enabled). */
uint64_t zn_stats_run_ns(struct zn_probe *p, uint32_t i, const char **name);

#ifdef ZN_IN_probe
/* Of programs on raw tracepoints alone, and as of now. */
uint64_t zn_stats_raw_missed(const struct zn_raw *r, size_t count);
#endif

/* ---- probe/arena.c (zn_bpf_arena_): the arena over BPF maps. ---- */

/* A row that was released. */
struct zn_leaving {
	uint32_t row;
	uint64_t since_ns;
};

#ifdef ZN_IN_probe
/* Once there are the maps. What is there already when open() fails is left to close(). */
int zn_bpf_arena_open(struct zn_probe *p);
void zn_bpf_arena_close(struct zn_probe *p);
#endif

/* ---- probe/arena_job.c (zn_bpf_job_): its jobs; what these do says struct zn_arena_ops. ---- */

#ifdef ZN_IN_probe
int zn_bpf_job_claim(struct zn_arena *a, const char name[ZN_JOB_NAME]);
int zn_bpf_job_alias(struct zn_arena *a, uint32_t slot, const char name[ZN_JOB_NAME]);
void zn_bpf_job_unname(struct zn_arena *a, uint32_t slot);
void zn_bpf_job_forget(struct zn_arena *a, uint32_t slot);
int zn_bpf_job_task(struct zn_arena *a, uint32_t slot, uint32_t tgid);
void zn_bpf_job_tasks(struct zn_arena *a, void (*task)(void *to, const struct zn_job_ref *job), void *to);
int zn_bpf_job_cgroup(
	struct zn_arena *a, uint32_t slot, const struct zn_cgroup_key *key, uint32_t level, const char *step);
void zn_bpf_job_cgroup_gone(struct zn_arena *a, const struct zn_cgroup_key *key);
void zn_bpf_job_task_end(struct zn_probe *p, uint32_t tgid); /* a process of a job has ended */
#endif

/* ---- probe/arena_quota.c (zn_bpf_quota_): what each owner may hold of its tables. ---- */

/* Each tick: the log tells whose entries of shared tables were refused, and counts that went wrong are set right. */
void zn_bpf_quota_tick(struct zn_probe *p, uint64_t now_ns);
void zn_bpf_quota_hist_clear(struct zn_arena *a, uint32_t slot); /* it is free again */
/* And its owner has one less. */
void zn_bpf_quota_hist_free(struct zn_arena *a, enum zn_quota_table table, uint32_t slot);

/* ---- probe/arena_request.c (zn_bpf_request_): servers and their requests. ---- */

int zn_bpf_request_open(struct zn_probe *p);
void zn_bpf_request_close(struct zn_probe *p);
int zn_bpf_request_add(struct zn_arena *a, const struct zn_server *server);
void zn_bpf_request_gone(struct zn_arena *a, uint32_t index);
void zn_bpf_request_free(struct zn_arena *a, uint32_t index);
void zn_bpf_request_tick(struct zn_probe *p, uint64_t now_ns); /* ends what nothing tells the end of */

#ifdef ZN_IN_probe
void zn_bpf_quota_open(struct zn_probe *p); /* once there is the arena: how many entries each table has */
#endif

/* ---- probe/sleepers.c (zn_sleepers_): threads that the scheduler saw fall into uninterruptible sleep. ---- */

#ifdef ZN_IN_probe
/* As of struct zn_arena_ops. */
void zn_sleepers_read(
	struct zn_arena *a, bool all, void (*sleeper)(void *to, const struct zn_sched_entry *thread), void *to);
bool zn_sleepers_still(struct zn_arena *a, uint32_t tid, uint64_t since_ns);
#endif

/* ---- probe/ends.c (zn_ends_): processes whose end the kernel did not report. ---- */

#define ZN_END_HASHES 5 /* tables of what may end without being seen */
#define ZN_END_ARRAYS 2
/* Each tick: looks for processes whose end the kernel did not report, if it has ever left one out; they end as others
 * do. */
void zn_ends_check(struct zn_probe *p);

/* ---- probe/probe.c (zn_probe_): opens and closes all probes, and reads their events. ---- */

/* Programs that walk stacks: behind calls of libraries, where threads fall asleep, and by the clock. */
enum zn_walker_kind { ZN_WALKER_CALLS, ZN_WALKER_SLEEPS, ZN_WALKER_CLOCK, ZN_WALKER_COUNT };

struct ring_buffer;
struct zn_probe {
	struct zn_arena arena; /* first */
	bool available[ZN_FAMILY_COUNT];
	char why[ZN_FAMILY_COUNT][ZN_TEXT_MAX]; /* why a family is not available */
	bool old; /* a kernel before 5.12, by what it refuses: file I/O and jobs alone, by objects of their own */
	bool has_images;             /* one whose trampolines outlast the calls that are in them */
	bool ring_named;             /* its event of a completion of io_uring names the request, from 5.18 on */
	bool multi;                  /* multi-uprobe links, from kernel 6.6 on */
	bool session;                /* one of them for entries and returns, from kernel 6.13 on */
	uint32_t cast_id;            /* the kernel's number of bpf_rdonly_cast(), from 6.2 on; 0: it has none */
	bool grows;                  /* hashes take their memory as they are used, from kernel 6.1 on */
	bool keeps_shadow;           /* return probes leave user shadow stacks right: from kernel 6.11 on */
	uint64_t families;           /* that are asked for, 1 << enum zn_family */
	enum zn_probe_method method; /* likewise */
	bool cancelled;
	uint32_t cpus;          /* that the machine may have, and the tables that follow from them */
	uint32_t cpus_possible; /* whatever the tables are made for */
	struct zn_sizes sizes;
	int entry_fd[ZN_FAMILY_COUNT], return_fd[ZN_FAMILY_COUNT]; /* a session is in the former alone */
	int map_fd[ZN_MAP_COUNT];                                  /* by enum zn_map */
	struct zn_raw exit[2];                                     /* of a thread, of a program */
	struct zn_raw job_on[5];        /* the last one: kills by the kernel, which jobs can do without */
	struct zn_raw oom_on[1];        /* whose limit was reached; likewise */
	int walker_fd[ZN_WALKER_COUNT]; /* the walkers of Python's stacks; -1: none */
	int natives_fd;                 /* the table of copied stacks; -1: none are copied */
	bool job;                       /* control groups, forks and moves are watched */
	char job_why[ZN_TEXT_MAX];      /* why not: jobs are then what a scan of /proc finds */
	bool walks;                     /* the kernel lets programs walk stacks, from 5.17 on, on x86-64 */
	uint32_t perf_type;             /* of uprobes as perf events; 0: none */
	struct zn_kernel kernel;
	struct zn_thread_states *thread_states; /* ZN_PROCS_MAX of them, by row */
	uint8_t states_mapped[ZN_PROCS_MAX / 8];
	struct ring_buffer *ring;
	uint64_t requests_ns;                    /* when connections of servers were looked at last */
	uint32_t consumed;                       /* events in this turn */
	struct zn_leaving leaving[ZN_PROCS_MAX]; /* the oldest first */
	uint32_t leaving_count;
	uint32_t dead[ZN_PROCS_MAX], dead_count; /* ids of released rows that were not swept yet */
	struct zn_bias bias[ZN_INSN_COUNT];
	uint64_t
		call_ns; /* what a system call took that fails at once, before anything was attached; 0: that is over */
	uint64_t stats_ns, missed, run_ns[ZN_PROGRAMS];           /* of our programs, and when they were read */
	uint32_t end_at[ZN_END_HASHES], end_group[ZN_END_ARRAYS]; /* how far zn_ends_check() has come in each table */
	uint64_t sleepers_ns; /* when threads that sleep were looked at last, how far that came, and what it found */
	uint32_t sleepers_at;
	bool sleepers_beside;
	uint64_t recount_ns; /* when the processes of jobs were counted last, and what differed then */
	int32_t recounted[ZN_QUOTA_OWNERS + 1];
	struct zn_hook hook[ZN_HOOKS_MAX];
	uint16_t hook_call[ZN_HOOKS_MAX]; /* for zn_hooks_call(): of all names of a function the same */
	uint32_t hook_count;
	void (*event)(void *owner, const struct zn_event *ev);
	void *owner;
};
#define ZN_WITH_NATIVE    (1ULL << 63) /* beside the families: native stacks are copied */
#define ZN_WITH_TWO_LINKS (1ULL << 62) /* and no session is wanted */
static inline uint64_t zn_probe_families(const struct zn_options *o)
{
	return o->families | (o->stacks == ZN_STACKS_NATIVE ? ZN_WITH_NATIVE : 0) |
		(o->two_links ? ZN_WITH_TWO_LINKS : 0);
}
/* Makes the tables, which takes tens of milliseconds, and attaches to the end of processes. -errno with *why if nothing
 * at all can be had. families: a bit mask. method: the one way to file I/O and TCP; ZN_METHOD_NONE: the best there is.
 * cpus: as on how big a machine the tables are; 0: this one. */
int zn_probe_open(
	struct zn_probe *p, uint64_t families, enum zn_probe_method method, uint32_t cpus, char why[ZN_TEXT_MAX]);
/* Then loads the families and calibrates, which takes most of a second; another thread may do it. Until it returns,
 * nothing of the probe but its arena is for others. */
void zn_probe_load(struct zn_probe *p);
void zn_probe_cancel(struct zn_probe *p); /* what is being loaded is not needed any more */
/* How functions of libraries are hooked. */
static inline enum zn_probe_method zn_probe_method(const struct zn_probe *p)
{
	return p->session ? ZN_METHOD_UPROBE_SESSION : p->multi ? ZN_METHOD_UPROBE_MULTI : ZN_METHOD_UPROBE;
}
static inline bool zn_probe_cancelled(const struct zn_probe *p)
{
	return __atomic_load_n(&p->cancelled, __ATOMIC_RELAXED);
}
/* Raises the soft limit of open files as far as open() needs it. -EMFILE with a line in why: the hard limit is too
 * low. */
int zn_probe_files(char why[ZN_TEXT_MAX]);
void zn_probe_close(struct zn_probe *p);
int zn_probe_ring_fd(const struct zn_probe *p);
void zn_probe_consume(struct zn_probe *p); /* calls p->event for each waiting event */

/* ---- probe/shadow.c (zn_shadow_): processes with a user shadow stack. ---- */

#ifdef ZN_IN_probe
/* Whether a return probe would kill a process, because it has a shadow stack and this kernel does not keep that right.
 * A probe stands in a file, so a library that such a process maps is to be left alone. in(): whether it has one, or
 * cannot be asked, by proc_root/PID/status; used(): the same by /proc. */
bool zn_shadow_stack_in(const char *proc_root, int pid);
bool zn_shadow_stack_used(int pid);
static inline bool zn_shadow_stack_forbids(const struct zn_probe *p, int pid)
{
	return !p->keeps_shadow && zn_shadow_stack_used(pid);
}
#endif

/* ---- probe/mappers.c (zn_mappers_): which processes map a file, and which of them could make the kernel wait. ----
 * */

struct zn_mappers {
	int link_fd, query_fd;  /* -1: this kernel has no such iterator (before 5.12) */
	int own_fd;             /* over this process alone; -1: not before 6.1 */
	int peers_fd, asked_fd; /* over open files, and whose are looked at */
};
#define ZN_MAPPERS_MAX 4096
struct zn_mapper_list {
	uint32_t count;     /* processes that map the file, in tgid; ZN_MAPPERS_MAX + 1: there are more */
	uint32_t fuse_tgid; /* one of them that maps a file of a FUSE file system that root did not mount; 0: none */
	uint32_t tgid[ZN_MAPPERS_MAX];
};
int zn_mappers_open(struct zn_mappers *m, const struct zn_probe *p); /* -errno: nothing below is known */
void zn_mappers_close(struct zn_mappers *m);

#ifdef ZN_IN_probe
/* The file that a process maps at an address, and that behind a descriptor, which a process maps there if pid is not
 * 0. */
int zn_mappers_identify(const struct zn_mappers *m, uint32_t tgid, uint64_t start, struct zn_file_id *to);
void zn_mappers_identify_file(const struct zn_mappers *m, int fd, int pid, uint64_t from, struct zn_file_id *to);
/* Walks over all memory areas of the node: some 0.1 us each. */
int zn_mappers_list(const struct zn_mappers *m, const struct zn_file_id *id, struct zn_mapper_list *to);
/* A thread of those processes that is blocked in the kernel, and its process; 0: none. Process 0: it is not known, as
 * they have more threads than can be looked at in some seconds. Takes 30 ms where threads are in an uninterruptible
 * sleep, to see whether they move, and up to four times as long where those are thousands. */
uint32_t zn_mappers_blocked(const struct zn_mapper_list *list, uint32_t *tgid);
/* Who listens on a Unix socket, of all processes, and whom those are connected with over them that are asked for:
 * asked() adds one, or takes it out; peers() walks over all open files of the node, some 0.1 us each. */
void zn_mappers_asked(const struct zn_mappers *m, uint32_t tgid, bool add);
void zn_mappers_peers(
	const struct zn_mappers *m, void (*visit)(void *to, const struct zn_service_edge *found), void *to);
#endif

/* ---- probe/system.c (zn_system_ zn_library_): which libraries are the system's own. ---- */

/* Calls visit for each. root_only: a path that not the administrator but a file named, and that counts if it is
 * root's. */
typedef void zn_library_visit(void *to, const char *path, bool root_only);
void zn_system_libraries(const struct zn_options *options, zn_library_visit *visit, void *to);
/* Another one when the linker's cache was written anew, or another file lies where --libraries says. */
uint64_t zn_system_stamp(const struct zn_options *options);
int zn_library_kind(const char *path, size_t len); /* enum zn_lib_kind by a file's name, or -1 */

/* ---- probe/file_budget.c (zn_refused_ zn_file_budget_): which files are read: none twice that had nothing to hook,
 * and so many of one owner. ---- */

#ifdef ZN_IN_probe
#define ZN_REFUSED_SETS 2048 /* a power of two */
#define ZN_REFUSED_WAYS 4
struct zn_refused_files {
	uint64_t seed, print[ZN_REFUSED_SETS][ZN_REFUSED_WAYS];
	uint32_t next;
};
void zn_refused_open(struct zn_refused_files *r);
void zn_refused_add(struct zn_refused_files *r, const struct stat *st);
bool zn_refused_has(
	const struct zn_refused_files *r, const struct stat *st); /* as it is now; else it is another file */

struct zn_file_account {
	uint32_t owner, files; /* files: in this second */
	uint64_t second;
	uint64_t free_ns; /* from when on another file may take time */
};
#define ZN_FILE_ACCOUNTS 256 /* owners whose files are counted; a power of two */
struct zn_file_budget {
	struct zn_file_account account[ZN_FILE_ACCOUNTS];
	bool again; /* a file was passed over: it is to be found again. The reader's to clear */
};
/* Where many processes run, it takes long to see who maps a file. True: there is time for a file of this owner. */
bool zn_file_budget_left(struct zn_file_budget *f, uint32_t owner);
/* What this thread did for a file since then, by its CPU clock, is on the owner's account. */
void zn_file_budget_charge(struct zn_file_budget *f, uint32_t owner, uint64_t since_cpu_ns);
/* Whether a file of this owner may be looked at for the first time. */
bool zn_file_budget_take(struct zn_file_budget *f, uint32_t owner);
#endif

/* ---- probe/change.c (zn_change_): a change of probes that is under way, and whom the kernel waits for. ---- */

struct zn_hang {
	uint64_t since_ns; /* 0: none */
	bool detach;
	bool runs; /* it was on a CPU when it was last looked at: the kernel is slow, and waits for nobody */
	int tid;   /* the thread that makes the change */
	char path[ZN_TEXT_MAX];
	struct zn_mapper_list who; /* maps the file, as was seen before */
	uint32_t blocked_tgid;     /* which of them is blocked in the kernel; 0: none was found yet */
};
struct zn_change {
	pthread_mutex_t *lock; /* over hang and lib */
	struct zn_hang hang;
	const struct zn_lib *lib;
	int hang_timer;  /* is readable once a change hangs */
	int watch_timer; /* wakes the watcher */
	pthread_t watcher;
	bool watched, stop;
};
void zn_change_open(struct zn_change *c, pthread_mutex_t *lock);

#ifdef ZN_IN_probe
/* Starts a thread that looks whom a change waits for, with the rights that are left when it is called; stop() ends
 * it. */
int zn_change_start(struct zn_change *c);
void zn_change_stop(struct zn_change *c);
void zn_change_close(struct zn_change *c);
/* Around each change, on one thread. who: maps the file. end() returns how long it took, in ns. */
void zn_change_begin(struct zn_change *c, const struct zn_lib *lib, const struct zn_mapper_list *who, bool detach);
uint64_t zn_change_end(struct zn_change *c);
/* From any thread. True: the change has been waiting for a process for 0.8 s and more. */
bool zn_change_hang(struct zn_change *c, struct zn_hang *to);
#endif

/* ---- probe/mapped.c (zn_mapped_): which processes map a library, and of which the GPU memory was not seen as a whole.
 * ---- */

#define ZN_MAPPED_MAX 4096
/* A process that maps a library. Its range is what shows later whether it still does. */
struct zn_mapped_by {
	int pid; /* 0: free */
	int lib;
	uint32_t owner;       /* of the process */
	uint64_t start_ticks; /* a pid may be used again */
	uint64_t from, to;
	uint64_t since_ns; /* it was not mapped before this moment of CLOCK_BOOTTIME */
	bool partial;      /* it had a GPU open while its library was not hooked: what it holds is not known */
	uint64_t gpus;     /* minor numbers of those that it had open, a bit each */
};
/* Processes of which an entry is partial. */
struct zn_partials {
	uint32_t pid[ZN_MAPPED_MAX], count;
	uint64_t gpus;
};
struct zn_mapped {
	struct zn_lib *lib; /* ZN_LIBS_MAX of them, of the caller */
	struct zn_probe *probe;
	const struct zn_options *options;
	pthread_mutex_t *lock; /* over partials */
	struct zn_quota quota;
	struct zn_mapped_by by[ZN_MAPPED_MAX];
	uint64_t event_ns;           /* when the process at hand mapped the driver's library; 0: no event said so */
	struct zn_partials partials; /* for other threads */
	bool changed;                /* the entries say otherwise by now */
	uint64_t said_ns;
	uint32_t judge_at, check_at;
};
void zn_mapped_open(struct zn_mapped *t, struct zn_lib *lib, struct zn_probe *probe, const struct zn_options *options,
	pthread_mutex_t *lock);

#ifdef ZN_IN_probe
/* Of the process whose mappings are taken next: when it mapped the driver's library, of CLOCK_BOOTTIME; 0: no event
 * said so. */
void zn_mapped_process(struct zn_mapped *t, uint64_t event_ns);
/* A process maps a library. Without a place for it the library is taken for unused, and the kernel is asked before it
 * is let go. */
void zn_mapped_note(struct zn_mapped *t, int pid, struct zn_lib *lib, uint64_t from, uint64_t to);
void zn_mapped_forget(struct zn_mapped *t, const struct zn_lib *lib); /* its row is about to be free */
void zn_mapped_hooked(
	struct zn_mapped *t, struct zn_lib *lib); /* its probes were attached just now, or are about to go */
void zn_mapped_judge(
	struct zn_mapped *t); /* now and then: those that map a library which waits may open a GPU at any time */
/* Looks, until then at the latest, at which processes still map what they did. True: at all of them, and it begins
 * anew. */
bool zn_mapped_check(struct zn_mapped *t, uint64_t until_ns);
/* Shows other threads which processes are partial by now. */
void zn_mapped_tell(struct zn_mapped *t);
/* With the lock held: whether a process, and which GPUs. */
bool zn_mapped_is_partial(const struct zn_mapped *t, uint32_t pid);
uint64_t zn_mapped_partial_gpus(const struct zn_mapped *t);
/* Whole: it is, if it is not partial. Unknown: what the process maps must be looked at first. */
enum zn_ledger zn_mapped_ledger(const struct zn_mapped *t, int pid);
/* An owner of a process that maps a library, of whom may() is true; ZN_UNKNOWN: none. */
uint32_t zn_mapped_owner(
	const struct zn_mapped *t, const struct zn_lib *lib, bool (*may)(void *to, uint32_t owner), void *to);
#endif

/* ---- probe/judge.c (zn_judge_): whether probes may be put on a file now, or taken away. On the finder's thread. ----
 *  */

#ifdef ZN_IN_probe
#define ZN_BARRED_MAX 16
struct zn_judge {
	struct zn_probe *probe;
	const struct zn_options *options;
	struct zn_mappers mappers;
	uint32_t barred[ZN_BARRED_MAX], barred_count; /* owners of processes that made the kernel wait */
	struct zn_mapper_list who;                    /* of the file at hand */
};
/* True: probes may be put on it now. Else why says what it waits for. blocked: threads that are blocked in the kernel
 * are looked for, which takes a while. */
bool zn_judge_library(struct zn_judge *j, const struct zn_lib *lib, bool blocked, char why[ZN_TEXT_MAX]);
/* True: a process could hold the kernel up, and why says which. */
bool zn_judge_hindrance(struct zn_judge *j, const struct zn_lib *lib, bool blocked, char why[ZN_TEXT_MAX]);
bool zn_judge_shadow(
	const struct zn_judge *j, int pid, char why[ZN_TEXT_MAX]); /* true: a probe would kill this process */
void zn_judge_bar(struct zn_judge *j, uint32_t tgid); /* that process's owner; he made the kernel wait. 0: nobody */
bool zn_judge_barred(const struct zn_judge *j, uint32_t owner);
#endif

/* ---- probe/libraries.c (zn_libraries_): the table of libraries: which are hooked, and when. On the
 * finder's thread, but for hang, visit and quota. ---- */

struct zn_libraries;
/* Waits up to ZN_QUIET_MS until no process could hold up the kernel, and takes all probes away; on the finder's thread,
 * if that was started. */
void zn_libraries_close(struct zn_libraries *l);
int zn_libraries_timer(const struct zn_libraries *l); /* a descriptor that is readable once a change hangs */
void zn_libraries_system(struct zn_libraries *l);     /* at the start and once a second: hooks what is the system's */
struct zn_mapped *zn_libraries_mapped(struct zn_libraries *l);
/* True: a change of probes has been waiting for a process for 0.8 s and more. */
bool zn_libraries_hang(struct zn_libraries *l, struct zn_hang *to);
/* Calls visit for each library that may be shown, with the lock held: be quick, and do no I/O. */
void zn_libraries_visit(struct zn_libraries *l, void (*visit)(void *to, const struct zn_lib *lib), void *to);
struct zn_quota *zn_libraries_quota(struct zn_libraries *l);
const struct zn_mappers *zn_libraries_mappers(const struct zn_libraries *l);

#ifdef ZN_IN_probe
#define ZN_QUIET_MS 20000 /* how long the end waits for processes that could hold up the kernel */
/* Needs all privileges; the options stay the caller's and the same. */
struct zn_libraries *zn_libraries_open(struct zn_probe *probe, const struct zn_options *options, pthread_mutex_t *lock);
/* Starts a thread that looks whom a change waits for, with the rights that are left when it is called. */
int zn_libraries_start(struct zn_libraries *l);
/* A process maps a file with a library's name from an address on. -ENOENT: it does not any more. */
int zn_libraries_take(struct zn_libraries *l, int pid, uint64_t from, uint64_t to, struct zn_str path);
/* Once a second. Since when the last one of those is unused that are not mapped any more, as far as is known; 0:
 * none. */
uint64_t zn_libraries_check(struct zn_libraries *l);
/* Lets those go that are unused since before a look at all processes began, and still are. */
void zn_libraries_release(struct zn_libraries *l, uint64_t looked_ns);
/* Whether a file, as events tell of it, is in the table: whoever else has it mapped is found before it is let go. */
bool zn_libraries_has(struct zn_libraries *l, uint32_t dev, uint64_t ino);
bool zn_libraries_again(
	struct zn_libraries *l); /* something was passed over: all processes are to be looked at again */
void zn_libraries_leave(struct zn_libraries *l); /* each round: takes probes away, a few at a time */
#endif

/* ---- probe/scan.c (zn_pace_ zn_map_ zn_maps_ zn_sweep_ zn_ring_): what the finder looks at, a little at a time.
 * Zero is valid everywhere, close may be called at any time. ---- */

#ifdef ZN_IN_probe
/* A kind of work that may take so much of a core, and burst_ns more when there was none for a while. */
struct zn_pace {
	uint32_t percent;
	uint64_t burst_ns;
	int64_t credit_ns; /* below 0: it took more than it may; by so much that a wait is at most 0.25 s */
	uint64_t counted_ns;
};
bool zn_pace_may(struct zn_pace *p, uint64_t now_ns); /* takes note of the time that has passed, too */
void zn_pace_spend(struct zn_pace *p, uint64_t spent_ns);
uint64_t zn_pace_wait_ns(const struct zn_pace *p); /* until it may go on; 0: it may now */

/* An executable mapping of a file that may be a library, as the kernel told of it. */
struct zn_map_event {
	uint32_t pid, owner; /* owner: as of struct zn_quota */
	uint64_t from, to;
	uint64_t ino;       /* of the file, as of struct zn_file_id */
	uint64_t mapped_ns; /* of the driver's library: when, of CLOCK_BOOTTIME; 0: of another one */
	uint32_t dev;
	uint32_t reader; /* of whoever works on it; 0 when it is added */
};
/* A queue of them in which the owners take turns. */
#define ZN_MAP_EVENTS_MAX   4096
#define ZN_MAP_EVENT_QUEUES 64
struct zn_map_event_queue {
	uint32_t first, last, count;
};
struct zn_map_events {
	struct {
		struct zn_map_event event;
		uint32_t next; /* index and 1; 0: none */
	} entry[ZN_MAP_EVENTS_MAX];
	struct zn_map_event_queue queue[ZN_MAP_EVENT_QUEUES];
	struct zn_quota quota;
	uint32_t turn, used, free; /* free: index and 1 of the first entry that was given back */
};
/* False: there is no room for this owner. */
bool zn_map_events_add(struct zn_map_events *all, const struct zn_map_event *m);
/* The first of the next owner in turn; NULL: none. */
struct zn_map_event *zn_map_events_next(struct zn_map_events *all);
void zn_map_events_done(struct zn_map_events *all); /* removes what next() returned last */
/* The first mapped_ns of a process in the queue; 0: it has none. */
uint64_t zn_map_events_since(const struct zn_map_events *all, uint32_t pid);

/* The lines of a /proc/PID/maps, each with a 0 in place of its end; those longer than ZN_MAPS_TEXT are left out. */
#define ZN_MAPS_TEXT 8192
typedef void zn_maps_line(void *to, uint32_t pid, const char *line, size_t len);
struct zn_maps {
	bool open, skip;
	bool any; /* it had something to read: the process had not ended */
	int fd;
	uint32_t pid;
	size_t have;
	char text[ZN_MAPS_TEXT + 1];
};
/* The file of a line, to its end; NULL: it is none. What the user calls memory, as "[anon:/libcuda.so]", is none. */
const char *zn_maps_path(const char *line);
bool zn_maps_open(struct zn_maps *m, const char *proc_root, uint32_t pid);
bool zn_maps_step(struct zn_maps *m, zn_maps_line *visit, void *to); /* false: that was all, and it is closed */
void zn_maps_close(struct zn_maps *m);

/* The maps of all processes, first of those that are younger than the sweep before. A step is one read. */
struct zn_sweep {
	bool running;
	/* private */
	bool reading, young;
	const char *proc_root;
	int dir;
	uint32_t before, newest; /* ids that were given last when the sweep before, and this one, began */
	struct zn_maps maps;
	struct zn_names names;
};
void zn_sweep_begin(struct zn_sweep *s, const char *proc_root);
bool zn_sweep_step(struct zn_sweep *s, zn_maps_line *visit, void *to); /* false: it is done */
void zn_sweep_close(struct zn_sweep *s);

/* Pages of each CPU's ring of events, a power of two. */
size_t zn_ring_pages(int cpus, size_t page_bytes);
#endif

/* ---- probe/mappings.c (zn_mappings_): what the kernel tells of executable mappings. ---- */

#ifdef ZN_IN_probe
#define ZN_MAPPINGS_CPUS 1024
struct perf_event_mmap_page;
struct zn_mappings {
	int cpu_count;
	struct perf_event_mmap_page *ring[ZN_MAPPINGS_CPUS];
	int fd[ZN_MAPPINGS_CPUS];
	uint64_t stay[ZN_MAPPINGS_CPUS]; /* of the CPU, when its ring was opened */
	void *owner;
	void (*mapped)(void *owner, struct zn_map_event *e); /* a file with a library's name; its owner is not set */
	void (*lost)(void *owner);                           /* the kernel had no room to report one */
	void (*incomplete)(
		void *owner); /* nothing, or not all, was reported so far: all processes are to be looked at */
};
/* Opens the rings that are missing: of a CPU that was offline when it was tried last, or has been since. */
int zn_mappings_open(struct zn_mappings *m);
void zn_mappings_close(struct zn_mappings *m);
void zn_mappings_drain(struct zn_mappings *m);                                         /* calls back for each event */
int zn_mappings_poll(const struct zn_mappings *m, struct pollfd to[ZN_MAPPINGS_CPUS]); /* how many descriptors */
#endif

/* ---- probe/places.c (zn_places_): where processes and their threads sleep. ---- */

#ifdef ZN_IN_probe
struct zn_sleep_place {
	uint32_t pid, user; /* pid 0: free; user: as of struct zn_quota */
	uint64_t asked_ns, served_ns;
	char name[ZN_PLACE_BYTES];
};
#define ZN_PLACES_MAX 64
struct zn_places {
	pthread_mutex_t *lock;
	struct zn_sleep_place place[ZN_PLACES_MAX];
	struct zn_threads threads; /* the request at hand, and its answer; pid 0: none */
};
/* From any thread: as of zn_find_place() and zn_find_threads(). */
void zn_places_ask(struct zn_places *s, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES]);
bool zn_places_threads(struct zn_places *s, struct zn_threads *to);
void zn_places_serve(
	struct zn_places *s, uint64_t now_ns); /* on the finder's thread: looks at what was asked for of late */
#endif

/* ---- probe/members.c (zn_members_): which servers and processes that use a GPU are one service. ---- */

struct zn_services;
#ifdef ZN_IN_probe
void zn_members_join(const struct zn_services *s, struct zn_joined *to);
#endif

/* ---- probe/services.c (zn_services_): which processes serve together with those that use a GPU. ---- */

#define ZN_SERVICES_FOUND  64
#define ZN_SERVICE_SOCKETS 16384     /* of TCP that listen in one network namespace */
#define ZN_SERVICE_PIDS    (1 << 22) /* more than any process has: PID_MAX_LIMIT of the kernel */
#define ZN_SERVICE_PARENTS 6
struct zn_service_member { /* a tracked process or a server, and what it is known by */
	uint32_t id, pid, session, port, owner;
	uint64_t pid_ns; /* of process ids; 0: the daemon's own */
	struct zn_job_ref job;
	uint32_t parent[ZN_SERVICE_PARENTS];
};
#define ZN_SERVICE_EDGES 1024
#define ZN_SERVICE_PEERS 32 /* of one process */
struct zn_service_socket {
	uint64_t inode;
	uint32_t port;
};
struct zn_services {
	struct zn_probe *probe;
	const struct zn_mappers *mappers;
	pthread_mutex_t *lock; /* over found[], listens[] and joined */
	struct zn_server found[ZN_SERVICES_FOUND];
	uint32_t found_count;
	uint32_t listens[ZN_SERVICES_FOUND], listens_count;
	bool sweeping, again;
	int dir;
	struct zn_names names;
	uint64_t swept_ns, own_namespace;
	uint32_t gpu_count;
	struct zn_service_member gpu[ZN_PROCS_MAX]; /* by row; id 0: none */
	struct zn_service_member server[ZN_SERVERS_MAX];
	uint32_t listed[ZN_SERVERS_MAX], server_count; /* those that there are */
	struct zn_service_edge edge[ZN_SERVICE_EDGES]; /* who is at the other end of Unix sockets of gpu[] */
	uint32_t edge_count, asked[ZN_PROCS_MAX];      /* whose sockets are looked at, by row */
	uint64_t members;                              /* who there was when they were joined last, as a hash */
	bool is_joined;                                /* joined has something new */
	struct zn_joined joined;
	uint64_t network, read_ns; /* whose sockets these are, and since when */
	uint32_t socket_count;
	struct zn_service_socket socket[ZN_SERVICE_SOCKETS];
	uint64_t on_unix[ZN_SERVICE_PIDS / 64]; /* processes that listen on a Unix socket, a bit each */
};
void zn_services_init(
	struct zn_services *s, struct zn_probe *p, const struct zn_mappers *mappers, pthread_mutex_t *lock);
void zn_services_close(struct zn_services *s);
/* On the finder's thread: what processes were heard to listen, and a part of a look at all; not longer than until
 * then. */
void zn_services_run(struct zn_services *s, uint64_t until_ns);
bool zn_services_ended(uint32_t tgid); /* for zn_requests.ended */
/* From any thread: a process listens; what was found since the last time. */
void zn_services_listen(struct zn_services *s, uint32_t pid);
void zn_services_take(struct zn_services *s, void (*found)(void *to, const struct zn_server *server), void *to);
/* Who belongs together, if that has changed since the last time. */
bool zn_services_joined(struct zn_services *s, struct zn_joined *to);

/* ---- probe/holders.c (zn_holders_): which processes have a GPU open. ---- */

#define ZN_HOLDERS_MAX 256
struct zn_holder {
	uint32_t pid, uid;
	uint64_t start_ticks;  /* as zn_start_ticks() */
	struct zn_job_ref job; /* serial 0: of none */
	char comm[16];
};
struct zn_holders_list {
	uint64_t looks; /* complete ones; 0: there was none */
	uint32_t count;
	uint32_t unknown; /* processes of which it is not known: they have too many open files, or hide them */
	struct zn_holder holder[ZN_HOLDERS_MAX];
};

#ifdef ZN_IN_probe
struct zn_holders {
	struct zn_probe *probe;
	const struct zn_options *options;
	pthread_mutex_t *lock; /* over list */
	int dir;               /* /proc, while a look is under way */
	bool sweeping;
	uint64_t swept_ns;
	struct zn_names names;
	struct zn_holders_list found, list; /* by the look that is under way; by the last one */
};
void zn_holders_init(
	struct zn_holders *h, struct zn_probe *probe, const struct zn_options *options, pthread_mutex_t *lock);
void zn_holders_run(struct zn_holders *h, uint64_t until_ns);
void zn_holders_close(struct zn_holders *h);
#endif

/* ---- probe/children.c (zn_children_): workers that were forked before their parent was tracked. ---- */

#ifdef ZN_IN_probe
struct zn_children {
	struct zn_arena *arena;
	struct zn_tree tree;
	uint32_t looked_for[ZN_PROCS_MAX]; /* ids of processes whose children were looked for, by row */
};
void zn_children_init(struct zn_children *c, struct zn_arena *arena);
void zn_children_close(struct zn_children *c);
bool zn_children_pending(const struct zn_children *c);           /* there is something left to look at */
void zn_children_find(struct zn_children *c, uint64_t until_ns); /* a part of it, not longer than until then */
#endif

/* ---- probe/find.c (zn_find_): the thread that finds libraries, and reads /proc. ---- */

/* One thread of its own, because a user's file system may block it for as long as it likes. */
struct zn_find;
/* open() needs all privileges: where perf_event_paranoid is above 2 (Debian, Ubuntu), CAP_PERFMON does not get mapping
 * events. What start() runs has those that are left when it is called. */
int zn_find_open(struct zn_find **f, struct zn_probe *probe, const struct zn_options *options);
int zn_find_start(struct zn_find *f);
void zn_find_close(struct zn_find *f);
uint64_t zn_find_round_ns(
	struct zn_find *f); /* when it last looked; it stands still while a file system does not answer */
struct zn_libraries *zn_find_libraries(struct zn_find *f);
bool zn_find_process_info(void *find, const struct zn_proc *p, struct zn_process_info *to);
/* For zn_agg.ledger and partial_gpus. */
enum zn_ledger zn_find_ledger(void *find, const struct zn_proc *p);
/* Of zn_ranks: in which function of the kernel a process sleeps, as it was last seen; empty: not known yet, or it
 * runs. */
void zn_find_place(void *find, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES]);
/* Of struct zn_flights: fills in what the threads of a process do; the same request is to be asked again until it is
 * there. */
bool zn_find_threads(void *find, struct zn_threads *to);
uint64_t zn_find_partial_gpus(void *find);
void zn_find_look(void *find, const struct zn_proc *p); /* for zn_agg.look */
struct zn_services *zn_find_services(struct zn_find *f);
void zn_find_holders(struct zn_find *f, struct zn_holders_list *to); /* left as it is if nothing is new */
/* False: the kernel gives no mapping events, /proc is scanned instead. */
bool zn_find_by_events(const struct zn_find *f);

/* ---- probe/python.c (zn_python_): finds CPython in a process, and reads what its functions are called. ---- */

#define ZN_PYTHON_TEXT 512 /* characters of a name or a path */
struct zn_python_layout;
struct zn_python_process {
	uint32_t pid; /* whose memory is read: the process, or a worker of it */
	uint8_t minor;
	const struct zn_python_layout *layout; /* private */
	uint64_t code_type;
	struct zn_python row; /* its id, its counters and how often it is walked are the caller's */
};
/* A code object: addresses of its texts and its table of lines. It is the same function as long as all of this is. */
struct zn_python_code {
	uint64_t name, file, lines;
	int first; /* line */
};
bool zn_python_known(struct zn_python_process *p); /* fills in the rest by its version; false: that is not known */
/* 0: its memory is there, and may be read; -ESRCH: it has gone, or runs another program; -EPERM. */
int zn_python_readable(const struct zn_python_process *p);
/* Fills p, but for its pid. -ENOENT: the process has no Python. -ENOTSUP: it has one that is not known, and why says
 * which; -EAGAIN the same, and later it may be different. */
int zn_python_find(struct zn_python_process *p, char why[ZN_TEXT_MAX]);
bool zn_python_code(
	const struct zn_python_process *p, uint64_t code, struct zn_python_code *to); /* false: it is none */
bool zn_python_text(const struct zn_python_process *p, uint64_t text, uint32_t most, bool tail, struct zn_out *to);
int zn_python_line(const struct zn_python_process *p, const struct zn_python_code *code, int index); /* of pycode.c */

/* ---- probe/native.c (zn_native_): the functions of a copied stack, by the files that a process has mapped. ---- */

#define ZN_NATIVE_FILE 64
struct zn_native_frame {
	char name[ZN_SYMBOLS_NAME], file[ZN_NATIVE_FILE];
};
/* Innermost first. python: it ends where the interpreter begins. truncated: there is more, which is not known. */
struct zn_native_stack {
	uint32_t count, truncated;
	struct zn_native_frame frame[ZN_NATIVE_FRAMES];
};
/* In the process that may be held up. */
void zn_native_read(uint32_t pid, const struct zn_native *n, bool python, struct zn_native_stack *to);

/* ---- probe/naming.c (zn_naming_): asks a process of its own for the Python of processes, and for the functions of
 * stacks. ---- */

/* An owner whose processes held up who reads their memory, or whose files who reads those. */
#define ZN_NAMING_HOLDS 32
struct zn_naming_hold {
	uint32_t owner, times;
	uint64_t until_ns;
};
struct zn_naming {
	struct zn_reader reader;
	struct zn_naming_hold hold[ZN_NAMING_HOLDS];
	uint32_t held_pid; /* the last of these processes */
	uint64_t held_until_ns;
	struct zn_naming_hold file_hold[ZN_NAMING_HOLDS];
};
/* Whose memory: a process, or a worker of it; id: the process's. */
struct zn_naming_of {
	uint32_t pid, id, owner;
};
struct zn_naming_frame {
	int line, first; /* line: as of zn_python_line() */
	struct zn_str name, file;
};
int zn_naming_open(struct zn_naming *n); /* before any thread and any filter */
void zn_naming_close(struct zn_naming *n);
/* The process that held a reader up last; 0: none, or it is read again. */
uint32_t zn_naming_held(const struct zn_naming *n);
bool zn_naming_waits(struct zn_naming *n, uint32_t owner); /* no copied stack of his is read now */
/* As zn_python_find(); -EBUSY: it was not asked, or did not answer. */
int zn_naming_find(
	struct zn_naming *n, const struct zn_naming_of *of, struct zn_python_process *to, char why[ZN_TEXT_MAX]);
/* The frames of a stack, which zn_naming_frame() has until something else is asked; -errno: they cannot be read. */
int zn_naming_ask(struct zn_naming *n, const struct zn_naming_of *of, const struct zn_python_process *p,
	const struct zn_stack *s);
struct zn_naming_frame zn_naming_frame(const struct zn_naming *n, uint32_t i);
/* The functions of a copied stack; no copy is left behind. */
int zn_naming_native(struct zn_naming *n, const struct zn_naming_of *of, const struct zn_native *copied, bool python,
	struct zn_native_stack *to);

/* ---- probe/clock.c (zn_clock_ zn_clocks_): a clock on each CPU that runs Python, by which stacks are walked. ---- */

struct zn_clocks {
	const struct zn_probe *probe;
	int program, error;
	uint32_t cpus, used; /* used: processes with Python */
	bool keeps;          /* clocks that do not run, as the kernel would not let them be opened again */
	bool runs[ZN_CPUS_MAX];
	int event[ZN_CPUS_MAX], link[ZN_CPUS_MAX]; /* 0: none */
	uint64_t ran_ns
		[ZN_CPUS_MAX];      /* when it was last seen to run a thread of theirs, or of another tracked process */
	uint64_t stay[ZN_CPUS_MAX]; /* of the CPU, when its clock was opened */
	uint64_t cleared_ns, asked_ns, retry_ns;
};
void zn_clocks_init(struct zn_clocks *c, const struct zn_probe *probe);
void zn_clocks_begin(struct zn_clocks *c, uint32_t pid); /* a process with Python, and its end */
void zn_clocks_end(struct zn_clocks *c);
void zn_clocks_look(struct zn_clocks *c, uint64_t now_ns); /* which CPUs need one */
void zn_clocks_close(struct zn_clocks *c);
void zn_clocks_why(const struct zn_clocks *c, char why[ZN_TEXT_MAX]); /* by any thread; empty: they run */
uint64_t zn_clock_cpu_ns(uint32_t pid); /* what the threads of a process, gone ones too, were on CPUs; 0: not known */
/* That process, in a row that is mapped. */
static inline bool zn_clock_lives(const struct zn_arena *a, uint32_t row, uint32_t id)
{
	const struct zn_proc *p = &a->procs[row];

	return __atomic_load_n(&p->id, __ATOMIC_ACQUIRE) == id && !__atomic_load_n(&p->exit_ns, __ATOMIC_RELAXED);
}

/* ---- probe/examples.c (zn_examples_): examples of what is below stacks of Python functions. ---- */

/* An owner whose functions were read, and until when no others of his are. */
struct zn_examples_turn {
	uint32_t owner;
	uint64_t until_ns;
};
struct zn_examples_slot {
	uint32_t asleep; /* node of an example of a sleep whose cause is not known yet, and 1; 0: none */
	uint8_t failed;  /* copies of which nothing could be told */
};
struct zn_examples {
	struct zn_native *native; /* of the kernel; NULL: none are copied */
	struct zn_examples_turn turn[16];
	struct zn_examples_slot slot[ZN_STACKS_MAX]; /* of the kernel's table of stacks */
};
/* Whose stack is in a slot, and what is known of it. */
struct zn_examples_whose {
	struct zn_naming_of of;
	uint32_t root, node;
	uint64_t hash;
};
struct zn_examples_from {
	struct zn_stacks *stacks;
	struct zn_naming *naming;
	struct zn_stack *table;
	void *owner;
	bool (*whose)(void *owner, uint32_t at, struct zn_examples_whose *to); /* false: it is not known yet */
	bool (*lives)(void *owner, uint32_t at); /* its memory is still that of the process */
};
int zn_examples_open(struct zn_examples *e, int fd);
void zn_examples_close(struct zn_examples *e);
/* The next one that is filled, from the place *i on; NULL: there is none. */
struct zn_native *zn_examples_next(struct zn_examples *e, uint32_t *i);
void zn_examples_free(struct zn_native *n); /* overwrites it */
/* One owner's files take a twentieth of the time at most, and all owners' half of it. */
bool zn_examples_may(const struct zn_examples *e, uint32_t owner, uint64_t now_ns);
void zn_examples_spent(struct zn_examples *e, uint32_t owner, uint64_t begin_ns, uint64_t end_ns);
/* Reads those that are filled, and puts examples into the tree. */
void zn_examples_take(struct zn_examples *e, const struct zn_examples_from *from);
/* Whether a copy of a stack of this root's would be given up unread, as of now. */
bool zn_examples_in_vain(
	const struct zn_examples *e, const struct zn_examples_from *from, uint32_t root, uint32_t owner);
void zn_examples_clear(struct zn_examples *e, uint32_t at); /* another stack is in a slot */
/* With the lock of stacks held: nodes have moved; a slot may tell the cause of a sleep. */
void zn_examples_follow(struct zn_examples *e, const struct zn_stacks *s, uint32_t at);
void zn_examples_settle(
	struct zn_examples *e, struct zn_stacks *s, const struct zn_stack *stack, uint32_t at, uint32_t node);
/* Adds its functions below a node, with the lock of stacks held. NO_NODE: there is no room, and nothing is shown. */
uint32_t zn_examples_add(struct zn_stacks *s, uint32_t root, uint32_t node, const struct zn_native_stack *n);

/* ---- probe/nodes.c (zn_nodes_): the place of a stack in the tree of stacks. ---- */

struct zn_nodes {
	const struct zn_probe *probe;
	struct zn_stacks *stacks;
	struct zn_naming *naming;
};
/* A process, by its row and its root in the tree. */
struct zn_nodes_of {
	uint32_t id, pid, row, root;
	const struct zn_python_process *python;
};
/* Adds it if it is new, and takes the lock of stacks for that. NO_NODE: there is no room. */
uint32_t zn_nodes_stack(const struct zn_nodes *n, const struct zn_nodes_of *p, const struct zn_stack *s);
/* Whether a stack's memory is still that of the process, or of a worker of it. It is asked before and after the memory
 * is read. */
bool zn_nodes_lives(const struct zn_nodes *n, const struct zn_nodes_of *p, uint32_t pid);

/* ---- probe/every.c (zn_every_): one in how many calls and sleeps of a process is walked. ---- */

#define ZN_WALKER_ROUND_MS 100
/* What there was at the last round. */
struct zn_every {
	uint64_t launches, others, sleeps, walks, walk_ns;
};
/* Says for a process what is walked from here on, by what there was since the last round. Returns the leaves of which
 * some are passed over, a bit each. */
uint32_t zn_every_adapt(struct zn_every *last, struct zn_python *r, uint64_t elapsed_ns);

/* ---- probe/walker.c (zn_walker_): from stacks as the kernel has them to functions and lines. ---- */

struct zn_walker;
/* open(): once the probes are there; -errno. start(): a thread of its own, as it waits for who reads what users may
 * hold up. */
int zn_walker_open(struct zn_walker **to, struct zn_probe *probe, struct zn_stacks *stacks, struct zn_naming *naming);
int zn_walker_start(struct zn_walker *w);
void zn_walker_wake(struct zn_walker *w); /* there are new stacks */
void zn_walker_close(struct zn_walker *w);
/* Of a row: 3.minor, or 0 with why: it has none that is known (empty: none at all, or not looked for yet), or no place
 * among the processes whose stacks are kept. */
uint8_t zn_walker_python(struct zn_walker *w, uint32_t row, uint32_t id, char why[ZN_TEXT_MAX]);
/* Of a process with one that is known: why the clock does not run; empty: it does, or the process is not there any
 * more. */
void zn_walker_clock(struct zn_walker *w, uint32_t id, char why[ZN_TEXT_MAX]);
/* A process that holds up who reads its memory; 0: none. */
uint32_t zn_walker_held(struct zn_walker *w);

/* ---- job/message.c (zn_message_ zn_key_ zn_verb_ zn_job_file): what is said over the control socket, and kept in a
 * file while the daemon is down. ---- */

#define ZN_MESSAGE_BYTES 4096 /* one datagram, or one file */
#define ZN_VALUE_BYTES   257  /* of one value with its NUL: printable ASCII */
enum zn_verb {
	ZN_VERB_START = 1,
	ZN_VERB_END,
	ZN_VERB_LIST,
	ZN_VERB_SHOW,
	ZN_VERB_REPORT,
	ZN_VERB_HANG,
	ZN_VERB_ANNOTATE
};
#define ZN_VERB_LAST ZN_VERB_ANNOTATE
/* Column 2 is the key as it is written; column 3 the variable of Slurm's prolog and epilog that it is copied from. */
#define ZN_KEYS(X)                                                                                                     \
	X(ID, "id", "SLURM_JOB_ID")                                                                                    \
	X(RESTART, "restart", "SLURM_JOB_RESTART_COUNT")                                                               \
	X(UID, "uid", "SLURM_JOB_UID")                                                                                 \
	X(GID, "gid", "SLURM_JOB_GID")                                                                                 \
	X(USER, "user", "SLURM_JOB_USER")                                                                              \
	X(ACCOUNT, "account", "SLURM_JOB_ACCOUNT")                                                                     \
	X(PARTITION, "partition", "SLURM_JOB_PARTITION")                                                               \
	X(NAME, "name", "SLURM_JOB_NAME")                                                                              \
	X(NODELIST, "nodelist", "SLURM_NODELIST")                                                                      \
	X(NODES, "nodes", "SLURM_JOB_NUM_NODES")                                                                       \
	X(TASKS, "tasks", "SLURM_JOB_NTASKS")                                                                          \
	X(CPUS, "cpus", "SLURM_JOB_CPUS_PER_NODE")                                                                     \
	X(GPUS, "gpus", "SLURM_JOB_GPUS")                                                                              \
	X(CLUSTER, "cluster", "SLURM_CLUSTER_NAME")                                                                    \
	X(SLUID, "sluid", "SLURM_JOB_SLUID")                                                                           \
	X(HET_JOB, "het_job", "SLURM_HET_JOB_ID")                                                                      \
	X(ARRAY_JOB, "array_job", "SLURM_ARRAY_JOB_ID")                                                                \
	X(ARRAY_TASK, "array_task", "SLURM_ARRAY_TASK_ID")                                                             \
	X(START_TIME, "start_time", "SLURM_JOB_START_TIME")                                                            \
	X(END_TIME, "end_time", "SLURM_JOB_END_TIME")                                                                  \
	X(QOS, "qos", "SLURM_JOB_QOS")                                                                                 \
	X(EXIT_CODE, "exit_code", "SLURM_JOB_EXIT_CODE2")                                                              \
	X(CGROUP, "cgroup", NULL)                                                                                      \
	X(PID, "pid", NULL)       /* of the process that is meant */                                                   \
	X(PARENT, "parent", NULL) /* it is the parent of the one that asks */                                          \
	X(LABELS, "labels", NULL) /* KEY=VALUE, with commas between them */                                            \
	X(TIME, "time", NULL)     /* when it was said, ms since 1970: of a message that was left as a file */          \
	X(BOOT, "boot", NULL)     /* of struct zn_moment, when it was said; both are in files alone */                 \
	X(UPTIME, "uptime", NULL) /* likewise: it tells when, however the wall clock was set since */                  \
	X(JSON, "json", NULL)     /* the answer is wanted as JSON */                                                   \
	X(LINE, "line", NULL)     /* the report is wanted as one line */                                               \
	X(MAIL, "mail", NULL)     /* the report is wanted as a mail */
enum zn_key {
#define X(e, name, variable) ZN_KEY_##e,
	ZN_KEYS(X)
#undef X
		ZN_KEY_COUNT
};
struct zn_message {
	enum zn_verb verb;
	char value[ZN_KEY_COUNT][ZN_VALUE_BYTES]; /* empty: not said */
};
/* A message is lines of printable ASCII: "zernel 1 VERB", then key=value, each key once, at most 64 of them. -EINVAL
 * with why. Numbers are checked: ids are 1 to 2^32-2, or (sites without Slurm) a word of up to 15 of [A-Za-z0-9._-]
 * that is not NUMBER_NUMBER. */
int zn_message_read(struct zn_message *m, const char *text, size_t len, char why[ZN_TEXT_MAX]);
/* The same of a file, which a later version may have left: keys that are not known are passed over. */
int zn_message_read_file(struct zn_message *m, const char *text, size_t len, char why[ZN_TEXT_MAX]);
/* False: it does not fit into ZN_MESSAGE_BYTES. Values that are not printable ASCII were refused when they were set. */
bool zn_message_write(struct zn_out *o, const struct zn_message *m);
/* Whether a value may be said for a key; else why has a line that names the key and what it must be. */
bool zn_message_check(enum zn_key key, const char *value, char why[ZN_TEXT_MAX]);
/* Copies a value; a byte that is not printable ASCII becomes '?', and it is cut at 256. */
void zn_message_set(struct zn_message *m, enum zn_key key, const char *value);
/* Writes when it was said into it. */
void zn_message_date(struct zn_message *m, const struct zn_moment *when);
/* How long ago it was said. False: before this boot. Of a message that does not name its boot the wall clock
 * decides. */
bool zn_message_ago(const struct zn_message *m, const struct zn_moment *now, uint64_t *ago_ms);
const char *zn_key_name(enum zn_key key);
const char *zn_key_variable(enum zn_key key); /* NULL: none */
const char *zn_verb_name(enum zn_verb verb);
int zn_message_key(struct zn_str name); /* enum zn_key, or -EINVAL */
/* The spool, a folder that is root's alone beside the control socket (below /run, so that it goes with the jobs when
 * the node goes): messages that clients left there, which the daemon takes and removes, and one record of each job that
 * runs, the message that it was started with, which stays until the job has ended. */
#define ZN_SPOOL_LEFT   "left-" /* then the time and the process id of who left it */
#define ZN_SPOOL_RECORD "job-"  /* then as a report is called */
#define ZN_NAME_BYTES   64      /* of a file's name, with its NUL */
/* The folder that belongs to a control socket. False, and empty: there is no socket, or it does not fit. */
bool zn_message_folder(char to[ZN_TEXT_MAX], const char *control);
/* "<prefix><id>[_<restart>]<suffix>": of a record (ZN_SPOOL_RECORD, "") or a report ("", ".json"). */
void zn_job_file(char to[ZN_NAME_BYTES], const char *prefix, const char *id, uint32_t restart, const char *suffix);
#define ZN_FLIGHTS 4 /* records of hangs that are kept of one job; a later episode takes the place of the oldest */
/* job empty: the processes of none. episode: from 1 on. No job's id is so long that its report has such a name. */
void zn_job_file_hang(char to[ZN_NAME_BYTES], const char *job, uint32_t restart, uint32_t episode);

/* ---- job/table.c (zn_job_ zn_jobs_find zn_jobs_newest zn_jobs_found zn_jobs_at zn_jobs_of): the table of jobs: who
 * they are. ---- */

#define ZN_JOB_GRACE_NS   (10 * ZN_NS_PER_S) /* between the two signs of a job's end, epilog and control group */
#define ZN_JOB_ALERTS     16
#define ZN_JOB_GONE_BYTES (ZN_OPERATION_COUNT * sizeof(struct zn_hist_sum))
enum zn_job_state { ZN_JOB_FREE, ZN_JOB_RUNNING, ZN_JOB_ENDING, ZN_JOB_ENDED };
/* ZN_JOB_BY_OLD_FILE: its number of a process is not the job's any more */
enum zn_job_source { ZN_JOB_BY_CGROUP, ZN_JOB_BY_PROLOG, ZN_JOB_BY_TAG, ZN_JOB_BY_FILE, ZN_JOB_BY_OLD_FILE };
struct zn_job_gpu {
	uint32_t gpu;        /* index into zn_gpus, which another GPU may get once no process uses this one */
	char id[48];         /* so this is how it is called */
	bool given;          /* the prolog listed it */
	bool allocated;      /* it was given to the job (SLURM_JOB_GPUS), or a process of it used it */
	uint64_t peak_bytes; /* the highest sum over its processes at a tick, or of one process between two */
	bool partial;        /* the memory of a process was not seen as a whole: peak_bytes is not known */
	uint64_t busy_ns;    /* time in which a process of it with memory there launched, copied or waited */
	uint64_t active_ns;  /* the same, and a tenth of a second after a launch that nobody waits for */
	uint64_t idle_ns;    /* the time that is not in busy_ns */
	uint64_t quiet_ns;   /* ticks since it was busy last */
	/* of quiet_ns, what is not in idle_ns yet: a call that waits for the GPU may be under way, and is seen when it
	 * returns */
	uint64_t held_ns;
	/* since GPU time was counted last */
	bool open;                             /* a process that lives has memory on it */
	bool active;                           /* one that has, or had, did something */
	bool hangs;                            /* one waits for a rank that does not come */
	uint64_t waited_ns;                    /* how long the calls took that such a process came back from */
	uint64_t tick_busy_ns, tick_active_ns; /* of all such processes, by struct zn_activity */
	uint64_t used_bytes;
};
struct zn_job_alert {
	char name[32], label[48];
	uint64_t first_ns; /* of zn_now_ns() */
	uint32_t times;
};
struct zn_job {
	enum zn_job_state state;
	enum zn_job_source source;
	uint32_t slot, serial;   /* of its zn_job_shared */
	struct zn_message about; /* what prolog, epilog or a tag said */
	char id[ZN_JOB_NAME];    /* label job_id */
	uint32_t restart;
	uint32_t uid; /* ZN_UNKNOWN: not known */
	uint64_t start_ns, end_ns, start_wall_ms, end_wall_ms;
	bool epilog;
	uint64_t epilog_ns;
	uint32_t processes; /* that live and called a hooked library */
	uint32_t processes_gone;
	bool reported;
	struct zn_job_gpu gpu[ZN_PROC_GPUS];
	uint32_t gpu_count;
	uint64_t count[ZN_COUNTER_SLOTS]; /* of processes that have gone; gauges are 0 */
	struct zn_proc_gpu memory;        /* likewise: their alloc_calls to fail_other, on all GPUs together */
	struct zn_hist_sum *gone;         /* ZN_OPERATION_COUNT of them, likewise */
	struct zn_job_alert alert[ZN_JOB_ALERTS];
	uint32_t alert_count, alerts_lost;
	uint64_t lost_start[ZN_LOSS_COUNT]; /* the node's losses when it started: what came since may be its own */
	uint64_t lost_end[ZN_LOSS_COUNT];   /* and when it ended */
	bool found;                         /* it ran before the daemon started */
	bool announced;                     /* by a prolog, a tag or a file: else only its name in a path is known */
	uint64_t next_ns;                   /* when its id started again as another job; 0: it did not */
	uint64_t empty_ns;   /* since when a job that was tagged by hand has no process; 0: it has some */
	uint64_t alive_ns;   /* when it was last seen to have a process; 0: never */
	uint64_t counted_ns; /* up to when the GPUs' time is counted */
	uint64_t lived_ns, unseen_ns[ZN_SPARE_COUNT]; /* of processes that have gone; what was spared of them */
	bool astray;             /* since then a process did something on a GPU that is not known */
	struct zn_failed failed; /* of processes that have gone */
	struct zn_failed_call failed_first;
};
struct zn_jobs {
	struct zn_agg *agg;
	struct zn_alerts *alerts;
	const struct zn_activity *activity; /* NULL: nobody looks (tests), and a tick with a call is busy as a whole */
	struct zn_job job[ZN_JOBS_MAX];     /* by slot */
	void *memory;                       /* of the histograms; touched only as far as it is used */
	uint32_t high;                      /* slots from here on were never used */
	uint64_t refused;                   /* newcomers that found the table full */
	bool loading; /* another thread claims slots of the kernel's table: none is looked at until it is done */
	bool crowded; /* series of file I/O run short: jobs that have ended make room. job/io.c sets it */
	bool regroup; /* control groups that an ended job has may be those of a further run of it */
	uint64_t tick_ns;
	struct zn_hist_sum merged;         /* scratch of zn_job_merge() */
	uint64_t count[ZN_COUNTER_SLOTS];  /* scratch of zn_job_counts() */
	struct zn_failed failed;           /* of processes of no job that have gone */
	uint64_t failed_cuda, failed_rdma; /* all of these */
	uint64_t alerts_ns;                /* alerts that fired up to here are noted */
	uint32_t tasks[ZN_JOBS_MAX];       /* processes of each job, when one without any was looked for last */
	struct zn_job_seen {
		uint32_t id;                 /* zn_proc.id this belongs to */
		bool asked;                  /* its environment was read, or there is none */
		uint64_t calls;              /* hooked calls to CUDA and NCCL, at the last look */
		uint64_t sum_ns;             /* what those that have returned took */
		uint64_t busy_ns, active_ns; /* as of struct zn_activity_row */
		struct zn_slurm_env slurm;
	} seen[ZN_PROCS_MAX];
	/* what is lost besides zn_shared.lost; NULL: nothing is known of it */
	uint64_t (*lost)(const struct zn_state *state, enum zn_loss what);
	const struct zn_state *state;
	/* what happens to a job, for who keeps records of it; NULL: nobody does. started: also when an epilog has come and
	 * the job goes on until its control group has gone */
	void (*started)(void *owner, const struct zn_job *job);
	void (*ended)(void *owner, struct zn_job *job);
	void *owner;
};
/* Once, at the start: the jobs that are there by now ran before. */
void zn_jobs_found(struct zn_jobs *j);
/* The newest job of this id (and restart count, unless it is ZN_UNKNOWN); NULL: there is none. */
struct zn_job *zn_jobs_find(struct zn_jobs *j, const char *id, uint32_t restart);
uint32_t zn_jobs_newest(
	struct zn_jobs *j, const struct zn_job *to[ZN_JOBS_MAX]);      /* of each id the newest, by slot: how many */
struct zn_job *zn_jobs_of(struct zn_jobs *j, const struct zn_proc *p); /* NULL: of no job */
struct zn_job *zn_jobs_at(struct zn_jobs *j, struct zn_job_ref tag);
const char *zn_job_id(struct zn_jobs *j, const struct zn_proc *p); /* "" of no job */
struct zn_job_shared *zn_job_shared_of(struct zn_jobs *j, const struct zn_job *job);
const char *zn_job_state_label(enum zn_job_state s);
uint64_t zn_job_elapsed_ns(const struct zn_job *job); /* until its end, or now */
bool zn_job_runs(const struct zn_job *job);
const char *zn_job_said(const struct zn_job *job, enum zn_key key);
uint64_t zn_job_clamp_before(uint64_t from, uint64_t less);
bool zn_job_number(const char *text, uint32_t *to);
uint32_t zn_job_number_or_unknown(const char *text);
void zn_job_note_losses(struct zn_jobs *j, uint64_t to[ZN_LOSS_COUNT]);

#ifdef ZN_IN_job
/* Jobs that the kernel's programs claimed. */
void zn_job_discover(struct zn_jobs *j);
/* Of those that are found already. */
struct zn_job *zn_jobs_find_known(struct zn_jobs *j, const char *id, uint32_t restart);
struct zn_job *zn_job_in_slot(struct zn_jobs *j, uint32_t slot);
#endif

/* ---- job/sums.c (zn_job_merge zn_job_counts zn_job_memory zn_job_failed zn_job_add_ zn_job_seen_part): sums. ---- */

/* What all its processes did, gone ones included; each result lives until the next call. */
const struct zn_hist *zn_job_merge(struct zn_jobs *j, const struct zn_job *job, enum zn_operation operation);
const uint64_t *zn_job_counts(struct zn_jobs *j, const struct zn_job *job);
struct zn_proc_gpu zn_job_memory(
	struct zn_jobs *j, const struct zn_job *job); /* alloc_calls to fail_other, of all GPUs */
/* For how much of the time that its processes lived a part was measured, in thousandths. */
uint32_t zn_job_seen_part(const struct zn_jobs *j, const struct zn_job *job, enum zn_spare part);
/* Calls of CUDA and HIP, and system calls on devices of RDMA, that failed; job NULL: of processes of none. */
struct zn_job_failed {
	uint64_t cuda, rdma;         /* how many */
	struct zn_failed sum;        /* by what failed */
	struct zn_failed_call first; /* of which process to tell; key 0: none */
};
uint32_t zn_job_failed_rows(const struct zn_jobs *j, uint32_t to[ZN_PROCS_MAX]); /* of which something failed */
void zn_job_failed(const struct zn_jobs *j, const struct zn_job *job, const uint32_t *rows, uint32_t row_count,
	struct zn_job_failed *to);
void zn_job_add_failed(struct zn_jobs *j, uint32_t row, const struct zn_proc *p); /* of no job, that has gone */
void zn_job_add_gone(struct zn_jobs *j, struct zn_job *job, uint32_t row, const struct zn_proc *p);

/* ---- job/gpu_time.c (zn_job_gpus_): what a job holds on each GPU, and whether it uses it. ---- */

/* The mean utilization of its GPUs, as a source of these tells it, in millionths; ZN_NOT_KNOWN: it has none, it has
 * ended, or nobody tells that of one. h may be NULL. */
uint64_t zn_job_gpus_utilization(const struct zn_hardware *h, const struct zn_job *job);

#ifdef ZN_IN_job
void zn_job_gpus_given(struct zn_jobs *j, struct zn_job *job);
void zn_job_gpus_note(struct zn_jobs *j, struct zn_job *job, uint32_t row, const struct zn_proc *p);
void zn_job_gpus_partial(struct zn_jobs *j, struct zn_job *job, bool any);
void zn_job_gpus_count(const struct zn_jobs *j, struct zn_job *job, uint64_t now_ns);
bool zn_job_gpus_has(const struct zn_job *job, const char *id); /* by the name that the job has it under */
bool zn_job_gpus_has_at(const struct zn_jobs *j, const struct zn_job *job, const char *pci);
#endif

/* ---- job/lifecycle.c (zn_jobs_): when jobs begin and end. ---- */

/* One mapping for all histograms, made at the start. agg->gone_row and agg->jobs are taken. */
int zn_jobs_open(struct zn_jobs *j, struct zn_agg *agg, struct zn_alerts *alerts);
void zn_jobs_close(struct zn_jobs *j);
/* 0, or -errno with a line in why. A start that is told twice is one start; the end of an unknown job is no error. A
 * start of an id that has ended, or with another restart count, is a new job. Where a file tells of a process or a
 * control group that has gone, it is 0 with a line in why: the job is begun, and ends some seconds later. */
int zn_jobs_start(struct zn_jobs *j, const struct zn_message *m, enum zn_job_source source, char why[ZN_TEXT_MAX]);
int zn_jobs_end(struct zn_jobs *j, const struct zn_message *m, char why[ZN_TEXT_MAX]);
/* Finds jobs that BPF claimed, ends those whose time has come, adds up the GPUs' time, forgets what was shown. */
void zn_jobs_tick(struct zn_jobs *j, uint64_t now_ns);
/* A start that the owner of a running job sends (a task prolog, which knows what no prolog is told): its name and the
 * ids of its array are taken where nothing was said, the rest is not. How many were taken; -EPERM with why: no such job
 * of this user runs. */
int zn_jobs_describe(struct zn_jobs *j, const struct zn_message *m, uint32_t uid, char why[ZN_TEXT_MAX]);

/* ---- job/io.c (zn_io_sum_ zn_io_sums_): file I/O by job and mount. ---- */

/* The series of one operation: of any device with that mount, and of all shards. Figures are sums over its rows. */
struct zn_io_sum_op {
	uint32_t first; /* row, chained; 0: none */
	uint64_t tick_calls, tick_bytes;
	uint64_t call_rate, byte_rate; /* per 1000 s, and per second, over the last tick */
	uint64_t tick_ns, spent_ns;    /* time of all such calls, at the last tick, and over it */
};
struct zn_io_sum {
	bool used;
	bool same_mount;       /* another one has the same job and point: they differ in the type of file system */
	struct zn_job_ref job; /* serial 0: none */
	char point[ZN_MOUNT_BYTES], fstype[ZN_FSTYPE_BYTES];
	uint64_t active_ns; /* when it was last seen to grow */
	uint32_t owner;     /* whose share of the table it is of */
	struct zn_io_sum_op op[ZN_IO_OP_COUNT];
};
struct zn_io_sum_total {
	uint64_t calls, errors, bytes, ns;
};
enum zn_io_sum_row_state {
	ZN_ROW_FREE,
	ZN_ROW_WAITING, /* there is no room to show it */
	ZN_ROW_LIVE,
	ZN_ROW_CUT, /* of a mount that is gone */
	ZN_ROW_LEAVING
};
/* One entry of the arena's table, by its histogram. */
struct zn_io_sum_row {
	struct zn_io_key key;
	struct zn_io_row of;
	enum zn_io_sum_row_state state;
	uint32_t next, io_sum, version;
	uint64_t calls;    /* at the last tick */
	uint64_t since_ns; /* of its state; while it waits, since when there were no calls */
	bool lost;         /* there was no room to show it, which was counted */
};
struct zn_job;
struct zn_jobs;
struct zn_io_sums {
	struct zn_arena *arena;
	struct zn_jobs *jobs; /* NULL: nothing is of any job (tests) */
	struct zn_mounts mounts;
	struct zn_io_sum io_sum[ZN_IO_SUMS_MAX];
	uint32_t high; /* entries from here on were never used */
	struct zn_quota quota;
	struct zn_io_sum_row row[ZN_HISTS_MAX + ZN_IO_MAX];
	uint32_t row_high, row_count;
	uint64_t made;                /* of zn_shared.io_made, whose rows are here */
	uint32_t version;             /* of the names of mounts that the rows have */
	uint16_t hidden[ZN_JOBS_MAX]; /* by a job's slot: operations, a bit each, of rows of it that wait */
	uint64_t tick_ns;
	struct zn_io_entry entry[ZN_IO_MAX]; /* scratch */
	struct zn_hist_sum merged;           /* scratch of zn_io_sum_merge() */
};
void zn_io_sums_init(struct zn_io_sums *f, struct zn_arena *arena, struct zn_jobs *jobs);
/* Finds what is new. At each tick, and before figures are shown, so that what is short is seen too. */
void zn_io_sums_refresh(struct zn_io_sums *f);
/* The same with new rates; what is of jobs that are forgotten goes, and of mounts that are gone and idle. */
void zn_io_sums_tick(struct zn_io_sums *f, uint64_t now_ns);
/* The label job_id of such sums, "" of no job; NULL: it is not shown, as a newer job has the same id. */
const char *zn_io_sum_job(const struct zn_io_sums *f, const struct zn_io_sum *io_sum);
bool zn_io_sum_of(const struct zn_io_sum *io_sum, const struct zn_job *job);
struct zn_io_sum_total zn_io_sum_total(const struct zn_io_sums *f, const struct zn_io_sum *io_sum, enum zn_io_op op);
/* The operations, a bit each, of which a job has done some that are in no figure: there was no room for more of its
 * series, or for so many under way at one time. The second has the latter alone, which leaves no series of theirs
 * whole. */
uint32_t zn_io_sums_lost(const struct zn_io_sums *f, struct zn_job_ref job);
/* Whether the figures of an operation are whole, lost: of zn_io_sums_lost(): those that were counted from the first one
 * on, and of which none was missed since. */
bool zn_io_sum_whole(const struct zn_io_sums *f, const struct zn_io_sum *io_sum, enum zn_io_op op, uint32_t lost);
uint32_t zn_io_sums_missed(const struct zn_io_sums *f, struct zn_job_ref job);
/* All durations of an operation; with those of the same mount: NULL if one before it has them. Lives until the next
 * call. */
const struct zn_hist *zn_io_sum_merge(
	struct zn_io_sums *f, const struct zn_io_sum *io_sum, enum zn_io_op op, bool same_mount);
struct zn_state;
/* Tells of the time that went into reading, opening and asking for files over the last tick. */
void zn_io_sums_causes(const struct zn_io_sums *f, struct zn_causes *c);

/* ---- job/progress.c (zn_jobs_progress_ zn_job_progress): for how long nothing of a job has moved. ---- */

struct zn_job_progress {
	uint32_t serial;     /* of the job */
	uint32_t processes;  /* of it that live, at the last tick */
	uint64_t began_ns;   /* when one of them first launched something; 0: none has */
	uint64_t last_ns;    /* when something moved last */
	uint64_t longest_ns; /* pause that came to an end, since it began */
	uint64_t busy_ns;    /* since last_ns: of the thread that ran most */
	bool was_halted;     /* since it moved last, all of its processes were */
	/* of one tick */
	uint64_t newest_ns, tick_busy_ns;
	uint32_t halted; /* processes that are stopped, or frozen */
};
struct zn_jobs_progress {
	const struct zn_stopped *stopped; /* NULL: nothing is known of that. The caller's to set */
	uint64_t tick_ns;
	struct zn_job_progress job[ZN_JOBS_MAX]; /* by slot */
};
/* After zn_jobs_tick(), zn_progress_tick() and zn_io_sums_tick(). */
void zn_jobs_progress_tick(struct zn_jobs_progress *t, struct zn_jobs *j, const struct zn_progress *g,
	const struct zn_io_sums *f, uint64_t now_ns);
/* For how long nothing has moved, and for how long that may be as its own pauses have been. False: it does not run, has
 * not launched anything yet, or has no process. */
bool zn_job_progress(const struct zn_jobs_progress *t, const struct zn_job *job, uint64_t *age_ns, uint64_t *limit_ns);

/* ---- job/suspicion.c (zn_suspicion_): jobs that seem to hang, and what NCCL's RAS service says of them. ---- */

#define ZN_SUSPICIONS_MAX 16
#define ZN_SUSPICION_TEXT 448
enum zn_suspicion_state { ZN_SUSPICION_NONE, ZN_SUSPICION_RAISED, ZN_SUSPICION_ASKED, ZN_SUSPICION_OVER };
struct zn_suspicion {
	enum zn_suspicion_state state;
	struct zn_job_ref job;           /* serial 0: none; then it is of all processes of the owner that have none */
	uint32_t owner;                  /* of its processes, as in struct zn_proc */
	uint32_t row, id;                /* of a process that waits */
	uint64_t since_ns;               /* of the episode */
	uint64_t last_ns;                /* when it was last raised */
	uint64_t asked_ns;               /* 0: nobody was asked yet */
	uint64_t number, bytes;          /* of the question; of its answer */
	enum zn_inquiry_outcome outcome; /* once it is over */
	char address[64];                /* where the service is looked for */
	struct zn_ras_answer answer;
};
struct zn_suspicions {
	struct zn_agg *agg;
	struct zn_sender *sender;
	/* zn_sender_ask(); the caller's to set: who shows what there is needs no sender */
	uint64_t (*send)(struct zn_sender *c, const struct zn_inquiry_ask *ask);
	const char *proc; /* "/proc" */
	bool on;
	uint64_t tick_ns;
	uint64_t outcomes[ZN_INQUIRY_COUNT];
	uint32_t host_count;
	char host[ZN_RAS_HOSTS][ZN_RAS_HOST]; /* addresses of this node, as they were when a question was asked last */
	struct zn_suspicion suspicion[ZN_SUSPICIONS_MAX];
	struct zn_inquiry_ask ask; /* scratch */
};
/* Before the system calls are filtered. */
void zn_suspicion_init(struct zn_suspicions *s, struct zn_agg *agg, struct zn_sender *sender, const char *proc);
/* The same of all jobs whose ranks wait for one of this node, or all for one of another node. */
void zn_suspicion_hangs(struct zn_suspicions *s, const struct zn_causes *causes, uint64_t now_ns);
void zn_suspicion_tick(struct zn_suspicions *s, uint64_t now_ns); /* takes an answer, asks the next one */
/* What there is on a job, while it is suspected; job.serial 0: on processes of none. NULL: nothing. */
const struct zn_suspicion *zn_suspicion_of(const struct zn_suspicions *s, struct zn_job_ref job);
/* As the rest of "NCCL's RAS says: ..." if somebody answered, else a sentence on that. True: it is the rest. */
bool zn_suspicion_says(const struct zn_suspicion *s, char to[ZN_SUSPICION_TEXT]);

#ifdef ZN_IN_job
/* A job is suspected to hang: p is one of its processes that waits. At each tick, as long as that holds: once per
 * episode the RAS service of its NCCL is asked. */
void zn_suspicion_raise(struct zn_suspicions *s, const struct zn_proc *p, uint64_t now_ns);
#endif

/* ---- job/hierarchies.c (zn_hierarchy_ zn_hierarchies_ zn_cgroup_points zn_cgroup_folders): where control groups are
 * mounted. ---- */

void zn_cgroup_points(void (*visit)(void *to, const char *path), void *to); /* where control groups are mounted */
/* Where the group of a path is that a controller has; at is empty where it has none, or the folder does not fit. */
#define ZN_CGROUP_FOLDER 384
enum zn_controller {
	ZN_CONTROLLER_CPUACCT,
	ZN_CONTROLLER_CPU,
	ZN_CONTROLLER_MEMORY,
	ZN_CONTROLLER_CPUSET,
	ZN_CONTROLLERS
};
struct zn_cgroup_folders {
	char at[ZN_CONTROLLERS][ZN_CGROUP_FOLDER];
	bool v2[ZN_CONTROLLERS];
};
void zn_cgroup_folders(const char *path, struct zn_cgroup_folders *to);

#ifdef ZN_IN_job
#define ZN_CGROUP_PATH     4096
#define ZN_CGROUP_DEPTH    32
#define ZN_HIERARCHIES_MAX 32
struct zn_hierarchy {
	char point[ZN_TEXT_MAX], root[ZN_TEXT_MAX]; /* root: which group is at the point; "" for the topmost */
	char options[128];                          /* of version 1: controllers, or name=... */
	bool v2;
	uint32_t hierarchy; /* ZN_UNKNOWN: not found */
	dev_t dev;
	uid_t owner;
};
struct zn_hierarchies {
	struct zn_hierarchy mount[ZN_HIERARCHIES_MAX];
	uint32_t count;
};
const struct zn_hierarchies *zn_hierarchies_read(const char *proc_root); /* until it is called again */
/* A line of /proc/PID/cgroup is hierarchy:controllers:path. The path may have colons; the line is cut up. NULL: it is
 * none. */
char *zn_hierarchy_line(char *line, uint32_t *hierarchy, char **controllers);
/* The folder of a group, ZN_CGROUP_PATH bytes, "" for the topmost one; NULL: it lies outside of what is mounted. */
const struct zn_hierarchy *zn_hierarchy_folder(
	const struct zn_hierarchies *all, uint32_t hierarchy, const char *group, char *to);
bool zn_hierarchy_listed(
	const char *list, const char *words); /* a list with commas has the first word of another one */
bool zn_hierarchy_has_dots(const char *path); /* a name of it is ".." */
#endif

/* ---- job/limits.c (zn_cgroup_throttle zn_cgroup_memory): what limits of control groups do to a process. ---- */

/* Of the group of a process, ZN_NOT_KNOWN each where it has none. False: the group cannot be read. */
struct zn_cgroup_memory {
	uint64_t used, limit, oom_kills;
};
bool zn_cgroup_memory(const char *proc_root, uint32_t pid, struct zn_cgroup_memory *to);
/* Looks, for one job at a time whose processes are long in run queues, how long limits kept them there. After
 * zn_causes_tick(). */
void zn_cgroup_throttle(struct zn_causes *c, const char *proc_root);

/* ---- job/cgroup.c (zn_cgroup_): control groups as user space sees them: paths, and what runs when the
 * daemon starts. ---- */

/* Looks at all processes once and tags those of jobs, and their control groups. Takes as long as to read /proc: for the
 * start alone. */
void zn_cgroup_scan(struct zn_arena *a, const char *proc_root);
/* Tags everything that runs in one control group and below it: a folder of a mounted hierarchy, a line of
 * /proc/PID/cgroup ("0::/x", "4:memory:/x"), or the path of a group of version 2. 0, or -errno with a line in why. */
int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX]);
/* For zn_arena.job_tree. A process whose parent has ended before is nobody's child any more, and not found. */
int zn_cgroup_tree(struct zn_arena *a, uint32_t slot, uint32_t tgid);

/* ---- job/usage.c (zn_use_): CPU time and memory of jobs, as their control groups say. ---- */

#define ZN_MEMORIES(X)                                                                                                 \
	X(ANON, "anon")                                                                                                \
	X(FILE, "file")                                                                                                \
	X(SHMEM, "shmem")                                                                                              \
	X(KERNEL, "kernel")
enum zn_memory_kind {
#define X(e, label) ZN_MEMORY_##e,
	ZN_MEMORIES(X)
#undef X
		ZN_MEMORY_KINDS
};
enum zn_pressure { ZN_PRESSURE_CPU, ZN_PRESSURE_MEMORY, ZN_PRESSURE_IO, ZN_PRESSURES };
/* It begins anew with a new group: the sum of groups before, and what the one at hand said last. */
struct zn_job_counter {
	uint64_t before, read;
};
/* As of the last look. */
struct zn_job_use {
	uint32_t serial;                         /* of the job; 0: nobody's */
	uint32_t groups;                         /* of the job, when its folders were looked for */
	uint64_t group;                          /* the inode of its folder at the last look; 0: not known */
	uint64_t first_ns, first_cpu_ns;         /* the first look, and what it had used by then; 0: there was none */
	uint64_t last_ns;                        /* the last look */
	struct zn_cpu_time cpu;                  /* of its groups so far; ns 0: not known */
	struct zn_cpu_time cpu_before, cpu_read; /* as in struct zn_job_counter */
	uint64_t throttled_ns;
	struct zn_job_counter throttled, pressure[ZN_PRESSURES][2];
	uint64_t cpus_milli; /* that it may use, in thousandths; 0: not known */
	bool kinds_known;
	uint64_t memory[ZN_MEMORY_KINDS], kind_peak[ZN_MEMORY_KINDS];
	uint64_t needed_peak; /* all but the cache of files, at the look where that was most */
	uint64_t peak, limit, swap;
	uint64_t pressure_ns[ZN_PRESSURES][2]; /* some, full */
};
#define ZN_STEPS_SHOWN 16 /* steps of a job in metrics and snapshots */
/* Of a step that runs, as of the last look; 0: not known. */
struct zn_step_use {
	uint64_t cpu_ns, peak;
};
struct zn_job_uses {
	struct zn_jobs *jobs;
	void (*find)(const char *path, struct zn_cgroup_folders *to); /* zn_cgroup_folders(), or a test's */
	uint32_t next;                                                /* whose turn it is */
	struct zn_job_use use[ZN_JOBS_MAX];                           /* by slot */
	struct zn_cgroup_folders folders[ZN_JOBS_MAX];
	uint32_t next_step[ZN_JOBS_MAX];
	struct zn_step_use step[ZN_JOBS_MAX][ZN_STEPS_MAX]; /* by slot, and place among the job's steps */
};
/* With what its groups that have gone had used. */
struct zn_use {
	struct zn_job_use now;
	bool cpu_known;
	uint64_t cpu_ns, cpu_user_ns, cpu_system_ns, cpus_milli;
	uint64_t peak, needed_peak;       /* 0: not known */
	uint64_t cpu_ratio, memory_ratio; /* in ten-thousandths; ZN_NOT_KNOWN */
	uint64_t needed_ratio;            /* the same, of what it needs now and its limit */
};
void zn_use_init(
	struct zn_job_uses *all, struct zn_jobs *jobs, void (*find)(const char *path, struct zn_cgroup_folders *to));
void zn_use_tick(struct zn_job_uses *all, uint64_t now_ns); /* after zn_jobs_tick() */
void zn_use_of(const struct zn_job_uses *all, const struct zn_job *job, struct zn_use *to);
/* Of a step that runs: what its group, below the job's, says now, into the step. It reads two files. */
void zn_use_step(const struct zn_job_uses *all, const struct zn_job *job, struct zn_step *step);
/* The steps of a job that are shown, in the order of their beginnings, with what the last look saw of those that run:
 * these first, then the newest. Returns how many. */
uint32_t zn_use_steps(const struct zn_job_uses *all, const struct zn_job *job, struct zn_step to[ZN_STEPS_SHOWN]);
uint32_t zn_use_told_cpus(const char *told);

#ifdef ZN_IN_job
/* The job, step and level that a path of a control group names, by zn_cgroup_parse(). False: it names none. */
struct zn_cgroup_name {
	char job[ZN_JOB_NAME];
	char step[16]; /* empty: none */
	uint32_t level;
};
bool zn_cgroup_name(const char *path, struct zn_cgroup_name *to);
/* The same of the groups that a process is in. Whose they are is not looked at: a user may call a group what he
 * likes. */
bool zn_cgroup_of(const char *proc_root, uint32_t pid, struct zn_cgroup_name *to);
#endif

/* ---- job/energy.c (zn_energies_): an estimate of the energy of jobs. ---- */

struct zn_job_energy {
	uint64_t serial;                  /* of the job that this is of */
	uint64_t uj[ZN_ENERGY_COUNT + 1]; /* by enum zn_energy; the last one: of its GPUs */
	uint64_t known;                   /* a bit each */
	uint64_t cpu_ns, since_ns;        /* CPU time that is counted already; from when on the job is followed */
	bool counted;                     /* among the holders of its GPUs */
	bool seen;                        /* its CPU time was known once */
};
struct zn_energies {
	const struct zn_job_uses *uses;
	const struct zn_hardware *hardware;
	const char *proc; /* NULL: simulated */
	uint32_t cpus;    /* that are online; the tick's caller follows them */
	double idle;      /* share of all CPUs' time in the last interval */
	uint64_t all, idle_sum;
	uint64_t last_ns; /* when the interval began; 0: none has */
	uint64_t node_uj[ZN_ENERGY_COUNT], gpu_mj[ZN_GPUS_MAX];
	uint64_t gpu_given_uj[ZN_GPUS_MAX]; /* of the interval, to jobs that have ended */
	bool gpu_known[ZN_GPUS_MAX];
	uint32_t holders[ZN_GPUS_MAX]; /* jobs that have a GPU */
	struct zn_job_energy job[ZN_JOBS_MAX];
};
void zn_energies_init(
	struct zn_energies *e, const struct zn_job_uses *uses, const struct zn_hardware *hardware, const char *proc);
void zn_energies_tick(struct zn_energies *e, uint64_t now_ns); /* after zn_use_tick() and zn_hardware_tick() */
void zn_energies_end(struct zn_energies *e, const struct zn_job *job, uint64_t now_ns); /* before its report */
/* Microjoules; part: ZN_ENERGY_COUNT for GPUs. ZN_NOT_KNOWN; e may be NULL. */
uint64_t zn_energies_of(const struct zn_energies *e, const struct zn_job *job, uint32_t part);

#ifdef ZN_IN_job
/* What was used since the last look. */
struct zn_energy_since {
	uint64_t ns, now_ns;
	uint64_t node_uj[ZN_ENERGY_COUNT], gpu_uj[ZN_GPUS_MAX];
};
#endif

/* ---- job/fabric.c (zn_fabric_): what the ports of InfiniBand and RoCE carried for jobs. ---- */

#define ZN_FABRIC_SUMS 3 /* as struct zn_ports has them */
struct zn_job_fabric {
	uint32_t serial; /* of the job that this is of */
	uint32_t known;  /* bit i: sum[i] is, as a port counts it */
	uint64_t sum[ZN_FABRIC_SUMS];
};
struct zn_fabric {
	const struct zn_ports *ports;
	const struct zn_jobs *jobs;
	uint64_t round, last_ns, last[ZN_FABRIC_SUMS];
	struct zn_job_fabric job[ZN_JOBS_MAX];
};
void zn_fabric_init(struct zn_fabric *f, const struct zn_ports *ports, const struct zn_jobs *jobs);
void zn_fabric_tick(struct zn_fabric *f); /* after zn_ports_take() */
/* NULL: nothing is known of it, as it was never alone; f may be NULL. */
const struct zn_job_fabric *zn_fabric_of(const struct zn_fabric *f, const struct zn_job *job);

/* ---- job/ghosts.c (zn_ghost): processes that hold a GPU which is not theirs. ---- */

#define ZN_GHOST_NS   (60 * ZN_NS_PER_S) /* it is one after so long */
#define ZN_GHOST_UID  1000               /* users below are the system's */
#define ZN_GHOSTS_MAX 256
#define ZN_GHOSTS(X)                                                                                                   \
	X(JOB_ENDED, "job_ended")                                                                                      \
	X(NO_JOB, "no_job")                                                                                            \
	X(FOREIGN_GPU, "foreign_gpu")
enum zn_ghost_why {
#define X(e, label) ZN_GHOST_##e,
	ZN_GHOSTS(X)
#undef X
		ZN_GHOST_WHYS
};
struct zn_ghost {
	enum zn_ghost_why why;
	uint32_t pid, uid;
	uint64_t start_ticks; /* 0: of a simulation */
	uint64_t since_ns;
	uint64_t bytes; /* of GPU memory; ZN_NOT_KNOWN */
	char comm[16];
	char job[ZN_JOB_NAME]; /* that it is of, or was; empty: of none, or forgotten */
	char gpu[48];          /* FOREIGN_GPU: which */
};
struct zn_ghosts {
	uint32_t count;
	bool slurm; /* a job was seen: only then it means something to be of none */
	struct zn_ghost ghost[ZN_GHOSTS_MAX], before[ZN_GHOSTS_MAX];
	struct zn_holders_list holders;
};
/* held: who has a GPU open, as of the last look. */
void zn_ghosts_tick(struct zn_ghosts *g, struct zn_jobs *jobs, uint64_t now_ns);
/* False: no room within this owner's share. */
bool zn_ghosts_add(struct zn_ghosts *g, const struct zn_ghost *ghost);
uint32_t zn_ghosts_count(
	const struct zn_ghosts *g, enum zn_ghost_why why, uint64_t now_ns); /* for ZN_GHOST_NS or longer */
const char *zn_ghost_label(enum zn_ghost_why why);
const char *zn_ghost_says(enum zn_ghost_why why);

/* ---- job/annotations.c (zn_annotation): what programs say of themselves. ---- */

#define ZN_ANNOTATION_LABELS  8 /* of a job */
#define ZN_ANNOTATION_CHANGES 64
#define ZN_ANNOTATION_KEY     32 /* with the NUL */
#define ZN_ANNOTATION_VALUE   64
/* A label, or a change of one. */
struct zn_annotation {
	char key[ZN_ANNOTATION_KEY], value[ZN_ANNOTATION_VALUE]; /* printable ASCII; empty value: it was taken away */
	uint32_t pid;                                            /* of whom it was said */
	uint32_t owner; /* who said it, as shares of tables know users; it counts for the room alone */
	uint64_t start_ticks;
	uint64_t at_ns, at_wall_ms;
};
struct zn_annotation_group {
	uint32_t serial; /* of the job */
	uint32_t labels, changes;
	struct zn_annotation label[ZN_ANNOTATION_LABELS];
	struct zn_annotation change[ZN_ANNOTATION_CHANGES]; /* oldest first */
	uint64_t left_out;                                  /* changes, for want of room */
};
struct zn_annotations {
	struct zn_annotation_group group[ZN_JOBS_MAX + 1]; /* by slot of a job; the last one: no job */
};
/* labels: KEY=VALUE, with commas between them. 0, or -errno with a line in why; then nothing was changed. */
int zn_annotations_say(struct zn_annotations *a, struct zn_job_ref job, const struct zn_annotation *by,
	const char *labels, char why[ZN_TEXT_MAX]);
/* NULL: nothing was said. serial 0: of processes of no job. a may be NULL. */
const struct zn_annotation_group *zn_annotations_of(const struct zn_annotations *a, struct zn_job_ref job);
void zn_annotations_tick(struct zn_annotations *a); /* labels of processes of no job end with them */

/* ---- job/annotator.c (zn_annotator_): who may say what of whom. ---- */

/* Who asks, by the credentials of its connection. */
struct zn_annotator {
	uint32_t pid, uid, owner;
	bool any; /* it may speak of others' processes and jobs */
};
/* What a message of verb ZN_VERB_ANNOTATE says. 0, or -errno with a line in why; then nothing was changed. */
int zn_annotator_say(const struct zn_annotator *who, struct zn_annotations *a, struct zn_jobs *j,
	const struct zn_message *m, char why[ZN_TEXT_MAX]);

/* ---- sim/arena.c (zn_memory_): an arena of plain memory. ---- */

/* An arena of plain memory with its own free lists; what --simulate and the tests write to. */
struct zn_memory_arena {
	struct zn_arena arena; /* first */
	uint32_t rows[ZN_PROCS_MAX], row_count;
	uint32_t hists[ZN_HISTS_MAX], hist_count;
	struct zn_comm comms[64];
	size_t comm_count;
	struct {
		char name[ZN_JOB_NAME];
		uint32_t slot;
	} names[2 * ZN_JOBS_MAX]; /* a job and its alias */
	uint32_t name_count;
	struct {
		uint32_t tgid;
		struct zn_job_ref job;
	} tasks[ZN_PROCS_MAX];
	uint32_t task_count;
	struct {
		struct zn_cgroup_key key;
		struct zn_cgroup cgroup;
	} cgroups[4 * ZN_JOBS_MAX];
	uint32_t cgroup_count;
	struct zn_io_entry io[ZN_IO_MAX];
	uint32_t io_count;
	uint32_t coarse[ZN_IO_MAX], coarse_count;
	struct zn_io_row io_of; /* whose a series is that is made; zero: root's */
	uint32_t ioctl_id;      /* a process inside of ioctl() on a GPU, and since when; 0: none is */
	uint64_t ioctl_ns;
	void *memory;
};
int zn_memory_open(struct zn_memory_arena *p);
void zn_memory_close(struct zn_memory_arena *p);
uint32_t zn_memory_hist(struct zn_memory_arena *p); /* a histogram that nobody has; 0: there is none */
struct zn_proc *zn_memory_claim(
	struct zn_memory_arena *p, uint32_t tgid, const char *comm); /* NULL: full, and counted */
void zn_memory_exit(struct zn_memory_arena *p, struct zn_proc *proc);
/* The requests of a server on a route; NULL: there is no room. */
struct zn_request_series *zn_memory_series(
	struct zn_memory_arena *p, struct zn_server *server, enum zn_request_route route);
/* Records a duration in a process's histogram, as the BPF programs do. False: no histogram was free; it was counted. */
bool zn_memory_record(
	struct zn_memory_arena *p, struct zn_proc *proc, enum zn_operation operation, uint64_t ns, uint64_t bytes);
/* The same of a file operation; the series is made with its first one. NULL: there was no room; it was counted. Errors
 * and bytes are the caller's to add; what follows them may not be touched, as the histogram may be a coarse one. */
struct zn_hist *zn_memory_io(struct zn_memory_arena *p, const struct zn_io_key *key, uint64_t ns);

/* ---- sim/sim.c (zn_sim_): --simulate. ---- */

#define ZN_SIM_GPUS          4
#define ZN_SIM_RANKS         8
#define ZN_SIM_JOBS          2
#define ZN_SIM_JOB_RANKS     (ZN_SIM_RANKS / ZN_SIM_JOBS)
#define ZN_SIM_STAGGER_MS    5      /* between what two ranks do */
#define ZN_SIM_CHECKPOINT_MS 120000 /* from one checkpoint to the next */
#define ZN_SIM_SERVERS       2
#define ZN_SIM_REQUESTS      48
/* A request under way; series NULL: none. */
struct zn_sim_request {
	struct zn_request_series *series;
	uint32_t what, events; /* events: that are still to come */
	bool fails, aborted;
	uint64_t open_ns, wait_ns, since_ns; /* until the last event; what is waited for now, and for how long */
	uint64_t unread_ns, first_ns, share[ZN_WORK_COUNT];
	uint32_t begun; /* of the service */
};
struct zn_sim {
	struct zn_memory_arena memory; /* first */
	uint64_t seed;
	uint64_t state; /* of the random numbers */
	uint64_t file_state;
	uint64_t kernel_state; /* of those for what the kernel sees */
	uint64_t elapsed_ms;
	struct zn_proc *rank[ZN_SIM_RANKS]; /* NULL: between two jobs */
	uint64_t comm[ZN_SIM_JOBS], comm_state;
	struct zn_skew *skew[ZN_SIM_JOBS]; /* NULL: none was free, or between two jobs */
	uint64_t skew_state;
	uint32_t still;                   /* what the second job does instead of its work, of sim.c */
	enum zn_scenario scenario, phase; /* phase: what is wrong right now; HEALTHY: nothing */
	uint64_t cycle_ms;
	uint32_t pids;                      /* handed out so far */
	struct zn_jobs *jobs;               /* NULL: nobody is told of jobs, and none ends */
	struct zn_xids *xids;               /* NULL: nobody is told of errors */
	struct zn_ooms *ooms;               /* NULL: nobody is told who is killed */
	uint64_t throttled_ns;              /* of the second job's control group */
	struct zn_annotations *annotations; /* NULL: nobody is told what programs say of themselves */
	uint32_t job[ZN_SIM_JOBS], jobs_started;
	struct zn_server *server[ZN_SIM_SERVERS]; /* NULL: none */
	struct zn_sim_request request[ZN_SIM_REQUESTS];
	struct zn_proc *engine[ZN_SIM_SERVERS];             /* their engines */
	struct zn_front_times front;                        /* of the first one */
	uint64_t server_state;                              /* of the random numbers for requests */
	struct zn_stacks *stacks;                           /* NULL: nobody is told of Python */
	bool natives;                                       /* with examples of what is below it */
	uint32_t root[ZN_SIM_RANKS], root_id[ZN_SIM_RANKS]; /* root_id: zn_proc.id; 0: none */
	uint64_t stack_state;
};
int zn_sim_open(struct zn_sim *s, uint64_t seed); /* MIXED */
/* Before its first step. cycle_s 0: as long as the scenario needs for the built-in rules. */
void zn_sim_scenario(struct zn_sim *s, enum zn_scenario scenario, uint64_t cycle_s);
void zn_sim_close(struct zn_sim *s);
/* The events of the next ms milliseconds. They follow from the seed and the time alone, not from how it is cut into
 * steps. */
bool zn_sim_process_info(void *sim, const struct zn_proc *p, struct zn_process_info *to); /* for zn_agg.process_info */
void zn_sim_step(struct zn_sim *s, uint64_t ms);
/* Tells what /proc and control groups would say. After zn_causes_tick(). */
void zn_sim_limits(const struct zn_sim *s, struct zn_causes *c);
void zn_sim_stop(const struct zn_sim *s, struct zn_stopped *stopped); /* after zn_stopped_tick() */

/* ---- sim/scenario.c (zn_scenario_): what is wrong at a moment, and with which rank. ---- */

#ifdef ZN_IN_sim
/* When all ranks of the second job but one stand still, or all do. */
enum zn_still {
	ZN_STILL_NOT,
	ZN_STILL_ASLEEP,
	ZN_STILL_DRIVER,
	ZN_STILL_ALL,
	ZN_STILL_NODE,
	ZN_STILL_PEER,
	ZN_STILL_CHECKPOINT,
	ZN_STILL_EVALUATION,
	ZN_STILL_COMPILE,
	ZN_STILL_STOPPED
};
enum zn_scenario zn_scenario_phase(const struct zn_sim *s); /* HEALTHY: nothing is wrong now */
uint32_t zn_scenario_ranks(const struct zn_sim *s);         /* of the second job, those of other nodes included */
enum zn_still zn_scenario_still(const struct zn_sim *s);    /* what the second job does instead of its work */
uint32_t zn_scenario_still_kind(const struct zn_sim *s, uint32_t rank);
bool zn_scenario_straggles(const struct zn_sim *s, uint32_t rank);
/* Faults are those of the job that goes on. */
bool zn_scenario_suffers(const struct zn_sim *s, uint32_t rank, enum zn_scenario from);
bool zn_scenario_writes(const struct zn_sim *s, uint32_t rank); /* all do now and then, those of a scenario for long */
bool zn_scenario_idles(const struct zn_sim *s, uint32_t rank);
#endif

/* ---- sim/random.c (zn_random_): random numbers of --simulate. ---- */

#ifdef ZN_IN_sim
uint64_t zn_random_draw(uint64_t *state);
uint64_t zn_random_below(uint64_t *state, uint64_t limit);
uint64_t zn_random_around(uint64_t *state, uint64_t middle_ns); /* roughly log-normal, with sigma 0.15 */
uint64_t zn_random_skewed(uint64_t *state, uint64_t least_ns, uint64_t more_ns); /* the upper end is rare */
#endif

/* ---- sim/gpu.c (zn_sim_gpu_): memory of the simulated GPUs. ---- */

#ifdef ZN_IN_sim
void zn_sim_gpu_start(struct zn_sim *s, uint32_t rank); /* the rank holds its model */
/* Both once a millisecond: most of them do nothing. */
void zn_sim_gpu_breathe(struct zn_sim *s, uint32_t rank);
void zn_sim_gpu_leak(struct zn_sim *s);
const char *zn_sim_gpu_pci(uint32_t gpu); /* its address */
#endif

/* ---- sim/kernel.c (zn_sim_kernel): what the kernel sees of a simulated rank. ---- */

#ifdef ZN_IN_sim
void zn_sim_kernel(struct zn_sim *s, uint32_t rank, uint64_t launches); /* of a millisecond with so many */
#endif

/* ---- sim/files.c (zn_sim_files_ zn_sim_mounts): files of the simulated node. ---- */

/* What is done to files in this millisecond: by a rank in its work, and at a checkpoint; and by what is of no job. */
void zn_sim_files_work(struct zn_sim *s, uint32_t rank);
void zn_sim_files_checkpoint(struct zn_sim *s, uint32_t rank);
void zn_sim_files_node(struct zn_sim *s);
void zn_sim_mounts(struct zn_mounts *to); /* names its devices */

/* ---- sim/inference.c (zn_sim_servers_): inference servers of the simulated node. ---- */

/* For zn_slowness_front(). */
bool zn_sim_servers_front(void *sim, uint32_t tgid, struct zn_front_times *to);
#ifdef ZN_IN_sim
void zn_sim_servers_start(struct zn_sim *s);
void zn_sim_servers_run(struct zn_sim *s); /* once a millisecond */
#endif

/* ---- sim/flames.c (zn_sim_stacks_): the Python stacks of simulated ranks. ---- */

#ifdef ZN_IN_sim
void zn_sim_stacks_run(struct zn_sim *s); /* once a millisecond: most of them do nothing */
#endif

/* ---- sim/jobs.c (zn_sim_job): jobs of the simulated node. ---- */

void zn_sim_jobs(struct zn_sim *s, struct zn_jobs *table); /* announces its jobs, there and from then on */
void zn_sim_job_start(struct zn_sim *s, uint32_t job);
void zn_sim_job_end(struct zn_sim *s, uint32_t job); /* after its ranks */
void zn_sim_job_use(const struct zn_sim *s, struct zn_job_uses *to);
void zn_sim_job_ghosts(const struct zn_sim *s, struct zn_ghosts *to,
	uint64_t now_ns);               /* in some scenarios: who holds a GPU that is not his */
void zn_sim_job_kill(struct zn_sim *s); /* in some scenarios: one of its processes, for want of memory */

/* ---- sim/hardware.c (zn_sim_hardware): the state of the simulated GPUs. ---- */

void zn_sim_hardware(const struct zn_sim *s, struct zn_hardware *to, uint64_t now_ns);

/* ---- output/metrics_walk.c (zn_walk_): series of metrics become samples. ---- */

struct zn_walk;
typedef void zn_metric_rows(struct zn_walk *w); /* yields all series of a metric */
enum zn_twin { ZN_TWIN_NONE, ZN_TWIN_WIDE, ZN_TWIN_FINE /* of zn_hist_spread() */ };
struct zn_metric {
	const char *name;
	enum zn_metric_type type;
	uint8_t twin;    /* enum zn_twin: a summary whose durations are a histogram too, by a name of its own */
	uint8_t collect; /* enum zn_collect; 0: as its labels say */
	bool hides_0;    /* a counter of what is rare: it has no series before it happens */
	const char *labels;
	zn_metric_rows *emit;
	const void *arg; /* of emit */
	const char *help;
};
/* Which places of tables are used, a bit each: a few of hundreds, for which many metrics ask. */
struct zn_walk_used {
	bool listed;
	uint64_t servers[ZN_SERVERS_MAX / 64], services[ZN_SERVICES_MAX / 64], skews[ZN_SKEWS_MAX / 64];
};
/* A walk over metrics: each series of them becomes a sample, which visit() is given. */
struct zn_walk {
	const struct zn_state *state;
	void (*visit)(void *to, const struct zn_sample *s);
	int32_t (*room)(void *to); /* bytes of text that durations of file I/O may take; NULL: any number */
	/* NULL, or: true: it has the series of a library's probes already; else it is told when it was given them all */
	bool (*has_library)(void *to, const struct zn_lib *lib);
	void (*had_library)(void *to, const struct zn_lib *lib);
	void *to;
	const struct zn_metric *metric;                 /* at hand */
	struct zn_sample sample;                        /* of the series at hand */
	const char *job_id;                             /* its last label; NULL or empty: it has none */
	struct zn_out digits;                           /* the numbers among its labels, in bytes */
	char bytes[128];                                /* zernel_nccl_rank_info has most of them: 57 */
	struct zn_walk_used used;                       /* when the first metric asked */
	bool jobs_listed, jobs_summed, hashes_compared; /* what rows keep from one metric to the next is there */
	bool brief;                                     /* figures that are 0 and may be left out are */
};
void zn_walk_init(
	struct zn_walk *w, const struct zn_state *state, void (*visit)(void *to, const struct zn_sample *s), void *to);

#ifdef ZN_IN_output
/* Every series of a metric, as of the last zn_agg_tick() or zn_agg_refresh(). One walk is over one state of things. */
void zn_walk_metric(struct zn_walk *w, const struct zn_metric *m);

/* What rows call: a series begins, gets its labels, and ends with its value. Texts must stay until then. */
void zn_walk_series(struct zn_walk *w);
static inline void zn_walk_label(struct zn_walk *w, const char *name, const char *text)
{
	if (w->sample.label_count < ZN_LABELS_MAX)
		w->sample.label[w->sample.label_count++] =
			(struct zn_label){{name, strlen(name)}, {text, strlen(text)}};
}
void zn_walk_named(struct zn_walk *w, struct zn_str name, uint64_t v);
static inline void zn_walk_number(struct zn_walk *w, const char *name, uint64_t v)
{
	zn_walk_named(w, (struct zn_str){name, strlen(name)}, v);
}
void zn_walk_digits(struct zn_walk *w, struct zn_str name, size_t at); /* what was written to digits, from `at` on */
void zn_walk_scaled(struct zn_walk *w, uint64_t v, int decimals);      /* v / 10^decimals, as of struct zn_sample */
void zn_walk_signed(struct zn_walk *w, int32_t v);                     /* in thousandths */
void zn_walk_durations(struct zn_walk *w, const struct zn_hist *h);    /* instead of a value */
void zn_walk_calibration(struct zn_walk *w, const struct zn_bias *b);  /* likewise */
static inline void zn_walk_integer(struct zn_walk *w, uint64_t v)
{
	zn_walk_scaled(w, v, 0);
}
void zn_walk_one(struct zn_walk *w, uint64_t v, int decimals); /* the one series of a metric without labels */

/* The processes of the node: p is in turn each one that has a row. */
const struct zn_proc *zn_walk_proc(struct zn_walk *w, uint32_t r);
#define ZN_EACH_PROC(w, r, p)                                                                                          \
	for (uint32_t r = 0; r < (w)->state->agg->row_count; r++)                                                      \
		if ((p = zn_walk_proc(w, r)))

/* The next place that is used, from one on: of a server, of a service, of a communicator whose ranks are compared. As
 * many as there are in the table: no further one. Meanwhile it may have become free. */
uint32_t zn_walk_server(struct zn_walk *w, uint32_t from);
uint32_t zn_walk_service(struct zn_walk *w, uint32_t from);
uint32_t zn_walk_skew(struct zn_walk *w, uint32_t from);
#define ZN_EACH_SKEW(w, slot, s)                                                                                       \
	for (uint32_t slot = zn_walk_skew(w, 0); slot < ZN_SKEWS_MAX; slot = zn_walk_skew(w, slot + 1))                \
		if ((s = zn_arena_skew((w)->state->agg->arena, slot)))
#endif

/* ---- output/metrics_process.c (zn_metrics_process_): what metrics of processes yield. ---- */

/* The arg of counts, rates, shares and durations is one of these; of nccl an offset in struct zn_hist, of missing one
 * in struct zn_missing. */

#ifdef ZN_IN_output
/* A run of counters that differ in one label; a series appears with its first event. */
struct zn_metric_counts {
	enum zn_counter first;
	uint32_t count;
	const char *label;
	const char *value[5];
	int decimals; /* as of struct zn_sample */
};
/* A field of struct zn_rates; it appears with the first event of one of its counters. */
struct zn_metric_rate {
	size_t offset;
	enum zn_counter first, last;
};
/* One field of struct zn_proc_gpu, per GPU of each process. */
struct zn_metric_share {
	size_t offset;
	uint32_t count; /* of consecutive fields that differ in one label */
	const char *label;
	const char *value[ZN_KIND_COUNT];
	bool always; /* shown also while it is 0 */
	bool ledger; /* of what the process holds: not shown where that was not seen as a whole */
};
/* Durations of each process, or of all together. */
struct zn_metric_durations {
	enum zn_operation first, last;
	const char *label; /* whose value is the operation's name; NULL: none */
	bool by_pid;       /* false: all processes together, those that have gone included */
};
zn_metric_rows zn_metrics_process_counts, zn_metrics_process_rates, zn_metrics_process_memory_complete,
	zn_metrics_process_pinned, zn_metrics_process_stalls, zn_metrics_process_workers,
	zn_metrics_process_worker_time, zn_metrics_process_shares, zn_metrics_process_durations,
	zn_metrics_process_nccl, zn_metrics_process_skew, zn_metrics_process_lateness, zn_metrics_process_missing,
	zn_metrics_process_all_wait, zn_metrics_process_issued, zn_metrics_process_longest_wait,
	zn_metrics_process_driver_stuck, zn_metrics_process_blocked, zn_metrics_process_ranks,
	zn_metrics_process_anomalies, zn_metrics_process_overhead, zn_metrics_process_sampled;
#endif

/* ---- output/metrics_failed.c (zn_metrics_failed_): what metrics of failed calls yield. ---- */

#ifdef ZN_IN_output
zn_metric_rows zn_metrics_failed_process, zn_metrics_failed_job;
#endif

/* ---- output/metrics_job.c (zn_metrics_job_): what metrics of jobs yield. ---- */

#ifdef ZN_IN_output
/* The arg of counts is a struct zn_metric_counts. That of gpus is this: a field of struct zn_job_gpu. */
struct zn_metric_job_use {
	size_t offset; /* of a uint64_t in struct zn_use */
	int decimals;
	bool from_zero; /* 0 is a figure, and not for "not known" */
	bool momentary; /* of a job that runs alone */
};
struct zn_metric_checkpoint {
	size_t offset; /* of struct zn_checkpoint_sum */
	int decimals;
};
struct zn_metric_job_gpu {
	size_t offset;
	int decimals;
	bool time; /* which is counted on known GPUs alone */
};
zn_metric_rows zn_metrics_job_counts, zn_metrics_job_oom_kills, zn_metrics_job_info, zn_metrics_job_processes,
	zn_metrics_job_start, zn_metrics_job_ended, zn_metrics_job_progress_age, zn_metrics_job_stall_limit,
	zn_metrics_job_causes, zn_metrics_job_startup, zn_metrics_job_checkpoints, zn_metrics_job_launches,
	zn_metrics_job_launch_latency, zn_metrics_job_gpu_memory, zn_metrics_job_gpu_complete,
	zn_metrics_job_nccl_bytes, zn_metrics_job_stalls, zn_metrics_job_gpus, zn_metrics_job_cpu_time,
	zn_metrics_job_energy, zn_metrics_job_use, zn_metrics_job_ooms, zn_metrics_job_ghosts, zn_metrics_job_memory,
	zn_metrics_job_pressure, zn_metrics_job_efficiency, zn_metrics_job_steps, zn_metrics_job_utilization;
/* The jobs that are shown, the same ones in the whole walk. */
const struct zn_job *const *zn_metrics_job_list(struct zn_walk *w, uint32_t *count);
#endif

/* ---- output/metrics_node.c (zn_metrics_node_): sums over the processes of the node. ---- */

#ifdef ZN_IN_output
/* The arg of counts is a struct zn_metric_counts. */
zn_metric_rows zn_metrics_node_counts, zn_metrics_node_nccl_bytes;
#endif

/* ---- output/metrics_gpu.c (zn_metrics_gpu_): what metrics of GPUs yield. ---- */

#ifdef ZN_IN_output
/* The arg of calls is an offset in struct zn_counter_rates. */
zn_metric_rows zn_metrics_gpu_calls, zn_metrics_gpu_contention, zn_metrics_gpu_total, zn_metrics_gpu_ratio,
	zn_metrics_gpu_complete, zn_metrics_gpu_info, zn_metrics_gpu_log_records, zn_metrics_gpu_xids,
	zn_metrics_gpu_xid_last, zn_metrics_gpu_amdgpu_errors;
#endif

/* ---- output/metrics_hardware.c (zn_metrics_hardware_): what metrics of the GPUs' own state yield. ---- */

#ifdef ZN_IN_output
/* Figures that stand in a row, with the values of their label. */
struct zn_metric_figures {
	enum zn_figure first;
	uint8_t count;
	const char *label; /* NULL: one figure, and none */
	const char *name[4];
};
/* The arg of figures is a struct zn_metric_figures; of link, whether it is of the width alone. */
zn_metric_rows zn_metrics_hardware_figures, zn_metrics_hardware_link, zn_metrics_hardware_throttled,
	zn_metrics_hardware_sources, zn_metrics_hardware_blocked, zn_metrics_hardware_energy, zn_metrics_hardware_up,
	zn_metrics_hardware_scrapes, zn_metrics_hardware_nvml, zn_metrics_hardware_models,
	zn_metrics_hardware_processes, zn_metrics_hardware_instances, zn_metrics_hardware_messages;
#endif

/* ---- output/ports.c (zn_ports_counters zn_ports_active zn_ports_rate zn_ports_job_ zn_ports_json_): ports, for all forms. ---- */

#ifdef ZN_IN_output
struct zn_metric_ports {
	enum zn_port_group group;
	const char *label;
};
/* The arg of counters is a struct zn_metric_ports. */
zn_metric_rows zn_ports_counters, zn_ports_active, zn_ports_rate, zn_ports_job_bytes, zn_ports_job_errors;
bool zn_ports_json_item(struct zn_json *j, const struct zn_hardware *h, uint32_t i); /* False: there are no more */
void zn_ports_json_job(
	struct zn_json *j, const struct zn_state *state, const struct zn_job *job); /* the key "fabric", or none */
#endif

/* ---- output/metrics_io.c (zn_metrics_io_): what metrics of file I/O yield. ---- */

#ifdef ZN_IN_output
/* The arg of bytes is an enum zn_io_op, that of ops an offset in struct zn_io_sum_total. */
zn_metric_rows zn_metrics_io_bytes, zn_metrics_io_ops, zn_metrics_io_durations;
#endif

/* ---- output/metrics_request.c (zn_metrics_request_ zn_metrics_server_ zn_metrics_serving_): what metrics of servers
 * and their requests yield. ---- */

void zn_metrics_request_done(struct zn_walk *w);
void zn_metrics_request_number(struct zn_walk *w);    /* arg: offset of a field of struct zn_request_series */
void zn_metrics_request_durations(struct zn_walk *w); /* arg: enum zn_request_duration */
/* The same by the names of OpenTelemetry's conventions, of those routes that have an operation there. */
void zn_metrics_request_gen_ai(struct zn_walk *w);
void zn_metrics_request_seconds(struct zn_walk *w);
void zn_metrics_request_anomalies(struct zn_walk *w);
void zn_metrics_server_overhead(struct zn_walk *w); /* series of servers in metrics of processes */
void zn_metrics_server_sampled(struct zn_walk *w);
void zn_metrics_server_durations(struct zn_walk *w); /* arg: enum zn_server_duration */
void zn_metrics_server_held(struct zn_walk *w);
void zn_metrics_server_connections(struct zn_walk *w);
void zn_metrics_server_info(struct zn_walk *w);
void zn_metrics_serving_requests(struct zn_walk *w);
void zn_metrics_serving_seconds(struct zn_walk *w);
void zn_metrics_serving_stalls(struct zn_walk *w);
void zn_metrics_serving_work(struct zn_walk *w);        /* arg: enum zn_work */
void zn_metrics_serving_per_request(struct zn_walk *w); /* likewise */

/* ---- output/metrics_self.c (zn_metrics_self_): what metrics of the daemon itself yield. ---- */

#ifdef ZN_IN_output
/* The arg of outbound is a bool: messages that wait, or destinations that are down; that of tables too: limits, or
 * entries. */
zn_metric_rows zn_metrics_self_alerts, zn_metrics_self_build, zn_metrics_self_kernel, zn_metrics_self_attached,
	zn_metrics_self_libraries, zn_metrics_self_hang, zn_metrics_self_hits, zn_metrics_self_bias,
	zn_metrics_self_run, zn_metrics_self_duty, zn_metrics_self_lost, zn_metrics_self_sent, zn_metrics_self_outbound,
	zn_metrics_self_ras, zn_metrics_self_tables, zn_metrics_self_requests, zn_metrics_self_connections,
	zn_metrics_self_clients, zn_metrics_self_ticks, zn_metrics_self_render, zn_metrics_self_export,
	zn_metrics_self_cpu, zn_metrics_self_resident, zn_metrics_self_fds, zn_metrics_self_start;
#endif

/* ---- output/metrics.c (zn_metrics_): the table of metrics, the walk over it, and its docs. ---- */

/* Calls visit() for every series of the metric of that name (NULL: of all, in the order of the table). Nothing happens
 * for a name that there is none of. The twin histograms are no metrics of their own. */
void zn_metrics_walk(
	const struct zn_state *state, const char *name, void (*visit)(void *to, const struct zn_sample *s), void *to);
bool zn_metrics_known(const char *name);
int zn_metrics_type(const char *name);           /* enum zn_metric_type; below 0: not known */
const struct zn_metric *zn_metrics_at(size_t i); /* of the table; NULL after the last */
const char *zn_metrics_name(size_t i);           /* likewise */
const char *zn_metrics_type_name(enum zn_metric_type type);
const char *zn_metrics_unit(
	struct zn_str name); /* "seconds", "bytes" or "ratio", by the name's end; NULL: none of them */
#define ZN_TWIN_BYTES 96
void zn_metrics_twin(char to[ZN_TWIN_BYTES], const char *name); /* what a summary's twin histogram is called */
void zn_metrics_list(FILE *to);
void zn_metrics_docs(FILE *to);

/* What may be collected: --series and collect[]. node: of the node and its GPUs. job: of jobs, without details.
 * process: of processes. detail: what no dashboard, alert or rule of this project asks for, zeros, and both forms of
 * durations. */
#define ZN_COLLECTS(X) X(NODE, "node") X(JOB, "job") X(PROCESS, "process") X(DETAIL, "detail")
enum zn_collect_bit {
#define X(e, label) ZN_COLLECT_BIT_##e,
	ZN_COLLECTS(X)
#undef X
		ZN_COLLECT_COUNT
};
enum zn_collect {
#define X(e, label) ZN_COLLECT_##e = 1 << ZN_COLLECT_BIT_##e,
	ZN_COLLECTS(X)
#undef X
		ZN_COLLECT_ALL = (1 << ZN_COLLECT_COUNT) - 1,
	ZN_COLLECT_QUANTILES = 1 << ZN_COLLECT_COUNT, /* of a metric: its brief form is the summary, not the twin */
};
uint32_t zn_metrics_series(const struct zn_options *options); /* --series, as a set of the above; NULL: all */
static inline bool zn_metrics_brief(uint32_t collect)
{
	return !(collect & (ZN_COLLECT_PROCESS | ZN_COLLECT_DETAIL));
}
/* Whether a metric belongs to the set; of one with a twin, which of the two are shown. */
bool zn_metrics_collected(const struct zn_metric *m, uint32_t collect);
bool zn_metrics_summary(const struct zn_metric *m, uint32_t collect);
bool zn_metrics_twin_shown(const struct zn_metric *m, uint32_t collect);

/* ---- output/kept.c (zn_kept_): lines of a library's probes and of a histogram, kept until anything changes. ---- */

#define ZN_KEPT_LIBS  16
#define ZN_KEPT_BYTES (48 << 10) /* of text; a library of CUDA has some 14 KiB */
/* Of the library that is the i-th of a page, i from 0 on. False: it has to be written, and then noted. */
bool zn_kept_put(struct zn_out *o, uint32_t i, const struct zn_lib *lib);
/* Its lines stand in o from `from` on. */
void zn_kept_note(const struct zn_out *o, size_t from, uint32_t i, const struct zn_lib *lib);

#define ZN_KEPT_HISTS      128
#define ZN_KEPT_HIST_BYTES 2048 /* of text; one has some 1,400 */
/* What the lines of a histogram are made of. */
struct zn_kept_hist {
	const char *name;     /* of its metric in the table */
	struct zn_str labels; /* as they are written, from the bracket on and without the closing one */
	size_t labels_at;     /* where they stand in its first line */
	uint64_t since_ms;    /* UINT64_MAX: that is in no line */
	const struct zn_spread *spread;
	bool fine;
};
/* Likewise of the histogram that is the i-th of a page. */
bool zn_kept_hist_put(struct zn_out *o, uint32_t i, const struct zn_kept_hist *h);
void zn_kept_hist_note(const struct zn_out *o, size_t from, uint32_t i, const struct zn_kept_hist *h);

/* ---- output/metrics_text.c (zn_metrics_text): /metrics as text. ---- */

/* collect: enum zn_collect; 0: as --series says. */
void zn_metrics_text(struct zn_out *o, const struct zn_state *state, bool openmetrics, uint32_t collect);

/* ---- output/metrics_protobuf.c (zn_metrics_proto): /metrics in Protocol Buffers. ---- */

/* Prometheus' MetricFamily messages (io.prometheus.client), each behind its length. A twin histogram has its classic
 * buckets and native ones. */
void zn_metrics_proto(struct zn_out *o, const struct zn_state *state, uint32_t collect);

/* ---- output/otlp.c (zn_otlp_): all metrics for OpenTelemetry. ---- */

#ifdef ZN_IN_output
/* Appends the next request of one export to o, as much as fits: an ExportMetricsServiceRequest. *at is 0 at first, and
 * says then where to go on. False: there was nothing more, and o is as it was. Called after zn_agg_tick() or
 * zn_agg_refresh(). An export may take several turns of the loop: of the metric that it stands at, series that come or
 * go meanwhile are there twice, each time with its own time, or are left out until the next one. With less room than
 * the above it is false as well, and o is full. now_wall_ms: of all points, since 1970. */
bool zn_otlp_next(struct zn_out *o, const struct zn_state *state, uint64_t now_wall_ms, uint32_t *at);
#endif

/* ---- output/samples.c (zn_samples_): what rules of alerts read. ---- */

struct zn_rule_source zn_samples_source(struct zn_state *state);
/* Whose the process is, as of zn_owner_of(). One that has ended is whose who waits for it as for a rank, or nobody's.
 * state: struct zn_state. */
uint32_t zn_samples_owner(void *state, uint32_t pid);

/* ---- output/export.c (zn_export_): all metrics pushed by OTLP. ---- */

struct zn_export {
	const struct zn_state *state;
	struct zn_sender *sender;
	uint64_t next_ns;   /* when the next one is due */
	uint64_t render_ns; /* what the last whole one took */
	uint64_t made_ns;   /* what this one has taken so far */
	uint64_t before;    /* the number of the last request before it */
	uint64_t seen;      /* that of the last one that was settled when the next export was due */
	uint32_t at;        /* where zn_otlp_next() goes on */
	bool unfinished;
	char text[ZN_DELIVERY_BYTES];
};
void zn_export_init(struct zn_export *e, const struct zn_state *state, struct zn_sender *sender);
void zn_export_tick(struct zn_export *e, uint64_t now_ns); /* after zn_agg_tick() */

/* ---- output/snapshot.c (zn_snapshot_ zn_health_): the JSON views. ---- */

/* What does not fit is left out, whole items at a time, and "truncated": true says so: false is returned then. It is
 * full only if not even the smallest snapshot fits. */
bool zn_snapshot_json(struct zn_out *o, const struct zn_state *state, const struct zn_filter *filter);
void zn_snapshot_alerts(struct zn_out *o, const struct zn_state *state);
int zn_health_json(struct zn_out *o, const struct zn_state *state); /* the HTTP status, 200 or 503 */

/* ---- output/labels.c (zn_labels_): what programs said of themselves, as JSON. ---- */

#ifdef ZN_IN_output
/* One label, or one change, of those that g has; g may be NULL. False: there is no such one. */
bool zn_labels_item(struct zn_json *j, const struct zn_annotation_group *g, uint32_t i);
bool zn_labels_change(struct zn_json *j, const struct zn_annotation_group *g, uint32_t i);
/* The keys `labels` and, if they are wanted, `label_changes`. */
void zn_labels_json(struct zn_json *j, const struct zn_annotation_group *g, bool changes);
#endif

/* ---- output/pprof.c (zn_pprof_): what calls did by stack, as profiles and as folded lines. ---- */

bool zn_pprof_wants(
	const struct zn_state *state, const struct zn_stacks_query *q, uint32_t root); /* stacks are locked */
void zn_pprof_profile(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_query *q);
void zn_pprof_folded(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_query *q);

/* ---- output/speedscope.c (zn_speedscope_): the same in the file format of speedscope. ---- */

void zn_speedscope_json(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_query *q);

/* ---- output/lines.c (zn_lines_): which lines of programs have most of a cause, as JSON. ---- */

void zn_lines_json(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_query *q);
/* The key `where` of a job of GET /why: its heaviest lines in words. job: empty: processes of none. */
void zn_lines_where(struct zn_json *j, const struct zn_state *state, const char *job);
/* The three heaviest lines of the i-th cause, for the job's report: an item of zn_json_list(). */
bool zn_lines_item(struct zn_json *j, const struct zn_state *state, const struct zn_job *job, uint32_t i);

/* ---- output/why.c (zn_why_item zn_why_json zn_why_job): why a job is slow, as JSON. ---- */

/* One entry of why: {job_id (null: the processes of none), processes, says, state (hangs, still, critical, unknown,
 * starting, idle, loses, warned or runs), lost_percent, progress_age_s, missing_pid, missing_rank, late_pid (null:
 * nobody), causes: [{cause, percent, lost_s, says, next, sure, metric}]} over the last minute, and of the last 15
 * minutes in steps of 5 s: steps (that are over), step: {gpu, CAUSE: per cent} of the last one (null: not known),
 * bands: a letter and a height from 0 to 8 for each 15 s; with timeline also {step_s, steps, gpu and CAUSE: [per cent
 * of each step]}. i: 0 and up until false; where nothing is written there is none. job: of it alone; empty: of all. */
bool zn_why_item(struct zn_json *j, const struct zn_state *state, uint32_t i, const char *job, bool timeline);
void zn_why_json(struct zn_out *o, const struct zn_state *state, const struct zn_filter *filter);

#ifdef ZN_IN_output
const char *zn_why_job_id(
	const struct zn_state *state, uint32_t index, const struct zn_cause_group *g); /* empty: none */
#endif

/* ---- output/rates_json.c (zn_rates_json zn_rates_node_json zn_rates_job_json): rates of kernel counters as JSON. ----
 *  */

#ifdef ZN_IN_output
/* The key `signals` of a process: objects syscalls, ioctl, sched and tcp, each null where the kernel has no such
 * family. A rate is of the last tick; null: there was no whole one, or no launch in it. */
void zn_rates_json(struct zn_json *j, const struct zn_state *state, uint32_t row, const struct zn_proc *p);
/* The node's key `gpu_ioctl`: {busy_s, contended_s, contention}, null likewise. */
void zn_rates_node_json(struct zn_json *j, const struct zn_state *state);
/* The key `signals` of a job's report; count: of zn_job_counts(). */
void zn_rates_job_json(struct zn_json *j, const struct zn_state *state, struct zn_job *job, const uint64_t *count);
#endif

/* ---- output/stalls_json.c (zn_stalls_json zn_stalls_loader_json zn_stalls_blocked_json zn_stalls_seconds): why a GPU
 * is idle, as JSON. ---- */

/* The keys "stalls" and "dataloader" of a process in the snapshot; null where there is nothing to tell. */
void zn_stalls_json(struct zn_json *j, const struct zn_state *state, uint32_t row);
void zn_stalls_loader_json(struct zn_json *j, const struct zn_state *state, uint32_t row);
/* Its thread that has been in uninterruptible sleep longest, if one is. */
void zn_stalls_blocked_json(struct zn_json *j, const struct zn_state *state, uint32_t row, const struct zn_proc *p);

#ifdef ZN_IN_output
/* One key for each cause, in seconds; null for data where no loader was seen. */
void zn_stalls_seconds(struct zn_json *j, const uint64_t ns[ZN_STALL_COUNT]);
#endif

/* ---- output/baseline_json.c (zn_baselines_json): what is unusual of a process, as JSON. ---- */

/* The key `anomalies` of a process: {signal: score} of those beyond the limit; null: no score is known. */
void zn_baselines_json(struct zn_json *j, const struct zn_state *state, uint32_t row, uint32_t id);

/* ---- output/history_json.c (zn_history_json zn_point_json): the last 15 minutes as JSON. ---- */

void zn_history_json(struct zn_out *o, const struct zn_state *state); /* GET /history; cut as the snapshot is */
void zn_point_json(struct zn_json *j, const struct zn_point *p);      /* an object; null if p is NULL */

/* ---- output/io_json.c (zn_io_sum_json): file I/O of a job on a mount as JSON. ---- */

/* One entry of io: {mount, fstype, read_bytes, write_bytes, mapped_bytes, copied_bytes, ops: {OP: {count, errors,
 * p50_us, p99_us (null: no duration is known)}}}. Of a snapshot also job_id, read_bytes_per_s, write_bytes_per_s, and
 * of each op its rate; of a report (rates false) the seconds of each op. Where some of an operation was lost, its bytes
 * are null, and its OP is null in a report and not there in a snapshot. */
void zn_io_sum_json(struct zn_json *j, const struct zn_state *state, const struct zn_io_sum *f, bool rates);

/* ---- output/sampled_json.c (zn_sampled_): what is spared of a process or a server, as JSON. ---- */

#ifdef ZN_IN_output
/* `sampled`, of a row of struct zn_spent that something is or was spared of: in what part of the time that is measured
 * now, and was until now. */
void zn_sampled_json(struct zn_json *j, const struct zn_agg *agg, uint32_t row, uint32_t id, uint64_t since_ns);
#endif

/* ---- output/requests_json.c (zn_server_json zn_server_history): servers and their requests, as JSON. ---- */

/* For zn_json_list(): the server of index i. job: only servers of this job; empty: all. */
bool zn_server_json(struct zn_json *j, const struct zn_state *state, const char *job, uint32_t i);
/* The same of its last 15 minutes. */
bool zn_server_history(struct zn_json *j, const struct zn_state *state, uint32_t i);

/* ---- output/hardware_json.c (zn_hardware_json): the state of a GPU itself, as JSON. ---- */

#ifdef ZN_IN_output
/* The key "device"; NULL: nothing is known of it. */
void zn_hardware_json(struct zn_json *j, const struct zn_device *d);
/* The i-th GPU that CUDA and HIP do not know. False: there is none. */
bool zn_hardware_json_item(struct zn_json *j, const struct zn_hardware *h, uint32_t i);
void zn_hardware_json_energy(struct zn_json *j, const struct zn_hardware *h); /* of the node; NULL: no key */
#endif

/* ---- output/date.c (zn_date_): a moment as people and programs read it. ---- */

#ifdef ZN_IN_output
void zn_date_put(struct zn_out *o, uint64_t ms); /* since 1970: ISO 8601 in UTC with milliseconds */
#endif

/* ---- output/failed_json.c (zn_failed_json): failed calls as JSON of a process and a job. ---- */

#define ZN_FAILED_SAYS 256
#ifdef ZN_IN_output
void zn_failed_json(struct zn_json *j, const struct zn_state *state, uint32_t row, const struct zn_proc *p);
void zn_failed_json_job(struct zn_json *j, const struct zn_state *state, const struct zn_job *job);
#endif

/* ---- output/usage_json.c (zn_use_json): CPU time and memory of a job as JSON. ---- */

/* Into the object of a job: cpu, memory, and pressure where the kernel has accounts of it. Nothing without
 * state->uses. */
void zn_use_json(struct zn_json *j, const struct zn_state *state, const struct zn_job *job);
void zn_use_json_steps(struct zn_json *j, const struct zn_state *state, const struct zn_job *job);

/* ---- output/ghosts_json.c (zn_ghosts_json): processes that hold a GPU which is not theirs, and GPUs that no job uses,
 * as JSON. ---- */

void zn_ghosts_json(struct zn_out *o, const struct zn_state *state);

/* ---- output/job_json.c (zn_job_json zn_jobs_json): a job as an entry of a list. ---- */

void zn_jobs_json(struct zn_out *o, const struct zn_state *state); /* GET /jobs */
/* One entry of the snapshot's jobs: job_id, restart, state (zn_job_state_label()), user, uid (null: not known),
 * account, partition, name, nodes (texts, "" if not said), start_ms, end_ms (null while it runs), elapsed_s (by its
 * _ns), processes, processes_gone, launches (without captured ones), nccl_bytes, cpu, memory, pressure (zn_use_json()),
 * gpus: [{gpu_id, allocated, peak_bytes, busy_s, idle_s, quiet_s}]. */
void zn_job_json(struct zn_json *j, const struct zn_state *state, struct zn_job *job);
/* What a table of jobs shows of one, so that all jobs of a full node have room in an answer: job_id, restart, state,
 * user, name (its beginning), processes, launches, elapsed_s. */
void zn_job_json_row(struct zn_json *j, const struct zn_state *state, struct zn_job *job);

#ifdef ZN_IN_output
void zn_job_json_uid(struct zn_json *j, uint32_t uid); /* the key uid; null: not known */
/* peak_bytes; null where all of it was not seen. */
void zn_job_json_peak(struct zn_json *j, const struct zn_job_gpu *g, bool is_measured);
#endif

/* ---- output/report_gaps.c (zn_gaps_): what was not measured of a job, and why. ---- */

#ifdef ZN_IN_output
/* Of whom a report is. */
struct zn_report {
	const struct zn_state *state;
	struct zn_job *job;
	const uint64_t *count; /* of all its processes */
};
bool zn_gaps_measures(const struct zn_state *state, enum zn_family f);
bool zn_gaps_has_io(const struct zn_state *state);
uint32_t zn_gaps_io_lost(const struct zn_report *r); /* operations whose figures are not whole, a bit each */
/* When the daemon came later than the job: since when there are figures; 0: from its beginning. */
uint64_t zn_gaps_since_ms(const struct zn_report *r);
bool zn_gaps_item(const void *report, struct zn_json *j, uint32_t i); /* for zn_json_list() */
#endif

/* ---- output/report.c (zn_report_json zn_report_keep): what a job did, when it has ended or so far. ---- */

void zn_report_json(struct zn_out *o, const struct zn_state *state, struct zn_job *job);
/* Writes it to the folder of reports. False: it was not handed to the writer. */
bool zn_report_keep(const struct zn_state *state, struct zn_job *job);

/* ---- output/flight.c (zn_flight): what is known of a job that hangs, written at that moment. ---- */

#define ZN_FLIGHT_TEXT (120 << 10) /* which an answer (ZN_ANSWER_BYTES) holds */
struct zn_flight_group {
	uint32_t serial; /* of the job; 0: none */
	uint32_t episodes;
	bool written; /* in this episode */
};
struct zn_flights {
	const struct zn_state *state;
	/* asks what the threads of a process do; true: they are there, or it has gone. NULL: nobody knows */
	bool (*look)(void *owner, struct zn_threads *threads);
	void *owner_of_look;
	void (*write)(void *owner, const char *name, struct zn_str text);
	void *owner;
	uint64_t now_ns, since_ns;
	bool asks; /* for the threads of a job's process: since then, and of which group */
	uint32_t asked;
	struct zn_threads threads;
	struct zn_flight_group group[ZN_JOBS_MAX + 1]; /* as in struct zn_causes */
	char text[ZN_FLIGHT_TEXT];
};
void zn_flights_tick(struct zn_flights *t, uint64_t now_ns); /* after zn_alerts_tick() */

#ifdef ZN_IN_output
/* Episodes so far. */
static inline uint32_t zn_flights_of(const struct zn_flights *t, struct zn_job_ref job)
{
	const struct zn_flight_group *g = &t->group[job.serial && job.slot < ZN_JOBS_MAX ? job.slot : ZN_JOBS_MAX];

	return g->serial == job.serial ? g->episodes : 0;
}
#endif

/* ---- output/report_cells.c (zn_sheet_): figures of a report as short texts. ---- */

#ifdef ZN_IN_output
#define ZN_SHEET_SPAN_MAX 1e12 /* seconds; a span that is longer is no span */
/* Of all GPUs: the one whose peak was highest, the share of their time that was used, and how many were not at all. */
struct zn_gpu_sums {
	struct zn_str highest; /* empty: there is none, or memory was not measured on one of them */
	double busy_s, all_s;
	unsigned count, unused;
	bool hidden; /* the peak of one is not known */
};
struct zn_gpu_sums zn_sheet_gpus(struct zn_str list);
double zn_sheet_number(struct zn_str json, const char *path);
uint64_t zn_sheet_integer(struct zn_str json, const char *path);
bool zn_sheet_true(struct zn_str json, const char *path);
/* The sum of a list's or an object's numbers: of its items' member, or, without one, of its own values. */
double zn_sheet_sum(struct zn_str list, const char *member);
/* A cell's text; each returns to. The value is missing or null: "-". */
char *zn_sheet_none(char to[ZN_UNITS_CELL]);
char *zn_sheet_bytes(char to[ZN_UNITS_CELL], struct zn_str json, const char *path);
char *zn_sheet_count(char to[ZN_UNITS_CELL], struct zn_str json, const char *path);
char *zn_sheet_span_of(char to[ZN_UNITS_CELL], double s);
char *zn_sheet_span(char to[ZN_UNITS_CELL], struct zn_str json, const char *path);
char *zn_sheet_duration(char to[ZN_UNITS_CELL], struct zn_str json, const char *path, double scale);
char *zn_sheet_percent_of(char to[ZN_UNITS_CELL], double share);
char *zn_sheet_percent(char to[ZN_UNITS_CELL], struct zn_str json, const char *path);
char *zn_sheet_moment(char to[ZN_UNITS_CELL], struct zn_str json, const char *path);
char *zn_sheet_share(char to[ZN_UNITS_CELL], struct zn_str json, const char *path, const char *blank);
char *zn_sheet_energy(char to[ZN_UNITS_CELL], struct zn_str r, const char *path);
#endif

/* ---- output/report_text.c (zn_report_): a report as people read it. ---- */

/* From such JSON, so that a file says the same as a running job. All is printable ASCII. Nothing if it is no JSON. */
void zn_report_page(struct zn_out *o, struct zn_str json);

/* ---- output/report_line.c (zn_line_): a report in a line, and as mail. ---- */

/* Up to 250 characters without quotes or an end of line, for AdminComment; the efficiencies, GPUs and energy are in its
 * first 200. */
void zn_line_report(struct zn_out *o, struct zn_str json);
/* The page with the headers of a mail, but for those that say to whom. */
void zn_line_mail(struct zn_out *o, struct zn_str json);

/* ---- output/notify.c (zn_notify_): what Alertmanagers and the webhook are told of alerts. ---- */

#define ZN_NOTIFIED_MAX (2 * ZN_ALERTS_MAX) /* what fires, and what was resolved and is not known everywhere */
#define ZN_PAIRS_BYTES  768
struct zn_pairs {
	size_t len;
	char text[ZN_PAIRS_BYTES]; /* names and values in turn, each with its NUL */
};
struct zn_notified {
	uint64_t id;                  /* of the alert */
	uint64_t starts_ns, ends_ns;  /* of zn_now_ns(); ends_ns 0: it fires */
	uint64_t since_ms;            /* when it began, by the clock of then: a clock that is set moves no alert */
	uint64_t number[ZN_TO_COUNT]; /* of the first delivery that says that it was resolved; 0: none does */
	bool seen;
	double value; /* as are the next two, of when it last fired */
	struct zn_pairs labels, annotations;
};
struct zn_notify {
	const struct zn_state *state;
	struct zn_sender *sender;
	uint16_t port;          /* of the page, of who wants to see more; 0: none */
	bool changed;           /* an alert began to fire, or ended, since the last tick */
	bool due[ZN_TO_COUNT];  /* a delivery is to be sent */
	bool more[ZN_TO_COUNT]; /* the last one had no room for some that were resolved */
	bool complete;          /* what held at the start has had the time to fire */
	uint64_t sent_ns, now_ns;
	uint64_t lost; /* alerts that there was no room for, or whose end nobody took for 15 minutes */
	uint32_t count;
	struct zn_notified notified[ZN_NOTIFIED_MAX];
	char text[ZN_DELIVERY_BYTES];
};
void zn_notify_init(struct zn_notify *n, const struct zn_state *state, struct zn_sender *sender, uint16_t port);
void zn_notify_changed(void *notify, const struct zn_alert *alert); /* for zn_alerts.changed */
void zn_notify_tick(struct zn_notify *n, uint64_t now_ns);          /* after zn_alerts_tick() and zn_sender_tick() */
static inline uint64_t zn_notify_lost(const struct zn_notify *n)
{
	return n->lost + zn_sender_lost(n->sender, ZN_TO_ALERTMANAGER) + zn_sender_lost(n->sender, ZN_TO_WEBHOOK);
}

/* ---- output/self.c (zn_state_ zn_loss_): what all forms show: losses, use of tables, the
 * daemon's own figures. ---- */

/* What the HTTP server counts. */
#define ZN_CODES(X)                                                                                                    \
	X(101)                                                                                                         \
	X(200)                                                                                                         \
	X(204)                                                                                                         \
	X(304)                                                                                                         \
	X(400) X(401) X(403) X(404) X(405) X(408) X(413) X(414) X(417) X(421) X(426) X(431) X(500) X(501) X(503) X(505)
enum {
#define X(code) ZN_CODE_##code,
	ZN_CODES(X)
#undef X
		ZN_CODE_COUNT
};
#define ZN_ROUTES_MAX 16
struct zn_http_stats {
	uint32_t conn_count, ws_count;
	const char *path[ZN_ROUTES_MAX];                     /* of the first rows of requests */
	uint64_t requests[ZN_ROUTES_MAX + 1][ZN_CODE_COUNT]; /* last row: no route */
	uint64_t lost[ZN_LOSS_COUNT];                        /* what is lost there; the rest of the enum stays 0 */
	uint64_t scrape_ns;                                  /* what the last answer to /metrics took */
	uint32_t ports_missing;                              /* that others have, so that nobody is served there */
};
struct zn_state {
	const struct zn_options *options;
	struct zn_agg *agg;
	struct zn_alerts *alerts;
	struct zn_probe *probe;                       /* NULL: simulated, or not loaded yet */
	struct zn_find *find;                         /* NULL: likewise */
	bool loading;                                 /* nothing is measured yet, and what would be is absent */
	struct zn_stacks *stacks;                     /* NULL: none are walked */
	struct zn_walker *walker;                     /* NULL: likewise */
	const struct zn_http_stats *http;             /* NULL: not serving (tests) */
	struct zn_history *history;                   /* NULL: none is kept (tests) */
	const struct zn_latency *latency;             /* NULL: likewise */
	const struct zn_slowness *slowness;           /* NULL: likewise */
	struct zn_jobs *jobs;                         /* NULL: none (tests) */
	const struct zn_job_uses *uses;               /* NULL: none (tests) */
	const struct zn_hardware *hardware;           /* NULL: none (tests) */
	const struct zn_energies *energies;           /* NULL: none (tests) */
	const struct zn_fabric *fabric;               /* NULL: none (tests) */
	struct zn_writer *writer;                     /* NULL: none */
	struct zn_sender *sender;                     /* NULL: none */
	struct zn_notify *notify;                     /* NULL: none */
	struct zn_export *export;                     /* NULL: none */
	const struct zn_counter_rates *rates;         /* NULL: none (tests) */
	const struct zn_progress *progress;           /* NULL: none (tests) */
	const struct zn_ranks *ranks;                 /* NULL: none (tests) */
	const struct zn_jobs_progress *jobs_progress; /* NULL: none (tests) */
	const struct zn_startup *startup;             /* NULL: none (tests) */
	const struct zn_causes *causes;               /* NULL: none (tests) */
	const struct zn_stopped *stopped;             /* NULL: none (tests) */
	const struct zn_blocked *blocked;             /* NULL: none (tests) */
	const struct zn_budget *budget;               /* NULL: none (tests) */
	const struct zn_checkpoints *checkpoints;     /* NULL: none (tests) */
	const struct zn_flights *flights;             /* NULL: none (tests) */
	const struct zn_suspicions *suspicions;       /* NULL: none (tests, simulated) */
	const struct zn_servings *servings;           /* NULL: none (tests) */
	struct zn_annotations *annotations;           /* NULL: none (tests) */
	struct zn_io_sums *io_sums;                   /* NULL: none (tests) */
	struct zn_baselines *baselines;               /* NULL: none (tests) */
	const struct zn_xids *xids;                   /* NULL: none (tests) */
	const struct zn_ooms *ooms;                   /* NULL: none (tests) */
	const struct zn_ghosts *ghosts;               /* NULL: none (tests) */
	char node[65];                                /* its name, as of the last tick */
	char release[65];                             /* of the kernel */
	uint64_t start_ns;
	uint64_t start_wall_ms;            /* of start_ns, by the time of day as it is set now */
	uint64_t tick_ns;                  /* when the last tick ended */
	uint64_t ticks;                    /* begun since the start */
	uint64_t resident_bytes, open_fds; /* of the daemon, at the last tick */
};
#define ZN_CLOCK_STEP_MS 1000 /* the time of day differs by so much: it was set */
void zn_state_tick(struct zn_state *state);
/* Once before a request that needs fresh figures: what renders them changes nothing but its own scratch. */
void zn_state_refresh(const struct zn_state *state);
/* Of a moment of zn_now_ns(), before the start too. */
static inline uint64_t zn_state_wall_ms(const struct zn_state *state, uint64_t ns)
{
	int64_t after_ns = (int64_t)(ns - state->start_ns);

	return state->start_wall_ms + (uint64_t)(after_ns / (int64_t)ZN_NS_PER_MS);
}
/* Likewise: when the daemon began to count for a job, which is when the job began, or the daemon. */
uint64_t zn_state_job_wall_ms(const struct zn_state *state, const struct zn_job *job);
static inline const char *zn_state_source(const struct zn_state *state)
{
	return state->probe || state->loading ? "live" : "simulated";
}
uint64_t zn_state_lost(const struct zn_state *state, enum zn_loss what);
/* For how long a change of probes hangs, ns, and in a sentence on what; 0: none does. */
uint64_t zn_state_hang(const struct zn_state *state, char why[ZN_TEXT_MAX]);
const char *zn_loss_label(enum zn_loss what);
const char *zn_loss_help(enum zn_loss what);
#define ZN_USAGES_MAX 20
struct zn_usage {
	const char *table;
	uint64_t entries, limit;
};
size_t zn_state_usage(const struct zn_state *state, struct zn_usage to[ZN_USAGES_MAX]);

/* The dashboard: page.c, made from web/ by web/embed.sh at build time. */
extern const char zn_page_gzip[]; /* the whole page, compressed */
extern char zn_page[];            /* room for it unpacked: not touched before a client wants it so */
extern const size_t zn_page_len, zn_page_gzip_len;
extern const char zn_page_headers[]; /* ETag, security headers: lines with CRLF */
extern const char zn_page_etag[];    /* with its quotes */

/* ---- serve/auth.c (zn_auth_): who may ask. ---- */

struct zn_auth {
	const struct zn_options *options;
	const char *node;
	char domains[ZN_TEXT_MAX]; /* of this node: the search list of resolv.conf, with spaces between them */
	struct zn_tokens tokens;   /* count 0: none is asked for */
	uint32_t token_set;        /* counts up when a reload changes the tokens */
};
/* Reads the token file again, and warns of one that is open to all. -errno with why: the old tokens stay. */
int zn_auth_reload(struct zn_auth *a, char why[ZN_TEXT_MAX]);

#ifdef ZN_IN_serve
/* Reads the token file and resolv_conf (NULL: /etc/resolv.conf; one that is missing is no error). -errno with a line in
 * why. node stays the caller's. */
int zn_auth_open(struct zn_auth *a, const struct zn_options *o, const char *node, const char *resolv_conf,
	char why[ZN_TEXT_MAX]);
/* A name that this node's owner chose: an address, localhost, the node's name, alone or in one of its domains, or one
 * of --host-names or --ws-origin. A page whose own name was made to point here (DNS rebinding) asks for another. */
bool zn_auth_host(const struct zn_auth *a, struct zn_str host);
/* Whether a page of this origin may open the WebSocket: the same scheme-less host and port, one of --ws-origin, or, on
 * the WebSocket port, a page of the metrics port. No origin: no page. */
bool zn_auth_origin(const struct zn_auth *a, const struct zn_http_req *req, bool ws_port, uint16_t metrics_port);
/* The bearer token of RFC 6750, section 2.1, or, as a browser's WebSocket cannot send that, the subprotocol
 * "zernel.token.<the token in hex>". Takes as long for a wrong token as for a right one. */
bool zn_auth_token(const struct zn_auth *a, const struct zn_http_req *req);
#endif

/* ---- serve/query.c (zn_filter_): what a client asks to see: ?interval_ms=&job=&topics=. ---- */

#define ZN_TOPICS(X)                                                                                                   \
	X(GPUS, "gpus")                                                                                                \
	X(PROCESSES, "processes")                                                                                      \
	X(JOBS, "jobs")                                                                                                \
	X(IO, "io")                                                                                                    \
	X(ALERTS, "alerts")                                                                                            \
	X(PROBES, "probes")                                                                                            \
	X(LOST, "lost")                                                                                                \
	X(WHY, "why")                                                                                                  \
	X(SERVERS, "servers")
enum zn_topic {
#define X(e, label) ZN_TOPIC_##e,
	ZN_TOPICS(X)
#undef X
		ZN_TOPIC_COUNT
};
#define ZN_TOPICS_ALL   ((1u << ZN_TOPIC_COUNT) - 1)
#define ZN_JOB_ID_BYTES 64
#define ZN_INTERVAL_MIN 250 /* ms */
#define ZN_INTERVAL_MAX 60000
struct zn_filter {
	uint32_t topics;           /* bit 1 << enum zn_topic */
	uint32_t interval_ms;      /* 0: the daemon's own */
	char job[ZN_JOB_ID_BYTES]; /* empty: all; zero-padded, so that filters compare as memory */
};
/* Reads a query; everything is shown where it says nothing. interval: interval_ms is known here. -EINVAL with a line in
 * why that names the parameter and what it may be: an unknown one, one that comes twice, a bad value. */
int zn_filter_read(struct zn_filter *f, struct zn_str query, bool interval, char why[ZN_TEXT_MAX]);
/* The same of ?pid=&job=&seconds=&cause=. */
int zn_filter_stacks(struct zn_stacks_query *q, struct zn_str query, char why[ZN_TEXT_MAX]);
/* Which metrics are asked for, by collect[], as of enum zn_collect; 0: as --series says. Other parameters are nobody's
 * business, but those that look like it. */
int zn_filter_collect(uint32_t *collect, struct zn_str query, char why[ZN_TEXT_MAX]);

/* ---- serve/buffer.c (zn_buffer_): the buffers that answers are rendered into. ---- */

#define ZN_BUFFERS_MAX  32
#define ZN_BUFFER_BYTES (16 << 20) /* the largest answer; touched only as far as it is used */
#define ZN_HELD_BYTES   (64 << 20) /* of all answers that are held: beyond it the slowest readers lose theirs */
#define ZN_HOLD_S       1          /* how long an answer may be held back from others, once no buffer is free */
struct zn_serve;
/* A rendered answer, shared by all who send it. */
struct zn_buffer {
	char *at;
	size_t len;
	uint32_t refs;
	uint64_t since_ns; /* when it was taken */
};

#ifdef ZN_IN_serve
/* A body that nobody holds, with one reference. If all are in use, the one that slow clients have held longest is taken
 * from them, if it is older than ZN_HOLD_S and not the newest of a variant; while all hold more than ZN_HELD_BYTES, of
 * whatever age: so other connections may end here. NULL, and counted, if there is none. */
struct zn_buffer *zn_buffer_get(struct zn_serve *s);
struct zn_buffer *zn_buffer_free(struct zn_serve *s); /* the same, but takes none from anybody, and counts nothing */
void zn_buffer_put(struct zn_buffer *b);
#endif

/* ---- serve/conn.c (zn_conn_): connections. ---- */

#define ZN_CONNS_MAX      8192 /* --max-connections is at most this */
#define ZN_CONNS          1024 /* --max-connections, unless it is given */
#define ZN_CONNS_PER_PEER 512  /* --max-connections-per-peer, unless it is given */
#define ZN_REFUSED_MAX    64   /* clients beyond these limits that are just being told so */
#define ZN_ACCEPTS        64   /* of one listener in one turn */
/* What is closed in a turn keeps its slot until the end of it, and each newcomer of the turn may have taken another's
 * place. */
#define ZN_CONN_SLOTS     (ZN_CONNS_MAX + ZN_REFUSED_MAX + 2 * ZN_LISTEN_MAX * ZN_ACCEPTS)
#define ZN_WRITE_PER_TURN (1 << 20)

struct zn_conn;
struct zn_listener;
/* What stands above the connections: the routes, and the WebSocket of those that were upgraded. */
struct zn_conn_ops {
	/* Queues the answer to a request; after 101 the state is ZN_CONN_PUSH. */
	void (*answer)(struct zn_conn *c, const struct zn_http_req *req);
	/* Queues the answer of an error, whose line is serve->why if that is not empty, after which the connection
	 * ends. */
	void (*refuse)(struct zn_conn *c, int status, bool head_only);
	/* The others are called in state ZN_CONN_PUSH alone. */
	void (*input)(struct zn_conn *c);                 /* takes all of in */
	bool (*next)(struct zn_conn *c);                  /* queues what is due next; false: nothing is */
	bool (*tick)(struct zn_conn *c, uint64_t now_ns); /* time limits; false: give it up */
	void (*leave)(struct zn_conn *c);                 /* the state ends */
};

/* One client. Output is the rest of out, then the rest of body; while some waits, no further request is parsed and no
 * further frame begun. */
#define ZN_CONN_OUT 2048
enum zn_conn_state { ZN_CONN_HTTP, ZN_CONN_BODY, ZN_CONN_PUSH, ZN_CONN_DRAIN };
struct zn_conn {
	struct zn_io io; /* first */
	struct zn_serve *serve;
	struct zn_conn *next; /* in the free or closed list */
	enum zn_conn_state state;
	uint32_t events; /* that the loop waits for */
	size_t in_len, out_at, out_len, body_at;
	struct zn_buffer *body; /* held */
	size_t budget;          /* of this turn: bytes sent, and nanoseconds spent on answers */
	size_t drained;
	uint64_t deadline_ns; /* of the head, of the body, of the pause between requests, or of progress in writing */
	uint64_t answer_ns;   /* when the whole answer must be gone */
	struct zn_http_body skip; /* the request's body, while its head waits in `in` */
	bool ws_port, local;      /* of the listener */
	bool refused;             /* beyond a limit: it is told so, and no more */
	bool last;                /* nothing is sent after what is in out and body */
	/* push.c */
	bool due;     /* the newest snapshot of its variant was not begun yet */
	bool closing; /* with close_code; 0: without a code */
	bool pinged, ping_due, pong_due;
	uint8_t pong_len;
	uint16_t close_code;
	uint64_t heard_ns;
	uint32_t token_set;         /* that it was let in by */
	uint64_t frame_deadline_ns; /* of the frame in out and body; 0: there was none yet */
	uint64_t next_ns;           /* when a client with an interval of its own is due */
	uint32_t interval_ms;       /* 0: at every tick */
	struct zn_variant *variant; /* while state is ZN_CONN_PUSH */
	struct zn_ws ws;
	/* not cleared when the slot is reused */
	char pong[ZN_WS_CONTROL_MAX];
	char out[ZN_CONN_OUT];
	char in[ZN_HTTP_HEAD_MAX];
};

#ifdef ZN_IN_serve
/* Time limits in seconds. All are looked at once a tick, and where ticks are further apart, this often: */
#define ZN_LIMITS_MS 1000
#define ZN_HEAD_S    10 /* for a whole request head; the same again for its body, which is thrown away: 408 */
#define ZN_ANSWER_S  30 /* for a whole answer */
#define ZN_DRAIN_S   2  /* for the client to close after our last byte; what it sends meanwhile is thrown away */
/* Sends the first len bytes of out, then body (NULL: none), whose reference passes to the connection. */
void zn_conn_queue(struct zn_conn *c, size_t len, struct zn_buffer *body);
void zn_conn_advance(struct zn_conn *c); /* sends what is due; may close it */
/* Takes fd over; beyond a limit the client is told so, and counted. peer: 0 if it is not counted. */
void zn_conn_welcome(struct zn_listener *from, int fd, uint64_t peer);
void zn_conn_tick(struct zn_conn *c, uint64_t now_ns); /* time limits of an open one; may close it */
/* Sends what the socket takes, and closes, with what the client sent thrown away, but without waiting for more of
 * it. */
void zn_conn_close(struct zn_conn *c);
void zn_conn_reuse(struct zn_serve *s); /* after a turn of the loop: the slots of those that were closed are free */
#endif

/* ---- serve/seats.c (zn_seat_): which connections there may be. ---- */

struct zn_seat {
	uint64_t peer;     /* whose it is, as listen.c names them; 0: nobody's, or not counted */
	uint64_t since_ns; /* when it began what it is at: a pause, a request, an answer; 0: a WebSocket, or free */
};

#ifdef ZN_IN_serve
void zn_seat_take(struct zn_conn *c, uint64_t peer);
void zn_seat_leave(struct zn_conn *c);
void zn_seat_since(struct zn_conn *c, uint64_t now_ns); /* it begins something else; 0: it is a WebSocket now */
/* The limit that one more connection of this peer would pass; ZN_LOSS_COUNT: none. */
enum zn_loss zn_seat_limit(const struct zn_serve *s, uint64_t peer);
/* Of a peer, or of all with 0, the one that gives way; NULL: all are WebSockets. */
struct zn_conn *zn_seat_oldest(const struct zn_serve *s, uint64_t peer);
/* The limit that this connection would pass as a WebSocket, of which there may be 7/8 of each limit. */
enum zn_loss zn_seat_push(const struct zn_conn *c);
#endif

/* ---- serve/listen.c (zn_listen_): where clients come from. ---- */

struct zn_listener {
	struct zn_io io; /* first */
	struct zn_serve *serve;
	uint16_t port; /* as bound */
	bool ws;
	bool local; /* a Unix socket: it has no port, and its clients need no token */
	bool waits; /* others have the port: it does not listen yet */
	int told;   /* why not, as it was logged last: -errno */
	union {
		struct sockaddr any;
		struct sockaddr_in6 v6; /* the longest */
	} at;                           /* where it will */
	socklen_t at_len;
};

#ifdef ZN_IN_serve
/* Opens the timer and the listeners, whose clients go to s->accepted; on -errno, with *why, what was opened is left for
 * zn_listen_close(). A port that others have is an error unless systemd started the daemon: then it is logged, and
 * zn_listen_tick() tries again. */
int zn_listen_open(struct zn_serve *s, char why[ZN_TEXT_MAX]);
void zn_listen_tick(struct zn_serve *s, uint64_t now_ns);
void zn_listen_close(struct zn_serve *s);
#endif

/* ---- serve/push.c (zn_push_): the WebSocket side of a connection. ---- */

#define ZN_VARIANTS_MAX 16 /* different snapshots that WebSocket clients may ask for at one time; one is for all */
#define ZN_PUSH_FRAME_S 30 /* to take one frame; then it is closed, with 1013 between two frames */
#define ZN_PUSH_PING_S  25 /* of silence: a ping */

/* A snapshot as some WebSocket clients want it; those who want the same share it. */
struct zn_variant {
	uint32_t clients;        /* 0: free */
	uint32_t paced;          /* of them, those with an interval of their own */
	struct zn_filter filter; /* interval_ms is 0: each client has its own */
	struct zn_buffer *body;  /* the newest; NULL: not rendered yet */
	uint64_t rendered_ns;
};

#ifdef ZN_IN_serve
/* Opens the timer for zn_serve.pace. The listeners are open: pages of metrics_port may open the WebSocket. */
int zn_push_start(struct zn_serve *s, uint16_t metrics_port);
/* Answers an opening handshake: 101, or the status to refuse it with; why is set if the query was the reason. */
int zn_push_open(struct zn_conn *c, const struct zn_http_req *req, char why[ZN_TEXT_MAX]);
void zn_push_leave(struct zn_conn *c); /* when it stops to be in state ZN_CONN_PUSH: gives its variant back */
void zn_push_bye(struct zn_conn *c);   /* the daemon ends: a Close with 1001, as far as it goes at once */
void zn_push_read(struct zn_conn *c);  /* all of in */
bool zn_push_next(struct zn_conn *c);  /* queues the next frame that is due; false: none is */
/* At each tick: a new snapshot for every variant, then the time limits of each client. False: give it up. */
void zn_push_render(struct zn_serve *s, uint64_t now_ns);
bool zn_push_tick(struct zn_conn *c, uint64_t now_ns);
void zn_push_pace(struct zn_serve *s, uint64_t now_ns); /* sends to clients with an interval of their own */
#endif

/* ---- serve/routes.c (zn_answer_): routes, and what is answered. ---- */

struct zn_answer {
	int status;
	const char *type;
	struct zn_buffer *body; /* held; NULL: none, but a line that says what the status means here */
};
struct zn_route;
/* What an answer depends on: who asks alike in one turn of the loop gets the same. */
struct zn_request_key {
	const struct zn_route *route;
	enum zn_format format;
	struct zn_filter filter;
	struct zn_stacks_query stacks;
	uint32_t collect;
};
struct zn_route {
	const char *path;
	void (*get)(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to); /* NULL: WebSocket */
	unsigned flags;                                                                          /* of serve/routes.c */
};

#ifdef ZN_IN_serve
/* Queues the answer to a request; after 101 the WebSocket is open. */
void zn_answer_request(struct zn_conn *c, const struct zn_http_req *req);
/* Queues the answer of an error, whose line is s->why if that is not empty, and after which the connection ends. */
void zn_answer_error(struct zn_conn *c, int status, bool head_only);
void zn_answer_open(struct zn_serve *s);
void zn_answer_drop(struct zn_serve *s); /* what is shared in this turn */
#endif

/* ---- serve/server.c (zn_serve_): opens and closes the server. ---- */

struct zn_serve {
	struct zn_loop *loop;
	struct zn_loop clients; /* of the connections: a few have their turn, and then whatever else is in the loop */
	struct zn_io clients_io;
	const struct zn_state *state;
	const struct zn_conn_ops *ops;
	/* of listen.c: takes over fd, a client of that listener; peer: whose it is, 0: that is not counted */
	void (*accepted)(struct zn_listener *from, int fd, uint64_t peer);
	uint16_t metrics_port; /* of the page that may open the WebSocket; 0: there is none */
	struct zn_http_stats stats;
	struct zn_listener listener[2 * ZN_LISTEN_MAX];
	uint32_t listener_count;
	struct zn_listener rest; /* no listener, but the timer that ends their rest after EMFILE */
	bool rested;
	uint64_t again_ns; /* when a port that others have is tried again */
	struct zn_conn *conns;
	struct zn_conn *free, *closed; /* closed: free after this turn of the loop */
	uint32_t conn_high;            /* slots that were ever used */
	uint32_t conn_limit, peer_limit;
	uint32_t refused_count; /* clients that are being refused, in slots of their own */
	struct zn_seat *seat;   /* by slot */
	struct zn_buffer body[ZN_BUFFERS_MAX];
	struct zn_buffer page[2]; /* plain, and compressed; never given back */
	bool page_unpacked;
	struct zn_variant variant[ZN_VARIANTS_MAX];
	struct zn_io pace; /* timer for clients with an interval of their own; rests while there is none */
	uint32_t paced_count;
	struct zn_io limits; /* timer for the time limits between ticks; closed where ticks are close enough */
	struct zn_auth access;
	/* the answer last made in this turn of the loop, for whoever asks the same in this turn; held */
	struct zn_request_key key;
	struct zn_answer shared;
	struct zn_buffer *packed; /* the same, compressed; NULL: not asked for yet, or not possible; held */
	char why[ZN_TEXT_MAX];    /* the line of the answer at hand; empty: that of its status */
	void *memory;
};
/* Listens, and takes loop->after for itself. -errno with *why, and nothing left open. */
int zn_serve_open(struct zn_serve *s, struct zn_loop *loop, const struct zn_state *state, char why[ZN_TEXT_MAX]);
void zn_serve_close(struct zn_serve *s);                   /* before the loop is closed */
uint16_t zn_serve_port(const struct zn_serve *s, bool ws); /* as bound, of the first address */
void zn_serve_tick(struct zn_serve *s, uint64_t now_ns);   /* renders the snapshot and pushes it; time limits */

/* ---- serve/control_verbs.c (zn_control_act): what is asked for on the control socket. ---- */

#define ZN_ANSWER_BYTES                                                                                                \
	(128 << 10) /* of an answer, which is one datagram: "ok\n" and a text, "error: why\n", or "busy: why\n" (try again) */
struct zn_spool;
struct zn_control_request {
	const struct zn_state *state;
	struct zn_spool *spool;
	struct zn_annotator asker; /* any: he may tag */
	struct zn_message message;
	char why[ZN_TEXT_MAX];       /* it is refused */
	char text[ZN_MESSAGE_BYTES]; /* as it came */
	char answer[ZN_ANSWER_BYTES], report[ZN_ANSWER_BYTES];
};

#ifdef ZN_IN_serve
/* Does what the first len bytes of text ask for, and appends the text of the answer. -errno with why. */
int zn_control_act(struct zn_control_request *r, size_t len, struct zn_out *answer);
#endif

/* ---- serve/control.c (zn_control_): the control socket, SOCK_SEQPACKET; the peer's credentials decide. ---- */

struct zn_control;
/* start and end are root's; a start of anybody else is zn_jobs_describe(). */
/* Listens. An empty path: nothing is opened, *c is NULL, which the others take. */
int zn_control_open(struct zn_control **c, struct zn_loop *loop, const struct zn_state *state, const char *path,
	char why[ZN_TEXT_MAX]);
/* Reads the spool beside the socket, and answers from here on. Who has connected before, waits. */
int zn_control_start(struct zn_control *c);
void zn_control_close(struct zn_control *c);
void zn_control_tick(struct zn_control *c, uint64_t now_ns); /* time limits; reads what was left in the spool */

#ifdef ZN_IN_serve
#define ZN_CONTROL_CLIENTS 32
#endif

/* ---- serve/spool.c (zn_spool_): messages that clients left as files while the daemon did not answer, and records of
 * jobs that run. ---- */

struct zn_spool;
struct zn_writer;
/* For zn_jobs.started and ended: keeps the record of a job, or takes it away. A job without a message has none. The
 * record of a job whose epilog has come says "end", with the time of its start. */
void zn_spool_record(struct zn_writer *writer, const struct zn_job *job);
void zn_spool_forget(struct zn_writer *writer, const struct zn_job *job);

#ifdef ZN_IN_serve
/* Reads everything that is there, in the order of its time; before the filter of system calls, state->jobs being open.
 * A folder that is missing is no error. owner: whose files are believed. NULL for *s where nothing is to be read. */
int zn_spool_open(struct zn_spool **s, const struct zn_state *state, const char *folder, uid_t owner);
void zn_spool_close(struct zn_spool *s);
void zn_spool_check(struct zn_spool *s); /* takes what came since, if the writer can remove it */
/* Whether a message was taken already, from the socket or as a file: who gives up waiting for an answer leaves the same
 * text in the spool. It is noted as taken. */
bool zn_spool_taken(struct zn_spool *s, struct zn_str text);
#endif

/* ---- cli/client.c (zn_client_): how the client verbs ask a daemon: GET of a JSON object, or of text, over one
 * connection that is kept. ---- */

#ifdef ZN_IN_cli
#define ZN_CLIENT_BUFFER (ZN_HTTP_HEAD_MAX + ZN_BUFFER_BYTES)
enum zn_client_phase { ZN_CLIENT_CLOSED, ZN_CLIENT_CONNECTING, ZN_CLIENT_READING, ZN_CLIENT_IDLE };
struct zn_client {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	} address;
	socklen_t address_len;
	char name[sizeof(((struct sockaddr_un *)0)->sun_path) + 8]; /* of the daemon, for messages */
	char host[INET6_ADDRSTRLEN + 32];                           /* the Host header */
	char token[ZN_TOKEN_MAX + 1];                               /* empty: none is sent */
	const char *path;
	bool text;    /* the answer is text, not a JSON object; set before it is started */
	int also;     /* a status that is an answer, besides 200; 0: none */
	bool of_node; /* the address is by this node's options, so its port is root's, or the client's own user's */
	int fd;
	enum zn_client_phase phase;
	bool reused; /* the request went over a kept connection, which the daemon may have closed meanwhile */
	bool keep;
	uint64_t deadline_ns;   /* while busy */
	size_t len, head, body; /* bytes received; lengths of the head (0: not complete) and of the body */
	char *buffer;           /* ZN_CLIENT_BUFFER bytes of the caller's; may be changed between two requests */
	int status;
	struct zn_str answer; /* the last JSON object, checked, or text, in the buffer it came into */
	bool unreachable;     /* the last failure was a connection that did not come about */
	bool refused;         /* it was an answer of a daemon that says no */
	bool misused;         /* what was asked for cannot be; why has the daemon's words */
	char why[128];        /* of the last failure */
};
/* The arguments that all client verbs take: [URL] [--token-file FILE], and those that are about a job: [JOB | PID]. */
struct zn_client_args {
	const char *verb, *usage;
	bool of_job;
	const char *wanted;     /* a job or a process; NULL: all */
	const char *url;        /* NULL: this node's daemon, as /etc/zernel.conf and the environment have it */
	const char *token_file; /* NULL: that of ZERNEL_TOKEN_FILE; without a URL, also that of /etc/zernel.conf */
};
/* Takes argv[at], and the next one if that is its value: how many that were, or -1 after a line on stderr. */
int zn_client_argument(struct zn_client_args *a, char **argv, int at);
/* Says on stderr, in one line, what is wrong with the arguments; returns the exit status, 2. */
int zn_client_misused(const struct zn_client_args *a, const char *what, const char *argument);
/* Initializes a client by its arguments: 0, or the exit status, 2, after a line on stderr. What is wrong with the
 * options of the node is one line of warning, and no failure. */
int zn_client_open(struct zn_client *c, const struct zn_client_args *a, const char *path, char *buffer);
/* These return 1 with a new answer, 0 while it is under way, -1 with c->why after a failure. Start it when it is not
 * busy; call step after each poll(), ready: poll() had something for zn_client_poll(). */
int zn_client_start(struct zn_client *c, uint64_t now_ns);
int zn_client_step(struct zn_client *c, bool ready, uint64_t now_ns);
struct pollfd zn_client_poll(const struct zn_client *c);
bool zn_client_busy(const struct zn_client *c);
int zn_client_ms_until(uint64_t when_ns); /* rounded up, for poll() */
int zn_client_get(struct zn_client *c);   /* waits for the answer: 0, or -1 */
/* Says on stderr, in one line, why there is no answer; returns the exit status, 1. */
int zn_client_complain(const struct zn_client *c, const char *verb);
bool zn_client_print(struct zn_str json); /* as a line of stdout. False: it cannot be written */
#endif

/* ---- cli/parameter.c (zn_parameter_): what client verbs ask for by the query of a path. ---- */

#ifdef ZN_IN_cli
#define ZN_PARAMETER_PATH 256
/* NULL: none is added. False: a value that cannot be. */
bool zn_parameter_add(char path[ZN_PARAMETER_PATH], const char *name, const char *value);
#endif

/* ---- cli/call.c (zn_call): one message to the daemon's control socket, and its answer. ---- */

enum zn_call_result { ZN_CALL_ANSWERED, ZN_CALL_REFUSED, ZN_CALL_UNANSWERED };
/* The caller fills in message, socket, deadline_ns, and text by zn_message_write(); fd is -1 before and after. */
struct zn_call {
	struct zn_message message;
	char socket[ZN_TEXT_MAX]; /* empty: there is none */
	uint64_t deadline_ns;
	int fd;
	char text[ZN_MESSAGE_BYTES];
	size_t len;
	char answer[ZN_ANSWER_BYTES + 1]; /* "ok", a line's end, and what was asked for */
	size_t answer_len;
	struct zn_moment said; /* for a message that is left as a file */
	char why[ZN_TEXT_MAX]; /* of what was refused or not answered */
};
/* False: the path of the socket is not absolute, or longer than an address may be (107 bytes, unix(7)). */
bool zn_call_at(struct zn_call *c, const char *path);
enum zn_call_result zn_call(struct zn_call *c);

/* ---- cli/term.c (zn_term_): what the client verbs write. ---- */

#ifdef ZN_IN_cli
enum zn_style {
	ZN_STYLE_PLAIN,
	ZN_STYLE_BOLD,
	ZN_STYLE_GOOD,
	ZN_STYLE_WARN,
	ZN_STYLE_BAD,
	ZN_STYLE_LOUD,
	ZN_STYLE_FAINT,
	ZN_STYLE_CAUSE, /* + enum zn_stall */
	ZN_STYLE_COUNT = ZN_STYLE_CAUSE + ZN_STALL_COUNT
};
/* Text on a grid of columns, gathered in out. Whatever is put, only characters that stay in their place get there. */
struct zn_term {
	struct zn_out out; /* a screen must fit; plain lines are written when it is half full */
	int cols;
	int rows;  /* 0: as many as it takes */
	int limit; /* no line is written from this one on */
	int row, col;
	int edge;    /* column that text must not pass */
	bool screen; /* redrawn in place; else lines of plain text */
	bool color;
	bool dim;  /* all of it is old */
	bool keys; /* standard input is a terminal, in raw mode while the screen is open */
};
void zn_term_measure(struct zn_term *t);     /* cols and rows, from the terminal or COLUMNS */
void zn_term_begin(struct zn_term *t);       /* an empty frame */
bool zn_term_flush(struct zn_term *t);       /* writes it; false with errno */
bool zn_term_able(void);                     /* TERM does not say that the cursor stays where it is */
void zn_term_open(struct zn_term *t);        /* from now on it is a screen of its own; standard output is a terminal */
void zn_term_enter(const struct zn_term *t); /* the same after somebody else had the terminal */
void zn_term_close(const struct zn_term *t); /* the terminal is as it was */
void zn_term_style(struct zn_term *t, enum zn_style style); /* of what follows, up to the end of the line */
void zn_term_put(struct zn_term *t, const char *text);      /* cut at the edge */
void zn_term_putf(struct zn_term *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text cut and filled up to a width; a negative one sets it against the right side. */
void zn_term_cell(struct zn_term *t, const char *text, int width);
void zn_term_end(struct zn_term *t); /* of the line */
/* A whole line of one style. */
void zn_term_line(struct zn_term *t, enum zn_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int zn_term_columns(const char *text);
/* The length of what fits into a line of so many columns, broken at a space where there is one. 0: text is empty. */
size_t zn_term_break(const char *text, int width);
bool zn_term_write(const char *at, size_t len); /* to standard output, all of it; false with errno */
#endif

/* ---- cli/status.c (zn_status_): the client verb `zernel status`. ---- */

/* `status [URL] [--token-file FILE]`, argv[0] being "status". Returns the exit status: 0 (the daemon is well), 1 (it is
 * not, or there is none), 2 (usage). */
int zn_status_main(int argc, char **argv);

/* ---- cli/why.c (zn_why_main): what the jobs of a node lose their time to, as plain lines. ---- */

int zn_why_main(int argc, char **argv);

/* ---- cli/flame.c (zn_flame_): the verb `flame`. ---- */

int zn_flame_main(int argc, char **argv);

/* ---- cli/hang.c (zn_hang_): the record of a hang as people read it. ---- */

#ifdef ZN_IN_cli
void zn_hang_page(struct zn_out *o, struct zn_str json);
#endif

/* ---- cli/health.c (zn_health_main): the client verb `zernel health`. ---- */

int zn_health_main(int argc, char **argv);

/* ---- cli/ghosts.c (zn_ghosts_main): the client verb `zernel ghosts`. ---- */

int zn_ghosts_main(int argc, char **argv);

/* ---- cli/job.c (zn_jobctl_): the client verb `zernel job`. ---- */

int zn_jobctl_main(int argc, char **argv); /* argv[0] is "job" */

/* ---- cli/annotate.c (zn_annotate_main): the client verb `zernel annotate`. ---- */

int zn_annotate_main(int argc, char **argv);

/* ---- cli/alerts.c (zn_alertctl_): the client verb `zernel alerts`. ---- */

/* argv[0] is "alerts". Returns the exit status: 0 (nothing is pending or firing), 1 (something is), 2 (usage, or a file
 * that is not what it must be, or no answer of a daemon). */
int zn_alertctl_main(int argc, char **argv);

/* ---- cli/watch_data.c (zn_watch_ zn_value_): the answer that `zernel watch` shows. ---- */

#ifdef ZN_IN_cli
#define ZN_WATCH_SAMPLES 60                 /* seconds of a sparkline */
#define ZN_WATCH_TRACKS  (2 * ZN_PROCS_MAX) /* so that all processes can change between two answers */
enum zn_watch_sort { ZN_SORT_PID, ZN_SORT_MEMORY, ZN_SORT_RATE, ZN_SORT_P99 };

struct zn_watch_row {
	struct zn_str process; /* in the answer on show */
	uint64_t pid;
	uint64_t memory;
	double rate;
	double p99;
	const struct zn_watch_track *track; /* NULL: none was free */
};

/* The files of a job on a mount. */
struct zn_watch_io_sum {
	struct zn_str io_sum; /* in the answer on show */
	double bytes;         /* per second */
	double ops;
};

/* Launches of one process; NAN where there was no answer. */
struct zn_watch_track {
	uint64_t pid;
	uint64_t launches;
	uint32_t seen; /* number of the last answer that had the process */
	float rate[ZN_WATCH_SAMPLES];
	float p99[ZN_WATCH_SAMPLES];
};

struct zn_watch {
	struct zn_client client;
	struct zn_term term;
	bool once;
	bool json;
	bool quit;
	bool dirty;
	int status;

	uint64_t next_ns;      /* of the next fetch */
	uint64_t answer_ns;    /* of the last answer */
	uint64_t fresh_ns;     /* of the last answer with new data */
	bool failed;           /* the last fetch */
	uint32_t answer_count; /* from 1: those with new data */
	struct zn_str snapshot;
	uint64_t data_ms; /* the daemon's time of the data */
	uint32_t head;    /* newest column of all tracks */

	struct zn_watch_row rows[ZN_PROCS_MAX];
	int row_count;
	int rows_left_out;
	struct zn_watch_io_sum io_sums[ZN_IO_SUMS_MAX]; /* the busiest first */
	int io_sum_count;
	enum zn_watch_sort sort;
	uint32_t view; /* of the table `views` */
	int top;       /* first line of the view that is shown */
	int fits;      /* lines that found room */
	int lines;     /* that the view has */
	int line;      /* while they are put */
	bool help;

	int signals;
	int escape; /* state of the parser of keys */
	char parameter;
	struct zn_watch_track tracks[ZN_WATCH_TRACKS];
};
extern char zn_watch_answers[2][ZN_CLIENT_BUFFER];
int zn_watch_at_least_one(int n);
/* Counts one more line of the view, and says whether it is on the screen. */
bool zn_watch_shows_line(struct zn_watch *w);
/* As many lines as it takes: a sentence whose end is missing may say something else. */
void zn_watch_put_wrapped(struct zn_watch *w, enum zn_style style, int indent, const char *text);
/* Takes the answer over and gives the client the other buffer, unless the answer holds nothing new. */
void zn_watch_take_answer(struct zn_watch *w, uint64_t now_ns);
void zn_watch_sort_rows(struct zn_watch *w);
bool zn_watch_is_idle(struct zn_str job, struct zn_str gpu);
bool zn_watch_is_held(struct zn_str stalls); /* it waits for a rank, whatever its calls wait for */
bool zn_watch_idle_gpus(struct zn_str job, char *to, size_t cap);
/* What an object of the answer has at a path, 0 or "-" where it has nothing. */
double zn_value_number(struct zn_str object, const char *path);
uint64_t zn_value_integer(struct zn_str object, const char *path);
uint64_t zn_value_seconds(struct zn_str object, const char *path);
const char *zn_value_text(struct zn_str object, const char *path, char to[ZN_UNITS_CELL]);
bool zn_value_is_false(struct zn_str object, const char *key);
double zn_value_launch_us(struct zn_str process, const char *recent, const char *all);
/* Over the members of a list or an object. */
double zn_value_sum(struct zn_str array, const char *key);
uint64_t zn_value_sum_integers(struct zn_str array, const char *key);
#endif

/* ---- cli/watch_panels.c (zn_panel_): the upper part of its screen. ---- */

#ifdef ZN_IN_cli
void zn_panel_header(struct zn_watch *w);
bool zn_panel_is_stale(const struct zn_watch *w, char to[256]);
void zn_panel_alert(struct zn_term *t, struct zn_str alert, const char *state);
void zn_panel_alerts(struct zn_watch *w);
/* "job 4711", of an entry of why; returns to, or another text. */
#define ZN_PANEL_JOB (ZN_UNITS_CELL + 8)
const char *zn_panel_job(struct zn_str why, char to[ZN_PANEL_JOB]);
void zn_panel_idle(struct zn_watch *w);
void zn_panel_gpus(struct zn_watch *w);
void zn_panel_ports(struct zn_watch *w);
void zn_panel_details(struct zn_watch *w);
void zn_panel_help(struct zn_term *t);
#endif

/* ---- cli/watch_jobs.c (zn_cards_): the jobs on top of its screen. ---- */

#ifdef ZN_IN_cli
void zn_cards_put(struct zn_watch *w);
size_t zn_cards_weight(struct zn_str job); /* of its state: 0 is the most trouble */
#define ZN_CARDS_STATES 12                 /* more than there are weights */
#endif

/* ---- cli/watch_cells.c (zn_cell_): cells of the tables of `zernel watch`. ---- */

#ifdef ZN_IN_cli
/* A column of a table, whose lines are objects of the snapshot. */
struct zn_column {
	const char *title;
	int width; /* the least; below 0: set against the right side */
	void (*text)(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]); /* NULL: a sparkline */
	const char *path;
	const char *
		count; /* what must be above 0 for the value to be one; of a sparkline, what must be known; of a sum, its member */
	int us; /* microseconds in one unit of the value */
	enum { ZN_COLUMN_OF_ITEM, ZN_COLUMN_OF_PROCESS } of;
	enum { ZN_COLUMN_ALWAYS, ZN_COLUMN_IF_KNOWN /* by some process */, ZN_COLUMN_IF_ROOM } when;
};
/* Each leaves the cell empty where the figure is not known. */
void zn_cell_text(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_count(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_duration(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_sum(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_launch(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_bytes(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_share(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_memory(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_gpus(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_idle(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_busy(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_peak(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_elapsed(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_nccl(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
void zn_cell_rank(struct zn_str object, const struct zn_column *c, char to[ZN_UNITS_CELL]);
#endif

/* ---- cli/watch_failed.c (zn_watch_failed): what failed of a process, and its thread that does not wake. ---- */

#ifdef ZN_IN_cli
void zn_watch_failed(struct zn_watch *w, struct zn_str process); /* a line of each that is there */
#endif

/* ---- cli/watch_serving.c (zn_serving_view_): the view of `zernel watch` on what is served. ---- */

#ifdef ZN_IN_cli
struct view;
void zn_serving_view_items(struct zn_watch *w, const struct view *v, const int *widths);
#endif

/* ---- cli/watch_views.c (zn_views_): the tables of its lower part, and what stands around them. ---- */

#ifdef ZN_IN_cli
void zn_views_body(struct zn_watch *w);
void zn_views_footer(struct zn_watch *w, bool table);
void zn_views_choose(struct zn_watch *w, int key);
void zn_views_next(struct zn_watch *w);
#endif

/* ---- cli/watch.c (zn_watch_main): the client verbs `zernel watch` and `zernel top`. ---- */

/* `watch [URL] [--token-file FILE] [--once] [--json]`, argv[0] being "watch", or "top", which begins with file I/O.
 * Runs until it is told to end and returns the exit status: 0, 1 (no daemon, or no usable answer at first), 2 (usage),
 * 128 + the signal that ended the view. The terminal is as it was. */
int zn_watch_main(int argc, char **argv);

/* ---- cli/verbs.c (zn_verbs_): the verbs of zernel. ---- */

int zn_verbs_run(int argc, char **argv); /* exit status */

/* ---- daemon/check.c (zn_service_): the limits of zerneld.service, under which --check looks. ---- */

#define ZN_SERVICE_CALLS 11 /* system calls that the start needs and that a filter may refuse */
struct zn_service {
	bool there; /* systemd runs, and knows it */
	uint64_t capabilities;
	uint64_t files;   /* it may open; 0: not said */
	uint32_t refused; /* system calls, by their place in a table of check.c */
	uint32_t options_count;
	char options[4][ZN_TEXT_MAX]; /* files with its options */
};
void zn_service_ask(struct zn_service *s);              /* runs systemctl */
void zn_service_read(struct zn_service *s, FILE *from); /* what `systemctl show` says */
/* Puts its options into the environment, but for those that are there. False: there are none to read. */
bool zn_service_options(const struct zn_service *s);

#ifdef ZN_IN_daemon
/* Limits this process to what the service has, for good. said: a line on it. */
void zn_service_limit(const struct zn_service *s, char said[ZN_TEXT_MAX]);
#endif

/* ---- daemon/diagnose.c (zn_diagnose_): --check and --list-probes. ---- */

/* What they try things with. All but the options is zero before. */
struct zn_diagnosis {
	const struct zn_options *options;
	struct zn_probe *probe;
	struct zn_sender *sender;
	struct zn_xids *xids;
};
/* Says family by family what this kernel and machine allow the service; 1 if something that was asked for cannot be
 * had. */
int zn_diagnose_node(struct zn_diagnosis *d, const struct zn_service *service);
int zn_diagnose_probes(
	struct zn_diagnosis *d); /* says which functions are hooked, and where those of libraries begin */

/* ---- daemon/systemd.c (zn_systemd_): what the daemon reports to systemd. ---- */

int zn_systemd_open(void); /* the socket of Type=notify; -1: there is none */
void zn_systemd_tell(int fd, const char *text);
bool zn_systemd_watches(void); /* whether it restarts a daemon that tells nothing for a while (WatchdogSec=) */

/* ---- daemon/announce.c (zn_announce_): what the log says once the daemon runs. ---- */

void zn_announce_families(const struct zn_options *o, const struct zn_probe *p); /* what is absent of them, and why */
void zn_announce_no_xids(const struct zn_options *o, int err);                   /* -errno of the kernel's log */
void zn_announce_serving(const struct zn_options *o, const struct zn_serve *s);  /* and probes are still loaded */
void zn_announce_ready(const struct zn_options *o, const struct zn_serve *s);

/* ---- daemon/confine.c (zn_confine_): which files the loop may read once it runs. ---- */

/* folder: of the writer. Where the kernel cannot do it, the log says so. Threads that run already are not confined. */
void zn_confine_loop(const struct zn_options *o, const char *const folder[ZN_DIRECTORY_COUNT]);

/* ---- daemon/tick.c (zn_daemon_): what the daemon does on each tick. ---- */

#if defined(ZN_IN_daemon) || defined(ZN_IN_main)
/* All that the daemon has; zerneld.c opens and closes it. */
struct zn_daemon {
	struct zn_options options;
	struct zn_loop loop;
	struct zn_probe probe;
	struct zn_find *find;
	struct zn_stacks *stacks;
	struct zn_walker *walker;
	struct zn_naming naming;
	struct zn_sim sim;
	struct zn_agg agg;
	struct zn_counter_rates rates;
	struct zn_progress progress;
	struct zn_ranks ranks;
	struct zn_stopped stopped;
	struct zn_blocked blocked;
	struct zn_activity activity;
	struct zn_budget budget;
	struct zn_flights flights;
	struct zn_io activity_look;
	bool looks; /* that timer runs: somebody has used a GPU */
	struct zn_jobs_progress jobs_progress;
	struct zn_startup startup;
	struct zn_checkpoints checkpoints;
	struct zn_causes causes;
	struct zn_suspicions suspicions;
	struct zn_requests requests;
	struct zn_servings servings;
	struct zn_joined joined;
	struct zn_annotations annotations;
	struct zn_alerts alerts;
	struct zn_jobs jobs;
	struct zn_job_uses uses;
	struct zn_hardware hardware;
	struct zn_energies energies;
	struct zn_fabric fabric;
	struct zn_gauge gauge;
	struct zn_io_sums io_sums;
	struct zn_xids xids;
	struct zn_ooms ooms;
	struct zn_ghosts ghosts;
	struct zn_writer writer;
	struct zn_sender sender;
	struct zn_notify notify;
	struct zn_export export;
	char spool[ZN_TEXT_MAX];
	const char *folder[ZN_DIRECTORY_COUNT]; /* of the writer */
	struct zn_control *control;
	struct zn_history *history;
	struct zn_latency *latency;
	struct zn_slowness *slowness;
	struct zn_baselines *baselines;
	struct zn_serve serve;
	struct zn_state state;
	struct zn_io signals, tick, ring, sim_step, hang, loaded;
	pthread_t loader;
	bool loads;   /* that thread runs, or has ended and was not joined */
	int load_err; /* what it ended with */
	int err;      /* why the loop has ended, if by itself; in words: */
	char why[ZN_TEXT_MAX];
	bool misconfigured; /* the start fails by an option, or a file that one names */
	int watchdog_fd;  /* systemd's socket, to which each tick says that the daemon is well; -1: it does not watch */
	int log_err;      /* -errno: the kernel's log cannot be read */
	bool exits;       /* a process has gone since the last refresh */
	bool hang_logged; /* the change of probes that hangs is in the log */
	bool series;      /* one of file I/O was made: it gets its name while that is right */
};
#define ZN_DAEMON_OF(io, member) ((struct zn_daemon *)((char *)(io) - __builtin_offsetof(struct zn_daemon, member)))
void zn_daemon_on_tick(struct zn_io *io, uint32_t events);
void zn_daemon_find_gpus(struct zn_daemon *d); /* drivers may be loaded by the first process that needs them */

/* ---- daemon/live.c (zn_live_): the kernel's tables at once, and the programs while the loop answers clients. ---- */

int zn_live_open(struct zn_daemon *d, char why[ZN_TEXT_MAX]);
/* Starts the thread that does the rest. d->loaded is ready when it is over: take() ends it, and makes what it opened
 * the daemon's; -errno with *why. close() may be called at any time. */
int zn_live_load(struct zn_daemon *d, char why[ZN_TEXT_MAX]);
int zn_live_take(struct zn_daemon *d, char why[ZN_TEXT_MAX]);
void zn_live_close(struct zn_daemon *d);
#endif

/* ---- zerneld.c (zn_ready): main: parses, opens in order, runs the loop, closes. ---- */

extern bool zn_ready; /* true while the loop runs: nothing is allocated then */

#endif /* !__bpf__ */
#endif
