/* SPDX-License-Identifier: GPL-2.0 */
/* places_test.c: where processes sleep, as it is asked for by one thread and looked at by another, and whose places
 * there are. */
#include "zernel.h"
#include "t.h"

#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct zn_places places;
static char place[ZN_PLACE_BYTES];

static void start(void)
{
	places = (struct zn_places){.lock = &lock};
}

static uint32_t held_by(uint32_t user)
{
	uint32_t n = 0;

	for (size_t i = 0; i < ZN_PLACES_MAX; i++)
		n += places.place[i].pid && places.place[i].user == user;
	return n;
}

static bool is_there(uint32_t pid)
{
	for (size_t i = 0; i < ZN_PLACES_MAX; i++)
		if (places.place[i].pid == pid)
			return true;
	return false;
}

T(what_is_asked_for_is_looked_at)
{
	uint64_t now_ns;

	start();
	zn_places_ask(&places, (uint32_t)getpid(), 1, place);
	CHECK_STR(place, "");
	now_ns = zn_now_ns();
	zn_places_serve(&places, now_ns);
	CHECK_STR(places.place[0].name, "0"); /* it runs */
	strcpy(places.place[0].name, "futex_wait_queue");
	zn_places_ask(&places, (uint32_t)getpid(), 1, place);
	CHECK_STR(place, "futex_wait_queue");
	zn_places_serve(
		&places, now_ns); /* not twice within a moment: the finder comes round a hundred times a second */
	CHECK_STR(places.place[0].name, "futex_wait_queue");
}

T(a_user_with_many_that_sleep_hides_nobody_elses)
{
	start();
	for (uint32_t n = 0; n < 1000; n++)
		zn_places_ask(&places, 1000000 + n, 1, place);
	CHECK_EQ(held_by(1), ZN_PLACES_MAX / 2);
	CHECK(is_there(1000999)); /* his own oldest one made room */
	CHECK(!is_there(1000000));
	for (uint32_t n = 0; n < 8; n++)
		zn_places_ask(&places, 2000000 + n, 2, place);
	CHECK_EQ(held_by(2), 8);
	for (uint32_t n = 0; n < 1000; n++)
		zn_places_ask(&places, 3000000 + n, 3, place);
	CHECK(held_by(3) < ZN_PLACES_MAX / 4);
	CHECK_EQ(held_by(2), 8);
	zn_places_ask(&places, 4000000, 4, place);
	CHECK_EQ(held_by(4), 1);
}

T(a_number_that_another_users_process_has_now)
{
	start();
	zn_places_ask(&places, 7000000, 1, place);
	strcpy(places.place[0].name, "do_wait");
	zn_places_ask(&places, 7000000, 2, place);
	CHECK_STR(place, "");
}

int main(void)
{
	RUN(what_is_asked_for_is_looked_at);
	RUN(a_user_with_many_that_sleep_hides_nobody_elses);
	RUN(a_number_that_another_users_process_has_now);
	return t_end();
}
