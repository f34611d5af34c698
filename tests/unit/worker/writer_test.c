/* SPDX-License-Identifier: GPL-2.0 */
/*
 * writer_test.c: files that are whole or not there: in bursts with readers that look all the time, on a full disk, in a
 * folder that goes away, and when either process is killed. Disks are tmpfs of 256 KiB in a mount namespace of this
 * program's own, which needs root.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define BIG (256 << 10)

static char base[] = "/tmp/zn_writer_XXXXXX", folder[128], spool[96], log_path[96];
static char text[BIG + 1];
static struct zn_writer writer;
static bool mounts; /* disks can be mounted */

static void path_of(char to[256], const char *name)
{
	snprintf(to, 256, "%s/%s", folder, name);
}

/* The content follows from the name and the length, so that a reader can tell a whole file. */
static struct zn_str fill(const char *name, size_t len)
{
	char head[128];
	int n = snprintf(head, sizeof(head), "%s %zu\n", name, len);
	uint32_t seed = (uint32_t)len + (uint8_t)name[0];

	for (size_t i = 0; i < len; i++)
		text[i] = i < (size_t)n ? head[i] : (char)('a' + (seed = seed * 1103515245 + 12345, seed >> 16) % 26);
	return (struct zn_str){text, len};
}

static ssize_t read_file(const char *name, char *to, size_t cap)
{
	char path[256];
	ssize_t n, len = 0;
	int fd;

	path_of(path, name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -errno;
	while ((n = read(fd, to + len, cap - (size_t)len)) > 0)
		len += n;
	close(fd);
	return len;
}

static bool there(const char *name, size_t len)
{
	static char got[BIG + 1];
	struct zn_str want = fill(name, len);

	return read_file(name, got, sizeof(got)) == (ssize_t)len && !memcmp(got, want.at, len);
}

static int files(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	int n = 0;

	while (dir && (e = readdir(dir)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	if (dir)
		closedir(dir);
	return dir ? n : -1;
}

static void empty_folder(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s* %s", folder, spool);
	CHECK_EQ(system(command), 0);
}

static off_t said_from; /* in the log */

static int said(const char *what)
{
	static char all[1 << 16];
	int fd = open(log_path, O_RDONLY), n = 0;
	ssize_t len = pread(fd, all, sizeof(all) - 1, said_from);

	close(fd);
	all[len > 0 ? len : 0] = '\0';
	for (const char *at = all; (at = strstr(at, what)); at += strlen(what))
		n++;
	return n;
}

static void start(void)
{
	const char *const dir[ZN_DIRECTORY_COUNT] = {folder, spool};
	char why[ZN_TEXT_MAX];

	said_from = lseek(STDERR_FILENO, 0, SEEK_END);
	CHECK_EQ(zn_writer_open(&writer, dir, why), 0);
}

static void start_fresh(void)
{
	empty_folder();
	start();
	CHECK(writer.available[ZN_DIRECTORY_REPORTS] && writer.available[ZN_DIRECTORY_SPOOL]);
}

static bool put(const char *name, size_t len)
{
	return zn_writer_write(&writer, ZN_DIRECTORY_REPORTS, name, fill(name, len));
}

/* Closing forgets the counts. */
static struct zn_writer_done done;
static uint64_t lost;

/* Until all that was handed over is done with: a generous limit, in case it never is. */
static void settle(uint64_t count)
{
	for (int i = 0; i < 30000; i++) {
		done = *writer.done;
		lost = writer.lost;
		if (done.written + done.failed + done.removed >= count)
			return;
		usleep(10000);
	}
	T_FAIL("only %llu of %llu are done", (unsigned long long)(done.written + done.failed + done.removed),
		(unsigned long long)count);
}

T(sizes)
{
	static const size_t size[] = {0, 1, 32767, 32768, 32769, 65536, 100003, BIG - 1, BIG};
	struct stat st;
	char name[32], path[256];

	umask(077);
	start_fresh();
	umask(022);
	for (size_t i = 0; i < ZN_LEN(size); i++) {
		snprintf(name, sizeof(name), "size-%zu", size[i]);
		CHECK(put(name, size[i]));
	}
	CHECK(!put("too-large", BIG + 1));
	CHECK_EQ(writer.lost, 1);
	CHECK(put("size-1", 4711)); /* again, and longer */
	zn_writer_close(&writer);
	for (size_t i = 0; i < ZN_LEN(size); i++) {
		snprintf(name, sizeof(name), "size-%zu", size[i]);
		CHECK(there(name, size[i] == 1 ? 4711 : size[i]));
		path_of(path, name);
		CHECK(stat(path, &st) == 0);
		CHECK_EQ(st.st_mode, S_IFREG | 0640);
	}
	CHECK_EQ(files(folder), ZN_LEN(size));
}

T(folders_are_made)
{
	struct stat st;
	char deep[160], why[ZN_TEXT_MAX];
	const char *const dir[ZN_DIRECTORY_COUNT] = {deep, NULL};

	snprintf(deep, sizeof(deep), "%s/a/b", folder);
	empty_folder();
	umask(027);
	CHECK_EQ(zn_writer_open(&writer, dir, why), 0);
	umask(022);
	zn_writer_close(&writer);
	CHECK(stat(deep, &st) == 0);
	CHECK_EQ(st.st_mode, S_IFDIR | 0750);
	deep[strlen(deep) - 2] = '\0';
	CHECK(stat(deep, &st) == 0);
	CHECK_EQ(st.st_mode, S_IFDIR | 0755);
}

T(names)
{
	static const char *const bad[] = {"", ".", "..", ".new", "a/b", "/a", "a b", "a\n", "\xc3\xa9",
		"a234567890123456789012345678901234567890123456789012345678901234"};
	const char *longest = bad[ZN_LEN(bad) - 1] + 1;
	uint64_t before;

	start_fresh();
	for (size_t i = 0; i < ZN_LEN(bad); i++) {
		before = writer.lost;
		CHECK(!put(bad[i], 3));
		CHECK(!zn_writer_remove(&writer, ZN_DIRECTORY_REPORTS, bad[i]));
		CHECK_EQ(writer.lost, before + 2);
	}
	CHECK(put(longest, 3));
	CHECK(put("A-z_0.9", 3));
	zn_writer_close(&writer);
	CHECK(there(longest, 3) && there("A-z_0.9", 3));
	CHECK_EQ(files(folder), 2);
}

T(directories)
{
	char path[256];

	start_fresh();
	CHECK(put("one", 5));
	CHECK(zn_writer_write(&writer, ZN_DIRECTORY_SPOOL, "one", fill("one", 7)));
	CHECK(zn_writer_remove(&writer, ZN_DIRECTORY_REPORTS, "one"));
	CHECK(zn_writer_remove(&writer, ZN_DIRECTORY_REPORTS, "none"));
	settle(4);
	CHECK_EQ(done.written, 2);
	CHECK_EQ(done.removed, 2);
	CHECK_EQ(zn_writer_lost(&writer), 0);
	zn_writer_close(&writer);
	CHECK_EQ(files(folder), 0);
	snprintf(path, sizeof(path), "%s/one", spool);
	CHECK_EQ(access(path, R_OK), 0);
}

T(not_wanted)
{
	const char *const dir[ZN_DIRECTORY_COUNT] = {"", NULL};
	char why[ZN_TEXT_MAX];

	CHECK_EQ(zn_writer_open(&writer, dir, why), 0);
	CHECK(writer.worker.fd < 0 && writer.worker.pid == 0);
	CHECK(!put("a", 1));
	CHECK_EQ(zn_writer_lost(&writer), 0);
	zn_writer_close(&writer);
	zn_writer_close(&writer);
	memset(&writer, 0, sizeof(writer));
	CHECK(!put("a", 1)); /* one that was never opened, too */
	zn_writer_close(&writer);
}

T(folder_cannot_be_made)
{
	const char *const dir[ZN_DIRECTORY_COUNT] = {"/proc/zernel/reports", spool};
	char why[ZN_TEXT_MAX];

	empty_folder();
	said_from = lseek(STDERR_FILENO, 0, SEEK_END);
	CHECK_EQ(zn_writer_open(&writer, dir, why), 0);
	zn_writer_warn(&writer, dir);
	CHECK(!writer.available[ZN_DIRECTORY_REPORTS] && writer.available[ZN_DIRECTORY_SPOOL]);
	CHECK(!put("a", 1));
	CHECK_EQ(writer.lost, 1);
	CHECK_EQ(said("/proc/zernel/reports"), 1);
	zn_writer_close(&writer);
}

/* ---- readers that look all the time ---- */

static bool stop;
static int looked, torn;

static void *look(void *unused)
{
	static char got[BIG + 1];
	char name[128];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		DIR *dir = opendir(folder);
		struct dirent *e;

		while (dir && (e = readdir(dir))) {
			ssize_t n = *e->d_name == '.' ? -1 : read_file(e->d_name, got, sizeof(got));
			size_t len = 0;

			if (n < 0)
				continue;
			looked++;
			torn += sscanf(got, "%127s %zu", name, &len) != 2 || strcmp(name, e->d_name) ||
				(ssize_t)len != n;
		}
		if (dir)
			closedir(dir);
		usleep(2000);
	}
	return unused;
}

T(burst)
{
	pthread_t reader;
	uint64_t handed = 0;
	char name[32];

	start_fresh();
	stop = false;
	CHECK_EQ(pthread_create(&reader, NULL, look, NULL), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%d.json", i);
		handed += put(name, 1000 + 61 * (size_t)i);
	}
	CHECK_EQ(handed + writer.lost, 1000);
	settle(handed);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(reader, NULL);
	CHECK_EQ(done.written, handed);
	CHECK_EQ(done.failed, 0);
	CHECK_EQ(files(folder), handed);
	CHECK(handed >= 100);
	CHECK(looked > 0);
	CHECK_EQ(torn, 0);
	zn_writer_close(&writer);
}

/* A writer that is stuck holds nobody up: what it cannot take is lost, and counted; the rest is written later. */
T(stuck)
{
	uint64_t handed = 0, began;
	char name[32];

	start_fresh();
	kill(writer.worker.pid, SIGSTOP);
	began = zn_now_ns();
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "%d", i);
		handed += put(name, BIG - (size_t)i);
	}
	CHECK(zn_now_ns() - began < 60 * ZN_NS_PER_S);
	CHECK_EQ(handed, (8 << 20) / (BIG + 80)); /* with its length and its name */
	CHECK_EQ(writer.lost, 200 - handed);
	kill(writer.worker.pid, SIGCONT);
	settle(handed);
	CHECK(put("after", 100003));
	settle(handed + 1);
	CHECK_EQ(done.written, handed + 1);
	zn_writer_close(&writer);
	CHECK_EQ(files(folder), handed + 1);
	CHECK(there("after", 100003));
	for (uint64_t i = 0; i < handed; i++) {
		snprintf(name, sizeof(name), "%d", (int)i);
		CHECK(there(name, BIG - (size_t)i));
	}
}

/* Stops it before it can say that it has tried its folders. */
static void *stop_at_once(void *unused)
{
	const volatile pid_t *pid = &writer.worker.pid;

	(void)unused;
	while (*pid <= 0)
		usleep(50);
	kill(*pid, SIGSTOP);
	return NULL;
}

/* It was slow at the start, so what it said then has not been read, and it is stuck at the end. */
T(stuck_at_both_ends)
{
	pthread_t stopper;
	pid_t pid;

	empty_folder();
	writer.worker.pid = 0;
	CHECK_EQ(pthread_create(&stopper, NULL, stop_at_once, NULL), 0);
	start();
	pthread_join(stopper, NULL);
	pid = writer.worker.pid;
	kill(pid, SIGCONT);
	CHECK(zn_worker_wait(writer.worker.fd, 5000) || writer.refused[0] == 0);
	kill(pid, SIGSTOP);
	alarm(30); /* in case it waits for ever */
	zn_writer_close(&writer);
	alarm(0);
	kill(pid, SIGKILL);
	kill(pid, SIGCONT);
	waitpid(pid, NULL, 0);
}

/* It was slow at the start, and then there was no folder: what it was given is lost, which is told. */
T(slow_and_without_a_folder)
{
	const char *const dir[ZN_DIRECTORY_COUNT] = {"/proc/zernel/reports", spool};
	pthread_t stopper;
	char why[ZN_TEXT_MAX];

	empty_folder();
	said_from = lseek(STDERR_FILENO, 0, SEEK_END);
	for (int tries = 0; tries < 100; tries++) { /* until it is stopped before it has said anything */
		writer.worker.pid = 0;
		CHECK_EQ(pthread_create(&stopper, NULL, stop_at_once, NULL), 0);
		CHECK_EQ(zn_writer_open(&writer, dir, why), 0);
		pthread_join(stopper, NULL);
		if (!writer.refused[0])
			break;
		kill(writer.worker.pid, SIGCONT);
		zn_writer_close(&writer);
	}
	CHECK(put("a", 100) && put("b", 100));
	kill(writer.worker.pid, SIGCONT);
	settle(2);
	zn_writer_close(&writer);
	CHECK_EQ(done.failed, 2);
	CHECK_EQ(said("cannot write /proc/zernel/reports/a: No such file or directory"), 1);
}

/* ---- disks ---- */

static bool mount_disk(const char *options)
{
	empty_folder();
	mkdir(folder, 0750);
	return mount("tmpfs", folder, "tmpfs", 0, options) == 0;
}

T(full_disk)
{
	char name[32];
	int whole = 0;

	CHECK(mount_disk("size=256k,mode=750"));
	start();
	for (int i = 0; i < 11; i++) {
		snprintf(name, sizeof(name), "%d", i);
		CHECK(put(name, 50000));
	}
	settle(11);
	for (int i = 0; i < 11; i++) {
		snprintf(name, sizeof(name), "%d", i);
		whole += there(name, 50000);
	}
	CHECK(whole >= 1 && whole < 11);
	CHECK_EQ(done.written, whole);
	CHECK_EQ(zn_writer_lost(&writer), 11 - whole);
	CHECK_EQ(files(folder), whole); /* nothing half written */
	CHECK_EQ(said("No space left on device"), 1);
	CHECK(zn_writer_remove(&writer, ZN_DIRECTORY_REPORTS, "0"));
	CHECK(put("after", 50000));
	settle(13);
	CHECK(there("after", 50000));
	CHECK_EQ(said("files are written to"), 1);
	zn_writer_close(&writer);
	umount2(folder, MNT_DETACH);
}

T(read_only_disk)
{
	CHECK(mount_disk("size=256k,mode=750"));
	start();
	CHECK(put("before", 5));
	settle(1);
	/* the writer holds the folder, which does not keep the disk from being remounted */
	CHECK_EQ(mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	CHECK(put("after", 5));
	settle(2);
	CHECK_EQ(done.failed, 1);
	CHECK_EQ(said("Read-only file system"), 1);
	zn_writer_close(&writer);
	start();
	zn_writer_warn(&writer, (const char *[]){folder, spool});
	CHECK_EQ(said("Read-only file system; each file is tried"), 1);
	CHECK(put("lost", 5) && put("lost", 6));
	settle(2);
	CHECK_EQ(done.failed, 2);
	CHECK_EQ(said("cannot write"), 2);
	CHECK_EQ(mount(NULL, folder, NULL, MS_REMOUNT, NULL), 0);
	CHECK(put("again", 5) && put("again", 6));
	settle(4);
	CHECK_EQ(said("files are written to"), 1);
	zn_writer_close(&writer);
	CHECK(there("before", 5) && there("again", 6));
	umount2(folder, MNT_DETACH);
}

/* It works before a file was lost: the log takes back what it said at the start. */
T(read_only_at_the_start_alone)
{
	CHECK(mount_disk("size=256k,mode=750,ro"));
	start();
	CHECK(writer.available[ZN_DIRECTORY_REPORTS]);
	CHECK_EQ(mount(NULL, folder, NULL, MS_REMOUNT, NULL), 0);
	CHECK(put("a", 5) && put("b", 5));
	settle(2);
	CHECK_EQ(done.written, 2);
	CHECK_EQ(said("files are written to"), 1);
	zn_writer_close(&writer);
	umount2(folder, MNT_DETACH);
}

/* ---- other folders under the same path ---- */

/* Below the folder of the records Landlock lets the writer go wherever the path leads. */
static void start_nested(void)
{
	empty_folder();
	snprintf(folder, sizeof(folder), "%s/reports", spool);
	start();
	CHECK(put("first", 5));
	settle(1);
}

static void end_nested(void)
{
	zn_writer_close(&writer);
	snprintf(folder, sizeof(folder), "%s/reports", base);
}

static void move_folder(const char *from, const char *to)
{
	char old[256], new[256];

	snprintf(old, sizeof(old), "%s%s", folder, from);
	snprintf(new, sizeof(new), "%s%s", folder, to);
	CHECK_EQ(rename(old, new), 0);
}

static void replace_folder(const char *former)
{
	move_folder("", former);
	CHECK_EQ(mkdir(folder, 0750), 0);
}

T(folder_made_anew)
{
	start_nested();
	move_folder("", ".old");
	CHECK(put("homeless", 5)); /* there is no other one yet */
	settle(2);
	CHECK_EQ(said("another folder"), 0);
	CHECK_EQ(mkdir(folder, 0757), 0);
	CHECK_EQ(chmod(folder, 0757), 0);
	CHECK(put("second", 5) && put("third", 5));
	settle(4);
	CHECK_EQ(done.written, 4);
	CHECK(there("second", 5) && there("third", 5));
	CHECK_EQ(files(folder), 2);
	CHECK_EQ(said("another folder than before, mounted over or replaced; files go there"), 1);
	CHECK_EQ(said("can be written to by others"), 1);
	end_nested();
}

T(folder_removed_and_made_anew)
{
	char path[256];

	start_nested();
	path_of(path, "first");
	CHECK(!unlink(path) && !rmdir(folder));
	CHECK(put("lost", 5));
	settle(2);
	CHECK_EQ(done.failed, 1);
	CHECK_EQ(mkdir(folder, 0750), 0);
	CHECK(put("second", 5));
	settle(3);
	CHECK(there("second", 5));
	CHECK_EQ(said("another folder than before"), 1);
	CHECK_EQ(said("files are written to"), 0); /* the line before says it */
	end_nested();
}

T(disk_mounted_over)
{
	start_nested();
	CHECK_EQ(mount("tmpfs", folder, "tmpfs", 0, "size=256k,mode=750"), 0);
	CHECK(put("on-disk", 5));
	settle(2);
	CHECK(there("on-disk", 5));
	CHECK_EQ(umount2(folder, MNT_DETACH), 0);
	CHECK(put("below", 5));
	settle(3);
	CHECK(there("first", 5) && there("below", 5));
	CHECK_EQ(said("another folder than before"), 2);
	end_nested();
}

/* It is tried again with each file, as the reason may pass. */
T(disk_mounted_over_read_only)
{
	start_nested();
	CHECK_EQ(mount("tmpfs", folder, "tmpfs", 0, "size=256k,mode=750,ro"), 0);
	CHECK(put("a", 5) && put("b", 5));
	settle(3);
	CHECK_EQ(done.written, 3);
	CHECK_EQ(said("cannot be written to: Read-only file system"), 1);
	CHECK_EQ(mount(NULL, folder, NULL, MS_REMOUNT, NULL), 0);
	CHECK(put("c", 5));
	settle(4);
	CHECK(there("c", 5));
	CHECK_EQ(umount2(folder, MNT_DETACH), 0);
	CHECK(there("a", 5) && there("b", 5));
	end_nested();
}

static void put_refused(const char *name, int warnings)
{
	settle(done.written);
	CHECK(put(name, 5));
	settle(done.written + 1);
	CHECK_EQ(said("cannot be written to: Permission denied"), warnings);
}

/* Landlock's rule is of the folder of the start: files go on to where that is now, and each change is one line. */
T(folder_out_of_bounds)
{
	start_fresh();
	done.written = 0;
	put_refused("a", 0);
	replace_folder(".old");
	put_refused("b", 1);
	put_refused("c", 1);
	replace_folder(".second");
	put_refused("d", 2);
	CHECK_EQ(files(folder), 0);
	move_folder("", ".third");
	move_folder(".old", "");
	put_refused("e", 2);
	CHECK(there("b", 5) && there("c", 5) && there("d", 5) && there("e", 5));
	move_folder("", ".old");
	move_folder(".third", "");
	put_refused("f", 3);
	CHECK_EQ(done.failed, 0);
	zn_writer_close(&writer);
	CHECK_EQ(files(folder), 0);
}

T(folder_removed)
{
	start_fresh();
	CHECK_EQ(rmdir(folder), 0);
	CHECK(put("a", 5) && put("b", 5));
	settle(2);
	CHECK_EQ(done.failed, 2);
	CHECK_EQ(said("No such file or directory"), 1);
	zn_writer_close(&writer);
	CHECK_EQ(access(folder, F_OK), -1);
}

static void may_administrate_networks(bool may)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct have[2];

	CHECK_EQ(syscall(SYS_capget, &head, have), 0);
	if (may)
		have[0].effective |= have[0].permitted & 1U << CAP_NET_ADMIN;
	else
		have[0].effective &= ~(1U << CAP_NET_ADMIN);
	CHECK_EQ(syscall(SYS_capset, &head, have), 0);
}

/* Many jobs end at once beside a slow disk. What may wait depends on no limit of sockets, which the service may not
 * pass. */
T(burst_without_privileges)
{
	char name[32];

	may_administrate_networks(false);
	start_fresh();
	kill(writer.worker.pid, SIGSTOP);
	for (int i = 0; i < 1009; i++) {
		snprintf(name, sizeof(name), "%d", i);
		CHECK(put(name, 8000));
	}
	CHECK_EQ(writer.lost, 0);
	kill(writer.worker.pid, SIGCONT);
	settle(1009);
	CHECK_EQ(done.written, 1009);
	zn_writer_close(&writer);
	CHECK_EQ(files(folder), 1009);
	may_administrate_networks(true);
}

/* ---- killed ---- */

T(writer_killed)
{
	pid_t pid;

	start_fresh();
	pid = writer.worker.pid;
	kill(pid, SIGKILL);
	for (int i = 0; i < 1000 && writer.worker.fd >= 0; i++) { /* what it has not read is lost with it */
		put("a", 5);
		usleep(5000);
	}
	CHECK(writer.worker.fd < 0);
	CHECK(!writer.available[ZN_DIRECTORY_REPORTS]);
	lost = writer.lost;
	CHECK(lost >= 1);
	CHECK(!put("a", 5));
	CHECK_EQ(writer.lost, lost + 1);
	CHECK_EQ(said("lost from here on"), 1);
	zn_writer_close(&writer);
	CHECK(kill(pid, 0) == -1 || waitpid(pid, NULL, 0) == pid);
}

#define LEFT 199 /* all of them fit into the queue */

/* Hands files over and is killed at once. */
static void brief_daemon(void)
{
	char name[32];

	start();
	for (int i = 0; i < LEFT; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put(name, 40000);
	}
	kill(getpid(), SIGKILL);
}

T(daemon_killed)
{
	int status = 0, whole = 0;
	char name[32];
	pid_t child;

	empty_folder();
	CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	child = fork();
	if (child == 0)
		brief_daemon();
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	/* the writer is ours now; it ends by itself, having written all that it was handed */
	CHECK(waitpid(-1, &status, 0) > 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	for (int i = 0; i < LEFT; i++) {
		snprintf(name, sizeof(name), "%d", i);
		whole += there(name, 40000);
	}
	CHECK_EQ(files(folder), whole);
	CHECK(geteuid() ? whole >= 1 : whole == LEFT);
}

T(signals_do_not_end_it)
{
	static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

	start_fresh();
	for (size_t i = 0; i < ZN_LEN(all); i++)
		CHECK_EQ(kill(writer.worker.pid, all[i]), 0);
	CHECK(put("a", 5));
	settle(1);
	CHECK_EQ(done.written, 1);
	zn_writer_close(&writer);
}

/* Whoever may read the folder may lock it, and what is in it. */
T(readers_lock_the_folder)
{
	int fd;

	start_fresh();
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(flock(fd, LOCK_SH), 0);
	CHECK(put("locked", 5));
	settle(1);
	CHECK_EQ(flock(fd, LOCK_EX), 0);
	CHECK(put("locked", 7));
	CHECK(zn_writer_write(&writer, ZN_DIRECTORY_SPOOL, "record", fill("record", 7)));
	settle(3);
	CHECK_EQ(done.written, 3);
	zn_writer_close(&writer);
	start(); /* the lock stands while it starts, too */
	CHECK(writer.available[ZN_DIRECTORY_REPORTS]);
	zn_writer_close(&writer);
	CHECK(there("locked", 7));
	close(fd);
}

static void leave_file(const char *name, time_t age_s)
{
	struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}, {.tv_sec = time(NULL) - age_s}};
	char path[256];
	int fd;

	path_of(path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
	CHECK(fd >= 0 && futimens(fd, times) == 0);
	close(fd);
}

/* Of killed writers, this version's and the one's before; what may be in use stays, as does what is others'. */
T(leftovers_go)
{
	start_fresh();
	zn_writer_close(&writer);
	leave_file(".new", 7200);
	leave_file(".new.0123456789abcdef", 7200);
	leave_file(".new.fedcba9876543210", 60);
	leave_file(".others", 7200);
	leave_file("4711.json", 7200);
	start();
	zn_writer_close(&writer);
	CHECK_EQ(files(folder), 3);
}

/* Two daemons with one folder: each has a temporary name of its own, and their files are whole. */
T(two_share_a_folder)
{
	struct zn_writer other;
	char name[32];

	start_fresh();
	other = writer;
	start();
	for (int i = 0; i < 101; i++) {
		snprintf(name, sizeof(name), "one-%d", i);
		CHECK(put(name, 20000));
		snprintf(name, sizeof(name), "two-%d", i);
		CHECK(zn_writer_write(&other, ZN_DIRECTORY_REPORTS, name, fill(name, 20000)));
	}
	settle(101);
	CHECK_EQ(done.failed, 0);
	zn_writer_close(&writer);
	writer = other;
	settle(101);
	CHECK_EQ(done.failed, 0);
	zn_writer_close(&writer);
	CHECK_EQ(files(folder), 202);
	for (int i = 0; i < 202; i++) {
		snprintf(name, sizeof(name), "%s-%d", i % 2 ? "one" : "two", i / 2);
		CHECK(there(name, 20000));
	}
}

/* ---- what it may do ---- */

static bool status_has(const char *line)
{
	char path[64], all[8192];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", writer.worker.pid);
	fd = open(path, O_RDONLY);
	n = read(fd, all, sizeof(all) - 1);
	close(fd);
	all[n > 0 ? n : 0] = '\0';
	return strstr(all, line);
}

T(it_may_do_little)
{
	int extra = open("/dev/zero", O_RDONLY); /* without O_CLOEXEC */
	char path[64];

	start_fresh();
	CHECK(extra >= 0);
	CHECK(status_has("Name:\tzerneld: writer\n"));
	CHECK(status_has("CapPrm:\t0000000000000000\n"));
	CHECK(status_has("CapEff:\t0000000000000000\n"));
	CHECK(status_has("NoNewPrivs:\t1\n"));
	CHECK(status_has("Seccomp:\t2\n"));
	snprintf(path, sizeof(path), "/proc/%d/fd", writer.worker.pid);
	CHECK_EQ(files(path), 3 + 1 + ZN_DIRECTORY_COUNT);
	zn_writer_close(&writer);
	close(extra);
}

static void on_disks(void)
{
	if (mounts) {
		RUN(full_disk);
		RUN(read_only_disk);
		RUN(read_only_at_the_start_alone);
		RUN(disk_mounted_over);
		RUN(disk_mounted_over_read_only);
		return;
	}
	printf("absent: 5 tests of disks need root\n");
	t_begin("disks in CI");
	CHECK(!getenv("CI"));
}

static void in_bounds(void)
{
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0)
		RUN(folder_out_of_bounds);
	else
		printf("absent: a test needs a kernel with Landlock\n");
}

static void show_log(int to)
{
	char line[4096];
	int fd = open(log_path, O_RDONLY);
	ssize_t n;

	while ((n = read(fd, line, sizeof(line))) > 0 && write(to, line, (size_t)n) == n)
		;
	close(fd);
}

int main(void)
{
	int result, standard_error = dup(STDERR_FILENO);

	if (!mkdtemp(base))
		return 1;
	snprintf(folder, sizeof(folder), "%s/reports", base);
	snprintf(spool, sizeof(spool), "%s/spool", base);
	snprintf(log_path, sizeof(log_path), "%s/log", base);
	if (!freopen(log_path, "a", stderr))
		return 1;
	setvbuf(stderr, NULL, _IONBF, 0); /* no child shall have what waits there */
	mounts = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	RUN(sizes);
	RUN(folders_are_made);
	RUN(names);
	RUN(directories);
	RUN(not_wanted);
	RUN(folder_cannot_be_made);
	RUN(burst);
	RUN(stuck);
	RUN(stuck_at_both_ends);
	RUN(slow_and_without_a_folder);
	RUN(burst_without_privileges);
	on_disks();
	RUN(folder_removed);
	RUN(folder_made_anew);
	RUN(folder_removed_and_made_anew);
	in_bounds();
	RUN(writer_killed);
	RUN(daemon_killed);
	RUN(signals_do_not_end_it);
	RUN(readers_lock_the_folder);
	RUN(leftovers_go);
	RUN(two_share_a_folder);
	RUN(it_may_do_little);
	empty_folder();
	result = t_end();
	if (result)
		show_log(standard_error);
	unlink(log_path);
	rmdir(base);
	return result;
}
