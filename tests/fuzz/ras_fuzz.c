/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ras_fuzz.c: any bytes as an answer of NCCL's RAS service: what comes of them is the same however they were cut, is
 * within its tables, and has no character that is not a host's; and any bytes as such an answer in memory are made one
 * that can be read.
 */
#include <stdlib.h>

#include "src/codec/ras.c"

#define CUTS 4 /* bytes at the beginning: sizes of chunks, and in the first one's high half whether the job is alone */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void read_all(
	struct zn_ras_parse *p, const struct zn_ras_wanted *w, const uint8_t *sizes, const uint8_t *at, size_t len)
{
	zn_ras_parse_init(p, w);
	for (size_t turn = 0, n; len; at += n, len -= n, turn++) {
		char *exact;

		n = sizes ? sizes[turn % CUTS] + 1u : len;
		n = n < len ? n : len;
		exact = malloc(n);
		memcpy(exact, at, n);
		zn_ras_parse_take(p, exact, n);
		free(exact);
	}
	zn_ras_parse_end(p);
}

static void check_host(const char host[ZN_RAS_HOST])
{
	check(memchr(host, 0, ZN_RAS_HOST));
	for (const char *c = host; *c; c++)
		check(is_letter(*c) || is_digit(*c) || zn_str_is_one_of(*c, ".:-_?"));
}

static void check_answer(const struct zn_ras_answer *a)
{
	check(a->count <= ZN_RAS_COMMS);
	for (uint32_t i = 0; i < a->count; i++) {
		check(a->comm[i].count <= ZN_RAS_RANKS);
		for (uint32_t r = 0; r < a->comm[i].count; r++) {
			check(zn_ras_state_label(a->comm[i].rank[r].state)[0]);
			check_host(a->comm[i].rank[r].host);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct zn_ras_parse whole, cut;
	struct zn_ras_wanted w = {.pid_count = 1, .host_count = 1, .pid = {100}, .host = {"10.0.0.1"}};
	struct zn_ras_answer any;

	if (len < CUTS)
		return 0;
	w.alone = data[0] >> 4;
	read_all(&whole, &w, NULL, data + CUTS, len - CUTS);
	read_all(&cut, &w, data, data + CUTS, len - CUTS);
	check(!memcmp(&whole.answer, &cut.answer, sizeof(cut.answer)));
	check_answer(&whole.answer);
	for (uint32_t i = 0; i < whole.answer.count; i++)
		for (uint32_t r = 0; r < whole.answer.comm[i].count; r++)
			check(whole.answer.comm[i].rank[r].state != ZN_RAS_BEHIND ||
				whole.answer.comm[i].rank[r].fewer);
	memset(&any, data[1], sizeof(any));
	memcpy(&any, data, len < sizeof(any) ? len : sizeof(any));
	any.understood = any.whole = any.text = false;
	zn_ras_answer_check(&any);
	check_answer(&any);
	return 0;
}
