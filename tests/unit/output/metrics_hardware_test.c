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

/* What each figure is in /metrics, behind the GPU's two labels; NULL: it has no series of its own. */
#define NAME(metric)             metric "{gpu_id=\"0\",uuid=\"GPU-1\"}"
#define KIND(metric, key, value) metric "{gpu_id=\"0\",uuid=\"GPU-1\"," key "=\"" value "\"}"
static const char *const series_of[ZN_FIGURE_COUNT] = {
	[ZN_FIGURE_UTILIZATION] = NAME("zernel_gpu_utilization_ratio"),
	[ZN_FIGURE_SM_ACTIVE] = NAME("zernel_gpu_sm_active_ratio"),
	[ZN_FIGURE_TENSOR_ACTIVE] = NAME("zernel_gpu_tensor_active_ratio"),
	[ZN_FIGURE_DRAM_ACTIVE] = NAME("zernel_gpu_dram_active_ratio"),
	[ZN_FIGURE_VRAM_USED] = KIND("zernel_gpu_vram_bytes", "kind", "used"),
	[ZN_FIGURE_VRAM_TOTAL] = KIND("zernel_gpu_vram_bytes", "kind", "total"),
	[ZN_FIGURE_POWER] = NAME("zernel_gpu_power_watts"),
	[ZN_FIGURE_POWER_LIMIT] = NAME("zernel_gpu_power_limit_watts"),
	[ZN_FIGURE_ENERGY] = NAME("zernel_gpu_energy_joules_total"),
	[ZN_FIGURE_TEMPERATURE] = KIND("zernel_gpu_temperature_celsius", "sensor", "gpu"),
	[ZN_FIGURE_HOTSPOT] = KIND("zernel_gpu_temperature_celsius", "sensor", "hotspot"),
	[ZN_FIGURE_MEMORY_TEMPERATURE] = KIND("zernel_gpu_temperature_celsius", "sensor", "memory"),
	[ZN_FIGURE_CLOCK] = KIND("zernel_gpu_clock_hertz", "clock", "gpu"),
	[ZN_FIGURE_MEMORY_CLOCK] = KIND("zernel_gpu_clock_hertz", "clock", "memory"),
	[ZN_FIGURE_THROTTLE] = NULL, /* the time it lasts is (throttling) */
	[ZN_FIGURE_ECC_CORRECTED] = KIND("zernel_gpu_ecc_errors_total", "kind", "corrected"),
	[ZN_FIGURE_ECC_UNCORRECTED] = KIND("zernel_gpu_ecc_errors_total", "kind", "uncorrected"),
	[ZN_FIGURE_REMAPPED_CORRECTABLE] = KIND("zernel_gpu_remapped_rows", "kind", "correctable"),
	[ZN_FIGURE_REMAPPED_UNCORRECTABLE] = KIND("zernel_gpu_remapped_rows", "kind", "uncorrectable"),
	[ZN_FIGURE_REMAPPED_PENDING] = KIND("zernel_gpu_remapped_rows", "kind", "pending"),
	[ZN_FIGURE_REMAPPED_FAILED] = KIND("zernel_gpu_remapped_rows", "kind", "failed"),
	[ZN_FIGURE_RETIRED_CORRECTABLE] = KIND("zernel_gpu_retired_pages", "kind", "correctable"),
	[ZN_FIGURE_RETIRED_UNCORRECTABLE] = KIND("zernel_gpu_retired_pages", "kind", "uncorrectable"),
	[ZN_FIGURE_NVLINK_SENT] = KIND("zernel_gpu_nvlink_bytes_total", "direction", "sent"),
	[ZN_FIGURE_NVLINK_RECEIVED] = KIND("zernel_gpu_nvlink_bytes_total", "direction", "received"),
	[ZN_FIGURE_PCIE_SENT] = KIND("zernel_gpu_pcie_bytes_per_second", "direction", "sent"),
	[ZN_FIGURE_PCIE_RECEIVED] = KIND("zernel_gpu_pcie_bytes_per_second", "direction", "received"),
	[ZN_FIGURE_PCIE_REPLAYS] = NAME("zernel_gpu_pcie_replays_total"),
	[ZN_FIGURE_MIG] = NAME("zernel_gpu_mig_mode"),
	[ZN_FIGURE_LINK_SPEED] = NULL, /* these four are ratios, of two each */
	[ZN_FIGURE_LINK_SPEED_MAX] = NULL,
	[ZN_FIGURE_LINK_WIDTH] = NULL,
	[ZN_FIGURE_LINK_WIDTH_MAX] = NULL,
	[ZN_FIGURE_PCIE_CORRECTABLE] = KIND("zernel_gpu_pcie_errors_total", "severity", "correctable"),
	[ZN_FIGURE_PCIE_NONFATAL] = KIND("zernel_gpu_pcie_errors_total", "severity", "nonfatal"),
	[ZN_FIGURE_PCIE_FATAL] = KIND("zernel_gpu_pcie_errors_total", "severity", "fatal"),
	[ZN_FIGURE_NUMA_NODE] = NAME("zernel_gpu_numa_node"),
	[ZN_FIGURE_SUSPENDED] = NAME("zernel_gpu_suspended"),
	[ZN_FIGURE_LOST] = NAME("zernel_gpu_lost"),
};

/* The device as JSON. */
static const char *object_of(const struct zn_device *d)
{
	static char to[4096];
	struct zn_out out = {.at = to, .cap = sizeof(to) - 1};
	struct zn_json j;

	zn_json_begin(&j, &out);
	zn_json_open(&j, '{');
	zn_hardware_json(&j, d);
	zn_json_close(&j, '}');
	to[out.len] = '\0';
	return to;
}

/* A source that tells this alone, and that it is 0: so it is in both forms, and of all others nothing is. */
T(each_figure_alone)
{
	for (enum zn_figure f = 0; f < ZN_FIGURE_COUNT; f++) {
		struct zn_device *d = start_device();
		char object[128] = "{\"device\":{}}";

		set_figure(d, f, 0, ZN_SOURCE_DCGM);
		render(false);
		CHECK_EQ(count_with("uuid=\"GPU-1\""), 1 + (series_of[f] != NULL)); /* and who tells it */
		if (series_of[f])
			CHECK_STR(value_of(series_of[f]), "0");
		if (f != ZN_FIGURE_THROTTLE)
			snprintf(object, sizeof(object), "{\"device\":{\"%s\":0.0}}", zn_figure_name(f));
		CHECK_STR(object_of(d), object);
	}
}

/* A source that tells all but this. */
T(each_figure_missing)
{
	for (enum zn_figure missing = 0; missing < ZN_FIGURE_COUNT; missing++) {
		struct zn_device *d = start_device();
		char key[64];

		for (enum zn_figure f = 0; f < ZN_FIGURE_COUNT; f++)
			if (f != missing)
				set_figure(d, f, 7, ZN_SOURCE_DCGM);
		render(false);
		for (enum zn_figure f = 0; f < ZN_FIGURE_COUNT; f++)
			if (series_of[f])
				CHECK_EQ(count_with(series_of[f]), f != missing);
		snprintf(key, sizeof(key), "\"%s\":", zn_figure_name(missing));
		CHECK(!strstr(object_of(d), key));
	}
}

/* A link is a share of what it could be only where both are known. */
T(links)
{
	for (enum zn_figure f = ZN_FIGURE_LINK_SPEED; f <= ZN_FIGURE_LINK_WIDTH_MAX; f++) {
		struct zn_device *d = start_device();

		for (enum zn_figure g = ZN_FIGURE_LINK_SPEED; g <= ZN_FIGURE_LINK_WIDTH_MAX; g++)
			if (g != f)
				set_figure(d, g, 8, ZN_SOURCE_SYS);
		render(false);
		CHECK_EQ(count_with("zernel_gpu_pcie_link_ratio{"), 0);
		CHECK_EQ(count_with("zernel_gpu_pcie_link_width_ratio{"), f < ZN_FIGURE_LINK_WIDTH);
	}
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
	CHECK_STR(value_of("zernel_gpu_source_info{gpu_id=\"0\",uuid=\"GPU-1\",source=\"sysfs\"}"), "1");
	CHECK_STR(value_of("zernel_gpu_source_info{gpu_id=\"0\",uuid=\"GPU-1\",source=\"drm\"}"), "1");
	CHECK_STR(value_of("zernel_gpu_source_info{gpu_id=\"0\",uuid=\"GPU-1\",source=\"dcgm\"}"), "1");
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

/* Errors that were there before the daemon came are not new ones, and nobody knows since when they are counted. */
T(what_was_counted_before)
{
	struct zn_device *d = start_device();

	set_figure(d, ZN_FIGURE_ECC_UNCORRECTED, 3, ZN_SOURCE_NVML);
	set_figure(d, ZN_FIGURE_PCIE_FATAL, 5, ZN_SOURCE_SYS);
	view.start_wall_ms = zn_wall_ms(); /* just now */
	render(true);
	CHECK_STR(value_of(series_of[ZN_FIGURE_ECC_UNCORRECTED]), "3");
	CHECK_EQ(count_with("zernel_gpu_ecc_errors_created"), 0);
	CHECK_EQ(count_with("zernel_gpu_pcie_errors_created"), 0);
	CHECK(count_with("zernel_lost_created{") > 0);
	for (int s = 1; s < 5; s++)
		zn_alerts_tick(&alerts, view.start_ns + s * ZN_NS_PER_S);
	CHECK_EQ(alerts.count, 0);
	set_figure(d, ZN_FIGURE_PCIE_FATAL, 6, ZN_SOURCE_SYS);
	zn_alerts_tick(&alerts, view.start_ns + 5 * ZN_NS_PER_S);
	CHECK_EQ(alerts.count, 1);
	CHECK_STR(alerts.alert[0].rule->name, "gpu_hardware_errors");
	CHECK(alerts.alert[0].value == 1);
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
	RUN(each_figure_alone);
	RUN(each_figure_missing);
	RUN(links);
	RUN(sources);
	RUN(throttling);
	RUN(what_was_counted_before);
	RUN(hostile_names);
	RUN(most_of_all);
	return t_end();
}
