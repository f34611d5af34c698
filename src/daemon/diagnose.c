/* SPDX-License-Identifier: GPL-2.0 */
/*
 * diagnose.c: --check and --list-probes: what would work on this machine, and which functions are hooked.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "zernel.h"

static void check_bias(const struct zn_probe *p)
{
	for (enum zn_insn i = 0; i < ZN_INSN_COUNT; i++)
		if (p->bias[i].samples)
			printf("%-14s %.2f us are taken out of a call (10th to 90th per cent: %.2f to %.2f us), which costs %.2f us in all; "
			       "on: %s\n",
				i ? "" : "probe bias", p->bias[i].p50_ns / 1e3, p->bias[i].p10_ns / 1e3,
				p->bias[i].p90_ns / 1e3, p->bias[i].call_ns / 1e3, zn_insn_label(i));
}

static bool kernel_check(const struct zn_diagnosis *d)
{
	const struct zn_kernel *k = &d->probe->kernel;
	bool missing = false;

	for (enum zn_family f = ZN_FAMILY_COUNT; f < ZN_FAM_ALL; f++) {
		bool has = k->method[f] != ZN_METHOD_NONE;

		if (has)
			printf("%-14s ok, by %s%s%s\n", zn_family_label(f), zn_method_label(k->method[f]),
				k->why[f][0] ? "; not all of it: " : "", k->why[f]);
		else if (k->why[f][0])
			printf("%-14s %s\n", zn_family_label(f), k->why[f]);
		missing |= !has && k->why[f][0] && d->options->families >> f & 1;
	}
	return missing;
}

/* Whether the libraries' families can be had; any: whether one can. */
static bool families_check(const struct zn_diagnosis *d, bool *any)
{
	bool missing = false;

	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		printf("%-14s %s\n", zn_family_label(f), d->probe->available[f] ? "ok" : d->probe->why[f]);
		*any |= d->probe->available[f];
		missing |= !d->probe->available[f] && d->options->families >> f & 1;
	}
	return missing;
}

static void libraries_check(struct zn_diagnosis *d, bool any)
{
	static const char *const way[] = {
		[ZN_METHOD_UPROBE] = "one perf event per function: detaching is slow on this kernel (before 6.6)",
		[ZN_METHOD_UPROBE_MULTI] = "one multi-uprobe link per library and program",
		[ZN_METHOD_UPROBE_SESSION] =
			"one session per library and family: the timing of launches can be spared"};
	struct zn_find *find = NULL;

	if (any)
		printf("%-14s %s\n", "attaching", way[zn_probe_method(d->probe)]);
	if (zn_find_open(&find, d->probe, d->options) == 0)
		printf("%-14s %s\n", "new libraries",
			zn_find_by_events(find) ? "by mapping events"
						: "by scanning /proc: mapping events are refused");
	zn_find_close(find);
}

static void log_check(struct zn_diagnosis *d)
{
	char why[ZN_TEXT_MAX];
	int err = d->options->kmsg[0] ? zn_xids_open(d->xids, d->options->kmsg) : 0;

	zn_xids_why(d->options->kmsg, err, why);
	printf("%-14s %s\n", "errors of GPUs",
		!d->options->kmsg[0] ? "none: --kmsg none"
			: err        ? why
				     : "ok, of the kernel's log");
	zn_xids_close(d->xids);
}

/* The process that makes connections, if there is anybody to tell: whether it can be started. */
static bool sender_check(struct zn_diagnosis *d)
{
	char why[ZN_TEXT_MAX];
	int err = zn_sender_open(d->sender, d->options, why);

	if (err || d->sender->worker.fd >= 0)
		printf("%-14s %s\n", "connections", err ? why : "ok, by a process of nobody");
	zn_sender_close(d->sender);
	return err && zn_sender_wanted(d->options);
}

/* Limits this process to what the service has, if there is one. */
static void limits_check(const struct zn_service *service)
{
	char said[ZN_TEXT_MAX];

	if (!service->there)
		return;
	zn_service_limit(service, said);
	printf("%-14s %s\n", "limits", said);
}

#define MIB (1024.0 * 1024)

/* The first line is what a script reads. */
static void check_tables(const struct zn_probe *p)
{
	struct zn_map_bytes b = zn_bpf_map_bytes(p);

	printf("%-14s %.1f MiB in the kernel, %.1f when all are full\n", "tables", b.now / MIB, b.most / MIB);
	printf("%-14s histograms %.1f, processes %.1f, threads %.1f, GPU memory and NCCL %.1f, jobs %.1f, files %.1f, stacks %.1f, other %.1f\n",
		"", b.group[ZN_MAPS_HISTOGRAMS] / MIB, b.group[ZN_MAPS_PROCESSES] / MIB, b.group[ZN_MAPS_THREADS] / MIB,
		b.group[ZN_MAPS_LEDGER] / MIB, b.group[ZN_MAPS_JOBS] / MIB, b.group[ZN_MAPS_FILES] / MIB,
		b.group[ZN_MAPS_STACKS] / MIB, b.group[ZN_MAPS_OTHER] / MIB);
	printf("%-14s for %u CPUs: %u threads of processes that call a hooked library, %u that call it, one user half of them\n",
		"", p->cpus, p->sizes.sched_entries, p->sizes.threads);
}

/* Says family by family what this kernel and machine allow the service; 1 if something that was asked for cannot
 * be had. */
int zn_diagnose_node(struct zn_diagnosis *d, const struct zn_service *service)
{
	struct utsname name = {0};
	bool missing, any = false;
	char why[ZN_TEXT_MAX];

	printf("%-14s %s %s\n", "version", zn_version, zn_commit);
	uname(&name);
	printf("%-14s %s\n", "kernel", name.release);
	limits_check(service);
	missing = sender_check(d);
	if (zn_probe_files(why) ||
		zn_probe_open(
			d->probe, zn_probe_families(d->options), d->options->method, d->options->table_cpus, why)) {
		printf("%-14s %s\n", "nothing", why);
		return EXIT_FAILURE;
	}
	zn_probe_load(d->probe);
	missing |= families_check(d, &any);
	missing |= kernel_check(d);
	printf("%-14s %s\n", "job", d->probe->job ? "ok" : d->probe->job_why);
	missing |= !d->probe->job;
	libraries_check(d, any);
	log_check(d);
	check_bias(d->probe);
	check_tables(d->probe);
	zn_probe_close(d->probe);
	return missing ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Where the probes of one library go, and what stands there. */
static void list_places(void *to, const char *path, bool root_only)
{
	struct zn_probe *p = to;
	struct zn_lib lib = {.kind = zn_library_kind(path, strlen(path)), .fd = open(path, O_RDONLY | O_CLOEXEC)};
	struct stat st;

	if (lib.fd < 0 || fstat(lib.fd, &st) || (root_only && st.st_uid != ZN_OWNER_ROOT)) {
		zn_fd_close(&lib.fd);
		return;
	}
	zn_attach_read(p, &lib, ZN_ELF_BUDGET);
	printf("\n%s%s%s\n", path, lib.why[0] ? ": " : "", lib.why);
	for (uint32_t i = 0; i < p->hook_count; i++) {
		const struct zn_entry *place = zn_attach_place(i);

		if (place)
			printf("%-12s %-32s +%-4u %s\n", zn_family_label(p->hook[i].family), p->hook[i].name, place->at,
				zn_insn_label(place->first));
		else if (zn_hook_fits(&p->hook[i], lib.kind))
			printf("%-12s %-32s missing\n", zn_family_label(p->hook[i].family), p->hook[i].name);
	}
	zn_fd_close(&lib.fd);
}

int zn_diagnose_probes(struct zn_diagnosis *d)
{
	zn_hooks_fill(d->probe);
	for (uint32_t i = 0; i < d->probe->hook_count; i++)
		printf("%-12s %s%s\n", zn_family_label(d->probe->hook[i].family), d->probe->hook[i].name,
			d->probe->hook[i].flags & ZN_HOOK_ENTRY_ONLY ? " (entry only)" : "");
	zn_kernel_table(&d->probe->kernel);
	for (uint32_t i = 0; i < d->probe->kernel.point_count; i++) {
		const struct zn_attach_point *s = &d->probe->kernel.point[i];

		if (i && strcmp(s[-1].place, s->place) == 0 && s[-1].method == s->method && s[-1].family == s->family)
			continue; /* its entry and its return */
		printf("%-12s %s (kernel, %s)\n", zn_family_label(s->family), s->place, zn_method_label(s->method));
	}
	d->probe->multi = true; /* all that there are */
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
		d->probe->available[f] = d->options->families >> f & 1;
	zn_system_libraries(d->options, list_places, d->probe);
	return EXIT_SUCCESS;
}
