/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch_cells.c: what a cell of the tables of `zernel watch` says of a process, a job or a mount.
 */
#include "zernel.h"

#include <stdlib.h>
#include <string.h>

#define CELL ZN_UNITS_CELL

void zn_cell_text(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	zn_value_text(object, c->path, to);
}

void zn_cell_count(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	if (zn_path_known(object, c->path) && (!c->count || zn_value_number(object, c->count) > 0))
		zn_units_count(to, zn_value_number(object, c->path));
}

void zn_cell_duration(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	if (zn_value_number(object, c->count) > 0 && zn_path_known(object, c->path))
		zn_units_duration(to, c->us * zn_value_number(object, c->path));
}

/* Over all that an object or a list holds. */
void zn_cell_sum(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	if (zn_path_known(object, c->path))
		zn_units_count(to, zn_value_sum(zn_path_find(object, c->path), c->count));
}

void zn_cell_launch(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	bool p50 = !strcmp(c->path, "p50");

	if (zn_value_number(object, c->count) > 0)
		zn_units_duration(to,
			p50 ? zn_value_launch_us(object, "launch.recent.p50_us", "launch.p50_us")
			    : zn_value_launch_us(object, "launch.recent.p99_us", "launch.p99_us"));
}

void zn_cell_bytes(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	if (zn_path_known(object, c->path))
		zn_units_bytes(to, zn_value_integer(object, c->path));
}

void zn_cell_share(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	double v = 100 * zn_value_number(object, c->path);

	if (zn_path_known(object, c->path))
		snprintf(to, CELL, "%.0f%%", v < 0 ? 0 : v < 999 ? v : 999);
}

/* The sum over a list of GPUs. It is not known where that of one GPU is not. */
static void known_sum(struct zn_str gpus, const char *key, char to[CELL])
{
	struct zn_str name, gpu;
	bool known = gpus.len > 0 && !zn_str_equal(gpus, (struct zn_str){"null", 4});

	for (size_t at = 0; known && zn_json_next(gpus, &at, &name, &gpu);)
		known = !zn_str_equal(zn_json_member(gpu, key), (struct zn_str){"null", 4});
	if (known)
		zn_units_bytes(to, zn_value_sum_integers(gpus, key));
}

void zn_cell_memory(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	if (!zn_value_is_false(object, "memory_complete"))
		known_sum(zn_path_find(object, c->path), "used_bytes", to);
}

/* Names with commas between them; numbers that follow one another become a range, so that eight GPUs find room. */
struct names {
	char *to;
	size_t len; /* CELL and more: it is full */
	uint32_t first, last;
	bool range; /* first to last are not written yet */
};

__attribute__((format(printf, 2, 3))) static void names_put(struct names *n, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (n->len < CELL)
		n->len += (size_t)vsnprintf(n->to + n->len, CELL - n->len, format, args);
	va_end(args);
}

static void names_end(struct names *n)
{
	if (!n->range)
		return;
	names_put(n, "%s%u", n->len ? "," : "", n->first);
	if (n->last > n->first)
		names_put(n, "%c%u", n->last > n->first + 1 ? '-' : ',', n->last);
	n->range = false;
}

static void names_add(struct names *n, const char *name)
{
	bool plain = strlen(name) < 6 && strspn(name, "0123456789") == strlen(name) && (*name != '0' || !name[1]);
	uint32_t number = plain ? (uint32_t)strtoul(name, NULL, 10) : 0;

	if (plain && n->range && number == n->last + 1) {
		n->last = number;
		return;
	}
	names_end(n);
	if (plain)
		n->first = n->last = number;
	else
		names_put(n, "%s%s", n->len ? "," : "", name);
	n->range = plain;
}

static void gpu_names(struct zn_str object, const struct zn_column *c, bool idle, char to[CELL])
{
	struct zn_str gpus = zn_path_find(object, c->path), key, gpu;
	struct names names = {.to = to};
	char id[CELL];
	size_t at = 0;

	while (names.len < CELL && zn_json_next(gpus, &at, &key, &gpu))
		if (!idle || zn_watch_is_idle(object, gpu))
			names_add(&names, zn_value_text(gpu, "gpu_id", id));
	names_end(&names);
}

void zn_cell_gpus(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	gpu_names(object, c, false, to);
}

void zn_cell_idle(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	gpu_names(object, c, true, to);
}

/* The share of their time in which its GPUs were used. */
void zn_cell_busy(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	struct zn_str gpus = zn_path_find(object, c->path);
	double busy = zn_value_sum(gpus, "busy_s"), all = busy + zn_value_sum(gpus, "idle_s");

	if (all > 0 && busy >= 0 && busy <= all)
		snprintf(to, CELL, "%.0f%%", 100 * busy / all);
}

void zn_cell_peak(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	known_sum(zn_path_find(object, c->path), "peak_bytes", to);
}

/* A time as Slurm shows it, but without the seconds of a job that has run for days. */
void zn_cell_elapsed(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	unsigned long s = zn_value_seconds(object, c->path), day = 86400;

	if (!zn_path_known(object, c->path))
		return;
	if (s < day)
		snprintf(to, CELL, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(to, CELL, "%lu-%02lu:%02lu", s / day, s / 3600 % 24, s / 60 % 60);
}

/* The largest p99 among the operations. Making a communicator is none: it takes seconds, once. */
void zn_cell_nccl(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	struct zn_str ops = zn_path_find(object, c->path), key, op;
	double most = 0;
	size_t at = 0;

	while (zn_json_next(ops, &at, &key, &op)) {
		double v = zn_value_number(op, "calls") > 0 ? zn_value_number(op, "p99_ms") : 0;

		if (strcmp(zn_value_text(op, "op", to), "comm_init") && v > most)
			most = v;
	}
	zn_units_duration(to, c->us * most);
}

/* Rank and size of the first communicator. */
void zn_cell_rank(struct zn_str object, const struct zn_column *c, char to[CELL])
{
	struct zn_str comms = zn_path_find(object, c->path), key, comm;
	char rank[CELL / 2], size[CELL / 2];
	size_t at = 0;

	if (zn_json_next(comms, &at, &key, &comm))
		snprintf(to, CELL, "%s/%s", zn_path_text(comm, "rank", rank, sizeof(rank)),
			zn_path_text(comm, "nranks", size, sizeof(size)));
}
