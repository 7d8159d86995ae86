// The samples, in the order of the picker. Each is a class: static `id`, `title`, `line`, `about`, `unit`, `lr`, `settings` (those with
// `inputs` change what a step is fed with); an instance has `settings`, `session`, `optimizer`, `units` (of a step), `program(settings)`
// (model, loss, inputs), `forward(settings)` (what is attached), `batch()`, `refresh(infer, step)`, `mount(stage)`, `unmount()`, and
// `again()`, which forgets what was shown.

import { Addition } from './addition.js';
import { Digits } from './digits.js';
import { Picture } from './image.js';
import { Curve } from './sin.js';
import { Text } from './text.js';

export const SAMPLES = [Curve, Digits, Addition, Text, Picture];
