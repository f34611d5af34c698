/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sample.c: the process that asks NVML. Each second what changes fast, each ten seconds the rest, of one GPU after
 * another, as the library takes the driver's lock for each call. What a GPU or its driver does not know is asked
 * for again after ten minutes alone; a GPU that is lost after half a minute. A figure whose call failed is left
 * out, and never 0.
 *
 * Limits: a call may hang for good: then so does this process, and the other one says so. Of MIG instances there is
 * their memory alone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu.h"
#include "zernel-gpu.h"

#define SLOW_ROUNDS 10
#define FIND_ROUNDS 60
#define REST_ROUNDS 600 /* after "not supported" and the like */
#define LOST_ROUNDS 30

static struct nvml nvml;
static struct gpu gpus[GPUS_MAX];
static unsigned gpu_count, rounds;
static char driver[80];
static struct watch *watch;
static struct message message;

static void set_figure(struct gpu *g, enum figure f, unsigned long long v)
{
	g->known |= 1ULL << f;
	g->value[f] = v;
}

static void drop_figure(struct gpu *g, enum figure f)
{
	g->known &= ~(1ULL << f);
}

static bool has_figure(const struct gpu *g, enum figure f)
{
	return g->known >> f & 1;
}

/* ---- What is asked for. Each step returns what the library did. A function that is not there is "not found". ---- */

static int read_use(struct gpu *g)
{
	struct nvml_use use = {0};
	int result = nvml.use ? nvml.use(g->device, &use) : NVML_FUNCTION_NOT_FOUND;

	drop_figure(g, F_utilization);
	if (!result && use.gpu <= 100)
		set_figure(g, F_utilization, use.gpu * 10000ULL);
	return result;
}

/* The newer one leaves out what the driver keeps for itself. */
static int read_memory(struct gpu *g)
{
	struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
	struct nvml_memory v1 = {0};
	int result = nvml.memory_v2 ? nvml.memory_v2(g->device, &v2) : NVML_FUNCTION_NOT_FOUND;

	if (result && nvml.memory) {
		result = nvml.memory(g->device, &v1);
		v2.used = v1.used;
		v2.total = v1.total;
	}
	drop_figure(g, F_vram_used_bytes);
	drop_figure(g, F_vram_total_bytes);
	if (!result && v2.total) {
		set_figure(g, F_vram_used_bytes, v2.used);
		set_figure(g, F_vram_total_bytes, v2.total);
	}
	return result;
}

static int read_number(struct gpu *g, int (*from)(nvml_device, unsigned *), enum figure f, unsigned long long times)
{
	unsigned v = 0;
	int result = from ? from(g->device, &v) : NVML_FUNCTION_NOT_FOUND;

	drop_figure(g, f);
	if (!result)
		set_figure(g, f, v * times);
	return result;
}

static int read_power(struct gpu *g)
{
	return read_number(g, nvml.power, F_power_watts, 1);
}

static int read_power_limit(struct gpu *g)
{
	return read_number(g, nvml.power_limit, F_power_limit_watts, 1);
}

static int read_replays(struct gpu *g)
{
	return read_number(g, nvml.replays, F_pcie_replays, 1);
}

static int read_long(struct gpu *g, int (*from)(nvml_device, unsigned long long *), enum figure f)
{
	unsigned long long v = 0;
	int result = from ? from(g->device, &v) : NVML_FUNCTION_NOT_FOUND;

	drop_figure(g, f);
	if (!result)
		set_figure(g, f, v);
	return result;
}

static int read_energy(struct gpu *g)
{
	return read_long(g, nvml.energy, F_energy_joules);
}

static int read_throttle(struct gpu *g)
{
	return read_long(g, nvml.throttle, F_throttle_reasons);
}

/* A function that has a number of what is asked for before the answer. */
static int read_which(struct gpu *g, int (*from)(nvml_device, unsigned, unsigned *), unsigned which, enum figure f,
	unsigned long long times)
{
	unsigned v = 0;
	int result = from ? from(g->device, which, &v) : NVML_FUNCTION_NOT_FOUND;

	drop_figure(g, f);
	if (!result)
		set_figure(g, f, v * times);
	return result;
}

static int read_temperature(struct gpu *g)
{
	return read_which(g, nvml.temperature, NVML_TEMPERATURE_GPU, F_temperature_celsius, 1000);
}

static int read_clock(struct gpu *g)
{
	return read_which(g, nvml.clock, NVML_CLOCK_SM, F_clock_hertz, 1000000);
}

static int read_memory_clock(struct gpu *g)
{
	return read_which(g, nvml.clock, NVML_CLOCK_MEMORY, F_memory_clock_hertz, 1000000);
}

static int read_ecc(struct gpu *g, unsigned kind, enum figure f)
{
	unsigned long long v = 0;
	int result = nvml.ecc ? nvml.ecc(g->device, kind, NVML_ECC_SINCE_LOADED, &v) : NVML_FUNCTION_NOT_FOUND;

	drop_figure(g, f);
	if (!result)
		set_figure(g, f, v);
	return result;
}

static int read_corrected(struct gpu *g)
{
	return read_ecc(g, NVML_ECC_CORRECTED, F_ecc_corrected);
}

static int read_uncorrected(struct gpu *g)
{
	return read_ecc(g, NVML_ECC_UNCORRECTED, F_ecc_uncorrected);
}

static int read_remapped(struct gpu *g)
{
	unsigned v[4] = {0};
	int result = nvml.remapped ? nvml.remapped(g->device, &v[0], &v[1], &v[2], &v[3]) : NVML_FUNCTION_NOT_FOUND;

	for (unsigned i = 0; i < 4; i++) {
		drop_figure(g, F_remapped_correctable + i);
		if (!result)
			set_figure(g, F_remapped_correctable + i, v[i]);
	}
	return result;
}

static int read_mig_mode(struct gpu *g)
{
	unsigned now = 0, later = 0;
	int result = nvml.mig_mode ? nvml.mig_mode(g->device, &now, &later) : NVML_FUNCTION_NOT_FOUND;

	drop_figure(g, F_mig);
	if (!result)
		set_figure(g, F_mig, now != 0);
	return result;
}

/* False: it has no whole number that is not below 0. */
static bool field_number(const struct nvml_field *f, unsigned long long *to)
{
	switch (f->type) {
	case NVML_TYPE_U32: *to = f->value.u32; return true;
	case NVML_TYPE_ULONG:
	case NVML_TYPE_U64: *to = f->value.u64; return true;
	case NVML_TYPE_S64: *to = (unsigned long long)f->value.s64; return f->value.s64 >= 0;
	case NVML_TYPE_S32: *to = (unsigned long long)f->value.s32; return f->value.s32 >= 0;
	default: return false;
	}
}

struct wanted {
	unsigned id, scope;
	enum figure figure;
	unsigned long long times;
};

static int read_fields(struct gpu *g, const struct wanted *w, unsigned count)
{
	struct nvml_field field[4] = {{0}};
	unsigned long long v;
	int result;

	for (unsigned i = 0; i < count; i++) {
		field[i].id = w[i].id;
		field[i].scope = w[i].scope;
		field[i].result = NVML_NOT_SUPPORTED;
	}
	result = nvml.fields ? nvml.fields(g->device, (int)count, field) : NVML_FUNCTION_NOT_FOUND;
	for (unsigned i = 0; i < count; i++) {
		drop_figure(g, w[i].figure);
		if (!result && !field[i].result && field_number(&field[i], &v))
			set_figure(g, w[i].figure, v * w[i].times);
	}
	return result;
}

static int read_fast_fields(struct gpu *g)
{
	static const struct wanted w[] = {{NVML_MEMORY_TEMPERATURE, 0, F_memory_celsius, 1000},
		{NVML_NVLINK_SENT, NVML_ALL_LINKS, F_nvlink_sent_bytes, 1024},
		{NVML_NVLINK_RECEIVED, NVML_ALL_LINKS, F_nvlink_received_bytes, 1024}};

	return read_fields(g, w, 3);
}

static int read_retired(struct gpu *g)
{
	static const struct wanted w[] = {
		{NVML_RETIRED_SBE, 0, F_retired_correctable, 1}, {NVML_RETIRED_DBE, 0, F_retired_uncorrectable, 1}};

	return read_fields(g, w, 2);
}

/* The library looks at a counter twice for it, 20 ms apart, so it is asked only where there is no GPM. */
static int read_pcie_sent(struct gpu *g)
{
	if (g->sampled)
		return NVML_OK;
	return read_which(g, nvml.throughput, NVML_PCIE_SENT, F_pcie_sent_bytes_per_second, 1000);
}

static int read_pcie_received(struct gpu *g)
{
	if (g->sampled)
		return NVML_OK;
	return read_which(g, nvml.throughput, NVML_PCIE_RECEIVED, F_pcie_received_bytes_per_second, 1000);
}

/* ---- GPM ---- */

static int begin_gpm(struct gpu *g)
{
	struct nvml_gpm_support support = {.version = NVML_GPM_VERSION};
	int result = nvml.gpm_support && nvml.gpm_alloc && nvml.gpm_sample && nvml.gpm_metrics
		? nvml.gpm_support(g->device, &support)
		: NVML_FUNCTION_NOT_FOUND;

	if (!result && !support.supported)
		result = NVML_NOT_SUPPORTED;
	for (int i = 0; i < 2 && !result; i++)
		if (!g->sample[i])
			result = nvml.gpm_alloc(&g->sample[i]);
	return result;
}

static int compare_samples(struct gpu *g)
{
	static const struct {
		enum nvml_gpm_id id;
		enum figure figure;
		double times, most;
	} wanted[] = {{NVML_GPM_SM, F_sm_active, 1e4, 100}, {NVML_GPM_TENSOR, F_tensor_active, 1e4, 100},
		{NVML_GPM_DRAM, F_dram_active, 1e4, 100},
		{NVML_GPM_PCIE_SENT, F_pcie_sent_bytes_per_second, 1048576, 1e9},
		{NVML_GPM_PCIE_RECEIVED, F_pcie_received_bytes_per_second, 1048576, 1e9}};
	static struct nvml_gpm_get get;
	const unsigned count = sizeof(wanted) / sizeof(wanted[0]);
	int result;

	get.version = NVML_GPM_VERSION;
	get.count = count;
	get.from = g->sample[0];
	get.to = g->sample[1];
	for (unsigned i = 0; i < count; i++)
		get.metric[i] = (struct nvml_gpm_metric){.id = wanted[i].id, .result = NVML_UNKNOWN};
	result = nvml.gpm_metrics(&get);
	for (unsigned i = 0; i < count; i++) {
		const struct nvml_gpm_metric *m = &get.metric[i];

		drop_figure(g, wanted[i].figure);
		if (!result && !m->result && m->value >= 0 && m->value <= wanted[i].most)
			set_figure(g, wanted[i].figure, (unsigned long long)(m->value * wanted[i].times + 0.5));
	}
	return result;
}

static int read_gpm(struct gpu *g)
{
	nvml_sample before = g->sample[0];
	bool compare = g->sampled;
	int result = g->sample[1] ? NVML_OK : begin_gpm(g);

	if (!result && compare) {
		g->sample[0] = g->sample[1];
		g->sample[1] = before;
	}
	if (!result)
		result = nvml.gpm_sample(g->device, g->sample[1]);
	if (!result && compare)
		result = compare_samples(g);
	if (result)
		for (enum figure f = F_sm_active; f <= F_dram_active; f++)
			drop_figure(g, f);
	g->sampled = !result;
	return result;
}

/* ---- Processes and MIG instances ---- */

/* The longest that it has ever been; see struct nvml_process. */
#define LONG_PROCESS 32

/* How long an entry is in this driver: what it did not write still has the pattern. */
static size_t entry_bytes(const unsigned char *buffer, unsigned count)
{
	for (size_t i = count * sizeof(struct nvml_process); i < (size_t)count * LONG_PROCESS; i++)
		if (buffer[i] != 0xa5)
			return LONG_PROCESS;
	return sizeof(struct nvml_process);
}

static int read_processes(struct gpu *g)
{
	static _Alignas(8) unsigned char buffer[PROCESSES_MAX * LONG_PROCESS];
	unsigned count = PROCESSES_MAX;
	struct nvml_process p;
	size_t bytes;
	int result;

	memset(buffer, 0xa5, sizeof(buffer));
	result = nvml.processes ? nvml.processes(g->device, &count, buffer) : NVML_FUNCTION_NOT_FOUND;
	g->process_count = 0;
	if (result)
		return result == NVML_INSUFFICIENT_SIZE ? NVML_OK : result;
	count = count < PROCESSES_MAX ? count : PROCESSES_MAX;
	bytes = entry_bytes(buffer, count);
	for (unsigned i = 0; i < count; i++) {
		memcpy(&p, buffer + i * bytes, sizeof(p));
		if (p.pid && p.bytes != NVML_NO_VALUE)
			g->process[g->process_count++] = (struct process){p.pid, p.bytes};
	}
	return NVML_OK;
}

static bool read_mig(nvml_device device, struct mig *m)
{
	struct nvml_memory memory = {0};

	*m = (struct mig){0};
	if (!nvml.uuid || nvml.uuid(device, m->uuid, sizeof(m->uuid)) || !nvml.memory || nvml.memory(device, &memory))
		return false;
	if (!nvml.gpu_instance || nvml.gpu_instance(device, &m->gpu_instance) || !nvml.compute_instance ||
		nvml.compute_instance(device, &m->compute_instance))
		return false;
	if (!nvml.name || nvml.name(device, m->name, sizeof(m->name)))
		m->name[0] = 0;
	m->used = memory.used;
	m->total = memory.total;
	return true;
}

static int read_migs(struct gpu *g)
{
	unsigned count = 0;
	nvml_device device;
	int result;

	g->mig_count = 0;
	if (!has_figure(g, F_mig) || !g->value[F_mig])
		return NVML_OK;
	result = nvml.mig_count && nvml.mig_handle ? nvml.mig_count(g->device, &count) : NVML_FUNCTION_NOT_FOUND;
	for (unsigned i = 0; !result && i < count && i < MIGS_MAX; i++)
		if (!nvml.mig_handle(g->device, i, &device) && read_mig(device, &g->mig[g->mig_count]))
			g->mig_count++;
	return result;
}

/* ---- Rounds ---- */

static const struct {
	const char *name;
	int (*read)(struct gpu *);
	bool slow;
} steps[] = {
	{"utilization", read_use, false},
	{"memory", read_memory, false},
	{"power", read_power, false},
	{"energy", read_energy, false},
	{"temperature", read_temperature, false},
	{"clock", read_clock, false},
	{"memory clock", read_memory_clock, false},
	{"throttle reasons", read_throttle, false},
	{"field values", read_fast_fields, false},
	{"GPM", read_gpm, false},
	{"power limit", read_power_limit, true},
	{"corrected ECC errors", read_corrected, true},
	{"uncorrected ECC errors", read_uncorrected, true},
	{"remapped rows", read_remapped, true},
	{"retired pages", read_retired, true},
	{"PCIe replays", read_replays, true},
	{"PCIe sent", read_pcie_sent, true},
	{"PCIe received", read_pcie_received, true},
	{"MIG mode", read_mig_mode, true},
	{"MIG instances", read_migs, true},
	{"processes", read_processes, true},
};
#define STEPS (sizeof(steps) / sizeof(steps[0]))
_Static_assert(STEPS <= 32, "a rest each");

static void tell_step(const char *name)
{
	snprintf(watch->step, sizeof(watch->step), "%s", name);
	__atomic_fetch_add(&watch->steps, 1, __ATOMIC_RELAXED);
}

static bool is_lost(int result)
{
	return result == NVML_GPU_IS_LOST || result == NVML_RESET_REQUIRED;
}

static void forget_figures(struct gpu *g)
{
	g->known = 0;
	g->process_count = g->mig_count = 0;
	g->sampled = false;
}

static void read_gpu(struct gpu *g, unsigned index)
{
	bool slow = (rounds + index) % SLOW_ROUNDS == 0 || !g->known;

	if (g->lost_rounds && --g->lost_rounds)
		return;
	for (unsigned i = 0; i < STEPS; i++) {
		int result;

		if (g->rest[i] && --g->rest[i])
			continue;
		if (steps[i].slow && !slow)
			continue;
		tell_step(steps[i].name);
		result = steps[i].read(g);
		if (is_lost(result)) {
			forget_figures(g);
			g->lost_rounds = LOST_ROUNDS;
			return;
		}
		if (result == NVML_NOT_SUPPORTED || result == NVML_NO_PERMISSION || result == NVML_FUNCTION_NOT_FOUND)
			g->rest[i] = REST_ROUNDS;
	}
}

static int identify_gpu(struct gpu *g, unsigned index)
{
	struct nvml_pci pci = {.domain = 0};
	int result = nvml.handle(index, &g->device);

	if (result)
		return result;
	result = nvml.pci ? nvml.pci(g->device, &pci) : NVML_FUNCTION_NOT_FOUND;
	if (result)
		return result;
	snprintf(g->pci, sizeof(g->pci), "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
	if (!nvml.uuid || nvml.uuid(g->device, g->uuid, sizeof(g->uuid)))
		g->uuid[0] = 0;
	if (!nvml.name || nvml.name(g->device, g->name, sizeof(g->name)))
		g->name[0] = 0;
	g->uuid[sizeof(g->uuid) - 1] = g->name[sizeof(g->name) - 1] = 0;
	return NVML_OK;
}

/* A GPU that is lost keeps the name that it had. Below 0: the library cannot go on. */
static int find_gpus(void)
{
	unsigned count = 0;
	int result;

	tell_step("the number of GPUs");
	result = nvml.count(&count);
	if (result)
		return result;
	gpu_count = count < GPUS_MAX ? count : GPUS_MAX;
	for (unsigned i = 0; i < gpu_count; i++) {
		struct gpu *g = &gpus[i];
		char before[sizeof(g->pci)];

		memcpy(before, g->pci, sizeof(before));
		tell_step("identity");
		result = identify_gpu(g, i);
		if (result) {
			forget_figures(g);
			g->lost_rounds = LOST_ROUNDS;
		} else if (strcmp(before, g->pci)) {
			forget_figures(g);
			g->lost_rounds = 0;
			memset(g->rest, 0, sizeof(g->rest));
			memset(g->sample, 0, sizeof(g->sample));
		}
	}
	return NVML_OK;
}

/* False: the other process has gone. */
static bool send_message(int fd)
{
	return send(fd, message.text, message.len, MSG_NOSIGNAL) == (ssize_t)message.len;
}

static bool open_library(const char *path)
{
	void *library;

	tell_step("dlopen");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		char text[160];

		snprintf(text, sizeof(text), "%s", dlerror());
		message_begin(&message, now_ms());
		message_add(&message, "why %s\n", one_line(text));
		return false;
	}
#define X(name, parameters, first, second, third)                                                                      \
	for (int i = 0; i < 3 && !nvml.name; i++) {                                                                    \
		const char *names[] = {first, second, third};                                                          \
                                                                                                                       \
		*(void **)&nvml.name = names[i][0] ? dlsym(library, names[i]) : NULL;                                  \
	}
	NVML_FUNCTIONS(X)
#undef X
	return true;
}

static bool open_nvml(const char *path)
{
	int result;

	if (!open_library(path))
		return false;
	tell_step("nvmlInit");
	result = nvml.init && nvml.count && nvml.handle ? nvml.init() : NVML_FUNCTION_NOT_FOUND;
	if (result) {
		message_set_why(&message, "nvmlInit", result);
		return false;
	}
	if (!nvml.driver || nvml.driver(driver, sizeof(driver)))
		driver[0] = 0;
	return true;
}

static void put_round(void)
{
	message_begin(&message, now_ms());
	if (driver[0])
		message_add(&message, "driver %s\n", one_line(driver));
	for (unsigned i = 0; i < gpu_count; i++)
		read_gpu(&gpus[i], i);
	tell_step("");
	for (unsigned i = 0; i < gpu_count; i++)
		message_add_gpu(&message, &gpus[i], gpu_count);
}

void sample_loop(const char *library, unsigned interval_ms, int fd, struct watch *shared, bool once)
{
	int result = NVML_OK;

	watch = shared;
	if (!open_nvml(library)) {
		send_message(fd);
		return;
	}
	for (rounds = 0; !once || rounds < 2; rounds++) {
		uint64_t begun = now_ms(), took;

		if (rounds % FIND_ROUNDS == 0)
			result = find_gpus();
		if (result) {
			message_set_why(&message, "nvmlDeviceGetCount", result);
			send_message(fd);
			return;
		}
		put_round();
		__atomic_store_n(&watch->initialized, 1, __ATOMIC_RELAXED);
		if ((!once || rounds) && !send_message(fd))
			return;
		took = now_ms() - begun;
		if (took < interval_ms)
			usleep((useconds_t)(interval_ms - took) * 1000);
	}
}
