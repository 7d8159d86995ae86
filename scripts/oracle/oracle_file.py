"""What the oracle scripts share: inputs that every dtype of the tests holds exactly, and a writer of safetensors.

The format is that of https://github.com/huggingface/safetensors#format: the length of the header (u64, little-endian),
a JSON header padded with spaces to a multiple of eight bytes, and the tensors, row-major, without gaps.
"""

import json
import pathlib
import struct

import numpy

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data"
DTYPES = {"float64": "F64", "float32": "F32", "int32": "I32", "uint8": "U8"}


def exact_in_f32(array):
    """The nearest values that a float32 holds, as float64: a test in float32 then starts from the very same numbers."""
    return numpy.asarray(array, dtype="float32").astype("float64")


def write(name, tensors, metadata):
    """Writes tests/data/NAME. `tensors` maps names to torch tensors, numpy arrays or numbers; `metadata` is text to text."""
    header = {"__metadata__": metadata}
    chunks = []
    end = 0
    for key, value in tensors.items():
        array = value.detach().numpy() if hasattr(value, "detach") else numpy.asarray(value)
        if array.dtype == "int64":
            array = array.astype("int32")
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        header[key] = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
        chunks.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / name).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))
    print(f"{name}: {len(tensors)} tensors, {8 + len(text) + end} bytes")
