#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A real Prometheus, with the files of contrib/prometheus as they are, scrapes a fleet of daemons that simulate: all
answer, sums over nodes are those that the test adds up itself, rates and every query of the dashboard return data.
Besides: the list of nodes that is made of Slurm's, promtool's tests of the rules, alerts that are equal to the built-in
ones, and the form of the dashboard. The last line is `N passed, N failed`.

Limits: needs no root; some 3 GiB of memory, and all addresses of 127.0.0.0/8, as Linux has them.
"""
import collections
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from harness import LINE, ZERNEL, ZERNELD, free_port, parse_labels

FILES = os.path.join(ROOT, "contrib/prometheus")
BOARDS = ("cluster", "job", "node")
BOARD = os.path.join(ROOT, "docs/grafana/zernel-{}.json")
CHOSEN = {"cluster": {"cluster", "partition", "account", "user"}, "node": {"cluster", "instance"},
          "job": {"cluster", "partition", "account", "user", "job_id", "instance"}}
NODES = [f"127.77.0.{i}" for i in range(1, 201)]
# what simulate.c has on each
GPUS, GPU_BYTES, RANKS, JOBS = 4, 80 << 30, 8, ("4711", "4712")
# a rule that fires at once, on every tenth node
ALERTING = NODES[::10]
RULE = "alert fleet_test\n  expr zernel_gpu_memory_used_ratio > 1%\n  severity info\n  summary GPU {{gpu_id}} is in use\n"
# what is compared between the nodes' own pages and Prometheus
COUNTERS = ("zernel_cuda_launches_total", "zernel_nccl_bytes_total", "zernel_io_read_bytes_total",
    "zernel_job_launches_total")
ENDS = NODES[-1]
# no simulation has these, or not within its first minutes
LATER = ("zernel_overhead_ratio", "zernel_nccl_issue_late_seconds_total", "zernel_anomaly_score",
    "zernel_job_rdma_errors_total", "zernel_process_blocked_seconds", "zernel_gpu_driver_stuck_seconds")
# only nodes of parts of their own have these: requests_of_a_server(), errors_of_a_node()
ELSEWHERE = ("zernel_request", "zernel_job_cuda_errors_total")
# what compares nodes, which is Prometheus' alone; and the records of it, which nodes without a communicator in common
# have not
OF_NODES = {"node_unreachable", "nccl_node_hang", "nccl_node_straggler"}
OF_PEERS = ("instance_job_id_comm:zernel_nccl_behind:max", "instance_job_id:zernel_job_waits_less:ratio")
# jobs of three nodes each: what is wrong on them; whom Prometheus names, and how. By one seed they have the same
# communicators
PEERS = {
    "127.78.1": (("node-hang-peer", "node-hang", "node-hang-peer"), {("nccl_node_hang", "127.78.1.2")}),
    "127.78.2": (("node-slow-peer", "node-slow-peer", "node-slow"), {("nccl_node_straggler", "127.78.2.3")}),
    "127.78.3": (("healthy", "healthy", "healthy"), set()),
}
PEERS_CYCLE_S = 220  # its second half is longer than the rules look back and wait until they are pending
PATIENCE = 300
SCRAPE_TIMEOUT = 10  # as Prometheus has it where nothing is said

passed = failed = 0


def check(name, good, said=""):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print(f"FAILED {name}: {str(said)[:2000]}")


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **more)


# ---- the list of nodes, from a sinfo that says what it is told to


def slurm_file_sd(place, said, *options, status=0):
    """(exit status, what it complains of); the list is place/nodes.json"""
    tools = os.path.join(place, "tools")
    os.makedirs(tools, exist_ok=True)
    with open(f"{tools}/said", "w") as f:
        f.write(said)
    with open(f"{tools}/sinfo", "w") as f:
        f.write(f'#!/bin/sh\necho "$@" > {tools}/asked\ncat {tools}/said\nexit {status}\n')
    os.chmod(f"{tools}/sinfo", 0o755)
    got = run(f"{FILES}/slurm-file-sd.sh", *options, f"{place}/nodes.json",
              env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
    return got.returncode, got.stderr


def list_of_nodes():
    with tempfile.TemporaryDirectory() as place:
        path = f"{place}/nodes.json"
        got = slurm_file_sd(place,
            "n-1 idle\nn2.x down*\nn-1 idle\nn3 idle~\nn4 mixed#\nn5 allocated%\nn6 idle!\nn7 drained\n")
        check("a list of nodes", got == (0, ""), got)
        check("its targets", json.load(open(path)) == [{"targets": ["n-1:9091", "n2.x:9091", "n7:9091"]}],
            open(path).read())
        check("Prometheus may read it", os.stat(path).st_mode & 0o777 == 0o644)
        before = os.stat(path).st_ino
        slurm_file_sd(place, "n-1 idle\nn2.x idle\nn7 drained\n")
        check("what has not changed is not replaced", os.stat(path).st_ino == before)
        slurm_file_sd(place, "a idle\n", "-p", "9099", "-P", "gpu")
        check("another port", json.load(open(path)) == [{"targets": ["a:9099"]}], open(path).read())
        check("replaced, not written over", os.stat(path).st_ino != before)
        check("only that partition", "--partition=gpu" in open(f"{place}/tools/asked").read())
        kept = open(path).read()
        for said in ("b idle\n$(reboot) idle\n", "b idle\n-x idle\n", 'b idle\nc"d idle\n', "b idle\nc/d idle\n",
                     "b idle\nc:1 idle\n",
                     "b idle\nc\x1b[2J idle\n", "b idle\n" + "c" * 254 + " idle\n", "b\n", "b idle more\n", "",
                     "b idle~\n"):
            status, why = slurm_file_sd(place, said)
            check(f"refused: {said!r}", status == 1 and open(path).read() == kept, (status, open(path).read()))
            check(f"one reason for {said!r}, in plain characters",
                re.fullmatch(r"slurm-file-sd: [ -~]+\nslurm-file-sd: [ -~]+ stays as it is\n", why), why)
        status, why = slurm_file_sd(place, "", status=1)
        check("Slurm does not answer", status == 1 and "stays as it is" in why and open(path).read() == kept, why)
        for bad in (("-p", "0"), ("-p", "65536"), ("-p", "9x"), ("-p", "-1"), ("-p", ""), ("-x",), ("more",)):
            status, why = slurm_file_sd(place, "b idle\n", *bad)
            check(f"bad options {bad}", status == 2 and why and open(path).read() == kept, why)
        check("nothing is left beside it", sorted(os.listdir(place)) == ["nodes.json", "tools"], os.listdir(place))


# ---- the rules


UNITS = {"%": 0.01, "s": 1, "m": 60, "h": 3600, "": 1}


def numbers(expr):
    """The numbers of an expression that are neither windows, nor in names or texts."""
    bare = re.sub(r'"[^"]*"|\[[^]]*\]|offset \w+', " ", expr)
    return {round(float(n) * UNITS[u], 9) for n, u in re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)(%|[smh]\b|(?![\w.]))",
        bare)}


def comparisons(expr):
    """What an expression is held against, and how: {(">", 0.9)}."""
    bare = re.sub(r'"[^"]*"|\[[^]]*\]', " ", expr)
    return {(op, round(float(n) * UNITS[u], 9)) for op, n, u in re.findall(
        r"([<>]=?|==)\s*(\d+(?:\.\d+)?)(%|[smh]\b|)", bare)}


def names(expr):
    return set(re.findall(r"\bzernel_\w+", expr))


def seconds(text):
    return sum(int(n) * UNITS[u] for n, u in re.findall(r"(\d+)([smh])", text or ""))


def built_in():
    """{name: {field: text}} of `zernel alerts defaults`."""
    rules = {}
    for line in run(ZERNEL, "alerts", "defaults").stdout.replace("\n              ", " ").replace("\n            and",
            " and").splitlines():
        if line.startswith("alert "):
            rule = rules[line.split()[1]] = {}
        elif line.startswith("  "):
            key, _, value = line.strip().partition(" ")
            rule[key] = value.strip()
    return rules


def prometheus_alerts():
    """{name: {field: text}} of zernel.alerts.yml, which is written in one way."""
    rules = {}
    with open(f"{FILES}/zernel.alerts.yml") as f:
        for block in re.split(r"\n  - alert: ", f.read())[1:]:
            fields = {k: v for k, v in re.findall(r"^    (for|keep_firing_for|labels): (.*)$", block, re.M)}
            fields["expr"] = re.search(r"^    expr: (\|\n(?:      .*\n)+|.*\n)", block, re.M).group(1)
            rules[block.split("\n", 1)[0]] = fields
    return rules


def rules_are_right():
    got = run("promtool", "test", "rules", "rules_test.yml", cwd=HERE)
    check("promtool test rules", got.returncode == 0, got.stdout + got.stderr)
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(FILES, place, dirs_exist_ok=True)
        with open(f"{place}/zerneld-nodes.json", "w") as f:
            f.write("[]")
        got = run("promtool", "check", "config", f"{place}/prometheus.yml")
        check("promtool check config", got.returncode == 0 and "WARNING" not in got.stdout + got.stderr,
            got.stdout + got.stderr)
        with open(f"{place}/prometheus.yml") as f:
            text = re.sub(r"^( *)#(?=[^ \n])", r"\1", f.read(), flags=re.M)
        with open(f"{place}/all.yml", "w") as f:
            f.write(text.replace("/etc/prometheus/zerneld.token", f"{place}/zerneld-nodes.json"))
        got = run("promtool", "check", "config", f"{place}/all.yml")
        check("with all its options", got.returncode == 0, got.stdout + got.stderr)
        dropped = re.search(r"__name__\], regex: '([^']*)'", text).group(1)
        used = names("".join(open(f"{FILES}/{f}").read() for f in ("zernel.rules.yml", "zernel.alerts.yml")) + "".join(open(BOARD.format(b)).read() for b in BOARDS))
        bad = [n for n in used if re.fullmatch(dropped, n)]
        check("what may be dropped is not used",
            not bad and re.fullmatch(dropped, "zernel_cuda_sync_hist_seconds_bucket"), bad)
        check("there are options", text.count("#") < open(f"{place}/prometheus.yml").read().count("#"))


def alerts_are_the_built_in_ones():
    ours, theirs = built_in(), prometheus_alerts()
    check("there are rules", len(ours) >= 10, ours)
    check("the same alerts", set(theirs) == set(ours) | OF_NODES, set(theirs) ^ set(ours))
    with open(f"{HERE}/rules_test.yml") as f:
        tried = set(re.findall(r"alertname: (\w+)", f.read()))
    check("promtool tries each of them", set(theirs) == tried, set(theirs) ^ tried)
    for name in set(ours) & set(theirs):
        a, b = ours[name], theirs[name]
        expr = a["expr"].replace("overhead_budget", "1%")
        check(f"{name}: limits", numbers(expr) <= numbers(b["expr"])
              and bool(numbers(expr)) == bool(numbers(b["expr"])),
              (numbers(expr), numbers(b["expr"])))
        check(f"{name}: comparisons", comparisons(expr) <= comparisons(b["expr"]),
              (comparisons(expr), comparisons(b["expr"])))
        check(f"{name}: metrics", names(expr) <= names(b["expr"]), names(expr) ^ names(b["expr"]))
        for field in ("for", "keep_firing_for"):
            check(f"{name}: {field}", seconds(a.get(field)) == seconds(b.get(field)), (a.get(field), b.get(field)))
        check(f"{name}: severity", b["labels"] == f"{{severity: {a.get('severity', 'warning')}}}", b["labels"])
        for label, text in re.findall(r"(\w+)=\(([^)]*)\)", a["expr"]):
            wanted = label + '=~"' + "|".join(re.findall(r"\w+", text)) + '"'
            check(f"{name}: {label}", wanted in b["expr"], wanted)


# ---- the form of the dashboard


def dashboard(name):
    with open(BOARD.format(name)) as f:
        return json.load(f)


def queries():
    """[(panel, query)] of all boards."""
    return [(f"{b}: {p['title']}", t["expr"]) for b in BOARDS for p in dashboard(b)["panels"] for t in p.get("targets", ())]


def ready(expr, node=".+", interval="1m"):
    """A query as Grafana would ask it, with the first choice of each variable: all, but of nodes."""
    said = {"__rate_interval": interval, "instance": node, "job_id": ".+", "cluster": ".*", "user": ".*", "account": ".*", "partition": ".*"}
    return re.sub(r"\$(\w+)", lambda m: said[m.group(1)], expr)


def dashboards_are_in_form():
    check("boards tell themselves apart", len({dashboard(b)["uid"] for b in BOARDS}) == len(BOARDS))
    for name in BOARDS:
        is_in_form(name, dashboard(name))


def kept_labels(expr):
    """The labels of each aggregation and join of a query."""
    return [set(re.findall(r"\w+", labels)) for labels in re.findall(r"\b(?:by|on) ?\(([^)]*)\)", expr)]


def is_in_form(name, board):
    chosen = [v["type"] for v in board["templating"]["list"] if v["name"] == "datasource"]
    check(f"{name}: its data source is a variable, as one that is provisioned from a file must have it",
          chosen == ["datasource"] and "__inputs" not in board)
    check(f"{name}: a new one in Grafana", board["id"] is None and board["schemaVersion"] >= 36)
    panels = board["panels"]
    check(f"{name}: panels have numbers of their own", len({p["id"] for p in panels}) == len(panels))
    wanted = {r["id"] for r in board["__requires"] if r["type"] == "panel"}
    check(f"{name}: it names the panels it needs", {p["type"] for p in panels} - {"row"} == wanted, wanted)
    cells = collections.Counter()
    for p in panels:
        at = p["gridPos"]
        check(f"{p['title']} is within the page", at["x"] + at["w"] <= 24 and at["h"] > 0, at)
        cells.update((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"]))
        if p["type"] == "row":
            continue
        sources = [p["datasource"], *(t["datasource"] for t in p["targets"])]
        check(f"{p['title']} asks the data source",
            all(s == {"type": "prometheus", "uid": "${datasource}"} for s in sources))
        check(f"{p['title']} tells its queries apart", len({t["refId"] for t in p["targets"]}) == len(p["targets"]))
        check(f"{p['title']} has a unit, or columns with units", "unit" in p["fieldConfig"]["defaults"] or p["type"] in ("table", "heatmap", "state-timeline"))
    check(f"{name}: no panel lies on another", max(cells.values()) == 1)
    asked = [t["expr"] for p in panels for t in p.get("targets", ())]
    check(f"{name}: each query is of the cluster that is chosen", all('cluster=~"$cluster"' in e for e in asked), [e for e in asked if "$cluster" not in e])
    mixed = [e for e in asked if any("instance" in ls and "cluster" not in ls for ls in kept_labels(e))]
    check(f"{name}: nodes of one name in two clusters are two", not mixed, mixed)
    legends = [t.get("legendFormat", "") for p in panels for t in p.get("targets", ()) if name != "node"]
    unnamed = [text for text in legends if "{{instance}}" in text and "{{cluster}}" not in text]
    check(f"{name}: legends tell them apart", not unnamed, unnamed)
    variables_are_in_form(name, {v["name"]: v for v in board["templating"]["list"] if v["type"] == "query"}, [p["title"] for p in panels] + asked)


def variables_are_in_form(name, variables, texts):
    check(f"{name}: its variables", set(variables) == CHOSEN[name], set(variables))
    chains = {v: set(re.findall(r"\$(\w+)", o["definition"])) for v, o in variables.items()}
    used = set(re.findall(r"\$(\w+)", json.dumps(texts))).union(*chains.values()) - {"__rate_interval"}
    check(f"{name}: its variables are used, and there", used == set(variables), used ^ set(variables))
    order = list(variables)
    check(f"{name}: a variable depends on those before it alone", all(c <= set(order[:order.index(v)]) for v, c in chains.items()), chains)
    check(f"{name}: a label that is not there is a choice", all(v["allValue"] == (".+" if n == "job_id" else ".*") for n, v in variables.items() if v["includeAll"]))


# of a counter, a value each minute: what panels of the last hour say of it after 130 minutes
HOURS = {"5x130": 0, "5x100 7x30": 2, "_x100 3x30": 3, "5x100 _x2 1x30": 1, "5x100 1 7x30": 7}


def faults_of_an_hour():
    """Of a series that is there since its first fault, and of one whose node has started again since."""
    asked = [(title, ready(expr)) for title, expr in queries() if "offset 1h" in expr]
    check("there are panels of an hour", len(asked) >= 7, asked)
    cases = [(expr, values, want) for _, expr in asked for values, want in HOURS.items()]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as f:
        json.dump({"tests": [{"interval": "1m",
            "input_series": [{"series": names(expr).pop() + '{cluster="c", instance="n", job_id="7"}', "values": values}],
            "promql_expr_test": [{"expr": f"sum({expr})", "eval_time": "130m",
                                  "exp_samples": [{"labels": "{}", "value": want}]}]}
            for expr, values, want in cases]}, f)
        f.flush()
        got = run("promtool", "test", "rules", f.name)
    check("panels of an hour", got.returncode == 0, got.stdout + got.stderr)


# ---- the fleet


class Fleet:
    """The daemons, and a Prometheus; all end with `stack`."""

    def __init__(self, stack, nodes=NODES, options=lambda i: ["--simulate-seed", str(i + 1), "--push-interval-ms",
            "10000"]):
        """options: of the i-th node"""
        self.place, self.nodes = tempfile.mkdtemp(prefix="zernel-fleet-"), nodes
        stack.callback(shutil.rmtree, self.place, ignore_errors=True)
        self.port, self.ws = free_port(), free_port()
        with open(f"{self.place}/alerts", "w") as f:
            f.write(RULE)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ZERNEL_")}
        self.env = {**clean, "ZERNEL_CONTROL": "none", "ZERNEL_REPORT_DIR": "none", "ZERNEL_LOG": "warn"}
        self.daemons = {}
        for i, node in enumerate(nodes):
            self.daemons[node] = self.daemon(stack, node, options(i))
        self.began = time.monotonic()  # what is simulated; a start takes some more of a second
        self.prometheus(stack)

    def start(self, stack, command, **more):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **more)
        stack.callback(process.wait, 60)
        stack.callback(process.terminate)
        return process

    def daemon(self, stack, node, options):
        more = ["--alerts", f"{self.place}/alerts"] if node in ALERTING else []
        with open(f"{self.place}/{node}.log", "w") as log:
            return self.start(stack, [ZERNELD, "--simulate", *options, "--listen", node, "--metrics-port",
                str(self.port), "--ws-port", str(self.ws), *more],
                              env=self.env, stderr=log)

    def prometheus(self, stack):
        """With the files that are given away, and the list of nodes as the script makes it."""
        config = f"{self.place}/etc"
        shutil.copytree(FILES, config)
        got = slurm_file_sd(self.place, "".join(f"{n} idle\n" for n in self.nodes), "-p", str(self.port))
        assert got == (0, ""), got
        os.rename(f"{self.place}/nodes.json", f"{config}/zerneld-nodes.json")
        port = free_port()
        self.server = f"http://127.0.0.1:{port}"
        with open(f"{self.place}/prometheus.log", "w") as log:
            self.prometheus_pid = self.start(stack, [
                "prometheus", f"--config.file={config}/prometheus.yml", f"--storage.tsdb.path={self.place}/data",
                f"--query.timeout={PATIENCE}s", f"--web.listen-address=127.0.0.1:{port}"], stderr=log, stdout=log).pid
        wait_for(self.is_ready, "Prometheus is ready")  # before that it refuses each query

    def age_s(self):
        return time.monotonic() - self.began

    def is_ready(self):
        with urllib.request.urlopen(f"{self.server}/-/ready", timeout=PATIENCE) as answer:
            return answer.status == 200

    def api(self, path, **query):
        url = f"{self.server}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            raise AssertionError(f"{path} {query}: {refused}: {refused.read().decode()}") from None

    def query(self, expr, at=None):
        """{labels: value} of an instant vector."""
        result = self.api("query", query=expr, **({"time": at} if at else {}))["result"]
        return {frozenset((k, v) for k, v in r["metric"].items() if k != "__name__"): float(r["value"][1])
            for r in result}

    def value(self, expr, at=None):
        return next(iter(self.query(expr, at).values()), None)

    def pages(self):
        """[(name, labels, value)] of COUNTERS on all nodes."""
        def page(node):
            with urllib.request.urlopen(f"http://{node}:{self.port}/metrics", timeout=PATIENCE) as answer:
                lines = [line for line in answer.read().decode().split("\n") if line.startswith(COUNTERS)]
            return [(m.group(1), parse_labels(m.group(2)), float(m.group(3))) for m in map(LINE.fullmatch, lines)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return [sample for samples in pool.map(page, NODES) for sample in samples]


def wait_for(probe, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if probe():
                return
        time.sleep(1)
    raise AssertionError(f"not within {patience} s: {what}")


def total(samples, name, **labels):
    wanted = set(labels.items())
    return sum(v for n, ls, v in samples if n == name and wanted <= ls)


def calm(fleet):
    """Waits until all nodes have answered for a minute. On a machine that others keep busy a scrape may come too late,
    and what is said of all nodes lacks one for a while."""
    wait_for(lambda: fleet.value('count(min_over_time(up{job="zerneld"}[1m]) == 1)') == len(NODES),
        "all nodes answer for a minute")


def settles(fleet, expr, want):
    """Whether it gets to that value; rules are evaluated each 15 s."""
    with contextlib.suppress(AssertionError):
        wait_for(lambda: fleet.value(expr) == want, expr, PATIENCE)
        return True
    return False


def every_target_is_up(fleet):
    calm(fleet)
    targets = fleet.api("targets", state="active")["activeTargets"]
    check("all targets", len(targets) == len(NODES), len(targets))
    check("an instance is a node", {t["labels"]["instance"] for t in targets} == set(NODES))
    logs = {n: open(f"{fleet.place}/{n}.log").read() for n in NODES}
    # what is wrong in the simulation, on a slow machine before this
    told = r".* alert (?!events_lost|probe_overhead).*\n"
    bad = {n: t for n, t in logs.items() if re.sub(told, "", t)}
    check("no daemon complains", not bad, bad)
    rules = [r for g in fleet.api("rules")["groups"] for r in g["rules"]]
    check("all rules are evaluated", all(r["health"] == "ok" for r in rules),
        [(r["name"], r.get("lastError")) for r in rules if r["health"] != "ok"])
    with open(f"{FILES}/zernel.rules.yml") as f:
        records = re.findall(r"record: (\S+)", f.read())
    check("there are records", len(records) > 30, records)
    for record in records:
        if record in OF_PEERS:
            check(f"{record} compares nobody", not fleet.query(record), fleet.query(record))
            continue
        with contextlib.suppress(AssertionError):
            wait_for(lambda: fleet.query(record), record, PATIENCE)
        check(f"{record} has data", fleet.query(record), "none")


def sums_that_are_known(fleet):
    """What a simulation has on each node, whatever its seed."""
    calm(fleet)
    nodes = len(NODES)
    for expr, want in (("source:zernel_nodes:count", nodes), ("cluster:zernel_gpus:sum", nodes * GPUS),
                       ("cluster:zernel_gpu_memory_total_bytes:sum", nodes * GPUS * GPU_BYTES),
                       ("sum(job_id:zernel_job_processes:sum)", nodes * RANKS),
                       ('alert:zernel_alert_firing:count{alert="fleet_test"}', len(ALERTING)),
                       ("sum(what:zernel_lost:increase5m)", 0)):
        check(expr, settles(fleet, expr, want), f"{fleet.value(expr)}, not {want}")
    for job in JOBS:
        check(f"nodes of {job}", settles(fleet, f'job_id:zernel_nodes:count{{job_id="{job}"}}', nodes), "not all")
    stalls = fleet.query("sum by (job_id) (job_id_cause:zernel_job_stall:ratio_rate1m)")
    check("causes add up to all of the time", stalls and all(abs(v - 1) < 1e-6 for v in stalls.values()), stalls)
    seeds = fleet.query('sum by (instance) (zernel_cuda_launch_latency_seconds_sum)')
    check("nodes differ", len(set(seeds.values())) == nodes, len(set(seeds.values())))


def sums_that_are_added_up(fleet):
    """Each series that Prometheus had when it evaluated the rule, added up here. It may have had the last scrapes but
    one of the nodes that it was reading just then, which takes until the scrape's timeout at most: so either is
    right."""
    calm(fleet)
    for record, label in (("instance:zernel_gpu_memory_used_bytes:sum", "instance"),
            ("job_id:zernel_gpu_memory_used_bytes:sum", "job_id")):
        at = float(fleet.api("query", query=f"min(timestamp({record}))")["result"][0]["value"][1])
        low, high = collections.Counter(), collections.Counter()
        now, before = (fleet.query("zernel_gpu_memory_used_bytes", t) for t in (at, at - SCRAPE_TIMEOUT - 1))
        check(f"processes of {record}", len(now) == len(NODES) * RANKS, len(now))
        for labels, value in now.items():
            low[dict(labels)[label]] += min(value, before.get(labels, value))
            high[dict(labels)[label]] += max(value, before.get(labels, value))
        got = {dict(ls)[label]: v for ls, v in fleet.query(record, at).items()}
        bad = {k: (low[k], got.get(k), high[k]) for k in low if not low[k] <= got.get(k, -1) <= high[k]}
        check(f"{record}: all and no other", set(got) == set(low), set(got) ^ set(low))
        check(record, not bad, bad)
    # of what was recorded before, nothing is in doubt
    at = fleet.api("query", query="timestamp(cluster:zernel_gpu_memory_used_bytes:sum)")["result"][0]["value"][1]
    want = sum(fleet.query("instance:zernel_gpu_memory_used_bytes:sum", at).values())
    got = fleet.value("cluster:zernel_gpu_memory_used_bytes:sum", at)
    check("memory of all nodes", got == want > len(NODES) * GPUS << 34, (got, want))


def rates_of_the_pages(fleet, first, began):
    """Counters of all pages, a while apart, hold what Prometheus saw between; what rates say is of that size. began,
    ended: when the first page was asked for, and when the last one was there."""
    stamp, asked = time.time(), time.monotonic()
    last, ended = fleet.pages(), (asked, time.monotonic())
    for name, record in zip(COUNTERS, ("cluster:zernel_cuda_launches:rate1m", "cluster:zernel_nccl_bytes:rate1m",
            "cluster:zernel_io_read_bytes:rate1m")):
        low, high = total(first, name), total(last, name)
        seen = fleet.value(f"sum({name})", stamp)
        check(f"{name} of all nodes", low <= seen <= high and low < high, (low, seen, high))
        slowest, fastest = (high - low) / (ended[1] - began[0]), (high - low) / max(ended[0] - began[1], 1)
        got = fleet.value(record, stamp)
        check(f"{record} is of that size", 0.3 * slowest < got < 2 * fastest, (got, slowest, fastest))
    for job in JOBS:
        low, high = (total(p, "zernel_job_launches_total", job_id=job) for p in (first, last))
        seen = fleet.value(f'sum(zernel_job_launches_total{{job_id="{job}"}})', stamp)
        check(f"launches of job {job}", low <= seen <= high, (low, seen, high))
    timed, launches = (fleet.value(f"sum({series})", stamp) for series in (
        'zernel_node_launch_latency_hist_seconds_bucket{le="+Inf"}', 'zernel_node_launches_total{kind!="captured"}'))
    check("all launches are in the buckets", timed == launches > 0, (timed, launches))
    p50, p99 = (fleet.value(f"cluster:zernel_cuda_launch_latency_seconds:{q}_1m", stamp) for q in ("p50", "p99"))
    slow = fleet.query('zernel_cuda_launch_latency_seconds{quantile="0.5"}', stamp).values()
    check("p50 of all is that of the processes, within a bucket", min(slow) / 4 < p50 < 4 * max(slow) and p50 < p99 < 4
        * 0.002, (p50, p99))


def dashboards_have_data(fleet):
    documented = open(os.path.join(ROOT, "docs/METRICS.md")).read()
    for title, expr in queries():
        if any(name in expr for name in ELSEWHERE):
            continue
        asked = ready(expr, node=ALERTING[0] if title.startswith("node") else ".*")
        got = fleet.query(asked)
        if any(name in expr for name in LATER):
            check(f"{title}: its metrics are documented", all(f"`{n}`" in documented for n in names(expr)), expr)
            continue
        known = [v == v for v in got.values()]  # of what did not happen within a minute there is no quantile
        check(f"{title}: {asked}", any(known) and (all(known) or "histogram_quantile(" in expr), list(got.items())[:3])
    there = {"instance": NODES, "job_id": JOBS, "cluster": set()}
    for name in BOARDS:
        for v in (v for v in dashboard(name)["templating"]["list"] if v["type"] == "query"):
            series, label = re.fullmatch(r"label_values\((\w+(?:{.*})?), (\w+)\)", v["query"]["query"]).groups()
            got = fleet.api(f"label/{label}/values", **{"match[]": ready(series)})
            right = set(got) >= set(there[label]) and (there[label] or not got) if label in there else got
            check(f"{name}: values of {v['name']}", right, got[:5])


def cost(fleet):
    """What all of it costs; the limits are far off, and those of docs/OPERATIONS.md."""
    memory = fleet.query('process_resident_memory_bytes{job="zerneld"}').values()
    cpu = fleet.value('avg(rate(process_cpu_seconds_total{job="zerneld"}[1m]))')
    series = max(fleet.query('scrape_samples_scraped{job="zerneld"}').values())
    head = fleet.api("status/tsdb")["headStats"]["numSeries"]
    with open(f"/proc/{fleet.prometheus_pid}/statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    buckets = fleet.value('count({__name__=~".+_bucket", instance!=""})') / len(NODES)
    print(f"{len(NODES)} daemons: {max(memory) / 2**20:.1f} MiB, {cpu:.2%} of a core, {series:.0f} series "
          f"({buckets:.0f} of buckets) each; "
          f"Prometheus: {head:.0f} series in {resident / 2**20:.0f} MiB")
    check("a daemon is small", max(memory) < 12 << 20, max(memory))
    check("a daemon is idle", cpu < 0.05, cpu)
    check("series of a node with eight processes", 1000 < series < 4500, series)
    ended = [n for n, p in fleet.daemons.items() if p.poll() is not None]
    check("all other daemons live", ended == [ENDS], ended)


def a_daemon_ended(fleet):
    check("it ended well", fleet.daemons[ENDS].wait(60) == 0)
    wait_for(lambda: fleet.value('count(up{job="zerneld"} == 0)') == 1, "its end is seen")
    wait_for(lambda: fleet.value("source:zernel_nodes:count") == len(NODES) - 1, "sums without it")
    wait_for(lambda: fleet.value("cluster:zernel_gpus:sum") == (len(NODES) - 1) * GPUS, "sums without its GPUs")
    told = 'ALERTS{alertname="node_unreachable", alertstate="pending"}'
    wait_for(lambda: [dict(ls)["instance"] for ls in fleet.query(told)] == [ENDS], "it will be told of")


def fleet_tests():
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack)
        wait_for(lambda: fleet.value('count(up{job="zerneld"} == 1)') == len(NODES), "all nodes are up")
        asked = time.monotonic()
        first, began, read = fleet.pages(), (asked, time.monotonic()), time.time()
        needed = ("cluster:zernel_cuda_launch_latency_seconds:p99_1m", "job_id:zernel_job_gpu_idle:ratio_rate5m",
            "alert:zernel_alert_firing:count")
        wait_for(lambda: all(map(fleet.query, needed)) and time.monotonic() - began[1] > 35, "rates")
        calm(fleet)
        wait_for(lambda: fleet.value("min(timestamp(zernel_build_info))") > read, "each node was scraped since")
        rates_of_the_pages(fleet, first, began)
        for test in (every_target_is_up, sums_that_are_known, sums_that_are_added_up):
            test(fleet)
        fleet.daemons[ENDS].terminate()
        for test in (dashboards_have_data, cost, a_daemon_ended):
            test(fleet)


# ---- nodes of one job


def pending(fleet):
    """{(alert, node)} of those that compare nodes, and are about to be told of, or are."""
    got = fleet.query('ALERTS{alertname=~"nccl_node_.+"}')
    return {(dict(ls)["alertname"], dict(ls)["instance"]) for ls in got}


def nodes_of_a_job():
    """Of three jobs one hangs, one is slow, one is well: the node that the others wait for is named, and nobody before
    that."""
    with contextlib.ExitStack() as stack:
        fleets, seen, looks = {}, {}, {}
        for seed, (net, (scenarios, _)) in enumerate(PEERS.items(), 1):
            looks[net] = 0
            fleets[net] = Fleet(stack, [f"{net}.{i}" for i in (1, 2, 3)], lambda i, seed=seed, scenarios=scenarios: [
                "--simulate-seed", str(seed), "--simulate-scenario", scenarios[i], "--simulate-cycle-s",
                str(PEERS_CYCLE_S)])
        while going := [net for net in PEERS if fleets[net].age_s() < PEERS_CYCLE_S - 15]:
            time.sleep(5)
            for net in going:
                fleet = fleets[net]
                with contextlib.suppress(OSError):
                    found = pending(fleet)
                    early = fleet.age_s() < PEERS_CYCLE_S / 2  # at its end: then the answer is of before
                    check(f"{net}: nobody is named while all is well", not (early and found), found)
                    looks[net] += early
                    if fleet.age_s() < PEERS_CYCLE_S:  # from then on all is well again
                        seen[net] = found  # a node that stops is for a minute one that waits less
            if all(seen.get(net) == named and fleets[net].age_s() > PEERS_CYCLE_S - 45
                    for net, (_, named) in PEERS.items()):
                break
        for net, (scenarios, named) in PEERS.items():
            check(f"{net}: it was looked at while all was well", looks[net], looks)
            check(f"{scenarios}: who is named", seen.get(net) == named, seen.get(net))
            counts = fleets[net].query('job_id_comm:zernel_nccl_nodes:count{job_id="4712"}')
            check(f"{net}: the nodes have a communicator in common", list(counts.values()) == [3], counts)


@contextlib.contextmanager
def asked_of_a_node(node, word, least, *options):
    """Panels and queries of the boards with this word, and {query: {labels: value}}, of a node that simulates."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, [node], lambda i: ["--simulate-scenario", *options])
        asked = [(title, ready(expr, interval="30s")) for title, expr in queries() if word in expr]
        check(f"the boards ask for {word}", len(asked) >= least, asked)
        got = {}

        def has_all():
            got.update({expr: fleet.query(expr) for _, expr in asked})
            return all(values and all(v == v for v in values.values()) for values in got.values())

        wait_for(has_all, word)
        yield asked, got


def requests_of_a_server():
    """Each query of the boards on requests, of a node that simulates a server."""
    with asked_of_a_node("127.79.0.1", "zernel_request", 6, "server") as (asked, got):
        for title, expr in asked:
            check(f"{title}: {expr}", got[expr] and {dict(ls).get("pid") for ls in got[expr]} <= {"900", "940"},
                list(got[expr].items())[:3])
        slow = [v for _, expr in asked if "0.99" in expr and "first_event" in expr for v in got[expr].values()]
        check("p99 of the first event is within a bucket of what is simulated",
            slow and all(0.015 < v < 1.1 for v in slow), slow)


def errors_of_a_node():
    """Each query of the boards on errors of CUDA, of a node on which calls fail."""
    with asked_of_a_node("127.79.0.2", "zernel_job_cuda_errors_total", 3, "xid", "--simulate-cycle-s",
                         "60") as (asked, got):
        for title, expr in asked:
            check(f"{title}: {expr}", [dict(ls)["error"] for ls in got[expr]] == ["CUDA_ERROR_CONTAINED"],
                list(got[expr].items())[:3])


PARTS = (list_of_nodes, rules_are_right, alerts_are_the_built_in_ones, dashboards_are_in_form, faults_of_an_hour,
         requests_of_a_server, errors_of_a_node, nodes_of_a_job, fleet_tests)
WORD = sys.argv[1] if len(sys.argv) > 1 else ""
# run.py [WORD | !WORD]: parts whose name has the word, or has it not
for part in (p for p in PARTS if (WORD.lstrip("!") in p.__name__) != (WORD[:1] == "!")):
    try:
        part()
    except Exception as e:
        check(part.__name__, False, repr(e))
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
