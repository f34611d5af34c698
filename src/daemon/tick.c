/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tick.c: what the daemon does on each tick, in order: the models in the order in which they read one another, then the
 * alerts, what is sent, and last what clients are shown.
 */
#include "zernel.h"
#include <string.h>

/* A clock like zn_now_ns() that goes on while the machine is suspended. */
static uint64_t boot_ns(void)
{
	return zn_clock_ns(CLOCK_BOOTTIME);
}

/* The majors of some devices, as they were given, or else as they are. True: there are some. */
static bool find_majors(const uint64_t given[ZN_MAJOR_WORDS],
	void (*read)(const char *path, uint64_t to[ZN_MAJOR_WORDS]), __u64 to[ZN_MAJOR_WORDS])
{
	static const uint64_t none[ZN_MAJOR_WORDS];
	uint64_t majors[ZN_MAJOR_WORDS];

	if (memcmp(given, none, sizeof(none)))
		memcpy(majors, given, sizeof(majors));
	else
		read("/proc/devices", majors);
	for (int i = 0; i < ZN_MAJOR_WORDS; i++)
		__atomic_store_n(&to[i], majors[i], __ATOMIC_RELAXED);
	return memcmp(majors, none, sizeof(none));
}

/* Drivers may be loaded by the first process that needs them. */
void zn_daemon_find_gpus(struct zn_daemon *d)
{
	struct zn_shared *s = d->probe.arena.shared;

	find_majors(d->options.gpu_majors, zn_gpu_majors_read, s->gpu_majors);
	s->rdma = find_majors(d->options.rdma_majors, zn_rdma_majors_read, s->rdma_majors);
}

static void services_tick(struct zn_daemon *d)
{
	struct zn_services *services = zn_find_services(d->state.find);

	zn_services_take(services, zn_requests_found, &d->requests);
	if (zn_services_joined(services, &d->joined) || d->servings.again)
		zn_serving_join(&d->servings, &d->joined);
}

/* Switches are said to be watched while they are, and not a moment longer. */
static void want_kernel(struct zn_daemon *d, bool wanted)
{
	uint32_t *stalls = &d->probe.arena.shared->stalls;

	if (*stalls && !wanted)
		__atomic_store_n(stalls, ZN_STALLS_ONCE_WATCHED, __ATOMIC_SEQ_CST);
	zn_kernel_want(&d->probe.kernel, wanted);
	if (*stalls && wanted)
		__atomic_store_n(stalls, ZN_STALLS_WATCHED, __ATOMIC_SEQ_CST);
}

static void live_tick(struct zn_daemon *d)
{
	bool wanted = d->probe.arena.shared->procs > 0;
	char why[ZN_TEXT_MAX];

	d->probe.arena.shared->wall_ns = zn_wall_ms() * ZN_NS_PER_MS - zn_now_ns();
	want_kernel(d, wanted);
	d->budget.cpus = d->energies.cpus = zn_cpus_online(); /* they may go and come */
	zn_cost_after(&d->probe, &d->budget.file_ns, &d->budget.call_ns);
	if (wanted)
		zn_daemon_find_gpus(d);
	zn_agg_follow_gpus(&d->agg, ZN_NVIDIA_GPUS, ZN_DRM_NODES);
	zn_ends_check(&d->probe);
	if (d->state.find)
		services_tick(d);
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
static void look_if_needed(struct zn_daemon *d)
{
	bool needed = d->agg.row_count && !d->options.simulate;

	if (needed != d->looks)
		zn_timer_set(&d->activity_look, needed ? ZN_ACTIVITY_MS : 0);
	d->looks = needed;
}

static void hardware_tick(struct zn_daemon *d, uint64_t now_ns)
{
	if (d->options.simulate)
		zn_sim_hardware(&d->sim, &d->hardware, now_ns);
	else
		zn_gauge_tick(&d->gauge, &d->hardware, now_ns);
	if (d->sender.scrape)
		zn_hardware_scraped(&d->hardware, d->sender.scrape, zn_scrape_copy, now_ns);
	zn_hardware_tick(&d->hardware, now_ns);
	zn_energies_tick(&d->energies, now_ns);
	zn_fabric_tick(&d->fabric);
}

/* The process that the driver named lives for a moment longer. One that began after that is another one. */
static void xids_tick(struct zn_daemon *d)
{
	zn_xids_tick(&d->xids);
	for (uint32_t i = 0; i < d->xids.count; i++) {
		struct zn_xid *x = &d->xids.xid[i];

		for (uint32_t r = 0; x->pid && !x->job[0] && r < d->agg.row_count; r++) {
			const struct zn_proc *p = zn_arena_proc(d->agg.arena, d->agg.row[r]);

			if (p && p->tgid == x->pid && p->first_ns <= x->last_ns)
				snprintf(x->job, sizeof(x->job), "%s", zn_job_id(&d->jobs, p));
		}
	}
}

static void ghosts_tick(struct zn_daemon *d, uint64_t now)
{
	if (d->options.simulate) {
		zn_sim_job_ghosts(&d->sim, &d->ghosts, now);
		return;
	}
	if (d->state.find)
		zn_find_holders(d->state.find, &d->ghosts.holders);
	zn_ghosts_tick(&d->ghosts, &d->jobs, now);
}

void zn_daemon_on_tick(struct zn_io *io, uint32_t events)
{
	struct zn_daemon *d = ZN_DAEMON_OF(io, tick);
	uint64_t now = zn_now_ns(), boot = boot_ns();

	(void)events;
	if (zn_timer_count(io) == 0)
		return;
	d->state.ticks++;
	if (!d->options.simulate)
		live_tick(d);
	xids_tick(d);
	zn_agg_tick(&d->agg, now);
	zn_arena_carry(d->agg.arena); /* behind it: so little is in shards that nothing of them is carried */
	look_if_needed(d);
	zn_budget_tick(&d->budget, now);
	zn_rates_tick(&d->rates, &d->agg, now);
	zn_progress_tick(&d->progress, &d->agg, now);
	zn_ranks_tick(&d->ranks, now);
	zn_stopped_tick(&d->stopped, &d->agg, &d->progress, now);
	if (d->options.simulate)
		zn_sim_stop(&d->sim, &d->stopped);
	zn_blocked_tick(&d->blocked, &d->agg, now);
	zn_startup_tick(&d->startup, now);
	zn_checkpoints_tick(&d->checkpoints, now);
	zn_causes_tick(&d->causes, now);
	zn_requests_tick(&d->requests, now);
	zn_serving_tick(&d->servings, now);
	zn_suspicion_hangs(&d->suspicions, &d->causes, now);
	zn_suspicion_tick(&d->suspicions, now);
	zn_annotations_tick(&d->annotations);
	zn_history_tick(d->history, &d->agg, boot);
	zn_latency_tick(d->latency, d->agg.arena, zn_history_steps(d->history), boot);
	zn_slowness_tick(d->slowness, d->latency, &d->agg, zn_history_steps(d->history), boot);
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
	hardware_tick(d, now);
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
