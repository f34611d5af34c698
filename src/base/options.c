/* SPDX-License-Identifier: GPL-2.0 */
/*
 * options.c: the settings of the daemon, from a file, the environment and the command line. Each option is one row of
 * a table; a value is checked by the same function wherever it stands. All of it may be hostile: the file is read up
 * to 16 KiB, and what an error line shows of it is short and printable.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "zernel.h"

#define CYCLE_MIN_S    10
#define CYCLE_MAX_S    86400
#define KMSG_PATH      "/dev/kmsg"
#define REPORT_PATH    "/var/lib/zernel/jobs"
#define TABLE_CPUS_MAX 8192 /* NR_CPUS of any distribution's kernel */
#define DEFAULT_FILE   "/etc/zernel.conf"
#define PREFIX         "ZERNEL_"
#define UNIX           "unix:"
#define FILE_BYTES     (16 * 1024)
#define NAME_BYTES     32
#define SHOWN_BYTES    64 /* of somebody else's text in an error line, "..." and NUL included */
#define NEAR           2  /* edits that still make a suggestion */
#define PPM_DECIMALS   4  /* of a percentage: one part per million */

enum origin { IN_FILE = 1, IN_ENVIRONMENT = 2, IN_ARGUMENTS = 4, ANYWHERE = 7 };

struct option {
	const char *name;
	bool (*set)(const struct option *opt, void *field, const char *value); /* false: the value is bad */
	size_t offset;
	const char *argument; /* in the help; NULL: a flag */
	const char *initial;  /* NULL: zero */
	const char *is;       /* ends "'value' is not ..." */
	uint64_t min, max;    /* of a number */
	enum origin where;
	const char *help;
};

/* Where reading stands. */
struct reader {
	struct zn_options *o;
	enum origin from;
	const char *file;
	unsigned line;
	struct zn_str given; /* the name as the user wrote it */
	char *why;
};

static bool set_flag(const struct option *opt, void *field, const char *value)
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

static bool set_number(const struct option *opt, void *field, const char *value)
{
	uint64_t v;
	const char *end = read_digits(value, &v);

	if (!end || *end || v < opt->min || v > opt->max)
		return false;
	*(uint64_t *)field = v;
	return true;
}

static bool set_cycle(const struct option *opt, void *field, const char *value)
{
	if (strcmp(value, "auto"))
		return set_number(opt, field, value);
	*(uint64_t *)field = 0;
	return true;
}

/* A percentage, as parts per million. */
static bool set_percent(const struct option *opt, void *field, const char *value)
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

static bool set_families(const struct option *opt, void *field, const char *value)
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

static bool set_majors(const struct option *opt, void *field, const char *value)
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

static bool set_scenario(const struct option *opt, void *field, const char *value)
{
	(void)opt;
	return set_word(field, value, scenarios, ZN_LEN(scenarios));
}

static bool set_method(const struct option *opt, void *field, const char *value)
{
	static const char *const name[] = {"auto", "fentry", "kprobe", "tracepoint"}; /* enum zn_probe_method */

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool set_user_libraries(const struct option *opt, void *field, const char *value)
{
	static const char *const name[] = {"safe", "all", "none"}; /* enum zn_user_libraries */

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool set_switch(const struct option *opt, void *field, const char *value)
{
	static const char *const name[] = {"off", "on"};

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool set_stacks(const struct option *opt, void *field, const char *value)
{
	static const char *const name[] = {"off", "python"};

	(void)opt;
	return set_word(field, value, name, ZN_LEN(name));
}

static bool set_series(const struct option *opt, void *field, const char *value)
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
static bool set_listen(const struct option *opt, void *field, const char *value)
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

static bool set_origins(const struct option *opt, void *field, const char *value)
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

static bool set_host_names(const struct option *opt, void *field, const char *value)
{
	(void)opt;
	return check_each(value, is_host_name) && copy_text(field, value);
}

static bool is_url(struct zn_str item)
{
	return !zn_url_read(&(struct zn_url){0}, item);
}

/* Reads a list of at most opt->max URLs; "none" is an empty list. */
static bool set_urls(const struct option *opt, void *field, const char *value)
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
static bool set_path(const struct option *opt, void *field, const char *value)
{
	(void)opt;
	return *value && copy_text(field, value);
}

/* An absolute path, shorter than opt->max if that is not 0; "none": empty. */
static bool set_place(const struct option *opt, void *field, const char *value)
{
	if (!strcmp(value, "none"))
		return copy_text(field, "");
	return *value == '/' && (!opt->max || strlen(value) < opt->max) && copy_text(field, value);
}

static bool set_file(const struct option *opt, void *field, const char *value)
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
		name_, set_flag, AT(field), .is = "yes or no", .where = IN_ARGUMENTS, .help = help_                    \
	}

static const struct option options[] = {
	{"metrics-port", set_number, AT(metrics_port), "PORT", "9091", "a port", 0, 65535, ANYWHERE,
		"of /metrics, /json and the dashboard; 0: any"},
	{"ws-port", set_number, AT(ws_port), "PORT", "9092", "a port", 0, 65535, ANYWHERE, "of the WebSocket; 0: any"},
	{"listen", set_listen, AT(listen), "ADDR[,ADDR]", "*",
		"up to 8 of *, IPv4 and IPv6 addresses, unix:/PATH, with commas between them; * stands for all addresses",
		0, 0, ANYWHERE, "listen on these, unix:/PATH too; *: all addresses"},
	{"host-names", set_host_names, AT(host_names), "NAME[,NAME]", NULL,
		"names of this node with commas between them; .example.org: all under it", 0, 0, ANYWHERE,
		"further names by which this node is asked"},
	{"ws-origin", set_origins, AT(ws_origin), "ORIGIN[,...]", NULL,
		"origins as browsers send them, with commas between them: http:// or https://, host in lower case, no path",
		0, 0, ANYWHERE, "let these pages' scripts open the WebSocket"},
	{"token-file", set_path, AT(token_file), "FILE", NULL, "the path of a file", 0, 0, ANYWHERE,
		"ask for a bearer token of this file; HUP rereads it"},
	{"max-connections", set_number, AT(max_connections), "N", "1024", "a number of connections", 16, ZN_CONNS_MAX,
		ANYWHERE, "refuse further clients with 503"},
	{"max-connections-per-peer", set_number, AT(max_connections_per_peer), "N", "512", "a number of connections", 1,
		ZN_CONNS_MAX, ANYWHERE, "the same for one address"},
	{"push-interval-ms", set_number, AT(push_interval_ms), "N", "1000", "a number of milliseconds", 100, 60000,
		ANYWHERE, "take rates and push snapshots this often"},
	{"probes", set_families, AT(families), "LIST", "all",
		"all, none, or some of these with commas between them:" ZN_FAMILIES(FAMILY) ZN_KERNEL_FAMILIES(FAMILY),
		0, 0, ANYWHERE, "all, none, or families, as in --list-probes"},
	{"gpu-majors", set_majors, AT(gpu_majors), "LIST", NULL,
		"one or more device numbers from 1 to 511 with commas between them", 1, 511, ANYWHERE,
		"majors of GPU devices; else as in /proc/devices"},
	{"tier", set_method, AT(method), "WAY", "auto", "auto, fentry, kprobe or tracepoint", 0, 0, ANYWHERE,
		"count file I/O and TCP so"},
	{"libraries", set_path, AT(libraries), "LIST", NULL, "paths with commas between them", 0, 0, ANYWHERE,
		"hook these at the start, for good"},
	{"user-libraries", set_user_libraries, AT(user_libraries), "WHICH", "safe", "safe, all or none", 0, 0, ANYWHERE,
		"hook those of users; docs/SECURITY.md"},
	{"table-cpus", set_number, AT(table_cpus), "N", "0", "a number of CPUs", 0, TABLE_CPUS_MAX, ANYWHERE,
		"size tables as for so many; 0: all there may be"},
	{"kmsg", set_place, AT(kmsg), "FILE", KMSG_PATH, "an absolute path, or none", 0, 0, ANYWHERE,
		"the kernel's log: errors of GPUs"},
	{"sysfs", set_place, AT(sysfs), "DIR", "/sys", "an absolute path, or none", 0, 0, ANYWHERE,
		"state of GPUs, energy; docs/HARDWARE.md"},
	{"stacks", set_stacks, AT(stacks), "WHICH", "python", "off or python", 0, 0, ANYWHERE,
		"name the lines of Python; docs/STACKS.md"},
	{"ras", set_switch, AT(ras), "SWITCH", "on", "on or off", 0, 0, ANYWHERE,
		"ask NCCL about jobs that hang; docs/WHY.md"},
	{"overhead-budget", set_percent, AT(overhead_budget), "SHARE", "1%", "a share of one core: 0%, for none, to 100%",
		0, 1000000, ANYWHERE, "keep the cost for a process below; docs/COST.md"},
	{"series", set_series, AT(series), "WHICH", "process", "process, job or node", 0, 0, ANYWHERE,
		"how fine /metrics and OTLP are"},
	{"alerts", set_path, AT(alerts), "FILE", NULL, "the path of a file", 0, 0, ANYWHERE,
		"further alert rules, docs/ALERTS.md; HUP rereads it"},
	{"control", set_place, AT(control), "PATH", ZN_CONTROL_PATH, "an absolute path of up to 107 bytes, or none", 0,
		sizeof(((struct sockaddr_un *)0)->sun_path), ANYWHERE, "socket for zernel job"},
	{"report-dir", set_place, AT(report_dir), "DIR", REPORT_PATH, "an absolute path, or none", 0, 0, ANYWHERE,
		"keep reports of jobs here"},
	{"alertmanager", set_urls, AT(alertmanager), "URL[,...]", NULL, "up to 4 URLs " URLS, 0, ZN_URLS_MAX, ANYWHERE,
		"tell these Alertmanagers of alerts"},
	{"webhook", set_urls, AT(webhook), "URL", NULL, "a URL " URLS, 0, 1, ANYWHERE,
		"post alerts here as they change"},
	{"notify-repeat-ms", set_number, AT(notify_repeat_ms), "N", "60000", "a number of milliseconds", 1000, 3600000,
		ANYWHERE, "tell Alertmanagers again this often"},
	{"otlp", set_urls, AT(otlp), "URL", NULL, "a URL " URLS, 0, 1, ANYWHERE, "push all metrics here by OTLP"},
	{"otlp-interval-ms", set_number, AT(otlp_interval_ms), "N", "15000", "a number of milliseconds", 1000, 3600000,
		ANYWHERE, "push them this often"},
	{"dcgm", set_urls, AT(dcgm), "URL", NULL, "a URL " URLS, 0, 1, ANYWHERE,
		"ask this dcgm-exporter; docs/HARDWARE.md"},
	{"outbound-token-file", set_path, AT(outbound_token_file), "FILE", NULL, "the path of a file", 0, 0, ANYWHERE,
		"bearer token to send there"},
	{"simulate", set_flag, AT(simulate), .is = "yes or no", .where = ANYWHERE,
		.help = "show made-up figures, marked as such; needs no GPU"},
	{"simulate-seed", set_number, AT(simulate_seed), "N", "1", "a number", 0, UINT64_MAX, ANYWHERE,
		"equal seeds give equal figures"},
	{"simulate-scenario", set_scenario, AT(simulate_scenario), "NAME", "mixed",
		"a scenario; zerneld --help names them", 0, 0, ANYWHERE, "what goes wrong in it: below"},
	{"simulate-cycle-s", set_cycle, AT(simulate_cycle_s), "N", "auto",
		"a number of seconds from 10 to 86400, or auto", CYCLE_MIN_S, CYCLE_MAX_S, ANYWHERE,
		"good in the first half of this"},
	{"config", set_file, AT(config), "FILE", NULL, "a file", 0, 0, IN_ENVIRONMENT | IN_ARGUMENTS,
		"read this file and not " DEFAULT_FILE},
	ACTION("check", check, "say what would work on this machine, and exit"),
	ACTION("list-metrics", list_metrics, "list the metrics, and exit"),
	ACTION("list-probes", list_probes, "list hooked functions and places, and exit"),
	ACTION("version", version, "show the version, and exit"),
	ACTION("help", help, "show this text, and exit"),
};

static const struct option *find_option(struct zn_str name, unsigned where)
{
	for (size_t i = 0; i < ZN_LEN(options); i++)
		if (options[i].where & where && strlen(options[i].name) == name.len &&
			!memcmp(options[i].name, name.at, name.len))
			return &options[i];
	return NULL;
}

/* How many characters must be added, taken out or changed to make one name of the other. */
static unsigned count_edits(struct zn_str given, const char *name)
{
	unsigned row[NAME_BYTES], len = (unsigned)strlen(name);

	for (unsigned j = 0; j <= len; j++)
		row[j] = j;
	for (unsigned i = 0; i < given.len; i++) {
		unsigned diagonal = row[0];

		row[0] = i + 1;
		for (unsigned j = 1; j <= len; j++) {
			unsigned best = diagonal + (given.at[i] != name[j - 1]);

			diagonal = row[j];
			if (best > row[j] + 1)
				best = row[j] + 1;
			if (best > row[j - 1] + 1)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[len];
}

/* The option that a name is the beginning of, or a slip away from. NULL: there is none. */
static const struct option *closest_option(struct zn_str name, unsigned where)
{
	const struct option *found = NULL;
	unsigned least = NEAR + 1;

	for (; name.len && *name.at == '-'; name.at++)
		name.len--;
	if (!name.len || name.len >= NAME_BYTES)
		return NULL;
	for (size_t i = 0; i < ZN_LEN(options); i++) {
		bool begins = !strncmp(options[i].name, name.at, name.len);
		unsigned distance = begins ? 1 : count_edits(name, options[i].name);

		if (!(options[i].where & where) || 2 * distance >= strlen(options[i].name))
			continue;
		/* of several that begin so, the shortest */
		if (distance < least || (begins && least == 1 && strlen(options[i].name) < strlen(found->name))) {
			least = distance;
			found = &options[i];
		}
	}
	return found;
}

static const char *show_text(char to[SHOWN_BYTES], struct zn_str text)
{
	size_t len = 0;

	to[0] = '\0';
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.at[i];
		bool printable = c >= 0x20 && c < 0x7f;

		if (len + (printable ? 1 : 4) > SHOWN_BYTES - sizeof("...")) {
			memcpy(to + len, "...", sizeof("..."));
			break;
		}
		len += (size_t)snprintf(to + len, SHOWN_BYTES - len, printable ? "%c" : "\\x%02x", c);
	}
	return to;
}

/* "<file>:<line>: <name>: <message>" with what there is of it; always -EINVAL. The parts before the message
 * take at most 141 bytes. */
__attribute__((format(printf, 2, 3))) static int fail(struct reader *r, const char *format, ...)
{
	char shown[SHOWN_BYTES];
	va_list args;
	int len = 0;

	r->why[0] = '\0';
	if (r->file)
		len += snprintf(r->why, ZN_TEXT_MAX, "%s:", show_text(shown, zn_str_of(r->file)));
	if (r->line)
		len += snprintf(r->why + len, ZN_TEXT_MAX - (size_t)len, "%u:", r->line);
	if (r->file)
		len += snprintf(r->why + len, ZN_TEXT_MAX - (size_t)len, " ");
	if (r->given.len)
		len += snprintf(r->why + len, ZN_TEXT_MAX - (size_t)len, "%s: ", show_text(shown, r->given));
	va_start(args, format);
	vsnprintf(r->why + len, ZN_TEXT_MAX - (size_t)len, format, args);
	va_end(args);
	return -EINVAL;
}

static int fail_unknown(struct reader *r, struct zn_str name)
{
	const struct option *near = closest_option(name, r->from);

	if (find_option(name, ANYWHERE))
		return fail(r, "works only on the command line");
	if (!near)
		return fail(r, "unknown option; --help lists them");
	return fail(r, "unknown option; did you mean %s%s?", r->from == IN_ARGUMENTS ? "--" : "", near->name);
}

/* An empty value counts as missing. */
static int fail_value(struct reader *r, const struct option *opt, const char *value)
{
	char shown[SHOWN_BYTES], range[SHOWN_BYTES] = "";

	if (opt->set == set_number)
		snprintf(range, sizeof(range), ": %" PRIu64 " to %" PRIu64, opt->min, opt->max);
	if (!value || !*value)
		return fail(r, "needs %s%s", opt->is, range);
	return fail(r, "'%s' is not %s%s", show_text(shown, zn_str_of(value)), opt->is, range);
}

static int take_value(struct reader *r, const struct option *opt, const char *value)
{
	return opt->set(opt, (char *)r->o + opt->offset, value) ? 0 : fail_value(r, opt, value);
}

static int read_defaults(struct zn_options *o, char *why)
{
	struct reader r = {.o = o, .from = IN_ARGUMENTS, .why = why};
	int err = 0;

	for (size_t i = 0; i < ZN_LEN(options) && !err; i++)
		if (options[i].initial)
			err = take_value(&r, &options[i], options[i].initial);
	return err;
}

/* Reads a whole file; its length, or -errno. */
static ssize_t read_text(const char *path, char *to, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	do {
		got = read(fd, to + len, cap - len);
		if (got > 0)
			len += (size_t)got;
	} while ((got > 0 && len < cap) || (got < 0 && errno == EINTR));
	got = got < 0 ? -errno : len == cap ? -EFBIG : (ssize_t)len;
	close(fd);
	return got;
}

/* Cuts a comment and the blanks around a line, in place. */
static char *trim_line(char *line)
{
	char *end, *from = line + strspn(line, " \t\r");

	for (end = from; *end; end++)
		if (*end == '#' && (end == from || strchr(" \t", end[-1])))
			break;
	while (end > from && strchr(" \t\r", end[-1]))
		end--;
	*end = '\0';
	return from;
}

static int read_line(struct reader *r, char *line)
{
	char *value;
	const struct option *opt;

	line = trim_line(line);
	if (!*line)
		return 0;
	r->given = (struct zn_str){line, strcspn(line, " \t=")};
	value = line + r->given.len;
	value += strspn(value, " \t");
	if (*value == '=')
		value++;
	value += strspn(value, " \t");
	opt = find_option(r->given, IN_FILE);
	return opt ? take_value(r, opt, value) : fail_unknown(r, r->given);
}

static int read_lines(struct reader *r, char *line, const char *end)
{
	int err = 0;

	for (char *next; line < end && !err; line = next + 1) {
		next = line + strcspn(line, "\n");
		r->line++;
		r->given.len = 0;
		if (!*next && next < end)
			return fail(r, "a NUL byte; this is no text");
		*next = '\0';
		err = read_line(r, line);
	}
	return err;
}

/* file: NULL for the default one, which need not exist. */
static int read_file(struct zn_options *o, const char *file, char *why)
{
	static char text[FILE_BYTES + 1];
	struct reader r = {.o = o, .from = IN_FILE, .file = file ? file : DEFAULT_FILE, .why = why};
	ssize_t len = read_text(r.file, text, FILE_BYTES);

	if (!file && (len == -ENOENT || len == -ENOTDIR))
		return 0;
	if (len == -EFBIG)
		return fail(&r, "larger than %d bytes", FILE_BYTES - 1);
	if (len < 0)
		return fail(&r, "cannot read it: %s", strerror((int)-len));
	text[len] = '\0';
	return read_lines(&r, text, text + len);
}

/* METRICS_PORT as metrics-port; empty if it cannot be the name of an option. */
static struct zn_str option_name(struct zn_str variable, char to[NAME_BYTES])
{
	if (variable.len >= NAME_BYTES)
		return (struct zn_str){to, 0};
	for (size_t i = 0; i < variable.len; i++) {
		char c = variable.at[i];

		to[i] = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : '?';
	}
	return (struct zn_str){to, variable.len};
}

/* An unknown variable is no error: a batch system may hand on names of its own. */
static int read_variable(struct reader *r, const char *variable)
{
	char name[NAME_BYTES], shown[SHOWN_BYTES];
	const struct option *opt, *near;
	struct zn_str wanted;

	r->given = (struct zn_str){variable, strcspn(variable, "=")};
	wanted = option_name((struct zn_str){variable + strlen(PREFIX), r->given.len - strlen(PREFIX)}, name);
	opt = find_option(wanted, IN_ENVIRONMENT);
	if (opt)
		return take_value(r, opt, variable + r->given.len + (variable[r->given.len] == '='));
	near = closest_option(wanted, IN_ENVIRONMENT);
	zn_log(ZN_WARN, "%s: unknown option, ignored%s%s%s", show_text(shown, r->given),
		near ? "; did you mean --" : "", near ? near->name : "", near ? "?" : "");
	return 0;
}

static int read_log_level(struct reader *r)
{
	const char *name = getenv(PREFIX "LOG");
	char shown[SHOWN_BYTES];
	int level;

	if (!name)
		return 0;
	level = zn_log_parse(name);
	r->given = zn_str_of(PREFIX "LOG");
	if (level < 0)
		return fail(r, "'%s' is not error, warn, info or debug", show_text(shown, zn_str_of(name)));
	zn_log_level = (enum zn_level)level;
	return 0;
}

static int read_environment(struct zn_options *o, char *why)
{
	struct reader r = {.o = o, .from = IN_ENVIRONMENT, .why = why};
	int err = read_log_level(&r);

	for (char **at = environ; at && *at && !err; at++)
		if (!strncmp(*at, PREFIX, strlen(PREFIX)) && strncmp(*at, PREFIX "LOG=", strlen(PREFIX "LOG=")))
			err = read_variable(&r, *at);
	return err;
}

/* Takes one option off the command line: how many arguments that were, 1 or 2, or -EINVAL. */
static int read_argument(struct reader *r, const char *arg, const char *next)
{
	size_t len = strcspn(arg, "=");
	const char *value = arg[len] ? arg + len + 1 : NULL;
	const struct option *opt = NULL;
	char shown[SHOWN_BYTES];
	int used = 1;

	if (*arg != '-')
		return fail(r, "'%s' is not an option; --help lists them", show_text(shown, zn_str_of(arg)));
	r->given = (struct zn_str){arg, len};
	if (!strncmp(arg, "--", 2))
		opt = find_option((struct zn_str){arg + 2, len - 2}, IN_ARGUMENTS);
	if (!opt)
		return fail_unknown(r, r->given);
	if (!value && !opt->argument) {
		value = "yes";
	} else if (!value) {
		value = next;
		used = 2;
	}
	if (!value)
		return fail_value(r, opt, NULL);
	return take_value(r, opt, value) ? -EINVAL : used;
}

static int read_arguments(struct zn_options *o, int argc, char **argv, char *why)
{
	struct reader r = {.o = o, .from = IN_ARGUMENTS, .why = why};

	for (int i = 1, used; i < argc; i += used) {
		r.given.len = 0;
		used = read_argument(&r, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
		if (used < 0)
			return used;
	}
	return 0;
}

static int check_ports(const struct zn_options *o, char *why)
{
	struct reader r = {.why = why};

	if (o->metrics_port != o->ws_port || !o->ws_port)
		return 0;
	return fail(&r,
		"--metrics-port and --ws-port are both %" PRIu64 ": they must differ, or be 0 for any free port",
		o->ws_port);
}

#define NOT_GIVEN "?" /* no place: they are absolute */

/* A simulation writes no files unless an option names a folder. */
static void settle_place(char place[ZN_TEXT_MAX], const char *initial, bool simulate)
{
	if (!strcmp(place, NOT_GIVEN))
		copy_text(place, simulate ? "" : initial);
}

/* The command line is read twice: at first for --config and --help, and at last because it has the last word.
 */
int zn_options_read(struct zn_options *o, const char *file, int argc, char **argv, char why[ZN_TEXT_MAX])
{
	struct zn_options first = {0};
	const char *variable = getenv(PREFIX "CONFIG");
	int err;

	*o = (struct zn_options){0};
	why[0] = '\0';
	if ((err = read_arguments(&first, argc, argv, why)) || (err = read_defaults(o, why)))
		return err;
	o->help = first.help;
	o->version = first.version;
	if (o->help || o->version)
		return 0;
	copy_text(o->control, NOT_GIVEN);
	copy_text(o->report_dir, NOT_GIVEN);
	file = first.config ? first.config : variable ? variable : file;
	if ((err = read_file(o, file, why)) || (err = read_environment(o, why)) ||
		(err = read_arguments(o, argc, argv, why)))
		return err;
	if (!o->stacks)
		o->families &= ~(1ULL << ZN_FAM_STACKS);
	settle_place(o->control, ZN_CONTROL_PATH, o->simulate);
	settle_place(o->report_dir, REPORT_PATH, o->simulate);
	return check_ports(o, why);
}

void zn_options_control(char to[ZN_TEXT_MAX])
{
	static struct zn_options o;
	const char *variable = getenv(PREFIX "CONTROL"), *file = getenv(PREFIX "CONFIG");
	char why[ZN_TEXT_MAX];

	read_defaults(&o, why);
	if (read_file(&o, file, why))
		read_defaults(&o, why);
	if (variable)
		set_place(find_option(zn_str_of("control"), ANYWHERE), o.control, variable);
	memcpy(to, o.control, ZN_TEXT_MAX);
}

#define HELP_COLUMNS 79

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
	char left[SHOWN_BYTES];

	fputs("Usage: zerneld [--OPTION VALUE]...\n"
	      "Shows what machine-learning jobs do on this node.\n\n",
		to);
	for (size_t i = 0; i < ZN_LEN(options); i++) {
		const struct option *opt = &options[i];

		snprintf(left, sizeof(left), "--%s%s%s", opt->name, opt->argument ? " " : "",
			opt->argument ? opt->argument : "");
		fprintf(to, "  %-24s %s", left, opt->help);
		fprintf(to, opt->initial ? " (%s)\n" : "\n", opt->initial);
	}
	help_scenarios(to);
	fputs("\nDefaults are in brackets. All but what exits may also stand in the environment\n"
	      "(--metrics-port is " PREFIX "METRICS_PORT), and all of that but --config in\n" DEFAULT_FILE
	      ", a line \"name = value\" each; # starts a comment. Flags are yes\n"
	      "or no there. The environment wins over the file, the command line over both.\n" PREFIX
	      "LOG is error, warn, info or debug (info).\n",
		to);
}
