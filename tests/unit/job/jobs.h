/* SPDX-License-Identifier: GPL-2.0 */
/*
 * jobs.h: a node with jobs (job_node.h) for the tests of this folder. Control groups and the control socket are made
 * up here.
 */
#ifndef JOBS_H
#define JOBS_H

#define BOOT_MS 1700000000000ULL /* wall clock when the node was started */

#include "job_node.h"

#define GIB (1ULL << 30)
#define PID 4242

static char why[ZN_TEXT_MAX];

/* ---- In place of cgroup.c and control.c. ---- */

static int tag_result;

int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char text[ZN_TEXT_MAX])
{
	struct zn_cgroup_key key = {.id = strlen(path)};

	if (tag_result) {
		snprintf(text, ZN_TEXT_MAX, "no %s", path);
		return tag_result;
	}
	return a->ops->job_cgroup(a, slot, &key, ZN_CGROUP_JOB, NULL);
}

/* ---- A node. ---- */

static struct {
	uint32_t started, ended;
	char id[ZN_JOB_NAME]; /* that ended last */
	uint32_t restart;
	uint64_t launches; /* of it, then */
} told;

static inline void on_started(void *owner, const struct zn_job *job)
{
	(void)job;
	CHECK(owner == &told);
	told.started++;
}

static inline void on_ended(void *owner, struct zn_job *job)
{
	CHECK(owner == &told);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	told.ended++;
	strcpy(told.id, job->id);
	told.restart = job->restart;
	told.launches = zn_job_counts(&jobs, job)[ZN_C_LAUNCH_KERNEL];
}

static inline void start(void)
{
	open_node();
	memset(&told, 0, sizeof(told));
	jobs.started = on_started;
	jobs.ended = on_ended;
	jobs.owner = &told;
	tag_result = 0;
}

static inline void tick(void)
{
	pass_ms(0);
}

static inline void pass(uint64_t s)
{
	for (; s; s--)
		pass_ms(1000);
}

/* "id=4711 uid=1000": values have no spaces. */
static inline const struct zn_message *say(const char *text)
{
	static const char *const keys[] = {
#define X(e, key, variable) key,
		ZN_KEYS(X)
#undef X
	};

	memset(&message, 0, sizeof(message));
	while (*text) {
		size_t name = strcspn(text, "="), value = strcspn(text + name + 1, " ");

		for (size_t k = 0; k < ZN_KEY_COUNT; k++)
			if (strlen(keys[k]) == name && !strncmp(keys[k], text, name))
				memcpy(message.value[k], text + name + 1, value);
		text += name + 1 + value;
		text += *text == ' ';
	}
	return &message;
}

static inline struct zn_job *prolog(const char *text)
{
	CHECK_EQ(zn_jobs_start(&jobs, say(text), ZN_JOB_BY_PROLOG, why), 0);
	return zn_jobs_find(&jobs, message.value[ZN_KEY_ID], ZN_UNKNOWN);
}

static inline void epilog(const char *text)
{
	CHECK_EQ(zn_jobs_end(&jobs, say(text), why), 0);
}

/* Root makes a job's control group: what the kernel's programs do then. Its slot. */
static inline uint32_t group(const char *name, uint64_t id)
{
	char padded[ZN_JOB_NAME] = "";
	struct zn_cgroup_key key = {.id = id};
	int slot;

	strncpy(padded, name, sizeof(padded) - 1);
	slot = memory.arena.ops->job_claim(&memory.arena, padded);
	if (slot < 0 || memory.arena.ops->job_cgroup(&memory.arena, slot, &key, ZN_CGROUP_JOB, NULL))
		abort();
	return slot;
}

static inline void group_gone(uint64_t id)
{
	memory.arena.ops->job_cgroup_gone(&memory.arena, &(struct zn_cgroup_key){.id = id});
}

static inline void launch(struct zn_proc *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		zn_memory_record(&memory, p, ZN_H_LAUNCH, 5000, 0);
	p->count[ZN_C_LAUNCH_KERNEL] += n;
	p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_OTHER)] += n;
}

static inline void hold(struct zn_proc *p, uint32_t ordinal, uint64_t bytes)
{
	p->gpu[ordinal].used_bytes = bytes;
	if (bytes > p->gpu[ordinal].peak_bytes)
		p->gpu[ordinal].peak_bytes = bytes;
	p->gpu[ordinal].uuid[0] = (uint8_t)(ordinal + 1);
}

static inline const struct zn_job_gpu *gpu(const struct zn_job *job, const char *id)
{
	static const struct zn_job_gpu none;

	for (uint32_t i = 0; i < job->gpu_count; i++)
		if (!strcmp(job->gpu[i].id, id))
			return &job->gpu[i];
	return &none;
}

static inline enum zn_job_state state_of(const char *id)
{
	const struct zn_job *job = zn_jobs_find(&jobs, id, ZN_UNKNOWN);

	return job ? job->state : ZN_JOB_FREE;
}

static inline uint32_t job_count(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ZN_JOBS_MAX; i++)
		n += jobs.job[i].state != ZN_JOB_FREE;
	return n;
}

#endif
