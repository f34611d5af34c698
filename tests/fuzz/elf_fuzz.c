/* SPDX-License-Identifier: GPL-2.0 */
/*
 * elf_fuzz.c: fuzz target of elf.c. Whatever the file says: a symbol that was found lies in the file, its
 * code is what the file has there, an error has a reason and finds nothing, and the same file gives the same
 * answer again.
 */
#include "src/codec/elf.c"

#include <stdlib.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct zn_elf_symbol wanted[] = {{.name = "ncclSend"}, {.name = "pncclSend"}, {.name = "cuInit"},
	{.name = "cuMemAlloc_v2"}, {.name = "Send"}, {.name = "hidden"}};

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check(const struct zn_elf_symbol *s, const uint8_t *data, size_t size)
{
	static const uint8_t zero[sizeof(s->code)];
	size_t left = size - s->offset, len = left < sizeof(s->code) ? left : sizeof(s->code);

	if (s->offset) {
		require(s->offset < size && s->size <= left && s->room && s->room <= left);
		require(!memcmp(s->code, data + s->offset, len) && !memcmp(s->code + len, zero, sizeof(zero) - len));
	} else {
		require(!memcmp(s->code, zero, sizeof(zero)));
	}
}

static int look(int fd, struct zn_elf_symbol *symbols)
{
	const char *why = NULL;
	int n;

	memcpy(symbols, wanted, sizeof(wanted));
	n = zn_elf_symbols(fd, symbols, ZN_LEN(wanted), ZN_ELF_BUDGET, &why);
	require(n >= 0 ? n <= (int)ZN_LEN(wanted) : (n == -ENOEXEC || n == -EOPNOTSUPP) && why && *why);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zn_elf_symbol first[ZN_LEN(wanted)], again[ZN_LEN(wanted)];
	static int fd = -1;
	int n, found = 0;
	size_t i;

	if (fd < 0)
		fd = memfd_create("elf_fuzz", MFD_CLOEXEC);
	require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	n = look(fd, first);
	require(look(fd, again) == n && !memcmp(first, again, sizeof(first)));
	for (i = 0; i < ZN_LEN(wanted); i++) {
		found += first[i].offset != 0;
		check(&first[i], data, size);
	}
	require(found == (n < 0 ? 0 : n));
	return 0;
}
