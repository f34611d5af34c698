#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""--simulate-scenario: each makes alerts fire and be resolved, and no others. With the built-in rules, their times cut
short; with those as they are, and idle-gpu, which needs a minute to be sure, see scenario_test.c."""
import os
import re

from harness import ZERNEL, ZERNELD, Daemon, check, equal, folder, main, run, test_simulated, wait_until

SCENARIOS = {
    "memory-leak": {"gpu_memory_growing", "gpu_oom_warning", "gpu_allocation_failed"},
    "starvation": {"data_starvation", "stalled_on_data"},
    "straggler": {"nccl_straggler"},
    "contention": {"driver_contention"},
    "retransmits": {"tcp_retransmits"},
    "overhead": {"probe_overhead"},
    "losses": {"events_lost"},
    "oom": {"oom_kill"},
    "xid": {"gpu_xid", "cuda_context_lost"},
    "amdgpu": {"gpu_amdgpu"},
    "link": {"gpu_hardware_errors"},
    "lost": {"gpu_lost"},
    "healthy": set(),
}
CYCLE_S = 20
HOUR = 3600


def short_rules(names):
    """A file of these built-in rules, with all that they wait for cut to seconds."""
    blocks = run([ZERNEL, "alerts", "defaults"]).stdout.split("\n\n")
    rules = "\n\n".join(b.strip() for b in blocks if b.split()[1] in names) + "\n"
    equal(rules.count("alert "), len(names), "rules by these names")
    for pattern, to in ((r"\[\d+[sm]\]", "[4s]"), (r"(?m)^  (for|keep_firing_for) .*", r"  \1 1s")):
        rules = re.sub(pattern, to, rules)
    path = f"{folder()}/short.{len(os.listdir(folder()))}"
    with open(path, "w") as file:
        file.write(rules)
    return path


def simulating(scenario, *options, expect=()):
    """A daemon whose fault is there for CYCLE_S / 2 at a time, and is told of within seconds."""
    alerts = SCENARIOS[scenario]
    return Daemon("--simulate", "--simulate-scenario", scenario, "--simulate-cycle-s", str(CYCLE_S),
                  "--push-interval-ms", "250",
                  "--alerts", short_rules(alerts), *options, expect=[*(f"alert {a}.* fires" for a in alerts), *expect])


def said(daemon, what):
    return {m.group(1) for line in daemon.lines() if (m := re.search(rf"alert (\w+).* {what}", line))}


@test_simulated
def each_scenario_fires_its_alerts_and_resolves_them():
    daemons = {s: simulating(s) for s in SCENARIOS}
    for scenario, alerts in SCENARIOS.items():
        wait_until(lambda: alerts <= said(daemons[scenario], "resolved after"), f"the end of {alerts} of {scenario}",
            80)
    for scenario, alerts in SCENARIOS.items():
        equal(said(daemons[scenario], "fires at"), alerts, f"alerts of {scenario}")
        metrics = daemons[scenario].metrics()
        equal(set(metrics.lost()), {"series"} if scenario == "losses" else set(), f"losses in {scenario}")


@test_simulated
def a_scenario_begins_well():
    daemon = Daemon("--simulate", "--simulate-scenario", "overhead", "--simulate-cycle-s", str(HOUR))
    ratios = wait_until(lambda: daemon.metrics().all("zernel_overhead_ratio"), "what hooked calls cost")
    equal(len(ratios), 8, "ranks")
    wait_until(lambda: all(0 < v < 0.01 for v in daemon.metrics().all("zernel_overhead_ratio").values()), "low costs")
    equal(daemon.json("/alerts")["alerts"], [], "alerts")


@test_simulated
def a_bad_scenario_is_one_line():
    got = run([ZERNELD, "--simulate", "--simulate-scenario", "leak"])
    equal(got.returncode, 2, "exit status")
    check("'leak' is not a scenario; zerneld --help names them" in got.stderr and len(got.stderr.splitlines()) == 1,
        got.stderr)
    names = run([ZERNELD, "--help"]).stdout.partition("Scenarios: ")[2].partition("\n\n")[0].split()
    check(set(SCENARIOS) <= set(names), f"scenarios: {names}")


if __name__ == "__main__":
    main()
