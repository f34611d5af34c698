/* SPDX-License-Identifier: GPL-2.0 */
/*
 * entry_test.c: where a probe goes, by the bytes of a function: those of real drivers and of NCCL's builds among them.
 * Each vector is read from a block of its own size, and cut at every byte, which must never move a probe out of the
 * function.
 */
#include <stdlib.h>

#include "t.h"
#include "zernel.h"

typedef struct zn_entry reader(const uint8_t *code, size_t len, uint64_t room);

struct vector {
	const char *name, *code; /* in hexadecimal; blanks between instructions */
	uint64_t room;           /* 0: all of it */
	uint32_t at;
	enum zn_insn first;
};

#define CHECK_OFF "813dd67b8701 00ba1c32 "
#define THUNK     CHECK_OFF "740c ff25f6047801 660f1f440000 b804000000 c3"

static const struct vector x86[] = {
	{"libcuda 550", THUNK, 0, 10, ZN_INSN_BRANCH},
	{"libcuda 550, cuMemsetD8: its jump goes over an extension",
		CHECK_OFF "7414 400fb6f6 ff2592b27801 662e0f1f840000000000 b804000000 c3", 0, 10, ZN_INSN_BRANCH},
	{"the same behind a landing pad", "f30f1efa " THUNK, 0, 14, ZN_INSN_BRANCH},
	{"a longer jump behind it", CHECK_OFF "0f8410000000 c3", 0, 10, ZN_INSN_BRANCH},
	{"a compare with a byte", "833d1122334400 7501 90 c3", 0, 7, ZN_INSN_BRANCH},
	{"NCCL 2.29: landing pad and push", "f30f1efa 4157 415f c3", 0, 4, ZN_INSN_PUSH},
	{"landing pad and push of rbp", "f30f1efa 55 4889e5 5d c3", 0, 4, ZN_INSN_PUSH},
	{"landing pad and a smaller stack", "f30f1efa 4883ec18 4883c418 c3", 0, 0, ZN_INSN_LANDING},
	{"a pad alone", "f30f1efa c3", 0, 0, ZN_INSN_LANDING},
	{"NCCL 2.28: a constant in rax, and push", "48b80000000000008041 4155 415d c3", 0, 10, ZN_INSN_PUSH},
	{"push", "55 4889e5 5d c3", 0, 0, ZN_INSN_PUSH},
	{"push of r15", "4157 415f c3", 0, 0, ZN_INSN_PUSH},
	{"push with another prefix is stepped over", "4857 5f c3", 0, 0, ZN_INSN_OTHER},
	{"a frame before the check stays where it is", "55 " CHECK_OFF "7402 5d c3 5d c3", 0, 0, ZN_INSN_PUSH},
	{"a smaller stack before the check", "4883ec08 " CHECK_OFF "7404 4883c408 c3", 0, 0, ZN_INSN_OTHER},
	{"nop", "90 c3", 0, 0, ZN_INSN_NOP},
	{"nop of five bytes", "0f1f440000 c3", 0, 0, ZN_INSN_LONG_NOP},
	{"nop of two bytes and push", "6690 55 5d c3", 0, 2, ZN_INSN_PUSH},
	{"pad, nop, push", "f30f1efa 0f1f440000 55 5d c3", 0, 9, ZN_INSN_PUSH},
	{"call", "e800000000 c3", 0, 0, ZN_INSN_BRANCH},
	{"jump", "eb00 c3", 0, 0, ZN_INSN_BRANCH},
	{"jump through a slot", "ff25f6047801", 0, 0, ZN_INSN_OTHER},
	{"a jump that the kernel refuses", "66e900000000 c3", 0, 0, ZN_INSN_OTHER},
	{"loop is no jump that is emulated", "e200 c3", 0, 0, ZN_INSN_OTHER},
	{"test and jump", "4885c9 0f8400000000 c3", 0, 3, ZN_INSN_BRANCH},
	{"ncclGetVersion: landing pad, test, jump", "f30f1efa 4885ff 7401 c3 c3", 0, 7, ZN_INSN_BRANCH},
	{"the stack protector's word into rax", "64488b042528000000 55 5d c3", 0, 9, ZN_INSN_PUSH},
	{"xor eax,eax and push", "31c0 55 5d c3", 0, 2, ZN_INSN_PUSH},
	{"xor r10d,r10d and push", "4531d2 55 5d c3", 0, 3, ZN_INSN_PUSH},
	{"mov of rdi to r11 and push", "4989fb 55 5d c3", 0, 3, ZN_INSN_PUSH},
	{"lea into rax and push", "488d0511223344 55 5d c3", 0, 7, ZN_INSN_PUSH},
	/* what changes an argument, the stack or what the caller keeps */
	{"xor edi,edi", "31ff 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"xor of two registers", "31f8 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"mov of rsi to rdi", "4889f7 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"mov to memory", "488907 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"mov to rdx from memory", "488b17 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"mov to r9 from memory", "4c8b0f 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"a constant into r8", "49b80000000000008041 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"a constant into rsp", "bc00000000 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"add", "83c701 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"pop", "58 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"not", "f7d0 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"a compare with a lock, which no processor takes", "f0813d0000000000000000 7400 c3", 0, 0, ZN_INSN_OTHER},
	{"ret before it", "31c0 c3 55 5d c3", 0, 0, ZN_INSN_OTHER},
	/* who else comes there */
	{"three bytes", "31c0c3", 0, 0, ZN_INSN_OTHER},
	{"a pad that falls into the next function", "f30f1efa 55 5d c3", 4, 0, ZN_INSN_LANDING},
	{"another symbol in the midst of the compare", THUNK, 5, 0, ZN_INSN_OTHER},
	{"another symbol right behind it", THUNK, 11, 10, ZN_INSN_BRANCH},
	{"a loop to the place", "41bb03000000 90 41ffcb 75fa c3", 0, 0, ZN_INSN_OTHER},
	{"a loop to what is before the place", "31c0 31c0 55 5d 75fa c3", 0, 0, ZN_INSN_OTHER},
	{"a loop to the entry is a call", "31c0 31c0 55 5d 75f8 c3", 0, 4, ZN_INSN_PUSH},
	{"a loop behind the place", "31c0 55 90 75fd 5d c3", 0, 2, ZN_INSN_PUSH},
	{"a long jump back to it", "31c0 55 5d 0f84f8ffffff c3", 0, 0, ZN_INSN_OTHER},
	{"a call into it", "31c0 55 5d e8f9ffffff c3", 0, 0, ZN_INSN_OTHER},
	{"the bytes of such a jump within a constant", "31c0 55 b875fbeb00 5d c3", 0, 2, ZN_INSN_PUSH},
	{"what cannot be decoded behind it", "31c0 55 06 5d c3", 0, 0, ZN_INSN_OTHER},
	{"an instruction that is cut behind it", "31c0 55 48b800", 0, 0, ZN_INSN_OTHER},
	{"AVX and AVX-512 behind it",
		"31c0 55 c5f877 c4e27d18c0 c4e3fd00c94e 62f17c4810442401 62f3fd4825c0ff c5f970c001 5d c3", 0, 2,
		ZN_INSN_PUSH},
	{"too many before it", "31c0 31c0 31c0 31c0 31c0 31c0 31c0 31c0 31c0 55 5d c3", 0, 0, ZN_INSN_OTHER},
	{"eight before it", "31c0 31c0 31c0 31c0 31c0 31c0 31c0 31c0 55 5d c3", 0, 16, ZN_INSN_PUSH},
	{"nothing", "", 0, 0, ZN_INSN_OTHER},
};

/* As little-endian words. */
static const struct vector arm64[] = {
	{"stp x29, x30", "fd7bbfa9 c0035fd6", 0, 0, ZN_INSN_PUSH},
	{"paciasp stays where it is", "3f2303d5 fd7bbfa9 c0035fd6", 0, 0, ZN_INSN_LANDING},
	{"bti c before stp", "5f2403d5 fd7bbfa9 c0035fd6", 0, 0, ZN_INSN_LANDING},
	{"nop", "1f2003d5 c0035fd6", 0, 0, ZN_INSN_NOP},
	{"adrp", "10000090 c0035fd6", 0, 0, ZN_INSN_BRANCH},
	{"bti c and adrp", "5f2403d5 10000090 c0035fd6", 0, 4, ZN_INSN_BRANCH},
	{"bti jc, movz and movk into w17, adrp", "df2403d5 11409752 914ba672 10000090 c0035fd6", 0, 12, ZN_INSN_BRANCH},
	{"cmp and b.eq", "1f0011eb 40000054 c0035fd6 c0035fd6", 0, 4, ZN_INSN_BRANCH},
	{"cmp of a constant and cbz", "1f000071 40000034 c0035fd6 c0035fd6", 0, 4, ZN_INSN_BRANCH},
	{"tbz", "40000036 c0035fd6 c0035fd6", 0, 0, ZN_INSN_BRANCH},
	{"a literal", "40000058 c0035fd6 c0035fd6", 0, 0, ZN_INSN_BRANCH},
	{"movz into an argument", "00409752 10000090 c0035fd6", 0, 0, ZN_INSN_OTHER},
	{"movz into x8", "08409752 10000090 c0035fd6", 0, 0, ZN_INSN_OTHER},
	{"sub sp", "ff4300d1 10000090 c0035fd6", 0, 0, ZN_INSN_OTHER},
	{"subs into a register", "000400f1 10000090 c0035fd6", 0, 0, ZN_INSN_OTHER},
	{"another symbol", "5f2403d5 10000090 c0035fd6", 4, 0, ZN_INSN_LANDING},
	{"a jump back to the place", "5f2403d5 10000090 ffffff17", 0, 0, ZN_INSN_LANDING},
	{"a conditional jump back", "5f2403d5 10000090 e0ffff54 c0035fd6", 0, 0, ZN_INSN_LANDING},
	{"a test of a bit and back", "5f2403d5 10000090 e0ffff36 c0035fd6", 0, 0, ZN_INSN_LANDING},
	{"a jump to the entry", "5f2403d5 10000090 feffff17", 0, 4, ZN_INSN_BRANCH},
	{"nothing", "", 0, 0, ZN_INSN_OTHER},
};

static uint8_t *bytes_of(const char *hex, size_t *len)
{
	uint8_t *at = malloc(strlen(hex) / 2 + 1);
	unsigned byte;

	for (*len = 0; *hex; hex++)
		if (*hex != ' ' && sscanf(hex, "%2x", &byte) == 1) {
			at[(*len)++] = (uint8_t)byte;
			hex++;
		}
	return at;
}

/* From a block that ends where the code ends. */
static struct zn_entry read_exactly(reader *read, const uint8_t *code, size_t len, uint64_t room)
{
	uint8_t *exact = malloc(len ? len : 1);
	struct zn_entry e;

	memcpy(exact, code, len);
	e = read(exact, len, room);
	free(exact);
	return e;
}

static void check_vector(reader *read, const struct vector *v)
{
	size_t len;
	uint8_t *code = bytes_of(v->code, &len);
	struct zn_entry e = read_exactly(read, code, len, v->room ? v->room : len);

	CHECK_EQ(e.at, v->at);
	CHECK_STR(zn_insn_label(e.first), zn_insn_label(v->first));
	for (size_t cut = 0; cut < len; cut++) {
		e = read_exactly(read, code, cut, v->room ? v->room : cut);
		CHECK(e.at == 0 || e.at < cut);
	}
	for (uint64_t room = 0; room <= v->at; room++)
		CHECK_EQ(read_exactly(read, code, len, room).at, 0);
	free(code);
}

static void vectors(reader *read, const struct vector *v, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		t_begin(v[i].name);
		check_vector(read, &v[i]);
	}
}

T(every_kind_has_a_name)
{
	for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++)
		CHECK(strcmp(zn_insn_label(first), "unknown") != 0);
	CHECK_STR(zn_insn_label(ZN_INSN_COUNT), "unknown");
}

T(this_machine_has_a_reader)
{
#ifdef __x86_64__
	CHECK_EQ(zn_entry_of((const uint8_t *)"\x55\xc3", 2, 2).first, ZN_INSN_PUSH);
#else
	CHECK_EQ(zn_entry_of((const uint8_t *)"\x1f\x20\x03\xd5", 4, 4).first, ZN_INSN_NOP);
#endif
}

int main(void)
{
	vectors(zn_entry_of_x86, x86, ZN_LEN(x86));
	vectors(zn_entry_of_arm64, arm64, ZN_LEN(arm64));
	RUN(every_kind_has_a_name);
	RUN(this_machine_has_a_reader);
	return t_end();
}
