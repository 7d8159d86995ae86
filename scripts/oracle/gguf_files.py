"""Makes tests/data/gguf: small models in GGUF files with what Hugging Face has of them, and quantised blocks.

    python3 -m venv .venv && .venv/bin/pip install numpy torch transformers gguf
    .venv/bin/python scripts/oracle/gguf_files.py

Run with PyTorch 2.15, transformers 5.24 and gguf 0.19; the tests read the files.

    gpt2.gguf, llama.gguf   random models, as llama.cpp's converter writes them: GPT-2's linear layers [out, in],
                            the rows of a Llama's queries and keys pair by pair, Llama 3's scaling as divisors
    gpt2.json, llama.json   `config`: the configuration; `tensors`: of each in the model's state dict the dtype
                            in the file, the shape, and the SHA-256 of the elements as float32
    quants.safetensors      `TYPE/blocks` and `TYPE/values`: random blocks, also with extreme scales, and their
                            elements by the package gguf; `TYPE/x` and `TYPE/quantized`: elements and their blocks
    types.json              of each type of tensors its number, and the elements and bytes of a block

The script fails unless transformers' own reader of GGUF files gets the same elements as the state dict.
"""

import hashlib
import json
import shutil

import gguf
import numpy
import torch
import transformers
from gguf.quants import dequantize, quantize
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from oracle_file import DATA, write

TYPES = gguf.GGMLQuantizationType
FOLDER = DATA / "gguf"
RANDOM = numpy.random.RandomState(17)
# f16 bits: zeros, the smallest, the largest, infinities, NaN, one.
EXTREME = [0x0000, 0x8000, 0x0001, 0x8001, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x3C00]
# Offsets of the f16 in a block.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def random_blocks(ty, rows, blocks, scales):
    """Rows of random blocks, whose scales are what `scales` draws, as f16 bits."""
    _, size = gguf.GGML_QUANT_SIZES[ty]
    bytes = RANDOM.randint(0, 256, (rows * blocks, size)).astype("uint8")
    for at in SCALES[ty.name]:
        bytes[:, at : at + 2] = scales(rows * blocks).astype("<u2").view("uint8").reshape(-1, 2)
    return bytes.reshape(rows, blocks * size)


def stored(ty, shape):
    """Random elements of a type: as a file has them, and as float32."""
    values = (RANDOM.standard_normal(shape) * 0.05 + (1.0 if len(shape) == 1 else 0.0)).astype("float32")
    if ty in (TYPES.Q4_K, TYPES.Q6_K):
        small = lambda n: (RANDOM.uniform(1e-4, 1e-3, n)).astype("float16").view("uint16")
        data = random_blocks(ty, shape[0], shape[1] // 256, small)
    else:
        data = quantize(values, ty)
    return data, dequantize(data, ty).reshape(shape)


def permuted(rows, heads):
    """llama.cpp's order of the rows of queries and keys."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def model_file(name, writer, model, tensors):
    """Writes a model and its reference. `tensors`: name in the file, name in the state dict, type, and what
    the converter does to the elements; a converter's inverse is found by converting indices."""
    state, reference = model.state_dict(), {}
    for in_file, in_state, ty, convert in tensors:
        shape = tuple(state[in_state].shape)
        indices = convert(numpy.arange(state[in_state].numel()).reshape(shape))
        data, values = stored(ty, indices.shape)
        original = numpy.empty(values.size, "float32")
        original[indices.ravel()] = values.ravel()
        state[in_state].copy_(torch.from_numpy(original.reshape(shape)))
        writer.add_tensor(in_file, data, raw_dtype=ty)
        digest = hashlib.sha256(original.astype("<f4").tobytes()).hexdigest()
        kept = {TYPES.F16: "f16", TYPES.BF16: "bf16"}.get(ty, "f32")
        reference[in_state.removeprefix("transformer.")] = [kept, list(shape), digest]
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    config = json.loads(model.config.to_json_string(use_diff=False))
    text = json.dumps({"config": config, "tensors": reference}, indent=1)
    (FOLDER / f"{name}.json").write_text(text + "\n")

    read = load_gguf_checkpoint(FOLDER / f"{name}.gguf", return_tensors=True, model_to_load=model)["tensors"]
    for _, in_state, _, _ in tensors:
        assert torch.equal(read[in_state].float(), state[in_state]), in_state


def same(x):
    return x


def transposed(x):
    return x.T


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=40, n_embd=32, n_head=4, n_layer=2, n_positions=16, n_inner=64, bos_token_id=39, eos_token_id=39
    )
    writer = gguf.GGUFWriter(FOLDER / "gpt2.gguf", "gpt2")
    writer.add_context_length(16)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_block_count(2)
    writer.add_head_count(4)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    letters = [chr(ord("a") + i) for i in range(26)] + ["Ġ", "Ċ"]
    merges = ["t h", "th e", "Ġ the", "a n", "an d", "Ġ and", "i n", "in g", "o n", "e r", "r e"]
    writer.add_token_list(letters + [merge.replace(" ", "") for merge in merges] + ["<|endoftext|>"])
    writer.add_token_types([1] * 39 + [3])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(39)
    writer.add_eos_token_id(39)
    tensors = [
        ("token_embd.weight", "transformer.wte.weight", TYPES.F32, same),
        ("position_embd.weight", "transformer.wpe.weight", TYPES.F16, same),
        ("output_norm.weight", "transformer.ln_f.weight", TYPES.F32, same),
        ("output_norm.bias", "transformer.ln_f.bias", TYPES.F32, same),
    ]
    types = [(TYPES.F16, TYPES.Q8_0, TYPES.BF16, TYPES.Q4_0), (TYPES.Q5_0, TYPES.Q5_1, TYPES.Q4_1, TYPES.F32)]
    for block, (qkv, output, up, down) in enumerate(types):
        h, blk = f"transformer.h.{block}", f"blk.{block}"
        for part, ours, ty in [("attn_qkv", "attn.c_attn", qkv), ("attn_output", "attn.c_proj", output), ("ffn_up", "mlp.c_fc", up), ("ffn_down", "mlp.c_proj", down)]:
            tensors.append((f"{blk}.{part}.weight", f"{h}.{ours}.weight", ty, transposed))
            tensors.append((f"{blk}.{part}.bias", f"{h}.{ours}.bias", TYPES.F32, same))
        for part, ours in [("attn_norm", "ln_1"), ("ffn_norm", "ln_2")]:
            for kind in ["weight", "bias"]:
                tensors.append((f"{blk}.{part}.{kind}", f"{h}.{ours}.{kind}", TYPES.F32, same))
    model_file("gpt2", writer, transformers.GPT2LMHeadModel(config), tensors)


def llama():
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    config = transformers.LlamaConfig(
        vocab_size=48, hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=131072, rms_norm_eps=1e-5, rope_parameters={"rope_theta": 500000.0} | scaling,
    )
    writer = gguf.GGUFWriter(FOLDER / "llama.gguf", "llama")
    writer.add_context_length(131072)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(256)
    writer.add_block_count(2)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(16)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(48)
    writer.add_tokenizer_model("llama")
    tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "▁"] + [f"▁{chr(ord('a') + i)}" for i in range(26)] + [f"x{i}" for i in range(17)]
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(48)])
    writer.add_token_types([2, 3, 3, 6] + [1] * 43 + [4])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    model = transformers.LlamaForCausalLM(config)
    plain, _ = ROPE_INIT_FUNCTIONS["llama3"](config)
    unscaled = 500000.0 ** (-torch.arange(0, 16, 2) / 16)
    writer.add_tensor("rope_freqs.weight", (unscaled / plain).numpy().astype("float32"))
    tensors = [
        ("token_embd.weight", "model.embed_tokens.weight", TYPES.F16, same),
        ("output_norm.weight", "model.norm.weight", TYPES.F32, same),
        ("output.weight", "lm_head.weight", TYPES.Q8_0, same),
    ]
    queries, keys = lambda x: permuted(x, 4), lambda x: permuted(x, 2)
    types = [(TYPES.Q8_0, TYPES.F16, TYPES.Q4_0, TYPES.Q4_K), (TYPES.BF16, TYPES.Q8_0, TYPES.Q5_0, TYPES.Q6_K)]
    for block, (q, k, up, down) in enumerate(types):
        layer, blk = f"model.layers.{block}", f"blk.{block}"
        tensors += [
            (f"{blk}.attn_norm.weight", f"{layer}.input_layernorm.weight", TYPES.F32, same),
            (f"{blk}.attn_q.weight", f"{layer}.self_attn.q_proj.weight", q, queries),
            (f"{blk}.attn_k.weight", f"{layer}.self_attn.k_proj.weight", k, keys),
            (f"{blk}.attn_v.weight", f"{layer}.self_attn.v_proj.weight", TYPES.Q5_1, same),
            (f"{blk}.attn_output.weight", f"{layer}.self_attn.o_proj.weight", TYPES.Q4_1, same),
            (f"{blk}.ffn_norm.weight", f"{layer}.post_attention_layernorm.weight", TYPES.F32, same),
            (f"{blk}.ffn_gate.weight", f"{layer}.mlp.gate_proj.weight", TYPES.Q4_0, same),
            (f"{blk}.ffn_up.weight", f"{layer}.mlp.up_proj.weight", up, same),
            (f"{blk}.ffn_down.weight", f"{layer}.mlp.down_proj.weight", down, same),
        ]
    model_file("llama", writer, model, tensors)


def quants():
    tensors = {}
    for name in SCALES:
        ty = TYPES[name]

        def scales(n):
            drawn = RANDOM.standard_normal(n).astype("float16").view("uint16").copy()
            drawn[: len(EXTREME)] = RANDOM.permutation(EXTREME)
            return drawn

        blocks = random_blocks(ty, 14, 1, scales)
        with numpy.errstate(all="ignore"):
            values = dequantize(blocks, ty)
        tensors |= {f"{name}/blocks": blocks, f"{name}/values": values}
    # Tiny and large ones; halves, which are exact where the largest is 127 (Q8_0) or -8 (Q4_0); equal magnitudes
    # of both signs.
    ties = RANDOM.randint(-127, 127, (2, 32)) + 0.5
    ties[:, 5] = 127
    eighths = RANDOM.randint(-8, 8, (2, 32)) + 0.5
    eighths[:, [3, 9]] = [[-8, 8], [8, -8]]
    rows = [RANDOM.standard_normal((4, 32)) * numpy.array([[1], [0.02], [1e-6], [1e5]]), ties, eighths]
    # Not -0 alone: of that, the package gives Q4_0 the scale 0, where ggml's C code gives -0.
    rows += [numpy.zeros((1, 32)), RANDOM.uniform(1, 2, (1, 32)), RANDOM.uniform(-2, -1, (1, 32))]
    x = numpy.concatenate(rows).astype("float32")
    for name in ["Q8_0", "Q4_0"]:
        tensors |= {f"{name}/x": x, f"{name}/quantized": quantize(x, TYPES[name])}
    write("gguf/quants.safetensors", tensors, {})


shutil.rmtree(FOLDER, ignore_errors=True)
FOLDER.mkdir(parents=True)
with torch.no_grad():
    gpt2()
    llama()
quants()
types = {ty.name: [int(ty), *sizes] for ty, sizes in gguf.GGML_QUANT_SIZES.items()}
(FOLDER / "types.json").write_text(json.dumps(types) + "\n")
print(sum(path.stat().st_size for path in FOLDER.iterdir()), "bytes")
