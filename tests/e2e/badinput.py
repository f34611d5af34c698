#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Bad options, ports, files, privileges and kernels: one line that says what to do, the right exit status, and
nothing half-started.
"""
import os
import re
import socket

from harness import NOBODY, ZERNEL, ZERNELD, Daemon, check, copy_of, equal, folder, free_port, main, need, parse_json, \
    run, test, test_simulated, wait_until

AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
ANY_PORT = ["--metrics-port", "0", "--ws-port", "0"]


def refused(status, words, *options, argv=(ZERNELD,), **env):
    """It ends at once with this status and one line on stderr that has all the words."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ZERNEL_")}
    got = run([*argv, *options], env={**clean, **env})
    equal((got.returncode, got.stdout), (status, ""), f"status and output of {options} {env}: {got.stderr}")
    check(got.stderr.count("\n") == 1 and got.stderr.endswith("\n"), f"one line: {got.stderr!r}")
    check(got.stderr.startswith("zerneld: "), f"whose line it is: {got.stderr!r}")
    for word in words:
        check(word in got.stderr, f"{word!r} in {got.stderr!r}")


@test
def unknown_options():
    refused(2, ["--nonsense"], "--nonsense", "7")
    refused(2, ["--metrics-prt"], "--metrics-prt", "7")
    refused(2, ["-x"], "-x")


@test
def bad_values():
    refused(2, ["--metrics-port", "65536"], "--metrics-port", "65536")
    refused(2, ["--metrics-port", "9o91"], "--metrics-port", "9o91")
    refused(2, ["--ws-port", "-1"], "--ws-port", "-1")
    refused(2, ["--push-interval-ms", "1"], "--push-interval-ms", "1")
    refused(2, ["--probes", "gpus"], "--probes", "cuda,gpus")
    refused(2, ["--listen", "nowhere.example"], "--listen", "nowhere.example")
    refused(2, ["--overhead-budget", "much"], "--overhead-budget", "much")
    refused(2, ["--metrics-port"], "--metrics-port")


@test
def positional_arguments():
    refused(2, ["start"], "start")


@test
def bad_environment():
    refused(2, ["ZERNEL_METRICS_PORT", "x"], ZERNEL_METRICS_PORT="x")
    refused(2, ["ZERNEL_LOG", "loud"], ZERNEL_LOG="loud")


@test_simulated
def variables_of_kubernetes():
    """What it sets in a container for services that are named zernel-metrics and zernel-ws is no option."""
    Daemon("--simulate", env={"ZERNEL_METRICS_PORT": "tcp://10.96.0.17:9091", "ZERNEL_WS_PORT": "sctp://10.96.0.17:1"},
           expect=[f"ZERNEL_{name}_PORT: '.*' is a variable of a Kubernetes service, ignored" for name in ("METRICS", "WS")])


@test
def configuration_files():
    path = os.path.join(folder(), "zernel.conf")
    refused(2, [path], "--config", path)
    with open(path, "w") as f:
        f.write("# a comment\npush-interval-ms = 250\nmetrics-port = yes\n")
    refused(2, [path, "3", "metrics-port", "yes"], "--config", path)
    refused(2, [folder()], "--config", folder())
    os.chmod(path, 0)
    refused(2, [path, "denied"], "--config", path, argv=[*AS_NOBODY, copy_of(ZERNELD, "zerneld")])
    with open(path, "w") as f:
        f.write("push-interval-ms = 250\nsimulate = yes\n")
    daemon = Daemon("--config", path)
    equal((daemon.json()["interval_ms"], daemon.json()["source"]), (250, "simulated"), "what the file says")


def written(name, text):
    path = os.path.join(folder(), name)
    with open(path, "w") as f:
        f.write(text)
    return path


@test_simulated
def files_that_options_name():
    """The unit does not start the service again for these, as that would not help."""
    rules, token = written("rules", "alert x\n  expr nonsense >\n"), written("token", "short\n")
    refused(2, [rules], "--simulate", *ANY_PORT, "--alerts", rules)
    refused(2, ["/nowhere/rules"], "--simulate", *ANY_PORT, "--alerts", "/nowhere/rules")
    refused(2, [token], "--simulate", *ANY_PORT, "--token-file", token)
    refused(2, [token], "--simulate", *ANY_PORT, "--outbound-token-file", token, "--otlp", "http://127.0.0.1:1")
    refused(2, ["--dcgm"], *ANY_PORT, "--control", "none", "--report-dir", "none", "--dcgm", "http://nowhere.invalid")


@test
def ports_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused(1, [port, "in use", "--metrics-port"], "--metrics-port", port, "--ws-port", "0")
        refused(1, [port, "in use", "--ws-port"], "--metrics-port", "0", "--ws-port", port)
        refused(1, [port, "in use"], "--simulate", "--metrics-port", "0", "--ws-port", port)


@test
def no_permission():
    need("setpriv")
    binary = copy_of(ZERNELD, "zerneld")
    refused(1, ["root"], *ANY_PORT, argv=[*AS_NOBODY, binary])
    refused(1, ["1023"], "--simulate", "--metrics-port", "1023", "--ws-port", "0", argv=[*AS_NOBODY, binary])


@test
def no_btf():
    """A mount namespace in which the kernel has none."""
    script = 'mount -t tmpfs none /sys/kernel/btf && exec "$@"'
    refused(1, ["BTF", "/sys/kernel/btf/vmlinux"], *ANY_PORT, "--control", "none", "--report-dir", "none",
            argv=[need("unshare"), "--mount", "--propagation", "private", "sh", "-c", script, "sh", ZERNELD])


KINDS = ("prog", "map")


def bpf_objects(kind):
    """{id: name} of all on this machine."""
    got = run([need("bpftool"), "-j", kind, "show"])
    equal(got.returncode, 0, got.stderr)
    return {str(row["id"]): row.get("name", "") for row in parse_json(got.stdout)}


def names_of_ours():
    """What a daemon calls its programs and maps: those of other programs on this machine come and go."""
    daemon, ids = Daemon(), set()
    for _, _, said in daemon.descriptors():
        ids |= set(re.findall(r"(?m)^(prog|map)_id:\s*(\d+)", said))
    names = {kind: {name for number, name in bpf_objects(kind).items() if name and (kind, number) in ids}
        for kind in KINDS}
    daemon.end()
    return names


@test
def nothing_is_half_started():
    """After all these refusals no program or map is left that was not there before."""
    names = names_of_ours()

    def ours():
        return {(kind, number) for kind in KINDS for number, name in bpf_objects(kind).items() if name in names[kind]}
    before = ours()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port, other = str(taken.getsockname()[1]), free_port()
        refused(1, [port], "--metrics-port", str(other), "--ws-port", port)
        with socket.socket() as s:
            check(s.connect_ex(("127.0.0.1", other)) != 0, "nobody listens on the other port")
    refused(2, ["--probes"], *ANY_PORT, "--probes", "x")
    wait_until(lambda: not ours() - before, "nothing left of BPF")


@test
def what_only_tells_something():
    for option, words in (("--help", "--metrics-port"), ("--version", "zerneld "),
                          ("--list-metrics", "zernel_lost_total"),
                          ("--list-probes", "cuLaunchKernel")):
        got = run([ZERNELD, option])
        equal((got.returncode, got.stderr), (0, ""), option)
        check(words in got.stdout, f"{words!r} in {got.stdout!r}")


@test
def check_says_what_works():
    got = run([ZERNELD, "--check"])
    equal(got.returncode, 0, got.stderr)
    rest = [s for s in got.stderr.splitlines() if not s.startswith("zerneld: libraries: hooked")]
    equal(rest, [], "what it says besides the libraries that somebody uses now")
    for family in ("gpu_mem", "cuda_trace", "nccl"):
        check(any(line.split() == [family, "ok"] for line in got.stdout.splitlines()), f"{family} in {got.stdout}")
    got = run([*AS_NOBODY, copy_of(ZERNELD, "zerneld"), "--check"])
    equal(got.returncode, 1, "--check without permission")
    check("root" in got.stdout + got.stderr, f"says what helps: {got.stdout}{got.stderr}")


TABLES_MIB, TABLES_FULL_MIB = 30, 40  # of a node with so many CPUs, and when all are full


@test
def tables_stay_within_their_limit():
    for cpus in (128, 512):
        got = run([ZERNELD, "--check", "--table-cpus", str(cpus)])
        now, full = map(float, re.search(r"tables +([\d.]+) MiB in the kernel, ([\d.]+) when all are full", got.stdout).groups())
        check(now <= TABLES_MIB and full <= TABLES_FULL_MIB,
              f"{cpus} CPUs: {now} MiB of tables, {full} when all are full")


@test
def verbs_of_the_client():
    got = run([ZERNEL])
    equal((got.returncode, got.stdout), (2, ""), "no verb")
    got = run([ZERNEL, "dance"])
    equal((got.returncode, got.stdout), (2, ""), "an unknown one")
    check("dance" in got.stderr and "watch" in got.stderr, f"what there is: {got.stderr}")
    got = run([ZERNEL, "watch", "--nonsense"])
    equal((got.returncode, got.stdout), (2, ""), "an unknown option")
    got = run([ZERNEL, "watch", "ftp://x"])
    equal((got.returncode, got.stdout), (2, ""), "an address that is none")


if __name__ == "__main__":
    main()
