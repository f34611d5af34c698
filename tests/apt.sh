# SPDX-License-Identifier: GPL-2.0
# apt.sh: for scripts that fetch packages of other suites, which set dir first; nothing is installed. The archive is the
# one that this machine's own apt uses, read through lists of its own in $dir/apt.
# shellcheck shell=bash disable=SC2154

# The address of this machine's archive, or of its part with security updates ("-security").
archive() {
	local codename
	# shellcheck disable=SC1091 # each Debian has it
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	# shellcheck disable=SC2016 # for apt to expand
	apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
		awk -v want="$codename$1" '$2 == want && !found { print $1; found = 1 }'
}

# own_apt TOOL ARGUMENTS: of apt-get or apt-cache
own_apt() {
	local tool=$1
	shift
	"$tool" -o Dir::Etc::SourceList="$dir/apt/list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$dir/apt/lists" -o Dir::Cache="$dir/apt/cache" -o APT::Sandbox::User=root \
		-o Acquire::Languages=none -o Acquire::Retries=2 -qq "$@"
}

# own_update SUITE [COMPONENT...]: reads the list of its packages, those of main unless there is another one
own_update() {
	local part='' suite=$1
	[[ $suite == *-security ]] && part=-security
	[ $# -gt 1 ] || set -- "$suite" main
	mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(archive "$part") $suite ${*:2}" > "$dir/apt/list"
	own_apt apt-get update
}
