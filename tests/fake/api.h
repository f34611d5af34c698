/* SPDX-License-Identifier: GPL-2.0 */
/*
 * api.h: the calls of libcuda and libnccl that the fakes have, as lists of (name, arguments). All return an
 * int. The names and arguments are the vendor's, the types are plain ones of the same size. A list makes the
 * prototypes and the call counters of a fake, and the pointers of the driver.
 */
#ifndef FAKE_API_H
#define FAKE_API_H

#include <stddef.h>
#include <stdint.h>

struct cuda_uuid {
	unsigned char bytes[16];
};

struct cuda_location_prop { /* head of CUmemAllocationProp */
	int type;
	int handle_types;
	int location_type;
	int device;
	uint64_t rest[4];
};

struct cuda_launch_config { /* CUlaunchConfig */
	unsigned grid[3];
	unsigned block[3];
	unsigned shared_bytes;
	void *stream;
	void *attributes;
	unsigned attribute_count;
};

struct nccl_id { /* ncclUniqueId: passed by value */
	char bytes[128];
};

#define LAUNCH_ARGS                                                                                                    \
	(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
		void *stream, void **params, void **extra)
#define LAUNCH_EX_ARGS (const struct cuda_launch_config *config, void *f, void **params, void **extra)
#define COOPERATIVE_ARGS                                                                                               \
	(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
		void *stream, void **params)
#define CAPTURE_TO_GRAPH_ARGS (void *stream, void *graph, const void *nodes, const void *edges, size_t count, int mode)
#define PEER_ARGS             (uint64_t to, void *to_ctx, uint64_t from, void *from_ctx, size_t bytes, void *stream)
#define PEER_WAIT_ARGS        (uint64_t to, void *to_ctx, uint64_t from, void *from_ctx, size_t bytes)
#define BOX_ARGS              (const void *box) /* a struct that has where from, where to and how much */
#define BOX_ASYNC_ARGS        (const void *box, void *stream)
#define BATCH_ARGS                                                                                                     \
	(uint64_t * to, uint64_t * from, size_t * bytes, size_t count, void *attributes, size_t *indices,              \
		size_t kinds, size_t *failed, void *stream)
#define BATCH_V2_ARGS                                                                                                  \
	(uint64_t * to, uint64_t * from, size_t * bytes, size_t count, void *attributes, size_t *indices,              \
		size_t kinds, void *stream)
#define BATCH_3D_ARGS     (size_t count, void *boxes, size_t *failed, unsigned long long flags, void *stream)
#define BATCH_3D_V2_ARGS  (size_t count, void *boxes, unsigned long long flags, void *stream)
#define SET_ARGS          (uint64_t at, unsigned value, size_t count)
#define SET_ASYNC_ARGS    (uint64_t at, unsigned value, size_t count, void *stream)
#define SET_2D_ARGS       (uint64_t at, size_t pitch, unsigned value, size_t width, size_t height)
#define SET_2D_ASYNC_ARGS (uint64_t at, size_t pitch, unsigned value, size_t width, size_t height, void *stream)
#define LIBRARY_ARGS                                                                                                   \
	(void **library, const void *code, int *jit, void **jit_values, unsigned jit_count, int *options,              \
		void **values, unsigned count)
#define INSTANTIATE_ARGS (void **exec, void *graph, void *node, char *log, size_t bytes)

/* clang-format off */
#define CUDA_CALLS(X) \
	X(cuInit, (unsigned flags)) \
	X(cuDeviceGetCount, (int *count)) \
	X(cuDeviceGetUuid, (struct cuda_uuid *uuid, int device)) \
	X(cuDeviceGetUuid_v2, (struct cuda_uuid *uuid, int device)) \
	X(cuDeviceGetPCIBusId, (char *to, int len, int device)) \
	X(cuDeviceTotalMem_v2, (size_t *bytes, int device)) \
	X(cuMemGetInfo_v2, (size_t *spare, size_t *total)) \
	X(cuDevicePrimaryCtxRetain, (void **ctx, int device)) \
	X(cuDevicePrimaryCtxReset, (int device)) \
	X(cuDevicePrimaryCtxReset_v2, (int device)) \
	X(cuCtxCreate, (void **ctx, unsigned flags, int device)) \
	X(cuCtxCreate_v2, (void **ctx, unsigned flags, int device)) \
	X(cuCtxCreate_v3, (void **ctx, void *params, int count, unsigned flags, int device)) \
	X(cuCtxCreate_v4, (void **ctx, void *params, unsigned flags, int device)) \
	X(cuCtxDestroy, (void *ctx)) \
	X(cuCtxDestroy_v2, (void *ctx)) \
	X(cuCtxSetCurrent, (void *ctx)) \
	X(cuCtxPushCurrent, (void *ctx)) \
	X(cuCtxPushCurrent_v2, (void *ctx)) \
	X(cuCtxPopCurrent, (void **ctx)) \
	X(cuCtxPopCurrent_v2, (void **ctx)) \
	X(cuMemAlloc_v2, (uint64_t *at, size_t bytes)) \
	X(cuMemAllocManaged, (uint64_t *at, size_t bytes, unsigned flags)) \
	X(cuMemAllocPitch_v2, (uint64_t *at, size_t *pitch, size_t width, size_t height, unsigned element)) \
	X(cuMemAllocAsync, (uint64_t *at, size_t bytes, void *stream)) \
	X(cuMemAllocAsync_ptsz, (uint64_t *at, size_t bytes, void *stream)) \
	X(cuMemAllocFromPoolAsync, (uint64_t *at, size_t bytes, void *pool, void *stream)) \
	X(cuMemAllocFromPoolAsync_ptsz, (uint64_t *at, size_t bytes, void *pool, void *stream)) \
	X(cuMemFree_v2, (uint64_t at)) \
	X(cuMemFreeAsync, (uint64_t at, void *stream)) \
	X(cuMemFreeAsync_ptsz, (uint64_t at, void *stream)) \
	X(cuMemHostAlloc, (void **at, size_t bytes, unsigned flags)) \
	X(cuMemAllocHost_v2, (void **at, size_t bytes)) \
	X(cuMemFreeHost, (void *at)) \
	X(cuMemCreate, (uint64_t *handle, size_t bytes, const struct cuda_location_prop *prop, uint64_t flags)) \
	X(cuMemRelease, (uint64_t handle)) \
	X(cuMemImportFromShareableHandle, (uint64_t *handle, void *os, int type)) \
	X(cuMemRetainAllocationHandle, (uint64_t *handle, void *at)) \
	X(cuMemMap, (uint64_t at, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)) \
	X(cuMemUnmap, (uint64_t at, size_t bytes)) \
	X(cuLaunchKernel, LAUNCH_ARGS) \
	X(cuLaunchKernel_ptsz, LAUNCH_ARGS) \
	X(cuLaunchKernelEx, LAUNCH_EX_ARGS) \
	X(cuLaunchKernelEx_ptsz, LAUNCH_EX_ARGS) \
	X(cuLaunchCooperativeKernel, COOPERATIVE_ARGS) \
	X(cuLaunchCooperativeKernel_ptsz, COOPERATIVE_ARGS) \
	X(cuGraphLaunch, (void *graph, void *stream)) \
	X(cuGraphLaunch_ptsz, (void *graph, void *stream)) \
	X(cuStreamBeginCapture, (void *stream)) \
	X(cuStreamBeginCapture_ptsz, (void *stream)) \
	X(cuStreamBeginCapture_v2, (void *stream, int mode)) \
	X(cuStreamBeginCapture_v2_ptsz, (void *stream, int mode)) \
	X(cuStreamBeginCaptureToGraph, CAPTURE_TO_GRAPH_ARGS) \
	X(cuStreamBeginCaptureToGraph_ptsz, CAPTURE_TO_GRAPH_ARGS) \
	X(cuStreamEndCapture, (void *stream, void **graph)) \
	X(cuStreamEndCapture_ptsz, (void *stream, void **graph)) \
	X(cuStreamSynchronize, (void *stream)) \
	X(cuStreamSynchronize_ptsz, (void *stream)) \
	X(cuEventSynchronize, (void *event)) \
	X(cuCtxSynchronize, (void)) \
	X(cuCtxSynchronize_v2, (void *ctx)) \
	X(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes)) \
	X(cuMemcpyHtoD_v2_ptds, (uint64_t to, const void *from, size_t bytes)) \
	X(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes)) \
	X(cuMemcpyDtoH_v2_ptds, (void *to, uint64_t from, size_t bytes)) \
	X(cuMemcpyDtoD_v2, (uint64_t to, uint64_t from, size_t bytes)) \
	X(cuMemcpyDtoD_v2_ptds, (uint64_t to, uint64_t from, size_t bytes)) \
	X(cuMemcpy, (uint64_t to, uint64_t from, size_t bytes)) \
	X(cuMemcpy_ptds, (uint64_t to, uint64_t from, size_t bytes)) \
	X(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream)) \
	X(cuMemcpyHtoDAsync_v2_ptsz, (uint64_t to, const void *from, size_t bytes, void *stream)) \
	X(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream)) \
	X(cuMemcpyDtoHAsync_v2_ptsz, (void *to, uint64_t from, size_t bytes, void *stream)) \
	X(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
	X(cuMemcpyDtoDAsync_v2_ptsz, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
	X(cuMemcpyAsync, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
	X(cuMemcpyAsync_ptsz, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
	X(cuMemcpyPeerAsync, PEER_ARGS) \
	X(cuMemcpyPeerAsync_ptsz, PEER_ARGS) \
	X(cuMemcpy2D_v2, BOX_ARGS) \
	X(cuMemcpy2D_v2_ptds, BOX_ARGS) \
	X(cuMemcpy2DUnaligned_v2, BOX_ARGS) \
	X(cuMemcpy2DUnaligned_v2_ptds, BOX_ARGS) \
	X(cuMemcpy3D_v2, BOX_ARGS) \
	X(cuMemcpy3D_v2_ptds, BOX_ARGS) \
	X(cuMemcpy3DPeer, BOX_ARGS) \
	X(cuMemcpy3DPeer_ptds, BOX_ARGS) \
	X(cuMemcpy2DAsync_v2, BOX_ASYNC_ARGS) \
	X(cuMemcpy2DAsync_v2_ptsz, BOX_ASYNC_ARGS) \
	X(cuMemcpy3DAsync_v2, BOX_ASYNC_ARGS) \
	X(cuMemcpy3DAsync_v2_ptsz, BOX_ASYNC_ARGS) \
	X(cuMemcpy3DPeerAsync, BOX_ASYNC_ARGS) \
	X(cuMemcpy3DPeerAsync_ptsz, BOX_ASYNC_ARGS) \
	X(cuMemcpyPeer, PEER_WAIT_ARGS) \
	X(cuMemcpyPeer_ptds, PEER_WAIT_ARGS) \
	X(cuMemcpyBatchAsync, BATCH_ARGS) \
	X(cuMemcpyBatchAsync_ptsz, BATCH_ARGS) \
	X(cuMemcpyBatchAsync_v2, BATCH_V2_ARGS) \
	X(cuMemcpyBatchAsync_v2_ptsz, BATCH_V2_ARGS) \
	X(cuMemcpy3DBatchAsync, BATCH_3D_ARGS) \
	X(cuMemcpy3DBatchAsync_ptsz, BATCH_3D_ARGS) \
	X(cuMemcpy3DBatchAsync_v2, BATCH_3D_V2_ARGS) \
	X(cuMemcpy3DBatchAsync_v2_ptsz, BATCH_3D_V2_ARGS) \
	X(cuMemsetD8_v2, SET_ARGS) \
	X(cuMemsetD8_v2_ptds, SET_ARGS) \
	X(cuMemsetD8Async, SET_ASYNC_ARGS) \
	X(cuMemsetD8Async_ptsz, SET_ASYNC_ARGS) \
	X(cuMemsetD2D8_v2, SET_2D_ARGS) \
	X(cuMemsetD2D8_v2_ptds, SET_2D_ARGS) \
	X(cuMemsetD2D8Async, SET_2D_ASYNC_ARGS) \
	X(cuMemsetD2D8Async_ptsz, SET_2D_ASYNC_ARGS) \
	X(cuMemsetD16_v2, SET_ARGS) \
	X(cuMemsetD16_v2_ptds, SET_ARGS) \
	X(cuMemsetD16Async, SET_ASYNC_ARGS) \
	X(cuMemsetD16Async_ptsz, SET_ASYNC_ARGS) \
	X(cuMemsetD2D16_v2, SET_2D_ARGS) \
	X(cuMemsetD2D16_v2_ptds, SET_2D_ARGS) \
	X(cuMemsetD2D16Async, SET_2D_ASYNC_ARGS) \
	X(cuMemsetD2D16Async_ptsz, SET_2D_ASYNC_ARGS) \
	X(cuMemsetD32_v2, SET_ARGS) \
	X(cuMemsetD32_v2_ptds, SET_ARGS) \
	X(cuMemsetD32Async, SET_ASYNC_ARGS) \
	X(cuMemsetD32Async_ptsz, SET_ASYNC_ARGS) \
	X(cuMemsetD2D32_v2, SET_2D_ARGS) \
	X(cuMemsetD2D32_v2_ptds, SET_2D_ARGS) \
	X(cuMemsetD2D32Async, SET_2D_ASYNC_ARGS) \
	X(cuMemsetD2D32Async_ptsz, SET_2D_ASYNC_ARGS) \
	X(cuModuleLoad, (void **module, const char *path)) \
	X(cuModuleLoadData, (void **module, const void *image)) \
	X(cuModuleLoadDataEx, (void **module, const void *image, unsigned count, int *options, void **values)) \
	X(cuModuleLoadFatBinary, (void **module, const void *image)) \
	X(cuLibraryLoadData, LIBRARY_ARGS) \
	X(cuLibraryLoadFromFile, LIBRARY_ARGS) \
	X(cuModuleGetFunction, (void **function, void *module, const char *name)) \
	X(cuLibraryGetKernel, (void **kernel, void *library, const char *name)) \
	X(cuKernelGetFunction, (void **function, void *kernel)) \
	X(cuGraphInstantiate, INSTANTIATE_ARGS) \
	X(cuGraphInstantiate_v2, INSTANTIATE_ARGS) \
	X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags)) \
	X(cuGraphInstantiateWithParams, (void **exec, void *graph, void *params)) \
	X(cuGraphInstantiateWithParams_ptsz, (void **exec, void *graph, void *params)) \
	X(cuGraphExecUpdate, (void *exec, void *graph, void *node, int *result)) \
	X(cuGraphExecUpdate_v2, (void *exec, void *graph, void *result)) \
	X(cuGraphUpload, (void *exec, void *stream)) \
	X(cuGraphUpload_ptsz, (void *exec, void *stream)) \
	X(cuMemHostRegister, (void *at, size_t bytes, unsigned flags)) \
	X(cuMemHostRegister_v2, (void *at, size_t bytes, unsigned flags)) \
	X(cuMemHostUnregister, (void *at)) \
	X(cuMulticastCreate, (uint64_t *handle, const void *prop)) \
	X(cuGreenCtxCreate, (void **green, void *resources, int device, unsigned flags)) \
	X(cuCtxFromGreenCtx, (void **ctx, void *green))

#define REDUCE_ARGS (const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
#define ROOT_ARGS   (const void *from, void *to, size_t count, int type, int root, void *comm, void *stream)
#define GATHER_ARGS (const void *from, void *to, size_t count, int type, void *comm, void *stream)

/* Names without the prefix: each is there as ncclX, weak, and as pncclX. */
#define NCCL_CALLS(X) \
	X(GetUniqueId, (struct nccl_id *id)) \
	X(CommInitRank, (void **comm, int nranks, struct nccl_id id, int rank)) \
	X(CommInitRankConfig, (void **comm, int nranks, struct nccl_id id, int rank, void *config)) \
	X(CommInitRankScalable, (void **comm, int nranks, int rank, int id_count, struct nccl_id *ids, void *config)) \
	X(CommInitAll, (void **comms, int device_count, const int *devices)) \
	X(CommSplit, (void *comm, int color, int key, void **new_comm, void *config)) \
	X(CommUserRank, (void *comm, int *rank)) \
	X(CommCount, (void *comm, int *count)) \
	X(CommCuDevice, (void *comm, int *device)) \
	X(CommFinalize, (void *comm)) \
	X(CommDestroy, (void *comm)) \
	X(CommAbort, (void *comm)) \
	X(AllReduce, REDUCE_ARGS) \
	X(Reduce, (const void *from, void *to, size_t count, int type, int op, int root, void *comm, void *stream)) \
	X(Broadcast, ROOT_ARGS) \
	X(Bcast, (void *at, size_t count, int type, int root, void *comm, void *stream)) \
	X(AllGather, GATHER_ARGS) \
	X(ReduceScatter, REDUCE_ARGS) \
	X(AlltoAll, GATHER_ARGS) \
	X(AllToAll, GATHER_ARGS) /* what librccl calls the same */ \
	X(Gather, ROOT_ARGS) \
	X(Scatter, ROOT_ARGS) \
	X(Send, (const void *at, size_t count, int type, int peer, void *comm, void *stream)) \
	X(Recv, (void *at, size_t count, int type, int peer, void *comm, void *stream)) \
	X(PutSignal, (const void *at, size_t count, int type, int peer, void *window, size_t offset, int signal, int ctx, unsigned flags, void *comm, void *stream)) \
	X(Signal, (int peer, int signal, int ctx, unsigned flags, void *comm, void *stream)) \
	X(WaitSignal, (int count, void *signals, void *comm, void *stream)) \
	X(CommWindowRegister, (void *comm, void *at, size_t bytes, void **window, int flags)) \
	X(CommShrink, (void *comm, int *excluded, int count, void **new_comm, void *config, int flags)) \
	X(CommGrow, (void *comm, int nranks, const struct nccl_id *id, int rank, void **new_comm, void *config)) \
	X(CommSuspend, (void *comm, int flags)) \
	X(CommResume, (void *comm)) \
	X(GroupSimulateEnd, (void *info)) \
	X(GroupStart, (void)) \
	X(GroupEnd, (void))
/* clang-format on */

#endif
