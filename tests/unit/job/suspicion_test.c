/* SPDX-License-Identifier: GPL-2.0 */
/*
 * suspicion_test.c: whom the daemon asks about a job that hangs, and how often; who must not be asked, by lists of
 * sockets as the kernel writes them; whose turn it is; and what is said of an answer. The sender is this test.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define PORT  "6D7C" /* 28028 */
#define TABLE "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
#define LINE(address, state, uid)                                                                                      \
	"   0: " address " 00000000:0000 " state " 00000000:00000000 00:00000000 00000000  " uid                       \
	"        0 12345 1 0000 100 0\n"
#define LOOPBACK "0100007F:" PORT
#define ANY      "00000000:" PORT
#define LOOP_V6  "00000000000000000000000001000000:" PORT
#define ANY_V6   "00000000000000000000000000000000:" PORT
#define OTHERS   LINE("0100007F:0016", "0A", "0")

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_suspicions s;
static struct zn_inquiry_done done;
static struct zn_sender sender = {.inquiry = &done};
static char root[] = "/tmp/zernel-suspicion-XXXXXX";
static const char *environment; /* NCCL_RAS_ADDR of all processes; NULL: not known yet */
static struct zn_inquiry_ask asked;
static unsigned questions;

static uint64_t send_question(struct zn_sender *c, const struct zn_inquiry_ask *ask)
{
	(void)c;
	asked = *ask;
	return ++questions;
}

static bool process_info(void *owner, const struct zn_proc *p, struct zn_process_info *to)
{
	(void)owner;
	*to = (struct zn_process_info){.id = p->id};
	if (environment)
		snprintf(to->slurm.ras, sizeof(to->slurm.ras), "%s", environment);
	return environment;
}

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	f = fopen(path, "w");
	CHECK(f);
	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static struct zn_proc *add_process(uint32_t pid, uint32_t uid, uint32_t inner, struct zn_job_ref job)
{
	struct zn_proc *p = zn_memory_claim(&memory, pid, "python3");
	char name[32], text[256];

	snprintf(name, sizeof(name), "%u", pid);
	snprintf(text, sizeof(text), "%s/%s", root, name);
	mkdir(text, 0700);
	snprintf(name, sizeof(name), "%u/status", pid);
	snprintf(text, sizeof(text), "Name:\tpython3\nPid:\t%u\nUid:\t0\t%u\t0\t0\nNSpid:\t%u\t7\t%u\n", pid, uid, pid,
		inner);
	write_file(name, text);
	p->owner = uid;
	p->job = job;
	zn_agg_refresh(&agg);
	return p;
}

static void begin(void)
{
	if (memory.memory)
		zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	agg.process_info = process_info;
	sender.worker.fd = 0;
	memset(&done, 0, sizeof(done));
	questions = 0;
	environment = "";
	zn_suspicion_init(&s, &agg, &sender, root);
	s.send = send_question;
	write_file("net/fib_trie", "  |-- 10.0.0.7\n    /32 host LOCAL\n");
	write_file("net/tcp", TABLE LINE(LOOPBACK, "0A", "1000"));
	write_file("net/tcp6", TABLE);
}

static uint64_t at(double seconds)
{
	return (uint64_t)((1000 + seconds) * 1e9);
}

static const struct zn_suspicion *tick(const struct zn_proc *p, double seconds)
{
	zn_suspicion_raise(&s, p, at(seconds));
	zn_suspicion_tick(&s, at(seconds));
	return zn_suspicion_of(&s, p->job);
}

/* ---- Whom. ---- */

static const struct {
	const char *name, *address, *tcp, *tcp6;
	enum zn_inquiry_outcome want; /* ZN_INQUIRY_COUNT: it is asked */
	const char *peer;
} places[] = {
	{"NCCL's own", "", LINE(LOOPBACK, "0A", "1000"), "", ZN_INQUIRY_COUNT, "127.0.0.1"},
	{"among others", "", OTHERS LINE(LOOPBACK, "0A", "1000") OTHERS, "", ZN_INQUIRY_COUNT, "127.0.0.1"},
	{"nobody", "", OTHERS, "", ZN_INQUIRY_NOBODY, ""},
	{"connections behind those that listen", "",
		OTHERS LINE("0100007F:0017", "01", "0") LINE(LOOPBACK, "0A", "1000"), "", ZN_INQUIRY_NOBODY, ""},
	{"another user", "", LINE(LOOPBACK, "0A", "1001"), "", ZN_INQUIRY_FOREIGN, ""},
	{"root is another user", "", LINE(LOOPBACK, "0A", "0"), "", ZN_INQUIRY_FOREIGN, ""},
	{"two of one user", "", LINE(LOOPBACK, "0A", "1000") LINE(LOOPBACK, "0A", "1000"), "", ZN_INQUIRY_COUNT,
		"127.0.0.1"},
	{"two of two", "", LINE(LOOPBACK, "0A", "1000") LINE(LOOPBACK, "0A", "1001"), "", ZN_INQUIRY_FOREIGN, ""},
	{"any address", "", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_COUNT, "127.0.0.1"},
	{"another user at any address, who is not asked", "", LINE(ANY, "0A", "1001") LINE(LOOPBACK, "0A", "1000"), "",
		ZN_INQUIRY_COUNT, "127.0.0.1"},
	{"another user in between", "", LINE(ANY, "0A", "1000") LINE(LOOPBACK, "0A", "1001"), "", ZN_INQUIRY_FOREIGN,
		""},
	{"any address of both", "", "", LINE(ANY_V6, "0A", "1000"), ZN_INQUIRY_COUNT, "127.0.0.1"},
	{"any address of both, another user", "", "", LINE(ANY_V6, "0A", "1001"), ZN_INQUIRY_FOREIGN, ""},
	{"localhost of IPv6", "", "", LINE(LOOP_V6, "0A", "1000"), ZN_INQUIRY_COUNT, "::1"},
	{"localhost of IPv6, another user", "", "", LINE(LOOP_V6, "0A", "1001"), ZN_INQUIRY_FOREIGN, ""},
	{"an address", "127.0.0.1:28028", LINE(LOOPBACK, "0A", "1000"), "", ZN_INQUIRY_COUNT, "127.0.0.1"},
	{"another port", "127.0.0.1:28029", LINE(LOOPBACK, "0A", "1000"), "", ZN_INQUIRY_NOBODY, ""},
	{"all addresses", "0.0.0.0:28028", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_COUNT, "127.0.0.1"},
	{"an address of another node", "192.0.2.1:28028", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_ELSEWHERE, ""},
	{"a name", "login.example.org:28028", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_ELSEWHERE, ""},
	{"an address that came after the daemon", "10.0.0.7:28028", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_COUNT,
		"10.0.0.7"},
	{"no port", "127.0.0.1", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_ELSEWHERE, ""},
	{"a port that is none", "127.0.0.1:70000", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_ELSEWHERE, ""},
	{"a port and more", "127.0.0.1:28028x", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_ELSEWHERE, ""},
	{"nothing", ":", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_ELSEWHERE, ""},
	{"brackets", "[", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_ELSEWHERE, ""},
	{"empty brackets", "[]:1", LINE(ANY, "0A", "1000"), "", ZN_INQUIRY_ELSEWHERE, ""},
	{"lines that are none", "", "x\n\n:\n0: 1 2\n", "\x01\n", ZN_INQUIRY_NOBODY, ""},
};

static void check_places(void)
{
	char text[2048];

	for (size_t i = 0; i < ZN_LEN(places); i++) {
		const struct zn_suspicion *x;
		struct zn_peer want = {.len = 0};

		t_begin(places[i].name);
		begin();
		environment = places[i].address;
		snprintf(text, sizeof(text), TABLE "%s", places[i].tcp);
		write_file("net/tcp", text);
		snprintf(text, sizeof(text), TABLE "%s", places[i].tcp6);
		write_file("net/tcp6", text);
		x = tick(add_process(100, 1000, 3, (struct zn_job_ref){1, 5}), 0);
		CHECK(x);
		CHECK_EQ(questions, places[i].want == ZN_INQUIRY_COUNT);
		CHECK_EQ(x->state, places[i].want == ZN_INQUIRY_COUNT ? ZN_SUSPICION_ASKED : ZN_SUSPICION_OVER);
		if (places[i].want != ZN_INQUIRY_COUNT)
			CHECK_EQ(x->outcome, places[i].want);
		else if (zn_peer_read(&want, places[i].peer, 28028))
			CHECK(!memcmp(&want, &asked.peer, sizeof(want)));
	}
}

T(a_list_of_sockets_that_does_not_end)
{
	static char text[512 << 10];
	size_t len = 0;

	begin();
	while (len < 300 << 10)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s", OTHERS);
	snprintf(text + len, sizeof(text) - len, "%s", LINE(LOOPBACK, "0A", "1000"));
	write_file("net/tcp", text);
	CHECK_EQ(tick(add_process(100, 1000, 3, (struct zn_job_ref){1, 5}), 0)->outcome, ZN_INQUIRY_FOREIGN);
	CHECK_EQ(questions, 0);
}

/* ---- What is asked, and when. ---- */

static void answer(enum zn_inquiry_outcome outcome)
{
	done.number = questions;
	done.outcome = outcome;
}

T(once_in_an_episode)
{
	const struct zn_proc *p;
	double now = 0;

	begin();
	p = add_process(100, 1000, 3, (struct zn_job_ref){1, 5});
	environment = NULL;
	CHECK_EQ(tick(p, now)->state, ZN_SUSPICION_RAISED);
	CHECK_EQ(tick(p, ++now)->state, ZN_SUSPICION_RAISED);
	environment = "";
	CHECK_EQ(tick(p, ++now)->state, ZN_SUSPICION_ASKED);
	CHECK_EQ(tick(p, ++now)->state, ZN_SUSPICION_ASKED);
	answer(ZN_INQUIRY_ANSWERED);
	CHECK_EQ(tick(p, ++now)->state, ZN_SUSPICION_OVER);
	for (int i = 0; i < 200; i++)
		CHECK_EQ(tick(p, ++now)->outcome, ZN_INQUIRY_ANSWERED);
	zn_suspicion_tick(&s, at(now + 10));
	CHECK(!zn_suspicion_of(&s, p->job));
	CHECK(tick(p, now += 50));
	CHECK_EQ(questions, 1);
	CHECK_EQ(tick(p, now += 61)->state, ZN_SUSPICION_ASKED);
	CHECK_EQ(questions, 2);
	CHECK_EQ(s.outcomes[ZN_INQUIRY_ANSWERED], 1);
}

T(the_environment_is_not_waited_for_forever)
{
	const struct zn_proc *p;

	begin();
	p = add_process(100, 1000, 3, (struct zn_job_ref){1, 5});
	environment = NULL;
	CHECK_EQ(tick(p, 0)->state, ZN_SUSPICION_RAISED);
	CHECK_EQ(tick(p, 6)->state, ZN_SUSPICION_ASKED);
	CHECK_STR(zn_suspicion_of(&s, p->job)->address, "localhost:28028");
}

T(a_courier_that_says_nothing)
{
	const struct zn_proc *p;

	begin();
	p = add_process(100, 1000, 3, (struct zn_job_ref){1, 5});
	tick(p, 0);
	CHECK_EQ(tick(p, 15)->state, ZN_SUSPICION_ASKED);
	CHECK_EQ(tick(p, 16)->outcome, ZN_INQUIRY_NO_ANSWER);
	begin();
	p = add_process(100, 1000, 3, (struct zn_job_ref){1, 5});
	tick(p, 0);
	sender.worker.fd = -1;
	CHECK_EQ(tick(p, 1)->outcome, ZN_INQUIRY_NO_ANSWER);
	answer(12345);
	begin();
	p = add_process(100, 1000, 3, (struct zn_job_ref){1, 5});
	tick(p, 0);
	answer(12345);
	CHECK_EQ(tick(p, 1)->outcome, ZN_INQUIRY_NO_ANSWER);
}

T(processes_by_the_ids_that_they_know_themselves_by)
{
	const struct zn_proc *p;

	begin();
	p = add_process(100, 1000, 3, (struct zn_job_ref){1, 5});
	add_process(101, 1000, 4, (struct zn_job_ref){1, 5});
	add_process(102, 1000, 5, (struct zn_job_ref){2, 6})->comms = 0;
	add_process(103, 1001, 6, (struct zn_job_ref){1, 5})->comms = 1;
	tick(p, 0);
	CHECK_EQ(asked.want.pid_count, 2);
	CHECK_EQ(asked.want.pid[0], 3);
	CHECK_EQ(asked.want.pid[1], 4);
	CHECK(asked.want.alone);
	begin();
	p = add_process(100, 1000, 3, (struct zn_job_ref){1, 5});
	add_process(102, 1000, 5, (struct zn_job_ref){2, 6})->comms = 1;
	tick(p, 0);
	CHECK(!asked.want.alone);
}

T(who_was_served_longest_ago_comes_first)
{
	const struct zn_proc *many[20], *one;
	unsigned before;

	begin();
	write_file("net/tcp", TABLE LINE(LOOPBACK, "0A", "1000"));
	for (uint32_t i = 0; i < ZN_LEN(many); i++)
		many[i] = add_process(100 + i, 1000, 3, (struct zn_job_ref){i, i + 1});
	one = add_process(99, 1001, 3, (struct zn_job_ref){50, 51});
	for (uint32_t i = 0; i < ZN_LEN(many); i++)
		zn_suspicion_raise(&s, many[i], at(0));
	zn_suspicion_tick(&s, at(0));
	CHECK_EQ(questions, 1);
	zn_suspicion_raise(&s, one, at(1));
	CHECK(zn_suspicion_of(&s, one->job));
	answer(ZN_INQUIRY_ANSWERED);
	zn_suspicion_tick(&s, at(1));
	before = questions;
	zn_suspicion_tick(&s, at(1.5)); /* it is of another user than who listens, which is seen at its turn */
	CHECK_EQ(questions, before);
	CHECK_EQ(zn_suspicion_of(&s, one->job)->outcome, ZN_INQUIRY_FOREIGN);
}

T(processes_of_no_job_are_told_apart_by_their_user)
{
	const struct zn_proc *a, *b;

	begin();
	a = add_process(100, 1000, 3, (struct zn_job_ref){0});
	b = add_process(101, 1001, 4, (struct zn_job_ref){0});
	zn_suspicion_raise(&s, b, at(0));
	zn_suspicion_raise(&s, a, at(0));
	CHECK_EQ(s.suspicion[0].owner, 1001);
	CHECK_EQ(s.suspicion[1].owner, 1000);
	tick(a, 1);
	CHECK_EQ(s.suspicion[0].outcome, ZN_INQUIRY_FOREIGN);
	tick(a, 2);
	CHECK_EQ(asked.want.pid_count, 1);
}

/* ---- In words. ---- */

static struct zn_suspicion said = {.state = ZN_SUSPICION_OVER, .address = "localhost:28028"};

static const char *says(enum zn_inquiry_outcome outcome, bool answers)
{
	static char text[ZN_SUSPICION_TEXT];

	said.outcome = outcome;
	CHECK_EQ(zn_suspicion_says(&said, text), answers);
	return text;
}

T(words)
{
	struct zn_ras_comm *c = said.answer.comm;

	CHECK_STR(says(ZN_INQUIRY_NO_ANSWER, false), "NCCL's RAS service at localhost:28028: it does not answer");
	CHECK_STR(says(ZN_INQUIRY_ANSWERED, true), "nothing of this job");
	said.answer.text = true;
	CHECK_STR(says(ZN_INQUIRY_ANSWERED, true), "no rank of this job stands out");
	said.answer.count = 1;
	CHECK_STR(says(ZN_INQUIRY_ANSWERED, true), "no rank stands out: all have issued the same collectives");
	c[0] = (struct zn_ras_comm){.hash = 1, .odd = 1, .fewest = 1, .count = 1};
	c[0].rank[0] =
		(struct zn_ras_rank){.rank = 9, .pid = 4711, .state = ZN_RAS_BEHIND, .fewer = 3, .host = "10.0.0.7"};
	CHECK_STR(says(ZN_INQUIRY_ANSWERED, true),
		"rank 9 on host 10.0.0.7, process 4711, has issued 3 collectives fewer than the others");
	CHECK_STR(says(ZN_INQUIRY_TOO_LONG, true),
		"rank 9 on host 10.0.0.7, process 4711, has issued 3 collectives fewer than the others (its answer was cut short)");
	c[0].odd = 5;
	c[0].rank[0].fewer = 1;
	c[0].rank[0].host[0] = 0;
	CHECK_STR(says(ZN_INQUIRY_ANSWERED, true),
		"rank 9 has issued 1 collective fewer than the one farthest ahead; and 4 more ranks");
	c[1] = (struct zn_ras_comm){.hash = 2, .odd = 3, .count = 3};
	for (uint32_t i = 0; i < 3; i++)
		c[1].rank[i] = (struct zn_ras_rank){
			.rank = i, .pid = i, .state = i ? ZN_RAS_SILENT : ZN_RAS_DEAD, .host = "fe80::1"};
	said.answer.count = 2;
	CHECK_STR(says(ZN_INQUIRY_ANSWERED, true),
		"rank 0 on host fe80::1, process 0, is dead: it cannot be reached; rank 1 on host fe80::1, process 1, does not answer;"
		" and 1 more rank");
	c[1].hash = 0;
	c[0].rank[0].state = ZN_RAS_LEFT;
	c[0].odd = 1;
	CHECK_STR(says(ZN_INQUIRY_ANSWERED, true), "rank 9 has left the communicator");
	c[0].count = 0;
	c[1].rank[0].rank = c[1].rank[1].rank = ZN_UNKNOWN;
	c[1].rank[1].host[0] = 0;
	c[1].odd = 2;
	CHECK_STR(says(ZN_INQUIRY_ANSWERED, true),
		"a process on host fe80::1, process 0, is dead: it cannot be reached; a process does not answer");
	said.state = ZN_SUSPICION_ASKED;
	CHECK_STR(says(0, false), "NCCL's RAS service at localhost:28028 is asked");
	said.address[0] = 0;
	said.state = ZN_SUSPICION_RAISED;
	CHECK_STR(says(0, false), "NCCL's RAS service will be asked");
}

T(no_sentence_is_longer_than_its_place)
{
	struct zn_ras_comm *c = said.answer.comm;
	char text[ZN_SUSPICION_TEXT];

	memset(&said.answer, 0xff, sizeof(said.answer));
	said.answer.understood = said.answer.whole = said.answer.text = true;
	said.state = ZN_SUSPICION_OVER;
	zn_ras_answer_check(&said.answer);
	for (uint32_t i = 0; i < ZN_RAS_RANKS; i++) {
		c[0].rank[i].state = ZN_RAS_BEHIND;
		c[0].rank[i].rank = c[0].rank[i].pid = ZN_UNKNOWN - 1;
	}
	said.outcome = ZN_INQUIRY_TOO_LONG;
	CHECK(zn_suspicion_says(&said, text));
	CHECK(strstr(text, "cut short)"));
}

int main(void)
{
	char path[128];

	if (!mkdtemp(root))
		return 1;
	snprintf(path, sizeof(path), "%s/net", root);
	mkdir(path, 0700);
	check_places();
	RUN(a_list_of_sockets_that_does_not_end);
	RUN(once_in_an_episode);
	RUN(the_environment_is_not_waited_for_forever);
	RUN(a_courier_that_says_nothing);
	RUN(processes_by_the_ids_that_they_know_themselves_by);
	RUN(who_was_served_longest_ago_comes_first);
	RUN(processes_of_no_job_are_told_apart_by_their_user);
	RUN(words);
	RUN(no_sentence_is_longer_than_its_place);
	zn_memory_close(&memory);
	snprintf(path, sizeof(path), "rm -rf %s", root);
	return t_end() | system(path);
}
