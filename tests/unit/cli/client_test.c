/* SPDX-License-Identifier: GPL-2.0 */
/* client_test.c: the arguments and addresses that client verbs take. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"
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
	CHECK_EQ(READ(true, "1", "2"), -1);
	CHECK_EQ(READ(true, "1.2.3.4", "::1"), -1);
	CHECK_EQ(READ(true, "-1"), -1);
}

int main(void)
{
	unsetenv("ZERNEL_TOKEN_FILE");
	RUN(addresses);
	RUN(addresses_that_are_too_long);
	RUN(arguments);
	RUN(arguments_of_verbs_about_a_job);
	return t_end();
}
