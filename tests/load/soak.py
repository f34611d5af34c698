# SPDX-License-Identifier: GPL-2.0
"""Simulated daemons of several seeds for a while; see soak() for who reads what they serve."""
from harness import Daemon, test_simulated
from readers import soak

SECONDS = 10


@test_simulated
def simulated_data_is_read_by_strict_readers():
    soak([Daemon("--simulate", "--simulate-seed", str(seed), "--push-interval-ms", "100") for seed in (1, 7, 2026)],
         SECONDS)
