/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rdma.c: what system calls on devices of RDMA (/dev/infiniband/uverbs*) ask for, by name: commands that are written,
 * and methods of ioctl(), as linux/rdma's ib_user_verbs.h and ib_user_ioctl_cmds.h number them.
 *
 * Limits: a driver's own methods are "driver", what has no number here is "ioctl" or "write"; so are errors "other".
 */
#include "zernel.h"
#include <errno.h>

/* By IB_USER_VERBS_CMD_*; extended ones have the same numbers, and some of their own from 50 on. */
static const char *const commands[] = {"get_context", "query_device", "query_port", "alloc_pd", "dealloc_pd",
	"create_ah", "modify_ah", "query_ah", "destroy_ah", "reg_mr", "reg_smr", "rereg_mr", "query_mr", "dereg_mr",
	"alloc_mw", "bind_mw", "dealloc_mw", "create_comp_channel", "create_cq", "resize_cq", "destroy_cq", "poll_cq",
	"peek_cq", "req_notify_cq", "create_qp", "query_qp", "modify_qp", "destroy_qp", "post_send", "post_recv",
	"attach_mcast", "detach_mcast", "create_srq", "modify_srq", "query_srq", "destroy_srq", "post_srq_recv",
	"open_xrcd", "close_xrcd", "create_xsrq", "open_qp"};
#define FIRST_EXTENDED 50
static const char *const extended[] = {"create_flow", "destroy_flow", "create_wq", "modify_wq", "destroy_wq",
	"create_rwq_ind_tbl", "destroy_rwq_ind_tbl", "modify_cq"};

static const struct {
	uint8_t object, method;
	const char *name;
} methods[] = {{0, 1, "info_handles"}, {0, 2, "query_port"}, {0, 3, "get_context"}, {0, 4, "query_context"},
	{0, 5, "query_gid_table"}, {0, 6, "query_gid_entry"}, {1, 0, "dealloc_pd"}, {3, 0, "create_cq"},
	{3, 1, "destroy_cq"}, {4, 0, "create_qp"}, {4, 1, "destroy_qp"}, {5, 0, "create_srq"}, {5, 1, "destroy_srq"},
	{6, 0, "destroy_ah"}, {7, 0, "reg_dm_mr"}, {7, 1, "dereg_mr"}, {7, 2, "advise_mr"}, {7, 3, "query_mr"},
	{7, 4, "reg_dmabuf_mr"}, {7, 5, "reg_mr"}, {8, 0, "dealloc_mw"}, {9, 0, "destroy_flow"}, {10, 0, "close_xrcd"},
	{11, 0, "destroy_rwq_ind_tbl"}, {12, 0, "create_wq"}, {12, 1, "destroy_wq"}, {14, 0, "alloc_dm"},
	{14, 1, "free_dm"}, {15, 0, "create_counters"}, {15, 1, "destroy_counters"}, {15, 2, "read_counters"},
	{16, 0, "alloc_async_event"}};

/* What the kernel's own code and its drivers return for them. */
#define E(name)                                                                                                        \
	{                                                                                                              \
		name, #name                                                                                            \
	}
static const struct {
	uint16_t number;
	char name[18];
} errors[] = {E(EPERM), E(ENOENT), E(EINTR), E(EIO), E(ENXIO), E(E2BIG), E(EBADF), E(EAGAIN), E(ENOMEM), E(EACCES),
	E(EFAULT), E(EBUSY), E(EEXIST), E(ENODEV), E(EINVAL), E(ENFILE), E(EMFILE), E(ENOTTY), E(ENOSPC), E(ERANGE),
	E(ENOSYS), E(ENODATA), E(EPROTO), E(EOVERFLOW), E(EMSGSIZE), E(EPROTONOSUPPORT), E(EOPNOTSUPP), E(ENETDOWN),
	E(ETIMEDOUT), E(EHOSTUNREACH), E(EREMOTEIO), E(ECANCELED)};

static const char *command_name(uint32_t command)
{
	if (command < ZN_LEN(commands))
		return commands[command];
	if (command >= FIRST_EXTENDED && command < FIRST_EXTENDED + ZN_LEN(extended))
		return extended[command - FIRST_EXTENDED];
	return "write";
}

const char *zn_rdma_call(uint32_t key)
{
	uint32_t object = ZN_RDMA_OBJECT(key), method = ZN_RDMA_METHOD(key);

	if (ZN_RDMA_WAY(key) == ZN_RDMA_WRITE)
		return command_name(method);
	for (size_t i = 0; ZN_RDMA_WAY(key) == ZN_RDMA_IOCTL && i < ZN_LEN(methods); i++)
		if (methods[i].object == object && methods[i].method == method)
			return methods[i].name;
	return object == ZN_RDMA_DRIVER ? "driver" : "ioctl";
}

const char *zn_rdma_error(uint32_t key)
{
	for (size_t i = 0; i < ZN_LEN(errors); i++)
		if (errors[i].number == ZN_RDMA_ERRNO(key))
			return errors[i].name;
	return "other";
}

/* As in model/failed.c: the sum of what has no place is known by the process's counter. */
void zn_rdma_add(struct zn_failed *to, const struct zn_failed *from)
{
	for (uint32_t i = 0; i < ZN_FAILED_RDMA && from->rdma_key[i]; i++) {
		int at = zn_key_place(to->rdma_key, 0, ZN_FAILED_RDMA, from->rdma_key[i]);

		if (at >= 0)
			to->rdma_count[at] += from->rdma_count[i];
	}
	if (from->rdma_ns > to->rdma_ns) {
		to->rdma_ns = from->rdma_ns;
		to->rdma_last = from->rdma_last;
	}
}
