/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sort_test.c: what is sorted in place (sort.c) is in order and has all that was there, whatever it was in before.
 */
#include <stdlib.h>
#include <string.h>

#include "t.h"
#include "zernel.h"

#define COUNT 300

/* Of a size that is no power of 2, and of which a part is not compared. */
struct entry {
	uint32_t key;
	uint16_t at;
	char text[11];
} __attribute__((packed));

static int by_key(const void *a, const void *b)
{
	uint32_t one, other;

	memcpy(&one, a, sizeof(one));
	memcpy(&other, b, sizeof(other));
	return (one > other) - (one < other);
}

/* From an exactly sized block, each count, in an order that the row says. */
static void check_sorted(size_t count, uint32_t keys, int order)
{
	struct entry *list = malloc(count * sizeof(*list) + 1);
	bool seen[COUNT] = {false};
	uint32_t random = 12345;

	for (size_t i = 0; i < count; i++) {
		random = random * 1103515245 + 12345;
		list[i].key = order == 0 ? (random >> 8) % keys : (uint32_t)(order > 0 ? i : count - i) % keys;
		list[i].at = (uint16_t)i;
		snprintf(list[i].text, sizeof(list[i].text), "%u", list[i].key);
	}
	zn_sort(list, count, sizeof(*list), by_key);
	for (size_t i = 0; i < count; i++) {
		CHECK(i == 0 || list[i].key >= list[i - 1].key);
		CHECK(list[i].at < count && !seen[list[i].at]);
		CHECK_EQ(strtoul(list[i].text, NULL, 10), list[i].key);
		seen[list[i].at] = true;
	}
	free(list);
}

T(each_count_in_each_order)
{
	for (size_t count = 0; count <= COUNT; count++)
		for (int order = -1; order <= 1; order++) {
			check_sorted(count, 1 << 20, order);
			check_sorted(count, 3, order);
			check_sorted(count, 1, order);
		}
}

int main(void)
{
	RUN(each_count_in_each_order);
	return t_end();
}
