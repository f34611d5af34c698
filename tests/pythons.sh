#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pythons.sh DIR: fetches the newest Pythons of Debian's sid, each as a tree of files DIR/3.N that is started with
# chroot; nothing is installed. What lies there already is not fetched again. Says in one line why it could not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/apt.sh
. "$here/apt.sh"

# unpack ROOT PACKAGE...
unpack() {
	local root=$1
	shift
	rm -f "$dir"/apt/*.deb
	(cd "$dir/apt" && own_apt apt-get download "$@")
	mkdir -p "$root"/{usr/lib,usr/lib64,usr/bin,usr/sbin,tmp}
	ln -sfn usr/lib "$root/lib"
	ln -sfn usr/lib64 "$root/lib64"
	for package in "$dir"/apt/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink
	done
}

fetch() {
	rm -rf "$dir/apt"
	own_update sid
	for version in 3.13 3.14 3.15; do
		own_apt apt-cache show "python$version-minimal" > /dev/null 2>&1 || continue
		[ -e "$dir/$version" ] && continue
		unpack "$dir/$version.part" "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" \
			libc6 libexpat1 zlib1g libffi8 libzstd1 libgcc-s1
		mv "$dir/$version.part" "$dir/$version"
	done
	rm -rf "$dir/apt"
	touch "$dir/done"
}

dir=$(mkdir -p "$1" && cd "$1" && pwd)
exec 9> "$dir.lock" # another one may fetch the same
flock 9
[ -e "$dir/done" ] && exit
trap 'echo "pythons.sh: Pythons of Debian sid cannot be fetched; tests use those of this machine" >&2' ERR
set -E
fetch
