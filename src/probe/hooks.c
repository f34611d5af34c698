/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of the libraries' functions that are hooked, and what each of them means.
 */
#include "zernel.h"

#define PTSZ 1  /* also under the name with _ptsz: per-thread default stream */
#define PTDS 2  /* also under the name with _ptds */
#define ONCE 4  /* entry only */
#define LINK 8  /* only where one link has all functions: to let go of a perf event takes some 0.1 s */
#define SPT  16 /* also under the name with _spt: HIP's per-thread default stream */

/* Names that a library lacks are normal: each driver has some of them. Positions and sources: see enum zn_shape. */
static const struct {
	const char *name;
	uint8_t family, shape, detail, flags;
} table[] = {
	{"cuMemAlloc_v2", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_DEVICE, 0},
	{"cuMemAllocManaged", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_MANAGED, 0},
	{"cuMemAllocPitch_v2", ZN_FAM_GPU_MEM, ZN_S_ALLOC_PITCH, ZN_K_DEVICE, 0},
	{"cuMemAllocAsync", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_ASYNC, PTSZ},
	{"cuMemAllocFromPoolAsync", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_POOL, PTSZ},
	{"cuMemHostAlloc", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_HOST, 0},
	{"cuMemAllocHost_v2", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_HOST, 0},
	{"cuMemHostRegister", ZN_FAM_GPU_MEM, ZN_S_HOST_REGISTER, ZN_K_HOST, 0},
	{"cuMemHostRegister_v2", ZN_FAM_GPU_MEM, ZN_S_HOST_REGISTER, ZN_K_HOST, 0},
	{"cuMemHostUnregister", ZN_FAM_GPU_MEM, ZN_S_FREE, ZN_K_HOST, 0},
	{"cuMemCreate", ZN_FAM_GPU_MEM, ZN_S_VMM_CREATE, ZN_K_VMM, 0},
	{"cuMemRelease", ZN_FAM_GPU_MEM, ZN_S_VMM_RELEASE, ZN_K_VMM, 0},
	{"cuMemRetainAllocationHandle", ZN_FAM_GPU_MEM, ZN_S_VMM_RETAIN, ZN_K_VMM, 0},
	{"cuMemImportFromShareableHandle", ZN_FAM_GPU_MEM, ZN_S_VMM_IMPORT, ZN_K_VMM, 0},
	{"cuMulticastCreate", ZN_FAM_GPU_MEM, ZN_S_VMM_IMPORT, ZN_K_VMM, 0}, /* a handle without memory of its own */
	{"cuMemMap", ZN_FAM_GPU_MEM, ZN_S_VMM_MAP, ZN_K_VMM, 0},
	{"cuMemUnmap", ZN_FAM_GPU_MEM, ZN_S_VMM_UNMAP, ZN_K_VMM, 0},
	{"cuMemFree_v2", ZN_FAM_GPU_MEM, ZN_S_FREE, ZN_K_DEVICE, 0},
	{"cuMemFreeAsync", ZN_FAM_GPU_MEM, ZN_S_FREE, ZN_K_ASYNC, PTSZ},
	{"cuMemFreeHost", ZN_FAM_GPU_MEM, ZN_S_FREE, ZN_K_HOST, 0},
	{"cuCtxCreate", ZN_FAM_GPU_MEM, ZN_S_CTX_CREATE, 3, 0},
	{"cuCtxCreate_v2", ZN_FAM_GPU_MEM, ZN_S_CTX_CREATE, 3, 0},
	{"cuCtxCreate_v3", ZN_FAM_GPU_MEM, ZN_S_CTX_CREATE, 5, 0},
	{"cuCtxCreate_v4", ZN_FAM_GPU_MEM, ZN_S_CTX_CREATE, 4, 0},
	{"cuGreenCtxCreate", ZN_FAM_GPU_MEM, ZN_S_GREEN_CREATE, 0, 0},
	{"cuCtxFromGreenCtx", ZN_FAM_GPU_MEM, ZN_S_GREEN_CTX, 0, 0},
	{"cuCtxDestroy", ZN_FAM_GPU_MEM, ZN_S_CTX_DESTROY, 0, 0},
	{"cuCtxDestroy_v2", ZN_FAM_GPU_MEM, ZN_S_CTX_DESTROY, 0, 0},
	{"cuDevicePrimaryCtxRetain", ZN_FAM_GPU_MEM, ZN_S_PRIMARY_RETAIN, 0, 0},
	{"cuDevicePrimaryCtxReset", ZN_FAM_GPU_MEM, ZN_S_PRIMARY_RESET, 0, 0}, /* by cudaDeviceReset() of 13.0 */
	{"cuDevicePrimaryCtxReset_v2", ZN_FAM_GPU_MEM, ZN_S_PRIMARY_RESET, 0, 0},
	{"cuCtxSetCurrent", ZN_FAM_GPU_MEM, ZN_S_CTX_SET, 0, ONCE},
	{"cuCtxPushCurrent", ZN_FAM_GPU_MEM, ZN_S_CTX_PUSH, 0, 0},
	{"cuCtxPushCurrent_v2", ZN_FAM_GPU_MEM, ZN_S_CTX_PUSH, 0, 0},
	{"cuCtxPopCurrent", ZN_FAM_GPU_MEM, ZN_S_CTX_POP, 0, 0},
	{"cuCtxPopCurrent_v2", ZN_FAM_GPU_MEM, ZN_S_CTX_POP, 0, 0},
	{"cuDeviceGetUuid", ZN_FAM_GPU_MEM, ZN_S_DEVICE_UUID, 0, 0},
	{"cuDeviceGetUuid_v2", ZN_FAM_GPU_MEM, ZN_S_DEVICE_UUID, 0, 0},
	{"cuDeviceGetPCIBusId", ZN_FAM_GPU_MEM, ZN_S_DEVICE_PCI, 0, 0},
	{"cuDeviceTotalMem_v2", ZN_FAM_GPU_MEM, ZN_S_DEVICE_TOTAL, 0, 0},
	{"cuMemGetInfo_v2", ZN_FAM_GPU_MEM, ZN_S_MEM_INFO, 0, 0},

	{"cuLaunchKernel", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH, ZN_C_LAUNCH_KERNEL, PTSZ},
	{"cuLaunchKernelEx", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH_EX, ZN_C_LAUNCH_KERNEL, PTSZ},
	{"cuLaunchCooperativeKernel", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH, ZN_C_LAUNCH_COOPERATIVE, PTSZ},
	{"cuGraphLaunch", ZN_FAM_CUDA_TRACE, ZN_S_GRAPH_LAUNCH, ZN_C_LAUNCH_GRAPH, PTSZ},
	{"cuStreamBeginCapture", ZN_FAM_CUDA_TRACE, ZN_S_CAPTURE_BEGIN, 0, PTSZ},
	{"cuStreamBeginCapture_v2", ZN_FAM_CUDA_TRACE, ZN_S_CAPTURE_BEGIN, 0, PTSZ},
	{"cuStreamBeginCaptureToGraph", ZN_FAM_CUDA_TRACE, ZN_S_CAPTURE_BEGIN, 0, PTSZ},
	{"cuStreamEndCapture", ZN_FAM_CUDA_TRACE, ZN_S_CAPTURE_END, 0, PTSZ},
	{"cuStreamSynchronize", ZN_FAM_CUDA_TRACE, ZN_S_SYNC, ZN_H_SYNC_STREAM, PTSZ},
	{"cuEventSynchronize", ZN_FAM_CUDA_TRACE, ZN_S_SYNC, ZN_H_SYNC_EVENT, 0},
	{"cuCtxSynchronize", ZN_FAM_CUDA_TRACE, ZN_S_SYNC, ZN_H_SYNC_CTX, 0},
	{"cuCtxSynchronize_v2", ZN_FAM_CUDA_TRACE, ZN_S_SYNC, ZN_H_SYNC_CTX, 0},
	{"cuMemcpyHtoD_v2", ZN_FAM_CUDA_TRACE, ZN_S_COPY, 0, PTDS},
	{"cuMemcpyDtoH_v2", ZN_FAM_CUDA_TRACE, ZN_S_COPY, 1, PTDS},
	{"cuMemcpyDtoD_v2", ZN_FAM_CUDA_TRACE, ZN_S_COPY, 2, PTDS},
	{"cuMemcpy", ZN_FAM_CUDA_TRACE, ZN_S_COPY, 3, PTDS},
	{"cuMemcpyHtoDAsync_v2", ZN_FAM_CUDA_TRACE, ZN_S_COPY_ASYNC, 0, PTSZ | ONCE},
	{"cuMemcpyDtoHAsync_v2", ZN_FAM_CUDA_TRACE, ZN_S_COPY_ASYNC, 1, PTSZ | ONCE},
	{"cuMemcpyDtoDAsync_v2", ZN_FAM_CUDA_TRACE, ZN_S_COPY_ASYNC, 2, PTSZ | ONCE},
	{"cuMemcpyAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_ASYNC, 3, PTSZ | ONCE},
	{"cuMemcpyPeerAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_PEER, 2, PTSZ | ONCE},
	{"cuMemcpyPeer", ZN_FAM_CUDA_TRACE, ZN_S_PEER_WAIT, 2, PTDS},
	{"cuMemcpy2D_v2", ZN_FAM_CUDA_TRACE, ZN_S_BOX, ZN_BOX_2D, PTDS | LINK},
	{"cuMemcpy2DUnaligned_v2", ZN_FAM_CUDA_TRACE, ZN_S_BOX, ZN_BOX_2D, PTDS | LINK},
	{"cuMemcpy2DAsync_v2", ZN_FAM_CUDA_TRACE, ZN_S_BOX_ASYNC, ZN_BOX_2D, PTSZ | ONCE | LINK},
	{"cuMemcpy3D_v2", ZN_FAM_CUDA_TRACE, ZN_S_BOX, ZN_BOX_3D, PTDS | LINK},
	{"cuMemcpy3DAsync_v2", ZN_FAM_CUDA_TRACE, ZN_S_BOX_ASYNC, ZN_BOX_3D, PTSZ | ONCE | LINK},
	{"cuMemcpy3DPeer", ZN_FAM_CUDA_TRACE, ZN_S_BOX, ZN_BOX_3D, PTDS | LINK},
	{"cuMemcpy3DPeerAsync", ZN_FAM_CUDA_TRACE, ZN_S_BOX_ASYNC, ZN_BOX_3D, PTSZ | ONCE | LINK},
	{"cuMemcpyBatchAsync", ZN_FAM_CUDA_TRACE, ZN_S_BATCH, 0, PTSZ | ONCE},
	{"cuMemcpyBatchAsync_v2", ZN_FAM_CUDA_TRACE, ZN_S_BATCH, 0, PTSZ | ONCE},
	{"cuMemcpy3DBatchAsync", ZN_FAM_CUDA_TRACE, ZN_S_BATCH_3D, 0, PTSZ | ONCE | LINK},
	{"cuMemcpy3DBatchAsync_v2", ZN_FAM_CUDA_TRACE, ZN_S_BATCH_3D, 0, PTSZ | ONCE | LINK},
	{"cuMemsetD8_v2", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 1, PTDS | ONCE | LINK},
	{"cuMemsetD16_v2", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 2, PTDS | ONCE | LINK},
	{"cuMemsetD32_v2", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 4, PTDS | ONCE | LINK},
	{"cuMemsetD8Async", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 1, PTSZ | ONCE | LINK},
	{"cuMemsetD16Async", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 2, PTSZ | ONCE | LINK},
	{"cuMemsetD32Async", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 4, PTSZ | ONCE | LINK},
	{"cuMemsetD2D8_v2", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET_2D, 1, PTDS | ONCE | LINK},
	{"cuMemsetD2D16_v2", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET_2D, 2, PTDS | ONCE | LINK},
	{"cuMemsetD2D32_v2", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET_2D, 4, PTDS | ONCE | LINK},
	{"cuMemsetD2D8Async", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET_2D, 1, PTSZ | ONCE | LINK},
	{"cuMemsetD2D16Async", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET_2D, 2, PTSZ | ONCE | LINK},
	{"cuMemsetD2D32Async", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET_2D, 4, PTSZ | ONCE | LINK},
	{"cuModuleLoad", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_MODULE, LINK},
	{"cuModuleLoadData", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_MODULE, LINK},
	{"cuModuleLoadDataEx", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_MODULE, LINK},
	{"cuModuleLoadFatBinary", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_MODULE, LINK},
	{"cuLibraryLoadData", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_LIBRARY, LINK},
	{"cuLibraryLoadFromFile", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_LIBRARY, LINK},
	{"cuModuleGetFunction", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_FUNCTION, LINK},
	{"cuLibraryGetKernel", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_FUNCTION, LINK},
	{"cuKernelGetFunction", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_FUNCTION, LINK},
	{"cuGraphInstantiate", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"cuGraphInstantiate_v2", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"cuGraphInstantiateWithFlags", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"cuGraphInstantiateWithParams", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, PTSZ | LINK},
	{"cuGraphExecUpdate", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"cuGraphExecUpdate_v2", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"cuGraphUpload", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, PTSZ | LINK},

	/* HIP (ROCm): a thread has a device, 0 unless it sets one. Arguments as in hip_runtime_api.h of 5.2 to 6.4. */
	{"hipMalloc", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_DEVICE, 0},
	{"hipExtMallocWithFlags", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_DEVICE, 0},
	{"hipMallocManaged", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_MANAGED, 0},
	{"hipMallocPitch", ZN_FAM_GPU_MEM, ZN_S_ALLOC_PITCH, ZN_K_DEVICE, 0},
	{"hipMallocAsync", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_ASYNC, 0},
	{"hipMallocFromPoolAsync", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_POOL, 0},
	{"hipHostMalloc", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_HOST, 0},
	{"hipHostAlloc", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_HOST, 0},
	{"hipMallocHost", ZN_FAM_GPU_MEM, ZN_S_ALLOC, ZN_K_HOST, 0},
	{"hipHostRegister", ZN_FAM_GPU_MEM, ZN_S_HOST_REGISTER, ZN_K_HOST, 0},
	{"hipHostUnregister", ZN_FAM_GPU_MEM, ZN_S_FREE, ZN_K_HOST, 0},
	{"hipMemCreate", ZN_FAM_GPU_MEM, ZN_S_VMM_CREATE, ZN_K_VMM, 0},
	{"hipMemRelease", ZN_FAM_GPU_MEM, ZN_S_VMM_RELEASE, ZN_K_VMM, 0},
	{"hipMemRetainAllocationHandle", ZN_FAM_GPU_MEM, ZN_S_VMM_RETAIN, ZN_K_VMM, 0},
	{"hipMemImportFromShareableHandle", ZN_FAM_GPU_MEM, ZN_S_VMM_IMPORT, ZN_K_VMM, 0},
	{"hipMemMap", ZN_FAM_GPU_MEM, ZN_S_VMM_MAP, ZN_K_VMM, 0},
	{"hipMemUnmap", ZN_FAM_GPU_MEM, ZN_S_VMM_UNMAP, ZN_K_VMM, 0},
	{"hipFree", ZN_FAM_GPU_MEM, ZN_S_FREE, ZN_K_DEVICE, 0},
	{"hipFreeAsync", ZN_FAM_GPU_MEM, ZN_S_FREE, ZN_K_ASYNC, 0},
	{"hipHostFree", ZN_FAM_GPU_MEM, ZN_S_FREE, ZN_K_HOST, 0},
	{"hipFreeHost", ZN_FAM_GPU_MEM, ZN_S_FREE, ZN_K_HOST, 0},
	{"hipSetDevice", ZN_FAM_GPU_MEM, ZN_S_HIP_SET_DEVICE, 0, 0},
	{"hipCtxCreate", ZN_FAM_GPU_MEM, ZN_S_CTX_CREATE, 3, 0},
	{"hipCtxDestroy", ZN_FAM_GPU_MEM, ZN_S_CTX_DESTROY, 0, 0},
	{"hipDevicePrimaryCtxRetain", ZN_FAM_GPU_MEM, ZN_S_PRIMARY_RETAIN, 0, 0},
	{"hipDevicePrimaryCtxReset", ZN_FAM_GPU_MEM, ZN_S_PRIMARY_RESET, 0, 0},
	{"hipCtxSetCurrent", ZN_FAM_GPU_MEM, ZN_S_CTX_SET, 0, ONCE},
	{"hipCtxPushCurrent", ZN_FAM_GPU_MEM, ZN_S_CTX_PUSH, 0, 0},
	{"hipCtxPopCurrent", ZN_FAM_GPU_MEM, ZN_S_CTX_POP, 0, 0},
	{"hipDeviceReset", ZN_FAM_GPU_MEM, ZN_S_HIP_RESET, 0, 0},
	{"hipDeviceGetUuid", ZN_FAM_GPU_MEM, ZN_S_DEVICE_UUID, 0, 0},
	{"hipDeviceGetPCIBusId", ZN_FAM_GPU_MEM, ZN_S_DEVICE_PCI, 0, 0},
	{"hipDeviceTotalMem", ZN_FAM_GPU_MEM, ZN_S_DEVICE_TOTAL, 0, 0},
	{"hipGetDevicePropertiesR0600", ZN_FAM_GPU_MEM, ZN_S_HIP_PROPERTIES, 0, 0},
	{"hipMemGetInfo", ZN_FAM_GPU_MEM, ZN_S_MEM_INFO, 0, 0},
	{"hipLaunchKernel", ZN_FAM_CUDA_TRACE, ZN_S_HIP_LAUNCH, ZN_C_LAUNCH_KERNEL, SPT},
	{"hipExtLaunchKernel", ZN_FAM_CUDA_TRACE, ZN_S_HIP_LAUNCH, ZN_C_LAUNCH_KERNEL, 0},
	{"hipLaunchCooperativeKernel", ZN_FAM_CUDA_TRACE, ZN_S_HIP_LAUNCH, ZN_C_LAUNCH_COOPERATIVE, SPT},
	{"hipModuleLaunchKernel", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH, ZN_C_LAUNCH_KERNEL, 0},
	{"hipExtModuleLaunchKernel", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH, ZN_C_LAUNCH_KERNEL, 0},
	{"_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
		ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH, ZN_C_LAUNCH_KERNEL,
		0}, /* ROCm 5 has it as C++ alone, and the next one is its old name */
	{"_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_",
		ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH, ZN_C_LAUNCH_KERNEL, 0},
	{"hipModuleLaunchCooperativeKernel", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH, ZN_C_LAUNCH_COOPERATIVE, 0},
	{"hipLaunchKernelExC", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH_EX, ZN_C_LAUNCH_KERNEL, 0},
	{"hipDrvLaunchKernelEx", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH_EX, ZN_C_LAUNCH_KERNEL, 0},
	{"hipGraphLaunch", ZN_FAM_CUDA_TRACE, ZN_S_GRAPH_LAUNCH, ZN_C_LAUNCH_GRAPH, SPT},
	{"hipStreamBeginCapture", ZN_FAM_CUDA_TRACE, ZN_S_CAPTURE_BEGIN, 0, SPT},
	{"hipStreamBeginCaptureToGraph", ZN_FAM_CUDA_TRACE, ZN_S_CAPTURE_BEGIN, 0, 0},
	{"hipStreamEndCapture", ZN_FAM_CUDA_TRACE, ZN_S_CAPTURE_END, 0, SPT},
	{"hipStreamSynchronize", ZN_FAM_CUDA_TRACE, ZN_S_SYNC, ZN_H_SYNC_STREAM, SPT},
	{"hipEventSynchronize", ZN_FAM_CUDA_TRACE, ZN_S_SYNC, ZN_H_SYNC_EVENT, 0},
	{"hipDeviceSynchronize", ZN_FAM_CUDA_TRACE, ZN_S_SYNC, ZN_H_SYNC_CTX, 0},
	{"hipCtxSynchronize", ZN_FAM_CUDA_TRACE, ZN_S_SYNC, ZN_H_SYNC_CTX, 0},
	{"hipMemcpy", ZN_FAM_CUDA_TRACE, ZN_S_COPY_KIND, 0, SPT},
	{"hipMemcpyWithStream", ZN_FAM_CUDA_TRACE, ZN_S_COPY_KIND, 0, 0},
	{"hipMemcpyAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_KIND_ASYNC, 0, SPT | ONCE},
	{"hipMemcpyHtoD", ZN_FAM_CUDA_TRACE, ZN_S_COPY, 0, 0},
	{"hipMemcpyDtoH", ZN_FAM_CUDA_TRACE, ZN_S_COPY, 1, 0},
	{"hipMemcpyDtoD", ZN_FAM_CUDA_TRACE, ZN_S_COPY, 2, 0},
	{"hipMemcpyHtoDAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_ASYNC, 0, ONCE},
	{"hipMemcpyDtoHAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_ASYNC, 1, ONCE},
	{"hipMemcpyDtoDAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_ASYNC, 2, ONCE},
	{"hipMemcpyToSymbol", ZN_FAM_CUDA_TRACE, ZN_S_COPY, 3, SPT},
	{"hipMemcpyFromSymbol", ZN_FAM_CUDA_TRACE, ZN_S_COPY, 3, SPT},
	{"hipMemcpyToSymbolAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_ASYNC, 3, SPT | ONCE},
	{"hipMemcpyFromSymbolAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_ASYNC, 3, SPT | ONCE},
	{"hipMemcpyPeer", ZN_FAM_CUDA_TRACE, ZN_S_PEER_WAIT, 2, 0},
	{"hipMemcpyPeerAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_PEER, 2, ONCE},
	{"hipMemcpy2D", ZN_FAM_CUDA_TRACE, ZN_S_COPY_PITCH, 0, SPT | LINK},
	{"hipMemcpy2DAsync", ZN_FAM_CUDA_TRACE, ZN_S_COPY_PITCH_ASYNC, 0, SPT | ONCE | LINK},
	{"hipMemcpyParam2D", ZN_FAM_CUDA_TRACE, ZN_S_BOX, ZN_BOX_HIP_2D, LINK},
	{"hipDrvMemcpy2DUnaligned", ZN_FAM_CUDA_TRACE, ZN_S_BOX, ZN_BOX_HIP_2D, LINK},
	{"hipMemcpyParam2DAsync", ZN_FAM_CUDA_TRACE, ZN_S_BOX_ASYNC, ZN_BOX_HIP_2D, ONCE | LINK},
	{"hipMemcpy3D", ZN_FAM_CUDA_TRACE, ZN_S_BOX, ZN_BOX_HIP_3D, SPT | LINK},
	{"hipMemcpy3DAsync", ZN_FAM_CUDA_TRACE, ZN_S_BOX_ASYNC, ZN_BOX_HIP_3D, SPT | ONCE | LINK},
	{"hipMemset", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 1, SPT | ONCE | LINK},
	{"hipMemsetAsync", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 1, SPT | ONCE | LINK},
	{"hipMemsetD8", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 1, ONCE | LINK},
	{"hipMemsetD16", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 2, ONCE | LINK},
	{"hipMemsetD32", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 4, ONCE | LINK},
	{"hipMemsetD8Async", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 1, ONCE | LINK},
	{"hipMemsetD16Async", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 2, ONCE | LINK},
	{"hipMemsetD32Async", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET, 4, ONCE | LINK},
	{"hipMemset2D", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET_2D, 1, SPT | ONCE | LINK},
	{"hipMemset2DAsync", ZN_FAM_CUDA_TRACE, ZN_S_MEMSET_2D, 1, SPT | ONCE | LINK},
	{"hipModuleLoad", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_MODULE, LINK},
	{"hipModuleLoadData", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_MODULE, LINK},
	{"hipModuleLoadDataEx", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_MODULE, LINK},
	{"hipModuleGetFunction", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_FUNCTION, LINK},
	{"hipGraphInstantiate", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"hipGraphInstantiateWithFlags", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"hipGraphInstantiateWithParams", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"hipGraphExecUpdate", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"hipGraphUpload", ZN_FAM_CUDA_TRACE, ZN_S_LOAD, ZN_H_LOAD_GRAPH, LINK},
	{"ncclAllReduce", ZN_FAM_NCCL, ZN_S_COLL, ZN_H_NCCL_ALL_REDUCE, 0},
	{"ncclReduce", ZN_FAM_NCCL, ZN_S_COLL, ZN_H_NCCL_REDUCE, 0},
	{"ncclBroadcast", ZN_FAM_NCCL, ZN_S_COLL, ZN_H_NCCL_BROADCAST, 0},
	{"ncclBcast", ZN_FAM_NCCL, ZN_S_BCAST, ZN_H_NCCL_BROADCAST, 0}, /* in NCCL it calls the former, in RCCL not */
	{"ncclAllGather", ZN_FAM_NCCL, ZN_S_COLL, ZN_H_NCCL_ALL_GATHER, 0},
	{"ncclReduceScatter", ZN_FAM_NCCL, ZN_S_COLL, ZN_H_NCCL_REDUCE_SCATTER, 0},
	{"ncclAlltoAll", ZN_FAM_NCCL, ZN_S_COLL, ZN_H_NCCL_ALL_TO_ALL, 0},
	{"ncclAllToAll", ZN_FAM_NCCL, ZN_S_COLL, ZN_H_NCCL_ALL_TO_ALL, 0},
	{"ncclGather", ZN_FAM_NCCL, ZN_S_COLL, ZN_H_NCCL_GATHER, 0},
	{"ncclScatter", ZN_FAM_NCCL, ZN_S_COLL, ZN_H_NCCL_SCATTER, 0},
	{"ncclSend", ZN_FAM_NCCL, ZN_S_P2P, ZN_H_NCCL_SEND, 0},
	{"ncclRecv", ZN_FAM_NCCL, ZN_S_P2P, ZN_H_NCCL_RECV, 0},
	{"ncclPutSignal", ZN_FAM_NCCL, ZN_S_P2P, ZN_H_NCCL_PUT, 0},
	{"ncclSignal", ZN_FAM_NCCL, ZN_S_NO_BYTES, ZN_H_NCCL_SIGNAL, 0},
	{"ncclWaitSignal", ZN_FAM_NCCL, ZN_S_NO_BYTES, ZN_H_NCCL_WAIT_SIGNAL, 0},
	{"ncclCommWindowRegister", ZN_FAM_NCCL, ZN_S_NO_BYTES, ZN_H_NCCL_WINDOW, 0},
	{"ncclGroupStart", ZN_FAM_NCCL, ZN_S_GROUP_START, 0, 0},
	{"ncclGroupEnd", ZN_FAM_NCCL, ZN_S_GROUP_END, 0, 0},
	{"ncclGroupSimulateEnd", ZN_FAM_NCCL, ZN_S_GROUP_SIMULATE, 0, 0},
	{"ncclCommInitRank", ZN_FAM_NCCL, ZN_S_COMM_INIT, 0, 0},
	{"ncclCommInitRankConfig", ZN_FAM_NCCL, ZN_S_COMM_INIT, 0, 0},
	{"ncclCommInitRankScalable", ZN_FAM_NCCL, ZN_S_COMM_INIT_SCALABLE, 0, 0},
	{"ncclCommInitAll", ZN_FAM_NCCL, ZN_S_COMM_INIT_ALL, 0, 0},
	{"ncclCommSplit", ZN_FAM_NCCL, ZN_S_COMM_SPLIT, 0, 0},
	{"ncclCommShrink", ZN_FAM_NCCL, ZN_S_COMM_SHRINK, 0, 0},
	{"ncclCommGrow", ZN_FAM_NCCL, ZN_S_COMM_GROW, 0, 0},
	{"ncclCommFinalize", ZN_FAM_NCCL, ZN_S_COMM_WAIT, 0, 0},
	{"ncclCommSuspend", ZN_FAM_NCCL, ZN_S_COMM_WAIT, 0, 0},
	{"ncclCommResume", ZN_FAM_NCCL, ZN_S_COMM_WAIT, 0, 0},
	{"ncclCommUserRank", ZN_FAM_NCCL, ZN_S_COMM_RANK, 0, 0},
	{"ncclCommCount", ZN_FAM_NCCL, ZN_S_COMM_COUNT, 0, 0},
	{"ncclCommDestroy", ZN_FAM_NCCL, ZN_S_COMM_DESTROY, 0, 0},
	{"ncclCommAbort", ZN_FAM_NCCL, ZN_S_COMM_ABORT, 0, 0},
};

/* C++ writes the length of a name before it. */
static bool is_hip(const char *name)
{
	return strncmp(name + (name[0] == '_' ? strcspn(name, "h") : 0), "hip", 3) == 0;
}

static void hook_add(struct zn_probe *p, size_t i, const char *suffix)
{
	struct zn_hook *h = &p->hook[p->hook_count];

	if (p->hook_count == ZN_HOOKS_MAX)
		return;
	snprintf(h->name, sizeof(h->name), "%s%s", table[i].name, suffix);
	h->family = table[i].family;
	h->shape = table[i].shape;
	h->detail = table[i].detail;
	h->flags = table[i].flags & ONCE ? ZN_HOOK_ENTRY_ONLY : 0;
	h->flags |= table[i].flags & LINK ? ZN_HOOK_ONE_LINK : 0;
	h->flags |= is_hip(h->name) ? ZN_HOOK_HIP : 0;
	p->hook_call[p->hook_count] = (uint16_t)(i + 1);
	p->hook_count++;
}

void zn_hooks_fill(struct zn_probe *p)
{
	p->hook_count = 0;
	for (size_t i = 0; i < ZN_LEN(table); i++) {
		hook_add(p, i, "");
		if (table[i].flags & PTSZ)
			hook_add(p, i, "_ptsz");
		if (table[i].flags & PTDS)
			hook_add(p, i, "_ptds");
		if (table[i].flags & SPT)
			hook_add(p, i, "_spt");
	}
}

const char *zn_hooks_call(uint32_t call)
{
	return call && call <= ZN_LEN(table) ? table[call - 1].name : NULL;
}

uint32_t zn_hooks_number(const char *call)
{
	for (uint32_t i = 0; i < ZN_LEN(table); i++)
		if (!strcmp(table[i].name, call))
			return i + 1;
	return 0;
}
