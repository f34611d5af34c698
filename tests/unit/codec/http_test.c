/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http_test.c: heads of requests (http.c), each replayed cut at every byte from a heap block of exactly that size:
 * which are good, and what they mean.
 */
#include <errno.h>

#include "http.h"

#define WHOLE 1 /* the verdict on a head that is complete and good */

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

#define G10 "GET / HTTP/1.0\r\n"

#define WSP "Sec-WebSocket-Protocol: p\r\n"

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

int main(void)
{
	verdicts();
	early_errors();
	meanings();
	RUN(limits_of_sizes);
	RUN(limits_of_counts);
	RUN(each_byte);
	return t_end();
}
