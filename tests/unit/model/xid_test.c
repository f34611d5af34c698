/* SPDX-License-Identifier: GPL-2.0 */
/* link: -Wl,--wrap=read */
/*
 * xid_test.c: which lines of the kernel's log are errors of a GPU, and who may say so; reads as /dev/kmsg answers them,
 * a record or an error at a time, and a real pipe and file, cut anywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define BROKEN "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus."

static struct zn_xids x;

/* ---- read(), as of /dev/kmsg while there is a script. ---- */

ssize_t __real_read(int fd, void *to, size_t len);
ssize_t __wrap_read(int fd, void *to, size_t len);

static const struct answer {
	const char *record; /* NULL: err */
	int err;
} * script;

ssize_t __wrap_read(int fd, void *to, size_t len)
{
	const struct answer *a = script;
	size_t n = a && a->record ? strlen(a->record) : 0;

	if (!a)
		return __real_read(fd, to, len);
	if (a->err != EAGAIN)
		script++;
	errno = n > len ? EINVAL : a->err;
	if (!a->record || n > len)
		return -1;
	memcpy(to, a->record, n);
	return (ssize_t)n;
}

/* ---- Texts. ---- */

static const struct {
	const char *name, *text, *pci; /* NULL: it is none */
	uint32_t xid;
} texts[] = {
	{"as drivers write it", BROKEN, "0000:3b:00.0", 79},
	{"older ones", "NVRM: Xid (0000:03:00): 31, Ch 00000010", "0000:03:00.0", 31},
	{"of MIG", "NVRM: Xid (PCI:0000:C1:00 GPU-I:05): 94, pid=1, Contained", "0000:c1:00.0", 94},
	{"with a function", "NVRM: Xid (PCI:0000:c1:00.1): 8, x", "0000:c1:00.1", 8},
	{"a long domain", "NVRM: Xid (PCI:00010000:01:1f): 8, x", "10000:01:1f.0", 8},
	{"no text behind it", "NVRM: Xid (PCI:0000:3b:00): 79", "0000:3b:00.0", 79},
	{"the longest number", "NVRM: Xid (PCI:0000:3b:00): 999999, x", "0000:3b:00.0", 999999},
	{"a number too long", "NVRM: Xid (PCI:0000:3b:00): 1000000, x", NULL, 0},
	{"no number", "NVRM: Xid (PCI:0000:3b:00): , x", NULL, 0},
	{"a negative number", "NVRM: Xid (PCI:0000:3b:00): -1, x", NULL, 0},
	{"more than a number", "NVRM: Xid (PCI:0000:3b:00): 79x, x", NULL, 0},
	{"a short domain", "NVRM: Xid (PCI:000:3b:00): 79, x", NULL, 0},
	{"a domain too long", "NVRM: Xid (PCI:000000000:3b:00): 79, x", NULL, 0},
	{"a bus too long", "NVRM: Xid (PCI:0000:3bb:00): 79, x", NULL, 0},
	{"no device", "NVRM: Xid (PCI:0000:3b): 79, x", NULL, 0},
	{"no digits", "NVRM: Xid (PCI:0000:3g:00): 79, x", NULL, 0},
	{"a bad function", "NVRM: Xid (PCI:0000:3b:00.): 79, x", NULL, 0},
	{"a bad instance", "NVRM: Xid (PCI:0000:3b:00 GPU-I:): 79, x", NULL, 0},
	{"no end of the address", "NVRM: Xid (PCI:0000:3b:00 79, x", NULL, 0},
	{"something before it", "x NVRM: Xid (PCI:0000:3b:00): 79, x", NULL, 0},
	{"a space before it", " NVRM: Xid (PCI:0000:3b:00): 79, x", NULL, 0},
	{"a process of that name", "NVRM: Xid (PCI:[123]: segfault at 0 ip 0 sp 0 error 4", NULL, 0},
	{"a process of the older one", "NVRM: Xid (0000[123]: segfault at 0 ip 0 sp 0 error 4", NULL, 0},
	{"a switch", "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, x", NULL, 0},
	{"another line of the driver", "NVRM: GPU at PCI:0000:3b:00: GPU-0", NULL, 0},
	{"nothing", "", NULL, 0},
};

/* From a block of exactly its length, and each beginning of it too. */
T(texts_are_told_apart)
{
	for (size_t i = 0; i < ZN_LEN(texts); i++) {
		size_t all = strlen(texts[i].text);

		for (size_t len = 0; len <= all; len++) {
			char *copy = malloc(len ? len : 1), pci[ZN_PCI_BYTES];
			uint32_t xid;
			bool is;

			memcpy(copy, texts[i].text, len);
			is = zn_xid_parse((struct zn_str){copy, len}, pci, &xid);
			free(copy);
			if (len == all && is != (texts[i].pci != NULL))
				T_FAIL("%s: %d", texts[i].name, is);
			if (len == all && is) {
				CHECK_STR(pci, texts[i].pci);
				CHECK_EQ(xid, texts[i].xid);
			}
		}
	}
}

#define AMD "amdgpu 0000:c3:00.0: "

static const struct {
	const char *name, *text;
	enum zn_amdgpu_error want;
} amdgpu[] = {
	{"a reset", AMD "amdgpu: GPU reset begin!", ZN_AMDGPU_RESET},
	{"a reset, of newer kernels", AMD "GPU reset begin!. Source:  1", ZN_AMDGPU_RESET},
	{"a reset that went well", AMD "amdgpu: GPU reset(1) succeeded!", ZN_AMDGPU_NONE},
	{"a reset that failed", AMD "amdgpu: GPU reset(1) failed", ZN_AMDGPU_RESET_FAILED},
	{"a reset that failed, with its error", AMD "amdgpu: GPU reset(7) failed with error -110",
		ZN_AMDGPU_RESET_FAILED},
	{"after a reset", AMD "amdgpu: GPU reset succeeded, trying to resume", ZN_AMDGPU_NONE},
	{"a ring", AMD "amdgpu: ring gfx_0.0.0 timeout, signaled seq=7, emitted seq=9", ZN_AMDGPU_RING_TIMEOUT},
	{"a ring at the start", AMD "amdgpu: ring gfx_0.0.0 uses VM inv eng 0 on hub 0", ZN_AMDGPU_NONE},
	{"a page fault", AMD "amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32769)",
		ZN_AMDGPU_PAGE_FAULT},
	{"a page fault, of newer GPUs", AMD "amdgpu: [gfxhub] page fault (src_id:0 ring:40 vmid:5 pasid:9)",
		ZN_AMDGPU_PAGE_FAULT},
	{"what follows it", AMD "amdgpu:  in page starting at address 0x00007fc991c04000 from client 0x1b (UTCL2)",
		ZN_AMDGPU_NONE},
	{"hardware errors", AMD "amdgpu: 2 uncorrectable hardware errors detected in umc block",
		ZN_AMDGPU_UNCORRECTABLE},
	{"correctable ones", AMD "amdgpu: 1 correctable hardware errors detected in gfx block", ZN_AMDGPU_CORRECTABLE},
	{"new ones", AMD "amdgpu: socket: 0, die: 1, 1 new uncorrectable hardware errors detected in gfx block",
		ZN_AMDGPU_UNCORRECTABLE},
	{"new ones with a number before",
		AMD "amdgpu: {12} socket: 0, die: 1, 3 new deferred hardware errors detected in umc block",
		ZN_AMDGPU_DEFERRED},
	{"all so far", AMD "amdgpu: socket: 0, die: 1, 4 uncorrectable hardware errors detected in total in gfx block",
		ZN_AMDGPU_NONE},
	{"none", AMD "amdgpu: no uncorrectable hardware errors detected in umc block", ZN_AMDGPU_NONE},
	{"an interrupt", AMD "amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
		ZN_AMDGPU_UNCORRECTABLE},
	{"no address", "amdgpu: GPU reset begin!", ZN_AMDGPU_NONE},
	{"a bad address", "amdgpu 0000:c3:00: amdgpu: GPU reset begin!", ZN_AMDGPU_NONE},
	{"something before it", "x " AMD "amdgpu: GPU reset begin!", ZN_AMDGPU_NONE},
	{"another driver", "i915 0000:c3:00.0: amdgpu: GPU reset begin!", ZN_AMDGPU_NONE},
	{"a process of that name", "amdgpu[123]: segfault at 0 ip 0 sp 0 error 4", ZN_AMDGPU_NONE},
	{"nothing", "", ZN_AMDGPU_NONE},
};

T(records_of_amdgpu_are_told_apart)
{
	for (size_t i = 0; i < ZN_LEN(amdgpu); i++) {
		size_t all = strlen(amdgpu[i].text);

		for (size_t len = 0; len <= all; len++) {
			char *copy = malloc(len ? len : 1), pci[ZN_PCI_BYTES];
			enum zn_amdgpu_error got;

			memcpy(copy, amdgpu[i].text, len);
			got = zn_amdgpu_parse((struct zn_str){copy, len}, pci);
			free(copy);
			if (len == all && got != amdgpu[i].want)
				T_FAIL("%s: %d", amdgpu[i].name, got);
			if (len == all && got)
				CHECK_STR(pci, "0000:c3:00.0");
		}
	}
}

/* ---- Records. ---- */

static void play(const struct answer *answers)
{
	x = (struct zn_xids){.fd = 0};
	script = answers;
	zn_xids_tick(&x);
	script = NULL;
}

T(only_the_kernel_itself_counts)
{
	static const struct answer log[] = {
		{"3,339,5140900,-;" BROKEN "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n", 0},
		{"11,340,5140901,-;" BROKEN "\n", 0},                       /* user, error: echo > /dev/kmsg */
		{"30,341,5140902,-;" BROKEN "\n", 0},                       /* daemon */
		{"2047,342,5140903,-;" BROKEN "\n", 0},                     /* the highest there is */
		{"4,343,5140904,c,caller=T1;" BROKEN "\n " BROKEN "\n", 0}, /* the second line belongs to the first */
		{"6,344,5140905,-;usb 1-1: " BROKEN "\n", 0},
		{"6,345,5140906,-;NVRM: Xid (PCI:0000:3b:00): 13, x;" BROKEN "\n", 0},
		{NULL, EAGAIN},
	};

	play(log);
	CHECK_EQ(x.kernel, 4);
	CHECK_EQ(x.other, 3);
	CHECK_EQ(x.count, 2);
	CHECK_STR(x.xid[0].pci, "0000:3b:00.0");
	CHECK_EQ(x.xid[0].xid, 79);
	CHECK_EQ(x.xid[0].times, 2);
	CHECK_EQ(x.xid[1].xid, 13);
	CHECK_EQ(x.xid[1].times, 1);
	CHECK(x.xid[0].since_ns <= x.xid[0].last_ns && zn_now_ns() - x.xid[0].since_ns < 60 * ZN_NS_PER_S);
	CHECK_EQ(x.lost, 0);
}

T(errors_of_both_drivers_are_kept_apart)
{
	static const struct answer log[] = {
		{"3,1,1,-;" BROKEN "\n", 0},
		{"3,2,1,-;" AMD "amdgpu: GPU reset begin!\n", 0},
		{"3,3,1,-;" AMD "amdgpu: 1 correctable hardware errors detected in umc block\n", 0},
		{"3,4,1,-;" AMD "amdgpu: GPU reset begin!\n", 0},
		{"11,5,1,-;" AMD "amdgpu: GPU reset begin!\n", 0},
		{NULL, EAGAIN},
	};

	play(log);
	CHECK_EQ(x.count, 3);
	CHECK_EQ(x.xid[0].amdgpu, ZN_AMDGPU_NONE);
	CHECK_STR(zn_amdgpu_label(x.xid[1].amdgpu), "reset");
	CHECK_EQ(x.xid[1].times, 2);
	CHECK_STR(zn_amdgpu_label(x.xid[2].amdgpu), "correctable");
	CHECK_EQ(x.xid[2].times, 1);
}

static const struct {
	const char *text;
	bool nonfatal;
} severities[] = {
	{"145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008)", true},
	{"145, RLW_SRC_TRACK Fatal XC1 i0 Link 12 (0x040988e2 0x00000008)", false},
	{"149, pid=4, name=<unknown>, NETIR Nonfatal XC0 i0 Link -1 (0x000fe406 0x00000000)", true},
	{"149, pid=4, name=x Nonfatal y, NETIR Fatal XC0 i0 Link -1 (0x000fe406)", false},
	{"144, Nonfatal", false},
	{"150, x Nonfatal", false},
	{"150", false},
	{"143, x Nonfatal XC1", false},
	{"151, x Nonfatal XC1", false},
	{"79, pid=7, x Nonfatal XC1", false},
	{"154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", false},
	{"154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", true},
	{"154, x (", false},
	{"154, x", false},
};

T(lines_that_say_that_nothing_is_broken)
{
	for (size_t i = 0; i < ZN_LEN(severities); i++) {
		char record[160];
		struct answer log[] = {{record, 0}, {NULL, EAGAIN}};

		snprintf(record, sizeof(record), "3,1,1,-;NVRM: Xid (PCI:0000:3b:00): %s\n", severities[i].text);
		play(log);
		CHECK_EQ(x.count, 1);
		if (x.xid[0].nonfatal != severities[i].nonfatal)
			T_FAIL("%s", severities[i].text);
	}
}

T(fatal_and_nonfatal_ones_are_kept_apart)
{
	static const struct answer log[] = {
		{"3,1,1,-;NVRM: Xid (PCI:0000:3b:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2)\n", 0},
		{"3,2,1,-;NVRM: Xid (PCI:0000:3b:00): 145, RLW_RXPIPE Fatal XC0 i0 Link 13 (0x0409a0c2)\n", 0},
		{"3,3,1,-;NVRM: Xid (PCI:0000:3b:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2)\n", 0},
		{NULL, EAGAIN},
	};

	play(log);
	CHECK_EQ(x.count, 2);
	CHECK_EQ(x.xid[0].times, 2);
	CHECK_EQ(x.xid[1].times, 1);
	for (uint32_t xid = 144; xid <= 150; xid++) {
		CHECK_STR(zn_xid_about(xid, true)->severity, "warning");
		CHECK_STR(zn_xid_about(xid, false)->severity, "critical");
	}
	CHECK_STR(zn_xid_about(154, true)->severity, "info");
	CHECK_STR(zn_xid_about(154, false)->severity, "critical");
}

T(lines_that_are_no_record)
{
	static const struct answer log[] = {
		{"\n", 0},
		{";" BROKEN "\n", 0},
		{"x,1,1,-;" BROKEN "\n", 0},
		{"-1,1,1,-;" BROKEN "\n", 0},
		{"0x3,1,1,-;" BROKEN "\n", 0},
		{"3000000,1,1,-;" BROKEN "\n", 0},
		{"3 ,1,1,-;" BROKEN "\n", 0},
		{"3,1,1,-" BROKEN "\n", 0},
		{" 3,1,1,-;" BROKEN "\n", 0},
		{"3;" BROKEN "\n", 0},
		{NULL, EAGAIN},
	};

	play(log);
	CHECK_EQ(x.kernel + x.other, 0);
	CHECK_EQ(x.count, 0);
}

T(what_was_overwritten_is_counted)
{
	static const struct answer log[] = {
		{"3,1,1,-;" BROKEN "\n", 0},
		{NULL, EPIPE},
		{"3,9,1,-;" BROKEN "\n", 0},
		{NULL, EPIPE},
		{"3,19,1,-;" BROKEN "\n", 0},
		{NULL, EAGAIN},
	};

	play(log);
	CHECK_EQ(x.xid[0].times, 3);
	CHECK_EQ(x.lost, 2);
}

T(a_full_table_drops_the_newcomer)
{
	x = (struct zn_xids){.fd = -1};
	for (uint32_t i = 0; i < ZN_XIDS_MAX + 3; i++)
		zn_xids_add(&x, "0000:3b:00.0", i, false);
	zn_xids_add(&x, "0000:3b:00.0", 7, false);
	CHECK_EQ(x.count, ZN_XIDS_MAX);
	CHECK_EQ(x.lost, 3);
	CHECK_EQ(x.xid[7].times, 2);
}

/* ---- Pipes and files. ---- */

static char path[64];

static void put(int fd, const char *text, size_t len)
{
	if (write(fd, text, len) != (ssize_t)len)
		abort();
}

T(a_pipe_cut_anywhere)
{
	static const char log[] =
		"3,1,1,-;" BROKEN "\n11,2,2,-;" BROKEN "\n3,3,3,-;NVRM: Xid (PCI:0000:3b:00): 13, x\n";

	for (size_t cut = 0; cut < sizeof(log); cut++) {
		int to;

		if (mkfifo(path, 0600))
			abort();
		CHECK_EQ(zn_xids_open(&x, path), 0);
		zn_xids_tick(&x);
		to = open(path, O_WRONLY | O_NONBLOCK);
		put(to, log, cut);
		zn_xids_tick(&x);
		put(to, log + cut, sizeof(log) - 1 - cut);
		zn_xids_tick(&x);
		CHECK_EQ(x.kernel, 2);
		CHECK_EQ(x.other, 1);
		CHECK_EQ(x.count, 2);
		CHECK_EQ(x.xid[0].times + x.xid[1].times, 2);
		close(to);
		zn_xids_tick(&x);
		zn_xids_close(&x);
		unlink(path);
	}
}

T(only_what_is_new_in_a_file)
{
	int to = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

	put(to, "3,1,1,-;" BROKEN "\n", strlen("3,1,1,-;" BROKEN "\n"));
	CHECK_EQ(zn_xids_open(&x, path), 0);
	zn_xids_tick(&x);
	CHECK_EQ(x.kernel, 0);
	put(to, "3,2,2,-;" BROKEN "\n", strlen("3,2,2,-;" BROKEN "\n"));
	zn_xids_tick(&x);
	CHECK_EQ(x.kernel, 1);
	CHECK_EQ(x.xid[0].times, 1);
	zn_xids_close(&x);
	zn_xids_close(&x);
	zn_xids_tick(&x);
	close(to);
	unlink(path);
}

/* A line without end is left out, and what follows it is taken. */
T(lines_that_are_too_long)
{
	static char line[3 * ZN_KMSG_BYTES];
	const char *record = "3,1,1,-;" BROKEN "\n";

	for (size_t len = ZN_KMSG_BYTES - 2; len < sizeof(line); len += 1 + len / 7) {
		int to;

		memset(line, 'x', sizeof(line));
		memcpy(line, "3,1,1,-;", 8);
		line[len - 1] = '\n';
		to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		CHECK_EQ(zn_xids_open(&x, path), 0);
		put(to, line, len);
		put(to, record, strlen(record));
		zn_xids_tick(&x);
		CHECK_EQ(x.kernel, len <= ZN_KMSG_BYTES ? 2 : 1);
		CHECK_EQ(x.count, 1);
		zn_xids_close(&x);
		close(to);
		unlink(path);
	}
}

T(what_is_not_there)
{
	CHECK_EQ(zn_xids_open(&x, "/none/kmsg"), -ENOENT);
	CHECK(x.fd < 0);
	zn_xids_tick(&x);
	zn_xids_close(&x);
}

T(whom_the_driver_names)
{
	static const struct {
		const char *text, *command;
		uint32_t pid;
	} rows[] = {
		{BROKEN, "python3", 1234},
		{"NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=a, Ch 00000010", "a", 7},
		{"NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=abcdefghijklmnopqrst, Ch", "abcdefghijklmno", 7},
		{"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen", "", 0},
		{"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "", 0},
		{"NVRM: Xid (PCI:0000:3b:00): 79, pid=12", "", 12},
		{"NVRM: Xid (PCI:0000:3b:00): 79, pid=", "", 0},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char command[16];
		uint32_t pid;

		zn_xid_process((struct zn_str){rows[i].text, strlen(rows[i].text)}, &pid, command);
		CHECK_EQ(pid, rows[i].pid);
		CHECK_STR(command, rows[i].command);
	}
	CHECK_STR(zn_xid_about(79, false)->class, "link");
	CHECK_STR(zn_xid_about(79, false)->severity, "critical");
	CHECK(!zn_xid_about(7, false) && !zn_xid_about(79, true));
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/xid_test.%d", getpid());
	RUN(texts_are_told_apart);
	RUN(records_of_amdgpu_are_told_apart);
	RUN(only_the_kernel_itself_counts);
	RUN(errors_of_both_drivers_are_kept_apart);
	RUN(lines_that_say_that_nothing_is_broken);
	RUN(fatal_and_nonfatal_ones_are_kept_apart);
	RUN(lines_that_are_no_record);
	RUN(what_was_overwritten_is_counted);
	RUN(a_full_table_drops_the_newcomer);
	RUN(a_pipe_cut_anywhere);
	RUN(only_what_is_new_in_a_file);
	RUN(lines_that_are_too_long);
	RUN(what_is_not_there);
	RUN(whom_the_driver_names);
	return t_end();
}
