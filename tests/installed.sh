#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# installed.sh OLDER DEB: installs the package OLDER on this machine, upgrades it to DEB, removes it and purges it, with
# their own maintainer scripts and this machine's dpkg, in a root of its own: what is written goes to a tmpfs over /, in
# namespaces that end with this script. systemctl there keeps what it is asked. Slurm's scripts run with a file server
# under /usr/local that never answers. Prints "ok NAME" or "FAILED NAME: what was seen". Needs root.
set -uo pipefail

export PATH=/usr/sbin:/usr/bin:/sbin:/bin # /usr/local does not answer later on
here=$(cd "$(dirname "$0")" && pwd)
older=$(realpath "$1") deb=$(realpath "$2")

# Stage 1: namespaces.
if [ "${3:-}" != inside ]; then
	exec unshare --mount --pid --fork --kill-child "$here/installed.sh" "$older" "$deb" inside
fi

top=$(mktemp -d)
mount -t tmpfs tmpfs "$top"
mkdir "$top"/{upper,work,root}
mount -t overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" overlay "$top/root"
root=$top/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs run "$root/run"
mount -t tmpfs tmp "$root/tmp"
mkdir -p "$root/run/systemd/system"
cp "$older" "$root/tmp/older.deb"
cp "$deb" "$root/tmp/zerneld.deb"
rm -f "$root/usr/bin/systemctl"
cat > "$root/usr/bin/systemctl" <<- 'END'
	#!/bin/sh
	echo "$*" >> /tmp/asked
	exit "$(cat /tmp/status 2>/dev/null || echo 0)"
END
chmod +x "$root/usr/bin/systemctl"

# same NAME GOT WANT
same() {
	if [ "$2" = "$3" ]; then
		echo "ok $1"
	else
		echo "FAILED $1: $2, not $3" | tr '\n' ' '
		echo
	fi
}

within() { # COMMAND...: in the root, and not for ever
	timeout -k 1 300 chroot "$root" "$@"
}

# dpkg_does ARGUMENTS...: what systemctl was asked meanwhile, or what dpkg said of an error
dpkg_does() {
	rm -f "$root/tmp/asked"
	if within dpkg --force-confold "$@" > "$top/said" 2>&1; then
		cat "$root/tmp/asked"
	else
		cat "$top/said"
	fi
}

# What an installation changed, but for dpkg's own books
changed() {
	(cd "$top/upper" && find . ! -type d ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './var/cache/*' ! -path './usr/bin/systemctl' | sort)
}

# How a script ended, and what it said
script() {
	within env -i SLURM_JOB_ID=4711 SLURM_JOB_UID=0 SLURM_JOB_USER=root SLURM_LOCALID=0 "/usr/share/doc/zerneld/slurm/$1" > "$top/said" 2>&1
	echo "$?$(cat "$top/said")"
}

before=$(changed)
same "it is not started" "$(dpkg_does -i /tmp/older.deb)" daemon-reload
[ -n "$(changed)" ] || same "its files are seen" none some
mkdir -p "$root/var/lib/zernel/jobs" && touch "$root/var/lib/zernel/jobs/1.json"
echo ZERNEL_OTLP=http://127.0.0.1:9 >> "$root/etc/default/zerneld"
same "an upgrade restarts what runs" "$(dpkg_does -i /tmp/zerneld.deb)" "$(printf 'daemon-reload\ntry-restart zerneld.service')"
same "an upgrade keeps the options" "$(grep -c OTLP=http "$root/etc/default/zerneld")" 1
echo 1 > "$root/tmp/status"
same "a service that does not start again is no failed upgrade" "$(dpkg_does -i /tmp/zerneld.deb)" \
	"$(printf 'daemon-reload\ntry-restart zerneld.service')"
same "its program runs" "$(within zerneld --version | cut -d ' ' -f 1)" zerneld

left() { # messages
	find "$root/run/zernel/jobs.d" -type f 2> /dev/null | wc -l
}

# The message of each script is left as a file where no daemon runs. It gives up where it gets no processor for 80 ms.
python3 "$here/silent_mount.py" "$root/usr/local" > "$top/mounted" &
for _ in $(seq 100); do
	[ -s "$top/mounted" ] && break
	sleep 0.1
done
same "a file server that does not answer" "$(cat "$top/mounted")" mounted
for name in prolog.d/50-zernel.sh epilog.d/50-zernel.sh taskprolog.sh; do
	had=$(left)
	for _ in $(seq 20); do
		got=$(script "$name")
		[ "$got" = 0 ] && [ "$(left)" = "$had" ] || break
	done
	same "$name beside it" "$got" 0
done
same "messages of the scripts" "$(left)" 3
rm -f "$root/usr/bin/zernel" # as after a removal that left copies of the scripts in /etc/slurm
for name in prolog.d/50-zernel.sh epilog.d/50-zernel.sh taskprolog.sh; do
	same "$name beside it, without the program" "$(script "$name")" 0
done
kill %1
wait

same "a removal stops the service" "$(dpkg_does -r zerneld)" "$(printf 'disable --now zerneld.service\ndaemon-reload')"
same "a removal keeps reports and options" "$(changed)" "$(printf './etc/default/zerneld\n./etc/default/zerneld.dpkg-dist\n./var/lib/zernel/jobs/1.json')"
same "a removal leaves nothing that runs" "$(find "$root/run" -name zernel)" ""
same "a purge" "$(dpkg_does -P zerneld)" daemon-reload
same "nothing is left" "$(changed)" "$before"
umount -l "$root"
umount -l "$top"
rmdir "$top"
