"""Makes tests/data/tokenizers: small tokenizers, and digests of the ids that the package `tokenizers` gives.

    python3 -m venv .venv && .venv/bin/pip install tokenizers transformers jinja2
    .venv/bin/python scripts/oracle/tokenizer_files.py

Run with tokenizers 0.23 and transformers 5.24; `crates/gradloom-models/tests/tokenizers` reads the files.

- `gpt2`: a byte-pair encoding over bytes, as `vocab.json` and `merges.txt`.
- `llama3`: one with words by another pattern and with tokens around a text.
- `llama2`: one over characters, with bytes for those that it lacks.
- `digests.json`: for each of them, digests of the ids of 10,000 lines, one for each hundred, in three modes: with the
  special tokens added that belong around a text, with those found that stand in it, and with those as plain text;
  `decoded` has those of the lines made of the ids. Test and script make the lines from `fragments.json`, by `lines`.
- `chats.json`: chat templates, messages, and the texts of transformers.
"""

import hashlib
import json
import pathlib

import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FOLDER = pathlib.Path(__file__).parents[2] / "tests/data/tokenizers"

# Ranges of characters from which runs are drawn: Latin, Greek, Cyrillic, Hebrew, Arabic, Devanagari, Hangul, CJK,
# combining marks, punctuation, arrows, private use, emoji, Gothic.
RANGES = [
    [0x20, 0x5F], [0xA1, 0x15F], [0x391, 0x39], [0x410, 0x40], [0x5D0, 0x1B], [0x621, 0x2A], [0x905, 0x35],
    [0xAC00, 0x100], [0x4E00, 0x200], [0x300, 0x70], [0x2000, 0x70], [0x2190, 0x70], [0xE000, 0x20],
    [0x1F300, 0x200], [0x10330, 0x1B],
]
FRAGMENTS = [
    " ", " ", " ", " ", "  ", "    ", "\t", "\t\t", "\r", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2028", "\x00",
    "the", " the", "The", " of", "and ", " tensor", "compile", "gradient", "don't", "I'll", " WE'VE", "it's", " naïve",
    "Größe", " straße", "ﬁ", "e\u0301", "n\u0303o", "a\u0308\u0323", "Å", "Ω", "İstanbul", "ß", "ǆ",
    "0", "1", "42", " 2026", "3.14159", "1,234,567", "-1e-9", "0xFF", "١٢٣", "½", "Ⅷ", "٣",
    ".", ",", "!", "?!", "...", "…", "--", "—", "(", ")", "[0]", "{", "}", ";", ":", "::", "->", "=>", "==", "!=", "&&",
    "\"quoted\"", "'", "`code`", "@user", "#tag", "http://example.org/a?b=c&d", "a_b_c", "camelCase", "SHOUT",
    "fn main() {", "    let x = vec![0u8; 16];", "def f(a, b=None):", "return x[i] * 2.0", "// a comment", "#include <x.h>",
    "<p class=\"a\">", "&amp;", "\\n\\t\\\\", "$\\alpha^2$",
    "日本語", "東京タワー", "中文字符", "。", "、", "한국어", "조선말", "עברית", "العربية", "مَرْحَبًا", "हिन्दी", "ไทย", "ქართული", "አማርኛ",
    "🧵", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "❤️", "1️⃣", "😀😀", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "\u200f", "\u202e", "\u2066",
    "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<|end|", "<|", "|>", "<s>", "</s>", "<unk>", "<0x0A>", "<0xE6>",
    "▁", "▁▁", "Ġ", "Ċ", "\ufffd", "\ufffe", "\ue000", "\U0010ffff", "\x7f", "\x1b[0m", "ÃĨ", "�(", "Ã¤",
]
LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def lines(count):
    """Lines of up to twelve fragments or runs of characters; the numbers are those of a linear congruence."""
    state = 1

    def below(n):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % n

    for _ in range(count):
        line = ""
        for _ in range(below(13)):
            if below(4) > 0:
                line += FRAGMENTS[below(len(FRAGMENTS))]
            else:
                first, span = RANGES[below(len(RANGES))]
                line += "".join(chr(first + below(span)) for _ in range(1 + below(6)))
        yield line


def write(name, text):
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def trained(tokenizer, size, special, **options):
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, show_progress=False, special_tokens=special, **options,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if tokenizer.decoder else [],
    )
    # No merge leads to the token of a byte.
    tokenizer.train_from_iterator([line.replace("<0x", "") for line in lines(3000)], trainer)
    return json.loads(tokenizer.to_str())


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    file = trained(tokenizer, 600, ["<|endoftext|>"])
    write("gpt2/vocab.json", compact(file["model"]["vocab"]))
    merges = "".join(f"{left} {right}\n" for left, right in file["model"]["merges"])
    write("gpt2/merges.txt", "#version: 0.2\n" + merges)
    # Read anew, as transformers would.
    tokenizer = Tokenizer(models.BPE.from_file(str(FOLDER / "gpt2/vocab.json"), str(FOLDER / "gpt2/merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
    return tokenizer


def llama3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    split = pre_tokenizers.Split(Regex(LLAMA3_WORDS), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trained(tokenizer, 560, [])
    names = ["begin_of_text", "end_of_text", "start_header_id", "end_header_id", "eot_id"]
    tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", normalized=False, special=True) for name in names])
    begin = "<|begin_of_text|>"
    template = processors.TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1", special_tokens=[(begin, tokenizer.token_to_id(begin))]
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    write("llama3/tokenizer.json", compact(json.loads(tokenizer.to_str())))
    write("llama3/tokenizer_config.json", compact({"bos_token": begin, "eos_token": "<|end_of_text|>"}))
    return tokenizer


def llama2():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    # Half of the characters are left to the bytes.
    file = trained(tokenizer, 1100, special + [f"<0x{byte:02X}>" for byte in range(256)], limit_alphabet=300)
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] in special]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    write("llama2/tokenizer.json", compact(json.loads(tokenizer.to_str())))
    roles = {"bos_token": {"content": "<s>", "special": True}, "eos_token": "</s>", "unk_token": "<unk>"}
    write("llama2/special_tokens_map.json", compact(roles))
    return tokenizer


def digest(rows):
    """Digests of a hundred rows each, of ids (32 bits, little-endian, all ones after a row) or of text."""
    digests = []
    for at in range(0, len(rows), 100):
        block = hashlib.sha256()
        for row in rows[at : at + 100]:
            if isinstance(row, str):
                block.update(row.encode() + b"\xff")
            else:
                block.update(b"".join(id.to_bytes(4, "little") for id in [*row, 0xFFFFFFFF]))
        digests.append(block.hexdigest()[:12])
    return digests


def digests(tokenizer):
    text = list(lines(10_000))
    found = [tokenizer.encode(line, add_special_tokens=False).ids for line in text]
    result = {
        "found": digest(found),
        "added": digest([tokenizer.encode(line).ids for line in text]),
        "decoded": digest([tokenizer.decode(ids, skip_special_tokens=False) for ids in found]),
    }
    tokenizer.encode_special_tokens = True
    result["text"] = digest([tokenizer.encode(line, add_special_tokens=False).ids for line in text])
    return result


TEMPLATES = {
    "blocks": """{%- if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
    {%- for message in messages %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
    {% endfor %}
    {% if add_generation_prompt %}
{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
    {%- endif %}
""",
    "turns": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}
{% set system = '<<' + messages[0]['content'].strip() + '>>\\n' %}{% else %}{% set rest = messages %}
{% set system = '' %}{% endif %}
{% for message in rest %}
  {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
    {{ raise_exception('roles must alternate') }}
  {% endif %}
  {% if message.role == 'user' -%}
    [Q] {{ (system if loop.first else '') ~ message.content.strip() }} [/Q]
  {%- elif message.role == 'assistant' %}
 {{ message.content.split('[/Q]')[-1].lstrip() }}{{ eos_token }}
  {%- endif %}
{% endfor %}""",
    "names": """{%- macro show(message, depth=1) -%}
{{ '#' * depth }} {{ message.role | capitalize }}: {{ message | tojson }}
{%- endmacro -%}
{%- set ns = namespace(count=0, last='') -%}
{%- for message in messages -%}
{%- if message.role.startswith('s') %}{% continue %}{% endif -%}
{%- if ns.count >= 3 %}{% break %}{% endif -%}
{%- set ns.count = ns.count + 1 -%}{%- set ns.last = message.role.upper() -%}
{{ show(message, depth=ns.count) }}{{ '\\n' if not loop.last }}
{%- endfor -%}
[{{ ns.count }} {{ ns.last }} {{ messages | map(attribute='role') | join(',') }} {{ messages[-1].content | length }}
{{- ' ' ~ {'b': [1, 2.5, none, true], 'a': '<é>'} | tojson }}{{ {'x': {}} | tojson(indent=2) }}]
{{ tools is defined and not tools }} {{ tools }} {{ 'x' in 'xyz' }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}
""",
}
CHATS = [
    [["user", "Hello"]],
    [["system", " Be brief.\n"], ["user", " 2 < 3 & 'a' \"b\" \\ ?"], ["assistant", "Yes [/Q] no 文🧵"], ["user", "\n"]],
    [["assistant", "first"], ["assistant", "again"], ["tool", ""], ["user", "{{ 7 }}{% x %}"]],
]


def chats(tokenizer):
    rows = []
    for name, template in TEMPLATES.items():
        for chat in CHATS:
            for prompt in [False, True]:
                messages = [{"role": role, "content": content} for role, content in chat]
                fast = transformers.PreTrainedTokenizerFast(
                    tokenizer_object=tokenizer, bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>"
                )
                try:
                    text = fast.apply_chat_template(
                        messages, chat_template=template, tokenize=False, add_generation_prompt=prompt
                    )
                except Exception as error:
                    text = None
                    print(name, chat, type(error).__name__, error)
                rows.append({"template": name, "messages": messages, "prompt": prompt, "text": text})
    return {"templates": TEMPLATES, "chats": rows}


TOKENIZERS = {"gpt2": gpt2(), "llama3": llama3(), "llama2": llama2()}
write("fragments.json", compact({"fragments": FRAGMENTS, "ranges": RANGES}))
write("chats.json", json.dumps(chats(TOKENIZERS["llama3"]), ensure_ascii=False, indent=1) + "\n")
write("digests.json", compact({name: digests(tokenizer) for name, tokenizer in TOKENIZERS.items()}))
