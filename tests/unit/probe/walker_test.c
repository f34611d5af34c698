/* SPDX-License-Identifier: GPL-2.0 */
/*
 * walker_test.c: a process that finds no room among those whose stacks are kept is said to have none, and gets it once
 * there is. The kernel's tables are files in memory, and who is asked for Python is a stand-in.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define PATIENCE_MS 60000
#define USER        1000u

static struct zn_probe probe;
static struct zn_memory_arena memory;
static struct zn_naming naming;
static struct zn_stacks *stacks;
static struct zn_walker *walker;

int zn_naming_find(
	struct zn_naming *n, const struct zn_naming_of *of, struct zn_python_process *to, char why[ZN_TEXT_MAX])
{
	(void)n, (void)why;
	*to = (struct zn_python_process){.pid = of->pid, .minor = 12};
	return 0;
}

int zn_naming_ask(
	struct zn_naming *n, const struct zn_naming_of *of, const struct zn_python_process *p, const struct zn_stack *s)
{
	(void)n, (void)of, (void)p, (void)s;
	return -ESRCH;
}

struct zn_naming_frame zn_naming_frame(const struct zn_naming *n, uint32_t i)
{
	(void)n, (void)i;
	return (struct zn_naming_frame){0};
}

int zn_naming_native(struct zn_naming *n, const struct zn_naming_of *of, const struct zn_native *copied, bool python,
	struct zn_native_stack *to)
{
	(void)n, (void)of, (void)copied, (void)python, (void)to;
	return -ESRCH;
}

bool zn_naming_waits(struct zn_naming *n, uint32_t owner)
{
	(void)n, (void)owner;
	return false;
}

uint32_t zn_naming_held(const struct zn_naming *n)
{
	(void)n;
	return 0;
}

void zn_reader_hang_up(struct zn_reader *r)
{
	(void)r;
}

static int table_of(const char *name, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	return fd;
}

/* One process, of this test's own id. Its row. */
static uint32_t begin(void)
{
	struct zn_proc *proc;
	uint32_t row;

	CHECK_EQ(zn_memory_open(&memory), 0);
	CHECK_EQ(zn_stacks_open(&stacks), 0);
	proc = zn_memory_claim(&memory, (uint32_t)getpid(), "train");
	proc->owner = USER;
	row = (uint32_t)(proc - memory.arena.procs);
	memory.arena.proc_mapped[row / 8] |= 1u << row % 8;
	probe.arena = memory.arena;
	probe.natives_fd = -1;
	for (size_t i = 0; i < ZN_WALKER_COUNT; i++)
		probe.walker_fd[i] = -1;
	probe.map_fd[ZN_MAP_PYTHONS] = table_of("pythons", sizeof(struct zn_python) * ZN_PROCS_MAX);
	probe.map_fd[ZN_MAP_STACKS] = table_of("stacks", sizeof(struct zn_stack) * ZN_STACKS_MAX);
	return row;
}

/* What other processes of that user take; the last one. */
static uint32_t fill(void)
{
	struct zn_stacks_root who = {.owner = USER};
	uint32_t at = 0, last = ZN_STACKS_NO_ROOT;

	for (uint32_t id = 100000; last == ZN_STACKS_NO_ROOT || at != ZN_STACKS_NO_ROOT; id++) {
		who.pid = who.id = id;
		at = zn_stacks_root(stacks, &who, ZN_NS_PER_S);
		last = at == ZN_STACKS_NO_ROOT ? last : at;
	}
	return last;
}

/* Whether its Python is shown, or why it is not, within some time. */
static bool is_shown(uint32_t row, bool python)
{
	uint32_t id = memory.arena.procs[row].id;
	char why[ZN_TEXT_MAX] = "";

	for (int ms = 0; ms < PATIENCE_MS; ms += 20) {
		uint8_t minor = zn_walker_python(walker, row, id, why);

		if (python ? minor == 12 && !why[0] : !minor && strstr(why, "as there is room for"))
			return true;
		usleep(20000);
	}
	return false;
}

static uint64_t lost(void)
{
	return __atomic_load_n(&memory.arena.shared->lost[ZN_LOST_STACK], __ATOMIC_RELAXED);
}

/* So many waits for the GPU that are not looked at. */
static void wait_for_gpu(uint32_t row, uint64_t count)
{
	struct zn_python *rows = mmap(NULL, sizeof(*rows) * ZN_PROCS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED,
		probe.map_fd[ZN_MAP_PYTHONS], 0);

	CHECK(rows != MAP_FAILED);
	__atomic_fetch_add(&rows[row].all[ZN_LEAF_GPU].count, count, __ATOMIC_RELAXED);
	munmap(rows, sizeof(*rows) * ZN_PROCS_MAX);
}

T(a_process_without_room_gets_it_later)
{
	uint32_t row = begin(), last = fill();

	CHECK_EQ(zn_walker_open(&walker, &probe, stacks, &naming), 0);
	CHECK_EQ(zn_walker_start(walker), 0);
	CHECK(is_shown(row, false));
	wait_for_gpu(row, 17);
	for (int ms = 0; ms < PATIENCE_MS && lost() < 17; ms += 20)
		usleep(20000);
	CHECK_EQ(lost(), 17);
	zn_stacks_lock(stacks);
	zn_stacks_root_at(stacks, last)->ended_ns = zn_now_ns();
	zn_stacks_unlock(stacks);
	CHECK(is_shown(row, true));
	zn_stacks_lock(stacks);
	CHECK_EQ(zn_stacks_root_at(stacks, last)->pid, getpid()); /* in the place of the one that ended */
	zn_stacks_unlock(stacks);
	wait_for_gpu(row, 5);
	usleep(2500000);
	CHECK_EQ(lost(), 17);
	zn_walker_close(walker);
}

int main(void)
{
	RUN(a_process_without_room_gets_it_later);
	zn_stacks_close(stacks);
	zn_memory_close(&memory);
	return t_end();
}
