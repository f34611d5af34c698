#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh BUILD KERNEL...: boots each kernel (see kernels.sh for their names) with each image: guest_check; disks, NFS
# and fio (io.sh); a Slurm in control groups of version 2 (slurm.sh); the Debian package under a real systemd
# (package.sh). Prints one table of each image and "N passed, N failed". IMAGES names other ones: rdma has a device of
# RDMA, by the kernel for machines (rdma.sh); cost has what a system call costs, in instructions (cost.sh). Kernels and
# consoles are kept in BUILD/vm. Needs what tests/setup.sh check installs, and no privileges.
set -euo pipefail

export PATH=$PATH:/usr/sbin:/sbin
here=$(dirname "$0")
build=$(cd "$1" && pwd)
shift
declare -A columns=(
	[guest]='check counts detach killed restart stop fentry kprobe ends entries oom usage stacks verified refused'
	[io]='tmpfs ext4 overlay nfs dd fio server job kprobe syscall'
	[slurm]='job launches nccl steps peak node'
	[rdma]='device lost verbs job port'
	[cost]='measured'
	[package]='install check start families events caps counts outbound slurm group renamed reload restart clock cpus'
)
columns[package]+=' upgrade companion remove purge'
declare -A modules=(
	[io]='ext4 loop overlay nfsd nfsv4'
	[rdma]='dummy crc32_generic rdma_rxe ib_uverbs'
)
declare -A flavour=([rdma]=-full) # of the kernel
read -ra images <<< "${IMAGES:-guest io slurm package}"
passed=0 failed=0
# Two things were seen that nobody but the emulation is known for: from 6.12 on a breakpoint of the kernel's own
# patching, met after it was taken away; on 5.10 and 6.1, on a busy machine, a kernel that does not take interrupts any
# more.
emulation='Oops: int3\|int3: 0000\|BUG: soft lockup\|takes no interrupts'
boots=4 # of one image, if it is that each time
failures=$(mktemp) || exit 1 # said once more at the end
trap 'rm -f "$failures"' EXIT

need() {
	command -v "$1" > /dev/null && return
	echo "run.sh: $1 is missing; tests/setup.sh check installs it" >&2
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

# A line for each check that failed, with what the guest said of it.
why() {
	awk -v of="FAILED $2, $3:" '/^@@ .* FAILED$/ { print of, $2 ":" said } /^@@ / { said = ""; next } { said = said " " $0 }' \
		"$1" | tr -s ' '
	case $(sed -n 's/^@@RC=//p' "$1" | tail -n 1) in
	0) ;;
	'') echo "FAILED $2, $3: it did not come to its end" ;;
	*) grep -q '^@@ .* FAILED$' "$1" || echo "FAILED $2, $3: the guest says so, and no check of it: see its console" ;;
	esac
	! grep -q "$emulation" "$1" || echo "FAILED $2, $3: $boots boots, and the kernel under emulation went wrong in each"
}

# Something is wrong that no cell of the table says: the guest's own status, or a kernel that never went right.
failed_beside() {
	! grep -qE '^@@RC=0$' "$1" || grep -q "$emulation" "$1"
}

# boot KERNEL IMAGE COLUMN...: a row of the table of this image
boot() {
	local want=$1${flavour[$2]:-} image=$2 cells=() name cell before=$failed parts=("$build/vm/$2.initrd") start=$SECONDS
	local console=$build/vm/$want.$image.log
	shift 2
	export VM_COUNT=$([ "$image" = cost ] && echo 1)
	"$here/kernels.sh" "$build/vm" "$want" || { failed=$((failed + 1)); return; }
	if [ -n "${modules[$image]:-}" ]; then
		parts+=("$build/vm/$want/modules.cpio")
		# shellcheck disable=SC2086
		"$here/modules.sh" "$build/vm/$want" "${parts[1]}" ${modules[$image]}
	fi
	# What is the emulation's is shown, and the boot is done again; the last one counts whatever it is. A guest from which
	# nothing comes for any other reason has failed.
	for _ in $(seq "$boots"); do
		"$here/boot.sh" "$build/vm/$want/vmlinuz" "${parts[@]}" > "$console" || true
		grep -A8 "$emulation" "$console" >&2 || break
	done
	echo "booted $want: $image, $((SECONDS - start)) s" >&2
	for name in kernel way "$@"; do
		cell=$(said "$console" "$name")
		cells+=("${cell:-FAILED}")
		case $cell in
		ok) passed=$((passed + 1)) ;;
		FAILED | '') failed=$((failed + 1)) ;;
		esac
	done
	if [ "$failed" = "$before" ] && failed_beside "$console"; then
		failed=$((failed + 1))
	fi
	[ -n "$(said "$console" kernel)" ] || cells[0]=$want
	row "${cells[@]}" >> "$build/vm/$image.table"
	sed -n 's/^@@+ //p' "$console" >> "$build/vm/$image.table"
	grep -qE '^@@RC=0$' "$console" || cat "$console"
	why "$console" "$want" "$image" >> "$failures"
}

for tool in qemu-system-x86_64 busybox cpio jq fio mkfs.ext4 slurmctld slurmd munged; do
	need "$tool"
done
mkdir -p "$build/vm"
for image in "${images[@]}"; do
	"$here/initrd.sh" "$build/vm/$image.initrd" "$build" "$image"
	row kernel way ${columns[$image]} > "$build/vm/$image.table"
done
for kernel in "$@"; do
	for image in "${images[@]}"; do
		boot "$kernel" "$image" ${columns[$image]}
	done
done
for image in "${images[@]}"; do
	cat "$build/vm/$image.table"
done
cut -c 1-400 "$failures"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
