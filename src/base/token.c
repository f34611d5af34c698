/* SPDX-License-Identifier: GPL-2.0 */
/*
 * token.c: files of bearer tokens, one on each line. A file is read up to 16 KiB and may hold anything. Messages
 * about a token file never show its contents.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "zernel.h"

#define FILE_BYTES  (16 * 1024)
#define TOKEN_MIN   16 /* characters */
#define SHOWN_BYTES 96 /* of a path in an error line */
#define BLANKS      " \t\r"

/* Printable, and short enough to leave room for what is said about it. */
static const char *show_path(char to[SHOWN_BYTES], const char *path)
{
	size_t len = 0;

	for (; path[len] && len < SHOWN_BYTES - 1; len++)
		to[len] = path[len] >= 0x20 && path[len] < 0x7f ? path[len] : '?';
	to[len] = '\0';
	if (path[len])
		memcpy(to + SHOWN_BYTES - 4, "...", 4);
	return to;
}

/* b64token (RFC 6750, section 2.1), and long enough that nobody guesses it. */
bool zn_token_is_valid(struct zn_str s)
{
	size_t end = s.len;

	if (s.len < TOKEN_MIN || s.len > ZN_TOKEN_MAX)
		return false;
	while (end && s.at[end - 1] == '=')
		end--;
	for (size_t i = 0; i < end; i++)
		if (!zn_str_is_one_of(s.at[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"))
			return false;
	return end > 0;
}

/* A comment begins with # at the start of a line or after a blank. */
static struct zn_str without_comment(struct zn_str line)
{
	for (size_t i = 0; i < line.len; i++)
		if (line.at[i] == '#' && (i == 0 || zn_str_is_one_of(line.at[i - 1], BLANKS)))
			line.len = i;
	return zn_str_trim(line, BLANKS);
}

static int parse_tokens(struct zn_tokens *to, struct zn_str text, const char *shown, char why[ZN_TEXT_MAX])
{
	struct zn_str line;

	for (unsigned n = 1; zn_str_split(&text, "\n", &line); n++) {
		line = without_comment(line);
		if (!line.len)
			continue;
		if (!zn_token_is_valid(line))
			snprintf(why, ZN_TEXT_MAX,
				"token file %s:%u: a token is %d to %d of A-Z a-z 0-9 - . _ ~ + / with = at its end; "
				"openssl rand -hex 32 makes one",
				shown, n, TOKEN_MIN, ZN_TOKEN_MAX);
		else if (to->count == ZN_TOKENS_MAX)
			snprintf(why, ZN_TEXT_MAX, "token file %s:%u: more than %d tokens", shown, n, ZN_TOKENS_MAX);
		else
			memcpy(to->token[to->count++], line.at, line.len);
		if (why[0])
			return -EINVAL;
	}
	if (to->count)
		return 0;
	snprintf(why, ZN_TEXT_MAX, "token file %s: no token in it; it has one on each line", shown);
	return -EINVAL;
}

int zn_token_read(struct zn_tokens *to, const char *path, char why[ZN_TEXT_MAX])
{
	char text[FILE_BYTES + 1], shown[SHOWN_BYTES];
	ssize_t len = zn_file_read_regular(path, text, sizeof(text));
	int err = (int)len;

	why[0] = '\0';
	show_path(shown, path);
	if (len == -ENOTSUP) {
		snprintf(why, ZN_TEXT_MAX, "token file %s: not a regular file", shown);
	} else if (len < 0) {
		snprintf(why, ZN_TEXT_MAX, "token file %s: cannot read it: %s", shown, strerror(-err));
	} else if (len > FILE_BYTES) {
		snprintf(why, ZN_TEXT_MAX, "token file %s: larger than %d bytes", shown, FILE_BYTES);
		err = -EFBIG;
	} else {
		err = parse_tokens(to, (struct zn_str){text, (size_t)len}, shown, why);
	}
	explicit_bzero(text, sizeof(text));
	return err;
}

int zn_token_check(const char *path, char why[ZN_TEXT_MAX])
{
	struct zn_tokens tokens = {0};
	int err = path[0] ? zn_token_read(&tokens, path, why) : 0;

	explicit_bzero(&tokens, sizeof(tokens));
	return err;
}

void zn_token_warn(const char *path)
{
	char shown[SHOWN_BYTES];
	struct stat st;

	if (stat(path, &st) == 0 && st.st_mode & (S_IROTH | S_IWOTH))
		zn_log(ZN_WARN, "token file %s: every user may %s it; chmod o= keeps the tokens secret",
			show_path(shown, path), st.st_mode & S_IWOTH ? "change" : "read");
}
