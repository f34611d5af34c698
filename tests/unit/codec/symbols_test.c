/* SPDX-License-Identifier: GPL-2.0 */
/*
 * symbols_test.c: functions of this program and of the C library by address, against what the loader says; files that
 * are cut or changed at any byte; and names of C++, against what c++filt makes of them.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define BUDGET (1ULL << 30)

static int find_program(struct dl_phdr_info *info, size_t size, void *bias)
{
	(void)size;
	*(uint64_t *)bias = info->dlpi_addr;
	return 1;
}

static __attribute__((noinline)) int inner_function(int n)
{
	return n * 7919 % 31;
}

static void expect_name(int fd, uint64_t address, const char *name)
{
	struct zn_symbol s[3] = {{.address = ~0ULL}, {.address = address}, {.address = 0}};
	struct zn_unwind_file f;

	CHECK(zn_unwind_open(&f, fd, BUDGET, 0));
	zn_symbols_find(&f, s, 3);
	CHECK_EQ(s[1].address, address);
	CHECK(s[1].size && address - s[1].begin < s[1].size);
	CHECK_STR(s[1].name, name);
	CHECK(!s[2].size && !s[2].name[0]);
}

T(this_program)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	uint64_t bias = 0;

	CHECK_EQ(inner_function(0), 0);
	dl_iterate_phdr(find_program, &bias);
	expect_name(fd, (uint64_t)inner_function - bias, "inner_function");
	expect_name(fd, (uint64_t)inner_function - bias + 1, "inner_function");
	expect_name(fd, (uint64_t)zn_symbols_find - bias + 5, "zn_symbols_find");
	close(fd);
}

/* It has .dynsym alone, as a rule. */
T(a_library)
{
	void *at = dlsym(RTLD_NEXT, "qsort_r");
	Dl_info info;
	int fd;

	if (!at || !dladdr(at, &info))
		T_FAIL("%s", "no qsort_r");
	fd = open(info.dli_fname, O_RDONLY);
	expect_name(fd, (uint64_t)((char *)at - (char *)info.dli_fbase) + 3, "qsort_r");
	close(fd);
}

static void try_file(int fd)
{
	struct zn_symbol s[4] = {{.address = 0x1000}, {.address = 0x5000}, {.address = 0x40}, {.address = 0x400000}};
	struct zn_unwind_file f;

	if (!zn_unwind_open(&f, fd, BUDGET, 0))
		return;
	zn_symbols_find(&f, s, 4);
	for (int i = 0; i < 4; i++)
		CHECK(memchr(s[i].name, '\0', sizeof(s[i].name)));
}

T(broken_files)
{
	int from = open("/proc/self/exe", O_RDONLY), fd = memfd_create("elf", 0);
	off_t size = lseek(from, 0, SEEK_END);
	char *bytes = malloc((size_t)size);
	uint64_t sections;

	CHECK_EQ(pread(from, bytes, (size_t)size, 0), size);
	memcpy(&sections, bytes + 40, sizeof(sections));
	CHECK_EQ(pwrite(fd, bytes, (size_t)size, 0), size);
	for (uint64_t at = 0; at < 64 + 512; at++) { /* the head, and the heads of sections */
		uint64_t where = at < 64 ? at : sections + (at - 64) * 5;
		char changed = (char)(where < (uint64_t)size ? bytes[where] ^ 0x81 : 0);

		if (where >= (uint64_t)size)
			break;
		CHECK_EQ(pwrite(fd, &changed, 1, (off_t)where), 1);
		try_file(fd);
		CHECK_EQ(pwrite(fd, bytes + where, 1, (off_t)where), 1);
	}
	for (off_t len = size; len > 100; len = len * 9 / 10) {
		CHECK_EQ(ftruncate(fd, len), 0);
		try_file(fd);
	}
	free(bytes);
	close(fd);
	close(from);
}

static const struct {
	const char *mangled, *name; /* NULL: it stays as it is */
} names[] = {
	{"_ZN2at4_ops3cat4callERKN3c1013IListRefINS2_6TensorEEEl", "at::_ops::cat::call"},
	{"_ZN5torch8autograd9generated14SplitBackward05applyEOSt6vectorIN2at6TensorESaIS5_EE",
		"torch::autograd::generated::SplitBackward0::apply"},
	{"_Z3foov", "foo"},
	{"_ZL3barPKc", "bar"},
	{"_ZNK3foo3barEv", "foo::bar"},
	{"_ZNR3foo3barEv", "foo::bar"},
	{"_ZN3fooC2Ei", "foo::foo"},
	{"_ZN3fooD1Ev", "foo::~foo"},
	{"_ZN3fooplERKS_", "foo::operator+"},
	{"_ZnwmRKSt9nothrow_t", "operator new"},
	{"_ZdaPv", "operator delete[]"},
	{"_ZSt9terminatev", "std::terminate"},
	{"_ZNSt6thread4joinEv", "std::thread::join"},
	{"_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo"},
	{"_ZN3foo3barB5cxx11Ev", "foo::bar[abi:cxx11]"},
	{"_Z3fooIiEvT_", NULL}, /* templates */
	{"_ZN3fooIiE3barEv", NULL},
	{"_ZNSaIcEC1Ev", NULL}, /* substitutions */
	{"_ZNSt8ios_base4InitC1Ev", "std::ios_base::Init::Init"},
	{"_ZN3foocviEv", NULL}, /* a conversion */
	{"_ZTV3foo", NULL},     /* no functions */
	{"_ZThn16_N3foo3barEv", NULL},
	{"_ZZ3foovE3bar", NULL}, /* of a function */
	{"_ZZN3foo3barEvENKUlvE_clEv", NULL},
	{"_ZN3foo3barEv.cold", NULL}, /* a copy */
	{"_ZN3foo3bar", NULL},
	{"_ZN3foo9barEv", NULL},
	{"_Z3foo", NULL},
	{"_ZN", NULL},
	{"_Z", NULL},
	{"_ZNE", NULL},
	{"_Z99999999999999999999foo", NULL},
	{"main", NULL},
	{"", NULL},
};

T(names_of_cpp)
{
	char text[256];

	for (size_t i = 0; i < ZN_LEN(names); i++) {
		struct zn_out o = {.at = text, .cap = sizeof(text) - 1};
		bool got = zn_symbols_demangle(&o, names[i].mangled);

		text[o.len] = '\0';
		if (got != (names[i].name != NULL))
			T_FAIL("%s: \"%s\"", names[i].mangled, text);
		CHECK_STR(text, names[i].name ? names[i].name : "");
	}
}

/* Each name cut at every byte, from a block of its size: never read beyond, and no longer than there is room. */
T(names_that_are_cut)
{
	for (size_t i = 0; i < ZN_LEN(names); i++)
		for (size_t len = 0; len <= strlen(names[i].mangled); len++)
			for (size_t cap = 0; cap < 40; cap += 3) {
				char *cut = strndup(names[i].mangled, len), *text = malloc(cap + 1);
				struct zn_out o = {.at = text, .cap = cap};

				CHECK(zn_symbols_demangle(&o, cut) ? o.len <= cap : !o.len);
				free(cut);
				free(text);
			}
}

int main(void)
{
	RUN(this_program);
	RUN(a_library);
	RUN(broken_files);
	RUN(names_of_cpp);
	RUN(names_that_are_cut);
	return t_end();
}
