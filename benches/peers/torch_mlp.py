"""One training step of a small perceptron in PyTorch, timed as `gradloom bench` times it: the loss is read after every step.

usage: torch_mlp.py {tg-mlp|mnist-mlp} {eager|compile|compile-step} [--threads N]

  eager         F.linear, relu, the fused Adam
  compile       forward and backward through torch.compile, the fused Adam
  compile-step  the whole step, Adam included, through torch.compile

Prints one JSON object. Data are those of the configuration in `gradloom bench`; weights come from the same distribution.
"""
import argparse
import json
import os
import resource
import statistics
import time

import torch
import torch.nn.functional as F

STEPS, WARM = 1000, 100


def sine():
    x = (torch.arange(256, dtype=torch.float32) / 255 - 0.5) * 6
    x = x[:, None]
    return [1, 64, 64, 1], 5e-3, x, torch.sin(x), F.mse_loss


def digits():
    i = torch.arange(128 * 784, dtype=torch.int64)
    pixels = ((i * 2_654_435_769) % 2**32 // 2**8).to(torch.float32) / 2**24
    return [784, 256, 10], 1e-3, pixels.view(128, 784), torch.arange(128) % 10, F.cross_entropy


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config", choices=["tg-mlp", "mnist-mlp"])
    parser.add_argument("mode", choices=["eager", "compile", "compile-step"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    widths, rate, x, y, measure = sine() if given.config == "tg-mlp" else digits()
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    whole = given.mode == "compile-step"
    # The fused Adam is one kernel of its own; the compiler fuses the single operations itself, where it sees them.
    kind = {"foreach": True} if whole else {"fused": True}
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, **kind)

    def loss_of():
        return measure(model(x), y)

    if given.mode == "compile":
        loss_of = torch.compile(loss_of)

    def step():
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    if whole:
        step = torch.compile(step)

    times, loss, first = [], 0.0, 0.0
    for number in range(STEPS):
        began = time.perf_counter()
        loss = step().item()
        took = time.perf_counter() - began
        if number == 0:
            first = took
        if number >= WARM:
            times.append(took * 1e3)
    print(json.dumps({
        "peer": f"torch-{given.mode}",
        "config": given.config,
        "threads": given.threads,
        "ms_per_step": statistics.median(times),
        "ms_min": min(times),
        "ms_max": max(times),
        "first_step_ms": first * 1e3,
        "final_loss": loss,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "version": torch.__version__,
    }))


main()
