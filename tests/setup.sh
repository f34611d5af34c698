#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# setup.sh build|check|bench: sees to it that what a build, the tests, or the benchmarks need is installed. As root on
# Debian it installs what is missing with apt-get, without starting any service; else it names the packages and exits 1.
set -eu

# what is looked for (a command, or a file by its pattern), and the package that has it
build_needs="
/usr/include/stdlib.h            libc6-dev
clang                            clang
llvm-strip                       llvm
/usr/sbin/bpftool                bpftool
/usr/include/bpf/bpf.h           libbpf-dev
/usr/include/libelf.h            libelf-dev
/usr/include/zlib.h              zlib1g-dev
"
check_needs="
/usr/bin/python3                                    python3
/usr/lib/python3/dist-packages/torch                python3-torch
/usr/lib/python3/dist-packages/websockets           python3-websockets
/usr/lib/python3/dist-packages/prometheus_client    python3-prometheus-client
/usr/lib/python3/dist-packages/google/protobuf      python3-protobuf
protoc                                              protobuf-compiler
/usr/include/google/protobuf/timestamp.proto        libprotobuf-dev
/usr/share/gocode/src/github.com/prometheus/client_model  golang-github-prometheus-client-model-dev
/usr/lib/python3/dist-packages/uvicorn              python3-uvicorn
/usr/lib/python3/dist-packages/httptools            python3-httptools
/usr/lib/python3/dist-packages/uvloop               python3-uvloop
/usr/lib/python3/dist-packages/aiohttp              python3-aiohttp
/usr/lib/python3/dist-packages/hypercorn            python3-hypercorn
/usr/lib/python3/dist-packages/zmq                  python3-zmq
/usr/lib/python3/dist-packages/grpc                 python3-grpcio
go                                                  golang-go
promtool                                            prometheus
prometheus                                          prometheus
prometheus-alertmanager                             prometheus-alertmanager
curl                                                curl
jq                                                  jq
node                                                nodejs
npm                                                 npm
chromium-headless-shell                             chromium-headless-shell
git                                                 git
file                                                file
script                                              bsdutils
unshare                                             util-linux
strace                                              strace
fio                                                 fio
rdma                                                iproute2
/usr/sbin/mkfs.ext4                                 e2fsprogs
/usr/sbin/mkfs.btrfs                                btrfs-progs
qemu-system-x86_64                                  qemu-system-x86
busybox                                             busybox-static
cpio                                                cpio
/usr/sbin/depmod                                    kmod
xz                                                  xz-utils
zstd                                                zstd
openssl                                             openssl
/usr/sbin/nginx                                     nginx-light
clang-format                                        clang-format
clang-tidy                                          clang-tidy
shellcheck                                          shellcheck
systemd-analyze                                     systemd
lintian                                             lintian
/usr/sbin/slurmctld                                 slurmctld
/usr/sbin/slurmd                                    slurmd
/usr/sbin/slurmdbd                                  slurmdbd
/usr/sbin/mariadbd                                  mariadb-server-core
/usr/bin/my_print_defaults                          mariadb-client-core
sbatch                                              slurm-client
/usr/lib/*/slurm-wlm/select_cons_tres.so            slurm-wlm-basic-plugins
/usr/sbin/munged                                    munge
/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a  libclang-rt-14-dev
"
bench_needs="
/usr/sbin/nginx             nginx-light
wrk                         wrk
/usr/sbin/bpftool           bpftool
prometheus-node-exporter    prometheus-node-exporter
bpftrace                    bpftrace
"

have() {
	case $1 in
	# the pattern must expand
	/*) set -- $1; [ -e "$1" ] ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

missing() {
	while read -r what package; do
		[ -z "$what" ] || have "$what" || echo "$package"
	done
}

refuse() {
	echo "setup: not installed: $1; install it as root: apt-get install --no-install-recommends $1" >&2
	exit 1
}

# Packages such as prometheus start a service when they are installed, unless this file forbids it.
policy=/usr/sbin/policy-rc.d
forbid_services() {
	[ ! -e $policy ] || return 0
	trap 'rm -f $policy' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
}

install_packages() {
	echo "setup: installing $*"
	forbid_services
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update
	apt-get -qq -y install --no-install-recommends "$@" >/dev/null
}

see_to_packages() {
	packages=$(echo "$1" | missing | sort -u | tr '\n' ' ' | sed 's/ $//')
	[ -n "$packages" ] || return 0
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || refuse "$packages"
	install_packages $packages
	packages=$(echo "$1" | missing | sort -u | tr '\n' ' ' | sed 's/ $//')
	[ -z "$packages" ] || refuse "$packages"
}

# What tests/web/package-lock.json names, by its checksums; what is there already is kept.
modules=tests/web/node_modules/.package-lock.json
see_to_modules() {
	cd "$(dirname "$0")/.."
	[ $modules -ot tests/web/package-lock.json ] || [ ! -e $modules ] || return 0
	echo "setup: installing the modules of tests/web"
	npm ci --prefix tests/web --no-audit --no-fund --silent || {
		echo "setup: npm ci --prefix tests/web failed" >&2
		exit 1
	}
}

case ${1:-} in
build)
	see_to_packages "$build_needs"
	;;
check)
	see_to_packages "$build_needs$check_needs"
	see_to_modules
	;;
bench)
	see_to_packages "$build_needs$check_needs$bench_needs"
	;;
*)
	echo "usage: setup.sh build|check|bench" >&2
	exit 2
	;;
esac
