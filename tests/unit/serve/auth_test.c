/* SPDX-License-Identifier: GPL-2.0 */
/* auth_test.c: token files, tokens, names of hosts and origins; each header from a block of exactly its size. */
#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define TOKEN "0123456789abcdef"
#define OTHER "AZaz09-._~+/xyzw=="

static char path[] = "/tmp/zn_auth_XXXXXX", resolv[] = "/tmp/zn_resolv_XXXXXX", why[ZN_TEXT_MAX];
static struct zn_options o;
static struct zn_auth a;

static void write_file(const char *to, const char *text, size_t len)
{
	FILE *f = fopen(to, "w");

	if (!f || fwrite(text, 1, len, f) != len || fclose(f))
		abort();
}

static int open_with(const char *tokens)
{
	o.token_file[0] = '\0';
	if (tokens) {
		write_file(path, tokens, strlen(tokens));
		snprintf(o.token_file, sizeof(o.token_file), "%s", path);
	}
	memset(why, 'x', sizeof(why));
	return zn_auth_open(&a, &o, "node7", resolv, why);
}

/* A copy that ends where its block ends, for ASan. */
static struct zn_str boxed(const char *text, size_t len)
{
	char *at = malloc(len ? len : 1);

	memcpy(at, text, len);
	return (struct zn_str){at, len};
}

static bool with_header(const char *text, size_t len)
{
	struct zn_str box = boxed(text, len);
	struct zn_http_req req = {.authorization = box};
	bool is = zn_auth_token(&a, &req);

	free((void *)box.at);
	return is;
}

static bool with_protocol(const char *text, size_t len, bool upgrade)
{
	struct zn_str box = boxed(text, len);
	struct zn_http_req req = {.ws_protocol = {box}, .upgrade = upgrade};
	bool is = zn_auth_token(&a, &req);

	free((void *)box.at);
	return is;
}

/* ---- token files ---- */

#define LINE_128                                                                                                       \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"                                             \
	"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define FORM                                                                                                           \
	"a token is 16 to 128 of A-Z a-z 0-9 - . _ ~ + / with = at its end; "                                          \
	"openssl rand -hex 32 makes one"

static const struct {
	const char *name, *text;
	uint32_t count; /* 0: refused */
	const char *says;
} files[] = {
	{"one token", TOKEN "\n", 1, ""},
	{"no newline at the end", TOKEN, 1, ""},
	{"two tokens", TOKEN "\n" OTHER "\n", 2, ""},
	{"comments and empty lines", "# new\n\n  \t\n" TOKEN "  # old\n\t" OTHER "\r\n#\n", 2, ""},
	{"the longest", LINE_128 "\n", 1, ""},
	{"eight", TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n", 8, ""},
	{"nine", TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN "\n" TOKEN, 0,
		"token file %s:9: more than 8 tokens"},
	{"empty", "", 0, "token file %s: no token in it; it has one on each line"},
	{"only comments", "# a\n\n", 0, "token file %s: no token in it; it has one on each line"},
	{"too short", "#\n0123456789abcde\n", 0, "token file %s:2: " FORM},
	{"too long", LINE_128 "c\n", 0, "token file %s:1: " FORM},
	{"a blank inside", "01234567 89abcdef\n", 0, "token file %s:1: " FORM},
	{"a # inside", "0123456789#abcdef0\n", 0, "token file %s:1: " FORM},
	{"= inside", "01234567=89abcdef\n", 0, "token file %s:1: " FORM},
	{"only =", "================\n", 0, "token file %s:1: " FORM},
	{"a quoted one", "\"0123456789abcdef\"\n", 0, "token file %s:1: " FORM},
	{"bytes above ASCII", "0123456789abcd\xc3\xa9\n", 0, "token file %s:1: " FORM},
	{"the second is bad", TOKEN "\nbad\n", 0, "token file %s:2: " FORM},
};

static void token_files(void)
{
	char want[ZN_TEXT_MAX];

	for (size_t i = 0; i < ZN_LEN(files); i++) {
		t_begin(files[i].name);
		CHECK_EQ(open_with(files[i].text), files[i].count ? 0 : -EINVAL);
		if (files[i].count)
			CHECK_EQ(a.tokens.count, files[i].count);
		snprintf(want, sizeof(want), files[i].says, path);
		CHECK_STR(why, want);
	}
}

static int open_path(const char *name)
{
	snprintf(o.token_file, sizeof(o.token_file), "%s", name);
	return zn_auth_open(&a, &o, "node7", resolv, why);
}

T(files_that_cannot_be)
{
	static char big[16 * 1024 + 1], fifo[64], text[300];

	CHECK_EQ(open_path("/nowhere/tokens"), -ENOENT);
	CHECK_STR(why, "token file /nowhere/tokens: cannot read it: No such file or directory");
	CHECK_EQ(open_path("/tmp"), -EISDIR);
	CHECK_STR(why, "token file /tmp: cannot read it: Is a directory");
	snprintf(fifo, sizeof(fifo), "%s.fifo", path);
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	CHECK_EQ(open_path(fifo), -ENOTSUP);
	CHECK(strstr(why, ": not a regular file"));
	unlink(fifo);
	memset(big, '\n', sizeof(big));
	memcpy(big, TOKEN, 16);
	write_file(path, big, sizeof(big) - 1);
	CHECK_EQ(open_path(path), 0);
	write_file(path, big, sizeof(big));
	CHECK_EQ(open_path(path), -EFBIG);
	CHECK(strstr(why, ": larger than 16384 bytes"));
	memset(text, 'p', sizeof(text) - 1);
	text[3] = '\x1b';
	CHECK(open_path(text) < 0);
	CHECK(strnlen(why, sizeof(why)) < sizeof(why));
	for (size_t i = 0; why[i]; i++)
		CHECK(why[i] >= 0x20 && why[i] < 0x7f);
}

T(a_nul_is_no_token)
{
	static const char text[] = "0123456789\0abcdef\n";

	write_file(path, text, sizeof(text) - 1);
	CHECK_EQ(open_path(path), -EINVAL);
}

T(any_bytes_are_survived)
{
	static const char seed[] = "# x\n" TOKEN "\n" OTHER " # y\n";
	char text[sizeof(seed)];
	uint32_t state = 1;
	int refused = 0;

	for (int round = 0; round < 2000; round++) {
		memcpy(text, seed, sizeof(seed));
		state = state * 1664525 + 1013904223;
		text[(state >> 16) % (sizeof(seed) - 1)] = (char)(state >> 8);
		write_file(path, text, sizeof(seed) - 1);
		refused += open_path(path) != 0;
		CHECK(a.tokens.count <= 3);
	}
	CHECK(refused > 200 && refused < 2000);
}

/* What a function writes to stderr. */
static const char *stderr_of(void (*call)(void))
{
	static char said[1024];
	int saved = dup(STDERR_FILENO), fds[2];
	ssize_t len;

	if (saved < 0 || pipe(fds))
		abort();
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	call();
	dup2(saved, STDERR_FILENO);
	close(saved);
	len = read(fds[0], said, sizeof(said) - 1);
	close(fds[0]);
	said[len > 0 ? len : 0] = '\0';
	return said;
}

static void open_one(void)
{
	open_path(path);
}

T(a_file_for_all_is_a_warning)
{
	static const struct {
		mode_t mode;
		const char *verb; /* NULL: no warning */
	} modes[] = {{0600, NULL}, {0640, NULL}, {0644, "read"}, {0646, "change"}, {0602, "change"}};
	char want[ZN_TEXT_MAX];

	write_file(path, TOKEN, 16);
	for (size_t i = 0; i < ZN_LEN(modes); i++) {
		chmod(path, modes[i].mode);
		snprintf(want, sizeof(want),
			"zerneld: warning: token file %s: every user may %s it; chmod o= keeps the tokens secret\n",
			path, modes[i].verb ? modes[i].verb : "");
		CHECK_STR(stderr_of(open_one), modes[i].verb ? want : "");
	}
	chmod(path, 0600);
}

T(reload_takes_the_new_or_keeps_the_old)
{
	CHECK_EQ(open_with(TOKEN), 0);
	write_file(path, OTHER, strlen(OTHER));
	CHECK_EQ(zn_auth_reload(&a, why), 0);
	CHECK(!with_header("Bearer " TOKEN, 23) && with_header("Bearer " OTHER, 25));
	write_file(path, "bad", 3);
	CHECK_EQ(zn_auth_reload(&a, why), -EINVAL);
	CHECK(strstr(why, ":1: a token is 16 to 128"));
	CHECK(!with_header("Bearer " TOKEN, 23) && with_header("Bearer " OTHER, 25));
	unlink(path);
	CHECK_EQ(zn_auth_reload(&a, why), -ENOENT);
	CHECK(with_header("Bearer " OTHER, 25));
	write_file(path, TOKEN "\n" OTHER, strlen(TOKEN "\n" OTHER));
	CHECK_EQ(zn_auth_reload(&a, why), 0);
	CHECK_EQ(a.tokens.count, 2);
	write_file(path, TOKEN, 16);
	CHECK_EQ(zn_auth_reload(&a, why), 0);
	CHECK_EQ(a.tokens.count, 1);
	CHECK(with_header("Bearer " TOKEN, 23) && !with_header("Bearer " OTHER, 25));
}

T(without_a_file_none_is_asked_for)
{
	CHECK_EQ(open_with(NULL), 0);
	CHECK_EQ(zn_auth_reload(&a, why), 0);
	CHECK(with_header("", 0) && with_header("Bearer x", 8) && with_protocol("", 0, false));
}

/* ---- tokens ---- */

static const struct {
	const char *header;
	bool right;
} headers[] = {
	{"Bearer " TOKEN, true},
	{"bearer " TOKEN, true},
	{"BEARER " TOKEN, true},
	{"Bearer " OTHER, true},
	{"Bearer " LINE_128, true},
	{"Bearer   " TOKEN, true},
	{"Bearer  ", false},
	{"Bearer \t" TOKEN, false},
	{"Bearer\t" TOKEN, false},
	{"Bearer " TOKEN " ", false},
	{"Bearer " TOKEN "," TOKEN, false},
	{"Bearer " TOKEN "0", false},
	{"Bearer 0123456789abcde", false},
	{"Bearer 0123456789abcdeF", false},
	{"Bearer 1123456789abcdef", false},
	{"Bearer " LINE_128 "b", false},
	{"Bearer " LINE_128 LINE_128, false},
	{"Bearer ", false},
	{"Bearer", false},
	{"", false},
	{" ", false},
	{TOKEN, false},
	{"Basic " TOKEN, false},
	{"Bearer:" TOKEN, false},
	{"Bearers " TOKEN, false},
	{"Token " TOKEN, false},
};

static void bearer_tokens(void)
{
	open_with(TOKEN "\n" OTHER "\n" LINE_128 "\n");
	for (size_t i = 0; i < ZN_LEN(headers); i++) {
		const char *h = headers[i].header;

		t_begin(*h ? h : "no header");
		CHECK_EQ(with_header(h, strlen(h)), headers[i].right);
		for (size_t len = 0; len < strlen(h); len++) {
			bool whole = len == 23 && !strncasecmp(h, "Bearer " TOKEN, 23);

			CHECK_EQ(with_header(h, len), whole || (len == 135 && !memcmp(h, "Bearer " LINE_128, 135)));
		}
	}
}

T(every_wrong_byte_is_noticed)
{
	static const char right[] = "Bearer " LINE_128;
	char wrong[sizeof(right)];

	open_with(LINE_128);
	for (size_t i = 7; i < sizeof(right) - 1; i++)
		for (int bit = 0; bit < 8; bit++) {
			memcpy(wrong, right, sizeof(right));
			wrong[i] ^= (char)(1 << bit);
			CHECK(!with_header(wrong, sizeof(wrong) - 1));
		}
	CHECK(with_header(right, sizeof(right) - 1));
}

T(a_slot_without_a_token_fits_nothing)
{
	static const char zeros[ZN_TOKEN_MAX + 7] = "Bearer ";

	open_with(TOKEN);
	for (size_t len = 7; len <= sizeof(zeros); len++)
		CHECK(!with_header(zeros, len));
	CHECK(!with_header("Bearer " TOKEN "\0", 24));
}

#define HEX      "zernel.token.30313233343536373839616263646566"
#define HEX_PLUS "zernel.token.415A617a30392D2E5f7e2b2f78797a773d3D"

static const struct {
	const char *header;
	bool right;
} protocols[] = {
	{HEX, true},
	{"zernel.v1, " HEX, true},
	{HEX ",zernel.v1", true},
	{HEX_PLUS, true},
	{"zernel.token.00, " HEX, true},
	{",, \t" HEX "\t ,", true},
	{"zernel.v1", false},
	{"zernel.token.", false},
	{"zernel.token." TOKEN, false},
	{HEX "0", false},
	{HEX "00", false},
	{"Zernel.token.30313233343536373839616263646566", false},
	{"zernel.token.3031323334353637383961626364656g", false},
	{"zernel.token.3031323334353637383961626364656", false},
	{"x" HEX, false},
	{"", false},
};

static void subprotocols(void)
{
	open_with(TOKEN "\n" OTHER);
	for (size_t i = 0; i < ZN_LEN(protocols); i++) {
		const char *h = protocols[i].header;

		t_begin(*h ? h : "no subprotocol");
		CHECK_EQ(with_protocol(h, strlen(h), true), protocols[i].right);
		CHECK(!with_protocol(h, strlen(h), false));
		for (size_t len = 0; len < strlen(h); len++)
			with_protocol(h, len, true);
	}
}

T(a_wrong_header_is_not_helped_by_a_subprotocol)
{
	struct zn_http_req req = {.authorization = {"Bearer x", 8}, .ws_protocol = {{HEX, sizeof(HEX) - 1}}};

	req.upgrade = true;
	open_with(TOKEN);
	CHECK(!zn_auth_token(&a, &req));
	req.authorization = (struct zn_str){"Basic eDp5", 10}; /* for a proxy on the way */
	CHECK(zn_auth_token(&a, &req));
	req.authorization = (struct zn_str){NULL, 0};
	CHECK(zn_auth_token(&a, &req));
	req.ws_protocol[1] = req.ws_protocol[0]; /* on a line of its own (RFC 6455, section 11.3.4) */
	req.ws_protocol[0] = (struct zn_str){"zernel.v1", 9};
	CHECK(zn_auth_token(&a, &req));
}

T(a_long_subprotocol_is_survived)
{
	static char text[8192];

	open_with(TOKEN);
	memset(text, '3', sizeof(text));
	memcpy(text, "zernel.token.", 13);
	for (size_t len = 260; len < sizeof(text); len += 97)
		CHECK(!with_protocol(text, len, true));
	for (size_t i = 0; i + 15 < sizeof(text); i += 15)
		memcpy(text + i, "zernel.token.3,", 15);
	CHECK(!with_protocol(text, sizeof(text), true));
}

/* ---- names ---- */

static bool host_is(const char *text)
{
	struct zn_str box = boxed(text, strlen(text));
	bool is = zn_auth_host(&a, box);

	free((void *)box.at);
	return is;
}

static const struct {
	const char *host;
	bool known;
} hosts[] = {
	{"127.0.0.1", true},
	{"10.1.2.3:9091", true},
	{"10.1.2.3:", true},
	{"127.0.0.1.", true},
	{"[::1]", true},
	{"[2001:db8::7]:9091", true},
	{"[::ffff:10.0.0.1]:80", true},
	{"localhost", true},
	{"LocalHost:9092", true},
	{"localhost.", true},
	{"node7", true},
	{"NODE7:80", true},
	{"node7.", true},
	{"node7.cluster.example", true},
	{"Node7.Cluster.Example.:9091", true},
	{"node7.example.net", true},
	{"alias", true},
	{"gpu.example.org:1", true},
	{"login.pool.example", true},
	{"a.b.pool.example.", true},
	{"grafana.example.com", true},
	{"", false},
	{".", false},
	{":80", false},
	{"evil.example", false},
	{"node7.evil.example", false},
	{"node7.cluster.example.evil.example", false},
	{"xnode7.cluster.example", false},
	{"node7cluster.example", false},
	{"node7..cluster.example", false},
	{"cluster.example", false},
	{"node8.cluster.example", false},
	{"pool.example", false},
	{".pool.example", false},
	{"xpool.example", false},
	{"localhost.evil.example", false},
	{"127.0.0.1.evil.example", false},
	{"127.1", false},
	{"0x7f000001", false},
	{"2130706433", false},
	{"::1", false},
	{"[::1", false},
	{"[::1]x", false},
	{"[::1]:x", false},
	{"[]", false},
	{"[127.0.0.1]", false},
	{"[node7]", false},
	{"[fe80::1%eth0]", false},
	{"localhost:x", false},
	{"localhost:99999", false},
	{"localhost:80:80", false},
	{"user@localhost", false},
	{"localhost, evil.example", false},
	{"localhost/", false},
	{"*", false},
	{"null", false},
	{"search", false},
	{"example.net evil.example", false},
};

static void host_names(void)
{
	static const char conf[] = "nameserver 10.0.0.1\ndomain first.example\n"
				   "search cluster.example  example.net.\t. -bad/ ..\n#search evil.example\n";

	write_file(resolv, conf, strlen(conf));
	snprintf(o.host_names, sizeof(o.host_names), "alias,GPU.example.org.,.pool.example");
	snprintf(o.ws_origin, sizeof(o.ws_origin), "http://a.example:3000,https://grafana.example.com");
	open_with(NULL);
	for (size_t i = 0; i < ZN_LEN(hosts); i++) {
		t_begin(*hosts[i].host ? hosts[i].host : "no host");
		CHECK_EQ(host_is(hosts[i].host), hosts[i].known);
	}
	t_begin("the last line of resolv.conf counts");
	CHECK_STR(a.domains, "cluster.example example.net");
	CHECK(!host_is("node7.first.example"));
}

T(a_node_with_a_full_name)
{
	static const char conf[] = "search other.example\n";

	write_file(resolv, conf, strlen(conf));
	o.host_names[0] = o.ws_origin[0] = '\0';
	CHECK_EQ(zn_auth_open(&a, &o, "node7.cluster.example", resolv, why), 0);
	CHECK(host_is("node7") && host_is("node7.cluster.example") && host_is("node7.cluster.example."));
	CHECK(host_is("node7.other.example"));
	CHECK(!host_is("node7.cluster.example.other.example") && !host_is("node7.cluster"));
}

T(a_node_without_a_name)
{
	CHECK_EQ(zn_auth_open(&a, &o, "", resolv, why), 0);
	CHECK(!host_is("") && !host_is(".other.example") && !host_is("other.example") && host_is("localhost"));
}

T(no_resolv_conf)
{
	CHECK_EQ(zn_auth_open(&a, &o, "node7", "/nowhere/resolv.conf", why), 0);
	CHECK_STR(a.domains, "");
	CHECK(host_is("node7") && !host_is("node7.cluster.example"));
	CHECK_EQ(zn_auth_open(&a, &o, "node7", "/tmp", why), 0);
	CHECK_EQ(zn_auth_open(&a, &o, "node7", NULL, why), 0);
}

/* What the resolver takes or not, a name that does not fit as a whole is not taken. */
T(a_hostile_resolv_conf)
{
	static char text[20000];
	size_t len = 0;

	while (len < sizeof(text) - 64)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s d%zu.example", len ? "" : "search", len);
	write_file(resolv, text, len);
	CHECK_EQ(zn_auth_open(&a, &o, "node7", resolv, why), 0);
	CHECK_STR(a.domains, "");
	text[3000] = '\n';
	write_file(resolv, text, 3001);
	CHECK_EQ(zn_auth_open(&a, &o, "node7", resolv, why), 0);
	CHECK(strlen(a.domains) > 200 && strlen(a.domains) < sizeof(a.domains));
	CHECK(!memcmp(a.domains, "d0.example d", 12));
	CHECK(!strcmp(a.domains + strlen(a.domains) - 8, ".example"));
	memset(text, 0xff, sizeof(text));
	memcpy(text, "search ", 7);
	write_file(resolv, text, sizeof(text));
	CHECK_EQ(zn_auth_open(&a, &o, "node7", resolv, why), 0);
	CHECK_STR(a.domains, "");
}

/* ---- origins ---- */

#define PORT 9091
static const struct {
	const char *name, *origin, *host; /* NULL: absent */
	bool ws_port, allowed;
} origins[] = {
	{"no page", NULL, "evil.example", false, true},
	{"the same", "http://node7:9091", "node7:9091", false, true},
	{"the same behind TLS", "https://node7", "node7", false, true},
	{"the same on the WebSocket port", "http://node7:9092", "node7:9092", true, true},
	{"our page from the other port", "http://node7:9091", "node7:9092", true, true},
	{"our page, not on that port", "http://node7:9091", "node7:9092", false, false},
	{"another port", "http://node7:3000", "node7:9092", true, false},
	{"another name", "http://node8:9091", "node7:9092", true, false},
	{"another address of the node", "http://127.0.0.1:9091", "localhost:9092", true, false},
	{"an IPv6 address", "http://[::1]:9091", "[::1]:9092", true, true},
	{"listed", "https://grafana.example.com", "node7:9092", true, true},
	{"listed, second", "http://a.example:3000", "anything", false, true},
	{"listed, another port", "https://grafana.example.com:8443", "node7:9092", true, false},
	{"listed, another scheme", "http://grafana.example.com", "node7:9092", true, false},
	{"part of a listed one", "http://a.example:300", "node7:9092", true, false},
	{"both of the list", "http://a.example:3000,https://grafana.example.com", "node7", true, false},
	{"rebinding", "http://evil.example:9091", "evil.example:9091", false, false},
	{"rebinding to the other port", "http://evil.example:9091", "evil.example:9092", true, false},
	{"null", "null", "node7:9091", false, false},
	{"null as a host", "null", "null", false, false},
	{"empty", "", "node7:9091", false, false},
	{"only a scheme", "http://", "node7:9091", false, false},
	{"no scheme", "node7:9091", "node7:9091", false, false},
	{"another protocol", "ftp://node7:9091", "node7:9091", false, false},
	{"an extension", "chrome-extension://node7:9091", "node7:9091", false, false},
	{"upper case", "HTTP://node7:9091", "node7:9091", false, false},
	{"a path", "http://node7:9091/", "node7:9091", false, false},
	{"a user", "http://u@node7:9091", "node7:9091", false, false},
	{"two origins", "http://node7:9091 http://node7:9091", "node7:9091", false, false},
	{"a bad port", "http://node7:x", "node7:9092", true, false},
	{"a huge port", "http://node7:4294976387", "node7:9092", true, false},
};

static bool origin_is(const char *origin, size_t len, const char *host, bool ws_port)
{
	struct zn_str box = boxed(origin ? origin : "", origin ? len : 0), name = boxed(host, strlen(host));
	struct zn_http_req req = {.origin = box, .host = name};
	bool is;

	if (!origin)
		req.origin.at = NULL;
	is = zn_auth_origin(&a, &req, ws_port, PORT);
	free((void *)box.at);
	free((void *)name.at);
	return is;
}

static void page_origins(void)
{
	snprintf(o.ws_origin, sizeof(o.ws_origin), "https://grafana.example.com,http://a.example:3000");
	open_with(NULL);
	for (size_t i = 0; i < ZN_LEN(origins); i++) {
		const char *origin = origins[i].origin;

		t_begin(origins[i].name);
		CHECK_EQ(origin_is(origin, origin ? strlen(origin) : 0, origins[i].host, origins[i].ws_port),
			origins[i].allowed);
		for (size_t len = 0; origin && len < strlen(origin); len++)
			origin_is(origin, len, origins[i].host, origins[i].ws_port);
	}
}

T(an_empty_list_allows_nothing)
{
	o.ws_origin[0] = '\0';
	CHECK(!origin_is("", 0, "node7", false));
	CHECK(!origin_is("http://a.example:3000", 21, "node7", false));
}

int main(void)
{
	int fd = mkstemp(path), second = mkstemp(resolv), status;

	if (fd < 0 || second < 0)
		return 1;
	close(fd);
	close(second);
	umask(077);
	token_files();
	RUN(files_that_cannot_be);
	RUN(a_nul_is_no_token);
	RUN(any_bytes_are_survived);
	RUN(a_file_for_all_is_a_warning);
	RUN(reload_takes_the_new_or_keeps_the_old);
	RUN(without_a_file_none_is_asked_for);
	bearer_tokens();
	RUN(every_wrong_byte_is_noticed);
	RUN(a_slot_without_a_token_fits_nothing);
	subprotocols();
	RUN(a_wrong_header_is_not_helped_by_a_subprotocol);
	RUN(a_long_subprotocol_is_survived);
	host_names();
	RUN(a_node_with_a_full_name);
	RUN(a_node_without_a_name);
	RUN(no_resolv_conf);
	RUN(a_hostile_resolv_conf);
	page_origins();
	RUN(an_empty_list_allows_nothing);
	status = t_end();
	unlink(path);
	unlink(resolv);
	return status;
}
