# SPDX-License-Identifier: GPL-2.0
"""A rank that trains with gloo and times how long it waits for the others: gloo.py LIBCUDA JSON.

As train.py: "ready", a line, a report in JSON, and it stays. Options: rank, size, store (a file that all share), steps,
work (how many ms a step takes, asleep), late (how many more on the rank that is the straggler).
"""
import datetime
import json
import sys
import time

import torch
import torch.distributed as dist
from train import prepare


def main():
    options = json.loads(sys.argv[2])
    torch.set_num_threads(1)
    cuda = prepare(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    assert cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0
    dist.init_process_group("gloo", init_method="file://" + options["store"], rank=options["rank"],
                            world_size=options["size"], timeout=datetime.timedelta(seconds=60))
    dist.barrier()
    print("joined", flush=True)
    sys.stdin.readline()
    dist.barrier()
    waits, start = [], time.perf_counter_ns()
    for _ in range(options["steps"]):
        time.sleep((options["work"] + options["late"]) / 1000)
        assert cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0
        begin = time.perf_counter_ns()
        dist.all_reduce(torch.ones(16))
        waits.append(time.perf_counter_ns() - begin)
    print(json.dumps({"waits": waits, "wall": time.perf_counter_ns() - start}), flush=True)
    sys.stdin.readline()
    dist.destroy_process_group()
    sys.stdin.read()


if __name__ == "__main__":
    main()
