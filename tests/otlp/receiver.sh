#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# receiver.sh DIR: fetches VictoriaMetrics of Debian's sid as DIR/victoria-metrics; nothing is installed. What lies there
# already is not fetched again. The archive is the one that this machine's own apt uses, read through lists of its own in
# DIR/apt, which go afterwards. Says in one line why it could not.
set -euo pipefail

archive() {
	local codename
	# shellcheck disable=SC1091 # each Debian has it
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	# shellcheck disable=SC2016 # for apt to expand
	apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
		awk -v want="$codename" '$2 == want && !found { print $1; found = 1 }'
}

own_apt() {
	apt-get -o Dir::Etc::SourceList="$dir/apt/list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$dir/apt/lists" -o Dir::Cache="$dir/apt/cache" -o APT::Sandbox::User=root \
		-o Acquire::Languages=none -o Acquire::Retries=2 -qq "$@"
}

fetch() {
	rm -rf "$dir/apt"
	mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$dir/apt/root"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(archive) sid main" > "$dir/apt/list"
	own_apt update
	(cd "$dir/apt" && own_apt download victoria-metrics)
	dpkg-deb -x "$dir"/apt/victoria-metrics_*.deb "$dir/apt/root"
	mv "$dir/apt/root/usr/bin/victoria-metrics" "$dir/victoria-metrics"
	rm -rf "$dir/apt"
}

dir=$(mkdir -p "$1" && cd "$1" && pwd)
[ -x "$dir/victoria-metrics" ] && exit
trap 'echo "receiver.sh: victoria-metrics of Debian sid cannot be fetched; the test needs it" >&2' ERR
set -E
fetch
