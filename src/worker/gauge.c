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
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"

#define START_MS   10000
#define BLOCKED_NS (3 * ZN_NS_PER_S) /* a file that takes longer is reported */
#define TELL_NS    (60 * ZN_NS_PER_S)
#define TRIES      3 /* to copy what is just being written */

struct zn_gauge_shared {
	struct zn_sysfs_seen seen;
	struct zn_sysfs_at at;
	struct zn_companion_seen companion;
};

/* ---- the process ---- */

/* Both begin with their version. */
static void publish_seen(void *to, const void *from, size_t bytes)
{
	uint64_t *version = to, was = *version;

	__atomic_store_n(version, was + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(version + 1, (const uint64_t *)from + 1, bytes - sizeof(was));
	__atomic_store_n(version, was + 2, __ATOMIC_RELEASE);
}

/* False: the daemon has gone. */
static bool daemon_lives(int socket)
{
	char byte;
	ssize_t n = recv(socket, &byte, 1, MSG_DONTWAIT);

	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* One round of each: /sys comes last, as it may take forever. */
static void serve_daemon(struct zn_gauge_shared *shared, int root, int socket, struct zn_companion *companion)
{
	static struct zn_sysfs sysfs;
	struct pollfd one = {.fd = socket, .events = POLLIN};

	zn_sysfs_init(&sysfs, root, &shared->at);
	do {
		if (zn_companion_round(companion, zn_now_ns()))
			publish_seen(&shared->companion, &companion->seen, sizeof(companion->seen));
		zn_sysfs_round(&sysfs, zn_now_ns());
		publish_seen(&shared->seen, &sysfs.seen, sizeof(sysfs.seen));
	} while (poll(&one, 1, ZN_GAUGE_MS) <= 0 || daemon_lives(socket));
}

/* A gauge that the driver keeps may have the socket of a daemon that is no more. Where nobody listens on the control
 * socket, there is no other daemon. */
static bool is_left_over(const char *control)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	if (strlen(control) >= sizeof(at.sun_path))
		return false;
	strcpy(at.sun_path, control);
	return !zn_file_clear_socket(&at, sizeof(at), SOCK_SEQPACKET);
}

/* Beside the control socket, which the daemon opens later. Nothing else fails if this does. */
static void open_companion(struct zn_companion *c, const char *control)
{
	char path[ZN_TEXT_MAX] = "";
	const char *slash = strrchr(control, '/');
	int err = 0;

	c->listener = c->fd = -1;
	if (slash &&
		(size_t)snprintf(path, sizeof(path), "%.*s/gpu.sock", (int)(slash - control), control) >= sizeof(path))
		err = -ENAMETOOLONG;
	if (!err)
		err = zn_companion_open(c, path, ZN_COMPANION_OWNER);
	if (err == -EADDRINUSE && is_left_over(control) && !unlink(path))
		err = zn_companion_open(c, path, ZN_COMPANION_OWNER);
	if (err) /* for who is not root this is one failure of many */
		zn_log(geteuid() ? ZN_DEBUG : ZN_WARN, "gauge: cannot listen on %.200s: %s; zernel-gpu is not heard",
			path, strerror(-err));
}

static void run_gauge(struct zn_gauge_shared *shared, const char *path, const char *control, int socket)
{
	static struct zn_companion companion;
	int root, err;

	zn_worker_become("zernel: gauge", socket);
	open_companion(&companion, control);
	root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = root < 0 ? -errno : zn_sandbox_gauge(root);
	if (send(socket, &err, sizeof(err), MSG_NOSIGNAL) == sizeof(err) && !err)
		serve_daemon(shared, root, socket, &companion);
	syscall(SYS_exit_group, 0); /* bare: what a sanitizer does before an exit is refused */
}

/* ---- the daemon's side ---- */

static int start_gauge(struct zn_gauge *g, struct zn_gauge_shared *shared, const char *root, const char *control)
{
	int err = zn_worker_open(&g->worker);

	if (err)
		return err;
	if (g->worker.pid == 0)
		run_gauge(shared, root, control, g->worker.fd);
	if (!zn_worker_wait(g->worker.fd, START_MS))
		return -ETIMEDOUT;
	return recv(g->worker.fd, &err, sizeof(err), MSG_DONTWAIT) == sizeof(err) ? err : -EPIPE;
}

int zn_gauge_open(struct zn_gauge *g, const char *root, const char *control, char why[ZN_TEXT_MAX])
{
	struct zn_gauge_shared *shared;
	int err;

	zn_pages_clear(g, sizeof(*g));
	g->worker.fd = -1;
	if (!root[0])
		return 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	err = shared == MAP_FAILED ? -errno : 0;
	if (!err) {
		g->shared = shared;
		err = start_gauge(g, shared, root, control);
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

/* Both begin with their version. False: nothing was written yet, or it is just being written. */
static bool copy_seen(void *to, const void *from, size_t bytes)
{
	const uint64_t *at = from;

	for (int i = 0; i < TRIES; i++) {
		uint64_t version = __atomic_load_n(at, __ATOMIC_ACQUIRE);

		if (!version || version & 1)
			continue;
		zn_pages_copy(to, from, bytes);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(at, __ATOMIC_RELAXED) == version)
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
		zn_ports_take(&to->ports, s->port, s->port_count, s->ports_beyond, s->ports_round);
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

/* What it says has changed: it is logged once, and no more than once a minute. */
static void tell_why(struct zn_gauge *g, uint64_t now_ns)
{
	const struct zn_nvml_said *said = &g->companion.said;
	char why[128];

	if (said->stale_ms)
		snprintf(why, sizeof(why), "NVML does not answer: %.31s", said->step);
	else
		memcpy(why, said->why, sizeof(why));
	if (!strcmp(why, g->told) || (why[0] && g->told_ns && now_ns - g->told_ns < TELL_NS))
		return;
	if (why[0]) {
		zn_log(ZN_WARN, "gauge: zernel-gpu says: %s", why);
		g->told_ns = now_ns;
	}
	memcpy(g->told, why, sizeof(why));
}

static void hear_companion(struct zn_gauge *g, struct zn_hardware *to, uint64_t now_ns)
{
	struct zn_companion_seen *c = &g->companion;
	uint64_t heard = c->heard;

	if (__atomic_load_n(&g->shared->companion.version, __ATOMIC_ACQUIRE) == c->version ||
		!copy_seen(c, &g->shared->companion, sizeof(*c)))
		return;
	zn_nvml_check(&c->said);
	to->nvml_taken = c->heard;
	to->nvml_refused = c->refused;
	if (!c->heard || c->heard == heard)
		return;
	tell_why(g, now_ns);
	zn_hardware_heard(to, &c->said, now_ns);
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
	hear_companion(g, to, now_ns);
	if (copy_seen(&g->seen, &g->shared->seen, sizeof(g->seen)) && g->seen.round_ns != g->round_ns) {
		g->round_ns = g->seen.round_ns;
		take_seen(g, to, now_ns);
	}
	tell_blocked(g, to, now_ns);
}

/* A gauge that a driver keeps ends by itself once that lets go of it: nobody waits for that. */
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
	zn_pages_clear(g, sizeof(*g));
	g->worker.fd = -1;
}
