/* SPDX-License-Identifier: GPL-2.0 */
/* http_answer.c: writes the head of an answer (RFC 9110, RFC 9112). */
#include "zernel.h"

#define LAST_SECOND 253402300799LL /* 9999-12-31 23:59:59 */
#define DAY_S       86400

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{100, "Continue"},
	{101, "Switching Protocols"},
	{200, "OK"},
	{204, "No Content"},
	{304, "Not Modified"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{406, "Not Acceptable"},
	{408, "Request Timeout"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{417, "Expectation Failed"},
	{421, "Misdirected Request"},
	{426, "Upgrade Required"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{503, "Service Unavailable"},
	{505, "HTTP Version Not Supported"},
};

const char *zn_http_reason(int status)
{
	for (size_t i = 0; i < ZN_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}

static void out_two(struct zn_out *o, int64_t v, char after)
{
	zn_out_char(o, (char)('0' + v / 10));
	zn_out_char(o, (char)('0' + v % 10));
	zn_out_char(o, after);
}

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* IMF-fixdate, RFC 9110 section 5.6.7. By hand: gmtime_r() of glibc reads files and allocates. */
static void out_date(struct zn_out *o, int64_t s)
{
	static const char weekdays[] = "ThuFriSatSunMonTueWed", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int64_t days = s / DAY_S, year = 1970;
	size_t month = 0;

	zn_out_bytes(o, weekdays + days % 7 * 3, 3);
	zn_out_text(o, ", ");
	for (; days >= 365 + is_leap(year); year++)
		days -= 365 + is_leap(year);
	for (; days >= lengths[month] + (month == 1 && is_leap(year)); month++)
		days -= lengths[month] + (month == 1 && is_leap(year));
	out_two(o, days + 1, ' ');
	zn_out_bytes(o, months + month * 3, 3);
	zn_out_char(o, ' ');
	zn_out_i64(o, year);
	zn_out_char(o, ' ');
	out_two(o, s / 3600 % 24, ':');
	out_two(o, s / 60 % 60, ':');
	out_two(o, s % 60, ' ');
	zn_out_text(o, "GMT");
}

static void out_line(struct zn_out *o, const char *name, const char *value)
{
	zn_out_text(o, name);
	zn_out_text(o, ": ");
	zn_out_text(o, value);
	zn_out_text(o, "\r\n");
}

/* RFC 9110 section 8.6; that of 304 would be the length of what is not sent, which nobody knows here. */
static bool has_length(const struct zn_http_res *res)
{
	return !res->no_length && res->status >= 200 && res->status != 204 && res->status != 304;
}

void zn_http_head(struct zn_out *o, const struct zn_http_res *res)
{
	zn_out_text(o, "HTTP/1.1 ");
	zn_out_i64(o, res->status);
	zn_out_char(o, ' ');
	zn_out_text(o, zn_http_reason(res->status));
	zn_out_text(o, "\r\nServer: zerneld\r\n");
	if (res->date_s >= 0 && res->date_s <= LAST_SECOND) {
		zn_out_text(o, "Date: ");
		out_date(o, res->date_s);
		zn_out_text(o, "\r\n");
	}
	if (res->type)
		out_line(o, "Content-Type", res->type);
	if (has_length(res)) {
		zn_out_text(o, "Content-Length: ");
		zn_out_u64(o, res->length);
		zn_out_text(o, "\r\n");
	}
	if (res->close || res->keep_alive)
		out_line(o, "Connection", res->close ? "close" : "keep-alive");
	zn_out_text(o, res->extra ? res->extra : "");
	zn_out_text(o, "\r\n");
}
