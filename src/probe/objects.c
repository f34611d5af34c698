/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Opens and loads the BPF objects that are part of this program, best first: for the end of processes, which makes
 * all maps, for the families on libraries, and for control groups. libbpf is used at the start only.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static const struct object {
	const struct zn_blob *blob;
	const char *program, *label[ZN_WAY_SESSION + 1];
} object[ZN_FAMILY_COUNT] = {
	[ZN_FAM_GPU_MEM] = {&zn_bpf_gpu_mem, "gpu_mem_call", {"gpu_mem_entry", "gpu_mem_return", "gpu_mem_session"}},
	[ZN_FAM_CUDA_TRACE] = {&zn_bpf_cuda_trace, "cuda_call", {"cuda_entry", "cuda_return", "cuda_session"}},
	[ZN_FAM_NCCL] = {&zn_bpf_nccl, "nccl_call", {"nccl_entry", "nccl_return", "nccl_session"}},
};

static int inflate_blob(const struct zn_blob *blob, uint8_t *to)
{
	z_stream z = {
		.next_in = (uint8_t *)blob->bytes, .avail_in = blob->len, .next_out = to, .avail_out = blob->plain_len};
	int state;

	if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) /* 16: with gzip's header */
		return -ENOMEM;
	state = inflate(&z, Z_FINISH);
	inflateEnd(&z);
	return state == Z_STREAM_END ? 0 : -EINVAL;
}

/* Without the compiler of programs the kernel lets none call its functions. */
static bool is_compiled(void)
{
	char on[8];

	return zn_file_read("/proc/sys/net/core/bpf_jit_enable", on, sizeof(on)) <= 0 || on[0] != '0';
}

/* The number of bpf_rdonly_cast(), which came with 6.2. 0: there is none. */
static uint32_t cast_find(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int id = btf ? btf__find_by_name_kind(btf, "bpf_rdonly_cast", BTF_KIND_FUNC) : 0;

	btf__free(btf);
	return id > 0 && is_compiled() ? (uint32_t)id : 0;
}

/* In place of the number that stands for it (bpf/cast.bpf.h), in all functions of an object. */
static void cast_put(uint8_t *bytes, size_t len, uint32_t cast_id)
{
	struct bpf_insn *insn = (struct bpf_insn *)bytes;

	for (size_t i = 0; i < len / sizeof(*insn); i++)
		if (insn[i].code == (BPF_JMP | BPF_CALL) && insn[i].imm == ZN_CALL_OF_CAST && !insn[i].src_reg &&
			!insn[i].dst_reg && !insn[i].off) {
			insn[i].src_reg = BPF_PSEUDO_KFUNC_CALL;
			insn[i].imm = (int32_t)cast_id;
		}
}

/* What a section of one constant begins with, before the object is loaded. NULL: it has none of that size. */
static void *constant_of(const struct bpf_object *o, const char *section, size_t bytes)
{
	struct bpf_map *constants = bpf_object__find_map_by_name(o, section);
	size_t has = 0;
	void *value = constants ? (void *)bpf_map__initial_value(constants, &has) : NULL;

	return has == bytes ? value : NULL;
}

/* Says in the object whether it may (bpf/cast.bpf.h), if it asks. */
static void cast_tell(const struct bpf_object *o, bool casts)
{
	bool *told = constant_of(o, ".rodata.cast", sizeof(*told));

	if (told)
		*told = casts;
}

/* The verifier refuses what a kernel lacks even where it is never reached, so these are objects of their own. */
static const struct zn_blob *blob_for(const struct zn_probe *p, const struct zn_blob *blob)
{
	static const struct zn_blob *const other[][2] = {
		{&zn_bpf_proc, &zn_bpf_proc_old}, {&zn_bpf_job, &zn_bpf_job_old}, {&zn_bpf_vfs, &zn_bpf_vfs_old}};

	for (size_t i = 0; i < ZN_LEN(other) && p->old; i++)
		if (other[i][0] == blob)
			return other[i][1];
	return blob;
}

struct bpf_object *zn_object_open(const struct zn_probe *p, const struct zn_blob *blob)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "zernel");
	struct bpf_object *o = NULL;
	uint8_t *bytes;
	int err;

	blob = blob_for(p, blob);
	bytes = malloc(blob->plain_len);
	err = bytes ? inflate_blob(blob, bytes) : -ENOMEM;
	if (!err && p->cast_id)
		cast_put(bytes, blob->plain_len, p->cast_id);
	if (!err)
		o = bpf_object__open_mem(bytes, blob->plain_len, &opts); /* copies what it needs */
	if (o)
		cast_tell(o, p->cast_id);
	free(bytes);
	if (err)
		errno = -err;
	return o;
}

/* The kernel's own types, 6 MB, which libbpf reads and indexes anew for each object: 25 ms and more each time, and
 * there are up to twenty objects. While the probes are opened its calls come here (--wrap, see the Makefile), and
 * all have the same ones, which nobody changes. Where libbpf is a shared library, only our own call does. */
static struct {
	bool shared;
	struct btf *btf; /* NULL: not read yet */
} types;

struct btf *__real_btf__load_vmlinux_btf(void);
struct btf *__wrap_btf__load_vmlinux_btf(void);
void __real_btf__free(struct btf *btf);
void __wrap_btf__free(struct btf *btf);

struct btf *__wrap_btf__load_vmlinux_btf(void)
{
	if (!types.shared)
		return __real_btf__load_vmlinux_btf();
	if (!types.btf)
		types.btf = __real_btf__load_vmlinux_btf();
	return types.btf;
}

void __wrap_btf__free(struct btf *btf)
{
	if (!btf || btf != types.btf)
		__real_btf__free(btf);
}

void zn_object_share_types(bool shared)
{
	struct btf *btf = types.btf;

	types.shared = shared;
	types.btf = NULL;
	__real_btf__free(btf);
}

/* The program's descriptor is kept for the kernel's count of what it skipped. */
static int raw_attach(struct zn_raw *r, struct bpf_object *o, const char *program, const char *event)
{
	int prog = bpf_program__fd(bpf_object__find_program_by_name(o, program));

	r->link = bpf_raw_tracepoint_open(event, prog);
	if (r->link < 0)
		return r->link;
	r->prog = zn_fd_keep(prog);
	return r->prog < 0 ? -errno : 0;
}

void zn_raw_close(struct zn_raw *r, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		zn_fd_close(&r[i].link);
		zn_fd_close(&r[i].prog);
	}
}

static int base_try(struct zn_probe *p)
{
	static const char *const program[ZN_LEN(p->exit)][2] = {
		{"process_exit", "sched_process_exit"}, {"process_exec", "sched_process_exec"}};
	struct bpf_object *o = zn_object_open(p, &zn_bpf_proc);
	int err;

	if (!o)
		return -errno;
	err = zn_bpf_map_sparse(p, o);
	if (!err)
		err = zn_bpf_map_sizes(p, o);
	if (!err)
		err = bpf_object__load(o);
	if (!err &&
		bpf_object__btf_fd(o) < 0) /* libbpf goes on, and the verifier takes minutes for what has no types */
		err = -EOPNOTSUPP;
	if (!err)
		err = zn_bpf_map_keep(p, o);
	for (size_t i = 0; i < ZN_LEN(program) && !err; i++)
		err = raw_attach(&p->exit[i], o, program[i][0], program[i][1]);
	bpf_object__close(o);
	return err;
}

/* The first object: makes the maps, and watches the end of processes. It tells what the kernel's BPF can do. */
int zn_object_load_base(struct zn_probe *p)
{
	int err;

	p->cast_id = cast_find();
	err = base_try(p);
	if (err != -EINVAL)
		return err;
	p->old = true;
	return base_try(p);
}

/* Raw tracepoints alone: a kernel without one of them has no control groups. */
static int job_attach(struct zn_probe *p, struct bpf_object *o)
{
	static const char *const program[ZN_LEN(p->job_on)][2] = {{"job_mkdir", "cgroup_mkdir"},
		{"job_rmdir", "cgroup_rmdir"}, {"job_attach", "cgroup_attach_task"}, {"job_fork", "sched_process_fork"},
		{"oom_victim", "mark_victim"}};

	for (size_t i = 0; i < ZN_LEN(program); i++) {
		int err = raw_attach(&p->job_on[i], o, program[i][0], program[i][1]);

		if (err && i + 1 < ZN_LEN(program))
			return err;
	}
	return 0;
}

/* Without it a record does not say whose limit was reached. */
static void oom_attach(struct zn_probe *p, struct bpf_object *o)
{
	int prog = bpf_program__fd(bpf_object__find_program_by_name(o, "oom_begin"));
	struct perf_event_attr event = {
		.type = zn_perf_type("kprobe"), .size = sizeof(event), .config1 = (uintptr_t) "oom_kill_process"};

	p->oom_on[0].link = event.type ? zn_attach_event(&event, 0, prog, 0) : -ENOENT;
	if (p->oom_on[0].link >= 0)
		p->oom_on[0].prog = zn_fd_keep(prog);
	else
		zn_log(ZN_DEBUG, "probe: oom_kill_process: %s", strerror(-p->oom_on[0].link));
}

static int job_load(struct zn_probe *p)
{
	struct bpf_object *o = zn_object_open(p, &zn_bpf_job);
	int err;

	if (!o)
		return -errno;
	err = zn_bpf_map_share(p, o);
	if (!err)
		err = bpf_object__load(o);
	if (!err)
		err = job_attach(p, o);
	if (!err)
		oom_attach(p, o);
	bpf_object__close(o);
	return err;
}

const char *zn_object_program(enum zn_family f, enum zn_way way)
{
	return object[f].label[way];
}

/* What a session reads of its run (bpf/hit.bpf.h) is there from 6.13 on. */
static bool has_sessions(const struct zn_probe *p)
{
	struct btf *btf = p->cast_id ? btf__load_vmlinux_btf() : NULL;
	int run = btf ? btf__find_by_name_kind(btf, "bpf_uprobe_multi_run_ctx", BTF_KIND_STRUCT) : -1;
	const struct btf_type *t = run > 0 ? btf__type_by_id(btf, (uint32_t)run) : NULL;
	const struct btf_member *first = t && btf_vlen(t) ? btf_members(t) : NULL;
	bool has =
		first && strcmp(btf__name_by_offset(btf, first->name_off), "session_ctx") == 0; /* before: "run_ctx" */

	btf__free(btf);
	return has;
}

static int way_choose(struct bpf_object *o, struct bpf_program *program, enum zn_way way)
{
	uint32_t *chosen = constant_of(o, ".rodata.way", sizeof(*chosen));

	if (!program || !chosen)
		return -ENOENT;
	*chosen = way;
	return bpf_program__set_expected_attach_type(
		program, way == ZN_WAY_SESSION ? ZN_TRACE_UPROBE_SESSION : ZN_TRACE_UPROBE_MULTI);
}

/* Kernels before 6.6 do not look at the attach type of a uprobe program. A descriptor, or -errno. */
static int program_load(const struct zn_probe *p, enum zn_family f, enum zn_way way)
{
	struct bpf_object *o = zn_object_open(p, object[f].blob);
	struct bpf_program *program;
	int fd = -1, err;

	if (!o)
		return -errno;
	program = bpf_object__find_program_by_name(o, object[f].program);
	err = zn_bpf_map_share(p, o);
	if (!err)
		err = way_choose(o, program, way);
	if (!err)
		err = bpf_object__load(o);
	if (!err)
		fd = zn_fd_keep(bpf_program__fd(program));
	if (!err && fd < 0)
		err = -errno;
	bpf_object__close(o);
	return err ? err : fd;
}

static int family_load(struct zn_probe *p, enum zn_family f)
{
	p->entry_fd[f] = program_load(p, f, p->session ? ZN_WAY_SESSION : ZN_WAY_ENTRY);
	if (p->entry_fd[f] >= 0 && !p->session)
		p->return_fd[f] = program_load(p, f, ZN_WAY_RETURN);
	return p->entry_fd[f] < 0 ? p->entry_fd[f] : p->session || p->return_fd[f] >= 0 ? 0 : p->return_fd[f];
}

#define CAP(name) (1ULL << CAP_##name)

/* Names what is missing. CAP_SYS_ADMIN has in it what CAP_BPF and CAP_PERFMON allow. */
static const char *right_hint(void)
{
	static const struct {
		uint64_t have;
		const char *text;
	} hint[] = {
		{CAP(SYS_ADMIN),
			"CAP_SYS_ADMIN is there: a filter of system calls (SystemCallFilter= of a service), "
			"a security module, lockdown, or before Linux 5.11 the limit of locked memory refuses it"},
		{CAP(BPF) | CAP(PERFMON),
			"CAP_BPF and CAP_PERFMON are there: this kernel wants CAP_SYS_ADMIN as well, or "
			"a filter of system calls refuses it"},
		{CAP(BPF), "CAP_BPF is there: needs CAP_PERFMON as well"},
		{CAP(PERFMON), "CAP_PERFMON is there: needs CAP_BPF as well"},
	};
	uint64_t have = zn_sandbox_capable();

	for (size_t i = 0; i < ZN_LEN(hint); i++)
		if ((have & hint[i].have) == hint[i].have)
			return hint[i].text;
	return geteuid() ? "needs CAP_BPF and CAP_PERFMON: run as root"
			 : "needs CAP_BPF and CAP_PERFMON, which were taken from this root";
}

const char *zn_object_hint(int err)
{
	switch (-err) {
	case EPERM: return right_hint();
	case ENOENT:
	case ESRCH: return "needs a kernel with BTF (/sys/kernel/btf/vmlinux)";
	case EINVAL: return ZN_TOO_OLD;
	case EOPNOTSUPP: return "the kernel refused their type information (BPF_BTF_LOAD)";
	}
	return "see ZERNEL_LOG=debug";
}

/* After the calibration: what it forks and maps is of no interest here, and a failure is not the end. */
void zn_object_load_jobs(struct zn_probe *p)
{
	int err = job_load(p);

	p->job = err == 0;
	if (!err)
		return;
	snprintf(p->job_why, sizeof(p->job_why), "cannot watch control groups: %s; %s", strerror(-err),
		zn_object_hint(err));
	zn_raw_close(p->job_on, ZN_LEN(p->job_on));
	zn_raw_close(p->oom_on, ZN_LEN(p->oom_on));
}

/* One family; what it is about is this family's alone, so that a thread may do it. */
struct loading {
	struct zn_probe *p;
	enum zn_family f;
	pthread_t thread;
	bool beside;
};

static void load_one(struct loading *l)
{
	int err = family_load(l->p, l->f);

	if (err)
		snprintf(l->p->why[l->f], ZN_TEXT_MAX, "cannot load: %s; %s", strerror(-err), zn_object_hint(err));
	l->p->available[l->f] = err == 0;
}

static void *load_beside(void *arg)
{
	load_one(arg);
	zn_pages_drop_stack();
	return NULL;
}

static bool is_wanted(struct zn_probe *p, uint64_t families, enum zn_family f)
{
	if (!(families >> f & 1))
		snprintf(p->why[f], ZN_TEXT_MAX, "switched off by --probes");
	else if (p->old) /* it cannot track processes */
		snprintf(p->why[f], ZN_TEXT_MAX, ZN_TOO_OLD);
	else
		return true;
	return false;
}

/* Beside one another, as nearly all of the time is the kernel's verifier, which takes one processor for each object.
 * The kernel's types have been read by then (zn_object_load_base()), and nobody changes them. False: one is missing. */
static bool load_families(struct zn_probe *p, uint64_t families)
{
	struct loading l[ZN_FAMILY_COUNT];
	uint32_t n = 0, loaded = 0;

	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
		if (is_wanted(p, families, f))
			l[n++] = (struct loading){.p = p, .f = f};
	for (uint32_t i = 1; i < n; i++)
		l[i].beside = !pthread_create(&l[i].thread, NULL, load_beside, &l[i]);
	for (uint32_t i = 0; i < n; i++)
		if (!l[i].beside)
			load_one(&l[i]);
	for (uint32_t i = 0; i < n; i++)
		if (l[i].beside)
			pthread_join(l[i].thread, NULL);
	for (uint32_t i = 0; i < n; i++)
		loaded += p->available[l[i].f];
	return loaded == n;
}

/* A table that a program of one kind was loaded with takes no other kind any more. */
static int walkers_anew(struct zn_probe *p)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_PROG_ARRAY, "walkers", sizeof(uint32_t), sizeof(uint32_t), 1, NULL);

	if (fd < 0)
		return -errno;
	zn_fd_close(&p->map_fd[ZN_MAP_WALKERS]);
	p->map_fd[ZN_MAP_WALKERS] = zn_fd_keep(fd);
	close(fd);
	return p->map_fd[ZN_MAP_WALKERS] < 0 ? -errno : 0;
}

/* After a session was refused. */
static void load_two_links(struct zn_probe *p, uint64_t families)
{
	int err = walkers_anew(p);

	zn_log(ZN_DEBUG, "probe: a session was refused; two links for each family");
	if (err)
		zn_log(ZN_DEBUG, "probe: no table for what walks stacks: %s", strerror(-err));
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
		zn_fd_close(&p->entry_fd[f]);
	p->session = false;
	load_families(p, families);
}

/* Sessions where the kernel has them, else two links for each family: never some of both, as the kernel lets only
 * programs of one kind follow others by a table. */
void zn_object_load_families(struct zn_probe *p, uint64_t families)
{
	p->session = !(families & ZN_WITH_TWO_LINKS) && has_sessions(p);
	if (!load_families(p, families) && p->session)
		load_two_links(p, families);
}

/* Programs find the walker of their kind in a table, for the kernel lets no other one follow them. The clock's is
 * attached to each CPU by itself (clock.c). */
static const struct {
	const char *program;
	enum zn_map table; /* ZN_MAP_COUNT: none */
} walkers[ZN_WALKER_COUNT] = {
	[ZN_WALKER_CALLS] = {"stacks_walk", ZN_MAP_WALKERS},
	[ZN_WALKER_SLEEPS] = {"stacks_sleep", ZN_MAP_SLEEP_WALKERS},
	[ZN_WALKER_CLOCK] = {"stacks_clock", ZN_MAP_COUNT},
};

static int walkers_keep(struct zn_probe *p, const struct bpf_object *o, uint32_t wanted)
{
	uint32_t first = 0;

	for (int i = 0; i < ZN_WALKER_COUNT; i++) {
		struct bpf_program *program = bpf_object__find_program_by_name(o, walkers[i].program);

		if (!(wanted >> i & 1))
			continue;
		p->walker_fd[i] = zn_fd_keep(bpf_program__fd(program));
		if (p->walker_fd[i] < 0 ||
			(walkers[i].table != ZN_MAP_COUNT &&
				bpf_map_update_elem(p->map_fd[walkers[i].table], &first, &p->walker_fd[i], BPF_ANY)))
			return -errno;
	}
	return 0;
}

/* What is copied of native stacks, if that is wanted; else there is no table for it. */
static int natives_choose(const struct zn_probe *p, struct bpf_object *o)
{
	struct bpf_map *natives = bpf_object__find_map_by_name(o, "natives");
	bool *copies = constant_of(o, ".rodata.native", sizeof(*copies));

	if (!natives || !copies)
		return -ENOENT;
	*copies = p->families & ZN_WITH_NATIVE;
	return bpf_map__set_autocreate(natives, *copies);
}

static int natives_keep(struct zn_probe *p, struct bpf_object *o)
{
	if (!(p->families & ZN_WITH_NATIVE))
		return 0;
	p->natives_fd = zn_fd_keep(bpf_map__fd(bpf_object__find_map_by_name(o, "natives")));
	return p->natives_fd < 0 ? -errno : 0;
}

static int stacks_load(struct zn_probe *p, uint32_t wanted)
{
	struct bpf_object *o = zn_object_open(p, &zn_bpf_stacks);
	struct bpf_program *program;
	int err;

	if (!o)
		return -errno;
	program = bpf_object__find_program_by_name(o, walkers[ZN_WALKER_CALLS].program);
	err = program ? zn_bpf_map_share(p, o) : -EOPNOTSUPP;
	if (!err)
		err = natives_choose(p, o);
	if (!err)
		err = bpf_program__set_expected_attach_type(
			program, p->session ? ZN_TRACE_UPROBE_SESSION : ZN_TRACE_UPROBE_MULTI);
	for (int i = 0; i < ZN_WALKER_COUNT && !err; i++)
		err = bpf_program__set_autoload(
			bpf_object__find_program_by_name(o, walkers[i].program), wanted >> i & 1);
	if (!err)
		err = bpf_object__load(o);
	if (!err)
		err = walkers_keep(p, o, wanted);
	if (!err)
		err = natives_keep(p, o);
	bpf_object__close(o);
	return err;
}

/* A kernel before 6.1 refuses the clock, as it looks into tables that take their memory as they are used. */
static int stacks_load_most(struct zn_probe *p)
{
	uint32_t calls = 1u << ZN_WALKER_CALLS, sleeps = 1u << ZN_WALKER_SLEEPS, clock = 1u << ZN_WALKER_CLOCK;
	int err;

	if (p->kernel.method[ZN_FAM_SCHED] == ZN_METHOD_NONE)
		sleeps = 0;
	err = stacks_load(p, calls | sleeps | clock);
	return err && err != -EOPNOTSUPP ? stacks_load(p, calls | sleeps) : err;
}

void zn_object_load_stacks(struct zn_probe *p)
{
	struct zn_kernel *k = &p->kernel;
	bool any = false;
	int err;

	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
		any |= p->available[f];
	if (!(p->families >> ZN_FAM_STACKS & 1))
		return;
	err = any ? stacks_load_most(p) : 0;
	if (!any)
		snprintf(k->why[ZN_FAM_STACKS], ZN_TEXT_MAX, "no family on libraries is there, whose calls it counts");
	else if (err == -EOPNOTSUPP)
		snprintf(k->why[ZN_FAM_STACKS], ZN_TEXT_MAX, "not on this kind of machine: on x86-64 alone");
	else if (err)
		snprintf(k->why[ZN_FAM_STACKS], ZN_TEXT_MAX, "cannot load: %s; needs Linux 5.17", strerror(-err));
	else
		k->method[ZN_FAM_STACKS] = ZN_METHOD_UPROBE;
}
