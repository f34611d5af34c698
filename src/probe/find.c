/* SPDX-License-Identifier: GPL-2.0 */
/*
 * find.c: finds the libraries to hook, in every process, however late they are mapped, and learns from /proc what a
 * process was told to see. All of it runs on one thread of its own: the files belong to users, and a file system of
 * theirs (or a process that holds its own mmap lock) may block a reader for as long as it likes. The loop never waits
 * for it.
 *
 * The kernel tells about each executable mapping through a software perf event (PERF_RECORD_MMAP2); nothing runs in
 * the kernel for it but that. Only where it refuses, /proc is scanned now and then.
 *
 * The work is linear in what has changed and goes in slices: whatever users start and map, the next event is looked at
 * soon, their processes take turns by user, and all of it together takes a small part of a core (scan.c).
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GATHER_MS      10    /* a library is hooked this long after it was mapped, and the time to attach */
#define ROUND_MS       250   /* a round comes after this at the latest */
#define CHECK_MS       1000  /* between looks at which processes still live */
#define CPUS_MS        10000 /* between looks whether a CPU has been away */
#define SWEEP_MS       1000  /* from the begin of one look at all processes to the next, at least */
#define SCAN_MS        2000  /* the same where there are no mapping events, each of which asks for the next */
#define SLICE_MS       5     /* of one kind of work in one round */
#define CHECK_SLICE_MS 1     /* of looks at which processes still live */
#define WORK_PERCENT   4     /* of a core, for what users set off by mapping libraries and making calls */
#define WORK_BURST_MS  2000
#define IDLE_PERCENT   1    /* of a core, for what has time; WORK_PERCENT where there are no mapping events */
#define READERS_MAX    8    /* processes whose maps are read at one time, each of another owner */
#define MAPS_MAX       4096 /* reads of the maps of one process, of some 4 KiB each, because its ledger is asked for */
#define SHORT_LIFE_NS  ZN_NS_PER_S

struct info_entry {
	uint32_t wanted; /* zn_proc.id */
	uint32_t pid;
	uint8_t ledger; /* enum zn_ledger, where the process is not partial for another reason */
	bool again;     /* its open devices are to be looked at once more */
	struct zn_process_info info;
};

struct zn_find {
	struct zn_probe *probe;
	pthread_t thread;
	pthread_mutex_t lock; /* over fact[], and what is shown of libraries */
	int stop_fd;
	bool running;
	bool closing; /* probes are being taken away */
	bool by_events;
	struct zn_mappings mappings;
	uint32_t cpus; /* that are online */
	int cpu_error; /* of one that came online since; 0: none */
	struct zn_libraries *libraries;
	struct zn_map_events events;
	struct zn_maps reader[READERS_MAX];
	struct zn_sweep sweep;
	struct zn_children children;
	struct zn_pace work, idle;
	bool scan_all; /* all processes are to be looked at, without a hurry */
	bool checking; /* which processes still map their libraries */
	uint64_t round_ns, polled_ns, left_ns, checked_ns, mappers_ns, cpus_ns; /* when each was done last */
	uint64_t sweep_ns, swept_ns; /* when this look at all processes began, and the last one that is complete */
	uint64_t cpu_ns;             /* of this thread, as of the last round */
	uint32_t owner_pid, owner;   /* of the event before */
	uint32_t fact_next;
	struct info_entry fact[ZN_PROCS_MAX];
	bool info_wanted; /* of some row */
	struct zn_places places;
	struct zn_services services;
	struct zn_holders holders;
	struct zn_gpu_files gpu_files; /* gpu 0: as /proc/devices has them */
};

static void count_lost(struct zn_find *f, enum zn_loss what)
{
	__atomic_fetch_add(&f->probe->arena.shared->lost[what], 1, __ATOMIC_RELAXED);
}

static bool is_due(uint64_t *last_ns, uint64_t now_ns, uint64_t every_ms)
{
	if (*last_ns && now_ns - *last_ns < every_ms * ZN_NS_PER_MS)
		return false;
	*last_ns = now_ns;
	return true;
}

/* Many events in a row are of one process. */
static uint32_t owner_of(struct zn_find *f, uint32_t pid)
{
	if (f->owner_pid != pid)
		f->owner = zn_owner_of((int)pid);
	f->owner_pid = pid;
	return f->owner;
}

/* Events of mappings were dropped, by us or by the kernel, for lack of room. */
static void event_lost(void *find)
{
	struct zn_find *f = find;

	count_lost(f, ZN_LOST_MAPPING);
	f->scan_all = true;
}

static void on_mapped(void *find, struct zn_map_event *e)
{
	struct zn_find *f = find;

	e->owner = owner_of(f, e->pid);
	if (!zn_map_events_add(&f->events, e))
		event_lost(f);
}

static void on_incomplete(void *find)
{
	((struct zn_find *)find)->scan_all = true;
}

static void mappings_drain(struct zn_find *f)
{
	f->owner_pid = 0; /* that process may have ended, or have another user by now */
	zn_mappings_drain(&f->mappings);
}

/* One executable mapping under a library's name: "from-to perms offset maj:min inode path". */
static void maps_line(struct zn_find *f, int pid, const char *line, size_t len)
{
	unsigned long from, to;
	char perms[5];
	const char *path;

	if (len < 20 || zn_library_kind(line, len) < 0)
		return;
	path = zn_maps_path(line);
	if (!path)
		return;
	/* another reader may look at the process before its event is handled */
	zn_mapped_process(zn_libraries_mapped(f->libraries), zn_map_events_since(&f->events, (uint32_t)pid));
	if (sscanf(line, "%lx-%lx %4s", &from, &to, perms) == 3 && perms[2] == 'x' &&
		zn_libraries_take(f->libraries, pid, from, to, (struct zn_str){path, len - (path - line)}) == -ENOENT)
		f->scan_all = true; /* it has gone since, but a child of it may have what it mapped */
}

static void maps_visit(void *find, uint32_t pid, const char *line, size_t len)
{
	maps_line(find, (int)pid, line, len);
}

/* ---- events of mappings ---- */

/* The file by its place, without a look at what else the process maps. False: it is not there any more, or not
 * alone. */
static bool place_look(struct zn_find *f, const struct zn_map_event *e)
{
	char name[80], path[PATH_MAX];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%u/map_files/%lx-%lx", e->pid, e->from, e->to);
	n = readlinkat(AT_FDCWD, name, path, sizeof(path));
	if (n <= 0 || n == sizeof(path) || memchr(path, '\n', n)) /* in a list of maps that is written as \012 */
		return false;
	return zn_library_kind(path, n) < 0 ||
		zn_libraries_take(f->libraries, e->pid, e->from, e->to, (struct zn_str){path, n}) == 0;
}

/* A reader for it; 0: all are busy, and with others' processes, because of one owner's only the first is looked at. */
static uint32_t reader_take(struct zn_find *f, uint32_t pid)
{
	for (uint32_t i = 0; i < READERS_MAX; i++)
		if (!f->reader[i].open) {
			zn_maps_open(&f->reader[i], "/proc", pid);
			return i + 1;
		}
	return 0;
}

/* A few lines of all that a process maps. True: that was all. */
static bool maps_look(struct zn_find *f, struct zn_map_event *e)
{
	struct zn_maps *reader;

	if (!e->reader)
		e->reader = reader_take(f, e->pid);
	if (!e->reader)
		return false;
	reader = &f->reader[e->reader - 1];
	if (zn_maps_step(reader, maps_visit, f))
		return false;
	if (!reader->any)
		f->scan_all = true; /* it is gone already, but a child of it may have what it mapped */
	return true;
}

/* True: nothing more is to be done. A process that has gone, or maps something else by now, is not looked for if
 * its file is in the table anyway. */
static bool event_look(struct zn_find *f, struct zn_map_event *e)
{
	zn_mapped_process(zn_libraries_mapped(f->libraries), e->mapped_ns);
	if (e->to) {
		if (e->pid == (uint32_t)getpid() || place_look(f, e) || zn_libraries_has(f->libraries, e->dev, e->ino))
			return true;
		e->to = 0;
	}
	return maps_look(f, e);
}

static void events_look(struct zn_find *f)
{
	uint64_t until_ns = zn_now_ns() + SLICE_MS * ZN_NS_PER_MS;
	struct zn_map_event *e;

	while ((e = zn_map_events_next(&f->events))) {
		if (event_look(f, e))
			zn_map_events_done(&f->events);
		if (zn_now_ns() > until_ns)
			break;
	}
}

/* ---- all processes ---- */

static void sweep_run(struct zn_find *f, uint64_t now_ns)
{
	uint64_t until_ns = now_ns + SLICE_MS * ZN_NS_PER_MS;

	if (!f->sweep.running) {
		if (!f->scan_all || !is_due(&f->sweep_ns, now_ns, SWEEP_MS))
			return;
		f->scan_all = false;
		zn_sweep_begin(&f->sweep, "/proc");
	}
	while (zn_sweep_step(&f->sweep, maps_visit, f))
		if (zn_now_ns() > until_ns)
			return;
	f->swept_ns = f->sweep_ns;
}

/* ---- the environment of a process: which GPUs it may see ---- */

/* Of the same process what it had open before still counts. */
static struct zn_process_info info_before(const struct info_entry *slot)
{
	struct zn_process_info info = {.id = slot->wanted};

	if (slot->info.id != slot->wanted)
		return info;
	info.looks = slot->info.looks;
	info.instances = slot->info.instances;
	info.minor_count = slot->info.minor_count;
	info.render_count = slot->info.render_count;
	memcpy(info.minors, slot->info.minors, sizeof(info.minors));
	memcpy(info.renders, slot->info.renders, sizeof(info.renders));
	return info;
}

/* Looks at all mappings of one process. False: it has more than are looked at for one process. */
static bool maps_look_at_once(struct zn_find *f, uint32_t pid)
{
	static struct zn_maps maps;
	int parts = 0;

	zn_maps_open(&maps, "/proc", pid);
	while (parts < MAPS_MAX && zn_maps_step(&maps, maps_visit, f))
		parts++;
	zn_maps_close(&maps);
	return parts < MAPS_MAX;
}

/* A child of a process that maps a library has mapped it without an event, and may have no mapper yet. */
static enum zn_ledger ledger_find(struct zn_find *f, int pid)
{
	enum zn_ledger ledger = zn_mapped_ledger(zn_libraries_mapped(f->libraries), pid);

	if (ledger == ZN_LEDGER_UNKNOWN) {
		if (!maps_look_at_once(f, (uint32_t)pid))
			return ZN_LEDGER_PARTIAL;
		ledger = zn_mapped_ledger(zn_libraries_mapped(f->libraries), pid);
	}
	zn_mapped_tell(zn_libraries_mapped(f->libraries));
	return ledger == ZN_LEDGER_UNKNOWN ? ZN_LEDGER_WHOLE : ledger; /* it maps none that is hooked */
}

/* When a process began, by the clock that all other times are of. */
static uint64_t started_ns(int pid)
{
	uint64_t now_ns = zn_now_ns(), slept_ns = zn_clock_ns(CLOCK_BOOTTIME) - now_ns, start_ns = zn_start_ns(pid);

	return start_ns > slept_ns ? start_ns - slept_ns : 0;
}

static void answer_info(struct zn_find *f, struct info_entry *slot)
{
	struct zn_process_info info = info_before(slot);
	enum zn_ledger ledger;
	int pid = slot->pid;

	slot->again = false;
	pthread_mutex_unlock(&f->lock); /* these may block */
	ledger = ledger_find(f, pid);
	zn_process_environ(pid, &info);
	zn_process_devices(&f->gpu_files, pid, &info);
	info.start_ns = started_ns(pid);
	info.slurm.uid = zn_uid_of(pid);
	info.owner = zn_owner_of(pid);
	pthread_mutex_lock(&f->lock);
	slot->info = info;
	slot->ledger = ledger;
}

static void serve_info(struct zn_find *f)
{
	uint64_t until_ns = zn_now_ns() + SLICE_MS * ZN_NS_PER_MS;
	uint32_t left;

	pthread_mutex_lock(&f->lock);
	left = f->info_wanted ? ZN_PROCS_MAX : 0;
	f->info_wanted = false;
	for (; left && zn_now_ns() < until_ns; left--) {
		struct info_entry *slot = &f->fact[f->fact_next++ % ZN_PROCS_MAX];

		if (slot->wanted != slot->info.id || slot->again)
			answer_info(f, slot);
	}
	f->info_wanted |= left > 0;
	pthread_mutex_unlock(&f->lock);
}

/* With the lock held. NULL: they are not there yet, and are asked for. */
static const struct info_entry *ask_info(struct zn_find *f, const struct zn_proc *p)
{
	struct info_entry *slot = &f->fact[p - f->probe->arena.procs];
	bool ready = slot->info.id == p->id;

	f->info_wanted |= !ready;
	slot->wanted = p->id;
	slot->pid = p->tgid;
	return ready ? slot : NULL;
}

bool zn_find_process_info(void *find, const struct zn_proc *p, struct zn_process_info *to)
{
	struct zn_find *f = find;
	const struct info_entry *slot;

	pthread_mutex_lock(&f->lock);
	slot = ask_info(f, p);
	if (slot)
		*to = slot->info;
	pthread_mutex_unlock(&f->lock);
	return slot;
}

/* Of a process that was gone before it could be looked at. There was no time in which it could have been there
 * before the daemon and not be found by its first scan. */
static bool was_short(const struct zn_proc *p)
{
	return p->exit_ns && p->exit_ns - p->first_ns < SHORT_LIFE_NS;
}

enum zn_ledger zn_find_ledger(void *find, const struct zn_proc *p)
{
	enum zn_ledger ledger = ZN_LEDGER_UNKNOWN;
	struct zn_find *f = find;
	const struct info_entry *slot;

	pthread_mutex_lock(&f->lock);
	slot = ask_info(f, p);
	if (zn_mapped_is_partial(zn_libraries_mapped(f->libraries), p->tgid))
		ledger = ZN_LEDGER_PARTIAL;
	else if (slot)
		ledger = slot->ledger;
	else if (was_short(p))
		ledger = ZN_LEDGER_WHOLE;
	pthread_mutex_unlock(&f->lock);
	return ledger;
}

uint64_t zn_find_partial_gpus(void *find)
{
	struct zn_find *f = find;
	uint64_t gpus;

	pthread_mutex_lock(&f->lock);
	gpus = zn_mapped_partial_gpus(zn_libraries_mapped(f->libraries));
	pthread_mutex_unlock(&f->lock);
	return gpus;
}

void zn_find_look(void *find, const struct zn_proc *p)
{
	struct zn_find *f = find;
	struct info_entry *slot = &f->fact[p - f->probe->arena.procs];

	pthread_mutex_lock(&f->lock);
	if (slot->wanted == p->id)
		slot->again = f->info_wanted = true;
	pthread_mutex_unlock(&f->lock);
}

void zn_find_place(void *find, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES])
{
	zn_places_ask(&((struct zn_find *)find)->places, pid, user, to);
}

bool zn_find_threads(void *find, struct zn_threads *to)
{
	return zn_places_threads(&((struct zn_find *)find)->places, to);
}

/* fork, and a mapping that was split, raise no event: before a library is let go, all processes are looked at once. */
static void libraries_check(struct zn_find *f)
{
	uint64_t unused_ns;

	zn_libraries_system(f->libraries);
	unused_ns = zn_libraries_check(f->libraries);
	f->scan_all |= unused_ns && unused_ns >= f->sweep_ns;
	f->scan_all |= zn_libraries_again(f->libraries);
	zn_libraries_release(f->libraries, f->swept_ns);
}

/* In slices: each process costs three system calls or more. */
static void mappers_check(struct zn_find *f, uint64_t now_ns)
{
	if (f->checking || is_due(&f->mappers_ns, now_ns, CHECK_MS))
		f->checking =
			!zn_mapped_check(zn_libraries_mapped(f->libraries), now_ns + CHECK_SLICE_MS * ZN_NS_PER_MS);
}

/* Work that nobody waits for, unlike the first look at all processes. Returns the CPU time that it took. */
static uint64_t idle_run(struct zn_find *f, uint64_t now_ns)
{
	uint64_t start_ns = zn_clock_ns(CLOCK_THREAD_CPUTIME_ID), spent_ns;

	if (!zn_pace_may(&f->idle, now_ns) && f->swept_ns)
		return 0;
	mappers_check(f, now_ns);
	sweep_run(f, zn_now_ns());
	zn_services_run(&f->services, zn_now_ns() + SLICE_MS * ZN_NS_PER_MS);
	zn_holders_run(&f->holders, zn_now_ns() + SLICE_MS * ZN_NS_PER_MS);
	spent_ns = zn_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
	zn_pace_spend(&f->idle, spent_ns);
	return spent_ns;
}

/* Work that users cause. All of it together has one share of a core, and the first of it does not keep the rest
 * waiting. */
static void work_run(struct zn_find *f, uint64_t now_ns)
{
	if (!zn_pace_may(&f->work, now_ns))
		return;
	events_look(f);
	serve_info(f);
	zn_children_find(&f->children, zn_now_ns() + SLICE_MS * ZN_NS_PER_MS);
}

static void cpus_tell(int err)
{
	if (err)
		zn_log(ZN_WARN,
			"find: no mapping events of a CPU that came online: %s%s; until then new libraries are found by "
			"scanning /proc",
			strerror(-err), err == -EACCES ? " (perf_event_paranoid is above 2): restart the daemon" : "");
	else
		zn_log(ZN_INFO, "find: mapping events of all CPUs again");
}

/* A CPU that was away needs new events, for which the daemon may have no capability left: only Debian's and Ubuntu's
 * kernels want it. */
static void follow_events(struct zn_find *f)
{
	int err = zn_mappings_open(&f->mappings);

	f->idle.percent = err ? WORK_PERCENT : IDLE_PERCENT;
	if (err != f->cpu_error)
		cpus_tell(err);
	f->cpu_error = err;
}

/* CPUs may go and come at any time. That their number is another one is seen at once; what one that was away for a
 * moment has lost is looked for now and then, as that takes 3 us for each. */
static void follow_cpus(struct zn_find *f, uint64_t now_ns)
{
	uint32_t cpus = zn_cpus_online();
	bool changed = cpus != f->cpus, due = is_due(&f->cpus_ns, now_ns, CPUS_MS);

	f->cpus = cpus;
	if (changed)
		zn_kernel_nodes(f->probe->arena.shared);
	if (f->by_events && (changed || due))
		follow_events(f);
	if (f->cpu_error)
		f->scan_all = true;
}

static void round_run(struct zn_find *f)
{
	uint64_t now_ns = zn_now_ns(), idle_ns, cpu_ns;

	__atomic_store_n(&f->round_ns, now_ns, __ATOMIC_RELAXED);
	if (f->by_events)
		mappings_drain(f);
	zn_places_serve(&f->places, now_ns);
	if (!f->by_events && is_due(&f->polled_ns, now_ns, SCAN_MS))
		f->scan_all = true;
	work_run(f, now_ns);
	idle_ns = idle_run(f, now_ns);
	zn_mapped_tell(zn_libraries_mapped(f->libraries));
	if (is_due(&f->left_ns, now_ns, ROUND_MS))
		zn_libraries_leave(f->libraries);
	if (is_due(&f->checked_ns, now_ns, CHECK_MS)) {
		libraries_check(f);
		zn_quota_tell(&f->events.quota, "mapping events", now_ns);
		follow_cpus(f, now_ns);
	}
	cpu_ns = zn_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	zn_pace_spend(&f->work, cpu_ns - f->cpu_ns - idle_ns);
	f->cpu_ns = cpu_ns;
}

uint64_t zn_find_round_ns(struct zn_find *f)
{
	return __atomic_load_n(&f->round_ns, __ATOMIC_RELAXED);
}

/* Whether there is more to do at once. */
static bool has_work(struct zn_find *f)
{
	bool wanted;

	pthread_mutex_lock(&f->lock);
	wanted = f->info_wanted;
	pthread_mutex_unlock(&f->lock);
	return wanted || f->events.quota.used || zn_children_pending(&f->children) || !f->swept_ns;
}

/* Until idle_run() is to be called again, at the latest. */
static int idle_wait_ms(const struct zn_find *f)
{
	uint64_t wait_ms = zn_pace_wait_ns(&f->idle) / ZN_NS_PER_MS + 1;

	return (f->sweep.running || f->checking || f->services.sweeping || f->holders.sweeping) && wait_ms < ROUND_MS
		? (int)wait_ms
		: ROUND_MS;
}

/* Sleeps until something was mapped, or until the next round; longer only where the thread has had its share of a core.
 * False: for good. */
static bool round_wait(struct zn_find *f)
{
	static struct pollfd wait[1 + ZN_MAPPINGS_CPUS];
	uint64_t debt_ns = zn_pace_wait_ns(&f->work);
	int n = 0, pause_ms = debt_ns ? (int)(debt_ns / ZN_NS_PER_MS) + 1 : has_work(f) ? 0 : GATHER_MS;

	wait[n++] = (struct pollfd){.fd = f->stop_fd, .events = POLLIN};
	poll(wait, n, pause_ms); /* what comes together is looked at together */
	if (pause_ms != GATHER_MS || wait[0].revents)
		return !(wait[0].revents & POLLIN);
	if (f->by_events)
		n += zn_mappings_poll(&f->mappings, wait + n);
	poll(wait, n, idle_wait_ms(f));
	return !(wait[0].revents & POLLIN);
}

static void *run_finder(void *arg)
{
	struct zn_find *f = arg;

	zn_libraries_system(f->libraries);
	do
		round_run(f);
	while (round_wait(f));
	__atomic_store_n(&f->closing, true, __ATOMIC_RELAXED);
	zn_libraries_close(f->libraries); /* here, as it reads what other threads may not */
	return NULL;
}

/* The first of --gpu-majors. */
static struct zn_gpu_files files_given(const struct zn_options *o)
{
	for (uint32_t major = 0; major < 64 * ZN_MAJOR_WORDS; major++)
		if (o->gpu_majors[major / 64] >> (major % 64) & 1)
			return (struct zn_gpu_files){.gpu = major, .given = true};
	return (struct zn_gpu_files){0};
}

static struct zn_find the_find; /* large, and there is one daemon in a process */

int zn_find_open(struct zn_find **to, struct zn_probe *probe, const struct zn_options *options)
{
	struct zn_find *f = &the_find;
	int err;

	f->probe = probe;
	zn_children_init(&f->children, &probe->arena);
	pthread_mutex_init(&f->lock, NULL);
	f->libraries = zn_libraries_open(probe, options, &f->lock);
	f->gpu_files = files_given(options);
	f->places.lock = &f->lock;
	zn_services_init(&f->services, probe, zn_libraries_mappers(f->libraries), &f->lock);
	zn_holders_init(&f->holders, probe, options, &f->lock);
	f->mappings =
		(struct zn_mappings){.owner = f, .mapped = on_mapped, .lost = event_lost, .incomplete = on_incomplete};
	err = zn_mappings_open(&f->mappings);
	f->by_events = err == 0;
	if (err) {
		zn_mappings_close(&f->mappings);
		zn_log(ZN_WARN,
			"find: no mapping events: %s; new libraries are found by scanning /proc every %d s, or less "
			"often where there are very many processes",
			strerror(-err), SCAN_MS / 1000);
	}
	f->work = (struct zn_pace){.percent = WORK_PERCENT, .burst_ns = WORK_BURST_MS * ZN_NS_PER_MS};
	f->idle = (struct zn_pace){
		.percent = f->by_events ? IDLE_PERCENT : WORK_PERCENT, .burst_ns = SLICE_MS * ZN_NS_PER_MS};
	f->scan_all = true; /* after the events are on: what is mapped in between is seen twice, never missed */
	f->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (f->stop_fd < 0)
		return -errno;
	*to = f;
	return 0;
}

int zn_find_start(struct zn_find *f)
{
	int err = zn_libraries_start(f->libraries);

	f->probe->arena.shared->since_ns = zn_now_ns();
	if (!err)
		err = zn_pages_thread(&f->thread, run_finder, f);
	f->running = err == 0;
	return err;
}

#define STOP_PATIENCE_S 5  /* for a round to end */
#define AWAY_PATIENCE_S 55 /* for probes to go: systemd's patience is 60 s, and before 6.6 each takes 0.1 s */

/* False: the thread is stuck in a read that does not return, or probes do not go. */
static bool thread_stop(struct zn_find *f)
{
	eventfd_write(f->stop_fd, 1);
	if (zn_pages_joined(f->thread, STOP_PATIENCE_S))
		return true;
	return __atomic_load_n(&f->closing, __ATOMIC_RELAXED) &&
		zn_pages_joined(f->thread, AWAY_PATIENCE_S - STOP_PATIENCE_S);
}

void zn_find_close(struct zn_find *f)
{
	if (!f)
		return;
	if (f->running && !thread_stop(f)) {
		zn_log(ZN_WARN, "find: %s; leaving without waiting for it",
			f->closing ? "the kernel does not take probes away" : "a file system does not answer");
		_exit(EXIT_SUCCESS); /* the kernel takes the probes away */
	}
	if (!f->running)
		zn_libraries_close(f->libraries);
	f->running = false;
	f->libraries = NULL;
	for (int i = 0; i < READERS_MAX; i++)
		zn_maps_close(&f->reader[i]);
	zn_sweep_close(&f->sweep);
	zn_children_close(&f->children);
	zn_services_close(&f->services);
	zn_holders_close(&f->holders);
	zn_mappings_close(&f->mappings);
	if (f->stop_fd > 0)
		close(f->stop_fd);
	f->stop_fd = -1;
}

struct zn_libraries *zn_find_libraries(struct zn_find *f)
{
	return f->libraries;
}

bool zn_find_by_events(const struct zn_find *f)
{
	return f->by_events;
}

struct zn_services *zn_find_services(struct zn_find *f)
{
	return &f->services;
}

void zn_find_holders(struct zn_find *f, struct zn_holders_list *to)
{
	pthread_mutex_lock(&f->lock);
	if (f->holders.list.looks != to->looks)
		*to = f->holders.list;
	pthread_mutex_unlock(&f->lock);
}
