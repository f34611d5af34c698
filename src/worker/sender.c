/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sender.c: a process of its own that makes connections: to Alertmanagers, a webhook, an OTLP receiver, to a
 * dcgm-exporter (scrape.c), and on this node to NCCL's RAS service (inquiry.c). The daemon itself can make none after
 * its start, and nothing there waits for a network. What the sender may do is little: it is nobody, has no capability,
 * a short list of system calls, sockets of IPv4 and IPv6 alone, and of the files, where the kernel has Landlock, those
 * beside /etc/hosts and /etc/resolv.conf, and below /run, to read.
 *
 * A delivery is handed over as a message (worker.c). What came of it lies in memory that both see.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"

#define DESTINATIONS_MAX (ZN_URLS_MAX + ZN_TO_COUNT - 1)
#define START_MS         10000 /* for the sender to say that it is there */
#define FAREWELL_MS      2000  /* for what waits to be sent at the end */
#define NOBODY           65534
#define TO_RAS           ZN_TO_COUNT       /* of a message: it is a question, no delivery */
#define TO_ALL           (ZN_TO_COUNT + 1) /* it is the token that is sent from now on */

struct message {
	uint32_t to;
	uint32_t pad;
	uint64_t number; /* of the delivery */
	char text[ZN_DELIVERY_BYTES];
};
#define HEAD_BYTES offsetof(struct message, text)

/* ---- the sender ---- */

struct sender {
	struct zn_worker worker;
	bool alone; /* the daemon has gone */
	unsigned count;
	struct zn_destination destination[DESTINATIONS_MAX];
	struct zn_inquiry inquiry;
	struct zn_scrape scrape;
	struct message message;
};

static void take_question(struct sender *c, size_t bytes)
{
	struct zn_inquiry_ask ask;

	if (bytes != HEAD_BYTES + sizeof(ask) || !c->inquiry.done)
		return;
	memcpy(&ask, c->message.text, sizeof(ask));
	zn_inquiry_begin(&c->inquiry, &ask, c->message.number, zn_now_ns());
}

static void take_token(struct sender *c, size_t bytes)
{
	if (bytes != HEAD_BYTES + sizeof(c->destination->token))
		return;
	for (unsigned i = 0; i < c->count; i++)
		memcpy(c->destination[i].token, c->message.text, sizeof(c->destination->token));
}

static void take_message(struct sender *c, size_t bytes)
{
	const struct message *m = &c->message;

	if (bytes >= HEAD_BYTES && m->to == TO_RAS)
		take_question(c, bytes);
	if (bytes >= HEAD_BYTES && m->to == TO_ALL)
		take_token(c, bytes);
	if (bytes < HEAD_BYTES || m->to >= ZN_TO_COUNT)
		return;
	for (unsigned i = 0; i < c->count; i++)
		if (c->destination[i].to == m->to)
			zn_destination_push(
				&c->destination[i], (struct zn_str){m->text, bytes - HEAD_BYTES}, m->number);
}

/* Takes all messages that are there. */
static void receive_messages(struct sender *c)
{
	size_t bytes;

	c->alone = !zn_worker_woken(&c->worker, false);
	while ((bytes = zn_worker_take(&c->worker, &c->message, sizeof(c->message))))
		take_message(c, bytes);
}

static int wait_ms(const struct sender *c, uint64_t end_ns, uint64_t now_ns)
{
	uint64_t due_ns = c->inquiry.due_ns < end_ns ? c->inquiry.due_ns : end_ns;

	due_ns = c->scrape.due_ns < due_ns ? c->scrape.due_ns : due_ns;
	for (unsigned i = 0; i < c->count; i++)
		if (c->destination[i].due_ns < due_ns)
			due_ns = c->destination[i].due_ns;
	if (due_ns == UINT64_MAX)
		return -1;
	return due_ns <= now_ns ? 0 : (int)((due_ns - now_ns) / ZN_NS_PER_MS) + 1;
}

static void run_turn(struct sender *c, uint64_t end_ns)
{
	struct pollfd all[DESTINATIONS_MAX + 3], *question = &all[c->count + 1], *scrape = &all[c->count + 2];

	for (unsigned i = 0; i < c->count; i++)
		all[i] = zn_destination_poll(&c->destination[i]);
	all[c->count] = (struct pollfd){.fd = c->alone ? -1 : c->worker.fd, .events = POLLIN};
	*question = zn_inquiry_poll(&c->inquiry);
	*scrape = zn_scrape_poll(&c->scrape);
	if (poll(all, c->count + 3, wait_ms(c, end_ns, zn_now_ns())) < 0)
		return;
	zn_inquiry_step(&c->inquiry, question->revents, zn_now_ns()); /* before another one may begin */
	zn_scrape_step(&c->scrape, scrape->revents, zn_now_ns());
	if (all[c->count].revents)
		receive_messages(c);
	for (unsigned i = 0; i < c->count; i++)
		zn_destination_step(&c->destination[i], all[i].revents, zn_now_ns());
}

static bool is_busy(const struct sender *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (zn_destination_busy(&c->destination[i]))
			return true;
	return false;
}

/* Works until the daemon has gone. Then it sends what waits, as far as that goes without delay. */
static void serve_daemon(struct sender *c)
{
	uint64_t end_ns;

	while (!c->alone)
		run_turn(c, UINT64_MAX);
	zn_inquiry_close(&c->inquiry);
	zn_scrape_close(&c->scrape);
	end_ns = zn_now_ns() + FAREWELL_MS * ZN_NS_PER_MS;
	while (is_busy(c) && zn_now_ns() < end_ns)
		run_turn(c, end_ns);
}

/* Takes the next item off a list with commas. */
static bool next_url(const char **list, struct zn_url *to)
{
	struct zn_str text = {*list, strcspn(*list, ",")};

	*list += text.len + ((*list)[text.len] == ',');
	return text.len && !zn_url_read(to, text);
}

struct start {
	const struct zn_options *options;
	char token[ZN_TOKEN_MAX + 1];
	struct zn_destination_done *done;
	struct zn_inquiry_done *inquiry; /* NULL: nobody is asked */
	struct zn_scrape_done *scrape;   /* NULL: likewise */
};

static const char *urls_of(const struct zn_options *o, enum zn_outbound to)
{
	const char *const urls[] = {
		[ZN_TO_ALERTMANAGER] = o->alertmanager, [ZN_TO_WEBHOOK] = o->webhook, [ZN_TO_OTLP] = o->otlp};

	return urls[to];
}

/* The memory of deliveries becomes resident as far as it is used. */
static bool add_destinations(struct sender *c, const struct start *s, enum zn_outbound to)
{
	const char *list = urls_of(s->options, to);
	struct zn_url url;

	while (c->count < DESTINATIONS_MAX && next_url(&list, &url)) {
		void *deliveries = mmap(NULL, zn_destination_depth(to) * sizeof(struct zn_delivery),
			PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (deliveries == MAP_FAILED)
			return false;
		zn_destination_init(&c->destination[c->count], to, &url, deliveries, &s->done[c->count]);
		memcpy(c->destination[c->count].token, s->token, sizeof(s->token));
		c->count++;
	}
	return true;
}

/* Root's files are not its business; what is below may fail only for who is not root, and has no more to give up. */
static int be_nobody(void)
{
	if (geteuid())
		return 0;
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* this needs CAP_SETPCAP, which nobody lacks */
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		return -errno;
	return 0;
}

/* The folder that /etc/resolv.conf really lies in, as far as it is there. */
static int open_resolv_folder(void)
{
	char path[PATH_MAX], *slash;

	if (!realpath("/etc/resolv.conf", path) || !(slash = strrchr(path, '/')) || slash == path)
		return -1;
	*slash = '\0';
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* What sets up the resolver may come later than the daemon, or take the place of another: systemd-resolved and
 * NetworkManager make /etc/resolv.conf a link to a file in a folder of theirs below /run. */
static int give_up(struct sender *c, struct zn_inquiry_done *inquiry)
{
	int folder[3], err;

	zn_worker_become("zernel: sender", c->worker.fd);
	zn_inquiry_init(&c->inquiry, inquiry); /* its files stay open: those in /proc cannot be opened later */
	folder[0] = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	folder[1] = open("/run", O_PATH | O_DIRECTORY | O_CLOEXEC);
	folder[2] = open_resolv_folder();
	err = be_nobody();
	return err ? err : zn_sandbox_sender(folder, ZN_LEN(folder));
}

static void run_sender(const struct start *s, const struct zn_worker *worker)
{
	struct sender *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = c == MAP_FAILED ? -ENOMEM : 0;

	for (enum zn_outbound to = 0; to < ZN_TO_COUNT && !err; to++)
		err = add_destinations(c, s, to) ? 0 : -ENOMEM;
	if (!err)
		c->worker = *worker;
	if (!err && !zn_scrape_init(&c->scrape, s->scrape ? s->options->dcgm : "", s->scrape))
		err = -EADDRNOTAVAIL;
	if (!err)
		err = give_up(c, s->inquiry);
	if (send(worker->fd, &err, sizeof(err), MSG_NOSIGNAL) == sizeof(err) && !err)
		serve_daemon(c);
	syscall(SYS_exit_group, 0); /* bare: what a sanitizer does before an exit is refused */
}

/* ---- the daemon's side ---- */

/* Returns what the sender says of its start. */
static int start_sender(struct zn_sender *c, const struct start *s)
{
	int err = zn_worker_open(&c->worker);

	if (err)
		return err;
	if (c->worker.pid == 0)
		run_sender(s, &c->worker);
	c->done = s->done;
	c->inquiry = s->inquiry;
	c->scrape = s->scrape;
	if (!zn_worker_wait(c->worker.fd, START_MS))
		return -ETIMEDOUT;
	return recv(c->worker.fd, &err, sizeof(err), MSG_DONTWAIT) == sizeof(err) ? err : -EPIPE;
}

/* The first one of the file; none where there is no file. */
static int read_token(const char *path, char token[ZN_TOKEN_MAX + 1], char why[ZN_TEXT_MAX])
{
	struct zn_tokens tokens = {0};
	int err = path[0] ? zn_token_read(&tokens, path, why) : 0;

	if (path[0] && !err)
		zn_token_warn(path);
	memcpy(token, tokens.token[0], ZN_TOKEN_MAX);
	explicit_bzero(&tokens, sizeof(tokens));
	return err;
}

static unsigned count_urls(const char *list)
{
	struct zn_url url;
	unsigned n = 0;

	while (next_url(&list, &url))
		n++;
	return n;
}

#define DONE_BYTES (DESTINATIONS_MAX * sizeof(struct zn_destination_done))

/* What both processes see: what became of deliveries, of a question behind that, and the page of a dcgm-exporter. */
#define SCRAPE_AT    (DONE_BYTES + sizeof(struct zn_inquiry_done))
#define SHARED_BYTES (SCRAPE_AT + sizeof(struct zn_scrape_done))
_Static_assert(DONE_BYTES % _Alignof(struct zn_inquiry_done) == 0, "one lies behind the other");
_Static_assert(SCRAPE_AT % _Alignof(struct zn_scrape_done) == 0, "one lies behind the other");

static int share_memory(struct start *s)
{
	char *memory = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	s->done = (struct zn_destination_done *)memory;
	if (s->options->ras && !s->options->simulate)
		s->inquiry = (struct zn_inquiry_done *)(memory + DONE_BYTES);
	if (s->options->dcgm[0] && !s->options->simulate)
		s->scrape = (struct zn_scrape_done *)(memory + SCRAPE_AT);
	return 0;
}

bool zn_sender_sends(const struct zn_options *o)
{
	return o->alertmanager[0] || o->webhook[0] || o->otlp[0];
}

bool zn_sender_wanted(const struct zn_options *o)
{
	return zn_sender_sends(o) || (o->dcgm[0] && !o->simulate);
}

int zn_sender_open(struct zn_sender *c, const struct zn_options *o, char why[ZN_TEXT_MAX])
{
	struct start s = {.options = o};
	unsigned any = 0;
	int err;

	*c = (struct zn_sender){.worker.fd = -1};
	for (enum zn_outbound to = 0; to < ZN_TO_COUNT; to++)
		any += c->destinations[to] = count_urls(urls_of(o, to));
	if (!zn_sender_wanted(o) && (!o->ras || o->simulate))
		return 0;
	err = any ? read_token(o->outbound_token_file, s.token, why) : 0;
	if (err)
		return err;
	err = share_memory(&s);
	if (!err)
		err = start_sender(c, &s);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot start the process that makes connections: %s%s", strerror(-err),
			err == -EPERM ? "; needs CAP_SETUID and CAP_SETGID, to become nobody"
				: err == -EADDRNOTAVAIL
				? "; the host of --dcgm must be an address, or a name of /etc/hosts"
				: "");
	return err;
}

/* It cannot be started again: that needs rights that the daemon gave up. */
static void worker_exited(struct zn_sender *c)
{
	int status = 0;

	zn_worker_hang_up(&c->worker);
	if (waitpid(c->worker.pid, &status, WNOHANG) == c->worker.pid && WIFSIGNALED(status))
		zn_log(ZN_ERROR, "sender: killed by signal %d; nothing is sent any more until zerneld is restarted",
			WTERMSIG(status));
	else
		zn_log(ZN_ERROR, "sender: it has ended; nothing is sent any more until zerneld is restarted");
}

/* Adds up what the destinations of a kind did; d: the first of them. */
static void add_up(struct zn_destination_done *sum, const struct zn_destination_done *d, unsigned count)
{
	*sum = (struct zn_destination_done){.settled = UINT64_MAX};
	for (unsigned i = 0; i < count; i++, d++) {
		uint64_t settled = __atomic_load_n(&d->settled, __ATOMIC_RELAXED);

		for (enum zn_sent s = 0; s < ZN_SENT_COUNT; s++)
			sum->sent[s] += __atomic_load_n(&d->sent[s], __ATOMIC_RELAXED);
		sum->dropped += __atomic_load_n(&d->dropped, __ATOMIC_RELAXED);
		sum->queued += __atomic_load_n(&d->queued, __ATOMIC_RELAXED);
		sum->down += __atomic_load_n(&d->down, __ATOMIC_RELAXED);
		sum->settled = settled < sum->settled ? settled : sum->settled;
	}
}

/* The sender says nothing: what can be read is its end. */
void zn_sender_tick(struct zn_sender *c)
{
	const struct zn_destination_done *d = c->done;

	if (c->worker.fd >= 0 && recv(c->worker.fd, &(char){0}, 1, MSG_DONTWAIT) >= 0)
		worker_exited(c);
	for (enum zn_outbound to = 0; to < ZN_TO_COUNT && d; d += c->destinations[to++])
		add_up(&c->sum[to], d, c->destinations[to]);
}

static bool hand_over(struct zn_sender *c, uint32_t to, uint64_t number, struct zn_str text)
{
	struct {
		uint32_t to, pad;
		uint64_t number;
	} head = {.to = to, .number = number};
	int err;

	_Static_assert(sizeof(head) == HEAD_BYTES, "as a message begins");
	if (c->worker.fd < 0 || text.len > ZN_DELIVERY_BYTES)
		return false;
	err = zn_worker_put(&c->worker, &head, sizeof(head), text);
	if (err == -EPIPE || err == -ECONNRESET)
		worker_exited(c);
	return !err;
}

uint64_t zn_sender_send(struct zn_sender *c, enum zn_outbound to, struct zn_str text)
{
	if (!c->destinations[to])
		return 0;
	if (hand_over(c, to, c->number[to] + 1, text))
		return ++c->number[to];
	c->lost[to]++;
	return 0;
}

uint64_t zn_sender_ask(struct zn_sender *c, const struct zn_inquiry_ask *ask)
{
	struct zn_str text = {(const char *)ask, sizeof(*ask)};

	if (!c->inquiry || !hand_over(c, TO_RAS, c->inquiry_number + 1, text))
		return 0;
	return ++c->inquiry_number;
}

int zn_sender_reload(struct zn_sender *c, const struct zn_options *o, char why[ZN_TEXT_MAX])
{
	char token[ZN_TOKEN_MAX + 1] = "";
	int err;

	why[0] = '\0';
	if (!o->outbound_token_file[0] || !zn_sender_sends(o))
		return 0;
	err = read_token(o->outbound_token_file, token, why);
	if (!err && !hand_over(c, TO_ALL, 0, (struct zn_str){token, sizeof(token)})) {
		snprintf(why, ZN_TEXT_MAX, "the outbound token cannot be handed to the process that makes connections");
		err = -EAGAIN;
	}
	if (!err)
		snprintf(why, ZN_TEXT_MAX, "outbound token read again");
	explicit_bzero(token, sizeof(token));
	return err;
}

/* The sender's end of the socket closes when it ends, which takes it FAREWELL_MS at most. */
void zn_sender_close(struct zn_sender *c)
{
	if (c->worker.pid > 0 && c->worker.fd >= 0) {
		shutdown(c->worker.fd, SHUT_WR);
		if (zn_worker_wait(c->worker.fd, 2 * FAREWELL_MS))
			waitpid(c->worker.pid, NULL, 0);
	}
	zn_worker_close(&c->worker);
	if (c->done)
		munmap((void *)c->done, SHARED_BYTES);
	*c = (struct zn_sender){.worker.fd = -1};
}
