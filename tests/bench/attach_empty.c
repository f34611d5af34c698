/* SPDX-License-Identifier: GPL-2.0 */
/*
 * attach_empty WAY OBJECT LIBRARY SYMBOL...: puts programs, such as the empty ones, on functions of a library the way
 * the daemon puts its own, at the same places. WAY "links": one multi-uprobe link for entries, one for returns;
 * "session": one for both; "skip": the same, whose program spares each return; "auto": a session, if the kernel has
 * them. Reads lines: "+" attaches, "-" detaches, "?" tells the way; the others are answered with "ok".
 */
#define ZN_IN_probe /* what zernel.h keeps for the files of src/probe */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "zernel.h"

#define TRACE_UPROBE_MULTI   48 /* enum bpf_attach_type of linux/bpf.h from 6.6 on */
#define TRACE_UPROBE_SESSION 57 /* likewise, from 6.13 on */
#define RETURN_FLAG          1
#define SYMBOLS_MAX          256

static struct zn_elf_symbol spot[SYMBOLS_MAX];
static struct zn_place place[SYMBOLS_MAX];
static int spot_count;
static int program[2], link_fd[2] = {-1, -1}; /* entry, return; a session is in the former */
static bool session;

static void spots_find(const char *library, char **names, int count)
{
	int fd = open(library, O_RDONLY | O_CLOEXEC);
	const char *why = "no such function";

	if (count > SYMBOLS_MAX)
		die("symbols", "too many");
	for (spot_count = 0; spot_count < count; spot_count++)
		spot[spot_count].name = names[spot_count];
	if (fd < 0 || zn_elf_symbols(fd, spot, (size_t)spot_count, ZN_ELF_BUDGET, &why) != spot_count)
		die(library, why);
	for (int i = 0; i < spot_count; i++)
		place[i] = zn_place_of(fd, &spot[i]);
	close(fd);
}

/* False: it is refused. Of an object the programs that are not needed are not loaded. */
static bool programs_load(const char *path, const char *way)
{
	const char *first = !strcmp(way, "links") ? "at_entry" : !strcmp(way, "skip") ? "at_entry_alone" : "at_both";
	struct bpf_object *o = bpf_object__open_file(path, NULL);
	struct bpf_program *p;

	session = strcmp(way, "links") != 0;
	if (!o)
		die(path, strerror(errno));
	bpf_object__for_each_program (p, o) {
		const char *name = bpf_program__name(p);

		bpf_program__set_autoload(p, !strcmp(name, first) || (!session && !strcmp(name, "at_return")));
		bpf_program__set_expected_attach_type(p, session ? TRACE_UPROBE_SESSION : TRACE_UPROBE_MULTI);
	}
	if (bpf_object__load(o)) {
		bpf_object__close(o);
		return false;
	}
	program[0] = bpf_program__fd(bpf_object__find_program_by_name(o, first));
	program[1] = session ? -1 : bpf_program__fd(bpf_object__find_program_by_name(o, "at_return"));
	return true;
}

static int link_open(const char *library, int ret)
{
	uint64_t offset[SYMBOLS_MAX];
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t count, multi_flags, pid, pad;
	} attr = {.prog_fd = (uint32_t)program[ret],
		.attach_type = session ? TRACE_UPROBE_SESSION : TRACE_UPROBE_MULTI,
		.path = (uintptr_t)library,
		.offsets = (uintptr_t)offset,
		.count = (uint32_t)spot_count,
		.multi_flags = ret ? RETURN_FLAG : 0};
	int fd;

	for (int i = 0; i < spot_count; i++)
		offset[i] = place[i].offset;
	fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	if (fd < 0)
		die("BPF_LINK_CREATE", strerror(errno));
	return fd;
}

static void attach(const char *library)
{
	for (int ret = !session; ret >= 0; ret--)
		link_fd[ret] = link_open(library, ret);
}

static void detach(void)
{
	for (int ret = 0; ret <= !session; ret++)
		close(link_fd[ret]);
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc < 5)
		die("usage", "attach_empty WAY OBJECT LIBRARY SYMBOL...");
	spots_find(argv[3], argv + 4, argc - 4);
	if (!strcmp(argv[1], "auto") ? !programs_load(argv[2], "session") && !programs_load(argv[2], "links")
				     : !programs_load(argv[2], argv[1]))
		die(argv[2], "cannot be loaded");
	while (fgets(line, sizeof(line), stdin)) {
		if (line[0] == '+')
			attach(argv[3]);
		else if (line[0] == '-')
			detach();
		puts(line[0] != '?' ? "ok" : session ? "session" : "links");
		fflush(stdout);
	}
	return 0;
}
