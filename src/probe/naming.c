/* SPDX-License-Identifier: GPL-2.0 */
/*
 * naming.c: asks a process of its own (worker/reader.c) for the Python of a process, for the functions and lines of a
 * stack, or for those of a copied one. A process that holds up whoever reads its memory holds up that one alone, and
 * for no longer than its time limit; then nothing is read of its owner for a while, each time for longer, so that one
 * user's processes do not take the time of the others'. Where it was the files of his that held up, as a slow file
 * server does, it is copied stacks alone.
 */
#include "zernel.h"
#include <errno.h>
#include <string.h>

#define CODES      512 /* powers of two; of the reader */
#define LINES      16384
#define NAME_CHARS 256
#define NAME_BYTES (3 * NAME_CHARS)
#define FILE_BYTES (3 * ZN_PYTHON_TEXT)
#define HOLD_NS    (30 * ZN_NS_PER_S) /* twice as long each time */
#define HOLD_MOST  7

enum request { FIND, NAME, NATIVE };

struct frame {
	int32_t line, first; /* line ZN_PYCODE_GONE: nothing is known of it */
	uint32_t name_len, file_len;
	char name[NAME_BYTES], file[FILE_BYTES];
};

/* What the daemon asks, and what is answered. */
struct page {
	enum request request;
	uint32_t pid, id, depth;
	struct zn_python_process python;
	uint64_t word[ZN_STACK_FRAMES];
	int32_t err;
	char why[ZN_TEXT_MAX];
	struct frame frame[ZN_STACK_FRAMES];
	bool above_python;
	struct zn_native native;
	struct zn_native_stack functions;
};

/* ---- In the reader. ---- */

/* Functions and lines that were read already: the process, and whose memory. */
struct code {
	uint64_t whose, code;
	struct zn_python_code is;
	struct frame frame;
};
struct line {
	uint64_t whose, word, lines;
	int line, first;
};
static struct code codes[CODES];
static struct line lines[LINES];

static uint32_t place_of(uint64_t whose, uint64_t key)
{
	return (uint32_t)((key ^ whose * 0xff51afd7ed558ccdULL) * 0x9e3779b97f4a7c15ULL >> 40);
}

static bool is_same_code(const struct zn_python_code *a, const struct zn_python_code *b)
{
	return a->name == b->name && a->file == b->file && a->lines == b->lines && a->first == b->first;
}

/* False: its texts cannot be read, or are none. */
static bool read_texts(const struct zn_python_process *p, const struct zn_python_code *is, struct frame *to)
{
	struct zn_out n = {.at = to->name, .cap = NAME_BYTES}, f = {.at = to->file, .cap = FILE_BYTES};

	if (!zn_python_text(p, is->name, NAME_CHARS, false, &n) ||
		!zn_python_text(p, is->file, ZN_PYTHON_TEXT, true, &f))
		return false;
	to->name_len = (uint32_t)n.len;
	to->file_len = (uint32_t)f.len;
	to->first = is->first;
	return true;
}

/* The function of a code object as it is now. NULL: there is none any more. */
static const struct code *read_code(const struct zn_python_process *p, uint64_t whose, uint64_t address)
{
	struct code *known = &codes[place_of(whose, address) & (CODES - 1)];
	struct zn_python_code is;

	if (!zn_python_code(p, address, &is))
		return NULL;
	if (known->whose == whose && known->code == address && is_same_code(&known->is, &is))
		return known;
	known->whose = 0;
	if (!read_texts(p, &is, &known->frame))
		return NULL;
	known->whose = whose;
	known->code = address;
	known->is = is;
	return known;
}

static int read_line(const struct zn_python_process *p, uint64_t whose, const struct zn_python_code *is, uint64_t word)
{
	struct line *known = &lines[place_of(whose, word) & (LINES - 1)];

	if (known->whose != whose || known->word != word || known->lines != is->lines || known->first != is->first)
		*known = (struct line){.whose = whose,
			.word = word,
			.lines = is->lines,
			.first = is->first,
			.line = zn_python_line(p, is, ZN_STACK_WORD_INDEX(word))};
	return known->line;
}

static void answer_frame(const struct zn_python_process *p, uint64_t whose, uint64_t word, struct frame *to)
{
	const struct code *code = NULL;

	to->line = ZN_PYCODE_GONE;
	if ((word & ZN_STACK_NO_INDEX) != ZN_STACK_NO_INDEX)
		code = read_code(p, whose, ZN_STACK_WORD_CODE(word));
	if (!code)
		return;
	to->first = code->frame.first;
	to->name_len = code->frame.name_len;
	to->file_len = code->frame.file_len;
	memcpy(to->name, code->frame.name, to->name_len);
	memcpy(to->file, code->frame.file, to->file_len);
	to->line = read_line(p, whose, &code->is, word);
}

static void answer_request(void *at)
{
	struct page *page = at;
	struct zn_python_process p = page->python;
	uint64_t whose = (uint64_t)page->pid << 32 | page->id;

	if (page->request == NATIVE) {
		zn_native_read(page->pid, &page->native, page->above_python, &page->functions);
		return;
	}
	p.pid = page->pid;
	if (page->request == FIND)
		page->err = zn_python_find(&p, page->why);
	else
		page->err = zn_python_readable(&p);
	if (page->request == NAME && !page->err)
		for (uint32_t i = 0; i < page->depth && i < ZN_STACK_FRAMES; i++)
			answer_frame(&p, whose, page->word[i], &page->frame[i]);
	page->python = p;
}

/* ---- In the daemon. ---- */

int zn_naming_open(struct zn_naming *n)
{
	*n = (struct zn_naming){0};
	return zn_reader_open(&n->reader, sizeof(struct page), answer_request);
}

void zn_naming_close(struct zn_naming *n)
{
	zn_reader_close(&n->reader);
}

static struct zn_naming_hold *hold_of(struct zn_naming_hold hold[ZN_NAMING_HOLDS], uint32_t owner)
{
	struct zn_naming_hold *oldest = &hold[0];

	for (size_t i = 0; i < ZN_NAMING_HOLDS; i++) {
		if (hold[i].times && hold[i].owner == owner)
			return &hold[i];
		if (hold[i].until_ns < oldest->until_ns)
			oldest = &hold[i];
	}
	return oldest;
}

/* Nothing is read of this owner now. */
static bool is_waiting(struct zn_naming_hold hold[ZN_NAMING_HOLDS], uint32_t owner, uint64_t now_ns)
{
	const struct zn_naming_hold *h = hold_of(hold, owner);

	return h->times && h->owner == owner && now_ns < h->until_ns;
}

/* Until when. */
static uint64_t hold_owner(struct zn_naming_hold hold[ZN_NAMING_HOLDS], uint32_t owner)
{
	struct zn_naming_hold *h = hold_of(hold, owner);
	uint32_t times = h->times && h->owner == owner ? h->times : 0;

	*h = (struct zn_naming_hold){.owner = owner,
		.times = times < HOLD_MOST ? times + 1 : times,
		.until_ns = zn_now_ns() + (HOLD_NS << times)};
	return h->until_ns;
}

uint32_t zn_naming_held(const struct zn_naming *n)
{
	uint64_t until_ns = __atomic_load_n(&n->held_until_ns, __ATOMIC_ACQUIRE);

	return zn_now_ns() < until_ns ? __atomic_load_n(&n->held_pid, __ATOMIC_RELAXED) : 0;
}

bool zn_naming_waits(struct zn_naming *n, uint32_t owner)
{
	uint64_t now_ns = zn_now_ns();

	return is_waiting(n->hold, owner, now_ns) || is_waiting(n->file_hold, owner, now_ns);
}

/* About a process's memory. */
static int ask_reader(struct zn_naming *n, uint32_t owner, uint32_t pid)
{
	uint64_t until_ns;
	int err;

	if (is_waiting(n->hold, owner, zn_now_ns()))
		return -EBUSY;
	err = zn_reader_ask(&n->reader);
	if (err == -ETIMEDOUT) {
		until_ns = hold_owner(n->hold, owner);
		__atomic_store_n(&n->held_pid, pid, __ATOMIC_RELAXED);
		__atomic_store_n(&n->held_until_ns, until_ns, __ATOMIC_RELEASE);
	}
	return err;
}

/* About files that a process has mapped: those of a slow file server say nothing about its memory. */
static int ask_about_files(struct zn_naming *n, uint32_t owner)
{
	int err;

	if (zn_naming_waits(n, owner))
		return -EBUSY;
	err = zn_reader_ask(&n->reader);
	if (err == -ETIMEDOUT)
		hold_owner(n->file_hold, owner);
	return err;
}

int zn_naming_find(
	struct zn_naming *n, const struct zn_naming_of *of, struct zn_python_process *to, char why[ZN_TEXT_MAX])
{
	struct page *page = n->reader.page;
	int err;

	why[0] = '\0';
	if (!page)
		return -EPIPE;
	memset(page, 0, offsetof(struct page, frame));
	page->request = FIND;
	page->pid = of->pid;
	page->id = of->id;
	err = ask_reader(n, of->owner, of->pid);
	if (err) {
		snprintf(why, ZN_TEXT_MAX, "%s",
			err == -EBUSY || err == -ETIMEDOUT
				? "it, or another process of its user, holds up who reads its memory"
				: "no process is there to read its memory");
		return -EBUSY;
	}
	*to = page->python;
	snprintf(why, ZN_TEXT_MAX, "%.*s", ZN_TEXT_MAX - 1, page->why);
	err = page->err;
	return !err && !zn_python_known(to) ? -ENOTSUP : err;
}

int zn_naming_ask(
	struct zn_naming *n, const struct zn_naming_of *of, const struct zn_python_process *p, const struct zn_stack *s)
{
	struct page *page = n->reader.page;
	int err;

	if (!page)
		return -EPIPE;
	page->request = NAME;
	page->pid = of->pid;
	page->id = of->id;
	page->python = *p;
	page->depth = s->depth < ZN_STACK_FRAMES ? s->depth : ZN_STACK_FRAMES;
	memcpy(page->word, s->frame, sizeof(page->word));
	err = ask_reader(n, of->owner, of->pid);
	return err ? err : page->err;
}

static void take_text(char *text, size_t size)
{
	text[size - 1] = '\0';
	zn_str_plain(text);
}

int zn_naming_native(struct zn_naming *n, const struct zn_naming_of *of, const struct zn_native *copied, bool python,
	struct zn_native_stack *to)
{
	struct page *page = n->reader.page;
	int err;

	if (!page)
		return -EPIPE;
	page->request = NATIVE;
	page->pid = of->pid;
	page->id = of->id;
	page->above_python = python;
	page->native = *copied;
	page->functions.count = 0;
	err = ask_about_files(n, of->owner);
	explicit_bzero(&page->native, sizeof(page->native));
	if (err)
		return err;
	*to = page->functions;
	to->count = to->count < ZN_NATIVE_FRAMES ? to->count : ZN_NATIVE_FRAMES;
	for (uint32_t i = 0; i < to->count; i++) {
		take_text(to->frame[i].name, sizeof(to->frame[i].name));
		take_text(to->frame[i].file, sizeof(to->frame[i].file));
	}
	return 0;
}

/* What it says is taken as far as it fits: it read what is hostile. */
struct zn_naming_frame zn_naming_frame(const struct zn_naming *n, uint32_t i)
{
	const struct page *page = n->reader.page;
	const struct frame *f = &page->frame[i % ZN_STACK_FRAMES];
	uint32_t name_len = f->name_len, file_len = f->file_len;

	return (struct zn_naming_frame){.line = f->line,
		.first = f->first,
		.name = {f->name, name_len < NAME_BYTES ? name_len : NAME_BYTES},
		.file = {f->file, file_len < FILE_BYTES ? file_len : FILE_BYTES}};
}
