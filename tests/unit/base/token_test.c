/* SPDX-License-Identifier: GPL-2.0 */
/*
 * token_test.c: files of bearer tokens (token.c): which are good, and that a line about a bad one never shows it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t.h"
#include "zernel.h"

#define GOOD "0123456789abcdef" /* as short as a token may be */

static char path[] = "/tmp/zn_token_XXXXXX";
static struct zn_tokens tokens;
static char why[ZN_TEXT_MAX];

static int read_text(const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	CHECK(f && fwrite(text, 1, len, f) == len && fclose(f) == 0);
	tokens = (struct zn_tokens){0};
	return zn_token_read(&tokens, path, why);
}

static const struct {
	const char *name, *text;
	int err;
	unsigned count;
	const char *why; /* part of it */
} rows[] = {
	{"one token", GOOD "\n", 0, 1, ""},
	{"without a line's end", GOOD, 0, 1, ""},
	{"blanks, comments, empty lines", "# old\n\n \t" GOOD " \r\n" GOOD "x # new\n", 0, 2, ""},
	{"a # within a token is none of its characters", GOOD "#\n", -EINVAL, 0, ":1: a token is 16 to"},
	{"= at its end", GOOD "==\n", 0, 1, ""},
	{"= within", "0123456=789abcdef\n", -EINVAL, 0, ":1: a token is 16 to"},
	{"= alone", "================\n", -EINVAL, 0, ":1: a token is 16 to"},
	{"one too short", GOOD "\n0123456789abcde\n", -EINVAL, 1, ":2: a token is 16 to"},
	{"a blank within", "01234567 89abcdef\n", -EINVAL, 0, ":1: a token is 16 to"},
	{"nothing", "", -EINVAL, 0, "no token in it"},
	{"comments alone", "# a\n#b", -EINVAL, 0, "no token in it"},
	{"as many as there may be",
		GOOD "1\n" GOOD "2\n" GOOD "3\n" GOOD "4\n" GOOD "5\n" GOOD "6\n" GOOD "7\n" GOOD "8\n", 0,
		ZN_TOKENS_MAX, ""},
	{"one more", GOOD "1\n" GOOD "2\n" GOOD "3\n" GOOD "4\n" GOOD "5\n" GOOD "6\n" GOOD "7\n" GOOD "8\n" GOOD "9\n",
		-EINVAL, ZN_TOKENS_MAX, ":9: more than 8 tokens"},
};

static void files(void)
{
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].name);
		CHECK_EQ(read_text(rows[i].text, strlen(rows[i].text)), rows[i].err);
		CHECK_EQ(tokens.count, rows[i].count);
		CHECK(strstr(why, rows[i].why) && (*rows[i].why || !*why));
		CHECK(strstr(why, "0123456") == NULL);
	}
}

T(any_bytes)
{
	static char text[17 * 1024];

	memset(text, 'a', sizeof(text));
	CHECK_EQ(read_text(text, sizeof(text)), -EFBIG);
	CHECK(strstr(why, "larger than 16384 bytes") != NULL);
	CHECK_EQ(read_text(text, 16 * 1024), -EINVAL); /* one line, and too long */
	CHECK_EQ(read_text("0123456789\0abcdef\n", 18), -EINVAL);
	CHECK_EQ(tokens.count, 0);
}

T(no_file)
{
	char fifo[sizeof(path) + 8];

	CHECK_EQ(zn_token_read(&tokens, "/nonexistent\n", why), -ENOENT);
	CHECK(strstr(why, "/nonexistent?") != NULL); /* one line, whatever the name is */
	CHECK_EQ(zn_token_read(&tokens, "/", why), -EISDIR);
	snprintf(fifo, sizeof(fifo), "%s.fifo", path);
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	CHECK_EQ(zn_token_read(&tokens, fifo, why), -ENOTSUP); /* and it does not wait for a writer */
	unlink(fifo);
}

int main(void)
{
	int fd = mkstemp(path), status;

	if (fd < 0)
		return 1;
	close(fd);
	files();
	RUN(any_bytes);
	RUN(no_file);
	status = t_end();
	unlink(path);
	return status;
}
