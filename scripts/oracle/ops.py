"""Makes tests/data/ops_oracle.safetensors: single ops with their gradients, and optimizers, in float64.

    python3 -m venv .venv && .venv/bin/pip install numpy torch
    .venv/bin/python scripts/oracle/ops.py

Run once (PyTorch 2.15, a few seconds); the tests read the file. All inputs are float64 that float32 holds exactly.

For an op the file holds its inputs, `CASE.upstream` (the gradient of a loss with respect to the output), `CASE.y` (the
output) and `CASE.grad.INPUT` (the gradients with respect to the inputs). The cases:
    cross_entropy           logits, targets [6, 9] -> y: -(1/rows) sum targets * log_softmax(logits); no upstream (it is 1). The
                            targets' rows sum to 1, 1, 0, 0.5, 2 and 1; one row of logits is around 120, where exp overflows
    layer_norm              x [5, 10], weight, bias [10]; epsilon 1e-5. The last row of x is constant
    gelu, gelu_tanh         x [31]
    softmax, softmax_axis0  x [3, 7]; a row of `softmax` has two entries of -inf, and another is around 120
    attention               causal: q [2, 4, 5, 6], k [2, 2, 5, 6], v [2, 2, 5, 3] -> y [2, 4, 5, 3]; query head h reads key
                            head h / 2; scale 1 / sqrt(6). Also CASE.logsumexp of the scaled scores [2, 4, 5]
    attention_offset        the same with 3 queries that stand at positions 2, 3, 4 of 5 keys
    attention_key_length    not causal: 3 queries, 5 keys of which the last 2 are not seen

For an optimizer: it minimises sum(0.5 * curvature * w^2 - slope * w) with the tensors `quadratic.w`, `.curvature` and
`.slope` [3, 4] for 10 steps; `CASE.w` [10, 3, 4] is w after each step, `CASE.losses` [10] the loss before each, and
`CASE.lr` and so on are its settings.
    sgd, sgd_nesterov       momentum, decay added to the gradient (torch.optim.SGD, dampening 0)
    adam                    decay added to the gradient (torch.optim.Adam)
    adamw                   decoupled decay (torch.optim.AdamW)
"""

import math

import numpy
import torch
import torch.nn.functional as F

from oracle_file import exact_in_f32, write

# The legacy generator of numpy, because its numbers are promised never to change.
RANDOM = numpy.random.RandomState(7)
OPTIMIZER_STEPS = 10


def normal(*shape):
    return torch.from_numpy(exact_in_f32(RANDOM.standard_normal(shape)))


def case(name, function, inputs):
    """The tensors of one op. `function` takes the inputs by name."""
    leaves = {key: value.clone().requires_grad_() for key, value in inputs.items()}
    y = function(**leaves)
    upstream = normal(*y.shape)
    (y * upstream).sum().backward()
    tensors = {f"{name}.{key}": value for key, value in inputs.items()}
    tensors |= {f"{name}.upstream": upstream, f"{name}.y": y}
    return tensors | {f"{name}.grad.{key}": leaf.grad for key, leaf in leaves.items()}


def cross_entropy():
    logits = normal(6, 9) * 3
    logits[4] += 120
    logits = torch.from_numpy(exact_in_f32(logits)).requires_grad_()
    targets = torch.from_numpy(RANDOM.uniform(0, 1, (6, 9)))
    targets[0] = F.one_hot(torch.tensor(3), 9)
    targets[1] = 0.1 / 9 + 0.9 * targets[0]
    sums = torch.tensor([1, 1, 0, 0.5, 2, 1], dtype=torch.float64)
    targets = torch.from_numpy(exact_in_f32(targets * (sums / targets.sum(1))[:, None]))
    y = F.cross_entropy(logits, targets)
    y.backward()

    rows = targets.sum(1, keepdim=True)
    torch.testing.assert_close(y, -(targets * F.log_softmax(logits, 1)).sum() / 6)
    torch.testing.assert_close(logits.grad, (rows * F.softmax(logits, 1) - targets) / 6)
    name = "cross_entropy"
    return {f"{name}.logits": logits, f"{name}.targets": targets, f"{name}.y": y, f"{name}.grad.logits": logits.grad}


def layer_norm():
    x = normal(5, 10) * 2 + 0.5
    x[4] = 0.5
    x = torch.from_numpy(exact_in_f32(x))
    inputs = {"x": x, "weight": normal(10), "bias": normal(10)}
    return case("layer_norm", lambda x, weight, bias: F.layer_norm(x, (10,), weight, bias, 1e-5), inputs)


def gelus():
    x = torch.from_numpy(exact_in_f32(numpy.concatenate([numpy.linspace(-6, 6, 27), [-30, -9.5, 9.5, 30]])))
    return case("gelu", lambda x: F.gelu(x), {"x": x}) | case(
        "gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), {"x": x}
    )


def softmaxes():
    x = normal(3, 7)
    masked = x.clone()
    masked[0, [2, 5]] = -math.inf
    masked[1] = torch.from_numpy(exact_in_f32(masked[1] + 120))
    return case("softmax", lambda x: F.softmax(x, 1), {"x": masked}) | case(
        "softmax_axis0", lambda x: F.softmax(x, 0), {"x": x}
    )


def attention(name, queries, visible):
    """`visible` [queries, 5] says which keys a query sees."""
    inputs = {"q": normal(2, 4, queries, 6), "k": normal(2, 2, 5, 6), "v": normal(2, 2, 5, 3)}
    tensors = case(
        name,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=True),
        inputs,
    )
    scores = inputs["q"] @ inputs["k"].repeat_interleave(2, 1).transpose(2, 3) / math.sqrt(6)
    scores = scores.masked_fill(~visible, -math.inf)
    torch.testing.assert_close(tensors[f"{name}.y"], scores.softmax(3) @ inputs["v"].repeat_interleave(2, 1))
    if queries == 5:
        causal = F.scaled_dot_product_attention(*inputs.values(), is_causal=True, enable_gqa=True)
        torch.testing.assert_close(tensors[f"{name}.y"], causal)
    return tensors | {f"{name}.logsumexp": scores.logsumexp(3)}


def attentions():
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    three_of_five = (torch.arange(5) < 3).expand(3, 5)
    return (
        attention("attention", 5, causal)
        | attention("attention_offset", 3, causal[2:])
        | attention("attention_key_length", 3, three_of_five)
    )


def optimizers():
    start, slope = normal(3, 4), normal(3, 4)
    curvature = torch.from_numpy(exact_in_f32(RANDOM.uniform(0.2, 3, (3, 4))))
    tensors = {"quadratic.w": start, "quadratic.curvature": curvature, "quadratic.slope": slope}
    sgd = dict(lr=0.1, momentum=0.9, weight_decay=0.05)
    adam = dict(lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)
    for name, optimizer, settings in [
        ("sgd", torch.optim.SGD, sgd),
        ("sgd_nesterov", torch.optim.SGD, sgd | dict(nesterov=True)),
        ("adam", torch.optim.Adam, adam),
        ("adamw", torch.optim.AdamW, adam),
    ]:
        w = start.clone().requires_grad_()
        stepper = optimizer([w], **settings)
        path, losses = [], []
        for _ in range(OPTIMIZER_STEPS):
            stepper.zero_grad()
            loss = (0.5 * curvature * w**2 - slope * w).sum()
            loss.backward()
            stepper.step()
            losses.append(loss.item())
            path.append(w.detach().clone())
        tensors |= {f"{name}.w": torch.stack(path), f"{name}.losses": losses}
        tensors |= {f"{name}.{key}": float(value) for key, value in settings.items() if isinstance(value, float)}
        if "betas" in settings:
            tensors |= {f"{name}.beta1": settings["betas"][0], f"{name}.beta2": settings["betas"][1]}
    return tensors


def main():
    tensors = cross_entropy() | layer_norm() | gelus() | softmaxes() | attentions() | optimizers()
    write(
        "ops_oracle.safetensors",
        tensors,
        {"made_by": f"scripts/oracle/ops.py, PyTorch {torch.__version__}, float64"},
    )


main()
