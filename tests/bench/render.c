/* SPDX-License-Identifier: GPL-2.0 */
/*
 * render TIMES [openmetrics]: renders the text of a simulated node that often, without a daemon or a socket around it,
 * and prints the time of one, its bytes and its sample lines. Under `valgrind --tool=callgrind
 * --toggle-collect=zn_metrics_text` its instruction count is the same each time, on any machine.
 */
#include <string.h>

#include "bench.h"
#include "zernel.h"

const char zn_version[] = "bench", zn_commit[] = "bench";
bool zn_ready;

/* Simulated data has neither probes nor libraries. */
uint64_t zn_probe_missed(struct zn_probe *p)
{
	(void)p;
	return 0;
}

int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	(void)a, (void)slot, (void)path, (void)why;
	return -1;
}

const char *zn_first_label(enum zn_first first)
{
	(void)first;
	return "";
}

uint64_t zn_probe_run_ns(struct zn_probe *p, uint32_t i, const char **name)
{
	(void)p, (void)i;
	*name = "";
	return 0;
}

void zn_find_visit(struct zn_find *f, void (*visit)(void *to, const struct zn_lib *lib), void *to)
{
	(void)f, (void)visit, (void)to;
}

static uint32_t lines(const struct zn_out *o)
{
	uint32_t count = 0;

	for (size_t i = 0; i < o->len; i++)
		count += o->at[i] == '\n' && i + 1 < o->len && o->at[i + 1] != '#';
	return count;
}

int main(int argc, char **argv)
{
	static struct zn_sim sim;
	static struct zn_agg agg;
	static struct zn_alerts alerts;
	static struct zn_options options = {.push_interval_ms = 1000, .overhead_budget = 10000, .families = 7};
	static char text[1 << 20];
	struct zn_view view = {
		.options = &options, .agg = &agg, .alerts = &alerts, .node = "bench", .release = "bench"};
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	unsigned long times = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	char why[ZN_TEXT_MAX];
	uint64_t start;

	if (!times || zn_sim_open(&sim, 1))
		die("usage", "render TIMES [openmetrics]");
	zn_agg_init(&agg, &sim.plain.arena);
	if (zn_alerts_open(&alerts, &options, zn_metrics_type, why))
		die("alerts", why);
	zn_sim_step(&sim, 60000);
	zn_agg_tick(&agg, zn_now_ns());
	start = zn_now_ns();
	for (unsigned long i = 0; i < times; i++) {
		o.len = 0;
		zn_metrics_text(&o, &view, argc > 2);
	}
	printf("%.0f %zu %u\n", (double)(zn_now_ns() - start) / (double)times, o.len, lines(&o));
	return 0;
}
