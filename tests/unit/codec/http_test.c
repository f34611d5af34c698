/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http_test.c: request heads and bodies, each replayed cut at every byte from a heap block of exactly that
 * size; paths, queries and entity tags; answers.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "zernel.h"
#include "t.h"

#define S(text) ((struct zn_str){text, sizeof(text) - 1})
#define WHOLE   1 /* the verdict on a head that is complete and good */

static int parse_part(struct zn_str text, size_t len, struct zn_http_req *req)
{
	char *block = malloc(len ? len : 1);
	int got;

	memcpy(block, text.at, len);
	got = zn_http_parse(block, len, req);
	free(block);
	return got;
}

/* A shorter part may ask for more, or show the error already; never anything else, and never take the error
 * back. */
static void check_verdict(struct zn_str text, int want)
{
	struct zn_http_req req;
	int seen = 0, got;

	for (size_t cut = 0; cut < text.len; cut++) {
		got = parse_part(text, cut, &req);
		if (seen || got)
			CHECK_EQ(got, want);
		seen = got;
	}
	got = parse_part(text, text.len, &req);
	CHECK_EQ(got, want == WHOLE ? (int)text.len : want);
}

#define G     "GET / HTTP/1.1\r\n"
#define G10   "GET / HTTP/1.0\r\n"
#define H     "Host: n1:9091\r\n"
#define WSP   "Sec-WebSocket-Protocol: p\r\n"
#define E     "\r\n"
#define L5    "Content-Length: 5\r\n"
#define HOSTS "GET / HTTP/1.1\r\nHost:"

static void verdicts(void)
{
	static const struct {
		const char *name;
		struct zn_str text;
		int want;
	} rows[] = {
		{"plain", S(G H E), WHOLE},
		{"1.0 without Host", S(G10 E), WHOLE},
		{"one empty line before", S(E G H E), WHOLE},
		{"two empty lines before", S(E E G H E), WHOLE},
		{"three empty lines before", S(E E E G H E), -400},
		{"no end yet", S(G H), 0},
		{"nothing", S(""), 0},
		{"unknown method", S("BREW / HTTP/1.1\r\n" H E), -501},
		{"lower case method", S("get / HTTP/1.1\r\n" H E), -501},
		{"method of 501 and version of 505", S("BREW / HTTP/3.0\r\n" H E), -505},
		{"method of 501 and a bad version", S("BREW / HTTP/x\r\n" H E), -400},
		{"method of 501 and any target", S("BREW beer HTTP/1.1\r\n" H E), -501},
		{"method cut", S("GE / HTTP/1.1\r\n" H E), -501},
		{"method longer", S("OPTIONSX / HTTP/1.1\r\n" H E), -501},
		{"method empty", S(" / HTTP/1.1\r\n" H E), -400},
		{"method with a colon", S("Host: n1\r\n" E), -400},
		{"five lines of subprotocols", S(G H WSP WSP WSP WSP WSP E), -400},
		{"empty lines of LF", S("\n\n" G H E), -400},
		{"empty line of CR", S("\r" G H E), -400},
		{"empty line of a space", S(" \r\n" G H E), -400},
		{"SSH banner", S("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), -400},
		{"SSH banner without remark", S("SSH-2.0-OpenSSH_9.2p1\r\n"), -400},
		{"RTSP", S("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n" E), -400},
		{"SMTP", S("EHLO n1\r\n"), -400},
		{"HTTP answer", S("HTTP/1.1 200 OK\r\n" E), -400},
		{"SOCKS 5", S("\x05\x01\x00"), -400},
		{"PROXY protocol", S("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" G H E), -400},
		{"PROXY protocol 2", S("\r\n\r\n\0\r\nQUIT\n"), -400},
		{"noise of NULs", S("\0\0\0\0"), -400},
		{"TLS hello", S("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), -400},
		{"noise after letters", S("AB\x00\xff"), -400},
		{"high byte", S("\xc3\xa9"), -400},
		{"space first", S(" GET / HTTP/1.1\r\n" H E), -400},
		{"two spaces after the method", S("GET  / HTTP/1.1\r\n" H E), -400},
		{"two spaces after the target", S("GET /  HTTP/1.1\r\n" H E), -400},
		{"tab for space", S("GET\t/ HTTP/1.1\r\n" H E), -400},
		{"space after the version", S("GET / HTTP/1.1 \r\n" H E), -400},
		{"HTTP/0.9 line", S("GET /\r\n"), -400},
		{"HTTP/0.9 line with a space", S("GET / \r\n"), -400},
		{"no target", S("GET HTTP/1.1\r\n" H E), -400},
		{"a space in the target", S("GET /a b HTTP/1.1\r\n" H E), -400},
		{"tab before the version", S("GET /\tHTTP/1.1\r\n" H E), -400},
		{"target without slash", S("GET metrics HTTP/1.1\r\n" H E), -400},
		{"fragment", S("GET /#a HTTP/1.1\r\n" H E), -400},
		{"high byte in target", S("GET /\xc3\xa9 HTTP/1.1\r\n" H E), -400},
		{"NUL in target", S("GET /\0 HTTP/1.1\r\n" H E), -400},
		{"asterisk of OPTIONS", S("OPTIONS * HTTP/1.1\r\n" H E), WHOLE},
		{"asterisk of GET", S("GET * HTTP/1.1\r\n" H E), -400},
		{"authority-form", S("GET n1:9091 HTTP/1.1\r\n" H E), -400},
		{"authority-form of OPTIONS", S("OPTIONS n1:9091 HTTP/1.1\r\n" H E), -400},
		{"asterisk and more", S("OPTIONS *a HTTP/1.1\r\n" H E), -400},
		{"asterisk with a query", S("OPTIONS *?a HTTP/1.1\r\n" H E), -400},
		{"slash asterisk", S("OPTIONS /* HTTP/1.1\r\n" H E), WHOLE},
		{"CONNECT", S("CONNECT n1:443 HTTP/1.1\r\n" H E), -501},
		{"CONNECT to a path", S("CONNECT / HTTP/1.1\r\n" H E), -501},
		{"absolute-form", S("GET http://n1/ HTTP/1.1\r\n" H E), WHOLE},
		{"absolute-form still needs Host", S("GET http://n1/ HTTP/1.1\r\n" E), -400},
		{"absolute-form without host", S("GET http:///x HTTP/1.1\r\n" H E), -400},
		{"absolute-form with user", S("GET http://me@n1/ HTTP/1.1\r\n" H E), -400},
		{"absolute-form and another Host", S("GET http://n2/ HTTP/1.1\r\n" H E), WHOLE},
		{"absolute-form and a bad Host", S("GET http://n1/ HTTP/1.1\r\nHost: a/b\r\n" E), -400},
		{"absolute-form and two Hosts", S("GET http://n1/ HTTP/1.1\r\n" H H E), -400},
		{"absolute-form with a bad port", S("GET http://n1:65536/ HTTP/1.1\r\n" H E), -400},
		{"absolute-form of https", S("GET https://n1/ HTTP/1.1\r\n" H E), -421},
		{"absolute-form of https without host", S("GET https:/// HTTP/1.1\r\n" H E), -400},
		{"absolute-form of httpx", S("GET httpx://n1/ HTTP/1.1\r\n" H E), -400},
		{"absolute-form of ws", S("GET ws://n1/ws HTTP/1.1\r\n" H E), -400},
		{"absolute-form of ftp", S("GET ftp://n1/ HTTP/1.1\r\n" H E), -400},
		{"absolute-form cut", S("GET http:/ HTTP/1.1\r\n" H E), -400},
		{"HTTP/1.2", S("GET / HTTP/1.2\r\n" H E), WHOLE},
		{"HTTP/1.9", S("GET / HTTP/1.9\r\n" H E), WHOLE},
		{"HTTP/3.0", S("GET / HTTP/3.0\r\n" H E), -505},
		{"HTTP/2", S("GET / HTTP/2\r\n" H E), -400},
		{"version and a header", S("GET / HTTP/1.1" H E), -400},
		{"HTTP/1.", S("GET / HTTP/1.\r\n" H E), -400},
		{"HTTP/01.1", S("GET / HTTP/01.1\r\n" H E), -400},
		{"HTTP/1,1", S("GET / HTTP/1,1\r\n" H E), -400},
		{"HTTP 1.1", S("GET / HTTP 1.1\r\n" H E), -400},
		{"HTTP/-1.1", S("GET / HTTP/-1.1\r\n" H E), -400},
		{"Http/1.1", S("GET / Http/1.1\r\n" H E), -400},
		{"HTTP/2.0", S("GET / HTTP/2.0\r\n" H E), -505},
		{"HTTP/2 preface", S("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), -505},
		{"HTTP/0.9", S("GET / HTTP/0.9\r\n" H E), -505},
		{"HTTP/1.10", S("GET / HTTP/1.10\r\n" H E), -400},
		{"HTTP/1", S("GET / HTTP/1\r\n" H E), -400},
		{"http/1.1", S("GET / http/1.1\r\n" H E), -400},
		{"HTTPS/1.1", S("GET / HTTPS/1.1\r\n" H E), -400},
		{"bare LF after the request line", S("GET / HTTP/1.1\n" H E), -400},
		{"bare LF after a header", S(G "Host: n1\n" E), -400},
		{"bare LF at the end", S(G H "\n"), -400},
		{"bare CR in a value", S(G H "A: b\rc\r\n" E), -400},
		{"CR CR LF", S(G H "A: b\r\r\n" E), -400},
		{"CR at the end not LF", S(G H "\rx"), -400},
		{"NUL in a value", S(G H "A: b\0c\r\n" E), -400},
		{"DEL in a value", S(G H "A: b\x7f\r\n" E), -400},
		{"escape in a value", S(G H "A: \x1b[0m\r\n" E), -400},
		{"tab and high bytes in a value", S(G H "A:\t\xe9 \xff\t\r\n" E), WHOLE},
		{"vertical tab in a value", S(G H "A: b\x0b\r\n" E), -400},
		{"LF LF at the end", S(G "Host: n1\n\n"), -400},
		{"LF in a value", S(G H "A: b\nContent-Length: 5\r\n" E), -400},
		{"CR for CRLF", S(G "Host: n1\rA: b\r" E), -400},
		{"LF CR", S(G H "A: b\n\r" E), -400},
		{"high byte in a name", S(G H "\xc3\xa9: b\r\n" E), -400},
		{"NUL in a name", S(G H "A\0: b\r\n" E), -400},
		{"quote in a name", S(G H "\"A\": b\r\n" E), -400},
		{"name and the end", S(G H "A" E E), -400},
		{"colon only", S(G H ":\r\n" E), -400},
		{"colons in a value", S(G H "A::b:\r\n" E), WHOLE},
		{"tabs around a value", S(G "Host:\t \tn1 \t\r\n" E), WHOLE},
		{"value of blanks", S(G H "A: \t \r\n" E), WHOLE},
		{"folded with nothing before", S(G H "A:\r\n b\r\n" E), -400},
		{"folded empty", S(G H "A: b\r\n \r\n" E), -400},
		{"empty value", S(G H "A:\r\n" E), WHOLE},
		{"space before colon", S(G H "A : b\r\n" E), -400},
		{"tab before colon", S(G H "A\t: b\r\n" E), -400},
		{"no colon", S(G H "A\r\n" E), -400},
		{"empty name", S(G H ": b\r\n" E), -400},
		{"bracket in a name", S(G H "A[]: b\r\n" E), -400},
		{"folded value", S(G H "A: b\r\n c\r\n" E), -400},
		{"folded with a tab", S(G H "A: b\r\n\tc\r\n" E), -400},
		{"space before the first header", S(G " " H E), -400},

		{"no Host", S(G E), -400},
		{"Host twice", S(G H H E), -400},
		{"Host twice in 1.0", S(G10 H H E), -400},
		{"Host empty", S(HOSTS "\r\n" E), -400},
		{"Host empty in 1.0", S(G10 "Host: \r\n" E), -400},
		{"Host twice, once empty", S(G H "Host:\r\n" E), -400},
		{"Host in two cases", S(G H "hOST: n2\r\n" E), -400},
		{"Host list", S(HOSTS " n1, n2\r\n" E), -400},
		{"Host without port but a colon and a path", S(HOSTS " n1:/\r\n" E), -400},
		{"Host port with a sign", S(HOSTS " n1:+80\r\n" E), -400},
		{"Host port with a space", S(HOSTS " n1: 80\r\n" E), -400},
		{"Host with an escape", S(HOSTS " n%31\r\n" E), -400},
		{"Host with a scheme", S(HOSTS " http://n1\r\n" E), -400},
		{"Host with a backslash", S(HOSTS " n1\\a\r\n" E), -400},
		{"Host with a query", S(HOSTS " n1?a\r\n" E), -400},
		{"Host with a NUL", S(HOSTS " n1\0\r\n" E), -400},
		{"Host IPv6 with a NUL", S(HOSTS " [::1\0]\r\n" E), -400},
		{"Host IPv6 port 65536", S(HOSTS " [::1]:65536\r\n" E), -400},
		{"Host of a later address", S(HOSTS " [v1.a]\r\n" E), -400},
		{"Host name and port", S(HOSTS " a-b.example:1\r\n" E), WHOLE},
		{"Host empty port", S(HOSTS " n1:\r\n" E), WHOLE},
		{"Host port 65535", S(HOSTS " n1:65535\r\n" E), WHOLE},
		{"Host port 65536", S(HOSTS " n1:65536\r\n" E), -400},
		{"Host port of 6 digits", S(HOSTS " n1:000080\r\n" E), -400},
		{"Host port of letters", S(HOSTS " n1:http\r\n" E), -400},
		{"Host two ports", S(HOSTS " n1:1:2\r\n" E), -400},
		{"Host port only", S(HOSTS " :80\r\n" E), -400},
		{"Host with a path", S(HOSTS " n1/a\r\n" E), -400},
		{"Host with a user", S(HOSTS " me@n1\r\n" E), -400},
		{"Host with a space", S(HOSTS " n1 n2\r\n" E), -400},
		{"Host with a high byte", S(HOSTS " n\xc3\xa9\r\n" E), -400},
		{"Host IPv4", S(HOSTS " 127.0.0.1:9091\r\n" E), WHOLE},
		{"Host IPv6", S(HOSTS " [::1]:9091\r\n" E), WHOLE},
		{"Host IPv6 without port", S(HOSTS " [2001:db8::192.0.2.1]\r\n" E), WHOLE},
		{"Host IPv6 open", S(HOSTS " [::1\r\n" E), -400},
		{"Host IPv6 wrong", S(HOSTS " [:::1]\r\n" E), -400},
		{"Host IPv6 empty", S(HOSTS " []\r\n" E), -400},
		{"Host IPv6 with a zone", S(HOSTS " [fe80::1%25eth0]\r\n" E), -400},
		{"Host IPv6 and letters", S(HOSTS " [::1]x\r\n" E), -400},
		{"Host IPv6 bare", S(HOSTS " ::1\r\n" E), -400},
		{"Host IPv6 of 45 bytes", S(HOSTS " [0000:0000:0000:0000:0000:ffff:192.168.100.228]\r\n" E), WHOLE},
		{"Host IPv6 of 46 bytes", S(HOSTS " [0000:0000:0000:0000:0000:ffff:192.168.100.2281]\r\n" E), -400},
		{"Host IPv6 too long", S(HOSTS " [0000000000000000000000000000000000000000000000::1]\r\n" E), -400},

		{"length 5", S(G H "Content-Length: 5\r\n" E), WHOLE},
		{"length twice the same", S(G H "Content-Length: 5\r\ncontent-length: 5\r\n" E), -400},
		{"length twice, two values", S(G H "Content-Length: 5\r\nContent-Length: 6\r\n" E), -400},
		{"length twice, two spellings", S(G H "Content-Length: 0\r\nContent-Length: 00\r\n" E), -400},
		{"length 65536", S(G H "Content-Length: 65536\r\n" E), WHOLE},
		{"length 65537", S(G H "Content-Length: 65537\r\n" E), -413},
		{"length 655360", S(G H "Content-Length: 655360\r\n" E), -413},
		{"length 65536 with zeros", S(G H "Content-Length: 000000000000000000000065536\r\n" E), WHOLE},
		{"length of 40 digits", S(G H "Content-Length: 1234567890123456789012345678901234567890\r\n" E), -413},
		{"length of 40 digits and a letter",
			S(G H "Content-Length: 1234567890123456789012345678901234567890x\r\n" E), -400},
		{"length long, then coding", S(G H "Content-Length: 65537\r\nTransfer-Encoding: chunked\r\n" E), -400},
		{"length twice 0", S(G H "Content-Length: 0\r\nContent-Length: 0\r\n" E), -400},
		{"length twice in 1.0", S(G10 "Content-Length: 5\r\nContent-Length: 5\r\n" E), -400},
		{"length, then an empty one", S(G H "Content-Length: 5\r\nContent-Length:\r\n" E), -400},
		{"length and blanks around", S(G H "Content-Length: \t5 \t\r\n" E), WHOLE},
		{"length and a vertical tab",
			S(G H "Content-Length: \x0b"
			      "5\r\n" E),
			-400},
		{"length with a comma", S(G H "Content-Length: 5,\r\n" E), -400},
		{"length with a fraction", S(G H "Content-Length: 5.0\r\n" E), -400},
		{"length with an exponent", S(G H "Content-Length: 1e3\r\n" E), -400},
		{"length with an underline", S(G H "Content-Length: 1_0\r\n" E), -400},
		{"length in quotes", S(G H "Content-Length: \"5\"\r\n" E), -400},
		{"length in other digits", S(G H "Content-Length: \xd9\xa5\r\n" E), -400},
		{"length and NUL", S(G H "Content-Length: 5\0\r\n" E), -400},
		{"length with space before colon", S(G H "Content-Length : 5\r\n" E), -400},
		{"length folded", S(G H "Content-Length:\r\n 5\r\n" E), -400},
		{"length minus 0", S(G H "Content-Length: -0\r\n" E), -400},
		{"another name for it", S(G H "Content_Length: 5\r\n" E), WHOLE},
		{"length list of two", S(G H "Content-Length: 5, 6\r\n" E), -400},
		{"length list", S(G H "Content-Length: 5, 5\r\n" E), -400},
		{"length empty", S(G H "Content-Length:\r\n" E), -400},
		{"length plus", S(G H "Content-Length: +5\r\n" E), -400},
		{"length minus", S(G H "Content-Length: -1\r\n" E), -400},
		{"length hexadecimal", S(G H "Content-Length: 0x5\r\n" E), -400},
		{"length and space", S(G H "Content-Length: 5 5\r\n" E), -400},
		{"length 2^64-1", S(G H "Content-Length: 18446744073709551615\r\n" E), -413},
		{"length 2^64", S(G H "Content-Length: 18446744073709551616\r\n" E), -413},
		{"length 2^64 + 4", S(G H "Content-Length: 18446744073709551620\r\n" E), -413},
		{"chunked", S(G H "Transfer-Encoding: chunked\r\n" E), WHOLE},
		{"chunked, upper case", S(G H "TRANSFER-ENCODING: CHUNKED\r\n" E), WHOLE},
		{"gzip, chunked", S(G H "Transfer-Encoding: gzip, chunked\r\n" E), -501},
		{"gzip, chunked on two lines", S(G H "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n" E),
			-501},
		{"chunked, gzip", S(G H "Transfer-Encoding: chunked, gzip\r\n" E), -400},
		{"chunked, gzip on two lines", S(G H "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n" E),
			-400},
		{"chunked twice", S(G H "Transfer-Encoding: chunked, chunked\r\n" E), -400},
		{"chunked twice on two lines", S(G H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" E),
			-400},
		{"xchunked", S(G H "Transfer-Encoding: xchunked\r\n" E), -400},
		{"chunked with a parameter", S(G H "Transfer-Encoding: chunked;a=b\r\n" E), -400},
		{"chunked in quotes", S(G H "Transfer-Encoding: \"chunked\"\r\n" E), -400},
		{"chunked and a form feed",
			S(G H "Transfer-Encoding: \x0c"
			      "chunked\r\n" E),
			-400},
		{"chunked and a vertical tab",
			S(G H "Transfer-Encoding: \x0b"
			      "chunked\r\n" E),
			-400},
		{"chunked and a tab", S(G H "Transfer-Encoding:\tchunked\t\r\n" E), WHOLE},
		{"chunked and empty elements", S(G H "Transfer-Encoding: ,chunked, ,\r\n" E), WHOLE},
		{"chunked and an empty line of it", S(G H "Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n" E),
			WHOLE},
		{"chunked and a space", S(G H "Transfer-Encoding: chun ked\r\n" E), -400},
		{"chunked and a NUL", S(G H "Transfer-Encoding: chunked\0\r\n" E), -400},
		{"chunked folded", S(G H "Transfer-Encoding:\r\n chunked\r\n" E), -400},
		{"chunked folded after a coding", S(G H "Transfer-Encoding: gzip,\r\n chunked\r\n" E), -400},
		{"chunked after a CR", S(G H "Transfer-Encoding: \rchunked\r\n" E), -400},
		{"chunked after a LF", S(G H "A: b\nTransfer-Encoding: chunked\r\n" E), -400},
		{"chunked of a later letter",
			S(G H "Transfer-Encoding: chun\xc4\xb7"
			      "ed\r\n" E),
			-400},
		{"chunked, identity", S(G H "Transfer-Encoding: chunked, identity\r\n" E), -400},
		{"identity, chunked", S(G H "Transfer-Encoding: identity, chunked\r\n" E), -501},
		{"identity, then chunked", S(G H "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n" E),
			-501},
		{"xchunked, then chunked", S(G H "Transfer-Encoding: xchunked\r\nTransfer-Encoding: chunked\r\n" E),
			-501},
		{"chunked, then xchunked", S(G H "Transfer-Encoding: chunked\r\nTransfer-Encoding: xchunked\r\n" E),
			-400},
		{"chunked in a comment", S(G H "Transfer-Encoding: gzip (chunked)\r\n" E), -400},
		{"a quote, then chunked", S(G H "Transfer-Encoding: \", chunked\r\n" E), -400},
		{"gzip only", S(G H "Transfer-Encoding: gzip\r\n" E), -400},
		{"gzip, chunked and a length", S(G H "Transfer-Encoding: gzip, chunked\r\nContent-Length: 1\r\n" E),
			-400},
		{"gzip, chunked in 1.0", S(G10 "Transfer-Encoding: gzip, chunked\r\n" E), -400},
		{"another name for coding", S(G H "Transfer_Encoding: chunked\r\n" E), WHOLE},
		{"identity", S(G H "Transfer-Encoding: identity\r\n" E), -400},
		{"coding empty", S(G H "Transfer-Encoding:\r\n" E), -400},
		{"coding in 1.0", S(G10 "Transfer-Encoding: chunked\r\n" E), -400},
		{"length, then coding", S(G H "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n" E), -400},
		{"coding, then length", S(G H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" E), -400},
		{"coding with space before colon", S(G H "Transfer-Encoding : chunked\r\n" E), -400},

		{"coding in 1.0 and a length", S(G10 "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" E), -400},

		{"expectation of another kind", S(G H "Expect: 200-ok\r\n" E), -417},
		{"expectation among others", S(G H "Expect: 100-continue, a=b\r\n" E), -417},
		{"expectation with a parameter", S(G H "Expect: 100-continue;a\r\n" E), -417},
		{"expectation on two lines", S(G H "Expect: 100-continue\r\nExpect: b\r\n" E), -417},
		{"expectation empty", S(G H "Expect:\r\n" E), WHOLE},
		{"expectation and empty elements", S(G H "Expect: ,100-continue,\r\n" E), WHOLE},
		{"expectation of another kind in 1.0", S(G10 "Expect: 200-ok\r\n" E), WHOLE},
		{"Origin twice", S(G H "Origin: http://a\r\nOrigin: http://b\r\n" E), -400},
		{"Authorization twice", S(G H "Authorization: a\r\nAuthorization: a\r\n" E), -400},
		{"version of WebSocket twice", S(G H "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Version: 8\r\n" E),
			-400},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].name);
		check_verdict(rows[i].text, rows[i].want);
	}
}

/* How many bytes of a bad request are enough to see that it is bad. */
static void early_errors(void)
{
	static const struct {
		const char *name;
		struct zn_str text;
		size_t enough;
	} rows[] = {
		{"TLS hello shows at once", S("\x16\x03\x01"), 1},
		{"noise shows at once", S("GET\x80/"), 4},
		{"version shows before the line ends", S("GET / HTXP/1.1\r\n"), 9},
		{"LF shows at once", S("GET / HTTP/1.1\n"), 15},
		{"second Host shows at its line", S(G H H E), sizeof(G H H) - 1},
		{"space before the colon shows at once", S(G "Host : n1\r\n" E), sizeof(G "Host ") - 1},
		{"fold shows at once", S(G H " a\r\n" E), sizeof(G H " ") - 1},
		{"second length shows at its line", S(G H L5 L5 E), sizeof(G H L5 L5) - 1},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_http_req req;

		t_begin(rows[i].name);
		CHECK_EQ(parse_part(rows[i].text, rows[i].enough - 1, &req), 0);
		CHECK_EQ(parse_part(rows[i].text, rows[i].enough, &req), -400);
	}
}

static void add(struct zn_out *o, const char *name, struct zn_str value)
{
	if (!value.at)
		return;
	zn_out_text(o, name);
	zn_out_bytes(o, value.at, value.len);
}

/* A request as one line: method, path, what else is set. */
static void describe(struct zn_out *o, const struct zn_http_req *req)
{
	static const char *const methods[] = {"GET ", "HEAD ", "OPTIONS ", "OTHER "};

	zn_out_text(o, methods[req->method]);
	zn_out_bytes(o, req->path.at, req->path.len);
	add(o, " ?", req->query);
	add(o, " host=", req->host);
	add(o, " origin=", req->origin);
	add(o, " tags=", req->if_none_match);
	add(o, " auth=", req->authorization);
	add(o, " key=", req->ws_key);
	add(o, " version=", req->ws_version);
	for (size_t i = 0; i < ZN_WS_PROTOCOLS; i++)
		add(o, " protocol=", req->ws_protocol[i]);
	zn_out_text(o, req->http10 ? " 1.0" : "");
	zn_out_text(o, req->keep_alive ? " keep" : " close");
	zn_out_text(o, req->expect ? " expect" : "");
	zn_out_text(o, req->chunked ? " chunked" : "");
	if (req->length) {
		zn_out_text(o, " length=");
		zn_out_u64(o, req->length);
	}
	zn_out_text(o, req->format == ZN_FORMAT_OPENMETRICS ? " openmetrics" : "");
	zn_out_text(o, req->format == ZN_FORMAT_PROTO ? " proto" : "");
	zn_out_text(o, req->gzip ? " gzip" : "");
	zn_out_text(o, req->upgrade ? " upgrade" : "");
	zn_out_text(o, req->ws_keys > 1 ? " keys" : "");
}

#define A   "GET / HTTP/1.1\r\nHost: n\r\n"
#define OM  "application/openmetrics-text"
#define PB  "application/vnd.google.protobuf"
#define PBF PB ";proto=io.prometheus.client.MetricFamily;encoding=delimited"
#define WSC "Connection: keep-alive, Upgrade\r\n"
#define WSU "Upgrade: websocket\r\n"

static void meanings(void)
{
	static const struct {
		struct zn_str text;
		const char *want;
	} rows[] = {
		{S(A E), "GET / host=n keep"},
		{S("HEAD /a/b HTTP/1.1\r\nhost:n:1\t \r\n" E), "HEAD /a/b host=n:1 keep"},
		{S("OPTIONS * HTTP/1.1\r\nHOST: n\r\n" E), "OPTIONS * host=n keep"},
		{S("OPTIONS http://m HTTP/1.1\r\nHost: n\r\n" E), "OPTIONS * host=m keep"},
		{S("OPTIONS http://m? HTTP/1.1\r\nHost: n\r\n" E), "OPTIONS / ? host=m keep"},
		{S("OPTIONS http://m/ HTTP/1.1\r\nHost: n\r\n" E), "OPTIONS / host=m keep"},
		{S("POST / HTTP/1.1\r\nHost: n\r\n" E), "OTHER / host=n keep"},
		{S("PUT / HTTP/1.1\r\nHost: n\r\n" E), "OTHER / host=n keep"},
		{S("DELETE / HTTP/1.1\r\nHost: n\r\n" E), "OTHER / host=n keep"},
		{S("TRACE / HTTP/1.1\r\nHost: n\r\n" E), "OTHER / host=n keep"},
		{S("PATCH / HTTP/1.1\r\nHost: n\r\n" E), "OTHER / host=n keep"},
		{S("GET /a?b=c?d HTTP/1.1\r\nHost: n\r\n" E), "GET /a ?b=c?d host=n keep"},
		{S("GET /? HTTP/1.1\r\nHost: n\r\n" E), "GET / ? host=n keep"},
		{S("GET //x/y HTTP/1.1\r\nHost: n\r\n" E), "GET //x/y host=n keep"},
		{S("GET http://m:8/p?q HTTP/1.1\r\nHost: n\r\n" E), "GET /p ?q host=m:8 keep"},
		{S("GET HTTP://[::1] HTTP/1.1\r\nHost: n\r\n" E), "GET / host=[::1] keep"},
		{S("GET http://m?q HTTP/1.1\r\nHost: n\r\n" E), "GET / ?q host=m keep"},
		{S("GET / HTTP/1.0\r\nConnection: keep-alive\r\n" E), "GET / 1.0 keep"},
		{S("GET / HTTP/1.9\r\nHost: n\r\n" E), "GET / host=n keep"},
		{S(A "Connection: Close\r\n" E), "GET / host=n close"},
		{S(A "Connection: a , close,b\r\n" E), "GET / host=n close"},
		{S(A "Connection: keep-alive\r\nConnection: close\r\n" E), "GET / host=n close"},
		{S(A "Connection: closed, xclose\r\n" E), "GET / host=n keep"},
		{S(A "Content-Length: 0\r\n" E), "GET / host=n keep"},
		{S(A "Content-Length: 00\r\n" E), "GET / host=n close"},
		{S(A "Content-Length: 1\r\n" E), "GET / host=n close length=1"},
		{S(A "Content-Length: 065536\r\n" E), "GET / host=n close length=65536"},
		{S(A "Transfer-Encoding: chunked\r\n" E), "GET / host=n close chunked"},
		{S(A "Expect: 100-continue\r\nContent-Length: 5\r\n" E), "GET / host=n close expect length=5"},
		{S("POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\n" E),
			"OTHER / 1.0 close length=5"},
		{S("GET / HTTP/1.0\r\n" E), "GET / 1.0 close"},
		{S("GET / HTTP/1.0\r\nConnection: Keep-Alive, close\r\n" E), "GET / 1.0 close"},
		{S("GET / HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n" E), "GET / 1.0 close"},
		{S("GET / HTTP/1.0\r\nConnection: keep-alives\r\n" E), "GET / 1.0 close"},
		{S("GET / HTTP/1.0\r\nKeep-Alive: 5\r\n" E), "GET / 1.0 close"},
		{S("GET / HTTP/1.0\r\nHost: n\r\nContent-Length: 0\r\nConnection: keep-alive\r\n" E),
			"GET / host=n 1.0 keep"},
		{S("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n" E), "OTHER / 1.0 close length=5"},
		{S(A "Connection:\r\nConnection: ,\r\n" E), "GET / host=n keep"},
		{S(A "Connection: \"close\"\r\n" E), "GET / host=n keep"},
		{S(A "Connection: close;a=b\r\n" E), "GET / host=n keep"},
		{S(A "Connection: \tCLOSE\t,\r\n" E), "GET / host=n close"},
		{S(A "If-None-Match: \"a\", W/\"b\"\r\n" E), "GET / host=n tags=\"a\", W/\"b\" keep"},
		{S(A "If-None-Match: \"a\"\r\nIf-None-Match: *\r\n" E), "GET / host=n tags=* keep"},
		{S(A "Expect: 100-Continue\r\n" E), "GET / host=n keep expect"},
		{S("GET / HTTP/1.0\r\nExpect: 100-continue\r\n" E), "GET / 1.0 close"},
		{S(A "Origin: http://n\r\nAuthorization: Bearer x\r\n" E),
			"GET / host=n origin=http://n auth=Bearer x keep"},
		{S(A "Origin:\r\n" E), "GET / host=n origin= keep"},

		{S(A "Accept-Encoding: gzip\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: GZIP;q=0.001\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: deflate, gzip ; q=1.000\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: gzip;q=0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;Q=0.000\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=0, *\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: *, gzip;q=0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: *;q=0.5\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: *;q=0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: notgzip, gzipped\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip, gzip;q=0\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: identity\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding:\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: x-gzip\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: X-GZip;q=0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=0, x-gzip\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: identity;q=0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: identity;q=0, gzip;q=0.001\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: identity, gzip\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: identity, gzip;q=0.9\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=0.5, identity;q=0.5\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: *;q=0, gzip;q=0.001\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: gzip;q=1\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: gzip;q=0.0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=0.\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=1.\r\n" E), "GET / host=n keep gzip"},
		{S(A "Accept-Encoding: gzip;q=0.0001\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=-1\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=.5\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=1.001\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=NaN\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q =0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q= 0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip\t;\tq=0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=0;a=b\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;a=\";q=1\";q=0\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: \"gzip\"\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip deflate\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=1.5\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=1.0000\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=0.x\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: gzip;q=10\r\n" E), "GET / host=n keep"},
		{S(A "Accept-Encoding: ,;q=1, ,gzip\r\n" E), "GET / host=n keep gzip"},

		{S(A "Accept: " OM "\r\n" E), "GET / host=n keep openmetrics"},
		{S(A "Accept: */*\r\n" E), "GET / host=n keep"},
		{S(A "Accept:\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ";version=1.0.0\r\n" E), "GET / host=n keep openmetrics"},
		{S(A "Accept: " OM "; version=\"1.0.0\"; charset=utf-8\r\n" E), "GET / host=n keep openmetrics"},
		{S(A "Accept: " OM ";Version=1.0.0;escaping=underscores;q=0.7,*/*;q=0.1\r\n" E),
			"GET / host=n keep openmetrics"},
		{S(A "Accept: " OM ";version=\"1.0.0x\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ";version=\"\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ";version=1.0.0\"\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ";version=\"\"\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ";version=0.0.1\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ";version=2.0.0;q=0.9,*/*;q=0.1\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM "; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n" E),
			"GET / host=n keep"},
		{S(A "Accept: " OM ";q=0.5, text/plain;version=1.0.0;q=0.9, text/plain;q=0.4\r\n" E),
			"GET / host=n keep openmetrics"},
		{S(A "Accept: APPLICATION/OpenMetrics-Text\r\n" E), "GET / host=n keep openmetrics"},
		{S(A "Accept: application/openmetrics\r\n" E), "GET / host=n keep"},
		{S(A "Accept: application/*\r\n" E), "GET / host=n keep"},
		{S(A "Accept: text/plain, " OM "\r\n" E), "GET / host=n keep"},
		{S(A "Accept: text/plain;q=0.5, " OM ";q=0.6\r\n" E), "GET / host=n keep openmetrics"},
		{S(A "Accept: text/plain;q=0.6, " OM ";q=0.5\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ";q=0\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ";q=0.1, */*;q=0.9\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ";q=0.5, text/*;q=0.4, */*;q=0.9\r\n" E), "GET / host=n keep openmetrics"},
		{S(A "Accept: " OM ";q=0.5, text/plain;q=0, */*\r\n" E), "GET / host=n keep openmetrics"},
		{S(A "Accept: application/json;a=\"x,text/plain;q=1\", " OM ";q=0.2\r\n" E),
			"GET / host=n keep openmetrics"},
		{S(A "Accept: application/json;a=\"\\\",text/plain;q=1\", " OM ";q=0.2\r\n" E),
			"GET / host=n keep openmetrics"},
		{S(A "Accept: " PBF "\r\n" E), "GET / host=n keep proto"},
		{S(A "Accept: " PBF ";q=0.001\r\n" E), "GET / host=n keep proto"},
		{S(A "Accept: " PBF ";q=0\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " PB "\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " PB ";proto=io.prometheus.client.MetricFamily\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " PB ";encoding=delimited\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " PB ";proto=x;encoding=delimited\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " PB ";proto=io.prometheus.client.MetricFamily;encoding=text\r\n" E),
			"GET / host=n keep"},
		{S(A "Accept: " PB " ; encoding=\"delimited\" ; Proto=\"io.prometheus.client.MetricFamily\";q=1\r\n" E),
			"GET / host=n keep proto"},
		{S(A "Accept: " PBF ";proto=x\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " OM ", " PBF "\r\n" E), "GET / host=n keep proto"},
		{S(A "Accept: " OM ", " PBF ";q=0.9\r\n" E), "GET / host=n keep openmetrics"},
		{S(A "Accept: text/plain, " PBF ";q=0.9\r\n" E), "GET / host=n keep"},
		{S(A "Accept: " PBF "," OM ";version=1.0.0;q=0.8," OM
		     ";version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,"
		     "*/*;q=0.1\r\n" E),
			"GET / host=n keep proto"},
		{S(A "Accept: " OM ";version=1.0.0;escaping=allow-utf-8;q=0.6," OM ";version=0.0.1;q=0.5,"
		     "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,"
		     "*/*;q=0.2\r\n" E),
			"GET / host=n keep openmetrics"},

		{S(A WSC WSU "Sec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: "
			     "p, q\r\n" E),
			"GET / host=n key=k version=13 protocol=p, q keep upgrade"},
		{S(A WSC "Connection: a\r\n" WSU "Upgrade: h2c\r\n" E), "GET / host=n keep upgrade"},
		{S("GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: a\r\n" E), "GET / 1.0 keep"},
		{S(A WSC "Upgrade: h2c, WebSocket\r\n" E), "GET / host=n keep upgrade"},
		{S(A WSC "Upgrade: websocket/13, websockets\r\n" E), "GET / host=n keep"},
		{S(A "Connection: upgraded\r\n" WSU E), "GET / host=n keep"},
		{S(A WSU E), "GET / host=n keep"},
		{S(A WSC E), "GET / host=n keep"},
		{S("GET / HTTP/1.0\r\n" WSC WSU E), "GET / 1.0 keep"},
		{S(A WSC WSU "Content-Length: 2\r\n" E), "GET / host=n close length=2"},
		{S(A WSC WSU "Transfer-Encoding: chunked\r\n" E), "GET / host=n close chunked"},
		{S(A WSC WSU "Content-Length: 0\r\n" E), "GET / host=n keep upgrade"},
		{S(A "Sec-WebSocket-Key: k\r\nSec-WebSocket-Key: l\r\n" E), "GET / host=n key=l keep keys"},
		{S(A "Sec-WebSocket-Protocol: p\r\nSec-WebSocket-Protocol: q\r\n" E),
			"GET / host=n protocol=p protocol=q keep"},
		{S(A WSP WSP WSP WSP E), "GET / host=n protocol=p protocol=p protocol=p protocol=p keep"},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_str text = rows[i].text;
		char line[256], *block = malloc(text.len + 3);
		struct zn_out o = {.at = line, .cap = sizeof(line)};
		struct zn_http_req req;

		t_begin(text.at);
		check_verdict(text, WHOLE);
		memcpy(block, text.at, text.len);
		memcpy(block + text.len, "\x80\0 ", 3);
		CHECK_EQ(zn_http_parse(block, text.len + 3, &req), text.len);
		describe(&o, &req);
		CHECK_MEM(line, o.len, rows[i].want, strlen(rows[i].want));
		free(block);
	}
}

/* "GET /aaa HTTP/1.1", with a target of that length, then a header that fills the head up to a total length.
 */
static struct zn_str sized(char *to, size_t target, size_t total)
{
	struct zn_out o = {.at = to, .cap = 65536};

	zn_out_text(&o, "GET /");
	memset(o.at + o.len, 'a', target - 1);
	o.len += target - 1;
	zn_out_text(&o, " HTTP/1.1\r\n" H);
	if (total) {
		zn_out_text(&o, "A: ");
		memset(o.at + o.len, 'b', total - 4 - o.len);
		o.len = total - 4;
		zn_out_text(&o, E);
	}
	zn_out_text(&o, E);
	return (struct zn_str){to, o.len};
}

T(limits_of_sizes)
{
	static char text[65536];
	struct zn_http_req req;

	check_verdict(sized(text, ZN_HTTP_TARGET_MAX, 0), WHOLE);
	check_verdict(sized(text, ZN_HTTP_TARGET_MAX + 1, 0), -414);
	CHECK_EQ(zn_http_parse(text, 4 + ZN_HTTP_TARGET_MAX, &req), 0);
	CHECK_EQ(zn_http_parse(text, 4 + ZN_HTTP_TARGET_MAX + 1, &req), -414);
	CHECK_EQ(zn_http_parse(sized(text, 60000, 0).at, 65536, &req), -414);
	check_verdict(sized(text, 1, ZN_HTTP_HEAD_MAX), WHOLE);
	check_verdict(sized(text, 1, ZN_HTTP_HEAD_MAX + 1), -431);
	CHECK_EQ(zn_http_parse(text, ZN_HTTP_HEAD_MAX - 1, &req), 0);
	CHECK_EQ(zn_http_parse(text, ZN_HTTP_HEAD_MAX, &req), -431);
}

T(limits_of_counts)
{
	char text[2048];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_http_req req;
	char method[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" H E;

	zn_out_text(&o, G H);
	for (int i = 1; i < ZN_HTTP_HEADERS_MAX; i++)
		zn_out_text(&o, "A: b\r\n");
	memcpy(text + o.len, E, 2);
	check_verdict((struct zn_str){text, o.len + 2}, WHOLE);
	zn_out_text(&o, "A: b\r\n" E);
	check_verdict((struct zn_str){text, o.len}, -431);
	check_verdict((struct zn_str){method + 1, sizeof(method) - 2}, -501);
	check_verdict((struct zn_str){method, sizeof(method) - 1}, -501);
	CHECK_EQ(zn_http_parse(method + 1, 32, &req), 0);
	CHECK_EQ(zn_http_parse(method, 33, &req), -501);
}

/* The three classes of bytes, each byte in its place. */
T(each_byte)
{
	static const char tchar[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (int c = 0; c < 256; c++) {
		char method[] = "G?T / HTTP/1.1\r\n" H E, target[] = "GET /?x HTTP/1.1\r\n" H E;
		char name[] = G H "A?: b\r\n" E, value[] = G H "A: b?c\r\n" E;
		bool token = c && strchr(tchar, c);

		method[1] = target[5] = name[sizeof(G H)] = value[sizeof(G H) + 3] = (char)c;
		check_verdict((struct zn_str){method, sizeof(method) - 1}, c == 'E' ? WHOLE : token ? -501 : -400);
		if (c != ' ')
			check_verdict((struct zn_str){target, sizeof(target) - 1},
				c > 0x20 && c < 0x7f && c != '#' ? WHOLE : -400);
		if (c != ':')
			check_verdict((struct zn_str){name, sizeof(name) - 1}, token ? WHOLE : -400);
		check_verdict((struct zn_str){value, sizeof(value) - 1},
			c == '\t' || (c >= 0x20 && c != 0x7f) ? WHOLE : -400);
	}
}

/* Reads what is left of a body from a heap block of exactly that size: what zn_http_body_read() says. */
static int read_part(struct zn_http_body *b, struct zn_str text)
{
	char *block = malloc(text.len ? text.len : 1);
	int used;

	memcpy(block, text.at, text.len);
	used = zn_http_body_read(b, block, text.len);
	free(block);
	return used;
}

/* A body in pieces of `step` bytes, the first of `first` bytes: its length, 0 if it has no end, or an error. */
static int read_cut(const struct zn_http_req *req, struct zn_str text, size_t first, size_t step)
{
	struct zn_http_body b;
	size_t total = 0, end = first;
	int used = 0;

	zn_http_body_init(&b, req);
	for (; !b.done && used >= 0 && total < text.len; end += step) {
		size_t len = (end < text.len ? end : text.len) - total;

		used = read_part(&b, (struct zn_str){text.at + total, len});
		total += used > 0 ? (size_t)used : 0;
		CHECK(used < 0 || b.done || (size_t)used == len);
	}
	if (used < 0)
		CHECK_EQ(read_part(&b, S("0")), -400);
	else if (b.done)
		CHECK_EQ(read_part(&b, S("0")), 0);
	return used < 0 ? used : b.done ? (int)total : 0;
}

static void check_body(const struct zn_http_req *req, struct zn_str text, int want)
{
	for (size_t cut = 0; cut <= text.len; cut++)
		CHECK_EQ(read_cut(req, text, cut, text.len), want);
	CHECK_EQ(read_cut(req, text, 1, 1), want);
	CHECK_EQ(read_cut(req, text, 3, 7), want);
}

#define NEXT   "GET /x"
#define Z16    "0000000000000000"
#define X64    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define LAST   "0\r\n\r\n"
#define END(s) (sizeof(s) - 1)

static void chunked_bodies(void)
{
	static const struct {
		const char *name;
		struct zn_str text;
		int want;
	} rows[] = {
		{"chunked: nothing yet", S(""), 0},
		{"chunked: empty", S(LAST NEXT), END(LAST)},
		{"chunked: one", S("5\r\nhello\r\n" LAST NEXT), END("5\r\nhello\r\n" LAST)},
		{"chunked: two", S("1\r\na\r\n00b\r\n0123\r\n56789\r\n" LAST),
			END("1\r\na\r\n00b\r\n0123\r\n56789\r\n" LAST)},
		{"chunked: digits of both cases", S("A\r\n0123456789\r\na\r\n0123456789\r\n" LAST),
			END("A\r\n0123456789\r\na\r\n0123456789\r\n" LAST)},
		{"chunked: no last chunk", S("5\r\nhello\r\n"), 0},
		{"chunked: no end of the last chunk", S("0\r\n"), 0},
		{"chunked: last chunk of many zeros", S("000\r\n\r\n" NEXT), END("000\r\n\r\n")},
		{"chunked: the next request in the data", S("6\r\n" NEXT "\r\n" LAST), END("6\r\n" NEXT "\r\n" LAST)},

		{"chunked: no size", S("\r\n"), -400},
		{"chunked: size of a letter", S("g\r\n"), -400},
		{"chunked: size with a sign", S("+5\r\n"), -400},
		{"chunked: size below 0", S("-5\r\n"), -400},
		{"chunked: size with 0x", S("0x5\r\n"), -400},
		{"chunked: space before the size", S(" 5\r\n"), -400},
		{"chunked: space after the size", S("5 \r\n"), -400},
		{"chunked: tab after the size", S("5\t\r\n"), -400},
		{"chunked: two sizes", S("5 5\r\n"), -400},
		{"chunked: size with a comma", S("5,5\r\n"), -400},
		{"chunked: size with an underline", S("1_0\r\n"), -400},
		{"chunked: size with a NUL", S("5\0\r\n"), -400},
		{"chunked: size in other digits", S("\xd9\xa5\r\n"), -400},
		{"chunked: extension only", S(";a\r\n"), -400},
		{"chunked: LF after the size", S("5\nhello\r\n" LAST), -400},
		{"chunked: CR after the size", S("5\rhello\r\n" LAST), -400},
		{"chunked: CR CR LF after the size", S("5\r\r\nhello\r\n" LAST), -400},
		{"chunked: LF after the data", S("5\r\nhello\n" LAST), -400},
		{"chunked: CR after the data", S("5\r\nhello\r" LAST), -400},
		{"chunked: nothing after the data", S("5\r\nhello" LAST), -400},
		{"chunked: data too long", S("5\r\nhelloo\r\n" LAST), -400},
		{"chunked: data too short", S("5\r\nhell\r\n" LAST), -400},
		{"chunked: an empty line more", S("5\r\nhello\r\n\r\n" LAST), -400},
		{"chunked: LF at the end", S("0\r\n\n"), -400},
		{"chunked: LF LF at the end", S("0\n\n"), -400},
		{"chunked: CR and no LF at the end", S("0\r\n\rx"), -400},
		{"chunked: the next request for the end", S("0\r\nGET / HTTP/1.1\r\n\r\n"), -400},

		{"chunked: longest", S("10000\r\n"), 0},
		{"chunked: too long by one", S("10001\r\n"), -413},
		{"chunked: too long with the chunk before", S("1\r\na\r\n10000\r\n"), -413},
		{"chunked: 2^32", S("100000000\r\n"), -413},
		{"chunked: 2^64 - 1", S("ffffffffffffffff\r\n"), -413},
		{"chunked: 2^64 + 5", S("10000000000000005\r\n"), -413},
		{"chunked: zeros before the size", S(Z16 "00005\r\nhello\r\n" LAST),
			END(Z16 "00005\r\nhello\r\n" LAST)},

		{"extension: name", S("5;a\r\nhello\r\n" LAST), END("5;a\r\nhello\r\n" LAST)},
		{"extension: value", S("5;a=b\r\nhello\r\n0;c=d\r\n\r\n"), END("5;a=b\r\nhello\r\n0;c=d\r\n\r\n")},
		{"extension: two", S("0;a;b=c\r\n\r\n"), END("0;a;b=c\r\n\r\n")},
		{"extension: blanks", S("0 \t; a\t= b ;\tc ;d\r\n\r\n"), END("0 \t; a\t= b ;\tc ;d\r\n\r\n")},
		{"extension: quoted", S("0;a=\" ;\\\"\\\\=\xe9\t\";b\r\n\r\n"),
			END("0;a=\" ;\\\"\\\\=\xe9\t\";b\r\n\r\n")},
		{"extension: blanks in a row", S("0\t \t;\t a \t =\t b \t ;c\r\n\r\n"),
			END("0\t \t;\t a \t =\t b \t ;c\r\n\r\n")},
		{"extension: values in a row", S("0;a=b;c=\"d\";e=\"f\"\r\n\r\n"),
			END("0;a=b;c=\"d\";e=\"f\"\r\n\r\n")},
		{"extension: quoted empty", S("0;a=\"\" ;b\r\n\r\n"), END("0;a=\"\" ;b\r\n\r\n")},
		{"extension: no name", S("0;\r\n"), -400},
		{"extension: no name before the next", S("0;;a\r\n"), -400},
		{"extension: no name before the value", S("0;=a\r\n"), -400},
		{"extension: no value", S("0;a=\r\n"), -400},
		{"extension: no value before the next", S("0;a=;b\r\n"), -400},
		{"extension: two values", S("0;a=b c\r\n"), -400},
		{"extension: blank at the end", S("0;a \r\n"), -400},
		{"extension: blank after a value", S("0;a=b \r\n"), -400},
		{"extension: quotes open", S("0;a=\"b\r\n"), -400},
		{"extension: more after the quotes", S("0;a=\"b\"c\r\n"), -400},
		{"extension: escape at the end", S("0;a=\"\\\r\n"), -400},
		{"extension: LF", S("5;a\nhello\r\n" LAST), -400},
		{"extension: CR", S("5;a\rb\r\nhello\r\n" LAST), -400},
		{"extension: LF in quotes", S("5;a=\"\n\"\r\nhello\r\n" LAST), -400},
		{"extension: NUL", S("5;a=\"\0\"\r\nhello\r\n" LAST), -400},
		{"extension: high byte", S("0;\xc3\xa9\r\n\r\n"), -400},

		{"trailer: one", S("0\r\nA: b\r\n\r\n" NEXT), END("0\r\nA: b\r\n\r\n")},
		{"trailer: two", S("0\r\nA:\r\nB: \xe9\t c \r\n\r\n"), END("0\r\nA:\r\nB: \xe9\t c \r\n\r\n")},
		{"trailer: of framing", S("0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n" NEXT),
			END("0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n")},
		{"trailer: no colon", S("0\r\nA\r\n\r\n"), -400},
		{"trailer: empty name", S("0\r\n: a\r\n\r\n"), -400},
		{"trailer: space before colon", S("0\r\nA : b\r\n\r\n"), -400},
		{"trailer: folded", S("0\r\nA: b\r\n c\r\n\r\n"), -400},
		{"trailer: LF", S("0\r\nA: b\n\r\n"), -400},
		{"trailer: CR in a value", S("0\r\nA: b\rc\r\n\r\n"), -400},
		{"trailer: NUL in a value", S("0\r\nA: \0\r\n\r\n"), -400},
		{"trailer: high byte in a name", S("0\r\n\xe9: b\r\n\r\n"), -400},
		{"trailer: bare CR at the end", S("0\r\nA: b\r\n\rGET"), -400},

		{"line: longest size",
			S(Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 "00000000000000\r\n\r\n"),
			ZN_HTTP_LINE_MAX + 2},
		{"line: size too long",
			S(Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 "000000000000000\r\n\r\n"), -400},
		{"line: size without end", S(Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 "0"),
			-400},
		{"line: longest extension",
			S("0;" X64 X64 X64 "=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n"),
			ZN_HTTP_LINE_MAX + 2},
		{"line: extension too long",
			S("0;" X64 X64 X64 "=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n"),
			-400},
		{"line: extension without end", S("0;" X64 X64 X64 X64), -400},
		{"line: longest trailers",
			S("0\r\nA:" X64 X64 "\r\nB:" X64
			  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n"),
			3 + ZN_HTTP_LINE_MAX},
		{"line: trailers too long",
			S("0\r\nA:" X64 X64 "\r\nB:" X64
			  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n"),
			-400},
		{"line: trailers without end", S("0\r\nA:" X64 X64 X64 X64), -400},
	};
	static const struct zn_http_req req = {.chunked = true};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].name);
		check_body(&req, rows[i].text, rows[i].want);
	}
}

T(bodies_of_a_length)
{
	static const struct zn_http_req none = {0}, five = {.length = 5};

	check_body(&none, S(""), 0);
	CHECK_EQ(read_cut(&none, S(NEXT), 6, 1), 0);
	check_body(&five, S("hell"), 0);
	check_body(&five, S("hello"), 5);
	check_body(&five,
		S("\r\n\0\xff"
		  "0" NEXT),
		5);
}

/* The longest body of each form, and one byte more of content or of framing. */
T(longest_bodies)
{
	static char text[2 * ZN_HTTP_BODY_MAX + 64];
	static const struct zn_http_req chunked = {.chunked = true}, sized = {.length = ZN_HTTP_BODY_MAX};
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	memset(text, 'x', sizeof(text));
	CHECK_EQ(read_cut(&sized, (struct zn_str){text, sizeof(text)}, 1, 4099), ZN_HTTP_BODY_MAX);
	memcpy(text, "10000\r\n", 7);
	memcpy(text + 7 + ZN_HTTP_BODY_MAX, "\r\n" LAST, 7);
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, sizeof(text)}, 1, 4099), ZN_HTTP_BODY_MAX + 14);
	memcpy(text + 7 + ZN_HTTP_BODY_MAX, "\r\n1\r\na\r\n" LAST, 13);
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, sizeof(text)}, 1, 4099), -413);
	for (int i = 0; i < ZN_HTTP_BODY_MAX / 5; i++)
		zn_out_text(&o, "1\r\na\r\n");
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, o.len}, 1, 4099), 0);
	zn_out_char(&o, '0');
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, o.len}, 1, 4099), 0);
	zn_out_char(&o, '\r');
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, o.len}, 1, 4099), -413);
}

/* A head, its body and the next head, as one stream cut at every byte: where the second begins is never in doubt. */
T(requests_in_a_row)
{
	static const struct {
		struct zn_str text;
		size_t first;
	} rows[] = {
		{S(G H E G H E), END(G H E)},
		{S(G H L5 E "hello" G H E), END(G H L5 E "hello")},
		{S(G H L5 E "GET /" G H E), END(G H L5 E "GET /")},
		{S(G H "Transfer-Encoding: chunked\r\n" E "5;a\r\nGET /\r\n0\r\nA: b\r\n\r\n" G H E),
			END(G H "Transfer-Encoding: chunked\r\n" E "5;a\r\nGET /\r\n0\r\nA: b\r\n\r\n")},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		for (size_t cut = 0; cut <= rows[i].text.len; cut++) {
			struct zn_http_req req;
			int head = zn_http_parse(rows[i].text.at, rows[i].text.len, &req), body;
			struct zn_str rest = {rows[i].text.at + head, rows[i].text.len - (size_t)head};

			CHECK_EQ(
				parse_part(rows[i].text, cut, &(struct zn_http_req){0}), cut < (size_t)head ? 0 : head);
			body = read_cut(&req, rest, cut < rest.len ? cut : rest.len, rest.len);
			CHECK_EQ(head + body, rows[i].first);
			CHECK_EQ(zn_http_parse(rest.at + body, rest.len - (size_t)body, &req), END(G H E));
		}
	}
}

static void paths(void)
{
	static const struct {
		struct zn_str path;
		const char *want; /* "": refused */
	} rows[] = {
		{S("/"), "/"},
		{S("/metrics"), "/metrics"},
		{S("/a/b/"), "/a/b/"},
		{S("/%6detrics"), "/metrics"},
		{S("/%6D%65trics"), "/metrics"},
		{S("/%2565"), "/%65"},
		{S("/%252e%252e/a"), "/%2e%2e/a"},
		{S("/%25"), "/%"},
		{S("/a+b"), "/a+b"},
		{S("/%20%c3%a9%FF%0a"), "/ \xc3\xa9\xff\n"},
		{S("/%3f%23%5c"), "/?#\\"},
		{S("//"), "//"},
		{S("//a"), "//a"},
		{S("/a//b"), "/a//b"},

		{S("/."), "/"},
		{S("/./"), "/"},
		{S("/.."), "/"},
		{S("/../"), "/"},
		{S("/../../a"), "/a"},
		{S("/a/."), "/a/"},
		{S("/a/./b"), "/a/b"},
		{S("/a/.."), "/"},
		{S("/a/../"), "/"},
		{S("/a/../b"), "/b"},
		{S("/a/b/../c"), "/a/c"},
		{S("/a/b/../../../c"), "/c"},
		{S("/a//../b"), "/a/b"},
		{S("//.."), "/"},
		{S("/..//a"), "//a"},
		{S("/a/b/c/./../../g"), "/a/g"}, /* RFC 3986, 5.2.4 */
		{S("/%2e%2E/a"), "/a"},
		{S("/a/.%2e/b"), "/b"},
		{S("/a/%2e"), "/a/"},
		{S("/..."), "/..."},
		{S("/.../a"), "/.../a"},
		{S("/.a"), "/.a"},
		{S("/..a/b"), "/..a/b"},
		{S("/a./b"), "/a./b"},
		{S("/a../b"), "/a../b"},
		{S("/.;/a"), "/.;/a"},

		{S(""), ""},
		{S("*"), ""},
		{S("a/b"), ""},
		{S("%2fa"), ""},
		{S("/%2F"), ""},
		{S("/a%2fb"), ""},
		{S("/..%2fa"), ""},
		{S("/%00"), ""},
		{S("/a%00b"), ""},
		{S("/%"), ""},
		{S("/%4"), ""},
		{S("/%4g"), ""},
		{S("/%g4"), ""},
		{S("/%%41"), ""},
		{S("/% 1"), ""},
		{S("/%+1"), ""},
		{S("/%u0041"), ""},
		{S("/a\0b"), ""},
		{S("/0123456789012345678901234567890"), "/0123456789012345678901234567890"},
		{S("/01234567890123456789012345678901"), ""},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char *block = malloc(rows[i].path.len ? rows[i].path.len : 1), to[32];
		size_t len, want = strlen(rows[i].want);

		t_begin(rows[i].path.len ? rows[i].path.at : "no path");
		memcpy(block, rows[i].path.at, rows[i].path.len);
		len = zn_http_path((struct zn_str){block, rows[i].path.len}, to, sizeof(to));
		CHECK_MEM(to, len, rows[i].want, want);
		for (size_t cap = 0; cap < want; cap++) {
			char *room = malloc(cap ? cap : 1);

			CHECK_EQ(zn_http_path((struct zn_str){block, rows[i].path.len}, room, cap), 0);
			free(room);
		}
		free(block);
	}
}

static void queries(void)
{
	static const struct {
		struct zn_str query;
		const char *want; /* each pair as name=value; a '!' for one that is refused */
	} rows[] = {
		{S(""), ""},
		{S("a=b"), "a=b;"},
		{S("a=b&c=d"), "a=b;c=d;"},
		{S("a"), "a=;"},
		{S("a="), "a=;"},
		{S("=a"), "=a;"},
		{S("="), "=;"},
		{S("&"), ""},
		{S("&&a=b&&"), "a=b;"},
		{S("a=b=c"), "a=b=c;"},
		{S("a=b;c=d"), "a=b;c=d;"},
		{S("a+b=c+d"), "a b=c d;"},
		{S("a%2Bb=%26%3d"), "a+b=&=;"},
		{S("%61=%6a"), "a=j;"},
		{S("a=%252b"), "a=%2b;"},
		{S("a=1%2c2"), "a=1,2;"},
		{S("a=?b/c"), "a=?b/c;"},
		{S("a=%c3%a9"), "a=\xc3\xa9;"},
		{S("a=%"), "!"},
		{S("a=%4"), "!"},
		{S("a=%4g"), "!"},
		{S("%=a&b=c"), "!b=c;"},
		{S("a=%00"), "!"},
		{S("%00=a"), "!"},
		{S("a=b%4&1=c"), "!1=c;"},
		{S("a=\0"), "!"},
		{S("1234567=7654321"), "1234567=7654321;"},
		{S("12345678=1&a=b"), "!a=b;"},
		{S("a=12345678"), "!"},
		{S("%31%32%33%34%35%36%37=%31%32%33%34567"), "1234567=1234567;"},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char *block = malloc(rows[i].query.len ? rows[i].query.len : 1), name[8], value[8], got[64];
		struct zn_str query = {block, rows[i].query.len};
		struct zn_out o = {.at = got, .cap = sizeof(got)};
		int pair;

		t_begin(rows[i].query.len ? rows[i].query.at : "no query");
		memcpy(block, rows[i].query.at, rows[i].query.len);
		while ((pair = zn_http_pair(&query, name, sizeof(name), value, sizeof(value)))) {
			CHECK(pair == 1 || pair == -EINVAL);
			zn_out_text(&o, pair == 1 ? name : "!");
			zn_out_text(&o, pair == 1 ? "=" : "");
			zn_out_text(&o, pair == 1 ? value : "");
			zn_out_text(&o, pair == 1 ? ";" : "");
		}
		CHECK_MEM(got, o.len, rows[i].want, strlen(rows[i].want));
		CHECK_EQ(query.len, 0);
		free(block);
	}
}

static void entity_tags(void)
{
	static const struct {
		struct zn_str list;
		const char *tag;
		bool want;
	} rows[] = {
		{S("\"a\""), "\"a\"", true},
		{S("W/\"a\""), "\"a\"", true},
		{S("\"a\""), "W/\"a\"", true},
		{S("W/\"a\""), "W/\"a\"", true},
		{S("\"b\""), "\"a\"", false},
		{S("\"A\""), "\"a\"", false},
		{S("w/\"a\""), "\"a\"", false},
		{S("*"), "\"a\"", true},
		{S(" * "), "\"a\"", true},
		{S("\"*\""), "\"a\"", false},
		{S("*, \"b\""), "\"a\"", false},
		{S("\"b\", \"a\""), "\"a\"", true},
		{S("\"b\",W/\"c\" ,\t\"a\""), "\"a\"", true},
		{S(",, \"a\" ,"), "\"a\"", true},
		{S("\"b,\\\", \"a\""), "\"a\"", true},
		{S("\"b\\\"a\""), "\"a\"", false},
		{S("\"\""), "\"\"", true},
		{S("\"\""), "\"a\"", false},
		{S("a"), "\"a\"", false},
		{S("a, \"a\""), "\"a\"", false},
		{S("\"a"), "\"a\"", false},
		{S("\""), "\"a\"", false},
		{S("W/"), "\"a\"", false},
		{S("W/a"), "\"a\"", false},
		{S("W"), "\"a\"", false},
		{S("\"ab\""), "\"a\"", false},
		{S("\"a\""), "\"ab\"", false},
		{S("\"a\"b, \"c\""), "\"c\"", false},
		{S("\"b\"\"a\""), "\"a\"", false},
		{S("\"a\""), "a", false},
		{S(""), "\"a\"", false},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char *block = malloc(rows[i].list.len ? rows[i].list.len : 1);

		t_begin(rows[i].list.len ? rows[i].list.at : "no tag");
		memcpy(block, rows[i].list.at, rows[i].list.len);
		CHECK_EQ(zn_http_etag_matches((struct zn_str){block, rows[i].list.len}, rows[i].tag), rows[i].want);
		free(block);
	}
	t_begin("no If-None-Match");
	CHECK(!zn_http_etag_matches((struct zn_str){0}, "\"a\""));
}

static void tokens(void)
{
	static const struct {
		struct zn_str value;
		bool want;
	} rows[] = {
		{S("close"), true},
		{S("CLOSE"), true},
		{S(" a,\tclose ,b"), true},
		{S(",,close"), true},
		{S(""), false},
		{S("clos"), false},
		{S("closer"), false},
		{S("a close"), false},
		{S("close;a"), false},
		{S("\"a,close\""), false},
		{S("\"\\\",close\""), false},
		{S("\"a\",close"), true},
		{S("\"close"), false},
		{S("\"\\"), false},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].value.len ? rows[i].value.at : "no token");
		CHECK_EQ(zn_http_has_token(rows[i].value, "close"), rows[i].want);
	}
}

static void answers(void)
{
	static const struct {
		const char *name;
		struct zn_http_res res;
		const char *want;
	} rows[] = {
		{"200", {.status = 200, .type = "text/plain", .length = 12, .date_s = 784111777},
			"HTTP/1.1 200 OK\r\nServer: zerneld\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
			"Content-Type: text/plain\r\nContent-Length: 12\r\n\r\n"},
		{"405", {.status = 405, .extra = "Allow: GET, HEAD\r\n", .close = true, .date_s = -1},
			"HTTP/1.1 405 Method Not Allowed\r\nServer: zerneld\r\nContent-Length: 0\r\n"
			"Connection: close\r\nAllow: GET, HEAD\r\n\r\n"},
		{"keep-alive", {.status = 200, .length = 3, .keep_alive = true, .date_s = -1},
			"HTTP/1.1 200 OK\r\nServer: zerneld\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n"},
		{"close before keep-alive", {.status = 200, .close = true, .keep_alive = true, .date_s = -1},
			"HTTP/1.1 200 OK\r\nServer: zerneld\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		{"100", {.status = 100, .length = 1, .date_s = -1}, "HTTP/1.1 100 Continue\r\nServer: zerneld\r\n\r\n"},
		{"204", {.status = 204, .length = 1, .date_s = -1},
			"HTTP/1.1 204 No Content\r\nServer: zerneld\r\n\r\n"},
		{"304", {.status = 304, .extra = "ETag: \"a\"\r\n", .length = 9, .date_s = -1},
			"HTTP/1.1 304 Not Modified\r\nServer: zerneld\r\nETag: \"a\"\r\n\r\n"},
		{"101", {.status = 101, .extra = "Connection: Upgrade\r\n", .no_length = true, .date_s = 0},
			"HTTP/1.1 101 Switching Protocols\r\nServer: zerneld\r\n"
			"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: Upgrade\r\n\r\n"},
		{"longest", {.status = 999, .length = UINT64_MAX, .date_s = INT64_MAX},
			"HTTP/1.1 999 Unknown\r\nServer: zerneld\r\nContent-Length: "
			"18446744073709551615\r\n\r\n"},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		size_t len = strlen(rows[i].want);

		t_begin(rows[i].name);
		for (size_t cap = 0; cap <= len; cap++) {
			char *block = malloc(cap ? cap : 1);
			struct zn_out o = {.at = block, .cap = cap};

			zn_http_head(&o, &rows[i].res);
			CHECK_EQ(o.full, cap < len);
			if (cap == len)
				CHECK_MEM(block, o.len, rows[i].want, len);
			free(block);
		}
	}
}

/* Each status that is counted has a name of its own. */
T(reasons)
{
	static const int codes[] = {
#define X(code) code,
		ZN_CODES(X)
#undef X
	};

	for (size_t i = 0; i < ZN_LEN(codes); i++)
		CHECK(strcmp(zn_http_reason(codes[i]), "Unknown"));
}

/* Against the C library: a step of 25 h 1 min 1 s over four centuries, and the last second that has a date.
 */
T(dates)
{
	time_t last = 253402300799;

	for (time_t s = 0; s <= last; s = s < 12622780800 ? s + 90061 : s == last ? s + 1 : last) {
		struct zn_http_res res = {.status = 204, .no_length = true, .date_s = s};
		char want[128], got[128];
		struct zn_out o = {.at = got, .cap = sizeof(got)};
		struct tm tm;
		size_t len = strftime(want, sizeof(want),
			"HTTP/1.1 204 No Content\r\nServer: zerneld\r\nDate: %a, %d %b %Y %H:%M:%S "
			"GMT\r\n\r\n",
			gmtime_r(&s, &tm));

		zn_http_head(&o, &res);
		CHECK_MEM(got, o.len, want, len);
	}
}

int main(void)
{
	verdicts();
	early_errors();
	meanings();
	RUN(limits_of_sizes);
	RUN(limits_of_counts);
	RUN(each_byte);
	chunked_bodies();
	RUN(bodies_of_a_length);
	RUN(longest_bodies);
	RUN(requests_in_a_row);
	paths();
	queries();
	entity_tags();
	tokens();
	answers();
	RUN(reasons);
	RUN(dates);
	return t_end();
}
