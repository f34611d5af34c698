#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# files.sh DIR: fetches vendors' real libraries from Debian, as DIR/NAME/LIBRARY for each row below, and what newer ones
# need beside them as DIR/NAME/lib/*. Nothing is installed, and nothing of it may be given on. What lies in DIR already
# is not fetched again. For each that the archive lacks it says one line, and goes on. amd64 only.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/apt.sh
. "$here/../apt.sh"

# name, library, suite, packages: the first has the library; what the others have, and that, is needed to run
newest_libc='libc6 libstdc++6 libgcc-s1'
hip='libamdhip64-5 libamd-comgr2 libhsa-runtime64-1 librocm-smi64-1 libhsakmt1 libnuma1 libdrm2 libdrm-amdgpu1 libelf1t64
	libllvm17t64 libzstd1 zlib1g'
rows=(
	"cuda-525 libcuda.so.1 bookworm libnvidia-tesla-cuda1"
	"cuda-535 libcuda.so.1 bookworm libcuda1"
	"cuda-550 libcuda.so.1 trixie libcuda1"
	"nvml-525 libnvidia-ml.so.1 bookworm libnvidia-tesla-ml1"
	"nvml-535 libnvidia-ml.so.1 bookworm libnvidia-ml1"
	"nvml-550 libnvidia-ml.so.1 trixie libnvidia-ml1"
	"nccl-2.22 libnccl.so.2 trixie libnccl2 $newest_libc"
	"nccl-2.29 libnccl.so.2 sid libnccl2 $newest_libc"
	"rccl-5.4 librccl.so.1 trixie librccl1 $hip $newest_libc"
	"hip-5.2 libamdhip64.so.5 bookworm libamdhip64-5 libamd-comgr2 libhsa-runtime64-1 libhsakmt1 libnuma1 libdrm2
		libdrm-amdgpu1 libelf1 libllvm15 libedit2 libbsd0 libmd0 libffi8 libtinfo6 libxml2 libicu72 liblzma5 libz3-4
		zlib1g libc6 libstdc++6 libgcc-s1"
	"hip-6.4 libamdhip64.so.6 sid libamdhip64-6 libamd-comgr3 libhsa-runtime64-1 libnuma1 libdrm2 libdrm-amdgpu1 libelf1t64
		libllvm21 libedit2 libbsd0 libmd0 libffi8 libtinfo6 libxml2-16 libz3-4 libzstd1 zlib1g $newest_libc"
)

# unpack NAME LIBRARY PACKAGE...: everything into a new folder, which gets its name when it is whole
unpack() {
	local name=$1 library=$2 new=$dir/apt/new deb
	shift 2
	rm -rf "$new"
	mkdir -p "$new/root" "$new/lib"
	(cd "$new" && own_apt apt-get download "$@") > "$dir/apt/said" 2>&1 || return 1
	for deb in "$new"/*.deb; do
		dpkg-deb -x "$deb" "$new/root"
		rm "$deb"
	done
	cp -L "$(find "$new/root" -name "$library" | head -n 1)" "$new/$library" || return 1
	[ $# -eq 1 ] || find "$new/root" ! -type d -name '*.so.*' ! -name '*.py' ! -name "$library*" -exec cp -nL {} "$new/lib" \;
	rm -rf "$new/root"
	mv "$new" "$to/$name"
}

to=$(mkdir -p "$1" && cd "$1" && pwd) || exit
exec 9> "$to.lock" # another one may fetch the same
flock 9
[ "$(dpkg --print-architecture)" = amd64 ] || { echo "absent: real libraries: they are amd64's"; exit; }
for row in "${rows[@]}"; do
	read -d '' -ra row <<< "$row"
	[ -d "$to/${row[0]}" ] && continue
	dir=$to/.${row[2]}
	[ -e "$dir/apt/list" ] || own_update "${row[2]}" main contrib non-free > /dev/null 2>&1 || rm -f "$dir/apt/list"
	unpack "${row[0]}" "${row[1]}" "${row[@]:3}" ||
		echo "absent: ${row[0]}: ${row[3]} of Debian's ${row[2]} cannot be fetched"
done
rm -rf "$to"/.[a-z]*
