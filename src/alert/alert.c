/* SPDX-License-Identifier: GPL-2.0 */
/*
 * alert.c: the states of alerts, by rules (parse.c) that are evaluated every tick. An instance of a rule is inactive,
 * pending or firing; only what is not inactive takes a place in the table. States do not outlive the daemon.
 *
 * No rule keeps the others out, and no user the others of one rule: each has a share (struct zn_quota), and the
 * instances of a rule beyond it are one alert together, which has a place of its own.
 */
#include <float.h>
#include <math.h>
#include <sys/random.h>

#include "zernel.h"

/* Each is tried by tests/unit/alert/alert_test.c and explained in docs/ALERTS.md. */
const char zn_alerts_defaults[] =
	"alert gpu_oom_warning\n"
	"  expr      zernel_gpu_memory_used_ratio > 95%\n"
	"  clear     at 93%\n"
	"  for       10s\n"
	"  severity  critical\n"
	"  summary   the memory of GPU {{gpu_id}} is nearly full: {{value|percent}}\n"
	"\n"
	"alert gpu_memory_growing\n"
	"  expr      time_to(zernel_gpu_memory_used_ratio[3m], 100%) < 10m\n"
	"            and zernel_gpu_memory_used_ratio > 80%\n"
	"  for       30s\n"
	"  keep_firing_for 60s\n"
	"  summary   the memory of GPU {{gpu_id}} grows: at this rate it is full in {{value|duration}}\n"
	"\n"
	"alert gpu_allocation_failed\n"
	"  expr      increase(zernel_gpu_alloc_failures_total{reason=\"oom\"}[60s]) > 0\n"
	"  summary   process {{pid}} was refused memory on GPU {{gpu_id}}, {{value}} times in a minute\n"
	"\n"
	"alert gpu_xid\n"
	"  expr      increase(zernel_gpu_xid_errors_total[5m]) > 0\n"
	"  summary   the driver reported XID {{xid}} of the GPU at {{pci}}, {{value}} times in 5 minutes\n"
	"\n"
	"alert gpu_amdgpu\n"
	"  expr      increase(zernel_gpu_amdgpu_errors_total{error=(\"page_fault\", \"ring_timeout\", \"reset\", \"reset_failed\", \"uncorrectable\", \"deferred\")}[5m]) > 0\n"
	"  summary   amdgpu reported {{error}} of the GPU at {{pci}}, {{value}} times in 5 minutes\n"
	"\n"
	"alert cuda_context_lost\n"
	"  expr      increase(zernel_job_cuda_errors_total{error=(\"CUDA_ERROR_ECC_UNCORRECTABLE\", \"CUDA_ERROR_NVLINK_UNCORRECTABLE\",\n"
	"              \"CUDA_ERROR_CONTAINED\", \"CUDA_ERROR_ILLEGAL_ADDRESS\",\n"
	"              \"CUDA_ERROR_LAUNCH_TIMEOUT\", \"CUDA_ERROR_ASSERT\",\n"
	"              \"CUDA_ERROR_HARDWARE_STACK_ERROR\", \"CUDA_ERROR_ILLEGAL_INSTRUCTION\",\n"
	"              \"CUDA_ERROR_MISALIGNED_ADDRESS\", \"CUDA_ERROR_INVALID_ADDRESS_SPACE\",\n"
	"              \"CUDA_ERROR_INVALID_PC\", \"CUDA_ERROR_LAUNCH_FAILED\",\n"
	"              \"hipErrorECCNotCorrectable\", \"hipErrorIllegalAddress\",\n"
	"              \"hipErrorLaunchTimeOut\", \"hipErrorAssert\", \"hipErrorLaunchFailure\")}[5m]) > 0\n"
	"  severity  critical\n"
	"  summary   {{error}} took the context of a process on a GPU, {{value}} calls in 5 minutes; job: {{job_id}}\n"
	"\n"
	"alert gpu_throttled\n"
	"  expr      rate(zernel_gpu_throttled_seconds_total{reason=(\"thermal\", \"hardware\")}[60s]) > 20%\n"
	"  clear     at 5%\n"
	"  for       30s\n"
	"  summary   GPU {{gpu_id}} is slowed down, {{value|percent}} of the time: {{reason}}\n"
	"\n"
	"alert gpu_link_narrow\n"
	"  expr      zernel_gpu_pcie_link_width_ratio < 100%\n"
	"  for       30s\n"
	"  summary   the PCIe link of GPU {{gpu_id}} has {{value|percent}} of its lanes\n"
	"\n"
	"alert gpu_hardware_errors\n"
	"  expr      sum by (gpu_id, uuid) (increase(zernel_gpu_ecc_errors_total{kind=\"uncorrected\"}[5m])) > 0\n"
	"            or sum by (gpu_id, uuid) (increase(zernel_gpu_pcie_errors_total{severity=(\"nonfatal\", \"fatal\")}[5m])) > 0\n"
	"            or sum by (gpu_id, uuid) (zernel_gpu_remapped_rows{kind=(\"pending\", \"failed\")}) > 0\n"
	"  severity  critical\n"
	"  summary   GPU {{gpu_id}} has errors of its memory or its PCIe link: {{value}}\n"
	"\n"
	"alert gpu_lost\n"
	"  expr      zernel_gpu_lost == 1\n"
	"  for       30s\n"
	"  severity  critical\n"
	"  summary   GPU {{gpu_id}} is lost: it has gone from the bus, or answers no more\n"
	"\n"
	"alert gpu_driver_not_answering\n"
	"  expr      zernel_hardware_blocked_seconds > 30s\n"
	"  severity  critical\n"
	"  summary   no answer for {{file}} (a file below /sys, or NVML) for {{value|duration}}: a driver hangs\n"
	"\n"
	"alert oom_kill\n"
	"  expr      increase(zernel_oom_kills_total[5m]) > 0\n"
	"  severity  critical\n"
	"  summary   out of memory: the kernel killed {{value}} processes in 5 minutes; job: {{job_id}}\n"
	"\n"
	"alert host_memory_growing\n"
	"  expr      time_to(zernel_job_memory_needed_ratio[5m], 100%) < 10m\n"
	"            and zernel_job_memory_needed_ratio > 50%\n"
	"  for       30s\n"
	"  keep_firing_for 60s\n"
	"  summary   the memory of job {{job_id}} grows: at this rate its limit is reached in {{value|duration}}\n"
	"\n"
	"alert gpu_ghost\n"
	"  expr      zernel_ghost_processes > 0\n"
	"  summary   {{value}} processes hold a GPU that is not theirs: {{why}}; zernel ghosts lists them\n"
	"\n"
	"alert data_starvation\n"
	"  expr      rate(zernel_dataloader_wait_seconds_sum[60s]) > 30%\n"
	"  clear     at 20%\n"
	"  for       30s\n"
	"  summary   process {{pid}} spends {{value|percent}} of its time waiting for data\n"
	"\n"
	"alert stalled_on_data\n"
	"  expr      zernel_step_stall_ratio{cause=\"data\"} > 30%\n"
	"  clear     at 20%\n"
	"  for       30s\n"
	"  summary   the launching thread of process {{pid}} waits for data, {{value|percent}} of its time\n"
	"\n"
	"alert gpu_idle\n"
	"  expr      rate(zernel_job_gpu_idle_seconds_total[5m]) > 95%\n"
	"            unless rate(zernel_job_gpu_busy_seconds_total[5m]) >= 0.1% unless zernel_job_ended_time_seconds > 0\n"
	"  clear     at 80%\n"
	"  for       10m\n"
	"  summary   job {{job_id}} has GPU {{gpu_id}} and does not use it\n"
	"\n"
	"alert gpu_nearly_idle\n"
	"  expr      rate(zernel_job_gpu_idle_seconds_total[5m]) > 90%\n"
	"            and rate(zernel_job_gpu_busy_seconds_total[5m]) >= 0.1% unless zernel_job_ended_time_seconds > 0\n"
	"  clear     at 80%\n"
	"  for       10m\n"
	"  summary   job {{job_id}} hardly uses GPU {{gpu_id}}: it is idle {{value|percent}} of the time\n"
	"\n"
	"alert nccl_straggler\n"
	"  expr      rate(zernel_nccl_issue_late_seconds_total[60s]) * zernel_nccl_rank_info > 5%\n"
	"  clear     at 2%\n"
	"  for       30s\n"
	"  summary   rank {{rank}}, process {{pid}}, issues its collectives late: {{value|percent}} of the time the others wait for it\n"
	"\n"
	"alert nccl_hang\n"
	"  expr      zernel_nccl_missing_rank_doing_seconds{doing=\"gone\"} > 1s\n"
	"            or zernel_nccl_missing_rank_doing_seconds{doing=\"asleep\"} > 10s\n"
	"            or zernel_nccl_missing_rank_doing_seconds{doing=(\"data\", \"driver\")} > 30s\n"
	"            or zernel_nccl_missing_rank_doing_seconds{doing=(\"io\", \"cpu\", \"gpu\")} > 120s\n"
	"            and zernel_nccl_missing_rank_doing_seconds > 3 * zernel_nccl_longest_wait_seconds\n"
	"  severity  critical\n"
	"  summary   the other ranks wait for rank {{rank}}, process {{pid}}: {{doing}} for {{value|duration}}\n"
	"\n"
	"alert job_stalled\n"
	"  expr      zernel_job_progress_age_seconds > zernel_job_stall_limit_seconds\n"
	"  summary   job {{job_id}} has made no progress for {{value|duration}}\n"
	"\n"
	"alert driver_unresponsive\n"
	"  expr      zernel_gpu_driver_stuck_seconds > 30s\n"
	"  severity  critical\n"
	"  summary   process {{pid}} is inside of the GPU driver for {{value|duration}}: it hangs, or memory that the call needs does not come\n"
	"\n"
	"alert process_blocked\n"
	"  expr      zernel_process_blocked_seconds > 30s\n"
	"  summary   a thread of process {{pid}} is in uninterruptible sleep (state D) for {{value|duration}}: often a driver or a file system does not answer it\n"
	"\n"
	"alert driver_contention\n"
	"  expr      zernel_gpu_ioctl_contention_ratio > 30%\n"
	"  clear     at 20%\n"
	"  for       30s\n"
	"  summary   processes wait for one another in the GPU driver: {{value|percent}} of its time with two or more inside\n"
	"\n"
	"alert tcp_retransmits\n"
	"  expr      rate(zernel_tcp_retransmits_total[60s]) > 50\n"
	"  clear     at 20\n"
	"  for       30s\n"
	"  summary   process {{pid}} sends {{value}} TCP segments a second again\n"
	"\n"
	"alert launch_latency_unusual\n"
	"  expr      zernel_anomaly_score{signal=(\"launch_p50\", \"launch_p99\")} > 5\n"
	"  clear     at 2.5\n"
	"  for       30s\n"
	"  summary   {{signal}} of process {{pid}} is {{value}} standard deviations above what was usual for it\n"
	"\n"
	"alert requests_unusual\n"
	"  expr      zernel_request_anomaly_score > 5\n"
	"  clear     at 2.5\n"
	"  for       30s\n"
	"  summary   {{signal}} of the server {{pid}} is {{value}} standard deviations above what was usual for it\n"
	"\n"
	"alert requests_failing\n"
	"  expr      sum by (pid) (rate(zernel_requests_total{code=\"5xx\"}[60s])) / sum by (pid) (rate(zernel_requests_total{route!=\"not_read\"}[60s])) > 5%\n"
	"            and sum by (pid) (increase(zernel_requests_total{code=\"5xx\"}[60s])) > 2\n"
	"  clear     at 2%\n"
	"  for       30s\n"
	"  summary   the server {{pid}} answers {{value|percent}} of its requests with 5xx\n"
	"\n"
	"alert requests_unread\n"
	"  expr      rate(zernel_request_unread_seconds_sum[60s]) / rate(zernel_request_unread_seconds_count[60s]) > 0.1s\n"
	"  clear     at 0.05s\n"
	"  for       30s\n"
	"  summary   requests lie unread for {{value|duration}} before the server {{pid}} reads them: its front end is busy\n"
	"\n"
	"alert probe_overhead\n"
	"  expr      zernel_overhead_ratio > overhead_budget\n"
	"  clear     at overhead_budget * 80%\n"
	"  for       30s\n"
	"  summary   our probes cost process {{pid}} {{value|percent}} of a core, more than --overhead-budget\n"
	"\n"
	"alert events_lost\n"
	"  expr      increase(zernel_lost_total{what=(\"ringbuf\", \"series\", \"process\", \"thread\",\n"
	"              \"alloc\", \"job\", \"task\", \"io\", \"operation\", \"alert\")}[10s]) > 0\n"
	"  keep_firing_for 60s\n"
	"  summary   a table was full, so something was not measured: {{what}}\n";

#define NO_BUDGET 1e300 /* above all shares, and still a number for rules that multiply it */

static int read_rules(struct zn_alerts *a, struct zn_rules *to, char why[ZN_TEXT_MAX])
{
	struct zn_str defaults = {zn_alerts_defaults, sizeof(zn_alerts_defaults) - 1};
	int err;

	to->rule_count = to->selector_count = to->word_count = 0;
	err = zn_rules_parse(to, "built-in", defaults, &a->names, why);
	for (uint32_t i = 0; i < to->rule_count; i++)
		to->rule[i].built_in = true;
	return err || !a->file[0] ? err : zn_rules_read(to, a->file, &a->names, why);
}

#define PPM             1e6
#define CRITICAL_PLACES (ZN_ALERTS_OWN / 4)
#define RULE_PLACES     (ZN_ALERTS_OWN / 2)
#define TELL_NS         (60 * ZN_NS_PER_S)
_Static_assert(ZN_ALERTS_MAX == ZN_ALERTS_OWN + ZN_RULES_MAX, "the alert that stands for others always has a place");

int zn_alerts_open(
	struct zn_alerts *a, const struct zn_options *o, int (*type)(const char *metric), char why[ZN_TEXT_MAX])
{
	uint64_t seed;

	zn_pages_clear(a, offsetof(struct zn_alerts, book));
	a->work.past_count = 0;
	memset(a->work.past_slot, 0, sizeof(a->work.past_slot));
	memset(a->work.refused_ns, 0, sizeof(a->work.refused_ns));
	a->work.lost = 0;
	a->work.past_quota = (struct zn_quota){0};
	a->room[ZN_ROOM_CRITICAL].size = CRITICAL_PLACES;
	a->room[ZN_ROOM_ALL].size = ZN_ALERTS_OWN - CRITICAL_PLACES;
	a->names = (struct zn_rule_names){type, o->overhead_budget ? (double)o->overhead_budget / PPM : NO_BUDGET};
	a->file = o->alerts;
	a->next_id = zn_wall_ms() << 20;
	a->rules = &a->book[0];
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed))
		zn_rule_seed(seed);
	return read_rules(a, &a->book[0], why);
}

const char *zn_alert_unit(const struct zn_alert *alert)
{
	static const char *const names[] = {
		[ZN_UNIT_TIME] = "seconds", [ZN_UNIT_RATIO] = "ratio", [ZN_UNIT_BYTES] = "bytes"};

	return alert->summed ? NULL : names[alert->rule->unit];
}

const char *zn_alert_state_label(enum zn_alert_state s)
{
	static const char *const labels[] = {
		[ZN_INACTIVE] = "inactive", [ZN_PENDING] = "pending", [ZN_FIRING] = "firing"};

	return s < ZN_LEN(labels) ? labels[s] : "unknown";
}

enum zn_alert_state zn_alerts_rule_state(const struct zn_alerts *a, const struct zn_rule *r)
{
	enum zn_alert_state highest = ZN_INACTIVE;

	for (uint32_t i = 0; i < a->count; i++)
		if (a->alert[i].rule == r && a->alert[i].state > highest)
			highest = a->alert[i].state;
	return highest;
}

/* ---- What an alert is about. ---- */

/* Behind the name or the value at at. */
static const char *behind_text(const char *at)
{
	return at + strlen(at) + 1;
}

static char *labels_end(struct zn_alert *alert)
{
	char *at = alert->labels;

	for (uint32_t i = 0; i < 2u * alert->label_count; i++)
		at += strlen(at) + 1;
	return at;
}

bool zn_alert_label_add(struct zn_alert *alert, struct zn_str name, struct zn_str value)
{
	char *at = labels_end(alert);
	struct zn_out o = {.at = at, .cap = sizeof(alert->labels) - (size_t)(at - alert->labels)};

	zn_out_bytes(&o, name.at, name.len);
	zn_out_char(&o, '\0');
	for (size_t i = 0; i < value.len; i++)
		zn_out_char(&o, value.at[i] ? value.at[i] : '?');
	zn_out_char(&o, '\0');
	if (o.full || alert->label_count + 2 >= ZN_LABELS_MAX)
		return false;
	alert->label_count++;
	return true;
}

size_t zn_alert_labels(const struct zn_alert *alert, struct zn_label to[ZN_LABELS_MAX])
{
	const char *at = alert->labels;
	size_t n = 0;

	to[n++] = (struct zn_label){zn_str_of("alertname"), zn_str_of(alert->rule->name)};
	to[n++] = (struct zn_label){zn_str_of("severity"), zn_str_of(alert->rule->severity)};
	for (uint32_t i = 0; i < alert->label_count; i++, at = behind_text(behind_text(at)))
		to[n++] = (struct zn_label){zn_str_of(at), zn_str_of(behind_text(at))};
	return n;
}

static struct zn_str label_of(const void *of, struct zn_str name)
{
	const struct zn_alert *alert = of;
	const char *at = alert->labels;

	for (uint32_t i = 0; i < alert->label_count; i++, at = behind_text(behind_text(at)))
		if (strlen(at) == name.len && !memcmp(at, name.at, name.len))
			return zn_str_of(behind_text(at));
	return zn_str_of("");
}

const char *zn_alert_label(const struct zn_alert *alert, const char *name)
{
	return label_of(alert, zn_str_of(name)).at;
}

#define CUT_OFF "..."

/* An alert that sums up many instances has no description, and a summary of its own. */
void zn_alert_annotation(struct zn_out *o, const struct zn_alert *alert, const char *name)
{
	const struct zn_rule *r = alert->rule;
	struct zn_str more = zn_str_of("{{value}} more of this alert, which have no place of their own");
	const struct {
		const char *name;
		struct zn_str text;
	} all[] = {{"summary", alert->summed ? more : r->summary},
		{"description", alert->summed ? zn_str_of("") : r->description}, {"runbook_url", r->runbook}};

	o->cap -= strlen(CUT_OFF);
	for (size_t i = 0; i < ZN_LEN(all); i++)
		if (!strcmp(name, all[i].name))
			zn_fill_text(o, all[i].text, alert->value, label_of, alert);
	o->cap += strlen(CUT_OFF);
	if (!o->full)
		return;
	o->full = false;
	zn_out_text(o, CUT_OFF);
}

/* ---- States. ---- */

/* name{label="value"}, and a summary. The log shows what is not printable as \xNN. */
static void describe_alert(const struct zn_alert *alert, char to[ZN_TEXT_MAX], char summary[ZN_TEXT_MAX])
{
	struct zn_label label[ZN_LABELS_MAX];
	size_t n = zn_alert_labels(alert, label);
	struct zn_out o = {.at = to, .cap = ZN_TEXT_MAX - 2}, s = {.at = summary, .cap = ZN_TEXT_MAX - 1};

	zn_out_text(&o, alert->rule->name);
	for (size_t i = 2; i < n; i++) {
		zn_out_char(&o, i == 2 ? '{' : ',');
		zn_out_bytes(&o, label[i].name.at, label[i].name.len);
		zn_out_text(&o, "=\"");
		zn_out_bytes(&o, label[i].value.at, label[i].value.len);
		zn_out_char(&o, '"');
	}
	if (n > 2)
		to[o.len++] = '}';
	to[o.len] = '\0';
	zn_alert_annotation(&s, alert, "summary");
	summary[s.len] = '\0';
}

/* A rule has lines of its own: what else is logged does not hold them back, nor do those of other rules. Reloads
 * keep the number. */
static uint64_t subject_of(const struct zn_rule *rule)
{
	return zn_rule_hash(0, rule->name, strlen(rule->name)) | 1;
}

static void enter_state(struct zn_alerts *a, struct zn_alert *alert, enum zn_alert_state state, uint64_t now_ns)
{
	char name[ZN_TEXT_MAX], summary[ZN_TEXT_MAX];
	enum zn_alert_state was = alert->state;
	uint64_t since_ns = alert->since_ns;

	alert->state = state;
	alert->since_ns = now_ns;
	if (was != ZN_FIRING && state != ZN_FIRING)
		return;
	describe_alert(alert, name, summary);
	if (state == ZN_FIRING)
		zn_log_about(ZN_WARN, subject_of(alert->rule), "alert %s fires at %.4g%s%s", name, alert->value,
			*summary ? ": " : "", summary);
	else
		zn_log_about(ZN_INFO, subject_of(alert->rule), "alert %s resolved after %llu s", name,
			(unsigned long long)((now_ns - since_ns) / ZN_NS_PER_S));
	if (a->changed)
		a->changed(a->owner, alert);
}

static struct zn_alert *find_alert(struct zn_alerts *a, const struct zn_rule *rule, uint64_t key, bool summed)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->alert[i].key == key && a->alert[i].rule == rule && a->alert[i].summed == summed)
			return &a->alert[i];
	return NULL;
}

/* ---- Places. ---- */

static uint32_t number_of(const struct zn_alerts *a, const struct zn_rule *rule)
{
	return (uint32_t)(rule - a->rules->rule);
}

/* Of a rule as an owner of places: no rule is ZN_OWNER_ROOT. */
static uint32_t owner_of(const struct zn_alerts *a, const struct zn_rule *rule)
{
	return number_of(a, rule) + 1;
}

static void hold_place(struct zn_quota *q, uint32_t owner)
{
	zn_quota_owner(q, owner)->held++;
	q->used++;
}

static void release_all(struct zn_quota *q)
{
	q->used = 0;
	q->rest = (struct zn_quota_owner){0};
	memset(q->row, 0, sizeof(q->row));
}

/* Counting anew costs less than it would to keep count through reloads, and owners that are gone leave no trace. */
static void count_places(struct zn_alerts *a)
{
	for (size_t i = 0; i < ZN_ROOM_COUNT; i++)
		release_all(&a->room[i]);
	for (uint32_t i = 0; i < a->rules->rule_count; i++) {
		release_all(&a->of_rule[i]);
		a->of_rule[i].size = RULE_PLACES;
	}
	for (uint32_t i = 0; i < a->count; i++) {
		const struct zn_alert *alert = &a->alert[i];

		if (alert->summed)
			continue;
		hold_place(&a->room[alert->room], owner_of(a, alert->rule));
		hold_place(&a->of_rule[number_of(a, alert->rule)], alert->whose);
	}
}

static bool take_place(struct zn_alerts *a, struct zn_alert *alert)
{
	struct zn_quota *of_rule = &a->of_rule[number_of(a, alert->rule)];
	bool critical = !strcmp(alert->rule->severity, "critical");

	if (!zn_quota_take(of_rule, alert->whose))
		return false;
	for (uint32_t r = critical ? ZN_ROOM_CRITICAL : ZN_ROOM_ALL; r < ZN_ROOM_COUNT; r++)
		if (zn_quota_take(&a->room[r], owner_of(a, alert->rule))) {
			alert->room = (uint8_t)r;
			return true;
		}
	zn_quota_give(of_rule, alert->whose);
	return false;
}

static struct zn_alert *begin_alert(struct zn_alerts *a, const struct zn_alert *fresh, uint64_t now_ns)
{
	struct zn_alert *alert = &a->alert[a->count++];

	*alert = *fresh;
	alert->id = a->next_id++;
	enter_state(a, alert, ZN_PENDING, now_ns);
	return alert;
}

static struct zn_alert *add_alert(
	struct zn_alerts *a, const struct zn_rule *rule, const struct zn_instance *i, uint64_t now_ns)
{
	struct zn_alert fresh = {.rule = rule, .key = i->key, .value = i->value};
	bool fits = true;

	for (uint32_t l = 0; fits && l < i->label_count; l++)
		fits = zn_alert_label_add(&fresh, i->label[l].label.name, i->label[l].label.value);
	fresh.whose = zn_rule_whose(&a->work, zn_str_of(zn_alert_label(&fresh, "pid")));
	return fits && take_place(a, &fresh) ? begin_alert(a, &fresh, now_ns) : NULL;
}

static void advance_alert(struct zn_alerts *a, struct zn_alert *alert, const struct zn_instance *i, uint64_t now_ns)
{
	const struct zn_rule *rule = alert->rule;

	if (!i->clear) {
		alert->cleared = false;
	} else if (!alert->cleared) {
		alert->cleared = true;
		alert->clear_since_ns = now_ns;
	}
	if (alert->state == ZN_PENDING && i->truth == ZN_YES && now_ns - alert->since_ns >= rule->for_ms * ZN_NS_PER_MS)
		enter_state(a, alert, ZN_FIRING, now_ns);
	if (alert->cleared &&
		(alert->state == ZN_PENDING || now_ns - alert->clear_since_ns >= rule->keep_ms * ZN_NS_PER_MS))
		enter_state(a, alert, ZN_INACTIVE, now_ns);
}

struct evaluation {
	struct zn_alerts *alerts;
	const struct zn_rule *rule;
	uint64_t now_ns;
	uint32_t more; /* instances for which it holds, and that found no place */
};

/* A value that was not measured leaves the state as it is. */
static void take_instance(void *to, const struct zn_instance *i)
{
	struct evaluation *e = to;
	struct zn_alert *alert = find_alert(e->alerts, e->rule, i->key, false);

	if (alert)
		alert->seen = true;
	if (i->truth == ZN_UNKNOWN_TRUTH)
		return;
	if (!alert && i->truth == ZN_YES) {
		alert = add_alert(e->alerts, e->rule, i, e->now_ns);
		e->more += !alert;
	}
	if (!alert)
		return;
	alert->seen = true;
	if (isfinite(i->value)) /* what grows no more is never full, and what it was is said for a while */
		alert->value = i->value;
	advance_alert(e->alerts, alert, i, e->now_ns);
}

static void tell_of_more(const struct evaluation *e)
{
	uint64_t *logged_ns = &e->alerts->logged_ns[number_of(e->alerts, e->rule)];

	if (*logged_ns && e->now_ns - *logged_ns < TELL_NS)
		return;
	*logged_ns = e->now_ns;
	zn_log(ZN_WARN, "alerts: rule %s has %u instances beyond its share of the table; they are shown as one",
		e->rule->name, e->more);
}

/* The alert that stands for all instances without a place: it holds as long as there is any. */
static void sum_up(struct evaluation *e)
{
	struct zn_instance i = {.value = e->more, .truth = e->more ? ZN_YES : ZN_NO, .clear = !e->more};
	struct zn_alerts *a = e->alerts;
	struct zn_alert *alert = find_alert(a, e->rule, 0, true);

	a->lost += e->more;
	if (e->more)
		tell_of_more(e);
	if (!alert && e->more) {
		struct zn_alert fresh = {.rule = e->rule, .summed = true, .value = i.value};

		zn_alert_label_add(&fresh, zn_str_of("summed"), zn_str_of("true"));
		alert = begin_alert(a, &fresh, e->now_ns);
	}
	if (!alert)
		return;
	alert->seen = true;
	alert->value = i.value;
	advance_alert(a, alert, &i, e->now_ns);
}

/* Takes out what has become inactive or is no longer there; the rest keeps its order. */
static void sweep_inactive(struct zn_alerts *a, uint64_t now_ns)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < a->count; i++) {
		struct zn_alert *alert = &a->alert[i];

		if (!alert->seen && alert->state != ZN_INACTIVE)
			enter_state(a, alert, ZN_INACTIVE, now_ns);
		if (alert->state == ZN_INACTIVE)
			continue;
		alert->seen = false;
		a->alert[kept++] = *alert;
	}
	a->count = kept;
}

static struct zn_rules *book_in_use(struct zn_alerts *a)
{
	return &a->book[a->rules == &a->book[1]];
}

/* Those that a rule looks at: of one that is off they are there too. */
static void selectors_begin(struct zn_rules *r, const struct zn_rule *rule, uint64_t now_ns)
{
	for (uint32_t i = 0; i < rule->node_count; i++) {
		const struct zn_rule_node *n = &rule->node[i];

		if (n->op >= ZN_OP_SELECT && n->op <= ZN_OP_TIME_TO && !r->selector[n->selector].began_ns)
			r->selector[n->selector].began_ns = now_ns;
	}
}

/* What other rules looked at before was looked at ever since; what only new ones look at was not. */
static void selectors_go_on(struct zn_rules *r, const struct zn_rules *before)
{
	for (uint32_t i = 0; i < r->selector_count; i++)
		for (uint32_t k = 0; k < before->selector_count; k++)
			if (before->selector[k].id == r->selector[i].id)
				r->selector[i].began_ns = before->selector[k].began_ns;
}

void zn_alerts_tick(struct zn_alerts *a, uint64_t now_ns)
{
	uint64_t start_ns = zn_now_ns();

	a->work.rules = a->rules;
	a->work.now_ns = now_ns;
	a->work.wall_ms = zn_wall_ms();
	count_places(a);
	for (uint32_t i = 0; i < a->rules->rule_count; i++) {
		struct evaluation e = {a, &a->rules->rule[i], now_ns, 0};

		selectors_begin(book_in_use(a), e.rule, now_ns);
		zn_rule_run(&a->work, e.rule, take_instance, &e);
		sum_up(&e);
	}
	zn_rule_sweep(&a->work);
	sweep_inactive(a, now_ns);
	a->run_ns = zn_now_ns() - start_ns;
}

/* ---- Other rules. ---- */

static const struct zn_rule *rule_named(const struct zn_rules *r, const char *name)
{
	for (uint32_t i = 0; i < r->rule_count; i++)
		if (!strcmp(r->rule[i].name, name))
			return &r->rule[i];
	return NULL;
}

int zn_alerts_reload(struct zn_alerts *a, char why[ZN_TEXT_MAX])
{
	struct zn_rules *fresh = &a->book[a->rules == &a->book[0]];
	int err = read_rules(a, fresh, why);

	if (err)
		return err;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct zn_rule *rule = rule_named(fresh, a->alert[i].rule->name);

		a->alert[i].seen = rule;
		if (rule)
			a->alert[i].rule = rule;
	}
	sweep_inactive(a, zn_now_ns());
	selectors_go_on(fresh, a->rules);
	a->rules = fresh;
	snprintf(why, ZN_TEXT_MAX, "alert rules in use: %u", fresh->rule_count);
	return 0;
}
