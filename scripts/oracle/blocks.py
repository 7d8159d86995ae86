"""Makes crates/gradloom-core/tests/reference/dequantize.txt: numbers in blocks, as the package gguf reads them.

    python3 -m venv .venv && .venv/bin/pip install numpy gguf
    .venv/bin/python scripts/oracle/blocks.py

Run with gguf 0.19. A line has a format, the bytes of two blocks, and the bits of their 64 elements in float32, all in
hexadecimal digits. Blocks are those that gguf makes of random numbers, and random bytes with a scale that is a
subnormal, negative or the largest number of float16.
"""

import pathlib

import numpy
from gguf import GGMLQuantizationType, quants

PLACE = pathlib.Path(__file__).resolve().parents[2] / "crates/gradloom-core/tests/reference/dequantize.txt"
RANDOM = numpy.random.RandomState(7)


def lines(name):
    kind = GGMLQuantizationType[name]
    for scale in [1.0, 1e-3, 300.0]:
        yield quants.quantize((RANDOM.standard_normal((1, 64)) * scale).astype("float32"), kind)
    size = {"Q8_0": 34, "Q4_0": 18}[name]
    for scale in [0x0001, 0x8123, 0xBC00, 0x7BFF]:
        blocks = RANDOM.randint(0, 256, (2, size)).astype("uint8")
        blocks[:, 0], blocks[:, 1] = scale & 255, scale >> 8
        yield blocks.reshape(1, -1)


with PLACE.open("w") as file:
    for name in ["Q8_0", "Q4_0"]:
        for blocks in lines(name):
            numbers = quants.dequantize(blocks, GGMLQuantizationType[name]).astype("float32")
            bits = "".join(f"{word:08x}" for word in numbers.reshape(-1).view("uint32"))
            print(name.lower(), bytes(blocks.reshape(-1)).hex(), bits, file=file)
print(PLACE.name, PLACE.stat().st_size, "bytes")
