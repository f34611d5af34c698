/* SPDX-License-Identifier: GPL-2.0 */
/* call.c: one message to the daemon's control socket, and its answer, in a time that is set. */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

bool zn_call_at(struct zn_call *c, const char *path)
{
	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path) || *path != '/')
		return false;
	snprintf(c->socket, sizeof(c->socket), "%s", path);
	return true;
}

static int left_ms(const struct zn_call *c)
{
	return zn_client_ms_until(c->deadline_ns);
}

static enum zn_call_result fail_unanswered(struct zn_call *c, const char *why)
{
	snprintf(c->why, sizeof(c->why), "%s", why);
	return ZN_CALL_UNANSWERED;
}

/* Where the queue of the listener is full, the kernel keeps those who wait in the order in which they came
 * (unix(7)); asking again and again would leave that to chance. */
static int connect_socket(struct zn_call *c)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int left = left_ms(c);
	struct timeval limit = {left / 1000, left % 1000 * 1000 + 1}; /* 0 were none */

	memcpy(at.sun_path, c->socket, strlen(c->socket));
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return -errno;
	if (setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)))
		return -errno;
	while (connect(c->fd, (const struct sockaddr *)&at, sizeof(at)))
		if (errno != EINTR || !left_ms(c))
			return -errno;
	return fcntl(c->fd, F_SETFL, O_NONBLOCK) ? -errno : 0;
}

static bool await_socket(struct zn_call *c, short events)
{
	struct pollfd fd = {.fd = c->fd, .events = events};
	int got;

	do
		got = poll(&fd, 1, left_ms(c));
	while (got < 0 && errno == EINTR);
	return got > 0;
}

/* A client that is refused at once finds the connection closed and the reason in it, so an error of send() is not
 * the end. */
static void send_message(struct zn_call *c)
{
	while (send(c->fd, c->text, c->len, MSG_NOSIGNAL) < 0)
		if ((errno != EAGAIN && errno != EINTR) || !await_socket(c, POLLOUT))
			return;
}

/* A reset comes before the answer that was sent ahead of it. */
static enum zn_call_result receive_answer(struct zn_call *c)
{
	ssize_t len = -1;

	for (int resets = 0; len < 0;) {
		if (!await_socket(c, POLLIN))
			return fail_unanswered(c, "the daemon does not answer");
		len = recv(c->fd, c->answer, sizeof(c->answer), MSG_TRUNC);
		if (len < 0 && errno != EAGAIN && errno != EINTR && (errno != ECONNRESET || resets++))
			return fail_unanswered(c, strerror(errno));
	}
	c->answer_len = (size_t)len;
	return len ? ZN_CALL_ANSWERED : fail_unanswered(c, "the daemon closed the connection");
}

static enum zn_call_result read_answer(struct zn_call *c)
{
	size_t word, len;

	if (c->answer_len > ZN_ANSWER_BYTES)
		return fail_unanswered(c, "the answer is too long");
	c->answer[c->answer_len] = '\0';
	if (c->answer_len >= 3 && !memcmp(c->answer, "ok\n", 3))
		return ZN_CALL_ANSWERED;
	word = strcspn(c->answer, ":") + 2;
	len = strcspn(c->answer, "\n");
	if (strncmp(c->answer, "error: ", 7) && strncmp(c->answer, "busy: ", 6))
		return fail_unanswered(c, "what answers is no zerneld");
	snprintf(c->why, sizeof(c->why), "%.*s", (int)(len - word), c->answer + word);
	return *c->answer == 'b' ? ZN_CALL_UNANSWERED : ZN_CALL_REFUSED;
}

enum zn_call_result zn_call(struct zn_call *c)
{
	enum zn_call_result result;
	int err = *c->socket ? connect_socket(c) : -ENOENT;

	if (!err) {
		send_message(c);
		result = receive_answer(c);
		if (result == ZN_CALL_ANSWERED)
			result = read_answer(c);
	} else if (!*c->socket) {
		result = fail_unanswered(c, "there is no control socket: control is none");
	} else {
		snprintf(c->why, sizeof(c->why), "no daemon at %.107s: %s", c->socket, strerror(-err));
		result = ZN_CALL_UNANSWERED;
	}
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	return result;
}
