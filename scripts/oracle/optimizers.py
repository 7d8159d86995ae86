"""Makes tests/data/optimizers.safetensors: 50 steps of optimizers, in float64.

    python3 -m venv .venv && .venv/bin/pip install numpy torch
    .venv/bin/python scripts/oracle/optimizers.py

Run with PyTorch 2.15; the tests read the file. Each minimises sum(0.5 * curvature * p^2 - slope * p) over a matrix and a
vector: `matrix`, `matrix.curvature`, `matrix.slope` [3, 4] and `vector`, .. [5]. `NAME/matrix` and `NAME/vector` are the
parameters after steps 1, 2, 5, 10, 20, 30, 40 and 50. Lion is not in PyTorch: it is program 1 of Chen et al., 2023. Muon is
PyTorch's without its rounding to bfloat16, on the transpose (PyTorch's weights are [outputs, inputs]), and AdamW on the
vector.
"""

import math

import numpy
import torch

from oracle_file import exact_in_f32, write

RANDOM = numpy.random.RandomState(17)
KEPT = [1, 2, 5, 10, 20, 30, 40, 50]
TENSORS = {}
START = {}
for name, shape in [("matrix", (3, 4)), ("vector", (5,))]:
    START[name] = [
        torch.from_numpy(exact_in_f32(x))
        for x in (RANDOM.standard_normal(shape), RANDOM.uniform(0.2, 3, shape), RANDOM.standard_normal(shape))
    ]
    TENSORS |= {name: START[name][0], f"{name}.curvature": START[name][1], f"{name}.slope": START[name][2]}


def run(name, step_of, seen=lambda p: p):
    """`step_of` makes, of the list of parameters, what takes a step; `seen` is what is kept of a parameter."""
    parameters = {key: values[0].clone().requires_grad_() for key, values in START.items()}
    step = step_of(list(parameters.values()))
    kept = {key: [] for key in parameters}
    for number in range(1, 51):
        loss = 0
        for key, p in parameters.items():
            p.grad = None
            _, curvature, slope = START[key]
            loss = loss + (0.5 * curvature * p**2 - slope * p).sum()
        loss.backward()
        step()
        if number in KEPT:
            for key, p in parameters.items():
                kept[key].append(seen(p).detach().clone())
    TENSORS.update({f"{name}/{key}": torch.stack(values) for key, values in kept.items()})


def pytorch(name, optimizer, **settings):
    run(name, lambda parameters: optimizer(parameters, **settings).step)


pytorch("rmsprop", torch.optim.RMSprop, lr=0.02, alpha=0.95, eps=1e-2, weight_decay=0.05)
pytorch("rmsprop_centered", torch.optim.RMSprop, lr=0.01, alpha=0.9, eps=1e-6, momentum=0.8, centered=True)
pytorch("adagrad", torch.optim.Adagrad, lr=0.2, initial_accumulator_value=0.1, eps=1e-8, weight_decay=0.05)
pytorch("adafactor", torch.optim.Adafactor, lr=0.004, beta2_decay=-0.7, eps=(1e-5, 1e-2), d=1.1, weight_decay=0.05)


def changed(name, change, lr=0.1):
    """SGD on gradients that are changed before."""
    def step_of(parameters):
        optimizer = torch.optim.SGD(parameters, lr=lr, momentum=0.5)

        def step():
            change(parameters)
            optimizer.step()

        return step

    run(name, step_of)


def normalize(parameters):
    for p in parameters:
        p.grad /= p.grad.norm() + 1e-8


def value_then_norm(parameters):
    torch.nn.utils.clip_grad_value_(parameters, 0.3)
    torch.nn.utils.clip_grad_norm_(parameters, 0.5)


changed("clip_norm", lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 0.5))
changed("clip_value", lambda parameters: torch.nn.utils.clip_grad_value_(parameters, 0.3))
changed("clip_both", value_then_norm)
changed("normalize", normalize)
changed("normalize_vector", lambda parameters: normalize(parameters[1:]))

AVERAGES = {}


def averaged(parameters):
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    average = torch.optim.swa_utils.AveragedModel(
        torch.nn.ParameterList(parameters), multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.8))
    model = torch.nn.ParameterList(parameters)

    def step():
        optimizer.step()
        average.update_parameters(model)
        AVERAGES.update(zip(map(id, parameters), average.module.parameters()))

    return step


run("average", averaged, lambda p: AVERAGES[id(p)])


def groups(parameters):
    matrix, vector = parameters
    optimizers = [
        torch.optim.AdamW([{"params": [matrix], "lr": 0.02, "weight_decay": 0.1}], betas=(0.8, 0.95)),
        torch.optim.SGD([vector], lr=0.1, momentum=0.5),
    ]
    falling = torch.optim.lr_scheduler.ExponentialLR(optimizers[1], 0.95)

    def step():
        for optimizer in optimizers:
            optimizer.step()
        falling.step()

    return step


run("groups", groups)
pytorch("adamw", torch.optim.AdamW, lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)


def lion(parameters, lr=0.02, beta1=0.9, beta2=0.95, decay=0.1):
    momentum = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step():
        for p, m in zip(parameters, momentum):
            direction = (beta1 * m + (1 - beta1) * p.grad).sign()
            p.mul_(1 - lr * decay).sub_(lr * direction)
            m.mul_(beta2).add_((1 - beta2) * p.grad)

    return step


def muon(parameters, lr=0.05, momentum=0.9, decay=0.1, nesterov=True, match=False):
    matrix, vector = parameters
    buffer = torch.zeros_like(matrix)
    others = torch.optim.AdamW([vector], lr=lr / 2, weight_decay=decay)

    @torch.no_grad()
    def step():
        gradient = matrix.grad
        buffer.lerp_(gradient, 1 - momentum)
        update = (gradient.lerp(buffer, momentum) if nesterov else buffer).T
        tall = update.shape[0] > update.shape[1]
        x = update.T if tall else update
        x = x / x.norm().clamp(min=1e-7)
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
        x = x.T if tall else x
        rows, columns = x.shape
        scale = 0.2 * math.sqrt(max(rows, columns)) if match else math.sqrt(max(1, rows / columns))
        matrix.mul_(1 - lr * decay).sub_(lr * scale * x.T)
        others.step()

    return step


run("lion", lion)
run("muon", muon)
run("muon_plain", lambda parameters: muon(parameters, nesterov=False, match=True))
write("optimizers.safetensors", TENSORS, {"pytorch": torch.__version__})
