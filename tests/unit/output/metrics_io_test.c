/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_io_test.c: series of file I/O (metrics_io.c): what does not fit, and what has no number.
 */
#include "metrics.h"

static struct zn_io_sums io_sums;

/* Every operation of a user on a mount with a long name. */
static void happens_on(uint32_t dev, uint32_t user)
{
	char point[ZN_MOUNT_BYTES];

	memset(point, '"', sizeof(point));
	snprintf(point, sizeof(point), "/%u", dev);
	point[strlen(point)] = '"';
	point[user == 2000 ? 9 : sizeof(point) - 1] = 0;
	zn_mounts_fix(&io_sums.mounts, dev, point, "tmpfs");
	memory.io_of = (struct zn_io_row){.owner = user, .user = user};
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++) {
		struct zn_io_key key = {.dev = dev, .op = op};

		CHECK(zn_memory_io(&memory, &key, 12345));
	}
}

/* One user's mounts with long names take no room from another's. */
T(durations_of_files_that_do_not_fit)
{
	static char whole[ZN_BUFFER_BYTES];
	struct zn_out o = {.at = whole, .cap = sizeof(whole) - 1};
	size_t shown = 0;

	start();
	zn_io_sums_init(&io_sums, &memory.arena, NULL);
	view.io_sums = &io_sums;
	for (uint32_t i = 0; i < 270; i++)
		happens_on(100 + i, 1000);
	happens_on(999, 2000);
	zn_state_refresh(&view);
	zn_metrics_text(&o, &view, true, 0);
	CHECK(!o.full);
	whole[o.len] = 0;
	CHECK(strstr(whole, "zernel_io_latency_seconds{job_id=\"\",mount=\"/999\\\"\\\""));
	for (const char *at = whole; (at = strstr(at, "zernel_io_latency_seconds_count{")); at++)
		shown++;
	CHECK(shown >= 40 * ZN_IO_OP_COUNT && shown < 271 * ZN_IO_OP_COUNT);
	CHECK(memory.arena.shared->lost[ZN_LOST_TRUNCATED] > 0);
	view.io_sums = NULL;
}

/* Kernels before 6.10 that count by tracepoint tell how much faults brought in, not how many there were. */
T(bytes_of_mapped_files_without_a_number)
{
	static const struct zn_io_key key = {.dev = 77, .op = ZN_IO_MMAP};

	start();
	zn_io_sums_init(&io_sums, &memory.arena, NULL);
	view.io_sums = &io_sums;
	zn_mounts_fix(&io_sums.mounts, key.dev, "/data", "ext4");
	memory.io_of = (struct zn_io_row){.owner = 1000, .user = 1000};
	*zn_memory_io(&memory, &key, 0) = (struct zn_hist){.bytes = 8192};
	render(false);
	CHECK_STR(value_of("zernel_io_mapped_bytes_total{job_id=\"\",mount=\"/data\",fstype=\"ext4\"}"), "8192");
	CHECK_STR(value_of("zernel_io_read_bytes_total{job_id=\"\",mount=\"/data\",fstype=\"ext4\"}"), "absent");
	view.io_sums = NULL;
}

int main(void)
{
	RUN(durations_of_files_that_do_not_fit);
	RUN(bytes_of_mapped_files_without_a_number);
	return t_end();
}
