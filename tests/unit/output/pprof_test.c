/* SPDX-License-Identifier: GPL-2.0 */
/* pprof_test.c: a profile read back, and folded lines. */
#include "stacks.h"

/* A reader of the wire format, as much of it as profiles have. */
struct field {
	uint64_t number, value; /* value: of a varint */
	struct zn_str bytes;
};

static uint64_t read_varint(struct zn_str *from)
{
	uint64_t v = 0;

	for (int shift = 0; from->len && shift < 64; shift += 7) {
		uint8_t b = (uint8_t)*from->at++;

		from->len--;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return v;
	}
	return v;
}

static bool next_field(struct zn_str *from, struct field *to)
{
	uint64_t key;

	*to = (struct field){0};
	if (!from->len)
		return false;
	key = read_varint(from);
	to->number = key >> 3;
	to->value = read_varint(from);
	if ((key & 7) != 2)
		return true;
	CHECK(to->value <= from->len);
	to->bytes = (struct zn_str){from->at, to->value};
	from->at += to->value;
	from->len -= to->value;
	return true;
}

static struct zn_str texts[256];
static uint64_t sums[2 * ZN_LEAF_COUNT];
static uint32_t samples, locations, functions, text_count;

static void read_sample(struct zn_str sample)
{
	struct field f;
	int n = 0;

	samples++;
	while (next_field(&sample, &f))
		if (f.number == 2)
			while (f.bytes.len && n < 2 * ZN_LEAF_COUNT)
				sums[n++] += read_varint(&f.bytes);
	CHECK_EQ(n, 2 * ZN_LEAF_COUNT);
}

static void read_profile(struct zn_str profile)
{
	struct field f;

	samples = locations = functions = text_count = 0;
	memset(sums, 0, sizeof(sums));
	while (next_field(&profile, &f)) {
		if (f.number == 2)
			read_sample(f.bytes);
		locations += f.number == 4;
		functions += f.number == 5;
		if (f.number == 6 && text_count < 256)
			texts[text_count++] = f.bytes;
	}
}

static bool has_text(const char *wanted)
{
	for (uint32_t i = 0; i < text_count; i++)
		if (zn_str_is(texts[i], wanted))
			return true;
	return false;
}

T(a_profile_has_all_stacks)
{
	open_stacks();
	read_profile(rendered(zn_pprof_profile, ALL));
	CHECK_EQ(samples, 5);
	CHECK_EQ(sums[2 * ZN_LEAF_GPU], 6);
	CHECK_EQ(sums[2 * ZN_LEAF_GPU + 1], 1000);
	CHECK_EQ(sums[2 * ZN_LEAF_LAUNCH], 40);
	CHECK_EQ(sums[2 * ZN_LEAF_ALLOC + 1], 4096);
	CHECK_EQ(locations, 8);
	CHECK_EQ(functions, 7);
	CHECK(texts[0].len == 0 && has_text("step") && has_text("launch_calls") && has_text("70") && has_text("train"));
}

T(a_profile_is_narrowed)
{
	struct zn_stacks_query q = ALL;

	open_stacks();
	q.pid = 71;
	read_profile(rendered(zn_pprof_profile, q));
	CHECK(samples == 2 && locations == 3 && !has_text("step") && !has_text("70") && has_text("/p/b.py"));
	q = ALL;
	q.leaf = ZN_LEAF_LAUNCH;
	read_profile(rendered(zn_pprof_profile, q));
	CHECK(samples == 1 && !has_text("/p/b.py"));
}

T(without_stacks_a_profile_is_empty)
{
	open_stacks();
	state.stacks = NULL;
	read_profile(rendered(zn_pprof_profile, ALL));
	CHECK(samples == 0 && text_count == 1 && texts[0].len == 0);
	CHECK_EQ(rendered(zn_pprof_folded, ALL).len, 0);
}

T(a_line_for_each_stack)
{
	open_stacks();
	CHECK_STR(rendered(zn_pprof_folded, ALL).at,
		"main (/p/a.py:9);step (/p/a.py:5);f (" PACKAGE ":1);[gpu] 600\n"
		"main (/p/a.py:9);step (/p/a.py:5);g (" PACKAGE ":2);[gpu] 100\n"
		"main (/p/a.py:9);step (/p/a.py:5);[thread];[launch] 40\n"
		"main (/p/a.py:9);other (/p/b.py:7);[gpu] 300\n"
		"lib:rary (" PACKAGE ":3);[alloc] 4096\n");
}

/* Who names a function so forges no line. */
T(names_end_no_line)
{
	uint32_t function;

	open_stacks();
	function = zn_stacks_function(stacks, root[0], zn_str_of("a\n[gpu] 9;"), zn_str_of("x\ty"), 1);
	zn_stacks_add(stacks, zn_stacks_node(stacks, root[0], ZN_STACKS_NO_NODE, function, 2), ZN_LEAF_LOAD,
		&(struct zn_stack_sum){1, 5});
	CHECK(strstr(rendered(zn_pprof_folded, ALL).at, "a?[gpu] 9: (x?y:2);[load] 5\n"));
}

int main(void)
{
	RUN(a_profile_has_all_stacks);
	RUN(a_profile_is_narrowed);
	RUN(without_stacks_a_profile_is_empty);
	RUN(a_line_for_each_stack);
	RUN(names_end_no_line);
	zn_stacks_close(stacks);
	return t_end();
}
