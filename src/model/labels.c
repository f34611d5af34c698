/* SPDX-License-Identifier: GPL-2.0 */
/* labels.c: the values of labels, which are what enums are called in metrics, JSON and on command lines. */
#include "zernel.h"

const char *zn_family_label(enum zn_family f)
{
	static const char *const label[] = {
#define X(e, text, option) text,
		ZN_FAMILIES(X) ZN_KERNEL_FAMILIES(X)
#undef X
	};

	return f < ZN_FAM_ALL ? label[f] : "unknown";
}

const char *zn_method_label(enum zn_probe_method t)
{
	static const char *const label[] = {"none", "fentry", "kprobe", "tracepoint", "uprobe"};

	return t < ZN_LEN(label) ? label[t] : "unknown";
}

const char *zn_leaf_label(enum zn_leaf leaf)
{
	static const char *const label[] = {
#define X(e, name, ...) name,
		ZN_LEAVES(X)
#undef X
	};

	return leaf < ZN_LEN(label) ? label[leaf] : "unknown";
}

const char *zn_stall_label(enum zn_stall s)
{
	static const char *const label[] = {
#define X(e, text, help) text,
		ZN_STALLS(X)
#undef X
	};

	return s < ZN_LEN(label) ? label[s] : "unknown";
}

const char *zn_operation_label(enum zn_operation d)
{
	static const char *const label[] = {
#define X(e, text) text,
		ZN_OPERATIONS(X)
#undef X
	};

	return d < ZN_OPERATION_COUNT ? label[d] : "unknown";
}

const char *zn_io_label(enum zn_io_op op)
{
	static const char *const label[] = {
#define X(e, text) text,
		ZN_IO_OPS(X)
#undef X
	};

	return op < ZN_IO_OP_COUNT ? label[op] : "unknown";
}

const char *zn_doing_label(enum zn_doing doing)
{
	static const char *const label[] = {
#define X(e, text, says) text,
		ZN_DOINGS(X)
#undef X
	};

	return doing < ZN_DOING_COUNT ? label[doing] : "unknown";
}

const char *zn_cause_label(enum zn_cause cause)
{
	static const char *const label[] = {
#define X(e, text) text,
		ZN_CAUSES(X)
#undef X
	};

	return cause < ZN_CAUSE_COUNT ? label[cause] : "unknown";
}
