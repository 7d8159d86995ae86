"""Makes tests/data/cases.safetensors: functions of tensors with their gradients, in float64.

    python3 -m venv .venv && .venv/bin/pip install numpy torch
    .venv/bin/python scripts/oracle/cases.py

Run with PyTorch 2.15; the tests read the file. For a case NAME it holds the operands `NAME/0`, `NAME/1`, .. (float32,
which hold the float64 numbers exactly, or int32), `NAME/y` (the result) and, of a result that is float, `NAME/u` (the
gradient of a loss with respect to the result) and `NAME/gN` (the gradients with respect to the operands that are float).
`crates/gradloom/tests/cases.rs` has the same names.
"""

import math

import numpy
import torch
import torch.nn.functional as F

from oracle_file import exact_in_f32, write

RANDOM = numpy.random.RandomState(11)
TENSORS = {}


def floats(array):
    return torch.from_numpy(exact_in_f32(numpy.asarray(array, dtype=numpy.float64)))


def normal(*shape, scale=1.0, shift=0.0):
    return floats(RANDOM.standard_normal(shape) * scale + shift)


def uniform(low, high, *shape):
    return floats(RANDOM.uniform(low, high, shape))


def integers(low, high, *shape):
    """low to high - 1."""
    return torch.from_numpy(RANDOM.randint(low, high, shape).astype(numpy.int64))


def case(name, function, *operands):
    assert f"{name}/y" not in TENSORS, name
    operands = [floats(x) if x.is_floating_point() else x for x in operands]
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in operands]
    y = function(*leaves)
    for i, x in enumerate(operands):
        TENSORS[f"{name}/{i}"] = x.to(torch.float32 if x.is_floating_point() else torch.int32)
    if not y.is_floating_point():
        TENSORS[f"{name}/y"] = y.to(torch.int32)
        return
    TENSORS[f"{name}/y"] = y.detach()
    if not y.requires_grad:
        return
    upstream = normal(*y.shape)
    TENSORS[f"{name}/u"] = upstream.to(torch.float32)
    (y * upstream).sum().backward()
    for i, leaf in enumerate(leaves):
        if leaf.is_floating_point():
            TENSORS[f"{name}/g{i}"] = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def elementwise():
    anywhere = floats([-30, -9.5, -3.2, -1.5, -1, -0.75, -0.3, -1e-3, 0, 1e-4, 0.2, 0.6, 1, 1.7, 2.5, 4.4, 12, 40])
    positive = floats([1e-6, 1e-3, 0.1, 0.7, 1, 1.5, 3, 20, 1e3, 1e6])
    unit = floats([-1, -0.999, -0.9, -0.5, -0.2, -1e-3, 0, 1e-4, 0.3, 0.5, 0.51, 0.8, 0.99])
    inner = unit[1:]
    angles = floats([-3, -1.5, -1, -0.4, -1e-3, 0, 1e-4, 0.3, 0.78, 1.2, 1.57, 2.5, 10, 100, 1e4])
    halves = floats([-3.5, -2.5, -1.5, -0.5, -0.2, 0, 0.3, 0.49999997, 0.5, 0.7, 1.5, 2.5, 3.2, 8388609])
    for name, function, x in [
        ("abs", torch.abs, anywhere), ("sign", torch.sign, anywhere), ("floor", torch.floor, halves),
        ("ceil", torch.ceil, halves), ("round", torch.round, halves), ("trunc", torch.trunc, halves),
        ("exp", torch.exp, anywhere), ("expm1", torch.expm1, anywhere), ("exp2", torch.exp2, anywhere),
        ("log", torch.log, positive), ("log1p", torch.log1p, positive), ("log2", torch.log2, positive),
        ("log10", torch.log10, positive), ("sqrt", torch.sqrt, positive), ("rsqrt", torch.rsqrt, positive),
        ("reciprocal", torch.reciprocal, positive), ("square", torch.square, anywhere),
        ("sin", torch.sin, angles), ("cos", torch.cos, angles), ("tanh", torch.tanh, anywhere),
        ("sigmoid", torch.sigmoid, anywhere), ("erf", torch.erf, anywhere),
        ("is_nan", torch.isnan, anywhere), ("is_inf", torch.isinf, anywhere), ("is_finite", torch.isfinite, anywhere),
        ("relu", F.relu, anywhere), ("relu6", F.relu6, anywhere), ("gelu", F.gelu, anywhere),
        ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), anywhere), ("silu", F.silu, anywhere),
        ("mish", F.mish, anywhere), ("softplus", F.softplus, anywhere[:-2]), ("log_sigmoid", F.logsigmoid, anywhere),
        ("softsign", F.softsign, anywhere), ("leaky_relu", lambda x: F.leaky_relu(x, 0.1), anywhere),
        ("elu", lambda x: F.elu(x, 0.7), anywhere), ("celu", lambda x: F.celu(x, 1.3), anywhere),
        ("selu", F.selu, anywhere), ("hard_tanh", F.hardtanh, anywhere), ("hard_sigmoid", F.hardsigmoid, anywhere),
        ("hard_swish", F.hardswish, anywhere), ("tanh_shrink", F.tanhshrink, anywhere),
        ("hard_shrink", F.hardshrink, anywhere), ("soft_shrink", F.softshrink, anywhere),
        ("clamp", lambda x: x.clamp(-1, 1.7), anywhere), ("neg", torch.neg, anywhere),
        ("tan", torch.tan, angles[:-1]), ("asin", torch.asin, inner), ("acos", torch.acos, inner),
        ("atan", torch.atan, anywhere), ("sinh", torch.sinh, anywhere), ("cosh", torch.cosh, anywhere),
        ("asinh", torch.asinh, anywhere), ("acosh", torch.acosh, positive + 1), ("atanh", torch.atanh, inner),
    ]:
        case(name, function, x)
    case("glu", lambda x: F.glu(x, 1), normal(3, 6))
    case("prelu", lambda x, w: torch.where(x > 0, x, x * w), normal(3, 4), normal(4))


def binary():
    a, b = normal(3, 1, 4), normal(2, 1)
    apart = b + torch.sign(b)
    for name, function in [
        ("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("minimum", torch.minimum),
        ("maximum", torch.maximum), ("eq", torch.eq), ("ne", torch.ne), ("lt", torch.lt), ("le", torch.le),
        ("gt", torch.gt), ("ge", torch.ge), ("hypot", torch.hypot),
    ]:
        case(name, function, a, b)
    case("div", torch.div, a, apart)
    case("rem", torch.fmod, a * 3, apart)
    case("remainder", torch.remainder, a * 3, apart)
    case("pow", torch.pow, uniform(0.2, 3, 3, 1, 4), b)
    case("lerp", torch.lerp, a, a.flip(0), uniform(0, 1, 4))
    case("clamp_tensors", lambda x, low, high: x.clamp(low, high), a, uniform(-1, 0, 4), uniform(0.1, 1, 3, 1, 1))
    case("minimum_tie", torch.minimum, floats([1, 2, 3]), floats([1, 5, -3]))
    case("maximum_tie", torch.maximum, floats([1, 2, 3]), floats([1, 5, -3]))
    case("select", lambda c, x, y: torch.where(c > 0, x, y), integers(0, 2, 3, 4), normal(4), normal(3, 1))
    case("masked_fill", lambda x, m: x.masked_fill(m > 0, 2.5), normal(3, 4), integers(0, 2, 4))
    i, j = integers(-9, 10, 4, 5), integers(1, 5, 5) * torch.tensor([1, -1, 1, -1, 1])
    case("div_i32", lambda x, y: torch.div(x, y, rounding_mode="trunc"), i, j)
    case("rem_i32", torch.fmod, i, j)
    case("remainder_i32", torch.remainder, i, j)


AXES = [(0,), (1,), (-1,), (0, 2), (1, 2), (-3, -1), (0, 1, 2)]


def reductions():
    x = normal(3, 4, 5)
    for axes in AXES:
        at = list(axes)
        names = "_".join(str(axis) for axis in axes)
        for name, function in [
            ("sum", lambda x: x.sum(at)), ("mean", lambda x: x.mean(at)), ("max", lambda x: x.amax(at)),
            ("min", lambda x: x.amin(at)), ("var", lambda x: x.var(at)), ("std", lambda x: x.std(at)),
            ("var0", lambda x: x.var(at, correction=0)), ("logsumexp", lambda x: x.logsumexp(at)),
            ("norm", lambda x: torch.linalg.vector_norm(x, 2, at)),
            ("norm1", lambda x: torch.linalg.vector_norm(x, 1, at)),
            ("norm3", lambda x: torch.linalg.vector_norm(x, 3, at)),
            ("norm_inf", lambda x: torch.linalg.vector_norm(x, math.inf, at)),
        ]:
            case(f"{name}/{names}", function, x)
            case(f"{name}_keep/{names}", lambda x: function(x).reshape([1 if i in at or i - 3 in at else n for i, n in enumerate(x.shape)]), x)
        mask = integers(0, 4, 3, 4, 5)
        case(f"any/{names}", lambda m: (m == 0).sum(at) > 0, mask)
        case(f"all/{names}", lambda m: (m == 0).sum(at) == 0, mask)
        case(f"count_nonzero/{names}", lambda m: (m != 0).sum(at), mask)
    for name, function in [
        ("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax), ("min", torch.amin), ("var", torch.var),
        ("std", torch.std), ("prod", torch.prod), ("logsumexp", lambda x: x.logsumexp((0, 1, 2))),
        ("norm", torch.linalg.vector_norm), ("argmax_all", torch.argmax), ("argmin_all", torch.argmin),
    ]:
        case(f"{name}/all", function, normal(2, 3, 2, shift=0.1))
    for axis in [0, 1, -1]:
        case(f"prod/{axis}", lambda x: x.prod(axis), x)
        case(f"argmax/{axis}", lambda x: x.argmax(axis), x)
        case(f"argmin/{axis}", lambda x: x.argmin(axis), x)
        case(f"softmax/{axis}", lambda x: x.softmax(axis), x)
        case(f"log_softmax/{axis}", lambda x: x.log_softmax(axis), x * 10)
        case(f"normalize/{axis}", lambda x: F.normalize(x, dim=axis), x)
        case(f"cosine_similarity/{axis}", lambda x, y: F.cosine_similarity(x, y, axis), x, normal(3, 4, 5))
    case("sum_i32", lambda x: x.sum(1), integers(-5, 6, 3, 4))
    case("std_of_equal", lambda x: x.std(1), floats([[1, 2, 4], [3, 5, 3]]))


def shapes():
    x = normal(3, 4, 5)
    for name, function in [
        ("reshape", lambda x: x.reshape(4, 15)), ("flatten", torch.flatten), ("permute", lambda x: x.permute(2, 0, 1)),
        ("transpose", lambda x: x.transpose(0, -1)), ("unsqueeze", lambda x: x.unsqueeze(1)),
        ("narrow", lambda x: x.narrow(1, 1, 2)), ("slice", lambda x: x[:, :, 1:4]),
        ("slice_step", lambda x: x[:, :, 1:5:2]), ("flip", lambda x: x.flip(0, 2)),
        ("roll", lambda x: x.roll(2, 1)), ("roll_back", lambda x: x.roll(-7, -1)),
        ("tile", lambda x: x.repeat(2, 1, 3, 1)), ("repeat_interleave", lambda x: x.repeat_interleave(3, 1)),
        ("upsample_nearest2d", lambda x: F.interpolate(x[None], scale_factor=2)[0]),
        ("resize_linear", lambda x: F.interpolate(x, size=7, mode="linear")),
        ("resize_linear_down", lambda x: F.interpolate(x, size=3, mode="linear")),
        ("resize_bilinear", lambda x: F.interpolate(x[None], size=(6, 9), mode="bilinear")[0]),
        ("pad", lambda x: F.pad(x, (1, 2), value=0.5)), ("pad_reflect", lambda x: F.pad(x, (4, 2), mode="reflect")),
        ("pad_replicate", lambda x: F.pad(x, (6, 2), mode="replicate")),
        ("pad_circular", lambda x: F.pad(x, (5, 2), mode="circular")),
        ("unfold", lambda x: x.unfold(1, 3, 1)), ("unfold_step", lambda x: x.unfold(-1, 2, 3)),
        ("tril", torch.tril), ("triu", torch.triu), ("tril_above", lambda x: x.tril(1)),
        ("triu_below", lambda x: x.triu(-2)), ("broadcast_to", lambda x: x.expand(2, 3, 4, 5)),
        ("split_sizes", lambda x: x.split([1, 3], 1)[1]), ("chunk", lambda x: x.chunk(2, -1)[1]),
    ]:
        case(name, function, x)
    case("diagonal", lambda x: x.diagonal(dim1=-2, dim2=-1), normal(2, 4, 4))
    case("diag_embed", torch.diag_embed, normal(2, 3))
    case("concat", lambda a, b, c: torch.cat([a, b, c], 1), normal(2, 1, 3), normal(2, 4, 3), normal(2, 2, 3))
    case("stack", lambda a, b: torch.stack([a, b], -1), normal(2, 3), normal(2, 3))
    case("meshgrid", lambda a, b: torch.meshgrid(a, b, indexing="ij")[1], normal(3), normal(4))


def indices():
    x = normal(3, 4, 5)
    case("gather_rows", lambda x, i: x[i], x, integers(0, 3, 2, 4))
    case("index_select", lambda x, i: x.index_select(1, i), x, torch.tensor([3, 0, 0, 2, 3, 3]))
    for axis in [0, 1, -1]:
        index = integers(0, x.shape[axis], *[6 if i == axis % 3 else n for i, n in enumerate(x.shape)])
        case(f"take_along_axis/{axis}", lambda x, i: x.gather(axis, i), x, index)
        case(f"scatter_add/{axis}", lambda x, i, u: x.scatter_add(axis, i, u), x, index, normal(*index.shape))
    for axis in (0, 1, -1):
        x = normal(3, 4, 5)
        zeros = torch.where(uniform(0, 1, 3, 4, 5) < 0.2, 0.0, x)
        case(f"cumsum/{axis}", lambda x: x.cumsum(axis), x)
        case(f"cumprod/{axis}", lambda x: x.cumprod(axis), x)
        case(f"cumprod_zeros/{axis}", lambda x: x.cumprod(axis), zeros)
        case(f"cummax/{axis}", lambda x: x.cummax(axis)[0], x)
        case(f"cummin/{axis}", lambda x: x.cummin(axis)[0], x)
        case(f"sort/{axis}", lambda x: x.sort(axis)[0], x)
        case(f"sort_descending/{axis}", lambda x: x.sort(axis, descending=True)[0], x)
        case(f"argsort/{axis}", lambda x: x.argsort(axis), x)
        case(f"argsort_descending/{axis}", lambda x: x.argsort(axis, descending=True), x)
        case(f"top_k/{axis}", lambda x: x.topk(3, axis)[0], x)
        case(f"arg_top_k/{axis}", lambda x: x.topk(3, axis)[1], x)
        order = floats(RANDOM.rand(3, 4, 5)).argsort(axis)
        case(f"scatter/{axis}", lambda x, i, u: x.scatter(axis, i, u), x, order.narrow(axis, 0, 2), normal(3, 4, 5).narrow(axis, 0, 2))
    long = normal(2, 300)
    case("cumsum_long", lambda x: x.cumsum(1), long)
    case("sort_long", lambda x: x.sort(1)[0], long)
    ties = integers(0, 4, 3, 40)
    case("argsort_ties", lambda x: x.argsort(dim=1, stable=True), ties)
    case("argsort_descending_ties", lambda x: x.argsort(dim=1, descending=True, stable=True), ties)
    case("cumsum_i32", lambda x: x.cumsum(1), ties)
    case("one_hot", lambda i: F.one_hot(i, 6).double(), integers(0, 6, 3, 2))
    case("take_last", lambda x, i: x.gather(-1, i[..., None])[..., 0], x, integers(0, 5, 3, 4))


def attention():
    q, k, v = normal(2, 4, 5, 3), normal(2, 2, 6, 3), normal(2, 2, 6, 4)
    i, j = torch.arange(5)[:, None], torch.arange(6)[None, :]

    def attend(q, k, v, seen=None, bias=0.0):
        k, v = (x.repeat_interleave(2, 1) for x in (k, v))
        scores = q @ k.mT / math.sqrt(3) + bias
        if seen is not None:
            scores = scores.masked_fill(~seen, -math.inf)
        return torch.nan_to_num(scores.softmax(-1)) @ v

    of_rows = lambda x: x.double().reshape(2, 1, 1, 1)
    case("attention/full", attend, q, k, v)
    case("attention/causal", lambda q, k, v: attend(q, k, v, j <= i), q, k, v)
    case("attention/lengths", lambda q, k, v, n: attend(q, k, v, j < of_rows(n)), q, k, v, torch.tensor([4, 0]))
    case("attention/offsets", lambda q, k, v, n: attend(q, k, v, j <= i + of_rows(n)), q, k, v, torch.tensor([2, -2]))
    case("attention/window", lambda q, k, v: attend(q, k, v, (j <= i) & (i - j < 2)), q, k, v)
    case("attention/window_both", lambda q, k, v: attend(q, k, v, (i - j).abs() < 2), q, k, v)
    case("attention/window_lengths", lambda q, k, v, n: attend(q, k, v, ((i - j).abs() < 3) & (j < of_rows(n))), q, k, v, torch.tensor([6, 3]))
    case("attention/bias", lambda q, k, v, b: attend(q, k, v, bias=b), q, k, v, normal(4, 1, 6))
    case("attention/mask", lambda q, k, v, m: attend(q, k, v, m > 0), q, k, v, (uniform(0, 1, 2, 1, 5, 6) < 0.6).long())
    turn = lambda x, at: torch.cat([x[..., :3] * at.cos() - x[..., 3:] * at.sin(), x[..., 3:] * at.cos() + x[..., :3] * at.sin()], -1)
    angles = lambda at: at.double()[..., None] * 100.0 ** (-torch.arange(3).double() / 3)
    case("rope", lambda x: turn(x, angles(torch.arange(4))), normal(2, 2, 4, 6))
    case("rope_at/shared", lambda x, at: turn(x, angles(at)), normal(2, 2, 4, 6), torch.tensor([7, 8, 9, 30]))
    case("rope_at/rows", lambda x, at: turn(x, angles(at)[:, None]), normal(2, 3, 2, 6), torch.tensor([[7, 8], [0, 49]]))


def products():
    for name, a, b in [
        ("matrices", (3, 4), (4, 5)), ("batch", (2, 3, 4), (2, 4, 5)), ("one_right", (2, 3, 4), (4, 5)),
        ("broadcast", (2, 1, 3, 4), (3, 4, 2)), ("row", (4,), (4, 5)), ("column", (3, 4), (4,)), ("vectors", (4,), (4,)),
        ("one_left", (3, 4), (2, 4, 5)),
    ]:
        case(f"matmul/{name}", torch.matmul, normal(*a), normal(*b))
    case("dot", torch.dot, normal(7), normal(7))
    case("outer", torch.outer, normal(3), normal(4))
    case("tensordot", lambda a, b: torch.tensordot(a, b, dims=([2, 0], [0, 1])), normal(3, 2, 4), normal(4, 3, 5))
    for spec, shapes in [
        ("ij,jk->ik", [(3, 4), (4, 5)]), ("bqd,bkd->bqk", [(2, 3, 4), (2, 5, 4)]), ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("ij->ji", [(3, 4)]), ("ij->", [(3, 4)]), ("ij->i", [(3, 4)]), ("ii->i", [(4, 4)]), ("ii", [(4, 4)]),
        ("i,j->ij", [(3,), (4,)]), ("ij,ij->ij", [(3, 4), (3, 4)]), ("ij,ij->", [(3, 4), (3, 4)]),
        ("ij,jk,kl->il", [(3, 4), (4, 2), (2, 5)]), ("ba,b->a", [(3, 4), (3,)]), ("abc,cd->bad", [(2, 3, 4), (4, 5)]),
        ("ba", [(3, 4)]), ("aij,ajk,a->ik", [(2, 3, 4), (2, 4, 5), (2,)]), ("iji->ij", [(3, 4, 3)]),
    ]:
        case(f"einsum/{spec}", lambda *x: torch.einsum(spec, *x), *[normal(*shape) for shape in shapes])


def losses():
    logits, classes = normal(6, 9, scale=3), integers(0, 9, 6)
    ignored = classes.clone()
    ignored[1], ignored[4] = -100, -100
    weights = uniform(0.2, 2, 9)
    case("cross_entropy", F.cross_entropy, logits, classes)
    case("cross_entropy/smoothed", lambda x, c: F.cross_entropy(x, c, label_smoothing=0.1), logits, classes)
    case("cross_entropy/ignored", lambda x, c: F.cross_entropy(x, c, ignore_index=-100), logits, ignored)
    case("cross_entropy/weighted", lambda x, c, w: F.cross_entropy(x, c, w.detach()), logits, classes, weights)
    case("cross_entropy/everything",
         lambda x, c, w: F.cross_entropy(x, c, w.detach(), label_smoothing=0.2, ignore_index=-100), logits, ignored, weights)
    case("cross_entropy/soft", F.cross_entropy, logits, floats(logits.flip(0).softmax(1)))
    case("nll_loss", lambda x, c: F.nll_loss(x, c), logits.log_softmax(1).float().double(), classes)
    x, y = normal(4, 5, scale=2), normal(4, 5, scale=2)
    case("mse_loss", F.mse_loss, x, y)
    case("l1_loss", F.l1_loss, x, y)
    case("huber_loss", lambda x, y: F.huber_loss(x, y, delta=0.8), x, y)
    case("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, beta=0.6), x, y)
    case("bce_with_logits", F.binary_cross_entropy_with_logits, x * 20, uniform(0, 1, 4, 5))
    case("bce_loss", lambda x, y: F.binary_cross_entropy(x, y.detach()), uniform(0.01, 0.99, 4, 5), uniform(0, 1, 4, 5))
    target = floats(y.softmax(1))
    target[0, 2] = 0
    case("kl_div_loss", lambda x, y: F.kl_div(x, y.detach(), reduction="batchmean"), floats(x.log_softmax(1)), target)
    case("cosine_embedding_loss", lambda x, y, t: F.cosine_embedding_loss(x, y, t, margin=0.1), x, y, torch.tensor([1, -1, -1, 1]))
    case("triplet_loss", lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=1.5), x, y, normal(4, 5, scale=2))
    case("hinge_loss", lambda x, t: F.relu(1 - x * t).mean(), x, 2 * integers(0, 2, 4, 5) - 1)
    case("poisson_nll_loss", lambda x, y: F.poisson_nll_loss(x, y.detach()), x, uniform(0, 5, 4, 5))
    case("gaussian_nll_loss", lambda x, y, v: F.gaussian_nll_loss(x, y, v), x, y, uniform(0.1, 3, 4, 5))


def norms():
    x = normal(4, 6, scale=2, shift=1)
    case("layer_norm", lambda x, w: F.layer_norm(x, (6,), w, None, 1e-5), x, normal(6))
    case("rms_norm", lambda x, w: F.rms_norm(x, (6,), w, 1e-6), x, normal(6))


CONVOLUTIONS = [
    # name, x, weights, stride, padding, dilation, groups
    ("plain", (2, 3, 6, 7), (4, 3, 3, 3), 1, 0, 1, 1),
    ("padded", (2, 3, 6, 7), (4, 3, 3, 3), 1, 1, 1, 1),
    ("strided", (2, 3, 7, 8), (4, 3, 3, 3), 2, 1, 1, 1),
    ("uneven", (1, 2, 9, 8), (3, 2, 2, 3), (2, 3), (0, 2), 1, 1),
    ("dilated", (2, 2, 9, 9), (3, 2, 3, 3), 1, 2, 2, 1),
    ("everything", (2, 4, 11, 10), (6, 2, 3, 2), (2, 3), (1, 2), (2, 1), 2),
    ("depthwise", (2, 4, 6, 6), (4, 1, 3, 3), 1, 1, 1, 4),
    ("pointwise", (2, 4, 5, 5), (3, 4, 1, 1), 1, 0, 1, 1),
    ("wide_padding", (1, 2, 4, 4), (2, 2, 2, 2), 1, 3, 1, 1),
    ("whole", (2, 3, 4, 4), (5, 3, 4, 4), 1, 0, 1, 1),
]


def convolutions():
    for name, x, weights, stride, padding, dilation, groups in CONVOLUTIONS:
        case(f"conv2d/{name}", lambda x, w: F.conv2d(x, w, None, stride, padding, dilation, groups), normal(*x), normal(*weights))
    case("conv1d/plain", F.conv1d, normal(2, 3, 9), normal(4, 3, 3))
    case("conv1d/strided", lambda x, w: F.conv1d(x, w, None, 3, 2, 2, 2), normal(2, 4, 11), normal(6, 2, 3))
    for name, x, weights, stride, padding, more, groups, dilation in [
        ("plain", (2, 3, 4, 5), (3, 4, 3, 3), 1, 0, 0, 1, 1), ("strided", (2, 3, 4, 5), (3, 4, 3, 3), 2, 1, 1, 1, 1),
        ("groups", (2, 4, 4, 3), (4, 3, 2, 3), (2, 1), (0, 1), 0, 2, 1), ("dilated", (1, 2, 4, 4), (2, 3, 3, 3), 2, 1, 1, 1, 2),
        ("wide_padding", (1, 2, 6, 6), (2, 2, 2, 2), 1, 2, 0, 1, 1),
    ]:
        case(f"conv_transpose2d/{name}",
             lambda x, w: F.conv_transpose2d(x, w, None, stride, padding, more, groups, dilation), normal(*x), normal(*weights))
    case("conv_transpose1d", lambda x, w: F.conv_transpose1d(x, w, None, 3, 1, 2), normal(2, 3, 5), normal(3, 2, 4))
    x = normal(2, 3, 7, 8)
    case("max_pool2d", lambda x: F.max_pool2d(x, 2), x)
    case("max_pool2d/overlapping", lambda x: F.max_pool2d(x, 3, 2, 1), x)
    case("max_pool2d/uneven", lambda x: F.max_pool2d(x, (2, 3), (1, 2)), x)
    case("max_pool2d/ties", lambda x: F.max_pool2d(x, 2), floats(RANDOM.randint(0, 2, (2, 1, 4, 4))))
    case("avg_pool2d", lambda x: F.avg_pool2d(x, 2), x)
    case("avg_pool2d/overlapping", lambda x: F.avg_pool2d(x, 3, 2, 1), x)
    case("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), normal(2, 3, 9))
    case("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 1, 1), normal(2, 3, 9))
    case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), x)
    case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (2, 3)), x)


def ctc():
    def loss(x, targets, times, labels, **options):
        return F.ctc_loss(x.log_softmax(-1), targets, times, labels, **options)

    x, targets = normal(7, 3, 5, scale=2), integers(1, 5, 3, 3)
    targets[0] = torch.tensor([2, 2, 4])
    times, labels = torch.tensor([7, 6, 4]), torch.tensor([3, 2, 1])
    case("ctc_loss", loss, x, targets, times, labels)
    case("ctc_loss/sum", lambda *x: loss(*x, reduction="sum"), x, targets, times, labels)
    case("ctc_loss/none", lambda *x: loss(*x, reduction="none"), x, targets, times, labels)
    case("ctc_loss/blank", lambda *x: loss(*x, blank=4), x, targets - 1, times, labels)
    case("ctc_loss/no_labels", loss, x, targets, times, torch.tensor([0, 3, 0]))
    # The padding is no class.
    repeated = torch.tensor([[3, 3, 3], [1, 1, -1], [2, -7, 99]])
    case("ctc_loss/repeated", loss, x, repeated, torch.tensor([5, 7, 1]), labels)
    # Three equal labels need five times.
    few = torch.tensor([4, 3, 0])
    case("ctc_loss/zero_infinity", lambda *x: loss(*x, zero_infinity=True), x, repeated, few, torch.tensor([3, 1, 0]))
    case("ctc_loss/infinite", lambda x, *y: loss(x.detach(), *y, reduction="none"), x, repeated, few, torch.tensor([3, 1, 0]))
    never = floats(x.log_softmax(-1))
    never[:, 0, 3] = -math.inf
    never[2:5, 1, 1] = -math.inf
    case("ctc_loss/never", lambda x, *y: F.ctc_loss(x.detach(), *y, reduction="none"), never, repeated, times, labels)
    case("ctc_loss/long", loss, normal(40, 2, 6, scale=3), integers(1, 6, 2, 15), torch.tensor([40, 33]), torch.tensor([15, 11]))


elementwise()
binary()
reductions()
shapes()
indices()
attention()
products()
losses()
norms()
convolutions()
ctc()
write("cases.safetensors", TENSORS, {"pytorch": torch.__version__})
print(sum(name.endswith("/y") for name in TENSORS), "cases")
