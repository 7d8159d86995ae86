"""usage: torch_products.py THREADS [bf16] ; PyTorch's rate of the products that `cargo bench -p gradloom-cpu --bench
products` measures of a training step of GPT-2 S and M on 1,024 tokens, in GFLOP/s; the best of many runs counts"""
import sys
import time

import torch

THREADS, TOKENS = int(sys.argv[1]), 1024
DTYPE = torch.bfloat16 if sys.argv[2:] == ["bf16"] else torch.float32
torch.set_num_threads(THREADS)


def step(model, width, vocabulary):
    layers = [
        ("qkv", width, 3 * width),
        ("projection", width, width),
        ("up", width, 4 * width),
        ("down", 4 * width, width),
        ("head", width, vocabulary),
    ]
    for layer, inner, outer in layers:
        # The head's weight is the transposed token embedding.
        tied = layer == "head"
        yield f"{model} {layer} y", (TOKENS, outer, inner), (False, tied)
        yield f"{model} {layer} dx", (TOKENS, inner, outer), (False, not tied)
        yield f"{model} {layer} dW", (inner, outer, TOKENS), (True, False)


def matrix(rows, columns, by_columns):
    return torch.rand(columns, rows).to(DTYPE).t() if by_columns else torch.rand(rows, columns).to(DTYPE)


for shape in [("S", 128, 256), ("M", 384, 8192)]:
    for name, (m, n, k), by_columns in step(*shape):
        left, right = matrix(m, k, by_columns[0]), matrix(k, n, by_columns[1])
        product, best, end = torch.empty(m, n, dtype=DTYPE), float("inf"), time.time() + 0.15
        while time.time() < end:
            start = time.perf_counter()
            torch.mm(left, right, out=product)
            best = min(best, time.perf_counter() - start)
        print(f"{name:18} {2e-9 * m * n * k / best:8.1f}")
