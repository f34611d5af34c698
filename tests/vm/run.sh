#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh BUILD KERNEL...: boots each kernel (see kernels.sh for their names) twice, with guest_check and with a Slurm
# in control groups of version 2 (slurm.sh), and prints one table of each and "N passed, N failed". Kernels and
# consoles are kept in BUILD/vm. Needs qemu-system-x86, busybox, cpio and Slurm, and no privileges.
set -euo pipefail

here=$(dirname "$0")
build=$(cd "$1" && pwd)
shift
guest=(check counts detach killed restart stop io refused)
slurm=(job launches nccl steps peak node)
passed=0 failed=0

need() {
	command -v "$1" > /dev/null || [ -x "$1" ] && return
	echo "run.sh: $1 is missing; apt-get install --no-install-recommends qemu-system-x86 busybox-static cpio jq" \
		"slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge" >&2
	exit 1
}

row() {
	printf '%-26s %-6s' "$1" "$2"
	shift 2
	printf ' %-8s' "$@"
	echo
}

# What the guest says are lines "@@ NAME ok|FAILED|-" and two that fill the first columns.
said() {
	sed -n "s/^@@ $2 //p" "$1" | tail -n 1
}

# boot KERNEL IMAGE COLUMN...: a row of the table of this image
boot() {
	local want=$1 image=$2 console=$build/vm/$1.$2.log cells=() name cell
	shift 2
	echo "booting $want: $image" >&2
	"$here/boot.sh" "$build/vm/$want/vmlinuz" "$build/vm/$image.initrd" > "$console" || true
	for name in kernel way "$@"; do
		cell=$(said "$console" "$name")
		cells+=("${cell:-FAILED}")
		case $cell in
		ok) passed=$((passed + 1)) ;;
		FAILED | '') failed=$((failed + 1)) ;;
		esac
	done
	[ -n "$(said "$console" kernel)" ] || cells[0]=$want
	row "${cells[@]}" >> "$build/vm/$image.table"
	grep -qE '^@@RC=0$' "$console" || cat "$console"
}

for tool in qemu-system-x86_64 busybox cpio jq /usr/sbin/slurmctld /usr/sbin/slurmd /usr/sbin/munged; do
	need "$tool"
done
mkdir -p "$build/vm"
for image in guest slurm; do
	"$here/initrd.sh" "$build/vm/$image.initrd" "$build" "$image"
done
row kernel way "${guest[@]}" > "$build/vm/guest.table"
row kernel way "${slurm[@]}" > "$build/vm/slurm.table"
for kernel in "$@"; do
	"$here/kernels.sh" "$build/vm" "$kernel" || { failed=$((failed + 1)); continue; }
	boot "$kernel" guest "${guest[@]}"
	boot "$kernel" slurm "${slurm[@]}"
done
cat "$build/vm/guest.table" "$build/vm/slurm.table"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
