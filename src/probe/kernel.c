/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Families on the kernel itself. What a kernel has and allows is found by trying, never by its version: for each
 * family the methods in their order, a whole method at once, and if that fails each program alone, so that one
 * function which a kernel lacks takes nothing else down. libbpf is used at start only; attaching is bare system
 * calls, which allocate nothing.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

enum how {
	RAW /* raw tracepoint */,
	TRACE /* fentry, fexit, BTF tracepoint: the program names its place */,
	PROBE,
	RETURN /* kprobes */
};
#define NEEDED  1  /* attached only while some process is hooked; for tracepoints alone */
#define OR      2  /* in place of the one before it, where that cannot be loaded; the last of their method */
#define CORE    8  /* without it the method is worth nothing; such rows are the first of their method */
#define ALSO    4  /* goes with any method: alone it makes none */
#define SERVES  16 /* attached only while a server is watched; with NEEDED */
#define NAMED   32 /* for kernels whose event of a completion of io_uring names the request */
#define UNNAMED 64 /* for those where it does not */

#define TRACED(family, function, flags)                                                                                \
	{&zn_bpf_vfs, #function "_leave", #function, family, ZN_METHOD_FENTRY, TRACE, flags},                          \
	{                                                                                                              \
		&zn_bpf_vfs, #function "_enter", #function, family, ZN_METHOD_FENTRY, TRACE, flags                     \
	}
#define PROBED(family, function, entry, ret, flags)                                                                    \
	{&zn_bpf_vfs, ret, #function, family, ZN_METHOD_KPROBE, RETURN, flags},                                        \
	{                                                                                                              \
		&zn_bpf_vfs, entry, #function, family, ZN_METHOD_KPROBE, PROBE, flags                                  \
	}
/* What completes a request of io_uring on kernels where its event does not name the request. */
#define RING_DONE(method, how, done, complete, polled)                                                                 \
	{&zn_bpf_vfs, done, "kiocb_done", ZN_FAM_VFS, method, how, UNNAMED},                                           \
		{&zn_bpf_vfs, complete, "io_complete_rw", ZN_FAM_VFS, method, how, UNNAMED},                           \
	{                                                                                                              \
		&zn_bpf_vfs, polled, "io_complete_rw_iopoll", ZN_FAM_VFS, method, how, UNNAMED                         \
	}
/* Pages that come into the cache, and io_uring, whose submission has one of two names. */
#define IO_EVENTS(method, page_added)                                                                                  \
	{&zn_bpf_vfs, page_added, "mm_filemap_add_to_page_cache", ZN_FAM_VFS, method, RAW, 0},                         \
		{&zn_bpf_vfs, "ring_complete", "io_uring_complete", ZN_FAM_VFS, method, RAW, NAMED},                   \
		{&zn_bpf_vfs, "ring_submit_req", "io_uring_submit_req", ZN_FAM_VFS, method, RAW, 0},                   \
	{                                                                                                              \
		&zn_bpf_vfs, "ring_submit_sqe", "io_uring_submit_sqe", ZN_FAM_VFS, method, RAW, OR                     \
	}

#ifdef __x86_64__
#define SYSTEM_CALL(name) "__x64_sys_" #name
#else
#define SYSTEM_CALL(name) "__arm64_sys_" #name
#endif

/* A family's rows are together, best method first. Returns come before entries: a return without its entry is
 * passed over. A program that this kernel's object does not have is for other kernels, and its row is passed over
 * too; so is that of a way that others have. */
static const struct {
	const struct zn_blob *object;
	const char *program, *place;
	uint8_t family, method, how, flags;
} table[] = {
	{&zn_bpf_sched, "sched_switch", "sched_switch", ZN_FAM_SCHED, ZN_METHOD_TRACEPOINT, TRACE, NEEDED | CORE},
	{&zn_bpf_sched, "sched_waking", "sched_waking", ZN_FAM_SCHED, ZN_METHOD_TRACEPOINT, TRACE, NEEDED},
	{&zn_bpf_sched, "sched_migrate_task", "sched_migrate_task", ZN_FAM_SCHED, ZN_METHOD_TRACEPOINT, TRACE, NEEDED},
	{&zn_bpf_sched, "sched_fork", "sched_process_fork", ZN_FAM_SCHED, ZN_METHOD_TRACEPOINT, TRACE, NEEDED},

	TRACED(ZN_FAM_VFS, vfs_read, CORE),
	TRACED(ZN_FAM_VFS, vfs_write, CORE),
	TRACED(ZN_FAM_VFS, vfs_readv, 0),
	TRACED(ZN_FAM_VFS, vfs_writev, 0),
	TRACED(ZN_FAM_VFS, do_sendfile, 0),
	TRACED(ZN_FAM_VFS, do_splice, 0),
	TRACED(ZN_FAM_VFS, vfs_copy_file_range, 0),
	TRACED(ZN_FAM_VFS, aio_read, 0),
	TRACED(ZN_FAM_VFS, aio_write, 0),
	{&zn_bpf_vfs, "aio_complete_rw_enter", "aio_complete_rw", ZN_FAM_VFS, ZN_METHOD_FENTRY, TRACE, 0},
	TRACED(ZN_FAM_VFS, filemap_fault, 0),
	RING_DONE(ZN_METHOD_FENTRY, TRACE, "kiocb_done_enter", "io_complete_rw_enter", "io_complete_rw_iopoll_enter"),
	IO_EVENTS(ZN_METHOD_FENTRY, "page_added"),

	PROBED(ZN_FAM_VFS, vfs_read, "on_read", "after_data", CORE),
	PROBED(ZN_FAM_VFS, vfs_write, "on_write", "after_data", CORE),
	PROBED(ZN_FAM_VFS, vfs_readv, "on_read", "after_data", 0),
	PROBED(ZN_FAM_VFS, vfs_writev, "on_write", "after_data", 0),
	PROBED(ZN_FAM_VFS, do_sendfile, "on_sendfile", "after_data", 0),
	PROBED(ZN_FAM_VFS, do_splice, "on_splice", "after_data", 0),
	PROBED(ZN_FAM_VFS, vfs_copy_file_range, "on_copy", "after_data", 0),
	{&zn_bpf_vfs, "on_aio_read", "aio_read", ZN_FAM_VFS, ZN_METHOD_KPROBE, PROBE, 0},
	{&zn_bpf_vfs, "on_aio_write", "aio_write", ZN_FAM_VFS, ZN_METHOD_KPROBE, PROBE, 0},
	{&zn_bpf_vfs, "on_aio_complete", "aio_complete_rw", ZN_FAM_VFS, ZN_METHOD_KPROBE, PROBE, 0},
	PROBED(ZN_FAM_VFS, filemap_fault, "on_fault", "after_fault", 0),
	RING_DONE(ZN_METHOD_KPROBE, PROBE, "on_kiocb_done", "on_complete_rw", "on_complete_rw"),
	IO_EVENTS(ZN_METHOD_KPROBE, "page_added"),

	{&zn_bpf_vfs, "call_leave", "sys_exit", ZN_FAM_VFS, ZN_METHOD_TRACEPOINT, TRACE, CORE},
	{&zn_bpf_vfs, "call_enter", "sys_enter", ZN_FAM_VFS, ZN_METHOD_TRACEPOINT, TRACE, CORE},
	{&zn_bpf_vfs, "call_fault", "mm_filemap_fault", ZN_FAM_VFS, ZN_METHOD_TRACEPOINT, RAW, 0},
	IO_EVENTS(ZN_METHOD_TRACEPOINT, "call_page_added"),

	TRACED(ZN_FAM_META, vfs_mkdir, CORE),
	TRACED(ZN_FAM_META, vfs_rmdir, 0),
	TRACED(ZN_FAM_META, do_rmdir, 0),
	{&zn_bpf_vfs, "security_inode_rmdir_enter", "security_inode_rmdir", ZN_FAM_META, ZN_METHOD_FENTRY, TRACE, 0},
	TRACED(ZN_FAM_META, vfs_unlink, 0),
	TRACED(ZN_FAM_META, vfs_rename, 0),
	TRACED(ZN_FAM_META, vfs_fsync_range, 0),
	TRACED(ZN_FAM_META, vfs_getattr_nosec, 0),
	{&zn_bpf_vfs, "fsync_leave", SYSTEM_CALL(fsync), ZN_FAM_META, ZN_METHOD_FENTRY, TRACE, 0},
	{&zn_bpf_vfs, "fsync_enter", SYSTEM_CALL(fsync), ZN_FAM_META, ZN_METHOD_FENTRY, TRACE, 0},
	{&zn_bpf_vfs, "fdatasync_leave", SYSTEM_CALL(fdatasync), ZN_FAM_META, ZN_METHOD_FENTRY, TRACE, 0},
	{&zn_bpf_vfs, "fdatasync_enter", SYSTEM_CALL(fdatasync), ZN_FAM_META, ZN_METHOD_FENTRY, TRACE, 0},
	{&zn_bpf_vfs, "do_filp_open_leave", "do_filp_open", ZN_FAM_META, ZN_METHOD_FENTRY, TRACE, 0},
	{&zn_bpf_vfs, "do_file_open_leave", "do_file_open", ZN_FAM_META, ZN_METHOD_FENTRY, TRACE, OR},
	{&zn_bpf_vfs, "do_filp_open_enter", "do_filp_open", ZN_FAM_META, ZN_METHOD_FENTRY, TRACE, 0},
	{&zn_bpf_vfs, "do_file_open_enter", "do_file_open", ZN_FAM_META, ZN_METHOD_FENTRY, TRACE, OR},

	PROBED(ZN_FAM_META, vfs_mkdir, "on_mkdir", "after_meta", CORE),
	PROBED(ZN_FAM_META, vfs_rmdir, "on_rmdir", "after_rmdir", 0),
	PROBED(ZN_FAM_META, do_rmdir, "on_do_rmdir", "after_do_rmdir", 0),
	{&zn_bpf_vfs, "on_rmdir_folder", "security_inode_rmdir", ZN_FAM_META, ZN_METHOD_KPROBE, PROBE, 0},
	PROBED(ZN_FAM_META, vfs_unlink, "on_unlink", "after_meta", 0),
	PROBED(ZN_FAM_META, vfs_rename, "on_rename", "after_meta", 0),
	PROBED(ZN_FAM_META, vfs_fsync_range, "on_fsync", "after_meta", 0),
	PROBED(ZN_FAM_META, vfs_getattr_nosec, "on_stat", "after_meta", 0),
	{&zn_bpf_vfs, "after_meta", SYSTEM_CALL(fsync), ZN_FAM_META, ZN_METHOD_KPROBE, RETURN, 0},
	{&zn_bpf_vfs, "on_sync", SYSTEM_CALL(fsync), ZN_FAM_META, ZN_METHOD_KPROBE, PROBE, 0},
	{&zn_bpf_vfs, "after_meta", SYSTEM_CALL(fdatasync), ZN_FAM_META, ZN_METHOD_KPROBE, RETURN, 0},
	{&zn_bpf_vfs, "on_sync", SYSTEM_CALL(fdatasync), ZN_FAM_META, ZN_METHOD_KPROBE, PROBE, 0},
	{&zn_bpf_vfs, "after_open", "do_filp_open", ZN_FAM_META, ZN_METHOD_KPROBE, RETURN, 0},
	{&zn_bpf_vfs, "after_open", "do_file_open", ZN_FAM_META, ZN_METHOD_KPROBE, RETURN, OR},
	{&zn_bpf_vfs, "on_open", "do_filp_open", ZN_FAM_META, ZN_METHOD_KPROBE, PROBE, 0},
	{&zn_bpf_vfs, "on_open", "do_file_open", ZN_FAM_META, ZN_METHOD_KPROBE, PROBE, OR},

	{&zn_bpf_vfs, "call_leave", "sys_exit", ZN_FAM_META, ZN_METHOD_TRACEPOINT, TRACE, CORE},
	{&zn_bpf_vfs, "call_enter", "sys_enter", ZN_FAM_META, ZN_METHOD_TRACEPOINT, TRACE, CORE},

	{&zn_bpf_vfs, "call_leave", "sys_exit", ZN_FAM_SYSCALLS, ZN_METHOD_TRACEPOINT, TRACE, NEEDED},
	{&zn_bpf_vfs, "call_enter", "sys_enter", ZN_FAM_SYSCALLS, ZN_METHOD_TRACEPOINT, TRACE, NEEDED},

	{&zn_bpf_net, "fentry_send", "tcp_sendmsg", ZN_FAM_NET, ZN_METHOD_FENTRY, TRACE, CORE},
	{&zn_bpf_net, "fexit_send", "tcp_sendmsg", ZN_FAM_NET, ZN_METHOD_FENTRY, TRACE, CORE},
	{&zn_bpf_net, "fexit_receive", "inet_recvmsg", ZN_FAM_NET, ZN_METHOD_FENTRY, TRACE, 0},
	{&zn_bpf_net, "fexit_receive6", "inet6_recvmsg", ZN_FAM_NET, ZN_METHOD_FENTRY, TRACE, 0},
	{&zn_bpf_net, "tcp_retransmit", "tcp_retransmit_skb", ZN_FAM_NET, ZN_METHOD_FENTRY, RAW, NEEDED | ALSO},
	{&zn_bpf_net, "tcp_destroy", "tcp_destroy_sock", ZN_FAM_NET, ZN_METHOD_FENTRY, RAW, ALSO},
	{&zn_bpf_net, "kprobe_send", "tcp_sendmsg", ZN_FAM_NET, ZN_METHOD_KPROBE, PROBE, CORE},
	{&zn_bpf_net, "kreturn_send", "tcp_sendmsg", ZN_FAM_NET, ZN_METHOD_KPROBE, RETURN, CORE},
	{&zn_bpf_net, "kprobe_receive", "inet_recvmsg", ZN_FAM_NET, ZN_METHOD_KPROBE, PROBE, 0},
	{&zn_bpf_net, "kreturn_receive", "inet_recvmsg", ZN_FAM_NET, ZN_METHOD_KPROBE, RETURN, 0},
	{&zn_bpf_net, "kprobe_receive", "inet6_recvmsg", ZN_FAM_NET, ZN_METHOD_KPROBE, PROBE, 0},
	{&zn_bpf_net, "kreturn_receive", "inet6_recvmsg", ZN_FAM_NET, ZN_METHOD_KPROBE, RETURN, 0},
	{&zn_bpf_net, "tcp_retransmit", "tcp_retransmit_skb", ZN_FAM_NET, ZN_METHOD_KPROBE, RAW, NEEDED | ALSO},
	{&zn_bpf_net, "tcp_destroy", "tcp_destroy_sock", ZN_FAM_NET, ZN_METHOD_KPROBE, RAW, ALSO},
	{&zn_bpf_net, "sock_send", "sock_send_length", ZN_FAM_NET, ZN_METHOD_TRACEPOINT, RAW, NEEDED | CORE},
	{&zn_bpf_net, "sock_receive", "sock_recv_length", ZN_FAM_NET, ZN_METHOD_TRACEPOINT, RAW, NEEDED},
	{&zn_bpf_net, "tcp_retransmit", "tcp_retransmit_skb", ZN_FAM_NET, ZN_METHOD_TRACEPOINT, RAW, NEEDED | ALSO},
	{&zn_bpf_net, "tcp_destroy", "tcp_destroy_sock", ZN_FAM_NET, ZN_METHOD_TRACEPOINT, RAW, ALSO},
	{&zn_bpf_vfs, "call_enter", "sys_enter", ZN_FAM_NET, ZN_METHOD_TRACEPOINT, TRACE, NEEDED},

	/* The tracepoints first: they see both kinds of sockets, and cost less. */
	{&zn_bpf_requests, "request_send", "sock_send_length", ZN_FAM_REQUESTS, ZN_METHOD_TRACEPOINT, RAW,
		NEEDED | SERVES | CORE},
	{&zn_bpf_requests, "request_receive", "sock_recv_length", ZN_FAM_REQUESTS, ZN_METHOD_TRACEPOINT, RAW,
		NEEDED | SERVES | CORE},
	{&zn_bpf_requests, "request_destroy", "tcp_destroy_sock", ZN_FAM_REQUESTS, ZN_METHOD_TRACEPOINT, RAW,
		NEEDED | SERVES | CORE},
	{&zn_bpf_requests, "request_listen", "inet_sock_set_state", ZN_FAM_REQUESTS, ZN_METHOD_TRACEPOINT, RAW,
		NEEDED | ALSO},
	{&zn_bpf_requests, "tcp_sendmsg_request", "tcp_sendmsg", ZN_FAM_REQUESTS, ZN_METHOD_FENTRY, TRACE,
		NEEDED | SERVES | CORE},
	{&zn_bpf_requests, "inet_recvmsg_request", "inet_recvmsg", ZN_FAM_REQUESTS, ZN_METHOD_FENTRY, TRACE,
		NEEDED | SERVES | CORE},
	{&zn_bpf_requests, "request_destroy", "tcp_destroy_sock", ZN_FAM_REQUESTS, ZN_METHOD_FENTRY, RAW,
		NEEDED | SERVES | CORE},
	{&zn_bpf_requests, "inet6_recvmsg_request", "inet6_recvmsg", ZN_FAM_REQUESTS, ZN_METHOD_FENTRY, TRACE,
		NEEDED | SERVES},
	{&zn_bpf_requests, "unix_stream_sendmsg_request", "unix_stream_sendmsg", ZN_FAM_REQUESTS, ZN_METHOD_FENTRY,
		TRACE, NEEDED | SERVES},
	{&zn_bpf_requests, "unix_stream_recvmsg_request", "unix_stream_recvmsg", ZN_FAM_REQUESTS, ZN_METHOD_FENTRY,
		TRACE, NEEDED | SERVES},
	{&zn_bpf_requests, "request_listen", "inet_sock_set_state", ZN_FAM_REQUESTS, ZN_METHOD_FENTRY, RAW,
		NEEDED | ALSO},
};

/* What a family cannot see on a method, even where all of that is there. */
static const struct {
	uint8_t family, method, flags;
	const char *text;
} limits[] = {
	{ZN_FAM_VFS, ZN_METHOD_KPROBE, 0,
		"where many threads are inside one function, some calls are lost, and counted as that"},
	{ZN_FAM_VFS, ZN_METHOD_TRACEPOINT, UNNAMED, "io_uring is not counted"},
	{ZN_FAM_VFS, ZN_METHOD_TRACEPOINT, 0,
		"libaio is not counted; of mapped files no duration, nor faults within system calls"},
	{ZN_FAM_META, ZN_METHOD_TRACEPOINT, 0,
		"unlink, mkdir, rmdir, rename and stat by path are not counted, nor what io_uring does"},
};

/* Families without programs of their own, and those that measure for them. */
static const struct {
	uint8_t family, on;
} rests[] = {{ZN_FAM_DATALOAD, ZN_FAM_SCHED}, {ZN_FAM_DIST_SYNC, ZN_FAM_SCHED}, {ZN_FAM_IOCTL, ZN_FAM_SYSCALLS}};

_Static_assert(ZN_LEN(table) <= ZN_ATTACH_POINTS_MAX, "struct zn_kernel has no room for another site");

void zn_kernel_table(struct zn_kernel *k)
{
	memset(k, 0, sizeof(*k));
	for (size_t i = 0; i < ZN_LEN(table); i++)
		k->point[i] = (struct zn_attach_point){
			table[i].program, table[i].place, table[i].family, table[i].method, ZN_SYM_MISSING, 0, -1, -1};
	k->point_count = ZN_LEN(table);
}

/* ---- loading ---- */

/* Rows first to end, all of one family and method, or one alone. */
struct rows {
	uint32_t first, end;
};

/* Another family has this very program already, at the same place: it serves both. */
static bool is_shared(struct zn_kernel *k, uint32_t i)
{
	uint32_t of = 0;

	for (uint32_t j = 0; j < ZN_LEN(table) && !of; j++)
		if (table[j].family != table[i].family && table[j].object == table[i].object &&
			strcmp(table[j].program, table[i].program) == 0 &&
			strcmp(table[j].place, table[i].place) == 0 && k->point[j].prog_fd >= 0)
			of = j + 1;
	k->point[i].of = of;
	return of;
}

/* A row, or a limit, is for this kernel too. */
static bool is_meant(const struct zn_probe *p, uint8_t flags)
{
	return !(flags & (p->ring_named ? UNNAMED : NAMED));
}

static bool is_of(const struct zn_probe *p, const struct rows *r, const char *program)
{
	for (uint32_t i = r->first; i < r->end; i++)
		if (!p->kernel.point[i].of && is_meant(p, table[i].flags) && strcmp(table[i].program, program) == 0)
			return true;
	return false;
}

static int programs_keep(struct zn_probe *p, struct bpf_object *o, const struct rows *r)
{
	struct zn_kernel *k = &p->kernel;

	for (uint32_t i = r->first; i < r->end; i++) {
		struct bpf_program *prog = bpf_object__find_program_by_name(o, table[i].program);

		if (k->point[i].of || !prog || !is_meant(p, table[i].flags))
			continue;
		k->point[i].prog_fd = zn_fd_keep(bpf_program__fd(prog));
		if (k->point[i].prog_fd < 0)
			return -errno;
	}
	return 0;
}

static int rows_load(struct zn_probe *p, const struct rows *r)
{
	struct bpf_program *prog;
	struct bpf_object *o;
	uint32_t own = 0;
	int err;

	for (uint32_t i = r->first; i < r->end; i++)
		own += is_meant(p, table[i].flags) && !is_shared(&p->kernel, i);
	if (!own)
		return 0;
	o = zn_object_open(p, table[r->first].object);
	if (!o)
		return -errno;
	bpf_object__for_each_program (prog, o)
		bpf_program__set_autoload(prog, is_of(p, r, bpf_program__name(prog)));
	err = zn_bpf_map_share(p, o);
	if (!err)
		err = bpf_object__load(o);
	if (!err)
		err = programs_keep(p, o, r);
	bpf_object__close(o);
	return err;
}

/* ---- attaching ---- */

/* name: NULL where the program names its place. */
static int raw_attach(const char *name, int prog_fd)
{
	int fd = bpf_raw_tracepoint_open(name, prog_fd);

	return fd < 0 ? -errno : fd;
}

static int kprobe_attach(const struct zn_kernel *k, const char *function, int prog_fd, bool ret)
{
	struct perf_event_attr event = {
		.type = k->kprobe_type,
		.size = sizeof(event),
		.config = ret, /* format/retprobe: config:0 */
		.config1 = (uintptr_t)function,
	};

	return zn_attach_event(&event, 0, prog_fd, 0);
}

static int point_attach(struct zn_kernel *k, uint32_t i)
{
	struct zn_attach_point *s = &k->point[i];
	int fd;

	if (s->link_fd >= 0 || s->prog_fd < 0)
		return 0;
	switch (table[i].how) {
	case RAW: fd = raw_attach(s->place, s->prog_fd); break;
	case TRACE: fd = raw_attach(NULL, s->prog_fd); break;
	default: fd = kprobe_attach(k, s->place, s->prog_fd, table[i].how == RETURN); break;
	}
	s->state = fd < 0 ? ZN_SYM_FAILED : ZN_SYM_ATTACHED;
	s->link_fd = fd < 0 ? -1 : fd;
	return fd < 0 ? fd : 0;
}

static void points_close(struct zn_kernel *k, const struct rows *r)
{
	for (uint32_t i = r->first; i < r->end; i++) {
		zn_fd_close(&k->point[i].link_fd);
		zn_fd_close(&k->point[i].prog_fd);
		k->point[i].state = ZN_SYM_MISSING;
		k->point[i].of = 0;
	}
}

/* What is on demand is attached once here too, so that --check and the start tell whether it can be. */
static int rows_attach(struct zn_kernel *k, const struct rows *r)
{
	for (uint32_t i = r->first; i < r->end; i++) {
		int err = point_attach(k, i);

		if (err)
			return err;
		if (table[i].flags & NEEDED)
			zn_fd_close(&k->point[i].link_fd);
	}
	return 0;
}

static int rows_open(struct zn_probe *p, const struct rows *r)
{
	int err = rows_load(p, r);

	if (!err)
		err = rows_attach(&p->kernel, r);
	if (err)
		points_close(&p->kernel, r);
	return err;
}

/* ---- methods ---- */

static struct rows method_rows(uint32_t first)
{
	struct rows r = {first, first + 1};

	while (r.end < ZN_LEN(table) && table[r.end].family == table[first].family &&
		table[r.end].method == table[first].method)
		r.end++;
	return r;
}

/* The first place that has more than one way, or whose program is in another object. */
static uint32_t ways_begin(const struct rows *r)
{
	uint32_t i = r->first;

	while (i < r->end && table[i].object == table[r->first].object && !(i + 1 < r->end && table[i + 1].flags & OR))
		i++;
	return i;
}

static uint32_t count_places(const struct rows *r)
{
	uint32_t n = 0;

	for (uint32_t i = r->first; i < r->end; i++)
		n += !(table[i].flags & (OR | ALSO));
	return n;
}

static void why_add(char why[ZN_TEXT_MAX], const char *text, const char *reason)
{
	size_t len = strlen(why);

	snprintf(why + len, ZN_TEXT_MAX - len, "%s%s%s%s", len ? "; " : "", text, reason ? ": " : "",
		reason ? reason : "");
}

/* One program after the other; of those that stand for one another the first that works. Returns how many places were
 * lost, without those that go with any method, and which why names; all of them where the core of the method was. */
static uint32_t rows_open_each(struct zn_probe *p, const struct rows *r, char why[ZN_TEXT_MAX])
{
	uint32_t lost = 0, i = r->first;

	while (i < r->end) {
		int err = -ENOENT;
		uint32_t place = i;

		do {
			if (err)
				err = rows_open(p, &(struct rows){i, i + 1});
			i++;
		} while (i < r->end && table[i].flags & OR);
		if (!err)
			continue;
		why_add(why, table[place].place, strerror(-err));
		p->kernel.point[place].state = ZN_SYM_FAILED;
		lost += !(table[place].flags & ALSO);
		if (table[place].flags & CORE)
			return count_places(r);
	}
	return lost;
}

/* The places that have one way at once, then those with more. False: nothing of the method can be had. */
static bool method_load(struct zn_probe *p, const struct rows *r, char why[ZN_TEXT_MAX])
{
	struct rows plain = {r->first, ways_begin(r)}, ways = {plain.end, r->end};
	uint32_t lost = 0;

	if (plain.end > plain.first && rows_open(p, &plain))
		lost = rows_open_each(p, &plain, why);
	if (lost == count_places(&plain) && table[r->first].flags & CORE)
		return false;
	return lost + rows_open_each(p, &ways, why) < count_places(r);
}

/* Attached only while some process is hooked, or not at all; of another family's program that serves both, as that one
 * is. */
static bool is_on_demand(const struct zn_kernel *k, uint32_t i)
{
	uint32_t of = k->point[i].of, at = of ? of - 1 : i;

	return table[at].flags & NEEDED || k->point[at].prog_fd < 0;
}

/* True: the family has this method, or some of it. */
static bool method_open(struct zn_probe *p, const struct rows *r)
{
	struct zn_kernel *k = &p->kernel;
	uint8_t f = table[r->first].family, method = table[r->first].method;
	char why[ZN_TEXT_MAX] = "";

	if (!method_load(p, r, why)) {
		points_close(k, r);
		memcpy(k->why[f], why, sizeof(why));
		return false;
	}
	for (size_t i = 0; i < ZN_LEN(limits); i++)
		if (limits[i].family == f && limits[i].method == method && is_meant(p, limits[i].flags))
			why_add(why, limits[i].text, NULL);
	memcpy(k->why[f], why, sizeof(why));
	k->method[f] = method;
	k->on_demand[f] = true;
	for (uint32_t i = r->first; i < r->end; i++)
		k->on_demand[f] &= is_on_demand(k, i);
	return true;
}

/* What has only one way has that, whichever is asked for. */
static bool has_choice(uint8_t family)
{
	uint8_t method = ZN_METHOD_NONE;

	for (uint32_t i = 0; i < ZN_LEN(table); i++) {
		if (table[i].family != family)
			continue;
		if (method != ZN_METHOD_NONE && method != table[i].method)
			return true;
		method = table[i].method;
	}
	return false;
}

/* Why a program is not even tried; NULL: it is tried. Without bpf_tramp_image (5.12, and most 5.10) a call that
 * sleeps while its fexit is taken away returns to memory that was freed. */
static const char *why_refused(const struct zn_probe *p, uint32_t i)
{
	if (table[i].method == ZN_METHOD_KPROBE && !p->kernel.kprobe_type)
		return "this kernel has no kprobes"; /* the verifier takes half a second for programs of no use */
	if (!p->old)
		return NULL;
	if (table[i].object != &zn_bpf_vfs || table[i].method == ZN_METHOD_TRACEPOINT)
		return ZN_TOO_OLD;
	return table[i].method == ZN_METHOD_FENTRY && !p->has_images ? "not safe on this kernel" : NULL;
}

static void methods_open(struct zn_probe *p, uint64_t families, enum zn_probe_method wanted)
{
	struct zn_kernel *k = &p->kernel;
	const char *why;
	struct rows r;

	for (uint32_t i = 0; i < k->point_count; i = r.end) {
		uint8_t f = table[i].family;

		r = method_rows(i);
		if (zn_probe_cancelled(p))
			return;
		if (wanted != ZN_METHOD_NONE && wanted != table[i].method && has_choice(f))
			continue;
		if (!(families >> f & 1) || k->method[f] != ZN_METHOD_NONE)
			continue;
		why = why_refused(p, i);
		if (why && !k->why[f][0])
			why_add(k->why[f], why, NULL);
		if (!why && method_open(p, &r))
			zn_log(ZN_DEBUG, "kernel: %s by %s", zn_family_label(f), zn_method_label(k->method[f]));
	}
}

struct opening {
	struct zn_probe *p;
	uint64_t families;
	enum zn_probe_method wanted;
};

static void *methods_open_beside(void *arg)
{
	struct opening *o = arg;

	methods_open(o->p, o->families, o->wanted);
	zn_pages_drop_stack();
	return NULL;
}

/* Families whose programs take the verifier long, and share nothing with those of others: each has a thread of its
 * own. */
static void methods_open_all(struct zn_probe *p, uint64_t families, enum zn_probe_method wanted)
{
	static const enum zn_family alone[] = {ZN_FAM_SCHED, ZN_FAM_REQUESTS};
	struct opening o[ZN_LEN(alone)];
	pthread_t thread[ZN_LEN(alone)];
	bool beside[ZN_LEN(alone)];

	for (size_t i = 0; i < ZN_LEN(alone); i++) {
		o[i] = (struct opening){p, families & 1ULL << alone[i], wanted};
		beside[i] = o[i].families && !pthread_create(&thread[i], NULL, methods_open_beside, &o[i]);
		if (beside[i])
			families &= ~o[i].families;
	}
	methods_open(p, families, wanted);
	for (size_t i = 0; i < ZN_LEN(alone); i++)
		if (beside[i])
			pthread_join(thread[i], NULL);
}

#define NODES_MAX 255

/* "0-3,8": a list of CPUs. */
static void node_mark(struct zn_shared *s, const char *list, uint8_t node)
{
	unsigned first, last;
	int used;

	while (sscanf(list, "%u%n", &first, &used) == 1) {
		list += used;
		last = first;
		if (*list == '-' && sscanf(list + 1, "%u%n", &last, &used) == 1)
			list += 1 + used;
		for (unsigned cpu = first; cpu <= last && cpu < ZN_CPUS_MAX; cpu++)
			s->cpu_node[cpu] = node + 1;
		if (*list++ != ',')
			return;
	}
}

void zn_kernel_nodes(struct zn_shared *s)
{
	char path[64], list[4096];

	for (int node = 0; node < NODES_MAX; node++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
		if (zn_file_read(path, list, sizeof(list)) > 0)
			node_mark(s, list, node);
	}
}

void zn_kernel_open(struct zn_probe *p, uint64_t families, enum zn_probe_method method)
{
	struct zn_kernel *k = &p->kernel;
	uint64_t all = families;

	k->kprobe_type = zn_perf_type("kprobe");
	zn_kernel_nodes(p->arena.shared);
	for (size_t i = 0; i < ZN_LEN(rests); i++)
		if (families >> rests[i].family & 1)
			all |= 1ULL << rests[i].on;
	methods_open_all(p, all, method);
	for (enum zn_family f = ZN_FAM_NET; f <= ZN_FAM_META; f++)
		if (k->method[f] == ZN_METHOD_TRACEPOINT)
			p->arena.shared->by_call |= 1ULL << f;
	for (size_t i = 0; i < ZN_LEN(rests); i++) {
		if (!(families >> rests[i].family & 1))
			continue;
		k->method[rests[i].family] = k->method[rests[i].on];
		k->on_demand[rests[i].family] = k->on_demand[rests[i].on];
		memcpy(k->why[rests[i].family], k->why[rests[i].on], ZN_TEXT_MAX);
	}
	for (enum zn_family f = ZN_FAMILY_COUNT; f < ZN_FAM_ALL; f++)
		if (!(families >> f & 1)) { /* its programs may be there for another one */
			k->method[f] = ZN_METHOD_NONE;
			snprintf(k->why[f], ZN_TEXT_MAX, "switched off by %s",
				f == ZN_FAM_STACKS ? "--stacks or --probes" : "--probes");
		}
}

void zn_kernel_close(struct zn_kernel *k)
{
	points_close(k, &(struct rows){0, k->point_count});
	k->point_count = 0;
}

uint64_t zn_kernel_measured(const struct zn_kernel *k)
{
	uint64_t families = 0;

	for (enum zn_family f = 0; f < ZN_FAM_ALL; f++)
		if (k->method[f] != ZN_METHOD_NONE)
			families |= 1ULL << f;
	return families;
}

static void points_want(struct zn_kernel *k, bool serves, bool wanted)
{
	for (uint32_t i = 0; i < k->point_count; i++) {
		if (!(table[i].flags & NEEDED) || !(table[i].flags & SERVES) == serves || k->point[i].prog_fd < 0)
			continue;
		if (!wanted)
			zn_fd_close(&k->point[i].link_fd);
		else if (point_attach(k, i))
			zn_log(ZN_WARN, "kernel: cannot attach to %s", k->point[i].place);
	}
}

void zn_kernel_want(struct zn_kernel *k, bool wanted)
{
	if (wanted == k->wanted)
		return;
	k->wanted = wanted;
	points_want(k, false, wanted);
}

void zn_kernel_serve(struct zn_kernel *k, bool serves)
{
	if (serves == k->serves)
		return;
	k->serves = serves;
	points_want(k, true, serves);
}
