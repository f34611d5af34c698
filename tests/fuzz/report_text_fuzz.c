/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_text_fuzz.c: any bytes as a report that lies in a file: its page is lines of printable ASCII of at most 80
 * columns, its line one of at most 250 characters, likewise those of its mail, and all are cut nowhere but where they
 * are full.
 */
#define ZN_IN_output /* what zernel.h keeps for the files of src/output */
#include <stdlib.h>

#include "src/output/report_cells.c"
#include "src/output/report_line.c"
#include "src/output/report_text.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_plain(const char *at, size_t len, size_t columns)
{
	size_t column = 0;

	for (size_t i = 0; i < len; i++) {
		column = at[i] == '\n' ? 0 : column + 1;
		check(at[i] == '\n' || (at[i] >= ' ' && at[i] <= '~'));
		check(column <= columns);
	}
}

static void check_part(void (*write)(struct zn_out *o, struct zn_str json), struct zn_str json, size_t columns)
{
	static char all[1 << 22], part[1 << 22];
	struct zn_out o = {.at = all, .cap = sizeof(all)}, cut = {.at = part};

	write(&o, json);
	check(!o.full);
	check_plain(all, o.len, columns);
	cut.cap = o.len / 2;
	write(&cut, json);
	check(cut.full == (o.len > cut.cap) && cut.len <= cut.cap && !memcmp(part, all, cut.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *block;

	if (len > 1 << 14) /* a page is some times as long as what it is made from */
		return 0;
	block = malloc(len ? len : 1);
	memcpy(block, data, len);
	check_part(zn_report_page, (struct zn_str){block, len}, 80);
	check_part(zn_line_report, (struct zn_str){block, len}, 250);
	check_part(zn_line_mail, (struct zn_str){block, len}, 250);
	free(block);
	return 0;
}
