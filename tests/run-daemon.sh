#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# run-daemon.sh BINARY [OPTION...]: starts the daemon: live if this user and this kernel allow any family of probes,
# else simulated; says why.
set -eu

binary=$1
shift

# The first line of --check that is neither a fact nor "ok".
refused() {
	awk '$1 !~ /^(version|kernel|limits)$/ && $2 !~ /^ok,?$/ { print; exit }'
}

why=
if [ "$(id -u)" != 0 ]; then
	why="not root"
elif ! check=$("$binary" --check "$@" 2>&1); then
	why=$(echo "$check" | refused)
	why=${why:-"--check failed"}
fi

echo "metrics: http://localhost:9091/metrics   in a terminal: ${binary%/*}/zernel watch"
if [ -z "$why" ]; then
	exec "$binary" "$@"
elif echo "${check:-}" | grep -q ' ok$'; then
	echo "live, but not all of it: $why"
	exec "$binary" "$@"
fi
echo "simulated, every number is invented: $why"
exec "$binary" --simulate "$@"
