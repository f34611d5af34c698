/* SPDX-License-Identifier: GPL-2.0 */
/* file_budget_test.c: files that were refused are known again, and one owner's files take no time from the others. */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <string.h>
#include <sys/stat.h>

#define S ZN_NS_PER_S

static struct zn_refused_files refused;
static struct zn_file_budget budget;

static struct stat file(uint64_t ino)
{
	return (struct stat){.st_dev = 5, .st_ino = ino, .st_size = 4096, .st_mtim = {.tv_sec = 7}};
}

static void start(void)
{
	clock_ns = 1000 * S;
	memset(&refused, 0, sizeof(refused));
	memset(&budget, 0, sizeof(budget));
	zn_refused_open(&refused);
}

T(a_refused_file_is_known_until_it_is_another_one)
{
	struct stat st = file(1);

	start();
	CHECK(!zn_refused_has(&refused, &st));
	zn_refused_add(&refused, &st);
	zn_refused_add(&refused, &st);
	CHECK(zn_refused_has(&refused, &st));
	CHECK_EQ(refused.next, 1);
	st.st_mtim.tv_nsec++;
	CHECK(!zn_refused_has(&refused, &st));
	st = file(1);
	st.st_size++;
	CHECK(!zn_refused_has(&refused, &st));
	st = file(1);
	st.st_dev++;
	CHECK(!zn_refused_has(&refused, &st));
}

T(many_of_them_push_out_old_ones_and_nothing_else)
{
	uint32_t known = 0;

	start();
	for (uint64_t ino = 1; ino <= 3000; ino++) {
		struct stat st = file(ino);

		zn_refused_add(&refused, &st);
		CHECK(zn_refused_has(&refused, &st));
	}
	for (uint64_t ino = 1; ino <= 3000; ino++) {
		struct stat st = file(ino);

		known += zn_refused_has(&refused, &st);
	}
	CHECK(known > 2400);
	for (uint64_t ino = 4000; ino <= 9000; ino++) {
		struct stat st = file(ino);

		CHECK(!zn_refused_has(&refused, &st));
	}
}

T(so_many_files_of_one_owner_in_a_second)
{
	start();
	for (int i = 0; i < 8; i++)
		CHECK(zn_file_budget_take(&budget, 1000));
	CHECK(!budget.again);
	CHECK(!zn_file_budget_take(&budget, 1000));
	CHECK(budget.again);
	CHECK(zn_file_budget_take(&budget, 1001));
	for (int i = 0; i < 100; i++)
		CHECK(zn_file_budget_take(&budget, ZN_OWNER_ROOT));
	clock_ns += S;
	CHECK(zn_file_budget_take(&budget, 1000));
}

/* The thread's CPU clock is real here: since 0 it has used some milliseconds, and as many before 0 as the test
 * wants. */
static void charge(uint32_t owner, uint64_t cpu_ns)
{
	zn_file_budget_charge(&budget, owner, zn_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
}

T(time_for_files_is_on_their_owners_account)
{
	start();
	charge(1000, S / 2); /* 3 % of 20 s, which were saved, are 0.6 s */
	CHECK(zn_file_budget_left(&budget, 1000));
	charge(1000, S / 4);
	CHECK(!zn_file_budget_left(&budget, 1000));
	CHECK(!zn_file_budget_take(&budget, 1000));
	CHECK(zn_file_budget_left(&budget, 1001));
	CHECK(zn_file_budget_left(&budget, ZN_OWNER_ROOT));
	clock_ns += 6 * S;
	CHECK(zn_file_budget_left(&budget, 1000));
}

T(a_debt_ends_within_half_a_minute)
{
	start();
	charge(1000, 1000 * S);
	clock_ns += 29 * S;
	CHECK(!zn_file_budget_left(&budget, 1000));
	clock_ns += S;
	CHECK(zn_file_budget_left(&budget, 1000));
}

int main(void)
{
	RUN(a_refused_file_is_known_until_it_is_another_one);
	RUN(many_of_them_push_out_old_ones_and_nothing_else);
	RUN(so_many_files_of_one_owner_in_a_second);
	RUN(time_for_files_is_on_their_owners_account);
	RUN(a_debt_ends_within_half_a_minute);
	return t_end();
}
