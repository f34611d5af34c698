/* SPDX-License-Identifier: GPL-2.0 */
/*
 * worker_test.c: the queue between the daemon and a process beside it: messages come whole, in order, and once,
 * wherever the end of its memory lies; what is full refuses; and whatever one side writes there, the other stays within
 * it.
 */
#include "src/worker/worker.c"
#include <stdlib.h>
#include <sys/wait.h>

#include "t.h"

#define MOST 5000

static struct zn_worker from, to;
static uint32_t seed = 1;

static uint32_t next_random(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

/* Both sides in one process. */
static void begin(void)
{
	int ends[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	from = (struct zn_worker){.fd = ends[0]};
	CHECK_EQ(queue_open(&from), 0);
	to = (struct zn_worker){.fd = ends[1], .queue = from.queue};
}

static void end(void)
{
	close(to.fd);
	zn_worker_close(&from);
}

static void fill(char *text, uint32_t number, size_t len)
{
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(number * 31 + i);
}

static int put(uint32_t number, size_t len)
{
	static char text[QUEUE_BYTES];

	fill(text, number, len);
	return zn_worker_put(&from, &number, sizeof(number), (struct zn_str){text, len});
}

/* Whether the next message is this one. */
static bool takes(uint32_t number, size_t len)
{
	static char got[QUEUE_BYTES], want[QUEUE_BYTES];
	size_t n = zn_worker_take(&to, got, sizeof(got));

	fill(want, number, len);
	return n == sizeof(number) + len && !memcmp(got, &number, sizeof(number)) &&
		!memcmp(got + sizeof(number), want, len);
}

T(nothing_waits)
{
	char got[8];

	begin();
	CHECK_EQ(zn_worker_take(&to, got, sizeof(got)), 0);
	CHECK(zn_worker_woken(&to, false));
	zn_worker_hang_up(&from);
	CHECK(!zn_worker_woken(&to, false));
	CHECK(!zn_worker_woken(&to, true));
	end();
}

/* Each burst fills a part of the queue or more, after one that was not taken to its end. */
T(bursts_come_whole_and_in_order)
{
	static size_t len[MOST];
	uint32_t put_count = 0, taken = 0, refused = 0;

	begin();
	while (put_count < MOST) {
		for (uint32_t burst = next_random(300); burst && put_count < MOST; burst--) {
			len[put_count] = next_random(100000);
			if (put(put_count, len[put_count])) {
				refused++;
				break;
			}
			put_count++;
		}
		for (uint32_t burst = next_random(300); burst && taken < put_count; burst--, taken++)
			CHECK(takes(taken, len[taken]));
	}
	for (; taken < put_count; taken++)
		CHECK(takes(taken, len[taken]));
	CHECK(refused > 0 && from.place > 5 * (uint64_t)QUEUE_BYTES);
	CHECK_EQ(zn_worker_take(&to, len, sizeof(len)), 0);
	end();
}

T(it_holds_what_it_promises)
{
	uint32_t n = 0;

	begin();
	CHECK_EQ(put(0, QUEUE_BYTES), -EAGAIN);
	CHECK_EQ(put(0, 100), 0);
	CHECK(takes(0, 100)); /* it begins anew, and holds as much */
	while (put(n, 40000) == 0)
		n++;
	CHECK_EQ(n, QUEUE_BYTES / (40000 + 2 * HEAD_BYTES));
	for (uint32_t i = 0; i < n; i++)
		CHECK(takes(i, 40000));
	end();
}

/* Memory that never was used is not resident. */
T(one_after_the_other_takes_little_memory)
{
	static unsigned char pages[sizeof(struct zn_queue) / 4096 + 1];
	size_t resident = 0;

	begin();
	for (uint32_t i = 0; i < 1009; i++) {
		CHECK_EQ(put(i, 30000), 0);
		CHECK(takes(i, 30000));
	}
	CHECK_EQ(mincore(from.queue, sizeof(*from.queue), pages), 0);
	for (size_t i = 0; i < sizeof(pages); i++)
		resident += pages[i] & 1;
	CHECK(resident <= 16);
	end();
}

/* A message that is too long for the child, or of no length, takes away what waits, and the queue works on. */
T(too_long)
{
	char little[64];

	begin();
	CHECK_EQ(put(1, 100), 0);
	CHECK_EQ(put(2, 10), 0);
	CHECK_EQ(zn_worker_take(&to, little, sizeof(little)), 0);
	CHECK_EQ(put(3, 10), 0);
	CHECK_EQ(zn_worker_take(&to, little, sizeof(little)), 14);
	end();
}

static void scribble(void)
{
	uint64_t *const word[] = {&from.queue->put, &from.queue->origin, &from.queue->taken};

	for (size_t i = 0; i < ZN_LEN(word); i++)
		if (next_random(2))
			*word[i] = next_random(2) ? *word[i] + next_random(64) - 32
						  : (uint64_t)next_random(1 << 24) << next_random(40);
	for (int i = 0; i < 64; i++)
		from.queue->bytes[next_random(4096)] = (char)next_random(256);
}

/* The other side is taken over. */
T(nonsense_stays_inside)
{
	static char got[1000];

	begin();
	for (int i = 0; i < 20011; i++) {
		scribble();
		put((uint32_t)i, next_random(2000));
		CHECK(zn_worker_take(&to, got, sizeof(got)) <= sizeof(got));
	}
	end();
}

/* Handed over and killed at once: all of it is read. The child's status is what it read. */
T(what_was_put_is_read_after_the_end)
{
	struct zn_worker c;
	static char got[64];
	int status = 0, count = 0;

	CHECK_EQ(zn_worker_open(&c), 0);
	if (c.pid == 0) {
		while (zn_worker_woken(&c, true))
			usleep(1000);
		while (zn_worker_take(&c, got, sizeof(got)))
			count++;
		_exit(count);
	}
	for (uint32_t i = 0; i < 101; i++)
		CHECK_EQ(zn_worker_put(&c, &i, sizeof(i), (struct zn_str){"text", 4}), 0);
	zn_worker_hang_up(&c);
	CHECK_EQ(waitpid(c.pid, &status, 0), c.pid);
	CHECK_EQ(WEXITSTATUS(status), 101);
	zn_worker_close(&c);
	zn_worker_close(&c);
}

/* One that is started later has nothing of it. */
T(others_do_not_have_it)
{
	struct zn_worker first, second;
	int status = 0;

	CHECK_EQ(zn_worker_open(&first), 0);
	if (first.pid == 0) {
		zn_worker_woken(&first, true);
		_exit(0);
	}
	CHECK_EQ(zn_worker_open(&second), 0);
	if (second.pid == 0) {
		unsigned char page;

		_exit(mincore(first.queue, 1, &page) && errno == ENOMEM ? 7 : 8);
	}
	CHECK_EQ(waitpid(second.pid, &status, 0), second.pid);
	CHECK_EQ(WEXITSTATUS(status), 7);
	zn_worker_close(&first);
	zn_worker_close(&second);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

int main(void)
{
	RUN(nothing_waits);
	RUN(bursts_come_whole_and_in_order);
	RUN(it_holds_what_it_promises);
	RUN(one_after_the_other_takes_little_memory);
	RUN(too_long);
	RUN(nonsense_stays_inside);
	RUN(what_was_put_is_read_after_the_end);
	RUN(others_do_not_have_it);
	return t_end();
}
