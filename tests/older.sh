#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# older.sh DEB TO: makes the package TO, as if DEB had had a version before: of a lower number, with
# another description in its unit and another file of options.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dpkg-deb -R "$1" "$work/root"
cd "$work/root"
sed -i 's/^Version: .*/Version: 0~1/' DEBIAN/control
sed -i 's/^Description=.*/Description=The version before/' lib/systemd/system/zerneld.service
sed -i '/^#ZERNEL_LOG/d' etc/default/zerneld
cd - >/dev/null
dpkg-deb --root-owner-group -b "$work/root" "$2" >/dev/null
