// Checkpoints of a training. In: the state of a worker, or a safetensors file. Out: tensors with metadata
// that `saveSafetensors` writes, and the reverse. Always holds: a checkpoint contains everything needed to
// continue with identical bits, as tensors or as strings in the metadata; a file that lacks some of it is an
// error that names the missing part.

import { dataOf, isPlain, typeOf, type Data, type Dtype } from './dtype.js';
import { fail } from './errors.js';
import type { Position, Sent } from './protocol.js';
import { parseSafetensors } from './safetensors.js';
import { scheduleNumbers, type LR } from './schedule.js';

/** A tensor with its type. */
export interface StateTensor {
  /** Elements; those of f16 and bf16 are f32, which represents them exactly. */
  data: Data;
  shape: readonly number[];
  dtype: Dtype;
}

/**
 * The complete state of a training: `saveSafetensors(state.tensors, state.metadata)` writes a file of it,
 * which `uploadState` accepts. `tensors` has the parameters by name, the model's states, and the optimizer's
 * states under `optim.`, among them the number of applied steps, `optim.applied_step`. `metadata` has
 * - `gradloom.state`: the version of this format, 1;
 * - `gradloom.attempted_steps`: the number of attempted steps, which determines the schedule and random ops;
 * - `gradloom.applied_steps`: the number of steps that took effect, as in `optim.applied_step`;
 * - `gradloom.seed`: the seed of random ops;
 * - `gradloom.lr`: the schedule as JSON with its `startStep`, if `setLR` replaced the optimizer's.
 */
export interface TrainingState {
  tensors: Record<string, StateTensor>;
  metadata: Record<string, string>;
}

const KEYS = {
  version: 'gradloom.state', attempted: 'gradloom.attempted_steps', applied: 'gradloom.applied_steps', seed: 'gradloom.seed', lr: 'gradloom.lr',
} as const;
const APPLIED = 'optim.applied_step';

/** Creates a state from the worker's tensors. */
export function stateOf(sent: readonly Sent[], attempted: number, seed: number, rate: LR | null): TrainingState {
  const applied = sent.find(({ name }) => name === APPLIED)?.data[0];
  return {
    tensors: Object.fromEntries(sent.map(({ name, data, shape, dtype }) => [name, { data, shape, dtype }])),
    metadata: {
      [KEYS.version]: '1', [KEYS.attempted]: String(attempted), ...(applied !== undefined && { [KEYS.applied]: String(applied) }),
      [KEYS.seed]: String(seed), ...(rate !== null && { [KEYS.lr]: JSON.stringify(rate) }),
    },
  };
}

/** Creates the state of a model that is not trained: parameters, states and the seed. */
export function modelState(sent: readonly Sent[], seed: number): TrainingState {
  return {
    tensors: Object.fromEntries(sent.map(({ name, data, shape, dtype }) => [name, { data, shape, dtype }])),
    metadata: { [KEYS.version]: '1', [KEYS.seed]: String(seed) },
  };
}

/** Returns a state, read from a file's bytes if necessary. */
export function stateFrom(given: TrainingState | ArrayBuffer | Uint8Array): TrainingState {
  const isFile = given instanceof Uint8Array || Object.prototype.toString.call(given) === '[object ArrayBuffer]';
  if (!isFile) return given as TrainingState;
  const { entries, metadata } = parseSafetensors(given as ArrayBuffer | Uint8Array);
  const tensors: Record<string, StateTensor> = {};
  for (const { name, dtype, shape, bytes } of entries) {
    const own = dtype.toLowerCase() as Dtype;
    if (!FILE_TYPES.includes(dtype)) throw fail('store', `'${name}' of the state is ${dtype}`, `a state has ${FILE_TYPES.join(', ')}`);
    tensors[name] = { data: dataOf(own, bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength), shape, dtype: own };
  }
  return { tensors, metadata: { ...metadata, ...nativeNotes(metadata) } };
}

/** Returns the metadata of a file of the native library, which stores it as one string with a checksum. */
function nativeNotes({ gradloom: text }: Readonly<Record<string, string>>): Record<string, string> {
  if (text === undefined) return {};
  let notes: unknown;
  try {
    notes = (JSON.parse(text) as { entries?: unknown }).entries;
  } catch {
    notes = undefined;
  }
  if (typeof notes !== 'object' || notes === null) throw fail('store', "the state's 'gradloom' cannot be understood");
  const number = Object.keys(notes).find((key) => key.startsWith('gradloom.number.'));
  if (number !== undefined) {
    throw fail('store', `the state was made with another ${number.slice('gradloom.number.'.length)} than the optimizer's, by set_hyperparameter`,
      'give the number to the optimizer before the state is saved');
  }
  const rate = Object.keys(notes).find((key) => key.startsWith('gradloom.rate.'));
  if (rate !== undefined) {
    throw fail('store', `the state was made with a rate of its own for ${rate.slice('gradloom.rate.'.length)}, by set_lr_of`,
      'groups of parameters are the native library\'s: go on with it');
  }
  return notes as Record<string, string>;
}

const FILE_TYPES = ['F32', 'I32', 'U32', 'BOOL', 'F16', 'BF16', 'U8', 'I64'];

/** Returns the position from which a state continues, and the schedule set by the user. */
export function positionOf({ tensors, metadata }: TrainingState, seed: number): Position & { rate: LR | null } {
  const whole = (key: string) => {
    const text = metadata?.[key];
    if (text === undefined) {
      throw fail('store', `the state does not say '${key}'`, 'it must be what downloadState() of a training gave; uploadParams(..) takes parameters alone');
    }
    const number = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(number)) throw fail('store', `the state's '${key}' is '${text}', not a whole number`);
    return number;
  };
  const version = whole(KEYS.version);
  if (version !== 1) throw fail('store', `the state is of form ${version}, and this version knows form 1`, 'use the version of gradloom that wrote it');
  const [attempted, made] = [whole(KEYS.attempted), whole(KEYS.seed)];
  if (made !== seed) {
    throw fail('store', `the state was made with the seed ${made}, and this program has ${seed}`,
      `compile with \`seed: ${made}\`, so that random ops go on as they would have`);
  }
  const applied = tensors[APPLIED]?.data[0];
  if (metadata[KEYS.applied] !== undefined && String(applied) !== metadata[KEYS.applied]) {
    throw fail('store', `the state's '${KEYS.applied}' is ${metadata[KEYS.applied]}, and its tensor '${APPLIED}' ${String(applied)}`);
  }
  let rate: LR | null = null;
  if (metadata[KEYS.lr] !== undefined) {
    try {
      rate = JSON.parse(metadata[KEYS.lr]!) as LR;
      // The native library has schedules that do not exist here; the user must set them again.
      if (rate as unknown === 'scheduled') rate = null;
    } catch {
      throw fail('store', `the state's '${KEYS.lr}' is no JSON`);
    }
  }
  return { attempted, rate, schedule: rate === null ? null : scheduleNumbers(rate, KEYS.lr) };
}

/** Returns the checked names, dtypes, elements and types of a state, in order. */
export function partsOf({ tensors }: TrainingState): { names: string[]; dtypes: Dtype[]; data: Data[]; types: string[] } {
  const all = Object.entries(tensors ?? {});
  for (const [name, { data, shape, dtype }] of all) {
    const count = shape.reduce((a, b) => a * b, 1);
    if (!ArrayBuffer.isView(data) || data.length !== count) {
      throw fail('store', `'${name}' of the state has ${data?.length} elements; [${shape.join(', ')}] has ${count}`);
    }
    if (!isPlain(dtype) && !(data instanceof Float32Array)) throw fail('store', `'${name}' of the state is ${dtype}, and no Float32Array`);
  }
  return {
    names: all.map(([name]) => name), dtypes: all.map(([, { dtype }]) => dtype), data: all.map(([, { data }]) => data),
    types: all.map(([, tensor]) => typeOf(tensor)),
  };
}
