/* SPDX-License-Identifier: GPL-2.0 */
/*
 * driver_nccl.c: communicators and operations of NCCL.
 */
#include "driver.h"

/* NCCL: what is common to all operations. `variant` tells apart calls that count as the same one. */
static int do_op(enum op op, size_t count, int type, void *comm, int variant)
{
	switch (op) {
	case ALL_REDUCE: return nccl.AllReduce(buffer, buffer, count, type, 0, comm, NULL);
	case BROADCAST:
		return variant % 2 ? nccl.Bcast(buffer, count, type, 0, comm, NULL)
				   : nccl.Broadcast(buffer, buffer, count, type, 0, comm, NULL);
	case ALL_GATHER: return nccl.AllGather(buffer, buffer, count, type, comm, NULL);
	case REDUCE_SCATTER: return nccl.ReduceScatter(buffer, buffer, count, type, 0, comm, NULL);
	case REDUCE: return nccl.Reduce(buffer, buffer, count, type, 0, 0, comm, NULL);
	case ALL_TO_ALL: return (variant % 2 ? nccl.AllToAll : nccl.AlltoAll)(buffer, buffer, count, type, comm, NULL);
	case GATHER: return nccl.Gather(buffer, buffer, count, type, 0, comm, NULL);
	case SCATTER: return nccl.Scatter(buffer, buffer, count, type, 0, comm, NULL);
	case SEND: return nccl.Send(buffer, count, type, 0, comm, NULL);
	default: return nccl.Recv(buffer, count, type, 0, comm, NULL);
	}
}

static const int type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

/* A failing call has 0 elements, so that the bytes do not depend on whether failures count. */
static void one_op(enum op op, const struct comm *c, int i, int want)
{
	size_t count = want && want != 7 ? 0 : 1009 + (size_t)i;
	int type = i % (int)COUNT(type_bytes);
	struct nccl_op *to = &did.op[op];

	if (want)
		nccl.set("fail_next", want);
	must(do_op(op, count, type, c->comm, want ? 0 : i), want, op_name[op]);
	to->calls++;
	to->errors += want && want != 7;
	to->bytes += count * (size_t)type_bytes[type] * (op == ALL_TO_ALL ? (size_t)c->nranks : 1);
}

struct comm *made(void *comm, int rank, int nranks)
{
	struct comm *c = &did.comms[did.comm_count++];

	must(did.comm_count <= COMMS_MAX, 1, "having room for communicators");
	*c = (struct comm){comm, rank, nranks};
	return c;
}

static void forget(struct comm *c)
{
	*c = did.comms[--did.comm_count];
}

static struct comm *join_world(void)
{
	struct nccl_id id;
	void *comm = NULL;

	must(nccl.GetUniqueId(&id), 0, "ncclGetUniqueId");
	must(nccl.CommInitRank(&comm, 4, id, opt.rank), 0, "ncclCommInitRank");
	did.comm_inits++;
	return made(comm, opt.rank, 4);
}

static void join_others(void)
{
	static const int devices[] = {0, 1, 2};
	void *comm = NULL, *all[3];
	struct nccl_id id;
	int i;

	must(nccl.GetUniqueId(&id), 0, "ncclGetUniqueId");
	must(nccl.CommInitRankConfig(&comm, 8, id, 5, NULL), 0, "ncclCommInitRankConfig");
	made(comm, 5, 8);
	must(nccl.CommInitRankScalable(&comm, 16, 11, 1, &id, NULL), 0, "ncclCommInitRankScalable");
	made(comm, 11, 16);
	must(nccl.CommInitAll(all, 3, devices), 0, "ncclCommInitAll");
	for (i = 0; i < 3; i++)
		made(all[i], i, 3);
	must(nccl.CommInitRank(&comm, 2, id, 2), 4, "ncclCommInitRank of a wrong rank");
	did.comm_inits += 4;
}

static void split(const struct comm *parent)
{
	int rank = -1, count = -1, device = -1;
	void *comm = NULL;

	nccl.set("split_nranks", 2);
	must(nccl.CommSplit(parent->comm, 1, 0, &comm, NULL), 0, "ncclCommSplit");
	must(nccl.CommUserRank(comm, &rank), 0, "ncclCommUserRank");
	must(nccl.CommCount(comm, &count), 0, "ncclCommCount");
	must(nccl.CommCuDevice(comm, &device), 0, "ncclCommCuDevice");
	made(comm, rank, count);
	must(nccl.CommSplit(parent->comm, -1, 0, &comm, NULL), 0, "ncclCommSplit without a color");
	must(comm == NULL, 1, "ncclCommSplit's communicator");
	did.comm_splits += 2;
}

static void nested_groups(const struct comm *c)
{
	int i, k;

	for (i = 0; i < 5; i++, did.groups++) {
		must(nccl.GroupStart(), 0, "ncclGroupStart");
		for (k = 0; k < 3; k++)
			one_op(SEND, c, k, 0);
		must(nccl.GroupStart(), 0, "ncclGroupStart");
		for (k = 0; k < 3; k++)
			one_op(RECV, c, k, 0);
		must(nccl.GroupEnd(), 0, "ncclGroupEnd");
		must(nccl.GroupEnd(), 0, "ncclGroupEnd");
	}
}

void run_nccl(void)
{
	static const int counts[OPS] = {98, 60, 54, 47, 43, 37, 31, 29, 2, 8};
	struct comm *world;
	int op, i;

	if (!nccl.set)
		die("nccl", "needs --nccl");
	use_gpu(0);
	world = join_world();
	for (op = 0; op < OPS; op++)
		for (i = 0; i < counts[op]; i++)
			one_op((enum op)op, world, i, 0);
	for (i = 0; i < 3; i++)
		one_op(ALL_REDUCE, world, i, 5);
	one_op(BROADCAST, world, 0, 1);
	for (i = 0; i < 5; i++)
		one_op(ALL_GATHER, world, i, 7);
	nested_groups(world);
	join_others();
	split(world);
	must(nccl.CommFinalize(did.comms[1].comm), 0, "ncclCommFinalize");
	must(nccl.CommDestroy(did.comms[1].comm), 0, "ncclCommDestroy");
	forget(&did.comms[1]);
	must(nccl.CommAbort(did.comms[2].comm), 0, "ncclCommAbort");
	did.comm_aborts++;
	forget(&did.comms[2]);
}
