"""Makes tests/data/gpt_oracle.safetensors: values, gradients and training curves of a small GPT-2, in float64.

    python3 -m venv .venv && .venv/bin/pip install numpy torch
    .venv/bin/python scripts/oracle/gpt.py

Run once (PyTorch 2.15, a few seconds); the tests read the file. Another PyTorch or processor gives the same numbers to
about 1e-12, not the same bytes.

The file holds, under the names of Hugging Face's GPT-2 (a Linear is y = x W + b with W [in, out]; c_attn has the columns
of q, then k, then v; within each, head by head; the output layer is wte, transposed):
    NAME            the weights: float64 that float32 holds exactly, far from their usual initial values
    ids, targets    int32 [batch, context]; targets are the ids one place on
    logits, loss    [batch, context, vocab] and the mean cross-entropy over all positions
    grad.NAME       the gradient of the loss
    adamw.losses    the loss before each of 20 steps of torch.optim.AdamW: decay on matrices only
    clipped.losses  the same with clip_grad_norm_(1.0) before each step
    clipped.norms   the gradient norm before clipping
The exact gradient of the k columns of c_attn.bias is zero, since softmax ignores a shift: what is there is rounding.
"""

import numpy
import torch
import torch.nn.functional as F

from oracle_file import exact_in_f32, write

VOCAB, WIDTH, HEADS, CONTEXT, BATCH, LAYERS = 37, 24, 3, 12, 2, 2
EPSILON = 1e-5
STEPS = 20
ADAMW = dict(lr=3e-3, betas=(0.9, 0.999), eps=1e-8)
WEIGHT_DECAY = 0.1
CLIP_NORM = 1.0


def initial_weights(random):
    """Names to leaves of float64. Matrices, gains and biases are all random, so that no gradient is tested at a special point."""
    shapes = {"wte.weight": [VOCAB, WIDTH], "wpe.weight": [CONTEXT, WIDTH]}
    for layer in range(LAYERS):
        for name, shape in {
            "ln_1.weight": [WIDTH],
            "ln_1.bias": [WIDTH],
            "attn.c_attn.weight": [WIDTH, 3 * WIDTH],
            "attn.c_attn.bias": [3 * WIDTH],
            "attn.c_proj.weight": [WIDTH, WIDTH],
            "attn.c_proj.bias": [WIDTH],
            "ln_2.weight": [WIDTH],
            "ln_2.bias": [WIDTH],
            "mlp.c_fc.weight": [WIDTH, 4 * WIDTH],
            "mlp.c_fc.bias": [4 * WIDTH],
            "mlp.c_proj.weight": [4 * WIDTH, WIDTH],
            "mlp.c_proj.bias": [WIDTH],
        }.items():
            shapes[f"h.{layer}.{name}"] = shape
    shapes |= {"ln_f.weight": [WIDTH], "ln_f.bias": [WIDTH]}

    weights = {}
    for name, shape in shapes.items():
        is_gain = len(shape) == 1 and name.endswith(".weight")
        values = random.standard_normal(shape) * (0.2 if len(shape) == 2 else 0.1) + (1.0 if is_gain else 0.0)
        weights[name] = torch.from_numpy(exact_in_f32(values)).requires_grad_()
    return weights


def forward(weights, ids):
    """Logits [batch, context, vocab]."""
    def linear(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], EPSILON)

    def heads(x):
        return x.view(BATCH, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)

    x = weights["wte.weight"][ids] + weights["wpe.weight"]
    for layer in range(LAYERS):
        h = f"h.{layer}"
        q, k, v = linear(norm(x, f"{h}.ln_1"), f"{h}.attn.c_attn").split(WIDTH, dim=-1)
        mixed = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        x = x + linear(mixed.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH), f"{h}.attn.c_proj")
        hidden = F.gelu(linear(norm(x, f"{h}.ln_2"), f"{h}.mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, f"{h}.mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].T


def loss_of(logits, targets):
    return F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def train(weights, ids, targets, clip):
    """Losses before each step, and the gradient norms if they are clipped."""
    weights = {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}
    matrices = [weight for weight in weights.values() if weight.dim() >= 2]
    vectors = [weight for weight in weights.values() if weight.dim() < 2]
    optimizer = torch.optim.AdamW(
        [dict(params=matrices, weight_decay=WEIGHT_DECAY), dict(params=vectors, weight_decay=0.0)], **ADAMW
    )
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(forward(weights, ids), targets)
        loss.backward()
        if clip:
            norms.append(torch.nn.utils.clip_grad_norm_(weights.values(), CLIP_NORM).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def main():
    # The legacy generator of numpy, because its numbers are promised never to change.
    random = numpy.random.RandomState(20)
    weights = initial_weights(random)
    tokens = torch.from_numpy(random.randint(0, VOCAB, (BATCH, CONTEXT + 1)).astype("int64"))
    ids, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    assert ids.unique().numel() < ids.numel(), "a token must occur twice, to test that its gradients are added"

    logits = forward(weights, ids)
    loss = loss_of(logits, targets)
    loss.backward()
    losses, _ = train(weights, ids, targets, clip=False)
    clipped_losses, norms = train(weights, ids, targets, clip=True)
    assert losses[0] == clipped_losses[0] == loss.item()
    assert max(norms) > CLIP_NORM > min(norms), "clipping must act on some steps and not on others"

    tensors = dict(weights)
    tensors |= {"ids": ids, "targets": targets, "logits": logits, "loss": loss}
    tensors |= {f"grad.{name}": weight.grad for name, weight in weights.items()}
    tensors |= {"adamw.losses": losses, "clipped.losses": clipped_losses, "clipped.norms": norms}
    write(
        "gpt_oracle.safetensors",
        tensors,
        {
            "made_by": f"scripts/oracle/gpt.py, PyTorch {torch.__version__}, float64",
            "model": f"vocab {VOCAB}, width {WIDTH}, heads {HEADS}, context {CONTEXT}, batch {BATCH}, layers {LAYERS}, "
            f"LayerNorm epsilon {EPSILON}, tanh GELU, tied output",
            "training": f"AdamW {ADAMW}, weight decay {WEIGHT_DECAY} on rank >= 2, clip norm {CLIP_NORM}",
        },
    )
    print("losses", losses[0], "->", losses[-1], "clipped ->", clipped_losses[-1], "norms", max(norms), "..", min(norms))


main()
