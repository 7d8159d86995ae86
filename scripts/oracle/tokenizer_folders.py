"""Makes tests/data/tokenizers/folders.json: folders of tokenizers whose tokens and roles are named in several files,
with the ids and the roles of transformers' AutoTokenizer.

    python3 -m venv .venv && .venv/bin/pip install 'transformers==5.24.*' jinja2
    .venv/bin/python scripts/oracle/tokenizer_folders.py

Run with transformers 5.24 and tokenizers 0.23; `crates/gradloom-models/tests/tokenizers/folders.rs` reads the file:

    text    what is encoded
    chat    a chat template that says all named tokens
    files   texts of files by name, `one` with a tokenizer.json and `two` with vocab.json and merges.txt
    cases   of each `name`, `base` (a key of `files`), `model` (the model_type of config.json), `files` (others by
            name), `added` and `found` (ids with and without the tokens around a text), `size` (tokens of all),
            `tokens` (the named ones) and `chat` (the template's text)
"""

import json
import logging
import pathlib
import tempfile

from transformers import AutoTokenizer
from transformers.utils import logging as of_transformers

HERE = pathlib.Path(__file__).parents[2] / "tests/data/tokenizers"
TEXT = "Hello world é <|im|> x </s> y<|endoftext|> <|b|>he <s>"
NAMES = ["bos", "eos", "unk", "sep", "pad", "cls", "mask", "image"]
CHAT = "".join("{{ %s_token }};" % name for name in NAMES)
of_transformers.set_verbosity_error()
logging.disable(logging.WARNING)


def alphabet():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in kept]
    return {chr(byte if byte in kept else 256 + others.index(byte)): byte for byte in range(256)}


def token(content, **flags):
    return dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) | flags


def typed(content, **flags):
    return {"__type": "AddedToken"} | token(content, **flags)


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
FILE = {
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [{"id": 257} | token("</s>"), {"id": 258} | token("<s>")],
    "normalizer": None, "pre_tokenizer": BYTES, "post_processor": None, "decoder": BYTES,
    "model": {"type": "BPE", "vocab": alphabet() | {"he": 256}, "merges": [["h", "e"]]},
}
TWO = alphabet() | {"he": 256, "<|endoftext|>": 257}
BASES = {
    "one": {"tokenizer.json": json.dumps(FILE, ensure_ascii=False)},
    "two": {"vocab.json": json.dumps(TWO, ensure_ascii=False), "merges.txt": "#version: 0.2\nh e\n"},
}
cases = []


def case(name, base, config=None, map=None, added=None, model="gpt2"):
    files = {"tokenizer_config.json": config, "special_tokens_map.json": map, "added_tokens.json": added}
    files = {name: json.dumps(value) for name, value in files.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for file, text in (BASES[base] | files | {"config.json": json.dumps({"model_type": model})}).items():
            (folder / file).write_text(text, encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": "x"}]
    cases.append({
        "name": name, "base": base, "model": model, "files": files, "added": tokenizer(TEXT).input_ids,
        "found": tokenizer(TEXT, add_special_tokens=False).input_ids, "size": len(tokenizer),
        "tokens": tokenizer.special_tokens_map,
        "chat": tokenizer.apply_chat_template(messages, chat_template=CHAT, tokenize=False),
    })
    print(name, type(tokenizer).__name__, len(tokenizer), tokenizer.special_tokens_map, cases[-1]["added"][:3])


GPT2 = {"tokenizer_class": "GPT2Tokenizer"}
case("two files", "two")
case("two files, added_tokens.json", "two", GPT2, added={"<|im|>": 258, "<|b|>": 259})
case("two files, added_tokens.json with a role", "two", GPT2 | {"pad_token": "<|im|>"}, added={"<|im|>": 258})
case("two files, added_tokens.json with a gap", "two", added={"<|b|>": 300, "<|im|>": 270})
case("two files, added_tokens_decoder", "two", GPT2 | {"added_tokens_decoder": {"258": token("<|im|>", lstrip=True)}})
case("two files, add_prefix_space", "two", GPT2 | {"add_prefix_space": True})
case("two files, add_bos_token", "two", GPT2 | {"add_bos_token": True})
case("two files, add_bos_token and add_eos_token", "two", {"add_bos_token": True, "add_eos_token": True, "eos_token": "he"})
case("two files, add_eos_token without one", "two", GPT2 | {"add_eos_token": True, "eos_token": None})
case("two files, unknown roles", "two", GPT2 | {"bos_token": "<|b|>", "mask_token": typed("<|im|>", lstrip=True)})
case("two files, null in the map", "two", GPT2 | {"bos_token": "he"}, map={"bos_token": None, "eos_token": token("</s>", rstrip=True)})
for base in ["gpt2", "llama"]:
    for kind in [None, "PreTrainedTokenizerFast" if base == "gpt2" else "GPT2TokenizerFast"]:

        def of(name, config, **others):
            config = config if kind is None else {"tokenizer_class": kind} | config
            case(f"{name} ({base}, {kind})", "one", config, model=base, **others)

        roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<s>"}
        of("plain", roles)
        of("add_prefix_space", roles | {"add_prefix_space": True})
        of("add_bos_token", roles | {"add_bos_token": True})
        of("a token that the file lacks", roles | {"added_tokens_decoder": {
            "257": token("</s>"), "258": token("<s>"), "259": token("<|im|>", special=False, normalized=True)}})
        of("tokens of the decoder alone", roles | {"added_tokens_decoder": {"257": token("</s>"), "300": token("<|im|>")}})
        of("another rstrip", roles | {"added_tokens_decoder": {
            "257": token("</s>", rstrip=True, lstrip=True), "258": token("<s>", special=False)}})
        of("extra_special_tokens", roles | {"extra_special_tokens": ["<|im|>", typed("<|b|>", lstrip=True)]})
        of("additional_special_tokens", roles | {"additional_special_tokens": ["<|im|>"], "extra_special_tokens": []})
        of("named tokens", roles | {"extra_special_tokens": {"image_token": "<|im|>"}})
        of("a token with a name", roles | {"image_token": "<|im|>", "sep_token": "<|b|>"})
        of("an unknown role", roles | {"eos_token": "<|im|>", "pad_token": "<|im|>"})
        of("a role in the vocabulary", roles | {"pad_token": "he"})
        of("a role with flags", roles | {"eos_token": typed("</s>", rstrip=True), "pad_token": typed("<|b|>", rstrip=True)})
        of("the map counts", roles | {"eos_token": "<s>"}, map={"eos_token": "</s>", "pad_token": token("<|im|>")})
        of("the map counts not", roles | {"eos_token": "<s>", "added_tokens_decoder": {
            "257": token("</s>"), "258": token("<s>")}}, map={"eos_token": "</s>", "pad_token": "<|im|>"}, added={"<|b|>": 259})
        of("extra tokens of the map", roles | {"extra_special_tokens": ["<|im|>"]},
           map={"extra_special_tokens": [{"content": "<|b|>", "rstrip": True}, "<|im|>"]})
        of("additional tokens of the map", roles, map={"additional_special_tokens": ["<|b|>"]})
        of("added_tokens.json", roles, added={"<|im|>": 259, "he": 256})
case("no file of roles (llama)", "one", model="llama")
case("a file of roles alone (llama)", "one", {}, model="llama")
(HERE / "folders.json").write_text(
    json.dumps({"text": TEXT, "chat": CHAT, "files": BASES, "cases": "CASES"}, ensure_ascii=False).replace(
        '"CASES"', "[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]"
    ) + "\n"
)
