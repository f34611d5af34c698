#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs every end-to-end test, or those whose name has the word that is given; the last line is `N passed, N failed`."""
import importlib

from harness import main

for topic in ("badinput", "simulate", "counts", "latency", "sched", "libraries", "entries", "newer", "hip", "holdups", "crowds", "lifecycle", "jobs", "security", "serving", "websocket", "access", "control", "claims", "reports", "proxy", "exposition", "signals", "waits", "messages", "io_matrix", "outbound", "mounts", "hangs", "ras", "why", "activity", "startup", "flight", "scenarios", "shares", "xid", "inference"):
    importlib.import_module(topic)
main()
