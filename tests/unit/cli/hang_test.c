/* SPDX-License-Identifier: GPL-2.0 */
/* hang_test.c: the record of a hang as text, of records that are whole, empty, or of somebody who means harm. */
#include "zernel.h"
#include "t.h"

#include <string.h>

static char text[1 << 14];

static const char *page(const char *json)
{
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};

	zn_hang_page(&o, (struct zn_str){json, strlen(json)});
	text[o.len] = 0;
	return text;
}

T(a_record)
{
	CHECK_STR(
		page("{\"job_id\":\"7\",\"node\":\"n1\",\"episode\":2,\"alert\":\"nccl_hang\",\"says\":\"rank 2\","
		     "\"missing\":{\"pid\":10,\"rank\":2,\"says\":\"sleeps\",\"waited_for_s\":11.5},"
		     "\"labels\":[{\"key\":\"epoch\",\"value\":\"3\"},{\"key\":\"phase\",\"value\":\"a b\"}],"
		     "\"threads\":{\"pid\":10,\"count\":1,\"seen\":[{\"tid\":10,\"name\":\"a\",\"state\":\"S\","
		     "\"wchan\":\"pipe_read\",\"syscall\":\"0 0x4\"}]},"
		     "\"memory\":{\"used_bytes\":5,\"limit_bytes\":9,\"oom_kills\":0},"
		     "\"gpu_errors\":[{\"pci\":\"0000:01:00.0\",\"xid\":79,\"times\":1},"
		     "{\"pci\":\"0000:01:00.0\",\"xid\":145,\"nonfatal\":\"yes\",\"times\":2}],"
		     "\"processes\":[{\"pid\":10,\"progress_s_ago\":12,\"stalls\":{\"says\":\"it sleeps\"}}],"
		     "\"communicators\":[{\"comm\":\"ab\",\"nranks\":4,\"ranks\":[{\"rank\":2,\"pid\":10,\"issued\":3,"
		     "\"last_s_ago\":12.5}]}]}"),
		"nccl_hang: rank 2\njob 7, node n1, hang 2 of it\nrank 2, process 10 sleeps; waited for 11.5s\n"
		"memory of its control group: 5B of 9B; processes killed for want of it: 0\n"
		"the job said of itself: epoch=3 phase=a b\n"
		"\nProcesses:\n  10  last progress 12.0s ago  it sleeps\n"
		"\nThreads of the process that is waited for:\n  10 S a  in pipe_read  system call 0 0x4\n"
		"\nCommunicators:\ncommunicator ab of 4 ranks\n"
		"  rank 2  process 10  collectives issued: 3, the last one 12.5s ago\n"
		"\nErrors of GPUs since the daemon started:\n  GPU at 0000:01:00.0: XID 79, times: 1\n"
		"  GPU at 0000:01:00.0: XID 145, nonfatal: yes, times: 2\n");
}

T(what_is_not_there_is_left_out)
{
	CHECK_STR(page("{}"), "");
	CHECK_STR(page("{\"job_id\":null,\"threads\":null,\"memory\":null,\"communicators\":[]}"), "");
	CHECK_STR(page("{\"processes\":[1,null,{}]}"), "\nProcesses:\n\n\n\n");
	page("{\"missing\":{\"waited_for_s\":\"x\"},\"memory\":{\"used_bytes\":-1},\"processes\":[{\"progress_s_ago\":1e300}]}");
}

T(control_bytes_do_not_get_through)
{
	page("{\"says\":\"\\u001b]0;title\\u0007\\u009b31m\\r\\n\",\"node\":\"\\u202e\"}");
	for (const char *at = text; *at; at++)
		CHECK((*at >= ' ' && *at <= '~') || *at == '\n');
	CHECK(strstr(text, "?]0;title?") != NULL);
}

int main(void)
{
	RUN(a_record);
	RUN(what_is_not_there_is_left_out);
	RUN(control_bytes_do_not_get_through);
	return t_end();
}
