#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# guest.sh: the init of a virtual machine: mounts what the daemon reads, runs the checks, switches the machine
# off. The line @@RC= at the end shows that it got that far.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tracefs trace /sys/kernel/tracing
mount -t debugfs debug /sys/kernel/debug
ip link set lo up
cd /t && ./guest_check
echo "@@RC=$?"
poweroff -f
