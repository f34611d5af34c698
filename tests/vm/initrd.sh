#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# initrd.sh TO BUILD guest|slurm|io|rdma|cost|package: makes the file system of the virtual machines as the initramfs
# TO: busybox, its init (guest.sh; slurm.sh and with it a Slurm of this machine's packages; io.sh with fio and an NFS
# server; rdma.sh with the library of verbs; cost.sh; for package.sh this machine's systemd and dpkg), and from the
# folder BUILD what is to be tested.
# Dynamic programs get the libraries of this machine, under the paths they have here. One image does for all kernels;
# modules of the kernel come behind it (modules.sh).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
programs=(zerneld test/guest_check test/matrix test/driver test/libcuda.so.1 test/libnccl.so.2)
slurm=(/usr/sbin/{munged,slurmctld,slurmd,slurmstepd} /usr/bin/{sbatch,srun,sinfo,jq})
plugins=/usr/lib/x86_64-linux-gnu/slurm-wlm
root=$(mktemp -d)
chmod 755 "$root" # it becomes /
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

# unpack FOLDER PACKAGE...: what need not be installed on this machine
unpack() {
	local to=$1 package
	shift
	[ ! -e "$to/unpacked" ] || return 0
	mkdir -p "$to"
	(cd "$to" && apt-get -qq -o APT::Sandbox::User=root download "$@")
	for package in "$to"/*.deb; do
		dpkg-deb -x "$package" "$to"
	done
	touch "$to/unpacked"
}

# The NFS server is not installed, which would start it.
put_io() {
	local program nfs=$1/nfs
	unpack "$nfs" nfs-kernel-server libwrap0
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

# put_python PROGRAM MODULE...: the system's Python with the modules that this program of tests/vm takes, and no others.
put_python() {
	local python module program=$1
	shift
	printf -v module ', %s' "$@"
	python=$(readlink -f /usr/bin/python3)
	install -D "$python" "$root/usr/bin/python3"
	env -i "$python" -S -c "import ctypes, encodings.ascii, encodings.latin_1$module"'
import sys
for m in list(sys.modules.values()):
    if getattr(m, "__file__", None):
        print(m.__file__)' | sort -u > "$root/modules"
	while read -r module; do
		install -D -m 644 "$module" "$root$module"
		case $module in *.so) with_libraries "$module" ;; esac
	done < "$root/modules"
	rm "$root/modules"
	with_libraries "$python"
	cp "$here/$program" "$root/t/"
}

# The library of verbs with its part for soft RoCE
put_rdma() {
	local rdma=$1/rdma libraries=/usr/lib/x86_64-linux-gnu program
	unpack "$rdma" ibverbs-providers
	install -D -m 644 "$rdma/etc/libibverbs.d/rxe.driver" "$root/etc/libibverbs.d/rxe.driver"
	install -D "$rdma$libraries/libibverbs/librxe-rdmav34.so" "$root$libraries/libibverbs/librxe-rdmav34.so"
	with_libraries "$rdma$libraries/libibverbs/librxe-rdmav34.so"
	program=$(command -v rdma)
	install -D "$program" "$root/usr/bin/rdma"
	with_libraries "$program"
	put_python rdma.py errno mmap os resource struct
}

put_cost() {
	cp "$1"/{calls,attach_floor,floor.bpf.o,floor_io.bpf.o} "$root/t/"
	with_libraries "$1"/{calls,attach_floor}
}

# systemd is the init, and runs package.sh and nothing beside it; its units are those of its own package.
put_package() {
	local systemd=/lib/systemd units=/etc/systemd/system program installed=()
	installed=(/bin/{systemctl,journalctl,systemd-sysusers,systemd-tmpfiles,dash,mount,umount}
		/sbin/{ldconfig,start-stop-daemon} /usr/bin/{dpkg,dpkg-deb,dpkg-split,jq,tar,diff}
		$systemd/systemd{,-journald,-random-seed,-shutdown,-sysctl,-update-utmp})
	for program in "${installed[@]}"; do
		install -D "$program" "$root$program"
	done
	with_libraries "${installed[@]}"
	dpkg -L systemd | grep "^$systemd/system/" | while read -r program; do
		[ -d "$program" ] || { mkdir -p "$root${program%/*}" && cp -a "$program" "$root$program"; }
	done
	mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers} "$root"/{home,root,etc/default,var/log/journal} "$root$units"
	touch "$root"/var/lib/dpkg/{status,available}
	ln -sf dash "$root/bin/sh"
	ln -sf "$systemd/systemd" "$root/init"
	cp /etc/os-release "$root/etc/os-release"
	echo /lib/x86_64-linux-gnu > "$root/etc/ld.so.conf"
	printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' > "$root/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\nsystemd-journal:x:101:\nvideo:x:44:\n' > "$root/etc/group"
	echo 0123456789abcdef0123456789abcdef > "$root/etc/machine-id"
	cp "$here/package.service" "$root$units/"
	printf '[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=package.service\n' > "$root$units/package.target"
	ln -s package.target "$root$units/default.target"
	cp "$here/package.sh" "$root/t/"
	cp "$1"/dist/zerneld_*.deb "$root/t/zerneld.deb"
	cp "$1"/dist/zernel-gpu_*.deb "$root/t/zernel-gpu.deb"
	cp "$1/test/libnvidia-ml.so.1" "$root/t/"
	"$here/../older.sh" "$root/t/zerneld.deb" "$root/t/older.deb"
}

mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,t}
cp /bin/busybox "$root/bin/"
ln -s busybox "$root/bin/sh"
for program in "${programs[@]}"; do
	cp "$2/$program" "$root/t/"
done
install -D -t "$root/t/thunk" "$2/test/entry/thunk/libcuda.so.1"
with_libraries "$2/test/driver"
cp "$here/$3.sh" "$root/init"
cp "$here/due.sh" "$root/t/"
case $3 in
guest) put_python stacks.py time ;;
rdma) put_rdma "$2/vm" ;;
slurm) put_slurm ;;
io) put_io "$2/vm" ;;
cost) put_cost "$2/bench" ;;
package) put_package "$2" ;;
esac
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) > "$1"
