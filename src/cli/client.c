/* SPDX-License-Identifier: GPL-2.0 */
/*
 * client.c: what the client verbs share: the address of a daemon, given or by the options of this node, a small
 * HTTP/1.1 client that fetches JSON objects or text over one connection that is kept, and the look into an answer.
 *
 * Limits: numeric addresses, "localhost" and Unix sockets only; an answer has a Content-Length of at most 16 MiB, a
 * head of at most 8 KiB, and takes at most 5 s.
 */
#include "zernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define METRICS_PORT 9091
#define UNIX         "unix:"
#define TOKEN_FILE   "--token-file"
#define FETCH_NS     (5 * ZN_NS_PER_S)
#define DIGITS       "0123456789"
#define LOOPBACK     "127.0.0.1"

/* What the options of this node have that this user may not read; told where there is no answer. */
static char unreadable[ZN_TEXT_MAX];

static bool parse_port(const char *text, in_port_t *port)
{
	size_t digits = strspn(text, DIGITS);
	unsigned long v = digits && digits <= 5 ? strtoul(text, NULL, 10) : 0;

	*port = htons((uint16_t)v);
	return v > 0 && v <= UINT16_MAX && text[digits] == '\0';
}

static bool set_address(struct zn_client *c, const char *host, in_port_t port)
{
	bool six = strchr(host, ':') != NULL;

	c->address.any.sa_family = six ? AF_INET6 : AF_INET;
	c->address_len = six ? sizeof(c->address.v6) : sizeof(c->address.v4);
	if (six)
		c->address.v6.sin6_port = port;
	else
		c->address.v4.sin_port = port;
	snprintf(c->host, sizeof(c->host), six ? "[%s]:%u" : "%s:%u", host, ntohs(port));
	snprintf(c->name, sizeof(c->name), "%s", c->host);
	return inet_pton(c->address.any.sa_family, host,
		       six ? (void *)&c->address.v6.sin6_addr : &c->address.v4.sin_addr) == 1;
}

/* Cuts HOST, HOST:PORT, [HOST], [HOST]:PORT or a bare IPv6 address in place; *port is NULL if there is none. */
static bool split_host(char *text, char **host, char **port)
{
	char *end = strchr(text, ':');

	*host = text;
	*port = NULL;
	if (*text == '[') {
		end = strchr(text, ']');
		if (!end)
			return false;
		*end++ = '\0';
		*host = text + 1;
	} else if (!end || strchr(end + 1, ':')) {
		return true;
	}
	if (*end == '\0')
		return true;
	*port = end + 1;
	if (*end != ':')
		return false;
	*end = '\0';
	return true;
}

/* The host of a Unix socket is this node (RFC 9110, section 7.2, asks for one). */
static bool set_unix(struct zn_client *c, const char *path)
{
	c->address.local.sun_family = AF_UNIX;
	c->address_len = sizeof(c->address.local);
	snprintf(c->host, sizeof(c->host), "localhost");
	snprintf(c->name, sizeof(c->name), UNIX "%s", path);
	return *path &&
		(size_t)snprintf(c->address.local.sun_path, sizeof(c->address.local.sun_path), "%s", path) <
		sizeof(c->address.local.sun_path);
}

/* url: [http://]ADDRESS[:PORT][/] or unix:PATH. False if it is none; nothing is looked up. */
static bool set_url(struct zn_client *c, const char *url)
{
	char text[INET6_ADDRSTRLEN + 16], *host, *port_text;
	in_port_t port = htons(METRICS_PORT);
	int len;

	if (!strncmp(url, UNIX, strlen(UNIX)))
		return set_unix(c, url + strlen(UNIX));
	url += strncasecmp(url, "http://", 7) ? 0 : 7;
	len = snprintf(text, sizeof(text), "%s", url);
	if (len <= 0 || (size_t)len >= sizeof(text))
		return false;
	if (text[len - 1] == '/')
		text[len - 1] = '\0';
	if (!split_host(text, &host, &port_text) || (port_text && !parse_port(port_text, &port)))
		return false;
	return set_address(c, strcasecmp(host, "localhost") ? host : LOOPBACK, port);
}

/* One address of --listen. False: it cannot be asked, as its port is any, or this user may not open its socket. */
static bool set_listen(struct zn_client *c, const char *item, uint64_t port)
{
	in_port_t at = htons((uint16_t)port);

	memset(&c->address, 0, sizeof(c->address));
	if (!strncmp(item, UNIX, strlen(UNIX)))
		return set_unix(c, item + strlen(UNIX)) && !access(item + strlen(UNIX), W_OK);
	if (!port || !set_address(c, strcmp(item, "*") ? item : LOOPBACK, at))
		return false;
	if (c->address.any.sa_family == AF_INET)
		return c->address.v4.sin_addr.s_addr != INADDR_ANY || set_address(c, LOOPBACK, at);
	return !IN6_IS_ADDR_UNSPECIFIED(&c->address.v6.sin6_addr) || set_address(c, "::1", at);
}

/* The first address that can be asked. If there is none, the last socket is named in what is said then. */
static void set_node(struct zn_client *c, const struct zn_options *o)
{
	struct zn_str list = zn_str_of(o->listen), item;
	char text[ZN_TEXT_MAX];

	while (zn_str_split(&list, ",", &item)) {
		snprintf(text, sizeof(text), "%.*s", (int)item.len, item.at);
		if (set_listen(c, text, o->metrics_port))
			return;
	}
	if (c->address.any.sa_family != AF_UNIX)
		set_address(c, LOOPBACK, htons(METRICS_PORT));
}

/* One line for all clients of a verb. */
static void warn_of_options(const struct zn_client *c, const char *verb, const char *why)
{
	static bool warned;

	if (!warned)
		fprintf(stderr, "zernel: %s: warning: %s; %s is asked\n", verb, why, c->name);
	warned = true;
}

/* Asks the daemon of this node, with its token if this user may read that. No token is asked for on a Unix socket. */
static void open_node(struct zn_client *c, const struct zn_client_args *a, struct zn_tokens *tokens, bool with_token)
{
	static struct zn_options o;
	char why[ZN_TEXT_MAX];
	int err = zn_options_client(&o, why);

	set_node(c, &o);
	c->of_node = true;
	if (err == -EACCES)
		snprintf(unreadable, sizeof(unreadable), "%s", why);
	else if (err)
		warn_of_options(c, a->verb, why);
	if (with_token && o.token_file[0] && c->address.any.sa_family != AF_UNIX &&
		zn_token_read(tokens, o.token_file, why))
		snprintf(unreadable, sizeof(unreadable), "%s", why);
}

int zn_client_misused(const struct zn_client_args *a, const char *what, const char *argument)
{
	fprintf(stderr, "zernel: %s: %s '%s'; %s\n", a->verb, what, argument, a->usage);
	return 2;
}

/* A number, or what a job may be called, is no address. */
static bool is_address(const char *text)
{
	struct in_addr v4;

	return strpbrk(text, ":/") || inet_pton(AF_INET, text, &v4) == 1;
}

int zn_client_argument(struct zn_client_args *a, char **argv, int at)
{
	const char *arg = argv[at];
	size_t len = strlen(TOKEN_FILE);
	bool token = !strncmp(arg, TOKEN_FILE, len), joined = token && arg[len] == '=';

	if (joined && arg[len + 1]) {
		a->token_file = arg + len + 1;
	} else if (token && !arg[len] && argv[at + 1]) {
		a->token_file = argv[at + 1];
		return 2;
	} else if (joined || (token && !arg[len])) {
		return zn_client_misused(a, "a file must follow", TOKEN_FILE), -1;
	} else if (*arg == '-') {
		return zn_client_misused(a, "unknown option", arg), -1;
	} else if (a->of_job && !is_address(arg)) {
		if (a->wanted)
			return zn_client_misused(a, "a second job or process", arg), -1;
		a->wanted = arg;
	} else if (a->url) {
		return zn_client_misused(a, "a second address", arg), -1;
	} else {
		a->url = arg;
	}
	return 1;
}

int zn_client_open(struct zn_client *c, const struct zn_client_args *a, const char *path, char *buffer)
{
	const char *file = a->token_file ? a->token_file : getenv("ZERNEL_TOKEN_FILE");
	struct zn_tokens tokens = {0};
	char why[ZN_TEXT_MAX];

	*c = (struct zn_client){.path = path, .fd = -1, .buffer = buffer};
	unreadable[0] = '\0';
	if (!a->url)
		open_node(c, a, &tokens, !file);
	else if (!set_url(c, a->url))
		return zn_client_misused(a, "no address (names other than localhost are not looked up):", a->url);
	if (file && *file && zn_token_read(&tokens, file, why)) {
		fprintf(stderr, "zernel: %s: %s\n", a->verb, why);
		return 2;
	}
	if (tokens.count)
		memcpy(c->token, tokens.token[0], ZN_TOKEN_MAX); /* the last byte of c->token stays NUL */
	return 0;
}

static void hang_up(struct zn_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->phase = ZN_CLIENT_CLOSED;
}

static int fail_request(struct zn_client *c, const char *why)
{
	c->unreachable = c->phase == ZN_CLIENT_CONNECTING;
	c->refused = c->misused = false;
	snprintf(c->why, sizeof(c->why), "%s", why);
	hang_up(c);
	return -1;
}

/* Whether users have the numbers here that they have outside. */
static bool knows_users(void)
{
	char map[64];
	unsigned users;

	return zn_file_read("/proc/self/uid_map", map, sizeof(map)) <= 0 ||
		(sscanf(map, "%*u %*u %u", &users) == 1 && users == UINT32_MAX);
}

/* Whose socket the client will be answered by, or is: one who listens for a moment alone is known by the connection.
 * False: nobody's here, as where the port leads into a container. */
static bool find_answerer(const struct zn_client *c, uint32_t *user)
{
	struct zn_peer own;
	socklen_t len = sizeof(own.address);
	bool there;

	*user = zn_listening_user(&c->address.any, "/proc", SIZE_MAX, &there);
	if (!there && c->fd >= 0 && !getsockname(c->fd, &own.address.any, &len))
		*user = zn_listening_taken(&c->address.any, &own.address.any, &there);
	return there;
}

/* While the daemon is away, any user may have its port, and answer in its place: he is told nothing, and not believed.
 * Looked at before the connection is made, and after. */
static int check_answerer(struct zn_client *c)
{
	char whose[24] = "another user", why[96];
	uint32_t user;

	if (!c->of_node || c->address.any.sa_family == AF_UNIX || !find_answerer(c, &user) || !user ||
		user == geteuid() || !knows_users())
		return 0;
	if (user != ZN_UNKNOWN)
		snprintf(whose, sizeof(whose), "user %u", user);
	snprintf(why, sizeof(why), "it is held by %s, not by the daemon of this node", whose);
	fail_request(c, why);
	c->unreachable = false;
	c->refused = true;
	return -1;
}

static int send_request(struct zn_client *c)
{
	char request[sizeof(c->host) + sizeof(c->token) + ZN_PARAMETER_PATH + 128];
	int len = snprintf(request, sizeof(request),
		"GET %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nUser-Agent: zernel\r\n%s%s%s\r\n", c->path, c->host,
		c->text ? "text/plain" : "application/json", c->token[0] ? "Authorization: Bearer " : "", c->token,
		c->token[0] ? "\r\n" : "");
	ssize_t sent;

	if (len >= (int)sizeof(request))
		return fail_request(c, "the request is too long");
	sent = send(c->fd, request, (size_t)len, MSG_NOSIGNAL);
	if (sent != len)
		return fail_request(c, sent < 0 ? strerror(errno) : "the request was not taken whole");
	c->len = c->head = 0;
	c->phase = ZN_CLIENT_READING;
	return 0;
}

static int begin_connect(struct zn_client *c)
{
	c->reused = false;
	c->phase = ZN_CLIENT_CONNECTING;
	if (check_answerer(c))
		return -1;
	c->fd = socket(c->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || (connect(c->fd, &c->address.any, c->address_len) && errno != EINPROGRESS))
		return fail_request(c, strerror(errno));
	return 0;
}

int zn_client_start(struct zn_client *c, uint64_t now_ns)
{
	c->deadline_ns = now_ns + FETCH_NS;
	if (c->phase == ZN_CLIENT_CLOSED)
		return begin_connect(c);
	c->reused = true;
	return send_request(c) ? begin_connect(c) : 0;
}

#define MISUSED 400

/* A status other than that of an answer: what a daemon means by it. */
static int fail_status(struct zn_client *c)
{
	static const struct {
		int status;
		const char *means, *with_token; /* NULL: the same */
	} known[] = {
		{401, "it asks for a token: " TOKEN_FILE " FILE",
			"it does not accept the token that was sent: " TOKEN_FILE " FILE"},
		{421, "it does not know itself by this name: ask for its address, or see --host-names of zerneld",
			NULL},
		{500, "status 500: the answer does not fit into its buffer", NULL},
		{503, "status 503: it is too busy to answer", NULL},
	};
	char why[64];

	for (size_t i = 0; i < ZN_LEN(known); i++) {
		if (known[i].status != c->status)
			continue;
		fail_request(c, c->token[0] && known[i].with_token ? known[i].with_token : known[i].means);
		c->refused = true;
		return -1;
	}
	snprintf(why, sizeof(why), "status %d for %s", c->status, c->path);
	return fail_request(c, why);
}

/* The daemon's words in answer to what cannot be: a line of plain text. */
static int fail_asked(struct zn_client *c)
{
	size_t len = 0;
	char why[sizeof(c->why)];

	while (len < c->answer.len && !strchr("\r\n", c->answer.at[len]))
		len++;
	if (!len || *c->answer.at == '<' || len >= sizeof(why))
		return fail_status(c);
	for (size_t i = 0; i < len; i++)
		why[i] = c->answer.at[i] >= ' ' && c->answer.at[i] < 127 ? c->answer.at[i] : '?';
	why[len] = '\0';
	fail_request(c, why);
	c->refused = c->misused = true;
	return -1;
}

static int parse_head(struct zn_client *c)
{
	struct zn_reply_head head;

	if (zn_reply_head(&head, (struct zn_str){c->buffer, c->head}))
		return fail_request(c, "it does not speak HTTP/1.1");
	c->status = head.status;
	if (c->status != 200 && c->status != c->also && c->status != MISUSED)
		return fail_status(c);
	if (head.chunked || head.length < 0 || head.length > ZN_BUFFER_BYTES)
		return fail_request(c, "an answer without a Content-Length of at most 16 MiB");
	c->keep = zn_reply_keeps(&head);
	c->body = (size_t)head.length;
	return 0;
}

static int take_body(struct zn_client *c)
{
	c->answer = (struct zn_str){c->buffer + c->head, c->body};
	if (c->status == MISUSED)
		return fail_asked(c);
	if (!c->text)
		c->answer = zn_str_trim(c->answer, " \t\r\n");
	if (!c->text && (c->answer.len == 0 || c->answer.at[0] != '{' || zn_json_check(c->answer)))
		return c->status == 200 ? fail_request(c, "an answer that is no JSON object") : fail_status(c);
	if (c->keep && c->len == c->head + c->body)
		c->phase = ZN_CLIENT_IDLE;
	else
		hang_up(c);
	return 1;
}

static int parse_reply(struct zn_client *c)
{
	if (!c->head) {
		size_t len = c->len < ZN_HTTP_HEAD_MAX ? c->len : ZN_HTTP_HEAD_MAX;
		const char *empty = memmem(c->buffer, len, "\r\n\r\n", 4);

		if (!empty)
			return len == ZN_HTTP_HEAD_MAX ? fail_request(c, "an HTTP head without end") : 0;
		c->head = (size_t)(empty - c->buffer) + 4;
		if (parse_head(c))
			return -1;
	}
	return c->len < c->head + c->body ? 0 : take_body(c);
}

static int receive_reply(struct zn_client *c)
{
	ssize_t n = recv(c->fd, c->buffer + c->len, ZN_CLIENT_BUFFER - c->len, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0) {
		c->len += (size_t)n;
		return parse_reply(c);
	}
	/* RFC 9112, section 9.3.1: a kept connection may end at any time, so an idempotent request is sent again */
	if (c->reused && c->len == 0) {
		hang_up(c);
		return begin_connect(c);
	}
	return fail_request(c, n < 0 ? strerror(errno) : c->len ? "an answer that was cut off" : "an empty answer");
}

static int advance_phase(struct zn_client *c)
{
	socklen_t len = sizeof(int);
	int err = 0;

	switch (c->phase) {
	case ZN_CLIENT_CONNECTING:
		if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) || err)
			return fail_request(c, strerror(err ? err : errno));
		return check_answerer(c) ? -1 : send_request(c);
	case ZN_CLIENT_READING: return receive_reply(c);
	default: hang_up(c); return 0; /* nothing may come unasked: this is the end of a kept connection */
	}
}

bool zn_client_busy(const struct zn_client *c)
{
	return c->phase == ZN_CLIENT_CONNECTING || c->phase == ZN_CLIENT_READING;
}

struct pollfd zn_client_poll(const struct zn_client *c)
{
	return (struct pollfd){.fd = c->fd, .events = c->phase == ZN_CLIENT_CONNECTING ? POLLOUT : POLLIN};
}

int zn_client_step(struct zn_client *c, bool is_ready, uint64_t now_ns)
{
	int result = is_ready ? advance_phase(c) : 0;

	if (result == 0 && zn_client_busy(c) && now_ns >= c->deadline_ns)
		return fail_request(c, "no answer within 5 s");
	return result;
}

int zn_client_ms_until(uint64_t when_ns)
{
	uint64_t now_ns = zn_now_ns();

	return when_ns > now_ns ? (int)((when_ns - now_ns + ZN_NS_PER_MS - 1) / ZN_NS_PER_MS) : 0;
}

int zn_client_get(struct zn_client *c)
{
	int result = zn_client_start(c, zn_now_ns());

	while (result == 0) {
		struct pollfd fd = zn_client_poll(c);
		bool is_ready = poll(&fd, 1, zn_client_ms_until(c->deadline_ns)) > 0;

		result = zn_client_step(c, is_ready, zn_now_ns());
	}
	return result < 0 ? -1 : 0;
}

int zn_client_complain(const struct zn_client *c, const char *verb)
{
	if (c->unreachable)
		fprintf(stderr,
			"zernel: %s: no daemon at %s: %s; start it with 'zerneld' or give its address: "
			"zernel %s http://ADDRESS:9091",
			verb, c->name, c->why, verb);
	else
		fprintf(stderr, "zernel: %s: %s%s: %s", verb, c->name, c->refused ? "" : " is no zerneld", c->why);
	fprintf(stderr, *unreadable ? " (%s)\n" : "\n", unreadable);
	return c->misused ? 2 : 1;
}

bool zn_client_print(struct zn_str json)
{
	return printf("%.*s\n", (int)json.len, json.at) >= 0 && !fflush(stdout);
}
