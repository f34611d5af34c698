/* SPDX-License-Identifier: GPL-2.0 */
/*
 * entry_fuzz.c: fuzz target of entry.c. Whatever the bytes are: none outside of the function is read, a place lies in
 * the function and in its room, has a kind that the kernel emulates unless it is the entry, and is decoded to the same
 * again. The first byte is the machine, the next two are the room.
 */
#define ZN_IN_probe /* what zernel.h keeps for the files of src/probe */
#include "src/probe/entry.c"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static bool is_cheap(enum zn_insn first)
{
	return first == ZN_INSN_NOP || first == ZN_INSN_PUSH || first == ZN_INSN_BRANCH;
}

/* The bytes from the entry to the place are whole instructions that pass, and none of x86 jumps back among them. */
static void require_way(const uint8_t *code, size_t len, uint32_t place)
{
	struct x86 i;

	for (size_t at = 0; at < place; at += i.len)
		require(x86_read(&i, code, len, at) && i.len && x86_passes(&i) && at + i.len <= place);
	require(!x86_returns_to(code, len, place));
}

static void check(const struct zn_entry *e, bool arm, const uint8_t *code, size_t len, uint64_t room)
{
	require(e->first < ZN_INSN_COUNT);
	if (e->at == 0)
		return;
	require(e->at < len && e->at < room && is_cheap(e->first));
	require(arm ? e->at % 4 == 0 && e->at <= 4 * PASSED_MAX : e->at <= 15 * PASSED_MAX);
	if (!arm)
		require_way(code, len, e->at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zn_entry e, again;
	uint64_t room;
	uint8_t *code;
	size_t len;
	bool arm;

	if (size < 3 || size - 3 > ZN_ENTRY_BODY)
		return 0;
	len = size - 3;
	arm = data[0] & 1;
	room = data[1] | (uint64_t)data[2] << 8;
	code = malloc(len ? len : 1);
	memcpy(code, data + 3, len);
	e = arm ? zn_entry_of_arm64(code, len, room) : zn_entry_of_x86(code, len, room);
	again = arm ? zn_entry_of_arm64(code, len, room) : zn_entry_of_x86(code, len, room);
	require(e.at == again.at && e.first == again.first);
	check(&e, arm, code, len, room);
	free(code);
	return 0;
}
