/* SPDX-License-Identifier: GPL-2.0 */
/* scan.c: turns, slices and shares, with a made-up /proc where there are files. */
#include "t.h"
#include "zernel.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS ZN_NS_PER_MS
#define S  ZN_NS_PER_S

/* ---- how much of a core ---- */

T(a_burst_and_then_its_share)
{
	struct zn_pace p = {.percent = 5, .burst_ns = 100 * MS};
	uint64_t now_ns = 7 * S, spent_ns = 0;

	CHECK(zn_pace_may(&p, now_ns));
	zn_pace_spend(&p, 99 * MS);
	CHECK(zn_pace_may(&p, now_ns));
	zn_pace_spend(&p, 1 * MS);
	CHECK(!zn_pace_may(&p, now_ns));
	for (int i = 0; i < 100000; i++) { /* 100 s */
		now_ns += MS;
		if (!zn_pace_may(&p, now_ns))
			continue;
		zn_pace_spend(&p, 3 * MS);
		spent_ns += 3 * MS;
	}
	CHECK(spent_ns > 4900 * MS && spent_ns < 5100 * MS);
	CHECK(zn_pace_may(&p, now_ns + 10 * S));
	zn_pace_spend(&p, 99 * MS); /* there was no more to be had than a burst */
	CHECK(zn_pace_may(&p, now_ns + 10 * S));
	zn_pace_spend(&p, 2 * MS);
	CHECK(!zn_pace_may(&p, now_ns + 10 * S));
}

T(a_debt_is_paid_soon)
{
	struct zn_pace p = {.percent = 2, .burst_ns = 5 * MS};

	CHECK(zn_pace_may(&p, S));
	CHECK_EQ(zn_pace_wait_ns(&p), 0);
	zn_pace_spend(&p, 60 * S);
	CHECK(!zn_pace_may(&p, S));
	CHECK(zn_pace_wait_ns(&p) > 240 * MS && zn_pace_wait_ns(&p) < 260 * MS);
	CHECK(zn_pace_may(&p, S + zn_pace_wait_ns(&p) + 1000));
	CHECK(zn_pace_may(&p, UINT64_MAX / 2)); /* a very long time is no overflow */
	CHECK(p.credit_ns <= (int64_t)(5 * MS));
}

T(rings_fit_the_machine)
{
	static const struct {
		int cpus;
		size_t page, bytes;
	} rows[] = {{1, 4096, 256 << 10}, {2, 4096, 256 << 10}, {64, 4096, 256 << 10}, {65, 4096, 128 << 10},
		{128, 4096, 128 << 10}, {512, 4096, 32 << 10}, {1024, 4096, 32 << 10}, {0, 4096, 256 << 10},
		{512, 65536, 65536}, {8, 65536, 256 << 10}};

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		CHECK_EQ(zn_ring_pages(rows[i].cpus, rows[i].page) * rows[i].page, rows[i].bytes);
}

/* ---- turns ---- */

static struct zn_map_events all;

static bool put(uint32_t owner, uint32_t pid)
{
	return zn_map_events_add(&all, &(struct zn_map_event){.owner = owner, .pid = pid, .from = 1, .to = 2});
}

static uint32_t take(void)
{
	const struct zn_map_event *m = zn_map_events_next(&all);
	uint32_t pid = m ? m->pid : 0;

	if (m)
		zn_map_events_done(&all);
	return pid;
}

T(owners_take_turns)
{
	all = (struct zn_map_events){0};
	for (uint32_t i = 0; i < 1000; i++)
		CHECK(put(1000, 10000 + i));
	CHECK(put(1001, 1));
	CHECK(put(1001, 2));
	CHECK(put(0, 3));
	for (uint32_t turn = 0, left = 3; left && turn < 8; turn++)
		left -= take() < 10000;
	CHECK(all.quota.used >= 1000 + 3 - 6);
	for (uint32_t last = 0, pid; (pid = take()); last = pid)
		CHECK(pid > last); /* one owner's come in their order */
	CHECK_EQ(all.quota.used, 0);
	CHECK(!zn_map_events_next(&all));
	zn_map_events_done(&all);
	CHECK_EQ(all.quota.used, 0);
}

/* What is looked at in several turns stays the first of its owner, and is known again by what was noted in it. */
T(one_that_is_not_done_stays)
{
	struct zn_map_event *m;

	all = (struct zn_map_events){0};
	put(1, 11);
	put(1, 12);
	put(2, 21);
	m = zn_map_events_next(&all);
	m->reader = 5;
	CHECK_EQ(m->pid, 11);
	CHECK_EQ(take(), 21);
	m = zn_map_events_next(&all);
	CHECK_EQ(m->pid, 11);
	CHECK_EQ(m->reader, 5);
	zn_map_events_done(&all);
	CHECK_EQ(take(), 12);
	put(1, 13);
	m = zn_map_events_next(&all);
	CHECK_EQ(m->pid, 13);
	CHECK_EQ(m->reader, 0);
}

/* Whoever looks at a process before its event is, learns from the queue when it mapped what it did. */
T(when_a_process_mapped_is_known)
{
	static const uint64_t ns[] = {0, 500, 700};

	all = (struct zn_map_events){0};
	CHECK_EQ(zn_map_events_since(&all, 11), 0);
	for (uint32_t i = 0; i < ZN_LEN(ns); i++)
		for (uint32_t pid = 11; pid < 13; pid++)
			zn_map_events_add(&all,
				&(struct zn_map_event){
					.owner = 3, .pid = pid, .from = i, .to = 9, .mapped_ns = ns[i] * pid});
	put(3 + ZN_MAP_EVENT_QUEUES, 14);
	CHECK_EQ(zn_map_events_since(&all, 11), 5500);
	CHECK_EQ(zn_map_events_since(&all, 12), 6000);
	CHECK_EQ(zn_map_events_since(&all, 14), 0);
	for (uint32_t i = 0; i < 4; i++)
		take();
	CHECK_EQ(zn_map_events_since(&all, 11), 7700);
	while (take())
		;
	CHECK_EQ(zn_map_events_since(&all, 11), 0);
}

T(a_flood_leaves_room)
{
	uint32_t n = 0;

	all = (struct zn_map_events){0};
	while (n < 2 * ZN_MAP_EVENTS_MAX && put(1000, 1 + n))
		n++;
	CHECK(n < ZN_MAP_EVENTS_MAX / 2);
	for (uint32_t i = 0; i < 100; i++)
		CHECK(put(1001, 1 + i));
	n = all.quota.used;
	for (uint32_t i = 0; i < 100; i++)
		CHECK(put(1001, 100)); /* the same mapping again */
	CHECK_EQ(all.quota.used, n);
	while (take())
		n--;
	CHECK_EQ(n, 0);
	for (uint32_t i = 0; i < ZN_MAP_EVENTS_MAX; i++)
		CHECK(put(0, 1 + i));
	CHECK(!put(0, ZN_MAP_EVENTS_MAX + 1));
	while (take())
		n++;
	CHECK_EQ(n, ZN_MAP_EVENTS_MAX);
}

/* ---- files ---- */

static char root[] = "/tmp/zernel-scan-XXXXXX";
static char lines[100000];
static uint32_t order[4096], count;

static void file_put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0);
	if (f)
		fclose(f);
}

static void process(uint32_t pid, const char *maps)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%u", root, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%u/maps", pid);
	file_put(path, maps);
}

static void begin(void)
{
	strcpy(root, "/tmp/zernel-scan-XXXXXX");
	CHECK(mkdtemp(root));
	count = 0;
	lines[0] = 0;
}

static void end(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	CHECK_EQ(system(command), 0);
}

static void line_seen(void *to, uint32_t pid, const char *line, size_t len)
{
	CHECK(to == lines && strlen(line) == len);
	if (count < ZN_LEN(order))
		order[count++] = pid;
	if (strlen(lines) + len + 2 < sizeof(lines))
		strcat(strcat(lines, line), "\n");
}

T(lines_of_any_length)
{
	static struct zn_maps m;
	static char text[60000], want[60000];
	uint32_t steps = 0;
	char *at = text;

	begin();
	for (int len = 0; at - text < 40000; len = (len * 7 + 13) % 1000) {
		memset(at, 'a' + len % 26, (size_t)len);
		at += len;
		*at++ = '\n';
	}
	*at = 0;
	strcpy(want, text);
	memset(at, 'x', ZN_MAPS_TEXT + 100); /* too long for anybody */
	strcpy(at + ZN_MAPS_TEXT + 100, "\nlast\ncut");
	strcat(want, "last\n");
	process(7, text);
	CHECK(zn_maps_open(&m, root, 7));
	while (zn_maps_step(&m, line_seen, lines))
		steps++;
	CHECK(m.any && !m.open);
	CHECK(steps >= 5);
	CHECK_STR(lines, want);
	CHECK(!zn_maps_step(&m, line_seen, lines));
	CHECK(!zn_maps_open(&m, root, 8));
	CHECK(!zn_maps_step(&m, line_seen, lines));
	CHECK(!m.any);
	zn_maps_close(&m);
	zn_maps_close(&m);
	end();
}

static uint32_t sweep_all(struct zn_sweep *s)
{
	uint32_t steps = 1;

	count = 0;
	zn_sweep_begin(s, root);
	while (zn_sweep_step(s, line_seen, lines))
		steps++;
	CHECK(!s->running);
	return steps;
}

static bool seen(uint32_t pid, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to && i < count; i++)
		if (order[i] == pid)
			return true;
	return false;
}

T(a_sweep_sees_each_process_once)
{
	static struct zn_sweep s;
	uint32_t steps;

	begin();
	for (uint32_t pid = 1; pid <= 200; pid++)
		process(pid, pid == 100 ? "" : "a line\n");
	file_put("uptime", "1 2\n");
	steps = sweep_all(&s); /* no loadavg: nobody knows who is young */
	CHECK_EQ(count, 199);
	CHECK(steps > 200);
	for (uint32_t pid = 1; pid <= 200; pid++)
		CHECK_EQ(seen(pid, 0, count), pid != 100);
	CHECK(!zn_sweep_step(&s, line_seen, lines));
	zn_sweep_close(&s);
	end();
}

T(the_young_ones_come_first)
{
	static struct zn_sweep s;

	begin();
	s = (struct zn_sweep){0};
	for (uint32_t pid = 1; pid <= 100; pid++)
		process(pid, "a line\n");
	file_put("loadavg", "0.1 0.2 0.3 1/101 100\n");
	sweep_all(&s);
	CHECK_EQ(count, 100);
	process(105, "a line\n");
	process(109, "a line\n");
	file_put("loadavg", "0.1 0.2 0.3 1/103 107\n");
	sweep_all(&s);
	CHECK_EQ(count, 102);
	CHECK(seen(105, 0, 2) && seen(109, 0, 2));
	process(3, "a line\n"); /* the ids have begun anew */
	process(110, "a line\n");
	file_put("loadavg", "0.1 0.2 0.3 1/103 3\n");
	sweep_all(&s);
	CHECK_EQ(count, 103);
	for (uint32_t pid = 1; pid <= 3; pid++)
		CHECK(seen(pid, 0, 5));
	CHECK(seen(109, 0, 5) && seen(110, 0, 5));
	end();
}

T(a_sweep_that_is_cut_begins_anew)
{
	static struct zn_sweep s;

	begin();
	s = (struct zn_sweep){0};
	for (uint32_t pid = 1; pid <= 50; pid++)
		process(pid, "a line\n");
	zn_sweep_begin(&s, root);
	for (int i = 0; i < 20; i++)
		CHECK(zn_sweep_step(&s, line_seen, lines));
	sweep_all(&s);
	CHECK_EQ(count, 50);
	zn_sweep_begin(&s, "/nowhere");
	CHECK(!zn_sweep_step(&s, line_seen, lines));
	zn_sweep_close(&s);
	zn_sweep_close(&s);
	end();
}

/* A user gives his memory names of his own, with slashes. */
T(files_of_maps)
{
	static const struct {
		const char *line, *path;
	} rows[] = {
		{"7f00-7f01 r-xp 00000000 08:01 77                         /usr/lib/libcuda.so.1",
			"/usr/lib/libcuda.so.1"},
		{"7f00-7f01 r-xp 00000000 08:01 77 /a b/[anon:/libcuda.so", "/a b/[anon:/libcuda.so"},
		{"7f00-7f01 r-xp 00000000 00:00 0                          [anon:/libcuda.so]", NULL},
		{"7f00-7f01 r-xp 00000000 00:00 0                          [anon: /libcuda.so]", NULL},
		{"7f00-7f01 r-xp 00000000 00:00 0                          [vdso]", NULL},
		{"7f00-7f01 r-xp 00000000 00:00 0 ", NULL},
		{"7f00-7f01", NULL},
		{"", NULL},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		const char *path = zn_maps_path(rows[i].line);

		CHECK_EQ(path != NULL, rows[i].path != NULL);
		if (path && rows[i].path)
			CHECK_STR(path, rows[i].path);
	}
}

int main(void)
{
	zn_log_level = ZN_ERROR;
	RUN(a_burst_and_then_its_share);
	RUN(a_debt_is_paid_soon);
	RUN(rings_fit_the_machine);
	RUN(owners_take_turns);
	RUN(one_that_is_not_done_stays);
	RUN(when_a_process_mapped_is_known);
	RUN(a_flood_leaves_room);
	RUN(lines_of_any_length);
	RUN(a_sweep_sees_each_process_once);
	RUN(the_young_ones_come_first);
	RUN(files_of_maps);
	RUN(a_sweep_that_is_cut_begins_anew);
	return t_end();
}
