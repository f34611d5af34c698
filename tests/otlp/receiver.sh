#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# receiver.sh DIR: fetches VictoriaMetrics of Debian's sid as DIR/victoria-metrics; nothing is installed. What lies
# there already is not fetched again. Says in one line why it could not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/apt.sh
. "$here/../apt.sh"

fetch() {
	rm -rf "$dir/apt"
	own_update sid
	mkdir -p "$dir/apt/root"
	(cd "$dir/apt" && own_apt apt-get download victoria-metrics)
	dpkg-deb -x "$dir"/apt/victoria-metrics_*.deb "$dir/apt/root"
	mv "$dir/apt/root/usr/bin/victoria-metrics" "$dir/victoria-metrics"
	rm -rf "$dir/apt"
}

dir=$(mkdir -p "$1" && cd "$1" && pwd)
[ -x "$dir/victoria-metrics" ] && exit
trap 'echo "receiver.sh: victoria-metrics of Debian sid cannot be fetched; the test needs it" >&2' ERR
set -E
fetch
