/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kept_test.c: lines of a library's probes and of histograms that are kept from one page to the next (kept.c) are those
 * that would be written anew, whatever has changed meanwhile.
 */
#include "metrics.h"

#define LAUNCH(library) "zernel_probe_attached{family=\"cuda_trace\",symbol=\"cuLaunchKernel\",library=\"" library "\"}"
#define ALLOC(library)  "zernel_probe_attached{family=\"gpu_mem\",symbol=\"cuMemAlloc_v2\",library=\"" library "\"}"
#define HOME            "/home/u/libcuda.so.1"

/* The page as it is the first time, and as it is when its lines were kept, in both forms. */
static void render_twice(void)
{
	render(false);
	render(true);
	render(false);
}

T(what_does_not_change)
{
	start_live(HOME);
	render_twice();
	CHECK_STR(value_of(LAUNCH(HOME "@801:100")), "1");
	CHECK_STR(value_of(ALLOC(HOME "@801:100")), "0");
	CHECK_STR(value_of(LAUNCH(HOME "@801:101")), "0");
	CHECK_EQ(count_with("zernel_probe_attached{"), 4);
}

T(a_probe_comes_and_goes)
{
	start_live(HOME);
	render_twice();
	libs[0].symbol[1] = ZN_SYM_ATTACHED;
	render_twice();
	CHECK_STR(value_of(ALLOC(HOME "@801:100")), "1");
	CHECK_STR(value_of(LAUNCH(HOME "@801:101")), "0");
	libs[0].symbol[0] = ZN_SYM_MISSING;
	libs[1].symbol[0] = ZN_SYM_ATTACHED;
	render_twice();
	CHECK_STR(value_of(LAUNCH(HOME "@801:100")), "0");
	CHECK_STR(value_of(LAUNCH(HOME "@801:101")), "1");
	CHECK_EQ(count_with("zernel_probe_attached{"), 4);
}

/* A place in the table that another file has taken: of another device, number, path or kind. */
T(another_library_at_its_place)
{
	start_live(HOME);
	render_twice();
	libs[0].ino = 200;
	render_twice();
	CHECK_STR(value_of(LAUNCH(HOME "@801:200")), "1");
	CHECK_STR(value_of(LAUNCH(HOME "@801:100")), "absent");
	libs[0].dev = 0x802;
	render_twice();
	CHECK_STR(value_of(LAUNCH(HOME "@802:200")), "1");
	strcpy(libs[0].path, "/a\"\n\\\xff");
	render_twice();
	CHECK_STR(value_of(LAUNCH("/a\\\"\\n\\\\\xef\xbf\xbd@802:200")), "1");
	CHECK_STR(value_of(LAUNCH(HOME "@802:200")), "absent");
	libs[0].kind = ZN_LIB_NCCL;
	render_twice();
	CHECK_EQ(count_with(":200\""), 1);
	CHECK_EQ(count_with("symbol=\"ncclAllReduce\""), 1);
}

T(a_library_before_it_goes)
{
	start_live(HOME);
	libs[1].symbol[0] = ZN_SYM_ATTACHED;
	render_twice();
	libs[0].used = false;
	render_twice();
	CHECK_EQ(count_with("zernel_probe_attached{"), 2);
	CHECK_STR(value_of(LAUNCH(HOME "@801:101")), "1");
	CHECK_STR(value_of(LAUNCH(HOME "@801:100")), "absent");
	libs[0].used = true;
	render_twice();
	CHECK_EQ(count_with("zernel_probe_attached{"), 4);
	CHECK_STR(value_of(LAUNCH(HOME "@801:100")), "1");
}

/* Lines that did not all fit are not those of the library. */
T(a_page_that_was_cut)
{
	static char cut[64];
	struct zn_out o = {.at = cut, .cap = sizeof(cut), .len = 60};
	struct zn_lib lib = {.path = "/cut"};

	zn_kept_put(&o, 0, &lib);
	zn_out_text(&o, "too long");
	zn_kept_note(&o, 60, 0, &lib);
	CHECK(!zn_kept_put(&o, 0, &lib));
}

static char lines[ZN_KEPT_BYTES + 1];

/* Keeps so many bytes as the lines of the i-th library, which is a new one; whether they were kept. */
static bool keep(uint32_t i, size_t len)
{
	static uint64_t ino = 1000;
	struct zn_out o = {.at = lines, .cap = sizeof(lines), .len = len}, to = {.at = text, .cap = sizeof(text)};
	struct zn_lib lib = {.ino = ino++};

	zn_kept_put(&to, i, &lib);
	to.len = 0;
	zn_kept_note(&o, 0, i, &lib);
	return zn_kept_put(&to, i, &lib) && to.len == len && !memcmp(text, lines, len);
}

T(bounded)
{
	memset(lines, 'x', sizeof(lines));
	CHECK(keep(0, ZN_KEPT_BYTES - 1));
	CHECK(!keep(1, 2));
	CHECK(keep(1, 1));
	CHECK(!keep(0, ZN_KEPT_BYTES + 1));
	for (uint32_t i = 0; i < ZN_KEPT_LIBS; i++)
		CHECK(keep(i, 3));
	CHECK(!keep(ZN_KEPT_LIBS, 3));
	CHECK(!keep(ZN_KEPT_LIBS + 1, 3));
}

/* ---- histograms ---- */

#define BUCKETS(labels, le) "zernel_cuda_launch_latency_hist_seconds_bucket{" labels ",le=\"" le "\"}"
#define REST(labels, what)  "zernel_cuda_launch_latency_hist_seconds_" what "{" labels "}"

static void launch(uint32_t pid, uint64_t ns, int times)
{
	struct zn_proc *p = zn_memory_claim(&memory, pid, "python3");

	for (int i = 0; i < times; i++)
		zn_memory_record(&memory, p, ZN_H_LAUNCH, ns, 0);
}

T(a_histogram_grows)
{
	start();
	launch(1, 1000000, 3);
	zn_agg_tick(&agg, zn_now_ns());
	render_twice();
	CHECK_STR(value_of(BUCKETS("pid=\"1\"", "0.000262144")), "0");
	CHECK_STR(value_of(BUCKETS("pid=\"1\"", "+Inf")), "3");
	zn_memory_record(&memory, zn_arena_proc(&memory.arena, agg.row[0]), ZN_H_LAUNCH, 2000, 0);
	render_twice();
	CHECK_STR(value_of(BUCKETS("pid=\"1\"", "0.000262144")), "1");
	CHECK_STR(value_of(BUCKETS("pid=\"1\"", "+Inf")), "4");
	CHECK_STR(value_of(REST("pid=\"1\"", "sum")), "0.003002");
	CHECK_STR(value_of(REST("pid=\"1\"", "count")), "4");
}

/* The same bucket, and a sum that differs by 1 ns. */
T(the_sum_of_a_histogram_grows)
{
	struct zn_proc *p;

	start();
	launch(1, 1000000, 1);
	zn_agg_tick(&agg, zn_now_ns());
	render_twice();
	CHECK_STR(value_of(REST("pid=\"1\"", "sum")), "0.001");
	p = zn_arena_proc(&memory.arena, agg.row[0]);
	memory.arena.hists[p->hist[ZN_H_LAUNCH]].sum_ns++;
	render_twice();
	CHECK_STR(value_of(REST("pid=\"1\"", "sum")), "0.001000001");
}

T(a_histogram_gets_another_label)
{
	struct zn_proc *p;

	start_jobs();
	launch(1, 1000000, 3);
	zn_agg_tick(&agg, zn_now_ns());
	render_twice();
	CHECK_STR(value_of(BUCKETS("pid=\"1\"", "+Inf")), "3");
	p = zn_arena_proc(&memory.arena, agg.row[0]);
	tag(p, start_job("77", "0"));
	render_twice();
	CHECK_STR(value_of(BUCKETS("pid=\"1\"", "+Inf")), "absent");
	CHECK_STR(value_of(BUCKETS("pid=\"1\",job_id=\"77\"", "+Inf")), "3");
}

T(a_histogram_is_of_another_time)
{
	struct zn_proc *p;

	start();
	launch(1, 1000000, 3);
	zn_agg_tick(&agg, zn_now_ns());
	p = zn_arena_proc(&memory.arena, agg.row[0]);
	p->first_ns = view.start_ns;
	render_twice();
	render(true);
	CHECK_STR(value_of(REST("pid=\"1\"", "created")), "1711800000.123");
	p->first_ns = view.start_ns + ZN_NS_PER_S;
	render(true);
	render(true);
	CHECK_STR(value_of(REST("pid=\"1\"", "created")), "1711800001.123");
}

/* One that takes the place of another, of the same metric or not, and more of them than are kept. */
T(histograms_change_places)
{
	char want[128];

	start();
	for (uint32_t pid = 1; pid <= ZN_KEPT_HISTS + 9; pid++)
		launch(pid, 1000000, (int)pid % 5 + 1);
	zn_agg_tick(&agg, zn_now_ns());
	render_twice();
	zn_arena_proc(&memory.arena, agg.row[0])->exit_ns = zn_now_ns();
	zn_agg_tick(&agg, zn_now_ns() + ZN_NS_PER_S);
	for (int again = 0; again < 2; again++) {
		render(false);
		for (uint32_t pid = 2; pid <= ZN_KEPT_HISTS + 9; pid++) {
			char count[12];

			snprintf(want, sizeof(want), BUCKETS("pid=\"%u\"", "+Inf"), pid);
			snprintf(count, sizeof(count), "%u", pid % 5 + 1);
			CHECK_STR(value_of(want), count);
		}
		CHECK_STR(value_of(BUCKETS("pid=\"1\"", "+Inf")), "absent");
	}
}

T(a_histogram_that_was_cut_or_is_too_long)
{
	struct zn_spread spread = {.count = 1};
	struct zn_kept_hist h = {.name = "x", .labels = {"{a=\"1\"", 6}, .labels_at = 2, .spread = &spread};
	struct zn_out o = {.at = lines, .cap = sizeof(lines), .len = ZN_KEPT_HIST_BYTES};

	memcpy(lines, "xx{a=\"1\"", 8);
	zn_kept_hist_note(&o, 0, 0, &h);
	CHECK(zn_kept_hist_put(&o, 0, &h));
	CHECK_EQ(o.len, 2 * ZN_KEPT_HIST_BYTES);
	o.len = ZN_KEPT_HIST_BYTES + 1;
	zn_kept_hist_note(&o, 0, 0, &h);
	CHECK(!zn_kept_hist_put(&o, 0, &h));
	o = (struct zn_out){.at = lines, .cap = sizeof(lines), .len = 100};
	zn_kept_hist_note(&o, 0, 0, &h);
	CHECK(zn_kept_hist_put(&o, 0, &h));
	h.labels.at = "{a=\"2\"";
	CHECK(!zn_kept_hist_put(&o, 0, &h));
	h.labels.at = "{a=\"1\"";
	h.name = "y";
	CHECK(!zn_kept_hist_put(&o, 0, &h));
	h.name = "x";
	o.full = true;
	zn_kept_hist_note(&o, 0, 0, &h);
	o.full = false;
	CHECK(!zn_kept_hist_put(&o, 0, &h));
	zn_kept_hist_note(&o, 0, ZN_KEPT_HISTS, &h);
	CHECK(!zn_kept_hist_put(&o, ZN_KEPT_HISTS, &h));
}

int main(void)
{
	RUN(a_histogram_grows);
	RUN(the_sum_of_a_histogram_grows);
	RUN(a_histogram_gets_another_label);
	RUN(a_histogram_is_of_another_time);
	RUN(histograms_change_places);
	RUN(a_histogram_that_was_cut_or_is_too_long);
	RUN(what_does_not_change);
	RUN(a_probe_comes_and_goes);
	RUN(another_library_at_its_place);
	RUN(a_library_before_it_goes);
	RUN(a_page_that_was_cut);
	RUN(bounded);
	return t_end();
}
