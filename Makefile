# SPDX-License-Identifier: GPL-2.0
# make            the product: build/zerneld (static), with build/zernel as a link to it
# make run        sets up what is missing, builds, starts the daemon: live where possible, else simulated
# make check      sets up, builds, and runs every test; the last line is "N passed, N failed"
# make bench      measures and writes docs/BENCHMARKS.md; PARTS='call memory' measures and writes those parts alone
# make soak       a simulated day, 30 minutes of coming and going, and writes docs/SOAK.md; SOAK_MINUTES=3 is shorter
# make fuzz       a minute of each fuzz target
# make docs       docs/METRICS.md from the metric table       make dist   archives, a Debian package, checksums
# make install    DESTDIR and PREFIX are honoured, by make dist DIST            make clean
# make tidy       clang-tidy                             make lint   ESLint, on the page
# make structure  which folder calls which, names: docs/DESIGN.md
# make compile_commands.json   for editors                    make help     this list
# V=1 shows the commands, SAN=1 builds with ASan and UBSan into a folder of its own.

PREFIX  ?= /usr/local
CC      := gcc
CLANG   ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
STRIP   ?= strip
OBJCOPY ?= objcopy
VERSION := $(shell cat VERSION)
COMMIT  := $(shell git describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)
MACHINE := $(shell uname -m)

B := build$(if $(SAN),-san)
Q := $(if $(V),,@)

WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla $(if $(CI),-Werror)
CFLAGS  ?= -O2 -g
CFLAGS  += -std=gnu11 -D_GNU_SOURCE $(WARN) -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -I$(B) -I.
LDFLAGS += -Wl,--gc-sections
# of the daemon: the kernel's types are read once, see objects.c
WRAP := -Wl,--wrap=btf__load_vmlinux_btf,--wrap=btf__free
ifdef SAN
CFLAGS  += -fsanitize=address,undefined -fno-omit-frame-pointer
else
LDFLAGS += -static
endif
LIBS := -lbpf -lelf -lz -lpthread -lm

ARCH_x86_64  := x86
ARCH_aarch64 := arm64
BPF_CFLAGS := -g -O2 -mcpu=v3 -target bpf -D__TARGET_ARCH_$(ARCH_$(MACHINE)) -I/usr/include/$(MACHINE)-linux-gnu \
	-Wall -Wextra -Wno-unused-function $(if $(CI),-Werror)

FAMILIES := proc job gpu_mem cuda_trace nccl sched net vfs mappers stacks requests
OLD      := proc job vfs # these also for kernels whose BPF has no atomic operations that return a value
SRC      := $(sort $(wildcard *.c) $(wildcard src/*/*.c))
# what runs rarely lies together, beside the libraries that run at the start, so that it need not be in memory
RARE     := $(filter src/cli/% src/sim/% src/base/options% src/probe/calibrate% src/probe/objects% \
	src/daemon/announce% src/daemon/check% src/daemon/confine% src/daemon/diagnose%,$(SRC))
ORDERED  := $(filter-out $(RARE),$(SRC)) $(RARE)
OBJ      := $(patsubst %.c,$(B)/obj/%.o,$(ORDERED:src/%=%)) $(B)/page.o $(B)/bpf.o
vpath %.c src

all: $(B)/zerneld $(B)/zernel $(B)/zernel-gpu

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: FORCE lint tidy all help structure run check check-slurm check-otlp check-slow bench soak fuzz docs dist install clean setup format format-check tests tools unit

$(B):
	$(Q)mkdir -p $@

$(B)/%.bpf.o: bpf/%.bpf.c bpf/slim.sh | $(B)
	@echo "  BPF     $<"
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MT $@ -c $< -o $(@:.o=.full.o)
	$(Q)BPFTOOL=$(BPFTOOL) bpf/slim.sh $(@:.o=.full.o) $@
$(B)/%_old.bpf.o: bpf/%.bpf.c bpf/slim.sh | $(B)
	@echo "  BPF     $< (old)"
	$(Q)$(CLANG) $(BPF_CFLAGS) -DZN_NO_FETCH -MMD -MP -MT $@ -c $< -o $(@:.o=.full.o)
	$(Q)BPFTOOL=$(BPFTOOL) bpf/slim.sh $(@:.o=.full.o) $@

$(B)/bpf.c: bpf/embed.sh $(FAMILIES:%=$(B)/%.bpf.o) $(OLD:%=$(B)/%_old.bpf.o)
	@echo "  EMBED   $@"
	$(Q)bpf/embed.sh $(filter %.o,$^) > $@
$(B)/bpf.o: $(B)/bpf.c
	$(Q)$(CC) $(CFLAGS) -DZN_IN_probe -MMD -MP -c $< -o $@

$(B)/obj/base/version.o: CFLAGS += -DZN_VERSION='"$(VERSION)"' -DZN_COMMIT='"$(COMMIT)"'
$(B)/obj/base/version.o: $(B)/version
# what runs once, or when a person asks, is made small; what runs on each tick or scrape is made fast
SMALL := alert/% worker/% sim/% serve/% cli/% daemon/% base/options base/options_read base/token codec/http_client codec/dns \
	model/xid model/slowness model/failed model/rdma job/message output/report output/report_text output/notify output/export \
	output/requests_json output/failed_json output/metrics_failed output/why output/ghosts_json output/sampled_json \
	output/report_gaps output/report_cells output/report_line output/flight output/rates_json probe/calibrate probe/nodes \
	codec/ras codec/dcgm model/oom model/ports job/ghosts probe/kernel probe/objects probe/hooks probe/attach probe/judge \
	probe/libraries probe/services probe/entry job/suspicion job/cgroup job/lifecycle job/usage model/mounts \
	model/budget output/lines output/metrics_hardware
$(SMALL:%=$(B)/obj/%.o): CFLAGS += -Os
$(B)/version: FORCE | $(B)
	$(Q)echo '$(VERSION) $(COMMIT)' | cmp -s - $@ || echo '$(VERSION) $(COMMIT)' > $@
FORCE:

# what zernel.h keeps for the files of one folder: ZN_IN_probe for src/probe/, ZN_IN_codec for the files at the top
all_inside := $(patsubst src/%,-DZN_IN_%,$(wildcard src/*)) # for tools
inside = -DZN_IN_$(or $(patsubst src/%/,%,$(filter src/%/,$(dir $<))),$(if $(filter zerneld.c,$<),main,codec))

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(CFLAGS) $(inside) -MMD -MP -c $< -o $@

$(B)/page.c: web/embed.sh web/page.html web/page.css $(wildcard web/page/*.js) | $(B)
	@echo "  PAGE    $@"
	$(Q)web/embed.sh > $@
$(B)/page.o: $(B)/page.c
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

# Libraries without tables for unwinding, which nobody reads: some 40 KB of the binary. Those that the compiler does not
# find, but the linker, are taken as they are.
define lean
LEAN += $(B)/lib$(1).a
$(B)/lib$(1).a: $(2) | $(B)
	$$(Q)$$(OBJCOPY) -R .eh_frame -R .rela.eh_frame $$< $$@
endef
found = $(wildcard $(shell $(CC) -print-file-name=lib$(1).a))
$(if $(SAN),,$(foreach l,bpf elf z,$(foreach f,$(call found,$l),$(eval $(call lean,$l,$f)))))

$(B)/zerneld.debug: $(OBJ) $(LEAN)
	@echo "  LINK    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(WRAP) $(OBJ) -L$(B) -o $@ $(LIBS)

$(B)/zerneld: $(B)/zerneld.debug
	$(Q)$(STRIP) -o $@ $<

$(B)/zernel: $(B)/zerneld
	$(Q)ln -sf zerneld $@

# The companion that asks NVIDIA's library: dynamic, as it must load that. It has nothing of the daemon, nor the daemon of it.
GPU_CFLAGS := -O2 -g -std=gnu11 -D_GNU_SOURCE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 $(WARN) -fPIE -fstack-protector-strong
$(B)/zernel-gpu: $(wildcard contrib/gpu/*.c) $(wildcard contrib/gpu/*.h) $(B)/version
	@echo "  LINK    $@"
	$(Q)$(CC) $(GPU_CFLAGS) -DZN_VERSION='"$(VERSION) $(COMMIT)"' $(filter %.c,$^) -s -pie -Wl,-z,relro,-z,now -o $@ -ldl

# ---- tests ----

# libzernel.a: every source but zerneld.c, compiled once for each kind of program that is linked with it:
# build/test for unit tests, build/fuzz for fuzz targets, build/bench for what is measured or linked statically.
T := build/test
SANITIZE     := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
PLAIN_CFLAGS := -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -I.
TEST_CFLAGS  := -O1 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $(SANITIZE) -I. -Itests
FUZZ_CFLAGS  := -O1 -g -std=gnu11 -D_GNU_SOURCE $(SANITIZE) -I.
DEPS          = -MMD -MP -MF $@.d -MT $@

# archive FOLDER,COMPILER AND FLAGS
define archive
$(1)/obj/%.o: %.c
	@mkdir -p $$(@D)
	@echo "  CC      $$@"
	$(Q)$(2) $$(inside) $$(DEPS) -c $$< -o $$@
$(1)/libzernel.a: $(patsubst %.c,$(1)/obj/%.o,$(filter-out zerneld.c,$(SRC:src/%=%)))
	@echo "  AR      $$@"
	$(Q)rm -f $$@ && ar qcs $$@ $$^
endef
$(eval $(call archive,build/test,$(CC) $(TEST_CFLAGS)))
$(eval $(call archive,build/fuzz,$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link))
$(eval $(call archive,build/bench,$(CC) $(PLAIN_CFLAGS)))

# A unit test is linked with the archive. What it defines itself is not taken from there, if it defines all that is used of
# that file. Further options stand in its second line: /* link: OPTIONS */
UNIT_SRC := $(wildcard tests/unit/*/*_test.c)
UNIT     := $(sort $(patsubst %.c,$(T)/%,$(notdir $(UNIT_SRC))))
$(if $(filter-out $(words $(UNIT)),$(words $(UNIT_SRC))),$(error two unit tests have the same name))
vpath %_test.c $(sort $(dir $(UNIT_SRC)))
$(T)/%_test: %_test.c $(T)/libzernel.a
	@echo "  TEST CC $<"
	$(Q)$(CC) $(TEST_CFLAGS) -DZN_IN_$(notdir $(patsubst %/,%,$(dir $<))) $(DEPS) $< -o $@ $$(sed -n '2s,^/\* link: \(.*\) \*/$$,\1,p' $<) $(T)/libzernel.a -Wl,--as-needed $(LIBS)
# hours of simulated time: nothing is checked but what it says
$(T)/scenario_test: build/bench/libzernel.a
$(T)/ws_cases_test: | $(T)/ws_echo

# Functions of it begin with a push, as those with a frame pointer do. Drivers 525 to 550 begin otherwise: see the forms below.
FAKE_CFLAGS := -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -fPIC -fno-omit-frame-pointer -fno-optimize-sibling-calls -fno-ipa-icf -Itests/fake
FAKE_CUDA := tests/fake/cuda.c tests/fake/api.h tests/fake/entries.h
$(T)/libcuda.so.1: $(FAKE_CUDA)
	@mkdir -p $(T)
	$(Q)$(CC) $(FAKE_CFLAGS) -shared -Wl,-soname,libcuda.so.1 $< -o $@ -lpthread
# what else functions may begin with: a landing pad (endbr64, bti), by the compiler; and by hand, see tests/fake/entries.h
PADS  := $(if $(filter x86_64,$(MACHINE)),-fcf-protection=branch,-mbranch-protection=bti)
FORMS := thunk pad_thunk $(if $(filter x86_64,$(MACHINE)),frame sub flags loop long_nop)
$(T)/entry/pads/libcuda.so.1: $(FAKE_CUDA)
	@mkdir -p $(@D)
	$(Q)$(CC) $(FAKE_CFLAGS) $(PADS) -shared -Wl,-soname,libcuda.so.1 $< -o $@ -lpthread
$(T)/entry/pads/libnccl.so.2: tests/fake/nccl.c tests/fake/api.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(FAKE_CFLAGS) $(PADS) -shared -Wl,-soname,libnccl.so.2 $< -o $@ -lpthread
$(T)/entry/%/libcuda.so.1: $(FAKE_CUDA)
	@mkdir -p $(@D)
	$(Q)$(CC) $(FAKE_CFLAGS) -DFAKE_ENTRY_$* -shared -Wl,-soname,libcuda.so.1 $< -o $@ -lpthread
ENTRIES := $(T)/entry/pads/libnccl.so.2 $(patsubst %,$(T)/entry/%/libcuda.so.1,pads $(FORMS))
$(T)/libnccl.so.2: tests/fake/nccl.c tests/fake/api.h
	@mkdir -p $(T)
	$(Q)$(CC) $(FAKE_CFLAGS) -shared -Wl,-soname,libnccl.so.2 $< -o $@ -lpthread
$(T)/libamdhip64.so.6: tests/fake/hip.c
	@mkdir -p $(T)
	$(Q)$(CC) $(FAKE_CFLAGS) -shared -Wl,-soname,libamdhip64.so.6 $< -o $@ -lpthread
# NVML, and the same as a driver of 2018 has it
$(T)/libnvidia-ml.so.1: tests/fake/nvml.c
	@mkdir -p $(T)
	$(Q)$(CC) $(FAKE_CFLAGS) -shared -Wl,-soname,libnvidia-ml.so.1 $< -o $@
$(T)/nvml-old/libnvidia-ml.so.1: tests/fake/nvml.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(FAKE_CFLAGS) -DFAKE_OLD -shared -Wl,-soname,libnvidia-ml.so.1 $< -o $@
$(T)/burst: tests/fake/burst.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@ -ldl -lpthread
$(T)/forks: tests/fake/forks.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@
# without frame pointers, and without debug information
$(T)/nest: tests/fake/nest.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -std=gnu11 -D_GNU_SOURCE $(WARN) -fomit-frame-pointer -fPIE -pie $< -o $@ -ldl -lpthread
$(T)/libnest.so: tests/fake/nest.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -std=gnu11 -D_GNU_SOURCE $(WARN) -fomit-frame-pointer -fPIC -shared -s $< -o $@ -ldl -lpthread
$(T)/driver: $(wildcard tests/fake/driver*.c) tests/fake/driver.h tests/fake/api.h
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -Itests/fake $(filter %.c,$^) -o $@ -ldl -lpthread -lm

$(T)/caller: tests/real/caller.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@ -ldl

$(T)/waiter: tests/fake/waiter.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@ -ldl -lpthread

$(T)/load: tests/load/load.c tests/bench/bench.h
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@

$(T)/json_write $(T)/otlp_dump: $(T)/%: tests/%.c $(T)/libzernel.a
	$(Q)$(CC) $(TEST_CFLAGS) $(DEPS) $< -o $@ $(T)/libzernel.a -lpthread -lm

$(T)/matrix: $(wildcard tests/io/matrix*.c) tests/io/matrix.h zernel.h
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -I. -static $(filter %.c,$^) -o $@ -lpthread

# for conformance suites: make build/test/ws_echo
$(T)/ws_echo: tests/ws_echo.c build/bench/libzernel.a
	@mkdir -p $(T)
	$(Q)$(CC) $(PLAIN_CFLAGS) $(DEPS) $< -o $@ build/bench/libzernel.a -lm

# The daemon with every allocator call of the whole static program wrapped, libc's own calls included.
$(T)/zerneld-alloc: $(OBJ) tests/alloc_wrap.c
	@mkdir -p $(T)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(WRAP) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=memalign $^ -o $@ $(LIBS)

# The daemon whose clock jumps to the next timer in place of sleeping.
$(T)/zerneld-fast: $(OBJ) tests/soak/fast_clock.c
	@mkdir -p $(T)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(WRAP) -Wl,--wrap=clock_gettime,--wrap=timerfd_settime,--wrap=epoll_wait $^ -o $@ $(LIBS)

# tools: what tests use beside the product; unit: what is linked with the archive of build/test, see tests/run.sh
tools: all build/bench/libzernel.a $(T)/libcuda.so.1 $(ENTRIES) $(T)/libnccl.so.2 $(T)/libamdhip64.so.6 $(T)/libnvidia-ml.so.1 $(T)/nvml-old/libnvidia-ml.so.1 $(T)/driver $(T)/caller $(T)/waiter $(T)/burst $(T)/forks $(T)/nest $(T)/libnest.so $(T)/matrix $(T)/load $(T)/ws_echo $(T)/zerneld-alloc
unit: $(UNIT) $(T)/json_write $(T)/otlp_dump
tests: tools unit

setup:
	@tests/setup.sh build

check: setup
	@tests/setup.sh check & packages=$$!; $(MAKE) --no-print-directory tools && wait $$packages
	@tests/run.sh

# a real Slurm on this machine, and what reports say of its jobs (part of check); as root
check-slurm:
	@tests/setup.sh check
	@$(MAKE) --no-print-directory all $(T)/libcuda.so.1 $(T)/libnccl.so.2 $(T)/driver
	@/usr/bin/python3 tests/slurm/run.py

# what VictoriaMetrics, of Debian's sid, stores of a push (fetched under build/; part of check)
check-otlp: all
	@/usr/bin/python3 tests/otlp/run.py

# services that become slow, each for its own reason, after they were as usual for minutes (by hand: four of them)
check-slow:
	@tests/setup.sh check
	@$(MAKE) --no-print-directory all $(T)/libcuda.so.1 $(T)/libnccl.so.2 $(T)/libamdhip64.so.6 $(T)/driver
	@/usr/bin/python3 tests/soak/slow.py services_that_become_slow

run: setup
	@$(MAKE) --no-print-directory all
	@tests/run-daemon.sh $(B)/zerneld

bench:
	@tests/setup.sh bench
	@$(MAKE) --no-print-directory tests bench-tools
	@python3 tests/bench/bench.py docs/BENCHMARKS.md $(PARTS)

SOAK_MINUTES ?= 30
soak:
	@tests/setup.sh check
	@$(MAKE) --no-print-directory all $(T)/libcuda.so.1 $(T)/libnccl.so.2 $(T)/driver $(T)/zerneld-fast
	@/usr/bin/python3 tests/soak/run.py $(SOAK_MINUTES) docs/SOAK.md

BENCH := calls attach_floor launch mapping crowd storm record scrape render requests tick groups fanout fleet growth attach_empty
.PHONY: bench-tools
bench-tools: $(BENCH:%=build/bench/%) $(patsubst tests/%.c,build/%.o,$(wildcard tests/bench/*.bpf.c))
	@cd tests/bench && python3 -B -c 'import bench'
build/bench/%: tests/bench/%.c build/bench/libzernel.a
	@mkdir -p build/bench
	$(Q)$(CC) $(PLAIN_CFLAGS) $(DEPS) $(BENCH_FLAGS) $< -o $@ build/bench/libzernel.a -Wl,--as-needed $(LIBS) -ldl -lpthread -lm
build/bench/crowd: BENCH_FLAGS := -static
build/bench/%.bpf.o: tests/bench/%.bpf.c
	@mkdir -p build/bench
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

# Other kernels, in virtual machines (tests/vm): hooks, file I/O and NFS, Slurm with control groups of version 2, and the Debian
# package under systemd; 5.10, 6.18 and newest are known too. IMAGES=io runs one of guest, io, slurm, package, and by hand
# rdma (soft RoCE: calls that fail) and cost (instructions of a system call).
KERNELS ?= 6.1 6.12
$(T)/guest_check: tests/vm/guest_check.c build/bench/libzernel.a
	@mkdir -p $(T)
	$(Q)$(CC) $(PLAIN_CFLAGS) $(DEPS) -static $< -o $@ build/bench/libzernel.a -lm
.PHONY: check-vm
check-vm:
	@tests/setup.sh check
	@$(MAKE) --no-print-directory all $(T)/guest_check $(T)/matrix $(T)/libcuda.so.1 $(T)/entry/thunk/libcuda.so.1 $(T)/libnccl.so.2 $(T)/libnvidia-ml.so.1 $(T)/driver \
		$(if $(filter cost,$(IMAGES)),bench-tools) $(if $(filter package,$(or $(IMAGES),package)),dist)
	@tests/vm/run.sh build $(KERNELS)

# ---- fuzzing ----

FUZZ := $(sort $(patsubst tests/fuzz/%_fuzz.c,%,$(wildcard tests/fuzz/*_fuzz.c)))
FUZZ_SECONDS ?= 60
$(T)/%_fuzz: tests/fuzz/%_fuzz.c build/fuzz/libzernel.a
	@mkdir -p $(T)
	$(Q)$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer $(DEPS) $< -o $@ build/fuzz/libzernel.a -lz -lm
fuzz:
	@tests/setup.sh check
	@$(MAKE) --no-print-directory $(FUZZ:%=$(T)/%_fuzz)
	@mkdir -p $(FUZZ:%=$(T)/corpus/%)
	@printf '%s\n' $(FUZZ) | xargs -P $(shell nproc) -I {} sh -c 'echo "fuzz {}: $(FUZZ_SECONDS) s"; \
		$(T)/{}_fuzz -max_total_time=$(FUZZ_SECONDS) -verbosity=0 -artifact_prefix=$(T)/ $(T)/corpus/{} tests/fuzz/corpus/{} || exit 255'

# ---- the rest ----

docs: $(B)/zerneld
	$(Q)$(B)/zerneld --docs > docs/METRICS.md

format:
	$(Q)clang-format -i $(shell git ls-files '*.c' '*.h')
tidy: # a short list of checks, in .clang-tidy
	$(Q)clang-tidy --quiet $(SRC) -- -std=gnu11 -D_GNU_SOURCE $(all_inside) -I. -DZN_VERSION='""' -DZN_COMMIT='""' 2> /dev/null
lint: # the page's modules
	$(Q)tests/web/node_modules/.bin/eslint --config tests/web/eslint.config.mjs web/page 'tests/web/*.mjs'
format-check:
	$(Q)clang-format --dry-run -Werror $(shell git ls-files '*.c' '*.h')
	$(Q)tests/columns.py

structure: all
	$(Q)tests/structure.sh $(B)/obj

help:
	@sed -n '/^# make  /,/^# V=1/s/^# //p' Makefile

# how each file is compiled, for clangd and other tools
compile_commands.json: FORCE
	$(Q)entry() { printf '%s\n{"directory": "$(CURDIR)", "file": "%s", "command": "%s -c %s"}' "$$comma" "$$1" "$$2" "$$1"; comma=,; }; \
	entries() { flags=$$1; shift; for file; do entry "$$file" "$$flags"; done; }; comma=; \
	{ printf '['; \
	  entries '$(CC) $(PLAIN_CFLAGS) $(all_inside) -Itests' $(SRC) $(UNIT_SRC) $(wildcard tests/fuzz/*.c); \
	  entries '$(CLANG) $(BPF_CFLAGS)' $(wildcard bpf/*.bpf.c); printf '\n]\n'; } > $@

DIST ?= $(B)/dist
dist: all
	$(Q)+contrib/dist.sh $(B) $(DIST) $(VERSION) $(COMMIT)

install: all
	install -D -m 0755 $(B)/zerneld $(DESTDIR)$(PREFIX)/sbin/zerneld
	install -d $(DESTDIR)$(PREFIX)/bin
	ln -sf ../sbin/zerneld $(DESTDIR)$(PREFIX)/bin/zernel
	install -d $(DESTDIR)$(PREFIX)/share/man/man8 $(DESTDIR)$(PREFIX)/share/man/man1
	gzip -9nc docs/man/zerneld.8 > $(DESTDIR)$(PREFIX)/share/man/man8/zerneld.8.gz
	gzip -9nc docs/man/zernel.1 > $(DESTDIR)$(PREFIX)/share/man/man1/zernel.1.gz

clean:
	$(Q)rm -rf build build-san

-include $(OBJ:.o=.d) $(wildcard $(B)/*.bpf.full.d build/*/*.d build/*/obj/*.d build/*/obj/*/*.d)
