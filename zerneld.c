/* SPDX-License-Identifier: GPL-2.0 */
/*
 * main: parses, opens the modules in order, runs the loop, closes. One binary with two names: `zerneld` is the
 * daemon, `zernel` its client verbs.
 */
#include "zernel.h"
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <unistd.h>

bool zn_ready;

#define EXIT_USAGE 2

struct daemon {
	struct zn_options options;
	struct zn_loop loop;
	struct zn_probe probe;
	struct zn_find *find;
	struct zn_stacks *stacks;
	struct zn_walker *walker;
	struct zn_sim sim;
	struct zn_agg agg;
	struct zn_counter_rates rates;
	struct zn_progress progress;
	struct zn_ranks ranks;
	struct zn_stopped stopped;
	struct zn_activity activity;
	struct zn_flights flights;
	struct zn_io activity_look;
	bool looks; /* that timer runs: somebody has used a GPU */
	struct zn_jobs_progress jobs_progress;
	struct zn_startup startup;
	struct zn_checkpoints checkpoints;
	struct zn_causes causes;
	struct zn_suspicions suspicions;
	struct zn_requests requests;
	struct zn_annotations annotations;
	struct zn_alerts alerts;
	struct zn_jobs jobs;
	struct zn_job_uses uses;
	struct zn_io_sums io_sums;
	struct zn_xids xids;
	struct zn_ooms ooms;
	struct zn_ghosts ghosts;
	struct zn_writer writer;
	struct zn_sender sender;
	struct zn_notify notify;
	struct zn_export export;
	char spool[ZN_TEXT_MAX];
	const char *folder[ZN_DIRECTORY_COUNT]; /* of the writer */
	struct zn_control *control;
	struct zn_history *history;
	struct zn_baselines *baselines;
	struct zn_serve serve;
	struct zn_state state;
	struct zn_io signals, tick, ring, sim_step, hang;
	int watchdog_fd;  /* systemd's socket, to which each tick says that the daemon is well; -1: it does not watch */
	int log_err;      /* -errno: the kernel's log cannot be read */
	bool exits;       /* a process has gone since the last refresh */
	bool hang_logged; /* the change of probes that hangs is in the log */
	bool series;      /* one of file I/O was made: it gets its name while that is right */
};
static struct daemon daemon_;

#define OWNER(io, member) ((struct daemon *)((char *)(io)-offsetof(struct daemon, member)))

static int reload_tokens(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_auth_reload(&d->serve.access, why);

	if (!err)
		snprintf(why, ZN_TEXT_MAX,
			d->options.token_file[0] ? "tokens in use: %u" : "no token file to read again",
			d->serve.access.tokens.count);
	return err;
}

static int reload_rules(struct daemon *d, char why[ZN_TEXT_MAX])
{
	return zn_alerts_reload(&d->alerts, why);
}

/* What SIGHUP reads again. Each function writes to `said` what has changed or what is wrong, and changes nothing
 * on an error. */
static const struct {
	int (*reload)(struct daemon *d, char said[ZN_TEXT_MAX]);
	const char *stays; /* after an error */
} reloads[] = {
	{reload_tokens, "the old tokens stay"},
	{reload_rules, "the old rules stay"},
};

static void reload_all(struct daemon *d)
{
	char said[ZN_TEXT_MAX];

	for (size_t i = 0; i < ZN_LEN(reloads); i++) {
		if (reloads[i].reload(d, said))
			zn_log(ZN_ERROR, "SIGHUP: %s; %s", said, reloads[i].stays);
		else
			zn_log(ZN_INFO, "SIGHUP: %s", said);
	}
}

static void on_signal(struct zn_io *io, uint32_t events)
{
	struct daemon *d = OWNER(io, signals);
	struct signalfd_siginfo info;

	(void)events;
	if (read(io->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		reload_all(d);
		return;
	}
	zn_log(ZN_INFO, "signal %u: stopping", info.ssi_signo);
	d->loop.stop = true;
}

/* A clock like zn_now_ns() that goes on while the machine is suspended. */
static uint64_t boot_ns(void)
{
	return zn_clock_ns(CLOCK_BOOTTIME);
}

/* Drivers may be loaded by the first process that needs them. */
static void gpu_majors_find(struct daemon *d)
{
	static const uint64_t none[ZN_MAJOR_WORDS];
	uint64_t majors[ZN_MAJOR_WORDS];

	if (memcmp(d->options.gpu_majors, none, sizeof(none)))
		memcpy(majors, d->options.gpu_majors, sizeof(majors));
	else
		zn_gpu_majors_read("/proc/devices", majors);
	for (int i = 0; i < ZN_MAJOR_WORDS; i++)
		__atomic_store_n(&d->probe.arena.shared->gpu_majors[i], majors[i], __ATOMIC_RELAXED);
}

static void live_tick(struct daemon *d)
{
	bool wanted = d->probe.arena.shared->procs > 0;
	char why[ZN_TEXT_MAX];

	d->probe.arena.shared->wall_ns = zn_wall_ms() * ZN_NS_PER_MS - zn_now_ns();
	zn_kernel_want(&d->probe.kernel, wanted);
	if (wanted)
		gpu_majors_find(d);
	zn_ends_check(&d->probe);
	if (d->state.find)
		zn_services_take(zn_find_services(d->state.find), zn_requests_found, &d->requests);
	zn_kernel_serve(&d->probe.kernel, d->requests.count > 0);
	zn_bpf_request_tick(&d->probe, zn_now_ns());
	d->hang_logged = d->hang_logged && zn_state_hang(&d->state, why);
	if (d->state.find)
		zn_quota_tell(zn_libraries_quota(zn_find_libraries(d->state.find)), "libraries", zn_now_ns());
	zn_bpf_quota_tick(&d->probe, zn_now_ns());
	zn_quota_tell(&d->io_sums.quota, "pairs of a job and a mount", zn_now_ns());
	zn_quota_tell(&d->io_sums.mounts.quota, "mounts", zn_now_ns());
	zn_quota_tell(&d->agg.gpus.quota, "names of GPUs", zn_now_ns());
}

/* A node at rest is not woken for looks at nobody. */
static void look_if_needed(struct daemon *d)
{
	bool needed = d->agg.row_count && !d->options.simulate;

	if (needed != d->looks)
		zn_timer_set(&d->activity_look, needed ? ZN_ACTIVITY_MS : 0);
	d->looks = needed;
}

/* The process that the driver named lives for a moment longer. */
static void xids_tick(struct daemon *d)
{
	zn_xids_tick(&d->xids);
	for (uint32_t i = 0; i < d->xids.count; i++) {
		struct zn_xid *x = &d->xids.xid[i];

		for (uint32_t r = 0; x->pid && !x->job[0] && r < d->agg.row_count; r++) {
			const struct zn_proc *p = zn_arena_proc(d->agg.arena, d->agg.row[r]);

			if (p && p->tgid == x->pid)
				snprintf(x->job, sizeof(x->job), "%s", zn_job_id(&d->jobs, p));
		}
	}
}

static void ghosts_tick(struct daemon *d, uint64_t now)
{
	if (d->options.simulate) {
		zn_sim_job_ghosts(&d->sim, &d->ghosts, now);
		return;
	}
	if (d->state.find)
		zn_find_holders(d->state.find, &d->ghosts.holders);
	zn_ghosts_tick(&d->ghosts, &d->jobs, now);
}

static void on_tick(struct zn_io *io, uint32_t events)
{
	struct daemon *d = OWNER(io, tick);
	uint64_t now = zn_now_ns(), boot = boot_ns();

	(void)events;
	if (zn_timer_count(io) == 0)
		return;
	d->state.ticks++;
	if (!d->options.simulate)
		live_tick(d);
	xids_tick(d);
	zn_agg_tick(&d->agg, now);
	look_if_needed(d);
	zn_rates_tick(&d->rates, &d->agg, now);
	zn_progress_tick(&d->progress, &d->agg, now);
	zn_ranks_tick(&d->ranks, now);
	zn_stopped_tick(&d->stopped, &d->agg, &d->progress, now);
	if (d->options.simulate)
		zn_sim_stop(&d->sim, &d->stopped);
	zn_startup_tick(&d->startup, now);
	zn_checkpoints_tick(&d->checkpoints, now);
	zn_causes_tick(&d->causes, now);
	zn_requests_tick(&d->requests, now);
	zn_suspicion_hangs(&d->suspicions, &d->causes, now);
	zn_suspicion_tick(&d->suspicions, now);
	zn_annotations_tick(&d->annotations);
	zn_history_tick(d->history, &d->agg, boot);
	zn_baselines_tick(d->baselines, &d->agg, d->history, boot);
	zn_alerts_tick(&d->alerts, now);
	zn_flights_tick(&d->flights, now);
	zn_sender_tick(&d->sender);
	zn_notify_tick(&d->notify, now);
	zn_jobs_tick(&d->jobs, now);
	if (d->options.simulate)
		zn_sim_job_use(&d->sim, &d->uses);
	else
		zn_use_tick(&d->uses, now);
	ghosts_tick(d, now);
	zn_io_sums_tick(&d->io_sums, now);
	zn_io_sums_causes(&d->io_sums, &d->causes);
	if (d->options.simulate)
		zn_sim_limits(&d->sim, &d->causes);
	else
		zn_cgroup_throttle(&d->causes, "/proc");
	zn_jobs_progress_tick(&d->jobs_progress, &d->jobs, &d->progress, &d->io_sums, now);
	zn_export_tick(&d->export, now); /* behind all that the page shows */
	zn_control_tick(d->control, now);
	zn_log_tick(now);
	zn_state_tick(&d->state);
	zn_serve_tick(&d->serve, now);
	d->state.tick_ns = now;
	zn_systemd_tell(d->watchdog_fd, "WATCHDOG=1");
}

static void on_job_start(void *daemon, const struct zn_job *job)
{
	struct daemon *d = daemon;

	zn_log(ZN_DEBUG, "job %s starts", job->id);
	if (job->source != ZN_JOB_BY_CGROUP) /* no prolog announced this job: its control group is found again */
		zn_spool_record(&d->writer, job);
}

static void on_job_end(void *daemon, struct zn_job *job)
{
	struct daemon *d = daemon;

	zn_log(ZN_DEBUG, "job %s has ended", job->id);
	zn_io_sums_refresh(&d->io_sums);
	job->reported = zn_report_keep(&d->state, job);
	zn_spool_forget(&d->writer, job);
}

static void on_flight(void *daemon, const char *name, struct zn_str text)
{
	zn_writer_write(&((struct daemon *)daemon)->writer, ZN_DIRECTORY_REPORTS, name, text);
}

#define SIM_STEP_MS 100

static void on_sim_step(struct zn_io *io, uint32_t events)
{
	struct daemon *d = OWNER(io, sim_step);

	(void)events;
	zn_sim_step(&d->sim, zn_timer_count(io) * SIM_STEP_MS);
	zn_activity_look(&d->activity, &d->agg, &d->ranks, zn_now_ns());
}

static void on_activity_look(struct zn_io *io, uint32_t events)
{
	struct daemon *d = OWNER(io, activity_look);

	(void)events;
	if (zn_timer_count(io))
		zn_activity_look(&d->activity, &d->agg, &d->ranks, zn_now_ns());
}

static void on_device(struct daemon *d, const struct zn_event *ev)
{
	zn_mounts_use(&d->io_sums.mounts, ev->detail, ev->tgid, ev->bytes, ev->row);
	d->series = true;
}

/* With what its job had at the last look: now it may have less. */
static void on_oom(struct daemon *d, const struct zn_oom *oom)
{
	struct zn_oom_kill *k = zn_oom_add(&d->ooms, oom, d->agg.arena->jobs);
	const struct zn_job_use *u = oom->job.slot < ZN_JOBS_MAX ? &d->uses.use[oom->job.slot] : NULL;

	if (!u || !oom->job.serial || u->serial != oom->job.serial || !u->kinds_known)
		return;
	k->job[ZN_OOM_FILE] = u->memory[ZN_MEMORY_FILE];
	k->job[ZN_OOM_ANON] = u->memory[ZN_MEMORY_ANON];
	k->job[ZN_OOM_SHMEM] = u->memory[ZN_MEMORY_SHMEM];
}

/* The ring buffer only hurries: what a process did and that it has ended is in the arena. */
static void on_event(void *owner, const struct zn_event *ev)
{
	struct daemon *d = owner;

	if (ev->type == ZN_EV_EXIT)
		d->exits = true;
	else if (ev->type == ZN_EV_PROC)
		zn_kernel_want(&d->probe.kernel, true);
	else if (ev->type == ZN_EV_ALLOC_FAILED)
		zn_log(ZN_DEBUG, "process %u: allocation of %llu bytes failed: CUresult %u", ev->tgid,
			(unsigned long long)ev->bytes, ev->detail);
	else if (ev->type == ZN_EV_OOM)
		on_oom(d, (const struct zn_oom *)ev);
	else if (ev->type == ZN_EV_STACK && d->walker)
		zn_walker_wake(d->walker);
	else if (ev->type == ZN_EV_DEVICE)
		on_device(d, ev);
	else if (ev->type == ZN_EV_LISTEN && d->state.find)
		zn_services_listen(zn_find_services(d->state.find), ev->tgid);
	else if (ev->type == ZN_EV_COMM_ABORT)
		zn_log(ZN_WARN, "process %u: ncclCommAbort", ev->tgid);
}

static void on_ring(struct zn_io *io, uint32_t events)
{
	struct daemon *d = OWNER(io, ring);

	(void)events;
	zn_probe_consume(&d->probe);
	if (d->exits)
		zn_agg_refresh(&d->agg);
	d->exits = false;
	if (d->series)
		zn_io_sums_refresh(&d->io_sums);
	d->series = false;
}

/* Probes are being put on a file, or taken away, and the kernel waits. */
static void on_hang(struct zn_io *io, uint32_t events)
{
	struct daemon *d = OWNER(io, hang);
	char why[ZN_TEXT_MAX];

	(void)events;
	if (zn_timer_count(io) && zn_state_hang(&d->state, why) && !d->hang_logged) {
		d->hang_logged = true;
		zn_log(ZN_ERROR, "libraries: %s", why);
	}
}

static void view_open(struct daemon *d)
{
	struct zn_state *state = &d->state;
	struct utsname u;

	state->options = &d->options;
	state->agg = &d->agg;
	state->alerts = &d->alerts;
	state->rates = &d->rates;
	zn_ranks_init(&d->ranks, &d->agg, &d->progress, d->options.simulate ? NULL : "/proc");
	zn_causes_init(&d->causes, &d->agg, &d->progress, &d->ranks);
	d->stopped.proc = d->causes.proc = d->ranks.proc;
	d->causes.stopped = &d->stopped;
	state->causes = &d->causes;
	zn_startup_init(&d->startup, &d->agg, zn_now_ns());
	d->causes.startup = &d->startup;
	zn_checkpoints_init(&d->checkpoints, &d->agg);
	d->causes.checkpoints = &d->checkpoints;
	state->checkpoints = &d->checkpoints;
	state->startup = &d->startup;
	state->progress = &d->progress;
	state->ranks = &d->ranks;
	state->stopped = &d->stopped;
	state->ooms = &d->ooms;
	state->ghosts = &d->ghosts;
	state->flights = &d->flights;
	state->annotations = &d->annotations;
	d->flights.state = state;
	d->flights.write = on_flight;
	d->flights.owner = d;
	state->jobs_progress = &d->jobs_progress;
	state->http = &d->serve.stats;
	state->start_ns = zn_now_ns();
	state->start_wall_ms = zn_wall_ms();
	if (uname(&u) == 0) {
		snprintf(state->node, sizeof(state->node), "%.64s", u.nodename);
		snprintf(state->release, sizeof(state->release), "%.64s", u.release);
	}
	zn_state_tick(state);
}

static int signals_open(struct daemon *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL)) /* before any thread starts, so that all inherit it */
		return -errno;
	d->signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	d->signals.ready = on_signal;
	return d->signals.fd < 0 ? -errno : zn_loop_add(&d->loop, &d->signals, EPOLLIN);
}

/* Without the log there are no errors of GPUs, and everything else. */
static void log_open(struct daemon *d)
{
	d->state.xids = &d->xids;
	if (d->options.kmsg[0])
		d->log_err = zn_xids_open(&d->xids, d->options.kmsg);
}

static int live_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_probe_open(&d->probe, d->options.families, d->options.method, d->options.table_cpus, why);

	if (err)
		return err;
	gpu_majors_find(d);
	log_open(d);
	d->probe.event = on_event;
	d->probe.owner = d;
	d->probe.arena.job_tree = zn_cgroup_tree;
	zn_agg_init(&d->agg, &d->probe.arena);
	d->agg.measured = zn_kernel_measured(&d->probe.kernel);
	zn_requests_init(&d->requests, &d->probe.arena);
	d->requests.ended = zn_services_ended;
	zn_gpus_read(&d->agg.gpus, "/proc/driver/nvidia/gpus", "/sys/class/drm");
	d->state.probe = &d->probe;
	err = zn_find_open(&d->find, &d->probe, &d->options);
	if (!err && d->probe.kernel.method[ZN_FAM_STACKS] != ZN_METHOD_NONE)
		err = zn_stacks_open(&d->stacks);
	if (!err && d->stacks)
		err = zn_walker_open(&d->walker, &d->probe, d->stacks);
	if (!err)
		err = zn_sandbox_capabilities(!d->probe.multi);
	if (!err)
		err = zn_find_start(d->find);
	if (!err && d->walker)
		err = zn_walker_start(d->walker);
	if (err) {
		snprintf(why, ZN_TEXT_MAX, "cannot start the library finder with fewer privileges: %s", strerror(-err));
		return err;
	}
	d->state.find = d->find;
	d->state.stacks = d->stacks;
	d->state.walker = d->walker;
	d->hang = (struct zn_io){.fd = zn_libraries_timer(zn_find_libraries(d->find)), .ready = on_hang};
	if (d->hang.fd >= 0 && (err = zn_loop_add(&d->loop, &d->hang, EPOLLIN)))
		return err;
	d->agg.process_info = zn_find_process_info;
	d->ranks.place = d->stopped.place = zn_find_place;
	d->ranks.owner = d->stopped.owner = d->find;
	d->flights.look = zn_find_threads;
	d->flights.owner_of_look = d->find;
	d->agg.ledger = zn_find_ledger;
	d->agg.partial_gpus = zn_find_partial_gpus;
	d->agg.look = zn_find_look;
	d->agg.owner = d->find;
	d->ring = (struct zn_io){.fd = zn_probe_ring_fd(&d->probe), .ready = on_ring};
	return zn_loop_add(&d->loop, &d->ring, EPOLLIN);
}

static int sim_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_sim_open(&d->sim, d->options.simulate_seed);

	if (!err) {
		zn_sim_scenario(&d->sim, d->options.simulate_scenario, d->options.simulate_cycle_s);
		zn_agg_init(&d->agg, &d->sim.memory.arena);
		zn_requests_init(&d->requests, &d->sim.memory.arena);
		d->agg.process_info = zn_sim_process_info;
		d->state.xids = d->sim.xids = &d->xids;
		d->sim.ooms = &d->ooms;
		d->sim_step.ready = on_sim_step;
		err = zn_timer_open(&d->sim_step, SIM_STEP_MS);
	}
	if (!err)
		err = zn_sandbox_capabilities(false);
	if (!err)
		err = zn_loop_add(&d->loop, &d->sim_step, EPOLLIN);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot simulate: %s", strerror(-err));
	return err;
}

static int loop_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_loop_open(&d->loop);

	if (!err)
		err = signals_open(d);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot open the event loop: %s", strerror(-err));
	return err;
}

static int history_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_history_open(&d->history);

	if (!err)
		err = zn_baselines_open(&d->baselines);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot get memory for the history: %s", strerror(-err));
	d->state.history = d->history;
	d->state.baselines = d->baselines;
	return err;
}

static int serve_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	return zn_serve_open(&d->serve, &d->loop, &d->state, why);
}

static int tick_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err;

	d->tick.ready = on_tick;
	d->activity_look.ready = on_activity_look;
	err = zn_timer_open(&d->tick, d->options.push_interval_ms);
	if (!err)
		err = zn_loop_add(&d->loop, &d->tick, EPOLLIN);
	if (!err)
		err = zn_timer_open(&d->activity_look, 0);
	if (!err)
		err = zn_loop_add(&d->loop, &d->activity_look, EPOLLIN);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot open the timer: %s", strerror(-err));
	return err;
}

static int writer_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	zn_message_folder(d->spool, d->options.control);
	d->folder[ZN_DIRECTORY_REPORTS] = d->options.report_dir;
	d->folder[ZN_DIRECTORY_SPOOL] = d->spool;
	d->state.writer = &d->writer;
	return zn_writer_open(&d->writer, d->folder, why);
}

static int sender_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err;

	d->state.sender = &d->sender;
	err = zn_sender_open(&d->sender, &d->options, why);
	if (err && !zn_sender_wanted(&d->options)) { /* it is the default, and no reason to do nothing at all */
		zn_log(ZN_WARN, "ras: %s; NCCL is not asked about jobs that hang", why);
		zn_sender_close(&d->sender);
		err = 0;
	}
	return err;
}

static int notify_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	(void)why;
	zn_notify_init(&d->notify, &d->state, &d->sender, zn_serve_port(&d->serve, false));
	d->alerts.changed = zn_notify_changed;
	d->alerts.owner = &d->notify;
	zn_export_init(&d->export, &d->state, &d->sender);
	zn_suspicion_init(&d->suspicions, &d->agg, &d->sender, "/proc");
	d->suspicions.send = zn_sender_ask;
	d->state.suspicions = &d->suspicions;
	d->state.notify = &d->notify;
	d->state.export = &d->export;
	return 0;
}

/* First, so that a limit that is too low is one line. */
static int files_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	return d->options.simulate ? 0 : zn_probe_files(why);
}

static int source_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	return d->options.simulate ? sim_open(d, why) : live_open(d, why);
}

/* The rules are read first: a mistake in them is reported before anything is opened. */
static int alerts_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	d->alerts.work.source = zn_samples_source(&d->state);
	d->alerts.work.whose = d->options.simulate ? NULL : zn_samples_owner;
	return zn_alerts_open(&d->alerts, &d->options, zn_metrics_type, why);
}

/* Jobs that run already are found before messages about them arrive. */
static int jobs_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_jobs_open(&d->jobs, &d->agg, &d->alerts);

	if (err) {
		snprintf(why, ZN_TEXT_MAX, "cannot get memory for jobs: %s", strerror(-err));
		return err;
	}
	d->jobs.activity = &d->activity;
	d->jobs.started = on_job_start;
	d->jobs.ended = on_job_end;
	d->jobs.owner = d;
	d->jobs.lost = zn_state_lost;
	d->jobs.state = &d->state;
	d->state.jobs = &d->jobs;
	zn_use_init(&d->uses, &d->jobs, zn_cgroup_folders);
	d->state.uses = &d->uses;
	if (d->options.simulate) {
		zn_sim_jobs(&d->sim, &d->jobs);
		d->sim.annotations = &d->annotations;
		return 0;
	}
	zn_cgroup_scan(&d->probe.arena, "/proc");
	zn_jobs_found(&d->jobs);
	return 0;
}

static void on_mounts(void *daemon)
{
	zn_io_sums_refresh(&((struct daemon *)daemon)->io_sums);
}

/* Without the list of mounts I/O is counted all the same. */
static int io_sums_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err;

	(void)why;
	zn_io_sums_init(&d->io_sums, d->agg.arena, &d->jobs);
	d->state.io_sums = &d->io_sums;
	if (d->options.simulate) {
		zn_sim_mounts(&d->io_sums.mounts);
		return 0;
	}
	d->io_sums.mounts.look = on_mounts;
	d->io_sums.mounts.owner = d;
	err = zn_mounts_open(&d->io_sums.mounts, &d->loop, "/proc");
	if (err)
		zn_log(ZN_WARN, "mount: cannot follow the list of mounts: %s; mounts are shown as unknown",
			strerror(-err));
	return 0;
}

static int control_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	return zn_control_open(&d->control, &d->loop, &d->state, d->options.control, why);
}

/* In this order. The writer and the sender are processes of their own and have nothing of the rest. Capabilities go
 * with the source's; threads may be started after that. */
static int (*const modules[])(struct daemon *d, char why[ZN_TEXT_MAX]) = {alerts_open, files_open, writer_open,
	sender_open, loop_open, history_open, serve_open, source_open, jobs_open, io_sums_open, notify_open,
	control_open, tick_open};

static void closed_clear(struct daemon *d)
{
	d->loop.fd = d->signals.fd = d->tick.fd = d->ring.fd = d->hang.fd = d->sim_step.fd = d->writer.worker.fd =
		d->sender.worker.fd = d->xids.fd = -1;
	zn_mounts_init(&d->io_sums.mounts);
}

static int daemon_open(struct daemon *d, char why[ZN_TEXT_MAX])
{
	int err = 0;

	closed_clear(d);
	view_open(d);
	for (size_t i = 0; i < ZN_LEN(modules) && !err; i++)
		err = modules[i](d, why);
	return err;
}

static void daemon_close(struct daemon *d)
{
	zn_control_close(d->control);
	zn_serve_close(&d->serve);
	zn_walker_close(d->walker);
	zn_find_close(d->find);
	zn_stacks_close(d->stacks);
	d->ring.fd = d->hang.fd = -1; /* the ring buffer's own, and the libraries' */
	zn_mounts_close(&d->io_sums.mounts);
	zn_xids_close(&d->xids);
	zn_jobs_close(&d->jobs);
	if (d->options.simulate)
		zn_sim_close(&d->sim);
	else
		zn_probe_close(&d->probe);
	zn_loop_forget(&d->loop, &d->tick);
	zn_loop_forget(&d->loop, &d->sim_step);
	zn_loop_forget(&d->loop, &d->signals);
	zn_loop_close(&d->loop);
	zn_history_close(d->history);
	zn_baselines_close(d->baselines);
	zn_writer_close(&d->writer);
	zn_sender_close(&d->sender);
}

static int fail_with(const char *why)
{
	fprintf(stderr, "zerneld: %s\n", why);
	return EXIT_FAILURE;
}

static int run_daemon(struct daemon *d)
{
	char why[ZN_TEXT_MAX] = "";
	int err = daemon_open(d, why);

	d->watchdog_fd = err ? -1 : zn_systemd_open(); /* the filter allows no further socket */
	if (!err)
		zn_confine_loop(&d->options, d->folder);
	if (!err && (err = zn_sandbox_system_calls()))
		snprintf(why, sizeof(why), "cannot filter system calls: %s", strerror(-err));
	if (err) {
		daemon_close(d);
		return fail_with(why[0] ? why : strerror(-err));
	}
	zn_writer_warn(&d->writer, d->folder);
	if (d->log_err)
		zn_announce_no_xids(&d->options, d->log_err);
	if (!d->options.simulate)
		zn_announce_families(&d->options, &d->probe);
	zn_log_burst = 20;
	malloc_trim(0); /* what libbpf needed to load is not needed any more */
	zn_announce_ready(&d->options, &d->serve);
	zn_systemd_tell(d->watchdog_fd, "READY=1");
	if (!zn_systemd_watches())
		zn_fd_close(&d->watchdog_fd);
	zn_ready = true;
	err = zn_loop_run(&d->loop);
	zn_ready = false;
	zn_fd_close(&d->watchdog_fd);
	daemon_close(d);
	return err ? fail_with(strerror(-err)) : EXIT_SUCCESS;
}

/* The service's options are read as it would: the environment of the shell wins over them. */
static int check_service(struct daemon *d, int argc, char **argv)
{
	struct zn_service service;
	char why[ZN_TEXT_MAX];

	zn_service_ask(&service);
	if (service.there && zn_service_options(&service)) {
		d->options = (struct zn_options){0};
		if (zn_options_read(&d->options, NULL, argc, argv, why)) {
			fail_with(why);
			return EXIT_USAGE;
		}
	}
	return zn_diagnose_node(&(struct zn_diagnosis){&d->options, &d->probe, &d->sender, &d->xids}, &service);
}

static int daemon_main(int argc, char **argv)
{
	struct daemon *d = &daemon_;
	char why[ZN_TEXT_MAX];

	if (argc == 2 && strcmp(argv[1], "--docs") == 0) {
		zn_metrics_docs(stdout);
		return EXIT_SUCCESS;
	}
	if (zn_options_read(&d->options, NULL, argc, argv, why)) {
		fail_with(why);
		return EXIT_USAGE;
	}
	if (d->options.help)
		zn_options_help(stdout);
	else if (d->options.version)
		printf("zerneld %s %s\n", zn_version, zn_commit);
	else if (d->options.list_metrics)
		zn_metrics_list(stdout);
	else if (d->options.list_probes)
		return zn_diagnose_probes(&(struct zn_diagnosis){&d->options, &d->probe, &d->sender, &d->xids});
	else
		return d->options.check ? check_service(d, argc, argv) : run_daemon(d);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "zerneld";

	return strcmp(name, "zernel") == 0 ? zn_verbs_run(argc, argv) : daemon_main(argc, argv);
}
