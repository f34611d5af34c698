/* SPDX-License-Identifier: GPL-2.0 */
/*
 * live.c: where live data comes from. The kernel's tables are made at once, in some 40 ms. The programs that fill them
 * keep the kernel's verifier busy for most of a second, so another thread loads these, and starts the finder, while
 * the loop answers clients. That thread has the capabilities which that needs, and ends; the thread of the loop, which
 * reads what comes over the network, has given them up by then.
 */
#include "zernel.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Without the log there are no errors of GPUs, and everything else. */
static void log_open(struct zn_daemon *d)
{
	d->state.xids = &d->xids;
	if (d->options.kmsg[0])
		d->log_err = zn_xids_open(&d->xids, d->options.kmsg);
}

int zn_live_open(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err = 0;

	if (d->options.families >> ZN_FAM_STACKS & 1)
		err = zn_naming_open(&d->naming);
	if (err) {
		snprintf(why, ZN_TEXT_MAX, "cannot start the process that reads functions of Python: %s",
			strerror(-err));
		return err;
	}
	err = zn_probe_open(&d->probe, zn_probe_families(&d->options), d->options.method, d->options.table_cpus, why);
	if (err)
		return err;
	zn_daemon_find_gpus(d);
	log_open(d);
	d->probe.arena.job_tree = zn_cgroup_tree;
	zn_agg_init(&d->agg, &d->probe.arena);
	zn_requests_init(&d->requests, &d->probe.arena);
	zn_serving_init(&d->servings, &d->probe.arena);
	d->requests.ended = zn_services_ended;
	zn_gpus_read(&d->agg.gpus, ZN_NVIDIA_GPUS, ZN_DRM_NODES);
	d->state.loading = true;
	return 0;
}

/* ---- the thread that loads ---- */

static int start_finder(struct zn_daemon *d)
{
	int err = zn_find_open(&d->find, &d->probe, &d->options);

	if (!err && d->probe.kernel.method[ZN_FAM_STACKS] != ZN_METHOD_NONE)
		err = zn_stacks_open(&d->stacks);
	if (!err && d->stacks)
		err = zn_walker_open(&d->walker, &d->probe, d->stacks, &d->naming);
	if (!err)
		err = zn_sandbox_capabilities(!d->probe.multi);
	if (!err)
		err = zn_find_start(d->find);
	if (!err && d->walker)
		err = zn_walker_start(d->walker);
	return err;
}

/* Jobs that run already are found last, when what they start is seen. */
static void *load_all(void *daemon)
{
	struct zn_daemon *d = daemon;

	zn_probe_load(&d->probe);
	d->load_err = zn_probe_cancelled(&d->probe) ? -ECANCELED : start_finder(d);
	if (!d->load_err)
		zn_cgroup_scan(&d->probe.arena, "/proc");
	zn_pages_drop_stack();
	eventfd_write(d->loaded.fd, 1);
	return NULL;
}

int zn_live_load(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err;

	d->loaded.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = d->loaded.fd < 0 ? -errno : zn_loop_add(&d->loop, &d->loaded, EPOLLIN);
	if (!err)
		err = -pthread_create(&d->loader, NULL, load_all, d);
	d->loads = err == 0;
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot start the thread that loads probes: %s", strerror(-err));
	return err;
}

/* ---- the loop, once it is loaded ---- */

static void join_loader(struct zn_daemon *d)
{
	if (d->loads)
		pthread_join(d->loader, NULL);
	d->loads = false;
}

static void use_finder(struct zn_daemon *d)
{
	d->state.find = d->find;
	d->state.stacks = d->stacks;
	d->state.walker = d->walker;
	d->agg.process_info = zn_find_process_info;
	d->ranks.place = d->stopped.place = d->blocked.place = zn_find_place;
	d->ranks.owner = d->stopped.owner = d->blocked.owner = d->find;
	d->flights.look = zn_find_threads;
	d->flights.owner_of_look = d->find;
	d->agg.ledger = zn_find_ledger;
	d->agg.partial_gpus = zn_find_partial_gpus;
	d->agg.look = zn_find_look;
	d->agg.owner = d->find;
}

int zn_live_take(struct zn_daemon *d, char why[ZN_TEXT_MAX])
{
	int err;

	join_loader(d);
	zn_loop_forget(&d->loop, &d->loaded);
	err = d->load_err;
	if (err) {
		snprintf(why, ZN_TEXT_MAX, "cannot start the library finder with fewer privileges: %s", strerror(-err));
		return err;
	}
	d->agg.measured = zn_kernel_measured(&d->probe.kernel);
	use_finder(d);
	d->state.probe = &d->probe;
	d->state.loading = false;
	d->state.tick_ns = zn_now_ns(); /* ticks are late from here on, however long it took to load */
	d->jobs.loading = false;
	zn_jobs_found(&d->jobs);
	d->hang.fd = zn_libraries_timer(zn_find_libraries(d->find));
	if (d->hang.fd >= 0)
		err = zn_loop_add(&d->loop, &d->hang, EPOLLIN);
	d->ring.fd = zn_probe_ring_fd(&d->probe);
	return err ? err : zn_loop_add(&d->loop, &d->ring, EPOLLIN);
}

void zn_live_close(struct zn_daemon *d)
{
	if (d->loads)
		zn_probe_cancel(&d->probe);
	join_loader(d);
	zn_loop_forget(&d->loop, &d->loaded);
}
