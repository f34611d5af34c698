#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh BUILD KERNEL...: boots each kernel (see kernels.sh for their names), runs guest_check in it, and prints
# one table and "N passed, N failed". Kernels and consoles are kept in BUILD/vm. Needs qemu-system-x86, busybox
# and cpio, and no privileges.
set -euo pipefail

here=$(dirname "$0")
build=$(cd "$1" && pwd)
shift
columns=(kernel way check counts detach killed restart stop refused)
passed=0 failed=0

need() {
	command -v "$1" > /dev/null && return
	echo "run.sh: $1 is missing; apt-get install --no-install-recommends qemu-system-x86 busybox-static cpio" >&2
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

one() {
	local want=$1 console=$build/vm/$1.log cells=() name cell
	echo "booting $want" >&2
	: > "$console"
	if "$here/kernels.sh" "$build/vm" "$want"; then
		"$here/boot.sh" "$build/vm/$want/vmlinuz" "$build/vm/initrd" > "$console" || true
	fi
	for name in "${columns[@]}"; do
		cell=$(said "$console" "$name")
		cells+=("${cell:-FAILED}")
		case $cell in
		ok) passed=$((passed + 1)) ;;
		FAILED | '') failed=$((failed + 1)) ;;
		esac
	done
	[ -n "$(said "$console" kernel)" ] || cells[0]=$want
	row "${cells[@]}" >> "$build/vm/table"
	grep -qE '^@@RC=0$' "$console" || cat "$console"
}

for tool in qemu-system-x86_64 busybox cpio; do
	need "$tool"
done
mkdir -p "$build/vm"
"$here/initrd.sh" "$build/vm/initrd" "$build"
row "${columns[@]}" > "$build/vm/table"
for kernel in "$@"; do
	one "$kernel"
done
cat "$build/vm/table"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
