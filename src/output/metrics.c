/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics.c: the table of metrics and the one walk over it, the list of --list-metrics, and docs/METRICS.md. A metric
 * is one row; nothing else names it. Text, Protocol Buffers, OTLP and the alert rules are given the same samples.
 */
#include <string.h>

#include "zernel.h"

/* Type, twin, collect and hides_0 of struct zn_metric. What a metric is of, its labels say: a process if one of them is
 * `pid` or `service`, a job if one is `job_id` or `comm`, else the node. Those with another word before their type are
 * of that. EVENTS are counters that have no series before the first one. */
#define COUNTER          ZN_METRIC_COUNTER, ZN_TWIN_NONE, 0, false
#define EVENTS           ZN_METRIC_COUNTER, ZN_TWIN_NONE, 0, true
#define GAUGE            ZN_METRIC_GAUGE, ZN_TWIN_NONE, 0, false
#define INFO             ZN_METRIC_INFO, ZN_TWIN_NONE, 0, false
#define SUMMARY          ZN_METRIC_SUMMARY, ZN_TWIN_NONE, 0, false
#define DURATIONS        ZN_METRIC_SUMMARY, ZN_TWIN_WIDE, 0, false
#define FINE_DURATIONS   ZN_METRIC_SUMMARY, ZN_TWIN_FINE, 0, false
#define BRIEF_QUANTILES  ZN_METRIC_SUMMARY, ZN_TWIN_WIDE, ZN_COLLECT_QUANTILES, false
#define JOB_GAUGE        ZN_METRIC_GAUGE, ZN_TWIN_NONE, ZN_COLLECT_JOB, false
#define JOB_INFO         ZN_METRIC_INFO, ZN_TWIN_NONE, ZN_COLLECT_JOB, false
#define DETAIL_COUNTER   ZN_METRIC_COUNTER, ZN_TWIN_NONE, ZN_COLLECT_DETAIL, false
#define DETAIL_GAUGE     ZN_METRIC_GAUGE, ZN_TWIN_NONE, ZN_COLLECT_DETAIL, false
#define DETAIL_INFO      ZN_METRIC_INFO, ZN_TWIN_NONE, ZN_COLLECT_DETAIL, false
#define DETAIL_SUMMARY   ZN_METRIC_SUMMARY, ZN_TWIN_NONE, ZN_COLLECT_DETAIL, false
#define DETAIL_DURATIONS ZN_METRIC_SUMMARY, ZN_TWIN_WIDE, ZN_COLLECT_DETAIL, false

static bool ends_in(struct zn_str name, const char *end)
{
	size_t len = strlen(end);

	return name.len > len && !memcmp(name.at + name.len - len, end, len);
}

const char *zn_metrics_unit(struct zn_str name)
{
	static const char *const units[] = {"seconds", "bytes", "ratio"};

	if (ends_in(name, "_total"))
		name.len -= strlen("_total");
	for (size_t i = 0; i < ZN_LEN(units); i++)
		if (ends_in(name, units[i]))
			return units[i];
	return NULL;
}

const char *zn_metrics_type_name(enum zn_metric_type type)
{
	static const char *const name[] = {"counter", "gauge", "info", "summary"};

	return name[type];
}

void zn_metrics_twin(char to[ZN_TWIN_BYTES], const char *name)
{
	size_t len = strlen(name) - strlen("_seconds");

	memcpy(to, name, len);
	memcpy(to + len, "_hist_seconds", sizeof("_hist_seconds"));
}

static const struct zn_metric_share used = {offsetof(struct zn_proc_gpu, used_bytes), 1, NULL, {0}, true, true};
static const struct zn_metric_share peak = {offsetof(struct zn_proc_gpu, peak_bytes), 1, NULL, {0}, true, true};
static const struct zn_metric_share alloc_calls = {offsetof(struct zn_proc_gpu, alloc_calls), ZN_KIND_COUNT, "kind",
	{"device", "managed", "async", "pool", "vmm", "host"}, false, false};
static const struct zn_metric_share alloc_bytes = {offsetof(struct zn_proc_gpu, alloc_bytes), ZN_KIND_COUNT, "kind",
	{"device", "managed", "async", "pool", "vmm", "host"}, false, false};
static const struct zn_metric_share free_calls = {offsetof(struct zn_proc_gpu, free_calls), 1, NULL, {0}, false, false};
static const struct zn_metric_share failures = {
	offsetof(struct zn_proc_gpu, fail_oom), 2, "reason", {"oom", "other"}, true, false};

static const struct zn_metric_counts launches = {
	ZN_C_LAUNCH_KERNEL, 4, "kind", {"kernel", "graph", "cooperative", "captured"}, 0};
static const struct zn_metric_counts launch_errors = {ZN_C_LAUNCH_ERRORS, 1, NULL, {0}, 0};
static const struct zn_metric_counts copy_bytes = {
	ZN_C_COPY_BYTES_HTOD, 4, "direction", {"htod", "dtoh", "dtod", "other"}, 0};
static const struct zn_metric_counts copy_calls = {
	ZN_C_COPY_CALLS_HTOD, 4, "direction", {"htod", "dtoh", "dtod", "other"}, 0};

static const struct zn_metric_counts memset_bytes = {ZN_C_MEMSET_BYTES, 1, NULL, {0}, 0};
static const struct zn_metric_counts memset_calls = {ZN_C_MEMSET_CALLS, 1, NULL, {0}, 0};

static const struct zn_metric_durations launch = {ZN_H_LAUNCH, ZN_H_LAUNCH, NULL, true};
static const struct zn_metric_durations node_launch = {ZN_H_LAUNCH, ZN_H_LAUNCH, NULL, false};
static const struct zn_metric_durations collective = {ZN_H_NCCL_FIRST, ZN_H_NCCL_LAST, "op", false};
static const struct zn_metric_durations dataloader = {ZN_H_DATALOAD, ZN_H_DATALOAD, NULL, true};
static const struct zn_metric_durations worker_idle = {ZN_H_WORKER_IDLE, ZN_H_WORKER_IDLE, NULL, true};
static const struct zn_metric_durations dist_sync = {ZN_H_DIST_SYNC, ZN_H_DIST_SYNC, NULL, true};
static const struct zn_metric_durations sync_calls = {ZN_H_SYNC_STREAM, ZN_H_SYNC_FREE, "call", true};
static const struct zn_metric_durations loads = {ZN_H_LOAD_MODULE, ZN_H_LOAD_GRAPH, "call", true};
static const struct zn_metric_durations group = {ZN_H_NCCL_GROUP, ZN_H_NCCL_GROUP, NULL, true};
static const struct zn_metric_durations comm_init = {ZN_H_NCCL_INIT, ZN_H_NCCL_INIT, NULL, true};

static const struct zn_metric_counts syscalls = {ZN_C_SYSCALLS, 1, NULL, {0}, 0};
static const struct zn_metric_counts mmap_calls = {ZN_C_MMAP_CALLS, 2, "call", {"mmap", "munmap"}, 0};
static const struct zn_metric_counts mmap_bytes = {ZN_C_MMAP_BYTES, 2, "call", {"mmap", "munmap"}, 0};
static const struct zn_metric_counts switches = {ZN_C_SWITCH_VOLUNTARY, 2, "kind", {"voluntary", "involuntary"}, 0};
static const struct zn_metric_counts faults = {ZN_C_FAULTS_MINOR, 2, "kind", {"minor", "major"}, 0};
static const struct zn_metric_counts migrations = {ZN_C_MIGRATE_CPU, 2, "scope", {"cpu", "numa"}, 0};
static const struct zn_metric_counts offcpu = {
	ZN_C_OFFCPU_IO, 5, "state", {"io", "futex", "poll", "sleep", "other"}, 9};
static const struct zn_metric_counts tcp_sent = {ZN_C_TCP_SENT, 1, NULL, {0}, 0};
static const struct zn_metric_counts tcp_received = {ZN_C_TCP_RECEIVED, 1, NULL, {0}, 0};
static const struct zn_metric_counts tcp_retransmits = {ZN_C_TCP_RETRANSMITS, 1, NULL, {0}, 0};
static const struct zn_metric_rate density = {
	offsetof(struct zn_rates, syscalls_per_launch), ZN_C_SYSCALLS, ZN_C_SYSCALLS};
static const struct zn_metric_rate churn = {offsetof(struct zn_rates, churn), ZN_C_MMAP_CALLS, ZN_C_MUNMAP_CALLS};
static const struct zn_metric_rate launch_switches = {
	offsetof(struct zn_rates, switches_per_launch), ZN_C_SWITCH_VOLUNTARY, ZN_C_SWITCH_INVOLUNTARY};
static const struct zn_metric_rate migration_rate = {
	offsetof(struct zn_rates, per_1000_s[ZN_RATED_MIGRATIONS]), ZN_C_MIGRATE_CPU, ZN_C_MIGRATE_CPU};
static const struct zn_metric_ports port_bytes = {ZN_PORT_BYTES, "direction"},
				    port_packets = {ZN_PORT_PACKETS, "direction"},
				    port_errors = {ZN_PORT_ERRORS, "kind"},
				    port_congestion = {ZN_PORT_CONGESTION, "kind"};
static const struct zn_metric_durations gpu_ioctl = {ZN_H_IOCTL, ZN_H_IOCTL, NULL, true};
static const struct zn_metric_durations runqueue = {ZN_H_RUNQUEUE, ZN_H_RUNQUEUE, NULL, true};
static const struct zn_metric_durations tcp_send = {ZN_H_TCP_SEND, ZN_H_TCP_SEND, NULL, true};
static const size_t gpu_busy = offsetof(struct zn_counter_rates, gpu.busy_ns);
static const size_t gpu_contended = offsetof(struct zn_counter_rates, gpu.contended_ns);

static const enum zn_io_op io_read = ZN_IO_READ, io_write = ZN_IO_WRITE, io_mapped = ZN_IO_MMAP, io_copied = ZN_IO_COPY;
static const size_t io_calls = offsetof(struct zn_io_sum_total, calls);
static const size_t io_errors = offsetof(struct zn_io_sum_total, errors);
static const size_t nccl_calls = offsetof(struct zn_hist, calls);
static const size_t nccl_bytes = offsetof(struct zn_hist, bytes);
static const size_t nccl_errors = offsetof(struct zn_hist, errors);

static const size_t request_in_flight = offsetof(struct zn_request_series, in_flight),
		    request_events = offsetof(struct zn_request_series, events);
static const enum zn_work work_launches = ZN_WORK_LAUNCHES, work_syscalls = ZN_WORK_SYSCALLS,
			  work_switches = ZN_WORK_SWITCHES, work_faults = ZN_WORK_FAULTS, work_queued = ZN_WORK_QUEUED,
			  work_ioctl = ZN_WORK_IOCTL, work_gpu = ZN_WORK_GPU;
static const enum zn_request_duration request_whole = ZN_REQUEST_WHOLE, request_first = ZN_REQUEST_FIRST,
				      request_gap = ZN_REQUEST_GAP;
static const enum zn_server_duration server_unread = ZN_SERVER_UNREAD, server_rtt = ZN_SERVER_RTT;

static const bool entries = false, limit = true, waiting = true, down = false, oom_bytes = false, oom_time = true,
		  step_cpu = false, step_memory = true, failed_cuda = false, failed_rdma = true;

static const struct zn_metric_job_gpu job_peak = {offsetof(struct zn_job_gpu, peak_bytes), 0, false};
static const struct zn_metric_job_gpu job_busy = {offsetof(struct zn_job_gpu, busy_ns), 9, true},
				      job_active = {offsetof(struct zn_job_gpu, active_ns), 9, true};
static const struct zn_metric_checkpoint checkpoint_count = {offsetof(struct zn_checkpoint_sum, count), 0},
					 checkpoint_ns = {offsetof(struct zn_checkpoint_sum, ns), 9},
					 checkpoint_bytes = {offsetof(struct zn_checkpoint_sum, bytes), 0};
static const size_t missing_since = offsetof(struct zn_missing, since_ns),
		    missing_doing = offsetof(struct zn_missing, doing_ns);
static const struct zn_metric_job_use use_cpus = {offsetof(struct zn_use, cpus_milli), 3, false, true},
				      use_throttled = {offsetof(struct zn_use, now.throttled_ns), 9, true, false},
				      use_peak = {offsetof(struct zn_use, peak), 0, false, false},
				      use_needed = {offsetof(struct zn_use, needed_peak), 0, false, false},
				      use_needed_ratio = {offsetof(struct zn_use, needed_ratio), 4, false, true},
				      use_limit = {offsetof(struct zn_use, now.limit), 0, false, true},
				      use_swap = {offsetof(struct zn_use, now.swap), 0, true, true};
static const struct zn_metric_job_gpu job_idle = {offsetof(struct zn_job_gpu, idle_ns), 9, true};

static const struct zn_metric_figures
	hw_use = {ZN_FIGURE_UTILIZATION, 1, NULL, {0}},
	hw_sm = {ZN_FIGURE_SM_ACTIVE, 1, NULL, {0}}, hw_tensor = {ZN_FIGURE_TENSOR_ACTIVE, 1, NULL, {0}},
	hw_dram = {ZN_FIGURE_DRAM_ACTIVE, 1, NULL, {0}}, hw_vram = {ZN_FIGURE_VRAM_USED, 2, "kind", {"used", "total"}},
	hw_power = {ZN_FIGURE_POWER, 1, NULL, {0}}, hw_power_limit = {ZN_FIGURE_POWER_LIMIT, 1, NULL, {0}},
	hw_energy = {ZN_FIGURE_ENERGY, 1, NULL, {0}},
	hw_temperature = {ZN_FIGURE_TEMPERATURE, 3, "sensor", {"gpu", "hotspot", "memory"}},
	hw_clock = {ZN_FIGURE_CLOCK, 2, "clock", {"gpu", "memory"}},
	hw_ecc = {ZN_FIGURE_ECC_CORRECTED, 2, "kind", {"corrected", "uncorrected"}},
	hw_remapped = {ZN_FIGURE_REMAPPED_CORRECTABLE, 4, "kind",
		{"correctable", "uncorrectable", "pending", "failed"}},
	hw_retired = {ZN_FIGURE_RETIRED_CORRECTABLE, 2, "kind", {"correctable", "uncorrectable"}},
	hw_nvlink = {ZN_FIGURE_NVLINK_SENT, 2, "direction", {"sent", "received"}},
	hw_mig = {ZN_FIGURE_MIG, 1, NULL, {0}}, hw_lost = {ZN_FIGURE_LOST, 1, NULL, {0}},
	hw_pcie_rate = {ZN_FIGURE_PCIE_SENT, 2, "direction", {"sent", "received"}},
	hw_pcie_replays = {ZN_FIGURE_PCIE_REPLAYS, 1, NULL, {0}},
	hw_pcie_errors = {ZN_FIGURE_PCIE_CORRECTABLE, 3, "severity", {"correctable", "nonfatal", "fatal"}},
	hw_numa = {ZN_FIGURE_NUMA_NODE, 1, NULL, {0}}, hw_suspended = {ZN_FIGURE_SUSPENDED, 1, NULL, {0}};
static const bool whole_link = false, link_width = true;

/* clang-format off */
static const struct zn_metric table[] = {
	{"zernel_gpu_memory_used_bytes", GAUGE, "pid,gpu_id", zn_metrics_process_shares, &used,
		"GPU memory that a process has reserved from the driver and not freed; without the CUDA context itself, loaded modules, and pinned host memory. Absent where zernel_process_memory_complete is 0."},
	{"zernel_gpu_memory_peak_bytes", GAUGE, "pid,gpu_id", zn_metrics_process_shares, &peak,
		"Highest GPU memory use of a process since its first call. Absent where zernel_process_memory_complete is 0."},
	{"zernel_cuda_launch_latency_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &launch,
		"Host time from entry to return of a call that launches a kernel or a graph, since the process started; the time that the probes add is taken out."},
	{"zernel_nccl_collective_duration_seconds", DURATIONS, "op,quantile", zn_metrics_process_durations, &collective,
		"Host time in an NCCL operation, of all processes since the daemon started. A collective enqueues and returns: this is not the time it takes on the GPU."},
	{"zernel_dataloader_wait_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &dataloader,
		"Time that the training thread waits for a batch."},
	{"zernel_dataloader_worker_idle_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &worker_idle,
		"Time that a worker of a process's data loader sleeps until it is asked for another batch."},
	{"zernel_dataloader_workers", GAUGE, "pid", zn_metrics_process_workers, NULL,
		"Live processes that this one, or one of them, started and that call no hooked library; there once its data loader was seen to wait."},
	{"zernel_dataloader_worker_seconds_total", COUNTER, "pid,state", zn_metrics_process_worker_time, NULL,
		"Time of all data loader workers of a process: idle, asleep until they are asked for another batch, or busy."},
	{"zernel_dist_sync_wait_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &dist_sync,
		"Time that a launching thread waits for other ranks: in the creation or the end of a communicator, at the end of a group, or asleep until a peer has answered over a socket."},
	{"zernel_step_stall_ratio", GAUGE, "pid,cause", zn_metrics_process_stalls, NULL,
		"Where the time of a process's launching threads went over the last tick; the causes add up to 1. Of a data loader that is not known there is no cause data: its waits are in other."},
	{"zernel_gpu_memory_total_bytes", GAUGE, "gpu_id", zn_metrics_gpu_total, NULL,
		"Memory of a GPU as the driver reports it to the processes; absent until one of them asked."},
	{"zernel_gpu_memory_used_ratio", GAUGE, "gpu_id", zn_metrics_gpu_ratio, NULL,
		"Memory used by all processes of a GPU, as a share of its total. Managed memory may exceed 1. Absent where zernel_gpu_memory_complete is 0."},
	{"zernel_process_memory_complete", GAUGE, "pid", zn_metrics_process_memory_complete, NULL,
		"1: all GPU memory of a process was seen. 0: it used a GPU before its library was hooked, as those do that run while the daemon is restarted, or the table of allocations was full; what it holds is then not known and not shown, as long as it lives."},
	{"zernel_gpu_memory_complete", GAUGE, "gpu_id", zn_metrics_gpu_complete, NULL,
		"1: the GPU memory of all processes that use a GPU is known. 0: a process has it open of which it is not; the memory used on that GPU is then not known, and not shown."},
	{"zernel_gpu_utilization_ratio", GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_use,
		"Share of the time in which anything ran on a GPU, as its driver samples it. This and all that follows of the GPU itself is absent where no source tells it: docs/HARDWARE.md."},
	{"zernel_gpu_sm_active_ratio", DETAIL_GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_sm,
		"Share of the time in which a multiprocessor of a GPU had work, over all of them."},
	{"zernel_gpu_tensor_active_ratio", DETAIL_GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_tensor,
		"Share of the time in which the tensor cores of a GPU worked."},
	{"zernel_gpu_dram_active_ratio", DETAIL_GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_dram,
		"Share of the time in which the memory of a GPU moved data."},
	{"zernel_gpu_vram_bytes", DETAIL_GAUGE, "gpu_id,uuid,kind", zn_metrics_hardware_figures, &hw_vram,
		"Memory of a GPU as its driver counts it, contexts and modules included."},
	{"zernel_gpu_power_watts", GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_power,
		"Power that a GPU draws."},
	{"zernel_gpu_power_limit_watts", DETAIL_GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_power_limit,
		"Power that a GPU may draw."},
	{"zernel_gpu_energy_joules_total", DETAIL_COUNTER, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_energy,
		"Energy that a GPU used, since its driver was loaded; where that has no counter (amdgpu), its power summed up each second since the daemon started."},
	{"zernel_gpu_temperature_celsius", GAUGE, "gpu_id,uuid,sensor", zn_metrics_hardware_figures, &hw_temperature,
		"Temperature of a GPU, of its hottest spot, of its memory."},
	{"zernel_gpu_clock_hertz", DETAIL_GAUGE, "gpu_id,uuid,clock", zn_metrics_hardware_figures, &hw_clock,
		"Clock of a GPU's multiprocessors and of its memory."},
	{"zernel_gpu_throttled_seconds_total", COUNTER, "gpu_id,uuid,reason", zn_metrics_hardware_throttled, NULL,
		"Time in which a GPU was slower than it could be, since the daemon started, by looks at whether it is: for its power, its temperature, the hardware's own protection, another GPU that it keeps pace with, or a setting."},
	{"zernel_gpu_ecc_errors_total", COUNTER, "gpu_id,uuid,kind", zn_metrics_hardware_figures, &hw_ecc,
		"Errors of a GPU's memory since its driver was loaded."},
	{"zernel_gpu_remapped_rows", GAUGE, "gpu_id,uuid,kind", zn_metrics_hardware_figures, &hw_remapped,
		"Rows of a GPU's memory that spare ones stand in for, after correctable and uncorrectable errors; pending: 1 if a reset is needed for one; failed: 1 if there is no spare one left."},
	{"zernel_gpu_retired_pages", DETAIL_GAUGE, "gpu_id,uuid,kind", zn_metrics_hardware_figures, &hw_retired,
		"Pages of a GPU's memory that are not used any more, after correctable and uncorrectable errors; of GPUs before Ampere."},
	{"zernel_gpu_nvlink_bytes_total", DETAIL_COUNTER, "gpu_id,uuid,direction", zn_metrics_hardware_figures, &hw_nvlink,
		"Bytes over all NVLinks of a GPU."},
	{"zernel_gpu_pcie_bytes_per_second", DETAIL_GAUGE, "gpu_id,uuid,direction", zn_metrics_hardware_figures, &hw_pcie_rate,
		"Bytes per second over a GPU's PCIe link, protocol included."},
	{"zernel_gpu_pcie_replays_total", DETAIL_COUNTER, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_pcie_replays,
		"Packets that a GPU or its port had to send again over PCIe, since its driver was loaded."},
	{"zernel_gpu_lost", GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_lost,
		"1 if a GPU is lost: it went from the bus while its driver had it, it answers with ones alone when it is asked who it is, or NVML (zernel-gpu) says that it fell off the bus, must be reset, or tells of others alone. Then nothing else of it is shown but its link. 0 if it is there; absent while it sleeps."},
	{"zernel_gpu_mig_mode", DETAIL_GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_mig,
		"1 if a GPU may be divided into MIG instances."},
	{"zernel_gpu_pcie_link_ratio", DETAIL_GAUGE, "gpu_id,uuid", zn_metrics_hardware_link, &whole_link,
		"What the PCIe link of a GPU carries now of what it could: lanes and speed. A GPU at rest lowers its speed."},
	{"zernel_gpu_pcie_link_width_ratio", GAUGE, "gpu_id,uuid", zn_metrics_hardware_link, &link_width,
		"Lanes of a GPU's PCIe link of those that both its ends have. Below 1 some are lost, or switched off."},
	{"zernel_gpu_pcie_errors_total", COUNTER, "gpu_id,uuid,severity", zn_metrics_hardware_figures, &hw_pcie_errors,
		"Errors that the kernel counted for a GPU's PCIe device (AER)."},
	{"zernel_gpu_numa_node", DETAIL_GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_numa,
		"NUMA node of a GPU's PCIe device."},
	{"zernel_gpu_suspended", DETAIL_GAUGE, "gpu_id,uuid", zn_metrics_hardware_figures, &hw_suspended,
		"1 if the kernel has put a GPU to sleep: it is then not asked for anything."},
	{"zernel_gpu_source_info", DETAIL_INFO, "gpu_id,uuid,source", zn_metrics_hardware_sources, NULL,
		"Always 1; who tells something of a GPU now: sysfs (its PCIe device), drm (AMD's and Intel's drivers), dcgm, nvml."},
	{"zernel_dcgm_up", GAUGE, "", zn_metrics_hardware_up, NULL,
		"1 if the dcgm-exporter of --dcgm answered when it was asked last. Absent without --dcgm."},
	{"zernel_dcgm_scrapes_total", COUNTER, "outcome", zn_metrics_hardware_scrapes, NULL,
		"How often that dcgm-exporter was asked, by what came of it: ok, unreachable, timeout (10 s), refused (another status than 200), too_long (beyond 4 MiB), not_understood."},
	{"zernel_gpu_model_info", DETAIL_INFO, "gpu_id,uuid,model,driver", zn_metrics_hardware_models, NULL,
		"Always 1; what a GPU is called, and the version of its driver, as NVML says (zernel-gpu)."},
	{"zernel_gpu_process_vram_bytes", DETAIL_GAUGE, "pid,gpu_id", zn_metrics_hardware_processes, NULL,
		"Memory that a process has on a GPU as NVML counts it (zernel-gpu, each 10 s), its context and loaded modules included; also of processes that were there before the daemon."},
	{"zernel_gpu_instance_vram_bytes", DETAIL_GAUGE, "gpu_id,of,model,kind", zn_metrics_hardware_instances, NULL,
		"Memory of a MIG instance as NVML counts it (zernel-gpu, each 10 s): gpu_id is its UUID, as for its processes; of is its GPU's gpu_id."},
	{"zernel_nvml_up", GAUGE, "", zn_metrics_hardware_nvml, NULL,
		"1 while zernel-gpu tells of GPUs. 0: it has gone, NVML does not answer it, or there is no driver. Absent where it was never heard."},
	{"zernel_nvml_messages_total", DETAIL_COUNTER, "outcome", zn_metrics_hardware_messages, NULL,
		"Messages on the socket of zernel-gpu: ok, or refused: too long, too old or no such message; and connections of who may not speak there."},
	{"zernel_hardware_blocked_seconds", GAUGE, "file", zn_metrics_hardware_blocked, NULL,
		"For how long the kernel has not answered for a file below /sys (from 3 s on), or NVML has not answered zernel-gpu (file is nvml; from 5 s on). A driver hangs, and the state of GPUs is absent meanwhile."},
	{"zernel_node_energy_joules_total", DETAIL_COUNTER, "part", zn_metrics_hardware_energy, NULL,
		"Energy that the node's CPUs, their memory, or the node as a whole used since the daemon started, where a counter (RAPL, Cray) or a meter of power says so."},
	{"zernel_ib_port_bytes_total", DETAIL_COUNTER, "device,port,direction", zn_ports_counters, &port_bytes,
		"Bytes that a port of InfiniBand or RoCE carried, by its own counters, since the daemon started. Absent, as all of a port that the device does not count."},
	{"zernel_ib_port_packets_total", DETAIL_COUNTER, "device,port,direction", zn_ports_counters, &port_packets,
		"Packets that a port carried, likewise."},
	{"zernel_ib_port_errors_total", DETAIL_COUNTER, "device,port,kind", zn_ports_counters, &port_errors,
		"Errors of a port since the daemon started, by kind: docs/HARDWARE.md says what each means."},
	{"zernel_ib_port_congestion_total", DETAIL_COUNTER, "device,port,kind", zn_ports_counters, &port_congestion,
		"Notices of congestion that a port of RoCE sent or obeyed, and packets that a switch had marked, since the daemon started."},
	{"zernel_ib_port_active", DETAIL_GAUGE, "device,port,link", zn_ports_active, NULL,
		"1 if a port is active, 0 if it is not; link: InfiniBand or Ethernet."},
	{"zernel_ib_port_rate_bytes", DETAIL_GAUGE, "device,port", zn_ports_rate, NULL,
		"Bytes per second that the link of a port may carry each way, as it was negotiated."},
	{"zernel_job_ib_bytes_total", DETAIL_COUNTER, "job_id,direction", zn_ports_job_bytes, NULL,
		"Bytes that the node's ports of InfiniBand and RoCE carried while a job ran and no other one did, by looks ten seconds apart. Absent of a job that was never alone for so long."},
	{"zernel_job_ib_errors_total", DETAIL_COUNTER, "job_id", zn_ports_job_errors, NULL,
		"Errors of these ports meanwhile."},
	{"zernel_gpu_alloc_calls_total", COUNTER, "pid,gpu_id,kind", zn_metrics_process_shares, &alloc_calls,
		"Successful GPU memory allocations."},
	{"zernel_gpu_alloc_bytes_total", COUNTER, "pid,gpu_id,kind", zn_metrics_process_shares, &alloc_bytes,
		"Bytes of successful GPU memory allocations."},
	{"zernel_gpu_free_calls_total", COUNTER, "pid,gpu_id", zn_metrics_process_shares, &free_calls,
		"Successful frees of memory whose allocation was seen; of VMM memory, when its last reference went."},
	{"zernel_gpu_alloc_failures_total", EVENTS, "pid,gpu_id,reason", zn_metrics_process_shares, &failures,
		"Failed GPU memory allocations; oom: the driver answered out of memory. From 0 on where the process has had memory, so that the first one is a rise."},
	{"zernel_gpu_host_pinned_bytes", GAUGE, "pid", zn_metrics_process_pinned, NULL,
		"Pinned host memory that a process has reserved through the driver. Absent where zernel_process_memory_complete is 0."},
	{"zernel_gpu_xid_errors_total", COUNTER, "pci,xid,nonfatal", zn_metrics_gpu_xids, NULL,
		"Errors that NVIDIA's driver reported in the kernel's log since the daemon started. The label nonfatal is there, and is yes, only where the line itself says that nothing is broken: an error of an NVLink that is not fatal (144 to 150), a recovery that is not needed any more (154)."},
	{"zernel_gpu_xid_last_time_seconds", GAUGE, "pci,xid,class,severity,pid,command,job_id", zn_metrics_gpu_xid_last, NULL,
		"When the last such error came, since the epoch; what kind it is (application, memory, link, firmware, power), how bad (info, warning, critical), the process that the driver names, and its job. What is not known is an empty label."},
	{"zernel_gpu_amdgpu_errors_total", COUNTER, "pci,error", zn_metrics_gpu_amdgpu_errors, NULL,
		"Records of the kernel's log, since the daemon started, in which amdgpu reports a page fault, a timeout, a reset or hardware errors."},
	{"zernel_kernel_log_records_total", DETAIL_COUNTER, "from", zn_metrics_gpu_log_records, NULL,
		"Records of the kernel's log that were read, of the kernel itself and of others; errors of GPUs are looked for in the first. Absent where it cannot be read."},
	{"zernel_gpu_info", INFO, "gpu_id,uuid,pci,minor,vendor", zn_metrics_gpu_info, NULL,
		"Always 1; the identity of a GPU. gpu_id is its index in PCI order; AMD's GPUs follow NVIDIA's in the order of their render nodes, whose minor number they have."},
	{"zernel_cuda_launches_total", COUNTER, "pid,kind", zn_metrics_process_counts, &launches,
		"Calls that launch a kernel or replay a graph; captured: recorded into a graph, not run."},
	{"zernel_cuda_launch_errors_total", EVENTS, "pid", zn_metrics_process_counts, &launch_errors,
		"Launches that returned an error."},
	{"zernel_cuda_sync_seconds", DURATIONS, "pid,call,quantile", zn_metrics_process_durations, &sync_calls,
		"Time the host spends in a call that waits for the GPU, since the process started."},
	{"zernel_cuda_memcpy_bytes_total", COUNTER, "pid,direction", zn_metrics_process_counts, &copy_bytes,
		"Bytes of copies: of blocking ones when they succeed, of asynchronous ones when they are asked for."},
	{"zernel_cuda_memcpy_calls_total", COUNTER, "pid,direction", zn_metrics_process_counts, &copy_calls,
		"Copies: blocking ones when they succeed, asynchronous ones when they are asked for."},
	{"zernel_cuda_memset_bytes_total", COUNTER, "pid", zn_metrics_process_counts, &memset_bytes,
		"Bytes of memory that is set, as they are asked for."},
	{"zernel_cuda_memset_calls_total", COUNTER, "pid", zn_metrics_process_counts, &memset_calls,
		"Calls that set memory, as they are made."},
	{"zernel_cuda_load_seconds", DURATIONS, "pid,call,quantile", zn_metrics_process_durations, &loads,
		"Time the host spends in a call that loads code or prepares a graph, which is where a slow first step often comes from: a module or a library of kernels, a function of one (which is loaded when it is first asked for), or a graph that is instantiated, updated or uploaded."},
	{"zernel_nccl_calls_total", COUNTER, "pid,op", zn_metrics_process_nccl, &nccl_calls, "NCCL operations of this rank."},
	{"zernel_nccl_bytes_total", COUNTER, "pid,op", zn_metrics_process_nccl, &nccl_bytes,
		"Bytes of NCCL operations on this rank: elements times their size, as the call's arguments have them."},
	{"zernel_nccl_errors_total", COUNTER, "pid,op", zn_metrics_process_nccl, &nccl_errors,
		"NCCL operations that returned an error."},
	{"zernel_nccl_group_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &group,
		"Time from the outermost ncclGroupStart to its ncclGroupEnd."},
	{"zernel_nccl_comm_init_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &comm_init,
		"Time in the creation of a communicator, which waits for the other ranks."},
	{"zernel_nccl_issue_skew_seconds", DETAIL_DURATIONS, "comm,quantile", zn_metrics_process_skew, NULL,
		"Of the ranks of a communicator on this node: how long after the first one the last one issued the same collective. Point-to-point operations are not compared."},
	{"zernel_nccl_issue_late_seconds_total", COUNTER, "comm,rank", zn_metrics_process_lateness, NULL,
		"For how long a rank had yet to issue a collective that another rank of this node had issued, each moment once: the straggler's grows."},
	{"zernel_nccl_missing_rank_seconds", JOB_GAUGE, "comm,rank,pid,doing", zn_metrics_process_missing, &missing_since,
		"For how long other ranks of this node have waited for one that has not issued what they have, or whose process has ended; there only from 1 s on. doing: what it does instead: gone, asleep, driver (inside of the GPU's), data, io, cpu or gpu. Of ranks that wait for one another in a chain the last one alone."},
	{"zernel_nccl_missing_rank_doing_seconds", JOB_GAUGE, "comm,rank,pid,doing", zn_metrics_process_missing, &missing_doing,
		"For how long such a rank has done nothing else meanwhile."},
	{"zernel_nccl_longest_wait_seconds", GAUGE, "comm", zn_metrics_process_longest_wait, NULL,
		"The longest time that ranks of this node have waited for one that came in the end: what may be usual for this program."},
	{"zernel_nccl_all_wait_seconds", GAUGE, "comm", zn_metrics_process_all_wait, NULL,
		"For how long all ranks of a communicator on this node have waited for the GPU, or for a rank of another node, with nothing launched, copied or issued; none of them is missing. There only from 10 s on."},
	{"zernel_nccl_issued_collectives", GAUGE, "comm", zn_metrics_process_issued, NULL,
		"Collectives that every rank of a communicator on this node has issued. On all nodes the n-th is the same one, so that the node with fewer is behind; which ones count is as for the skew. While the node's daemon was not there when the communicator was made, it has none."},
	{"zernel_nccl_rank_info", JOB_INFO, "pid,comm,rank,nranks", zn_metrics_process_ranks, NULL,
		"Always 1; the rank of a process in a communicator. comm is equal on all ranks."},
	{"zernel_syscalls_total", COUNTER, "pid", zn_metrics_process_counts, &syscalls,
		"System calls that the threads of a process began; those that probes of the kernel make on the way are not among them."},
	{"zernel_syscall_density", GAUGE, "pid", zn_metrics_process_rates, &density,
		"System calls per launch: those that began over the last tick, by the launches of that tick; absent without one."},
	{"zernel_gpu_ioctl_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &gpu_ioctl,
		"Time from entry to return of ioctl() on a GPU's device, which is where a driver's locks are waited for. Calls whose purpose is to wait, as ROCm and DRM have them, are left out."},
	{"zernel_gpu_driver_stuck_seconds", JOB_GAUGE, "pid", zn_metrics_process_driver_stuck, NULL,
		"For how long the oldest call of ioctl() on a GPU's device has not come back; there only while one has lasted longer than from one tick to the next."},
	{"zernel_process_blocked_seconds", JOB_GAUGE, "pid", zn_metrics_process_blocked, NULL,
		"For how long that thread of a process which has been in uninterruptible sleep (state D) longest has been so; there only from 5 s on. Often a driver or a file system does not answer it."},
	{"zernel_gpu_ioctl_contention_ratio", GAUGE, "", zn_metrics_gpu_contention, NULL,
		"Share of the time with some process inside ioctl() on a GPU's device in which two or more were, over the last tick; absent if none was."},
	{"zernel_gpu_ioctl_busy_seconds_total", DETAIL_COUNTER, "", zn_metrics_gpu_calls, &gpu_busy,
		"Time with some process inside ioctl() on a GPU's device."},
	{"zernel_gpu_ioctl_contended_seconds_total", DETAIL_COUNTER, "", zn_metrics_gpu_calls, &gpu_contended,
		"Time with two or more processes inside ioctl() on GPU devices; threads of one process are one."},
	{"zernel_mmap_calls_total", COUNTER, "pid,call", zn_metrics_process_counts, &mmap_calls,
		"Calls of mmap and munmap that succeeded; brk and mremap are none."},
	{"zernel_mmap_bytes_total", COUNTER, "pid,call", zn_metrics_process_counts, &mmap_bytes,
		"Bytes that successful calls of mmap and munmap asked for, in whole pages."},
	{"zernel_mmap_churn_ratio", GAUGE, "pid", zn_metrics_process_rates, &churn,
		"Of the bytes mapped and the bytes unmapped over the last tick, the smaller by the larger: near 1, memory is given back and fetched anew; absent without either."},
	{"zernel_context_switches_total", COUNTER, "pid,kind", zn_metrics_process_counts, &switches,
		"Times a thread left its CPU: voluntary, to wait; involuntary, for another thread."},
	{"zernel_context_switches_per_launch", GAUGE, "pid", zn_metrics_process_rates, &launch_switches,
		"Context switches of a process over the last tick, by the launches of that tick; absent without one."},
	{"zernel_page_faults_total", COUNTER, "pid,kind", zn_metrics_process_counts, &faults,
		"Page faults of a process, as getrusage() counts them; major: the thread had to wait for a device. Of a thread that runs as of its last switch."},
	{"zernel_thread_migrations_total", COUNTER, "pid,scope", zn_metrics_process_counts, &migrations,
		"Times a thread was moved to another CPU; numa: those of them to another memory node."},
	{"zernel_thread_migrations_per_second", GAUGE, "pid", zn_metrics_process_rates, &migration_rate,
		"Migrations of a process's threads per second, over the last tick."},
	{"zernel_runqueue_wait_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &runqueue,
		"Time from when a thread could run to when it ran."},
	{"zernel_offcpu_seconds_total", COUNTER, "pid,state", zn_metrics_process_counts, &offcpu,
		"Time that threads slept, added up over threads, by what they slept in."},
	{"zernel_tcp_sent_bytes_total", COUNTER, "pid", zn_metrics_process_counts, &tcp_sent,
		"Bytes that a process gave to TCP, loopback included; those of sendfile() and splice() from Linux 6.5 on. RDMA and NVLink do not pass the kernel and are in no figure."},
	{"zernel_tcp_received_bytes_total", COUNTER, "pid", zn_metrics_process_counts, &tcp_received,
		"Bytes that a process took from TCP; what splice() takes is not seen."},
	{"zernel_tcp_retransmits_total", COUNTER, "pid", zn_metrics_process_counts, &tcp_retransmits,
		"Segments sent again on connections whose last sender is this process."},
	{"zernel_tcp_sendmsg_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &tcp_send,
		"Time in which a send gives its bytes to TCP, waits for room included. By tracepoints it is that of the whole call up to there, of write, writev, sendto and sendmsg alone."},
	{"zernel_job_info", INFO, "job_id,user,uid,account,partition,name,nodes,gpus", zn_metrics_job_info, NULL,
		"Always 1; what a job is. What was not said of it is an empty label; gpus are those that it was given."},
	{"zernel_oom_kills_total", COUNTER, "job_id", zn_metrics_job_oom_kills, NULL,
		"Processes that the kernel killed for want of memory: of a job, or of none that called a hooked library or load data for one that did."},
	{"zernel_cuda_errors_total", EVENTS, "pid,error", zn_metrics_failed_process, &failed_cuda,
		"Calls of CUDA or HIP by a process that failed, by what they returned, as cuda.h and hip_runtime_api.h name it; at most 16 names, the rest is other. Calls that only enqueue a copy or set memory are not seen to fail; CUDA_ERROR_NOT_READY is no error."},
	{"zernel_job_cuda_errors_total", EVENTS, "job_id,error", zn_metrics_failed_job, &failed_cuda,
		"The same of all processes of a job, those that have ended included; job_id is empty for processes of none."},
	{"zernel_rdma_errors_total", EVENTS, "pid,call,errno", zn_metrics_failed_process, &failed_rdma,
		"System calls of a process on a device of RDMA (InfiniBand, RoCE: /dev/infiniband/uverbs*) that failed, by what was asked for, as create_qp or reg_mr, and errno; at most 6 pairs, the rest is other. Needs the family ioctl."},
	{"zernel_job_rdma_errors_total", EVENTS, "job_id,call,errno", zn_metrics_failed_job, &failed_rdma,
		"The same of all processes of a job, those that have ended included; job_id is empty for processes of none."},
	{"zernel_ghost_processes", GAUGE, "why", zn_metrics_job_ghosts, NULL,
		"Processes that for a minute or longer hold a GPU which is not theirs: job_ended, their job has ended; no_job, a user's process of no job, on a node that has jobs; foreign_gpu, with memory on a GPU that their job was not given. `zernel ghosts` lists them."},
	{"zernel_oom_kill_time_seconds", GAUGE, "job_id,step,pid,command,limit_of", zn_metrics_job_ooms, &oom_time,
		"When the kernel killed a process of a job for want of memory, since the epoch: the last four of each job. limit_of: whose limit was reached: job, step, below (a group of the step), other (a group above), node (none: it had no memory left), or unknown."},
	{"zernel_oom_kill_memory_bytes", GAUGE, "job_id,step,pid,command,limit_of", zn_metrics_job_ooms, &oom_bytes,
		"Memory that it had mapped then: anonymous, shared, and of files. Absent where the kernel does not say."},
	{"zernel_job_processes", GAUGE, "job_id", zn_metrics_job_processes, NULL,
		"Processes of a job that run and have called a hooked library."},
	{"zernel_job_cpu_seconds_total", COUNTER, "job_id,mode", zn_metrics_job_cpu_time, NULL,
		"CPU time of all processes of a job, those that have gone included, by the kernel's accounts of its control group; their sum is exact to the job's end, where mode is a sample. Absent where its group has no such account."},
	{"zernel_job_energy_joules_total", COUNTER, "job_id,part", zn_metrics_job_energy, NULL,
		"An estimate of the energy of a job. Of cpu, dram and node it has its share by CPU time for as long as the node's CPUs were busy, and by the CPUs that it was given for as long as they were idle; of each of its GPUs it has all, or an equal part where several jobs have it. node is as metered, and has the other parts in it. Absent where nothing counts a part, and gpu where that is so of one of its GPUs."},
	{"zernel_job_cpus", GAUGE, "job_id", zn_metrics_job_use, &use_cpus,
		"CPUs of this node that a job that runs may use: as its prolog says, else as its control group allows, and no more than that group's quota."},
	{"zernel_job_cpu_throttled_seconds_total", DETAIL_COUNTER, "job_id", zn_metrics_job_use, &use_throttled,
		"Time for which the quota of a job's control group held its threads back, as of the last look. Absent without such a controller."},
	{"zernel_job_memory_bytes", GAUGE, "job_id,kind", zn_metrics_job_memory, NULL,
		"Memory of a job's control group: anon, what its processes hold; shmem, shared memory and files of tmpfs; kernel, on their behalf; file, cache of files, which the kernel takes back when memory is short."},
	{"zernel_job_memory_swap_bytes", DETAIL_GAUGE, "job_id", zn_metrics_job_use, &use_swap,
		"What of it is in swap. Absent with control groups of version 1, and once a job has ended."},
	{"zernel_job_memory_peak_bytes", DETAIL_GAUGE, "job_id", zn_metrics_job_use, &use_peak,
		"Highest memory of a job's control group by the kernel's own mark, cache of files included."},
	{"zernel_job_memory_needed_peak_bytes", DETAIL_GAUGE, "job_id", zn_metrics_job_use, &use_needed,
		"Highest memory without cache of files: as seen at a look, or that mark less the most cache that was seen, whichever is more."},
	{"zernel_job_memory_limit_bytes", GAUGE, "job_id", zn_metrics_job_use, &use_limit,
		"Limit of that group. Absent without one, and once a job has ended."},
	{"zernel_job_memory_needed_ratio", GAUGE, "job_id", zn_metrics_job_use, &use_needed_ratio,
		"Memory of a job that runs without cache of files, over its limit, now: at 1 the kernel kills. Absent without a limit."},
	{"zernel_job_pressure_seconds_total", DETAIL_COUNTER, "job_id,resource,kind", zn_metrics_job_pressure, NULL,
		"Time in which some, or all, threads of a job that were not idle waited for a CPU, for memory or for a file, by the kernel's pressure accounts. Absent with control groups of version 1."},
	{"zernel_job_efficiency_ratio", GAUGE, "job_id,resource", zn_metrics_job_efficiency, NULL,
		"Of a job: cpu, its CPU time over that of the CPUs that it may use, from its start on; memory, zernel_job_memory_needed_peak_bytes over its limit."},
	{"zernel_job_step_cpu_seconds_total", DETAIL_COUNTER, "job_id,step", zn_metrics_job_steps, &step_cpu,
		"CPU time of a step of a job, by the kernel's accounts of its control group; exact once it has ended. Of 16 steps of a job: those that run, then the newest."},
	{"zernel_job_step_memory_peak_bytes", DETAIL_GAUGE, "job_id,step", zn_metrics_job_steps, &step_memory,
		"Highest memory of a step's control group by the kernel's own mark, cache of files included; likewise. Absent without such a group, and while it runs on kernels that do not tell its mark (version 2 before 5.19)."},
	{"zernel_job_start_time_seconds", DETAIL_GAUGE, "job_id", zn_metrics_job_start, NULL,
		"Start of a job since the epoch, as far as it is known: when it was first heard of, if nobody said it."},
	{"zernel_job_ended_time_seconds", GAUGE, "job_id", zn_metrics_job_ended, NULL,
		"End of a job since the epoch; there only once it has ended."},
	{"zernel_job_gpu_utilization_ratio", GAUGE, "job_id", zn_metrics_job_utilization, NULL,
		"Mean of zernel_gpu_utilization_ratio over the GPUs that a job that runs was given, or uses; whoever else uses them. Absent where nothing tells it of one of them."},
	{"zernel_job_gpu_memory_peak_bytes", DETAIL_GAUGE, "job_id,gpu_id", zn_metrics_job_gpus, &job_peak,
		"Highest GPU memory use of all processes of a job together, as seen at a tick, or of one of them at any time. Absent where the memory of one of them is not known."},
	{"zernel_job_gpu_busy_seconds_total", COUNTER, "job_id,gpu_id", zn_metrics_job_gpus, &job_busy,
		"Time of a job in which a process of it that had memory on that GPU launched, copied, communicated or waited for it, to a twentieth of a second; not while it waits for a rank that does not come."},
	{"zernel_job_gpu_active_seconds_total", DETAIL_COUNTER, "job_id,gpu_id", zn_metrics_job_gpus, &job_active,
		"The same, and a tenth of a second behind each launch that nobody waits for: at most for how long the GPU had work, but for kernels that run longer than that alone."},
	{"zernel_job_gpu_idle_seconds_total", COUNTER, "job_id,gpu_id", zn_metrics_job_gpus, &job_idle,
		"All other time of a job on a GPU that it was given or has used. It is told up to a minute late while a process of it has memory there."},
	{"zernel_job_progress_age_seconds", GAUGE, "job_id", zn_metrics_job_progress_age, NULL,
		"For how long nothing of a job has moved: no launch, copy, call to NCCL or batch of any of its processes, no byte of a file. There from its first launch on, while it has a process."},
	{"zernel_job_stall_limit_seconds", GAUGE, "job_id", zn_metrics_job_stall_limit, NULL,
		"For how long that may be: a minute (ten while its threads run on the CPU, as a compiler's do), or five times the longest pause that this job has made so far."},
	{"zernel_job_cause_seconds_total", DETAIL_COUNTER, "job_id,cause", zn_metrics_job_causes, NULL,
		"Time that the processes of a job lost, by what it was lost to; a process has one second in a second, whatever its threads do. docs/WHY.md says what the causes are."},
	{"zernel_job_checkpoints_total", DETAIL_COUNTER, "job_id", zn_metrics_job_checkpoints, &checkpoint_count,
		"Times in which a job wrote 16 MiB or more to files while none of its processes launched, one that goes on included."},
	{"zernel_job_checkpoint_seconds_total", DETAIL_COUNTER, "job_id", zn_metrics_job_checkpoints, &checkpoint_ns,
		"How long they took, from the first to the last tick in which it wrote, or was blocked on files."},
	{"zernel_job_checkpoint_bytes_total", DETAIL_COUNTER, "job_id", zn_metrics_job_checkpoints, &checkpoint_bytes,
		"What was written in them."},
	{"zernel_job_startup_seconds", DETAIL_GAUGE, "job_id,phase", zn_metrics_job_startup, NULL,
		"Time from the start of that process of a job which took longest to its first steady launch, by phase; the phases add up to it. It grows while the process starts. Absent where every process began before the daemon. docs/WHY.md says what the phases are."},
	{"zernel_job_launches_total", COUNTER, "job_id", zn_metrics_job_launches, NULL,
		"Launches of all processes of a job, those that have gone included; without captured ones."},
	{"zernel_job_launch_latency_seconds", DURATIONS, "job_id,quantile", zn_metrics_job_launch_latency, NULL,
		"Host time of launches of all processes of a job, those that have gone included; as zernel_cuda_launch_latency_seconds."},
	{"zernel_job_gpu_memory_used_bytes", GAUGE, "job_id,gpu_id", zn_metrics_job_gpu_memory, NULL,
		"GPU memory that all processes of a job hold together. Of no job: job_id is empty. Absent where zernel_job_memory_complete is 0."},
	{"zernel_job_memory_complete", GAUGE, "job_id", zn_metrics_job_gpu_complete, NULL,
		"1: all GPU memory of the processes of a job was seen. 0: that of one of them was not, as of zernel_process_memory_complete."},
	{"zernel_node_launches_total", COUNTER, "kind", zn_metrics_node_counts, &launches,
		"Launches of all processes since the daemon started, those that have gone included; kinds as of zernel_cuda_launches_total."},
	{"zernel_node_launch_latency_seconds", DURATIONS, "quantile", zn_metrics_process_durations, &node_launch,
		"Host time of launches of all processes, likewise; as zernel_cuda_launch_latency_seconds."},
	{"zernel_node_nccl_bytes_total", COUNTER, "", zn_metrics_node_nccl_bytes, NULL,
		"Bytes of NCCL operations of all processes, likewise."},
	{"zernel_job_nccl_bytes_total", COUNTER, "job_id", zn_metrics_job_nccl_bytes, NULL,
		"Bytes of NCCL operations of all processes of a job, those that have gone included."},
	{"zernel_job_stall_seconds_total", COUNTER, "job_id,cause", zn_metrics_job_stalls, NULL,
		"Where the time of all launching threads of a job went, those that have gone included; causes as of zernel_step_stall_ratio."},
	{"zernel_job_syscalls_total", DETAIL_COUNTER, "job_id", zn_metrics_job_counts, &syscalls,
		"System calls of all processes of a job that called a hooked library, those that have gone included."},
	{"zernel_job_context_switches_total", DETAIL_COUNTER, "job_id,kind", zn_metrics_job_counts, &switches,
		"Context switches of all processes of a job, likewise."},
	{"zernel_job_offcpu_seconds_total", DETAIL_COUNTER, "job_id,state", zn_metrics_job_counts, &offcpu,
		"Time that threads of all processes of a job slept, likewise."},
	{"zernel_job_tcp_sent_bytes_total", DETAIL_COUNTER, "job_id", zn_metrics_job_counts, &tcp_sent,
		"Bytes that all processes of a job gave to TCP, likewise."},
	{"zernel_job_tcp_received_bytes_total", DETAIL_COUNTER, "job_id", zn_metrics_job_counts, &tcp_received,
		"Bytes that all processes of a job took from TCP, likewise."},
	{"zernel_job_tcp_retransmits_total", DETAIL_COUNTER, "job_id", zn_metrics_job_counts, &tcp_retransmits,
		"Segments sent again of all processes of a job, likewise."},
	{"zernel_io_read_bytes_total", COUNTER, "job_id,mount,fstype", zn_metrics_io_bytes, &io_read,
		"Bytes read from files, each counted once, whichever call moved it. Those of mapped files and of copy_file_range are apart. Of no job: job_id is empty."},
	{"zernel_io_write_bytes_total", COUNTER, "job_id,mount,fstype", zn_metrics_io_bytes, &io_write,
		"Bytes written to files, as accepted by the call; likewise."},
	{"zernel_io_mapped_bytes_total", DETAIL_COUNTER, "job_id,mount,fstype", zn_metrics_io_bytes, &io_mapped,
		"Bytes that page faults of mapped files brought into memory: whole pages, and what was read ahead."},
	{"zernel_io_copied_bytes_total", DETAIL_COUNTER, "job_id,mount,fstype", zn_metrics_io_bytes, &io_copied,
		"Bytes copied by copy_file_range, on the mount they were copied to; the file system may share them instead of moving them."},
	{"zernel_io_requests_total", COUNTER, "job_id,mount,fstype,op", zn_metrics_io_ops, &io_calls,
		"File operations; op is read, write, copy, mmap, open, create, unlink, mkdir, rmdir, rename, fsync or stat."},
	{"zernel_io_errors_total", COUNTER, "job_id,mount,fstype,op", zn_metrics_io_ops, &io_errors,
		"File operations that failed, where the file or its directory was found."},
	{"zernel_io_latency_seconds", BRIEF_QUANTILES, "job_id,mount,op,quantile", zn_metrics_io_durations, NULL,
		"Duration of file operations, from the call to its return; of asynchronous ones, where it is known, to their completion."},
	{"zernel_alert_state", GAUGE, "alert,severity", zn_metrics_self_alerts, NULL, "0 inactive, 1 pending, 2 firing."},
	{"zernel_anomaly_score", GAUGE, "pid,signal", zn_metrics_process_anomalies, NULL,
		"How far the last 5 s of a signal of a process are above (below: negative) what was usual in the 10 minutes before, in robust standard deviations, up to 100; docs/ALERTS.md has the signals. Absent for the first 3 minutes, and where there was no value."},
	{"zernel_build_info", INFO, "version,commit,source", zn_metrics_self_build, NULL,
		"Always 1; source is live, or simulated for invented data."},
	{"zernel_kernel_info", DETAIL_INFO, "release", zn_metrics_self_kernel, NULL, "Always 1; the running kernel."},
	{"zernel_probe_attached", DETAIL_GAUGE, "family,symbol,library", zn_metrics_self_attached, NULL,
		"1 if the function is hooked in that library, 0 if it is missing there or could not be hooked."},
	{"zernel_libraries", GAUGE, "state", zn_metrics_self_libraries, NULL,
		"Files with a library's name that processes map: hooked, or waiting, for which /health has the reasons."},
	{"zernel_probe_hang_seconds", GAUGE, "", zn_metrics_self_hang, NULL,
		"For how long a change of probes has been waiting for a process; while it does, forks may wait. 0: none does."},
	{"zernel_probe_hits_total", COUNTER, "family", zn_metrics_self_hits, NULL, "Hooked calls."},
	{"zernel_probe_bias_seconds", DETAIL_SUMMARY, "first_instruction,quantile", zn_metrics_self_bias, NULL,
		"What the probes themselves add to a measured interval, calibrated at start; the median is taken out of each. It depends on how the kernel executes the instruction that the probe stands on."},
	{"zernel_probe_run_seconds_total", DETAIL_COUNTER, "program", zn_metrics_self_run, NULL,
		"Time in each BPF program; there only while the kernel keeps statistics (sysctl kernel.bpf_stats_enabled)."},
	{"zernel_probe_duty_ratio", DETAIL_GAUGE, "family", zn_metrics_self_duty, NULL,
		"CPU time that all processes spent in our probes over the last tick, in cores: calls at their calibrated cost."},
	{"zernel_overhead_ratio", GAUGE, "pid", zn_metrics_process_overhead, NULL,
		"Share of one core that a process spent in our probes over the last tick: hooked calls, file reads and writes, system calls at their calibrated cost, switches, walks of stacks and requests as measured."},
	{"zernel_sampled_ratio", GAUGE, "pid,family", zn_metrics_process_sampled, NULL,
		"Part of the time in which this is measured of a process now, as all of it would cost more than --overhead-budget: stacks; sched (what threads wait for; switches are counted always); vfs (reads and writes of files); requests (of HTTP/1: those that are not read are counted, as route not_read); cuda_trace (how long launches take, and whether they fail; they are counted always). Counters have what was seen and are not scaled up. Absent as long as all was seen; 1 once it is seen again."},
	{"zernel_requests_total", EVENTS, "pid,route,code", zn_metrics_request_done, NULL,
		"Requests that a server has answered, by what was asked for and the class of the answer's status, 101 being 2xx; aborted: the connection was closed before the answer was whole; unknown: it was over, and how could not be seen. docs/REQUESTS.md."},
	{"zernel_requests_in_flight", GAUGE, "pid,route", zn_metrics_request_number, &request_in_flight,
		"Requests that a server has begun to read and not answered in full."},
	{"zernel_request_duration_seconds", FINE_DURATIONS, "pid,route,quantile", zn_metrics_request_durations, &request_whole,
		"From the first byte of a request that a server read to the last one of its answer that it sent; without aborted ones."},
	{"zernel_request_first_event_seconds", FINE_DURATIONS, "pid,route,quantile", zn_metrics_request_durations, &request_first,
		"From the last byte of a request that a server read to the first event of its answer: the time to the first token, of streamed answers. The engine's own queue is in it."},
	{"zernel_request_event_gap_seconds", FINE_DURATIONS, "pid,route,quantile", zn_metrics_request_durations, &request_gap,
		"Between two events of a streamed answer: the time between tokens where each event has one. Events within 0.5 ms are of one step and make no gap."},
	{"zernel_request_events_total", COUNTER, "pid,route", zn_metrics_request_number, &request_events,
		"Events of streamed answers: sends that begin with one. An event may have several tokens, or none."},
	{"zernel_request_in_flight_seconds_total", COUNTER, "pid,route", zn_metrics_request_seconds, NULL,
		"Time that requests which have ended were in flight, all together: its rate is how many were at one time."},
	{"zernel_request_unread_seconds", FINE_DURATIONS, "pid,quantile", zn_metrics_server_durations, &server_unread,
		"Time that the first bytes of a request over TCP lay in the socket before the server read them; in ticks of the kernel's clock."},
	{"zernel_request_rtt_seconds", DURATIONS, "pid,quantile", zn_metrics_server_durations, &server_rtt,
		"Smoothed round trip of a request's connection at its end, as TCP knows it."},
	{"zernel_request_anomaly_score", GAUGE, "pid,signal", zn_metrics_request_anomalies, NULL,
		"How far the last 5 s of a server are above (below: negative) what was usual for it in the 10 minutes before, in robust standard deviations; signal is first_event_p99 or event_gap_p99. Absent for the first 3 minutes, and where there was no value."},
	{"zernel_request_held_total", COUNTER, "pid,what", zn_metrics_server_held, NULL,
		"Events of which TCP kept bytes back when they were sent: for want of an acknowledgement or of room. first: the first one of an answer."},
	{"zernel_request_connections_total", COUNTER, "pid,protocol", zn_metrics_server_connections, NULL,
		"Connections to a server whose protocol was told by their first bytes. Requests are seen in http1 alone; other: one that left HTTP, such as a WebSocket."},
	{"zernel_service_info", INFO, "service,pid,role,port,comm", zn_metrics_server_info, NULL,
		"A process of a service. role: front listens, gpu works on a GPU for it, both does both. service: the outermost server. port 0: on no port of TCP."},
	{"zernel_serving_requests_total", COUNTER, "service,how", zn_metrics_serving_requests, NULL,
		"Requests of a service that ended, those between its own servers left out. alone: no other one was in flight from its begin to its end."},
	{"zernel_serving_seconds_total", COUNTER, "service", zn_metrics_serving_seconds, NULL,
		"Time with a request in flight, as of the last begin or end of one, or event."},
	{"zernel_serving_stall_seconds_total", COUNTER, "service,cause", zn_metrics_serving_stalls, NULL,
		"Time of the launching threads of a service's engines while a request was in flight, by what they did: causes as of zernel_step_stall_ratio."},
	{"zernel_serving_launches_total", COUNTER, "service", zn_metrics_serving_work, &work_launches,
		"Launches of a service's engines while a request was in flight."},
	{"zernel_serving_syscalls_total", COUNTER, "service", zn_metrics_serving_work, &work_syscalls,
		"System calls of a service's engines while a request was in flight."},
	{"zernel_serving_context_switches_total", COUNTER, "service", zn_metrics_serving_work, &work_switches,
		"Context switches of a service's engines while a request was in flight."},
	{"zernel_serving_page_faults_total", COUNTER, "service", zn_metrics_serving_work, &work_faults,
		"Page faults of a service's engines while a request was in flight, minor and major."},
	{"zernel_serving_runqueue_seconds_total", COUNTER, "service", zn_metrics_serving_work, &work_queued,
		"Time that threads of a service's engines waited for a CPU while a request was in flight."},
	{"zernel_serving_ioctl_seconds_total", COUNTER, "service", zn_metrics_serving_work, &work_ioctl,
		"Time that threads of a service's engines were inside ioctl() on a GPU while a request was in flight."},
	{"zernel_request_launches", GAUGE, "service", zn_metrics_serving_per_request, &work_launches,
		"Launches of a service's engines over the last minute by requests that ended in it; absent without one, and where requests take longer than a quarter of it."},
	{"zernel_request_syscalls", GAUGE, "service", zn_metrics_serving_per_request, &work_syscalls,
		"The same of system calls."},
	{"zernel_request_context_switches", GAUGE, "service", zn_metrics_serving_per_request, &work_switches,
		"The same of context switches."},
	{"zernel_request_page_faults", GAUGE, "service", zn_metrics_serving_per_request, &work_faults,
		"The same of page faults, minor and major."},
	{"zernel_request_gpu_wait_seconds", GAUGE, "service", zn_metrics_serving_per_request, &work_gpu,
		"The same of time that the engines' launching threads waited for the GPU."},
	{"zernel_lost_total", COUNTER, "what", zn_metrics_self_lost, NULL, "Things that could not be counted or delivered."},
	{"zernel_outbound_requests_total", COUNTER, "to,result", zn_metrics_self_sent, NULL,
		"Requests that the daemon made, by destination and what became of them: retried ones are made again, refused ones are not, failed ones were given up for newer ones."},
	{"zernel_outbound_queue", GAUGE, "to", zn_metrics_self_outbound, &waiting, "Messages that wait to be sent."},
	{"zernel_outbound_down", GAUGE, "to", zn_metrics_self_outbound, &down,
		"Destinations that cannot be reached, or say that they cannot serve now."},
	{"zernel_ras_requests_total", COUNTER, "outcome", zn_metrics_self_ras, NULL,
		"Questions to the RAS service of NCCL about a job that seems to hang, by what came of them, those that were not asked because of who listens included; docs/WHY.md."},
	{"zernel_table_entries", DETAIL_GAUGE, "table", zn_metrics_self_tables, &entries, "Entries in use of a fixed table."},
	{"zernel_table_limit", DETAIL_GAUGE, "table", zn_metrics_self_tables, &limit, "Size of a fixed table."},
	{"zernel_ticks_total", DETAIL_COUNTER, "", zn_metrics_self_ticks, NULL,
		"Ticks since the start of the daemon: at each, rates are made anew and alerts evaluated."},
	{"zernel_http_requests_total", COUNTER, "path,code", zn_metrics_self_requests, NULL, "Requests answered."},
	{"zernel_http_connections", DETAIL_GAUGE, "", zn_metrics_self_connections, NULL, "Open connections, WebSocket clients included."},
	{"zernel_ws_clients", DETAIL_GAUGE, "", zn_metrics_self_clients, NULL, "WebSocket clients."},
	{"zernel_scrape_render_seconds", DETAIL_GAUGE, "", zn_metrics_self_render, NULL,
		"Time it took to render the scrape before this."},
	{"zernel_otlp_render_seconds", DETAIL_GAUGE, "", zn_metrics_self_export, NULL,
		"Time it took to make and hand over the requests of the last OTLP export."},
	{"process_cpu_seconds_total", COUNTER, "", zn_metrics_self_cpu, NULL, "CPU time of the daemon."},
	{"process_resident_memory_bytes", GAUGE, "", zn_metrics_self_resident, NULL, "Resident memory of the daemon."},
	{"process_open_fds", GAUGE, "", zn_metrics_self_fds, NULL, "Open file descriptors of the daemon."},
	{"process_start_time_seconds", GAUGE, "", zn_metrics_self_start, NULL, "Start of the daemon since the epoch."},
};
/* clang-format on */

static const struct zn_metric *find_metric(const char *name)
{
	for (size_t i = 0; i < ZN_LEN(table); i++)
		if (!strcmp(table[i].name, name))
			return &table[i];
	return NULL;
}

bool zn_metrics_known(const char *name)
{
	return find_metric(name);
}

int zn_metrics_type(const char *name)
{
	const struct zn_metric *m = find_metric(name);

	return m ? (int)m->type : -1;
}

const char *zn_metrics_name(size_t i)
{
	return i < ZN_LEN(table) ? table[i].name : NULL;
}

const struct zn_metric *zn_metrics_at(size_t i)
{
	return i < ZN_LEN(table) ? &table[i] : NULL;
}

void zn_metrics_walk(
	const struct zn_state *state, const char *name, void (*visit)(void *to, const struct zn_sample *s), void *to)
{
	const struct zn_metric *m = name ? find_metric(name) : table;
	size_t n = !m ? 0 : name ? 1 : ZN_LEN(table);
	struct zn_walk w;

	zn_walk_init(&w, state, visit, to);
	for (size_t i = 0; i < n; i++)
		zn_walk_metric(&w, &m[i]);
}

uint32_t zn_metrics_series(const struct zn_options *options)
{
	static const uint32_t sets[] = {[ZN_SERIES_PROCESS] = ZN_COLLECT_ALL,
		[ZN_SERIES_JOB] = ZN_COLLECT_NODE | ZN_COLLECT_JOB,
		[ZN_SERIES_NODE] = ZN_COLLECT_NODE};

	return options ? sets[options->series] : ZN_COLLECT_ALL;
}

static bool has_label(const struct zn_metric *m, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = m->labels; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, name, len) && (!at[len] || at[len] == ','))
			return true;
	return false;
}

static uint32_t collect_of(const struct zn_metric *m)
{
	uint32_t said = m->collect & ZN_COLLECT_ALL;

	if (said)
		return said;
	if (has_label(m, "pid") || has_label(m, "service"))
		return ZN_COLLECT_PROCESS;
	return has_label(m, "job_id") || has_label(m, "comm") ? ZN_COLLECT_JOB : ZN_COLLECT_NODE;
}

bool zn_metrics_collected(const struct zn_metric *m, uint32_t collect)
{
	return collect == ZN_COLLECT_ALL || collect & collect_of(m);
}

bool zn_metrics_summary(const struct zn_metric *m, uint32_t collect)
{
	return zn_metrics_collected(m, collect) &&
		(!m->twin || !zn_metrics_brief(collect) || m->collect & ZN_COLLECT_QUANTILES);
}

bool zn_metrics_twin_shown(const struct zn_metric *m, uint32_t collect)
{
	return m->twin && zn_metrics_collected(m, collect) &&
		(!zn_metrics_brief(collect) || !(m->collect & ZN_COLLECT_QUANTILES));
}

void zn_metrics_list(FILE *to)
{
	for (size_t i = 0; i < ZN_LEN(table); i++)
		fprintf(to, "%s{%s} %s\n    %s\n", table[i].name, table[i].labels, zn_metrics_type_name(table[i].type),
			table[i].help);
}

/* What each value of collect[] stands for. */
static void list_collects(FILE *to)
{
	static const char *const labels[ZN_COLLECT_COUNT] = {
#define X(e, label) label,
		ZN_COLLECTS(X)
#undef X
	};

	for (uint32_t bit = 0; bit < ZN_COLLECT_COUNT; bit++) {
		fprintf(to, "\n- `%s`:", labels[bit]);
		for (size_t i = 0; i < ZN_LEN(table); i++)
			if (collect_of(&table[i]) == 1u << bit)
				fprintf(to, " `%s`", table[i].name);
	}
	fputc('\n', to);
}

static const char docs_head[] =
	"# Metrics\n\nMade by `make docs` from the table in `metrics.c`; do not edit.\n\n"
	"Each summary has a twin histogram, `<name without _seconds>_hist_seconds`, with `le` at powers of 4 "
	"from 1.024e-06 "
	"(4^5 ns) to 68.719476736 s (4^18 ns): its buckets are exact and can be added up across nodes. Those of requests, but for their round trip, are at powers of "
	"2 from 0.001048576 (2^20 ns) to 137.438953472 s (2^37 ns). A "
	"quantile is within "
	"3.2 % of the exact one from 128 ns on; of file I/O within 12.5 %, but for the first 768 series of reads and writes.\n\n"
	"A series of a process appears with its first event and goes when the process has ended. Once the process is known to "
	"belong to a job, each of its series has one label more, the last, `job_id`; the label `job` is Prometheus's own and never "
	"used.\n\n"
	"The sums of a job, `zernel_job_*`, hold what its processes did that have gone. They stay for five minutes "
	"after its end, less only where other jobs need the room. A job that is requeued runs again under its `job_id`: only the "
	"newest run is shown, from 0 on, which reads as a reset of a counter; the reports keep them apart.\n\n"
	"OpenMetrics 1.0, which Prometheus asks for by itself, has the same samples, and `<name>_created` beside each counter, "
	"summary and histogram: when it was 0, which is the process's first hooked call or the daemon's start. What the drivers of "
	"GPUs and the kernel count has none: it has grown since before the daemon. In text 0.0.4 "
	"an info is a gauge. Prometheus with native histograms asks for Protocol Buffers: docs/SERVING.md says what it gets.\n\n"
	"| metric | type | labels | meaning |\n|---|---|---|---|\n";
static const char docs_collects[] =
	"\n## Parts\n\nWhat `--series` and `?collect[]=` call them: docs/SERVING.md says what is left out.\n";
static const char docs_lost[] =
	"\n## What can be lost\n\n`zernel_lost_total{what=...}`: all of them stay 0 on a healthy node.\n\n"
	"| what | meaning |\n|---|---|\n";

void zn_metrics_docs(FILE *to)
{
	fputs(docs_head, to);
	for (size_t i = 0; i < ZN_LEN(table); i++)
		fprintf(to, "| `%s` | %s | %s | %s |\n", table[i].name, zn_metrics_type_name(table[i].type),
			table[i].labels, table[i].help);
	fputs(docs_lost, to);
	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++)
		fprintf(to, "| `%s` | %s |\n", zn_loss_label(i), zn_loss_help(i));
	fputs(docs_collects, to);
	list_collects(to);
}
