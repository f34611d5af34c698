/* SPDX-License-Identifier: GPL-2.0 */
/*
 * load --http PORT --ws PORT [--readers N] [--stalled N] [--scrapes RATE] [--slow N] [--storm RATE]: clients of one
 * daemon on this machine, all on one epoll loop. Readers take every snapshot; stalled clients open a WebSocket and read
 * nothing; scrapers ask for /metrics RATE times a second, each answer timed from when it was due; slow clients send one
 * byte of a head a second; a storm opens RATE connections a second, says something or nothing, and resets them.
 *
 * Prints "ready" when every reader has a snapshot. Then each line on standard input is a number of seconds: that long
 * it scrapes and storms, and prints one line of JSON. "drain" lets the stalled clients read what there is for two
 * seconds, and prints what it was. Ends at the end of standard input. Source addresses are spread over 127.0.0.0/8.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../bench/bench.h"

#define CLIENTS_MAX 8192
#define SCRAPERS    32
#define STORMERS    64
#define OPENING_MAX 100 /* handshakes under way at one time: fewer than a listener's queue holds */
#define TICKS_MAX   4096
#define SAMPLES_MAX 1000000
#define GRACE_NS    3000000000ULL /* after the window, at most, for what is on its way */
#define DRAIN_NS    2000000000ULL
#define S_NS        1000000000ULL
#define TEXT        2048

enum kind { READER, STALLED, SCRAPER, SLOW, STORM };

struct client {
	int fd; /* -1: closed */
	enum kind kind;
	uint32_t number;      /* of its source address */
	bool connected, open; /* open: the head of the answer was read */
	bool busy;            /* a scrape is under way */
	uint64_t due_ns;      /* of the scrape, or of a slow client's next byte */
	uint64_t left;        /* bytes to come of the body or of the frame */
	uint64_t last_ms, snapshots;
	unsigned close_code; /* 0: no Close came */
	size_t sent;         /* by a slow client */
	size_t frame_len, len;
	uint8_t frame[10];
	char text[TEXT]; /* the head of the answer, or the start of the message */
	char last_byte;
};
static struct client client[CLIENTS_MAX];
static size_t client_count;

/* A snapshot, by its last_update_ms, and how many readers have it. */
struct tick {
	uint64_t ms, first_ns, readers;
};
static struct tick tick[TICKS_MAX];
static size_t tick_count;
static bool frozen; /* no new ticks: the window is over */

struct samples {
	size_t count;
	uint64_t ns[SAMPLES_MAX];
};
static struct samples behind, scrape; /* a reader behind the first one; a scrape */

static struct {
	int http_port, ws_port;
	uint32_t readers, stalled, slow;
	double scrapes, storm; /* a second */
} opt;

static struct {
	uint64_t repeated, scrapes, storms, slow_408, slow_other, ended;
	char why[256]; /* the first thing that went wrong */
} did;

static int loop;

static void wrong(const struct client *c, const char *what)
{
	static const char *const names[] = {"reader", "stalled", "scraper", "slow", "storm"};

	if (!did.why[0])
		snprintf(did.why, sizeof(did.why), "%s %u: %.200s", names[c->kind], c->number, what);
}

static void add(struct samples *s, uint64_t ns)
{
	if (s->count < SAMPLES_MAX)
		s->ns[s->count++] = ns;
}

static void listen_for(struct client *c, int op, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = c};

	if (epoll_ctl(loop, op, c->fd, &ev))
		die("epoll_ctl", strerror(errno));
}

static void hang_up(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static void set(int fd, int level, int name, int value)
{
	setsockopt(fd, level, name, &value, sizeof(value));
}

/* Begins to connect, from an address that it shares with few others. */
static void dial(struct client *c)
{
	bool ws = c->kind <= STALLED;
	struct sockaddr_in from = {.sin_family = AF_INET}, to = from;
	struct linger reset = {.l_onoff = 1};

	*c = (struct client){.kind = c->kind, .number = c->number};
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket", strerror(errno));
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + ((uint32_t)c->kind + 1) * 65536 + c->number % 250 + 1);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons((uint16_t)(ws ? opt.ws_port : opt.http_port));
	set(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	set(c->fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (c->kind == STALLED)
		set(c->fd, SOL_SOCKET, SO_RCVBUF, 4096);
	if (c->kind == STORM)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (bind(c->fd, (struct sockaddr *)&from, sizeof(from)))
		die("bind", strerror(errno));
	if (connect(c->fd, (struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS)
		die("connect", strerror(errno));
	listen_for(c, EPOLL_CTL_ADD, EPOLLOUT);
}

static struct client *new_client(enum kind kind, uint32_t number)
{
	struct client *c = &client[client_count++];

	if (client_count > CLIENTS_MAX)
		die("clients", "too many");
	*c = (struct client){.fd = -1, .kind = kind, .number = number};
	return c;
}

static void say(struct client *c, const char *text, size_t len)
{
	if (send(c->fd, text, len, MSG_NOSIGNAL) != (ssize_t)len)
		wrong(c, "its request was not taken");
}

#define HANDSHAKE                                                                                                      \
	"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                         \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n"
#define SCRAPE    "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define SLOW_HEAD "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* ---- what comes in */

static struct tick *tick_of(uint64_t ms, uint64_t now)
{
	size_t i = tick_count;

	while (i > 0 && tick[i - 1].ms >= ms)
		if (tick[--i].ms == ms)
			return &tick[i];
	if (frozen || tick_count == TICKS_MAX)
		return NULL;
	memmove(&tick[i + 1], &tick[i], (tick_count++ - i) * sizeof(tick[0]));
	tick[i] = (struct tick){.ms = ms, .first_ns = now};
	return &tick[i];
}

static void note_snapshot(struct client *c)
{
	static const char key[] = "\"last_update_ms\":";
	const char *at = strstr(c->text, key);
	uint64_t ms = at ? strtoull(at + sizeof(key) - 1, NULL, 10) : 0, now = now_ns();
	struct tick *t;

	if (!ms || c->text[0] != '{' || (c->last_byte != '}' && c->last_byte != '\n'))
		wrong(c, "a message that is no snapshot");
	did.repeated += c->kind == READER && ms <= c->last_ms;
	c->last_ms = ms;
	c->snapshots++;
	t = c->kind == READER ? tick_of(ms, now) : NULL;
	if (!t)
		return;
	t->readers++;
	add(&behind, now - t->first_ns);
}

static void pong(struct client *c)
{
	uint8_t frame[6 + 125] = {0x8a, (uint8_t)(0x80 | c->len)}; /* the mask is 0 */

	memcpy(frame + 6, c->text, c->len);
	say(c, (char *)frame, 6 + c->len);
}

static void message_end(struct client *c)
{
	c->text[c->len < TEXT ? c->len : TEXT - 1] = 0;
	if (c->frame[0] == 0x81)
		note_snapshot(c);
	else if (c->frame[0] == 0x89)
		pong(c);
	else if (c->frame[0] == 0x88)
		c->close_code = c->len >= 2 ? (unsigned)((uint8_t)c->text[0] << 8 | (uint8_t)c->text[1]) : 1005;
	else
		wrong(c, "a frame that is none of a server's");
	c->frame_len = c->len = 0;
}

static size_t take_frame(struct client *c, const char *at)
{
	size_t need;

	c->frame[c->frame_len++] = (uint8_t)*at;
	need = c->frame_len < 2 ? 2 : c->frame[1] == 127 ? 10 : c->frame[1] == 126 ? 4 : 2;
	if (c->frame_len < need)
		return 1;
	c->left = 0;
	for (size_t i = need == 2 ? 1 : 2; i < need; i++)
		c->left = c->left << 8 | c->frame[i];
	if (!c->left)
		message_end(c);
	return 1;
}

/* Of a frame's payload or a body; only its beginning is kept. */
static size_t take_payload(struct client *c, const char *at, size_t len)
{
	size_t n = len < c->left ? len : (size_t)c->left, keep = TEXT - 1 - c->len;

	if (n < keep)
		keep = n;
	memcpy(c->text + c->len, at, keep);
	c->len += keep;
	c->last_byte = at[n - 1];
	c->left -= n;
	if (!c->left && c->kind == SCRAPER) {
		add(&scrape, now_ns() - c->due_ns);
		did.scrapes++;
		c->busy = c->open = false;
		c->len = 0;
	} else if (!c->left) {
		message_end(c);
	}
	return n;
}

static void head_end(struct client *c)
{
	const char *length = strcasestr(c->text, "\r\nContent-Length:");

	if (strncmp(c->text, c->kind == SCRAPER ? "HTTP/1.1 200 " : "HTTP/1.1 101 ", 13))
		wrong(c, c->text);
	c->left = c->kind == SCRAPER && length ? strtoull(length + 17, NULL, 10) : 0;
	c->open = true;
	c->len = 0;
	if (c->kind == STALLED)
		listen_for(c, EPOLL_CTL_MOD, 0);
}

static size_t take_head(struct client *c, const char *at)
{
	if (c->len == TEXT - 1)
		wrong(c, "a head without end");
	else
		c->text[c->len++] = *at;
	c->text[c->len] = 0;
	if (c->len >= 4 && !memcmp(c->text + c->len - 4, "\r\n\r\n", 4))
		head_end(c);
	return 1;
}

static void take(struct client *c, const char *at, size_t len)
{
	while (len) {
		size_t used = !c->open ? take_head(c, at) : c->left ? take_payload(c, at, len) : take_frame(c, at);

		at += used;
		len -= used;
	}
}

/* A slow client wants to be told, and then hung up on. */
static void slow_end(struct client *c)
{
	c->text[c->len] = 0;
	*(strncmp(c->text, "HTTP/1.1 408 ", 13) ? &did.slow_other : &did.slow_408) += 1;
	hang_up(c);
	dial(c);
}

static void over(struct client *c)
{
	if (c->kind == SLOW) {
		slow_end(c);
		return;
	}
	if (c->kind == READER || c->kind == SCRAPER) {
		did.ended++;
		wrong(c, c->close_code ? "the daemon closed it" : "its connection ended");
	}
	hang_up(c);
}

static void readable(struct client *c)
{
	static char buffer[256 << 10];
	/* a stalled client leaves what follows its answer where it is */
	size_t room = c->kind == STALLED && !c->open ? 16 : sizeof(buffer);
	ssize_t n = recv(c->fd, buffer, room, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		over(c);
	else if (c->kind != SLOW)
		take(c, buffer, (size_t)n);
	else
		for (ssize_t i = 0; i < n && c->len < TEXT - 1; i++)
			c->text[c->len++] = buffer[i];
}

static void storm(struct client *c)
{
	static const struct {
		const char *text;
		size_t len;
	} said[] = {{"", 0}, {SCRAPE, 9}, {SCRAPE, sizeof(SCRAPE) - 1}, {HANDSHAKE, sizeof(HANDSHAKE) - 1},
		{"\x16\x03\x01\x02", 4}, {SCRAPE SCRAPE SCRAPE, 3 * (sizeof(SCRAPE) - 1)}};
	size_t i = did.storms++ % (sizeof(said) / sizeof(said[0]));

	if (said[i].len && send(c->fd, said[i].text, said[i].len, MSG_NOSIGNAL) < 0)
		wrong(c, strerror(errno));
	hang_up(c);
}

static void connected(struct client *c)
{
	c->connected = true;
	if (c->kind == STORM) {
		storm(c);
		return;
	}
	if (c->kind <= STALLED)
		say(c, HANDSHAKE, sizeof(HANDSHAKE) - 1);
	listen_for(c, EPOLL_CTL_MOD, EPOLLIN);
}

static void ready(struct client *c, uint32_t events)
{
	if (c->fd < 0)
		return;
	if (c->connected && events)
		readable(c);
	else if (events & (EPOLLERR | EPOLLHUP) && c->kind != STORM)
		over(c);
	else if (events & (EPOLLERR | EPOLLHUP))
		hang_up(c);
	else
		connected(c);
}

/* ---- what is due */

/* One that has nothing to do, in turn; NULL: none. */
static struct client *idle(enum kind kind)
{
	static size_t last[STORM + 1];

	for (size_t n = 0; n < client_count; n++) {
		struct client *c = &client[last[kind] = (last[kind] + 1) % client_count];

		if (c->kind == kind && (kind == STORM ? c->fd < 0 : c->connected && !c->busy))
			return c;
	}
	return NULL;
}

static void scrapes_due(uint64_t start, uint64_t now, uint64_t *begun)
{
	for (uint64_t due; opt.scrapes > 0 && (due = start + (uint64_t)((double)*begun * 1e9 / opt.scrapes)) <= now;
		++*begun) {
		struct client *c = idle(SCRAPER);

		if (!c)
			return;
		c->busy = true;
		c->due_ns = due;
		say(c, SCRAPE, sizeof(SCRAPE) - 1);
	}
}

static void storms_due(uint64_t start, uint64_t now, uint64_t *begun)
{
	struct client *c;

	while ((double)*begun < (double)(now - start) / 1e9 * opt.storm && (c = idle(STORM))) {
		dial(c);
		++*begun;
	}
}

static void slow_due(uint64_t now)
{
	for (size_t i = 0; i < client_count; i++) {
		struct client *c = &client[i];

		if (c->kind != SLOW || !c->connected || now < c->due_ns || c->sent == sizeof(SLOW_HEAD) - 1)
			continue;
		c->due_ns = now + S_NS;
		if (send(c->fd, SLOW_HEAD + c->sent++, 1, MSG_NOSIGNAL) < 0)
			slow_end(c);
	}
}

static bool line_waits; /* on standard input */

static void turn(int ms)
{
	struct epoll_event events[256];
	int count = epoll_wait(loop, events, 256, ms);

	if (count < 0 && errno != EINTR)
		die("epoll_wait", strerror(errno));
	for (int i = 0; i < count; i++) {
		if (events[i].data.ptr)
			ready(events[i].data.ptr, events[i].events);
		else
			line_waits = true;
	}
	slow_due(now_ns());
}

/* ---- phases */

static bool settled(const struct client *c)
{
	switch (c->kind) {
	case READER: return c->snapshots || c->fd < 0;
	case STALLED: return c->open || c->fd < 0;
	case STORM: return true;
	default: return c->connected;
	}
}

static void open_all(enum kind kind, uint32_t count)
{
	size_t first = client_count, next = first, waiting = 0;

	for (uint32_t i = 0; i < count; i++)
		new_client(kind, i);
	while (kind != STORM && (next < client_count || waiting)) {
		while (next < client_count && waiting < OPENING_MAX) {
			dial(&client[next++]);
			waiting++;
		}
		turn(10);
		waiting = 0;
		for (size_t i = first; i < next; i++)
			waiting += !settled(&client[i]);
	}
}

static double quantile_ms(struct samples *s, double q)
{
	if (!s->count)
		return 0;
	qsort(s->ns, s->count, sizeof(s->ns[0]), by_size);
	return (double)s->ns[(size_t)((double)(s->count - 1) * q)] / 1e6;
}

static void report(size_t first_tick)
{
	uint64_t missing = 0, least = UINT64_MAX;

	for (size_t i = first_tick; i < tick_count; i++)
		missing += opt.readers - tick[i].readers;
	for (size_t i = 0; i < client_count; i++)
		if (client[i].kind == READER && client[i].snapshots < least)
			least = client[i].snapshots;
	printf("{\"snapshots\":%zu,\"missing\":%llu,\"repeated\":%llu,\"ended\":%llu,", tick_count - first_tick,
		(unsigned long long)missing, (unsigned long long)did.repeated, (unsigned long long)did.ended);
	printf("\"behind_p99_ms\":%.3f,\"behind_max_ms\":%.3f,", quantile_ms(&behind, 0.99), quantile_ms(&behind, 1));
	printf("\"scrapes\":%llu,\"scrape_p50_ms\":%.3f,\"scrape_p99_ms\":%.3f,", (unsigned long long)did.scrapes,
		quantile_ms(&scrape, 0.5), quantile_ms(&scrape, 0.99));
	printf("\"storms\":%llu,\"slow_408\":%llu,\"slow_other\":%llu,\"least_snapshots\":%llu,\"why\":\"",
		(unsigned long long)did.storms, (unsigned long long)did.slow_408, (unsigned long long)did.slow_other,
		(unsigned long long)(opt.readers ? least : 0));
	for (const char *at = did.why; *at; at++)
		putchar(*at < ' ' || *at == '"' || *at == '\\' ? ' ' : *at);
	printf("\"}\n");
	fflush(stdout);
}

static bool complete(size_t first_tick)
{
	for (size_t i = first_tick; i < tick_count; i++)
		if (tick[i].readers < opt.readers)
			return false;
	return true;
}

static void window(double seconds)
{
	uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), scrapes = 0, storms = 0, now;
	size_t first_tick = tick_count;

	memset(&did, 0, sizeof(did));
	behind.count = scrape.count = 0;
	frozen = false;
	while ((now = now_ns()) < end) {
		scrapes_due(start, now, &scrapes);
		storms_due(start, now, &storms);
		turn(1);
	}
	frozen = true;
	for (end = now + GRACE_NS; now_ns() < end && !complete(first_tick);)
		turn(10);
	report(first_tick);
}

static void drain(void)
{
	uint64_t end = now_ns() + DRAIN_NS, told = 0, gone = 0, most = 0;

	for (size_t i = 0; i < client_count; i++)
		if (client[i].kind == STALLED && client[i].fd >= 0)
			listen_for(&client[i], EPOLL_CTL_MOD, EPOLLIN);
	while (now_ns() < end)
		turn(10);
	for (size_t i = 0; i < client_count; i++) {
		if (client[i].kind != STALLED)
			continue;
		told += client[i].close_code == 1013;
		gone += client[i].fd < 0;
		if (client[i].snapshots > most)
			most = client[i].snapshots;
	}
	printf("{\"closed_1013\":%llu,\"gone\":%llu,\"most_snapshots\":%llu}\n", (unsigned long long)told,
		(unsigned long long)gone, (unsigned long long)most);
	fflush(stdout);
}

static const struct option options[] = {
	{"http", required_argument, NULL, 'h'},
	{"ws", required_argument, NULL, 'w'},
	{"readers", required_argument, NULL, 'r'},
	{"stalled", required_argument, NULL, 's'},
	{"scrapes", required_argument, NULL, 'c'},
	{"slow", required_argument, NULL, 'l'},
	{"storm", required_argument, NULL, 't'},
	{0},
};

static void parse(int argc, char **argv)
{
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
		switch (c) {
		case 'h': opt.http_port = atoi(optarg); break;
		case 'w': opt.ws_port = atoi(optarg); break;
		case 'r': opt.readers = (uint32_t)atoi(optarg); break;
		case 's': opt.stalled = (uint32_t)atoi(optarg); break;
		case 'c': opt.scrapes = atof(optarg); break;
		case 'l': opt.slow = (uint32_t)atoi(optarg); break;
		case 't': opt.storm = atof(optarg); break;
		default: exit(2);
		}
	if (!opt.http_port || !opt.ws_port || opt.readers + opt.stalled + opt.slow > CLIENTS_MAX - SCRAPERS - STORMERS)
		die("usage", "load --http PORT --ws PORT, and at most 8000 clients");
}

/* False: there are no more. */
static bool command(void)
{
	char line[64];
	ssize_t len = read(STDIN_FILENO, line, sizeof(line) - 1);

	line_waits = false;
	if (len <= 0)
		return false;
	line[len] = 0;
	if (!strncmp(line, "drain", 5))
		drain();
	else
		window(atof(line));
	return true;
}

int main(int argc, char **argv)
{
	struct epoll_event input = {.events = EPOLLIN};
	struct rlimit files;

	parse(argc, argv);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	loop = epoll_create1(EPOLL_CLOEXEC);
	open_all(STALLED, opt.stalled);
	open_all(READER, opt.readers);
	open_all(SCRAPER, opt.scrapes > 0 ? SCRAPERS : 0);
	open_all(SLOW, opt.slow);
	open_all(STORM, opt.storm > 0 ? STORMERS : 0);
	if (epoll_ctl(loop, EPOLL_CTL_ADD, STDIN_FILENO, &input))
		die("epoll_ctl", strerror(errno));
	printf("ready %s\n", did.why);
	fflush(stdout);
	do
		turn(1000);
	while (!line_waits || command());
	return 0;
}
