/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mappers.c: which processes map a file, by the kernel's own inode, and which of them could make the kernel wait. And
 * who listens on Unix sockets, and whom processes are connected with over them, by another iterator of the same object.
 *
 * To put a probe on a file or to take one away, the kernel takes the memory lock of each process that maps the file,
 * under whatever name, and meanwhile no process of the node can fork (register_for_each_vma() and dup_mmap_sem of
 * kernel/events/uprobes.c). A process that waits for a page of a FUSE file system may hold its own lock for as long
 * as that file system's server likes, and one that is blocked on a dead server of files may hold it too. So both are
 * looked for first. Names and numbers in /proc/PID/maps are those of an overlay, so the kernel is asked by an
 * iterator.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define AGAIN_MAX  64  /* turns in which the kernel may ask to go on; each is a million memory areas */
#define FUSES_MAX  8   /* FUSE file systems that are remembered of one process; more of them are taken for a user's */
#define BLOCKED_MS 30  /* a thread that has not moved for so long is blocked */
#define SUSPECTS   512 /* threads that are looked at again after one such wait */
#define WAITS_MAX  4   /* of one look; who has more threads that sleep in the kernel is taken for blocked */
#define KNOWN_BITS 13  /* of the hash of processes: half of its places are used at most */
#define LOOK_NS    (5 * ZN_NS_PER_S) /* of CPU time for one look, which a user's threads or areas could make last */

/* The CPU time of this thread at which a look that begins now has taken too long. */
static uint64_t look_end(void)
{
	return zn_clock_ns(CLOCK_THREAD_CPUTIME_ID) + LOOK_NS;
}

static bool is_past(uint64_t end_ns)
{
	return zn_clock_ns(CLOCK_THREAD_CPUTIME_ID) > end_ns;
}

/* Walks over all memory areas that the query is true of, thread by thread. -EAGAIN: there are too many. */
static int walk_mappings(const struct zn_mappers *m, int link, const struct zn_mapping_query *query,
	void (*visit)(void *to, const struct zn_mapping *found), void *to)
{
	static struct zn_mapping found[512];
	uint64_t end_ns = look_end();
	uint32_t none = 0;
	size_t have = 0, i;
	int fd, again = 0;
	ssize_t n;

	if (bpf_map_update_elem(m->query_fd, &none, query, BPF_ANY) || (fd = bpf_iter_create(link)) < 0)
		return -errno;
	while ((n = read(fd, (char *)found + have, sizeof(found) - have)) > 0 ||
		(n < 0 && (errno == EAGAIN || errno == EINTR) && again++ < AGAIN_MAX)) {
		have += n > 0 ? (size_t)n : 0;
		for (i = 0; i < have / sizeof(*found); i++)
			visit(to, &found[i]);
		have -= i * sizeof(*found);
		memmove(found, found + i, have);
		if (is_past(end_ns)) {
			errno = EAGAIN;
			n = -1;
			break;
		}
	}
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

static void take_identity(void *to, const struct zn_mapping *found)
{
	if (found->flags & ZN_MAPPING_AT)
		*(struct zn_file_id *)to = (struct zn_file_id){found->ino, found->inode, found->dev, found->flags};
}

int zn_mappers_identify(const struct zn_mappers *m, uint32_t tgid, uint64_t start, struct zn_file_id *to)
{
	struct zn_mapping_query query = {.tgid = tgid, .start = start};
	bool own = tgid == (uint32_t)getpid() && m->own_fd >= 0;
	int err;

	*to = (struct zn_file_id){0};
	if (m->link_fd < 0)
		return -EOPNOTSUPP;
	err = walk_mappings(m, own ? m->own_fd : m->link_fd, &query, take_identity, to);
	return err ? err : to->ino ? 0 : -ENOENT;
}

/* Maps the file here for a moment: no page of it is read. */
static int identify_here(const struct zn_mappers *m, int fd, struct zn_file_id *to)
{
	void *at = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	int err;

	if (at == MAP_FAILED)
		return -errno;
	err = zn_mappers_identify(m, getpid(), (uintptr_t)at, to);
	munmap(at, 1);
	return err;
}

/* A file system that does not answer is taken for FUSE. */
static uint64_t file_system_of(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) ? FUSE_SUPER_MAGIC : (uint64_t)fs.f_type;
}

/* Where the kernel does not tell its own numbers those of stat() must do: right for all but overlays, where stat()
 * invents some. A file whose server may not answer is not mapped by this process, whose memory would be locked
 * meanwhile. */
void zn_mappers_identify_file(const struct zn_mappers *m, int fd, int pid, uint64_t from, struct zn_file_id *to)
{
	uint64_t type = file_system_of(fd);
	struct stat st;
	bool remote = type == FUSE_SUPER_MAGIC || type == NFS_SUPER_MAGIC;
	int err = pid && remote ? zn_mappers_identify(m, (uint32_t)pid, from, to) : identify_here(m, fd, to);

	if (!err)
		return;
	*to = (struct zn_file_id){.flags = type == FUSE_SUPER_MAGIC ? ZN_MAPPING_FUSE : 0};
	if (fstat(fd, &st) == 0) {
		to->ino = st.st_ino;
		to->dev = (uint32_t)(major(st.st_dev) << 20 | minor(st.st_dev));
	}
}

/* ---- who maps it ---- */

/* What is gathered of one process while its memory areas go by. */
struct gathered {
	struct zn_mapper_list *list;
	uint32_t *known; /* a hash of the processes in it; 0: free */
	uint32_t tgid;
	bool maps;
	bool of_user; /* it maps a file of a user's FUSE, or too many to tell */
	uint32_t fuse[FUSES_MAX], fuses;
};

struct looked_for {
	uint32_t dev;
	bool roots; /* root mounted it */
};

/* The type of a FUSE mount is its user's words behind "fuse", and the kernel says in the options who mounted it. */
static void mount_look(void *to, char *line)
{
	struct looked_for *f = to;
	struct zn_mount_line l;

	if (f->roots || !zn_mountinfo_read(line, &l) || l.dev != f->dev || strncmp(l.type, "fuse", 4))
		return;
	for (const char *option = l.options; option; option = strchr(option, ',')) {
		option += *option == ',';
		if (strncmp(option, "user_id=", 8))
			continue;
		f->roots = isdigit((unsigned char)option[8]) && strtoul(option + 8, NULL, 10) == 0;
		return;
	}
}

/* A mount that is in no list of its process, as it was detached, counts as a user's; so does a mount whose line is too
 * long. */
static bool is_roots_fuse(uint32_t tgid, uint32_t dev)
{
	struct looked_for f = {.dev = dev};
	char path[40];

	snprintf(path, sizeof(path), "/proc/%u/mountinfo", tgid);
	zn_file_lines(path, mount_look, &f);
	return f.roots;
}

/* A thread that has a table of open files of its own is told of like a process, with the areas of its process, and
 * others may come between them. False: its process is in the list already. */
static bool note_process(uint32_t known[1 << KNOWN_BITS], uint32_t tgid)
{
	uint32_t at = tgid * 2654435761u >> (32 - KNOWN_BITS);

	while (known[at] && known[at] != tgid)
		at = (at + 1) & ((1 << KNOWN_BITS) - 1);
	if (known[at])
		return false;
	known[at] = tgid;
	return true;
}

static void end_process(struct gathered *g)
{
	struct zn_mapper_list *l = g->list;
	bool is_new = g->maps && l->count <= ZN_MAPPERS_MAX && note_process(g->known, g->tgid);

	for (uint32_t i = 0; is_new && i < g->fuses && !g->of_user; i++)
		g->of_user = !is_roots_fuse(g->tgid, g->fuse[i]);
	if (g->maps && g->of_user && !l->fuse_tgid)
		l->fuse_tgid = g->tgid;
	if (is_new && l->count++ < ZN_MAPPERS_MAX)
		l->tgid[l->count - 1] = g->tgid;
	g->maps = g->of_user = false;
	g->fuses = 0;
}

static void gather_fuse(struct gathered *g, const struct zn_mapping *found)
{
	for (uint32_t i = 0; i < g->fuses; i++)
		if (g->fuse[i] == found->dev)
			return;
	if (g->fuses < FUSES_MAX && !(found->flags & ZN_MAPPING_USER_NS))
		g->fuse[g->fuses++] = found->dev;
	else
		g->of_user = true;
}

static void gather_mapping(void *to, const struct zn_mapping *found)
{
	struct gathered *g = to;

	if (found->tgid != g->tgid)
		end_process(g);
	g->tgid = found->tgid;
	g->maps |= found->flags & ZN_MAPPING_ASKED;
	if (found->flags & ZN_MAPPING_FUSE)
		gather_fuse(g, found);
}

int zn_mappers_list(const struct zn_mappers *m, const struct zn_file_id *id, struct zn_mapper_list *to)
{
	struct zn_mapping_query query = {.ino = id->ino, .inode = id->inode, .dev = id->dev};
	static uint32_t known[1 << KNOWN_BITS];
	struct gathered g = {.list = to, .known = known};
	int err;

	zn_pages_clear(known, sizeof(known));
	*to = (struct zn_mapper_list){0};
	if (m->link_fd < 0)
		return -EOPNOTSUPP;
	err = walk_mappings(m, m->link_fd, &query, gather_mapping, &g);
	end_process(&g);
	return err;
}

/* ---- who is blocked ---- */

struct suspects {
	uint64_t end_ns;
	uint32_t tgid; /* whose threads are looked at */
	uint32_t blocked_tgid, blocked_tid, waits, count;
	struct suspect { /* sleeps where it may hold the memory lock */
		uint32_t tgid, tid;
		uint64_t switches;
	} seen[SUSPECTS];
};

/* Whether a thread sleeps where it may hold its memory lock: in an uninterruptible sleep, or in wait for a FUSE
 * server, which is interruptible at first (fs/fuse/dev.c). A thread that waits for a lock, as one that forks
 * meanwhile, does not count: it holds nobody up. */
static bool may_hold_lock(uint32_t tgid, uint32_t tid, bool uninterruptible)
{
	char path[64], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/wchan", tgid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	if (fd >= 0)
		close(fd);
	return strcmp(text, "request_wait_answer") == 0 || (uninterruptible && !strstr(text, "rwsem"));
}

/* How often a thread has left its CPU, and one; 0: it does not sleep where it may hold its memory lock. One that cannot
 * be asked does. */
static uint64_t sleeping_switches(uint32_t tgid, uint32_t tid)
{
	static const char *const key[] = {"voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"};
	char path[64], text[32];
	uint64_t switches = 1;
	int err;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/status", tgid, tid);
	err = zn_procfs_status(path, "State", text, sizeof(text));
	if (err == -ENOENT || err == -ESRCH || *text == 'R' || !may_hold_lock(tgid, tid, err < 0 || *text == 'D'))
		return 0;
	for (size_t i = 0; i < ZN_LEN(key); i++)
		if (zn_procfs_status(path, key[i], text, sizeof(text)) > 0)
			switches += strtoull(text, NULL, 10);
	return switches;
}

/* Whether all that were seen have moved after a while. */
static bool suspects_move(struct suspects *all)
{
	struct timespec wait = {.tv_nsec = BLOCKED_MS * ZN_NS_PER_MS};
	bool look = all->waits++ < WAITS_MAX;

	if (all->count && look)
		nanosleep(&wait, NULL);
	for (uint32_t i = 0; i < all->count && !all->blocked_tid; i++) {
		const struct suspect *s = &all->seen[i];

		if (look && sleeping_switches(s->tgid, s->tid) != s->switches)
			continue;
		all->blocked_tgid = s->tgid;
		all->blocked_tid = s->tid;
	}
	all->count = 0;
	return !all->blocked_tid;
}

static bool see_thread(void *to, int dir, const char *name)
{
	struct suspects *all = to;
	uint32_t tid = (uint32_t)strtoul(name, NULL, 10);
	uint64_t switches = tid ? sleeping_switches(all->tgid, tid) : 0;

	(void)dir;
	if (switches)
		all->seen[all->count++] = (struct suspect){all->tgid, tid, switches};
	if (is_past(all->end_ns)) {
		all->blocked_tgid = 0;
		all->blocked_tid = UINT32_MAX;
		return false;
	}
	return all->count < SUSPECTS || suspects_move(all);
}

uint32_t zn_mappers_blocked(const struct zn_mapper_list *list, uint32_t *tgid)
{
	static _Thread_local struct suspects all; /* the finder looks, and the watcher of libraries */
	char path[40];

	all.count = all.waits = all.blocked_tid = 0;
	all.end_ns = look_end();
	for (uint32_t i = 0; i < list->count && i < ZN_MAPPERS_MAX && !all.blocked_tid; i++) {
		all.tgid = list->tgid[i];
		snprintf(path, sizeof(path), "/proc/%u/task", all.tgid);
		zn_dir_read(path, see_thread, &all);
	}
	if (!all.blocked_tid)
		suspects_move(&all);
	*tgid = all.blocked_tgid;
	return all.blocked_tid;
}

/* ---- Unix sockets ---- */

void zn_mappers_asked(const struct zn_mappers *m, uint32_t tgid, bool add)
{
	uint32_t one = 1;

	if (m->asked_fd < 0)
		return;
	if (add)
		bpf_map_update_elem(m->asked_fd, &tgid, &one, BPF_ANY);
	else
		bpf_map_delete_elem(m->asked_fd, &tgid);
}

void zn_mappers_peers(
	const struct zn_mappers *m, void (*visit)(void *to, const struct zn_service_edge *found), void *to)
{
	static struct zn_service_edge found[512];
	int fd = m->peers_fd < 0 ? -1 : bpf_iter_create(m->peers_fd), again = 0;
	size_t have = 0, i;
	ssize_t n;

	if (fd < 0)
		return;
	while ((n = read(fd, (char *)found + have, sizeof(found) - have)) > 0 ||
		(n < 0 && (errno == EAGAIN || errno == EINTR) && again++ < AGAIN_MAX)) {
		have += n > 0 ? (size_t)n : 0;
		for (i = 0; i < have / sizeof(*found); i++)
			visit(to, &found[i]);
		have -= i * sizeof(*found);
		memmove(found, found + i, have);
	}
	close(fd);
}

/* ---- open and close ---- */

/* An iterator over this process alone, from 6.1 on: its mappings are found without a walk over all processes. */
static int own_link(struct bpf_program *program)
{
	/* struct task of union bpf_iter_link_info, linux/bpf.h from 6.1 on: thread, process, its descriptor */
	uint32_t only[4] = {0, (uint32_t)getpid()};
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = (void *)only, .link_info_len = sizeof(only));
	struct bpf_link *link = bpf_program__attach_iter(program, &options);
	int fd = link ? zn_fd_keep(bpf_link__fd(link)) : -1;

	bpf_link__destroy(link);
	return fd;
}

static int peers_link(struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach_iter(program, NULL);
	int fd = link ? zn_fd_keep(bpf_link__fd(link)) : -1;

	bpf_link__destroy(link);
	return fd;
}

int zn_mappers_open(struct zn_mappers *m, const struct zn_probe *p)
{
	struct bpf_object *o = zn_object_open(p, &zn_bpf_mappers);
	struct bpf_program *program;
	struct bpf_link *link = NULL;
	int err;

	*m = (struct zn_mappers){-1, -1, -1, -1, -1};
	if (!o)
		return -errno;
	err = bpf_object__load(o);
	if (!err) {
		program = bpf_object__find_program_by_name(o, "mapping_visit");
		link = bpf_program__attach_iter(program, NULL);
		err = link ? 0 : -errno;
	}
	if (!err) {
		m->link_fd = zn_fd_keep(bpf_link__fd(link));
		m->query_fd = zn_fd_keep(bpf_object__find_map_fd_by_name(o, "query"));
		m->own_fd = own_link(program);
		m->asked_fd = zn_fd_keep(bpf_object__find_map_fd_by_name(o, "asked"));
		m->peers_fd = peers_link(bpf_object__find_program_by_name(o, "socket_visit"));
	}
	bpf_link__destroy(link);
	bpf_object__close(o);
	return err;
}

void zn_mappers_close(struct zn_mappers *m)
{
	zn_fd_close(&m->link_fd);
	zn_fd_close(&m->query_fd);
	zn_fd_close(&m->own_fd);
	zn_fd_close(&m->peers_fd);
	zn_fd_close(&m->asked_fd);
}
