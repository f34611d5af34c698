#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kernels.sh DIR WANT: fetches one Debian kernel for virtual machines as DIR/WANT/vmlinuz, with its modules under
# DIR/WANT/lib/modules; nothing is installed.
# WANT is a version like 6.1, or newest: its kernel for clouds. With -full behind it, the one for machines, which has
# the drivers of devices too. What lies in DIR already is not fetched again. amd64 only.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/apt.sh
. "$here/../apt.sh"

suite() {
	case ${1%-full} in
	5.10) echo bullseye-security ;;
	6.1) echo bookworm ;;
	6.12) echo bookworm-backports ;;
	*) echo trixie-backports ;;
	esac
}

# The newest package that matches, and the parts that an image is split into from 7.2 on.
packages() {
	local number=${1%-full} flavour=cloud-amd64 image part name
	[ "$number" = "$1" ] || flavour=amd64
	[ "$number" = newest ] && number='[0-9]+'
	image=$(own_apt apt-cache pkgnames linux-image- |
		grep -E "^linux-image-${number//./\\.}\.[0-9.]+(-[0-9]+|\+deb[0-9]+)*-$flavour$" | sort -V | tail -n 1)
	[ -n "$image" ] || return 1
	echo "$image"
	for name in binary modules; do
		part=linux-$name-${image#linux-image-}
		if own_apt apt-cache show "$part" > "$dir/apt/show" 2>&1; then
			echo "$part"
		fi
	done
}

fetch() {
	local want=$1 names deb
	own_update "$(suite "$want")"
	mapfile -t names < <(packages "$want")
	[ "${#names[@]}" -gt 0 ] || { echo "kernels.sh: no kernel $want in this archive" >&2; return 1; }
	rm -rf "$dir/apt/new" && mkdir -p "$dir/apt/new/root"
	(cd "$dir/apt/new" && own_apt apt-get download "${names[@]}")
	for deb in "$dir"/apt/new/*.deb; do
		dpkg-deb -x "$deb" "$dir/apt/new/root"
	done
	rm -rf "${dir:?}/$want" && mkdir -p "$dir/$want/lib/modules"
	mv "$(find "$dir/apt/new/root" -name 'vmlinuz*' -type f | head -n 1)" "$dir/$want/vmlinuz.new"
	mv "$(find "$dir/apt/new/root" -path '*lib/modules/*/kernel' -printf '%h\n' -quit)" "$dir/$want/lib/modules/"
	depmod -b "$dir/$want" "$(ls "$dir/$want/lib/modules")"
	mv "$dir/$want/vmlinuz.new" "$dir/$want/vmlinuz"
}

dir=$(mkdir -p "$1" && cd "$1" && pwd)
[ "$(dpkg --print-architecture)" = amd64 ] || { echo "kernels.sh: only amd64 kernels are known here" >&2; exit 1; }
exec 9> "$dir/lock" # another one of this folder may want a kernel too
flock 9
[ -s "$dir/$2/vmlinuz" ] && [ -d "$dir/$2/lib" ] || fetch "$2"
