/* SPDX-License-Identifier: GPL-2.0 */
/* nvml_test.c: messages of zernel-gpu, cut at every byte, and what is no such message. */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

static const char message[] = "zernel-gpu 1 100000\n"
			      "driver 550.54.15\n"
			      "gpu 0000:1B:00.0 GPU-11111111-2222 NVIDIA H100 80GB HBM3\n"
			      "utilization 870000\n"
			      "throttle_reasons 36\n"
			      "a_figure_of_later_versions 7\n"
			      "link_width 16\n"
			      "throttle 31\n"
			      "ecc_corrected -1\n"
			      "energy_joules 99999999999999999999\n"
			      "lost 0\n"
			      "instance 7 0 1 10 MIG-11111111-3333 NVIDIA H100 MIG 1g.10gb\n"
			      "process 4711 3221225472\n"
			      "process 0 3\n"
			      "process 4711 5\n"
			      "process 4711 4611686018427387903\n"
			      "instance 8 0 1 10 MIG-11111111-3333 again\n"
			      "gpu 0000:1b:00.0 GPU-99999999-9999 twice\n"
			      "utilization 1\n"
			      "process 5 6\n"
			      "gpu 00000000:1C:00.0 -\n"
			      "pcie_replays 5\n";

static struct zn_nvml_said said;

/* From a heap block of exactly its size. */
static bool take(const char *text, size_t len, uint64_t now_ms)
{
	char *block = malloc(len ? len : 1);
	bool good;

	memcpy(block, text, len);
	good = zn_nvml_read(&said, (struct zn_str){block, len}, now_ms);
	free(block);
	return good;
}

T(a_whole_message)
{
	CHECK(take(message, sizeof(message) - 1, 100000));
	CHECK_STR(said.driver, "550.54.15");
	CHECK_EQ(said.count, 2);
	CHECK_STR(said.reading[0].pci, "0000:1b:00.0");
	CHECK_STR(said.reading[0].uuid, "GPU-11111111-2222");
	CHECK_STR(said.model[0], "NVIDIA H100 80GB HBM3");
	CHECK_EQ(said.reading[0].known,
		1ULL << ZN_FIGURE_UTILIZATION | 1ULL << ZN_FIGURE_THROTTLE | 1ULL << ZN_FIGURE_LOST);
	CHECK_EQ(said.reading[0].value[ZN_FIGURE_UTILIZATION], 870000);
	CHECK_EQ(said.reading[0].value[ZN_FIGURE_THROTTLE], 1 << ZN_THROTTLE_POWER | 1 << ZN_THROTTLE_THERMAL);
	CHECK_STR(said.reading[1].pci, "0000:1c:00.0");
	CHECK_STR(said.reading[1].uuid, "");
	CHECK_STR(said.model[1], "");
	CHECK_EQ(said.reading[1].value[ZN_FIGURE_PCIE_REPLAYS], 5);
	CHECK_EQ(said.processes, 1);
	CHECK_EQ(said.process[0].pid, 4711);
	CHECK_EQ(said.process[0].gpu, 0);
	CHECK_EQ(said.process[0].bytes, 3221225472 + 5);
	CHECK_EQ(said.instances, 1);
	CHECK_EQ(said.instance[0].gpu_instance, 7);
	CHECK_STR(said.instance[0].uuid, "MIG-11111111-3333");
	CHECK_STR(said.instance[0].model, "NVIDIA H100 MIG 1g.10gb");
}

/* A line without its end says nothing. */
T(a_message_cut_anywhere)
{
	for (size_t cut = 0; cut < sizeof(message); cut++) {
		CHECK_EQ(take(message, cut, 100000), cut >= strlen("zernel-gpu 1 100000\n"));
		CHECK(said.count <= 2 && said.processes <= 1 && said.instances <= 1);
		zn_nvml_check(&said);
	}
}

T(what_is_no_message_of_now)
{
	static const struct {
		const char *text;
		uint64_t now_ms;
		bool good;
	} rows[] = {{"zernel-gpu 1 100000\n", 105000, true}, {"zernel-gpu 1 100000\n", 105001, false},
		{"zernel-gpu 1 100000\n", 99000, true}, {"zernel-gpu 1 100000\n", 98999, false},
		{"zernel-gpu 2 100000\n", 100000, false}, {"zernel-gpu 1\n", 0, false}, {"zernel 1 1\n", 1, false},
		{"zernel-gpu 1 -1\n", 0, false}, {"zernel-gpu 1 18446744073709551615\n", 0, false}, {"", 0, false},
		{"\n\n\n", 0, false}};

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		CHECK_EQ(take(rows[i].text, strlen(rows[i].text), rows[i].now_ms), rows[i].good);
}

T(a_library_that_does_not_answer)
{
	static const char stale[] = "zernel-gpu 1 5\nstale 7001 power\n",
			  why[] = "zernel-gpu 1 5\nwhy no\x1b[1m driver\n";

	CHECK(take(stale, sizeof(stale) - 1, 5));
	CHECK_EQ(said.stale_ms, 7001);
	CHECK_STR(said.step, "power");
	CHECK_EQ(said.count, 0);
	CHECK(take(why, sizeof(why) - 1, 5));
	CHECK_EQ(said.stale_ms, 0);
	CHECK_STR(said.why, "no?[1m driver");
}

/* More of everything than there is room for. */
T(there_is_room_for_so_many)
{
	static char text[ZN_NVML_BYTES];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	char line[80];

	zn_out_text(&o, "zernel-gpu 1 1\n");
	for (unsigned i = 0; i < ZN_GPUS_MAX + 6; i++) {
		snprintf(line, sizeof(line), "gpu %04x:00:00.0 GPU-%08x x\n", i, i);
		zn_out_text(&o, line);
		for (unsigned k = 0; k < 10; k++) {
			snprintf(line, sizeof(line), "process %u 1\ninstance 1 %u 1 1 MIG-%08x\n", i * 10 + k + 1, k,
				i * 10 + k);
			zn_out_text(&o, line);
		}
	}
	CHECK(!o.full);
	CHECK(take(text, o.len, 1));
	CHECK_EQ(said.count, ZN_GPUS_MAX);
	CHECK_EQ(said.processes, ZN_NVML_PROCESSES);
	CHECK_EQ(said.instances, ZN_NVML_INSTANCES);
}

/* What comes from memory that another process writes. */
T(shared_memory_is_made_fit)
{
	memset(&said, 0xff, sizeof(said));
	zn_nvml_check(&said);
	CHECK_EQ(said.count, ZN_GPUS_MAX);
	CHECK_EQ(said.reading[0].known >> ZN_FIGURE_LINK_SPEED, 1ULL << (ZN_FIGURE_LOST - ZN_FIGURE_LINK_SPEED));
	CHECK_EQ(strlen(said.model[ZN_GPUS_MAX - 1]), sizeof(said.model[0]) - 1);
	CHECK_EQ(said.process[0].pid, 0);
	CHECK_STR(said.instance[0].uuid, "");
	said = (struct zn_nvml_said){.count = 1, .processes = 2, .instances = 2};
	said.process[0].pid = said.process[1].pid = 7;
	strcpy(said.instance[0].uuid, "MIG-1");
	strcpy(said.instance[1].uuid, "MIG-1");
	zn_nvml_check(&said);
	CHECK(said.process[0].pid == 7 && !said.process[1].pid);
	CHECK(said.instance[0].uuid[0] && !said.instance[1].uuid[0]);
}

int main(void)
{
	RUN(a_whole_message);
	RUN(a_message_cut_anywhere);
	RUN(what_is_no_message_of_now);
	RUN(a_library_that_does_not_answer);
	RUN(there_is_room_for_so_many);
	RUN(shared_memory_is_made_fit);
	return t_end();
}
