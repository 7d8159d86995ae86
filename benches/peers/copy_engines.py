"""usage: copy_engines.py [zeros] ; two GPUs of one host

Prints the time of a step of matrix products, like those of a training step, while two GPUs sum 498 MB in seven
buckets: not at all, one number of each bucket, by NCCL, or by the copy engines (each GPU copies half of the other's
bucket, adds it, and copies the sum of the other half). With `zeros`, operands are zeros, so that the GPUs need less
power. Both GPUs are driven by this process."""
import os
import statistics
import sys
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
import torch
from torch.cuda import nccl

GPUS = [0, 1]
BUCKETS, BUCKET = 7, 124_439_808 // 14 * 2
ROWS, WIDTH, INNER = 32768, 768, 3072
FACTOR = 0.0 if sys.argv[1:] == ["zeros"] else 1.0


def normal(gpu, *shape, scale=1.0, dtype=torch.bfloat16):
    return torch.randn(*shape, device=gpu, dtype=dtype) * (scale * FACTOR)


x = [normal(gpu, ROWS, WIDTH) for gpu in GPUS]
up = [normal(gpu, WIDTH, INNER, scale=0.03) for gpu in GPUS]
down = [normal(gpu, INNER, WIDTH, scale=0.02) for gpu in GPUS]
hidden = [torch.empty(ROWS, INNER, device=gpu, dtype=torch.bfloat16) for gpu in GPUS]
out = [torch.empty(ROWS, WIDTH, device=gpu, dtype=torch.bfloat16) for gpu in GPUS]
gradients = [[torch.randn(BUCKET, device=gpu) for _ in range(BUCKETS)] for gpu in GPUS]
staged = [[torch.empty(BUCKET // 2, device=gpu) for _ in range(BUCKETS)] for gpu in GPUS]
number = [torch.zeros(1, device=gpu) for gpu in GPUS]
main = [torch.cuda.Stream(gpu) for gpu in GPUS]
beside = [torch.cuda.Stream(gpu, priority=-1) for gpu in GPUS]


def recorded(gpu, stream):
    with torch.cuda.device(gpu):
        event = torch.cuda.Event()
        event.record(stream)
        return event


def products(gpu, count):
    with torch.cuda.device(gpu), torch.cuda.stream(main[gpu]):
        for _ in range(count):
            torch.mm(x[gpu], up[gpu], out=hidden[gpu])
            torch.nn.functional.gelu(hidden[gpu])
            torch.mm(hidden[gpu], down[gpu], out=out[gpu])


def copied(bucket):
    half, done = BUCKET // 2, []
    own = [slice(0, half), slice(half, 2 * half)]
    for gpu in GPUS:
        with torch.cuda.device(gpu), torch.cuda.stream(beside[gpu]):
            staged[gpu][bucket].copy_(gradients[1 - gpu][bucket][own[gpu]], non_blocking=True)
            gradients[gpu][bucket][own[gpu]].add_(staged[gpu][bucket])
            done.append(recorded(gpu, beside[gpu]))
    for gpu in GPUS:
        beside[gpu].wait_event(done[1 - gpu])
        with torch.cuda.device(gpu), torch.cuda.stream(beside[gpu]):
            other = own[1 - gpu]
            gradients[gpu][bucket][other].copy_(gradients[1 - gpu][bucket][other], non_blocking=True)


def step(way, count):
    for gpu in GPUS:
        products(gpu, count * BUCKETS // 2)
    for bucket in range(BUCKETS):
        for gpu in GPUS:
            products(gpu, count // 2)
        if way == "none":
            continue
        ready = [recorded(gpu, main[gpu]) for gpu in GPUS]
        for gpu in GPUS:
            for event in ready if way == "copies" else ready[gpu : gpu + 1]:
                beside[gpu].wait_event(event)
        if way == "number":
            nccl.all_reduce(number, streams=beside)
        elif way == "nccl":
            nccl.all_reduce([gradients[gpu][bucket] for gpu in GPUS], streams=beside)
        else:
            copied(bucket)
    ends = [recorded(gpu, beside[gpu]) for gpu in GPUS]
    for gpu in GPUS:
        for end in ends:
            main[gpu].wait_event(end)


def milliseconds(way, count, steps=30):
    def synchronize():
        for gpu in GPUS:
            torch.cuda.synchronize(gpu)

    for _ in range(3):
        step(way, count)
    synchronize()
    start = time.time()
    for _ in range(steps):
        step(way, count)
    synchronize()
    return (time.time() - start) / steps * 1e3


count = max(2, int(20 * 58 / milliseconds("none", 20, 10)) // 2 * 2)
times = {}
for _ in range(6):
    for way in ["none", "number", "nccl", "copies"]:
        times.setdefault(way, []).append(milliseconds(way, count))
for way, all in times.items():
    print(f"{way:8} {statistics.median(all):.2f} ms", *(f"{time:.2f}" for time in all))
for way in ["nccl", "copies"]:
    print(f"{way:8} {milliseconds(way, 0):.2f} ms without products")
