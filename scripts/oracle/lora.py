"""Makes tests/data/lora.safetensors and tests/data/peft/: a small GPT-2 with adapters of low rank, in float64.

    python3 -m venv .venv && .venv/bin/pip install numpy torch transformers safetensors
    .venv/bin/python scripts/oracle/lora.py

Run with PyTorch 2.15 and transformers 5.24; the tests read the files. The adapters are computed as PEFT computes them,
`base(x) + (alpha / r) * (x A^T) B^T` with A [r, in] and B [out, r], beside transformers' own layers. lora.safetensors
holds, of transformers' model:
    NAME              the weights, as float64 that float32 holds exactly
    ids, targets      int32 [batch, context]
    base.logits       without adapters
    logits, loss      with them, and the mean cross-entropy
    a.NAME, b.NAME    the factors of the weight NAME, [in, r] and [r, out]
    grad.a.NAME, ..   the gradients of the loss
    merged.NAME       W + (alpha / r) A B
    losses            the loss before each of 8 steps of torch.optim.AdamW on the factors alone, without decay
    after.a.NAME, ..  the factors after them
tests/data/peft/ holds the same factors in float32 under PEFT's names, with its configuration.
"""

import json

import numpy
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

from oracle_file import DATA, exact_in_f32, write

VOCAB, WIDTH, HEADS, CONTEXT, BATCH, LAYERS = 13, 8, 2, 6, 2, 2
RANK, ALPHA, STEPS = 2, 3, 8
TARGETS = ["attn.c_attn", "mlp.c_proj"]
RANDOM = numpy.random.RandomState(29)


def normal(shape, scale, shift=0.0):
    return torch.from_numpy(exact_in_f32(RANDOM.standard_normal(shape) * scale + shift))


class Adapted(torch.nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        inputs, outputs = base.weight.shape
        self.a = torch.nn.Parameter(normal([RANK, inputs], 0.3))
        self.b = torch.nn.Parameter(normal([outputs, RANK], 0.3))

    def forward(self, x):
        return self.base(x) + (ALPHA / RANK) * (x @ self.a.T @ self.b.T)


config = GPT2Config(
    vocab_size=VOCAB, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
    attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, attn_implementation="eager",
    bos_token_id=None, eos_token_id=None,
)
model = GPT2LMHeadModel(config).double()
tensors = {}
with torch.no_grad():
    for name, parameter in model.transformer.named_parameters():
        is_gain = parameter.dim() == 1 and name.endswith(".weight")
        parameter.copy_(normal(parameter.shape, 0.2 if parameter.dim() == 2 else 0.1, 1.0 if is_gain else 0.0))
        parameter.requires_grad_(False)
        tensors[name] = parameter.clone()
ids = torch.from_numpy(RANDOM.randint(0, VOCAB, [BATCH, CONTEXT + 1]))
ids, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
tensors |= {"ids": ids, "targets": targets, "base.logits": model(ids).logits}

adapted = {}
for layer in range(LAYERS):
    for target in TARGETS:
        parent = model.transformer.h[layer].get_submodule(target.split(".")[0])
        child = target.split(".")[1]
        setattr(parent, child, Adapted(getattr(parent, child)))
        adapted[f"h.{layer}.{target}"] = getattr(parent, child)


def compute():
    logits = model(ids).logits
    return logits, F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))


def factors(prefix, value):
    for name, module in adapted.items():
        tensors[f"{prefix}a.{name}.weight"] = value(module.a).detach().T.contiguous().clone()
        tensors[f"{prefix}b.{name}.weight"] = value(module.b).detach().T.contiguous().clone()


logits, loss = compute()
loss.backward()
tensors |= {"logits": logits, "loss": loss}
factors("", lambda p: p)
factors("grad.", lambda p: p.grad)
peft = {}
for name, module in adapted.items():
    merged = module.base.weight + (ALPHA / RANK) * (module.b @ module.a).T
    tensors[f"merged.{name}.weight"] = merged.detach()
    for letter, parameter in {"A": module.a, "B": module.b}.items():
        peft[f"base_model.model.transformer.{name}.lora_{letter}.weight"] = parameter.detach().float().contiguous()

parameters = [p for module in adapted.values() for p in (module.a, module.b)]
optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.0)
losses = []
for _ in range(STEPS):
    optimizer.zero_grad()
    _, loss = compute()
    losses.append(loss.item())
    loss.backward()
    optimizer.step()
tensors["losses"] = numpy.array(losses)
factors("after.", lambda p: p)
write("lora.safetensors", tensors, {"about": "scripts/oracle/lora.py"})

(DATA / "peft").mkdir(exist_ok=True)
save_file(peft, DATA / "peft" / "adapter_model.safetensors", {"format": "pt"})
fields = {
    "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "gpt2", "bias": "none",
    "fan_in_fan_out": True, "inference_mode": True, "lora_alpha": ALPHA, "lora_dropout": 0.0,
    "modules_to_save": None, "r": RANK, "rank_pattern": {}, "alpha_pattern": {},
    "target_modules": [target.split(".")[1] if "attn" in target else target for target in TARGETS],
    "use_dora": False, "use_rslora": False,
}
(DATA / "peft" / "adapter_config.json").write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n")
