#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The state of GPUs and energy, by a tree like /sys of the test's own: with the daemon's sandbox as it is, and with a
driver that hangs, which a FUSE file stands in for."""
import contextlib
import http.server
import os
import re
import shutil
import threading

from fuse import Fuse
from harness import Daemon, check, equal, folder, main, test, wait_until

PCI = "0000:1b:00.0"
TREE = {
    f"devices/port/{PCI}/current_link_width": "8\n",
    f"devices/port/{PCI}/max_link_width": "16\n",
    f"devices/port/{PCI}/aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 3\n",
    f"devices/port/{PCI}/numa_node": "1\n",
    f"devices/port/{PCI}/power/runtime_status": "active\n",
    f"devices/port/{PCI}/gpu_busy_percent": "87\n",
    f"devices/port/{PCI}/hwmon/hwmon3/power1_average": "311000000\n",
    "devices/rapl/name": "package-0\n",
    "devices/rapl/max_energy_range_uj": "1000000000\n",
    "devices/rapl/energy_uj": "999999990\n",
}


def write(root, name, text):
    """In one step, as who reads it may come at any moment. It keeps its mode."""
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.path.join(root, ".new"), "w") as file:
        file.write(text)
    if os.path.exists(path):
        shutil.copymode(path, file.name)
    os.rename(file.name, path)
    return path


def make_tree(root):
    for name, text in TREE.items():
        write(root, name, text)
    os.makedirs(f"{root}/bus/pci/devices")
    os.makedirs(f"{root}/class/powercap")
    os.symlink(f"../../../devices/port/{PCI}", f"{root}/bus/pci/devices/{PCI}")
    os.symlink("../../../bus/pci/drivers/amdgpu", f"{root}/devices/port/{PCI}/driver")
    os.symlink("../../devices/rapl", f"{root}/class/powercap/intel-rapl:0")
    for name, text in (("state", "4: ACTIVE\n"), ("rate", "400 Gb/sec (4X NDR)\n"), ("link_layer", "InfiniBand\n"),
                       ("counters/port_xmit_data", "4294967290\n"), ("hw_counters/out_of_sequence", "5\n")):
        write(root, f"devices/hca/infiniband/mlx5_0/ports/1/{name}", text)
    os.makedirs(f"{root}/class/infiniband")
    os.symlink("../../devices/hca/infiniband/mlx5_0", f"{root}/class/infiniband/mlx5_0")
    os.chmod(f"{root}/devices/rapl/energy_uj", 0o400)


def metrics_of_port(daemon, port):
    metrics = daemon.metrics()
    return (metrics.one("zernel_ib_port_active", link="InfiniBand", **port),
            metrics.one("zernel_ib_port_rate_bytes", **port),
            metrics.one("zernel_ib_port_bytes_total", direction="sent", **port),
            metrics.one("zernel_ib_port_errors_total", kind="out_of_sequence", **port))


class Exporter(http.server.BaseHTTPRequestHandler):
    """Figures of the GPU of the tree, of one that is not there, and of a part of the former."""

    def do_GET(self):
        page = "".join(f'{name}{{gpu="0",UUID="{uuid}",pci_bus_id="{pci}"{more}}} {value}\n'
            for name, uuid, pci, more, value in (
            ("DCGM_FI_PROF_SM_ACTIVE", "GPU-11111111", f"0000{PCI}", "", 0.25),
            ("DCGM_FI_DEV_GPU_UTIL", "GPU-11111111", f"0000{PCI}", "", 33),
            ("DCGM_FI_DEV_GPU_UTIL", "GPU-11111111", f"0000{PCI}", ',GPU_I_ID="3"', 77),
            ("DCGM_FI_DEV_GPU_UTIL", "GPU-22222222", "00000000:99:00.0", "", 99)))
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def exporter():
    with http.server.HTTPServer(("127.0.0.1", 0), Exporter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def gauge_of(daemon):
    """The process that reads /sys."""
    with open(f"/proc/{daemon.pid}/task/{daemon.pid}/children") as children:
        for pid in children.read().split():
            with open(f"/proc/{pid}/comm") as comm:
                if comm.read() == "zernel: gauge\n":
                    return pid
    raise AssertionError("no gauge")


def status_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return dict(re.findall(r"(\w+):\s+(\S+)", status.read()))


@test
def gpus_and_energy_are_read_beside_the_daemon():
    fuse = Fuse({"speed": b"16.0 GT/s PCIe\n"}, silent=["speed"], direct=["speed"], allow_other=True, hold_s=120)
    root = folder()  # Landlock allows what lies below it: the FUSE file as well
    make_tree(root)
    os.symlink(fuse.path("speed"), f"{root}/devices/port/{PCI}/current_link_speed")
    daemon = Daemon("--sysfs", root, "--push-interval-ms", "250", expect=["gauge: the kernel does not answer"])
    gpu = {"gpu_id": PCI, "uuid": ""}
    fuse.holds()
    wait_until(lambda: daemon.metrics().all("zernel_hardware_blocked_seconds"), "a file that is not answered")
    equal(daemon.metrics().all("zernel_gpu_power_watts"), {}, "power, of which nobody knows")
    daemon.ticked(3)  # it goes on meanwhile
    fuse.release()
    wait_until(lambda: daemon.metrics().all("zernel_gpu_power_watts"), "what the tree says")
    write(root, "devices/rapl/energy_uj", "90\n")  # it wraps
    port = {"device": "mlx5_0", "port": "1"}
    equal(metrics_of_port(daemon, port), (1, 50_000_000_000, 0, 0), "a port, whose counters begin at 0")
    write(root, "devices/hca/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "4\n")  # likewise
    write(root, "devices/hca/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "7\n")
    metrics = daemon.metrics()
    equal(metrics.all("zernel_hardware_blocked_seconds"), {}, "a file that was answered")
    equal(metrics.one("zernel_gpu_power_watts", **gpu), 311, "power")
    equal(metrics.one("zernel_gpu_utilization_ratio", **gpu), 0.87, "use")
    equal(metrics.one("zernel_gpu_pcie_link_width_ratio", **gpu), 0.5, "lanes")
    equal(metrics.one("zernel_gpu_pcie_errors_total", severity="nonfatal", **gpu), 3, "errors")
    equal(metrics.all("zernel_gpu_pcie_link_ratio"), {}, "a ratio of what nobody says")
    daemon.ticked(2)
    equal(daemon.metrics().one("zernel_alert_state", alert="gpu_hardware_errors"), 0, "errors from before the daemon came")
    write(root, f"devices/port/{PCI}/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 4\n")
    wait_until(lambda: daemon.metrics().one("zernel_alert_state", alert="gpu_hardware_errors") == 2, "one more")
    equal({s: metrics.one("zernel_gpu_source_info", source=s, **gpu) for s in ("drm", "sysfs")}, {"drm": 1, "sysfs": 1}, "sources")
    wait_until(lambda: daemon.metrics().one("zernel_node_energy_joules_total", part="cpu") == 0.0001, "energy that wraps")
    wait_until(lambda: metrics_of_port(daemon, port) == (1, 50_000_000_000, 40, 2), "what the port counts")
    equal(daemon.metrics().all("zernel_ib_port_packets_total"), {}, "packets, which it does not count")
    equal(daemon.json()["ports"], [{"device": "mlx5_0", "port": 1, "link": "InfiniBand", "active": True,
                                    "rate_mbit": 400000, "bytes": {"sent": 40}, "packets": {},
                                    "errors": {"out_of_sequence": 2}, "congestion": {}}], "ports")
    shown = next(g for g in daemon.json()["gpus"] if g["gpu_id"] == PCI)
    equal((shown["device"]["power_watts"], shown["device"]["link_width"], shown["used_bytes"]), (311, 8, None), "JSON")
    check("suspended" in shown["device"] and "sm_active" not in shown["device"], f"what is known of it: {shown}")
    gauge = status_of(gauge_of(daemon))
    equal((int(gauge["CapEff"], 16), int(gauge["CapPrm"], 16), gauge["NoNewPrivs"], gauge["Seccomp"]),
          (1 << 2, 1 << 2, "1", "2"),
          "what the process that reads it may do")
    daemon.end()


@test
def a_dcgm_exporter_tells_more_of_the_same_gpus():
    root = os.path.join(folder(), "dcgm")
    make_tree(root)
    with exporter() as url:
        daemon = Daemon("--sysfs", root, "--dcgm", url, "--push-interval-ms", "250", "--ras", "off")
        gpu = {"gpu_id": PCI}
        wait_until(lambda: daemon.metrics().all("zernel_gpu_sm_active_ratio"), "what the exporter says")
        metrics = daemon.metrics()
        equal(metrics.all("zernel_gpu_sm_active_ratio"), {(("gpu_id", PCI), ("uuid", "GPU-11111111")): 0.25},
            "activity")
        equal(metrics.one("zernel_gpu_utilization_ratio", **gpu), 0.33, "use, which it knows better than /sys")
        equal(metrics.one("zernel_gpu_power_watts", **gpu), 311, "power, of which it says nothing")
        equal(metrics.one("zernel_dcgm_up"), 1, "that it answers")
        check(metrics.one("zernel_dcgm_scrapes_total", outcome="ok") >= 1, "scrapes")
        daemon.end()


if __name__ == "__main__":
    main()
