# SPDX-License-Identifier: GPL-2.0
"""A training loop on a GPU of which the lines are known: train.py eager|graph|compiled. It trains for so many seconds
as it is told, and answers {"steps", "read_s", "reads"}: how long its line in read() waited for the GPU."""
import json
import sys
import time

import torch

WIDTH, LAYERS = 512, 8
waited = {"read_s": 0.0, "reads": 0}


def build():
    layers = [torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
              for _ in range(LAYERS)]
    return torch.nn.Sequential(*layers).to("cuda", torch.bfloat16)


def forward(model, x):
    return (model(x).float() - 1).square().mean()


def backward(loss):
    loss.backward()


def update(optimizer):
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def read(loss):
    begin = time.perf_counter()
    value = loss.item()
    waited["read_s"] += time.perf_counter() - begin
    waited["reads"] += 1
    return value


def step(model, optimizer, x):
    loss = forward(model, x)
    backward(loss)
    update(optimizer)
    return loss


def graphed(model, optimizer, x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step(model, optimizer, x)
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, optimizer, x)

    def replay():
        graph.replay()
        return loss
    return replay


def main():
    way = sys.argv[1]
    torch.manual_seed(1)
    model = build()
    if way == "compiled":
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **({"capturable": True} if way == "graph" else {}))
    x = torch.randn(32 if way == "graph" else 4, 128, WIDTH, device="cuda", dtype=torch.bfloat16)
    once = graphed(model, optimizer, x) if way == "graph" else lambda: step(model, optimizer, x)
    for _ in range(10):
        loss = once()
    read(loss)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        end, steps, before = time.perf_counter() + float(line), 0, dict(waited)
        while time.perf_counter() < end:
            for _ in range(5):
                loss = once()
            torch.cuda._sleep(4_000_000)  # some milliseconds of the GPU's, for which the next line waits
            read(loss)
            steps += 5
        print(json.dumps({"steps": steps, **{k: waited[k] - before[k] for k in waited}}), flush=True)


main()
