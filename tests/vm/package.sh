#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# package.sh: what a virtual machine runs whose init is a real systemd, and whose /t has the Debian package and a
# version before it (older.sh): installs the older one, starts the service with options set, holds what it shows against
# what the driver did, restarts it, upgrades it in the middle of that, removes and purges it. perf_event_paranoid is 3
# first, as on Debian. Prints "@@ NAME ok" or "FAILED"; the line @@RC= at the end shows that it got that far.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
failed=0

# wait_for SECONDS COMMAND...: seconds of a machine of its own. Emulated on what other tests leave of a processor, this
# one may be ten times slower.
wait_for() {
	limit=$(($1 * 10))
	end=$(($(date +%s) + limit))
	shift
	while [ "$(date +%s)" -lt "$end" ]; do
		"$@" && return
		sleep 0.2
	done
	echo "   not within $limit s: $*"
	return 1
}

verdict() { # NAME COMMAND...: what the command says of itself is its exit status
	name=$1
	shift
	if "$@"; then
		echo "@@ $name ok"
	else
		echo "@@ $name FAILED"
		failed=1
	fi
}

# same WHAT GOT WANT
same() {
	[ "$2" = "$3" ] && return
	echo "   $1: $2, not $3"
	return 1
}

# Also what comes with another status than 200.
get() { # PATH
	printf 'GET %s HTTP/1.0\r\nAuthorization: Bearer token-of-the-package\r\n\r\n' "$1" | nc 127.0.0.1 9091 | sed '1,/^\r$/d'
}

property() { # NAME: of the service, as systemd says
	systemctl show --value -p "$1" zerneld.service
}

is() { # STATE ENABLED
	same state "$(systemctl is-active zerneld)" "$1" && same "at boot" "$(systemctl is-enabled zerneld 2>/dev/null)" "$2"
}

# ---- what is checked ----

# The same for systemd, which gives up a start after 90 s and a stop after the unit's 60: a start alone takes 15 s
# where nothing runs beside. A drop-in of /run is no file of the package, and none of an administrator.
patience() {
	for unit in zerneld zernel-gpu; do
		mkdir -p /run/systemd/system/$unit.service.d
		printf '[Service]\nTimeoutStartSec=900\nTimeoutStopSec=600\n' >/run/systemd/system/$unit.service.d/patience.conf
	done
}

# Neither started nor enabled.
install() {
	dpkg -i /t/older.deb >/tmp/dpkg 2>&1 || return
	is inactive disabled && same unit "$(property Description)" "The version before"
}

# As root, from a shell that may do more than the service will.
check() {
	zerneld --check >/tmp/check 2>&1
	same "status of --check" $? 0 && grep -q '^limits .*zerneld.service' /tmp/check && ! grep -qE 'run as root|scanning' /tmp/check
}

options() {
	echo token-of-the-package >/etc/zernel.token
	chmod 600 /etc/zernel.token
	mkdir -p /etc/zernel
	printf 'alert always\n  expr zernel_build_info == 1\n' >/etc/zernel/rules
	cat >>/etc/default/zerneld <<-END
		ZERNEL_LISTEN=127.0.0.1,unix:/run/zernel/metrics.sock
		ZERNEL_TOKEN_FILE=/etc/zernel.token
		ZERNEL_ALERTMANAGER=http://127.0.0.1:9000
		ZERNEL_WEBHOOK=http://127.0.0.1:9000/hook
		ZERNEL_OTLP=http://127.0.0.1:9000/otlp
		ZERNEL_OTLP_INTERVAL_MS=2000
		ZERNEL_ALERTS=/etc/zernel/rules
		ZERNEL_LOG=info
	END
}

# Answers each POST, and keeps its path.
receiver() {
	cat >/tmp/answer <<-'END'
		#!/bin/sh
		cr=$(printf '\r')
		read -r line
		echo "$line" | cut -d ' ' -f 2 >>/tmp/posted
		while read -r line && [ "$line" != "$cr" ]; do
			case $line in [Cc]ontent-[Ll]ength:*) length=$(echo "$line" | tr -dc 0-9) ;; esac
		done
		head -c "$length" >/dev/null
		printf 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
	END
	chmod +x /tmp/answer
	nc -ll -p 9000 -e /tmp/answer </dev/null >/dev/null 2>&1 &
}

start() {
	systemctl start zerneld && is active disabled
}

posted() { # PATH
	grep -qx "$1" /tmp/posted
}

outbound() {
	for path in /api/v2/alerts /hook /otlp; do
		wait_for 60 posted $path || return
	done
}

# A program that keeps the libraries mapped; they lie where the service itself sees nothing (ProtectHome).
hold() {
	mkdir -p /home/user
	cp /t/driver /t/libcuda.so.1 /t/libnccl.so.2 /home/user/
	mkfifo /tmp/hold
	/home/user/driver --cuda /home/user/libcuda.so.1 --nccl /home/user/libnccl.so.2 --hold-stdin </tmp/hold >/tmp/idle 2>&1 &
	exec 9>/tmp/hold
}

attached() { # FAMILY
	[ "$(get /health | jq -r --arg family "$1" '.probes[] | select(.family == $family) | .state')" = attached ]
}

launched() { # PID: as the daemon says
	get /metrics | sed -n "s/^zernel_cuda_launches_total{pid=\"$1\",kind=\"kernel\".* //p"
}

told() { # PID
	[ "$(launched "$1")" = 1009 ]
}

# A process that launches 1,009 kernels and then stays, as $storm.
begin_storm() {
	rm -f /tmp/gate && mkfifo /tmp/gate
	/home/user/driver --cuda /home/user/libcuda.so.1 --scenario storm --threads 1 --calls 1009 --hold-stdin </tmp/gate >/tmp/storm 2>&1 &
	storm=$!
	exec 8>/tmp/gate
}

end_storm() {
	exec 8>&-
	wait "$storm"
}

counts() {
	begin_storm
	wait_for 60 told "$storm"
	got=$(launched "$storm")
	end_storm
	same launches "$got" 1009
}

# On functions of libraries, and, once a process has launched, on the kernel by the best way that it has.
families() {
	wait_for 60 attached cuda_trace && begin_storm || return
	for family in gpu_mem cuda_trace nccl sched syscalls net vfs meta; do
		wait_for 60 attached $family || { get /health; return 1; }
	done
	end_storm
	get /health | jq -r '.probes[] | select(.tier) | "   \(.family) by \(.tier)\(if .why != "" then "; " + .why else "" end)"'
	same "way of meta" "$(get /health | jq -r '.probes[] | select(.family == "meta") | .tier')" fentry
}

# shellcheck source=tests/vm/due.sh
. /t/due.sh

# A library is hooked as soon as it is mapped, which the kernel tells; no word of anything that is missing.
events() {
	journalctl -o cat -u zerneld >/tmp/journal
	same "warnings" "$(grep -E 'absent|no mapping events|warning|error' /tmp/journal | grep -cvE "$due")" 0
}

# have WHICH PID: capabilities of a process, of all its threads: the highest, as each has a part of the finder's
have() {
	awk -v set="$1:" '$1 == set { print $2 }' /proc/"$2"/task/*/status | sort | tail -n 1
}

# What is left to the daemon: SYS_PTRACE, DAC_READ_SEARCH, CHECKPOINT_RESTORE, BPF and PERFMON; before 6.6 SYS_ADMIN
# too.
capabilities() {
	want=000001c000080004
	main=$(property MainPID)
	case $(uname -r) in 5.* | 6.[0-5].*) want=000001c000280004 ;; esac
	for set in CapPrm CapEff CapBnd; do
		same $set "$(have $set "$main")" $want || return
	done
	for pid in $(cat "/proc/$main/task/$main/children"); do
		case $(cat "/proc/$pid/comm") in
		"zernel: gauge") want=0000000000000004 ;;   # DAC_READ_SEARCH
		"zernel: readers") want=0000010000080004 ;; # SYS_PTRACE and CHECKPOINT_RESTORE too
		*) want=0000000000000000 ;;
		esac
		same "what process $pid has" "$(have CapPrm "$pid")" $want || return
	done
}

known() { # ID: of a job
	zernel job list | grep -q "$1"
}

script() { # NAME: one of Slurm's, as the package has them. It gives up where it gets no processor for some 100 ms.
	env -i SLURM_JOB_ID=4711 SLURM_JOB_UID=0 SLURM_JOB_USER=root "/usr/share/doc/zerneld/slurm/$1"
}

begun() {
	script prolog.d/50-zernel.sh && known 4711
}

reported() {
	script epilog.d/50-zernel.sh && test -s /var/lib/zernel/jobs/4711.json
}

# A job begins and ends, and its report is written.
slurm() {
	wait_for 60 begun && wait_for 60 reported
}

# OWNER: all that the group may read is his, and no mode is wider for it.
belongs() {
	jobs=/var/lib/zernel/jobs
	same "owners and modes" "$(stat -c '%U:%G %a' /run/zernel /run/zernel/metrics.sock /var/lib/zernel $jobs $jobs/*.json | tr '\n' ' ')" \
		"$1 755 $1 660 $1 750 $1 750 $(for _ in $jobs/*.json; do printf '%s 640 ' "$1"; done)"
}

# A drop-in names the group that may read, as docs/OPERATIONS.md has it: it holds for reports of before and of later,
# and after each restart, until it is taken away. What is left to the daemon does not change by it.
group() {
	belongs root:root || return
	echo monitoring:x:4242: >>/etc/group
	mkdir -p /etc/systemd/system/zerneld.service.d
	printf '[Service]\nGroup=monitoring\n' >/etc/systemd/system/zerneld.service.d/group.conf
	systemctl daemon-reload
	for id in 4712 4713; do
		systemctl restart zerneld && belongs root:monitoring || return
		sleep 1000 &
		zernel job start $id --pid $! && zernel job end $id && wait_for 60 test -s /var/lib/zernel/jobs/$id.json || return
		kill $!
		belongs root:monitoring && capabilities || return
	done
	rm -r /etc/systemd/system/zerneld.service.d
	systemctl daemon-reload
	systemctl restart zerneld && belongs root:root && well
}

named() { # NAME: as the daemon says
	[ "$(get /health | jq -r .node)" = "$1" ]
}

asked_as() { # NAME: the status of a page that is asked for under this name
	printf 'GET /json HTTP/1.0\r\nHost: %s:9091\r\nAuthorization: Bearer token-of-the-package\r\n\r\n' "$1" |
		nc 127.0.0.1 9091 | sed -n '1s/^[^ ]* \([0-9]*\).*/\1/p'
}

# The node gets its name while the service runs, as by DHCP or cloud-init.
renamed() {
	was=$(hostname)
	for host in former later; do
		hostname $host
		wait_for 20 named $host || return
	done
	same "its page" "$(asked_as later)" 200 && same "under the former name" "$(asked_as former)" 421 || return
	hostname "$was"
	wait_for 20 named "$was"
}

# zernel-gpu, with a stand-in of NVIDIA's library, which is heard as the user that systemd made for it, with no right
# left. There is no GPU in /sys, so that it is heard and no more.
heard() { # 1 or 0
	[ "$(get /metrics | sed -n 's/^zernel_nvml_up //p')" = "$1" ]
}

companion() {
	cp /t/libnvidia-ml.so.1 /lib/x86_64-linux-gnu/
	dpkg --force-depends -i /t/zernel-gpu.deb >/tmp/dpkg 2>&1 || return
	same state "$(systemctl is-active zernel-gpu)" inactive && systemctl start zernel-gpu || return
	wait_for 60 heard 1 || return
	for pid in $(pidof zernel-gpu); do
		for set in CapPrm CapEff CapBnd; do
			same "$set of $pid" "$(have $set "$pid")" 0000000000000000 || return
		done
		user=$(awk '$1 == "Uid:" { print $2 }' "/proc/$pid/status")
		same "its user" "$(stat -c %u /run/zernel-gpu/)" "$user" && [ "$user" -ge 61184 ] || return
	done
	was=$(systemctl show --value -p MainPID zernel-gpu)
	systemctl restart zerneld && wait_for 60 heard 1 || return
	same "its process" "$(systemctl show --value -p MainPID zernel-gpu)" "$was" || return
	dpkg -P zernel-gpu >/tmp/dpkg 2>&1 && wait_for 60 heard 0 &&
		same left "$(ls -d /usr/sbin/zernel-gpu /run/zernel-gpu /lib/systemd/system/zernel-gpu.service 2>/dev/null)" ""
}

well() { # the service runs, and counts
	is active disabled && wait_for 60 attached cuda_trace && counts
}

restart() {
	was=$(property MainPID)
	systemctl restart zerneld && [ "$(property MainPID)" != "$was" ] && well
}

reload() {
	was=$(property MainPID)
	systemctl reload zerneld && same "its process" "$(property MainPID)" "$was" && well
}

start_time() { # of the daemon, in s since 1970
	get '/metrics?collect[]=node' | sed -n 's/^process_start_time_seconds \([0-9]*\).*/\1/p'
}

btime() { # when the machine was booted, in s since 1970, by the clock as it is now
	sed -n 's/^btime //p' /proc/stat
}

near() { # GOT WANT BY
	[ $(($1 - $2)) -ge "-$3" ] && [ $(($1 - $2)) -le "$3" ]
}

began() { # S: it began as long after the boot as before, by a clock that was set by so much or some seconds less
	got=$(start_time)
	[ -n "$got" ] && near $((got - $(btime))) $((was - booted)) 2 && near "$(btime)" $((booted + $1)) 60
}

logged() { # N TEXT: so often the daemon said that
	journalctl -o cat -u zerneld >/tmp/journal
	[ "$(grep -c "$2" /tmp/journal)" = "$1" ]
}

# The time of day is set while it runs, as by the first answer of a time server after boot.
clock() {
	was=$(start_time)
	booted=$(btime)
	date -s "@$(($(date +%s) + 7200))" >/dev/null && wait_for 10 began 7200 || return
	date -s "@$(($(date +%s) - 10800))" >/dev/null && wait_for 10 began -3600 || return
	date -s "@$(($(date +%s) + 3600))" >/dev/null && wait_for 10 began 0 || return
	wait_for 10 logged 3 'clock: the time of day was set' && well
}

libraries() { # hooked ones, of the files that processes map under a library's name
	get /metrics | sed -n 's/^zernel_libraries{state="hooked"} //p'
}

more() { # N: of these
	[ "$(libraries)" = "$1" ]
}

# PARANOID BLIND AWAY PATIENCE: the second CPU goes for some seconds, and some seconds after it has come back a library
# is mapped there that was never seen before.
come_back() {
	was=$(libraries)
	echo "$1" >/proc/sys/kernel/perf_event_paranoid
	echo 0 >/sys/devices/system/cpu/cpu1/online && sleep "$3" && echo 1 >/sys/devices/system/cpu/cpu1/online || return
	sleep "$4"
	wait_for 10 logged "$2" 'no mapping events of a CPU' || return
	rm -rf /home/user/new /tmp/there && mkdir /home/user/new && cp /t/libcuda.so.1 /home/user/new/ && mkfifo /tmp/there
	taskset 2 /home/user/driver --cuda /home/user/new/libcuda.so.1 --hold-stdin </tmp/there >/dev/null 2>&1 &
	there=$!
	exec 7>/tmp/there
	wait_for 20 more $((was + 1))
	found=$?
	exec 7>&-
	wait "$there"
	[ $found = 0 ] && wait_for 20 more "$was"
}

migrated() { # PID: so often its threads went to another memory node
	get /metrics | sed -n "s/^zernel_thread_migrations_total{pid=\"$1\",scope=\"numa\".* //p"
}

# PID N: more often than that, when it is moved to the other CPU and back. A CPU that has just come is known a moment
# later.
has_migrated() {
	for mask in 2 1; do
		taskset -p $mask "$1" >/dev/null && echo >&8 && sleep 1 || return
	done
	[ "$(migrated "$1")" -gt "$2" ]
}

# A CPU that comes after the start, and is of another memory node.
nodes() {
	echo 0 >/sys/devices/system/cpu/cpu1/online
	systemctl restart zerneld
	echo 1 >/sys/devices/system/cpu/cpu1/online
	wait_for 60 attached cuda_trace && begin_storm && wait_for 60 told "$storm" || return
	was=$(migrated "$storm")
	wait_for 10 has_migrated "$storm" "${was:-0}"
	moved=$?
	end_storm
	return $moved
}

# As where a job's prolog switches SMT off, and its epilog on. Where the kernel wants a capability for mapping events
# that was given up, that is said, and /proc is scanned.
cpus() {
	blind=0
	case $(uname -r) in 5.* | 6.[0-5].*) ;; *) blind=1 ;; esac
	come_back 2 0 0 12 && come_back 3 $blind 3 3 && come_back 2 $blind 3 3 && nodes || return
	echo 3 >/proc/sys/kernel/perf_event_paranoid
	well
}

# The unit hides the kernel's symbols, by which the CPU time of a group is found before 5.19; not as the first process
# sees the tree, for who has the capabilities of the start.
symbols() {
	cat >/run/systemd/system/symbols.service <<-END
		[Service]
		Type=oneshot
		$(sed -n '/^ProtectKernelTunables=/p; /^CapabilityBoundingSet=/p; /^NoNewPrivileges=/p' /lib/systemd/system/zerneld.service)
		ExecStart=/bin/sh -c '! grep -q __per_cpu_offset /proc/kallsyms'
		ExecStart=/bin/grep -q "[1-9a-f][0-9a-f]* . __per_cpu_offset" /proc/1/root/proc/kallsyms
	END
	systemctl daemon-reload && systemctl start symbols
}

# The service runs on with the new program and the new unit; the options stay as they were written here.
upgrade() {
	was=$(property MainPID)
	dpkg --force-confold -i /t/zerneld.deb >/tmp/dpkg 2>&1 || return
	[ "$(property MainPID)" != "$was" ] || { echo "   it was not restarted"; return 1; }
	same unit "$(property Description)" "What machine-learning jobs do on this node" && posted /otlp &&
		grep -q 9000/otlp /etc/default/zerneld && well
}

# Reports and options stay; nothing else.
remove() {
	systemctl enable zerneld 2>/dev/null
	dpkg -r zerneld >/tmp/dpkg 2>&1 || return
	same processes "$(pidof zerneld)" "" && same state "$(systemctl is-active zerneld)" inactive || return
	same kept "$(ls /var/lib/zernel/jobs/4711.json /etc/default/zerneld)" "$(printf '/etc/default/zerneld\n/var/lib/zernel/jobs/4711.json')" || return
	left=$(ls -d /usr/sbin/zerneld /usr/bin/zernel /lib/systemd/system/zerneld.service /run/zernel \
		/etc/systemd/system/multi-user.target.wants/zerneld.service 2>/dev/null)
	same left "$left" ""
}

purge() {
	dpkg -P zerneld >/tmp/dpkg 2>&1 || return
	same left "$(ls -d /var/lib/zernel /etc/default/zerneld /usr/share/doc/zerneld 2>/dev/null)" ""
}

checks() {
	echo "@@ kernel $(uname -r)"
	echo "@@ way systemd"
	echo 3 >/proc/sys/kernel/perf_event_paranoid
	same perf_event_paranoid "$(cat /proc/sys/kernel/perf_event_paranoid)" 3 || return
	patience
	verdict install install
	verdict check check
	options
	receiver
	hold
	verdict start start || return
	verdict families families
	verdict events events
	verdict caps capabilities
	verdict counts counts
	verdict outbound outbound
	verdict slurm slurm
	verdict group group
	verdict renamed renamed
	verdict reload reload
	verdict restart restart
	verdict clock clock
	verdict cpus cpus
	verdict symbols symbols
	verdict upgrade upgrade
	verdict companion companion
	verdict remove remove
	verdict purge purge
}

/bin/busybox --install -s /bin
checks || failed=1
[ "$failed" = 0 ] || for file in /tmp/check /tmp/dpkg /tmp/journal /tmp/posted /tmp/idle /tmp/storm; do
	echo "   --- $file:"
	tail -n 40 "$file"
done
[ "$failed" = 0 ] || { journalctl -o short-monotonic --no-hostname -u zerneld -u zernel-gpu | tail -n 60; systemctl --no-pager --failed; }
echo "@@RC=$failed"
poweroff -f
