/* SPDX-License-Identifier: GPL-2.0 */
/*
 * unwind_fuzz.c: any bytes as a file with .eh_frame, and as a stack; registers are taken from its end. Nothing is read
 * beyond either, each walk ends, and a caller's stack lies above.
 */
#include "src/codec/unwind.c"

#include <stdlib.h>
#include <sys/mman.h>

#define STEPS 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void walk(struct zn_unwind_file *f, uint64_t pc, const uint8_t *data, size_t size)
{
	struct zn_unwind_stack stack = {.bytes = data, .from = 4096, .len = size};
	struct zn_unwind_regs r = {.known = 0x1f0c8};
	uint64_t sp;

	for (int i = 0; i < ZN_UNWIND_REGS && size >= 8 * (size_t)(i + 1); i++)
		memcpy(&r.reg[i], data + size - 8 * (size_t)(i + 1), 8);
	r.reg[7] = 4096 + r.reg[7] % (size + 1);
	for (int i = 0; i < STEPS; i++) {
		sp = r.reg[7];
		if (zn_unwind_step(f, pc, &stack, &r) != ZN_UNWIND_CALLER)
			break;
		require(r.reg[7] > sp && r.known >> 16 & 1);
		zn_unwind_is_behind_call(f, r.reg[16]);
		zn_unwind_is_signal(f, r.reg[16]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zn_unwind_file f;
	static int fd = -1;
	uint64_t address;

	if (fd < 0)
		fd = memfd_create("unwind_fuzz", MFD_CLOEXEC);
	require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	if (!zn_unwind_open(&f, fd, 64 << 20, 0))
		return 0;
	for (size_t i = 0; i < f.segments; i++)
		walk(&f, f.segment[i].address, data, size);
	for (uint64_t offset = 0; offset < size; offset += 1 + size / 32)
		if (zn_unwind_address(&f, offset, &address))
			walk(&f, address, data, size);
	return 0;
}
