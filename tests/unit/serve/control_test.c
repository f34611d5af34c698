/* SPDX-License-Identifier: GPL-2.0 */
/*
 * control_test.c: the control socket (control.c): who may ask, how many clients at a time, and what a user that
 * floods it can do.
 */
#include <dirent.h>
#include <sys/resource.h>

#include "control.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* The daemon looks at nobody after many refusals, for 10 ms. */
static void outlast_pause(void)
{
	usleep(20000);
	settle();
}

static unsigned open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* ---- Who asks. ---- */

static const struct {
	const char *name, *text, *answer, *said;
} nobodys[] = {
	{"nobody starts", H "start\nid=7\n", "error: not yours\n", "describe 7 as 65534\n"},
	{"nobody ends", H "end\nid=1000\n", "error: only root may end a job\n", ""},
	{"nobody ends its own", H "end\nid=65534\n", "error: only root may end a job\n", ""},
	{"nobody adds labels to its own", H "start\nid=65534\nname=x\n",
		"ok\n{\"job_id\":\"65534\",\"restart\":0,\"state\":\"running\"}",
		"describe 65534 as 65534\nwrite 1 job-65534: zernel 1 start\nid=65534\ntime=1234\n" IS_BOOT},
	{"nobody says nothing new of its own", H "start\nid=65534\n",
		"ok\n{\"job_id\":\"65534\",\"restart\":0,\"state\":\"running\"}", "describe 65534 as 65534\n"},
	{"nobody lists", H "list\njson=1\n",
		"ok\n{\"jobs\":[{\"job_id\":\"1000\",\"restart\":0,\"state\":\"running\"},"
		"{\"job_id\":\"65534\",\"secret\":\"\"},{\"job_id\":\"9\",\"restart\":0,\"state\":\"running\"}]}",
		""},
	{"nobody shows another's", H "show\nid=1000\n", "ok\n{\"job_id\":\"1000\",\"restart\":0,\"state\":\"running\"}",
		""},
	{"nobody shows whose owner is not known", H "show\nid=9\n",
		"ok\n{\"job_id\":\"9\",\"restart\":0,\"state\":\"running\"}", ""},
	{"nobody lists for a table", H "list\n",
		"ok\n{\"jobs\":[{\"job_id\":\"1000\",\"restart\":0,\"state\":\"running\"},"
		"{\"job_id\":\"65534\",\"row\":\"of a table\"},{\"job_id\":\"9\",\"restart\":0,\"state\":\"running\"}]}",
		""},
	{"nobody shows its own", H "show\nid=65534\n", "ok\n{\"job_id\":\"65534\",\"secret\":\"\"}", ""},
	{"nobody reads another's report", H "report\nid=1000\n",
		"error: only its owner and root may read the report of job 1000\n", ""},
	{"nobody reads its own report", H "report\nid=65534\njson=1\n", "ok\n{\"job_id\":\"65534\"}", ""},
	{"nobody reads a kept report", H "report\nid=50\njson=1\n", "ok\n{\"job_id\":\"50\",\"uid\":65534}\n", ""},
	{"nobody reads another's kept report", H "report\nid=51\njson=1\n",
		"error: no report of job 51 here, or it is not yours\n", ""},
	{"nobody reads a kept report of unknown owner", H "report\nid=52\njson=1\n",
		"error: no report of job 52 here, or it is not yours\n", ""},
	{"nobody reads a kept report whose owner is text", H "report\nid=53\njson=1\n",
		"error: no report of job 53 here, or it is not yours\n", ""},
};

static void wrong_peers(void)
{
	for (size_t i = 0; i < ZN_LEN(nobodys) && !getuid(); i++) {
		t_begin(nobodys[i].name);
		fresh();
		add_job(5, "1000", 1000, ZN_JOB_RUNNING);
		add_job(6, "65534", NOBODY, ZN_JOB_RUNNING);
		add_job(7, "9", ZN_UNKNOWN, ZN_JOB_RUNNING);
		write_text("reports/50.json", "{\"job_id\":\"50\",\"uid\":65534}\n");
		write_text("reports/51.json", "{\"job_id\":\"51\",\"uid\":0}\n");
		write_text("reports/52.json", "{\"job_id\":\"52\",\"uid\":null}\n");
		write_text("reports/53.json", "{\"job_id\":\"53\",\"uid\":\"65534\"}\n");
		CHECK_GOT(ask_bytes(NOBODY, nobodys[i].text, strlen(nobodys[i].text)), nobodys[i].answer);
		CHECK_STR(said, nobodys[i].said);
		down();
	}
}

T(the_socket_is_for_all)
{
	struct stat st;

	fresh();
	CHECK(!stat(at("run/control.sock"), &st) && (st.st_mode & 07777) == 0666 && S_ISSOCK(st.st_mode));
	CHECK(!stat(at("run"), &st) && (st.st_mode & 07777) == 0755);
	down();
}

/* ---- Connections. ---- */

T(too_many_clients)
{
	int fd[ZN_CONTROL_CLIENTS], more;

	fresh();
	for (int i = 0; i < ZN_CONTROL_CLIENTS; i++)
		fd[i] = connect_as(getuid());
	settle();
	more = connect_as(getuid());
	send(more, H "list\n", 14, 0);
	settle();
	CHECK_GOT(receive(more), "busy: too many clients\n");
	close(more);
	CHECK(send(fd[3], H "list\n", 14, 0) == 14);
	settle();
	CHECK_GOT(receive(fd[3]), "ok\n{\"jobs\":[]}");
	CHECK_GOT(ask(H "list\n"), "ok\n{\"jobs\":[]}"); /* there is room again */
	zn_control_tick(c, zn_now_ns());
	CHECK_EQ(recv(fd[4], answer, sizeof(answer), 0), -1);
	zn_control_tick(c, zn_now_ns() + 3 * ZN_NS_PER_S);
	CHECK_GOT(receive(fd[4]), "busy: no message within 2 s\n");
	CHECK_GOT(receive(fd[4]), "");
	for (int i = 0; i < ZN_CONTROL_CLIENTS; i++)
		close(fd[i]);
	down();
}

#define HIS_CLIENTS 12 /* half of what is not root's alone */

/* Without root there is but one user, who may tag in a simulation. */
T(no_user_keeps_root_out)
{
	int fd[HIS_CLIENTS], roots[ZN_CONTROL_CLIENTS];

	if (getuid())
		return;
	fresh();
	for (int i = 0; i < HIS_CLIENTS; i++)
		fd[i] = connect_as(NOBODY);
	settle();
	CHECK_GOT(ask_bytes(NOBODY, H "list\n", 14), "busy: too many clients of one user; try again\n");
	CHECK_GOT(ask_bytes(NOBODY - 1, H "list\n", 14), "ok\n{\"jobs\":[]}");
	CHECK_GOT(ask(H "start\nid=7\n"), "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}");
	for (int i = 0; i < ZN_CONTROL_CLIENTS; i++)
		roots[i] = connect_as(0);
	CHECK(settle());
	for (int i = 0; i < HIS_CLIENTS; i++)
		CHECK_GOT(receive(fd[i]), "busy: too many clients\n");
	CHECK_GOT(ask(H "list\n"), "busy: too many clients\n");
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(logged,
		"quota: clients of the control socket: 2 refused, the last one to user 0, who holds 32 of 32; what was "
		"refused is not shown");
	for (int i = 0; i < ZN_CONTROL_CLIENTS; i++)
		close(roots[i]);
	for (int i = 0; i < HIS_CLIENTS; i++)
		close(fd[i]);
	settle();
	CHECK(!strncmp(ask_bytes(NOBODY, H "list\n", 14), "ok\n", 3));
	down();
}

/* A client of a user who has no allowance left. On a busy machine each of them may take as long as one more is allowed
 * in. */
static int one_that_waits(void)
{
	for (int i = 0; i < 1000; i++) {
		int fd = connect_as(NOBODY);

		send(fd, H "list\n", 14, 0);
		settle();
		if (!strcmp(receive(fd), strerror(EAGAIN)))
			return fd;
		close(fd);
	}
	CHECK(!"a client that waits");
	return -1;
}

/* A user's loop of requests is turned away beyond his allowance; root's and other users' are answered in between. */
T(requests_of_a_user_are_limited)
{
	uint64_t start_ns, took_ns;
	unsigned answered = 0, refused = 0;
	const char *got = "";
	int waiting;

	if (getuid())
		return;
	fresh();
	start_ns = zn_now_ns();
	for (int i = 0; i < 1000; i++) {
		got = ask_bytes(NOBODY, H "list\n", 14);
		answered += !strncmp(got, "ok\n", 3);
		refused += !strcmp(got, strerror(EAGAIN)) || !strncmp(got, "busy: ", 6); /* it would have to wait */
		if (i % 100 == 99) {
			for (int pauses = 0; pauses < 3; pauses++)
				outlast_pause();
			CHECK_GOT(ask(H "list\n"), "ok\n{\"jobs\":[]}");
			CHECK_GOT(ask_bytes(NOBODY - 1, H "list\n", 14), "ok\n{\"jobs\":[]}");
		}
	}
	took_ns = zn_now_ns() - start_ns;
	CHECK_EQ(answered + refused, 1000);
	CHECK(answered >= 100 && answered <= 101 + 50 * took_ns / ZN_NS_PER_S);
	for (int i = 0; i < 1000; i++)
		ask(H "list\n");
	CHECK_GOT(ask(H "list\n"), "ok\n{\"jobs\":[]}");
	waiting = one_that_waits();
	log_lines = 0;
	zn_control_tick(c, zn_now_ns());
	CHECK_GOT(receive(waiting), "busy: more than 50 requests a second of one user; try again\n");
	CHECK_GOT(receive(waiting), "");
	close(waiting);
	zn_control_tick(c, zn_now_ns() + 30 * ZN_NS_PER_S);
	CHECK(refused ? log_lines == 1 || log_lines == 2
		      : log_lines == 0); /* his clients may have taken their share, too */
	CHECK(!refused ||
		strstr(logged, "requests refused, the last one of user 65534: more than 50 a second of one user"));
	down();
}

/* A client beyond the allowance of its user is answered at the tick. What it sends until then stays where it is, until
 * there is no room for more. */
T(who_is_refused_is_not_listened_to)
{
	int waiting, sent = 0;

	if (getuid())
		return;
	fresh();
	waiting = one_that_waits();
	for (int i = 0; i < 1000; i++) {
		sent += send(waiting, H "list\n", 14, MSG_DONTWAIT) > 0;
		settle();
	}
	CHECK(sent < 900);
	zn_control_tick(c, zn_now_ns());
	CHECK_GOT(receive(waiting), "busy: more than 50 requests a second of one user; try again\n");
	close(waiting);
	settle();
	down();
}

T(a_flood_of_connections_is_taken_a_few_at_a_time)
{
	int pauses = 0, root;
	uint64_t began_ns = zn_now_ns(), back;

	if (getuid())
		return;
	fresh();
	for (int i = 0; i < 1000 && !strncmp(ask_bytes(NOBODY, H "list\n", 14), "ok\n", 3); i++)
		;
	outlast_pause();
	for (int i = 0; i < 640; i++)
		close(connect_as(NOBODY));
	root = connect_as(getuid());
	send(root, H "list\n", 14, 0);
	for (settle(); pauses < 100 && strncmp(receive(root), "ok\n", 3); pauses++)
		outlast_pause();
	back = 50 * (zn_now_ns() - began_ns) / ZN_NS_PER_S; /* that he was given meanwhile */
	CHECK(pauses <= 11 && 64 * (uint64_t)(pauses + 1) + back >= 640);
	close(root);
	CHECK(settle());
	log_lines = 0;
	zn_control_tick(c, zn_now_ns() + 120 * ZN_NS_PER_S);
	CHECK_EQ(log_lines, 1);
	down();
}

/* Sends a message with an open file in it. */
static void send_file(int fd, const char *text)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {(char *)text, strlen(text)};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	CHECK(sendmsg(fd, &m, 0) == (ssize_t)strlen(text));
}

T(ten_thousand_connections_leave_nothing)
{
	unsigned before, answered = 0;

	fresh();
	before = open_files();
	for (int i = 0; i < 10000; i++) {
		int fd = connect_as(getuid());

		if (i % 5 == 0)
			settle();
		if (i % 5 == 1)
			send(fd, H "list\n", 14, 0);
		if (i % 5 == 2)
			send_file(fd, H "list\n");
		if (i % 5 == 3)
			send(fd, "x", 1, 0);
		if (i % 5 == 4) {
			send(fd, H "list\n", 14, 0);
			CHECK(settle());
			answered += !strcmp(receive(fd), "ok\n{\"jobs\":[]}");
		}
		close(fd);
	}
	CHECK(settle());
	CHECK_EQ(answered, 2000);
	CHECK_EQ(open_files(), before);
	CHECK_STR(said, "");
	CHECK_EQ(log_lines, 0);
	down();
}

T(no_file_left_to_accept_with)
{
	struct rlimit limit, old;
	int fd, spare;

	fresh();
	fd = connect_as(getuid());
	spare = dup(0);
	getrlimit(RLIMIT_NOFILE, &old);
	limit = (struct rlimit){(rlim_t)spare, old.rlim_max};
	close(spare);
	setrlimit(RLIMIT_NOFILE, &limit);
	CHECK(settle()); /* it does not spin */
	CHECK_EQ(log_lines, 1);
	CHECK(strstr(logged, "cannot accept a connection"));
	zn_control_tick(c, zn_now_ns());
	CHECK(settle());
	setrlimit(RLIMIT_NOFILE, &old);
	zn_control_tick(c, zn_now_ns());
	send(fd, H "list\n", 14, 0);
	CHECK(settle());
	CHECK_GOT(receive(fd), "ok\n{\"jobs\":[]}");
	close(fd);
	down();
}

/* ---- Opening. ---- */

T(places_where_it_cannot_listen)
{
	char why[ZN_TEXT_MAX], path[ZN_TEXT_MAX];
	struct zn_control *other = (struct zn_control *)1;

	fresh();
	snprintf(path, sizeof(path), "%s", at("run/control.sock"));
	CHECK_EQ(zn_control_open(&other, &loop, &view, path, why), -EADDRINUSE);
	CHECK(!other && strstr(why, "another zerneld? choose --control"));
	down();
	up(); /* what was left of the one before is replaced */
	CHECK_GOT(ask(H "list\n"), "ok\n{\"jobs\":[]}");
	down();
	zn_loop_open(&loop);
	CHECK(!unlink(path));
	write_text("run/control.sock", "x");
	CHECK_EQ(zn_control_open(&other, &loop, &view, path, why), -EEXIST);
	CHECK(there("run/control.sock"));
	CHECK_EQ(zn_control_open(&other, &loop, &view, at("no/folder/c.sock"), why), -ENOENT);
	CHECK_EQ(zn_control_open(&other, &loop, &view, "/" A64 "/" A64, why), -ENAMETOOLONG);
	CHECK_EQ(zn_control_open(&other, &loop, &view, "relative", why), -ENAMETOOLONG);
	CHECK_EQ(zn_control_open(&other, &loop, &view, "", why), 0);
	CHECK(!other);
	zn_control_tick(NULL, 0);
	zn_control_close(NULL);
	zn_loop_close(&loop);
}

int main(void)
{
	int status;

	if (!mkdtemp(folder) || chmod(folder, 0755))
		return 1;
	wrong_peers();
	RUN(the_socket_is_for_all);
	RUN(too_many_clients);
	RUN(no_user_keeps_root_out);
	RUN(requests_of_a_user_are_limited);
	RUN(who_is_refused_is_not_listened_to);
	RUN(a_flood_of_connections_is_taken_a_few_at_a_time);
	RUN(ten_thousand_connections_leave_nothing);
	RUN(no_file_left_to_accept_with);
	RUN(places_where_it_cannot_listen);
	status = t_end();
	remove_run();
	rmdir(folder);
	return status;
}
