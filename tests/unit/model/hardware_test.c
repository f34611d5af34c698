/* SPDX-License-Identifier: GPL-2.0 */
/* hardware_test.c: which source is believed, for how long, and what a GPU is called. */
#include "zernel.h"
#include "t.h"

#define S ZN_NS_PER_S

static struct zn_gpus gpus;
static struct zn_hardware h;

static void begin(void)
{
	gpus = (struct zn_gpus){.count = 1, .listed = 1, .nvidia = 1};
	gpus.gpu[0] = (struct zn_gpu){.id = "0", .pci = "0000:1B:00.0", .uuid = "GPU-aa", .vendor = ZN_VENDOR_NVIDIA};
	h = (struct zn_hardware){0};
	zn_hardware_init(&h, &gpus);
}

static bool take(enum zn_source s, const char *pci, const char *uuid, enum zn_figure f, uint64_t v, uint64_t now)
{
	struct zn_reading r = {.known = 0};

	snprintf(r.pci, sizeof(r.pci), "%s", pci);
	snprintf(r.uuid, sizeof(r.uuid), "%s", uuid);
	zn_reading_set(&r, f, v);
	return zn_hardware_take(&h, s, &r, now);
}

static uint64_t shown(enum zn_figure f)
{
	return zn_reading_has(&h.device[0].now, f) ? h.device[0].now.value[f] : ZN_NOT_KNOWN;
}

T(the_best_source_is_shown_until_it_is_silent)
{
	begin();
	CHECK(!take(ZN_SOURCE_DCGM, "", "GPU-aa", ZN_FIGURE_POWER, 1, S)); /* nobody vouches for it yet */
	CHECK(take(ZN_SOURCE_SYS, "0000:1b:00.0", "", ZN_FIGURE_POWER, 3, S));
	CHECK_STR(h.device[0].id, "0");
	CHECK_STR(h.device[0].now.uuid, "GPU-aa");
	CHECK(take(ZN_SOURCE_DCGM, "", "GPU-AA", ZN_FIGURE_POWER, 2, S));
	CHECK(take(ZN_SOURCE_NVML, "0000:1b:00.0", "GPU-aa", ZN_FIGURE_POWER, 1, S));
	zn_hardware_tick(&h, 2 * S);
	CHECK_EQ(shown(ZN_FIGURE_POWER), 1);
	CHECK_STR(zn_source_label(h.device[0].from[ZN_FIGURE_POWER], ZN_FIGURE_POWER), "nvml");
	zn_hardware_tick(&h, 12 * S);
	CHECK_EQ(shown(ZN_FIGURE_POWER), 2);
	CHECK_EQ(h.device[0].sources, 1 << ZN_SOURCE_DCGM);
	zn_hardware_tick(&h, 52 * S);
	CHECK_EQ(shown(ZN_FIGURE_POWER), ZN_NOT_KNOWN);
	CHECK_EQ(h.device[0].sources, 0);
	CHECK(!take(ZN_SOURCE_DCGM, "", "GPU-bb", ZN_FIGURE_POWER, 1, S));
	CHECK(!take(ZN_SOURCE_NVML, "0000:ff:00.0", "GPU-aa", ZN_FIGURE_POWER, 1, S)); /* the address decides */
	CHECK_EQ(h.count, 1);
}

T(a_gpu_that_nobody_lists_has_its_address)
{
	begin();
	CHECK(take(ZN_SOURCE_SYS, "0000:03:00.0", "", ZN_FIGURE_SUSPENDED, 1, S));
	zn_hardware_tick(&h, S);
	CHECK_STR(h.device[0].id, "0000:03:00.0");
	CHECK(!h.device[0].listed);
	CHECK(zn_hardware_of(&h, &gpus.gpu[0]) == NULL);
	CHECK(zn_hardware_of(NULL, &gpus.gpu[0]) == NULL);
}

T(there_is_room_for_so_many)
{
	char pci[16];

	begin();
	for (unsigned i = 0; i < ZN_GPUS_MAX + 5; i++) {
		snprintf(pci, sizeof(pci), "0000:%02x:00.0", i);
		CHECK_EQ(take(ZN_SOURCE_SYS, pci, "", ZN_FIGURE_SUSPENDED, 0, S), i < ZN_GPUS_MAX);
	}
}

/* All that zernel-gpu said holds until it says something else, or nothing. */
T(what_nvml_says_is_whole)
{
	static struct zn_nvml_said said;

	begin();
	take(ZN_SOURCE_SYS, "0000:1b:00.0", "", ZN_FIGURE_SUSPENDED, 0, S);
	zn_hardware_tick(&h, S);
	CHECK(!h.nvml_heard);
	said = (struct zn_nvml_said){.count = 2, .model = {"one that nobody vouches for", "NVIDIA H100"}};
	snprintf(said.reading[0].pci, sizeof(said.reading[0].pci), "0000:ff:00.0");
	snprintf(said.reading[1].pci, sizeof(said.reading[1].pci), "0000:1b:00.0");
	zn_reading_set(&said.reading[1], ZN_FIGURE_ENERGY, 7);
	zn_hardware_heard(&h, &said, 2 * S);
	zn_hardware_tick(&h, 2 * S);
	CHECK(h.nvml_heard);
	CHECK_EQ(h.count, 1);
	CHECK_EQ(h.device[0].nvml, 2);
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 7);
	zn_hardware_tick(&h, 9 * S); /* it has gone */
	CHECK(!h.nvml_heard);
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), ZN_NOT_KNOWN);
	zn_hardware_heard(&h, &said, 10 * S);
	zn_hardware_tick(&h, 10 * S);
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 7);
	said.count = 0; /* the driver does not answer */
	zn_hardware_heard(&h, &said, 11 * S);
	zn_hardware_tick(&h, 11 * S);
	CHECK(h.nvml_heard);
	CHECK_EQ(h.device[0].nvml, 0);
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), ZN_NOT_KNOWN);
}

static void hear(struct zn_nvml_said *said, const char *first, const char *second, uint64_t now)
{
	*said = (struct zn_nvml_said){.count = *second ? 2 : *first ? 1 : 0};
	snprintf(said->reading[0].pci, sizeof(said->reading[0].pci), "%s", first);
	snprintf(said->reading[1].pci, sizeof(said->reading[1].pci), "%s", second);
	zn_reading_set(&said->reading[0], ZN_FIGURE_LOST, 0);
	zn_reading_set(&said->reading[1], ZN_FIGURE_LOST, 0);
	zn_hardware_heard(&h, said, now);
	zn_hardware_tick(&h, now);
}

/* The bus's word counts against any other, and NVML's silence about one GPU of several. */
T(a_gpu_is_lost_by_any_source)
{
	static struct zn_nvml_said said;
	const char *one = "0000:1b:00.0", *two = "0000:2b:00.0";

	begin();
	take(ZN_SOURCE_SYS, one, "", ZN_FIGURE_LINK_WIDTH, 16, S);
	take(ZN_SOURCE_SYS, two, "", ZN_FIGURE_LINK_WIDTH, 16, S);
	take(ZN_SOURCE_DCGM, one, "", ZN_FIGURE_POWER, 300000, S);
	hear(&said, one, two, S);
	CHECK_EQ(shown(ZN_FIGURE_LOST), 0);
	CHECK_EQ(shown(ZN_FIGURE_POWER), 300000);
	hear(&said, two, "", 2 * S);
	CHECK_EQ(shown(ZN_FIGURE_LOST), 1);
	CHECK_EQ(shown(ZN_FIGURE_POWER), ZN_NOT_KNOWN);
	CHECK_EQ(shown(ZN_FIGURE_LINK_WIDTH), 16);
	CHECK_STR(zn_source_label(h.device[0].from[ZN_FIGURE_LOST], ZN_FIGURE_LOST), "nvml");
	hear(&said, "", "", 3 * S); /* the driver does not answer: nothing is known */
	CHECK_EQ(shown(ZN_FIGURE_LOST), ZN_NOT_KNOWN);
	hear(&said, two, "", 4 * S);
	CHECK_EQ(shown(ZN_FIGURE_LOST), 1);
	hear(&said, one, two, 5 * S);
	CHECK_EQ(shown(ZN_FIGURE_LOST), 0);
	take(ZN_SOURCE_SYS, one, "", ZN_FIGURE_LOST, 1, 6 * S);
	hear(&said, one, two, 6 * S);
	CHECK_EQ(shown(ZN_FIGURE_LOST), 1);
	CHECK_EQ(shown(ZN_FIGURE_POWER), ZN_NOT_KNOWN);
	CHECK_STR(zn_source_label(h.device[0].from[ZN_FIGURE_LOST], ZN_FIGURE_LOST), "sysfs");
	take(ZN_SOURCE_SYS, one, "", ZN_FIGURE_LINK_WIDTH, 16, 7 * S);
	hear(&said, two, "", 20 * S); /* its driver has left it, or the kernel says nothing */
	CHECK_EQ(shown(ZN_FIGURE_LOST), ZN_NOT_KNOWN);
}

/* A machine had it for a while. Whether NVML sees it since is not known. */
T(a_gpu_that_came_back_is_not_missed)
{
	static struct zn_nvml_said said;
	const char *one = "0000:1b:00.0", *two = "0000:2b:00.0";

	begin();
	take(ZN_SOURCE_SYS, one, "", ZN_FIGURE_LINK_WIDTH, 16, S);
	hear(&said, one, two, S);
	CHECK_EQ(shown(ZN_FIGURE_LOST), 0);
	h.device[0].by[ZN_SOURCE_SYS].reading.known = 0; /* it has no driver */
	hear(&said, two, "", 2 * S);
	CHECK_EQ(shown(ZN_FIGURE_LOST), ZN_NOT_KNOWN);
	take(ZN_SOURCE_SYS, one, "", ZN_FIGURE_LINK_WIDTH, 16, 3 * S);
	hear(&said, two, "", 3 * S);
	CHECK_EQ(shown(ZN_FIGURE_LOST), ZN_NOT_KNOWN);
	hear(&said, one, two, 4 * S);
	hear(&said, two, "", 5 * S);
	CHECK_EQ(shown(ZN_FIGURE_LOST), 1);
}

static void count(enum zn_source s, uint64_t v, uint64_t now)
{
	take(s, "0000:1b:00.0", "GPU-aa", ZN_FIGURE_ENERGY, v, now);
	zn_hardware_tick(&h, now);
}

/* What a dcgm-exporter says of it is older than what NVML said last. */
T(a_count_does_not_fall_with_its_source)
{
	begin();
	take(ZN_SOURCE_SYS, "0000:1b:00.0", "", ZN_FIGURE_SUSPENDED, 0, S);
	count(ZN_SOURCE_DCGM, 900, S);
	count(ZN_SOURCE_NVML, 1000, S);
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 1000);
	count(ZN_SOURCE_DCGM, 950, 10 * S); /* zernel-gpu is silent */
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 1000);
	CHECK_EQ(h.device[0].from[ZN_FIGURE_ENERGY], ZN_SOURCE_NVML);
	count(ZN_SOURCE_DCGM, 1100, 25 * S);
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 1100);
	CHECK_EQ(h.device[0].from[ZN_FIGURE_ENERGY], ZN_SOURCE_DCGM);
	count(ZN_SOURCE_NVML, 1200, 26 * S);
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 1200);
	take(ZN_SOURCE_DCGM, "0000:1b:00.0", "", ZN_FIGURE_POWER, 7, 40 * S);
	zn_hardware_tick(&h, 40 * S); /* neither tells of it */
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), ZN_NOT_KNOWN);
	count(ZN_SOURCE_DCGM, 1150, 41 * S);
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 1200);
}

T(a_count_falls_with_a_reset)
{
	begin();
	take(ZN_SOURCE_SYS, "0000:1b:00.0", "", ZN_FIGURE_SUSPENDED, 0, S);
	count(ZN_SOURCE_NVML, 1000, S);
	count(ZN_SOURCE_NVML, 5, 2 * S);
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 5);
	count(ZN_SOURCE_NVML, 1000, 3 * S);
	count(ZN_SOURCE_DCGM, 900, 10 * S);
	count(ZN_SOURCE_DCGM, 10, 25 * S); /* while the other one's value is shown */
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 10);
	count(ZN_SOURCE_DCGM, 2000, 40 * S);
	count(ZN_SOURCE_NVML, 30, 41 * S); /* less than it said itself */
	CHECK_EQ(shown(ZN_FIGURE_ENERGY), 30);
	take(ZN_SOURCE_NVML, "0000:1b:00.0", "", ZN_FIGURE_POWER, 9, 42 * S); /* a gauge is what it is told to be */
	take(ZN_SOURCE_DCGM, "0000:1b:00.0", "", ZN_FIGURE_POWER, 7, 50 * S);
	zn_hardware_tick(&h, 50 * S);
	CHECK_EQ(shown(ZN_FIGURE_POWER), 7);
}

T(time_throttled_is_a_sum_of_looks)
{
	begin();
	for (uint64_t t = 1; t <= 10; t++) {
		take(ZN_SOURCE_SYS, "0000:1b:00.0", "", ZN_FIGURE_THROTTLE, t > 4 ? 1 << ZN_THROTTLE_THERMAL : 0,
			t * S);
		zn_hardware_tick(&h, t * S);
	}
	CHECK_EQ(h.device[0].throttled_ns[ZN_THROTTLE_THERMAL], 6 * S);
	CHECK_EQ(h.device[0].throttled_ns[ZN_THROTTLE_POWER], 0);
}

T(a_link_is_lanes_and_speed)
{
	struct zn_device d = {.id = ""};

	CHECK_EQ(zn_hardware_link(&d, true), ZN_NOT_KNOWN);
	zn_reading_set(&d.now, ZN_FIGURE_LINK_WIDTH, 8);
	zn_reading_set(&d.now, ZN_FIGURE_LINK_WIDTH_MAX, 16);
	CHECK_EQ(zn_hardware_link(&d, true), 500000);
	CHECK_EQ(zn_hardware_link(&d, false), ZN_NOT_KNOWN);
	zn_reading_set(&d.now, ZN_FIGURE_LINK_SPEED, 160);
	zn_reading_set(&d.now, ZN_FIGURE_LINK_SPEED_MAX, 320);
	CHECK_EQ(zn_hardware_link(&d, false), 250000);
}

T(addresses_have_one_form)
{
	static const struct {
		const char *text, *want;
	} rows[] = {{"00000000:1B:00.0", "0000:1b:00.0"}, {"0000:1b:00.0", "0000:1b:00.0"},
		{"0001:00:00.7", "0001:00:00.7"}, {"00010000:1B:00.0", ""}, {"", ""}, {"0000:1b:00", ""},
		{"0000:1g:00.0", ""}, {"0000-1b:00.0", ""}};
	char to[16];

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		zn_dcgm_pci(to, (struct zn_str){rows[i].text, strlen(rows[i].text)});
		CHECK_STR(to, rows[i].want);
	}
	CHECK_EQ(zn_figure_find((struct zn_str){"power_watts", 11}), ZN_FIGURE_POWER);
	CHECK_EQ(zn_figure_find((struct zn_str){"power_watt", 10}), ZN_FIGURE_COUNT);
}

int main(void)
{
	RUN(the_best_source_is_shown_until_it_is_silent);
	RUN(a_gpu_that_nobody_lists_has_its_address);
	RUN(there_is_room_for_so_many);
	RUN(what_nvml_says_is_whole);
	RUN(a_gpu_is_lost_by_any_source);
	RUN(a_gpu_that_came_back_is_not_missed);
	RUN(a_count_does_not_fall_with_its_source);
	RUN(a_count_falls_with_a_reset);
	RUN(time_throttled_is_a_sum_of_looks);
	RUN(a_link_is_lanes_and_speed);
	RUN(addresses_have_one_form);
	return t_end();
}
