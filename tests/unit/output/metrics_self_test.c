/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_self_test.c: series of the daemon itself (metrics_self.c, self.c): its probes, its clients, its own
 * cost.
 */
#include <fcntl.h>
#include <unistd.h>

#include "metrics.h"

T(probes_of_two_files_at_one_path)
{
	start_live("/home/u/libcuda.so.1");
	view.http = &http;
	memory.arena.shared->lost[ZN_LOST_MISSED] = 4;
	http.lost[ZN_LOST_WS_FRAME] = 5;
	render(true);
	CHECK_EQ(count_with("zernel_probe_attached{"), 4);
	CHECK_EQ(count_with("symbol=\"ncclAllReduce\""), 0);
	CHECK_STR(value_of("zernel_probe_attached{family=\"cuda_trace\",symbol=\"cuLaunchKernel\","
			   "library=\"/home/u/libcuda.so.1@801:100\"}"),
		"1");
	CHECK_STR(value_of("zernel_probe_attached{family=\"gpu_mem\",symbol=\"cuMemAlloc_v2\","
			   "library=\"/home/u/libcuda.so.1@801:101\"}"),
		"0");
	CHECK_STR(value_of("zernel_probe_bias_seconds{first_instruction=\"push\",quantile=\"0.5\"}"), "0.000004");
	CHECK_STR(value_of("zernel_probe_bias_seconds_count{first_instruction=\"nop\"}"), "absent");
	CHECK_STR(value_of("zernel_probe_run_seconds_total{program=\"cuda_entry\"}"), "1.5");
	CHECK_EQ(count_with("zernel_probe_run_seconds_total{"), 1);
	CHECK_STR(value_of("zernel_lost_total{what=\"missed\"}"), "35");
	CHECK_STR(value_of("zernel_lost_total{what=\"ws_frame\"}"), "5");
	CHECK_STR(value_of("zernel_lost_total{what=\"ws_client\"}"), "0");
	CHECK_STR(value_of("zernel_table_entries{table=\"libraries\"}"), "2");
}

static const struct {
	const char *name, *path, *label;
} paths[] = {
	{"path: quotes", "/a\"b\\c\nd", "/a\\\"b\\\\c\\nd"},
	{"path: ends in a backslash", "/a\\", "/a\\\\"},
	{"path: not UTF-8", "/\xff\xc3", "/\xef\xbf\xbd\xef\xbf\xbd"},
	{"path: UTF-8", "/\xc3\xa9", "/\xc3\xa9"},
	{"path: forged series", "/x\"} 1\nzernel_forged 1", "/x\\\"} 1\\nzernel_forged 1"},
	{"path: other control characters", "/\r\t\x01\x7f", "/\r\t\x01\x7f"},
};

static void hostile_paths(void)
{
	char want[512];

	for (size_t i = 0; i < ZN_LEN(paths); i++) {
		t_begin(paths[i].name);
		start_live(paths[i].path);
		render(false);
		snprintf(want, sizeof(want),
			"zernel_probe_attached{family=\"cuda_trace\",symbol=\"cuLaunchKernel\",library=\"%s@801:100\"}",
			paths[i].label);
		CHECK_STR(value_of(want), "1");
	}
}

/* The longest path there can be, of each byte in turn. */
T(long_paths)
{
	char path[ZN_TEXT_MAX] = "";

	for (int byte = 1; byte < 256; byte++) {
		memset(path, byte, sizeof(path) - 1);
		start_live(path);
		strcpy(view.release, "\"\\\n\xff");
		memset(probe.hook[0].name, 'x', sizeof(probe.hook[0].name) - 1);
		render(byte & 1);
		CHECK_EQ(count_with("zernel_probe_attached{"), 4);
		CHECK_EQ(count_with(":101\"}"), 2);
	}
}

static const struct {
	char byte;
	const char *label;
} specials[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\x80', "\xef\xbf\xbd"}, {'\xff', "\xef\xbf\xbd"},
	{'!', "!"}, {'#', "#"}, {'[', "["}, {']', "]"}, {'\x0b', "\x0b"}, {'\t', "\t"}, {'\x01', "\x01"},
	{'\x7f', "\x7f"}};

/* Each byte that has to be escaped, and its neighbours, at each place of a label of each length. */
T(values_of_each_length)
{
	char want[256];

	start();
	for (size_t len = 0; len <= 40; len++) {
		for (size_t at = 0; at <= len; at++) {
			size_t i = (len + at) % ZN_LEN(specials);

			memset(view.release, 'x', len);
			view.release[len] = 0;
			snprintf(want, sizeof(want), "zernel_kernel_info{release=\"%s\"}", view.release);
			if (at < len) {
				view.release[at] = specials[i].byte;
				snprintf(want, sizeof(want), "zernel_kernel_info{release=\"%.*s%s%s\"}", (int)at,
					view.release, specials[i].label, view.release + at + 1);
			}
			render(false);
			CHECK_STR(value_of(want), "1");
		}
	}
}

T(requests_by_path_and_code)
{
	start();
	view.http = &http;
	http.path[0] = "/metrics";
	http.path[1] = "/json";
	http.requests[0][ZN_CODE_200] = 5;
	http.requests[1][ZN_CODE_405] = 6;
	http.requests[ZN_ROUTES_MAX][ZN_CODE_404] = 7;
	http.lost[ZN_LOST_PEER] = 11;
	http.lost[ZN_LOST_TRUNCATED] = 12;
	http.conn_count = 8;
	options.max_connections = 1000;
	http.ws_count = 9;
	view.ticks = 10;
	render(false);
	CHECK_EQ(count_with("zernel_http_requests_total{"), 3);
	CHECK_STR(value_of("zernel_http_requests_total{path=\"/metrics\",code=\"200\"}"), "5");
	CHECK_STR(value_of("zernel_http_requests_total{path=\"/json\",code=\"405\"}"), "6");
	CHECK_STR(value_of("zernel_http_requests_total{path=\"other\",code=\"404\"}"), "7");
	CHECK_STR(value_of("zernel_http_connections"), "8");
	CHECK_STR(value_of("zernel_ws_clients"), "9");
	CHECK_STR(value_of("zernel_ticks_total"), "10");
	CHECK_STR(value_of("zernel_table_entries{table=\"connections\"}"), "8");
	CHECK_STR(value_of("zernel_table_limit{table=\"connections\"}"), "1000");
	CHECK_STR(value_of("zernel_lost_total{what=\"peer\"}"), "11");
	CHECK_STR(value_of("zernel_lost_total{what=\"truncated\"}"), "12");
}

T(a_scrape_is_timed)
{
	start_simulated();
	view.http = &http;
	http.scrape_ns = 1234567;
	render(false);
	CHECK_STR(value_of("zernel_scrape_render_seconds"), "0.001234567");
}

static uint64_t fds_open(void)
{
	uint64_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The time of day is set while the daemon runs. What began 5 s before is told by the new one, in all forms. */
T(the_clock_is_set)
{
	static const int64_t by_ms[] = {7LL * 365 * 86400 * 1000, -3600 * 1000, -ZN_CLOCK_STEP_MS, 500, -500};

	for (size_t i = 0; i < ZN_LEN(by_ms); i++) {
		bool is_step = by_ms[i] >= ZN_CLOCK_STEP_MS || by_ms[i] <= -ZN_CLOCK_STEP_MS;
		uint64_t now_ms, shown_ms;

		start();
		view.start_ns = zn_now_ns() - 5 * ZN_NS_PER_S;
		now_ms = zn_wall_ms();
		view.start_wall_ms = now_ms - 5000 - (uint64_t)by_ms[i];
		zn_state_tick(&view);
		shown_ms = is_step ? now_ms - 5000 : now_ms - 5000 - (uint64_t)by_ms[i];
		CHECK(view.start_wall_ms + 20 >= shown_ms && view.start_wall_ms <= shown_ms + (is_step ? 900 : 0));
		CHECK_EQ(zn_state_wall_ms(&view, view.start_ns), view.start_wall_ms);
		render(false);
		CHECK(strtod(value_of("process_start_time_seconds"), NULL) * 1000 >= (double)view.start_wall_ms - 1);
		CHECK(strtod(value_of("process_start_time_seconds"), NULL) * 1000 <= (double)view.start_wall_ms + 1);
	}
}

T(figures_of_the_daemon)
{
	uint64_t before = fds_open();
	int fd[3];

	start();
	zn_state_tick(&view);
	CHECK_EQ(view.open_fds, before);
	CHECK(view.resident_bytes > 100000);
	for (size_t i = 0; i < ZN_LEN(fd); i++)
		fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	zn_state_tick(&view);
	CHECK_EQ(view.open_fds, before + ZN_LEN(fd));
	for (size_t i = 0; i < ZN_LEN(fd); i++)
		close(fd[i]);
	view.resident_bytes = 12345;
	render(false);
	CHECK_STR(value_of("process_resident_memory_bytes"), "12345");
	CHECK(strtod(value_of("process_cpu_seconds_total"), NULL) > 0);
}

int main(void)
{
	RUN(probes_of_two_files_at_one_path);
	hostile_paths();
	RUN(long_paths);
	RUN(values_of_each_length);
	RUN(requests_by_path_and_code);
	RUN(a_scrape_is_timed);
	RUN(the_clock_is_set);
	RUN(figures_of_the_daemon);
	return t_end();
}
