#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# initrd.sh TO BUILD: makes the file system of the virtual machines as the initramfs TO: busybox, guest.sh as its
# init, and from the folder BUILD what is to be tested. Dynamic programs get the libraries of this machine, under
# the paths they have here. One image does for all kernels: none of them needs a module.
set -euo pipefail

programs=(zerneld test/guest_check test/driver test/libcuda.so.1 test/libnccl.so.2)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,proc,sys,dev,tmp,t}
cp /bin/busybox "$root/bin/"
ln -s busybox "$root/bin/sh"
cp "$(dirname "$0")/guest.sh" "$root/init"
for program in "${programs[@]}"; do
	cp "$2/$program" "$root/t/"
done
ldd "$2/test/driver" | grep -oE '/[^ ]+' | while read -r library; do
	install -D "$library" "$root$library"
done
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) > "$1"
