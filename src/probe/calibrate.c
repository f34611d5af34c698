/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Measures what our own probes add to a call, on functions of this program that do nothing, and finds on the way how
 * libraries can be hooked on this kernel.
 */
#include "zernel.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Functions that do nothing; they differ in their first instruction, by enum zn_insn. */
void zn_calib_nop(void);
void zn_calib_push(void);
void zn_calib_landing(void);
void zn_calib_other(void);
void zn_calib_branch(void);
void zn_calib_long_nop(void);
static void (*const calib[ZN_INSN_COUNT])(void) = {
	zn_calib_nop, zn_calib_push, zn_calib_landing, zn_calib_other, zn_calib_branch, zn_calib_long_nop};

#define FUNCTION(name, body) ".globl " name "\n.type " name ",%function\n.balign 16\n" name ":\n\t" body "\n\tret\n"
#ifdef __x86_64__
__asm__(".text\n" FUNCTION("zn_calib_nop", "nop") FUNCTION("zn_calib_push", "push %rbx\n\tpop %rbx")
		FUNCTION("zn_calib_landing", "endbr64") FUNCTION("zn_calib_other", "xor %eax,%eax")
			FUNCTION("zn_calib_branch", "je 1f\n1:")
				FUNCTION("zn_calib_long_nop", ".byte 0x0f,0x1f,0x44,0x00,0x00"));
#else
__asm__(".text\n" FUNCTION("zn_calib_nop", "nop") FUNCTION(
	"zn_calib_push", "stp x29,x30,[sp,#-16]!\n\tldp x29,x30,[sp],#16") FUNCTION("zn_calib_landing", "hint #34")
		FUNCTION("zn_calib_other", "mov w0,#0") FUNCTION("zn_calib_branch", "b 1f\n1:")
			FUNCTION("zn_calib_long_nop", "nop")); /* x86's alone */
#endif

/* File offset of an address of this program, from its own map; 0 if it is not there. */
static uint64_t self_offset(uintptr_t addr)
{
	unsigned long from, to, offset;
	char line[512];
	uint64_t found = 0;
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && !found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 && addr >= from && addr < to)
			found = addr - from + offset;
	if (f)
		fclose(f);
	return found;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static uint64_t calls_time(void (*fn)(void), int n)
{
	uint64_t start = zn_now_ns();

	for (int i = 0; i < n; i++)
		fn();
	return (zn_now_ns() - start) / n;
}

#define BATCHES 16

/* Of batches the fastest counts: others were interrupted, for many times as long as a call takes where CPUs are busy. */
static uint64_t calls_fastest(void (*fn)(void))
{
	uint64_t fastest = UINT64_MAX, ns;

	for (int batch = 0; batch < BATCHES; batch++) {
		ns = calls_time(fn, ZN_CALIB_MAX / BATCHES);
		fastest = ns < fastest ? ns : fastest;
	}
	return fastest;
}

static uint64_t calib_at(const struct zn_shared *s, uint32_t per_cent)
{
	return s->calib_ns[(uint64_t)(s->calib_count - 1) * per_cent / 100];
}

static int calib_measure(struct zn_probe *p, enum zn_insn first)
{
	struct zn_shared *s = p->arena.shared;
	struct zn_bias *b = &p->bias[first];

	calls_time(calib[first], 64); /* warms up */
	s->calib_count = 0;
	b->call_ns = calls_fastest(calib[first]);
	if (s->calib_count == 0)
		return -ENODATA;
	zn_sort(s->calib_ns, s->calib_count, sizeof(s->calib_ns[0]), by_value);
	b->samples = s->calib_count;
	for (uint32_t i = 0; i < b->samples; i++)
		b->sum_ns += s->calib_ns[i];
	b->p10_ns = calib_at(s, 10);
	b->p50_ns = calib_at(s, 50);
	b->p90_ns = calib_at(s, 90);
	b->p99_ns = calib_at(s, 99);
	s->bias_ns[first] = b->p50_ns;
	s->cost_ns[first] = b->call_ns;
	return 0;
}

/* What is saved where the return is spared: the same for each instruction, but for the scatter of the machine. */
static void returns_measure(struct zn_probe *p)
{
	struct zn_shared *s = p->arena.shared;
	uint64_t saved_ns[ZN_INSN_COUNT], ns;

	s->spared = ZN_SPARES(ZN_SPARE_LAUNCHES);
	for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++) {
		ns = calls_fastest(calib[first]);
		saved_ns[first] = s->cost_ns[first] > ns ? s->cost_ns[first] - ns : 0;
	}
	s->spared = 0;
	zn_sort(saved_ns, ZN_INSN_COUNT, sizeof(saved_ns[0]), by_value);
	s->return_ns = saved_ns[ZN_INSN_COUNT / 2];
}

static struct zn_spots spots;       /* large */
static int links[ZN_INSN_COUNT][2]; /* entry or session, and return; of multi-uprobes the first alone, for all */

/* Only our own calls count: another daemon of the same file may be doing the same. */
static void collect_spots(enum zn_family f, pid_t whose)
{
	spots.path = "/proc/self/exe";
	spots.pid = whose;
	spots.count = ZN_INSN_COUNT;
	for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++) {
		spots.offset[first] = self_offset((uintptr_t)calib[first]);
		spots.cookie[first] = ZN_COOKIE(ZN_S_CALIBRATE, 0, first, f);
		links[first][0] = links[first][1] = -1;
	}
}

static int attach_all(const struct zn_probe *p, int prog_fd, bool ret)
{
	int err = 0;

	if (p->multi)
		err = links[0][ret] = zn_attach_multi(prog_fd,
			p->session    ? ZN_WAY_SESSION
				: ret ? ZN_WAY_RETURN
				      : ZN_WAY_ENTRY,
			&spots, 0, spots.count);
	for (uint32_t i = 0; i < spots.count && !p->multi && err >= 0; i++)
		err = links[i][ret] = zn_attach_perf(p, prog_fd, ret, &spots, i);
	return err < 0 ? err : 0;
}

static void detach_all(void)
{
	for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++)
		for (int ret = 0; ret < 2; ret++)
			zn_fd_close(&links[first][ret]);
}

/* Measures functions that do nothing between their two probes. All are hooked at once, because the kernel takes tens of
 * milliseconds for each link that goes. */
static int calibrate_family(struct zn_probe *p, enum zn_family f, pid_t whose)
{
	int err;

	memset(p->bias, 0, sizeof(p->bias));
	collect_spots(f, whose);
	err = p->session ? 0 : attach_all(p, p->return_fd[f], true);
	if (!err)
		err = attach_all(p, p->entry_fd[f], false);
	for (enum zn_insn first = 0; first < ZN_INSN_COUNT && !err; first++)
		err = calib_measure(p, first);
	if (!err && p->session)
		returns_measure(p);
	detach_all();
	return err;
}

/* Multi-uprobe links where the kernel has them, else perf events. */
static int attach_way_choose(struct zn_probe *p, enum zn_family f)
{
	int err;

	p->multi = true;
	err = calibrate_family(p, f, getpid());
	if (err ==
		-ENODATA) /* before 6.6.35, 6.9.5 and 6.10 (commit 46ba0e49b642) a thread is named, and this is one */
		err = calibrate_family(p, f, gettid());
	if (p->session || (err != -EINVAL && err != -EOPNOTSUPP))
		return err;
	p->multi = false;
	p->perf_type = zn_perf_type("uprobe");
	return p->perf_type ? calibrate_family(p, f, getpid()) : -EOPNOTSUPP;
}

/* BPF sees the host's process ids. If ours is not among them, the calibration took us for a process of its own,
 * and nothing that /proc says here would fit what BPF says. */
static bool own_pid_namespace(const struct zn_probe *p)
{
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		if (p->arena.shared->row_tgid[row])
			return true;
	return false;
}

/* The families that loaded are calibrated with the first of them: their programs begin and end alike. */
void zn_calib_families(struct zn_probe *p)
{
	enum zn_family first = 0;
	int err;

	while (first < ZN_FAMILY_COUNT && !p->available[first])
		first++;
	if (first == ZN_FAMILY_COUNT)
		return;
	err = attach_way_choose(p, first);
	if (!err && own_pid_namespace(p))
		err = -EXDEV;
	if (!err)
		return;
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		if (p->available[f])
			snprintf(p->why[f], ZN_TEXT_MAX,
				err == -EXDEV ? "runs in a process namespace of its own; give it the host's (hostPID)"
					      : "cannot attach uprobes: %s",
				strerror(-err));
		p->available[f] = false;
	}
}
