/* SPDX-License-Identifier: GPL-2.0 */
/*
 * files.c: files of the simulated node: what a rank does to them, and what the node does that is of no job.
 */
#include "zernel.h"

#define GIB        (1ULL << 30)
#define MIB        (1ULL << 20)
#define READ_TIMES 25 /* of workers that wait for a file system */

enum disk { ROOT, HOME, SCRATCH };
static const struct {
	uint32_t dev;
	const char *point, *fstype;
} disks[] = {
	[ROOT] = {259 << 20 | 2, "/", "ext4"}, [HOME] = {51, "/home", "nfs4"}, [SCRATCH] = {62, "/scratch", "lustre"}};

static const struct file_event {
	enum zn_io_op op;
	enum disk disk;
	uint32_t every_ms, calls;
	uint64_t middle_ns, bytes; /* of one call */
	bool fails;
} file_events[] =
	{
		{ZN_IO_READ, SCRATCH, 200, 11, 2400000, 7 * MIB, false},
		{ZN_IO_OPEN, SCRATCH, 1000, 2, 350000, 0, false},
		{ZN_IO_STAT, SCRATCH, 500, 3, 120000, 0, false},
		{ZN_IO_READ, HOME, 5000, 1, 420000, 8192, false},
		{ZN_IO_STAT, HOME, 5000, 1, 260000, 0, true},
		{ZN_IO_WRITE, HOME, 10000, 1, 900000, 4096, false},
		{ZN_IO_READ, ROOT, 1000, 3, 6000, 16384, false},
		{ZN_IO_MMAP, ROOT, 2000, 1, 90000, 131072, false},
},
  checkpoint_events[] =
	  {
		  {ZN_IO_CREATE, SCRATCH, ZN_SIM_CHECKPOINT_MS, 1, 800000, 0, false},
		  {ZN_IO_WRITE, SCRATCH, 100, 2, 11000000, 16 * MIB, false},
		  {ZN_IO_FSYNC, SCRATCH, ZN_SIM_CHECKPOINT_MS, 1, 180000000, 0, false},
		  {ZN_IO_RENAME, SCRATCH, ZN_SIM_CHECKPOINT_MS, 1, 700000, 0, false},
},
  node_events[] = {
	  {ZN_IO_WRITE, ROOT, 1000, 4, 15000, 700, false},
	  {ZN_IO_FSYNC, ROOT, 5000, 1, 2100000, 0, false},
};

static bool reads_slowly(const struct zn_sim *s, const struct zn_proc *p, const struct file_event *ev)
{
	bool of_job = false;

	for (uint32_t rank = ZN_SIM_JOB_RANKS; p && rank < ZN_SIM_RANKS; rank++)
		of_job |= s->rank[rank] == p;
	return of_job && s->phase == ZN_SCENARIO_SLOW_FILES && ev->op == ZN_IO_READ && ev->disk == SCRATCH;
}

/* Random numbers of their own, so that what is done to files changes nothing else. */
static void file_happen(struct zn_sim *s, struct zn_proc *p, const struct file_event *ev)
{
	struct zn_io_key key = {.dev = disks[ev->disk].dev, .op = ev->op};
	uint64_t times = reads_slowly(s, p, ev) ? READ_TIMES : 1;

	if (p)
		key.job = p->job;
	for (uint32_t i = 0; i < ev->calls; i++) {
		struct zn_hist *h =
			zn_memory_io(&s->memory, &key, times * zn_random_around(&s->file_state, ev->middle_ns));

		if (h) {
			h->bytes += ev->bytes;
			h->errors += ev->fails;
		}
	}
	if (p && (ev->op == ZN_IO_READ || ev->op == ZN_IO_WRITE)) {
		p->count[ZN_C_IO_READ_BYTES + ev->op] += ev->calls * ev->bytes;
		p->count[ZN_C_IO_READ_CALLS + ev->op] += ev->calls;
	}
}

static void files_run(struct zn_sim *s, struct zn_proc *p, uint32_t late_ms, const struct file_event *ev, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((s->elapsed_ms + late_ms) % ev[i].every_ms == 0)
			file_happen(s, p, &ev[i]);
}

void zn_sim_files_work(struct zn_sim *s, uint32_t rank)
{
	files_run(s, s->rank[rank], rank * ZN_SIM_STAGGER_MS, file_events, ZN_LEN(file_events));
}

void zn_sim_files_checkpoint(struct zn_sim *s, uint32_t rank)
{
	files_run(s, s->rank[rank], 0, checkpoint_events, ZN_LEN(checkpoint_events));
}

void zn_sim_files_node(struct zn_sim *s)
{
	files_run(s, NULL, 0, node_events, ZN_LEN(node_events));
}

void zn_sim_mounts(struct zn_mounts *to)
{
	for (size_t i = 0; i < ZN_LEN(disks); i++)
		zn_mounts_fix(to, disks[i].dev, disks[i].point, disks[i].fstype);
}
