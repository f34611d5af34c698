/* SPDX-License-Identifier: GPL-2.0 */
/*
 * python_fuzz.c: any bytes as the memory of a process with Python: its threads, frames, code objects, texts and tables
 * of lines. Each version's row is tried. Nothing is read beyond the buffers, every chain ends, and texts are valid
 * UTF-8.
 */
#define ZN_IN_probe /* what zernel.h keeps for that folder */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* The memory: bytes, from address 0 on. */
static const uint8_t *memory;
static size_t memory_len;

static ssize_t bytes_read(pid_t pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
	unsigned long from_count, unsigned long flags)
{
	uintptr_t at = (uintptr_t)from->iov_base;
	size_t len;

	(void)pid, (void)to_count, (void)from_count, (void)flags;
	if (at >= memory_len)
		return -1;
	len = from->iov_len < memory_len - at ? from->iov_len : memory_len - at;
	memcpy(to->iov_base, memory + at, len);
	return (ssize_t)len;
}
#define process_vm_readv bytes_read

#include "src/probe/python.c"

#define BASE 8 /* bytes at the beginning: addresses in the memory */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_text(const struct zn_python_process *p, uint64_t at, bool tail)
{
	char text[4 * ZN_PYTHON_TEXT];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	uint32_t state = 0;

	if (!zn_python_text(p, at, ZN_PYTHON_TEXT, tail, &o))
		return;
	check(!o.full);
	for (size_t i = 0; i < o.len; i++)
		state = zn_utf8_step(state, (uint8_t)text[i]);
	check(state == 0);
}

static void check_code(const struct zn_python_process *p, uint64_t at)
{
	struct zn_python_code code;

	zn_python_code(p, at, &code);
	for (int index = -1; index < 300; index += 7)
		check(zn_python_line(p, &code, index) >= ZN_PYCODE_GONE);
	check_text(p, code.name, false);
	check_text(p, code.file, true);
}

static void check_version(struct zn_python_process *p, const struct zn_python_layout *l, const uint64_t at[4])
{
	char why[ZN_TEXT_MAX];

	p->layout = l;
	p->code_type = at[1];
	p->row = (struct zn_python){0};
	if (find_threads(p, at[0], why) == 0)
		check(p->row.slot != 0 && p->row.main_state);
	says_the_same(p, l, at[0], why);
	check_code(p, at[2]);
	check_text(p, at[3], false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct zn_python_process p = {0};
	uint64_t at[4] = {0};

	if (len < BASE)
		return 0;
	memory = data;
	memory_len = len;
	for (int i = 0; i < 4; i++)
		at[i] = data[2 * i] | (uint64_t)data[2 * i + 1] << 8;
	for (size_t i = 0; i < ZN_LEN(layouts); i++)
		check_version(&p, &layouts[i], at);
	return 0;
}
