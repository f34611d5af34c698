#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# boot.sh KERNEL INITRD...: runs a virtual machine of two CPUs, each with a memory node of its own, until it switches
# itself off, and prints its console. Exits with the status that the guest printed, or 125 if it printed none.
# VM_ACCEL=kvm is faster where stock kernels run on it; VM_SECONDS is the longest it may take, and VM_SILENT the longest
# that nothing may come from it; VM_APPEND is more for the kernel's command line, as preempt=full. With VM_COUNT=1 the
# guest's clocks count instructions, one for each nanosecond.
set -uo pipefail

# With a thread for each processor kernels before 6.12 stop taking interrupts now and then on a busy machine (seen).
accel=${VM_ACCEL:-tcg,thread=single} cpu=host
# Without -cx16 a 6.12 kernel double-faults in a third of its boots under QEMU 7.2's emulation (measured).
[[ $accel == tcg* ]] && cpu=max,-cx16
clock=tsc=unstable machine=(-smp 2,sockets=2)
megabytes=${VM_MB:-1024}
if [ "${VM_COUNT:-0}" = 1 ]; then # which is possible with one CPU alone
	accel=tcg,thread=single clock=tsc=reliable machine=(-icount "shift=0,sleep=off")
else
	for node in 0 1; do
		machine+=(-object "memory-backend-ram,id=ram$node,size=$((megabytes / 2))M")
		machine+=(-numa "node,cpus=$node,memdev=ram$node")
	done
fi
silent=${VM_SILENT:-180} # seconds without a word, after which it is given up
quiet_max=60 # and after which it is looked at
kernel=$1
shift
work=$(mktemp -d)
log=$work/console
trap 'rm -rf "$work"' EXIT
cat "$@" > "$work/initrd"
mkfifo "$work"/monitor.{in,out}
machine+=(-accel "$accel" -cpu "$cpu" -machine q35 -m "$megabytes" -display none -nodefaults -no-reboot)
machine+=(-chardev "pipe,id=monitor,path=$work/monitor" -mon monitor)

# What its processors were at, twice
look() {
	{ echo info registers -a; sleep 1; echo info registers -a; } | timeout 3 tee "$work/monitor.in" > "$work/asked"
	timeout 3 cat "$work/monitor.out" | tr -d '\r' | grep -aE '^CPU#|^R[A-Z]+=|^CR0=|^CS ='
}

# No processor took an interrupt when it was looked at.
deaf() {
	local flags seen=1
	while read -r flags; do
		[ $((0x$flags & 0x200)) = 0 ] || return 1
		seen=0
	done < <(sed -n 's/.*RFL=\([0-9a-f]*\).*/\1/p' "$1")
	return $seen
}

# Nor at any of four looks: that is the kernel's, under emulation, and no program's doing.
stays_deaf() {
	for _ in 1 2 3 4; do
		look > "$work/looked"
		deaf "$work/looked" || return 1
		sleep 5
	done
}

timeout "${VM_SECONDS:-600}" qemu-system-x86_64 "${machine[@]}" -serial "file:$log" -kernel "$kernel" -initrd "$work/initrd" \
	-append "console=ttyS0 quiet panic=-1 loglevel=3 mitigations=off no_timer_check $clock ${VM_APPEND:-}" < /dev/null > "$work/said" 2>&1 &
vm=$!
touch "$log"
while kill -0 "$vm" 2> /dev/null; do
	quiet=$(($(date +%s) - $(stat -c %Y "$log")))
	hangs=
	if [ "$quiet" -gt "$quiet_max" ] && stays_deaf; then
		hangs="its kernel takes no interrupts"
	elif [ "$quiet" -gt "$silent" ]; then
		hangs="nothing comes from it"
	elif grep -q 'BUG: soft lockup' "$log"; then
		hangs="a soft lockup"
	fi
	if [ "$hangs" ]; then
		echo "boot.sh: the guest hangs: $hangs"
		look
		kill "$vm"
		break
	fi
	sleep $((quiet > quiet_max ? 10 : 1))
done
wait "$vm"
cat "$work/said"
tr -d '\r' < "$log"
status=$(sed -n 's/^@@RC=//p' <(tr -d '\r' < "$log") | tail -n 1)
exit "${status:-125}"
