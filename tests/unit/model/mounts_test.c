/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mounts_test.c: which mount a device is, by lists in a folder that stands in for /proc: what lines mean, which of
 * several wins, what happens when they change, and lists that nobody meant well. The real list of this machine is read
 * too.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define DEV(major, minor) ((major) << 20 | (minor))

static struct zn_mounts m;
static char root[] = "/tmp/zn_mount_XXXXXX";

static void put_list(uint32_t pid, const char *text, size_t len)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u", root, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%u/mountinfo", root, pid);
	f = fopen(path, "w");
	if (!f || fwrite(text, 1, len, f) != len || fclose(f))
		T_FAIL("cannot write %s", path);
}

static void put_text(uint32_t pid, const char *text)
{
	put_list(pid, text, strlen(text));
}

static void remove_list(uint32_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%u/mountinfo", root, pid);
	unlink(path);
	snprintf(path, sizeof(path), "%s/%u", root, pid);
	rmdir(path);
}

static void open_over(const char *text)
{
	zn_mounts_close(&m);
	memset(&m, 0, sizeof(m));
	zn_mounts_init(&m);
	put_text(1, text);
	CHECK_EQ(zn_mounts_open(&m, NULL, root), 0);
}

/* As the loop would hear of it: there is no poll() on a plain file. Every walk here is one slice, unless the machine is
 * slow. */
static void change(const char *text)
{
	put_text(1, text);
	m.changed = m.fresh = true;
	do
		zn_mounts_tick(&m, zn_now_ns());
	while (m.walk_fd >= 0);
}

static const struct zn_mount *use(uint32_t dev, uint32_t tgid)
{
	const struct zn_mount *e = zn_mounts_use(&m, dev, tgid, 0, ZN_OWNER_ROOT);

	zn_mounts_hurry(&m);
	while (m.walk_fd >= 0)
		zn_mounts_tick(&m, zn_now_ns());
	return e;
}

static void check_is(const struct zn_mount *e, const char *point, const char *fstype)
{
	CHECK(e);
	if (!e)
		return;
	CHECK_STR(e->point, point);
	CHECK_STR(e->fstype, fstype);
}

#define LONG64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define NEXT8  "\x80\x80\x80\x80\x80\x80\x80\x80"
#define NEXT32 NEXT8 NEXT8 NEXT8 NEXT8

/* Of device 0:40, but for those that are not. */
static const struct {
	const char *name, *list, *point, *fstype;
} vectors[] = {
	{"plain", "36 35 0:40 / /scratch rw,noatime master:1 - ext4 /dev/sda1 rw\n", "/scratch", "ext4"},
	{"no optional fields", "36 35 0:40 / /scratch rw - ext4 /dev/sda1 rw\n", "/scratch", "ext4"},
	{"many optional fields", "36 35 0:40 / /s rw shared:1 master:2 propagate_from:3 unbindable - xfs d rw\n", "/s",
		"xfs"},
	{"root", "36 35 0:40 / / rw - ext4 /dev/sda1 rw\n", "/", "ext4"},
	{"no source", "36 35 0:40 / /t rw - tmpfs  rw\n", "/t", "tmpfs"},
	{"escapes", "36 35 0:40 / /a\\040b\\011c\\012d\\134e\\043 rw - ext4 d rw\n", "/a b\tc\nd\\e#", "ext4"},
	{"an escape of a NUL", "36 35 0:40 / /a\\000b rw - ext4 d rw\n", "/a?b", "ext4"},
	{"no escapes at all", "36 35 0:40 / /a\\04 rw - ext4 d rw\n", "/a\\04", "ext4"},
	{"not UTF-8", "36 35 0:40 / /a\xff rw - ext4 d rw\n", "/a\xef\xbf\xbd", "ext4"},
	{"a removed mount point", "36 35 0:40 / /a\\040b//deleted rw - ext4 d rw\n", "/a b", "ext4"},
	{"fuse", "36 35 0:40 / /a rw - fuse.sshfs host: rw\n", "/a", "fuse.sshfs"},
	{"a long type", "36 35 0:40 / /a rw - fuse." LONG64 " x rw\n", "/a", "fuse.0123456789abcdef0~e6df115a"},
	{"a long type of what goes on with characters that never began",
		"36 35 0:40 / /a rw - t" NEXT32 NEXT32 " x rw\n", "/a",
		"t\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd~16a418a3"},
	{"a bind mount after it", "1 1 0:40 / /long/name rw - ext4 d rw\n2 1 0:40 /sub /b rw - ext4 d rw\n",
		"/long/name", "ext4"},
	{"a bind mount before it", "1 1 0:40 /sub /b rw - ext4 d rw\n2 1 0:40 / /long/name rw - ext4 d rw\n",
		"/long/name", "ext4"},
	{"only bind mounts", "1 1 0:40 /sub /long rw - ext4 d rw\n2 1 0:40 /other /b rw - ext4 d rw\n", "/b", "ext4"},
	{"subvolumes", "1 1 0:40 /@ / rw - btrfs d rw\n2 1 0:40 /@home /home rw - btrfs d rw\n", "/", "btrfs"},
	{"the whole of it twice", "1 1 0:40 / /longer rw - ext4 d rw\n2 1 0:40 / /short rw - ext4 d rw\n", "/short",
		"ext4"},
	{"two of a length", "1 1 0:40 / /b rw - ext4 d rw\n2 1 0:40 / /a rw - ext4 d rw\n", "/b", "ext4"},
	{"the same last part", "1 1 0:40 / /x/data rw - ext4 d rw\n2 1 0:41 / /y/data rw - ext4 d rw\n", "/x/data",
		"ext4"},
	{"stacked", "1 1 0:40 / /data rw - ext4 d rw\n2 1 0:41 / /data rw - tmpfs d rw\n", "/data", "ext4"},
	{"no end of line", "36 35 0:40 / /cut rw - ext4 d rw", "unknown:0:40", "unknown"},
	{"another device", "36 35 8:40 / /a rw - ext4 d rw\n", "unknown:0:40", "unknown"},
	{"nothing", "", "unknown:0:40", "unknown"},
	{"no type", "36 35 0:40 / /a rw -\n", "unknown:0:40", "unknown"},
	{"an empty type", "36 35 0:40 / /a rw -  d rw\n", "unknown:0:40", "unknown"},
	{"no dash", "36 35 0:40 / /a rw ext4 d rw\n", "unknown:0:40", "unknown"},
	{"no point", "36 35 0:40 / \n", "unknown:0:40", "unknown"},
	{"a point that is no path", "36 35 0:40 / a rw - ext4 d rw\n", "unknown:0:40", "unknown"},
	{"a root that is no path", "36 35 0:40 mnt:[4026531840] /a rw - nsfs nsfs rw\n", "unknown:0:40", "unknown"},
	{"a device that wraps", "36 35 4096:40 / /a rw - ext4 d rw\n36 35 0:1048616 / /b rw - ext4 d rw\n",
		"unknown:0:40", "unknown"},
	{"a device of words", "36 35 x:40 / /a rw - ext4 d rw\n36 35 0: / /b rw - ext4 d rw\n", "unknown:0:40",
		"unknown"},
	{"a device with more", "36 35 0:40x / /a rw - ext4 d rw\n", "unknown:0:40", "unknown"},
	{"empty lines", "\n\n \n  \n36 35 0:40 / /a rw - ext4 d rw\n\n", "/a", "ext4"},
};

static void lines(void)
{
	for (size_t i = 0; i < ZN_LEN(vectors); i++) {
		t_begin(vectors[i].name);
		open_over(vectors[i].list);
		check_is(use(DEV(0, 40), 0), vectors[i].point, vectors[i].fstype);
		CHECK_EQ(use(DEV(0, 40), 0)->state, vectors[i].point[0] == '/' ? ZN_MOUNT_HOST : ZN_MOUNT_UNKNOWN);
		for (size_t cut = 0; cut < strlen(vectors[i].list);
			cut++) { /* at every byte: no more than that is asked */
			char *text = strndup(vectors[i].list, cut);
			const struct zn_mount *e;

			change(text);
			free(text);
			e = use(DEV(0, 40), 0);
			CHECK(e && (e->point[0] == '/' || !strcmp(e->point, "unknown:0:40")));
		}
	}
}

T(long_names_stay_apart)
{
	char list[2048], same[ZN_MOUNT_BYTES];

	snprintf(list, sizeof(list), "1 1 0:40 / /%s rw - ext4 d rw\n2 1 0:41 / /%sx rw - ext4 d rw\n",
		LONG64 LONG64 LONG64 LONG64, LONG64 LONG64 LONG64 LONG64);
	open_over(list);
	CHECK_EQ(strlen(use(DEV(0, 40), 0)->point), ZN_MOUNT_BYTES - 1);
	strcpy(same, use(DEV(0, 40), 0)->point);
	CHECK(strcmp(same, use(DEV(0, 41), 0)->point));
	CHECK(!strncmp(same, use(DEV(0, 41), 0)->point, 240));
}

T(a_line_that_is_too_long_is_passed_over)
{
	size_t n = 200000;
	char *list = malloc(n + 200);

	memcpy(list, "1 1 0:40 / /", 12);
	memset(list + 12, 'a', n);
	strcpy(list + 12 + n, " rw - ext4 d rw\n2 1 0:41 / /next rw - xfs d rw\n");
	open_over(list);
	check_is(use(DEV(0, 40), 0), "unknown:0:40", "unknown");
	check_is(use(DEV(0, 41), 0), "/next", "xfs");
	free(list);
}

T(ten_thousand_mounts)
{
	size_t cap = 10001 * 200, len = 0;
	char *list = malloc(cap);
	uint64_t begin_ns;

	for (uint32_t i = 0; i < 10000; i++)
		len += (size_t)snprintf(list + len, cap - len,
			"%u 1 0:%u / /var/lib/containers/storage/overlay/%064u/merged rw,relatime shared:%u - overlay overlay rw,lowerdir=x\n",
			i + 100, i + 100, i, i);
	open_over("");
	put_list(1, list, len);
	m.changed = true;
	begin_ns = zn_now_ns();
	CHECK(strstr(use(DEV(0, 10099), 0)->point, "00009999/merged"));
	CHECK_EQ(m.count, 1);
	if (getenv("ZN_TIMES"))
		fprintf(stderr, "10,000 mounts: %.2f ms of reading in %.2f ms\n", m.walk_ns / 1e6,
			(zn_now_ns() - begin_ns) / 1e6);
	free(list);
}

T(a_mount_that_comes_later)
{
	const struct zn_mount *e;
	uint32_t version;

	open_over("1 1 8:1 / / rw - ext4 d rw\n");
	e = use(DEV(0, 40), 0);
	check_is(e, "unknown:0:40", "unknown");
	version = e->version;
	change("1 1 8:1 / / rw - ext4 d rw\n2 1 0:40 / /later rw - xfs d rw\n");
	check_is(e, "/later", "xfs");
	CHECK(e->version > version);
	CHECK_EQ(e->cut, 0); /* what was counted is of it */
}

T(a_mount_that_goes_keeps_its_name)
{
	const struct zn_mount *e;
	uint32_t version;

	open_over("1 1 0:40 / /a rw - ext4 d rw\n");
	e = use(DEV(0, 40), 0);
	version = e->version;
	change("");
	CHECK_EQ(e->state, ZN_MOUNT_GONE);
	check_is(e, "/a", "ext4");
	CHECK(e->cut > version); /* what comes now may be another one's */
	version = e->version;
	change("1 1 0:40 / /a rw - ext4 d rw\n");
	CHECK_EQ(e->state, ZN_MOUNT_HOST);
	CHECK_EQ(e->version, version);
}

T(a_number_that_is_used_again_is_another_mount)
{
	const struct zn_mount *e;
	uint32_t version;

	open_over("1 1 0:40 / /a rw - ext4 d rw\n");
	e = use(DEV(0, 40), 0);
	version = e->version;
	change("");
	CHECK(e->cut > version);
	version = e->version;
	change("1 1 0:40 / /b rw - xfs d rw\n");
	check_is(e, "/b", "xfs");
	CHECK_EQ(e->cut, version); /* what was counted before the list was read is of it */
	CHECK(e->version > version);
	version = e->version;
	change("1 1 0:40 / /c rw - xfs d rw\n"); /* nobody saw it go */
	CHECK(e->cut > version);
	version = e->version;
	change("1 1 0:40 / /c rw - ext4 d rw\n"); /* another type at the same place */
	CHECK(e->cut > version);
}

T(a_name_stays_while_it_is_right)
{
	const struct zn_mount *e;

	open_over("1 1 0:40 / /long rw - ext4 d rw\n");
	e = use(DEV(0, 40), 0);
	change("1 1 0:40 / /s rw - ext4 d rw\n2 1 0:40 / /long rw - ext4 d rw\n");
	check_is(e, "/long", "ext4");
	change("1 1 0:40 / /s rw - ext4 d rw\n");
	check_is(e, "/s", "ext4");
	change("1 1 0:40 /sub /x rw - ext4 d rw\n");
	check_is(e, "/x", "ext4");
	change("1 1 0:40 /sub /x rw - ext4 d rw\n2 1 0:40 / /whole rw - ext4 d rw\n");
	check_is(e, "/whole", "ext4");
}

/* A list that begins with the host's first mount is the host's. */
T(who_has_the_hosts_mounts_is_not_asked)
{
	open_over("1 0 8:1 / / rw - ext4 d rw\n");
	put_text(77, "1 0 8:1 / / rw - ext4 d rw\n2 1 0:41 / /data rw - tmpfs t rw\n");
	check_is(use(DEV(0, 41), 77), "unknown:0:41", "unknown");
	put_text(77, "12 0 8:1 / / rw - ext4 d rw\n13 12 0:41 / /data rw - tmpfs t rw\n");
	check_is(use(DEV(0, 41), 77), "/data", "tmpfs");
	remove_list(77);
}

T(what_only_a_container_sees)
{
	const struct zn_mount *e;

	open_over("1 1 8:1 / / rw - ext4 d rw\n");
	put_text(77, "30 1 0:40 / / rw - overlay overlay rw\n31 30 0:41 / /data rw - tmpfs t rw\n");
	e = use(DEV(0, 41), 0);
	check_is(e, "unknown:0:41", "unknown");
	use(DEV(0, 41), 77);
	check_is(e, "/data", "tmpfs");
	CHECK_EQ(e->state, ZN_MOUNT_OTHER);
	CHECK_EQ(e->cut, 0);
	check_is(use(DEV(0, 40), 77), "/", "overlay");
	/* the host's word counts more, and of several containers that of the first that lives */
	put_text(78, "40 1 0:41 / /other rw - tmpfs t rw\n");
	use(DEV(0, 41), 78);
	check_is(e, "/data", "tmpfs");
	remove_list(77);
	use(DEV(0, 41), 78);
	check_is(e, "/other", "tmpfs");
	CHECK(e->cut);
	change("1 1 0:41 / /host rw - tmpfs t rw\n");
	check_is(e, "/host", "tmpfs");
	CHECK_EQ(e->state, ZN_MOUNT_HOST);
	use(DEV(0, 41), 78);
	check_is(e, "/host", "tmpfs");
	remove_list(78);
}

T(a_process_that_is_gone_tells_nothing)
{
	open_over("1 1 8:1 / / rw - ext4 d rw\n");
	check_is(use(DEV(0, 41), 999999), "unknown:0:41", "unknown");
	CHECK_EQ(use(DEV(0, 41), 0)->ask[0], 0);
	check_is(use(DEV(8, 1), 999999), "/", "ext4");
}

/* Who asks for so many of them keeps nobody waiting for all. */
T(processes_that_are_gone_are_asked_a_few_at_a_time)
{
	uint32_t turns = 0, left = 1;

	open_over("1 1 8:1 / / rw - ext4 d rw\n");
	for (uint32_t i = 0; i < ZN_MOUNTS_MAX; i++)
		zn_mounts_use(&m, DEV(1, i), 900000 + i, (uint64_t)(910000 + i) << 32 | (920000 + i), ZN_OWNER_ROOT);
	for (; left && turns < 100000; turns++) {
		zn_mounts_tick(&m, zn_now_ns());
		left = 0;
		for (uint32_t i = 0; i < m.high; i++)
			left += m.mount[i].ask[0] != 0;
	}
	CHECK_EQ(left, 0);
	CHECK(turns > 1);
}

/* A process may be gone before its list can be read: its parent has the same one, or the first process of its
 * container. */
T(elders_of_a_process_that_is_gone)
{
	static const struct {
		uint32_t tgid, parent, init;
		const char *want;
	} families[] = {
		{999999, 77, 78, "/parents"},
		{999999, 999998, 78, "/inits"},
		{999999, 1, 78, "/inits"}, /* a parent with the host's mounts */
		{79, 77, 78, "/parents"},  /* it has a list without this device */
		{999999, 999998, 999997, "unknown:0:41"},
		{999999, 1, 1, "unknown:0:41"},
	};

	put_text(77, "30 1 0:41 / /parents rw - tmpfs t rw\n");
	put_text(78, "31 1 0:41 / /inits rw - tmpfs t rw\n");
	put_text(79, "32 1 0:40 / /else rw - tmpfs t rw\n");
	for (size_t i = 0; i < ZN_LEN(families); i++) {
		struct zn_mount *e;

		open_over("1 1 8:1 / / rw - ext4 d rw\n");
		e = zn_mounts_use(&m, DEV(0, 41), families[i].tgid,
			(uint64_t)families[i].init << 32 | families[i].parent, ZN_OWNER_ROOT);
		zn_mounts_hurry(&m);
		while (m.walk_fd >= 0)
			zn_mounts_tick(&m, zn_now_ns());
		CHECK_STR(e->point, families[i].want);
		CHECK_EQ(e->ask[0], 0);
	}
	remove_list(77);
	remove_list(78);
	remove_list(79);
}

T(one_more_than_there_is_room_for)
{
	uint32_t dev = DEV(1, 0);

	open_over("");
	while (zn_mounts_use(&m, dev, 0, 0, ZN_OWNER_ROOT))
		dev++;
	CHECK_EQ(m.count, ZN_MOUNTS_MAX);
	CHECK_EQ(dev - DEV(1, 0), ZN_MOUNTS_MAX);
	CHECK(!zn_mounts_fix(&m, DEV(2, 0), "/", "ext4"));
	zn_mounts_tick(&m, zn_now_ns() + 30 * ZN_NS_PER_S);
	CHECK_EQ(m.count, ZN_MOUNTS_MAX);
	zn_mounts_tick(&m, zn_now_ns() + 61 * ZN_NS_PER_S);
	CHECK_EQ(m.count, 0);
	CHECK(zn_mounts_use(&m, dev, 0, 0, ZN_OWNER_ROOT));
}

/* With it the rest between walks of a long list would be passed over, at each look. */
T(what_there_is_no_room_for_asks_for_no_list)
{
	uint32_t dev = DEV(1, 0);

	open_over("");
	while (zn_mounts_use(&m, dev, 0, 0, ZN_OWNER_ROOT))
		dev++;
	zn_mounts_tick(&m, zn_now_ns());
	CHECK(!m.changed && !m.fresh);
	CHECK(!zn_mounts_use(&m, dev, 77, 0, ZN_OWNER_ROOT));
	CHECK(!m.changed && !m.fresh);
}

T(one_user_leaves_room_for_others)
{
	uint32_t dev = DEV(1, 0), count = 0;

	open_over("");
	while (zn_mounts_use(&m, dev + count, 0, 0, 1000))
		count++;
	CHECK_EQ(count, (ZN_MOUNTS_MAX - ZN_MOUNTS_MAX / 16) / 2);
	CHECK(zn_mounts_use(&m, DEV(2, 0), 0, 0, 2000));
	CHECK(zn_mounts_use(&m, DEV(2, 1), 0, 0, ZN_OWNER_ROOT));
	CHECK(zn_mounts_use(&m, dev, 0, 0, 1000)); /* it is there already */
	zn_mounts_tick(&m, zn_now_ns() + 61 * ZN_NS_PER_S);
	CHECK_EQ(m.quota.used, 0);
}

T(no_list_at_all)
{
	zn_mounts_close(&m);
	memset(&m, 0, sizeof(m));
	zn_mounts_init(&m);
	CHECK_EQ(zn_mounts_open(&m, NULL, "/nowhere"), -ENOENT);
	check_is(use(DEV(0, 40), 77), "unknown:0:40", "unknown");
	zn_mounts_tick(&m, zn_now_ns());
}

T(the_list_of_this_machine)
{
	struct stat st;

	zn_mounts_close(&m);
	memset(&m, 0, sizeof(m));
	zn_mounts_init(&m);
	CHECK_EQ(zn_mounts_open(&m, NULL, "/proc"), 0);
	CHECK_EQ(stat("/proc/self/status", &st), 0);
	check_is(use(DEV(major(st.st_dev), minor(st.st_dev)), (uint32_t)getpid()), "/proc", "proc");
}

int main(void)
{
	if (!mkdtemp(root))
		return 1;
	lines();
	RUN(long_names_stay_apart);
	RUN(a_line_that_is_too_long_is_passed_over);
	RUN(ten_thousand_mounts);
	RUN(a_mount_that_comes_later);
	RUN(a_mount_that_goes_keeps_its_name);
	RUN(a_number_that_is_used_again_is_another_mount);
	RUN(a_name_stays_while_it_is_right);
	RUN(who_has_the_hosts_mounts_is_not_asked);
	RUN(what_only_a_container_sees);
	RUN(a_process_that_is_gone_tells_nothing);
	RUN(processes_that_are_gone_are_asked_a_few_at_a_time);
	RUN(elders_of_a_process_that_is_gone);
	RUN(one_more_than_there_is_room_for);
	RUN(what_there_is_no_room_for_asks_for_no_list);
	RUN(one_user_leaves_room_for_others);
	RUN(no_list_at_all);
	RUN(the_list_of_this_machine);
	zn_mounts_close(&m);
	remove_list(1);
	rmdir(root);
	return t_end();
}
