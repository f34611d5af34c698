/* SPDX-License-Identifier: GPL-2.0 */
/*
 * t.h: unit tests; one program per module, header only, no state but these counters.
 *
 *	T(adds) { CHECK_EQ(1 + 1, 2); }
 *	int main(void) { RUN(adds); return t_end(); }
 *
 * t_begin(name) starts a test and ends the one before. RUN() calls it for a function; a function with a
 * table of vectors calls it for each named row instead, and main calls that function plainly. The first
 * three failed checks of a test are printed and the test goes on. A test without any check counts as
 * failed. t_end() prints the one line "N passed, N failed" and returns the exit status.
 */
#ifndef T_H
#define T_H

#include <stdio.h>
#include <string.h>

static const char *t_name = "";
static int t_checks, t_bad, t_passed, t_failed;

#define T(name)   static void name(void)
#define RUN(name) (t_begin(#name), name())
#define T_FAIL(format, ...)                                                                                            \
	do {                                                                                                           \
		if (t_bad++ < 3)                                                                                       \
			fprintf(stderr, "%s:%d: %s: " format "\n", __FILE__, __LINE__, t_name, __VA_ARGS__);           \
	} while (0)
#define CHECK(cond)                                                                                                    \
	do {                                                                                                           \
		t_checks++;                                                                                            \
		if (!(cond))                                                                                           \
			T_FAIL("%s", #cond);                                                                           \
	} while (0)
#define CHECK_EQ(got, want)                                                                                            \
	do {                                                                                                           \
		long long got_ = (long long)(got), want_ = (long long)(want);                                          \
		t_checks++;                                                                                            \
		if (got_ != want_)                                                                                     \
			T_FAIL("%s is %lld (%#llx), not %lld (%#llx)", #got, got_, got_, want_, want_);                \
	} while (0)
#define CHECK_MEM(got, got_len, want, want_len)                                                                        \
	do {                                                                                                           \
		const char *got_ = (got), *want_ = (want);                                                             \
		size_t glen_ = (got_len), wlen_ = (want_len);                                                          \
		t_checks++;                                                                                            \
		if (glen_ != wlen_ || (wlen_ && memcmp(got_, want_, wlen_)))                                           \
			T_FAIL("%s is \"%.*s\", not \"%.*s\"", #got, (int)glen_, got_, (int)wlen_, want_);             \
	} while (0)
#define CHECK_STR(got, want) CHECK_MEM(got, strlen(got), want, strlen(want))

static inline void t_begin(const char *name)
{
	if (*t_name && !t_checks)
		T_FAIL("%s", "checks nothing");
	if (*t_name)
		*(t_bad ? &t_failed : &t_passed) += 1;
	t_name = name;
	t_checks = t_bad = 0;
}

static inline int t_end(void)
{
	t_begin("");
	printf("%d passed, %d failed\n", t_passed, t_failed);
	return t_failed || !t_passed;
}

#endif
