#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: runs all tests and adds up what they say; the output of those that fail is shown. A program that fails
# without a failed test, or says no "N passed, N failed", is one failure. The live tests need root and a kernel with
# BTF; in CI they must run. BESIDE has a command in each line, which are run beside all others, as tests. The last line
# is "N passed, N failed".
cd "$(dirname "$0")/.." || exit 1

export PATH=$PATH:/usr/sbin:/sbin
python=/usr/bin/python3 # the one that Debian's packages are for
tests=build/test
work=build/test/output # what each of them says, with the time of each test
rm -rf "$work"
mkdir -p "$work" || exit 1
passed=0
failed=0
others=()

# Whoever breaks off has everything broken off: what timeout runs is in a group of its own, and what runs beside the
# others does not hear of Ctrl-C.
below() {
	ps -e -o pid= -o ppid= | awk -v top="$1" '{ parent[$1] = $2 }
		END { for (pid in parent) {
			for (up = parent[pid]; up in parent && up != top; up = parent[up]);
			if (up == top)
				print pid
		} }'
}
break_off() {
	trap '' INT TERM
	below $$ | xargs kill 2>/dev/null
	wait
	exit 130
}
trap break_off INT TERM

# run NAME SECONDS COMMAND...: the time only ends a hang, also on a machine that others keep busy
run() {
	local name=$1 limit=$2 start=$SECONDS output=$work/$1 status counts p f
	shift 2
	timeout -k 10 "$limit" "$@" >"$output" 2>&1 </dev/null
	status=$?
	counts=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$output" | tail -n 1)
	read -r p _ f _ <<<"${counts:-0 passed, 0 failed}"
	if [ "$f" = 0 ] && { [ "$status" != 0 ] || [ "$p" = 0 ]; }; then
		f=1
	fi
	passed=$((passed + p))
	failed=$((failed + f))
	if [ "$f" != 0 ]; then
		echo "---- $name: $f failed, exit status $status, $((SECONDS - start)) s from $start s on"
		cat "$output"
		echo "----"
	else
		grep -aE '^((absent|again|slowest): |booted )' "$output"
		echo "$name: $p passed, $((SECONDS - start)) s from $start s on"
	fi | in_one_piece
}

# Others may want to say something at the same time.
in_one_piece() {
	(flock 9 && cat) 9>"$work/lock"
}

# behind NAME COMMAND...: what the command runs goes on beside what follows, until all are awaited
behind() {
	local name=$1
	shift
	(
		passed=0 failed=0
		"$@"
		echo "$passed $failed" >"$work/$name.counts"
	) &
	others+=("$name")
}

# beside NAME SECONDS COMMAND...: one for each processor
beside() {
	while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
		wait -n
	done
	behind "$1" run "$@"
}

await_others() {
	local name p f
	wait
	for name in "${others[@]}"; do
		p=0 f=1 # where it ended before it could say
		[ ! -e "$work/$name.counts" ] || read -r p f <"$work/$name.counts"
		passed=$((passed + p))
		failed=$((failed + f))
	done
	others=()
}

# skip NAME COUNT WHY: tests that cannot run here
skip() {
	echo "$1: $2 tests were NOT run: $3"
	[ "${CI:-}" != true ] || failed=$((failed + $2))
}

# live NAME SECONDS PROGRAM [--timed|--untimed|--live]: what needs root and probes; its tests are functions under @test
# in the PROGRAM's folder
live() {
	local count which='^@test'
	if [ "$(id -u)" = 0 ] && [ -e /sys/kernel/btf/vmlinux ]; then
		run "$1" "$2" "$python" "${@:3}"
		return
	fi
	case ${4:-} in
	--timed) which='^@test_timed$' ;;
	--untimed) which='^@test(_simulated|_shared)?$' ;;
	--live) which='^@test(_shared)?$' ;;
	esac
	count=$(cat "$(dirname "$3")"/*.py | grep -cE "$which")
	skip "$1" "$count" "they need root and a kernel with BTF"
}

# What is of the whole machine: one at a time.
whole() {
	live live 4500 tests/e2e/run.py --untimed
	live real 900 tests/real/run.py
	live slurm 1800 tests/slurm/run.py
	run dist_test 900 "$python" tests/dist_test.py
	run page_live 900 node tests/web/page.test.mjs 'a live daemon'
	live load_live 600 tests/load/run.py --live
}

# Built here, as a third of all compiling is for these. The others mostly wait, and have the processors first.
unit() {
	local source start=$SECONDS
	others=()
	renice -n 15 "$BASHPID" >/dev/null
	if ! make --no-print-directory -j"$(nproc)" unit >"$work/unit.build" 2>&1; then
		failed=$((failed + 1))
		in_one_piece < <(echo "---- unit tests: they do not compile" && cat "$work/unit.build")
		return
	fi
	echo "unit tests: compiled, $((SECONDS - start)) s from $start s on"
	for source in tests/unit/*/*_test.c; do
		beside "$(basename "$source" .c)" 600 "$tests/$(basename "$source" .c)"
	done
	await_others
	run json_strict 900 "$python" tests/json_strict.py "$tests/json_write"
	run otlp_test 900 node tests/web/otlp.test.mjs
	run day 900 "$tests/scenario_test" day
}

# From Debian's archive, for some of the tests of the whole machine, which would wait for it.
fetched() {
	renice -n 15 "$BASHPID" >/dev/null
	{ tests/pythons.sh build/pythons; tests/real/files.sh build/real; } >"$work/fetched" 2>&1
}

# Daemons that simulate,
simulated() {
	run load 900 "$python" tests/load/run.py --simulated
	run page_test 900 node tests/web/page.test.mjs '!a live daemon'
	run watch_test 900 "$python" tests/watch_test.py build/zernel
	run job_cli_test 900 "$python" tests/job_cli_test.py build/zernel
	run readers_test 900 node tests/web/readers.test.mjs
	run alerts_cli_test 900 "$python" tests/alerts_cli_test.py build/zernel
}

# and those with a Prometheus or a store behind them.
received() {
	run fleet 1200 "$python" tests/fleet/run.py '!nodes_of_a_job'
	run fleet_nodes 900 "$python" tests/fleet/run.py nodes_of_a_job
	run otlp 900 "$python" tests/otlp/run.py
}

# No time decides in these. What they leave of the processors is for BESIDE.
for lane in whole simulated received unit fetched; do
	behind "$lane" "$lane"
done
while read -r -a command; do
	behind "${command[-1]}" run "${command[-1]}" 7200 "${command[@]}"
done < <(echo "${BESIDE:-}" | grep .)
await_others
live timed 1200 tests/e2e/run.py --timed
run load_timed 600 "$python" tests/load/run.py --timed
live pytorch 1800 tests/pytorch/run.py

echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
