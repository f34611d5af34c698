/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mount_fuzz.c: any bytes as a list of mounts, taken in chunks whose sizes are any bytes too: every name that comes out
 * is UTF-8 of its length, none is empty, and it is the same however the list was cut.
 */
#include <stdlib.h>

#include "src/model/mounts.c"

#define DEVICES 4
#define CUTS    8 /* bytes at the beginning: sizes of chunks */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

/* Written again it is the same: what is no UTF-8 would become something else. */
static void check_name(const char *name, size_t cap)
{
	char again[4 * ZN_MOUNT_BYTES];
	struct zn_out o = {.at = again, .cap = sizeof(again)};
	size_t len = strnlen(name, cap);

	check(len > 0 && len < cap);
	zn_out_utf8(&o, name, len);
	check(!o.full && o.len == len && !memcmp(again, name, len));
}

/* The host's list in chunks of sizes[], or as large as they can be; then as that of a process. */
static void read_all(struct zn_mounts *m, const uint8_t *sizes, const uint8_t *list, size_t len)
{
	static const uint32_t dev[DEVICES] = {8 << 20 | 1, 0 << 20 | 42, 4095 << 20 | 1048575, 259 << 20};

	memset(m, 0, sizeof(*m));
	zn_mounts_init(m);
	m->proc = "/nonexistent";
	for (size_t i = 0; i < DEVICES; i++)
		check(add_mount(m, dev[i], ZN_OWNER_ROOT) != NULL);
	for (uint32_t tgid = 0; tgid < 2; tgid++) {
		walk_begin(m, -1, tgid);
		for (size_t at = 0, turn = 0, n; at < len; at += n, turn++) {
			size_t room = sizeof(m->text) - 1 - m->have;

			n = sizes ? sizes[turn % CUTS] + 1u : len - at;
			n = n < len - at ? n : len - at;
			n = n < room ? n : room;
			memcpy(m->text + m->have, list + at, n);
			chunk_take(m, n);
		}
		conclude_walk(m);
	}
}

static void fuzz_fields(const uint8_t *data, size_t len)
{
	char *text = malloc(len + 1), point[ZN_MOUNT_BYTES];
	struct zn_mount_line l;

	memcpy(text, data, len);
	text[len] = 0;
	point_show(point, text);
	check(!*text || !*point || strlen(point) < sizeof(point));
	memcpy(text, data, len);
	if (zn_mountinfo_read(text, &l))
		check(l.root[0] == '/' && l.point[0] == '/' && l.type[0]);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct zn_mounts cut, whole;

	fuzz_fields(data, len);
	if (len < CUTS)
		return 0;
	read_all(&cut, data, data + CUTS, len - CUTS);
	read_all(&whole, NULL, data + CUTS, len - CUTS);
	for (size_t i = 0; i < DEVICES; i++) {
		check_name(cut.mount[i].point, sizeof(cut.mount[i].point));
		check_name(cut.mount[i].fstype, sizeof(cut.mount[i].fstype));
		check(cut.mount[i].dev == whole.mount[i].dev && cut.mount[i].state == whole.mount[i].state);
		check(!strcmp(cut.mount[i].point, whole.mount[i].point));
		check(!strcmp(cut.mount[i].fstype, whole.mount[i].fstype));
	}
	return 0;
}
