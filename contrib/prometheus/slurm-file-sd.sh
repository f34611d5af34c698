#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# slurm-file-sd.sh [-p PORT] [-P PARTITION] FILE: writes Slurm's nodes into FILE, as targets for Prometheus'
# file_sd_configs. Nodes that are powered off to save energy are left out; those that are down stay in, so that they are
# missed. FILE is replaced in one step, and only if something changed; if Slurm does not answer, knows no node, or has a
# name that is no host name, it stays as it was, one line says why, and the exit status is 1.
set -eu

fail() {
	echo "slurm-file-sd: $1" >&2
	exit "${2:-1}"
}
usage='usage: slurm-file-sd.sh [-p PORT] [-P PARTITION] FILE'

port=9091
partition=
while getopts p:P: option; do
	case $option in
	p) port=$OPTARG ;;
	P) partition=$OPTARG ;;
	*) fail "$usage" 2 ;;
	esac
done
shift $((OPTIND - 1))
if [ $# != 1 ] || [ -z "$1" ]; then
	fail "$usage" 2
fi
case $port in
'' | *[!0-9]* | ??????*) fail "-p $port: a port is a number from 1 to 65535" 2 ;;
esac
if [ "$port" -lt 1 ] || [ "$port" -gt 65535 ]; then
	fail "-p $port: a port is a number from 1 to 65535" 2
fi
file=$1

nodes=$(timeout 60 sinfo --noheader --Node --format='%N %T' ${partition:+--partition="$partition"}) ||
	fail "sinfo failed; $file stays as it is"

new=$(mktemp "$(dirname "$file")/.slurm-file-sd.XXXXXX") || exit 1
trap 'rm -f "$new"' EXIT
trap 'exit 1' HUP INT TERM
echo "$nodes" | awk -v port="$port" '
	NF && (NF != 2 || length($1) > 253 || $1 !~ /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/) {
		gsub(/[^ -~]/, "?")
		print "slurm-file-sd: not the name and state of a node: " substr($0, 1, 80) > "/dev/stderr"
		bad = 1
		exit
	}
	# ~ powered off, # powering up, % powering down, ! about to
	!NF || $2 ~ /[~#%!]/ || seen[$1]++ { next }
	{ printf "%s\"%s:%s\"", (count++ ? ",\n  " : "[{\"targets\": [\n  "), $1, port }
	END {
		if (!bad && !count)
			print "slurm-file-sd: sinfo shows no node" > "/dev/stderr"
		if (bad || !count)
			exit 1
		print "\n]}]"
	}' > "$new" || fail "$file stays as it is"
cmp -s "$new" "$file" && exit 0
chmod 644 "$new"
mv -f "$new" "$file"
