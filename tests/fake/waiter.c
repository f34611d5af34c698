/* SPDX-License-Identifier: GPL-2.0 */
/*
 * waiter.c: a program that launches and then waits in ways whose cause is known, and says how long by its own clock, so
 * that a test can hold it against where the daemon says that the launching thread's time went.
 *
 *   waiter LIBCUDA LIBNCCL [IDLE]   each line on stdin, "SCENARIO REPEATS", is answered with a line of JSON:
 *                                   nanoseconds by cause, of the whole, and of CPU time, and how many waits there
 *                                   were. IDLE: so many further threads, which wake twice a second
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ULL

enum cause { CPU, GPU, DATA, DIST, IO, RUNQUEUE, OTHER, CAUSES };
static const char *const cause_name[] = {"cpu", "gpu", "data", "dist", "io", "runqueue", "other"};

static struct {
	int (*init)(unsigned);
	int (*retain)(void **, int);
	int (*current)(void *);
	int (*launch)(
		void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
	int (*sync)(void *);
	int (*set)(const char *, long);
	int (*group_start)(void);
	int (*group_end)(void);
	int (*nccl_set)(const char *, long);
} api;

static struct {
	uint64_t ns[CAUSES];
	uint64_t waits, late;
} did;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000 * MS)};

	nanosleep(&t, NULL);
}

static void spin_ms(unsigned ms)
{
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ms * MS;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void launch(void)
{
	must(api.launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0, "cuLaunchKernel");
}

static void add(enum cause cause, uint64_t since)
{
	did.ns[cause] += now_ns() - since;
	did.waits++;
}

/* ---- data loaders ---- */

struct loader {
	int ask[2], give[2];
	pid_t worker;
};

/* Waits to be asked, as PyTorch does, works for work_ms, and hands a byte over. */
static void worker_run(const struct loader *l, unsigned work_ms)
{
	char byte = 0;

	for (;;) {
		struct pollfd p = {.fd = l->ask[0], .events = POLLIN};

		while (poll(&p, 1, 5000) == 0)
			;
		if (read(l->ask[0], &byte, 1) != 1)
			_exit(0);
		sleep_ms(work_ms);
		if (write(l->give[1], &byte, 1) != 1)
			_exit(0);
	}
}

static void loader_open(struct loader *l, unsigned work_ms)
{
	must(pipe(l->ask) == 0 && pipe(l->give) == 0, "pipe");
	l->worker = fork();
	must(l->worker >= 0, "fork");
	if (l->worker == 0) {
		close(l->ask[1]);
		worker_run(l, work_ms);
	}
	close(l->ask[0]);
	close(l->give[1]);
}

static void loader_close(struct loader *l)
{
	close(l->ask[1]);
	waitpid(l->worker, NULL, 0);
	close(l->give[0]);
}

static void ask(const struct loader *l)
{
	must(write(l->ask[1], "", 1) == 1, "write");
}

#define LATE_NS 5000000 /* a thread that gets no CPU for so long between two tries may be seen to wait twice */

/* limit_ms: what one poll() waits at most. */
static void take(const struct loader *l, int limit_ms)
{
	struct pollfd p = {.fd = l->give[0], .events = POLLIN};
	uint64_t begin = now_ns(), limit_ns = (uint64_t)limit_ms * 1000000;
	char byte;

	while (poll(&p, 1, limit_ms) == 0) {
		did.late += now_ns() - begin > limit_ns + LATE_NS;
		begin = now_ns();
	}
	must(read(l->give[0], &byte, 1) == 1, "read");
}

/* One batch, and a launch with it. */
static void batch(const struct loader *l, int limit_ms)
{
	uint64_t start;

	ask(l);
	start = now_ns();
	take(l, limit_ms);
	add(DATA, start);
	launch();
}

static void batches(int repeats, int limit_ms)
{
	struct loader l;

	loader_open(&l, 31);
	while (repeats-- > 0) {
		uint64_t start;

		batch(&l, limit_ms);
		start = now_ns();
		spin_ms(15); /* a retry comes sooner */
		did.ns[CPU] += now_ns() - start;
	}
	loader_close(&l);
}

static void run_batches(int repeats)
{
	batches(repeats, 5000);
}

static void run_retries(int repeats)
{
	batches(repeats, 10);
}

/* The worker is asked for the next batch long after it gave one. */
static void run_idle(int repeats)
{
	struct loader l;

	loader_open(&l, 7);
	while (repeats-- > 0) {
		uint64_t start = now_ns();

		sleep_ms(23);
		did.ns[OTHER] += now_ns() - start;
		batch(&l, 5000);
	}
	loader_close(&l);
}

/* The worker is there before the first launch. */
static void run_early(int repeats)
{
	struct loader l;

	loader_open(&l, 31);
	launch();
	sleep_ms(1000);
	while (repeats-- > 0)
		batch(&l, 5000);
	loader_close(&l);
}

/* One batch that takes its time. */
static void run_hold(int repeats)
{
	struct loader l;
	uint64_t start;

	loader_open(&l, (unsigned)repeats);
	ask(&l);
	start = now_ns();
	take(&l, 5000);
	add(DATA, start);
	loader_close(&l);
}

/* ---- chains of threads: each waits in its own way and then wakes the one before it ---- */

struct link {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int count;
};
static struct link links[2] = {{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0},
	{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}};

static void link_wait(struct link *l)
{
	pthread_mutex_lock(&l->lock);
	while (l->count == 0)
		pthread_cond_wait(&l->cond, &l->lock);
	l->count--;
	pthread_mutex_unlock(&l->lock);
}

static void link_wake(struct link *l)
{
	pthread_mutex_lock(&l->lock);
	l->count++;
	pthread_mutex_unlock(&l->lock);
	pthread_cond_signal(&l->cond);
}

struct chain {
	int repeats, hops;
	unsigned late_ms; /* that the last one sleeps between its wait and its waking */
	struct loader loader;
	int tcp; /* not the loader but this; below 0: none */
};

static void *chain_hop(void *arg)
{
	const struct chain *c = arg;

	for (int i = 0; i < c->repeats; i++) {
		link_wait(&links[1]);
		link_wake(&links[0]);
	}
	return NULL;
}

static void tcp_wait(int fd)
{
	struct epoll_event e = {.events = EPOLLIN};
	int ep = epoll_create1(EPOLL_CLOEXEC);
	char byte;

	must(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0, "epoll");
	must(epoll_wait(ep, &e, 1, -1) == 1 && read(fd, &byte, 1) == 1, "epoll_wait");
	close(ep);
}

static void *chain_end(void *arg)
{
	const struct chain *c = arg;

	for (int i = 0; i < c->repeats; i++) {
		if (c->tcp < 0)
			take(&c->loader, 5000);
		else
			tcp_wait(c->tcp);
		if (c->late_ms)
			sleep_ms(c->late_ms);
		link_wake(&links[c->hops - 1]);
	}
	return NULL;
}

/* Two ends of a connection over the loopback interface. */
static void tcp_open(int fd[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	must(listener >= 0 && bind(listener, (void *)&at, len) == 0 && listen(listener, 1) == 0 &&
			getsockname(listener, (void *)&at, &len) == 0 && connect(fd[0], (void *)&at, len) == 0,
		"socket");
	fd[1] = accept(listener, NULL, NULL);
	must(fd[1] >= 0, "accept");
	close(listener);
}

/* Another rank: a process that answers each byte after a while. */
static pid_t rank_open(const int ends[2])
{
	pid_t pid = fork();
	int fd = ends[1];
	char byte;

	must(pid >= 0, "fork");
	if (pid) {
		close(fd);
		return pid;
	}
	close(ends[0]);
	while (read(fd, &byte, 1) == 1) {
		sleep_ms(31);
		must(write(fd, &byte, 1) == 1, "write");
	}
	_exit(0);
}

static void chain_run(struct chain *c, enum cause cause, unsigned begin_ms)
{
	pthread_t end, hop;

	must(pthread_create(&end, NULL, chain_end, c) == 0, "pthread_create");
	must(c->hops == 1 || pthread_create(&hop, NULL, chain_hop, c) == 0, "pthread_create");
	for (int i = 0; i < c->repeats; i++) {
		uint64_t start;

		if (c->tcp < 0)
			ask(&c->loader);
		else
			must(write(c->tcp, "", 1) == 1, "write");
		start = now_ns();
		if (begin_ms) {
			sleep_ms(begin_ms);
			did.ns[OTHER] += now_ns() - start;
			start = now_ns();
		}
		link_wait(&links[0]);
		add(cause, start);
		launch();
	}
	pthread_join(end, NULL);
	if (c->hops > 1)
		pthread_join(hop, NULL);
}

static void data_chain(int repeats, int hops, enum cause cause, unsigned begin_ms, unsigned late_ms)
{
	struct chain c = {.repeats = repeats, .hops = hops, .late_ms = late_ms, .tcp = -1};

	loader_open(&c.loader, 31);
	chain_run(&c, cause, begin_ms);
	loader_close(&c.loader);
}

static void run_pin(int repeats)
{
	data_chain(repeats, 1, DATA, 0, 0);
}

static void run_pin_hop(int repeats)
{
	data_chain(repeats, 2, DATA, 0, 0);
}

/* The waker's own wait was over before this one began. */
static void run_stale(int repeats)
{
	data_chain(repeats, 1, OTHER, 37, 19);
}

static void dist_chain(int repeats, int hops)
{
	struct chain c = {.repeats = repeats, .hops = hops};
	int fd[2];
	pid_t rank;

	tcp_open(fd);
	rank = rank_open(fd);
	c.tcp = fd[0];
	chain_run(&c, DIST, 0);
	close(fd[0]);
	waitpid(rank, NULL, 0);
}

static void run_gloo(int repeats)
{
	dist_chain(repeats, 1);
}

static void run_gloo_hop(int repeats)
{
	dist_chain(repeats, 2);
}

static void run_recv(int repeats)
{
	int fd[2];
	pid_t rank;
	char byte;

	tcp_open(fd);
	rank = rank_open(fd);
	while (repeats-- > 0) {
		uint64_t start = now_ns();

		must(write(fd[0], "", 1) == 1 && recv(fd[0], &byte, 1, 0) == 1, "recv");
		add(DIST, start);
		launch();
	}
	close(fd[0]);
	waitpid(rank, NULL, 0);
}

/* ---- a lock that is waited for as Python waits for its own ---- */

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool held;
} lock = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static void lock_take(void)
{
	struct timespec t;

	pthread_mutex_lock(&lock.mutex);
	while (lock.held) {
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += 5 * (long)MS;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&lock.cond, &lock.mutex, &t);
	}
	lock.held = true;
	pthread_mutex_unlock(&lock.mutex);
}

static void lock_give(void)
{
	pthread_mutex_lock(&lock.mutex);
	lock.held = false;
	pthread_mutex_unlock(&lock.mutex);
	pthread_cond_signal(&lock.cond);
}

/* It takes the lock, comes out of a wait for data with the lock held, and gives it to the one that waits for it. */
static void *lock_holder(void *arg)
{
	const struct chain *c = arg;

	for (int i = 0; i < c->repeats; i++) {
		link_wait(&links[1]);
		lock_take();
		link_wake(&links[0]);
		take(&c->loader, 5000);
		lock_give();
	}
	return NULL;
}

static void run_lock(int repeats)
{
	struct chain c = {.repeats = repeats, .tcp = -1};
	pthread_t holder;

	loader_open(&c.loader, 31);
	must(pthread_create(&holder, NULL, lock_holder, &c) == 0, "pthread_create");
	while (repeats-- > 0) {
		uint64_t start;

		link_wake(&links[1]);
		link_wait(&links[0]);
		ask(&c.loader);
		start = now_ns();
		lock_take();
		add(OTHER, start);
		lock_give();
		launch();
	}
	pthread_join(holder, NULL);
	loader_close(&c.loader);
}

/* ---- the rest ---- */

static void sync_times(int repeats, const char *knob, long value, enum cause cause)
{
	api.set(knob, value);
	while (repeats-- > 0) {
		uint64_t start;

		launch();
		start = now_ns();
		must(api.sync(NULL) == 0, "cuStreamSynchronize");
		add(cause, start);
	}
	api.set(knob, 0);
}

static void run_sync_spin(int repeats)
{
	sync_times(repeats, "sync_ns", 29 * (long)MS, GPU);
}

static void run_sync_sleep(int repeats)
{
	sync_times(repeats, "sync_sleep_us", 29000, GPU);
}

static void run_group(int repeats)
{
	api.nccl_set("group_sleep_us", 29000);
	while (repeats-- > 0) {
		uint64_t start;

		launch();
		must(api.group_start() == 0, "ncclGroupStart");
		start = now_ns();
		must(api.group_end() == 0, "ncclGroupEnd");
		add(DIST, start);
	}
	api.nccl_set("group_sleep_us", 0);
}

/* NCCL waits for the GPU before it waits for other ranks. */
static void run_group_sync(int repeats)
{
	api.nccl_set("group_call", (long)api.sync);
	run_group(repeats);
	api.nccl_set("group_call", 0);
}

static jmp_buf outside;

static int leave(void *nothing)
{
	(void)nothing;
	longjmp(outside, 1);
}

/* Deeper in the stack than what is called afterwards. */
static __attribute__((noinline)) void group_leave(void)
{
	volatile char deep[4096] __attribute__((unused));

	deep[0] = 0;
	must(api.group_start() == 0, "ncclGroupStart");
	if (!setjmp(outside))
		api.group_end();
}

/* It works on after it has left a function of NCCL without a return. */
static void run_group_left(int repeats)
{
	api.nccl_set("group_call", (long)leave);
	while (repeats-- > 0) {
		uint64_t start;

		group_leave();
		launch();
		start = now_ns();
		spin_ms(29);
		add(CPU, start);
	}
	api.nccl_set("group_call", 0);
}

static void run_sleep(int repeats)
{
	while (repeats-- > 0) {
		uint64_t start = now_ns();

		sleep_ms(29);
		add(OTHER, start);
		launch();
	}
}

static void run_compute(int repeats)
{
	while (repeats-- > 0) {
		uint64_t start = now_ns();

		spin_ms(29);
		add(CPU, start);
		launch();
	}
}

/* Without a system call, but for the clock's few. */
static void run_spin(int repeats)
{
	uint64_t start = now_ns();

	while (now_ns() - start < (uint64_t)repeats * MS)
		for (volatile int i = 0; i < 1 << 22; i++)
			;
	add(CPU, start);
}

/* An eventfd that another thread writes to after a while. */
static int event_fd;

static void *event_write(void *arg)
{
	sleep_ms((unsigned)(intptr_t)arg);
	must(eventfd_write(event_fd, 1) == 0, "eventfd_write");
	return NULL;
}

static void run_event(int repeats)
{
	pthread_t writer;
	eventfd_t value;
	uint64_t start;

	event_fd = eventfd(0, EFD_CLOEXEC);
	must(event_fd >= 0 && pthread_create(&writer, NULL, event_write, (void *)(intptr_t)repeats) == 0, "eventfd");
	start = now_ns();
	must(eventfd_read(event_fd, &value) == 0, "eventfd_read");
	add(OTHER, start);
	pthread_join(writer, NULL);
	close(event_fd);
}

/* A page that another thread brings in after a while. */
static int fault_fd;

static void *fault_serve(void *arg)
{
	struct uffd_msg msg;

	while (read(fault_fd, &msg, sizeof(msg)) == sizeof(msg) && msg.event == UFFD_EVENT_PAGEFAULT) {
		struct uffdio_zeropage page = {{msg.arg.pagefault.address & ~4095ULL, 4096}, 0, 0};

		sleep_ms(29);
		must(ioctl(fault_fd, UFFDIO_ZEROPAGE, &page) == 0, "UFFDIO_ZEROPAGE");
	}
	return arg;
}

static void run_fault(int repeats)
{
	struct uffdio_api with = {.api = UFFD_API};
	size_t bytes = (size_t)repeats * 4096;
	volatile char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {{(uintptr_t)at, bytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
	pthread_t server;

	fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	must(fault_fd >= 0 && ioctl(fault_fd, UFFDIO_API, &with) == 0 && ioctl(fault_fd, UFFDIO_REGISTER, &range) == 0,
		"userfaultfd");
	must(pthread_create(&server, NULL, fault_serve, NULL) == 0, "pthread_create");
	for (int i = 0; i < repeats; i++) {
		uint64_t start = now_ns();

		at[(size_t)i * 4096] = 1;
		add(IO, start);
		launch();
	}
	pthread_cancel(server);
	pthread_join(server, NULL);
	close(fault_fd);
	munmap((void *)at, bytes);
}

static void on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	must(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

/* Another process wants the same CPU all the time. */
static void run_crowd(int repeats)
{
	pid_t other = fork();
	uint64_t start, cpu;
	cpu_set_t before;

	must(other >= 0 && sched_getaffinity(0, sizeof(before), &before) == 0, "fork");
	on_cpu(0);
	if (other == 0)
		for (;;)
			;
	start = now_ns();
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	while (repeats-- > 0) {
		spin_ms(29);
		launch();
		did.waits++;
	}
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	did.ns[CPU] = cpu;
	did.ns[RUNQUEUE] = now_ns() - start - cpu;
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	sched_setaffinity(0, sizeof(before), &before);
}

/* From one CPU to the other and back; the wait count is that of the moves. */
static void run_moves(int repeats)
{
	cpu_set_t before;

	must(sched_getaffinity(0, sizeof(before), &before) == 0, "sched_getaffinity");
	on_cpu(0);
	for (int i = 0; i < repeats; i++, did.waits++)
		on_cpu((i + 1) % 2);
	sched_setaffinity(0, sizeof(before), &before);
}

/* ---- */

static const struct {
	const char *name;
	void (*run)(int repeats);
} scenario[] = {{"batches", run_batches}, {"retries", run_retries}, {"idle", run_idle}, {"early", run_early},
	{"hold", run_hold}, {"pin", run_pin}, {"pin_hop", run_pin_hop}, {"stale", run_stale}, {"gloo", run_gloo},
	{"gloo_hop", run_gloo_hop}, {"recv", run_recv}, {"lock", run_lock}, {"sync_spin", run_sync_spin},
	{"sync_sleep", run_sync_sleep}, {"group", run_group}, {"group_sync", run_group_sync},
	{"group_left", run_group_left}, {"sleep", run_sleep}, {"compute", run_compute}, {"fault", run_fault},
	{"crowd", run_crowd}, {"moves", run_moves}, {"spin", run_spin}, {"event", run_event}};

static uint64_t status_number(const char *key)
{
	FILE *f = fopen("/proc/thread-self/status", "re");
	unsigned long long n = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			n = strtoull(line + strlen(key), NULL, 10);
	if (f)
		fclose(f);
	return n;
}

static void perform(const char *name, int repeats)
{
	uint64_t start = now_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint64_t voluntary = status_number("voluntary_ctxt_switches:"),
		 other = status_number("nonvoluntary_ctxt_switches:");
	size_t i = 0;

	memset(&did, 0, sizeof(did));
	while (i < sizeof(scenario) / sizeof(scenario[0]) && strcmp(scenario[i].name, name) != 0)
		i++;
	must(i < sizeof(scenario) / sizeof(scenario[0]), name);
	scenario[i].run(repeats);
	printf("{\"late\": %lu, \"waits\": %lu, \"wall\": %lu, \"cpu_time\": %lu, \"voluntary\": %lu, \"involuntary\": %lu",
		did.late, did.waits, now_ns() - start, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu,
		status_number("voluntary_ctxt_switches:") - voluntary,
		status_number("nonvoluntary_ctxt_switches:") - other);
	for (i = 0; i < CAUSES; i++)
		printf(", \"%s\": %lu", cause_name[i], did.ns[i]);
	printf("}\n");
	fflush(stdout);
}

static void *symbol(void *library, const char *name)
{
	void *at = dlsym(library, name);

	must(at != NULL, name);
	return at;
}

static void libraries_open(const char *cuda_path, const char *nccl_path)
{
	void *cuda = dlopen(cuda_path, RTLD_NOW), *nccl = dlopen(nccl_path, RTLD_NOW), *context;

	must(cuda && nccl, "dlopen");
	*(void **)&api.init = symbol(cuda, "cuInit");
	*(void **)&api.retain = symbol(cuda, "cuDevicePrimaryCtxRetain");
	*(void **)&api.current = symbol(cuda, "cuCtxSetCurrent");
	*(void **)&api.launch = symbol(cuda, "cuLaunchKernel");
	*(void **)&api.sync = symbol(cuda, "cuStreamSynchronize");
	*(void **)&api.set = symbol(cuda, "fake_cuda_set");
	*(void **)&api.group_start = symbol(nccl, "ncclGroupStart");
	*(void **)&api.group_end = symbol(nccl, "ncclGroupEnd");
	*(void **)&api.nccl_set = symbol(nccl, "fake_nccl_set");
	must(api.init(0) == 0 && api.retain(&context, 0) == 0 && api.current(context) == 0, "cuInit");
}

static void *idle(void *arg)
{
	for (;;)
		sleep_ms(500);
	return arg;
}

static void idle_begin(int count)
{
	pthread_attr_t small;
	pthread_t thread;

	must(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 16384) == 0, "pthread_attr_init");
	while (count-- > 0)
		must(pthread_create(&thread, &small, idle, NULL) == 0, "pthread_create");
}

int main(int argc, char **argv)
{
	char name[32], line[64];
	int repeats;

	must(argc == 3 || argc == 4, "usage: waiter LIBCUDA LIBNCCL [IDLE]");
	libraries_open(argv[1], argv[2]);
	idle_begin(argc == 4 ? atoi(argv[3]) : 0);
	printf("{}\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		if (sscanf(line, "%31s %d", name, &repeats) == 2)
			perform(name, repeats);
	return 0;
}
