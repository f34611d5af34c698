/* SPDX-License-Identifier: GPL-2.0 */
/*
 * buffer_test.c: response buffers (buffer.c): a slow reader keeps one, and loses it when others need it; memory
 * that is not used goes back to the kernel.
 */
#include <sys/mman.h>

#include "server.h"

static size_t resident_pages(const struct zn_buffer *b, size_t from)
{
	size_t pages = (ZN_BUFFER_BYTES - from) / 4096, count = 0;
	static unsigned char there[ZN_BUFFER_BYTES / 4096];

	CHECK_EQ(mincore(b->at + from, ZN_BUFFER_BYTES - from, there), 0);
	for (size_t i = 0; i < pages; i++)
		count += there[i] & 1;
	return count;
}

/* 10 MB in small sips arrive whole, others are answered meanwhile, and the memory goes back to the kernel. */
T(slow_reader)
{
	const size_t size = 10 * 1000 * 1000;
	size_t wrong = 0;
	uint64_t deadline_ns;
	struct client slow, other;
	struct reply r;

	start();
	metrics_bytes = size;
	slow = dial_with(false, 4096);
	other = dial(false);
	say_text(&slow, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	settle(2);
	for (int i = 0; i < 50; i++)
		turn();
	CHECK(s.conns[0].body != NULL);
	deadline_ns = s.conns[0].deadline_ns;
	CHECK(resident_pages(&s.body[0], 256 << 10) > 1000);
	CHECK_EQ(get(&other, "/alerts"), 200);
	CHECK_EQ(s.conns[0].deadline_ns, deadline_ns);
	CHECK(await(&slow, size / 2) && s.conns[0].body);
	CHECK(s.conns[0].deadline_ns > deadline_ns);
	CHECK(await_reply(&slow, &r, false));
	CHECK_EQ(r.length, size);
	for (size_t i = 0; r.body && i < size; i++)
		wrong += r.body[i] != pattern(i);
	CHECK_EQ(wrong, 0);
	CHECK_EQ(s.body[0].refs, 0);
	CHECK_EQ(resident_pages(&s.body[0], 256 << 10), 0);
	hang_up(&slow);
	hang_up(&other);
	stop();
}

/* Slow readers that hold all buffers: at first others get 503, then the one held longest is taken from who has it, but
 * never the newest snapshot. */
T(buffers_held_by_slow_readers)
{
	struct client slow[ZN_BUFFERS_MAX - 1], ws, other;
	struct reply r;

	start();
	ws = open_ws(0);
	metrics_bytes = 2 << 20; /* all of them are below ZN_HELD_BYTES */
	for (uint32_t i = 0; i < ZN_LEN(slow); i++) {
		slow[i] = dial_with(false, 4096);
		say_text(&slow[i], "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
		for (int t = 0; t < HANG_TURNS && !s.conns[i + 1].body; t++)
			turn();
		CHECK(s.conns[i + 1].body != NULL);
	}
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		s.body[i].since_ns = zn_now_ns() + 60 * ZN_NS_PER_S; /* however long that took */
	metrics_bytes = 0;
	other = dial(false);
	CHECK_EQ(get(&other, "/alerts"), 503);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 0);
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		s.body[i].since_ns = zn_now_ns() - (ZN_HOLD_S + 1) * ZN_NS_PER_S;
	s.conns[5].body->since_ns -= ZN_NS_PER_S;
	s.variant[0].body->since_ns -= 2 * ZN_NS_PER_S;
	CHECK_EQ(get(&other, "/alerts"), 200);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 1);
	settle(ZN_LEN(slow) + 1);
	CHECK_EQ(s.conns[5].io.fd, -1);
	CHECK(s.conns[0].io.fd >= 0 && s.variant[0].body->refs == 1);
	CHECK(await_reply(&slow[3], &r, false));
	CHECK(!await_reply(&slow[4], &r, false));
	for (size_t i = 0; i < ZN_LEN(slow); i++)
		hang_up(&slow[i]);
	hang_up(&ws);
	hang_up(&other);
	settle(0);
	check_no_body_held();
	stop();
}

/* Large pages, read slowly by a few: whoever has held his longest loses it at once when all of them take too much
 * memory, and the next one who asks is answered. */
T(memory_held_by_slow_readers)
{
	const size_t size = 10 * 1000 * 1000;
	const uint32_t most = ZN_HELD_BYTES / size + 1;
	struct client slow[ZN_HELD_BYTES / 10000000 + 1], other;

	start();
	metrics_bytes = size;
	for (uint32_t i = 0; i < most; i++) {
		slow[i] = dial_with(false, 4096);
		say_text(&slow[i], "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
		for (int t = 0; t < HANG_TURNS && !s.conns[i].body; t++)
			turn();
		CHECK(s.conns[i].body != NULL);
	}
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 0);
	metrics_bytes = 0;
	other = dial(false);
	CHECK_EQ(get(&other, "/alerts"), 200);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 0);
	settle(most);
	CHECK_EQ(s.conns[0].io.fd, -1);
	for (uint32_t i = 1; i < most; i++)
		CHECK(s.conns[i].body != NULL);
	for (uint32_t i = 0; i < most; i++)
		hang_up(&slow[i]);
	hang_up(&other);
	settle(0);
	check_no_body_held();
	stop();
}

int main(void)
{
	RUN(slow_reader);
	RUN(memory_held_by_slow_readers);
	RUN(buffers_held_by_slow_readers);
	return t_end();
}
