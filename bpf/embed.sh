#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# embed.sh OBJECT...: makes bpf.c, on standard output: each BPF object file, compressed, as a struct zn_blob that is
# named after its source (zn_bpf_proc for proc.bpf.o). Compressed they are a quarter of their size.
set -eu

echo '/* Made by bpf/embed.sh; do not edit. */'
echo '#include "zernel.h"'
for object in "$@"; do
	name=$(basename "$object" .bpf.o)
	echo "static const uint8_t $name[] = {"
	gzip -9nc "$object" | od -An -v -tu1 -w24 | sed 's/ *\([0-9]\{1,\}\)/\1,/g'
	echo "};"
	echo "const struct zn_blob zn_bpf_$name = {$name, sizeof($name), $(wc -c <"$object")};"
done
