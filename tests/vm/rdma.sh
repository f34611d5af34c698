#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# rdma.sh: the init of a virtual machine with a device of RDMA, the kernel's own over an interface without a wire (soft
# RoCE). Calls of the library of verbs that the kernel refuses are held against /metrics, by call and errno, and what
# the device counts of a message to nobody (rdma.py).
# Prints "@@ NAME ok" or "FAILED"; the line @@RC= at the end shows that it got that far.
# shellcheck disable=SC3043
export PATH=/bin:/usr/bin
address=192.0.2.1
port='device="rxe0",port="1"'
sys=/sys/class/infiniband/rxe0/ports/1
failed=0

base() {
	mount -t proc proc /proc
	mount -t sysfs sys /sys
	mount -t devtmpfs dev /dev
	mount -t tmpfs tmp /tmp
	mount -t tmpfs run /run
	mount -t tracefs trace /sys/kernel/tracing
	ip link set lo up
	for module in /modules/*.ko; do
		insmod "$module" || echo "   cannot load $module"
	done
}

device() {
	[ -d /sys/class/net/dummy0 ] || ip link add dummy0 type dummy
	ip addr add $address/24 dev dummy0
	ip link set dummy0 up
	rdma link add rxe0 type rxe netdev dummy0
	[ "$(cat $sys/state)" = '4: ACTIVE' ] && [ -c /dev/infiniband/uverbs0 ]
}

# shellcheck source=tests/vm/due.sh
. /t/due.sh

# wait_for SECONDS CONDITION...
wait_for() {
	local seconds=$1
	shift
	for _ in $(seq "$((seconds * 5))"); do
		"$@" && return
		sleep 0.2
	done
	echo "   not within $seconds s: $*"
	return 1
}

verdict() { # NAME COMMAND...: what the command says of itself is its exit status
	local name=$1
	shift
	if "$@"; then
		echo "@@ $name ok"
	else
		echo "@@ $name FAILED"
		failed=1
	fi
}

page() {
	timeout 60 wget -q -O - http://127.0.0.1:9091/metrics
}

# value SERIES: with all its labels; nothing if it is not there
value() {
	page | sed -n "s|^$1 ||p"
}

ready() {
	grep -q 'metrics on port' /tmp/zerneld.log
}

says() { # LINE
	grep -qx "$1" /tmp/rdma.out
}

tracked() {
	echo call >&3
	[ -n "$(value "zernel_cuda_launches_total{pid=\"$program\",kind=\"kernel\"}")" ]
}

# failed_calls NAME LABEL: CALL ERRNO COUNT, as /metrics has them
failed_calls() {
	page | sed -n "/^$1{.*$2/s|.*call=\"\([a-z_]*\)\",errno=\"\([A-Za-z]*\)\".*} |\1 \2 |p" | sort
}

# equal WHAT WANT GOT
equal() {
	[ "$2" = "$3" ] && echo "   $1:" $2 && return
	echo "   $1:" $3 "; not:" $2
	return 1
}

# What is asked for while a device is opened is the library's and the kernel's. A process has room for six pairs, so
# what comes later is one of the others.
wanted_calls() {
	cat /tmp/asked
	sed -n '/ .* [0-9]/p' /tmp/rdma.out | head -n $((6 - $(wc -l </tmp/asked)))
	sed -n '/ .* [0-9]/p' /tmp/rdma.out | tail -n +$((7 - $(wc -l </tmp/asked))) |
		awk '{ n += $3 } END { if (n) print "other other", n }'
}

same_calls() { # NAME LABEL
	equal "$1" "$(wanted_calls | sort)" "$(failed_calls "$1" "$2")"
}

opened() {
	mkfifo /tmp/to
	python3 -S rdma.py /t/libcuda.so.1 rxe0 </tmp/to >/tmp/rdma.out 2>&1 &
	program=$!
	exec 3>/tmp/to
	wait_for 60 says ready && wait_for 60 tracked || return
	./zernel job start 4711 --pid $program || return
	echo >&3
	wait_for 60 says opened || { cat /tmp/rdma.out; return 1; }
	failed_calls zernel_rdma_errors_total "pid=\"$program\"" >/tmp/asked
}

# What was sent to nobody is counted by the device itself.
lost() {
	echo >&3
	wait_for 60 says lost || { cat /tmp/rdma.out; return 1; }
	[ "$(cat $sys/hw_counters/retry_exceeded_err)" -gt 0 ] || return
	shown "zernel_ib_port_errors_total{$port,kind=\"retry_exceeded\"}" "$(cat $sys/hw_counters/retry_exceeded_err)" &&
		shown "zernel_ib_port_errors_total{$port,kind=\"duplicate_request\"}" "$(cat $sys/hw_counters/duplicate_request)"
}

verbs() {
	echo >&3
	wait_for 60 says . || { cat /tmp/rdma.out; return 1; }
	same_calls zernel_rdma_errors_total "pid=\"$program\""
}

of_job() {
	same_calls zernel_job_rdma_errors_total 'job_id="4711"'
}

same() { # WANT SERIES
	[ "$(value "$2")" = "$1" ]
}

# shown SERIES WANT: the daemon looks every ten seconds
shown() {
	wait_for 60 same "$2" "$1"
	equal "$1" "$2" "$(value "$1")"
}

port() {
	shown "zernel_ib_port_active{$port,link=\"$(cat $sys/link_layer)\"}" 1
}

checks() {
	cd /t || return
	base
	echo "@@ kernel $(uname -r)"
	echo "@@ way rxe"
	verdict device device
	ln -s zerneld zernel
	./zerneld --probes cuda_trace,ioctl --report-dir none >/tmp/zerneld.log 2>&1 &
	daemon=$!
	wait_for 60 ready || return
	opened || return
	verdict lost lost
	verdict verbs verbs
	verdict job of_job
	verdict port port
	kill $daemon
	wait $daemon && ! grep -E '^zerneld: (warning|error)' /tmp/zerneld.log | grep -vE "$due"
}

/bin/busybox --install -s /bin
checks || failed=1
[ "$failed" = 0 ] || cat /tmp/zerneld.log
echo "@@RC=$failed"
poweroff -f
