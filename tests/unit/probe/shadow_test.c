/* SPDX-License-Identifier: GPL-2.0 */
/* What /proc/PID/status says of shadow stacks, and what may not be taken for it. */
#include "t.h"
#include "zernel.h"
#include "folder.h"
#include <unistd.h>

static const struct {
	const char *status;
	bool used;
} vector[] = {
	{"Name:\tpython3\nUmask:\t0022\nx86_Thread_features:\tshstk \nx86_Thread_features_locked:\tshstk wrss \n",
		true},
	{"Name:\tpython3\nx86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\t\n", true},
	{"Name:\tpython3\nx86_Thread_features:\twrss shstk\n", true},
	{"Name:\tpython3\nx86_Thread_features:\t\nx86_Thread_features_locked:\tshstk wrss \n", false},
	{"Name:\tpython3\nx86_Thread_features:\twrss \n", false},
	{"Name:\tpython3\nx86_Thread_features:\tshstk2 noshstk\n", false},
	{"Name:\tpython3\nx86_Thread_features:", false},
	/* The kernel escapes line feeds in names. */
	{"Name:\t\\nx86_Thread_features:\tshstk\nUmask:\t0022\n", false},
	{"Name:\tpython3\nUmask:\t0022\n", false},
	{"", false},
};

T(features_are_read)
{
	for (size_t i = 0; i < sizeof(vector) / sizeof(vector[0]); i++) {
		put("7/status", vector[i].status);
		CHECK_EQ(zn_shadow_stack_in(root, 7), vector[i].used);
	}
}

/* Features are the last line of all, behind the groups, of which a user may have 65,536. */
T(features_behind_many_groups)
{
	static const size_t groups[] = {6000, 8192, 700000};
	static char text[701000];

	for (size_t i = 0; i < ZN_LEN(groups); i++) {
		int n = sprintf(text, "Name:\tpython3\nGroups:\t");

		memset(text + n, '1', groups[i]);
		strcpy(text + n + groups[i], " \nNSpid:\t7\nx86_Thread_features:\tshstk \n");
		put("7/status", text);
		CHECK(zn_shadow_stack_in(root, 7));
	}
}

/* What cannot be asked may have one. */
T(a_status_that_cannot_be_read)
{
	put("8/status", NULL);
	CHECK(zn_shadow_stack_in(root, 8));
	CHECK(!zn_shadow_stack_in(root, 9)); /* it has ended */
}

T(a_process_is_asked)
{
	CHECK(!zn_shadow_stack_used(0x7fffffff));
	(void)zn_shadow_stack_used(getpid());
}

/* Only a kernel that leaves shadow stacks behind forbids anything. */
T(a_kernel_that_knows_forbids_nothing)
{
	static const struct zn_probe knows = {.keeps_shadow = true}, not = {.keeps_shadow = false};

	CHECK(!zn_shadow_stack_forbids(&knows, getpid()));
	CHECK_EQ(zn_shadow_stack_forbids(&not, getpid()), zn_shadow_stack_used(getpid()));
}

int main(void)
{
	open_folder();
	RUN(features_are_read);
	RUN(features_behind_many_groups);
	RUN(a_status_that_cannot_be_read);
	RUN(a_process_is_asked);
	RUN(a_kernel_that_knows_forbids_nothing);
	close_folder();
	return t_end();
}
