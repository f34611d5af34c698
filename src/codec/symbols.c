/* SPDX-License-Identifier: GPL-2.0 */
/*
 * symbols.c: which functions addresses of an ELF file lie in, and names of C++ functions. Everything in the file is
 * hostile. An address has a name where a symbol says how far its function goes, and the address lies in it; of several
 * names of one function the plainest is told. A mangled name is read as a whole, or stays as it is.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "zernel.h"

#define WINDOW       2048 /* symbols that are read at a time */
#define SECTIONS_MAX 4096
#define MANGLED_MAX  1024
#define NAMES_LEAST  32 /* bytes of the string table that are read for a short name */

struct table {
	uint64_t at, len, names_at, names_len;
};

/* ---- Tables. ---- */

static bool find_table(struct zn_unwind_file *f, uint32_t type, struct table *t)
{
	Elf64_Shdr sh, names;

	for (uint64_t i = 0; f->sections_at && i < f->sections && i < SECTIONS_MAX; i++) {
		if (!zn_unwind_read(f, f->sections_at + i * sizeof(sh), &sh, sizeof(sh)))
			return false;
		if (sh.sh_type != type || sh.sh_entsize != sizeof(Elf64_Sym) || sh.sh_link >= f->sections)
			continue;
		if (!zn_unwind_read(f, f->sections_at + sh.sh_link * sizeof(names), &names, sizeof(names)) ||
			names.sh_type != SHT_STRTAB)
			return false;
		*t = (struct table){sh.sh_offset, sh.sh_size, names.sh_offset, names.sh_size};
		return true;
	}
	return false;
}

static bool is_function(const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && sym->st_size && sym->st_shndx != SHN_UNDEF &&
		(sym->st_shndx < SHN_LORESERVE || sym->st_shndx == SHN_XINDEX);
}

/* The innermost function counts, and of one function all names. */
static void note_symbol(struct zn_symbol *s, const Elf64_Sym *sym)
{
	bool better = !s->size || sym->st_value > s->begin || (sym->st_value == s->begin && sym->st_size < s->size);

	if (better) {
		s->begin = sym->st_value;
		s->size = sym->st_size;
		s->count = 0;
	}
	if (sym->st_value == s->begin && sym->st_size == s->size && s->count < ZN_LEN(s->at))
		s->at[s->count++] = sym->st_name;
}

static void try_symbol(struct zn_symbol *list, size_t count, const Elf64_Sym *sym)
{
	size_t low = 0, high = count;

	if (!is_function(sym))
		return;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (list[middle].address < sym->st_value)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < count && list[low].address - sym->st_value < sym->st_size; low++)
		note_symbol(&list[low], sym);
}

static void read_symbols(struct zn_unwind_file *f, const struct table *t, struct zn_symbol *list, size_t count)
{
	static __thread Elf64_Sym window[WINDOW];
	uint64_t total = t->len / sizeof(*window), n;

	for (uint64_t done = 0; done < total; done += n) {
		n = total - done < WINDOW ? total - done : WINDOW;
		if (!zn_unwind_read(f, t->at + done * sizeof(*window), window, n * sizeof(*window)))
			return;
		for (uint64_t i = 0; i < n; i++)
			try_symbol(list, count, &window[i]);
	}
}

/* ---- Names. ---- */

/* False: there is none, or it is too long. */
static bool read_name(struct zn_unwind_file *f, const struct table *t, uint32_t at, char name[MANGLED_MAX])
{
	for (size_t len = NAMES_LEAST; len <= MANGLED_MAX; len *= 2) {
		uint64_t left = at < t->names_len ? t->names_len - at : 0;
		size_t n = left < len ? left : len;

		if (!n || !zn_unwind_read(f, t->names_at + at, name, n))
			return false;
		if (memchr(name, '\0', n))
			return name[0];
	}
	return false;
}

static size_t underscores_of(const char *name)
{
	return strspn(name, "_");
}

static bool is_plainer(const char *a, const char *b)
{
	size_t a_len = strlen(a), b_len = strlen(b);

	if (underscores_of(a) != underscores_of(b))
		return underscores_of(a) < underscores_of(b);
	return a_len != b_len ? a_len < b_len : strcmp(a, b) < 0;
}

static void put_name(struct zn_symbol *s, const char *name)
{
	struct zn_out o = {.at = s->name, .cap = sizeof(s->name) - 1};
	size_t len = strlen(name);

	if (!zn_symbols_demangle(&o, name)) {
		o.len = len < o.cap ? len : o.cap - 3;
		memcpy(s->name, name, o.len);
		memcpy(s->name + o.len, "...", len < o.cap ? 0 : 3);
		o.len += len < o.cap ? 0 : 3;
	}
	s->name[o.len] = '\0';
	zn_str_plain(s->name);
}

static void name_symbol(struct zn_unwind_file *f, const struct table *t, struct zn_symbol *s)
{
	char name[MANGLED_MAX], best[MANGLED_MAX] = "";

	for (uint32_t i = 0; i < s->count; i++)
		if (read_name(f, t, s->at[i], name) && (!best[0] || is_plainer(name, best)))
			strcpy(best, name);
	if (best[0])
		put_name(s, best);
	else
		s->size = 0;
}

static int by_address(const void *a, const void *b)
{
	uint64_t one = ((const struct zn_symbol *)a)->address, other = ((const struct zn_symbol *)b)->address;

	return (one > other) - (one < other);
}

void zn_symbols_find(struct zn_unwind_file *f, struct zn_symbol *list, size_t count)
{
	struct table t;

	for (size_t i = 0; i < count; i++)
		list[i] = (struct zn_symbol){.address = list[i].address};
	zn_sort(list, count, sizeof(list[0]), by_address);
	if (!find_table(f, SHT_SYMTAB, &t) && !find_table(f, SHT_DYNSYM, &t))
		return;
	read_symbols(f, &t, list, count);
	for (size_t i = 0; i < count; i++)
		if (list[i].size)
			name_symbol(f, &t, &list[i]);
}

/* ---- Names of C++ (Itanium C++ ABI, 5.1). ---- */

static const char operators[][2][12] = {{"nw", " new"}, {"na", " new[]"}, {"dl", " delete"}, {"da", " delete[]"},
	{"ng", "-"}, {"ad", "&"}, {"de", "*"}, {"co", "~"}, {"pl", "+"}, {"mi", "-"}, {"ml", "*"}, {"dv", "/"},
	{"rm", "%"}, {"an", "&"}, {"or", "|"}, {"eo", "^"}, {"aS", "="}, {"pL", "+="}, {"mI", "-="}, {"mL", "*="},
	{"dV", "/="}, {"rM", "%="}, {"aN", "&="}, {"oR", "|="}, {"eO", "^="}, {"ls", "<<"}, {"rs", ">>"}, {"lS", "<<="},
	{"rS", ">>="}, {"eq", "=="}, {"ne", "!="}, {"lt", "<"}, {"gt", ">"}, {"le", "<="}, {"ge", ">="}, {"nt", "!"},
	{"aa", "&&"}, {"oo", "||"}, {"pp", "++"}, {"mm", "--"}, {"cm", ","}, {"pm", "->*"}, {"pt", "->"}, {"cl", "()"},
	{"ix", "[]"}};

/* "3foo": the next so many characters. */
static bool take_source(const char **at, struct zn_str *to)
{
	size_t len = 0;

	if (**at < '1' || **at > '9')
		return false;
	while (**at >= '0' && **at <= '9' && len < MANGLED_MAX)
		len = len * 10 + (size_t)(*(*at)++ - '0');
	if (strnlen(*at, len) < len)
		return false;
	*to = (struct zn_str){*at, len};
	*at += len;
	return true;
}

static void put_source(struct zn_out *o, struct zn_str name)
{
	if (name.len >= 10 && !memcmp(name.at, "_GLOBAL_", 8) && name.at[9] == 'N')
		zn_out_text(o, "(anonymous namespace)");
	else
		zn_out_bytes(o, name.at, name.len);
}

static bool put_operator(struct zn_out *o, const char **at)
{
	for (size_t i = 0; i < ZN_LEN(operators); i++)
		if (!strncmp(*at, operators[i][0], 2)) {
			*at += 2;
			zn_out_text(o, "operator");
			zn_out_text(o, operators[i][1]);
			return true;
		}
	return false;
}

/* One part of a name. last: the one before, which a constructor is named after. */
static bool put_part(struct zn_out *o, const char **at, struct zn_str *last)
{
	if ((**at == 'C' && (*at)[1] >= '1' && (*at)[1] <= '3') ||
		(**at == 'D' && (*at)[1] >= '0' && (*at)[1] <= '2')) {
		if (!last->len)
			return false;
		zn_out_text(o, **at == 'D' ? "~" : "");
		zn_out_bytes(o, last->at, last->len);
		*at += 2;
		*last = (struct zn_str){0};
	} else {
		*at += **at == 'L';
		if (take_source(at, last))
			put_source(o, *last);
		else if (!put_operator(o, at))
			return false;
	}
	for (struct zn_str tag; **at == 'B';) {
		++*at;
		if (!take_source(at, &tag))
			return false;
		zn_out_text(o, "[abi:");
		zn_out_bytes(o, tag.at, tag.len);
		zn_out_text(o, "]");
	}
	return true;
}

static bool put_nested(struct zn_out *o, const char **at)
{
	struct zn_str last = {0};
	bool any = false;

	*at += strspn(*at, "rVK");
	*at += **at == 'R' || **at == 'O';
	if (!strncmp(*at, "St", 2)) {
		zn_out_text(o, "std");
		*at += 2;
		any = true;
	}
	for (; **at != 'E'; any = true) {
		zn_out_text(o, any ? "::" : "");
		if (!put_part(o, at, &last))
			return false;
	}
	++*at;
	return any;
}

static bool put_unnested(struct zn_out *o, const char **at)
{
	struct zn_str last = {0};

	if (!strncmp(*at, "St", 2)) {
		zn_out_text(o, "std::");
		*at += 2;
	}
	return put_part(o, at, &last);
}

/* What follows the name are its parameters, and one at least. Templates and copies (".cold") are not read. */
bool zn_symbols_demangle(struct zn_out *o, const char *mangled)
{
	size_t before = o->len;
	const char *at = mangled + 2;
	bool ok;

	if (strncmp(mangled, "_Z", 2) || strchr(mangled, '.'))
		return false;
	if (*at == 'N') {
		at++;
		ok = put_nested(o, &at);
	} else {
		ok = put_unnested(o, &at);
	}
	ok = ok && *at && *at != 'I' && *at != 'E' && !o->full;
	if (!ok) {
		o->len = before;
		o->full = false;
	}
	return ok;
}
