/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dcgm.c: the page of a dcgm-exporter, as it comes in: text of Prometheus, a line for each figure of a GPU. Whoever
 * answers is hostile: a line is bounded, so is the number of GPUs, and what makes no sense is passed over.
 *
 * Limits: lines of MIG instances are passed over, as they are of a part of a GPU; rates of NVLink are no counters.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "zernel.h"

#define BLANK 140737488355328.0 /* DCGM has this and more for what it does not know */

static const struct {
	const char *name;
	enum zn_figure figure;
	double times;
} figures[] = {
	{"DCGM_FI_DEV_GPU_UTIL", ZN_FIGURE_UTILIZATION, 1e4},
	{"DCGM_FI_PROF_SM_ACTIVE", ZN_FIGURE_SM_ACTIVE, 1e6},
	{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", ZN_FIGURE_TENSOR_ACTIVE, 1e6},
	{"DCGM_FI_PROF_DRAM_ACTIVE", ZN_FIGURE_DRAM_ACTIVE, 1e6},
	{"DCGM_FI_DEV_FB_USED", ZN_FIGURE_VRAM_USED, 1048576},
	{"DCGM_FI_DEV_FB_TOTAL", ZN_FIGURE_VRAM_TOTAL, 1048576},
	{"DCGM_FI_DEV_POWER_USAGE", ZN_FIGURE_POWER, 1e3},
	{"DCGM_FI_DEV_POWER_MGMT_LIMIT", ZN_FIGURE_POWER_LIMIT, 1e3},
	{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", ZN_FIGURE_ENERGY, 1},
	{"DCGM_FI_DEV_GPU_TEMP", ZN_FIGURE_TEMPERATURE, 1e3},
	{"DCGM_FI_DEV_MEMORY_TEMP", ZN_FIGURE_MEMORY_TEMPERATURE, 1e3},
	{"DCGM_FI_DEV_SM_CLOCK", ZN_FIGURE_CLOCK, 1e6},
	{"DCGM_FI_DEV_MEM_CLOCK", ZN_FIGURE_MEMORY_CLOCK, 1e6},
	{"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", ZN_FIGURE_THROTTLE, 1},
	{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", ZN_FIGURE_THROTTLE, 1},
	{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", ZN_FIGURE_ECC_CORRECTED, 1},
	{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", ZN_FIGURE_ECC_UNCORRECTED, 1},
	{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", ZN_FIGURE_REMAPPED_CORRECTABLE, 1},
	{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", ZN_FIGURE_REMAPPED_UNCORRECTABLE, 1},
	{"DCGM_FI_DEV_ROW_REMAP_PENDING", ZN_FIGURE_REMAPPED_PENDING, 1},
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", ZN_FIGURE_REMAPPED_FAILED, 1},
	{"DCGM_FI_DEV_RETIRED_SBE", ZN_FIGURE_RETIRED_CORRECTABLE, 1},
	{"DCGM_FI_DEV_RETIRED_DBE", ZN_FIGURE_RETIRED_UNCORRECTABLE, 1},
	{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", ZN_FIGURE_PCIE_REPLAYS, 1},
	{"DCGM_FI_PROF_PCIE_TX_BYTES", ZN_FIGURE_PCIE_SENT, 1},
	{"DCGM_FI_PROF_PCIE_RX_BYTES", ZN_FIGURE_PCIE_RECEIVED, 1},
	{"DCGM_FI_DEV_MIG_MODE", ZN_FIGURE_MIG, 1},
};

/* Bits of nvmlClocksEventReasons; idle is none of them. */
uint64_t zn_dcgm_throttle(uint64_t reasons)
{
	static const struct {
		uint64_t bits;
		enum zn_throttle to;
	} known[] = {{0x4, ZN_THROTTLE_POWER}, {0x20 | 0x40, ZN_THROTTLE_THERMAL}, {0x8 | 0x80, ZN_THROTTLE_HARDWARE},
		{0x10, ZN_THROTTLE_SYNC}, {0x2 | 0x100, ZN_THROTTLE_SETTING}};
	uint64_t mask = 0;

	for (size_t i = 0; i < ZN_LEN(known); i++)
		mask |= (uint64_t)((reasons & known[i].bits) != 0) << known[i].to;
	return mask;
}

/* NVML writes eight digits of the domain, and capitals. */
void zn_dcgm_pci(char to[16], struct zn_str text)
{
	static const char form[] = "xxxx:xx:xx.x";

	to[0] = 0;
	if (text.len == strlen(form) + 4 && !memcmp(text.at, "0000", 4))
		text.at += 4, text.len -= 4;
	if (text.len != strlen(form))
		return;
	for (size_t i = 0; i < text.len; i++) {
		if (form[i] == 'x' ? !isxdigit((unsigned char)text.at[i]) : text.at[i] != form[i])
			return;
	}
	for (size_t i = 0; i < text.len; i++)
		to[i] = (char)tolower((unsigned char)text.at[i]);
	to[text.len] = 0;
}

/* Takes the next NAME="VALUE" off labels, and the comma behind it. False: there is none that is well formed. */
static bool next_label(struct zn_str *labels, struct zn_str *name, struct zn_str *value)
{
	size_t i = 0;

	if (!zn_str_cut(labels, '=', name) || !labels->len || labels->at[0] != '"')
		return false;
	value->at = labels->at + 1;
	for (i = 1; i < labels->len && labels->at[i] != '"'; i++)
		i += labels->at[i] == '\\';
	if (i >= labels->len)
		return false;
	value->len = i - 1;
	i += 1 + (i + 1 < labels->len && labels->at[i + 1] == ',');
	*labels = (struct zn_str){labels->at + i, labels->len - i};
	*name = zn_str_trim(*name, " ,");
	return true;
}

/* A UUID as NVIDIA writes it: letters, digits and dashes alone. */
bool zn_dcgm_uuid(char to[48], struct zn_str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-')
			return false;
	}
	if (text.len >= 48 || text.len < 8)
		return false;
	memcpy(to, text.at, text.len);
	to[text.len] = 0;
	return true;
}

/* False: it is of no whole GPU. */
static bool read_labels(struct zn_str labels, struct zn_reading *who)
{
	struct zn_str name, value;

	while (labels.len) {
		if (!next_label(&labels, &name, &value))
			return false;
		if (zn_str_is(name, "UUID") && !zn_dcgm_uuid(who->uuid, value))
			return false;
		if (zn_str_is(name, "pci_bus_id"))
			zn_dcgm_pci(who->pci, value);
		if (zn_str_is(name, "GPU_I_ID") && value.len)
			return false;
	}
	return who->uuid[0];
}

static struct zn_reading *reading_of(struct zn_dcgm_parse *p, const struct zn_reading *who)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (!strcmp(p->reading[i].uuid, who->uuid))
			return &p->reading[i];
	if (p->count == ZN_GPUS_MAX)
		return NULL;
	p->reading[p->count] = (struct zn_reading){.known = 0};
	memcpy(p->reading[p->count].uuid, who->uuid, sizeof(who->uuid));
	memcpy(p->reading[p->count].pci, who->pci, sizeof(who->pci));
	return &p->reading[p->count++];
}

static void take_value(struct zn_dcgm_parse *p, size_t row, const struct zn_reading *who, struct zn_str text)
{
	char number[40];
	char *end;
	double v;
	struct zn_reading *r;

	text = zn_str_trim(text, " \t\r");
	if (!text.len || text.len >= sizeof(number))
		return;
	memcpy(number, text.at, text.len);
	number[text.len] = 0;
	v = strtod(number, &end);
	if (end == number || (*end && *end != ' ') || !isfinite(v) || v < 0 || v >= BLANK || !(r = reading_of(p, who)))
		return;
	v = v * figures[row].times + 0.5;
	if (v < 9e18)
		zn_reading_set(r, figures[row].figure,
			figures[row].figure == ZN_FIGURE_THROTTLE ? zn_dcgm_throttle((uint64_t)v) : (uint64_t)v);
}

static void take_line(struct zn_dcgm_parse *p)
{
	struct zn_str line = {p->line, p->line_len}, name, labels;
	struct zn_reading who = {.known = 0};
	size_t row = 0, close;

	if (!line.len || line.at[0] == '#' || !zn_str_cut(&line, '{', &name))
		return;
	while (row < ZN_LEN(figures) && !zn_str_is(name, figures[row].name))
		row++;
	close = line.len;
	while (close && line.at[close - 1] != '}')
		close--;
	if (row == ZN_LEN(figures) || !close)
		return;
	labels = (struct zn_str){line.at, close - 1};
	if (read_labels(labels, &who))
		take_value(p, row, &who, (struct zn_str){line.at + close, line.len - close});
}

void zn_dcgm_init(struct zn_dcgm_parse *p)
{
	p->count = 0;
	p->line_len = 0;
	p->skips = false;
}

void zn_dcgm_take(struct zn_dcgm_parse *p, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] == '\n') {
			if (!p->skips)
				take_line(p);
			p->line_len = 0;
			p->skips = false;
		} else if (p->line_len < sizeof(p->line)) {
			p->line[p->line_len++] = bytes[i];
		} else {
			p->skips = true;
		}
	}
}
