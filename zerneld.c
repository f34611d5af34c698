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
#include <unistd.h>

bool zn_ready;

#define EXIT_USAGE 2 /* for which the unit has no further start: trying again would not help */

static struct zn_daemon daemon_;

static int reload_tokens(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_auth_reload(&d->serve.access, why);

	if (!err && d->options.token_file[0])
		snprintf(why, ZN_TEXT_MAX, "tokens in use: %u", d->serve.access.tokens.count);
	else if (!err && !d->options.outbound_token_file[0])
		snprintf(why, ZN_TEXT_MAX, "no token file to read again");
	return err;
}

static int reload_outbound(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	return zn_sender_reload(&d->sender, &d->options, why);
}

static int reload_rules(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	return zn_alerts_reload(&d->alerts, why);
}

/* What SIGHUP reads again. Each function writes to `said` what has changed or what is wrong, or nothing if it is not
 * there, and changes nothing on an error. */
static const struct {
	int (*reload)(struct zn_daemon *d, char said[ZN_TEXT_MAX]);
	const char *stays; /* after an error */
} reloads[] = {
	{reload_tokens, "the old tokens stay"},
	{reload_outbound, "the old one stays"},
	{reload_rules, "the old rules stay"},
};

static void reload_all(struct zn_daemon *d)
{
	char said[ZN_TEXT_MAX];

	for (size_t i = 0; i < ZN_LEN(reloads); i++) {
		if (reloads[i].reload(d, said))
			zn_log(ZN_ERROR, "SIGHUP: %s; %s", said, reloads[i].stays);
		else if (said[0])
			zn_log(ZN_INFO, "SIGHUP: %s", said);
	}
}

static void on_signal(struct zn_io *io, uint32_t events)
{
	struct zn_daemon *d = ZN_DAEMON_OF(io, signals);
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

static void on_job_start(void *daemon, const struct zn_job *job)
{
	struct zn_daemon *d = daemon;

	zn_log(ZN_DEBUG, "job %s %s", job->id, job->epilog ? "is ending" : "starts");
	if (job->source != ZN_JOB_BY_CGROUP) /* no prolog announced this job: its control group is found again */
		zn_spool_record(&d->writer, job);
}

static void on_job_end(void *daemon, struct zn_job *job)
{
	struct zn_daemon *d = daemon;

	zn_log(ZN_DEBUG, "job %s has ended", job->id);
	zn_io_sums_refresh(&d->io_sums);
	zn_energies_end(&d->energies, job, zn_now_ns());
	job->reported = zn_report_keep(&d->state, job);
	zn_spool_forget(&d->writer, job);
}

static void on_flight(void *daemon, const char *name, struct zn_str text)
{
	zn_writer_write(&((struct zn_daemon *)daemon)->writer, ZN_DIRECTORY_REPORTS, name, text);
}

#define SIM_STEP_MS 100

static void on_sim_step(struct zn_io *io, uint32_t events)
{
	struct zn_daemon *d = ZN_DAEMON_OF(io, sim_step);

	(void)events;
	zn_sim_step(&d->sim, zn_timer_count(io) * SIM_STEP_MS);
	zn_activity_look(&d->activity, &d->agg, &d->ranks, zn_now_ns());
}

static void on_activity_look(struct zn_io *io, uint32_t events)
{
	struct zn_daemon *d = ZN_DAEMON_OF(io, activity_look);

	(void)events;
	if (!zn_timer_count(io))
		return;
	zn_activity_look(&d->activity, &d->agg, &d->ranks, zn_now_ns());
	zn_budget_slot(&d->budget, zn_now_ns());
}

static void on_device(struct zn_daemon *d, const struct zn_event *ev)
{
	zn_mounts_use(&d->io_sums.mounts, ev->detail, ev->tgid, ev->bytes, ev->row);
	d->series = true;
}

/* With what its job had at the last look: now it may have less. */
static void on_oom(struct zn_daemon *d, const struct zn_oom *oom)
{
	struct zn_oom_kill *k = zn_oom_add(&d->ooms, oom, d->agg.arena);
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
	struct zn_daemon *d = owner;

	if (ev->type == ZN_EV_EXIT)
		d->exits = true;
	else if (ev->type == ZN_EV_PROC)
		zn_kernel_want(&d->probe.kernel, true);
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
	struct zn_daemon *d = ZN_DAEMON_OF(io, ring);

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
	struct zn_daemon *d = ZN_DAEMON_OF(io, hang);
	char why[ZN_TEXT_MAX];

	(void)events;
	if (zn_timer_count(io) && zn_state_hang(&d->state, why) && !d->hang_logged) {
		d->hang_logged = true;
		zn_log(ZN_ERROR, "libraries: %s", why);
	}
}

static void view_open(struct zn_daemon *d)
{
	struct zn_state *state = &d->state;

	state->options = &d->options;
	state->agg = &d->agg;
	state->alerts = &d->alerts;
	state->rates = &d->rates;
	zn_ranks_init(&d->ranks, &d->agg, &d->progress, d->options.simulate ? NULL : "/proc");
	zn_causes_init(&d->causes, &d->agg, &d->progress, &d->ranks);
	d->stopped.proc = d->causes.proc = d->blocked.proc = d->ranks.proc;
	d->blocked.stopped = &d->stopped;
	d->causes.stopped = &d->stopped;
	d->jobs_progress.stopped = &d->stopped;
	state->causes = &d->causes;
	state->servings = &d->servings;
	zn_startup_init(&d->startup, &d->agg, zn_now_ns());
	d->causes.startup = &d->startup;
	zn_checkpoints_init(&d->checkpoints, &d->agg);
	d->causes.checkpoints = &d->checkpoints;
	state->checkpoints = &d->checkpoints;
	state->startup = &d->startup;
	state->progress = &d->progress;
	state->ranks = &d->ranks;
	state->stopped = &d->stopped;
	state->blocked = &d->blocked;
	zn_budget_init(&d->budget, &d->agg, &d->options, zn_cpus_online());
	state->budget = &d->budget;
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
	zn_state_tick(state);
}

static int signals_open(struct zn_daemon *d)
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

static int sim_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_sim_open(&d->sim, d->options.simulate_seed);

	if (!err) {
		zn_sim_scenario(&d->sim, d->options.simulate_scenario, d->options.simulate_cycle_s);
		zn_agg_init(&d->agg, &d->sim.memory.arena);
		zn_requests_init(&d->requests, &d->sim.memory.arena);
		zn_serving_init(&d->servings, &d->sim.memory.arena);
		d->agg.process_info = zn_sim_process_info;
		d->state.xids = d->sim.xids = &d->xids;
		d->sim.ooms = &d->ooms;
		d->sim_step.ready = on_sim_step;
		if (d->options.stacks)
			err = zn_stacks_open(&d->stacks);
		d->state.stacks = d->sim.stacks = d->stacks;
		d->sim.natives = d->options.stacks == ZN_STACKS_NATIVE;
	}
	if (!err)
		err = zn_timer_open(&d->sim_step, SIM_STEP_MS);
	if (!err)
		err = zn_sandbox_capabilities(false);
	if (!err)
		err = zn_loop_add(&d->loop, &d->sim_step, EPOLLIN);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot simulate: %s", strerror(-err));
	return err;
}

static int loop_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_loop_open(&d->loop);

	if (!err)
		err = signals_open(d);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot open the event loop: %s", strerror(-err));
	return err;
}

static int history_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_history_open(&d->history);

	if (!err)
		err = zn_baselines_open(&d->baselines);
	if (!err)
		err = zn_latency_open(&d->latency);
	if (!err)
		err = zn_slowness_open(&d->slowness);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot get memory for the history: %s", strerror(-err));
	d->state.history = d->history;
	d->state.baselines = d->baselines;
	d->state.latency = d->latency;
	d->state.slowness = d->slowness;
	if (!err && d->options.simulate)
		zn_slowness_front(d->slowness, zn_sim_servers_front, &d->sim);
	return err;
}

static int serve_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	return zn_serve_open(&d->serve, &d->loop, &d->state, why);
}

static int tick_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err;

	d->tick.ready = zn_daemon_on_tick;
	d->activity_look.ready = on_activity_look;
	err = zn_timer_open(&d->tick, 0); /* it begins when all is there to be looked at */
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

static int writer_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	zn_message_folder(d->spool, d->options.control);
	d->folder[ZN_DIRECTORY_REPORTS] = d->options.report_dir;
	d->folder[ZN_DIRECTORY_SPOOL] = d->spool;
	d->state.writer = &d->writer;
	return zn_writer_open(&d->writer, d->folder, why);
}

static int sender_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err;

	d->state.sender = &d->sender;
	err = zn_sender_open(&d->sender, &d->options, why);
	d->misconfigured = err == -EADDRNOTAVAIL;    /* the host of --dcgm, which is never asked of DNS */
	if (err && !zn_sender_wanted(&d->options)) { /* it is the default, and no reason to do nothing at all */
		zn_log(ZN_WARN, "ras: %s; NCCL is not asked about jobs that hang", why);
		zn_sender_close(&d->sender);
		err = 0;
	}
	return err;
}

/* It is the default, and no reason to do nothing at all. */
static int gauge_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	zn_hardware_init(&d->hardware, &d->agg.gpus);
	d->state.hardware = &d->hardware;
	if (!d->options.simulate && zn_gauge_open(&d->gauge, d->options.sysfs, d->options.control, why)) {
		zn_log(ZN_WARN, "gauge: %s; the state of GPUs and energy are absent", why);
		zn_gauge_close(&d->gauge);
	}
	return 0;
}

static int notify_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
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
static int files_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	return d->options.simulate ? 0 : zn_probe_files(why);
}

static int source_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	return d->options.simulate ? sim_open(d, why) : zn_live_open(d, why);
}

/* The files that options name are read first: a mistake in one is reported before anything is opened. */
static int settings_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err;

	d->alerts.work.source = zn_samples_source(&d->state);
	d->alerts.work.whose = d->options.simulate ? NULL : zn_samples_owner;
	err = zn_alerts_open(&d->alerts, &d->options, zn_metrics_type, why);
	if (!err)
		err = zn_token_check(d->options.token_file, why);
	if (!err && zn_sender_sends(&d->options))
		err = zn_token_check(d->options.outbound_token_file, why);
	d->misconfigured = err;
	return err;
}

static int jobs_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
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
	zn_energies_init(&d->energies, &d->uses, &d->hardware, d->options.simulate ? NULL : "/proc");
	d->state.energies = &d->energies;
	zn_fabric_init(&d->fabric, &d->hardware.ports, &d->jobs);
	d->state.fabric = &d->fabric;
	if (d->options.simulate) {
		zn_sim_jobs(&d->sim, &d->jobs);
		d->sim.annotations = &d->annotations;
		return 0;
	}
	return 0;
}

static void on_mounts(void *daemon)
{
	struct zn_daemon *d = daemon;

	if (!d->state.loading)
		zn_io_sums_refresh(&d->io_sums);
}

/* Without the list of mounts I/O is counted all the same. */
static int io_sums_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
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

static int control_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	return zn_control_open(&d->control, &d->loop, &d->state, d->options.control, why);
}

/* In this order. The writer, the sender and the gauge are processes of their own and have nothing of the rest. */
static int (*const modules[])(struct zn_daemon *d, char why[ZN_TEXT_MAX]) = {settings_open, files_open, writer_open,
	sender_open, gauge_open, loop_open, history_open, serve_open, source_open, jobs_open, io_sums_open, notify_open,
	control_open, tick_open};

static void closed_clear(struct zn_daemon *d)
{
	d->loop.fd = d->signals.fd = d->tick.fd = d->ring.fd = d->hang.fd = d->loaded.fd = d->sim_step.fd =
		d->writer.worker.fd = d->sender.worker.fd = d->gauge.worker.fd = d->xids.fd = -1;
	zn_mounts_init(&d->io_sums.mounts);
}

static int daemon_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err = 0;

	closed_clear(d);
	view_open(d);
	for (size_t i = 0; i < ZN_LEN(modules) && !err; i++)
		err = modules[i](d, why);
	return err;
}

static void daemon_close(struct zn_daemon *d)
{
	zn_control_close(d->control);
	zn_serve_close(&d->serve);
	zn_live_close(d);
	zn_walker_close(d->walker);
	zn_naming_close(&d->naming);
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
	zn_latency_close(d->latency);
	zn_slowness_close(d->slowness);
	zn_baselines_close(d->baselines);
	zn_writer_close(&d->writer);
	zn_sender_close(&d->sender);
	zn_gauge_close(&d->gauge);
}

static int fail_with(const char *why)
{
	fprintf(stderr, "zerneld: %s\n", why);
	return EXIT_FAILURE;
}

/* All is there: from here on clients get figures, and systemd hears that it is so. */
static int begin_service(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err = zn_sandbox_system_calls(ZN_SANDBOX_ALL_THREADS);

	if (err) {
		snprintf(why, ZN_TEXT_MAX, "cannot filter system calls: %s", strerror(-err));
		return err;
	}
	err = zn_control_start(d->control);
	if (!err)
		err = zn_timer_set(&d->tick, d->options.push_interval_ms);
	if (err) {
		snprintf(why, ZN_TEXT_MAX, "cannot begin to serve: %s", strerror(-err));
		return err;
	}
	zn_writer_warn(&d->writer, d->folder);
	if (d->log_err)
		zn_announce_no_xids(&d->options, d->log_err);
	if (!d->options.simulate)
		zn_announce_families(&d->options, &d->probe);
	zn_log_burst = 20;
	malloc_trim(0); /* what libbpf needed to load is not needed any more, nor is its code */
	zn_pages_drop_program();
	zn_announce_ready(&d->options, &d->serve);
	zn_systemd_tell(d->watchdog_fd, "READY=1");
	if (!zn_systemd_watches())
		zn_fd_close(&d->watchdog_fd);
	zn_ready = true;
	return 0;
}

static void on_loaded(struct zn_io *io, uint32_t events)
{
	struct zn_daemon *d = ZN_DAEMON_OF(io, loaded);

	(void)events;
	d->err = zn_live_take(d, d->why);
	if (!d->err)
		d->err = begin_service(d, d->why);
	if (d->err)
		d->loop.stop = true;
}

/* The thread that loads keeps the capabilities it needs; this one gives up all but few before the first client. */
static int begin_loading(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err;

	d->jobs.loading = true;
	d->probe.event = on_event;
	d->probe.owner = d;
	d->ring.ready = on_ring;
	d->hang.ready = on_hang;
	d->loaded.ready = on_loaded;
	err = zn_live_load(d, why);
	return err ? err : zn_sandbox_capabilities(false);
}

static int begin_daemon(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err = daemon_open(d, why);

	d->watchdog_fd = err ? -1 : zn_systemd_open(); /* the filter allows no further socket */
	if (!err && !d->options.simulate)
		err = begin_loading(d, why);
	if (err)
		return err;
	zn_confine_loop(&d->options, d->folder);
	if (d->options.simulate)
		return begin_service(d, why);
	err = zn_sandbox_system_calls(ZN_SANDBOX_THIS_THREAD);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot filter system calls: %s", strerror(-err));
	else
		zn_announce_serving(&d->options, &d->serve);
	return err;
}

static int run_daemon(struct zn_daemon *d)
{
	char why[ZN_TEXT_MAX] = "";
	int err;

	mallopt(M_ARENA_MAX, 1); /* threads that load programs would keep one each */
	err = begin_daemon(d, why);
	if (err) {
		daemon_close(d);
		fail_with(why[0] ? why : strerror(-err));
		return d->misconfigured ? EXIT_USAGE : EXIT_FAILURE;
	}
	err = zn_loop_run(&d->loop);
	zn_ready = false;
	zn_fd_close(&d->watchdog_fd);
	daemon_close(d);
	if (err || d->err)
		return fail_with(d->why[0] ? d->why : strerror(err ? -err : -d->err));
	return EXIT_SUCCESS;
}

/* The service's options are read as it would: the environment of the shell wins over them. */
static int check_service(struct zn_daemon *d, int argc, char **argv)
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
	struct zn_daemon *d = &daemon_;
	char why[ZN_TEXT_MAX];

	zn_file_standard(); /* before anything is opened */
	zn_pages_small();   /* before anything is written to a table */
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
