"""Makes tests/data/odd: two small models, and odd but legal folders and GGUF files of them as tables of changes, with
what transformers computes of each.

    python3 -m venv .venv && .venv/bin/pip install torch 'transformers==5.24.*' gguf safetensors
    .venv/bin/python scripts/oracle/odd_files.py

Run with PyTorch 2.8, transformers 5.24, safetensors 0.8 and gguf 0.19; crates/gradloom-cli/tests/odd_files.rs makes
the same files of the same tables.

    gpt2.safetensors, llama.safetensors   the tensors of two models, all of them exact in 16 bits
    folders.json    of each folder `base`, `config` (the text of config.json), `generation` (the text of
                    generation_config.json, or null), `tensors` (of each file its metadata and its tensors: name,
                    dtype, and what it is made of; or a name that says all) and `files` (others, by name)
    ggufs.json      of each file `base`, `header` (all before the data, base64), `data` (as `tensors`)

Both have `loss` (of TEXT), `tokens` (the ten likeliest after PROMPT) and `ends` (tokens that end a text).
A tensor is made of [NAME, CHANGE..], where changes are: negated, transposed, permuted-N (rows of heads, as
llama.cpp has them), zeros (of NAME's shape).
"""

import base64
import copy
import json
import pathlib
import struct
import tempfile

import gguf
import numpy
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

HERE = pathlib.Path(__file__).parents[2] / "tests/data/odd"
TEXT = "It was the best of times, it was the worst of times."
PROMPT = "Times"
torch.manual_seed(20261128)
logging.set_verbosity_error()

SIZE = dict(vocab_size=256)
GPT2 = GPT2Config(**SIZE, n_positions=64, n_embd=16, n_layer=2, n_head=2, n_inner=24, initializer_range=0.4,
                  bos_token_id=0, eos_token_id=0)
LLAMA = LlamaConfig(**SIZE, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=4, max_position_embeddings=64, initializer_range=0.4,
                    bos_token_id=1, eos_token_id=2)


def ids(text):
    return torch.tensor([list(text.encode())])


def base_of(model, config):
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
        # Few bits: exact as f16 and bf16.
        parameter.data = (parameter.data * 32).round().clamp(-120, 120) / 32
    # Greedy texts are of ASCII's characters.
    for name in ["transformer.wte.weight", "model.embed_tokens.weight", "lm_head.weight"]:
        if name in model.state_dict():
            model.state_dict()[name][128:] = 0
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight")
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        config = json.loads(pathlib.Path(folder, "config.json").read_text())
    config.pop("transformers_version")
    config |= {"dtype": "float32", "architectures": [type(model).__name__]}
    return config, state


BASES = {
    "gpt2": base_of(GPT2LMHeadModel(GPT2), GPT2),
    "llama": base_of(LlamaForCausalLM(LLAMA), LLAMA),
}


def made(base, of):
    """The elements of a tensor, float32."""
    name, *changes = of
    array = BASES[base][1][name]
    for change in changes:
        if change == "negated":
            array = -array
        elif change == "transposed":
            array = array.T
        elif change == "zeros":
            array = numpy.zeros_like(array)
        elif change.startswith("permuted-"):
            heads = int(change.removeprefix("permuted-"))
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
    return numpy.ascontiguousarray(array)


def in_dtype(array, dtype):
    """Bytes of the elements, as files have them."""
    return torch.from_numpy(array).to(getattr(torch, dtype)).contiguous().view(torch.uint8).numpy().tobytes()


SHORT = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}


def write_file(path, base, metadata, tensors):
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, of in tensors:
        array = made(base, of)
        bytes = in_dtype(array, dtype)
        header[name] = {"dtype": SHORT[dtype], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(bytes)]}
        data += bytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def computed(model):
    with torch.no_grad():
        text = ids(TEXT)
        loss = model(text, labels=text).loss.item()
        prompt = ids(PROMPT)
        for _ in range(10):
            logits = model(prompt).logits[0, -1]
            assert logits.argmax() < 128
            first, second = logits.topk(2).values.tolist()
            assert first - second > 1e-3, "two tokens are as likely"
            prompt = torch.cat([prompt, logits.argmax()[None, None]], 1)
    return round(loss, 5), prompt[0, len(PROMPT):].tolist()


folders = []


def folder(name, base, set={}, remove=(), generation=None, dtype="float32", rename=lambda name: name, drop=(), add=(),
           metadata={"format": "pt"}, shards=None, file="model.safetensors", files={}, order=1):
    config = copy.deepcopy(BASES[base][0])
    for key in remove:
        del config[key]
    config |= set
    dtypes = dtype if callable(dtype) else lambda _: dtype
    tensors = [[rename(old), dtypes(old), [old]] for old in list(BASES[base][1])[::order] if old not in drop]
    tensors += [list(tensor) for tensor in add]
    shards = shards or [file]
    parts = {shard: [metadata, tensors[i::len(shards)]] for i, shard in enumerate(shards)}
    files = dict(files)
    if len(shards) > 1 or shards[0] not in ("model.safetensors",):
        weight_map = {tensor[0]: shard for shard, (_, part) in parts.items() for tensor in part}
        files.setdefault("model.safetensors.index.json", json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    case = {"name": name, "base": base, "config": json.dumps(config), "generation": generation, "tensors": parts, "files": files}
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "config.json").write_text(json.dumps(config))
        if generation is not None:
            (place / "generation_config.json").write_text(generation)
        for shard, (metadata, part) in parts.items():
            write_file(place / shard, base, metadata, part)
        for other, text in files.items():
            (place / other).write_text(text)
        try:
            model, info = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, output_loading_info=True)
        except Exception as error:
            raise SystemExit(f"{name}: transformers: {error}")
        assert not info["missing_keys"], (name, info)
        case["loss"], case["tokens"] = computed(model.eval())
        ends = model.generation_config.eos_token_id
        case["ends"] = [] if ends is None else ends if isinstance(ends, list) else [ends]
    folders.append(case)
    return case


def without(prefix):
    return lambda name: name.removeprefix(prefix)


for base, embedding, prefix in [("gpt2", "transformer.wte.weight", "transformer."), ("llama", "model.embed_tokens.weight", "model.")]:
    say = lambda name: f"{base}, {name}"
    tokens = folder(say("as it is"), base)["tokens"]
    end = lambda at: tokens[at]
    lists = [end(3), 0, 99]
    # What files say of the end of a text.
    folder(say("ends in the configuration"), base, {"eos_token_id": lists})
    folder(say("no end"), base, {"eos_token_id": None})
    folder(say("no word of an end"), base, remove=["eos_token_id", "bos_token_id"])
    folder(say("ends in generation_config"), base, generation=json.dumps({"eos_token_id": lists}))
    folder(say("one end in generation_config"), base, generation=json.dumps({"eos_token_id": end(5)}))
    folder(say("another end in generation_config"), base, {"eos_token_id": end(2)}, generation=json.dumps({"eos_token_id": [end(6)]}))
    folder(say("numbers that JSON does not have"), base, generation=json.dumps({"eos_token_id": lists, "max_time": float("inf"), "temperature": float("nan"), "x": [-float("inf"), "Infinity"]}))
    folder(say("a configuration with such numbers"), base, {"eos_token_id": lists, "odd": float("inf"), "odder": [float("nan"), "a\"Infinity\\"]})
    folder(say("generation_config of a chat"), base, generation=json.dumps({"bos_token_id": 1, "do_sample": True, "eos_token_id": [end(4), 5], "pad_token_id": 5, "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.43.0"}, indent=2))
    # The output layer and the embedding.
    tied = {"tie_word_embeddings": True}
    no_head = ["lm_head.weight"]
    own = [("lm_head.weight", "float32", [embedding, "negated"])]
    folder(say("tied, with a head of its own"), base, tied, drop=no_head, add=own)
    folder(say("tied, with a head of its own in 16 bits"), base, tied, drop=no_head, add=[("lm_head.weight", "bfloat16", [embedding, "negated"])])
    folder(say("tied, with its copy"), base, tied, drop=no_head, add=[("lm_head.weight", "float32", [embedding])])
    folder(say("tied, with its copy in 16 bits"), base, tied, drop=no_head, add=[("lm_head.weight", "bfloat16", [embedding])])
    folder(say("untied"), base, {"tie_word_embeddings": False}, drop=no_head, add=own)
    folder(say("untied, with a copy"), base, {"tie_word_embeddings": False}, drop=no_head, add=[("lm_head.weight", "float16", [embedding])])
    head = [("lm_head.weight", "float32", [embedding])]
    folder(say("of save_model"), base, tied, drop=no_head + [embedding], add=head, metadata={embedding: "lm_head.weight"})
    folder(say("of save_model, the other way"), base, tied, drop=no_head, metadata={"lm_head.weight": embedding, "format": "pt"})
    folder(say("the head alone, without a note"), base, tied, drop=no_head + [embedding], add=head)
    folder(say("tied in shards, with a head of its own"), base, tied, drop=no_head, add=own, shards=["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"])
    # Types, names and files.
    for dtype in ["float16", "bfloat16", "float64"]:
        folder(say(f"as {dtype}"), base, {"dtype": dtype}, dtype=dtype)
    folder(say("of several types"), base, remove=["dtype"], dtype=lambda name: ["float32", "float16", "bfloat16"][len(name) % 3])
    folder(say("torch_dtype"), base, {"torch_dtype": "float16"}, remove=["dtype"], dtype="float16")
    folder(say("in shards of odd names"), base, shards=["a.safetensors", "z b.safetensors", "m.safetensors"])
    folder(say("in one file with an index"), base, shards=["weights.safetensors"])
    folder(say("in another order"), base, order=-1)
    folder(say("without metadata"), base, metadata=None)
    folder(say("with odd metadata"), base, metadata={"format": "pt", "a": "b", "über": "\n"})
    folder(say("architectures and others unsaid"), base, remove=["architectures", "dtype", "use_cache", "initializer_range", "pad_token_id"])
    folder(say("with keys of others"), base, {"_name_or_path": "/x", "task_specific_params": {"text-generation": {"do_sample": True}}, "id2label": {"0": "a"}, "x": None})
    folder(say("other files beside it"), base, files={"README.md": "# A model", "training_args.txt": "x", "adapter.txt": ""})

folder("gpt2, without its prefix", "gpt2", rename=without("transformer."))
folder("gpt2, without its prefix, untied", "gpt2", {"tie_word_embeddings": False}, rename=without("transformer."), add=[("lm_head.weight", "float32", ["transformer.wte.weight", "negated"])])
folder("gpt2, sizes under their other names", "gpt2", {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 64}, remove=["n_embd", "n_head", "n_layer", "n_positions"])
folder("gpt2, n_ctx and old keys", "gpt2", {"n_ctx": 64, "predict_special_tokens": True, "output_past": True})
folder("gpt2, what is usual left out", "gpt2", remove=["activation_function", "layer_norm_epsilon", "scale_attn_weights", "tie_word_embeddings", "add_cross_attention", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"])
for activation in ["gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "gelu_python_tanh"]:
    folder(f"gpt2, {activation}", "gpt2", {"activation_function": activation})
folder("gpt2, masks of old files", "gpt2", add=[(f"transformer.h.{i}.attn.{name}", "float32", ["transformer.wpe.weight", "zeros"]) for i in range(2) for name in ["bias", "masked_bias"]])
folder("llama, rope_theta of version 4", "llama", {"rope_theta": 500.0, "rope_scaling": None}, remove=["rope_parameters"])
folder("llama, rope_theta alone", "llama", {"rope_theta": 20000.0}, remove=["rope_parameters"])
folder("llama, no rope", "llama", remove=["rope_parameters"])
folder("llama, linear scaling of version 4", "llama", {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}}, remove=["rope_parameters"])
folder("llama, linear scaling", "llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}})
folder("llama, llama3's scaling", "llama", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}})
folder("llama, swish", "llama", {"hidden_act": "swish"})
folder("llama, what is usual left out", "llama", remove=["hidden_act", "rms_norm_eps", "attention_bias", "mlp_bias", "tie_word_embeddings", "head_dim", "attention_dropout", "pretraining_tp"])
folder("llama, the context left out", "llama", remove=["max_position_embeddings"])
folder("llama, head_dim null", "llama", {"head_dim": None})
folder("llama, angles of old files", "llama", add=[(f"model.layers.{i}.self_attn.rotary_emb.inv_freq", "float32", ["model.norm.weight", "zeros"]) for i in range(2)])
folder("llama, as mistral", "llama", {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None})
folder("llama, as mistral with a window", "llama", {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 64})
folder("llama, as mistral with the usual window", "llama", {"model_type": "mistral", "architectures": ["MistralForCausalLM"]})

LAYOUTS = {
    "gpt2": [("token_embd.weight", ["transformer.wte.weight"]), ("position_embd.weight", ["transformer.wpe.weight"]),
             ("output_norm.weight", ["transformer.ln_f.weight"]), ("output_norm.bias", ["transformer.ln_f.bias"])],
    "llama": [("token_embd.weight", ["model.embed_tokens.weight"]), ("output_norm.weight", ["model.norm.weight"]), ("output.weight", ["lm_head.weight"])],
}
for block in range(2):
    h, blk = f"transformer.h.{block}", f"blk.{block}"
    for part, ours in [("attn_qkv", "attn.c_attn"), ("attn_output", "attn.c_proj"), ("ffn_up", "mlp.c_fc"), ("ffn_down", "mlp.c_proj")]:
        LAYOUTS["gpt2"] += [(f"{blk}.{part}.weight", [f"{h}.{ours}.weight", "transposed"]), (f"{blk}.{part}.bias", [f"{h}.{ours}.bias"])]
    for part, ours in [("attn_norm", "ln_1"), ("ffn_norm", "ln_2")]:
        LAYOUTS["gpt2"] += [(f"{blk}.{part}.{kind}", [f"{h}.{ours}.{kind}"]) for kind in ["weight", "bias"]]
    layer = f"model.layers.{block}"
    LAYOUTS["llama"] += [
        (f"{blk}.attn_norm.weight", [f"{layer}.input_layernorm.weight"]), (f"{blk}.attn_q.weight", [f"{layer}.self_attn.q_proj.weight", "permuted-4"]),
        (f"{blk}.attn_k.weight", [f"{layer}.self_attn.k_proj.weight", "permuted-2"]), (f"{blk}.attn_v.weight", [f"{layer}.self_attn.v_proj.weight"]),
        (f"{blk}.attn_output.weight", [f"{layer}.self_attn.o_proj.weight"]), (f"{blk}.ffn_norm.weight", [f"{layer}.post_attention_layernorm.weight"]),
        (f"{blk}.ffn_gate.weight", [f"{layer}.mlp.gate_proj.weight"]), (f"{blk}.ffn_up.weight", [f"{layer}.mlp.up_proj.weight"]),
        (f"{blk}.ffn_down.weight", [f"{layer}.mlp.down_proj.weight"]),
    ]
TYPES = gguf.GGUFValueType
ggufs = []
NUMPY = {"float32": numpy.float32, "float16": numpy.float16}


def gguf_file(name, base, metadata={}, remove=(), dtype="float32", order=1, output=None, loss_of=None, ends=(), alignment=None, version=3, raw=None):
    """`metadata`: key: (type, value); arrays are ([type], values). `output` replaces the output layer."""
    a = base
    usual = {f"{a}.context_length": (TYPES.UINT32, 64), f"{a}.embedding_length": (TYPES.UINT32, 16),
             f"{a}.feed_forward_length": (TYPES.UINT32, 24), f"{a}.block_count": (TYPES.UINT32, 2),
             f"{a}.attention.head_count": (TYPES.UINT32, 2 if base == "gpt2" else 4)}
    if base == "gpt2":
        usual["gpt2.attention.layer_norm_epsilon"] = (TYPES.FLOAT32, 1e-5)
    else:
        usual |= {"llama.attention.layer_norm_rms_epsilon": (TYPES.FLOAT32, 1e-6), "llama.attention.head_count_kv": (TYPES.UINT32, 2),
                  "llama.rope.dimension_count": (TYPES.UINT32, 4), "llama.rope.freq_base": (TYPES.FLOAT32, 10000.0)}
    for key in remove:
        del usual[key]
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place, "model.gguf")
        writer = gguf.GGUFWriter(path, base)
        if alignment:
            writer.add_custom_alignment(alignment)
        for key, (ty, value) in (usual | metadata).items():
            if isinstance(ty, list):
                writer.add_key_value(key, value, TYPES.ARRAY, sub_type=ty[0])
            else:
                writer.add_key_value(key, value, ty)
        layout = [entry for entry in LAYOUTS[base] if entry[0] != "output.weight" or output is None]
        if output:
            layout.append(("output.weight", output))
        data = []
        for tensor, of in layout[::order]:
            array = made(base, of)
            kind = dtype(tensor) if callable(dtype) else dtype
            kind = "float32" if array.ndim == 1 else kind
            data.append([tensor, kind, of])
            if kind == "bfloat16":
                bits = numpy.frombuffer(in_dtype(array, kind), numpy.uint8).reshape(array.shape[0], -1)
                writer.add_tensor(tensor, bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
            else:
                writer.add_tensor(tensor, array.astype(NUMPY[kind]))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        bytes = path.read_bytes()
        if raw:
            bytes = raw(bytes)
            path.write_bytes(bytes)
        reader = gguf.GGUFReader(path)
        # The elements, as the package reads them, in transformers' model.
        config, state = copy.deepcopy(BASES[base][0]), {}
        for tensor in reader.tensors:
            of = dict(layout)[tensor.name]
            array = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            array = numpy.array(array, dtype=numpy.float32).reshape([int(n) for n in tensor.shape[::-1]])
            assert (array == made(base, of)).all(), tensor.name
            target = "lm_head.weight" if tensor.name == "output.weight" else of[0]
            state[target] = torch.from_numpy(made(base, [of[0], *[c for c in of[1:] if c in ("negated", "zeros")]]).copy())
        model = AutoModelForCausalLM.from_config(__import__("transformers").AutoConfig.for_model(**(config | (loss_of or {})) | {"tie_word_embeddings": "lm_head.weight" not in state}))
        missing, unexpected = model.load_state_dict(state, strict=False)
        assert set(missing) <= {"lm_head.weight"} and not unexpected, (name, missing, unexpected)
        model.tie_weights()
        case = {"name": f"{base}, {name}", "base": base, "data": data}
        case["alignment"] = alignment or 32
        at = min(tensor.data_offset for tensor in reader.tensors)
        case["header"] = base64.b64encode(bytes[:at]).decode()
        case["loss"], case["tokens"] = computed(model.eval())
        case["ends"] = [case["tokens"][end] for end in ends]
    ggufs.append(case)
    return case


def patched(old, new):
    assert len(old) == len(new)

    def patch(bytes):
        assert bytes.count(old) == 1
        return bytes.replace(old, new)

    return patch


def byte_tokens():
    """The tokens of bytes, as GPT-2 spells them."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode
    return [bytes_to_unicode()[i] for i in range(256)]


U32, I32, STR = TYPES.UINT32, TYPES.INT32, TYPES.STRING
for base in ["gpt2", "llama"]:
    heads = 2 if base == "gpt2" else 4
    tokens = gguf_file("as it is", base)["tokens"]
    T = "tokenizer.ggml."
    tokenizer = {T + "model": (STR, "gpt2"), T + "pre": (STR, "gpt-2"), T + "tokens": ([STR], byte_tokens()), T + "token_type": ([I32], [1] * 256)}
    gguf_file("a description that is not UTF-8", base, {"general.description": (STR, "caf__ of odd texts")}, raw=patched(b"caf__ of", b"caf\xe9\xff of"))
    gguf_file("padding by -1", base, {T + "padding_token_id": (U32, 0xFFFFFFFF), T + "eos_token_id": (U32, tokens[4])}, ends=[4])
    gguf_file("ids as i32, -1 for none", base, {T + "padding_token_id": (I32, -1), T + "bos_token_id": (I32, -1), T + "eos_token_id": (I32, tokens[5])}, ends=[5])
    gguf_file("an end of turn", base, {T + "eot_token_id": (U32, tokens[3]), T + "eos_token_id": (U32, 0)}, ends=[3])
    gguf_file("an end of message alone", base, {T + "eom_token_id": (U32, tokens[6])}, ends=[6])
    gguf_file("three ends", base, {T + "eom_token_id": (U32, tokens[7]), T + "eot_token_id": (U32, tokens[2]), T + "eos_token_id": (U32, tokens[5])}, ends=[2, 5, 7])
    gguf_file("a tokenizer", base, tokenizer | {T + "eos_token_id": (U32, tokens[5])}, ends=[5])
    gguf_file("undefined types of tokens", base, tokenizer | {T + "token_type": ([I32], [0] * 256), T + "eot_token_id": (U32, tokens[5])}, ends=[5])
    double = byte_tokens()
    double[0] = double[3] = double[1]
    gguf_file("equal tokens", base, tokenizer | {T + "tokens": ([STR], double), T + "eot_token_id": (U32, tokens[5])}, ends=[5])
    gguf_file("scores beside bytes", base, tokenizer | {T + "scores": ([TYPES.FLOAT32], [0.0] * 256)})
    gguf_file("a size for each layer", base, {f"{base}.attention.head_count": ([U32], [heads] * 2), f"{base}.feed_forward_length": ([I32], [24] * 2)})
    gguf_file("sizes in 64 bits", base, {f"{base}.context_length": (TYPES.UINT64, 64), f"{base}.block_count": (TYPES.INT64, 2), f"{base}.embedding_length": (TYPES.UINT16, 16)})
    gguf_file("alignment of 64", base, alignment=64)
    gguf_file("f16", base, dtype="float16")
    gguf_file("bf16", base, dtype="bfloat16")
    gguf_file("several types", base, dtype=lambda name: ["float32", "float16", "bfloat16"][len(name) % 3])
    gguf_file("tensors in another order", base, order=-1)
    gguf_file("keys of others", base, {"x.y": ([TYPES.FLOAT64], [1.5, 2.5]), "general.quantization_version": (U32, 2), "general.file_type": (U32, 0), "z": (TYPES.BOOL, True), "general.tags": ([STR], ["a", "b"])})
    gguf_file("settings of sampling", base, {"general.sampling.temp": (TYPES.FLOAT32, 0.6), "general.sampling.top_k": (I32, 20), T + "eos_token_id": (U32, tokens[6])}, ends=[6])
gguf_file("an output layer of its own", "gpt2", output=["transformer.wte.weight", "negated"])
gguf_file("a copy of the embedding", "gpt2", output=["transformer.wte.weight"])
gguf_file("a copy in another type", "gpt2", output=["transformer.wte.weight"], dtype=lambda name: "float16" if name == "output.weight" else "float32")
gguf_file("what is usual left out", "llama", remove=["llama.rope.dimension_count", "llama.rope.freq_base"])
gguf_file("heads of keys for each layer", "llama", {"llama.attention.head_count_kv": ([I32], [2, 2]), "llama.attention.value_length": ([U32], [4, 4]), "llama.attention.key_length": (U32, 4)})
gguf_file("the embedding as output", "llama", output=["model.embed_tokens.weight"])
gguf_file("linear scaling", "llama", {"llama.rope.scaling.type": (STR, "linear"), "llama.rope.scaling.factor": (TYPES.FLOAT32, 2.0)}, loss_of={"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}})

def short(tensor):
    """The name alone, where the tensor is the one of this name as it is."""
    name, dtype, of = tensor
    return name if (dtype, of) == ("float32", [name]) else tensor


for case in folders:
    case["tensors"] = {file: [metadata, [short(tensor) for tensor in part]] for file, (metadata, part) in case["tensors"].items()}
for case in ggufs:
    case["data"] = [short([of[0], dtype, of]) for _, dtype, of in case["data"]]
HERE.mkdir(parents=True, exist_ok=True)
for base, (_, state) in BASES.items():
    from safetensors.torch import save_file as save_torch
    save_torch({name: torch.from_numpy(array).bfloat16() for name, array in state.items()}, HERE / f"{base}.safetensors")
for name, cases in [("folders", folders), ("ggufs", ggufs)]:
    text = {"text": TEXT, "prompt": PROMPT, "cases": cases}
    (HERE / f"{name}.json").write_text(json.dumps(text, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
print(len(folders), "folders,", len(ggufs), "files of GGUF,", sum(path.stat().st_size for path in HERE.iterdir()), "bytes")
