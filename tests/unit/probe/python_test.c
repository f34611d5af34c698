/* SPDX-License-Identifier: GPL-2.0 */
/* link: -rdynamic */
/*
 * python_test.c: this program is the interpreter: it has the symbols of one, and lays out its threads, frames, code
 * objects and texts as a version does, right and wrong. What is read is the memory of a process that may be hostile.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "folder.h"
#include "t.h"

#define THREADS  3
#define EXEC_MS  60000 /* until a child is another program, at most */
#define FRAMES   4
#define VERSION  0x030b0000 /* of 3.11, whose offsets these are */
#define THREAD   152        /* of a thread state */
#define FRAME    56
#define CFRAME   8 /* what that leads to first */
#define CODE     32
#define BACK     48
#define BYTES    256 /* room for each object */
#define SLOT     120 /* where threads keep their state, above the thread pointer */
#define ASCII    48
#define WIDE     72
#define NOWHERE  0x1000 /* no program has this mapped */
#define INFINITE 0x7fffffffffffffffULL

/* What a program is known by; the linker must keep them. */
uint8_t _PyRuntime[1024] __attribute__((aligned(16)));
uint8_t PyCode_Type[64] __attribute__((aligned(16)));
unsigned long Py_Version = VERSION;

static uint8_t interpreter[BYTES], thread[THREADS][BYTES], pointer[THREADS][BYTES], cframe[THREADS][BYTES];
static uint8_t frame[FRAMES][BYTES] __attribute__((aligned(16))), code[FRAMES][BYTES] __attribute__((aligned(16)));
static struct zn_python_process p;
static char why[ZN_TEXT_MAX];

static uint64_t address(const void *of)
{
	return (uint64_t)(uintptr_t)of;
}

static void put_word(void *at, size_t offset, uint64_t v)
{
	memcpy((uint8_t *)at + offset, &v, sizeof(v));
}

static void put_thread(int i, int next, int newest)
{
	put_word(thread[i], 8, next < THREADS ? address(thread[next]) : 0);
	put_word(thread[i], THREAD, address(pointer[i]));
	put_word(thread[i], FRAME, address(cframe[i]));
	put_word(cframe[i], CFRAME, address(frame[newest]));
	put_word(pointer[i], 0, address(pointer[i]));
	put_word(pointer[i], SLOT, address(thread[i]));
}

/* An interpreter of two threads: the newest is the first of the chain. */
static void begin(void)
{
	Py_Version = VERSION;
	memset(_PyRuntime, 0, sizeof(_PyRuntime));
	memset(interpreter, 0, sizeof(interpreter));
	memset(pointer, 0, sizeof(pointer));
	memset(frame, 0, sizeof(frame));
	put_word(_PyRuntime, 40, address(interpreter));
	put_word(interpreter, 16, address(thread[1]));
	put_thread(1, 0, 2);
	put_thread(0, THREADS, 1);
	for (int i = 0; i < FRAMES; i++) {
		put_word(code[i], 8, address(PyCode_Type));
		put_word(frame[i], CODE, address(code[i]));
	}
	put_word(frame[1], BACK, address(frame[0]));
	p = (struct zn_python_process){.pid = (uint32_t)getpid()};
}

static int find(void)
{
	return zn_python_find(&p, why);
}

T(an_interpreter_is_found)
{
	begin();
	CHECK_EQ(find(), 0);
	CHECK_STR(why, "");
	CHECK_EQ(p.minor, 11);
	CHECK_EQ(p.code_type, address(PyCode_Type));
	CHECK_EQ(p.row.slot, SLOT);
	CHECK_EQ(p.row.main_state, address(thread[0]));
	CHECK_EQ(p.row.main_pointer, address(pointer[0]));
	CHECK_EQ(p.row.frame_at, FRAME);
	CHECK_EQ(p.row.cframe_at, CFRAME);
	CHECK_EQ(p.row.code_at, CODE);
	CHECK_EQ(zn_python_readable(&p), 0);
}

T(versions_that_are_not_known_are_named)
{
	static const struct {
		unsigned long version;
		const char *why;
	} of[] = {{0x03070000, "CPython 3.7 is not known"}, {0x03630000, "CPython 3.99 is not known"},
		{0x02070000, "a Python of unknown version"}, {~0UL, "a Python of unknown version"}};

	for (size_t i = 0; i < ZN_LEN(of); i++) {
		begin();
		Py_Version = of[i].version;
		CHECK_EQ(find(), -ENOTSUP);
		CHECK_STR(why, of[i].why);
	}
}

/* From 3.13 on an interpreter has a table of its own offsets. */
T(an_interpreter_must_say_the_same_of_itself)
{
	begin();
	Py_Version = 0x030d0000;
	CHECK_EQ(find(), -ENOTSUP);
	CHECK_STR(why, "CPython 3.13 without its table of offsets");
	memcpy(_PyRuntime, "xdebugpy", 8);
	put_word(_PyRuntime, 16, 1);
	CHECK_EQ(find(), -ENOTSUP);
	CHECK(strstr(why, "free-threaded") != NULL);
	put_word(_PyRuntime, 16, 0);
	CHECK_EQ(find(), -ENOTSUP);
	CHECK_STR(why, "CPython 3.13 with other offsets than the released one");
	put_word(_PyRuntime, 184, 72);
	put_word(_PyRuntime, 232, 8);
	put_word(_PyRuntime, 248, 56);
	CHECK_EQ(find(), -EAGAIN); /* what follows lies elsewhere in that version */
	CHECK_STR(why, "the threads of CPython 3.13 cannot be read");
}

static void break_at(void *object, size_t offset, uint64_t v, const char *expected)
{
	begin();
	put_word(object, offset, v);
	CHECK_EQ(find(), -EAGAIN);
	CHECK_STR(why, expected);
}

/* Each chain that leads nowhere, or in a circle, has an end. */
T(chains_that_are_broken)
{
	static const char *const threads = "the threads of CPython 3.11 cannot be read";
	static const char *const frames = "the frames of CPython 3.11 are not where they should be";
	static const char *const states = "where threads of CPython 3.11 keep their state was not found";

	break_at(_PyRuntime, 40, 0, threads);
	break_at(_PyRuntime, 40, NOWHERE, threads);
	break_at(_PyRuntime, 40, UINT64_MAX, threads);
	break_at(interpreter, 0, address(interpreter), threads); /* the next one is itself */
	break_at(interpreter, 16, 0, threads);
	break_at(interpreter, 16, NOWHERE, threads);
	break_at(thread[0], 8, address(thread[1]), threads);
	break_at(thread[0], FRAME, NOWHERE, frames);
	break_at(thread[0], FRAME, 0, frames); /* it runs nothing */
	break_at(cframe[0], CFRAME, NOWHERE, frames);
	break_at(frame[0], BACK, address(frame[1]), frames);
	break_at(frame[0], CODE, NOWHERE, frames);
	break_at(frame[0], CODE, address(PyCode_Type), frames); /* an object of another type */
	break_at(frame[1], BACK, UINT64_MAX - 8, frames);
	break_at(pointer[0], SLOT, 0, states);
	break_at(thread[0], THREAD, NOWHERE, states);
	break_at(thread[0], THREAD, UINT64_MAX, states);
	break_at(pointer[1], SLOT, address(thread[0]), states); /* the second thread has not its own there */
	break_at(thread[1], THREAD, NOWHERE, states);
}

/* A thread's own address is at its pointer in every program, and no state. */
T(the_first_word_is_no_state)
{
	begin();
	put_word(pointer[0], 0, address(thread[0]));
	CHECK_EQ(find(), 0);
	CHECK_EQ(p.row.slot, SLOT);
}

/* Until it is another program, of which that is said. */
static void find_child(pid_t child, int want)
{
	for (int i = 0; i < EXEC_MS; i++) {
		p = (struct zn_python_process){.pid = (uint32_t)child};
		if (find() == want)
			break;
		usleep(1000);
	}
	CHECK_EQ(find(), want);
}

T(a_process_that_is_none)
{
	pid_t child = fork();

	if (child == 0) {
		execl("/bin/sleep", "sleep", "60", NULL);
		_exit(1);
	}
	find_child(child, -ENOENT);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	CHECK_EQ(find(), -ENOENT);
	CHECK_EQ(zn_python_readable(&p), -ESRCH);
}

/* By its name it is one: what is wrong with its file is said. Programs run without headers of sections. */
T(an_interpreter_whose_symbols_cannot_be_read)
{
	char path[sizeof(root) + 16], copy[sizeof(path) + 16];
	uint64_t nowhere = 1ULL << 40;
	pid_t child;
	int fd;

	open_folder();
	snprintf(path, sizeof(path), "%s/python3.11", root);
	snprintf(copy, sizeof(copy), "cp /bin/sleep %s", path);
	CHECK_EQ(system(copy), 0);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_EQ(pwrite(fd, &nowhere, sizeof(nowhere), offsetof(Elf64_Ehdr, e_shoff)), sizeof(nowhere));
	close(fd);
	child = fork();
	if (child == 0) {
		execl(path, path, "60", NULL);
		_exit(1);
	}
	find_child(child, -ENOTSUP);
	CHECK_STR(why, "symbols of CPython 3.11: section headers: outside the file");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close_folder();
}

T(another_program_in_its_place)
{
	begin();
	p.code_type = NOWHERE;
	CHECK_EQ(zn_python_readable(&p), -ESRCH);
}

/* ---- texts and code objects, of 3.11 ---- */

/* state: as CPython has it: the width from bit 2 on, whether it lies behind the head, whether it is ASCII. */
static const char *text_of(uint32_t width, bool compact, bool ascii, uint64_t length, const void *bytes, size_t size,
	uint32_t most, bool tail)
{
	static char got[1024];
	struct zn_out o = {.at = got, .cap = sizeof(got) - 1};
	uint8_t *object = calloc(1, WIDE + size);
	uint32_t state = width << 2 | (uint32_t)compact << 5 | (uint32_t)ascii << 6;
	bool found;

	put_word(object, 16, length);
	memcpy(object + 32, &state, sizeof(state));
	memcpy(object + (ascii ? ASCII : WIDE), bytes, size);
	p = (struct zn_python_process){.pid = (uint32_t)getpid(), .minor = 11};
	CHECK(zn_python_known(&p));
	found = zn_python_text(&p, address(object), most, tail, &o);
	free(object);
	got[o.len] = 0;
	return found ? got : NULL;
}

T(texts_of_each_width)
{
	static const uint16_t two[] = {0x4e2d, 'x'};
	static const uint32_t four[] = {0x1f600, 'y'};

	CHECK_STR(text_of(1, true, true, 4, "main", 4, 64, false), "main");
	CHECK_STR(text_of(1, true, false, 2, "\xe4z", 2, 64, false), "\303\244z");
	CHECK_STR(text_of(2, true, false, 2, two, sizeof(two), 64, false), "\344\270\255x");
	CHECK_STR(text_of(4, true, false, 2, four, sizeof(four), 64, false), "\360\237\230\200y");
	CHECK_STR(text_of(1, true, true, 0, "", 0, 64, false), "");
}

T(texts_that_are_too_long_are_cut)
{
	CHECK_STR(text_of(1, true, true, 6, "abcdef", 6, 4, false), "abcd");
	CHECK_STR(text_of(1, true, true, 6, "abcdef", 6, 4, true), "cdef");
	CHECK(!text_of(1, true, true, 6, "abcdef", 6, ZN_PYTHON_TEXT + 1, false));
}

T(texts_that_are_none)
{
	CHECK(!text_of(3, true, true, 4, "main", 4, 64, false));
	CHECK(!text_of(0, true, true, 4, "main", 4, 64, false));
	CHECK(!text_of(1, false, true, 4, "main", 4, 64, false)); /* its characters are elsewhere */
	CHECK(!text_of(1, true, true, INFINITE, "main", 4, 64, false));
	CHECK(!text_of(1, true, true, UINT64_MAX, "main", 4, 64, true));
	CHECK(!text_of(4, true, false, INT32_MAX, "main", 4, 64, true)); /* its end is not mapped */
	CHECK(!zn_python_text(&p, NOWHERE, 64, false, &(struct zn_out){.cap = 0}));
	CHECK(!zn_python_text(&p, UINT64_MAX - 4, 64, false, &(struct zn_out){.cap = 0}));
}

/* It ends where the memory does: nothing behind it is read. */
T(a_text_at_the_end_of_a_page)
{
	long size = sysconf(_SC_PAGESIZE);
	uint8_t *pages = mmap(NULL, 2 * (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		*object;
	uint32_t state = 1 << 2 | 1 << 5 | 1 << 6;
	char got[16];
	struct zn_out o = {.at = got, .cap = sizeof(got)};

	CHECK(pages != MAP_FAILED);
	munmap(pages + size, (size_t)size);
	object = pages + size - ASCII - 4;
	memcpy(object + 32, &state, sizeof(state));
	memcpy(object + ASCII, "last", 4);
	put_word(object, 16, 4);
	CHECK(zn_python_text(&p, address(object), 64, false, &o));
	CHECK_MEM(got, o.len, "last", 4);
	put_word(object, 16, 5);
	CHECK(!zn_python_text(&p, address(object), 64, false, &o));
	munmap(pages, (size_t)size);
}

T(code_objects)
{
	struct zn_python_code c;
	int32_t first = 17;

	begin();
	CHECK_EQ(find(), 0);
	memcpy(code[0] + 72, &first, sizeof(first));
	put_word(code[0], 112, 11);
	put_word(code[0], 128, 12);
	put_word(code[0], 136, NOWHERE);
	CHECK(zn_python_code(&p, address(code[0]), &c));
	CHECK_EQ(c.first, 17);
	CHECK_EQ(c.file, 11);
	CHECK_EQ(c.name, 12);
	CHECK_EQ(zn_python_line(&p, &c, 0), ZN_PYCODE_GONE); /* its table is not mapped */
	CHECK(!zn_python_code(&p, address(PyCode_Type), &c));
	CHECK(!zn_python_code(&p, NOWHERE, &c));
	CHECK_EQ(c.name, 0);
}

/* A table of lines whose size is a lie. */
T(tables_of_lines)
{
	static uint8_t table[64];
	struct zn_python_code c = {.lines = address(table), .first = 5};
	static const uint64_t sizes[] = {0, 65537, INFINITE, UINT64_MAX};

	begin();
	CHECK_EQ(find(), 0);
	table[32] = 0x80 | 10 << 3; /* one instruction, a line of no difference */
	put_word(table, 16, 3);
	CHECK_EQ(zn_python_line(&p, &c, 0), 5);
	for (size_t i = 0; i < ZN_LEN(sizes); i++) {
		put_word(table, 16, sizes[i]);
		CHECK(zn_python_line(&p, &c, 1) <= 0);
	}
}

int main(void)
{
	if (geteuid()) { /* who is not root cannot open what another address space has mapped */
		puts("absent: root");
	} else {
		RUN(an_interpreter_is_found);
		RUN(versions_that_are_not_known_are_named);
		RUN(an_interpreter_must_say_the_same_of_itself);
		RUN(chains_that_are_broken);
		RUN(the_first_word_is_no_state);
		RUN(code_objects);
		RUN(tables_of_lines);
		RUN(an_interpreter_whose_symbols_cannot_be_read);
	}
	RUN(a_process_that_is_none);
	RUN(another_program_in_its_place);
	RUN(texts_of_each_width);
	RUN(texts_that_are_too_long_are_cut);
	RUN(texts_that_are_none);
	RUN(a_text_at_the_end_of_a_page);
	return t_end();
}
