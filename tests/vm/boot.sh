#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# boot.sh KERNEL INITRD...: runs a virtual machine until it switches itself off, and prints its console. Exits with
# the status that the guest printed, or 125 if it printed none. VM_ACCEL=kvm is faster where stock kernels run on
# it; VM_SECONDS is the longest it may take.
set -uo pipefail

accel=${VM_ACCEL:-tcg,thread=multi} cpu=host
# Without -cx16 a 6.12 kernel double-faults in a third of its boots under QEMU 7.2's emulation (measured).
[[ $accel == tcg* ]] && cpu=max,-cx16
kernel=$1
shift
log=$(mktemp)
initrd=$(mktemp)
trap 'rm -f "$log" "$initrd"' EXIT
cat "$@" > "$initrd"
timeout "${VM_SECONDS:-600}" qemu-system-x86_64 -accel "$accel" -cpu "$cpu" -machine q35 -m "${VM_MB:-1024}" -smp 2 \
	-display none -nodefaults -no-reboot -serial stdio -kernel "$kernel" -initrd "$initrd" \
	-append "console=ttyS0 quiet panic=-1 loglevel=3 mitigations=off tsc=unstable" < /dev/null 2>&1 | stdbuf -oL tr -d '\r' | tee "$log"
status=$(sed -n 's/^@@RC=//p' "$log" | tail -n 1)
exit "${status:-125}"
