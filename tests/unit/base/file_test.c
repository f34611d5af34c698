/* SPDX-License-Identifier: GPL-2.0 */
/* file_test.c: files whole and by lines, cut at every length, and the names in a directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

static char folder[] = "/tmp/zernel-file-XXXXXX", path[64];

static void write_file(const char *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK_EQ(write(fd, bytes, len), len);
	close(fd);
}

T(whole)
{
	char to[8];

	write_file("1234567", 7);
	CHECK_EQ(zn_file_read(path, to, sizeof(to)), 7);
	CHECK_STR(to, "1234567");
	write_file("12345678", 8);
	CHECK_EQ(zn_file_read(path, to, sizeof(to)), 7); /* the last byte is the NUL's */
	CHECK_STR(to, "1234567");
	write_file("", 0);
	CHECK_EQ(zn_file_read(path, to, sizeof(to)), 0);
	CHECK_STR(to, "");
	unlink(path);
	CHECK_EQ(zn_file_read(path, to, sizeof(to)), -1);
	CHECK_STR(to, "");
}

T(regular_files_alone)
{
	char to[4];

	write_file("12345", 5);
	CHECK_EQ(zn_file_read_regular(path, to, sizeof(to)), 4);
	CHECK(!memcmp(to, "1234", 4));
	unlink(path);
	CHECK_EQ(zn_file_read_regular(path, to, sizeof(to)), -ENOENT);
	CHECK_EQ(zn_file_read_regular(folder, to, sizeof(to)), -EISDIR);
	CHECK_EQ(mkfifo(path, 0600), 0);
	CHECK_EQ(zn_file_read_regular(path, to, sizeof(to)), -ENOTSUP); /* and does not wait for who writes it */
	unlink(path);
}

static struct {
	int count;
	size_t len[4];
	char first[4];
} seen;

static void see_line(void *to, char *line)
{
	CHECK(to == &seen);
	if (seen.count < 4) {
		seen.len[seen.count] = strlen(line);
		seen.first[seen.count] = *line;
	}
	seen.count++;
}

static void read_lines(void)
{
	memset(&seen, 0, sizeof(seen));
	zn_file_lines(path, see_line, &seen);
}

T(lines)
{
	write_file("one\n\nthree\nno end", 17);
	read_lines();
	CHECK_EQ(seen.count, 3);
	CHECK(seen.len[0] == 3 && seen.len[1] == 0 && seen.len[2] == 5);
	write_file("", 0);
	read_lines();
	CHECK_EQ(seen.count, 0);
	unlink(path);
	read_lines();
	CHECK_EQ(seen.count, 0);
}

/* A line of each length around the limit, between two short ones: it is there whole, or not at all. */
T(long_lines)
{
	static char text[40000];

	for (size_t len = 8180; len < 8200; len++) {
		memset(text, 'x', sizeof(text));
		memcpy(text, "a\n", 2);
		memcpy(text + 2 + len, "\nb\n", 3);
		write_file(text, len + 5);
		read_lines();
		CHECK(seen.count == 2 || (seen.count == 3 && seen.len[1] == len && seen.first[1] == 'x'));
		CHECK_EQ(seen.count, len < 8192 ? 3 : 2);
		CHECK(seen.first[0] == 'a' && seen.first[seen.count - 1] == 'b' && seen.len[seen.count - 1] == 1);
	}
	memset(text, 'x', sizeof(text));
	memcpy(text + sizeof(text) - 3, "\nb\n", 3);
	write_file(text, sizeof(text));
	read_lines();
	CHECK_EQ(seen.count, 1);
	CHECK_EQ(seen.first[0], 'b');
	unlink(path);
}

static bool count_name(void *to, const struct dirent64 *e)
{
	int *left = to;

	CHECK(e->d_name[0] == '.' || e->d_name[0] == 'n');
	return --*left > 0;
}

T(names)
{
	char name[80];
	int fd, left = 1000;

	for (int i = 0; i < 300; i++) { /* more than one buffer full */
		snprintf(name, sizeof(name), "%s/name-that-is-not-short-%d", folder, i);
		close(open(name, O_WRONLY | O_CREAT, 0600));
	}
	fd = open(folder, O_RDONLY | O_DIRECTORY);
	zn_file_names(fd, count_name, &left);
	CHECK_EQ(1000 - left, 302);
	lseek(fd, 0, SEEK_SET);
	left = 7;
	zn_file_names(fd, count_name, &left);
	CHECK_EQ(left, 0);
	close(fd);
	zn_file_names(-1, count_name, &left);
	CHECK_EQ(left, 0);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "%s/name-that-is-not-short-%d", folder, i);
		unlink(name);
	}
}

static struct sockaddr_un at = {.sun_family = AF_UNIX};

static int bind_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_EQ(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

T(sockets_that_were_left)
{
	int fd;

	strcpy(at.sun_path, path);
	CHECK_EQ(zn_file_clear_socket(&at, sizeof(at), SOCK_STREAM), 0); /* there is none */
	write_file("x", 1);
	CHECK_EQ(zn_file_clear_socket(&at, sizeof(at), SOCK_STREAM), -EEXIST);
	unlink(path);
	fd = bind_socket();
	CHECK_EQ(listen(fd, 1), 0);
	CHECK_EQ(zn_file_clear_socket(&at, sizeof(at), SOCK_STREAM), -EADDRINUSE);
	CHECK_EQ(zn_file_clear_socket(&at, sizeof(at), SOCK_SEQPACKET), -EADDRINUSE); /* of another kind: not ours */
	CHECK_EQ(access(path, F_OK), 0);
	close(fd);
	CHECK_EQ(zn_file_clear_socket(&at, sizeof(at), SOCK_STREAM), 0);
	CHECK(access(path, F_OK) != 0);
}

/* In a child: a bit for each of the standard descriptors that is not as it should be. */
static int wrong_after(const int *closed, size_t count)
{
	int wrong = 0, next;

	for (size_t i = 0; i < count; i++)
		close(closed[i]);
	zn_file_standard();
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		wrong |= (fcntl(fd, F_GETFD) != 0) << fd; /* closed, or closed in programs that it starts */
	next = open("/", O_RDONLY | O_CLOEXEC);
	return wrong | (next <= STDERR_FILENO) << 3;
}

T(standard_descriptors)
{
	static const int all[] = {0, 1, 2};
	static const struct {
		size_t from, count;
	} closed[] = {{0, 0}, {0, 1}, {1, 1}, {2, 1}, {0, 2}, {1, 2}, {0, 3}};

	for (size_t i = 0; i < ZN_LEN(closed); i++) {
		pid_t child = fork();
		int status = 0;

		if (child == 0)
			_exit(wrong_after(all + closed[i].from, closed[i].count));
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 0);
	}
}

/* What is open stays as it is, and nothing more is opened. */
T(standard_descriptors_that_are_open)
{
	int before = dup(0), after;

	close(before);
	zn_file_standard();
	after = dup(0);
	close(after);
	CHECK_EQ(after, before);
}

int main(void)
{
	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof(path), "%s/file", folder);
	RUN(whole);
	RUN(regular_files_alone);
	RUN(lines);
	RUN(long_lines);
	RUN(names);
	RUN(sockets_that_were_left);
	RUN(standard_descriptors);
	RUN(standard_descriptors_that_are_open);
	rmdir(folder);
	return t_end();
}
