/* SPDX-License-Identifier: GPL-2.0 */
/* mountinfo_test.c: lines of /proc/PID/mountinfo, also cut at every byte. */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define DEV(major, minor) ((uint32_t)(major) << 20 | (minor))

static const struct row {
	const char *name, *line;
	bool good;
	uint32_t dev;
	const char *root, *point, *type, *options;
} rows[] = {
	{"as a kernel writes it", "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
		true, DEV(98, 0), "/mnt1", "/mnt2", "ext3", "rw,errors=continue"},
	{"no optional field", "22 1 0:21 / /proc rw - proc proc rw", true, DEV(0, 21), "/", "/proc", "proc", "rw"},
	{"several", "22 1 0:21 / /a rw shared:1 master:2 unbindable - tmpfs none rw", true, DEV(0, 21), "/", "/a",
		"tmpfs", "rw"},
	{"blanks are escaped, and stay so", "22 1 0:21 /a\\040b /c\\134d rw - fuse.x\\040y s\\040- rw,user_id=0", true,
		DEV(0, 21), "/a\\040b", "/c\\134d", "fuse.x\\040y", "rw,user_id=0"},
	{"a source without a name", "22 1 0:21 / /a rw - fuse.x  rw,user_id=7", true, DEV(0, 21), "/", "/a", "fuse.x",
		"rw,user_id=7"},
	{"an optional field that looks like the end", "22 1 0:21 / /a rw x-y - tmpfs none rw", true, DEV(0, 21), "/",
		"/a", "tmpfs", "rw"},
	{"nothing behind the type", "22 1 0:21 / /a rw - tmpfs", true, DEV(0, 21), "/", "/a", "tmpfs", ""},
	{"nothing behind the source", "22 1 0:21 / /a rw - tmpfs none", true, DEV(0, 21), "/", "/a", "tmpfs", ""},
	{"the largest device", "22 1 4095:1048575 / /a rw - tmpfs none rw", true, DEV(4095, 1048575), "/", "/a",
		"tmpfs", "rw"},
	{"a major number that is too large", "22 1 4096:0 / /a rw - tmpfs none rw", .good = false},
	{"a minor number that is too large", "22 1 0:1048576 / /a rw - tmpfs none rw", .good = false},
	{"numbers without end", "22 1 99999999999999999999:1 / /a rw - tmpfs none rw", .good = false},
	{"no colon", "22 1 21 / /a rw - tmpfs none rw", .good = false},
	{"no minor number", "22 1 21: / /a rw - tmpfs none rw", .good = false},
	{"something behind the number", "22 1 0:21x / /a rw - tmpfs none rw", .good = false},
	{"a root that is no path", "22 1 0:21 net:[4026] /a rw - nsfs nsfs rw", .good = false},
	{"a point that is no path", "22 1 0:21 / a rw - tmpfs none rw", .good = false},
	{"no end of the options", "22 1 0:21 / /a rw shared:1", .good = false},
	{"no type", "22 1 0:21 / /a rw -", .good = false},
	{"an empty type", "22 1 0:21 / /a rw -  none rw", .good = false},
	{"empty", "", .good = false},
	{"blanks alone", "      ", .good = false},
};

static void check_row(const struct row *r)
{
	char *text = strdup(r->line);
	struct zn_mount_line l;
	bool good = zn_mountinfo_read(text, &l);

	CHECK_EQ(good, r->good);
	if (good && r->good) {
		CHECK_EQ(l.dev, r->dev);
		CHECK_STR(l.root, r->root);
		CHECK_STR(l.point, r->point);
		CHECK_STR(l.type, r->type);
		CHECK_STR(l.options, r->options);
	}
	free(text);
}

/* Whatever is left of a line: nothing is read behind its end, and what is said lies within it. */
static void check_cut(const struct row *r)
{
	for (size_t len = 0; len < strlen(r->line); len++) {
		char *text = strndup(r->line, len);
		struct zn_mount_line l;

		if (zn_mountinfo_read(text, &l)) {
			CHECK(l.root > text && l.root < text + len);
			CHECK(l.point > l.root && l.point < l.type);
			CHECK(l.type + strlen(l.type) <= text + len);
		}
		free(text);
	}
}

static void all_rows(void)
{
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].name);
		check_row(&rows[i]);
		check_cut(&rows[i]);
	}
}

int main(void)
{
	all_rows();
	return t_end();
}
