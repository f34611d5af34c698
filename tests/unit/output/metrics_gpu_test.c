/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_gpu_test.c: series of GPUs (metrics_gpu.c): errors of the driver, and names that are hostile.
 */
#include "metrics.h"

/* What a driver or an environment says of a GPU, of each byte in turn. */
T(hostile_gpus)
{
	struct zn_gpu *g = &agg.gpus.gpu[0];

	for (int byte = 1; byte < 256; byte++) {
		struct zn_proc *p;

		start();
		p = known_process();
		memset(p->gpu[2].uuid, 0, sizeof(p->gpu[2].uuid)); /* else it is known under its old name */
		memset(p->gpu[2].pci, 0, sizeof(p->gpu[2].pci));
		memset(g->id, byte, sizeof(g->id) - 1);
		memset(g->uuid, byte, sizeof(g->uuid) - 1);
		memset(g->pci, byte, sizeof(g->pci) - 1);
		render(byte & 1);
		CHECK_EQ(count_with("zernel_gpu_alloc_calls_total{"), ZN_KIND_COUNT);
		CHECK_EQ(count_with("zernel_gpu_info{"), 1);
	}
}

T(errors_of_gpus)
{
	static const char last_79[] = "zernel_gpu_xid_last_time_seconds{pci=\"0000:3b:00.0\",xid=\"79\",class=\"link\","
				      "severity=\"critical\",pid=\"\",command=\"\",job_id=\"\"}";
	static struct zn_xids xids;

	start();
	view.xids = &xids;
	xids = (struct zn_xids){.fd = -1};
	render(false);
	CHECK_EQ(count_with("zernel_gpu_xid_errors_total{"), 0);
	CHECK_EQ(count_with("zernel_kernel_log_records_total{"), 0);
	xids = (struct zn_xids){.fd = 0, .kernel = 11, .other = 13, .lost = 17};
	for (int i = 0; i < 3; i++)
		zn_xids_add(&xids, "0000:3b:00.0", 79, false);
	zn_xids_add(&xids, "0000:c1:00.0", 31, false);
	zn_xids_add(&xids, "0000:c1:00.0", 145, false);
	zn_xids_add(&xids, "0000:c1:00.0", 145, true);
	zn_amdgpu_add(&xids, "0000:c3:00.0", ZN_AMDGPU_RESET);
	render(false);
	CHECK_EQ(count_with("zernel_gpu_xid_errors_total{"), 4);
	CHECK_EQ(count_with("zernel_gpu_amdgpu_errors_total{"), 1);
	CHECK_STR(value_of("zernel_gpu_amdgpu_errors_total{pci=\"0000:c3:00.0\",error=\"reset\"}"), "1");
	CHECK_STR(value_of("zernel_gpu_xid_errors_total{pci=\"0000:3b:00.0\",xid=\"79\"}"), "3");
	CHECK_STR(value_of("zernel_gpu_xid_errors_total{pci=\"0000:c1:00.0\",xid=\"31\"}"), "1");
	CHECK_STR(value_of("zernel_gpu_xid_errors_total{pci=\"0000:c1:00.0\",xid=\"145\"}"), "1");
	CHECK_STR(value_of("zernel_gpu_xid_errors_total{pci=\"0000:c1:00.0\",xid=\"145\",nonfatal=\"yes\"}"), "1");
	CHECK_EQ(count_with("xid=\"145\",class=\"link\",severity=\"warning\","), 1);
	CHECK_EQ(count_with("zernel_gpu_xid_last_time_seconds{"), 4);
	CHECK_EQ(count_with(last_79), 1);
	view.start_wall_ms += 7200000; /* the clock was set */
	xids.xid[0].last_ns = view.start_ns + 1500 * ZN_NS_PER_MS;
	render(false);
	CHECK_STR(value_of(last_79), "1711807201.623");
	CHECK_STR(value_of("zernel_kernel_log_records_total{from=\"kernel\"}"), "11");
	CHECK_STR(value_of("zernel_kernel_log_records_total{from=\"others\"}"), "13");
	CHECK_STR(value_of("zernel_lost_total{what=\"kmsg\"}"), "17");
}

int main(void)
{
	RUN(hostile_gpus);
	RUN(errors_of_gpus);
	return t_end();
}
