/* SPDX-License-Identifier: GPL-2.0 */
/*
 * failed_json.c: calls of CUDA and HIP, and system calls on devices of RDMA, that failed: as JSON of a process, of a
 * job and of its report. Whom nothing failed of has no such member.
 */
#include "zernel.h"

static void put_name(struct zn_json *j, uint32_t key)
{
	char name[ZN_FAILED_NAME];

	zn_failed_name(key, name);
	zn_json_key_text(j, "error", name);
}

static void put_call(struct zn_json *j, uint32_t key)
{
	const char *call = zn_hooks_call(ZN_FAILED_CALL(key));

	if (call)
		zn_json_key_text(j, "call", call);
	else
		zn_json_key_null(j, "call");
}

static void put_age(struct zn_json *j, const char *key, uint64_t ns)
{
	uint64_t now_ns = zn_now_ns();

	zn_json_key_scaled(j, key, now_ns > ns ? now_ns - ns : 0, 9);
}

static void put_results(struct zn_json *j, const struct zn_failed *f, uint64_t all)
{
	struct zn_failed_result result[ZN_FAILED_RESULTS];
	uint32_t count = zn_failed_results(f, all, result);

	zn_json_key_open(j, "errors", '[');
	for (uint32_t i = 0; i < count; i++) {
		zn_json_open(j, '{');
		put_name(j, result[i].key);
		zn_json_key_u64(j, "count", result[i].count);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void put_calls(struct zn_json *j, const struct zn_failed *f)
{
	zn_json_key_open(j, "calls", '[');
	for (uint32_t i = 0; i < ZN_FAILED_CUDA && i < ZN_FAILED_PAIRS; i++) {
		if (!f->key[i])
			continue;
		zn_json_open(j, '{');
		put_call(j, f->key[i]);
		put_name(j, f->key[i]);
		zn_json_key_u64(j, "count", f->count[i]);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void put_rdma(struct zn_json *j, const struct zn_failed *f, uint64_t all)
{
	if (!all)
		return;
	zn_json_key_open(j, "rdma_errors", '{');
	zn_json_key_u64(j, "count", all);
	zn_json_key_text(j, "call", zn_rdma_call(f->rdma_last));
	zn_json_key_text(j, "errno", zn_rdma_error(f->rdma_last));
	put_age(j, "last_age_s", f->rdma_ns);
	zn_json_key_open(j, "calls", '[');
	for (uint32_t i = 0; i < ZN_FAILED_RDMA && f->rdma_key[i]; i++) {
		zn_json_open(j, '{');
		zn_json_key_text(j, "call", zn_rdma_call(f->rdma_key[i]));
		zn_json_key_text(j, "errno", zn_rdma_error(f->rdma_key[i]));
		zn_json_key_u64(j, "count", f->rdma_count[i]);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
	zn_json_close(j, '}');
}

static void put_last(struct zn_json *j, const struct zn_failed_call *last)
{
	put_name(j, last->key);
	put_call(j, last->key);
	zn_json_key(j, "context_lost");
	zn_json_bool(j, zn_failed_is_fatal(last->key));
	put_age(j, "age_s", last->since_ns);
	put_age(j, "last_age_s", last->last_ns);
}

void zn_failed_json(struct zn_json *j, const struct zn_state *state, uint32_t row, const struct zn_proc *p)
{
	uint64_t cuda = p->count[ZN_C_CUDA_ERRORS], rdma = p->count[ZN_C_RDMA_ERRORS];
	const struct zn_failed *f = zn_failed_of(state->agg->arena, row, p);
	struct zn_failed_call last;

	if (!f)
		return;
	if (cuda && zn_failed_last(f, p, &last)) {
		zn_json_key_open(j, "cuda_errors", '{');
		zn_json_key_u64(j, "count", cuda);
		put_last(j, &last);
		put_results(j, f, cuda);
		put_calls(j, f);
		zn_json_close(j, '}');
	}
	put_rdma(j, f, rdma);
}

/* Who had which error first, where it came, and that no context survives it. */
static void put_says(struct zn_json *j, const struct zn_failed_call *c)
{
	const char *call = zn_hooks_call(ZN_FAILED_CALL(c->key));
	char says[ZN_FAILED_SAYS], name[ZN_FAILED_NAME];
	struct zn_out o = {.at = says, .cap = sizeof(says)};

	zn_failed_name(c->key, name);
	zn_out_text(&o, name);
	zn_out_text(&o, call ? " in " : "");
	zn_out_text(&o, call ? call : "");
	zn_out_text(&o, " of process ");
	zn_out_u64(&o, c->pid);
	if (c->comm[0]) {
		zn_out_text(&o, " (");
		zn_out_text(&o, c->comm);
		zn_out_char(&o, ')');
	}
	zn_out_text(&o, zn_failed_is_fatal(c->key) ? ": its context is lost" : "");
	zn_json_key(j, "says");
	zn_json_bytes(j, says, o.len);
}

void zn_failed_json_job(struct zn_json *j, const struct zn_state *state, const struct zn_job *job)
{
	struct zn_job_failed failed;
	const struct zn_failed_call *first = &failed.first;

	if (!state->jobs)
		return;
	zn_job_failed(state->jobs, job, state->agg->row, state->agg->row_count, &failed);
	if (failed.cuda) {
		zn_json_key_open(j, "cuda_errors", '{');
		zn_json_key_u64(j, "count", failed.cuda);
		if (first->key) {
			zn_json_key_u64(j, "pid", first->pid);
			put_name(j, first->key);
			put_call(j, first->key);
			zn_json_key_u64(j, "at_ms", zn_state_wall_ms(state, first->since_ns));
			put_says(j, first);
		}
		put_results(j, &failed.sum, failed.cuda);
		zn_json_close(j, '}');
	}
	put_rdma(j, &failed.sum, failed.rdma);
}
