/* SPDX-License-Identifier: GPL-2.0 */
/*
 * suspicion.c: jobs that seem to hang, and what the RAS service of their NCCL says of the ranks on other nodes. Each
 * question wakes all ranks of a job, so it is asked once per episode. One question is under way at a time; of several
 * jobs that of the owner who was served longest ago comes first.
 *
 * The service is a thread of the job's own process. Nothing is asked but what listens on this node, at the address
 * that the process's environment names or at NCCL's own, and only if the user who listens there is the one whose
 * process waits. So whatever a user makes listen there speaks of his own jobs alone.
 */
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"

#define SUSPICION_NS       (5 * ZN_NS_PER_S)  /* that ranks wait before anybody is asked */
#define SUSPICION_QUIET_NS (60 * ZN_NS_PER_S) /* without suspicion, after which the next one is another episode */
#define DEFAULT_ADDRESS    "localhost:28028"
#define STILL_NS           (3 * ZN_NS_PER_S) /* after which who was not suspected again is no longer */
#define ANSWER_NS          ((ZN_INQUIRY_PATIENCE_S + 5) * ZN_NS_PER_S) /* for the sender to say anything */
#define ENVIRONMENT_NS     (5 * ZN_NS_PER_S) /* that the environment of a process is waited for */
#define TABLE_BYTES        (256u << 10)      /* of the kernel's list of sockets: those that listen come first */

/* ---- This node. ---- */

/* They come and go: DHCP, an interface of InfiniBand that comes up late. */
static void read_hosts(struct zn_suspicions *s)
{
	int list[2];

	zn_inquiry_open_lists(list, s->proc);
	s->host_count = zn_inquiry_hosts(list, s->host);
	for (size_t i = 0; i < ZN_LEN(list); i++)
		if (list[i] >= 0)
			close(list[i]);
}

static bool is_own(const struct zn_suspicions *s, const char *host)
{
	for (uint32_t i = 0; i < s->host_count; i++)
		if (!strcmp(s->host[i], host))
			return true;
	return false;
}

void zn_suspicion_init(struct zn_suspicions *s, struct zn_agg *agg, struct zn_sender *sender, const char *proc)
{
	zn_pages_clear(s, sizeof(*s));
	s->agg = agg;
	s->sender = sender;
	s->proc = proc;
	s->on = sender->inquiry;
}

/* ---- Suspicion. ---- */

static struct zn_suspicion *find_job(struct zn_suspicions *s, struct zn_job_ref job, uint32_t owner)
{
	for (uint32_t i = 0; i < ZN_SUSPICIONS_MAX; i++) {
		struct zn_suspicion *x = &s->suspicion[i];

		if (x->state != ZN_SUSPICION_NONE && x->owner == owner && zn_job_ref_same(x->job, job))
			return x;
	}
	return NULL;
}

static uint32_t held_by(const struct zn_suspicions *s, uint32_t owner)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ZN_SUSPICIONS_MAX; i++)
		n += s->suspicion[i].state != ZN_SUSPICION_NONE && s->suspicion[i].owner == owner;
	return n;
}

/* A free place; else the oldest suspicion of the owner who has the most. A suspicion with a question under way
 * stays. NULL: there is none. */
static struct zn_suspicion *find_place(struct zn_suspicions *s)
{
	struct zn_suspicion *worst = NULL;
	uint32_t held = 0;

	for (uint32_t i = 0; i < ZN_SUSPICIONS_MAX; i++) {
		struct zn_suspicion *x = &s->suspicion[i];
		uint32_t n;

		if (x->state == ZN_SUSPICION_NONE)
			return x;
		n = held_by(s, x->owner);
		if (x->state == ZN_SUSPICION_ASKED || n < held || (n == held && worst && x->last_ns >= worst->last_ns))
			continue;
		worst = x;
		held = n;
	}
	return worst;
}

void zn_suspicion_raise(struct zn_suspicions *s, const struct zn_proc *p, uint64_t now_ns)
{
	struct zn_suspicion *x = s->on ? find_job(s, p->job, p->owner) : NULL;
	bool again = x && now_ns - x->last_ns <= SUSPICION_QUIET_NS;

	if (!s->on || (!x && !(x = find_place(s))))
		return;
	if (!again && x->state != ZN_SUSPICION_ASKED)
		*x = (struct zn_suspicion){
			.state = ZN_SUSPICION_RAISED, .job = p->job, .owner = p->owner, .since_ns = now_ns};
	x->row = (uint32_t)(p - s->agg->arena->procs);
	x->id = p->id;
	x->last_ns = now_ns;
}

/* A process of the job that is a member of the communicator whose ranks all wait. */
static const struct zn_proc *one_of_all(const struct zn_suspicions *s, uint64_t comm, const struct zn_cause_group *g)
{
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *k = zn_arena_skew(s->agg->arena, slot);

		for (uint32_t i = 0; k && k->hash == comm && i < ZN_SKEW_RANKS && i < k->members; i++) {
			const struct zn_skew_rank *r = &k->member[i];
			const struct zn_proc *p =
				r->id && r->row < ZN_PROCS_MAX ? zn_arena_proc(s->agg->arena, r->row) : NULL;

			if (p && p->id == r->id && p->job.serial == g->serial)
				return p;
		}
	}
	return NULL;
}

/* A process that waits for the missing rank. */
static const struct zn_proc *waiter_of(const struct zn_suspicions *s, const struct zn_missing *m)
{
	const struct zn_skew *k = zn_arena_skew(s->agg->arena, m->slot);

	for (uint32_t i = 0; k && i < ZN_SKEW_RANKS; i++) {
		const struct zn_skew_rank *r = &k->member[i];
		const struct zn_proc *p =
			m->waiters >> i & 1 && r->row < ZN_PROCS_MAX ? zn_arena_proc(s->agg->arena, r->row) : NULL;

		if (p && p->id == r->id)
			return p;
	}
	return NULL;
}

void zn_suspicion_hangs(struct zn_suspicions *s, const struct zn_causes *causes, uint64_t now_ns)
{
	for (uint32_t i = 0; s->on && i <= ZN_JOBS_MAX; i++) {
		const struct zn_cause_group *g = &causes->group[i];
		const struct zn_missing *m = &g->missing;
		const struct zn_all_wait *w = &g->all_wait;
		const struct zn_proc *p = NULL;

		if (!g->used)
			continue;
		if (m->waiters && now_ns - m->since_ns >= SUSPICION_NS)
			p = waiter_of(s, m);
		else if (w->here && w->here != w->nranks) /* else nobody is elsewhere */
			p = one_of_all(s, w->comm, g);
		if (p)
			zn_suspicion_raise(s, p, now_ns);
	}
}

/* ---- Which process has the RAS socket. ---- */

/* "host:port", "[v6]:port". Only addresses of this node are good, and names stand for none but localhost. */
static bool split_address(const struct zn_suspicions *s, const char *text, char host[ZN_RAS_HOST], uint16_t *port)
{
	const char *colon = strrchr(text, ':'), *begin = text + (*text == '[');
	size_t len = colon ? (size_t)(colon - begin) : 0;
	char *end;
	unsigned long n = colon ? strtoul(colon + 1, &end, 10) : 0;

	if (begin != text && len)
		len -= begin[len - 1] == ']';
	if (!len || len >= ZN_RAS_HOST || !n || n > UINT16_MAX || *end)
		return false;
	memcpy(host, begin, len);
	host[len] = 0;
	*port = (uint16_t)n;
	if (!strcmp(host, "0.0.0.0") || !strcmp(host, "::") || !strcmp(host, "localhost"))
		strcpy(host, *host == ':' ? "::1" : *host == '0' ? "127.0.0.1" : "localhost");
	return !strcmp(host, "localhost") || is_own(s, host);
}

/* ---- The question. ---- */

/* What /proc/PID/status says of a process: its user, whose sockets are the process's, and its ids, the innermost
 * one last. */
static uint32_t read_user(const struct zn_suspicions *s, uint32_t pid, uint32_t *inner)
{
	char path[ZN_TEXT_MAX], text[512];
	uint32_t uid = ZN_UNKNOWN;
	const char *last;

	snprintf(path, sizeof(path), "%s/%u/status", s->proc, pid);
	*inner = pid;
	if (zn_procfs_status(path, "Uid", text, sizeof(text)) > 0 && sscanf(text, "%*u\t%u", &uid) != 1)
		uid = ZN_UNKNOWN;
	if (zn_procfs_status(path, "NSpid", text, sizeof(text)) > 0) {
		last = strrchr(text, '\t');
		*inner = (uint32_t)strtoul(last ? last : text, NULL, 10);
	}
	return uid;
}

static void want_pid(struct zn_ras_wanted *w, uint32_t pid)
{
	if (w->pid_count < ZN_RAS_PIDS)
		w->pid[w->pid_count++] = pid;
}

/* The job's processes as NCCL calls them, the one that waits first; others of its owner that use NCCL may answer
 * as well. */
static uint32_t want_processes(struct zn_suspicions *s, const struct zn_suspicion *x, const struct zn_proc *first)
{
	struct zn_ras_wanted *w = &s->ask.want;
	uint32_t inner, uid = read_user(s, first->tgid, &inner);

	want_pid(w, inner);
	for (uint32_t i = 0; i < s->agg->row_count; i++) {
		const struct zn_proc *p = zn_arena_proc(s->agg->arena, s->agg->row[i]);

		if (!p || p == first || p->owner != x->owner)
			continue;
		w->alone &= zn_job_ref_same(p->job, x->job) || !p->comms;
		if (zn_job_ref_same(p->job, x->job) && w->pid_count < ZN_RAS_PIDS &&
			read_user(s, p->tgid, &inner) == uid)
			want_pid(w, inner);
	}
	return uid;
}

static void finish_suspicion(struct zn_suspicions *s, struct zn_suspicion *x, enum zn_inquiry_outcome outcome)
{
	x->state = ZN_SUSPICION_OVER;
	x->outcome = outcome;
	s->outcomes[outcome]++;
}

/* The outcome if nobody is to be asked there, else ZN_INQUIRY_COUNT, and the peer is in the question. */
static enum zn_inquiry_outcome choose_peer(struct zn_suspicions *s, const char *host, uint16_t port, uint32_t uid)
{
	bool local = !strcmp(host, "localhost"), there = false;
	const char *const hosts[] = {local ? "127.0.0.1" : host, "::1"};

	for (int i = 0; i < 1 + local && !there; i++) {
		uint32_t who;

		if (!zn_peer_read(&s->ask.peer, hosts[i], port))
			return ZN_INQUIRY_ELSEWHERE;
		who = zn_listening_user(&s->ask.peer.address.any, s->proc, TABLE_BYTES, &there);
		if (there && (who == ZN_UNKNOWN || who != uid))
			return ZN_INQUIRY_FOREIGN;
	}
	return there ? ZN_INQUIRY_COUNT : ZN_INQUIRY_NOBODY;
}

static void ask_process(struct zn_suspicions *s, struct zn_suspicion *x, const struct zn_proc *p, uint64_t now_ns)
{
	enum zn_inquiry_outcome outcome = ZN_INQUIRY_ELSEWHERE;
	char host[ZN_RAS_HOST];
	uint32_t uid;
	uint16_t port;

	x->asked_ns = now_ns;
	memset(&s->ask, 0, sizeof(s->ask));
	s->ask.want.alone = true;
	uid = want_processes(s, x, p);
	read_hosts(s);
	if (split_address(s, x->address, host, &port))
		outcome = choose_peer(s, host, port, uid);
	if (outcome == ZN_INQUIRY_COUNT && !(x->number = s->send(s->sender, &s->ask)))
		outcome = ZN_INQUIRY_NO_ANSWER;
	if (outcome == ZN_INQUIRY_COUNT)
		x->state = ZN_SUSPICION_ASKED;
	else
		finish_suspicion(s, x, outcome);
}

/* ---- The tick. ---- */

static bool still_holds(const struct zn_suspicion *x, uint64_t now_ns)
{
	return x->state != ZN_SUSPICION_NONE && now_ns <= x->last_ns + STILL_NS;
}

/* An answer that is not there yet may still come. */
static void take_answer(struct zn_suspicions *s, struct zn_suspicion *x, uint64_t now_ns)
{
	const struct zn_inquiry_done *d = s->sender->inquiry;

	if (__atomic_load_n(&d->number, __ATOMIC_ACQUIRE) == x->number) {
		x->answer = d->answer;
		zn_ras_answer_check(&x->answer);
		x->bytes = d->bytes;
		finish_suspicion(s, x, d->outcome < ZN_INQUIRY_COUNT ? d->outcome : ZN_INQUIRY_NO_ANSWER);
	} else if (now_ns - x->asked_ns > ANSWER_NS || s->sender->worker.fd < 0) {
		finish_suspicion(s, x, ZN_INQUIRY_NO_ANSWER);
	}
}

static uint64_t served_ns(const struct zn_suspicions *s, uint32_t owner)
{
	uint64_t newest = 0;

	for (uint32_t i = 0; i < ZN_SUSPICIONS_MAX; i++)
		if (s->suspicion[i].owner == owner && s->suspicion[i].asked_ns > newest)
			newest = s->suspicion[i].asked_ns;
	return newest;
}

/* The waiting suspicion whose owner was served longest ago. NULL: none waits. */
static struct zn_suspicion *next_one(struct zn_suspicions *s, uint64_t now_ns)
{
	struct zn_suspicion *best = NULL;
	uint64_t best_ns = 0;

	for (uint32_t i = 0; i < ZN_SUSPICIONS_MAX; i++) {
		struct zn_suspicion *x = &s->suspicion[i];
		uint64_t ns;

		if (x->state != ZN_SUSPICION_RAISED || !still_holds(x, now_ns))
			continue;
		ns = served_ns(s, x->owner);
		if (best && (ns > best_ns || (ns == best_ns && x->since_ns >= best->since_ns)))
			continue;
		best = x;
		best_ns = ns;
	}
	return best;
}

/* False: the process's environment is not known yet. */
static bool read_address(struct zn_suspicions *s, struct zn_suspicion *x, const struct zn_proc *p, uint64_t now_ns)
{
	struct zn_process_info process_info = {.id = 0};
	bool known = s->agg->process_info && s->agg->process_info(s->agg->owner, p, &process_info);

	if (!known && s->agg->process_info && now_ns - x->since_ns < ENVIRONMENT_NS)
		return false;
	snprintf(x->address, sizeof(x->address), "%s",
		known && process_info.slurm.ras[0] ? process_info.slurm.ras : DEFAULT_ADDRESS);
	for (char *c = x->address; *c; c++) /* a user's text, which is shown */
		if (*c <= ' ' || *c >= 0x7f || *c == '"' || *c == '\\')
			*c = '?';
	return true;
}

void zn_suspicion_tick(struct zn_suspicions *s, uint64_t now_ns)
{
	struct zn_suspicion *x;
	const struct zn_proc *p;

	s->tick_ns = now_ns;
	if (!s->on)
		return;
	for (uint32_t i = 0; i < ZN_SUSPICIONS_MAX; i++)
		if (s->suspicion[i].state == ZN_SUSPICION_ASKED) {
			take_answer(s, &s->suspicion[i], now_ns);
			return;
		}
	x = next_one(s, now_ns);
	p = x ? zn_arena_proc(s->agg->arena, x->row) : NULL;
	if (p && p->id == x->id && read_address(s, x, p, now_ns))
		ask_process(s, x, p, now_ns);
}

const struct zn_suspicion *zn_suspicion_of(const struct zn_suspicions *s, struct zn_job_ref job)
{
	const struct zn_suspicion *newest = NULL;

	for (uint32_t i = 0; s && i < ZN_SUSPICIONS_MAX; i++) {
		const struct zn_suspicion *x = &s->suspicion[i];

		if (still_holds(x, s->tick_ns) && zn_job_ref_same(x->job, job) &&
			(!newest || x->last_ns > newest->last_ns))
			newest = x;
	}
	return newest;
}

/* ---- In words. ---- */

static void say_rank(struct zn_out *o, const struct zn_ras_comm *c, const struct zn_ras_rank *r)
{
	bool process = r->rank == ZN_UNKNOWN;

	if (!process) {
		zn_out_text(o, "rank ");
		zn_out_u64(o, r->rank);
	}
	if (r->host[0]) {
		zn_out_text(o, process ? "a process on host " : " on host ");
		zn_out_text(o, r->host);
		zn_out_text(o, ", process ");
		zn_out_u64(o, r->pid);
		zn_out_text(o, ",");
	} else if (process) {
		zn_out_text(o, "a process");
	}
	if (r->state == ZN_RAS_BEHIND) {
		zn_out_text(o, " has issued ");
		zn_out_u64(o, r->fewer);
		zn_out_text(o, r->fewer == 1 ? " collective fewer than " : " collectives fewer than ");
		zn_out_text(o, c->odd == c->fewest ? "the others" : "the one farthest ahead");
	} else {
		zn_out_text(o,
			r->state == ZN_RAS_DEAD             ? " is dead: it cannot be reached"
				: r->state == ZN_RAS_SILENT ? " does not answer"
							    : " has left the communicator");
	}
}

#define SAID_MAX 2 /* ranks that are named */

/* The communicator of which there is the most to say: a rank that is dead before one that is behind, and ranks
 * before processes. */
static const struct zn_ras_comm *first_comm(const struct zn_ras_answer *a)
{
	const struct zn_ras_comm *best = NULL;

	for (uint32_t i = 0; i < a->count; i++) {
		const struct zn_ras_comm *c = &a->comm[i];

		if (!c->count)
			continue;
		if (!best || (!best->hash && c->hash) ||
			(!best->hash == !c->hash && c->rank[0].state < best->rank[0].state))
			best = c;
	}
	return best;
}

static void say_answer(struct zn_out *o, const struct zn_ras_answer *a)
{
	const struct zn_ras_comm *c = first_comm(a);
	uint32_t said = 0;

	for (; c && said < SAID_MAX && said < c->count; said++) {
		zn_out_text(o, said ? "; " : "");
		say_rank(o, c, &c->rank[said]);
	}
	if (c && c->odd > said) {
		zn_out_text(o, "; and ");
		zn_out_u64(o, c->odd - said);
		zn_out_text(o, c->odd - said == 1 ? " more rank" : " more ranks");
	}
	if (!c && a->count)
		zn_out_text(o, "no rank stands out: all have issued the same collectives");
	else if (!c)
		zn_out_text(o, a->text ? "no rank of this job stands out" : "nothing of this job");
}

static const char *const outcomes[ZN_INQUIRY_COUNT] = {
	[ZN_INQUIRY_TOO_LONG] = "its answer is too long",
	[ZN_INQUIRY_NOT_UNDERSTOOD] = "its answer is not understood",
	[ZN_INQUIRY_NO_ANSWER] = "it does not answer",
	[ZN_INQUIRY_NOBODY] =
		"nobody listens there: NCCL is older than 2.24, or its RAS is off or in another network namespace",
	[ZN_INQUIRY_FOREIGN] = "who listens there is not known to be the user of the job, so nobody was asked",
	[ZN_INQUIRY_ELSEWHERE] = "that is no address of this node, so nobody was asked",
};

/* An answer that was cut short still has whole communicators, which are kept. */
bool zn_suspicion_says(const struct zn_suspicion *s, char to[ZN_SUSPICION_TEXT])
{
	struct zn_out o = {.at = to, .cap = ZN_SUSPICION_TEXT - 1};
	bool over = s->state == ZN_SUSPICION_OVER, cut = over && s->outcome != ZN_INQUIRY_ANSWERED,
	     says = over && s->outcome < ZN_INQUIRY_NOT_UNDERSTOOD && (!cut || s->answer.count);

	if (says) {
		say_answer(&o, &s->answer);
		zn_out_text(&o, cut ? " (its answer was cut short)" : "");
	} else {
		zn_out_text(&o, "NCCL's RAS service");
		if (s->address[0])
			zn_out_text(&o, " at ");
		zn_out_text(&o, s->address);
		zn_out_text(&o, over ? ": " : s->state == ZN_SUSPICION_ASKED ? " is asked" : " will be asked");
		if (over)
			zn_out_text(&o, outcomes[s->outcome] ? outcomes[s->outcome] : "its answer was cut short");
	}
	to[o.len] = 0;
	return says;
}
