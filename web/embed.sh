#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# embed.sh: makes page.c, on standard output, from page.html, page.css and the modules in page/: one document,
# compressed, room for it unpacked, its ETag, and a Content-Security-Policy that allows exactly this style and this
# script, by their hashes.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# sha256 of standard input in base64, as CSP wants it
csp_hash() {
	for byte in $(sha256sum | cut -c 1-64 | sed 's/../& /g'); do
		printf "\\$(printf %03o "0x$byte")"
	done | base64 -w 0
}

array() { # NAME FILE
	echo "const char $1[] = {"
	od -An -v -td1 -w24 "$2" | sed 's/ *\(-\{0,1\}[0-9]\{1,\}\)/\1,/g'
	echo "};"
	echo "const size_t $1_len = $(wc -c <"$2");"
}

# The modules as one script: each uses what those before it have, and all names are told apart.
modules="shared charts history alerts ranks timeline ras why glance gpus processes latency flame signals jobs io probes main"
script() {
	echo '"use strict";'
	for module in $modules; do
		sed -e '/^import {.*";$/d' -e '/^import {/,/";$/d' -e 's/^export //' -e 1d "page/$module.js"
	done
}
[ "$(echo "$modules" | wc -w)" = "$(find page -name '*.js' | wc -l)" ] || {
	echo "embed.sh: not each module of page/ is in the list" >&2
	exit 1
}

# a newline after <style> is part of what is hashed, so nothing is added on the way
printf %s "$(cat page.css)" >"$work/css"
printf %s "$(script)" >"$work/js"
if grep -q '</script\|</style' "$work/js" "$work/css"; then
	echo "embed.sh: a script or style must not hold its own end tag" >&2
	exit 1
fi
{
	sed '/@style@/,$d' page.html
	printf '<style>'
	cat "$work/css"
	echo '</style>'
	sed '1,/@style@/d; /@script@/,$d' page.html
	printf '<script>'
	cat "$work/js"
	echo '</script>'
	sed '1,/@script@/d' page.html
} >"$work/page"
gzip -9nc "$work/page" >"$work/page.gz"
etag=$(sha256sum <"$work/page" | cut -c 1-16)

cat <<C
/* Made by web/embed.sh; do not edit. */
#include "zernel.h"
const char zn_page_etag[] = "\"$etag\"";
const char zn_page_headers[] =
	"ETag: W/\"$etag\"\r\n" /* weak: of both forms, plain and compressed (RFC 9110, section 8.8.3) */
	"Cache-Control: no-cache\r\n"
	"Content-Security-Policy: default-src 'none'; style-src 'sha256-$(csp_hash <"$work/css")'; "
	"script-src 'sha256-$(csp_hash <"$work/js")'; connect-src 'self'; img-src data:; base-uri 'none'; "
	"form-action 'none'; frame-ancestors 'none'\r\n"
	"X-Content-Type-Options: nosniff\r\n"
	"X-Frame-Options: DENY\r\n"
	"Referrer-Policy: no-referrer\r\n"
	"Cross-Origin-Opener-Policy: same-origin\r\n"
	"Cross-Origin-Resource-Policy: same-origin\r\n";
C
echo "char zn_page[$(wc -c <"$work/page")];"
echo "const size_t zn_page_len = sizeof(zn_page);"
array zn_page_gzip "$work/page.gz"
