/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kept_test.c: lines of a library's probes that are kept from one page to the next (kept.c) are those that would be
 * written anew, whatever of the library has changed meanwhile.
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

int main(void)
{
	RUN(what_does_not_change);
	RUN(a_probe_comes_and_goes);
	RUN(another_library_at_its_place);
	RUN(a_library_before_it_goes);
	RUN(a_page_that_was_cut);
	RUN(bounded);
	return t_end();
}
