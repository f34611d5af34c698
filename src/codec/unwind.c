/* SPDX-License-Identifier: GPL-2.0 */
/*
 * unwind.c: one step from a function to its caller, by the tables that compilers write for exceptions (.eh_frame, found
 * by .eh_frame_hdr), of a file that nobody vouches for, and a copy of a thread's stack. x86-64 alone.
 *
 * A step is right or it is not made: what the tables do not say, or say in a way that is not known here, is an end; a
 * register that is not known is not used; the caller's stack lies above; and an address that is returned to has a call
 * before it. It reads with pread() alone, at most so many bytes as the caller allows.
 *
 * The forms are those of the Linux Standard Base, chapter 10.6 (.eh_frame), and of DWARF 5, chapter 6.4.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"

#define ENTRY_MAX      4096 /* bytes of an entry of .eh_frame; the longest of PyTorch has some 2,000 */
#define CALL_LONGEST   8
#define EXPRESSION_MAX 64 /* operations */
#define DEPTH_MAX      16
#define STATES_MAX     8
#define REG_SP         7
#define REG_RA         16

#define PE_OMIT    0xff
#define PE_PCREL   0x10
#define PE_DATAREL 0x30

/* Bytes that are read in order. failed: there were none left, or it is no form that is known. */
struct bytes {
	const uint8_t *at, *end;
	bool failed;
};

enum rule_kind { SAME, UNDEFINED, AT_CFA, IS_CFA, REGISTER, AT_EXPRESSION, IS_EXPRESSION };
struct rule {
	enum rule_kind kind;
	int64_t value; /* offset, or register */
	struct bytes expression;
};

struct rules {
	struct rule reg[ZN_UNWIND_REGS];
	bool by_expression;
	uint64_t cfa_reg;
	int64_t cfa_offset;
	struct bytes cfa_expression;
};

/* What an entry and its common part say of the function. */
struct entry {
	uint64_t begin, size; /* addresses, as the file has them */
	struct bytes common, own;
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool augmented, signal;
	uint8_t common_bytes[ENTRY_MAX], own_bytes[ENTRY_MAX];
};

/* ---- Bytes. ---- */

static uint64_t take_fixed(struct bytes *b, size_t len)
{
	uint64_t value = 0;

	if ((size_t)(b->end - b->at) < len) {
		b->failed = true;
		return 0;
	}
	memcpy(&value, b->at, len);
	b->at += len;
	return value;
}

static uint64_t take_leb(struct bytes *b, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)take_fixed(b, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !b->failed);
	if (is_signed && byte & 0x40 && shift < 64)
		value |= ~0ULL << shift;
	return value;
}

static uint64_t take_uleb(struct bytes *b)
{
	return take_leb(b, false);
}

static int64_t take_sleb(struct bytes *b)
{
	return (int64_t)take_leb(b, true);
}

static struct bytes take_block(struct bytes *b)
{
	uint64_t len = take_uleb(b);
	struct bytes block = {b->at, b->at, false};

	if (len > (uint64_t)(b->end - b->at)) {
		b->failed = true;
		return block;
	}
	b->at += len;
	block.end = b->at;
	return block;
}

/* A pointer. here: the address of the field. */
static uint64_t take_pointer(struct bytes *b, uint8_t encoding, uint64_t here)
{
	uint64_t value = 0;

	switch (encoding & 0x0f) {
	case 0x00:
	case 0x04:
	case 0x0c: value = take_fixed(b, 8); break;
	case 0x02: value = take_fixed(b, 2); break;
	case 0x03: value = take_fixed(b, 4); break;
	case 0x0a: value = (uint64_t)(int16_t)take_fixed(b, 2); break;
	case 0x0b: value = (uint64_t)(int32_t)take_fixed(b, 4); break;
	default: b->failed = true;
	}
	if ((encoding & 0xf0) == PE_PCREL)
		value += here;
	else if (encoding & 0xf0)
		b->failed = true;
	return value;
}

/* ---- The file. ---- */

bool zn_unwind_read(struct zn_unwind_file *f, uint64_t at, void *to, size_t len)
{
	ssize_t n;

	if (len > f->budget || at > f->size || len > f->size - at || (f->until_ns && zn_now_ns() > f->until_ns))
		return false;
	f->budget -= len;
	do
		n = pread(f->fd, to, len, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)len;
}

static const struct zn_unwind_segment *segment_at(const struct zn_unwind_file *f, uint64_t address)
{
	for (size_t i = 0; i < f->segments; i++)
		if (address >= f->segment[i].address && address - f->segment[i].address < f->segment[i].len)
			return &f->segment[i];
	return NULL;
}

static bool read_address(struct zn_unwind_file *f, uint64_t address, void *to, size_t len)
{
	const struct zn_unwind_segment *s = segment_at(f, address);

	return s && len <= s->len - (address - s->address) &&
		zn_unwind_read(f, s->offset + address - s->address, to, len);
}

static void add_segment(struct zn_unwind_file *f, const Elf64_Phdr *p)
{
	if (p->p_type == PT_LOAD && p->p_filesz && f->segments < ZN_LEN(f->segment) && p->p_offset <= f->size)
		f->segment[f->segments++] = (struct zn_unwind_segment){.address = p->p_vaddr,
			.offset = p->p_offset,
			.len = p->p_filesz < f->size - p->p_offset ? p->p_filesz : f->size - p->p_offset,
			.executable = p->p_flags & PF_X};
	if (p->p_type == PT_GNU_EH_FRAME)
		f->table = p->p_vaddr;
}

bool zn_unwind_open(struct zn_unwind_file *f, int fd, uint64_t budget, uint64_t until_ns)
{
	Elf64_Ehdr head;
	Elf64_Phdr p;
	struct stat st;

	*f = (struct zn_unwind_file){.fd = fd, .budget = budget, .until_ns = until_ns};
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	f->size = (uint64_t)st.st_size;
	if (!zn_unwind_read(f, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
		head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_X86_64 ||
		head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > ZN_UNWIND_SEGMENTS)
		return false;
	f->sections_at = head.e_shentsize == sizeof(Elf64_Shdr) ? head.e_shoff : 0;
	f->sections = head.e_shnum;
	for (uint16_t i = 0; i < head.e_phnum; i++) {
		if (!zn_unwind_read(f, head.e_phoff + i * sizeof(p), &p, sizeof(p)))
			return false;
		add_segment(f, &p);
	}
	return true;
}

bool zn_unwind_address(const struct zn_unwind_file *f, uint64_t offset, uint64_t *address)
{
	for (size_t i = 0; i < f->segments; i++) {
		const struct zn_unwind_segment *s = &f->segment[i];

		if (s->executable && offset >= s->offset && offset - s->offset < s->len) {
			*address = offset - s->offset + s->address;
			return true;
		}
	}
	return false;
}

/* ---- Which entry is the function's. ---- */

/* The sorted table: two addresses a row, of 4 bytes each, from its own beginning. */
static bool search_table(struct zn_unwind_file *f, uint64_t rows_at, uint32_t rows, uint64_t pc, uint64_t *entry)
{
	uint32_t low = 0, high = rows;
	int32_t row[2];

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (!read_address(f, rows_at + 8ULL * middle, row, sizeof(row)))
			return false;
		if (f->table + (uint64_t)(int64_t)row[0] <= pc)
			low = middle;
		else
			high = middle;
	}
	if (!rows || !read_address(f, rows_at + 8ULL * low, row, sizeof(row)))
		return false;
	*entry = f->table + (uint64_t)(int64_t)row[1];
	return f->table + (uint64_t)(int64_t)row[0] <= pc;
}

static bool find_entry(struct zn_unwind_file *f, uint64_t pc, uint64_t *entry)
{
	uint8_t head[12];
	uint32_t rows;

	if (!f->table || !read_address(f, f->table, head, sizeof(head)))
		return false;
	/* version; how .eh_frame, the count and the rows are written: what all linkers do, or it is not read */
	if (head[0] != 1 || head[1] != (PE_PCREL | 0x0b) || head[2] != 0x03 || head[3] != (PE_DATAREL | 0x0b))
		return false;
	memcpy(&rows, head + 8, sizeof(rows));
	return search_table(f, f->table + 12, rows, pc, entry);
}

/* The bytes behind the length of an entry. */
static bool read_entry(struct zn_unwind_file *f, uint64_t at, uint8_t to[ENTRY_MAX], struct bytes *b)
{
	uint32_t len;

	if (!read_address(f, at, &len, sizeof(len)) || len < 4 || len > ENTRY_MAX || !read_address(f, at + 4, to, len))
		return false;
	*b = (struct bytes){to, to + len, false};
	return true;
}

/* What the letters of an augmentation stand for, in their order. */
static void read_augmentation(struct entry *e, struct bytes *b, const char *letters)
{
	struct bytes data;

	e->augmented = letters[0] == 'z';
	if (!e->augmented) {
		b->failed |= letters[0] != '\0';
		return;
	}
	data = take_block(b);
	for (letters++; *letters && !data.failed; letters++) {
		uint8_t encoding;

		switch (*letters) {
		case 'R': e->encoding = (uint8_t)take_fixed(&data, 1); break;
		case 'L': take_fixed(&data, 1); break;
		case 'S': e->signal = true; break;
		case 'P':
			encoding = (uint8_t)take_fixed(&data, 1);
			take_pointer(&data, encoding & 0x0f, 0);
			break;
		default: b->failed = true; return;
		}
	}
	b->failed |= data.failed;
}

static bool read_common(struct zn_unwind_file *f, uint64_t at, struct entry *e)
{
	char letters[8] = "";
	uint8_t version;
	size_t i = 0;

	if (!read_entry(f, at, e->common_bytes, &e->common) || take_fixed(&e->common, 4) != 0)
		return false;
	version = (uint8_t)take_fixed(&e->common, 1);
	if (version != 1 && version != 3)
		return false;
	for (char c; (c = (char)take_fixed(&e->common, 1)) && i < sizeof(letters) - 1; i++)
		letters[i] = c;
	if (i == sizeof(letters) - 1)
		return false;
	e->code_align = take_uleb(&e->common);
	e->data_align = take_sleb(&e->common);
	if ((version == 1 ? take_fixed(&e->common, 1) : take_uleb(&e->common)) != REG_RA)
		return false;
	read_augmentation(e, &e->common, letters);
	return !e->common.failed;
}

static bool read_function(struct zn_unwind_file *f, uint64_t at, uint64_t pc, struct entry *e)
{
	uint64_t common;

	e->signal = e->augmented = false;
	e->encoding = 0;
	if (!read_entry(f, at, e->own_bytes, &e->own))
		return false;
	common = take_fixed(&e->own, 4);
	if (!common || !read_common(f, at + 4 - common, e))
		return false;
	e->begin = take_pointer(&e->own, e->encoding, at + 8);
	e->size = take_pointer(&e->own, e->encoding & 0x0f, 0);
	if (e->augmented)
		take_block(&e->own);
	return !e->own.failed && pc >= e->begin && pc - e->begin < e->size;
}

/* ---- What the entry's instructions say at an address. ---- */

struct machine {
	const struct entry *e;
	struct rules now, first, kept[STATES_MAX]; /* first: after the common part */
	size_t kept_count;
	uint64_t at, pc;
};

static struct rule *rule_of(struct machine *m, uint64_t reg)
{
	static struct rule none;

	return reg < ZN_UNWIND_REGS ? &m->now.reg[reg] : &none; /* registers of vectors are of no interest */
}

static void set_rule(struct machine *m, uint64_t reg, enum rule_kind kind, int64_t value)
{
	*rule_of(m, reg) = (struct rule){.kind = kind, .value = value};
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->now.by_expression = false;
	m->now.cfa_reg = reg;
	m->now.cfa_offset = offset;
}

static int64_t scale_offset(const struct machine *m, int64_t value)
{
	return (int64_t)((uint64_t)value * (uint64_t)m->e->data_align);
}

static bool keep_state(struct machine *m)
{
	if (m->kept_count == STATES_MAX)
		return false;
	m->kept[m->kept_count++] = m->now;
	return true;
}

static bool return_state(struct machine *m)
{
	if (!m->kept_count)
		return false;
	m->now = m->kept[--m->kept_count];
	return true;
}

static void restore_rule(struct machine *m, uint64_t reg)
{
	if (reg < ZN_UNWIND_REGS)
		m->now.reg[reg] = m->first.reg[reg];
}

enum operand { PLAIN, SCALED, SCALED_SIGNED };

/* A register, and then its offset or the other register. */
static bool take_rule(struct machine *m, struct bytes *b, enum rule_kind kind, enum operand operand)
{
	uint64_t reg = take_uleb(b);
	int64_t value = (int64_t)take_leb(b, operand == SCALED_SIGNED);

	set_rule(m, reg, kind, operand == PLAIN ? value : scale_offset(m, value));
	return true;
}

static bool take_cfa(struct machine *m, struct bytes *b, enum operand operand)
{
	uint64_t reg = take_uleb(b);
	int64_t offset = (int64_t)take_leb(b, operand == SCALED_SIGNED);

	set_cfa(m, reg, operand == PLAIN ? offset : scale_offset(m, offset));
	return true;
}

static bool take_expression(struct machine *m, struct bytes *b, enum rule_kind kind)
{
	uint64_t reg = take_uleb(b);

	*rule_of(m, reg) = (struct rule){.kind = kind, .expression = take_block(b)};
	return true;
}

/* DW_CFA_*, those with their operand in the byte itself left out. False: it is not known here. */
static bool run_extended(struct machine *m, struct bytes *b, uint8_t op)
{
	uint64_t unit = m->e->code_align;

	switch (op) {
	case 0x00: return true; /* nop */
	case 0x02: m->at += take_fixed(b, 1) * unit; return true;
	case 0x03: m->at += take_fixed(b, 2) * unit; return true;
	case 0x04: m->at += take_fixed(b, 4) * unit; return true;
	case 0x05: return take_rule(m, b, AT_CFA, SCALED); /* offset_extended */
	case 0x06: restore_rule(m, take_uleb(b)); return true;
	case 0x07: set_rule(m, take_uleb(b), UNDEFINED, 0); return true;
	case 0x08: set_rule(m, take_uleb(b), SAME, 0); return true;
	case 0x09: return take_rule(m, b, REGISTER, PLAIN);
	case 0x0a: return keep_state(m);
	case 0x0b: return return_state(m);
	case 0x0c: return take_cfa(m, b, PLAIN); /* def_cfa */
	case 0x0d: m->now.cfa_reg = take_uleb(b); return !m->now.by_expression;
	case 0x0e: m->now.cfa_offset = (int64_t)take_uleb(b); return !m->now.by_expression;
	case 0x0f: /* def_cfa_expression */
		m->now.by_expression = true;
		m->now.cfa_expression = take_block(b);
		return true;
	case 0x10: return take_expression(m, b, AT_EXPRESSION);
	case 0x11: return take_rule(m, b, AT_CFA, SCALED_SIGNED); /* offset_extended_sf */
	case 0x12: return take_cfa(m, b, SCALED_SIGNED);          /* def_cfa_sf */
	case 0x13: m->now.cfa_offset = scale_offset(m, take_sleb(b)); return !m->now.by_expression;
	case 0x14: return take_rule(m, b, IS_CFA, SCALED);        /* val_offset */
	case 0x15: return take_rule(m, b, IS_CFA, SCALED_SIGNED); /* val_offset_sf */
	case 0x16: return take_expression(m, b, IS_EXPRESSION);
	case 0x2e: take_uleb(b); return true; /* GNU_args_size: of no matter here */
	}
	return false;
}

static bool run_instruction(struct machine *m, struct bytes *b)
{
	uint8_t op = (uint8_t)take_fixed(b, 1);

	switch (op & 0xc0) {
	case 0x40: m->at += (op & 0x3f) * m->e->code_align; return true;
	case 0x80: set_rule(m, op & 0x3f, AT_CFA, scale_offset(m, (int64_t)take_uleb(b))); return true;
	case 0xc0: restore_rule(m, op & 0x3f); return true;
	}
	return run_extended(m, b, op);
}

/* As far as they are about the address. */
static bool run_instructions(struct machine *m, struct bytes b)
{
	struct rules before = m->now;

	while (b.at < b.end) {
		before = m->now;
		if (!run_instruction(m, &b) || b.failed)
			return false;
		if (m->at > m->pc) {
			m->now = before;
			break;
		}
	}
	return true;
}

/* Who is called keeps these (System V ABI); of all others the caller knows nothing. */
static void set_defaults(struct rules *r)
{
	*r = (struct rules){.cfa_reg = ZN_UNWIND_REGS};
	for (int reg = 0; reg < ZN_UNWIND_REGS; reg++)
		r->reg[reg].kind = reg == 3 || reg == 6 || (reg >= 12 && reg <= 15) ? SAME : UNDEFINED;
	r->reg[REG_RA] =
		(struct rule){.kind = REGISTER, .value = ZN_UNWIND_REGS}; /* it must be said, or is not known */
}

static bool find_rules(const struct entry *e, uint64_t pc, struct rules *to)
{
	static __thread struct machine m;

	m.e = e;
	m.kept_count = 0;
	m.at = e->begin;
	m.pc = pc;
	set_defaults(&m.now);
	m.first = m.now;
	if (!run_instructions(&m, e->common) || m.at != e->begin)
		return false;
	m.first = m.now;
	if (!run_instructions(&m, e->own))
		return false;
	*to = m.now;
	return true;
}

/* ---- Values. ---- */

struct evaluation {
	const struct zn_unwind_stack *stack;
	const struct zn_unwind_regs *regs;
	uint64_t value[DEPTH_MAX];
	size_t depth;
};

static bool read_stack(const struct zn_unwind_stack *s, uint64_t at, uint64_t *to)
{
	if (at < s->from || at - s->from > s->len || s->len - (at - s->from) < sizeof(*to))
		return false;
	memcpy(to, s->bytes + (at - s->from), sizeof(*to));
	return true;
}

static bool read_register(const struct zn_unwind_regs *r, uint64_t reg, uint64_t *to)
{
	if (reg >= ZN_UNWIND_REGS || !(r->known >> reg & 1))
		return false;
	*to = r->reg[reg];
	return true;
}

static bool push_value(struct evaluation *v, uint64_t value)
{
	if (v->depth == DEPTH_MAX)
		return false;
	v->value[v->depth++] = value;
	return true;
}

static bool take_two(struct evaluation *v, uint64_t *a, uint64_t *b)
{
	if (v->depth < 2)
		return false;
	*b = v->value[--v->depth];
	*a = v->value[--v->depth];
	return true;
}

static bool run_binary(struct evaluation *v, uint8_t op)
{
	uint64_t a, b;

	if (!take_two(v, &a, &b))
		return false;
	switch (op) {
	case 0x1a: return push_value(v, a & b);
	case 0x1c: return push_value(v, a - b);
	case 0x1e: return push_value(v, a * b);
	case 0x21: return push_value(v, a | b);
	case 0x22: return push_value(v, a + b);
	case 0x24: return b < 64 && push_value(v, a << b);
	case 0x25: return b < 64 && push_value(v, a >> b);
	case 0x29: return push_value(v, a == b);
	case 0x2a: return push_value(v, (int64_t)a >= (int64_t)b);
	case 0x2b: return push_value(v, (int64_t)a > (int64_t)b);
	case 0x2c: return push_value(v, (int64_t)a <= (int64_t)b);
	case 0x2d: return push_value(v, (int64_t)a < (int64_t)b);
	case 0x2e: return push_value(v, a != b);
	}
	return false;
}

/* DW_OP_*. False: it is not known here. */
static bool run_operation(struct evaluation *v, struct bytes *b)
{
	uint8_t op = (uint8_t)take_fixed(b, 1);
	uint64_t value;

	if (op >= 0x30 && op <= 0x4f) /* lit */
		return push_value(v, op - 0x30u);
	if (op >= 0x70 && op <= 0x8f) /* breg */
		return read_register(v->regs, op - 0x70u, &value) && push_value(v, value + (uint64_t)take_sleb(b));
	switch (op) {
	case 0x06: return v->depth && read_stack(v->stack, v->value[v->depth - 1], &v->value[v->depth - 1]);
	case 0x08: return push_value(v, take_fixed(b, 1));
	case 0x09: return push_value(v, (uint64_t)(int8_t)take_fixed(b, 1));
	case 0x10: return push_value(v, take_uleb(b));
	case 0x11: return push_value(v, (uint64_t)take_sleb(b));
	case 0x23: value = take_uleb(b); return v->depth && ((v->value[v->depth - 1] += value), true);
	}
	return run_binary(v, op);
}

static bool run_expression(struct evaluation *v, struct bytes b, const uint64_t *first, uint64_t *to)
{
	v->depth = 0;
	if (first)
		push_value(v, *first);
	for (int i = 0; b.at < b.end; i++)
		if (i == EXPRESSION_MAX || !run_operation(v, &b) || b.failed)
			return false;
	*to = v->depth ? v->value[v->depth - 1] : 0;
	return v->depth;
}

static bool find_cfa(struct evaluation *v, const struct rules *r, uint64_t *cfa)
{
	if (r->by_expression)
		return run_expression(v, r->cfa_expression, NULL, cfa);
	if (!read_register(v->regs, r->cfa_reg, cfa))
		return false;
	*cfa += (uint64_t)r->cfa_offset;
	return true;
}

static bool apply_rule(struct evaluation *v, const struct rule *r, uint64_t reg, uint64_t cfa, uint64_t *to)
{
	switch (r->kind) {
	case SAME: return read_register(v->regs, reg, to);
	case UNDEFINED: return false;
	case AT_CFA: return read_stack(v->stack, cfa + (uint64_t)r->value, to);
	case IS_CFA: *to = cfa + (uint64_t)r->value; return true;
	case REGISTER: return read_register(v->regs, (uint64_t)r->value, to);
	case AT_EXPRESSION: return run_expression(v, r->expression, &cfa, to) && read_stack(v->stack, *to, to);
	case IS_EXPRESSION: return run_expression(v, r->expression, &cfa, to);
	}
	return false;
}

enum zn_unwind_step zn_unwind_step(
	struct zn_unwind_file *f, uint64_t pc, const struct zn_unwind_stack *stack, struct zn_unwind_regs *regs)
{
	static __thread struct entry e;
	static __thread struct rules r;
	struct evaluation v = {.stack = stack, .regs = regs};
	struct zn_unwind_regs caller = {0};
	uint64_t at, cfa;

	if (!find_entry(f, pc, &at) || !read_function(f, at, pc, &e) || !find_rules(&e, pc, &r))
		return ZN_UNWIND_LOST;
	if (r.reg[REG_RA].kind == UNDEFINED)
		return ZN_UNWIND_END;
	if (!find_cfa(&v, &r, &cfa))
		return ZN_UNWIND_LOST;
	for (uint64_t reg = 0; reg < ZN_UNWIND_REGS; reg++)
		if (apply_rule(&v, &r.reg[reg], reg, cfa, &caller.reg[reg]))
			caller.known |= 1u << reg;
	if (!(caller.known >> REG_SP & 1)) {
		caller.reg[REG_SP] = cfa;
		caller.known |= 1u << REG_SP;
	}
	if (!(caller.known >> REG_RA & 1) || caller.reg[REG_SP] <= regs->reg[REG_SP])
		return ZN_UNWIND_LOST;
	caller.interrupted = e.signal;
	*regs = caller;
	return ZN_UNWIND_CALLER;
}

bool zn_unwind_is_signal(struct zn_unwind_file *f, uint64_t pc)
{
	static __thread struct entry e;
	uint64_t at;

	return find_entry(f, pc, &at) && read_function(f, at, pc, &e) && e.signal;
}

/* ---- Calls. ---- */

bool zn_unwind_is_behind_call(struct zn_unwind_file *f, uint64_t address)
{
	uint8_t code[CALL_LONGEST];

	for (size_t len = sizeof(code); len >= 2; len--)
		if (read_address(f, address - len, code, len))
			return zn_callsite_ends(code, len);
	return false;
}
