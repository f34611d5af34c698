/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flames.c: the Python stacks of the simulated ranks, as the walker would add them: a training loop whose forward and
 * backward passes launch work, which waits for its GPU twice a step, and for the other ranks.
 */
#include "zernel.h"

#include <string.h>

#define EVERY_MS  1000
#define FRAMES    12 /* of one stack, at most */
#define MINOR     12 /* CPython 3.12 */
#define PACKAGES  "/usr/lib/python3/dist-packages/"
#define SITE      "/home/user/venv/lib/python3.12/site-packages/"
#define PROJECT   "/home/user/project/"
#define ESTIMATED (1u << ZN_LEAF_LAUNCH)

struct frame {
	const char *name, *file;
	int line, first;
};

enum {
	MODULE,
	MAIN,
	EPOCH,
	FORWARD,
	LOSS,
	BACKWARD,
	CLIP,
	OPTIMIZE,
	LOG,
	CALL,
	MODEL,
	BLOCK,
	ATTEND,
	MLP,
	LINEAR,
	ATTENTION,
	NORM,
	CROSS,
	TENSOR_BACKWARD,
	AUTOGRAD,
	AUTOGRAD_THREAD,
	CLIP_NORM,
	ADAM,
	FUSED,
	REDUCE,
	ALL_REDUCE,
	ITEM,
	LOADED,
	COMPILED,
	EXAMPLE,
	ADDMM,
	MATMUL_BACKWARD,
	MATMUL,
	GEMM,
	KERNEL,
	SCALAR,
	SYNCHRONIZE
};
static const struct frame frames[] = {
	[MODULE] = {"<module>", PROJECT "train.py", 312, 1},
	[MAIN] = {"main", PROJECT "train.py", 301, 270},
	[EPOCH] = {"train_epoch", PROJECT "train.py", 244, 226},
	[FORWARD] = {"step", PROJECT "train.py", 212, 205},
	[LOSS] = {"step", PROJECT "train.py", 213, 205},
	[BACKWARD] = {"step", PROJECT "train.py", 216, 205},
	[CLIP] = {"step", PROJECT "train.py", 219, 205},
	[OPTIMIZE] = {"step", PROJECT "train.py", 221, 205},
	[LOG] = {"log", PROJECT "train.py", 188, 181},
	[CALL] = {"Module._wrapped_call_impl", SITE "torch/nn/modules/module.py", 1511, 1505},
	[MODEL] = {"Decoder.forward", PROJECT "model.py", 141, 130},
	[BLOCK] = {"Block.forward", PROJECT "model.py", 97, 90},
	[ATTEND] = {"Attention.forward", PROJECT "model.py", 58, 41},
	[MLP] = {"MLP.forward", PROJECT "model.py", 77, 74},
	[LINEAR] = {"Linear.forward", SITE "torch/nn/modules/linear.py", 114, 113},
	[ATTENTION] = {"scaled_dot_product", SITE "torch/nn/functional.py", 5382, 5300},
	[NORM] = {"LayerNorm.forward", SITE "torch/nn/modules/normalization.py", 201, 200},
	[CROSS] = {"cross_entropy", SITE "torch/nn/functional.py", 3053, 2970},
	[TENSOR_BACKWARD] = {"Tensor.backward", SITE "torch/_tensor.py", 522, 460},
	[AUTOGRAD] = {"backward", SITE "torch/autograd/__init__.py", 266, 170},
	[AUTOGRAD_THREAD] = {"[thread pt_autograd_0]", "", 0, 0},
	[CLIP_NORM] = {"clip_grad_norm_", SITE "torch/nn/utils/clip_grad.py", 55, 12},
	[ADAM] = {"AdamW.step", SITE "torch/optim/adamw.py", 187, 140},
	[FUSED] = {"_multi_tensor_adamw", SITE "torch/optim/adamw.py", 533, 440},
	[REDUCE] = {"average", PROJECT "parallel.py", 33, 20},
	[ALL_REDUCE] = {"all_reduce", SITE "torch/distributed/distributed_c10d.py", 2050, 1990},
	[ITEM] = {"mean", PACKAGES "numpy/core/_methods.py", 129, 100},
	[LOADED] = {"load_kernels", PROJECT "kernels.py", 19, 11},
	[COMPILED] = {"call", "/tmp/torchinductor_user/qx/cqx7.py", 88, 1},
	[EXAMPLE] = {ZN_STACKS_EXAMPLE, "", ZN_PYCODE_NO_LINE, 0},
	[ADDMM] = {"at::_ops::addmm::call", "libtorch_cpu.so", ZN_PYCODE_NO_LINE, 0},
	[MATMUL_BACKWARD] = {"torch::autograd::generated::MmBackward0::apply", "libtorch_cpu.so", ZN_PYCODE_NO_LINE, 0},
	[MATMUL] = {"at::_ops::mm::call", "libtorch_cpu.so", ZN_PYCODE_NO_LINE, 0},
	[GEMM] = {"cublasGemmEx", "libcublas.so.12", ZN_PYCODE_NO_LINE, 0},
	[KERNEL] = {"cuLaunchKernel", "libcuda.so.1", ZN_PYCODE_NO_LINE, 0},
	[SCALAR] = {"at::native::_local_scalar_dense_cuda", "libtorch_cuda.so", ZN_PYCODE_NO_LINE, 0},
	[SYNCHRONIZE] = {"cuStreamSynchronize", "libcuda.so.1", ZN_PYCODE_NO_LINE, 0},
};

/* By second, of one rank; value is nanoseconds or bytes. Frames end with the first 0 behind MODULE; native ones are the
 * example of what is below, with --stacks native. */
static const struct stack {
	enum zn_leaf leaf;
	uint32_t count;
	uint64_t value;
	uint8_t frame[FRAMES], native[FRAMES];
} stacks[] = {
	{ZN_LEAF_LAUNCH, 420, 58000000,
		{MODULE, MAIN, EPOCH, FORWARD, CALL, MODEL, CALL, BLOCK, CALL, MLP, CALL, LINEAR},
		{EXAMPLE, ADDMM, GEMM, KERNEL}},
	{ZN_LEAF_LAUNCH, 310, 44000000,
		{MODULE, MAIN, EPOCH, FORWARD, CALL, MODEL, CALL, BLOCK, CALL, ATTEND, ATTENTION}, {0}},
	{ZN_LEAF_LAUNCH, 120, 17000000, {MODULE, MAIN, EPOCH, FORWARD, CALL, MODEL, CALL, BLOCK, CALL, NORM}, {0}},
	{ZN_LEAF_LAUNCH, 60, 8000000, {MODULE, MAIN, EPOCH, FORWARD, CALL, MODEL, COMPILED}, {0}},
	{ZN_LEAF_LAUNCH, 40, 6000000, {MODULE, MAIN, EPOCH, LOSS, CROSS}, {0}},
	{ZN_LEAF_LAUNCH, 700, 91000000, {MODULE, MAIN, EPOCH, BACKWARD, TENSOR_BACKWARD, AUTOGRAD, AUTOGRAD_THREAD},
		{EXAMPLE, MATMUL_BACKWARD, MATMUL, GEMM, KERNEL}},
	{ZN_LEAF_LAUNCH, 150, 21000000, {MODULE, MAIN, EPOCH, OPTIMIZE, ADAM, FUSED}, {0}},
	{ZN_LEAF_GPU, 10, 390000000, {MODULE, MAIN, EPOCH, CLIP, CLIP_NORM}, {EXAMPLE, SCALAR, SYNCHRONIZE}},
	{ZN_LEAF_GPU, 4, 140000000, {MODULE, MAIN, EPOCH, LOG}, {0}},
	{ZN_LEAF_GPU, 2, 30000000, {MODULE, MAIN, EPOCH, LOG, ITEM}, {0}},
	{ZN_LEAF_NCCL, 10, 60000000, {MODULE, MAIN, EPOCH, BACKWARD, REDUCE, ALL_REDUCE}, {0}},
	{ZN_LEAF_ALLOC, 2, 96ULL << 20, {MODULE, MAIN, EPOCH, FORWARD, CALL, MODEL, CALL, BLOCK, CALL, MLP}, {0}},
	{ZN_LEAF_ALLOC, 1, 32ULL << 20, {MODULE, MAIN, EPOCH, LOSS, CROSS}, {0}},
	{ZN_LEAF_LOAD, 1, 900000, {MODULE, MAIN, LOADED}, {0}},
};

static void root_start(struct zn_sim *s, uint32_t rank)
{
	const struct zn_proc *p = s->rank[rank];
	struct zn_stacks_root root = {
		.pid = p->tgid, .id = p->id, .owner = ZN_OWNER_ROOT, .minor = MINOR, .estimated = ESTIMATED};

	memcpy(root.comm, p->comm, sizeof(root.comm));
	s->root[rank] = zn_stacks_root(s->stacks, &root, zn_now_ns());
	s->root_id[rank] = p->id;
}

static uint32_t frame_add(struct zn_sim *s, uint32_t root, uint32_t node, const struct frame *f)
{
	uint32_t function = zn_stacks_function(s->stacks, root, zn_str_of(f->name), zn_str_of(f->file), f->first);

	return zn_stacks_node(s->stacks, root, node, function, f->line);
}

static void stack_add(struct zn_sim *s, uint32_t root, const struct stack *k)
{
	uint32_t node = ZN_STACKS_NO_NODE, below;
	struct zn_stack_sum sum = {.count = k->count};

	for (uint32_t i = 0; i < FRAMES && (!i || k->frame[i]); i++)
		node = frame_add(s, root, node, &frames[k->frame[i]]);
	sum.value = k->value / 100 * (90 + zn_random_below(&s->stack_state, 20));
	zn_stacks_add(s->stacks, node, k->leaf, &sum);
	if (!s->natives || !k->native[0] || node == ZN_STACKS_NO_NODE ||
		zn_stacks_has_example(s->stacks, node, k->leaf))
		return;
	below = node;
	for (uint32_t i = 0; k->native[i]; i++)
		below = frame_add(s, root, below, &frames[k->native[i]]);
	zn_stacks_put_example(s->stacks, node, k->leaf, below);
}

static void rank_add(struct zn_sim *s, uint32_t rank)
{
	const struct zn_proc *p = s->rank[rank];
	struct zn_stacks_root *root = NULL;

	if (s->root_id[rank] && (!p || p->id != s->root_id[rank])) {
		root = zn_stacks_root_at(s->stacks, s->root[rank]);
		if (root)
			root->ended_ns = zn_now_ns();
		s->root_id[rank] = 0;
	}
	if (p && !s->root_id[rank])
		root_start(s, rank);
	root = p ? zn_stacks_root_at(s->stacks, s->root[rank]) : NULL;
	if (!root || zn_scenario_still_kind(s, rank))
		return;
	root->job = p->job;
	for (size_t i = 0; i < ZN_LEN(stacks); i++)
		stack_add(s, s->root[rank], &stacks[i]);
}

void zn_sim_stacks_run(struct zn_sim *s)
{
	if (!s->stacks || s->elapsed_ms % EVERY_MS)
		return;
	zn_stacks_lock(s->stacks);
	for (uint32_t rank = 0; rank < ZN_SIM_RANKS; rank++)
		rank_add(s, rank);
	zn_stacks_tick(s->stacks, zn_now_ns());
	zn_stacks_room(s->stacks, zn_now_ns());
	zn_stacks_unlock(s->stacks);
}
