/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ras_test.c: answers of NCCL's RAS service: JSON as it should be and as it was printed, the text before it, what is of
 * another job, what is cut short, and what is nothing of the kind; each whole and cut at each byte.
 */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define STATUS "\"status\": {\"init_state\": 0, \"finalize_called\": false}, \"collective_counts\": "
#define RANK(n, host, pid, counts)                                                                                     \
	"{\"rank\": " #n ", \"host\": \"" host "\", \"pid\": " #pid ", \"cuda_dev\": 0, " STATUS "{" counts "}}"
#define GONE(n, host, pid, unresponsive, dead)                                                                         \
	"{\"rank\": " #n ", \"host\": \"" host "\", \"pid\": " #pid ", \"status\": {\"unresponsive\": " #unresponsive  \
	", \"considered_dead\": " #dead "}}"
#define COMM(hash, size, ranks, gone)                                                                                  \
	"{\"hash\": \"" hash "\", \"secondary_hash\": \"0x1:0x2\", \"size\": " #size ", \"ranks_count\": 2,\n"         \
	"\"missing_ranks_count\": 0, \"ranks\": [" ranks "],\n\"missing_ranks\": [" gone "]}"
#define HEAD                    "{\"nccl_version\": \"2.28.9\", \"cuda_driver_version\": 13000, \"communicators\": ["
#define TAIL                    "], \"ras\": {\"collection_time_sec\": 0.012, \"timeouts_count\": 0}}\n"
#define OURS(n)                 RANK(n, "10.0.0.1", 100, "\"Broadcast\": 1, \"AllReduce\": 7")
#define LATE(n)                 RANK(n, "10.0.0.7", 4711, "\"Broadcast\": 1, \"AllReduce\": 4")
#define EVEN(n)                 RANK(n, "10.0.0.7", 4712, "\"Broadcast\": 2, \"AllReduce\": 6")
#define BANNER                  "NCCL version 2.27.3 compiled with CUDA 12.9\nCUDA runtime version 12090\n\nCommunicators... (0.02s)\n"
#define ALSO                    "\nErrors\n======\n\n"
#define WARN                    "Warnings\n========\n\n"
#define MISMATCH                "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
#define MANAGED(gpu, pid, host) "-- GPU " #gpu " managed by process " #pid " on node " host "\n"
#define MANY                    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* What is understood, and of each communicator "hash size heard/odd/fewest most: rank@host/pid state -fewer ...;" */
static const char *show(const struct zn_ras_answer *a)
{
	static char text[4096];
	size_t len = (size_t)snprintf(text, sizeof(text), "%s%s%u of %u", a->understood ? "" : "not understood ",
		a->whole ? "" : "cut ", a->count, a->comms);

	for (uint32_t i = 0; i < a->count; i++) {
		const struct zn_ras_comm *c = &a->comm[i];

		len += (size_t)snprintf(text + len, sizeof(text) - len,
			"; %llx %u %u/%u/%u %llu:", (unsigned long long)c->hash, c->size, c->heard, c->odd, c->fewest,
			(unsigned long long)c->most);
		for (uint32_t r = 0; r < c->count; r++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, " %d@%s/%u %s -%llu",
				(int)c->rank[r].rank, c->rank[r].host, c->rank[r].pid,
				zn_ras_state_label(c->rank[r].state), (unsigned long long)c->rank[r].fewer);
	}
	return text;
}

static const struct {
	const char *name, *text, *want;
	bool alone;
} answers[] = {
	{"nothing", "", "not understood cut 0 of 0", false},
	{"a web server", "HTTP/1.1 400 Bad Request\r\n\r\n", "not understood cut 0 of 0", true},
	{"JSON of something else", "{\"hash\": \"0x1\", \"rank\": 1}", "not understood cut 0 of 0", true},
	{"no communicators", HEAD TAIL, "0 of 0", false},
	{"all even", HEAD COMM("0x2a", 2, OURS(0) "," EVEN(1), "") TAIL, "1 of 1; 2a 2 2/0/0 8:", false},
	{"one behind", HEAD COMM("0x2a", 3, OURS(0) "," LATE(1) "," EVEN(2), "") TAIL,
		"1 of 1; 2a 3 3/1/1 8: 1@10.0.0.7/4711 behind -3", false},
	{"the one behind comes first", HEAD COMM("0x2a", 3, LATE(1) "," OURS(0) "," EVEN(2), "") TAIL,
		"1 of 1; 2a 3 3/1/1 8: 1@10.0.0.7/4711 behind -3", false},
	{"of another job", HEAD COMM("0x2a", 2, LATE(1) "," EVEN(2), "") TAIL, "0 of 1", false},
	{"of another job, and alone is for the text", HEAD COMM("0x2a", 2, LATE(1) "," EVEN(2), "") TAIL, "0 of 1",
		true},
	{"our process on another host", HEAD COMM("0x2a", 1, RANK(0, "10.0.0.2", 100, "\"AllReduce\": 1"), "") TAIL,
		"0 of 1", false},
	{"missing in every way",
		HEAD COMM("0x2a", 5, OURS(0) "," LATE(1),
			GONE(2, "10.0.0.8", 1, true, false) "," GONE(3, "10.0.0.9", 2, true, true) "," GONE(
				4, "10.0.0.9", 3, false, false)) TAIL,
		"1 of 1; 2a 5 2/4/1 8: 3@10.0.0.9/2 dead -0 2@10.0.0.8/1 silent -0 1@10.0.0.7/4711 behind -3 4@10.0.0.9/3 left -0",
		false},
	{"our own process is the one that is missing",
		HEAD COMM("0x2a", 1, "", GONE(0, "10.0.0.1", 101, true, true)) TAIL,
		"1 of 1; 2a 1 0/1/0 0: 0@10.0.0.1/101 dead -0", false},
	{"two", HEAD COMM("0x1", 1, OURS(0), "") "," COMM("0x2", 2, LATE(0) "," OURS(1), "") TAIL,
		"2 of 2; 1 1 1/0/0 8:; 2 2 2/1/1 8: 0@10.0.0.7/4711 behind -3", false},
	{"without commas", HEAD COMM("0x2a", 2, OURS(0) LATE(1), "") COMM("0x2b", 1, OURS(0), "") TAIL,
		"2 of 2; 2a 2 2/1/1 8: 1@10.0.0.7/4711 behind -3; 2b 1 1/0/0 8:", false},
	{"with commas too many", HEAD COMM("0x2a", 2, OURS(0) ",," LATE(1) ",", ",") "," TAIL,
		"1 of 1; 2a 2 2/1/1 8: 1@10.0.0.7/4711 behind -3", false},
	{"behind a banner", BANNER "x" HEAD COMM("0x2a", 2, OURS(0) "," LATE(1), "") TAIL,
		"1 of 1; 2a 2 2/1/1 8: 1@10.0.0.7/4711 behind -3", false},
	{"cut in the second", HEAD COMM("0x1", 1, OURS(0), "") "," COMM("0x2", 2, LATE(0) "," OURS(1), ""),
		"cut 1 of 2; 1 1 1/0/0 8:", false},
	{"who has left among many that are even",
		HEAD COMM("0x2a", 11,
			OURS(0) "," OURS(1) "," OURS(2) "," OURS(3) "," OURS(4) "," OURS(5) "," OURS(6) "," OURS(
				7) "," OURS(8) "," OURS(9),
			GONE(10, "10.0.0.9", 3, false, false)) TAIL,
		"1 of 1; 2a 11 10/1/0 8: 10@10.0.0.9/3 left -0", false},
	{"a host that is a text",
		HEAD COMM("0x1", 2, OURS(0), GONE(1, "<b>\\n\\\"rank\\\": 5" MANY, 1, true, true)) TAIL,
		"1 of 1; 1 2 1/1/0 8: 1@?b???rank?:?50123456789abcdef0123456789abcdef/1 dead -0", false},
	{"numbers of every size",
		HEAD COMM("0xffffffffffffffffff", 99999999999,
			OURS(0) "," RANK(99999999999, "10.0.0.1", -5,
				"\"a\": 18446744073709551615, \"b\": 18446744073709551616, \"c\": -3, \"d\": 1.99e9"),
			"") TAIL,
		"1 of 1; ffffffffffffffff 0 2/1/1 18446744073709551615: 0@10.0.0.1/100 behind -18446744073709551607",
		false},
	{"the text of one that is well", BANNER ALSO WARN, "0 of 0", true},
	{"one behind, as text",
		BANNER ALSO WARN MISMATCH
		"  31 ranks have launched up to operation 6650\n"
		"  Rank 9 has launched up to operation 6647 " MANAGED(1, 555, "172.16.64.211") "\n",
		"1 of 1; 27a079b828ff1a75 0 32/1/1 6650: 9@172.16.64.211/555 behind -3", true},
	{"one that has begun nothing",
		BANNER ALSO WARN MISMATCH
		"  31 ranks have launched up to operation 7\n"
		"  Rank 9 has not launched any operations " MANAGED(1(NVML 2), 555, "fe80::1") "\n",
		"1 of 1; 27a079b828ff1a75 0 32/1/1 7: 9@fe80::1/555 behind -7", true},
	{"some behind, as text, with lines of Windows",
		BANNER ALSO WARN MISMATCH
		"  26 ranks have launched up to operation 6650\r\n"
		"  2 ranks have launched up to operation 6649\r\n"
		"  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210\r\n  Rank 2 -- [process information not found]\r\n\n",
		"1 of 1; 27a079b828ff1a75 0 28/2/2 6650: 0@172.16.64.210/483072 behind -1 2@/0 behind -1", true},
	{"text of one that may have another job",
		BANNER ALSO WARN MISMATCH "  31 ranks have launched up to operation 7\n"
					  "  Rank 9 has not launched any operations " MANAGED(1, 555, "172.16.64.211"),
		"0 of 1", false},
	{"the same, that names a process of ours",
		BANNER ALSO WARN MISMATCH "  31 ranks have launched up to operation 7\n"
					  "  Rank 9 has not launched any operations " MANAGED(1, 101, "10.0.0.1"),
		"1 of 1; 27a079b828ff1a75 0 32/1/1 7: 9@10.0.0.1/101 behind -7", false},
	{"missing, as text",
		BANNER ALSO
		"INCOMPLETE\n  Missing communicator data from 1 job process\n"
		"  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n"
		"DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
		"  Process 34 on node 172.16.64.214 managing GPUs 5,6\n\n"
		"#0-0 (2a) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 21 " MANAGED(5, 3487984,
			"172.16.64.213") "\n" WARN
					 "#0-0 (2a) MISMATCH\n  Communicator ranks have different status\n  30 ranks have status RUNNING\n"
					 "  Rank 3 has status NOCOMM " MANAGED(3, 483075, "172.16.64.210") "\n",
		"2 of 2; 0 0 0/1/0 0: -1@172.16.64.214/34 dead -0 -1@172.16.64.213/3487984 silent -0;"
		" 2a 0 0/1/0 0: 21@172.16.64.213/3487984 silent -0 3@172.16.64.210/483075 left -0",
		true},
	{"errors are not looked at",
		BANNER ALSO "#0-0 (2a) ERROR\n  Initialization error on 1 rank\n"
			    "  Rank 1 reported System error " MANAGED(1, 2, "10.0.0.3") "\n" WARN,
		"0 of 1", true},
	{"text that is cut short", BANNER ALSO, "cut 0 of 0", true},
	{"lines without an end", BANNER MANY MANY MANY MANY MANY "\nWarnings\n", "0 of 0", true},
	{"too many ranks and communicators",
		BANNER WARN MISMATCH
		"  20 ranks have launched up to operation 9\n  10 ranks have launched up to operation 8\n"
		"  Rank 1 -- [\n  Rank 2 -- [\n  Rank 3 -- [\n  Rank 4 -- [\n  Rank 5 -- [\n  Rank 6 -- [\n  Rank 7 -- [\n"
		"  Rank 8 -- [\n  Rank 9 -- [\n  Rank 10 has launched up to operation 3 -- [\n",
		"1 of 1; 27a079b828ff1a75 0 31/11/1 9: 10@/0 behind -6 1@/0 behind -1 2@/0 behind -1 3@/0 behind -1 4@/0 behind -1"
		" 5@/0 behind -1 6@/0 behind -1 7@/0 behind -1",
		true},
};

static const struct zn_ras_wanted ours = {
	.pid_count = 2, .host_count = 2, .pid = {100, 101}, .host = {"127.0.0.1", "10.0.0.1"}};

static const char *parse(const char *text, size_t len, size_t cut, bool alone)
{
	static struct zn_ras_parse p;
	static struct zn_ras_wanted w;
	char *first = malloc(cut ? cut : 1), *second = malloc(len - cut ? len - cut : 1);

	w = ours;
	w.alone = alone;
	memcpy(first, text, cut);
	memcpy(second, text + cut, len - cut);
	zn_ras_parse_init(&p, &w);
	zn_ras_parse_take(&p, first, cut);
	zn_ras_parse_take(&p, second, len - cut);
	zn_ras_parse_end(&p);
	free(first);
	free(second);
	zn_ras_answer_check(&p.answer);
	return show(&p.answer);
}

static void check_answers(void)
{
	for (size_t i = 0; i < ZN_LEN(answers); i++) {
		size_t len = strlen(answers[i].text);

		t_begin(answers[i].name);
		for (size_t cut = 0; cut <= len; cut++)
			CHECK_STR(parse(answers[i].text, len, cut, answers[i].alone), answers[i].want);
	}
}

T(no_more_communicators_than_there_is_room_for)
{
	static struct zn_ras_parse p;
	static const char comm[] = COMM("0x2a", 1, OURS(0), "");

	zn_ras_parse_init(&p, &ours);
	zn_ras_parse_take(&p, HEAD, sizeof(HEAD) - 1);
	for (int i = 0; i < ZN_RAS_COMMS + 3; i++)
		zn_ras_parse_take(&p, comm, sizeof(comm) - 1);
	zn_ras_parse_take(&p, TAIL, sizeof(TAIL) - 1);
	zn_ras_parse_end(&p);
	CHECK_EQ(p.answer.count, ZN_RAS_COMMS);
	CHECK_EQ(p.answer.lost, 3);
	CHECK_EQ(p.answer.comms, ZN_RAS_COMMS + 3);
	CHECK(p.answer.whole);
}

T(what_another_process_wrote_is_made_readable)
{
	static struct zn_ras_answer a;

	memset(&a, 0xff, sizeof(a));
	a.understood = a.whole = a.text = true;
	zn_ras_answer_check(&a);
	CHECK_EQ(a.count, ZN_RAS_COMMS);
	CHECK_EQ(a.comm[0].count, ZN_RAS_RANKS);
	CHECK_EQ(strlen(a.comm[7].rank[7].host), ZN_RAS_HOST - 1);
	CHECK_STR(zn_ras_state_label(a.comm[7].rank[7].state), "left");
}

int main(void)
{
	check_answers();
	RUN(no_more_communicators_than_there_is_room_for);
	RUN(what_another_process_wrote_is_made_readable);
	return t_end();
}
