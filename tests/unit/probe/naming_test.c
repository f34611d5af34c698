/* SPDX-License-Identifier: GPL-2.0 */
/*
 * naming_test.c: who holds up a reader of his memory is not read for a while, and nobody else pays; and answers of a
 * reader that says anything. The reader and the clock are stand-ins.
 */
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"
#include "clock.h"

#define HOLD_S 30
#define US     1000u
#define OTHER  1001u

static struct zn_naming naming;
static const struct zn_naming_of of = {.pid = 70, .id = 7, .owner = US}, other = {.pid = 80, .id = 8, .owner = OTHER};
static int answer;
static uint32_t asked;
static size_t page_bytes;

int zn_reader_open(struct zn_reader *r, size_t bytes, void (*answers)(void *page))
{
	CHECK(answers);
	page_bytes = bytes;
	*r = (struct zn_reader){.fd = -1, .bytes = bytes, .page = malloc(bytes)}; /* as large as it must be */
	memset(r->page, 0xff, bytes);
	return 0;
}

int zn_reader_ask(struct zn_reader *r)
{
	CHECK(r == &naming.reader);
	asked++;
	return answer;
}

void zn_reader_close(struct zn_reader *r)
{
	free(r->page);
	r->page = NULL;
}

static void start(void)
{
	zn_naming_close(&naming);
	zn_naming_open(&naming);
	clock_ns = 1000 * ZN_NS_PER_S;
	answer = 0;
	asked = 0;
}

static int find_python(const struct zn_naming_of *who)
{
	struct zn_python_process p = {0};
	char why[ZN_TEXT_MAX] = "left over";
	int err = zn_naming_find(&naming, who, &p, why);

	CHECK(strlen(why) < ZN_TEXT_MAX);
	return err;
}

static int ask_names(const struct zn_naming_of *who)
{
	static struct zn_stack stack;
	struct zn_python_process p = {0};

	return zn_naming_ask(&naming, who, &p, &stack);
}

T(held_up)
{
	start();
	answer = -ETIMEDOUT;
	CHECK_EQ(find_python(&of), -EBUSY);
	CHECK_EQ(asked, 1);
	CHECK_EQ(zn_naming_held(&naming), 70);
	answer = 0;
	CHECK_EQ(ask_names(&of), -EBUSY); /* nobody is asked, whatever it is about */
	CHECK_EQ(find_python(&of), -EBUSY);
	CHECK_EQ(asked, 1);
	find_python(&other);
	CHECK_EQ(asked, 2);
}

static int ask_functions(const struct zn_naming_of *who)
{
	static struct zn_native_stack functions;
	static struct zn_native copied;

	return zn_naming_native(&naming, who, &copied, true, &functions);
}

/* A slow file server takes nobody's names away, and no process is said to keep its memory to itself. */
T(files_held_up)
{
	start();
	answer = -ETIMEDOUT;
	CHECK_EQ(ask_functions(&of), -ETIMEDOUT);
	CHECK_EQ(ask_functions(&of), -EBUSY);
	CHECK_EQ(asked, 1);
	CHECK_EQ(zn_naming_held(&naming), 0);
	answer = 0;
	CHECK(ask_names(&of) != -EBUSY);
	CHECK(find_python(&of) != -EBUSY);
	CHECK_EQ(asked, 3);
	CHECK_EQ(ask_functions(&other), 0);
	clock_ns += HOLD_S * ZN_NS_PER_S;
	CHECK_EQ(ask_functions(&of), 0);
	CHECK_EQ(asked, 5);
}

/* Of who holds up a reader of his memory no files are read either. */
T(memory_held_up_is_all)
{
	start();
	answer = -ETIMEDOUT;
	CHECK_EQ(ask_names(&of), -ETIMEDOUT);
	answer = 0;
	CHECK_EQ(ask_functions(&of), -EBUSY);
	CHECK_EQ(asked, 1);
	CHECK_EQ(ask_functions(&other), 0);
}

/* 30 s, and twice as long each time; never more than 64 times that. */
T(for_how_long)
{
	uint64_t hold_s = HOLD_S;

	start();
	for (int i = 0; i < 12; i++) {
		answer = -ETIMEDOUT;
		CHECK_EQ(ask_names(&of), -ETIMEDOUT);
		clock_ns += hold_s * ZN_NS_PER_S - 1;
		CHECK_EQ(ask_names(&of), -EBUSY);
		CHECK_EQ(zn_naming_held(&naming), 70);
		clock_ns += 1;
		CHECK_EQ(zn_naming_held(&naming), 0);
		hold_s *= hold_s < HOLD_S * 128 ? 2 : 1;
	}
	CHECK_EQ(asked, 12);
}

/* A reader that is not there says nothing about whom it read. */
T(no_reader)
{
	start();
	answer = -EPIPE;
	CHECK_EQ(find_python(&of), -EBUSY);
	CHECK_EQ(ask_names(&of), -EPIPE);
	CHECK_EQ(asked, 2);
	CHECK_EQ(zn_naming_held(&naming), 0);
	zn_naming_close(&naming);
	CHECK_EQ(ask_names(&of), -EPIPE);
	CHECK_EQ(find_python(&of), -EPIPE);
	CHECK_EQ(asked, 2);
}

/* More users than are remembered: the one whose time ends first is forgotten, and none is held for another's. */
T(many_users)
{
	start();
	answer = -ETIMEDOUT;
	for (uint32_t i = 0; i < ZN_LEN(naming.hold); i++, clock_ns += ZN_NS_PER_MS)
		CHECK_EQ(ask_names(&(struct zn_naming_of){.pid = 100 + i, .id = i + 1, .owner = 5000 + i}), -ETIMEDOUT);
	CHECK_EQ(ask_names(&of), -ETIMEDOUT); /* takes the place of the first one */
	CHECK_EQ(ask_names(&of), -EBUSY);
	CHECK_EQ(ask_names(&(struct zn_naming_of){.pid = 101, .id = 2, .owner = 5001}), -EBUSY);
	answer = 0;
	asked = 0;
	ask_names(&other);
	ask_names(&(struct zn_naming_of){.pid = 100, .id = 1, .owner = 5000});
	CHECK_EQ(asked, 2);
}

/* The reader read what is hostile, so it may say anything: lengths are cut to what the page holds. */
T(answers_of_any_bytes)
{
	for (int byte = 0; byte < 256; byte++) {
		const char *page;

		start();
		page = naming.reader.page;
		memset(naming.reader.page, byte, page_bytes);
		for (uint32_t i = 0; i < 2 * ZN_STACK_FRAMES; i++) {
			struct zn_naming_frame f = zn_naming_frame(&naming, i);

			CHECK(f.name.at >= page && f.name.at + f.name.len <= page + page_bytes);
			CHECK(f.file.at >= page && f.file.at + f.file.len <= page + page_bytes);
		}
		find_python(&of);
	}
}

int main(void)
{
	RUN(held_up);
	RUN(files_held_up);
	RUN(memory_held_up_is_all);
	RUN(for_how_long);
	RUN(no_reader);
	RUN(many_users);
	RUN(answers_of_any_bytes);
	return t_end();
}
