/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sysfs.c: what a tree like /sys says of GPUs, of energy and of InfiniBand. Of the PCI device of each GPU: its link,
 * its errors, its NUMA node, whether it sleeps. Of AMD's and Intel's by DRM and hwmon: use, memory, power,
 * temperatures, clocks. Energy of the node by RAPL, by Cray's counters, and by meters of power. Counters of the ports
 * of InfiniBand and RoCE.
 *
 * A GPU that sleeps is not asked what would wake it. One that goes from the bus while its driver has it, or that
 * answers no more, is lost; a driver that gives a GPU back first makes it one that is none. Text of drivers is
 * bounded, and a figure that makes no sense is absent.
 *
 * Limits: i915 and xe do not say there how busy a GPU is. Where there is no counter of energy, as with amdgpu and
 * meters of power, it is power summed up over the looks.
 */
#include <ctype.h>
#include <dirent.h> /* struct dirent64 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"

#define TEXT_BYTES  2048 /* of one file; aer_dev_correctable has some 200 */
#define SLOW_ROUNDS 10
#define FIND_ROUNDS 60
#define GAP_NS      (30 * ZN_NS_PER_S) /* power is not summed up over longer ones */
#define FILES_MAX   4096               /* of a folder that are looked at */

/* ---- one file ---- */

static char text[TEXT_BYTES];

static void tell_file(const struct zn_sysfs *s, const char *folder, const char *name)
{
	snprintf(s->at->file, sizeof(s->at->file), "%s/%s", folder, name);
	__atomic_store_n(&s->at->since_ns, zn_now_ns(), __ATOMIC_RELEASE);
}

/* Reads a file below a folder into text, behind a line end. shown: the folder, for people. */
static bool read_text(const struct zn_sysfs *s, int folder, const char *shown, const char *name)
{
	ssize_t n = -1;
	int fd;

	tell_file(s, shown, name);
	fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd >= 0) {
		n = read(fd, text + 1, sizeof(text) - 2);
		close(fd);
	}
	__atomic_store_n(&s->at->since_ns, 0, __ATOMIC_RELEASE);
	text[0] = '\n';
	text[n > 0 ? n + 1 : 1] = 0;
	return n > 0;
}

/* The number with up to so many decimals behind a key; ZN_NOT_KNOWN: there is none, or it is beyond 2^62. */
static uint64_t number_at(const char *key, int decimals)
{
	const char *at = strstr(text, key);
	uint64_t v = 0;
	bool digits = false;

	at += at ? strlen(key) : 0;
	for (; at && isdigit((unsigned char)*at); at++, digits = true)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*at - '0'), &v))
			return ZN_NOT_KNOWN;
	if (!digits)
		return ZN_NOT_KNOWN;
	at += *at == '.';
	for (; decimals > 0; decimals--) {
		uint64_t digit = isdigit((unsigned char)*at) ? (uint64_t)(*at++ - '0') : 0;

		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v))
			return ZN_NOT_KNOWN;
	}
	return v < 1ULL << 62 ? v : ZN_NOT_KNOWN;
}

static uint64_t number_in(const struct zn_sysfs *s, int folder, const char *shown, const char *name)
{
	return read_text(s, folder, shown, name) ? number_at("\n", 0) : ZN_NOT_KNOWN;
}

static int open_folder(int below, const char *path)
{
	return openat(below, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The names in a folder, in turn, by the bare system call: that of the C library takes memory. */
struct names {
	int fd;
	unsigned left;
	struct zn_names at_hand;
};

static void begin_names(struct names *n, int below, const char *path)
{
	n->fd = open_folder(below, path);
	n->at_hand.at = n->at_hand.have = 0;
	n->left = FILES_MAX;
}

static void end_names(struct names *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

/* NULL: there is no more, and the folder is closed. */
static const char *next_name(struct names *n)
{
	const struct dirent64 *e;

	while (n->left && (e = zn_names_next(&n->at_hand, n->fd))) {
		n->left--;
		if (e->d_name[0] != '.')
			return e->d_name;
	}
	end_names(n);
	return NULL;
}

/* ---- which GPUs there are ---- */

static const char *const drivers[] = {"nvidia", "amdgpu", "i915", "xe"};

/* Its GPU driver; NULL: it has none. */
static const char *driver_of(int devices, const char *pci)
{
	char path[64], target[256];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "%.16s/driver", pci);
	n = readlinkat(devices, path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = 0;
	name = strrchr(target, '/');
	for (size_t i = 0; name && i < ZN_LEN(drivers); i++)
		if (!strcmp(name + 1, drivers[i]))
			return drivers[i];
	return NULL;
}

/* The first name in device/folder that begins so: "folder/name", or empty. */
static void find_first(int device, const char *folder, const char *begin, char to[64])
{
	const char *name;
	struct names n;

	to[0] = 0;
	begin_names(&n, device, folder);
	while ((name = next_name(&n)))
		if (!strncmp(name, begin, strlen(begin)) && isdigit((unsigned char)name[strlen(begin)]) &&
			strlen(name) < 24) {
			snprintf(to, 64, "%s/%s", folder, name);
			break;
		}
	end_names(&n);
}

/* The place that a GPU has, else one that is free, else that of one without a driver; ZN_GPUS_MAX: there is none. */
static uint32_t place_of(const struct zn_sysfs *s, const char *pci)
{
	uint32_t i = 0;

	while (i < s->seen.count && strcmp(s->gpu[i].pci, pci))
		i++;
	if (i < ZN_GPUS_MAX)
		return i;
	for (i = 0; i < ZN_GPUS_MAX && (s->gpu[i].driven || s->gpu[i].lost);)
		i++;
	return i;
}

/* What was summed up of a GPU stays, as long as it has its place. */
static void place_gpu(struct zn_sysfs *s, int devices, const char *pci, const char *driver)
{
	uint32_t i = place_of(s, pci);
	struct zn_sysfs_gpu *g = &s->gpu[i];
	int device = i < ZN_GPUS_MAX ? open_folder(devices, pci) : -1;

	if (device < 0)
		return;
	if (i == s->seen.count || strcmp(g->pci, pci)) {
		*g = (struct zn_sysfs_gpu){0};
		snprintf(g->pci, sizeof(g->pci), "%s", pci);
		s->seen.gpu[i] = (struct zn_reading){0};
		memcpy(s->seen.gpu[i].pci, g->pci, sizeof(g->pci));
		s->seen.count += i == s->seen.count;
	}
	g->driven = true;
	snprintf(g->driver, sizeof(g->driver), "%s", driver);
	find_first(device, "drm", "card", g->card);
	find_first(device, "hwmon", "hwmon", g->hwmon);
	close(device);
}

static void find_gpus(struct zn_sysfs *s)
{
	int devices = open_folder(s->root, "bus/pci/devices");
	char pci[16];
	const char *name, *driver;
	struct names n;

	begin_names(&n, s->root, "bus/pci/devices");
	while ((name = next_name(&n))) {
		zn_dcgm_pci(pci, (struct zn_str){name, strlen(name)});
		if (strcmp(pci, name) || !(driver = driver_of(devices, pci)))
			continue;
		place_gpu(s, devices, pci, driver);
	}
	if (devices >= 0)
		close(devices);
}

/* ---- one GPU ---- */

/* A device at hand. */
struct look {
	struct zn_sysfs *s;
	struct zn_sysfs_gpu *gpu;
	struct zn_reading *to;
	int device;
	uint64_t now_ns;
};

static void set_known(struct zn_reading *to, enum zn_figure f, uint64_t v)
{
	if (v != ZN_NOT_KNOWN)
		zn_reading_set(to, f, v);
}

static uint64_t times_of(uint64_t v, uint64_t by)
{
	return v == ZN_NOT_KNOWN || v > UINT64_MAX / by / 2 ? ZN_NOT_KNOWN : v * by;
}

/* A file with a number. below: a folder of the device's; empty: there is none. */
static uint64_t number_below(struct look *l, const char *below, const char *name)
{
	char path[128];

	if (!below[0])
		return ZN_NOT_KNOWN;
	snprintf(path, sizeof(path), "%s/%s", below, name);
	return number_in(l->s, l->device, l->gpu->pci, path);
}

/* What is unknown is 0 or all bits there. The port above may have fewer lanes than the device. */
static void read_link(struct look *l)
{
	static const struct {
		enum zn_figure figure;
		const char *name, *above;
		int decimals;
	} files[] = {{ZN_FIGURE_LINK_SPEED, "current_link_speed", NULL, 1},
		{ZN_FIGURE_LINK_SPEED_MAX, "max_link_speed", "../max_link_speed", 1},
		{ZN_FIGURE_LINK_WIDTH, "current_link_width", NULL, 0},
		{ZN_FIGURE_LINK_WIDTH_MAX, "max_link_width", "../max_link_width", 0}};

	for (size_t i = 0; i < ZN_LEN(files); i++) {
		uint64_t v = ZN_NOT_KNOWN, above = ZN_NOT_KNOWN;

		if (read_text(l->s, l->device, l->gpu->pci, files[i].name))
			v = number_at("\n", files[i].decimals);
		if (files[i].above && read_text(l->s, l->device, l->gpu->pci, files[i].above))
			above = number_at("\n", files[i].decimals);
		if (above != ZN_NOT_KNOWN && above && v != ZN_NOT_KNOWN && above < v)
			v = above;
		if (v != ZN_NOT_KNOWN && v && v < 255 * 10)
			zn_reading_set(l->to, files[i].figure, v);
	}
	if (zn_reading_has(l->to, ZN_FIGURE_LINK_WIDTH) && l->to->value[ZN_FIGURE_LINK_WIDTH] > 32)
		l->to->known &= ~(1ULL << ZN_FIGURE_LINK_WIDTH);
	if (zn_reading_has(l->to, ZN_FIGURE_LINK_WIDTH_MAX) && l->to->value[ZN_FIGURE_LINK_WIDTH_MAX] > 32)
		l->to->known &= ~(1ULL << ZN_FIGURE_LINK_WIDTH_MAX);
}

static void read_errors(struct look *l)
{
	static const struct {
		enum zn_figure figure;
		const char *name, *key;
	} files[] = {{ZN_FIGURE_PCIE_CORRECTABLE, "aer_dev_correctable", "\nTOTAL_ERR_COR "},
		{ZN_FIGURE_PCIE_NONFATAL, "aer_dev_nonfatal", "\nTOTAL_ERR_NONFATAL "},
		{ZN_FIGURE_PCIE_FATAL, "aer_dev_fatal", "\nTOTAL_ERR_FATAL "}};

	for (size_t i = 0; i < ZN_LEN(files); i++)
		if (read_text(l->s, l->device, l->gpu->pci, files[i].name))
			set_known(l->to, files[i].figure, number_at(files[i].key, 0));
}

/* It does not wake the device, unlike what follows. */
static bool is_asleep(struct look *l)
{
	bool known = read_text(l->s, l->device, l->gpu->pci, "power/runtime_status");
	bool asleep = known && !strncmp(text + 1, "suspend", 7);

	if (known)
		zn_reading_set(l->to, ZN_FIGURE_SUSPENDED, asleep);
	return asleep;
}

/* Who is not there reads as ones. Four bytes do: some devices suffer from more. */
static void read_presence(struct look *l)
{
	unsigned char id[4];
	ssize_t n = -1;
	int fd;

	tell_file(l->s, l->gpu->pci, "config");
	fd = openat(l->device, "config", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0) {
		n = read(fd, id, sizeof(id));
		close(fd);
	}
	__atomic_store_n(&l->s->at->since_ns, 0, __ATOMIC_RELEASE);
	l->gpu->lost = n == sizeof(id) && (id[0] & id[1] & id[2] & id[3]) == 0xff;
	if (n == sizeof(id))
		zn_reading_set(l->to, ZN_FIGURE_LOST, l->gpu->lost);
}

static void read_slow(struct look *l)
{
	set_known(l->to, ZN_FIGURE_NUMA_NODE, number_in(l->s, l->device, l->gpu->pci, "numa_node"));
	read_errors(l);
	read_link(l);
}

/* Power over time, as long as the driver has no counter. */
static void sum_power(struct look *l, uint64_t microwatts)
{
	struct zn_sysfs_gpu *g = l->gpu;
	uint64_t past_ns = l->now_ns - g->power_ns;

	if (microwatts == ZN_NOT_KNOWN || microwatts > 10000ULL * 1000000)
		return;
	zn_reading_set(l->to, ZN_FIGURE_POWER, microwatts / 1000);
	if (g->counts)
		return;
	if (g->power_ns && past_ns < GAP_NS)
		g->energy_uj += (uint64_t)((double)microwatts * (double)past_ns / 1e9);
	g->power_ns = l->now_ns;
	zn_reading_set(l->to, ZN_FIGURE_ENERGY, g->energy_uj / 1000);
}

static void read_hwmon(struct look *l)
{
	static const struct {
		enum zn_figure figure;
		const char *name;
		uint64_t times, divided;
	} files[] = {{ZN_FIGURE_TEMPERATURE, "temp1_input", 1, 1}, {ZN_FIGURE_HOTSPOT, "temp2_input", 1, 1},
		{ZN_FIGURE_MEMORY_TEMPERATURE, "temp3_input", 1, 1}, {ZN_FIGURE_CLOCK, "freq1_input", 1, 1},
		{ZN_FIGURE_MEMORY_CLOCK, "freq2_input", 1, 1}, {ZN_FIGURE_POWER_LIMIT, "power1_cap", 1, 1000},
		{ZN_FIGURE_ENERGY, "energy1_input", 1, 1000}};
	bool amd = !strcmp(l->gpu->driver, "amdgpu");
	uint64_t v;

	if (!l->gpu->hwmon[0])
		return;
	for (size_t i = 0; i < ZN_LEN(files); i++) {
		/* the second and third sensors of other drivers are of something else */
		if (!amd && (files[i].figure == ZN_FIGURE_HOTSPOT || files[i].figure == ZN_FIGURE_MEMORY_TEMPERATURE))
			continue;
		v = number_below(l, l->gpu->hwmon, files[i].name);
		l->gpu->counts |= files[i].figure == ZN_FIGURE_ENERGY && v != ZN_NOT_KNOWN;
		set_known(l->to, files[i].figure, v == ZN_NOT_KNOWN ? v : v / files[i].divided);
	}
	v = number_below(l, l->gpu->hwmon, "power1_average");
	sum_power(l, v != ZN_NOT_KNOWN ? v : number_below(l, l->gpu->hwmon, "power1_input"));
}

static void read_amd(struct look *l)
{
	uint64_t busy = number_in(l->s, l->device, l->gpu->pci, "gpu_busy_percent");

	if (busy <= 100)
		zn_reading_set(l->to, ZN_FIGURE_UTILIZATION, busy * 10000);
	set_known(l->to, ZN_FIGURE_VRAM_USED, number_in(l->s, l->device, l->gpu->pci, "mem_info_vram_used"));
	set_known(l->to, ZN_FIGURE_VRAM_TOTAL, number_in(l->s, l->device, l->gpu->pci, "mem_info_vram_total"));
	if (read_text(l->s, l->device, l->gpu->pci, "ras/umc_err_count")) {
		set_known(l->to, ZN_FIGURE_ECC_CORRECTED, number_at("\nce: ", 0));
		set_known(l->to, ZN_FIGURE_ECC_UNCORRECTED, number_at("\nue: ", 0));
	}
}

static void read_intel(struct look *l)
{
	static const struct {
		const char *name;
		enum zn_throttle reason;
	} reasons[] = {{"throttle_reason_pl1", ZN_THROTTLE_POWER}, {"throttle_reason_pl2", ZN_THROTTLE_POWER},
		{"throttle_reason_pl4", ZN_THROTTLE_POWER}, {"throttle_reason_thermal", ZN_THROTTLE_THERMAL},
		{"throttle_reason_prochot", ZN_THROTTLE_HARDWARE}};
	char gt[96];
	uint64_t v, mask = 0;
	bool any = false;

	if (!l->gpu->card[0])
		return;
	snprintf(gt, sizeof(gt), "%s/gt/gt0", l->gpu->card);
	set_known(l->to, ZN_FIGURE_CLOCK, times_of(number_below(l, gt, "rps_act_freq_mhz"), 1000000));
	for (size_t i = 0; i < ZN_LEN(reasons); i++) {
		v = number_below(l, gt, reasons[i].name);
		any |= v != ZN_NOT_KNOWN;
		mask |= (uint64_t)(v == 1) << reasons[i].reason;
	}
	if (any)
		zn_reading_set(l->to, ZN_FIGURE_THROTTLE, mask);
	if (!strcmp(l->gpu->driver, "xe"))
		set_known(l->to, ZN_FIGURE_CLOCK,
			times_of(number_in(l->s, l->device, l->gpu->pci, "tile0/gt0/freq0/act_freq"), 1000000));
}

#define SLOW_FIGURES                                                                                                   \
	(((1ULL << ZN_FIGURE_COUNT) - 1) & ~((1ULL << ZN_FIGURE_LINK_SPEED) - 1) & ~(1ULL << ZN_FIGURE_SUSPENDED))

/* Its folder is there. */
static void look_inside(struct look *l, bool slow)
{
	if (is_asleep(l))
		return;
	if (slow && !l->gpu->is_virtual) /* a part of another device reads as ones there (SR-IOV 3.4.1) */
		read_presence(l);
	if (l->gpu->lost) {
		l->to->known = 1ULL << ZN_FIGURE_LOST;
		return;
	}
	if (slow)
		read_slow(l);
	if (!strcmp(l->gpu->driver, "amdgpu"))
		read_amd(l);
	else if (strcmp(l->gpu->driver, "nvidia"))
		read_intel(l);
	read_hwmon(l);
}

/* A virtual function comes and goes as the one that it belongs to is told. */
static bool is_virtual(int devices, const char *pci)
{
	char path[64], target[8];

	snprintf(path, sizeof(path), "%.16s/physfn", pci);
	return readlinkat(devices, path, target, sizeof(target)) >= 0;
}

/* The link to a driver goes before the driver does, which may wait for who uses the GPU: one that reads as ones then
 * was not given back. */
static void look_for_driver(struct look *l, int devices)
{
	bool driven = driver_of(devices, l->gpu->pci) != NULL;

	if (!driven && l->gpu->driven) {
		l->gpu->lost = false;
		if (!l->gpu->is_virtual && !is_asleep(l))
			read_presence(l);
	}
	l->gpu->driven = driven || l->gpu->lost;
}

static void look_at_gpu(struct zn_sysfs *s, uint32_t i, int devices, uint64_t now_ns)
{
	struct look l = {s, &s->gpu[i], &s->seen.gpu[i], open_folder(devices, s->gpu[i].pci), now_ns};
	bool slow = s->rounds % SLOW_ROUNDS == 0, gone = l.device < 0 && errno == ENOENT;

	l.to->known = slow || l.device < 0 ? 0 : l.to->known & SLOW_FIGURES;
	if (gone && l.gpu->driven && !l.gpu->is_virtual) {
		l.gpu->lost = true;
		zn_reading_set(l.to, ZN_FIGURE_LOST, 1);
	}
	if (l.device < 0)
		return;
	if (slow)
		l.gpu->is_virtual = is_virtual(devices, l.gpu->pci);
	look_for_driver(&l, devices);
	if (l.gpu->driven)
		look_inside(&l, slow);
	else
		l.to->known = 0, l.gpu->lost = false;
	close(l.device);
}

/* ---- energy of the node ---- */

static void add_zone(struct zn_sysfs *s, const struct zn_sysfs_zone *zone)
{
	for (uint32_t i = 0; i < s->zone_count; i++)
		if (!strcmp(s->zone[i].path, zone->path))
			return;
	if (s->zone_count < ZN_ZONES_MAX)
		s->zone[s->zone_count++] = *zone;
}

static bool text_begins(const char *with)
{
	return !strncmp(text + 1, with, strlen(with));
}

/* Packages, and the memory below them. Cores are inside of packages; a whole platform counts as the node. */
static void find_rapl(struct zn_sysfs *s, const char *name)
{
	struct zn_sysfs_zone zone = {.unit = 1};
	char path[96];

	if (strncmp(name, "intel-rapl:", 11) || strlen(name) > 40)
		return;
	snprintf(path, sizeof(path), "class/powercap/%s/name", name);
	if (!read_text(s, s->root, "", path))
		return;
	if (text_begins("package-"))
		zone.part = ZN_ENERGY_CPU;
	else if (text_begins("dram"))
		zone.part = ZN_ENERGY_DRAM;
	else if (text_begins("psys"))
		zone.part = ZN_ENERGY_NODE;
	else
		return;
	snprintf(path, sizeof(path), "class/powercap/%s/max_energy_range_uj", name);
	zone.range = number_in(s, s->root, "", path);
	if (zone.range == ZN_NOT_KNOWN)
		return;
	snprintf(zone.path, sizeof(zone.path), "class/powercap/%s/energy_uj", name);
	add_zone(s, &zone);
}

/* Reads a file of a meter. From Linux 6.16 on it is in the folder of hwmon, before in that of its device, where it has
 * its name too (drivers/hwmon/acpi_power_meter.c). */
static bool read_of_meter(struct zn_sysfs *s, const char *name, const char *folder, const char *file)
{
	char path[96];

	snprintf(path, sizeof(path), "class/hwmon/%s%s/%s", name, folder, file);
	return read_text(s, s->root, "", path);
}

/* ACPI's meters of power: of the node, or of what Grace's firmware calls them. */
static void find_meter(struct zn_sysfs *s, const char *name)
{
	struct zn_sysfs_zone zone = {.part = ZN_ENERGY_NODE, .unit = 1, .power = true};
	const char *folder;

	if (strncmp(name, "hwmon", 5) || strlen(name) > 40)
		return;
	if ((!read_of_meter(s, name, "", "name") && !read_of_meter(s, name, "/device", "name")) ||
		!text_begins("power_meter"))
		return;
	folder = read_of_meter(s, name, "", "power1_average") ? "" : "/device";
	if (read_of_meter(s, name, folder, "power1_oem_info") && !text_begins("Module Power")) {
		if (!text_begins("CPU Power"))
			return; /* it is part of another one */
		zone.part = ZN_ENERGY_CPU;
	}
	snprintf(zone.path, sizeof(zone.path), "class/hwmon/%s%s/power1_average", name, folder);
	add_zone(s, &zone);
}

static void find_zones(struct zn_sysfs *s)
{
	static const struct zn_sysfs_zone cray[] = {
		{.path = "cray/pm_counters/energy", .part = ZN_ENERGY_NODE, .unit = 1000000},
		{.path = "cray/pm_counters/cpu_energy", .part = ZN_ENERGY_CPU, .unit = 1000000},
		{.path = "cray/pm_counters/memory_energy", .part = ZN_ENERGY_DRAM, .unit = 1000000}};
	const char *name;
	struct names n;
	bool is_cray = false;

	for (size_t i = 0; i < ZN_LEN(cray); i++)
		if (number_in(s, s->root, "", cray[i].path) != ZN_NOT_KNOWN) {
			add_zone(s, &cray[i]);
			is_cray = true;
		}
	if (is_cray) /* they are of the same parts */
		return;
	begin_names(&n, s->root, "class/powercap");
	while ((name = next_name(&n)))
		find_rapl(s, name);
	begin_names(&n, s->root, "class/hwmon");
	while ((name = next_name(&n)))
		find_meter(s, name);
}

/* A counter that went back has wrapped, if it can; else it was set back. */
static uint64_t counted_since(const struct zn_sysfs_zone *z, uint64_t v)
{
	if (v >= z->last)
		return v - z->last;
	return z->range > z->last ? z->range - z->last + v : v;
}

/* Whether a part has a counter that was read: a meter of it would say the same again. */
static bool is_counted(const struct zn_sysfs *s, enum zn_energy part)
{
	for (uint32_t i = 0; i < s->zone_count; i++)
		if (!s->zone[i].power && s->zone[i].part == part && s->zone[i].last_ns)
			return true;
	return false;
}

static void read_zone(struct zn_sysfs *s, struct zn_sysfs_zone *z, uint64_t now_ns)
{
	uint64_t v = number_in(s, s->root, "", z->path), past_ns = now_ns - z->last_ns, more;

	if (v == ZN_NOT_KNOWN || (z->power && v > 100000ULL * 1000000))
		return;
	if (z->power)
		more = past_ns < GAP_NS ? (uint64_t)((double)v * (double)past_ns / 1e9) : 0;
	else
		more = times_of(counted_since(z, v), z->unit);
	if (z->last_ns && more != ZN_NOT_KNOWN)
		s->seen.energy_uj[z->part] += more;
	s->seen.energy_known |= 1ULL << z->part;
	z->last = v;
	z->last_ns = now_ns;
}

/* ---- ports of InfiniBand and RoCE ---- */

/* A name that may be a label: of a device, or the kind of a link. */
static bool copy_word(char *to, size_t cap, const char *from)
{
	size_t len = strcspn(from, "\n");

	if (!len || len >= cap)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)from[i]) && !strchr("._-", from[i]))
			return false;
	memcpy(to, from, len);
	to[len] = 0;
	return true;
}

static void read_port(struct zn_sysfs *s, int port, const char *shown, struct zn_port_reading *to)
{
	uint64_t v;

	to->active = number_in(s, port, shown, "state") == 4;
	v = read_text(s, port, shown, "rate") ? number_at("\n", 3) : ZN_NOT_KNOWN;
	to->mbit = v < 10000000 ? v : 0;
	if (read_text(s, port, shown, "link_layer"))
		copy_word(to->link, sizeof(to->link), text + 1);
	for (enum zn_port_counter c = 0; c < ZN_PORT_COUNTER_COUNT; c++) {
		v = number_in(s, port, shown, zn_port_file(c));
		if (v == ZN_NOT_KNOWN)
			continue;
		to->value[c] = v;
		to->known |= 1ULL << c;
	}
}

/* Reads the ports of one device. A port is a folder with a number for a name. */
static void read_ports(struct zn_sysfs *s, int devices, const char *device)
{
	struct zn_port_reading to = {0};
	char path[64];
	const char *name;
	struct names n;
	int port;

	if (!copy_word(to.device, sizeof(to.device), device))
		return;
	snprintf(path, sizeof(path), "%s/ports", to.device);
	begin_names(&n, devices, path);
	while ((name = next_name(&n))) {
		if (!isdigit((unsigned char)*name) || strlen(name) > 3)
			continue;
		if (s->seen.port_count == ZN_PORTS_MAX) {
			s->seen.ports_beyond++;
			continue;
		}
		if ((port = open_folder(n.fd, name)) < 0)
			continue;
		s->seen.port[s->seen.port_count] = to;
		s->seen.port[s->seen.port_count].port = (uint32_t)strtoul(name, NULL, 10);
		read_port(s, port, to.device, &s->seen.port[s->seen.port_count++]);
		close(port);
	}
}

static void find_ports(struct zn_sysfs *s, uint64_t now_ns)
{
	int devices = open_folder(s->root, "class/infiniband");
	const char *name;
	struct names n;

	s->seen.port_count = s->seen.ports_beyond = 0;
	s->seen.ports_round = now_ns;
	if (devices < 0)
		return;
	begin_names(&n, devices, ".");
	while ((name = next_name(&n)))
		read_ports(s, devices, name);
	close(devices);
}

/* ---- all of it ---- */

void zn_sysfs_init(struct zn_sysfs *s, int root, struct zn_sysfs_at *at)
{
	*s = (struct zn_sysfs){.root = root, .at = at};
}

void zn_sysfs_round(struct zn_sysfs *s, uint64_t now_ns)
{
	int devices;

	if (s->rounds % FIND_ROUNDS == 0) {
		find_gpus(s);
		find_zones(s);
	}
	devices = s->seen.count ? open_folder(s->root, "bus/pci/devices") : -1;
	for (uint32_t i = 0; i < s->seen.count; i++)
		look_at_gpu(s, i, devices, now_ns);
	if (devices >= 0)
		close(devices);
	for (uint32_t i = 0; i < s->zone_count; i++)
		if (!s->zone[i].power || !is_counted(s, s->zone[i].part))
			read_zone(s, &s->zone[i], now_ns);
	if (s->rounds % SLOW_ROUNDS == 0)
		find_ports(s, now_ns);
	s->rounds++;
	s->seen.round_ns = now_ns;
}
