/* SPDX-License-Identifier: GPL-2.0 */
/*
 * native_test.c: the functions of this thread, by its own copied stack: in this program and in the C library, to the
 * end; cut off where the copy ends, where code is not of a file, and where the interpreter begins. It needs the right
 * to read by map_files.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

static struct zn_native native;
static struct zn_native_stack got;
static bool copied;

static __attribute__((noinline, no_sanitize("address"))) void copy_pages(void)
{
	volatile const uint8_t *from = (const uint8_t *)(native.sp & ~(ZN_NATIVE_PAGE - 1ULL));
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long begin, end = 0;
	char line[512];

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && native.sp >= begin && native.sp < end)
			break;
	fclose(f);
	for (native.pages = 0; native.pages < ZN_NATIVE_PAGES && (uint64_t)from < end; native.pages++)
		for (int i = 0; i < ZN_NATIVE_PAGE; i++)
			native.page[native.pages][i] = *from++;
	copied = true;
}

static __attribute__((noinline)) void capture(void)
{
	uint64_t r[8];

	asm volatile("mov %%rbx, (%0); mov %%rbp, 8(%0); mov %%rsp, 16(%0); mov %%r12, 24(%0); mov %%r13, 32(%0);"
		     "mov %%r14, 40(%0); mov %%r15, 48(%0); lea 0(%%rip), %%rax; mov %%rax, 56(%0)"
		     :
		     : "r"(r)
		     : "rax", "memory");
	native = (struct zn_native){
		.bx = r[0], .bp = r[1], .sp = r[2], .r12 = r[3], .r13 = r[4], .r14 = r[5], .r15 = r[6], .ip = r[7]};
	copy_pages();
}

static int compare_and_capture(const void *a, const void *b)
{
	if (!copied)
		capture();
	return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) int sort_some(void)
{
	int list[] = {3, 1, 2};

	copied = false;
	qsort(list, 3, sizeof(int), compare_and_capture);
	return list[0];
}

/* As that of CPython is called. */
int _PyEval_EvalFrameDefault(void);
__attribute__((noinline)) int _PyEval_EvalFrameDefault(void)
{
	return sort_some() + 1;
}

static bool has(uint32_t i, const char *name)
{
	return i < got.count && !strcmp(got.frame[i].name, name);
}

static uint32_t place_of(const char *name)
{
	uint32_t i = 0;

	while (i < got.count && !has(i, name))
		i++;
	return i;
}

T(functions_of_this_thread)
{
	_PyEval_EvalFrameDefault();
	zn_native_read((uint32_t)getpid(), &native, false, &got);
	CHECK(has(0, "capture") && has(1, "compare_and_capture"));
	CHECK_STR(got.frame[0].file, "native_test");
	CHECK(strncmp(got.frame[2].file, "lib", 3) == 0); /* of C, or of the sanitizer */
	CHECK(has(place_of("sort_some") + 1, "_PyEval_EvalFrameDefault"));
	CHECK(place_of("main") < got.count);
	CHECK(place_of("main") > place_of("_PyEval_EvalFrameDefault"));
	CHECK(!got.truncated);
	zn_native_read((uint32_t)getpid(), &native, false, &got); /* by what it remembers */
	CHECK(has(0, "capture") && place_of("main") < got.count && !got.truncated);
}

T(below_the_interpreter)
{
	_PyEval_EvalFrameDefault();
	zn_native_read((uint32_t)getpid(), &native, true, &got);
	CHECK(has(0, "capture") && !got.truncated);
	CHECK(got.count && has(got.count - 1, "sort_some"));
	sort_some(); /* not below it */
	zn_native_read((uint32_t)getpid(), &native, true, &got);
	CHECK(has(0, "capture") && got.truncated && place_of("main") < got.count);
}

T(a_copy_that_ends)
{
	uint32_t all;

	sort_some();
	zn_native_read((uint32_t)getpid(), &native, false, &got);
	all = got.count;
	native.pages = 0;
	zn_native_read((uint32_t)getpid(), &native, false, &got);
	CHECK(got.count == 1 && all > 3 && got.truncated && has(0, "capture"));
	native.pages = UINT32_MAX; /* never more than there are */
	zn_native_read((uint32_t)getpid(), &native, false, &got);
	CHECK(has(0, "capture"));
}

T(code_that_is_in_no_file)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sort_some();
	native.ip = (uint64_t)code + 16;
	zn_native_read((uint32_t)getpid(), &native, false, &got);
	CHECK(got.count == 0 && got.truncated);
	native.ip = (uint64_t)&native; /* no code at all */
	zn_native_read((uint32_t)getpid(), &native, false, &got);
	CHECK(got.count == 0 && got.truncated);
	munmap(code, 4096);
}

/* Where a function has returned to, there is a call before it. */
T(a_return_without_a_call)
{
	sort_some();
	native.returned = 1;
	native.ip = (uint64_t)sort_some;
	zn_native_read((uint32_t)getpid(), &native, false, &got);
	CHECK(got.count == 0 && got.truncated);
}

T(a_process_that_has_gone)
{
	zn_native_read(0x7ffffff0, &native, false, &got);
	CHECK(got.count == 0 && got.truncated);
}

int main(void)
{
	RUN(functions_of_this_thread);
	RUN(below_the_interpreter);
	RUN(a_copy_that_ends);
	RUN(code_that_is_in_no_file);
	RUN(a_return_without_a_call);
	RUN(a_process_that_has_gone);
	return t_end();
}
