/* SPDX-License-Identifier: GPL-2.0 */
/*
 * xid.c: errors of GPUs, which their drivers report in the kernel's log alone, NVIDIA's by number (XIDs), as in
 *   NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.
 *   amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!
 * Counted are records of the kernel itself: what is written to /dev/kmsg never has its facility, 0, whoever wrote it
 * (devkmsg_write() in kernel/printk/printk.c). The log is read at each tick, as that is when alerts are evaluated: so a
 * kernel that says much wakes nobody. Only what is said after the start counts. All text is hostile; one record is at
 * most CONSOLE_EXT_LOG_MAX (8192) bytes, and what comes in other pieces, from a pipe, is put together.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "zernel.h"

#define READS_MAX 4096 /* in one tick: some milliseconds */

/* Takes text off the beginning if it is there. */
static bool skip_text(struct zn_str *s, const char *text)
{
	size_t len = strlen(text);

	if (s->len < len || memcmp(s->at, text, len))
		return false;
	s->at += len, s->len -= len;
	return true;
}

/* A number of least to most digits, hexadecimal or decimal ones. */
static bool read_number(struct zn_str *s, bool hex, uint32_t least, uint32_t most, uint32_t *to)
{
	uint32_t n = 0, v = 0;

	for (; n < most && n < s->len; n++) {
		char c = s->at[n];
		uint32_t digit = c >= '0' && c <= '9' ? (uint32_t)(c - '0')
			: hex && c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
			: hex && c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
						      : 16;

		if (digit == 16)
			break;
		v = v * (hex ? 16 : 10) + digit;
	}
	*to = v;
	s->at += n, s->len -= n;
	return n >= least;
}

/* The text ends, or goes on, behind a number: not in the middle of it. */
static bool ends_here(const struct zn_str *s)
{
	return !s->len || *s->at == ',';
}

/* DDDD:BB:DD, the domain of up to 8 digits. */
static bool read_address(struct zn_str *s, uint32_t *domain, uint32_t *bus, uint32_t *device)
{
	return read_number(s, true, 4, 8, domain) && skip_text(s, ":") && read_number(s, true, 2, 2, bus) &&
		skip_text(s, ":") && read_number(s, true, 2, 2, device);
}

bool zn_xid_parse(struct zn_str s, char pci[ZN_PCI_BYTES], uint32_t *xid)
{
	uint32_t domain, bus, device, function = 0, instance;

	if (!skip_text(&s, "NVRM: Xid ("))
		return false;
	skip_text(&s, "PCI:"); /* older drivers leave it out */
	if (!read_address(&s, &domain, &bus, &device))
		return false;
	if (skip_text(&s, ".") && !read_number(&s, false, 1, 1, &function))
		return false;
	if (skip_text(&s, " GPU-I:") && !read_number(&s, false, 1, 4, &instance)) /* of MIG */
		return false;
	if (!skip_text(&s, "): ") || !read_number(&s, false, 1, 6, xid) || !ends_here(&s))
		return false;
	snprintf(pci, ZN_PCI_BYTES, "%04x:%02x:%02x.%u", domain, bus, device, function);
	return true;
}

/* Whether the line itself says that nothing is broken (docs.nvidia.com/deploy/xid-errors): an NVLink's error, or the
 * end of a recovery, as in
 *   145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008 ...)
 *   154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)
 * Some drivers name a process behind the number, so it is read from the end. */
static bool is_nonfatal(uint32_t xid, struct zn_str s)
{
	const char *last = memrchr(s.at, xid == 154 ? '(' : ',', s.len);

	if (!last || (xid != 154 && (xid < 144 || xid > 150)))
		return false;
	s = (struct zn_str){last + 1, (size_t)(s.at + s.len - last - 1)};
	if (xid == 154)
		return skip_text(&s, "None)");
	for (skip_text(&s, " "); s.len && *s.at != ' '; s.len--)
		s.at++;
	return skip_text(&s, " Nonfatal ");
}

/* ---- amdgpu ---- */

const char *zn_amdgpu_label(enum zn_amdgpu_error e)
{
	static const char *const label[] = {
#define X(e, label) [ZN_AMDGPU_##e] = label,
		ZN_AMDGPU_ERRORS(X)
#undef X
	};

	return label[e];
}

static bool contains_text(struct zn_str s, const char *text)
{
	return memmem(s.at, s.len, text, strlen(text));
}

/* "2 uncorrectable hardware errors detected in umc block", "socket: 0, die: 1, 2 new ...": without a number, or in
 * total, it is no report of an error (amdgpu_ras.c). */
static enum zn_amdgpu_error hardware_error(struct zn_str s)
{
	static const struct {
		const char *text;
		enum zn_amdgpu_error error;
	} known[] = {
		{" correctable hardware errors detected in ", ZN_AMDGPU_CORRECTABLE},
		{" uncorrectable hardware errors detected in ", ZN_AMDGPU_UNCORRECTABLE},
		{" deferred hardware errors detected in ", ZN_AMDGPU_DEFERRED},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const char *at = memmem(s.at, s.len, known[i].text, strlen(known[i].text));

		if (!at || contains_text(s, " detected in total in "))
			continue;
		if (at - s.at >= 4 && memcmp(at - 4, " new", 4) == 0)
			at -= 4;
		return at > s.at && at[-1] >= '0' && at[-1] <= '9' ? known[i].error : ZN_AMDGPU_NONE;
	}
	return skip_text(&s, "uncorrectable hardware error(") ? ZN_AMDGPU_UNCORRECTABLE : ZN_AMDGPU_NONE;
}

enum zn_amdgpu_error zn_amdgpu_parse(struct zn_str s, char pci[ZN_PCI_BYTES])
{
	uint32_t domain, bus, device, function;

	if (!skip_text(&s, "amdgpu ") || !read_address(&s, &domain, &bus, &device) || !skip_text(&s, ".") ||
		!read_number(&s, true, 1, 1, &function) || !skip_text(&s, ": "))
		return ZN_AMDGPU_NONE;
	snprintf(pci, ZN_PCI_BYTES, "%04x:%02x:%02x.%u", domain, bus, device, function);
	skip_text(&s, "amdgpu: "); /* newer kernels leave it out */
	if (skip_text(&s, "GPU reset begin!"))
		return ZN_AMDGPU_RESET;
	if (skip_text(&s, "GPU reset("))
		return contains_text(s, ") failed") ? ZN_AMDGPU_RESET_FAILED : ZN_AMDGPU_NONE;
	if (skip_text(&s, "ring "))
		return contains_text(s, " timeout") ? ZN_AMDGPU_RING_TIMEOUT : ZN_AMDGPU_NONE;
	if (skip_text(&s, "[") && contains_text(s, "page fault (src_id:"))
		return ZN_AMDGPU_PAGE_FAULT;
	return hardware_error(s);
}

static bool is_same(const struct zn_xid *a, const struct zn_xid *b)
{
	return a->xid == b->xid && a->nonfatal == b->nonfatal && a->amdgpu == b->amdgpu && !strcmp(a->pci, b->pci);
}

static struct zn_xid *error_add(struct zn_xids *x, const char *pci, struct zn_xid e)
{
	uint32_t i = 0;

	snprintf(e.pci, sizeof(e.pci), "%s", pci);
	while (i < x->count && !is_same(&x->xid[i], &e))
		i++;
	if (i == ZN_XIDS_MAX) {
		x->lost++;
		return NULL;
	}
	if (i == x->count) {
		e.since_ns = zn_now_ns();
		x->xid[x->count++] = e;
	}
	x->xid[i].times++;
	x->xid[i].last_ns = zn_now_ns();
	return &x->xid[i];
}

struct zn_xid *zn_xids_add(struct zn_xids *x, const char *pci, uint32_t xid, bool nonfatal)
{
	return error_add(x, pci, (struct zn_xid){.xid = xid, .nonfatal = nonfatal});
}

void zn_amdgpu_add(struct zn_xids *x, const char *pci, enum zn_amdgpu_error e)
{
	error_add(x, pci, (struct zn_xid){.amdgpu = e});
}

/* "..., pid=1234, name=python3, ...", or, of nobody, "pid='<unknown>', name=<unknown>". */
void zn_xid_process(struct zn_str s, uint32_t *pid, char command[16])
{
	const char *at = memmem(s.at, s.len, ", pid=", 6), *end = s.at + s.len;
	struct zn_str rest = {at ? at + 6 : end, at ? (size_t)(end - at - 6) : 0};
	size_t len = 0;

	*pid = 0;
	memset(command, 0, 16);
	if (!read_number(&rest, false, 1, 9, pid) || !ends_here(&rest) || !skip_text(&rest, ", name="))
		return;
	for (; len < rest.len && len < 15 && rest.at[len] != ','; len++)
		command[len] = rest.at[len];
}

static void note_process(struct zn_xid *to, struct zn_str text)
{
	if (!to)
		return;
	zn_xid_process(text, &to->pid, to->command);
	to->job[0] = 0;
}

/* A record is PRIORITY,SEQUENCE,TIME,FLAGS[,...];TEXT (Documentation/ABI/testing/dev-kmsg); lines that belong to it
 * begin with a space. */
static void take_line(struct zn_xids *x, struct zn_str line)
{
	const char *text = memchr(line.at, ';', line.len);
	char pci[ZN_PCI_BYTES];
	enum zn_amdgpu_error amdgpu;
	struct zn_str s = line;
	uint32_t priority, xid;

	if (!text || !read_number(&s, false, 1, 6, &priority) || !ends_here(&s))
		return;
	if (priority >> 3) {
		x->other++;
		return;
	}
	x->kernel++;
	text++;
	s = (struct zn_str){text, (size_t)(line.at + line.len - text)};
	if (zn_xid_parse(s, pci, &xid))
		note_process(zn_xids_add(x, pci, xid, is_nonfatal(xid, s)), s);
	else if ((amdgpu = zn_amdgpu_parse(s, pci)))
		zn_amdgpu_add(x, pci, amdgpu);
}

/* Takes the lines that are complete; what is left stays, unless it is longer than any line may be. */
static void take_lines(struct zn_xids *x, size_t len)
{
	const char *at = x->text, *end = x->text + x->len + len, *stop;

	for (; (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
		if (!x->cut)
			take_line(x, (struct zn_str){at, (size_t)(stop - at)});
		x->cut = false;
	}
	x->len = (size_t)(end - at);
	memmove(x->text, at, x->len);
	if (x->len == sizeof(x->text)) {
		x->cut = true;
		x->len = 0;
	}
}

int zn_xids_open(struct zn_xids *x, const char *path)
{
	zn_pages_clear(x, sizeof(*x));
	x->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (x->fd < 0)
		return -errno;
	lseek(x->fd, 0, SEEK_END); /* a pipe has no end, and begins now */
	return 0;
}

void zn_xids_tick(struct zn_xids *x)
{
	for (uint32_t i = 0; x->fd >= 0 && i < READS_MAX; i++) {
		ssize_t n = read(x->fd, x->text + x->len, sizeof(x->text) - x->len);

		if (n > 0)
			take_lines(x, (size_t)n);
		else if (n < 0 && errno == EPIPE)
			x->lost++; /* overwritten; the next read has the oldest that is left */
		else
			return;
	}
}

void zn_xids_close(struct zn_xids *x)
{
	if (x->fd >= 0)
		close(x->fd);
	x->fd = -1;
}

void zn_xids_why(const char *path, int err, char to[ZN_TEXT_MAX])
{
	snprintf(to, ZN_TEXT_MAX, "cannot read %.128s: %s%s", path, strerror(-err),
		err == -EPERM ? "; needs CAP_SYSLOG" : "");
}
