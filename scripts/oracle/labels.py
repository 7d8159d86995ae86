"""Makes tests/data/labels.safetensors: cross-entropies of targets that do not all count, in float64.

    python3 -m venv .venv && .venv/bin/pip install numpy torch
    .venv/bin/python scripts/oracle/labels.py

Run with PyTorch 2.15; the tests read the file. `ids` are int32 [rows, time] and `logits` [rows, time, classes]; targets
are the ids one place on, and -100 where nothing follows. Of each case, NAME/loss is the loss and NAME/grad its gradient:
    next        all targets that there are
    completion  in row 0 the tokens 3.., in row 1 the tokens 2..5 alone
    smoothed    the same, with a label smoothing of 0.1
"""

import numpy
import torch
import torch.nn.functional as F

from oracle_file import exact_in_f32, write

ROWS, TIME, CLASSES = 2, 7, 5
RANDOM = numpy.random.RandomState(31)
ids = torch.from_numpy(RANDOM.randint(0, CLASSES, [ROWS, TIME]))
logits = torch.from_numpy(exact_in_f32(RANDOM.standard_normal([ROWS, TIME, CLASSES]) * 2)).requires_grad_()
following = F.pad(ids[:, 1:], (0, 1), value=-100)
counted = torch.zeros([ROWS, TIME], dtype=torch.bool)
counted[0, 2:6] = True
counted[1, 1:4] = True
completion = torch.where(counted, following, -100)
tensors = {"ids": ids, "logits": logits, "next/targets": following, "completion/targets": completion}
for name, targets, smoothing in [("next", following, 0.0), ("completion", completion, 0.0), ("smoothed", completion, 0.1)]:
    loss = F.cross_entropy(logits.reshape(-1, CLASSES), targets.reshape(-1), label_smoothing=smoothing)
    (grad,) = torch.autograd.grad(loss, logits)
    tensors |= {f"{name}/loss": loss, f"{name}/grad": grad}
write("labels.safetensors", tensors, {"about": "scripts/oracle/labels.py"})
