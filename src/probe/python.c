/* SPDX-License-Identifier: GPL-2.0 */
/*
 * python.c: finds CPython in a process, and reads what its functions are called. Where things lie is a row for each
 * version from 3.8 on; a version without a row, or an interpreter that is not what its row says, is told by name and
 * never guessed at.
 *
 * The process may change while it is read, and may be hostile: each chain has an end, each size a limit, and what was
 * found is checked by what it must lead to: code objects that are code objects, a second thread that confirms the
 * first.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define PYTHON_TABLE     65536 /* bytes of a function's table of lines */
#define ELF_BUDGET_BYTES ((size_t)64 << 20)
#define CHAIN_MAX        4096 /* threads, interpreters and frames that are followed */
#define SEARCH_BYTES     4096 /* beside the thread pointer */
#define NOT_THERE        (-1)
#define OBJECT_TYPE      8
#define BYTES_SIZE       16
#define BYTES_DATA       32
#define TEXT_LENGTH      16
#define TEXT_STATE       32

/* Offsets in bytes, of headers of each version for x86-64. */
struct zn_python_layout {
	uint8_t minor;
	uint16_t interpreters; /* of _PyRuntime: the first interpreter */
	uint16_t threads, next_interpreter;
	uint8_t thread_id; /* of a thread state; its next one is at 8 in all versions */
	uint8_t frame, cframe;
	uint8_t code, back, instruction, owner, skip_from, frame_bytes, kind;
	uint8_t first_line, file, name, lines;
	uint8_t first;                 /* instructions */
	uint8_t text_ascii, text_wide; /* of a text: its characters */
	uint8_t form;                  /* enum zn_pycode_lines */
	bool slot_below; /* the thread's state is a variable below the thread pointer, not a specific value above it */
	uint16_t debug
		[3]; /* where the table of offsets at _PyRuntime has that of a thread's frame, a frame's previous and
					  its instruction; 0: it has no table */
};

static const struct zn_python_layout layouts[] = {
	{8, 32, 8, 0, 176, 24, ZN_PY_NO_CFRAME, 32, 24, 104, 0, 0, 112, ZN_PY_LASTI_BYTES, 40, 104, 112, 120, 0, 48, 72,
		ZN_PYCODE_PAIRS, false, {0}},
	{9, 32, 8, 0, 176, 24, ZN_PY_NO_CFRAME, 32, 24, 104, 0, 0, 112, ZN_PY_LASTI_BYTES, 40, 104, 112, 120, 0, 48, 72,
		ZN_PYCODE_PAIRS, false, {0}},
	{10, 32, 8, 0, 176, 24, ZN_PY_NO_CFRAME, 32, 24, 96, 0, 0, 112, ZN_PY_LASTI_UNITS, 40, 104, 112, 120, 0, 48, 72,
		ZN_PYCODE_RANGES, false, {0}},
	{11, 40, 16, 0, 152, 56, 8, 32, 48, 56, 69, 0, 80, ZN_PY_POINTER, 72, 112, 128, 136, 184, 48, 72,
		ZN_PYCODE_ENTRIES, false, {0}},
	{12, 40, 72, 0, 136, 56, 0, 0, 8, 56, 70, 3, 80, ZN_PY_POINTER, 68, 112, 128, 136, 192, 40, 56,
		ZN_PYCODE_ENTRIES, false, {0}},
	{13, 632, 7344, 7264, 152, 72, ZN_PY_NO_CFRAME, 0, 8, 56, 70, 3, 80, ZN_PY_POINTER, 68, 112, 128, 136, 200, 40,
		56, ZN_PYCODE_ENTRIES, false, {184, 232, 248}},
	{14, 808, 7344, 7272, 152, 72, ZN_PY_NO_CFRAME, 0, 8, 56, 74, 3, 80, ZN_PY_POINTER, 68, 112, 128, 136, 208, 40,
		56, ZN_PYCODE_ENTRIES, false, {208, 256, 272}},
	{15, 936, 7336, 7264, 176, 72, ZN_PY_NO_CFRAME, 0, 8, 56, 74, 3, 80, ZN_PY_POINTER, 68, 112, 128, 136, 208, 40,
		56, ZN_PYCODE_ENTRIES, true, {208, 320, 336}},
};

/* ---- Memory of the process. ---- */

/* Not /proc/PID/mem: whoever reads that waits for a page with the process's map of memory locked, and cannot be killed. */
static bool read_memory(const struct zn_python_process *p, uint64_t at, void *to, size_t len)
{
	struct iovec here = {to, len}, there = {.iov_len = len};

	memcpy(&there.iov_base, &at, sizeof(at)); /* an address of the other process */
	return process_vm_readv((pid_t)p->pid, &here, 1, &there, 1, 0) == (ssize_t)len;
}

static bool read_word(const struct zn_python_process *p, uint64_t at, uint64_t *to)
{
	return read_memory(p, at, to, sizeof(*to));
}

int zn_python_readable(const struct zn_python_process *p)
{
	uint64_t word;

	if (read_word(p, p->code_type, &word))
		return 0;
	return errno == EFAULT ? -ESRCH : -errno;
}

/* ---- Which file is the interpreter. ---- */

/* The mapping of the beginning of a file that may be one: the library if there is one, else the program. */
struct candidate {
	uint64_t from, to;
	int minor; /* by its name; below 0: it has none */
	bool library;
	char program[PATH_MAX];
};

/* "libpython3.9.so.1.0", "python3.9". */
static int minor_of(const char *name, const char *begin)
{
	size_t len = strlen(begin);
	char *end;
	long minor;

	if (strncmp(name, begin, len) || name[len] < '0' || name[len] > '9')
		return NOT_THERE;
	minor = strtol(name + len, &end, 10);
	return minor < 256 ? (int)minor : NOT_THERE;
}

static void visit_mapping(void *to, uint32_t pid, const char *line, size_t len)
{
	struct candidate *c = to;
	const char *path = zn_maps_path(line), *name;
	unsigned long from, end, offset;
	char text[PATH_MAX], perms[5];
	bool library;

	(void)pid;
	if (!path || c->library || len - (size_t)(path - line) >= sizeof(text) ||
		sscanf(line, "%lx-%lx %4s %lx", &from, &end, perms, &offset) != 4 || offset)
		return;
	memcpy(text, path, len - (size_t)(path - line));
	text[len - (size_t)(path - line)] = '\0';
	name = strrchr(text, '/') + 1;
	library = minor_of(name, "libpython3.") >= 0;
	if (!library && (c->from || strcmp(text, c->program)))
		return;
	c->library = library;
	c->from = from;
	c->to = end;
	c->minor = minor_of(name, library ? "libpython3." : "python3.");
}

static bool find_candidate(uint32_t pid, struct candidate *c)
{
	static __thread struct zn_maps maps;
	char path[32];
	ssize_t n;

	*c = (struct candidate){.minor = NOT_THERE};
	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	n = readlink(path, c->program, sizeof(c->program) - 1);
	c->program[n > 0 ? n : 0] = '\0';
	zn_maps_open(&maps, "/proc", pid);
	for (int steps = 0; steps < CHAIN_MAX && !c->library && zn_maps_step(&maps, visit_mapping, c); steps++)
		;
	zn_maps_close(&maps);
	return c->from;
}

enum { RUNTIME, CODE_TYPE, VERSION, SYMBOLS };

/* -ENOENT: the file is no interpreter. -ENOTSUP: by its name it is one, and why says what is wrong with it. */
static int read_symbols(uint32_t pid, const struct candidate *c, struct zn_elf_symbol symbol[SYMBOLS], uint64_t *bias,
	char why[ZN_TEXT_MAX])
{
	char path[80];
	const char *wrong;
	uint64_t base;
	int fd;

	symbol[RUNTIME].name = "_PyRuntime";
	symbol[CODE_TYPE].name = "PyCode_Type";
	symbol[VERSION].name = "Py_Version";
	snprintf(path, sizeof(path), "/proc/%u/map_files/%lx-%lx", pid, c->from, c->to);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -ENOENT;
	zn_elf_variables(fd, symbol, SYMBOLS, ELF_BUDGET_BYTES, &base, &wrong);
	close(fd);
	*bias = c->from - base;
	if (symbol[RUNTIME].offset && symbol[CODE_TYPE].offset)
		return 0;
	if (!*wrong || c->minor == NOT_THERE)
		return -ENOENT;
	snprintf(why, ZN_TEXT_MAX, "symbols of CPython 3.%d: %s", c->minor, wrong);
	return -ENOTSUP;
}

static const struct zn_python_layout *layout_of(int minor)
{
	for (size_t i = 0; i < ZN_LEN(layouts); i++)
		if (layouts[i].minor == minor)
			return &layouts[i];
	return NULL;
}

bool zn_python_known(struct zn_python_process *p)
{
	p->layout = layout_of(p->minor);
	return p->layout;
}

/* From 3.13 on an interpreter tells debuggers its own offsets: they must be those of the row. */
static bool says_the_same(
	const struct zn_python_process *p, const struct zn_python_layout *l, uint64_t runtime, char why[ZN_TEXT_MAX])
{
	const uint64_t expected[] = {l->frame, l->back, l->instruction};
	uint64_t word[3]; /* cookie, version, free-threaded */

	if (!l->debug[0])
		return true;
	if (!read_memory(p, runtime, word, sizeof(word)) || memcmp(word, "xdebugpy", 8)) {
		snprintf(why, ZN_TEXT_MAX, "CPython 3.%u without its table of offsets", l->minor);
		return false;
	}
	if (word[2]) {
		snprintf(why, ZN_TEXT_MAX, "CPython 3.%u without the global lock (free-threaded) is not known",
			l->minor);
		return false;
	}
	for (size_t i = 0; i < ZN_LEN(expected); i++)
		if (!read_word(p, runtime + l->debug[i], word) || word[0] != expected[i]) {
			snprintf(why, ZN_TEXT_MAX, "CPython 3.%u with other offsets than the released one", l->minor);
			return false;
		}
	return true;
}

/* ---- Its threads. ---- */

/* The end of a chain: the oldest, for new ones are put first. before: the one that leads to it. */
static bool last_of(
	const struct zn_python_process *p, uint64_t head, uint16_t next_at, uint64_t *last, uint64_t *before)
{
	uint64_t next = head;

	*last = *before = 0;
	for (int i = 0; next && i < CHAIN_MAX; i++) {
		*before = *last;
		*last = next;
		if (!read_word(p, next + next_at, &next))
			return false;
	}
	return *last && !next;
}

static bool newest_frame(const struct zn_python_process *p, uint64_t state, uint64_t *frame)
{
	const struct zn_python_layout *l = p->layout;

	if (!read_word(p, state + l->frame, frame))
		return false;
	return l->cframe == ZN_PY_NO_CFRAME || !*frame || read_word(p, *frame + l->cframe, frame);
}

/* Whether a thread's frames are frames of code objects, to the end. False: they are not, or just move. */
static bool frames_are_right(const struct zn_python_process *p, uint64_t state)
{
	const struct zn_python_layout *l = p->layout;
	uint64_t frame, code, type;
	uint8_t bytes[256] = {0}; /* a field may begin at any of the first 128 */
	int count = 0;

	if (!newest_frame(p, state, &frame))
		return false;
	for (int i = 0; frame && i < CHAIN_MAX; i++) {
		if (!read_memory(p, frame, bytes, l->frame_bytes))
			return false;
		memcpy(&frame, bytes + l->back, sizeof(frame));
		memcpy(&code, bytes + l->code, sizeof(code));
		if (l->skip_from && bytes[l->owner] >= l->skip_from)
			continue;
		if (!read_word(p, (code & ~15ULL) + OBJECT_TYPE, &type) || type != p->code_type)
			return false;
		count++;
	}
	return count && !frame;
}

/* Where the word `value` lies beside the thread pointer: the lowest place above it, or the lowest one below. */
static int find_word(const struct zn_python_process *p, uint64_t pointer, uint64_t value, bool below)
{
	uint64_t word[SEARCH_BYTES / sizeof(uint64_t)];
	uint64_t from = below ? pointer - SEARCH_BYTES : pointer;

	/* what is mapped may end within */
	for (int part = 0; part < SEARCH_BYTES; part += 8)
		if (!read_memory(p, from + (uint64_t)part, &word[part / 8], 8))
			word[part / 8] = 0;
	for (int i = 1; i < SEARCH_BYTES / 8; i++) /* the first word is the thread pointer itself */
		if (word[i] == value)
			return below ? i * 8 - SEARCH_BYTES : i * 8;
	return 0;
}

/* Where every thread keeps its state. A second thread, if there is one, must have its own there too. */
static int find_slot(struct zn_python_process *p, uint64_t oldest, uint64_t second)
{
	const struct zn_python_layout *l = p->layout;
	uint64_t pointer, word;
	int slot;

	if (!read_word(p, oldest + l->thread_id, &pointer))
		return 0;
	p->row.main_pointer = pointer;
	slot = find_word(p, p->row.main_pointer, oldest, l->slot_below);
	if (!slot || !second)
		return slot;
	if (!read_word(p, second + l->thread_id, &pointer) || !read_word(p, pointer + (uint64_t)slot, &word))
		return 0;
	return word == second ? slot : 0;
}

static void row_fill(struct zn_python_process *p, int slot, uint64_t oldest)
{
	const struct zn_python_layout *l = p->layout;
	struct zn_python *r = &p->row;

	r->slot = slot;
	r->main_state = oldest;
	r->frame_at = l->frame;
	r->cframe_at = l->cframe;
	r->code_at = l->code;
	r->back_at = l->back;
	r->instruction_at = l->instruction;
	r->owner_at = l->owner;
	r->skip_from = l->skip_from ? l->skip_from : 0xff;
	r->frame_bytes = l->frame_bytes;
	r->first_at = l->first;
	r->kind = l->kind;
}

/* -EAGAIN: not now; it may have just begun. */
static int find_threads(struct zn_python_process *p, uint64_t runtime, char why[ZN_TEXT_MAX])
{
	const struct zn_python_layout *l = p->layout;
	uint64_t head, interpreter, threads, oldest, second, none;
	int slot;

	snprintf(why, ZN_TEXT_MAX, "the threads of CPython 3.%u cannot be read", l->minor);
	if (!read_word(p, runtime + l->interpreters, &head) ||
		!last_of(p, head, l->next_interpreter, &interpreter, &none) ||
		!read_word(p, interpreter + l->threads, &threads) || !last_of(p, threads, 8, &oldest, &second))
		return -EAGAIN;
	if (!frames_are_right(p, oldest)) {
		snprintf(why, ZN_TEXT_MAX, "the frames of CPython 3.%u are not where they should be", l->minor);
		return -EAGAIN;
	}
	slot = find_slot(p, oldest, second);
	if (!slot) {
		snprintf(why, ZN_TEXT_MAX, "where threads of CPython 3.%u keep their state was not found", l->minor);
		return -EAGAIN;
	}
	row_fill(p, slot, oldest);
	return 0;
}

int zn_python_find(struct zn_python_process *p, char why[ZN_TEXT_MAX])
{
	struct zn_elf_symbol symbol[SYMBOLS] = {0};
	struct candidate c;
	uint64_t bias, version = 0;
	int minor, err;

	why[0] = '\0';
	err = find_candidate(p->pid, &c) ? read_symbols(p->pid, &c, symbol, &bias, why) : -ENOENT;
	if (err)
		return err;
	p->row = (struct zn_python){0};
	p->code_type = symbol[CODE_TYPE].offset + bias;
	minor = c.minor;
	if (symbol[VERSION].offset && read_word(p, symbol[VERSION].offset + bias, &version))
		minor = version >> 24 == 3 ? (int)(version >> 16 & 0xff) : NOT_THERE;
	p->layout = layout_of(minor);
	p->minor = (uint8_t)minor;
	if (!p->layout) {
		snprintf(why, ZN_TEXT_MAX, minor < 0 ? "a Python of unknown version" : "CPython 3.%d is not known",
			minor);
		return -ENOTSUP;
	}
	if (!says_the_same(p, p->layout, symbol[RUNTIME].offset + bias, why))
		return -ENOTSUP;
	err = find_threads(p, symbol[RUNTIME].offset + bias, why);
	if (!err)
		why[0] = '\0';
	return err;
}

/* ---- Code objects. ---- */

bool zn_python_code(const struct zn_python_process *p, uint64_t code, struct zn_python_code *to)
{
	const struct zn_python_layout *l = p->layout;
	uint8_t bytes[256];
	uint64_t type;
	int32_t first;

	*to = (struct zn_python_code){0};
	if (!read_memory(p, code, bytes, (size_t)l->lines + 8))
		return false;
	memcpy(&type, bytes + OBJECT_TYPE, sizeof(type));
	memcpy(&first, bytes + l->first_line, sizeof(first));
	memcpy(&to->file, bytes + l->file, sizeof(to->file));
	memcpy(&to->name, bytes + l->name, sizeof(to->name));
	memcpy(&to->lines, bytes + l->lines, sizeof(to->lines));
	to->first = first;
	return type == p->code_type;
}

/* tail: of a text that is too long the last characters are told, else the first. */
bool zn_python_text(const struct zn_python_process *p, uint64_t text, uint32_t most, bool tail, struct zn_out *to)
{
	const struct zn_python_layout *l = p->layout;
	uint8_t head[TEXT_STATE + 4], bytes[4 * ZN_PYTHON_TEXT];
	uint32_t state, width, from;
	uint64_t length, count;

	if (most > ZN_PYTHON_TEXT || !read_memory(p, text, head, sizeof(head)))
		return false;
	memcpy(&length, head + TEXT_LENGTH, sizeof(length));
	memcpy(&state, head + TEXT_STATE, sizeof(state));
	width = state >> 2 & 7;
	if (!(state >> 5 & 1) || (width != 1 && width != 2 && width != 4) || length > INT32_MAX)
		return false;
	count = length < most ? length : most;
	from = tail ? (uint32_t)(length - count) * width : 0;
	text += (state >> 6 & 1 ? l->text_ascii : l->text_wide) + from;
	if (count && !read_memory(p, text, bytes, count * width))
		return false;
	zn_pycode_text(to, bytes, count, width);
	return true;
}

int zn_python_line(const struct zn_python_process *p, const struct zn_python_code *code, int index)
{
	static __thread uint8_t table[PYTHON_TABLE];
	uint64_t size;

	if (!read_word(p, code->lines + BYTES_SIZE, &size) || size > sizeof(table) ||
		(size && !read_memory(p, code->lines + BYTES_DATA, table, size)))
		return ZN_PYCODE_GONE;
	return zn_pycode_line(p->layout->form, table, size, code->first, index);
}
