/* SPDX-License-Identifier: GPL-2.0 */
/*
 * filter_fuzz.c: any bytes as a query. What is taken is within its limits and reads the same when it is asked for
 * plainly; what is refused is refused with one printable line.
 */
#include <stdlib.h>

#include "json.c"
#include "http.c"
#include "src/serve/query.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_why(const char why[ZN_TEXT_MAX])
{
	size_t len = strnlen(why, ZN_TEXT_MAX);

	check(len > 0 && len < ZN_TEXT_MAX);
	for (size_t i = 0; i < len; i++)
		check(why[i] >= ' ' && why[i] <= '~');
}

/* The plainest query for a filter. */
static size_t plain_query(char *to, size_t cap, const struct zn_filter *f)
{
	struct zn_out o = {.at = to, .cap = cap};

	zn_out_text(&o, "topics=");
	for (uint32_t i = 0; i < ZN_TOPIC_COUNT; i++)
		if (f->topics >> i & 1) {
			zn_out_text(&o, to[o.len - 1] == '=' ? "" : ",");
			zn_out_text(&o, topics[i]);
		}
	zn_out_text(&o, *f->job ? "&job=" : "");
	for (size_t i = 0; f->job[i]; i++)
		zn_out_bytes(&o, f->job[i] == '+' ? "%2B" : &f->job[i], f->job[i] == '+' ? 3 : 1);
	if (f->interval_ms) {
		zn_out_text(&o, "&interval_ms=");
		zn_out_u64(&o, f->interval_ms);
	}
	check(!o.full);
	return o.len;
}

static void check_taken(const struct zn_filter *f)
{
	char query[512], why[ZN_TEXT_MAX];
	struct zn_filter again;
	size_t len = strnlen(f->job, sizeof(f->job));

	check(f->topics && f->topics <= ZN_TOPICS_ALL && len < sizeof(f->job));
	check(!f->interval_ms || (f->interval_ms >= ZN_INTERVAL_MIN && f->interval_ms <= ZN_INTERVAL_MAX));
	for (; len < sizeof(f->job); len++)
		check(f->job[len] == 0);
	len = plain_query(query, sizeof(query), f);
	check(zn_filter_read(&again, (struct zn_str){query, len}, true, why) == 0);
	check(!memcmp(&again, f, sizeof(*f)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *block = malloc(len ? len : 1), why[ZN_TEXT_MAX];
	struct zn_filter f, without;
	int err, other;

	memcpy(block, data, len);
	memset(why, 0xaa, sizeof(why));
	err = zn_filter_read(&f, (struct zn_str){block, len}, true, why);
	if (err)
		check_why(why);
	else
		check_taken(&f);
	other = zn_filter_read(&without, (struct zn_str){block, len}, false, why);
	if (other)
		check_why(why);
	check(other ? err || f.interval_ms : !err && !f.interval_ms && !memcmp(&f, &without, sizeof(f)));
	free(block);
	return 0;
}
