// The samples, in the order of the picker. Each is a class: static `id`, `title`, `line`, `about`, `unit`, `lr`, `settings`; an instance has
// `settings`, `optimizer`, `units` (of a step), `program(settings)` (model, loss, inputs), `forward(settings)` (what is attached),
// `batch()`, `refresh(infer, step)`, `mount(stage)`, `unmount()`, and where there is something to forget on a reset, `again()`.

import { Curve } from './sin.js';

export const SAMPLES = [Curve];
