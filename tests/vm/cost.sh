#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# cost.sh: the init of a virtual machine whose clocks count instructions (boot.sh, VM_COUNT=1): what a system call
# costs with nothing attached, with empty programs, and with the daemon, by each way to file I/O. Prints "@@+ ROW",
# "@@ NAME ok" or "FAILED"; the line @@RC= at the end shows that it got that far.
# shellcheck disable=SC3043
export PATH=/bin
kinds='getppid pread pwrite openat switch'
failed=0

ready() {
	grep -qE 'metrics on port|^attached' /tmp/said
}

wait_ready() {
	for _ in $(seq 600); do
		ready && return
		sleep 0.1
	done
	cat /tmp/said
	return 1
}

# A row: the median of each kind. What follows is said to the program first, if anything.
row() { # NAME [LIBRARY]
	local name=$1 figures
	shift
	figures=$({
		[ $# = 0 ] || { sleep 5; echo track; sleep 5; }
		for kind in $kinds; do
			echo "time $kind 9 300"
		done
	} | ./calls /tmp "$@" | grep -v tracked | tr '\n' ' ')
	# shellcheck disable=SC2086
	set -- $figures
	[ $# = 5 ] || failed=1
	printf '@@+ %-34s %8.0f %8.0f %8.0f %8.0f %8.0f\n' "$name" "$@"
}

with() { # NAME COMMAND...: a row while the command runs
	local name=$1
	shift
	mkfifo /tmp/in
	"$@" </tmp/in >/tmp/said 2>&1 &
	exec 9>/tmp/in
	rm /tmp/in
	if wait_ready; then
		sleep 2
		row "$name" && [ -z "$library" ] || row "$name, tracked" "$library"
	else
		failed=1
	fi
	exec 9>&-
	kill $! 2>/tmp/kill
	wait $!
}

ours() { # WAY
	library=/t/libcuda.so.1
	with "zerneld, $1" ./zerneld --report-dir none --control none --tier "$1"
	library=''
}

measure() {
	# shellcheck disable=SC2086
	printf '@@+ %-34s %8s %8s %8s %8s %8s\n' "instructions in $(uname -r)" $kinds
	row 'nothing attached'
	with 'empty, fentry and fexit' ./attach_floor floor_io.bpf.o f
	ours fentry
	with 'empty, kprobe and kretprobe' ./attach_floor floor_io.bpf.o k
	ours kprobe
	with 'empty, tracepoints' ./attach_floor floor.bpf.o
	ours tracepoint
}

/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tracefs trace /sys/kernel/tracing
ip link set lo up
echo "@@ kernel $(uname -r)"
echo "@@ way all"
cd /t && measure
[ "$failed" = 0 ] && echo "@@ measured ok" || echo "@@ measured FAILED"
echo "@@RC=$failed"
poweroff -f
