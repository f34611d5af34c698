/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hardware.c: the state of the simulated GPUs and the energy of their node, as a dcgm-exporter and /sys would tell it.
 * In the scenario "throttled" a GPU gets too hot; in "link" it has lost lanes, and its memory an error a minute; in
 * "sysfs-hang" the kernel does not answer for one; in "lost" it has fallen off the bus.
 */
#include <string.h>

#include "zernel.h"

#define SIM_PORTS 2

#define SICK_GPU   2 /* of the job with the faults */
#define ERROR_S    60
#define IDLE_MW    70000
#define BUSY_MW    620000
#define CPU_UJ_MS  380000 /* of both sockets */
#define DRAM_UJ_MS 60000
#define NODE_UJ_MS 3300000
#define VRAM_BYTES (80ULL << 30)
#define CUDA_BYTES (600ULL << 20) /* contexts, which no call shows */

static void set_state(const struct zn_sim *s, struct zn_reading *r, uint32_t gpu)
{
	bool hot = s->phase == ZN_SCENARIO_THROTTLED && gpu == SICK_GPU;
	uint64_t busy_ppm = 640000 + 70000 * gpu, power = IDLE_MW + (BUSY_MW - IDLE_MW) * busy_ppm / 1000000;

	zn_reading_set(r, ZN_FIGURE_UTILIZATION, busy_ppm);
	zn_reading_set(r, ZN_FIGURE_SM_ACTIVE, busy_ppm / 5 * 4);
	zn_reading_set(r, ZN_FIGURE_TENSOR_ACTIVE, busy_ppm / 3);
	zn_reading_set(r, ZN_FIGURE_DRAM_ACTIVE, busy_ppm / 2);
	zn_reading_set(r, ZN_FIGURE_POWER, power);
	zn_reading_set(r, ZN_FIGURE_POWER_LIMIT, 700000);
	zn_reading_set(r, ZN_FIGURE_ENERGY, power * (s->elapsed_ms / 1000));
	zn_reading_set(r, ZN_FIGURE_TEMPERATURE, hot ? 91000 : 58000 + 1000 * gpu);
	zn_reading_set(r, ZN_FIGURE_MEMORY_TEMPERATURE, hot ? 98000 : 69000 + 1000 * gpu);
	zn_reading_set(r, ZN_FIGURE_CLOCK, hot ? 1005000000 : 1755000000);
	zn_reading_set(r, ZN_FIGURE_MEMORY_CLOCK, 2619000000);
	zn_reading_set(r, ZN_FIGURE_THROTTLE, hot ? 1U << ZN_THROTTLE_THERMAL : 0);
	zn_reading_set(r, ZN_FIGURE_ECC_CORRECTED, 0);
	if (s->phase == ZN_SCENARIO_LINK && gpu == SICK_GPU)
		zn_reading_set(r, ZN_FIGURE_ECC_UNCORRECTED, 1 + s->elapsed_ms / 1000 / ERROR_S);
	else
		zn_reading_set(r, ZN_FIGURE_ECC_UNCORRECTED, 0);
	zn_reading_set(r, ZN_FIGURE_VRAM_TOTAL, VRAM_BYTES);
}

static void set_device(const struct zn_sim *s, struct zn_reading *r, uint32_t gpu)
{
	zn_reading_set(r, ZN_FIGURE_LINK_SPEED, 320);
	zn_reading_set(r, ZN_FIGURE_LINK_SPEED_MAX, 320);
	zn_reading_set(r, ZN_FIGURE_LINK_WIDTH, s->phase == ZN_SCENARIO_LINK && gpu == SICK_GPU ? 8 : 16);
	zn_reading_set(r, ZN_FIGURE_LINK_WIDTH_MAX, 16);
	zn_reading_set(r, ZN_FIGURE_PCIE_CORRECTABLE, 0);
	zn_reading_set(r, ZN_FIGURE_PCIE_NONFATAL, 0);
	zn_reading_set(r, ZN_FIGURE_PCIE_FATAL, 0);
	zn_reading_set(r, ZN_FIGURE_NUMA_NODE, gpu / 2);
	zn_reading_set(r, ZN_FIGURE_SUSPENDED, 0);
	zn_reading_set(r, ZN_FIGURE_LOST, 0);
}

static void set_memory(const struct zn_hardware *to, struct zn_reading *r)
{
	const struct zn_gpus *g = to->gpus;

	for (uint32_t i = 0; i < g->count; i++)
		if (!strcmp(g->gpu[i].pci, r->pci))
			zn_reading_set(r, ZN_FIGURE_VRAM_USED, g->gpu[i].used_bytes + CUDA_BYTES);
}

/* A cycle's second half, all of which it waits. */
static void set_blocked(const struct zn_sim *s, struct zn_hardware *to)
{
	uint64_t half_ms = s->cycle_ms / 2;

	to->blocked_ns = 0;
	if (s->phase != ZN_SCENARIO_SYSFS_HANG || !half_ms)
		return;
	to->blocked_ns = s->elapsed_ms % half_ms * ZN_NS_PER_MS + 1;
	snprintf(to->blocked, sizeof(to->blocked), "%s/current_link_speed", zn_sim_gpu_pci(SICK_GPU));
}

/* Two ports, each at 3 GB/s. */
static void set_ports(const struct zn_sim *s, struct zn_ports *to, uint64_t now_ns)
{
	struct zn_port_reading port[SIM_PORTS] = {0};
	uint64_t seconds = s->elapsed_ms / 10000 * 10;

	if (to->round > seconds / 10)
		return;
	for (uint32_t i = 0; i < SIM_PORTS; i++) {
		snprintf(port[i].device, sizeof(port[i].device), "mlx5_%u", i);
		snprintf(port[i].link, sizeof(port[i].link), "InfiniBand");
		port[i].port = port[i].active = 1;
		port[i].mbit = 400000;
		for (enum zn_port_counter c = 0; c < ZN_PORT_COUNTER_COUNT; c++) {
			port[i].known |= 1ULL << c;
			port[i].value[c] = zn_port_group(c) == ZN_PORT_BYTES ? seconds * 3000000000 / 4
				: zn_port_group(c) == ZN_PORT_PACKETS        ? seconds * 750000
									     : 0;
		}
	}
	zn_ports_take(to, port, SIM_PORTS, 0, now_ns);
}

void zn_sim_hardware(const struct zn_sim *s, struct zn_hardware *to, uint64_t now_ns)
{
	static const uint64_t rates[ZN_ENERGY_COUNT] = {CPU_UJ_MS, DRAM_UJ_MS, NODE_UJ_MS};

	set_blocked(s, to);
	for (uint32_t gpu = 0; gpu < ZN_SIM_GPUS && !to->blocked_ns; gpu++) {
		struct zn_reading device = {.known = 0}, state = {.known = 0};

		snprintf(device.pci, sizeof(device.pci), "%s", zn_sim_gpu_pci(gpu));
		memcpy(state.pci, device.pci, sizeof(state.pci));
		if (s->phase == ZN_SCENARIO_LOST && gpu == SICK_GPU) {
			zn_reading_set(&device, ZN_FIGURE_LOST, 1);
			zn_hardware_take(to, ZN_SOURCE_SYS, &device, now_ns);
			continue;
		}
		set_device(s, &device, gpu);
		set_state(s, &state, gpu);
		set_memory(to, &state);
		zn_hardware_take(to, ZN_SOURCE_SYS, &device, now_ns);
		zn_hardware_take(to, ZN_SOURCE_DCGM, &state, now_ns);
	}
	for (enum zn_energy e = 0; e < ZN_ENERGY_COUNT && !to->blocked_ns; e++)
		to->energy_uj[e] = rates[e] * s->elapsed_ms;
	to->energy_known = (1U << ZN_ENERGY_COUNT) - 1;
	set_ports(s, &to->ports, now_ns);
}
