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
# Of UTC, without its zone, as that of transformers.
NOW = datetime.datetime(2026, 3, 7, 4, 5, 9)


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
    # Ends of lines of other systems.
    "{% if true %}\r\n" + LOOP + "\r\n{{ m.content }}\r\n{% if loop.last %}\r{{ 'end\r\n' }}\r{% endif %}\r\n{% endfor %}\r\n{% endif %}\r\n\r\n",
    # Powers in remainders, blocks within loops, and names of `with`.
    LOOP + "{{ 5 % 3 ** 2 }}{{ '%d' % 3 ** 2 }}{{ 2 ** 3 % 5 }}{{ 7 % -2 ** 2 }}{% with %}{% for k in [1, 2] %}{% if k == 2 %}{% continue %}{% endif %}{{ k }}{% endfor %}{% endwith %}{% set q %}{{ m.role }}{% endset %}{% if loop.index == 2 %}{% break %}{% endif %}{{ q }}{% endfor %}",
    "{% with a=1, b=a %}[{{ a }}{{ b }}]{% endwith %}{% set a=5 %}{% with a=1, b=a, (c, d)=('%s' % a, 2) %}{{ a }}{{ b }}{{ c }}{{ d }}{% endwith %}{{ a }}",
    # What Python prints.
    "{{ [1e20, 1e-7, 1e16, 1e15, 0.0001, 2.50, -0.0] }}{{ 1e22 }}|{{ 1e-5 }}|{{ 123456789012345680.0 }}|{{ [1e16, 1e-5, 0.1] | tojson }}{{ '%s %r' % (1e20, 1e-7) }}{{ 1e16 | string }}",
    "{{ range(3) }}{{ range(5, 0, -2) }}{{ range(4)[1] }}{{ {'a': none}.items() }}{{ {'a': 1}.keys() }}{{ {'a': 1}.values() }}{{ namespace(a=1) }}{{ (1,) }}{{ () }}{{ ['it\\'s', '\"', '\\u2028é\\x7f', ['\\\\']] }}{{ [nothing] }}{{ [3, {'b': 1, 'a': 'x'}] | pprint }}",
    "{{ '<b>&\"\\'' | e }}{{ '<' | escape | forceescape }}{% autoescape true %}{{ '\"' }}{% endautoescape %}{{ {'a': 1} | attr('a') }}{{ messages | map('attr', 'role') | list }}{{ {'a': '<', 'b': none} | xmlattr }}{{ {'a': 'b c'} | urlencode }}{{ 'a b&c/é' | urlencode }}",
    "{% set ns = namespace({'a': 1}, items=[2]) %}{% set ns.items = ns.items + [3] %}{{ ns.a }}{{ ns.items }}{{ {}.items is defined }}{{ {'items': {'type': 3}}.items.type }}|{{ {'items': 1}['items'] }}{{ {'items': 1}.items() | list }}{% set get = messages[0].get %}{{ get('role') }}{{ get('x', 'y') }}",
    "{{ '\\U0001F9F5\\a\\v\\/\\q\\101\\x41\\\\U\\'' }}{{ \"\\é\" }}{{ 'abc' is sequence }}{{ {} is sequence }}{{ 1 is sequence }}{{ range(2) is sequence }}{{ none is iterable }}{{ raise_exception is callable }}{{ 1 is callable }}{{ nothing is callable }}",
    # More of JSON, dates and formats.
    "{{ {'b': 1, 'a': 'é'} | tojson(false, 2) }}{{ {'b': 1, 'a': 'é'} | tojson(true, none, (',', ':'), true) }}{{ {true: 1, none: 2, 3: [], 1.5: {}} | tojson(indent='\\t') }}{{ (1, 2) | tojson }}{{ '\\b\\f\\x1f' | tojson }}",
    "{{ strftime_now('%Z|%z|%U %W %V %G %g %C %h %k %l %P %r %-d %_d %-j %^a %^B %c %x %X') }}",
    "{{ '%e|%.2E|%g|%g|%G|%.3g|%#g' % (12345.678, 0.00012, 0.0001, 1e20, 1e-7, 100, 1.5) }}{{ 'x' % [] }}{{ 'x' % {} }}{{ '%s' % [1] }}{{ '%r %a' % ('é\\n', 'é') }}{{ '%d' % 3.9 }}{{ '%.1f' % true }}",
    # More methods.
    "{{ ' a  b c '.split(none, 1) }}{{ 'a b c'.split(sep=' ', maxsplit=1) }}{{ '\\x1ca\\x1fb'.split() }}{{ '\\x1cx\\x1f'.strip() }}{{ '\\x1cx' | trim }}{{ 'x\\x0by\\x1cz\\u2028w\\x85v\\r\\n'.splitlines() }}{{ 'a\\x0bb'.splitlines(true) }}{{ ' a b '.rsplit(none, 1) }}",
    "{{ \"it's o'neil\".title() }}{{ \"it's o'neil\" | title }}{{ 'ǆ ß ﬁ ა'.title() }}{{ 'ǆX'.capitalize() }}{{ 'Aa B'.istitle() }}{{ 'AA'.istitle() }}{{ 'a1'.isidentifier() }}{{ '1a'.isidentifier() }}{{ 'a\\tb'.expandtabs(4) }}{{ 'abc'.translate({97: 'xy', 98: none, 99: 100}) }}{{ 'é\"'.encode() }}",
    LOOP + "{{ m.content.startswith('e', 1) }}{{ m.content.endswith(('o', 'e'), 0, -1) }}{{ m.content.find('e', 2) }}{{ m.content.count('e', -5) }}{{ m.content.rfind('') }}{% endfor %}{{ [1, 2].index(2) }}{{ [1].copy() }}{{ {'a': 1}.copy() }}{{ dict([('a', 1)], b=2) }}{{ (2.0).is_integer() }}{{ (5).bit_length() }}",
    "{% set j = joiner('; ') %}{% set c = cycler('a', 'b') %}" + LOOP + "{{ j() }}{{ c.next() }}{{ m.content | wordcount }}{{ m.content | truncate(8) }}|{{ m.content | truncate(5, true, '~', 0) }}|{{ m.content | indent(width='> ', first=true) }}|{{ m.role | center(10) }}|{% endfor %}{{ 'a\\n\\nb' | indent(2, blank=true) }}{{ [0, 1, 1500, 2e6] | map('filesizeformat') | join(' ') }}{{ 2048 | filesizeformat(true) }}",
    # What Jinja refuses.
    "{% for x in none %}x{% endfor %}",
    "{{ 'abc'.split('') }}",
    "{{ 'a' +}}",
    "{{ ''.join([1]) }}",
    "{{ '%x' % 1.5 }}",
    LOOP + "{% generation %}{% continue %}{% endgeneration %}x{% endfor %}",
    LOOP + "{% macro f() %}{% break %}{% endmacro %}x{% endfor %}",
    "{% for k in [] %}{% else %}{% continue %}{% endfor %}x",
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
file = {"now": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp()), "templates": TEMPLATES, "chats": rows}
FILE.write_text(json.dumps(file, ensure_ascii=False, indent=0) + "\n", encoding="utf-8", newline="\n")
