/* SPDX-License-Identifier: GPL-2.0 */
/*
 * elf.c: finds functions in an ELF file that nobody vouches for.
 *
 * The string table is read first, once and in order: a name may stand in it at several places, also as the
 * tail of a longer name. Then the symbols are read once and in order, and compared by number only, so that a
 * library of 200,000 symbols costs two linear reads whatever the order of its names. A third one tells how far each
 * function goes until another symbol begins. Limits: 256 names of 2 to 127 bytes, 64 program headers, as many bytes
 * read as the caller allows. Everything in the file is hostile.
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"

#define READ_LEAST     4096 /* what a read costs at least: a system call is not free */
#define COMPARE_COST   16
#define WINDOW         65536
#define SYMBOLS_WINDOW (WINDOW / sizeof(Elf64_Sym))
#define NAMES_MAX      256
#define NAME_LEN_MAX   127
#define CARRY          (NAME_LEN_MAX + 1) /* bytes before the window that a name may reach back into */
#define HITS_MAX       4096
#define SEGMENTS_MAX   64
#define DYNAMIC_MAX    1024

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#error "this machine's ELF number is missing here"
#endif

/* Symbols and their names, as ranges of the file that were checked against its size. */
struct table {
	uint64_t at;
	uint64_t len;
	uint64_t names_at;
	uint64_t names_len;
};

/* A place in the string table from which one of the names can be read. */
struct hit {
	uint32_t at;
	uint32_t name;
};

struct elf {
	int fd;
	uint64_t size;
	uint64_t budget, whole_budget; /* bytes that may still be read, and that might be at first */
	struct zn_elf_symbol *symbols;
	size_t count;
	size_t found;
	uint64_t sections;
	uint64_t sections_at;
	size_t segment_count;
	size_t hit_count;
	uint16_t by_addr[NAMES_MAX]; /* those that were found in the table at hand, in order of addr */
	size_t by_addr_count;
	uint64_t addr[NAMES_MAX];
	uint16_t first[256]; /* chains of names by tail_chain(), 1-based */
	uint16_t next[NAMES_MAX];
	uint8_t name_len[NAMES_MAX];
	struct hit hit[HITS_MAX]; /* in order of at */
	Elf64_Phdr segment[SEGMENTS_MAX];
	bool variables; /* are looked for, not functions */
	char why[96];
};

static int __attribute__((format(printf, 2, 3))) fail(struct elf *e, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(e->why, sizeof(e->why), format, args);
	va_end(args);
	return -ENOEXEC;
}

static bool is_inside(const struct elf *e, uint64_t at, uint64_t len)
{
	return len <= e->size && at <= e->size - len;
}

static int read_at(struct elf *e, uint64_t at, void *to, size_t len, const char *what)
{
	uint64_t cost = len > READ_LEAST ? len : READ_LEAST;
	size_t done;
	ssize_t n;

	if (!is_inside(e, at, len))
		return fail(e, "%s: outside the file", what);
	if (cost > e->budget)
		return fail(e, "%s: more than %d MiB would have to be read", what, (int)(e->whole_budget >> 20));
	e->budget -= cost;
	for (done = 0; done < len; done += (size_t)n) {
		n = pread(e->fd, (char *)to + done, len - done, (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return fail(e, "%s: %s", what, n ? strerror(errno) : "the file was cut while it was read");
	}
	return 0;
}

/* The first segment that has all of `flags` and file content at an address; NULL: none. */
static const Elf64_Phdr *segment_of(const struct elf *e, uint64_t addr, uint32_t flags)
{
	const Elf64_Phdr *p;

	for (p = e->segment; p < e->segment + e->segment_count; p++)
		if (p->p_type == PT_LOAD && (p->p_flags & flags) == flags && addr >= p->p_vaddr &&
			addr - p->p_vaddr < p->p_filesz)
			return p;
	return NULL;
}

/* File offset of an address. */
static bool locate_address(const struct elf *e, uint64_t addr, uint32_t flags, uint64_t *at)
{
	const Elf64_Phdr *p = segment_of(e, addr, flags);

	return p && !__builtin_add_overflow(p->p_offset, addr - p->p_vaddr, at) && *at < e->size;
}

static int check_head(struct elf *e, const Elf64_Ehdr *h)
{
	if (memcmp(h->e_ident, ELFMAG, SELFMAG))
		return fail(e, "not an ELF file");
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != MACHINE) {
		fail(e, "for another kind of machine");
		return -EOPNOTSUPP;
	}
	if (h->e_type != ET_DYN && h->e_type != ET_EXEC)
		return fail(e, "neither a library nor a program");
	return 0;
}

static int read_segments(struct elf *e, const Elf64_Ehdr *h)
{
	e->segment_count = 0;
	if (h->e_phnum == 0)
		return fail(e, "no program headers");
	if (h->e_phentsize != sizeof(Elf64_Phdr))
		return fail(e, "program headers of %u bytes", h->e_phentsize);
	if (h->e_phnum > SEGMENTS_MAX)
		return fail(e, "more than %d program headers", SEGMENTS_MAX);
	e->segment_count = h->e_phnum;
	return read_at(e, h->e_phoff, e->segment, h->e_phnum * sizeof(Elf64_Phdr), "program headers");
}

/* The number of sections is in section 0 where it does not fit in the head (gABI, chapter 4, e_shnum). */
static int find_sections(struct elf *e, const Elf64_Ehdr *h)
{
	Elf64_Shdr zero;
	int err;

	e->sections_at = h->e_shoff;
	e->sections = h->e_shnum;
	if (h->e_shoff == 0)
		e->sections = 0;
	else if (h->e_shentsize != sizeof(Elf64_Shdr))
		return fail(e, "section headers of %u bytes", h->e_shentsize);
	else if (h->e_shnum == 0) {
		err = read_at(e, h->e_shoff, &zero, sizeof(zero), "section header 0");
		if (err)
			return err;
		e->sections = zero.sh_size;
	}
	if (e->sections &&
		(!is_inside(e, e->sections_at, 0) || e->sections > (e->size - e->sections_at) / sizeof(Elf64_Shdr)))
		return fail(e, "section headers: outside the file");
	return 0;
}

static int read_head(struct elf *e)
{
	Elf64_Ehdr head;
	struct stat st;
	int err;

	if (fstat(e->fd, &st) || !S_ISREG(st.st_mode))
		return fail(e, "not a regular file");
	e->size = (uint64_t)st.st_size;
	if ((err = read_at(e, 0, &head, sizeof(head), "ELF header")) || (err = check_head(e, &head)) ||
		(err = read_segments(e, &head)))
		return err;
	return find_sections(e, &head);
}

static int read_section(struct elf *e, uint64_t index, Elf64_Shdr *sh)
{
	return read_at(e, e->sections_at + index * sizeof(*sh), sh, sizeof(*sh), "section header");
}

static int check_table(struct elf *e, uint64_t index, const Elf64_Shdr *sh, struct table *t)
{
	unsigned long long i = index, link = sh->sh_link;
	Elf64_Shdr names;
	int err;

	if (sh->sh_entsize != sizeof(Elf64_Sym) || sh->sh_size % sizeof(Elf64_Sym))
		return fail(e, "section %llu: not a whole number of symbols", i);
	if (!is_inside(e, sh->sh_offset, sh->sh_size))
		return fail(e, "section %llu: outside the file", i);
	if (link >= e->sections)
		return fail(e, "section %llu: linked to section %llu, which does not exist", i, link);
	err = read_section(e, link, &names);
	if (err)
		return err;
	if (names.sh_type != SHT_STRTAB)
		return fail(e, "section %llu: linked to section %llu, which is no string table", i, link);
	if (!is_inside(e, names.sh_offset, names.sh_size))
		return fail(e, "section %llu: outside the file", link);
	*t = (struct table){sh->sh_offset, sh->sh_size, names.sh_offset, names.sh_size};
	return 0;
}

/* The first section of this type: 1, 0 if there is none, or -ENOEXEC. */
static int table_by_section(struct elf *e, uint32_t type, struct table *t)
{
	Elf64_Shdr sh;
	uint64_t i;
	int err;

	for (i = 0; i < e->sections; i++) {
		err = read_section(e, i, &sh);
		if (err)
			return err;
		if (sh.sh_type == type) {
			err = check_table(e, i, &sh, t);
			return err ? err : 1;
		}
	}
	return 0;
}

/* Chains of DT_GNU_HASH end with an odd word; the last chain ends at the last symbol. */
static int end_of_chain(struct elf *e, uint64_t at, uint64_t *symbols)
{
	uint32_t chain[1024];
	uint64_t i, n, left;
	int err;

	for (;; at += sizeof(chain)) {
		left = at < e->size ? (e->size - at) / sizeof(*chain) : 0;
		n = left < ZN_LEN(chain) ? left : ZN_LEN(chain);
		if (n == 0)
			return fail(e, "DT_GNU_HASH: its last chain has no end");
		err = read_at(e, at, chain, n * sizeof(*chain), "DT_GNU_HASH");
		if (err)
			return err;
		for (i = 0; i < n; i++) {
			++*symbols;
			if (chain[i] & 1)
				return 0;
		}
	}
}

static int symbols_by_gnu_hash(struct elf *e, uint64_t at, uint64_t *symbols)
{
	struct {
		uint32_t buckets, first, bloom_words, bloom_shift;
	} head;
	uint32_t bucket[1024], last = 0;
	uint64_t done, n, i;
	int err;

	err = read_at(e, at, &head, sizeof(head), "DT_GNU_HASH");
	at += sizeof(head) + (uint64_t)head.bloom_words * sizeof(uint64_t);
	for (done = 0; !err && done < head.buckets; done += n) {
		n = head.buckets - done < ZN_LEN(bucket) ? head.buckets - done : ZN_LEN(bucket);
		err = read_at(e, at + done * sizeof(*bucket), bucket, n * sizeof(*bucket), "DT_GNU_HASH");
		for (i = 0; !err && i < n; i++)
			last = bucket[i] > last ? bucket[i] : last;
	}
	*symbols = last;
	if (err || last < head.first)
		return err;
	return end_of_chain(e, at + ((uint64_t)head.buckets + last - head.first) * sizeof(*bucket), symbols);
}

static int count_symbols(struct elf *e, const uint64_t *tag, uint64_t gnu_hash, uint64_t *symbols)
{
	uint32_t hash[2]; /* buckets, chains; there is one chain word for each symbol */
	uint64_t at;
	int err;

	if (tag[DT_HASH] && locate_address(e, tag[DT_HASH], 0, &at)) {
		err = read_at(e, at, hash, sizeof(hash), "DT_HASH");
		*symbols = err ? 0 : hash[1];
		return err;
	}
	if (gnu_hash && locate_address(e, gnu_hash, 0, &at))
		return symbols_by_gnu_hash(e, at, symbols);
	return fail(e, "no section headers, and no hash table that tells the number of symbols");
}

static int read_dynamic(struct elf *e, const Elf64_Phdr *p, uint64_t tag[DT_NUM], uint64_t *gnu_hash)
{
	static __thread Elf64_Dyn dynamic[DYNAMIC_MAX];
	size_t i, n = p->p_filesz / sizeof(*dynamic);
	int err;

	n = n < DYNAMIC_MAX ? n : DYNAMIC_MAX;
	err = read_at(e, p->p_offset, dynamic, n * sizeof(*dynamic), "dynamic segment");
	for (i = 0; !err && i < n && dynamic[i].d_tag != DT_NULL; i++) {
		if (dynamic[i].d_tag > 0 && dynamic[i].d_tag < DT_NUM)
			tag[dynamic[i].d_tag] = dynamic[i].d_un.d_val;
		else if (dynamic[i].d_tag == DT_GNU_HASH)
			*gnu_hash = dynamic[i].d_un.d_val;
	}
	return err;
}

/* 1, 0 if the file has no dynamic segment, or -ENOEXEC. */
static int table_by_dynamic(struct elf *e, struct table *t)
{
	uint64_t tag[DT_NUM] = {0}, gnu_hash = 0, symbols = 0;
	const Elf64_Phdr *p = e->segment;
	int err;

	while (p < e->segment + e->segment_count && p->p_type != PT_DYNAMIC)
		p++;
	if (p == e->segment + e->segment_count)
		return 0;
	if ((err = read_dynamic(e, p, tag, &gnu_hash)) || (err = count_symbols(e, tag, gnu_hash, &symbols)))
		return err;
	if (tag[DT_SYMENT] != sizeof(Elf64_Sym))
		return fail(e, "DT_SYMENT: symbols of %llu bytes", (unsigned long long)tag[DT_SYMENT]);
	t->len = symbols * sizeof(Elf64_Sym);
	t->names_len = tag[DT_STRSZ];
	if (!locate_address(e, tag[DT_SYMTAB], 0, &t->at) || !is_inside(e, t->at, t->len))
		return fail(e, "DT_SYMTAB: outside the file");
	if (!locate_address(e, tag[DT_STRTAB], 0, &t->names_at) || !is_inside(e, t->names_at, t->names_len))
		return fail(e, "DT_STRTAB: outside the file");
	return 1;
}

/* Chain of the names that end with the two bytes before `end`. */
static uint8_t tail_chain(const char *end)
{
	return (uint8_t)((uint8_t)end[-1] ^ (uint8_t)end[-2] << 3);
}

static void index_names(struct elf *e)
{
	size_t i, len;
	uint16_t *first;

	memset(e->first, 0, sizeof(e->first));
	for (i = 0; i < e->count; i++) {
		len = strnlen(e->symbols[i].name, NAME_LEN_MAX + 1);
		if (len < 2 || len > NAME_LEN_MAX || e->symbols[i].offset)
			continue;
		e->name_len[i] = (uint8_t)len;
		first = &e->first[tail_chain(e->symbols[i].name + len)];
		e->next[i] = *first;
		*first = (uint16_t)(i + 1);
	}
}

static int add_hit(struct elf *e, uint64_t at, size_t name)
{
	size_t i = e->hit_count;

	if (at > UINT32_MAX)
		return 0; /* st_name has 32 bits */
	if (e->hit_count == HITS_MAX)
		return fail(e, "string table: more than %d places with a wanted name", HITS_MAX);
	for (; i && e->hit[i - 1].at > at; i--)
		e->hit[i] = e->hit[i - 1];
	e->hit[i] = (struct hit){(uint32_t)at, (uint32_t)name};
	e->hit_count++;
	return 0;
}

/* The string that ends here, at string table offset `at`: which names is it, or does it end with? */
static int match_names(struct elf *e, const char *end, uint64_t at)
{
	size_t name, len;
	int err;

	for (name = e->first[tail_chain(end)]; name; name = e->next[name - 1]) {
		if (e->budget < COMPARE_COST)
			return fail(e, "string table: too many names to compare");
		e->budget -= COMPARE_COST;
		len = e->name_len[name - 1];
		if (memcmp(end - len, e->symbols[name - 1].name, len))
			continue;
		err = add_hit(e, at - len, name - 1);
		if (err)
			return err;
	}
	return 0;
}

static int scan_names(struct elf *e, const struct table *t)
{
	static __thread char buf[CARRY + WINDOW];
	uint64_t done, n, i;
	int err;

	e->hit_count = 0;
	memset(buf, 0, CARRY);
	for (done = 0; done < t->names_len; done += n) {
		n = t->names_len - done < WINDOW ? t->names_len - done : WINDOW;
		err = read_at(e, t->names_at + done, buf + CARRY, n, "string table");
		if (err)
			return err;
		for (i = 0; i < n; i++) {
			err = buf[CARRY + i] ? 0 : match_names(e, buf + CARRY + i, done + i);
			if (err)
				return err;
		}
		memmove(buf, buf + n, CARRY);
	}
	return 0;
}

static size_t first_hit(const struct elf *e, uint32_t at)
{
	size_t low = 0, high = e->hit_count, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (e->hit[middle].at < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void sort_in(struct elf *e, size_t name, uint64_t addr)
{
	size_t i = e->by_addr_count++;

	e->addr[name] = addr;
	for (; i && e->addr[e->by_addr[i - 1]] > addr; i--)
		e->by_addr[i] = e->by_addr[i - 1];
	e->by_addr[i] = (uint16_t)name;
}

static int resolve_symbol(struct elf *e, size_t name, const Elf64_Sym *sym)
{
	struct zn_elf_symbol *symbol = &e->symbols[name];
	const Elf64_Phdr *p = segment_of(e, sym->st_value, PF_X);
	uint64_t at, left;
	int err;

	if (symbol->offset || !locate_address(e, sym->st_value, PF_X, &at) || at == 0)
		return 0;
	left = e->size - at;
	err = read_at(e, at, symbol->code, left < sizeof(symbol->code) ? left : sizeof(symbol->code), "code");
	if (err)
		return err;
	if (left > p->p_filesz - (sym->st_value - p->p_vaddr))
		left = p->p_filesz - (sym->st_value - p->p_vaddr);
	symbol->offset = at;
	symbol->size = sym->st_size < left ? sym->st_size : left;
	symbol->room = left;
	sort_in(e, name, sym->st_value);
	e->found++;
	return 0;
}

/* SHN_ABS and SHN_COMMON are in the reserved range: such a value is no address of this file's code. */
static bool is_function(const Elf64_Sym *sym)
{
	bool defined = sym->st_shndx == SHN_XINDEX || (sym->st_shndx != SHN_UNDEF && sym->st_shndx < SHN_LORESERVE);

	return defined && ELF64_ST_TYPE(sym->st_info) == STT_FUNC && ELF64_ST_BIND(sym->st_info) != STB_LOCAL;
}

static bool is_variable(const Elf64_Sym *sym)
{
	return sym->st_shndx != SHN_UNDEF && sym->st_shndx < SHN_LORESERVE && sym->st_value &&
		ELF64_ST_TYPE(sym->st_info) == STT_OBJECT && ELF64_ST_BIND(sym->st_info) != STB_LOCAL;
}

static int resolve_variable(struct elf *e, size_t name, const Elf64_Sym *sym)
{
	e->found += e->symbols[name].offset == 0;
	e->symbols[name].offset = sym->st_value;
	return 0;
}

static int try_symbol(struct elf *e, const Elf64_Sym *sym)
{
	size_t i;
	int err;

	if (e->variables ? !is_variable(sym) : !is_function(sym))
		return 0;
	for (i = first_hit(e, sym->st_name); i < e->hit_count && e->hit[i].at == sym->st_name; i++) {
		err = e->variables ? resolve_variable(e, e->hit[i].name, sym) : resolve_symbol(e, e->hit[i].name, sym);
		if (err)
			return err;
	}
	return 0;
}

/* A symbol of any kind ends the room of the function before it: calls may enter there. Of several functions at one
 * address the last gets the room; share_room() gives it to the others. */
static int limit_room(struct elf *e, const Elf64_Sym *sym)
{
	size_t low = 0, high = e->by_addr_count, middle;
	struct zn_elf_symbol *before;
	uint64_t room;

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || ELF64_ST_TYPE(sym->st_info) == STT_TLS)
		return 0;
	while (low < high) {
		middle = (low + high) / 2;
		if (e->addr[e->by_addr[middle]] < sym->st_value)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	before = &e->symbols[e->by_addr[low - 1]];
	room = sym->st_value - e->addr[e->by_addr[low - 1]];
	before->room = room < before->room ? room : before->room;
	return 0;
}

static void share_room(struct elf *e)
{
	for (size_t i = e->by_addr_count; i-- > 1;)
		if (e->addr[e->by_addr[i - 1]] == e->addr[e->by_addr[i]])
			e->symbols[e->by_addr[i - 1]].room = e->symbols[e->by_addr[i]].room;
}

static int each_symbol(
	struct elf *e, const struct table *t, bool until_found, int (*visit)(struct elf *e, const Elf64_Sym *sym))
{
	static __thread Elf64_Sym window[SYMBOLS_WINDOW];
	uint64_t done, n, i, total = t->len / sizeof(*window);
	int err;

	for (done = 0; done < total && !(until_found && e->found == e->count); done += n) {
		n = total - done < SYMBOLS_WINDOW ? total - done : SYMBOLS_WINDOW;
		err = read_at(e, t->at + done * sizeof(*window), window, n * sizeof(*window), "symbol table");
		for (i = 0; !err && i < n; i++)
			err = visit(e, &window[i]);
		if (err)
			return err;
	}
	return 0;
}

static int search_table(struct elf *e, const struct table *t)
{
	int err;

	index_names(e);
	e->by_addr_count = 0;
	err = scan_names(e, t);
	if (err || e->hit_count == 0)
		return err;
	err = each_symbol(e, t, true, try_symbol);
	if (err || e->by_addr_count == 0)
		return err;
	err = each_symbol(e, t, false, limit_room);
	share_room(e);
	return err;
}

static int find_symbols(struct elf *e)
{
	struct table t;
	int err, dynamic, other;

	err = read_head(e);
	if (err)
		return err;
	dynamic = table_by_section(e, SHT_DYNSYM, &t);
	if (dynamic == 0)
		dynamic = table_by_dynamic(e, &t);
	err = dynamic > 0 ? search_table(e, &t) : dynamic;
	if (err || e->found == e->count)
		return err;
	other = table_by_section(e, SHT_SYMTAB, &t);
	err = other > 0 ? search_table(e, &t) : other;
	if (err && e->variables && e->found)
		return 0; /* what .dynsym has is true whatever .symtab is; e->why says what that is */
	return err || dynamic || other ? err : fail(e, "no symbol table");
}

static __thread struct elf the_elf; /* of each thread its own, as all that is static here */

static int find_all(int fd, struct zn_elf_symbol *symbols, size_t count, size_t budget, const char **why)
{
	struct elf *e = &the_elf;
	size_t i;
	int err;

	e->fd = fd;
	e->budget = e->whole_budget = budget;
	e->symbols = symbols;
	e->count = count;
	e->found = 0;
	e->why[0] = '\0';
	*why = e->why;
	for (i = 0; i < count; i++)
		symbols[i] = (struct zn_elf_symbol){.name = symbols[i].name};
	err = count > NAMES_MAX ? fail(e, "more than %d names are looked for", NAMES_MAX) : find_symbols(e);
	if (err == 0)
		return (int)e->found;
	for (i = 0; i < count; i++)
		symbols[i] = (struct zn_elf_symbol){.name = symbols[i].name};
	return err;
}

int zn_elf_symbols(int fd, struct zn_elf_symbol *symbols, size_t count, size_t budget, const char **why)
{
	the_elf.variables = false;
	return find_all(fd, symbols, count, budget, why);
}

int zn_elf_variables(
	int fd, struct zn_elf_symbol *symbols, size_t count, size_t budget, uint64_t *base, const char **why)
{
	int found;

	the_elf.variables = true;
	found = find_all(fd, symbols, count, budget, why);
	*base = 0;
	for (size_t i = the_elf.segment_count; found >= 0 && i--;)
		if (the_elf.segment[i].p_type == PT_LOAD && the_elf.segment[i].p_offset == 0)
			*base = the_elf.segment[i].p_vaddr;
	return found;
}
