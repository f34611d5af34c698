/* SPDX-License-Identifier: GPL-2.0 */
/*
 * native.c: the functions of a stack of which there is a copy, by the files that the process has mapped. It runs in the
 * process that may be held up (worker/reader.c): maps and files are the user's. Files are opened by the mappings
 * themselves, whatever their paths lead to by now. A frame is told if the one below it says for certain where it goes
 * on, and that is behind a call in a mapped file; the first that is not ends the stack, and it says so.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WALK_MAX     128  /* frames, with those of the interpreter */
#define MAPPINGS_MAX 2048 /* of code, in files */
#define FILES_MAX    24   /* that one stack goes through */
#define STEPS_MAX    4096 /* reads of the list of mappings */
#define FILE_BUDGET  ((uint64_t)48 << 20)
#define TIME_NS      (1200 * ZN_NS_PER_MS) /* the reader's own limit is 3 s, and costs its user more */
#define KNOWN        2048                  /* a power of two */
#define PROBES       4
#define INTERPRETER  "_PyEval_EvalFrameDefault"

struct mapping {
	uint64_t from, to, offset;
	char file[ZN_NATIVE_FILE];
};

struct file {
	const struct mapping *mapping; /* one of its mappings */
	uint64_t dev, ino, changed_ns;
	struct zn_unwind_file elf;
};

struct frame {
	struct file *file;
	uint64_t address; /* as the file has it */
	char name[ZN_SYMBOLS_NAME];
	bool named;
};

/* Names that were read already; an empty one: there is none. */
struct known {
	uint64_t dev, ino, changed_ns, size, address;
	char name[ZN_SYMBOLS_NAME];
};

static struct {
	struct mapping mapping[MAPPINGS_MAX];
	size_t mappings;
	struct file file[FILES_MAX];
	size_t files;
	struct frame frame[WALK_MAX];
	size_t frames;
	uint32_t pid;
	uint64_t until_ns;
	struct zn_symbol symbol[WALK_MAX];
	struct known known[KNOWN];
} the;

/* ---- Mappings and their files. ---- */

static void put_file_name(char to[ZN_NATIVE_FILE], const char *path, size_t len)
{
	static const char deleted[] = " (deleted)";
	const char *slash;

	if (len > sizeof(deleted) - 1 && !memcmp(path + len - (sizeof(deleted) - 1), deleted, sizeof(deleted) - 1))
		len -= sizeof(deleted) - 1;
	slash = memrchr(path, '/', len);
	len -= (size_t)(slash + 1 - path);
	len = len < ZN_NATIVE_FILE ? len : ZN_NATIVE_FILE - 1;
	memcpy(to, slash + 1, len);
	to[len] = '\0';
	zn_str_plain(to);
}

static void visit_mapping(void *to, uint32_t pid, const char *line, size_t len)
{
	const char *path = zn_maps_path(line);
	unsigned long from, end, offset;
	struct mapping *m;
	char perms[5];

	(void)to, (void)pid;
	if (!path || the.mappings == MAPPINGS_MAX ||
		sscanf(line, "%lx-%lx %4s %lx", &from, &end, perms, &offset) != 4 || perms[2] != 'x')
		return;
	m = &the.mapping[the.mappings++];
	*m = (struct mapping){.from = from, .to = end, .offset = offset};
	put_file_name(m->file, path, len - (size_t)(path - line));
}

static void read_mappings(void)
{
	static struct zn_maps maps;

	the.mappings = 0;
	zn_maps_open(&maps, "/proc", the.pid);
	for (int steps = 0; steps < STEPS_MAX && zn_now_ns() < the.until_ns; steps++)
		if (!zn_maps_step(&maps, visit_mapping, NULL))
			break;
	zn_maps_close(&maps);
}

/* The list is sorted by the kernel. */
static const struct mapping *mapping_of(uint64_t address)
{
	size_t low = 0, high = the.mappings;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (the.mapping[middle].to <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < the.mappings && the.mapping[low].from <= address ? &the.mapping[low] : NULL;
}

/* No device is opened: that may do something. What was looked at is what is opened, whatever is mapped there by then. */
static int open_mapping(const struct mapping *m)
{
	char path[80];
	struct stat st;
	int place, fd = -1;

	snprintf(path, sizeof(path), "/proc/%u/map_files/%llx-%llx", the.pid, (unsigned long long)m->from,
		(unsigned long long)m->to);
	place = open(path, O_PATH | O_CLOEXEC);
	if (place < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	if (!fstat(place, &st) && S_ISREG(st.st_mode))
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	close(place);
	return fd;
}

/* NULL: it cannot be read, or is no program or library. */
static struct file *file_of(const struct mapping *m)
{
	struct file *f = &the.file[the.files];
	struct stat st;
	int fd;

	for (size_t i = 0; i < the.files; i++)
		if (the.file[i].mapping == m)
			return &the.file[i];
	if (the.files == FILES_MAX)
		return NULL;
	fd = open_mapping(m);
	if (fd < 0)
		return NULL;
	if (!zn_unwind_open(&f->elf, fd, FILE_BUDGET, the.until_ns) || fstat(fd, &st)) {
		close(fd);
		return NULL;
	}
	f->mapping = m;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->changed_ns = (uint64_t)st.st_ctim.tv_sec * ZN_NS_PER_S + (uint64_t)st.st_ctim.tv_nsec;
	the.files++;
	return f;
}

/* ---- Frames. ---- */

/* False: that is no place in a function that is told. */
static bool add_frame(uint64_t at, bool behind_call)
{
	uint64_t within = behind_call ? at - 1 : at;
	const struct mapping *m = mapping_of(within);
	struct frame *f = &the.frame[the.frames];

	if (!m)
		return false;
	*f = (struct frame){.file = file_of(m)};
	if (!f->file || !zn_unwind_address(&f->file->elf, within - m->from + m->offset, &f->address))
		return false;
	if (behind_call && !zn_unwind_is_behind_call(&f->file->elf, f->address + 1) &&
		!zn_unwind_is_signal(&f->file->elf, f->address))
		return false;
	the.frames++;
	return true;
}

static void set_register(struct zn_unwind_regs *r, int reg, uint64_t value)
{
	r->reg[reg] = value;
	r->known |= 1u << reg;
}

static struct zn_unwind_regs registers_of(const struct zn_native *n)
{
	struct zn_unwind_regs r = {.interrupted = !n->returned};

	set_register(&r, 3, n->bx);
	set_register(&r, 6, n->bp);
	set_register(&r, 7, n->sp);
	set_register(&r, 12, n->r12);
	set_register(&r, 13, n->r13);
	set_register(&r, 14, n->r14);
	set_register(&r, 15, n->r15);
	set_register(&r, 16, n->ip);
	return r;
}

/* True: to its end. */
static bool walk_stack(const struct zn_native *n)
{
	uint32_t pages = n->pages < ZN_NATIVE_PAGES ? n->pages : ZN_NATIVE_PAGES;
	struct zn_unwind_stack stack = {
		.bytes = n->page[0], .from = n->sp & ~(ZN_NATIVE_PAGE - 1ULL), .len = (uint64_t)pages * ZN_NATIVE_PAGE};
	struct zn_unwind_regs r = registers_of(n);

	while (the.frames < WALK_MAX && add_frame(r.reg[16], !r.interrupted)) {
		const struct frame *f = &the.frame[the.frames - 1];

		switch (zn_unwind_step(&f->file->elf, f->address, &stack, &r)) {
		case ZN_UNWIND_CALLER: break;
		case ZN_UNWIND_END: return true;
		case ZN_UNWIND_LOST: return false;
		}
	}
	return false;
}

/* ---- Names. ---- */

static struct known *known_at(const struct file *f, uint64_t address, size_t probe)
{
	uint64_t h = (f->ino ^ f->dev << 32 ^ address * 0xff51afd7ed558ccdULL) * 0x9e3779b97f4a7c15ULL;

	return &the.known[((h >> 40) + probe) & (KNOWN - 1)];
}

static bool is_known(const struct known *k, const struct file *f, uint64_t address)
{
	return k->ino == f->ino && k->dev == f->dev && k->changed_ns == f->changed_ns && k->size == f->elf.size &&
		k->address == address;
}

static bool recall_name(struct frame *f)
{
	for (size_t i = 0; i < PROBES; i++) {
		const struct known *k = known_at(f->file, f->address, i);

		if (is_known(k, f->file, f->address)) {
			memcpy(f->name, k->name, sizeof(f->name));
			return true;
		}
	}
	return false;
}

static void keep_name(const struct frame *f)
{
	struct known *k = known_at(f->file, f->address, 0);

	for (size_t i = 1; i < PROBES && k->ino; i++) /* a free place, or else the first */
		k = known_at(f->file, f->address, i);
	if (k->ino)
		k = known_at(f->file, f->address, 0);
	*k = (struct known){.dev = f->file->dev,
		.ino = f->file->ino,
		.changed_ns = f->file->changed_ns,
		.size = f->file->elf.size,
		.address = f->address};
	memcpy(k->name, f->name, sizeof(k->name));
}

/* Reads the names of all frames in one file at a time. */
static void name_file(struct file *file)
{
	size_t count = 0;

	for (size_t i = 0; i < the.frames; i++)
		if (the.frame[i].file == file && !the.frame[i].named)
			the.symbol[count++] = (struct zn_symbol){.address = the.frame[i].address};
	if (!count)
		return;
	zn_symbols_find(&file->elf, the.symbol, count);
	for (size_t i = 0; i < the.frames; i++) {
		struct frame *f = &the.frame[i];

		if (f->file != file || f->named)
			continue;
		for (size_t k = 0; k < count; k++)
			if (the.symbol[k].address == f->address && the.symbol[k].size)
				memcpy(f->name, the.symbol[k].name, sizeof(f->name));
		f->named = true;
		if (zn_now_ns() < the.until_ns)
			keep_name(f);
	}
}

static void name_frames(void)
{
	for (size_t i = 0; i < the.frames; i++)
		the.frame[i].named = recall_name(&the.frame[i]);
	for (size_t i = 0; i < the.files; i++)
		name_file(&the.file[i]);
}

static bool is_interpreter(const struct frame *f)
{
	return !strncmp(f->name, INTERPRETER, sizeof(INTERPRETER) - 1);
}

static void put_frame(const struct frame *f, struct zn_native_frame *to)
{
	memcpy(to->file, f->file->mapping->file, sizeof(to->file));
	if (f->name[0])
		memcpy(to->name, f->name, sizeof(to->name));
	else /* as addr2line takes it */
		snprintf(to->name, sizeof(to->name), "0x%llx", (unsigned long long)f->address);
}

void zn_native_read(uint32_t pid, const struct zn_native *n, bool python, struct zn_native_stack *to)
{
	bool whole;

	the.pid = pid;
	the.until_ns = zn_now_ns() + TIME_NS;
	the.files = the.frames = 0;
	read_mappings();
	whole = walk_stack(n);
	name_frames();
	to->count = 0;
	for (size_t i = 0; i < the.frames && to->count < ZN_NATIVE_FRAMES; i++) {
		if (python && is_interpreter(&the.frame[i]))
			break;
		put_frame(&the.frame[i], &to->frame[to->count++]);
	}
	if (python)
		whole = to->count < the.frames && is_interpreter(&the.frame[to->count]);
	else
		whole = whole && to->count == the.frames;
	to->truncated = !whole;
	for (size_t i = 0; i < the.files; i++)
		close(the.file[i].elf.fd);
	the.files = 0;
}
