/* SPDX-License-Identifier: GPL-2.0 */
/*
 * symbols_fuzz.c: any bytes as an ELF file with symbols, and as a mangled name. A name is printable and ends, an
 * address lies in the function that it is told to be in, and the same file gives the same answer again.
 */
#include "src/codec/symbols.c"

#include <sys/mman.h>
#include <unistd.h>

#define ADDRESSES 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_symbols(struct zn_unwind_file *f)
{
	struct zn_symbol list[ADDRESSES] = {{0}}, again[ADDRESSES] = {{0}};

	for (int i = 0; i < ADDRESSES; i++)
		list[i].address = again[i].address = (uint64_t)(ADDRESSES - i) * 0x111;
	zn_symbols_find(f, list, ADDRESSES);
	f->budget = 64 << 20;
	zn_symbols_find(f, again, ADDRESSES);
	for (int i = 0; i < ADDRESSES; i++) {
		require(!i || list[i - 1].address <= list[i].address);
		require(memchr(list[i].name, '\0', sizeof(list[i].name)));
		require(!list[i].size || list[i].name[0]);
		require(!list[i].size || list[i].address - list[i].begin < list[i].size);
		require(list[i].size == again[i].size && !strcmp(list[i].name, again[i].name));
		for (const char *c = list[i].name; *c; c++)
			require(*c >= ' ' && *c <= '~');
	}
}

static void check_name(const uint8_t *data, size_t size)
{
	char name[512], text[512];
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	size = size < sizeof(name) - 3 ? size : sizeof(name) - 3;
	memcpy(name, "_Z", 2);
	memcpy(name + 2, data, size);
	name[2 + size] = '\0';
	require(zn_symbols_demangle(&o, name) ? o.len && !o.full : !o.len && !o.full);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zn_unwind_file f;
	static int fd = -1;

	check_name(data, size);
	if (fd < 0)
		fd = memfd_create("symbols_fuzz", MFD_CLOEXEC);
	require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	if (zn_unwind_open(&f, fd, 64 << 20, 0))
		check_symbols(&f);
	return 0;
}
