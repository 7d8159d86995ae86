"""Makes tests/data/layers.safetensors: layers with the gradients of inputs and parameters, in float64.

    python3 -m venv .venv && .venv/bin/pip install numpy torch
    .venv/bin/python scripts/oracle/layers.py

Run with PyTorch 2.15; the tests read the file. For a layer NAME it holds the input `NAME/x`, the result `NAME/y`,
`NAME/u` (the gradient of a loss with respect to the result), `NAME/gx`, and of each parameter and state P of gradloom's
layer its value `NAME/p.P`, of parameters `NAME/g.P`, and of states that the step changes `NAME/s.P`. Matrices of
products are transposed, as gradloom has them [in, out].
"""

import numpy
import torch
from torch import nn

from oracle_file import exact_in_f32, write

RANDOM = numpy.random.RandomState(13)
TENSORS = {}


def normal(*shape, scale=1.0, shift=0.0):
    return torch.from_numpy(exact_in_f32(RANDOM.standard_normal(shape) * scale + shift))


def layer(name, module, x, names, transposed=(), buffers={}, run=None):
    """`names` maps PyTorch's parameters to gradloom's."""
    module = module.double()
    turned = lambda p, value: value.T if p in transposed else value
    with torch.no_grad():
        for p, parameter in module.named_parameters():
            parameter.copy_(normal(*parameter.shape, scale=0.5, shift=1.0 if parameter.dim() == 1 and "norm" in name else 0.0))
            TENSORS[f"{name}/p.{names[p]}"] = turned(p, parameter.detach().clone()).contiguous()
        for p, buffer in module.named_buffers():
            if p in buffers:
                buffer.copy_(normal(*buffer.shape, scale=0.1, shift=1.0))
                TENSORS[f"{name}/p.{buffers[p]}"] = buffer.clone()
    x = x.clone().requires_grad_()
    y = (run or (lambda m, x: m(x)))(module, x)
    upstream = normal(*y.shape)
    (y * upstream).sum().backward()
    TENSORS.update({f"{name}/x": x.detach(), f"{name}/y": y.detach(), f"{name}/u": upstream, f"{name}/gx": x.grad})
    for p, parameter in module.named_parameters():
        TENSORS[f"{name}/g.{names[p]}"] = turned(p, parameter.grad).contiguous()
    if module.training:
        for p, buffer in module.named_buffers():
            if p in buffers:
                TENSORS[f"{name}/s.{buffers[p]}"] = buffer.clone()


both = {"weight": "weight", "bias": "bias"}
layer("linear", nn.Linear(4, 3), normal(2, 5, 4), both, transposed=("weight",))
layer("layer_norm", nn.LayerNorm(6), normal(3, 6, scale=2), both)
layer("rms_norm", nn.RMSNorm(6, eps=1e-6), normal(3, 6, scale=2), both)
layer("group_norm", nn.GroupNorm(2, 4), normal(3, 4, 2, 3, scale=2), both)
layer("conv1d", nn.Conv1d(3, 4, 3, padding=1), normal(2, 3, 7), both)
layer("conv2d", nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), normal(2, 4, 7, 6), both)
layer("conv_transpose1d", nn.ConvTranspose1d(3, 2, 4, stride=2), normal(2, 3, 5), both)
layer("conv_transpose2d", nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), normal(2, 4, 3, 4), both)
buffers = {"running_mean": "running_mean", "running_var": "running_var"}
layer("batch_norm", nn.BatchNorm2d(4), normal(3, 4, 2, 3, scale=2, shift=1), both, buffers=buffers)
layer("batch_norm_inference", nn.BatchNorm2d(4).eval(), normal(3, 4, 2, 3, scale=2, shift=1), both, buffers=buffers)
recurrent = {f"{p}_l0": p for p in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]}
matrices = ("weight_ih_l0", "weight_hh_l0")
layer("lstm", nn.LSTM(3, 4, batch_first=True), normal(2, 6, 3), recurrent, matrices, run=lambda m, x: m(x)[0])
layer("gru", nn.GRU(3, 4, batch_first=True), normal(2, 6, 3), recurrent, matrices, run=lambda m, x: m(x)[0])


def attend(q, k, v, heads, mask=None):
    split = lambda x, heads: x.unflatten(-1, (heads, -1)).transpose(1, 2)
    q, k, v = split(q, heads), split(k, k.shape[-1] * heads // q.shape[-1]), split(v, v.shape[-1] * heads // q.shape[-1])
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True).transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Over a context of another width, with half as many heads of keys."""

    def __init__(self, width, heads, context, key_heads):
        super().__init__()
        self.heads, key_width = heads, width // heads * key_heads
        self.query, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.value = nn.Linear(context, key_width), nn.Linear(context, key_width)

    def forward(self, x, context, mask=None):
        return self.output(attend(self.query(x), self.key(context), self.value(context), self.heads, mask))


class Block(nn.Module):
    def __init__(self, width, heads, hidden, norm_last=False, causal=False):
        super().__init__()
        self.norm_last, self.causal = norm_last, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, width, heads)
        self.linear1, self.linear2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1]).tril().bool() if self.causal else None
        attended = lambda x: self.attention(x, x, mask)
        computed = lambda x: self.linear2(nn.functional.gelu(self.linear1(x)))
        if self.norm_last:
            x = self.norm1(x + attended(x))
            return self.norm2(x + computed(x))
        x = x + attended(self.norm1(x))
        return x + computed(self.norm2(x))


def named_alike(name, module, x, run=None):
    names = {p: p for p, _ in module.named_parameters()}
    layer(name, module, x, names, [p for p, value in module.named_parameters() if value.dim() == 2], run=run)


named_alike("cross_attention", Attention(8, 4, 6, 2), normal(2, 5, 8), run=lambda m, x: m(x, x[:, :3, :6]))
named_alike("transformer_block", Block(8, 2, 12, causal=True), normal(2, 5, 8))
named_alike("transformer_block_norm_last", Block(8, 2, 32, norm_last=True), normal(2, 5, 8))
write("layers.safetensors", TENSORS, {"pytorch": torch.__version__})
