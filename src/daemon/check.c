/* SPDX-License-Identifier: GPL-2.0 */
/*
 * check.c: the limits under which --check looks. An administrator's shell may do more than zerneld.service, so
 * --check first asks systemd what it leaves the service (drop-ins included), reads its options, and takes the same
 * limits: capabilities, open files, and of its system-call filter those calls that the start needs and others do not.
 * Where systemd or the service is not there, nothing changes.
 */
#include <ctype.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zernel.h"

/* Capabilities as systemd writes them, after "cap_". */
static const char *const capability[CAP_LAST_CAP + 1] = {"chown", "dac_override", "dac_read_search", "fowner", "fsetid",
	"kill", "setgid", "setuid", "setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin",
	"net_raw", "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
	"sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod", "lease",
	"audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend",
	"audit_read", "perfmon", "bpf", "checkpoint_restore"};

/* System calls that the start needs and that filters like to leave out. */
static const struct {
	const char *name;
	int number;
} calls[ZN_SERVICE_CALLS] = {
	{"bpf", SYS_bpf},
	{"perf_event_open", SYS_perf_event_open},
	{"seccomp", SYS_seccomp},
	{"capset", SYS_capset},
	{"setgroups", SYS_setgroups},
	{"setresgid", SYS_setresgid},
	{"setresuid", SYS_setresuid},
	{"prlimit64", SYS_prlimit64},
	{"landlock_create_ruleset", SYS_landlock_create_ruleset},
	{"landlock_add_rule", SYS_landlock_add_rule},
	{"landlock_restrict_self", SYS_landlock_restrict_self},
};

/* ---- what systemd says: lines KEY=VALUE of `systemctl show` ---- */

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += len)
		if ((at == text || at[-1] == ' ' || at[-1] == '~') && (at[len] == ' ' || !at[len]))
			return true;
	return false;
}

static void read_capabilities(struct zn_service *s, const char *value)
{
	char name[32];

	for (size_t i = 0; i < ZN_LEN(capability); i++) {
		snprintf(name, sizeof(name), "cap_%s", capability[i]);
		s->capabilities |= (uint64_t)has_word(value, name) << i;
	}
}

/* The names of all groups are spelled out. A list that begins with ~ is of what is refused. */
static void read_filter(struct zn_service *s, const char *value)
{
	if (!*value)
		return;
	for (size_t i = 0; i < ZN_LEN(calls); i++)
		s->refused |= (uint32_t)(has_word(value, calls[i].name) == (*value == '~')) << i;
}

/* "infinity", or a number; 0: not said. */
static void read_files(struct zn_service *s, const char *value)
{
	s->files = strtoull(value, NULL, 10);
}

/* "PATH (ignore_errors=yes)"; a service may have several such lines. */
static void read_options_file(struct zn_service *s, const char *value)
{
	size_t len = strcspn(value, " ");

	if (s->options_count == ZN_LEN(s->options) || !len || len >= sizeof(s->options[0]))
		return;
	memcpy(s->options[s->options_count], value, len);
	s->options[s->options_count++][len] = '\0';
}

static void read_state(struct zn_service *s, const char *value)
{
	s->there = strcmp(value, "loaded") == 0;
}

static const struct {
	const char *name;
	void (*read)(struct zn_service *s, const char *value);
} property[] = {
	{"LoadState", read_state},
	{"CapabilityBoundingSet", read_capabilities},
	{"SystemCallFilter", read_filter},
	{"LimitNOFILE", read_files},
	{"EnvironmentFiles", read_options_file},
};

void zn_service_read(struct zn_service *s, FILE *from)
{
	char *line = NULL, *value;
	size_t size = 0;
	ssize_t len;

	*s = (struct zn_service){0};
	while ((len = getline(&line, &size, from)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = '\0';
		for (size_t i = 0; i < ZN_LEN(property); i++)
			if (strcmp(line, property[i].name) == 0)
				property[i].read(s, value);
	}
	free(line);
}

void zn_service_ask(struct zn_service *s)
{
	char command[256] = "systemctl show zerneld.service";
	FILE *from = NULL;
	size_t len = strlen(command);

	*s = (struct zn_service){0};
	for (size_t i = 0; i < ZN_LEN(property); i++)
		len += (size_t)snprintf(command + len, sizeof(command) - len, " -p %s", property[i].name);
	snprintf(command + len, sizeof(command) - len, " 2>/dev/null");
	if (access("/run/systemd/system", F_OK) == 0) /* as sd_booted(3) */
		from = popen(command, "re");
	if (!from)
		return;
	zn_service_read(s, from);
	pclose(from);
}

/* ---- its options ---- */

/* NAME=VALUE as in a shell: the value may be in quotes, which say where it ends. What the caller's environment has
 * stays. */
static void set_option(char *line)
{
	char *value = strchr(line, '='), *end;

	if (!value)
		return;
	*value++ = '\0';
	end = value + strlen(value);
	while (end > value && isspace((unsigned char)end[-1]))
		*--end = '\0';
	if (end - value >= 2 && (*value == '"' || *value == '\'') && end[-1] == *value) {
		end[-1] = '\0';
		value++;
	}
	setenv(line, value, 0);
}

#define OPTION_LINES 256 /* of all files; there are fewer options */

struct option_lines {
	char *line[OPTION_LINES];
	size_t count;
};

static void keep_lines(struct option_lines *all, FILE *f)
{
	char line[4096], *at;

	while (all->count < OPTION_LINES && fgets(line, sizeof(line), f)) {
		at = line + strspn(line, " \t");
		if (!strncmp(at, "ZERNEL_", strlen("ZERNEL_")) && (at = strdup(at)))
			all->line[all->count++] = at;
	}
}

/* Of one that comes twice systemd takes the last, of all files. */
bool zn_service_options(const struct zn_service *s)
{
	struct option_lines all = {.count = 0};
	FILE *f;

	for (size_t i = 0; i < s->options_count; i++) {
		f = fopen(s->options[i], "re");
		if (!f)
			continue;
		keep_lines(&all, f);
		fclose(f);
	}
	while (all.count) {
		set_option(all.line[--all.count]);
		free(all.line[all.count]);
	}
	return s->options_count > 0;
}

/* ---- its limits ---- */

static int limit_files(uint64_t files)
{
	struct rlimit limit;

	if (!files || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_max <= files)
		return 0;
	limit.rlim_max = files;
	if (limit.rlim_cur > files)
		limit.rlim_cur = files;
	return setrlimit(RLIMIT_NOFILE, &limit) ? -errno : 0;
}

/* Refuses single system calls; the list is short. */
static int refuse_calls(uint32_t refused)
{
	struct sock_filter code[2 * ZN_SERVICE_CALLS + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	struct sock_fprog program = {.len = 1, .filter = code};

	for (size_t i = 0; i < ZN_LEN(calls); i++) {
		if (!(refused >> i & 1))
			continue;
		code[program.len++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].number, 0, 1);
		code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) ? -errno : 0;
}

static int limit_capabilities(uint64_t to)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct want[2] = {{0}};

	for (int i = 0; i < 2; i++)
		want[i].effective = want[i].permitted = (uint32_t)((zn_sandbox_capable() & to) >> 32 * i);
	return syscall(SYS_capset, &head, want) ? -errno : 0;
}

static void put_calls(char *to, size_t cap, uint32_t refused)
{
	size_t len = 0;

	for (size_t i = 0; i < ZN_LEN(calls) && len < cap; i++)
		if (refused >> i & 1)
			len += (size_t)snprintf(to + len, cap - len, " %s", calls[i].name);
}

void zn_service_limit(const struct zn_service *s, char said[ZN_TEXT_MAX])
{
	bool less = s->capabilities & ~zn_sandbox_capable();
	char refused[ZN_TEXT_MAX / 2] = "";
	int err = limit_files(s->files);

	if (!err)
		err = limit_capabilities(s->capabilities);
	if (!err && s->refused)
		err = refuse_calls(s->refused);
	put_calls(refused, sizeof(refused), s->refused);
	if (err)
		snprintf(said, ZN_TEXT_MAX, "cannot be those of zerneld.service: %s", strerror(-err));
	else if (less)
		snprintf(said, ZN_TEXT_MAX, "less than zerneld.service has: run this as root");
	else
		snprintf(said, ZN_TEXT_MAX, "as zerneld.service has them: %d of %d capabilities%s%s",
			__builtin_popcountll(zn_sandbox_capable()), CAP_LAST_CAP + 1,
			s->refused ? "; its SystemCallFilter refuses" : "", refused);
}
