#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# io.sh: the init of a virtual machine with disks, an overlay and NFS: the API matrix on each, dd and fio, and how all of
# that agrees with what the daemon counted.
export PATH=/bin:/usr/bin:/usr/sbin:/sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o size=700m tmp /tmp
mount -t tmpfs run /run
mount -t tracefs trace /sys/kernel/tracing
ip link set lo up
for module in /modules/*.ko; do
	insmod "$module" || echo "cannot load $module"
done
echo "@@ kernel $(uname -r)"

# ext4 on a loop device, and an overlay above it
dd if=/dev/zero of=/tmp/disk bs=1M count=0 seek=400 2>/dev/null
mkfs.ext4 -q -F -O ^metadata_csum /tmp/disk
mkdir -p /ext4 /overlay /nfs
mount -t ext4 -o loop /tmp/disk /ext4
mkdir -p /ext4/lower /ext4/upper /ext4/work /ext4/export
mount -t overlay -o lowerdir=/ext4/lower,upperdir=/ext4/upper,workdir=/ext4/work overlay /overlay

# an NFS server of this kernel, mounted on itself
mount -t nfsd nfsd /proc/fs/nfsd
mkdir -p /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery /etc
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
echo "/ext4/export 127.0.0.1(rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0)" > /etc/exports
echo "nobody:x:65534:65534:nobody:/:/bin/false" > /etc/passwd
exportfs -ra
rpc.mountd -N 2 -N 3 &
echo "+4 -2 -3" > /proc/fs/nfsd/versions
echo "tcp 2049" > /proc/fs/nfsd/portlist
echo 2 > /proc/fs/nfsd/threads
echo Y > /proc/fs/nfsd/v4_end_grace # nobody has anything to reclaim; it would be 90 s
mount -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/ /nfs
grep -E " /(ext4|overlay|nfs) " /proc/self/mountinfo
dd if=/dev/zero of=/nfs/x bs=64k count=16
ls -la /nfs /ext4/export
fio --version
echo "@@RC=0"
poweroff -f
