/* SPDX-License-Identifier: GPL-2.0 */
/*
 * elf_test.c: tests of elf.c against real libraries, and against a small file of its own that is bent field
 * by field. The truth about libc is what the dynamic linker and /proc/self/maps say. CUDA's libraries are
 * used where they exist.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t.h"
#include "zernel.h"

#define TEXT_ADDR 0x10000
#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

/* A whole library as one struct, so that a field of it is a place in the file. */
struct image {
	Elf64_Ehdr head;
	Elf64_Phdr ph[3];
	Elf64_Sym sym[8];
	uint32_t hash[4];
	uint32_t gnu_hash[4 + 2 + 2 + 7];
	char names[64];
	Elf64_Dyn dyn[7];
	Elf64_Shdr sh[6];
	uint8_t text[32];
};
#define AT(field)  offsetof(struct image, field)
#define FUNC(bind) ELF64_ST_INFO(bind, STT_FUNC)

static const struct image good = {
	.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = MACHINE,
		.e_version = EV_CURRENT,
		.e_phoff = AT(ph),
		.e_shoff = AT(sh),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 6},
	.ph = {{PT_LOAD, PF_R, 0, 0, 0, AT(text), AT(text), 4096},
		{PT_LOAD, PF_R | PF_X, AT(text), TEXT_ADDR, 0, sizeof(good.text), 4096, 4096},
		{PT_DYNAMIC, PF_R, AT(dyn), AT(dyn), 0, sizeof(good.dyn), sizeof(good.dyn), 8}},
	.sym = {{0}, {1, FUNC(STB_GLOBAL), 0, 5, TEXT_ADDR + 4, 8}, /* pncclSend */
		{2, FUNC(STB_WEAK), 0, 5, TEXT_ADDR + 4, 8},        /* ncclSend, the tail of the former */
		{11, FUNC(STB_GLOBAL), 0, 0, TEXT_ADDR + 8, 0},     /* cuInit, undefined here */
		{18, FUNC(STB_LOCAL), 0, 5, TEXT_ADDR + 8, 8},      /* hidden */
		{25, ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC), 0, 5, TEXT_ADDR + 8, 8}, /* chosen */
		{32, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0, 5, TEXT_ADDR + 8, 8},    /* object */
		{39, FUNC(STB_GLOBAL), 0, 5, TEXT_ADDR + 24, 8}},                       /* last */
	.hash = {1, 8},
	.gnu_hash = {2, 1, 1, 0, 0, 0, 1, 3, 2, 1, 2, 2, 2, 2, 1},
	.names = "\0pncclSend\0cuInit\0hidden\0chosen\0object\0last",
	.dyn = {{DT_SYMTAB, {AT(sym)}}, {DT_STRTAB, {AT(names)}}, {DT_STRSZ, {sizeof(good.names)}},
		{DT_SYMENT, {sizeof(Elf64_Sym)}}, {DT_GNU_HASH, {AT(gnu_hash)}}, {DT_NULL, {0}}},
	.sh = {{0}, {0, SHT_DYNSYM, 0, 0, AT(sym), sizeof(good.sym), 2, 1, 8, sizeof(Elf64_Sym)},
		{0, SHT_STRTAB, 0, 0, AT(names), sizeof(good.names), 0, 0, 1, 0},
		{0, SHT_NULL, 0, 0, AT(sym), sizeof(good.sym), 4, 1, 8, sizeof(Elf64_Sym)},
		{0, SHT_STRTAB, 0, 0, AT(names), sizeof(good.names), 0, 0, 1, 0}},
	.text = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
		28, 29, 30, 31},
};

static const struct zn_elf_symbol wanted[] = {{.name = "ncclSend"}, {.name = "pncclSend"}, {.name = "cuInit"},
	{.name = "hidden"}, {.name = "chosen"}, {.name = "object"}, {.name = "last"}, {.name = "Send"},
	{.name = "absent"}};
enum { WEAK, STRONG, UNDEFINED, LOCAL, IFUNC, OBJECT, LAST, TAIL_ONLY, ABSENT, WANTED };
_Static_assert(WANTED == ZN_LEN(wanted), "a name for each");

static struct zn_elf_symbol got[WANTED];
static const char *why;

static int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("elf_test", 0);

	CHECK_EQ(pwrite(fd, bytes, len, 0), len);
	return fd;
}

static int look(int fd)
{
	memcpy(got, wanted, sizeof(got));
	why = NULL;
	return zn_elf_symbols(fd, got, ZN_LEN(got), ZN_ELF_BUDGET, &why);
}

static int look_in(const void *bytes, size_t len)
{
	int fd = file_of(bytes, len), n = look(fd);

	close(fd);
	return n;
}

static void check_all_found(int n)
{
	CHECK_EQ(n, 3);
	CHECK_EQ(got[WEAK].offset, AT(text) + 4);
	CHECK_EQ(got[STRONG].offset, AT(text) + 4);
	CHECK_EQ(got[LAST].offset, AT(text) + 24);
	CHECK_MEM((char *)got[WEAK].code, 16, (const char *)good.text + 4, 16);
	CHECK_MEM((char *)got[LAST].code, 16, "\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\0\0\0\0\0\0\0", 16);
	CHECK_EQ(got[UNDEFINED].offset | got[LOCAL].offset | got[IFUNC].offset | got[OBJECT].offset, 0);
	CHECK_EQ(got[TAIL_ONLY].offset | got[ABSENT].offset, 0);
}

static void check_refused(int n, const char *part)
{
	size_t i;

	CHECK_EQ(n, strcmp(part, "machine") ? -ENOEXEC : -EOPNOTSUPP);
	CHECK(why && *why);
	if (why && !strstr(why, part))
		T_FAIL("\"%s\" does not say \"%s\"", why, part);
	for (i = 0; i < WANTED; i++)
		CHECK_EQ(got[i].offset, 0);
}

T(finds_what_is_defined)
{
	check_all_found(look_in(&good, sizeof(good)));
}

/* The next symbol ends it, whichever kind it has; the size is cut where the file's content of the segment ends. */
T(tells_how_far_a_function_goes)
{
	struct image m = good;

	CHECK_EQ(look_in(&m, sizeof(m)), 3);
	CHECK_EQ(got[WEAK].size, 8);
	CHECK_EQ(got[WEAK].room, 4);
	CHECK_EQ(got[STRONG].room, 4);
	CHECK_EQ(got[LAST].size, 8);
	CHECK_EQ(got[LAST].room, 8);
	m.sym[7].st_size = UINT64_MAX;
	m.sym[1].st_size = 0;
	m.sym[4].st_value = TEXT_ADDR + 31;
	m.sym[3].st_value = m.sym[5].st_value = m.sym[6].st_value = TEXT_ADDR + 4;
	CHECK_EQ(look_in(&m, sizeof(m)), 3);
	CHECK_EQ(got[STRONG].size, 0);
	CHECK_EQ(got[STRONG].room, 20);
	CHECK_EQ(got[WEAK].room, 20);
	CHECK_EQ(got[LAST].size, 8);
	CHECK_EQ(got[LAST].room, 7);
	m.sh[3].sh_type = SHT_SYMTAB; /* what was found in the first table is not looked for again */
	CHECK_EQ(look_in(&m, sizeof(m)), 3);
	CHECK_EQ(got[LAST].room, 7);
}

T(finds_by_the_dynamic_segment)
{
	struct image m = good;

	m.head.e_shoff = 0;
	check_all_found(look_in(&m, sizeof(m)));
	m.dyn[4] = (Elf64_Dyn){DT_HASH, {AT(hash)}};
	check_all_found(look_in(&m, sizeof(m)));
	m.dyn[4] = (Elf64_Dyn){DT_DEBUG, {0}};
	check_refused(look_in(&m, sizeof(m)), "hash table");
}

T(finds_in_symtab_what_dynsym_lacks)
{
	struct image m = good;

	m.sh[3].sh_type = SHT_SYMTAB;
	m.sh[1].sh_size = 2 * sizeof(Elf64_Sym);
	check_all_found(look_in(&m, sizeof(m)));
	m.sh[1].sh_type = m.ph[2].p_type = 0;
	check_all_found(look_in(&m, sizeof(m)));
}

/* "hidden" is a function, so that .symtab is looked at as well. */
T(keeps_variables_of_dynsym_if_symtab_is_too_large)
{
	struct zn_elf_symbol object[] = {{.name = "object"}, {.name = "hidden"}};
	struct zn_elf_symbol function[] = {{.name = "last"}, {.name = "hidden"}};
	struct image m = good;
	uint64_t base;
	int fd;

	m.sh[3].sh_type = SHT_SYMTAB;
	m.sh[3].sh_size = (1ULL << 30) / 24 * 24;
	fd = file_of(&m, sizeof(m));
	CHECK_EQ(ftruncate(fd, 4LL << 30), 0);
	CHECK_EQ(zn_elf_variables(fd, object, 2, 1 << 20, &base, &why), 1);
	CHECK_EQ(object[0].offset, TEXT_ADDR + 8);
	CHECK_EQ(object[1].offset, 0);
	CHECK_STR(why, "symbol table: more than 1 MiB would have to be read");
	CHECK_EQ(zn_elf_variables(fd, object, 1, 1 << 20, &base, &why), 1);
	CHECK_STR(why, "");
	CHECK_EQ(zn_elf_symbols(fd, function, 2, 1 << 20, &why), -ENOEXEC);
	CHECK_EQ(function[0].offset, 0);
	close(fd);
}

T(takes_the_section_count_from_section_0)
{
	struct image m = good;

	m.head.e_shnum = 0;
	m.sh[0].sh_size = 6;
	check_all_found(look_in(&m, sizeof(m)));
}

T(finds_a_name_asked_for_twice)
{
	struct zn_elf_symbol twice[] = {{.name = "last"}, {.name = "last"}, {.name = ""}, {.name = "x"}};
	int fd = file_of(&good, sizeof(good));

	CHECK_EQ(zn_elf_symbols(fd, twice, ZN_LEN(twice), ZN_ELF_BUDGET, &why), 2);
	CHECK_EQ(twice[0].offset, twice[1].offset);
	CHECK_EQ(zn_elf_symbols(fd, twice, 0, ZN_ELF_BUDGET, &why), 0);
	close(fd);
}

T(refuses_too_many_names)
{
	static struct zn_elf_symbol many[257];
	int fd = file_of(&good, sizeof(good));
	size_t i;

	for (i = 0; i < ZN_LEN(many); i++)
		many[i].name = "last";
	CHECK_EQ(zn_elf_symbols(fd, many, ZN_LEN(many), ZN_ELF_BUDGET, &why), -ENOEXEC);
	CHECK_EQ(zn_elf_symbols(fd, many, ZN_LEN(many) - 1, ZN_ELF_BUDGET, &why), ZN_LEN(many) - 1);
	close(fd);
}

/* Each row sets one field. why == NULL: the file is well-formed enough to be read, but nothing is found. */
#define BEND(field, value, reason)                                                                                     \
	{                                                                                                              \
#field " = " #value, AT(field), sizeof(good.field), value, reason                                      \
	}
/* clang-format off */
static const struct bend {
	const char *name;
	size_t at, len;
	uint64_t value;
	const char *why;
} bends[] = {
	BEND(head.e_ident[0], 0, "not an ELF"),
	BEND(head.e_ident[EI_CLASS], ELFCLASS32, "machine"),
	BEND(head.e_ident[EI_DATA], ELFDATA2MSB, "machine"),
	BEND(head.e_machine, EM_386, "machine"),
	BEND(head.e_type, ET_REL, "neither"),
	BEND(head.e_type, ET_CORE, "neither"),
	BEND(head.e_phnum, 0, "program headers"),
	BEND(head.e_phnum, 65, "more than 64"),
	BEND(head.e_phnum, PN_XNUM, "more than 64"),
	BEND(head.e_phnum, 64, "program headers: outside"),
	BEND(head.e_phentsize, 55, "program headers of 55"),
	BEND(head.e_phoff, UINT64_MAX, "program headers: outside"),
	BEND(head.e_phoff, sizeof(good) - 1, "program headers: outside"),
	BEND(head.e_shentsize, 0, "section headers of 0"),
	BEND(head.e_shentsize, 128, "section headers of 128"),
	BEND(head.e_shoff, UINT64_MAX, "section headers: outside"),
	BEND(head.e_shoff, UINT64_MAX - 63, "section headers: outside"),
	BEND(head.e_shoff, sizeof(good), "section headers: outside"),
	BEND(head.e_shnum, 7, "section headers: outside"),
	BEND(head.e_shnum, 0xffff, "section headers: outside"),
	BEND(sh[1].sh_entsize, 0, "section 1"),
	BEND(sh[1].sh_entsize, 16, "section 1"),
	BEND(sh[1].sh_entsize, UINT64_MAX, "section 1"),
	BEND(sh[1].sh_size, 25, "section 1"),
	BEND(sh[1].sh_size, UINT64_MAX / 24 * 24, "section 1: outside"),
	BEND(sh[1].sh_offset, UINT64_MAX, "section 1: outside"),
	BEND(sh[1].sh_offset, UINT64_MAX - sizeof(good.sym) + 1, "section 1: outside"),
	BEND(sh[1].sh_offset, sizeof(good), "section 1: outside"),
	BEND(sh[1].sh_link, 6, "section 6, which does not exist"),
	BEND(sh[1].sh_link, UINT32_MAX, "does not exist"),
	BEND(sh[1].sh_link, 0, "no string table"),
	BEND(sh[1].sh_link, 1, "no string table"),
	BEND(sh[1].sh_size, 0, NULL),
	BEND(sh[1].sh_offset, AT(names) - 192, NULL), /* symbols that are something else */
	BEND(sh[2].sh_offset, UINT64_MAX, "section 2: outside"),
	BEND(sh[2].sh_size, UINT64_MAX, "section 2: outside"),
	BEND(sh[2].sh_size, sizeof(good), "section 2: outside"),
	BEND(sh[2].sh_type, SHT_NOBITS, "no string table"),
	BEND(sh[2].sh_size, 0, NULL),
	BEND(sh[2].sh_size, 10, NULL), /* ends before the NUL of the first name */
	BEND(sh[2].sh_offset, AT(names) + 2, NULL),
	BEND(ph[1].p_flags, PF_R, NULL),
	BEND(ph[1].p_type, PT_NOTE, NULL),
	BEND(ph[1].p_vaddr, TEXT_ADDR + 4096, NULL),
	BEND(ph[1].p_vaddr, TEXT_ADDR + 25, NULL),
	BEND(ph[1].p_filesz, 4, NULL),
	BEND(ph[1].p_filesz, 0, NULL),
	BEND(ph[1].p_offset, UINT64_MAX, NULL),
	BEND(ph[1].p_offset, UINT64_MAX - 3, NULL), /* 4 on: offset 0 by overflow */
	BEND(ph[1].p_offset, sizeof(good), NULL),
};
/* clang-format on */

T(bent_sections)
{
	const struct bend *b;
	struct image m;
	int n;

	for (b = bends; b < bends + ZN_LEN(bends); b++) {
		t_begin(b->name);
		m = good;
		memcpy((char *)&m + b->at, &b->value, b->len);
		n = look_in(&m, sizeof(m));
		if (b->why)
			check_refused(n, b->why);
		else
			CHECK_EQ(n, 0);
	}
}

/* clang-format off */
static const struct bend dynamic_bends[] = {
	BEND(ph[2].p_type, PT_NULL, "no symbol table"),
	BEND(ph[2].p_offset, UINT64_MAX, "dynamic segment: outside"),
	BEND(ph[2].p_filesz, UINT64_MAX, "dynamic segment: outside"),
	BEND(ph[2].p_filesz, 0, "hash table"),
	BEND(dyn[0].d_tag, DT_DEBUG, NULL), /* symbols at address 0: the ELF header */
	BEND(dyn[0].d_un.d_val, UINT64_MAX, "DT_SYMTAB"),
	BEND(dyn[0].d_un.d_val, AT(text) - 1, "DT_SYMTAB"),
	BEND(dyn[1].d_un.d_val, UINT64_MAX, "DT_STRTAB"),
	BEND(dyn[2].d_un.d_val, UINT64_MAX, "DT_STRTAB"),
	BEND(dyn[2].d_un.d_val, 0, NULL),
	BEND(dyn[3].d_un.d_val, 0, "DT_SYMENT"),
	BEND(dyn[4].d_un.d_val, UINT64_MAX, "hash table"),
	BEND(dyn[4].d_un.d_val, AT(text) - 1, "DT_GNU_HASH: outside"),
	BEND(gnu_hash[0], UINT32_MAX, "DT_GNU_HASH"),
	BEND(gnu_hash[0], 0, NULL),
	BEND(gnu_hash[2], UINT32_MAX, "DT_GNU_HASH"),
	BEND(gnu_hash[7], UINT32_MAX, "DT_GNU_HASH"),
};
/* clang-format on */

T(bent_dynamic_segment)
{
	const struct bend *b;
	struct image m;
	int n;

	for (b = dynamic_bends; b < dynamic_bends + ZN_LEN(dynamic_bends); b++) {
		t_begin(b->name);
		m = good;
		m.head.e_shoff = 0;
		memcpy((char *)&m + b->at, &b->value, b->len);
		n = look_in(&m, sizeof(m));
		if (b->why)
			check_refused(n, b->why);
		else
			CHECK_EQ(n, 0);
	}
}

/* The section headers are followed by the code only, so that a cut in front of them is always noticed. */
T(cut_at_each_byte)
{
	size_t len;
	int n;

	for (len = 0; len < AT(text); len++) {
		n = look_in(&good, len);
		check_refused(n, "");
	}
	CHECK_EQ(look_in(&good, AT(text)), 0);
	CHECK_EQ(look_in(&good, AT(text) + 5), 2);
}

T(name_at_the_edge_of_a_window)
{
	struct image m = good;
	uint32_t at;
	int fd, n;

	m.sh[2].sh_offset = 4096;
	m.sh[2].sh_size = 3 * 65536;
	for (at = 65536 - 12; at < 65536 + 3; at++) {
		m.sym[1].st_name = at;
		m.sym[2].st_name = at + 1;
		fd = file_of(&m, sizeof(m));
		CHECK_EQ(pwrite(fd, "pncclSend", 9, 4096 + at), 9);
		CHECK_EQ(ftruncate(fd, 4096 + 3 * 65536), 0);
		n = look(fd);
		CHECK_EQ(n, 2);
		CHECK_EQ(got[STRONG].offset, AT(text) + 4);
		close(fd);
	}
}

T(two_versions_of_one_name)
{
	struct image m = good;

	m.sym[2].st_name = 1;
	CHECK_EQ(look_in(&m, sizeof(m)), 2);
	CHECK_EQ(got[STRONG].offset, AT(text) + 4);
}

T(gnu_hash_of_one_symbol)
{
	struct image m = good;

	m.head.e_shoff = 0;
	m.gnu_hash[7] = 0;
	m.gnu_hash[8] = 1;
	CHECK_EQ(look_in(&m, sizeof(m)), 1);
	CHECK_EQ(got[STRONG].offset, AT(text) + 4);
}

/* Each string of the table ends like all 256 names. */
T(comparisons_are_bounded)
{
	static struct zn_elf_symbol same[256];
	static char names[3 * 70000];
	struct image m = good;
	size_t i;
	int fd;

	for (i = 0; i < ZN_LEN(same); i++)
		same[i].name = "last";
	for (i = 0; i < sizeof(names); i++)
		names[i] = "st"[i % 3];
	m.sh[2].sh_offset = 4096;
	m.sh[2].sh_size = sizeof(names);
	fd = file_of(&m, sizeof(m));
	CHECK_EQ(pwrite(fd, names, sizeof(names), 4096), sizeof(names));
	CHECK_EQ(zn_elf_symbols(fd, same, ZN_LEN(same), ZN_ELF_BUDGET, &why), -ENOEXEC);
	CHECK_STR(why, "string table: too many names to compare");
	close(fd);
}

/* Offset 0 means "not there", and a function cannot be where the ELF header is. */
T(offset_0_is_no_function)
{
	struct image m = good;

	m.ph[1].p_offset = 0;
	m.ph[1].p_vaddr = TEXT_ADDR + 4;
	CHECK_EQ(look_in(&m, sizeof(m)), 1);
	CHECK_EQ(got[STRONG].offset, 0);
	CHECK_EQ(got[LAST].offset, 20);
}

T(long_names)
{
	char name[130] = {0}, longer[130] = {0};
	struct zn_elf_symbol symbols[] = {{.name = name}, {.name = longer}};
	struct image m = good;
	int fd;

	memset(name, 'n', 127);
	memset(longer, 'n', 128);
	m.sh[2].sh_offset = 4096;
	m.sh[2].sh_size = 4096;
	m.sym[1].st_name = 2;
	m.sym[2].st_name = 1;
	fd = file_of(&m, sizeof(m));
	CHECK_EQ(pwrite(fd, longer, 128, 4096 + 1), 128);
	CHECK_EQ(ftruncate(fd, 8192), 0);
	CHECK_EQ(zn_elf_symbols(fd, symbols, 2, ZN_ELF_BUDGET, &why), 1);
	CHECK_EQ(symbols[0].offset, AT(text) + 4);
	close(fd);
}

T(a_name_everywhere)
{
	static char names[5 * 5000];
	struct image m = good;
	int i, fd, n;

	for (i = 0; i < 5000; i++)
		memcpy(names + 5 * i, "last", 5);
	m.sh[2].sh_offset = 4096;
	m.sh[2].sh_size = sizeof(names);
	m.sym[7].st_name = 5 * 4000;
	fd = file_of(&m, sizeof(m));
	CHECK_EQ(pwrite(fd, names, sizeof(names), 4096), sizeof(names));
	n = look(fd);
	check_refused(n, "places");
	CHECK_EQ(pwrite(fd, &(Elf64_Xword){5 * 4096}, sizeof(Elf64_Xword), AT(sh[2].sh_size)), 8);
	CHECK_EQ(look(fd), 1);
	close(fd);
}

T(work_is_bounded)
{
	struct image m = good;
	int fd, n;

	m.sh[2].sh_size = 1ULL << 30;
	fd = file_of(&m, sizeof(m));
	CHECK_EQ(ftruncate(fd, 4LL << 30), 0);
	n = look(fd);
	check_refused(n, "string table: more than 256 MiB");
	m = good;
	m.sh[1].sh_size = (1ULL << 30) / 24 * 24;
	CHECK_EQ(pwrite(fd, &m, sizeof(m), 0), sizeof(m));
	n = look(fd);
	check_refused(n, "symbol table: more than 256 MiB");
	m = good;
	m.head.e_shnum = 0;
	m.sh[0].sh_size = 1 << 25;
	m.sh[1].sh_type = SHT_NULL;
	CHECK_EQ(pwrite(fd, &m, sizeof(m), 0), sizeof(m));
	n = look(fd);
	check_refused(n, "section header: more than 256 MiB");
	close(fd);
}

T(what_is_no_file)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), pipes[2], n;

	n = look(fd);
	check_refused(n, "regular");
	CHECK_EQ(pipe(pipes), 0);
	n = look(pipes[0]);
	check_refused(n, "regular");
	n = look(-1);
	check_refused(n, "regular");
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

/* Where the code at an address comes from: offset in its file, and the file's name. */
static uint64_t truth(const void *address, char path[256])
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t from, to, at = (uintptr_t)address;
	uint64_t offset, found = 0;
	char line[512];

	while (maps && !found && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNx64 " %*s %*s %255s", &from, &to, &offset,
			    path) == 4 &&
			at >= from && at < to)
			found = at - from + offset;
	if (maps)
		fclose(maps);
	return found;
}

static struct zn_elf_symbol libc_symbols[] = {{.name = "malloc"}, {.name = "free"}, {.name = "qsort"}, {.name = "open"},
	{.name = "close"}, {.name = "read"}, {.name = "write"}, {.name = "pread"}, {.name = "getpid"}, {.name = "fork"},
	{.name = "socket"}, {.name = "bind"}, {.name = "listen"}, {.name = "accept4"}, {.name = "epoll_wait"},
	{.name = "snprintf"}, {.name = "strtoul"}, {.name = "getenv"}, {.name = "setsockopt"}, {.name = "ftruncate"}};

T(real_libc)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW), *address;
	struct zn_elf_symbol *s;
	char path[256] = "";
	uint64_t offset;
	int fd;

	truth(dlsym(libc, "malloc"), path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_EQ(zn_elf_symbols(fd, libc_symbols, ZN_LEN(libc_symbols), ZN_ELF_BUDGET, &why), ZN_LEN(libc_symbols));
	for (s = libc_symbols; s < libc_symbols + ZN_LEN(libc_symbols); s++) {
		address = dlsym(libc, s->name);
		offset = truth(address, path);
		if (!offset || s->offset != offset)
			T_FAIL("%s is at %#" PRIx64 ", not %#" PRIx64, s->name, s->offset, offset);
		CHECK_MEM((char *)s->code, 16, (char *)address, 16);
	}
	close(fd);
	dlclose(libc);
}

T(real_libc_lacks)
{
	struct zn_elf_symbol none[] = {{.name = "environ"}, {.name = "strlen"}, {.name = "cuInit"}, {.name = "allo"}};
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	char path[256] = "";
	int fd;

	truth(dlsym(libc, "malloc"), path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_EQ(zn_elf_symbols(fd, none, ZN_LEN(none), ZN_ELF_BUDGET, &why), 0);
	close(fd);
	dlclose(libc);
}

/* Its section headers are at the end: each cut loses some. */
T(real_libc_cut_at_each_page)
{
	static char bytes[8 << 20];
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	char path[256] = "";
	ssize_t len, cut;
	int fd;

	truth(dlsym(libc, "malloc"), path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = read(fd, bytes, sizeof(bytes));
	close(fd);
	CHECK(len > 1 << 20 && len < (ssize_t)sizeof(bytes));
	fd = file_of(bytes, (size_t)len);
	for (cut = (len - 1) & ~4095; cut >= 0; cut -= 4096) {
		CHECK_EQ(ftruncate(fd, cut), 0);
		CHECK_EQ(zn_elf_symbols(fd, libc_symbols, ZN_LEN(libc_symbols), ZN_ELF_BUDGET, &why), -ENOEXEC);
	}
	close(fd);
	dlclose(libc);
}

static const struct vendor {
	const char *path;
	const char *names[4];
} vendors[] = {
	{"/usr/local/cuda/lib64/libnccl.so.2", {"ncclAllReduce", "pncclAllReduce", "ncclCommInitRank", "ncclSend"}},
	{"/usr/local/cuda/lib64/stubs/libcuda.so", {"cuLaunchKernel", "cuMemAlloc_v2", "cuInit", "cuMemcpyAsync_ptsz"}},
};

T(real_vendor_libraries)
{
	struct zn_elf_symbol symbols[4];
	const struct vendor *v;
	int i, fd;

	for (v = vendors; v < vendors + ZN_LEN(vendors); v++) {
		fd = open(v->path, O_RDONLY | O_CLOEXEC);
		if (fd < 0) {
			fprintf(stderr, "%s: absent, not tested\n", v->path);
			continue;
		}
		t_begin(v->path);
		for (i = 0; i < 4; i++)
			symbols[i] = (struct zn_elf_symbol){.name = v->names[i]};
		CHECK_EQ(zn_elf_symbols(fd, symbols, 4, ZN_ELF_BUDGET, &why), 4);
		if (v == vendors)
			CHECK_EQ(symbols[0].offset, symbols[1].offset);
		close(fd);
	}
}

int main(void)
{
	RUN(finds_what_is_defined);
	RUN(tells_how_far_a_function_goes);
	RUN(finds_by_the_dynamic_segment);
	RUN(finds_in_symtab_what_dynsym_lacks);
	RUN(keeps_variables_of_dynsym_if_symtab_is_too_large);
	RUN(takes_the_section_count_from_section_0);
	RUN(finds_a_name_asked_for_twice);
	RUN(refuses_too_many_names);
	RUN(cut_at_each_byte);
	RUN(name_at_the_edge_of_a_window);
	RUN(two_versions_of_one_name);
	RUN(gnu_hash_of_one_symbol);
	RUN(comparisons_are_bounded);
	RUN(offset_0_is_no_function);
	RUN(long_names);
	RUN(a_name_everywhere);
	RUN(work_is_bounded);
	RUN(what_is_no_file);
	RUN(real_libc);
	RUN(real_libc_lacks);
	RUN(real_libc_cut_at_each_page);
	bent_sections();
	bent_dynamic_segment();
	real_vendor_libraries();
	return t_end();
}
