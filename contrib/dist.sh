#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# dist.sh BUILD OUT VERSION COMMIT: makes what is given away, in the folder OUT: an archive of the source, one of the
# program with what belongs to it, two Debian packages, and their checksums. The same commit gives the same bytes with
# the same compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1 out=$2 version=$3 commit=$4
arch=$(dpkg --print-architecture 2> /dev/null || uname -m)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2> /dev/null || stat -c %Y README.md)
export SOURCE_DATE_EPOCH
# What comes before the release has the commit in its name. Debian's number grows with time and sorts before the
# release; a dash would part the packager's number from it.
number=$version
if [ "$(git describe --tags --exact-match --dirty 2> /dev/null)" != "v$version" ]; then
	number=$version~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M).${commit//-/+}
	version=$version-$commit
fi
rm -rf "$out" && mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# pack FOLDER TO: a tar that does not depend on who packs it and when
pack() {
	tar -C "$(dirname "$1")" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c \
		"$(basename "$1")" | gzip -9n > "$2"
}

source_archive() {
	git archive --format=tar --prefix="zerneld-$version/" HEAD | gzip -9n > "$out/zerneld-$version.tar.gz"
}

binary_archive() {
	local to=$work/zerneld-$version-linux-$arch
	mkdir -p "$to"
	install -m 755 "$build/zerneld" "$to/zerneld"
	ln -s zerneld "$to/zernel"
	install -m 755 "$build/zernel-gpu" "$to/zernel-gpu"
	cp -r README.md CHANGELOG.md CONTRIBUTING.md LICENSE contrib docs "$to/"
	rm -rf "$to/contrib/deb" "$to/contrib/dist.sh" "$to"/contrib/gpu/*.[ch]
	pack "$to" "$out/zerneld-$version-linux-$arch.tar.gz"
}

# pack_deb ROOT NAME SCRIPTS: what belongs into every package, and the package of it
pack_deb() {
	local root=$1 name=$2 scripts=$3 doc=$1/usr/share/doc/$2
	install -m 644 contrib/deb/copyright "$doc/copyright"
	printf '%s (%s) unstable; urgency=medium\n\n  * See the history of the source.\n\n -- %s  %s\n' "$name" "$number" \
		"$(sed -n 's/^Maintainer: //p' "$scripts/control")" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n > "$doc/changelog.gz"
	sed -e "s/@version@/$number/" -e "s/@arch@/$arch/" \
		-e "s/@size@/$(du -sk --apparent-size "$root" | cut -f 1)/" "$scripts/control" > "$root/DEBIAN/control"
	install -m 755 "$scripts"/{postinst,prerm,postrm} "$root/DEBIAN/"
	(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
	dpkg-deb --root-owner-group -b "$root" "$out/${name}_${number}_$arch.deb" > /dev/null
}

gpu_package() {
	local root=$work/gpu doc=$work/gpu/usr/share/doc/zernel-gpu
	mkdir -p "$root/DEBIAN" "$doc"
	install -D -m 755 "$build/zernel-gpu" "$root/usr/sbin/zernel-gpu"
	install -D -m 644 contrib/systemd/zernel-gpu.service "$root/lib/systemd/system/zernel-gpu.service"
	install -d "$root/usr/share/man/man8"
	gzip -9nc docs/man/zernel-gpu.8 > "$root/usr/share/man/man8/zernel-gpu.8.gz"
	sed 's#](\.\./\.\./docs/#](../zerneld/#g; s#](\.\./systemd/#](../zerneld/systemd/#g' contrib/gpu/README.md > "$doc/README.md"
	pack_deb "$root" zernel-gpu contrib/deb/gpu
}

debian_package() {
	local root=$work/deb doc=$work/deb/usr/share/doc/zerneld
	mkdir -p "$root/DEBIAN" "$root/etc/default" "$doc"
	make --no-print-directory install DESTDIR="$root" PREFIX=/usr > /dev/null
	install -D -m 644 contrib/systemd/zerneld.service "$root/lib/systemd/system/zerneld.service"
	install -m 644 contrib/deb/default "$root/etc/default/zerneld"
	cp -r contrib/* docs/*.md docs/grafana docs/images README.md CONTRIBUTING.md CHANGELOG.md "$doc/"
	rm -r "$doc/deb" "$doc/dist.sh" "$doc"/gpu/*.[ch]
	# there is one folder less than in the source
	sed -i -e 's#](\(\.\./\)\{0,1\}\(docs\|contrib\)/#](#g; s#](\(\.\./\)\{0,1\}LICENSE)#](copyright)#g' \
		-e 's#](\.\./\([A-Z]*\.md\)#](\1#g' "$doc"/*.md
	sed -i 's#](\.\./\.\./docs/#](../#g; s#](\.\./\.\./\([A-Z]*\.md\)#](../\1#g' "$doc"/*/*.md
	# the package's scripts know its own path alone
	sed -i '/\/usr\/local/d' "$doc"/slurm/{prolog.d,epilog.d}/*.sh "$doc/slurm/taskprolog.sh"
	echo /etc/default/zerneld > "$root/DEBIAN/conffiles"
	pack_deb "$root" zerneld contrib/deb
}

source_archive
binary_archive
if command -v dpkg-deb > /dev/null; then
	debian_package
	gpu_package
fi
(cd "$out" && sha256sum -- * > "$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
ls "$out"
