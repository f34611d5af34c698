/* SPDX-License-Identifier: GPL-2.0 */
/*
 * nvml.c: messages of zernel-gpu, which asks NVIDIA's library on the daemon's behalf: lines of words, the first
 * with the moment (CLOCK_MONOTONIC), then what is of the driver, then each GPU and what is of it.
 * contrib/gpu/README.md has them all. Who writes them is hostile: a message is bounded, so is the number of each
 * thing, and a line that makes no sense is passed over. Figures that the kernel knows itself, those of the PCI
 * device, are not taken.
 */
#include <string.h>

#include "zernel.h"

#define VALUE_MAX (1ULL << 62)
#define SKEW_MS   1000 /* both sides read the same clock, one after the other */

static bool next_word(struct zn_str *line, struct zn_str *word)
{
	*line = zn_str_trim(*line, " ");
	return line->len && zn_str_split(line, " ", word);
}

static bool next_number(struct zn_str *line, uint64_t *to)
{
	struct zn_str word;

	if (!next_word(line, &word) || word.len > 19)
		return false;
	*to = 0;
	for (size_t i = 0; i < word.len; i++) {
		if (word.at[i] < '0' || word.at[i] > '9')
			return false;
		*to = *to * 10 + (uint64_t)(word.at[i] - '0');
	}
	return *to < VALUE_MAX;
}

static bool next_small(struct zn_str *line, uint32_t *to)
{
	uint64_t v;

	if (!next_number(line, &v) || v > UINT32_MAX)
		return false;
	*to = (uint32_t)v;
	return true;
}

/* Copies the printable characters of it, as far as there is room. */
static void copy_text(char *to, size_t cap, struct zn_str text)
{
	size_t len = text.len < cap - 1 ? text.len : cap - 1;

	for (size_t i = 0; i < len; i++)
		to[i] = text.at[i] >= ' ' && text.at[i] <= '~' ? text.at[i] : '?';
	to[len] = 0;
}

static bool is_told(const struct zn_nvml_said *s, const char *pci)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (!strcmp(s->reading[i].pci, pci))
			return true;
	return false;
}

/* The GPU of the lines that follow; NULL: they are of none. */
static struct zn_reading *take_gpu(struct zn_nvml_said *s, struct zn_str line)
{
	struct zn_reading r = {.known = 0};
	struct zn_str pci, uuid;

	if (s->count == ZN_GPUS_MAX || !next_word(&line, &pci) || !next_word(&line, &uuid))
		return NULL;
	zn_dcgm_pci(r.pci, pci);
	if (!r.pci[0] || is_told(s, r.pci))
		return NULL;
	zn_dcgm_uuid(r.uuid, uuid);
	s->reading[s->count] = r;
	copy_text(s->model[s->count], sizeof(s->model[0]), zn_str_trim(line, " "));
	return &s->reading[s->count++];
}

/* The same process of the same GPU; s->processes: it was not there yet. */
static uint32_t process_of(const struct zn_nvml_said *s, uint32_t pid, uint32_t gpu)
{
	uint32_t i = 0;

	while (i < s->processes && (s->process[i].pid != pid || s->process[i].gpu != gpu))
		i++;
	return i;
}

/* A process that uses several instances of a GPU has a line for each. */
static void take_process(struct zn_nvml_said *s, struct zn_str line)
{
	uint32_t pid, i;
	uint64_t bytes;

	if (!next_small(&line, &pid) || !pid || !next_number(&line, &bytes))
		return;
	i = process_of(s, pid, s->count - 1);
	if (i == ZN_NVML_PROCESSES)
		return;
	if (i == s->processes) {
		s->process[s->processes].pid = pid;
		s->process[s->processes].gpu = s->count - 1;
		s->process[s->processes++].bytes = 0;
	}
	if (s->process[i].bytes + bytes < VALUE_MAX)
		s->process[i].bytes += bytes;
}

static bool is_instance_told(const struct zn_nvml_said *s, uint32_t before)
{
	for (uint32_t i = 0; i < before; i++)
		if (!strcmp(s->instance[i].uuid, s->instance[before].uuid))
			return true;
	return false;
}

static void take_instance(struct zn_nvml_said *s, struct zn_str line)
{
	uint32_t i = s->instances;
	struct zn_str uuid;

	if (i == ZN_NVML_INSTANCES || !next_small(&line, &s->instance[i].gpu_instance) ||
		!next_small(&line, &s->instance[i].compute_instance) ||
		!next_number(&line, &s->instance[i].used_bytes) || !next_number(&line, &s->instance[i].total_bytes) ||
		!next_word(&line, &uuid) || !zn_dcgm_uuid(s->instance[i].uuid, uuid) || is_instance_told(s, i))
		return;
	copy_text(s->instance[i].model, sizeof(s->instance[i].model), zn_str_trim(line, " "));
	s->instance[i].gpu = s->count - 1;
	s->instances++;
}

/* The kernel knows itself what is of the PCI device, but for this. */
static bool is_taken(enum zn_figure f)
{
	return f < ZN_FIGURE_LINK_SPEED || f == ZN_FIGURE_LOST;
}

static void take_figure(struct zn_reading *r, struct zn_str name, struct zn_str line)
{
	bool reasons = zn_str_is(name, "throttle_reasons");
	enum zn_figure f = reasons ? ZN_FIGURE_THROTTLE : zn_figure_find(name);
	uint64_t v;

	if (!is_taken(f) || (f == ZN_FIGURE_THROTTLE && !reasons) || !next_number(&line, &v))
		return;
	zn_reading_set(r, f, reasons ? zn_dcgm_throttle(v) : v);
}

/* A line about the driver comes before the first GPU. */
static void take_driver(struct zn_nvml_said *s, struct zn_str name, struct zn_str line)
{
	if (zn_str_is(name, "driver"))
		copy_text(s->driver, sizeof(s->driver), line);
	else if (zn_str_is(name, "why"))
		copy_text(s->why, sizeof(s->why), line);
	else if (zn_str_is(name, "stale") && next_number(&line, &s->stale_ms))
		copy_text(s->step, sizeof(s->step), zn_str_trim(line, " "));
	else if (zn_str_is(name, "stale"))
		s->stale_ms = 0;
}

static void take_line(struct zn_nvml_said *s, struct zn_reading **gpu, struct zn_str line)
{
	struct zn_str name;

	if (!next_word(&line, &name))
		return;
	if (zn_str_is(name, "gpu"))
		*gpu = take_gpu(s, line);
	else if (!*gpu && !s->count)
		take_driver(s, name, line);
	else if (*gpu && zn_str_is(name, "process"))
		take_process(s, line);
	else if (*gpu && zn_str_is(name, "instance"))
		take_instance(s, line);
	else if (*gpu)
		take_figure(*gpu, name, line);
}

/* What is in a message: all but its arrays, of which the counts say how much holds. */
static void clear_said(struct zn_nvml_said *s)
{
	s->stale_ms = 0;
	s->step[0] = s->why[0] = s->driver[0] = 0;
	s->count = s->processes = s->instances = s->pad = 0;
}

bool zn_nvml_read(struct zn_nvml_said *to, struct zn_str text, uint64_t now_ms)
{
	struct zn_reading *gpu = NULL;
	struct zn_str line, word;
	uint64_t at_ms, version;

	clear_said(to);
	if (!zn_str_cut(&text, '\n', &line) || !next_word(&line, &word) || !zn_str_is(word, "zernel-gpu") ||
		!next_number(&line, &version) || version != 1 || !next_number(&line, &at_ms))
		return false;
	if (at_ms > now_ms + SKEW_MS || at_ms + ZN_NVML_STALE_MS < now_ms)
		return false;
	while (zn_str_cut(&text, '\n', &line))
		take_line(to, &gpu, line);
	return true;
}

#define END_TEXT(text) ((text)[sizeof(text) - 1] = 0)

/* No two things have the same name: they would be the same series. */
void zn_nvml_check(struct zn_nvml_said *s)
{
	s->count = s->count < ZN_GPUS_MAX ? s->count : ZN_GPUS_MAX;
	s->processes = s->processes < ZN_NVML_PROCESSES ? s->processes : ZN_NVML_PROCESSES;
	s->instances = s->instances < ZN_NVML_INSTANCES ? s->instances : ZN_NVML_INSTANCES;
	END_TEXT(s->step), END_TEXT(s->why), END_TEXT(s->driver);
	for (uint32_t i = 0; i < s->count; i++) {
		END_TEXT(s->reading[i].pci), END_TEXT(s->reading[i].uuid), END_TEXT(s->model[i]);
		s->reading[i].known &= ((1ULL << ZN_FIGURE_LINK_SPEED) - 1) | 1ULL << ZN_FIGURE_LOST;
	}
	for (uint32_t i = 0; i < s->processes; i++)
		if (s->process[i].gpu >= s->count || process_of(s, s->process[i].pid, s->process[i].gpu) != i)
			s->process[i].pid = 0;
	for (uint32_t i = 0; i < s->instances; i++) {
		END_TEXT(s->instance[i].uuid), END_TEXT(s->instance[i].model);
		if (s->instance[i].gpu >= s->count || is_instance_told(s, i))
			s->instance[i].uuid[0] = 0;
	}
}
