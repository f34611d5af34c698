/* SPDX-License-Identifier: GPL-2.0 */
/*
 * io_test.c: rows of the arena become figures by job, mount and operation: shards, several devices on one mount, names
 * that come late or change, jobs that end, and everything given back in the end.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"
#include "clock.h"
#include "t.h"

#define HOME 40u
#define DATA 41u

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_jobs jobs;
static struct zn_io_sums io_sums;
static uint32_t hists; /* of both kinds, when nothing is in use */

int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	(void)a, (void)slot, (void)path, (void)why;
	return -ENOENT;
}

static void start(void)
{
	zn_jobs_close(&jobs);
	zn_memory_close(&memory);
	clock_ns = 1000 * ZN_NS_PER_S;
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	CHECK_EQ(zn_jobs_open(&jobs, &agg, NULL), 0);
	zn_io_sums_init(&io_sums, &memory.arena, &jobs);
	zn_mounts_fix(&io_sums.mounts, HOME, "/home", "nfs4");
	hists = memory.hist_count + memory.coarse_count;
}

static uint32_t taken(void)
{
	return hists - memory.hist_count - memory.coarse_count;
}

static void tick(uint32_t s)
{
	clock_ns += s * ZN_NS_PER_S;
	zn_agg_tick(&agg, clock_ns);
	zn_jobs_tick(&jobs, clock_ns);
	zn_io_sums_tick(&io_sums, clock_ns);
}

static struct zn_job_ref job(const char *id)
{
	static struct zn_message m;
	char why[ZN_TEXT_MAX];
	const struct zn_job *told;

	m = (struct zn_message){.verb = ZN_VERB_START};
	strcpy(m.value[ZN_KEY_ID], id);
	CHECK_EQ(zn_jobs_start(&jobs, &m, ZN_JOB_BY_PROLOG, why), 0);
	told = zn_jobs_find(&jobs, id, ZN_UNKNOWN);
	return (struct zn_job_ref){told->slot, told->serial};
}

static void end(const char *id)
{
	struct zn_message m = {.verb = ZN_VERB_END};
	char why[ZN_TEXT_MAX];

	strcpy(m.value[ZN_KEY_ID], id);
	CHECK_EQ(zn_jobs_end(&jobs, &m, why), 0);
}

static void happen(struct zn_job_ref of, uint32_t dev, enum zn_io_op op, uint8_t shard, uint64_t bytes)
{
	struct zn_io_key key = {of, dev, op, shard, {0}};
	struct zn_hist *h = zn_memory_io(&memory, &key, 1000);

	CHECK(h);
	if (h)
		h->bytes += bytes;
}

static const struct zn_io_sum *io_sum(const char *id, const char *point, const char *fstype)
{
	for (uint32_t i = 0; i < io_sums.high; i++) {
		const struct zn_io_sum *f = &io_sums.io_sum[i];
		const char *of = f->used ? zn_io_sum_job(&io_sums, f) : NULL;

		if (of && !strcmp(of, id) && !strcmp(f->point, point) && !strcmp(f->fstype, fstype))
			return f;
	}
	return NULL;
}

static uint64_t bytes(const char *id, const char *point, const char *fstype)
{
	const struct zn_io_sum *f = io_sum(id, point, fstype);

	return f ? zn_io_sum_total(&io_sums, f, ZN_IO_READ).bytes : 0;
}

static uint32_t used(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < io_sums.high; i++)
		n += io_sums.io_sum[i].used;
	return n;
}

/* As model/mounts.c does when a list says so. */
static void rename_to(uint32_t dev, const char *point, const char *fstype, bool another)
{
	struct zn_mount *e = zn_mounts_use(&io_sums.mounts, dev, 0, 0, ZN_OWNER_ROOT);

	strcpy(e->point, point);
	strcpy(e->fstype, fstype);
	e->version = ++io_sums.mounts.version;
	if (another)
		e->cut = e->version;
	e->state = ZN_MOUNT_HOST;
}

static const struct zn_job_ref none;

T(shards_and_operations_add_up)
{
	start();
	for (uint8_t shard = 0; shard < ZN_IO_SHARDS; shard++)
		happen(none, HOME, ZN_IO_READ, shard, 100 + shard);
	happen(none, HOME, ZN_IO_WRITE, 0, 7);
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(used(), 1);
	CHECK_EQ(bytes("", "/home", "nfs4"), 16 * 100 + 120);
	CHECK_EQ(zn_io_sum_total(&io_sums, io_sum("", "/home", "nfs4"), ZN_IO_READ).calls, 16);
	CHECK_EQ(zn_io_sum_total(&io_sums, io_sum("", "/home", "nfs4"), ZN_IO_WRITE).bytes, 7);
	CHECK_EQ(zn_hist_count(zn_io_sum_merge(&io_sums, io_sum("", "/home", "nfs4"), ZN_IO_READ, true)), 16);
	happen(none, HOME, ZN_IO_READ, 3, 1000); /* seen at once, without a tick */
	CHECK_EQ(bytes("", "/home", "nfs4"), 16 * 100 + 120 + 1000);
}

static uint32_t table_reads;

static size_t count_reads(struct zn_arena *a, struct zn_io_entry *to, size_t cap)
{
	(void)a, (void)to, (void)cap;
	table_reads++;
	return 0;
}

/* A scrape reads it if anything is new, a tick in any case. */
T(the_table_is_read_when_a_series_was_made)
{
	const struct zn_arena_ops *ops;
	struct zn_arena_ops counted;

	start();
	happen(none, HOME, ZN_IO_READ, 0, 5);
	zn_io_sums_refresh(&io_sums);
	ops = memory.arena.ops;
	counted = *ops;
	counted.io = count_reads;
	memory.arena.ops = &counted;
	table_reads = 0;
	happen(none, HOME, ZN_IO_READ, 0, 6);
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(table_reads, 0);
	CHECK_EQ(bytes("", "/home", "nfs4"), 11);
	happen(none, HOME, ZN_IO_WRITE, 0, 7);
	zn_io_sums_refresh(&io_sums);
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(table_reads, 1);
	tick(1);
	CHECK_EQ(table_reads, 2);
	memory.arena.ops = ops;
}

T(rates_are_of_the_last_tick)
{
	const struct zn_io_sum *f;

	start();
	tick(1);
	happen(none, HOME, ZN_IO_READ, 0, 3000);
	happen(none, HOME, ZN_IO_READ, 1, 1000);
	tick(2);
	f = io_sum("", "/home", "nfs4");
	CHECK(f);
	CHECK_EQ(f->op[ZN_IO_READ].byte_rate, 2000);
	CHECK_EQ(f->op[ZN_IO_READ].call_rate, 1000);
	tick(1);
	CHECK_EQ(f->op[ZN_IO_READ].byte_rate, 0);
}

T(two_devices_on_one_mount_are_one_series)
{
	start();
	zn_mounts_fix(&io_sums.mounts, DATA, "/home", "nfs4");
	happen(none, HOME, ZN_IO_READ, 0, 5);
	happen(none, DATA, ZN_IO_READ, 0, 6);
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(used(), 1);
	CHECK_EQ(bytes("", "/home", "nfs4"), 11);
}

T(stacked_mounts_of_two_types_share_durations)
{
	const struct zn_hist *a, *b;

	start();
	zn_mounts_fix(&io_sums.mounts, DATA, "/home", "tmpfs");
	happen(none, HOME, ZN_IO_READ, 0, 5);
	happen(none, DATA, ZN_IO_READ, 0, 6);
	happen(none, DATA, ZN_IO_WRITE, 0, 6);
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(used(), 2);
	CHECK_EQ(bytes("", "/home", "nfs4"), 5);
	CHECK_EQ(bytes("", "/home", "tmpfs"), 6);
	a = zn_io_sum_merge(&io_sums, io_sum("", "/home", "nfs4"), ZN_IO_READ, true);
	CHECK_EQ(a ? a->calls : 0, 2);
	CHECK(!zn_io_sum_merge(&io_sums, io_sum("", "/home", "tmpfs"), ZN_IO_READ, true));
	b = zn_io_sum_merge(&io_sums, io_sum("", "/home", "tmpfs"), ZN_IO_WRITE, true);
	CHECK_EQ(b ? b->calls : 0, 1);
	CHECK_EQ(zn_io_sum_merge(&io_sums, io_sum("", "/home", "nfs4"), ZN_IO_READ, false)->calls, 1);
}

T(a_name_that_comes_late_takes_the_figures_along)
{
	start();
	happen(none, DATA, ZN_IO_READ, 0, 500);
	tick(1);
	CHECK_EQ(bytes("", "unknown:0:41", "unknown"), 500);
	rename_to(DATA, "/data", "ext4", false);
	tick(1);
	CHECK_EQ(bytes("", "/data", "ext4"), 500);
	CHECK_EQ(io_sum("", "/data", "ext4")->op[ZN_IO_READ].byte_rate, 0);
	CHECK(!io_sum("", "unknown:0:41", "unknown"));
	CHECK_EQ(used(), 1);
}

/* Its first bytes may come before the list is read that has it. */
T(a_number_that_is_used_again_is_another_mount)
{
	struct zn_mount *e;

	start();
	happen(none, DATA, ZN_IO_READ, 0, 500);
	rename_to(DATA, "/data", "ext4", false);
	tick(1);
	e = zn_mounts_use(&io_sums.mounts, DATA, 0, 0, ZN_OWNER_ROOT);
	e->state = ZN_MOUNT_GONE;
	e->cut = e->version = ++io_sums.mounts.version;
	tick(1);
	happen(none, DATA, ZN_IO_READ, 0, 30);
	tick(1);
	CHECK_EQ(bytes("", "/data", "ext4"), 530);
	rename_to(DATA, "/other", "ext4", false);
	tick(1);
	CHECK_EQ(bytes("", "/data", "ext4"), 500);
	CHECK_EQ(bytes("", "/other", "ext4"), 30);
}

static void look(void *owner)
{
	(void)owner;
	zn_io_sums_refresh(&io_sums);
}

/* As the daemon has it: the list of mounts is read while figures are looked at, and whoever keeps figures by name looks
 * in it again. Several series of a new device that are found at the same time are each in one chain, once. */
T(names_are_looked_up_while_figures_are_shown)
{
	static const char list[] = "30 1 0:41 / /data rw - ext4 disk rw\n";
	char root[] = "/tmp/zernel-io_sum-XXXXXX", path[64];
	FILE *f;

	start();
	CHECK(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/1", root);
	CHECK_EQ(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/1/mountinfo", root);
	f = fopen(path, "w");
	CHECK(f && fputs(list, f) >= 0 && fclose(f) == 0);
	CHECK_EQ(zn_mounts_open(&io_sums.mounts, NULL, root), 0);
	io_sums.mounts.look = look;
	for (uint8_t shard = 0; shard < 3; shard++)
		happen(none, DATA, ZN_IO_READ, shard, 10);
	happen(none, DATA, ZN_IO_WRITE, 0, 1);
	alarm(20); /* a chain that comes back to itself has no end */
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(bytes("", "/data", "ext4"), 30);
	for (uint8_t shard = 0; shard < 5; shard++)
		happen(none, DATA, ZN_IO_READ, shard, 10);
	tick(1);
	CHECK_EQ(bytes("", "/data", "ext4"), 80);
	CHECK_EQ(used(), 1);
	alarm(0);
	zn_mounts_close(&io_sums.mounts);
	CHECK_EQ(unlink(path), 0);
	*strrchr(path, '/') = 0;
	CHECK_EQ(rmdir(path), 0);
	CHECK_EQ(rmdir(root), 0);
}

T(a_number_that_is_used_again_takes_nothing_along)
{
	start();
	rename_to(DATA, "/a", "ext4", false);
	happen(none, DATA, ZN_IO_READ, 0, 500);
	tick(1);
	rename_to(DATA, "/b", "ext4", true);
	zn_io_sums_refresh(&io_sums);
	happen(none, DATA, ZN_IO_READ, 0, 60);
	tick(1);
	CHECK_EQ(bytes("", "/a", "ext4"), 500);
	CHECK_EQ(bytes("", "/b", "ext4"), 60);
	/* and back: both of /a's are one series */
	rename_to(DATA, "/a", "ext4", true);
	zn_io_sums_refresh(&io_sums);
	happen(none, DATA, ZN_IO_READ, 0, 7);
	tick(1);
	CHECK_EQ(bytes("", "/a", "ext4"), 507);
	CHECK_EQ(bytes("", "/b", "ext4"), 60);
}

T(mounting_again_and_again_costs_a_bounded_number)
{
	start();
	rename_to(DATA, "/a", "ext4", false);
	for (uint32_t i = 0; i < 101; i++) {
		happen(none, DATA, ZN_IO_READ, 0, 3);
		tick(1);
		rename_to(DATA, i % 2 ? "/a" : "/b", "ext4", true);
		tick(1);
	}
	for (uint32_t i = 0; i < 10; i++)
		tick(1);
	CHECK_EQ(bytes("", "/a", "ext4") + bytes("", "/b", "ext4"), 303);
	CHECK_EQ(bytes("", "/b", "ext4"), 150);
	CHECK(taken() <= 2);
}

T(a_job_that_is_forgotten_gives_everything_back)
{
	struct zn_job_ref tag;

	start();
	tag = job("7");
	happen(tag, HOME, ZN_IO_READ, 0, 1000);
	happen(tag, HOME, ZN_IO_OPEN, 0, 0);
	happen(none, HOME, ZN_IO_READ, 0, 1);
	tick(1);
	CHECK_EQ(bytes("7", "/home", "nfs4"), 1000);
	CHECK_EQ(bytes("", "/home", "nfs4"), 1);
	end("7");
	tick(20);
	CHECK_EQ(bytes("7", "/home", "nfs4"), 1000); /* for five minutes */
	tick(280);
	CHECK(!io_sum("7", "/home", "nfs4"));
	happen(none, HOME, ZN_IO_WRITE, 0, 2);
	CHECK_EQ(taken(), 4); /* not yet: somebody may be adding to them */
	tick(1);
	tick(2);
	CHECK_EQ(taken(), 2);
	CHECK_EQ(memory.io_count, 2);
	CHECK_EQ(bytes("", "/home", "nfs4"), 1);
}

T(only_the_newest_job_of_an_id_is_shown)
{
	struct zn_job_ref first, second;

	start();
	first = job("7");
	happen(first, HOME, ZN_IO_READ, 0, 1000);
	tick(1);
	end("7");
	tick(20);
	second = job("7");
	CHECK(second.serial != first.serial);
	happen(second, HOME, ZN_IO_READ, 0, 1);
	tick(1);
	CHECK_EQ(bytes("7", "/home", "nfs4"), 1);
	CHECK_EQ(used(), 2);
}

T(of_no_job_what_is_gone_and_idle_goes)
{
	start();
	happen(none, HOME, ZN_IO_READ, 0, 1);
	happen(none, DATA, ZN_IO_READ, 0, 1);
	tick(1);
	tick(500);
	CHECK_EQ(used(), 2);
	happen(none, DATA, ZN_IO_READ, 0, 1);
	tick(500);
	CHECK_EQ(used(), 2);
	tick(600);
	CHECK(io_sum("", "/home", "nfs4"));
	CHECK(!io_sum("", "unknown:0:41", "unknown"));
	tick(3);
	CHECK_EQ(taken(), 1);
}

T(one_io_sum_more_than_there_is_room_for)
{
	char point[32];

	start();
	happen(none, HOME, ZN_IO_READ, 0, 1);
	for (uint32_t i = 0; i < ZN_IO_SUMS_MAX; i++) { /* a device that is always somewhere else */
		snprintf(point, sizeof(point), "/%u", i);
		rename_to(DATA, point, "ext4", true);
		zn_io_sums_refresh(&io_sums);
		happen(none, DATA, ZN_IO_COPY, 0, 1); /* there are fewer histograms of reads */
		zn_io_sums_refresh(&io_sums);
	}
	CHECK_EQ(used(), ZN_IO_SUMS_MAX);
	CHECK(memory.arena.shared->lost[ZN_LOST_MOUNT] > 0);
	CHECK_EQ(zn_io_sum_total(&io_sums, io_sum("", "/0", "ext4"), ZN_IO_COPY).bytes, 1);
	CHECK_EQ(bytes("", "/home", "nfs4"), 1);
}

/* A user's devices beyond his share wait, those of others do not; and they go as the others do. */
T(a_user_with_too_many_mounts_leaves_room_for_others)
{
	uint32_t share = (ZN_MOUNTS_MAX - ZN_MOUNTS_MAX / 16) / 2;
	struct zn_job_ref tag;

	start();
	tag = job("7");
	memory.io_of = (struct zn_io_row){.owner = ZN_OWNER_JOB(tag.slot), .user = 1000};
	for (uint32_t i = 0; i < share + 9; i++)
		happen(tag, 100 + i, ZN_IO_READ, 0, 1);
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(used(), share);
	CHECK_EQ(zn_io_sums_lost(&io_sums, tag), 1u << ZN_IO_READ);
	memory.io_of = (struct zn_io_row){.owner = 2000, .user = 2000};
	happen(none, 90, ZN_IO_READ, 0, 500);
	tick(1);
	CHECK_EQ(used(), share + 1);
	CHECK_EQ(bytes("", "unknown:0:90", "unknown"), 500);
	CHECK_EQ(zn_io_sums_lost(&io_sums, tag), 1u << ZN_IO_READ);
	end("7");
	for (int i = 0; i < 8; i++)
		tick(60);
	CHECK_EQ(taken(), 1);
	CHECK_EQ(memory.io_count, 1);
	CHECK_EQ(memory.arena.shared->quota[ZN_QUOTA_IO].used, 1);
	CHECK_EQ(memory.arena.shared->quota[ZN_QUOTA_IO_USER].used, 1);
	CHECK_EQ(io_sums.quota.used, 1);
}

T(what_waited_is_shown_with_all_it_counted)
{
	const struct zn_io_sum *f;

	start();
	memory.io_of = (struct zn_io_row){.owner = 1000, .user = 1000};
	io_sums.quota.size = 1; /* with the reserve there is room for none but root's */
	io_sums.quota.reserve = 1;
	happen(none, HOME, ZN_IO_READ, 0, 10);
	tick(1);
	happen(none, DATA, ZN_IO_READ, 0, 500);
	tick(1);
	CHECK_EQ(used(), 0);
	io_sums.quota.size = ZN_IO_SUMS_MAX;
	happen(none, DATA, ZN_IO_READ, 0, 20);
	tick(1);
	CHECK_EQ(bytes("", "/home", "nfs4"), 10);
	f = io_sum("", "unknown:0:41", "unknown");
	CHECK(f);
	CHECK_EQ(bytes("", "unknown:0:41", "unknown"), 520);
	CHECK_EQ(f ? f->op[ZN_IO_READ].byte_rate : 0, 0); /* nobody knows of when they are */
}

static uint64_t mounts_lost(void)
{
	return memory.arena.shared->lost[ZN_LOST_MOUNT];
}

/* However often it is looked for, and whatever there is no room for. */
T(what_has_no_mount_is_counted_once)
{
	struct zn_quota *const tables[] = {&io_sums.quota, &io_sums.mounts.quota};

	for (size_t i = 0; i < ZN_LEN(tables); i++) {
		start();
		memory.io_of = (struct zn_io_row){.owner = 1000, .user = 1000};
		tables[i]->size = tables[i]->reserve = 1;
		happen(none, DATA, ZN_IO_READ, 0, 10);
		for (int n = 0; n < 7; n++)
			tick(1);
		CHECK_EQ(mounts_lost(), 1);
		CHECK_EQ(tables[i]->refused, 1);
		CHECK_EQ(tables[i]->refused_owner, 1001);
		happen(none, DATA, ZN_IO_WRITE, 0, 10);
		happen(none, DATA + 1, ZN_IO_READ, 0, 10);
		for (int n = 0; n < 7; n++)
			tick(1);
		CHECK_EQ(mounts_lost(), 3);
		CHECK_EQ(tables[i]->refused, 3);
		tables[i]->size = 1024;
		tick(1);
		CHECK_EQ(mounts_lost(), 3);
		CHECK_EQ(bytes("", "unknown:0:41", "unknown"), 10);
	}
	memory.io_of = (struct zn_io_row){0};
}

/* 100 jobs that do everything on 5 mounts, of one user. */
T(a_hundred_small_jobs_have_room)
{
	char id[8];

	start();
	for (uint32_t dev = 50; dev < 55; dev++)
		zn_mounts_fix(&io_sums.mounts, dev, (char[]){'/', (char)dev, 0}, "ext4");
	for (uint32_t i = 1; i <= 100; i++) {
		struct zn_job_ref tag;

		snprintf(id, sizeof(id), "%u", i);
		tag = job(id);
		memory.io_of = (struct zn_io_row){.owner = ZN_OWNER_JOB(tag.slot), .user = 1000};
		for (uint32_t dev = 50; dev < 55; dev++)
			for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++)
				happen(tag, dev, op, 0, 1);
		CHECK_EQ(zn_io_sums_lost(&io_sums, tag), 0);
	}
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(used(), 500);
	CHECK_EQ(taken(), 500 * ZN_IO_OP_COUNT);
	CHECK_EQ(bytes("100", "/6", "ext4"), 1);
	memory.io_of = (struct zn_io_row){.owner = 2000, .user = 2000};
	happen(none, HOME, ZN_IO_READ, 0, 1);
}

static bool within_eighth(uint64_t got, uint64_t want)
{
	return 8 * got >= 7 * want && 8 * got <= 9 * want;
}

T(durations_of_metadata_are_coarse)
{
	struct zn_io_key key = {.dev = HOME, .op = ZN_IO_OPEN};
	const struct zn_hist *h;

	start();
	for (uint64_t ns = 1000; ns <= 1000000; ns += 1000)
		CHECK(zn_memory_io(&memory, &key, ns));
	zn_io_sums_refresh(&io_sums);
	CHECK(memory.io[0].row.hist >= ZN_HISTS_MAX);
	h = zn_io_sum_merge(&io_sums, io_sum("", "/home", "nfs4"), ZN_IO_OPEN, true);
	CHECK_EQ(h->calls, 1000);
	CHECK_EQ(zn_hist_count(h), 1000);
	CHECK_EQ(h->sum_ns, 500500000);
	CHECK_EQ(h->max_ns, 1000000);
	CHECK(within_eighth(zn_hist_quantile(h, 500), 500000));
	CHECK(within_eighth(zn_hist_quantile(h, 990), 990000));
}

T(reads_that_are_very_many_are_spread)
{
	struct zn_hist *h;

	start();
	happen(none, HOME, ZN_IO_READ, 0, 1);
	h = zn_arena_hist(&memory.arena, memory.io[0].row.hist);
	tick(1);
	h->calls += 99999;
	tick(1);
	CHECK_EQ(h->spread, 0);
	h->calls += 200000;
	tick(2);
	CHECK_EQ(h->spread, 1);
	happen(none, HOME, ZN_IO_READ, 3, 2);
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(bytes("", "/home", "nfs4"), 3);
}

/* What a job lost is null, and only that. */
T(figures_that_are_not_whole_are_null)
{
	static char text[4096];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_state view = {.io_sums = &io_sums};
	struct zn_json j;
	struct zn_job_ref tag;

	start();
	tag = job("7");
	happen(tag, HOME, ZN_IO_READ, 0, 5);
	zn_arena_job(&memory.arena, tag.slot)->io_lost[ZN_IO_READ] = 1;
	zn_arena_job(&memory.arena, tag.slot)->io_lost[ZN_IO_WRITE] = 1;
	zn_arena_job(&memory.arena, tag.slot)->io_lost[ZN_IO_MMAP] = 1;
	memory.io_of.partial = 1; /* made after the first one was lost */
	happen(tag, HOME, ZN_IO_MMAP, 0, 7);
	zn_io_sums_refresh(&io_sums);
	CHECK_EQ(zn_io_sums_lost(&io_sums, tag), 1u << ZN_IO_READ | 1u << ZN_IO_WRITE | 1u << ZN_IO_MMAP);
	zn_json_begin(&j, &o);
	zn_io_sum_json(&j, &view, io_sum("7", "/home", "nfs4"), false);
	text[o.len] = 0;
	CHECK(strstr(text, "\"read_bytes\":5,\"write_bytes\":null,\"mapped_bytes\":null,\"copied_bytes\":0,"));
	CHECK(strstr(text, "\"read\":{\"count\":1,"));
	CHECK(strstr(text, "\"write\":null,\"mmap\":null}"));
	zn_arena_job(&memory.arena, tag.slot)->io_missed[ZN_IO_READ] = 1; /* of a series that was there */
	CHECK_EQ(zn_io_sums_missed(&io_sums, tag), 1u << ZN_IO_READ);
	o.len = 0;
	zn_json_begin(&j, &o);
	zn_io_sum_json(&j, &view, io_sum("7", "/home", "nfs4"), false);
	text[o.len] = 0;
	CHECK(strstr(text, "\"read_bytes\":null,\"write_bytes\":null,\"mapped_bytes\":null,\"copied_bytes\":0,"));
	CHECK(strstr(text, "\"read\":null,"));
	memory.io_of = (struct zn_io_row){0};
}

int main(void)
{
	RUN(shards_and_operations_add_up);
	RUN(the_table_is_read_when_a_series_was_made);
	RUN(rates_are_of_the_last_tick);
	RUN(two_devices_on_one_mount_are_one_series);
	RUN(stacked_mounts_of_two_types_share_durations);
	RUN(a_name_that_comes_late_takes_the_figures_along);
	RUN(a_number_that_is_used_again_is_another_mount);
	RUN(names_are_looked_up_while_figures_are_shown);
	RUN(a_number_that_is_used_again_takes_nothing_along);
	RUN(mounting_again_and_again_costs_a_bounded_number);
	RUN(a_job_that_is_forgotten_gives_everything_back);
	RUN(only_the_newest_job_of_an_id_is_shown);
	RUN(of_no_job_what_is_gone_and_idle_goes);
	RUN(one_io_sum_more_than_there_is_room_for);
	RUN(a_user_with_too_many_mounts_leaves_room_for_others);
	RUN(what_waited_is_shown_with_all_it_counted);
	RUN(what_has_no_mount_is_counted_once);
	RUN(a_hundred_small_jobs_have_room);
	RUN(durations_of_metadata_are_coarse);
	RUN(reads_that_are_very_many_are_spread);
	RUN(figures_that_are_not_whole_are_null);
	zn_jobs_close(&jobs);
	zn_memory_close(&memory);
	return t_end();
}
