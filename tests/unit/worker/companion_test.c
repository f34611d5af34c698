/* SPDX-License-Identifier: GPL-2.0 */
/* companion_test.c: who is heard on the socket of zernel-gpu, and what. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define STRANGER 61234

static struct zn_companion c;
static char folder[] = "/tmp/zernel-companion-XXXXXX", path[64], owner[64];
static uint64_t now_ns;

static void begin(void)
{
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	chmod(folder, 0755);
	snprintf(path, sizeof(path), "%s/run/gpu.sock", folder);
	snprintf(owner, sizeof(owner), "%s/owner", folder);
	CHECK_EQ(zn_companion_open(&c, path, owner), 0);
	now_ns = zn_now_ns();
}

static void end(void)
{
	char command[128];

	zn_companion_close(&c);
	zn_companion_close(&c);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	CHECK_EQ(system(command), 0);
}

static int call(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(at.sun_path, path);
	CHECK_EQ(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void say(int fd, uint64_t power)
{
	char text[200];
	int len = snprintf(text, sizeof(text), "zernel-gpu 1 %llu\ngpu 0000:1b:00.0 - x\npower_watts %llu\n",
		(unsigned long long)(now_ns / ZN_NS_PER_MS), (unsigned long long)power);

	CHECK_EQ(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
}

static bool hung_up(int fd)
{
	return recv(fd, &(char){0}, 1, MSG_DONTWAIT) == 0;
}

T(root_is_heard)
{
	int one, two;

	begin();
	CHECK(!zn_companion_round(&c, now_ns));
	one = call();
	say(one, 1);
	say(one, 2);
	CHECK(zn_companion_round(&c, now_ns));
	CHECK_EQ(c.seen.heard, 2);
	CHECK_EQ(c.seen.said.reading[0].value[ZN_FIGURE_POWER], 2);
	two = call();
	CHECK(zn_companion_round(&c, now_ns + ZN_NS_PER_S)); /* one is heard at a time */
	CHECK(hung_up(two) && !hung_up(one));
	close(two);
	two = call();
	say(two, 3);
	CHECK(zn_companion_round(&c, now_ns + 6 * ZN_NS_PER_S)); /* the first has been quiet for long: it hangs */
	CHECK(hung_up(one) && !hung_up(two));
	CHECK_EQ(c.seen.refused, 2); /* the second connection, and what had waited for too long */
	close(one);
	close(two);
	end();
}

/* What is too long, or not of this form, is counted; the next message is taken. */
T(what_is_no_message)
{
	static char text[ZN_NVML_BYTES + 1];
	int fd, size = 2 * (int)sizeof(text);

	begin();
	fd = call();
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	memset(text, 'x', sizeof(text));
	CHECK_EQ(send(fd, text, sizeof(text), MSG_NOSIGNAL), (ssize_t)sizeof(text));
	CHECK_EQ(send(fd, "hello\n", 6, MSG_NOSIGNAL), 6);
	say(fd, 5);
	CHECK(zn_companion_round(&c, now_ns));
	CHECK_EQ(c.seen.refused, 2);
	CHECK_EQ(c.seen.said.reading[0].value[ZN_FIGURE_POWER], 5);
	close(fd);
	end();
}

/* As another user, in a process of its own: whether it was heard. */
static bool stranger_is_heard(uid_t uid)
{
	pid_t pid = fork();
	uint64_t heard = c.seen.heard;
	int status;

	if (pid == 0) {
		if (setuid(uid))
			_exit(1);
		say(call(), 9);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
	zn_companion_round(&c, now_ns);
	return c.seen.heard != heard;
}

T(a_user_is_heard_if_the_folder_is_his)
{
	if (geteuid())
		return;
	begin();
	CHECK(!stranger_is_heard(STRANGER));
	mkdir(owner, 0755);
	CHECK(!stranger_is_heard(STRANGER));
	CHECK_EQ(chown(owner, STRANGER, 0), 0);
	CHECK(stranger_is_heard(STRANGER));
	CHECK(!stranger_is_heard(STRANGER + 1));
	end();
}

T(where_nobody_can_be_heard)
{
	char text[200];

	CHECK_EQ(zn_companion_open(&c, "", owner), 0);
	CHECK(!zn_companion_round(&c, 0));
	CHECK(zn_companion_open(&c, "gpu.sock", owner) < 0);
	memset(text, 'x', sizeof(text));
	text[0] = '/', text[sizeof(text) - 1] = 0;
	CHECK(zn_companion_open(&c, text, owner) < 0);
	CHECK(zn_companion_open(&c, "/proc/nowhere/gpu.sock", owner) < 0);
	CHECK(!zn_companion_round(&c, 0));
	zn_companion_close(&c);
}

int main(void)
{
	RUN(root_is_heard);
	RUN(what_is_no_message);
	RUN(a_user_is_heard_if_the_folder_is_his);
	RUN(where_nobody_can_be_heard);
	return t_end();
}
