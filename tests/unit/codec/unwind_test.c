/* SPDX-License-Identifier: GPL-2.0 */
/*
 * unwind_test.c: callers of a thread that is stopped at each single instruction of a program, against the calls that it
 * was seen to make; against backtrace(); through a signal; and files that are cut or changed at any byte.
 */
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define STACK   32768
#define BUDGET  (1ULL << 40)
#define CALLERS 64
#define FAST                                                                                                           \
	__attribute__((noinline, noclone, optimize("O2", "omit-frame-pointer"), no_sanitize("address", "undefined")))

/* ---- The files of this process. ---- */

struct module {
	uint64_t bias, from, to;
	struct zn_unwind_file file;
};
static struct module modules[32];
static size_t module_count;

static int add_module(struct dl_phdr_info *info, size_t size, void *data)
{
	struct module *m = &modules[module_count];
	int fd = open(info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe", O_RDONLY);

	(void)size, (void)data;
	if (fd < 0 || !zn_unwind_open(&m->file, fd, BUDGET, 0))
		return 0;
	m->bias = info->dlpi_addr;
	m->from = UINT64_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (m->bias + p->p_vaddr < m->from)
			m->from = m->bias + p->p_vaddr;
		m->to = m->bias + p->p_vaddr + p->p_memsz;
	}
	module_count++;
	return 0;
}

static struct module *module_of(uint64_t address)
{
	for (size_t i = 0; i < module_count; i++)
		if (address >= modules[i].from && address < modules[i].to)
			return &modules[i];
	return NULL;
}

/* Where each caller goes on. Returns how many; *lost: why it ended. */
static size_t walk(const struct zn_unwind_stack *stack, struct zn_unwind_regs r, uint64_t to[CALLERS], bool *lost)
{
	size_t count = 0;

	*lost = true;
	while (count < CALLERS) {
		uint64_t pc = r.interrupted ? r.reg[16] : r.reg[16] - 1;
		struct module *m = module_of(pc);
		enum zn_unwind_step step;

		if (!m ||
			(!r.interrupted && !zn_unwind_is_behind_call(&m->file, r.reg[16] - m->bias) &&
				!zn_unwind_is_signal(&m->file, pc - m->bias)))
			break;
		step = zn_unwind_step(&m->file, pc - m->bias, stack, &r);
		*lost = step != ZN_UNWIND_END;
		if (step != ZN_UNWIND_CALLER)
			break;
		to[count++] = r.reg[16];
	}
	return count;
}

static void set(struct zn_unwind_regs *r, int reg, uint64_t value)
{
	r->reg[reg] = value;
	r->known |= 1u << reg;
}

/* ---- The program. ---- */

static volatile int sink;
static int (*volatile compare_)(const void *, const void *);

static FAST int compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

static FAST int with_registers(int a, int b, int c, int d)
{
	int e = a * b + sink, f = b * c + sink, g = c * d + sink, h = a + sink, i = d * a + sink;
	char *text = malloc((size_t)(16 + (a & 7)));

	sink = snprintf(text, 16, "%d %d", e, f);
	free(text);
	return e + f + g + h + i + sink;
}

static FAST int with_array(int n)
{
	int *list = __builtin_alloca((size_t)(n + 5) * sizeof(int)); /* a frame that needs a frame pointer */

	for (int i = 0; i < n + 5; i++)
		list[i] = (n - i) * 7919 % 31;
	qsort(list, (size_t)n + 5, sizeof(int), compare_);
	return with_registers(list[0], list[1], list[2], n);
}

static FAST int recursion(int n)
{
	return n ? recursion(n - 1) + with_array(n) : with_array(3);
}

static FAST void program(void)
{
	compare_ = compare_ints;
	sink = recursion(3);
	kill(getpid(), SIGUSR2);
}

/* ---- Each instruction. ---- */

static uint64_t word_of(pid_t pid, uint64_t at)
{
	uint64_t word = 0;
	struct iovec here = {&word, 8}, there = {(void *)at, 8};

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == 8 ? word : 0;
}

static bool is_return(pid_t pid, uint64_t ip)
{
	uint64_t code = word_of(pid, ip);

	return (code & 0xff) == 0xc3 || (code & 0xffff) == 0xc3f3 || (code & 0xff) == 0xc2;
}

static uint64_t calls[256]; /* where each goes on */
static size_t call_count, looked, whole;

static void follow_step(
	pid_t pid, const struct user_regs_struct *before, const struct user_regs_struct *after, bool ret)
{
	uint64_t to = word_of(pid, after->rsp);

	if (ret && call_count && after->rsp == before->rsp + 8)
		call_count--;
	else if (after->rsp == before->rsp - 8 && to > before->rip && to <= before->rip + 8 &&
		(after->rip < before->rip || after->rip > before->rip + 8))
		calls[call_count++ & 255] = to;
}

static void look_at(pid_t pid, const struct user_regs_struct *u)
{
	static uint8_t bytes[STACK];
	struct zn_unwind_stack stack = {.bytes = bytes, .from = u->rsp & ~4095ULL};
	struct iovec here = {bytes, sizeof(bytes)}, there = {(void *)stack.from, sizeof(bytes)};
	struct zn_unwind_regs r = {.interrupted = true};
	uint64_t got[CALLERS];
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
	size_t count, same = 0;
	bool lost;

	stack.len = n > 0 ? (uint64_t)n : 0;
	set(&r, 3, u->rbx), set(&r, 6, u->rbp), set(&r, 7, u->rsp), set(&r, 12, u->r12), set(&r, 13, u->r13);
	set(&r, 14, u->r14), set(&r, 15, u->r15), set(&r, 16, u->rip);
	count = walk(&stack, r, got, &lost);
	while (same < count && same < call_count && got[same] == calls[call_count - 1 - same])
		same++;
	looked++;
	if (same == call_count)
		whole++;
	else if (same < count)
		T_FAIL("at %llx caller %zu of %zu: %llx, not %llx", u->rip, same, call_count,
			(unsigned long long)got[same], (unsigned long long)calls[call_count - 1 - same]);
}

T(each_instruction)
{
	struct user_regs_struct before, after;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		program();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	ptrace(PTRACE_GETREGS, pid, 0, &before);
	while (before.rip != (uint64_t)program) {
		ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
		waitpid(pid, &status, 0);
		ptrace(PTRACE_GETREGS, pid, 0, &before);
	}
	calls[0] = word_of(pid, before.rsp);
	call_count = 1;
	for (;;) {
		bool ret = is_return(pid, before.rip);

		if (looked % 3 == 0 || call_count < 5) /* the loader and libc are many instructions */
			look_at(pid, &before);
		else
			looked++, whole++;
		ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
			break;
		ptrace(PTRACE_GETREGS, pid, 0, &after);
		follow_step(pid, &before, &after, ret);
		before = after;
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	CHECK(looked > 3000);
	if (whole < looked / 1000 * 999)
		T_FAIL("%zu of %zu are whole", whole, looked);
}

/* ---- This thread itself. ---- */

static uint8_t copy[4 * STACK];
static struct zn_unwind_stack copied = {.bytes = copy};
static void *expected[CALLERS];
static int expected_count;
static uint64_t got[CALLERS];
static size_t got_count;
static bool got_lost;

static __attribute__((noinline, no_sanitize("address"))) void copy_stack(uint64_t sp)
{
	volatile const uint8_t *from = (const uint8_t *)(sp & ~4095ULL);
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long begin, end = 0;
	char line[512];

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && sp >= begin && sp < end)
			break;
	fclose(f);
	copied.from = (uint64_t)from;
	copied.len = end - copied.from < sizeof(copy) ? end - copied.from : sizeof(copy);
	for (size_t i = 0; i < copied.len; i++)
		copy[i] = from[i];
}

static __attribute__((noinline)) void capture(void)
{
	struct zn_unwind_regs r = {.interrupted = true, .known = 0x1f0c8};

	asm volatile("mov %%rbx, 24(%0); mov %%rbp, 48(%0); mov %%rsp, 56(%0); mov %%r12, 96(%0); mov %%r13, 104(%0);"
		     "mov %%r14, 112(%0); mov %%r15, 120(%0); lea 0(%%rip), %%rax; mov %%rax, 128(%0)"
		     :
		     : "r"(r.reg)
		     : "rax", "memory");
	copy_stack(r.reg[7]);
	expected_count = backtrace(expected, CALLERS);
	got_count = walk(&copied, r, got, &got_lost);
}

static void check_captured(void)
{
	int first = 0;

	while (first < expected_count && (!got_count || (uint64_t)expected[first] != got[0]))
		first++;
	CHECK(got_count > 3 && !got_lost);
	CHECK_EQ(got_count, (size_t)(expected_count - first));
	for (size_t i = 0; i < got_count && first + (int)i < expected_count; i++)
		CHECK_EQ(got[i], (uint64_t)expected[first + (int)i]);
}

static int compare_and_capture(const void *a, const void *b)
{
	if (!got_count)
		capture();
	return compare_ints(a, b);
}

T(through_the_library)
{
	int list[] = {3, 1, 2};

	got_count = 0;
	qsort(list, 3, sizeof(int), compare_and_capture);
	check_captured();
}

static void capture_in_signal(int number)
{
	(void)number;
	capture();
}

T(through_a_signal)
{
	got_count = 0;
	signal(SIGUSR1, capture_in_signal);
	raise(SIGUSR1);
	check_captured();
}

/* ---- Files. ---- */

static struct zn_unwind_stack empty;

/* Every answer is allowed but a caller: no stack is there. */
static void try_file(int fd)
{
	struct zn_unwind_file f;
	struct zn_unwind_regs r = {.known = 0x1f0c8};
	uint64_t address;

	if (!zn_unwind_open(&f, fd, BUDGET, 0))
		return;
	for (uint64_t offset = 0; offset < f.size; offset += 61)
		if (zn_unwind_address(&f, offset, &address)) {
			CHECK(zn_unwind_step(&f, address, &empty, &r) != ZN_UNWIND_CALLER);
			zn_unwind_is_behind_call(&f, address);
		}
}

T(broken_files)
{
	static char bytes[1 << 16];
	int fd = memfd_create("elf", 0), from = open("/proc/self/exe", O_RDONLY);
	ssize_t n = pread(from, bytes, sizeof(bytes), 0);

	CHECK(n == sizeof(bytes));
	for (size_t len = 0; len < 4096; len += len < 128 ? 1 : 97) {
		CHECK_EQ(ftruncate(fd, 0), 0);
		CHECK_EQ(pwrite(fd, bytes, len, 0), (ssize_t)len);
		try_file(fd);
	}
	for (size_t at = 0; at < 1024; at++) {
		bytes[at] ^= 0x5a;
		CHECK_EQ(pwrite(fd, bytes, 4096, 0), 4096);
		bytes[at] ^= 0x5a;
		try_file(fd);
	}
	close(fd);
	close(from);
}

int main(void)
{
	dl_iterate_phdr(add_module, NULL);
	RUN(each_instruction);
	RUN(through_the_library);
	RUN(through_a_signal);
	RUN(broken_files);
	return t_end();
}
