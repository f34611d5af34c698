/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_text_test.c: a report as people read it (report_text.c): its page and its line, also of reports that are
 * damaged or of another version.
 */
#include "report.h"

static struct zn_io_sums io_sums;

/* One call on a file of its. */
static void on_file(const struct zn_job *job, uint32_t dev, enum zn_io_op op, uint64_t ns, uint64_t bytes)
{
	struct zn_io_key key = {.job = {job->slot, job->serial}, .dev = dev, .op = op};
	struct zn_hist *h = zn_memory_io(&memory, &key, ns);

	if (!h)
		abort();
	h->bytes += bytes;
}

#define FILES (1ULL << ZN_FAM_VFS | 1ULL << ZN_FAM_META)

/* Its files on two mounts, and somebody else's. */
static void files_of(const struct zn_job *job)
{
	zn_io_sums_init(&io_sums, &memory.arena, &jobs);
	zn_mounts_fix(&io_sums.mounts, 40, "/home", "nfs4");
	zn_mounts_fix(&io_sums.mounts, 41, "/scratch/a \x1b[2J", "lustre");
	probe.kernel.method[ZN_FAM_VFS] = probe.kernel.method[ZN_FAM_META] = ZN_METHOD_TRACEPOINT;
	agg.measured |= FILES;
	strcpy(probe.kernel.why[ZN_FAM_VFS], "libaio is not seen");
	view.io_sums = &io_sums;
	for (int i = 0; i < 3; i++)
		on_file(job, 41, ZN_IO_READ, 5000, MIB);
	on_file(job, 41, ZN_IO_WRITE, 7000000, 1009);
	on_file(job, 41, ZN_IO_MMAP, 0, 4096);
	on_file(job, 40, ZN_IO_FSYNC, 20000000, 0);
	on_file(&(struct zn_job){0}, 40, ZN_IO_READ, 5000, 77 * MIB);
}

static const char exact_page[] = "Job 4711, restarted 2 times: say \"hi\"\n"
				 "  user user1000 (uid 1000), account physics, partition short\n"
				 "  on node node7 of cluster main\n"
				 "\n"
				 "CPU efficiency     77 % of 2 CPUs: 5.00s of CPU time in 3.25s\n"
				 "Memory efficiency  57 % of 100M: 57.0M needed at most, 77.0M with cache of files\n"
				 "GPU use            15% of the time of 2 GPUs, 1 unused; at most 1.17K of 80.0K\n"
				 "\n"
				 "  started    2024-02-29 00:16:40 UTC\n"
				 "  ended      2024-02-29 00:16:43 UTC, after 3.25s, exit code 0:15\n"
				 "  processes  2 that used a GPU library\n"
				 "  memory     77.0M at its peak\n"
				 "\n"
				 "GPU                          PEAK       OF  BUSY        BUSY FOR        IDLE FOR\n"
				 "0                           1.17K    80.0K   31%           1.00s           2.25s\n"
				 "1                              0B    80.0K    0%              0s           3.25s\n"
				 "  GPU 0 was allocated and idle for 69 % of the time.\n"
				 "  GPU 1 was allocated and never used.\n"
				 "\n"
				 "Launches     612: 202 kernels, 204 graphs, 206 cooperative\n"
				 "             208 more captured into graphs, 34 failed\n"
				 "             each took p50 4.99us, p99 4.99us, mean 5.00us\n"
				 "Waits        8 for the GPU, 1.50s in all, 38 failed\n"
				 "Its threads  60 % cpu, 30 % gpu, 10 % data\n"
				 "Copies       to the GPU 3.91K, back 3.91K, between GPUs 3.92K, other 3.92K\n"
				 "Allocations  84 of 8.59K in all, 74 freed\n"
				 "  6 allocations failed because the GPU was full.\n"
				 "  4 allocations failed for other reasons.\n"
				 "NCCL         2 communicators set up in 3.00s\n"
				 "\n"
				 "NCCL                CALLS    BYTES   ERRORS         TIME      P50      P99\n"
				 "all_reduce             10    9.85K        2       20.0ms   2.00ms   2.00ms\n"
				 "send                    2      26B        0       6.00ms   2.95ms   2.95ms\n"
				 "\n"
				 "STEP             STARTED                 ENDED                   CPU TIME MEMORY\n"
				 "batch            2024-02-29 00:16:40 UTC -                              -      -\n"
				 "0123456789abcdef 2024-02-29 00:16:40 UTC 2024-02-29 00:16:41 UTC    1.50s  50.0M\n"
				 "\n"
				 "What the job said of itself (zernel annotate)\n"
				 "  after 3 s       epoch=3 (process 7)\n"
				 "  after 3 s       phase= (process 7)\n"
				 "\n"
				 "Alerts that fired\n"
				 "  gpu_oom_warning of 1, 5 times, at first 2024-02-29 00:16:43 UTC\n"
				 "\n"
				 "Lost by the whole node while the job ran\n"
				 "  alloc 23\n"
				 "  report 2\n"
				 "\n"
				 "Not measured\n"
				 "  I/O: not measured by this version\n";

/* Beyond what every_figure has. The figures of the files, a mount in each row. */
static const char exact_io[] =
	"\"io\":[{\"mount\":\"/scratch/a \\u001b[2J\",\"fstype\":\"lustre\",\"read_bytes\":3145728,\"write_bytes\":1009,"
	"\"mapped_bytes\":4096,\"copied_bytes\":0,\"ops\":{"
	"\"read\":{\"count\":3,\"errors\":0,\"seconds\":0.000015,\"p50_us\":4.992,\"p99_us\":4.992},"
	"\"write\":{\"count\":1,\"errors\":0,\"seconds\":0.007,\"p50_us\":6946.816,\"p99_us\":6946.816},"
	"\"mmap\":{\"count\":1,\"errors\":0,\"seconds\":0,\"p50_us\":0,\"p99_us\":0}}},"
	"{\"mount\":\"/home\",\"fstype\":\"nfs4\",\"read_bytes\":0,\"write_bytes\":0,\"mapped_bytes\":0,\"copied_bytes\":0,"
	"\"ops\":{\"fsync\":{\"count\":1,\"errors\":0,\"seconds\":0.02,\"p50_us\":18350.08,\"p99_us\":18350.08}}}]";

static const char exact_files[] = "FILES ON                 TYPE         READ  WRITTEN     CALLS   FAILED      P99\n"
				  "/scratch/a ?[2J          lustre      3.00M    0.99K         5        0   6.95ms\n"
				  "/home                    nfs4           0B       0B         1        0   18.4ms\n";

T(files)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	files_of(job);
	for (int ended = 0; ended < 2; ended++) {
		got = report(job);
		CHECK(strstr(text, exact_io));
		CHECK(strstr(text, "{\"what\":\"some I/O\",\"why\":\"libaio is not seen\"}"));
		CHECK(!strstr(text, "\"what\":\"I/O\""));
		CHECK(strstr(page_of(got), exact_files));
		CHECK(strstr(line_of(got), " nccl=9.88K read=3.00M written=0.99K oom=6"));
		if (!ended)
			finish();
	}
	probe.kernel.method[ZN_FAM_VFS] = probe.kernel.method[ZN_FAM_META] =
		ZN_METHOD_NONE; /* no longer measured: null, not 0 */
	agg.measured &= ~FILES;
	got = report(job);
	check_is(got, "io", "null");
	CHECK(!strstr(page_of(got), "FILES ON"));
	CHECK(strstr(line_of(got), " read=- written=- "));
}

/* Its share was used up: null, not 0, and said. */
T(files_beyond_its_share)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	files_of(job);
	zn_arena_job(&memory.arena, job->slot)->io_lost[ZN_IO_WRITE] = 7;
	got = report(job);
	check_is(got, "io_lost", "[\"write\"]");
	CHECK(strstr(text, "{\"mount\":\"/home\",\"fstype\":\"nfs4\",\"read_bytes\":0,\"write_bytes\":null,"));
	CHECK(strstr(text, "\"read_bytes\":3145728,\"write_bytes\":1009,")); /* counted from the first one on */
	CHECK(strstr(text, "{\"what\":\"some I/O\",\"why\":\"more pairs of a mount and an operation than its share, "));
	CHECK(strstr(
		page_of(got), "/home                    nfs4           0B        -         -        -   18.4ms\n"));
	CHECK(strstr(page_of(got), "some I/O: more pairs of a mount and an operation than its share"));
	CHECK(strstr(line_of(got), " read=3.00M written=- "));
}

/* It had too many under way at one time: nothing of that operation is whole, on no mount. */
T(files_beyond_what_is_followed)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	files_of(job);
	zn_arena_job(&memory.arena, job->slot)->io_missed[ZN_IO_WRITE] = 1;
	got = report(job);
	check_is(got, "io_lost", "[\"write\"]");
	CHECK(strstr(text, "\"read_bytes\":3145728,\"write_bytes\":null,"));
	CHECK(strstr(text, "{\"what\":\"some I/O\",\"why\":\"more file operations under way at one time than "));
	CHECK(!strstr(text, "more pairs of a mount"));
	CHECK(strstr(line_of(got), " read=3.00M written=- "));
}

/* It did nothing to files, and that is known. */
T(no_files)
{
	struct zn_job *job;

	start();
	job = busy_job();
	zn_io_sums_init(&io_sums, &memory.arena, &jobs);
	probe.kernel.method[ZN_FAM_VFS] = ZN_METHOD_FENTRY;
	agg.measured |= 1ULL << ZN_FAM_VFS;
	view.io_sums = &io_sums;
	check_is(report(job), "io", "[]");
	CHECK(strstr(line_of(report(job)), " read=0B written=0B "));
}

static const char exact_line[] =
	"cpu_eff=77% mem_eff=57% gpus=2 gpu_peak=1.17K/80.0K gpu_busy=15% gpu_unused=1 mem_peak=77.0M launches=612 "
	"p99=4.99us sync=1.50s nccl=9.88K read=- written=- oom=6 lost=25";

static const struct {
	const char *name, *json, *lines, *line; /* what a page has behind the efficiencies, and what a line has */
} energies[] = {
	{"an older version", "", "\n\n  started", " gpu_unused=0 mem_peak"},
	{"nothing counts it", ",\"energy_joules\":{\"cpu\":null,\"dram\":null,\"node\":null,\"gpu\":null}",
		"\nEnergy             nothing on this node counts it\n", " gpu_unused=0 mem_peak"},
	{"CPUs alone", ",\"energy_joules\":{\"cpu\":3599.4,\"dram\":null,\"node\":null,\"gpu\":null}",
		"\nEnergy, estimated  CPUs 3599 J\n", " gpu_unused=0 energy_cpu=3599J mem_peak"},
	{"all", ",\"energy_joules\":{\"cpu\":0,\"dram\":1,\"node\":3600000,\"gpu\":72000}",
		"\nEnergy, estimated  GPUs 0.02 kWh, CPUs 0 J, memory 1 J, node 1 kWh\n",
		" gpu_unused=0 energy_gpu=0.02kWh energy_node=1kWh energy_cpu=0J mem_peak"},
	{"impossible", ",\"energy_joules\":{\"cpu\":-1,\"gpu\":1e300}", "\nEnergy, estimated  GPUs -, CPUs -\n",
		" gpu_unused=0 energy_gpu=- energy_cpu=- mem_peak"},
};

T(energy)
{
	char json[1024];

	for (size_t i = 0; i < ZN_LEN(energies); i++) {
		t_begin(energies[i].name);
		snprintf(json, sizeof(json), "{\"cpu\":{\"efficiency\":0.5},\"memory\":{},\"gpus\":[]%s}",
			energies[i].json);
		CHECK(strstr(page_of((struct zn_str){json, strlen(json)}), energies[i].lines));
		CHECK(strstr(page, "\nGPU use            no GPU was used, or is known to be its own\n"));
		CHECK(strstr(line_of((struct zn_str){json, strlen(json)}), energies[i].line));
	}
}

/* What is asked first is within 200 characters, as long as the figures may be. */
T(the_line_has_the_first_four_in_200)
{
	static const char json[] =
		"{\"cpu\":{\"efficiency\":9.99},\"memory\":{\"efficiency\":9.99},\"gpus\":[{\"gpu_id\":\"0\","
		"\"allocated\":true,\"peak_bytes\":1099511627000,\"total_bytes\":1099511627000,\"busy_seconds\":1,"
		"\"idle_seconds\":0,\"busy_share\":1}],\"energy_joules\":{\"gpu\":3.6e12,\"cpu\":3.6e12,\"node\":3.6e12}}";
	const char *found = strstr(line_of((struct zn_str){json, strlen(json)}), " mem_peak=");

	CHECK(found && found - page <= 200);
}

/* One that is longer than there is room for ends behind a pair, and says that it is not of the whole job. */
T(a_line_that_is_too_long_has_whole_pairs)
{
	static const char json[] =
		"{\"cpu\":{\"efficiency\":9.99},\"memory\":{\"efficiency\":9.99},\"gpus\":[{\"gpu_id\":\"0\","
		"\"allocated\":true,\"peak_bytes\":1099511627000,\"total_bytes\":1099511627000,\"busy_seconds\":1,"
		"\"idle_seconds\":0,\"busy_share\":1}],\"energy_joules\":{\"gpu\":3.6e12,\"cpu\":3.6e12,\"node\":3.6e12},"
		"\"memory_peak_bytes\":1099511627000,\"launches\":{\"count\":1230000000},"
		"\"launch_latency\":{\"p99_us\":12.3},\"sync_wait\":{\"seconds\":86400},\"nccl_init\":{\"calls\":1},"
		"\"nccl\":[{\"bytes\":1e15}],\"io\":[{\"read_bytes\":1e13,\"write_bytes\":1e13}],"
		"\"allocations\":{\"oom\":12},\"lost\":{\"a\":1200},\"measured_since\":\"2024-02-29T00:16:40.000Z\"}";
	const char *line = line_of((struct zn_str){json, strlen(json)}), *last = strrchr(line, ' ');

	CHECK(strlen(line) <= 250);
	CHECK(strstr(line, " measured=partly "));
	CHECK(last && strchr(last, '=') && strchr(last, '=')[1]);
	CHECK(!strstr(line, " lost="));
}

T(as_a_mail)
{
	static const char hostile[] = "{\"job_id\":\"7\",\"name\":\"a\\nBcc: x@y\\r\\n\\r\\n\\u0085\",\"node\":\"n\"}";
	const char *mail = mail_of((struct zn_str){exact, strlen(exact)}), *body = strstr(mail, "\n\n");

	CHECK(!strncmp(mail,
		"Subject: Job 4711 (say \"hi\") on node7: CPU 77%, memory 57%, GPU 15%\n"
		"Auto-Submitted: auto-generated\n",
		strlen("Subject: Job 4711 (say \"hi\") on node7: CPU 77%, memory 57%, GPU 15%\nAuto-Submitted")));
	CHECK(body);
	if (body)
		CHECK_STR(body + 2, exact_page);
	mail = mail_of((struct zn_str){hostile, strlen(hostile)});
	CHECK(!strncmp(mail, "Subject: Job 7 (a?Bcc: x@y", 26));
	CHECK(!strstr(mail, "\nBcc"));
	CHECK_STR(mail_of((struct zn_str){"{", 1}), "");
}

T(as_a_page)
{
	CHECK_STR(page_of((struct zn_str){exact, strlen(exact)}), exact_page);
}

T(as_a_line)
{
	CHECK_STR(line_of((struct zn_str){exact, strlen(exact)}), exact_line);
}

T(the_clients_read_what_is_written)
{
	struct zn_job *job = largest_job();

	CHECK(strlen(page_of(report(job))) > 2000);
	CHECK(strlen(line_of(report(job))) > 100);
}

static void check_plain(const char *all, size_t columns)
{
	while (*all) {
		size_t n = strcspn(all, "\n");

		CHECK(n <= columns);
		for (size_t i = 0; i < n; i++)
			CHECK(all[i] >= ' ' && all[i] <= '~');
		all += n + (all[n] == '\n');
	}
}

/* Files of other versions, of nobody, and of an enemy: always plain text within its width. */
static const struct {
	const char *name, *json, *page, *line; /* what is in them */
} strange[] = {
	{"empty object", "{}", "Job -: -\n",
		"gpus=0 gpu_peak=-/- gpu_busy=- gpu_unused=0 mem_peak=- launches=- p99=- "},
	{"no JSON", "{\"job_id\":", "", ""},
	{"nothing", "", "", ""},
	{"a number", "7", "Job -: -\n", "launches=-"},
	{"a list", "[1,2]", "Job -: -\n", "launches=-"},
	{"of a later version", "{\"report\":99,\"job_id\":\"7\",\"new\":{\"a\":[1]},\"gpus\":[{\"gpu_id\":\"0\"}]}",
		"Job 7: -\n", "gpus=1 gpu_peak=-/- gpu_busy=- gpu_unused=0"},
	{"wrong types",
		"{\"job_id\":{\"a\":1},\"gpus\":{\"a\":7},\"launches\":[1],\"nccl\":\"x\",\"lost\":[1],\"steps\":true}",
		"Job -: -\n", "gpus=1 gpu_peak=-/-"},
	{"control characters", "{\"name\":\"a\\u001b[2Jb\\nJob 1: c\",\"node\":\"\\u009bz\\u202e\"}",
		"Job -: a?[2Jb?Job 1: c\n", "lost=-"},
	{"huge numbers",
		"{\"wall_seconds\":1e300,\"launches\":{\"count\":1e300},\"sync_wait\":{\"seconds\":1e300},"
		"\"gpus\":[{\"gpu_id\":\"0\",\"allocated\":true,\"peak_bytes\":18446744073709551615,"
		"\"total_bytes\":18446744073709551615,\"busy_seconds\":1e308,\"active_seconds\":1e308,\"idle_seconds\":1e308,\"busy_share\":1e9}],"
		"\"nccl_init\":{\"calls\":1},\"nccl\":[{\"bytes\":1e300}],\"lost\":{\"a\":1e300}}",
		"16.0E", "gpu_peak=16.0E/16.0E"},
	{"negative numbers",
		"{\"wall_seconds\":-1,\"launches\":{\"count\":-5},\"launch_latency\":{\"p99_us\":-3},"
		"\"gpus\":[{\"gpu_id\":\"0\",\"allocated\":true,\"busy_seconds\":-1,\"idle_seconds\":-2,\"busy_share\":-3}]}",
		"for - so far", "launches=-"},
	{"a second", "{\"sync_wait\":{\"seconds\":61.5}}", "1 min 1 s in all", "sync=61.5s"},
	{"no time", "{\"sync_wait\":{\"seconds\":0}}", "0s in all", "sync=0s"},
	{"an hour", "{\"sync_wait\":{\"seconds\":7200}}", "2 h 0 min in all", "sync=7200s"},
	{"partly", "{\"measured_since\":\"2024-02-29T00:16:40.000Z\",\"lost\":{}}",
		"since 2024-02-29 00:16:40 UTC only", "gpu_unused=0 measured=partly mem_peak=-"},
	{"NCCL not measured", "{\"nccl_init\":null,\"nccl\":[]}", "", "nccl=-"},
	{"NCCL not used", "{\"nccl_init\":{\"calls\":0},\"nccl\":[]}", "", "nccl=0B"},
	{"I/O not measured", "{\"io\":null}", "", "read=- written=-"},
	{"I/O of a hostile file",
		"{\"io\":[{\"mount\":\"\\u0085\\ud83d\\ude80\",\"read_bytes\":1e300,\"write_bytes\":-5,\"ops\":7},7,null,"
		"{\"ops\":{\"a\":null,\"b\":{\"count\":1e300,\"p99_us\":\"x\"}}}]}",
		"FILES ON", "read=- written=-"},
	{"I/O of two mounts", "{\"io\":[{\"read_bytes\":1024,\"write_bytes\":0},{\"read_bytes\":1024}]}", "1.00K",
		"read=2.00K written=0B"},
	{"cut", "{\"truncated\":true}", "This report was cut", ""},
	{"simulated", "{\"source\":\"simulated\"}", "SIMULATED", ""},
	{"a GPU well used", "{\"gpus\":[{\"gpu_id\":\"0\",\"allocated\":true,\"busy_share\":0.97}]}", " 97%", ""},
};

T(strange_reports)
{
	for (size_t i = 0; i < ZN_LEN(strange); i++) {
		size_t len = strlen(strange[i].json);
		char *block = malloc(len ? len : 1); /* exactly sized */

		t_begin(strange[i].name);
		memcpy(block, strange[i].json, len);
		CHECK(strstr(page_of((struct zn_str){block, len}), strange[i].page));
		check_plain(page, 80);
		CHECK(strstr(line_of((struct zn_str){block, len}), strange[i].line));
		check_plain(page, 250);
		CHECK(!strpbrk(page, "\"'`\\$\n"));
		free(block);
	}
}

/* Any beginning of a report, and one with any byte changed. */
T(damaged_reports)
{
	size_t len = strlen(exact);
	char *block = malloc(len);

	for (size_t i = 0; i < len; i++) {
		memcpy(block, exact, len);
		block[i] ^= 1 + i % 127;
		check_plain(page_of((struct zn_str){block, len}), 80);
		check_plain(line_of((struct zn_str){block, len}), 250);
		check_plain(page_of((struct zn_str){exact, i}), 80);
	}
	free(block);
}

/* A page and a line that do not fit say so, and write nothing past the end. */
T(sheets_at_every_capacity)
{
	struct zn_str json = {exact, strlen(exact)};
	size_t all = strlen(exact_page);

	for (size_t cap = 0; cap <= all; cap++) {
		char *block = malloc(cap ? cap : 1);
		struct zn_out o = {.at = block, .cap = cap};

		zn_report_page(&o, json);
		CHECK_EQ(o.full, cap < all);
		o = (struct zn_out){.at = block, .cap = cap};
		zn_line_report(&o, json);
		CHECK_EQ(o.full, cap < strlen(exact_line));
		free(block);
	}
}

int main(void)
{
	RUN(files);
	RUN(files_beyond_its_share);
	RUN(files_beyond_what_is_followed);
	RUN(no_files);
	RUN(as_a_page);
	RUN(as_a_line);
	energy();
	RUN(the_line_has_the_first_four_in_200);
	RUN(a_line_that_is_too_long_has_whole_pairs);
	RUN(as_a_mail);
	RUN(the_clients_read_what_is_written);
	strange_reports();
	RUN(damaged_reports);
	RUN(sheets_at_every_capacity);
	return t_end();
}
