# SPDX-License-Identifier: GPL-2.0
# make            the product: build/zerneld (static), with build/zernel as a link to it
# make run        sets up what is missing, builds, starts the daemon: live where possible, else simulated
# make check      sets up, builds, and runs every test; the last line is "N passed, N failed"
# make bench      measures and writes docs/BENCHMARKS.md; PARTS=memory measures that alone, and writes nothing
# make fuzz       a minute of each fuzz target
# make docs       docs/METRICS.md from the metric table       make dist   archives, a Debian package, checksums
# make install    DESTDIR and PREFIX are honoured             make clean
# V=1 shows the commands, SAN=1 builds with ASan and UBSan into a folder of its own.

PREFIX  ?= /usr/local
CC      := gcc
CLANG   ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
STRIP   ?= strip
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || cat VERSION 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
MACHINE := $(shell uname -m)

B := build$(if $(SAN),-san)
Q := $(if $(V),,@)

WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla $(if $(CI),-Werror)
CFLAGS  ?= -O2 -g
CFLAGS  += -std=gnu11 -D_GNU_SOURCE $(WARN) -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -I$(B) -I.
LDFLAGS += -Wl,--gc-sections
# of the daemon: the kernel's types are read once, see probe.c
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

FAMILIES := proc job gpu_mem cuda_trace nccl sched net vfs mappers
OLD      := proc job vfs # these also for kernels whose BPF has no atomic operations that return a value
SRC      := zerneld.c loop.c serve.c answer.c listen.c push.c gzip.c access.c http.c ws.c json.c log.c options.c agg.c proc.c alert.c rule.c rule_run.c metrics.c snapshot.c \
	history.c baseline.c filter.c view.c job.c report.c sheet.c probe.c cgroup.c find.c scan.c elf.c entry.c secure.c check.c sim.c client.c term.c watch.c status.c \
	message.c spool.c control.c jobctl.c alertctl.c child.c scribe.c kernel.c signals.c expo.c proto.c wait.c \
	courier.c sender.c fetch.c dns.c notify.c export.c otlp.c mount.c flow.c xid.c quota.c mappers.c libraries.c shadow.c
OBJ      := $(SRC:%.c=$(B)/%.o) $(B)/page.o $(B)/bpf.o

all: $(B)/zerneld $(B)/zernel

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all run check check-slurm check-otlp bench fuzz docs dist install clean setup format format-check tests

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
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(B)/zerneld.o: CFLAGS += -DZN_VERSION='"$(VERSION)"' -DZN_COMMIT='"$(COMMIT)"'
$(B)/zerneld.o: $(B)/version
# what runs once, or when a person asks, is made small
SMALL := check alertctl rule rule_run options report sheet spool message control jobctl client term watch status sim secure access courier sender fetch dns notify export xid
$(SMALL:%=$(B)/%.o): CFLAGS += -Os
$(B)/version: FORCE | $(B)
	$(Q)echo '$(VERSION) $(COMMIT)' | cmp -s - $@ || echo '$(VERSION) $(COMMIT)' > $@
FORCE:

$(B)/%.o: %.c | $(B)
	@echo "  CC      $<"
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(B)/page.c: web/embed.sh web/page.html web/page.css web/page.js | $(B)
	@echo "  PAGE    $@"
	$(Q)web/embed.sh > $@
$(B)/page.o: $(B)/page.c
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(B)/zerneld.debug: $(OBJ)
	@echo "  LINK    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(WRAP) $^ -o $@ $(LIBS)

$(B)/zerneld: $(B)/zerneld.debug
	$(Q)$(STRIP) -o $@ $<

$(B)/zernel: $(B)/zerneld
	$(Q)ln -sf zerneld $@

# ---- tests ----

UNIT := quota shadow scan check child rule log secure hist agg proc json http ws ws_cases elf entry access options alert sim serve push metrics gzip filter history snapshot message control job scribe cgroup report proto wait fetch dns sender notify mount flow signals baseline scenario xid
# what each unit test links besides itself; <name>_test_LIBS: further libraries and linker options
log_test_SRC     := log.c
shadow_test_SRC  := shadow.c
scan_test_SRC    := scan.c quota.c log.c
quota_test_SRC   := quota.c secure.c log.c
report_test_SRC  := flow.c mount.c loop.c report.c wait.c sheet.c job.c alert.c rule.c rule_run.c message.c view.c signals.c agg.c proc.c client.c term.c access.c http.c json.c
secure_test_SRC  := secure.c
child_test_SRC   := log.c
check_test_SRC   := check.c secure.c
fetch_test_SRC   := fetch.c http.c json.c
dns_test_SRC     := dns.c
sender_test_SRC  := sender.c fetch.c dns.c http.c json.c log.c
notify_test_SRC  := notify.c alert.c rule.c rule_run.c agg.c proc.c json.c
scribe_test_SRC  := scribe.c child.c secure.c log.c
hist_test_SRC    := agg.c proc.c json.c log.c
agg_test_SRC     := agg.c proc.c json.c log.c
proc_test_SRC    := proc.c json.c log.c
json_test_SRC    := json.c
http_test_SRC    := http.c json.c
ws_test_SRC      := ws.c http.c json.c
ws_cases_test_SRC := ws.c json.c
elf_test_SRC     := elf.c
entry_test_SRC   := entry.c
access_test_SRC  := access.c log.c json.c
options_test_SRC := options.c fetch.c http.c log.c json.c
rule_test_SRC    := rule.c rule_run.c agg.c proc.c json.c log.c
alert_test_SRC   := alert.c rule.c rule_run.c agg.c proc.c json.c log.c
sim_test_SRC     := xid.c flow.c mount.c loop.c sim.c job.c message.c alert.c rule.c rule_run.c agg.c proc.c json.c log.c
serve_test_SRC   := serve.c answer.c listen.c push.c gzip.c access.c filter.c loop.c http.c ws.c json.c log.c
push_test_SRC    := $(serve_test_SRC)
push_test_LIBS   := -lz
serve_test_LIBS  := -lz -Wl,--wrap=accept4
gzip_test_SRC    := gzip.c
proto_test_SRC   := proto.c json.c
xid_test_SRC     := xid.c log.c
xid_test_LIBS    := -Wl,--wrap=read
gzip_test_LIBS   := -lz
wait_test_SRC    := wait.c agg.c proc.c json.c
metrics_test_SRC := entry.c xid.c flow.c mount.c loop.c metrics.c baseline.c expo.c proto.c wait.c snapshot.c history.c view.c signals.c job.c report.c message.c alert.c rule.c rule_run.c sim.c agg.c proc.c json.c log.c
filter_test_SRC  := filter.c http.c json.c
message_test_SRC := message.c
control_test_SRC := control.c quota.c spool.c message.c json.c loop.c
baseline_test_SRC := baseline.c history.c wait.c agg.c proc.c json.c log.c
history_test_SRC := history.c agg.c proc.c json.c log.c
job_test_SRC     := job.c message.c alert.c rule.c rule_run.c agg.c proc.c json.c
cgroup_test_SRC  := cgroup.c agg.c proc.c json.c log.c
signals_test_SRC := signals.c agg.c proc.c json.c
snapshot_test_SRC := flow.c mount.c loop.c snapshot.c wait.c baseline.c history.c view.c signals.c alert.c rule.c rule_run.c agg.c proc.c json.c log.c

# what a page of simulated metrics takes
RENDER_SRC := entry.c xid.c flow.c mount.c loop.c metrics.c baseline.c history.c wait.c view.c signals.c job.c message.c alert.c rule.c rule_run.c sim.c agg.c proc.c json.c log.c

mount_test_SRC   := mount.c loop.c json.c log.c
# with a clock of its own in place of log.c; hours of simulated time, so nothing is checked but what it says
scenario_test_SRC = $(filter-out log.c,$(RENDER_SRC))
scenario_test_LIBS := -O2 -fno-sanitize=all
flow_test_SRC    := flow.c mount.c loop.c job.c alert.c rule.c rule_run.c message.c agg.c proc.c json.c

T := build/test
TEST_CFLAGS := -O1 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -fsanitize=address,undefined -fno-omit-frame-pointer -I.

define unit_rule
$(T)/$(1)_test: tests/$(1)_test.c $($(1)_test_SRC) zernel.h tests/t.h tests/clock.h
	@mkdir -p $(T)
	@echo "  TEST CC $$<"
	$(Q)$(CC) $(TEST_CFLAGS) $$(filter %.c,$$^) -o $$@ $$($(1)_test_LIBS) -lpthread -lm
endef
$(foreach u,$(UNIT),$(eval $(call unit_rule,$(u))))

# Functions of it begin with a push, as those with a frame pointer do. Drivers 525 to 550 begin otherwise: see the forms below.
FAKE_CFLAGS := -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -fPIC -fno-omit-frame-pointer -fno-optimize-sibling-calls -fno-ipa-icf -Itests/fake
FAKE_CUDA := tests/fake/cuda.c tests/fake/api.h tests/fake/entries.h
$(T)/libcuda.so.1: $(FAKE_CUDA)
	@mkdir -p $(T)
	$(Q)$(CC) $(FAKE_CFLAGS) -shared -Wl,-soname,libcuda.so.1 $< -o $@ -lpthread
# what else functions may begin with: a landing pad (endbr64, bti), by the compiler; and by hand, see tests/fake/entries.h
PADS  := $(if $(filter x86_64,$(MACHINE)),-fcf-protection=branch,-mbranch-protection=bti)
FORMS := $(if $(filter x86_64,$(MACHINE)),thunk pad_thunk frame sub flags loop long_nop)
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
$(T)/burst: tests/fake/burst.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@ -ldl -lpthread
$(T)/forks: tests/fake/forks.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@
$(T)/driver: tests/fake/driver.c tests/fake/api.h
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -Itests/fake $< -o $@ -ldl -lpthread -lm

$(T)/caller: tests/real/caller.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@ -ldl

$(T)/waiter: tests/fake/waiter.c
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@ -ldl -lpthread

$(T)/load: tests/load/load.c tests/bench/bench.h
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $< -o $@

$(T)/json_write: tests/json_write.c json.c zernel.h
	@mkdir -p $(T)
	$(Q)$(CC) $(TEST_CFLAGS) $(filter %.c,$^) -o $@ -lm

$(T)/otlp_dump: tests/otlp_dump.c otlp.c proto.c $(RENDER_SRC) zernel.h
	@mkdir -p $(T)
	$(Q)$(CC) $(TEST_CFLAGS) $(filter %.c,$^) -o $@ -lpthread -lm

$(T)/matrix: tests/io/matrix.c zernel.h
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -static $< -o $@ -lpthread

# for conformance suites: make build/test/ws_echo
$(T)/ws_cases_test: tests/ws_cases.h | $(T)/ws_echo
$(T)/ws_echo: tests/ws_echo.c ws.c http.c json.c loop.c zernel.h
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -I. $(filter %.c,$^) -o $@ -lm

# The daemon with every allocator call of the whole static program wrapped, libc's own calls included.
$(T)/zerneld-alloc: $(OBJ) tests/alloc_wrap.c
	@mkdir -p $(T)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(WRAP) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=memalign $^ -o $@ $(LIBS)

tests: all $(UNIT:%=$(T)/%_test) $(T)/libcuda.so.1 $(ENTRIES) $(T)/libnccl.so.2 $(T)/libamdhip64.so.6 $(T)/driver $(T)/caller $(T)/waiter $(T)/burst $(T)/forks $(T)/matrix $(T)/load $(T)/json_write $(T)/otlp_dump $(T)/ws_echo $(T)/zerneld-alloc

setup:
	@tests/setup.sh build

check:
	@tests/setup.sh check
	@$(MAKE) --no-print-directory tests
	@tests/run.sh

# a real Slurm on this machine, and what reports say of its jobs (part of check); as root
check-slurm:
	@tests/setup.sh check
	@$(MAKE) --no-print-directory all $(T)/libcuda.so.1 $(T)/libnccl.so.2 $(T)/driver
	@/usr/bin/python3 tests/slurm/run.py

# what VictoriaMetrics, of Debian's sid, stores of a push (fetched under build/; part of check)
check-otlp: all
	@/usr/bin/python3 tests/otlp/run.py

run: setup
	@$(MAKE) --no-print-directory all
	@tests/run-daemon.sh $(B)/zerneld

bench:
	@tests/setup.sh bench
	@$(MAKE) --no-print-directory tests bench-tools
	@python3 tests/bench/bench.py docs/BENCHMARKS.md $(PARTS)

BENCH := calls attach_floor launch mapping crowd record scrape render fanout fleet attach_empty
.PHONY: bench-tools
bench-tools: $(BENCH:%=build/bench/%) $(patsubst tests/%.c,build/%.o,$(wildcard tests/bench/*.bpf.c))
build/bench/%: tests/bench/%.c tests/bench/bench.h tests/fake/api.h zernel.h
	@mkdir -p build/bench
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -I. $(filter %.c,$^) -o $@ $(BENCH_LIBS) -ldl -lpthread -lm
build/bench/crowd: BENCH_LIBS := -static
build/bench/record: agg.c proc.c json.c log.c
build/bench/render: $(RENDER_SRC)
build/bench/attach_empty build/bench/launch: elf.c entry.c
build/bench/attach_empty build/bench/attach_floor: BENCH_LIBS := -lbpf -lelf -lz
build/bench/%.bpf.o: tests/bench/%.bpf.c
	@mkdir -p build/bench
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

# Other kernels, in virtual machines (tests/vm): hooks, file I/O and NFS, Slurm with control groups of version 2, and the Debian
# package under systemd; 5.10, 6.18 and newest are known too. IMAGES=io runs one of guest, io, slurm, package, cost
# (instructions of a system call; by hand).
KERNELS ?= 6.1 6.12
$(T)/guest_check: tests/vm/guest_check.c json.c zernel.h
	@mkdir -p $(T)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -static $(filter %.c,$^) -o $@ -lm
.PHONY: check-vm
check-vm:
	@tests/setup.sh check
	@$(MAKE) --no-print-directory all $(T)/guest_check $(T)/matrix $(T)/libcuda.so.1 $(T)/entry/thunk/libcuda.so.1 $(T)/libnccl.so.2 $(T)/driver \
		$(if $(filter cost,$(IMAGES)),bench-tools) $(if $(filter package,$(or $(IMAGES),package)),dist)
	@tests/vm/run.sh build $(KERNELS)

# ---- fuzzing ----

FUZZ := rule xid cgroup mount proto http handshake ws json elf entry filter message sheet response
FUZZ_SECONDS ?= 60
rule_fuzz_SRC := alert.c rule.c rule_run.c agg.c proc.c client.c access.c http.c json.c log.c
response_fuzz_SRC := http.c json.c
xid_fuzz_SRC := log.c
mount_fuzz_SRC := loop.c json.c log.c
sheet_fuzz_SRC := client.c term.c access.c log.c http.c json.c # what it links besides its own source
$(T)/%_fuzz: tests/fuzz/%_fuzz.c $(wildcard *.c) zernel.h
	@mkdir -p $(T)
	$(Q)$(CLANG) -O1 -g -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -I. $< $($*_fuzz_SRC) -o $@ -lm
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
format-check:
	$(Q)clang-format --dry-run -Werror $(shell git ls-files '*.c' '*.h')

dist: all
	$(Q)contrib/dist.sh $(B) $(VERSION)

install: all
	install -D -m 0755 $(B)/zerneld $(DESTDIR)$(PREFIX)/sbin/zerneld
	install -d $(DESTDIR)$(PREFIX)/bin
	ln -sf ../sbin/zerneld $(DESTDIR)$(PREFIX)/bin/zernel
	install -d $(DESTDIR)$(PREFIX)/share/man/man8 $(DESTDIR)$(PREFIX)/share/man/man1
	gzip -9nc docs/man/zerneld.8 > $(DESTDIR)$(PREFIX)/share/man/man8/zerneld.8.gz
	gzip -9nc docs/man/zernel.1 > $(DESTDIR)$(PREFIX)/share/man/man1/zernel.1.gz

clean:
	$(Q)rm -rf build build-san

-include $(OBJ:.o=.d) $(wildcard $(B)/*.bpf.full.d)
