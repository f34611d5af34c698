/* SPDX-License-Identifier: GPL-2.0 */
/*
 * options.c: the settings of the daemon. Each option is one row of a table; a value is checked by the same function
 * wherever it stands.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>
#include <sys/un.h>

#include "zernel.h"

#define CYCLE_MIN_S    10
#define CYCLE_MAX_S    86400
#define KMSG_PATH      "/dev/kmsg"
#define TABLE_CPUS_MAX 8192 /* NR_CPUS of any distribution's kernel */
#define UNIX           "unix:"
#define PPM_DECIMALS   4 /* of a percentage: one part per million */

static bool set_flag(const struct zn_option *opt, void *field, const char *value)
{
	static const char words[][6] = {"no", "yes", "0", "1", "false", "true"};

	(void)opt;
	for (size_t i = 0; i < ZN_LEN(words); i++)
		if (!strcmp(value, words[i])) {
			*(bool *)field = i & 1;
			return true;
		}
	return false;
}

/* Decimal digits, as many as there are; the first other character. NULL: there are none, or it is above
 * UINT64_MAX. */
static const char *read_digits(const char *text, uint64_t *to)
{
	const char *at = text;

	for (*to = 0; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(*to, 10, to) || __builtin_add_overflow(*to, (uint64_t)(*at - '0'), to))
			return NULL;
	return at == text ? NULL : at;
}

static bool set_number(const struct zn_option *opt, void *field, const char *value)
{
	uint64_t v;
	const char *end = read_digits(value, &v);

	if (!end || *end || v < opt->min || v > opt->max)
		return false;
	*(uint64_t *)field = v;
	return true;
}

static bool set_cycle(const struct zn_option *opt, void *field, const char *value)
{
	if (strcmp(value, "auto"))
		return set_number(opt, field, value);
	*(uint64_t *)field = 0;
	return true;
}

/* A percentage, as parts per million. */
static bool set_percent(const struct zn_option *opt, void *field, const char *value)
{
	int decimals = 0;
	uint64_t v;
	const char *end = read_digits(value, &v);

	if (!end || v > 100)
		return false;
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9' && decimals < PPM_DECIMALS; end++, decimals++)
			v = v * 10 + (uint64_t)(*end - '0');
	if (strcmp(end, "%") || end[-1] == '.')
		return false;
	for (; decimals < PPM_DECIMALS; decimals++)
		v *= 10;
	if (v < opt->min || v > opt->max)
		return false;
	*(uint64_t *)field = v;
	return true;
}

/* The bit of a family by either of its names; 0: there is none. */
static uint64_t family_bit(struct zn_str name)
{
	static const char *const names[][2] = {
#define X(e, label, option) [ZN_FAM_##e] = {label, option},
		ZN_FAMILIES(X) ZN_KERNEL_FAMILIES(X)
#undef X
	};

	for (size_t i = 0; i < 2 * ZN_LEN(names); i++) {
		const char *own = names[i / 2][i % 2];

		if (strlen(own) == name.len && !memcmp(own, name.at, name.len))
			return 1ULL << i / 2;
	}
	return 0;
}

static bool set_families(const struct zn_option *opt, void *field, const char *value)
{
	uint64_t bits = 0, bit;

	(void)opt;
	if (!strcmp(value, "all") || !strcmp(value, "none")) {
		*(uint64_t *)field = *value == 'a' ? (1ULL << ZN_FAM_ALL) - 1 : 0;
		return true;
	}
	for (const char *at = value;; at++) {
		size_t len = strcspn(at, ",");

		bit = family_bit((struct zn_str){at, len});
		if (!bit)
			return false;
		bits |= bit;
		at += len;
		if (!*at)
			break;
	}
	*(uint64_t *)field = bits;
	return true;
}

static bool set_majors(const struct zn_option *opt, void *field, const char *value)
{
	uint64_t bits[ZN_MAJOR_WORDS] = {0}, v;
	const char *at = value;

	for (;; at++) {
		at = read_digits(at, &v);
		if (!at || v < opt->min || v > opt->max)
			return false;
		bits[v / 64] |= 1ULL << (v % 64);
		if (*at != ',')
			break;
	}
	memcpy(field, bits, sizeof(bits));
	return *at == 0;
}

/* Reads one of several words, and stores its place among them. */
static bool set_word(void *field, const char *value, const char *const *word, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(value, word[i])) {
			*(uint64_t *)field = i;
			return true;
		}
	return false;
}

static const char *const scenarios[] = {
#define X(e, name) name,
	ZN_SCENARIOS(X)
#undef X
};

static bool set_scenario(const struct zn_option *opt, void *field, const char *value)
{
	(void)opt;
	return set_word(field, value, scenarios, ZN_LEN(scenarios));
}

static bool set_method(const struct zn_option *opt, void *field, const char *value)
{
	static const char *const name[] = {"auto", "fentry", "kprobe", "tracepoint"}; /* enum zn_probe_method */

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool set_uprobes(const struct zn_option *opt, void *field, const char *value)
{
	static const char *const name[] = {"auto", "links"};

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool set_user_libraries(const struct zn_option *opt, void *field, const char *value)
{
	static const char *const name[] = {"safe", "all", "none"}; /* enum zn_user_libraries */

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool set_switch(const struct zn_option *opt, void *field, const char *value)
{
	static const char *const name[] = {"off", "on"};

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool set_stacks(const struct zn_option *opt, void *field, const char *value)
{
	static const char *const name[] = {"off", "python", "native"}; /* enum zn_stacks_wanted */

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool set_series(const struct zn_option *opt, void *field, const char *value)
{
	static const char *const name[] = {"process", "job", "node"}; /* enum zn_series */

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool copy_text(char *field, const char *value)
{
	size_t len = strlen(value);

	if (len >= ZN_TEXT_MAX)
		return false;
	memcpy(field, value, len + 1);
	return true;
}

static bool is_address(const char *at, size_t len)
{
	uint8_t address[sizeof(struct in6_addr)];
	char text[INET6_ADDRSTRLEN];

	if (len >= sizeof(text))
		return false;
	memcpy(text, at, len);
	text[len] = '\0';
	return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

/* A socket in the file system. sun_path holds its NUL too (unix(7)). */
static bool is_unix(struct zn_str item)
{
	size_t prefix = strlen(UNIX);

	return item.len > prefix + 1 && item.len - prefix < sizeof(((struct sockaddr_un *)0)->sun_path) &&
		!memcmp(item.at, UNIX "/", prefix + 1);
}

/* Takes a list apart at its commas: whether each item is good. */
static bool check_each(const char *value, bool (*good)(struct zn_str item))
{
	for (const char *at = value;; at++) {
		size_t len = strcspn(at, ",");

		if (!good((struct zn_str){at, len}))
			return false;
		at += len;
		if (!*at)
			return true;
	}
}

static bool is_all(struct zn_str item)
{
	return item.len == 1 && *item.at == '*';
}

static bool is_listen(struct zn_str item)
{
	return is_all(item) || is_unix(item) || is_address(item.at, item.len);
}

static bool is_not_address(struct zn_str item)
{
	return !is_address(item.at, item.len);
}

/* "*" takes two places, and leaves no address to add. */
static bool set_listen(const struct zn_option *opt, void *field, const char *value)
{
	int count = 1, all = 0;

	(void)opt;
	if (!check_each(value, is_listen))
		return false;
	for (const char *at = value; *at; at++) {
		count += *at == ',';
		all += *at == '*' && (at == value || at[-1] == ',');
	}
	if (all > 1 || count + all > ZN_LISTEN_MAX || (all && !check_each(value, is_not_address)))
		return false;
	return copy_text(field, value);
}

/* Compared with what browsers send byte by byte, so only their form is of use: RFC 6454, section 6.2. */
static bool is_origin(struct zn_str item)
{
	static const char *const schemes[] = {"http://", "https://"};
	static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]";

	for (size_t i = 0; i < ZN_LEN(schemes); i++) {
		size_t len = strlen(schemes[i]);

		if (item.len > len && !memcmp(item.at, schemes[i], len))
			return strspn(item.at + len, set) >= item.len - len;
	}
	return false;
}

static bool set_origins(const struct zn_option *opt, void *field, const char *value)
{
	(void)opt;
	return check_each(value, is_origin) && copy_text(field, value);
}

/* Letters, digits, - and _ with dots between them, and maybe before and after. */
static bool is_host_name(struct zn_str item)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	if (!item.len || item.len > 254 || strspn(item.at, set) < item.len || (item.len == 1 && *item.at == '.'))
		return false;
	return !memmem(item.at, item.len, "..", 2);
}

static bool set_host_names(const struct zn_option *opt, void *field, const char *value)
{
	(void)opt;
	return check_each(value, is_host_name) && copy_text(field, value);
}

static bool is_url(struct zn_str item)
{
	return !zn_url_read(&(struct zn_url){0}, item);
}

/* Reads a list of at most opt->max URLs; "none" is an empty list. */
static bool set_urls(const struct zn_option *opt, void *field, const char *value)
{
	uint64_t count = 1;

	for (const char *at = value; *at; at++)
		count += *at == ',';
	if (!strcmp(value, "none"))
		value = "";
	else if (count > opt->max || !check_each(value, is_url))
		return false;
	memcpy(field, value, strlen(value) + 1); /* fits: each URL has its limit */
	return true;
}

/* Copied: the value of a line of the file does not stay. */
static bool set_path(const struct zn_option *opt, void *field, const char *value)
{
	(void)opt;
	return *value && copy_text(field, value);
}

/* An absolute path, shorter than opt->max if that is not 0; "none": empty. */
static bool set_place(const struct zn_option *opt, void *field, const char *value)
{
	if (!strcmp(value, "none"))
		return copy_text(field, "");
	return *value == '/' && (!opt->max || strlen(value) < opt->max) && copy_text(field, value);
}

static bool set_file(const struct zn_option *opt, void *field, const char *value)
{
	(void)opt;
	*(const char **)field = value;
	return *value;
}

#define AT(field)                offsetof(struct zn_options, field)
#define FAMILY(e, label, option) " " option
#define URLS                     "http://HOST[:PORT][/PATH], or none; for https use a proxy on this node"
#define ACTION(name_, field, help_)                                                                                    \
	{                                                                                                              \
		name_, set_flag, AT(field), .is = "yes or no", .where = ZN_OPTION_ARGUMENTS, .help = help_             \
	}

const struct zn_option zn_option_table[] = {
	{"metrics-port", set_number, AT(metrics_port), "PORT", "9091", "a port", 0, 65535, ZN_OPTION_ANYWHERE,
		"of /metrics, /json and the dashboard; 0: any"},
	{"ws-port", set_number, AT(ws_port), "PORT", "9092", "a port", 0, 65535, ZN_OPTION_ANYWHERE,
		"of the WebSocket; 0: any"},
	{"listen", set_listen, AT(listen), "ADDR[,ADDR]", "*",
		"up to 8 of *, IPv4 and IPv6 addresses, unix:/PATH, with commas between them; * stands for all addresses",
		0, 0, ZN_OPTION_ANYWHERE, "listen on these, unix:/PATH too; *: all addresses"},
	{"host-names", set_host_names, AT(host_names), "NAME[,NAME]", NULL,
		"names of this node with commas between them; .example.org: all under it", 0, 0, ZN_OPTION_ANYWHERE,
		"further names by which this node is asked"},
	{"ws-origin", set_origins, AT(ws_origin), "ORIGIN[,...]", NULL,
		"origins as browsers send them, with commas between them: http:// or https://, host in lower case, no path",
		0, 0, ZN_OPTION_ANYWHERE, "let these pages' scripts open the WebSocket"},
	{"token-file", set_path, AT(token_file), "FILE", NULL, "the path of a file", 0, 0, ZN_OPTION_ANYWHERE,
		"ask for a bearer token of this file; HUP rereads it"},
	{"max-connections", set_number, AT(max_connections), "N", "1024", "a number of connections", 16, ZN_CONNS_MAX,
		ZN_OPTION_ANYWHERE, "refuse further clients with 503"},
	{"max-connections-per-peer", set_number, AT(max_connections_per_peer), "N", "512", "a number of connections", 1,
		ZN_CONNS_MAX, ZN_OPTION_ANYWHERE, "the same for one address"},
	{"push-interval-ms", set_number, AT(push_interval_ms), "N", "1000", "a number of milliseconds", 100, 60000,
		ZN_OPTION_ANYWHERE, "take rates and push snapshots this often"},
	{"probes", set_families, AT(families), "LIST", "all",
		"all, none, or some of these with commas between them:" ZN_FAMILIES(FAMILY) ZN_KERNEL_FAMILIES(FAMILY),
		0, 0, ZN_OPTION_ANYWHERE, "all, none, or families, as in --list-probes"},
	{"gpu-majors", set_majors, AT(gpu_majors), "LIST", NULL,
		"one or more device numbers from 1 to 511 with commas between them", 1, 511, ZN_OPTION_ANYWHERE,
		"majors of GPU devices; else as in /proc/devices"},
	{"rdma-majors", set_majors, AT(rdma_majors), "LIST", NULL,
		"one or more device numbers from 1 to 511 with commas between them", 1, 511, ZN_OPTION_ANYWHERE,
		"the same of devices of RDMA (InfiniBand, RoCE)"},
	{"tier", set_method, AT(method), "WAY", "auto", "auto, fentry, kprobe or tracepoint", 0, 0, ZN_OPTION_ANYWHERE,
		"count file I/O and TCP so"},
	{"uprobes", set_uprobes, AT(two_links), "WAY", "auto", "auto or links", 0, 0, ZN_OPTION_ANYWHERE,
		"links: entries and returns apart; docs/COST.md"},
	{"libraries", set_path, AT(libraries), "LIST", NULL, "paths with commas between them", 0, 0, ZN_OPTION_ANYWHERE,
		"hook these whether or not they are in use"},
	{"user-libraries", set_user_libraries, AT(user_libraries), "WHICH", "safe", "safe, all or none", 0, 0,
		ZN_OPTION_ANYWHERE, "hook those of users; docs/SECURITY.md"},
	{"table-cpus", set_number, AT(table_cpus), "N", "0", "a number of CPUs", 0, TABLE_CPUS_MAX, ZN_OPTION_ANYWHERE,
		"size tables as for so many; 0: all there may be"},
	{"kmsg", set_place, AT(kmsg), "FILE", KMSG_PATH, "an absolute path, or none", 0, 0, ZN_OPTION_ANYWHERE,
		"the kernel's log: errors of GPUs"},
	{"sysfs", set_place, AT(sysfs), "DIR", "/sys", "an absolute path, or none", 0, 0, ZN_OPTION_ANYWHERE,
		"state of GPUs, energy; docs/HARDWARE.md"},
	{"stacks", set_stacks, AT(stacks), "WHICH", "python", "off, python or native", 0, 0, ZN_OPTION_ANYWHERE,
		"lines of Python, or native; docs/STACKS.md"},
	{"ras", set_switch, AT(ras), "SWITCH", "on", "on or off", 0, 0, ZN_OPTION_ANYWHERE,
		"ask NCCL about jobs that hang; docs/WHY.md"},
	{"overhead-budget", set_percent, AT(overhead_budget), "SHARE", "1%",
		"a share of one core: 0%, for none, to 100%", 0, 1000000, ZN_OPTION_ANYWHERE,
		"keep the cost for a process below; docs/COST.md"},
	{"series", set_series, AT(series), "WHICH", "process", "process, job or node", 0, 0, ZN_OPTION_ANYWHERE,
		"how fine /metrics and OTLP are"},
	{"alerts", set_path, AT(alerts), "FILE", NULL, "the path of a file", 0, 0, ZN_OPTION_ANYWHERE,
		"further alert rules, docs/ALERTS.md; HUP rereads it"},
	{"control", set_place, AT(control), "PATH", ZN_CONTROL_PATH, "an absolute path of up to 107 bytes, or none", 0,
		sizeof(((struct sockaddr_un *)0)->sun_path), ZN_OPTION_ANYWHERE, "socket for zernel job"},
	{"report-dir", set_place, AT(report_dir), "DIR", ZN_OPTION_REPORT_PATH, "an absolute path, or none", 0, 0,
		ZN_OPTION_ANYWHERE, "keep reports of jobs here"},
	{"alertmanager", set_urls, AT(alertmanager), "URL[,...]", NULL, "up to 4 URLs " URLS, 0, ZN_URLS_MAX,
		ZN_OPTION_ANYWHERE, "tell these Alertmanagers of alerts"},
	{"webhook", set_urls, AT(webhook), "URL", NULL, "a URL " URLS, 0, 1, ZN_OPTION_ANYWHERE,
		"post alerts here as they change"},
	{"notify-repeat-ms", set_number, AT(notify_repeat_ms), "N", "60000", "a number of milliseconds", 1000, 3600000,
		ZN_OPTION_ANYWHERE, "tell Alertmanagers again this often"},
	{"otlp", set_urls, AT(otlp), "URL", NULL, "a URL " URLS, 0, 1, ZN_OPTION_ANYWHERE,
		"push all metrics here by OTLP"},
	{"otlp-interval-ms", set_number, AT(otlp_interval_ms), "N", "15000", "a number of milliseconds", 1000, 3600000,
		ZN_OPTION_ANYWHERE, "push them this often"},
	{"dcgm", set_urls, AT(dcgm), "URL", NULL, "a URL " URLS, 0, 1, ZN_OPTION_ANYWHERE,
		"ask this dcgm-exporter; docs/HARDWARE.md"},
	{"outbound-token-file", set_path, AT(outbound_token_file), "FILE", NULL, "the path of a file", 0, 0,
		ZN_OPTION_ANYWHERE, "bearer token to send there; HUP rereads it"},
	{"simulate", set_flag, AT(simulate), .is = "yes or no", .where = ZN_OPTION_ANYWHERE,
		.help = "show made-up figures, marked as such; needs no GPU"},
	{"simulate-seed", set_number, AT(simulate_seed), "N", "1", "a number", 0, UINT64_MAX, ZN_OPTION_ANYWHERE,
		"equal seeds give equal figures"},
	{"simulate-scenario", set_scenario, AT(simulate_scenario), "NAME", "mixed",
		"a scenario; zerneld --help names them", 0, 0, ZN_OPTION_ANYWHERE, "what goes wrong in it: below"},
	{"simulate-cycle-s", set_cycle, AT(simulate_cycle_s), "N", "auto",
		"a number of seconds from 10 to 86400, or auto", CYCLE_MIN_S, CYCLE_MAX_S, ZN_OPTION_ANYWHERE,
		"good in the first half of this"},
	{"config", set_file, AT(config), "FILE", NULL, "a file", 0, 0, ZN_OPTION_ENVIRONMENT | ZN_OPTION_ARGUMENTS,
		"read this file and not " ZN_OPTION_DEFAULT_FILE},
	ACTION("check", check, "say what would work on this machine, and exit"),
	ACTION("list-metrics", list_metrics, "list the metrics, and exit"),
	ACTION("list-probes", list_probes, "list hooked functions and places, and exit"),
	ACTION("version", version, "show the version, and exit"),
	ACTION("help", help, "show this text, and exit"),
};

const size_t zn_option_count = ZN_LEN(zn_option_table);

void zn_option_range(const struct zn_option *opt, char *to, size_t cap)
{
	to[0] = '\0';
	if (opt->set == set_number)
		snprintf(to, cap, ": %" PRIu64 " to %" PRIu64, opt->min, opt->max);
}

#define HELP_COLUMNS 79
#define LEFT_BYTES   64

static void help_scenarios(FILE *to)
{
	int at = fprintf(to, "\nScenarios:") - 1;

	for (size_t i = 0; i < ZN_LEN(scenarios); i++) {
		if (at + 1 + (int)strlen(scenarios[i]) > HELP_COLUMNS)
			at = fprintf(to, "\n ") - 1;
		at += fprintf(to, " %s", scenarios[i]);
	}
	fputs("\n", to);
}

void zn_options_help(FILE *to)
{
	char left[LEFT_BYTES];

	fputs("Usage: zerneld [--OPTION VALUE]...\n"
	      "Shows what machine-learning jobs do on this node.\n\n",
		to);
	for (size_t i = 0; i < zn_option_count; i++) {
		const struct zn_option *opt = &zn_option_table[i];

		snprintf(left, sizeof(left), "--%s%s%s", opt->name, opt->argument ? " " : "",
			opt->argument ? opt->argument : "");
		fprintf(to, "  %-24s %s", left, opt->help);
		fprintf(to, opt->initial ? " (%s)\n" : "\n", opt->initial);
	}
	help_scenarios(to);
	fputs("\nDefaults are in brackets. All but what exits may also stand in the environment\n"
	      "(--metrics-port is " ZN_OPTION_PREFIX
	      "METRICS_PORT), and all of that but --config in\n" ZN_OPTION_DEFAULT_FILE
	      ", a line \"name = value\" each; # starts a comment. Flags are yes\n"
	      "or no there. The environment wins over the file, the command line over both.\n" ZN_OPTION_PREFIX
	      "LOG is error, warn, info or debug (info).\n",
		to);
}
