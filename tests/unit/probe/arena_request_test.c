/* SPDX-License-Identifier: GPL-2.0 */
/* link: -Wl,--wrap=bpf_map_lookup_batch -Wl,--wrap=bpf_map_lookup_elem -Wl,--wrap=bpf_map_lookup_and_delete_elem */
/*
 * arena_request_test.c: how long connections and requests on which nothing moves keep their places. The kernel's table
 * is an array here, and the time is what the test says.
 */
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define FD     7
#define PLACES 4
#define DAY    (24 * 3600)
#define KEY    0xffff888000000000ULL /* of a connection: an address of the kernel */
#define STREAM 0x77700000001ULL

static struct {
	uint64_t key;
	struct zn_request c;
} table[PLACES];

static int find(const void *key)
{
	for (int i = 0; i < PLACES; i++)
		if (table[i].key && memcmp(&table[i].key, key, sizeof(table[i].key)) == 0)
			return i;
	return -1;
}

int __wrap_bpf_map_lookup_batch(int fd, void *from, void *to, void *keys, void *values, uint32_t *count, const void *o);
int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value);
int __wrap_bpf_map_lookup_and_delete_elem(int fd, const void *key, void *value);

int __wrap_bpf_map_lookup_batch(int fd, void *from, void *to, void *keys, void *values, uint32_t *count, const void *o)
{
	(void)from, (void)to, (void)o;
	CHECK_EQ(fd, FD);
	*count = 0;
	for (int i = 0; i < PLACES; i++) {
		if (!table[i].key)
			continue;
		memcpy((char *)keys + *count * sizeof(table[i].key), &table[i].key, sizeof(table[i].key));
		memcpy((char *)values + *count * sizeof(table[i].c), &table[i].c, sizeof(table[i].c));
		(*count)++;
	}
	return -ENOENT; /* these were the last ones */
}

int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value)
{
	int i = find(key);

	CHECK_EQ(fd, FD);
	if (i < 0)
		return -ENOENT;
	memcpy(value, &table[i].c, sizeof(table[i].c));
	return 0;
}

int __wrap_bpf_map_lookup_and_delete_elem(int fd, const void *key, void *value)
{
	int err = __wrap_bpf_map_lookup_elem(fd, key, value);

	if (!err)
		table[find(key)].key = 0;
	return err;
}

/* ---- a server with one request ---- */

static struct zn_probe *probe;
static struct zn_shared *shared;

static void start(void)
{
	struct zn_arena *a;

	probe = calloc(1, sizeof(*probe));
	shared = calloc(1, sizeof(*shared));
	a = &probe->arena;
	a->shared = shared;
	a->servers = calloc(ZN_SERVERS_MAX, sizeof(*a->servers));
	a->request_series = calloc(ZN_REQUEST_SERIES, sizeof(*a->request_series));
	a->services = calloc(ZN_SERVICES_MAX, sizeof(*a->services));
	a->servers[0].id = a->request_series[0].id = 5;
	a->request_series[0].in_flight = 1;
	shared->quota[ZN_QUOTA_REQUEST] = (struct zn_quota){.size = ZN_REQUEST_MAX, .used = 1};
	probe->kernel.serves = true;
	probe->map_fd[ZN_MAP_REQUESTS] = FD;
	memset(table, 0, sizeof(table));
}

static void stop(void)
{
	free(probe->arena.services);
	free(probe->arena.request_series);
	free(probe->arena.servers);
	free(shared);
	free(probe);
}

/* Nothing moves after the first second. */
static void put(int place, uint64_t key, struct zn_request c)
{
	c.id = 5;
	c.first_ns = c.start_ns = c.last_ns = ZN_NS_PER_S;
	table[place].key = key;
	table[place].c = c;
}

static void look(uint64_t seconds)
{
	probe->requests_ns = 0;
	zn_bpf_request_tick(probe, (1 + seconds) * ZN_NS_PER_S);
}

#define HTTP1 (ZN_PROTOCOL_HTTP1 + 1)
#define HTTP2 (ZN_PROTOCOL_HTTP2 + 1)

static const struct still {
	const char *name;
	struct zn_request c;
	uint64_t most_s;
	int code; /* of its request; -1: it has none */
} stills[] = {
	{"between requests, TCP", {.protocol = HTTP1}, 600, -1},
	{"between requests, Unix", {.protocol = HTTP1, .is_unix = 1}, 600, -1},
	{"the beginning of a request", {.line = ZN_LINE_PATH}, 600, -1},
	{"TLS", {.protocol = ZN_PROTOCOL_TLS + 1}, DAY, -1},
	{"not answered, TCP", {.protocol = HTTP1, .state = ZN_REQUEST_ASKED, .series = 1}, 3600, ZN_OUTCOME_UNKNOWN},
	{"amid an answer, TCP",
		{.protocol = HTTP1, .state = ZN_REQUEST_BODY, .flags = ZN_HTTP1_CHUNKED, .status = 200, .series = 1},
		3600, ZN_OUTCOME_UNKNOWN},
	{"not answered, Unix", {.protocol = HTTP1, .state = ZN_REQUEST_ASKED, .series = 1, .is_unix = 1}, 600,
		ZN_OUTCOME_UNKNOWN},
	{"answered without a length, Unix",
		{.protocol = HTTP1, .state = ZN_REQUEST_BODY, .status = 200, .series = 1, .is_unix = 1}, 60,
		ZN_OUTCOME_2XX},
	{"HTTP/2, TCP", {.protocol = HTTP2}, DAY, -1},
	{"HTTP/2, Unix", {.protocol = HTTP2, .is_unix = 1}, DAY, -1},
};

static void places_are_given_back(void)
{
	for (size_t i = 0; i < ZN_LEN(stills); i++) {
		const struct still *k = &stills[i];
		const struct zn_request_series *s;

		t_begin(k->name);
		start();
		s = &probe->arena.request_series[0];
		put(0, KEY, k->c);
		look(k->most_s);
		CHECK(find(&(uint64_t){KEY}) == 0);
		CHECK_EQ(shared->quota[ZN_QUOTA_REQUEST].used, 1);
		look(k->most_s + 1);
		CHECK(find(&(uint64_t){KEY}) < 0);
		CHECK_EQ(shared->quota[ZN_QUOTA_REQUEST].used, 0);
		CHECK_EQ(s->in_flight, k->code < 0 ? 1 : 0);
		if (k->code >= 0)
			CHECK_EQ(s->done[k->code], 1);
		stop();
	}
}

/* Its connection goes on. */
T(a_stream_on_which_nothing_moves)
{
	start();
	put(0, KEY, (struct zn_request){.protocol = HTTP2, .scan = {3}});
	put(1, STREAM, (struct zn_request){.state = ZN_REQUEST_ASKED, .series = 1, .scan = {KEY, 3}});
	look(3600);
	CHECK(find(&(uint64_t){STREAM}) == 1);
	look(3601);
	CHECK(find(&(uint64_t){STREAM}) < 0);
	CHECK(find(&(uint64_t){KEY}) == 0);
	CHECK_EQ(probe->arena.request_series[0].done[ZN_OUTCOME_UNKNOWN], 1);
	stop();
}

/* Bytes of its body have come later. */
T(an_upload_that_goes_on)
{
	start();
	put(0, KEY, (struct zn_request){.protocol = HTTP1, .state = ZN_REQUEST_ASKED, .series = 1, .is_unix = 1});
	table[0].c.read_ns = 501 * ZN_NS_PER_S;
	look(601);
	CHECK(find(&(uint64_t){KEY}) == 0);
	look(1101);
	CHECK(find(&(uint64_t){KEY}) < 0);
	stop();
}

int main(void)
{
	places_are_given_back();
	RUN(a_stream_on_which_nothing_moves);
	RUN(an_upload_that_goes_on);
	return t_end();
}
