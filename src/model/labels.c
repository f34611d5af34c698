/* SPDX-License-Identifier: GPL-2.0 */
/*
 * labels.c: the values of labels, which are what enums are called in metrics, JSON and on command lines. Their texts
 * are the second column of the lists in zernel.h.
 */
#include "zernel.h"

#define X(e, text, ...) text,
/* A function that says what a value of an enum is called: of its list, or of texts in the order of the enum. */
#define LABELS(function, of, ...)                                                                                      \
	const char *function(enum of value)                                                                            \
	{                                                                                                              \
		static const char *const label[] = {__VA_ARGS__};                                                      \
                                                                                                                       \
		return (size_t)value < ZN_LEN(label) ? label[value] : "unknown";                                       \
	}

LABELS(zn_family_label, zn_family, ZN_FAMILIES(X) ZN_KERNEL_FAMILIES(X))
LABELS(zn_method_label, zn_probe_method, "none", "fentry", "kprobe", "tracepoint", "uprobe", "uprobe_multi",
	"uprobe_session")
LABELS(zn_operation_label, zn_operation, ZN_OPERATIONS(X))
LABELS(zn_stall_label, zn_stall, ZN_STALLS(X))
LABELS(zn_spare_label, zn_spare, ZN_SPARE_PARTS(X))
LABELS(zn_leaf_label, zn_leaf, ZN_LEAVES(X))
LABELS(zn_io_label, zn_io_op, ZN_IO_OPS(X))
LABELS(zn_doing_label, zn_doing, ZN_DOINGS(X))
LABELS(zn_cause_label, zn_cause, ZN_CAUSES(X))
LABELS(zn_request_route, zn_request_route, ZN_REQUEST_ROUTES(X))
LABELS(zn_request_code, zn_request_code, ZN_REQUEST_CODES(X))
LABELS(zn_request_protocol, zn_request_protocol, ZN_REQUEST_PROTOCOLS(X))
LABELS(zn_server_role, zn_server_role, "front", "both", "gpu")
LABELS(zn_outbound_label, zn_outbound, ZN_OUTBOUNDS(X))
LABELS(zn_sent_label, zn_sent, ZN_SENTS(X))
