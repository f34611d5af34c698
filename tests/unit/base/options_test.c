/* SPDX-License-Identifier: GPL-2.0 */
/*
 * options_test.c: every option from every source, which source wins, and what is said about bad ones. The
 * file is always one of the test's own, so that /etc/zernel.conf of the machine does not matter.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define WORDS_MAX 16

static struct zn_options o;
static char why[ZN_TEXT_MAX];
static char path[] = "/tmp/zn_options_XXXXXX";

static void write_file(const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(text, 1, len, f) != len || fclose(f))
		abort();
}

/* Cuts a text at its blanks, in place of a shell. */
static int split(char *text, char *words[WORDS_MAX])
{
	char *save = NULL;
	int count = 0;

	for (char *word = strtok_r(text, " ", &save); word && count < WORDS_MAX - 1; word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	words[count] = NULL;
	return count;
}

/* What is in the file, the environment and the command line; o and why hold the result. */
static int run(const char *file, const char *env, const char *args)
{
	static char env_text[512], args_text[512], *words[WORDS_MAX];
	int count;

	write_file(file, strlen(file));
	clearenv();
	snprintf(env_text, sizeof(env_text), "%s", env);
	count = split(env_text, words);
	for (int i = 0; i < count; i++)
		putenv(words[i]);
	snprintf(args_text, sizeof(args_text), "zerneld %s", args);
	count = split(args_text, words);
	memset(&o, 0xa5, sizeof(o));
	memset(why, 'x', sizeof(why));
	return zn_options_read(&o, path, count, words, why);
}

static void variable_of(char *to, size_t cap, const char *name, const char *value)
{
	snprintf(to, cap, "ZERNEL_%s=%s", name, value);
	for (char *at = to; *at != '='; at++)
		*at = *at == '-' ? '_' : *at >= 'a' && *at <= 'z' ? (char)(*at - 32) : *at;
}

#define AT(field) offsetof(struct zn_options, field)
#define IS_LISTEN                                                                                                      \
	"up to 8 of *, IPv4 and IPv6 addresses, unix:/PATH, with commas between them; * stands for all addresses"
#define IS_ORIGIN                                                                                                      \
	"origins as browsers send them, with commas between them: http:// or https://, host in lower case, no path"
#define NAME(e, name) " " name
#define IS_SCENARIO   "a scenario; zerneld --help names them"
#define IS_CONTROL    "an absolute path of up to 107 bytes, or none"
#define IS_NAMES      "names of this node with commas between them; .example.org: all under it"

enum kind { NUMBER, TEXT, FLAG };

static const struct good {
	const char *name, *value;
	enum kind kind;
	size_t at;
	uint64_t number; /* or the flag */
} good[] = {
	{"metrics-port", "0", NUMBER, AT(metrics_port), 0},
	{"metrics-port", "65535", NUMBER, AT(metrics_port), 65535},
	{"ws-port", "0", NUMBER, AT(ws_port), 0},
	{"ws-port", "00080", NUMBER, AT(ws_port), 80},
	{"push-interval-ms", "100", NUMBER, AT(push_interval_ms), 100},
	{"push-interval-ms", "60000", NUMBER, AT(push_interval_ms), 60000},
	{"simulate-seed", "18446744073709551615", NUMBER, AT(simulate_seed), UINT64_MAX},
	{"simulate-scenario", "mixed", NUMBER, AT(simulate_scenario), ZN_SCENARIO_MIXED},
	{"simulate-scenario", "losses", NUMBER, AT(simulate_scenario), ZN_SCENARIO_LOSSES},
	{"simulate-cycle-s", "10", NUMBER, AT(simulate_cycle_s), 10},
	{"simulate-cycle-s", "86400", NUMBER, AT(simulate_cycle_s), 86400},
	{"simulate-cycle-s", "auto", NUMBER, AT(simulate_cycle_s), 0},
	{"kmsg", "/tmp/log", TEXT, AT(kmsg), 0},
	{"sysfs", "/tmp/sys", TEXT, AT(sysfs), 0},
	{"dcgm", "http://127.0.0.1:9400/metrics", TEXT, AT(dcgm), 0},
	{"ras", "off", NUMBER, AT(ras), 0},
	{"ras", "on", NUMBER, AT(ras), 1},
	{"overhead-budget", "100%", NUMBER, AT(overhead_budget), 1000000},
	{"overhead-budget", "0.5%", NUMBER, AT(overhead_budget), 5000},
	{"overhead-budget", "12.0345%", NUMBER, AT(overhead_budget), 120345},
	{"overhead-budget", "0.0001%", NUMBER, AT(overhead_budget), 1},
	{"overhead-budget", "0%", NUMBER, AT(overhead_budget), 0},
	{"gpu-majors", "1", NUMBER, AT(gpu_majors), 2},
	{"table-cpus", "0", NUMBER, AT(table_cpus), 0},
	{"table-cpus", "8192", NUMBER, AT(table_cpus), 8192},
	{"gpu-majors", "1,3,63", NUMBER, AT(gpu_majors), 1ULL << 63 | 10},
	{"rdma-majors", "231", NUMBER, AT(rdma_majors[3]), 1ULL << 39},
	{"gpu-majors", "195", NUMBER, AT(gpu_majors[3]), 8},
	{"gpu-majors", "511,1", NUMBER, AT(gpu_majors[7]), 1ULL << 63},
	{"uprobes", "auto", NUMBER, AT(two_links), 0},
	{"uprobes", "links", NUMBER, AT(two_links), 1},
	{"tier", "auto", NUMBER, AT(method), ZN_METHOD_NONE},
	{"tier", "kprobe", NUMBER, AT(method), ZN_METHOD_KPROBE},
	{"tier", "tracepoint", NUMBER, AT(method), ZN_METHOD_TRACEPOINT},
	{"probes", "all", NUMBER, AT(families), (1ULL << ZN_FAM_ALL) - 1},
	{"probes", "none", NUMBER, AT(families), 0},
	{"probes", "cuda", NUMBER, AT(families), 1ULL << ZN_FAM_CUDA_TRACE},
	{"probes", "nccl,gpu_mem", NUMBER, AT(families), 1ULL << ZN_FAM_NCCL | 1ULL << ZN_FAM_GPU_MEM},
	{"probes", "gpu,cuda_trace,gpu", NUMBER, AT(families), 1ULL << ZN_FAM_CUDA_TRACE | 1ULL << ZN_FAM_GPU_MEM},
	{"listen", "*", TEXT, AT(listen), 0},
	{"listen", "127.0.0.1", TEXT, AT(listen), 0},
	{"listen", "127.0.0.1,::1,2001:db8::7", TEXT, AT(listen), 0},
	{"listen", "1.1.1.1,2.2.2.2,3.3.3.3,4.4.4.4,::5,::6,::7,::8", TEXT, AT(listen), 0},
	{"listen", "unix:/run/zernel/metrics.sock", TEXT, AT(listen), 0},
	{"listen", "*,unix:/run/a.sock", TEXT, AT(listen), 0},
	{"listen", "unix:/a,127.0.0.1,unix:/b", TEXT, AT(listen), 0},
	{"listen", "*,unix:/2,unix:/3,unix:/4,unix:/5,unix:/6,unix:/7", TEXT, AT(listen), 0},
	{"listen",
		"unix:/"
		"23456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-1234567",
		TEXT, AT(listen), 0},
	{"host-names", "node7", TEXT, AT(host_names), 0},
	{"host-names", "node7.Cluster.example,.cluster.example,login.example.", TEXT, AT(host_names), 0},
	{"token-file", "/etc/zernel/tokens", TEXT, AT(token_file), 0},
	{"token-file", "x", TEXT, AT(token_file), 0},
	{"control", "/run/z/c.sock", TEXT, AT(control), 0},
	{"control",
		"/"
		"23456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-1234567",
		TEXT, AT(control), 0},
	{"report-dir", "/srv/jobs", TEXT, AT(report_dir), 0},
	{"alerts", "/etc/zernel.rules", TEXT, AT(alerts), 0},
	{"alertmanager", "http://a:9093,http://[::1]/x", TEXT, AT(alertmanager), 0},
	{"webhook", "http://u:p@a/x?y", TEXT, AT(webhook), 0},
	{"otlp", "http://a:4318", TEXT, AT(otlp), 0},
	{"outbound-token-file", "/etc/token", TEXT, AT(outbound_token_file), 0},
	{"max-connections", "16", NUMBER, AT(max_connections), 16},
	{"max-connections", "8192", NUMBER, AT(max_connections), 8192},
	{"max-connections-per-peer", "1", NUMBER, AT(max_connections_per_peer), 1},
	{"max-connections-per-peer", "8192", NUMBER, AT(max_connections_per_peer), 8192},
	{"ws-origin", "http://a.example,https://b.example:8443,http://[::1]", TEXT, AT(ws_origin), 0},
	{"ws-origin", "https://grafana.example.org", TEXT, AT(ws_origin), 0},
	{"ws-origin", "http://[::1]:3000", TEXT, AT(ws_origin), 0},
	{"simulate", "yes", FLAG, AT(simulate), 1},
	{"simulate", "true", FLAG, AT(simulate), 1},
	{"simulate", "1", FLAG, AT(simulate), 1},
	{"simulate", "no", FLAG, AT(simulate), 0},
	{"simulate", "false", FLAG, AT(simulate), 0},
	{"simulate", "0", FLAG, AT(simulate), 0},
};

static void check_field(const struct good *g)
{
	const char *field = (const char *)&o + g->at;

	if (g->kind == TEXT)
		CHECK_STR(field, g->value);
	else if (g->kind == FLAG)
		CHECK_EQ(*(const bool *)field, g->number);
	else
		CHECK_EQ(*(const uint64_t *)field, g->number);
}

static void good_values(void)
{
	static const char *const lines[] = {"%s = %s\n", "%s %s", "%s=%s", "\t%s\t=\t%s \r\n", "#\n\n%s  %s # why\n"};
	static const char *const words[] = {"--%s %s", "--%s=%s"};
	char text[256];

	for (size_t i = 0; i < ZN_LEN(good); i++) {
		const struct good *g = &good[i];

		t_begin(g->value);
		for (size_t j = 0; j < ZN_LEN(lines); j++) {
			snprintf(text, sizeof(text), lines[j], g->name, g->value);
			CHECK_EQ(run(text, "", ""), 0);
			check_field(g);
		}
		for (size_t j = g->kind == FLAG; j < ZN_LEN(words); j++) {
			snprintf(text, sizeof(text), words[j], g->name, g->value);
			CHECK_EQ(run("", "", text), 0);
			check_field(g);
		}
		variable_of(text, sizeof(text), g->name, g->value);
		CHECK_EQ(run("", text, ""), 0);
		check_field(g);
		CHECK_STR(why, "");
	}
}

T(defaults)
{
	CHECK_EQ(run("", "", ""), 0);
	CHECK_EQ(o.metrics_port, 9091);
	CHECK_EQ(o.ws_port, 9092);
	CHECK_EQ(o.push_interval_ms, 1000);
	CHECK_EQ(o.overhead_budget, 10000);
	CHECK_EQ(o.simulate_seed, 1);
	CHECK_EQ(o.families, (1 << ZN_FAM_ALL) - 1);
	CHECK_STR(o.listen, "*");
	CHECK_STR(o.ws_origin, "");
	CHECK_STR(o.host_names, "");
	CHECK_STR(o.token_file, "");
	CHECK_EQ(o.max_connections, 1024);
	CHECK_EQ(o.max_connections_per_peer, 512);
	CHECK(!o.config);
	CHECK(!o.simulate && !o.check && !o.list_metrics && !o.list_probes && !o.version && !o.help);
}

T(paths_of_the_file_stay)
{
	CHECK_EQ(run("token-file /a/b # c\n", "", ""), 0);
	CHECK_STR(o.token_file, "/a/b");
	CHECK_EQ(run("", "", ""), 0);
	CHECK_STR(o.token_file, "");
}

T(actions)
{
	static const struct {
		const char *arg;
		size_t at;
	} action[] = {{"--check", AT(check)}, {"--list-metrics", AT(list_metrics)}, {"--list-probes", AT(list_probes)},
		{"--version", AT(version)}, {"--help", AT(help)}, {"--simulate", AT(simulate)}};

	for (size_t i = 0; i < ZN_LEN(action); i++) {
		CHECK_EQ(run("", "", action[i].arg), 0);
		for (size_t j = 0; j < ZN_LEN(action); j++)
			CHECK_EQ(*((const bool *)&o + action[j].at), i == j);
	}
	CHECK_EQ(run("", "", "--check --simulate"), 0);
	CHECK(o.check && o.simulate);
}

T(help_and_version_read_nothing_else)
{
	CHECK_EQ(run("nonsense\n", "ZERNEL_WS_PORT=x", "--help"), 0);
	CHECK(o.help);
	CHECK_EQ(run("nonsense\n", "ZERNEL_WS_PORT=x", "--version"), 0);
	CHECK(o.version);
	CHECK_EQ(run("", "", "--help --bogus"), -EINVAL);
}

T(later_sources_win)
{
	const char *file = "ws-port 1001\nws-port 1002\nsimulate yes\n";

	CHECK_EQ(run(file, "", ""), 0);
	CHECK_EQ(o.ws_port, 1002);
	CHECK(o.simulate);
	CHECK_EQ(run(file, "ZERNEL_WS_PORT=1003", ""), 0);
	CHECK_EQ(o.ws_port, 1003);
	CHECK_EQ(run(file, "ZERNEL_WS_PORT=1003 ZERNEL_SIMULATE=no", "--ws-port=1004 --ws-port 1005"), 0);
	CHECK_EQ(o.ws_port, 1005);
	CHECK(!o.simulate);
	CHECK_EQ(run(file, "", "--simulate=no"), 0);
	CHECK(!o.simulate);
}

T(any_free_port_may_be_asked_for_twice)
{
	CHECK_EQ(run("", "", "--metrics-port 0 --ws-port 0"), 0);
	CHECK_EQ(o.metrics_port, 0);
	CHECK_EQ(o.ws_port, 0);
}

T(config_names_the_file)
{
	char own[] = "/tmp/zn_options2_XXXXXX", text[64];
	int fd = mkstemp(own);

	CHECK_EQ(write(fd, "ws-port 7\n", 10), 10);
	snprintf(text, sizeof(text), "--config %s", own);
	CHECK_EQ(run("ws-port 8\n", "ZERNEL_CONFIG=/nowhere", text), 0);
	CHECK_EQ(o.ws_port, 7);
	CHECK_STR(o.config, own);
	snprintf(text, sizeof(text), "ZERNEL_CONFIG=%s", own);
	CHECK_EQ(run("ws-port 8\n", text, ""), 0);
	CHECK_EQ(o.ws_port, 7);
	CHECK_STR(o.config, own);
	CHECK_EQ(run("ws-port 8\n", text, "--ws-port 9"), 0);
	CHECK_EQ(o.ws_port, 9);
	close(fd);
	unlink(own);
}

static const struct {
	const char *name, *file, *env, *args;
	const char *want; /* %s: the file */
} lines[] = {
	{"positional", "", "", "status", "'status' is not an option; --help lists them"},
	{"positional after an option", "", "", "--simulate yes", "'yes' is not an option; --help lists them"},
	{"typo", "", "", "--metric-port 1", "--metric-port: unknown option; did you mean --metrics-port?"},
	{"typo with a value", "", "", "--ws_port=1", "--ws_port: unknown option; did you mean --ws-port?"},
	{"beginning", "", "", "--over 1%", "--over: unknown option; did you mean --overhead-budget?"},
	{"letter", "", "", "-h", "-h: unknown option; did you mean --help?"},
	{"nothing near", "", "", "--frobnicate", "--frobnicate: unknown option; --help lists them"},
	{"dashes", "", "", "--", "--: unknown option; --help lists them"},
	{"dash", "", "", "-", "-: unknown option; --help lists them"},
	{"empty name", "", "", "--=x", "--: unknown option; --help lists them"},
	{"value missing", "", "", "--ws-port", "--ws-port: needs a port: 0 to 65535"},
	{"value empty", "", "", "--listen=", "--listen: needs " IS_LISTEN},
	{"flag with a bad value", "", "", "--check=maybe", "--check: 'maybe' is not yes or no"},
	{"no file", "", "", "--config /nowhere/x", "/nowhere/x: cannot read it: No such file or directory"},
	{"no file in the environment", "", "ZERNEL_CONFIG=/nowhere/x", "",
		"/nowhere/x: cannot read it: No such file or directory"},
	{"file without name", "", "ZERNEL_CONFIG=", "", ": cannot read it: No such file or directory"},
	{"folder", "", "", "--config /tmp", "/tmp: cannot read it: Is a directory"},
	{"endless file", "", "", "--config /dev/zero", "/dev/zero: larger than 16383 bytes"},
	{"line number", "#\n\nws-port 1\nws-port x\n", "", "", "%s:4: ws-port: 'x' is not a port: 0 to 65535"},
	{"typo in the file", "wsport 1", "", "", "%s:1: wsport: unknown option; did you mean ws-port?"},
	{"dashes in the file", "--ws-port 1", "", "", "%s:1: --ws-port: unknown option; did you mean ws-port?"},
	{"no value in the file", "simulate\n", "", "", "%s:1: simulate: needs yes or no"},
	{"no token file", "", "", "--token-file=", "--token-file: needs the path of a file"},
	{"socket path too long", "", "",
		"--listen "
		"unix:/23456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-"
		"12345678",
		"--listen: 'unix:/23456789-123456789-123456789-123456789-123456789-12345...' is not " IS_LISTEN},
	{"control socket's path too long", "", "",
		"--control "
		"/23456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-123456789-12345678",
		"--control: '/23456789-123456789-123456789-123456789-123456789-123456789-...' is not " IS_CONTROL},
	{"only a comment as value", "simulate = # yes\n", "", "", "%s:1: simulate: needs yes or no"},
	{"no name in the file", "= 7\n", "", "", "%s:1: unknown option; --help lists them"},
	{"two values in the file", "ws-port 1 2\n", "", "", "%s:1: ws-port: '1 2' is not a port: 0 to 65535"},
	{"action in the file", "check yes\n", "", "", "%s:1: check: works only on the command line"},
	{"config in the file", "config /x\n", "", "", "%s:1: config: works only on the command line"},
	{"log level", "", "ZERNEL_LOG=loud", "", "ZERNEL_LOG: 'loud' is not error, warn, info or debug"},
	{"equal ports", "", "", "--ws-port 9091",
		"--metrics-port and --ws-port are both 9091: they must differ, or be 0 for any free port"},
	{"equal ports of two sources", "ws-port 5\n", "ZERNEL_METRICS_PORT=5", "",
		"--metrics-port and --ws-port are both 5: they must differ, or be 0 for any free port"},
};

static void error_lines(void)
{
	char want[ZN_TEXT_MAX];

	for (size_t i = 0; i < ZN_LEN(lines); i++) {
		t_begin(lines[i].name);
		snprintf(want, sizeof(want), lines[i].want, path);
		CHECK_EQ(run(lines[i].file, lines[i].env, lines[i].args), -EINVAL);
		CHECK_STR(why, want);
	}
}

static const struct {
	const char *name, *value, *is;
} bad[] = {
	{"metrics-port", "65536", "a port: 0 to 65535"},
	{"metrics-port", "-1", "a port: 0 to 65535"},
	{"metrics-port", "+1", "a port: 0 to 65535"},
	{"metrics-port", "0x50", "a port: 0 to 65535"},
	{"ws-port", "80.0", "a port: 0 to 65535"},
	{"ws-port", "18446744073709551696", "a port: 0 to 65535"},
	{"push-interval-ms", "99", "a number of milliseconds: 100 to 60000"},
	{"push-interval-ms", "60001", "a number of milliseconds: 100 to 60000"},
	{"push-interval-ms", "1s", "a number of milliseconds: 100 to 60000"},
	{"simulate-seed", "18446744073709551616", "a number: 0 to 18446744073709551615"},
	{"simulate-seed", "x", "a number: 0 to 18446744073709551615"},
	{"simulate-scenario", "leak", IS_SCENARIO},
	{"simulate-cycle-s", "9", "a number of seconds from 10 to 86400, or auto"},
	{"simulate-cycle-s", "86401", "a number of seconds from 10 to 86400, or auto"},
	{"simulate", "on", "yes or no"},
	{"simulate", "YES", "yes or no"},
	{"table-cpus", "8193", "a number of CPUs: 0 to 8192"},
	{"gpu-majors", "0", "one or more device numbers from 1 to 511 with commas between them"},
	{"gpu-majors", "512", "one or more device numbers from 1 to 511 with commas between them"},
	{"gpu-majors", "1,", "one or more device numbers from 1 to 511 with commas between them"},
	{"gpu-majors", "1,,2", "one or more device numbers from 1 to 511 with commas between them"},
	{"gpu-majors", "nvidia", "one or more device numbers from 1 to 511 with commas between them"},
	{"gpu-majors", "195;226", "one or more device numbers from 1 to 511 with commas between them"},
	{"kmsg", "log", "an absolute path, or none"},
	{"sysfs", "sys", "an absolute path, or none"},
	{"ras", "yes", "on or off"},
	{"overhead-budget", "1", "a share of one core: 0%, for none, to 100%"},
	{"overhead-budget", "1.%", "a share of one core: 0%, for none, to 100%"},
	{"overhead-budget", ".5%", "a share of one core: 0%, for none, to 100%"},
	{"overhead-budget", "1%%", "a share of one core: 0%, for none, to 100%"},
	{"overhead-budget", "0.00001%", "a share of one core: 0%, for none, to 100%"},
	{"overhead-budget", "100.0001%", "a share of one core: 0%, for none, to 100%"},
	{"overhead-budget", "18446744073709551617%", "a share of one core: 0%, for none, to 100%"},
	{"overhead-budget", "1844674407370956%", "a share of one core: 0%, for none, to 100%"},
	{"listen", "localhost", IS_LISTEN},
	{"listen", "*,::1", IS_LISTEN},
	{"listen", "::1,", IS_LISTEN},
	{"listen", "1.2.3", IS_LISTEN},
	{"listen", "1.2.3.4:80", IS_LISTEN},
	{"listen", "::1,::2,::3,::4,::5,::6,::7,::8,::9", IS_LISTEN},
	{"ws-origin", "grafana.example.org", IS_ORIGIN},
	{"ws-origin", "https://", IS_ORIGIN},
	{"ws-origin", "https://a/", IS_ORIGIN},
	{"ws-origin", "https://A", IS_ORIGIN},
	{"ws-origin", "*", IS_ORIGIN},
	{"listen", "*,*", IS_LISTEN},
	{"listen", "*,unix:/2,unix:/3,unix:/4,unix:/5,unix:/6,unix:/7,unix:/8", IS_LISTEN},
	{"listen", "unix:", IS_LISTEN},
	{"listen", "unix:/", IS_LISTEN},
	{"listen", "unix:a", IS_LISTEN},
	{"listen", "unix:@a", IS_LISTEN},
	{"listen", "unix:/a,", IS_LISTEN},
	{"listen", "UNIX:/a", IS_LISTEN},
	{"host-names", ",", IS_NAMES},
	{"host-names", ".", IS_NAMES},
	{"host-names", "a,,b", IS_NAMES},
	{"host-names", "a..b", IS_NAMES},
	{"host-names", "a:80", IS_NAMES},
	{"host-names", "*.a", IS_NAMES},
	{"host-names", "http://a", IS_NAMES},
	{"max-connections", "15", "a number of connections: 16 to 8192"},
	{"max-connections", "8193", "a number of connections: 16 to 8192"},
	{"max-connections-per-peer", "0", "a number of connections: 1 to 8192"},
	{"max-connections-per-peer", "8193", "a number of connections: 1 to 8192"},
	{"ws-origin", "https://a,", IS_ORIGIN},
	{"control", "c.sock", IS_CONTROL},
	{"control", "None", IS_CONTROL},
	{"report-dir", "jobs", "an absolute path, or none"},
	{"alertmanager", "http://a,http://b,http://c,http://d,http://e",
		"up to 4 URLs http://HOST[:PORT][/PATH], or none; for https use a proxy on this node"},
	{"alertmanager", "http://a,",
		"up to 4 URLs http://HOST[:PORT][/PATH], or none; for https use a proxy on this node"},
	{"webhook", "https://a", "a URL http://HOST[:PORT][/PATH], or none; for https use a proxy on this node"},
	{"webhook", "http://a,http://b",
		"a URL http://HOST[:PORT][/PATH], or none; for https use a proxy on this node"},
	{"otlp", "a:4318", "a URL http://HOST[:PORT][/PATH], or none; for https use a proxy on this node"},
	{"ws-origin", "https://a,b", IS_ORIGIN},
	{"ws-origin", "https://a,,https://b", IS_ORIGIN},
	{"tier", "none", "auto, fentry, kprobe or tracepoint"},
	{"probes", "gpu,",
		"all, none, or some of these with commas between them: gpu cuda nccl sched dataload dist syscalls ioctl net vfs meta stacks requests"},
	{"probes", "gpu,all",
		"all, none, or some of these with commas between them: gpu cuda nccl sched dataload dist syscalls ioctl net vfs meta stacks requests"},
	{"probes", "cud",
		"all, none, or some of these with commas between them: gpu cuda nccl sched dataload dist syscalls ioctl net vfs meta stacks requests"},
};

static void bad_values(void)
{
	char text[256], want[2 * ZN_TEXT_MAX], is[ZN_TEXT_MAX];

	for (size_t i = 0; i < ZN_LEN(bad); i++) {
		t_begin(bad[i].value);
		snprintf(is, sizeof(is), "'%s' is not %s", bad[i].value, bad[i].is);
		snprintf(text, sizeof(text), "--%s=%s", bad[i].name, bad[i].value);
		snprintf(want, sizeof(want), "--%s: %s", bad[i].name, is);
		CHECK_EQ(run("", "", text), -EINVAL);
		CHECK_STR(why, want);
		snprintf(want, sizeof(want), "%s:1: %s: %s", path, bad[i].name, is);
		CHECK_EQ(run(text + 2, "", ""), -EINVAL);
		CHECK_STR(why, want);
		variable_of(text, sizeof(text), bad[i].name, bad[i].value);
		snprintf(want, sizeof(want), "%.*s: %s", (int)strcspn(text, "="), text, is);
		CHECK_EQ(run("", text, ""), -EINVAL);
		CHECK_STR(why, want);
	}
}

/* What a function writes to stderr. */
static size_t stderr_of(char *to, size_t cap, void (*call)(void))
{
	int saved = dup(STDERR_FILENO), fds[2];
	ssize_t len;

	if (saved < 0 || pipe(fds))
		abort();
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	call();
	dup2(saved, STDERR_FILENO);
	close(saved);
	len = read(fds[0], to, cap - 1);
	close(fds[0]);
	to[len > 0 ? len : 0] = '\0';
	return strlen(to);
}

static int environment_result;

static void foreign_variables(void)
{
	environment_result = run("",
		"ZERNEL_WS_PORTS=1 ZERNEL_FROM_BATCH=2 ZERNELD=3 ZERNEL_=4 ZERNEL_ws_port=5 ZERNEL_HELP=yes "
		"ZERNEL_WS_PORT=6",
		"");
}

T(unknown_variables_are_a_warning)
{
	char said[1024];

	stderr_of(said, sizeof(said), foreign_variables);
	CHECK_EQ(environment_result, 0);
	CHECK_EQ(o.ws_port, 6);
	CHECK(!o.help);
	CHECK_STR(said,
		"zerneld: warning: ZERNEL_WS_PORTS: unknown option, ignored; did you mean --ws-port?\n"
		"zerneld: warning: ZERNEL_FROM_BATCH: unknown option, ignored\n"
		"zerneld: warning: ZERNEL_: unknown option, ignored\n"
		"zerneld: warning: ZERNEL_ws_port: unknown option, ignored\n"
		"zerneld: warning: ZERNEL_HELP: unknown option, ignored\n");
}

static void variables_of_services(void)
{
	environment_result = run(
		"metrics-port 7", "ZERNEL_METRICS_PORT=tcp://10.96.0.17:9091 ZERNEL_WS_PORT=udp://[fd00::17]:9092", "");
}

T(variables_of_kubernetes_are_left_out)
{
	char said[1024];

	stderr_of(said, sizeof(said), variables_of_services);
	CHECK_EQ(environment_result, 0);
	CHECK_EQ(o.metrics_port, 7);
	CHECK_EQ(o.ws_port, 9092);
	CHECK_STR(said,
		"zerneld: warning: ZERNEL_METRICS_PORT: 'tcp://10.96.0.17:9091' is a variable of a Kubernetes service, "
		"ignored; enableServiceLinks: false takes it away\n"
		"zerneld: warning: ZERNEL_WS_PORT: 'udp://[fd00::17]:9092' is a variable of a Kubernetes service, "
		"ignored; enableServiceLinks: false takes it away\n");
}

T(what_only_resembles_them_is_an_error)
{
	static const char *const wrong[] = {"ZERNEL_METRICS_PORT=tcp:10.96.0.17:9091",
		"ZERNEL_METRICS_PORT=http://10.96.0.17:9091", "ZERNEL_METRICS_PORT=9091/tcp://",
		"ZERNEL_METRICS_PORT=", "ZERNEL_MAX_CONNECTIONS=tcp://10.96.0.17:9091",
		"ZERNEL_OTLP=tcp://10.96.0.17:9091"};

	for (size_t i = 0; i < ZN_LEN(wrong); i++)
		CHECK_EQ(run("", wrong[i], ""), -EINVAL);
	CHECK_EQ(run("metrics-port tcp://10.96.0.17:9091", "", ""), -EINVAL);
	CHECK_EQ(run("", "", "--metrics-port tcp://10.96.0.17:9091"), -EINVAL);
}

T(log_level)
{
	CHECK_EQ(run("", "ZERNEL_LOG=debug", ""), 0);
	CHECK_EQ(zn_log_level, ZN_DEBUG);
	CHECK_EQ(run("", "ZERNEL_LOG=error", ""), 0);
	CHECK_EQ(zn_log_level, ZN_ERROR);
	zn_log_level = ZN_INFO;
}

static void check_why(void)
{
	size_t len = strnlen(why, sizeof(why));

	CHECK(len > 0 && len < sizeof(why));
	for (size_t i = 0; i < len; i++)
		CHECK(why[i] >= 0x20 && why[i] < 0x7f);
}

T(bytes_are_shown_printable)
{
	char arg[] = "--ws-port=a\x1b[2J\xff\n'", *argv[] = {"zerneld", arg, NULL};
	char name[] = "--\x07\x80", *named[] = {"zerneld", name, NULL};
	char text[] = "--ws-port=?", *value[] = {"zerneld", text, NULL};

	run("", "", "");
	CHECK_EQ(zn_options_read(&o, path, 2, argv, why), -EINVAL);
	CHECK_STR(why, "--ws-port: 'a\\x1b[2J\\xff\\x0a'' is not a port: 0 to 65535");
	CHECK_EQ(zn_options_read(&o, path, 2, named, why), -EINVAL);
	CHECK_STR(why, "--\\x07\\x80: unknown option; --help lists them");
	for (int c = 1; c < 256; c++) {
		text[sizeof(text) - 2] = (char)c;
		if (c >= '0' && c <= '9')
			continue;
		CHECK_EQ(zn_options_read(&o, path, 2, value, why), -EINVAL);
		check_why();
	}
}

T(long_texts_are_cut)
{
	static char huge[200000];
	char *value[] = {"zerneld", "--listen", huge, NULL}, *name[] = {"zerneld", huge, NULL};
	char *config[] = {"zerneld", "--config", huge, NULL};

	run("", "", "");
	memset(huge, '-', sizeof(huge) - 1);
	CHECK_EQ(zn_options_read(&o, path, 2, name, why), -EINVAL);
	CHECK_STR(why,
		"------------------------------------------------------------...: unknown option; --help "
		"lists them");
	memset(huge, '\xee', sizeof(huge) - 1);
	CHECK_EQ(zn_options_read(&o, path, 3, value, why), -EINVAL);
	check_why();
	CHECK_EQ(zn_options_read(&o, path, 3, config, why), -EINVAL);
	check_why();
	memset(huge, 'a', sizeof(huge) - 1);
	memcpy(huge, "http://", 7);
	value[1] = "--ws-origin";
	CHECK_EQ(zn_options_read(&o, path, 3, value, why), -EINVAL);
	check_why();
	setenv("ZERNEL_PROBES", huge, 1);
	CHECK_EQ(zn_options_read(&o, path, 1, value, why), -EINVAL);
	check_why();
}

/* What a client takes for the control socket: variable and file are text of the environment and of a file. */
static void client_control(const char *want, const char *file, const char *variable)
{
	char to[ZN_TEXT_MAX];

	run(file, "", "");
	clearenv();
	setenv("ZERNEL_CONFIG", path, 1);
	if (variable)
		setenv("ZERNEL_CONTROL", variable, 1);
	memset(to, 'x', sizeof(to));
	zn_options_control(to);
	CHECK_STR(to, want);
}

T(clients_find_the_control_socket)
{
	client_control("/run/zernel/control.sock", "", NULL);
	client_control("/a", "control /a", NULL);
	client_control("/b", "control /a", "/b");
	client_control("", "control /a", "none");
	client_control("", "control none", NULL);
	client_control("/a", "control /a", "b");
	client_control("/run/zernel/control.sock", "contro /a", NULL);
	client_control("/run/zernel/control.sock", "control /a\ncontro /b", NULL);
}

T(places_may_be_none)
{
	CHECK_EQ(run("control none", "", "--report-dir=none"), 0);
	CHECK_STR(o.control, "");
	CHECK_STR(o.report_dir, "");
	CHECK_EQ(run("control none", "", "--control /a"), 0);
	CHECK_STR(o.control, "/a");
	CHECK_STR(o.report_dir, "/var/lib/zernel/jobs");
}

T(default_file_need_not_exist)
{
	char *argv[] = {"zerneld", NULL};

	run("", "", "");
	CHECK(!zn_options_read(&o, NULL, 1, argv, why) || !access("/etc/zernel.conf", F_OK));
}

T(no_arguments_at_all)
{
	char *none[] = {NULL};

	run("", "", "");
	CHECK_EQ(zn_options_read(&o, path, 0, none, why), 0);
	CHECK_EQ(o.ws_port, 9092);
}

/* Reads a file of any bytes as the configuration. */
static int run_bytes(const char *text, size_t len)
{
	char *argv[] = {"zerneld", NULL};

	write_file(text, len);
	return zn_options_read(&o, path, 1, argv, why);
}

T(file_of_any_size)
{
	static char text[20000];
	char want[ZN_TEXT_MAX];

	run("", "", "");
	memset(text, '\n', sizeof(text));
	memcpy(text + 16383 - 9, "ws-port 3", 9);
	CHECK_EQ(run_bytes(text, 16383), 0);
	CHECK_EQ(o.ws_port, 3);
	CHECK_EQ(run_bytes(text, 16384), -EINVAL);
	snprintf(want, sizeof(want), "%s: larger than 16383 bytes", path);
	CHECK_STR(why, want);
	memset(text, 'a', sizeof(text));
	CHECK_EQ(run_bytes(text, 16383), -EINVAL);
	check_why();
}

T(nul_bytes_are_refused)
{
	char want[ZN_TEXT_MAX];

	run("", "", "");
	snprintf(want, sizeof(want), "%s:2: a NUL byte; this is no text", path);
	CHECK_EQ(run_bytes("ws-port 1\nws-port 2\0", 20), -EINVAL);
	CHECK_STR(why, want);
	CHECK_EQ(run_bytes("\n\0", 2), -EINVAL);
	CHECK_STR(why, want);
}

T(any_bytes_are_survived)
{
	static const char seed[] = "ws-port = 1\n# x\nlisten ::1,1.2.3.4\nprobes gpu,cuda\noverhead-budget 2.5%\n";
	char text[sizeof(seed)];
	uint32_t state = 1;
	int refused = 0;

	run("", "", "");
	for (int round = 0; round < 3000; round++) {
		memcpy(text, seed, sizeof(seed));
		for (int i = 0; i < 1 + round % 3; i++) {
			state = state * 1664525 + 1013904223;
			text[(state >> 16) % (sizeof(seed) - 1)] = (char)(state >> 8);
		}
		if (!run_bytes(text, sizeof(seed) - 1))
			continue;
		refused++;
		check_why();
	}
	CHECK(refused > 1000);
}

T(help_names_every_option)
{
	static const char *const scenarios[] = {
#define X(e, name) name,
		ZN_SCENARIOS(X)
#undef X
	};
	static const char *const names[] = {"simulate", "simulate-seed", "simulate-scenario", "simulate-cycle-s",
		"metrics-port", "ws-port", "listen", "push-interval-ms", "probes", "tier", "ws-origin", "host-names",
		"token-file", "control", "report-dir", "max-connections", "max-connections-per-peer", "gpu-majors",
		"overhead-budget", "config", "check", "list-metrics", "list-probes", "version", "help", "alertmanager",
		"webhook", "notify-repeat-ms", "otlp", "otlp-interval-ms", "outbound-token-file", "alerts", "kmsg",
		"libraries", "user-libraries", "table-cpus", "ras", "stacks", "series", "sysfs", "dcgm", "rdma-majors",
		"uprobes"};
	char text[8192] = "", want[64];
	FILE *f = fmemopen(text, sizeof(text) - 1, "w");
	size_t count = 0;

	zn_options_help(f);
	fclose(f);
	for (size_t i = 0; i < ZN_LEN(names); i++) {
		snprintf(want, sizeof(want), "\n  --%s ", names[i]);
		CHECK(strstr(text, want));
	}
	for (const char *at = text; (at = strstr(at, "\n  --")); at++)
		count++;
	CHECK_EQ(count, ZN_LEN(names));
	for (size_t i = 0; i < ZN_LEN(scenarios); i++)
		CHECK(strstr(strstr(text, "\nScenarios:"), scenarios[i]));
	for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
		CHECK(strcspn(at, "\n") <= 80);
}

int main(void)
{
	int fd = mkstemp(path), status;

	if (fd < 0)
		return 1;
	close(fd);
	RUN(defaults);
	good_values();
	RUN(paths_of_the_file_stay);
	RUN(actions);
	RUN(help_and_version_read_nothing_else);
	RUN(later_sources_win);
	RUN(any_free_port_may_be_asked_for_twice);
	RUN(config_names_the_file);
	error_lines();
	bad_values();
	RUN(unknown_variables_are_a_warning);
	RUN(variables_of_kubernetes_are_left_out);
	RUN(what_only_resembles_them_is_an_error);
	RUN(log_level);
	RUN(bytes_are_shown_printable);
	RUN(long_texts_are_cut);
	RUN(clients_find_the_control_socket);
	RUN(places_may_be_none);
	RUN(default_file_need_not_exist);
	RUN(no_arguments_at_all);
	RUN(file_of_any_size);
	RUN(nul_bytes_are_refused);
	RUN(any_bytes_are_survived);
	RUN(help_names_every_option);
	status = t_end();
	unlink(path);
	return status;
}
