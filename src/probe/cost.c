/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cost.c: what a system call costs with our programs, and a read of a file. Measured are system calls of the daemon's
 * own that fail at once, before and after programs are attached. A read of a file would be counted as the daemon's, so
 * what it costs follows from them: both are the kernel's ways to a program and some hundred instructions, and how many
 * of each was counted under emulation (docs/IO.md).
 */
#include "zernel.h"
#include <unistd.h>

#define BATCHES 16 /* the fastest counts: others were interrupted */
#define CALLS   64
/* ns: less it is not on any machine, and more only where others' programs came or went meanwhile. */
#define LEAST 40
#define MOST  250

/* What a read or a write costs, in tenths of what tracing a call does, by enum zn_probe_method. Measured on 6.18 with
 * tracepoints: 280 ns and 163 ns; the others have so many more or less instructions. */
static const uint8_t file_tenths[] = {
	[ZN_METHOD_NONE] = 0,
	[ZN_METHOD_FENTRY] = 12,
	[ZN_METHOD_KPROBE] = 28,
	[ZN_METHOD_TRACEPOINT] = 17,
};

static uint64_t calls_fastest(void)
{
	uint64_t fastest = UINT64_MAX;
	ssize_t failed = 0;
	char byte;

	for (int batch = 0; batch < BATCHES; batch++) {
		uint64_t start_ns = zn_now_ns(), ns;

		for (int i = 0; i < CALLS; i++)
			failed += read(-1, &byte, 0);
		ns = (zn_now_ns() - start_ns) / CALLS;
		fastest = ns < fastest ? ns : fastest;
	}
	return failed ? fastest : 0;
}

void zn_cost_before(struct zn_probe *p)
{
	p->call_ns = calls_fastest();
}

bool zn_cost_after(struct zn_probe *p, uint64_t *file_ns, uint64_t *call_ns)
{
	const struct zn_kernel *k = &p->kernel;
	uint64_t ns;

	if (!p->call_ns || !k->wanted)
		return false;
	ns = calls_fastest();
	ns = ns > p->call_ns ? ns - p->call_ns : 0;
	ns = ns < LEAST ? LEAST : ns > MOST ? MOST : ns;
	*call_ns = k->method[ZN_FAM_SYSCALLS] == ZN_METHOD_NONE ? 0 : ns;
	*file_ns = ns * file_tenths[k->method[ZN_FAM_VFS]] / 10;
	p->call_ns = 0;
	zn_log(ZN_DEBUG, "a system call costs %llu ns more, a read or a write of a file %llu ns",
		(unsigned long long)*call_ns, (unsigned long long)*file_ns);
	return true;
}
