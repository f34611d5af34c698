// SPDX-License-Identifier: GPL-2.0
/* failed_test.c: names and sums of calls that failed, and of which process a job tells. */
#include "zernel.h"
#include "t.h"

const char zn_version[] = "1.2-test", zn_commit[] = "abc";
bool zn_ready;

static const char *name_of(uint32_t key)
{
	static char name[ZN_FAILED_NAME];

	zn_failed_name(key, name);
	return name;
}

T(names)
{
	static const struct {
		uint32_t key;
		const char *name;
		bool fatal;
	} rows[] = {{1, "CUDA_ERROR_INVALID_VALUE", false}, {2, "CUDA_ERROR_OUT_OF_MEMORY", false},
		{ZN_FAILED_KEY(77, 700), "CUDA_ERROR_ILLEGAL_ADDRESS", true}, {719, "CUDA_ERROR_LAUNCH_FAILED", true},
		{804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", false}, {999, "CUDA_ERROR_UNKNOWN", false},
		{ZN_FAILED_HIP | 719, "hipErrorLaunchFailure", true}, {ZN_FAILED_HIP | 2, "hipErrorOutOfMemory", false},
		{ZN_FAILED_HIP | 719 | 3 << 16, "hipErrorLaunchFailure", true}, {12345, "other", false},
		{ZN_FAILED_RESULT_MAX, "other", false}, {ZN_FAILED_HIP | 12345, "other", false}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		CHECK_STR(name_of(rows[i].key), rows[i].name);
		CHECK_EQ(zn_failed_is_fatal(rows[i].key), rows[i].fatal);
	}
}

/* The shortest name has room, and the longest as well. */
T(no_name_is_cut)
{
	for (uint32_t result = 0; result < 2000; result++) {
		CHECK(strlen(name_of(result)) < ZN_FAILED_NAME - 1);
		CHECK(strlen(name_of(ZN_FAILED_HIP | result)) < ZN_FAILED_NAME - 1);
	}
}

T(results_of_all_calls_are_added_up)
{
	struct zn_failed_result got[ZN_FAILED_RESULTS];
	struct zn_failed f = {0};

	CHECK_EQ(zn_failed_results(&f, 0, got), 0);
	CHECK_EQ(zn_failed_results(&f, 3, got), 1); /* no room was left for any */
	CHECK_EQ(got[0].key, 0);
	CHECK_EQ(got[0].count, 3);
	zn_failed_count(&f, ZN_FAILED_KEY(5, 700), 1);
	zn_failed_count(&f, ZN_FAILED_KEY(6, 1), 2);
	zn_failed_count(&f, ZN_FAILED_KEY(7, 700), 30);
	zn_failed_count(&f, ZN_FAILED_KEY(7, 4444), 5); /* without a name */
	CHECK_EQ(zn_failed_results(&f, 38, got), 3);
	CHECK_EQ(got[0].key, 700);
	CHECK_EQ(got[0].count, 31);
	CHECK_EQ(got[1].key, 1);
	CHECK_EQ(got[1].count, 2);
	CHECK_EQ(got[2].key, 0);
	CHECK_EQ(got[2].count, 5);
}

/* Pairs fill first, then results of whatever call, and then only the sum is known. */
T(where_no_room_is_left)
{
	struct zn_failed_result got[ZN_FAILED_RESULTS];
	struct zn_failed f = {0}, twice = {0};
	uint32_t count;
	uint64_t sum = 0;

	for (uint32_t call = 1; call <= ZN_FAILED_PAIRS; call++)
		zn_failed_count(&f, ZN_FAILED_KEY(call, 700), 1);
	for (uint32_t result = 100; result < 103; result++)
		zn_failed_count(&f, ZN_FAILED_KEY(3, result), 7);
	CHECK_EQ(f.key[ZN_FAILED_PAIRS], 100);
	zn_failed_count(&f, ZN_FAILED_KEY(3, 200), 7);
	zn_failed_count(&f, ZN_FAILED_KEY(3, 201), 7); /* beyond all */
	zn_failed_add(&twice, &f);
	zn_failed_add(&twice, &f);
	count = zn_failed_results(&twice, 2 * (12 + 35), got);
	for (uint32_t i = 0; i < count; i++)
		sum += got[i].count;
	CHECK_EQ(count, 6);
	CHECK_EQ(sum, 2 * (12 + 35));
	CHECK_EQ(got[count - 1].key, 0);
	CHECK_EQ(got[count - 1].count, 14);
}

/* Of processes of no job there is one sum for the daemon's whole life: what takes a context finds a place there,
 * however many other errors there were, and whatever was called. */
T(a_sum_has_room_for_what_matters)
{
	struct zn_failed_result got[ZN_FAILED_RESULTS];
	struct zn_failed sum = {0}, one;
	uint32_t count, lost = 0;

	for (uint32_t result = 1; result < 1000; result++)
		for (uint32_t call = 1; call < 3; call++) {
			one = (struct zn_failed){.key = {ZN_FAILED_KEY(call, result)}, .count = {1}};
			if (!zn_failed_is_fatal(result))
				zn_failed_add(&sum, &one);
		}
	one = (struct zn_failed){.key = {ZN_FAILED_KEY(3, 700)}, .count = {1}};
	zn_failed_add(&sum, &one);
	zn_failed_add(&sum, &one);
	count = zn_failed_results(&sum, 2000, got);
	for (uint32_t i = 0; i < count; i++)
		lost += got[i].key == 700 ? got[i].count : 0;
	CHECK_EQ(lost, 2);
	CHECK_EQ(got[0].count, 2); /* of both calls */
}

T(which_process_is_told_of)
{
	struct zn_failed_call none = {0}, early = {.key = 1, .since_ns = 10}, late = {.key = 2, .since_ns = 20};
	struct zn_failed_call lost = {.key = 700, .since_ns = 30}, after = {.key = 719, .since_ns = 31};

	CHECK(zn_failed_before(&early, &late));
	CHECK(!zn_failed_before(&late, &early));
	CHECK(zn_failed_before(&lost, &early)); /* an error that came earlier took no context */
	CHECK(zn_failed_before(&lost, &after));
	CHECK(zn_failed_before(&after, &none));
	CHECK(!zn_failed_before(&none, &after));
	CHECK(!zn_failed_before(&none, &none));
}

T(system_calls_of_rdma)
{
	static const struct {
		uint32_t key;
		const char *call, *error;
	} rows[] = {{ZN_RDMA_KEY(ZN_RDMA_WRITE, 0, 9, 12), "reg_mr", "ENOMEM"},
		{ZN_RDMA_KEY(ZN_RDMA_WRITE, 0, 40, 22), "open_qp", "EINVAL"},
		{ZN_RDMA_KEY(ZN_RDMA_WRITE, 0, 41, 22), "write", "EINVAL"},
		{ZN_RDMA_KEY(ZN_RDMA_WRITE, 0, 50, 1), "create_flow", "EPERM"},
		{ZN_RDMA_KEY(ZN_RDMA_WRITE, 0, 57, 1), "modify_cq", "EPERM"},
		{ZN_RDMA_KEY(ZN_RDMA_WRITE, 0, 58, 1), "write", "EPERM"},
		{ZN_RDMA_KEY(ZN_RDMA_IOCTL, 4, 0, 95), "create_qp", "EOPNOTSUPP"},
		{ZN_RDMA_KEY(ZN_RDMA_IOCTL, 4, 9, 95), "ioctl", "EOPNOTSUPP"},
		{ZN_RDMA_KEY(ZN_RDMA_IOCTL, ZN_RDMA_DRIVER, 2, 5), "driver", "EIO"},
		{ZN_RDMA_KEY(ZN_RDMA_OTHER, 0, 0, 14), "ioctl", "EFAULT"},
		{ZN_RDMA_KEY(ZN_RDMA_OTHER, 0, 0, 500), "ioctl", "other"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		CHECK_STR(zn_rdma_call(rows[i].key), rows[i].call);
		CHECK_STR(zn_rdma_error(rows[i].key), rows[i].error);
	}
}

T(calls_of_rdma_are_added_up)
{
	struct zn_failed a = {.rdma_count = {2, 3}, .rdma_key = {7, 8}, .rdma_ns = 5, .rdma_last = 8},
			 b = {.rdma_count = {1, 1, 1, 1, 1, 1},
				 .rdma_key = {8, 9, 10, 11, 12, 13},
				 .rdma_ns = 4,
				 .rdma_last = 9};

	zn_rdma_add(&a, &b);
	CHECK_EQ(a.rdma_count[0], 2);
	CHECK_EQ(a.rdma_count[1], 4);
	CHECK_EQ(a.rdma_key[5], 12); /* 13 has no room: its sum is the process's */
	CHECK_EQ(a.rdma_last, 8);
}

int main(void)
{
	RUN(names);
	RUN(no_name_is_cut);
	RUN(results_of_all_calls_are_added_up);
	RUN(where_no_room_is_left);
	RUN(a_sum_has_room_for_what_matters);
	RUN(which_process_is_told_of);
	RUN(system_calls_of_rdma);
	RUN(calls_of_rdma_are_added_up);
	return t_end();
}
