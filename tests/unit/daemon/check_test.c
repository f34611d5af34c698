/* SPDX-License-Identifier: GPL-2.0 */
/* check_test.c: what `systemctl show` says of a service, its file of options, and its limits, each taken in a child. */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define CAP(name) (1ULL << CAP_##name)
#define ALL                                                                                                            \
	"seccomp capset setgroups setresgid setresuid prlimit64 landlock_create_ruleset landlock_add_rule landlock_restrict_self"

static const struct {
	const char *name, *said;
	bool there;
	uint64_t capabilities, files;
	int refused; /* calls */
} services[] = {
	{"nothing", "", false, 0, 0, 0},
	{"no such service", "LoadState=not-found\nCapabilityBoundingSet=cap_chown cap_bpf\n", false,
		CAP(CHOWN) | CAP(BPF), 0, 0},
	{"masked", "LoadState=masked\n", false, 0, 0, 0},
	{"all that counts",
		"LimitNOFILE=16384\nCapabilityBoundingSet=cap_setgid cap_sys_admin cap_bpf\nSystemCallFilter=read bpf "
		"perf_event_open " ALL
		" write\nEnvironmentFiles=/etc/default/zerneld (ignore_errors=yes)\nLoadState=loaded\n",
		true, CAP(SETGID) | CAP(SYS_ADMIN) | CAP(BPF), 16384, 0},
	{"names in names",
		"LoadState=loaded\nCapabilityBoundingSet=cap_sys_admin_x cap_setuid\nSystemCallFilter=bpf_ xbpf perf_event_open " ALL
		"\n",
		true, CAP(SETUID), 0, 1},
	{"no filter", "LoadState=loaded\nSystemCallFilter=\nLimitNOFILE=infinity\n", true, 0, 0, 0},
	{"what is refused", "LoadState=loaded\nSystemCallFilter=~bpf mount setgroups\n", true, 0, 0, 2},
	{"lines without a value", "LoadState\n=\nLoadState=loaded", true, 0, 0, 0},
};

static struct zn_service read_service(const char *said)
{
	struct zn_service s;
	FILE *f = fmemopen((void *)said, strlen(said) + !*said, "r");

	zn_service_read(&s, f);
	fclose(f);
	return s;
}

static void check_services(void)
{
	for (size_t i = 0; i < ZN_LEN(services); i++) {
		struct zn_service s = read_service(services[i].said);

		t_begin(services[i].name);
		CHECK_EQ(s.there, services[i].there);
		CHECK_EQ(s.capabilities, services[i].capabilities);
		CHECK_EQ(s.files, services[i].files);
		CHECK_EQ(__builtin_popcount(s.refused), services[i].refused);
	}
}

static const struct {
	const char *name, *want; /* NULL: not set */
} options[] = {
	{"ZERNEL_LISTEN", "127.0.0.1"},
	{"ZERNEL_OTLP", "http://a b/'c'"},
	{"ZERNEL_WEBHOOK", "http://x"},
	{"ZERNEL_KMSG", "of the shell"},
	{"ZERNEL_LOG", NULL},
	{"PATH_OF_OTHERS", NULL},
};

T(a_file_of_options)
{
	static char path[] = "/tmp/zn_check_XXXXXX";
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");
	struct zn_service s = {.there = true, .options_count = 2};

	fputs("# ZERNEL_LOG=debug\n#ZERNEL_LOG=debug\nZERNEL_LISTEN=127.0.0.1  \n  ZERNEL_OTLP=\"http://a b/'c'\"\n"
	      "ZERNEL_WEBHOOK='http://y'\nZERNEL_WEBHOOK='http://x'\nZERNEL_KMSG=none\nPATH_OF_OTHERS=1\nZERNEL_LOG\n",
		f);
	fclose(f);
	setenv("ZERNEL_KMSG", "of the shell", 1);
	strcpy(s.options[0], "/nowhere/at/all");
	strcpy(s.options[1], path);
	CHECK(zn_service_options(&s));
	for (size_t i = 0; i < ZN_LEN(options); i++) {
		const char *got = getenv(options[i].name);

		CHECK(!got == !options[i].want && (!got || !strcmp(got, options[i].want)));
	}
	unlink(path);
	CHECK(!zn_service_options(&(struct zn_service){.there = true}));
}

/* The status of a child that has taken the limits: its bits say what is as it should be. */
static int limited(const struct zn_service *s, char said[ZN_TEXT_MAX])
{
	union bpf_attr attr = {0};
	struct rlimit files;
	int good = 0;

	zn_service_limit(s, said);
	good |= zn_sandbox_capable() == (s->capabilities & CAP(BPF));
	good |= (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_max == 99) << 1;
	good |= (syscall(SYS_bpf, -1, &attr, sizeof(attr)) < 0 && errno == EPERM) << 2;
	good |= !strcmp(said, "as zerneld.service has them: 1 of 41 capabilities; its SystemCallFilter refuses bpf")
		<< 3;
	return good;
}

T(limits_are_taken)
{
	struct zn_service s = read_service(
		"LoadState=loaded\nCapabilityBoundingSet=cap_bpf\nLimitNOFILE=99\nSystemCallFilter=~bpf\n");
	char said[ZN_TEXT_MAX];
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(limited(&s, said));
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (geteuid() == 0)
		CHECK_EQ(WEXITSTATUS(status), 15);
}

int main(void)
{
	check_services();
	RUN(a_file_of_options);
	RUN(limits_are_taken);
	return t_end();
}
