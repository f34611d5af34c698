/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ws_cases.h: 301 cases of what a WebSocket client may send to a server that echoes, and the exact bytes that must come
 * back. Their numbers are those of the public Autobahn suite, of which each case of groups 1 to 7, 9 and 10 is here:
 * 16 + 11 + 7 + 10 + 20 + 145 + 37 + 54 + 1. Groups 12 and 13 are about compression, which is declined. The text is our
 * own. A suite that waits a second between two parts waits here for the answer that must have come by then instead.
 */
#ifndef WS_CASES_H
#define WS_CASES_H

#include "zernel.h"

#define WS_CASES  301
#define WS_ENDS   16
#define WS_BYTES  (20 << 20) /* the longest of them, with room */
#define BY_FRAMES UINT32_MAX

struct ws_case {
	char name[16];
	uint32_t chop;      /* bytes of a segment; 0: all at once */
	struct zn_out send; /* with masks */
	struct zn_out want; /* all that comes back, up to the end of the connection */
	size_t sync,
		sync_want; /* after `sync` bytes sent, `sync_want` must be back before more is sent; 0: no such place */
	size_t end[WS_ENDS]; /* of the first frames in send */
	uint32_t frames;
};

/* A frame, first byte and payload; op SYNC: a place to wait, so many bytes before the end of what was built so far. */
#define SYNC 0x100
struct ws_frame {
	int first;
	const char *at; /* NULL: no more frames */
	uint32_t len;
};
#define F(first, text)                                                                                                 \
	{                                                                                                              \
		first, text, sizeof(text) - 1                                                                          \
	}
#define STARS(first, len)                                                                                              \
	{                                                                                                              \
		first, ws_stars, len                                                                                   \
	}
#define OTHER(first, len)                                                                                              \
	{                                                                                                              \
		first, ws_other, len                                                                                   \
	}
#define SYNCED(back)                                                                                                   \
	{                                                                                                              \
		SYNC, "", back                                                                                         \
	}
#define TEXT(text)   F(0x81, text)
#define FAILED(code) F(0x88, code)
#define PROTOCOL     FAILED("\x03\xea")
#define BAD_TEXT     FAILED("\x03\xef")
#define KOSME        "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"
#define GREETING     "Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!"
#define REASON_20    "12345678901234567890"
#define REASON_123   REASON_20 REASON_20 REASON_20 REASON_20 REASON_20 REASON_20 "123"

static char ws_stars[16 << 20], ws_other[16 << 20]; /* text, and what is no text */

/* Where the last frame wanted is no Close, a Close with 1000 ends the case, and comes back. */
static const struct ws_row {
	const char *name;
	uint32_t chop;
	struct ws_frame send[8], want[6];
} ws_rows[] = {
	{"1.1.1", 0, {TEXT("")}, {TEXT("")}},
	{"1.1.2", 0, {STARS(0x81, 125)}, {STARS(0x81, 125)}},
	{"1.1.3", 0, {STARS(0x81, 126)}, {STARS(0x81, 126)}},
	{"1.1.4", 0, {STARS(0x81, 127)}, {STARS(0x81, 127)}},
	{"1.1.5", 0, {STARS(0x81, 128)}, {STARS(0x81, 128)}},
	{"1.1.6", 0, {STARS(0x81, 65535)}, {STARS(0x81, 65535)}},
	{"1.1.7", 0, {STARS(0x81, 65536)}, {STARS(0x81, 65536)}},
	{"1.1.8", 997, {STARS(0x81, 65536)}, {STARS(0x81, 65536)}},
	{"1.2.1", 0, {F(0x82, "")}, {F(0x82, "")}},
	{"1.2.2", 0, {OTHER(0x82, 125)}, {OTHER(0x82, 125)}},
	{"1.2.3", 0, {OTHER(0x82, 126)}, {OTHER(0x82, 126)}},
	{"1.2.4", 0, {OTHER(0x82, 127)}, {OTHER(0x82, 127)}},
	{"1.2.5", 0, {OTHER(0x82, 128)}, {OTHER(0x82, 128)}},
	{"1.2.6", 0, {OTHER(0x82, 65535)}, {OTHER(0x82, 65535)}},
	{"1.2.7", 0, {OTHER(0x82, 65536)}, {OTHER(0x82, 65536)}},
	{"1.2.8", 997, {OTHER(0x82, 65536)}, {OTHER(0x82, 65536)}},

	{"2.1", 0, {F(0x89, "")}, {F(0x8a, "")}},
	{"2.2", 0, {F(0x89, "ping me")}, {F(0x8a, "ping me")}},
	{"2.3", 0, {F(0x89, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff")}, {F(0x8a, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff")}},
	{"2.4", 0, {OTHER(0x89, 125)}, {OTHER(0x8a, 125)}},
	{"2.5", 0, {OTHER(0x89, 126)}, {PROTOCOL}},
	{"2.6", 1, {OTHER(0x89, 125)}, {OTHER(0x8a, 125)}},
	{"2.7", 0, {F(0x8a, "")}, {{0}}},
	{"2.8", 0, {F(0x8a, "not asked for")}, {{0}}},
	{"2.9", 0, {F(0x8a, "not asked for"), F(0x89, "asked")}, {F(0x8a, "asked")}},

	{"3.1", 0, {F(0x91, "one")}, {PROTOCOL}},
	{"3.2", 0, {TEXT("one"), F(0xa1, "two"), F(0x89, "")}, {TEXT("one"), PROTOCOL}},
	{"3.3", BY_FRAMES, {TEXT("one"), F(0xb1, "two"), F(0x89, "")}, {TEXT("one"), PROTOCOL}},
	{"3.4", 1, {TEXT("one"), F(0xc1, "two"), F(0x89, "")}, {TEXT("one"), PROTOCOL}},
	{"3.5", 0, {F(0xd2, "\x00\xff")}, {PROTOCOL}},
	{"3.6", 0, {F(0xe9, "ping")}, {PROTOCOL}},
	{"3.7", 0, {F(0xf8, "\x03\xe8")}, {PROTOCOL}},

	{"4.1.1", 0, {F(0x83, "")}, {PROTOCOL}},
	{"4.1.2", 0, {F(0x84, "reserved")}, {PROTOCOL}},
	{"4.1.3", 0, {TEXT("one"), F(0x85, ""), F(0x89, "")}, {TEXT("one"), PROTOCOL}},
	{"4.1.4", BY_FRAMES, {TEXT("one"), F(0x86, "reserved"), F(0x89, "")}, {TEXT("one"), PROTOCOL}},
	{"4.1.5", 1, {TEXT("one"), F(0x87, "reserved"), F(0x89, "")}, {TEXT("one"), PROTOCOL}},
	{"4.2.1", 0, {F(0x8b, "")}, {PROTOCOL}},
	{"4.2.2", 0, {F(0x8c, "reserved")}, {PROTOCOL}},
	{"4.2.3", 0, {TEXT("one"), F(0x8d, ""), F(0x89, "")}, {TEXT("one"), PROTOCOL}},
	{"4.2.4", BY_FRAMES, {TEXT("one"), F(0x8e, "reserved"), F(0x89, "")}, {TEXT("one"), PROTOCOL}},
	{"4.2.5", 1, {TEXT("one"), F(0x8f, "reserved"), F(0x89, "")}, {TEXT("one"), PROTOCOL}},

	{"5.1", 0, {F(0x09, "one"), F(0x80, "two")}, {PROTOCOL}},
	{"5.2", 0, {F(0x0a, "one"), F(0x80, "two")}, {PROTOCOL}},
	{"5.3", 0, {F(0x01, "one"), F(0x80, "two")}, {TEXT("onetwo")}},
	{"5.4", BY_FRAMES, {F(0x01, "one"), F(0x80, "two")}, {TEXT("onetwo")}},
	{"5.5", 1, {F(0x01, "one"), F(0x80, "two")}, {TEXT("onetwo")}},
	{"5.6", 0, {F(0x01, "one"), F(0x89, "ping"), F(0x80, "two")}, {F(0x8a, "ping"), TEXT("onetwo")}},
	{"5.7", BY_FRAMES, {F(0x01, "one"), F(0x89, "ping"), F(0x80, "two")}, {F(0x8a, "ping"), TEXT("onetwo")}},
	{"5.8", 1, {F(0x01, "one"), F(0x89, "ping"), F(0x80, "two")}, {F(0x8a, "ping"), TEXT("onetwo")}},
	{"5.9", 0, {F(0x80, "nothing to continue"), TEXT("one")}, {PROTOCOL}},
	{"5.10", BY_FRAMES, {F(0x80, "nothing to continue"), TEXT("one")}, {PROTOCOL}},
	{"5.11", 1, {F(0x80, "nothing to continue"), TEXT("one")}, {PROTOCOL}},
	{"5.12", 0, {F(0x00, "nothing to continue"), TEXT("one")}, {PROTOCOL}},
	{"5.13", BY_FRAMES, {F(0x00, "nothing to continue"), TEXT("one")}, {PROTOCOL}},
	{"5.14", 1, {F(0x00, "nothing to continue"), TEXT("one")}, {PROTOCOL}},
	{"5.15", 0, {F(0x01, "one"), F(0x80, "two"), F(0x00, "nothing to continue"), TEXT("three")},
		{TEXT("onetwo"), PROTOCOL}},
	{"5.16", 0, {F(0x00, "a"), F(0x01, "b"), F(0x80, "c"), F(0x00, "d"), F(0x01, "e"), F(0x80, "f")}, {PROTOCOL}},
	{"5.17", 0, {F(0x80, "a"), F(0x01, "b"), F(0x80, "c"), F(0x80, "d"), F(0x01, "e"), F(0x80, "f")}, {PROTOCOL}},
	{"5.18", 0, {F(0x01, "one"), TEXT("two")}, {PROTOCOL}},
	{"5.19", BY_FRAMES,
		{F(0x01, "one"), F(0x00, "two"), F(0x89, "ping 1"), SYNCED(0), F(0x00, "three"), F(0x00, "four"),
			F(0x89, "ping 2"), F(0x80, "five")},
		{F(0x8a, "ping 1"), F(0x8a, "ping 2"), TEXT("onetwothreefourfive")}},
	{"5.20", 0,
		{F(0x01, "one"), F(0x00, "two"), F(0x89, "ping 1"), F(0x00, "three"), F(0x00, "four"),
			F(0x89, "ping 2"), F(0x80, "five")},
		{F(0x8a, "ping 1"), F(0x8a, "ping 2"), TEXT("onetwothreefourfive")}},

	{"6.1.1", 0, {TEXT("")}, {TEXT("")}},
	{"6.1.2", 0, {F(0x01, ""), F(0x00, ""), F(0x80, "")}, {TEXT("")}},
	{"6.1.3", 0, {F(0x01, ""), F(0x00, "in the middle"), F(0x80, "")}, {TEXT("in the middle")}},
	{"6.2.1", 0, {TEXT(GREETING)}, {TEXT(GREETING)}},
	{"6.2.2", 0, {F(0x01, "Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4"), F(0x80, "\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!")},
		{TEXT(GREETING)}},
	{"6.4.1", BY_FRAMES, {F(0x01, KOSME), F(0x00, "\xf4\x90\x80\x80"), SYNCED(0), F(0x80, "edited")}, {BAD_TEXT}},
	{"6.4.2", BY_FRAMES,
		{F(0x01, KOSME "\xf4"), F(0x00, "\x90"), SYNCED(0),
			F(0x80,
				"\x80\x80"
				"edited")},
		{BAD_TEXT}},
	{"6.4.3", 0,
		{TEXT(KOSME "\xf4\x90\x80\x80"
			    "edited"),
			SYNCED(6)},
		{BAD_TEXT}},
	{"6.4.4", 0,
		{TEXT(KOSME "\xf4\x90\x80\x80"
			    "edited"),
			SYNCED(8)},
		{BAD_TEXT}},

	{"7.1.1", 0, {TEXT("one")}, {TEXT("one")}},
	{"7.1.2", 0, {F(0x88, "\x03\xe8"), F(0x88, "\x03\xe9")}, {F(0x88, "\x03\xe8")}},
	{"7.1.3", 0, {F(0x88, "\x03\xe8"), F(0x89, "late")}, {F(0x88, "\x03\xe8")}},
	{"7.1.4", 0, {F(0x88, "\x03\xe8"), TEXT("late")}, {F(0x88, "\x03\xe8")}},
	{"7.1.5", 0, {F(0x01, "one"), F(0x88, "\x03\xe8"), F(0x80, "two")}, {F(0x88, "\x03\xe8")}},
	{"7.1.6", 0, {STARS(0x81, 256 << 10), F(0x88, "\x03\xe8"), F(0x89, "late")},
		{STARS(0x81, 256 << 10), F(0x88, "\x03\xe8")}},
	{"7.3.1", 0, {F(0x88, "")}, {F(0x88, "")}},
	{"7.3.2", 0, {F(0x88, "\x03")}, {PROTOCOL}},
	{"7.3.3", 0, {F(0x88, "\x03\xe8")}, {F(0x88, "\x03\xe8")}},
	{"7.3.4", 0, {F(0x88, "\x03\xe8Hello World!")}, {F(0x88, "\x03\xe8")}},
	{"7.3.5", 0, {F(0x88, "\x03\xe8" REASON_123)}, {F(0x88, "\x03\xe8")}},
	{"7.3.6", 0, {F(0x88, "\x03\xe8" REASON_123 "4")}, {PROTOCOL}},
	{"7.5.1", 0,
		{F(0x88,
			"\x03\xe8" KOSME "\xed\xa0\x80"
			"edited")},
		{BAD_TEXT}},
};

/* A text of one frame, group by group; the number within a group is its place. */
#define GOOD(group, text)                                                                                              \
	{                                                                                                              \
		group, true,                                                                                           \
		{                                                                                                      \
			text, sizeof(text) - 1                                                                         \
		}                                                                                                      \
	}
#define BAD(group, text)                                                                                               \
	{                                                                                                              \
		group, false,                                                                                          \
		{                                                                                                      \
			text, sizeof(text) - 1                                                                         \
		}                                                                                                      \
	}
static const struct {
	uint8_t group;
	bool good;
	struct zn_str text;
} ws_texts[] = {
	/* characters of one to four bytes */
	GOOD(5, "hello$world"),
	GOOD(5, "hello\xc2\xa2world"),
	GOOD(5, "hello\xe2\x82\xacworld"),
	GOOD(5, "hello\xf0\xa4\xad\xa2world"),
	GOOD(5, KOSME),
	/* 6.6 are the beginnings of KOSME: see ws_run_texts() */
	/* the first and the last of a length; the others are above U+10FFFF */
	GOOD(7, "\0"),
	GOOD(7, "\xc2\x80"),
	GOOD(7, "\xe0\xa0\x80"),
	GOOD(7, "\xf0\x90\x80\x80"),
	BAD(8, "\xf8\x88\x80\x80\x80"),
	BAD(8, "\xfc\x84\x80\x80\x80\x80"),
	GOOD(9, "\x7f"),
	GOOD(9, "\xdf\xbf"),
	GOOD(9, "\xef\xbf\xbf"),
	GOOD(9, "\xf4\x8f\xbf\xbf"),
	BAD(10, "\xf7\xbf\xbf\xbf"),
	BAD(10, "\xfb\xbf\xbf\xbf\xbf"),
	BAD(10, "\xfd\xbf\xbf\xbf\xbf\xbf"),
	/* around the surrogates, and around the end */
	GOOD(11, "\xed\x9f\xbf"),
	GOOD(11, "\xee\x80\x80"),
	GOOD(11, "\xef\xbf\xbd"),
	GOOD(11, "\xf4\x8f\xbf\xbf"),
	BAD(11, "\xf4\x90\x80\x80"),
	/* continuation bytes without a start */
	BAD(12, "\x80"),
	BAD(12, "\xbf"),
	BAD(12, "\x80\xbf"),
	BAD(12, "\x80\xbf\x80"),
	BAD(12, "\x80\xbf\x80\xbf"),
	BAD(12, "\x80\xbf\x80\xbf\x80"),
	BAD(12, "\x80\xbf\x80\xbf\x80\xbf"),
	BAD(12,
		"\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99"
		"\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf\xb0\xb1\xb2\xb3"
		"\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf"),
	/* starts without a continuation, a space after each */
	BAD(13,
		"\xc0 \xc1 \xc2 \xc3 \xc4 \xc5 \xc6 \xc7 \xc8 \xc9 \xca \xcb \xcc \xcd \xce \xcf \xd0 \xd1 \xd2 \xd3 \xd4 "
		"\xd5 \xd6 \xd7 \xd8 \xd9 \xda \xdb \xdc \xdd \xde \xdf "),
	BAD(13, "\xe0 \xe1 \xe2 \xe3 \xe4 \xe5 \xe6 \xe7 \xe8 \xe9 \xea \xeb \xec \xed \xee \xef "),
	BAD(13, "\xf0 \xf1 \xf2 \xf3 \xf4 \xf5 \xf6 \xf7 "),
	BAD(13, "\xf8 \xf9 \xfa \xfb "),
	BAD(13, "\xfc \xfd "),
	/* the last byte is missing; all of them in a row */
	BAD(14, "\xc0"),
	BAD(14, "\xe0\x80"),
	BAD(14, "\xf0\x80\x80"),
	BAD(14, "\xf8\x80\x80\x80"),
	BAD(14, "\xfc\x80\x80\x80\x80"),
	BAD(14, "\xdf"),
	BAD(14, "\xef\xbf"),
	BAD(14, "\xf7\xbf\xbf"),
	BAD(14, "\xfb\xbf\xbf\xbf"),
	BAD(14, "\xfd\xbf\xbf\xbf\xbf"),
	BAD(15,
		"\xc0\xe0\x80\xf0\x80\x80\xf8\x80\x80\x80\xfc\x80\x80\x80\x80\xdf\xef\xbf\xf7\xbf\xbf\xfb\xbf\xbf\xbf\xfd"
		"\xbf\xbf\xbf\xbf"),
	/* bytes that never occur */
	BAD(16, "\xfe"),
	BAD(16, "\xff"),
	BAD(16, "\xfe\xfe\xff\xff"),
	/* longer than needed: '/', the largest of each length, NUL */
	BAD(17, "\xc0\xaf"),
	BAD(17, "\xe0\x80\xaf"),
	BAD(17, "\xf0\x80\x80\xaf"),
	BAD(17, "\xf8\x80\x80\x80\xaf"),
	BAD(17, "\xfc\x80\x80\x80\x80\xaf"),
	BAD(18, "\xc1\xbf"),
	BAD(18, "\xe0\x9f\xbf"),
	BAD(18, "\xf0\x8f\xbf\xbf"),
	BAD(18, "\xf8\x87\xbf\xbf\xbf"),
	BAD(18, "\xfc\x83\xbf\xbf\xbf\xbf"),
	BAD(19, "\xc0\x80"),
	BAD(19, "\xe0\x80\x80"),
	BAD(19, "\xf0\x80\x80\x80"),
	BAD(19, "\xf8\x80\x80\x80\x80"),
	BAD(19, "\xfc\x80\x80\x80\x80\x80"),
	/* surrogates, alone and in pairs */
	BAD(20, "\xed\xa0\x80"),
	BAD(20, "\xed\xad\xbf"),
	BAD(20, "\xed\xae\x80"),
	BAD(20, "\xed\xaf\xbf"),
	BAD(20, "\xed\xb0\x80"),
	BAD(20, "\xed\xbe\x80"),
	BAD(20, "\xed\xbf\xbf"),
	BAD(21, "\xed\xa0\x80\xed\xb0\x80"),
	BAD(21, "\xed\xa0\x80\xed\xbf\xbf"),
	BAD(21, "\xed\xad\xbf\xed\xb0\x80"),
	BAD(21, "\xed\xad\xbf\xed\xbf\xbf"),
	BAD(21, "\xed\xae\x80\xed\xb0\x80"),
	BAD(21, "\xed\xae\x80\xed\xbf\xbf"),
	BAD(21, "\xed\xaf\xbf\xed\xb0\x80"),
	BAD(21, "\xed\xaf\xbf\xed\xbf\xbf"),
	/* code points that are no characters: valid all the same */
	GOOD(22, "\xef\xbf\xbe"),
	GOOD(22, "\xef\xbf\xbf"),
	GOOD(22, "\xf0\x9f\xbf\xbe"),
	GOOD(22, "\xf0\x9f\xbf\xbf"),
	GOOD(22, "\xf0\xaf\xbf\xbe"),
	GOOD(22, "\xf0\xaf\xbf\xbf"),
	GOOD(22, "\xf0\xbf\xbf\xbe"),
	GOOD(22, "\xf0\xbf\xbf\xbf"),
	GOOD(22, "\xf1\x8f\xbf\xbe"),
	GOOD(22, "\xf1\x8f\xbf\xbf"),
	GOOD(22, "\xf1\x9f\xbf\xbe"),
	GOOD(22, "\xf1\x9f\xbf\xbf"),
	GOOD(22, "\xf1\xaf\xbf\xbe"),
	GOOD(22, "\xf1\xaf\xbf\xbf"),
	GOOD(22, "\xf1\xbf\xbf\xbe"),
	GOOD(22, "\xf1\xbf\xbf\xbf"),
	GOOD(22, "\xf2\x8f\xbf\xbe"),
	GOOD(22, "\xf2\x8f\xbf\xbf"),
	GOOD(22, "\xf2\x9f\xbf\xbe"),
	GOOD(22, "\xf2\x9f\xbf\xbf"),
	GOOD(22, "\xf2\xaf\xbf\xbe"),
	GOOD(22, "\xf2\xaf\xbf\xbf"),
	GOOD(22, "\xf2\xbf\xbf\xbe"),
	GOOD(22, "\xf2\xbf\xbf\xbf"),
	GOOD(22, "\xf3\x8f\xbf\xbe"),
	GOOD(22, "\xf3\x8f\xbf\xbf"),
	GOOD(22, "\xf3\x9f\xbf\xbe"),
	GOOD(22, "\xf3\x9f\xbf\xbf"),
	GOOD(22, "\xf3\xaf\xbf\xbe"),
	GOOD(22, "\xf3\xaf\xbf\xbf"),
	GOOD(22, "\xf3\xbf\xbf\xbe"),
	GOOD(22, "\xf3\xbf\xbf\xbf"),
	GOOD(22, "\xf4\x8f\xbf\xbe"),
	GOOD(22, "\xf4\x8f\xbf\xbf"),
	/* the replacement character and its neighbours */
	GOOD(23, "\xef\xbf\xb9"),
	GOOD(23, "\xef\xbf\xba"),
	GOOD(23, "\xef\xbf\xbb"),
	GOOD(23, "\xef\xbf\xbc"),
	GOOD(23, "\xef\xbf\xbd"),
	GOOD(23, "\xef\xbf\xbe"),
	GOOD(23, "\xef\xbf\xbf"),
};

/* 7.7, 7.9 and 7.13: a Close with each code. */
static const struct {
	uint8_t group;
	bool good;
	uint16_t code;
} ws_codes[] = {{7, 1, 1000}, {7, 1, 1001}, {7, 1, 1002}, {7, 1, 1003}, {7, 1, 1007}, {7, 1, 1008}, {7, 1, 1009},
	{7, 1, 1010}, {7, 1, 1011}, {7, 1, 3000}, {7, 1, 3999}, {7, 1, 4000}, {7, 1, 4999}, {9, 0, 0}, {9, 0, 999},
	{9, 0, 1004}, {9, 0, 1005}, {9, 0, 1006}, {9, 0, 1016}, {9, 0, 1100}, {9, 0, 2000}, {9, 0, 2999}, {13, 0, 5000},
	{13, 0, 65535}};

/* 9 and 10: count messages of len bytes, in fragments and segments of such sizes (0: whole). */
static const struct {
	const char *name;
	uint32_t count, len, fragment, chop;
} ws_sizes[] = {
#define K 1024
#define M (1024 * K)
#define LENGTHS(n)                                                                                                     \
	{n "1", 1, 64 * K, 0, 0}, {n "2", 1, 256 * K, 0, 0}, {n "3", 1, M, 0, 0}, {n "4", 1, 4 * M, 0, 0},             \
		{n "5", 1, 8 * M, 0, 0},                                                                               \
	{                                                                                                              \
		n "6", 1, 16 * M, 0, 0                                                                                 \
	}
#define FRAGMENTS(n)                                                                                                   \
	{n "1", 1, 4 * M, 64, 0}, {n "2", 1, 4 * M, 256, 0}, {n "3", 1, 4 * M, K, 0}, {n "4", 1, 4 * M, 4 * K, 0},     \
		{n "5", 1, 4 * M, 16 * K, 0}, {n "6", 1, 4 * M, 64 * K, 0}, {n "7", 1, 4 * M, 256 * K, 0},             \
		{n "8", 1, 4 * M, M, 0},                                                                               \
	{                                                                                                              \
		n "9", 1, 4 * M, 4 * M, 0                                                                              \
	}
#define CHOPS(n)                                                                                                       \
	{n "1", 1, M, 0, 64}, {n "2", 1, M, 0, 128}, {n "3", 1, M, 0, 256}, {n "4", 1, M, 0, 512},                     \
		{n "5", 1, M, 0, 1024},                                                                                \
	{                                                                                                              \
		n "6", 1, M, 0, 2048                                                                                   \
	}
#define COUNTS(n)                                                                                                      \
	{n "1", 1000, 0, 0, 0}, {n "2", 1000, 16, 0, 0}, {n "3", 1000, 64, 0, 0}, {n "4", 1000, 256, 0, 0},            \
		{n "5", 1000, 1024, 0, 0},                                                                             \
	{                                                                                                              \
		n "6", 1000, 4096, 0, 0                                                                                \
	}
	LENGTHS("9.1."),
	LENGTHS("9.2."),
	FRAGMENTS("9.3."),
	FRAGMENTS("9.4."),
	CHOPS("9.5."),
	CHOPS("9.6."),
	COUNTS("9.7."),
	COUNTS("9.8."),
	{"10.1.1", 1, 64 * K, 1300, 0},
};
/* The even subgroups of group 9 are binary. */
static bool ws_binary(const char *name)
{
	return *name == '9' && (name[2] - '0') % 2 == 0;
}

static void ws_put(struct zn_out *o, uint8_t first, const char *payload, size_t len, bool masked)
{
	static uint8_t seed;
	uint8_t head[10], mask[4] = {0};

	size_t head_len = zn_ws_header(head, 0, len);

	head[0] = first;
	head[1] |= masked ? 0x80 : 0;
	zn_out_bytes(o, head, head_len);
	for (int i = 0; masked && i < 4; i++)
		mask[i] = seed += 77;
	if (masked)
		zn_out_bytes(o, mask, 4);
	zn_out_bytes(o, payload, len);
	for (size_t i = 0; masked && !o->full && i < len; i++)
		o->at[o->len - len + i] ^= (char)mask[i & 3];
}

static void ws_send(struct ws_case *c, uint8_t first, const char *payload, size_t len)
{
	ws_put(&c->send, first, payload, len, true);
	if (c->frames < WS_ENDS)
		c->end[c->frames++] = c->send.len;
}

static void ws_begin(struct ws_case *c, const char *group, unsigned number, uint32_t chop)
{
	c->send.len = c->want.len = c->sync = c->sync_want = c->frames = 0;
	c->chop = chop;
	snprintf(c->name, sizeof(c->name), number ? "%s.%u" : "%s", group, number);
}

static void ws_close(struct ws_case *c)
{
	ws_send(c, 0x88, "\x03\xe8", 2);
	ws_put(&c->want, 0x88, "\x03\xe8", 2, false);
}

typedef void ws_run(struct ws_case *c);

static void ws_run_rows(struct ws_case *c, ws_run *run)
{
	for (size_t r = 0; r < ZN_LEN(ws_rows); r++) {
		const struct ws_frame *f, *last = NULL;

		ws_begin(c, ws_rows[r].name, 0, ws_rows[r].chop);
		for (f = ws_rows[r].want; f->at; last = f++)
			ws_put(&c->want, (uint8_t)f->first, f->at, f->len, false);
		for (f = ws_rows[r].send; f < ws_rows[r].send + ZN_LEN(ws_rows[r].send) && f->at; f++) {
			if (f->first == SYNC)
				c->sync = c->send.len - f->len;
			else
				ws_send(c, (uint8_t)f->first, f->at, f->len);
		}
		/* what fails must do so by then; else, the first answer must be there */
		if (c->sync)
			c->sync_want = last->first == 0x88 ? c->want.len : 2 + ws_rows[r].want[0].len;
		if (!last || last->first != 0x88)
			ws_close(c);
		run(c);
	}
}

static void ws_run_text(struct ws_case *c, bool good, struct zn_str text, ws_run *run)
{
	ws_send(c, 0x81, text.at, text.len);
	ws_put(&c->want, good ? 0x81 : 0x88, good ? text.at : "\x03\xef", good ? text.len : 2, false);
	if (good)
		ws_close(c);
	run(c);
}

static void ws_run_texts(struct ws_case *c, ws_run *run)
{
	static const struct {
		const char *group;
		bool good;
		struct zn_str text;
	} by_bytes[] = {{"6.2.3", 1, {GREETING, sizeof(GREETING) - 1}}, {"6.2.4", 1, {KOSME, sizeof(KOSME) - 1}},
		{"6.3.2", 0,
			{KOSME "\xed\xa0\x80"
			       "edited",
				sizeof(KOSME) + 8}}};
	unsigned group = 0, number = 0;
	char name[8];

	for (size_t i = 0; i < ZN_LEN(ws_texts); i++) {
		number = ws_texts[i].group == group ? number + 1 : 1;
		group = ws_texts[i].group;
		snprintf(name, sizeof(name), "6.%u", group);
		ws_begin(c, name, number, 0);
		ws_run_text(c, ws_texts[i].good, ws_texts[i].text, run);
	}
	for (unsigned len = 1; len < sizeof(KOSME); len++) {
		ws_begin(c, "6.6", len, 0);
		ws_run_text(
			c, len == 2 || len == 5 || len == 7 || len == 9 || len == 11, (struct zn_str){KOSME, len}, run);
	}
	ws_begin(c, "6.3.1", 0, 0);
	ws_run_text(c, false, by_bytes[2].text, run);
	for (size_t i = 0; i < ZN_LEN(by_bytes); i++) {
		struct zn_str text = by_bytes[i].text;

		ws_begin(c, by_bytes[i].group, 0, 0);
		for (size_t at = 0; at < text.len; at++)
			ws_send(c, (uint8_t)((at ? 0 : 1) | (at + 1 == text.len ? 0x80 : 0)), text.at + at, 1);
		ws_put(&c->want, by_bytes[i].good ? 0x81 : 0x88, by_bytes[i].good ? text.at : "\x03\xef",
			by_bytes[i].good ? text.len : 2, false);
		if (by_bytes[i].good)
			ws_close(c);
		run(c);
	}
}

static void ws_run_codes(struct ws_case *c, ws_run *run)
{
	unsigned group = 0, number = 0;
	char name[8];

	for (size_t i = 0; i < ZN_LEN(ws_codes); i++) {
		char code[2] = {(char)(ws_codes[i].code >> 8), (char)ws_codes[i].code};

		number = ws_codes[i].group == group ? number + 1 : 1;
		group = ws_codes[i].group;
		snprintf(name, sizeof(name), "7.%u", group);
		ws_begin(c, name, number, 0);
		ws_send(c, 0x88, code, 2);
		ws_put(&c->want, 0x88, ws_codes[i].good ? code : "\x03\xea", 2, false);
		run(c);
	}
}

static void ws_send_message(struct ws_case *c, uint8_t op, const char *from, size_t len, size_t fragment)
{
	size_t at = 0, step = fragment ? fragment : len;

	do {
		size_t n = len - at < step ? len - at : step;

		ws_send(c, (uint8_t)((at ? 0 : op) | (at + n == len ? 0x80 : 0)), from + at, n);
		at += n;
	} while (at < len);
	ws_put(&c->want, 0x80 | op, from, len, false);
}

/* With messages and counts 1/scale of what they are. */
static void ws_run_sizes(struct ws_case *c, uint32_t scale, ws_run *run)
{
	for (size_t i = 0; i < ZN_LEN(ws_sizes); i++) {
		bool binary = ws_binary(ws_sizes[i].name), many = ws_sizes[i].count > 1;
		uint32_t count = many ? ws_sizes[i].count / scale : 1, len = ws_sizes[i].len / (many ? 1 : scale);

		ws_begin(c, ws_sizes[i].name, 0, ws_sizes[i].chop);
		for (uint32_t m = 0; m < count; m++)
			ws_send_message(c, binary ? 2 : 1, binary ? ws_other : ws_stars, len, ws_sizes[i].fragment);
		ws_close(c);
		run(c);
	}
}

/* Pings in a row: 2.10, and byte by byte 2.11. */
static void ws_run_pings(struct ws_case *c, ws_run *run)
{
	for (unsigned number = 10; number <= 11; number++) {
		ws_begin(c, "2", number, number == 11 ? 1 : 0);
		for (int i = 0; i < 10; i++) {
			char payload[10];
			int len = snprintf(payload, sizeof(payload), "ping-%d", i);

			ws_send(c, 0x89, payload, (size_t)len);
			ws_put(&c->want, 0x8a, payload, (size_t)len, false);
		}
		ws_close(c);
		run(c);
	}
}

/* Runs all of them. c has room of WS_BYTES for either direction, and is used again for each. */
static void ws_run_cases(struct ws_case *c, uint32_t scale, ws_run *run)
{
	memset(ws_stars, '*', sizeof(ws_stars));
	memset(ws_other, 0xfe, sizeof(ws_other));
	ws_run_rows(c, run);
	ws_run_pings(c, run);
	ws_run_texts(c, run);
	ws_run_codes(c, run);
	ws_run_sizes(c, scale, run);
}

#endif
