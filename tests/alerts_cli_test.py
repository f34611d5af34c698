#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""`zernel alerts`: what it says of files of rules, and of saved pages of metrics.

Run as: python3 tests/alerts_cli_test.py PATH_TO_ZERNEL
"""
import os
import subprocess
import sys
import tempfile

PAGE = """# HELP zernel_build_info x
# TYPE zernel_build_info gauge
zernel_build_info{version="x",commit="y",source="live"} 1
zernel_gpu_memory_used_ratio{gpu_id="0"} 0.97
zernel_gpu_memory_used_ratio{gpu_id="a\\"b\\n"} 0.5
zernel_cuda_launches_total{pid="1",kind="kernel"} %d
zernel_cuda_launch_latency_seconds{pid="1",quantile="0.5"} 1e-05
zernel_cuda_launch_latency_seconds{pid="1",quantile="0.99"} 2e-05
zernel_cuda_launch_latency_seconds_sum{pid="1"} 3.5
zernel_cuda_launch_latency_seconds_count{pid="1"} 7
not a line {{{
zernel_gpu_memory_used_ratio{gpu_id="1
"""
RULES = """disable all
alert rate
  expr rate(zernel_cuda_launches_total[15s]) > 10
alert p99
  expr quantile(0.99, zernel_cuda_launch_latency_seconds) > 1s
alert mean
  expr zernel_cuda_launch_latency_seconds_sum / zernel_cuda_launch_latency_seconds_count == 0.5
alert full
  expr zernel_gpu_memory_used_ratio > 95%
  for 20s
"""
SHOWN = """rate (firing)
  firing   20           {pid="1",kind="kernel"}
p99 (inactive)
  inactive 2e-05        {pid="1"}
mean (firing)
  firing   0.5          {pid="1"}
full (%s)
  %-8s 0.97         {gpu_id="0"}
  inactive 0.5          {gpu_id="a\\x22b\\x0a"}
"""


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        def file(name, text):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            return path

        rules, bad, quiet = file("rules", RULES), file("bad", "alert x\n expr up > 1\n"), file("quiet", "disable all\n")
        one, two = file("one", PAGE % 1000), file("two", PAGE % 1300)
        foreign = file("foreign", "up 1\n")
        firing, pending = SHOWN % ("firing", "firing"), SHOWN % ("pending", "pending")
        cases = [
            (["check", rules], 0, f"{rules}: 4 rules are in use with this file\n", ""),
            (["check", bad], 2, "", f"{bad}:2:7: no metric 'up'; zerneld --list-metrics lists them\n"),
            (["check", folder + "/none"], 2, "", f"{folder}/none: cannot read the rules: No such file or directory\n"),
            (["test", rules, one, two], 1, pending, ""),
            (["test", rules, one, two, "--every", "15s"], 1, pending, ""),
            (["test", rules, file("zero", PAGE % 700), one, two], 1, firing, ""),
            (["test", quiet, one], 0, "", ""),
            (["test", rules, foreign], 2, "",
             f"zernel: alerts: {foreign} is no saved /metrics: zernel_build_info is not there\n"),
            (["test", rules, folder + "/none"], 2, "", f"zernel: alerts: {folder}/none: No such file or directory\n"),
        ]
        for words in (["test", rules], ["test"], ["check"], [], ["what"], ["test", rules, one, "--every", "0"],
                      ["test", rules, one, "--every"], ["test", rules, one, "--what"],
                      ["test", rules, one, "--overhead-budget", "7"]):
            cases.append((words, 2, "", None))
        for words, status, out, err in cases:
            r = subprocess.run([sys.argv[1], "alerts"] + words, capture_output=True, text=True, timeout=60, check=False)
            usage = err is None and r.stderr.startswith("zernel: alerts: ") and "\nusage: zernel alerts" in r.stderr
            if (r.returncode, r.stdout) == (status, out) and (usage or r.stderr == err):
                passed += 1
            else:
                failed += 1
                print(f"{words}: {r.returncode}\n{r.stdout}{r.stderr}", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
