/* SPDX-License-Identifier: GPL-2.0 */
/*
 * findings.c: what is wrong with a job beside the time it loses: alerts that fire and are about it, one of its
 * processes, a GPU it uses, or the node; with what to do next.
 */
#include "zernel.h"
#include <stdlib.h>
#include <string.h>

/* Rules that a cause of lost time expresses better, and a rule about the daemon itself. */
static const char *const causes[] = {
	"data_starvation", "stalled_on_data", "nccl_straggler", "nccl_hang", "events_lost"};

static const struct {
	const char *alert, *next, *metric;
} rows[] = {
	{"oom_kill", "give the job more memory, or use less: fewer workers, smaller prefetch",
		"zernel_oom_kills_total"},
	{"host_memory_growing",
		"ask for more memory, or see what grows: lists of losses, caches of workers, prefetch; checkpoint before it ends",
		"zernel_job_memory_needed_ratio"},
	{"gpu_xid", "look the XID up in NVIDIA's list; drain the node if it comes again",
		"zernel_gpu_xid_errors_total"},
	{"gpu_amdgpu",
		"look at the kernel's log (dmesg); a page fault is a bug of the program; drain the node if others come again",
		"zernel_gpu_amdgpu_errors_total"},
	{"cuda_context_lost",
		"run it with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to find the kernel; look for XIDs if it did not change",
		"zernel_job_cuda_errors_total"},
	{"gpu_hardware_errors",
		"drain the node and reset the GPU: what the job computed with it may be wrong; docs/HARDWARE.md",
		"zernel_gpu_ecc_errors_total"},
	{"gpu_lost", "drain the node; see the kernel's log (dmesg), reset the GPU, or power the node off and on",
		"zernel_gpu_lost"},
	{"gpu_throttled", "look at fans, air and the power supply; the job runs at the speed of this GPU",
		"zernel_gpu_throttled_seconds_total"},
	{"gpu_link_narrow", "reseat the GPU or its riser; copies to it take longer meanwhile",
		"zernel_gpu_pcie_link_width_ratio"},
	{"gpu_driver_not_answering", "look at the kernel's log (dmesg); drain the node: a driver hangs",
		"zernel_hardware_blocked_seconds"},
	{"gpu_ghost", "see who they are: zernel ghosts; end them, or let the epilog do it", "zernel_ghost_processes"},
	{"driver_unresponsive",
		"see where it sleeps: cat /proc/PID/task/*/wchan; in the driver: look at dmesg, drain the node",
		"zernel_gpu_driver_stuck_seconds"},
	{"process_blocked",
		"see where it sleeps: cat /proc/PID/task/*/wchan; look at the kernel's log (dmesg) and at its mounts",
		"zernel_process_blocked_seconds"},
	{"gpu_allocation_failed", "use smaller batches, activation checkpointing, or expandable_segments:True",
		"zernel_gpu_alloc_failures_total"},
	{"gpu_oom_warning", "use smaller batches or shard more before an allocation fails",
		"zernel_gpu_memory_used_ratio"},
	{"gpu_memory_growing",
		"look for tensors that are kept from step to step, such as losses without .item() or .detach()",
		"zernel_gpu_memory_used_ratio"},
	{"job_stalled", "look at what its processes do: zernel why PID, py-spy dump --pid PID",
		"zernel_job_progress_age_seconds"},
	{"gpu_idle", "give it back, or see why the program does not use it (CUDA_VISIBLE_DEVICES)",
		"zernel_job_gpu_idle_seconds_total"},
	{"gpu_nearly_idle", "see what the program does between its launches: zernel why PID; a smaller GPU may do",
		"zernel_job_gpu_idle_seconds_total"},
	{"driver_contention",
		"let fewer processes share the node's GPUs, or use MPS; allocate memory once, not in each step",
		"zernel_gpu_ioctl_contention_ratio"},
	{"tcp_retransmits", "look for lost packets: links, switches, congestion (ethtool -S, ss -ti)",
		"zernel_tcp_retransmits_total"},
	{"launch_latency_unusual", "see what else runs on its CPUs, and whether clocks or power were changed",
		"zernel_cuda_launch_latency_seconds"},
	{"probe_overhead", "leave out families of probes that are not needed: --probes", "zernel_overhead_ratio"},
};

static bool is_cause(const char *rule)
{
	for (size_t i = 0; i < ZN_LEN(causes); i++)
		if (!strcmp(rule, causes[i]))
			return true;
	return false;
}

/* The row of a rule that has none is behind all others. */
static size_t row_of(const char *rule)
{
	size_t i = 0;

	while (i < ZN_LEN(rows) && strcmp(rows[i].alert, rule))
		i++;
	return i;
}

/* ---- What an alert is about. ---- */

/* A server need not call a hooked library: its job is that of its engine, or its own. */
static bool has_server(const struct zn_finding_of *of, uint32_t pid)
{
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++) {
		const struct zn_server *s = zn_server_at(of->agg->arena, i);
		struct zn_job_ref job = s ? zn_slowness_job(of->agg->arena, s) : (struct zn_job_ref){0};

		if (s && s->tgid == pid)
			return job.serial == of->job.serial && (!job.serial || job.slot == of->job.slot);
	}
	return false;
}

static bool has_process(const struct zn_finding_of *of, uint32_t tgid)
{
	for (uint32_t i = 0; i < of->agg->row_count; i++) {
		const struct zn_proc *p = zn_arena_proc_of(of->agg->arena, of->agg->row[i], of->job);

		if (p && p->tgid == tgid)
			return true;
	}
	return has_server(of, tgid);
}

static bool is_gpu(const struct zn_gpu *g, const char *id, const char *pci)
{
	return (*id && !strcmp(g->id, id)) || (*pci && !strcmp(g->pci, pci));
}

static bool uses_gpu(const struct zn_finding_of *of, const char *id, const char *pci)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];

	for (uint32_t i = 0; i < of->agg->row_count; i++) {
		uint32_t row = of->agg->row[i];
		size_t n = zn_arena_proc_of(of->agg->arena, row, of->job) ? zn_agg_shares(of->agg, row, share) : 0;

		while (n)
			if (is_gpu(&of->agg->gpus.gpu[share[--n].gpu], id, pci))
				return true;
	}
	return false;
}

/* What such a rule watches is a job's, or of processes of none. */
static bool is_of_jobs(const char *rule)
{
	return !strcmp(rule, "oom_kill") || !strcmp(rule, "cuda_context_lost");
}

/* An alert with none of these labels is about the node, and so about every job on it. */
bool zn_finding_concerns(const struct zn_finding_of *of, const struct zn_alert *a)
{
	const char *job = zn_alert_label(a, "job_id"), *pid = zn_alert_label(a, "pid");
	const char *id = zn_alert_label(a, "gpu_id"), *pci = zn_alert_label(a, "pci");

	if (*job)
		return !strcmp(job, of->job_id);
	if (*pid)
		return has_process(of, (uint32_t)strtoul(pid, NULL, 10));
	if (*id || *pci)
		return uses_gpu(of, id, pci);
	return !a->summed && (!of->job.serial || !is_of_jobs(a->rule->name));
}

/* ---- The list. ---- */

static bool comes_before(const struct zn_finding *a, const struct zn_finding *b)
{
	return a->critical != b->critical ? a->critical : row_of(a->rule) < row_of(b->rule);
}

/* Of a rule that fires for many one is said, the first that is critical if any is, and how many more there are. False:
 * it is to be f, and no other one is there. */
static bool is_said(struct zn_finding to[ZN_FINDINGS_MAX], size_t *count, struct zn_finding *f)
{
	size_t i = 0;

	while (i < *count && strcmp(to[i].rule, f->rule))
		i++;
	if (i == *count)
		return false;
	if (!comes_before(f, &to[i])) {
		to[i].more++;
		return true;
	}
	f->more = to[i].more + 1;
	memmove(&to[i], &to[i + 1], (--*count - i) * sizeof(*to));
	return false;
}

static void insert_finding(struct zn_finding to[ZN_FINDINGS_MAX], size_t *count, struct zn_finding *f)
{
	size_t at;

	if (is_said(to, count, f))
		return;
	at = *count;
	if (at == ZN_FINDINGS_MAX && !comes_before(f, &to[at - 1]))
		return;
	if (at < ZN_FINDINGS_MAX)
		++*count;
	else
		at--;
	for (; at && comes_before(f, &to[at - 1]); at--)
		to[at] = to[at - 1];
	to[at] = *f;
}

/* The last process that was killed, in place of how many were. */
static bool say_kill(struct zn_finding *f, const struct zn_finding_of *of)
{
	const struct zn_oom_kill *k =
		of->ooms && !strcmp(f->rule, "oom_kill") ? zn_oom_kill(of->ooms, of->job, 0) : NULL;

	if (k)
		zn_oom_says(k, f->says);
	return k;
}

/* What the number of an error of a GPU means, and what to do about it. */
static void say_xid(struct zn_finding *f, const struct zn_alert *a)
{
	const struct zn_xid_about *about = strcmp(f->rule, "gpu_xid")
		? NULL
		: zn_xid_about((uint32_t)strtoul(zn_alert_label(a, "xid"), NULL, 10), *zn_alert_label(a, "nonfatal"));

	if (!about)
		return;
	f->next = about->next;
	f->critical |= !strcmp(about->severity, "critical");
	snprintf(f->says, sizeof(f->says), "XID %u of the GPU at %.16s: %s", about->xid, zn_alert_label(a, "pci"),
		about->says);
}

static void fill_finding(struct zn_finding *f, const struct zn_alert *a, const struct zn_finding_of *of)
{
	struct zn_out o = {.at = f->says, .cap = sizeof(f->says) - 1};
	size_t row = row_of(a->rule->name);

	f->more = 0;
	f->rule = a->rule->name;
	f->critical = !strcmp(a->rule->severity, "critical");
	f->next = row < ZN_LEN(rows) ? rows[row].next : "see the rule of this alert: zernel alerts";
	f->metric = row < ZN_LEN(rows) ? rows[row].metric : "zernel_alert_state";
	if (say_kill(f, of))
		return;
	zn_alert_annotation(&o, a, "summary");
	if (!o.len)
		zn_out_text(&o, "the alert fires");
	f->says[o.len] = 0;
	say_xid(f, a);
}

/* A sentence that is too long for it stays as it is. */
static void say_more(struct zn_finding *f)
{
	struct zn_out o = {.at = f->says, .cap = sizeof(f->says) - 1, .len = strlen(f->says)};
	size_t len = o.len;

	if (!f->more)
		return;
	zn_out_text(&o, "; it fires for ");
	zn_out_u64(&o, f->more);
	zn_out_text(&o, " more");
	f->says[o.full ? len : o.len] = 0;
}

size_t zn_findings(const struct zn_alerts *a, const struct zn_finding_of *of, struct zn_finding to[ZN_FINDINGS_MAX])
{
	size_t count = 0;

	memset(to, 0, sizeof(*to) * ZN_FINDINGS_MAX);
	for (uint32_t i = 0; i < a->count; i++) {
		const struct zn_alert *alert = &a->alert[i];
		struct zn_finding f;

		if (alert->state != ZN_FIRING || is_cause(alert->rule->name) || !zn_finding_concerns(of, alert))
			continue;
		fill_finding(&f, alert, of);
		insert_finding(to, &count, &f);
	}
	for (size_t i = 0; i < count; i++)
		say_more(&to[i]);
	return count;
}
