/* SPDX-License-Identifier: GPL-2.0 */
/*
 * nccl.c: a libnccl.so.2 without a network, for tests: the real names and arguments; nothing is sent. As in
 * the real library, each ncclX is a weak alias of pncclX. Calls return at once unless a knob says otherwise.
 *
 * Knobs, set by fake_nccl_set(name, value): see knobs[]; and "fail_next", for the calling thread alone: its
 * next call does nothing and returns this ncclResult_t. fake_nccl_calls("pncclX") tells how often a function
 * was called.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "api.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* the arguments are the vendor's */

#define EXPORT    __attribute__((visibility("default"), noinline))
#define COMMS_MAX 4096

#define LATER_MAX 32

enum result { OK = 0, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };

#define DECLARE(name, args)                                                                                            \
	EXPORT int pnccl##name args;                                                                                   \
	EXPORT __attribute__((weak, alias("pnccl" #name))) int nccl##name args;
NCCL_CALLS(DECLARE)
EXPORT int fake_nccl_set(const char *what, long value);
EXPORT long fake_nccl_calls(const char *symbol);

#define NUMBER(name, args) CALL_##name,
#define NAME(name, args)   "pnccl" #name,
enum call { NCCL_CALLS(NUMBER) CALL_COUNT };
static const char *const call_name[] = {NCCL_CALLS(NAME)};
static atomic_long call_count[CALL_COUNT];

struct comm {
	bool live;
	int rank;
	int nranks;
	int device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct comm comms[COMMS_MAX];
static atomic_uint id_count;
static atomic_long coll_ns, coll_sleep_us, init_sleep_us, end_sleep_us, group_sleep_us, group_call, split_nranks,
	no_wait;
static __thread int group_depth;
static __thread int fail_next;
/* made by the group at hand: where their addresses go when it ends */
static __thread struct {
	void **to, *comm;
} later[LATER_MAX];
static __thread int later_count;

static const struct knob {
	const char *name;
	atomic_long *value;
} knobs[] = {
	{"coll_ns", &coll_ns},               /* spin in each collective, send and receive */
	{"coll_sleep_us", &coll_sleep_us},   /* sleep there */
	{"init_sleep_us", &init_sleep_us},   /* sleep where a communicator is made */
	{"end_sleep_us", &end_sleep_us},     /* sleep where one is destroyed or aborted */
	{"group_sleep_us", &group_sleep_us}, /* sleep in the outermost ncclGroupEnd */
	{"group_call", &group_call},         /* address of a function of a pointer, which that calls before: 0, none */
	{"no_wait", &no_wait}, /* those made of others are of the kind that does not wait: their address never comes */
	{"split_nranks", &split_nranks}, /* ranks of a communicator made by ncclCommSplit; 0: as many as its parent */
};
#define KNOB_COUNT (sizeof(knobs) / sizeof(knobs[0]))

int fake_nccl_set(const char *what, long value)
{
	size_t i;

	if (!strcmp(what, "fail_next")) {
		fail_next = (int)value;
		return 0;
	}
	for (i = 0; i < KNOB_COUNT; i++)
		if (!strcmp(what, knobs[i].name)) {
			atomic_store(knobs[i].value, value);
			return 0;
		}
	return -1;
}

long fake_nccl_calls(const char *symbol)
{
	int i;

	for (i = 0; i < CALL_COUNT; i++)
		if (!strcmp(symbol, call_name[i]))
			return atomic_load(&call_count[i]);
	return -1;
}

/* Counts the call; OK, or what it shall return without doing anything. */
static int enter(enum call call)
{
	int err = fail_next;

	atomic_fetch_add_explicit(&call_count[call], 1, memory_order_relaxed);
	fail_next = OK;
	return err;
}

static int enter_with_comm(enum call call, const void *comm)
{
	const struct comm *c = comm;
	int err = enter(call);

	if (err)
		return err;
	return c >= comms && c < comms + COMMS_MAX && c->live ? OK : INVALID_ARGUMENT;
}

static void spin(long ns)
{
	struct timespec start, t;

	if (ns <= 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &t);
	while ((t.tv_sec - start.tv_sec) * 1000000000L + t.tv_nsec - start.tv_nsec < ns);
}

static void sleep_us(long us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	if (us > 0)
		nanosleep(&t, NULL);
}

static int communicate(enum call call, const void *comm)
{
	int err = enter_with_comm(call, comm);

	if (err)
		return err;
	spin(coll_ns);
	sleep_us(coll_sleep_us);
	return OK;
}

static int make_comm(void **comm, struct comm made)
{
	int i = 0;

	if (made.nranks < 1 || made.rank < 0 || made.rank >= made.nranks)
		return INVALID_ARGUMENT;
	made.live = true;
	pthread_mutex_lock(&lock);
	while (i < COMMS_MAX && comms[i].live)
		i++;
	if (i < COMMS_MAX)
		comms[i] = made;
	pthread_mutex_unlock(&lock);
	if (i == COMMS_MAX)
		return INTERNAL_ERROR;
	*comm = &comms[i];
	return OK;
}

/* Of another one. As in the real library its address is there once it is made, which within a group is at its end. */
static int make_of(void **comm, struct comm made)
{
	void *address = NULL;
	int err = make_comm(&address, made);

	*comm = NULL;
	if (err)
		return err;
	if (no_wait)
		return IN_PROGRESS;
	if (!group_depth)
		*comm = address;
	else if (later_count == LATER_MAX)
		return INTERNAL_ERROR;
	else {
		later[later_count].to = comm;
		later[later_count++].comm = address;
	}
	return OK;
}

static int init_rank(enum call call, void **comm, int nranks, int rank)
{
	int err = enter(call);

	if (err)
		return err;
	sleep_us(init_sleep_us);
	return make_comm(comm, (struct comm){.rank = rank, .nranks = nranks});
}

int pncclGetUniqueId(struct nccl_id *id)
{
	int err = enter(CALL_GetUniqueId);
	unsigned n = ++id_count;

	if (err)
		return err;
	memset(id, 0x5e, sizeof(*id));
	memcpy(id->bytes, &n, sizeof(n));
	return OK;
}

int pncclCommInitRank(void **comm, int nranks, struct nccl_id id, int rank)
{
	return init_rank(CALL_CommInitRank, comm, nranks, rank);
}

int pncclCommInitRankConfig(void **comm, int nranks, struct nccl_id id, int rank, void *config)
{
	return init_rank(CALL_CommInitRankConfig, comm, nranks, rank);
}

int pncclCommInitRankScalable(void **comm, int nranks, int rank, int ids_given, struct nccl_id *ids, void *config)
{
	return init_rank(CALL_CommInitRankScalable, comm, nranks, rank);
}

int pncclCommInitAll(void **made, int device_count, const int *devices)
{
	int err = enter(CALL_CommInitAll), i;

	sleep_us(err ? 0 : init_sleep_us);
	for (i = 0; !err && i < device_count; i++)
		err = make_comm(
			&made[i], (struct comm){.rank = i, .nranks = device_count, .device = devices ? devices[i] : i});
	return err;
}

int pncclCommSplit(void *comm, int color, int key, void **new_comm, void *config)
{
	const struct comm *parent = comm;
	int err = enter_with_comm(CALL_CommSplit, comm), nranks;

	if (err)
		return err;
	*new_comm = NULL;
	if (color < 0)
		return OK;
	sleep_us(init_sleep_us);
	nranks = split_nranks > 0 ? (int)split_nranks : parent->nranks;
	return make_of(
		new_comm, (struct comm){.rank = parent->rank % nranks, .nranks = nranks, .device = parent->device});
}

static int tell(enum call call, const void *comm, const int *from, int *to)
{
	int err = enter_with_comm(call, comm);

	if (!err)
		*to = *from;
	return err;
}

int pncclCommUserRank(void *comm, int *rank)
{
	return tell(CALL_CommUserRank, comm, &((struct comm *)comm)->rank, rank);
}

int pncclCommCount(void *comm, int *count)
{
	return tell(CALL_CommCount, comm, &((struct comm *)comm)->nranks, count);
}

int pncclCommCuDevice(void *comm, int *device)
{
	return tell(CALL_CommCuDevice, comm, &((struct comm *)comm)->device, device);
}

int pncclCommFinalize(void *comm)
{
	return enter_with_comm(CALL_CommFinalize, comm);
}

static int end_comm(enum call call, struct comm *comm)
{
	int err = enter_with_comm(call, comm);

	if (err)
		return err;
	sleep_us(end_sleep_us);
	pthread_mutex_lock(&lock);
	comm->live = false;
	pthread_mutex_unlock(&lock);
	return OK;
}

int pncclCommDestroy(void *comm)
{
	return end_comm(CALL_CommDestroy, comm);
}

int pncclCommAbort(void *comm)
{
	return end_comm(CALL_CommAbort, comm);
}

int pncclGroupStart(void)
{
	int err = enter(CALL_GroupStart);

	if (!err)
		group_depth++;
	return err;
}

int pncclGroupEnd(void)
{
	int (*call)(void *) = (int (*)(void *))group_call;
	int err = enter(CALL_GroupEnd);

	if (err)
		return err;
	if (group_depth == 0)
		return INVALID_USAGE;
	if (--group_depth)
		return OK;
	if (call)
		call(NULL);
	sleep_us(group_sleep_us);
	while (later_count) {
		later_count--;
		*later[later_count].to = later[later_count].comm;
	}
	return OK;
}

int pncclBcast(void *at, size_t count, int type, int root, void *comm, void *stream)
{
	int err = enter(CALL_Bcast);

	return err ? err : ncclBroadcast(at, at, count, type, root, comm, stream);
}

int pncclReduce(const void *from, void *to, size_t count, int type, int op, int root, void *comm, void *stream)
{
	return communicate(CALL_Reduce, comm);
}

int pncclSend(const void *at, size_t count, int type, int peer, void *comm, void *stream)
{
	return communicate(CALL_Send, comm);
}

int pncclRecv(void *at, size_t count, int type, int peer, void *comm, void *stream)
{
	return communicate(CALL_Recv, comm);
}

/* Calls that differ in their names and arguments only. */
#define COLLECTIVE(name, args)                                                                                         \
	int pnccl##name args                                                                                           \
	{                                                                                                              \
		return communicate(CALL_##name, comm);                                                                 \
	}
COLLECTIVE(AllReduce, REDUCE_ARGS)
COLLECTIVE(ReduceScatter, REDUCE_ARGS)
COLLECTIVE(Broadcast, ROOT_ARGS)
COLLECTIVE(Gather, ROOT_ARGS)
COLLECTIVE(Scatter, ROOT_ARGS)
COLLECTIVE(AllGather, GATHER_ARGS)
COLLECTIVE(AlltoAll, GATHER_ARGS)
COLLECTIVE(AllToAll, GATHER_ARGS)

int pncclPutSignal(const void *at, size_t count, int type, int peer, void *window, size_t offset, int sent, int ctx,
	unsigned flags, void *comm, void *stream)
{
	return communicate(CALL_PutSignal, comm);
}

int pncclSignal(int peer, int sent, int ctx, unsigned flags, void *comm, void *stream)
{
	return communicate(CALL_Signal, comm);
}

int pncclWaitSignal(int count, void *signals, void *comm, void *stream)
{
	return communicate(CALL_WaitSignal, comm);
}

int pncclCommWindowRegister(void *comm, void *at, size_t bytes, void **window, int flags)
{
	return communicate(CALL_CommWindowRegister, comm);
}

int pncclCommShrink(void *comm, int *excluded, int count, void **new_comm, void *config, int flags)
{
	const struct comm *parent = comm;
	int err = enter_with_comm(CALL_CommShrink, comm);

	if (err)
		return err;
	return make_of(new_comm,
		(struct comm){.rank = parent->rank % (parent->nranks - count),
			.nranks = parent->nranks - count,
			.device = parent->device});
}

/* A rank that is new has no communicator yet. */
int pncclCommGrow(void *comm, int nranks, const struct nccl_id *id, int rank, void **new_comm, void *config)
{
	const struct comm *parent = comm;
	int err = parent ? enter_with_comm(CALL_CommGrow, comm) : enter(CALL_CommGrow);

	if (err)
		return err;
	return make_of(new_comm, (struct comm){.rank = parent ? parent->rank : rank, .nranks = nranks});
}

int pncclCommSuspend(void *comm, int flags)
{
	return communicate(CALL_CommSuspend, comm);
}

int pncclCommResume(void *comm)
{
	return communicate(CALL_CommResume, comm);
}

int pncclGroupSimulateEnd(void *info)
{
	int err = enter(CALL_GroupSimulateEnd);

	if (err || group_depth == 0)
		return err ? err : INVALID_USAGE;
	group_depth--;
	return OK;
}
