/* SPDX-License-Identifier: GPL-2.0 */
/*
 * otlp_dump FOLDER BYTES [server]: writes what a simulated node shows, with jobs, a calibration and a GPU of a hostile
 * name, and with inference servers if asked for, to FOLDER/metrics as text and to FOLDER/0.pb, 1.pb ... as requests of
 * up to BYTES bytes. It prints how many requests and the time of their points in ms.
 */
#define ZN_IN_output /* what zernel.h keeps for the files of src/output */
#include <stdlib.h>

#include "zernel.h"
#include "no_cgroups.h"
#include "no_libraries.h"

const char zn_version[] = "1.2-test", zn_commit[] = "abc\"1\\";
bool zn_ready;

uint64_t zn_stats_missed(struct zn_probe *p)
{
	(void)p;
	return 31;
}

uint64_t zn_stats_run_ns(struct zn_probe *p, uint32_t i, const char **name)
{
	(void)p;
	*name = i ? "others" : "cuda_entry";
	return i ? 0 : 1500000000;
}

static struct zn_sim sim;
static struct zn_hardware hardware = {.count = 1};
static struct zn_xids xids;
static struct zn_agg agg;
static struct zn_alerts alerts;
static struct zn_jobs jobs;
static struct zn_probe probe;
static struct zn_options options = {.push_interval_ms = 1000, .overhead_budget = 10000, .families = 7};
static struct zn_state view = {
	.options = &options, .agg = &agg, .alerts = &alerts, .jobs = &jobs, .node = "node1", .release = "6.1.0-test"};
static char bytes[8 << 20];

static int simulate(bool server)
{
	char why[ZN_TEXT_MAX];

	if (zn_sim_open(&sim, 1))
		return -1;
	if (server)
		zn_sim_scenario(&sim, ZN_SCENARIO_SERVER, 0);
	zn_agg_init(&agg, &sim.memory.arena);
	agg.measured = 0; /* of the kernel's families none is there */
	if (zn_alerts_open(&alerts, &options, zn_metrics_type, why) || zn_jobs_open(&jobs, &agg, &alerts))
		return -1;
	zn_sim_jobs(&sim, &jobs);
	view.start_ns = zn_now_ns() - 77 * ZN_NS_PER_S;
	view.start_wall_ms = zn_wall_ms() - 77000;
	view.probe = &probe;
	for (enum zn_insn i = 0; i < ZN_INSN_COUNT; i++)
		probe.bias[i] = (struct zn_bias){512, 2048000, 3900, 4000, 4100, 5000, 9000};
	/* as one that a driver had counted before the daemon came */
	strcpy(hardware.device[0].id, "0");
	zn_reading_set(&hardware.device[0].now, ZN_FIGURE_ECC_UNCORRECTED, 3);
	view.hardware = &hardware;
	zn_xids_add(&xids, "0000:3b:00.0", 79, false); /* of no process */
	view.xids = &xids;
	zn_agg_tick(&agg, zn_now_ns());
	zn_sim_step(&sim, 6000);
	zn_agg_tick(&agg, zn_now_ns() + ZN_NS_PER_S);
	memcpy(agg.gpus.gpu[0].uuid, "GPU-\xff\"\\\n\xe2\x82", 11);
	return 0;
}

static void write_file(const char *folder, const char *name, const struct zn_out *o)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	if (o->full || !f || fwrite(o->at, 1, o->len, f) != o->len || fclose(f)) {
		perror(path);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct zn_out o = {.at = bytes, .cap = sizeof(bytes)};
	uint64_t now = zn_wall_ms();
	uint32_t at = 0, count = 0;
	char name[16];

	if (argc < 3 || simulate(argc > 3))
		return 2;
	zn_state_refresh(&view);
	zn_metrics_text(&o, &view, false, 0);
	write_file(argv[1], "metrics", &o);
	for (;;) {
		o = (struct zn_out){.at = bytes, .cap = strtoul(argv[2], NULL, 10)};
		if (o.cap > sizeof(bytes) || !zn_otlp_next(&o, &view, now, &at))
			break;
		snprintf(name, sizeof(name), "%u.pb", count++);
		write_file(argv[1], name, &o);
	}
	printf("%u %lu\n", count, now);
	return o.full || o.len;
}
