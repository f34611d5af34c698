/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sysfs_test.c: trees like /sys: GPUs of three vendors, one that sleeps, files that are missing or make no sense;
 * counters of energy that wrap, and meters of power.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define S ZN_NS_PER_S

static char root[64];
static struct zn_sysfs sysfs;
static struct zn_sysfs_at at;
static uint64_t now;

static void put(const char *name, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *c = path + strlen(root) + 1; (c = strchr(c, '/')); c++) {
		*c = 0;
		mkdir(path, 0755);
		*c = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void link_to(const char *name, const char *target)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	CHECK(symlink(target, path) == 0);
}

static void begin(void)
{
	int fd;

	strcpy(root, "/tmp/sysfs.XXXXXX");
	CHECK(mkdtemp(root) != NULL);
	fd = open(root, O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	zn_sysfs_init(&sysfs, fd, &at);
	now = 100 * S;
}

static void end(void)
{
	char command[96];

	close(sysfs.root);
	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK(system(command) == 0);
}

static void look(unsigned rounds)
{
	for (; rounds; rounds--, now += S)
		zn_sysfs_round(&sysfs, now);
	CHECK_EQ(at.since_ns, 0);
}

static void add_again(const char *pci)
{
	char name[128], target[128];

	snprintf(name, sizeof(name), "bus/pci/devices/%s", pci);
	snprintf(target, sizeof(target), "../../../devices/port/%s", pci);
	link_to(name, target);
}

/* A device below a port, as the real tree has it: bus/pci/devices has links. */
static void add_device(const char *pci, const char *driver)
{
	char name[128], target[128];

	snprintf(name, sizeof(name), "devices/port/%s/numa_node", pci);
	put(name, "1\n");
	put("bus/pci/devices/0000:00:00.0/class", "0x060000\n");
	add_again(pci);
	snprintf(name, sizeof(name), "devices/port/%s/driver", pci);
	snprintf(target, sizeof(target), "../../../bus/pci/drivers/%s", driver);
	link_to(name, target);
}

static void take_away(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	CHECK(unlink(path) == 0);
}

static void check_figure(uint32_t gpu, enum zn_figure f, uint64_t want)
{
	const struct zn_reading *r = &sysfs.seen.gpu[gpu];

	CHECK(zn_reading_has(r, f));
	if (r->value[f] != want)
		T_FAIL("%s is %llu, not %llu", zn_figure_name(f), (unsigned long long)r->value[f],
			(unsigned long long)want);
}

static void check_absent(uint32_t gpu, enum zn_figure f)
{
	CHECK(!zn_reading_has(&sysfs.seen.gpu[gpu], f));
	if (zn_reading_has(&sysfs.seen.gpu[gpu], f))
		T_FAIL("%s is there", zn_figure_name(f));
}

#define NV "devices/port/0000:1b:00.0/"

T(link_and_errors_of_any_vendor)
{
	begin();
	add_device("0000:1b:00.0", "nvidia");
	put(NV "current_link_speed", "16.0 GT/s PCIe\n");
	put(NV "max_link_speed", "32.0 GT/s PCIe\n");
	put(NV "current_link_width", "8\n");
	put(NV "max_link_width", "16\n");
	put(NV "aer_dev_correctable", "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 5\n");
	put(NV "aer_dev_nonfatal", "Undefined 0\nTOTAL_ERR_NONFATAL 0\n");
	put(NV "power/runtime_status", "active\n");
	look(1);
	CHECK_EQ(sysfs.seen.count, 1);
	CHECK_STR(sysfs.seen.gpu[0].pci, "0000:1b:00.0");
	check_figure(0, ZN_FIGURE_LINK_SPEED, 160);
	check_figure(0, ZN_FIGURE_LINK_SPEED_MAX, 320);
	check_figure(0, ZN_FIGURE_LINK_WIDTH, 8);
	check_figure(0, ZN_FIGURE_LINK_WIDTH_MAX, 16);
	check_figure(0, ZN_FIGURE_PCIE_CORRECTABLE, 5);
	check_figure(0, ZN_FIGURE_PCIE_NONFATAL, 0);
	check_absent(0, ZN_FIGURE_PCIE_FATAL); /* there is no such file */
	check_figure(0, ZN_FIGURE_NUMA_NODE, 1);
	check_figure(0, ZN_FIGURE_SUSPENDED, 0);
	check_absent(0, ZN_FIGURE_UTILIZATION);
	check_absent(0, ZN_FIGURE_ENERGY);
	end();
}

/* A port of eight lanes loses none of a device's sixteen. */
T(the_port_above_limits_a_link)
{
	begin();
	add_device("0000:1b:00.0", "nvidia");
	put(NV "current_link_width", "8\n");
	put(NV "max_link_width", "16\n");
	put("devices/port/max_link_width", "8\n");
	look(1);
	check_figure(0, ZN_FIGURE_LINK_WIDTH_MAX, 8);
	end();
}

/* One that sleeps is not asked for anything that would wake it, and what it said before is gone. */
T(a_gpu_that_sleeps_is_left_alone)
{
	begin();
	add_device("0000:1b:00.0", "amdgpu");
	put(NV "power/runtime_status", "active\n");
	put(NV "current_link_width", "16\n");
	put(NV "gpu_busy_percent", "3\n");
	look(10);
	check_figure(0, ZN_FIGURE_UTILIZATION, 30000);
	put(NV "power/runtime_status", "suspended\n");
	look(10);
	check_figure(0, ZN_FIGURE_SUSPENDED, 1);
	check_absent(0, ZN_FIGURE_UTILIZATION);
	check_absent(0, ZN_FIGURE_LINK_WIDTH);
	end();
}

T(hostile_text_is_absent)
{
	static const char *const texts[] = {"", "\n", "-1\n", "Unknown\n", "99999999999999999999999\n", "0\n", "255\n",
		"4611686018427387904\n", "\x01\xff\xfe", "abc 16"};
	char huge[8192];

	begin();
	add_device("0000:1b:00.0", "amdgpu");
	for (size_t i = 0; i < ZN_LEN(texts); i++) {
		put(NV "current_link_width", texts[i]);
		put(NV "aer_dev_fatal", texts[i]);
		sysfs.rounds = 0;
		look(1);
		check_absent(0, ZN_FIGURE_LINK_WIDTH);
		check_absent(0, ZN_FIGURE_PCIE_FATAL);
	}
	put(NV "numa_node", "-1\n");
	put(NV "gpu_busy_percent", "101\n");
	memset(huge, '7', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = 0;
	put(NV "mem_info_vram_used", huge);
	sysfs.rounds = 0;
	look(1);
	check_absent(0, ZN_FIGURE_NUMA_NODE);
	check_absent(0, ZN_FIGURE_UTILIZATION);
	check_absent(0, ZN_FIGURE_VRAM_USED);
	end();
}

/* Power becomes energy, as amdgpu counts none. */
T(amd_by_drm_and_hwmon)
{
	begin();
	add_device("0000:1b:00.0", "amdgpu");
	put(NV "gpu_busy_percent", "87\n");
	put(NV "mem_info_vram_used", "1073741824\n");
	put(NV "mem_info_vram_total", "68702699520\n");
	put(NV "ras/umc_err_count", "ue: 2\nce: 7\n");
	put(NV "hwmon/hwmon4/temp1_input", "48000\n");
	put(NV "hwmon/hwmon4/temp2_input", "61000\n");
	put(NV "hwmon/hwmon4/temp3_input", "55000\n");
	put(NV "hwmon/hwmon4/freq1_input", "1700000000\n");
	put(NV "hwmon/hwmon4/power1_average", "300000000\n");
	put(NV "hwmon/hwmon4/power1_cap", "560000000\n");
	look(1);
	check_figure(0, ZN_FIGURE_UTILIZATION, 870000);
	check_figure(0, ZN_FIGURE_VRAM_USED, 1073741824);
	check_figure(0, ZN_FIGURE_ECC_UNCORRECTED, 2);
	check_figure(0, ZN_FIGURE_ECC_CORRECTED, 7);
	check_figure(0, ZN_FIGURE_TEMPERATURE, 48000);
	check_figure(0, ZN_FIGURE_HOTSPOT, 61000);
	check_figure(0, ZN_FIGURE_MEMORY_TEMPERATURE, 55000);
	check_figure(0, ZN_FIGURE_CLOCK, 1700000000);
	check_figure(0, ZN_FIGURE_POWER, 300000);
	check_figure(0, ZN_FIGURE_POWER_LIMIT, 560000);
	check_figure(0, ZN_FIGURE_ENERGY, 0);
	look(5);
	check_figure(0, ZN_FIGURE_ENERGY, 5 * 300000);
	now += 3600 * S; /* asleep, or blocked: nobody knows what it drew */
	look(1);
	check_figure(0, ZN_FIGURE_ENERGY, 5 * 300000);
	end();
}

T(intel_by_drm_and_hwmon)
{
	begin();
	add_device("0000:03:00.0", "i915");
	put("devices/port/0000:03:00.0/drm/renderD128/dev", "226:128\n");
	put("devices/port/0000:03:00.0/drm/card0/gt/gt0/rps_act_freq_mhz", "1550\n");
	put("devices/port/0000:03:00.0/drm/card0/gt/gt0/throttle_reason_pl1", "1\n");
	put("devices/port/0000:03:00.0/drm/card0/gt/gt0/throttle_reason_thermal", "0\n");
	put("devices/port/0000:03:00.0/hwmon/hwmon2/energy1_input", "7000000\n");
	put("devices/port/0000:03:00.0/hwmon/hwmon2/temp2_input", "40000\n");
	look(2);
	check_figure(0, ZN_FIGURE_CLOCK, 1550000000);
	check_figure(0, ZN_FIGURE_THROTTLE, 1 << ZN_THROTTLE_POWER);
	check_figure(0, ZN_FIGURE_ENERGY, 7000);
	check_absent(0, ZN_FIGURE_HOTSPOT);
	check_absent(0, ZN_FIGURE_UTILIZATION);
	end();
}

#define ZONE "class/powercap/intel-rapl:"

static uint64_t energy(enum zn_energy e)
{
	return sysfs.seen.energy_known >> e & 1 ? sysfs.seen.energy_uj[e] : ZN_NOT_KNOWN;
}

/* Two sockets; one wraps. Cores are inside of packages, the same zones by MMIO are the same energy. */
T(rapl_wraps)
{
	begin();
	put(ZONE "0/name", "package-0\n");
	put(ZONE "0/max_energy_range_uj", "262143328850\n");
	put(ZONE "0/energy_uj", "262143328000\n");
	put(ZONE "0:0/name", "core\n");
	put(ZONE "0:0/max_energy_range_uj", "262143328850\n");
	put(ZONE "0:0/energy_uj", "5\n");
	put(ZONE "0:1/name", "dram\n");
	put(ZONE "0:1/max_energy_range_uj", "65712999613\n");
	put(ZONE "0:1/energy_uj", "1000\n");
	put(ZONE "1/name", "package-1\n");
	put(ZONE "1/max_energy_range_uj", "262143328850\n");
	put(ZONE "1/energy_uj", "50\n");
	put("class/powercap/intel-rapl-mmio:0/name", "package-0\n");
	put("class/powercap/intel-rapl-mmio:0/energy_uj", "1\n");
	look(1);
	CHECK_EQ(energy(ZN_ENERGY_CPU), 0);
	CHECK_EQ(energy(ZN_ENERGY_DRAM), 0);
	CHECK_EQ(energy(ZN_ENERGY_NODE), ZN_NOT_KNOWN);
	put(ZONE "0/energy_uj", "150\n");
	put(ZONE "0:0/energy_uj", "500000\n");
	put(ZONE "0:1/energy_uj", "3000\n");
	put(ZONE "1/energy_uj", "70\n");
	look(1);
	CHECK_EQ(energy(ZN_ENERGY_CPU), 850 + 150 + 20);
	CHECK_EQ(energy(ZN_ENERGY_DRAM), 2000);
	put(ZONE "1/energy_uj", "what?\n");
	look(1);
	CHECK_EQ(energy(ZN_ENERGY_CPU), 1020);
	put(ZONE "1/energy_uj", "100\n");
	look(1);
	CHECK_EQ(energy(ZN_ENERGY_CPU), 1050);
	end();
}

T(cray_counts_joules_of_the_node)
{
	begin();
	put("cray/pm_counters/energy", "1000 J 1700000000 us\n");
	put("cray/pm_counters/cpu_energy", "300 J 1700000000 us\n");
	put(ZONE "0/name", "package-0\n");
	put(ZONE "0/max_energy_range_uj", "262143328850\n");
	put(ZONE "0/energy_uj", "10\n");
	look(1);
	put("cray/pm_counters/energy", "1007 J 1700000001 us\n");
	put("cray/pm_counters/cpu_energy", "302 J 1700000001 us\n");
	put(ZONE "0/energy_uj", "5000000\n");
	look(1);
	CHECK_EQ(energy(ZN_ENERGY_NODE), 7000000);
	CHECK_EQ(energy(ZN_ENERGY_CPU), 2000000);
	CHECK_EQ(energy(ZN_ENERGY_DRAM), ZN_NOT_KNOWN);
	end();
}

static void put_of_meter(unsigned hwmon, const char *folder, const char *file, const char *text)
{
	char name[96];

	snprintf(name, sizeof(name), "class/hwmon/hwmon%u%s/%s", hwmon, folder, file);
	put(name, text);
}

/* As before Linux 6.16, as from it on, and with a name that is in the other folder. */
T(meters_of_power_are_summed_up)
{
	static const char *const rows[][2] = {{"/device", "/device"}, {"", ""}, {"", "/device"}};
	static const char *const meters[][2] = {{"Module Power Socket 0\n", "600000000\n"},
		{"CPU Power Socket 0\n", "200000000\n"}, {"Grace Power Socket 0\n", "300000000\n"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		begin();
		put("class/hwmon/hwmon0/name", "coretemp\n");
		put("class/hwmon/hwmon0/power1_average", "1000\n");
		for (unsigned n = 0; n < ZN_LEN(meters); n++) {
			put_of_meter(n + 1, rows[i][0], "name", "power_meter\n");
			put_of_meter(n + 1, rows[i][1], "power1_oem_info", meters[n][0]);
			put_of_meter(n + 1, rows[i][1], "power1_average", meters[n][1]);
		}
		look(4);
		CHECK_EQ(energy(ZN_ENERGY_NODE), 1800000000);
		CHECK_EQ(energy(ZN_ENERGY_CPU), 600000000);
		end();
	}
}

static void put_meter(void)
{
	put("class/hwmon/hwmon1/name", "power_meter\n");
	put("class/hwmon/hwmon1/device/power1_average", "600000000\n");
}

/* A counter of the whole platform and a meter are of the same energy; so are both of Grace's CPU. */
T(what_is_counted_is_not_metered_too)
{
	begin();
	put(ZONE "0/name", "psys\n");
	put(ZONE "0/max_energy_range_uj", "262143328850\n");
	put_meter();
	look(2); /* the counter cannot be read */
	CHECK_EQ(energy(ZN_ENERGY_NODE), 600000000);
	put(ZONE "0/energy_uj", "10\n");
	look(1);
	put(ZONE "0/energy_uj", "1010\n");
	look(1);
	CHECK_EQ(energy(ZN_ENERGY_NODE), 600001000);
	end();
}

/* The module of RAPL may be loaded later: found a minute after the meter. */
T(a_counter_that_comes_after_the_meter)
{
	begin();
	put_meter();
	look(2);
	put(ZONE "0/name", "psys\n");
	put(ZONE "0/max_energy_range_uj", "262143328850\n");
	put(ZONE "0/energy_uj", "10\n");
	look(59);
	CHECK_EQ(energy(ZN_ENERGY_NODE), 60 * 600000000ULL);
	put(ZONE "0/energy_uj", "1010\n");
	look(1);
	CHECK_EQ(energy(ZN_ENERGY_NODE), 60 * 600000000ULL + 1000);
	end();
}

T(an_empty_tree_says_nothing)
{
	begin();
	look(3);
	CHECK_EQ(sysfs.seen.count, 0);
	CHECK_EQ(sysfs.seen.energy_known, 0);
	end();
}

/* Found again each minute: one that fell off the bus is lost, and one that came is there. */
T(gpus_come_and_go)
{
	begin();
	add_device("0000:1b:00.0", "nvidia");
	add_device("0000:43:00.0", "snd_hda_intel");
	look(1);
	CHECK_EQ(sysfs.seen.count, 1);
	take_away("bus/pci/devices/0000:1b:00.0");
	look(1);
	CHECK_EQ(sysfs.seen.gpu[0].known, 1ULL << ZN_FIGURE_LOST);
	check_figure(0, ZN_FIGURE_LOST, 1);
	add_device("0000:9d:00.0", "amdgpu");
	look(60);
	CHECK_EQ(sysfs.seen.count, 2);
	check_figure(0, ZN_FIGURE_LOST, 1);
	CHECK_STR(sysfs.seen.gpu[1].pci, "0000:9d:00.0");
	add_again("0000:1b:00.0");
	look(10);
	check_absent(0, ZN_FIGURE_LOST); /* there is no such file as config */
	check_figure(0, ZN_FIGURE_NUMA_NODE, 1);
	end();
}

/* What is asked for four bytes says that a device is there, or that nobody is. */
T(a_gpu_that_answers_no_more_is_lost)
{
	begin();
	add_device("0000:1b:00.0", "nvidia");
	put(NV "current_link_width", "16\n");
	put(NV "config", "\xde\x10\x30\x23 and more");
	look(1);
	check_figure(0, ZN_FIGURE_LOST, 0);
	check_figure(0, ZN_FIGURE_LINK_WIDTH, 16);
	put(NV "config", "\xff\xff\xff\xff and more");
	look(9);
	check_figure(0, ZN_FIGURE_LOST, 0); /* it is looked at each ten seconds */
	look(3);
	CHECK_EQ(sysfs.seen.gpu[0].known, 1ULL << ZN_FIGURE_LOST);
	check_figure(0, ZN_FIGURE_LOST, 1);
	put(NV "config", "\xff\xff\xff");
	put(NV "current_link_width", "63\n");
	look(10);
	check_absent(0, ZN_FIGURE_LOST); /* nobody knows */
	check_absent(0, ZN_FIGURE_LINK_WIDTH);
	put(NV "config", "\xde\x10\xff\xff");
	look(10);
	check_figure(0, ZN_FIGURE_LOST, 0);
	end();
}

/* A driver that gives its GPU back first, and functions that come and go, are no fault. */
T(a_gpu_that_is_taken_away_in_order_is_not_lost)
{
	begin();
	add_device("0000:1b:00.0", "nvidia");
	add_device("0000:1b:00.4", "nvidia");
	link_to("devices/port/0000:1b:00.4/physfn", "../0000:1b:00.0");
	put(NV "config", "\xde\x10\x30\x23");
	put("devices/port/0000:1b:00.4/config", "\xff\xff\xff\xff");
	look(1);
	CHECK_EQ(sysfs.seen.count, 2);
	check_absent(1, ZN_FIGURE_LOST); /* its first bytes are those of a part of another device */
	take_away("devices/port/0000:1b:00.0/driver");
	look(1);
	take_away("bus/pci/devices/0000:1b:00.0");
	take_away("bus/pci/devices/0000:1b:00.4");
	look(61);
	check_absent(0, ZN_FIGURE_LOST);
	check_absent(1, ZN_FIGURE_LOST);
	end();
}

/* Its driver waits for those who use it, and has given up its link before. */
T(a_gpu_that_was_pulled_is_lost)
{
	begin();
	add_device("0000:1b:00.0", "nvidia");
	put(NV "config", "\xde\x10\x30\x23");
	look(2);
	put(NV "config", "\xff\xff\xff\xff");
	take_away("devices/port/0000:1b:00.0/driver");
	look(1);
	check_figure(0, ZN_FIGURE_LOST, 1);
	look(12);
	check_figure(0, ZN_FIGURE_LOST, 1);
	take_away("bus/pci/devices/0000:1b:00.0");
	look(12);
	check_figure(0, ZN_FIGURE_LOST, 1);
	end();
}

/* A place is free again once a driver has left its GPU; one that is lost keeps its own. */
T(gpus_have_places)
{
	char pci[16], name[64];

	begin();
	for (unsigned i = 0; i < ZN_GPUS_MAX; i++) {
		snprintf(pci, sizeof(pci), "0000:%02x:00.0", i + 1);
		add_device(pci, "nvidia");
	}
	look(1);
	CHECK_EQ(sysfs.seen.count, ZN_GPUS_MAX);
	take_away("bus/pci/devices/0000:05:00.0");
	snprintf(name, sizeof(name), "devices/port/%s/driver", sysfs.gpu[7].pci);
	if (!strcmp(sysfs.gpu[7].pci, "0000:05:00.0"))
		snprintf(name, sizeof(name), "devices/port/%s/driver", sysfs.gpu[8].pci);
	take_away(name);
	add_device("0000:9d:00.0", "amdgpu");
	look(70);
	CHECK_EQ(sysfs.seen.count, ZN_GPUS_MAX);
	for (uint32_t i = 0, lost = 0, came = 0; i <= ZN_GPUS_MAX; i++) {
		if (i == ZN_GPUS_MAX) {
			CHECK_EQ(lost, 1);
			CHECK_EQ(came, 1);
			break;
		}
		lost += zn_reading_has(&sysfs.seen.gpu[i], ZN_FIGURE_LOST);
		came += !strcmp(sysfs.seen.gpu[i].pci, "0000:9d:00.0");
	}
	end();
}

#define IB "devices/hca/infiniband/mlx5_0/ports/1/"

/* As the real tree has it: class/infiniband has links. */
T(ports_of_infiniband)
{
	const struct zn_port_reading *r = sysfs.seen.port;

	begin();
	put("class/infiniband/x", "");
	put(IB "state", "4: ACTIVE\n");
	put(IB "rate", "200 Gb/sec (4X HDR)\n");
	put(IB "link_layer", "InfiniBand\n");
	put(IB "counters/port_xmit_data", "123\n");
	put(IB "counters/symbol_error", "2\n");
	put(IB "hw_counters/np_cnp_sent", "7\n");
	put("devices/hca/infiniband/mlx5_0/ports/2/state", "1: DOWN\n");
	put("devices/hca/infiniband/mlx5_0/ports/2/rate", "2.5 Gb/sec (1X SDR)\n");
	put("devices/hca/infiniband/mlx5_0/ports/none/state", "4: ACTIVE\n");
	link_to("class/infiniband/mlx5_0", "../../devices/hca/infiniband/mlx5_0");
	look(1);
	CHECK_EQ(sysfs.seen.port_count, 2);
	r += sysfs.seen.port[0].port != 1; /* in any order */
	CHECK_STR(r->device, "mlx5_0");
	CHECK_STR(r->link, "InfiniBand");
	CHECK_EQ(r->active, 1);
	CHECK_EQ(r->mbit, 200000);
	CHECK_EQ(r->known,
		1ULL << ZN_PORT_COUNTER_SENT | 1ULL << ZN_PORT_COUNTER_SYMBOL | 1ULL << ZN_PORT_COUNTER_CNP_SENT);
	CHECK_EQ(r->value[ZN_PORT_COUNTER_SENT], 123);
	r = sysfs.seen.port + (sysfs.seen.port[0].port != 2);
	CHECK_EQ(r->active, 0);
	CHECK_EQ(r->mbit, 2500);
	CHECK_EQ(r->known, 0);
	put(IB "counters/port_xmit_data", "200\n");
	look(9); /* each ten seconds */
	CHECK_EQ(sysfs.seen.port[0].value[ZN_PORT_COUNTER_SENT] + sysfs.seen.port[1].value[ZN_PORT_COUNTER_SENT], 123);
	look(1);
	CHECK_EQ(sysfs.seen.port[0].value[ZN_PORT_COUNTER_SENT] + sysfs.seen.port[1].value[ZN_PORT_COUNTER_SENT], 200);
	end();
}

T(hostile_ports)
{
	char name[96];

	begin();
	put("class/infiniband/a\"b/ports/1/state", "4: ACTIVE\n");
	put("class/infiniband/a-name-of-more-than-23-bytes/ports/1/state", "4: ACTIVE\n");
	put("class/infiniband/hfi1_0/ports/1/state", "");
	put("class/infiniband/hfi1_0/ports/1/rate", "99999999999999999999 Gb/sec\n");
	put("class/infiniband/hfi1_0/ports/1/link_layer", "{evil=\"x\"}\n");
	put("class/infiniband/hfi1_0/ports/1/counters/port_xmit_data", "-1\n");
	put("class/infiniband/hfi1_0/ports/1/counters/port_rcv_data", "18446744073709551616\n");
	put("class/infiniband/hfi1_0/ports/1/counters/symbol_error", "N/A (no PMA)\n");
	look(1);
	CHECK_EQ(sysfs.seen.port_count, 1);
	CHECK_STR(sysfs.seen.port[0].device, "hfi1_0");
	CHECK_STR(sysfs.seen.port[0].link, "");
	CHECK_EQ(sysfs.seen.port[0].active, 0);
	CHECK_EQ(sysfs.seen.port[0].mbit, 0);
	CHECK_EQ(sysfs.seen.port[0].known, 0);
	for (int i = 0; i < 2 * ZN_PORTS_MAX; i++) {
		snprintf(name, sizeof(name), "class/infiniband/many/ports/%d/state", i);
		put(name, "4: ACTIVE\n");
	}
	look(10);
	CHECK_EQ(sysfs.seen.port_count, ZN_PORTS_MAX);
	CHECK_EQ(sysfs.seen.ports_beyond, ZN_PORTS_MAX + 1);
	end();
}

int main(void)
{
	RUN(link_and_errors_of_any_vendor);
	RUN(the_port_above_limits_a_link);
	RUN(a_gpu_that_sleeps_is_left_alone);
	RUN(hostile_text_is_absent);
	RUN(amd_by_drm_and_hwmon);
	RUN(intel_by_drm_and_hwmon);
	RUN(rapl_wraps);
	RUN(cray_counts_joules_of_the_node);
	RUN(meters_of_power_are_summed_up);
	RUN(what_is_counted_is_not_metered_too);
	RUN(a_counter_that_comes_after_the_meter);
	RUN(an_empty_tree_says_nothing);
	RUN(gpus_come_and_go);
	RUN(a_gpu_that_answers_no_more_is_lost);
	RUN(a_gpu_that_is_taken_away_in_order_is_not_lost);
	RUN(a_gpu_that_was_pulled_is_lost);
	RUN(gpus_have_places);
	RUN(ports_of_infiniband);
	RUN(hostile_ports);
	return t_end();
}
