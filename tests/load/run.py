#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the tests of the serving layer under load and faults, or those whose name has the word that is given. They need
neither root nor a GPU: the daemon simulates. The last line is `N passed, N failed`.
"""
import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "e2e")]
main = importlib.import_module("harness").main

for topic in ("load", "faults", "soak"):
    importlib.import_module(topic)
main(root=False)
