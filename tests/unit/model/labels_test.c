/* SPDX-License-Identifier: GPL-2.0 */
/* labels_test.c: values of labels are short, of few characters, and no two of one enum are the same. */
#include "zernel.h"
#include "t.h"

#define LABELS(X)                                                                                                      \
	X(zn_family_label, ZN_FAM_ALL)                                                                                 \
	X(zn_method_label, ZN_METHOD_UPROBE_SESSION + 1)                                                               \
	X(zn_operation_label, ZN_OPERATION_COUNT)                                                                      \
	X(zn_stall_label, ZN_STALL_COUNT)                                                                              \
	X(zn_leaf_label, ZN_LEAF_COUNT)                                                                                \
	X(zn_io_label, ZN_IO_OP_COUNT)                                                                                 \
	X(zn_doing_label, ZN_DOING_COUNT)                                                                              \
	X(zn_cause_label, ZN_CAUSE_COUNT)                                                                              \
	X(zn_request_route, ZN_ROUTE_COUNT)                                                                            \
	X(zn_request_code, ZN_OUTCOME_COUNT)                                                                           \
	X(zn_request_protocol, ZN_PROTOCOL_COUNT)                                                                      \
	X(zn_server_role, ZN_ROLE_GPU + 1)                                                                             \
	X(zn_outbound_label, ZN_TO_COUNT)                                                                              \
	X(zn_sent_label, ZN_SENT_COUNT)

static void check_label(const char *label)
{
	CHECK(strlen(label) > 0 && strlen(label) < 40);
	CHECK_EQ(strspn(label, "abcdefghijklmnopqrstuvwxyz0123456789_/.*{}-"), strlen(label));
}

#define X(function, count)                                                                                             \
	T(function##_of_all)                                                                                           \
	{                                                                                                              \
		for (unsigned i = 0; i < (count); i++) {                                                               \
			check_label(function(i));                                                                      \
			for (unsigned k = 0; k < i; k++)                                                               \
				CHECK(strcmp(function(i), function(k)) != 0);                                          \
		}                                                                                                      \
		CHECK_STR(function(count), "unknown");                                                                 \
		CHECK_STR(function(-1), "unknown");                                                                    \
	}
LABELS(X)
#undef X

int main(void)
{
#define X(function, count) RUN(function##_of_all);
	LABELS(X)
#undef X
	return t_end();
}
