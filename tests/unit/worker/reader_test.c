/* SPDX-License-Identifier: GPL-2.0 */
#include "../../t.h"
#include "zernel.h"
#include <errno.h>
#include <unistd.h>

struct page {
	int wanted, got;
};
enum { DOUBLE, HANG, END };

/* The sanitizers need more than the list of system calls has. */
int zn_sandbox_reader(void)
{
	return 0;
}

int zn_sandbox_readers(void)
{
	return 0;
}

/* What a process may hold it up in it does not come out of by itself. */
static void answer(void *at)
{
	struct page *page = at;

	switch (page->wanted) {
	case DOUBLE: page->got *= 2; break;
	case HANG:
		for (;;)
			;
	case END: _exit(1);
	}
}

static int ask(struct zn_reader *r, int wanted, int got)
{
	struct page *page = r->page;

	page->wanted = wanted;
	page->got = got;
	return zn_reader_ask(r);
}

static void it_answers(void)
{
	struct zn_reader r;
	struct page *page;

	CHECK_EQ(zn_reader_open(&r, sizeof(struct page), answer), 0);
	page = r.page;
	for (int i = 1; i < 100; i++) {
		CHECK_EQ(ask(&r, DOUBLE, i), 0);
		CHECK_EQ(page->got, 2 * i);
	}
	zn_reader_close(&r);
	zn_reader_close(&r);
}

/* The one that hangs is ended; what is asked next another one answers. */
static void it_has_a_time_limit(void)
{
	struct zn_reader r;
	struct page *page;

	CHECK_EQ(zn_reader_open(&r, sizeof(struct page), answer), 0);
	page = r.page;
	CHECK_EQ(ask(&r, HANG, 0), -ETIMEDOUT);
	CHECK_EQ(ask(&r, DOUBLE, 21), 0);
	CHECK_EQ(page->got, 42);
	zn_reader_close(&r);
}

static void one_that_ends_is_followed(void)
{
	struct zn_reader r;

	CHECK_EQ(zn_reader_open(&r, sizeof(struct page), answer), 0);
	CHECK(ask(&r, END, 0) < 0);
	CHECK_EQ(ask(&r, DOUBLE, 21), 0);
	CHECK_EQ(((struct page *)r.page)->got, 42);
	zn_reader_hang_up(&r);
	CHECK(ask(&r, DOUBLE, 1) < 0);
	zn_reader_close(&r);
}

int main(void)
{
	RUN(it_answers);
	RUN(it_has_a_time_limit);
	RUN(one_that_ends_is_followed);
	return t_end();
}
