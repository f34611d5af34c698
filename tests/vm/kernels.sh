#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kernels.sh DIR WANT: fetches one Debian kernel for virtual machines as DIR/WANT/vmlinuz, with its modules under
# DIR/WANT/lib/modules; nothing is installed.
# WANT is a version like 6.1, or newest. What lies in DIR already is not fetched again. The archive is the one
# that this machine's own apt uses, read through lists of its own in DIR/apt. amd64 only.
set -euo pipefail

suite() {
	case $1 in
	5.10) echo bullseye-security ;;
	6.1) echo bookworm ;;
	6.12) echo bookworm-backports ;;
	*) echo trixie-backports ;;
	esac
}

# The address of this machine's archive, or of its part with security updates ("-security").
archive() {
	local codename
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
		awk -v want="$codename$1" '$2 == want { print $1; exit }'
}

own_apt() {
	local tool=$1
	shift
	"$tool" -o Dir::Etc::SourceList="$dir/apt/list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$dir/apt/lists" -o Dir::Cache="$dir/apt/cache" \
		-o APT::Sandbox::User=root -qq "$@"
}

update() {
	local suite=$1 part=
	[[ $suite == *-security ]] && part=-security
	mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(archive "$part") $suite main" > "$dir/apt/list"
	own_apt apt-get update
}

# The newest package that matches, and the parts that an image is split into from 7.2 on.
packages() {
	local number=$1 image part name
	[ "$number" = newest ] && number='[0-9]+'
	image=$(own_apt apt-cache pkgnames linux-image- |
		grep -E "^linux-image-${number//./\\.}\.[0-9.]+(-[0-9]+|\+deb[0-9]+)*-cloud-amd64$" | sort -V | tail -n 1)
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
	update "$(suite "$want")"
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
[ -s "$dir/$2/vmlinuz" ] && [ -d "$dir/$2/lib" ] || fetch "$2"
