/* SPDX-License-Identifier: GPL-2.0 */
/*
 * matrix_tables.c: the daemon's tables in the kernel: what they say of the three file systems.
 */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "matrix.h"

int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int info_read(int fd, void *info, uint32_t len)
{
	union bpf_attr attr = {.info = {.bpf_fd = fd, .info_len = len, .info = (uintptr_t)info}};

	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
}

int map_open(const char *name)
{
	union bpf_attr attr = {0};
	int found = -1;

	while (bpf(BPF_MAP_GET_NEXT_ID, &attr) == 0) {
		struct bpf_map_info info = {0};
		union bpf_attr open_attr = {.map_id = attr.next_id};
		int fd = bpf(BPF_MAP_GET_FD_BY_ID, &open_attr);

		attr.start_id = attr.next_id;
		if (fd < 0)
			continue;
		if (info_read(fd, &info, sizeof(info)) || strcmp(info.name, name)) {
			close(fd);
			continue;
		}
		if (found >= 0)
			close(found);
		found = fd;
	}
	if (found < 0)
		die("no daemon's tables; is it running?");
	return found;
}

static int map_read(int fd, const void *key, void *value)
{
	union bpf_attr attr = {.map_fd = fd, .key = (uintptr_t)key, .value = (uintptr_t)value};

	return bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

static int map_next(int fd, const void *key, void *next)
{
	union bpf_attr attr = {.map_fd = fd, .key = (uintptr_t)key, .next_key = (uintptr_t)next};

	return bpf(BPF_MAP_GET_NEXT_KEY, &attr);
}

static uint32_t dev_of(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		die(path);
	return major(st.st_dev) << 20 | minor(st.st_dev);
}

int rows_fd, hists_fd, coarse_fd, shared_fd;

uint64_t lost_of(enum zn_loss what)
{
	static struct zn_shared shared;
	uint32_t zero = 0;

	if (map_read(shared_fd, &zero, &shared))
		die("the daemon's losses");
	return shared.lost[what];
}

uint64_t lost_read(void)
{
	return lost_of(ZN_LOST_INFLIGHT);
}

uint64_t skipped_read(void)
{
	union bpf_attr attr = {0};
	uint64_t n = 0;

	while (bpf(BPF_PROG_GET_NEXT_ID, &attr) == 0) {
		struct bpf_prog_info info = {0};
		union bpf_attr open_attr = {.prog_id = attr.next_id};
		int fd = bpf(BPF_PROG_GET_FD_BY_ID, &open_attr);

		attr.start_id = attr.next_id;
		if (fd >= 0 && info_read(fd, &info, sizeof(info)) == 0)
			n += info.recursion_misses;
		if (fd >= 0)
			close(fd);
	}
	return n;
}

static int hist_read(uint32_t hist, struct zn_hist *to)
{
	uint32_t index = hist < ZN_HISTS_MAX ? hist : hist - ZN_HISTS_MAX;

	return map_read(hist < ZN_HISTS_MAX ? hists_fd : coarse_fd, &index, to);
}

void sums_read(struct sums *to)
{
	const uint32_t devs[] = {dev_of(tmp), dev_of(ram), dev_of(small)};
	struct zn_io_key key, next;
	static struct zn_hist h; /* or the beginning of one, which is a coarse one */
	struct zn_io_row row;

	memset(to, 0, sizeof(*to));
	for (const void *at = NULL; map_next(rows_fd, at, &next) == 0; at = &key) {
		key = next;
		if ((key.dev != devs[0] && key.dev != devs[1] && key.dev != devs[2]) || key.op >= ZN_IO_OP_COUNT)
			continue;
		if (map_read(rows_fd, &key, &row) || hist_read(row.hist, &h))
			continue;
		to->calls[key.op] += h.calls;
		to->errors[key.op] += h.errors;
		to->bytes[key.op] += h.bytes;
	}
}
