#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# initrd.sh TO BUILD guest|slurm|io|cost: makes the file system of the virtual machines as the initramfs TO: busybox, its init
# (guest.sh; slurm.sh and with it a Slurm of this machine's packages; io.sh with fio and an NFS server; cost.sh), and from the
# folder BUILD what is to be tested. Dynamic programs get the libraries of this machine, under the paths they have here. One
# image does for all kernels; modules of the kernel come behind it (modules.sh).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
programs=(zerneld test/guest_check test/matrix test/driver test/libcuda.so.1 test/libnccl.so.2)
slurm=(/usr/sbin/{munged,slurmctld,slurmd,slurmstepd} /usr/bin/{sbatch,srun,sinfo,jq})
plugins=/usr/lib/x86_64-linux-gnu/slurm-wlm
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# with_libraries FILE...: copies what these programs or libraries link, to where it is here
with_libraries() {
	ldd "$@" | grep -oE '/[^ :]+ ' | sort -u | while read -r library; do
		[ -e "$root$library" ] || install -D "$library" "$root$library"
	done
}

put_slurm() {
	local program script
	for program in "${slurm[@]}"; do
		install -D "$program" "$root$program"
	done
	mkdir -p "$root$plugins" "$root/usr/local/bin"
	cp -L "$plugins"/*.so "$root$plugins/"
	with_libraries "${slurm[@]}" "$plugins"/*.so
	install -D -m 644 "$here/slurm.conf" "$root/etc/slurm/slurm.conf"
	printf 'CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nConstrainRAMSpace=yes\n' > "$root/etc/slurm/cgroup.conf"
	for script in prolog.d/50-zernel.sh epilog.d/50-zernel.sh; do
		install -D -m 755 "$here/../../contrib/slurm/$script" "$root/etc/slurm/$script"
	done
	ln -s /t/zerneld "$root/usr/local/bin/zernel"
	echo root:x:0:0:root:/:/bin/sh > "$root/etc/passwd"
	echo root:x:0: > "$root/etc/group"
}

# The NFS server is not installed, which would start it: its package is unpacked.
put_io() {
	local program nfs=$1/nfs
	if [ ! -x "$nfs/usr/sbin/rpc.mountd" ]; then
		mkdir -p "$nfs"
		(cd "$nfs" && apt-get -qq -o APT::Sandbox::User=root download nfs-kernel-server libwrap0)
		for program in "$nfs"/*.deb; do
			dpkg-deb -x "$program" "$nfs"
		done
	fi
	install -D -t "$root/usr/lib/x86_64-linux-gnu" "$nfs"/usr/lib/x86_64-linux-gnu/libwrap.so.0
	with_libraries "$nfs"/usr/lib/x86_64-linux-gnu/libwrap.so.0
	for program in /usr/sbin/{rpc.mountd,exportfs}; do
		install -D "$nfs$program" "$root$program"
		with_libraries "$nfs$program"
	done
	install -D /bin/dd "$root/usr/bin/dd" # busybox has one too
	with_libraries /bin/dd
	for program in /usr/bin/{fio,jq} /usr/sbin/mkfs.ext4; do
		install -D "$program" "$root$program"
		with_libraries "$program"
	done
}

put_cost() {
	cp "$1"/{calls,attach_floor,floor.bpf.o,floor_io.bpf.o} "$root/t/"
	with_libraries "$1"/{calls,attach_floor}
}

mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,t}
cp /bin/busybox "$root/bin/"
ln -s busybox "$root/bin/sh"
for program in "${programs[@]}"; do
	cp "$2/$program" "$root/t/"
done
with_libraries "$2/test/driver"
cp "$here/$3.sh" "$root/init"
case $3 in
slurm) put_slurm ;;
io) put_io "$2/vm" ;;
cost) put_cost "$2/bench" ;;
esac
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) > "$1"
