/* SPDX-License-Identifier: GPL-2.0 */
/* fabric_test.c: what ports carried is a job's where it was alone between two looks, and nobody's else. */
#include "zernel.h"
#include "t.h"

#define S ZN_NS_PER_S

static struct zn_ports ports;
static struct zn_jobs jobs;
static struct zn_fabric fabric;
static uint64_t now, carried;

static void begin(void)
{
	ports = (struct zn_ports){0};
	jobs.high = 0;
	fabric = (struct zn_fabric){0};
	zn_fabric_init(&fabric, &ports, &jobs);
	now = 100 * S;
	carried = 1000;
}

/* Ten seconds in which so many words were sent. */
static void read_ports(uint64_t words)
{
	struct zn_port_reading r = {.device = "mlx5_0", .port = 1, .known = 1ULL << ZN_PORT_COUNTER_SENT};

	now += 10 * S;
	carried += words;
	r.value[ZN_PORT_COUNTER_SENT] = carried;
	zn_ports_take(&ports, &r, 1, 0, now);
}

static void look(uint64_t words)
{
	read_ports(words);
	zn_fabric_tick(&fabric);
	zn_fabric_tick(&fabric); /* it is counted once */
}

static struct zn_job *start_job(uint32_t slot)
{
	jobs.high = jobs.high > slot ? jobs.high : slot + 1;
	jobs.job[slot] =
		(struct zn_job){.state = ZN_JOB_RUNNING, .slot = slot, .serial = slot + 7, .start_ns = now + S};
	return &jobs.job[slot];
}

static void end_job(struct zn_job *job)
{
	job->state = ZN_JOB_ENDED;
	job->end_ns = now + S;
}

static uint64_t sent_of(const struct zn_job *job)
{
	const struct zn_job_fabric *of = zn_fabric_of(&fabric, job);

	return of ? of->sum[0] : ZN_NOT_KNOWN;
}

T(a_job_alone)
{
	struct zn_job *job;

	begin();
	look(1);
	job = start_job(0);
	look(10); /* it began within */
	CHECK_EQ(sent_of(job), ZN_NOT_KNOWN);
	look(100);
	look(1000);
	CHECK_EQ(sent_of(job), 4400);
	CHECK_EQ(zn_fabric_of(&fabric, job)->known, 1); /* the port counts neither what it receives nor errors */
	end_job(job);
	look(10000); /* it ended within */
	look(100000);
	CHECK_EQ(sent_of(job), 4400);
	job->serial++; /* the next one in its place */
	CHECK_EQ(sent_of(job), ZN_NOT_KNOWN);
	CHECK(!zn_fabric_of(NULL, job));
}

T(two_jobs)
{
	struct zn_job *a, *b;

	begin();
	a = start_job(0);
	look(1);
	look(1);
	look(10);
	b = start_job(1);
	look(100); /* b began within */
	look(1000);
	end_job(b);
	look(10000); /* b ended within, also where nothing is left of it but its record */
	CHECK_EQ(sent_of(a), 44);
	look(100000);
	CHECK_EQ(sent_of(a), 400044);
	CHECK_EQ(sent_of(b), ZN_NOT_KNOWN);
}

/* One that came and went between two looks. */
T(a_job_of_a_moment)
{
	struct zn_job *a, *b;

	begin();
	a = start_job(0);
	look(1);
	look(1);
	b = start_job(1);
	end_job(b);
	b->end_ns += S;
	look(10);
	CHECK_EQ(sent_of(a), 4);
	look(100);
	CHECK_EQ(sent_of(a), 404);
}

/* What was read while the first one ran is not the second one's, who has begun when the daemon hears of it. */
T(a_job_that_begins_before_the_tick)
{
	struct zn_job *a, *b;

	begin();
	a = start_job(0);
	look(1);
	look(1);
	read_ports(10);
	end_job(a);
	b = start_job(1);
	zn_fabric_tick(&fabric);
	CHECK_EQ(sent_of(a), 44);
	look(100);
	CHECK_EQ(sent_of(b), ZN_NOT_KNOWN);
	look(1000);
	CHECK_EQ(sent_of(b), 4000);
}

T(more_ports_than_there_is_room_for)
{
	struct zn_job *job;

	begin();
	job = start_job(0);
	look(1);
	look(1);
	read_ports(10);
	ports.beyond = 1;
	zn_fabric_tick(&fabric);
	CHECK_EQ(sent_of(job), 4);
}

T(no_ports)
{
	begin();
	start_job(0);
	zn_fabric_tick(&fabric);
	zn_fabric_tick(&fabric);
	CHECK_EQ(sent_of(&jobs.job[0]), ZN_NOT_KNOWN);
}

int main(void)
{
	RUN(a_job_alone);
	RUN(two_jobs);
	RUN(a_job_of_a_moment);
	RUN(a_job_that_begins_before_the_tick);
	RUN(more_ports_than_there_is_room_for);
	RUN(no_ports);
	return t_end();
}
