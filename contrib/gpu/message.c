/* SPDX-License-Identifier: GPL-2.0 */
/* message.c: the lines that zerneld is sent. A line that finds no room ends the message. */
#include <stdarg.h>
#include <stdio.h>

#include "gpu.h"
#include "zernel-gpu.h"

#define PROCESSES_ALL                                                                                                  \
	512 /* of all, as zerneld has room for; of each GPU as many, so that a message holds the rest too */
#define MIGS_ALL 128

static const char *const figure_names[] = {
#define X(name) #name,
	FIGURES(X)
#undef X
};

void message_add(struct message *m, const char *form, ...)
{
	va_list arguments;
	int n;

	if (m->full)
		return;
	va_start(arguments, form);
	n = vsnprintf(m->text + m->len, sizeof(m->text) - m->len, form, arguments);
	va_end(arguments);
	if (n < 0 || (size_t)n >= sizeof(m->text) - m->len)
		m->full = true; /* a shorter line that came later would be another GPU's */
	else
		m->len += (size_t)n;
}

void message_begin(struct message *m, uint64_t at_ms)
{
	m->len = 0;
	m->full = false;
	message_add(m, VERSION_LINE " %llu\n", (unsigned long long)at_ms);
}

const char *one_line(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return text;
}

void message_add_gpu(struct message *m, struct gpu *g, unsigned gpus)
{
	if (!g->pci[0])
		return;
	message_add(m, "gpu %s %s %s\n", g->pci, g->uuid[0] ? one_line(g->uuid) : "-", one_line(g->name));
	message_add(m, "lost %d\n", g->lost_rounds != 0);
	for (enum figure f = 0; f < FIGURE_COUNT; f++)
		if (g->known >> f & 1)
			message_add(m, "%s %llu\n", figure_names[f], g->value[f]);
	for (unsigned i = 0; i < g->mig_count && i < MIGS_ALL / gpus; i++)
		message_add(m, "instance %u %u %llu %llu %s %s\n", g->mig[i].gpu_instance, g->mig[i].compute_instance,
			g->mig[i].used, g->mig[i].total, one_line(g->mig[i].uuid), one_line(g->mig[i].name));
	for (unsigned i = 0; i < g->process_count && i < PROCESSES_ALL / gpus; i++)
		message_add(m, "process %u %llu\n", g->process[i].pid, g->process[i].bytes);
}

void message_set_why(struct message *m, const char *what, int result)
{
	static const struct {
		int result;
		const char *text;
	} known[] = {{NVML_UNINITIALIZED, "not initialized"}, {NVML_NO_PERMISSION, "no permission"},
		{NVML_DRIVER_NOT_LOADED, "the driver is not loaded"}, {NVML_LIBRARY_NOT_FOUND, "a library is missing"},
		{NVML_FUNCTION_NOT_FOUND, "no such function"}, {NVML_GPU_IS_LOST, "a GPU is lost"},
		{NVML_VERSION_MISMATCH, "the library and the driver are of different versions"}};
	const char *text = "error";

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].result == result)
			text = known[i].text;
	message_begin(m, now_ms());
	message_add(m, "why %s: %s (%d)\n", what, text, result);
}
