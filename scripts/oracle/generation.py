"""Makes tests/data/generation.json: what transformers draws from, and what its beam search finds.

    python3 -m venv .venv && .venv/bin/pip install torch transformers
    .venv/bin/python scripts/oracle/generation.py

Run with PyTorch 2.15 and transformers 5.24; the tests read the file. `sampling` has logits, settings and the
probabilities of the next token after transformers' processors, in float64. `beams` has the results of
`generate(num_beams=..)` over a model whose logits are a table by position and last token.
"""

import json
import pathlib

import torch
from transformers import GenerationConfig, GenerationMixin, LogitsProcessorList, PretrainedConfig, PreTrainedModel
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.modeling_outputs import CausalLMOutput

torch.manual_seed(41)
VOCABULARY = 24


def numbers(tensor, digits):
    return [round(x, digits) for x in tensor.double().flatten().tolist()]


def sampling_case(number):
    logits = torch.tensor(numbers(3 * torch.randn(VOCABULARY), 2), dtype=torch.float32)
    pick = lambda *choices: choices[torch.randint(len(choices), ()).item()]
    ids = lambda count: torch.randint(VOCABULARY, (count,)).tolist()
    case = {
        "logits": numbers(logits, 2),
        "prompt": ids(4),
        "output": ids(number % 5),
        "temperature": pick(0.5, 0.9, 1.0, 1.7),
        "top_k": pick(None, 1, 5, 12, 30),
        "top_p": pick(1.0, 0.35, 0.8, 0.95),
        "min_p": pick(0.0, 0.0, 0.02, 0.2),
        "repetition": pick(1.0, 1.3, 0.7),
        "bias": [[token, pick(-2.5, 4.0, float("-inf"))] for token in sorted(set(ids(number % 3)))],
    }
    # In the order of `GenerationMixin._get_logits_processor`.
    processors = LogitsProcessorList()
    if case["bias"]:
        processors.append(SequenceBiasLogitsProcessor([[[token], float(bias)] for token, bias in case["bias"]]))
    processors.append(RepetitionPenaltyLogitsProcessor(case["repetition"]))
    processors.append(TemperatureLogitsWarper(case["temperature"]))
    if case["top_k"]:
        processors.append(TopKLogitsWarper(case["top_k"]))
    if case["top_p"] < 1:
        processors.append(TopPLogitsWarper(case["top_p"]))
    if case["min_p"]:
        processors.append(MinPLogitsWarper(case["min_p"]))
    text = torch.tensor([case["prompt"] + case["output"]])
    scores = processors(text, logits.double()[None])
    case["probabilities"] = numbers(scores.softmax(-1), 9)
    # JSON has no infinity.
    case["bias"] = [[token, bias if bias > float("-inf") else None] for token, bias in case["bias"]]
    return case


class Table(PreTrainedModel, GenerationMixin):
    """Logits by position and last token."""

    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, table):
        super().__init__(PretrainedConfig(vocab_size=table.shape[-1], is_encoder_decoder=False, num_hidden_layers=1))
        self.anchor = torch.nn.Parameter(torch.zeros(()))
        self.table = table

    def forward(self, input_ids, **_):
        positions = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        return CausalLMOutput(logits=self.table[positions, input_ids])

    def prepare_inputs_for_generation(self, input_ids, **_):
        return {"input_ids": input_ids}


def beam_case(table, beams, length_penalty, early_stopping, ends, most):
    found = Table(table).generate(
        torch.tensor([[2]]),
        generation_config=GenerationConfig(
            num_beams=beams,
            num_return_sequences=beams,
            length_penalty=length_penalty,
            early_stopping=early_stopping,
            eos_token_id=ends or None,
            pad_token_id=99,
            max_new_tokens=most,
            do_sample=False,
            use_cache=False,
            return_dict_in_generate=True,
            output_scores=True,
        ),
    )
    tokens = [[token for token in row if token != 99] for row in found.sequences[:, 1:].tolist()]
    return {
        "beams": beams,
        "length_penalty": length_penalty,
        "early_stopping": {True: "Full", False: "Hopeless", "never": "Never"}[early_stopping],
        "ends": ends,
        "most": most,
        "tokens": tokens,
        "scores": numbers(found.sequences_scores, 5),
    }


table = torch.tensor(numbers(1.5 * torch.randn(10, 11, 11), 2)).reshape(10, 11, 11)
cases = [
    beam_case(table, beams, length_penalty, early_stopping, ends, most)
    for beams, ends, most in [(2, [3], 8), (3, [3, 7], 8), (4, [], 5), (5, [0], 9), (3, [1, 4, 6], 9)]
    for length_penalty in [1.0, 0.0, 2.0, -0.5]
    for early_stopping in [True, False, "never"]
]
everything = {
    "sampling": [sampling_case(number) for number in range(40)],
    "table": numbers(table, 2),
    "vocabulary": table.shape[-1],
    "beams": cases,
}
path = pathlib.Path(__file__).parents[2] / "tests" / "data" / "generation.json"
path.write_text(json.dumps(everything, separators=(",", ":")).replace('{"', '\n{"') + "\n")
