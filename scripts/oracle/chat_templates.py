"""Makes tests/data/tokenizers/templates.json: chat templates, messages, and the texts of transformers.

    python3 -m venv .venv && .venv/bin/pip install tokenizers transformers jinja2
    .venv/bin/python scripts/oracle/chat_templates.py

Run with transformers 5.24 and jinja2 3.1.6; `crates/gradloom-models/tests/tokenizers/chats.rs` reads the file. The
clock stands still at NOW. The templates are like those of published models, with all that these use.
"""

import datetime
import json
import pathlib

from transformers.utils import chat_template_utils

FILE = pathlib.Path(__file__).parents[2] / "tests/data/tokenizers/templates.json"
NOW = datetime.datetime(2026, 3, 7, 4, 5, 9, tzinfo=datetime.timezone.utc)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat_template_utils.datetime = Clock

LOOP = "{% for m in messages %}"
TEMPLATES = [
    # ChatML, also with a default system.
    LOOP + "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nBe good.<|im_end|>\\n' }}{% endif %}" + LOOP + "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
    # Generation blocks, with all ways to strip blanks around them.
    LOOP + "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% else %}[{{ m.content }}]{% endif %}{% endfor %}",
    LOOP + "\n  {%- generation -%}  \n {{ m.content }} \n  {%- endgeneration %}\n{% endfor %}",
    LOOP + "\n  {% generation %}\n {{ m.content }} \n  {%+ endgeneration -%}\n!{% endfor %}",
    "{% set x = 'outer' %}{% generation %}{% set x = 'inner' %}{{ x }}{% endgeneration %}{{ x }}",
    "{{ '{% generation %}' }}{# {% generation %} #}{% raw %}{% generation %}{{ '%s' % 1 }}{% endraw %}",
    # Dates.
    "Today is {{ strftime_now('%d %b %Y') }}, {{ strftime_now('%A, %B %d, %Y') }}; {{ strftime_now('%Y-%m-%dT%H:%M:%S') }}",
    "{{ strftime_now('%y %j %a %I %p %e %-d %-m %% %F %T %w %u') }}",
    "{% if strftime_now is defined %}{% set date = strftime_now('%d %b %Y') %}{% else %}{% set date = '26 Jul 2024' %}{% endif %}{{ date }}",
    # Formats.
    LOOP + "{{ '%s: %s\\n' % (m.role, m.content) }}{% endfor %}",
    LOOP + "{{ '<|%s|>' % m.role }}{{ '%d of %d' % (loop.index, messages | length) }}{{ '%s' % m.content | upper }}{% endfor %}",
    "{% set form = '%(role)s=%(content)s' %}" + LOOP + "{{ form % m }}{% endfor %}",
    "{{ '%5d|%-5d|%05d|%+d|%x|%X|%o|%c' % (42, 42, 42, 42, 255, 255, 8, 'z') }}",
    "{{ '%.2f %8.3f %-8.1f| %s %s %s %r' % (1.5, 2.25, 3.75, none, true, 1.0, 'q') }}{{ '100%%' % () }}",
    "{{ '%10s|%-10s|%.2s' % ('right', 'left', 'cut') }}{{ '%s' % [1, 2] }}{{ ('a' ~ '%s') % 'b' }}",
    LOOP + "{{ loop.index0 % 2 }}{{ 7 % 3 * 2 }}{{ 2 * 7 % 4 }}{{ -7 % 3 }}{{ 10 - 7 % 4 }}{{ (loop.index + 5) % 4 }}{% endfor %}",
    LOOP + "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}",
    # JSON.
    LOOP + "{{ m | tojson }}{{ m | tojson(ensure_ascii=True) }}{{ m | tojson(ensure_ascii=False, indent=2) }}{% endfor %}",
    "{{ {'b': [1, {}], 'a': {'d': none, 'c': 2.5}} | tojson(sort_keys=True) }}{{ {'b': 1, 'a': 2} | tojson(separators=(',', ':')) }}",
    "{{ [[], {}, [1, [2]], {'k': {'l': []}}] | tojson(indent=4) }}{{ [1, 2] | tojson(indent=1, separators=('; ', '=')) }}",
    "{{ '🧵é\\x7f\\n\"\\\\/<&>' | tojson(ensure_ascii=True) }}{{ '🧵é' | tojson }}",
    # Methods of strings.
    LOOP + "{{ m.content.rsplit(' ', 1) }}{{ m.content.rsplit() }}{{ m.content.rsplit(maxsplit=1)[-1] }}{% endfor %}",
    "{{ 'a</think>b</think>c'.rsplit('</think>', 1)[0] }}{{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }}",
    "{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'ab'.partition('x') }}{{ 'ab'.rpartition('x') }}",
    "{{ 'prefix-x'.removeprefix('prefix-') }}{{ 'x.txt'.removesuffix('.txt') }}{{ '42'.zfill(5) }}{{ '-42'.zfill(5) }}",
    "{{ 'ab'.ljust(5, '.') }}{{ 'ab'.rjust(5) }}{{ 'ab'.center(5, '*') }}{{ 'abc'.index('c') }}{{ 'abcb'.rindex('b') }}",
    "{{ ' \\t'.isspace() }}{{ 'aB'.swapcase() }}{{ 'ẞ'.casefold() }}{{ 'a b'.title() }}{{ ''.isspace() }}",
    # What is defined.
    "{{ bos_token is defined }} {{ eos_token is defined }} {{ pad_token is defined }} {{ unk_token is defined }} {{ tools is defined }} {{ tools is none }} {{ documents is none }}",
    "{% if pad_token is defined and pad_token %}{{ pad_token }}{% else %}no padding{% endif %}[{{ pad_token }}]",
    # Llama 2, Llama 3, Mistral, Gemma, Phi 3, Zephyr, Vicuna, Alpaca, DeepSeek, Command R, Granite, Falcon.
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "{{- bos_token }}\n{%- set ns = namespace(index=0) %}\n{%- for message in messages %}\n    {%- if message['role'] == 'user' %}\n        {{- '[INST] ' + message['content'] + '[/INST]' }}\n        {%- set ns.index = ns.index + 1 %}\n    {%- else %}\n        {{- ' ' + message['content'] + eos_token }}\n    {%- endif %}\n{%- endfor %}{{ ns.index }}",
    "{{ bos_token }}" + LOOP + "{% if m['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}",
    LOOP + "{% if m['role'] in ['user', 'system'] %}{{'<|' + m['role'] + '|>\\n' + m['content'] + '<|end|>\\n'}}{% else %}{{'<|assistant|>\\n' + m['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}{{ '<|assistant|>\\n' if add_generation_prompt else eos_token }}",
    LOOP + "\n{% if m['role'] == 'user' %}\n{{ '<|user|>\\n' + m['content'] + eos_token }}\n{% elif m['role'] == 'system' %}\n{{ '<|system|>\\n' + m['content'] + eos_token }}\n{% elif m['role'] == 'assistant' %}\n{{ '<|assistant|>\\n'  + m['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
    LOOP + "{% if m.role == 'user' %}USER: {{ m.content }} {% elif m.role == 'assistant' %}ASSISTANT: {{ m.content }}</s>{% endif %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}",
    LOOP + "{% if m.role == 'user' %}### Instruction:\n{{ m.content | trim }}\n\n{% else %}### Response:\n{{ m.content | trim }}\n\n{% endif %}{% endfor %}",
    "{%- set ns = namespace(is_first=true, system='') -%}" + LOOP + "{%- if m['role'] == 'system' %}{% set ns.system = ns.system + ('' if ns.is_first else '\\n\\n') + m['content'] %}{% set ns.is_first = false %}{%- endif %}{%- endfor %}{{ ns.system }}" + LOOP + "{%- if m['role'] == 'assistant' and m['content'] is not none %}{% set content = m['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{ '<A>' + content }}{% elif m.role == 'user' %}{{ '<U>' ~ m.content }}{% endif %}{% endfor %}",
    LOOP + "{{ '<|START_OF_TURN_TOKEN|>' + ('<|USER_TOKEN|>' if m.role == 'user' else '<|SYSTEM_TOKEN|>') + m.content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}",
    "{%- macro turn(role, text) %}<{{ role }}>{{ text }}</{{ role }}>{% endmacro -%}" + LOOP + "{{ turn(m.role, m.content) }}{% if not loop.last %}, {% endif %}{% endfor %}",
    LOOP + "{{ (m.role | capitalize) ~ ': ' ~ (m.content | replace('\\n', ' ') | trim) }}{{ '\\n' if not loop.last }}{% endfor %}{{ messages | map(attribute='role') | join('/') }}",
    # Tools and parts that may be there.
    "{% for k, v in {'a': 1, 'b': [true, none]}.items() %}{{ k }}={{ v }};{% endfor %}{{ tools | length if tools else 0 }}" + LOOP + "{{ m.get('name', 'nobody') }}{{ m['tool_calls'] is defined }}{% endfor %}",
    "{% for m in messages[::-1] %}{% set i = (messages | length - 1) - loop.index0 %}{% if m.role == 'user' and m.content is string and not (m.content.startswith('<tool>') and m.content.endswith('</tool>')) %}{{ i }}{% break %}{% endif %}{% endfor %}",
]
CHATS = [
    [["user", "Hello"]],
    [["system", " Be brief.\n"], ["user", " 2 < 3 & 'a' \"b\" \\ ?"], ["assistant", "<think>so</think>\n\nYes 文🧵"], ["user", "a b  c"]],
    [["user", "one"], ["assistant", "two 100% é"], ["user", "three\nlines\n"]],
]


def rendered(template, messages, prompt):
    compiled = chat_template_utils._compile_jinja_template(template)
    return compiled.render(
        messages=messages, tools=None, documents=None, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>"
    )


rows = []
for number, template in enumerate(TEMPLATES):
    for chat in CHATS:
        for prompt in [False, True]:
            messages = [{"role": role, "content": content} for role, content in chat]
            try:
                text = rendered(template, messages, prompt)
            except Exception as error:
                text = None
                print(number, type(error).__name__, error)
            rows.append({"template": number, "messages": messages, "prompt": prompt, "text": text})
file = {"now": int(NOW.timestamp()), "templates": TEMPLATES, "chats": rows}
FILE.write_text(json.dumps(file, ensure_ascii=False, indent=0) + "\n", encoding="utf-8", newline="\n")
