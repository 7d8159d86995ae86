"""Ops over 2^24 elements in PyTorch, as `cargo bench -p gradloom --bench cpu_kernels` times them.

usage: torch_ops.py [--threads N]

Prints milliseconds, the least of nine runs. Shapes and data are those of the bench.
"""
import argparse
import os
import time

import torch
import torch.nn.functional as F

COUNT = 2**24


def spread():
    i = torch.arange(COUNT, dtype=torch.int64)
    return ((i * 2_654_435_769) % 2**32 // 2**8).to(torch.float32) / 2**24


def report(name, function):
    function()
    least = float("inf")
    for _ in range(9):
        start = time.perf_counter()
        function()
        least = min(least, time.perf_counter() - start)
    print(f"{name:<36} {least * 1e3:8.2f} ms", flush=True)


def both(forward, x, weights, g):
    """A forward and a backward pass."""
    leaves = [leaf.detach().requires_grad_() for leaf in (x, *weights)]
    torch.autograd.grad(forward(*leaves), leaves, g)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    torch.set_num_threads(parser.parse_args().threads)
    print(torch.__version__, torch.get_num_threads(), "threads")
    images, g = (spread() * 2 - 1).view(64, 64, 64, 64), spread().view(64, 64, 64, 64)
    weights = torch.ones(64), torch.zeros(64)
    batch = lambda x, weight, bias: F.batch_norm(x, None, None, weight, bias, training=True)
    group = lambda x, weight, bias: F.group_norm(x, 8, weight, bias)
    report("batch norm, forward and backward", lambda: both(batch, images, weights, g))
    report("group norm, forward and backward", lambda: both(group, images, weights, g))
    for what, shape in (("", (1, COUNT)), (" of rows", (4096, 4096))):
        x = spread().view(shape)
        report(f"cumsum{what}", lambda: x.cumsum(1))
        report(f"top 50{what}", lambda: x.topk(50, 1))
        report(f"sort{what}", lambda: x.sort(1))


if __name__ == "__main__":
    main()
