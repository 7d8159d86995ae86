"""One training step of convolutions or an LSTM in PyTorch, timed as `gradloom bench` times it: the loss is read after every step.

usage: torch_layers.py {conv|mnist-cnn|lstm} {eager|compile} [--threads N]

Prints one JSON object. Shapes are those of the configuration in `gradloom bench`; the data, too.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


def spread(*shape):
    count = 1
    for extent in shape:
        count *= extent
    i = torch.arange(count, dtype=torch.int64)
    return (((i * 2_654_435_769) % 2**32 // 2**8).to(torch.float32) / 2**24).view(*shape)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.hidden, self.last = nn.Linear(32 * 7 * 7, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.last(F.relu(self.hidden(x.flatten(1))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config", choices=["conv", "mnist-cnn", "lstm"])
    parser.add_argument("mode", choices=["eager", "compile"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    clip = None
    if given.config == "mnist-cnn":
        model, x, classes = Cnn(), spread(64, 1, 28, 28), torch.arange(64) % 10
        optimizer, clip = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True), 1.0
        loss_of = lambda: F.cross_entropy(model(x), classes)
    else:
        if given.config == "conv":
            model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1))
            x, run = spread(32, 3, 32, 32), lambda: model(x)
        else:
            model = nn.LSTM(256, 256, batch_first=True)
            x, run = spread(32, 64, 256), lambda: model(x)[0]
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        loss_of = lambda: run().square().mean()
    if given.mode == "compile":
        loss_of = torch.compile(loss_of)
    steps, warm = {"conv": (60, 10), "mnist-cnn": (200, 20), "lstm": (40, 5)}[given.config]
    times = []
    for step in range(steps):
        began = time.perf_counter()
        loss = loss_of()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        if step >= warm:
            times.append((time.perf_counter() - began) * 1e3)
    print(json.dumps({"config": given.config, "mode": given.mode, "step_ms": statistics.median(times), "loss": value}))


main()
