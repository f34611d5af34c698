/* SPDX-License-Identifier: GPL-2.0 */
/*
 * xid_fuzz.c: any bytes as the kernel's log, taken in chunks whose sizes are any bytes too: no byte is read beyond
 * them, and what is counted is well-formed, and the same however the log was cut.
 */
#include <stdlib.h>

#include "src/model/xid.c"

#define CUTS 8 /* bytes at the beginning: sizes of chunks */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void read_all(struct zn_xids *x, const uint8_t *sizes, const uint8_t *log, size_t len)
{
	*x = (struct zn_xids){.fd = -1};
	for (size_t at = 0, turn = 0, n; at < len; at += n, turn++) {
		size_t room = sizeof(x->text) - x->len;

		n = sizes ? sizes[turn % CUTS] + 1u : len - at;
		n = n < len - at ? n : len - at;
		n = n < room ? n : room;
		memcpy(x->text + x->len, log + at, n);
		take_lines(x, n);
		check(x->len < sizeof(x->text));
	}
}

/* Written as drivers do, it is read again. */
static void check_entry(const struct zn_xid *e)
{
	char text[128], pci[ZN_PCI_BYTES];
	uint32_t xid;
	int len = snprintf(text, sizeof(text), "NVRM: Xid (PCI:%s): %u, x", e->pci, e->xid);

	check(e->times > 0);
	if (e->amdgpu) {
		check(!e->xid && zn_amdgpu_label(e->amdgpu)[0]);
		return;
	}
	check(zn_xid_parse((struct zn_str){text, (size_t)len}, pci, &xid));
	check(xid == e->xid && !strcmp(pci, e->pci));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct zn_xids whole, cut;
	char pci[ZN_PCI_BYTES], *exact = malloc(len ? len : 1);
	uint32_t xid;

	memcpy(exact, data, len);
	zn_xid_parse((struct zn_str){exact, len}, pci, &xid);
	zn_amdgpu_parse((struct zn_str){exact, len}, pci);
	free(exact);
	if (len < CUTS)
		return 0;
	read_all(&whole, NULL, data + CUTS, len - CUTS);
	read_all(&cut, data, data + CUTS, len - CUTS);
	check(whole.kernel == cut.kernel && whole.other == cut.other && whole.count == cut.count);
	check(whole.lost == cut.lost && whole.cut == cut.cut && whole.len == cut.len);
	for (uint32_t i = 0; i < whole.count; i++) {
		check(whole.xid[i].times == cut.xid[i].times && !strcmp(whole.xid[i].pci, cut.xid[i].pci));
		check_entry(&whole.xid[i]);
	}
	return 0;
}
