// The samples, in the order of the picker: models, losses and data are those of ../../samples, and here is how they are shown.
// Each is a class: static `id`, `source` (its file there), `title`, `line`, `about`, `unit`, `lr`, `settings` (those with
// `inputs` change what a step is fed with); an instance has `settings`, `session`, `units` (of a step), `program(settings)`
// (model, loss, inputs, optimizer), `forward(settings)` (what is attached), `batch()`, `refresh(infer, step)`, `mount(stage)`, `unmount()`, and
// `again()`, which forgets what was shown.

import { Addition } from './addition.js';
import { Digits } from './digits.js';
import { Dream } from './vae.js';
import { Duel } from './gan.js';
import { Moons } from './flow.js';
import { Names } from './names.js';
import { Picture } from './image.js';
import { Curve } from './sin.js';
import { Spirals } from './spirals.js';
import { Text } from './text.js';

export const SAMPLES = [Curve, Spirals, Digits, Dream, Picture, Addition, Names, Text, Duel, Moons];
