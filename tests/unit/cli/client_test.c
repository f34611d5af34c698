/* SPDX-License-Identifier: GPL-2.0 */
/* client_test.c: the arguments and addresses that client verbs take, and where this node's own daemon is. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"
#include "folder.h"
#include "t.h"

static char buffer[ZN_CLIENT_BUFFER];
static struct zn_client client;

/* What is wrong is said on stderr, which has the failed checks too. */
static void hush(bool on)
{
	static int real = -1, none = -1;

	if (real < 0) {
		real = dup(2);
		none = open("/dev/null", O_WRONLY);
	}
	dup2(on ? none : real, 2);
}

static int open_client(const char *url)
{
	struct zn_client_args a = {.verb = "test", .usage = "usage", .url = url};
	int status;

	hush(true);
	status = zn_client_open(&client, &a, "/json", buffer);
	hush(false);
	return status;
}

static const struct {
	const char *url, *host; /* NULL: it is no address */
} urls[] = {
	{NULL, "127.0.0.1:9091"},
	{"127.0.0.1", "127.0.0.1:9091"},
	{"http://10.1.2.3:80/", "10.1.2.3:80"},
	{"HTTP://localhost", "127.0.0.1:9091"},
	{"localhost:1", "127.0.0.1:1"},
	{"::1", "[::1]:9091"},
	{"[::1]", "[::1]:9091"},
	{"http://[fe80::2]:65535", "[fe80::2]:65535"},
	{"unix:/run/x", "localhost"},
	{"unix:", NULL},
	{"node7", NULL},
	{"https://127.0.0.1", NULL},
	{"127.0.0.1:0", NULL},
	{"127.0.0.1:65536", NULL},
	{"127.0.0.1:99999999999999999999", NULL},
	{"127.0.0.1:80x", NULL},
	{"127.0.0.1:", NULL},
	{"127.0.0.1/json", NULL},
	{"[::1", NULL},
	{"[::1]x", NULL},
	{"[127.0.0.1]", "127.0.0.1:9091"},
	{"1.2.3", NULL},
	{"http://", NULL},
	{"", NULL},
};

T(addresses)
{
	for (size_t i = 0; i < ZN_LEN(urls); i++) {
		CHECK_EQ(open_client(urls[i].url), urls[i].host ? 0 : 2);
		if (urls[i].host)
			CHECK_STR(client.host, urls[i].host);
	}
}

T(addresses_that_are_too_long)
{
	char url[5000];

	memset(url, '1', sizeof(url) - 1);
	url[sizeof(url) - 1] = 0;
	CHECK_EQ(open_client(url), 2);
	memcpy(url, "unix:/", 6);
	CHECK_EQ(open_client(url), 2);
	url[5 + 107] = 0; /* what a socket's address has room for */
	CHECK_EQ(open_client(url), 0);
	url[5 + 107] = '1';
	url[5 + 108] = 0;
	CHECK_EQ(open_client(url), 2);
}

/* Reads all of argv: 0, or -1. */
static int read_all(struct zn_client_args *a, bool of_job, char **argv)
{
	int result = 0;

	*a = (struct zn_client_args){.verb = "test", .usage = "usage", .of_job = of_job};
	hush(true);
	for (int i = 0, used; result == 0 && argv[i]; i += used)
		result = (used = zn_client_argument(a, argv, i)) < 0 ? -1 : 0;
	hush(false);
	return result;
}

#define READ(of_job, ...) read_all(&a, of_job, (char *[]){__VA_ARGS__, NULL})

T(arguments)
{
	struct zn_client_args a;

	CHECK_EQ(READ(false, "127.0.0.1", "--token-file", "f"), 0);
	CHECK(!strcmp(a.url, "127.0.0.1") && !strcmp(a.token_file, "f") && !a.wanted);
	CHECK_EQ(READ(false, "--token-file=f", "4711"), 0);
	CHECK(!strcmp(a.url, "4711") && !strcmp(a.token_file, "f"));
	CHECK_EQ(READ(false, "--token-file"), -1);
	CHECK_EQ(READ(false, "--token-file="), -1);
	CHECK_EQ(READ(false, "--token-filex", "f"), -1);
	CHECK_EQ(READ(false, "--other"), -1);
	CHECK_EQ(READ(false, "a", "b"), -1);
}

T(arguments_of_verbs_about_a_job)
{
	struct zn_client_args a;

	CHECK_EQ(READ(true, "4711", "127.0.0.1"), 0);
	CHECK(!strcmp(a.wanted, "4711") && !strcmp(a.url, "127.0.0.1"));
	CHECK_EQ(READ(true, "unix:x", "4711_2"), 0);
	CHECK(!strcmp(a.wanted, "4711_2") && !strcmp(a.url, "unix:x"));
	CHECK_EQ(READ(true, "train.py", "127.0.0.1"), 0);
	CHECK(!strcmp(a.wanted, "train.py") && !strcmp(a.url, "127.0.0.1"));
	CHECK_EQ(READ(true, "localhost:9091", "1.2.3"), 0);
	CHECK(!strcmp(a.wanted, "1.2.3") && !strcmp(a.url, "localhost:9091"));
	CHECK_EQ(READ(true, "1", "2"), -1);
	CHECK_EQ(READ(true, "1.2.3.4", "::1"), -1);
	CHECK_EQ(READ(true, "-1"), -1);
}

#define TOKEN "0123456789abcdef"

/* %s: the folder of the test, which has a socket that may be opened, "sock", and a file of a token, "token". */
static const struct {
	const char *file, *port; /* /etc/zernel.conf, and ZERNEL_METRICS_PORT */
	const char *name, *token;
} nodes[] = {
	{"", NULL, "127.0.0.1:9091", ""},
	{"metrics-port 9100", NULL, "127.0.0.1:9100", ""},
	{"metrics-port 9100", "9101", "127.0.0.1:9101", ""},
	{"metrics-port 9100", "tcp://10.0.0.7:9091", "127.0.0.1:9100", ""},
	{"metrics-port 9100", "x", "127.0.0.1:9100", ""},
	{"metrics-port 0", NULL, "127.0.0.1:9091", ""},
	{"listen *", NULL, "127.0.0.1:9091", ""},
	{"listen 0.0.0.0,10.0.0.7", NULL, "127.0.0.1:9091", ""},
	{"listen ::", NULL, "[::1]:9091", ""},
	{"listen 0::0", NULL, "[::1]:9091", ""},
	{"listen 10.0.0.7,127.0.0.1", NULL, "10.0.0.7:9091", ""},
	{"listen fd00::7", "80", "[fd00::7]:80", ""},
	{"listen unix:%s/sock,10.0.0.7", NULL, "unix:%s/sock", ""},
	{"listen unix:%s/none,10.0.0.7", NULL, "10.0.0.7:9091", ""},
	{"listen unix:%s/none", NULL, "unix:%s/none", ""},
	{"listen 10.0.0.7,unix:%s/sock\nmetrics-port 0", NULL, "unix:%s/sock", ""},
	{"token-file %s/token", NULL, "127.0.0.1:9091", TOKEN},
	{"token-file %s/none", NULL, "127.0.0.1:9091", ""},
	{"token-file %s/token\nlisten unix:%s/sock", NULL, "unix:%s/sock", ""},
	{"token-file %s/token\nlisten 10.0.0.7\nmetrics-prt 1", "9101", "127.0.0.1:9101", ""},
};

static void open_by(const char *file, const char *port, const char *url, const char *token_file)
{
	struct zn_client_args a = {.verb = "test", .usage = "usage", .url = url};
	char text[512], path[64];

	snprintf(text, sizeof(text), file, root, root);
	put("conf", text);
	snprintf(path, sizeof(path), "%s/conf", root);
	setenv("ZERNEL_CONFIG", path, 1);
	unsetenv("ZERNEL_METRICS_PORT");
	if (port)
		setenv("ZERNEL_METRICS_PORT", port, 1);
	unsetenv("ZERNEL_TOKEN_FILE");
	if (token_file)
		setenv("ZERNEL_TOKEN_FILE", token_file, 1);
	hush(true);
	CHECK_EQ(zn_client_open(&client, &a, "/json", buffer), 0);
	hush(false);
}

T(this_node)
{
	char name[256];

	for (size_t i = 0; i < ZN_LEN(nodes); i++) {
		open_by(nodes[i].file, nodes[i].port, NULL, NULL);
		snprintf(name, sizeof(name), nodes[i].name, root);
		CHECK_STR(client.name, name);
		CHECK_STR(client.token, nodes[i].token);
	}
}

T(the_token_of_this_node_stays_here)
{
	static const char file[] = "token-file %s/token";

	open_by(file, NULL, "127.0.0.1:9091", NULL);
	CHECK_STR(client.token, "");
	open_by(file, NULL, "http://10.0.0.7:9091", NULL);
	CHECK_STR(client.token, "");
	open_by(file, NULL, NULL, ""); /* no token is wanted */
	CHECK_STR(client.token, "");
}

int main(void)
{
	unsetenv("ZERNEL_TOKEN_FILE");
	unsetenv("ZERNEL_LISTEN");
	unsetenv("ZERNEL_METRICS_PORT");
	setenv("ZERNEL_CONFIG", "/dev/null", 1);
	open_folder();
	put("token", TOKEN "\n");
	put("sock", "");
	RUN(addresses);
	RUN(addresses_that_are_too_long);
	RUN(arguments);
	RUN(arguments_of_verbs_about_a_job);
	RUN(this_node);
	RUN(the_token_of_this_node_stays_here);
	close_folder();
	return t_end();
}
