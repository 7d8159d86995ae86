"""Tokens a second of llama.cpp with GPT-2 124M of random weights and 512 tokens cached, to stand beside
`gradloom bench --decode 1 --cached 512 --threads 2 --weights TYPE`.

    python -m venv env && env/bin/pip install llama-cpp-python gguf numpy
    env/bin/python scripts/peers/decode_llama_cpp.py FOLDER [--threads 2]

FOLDER keeps the models, 500 MB in f32."""

import argparse
import pathlib
import statistics
import time

import gguf
import llama_cpp
import numpy as np

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 12, 768, 12, 1024, 50257
CACHED, STEPS = 512, 60
TYPES = {name: getattr(gguf.GGMLQuantizationType, name) for name in ["F32", "F16", "BF16", "Q8_0", "Q4_0"]}


def write(path, kind):
    """A model whose matrices are of a type, and everything else f32."""
    rng = np.random.default_rng(0)
    file = gguf.GGUFWriter(path, "gpt2")
    file.add_context_length(CONTEXT)
    file.add_embedding_length(WIDTH)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(4 * WIDTH)
    file.add_head_count(HEADS)
    file.add_layer_norm_eps(1e-5)
    file.add_vocab_size(VOCABULARY)
    file.add_tokenizer_model("no_vocab")

    def matrix(name, rows, columns):
        values = rng.normal(0, 0.02, (rows, columns)).astype(np.float32)
        file.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)

    def vector(name, value, length):
        file.add_tensor(name, np.full(length, value, np.float32))

    def norm(name):
        vector(f"{name}.weight", 1, WIDTH)
        vector(f"{name}.bias", 0, WIDTH)

    matrix("token_embd", VOCABULARY, WIDTH)
    file.add_tensor("position_embd.weight", rng.normal(0, 0.01, (CONTEXT, WIDTH)).astype(np.float32))
    for i in range(LAYERS):
        norm(f"blk.{i}.attn_norm")
        norm(f"blk.{i}.ffn_norm")
        for name, rows, columns in [
            ("attn_qkv", 3 * WIDTH, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_up", 4 * WIDTH, WIDTH),
            ("ffn_down", WIDTH, 4 * WIDTH),
        ]:
            matrix(f"blk.{i}.{name}", rows, columns)
            vector(f"blk.{i}.{name}.bias", 0, rows)
    norm("output_norm")
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--types", nargs="*", default=list(TYPES))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.types:
        path = arguments.folder / f"{name}.gguf"
        if not path.exists():
            write(path, TYPES[name])
        model = llama_cpp.Llama(
            str(path), n_ctx=CONTEXT, n_threads=arguments.threads, n_threads_batch=arguments.threads, verbose=False
        )
        model.eval([i * 7919 % VOCABULARY for i in range(CACHED)])
        times = []
        for i in range(STEPS):
            began = time.perf_counter()
            model.eval([i % VOCABULARY])
            times.append(time.perf_counter() - began)
        middle = statistics.median(times[STEPS // 5 :])
        print(f"llama.cpp {llama_cpp.__version__} {name}: {middle * 1e3:.2f} ms, {1 / middle:.1f} tokens/s", flush=True)


main()
