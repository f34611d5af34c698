#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# slim.sh FULL SLIM: the BPF object without its line information, whose source text is nearly half of what is embedded.
# .BTF.ext tells how long that is (struct btf_ext_header: line_info_len, at byte 20; 0: there is none), and of its
# strings bpftool keeps those alone that something names. Types, functions and CO-RE relocations stay. The verifier's
# log then names no source lines; FULL has them. BPFTOOL: the program of that name.
set -eu

bare=$2.bare
trap 'rm -f "$bare"' EXIT
cp "$1" "$bare"
at=$(readelf -SW "$bare" | sed -n 's/.* \.BTF\.ext *PROGBITS *[0-9a-f]* \([0-9a-f]*\) .*/\1/p')
if [ -z "$at" ]; then
	echo "slim.sh: $1 has no section .BTF.ext; was it compiled with -g?" >&2
	exit 1
fi
printf '\0\0\0\0' | dd of="$bare" bs=1 seek=$((0x$at + 20)) conv=notrunc status=none
"${BPFTOOL:-bpftool}" gen object "$2" "$bare"
