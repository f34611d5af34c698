/* SPDX-License-Identifier: GPL-2.0 */
/*
 * nvml_fuzz.c: any bytes as a message of zernel-gpu: what comes of them is within its tables, its texts end and can
 * be printed, and no figure that the kernel knows itself is among it. Any bytes as such a message in shared memory
 * are made one that can be read.
 */
#include <stdlib.h>

#include "src/codec/nvml.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_text(const char *text, size_t cap, bool printable)
{
	check(memchr(text, 0, cap));
	for (; printable && *text; text++)
		check(*text >= ' ' && *text <= '~');
}

static void check_said(const struct zn_nvml_said *s, bool printable)
{
	check(s->count <= ZN_GPUS_MAX && s->processes <= ZN_NVML_PROCESSES && s->instances <= ZN_NVML_INSTANCES);
	check_text(s->driver, sizeof(s->driver), printable);
	check_text(s->why, sizeof(s->why), printable);
	check_text(s->step, sizeof(s->step), printable);
	for (uint32_t i = 0; i < s->count; i++) {
		check_text(s->reading[i].pci, sizeof(s->reading[i].pci), printable);
		check_text(s->reading[i].uuid, sizeof(s->reading[i].uuid), printable);
		check_text(s->model[i], sizeof(s->model[i]), printable);
		check(!((s->reading[i].known & ~(1ULL << ZN_FIGURE_LOST)) >> ZN_FIGURE_LINK_SPEED));
	}
	for (uint32_t i = 0; i < s->processes; i++)
		check(!s->process[i].pid ||
			(s->process[i].gpu < s->count && process_of(s, s->process[i].pid, s->process[i].gpu) == i));
	for (uint32_t i = 0; i < s->instances; i++) {
		check(!s->instance[i].uuid[0] || s->instance[i].gpu < s->count);
		check_text(s->instance[i].uuid, sizeof(s->instance[i].uuid), printable);
		check_text(s->instance[i].model, sizeof(s->instance[i].model), printable);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct zn_nvml_said said;
	char *exact = malloc(len + 1);

	memcpy(exact, data, len);
	if (zn_nvml_read(&said, (struct zn_str){exact, len}, 1000))
		check_said(&said, true);
	free(exact);
	memset(&said, len ? data[0] : 0, sizeof(said));
	memcpy(&said, data, len < sizeof(said) ? len : sizeof(said));
	zn_nvml_check(&said);
	check_said(&said, false);
	return 0;
}
