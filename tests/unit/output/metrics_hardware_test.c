/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_hardware_test.c: series of the GPUs' own state (metrics_hardware.c): nothing of what no source tells, and the
 * hostile texts of those that do.
 */
#include "metrics.h"

static struct zn_hardware hardware;

/* One GPU, of which nothing is known but who it is. */
static struct zn_device *start_device(void)
{
	struct zn_device *d = &hardware.device[0];

	start();
	hardware = (struct zn_hardware){.count = 1};
	view.hardware = &hardware;
	strcpy(d->id, "0");
	strcpy(d->now.uuid, "GPU-1");
	return d;
}

static void set_figure(struct zn_device *d, enum zn_figure f, uint64_t value, enum zn_source from)
{
	zn_reading_set(&d->now, f, value);
	d->from[f] = (uint8_t)from;
	d->sources |= 1ULL << from;
}

T(nothing_is_told)
{
	start();
	render(false);
	CHECK_EQ(count_with("zernel_gpu_power_watts{"), 0);
	start_device();
	render(false);
	CHECK_EQ(count_with("uuid=\"GPU-1\""), 0);
	CHECK_EQ(count_with("zernel_dcgm_"), 0);
	CHECK_EQ(count_with("zernel_hardware_blocked_seconds"), 0);
	CHECK_EQ(count_with("zernel_node_energy_joules_total"), 0);
}

/* 0 is a figure; of its neighbours nothing is said. */
T(figures_that_are_told)
{
	struct zn_device *d = start_device();

	set_figure(d, ZN_FIGURE_TEMPERATURE, 0, ZN_SOURCE_SYS);
	render(false);
	CHECK_STR(value_of("zernel_gpu_temperature_celsius{gpu_id=\"0\",uuid=\"GPU-1\",sensor=\"gpu\"}"), "0");
	CHECK_EQ(count_with("zernel_gpu_temperature_celsius{"), 1);
	CHECK_EQ(count_with("zernel_gpu_source_info{"), 1);
	CHECK_STR(value_of("zernel_gpu_source_info{gpu_id=\"0\",uuid=\"GPU-1\",source=\"drm\"}"), "1");
}

/* A source of /sys is two for who reads this: the PCI device and the driver. */
T(sources)
{
	struct zn_device *d = start_device();

	set_figure(d, ZN_FIGURE_TEMPERATURE, 41, ZN_SOURCE_SYS);
	set_figure(d, ZN_FIGURE_LINK_WIDTH, 8, ZN_SOURCE_SYS);
	set_figure(d, ZN_FIGURE_POWER, 250000, ZN_SOURCE_DCGM);
	render(false);
	CHECK_EQ(count_with("zernel_gpu_source_info{"), 3);
	CHECK(value_of("zernel_gpu_source_info{gpu_id=\"0\",uuid=\"GPU-1\",source=\"sysfs\"}"));
	CHECK(value_of("zernel_gpu_source_info{gpu_id=\"0\",uuid=\"GPU-1\",source=\"drm\"}"));
	CHECK(value_of("zernel_gpu_source_info{gpu_id=\"0\",uuid=\"GPU-1\",source=\"dcgm\"}"));
}

T(throttling)
{
	struct zn_device *d = start_device();

	d->throttle_known = true;
	d->throttled_ns[0] = 1500000000;
	render(false);
	CHECK_EQ(count_with("zernel_gpu_throttled_seconds_total{"), ZN_THROTTLE_COUNT);
	CHECK_STR(value_of("zernel_gpu_throttled_seconds_total{gpu_id=\"0\",uuid=\"GPU-1\",reason=\"power\"}"), "1.5");
	d->throttle_known = false; /* as long as nobody says whether it is */
	render(false);
	CHECK_EQ(count_with("zernel_gpu_throttled_seconds_total{"), 0);
}

/* What a driver or an exporter calls a GPU, of each byte in turn, to the last place: the reader of metrics.h is strict. */
T(hostile_names)
{
	for (int byte = 1; byte < 256; byte++) {
		struct zn_device *d = start_device();

		memset(d->id, byte, sizeof(d->id) - 1);
		memset(d->now.uuid, byte, sizeof(d->now.uuid) - 1);
		memset(hardware.blocked, byte, sizeof(hardware.blocked) - 1);
		hardware.blocked_ns = 7 * ZN_NS_PER_S;
		set_figure(d, ZN_FIGURE_POWER, 250000, ZN_SOURCE_DCGM);
		render(byte & 1);
		CHECK_EQ(count_with("zernel_gpu_power_watts{"), 1);
		CHECK_EQ(count_with("zernel_hardware_blocked_seconds{"), 1);
	}
}

/* As many GPUs as there may be, with the greatest figures. */
T(most_of_all)
{
	start_device();
	hardware.count = ZN_GPUS_MAX;
	for (uint32_t i = 0; i < ZN_GPUS_MAX; i++) {
		struct zn_device *d = &hardware.device[i];

		snprintf(d->id, sizeof(d->id), "%u", i);
		snprintf(d->now.uuid, sizeof(d->now.uuid), "GPU-%u", i);
		for (enum zn_figure f = 0; f < ZN_FIGURE_COUNT; f++)
			set_figure(d, f, UINT64_MAX - 1, ZN_SOURCE_DCGM);
	}
	render(false);
	CHECK_EQ(count_with("zernel_gpu_power_watts{"), ZN_GPUS_MAX);
}

int main(void)
{
	RUN(nothing_is_told);
	RUN(figures_that_are_told);
	RUN(sources);
	RUN(throttling);
	RUN(hostile_names);
	RUN(most_of_all);
	return t_end();
}
