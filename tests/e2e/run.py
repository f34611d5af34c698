#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Runs every end-to-end test, or those whose name has the word that is given (--timed: those that hold times against
each other, --untimed: all others); the last line is `N passed, N failed`."""
from harness import HERE, import_topics, main

import_topics(HERE)
main()
