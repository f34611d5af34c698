/* SPDX-License-Identifier: GPL-2.0 */
/* What /proc/PID/status says of shadow stacks, and what may not be taken for it. */
#include "t.h"
#include "zernel.h"
#include <unistd.h>

static const struct {
	const char *status;
	bool used;
} vector[] = {
	{"Name:\tpython3\nUmask:\t0022\nx86_Thread_features:\tshstk \nx86_Thread_features_locked:\tshstk wrss \n",
		true},
	{"Name:\tpython3\nx86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\t\n", true},
	{"Name:\tpython3\nx86_Thread_features:\twrss shstk\n", true},
	{"Name:\tpython3\nx86_Thread_features:\tshstk", true},
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
	for (size_t i = 0; i < sizeof(vector) / sizeof(vector[0]); i++)
		CHECK_EQ(zn_shadow_stack_in(vector[i].status), vector[i].used);
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
	RUN(features_are_read);
	RUN(a_process_is_asked);
	RUN(a_kernel_that_knows_forbids_nothing);
	return t_end();
}
