/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cgroup_fuzz.c: any bytes as the path of a control group, as a line of /proc/PID/cgroup and as a line of mountinfo. A
 * job that was found has a name that leads to it again in the plainest path, and a part of a path never says more than
 * all of it.
 */
#define ZN_IN_job /* what zernel.h keeps for the files of src/job */
#include <stdlib.h>

#include "src/job/hierarchies.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_name(const struct zn_cgroup_name *name)
{
	struct zn_cgroup_name again;
	char path[128];
	size_t job = strnlen(name->job, sizeof(name->job)), step = strnlen(name->step, sizeof(name->step));

	check(job > 0 && job < sizeof(name->job) && step < sizeof(name->step));
	check(name->level >= ZN_CGROUP_JOB && name->level <= ZN_CGROUP_BELOW);
	snprintf(path, sizeof(path), "/%s/%s%s%s", ZN_SCOPE, name->job[0] == 's' ? "" : "job_", name->job,
		name->level == ZN_CGROUP_STEP ? "/step_0" : "");
	check(zn_cgroup_name(path, &again) && strcmp(again.job, name->job) == 0);
	check(again.level == (name->level == ZN_CGROUP_STEP ? ZN_CGROUP_STEP : ZN_CGROUP_JOB));
}

static void fuzz_lines(char *text)
{
	static struct zn_hierarchies all;
	char *controllers, *group, decoded[ZN_TEXT_MAX], *copy = strdup(text), *line = strdup(text);
	size_t len = strlen(copy);
	uint32_t hierarchy;

	group = zn_hierarchy_line(text, &hierarchy, &controllers);
	check(!group || group[0] == '/');
	check(!field_decode(decoded, copy) || strlen(decoded) <= len);
	all.count = 0;
	mount_read(&all, line);
	free(copy);
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = malloc(len + 1);
	struct zn_cgroup_name name;

	memcpy(text, data, len);
	text[len] = 0;
	memset(&name, 0xaa, sizeof(name));
	if (zn_cgroup_name(text, &name))
		check_name(&name);
	fuzz_lines(text);
	free(text);
	return 0;
}
