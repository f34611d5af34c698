/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many instructions the kernel went through to verify each program, a part of guest_check.c. The kernel tells it
 * from 5.16 on.
 */
#ifndef ZN_GUEST_VERIFIED_H
#define ZN_GUEST_VERIFIED_H

#define VERIFIED_MOST 50000

static bool info_of(uint32_t id, struct bpf_prog_info *info)
{
	union bpf_attr attr = {.prog_id = id};
	int fd = (int)syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &attr, sizeof(attr));
	bool ok;

	memset(info, 0, sizeof(*info));
	memset(&attr, 0, sizeof(attr));
	attr.info.bpf_fd = fd;
	attr.info.info_len = sizeof(*info);
	attr.info.info = (uintptr_t)info;
	ok = fd >= 0 && syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)) == 0;
	close(fd);
	return ok;
}

static void check_verified(void)
{
	union bpf_attr attr = {0};
	struct bpf_prog_info info;
	char what[160];
	unsigned count = 0;

	daemon_start();
	while (syscall(SYS_bpf, BPF_PROG_GET_NEXT_ID, &attr, sizeof(attr)) == 0) {
		attr.start_id = attr.next_id;
		if (!info_of(attr.next_id, &info) || !info.verified_insns)
			continue;
		count++;
		snprintf(what, sizeof(what), "%s: %u instructions verified", info.name, info.verified_insns);
		expect(info.verified_insns <= VERIFIED_MOST, what);
	}
	expect(count > 10 || is_before(5, 16), "the kernel tells of few programs");
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	if (count || wrong)
		verdict("verified");
	else
		printf("@@ verified -\n");
}

#endif
