#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# io.sh: the init of a virtual machine with disks, an overlay and NFS: the API matrix (tests/io/matrix.c) on each by
# fentry, and on a tmpfs by the other ways; dd and fio on each, whose own figures are held against /metrics, to the
# byte. Prints "@@ NAME ok", "FAILED", or "-" for what this kernel cannot have; the line @@RC= at the end shows that it
# got that far.
# shellcheck disable=SC3043
export PATH=/bin:/usr/bin:/usr/sbin:/sbin
mib=$((1 << 20))
mounts='/ext4 /overlay /nfs'
failed=0

base() {
	mount -t proc proc /proc
	mount -t sysfs sys /sys
	mount -t devtmpfs dev /dev
	mount -t tmpfs -o size=700m tmp /tmp
	mount -t tmpfs run /run
	mount -t tracefs trace /sys/kernel/tracing
	ip link set lo up
	for module in /modules/*.ko; do
		insmod "$module" || echo "   cannot load $module"
	done
}

# ext4 on a loop device, and an overlay above another one
disks() {
	mkdir -p /ext4 /below /overlay /nfs
	for disk in ext4 below; do
		truncate -s 300M "/tmp/$disk.disk"
		mkfs.ext4 -q -F -O ^metadata_csum "/tmp/$disk.disk"
		mount -t ext4 -o loop "/tmp/$disk.disk" "/$disk" || return
	done
	mkdir -p /ext4/export /below/lower /below/upper /below/work
	mount -t overlay -o lowerdir=/below/lower,upperdir=/below/upper,workdir=/below/work overlay /overlay
}

# an NFS server of this kernel, mounted on itself
nfs() {
	mount -t nfsd nfsd /proc/fs/nfsd
	mkdir -p /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery /etc
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	echo "/ext4/export 127.0.0.1(rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0)" >/etc/exports
	echo "nobody:x:65534:65534:nobody:/:/bin/false" >/etc/passwd
	exportfs -ra
	rpc.mountd -N 2 -N 3 &
	echo "+4 -2 -3" >/proc/fs/nfsd/versions
	echo "tcp 2049" >/proc/fs/nfsd/portlist
	echo 2 >/proc/fs/nfsd/threads
	echo Y >/proc/fs/nfsd/v4_end_grace # nobody has anything to reclaim; it would be 90 s
	mount -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/ /nfs
}

# ---- the daemon ----

ready() {
	grep -q 'metrics on port' /tmp/zerneld.log
}

# shellcheck source=tests/vm/due.sh
. /t/due.sh

# wait_for SECONDS CONDITION...
wait_for() {
	local seconds=$1
	shift
	for _ in $(seq "$((seconds * 10))"); do
		"$@" && return
		sleep 0.1
	done
	return 1
}

# The daemon before has said that it was ready, too: the file is emptied before the new one may be asked for.
start() { # OPTION...
	: >/tmp/zerneld.log
	./zerneld --probes vfs,meta --report-dir none --control none "$@" >/tmp/zerneld.log 2>&1 &
	daemon=$!
	wait_for 60 ready
}

stop() {
	kill "$daemon"
	wait "$daemon" && ! grep -E '^zerneld: (warning|error)' /tmp/zerneld.log | grep -vE "$due"
}

has_way() {
	./zerneld --check --probes vfs,meta --tier "$1" >/tmp/check
	grep -E '^(vfs|meta) ' /tmp/check
	[ "$(grep -cE '^(vfs|meta) +ok, by' /tmp/check)" = 2 ]
}

page() {
	timeout 60 wget -q -O - http://127.0.0.1:9091/metrics
}

# count NAME MOUNT [LABEL]: what /metrics has of it; 0: no such series, as nothing was done there yet
count() {
	local n
	n=$(page | sed -n "s|^zernel_io_$1_total{.*mount=\"$2\".*${3:-}.*} ||p")
	echo "${n:-0}"
}

is() { # WANT NAME MOUNT [LABEL]
	local want=$1
	shift
	[ "$(count "$@")" = "$want" ]
}

# The name of a mount is looked up when it is first used, which may take a moment.
expect() { # WHAT WANT NAME MOUNT [LABEL]
	local what=$1 want=$2
	shift 2
	if wait_for 5 is "$want" "$@"; then
		echo "   $what on $2: $want"
		return
	fi
	echo "   $what on $2: $(count "$@"), not $want"
	return 1
}

# ---- the checks ----

matrix() { # NAME WAY [FOLDER]
	local name=$1
	shift
	mkdir -p "/tmp/matrix.$name"
	./matrix "/tmp/matrix.$name" "$@" >/tmp/matrix.out 2>&1
	set -- $?
	grep -v '^ok' /tmp/matrix.out
	page | grep '^zernel_lost_total.* [1-9]'
	verdict "$name" [ "$1" = 0 ]
}

# Blocks of a MiB, flushed, of 7 bytes, and past the cache; then a part is read again.
dd_on() { # MOUNT
	local wrote read calls
	wrote=$(count write_bytes "$1") read=$(count read_bytes "$1") calls=$(count requests "$1" 'op="write"')
	flushed=$(count requests "$1" 'op="fsync"')
	dd if=/dev/zero of="$1/a" bs=1M count=11 status=none &&
		dd if=/dev/zero of="$1/b" bs=1M count=5 conv=fsync status=none &&
		dd if=/dev/zero of="$1/c" bs=7 count=10007 status=none &&
		dd if=/dev/zero of="$1/d" bs=1M count=3 oflag=direct status=none &&
		dd if="$1/a" of=/dev/null bs=1M status=none &&
		dd if="$1/a" of=/dev/null bs=64k iflag=direct status=none || return
	expect "dd: bytes written" $((wrote + 19 * mib + 7 * 10007)) write_bytes "$1" &&
		expect "dd: bytes read" $((read + 22 * mib)) read_bytes "$1" &&
		expect "dd: writes" $((calls + 11 + 5 + 10007 + 3)) requests "$1" 'op="write"' &&
		expect "dd: flushes" $((flushed + 1)) requests "$1" 'op="fsync"'
}

# fio_run MOUNT WAY ENGINE...: fio's own count of bytes, one engine after the other
fio_run() {
	local mount=$1 way=$2 engine jobs=''
	shift 2
	for engine in "$@"; do
		jobs="$jobs --name=$engine --ioengine=$engine --stonewall"
	done
	# shellcheck disable=SC2086
	fio --rw="$way" --directory="$mount" --filename=fio.data --size=5M --bs=32k --iodepth=8 --thread \
		--fallocate=none --invalidate=0 --clocksource=clock_gettime --output-format=json \
		--output=/tmp/fio.json $jobs >/tmp/fio.out 2>&1 || { cat /tmp/fio.out /tmp/fio.json >&2; return 1; }
	sed -n '/^{/,$p' /tmp/fio.json | jq "[.jobs[].$way.io_bytes] | add"
}

# fio writes a file before it reads or maps it, so the first is a write. What is loaded from and stored to a mapping is
# neither read nor written.
fio_on() { # MOUNT
	local engines='psync pvsync2 libaio io_uring splice' way before bytes
	for way in write read; do
		before=$(count "${way}_bytes" "$1")
		# shellcheck disable=SC2086
		bytes=$(fio_run "$1" "$way" $engines) && [ "$bytes" = $((5 * 5 * mib)) ] || return
		expect "fio $engines: bytes of $way" $((before + bytes)) "${way}_bytes" "$1" || return
		before=$(count "${way}_bytes" "$1")
		bytes=$(fio_run "$1" "$way" mmap) && [ "$bytes" = $((5 * mib)) ] || return
		expect "fio mmap: bytes of $way" "$before" "${way}_bytes" "$1" || return
	done
}

on_each() { # FUNCTION
	local mount bad=0
	for mount in $mounts; do
		"$1" "$mount" || bad=1
	done
	return $bad
}

# What the server's threads do for its clients is no call of a process of this machine.
served() {
	page |
		grep -E '^zernel_io_([a-z]+_bytes_total|requests_total.*op="(write|read|create|unlink|rename|mkdir|rmdir|fsync)").*mount="/ext4"'
}

server_is_silent() {
	before=$(served)
	[ -n "$before" ] || { echo "   nothing is told of the server's own file system"; return 1; }
	mkdir /nfs/folder && dd if=/dev/zero of=/nfs/folder/a bs=1M count=3 conv=fsync status=none &&
		mv /nfs/folder/a /nfs/folder/b && rm /nfs/folder/b && rmdir /nfs/folder || return
	[ "$(served)" = "$before" ] && return
	echo "   of the server, before: $before, and after: $(served)"
	return 1
}

of_job() { # ID: the bytes that it wrote, anywhere
	page | sed -n "s|^zernel_io_write_bytes_total{.*job_id=\"$1\".*} ||p"
}

wrote() { # ID BYTES
	[ "$(of_job "$1")" = "$2" ]
}

# A process that enters the control group of a job, and one that it starts.
job_is_bound() {
	local step=/sys/fs/cgroup/slurmstepd.scope/job_77/step_0 bytes=$((5 * mib))
	mount -t cgroup2 cgroup /sys/fs/cgroup && mkdir -p $step || return
	sh -c "echo \$\$ >$step/cgroup.procs && dd if=/dev/zero of=/ext4/job bs=1M count=5 status=none; sync"
	wait_for 5 wrote 77 $bytes && echo "   of a job: bytes written: $bytes" && return
	echo "   of a job: bytes written: $(of_job 77), not $bytes"
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

lacks_a_way() { # of 5.10 alone that is known, see docs/IO.md
	case $(uname -r) in 5.10.*) ;; *) return 1 ;; esac
}

with_way() { # NAME WAY
	if has_way "$2"; then
		start --tier "$2" || return
		matrix "$1" "$2"
		stop || failed=1
	elif lacks_a_way; then
		echo "@@ $1 -"
	else
		cat /tmp/check
		verdict "$1" false
	fi
}

checks() {
	cd /t || return
	base
	echo "@@ kernel $(uname -r)"
	disks && nfs || return
	has_way fentry || return
	echo "@@ way fentry"
	start || return
	matrix tmpfs fentry
	for folder in $mounts; do
		matrix "${folder#/}" fentry "$folder"
	done
	verdict dd on_each dd_on
	verdict fio on_each fio_on
	verdict server server_is_silent
	verdict job job_is_bound
	stop || failed=1
	with_way kprobe kprobe
	with_way syscall tracepoint
}

/bin/busybox --install -s /bin
rm /bin/dd # the usual one is in /usr/bin
checks || failed=1
[ "$failed" = 0 ] || cat /tmp/zerneld.log
echo "@@RC=$failed"
poweroff -f
