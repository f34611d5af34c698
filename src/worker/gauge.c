/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gauge.c: a process of its own that reads /sys. A driver that hangs keeps whoever reads its files, for good and beyond
 * any signal, so the daemon does not read them itself: it looks at what this process wrote into memory that both see,
 * and sees there for how long a file has not been answered. It may read files below one folder, and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"

#define START_MS   10000
#define BLOCKED_NS (3 * ZN_NS_PER_S) /* a file that takes longer is told of */
#define TRIES      3                 /* to copy what is just being written */

struct zn_gauge_shared {
	struct zn_sysfs_seen seen;
	struct zn_sysfs_at at;
};

/* ---- the process ---- */

static void publish_seen(struct zn_gauge_shared *to, const struct zn_sysfs_seen *from)
{
	uint64_t version = to->seen.version;

	__atomic_store_n(&to->seen.version, version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy((char *)&to->seen + sizeof(version), (const char *)from + sizeof(version),
		sizeof(*from) - sizeof(version));
	__atomic_store_n(&to->seen.version, version + 2, __ATOMIC_RELEASE);
}

/* False: the daemon has gone. */
static bool daemon_lives(int socket)
{
	char byte;
	ssize_t n = recv(socket, &byte, 1, MSG_DONTWAIT);

	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void serve_daemon(struct zn_gauge_shared *shared, int root, int socket)
{
	static struct zn_sysfs sysfs;
	struct pollfd one = {.fd = socket, .events = POLLIN};

	zn_sysfs_init(&sysfs, root, &shared->at);
	do {
		zn_sysfs_round(&sysfs, zn_now_ns());
		publish_seen(shared, &sysfs.seen);
	} while (poll(&one, 1, ZN_GAUGE_MS) <= 0 || daemon_lives(socket));
}

static void run_gauge(struct zn_gauge_shared *shared, const char *path, int socket)
{
	int root, err;

	zn_worker_become("zernel: gauge", socket);
	root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = root < 0 ? -errno : zn_sandbox_gauge(root);
	if (send(socket, &err, sizeof(err), MSG_NOSIGNAL) == sizeof(err) && !err)
		serve_daemon(shared, root, socket);
	syscall(SYS_exit_group, 0); /* bare: what a sanitizer does before an exit is refused */
}

/* ---- the daemon's side ---- */

static int start_gauge(struct zn_gauge *g, struct zn_gauge_shared *shared, const char *root)
{
	int err = zn_worker_open(&g->worker);

	if (err)
		return err;
	if (g->worker.pid == 0)
		run_gauge(shared, root, g->worker.fd);
	if (!zn_worker_wait(g->worker.fd, START_MS))
		return -ETIMEDOUT;
	return recv(g->worker.fd, &err, sizeof(err), MSG_DONTWAIT) == sizeof(err) ? err : -EPIPE;
}

int zn_gauge_open(struct zn_gauge *g, const char *root, char why[ZN_TEXT_MAX])
{
	struct zn_gauge_shared *shared;
	int err;

	*g = (struct zn_gauge){.worker.fd = -1};
	if (!root[0])
		return 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	err = shared == MAP_FAILED ? -errno : 0;
	if (!err) {
		g->shared = shared;
		err = start_gauge(g, shared, root);
	}
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot start the process that reads %.100s: %s", root, strerror(-err));
	return err;
}

/* It cannot be started again: that needs rights that the daemon gave up. */
static void worker_exited(struct zn_gauge *g)
{
	zn_worker_hang_up(&g->worker);
	waitpid(g->worker.pid, NULL, WNOHANG);
	zn_log(ZN_ERROR,
		"gauge: the process that reads /sys has ended; the state of GPUs and energy are absent until "
		"zerneld is restarted");
}

static bool copy_seen(struct zn_gauge *g)
{
	const struct zn_sysfs_seen *from = &g->shared->seen;

	for (int i = 0; i < TRIES; i++) {
		uint64_t version = __atomic_load_n(&from->version, __ATOMIC_ACQUIRE);

		if (!version || version & 1)
			continue;
		memcpy(&g->seen, from, sizeof(g->seen));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&from->version, __ATOMIC_RELAXED) == version)
			return true;
	}
	return false;
}

static void take_seen(struct zn_gauge *g, struct zn_hardware *to, uint64_t now_ns)
{
	const struct zn_sysfs_seen *s = &g->seen;

	for (uint32_t i = 0; i < s->count && i < ZN_GPUS_MAX; i++) {
		g->seen.gpu[i].pci[sizeof(s->gpu[i].pci) - 1] = 0;
		g->seen.gpu[i].uuid[0] = 0;
		zn_hardware_take(to, ZN_SOURCE_SYS, &s->gpu[i], now_ns);
	}
	for (enum zn_energy e = 0; e < ZN_ENERGY_COUNT; e++)
		to->energy_uj[e] = s->energy_uj[e];
	to->energy_known = s->energy_known;
	if (s->ports_round != g->ports_round)
		zn_ports_take(&to->ports, s->port, s->port_count, s->ports_beyond);
	g->ports_round = s->ports_round;
}

static void tell_blocked(const struct zn_gauge *g, struct zn_hardware *to, uint64_t now_ns)
{
	uint64_t since_ns = __atomic_load_n(&g->shared->at.since_ns, __ATOMIC_ACQUIRE);

	to->blocked_ns = since_ns && now_ns > since_ns + BLOCKED_NS ? now_ns - since_ns : 0;
	if (to->blocked_ns && !to->blocked[0]) {
		memcpy(to->blocked, g->shared->at.file, sizeof(to->blocked));
		to->blocked[sizeof(to->blocked) - 1] = 0;
		zn_log(ZN_WARN,
			"gauge: the kernel does not answer for %s below /sys; the state of GPUs is absent until it does",
			to->blocked);
	} else if (!to->blocked_ns) {
		to->blocked[0] = 0;
	}
}

void zn_gauge_tick(struct zn_gauge *g, struct zn_hardware *to, uint64_t now_ns)
{
	if (!g->shared || g->worker.fd < 0)
		return;
	if (recv(g->worker.fd, &(char){0}, 1, MSG_DONTWAIT) >= 0) {
		to->blocked_ns = 0;
		worker_exited(g);
		return;
	}
	if (copy_seen(g) && g->seen.round_ns != g->round_ns) {
		g->round_ns = g->seen.round_ns;
		take_seen(g, to, now_ns);
	}
	tell_blocked(g, to, now_ns);
}

/* One that a driver keeps ends by itself once that lets go of it: nobody waits for that. */
void zn_gauge_close(struct zn_gauge *g)
{
	if (g->worker.pid > 0 && g->worker.fd >= 0) {
		shutdown(g->worker.fd, SHUT_WR);
		if (zn_worker_wait(g->worker.fd, g->seen.round_ns ? ZN_GAUGE_MS : 0))
			waitpid(g->worker.pid, NULL, WNOHANG);
	}
	zn_worker_close(&g->worker);
	if (g->shared)
		munmap((void *)g->shared, sizeof(*g->shared));
	*g = (struct zn_gauge){.worker.fd = -1};
}
