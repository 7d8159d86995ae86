"""Makes the small folders of tests/data/hugging_face with transformers, and what transformers computes of them.

    python3 scripts/oracle/hugging_face.py        (torch 2.15, transformers 5.24, safetensors 0.8)

Weights are random with a large deviation, so that the models have clear preferences.
"""

import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parents[2] / "tests/data/hugging_face"
torch.manual_seed(20261125)

gpt2 = GPT2Config(
    vocab_size=97, n_positions=256, n_embd=32, n_layer=2, n_head=4, n_inner=56,
    initializer_range=0.25, layer_norm_epsilon=3e-5, bos_token_id=0, eos_token_id=0,
)
llama = LlamaConfig(
    vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=12, max_position_embeddings=256, rms_norm_eps=2e-6,
    initializer_range=0.25, tie_word_embeddings=False, bos_token_id=0, eos_token_id=1,
    rope_parameters={
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
    },
)
tied = LlamaConfig(
    vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=1, num_attention_heads=3,
    num_key_value_heads=1, max_position_embeddings=256, initializer_range=0.25, tie_word_embeddings=True,
    attention_bias=True, mlp_bias=True, bos_token_id=0, eos_token_id=1,
    rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
)


def make(name, model, **saving):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    model.eval().save_pretrained(folder, **saving)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config.pop("transformers_version", None)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    vocabulary = model.config.vocab_size
    ids = torch.randint(0, vocabulary, (2, 40))
    prompt = ids[:1, :7]
    with torch.no_grad():
        logits = model(ids).logits
        text = prompt
        while text.shape[1] < 207:
            text = torch.cat([text, model(text).logits[:, -1].argmax(-1, keepdim=True)], 1)
        window = torch.randint(0, vocabulary, (1, 256))
        loss = model(window, labels=window).loss
    save_file(
        {
            "ids": ids.int(), "logits": logits.contiguous(), "greedy": text[0, 7:].int().contiguous(),
            "window": window.int(), "perplexity": loss.double().exp().reshape(1),
        },
        folder / "expected.safetensors",
    )


make("gpt2", GPT2LMHeadModel(gpt2))
make("llama", LlamaForCausalLM(llama), max_shard_size="40KB")
make("tied", LlamaForCausalLM(tied).to(torch.float32))
