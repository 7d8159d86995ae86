"""Makes tests/data/hugging_face/generation_files.json: what transformers takes of config.json and
generation_config.json, each in several forms.

    python3 -m venv .venv && .venv/bin/pip install 'transformers==5.24.*'
    .venv/bin/python scripts/oracle/generation_files.py

Run with transformers 5.24; `crates/gradloom-models/tests/hugging_face.rs` reads the file: rows of `config`,
`generation` (the text of the file, or null without it) and the values of KEYS, as a model has them that is loaded by
`from_pretrained` (`adjust_generation_fn` of transformers' generation/utils.py: config.json only without the file).
"""

import json
import logging
import pathlib
import tempfile

from transformers import GenerationConfig

KEYS = ["bos_token_id", "eos_token_id", "pad_token_id", "temperature", "top_k", "do_sample"]
CONFIG = {"model_type": "gpt2", "bos_token_id": 4, "eos_token_id": 5, "temperature": 0.5, "do_sample": True}
logging.disable(logging.WARNING)
rows = []
for config in [CONFIG, {"model_type": "gpt2"}, CONFIG | {"eos_token_id": None}]:
    for generation in [None, "{}", '{"eos_token_id": null}', '{"eos_token_id": [6, 7]}', '{"temperature": 0.25}',
                       '{"eos_token_id": 6, "x": Infinity}']:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text(json.dumps(config))
            of_config = {}
            if generation is not None:
                pathlib.Path(folder, "generation_config.json").write_text(generation)
            else:
                of_config = dict(config_file_name="config.json", _from_model_config=True)
            found = GenerationConfig.from_pretrained(folder, **of_config)
        rows.append({"config": config, "generation": generation} | {key: getattr(found, key) for key in KEYS})
path = pathlib.Path(__file__).parents[2] / "tests/data/hugging_face/generation_files.json"
path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
