# shellcheck shell=sh disable=SC2034
# SPDX-License-Identifier: GPL-2.0
# due.sh: which warnings of a daemon may be due in an emulated machine, as a pattern: alerts, and what it says where a
# change of probes takes long, or what the kernel or a receiver on this machine is asked for.
due=': alert | waits since |: attaching to |gauge: the kernel does not answer|writer: its folders do not answer'
due="$due|sender: [a-z]* 127\\.0\\.0\\.1:9000: .*; it is tried again until it works"
