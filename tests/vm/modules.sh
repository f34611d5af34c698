#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# modules.sh KERNEL TO NAME...: packs modules of the kernel in the folder KERNEL, and those that they need, as the
# archive TO, which is put behind an initramfs: /modules/NN-name.ko, numbered in the order to load them. What is built
# into this kernel is passed over.
set -euo pipefail

modules=$(echo "$1"/lib/modules/*)
to=$2
shift 2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/modules"
count=10

# pack PATH: unless it is there already
pack() {
	local name
	name=$(basename "$1" | sed 's/\.ko.*//')
	compgen -G "$root/modules/*-$name.ko" > /dev/null && return
	case $1 in
	*.xz) xz -dc "$modules/$1" ;;
	*.zst) zstd -qdc "$modules/$1" ;;
	*) cat "$modules/$1" ;;
	esac > "$root/modules/$count-$name.ko"
	count=$((count + 1))
}

for name in "$@"; do
	line=$(grep -E "/$name\.ko[.a-z]*:" "$modules/modules.dep" || true)
	for path in $(echo "${line#*:}" | tr ' ' '\n' | tac) ${line%%:*}; do
		pack "$path"
	done
done
(cd "$root" && find modules | cpio --quiet -o -H newc | gzip -1) > "$to"
