/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sender_test.c: the process that makes connections, as the daemon sees it: what it is handed and what comes of that,
 * what is lost, when it cannot begin and when it is killed. How one destination is tried is destination_test.c's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define PATIENCE_MS 20000 /* ends a hang, decides nothing */
#define OK          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static struct zn_options options;
static struct zn_sender sender;
static char why[ZN_TEXT_MAX], got[1 << 20];
static int listener = -1, peer = -1;

static struct zn_str str(const char *text)
{
	return (struct zn_str){text, strlen(text)};
}

static uint16_t listen_here(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&at, len) || listen(listener, 8) ||
		getsockname(listener, (struct sockaddr *)&at, &len))
		return 0;
	return ntohs(at.sin_port);
}

static void end(void)
{
	zn_sender_close(&sender);
	if (peer >= 0)
		close(peer);
	if (listener >= 0)
		close(listener);
	peer = listener = -1;
}

/* A webhook that listens, and no other destination. */
static int begin(void)
{
	end();
	options = (struct zn_options){.simulate = true};
	snprintf(options.webhook, sizeof(options.webhook), "http://127.0.0.1:%u/hook", listen_here());
	why[0] = 0;
	return zn_sender_open(&sender, &options, why);
}

static bool is_ready(int fd)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE_MS) == 1;
}

/* The whole request, up to the end of its body; answered if there is an answer. */
static const char *request(size_t body, const char *answer)
{
	size_t len = 0;
	ssize_t n;

	if (peer < 0 && is_ready(listener))
		peer = accept(listener, NULL, NULL);
	while (len < sizeof(got) - 1 && is_ready(peer) && (n = recv(peer, got + len, sizeof(got) - 1 - len, 0)) > 0) {
		char *end_of_head;

		len += (size_t)n;
		got[len] = 0;
		end_of_head = strstr(got, "\r\n\r\n");
		if (end_of_head && len - (size_t)(end_of_head + 4 - got) >= body)
			break;
	}
	if (answer)
		CHECK_EQ(send(peer, answer, strlen(answer), MSG_NOSIGNAL), (long)strlen(answer));
	return got;
}

static bool is_settled(uint64_t number)
{
	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		zn_sender_tick(&sender);
		if (sender.sum[ZN_TO_WEBHOOK].settled == number)
			return true;
		usleep(1000);
	}
	return false;
}

T(a_delivery_is_made_and_counted)
{
	CHECK_EQ(begin(), 0);
	CHECK_EQ(sender.destinations[ZN_TO_WEBHOOK], 1);
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_WEBHOOK, str("{\"one\":1}")), 1);
	CHECK(strstr(request(9, OK), "POST /hook HTTP/1.1\r\n") == got);
	CHECK(strstr(got, "\r\n\r\n{\"one\":1}") != NULL);
	CHECK(is_settled(1));
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_WEBHOOK, str("{}")), 2);
	request(2, OK);
	CHECK(is_settled(2));
	CHECK_EQ(sender.sum[ZN_TO_WEBHOOK].sent[ZN_SENT_OK], 2);
	CHECK_EQ(zn_sender_down(&sender, ZN_TO_WEBHOOK), 0);
	CHECK_EQ(zn_sender_lost(&sender, ZN_TO_WEBHOOK), 0);
}

T(the_largest_delivery_and_a_larger_one)
{
	static char large[ZN_DELIVERY_BYTES + 1];

	memset(large, 'x', sizeof(large));
	CHECK_EQ(begin(), 0);
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_WEBHOOK, (struct zn_str){large, sizeof(large)}), 0);
	CHECK_EQ(zn_sender_lost(&sender, ZN_TO_WEBHOOK), 1);
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_WEBHOOK, (struct zn_str){large, sizeof(large) - 1}), 1);
	request(ZN_DELIVERY_BYTES, OK);
	CHECK(is_settled(1));
	CHECK_EQ(sender.sum[ZN_TO_WEBHOOK].sent[ZN_SENT_OK], 1);
	CHECK_EQ(zn_sender_lost(&sender, ZN_TO_WEBHOOK), 1);
}

T(what_has_no_destination_is_no_loss)
{
	CHECK_EQ(begin(), 0);
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_OTLP, str("x")), 0);
	CHECK_EQ(zn_sender_lost(&sender, ZN_TO_OTLP), 0);
	CHECK_EQ(zn_sender_ask(&sender, &(struct zn_inquiry_ask){0}), 0); /* nobody is asked where all is simulated */
}

/* It is nobody, and has nothing of the daemon's but its socket. */
T(it_has_no_rights)
{
	char path[64], status[4096];

	CHECK_EQ(begin(), 0);
	snprintf(path, sizeof(path), "/proc/%d/status", sender.worker.pid);
	CHECK(zn_file_read(path, status, sizeof(status)) > 0);
	CHECK(strstr(status, "\nCapEff:\t0000000000000000\n") != NULL);
	CHECK(strstr(status, "\nCapPrm:\t0000000000000000\n") != NULL);
	CHECK(strstr(status, "\nSeccomp:\t2\n") != NULL);
	CHECK(strstr(status, "\nNoNewPrivs:\t1\n") != NULL);
	if (!geteuid())
		CHECK(strstr(status, "\nUid:\t65534\t65534\t65534\t65534\n") != NULL);
}

T(it_is_killed)
{
	CHECK_EQ(begin(), 0);
	CHECK_EQ(kill(sender.worker.pid, SIGKILL), 0);
	CHECK(is_ready(sender.worker.fd));
	zn_sender_tick(&sender);
	CHECK_EQ(zn_sender_down(&sender, ZN_TO_WEBHOOK), 1);
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_WEBHOOK, str("x")), 0);
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_WEBHOOK, str("x")), 0);
	CHECK_EQ(zn_sender_lost(&sender, ZN_TO_WEBHOOK), 2);
	zn_sender_tick(&sender);
	zn_sender_close(&sender);
	zn_sender_close(&sender); /* once more does no harm */
	CHECK_EQ(sender.worker.fd, -1);
}

/* What waits at the end is sent while somebody takes it. */
T(the_end_waits_for_what_is_under_way)
{
	pid_t receiver;
	int status = -1;

	CHECK_EQ(begin(), 0);
	receiver = fork();
	if (receiver == 0) {
		request(4, OK);
		_exit(strstr(got, "\r\n\r\nlast") ? 0 : 1);
	}
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_WEBHOOK, str("last")), 1);
	zn_sender_close(&sender);
	CHECK_EQ(waitpid(receiver, &status, 0), receiver);
	CHECK_EQ(status, 0);
}

T(a_list_with_gaps)
{
	end();
	options = (struct zn_options){.simulate = true};
	snprintf(options.alertmanager, sizeof(options.alertmanager), "http://127.0.0.1:1,http://127.0.0.1:2,");
	CHECK_EQ(zn_sender_open(&sender, &options, why), 0);
	CHECK_EQ(sender.destinations[ZN_TO_ALERTMANAGER], 2);
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_ALERTMANAGER, str("[]")), 1);
	for (int ms = 0; ms < PATIENCE_MS && zn_sender_down(&sender, ZN_TO_ALERTMANAGER) < 2; ms++) {
		usleep(1000);
		zn_sender_tick(&sender);
	}
	CHECK_EQ(zn_sender_down(&sender, ZN_TO_ALERTMANAGER), 2); /* nobody listens at either */
	CHECK_EQ(sender.sum[ZN_TO_ALERTMANAGER].settled, 0);
	CHECK_EQ(sender.sum[ZN_TO_ALERTMANAGER].queued, 2);
}

T(without_anybody_to_send_to_it_is_not_started)
{
	end();
	options = (struct zn_options){.simulate = true, .ras = true, .dcgm = "http://127.0.0.1:9400"};
	CHECK(!zn_sender_wanted(&options)); /* what is asked of a node is not asked where all is simulated */
	CHECK_EQ(zn_sender_open(&sender, &options, why), 0);
	CHECK_EQ(sender.worker.pid, 0);
	CHECK_EQ(zn_sender_send(&sender, ZN_TO_WEBHOOK, str("x")), 0);
	zn_sender_tick(&sender);
	options.simulate = false;
	CHECK(zn_sender_wanted(&options));
}

T(a_start_that_fails_says_why)
{
	end();
	options = (struct zn_options){.simulate = true, .webhook = "http://127.0.0.1:1"};
	snprintf(options.outbound_token_file, sizeof(options.outbound_token_file), "/nonexistent/token");
	CHECK(zn_sender_open(&sender, &options, why) < 0);
	CHECK(strstr(why, "/nonexistent/token") != NULL);
	CHECK_EQ(sender.worker.pid, 0);
	options = (struct zn_options){.dcgm = "http://no-such-host.invalid:9400"};
	CHECK_EQ(zn_sender_open(&sender, &options, why), -EADDRNOTAVAIL);
	CHECK(strstr(why, "the host of --dcgm must be an address") != NULL);
}

int main(void)
{
	sender.worker.fd = -1;
	RUN(a_delivery_is_made_and_counted);
	RUN(the_largest_delivery_and_a_larger_one);
	RUN(what_has_no_destination_is_no_loss);
	RUN(it_has_no_rights);
	RUN(it_is_killed);
	RUN(the_end_waits_for_what_is_under_way);
	RUN(a_list_with_gaps);
	RUN(without_anybody_to_send_to_it_is_not_started);
	RUN(a_start_that_fails_says_why);
	end();
	return t_end();
}
