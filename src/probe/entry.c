/* SPDX-License-Identifier: GPL-2.0 */
/*
 * entry.c: where a probe on a function costs least. The kernel emulates a few instructions and steps over all others,
 * which takes a trap more; functions of real drivers begin with such another one (a compare, a landing pad), and have
 * one that is emulated right behind it. Which are emulated: arch/x86/kernel/uprobes.c,
 * arch/arm64/kernel/probes/decode-insn.c.
 *
 * What is passed over is decided by the bytes alone. On x86 all of the function is decoded, to see that nothing jumps
 * back to the place; what cannot be decoded is taken for such a jump. Jumps by a register are not seen: compilers
 * make none to where a function begins. Limits: 8 instructions are passed over, the function has at most
 * ZN_ENTRY_BODY bytes.
 */
#include "zernel.h"
#include <unistd.h>

#define PASSED_MAX 8

const char *zn_insn_label(enum zn_insn first)
{
	static const char *const label[] = {"nop", "push", "landing", "other", "branch", "long_nop"};

	return first < ZN_INSN_COUNT ? label[first] : "unknown";
}

/* ---- x86-64 ---- */

#define OPERAND_16 1 /* prefixes */
#define ADDRESS_32 2
#define REPEAT     4 /* f2, f3 */
#define LOCK       8
#define SEGMENT    16

#define MODRM    1 /* an operand by a ModRM byte */
#define IMM8     2
#define IMM16    4
#define IMM      8  /* 4 bytes, or 2 with 66 */
#define IMM_MOV  16 /* 4 bytes, 2 with 66, 8 with REX.W */
#define OFFSET   32 /* an address of 8 bytes, or 4 with 67 */
#define IMM_TEST 64 /* of f6 and f7 /0 and /1 */
#define JUMP8    128
#define JUMP32   256
#define UNKNOWN  512

#define MAP_ONE 0 /* opcode maps, as VEX numbers them */
#define MAP_0F  1
#define MAP_38  2
#define MAP_3A  3

struct x86 {
	uint32_t len;
	uint8_t prefixes, rex, map, opcode, modrm;
	bool vex;
	uint16_t form;
	int64_t jump; /* of JUMP8 and JUMP32: where to, from the function's entry */
};

/* Ranges of opcodes that take the same; the first that fits counts. Intel's manual, volume 2, appendix A. */
struct range {
	uint8_t first, last;
	uint16_t form;
};

static const struct range one_byte[] = {{0x04, 0x04, IMM8}, {0x05, 0x05, IMM}, {0x0c, 0x0c, IMM8}, {0x0d, 0x0d, IMM},
	{0x14, 0x14, IMM8}, {0x15, 0x15, IMM}, {0x1c, 0x1c, IMM8}, {0x1d, 0x1d, IMM}, {0x24, 0x24, IMM8},
	{0x25, 0x25, IMM}, {0x2c, 0x2c, IMM8}, {0x2d, 0x2d, IMM}, {0x34, 0x34, IMM8}, {0x35, 0x35, IMM},
	{0x3c, 0x3c, IMM8}, {0x3d, 0x3d, IMM}, {0x06, 0x07, UNKNOWN}, {0x0e, 0x0f, UNKNOWN}, {0x16, 0x17, UNKNOWN},
	{0x1e, 0x1f, UNKNOWN}, {0x26, 0x27, UNKNOWN}, {0x2e, 0x2f, UNKNOWN}, {0x36, 0x37, UNKNOWN},
	{0x3e, 0x3f, UNKNOWN}, {0x00, 0x3f, MODRM}, {0x40, 0x4f, UNKNOWN}, {0x50, 0x5f, 0}, {0x63, 0x63, MODRM},
	{0x68, 0x68, IMM}, {0x69, 0x69, MODRM | IMM}, {0x6a, 0x6a, IMM8}, {0x6b, 0x6b, MODRM | IMM8}, {0x6c, 0x6f, 0},
	{0x60, 0x67, UNKNOWN}, {0x70, 0x7f, JUMP8}, {0x80, 0x80, MODRM | IMM8}, {0x81, 0x81, MODRM | IMM},
	{0x82, 0x82, UNKNOWN}, {0x83, 0x83, MODRM | IMM8}, {0x84, 0x8f, MODRM}, {0x9a, 0x9a, UNKNOWN}, {0x90, 0x9f, 0},
	{0xa0, 0xa3, OFFSET}, {0xa8, 0xa8, IMM8}, {0xa9, 0xa9, IMM}, {0xa4, 0xaf, 0}, {0xb0, 0xb7, IMM8},
	{0xb8, 0xbf, IMM_MOV}, {0xc0, 0xc1, MODRM | IMM8}, {0xc2, 0xc2, IMM16}, {0xc3, 0xc3, 0}, {0xc4, 0xc5, UNKNOWN},
	{0xc6, 0xc6, MODRM | IMM8}, {0xc7, 0xc7, MODRM | IMM}, {0xc8, 0xc8, IMM16 | IMM8}, {0xca, 0xca, IMM16},
	{0xcd, 0xcd, IMM8}, {0xce, 0xce, UNKNOWN}, {0xc9, 0xcf, 0}, {0xd0, 0xd3, MODRM}, {0xd7, 0xd7, 0},
	{0xd4, 0xd6, UNKNOWN}, {0xd8, 0xdf, MODRM}, {0xe0, 0xe3, JUMP8}, {0xe4, 0xe7, IMM8}, {0xe8, 0xe9, JUMP32},
	{0xeb, 0xeb, JUMP8}, {0xea, 0xea, UNKNOWN}, {0xec, 0xef, 0}, {0xf6, 0xf7, MODRM | IMM_TEST}, {0xf1, 0xf1, 0},
	{0xf4, 0xf5, 0}, {0xf8, 0xfd, 0}, {0xfe, 0xff, MODRM}, {0x00, 0xff, UNKNOWN}};
static const struct range two_bytes[] = {{0x00, 0x03, MODRM}, {0x05, 0x09, 0}, {0x0b, 0x0b, 0}, {0x0d, 0x0d, MODRM},
	{0x0e, 0x0e, 0}, {0x0f, 0x0f, MODRM | IMM8}, {0x10, 0x23, MODRM}, {0x28, 0x2f, MODRM}, {0x30, 0x37, 0},
	{0x40, 0x6f, MODRM}, {0x70, 0x73, MODRM | IMM8}, {0x77, 0x77, 0}, {0x74, 0x7f, MODRM}, {0x80, 0x8f, JUMP32},
	{0x90, 0x9f, MODRM}, {0xa0, 0xa2, 0}, {0xa4, 0xa4, MODRM | IMM8}, {0xa8, 0xaa, 0}, {0xac, 0xac, MODRM | IMM8},
	{0xba, 0xba, MODRM | IMM8}, {0xa3, 0xaf, MODRM}, {0xb0, 0xc1, MODRM}, {0xc2, 0xc2, MODRM | IMM8},
	{0xc3, 0xc3, MODRM}, {0xc4, 0xc6, MODRM | IMM8}, {0xc7, 0xc7, MODRM}, {0xc8, 0xcf, 0}, {0xd0, 0xff, MODRM},
	{0x00, 0xff, UNKNOWN}};

static uint16_t form_of(const struct range *r, uint8_t opcode)
{
	while (opcode < r->first || opcode > r->last)
		r++;
	return r->form;
}

static uint16_t x86_form(const struct x86 *i)
{
	switch (i->map) {
	case MAP_ONE: return form_of(one_byte, i->opcode);
	case MAP_0F: return form_of(two_bytes, i->opcode);
	case MAP_38: return MODRM;
	case MAP_3A: return MODRM | IMM8;
	case 5: /* of AVX-512 for half floats */
	case 6: return i->vex ? MODRM : UNKNOWN;
	}
	return UNKNOWN;
}

static uint8_t prefix_of(uint8_t byte)
{
	switch (byte) {
	case 0x66: return OPERAND_16;
	case 0x67: return ADDRESS_32;
	case 0xf2:
	case 0xf3: return REPEAT;
	case 0xf0: return LOCK;
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65: return SEGMENT;
	}
	return 0;
}

/* The bytes of one instruction, taken one after the other; beyond the end all are 0, and `len` says so. */
struct bytes {
	const uint8_t *at;
	size_t len, used;
};

static uint8_t next_byte(struct bytes *b)
{
	size_t at = b->used++;

	return at < b->len ? b->at[at] : 0;
}

static int64_t next_signed(struct bytes *b, uint32_t len)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < len; i++)
		value |= (uint64_t)next_byte(b) << 8 * i;
	return (int64_t)(value << (64 - 8 * len)) >> (64 - 8 * len);
}

/* C5, C4 and 62 begin an instruction with its opcode map in the next byte; there is no other use of them in 64 bits. */
static void read_vex(struct x86 *i, struct bytes *b, uint8_t kind)
{
	uint8_t payload = next_byte(b);

	i->vex = true;
	i->map = kind == 0xc5 ? MAP_0F : payload & (kind == 0xc4 ? 0x1f : 7);
	for (int n = kind == 0xc5 ? 0 : kind == 0xc4 ? 1 : 2; n; n--)
		next_byte(b);
	i->opcode = next_byte(b);
	if (i->map == MAP_ONE)
		i->map = UINT8_MAX;
}

static void read_opcode(struct x86 *i, struct bytes *b)
{
	uint8_t byte = next_byte(b), prefix;

	while ((prefix = prefix_of(byte)) && b->used < 15) {
		i->prefixes |= prefix;
		byte = next_byte(b);
	}
	if ((byte & 0xf0) == 0x40) {
		i->rex = byte;
		byte = next_byte(b);
	}
	i->opcode = byte;
	if (byte == 0xc4 || byte == 0xc5 || byte == 0x62) {
		read_vex(i, b, byte);
		return;
	}
	if (byte != 0x0f)
		return;
	i->map = MAP_0F;
	i->opcode = next_byte(b);
	if (i->opcode != 0x38 && i->opcode != 0x3a)
		return;
	i->map = i->opcode == 0x38 ? MAP_38 : MAP_3A;
	i->opcode = next_byte(b);
}

/* With what follows it to form the address. */
static void read_modrm(struct x86 *i, struct bytes *b)
{
	uint8_t mod, rm, base;

	i->modrm = next_byte(b);
	mod = i->modrm >> 6;
	rm = i->modrm & 7;
	if (mod == 3)
		return;
	base = rm == 4 ? next_byte(b) & 7 : rm;
	if (mod == 0 && base == 5) /* relative to the instruction, or without a base */
		b->used += 4;
	b->used += mod == 1 ? 1 : mod == 2 ? 4 : 0;
}

static uint32_t immediate_bytes(const struct x86 *i)
{
	uint32_t word = i->prefixes & OPERAND_16 ? 2 : 4, n = 0;
	bool test = i->form & IMM_TEST && (i->modrm >> 3 & 7) < 2;

	n += i->form & IMM8 ? 1 : 0;
	n += i->form & IMM16 ? 2 : 0;
	n += i->form & IMM ? word : 0;
	n += i->form & IMM_MOV ? i->rex & 8 ? 8 : word : 0;
	n += i->form & OFFSET ? i->prefixes & ADDRESS_32 ? 4 : 8 : 0;
	return n + (test ? i->opcode & 1 ? word : 1 : 0);
}

/* Decodes the instruction at a place of the code. False: it is not known, or not whole. */
static bool x86_read(struct x86 *i, const uint8_t *code, size_t len, size_t at)
{
	struct bytes b = {.at = code + at, .len = len - at};

	*i = (struct x86){0};
	read_opcode(i, &b);
	i->form = x86_form(i);
	if (i->form & UNKNOWN)
		return false;
	if (i->form & MODRM)
		read_modrm(i, &b);
	b.used += immediate_bytes(i);
	if (i->form & (JUMP8 | JUMP32))
		i->jump = next_signed(&b, i->form & JUMP8 ? 1 : 4);
	i->len = b.used;
	i->jump += (int64_t)(at + b.used);
	return b.used <= b.len && b.used <= 15;
}

static bool is_long_nop(const struct x86 *i)
{
	if (i->vex || i->prefixes & ~(OPERAND_16 | SEGMENT))
		return false;
	return (i->map == MAP_0F && i->opcode == 0x1f && (i->modrm >> 3 & 7) == 0) ||
		(i->map == MAP_ONE && i->opcode == 0x90 && i->prefixes && !i->rex);
}

static bool is_endbr64(const struct x86 *i)
{
	return i->map == MAP_0F && i->opcode == 0x1e && i->modrm == 0xfa && i->prefixes == REPEAT;
}

/* What the kernel makes of it. With a prefix it steps over pushes and refuses jumps. */
static enum zn_insn x86_kind(const struct x86 *i)
{
	if (is_endbr64(i))
		return ZN_INSN_LANDING;
	if (is_long_nop(i))
		return ZN_INSN_LONG_NOP;
	if (i->prefixes || i->vex)
		return ZN_INSN_OTHER;
	if (i->map == MAP_ONE && (i->opcode & 0xf8) == 0x50 && (i->rex == 0 || i->rex == 0x41))
		return ZN_INSN_PUSH;
	if (i->rex)
		return ZN_INSN_OTHER;
	if (i->map == MAP_ONE && i->opcode == 0x90)
		return ZN_INSN_NOP;
	if (i->form & JUMP32 || (i->form & JUMP8 && (i->opcode < 0xe0 || i->opcode > 0xe3)))
		return ZN_INSN_BRANCH;
	return ZN_INSN_OTHER;
}

/* Registers in which no argument comes, and which the caller expects nothing of: rax, r10, r11. */
static bool is_scratch(const struct x86 *i, uint8_t low, uint8_t rex_bit)
{
	uint8_t reg = (low & 7) | (i->rex & rex_bit ? 8 : 0);

	return reg == 0 || reg == 10 || reg == 11;
}

#define REX_B 1 /* of the register in ModRM's low bits or the opcode */
#define REX_R 4 /* of that in its middle bits */

/* Instructions of one byte of opcode that only set flags, or a scratch register. */
static bool passes_one(const struct x86 *i)
{
	uint8_t middle = i->modrm >> 3 & 7;
	bool reg = i->modrm >> 6 == 3;

	switch (i->opcode) {
	case 0x38 ... 0x3d: /* cmp */
	case 0x84:          /* test */
	case 0x85:
	case 0xa8:
	case 0xa9: return true;
	case 0x80:
	case 0x81:
	case 0x83: return middle == 7; /* cmp */
	case 0xf6:
	case 0xf7: return middle == 0; /* test */
	case 0x31:                     /* xor of a register with itself, also below */
	case 0x33:
		return reg && middle == (i->modrm & 7) && is_scratch(i, middle, REX_R) &&
			is_scratch(i, i->modrm, REX_B);
	case 0x89: return reg && is_scratch(i, i->modrm, REX_B); /* mov */
	case 0x8b:                                               /* mov */
	case 0x8d: return is_scratch(i, middle, REX_R);          /* lea */
	case 0xb8 ... 0xbf: return is_scratch(i, i->opcode, REX_B);
	case 0xc7: return reg && middle == 0 && is_scratch(i, i->modrm, REX_B);
	}
	return false;
}

/* Whether behind it all that a probe looks at is as before it, and whether nothing but the next instruction follows. */
static bool x86_passes(const struct x86 *i)
{
	if (is_endbr64(i) || is_long_nop(i))
		return true;
	return i->map == MAP_ONE && !i->vex && !(i->prefixes & (LOCK | REPEAT | ADDRESS_32)) && passes_one(i);
}

/* Whether the function may come back to a place behind its entry. */
static bool x86_returns_to(const uint8_t *code, size_t len, size_t place)
{
	struct x86 i;

	for (size_t at = 0; at < len; at += i.len) {
		if (!x86_read(&i, code, len, at))
			return true;
		if (i.form & (JUMP8 | JUMP32) && i.jump > 0 && i.jump <= (int64_t)place)
			return true;
	}
	return false;
}

static bool is_emulated(enum zn_insn first)
{
	return first == ZN_INSN_PUSH || first == ZN_INSN_BRANCH || first == ZN_INSN_NOP;
}

struct zn_entry zn_entry_of_x86(const uint8_t *code, size_t len, uint64_t room)
{
	struct zn_entry entry = {.first = ZN_INSN_OTHER};
	struct x86 i;
	size_t at = 0;

	for (int passed = 0; passed <= PASSED_MAX && at < len && at < room && x86_read(&i, code, len, at); passed++) {
		enum zn_insn first = x86_kind(&i);

		if (at == 0)
			entry.first = first;
		if (is_emulated(first)) {
			if (at && !x86_returns_to(code, len, at))
				entry = (struct zn_entry){(uint32_t)at, first};
			break;
		}
		if (!x86_passes(&i))
			break;
		at += i.len;
	}
	return entry;
}

/* ---- arm64 ---- */

static uint32_t word_at(const uint8_t *code, size_t at)
{
	return code[at] | (uint32_t)code[at + 1] << 8 | (uint32_t)code[at + 2] << 16 | (uint32_t)code[at + 3] << 24;
}

/* Where a direct jump goes, from itself, in bytes; 0: it is none. */
static int64_t arm64_jump(uint32_t word)
{
	if ((word & 0x7c000000) == 0x14000000) /* b, bl */
		return (int64_t)(int32_t)(word << 6) >> 4;
	if ((word & 0xff000010) == 0x54000000 || (word & 0x7e000000) == 0x34000000) /* b.cond; cbz, cbnz */
		return (int64_t)(int32_t)(word << 8) >> 11 & ~3LL;
	if ((word & 0x7e000000) == 0x36000000) /* tbz, tbnz */
		return (int64_t)(int32_t)(word << 13) >> 16 & ~3LL;
	return 0;
}

static enum zn_insn arm64_kind(uint32_t word)
{
	if (word == 0xd503245f || word == 0xd50324df || word == 0xd503233f) /* bti c, bti jc, paciasp */
		return ZN_INSN_LANDING;
	if ((word & 0xffc07fff) == 0xa9807bfd) /* stp x29, x30, [sp, #-n]! */
		return ZN_INSN_PUSH;
	if (word == 0xd503201f)
		return ZN_INSN_NOP;
	if (arm64_jump(word) || (word & 0x1f000000) == 0x10000000 || (word & 0xbf000000) == 0x18000000 ||
		(word & 0xff000000) == 0x98000000) /* adr, adrp; ldr and ldrsw of a literal */
		return ZN_INSN_BRANCH;
	return ZN_INSN_OTHER;
}

/* bti; a compare, whose result goes nowhere; a constant into a register of x9 to x17. What signs the return address
 * changes it. */
static bool arm64_passes(uint32_t word)
{
	uint32_t reg = word & 31;

	if ((word & 0xffffff3f) == 0xd503241f)
		return true;
	if ((word & 0x7f00001f) == 0x7100001f ||
		(word & 0x7f20001f) == 0x6b00001f) /* cmp of a constant, of a register */
		return true;
	return ((word & 0x7f800000) == 0x52800000 || (word & 0x7f800000) == 0x72800000) && reg >= 9 && reg <= 17;
}

/* In kernels that step over it a push is no better a place than the pad before it. */
static bool arm64_is_emulated(enum zn_insn first)
{
	return first == ZN_INSN_BRANCH || first == ZN_INSN_NOP;
}

static bool arm64_returns_to(const uint8_t *code, size_t len, size_t place)
{
	for (size_t at = 0; at + 4 <= len; at += 4) {
		int64_t jump = arm64_jump(word_at(code, at)), to = (int64_t)at + jump;

		if (jump && to > 0 && to <= (int64_t)place)
			return true;
	}
	return false;
}

struct zn_entry zn_entry_of_arm64(const uint8_t *code, size_t len, uint64_t room)
{
	struct zn_entry entry = {.first = len >= 4 ? arm64_kind(word_at(code, 0)) : ZN_INSN_OTHER};

	for (size_t at = 0; at / 4 <= PASSED_MAX && at + 4 <= len && at < room; at += 4) {
		uint32_t word = word_at(code, at);

		if (arm64_is_emulated(arm64_kind(word))) {
			if (at && !arm64_returns_to(code, len, at))
				entry = (struct zn_entry){(uint32_t)at, arm64_kind(word)};
			break;
		}
		if (!arm64_passes(word))
			break;
	}
	return entry;
}

struct zn_entry zn_entry_of(const uint8_t *code, size_t len, uint64_t room)
{
#ifdef __x86_64__
	return zn_entry_of_x86(code, len, room);
#else
	return zn_entry_of_arm64(code, len, room);
#endif
}

/* ---- in a file ---- */

#define PLACE_CODE 16 /* bytes from the place on that are one instruction at most */

static uint8_t body[ZN_ENTRY_BODY + PLACE_CODE]; /* of the function at hand */

struct zn_place zn_place_of(int fd, const struct zn_elf_symbol *symbol)
{
	uint64_t len = symbol->size ? symbol->size : symbol->room, used;
	struct zn_place place = {.offset = symbol->offset};
	ssize_t n;

	if (!symbol->offset)
		return place;
	n = pread(fd, body, len <= ZN_ENTRY_BODY ? len + PLACE_CODE : PLACE_CODE, (off_t)symbol->offset);
	used = n < (ssize_t)sizeof(symbol->code) ? (uint64_t)(n < 0 ? 0 : n) : sizeof(symbol->code);
	if (n <= 0 || memcmp(body, symbol->code, used))
		return (struct zn_place){0};
	place.entry = (uint64_t)n >= len ? zn_entry_of(body, len, symbol->room) : zn_entry_of(body, (size_t)n, 1);
	place.offset += place.entry.at;
	used = place.entry.at + PLACE_CODE;
	place.hash = zn_str_hash((struct zn_str){(const char *)body, (uint64_t)n < used ? (uint64_t)n : used});
	return place;
}

bool zn_place_same(int fd, const struct zn_place *place)
{
	ssize_t n = pread(fd, body, place->entry.at + PLACE_CODE, (off_t)(place->offset - place->entry.at));

	return n > 0 && zn_str_hash((struct zn_str){(const char *)body, (size_t)n}) == place->hash;
}
