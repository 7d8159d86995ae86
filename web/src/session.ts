// A session on the page's side: a model's parameters in a worker. In: a host, a declared model. Out: reading
// and writing parameters. Always holds: names are the model's paths; an upload is checked here, and then all
// of it is written, or nothing.

import { elements, isPlain, storedOf, typeOf, type Data, type Dtype, type Stored } from './dtype.js';
import { fail } from './errors.js';
import type { Host } from './host.js';
import type { NamedParam } from './module.js';
import { nearest } from './options.js';
import type { Counters, Sent } from './protocol.js';
import { partsOf, type TrainingState } from './state.js';

/** A model in a worker. */
export interface Model {
  instance: object;
  params: readonly NamedParam[];
  /** Other names of parameters: [other, first]. */
  aliases: readonly (readonly [string, string])[];
  session: number;
  seed: number;
}

/** Values by name, or in the structure of the model. */
export type ParamValues = { readonly [name: string]: Float32Array | ParamValues | readonly (Float32Array | ParamValues)[] };

/** Returns a random seed. */
export function randomSeed(): number {
  return Math.floor(Math.random() * 2 ** 32);
}

/** Flattens a tree of values to names such as 'layers.0.W'. */
export function flattened(values: ParamValues): Record<string, Float32Array> {
  const flat: Record<string, Float32Array> = {};
  const visit = (value: unknown, path: string): void => {
    if (value === null || value === undefined) return;
    if (ArrayBuffer.isView(value)) {
      flat[path] = value as Float32Array;
    } else if (typeof value === 'object') {
      for (const [key, child] of Object.entries(value)) visit(child, path === '' ? key : `${path}.${key}`);
    } else {
      throw fail('store', `'${path}' is ${typeof value}, not a Float32Array`);
    }
  };
  visit(values, '');
  return flat;
}

/**
 * Converts arrays to their stored form for a message. They are copied, unless the caller transfers them and
 * they need no rounding.
 */
export function handed(dtypes: readonly Dtype[], data: readonly Data[], given = false): { data: Stored[]; transfer: Transferable[] } {
  const all = data.map((array, i) => (given && isPlain(dtypes[i]!) ? array : storedOf(dtypes[i]!, array)));
  return { data: all, transfer: [...new Set(all.map(({ buffer }) => buffer as ArrayBuffer))] };
}

/** Uploads parameters. */
export async function upload(host: Host, model: Model, values: ParamValues, partial: boolean, site: Error): Promise<void> {
  const given = flattened(values);
  const named = new Map<string, Float32Array>();
  const first = new Map(model.aliases);
  const known = new Map(model.params.map((param) => [param.name, param]));
  for (const [name, data] of Object.entries(given)) {
    const target = first.get(name) ?? name;
    const param = known.get(target);
    if (!param) {
      const names = model.params.map((p) => p.name);
      const meant = nearest(name, names);
      throw fail('store', `there is no parameter '${name}'`, `${meant ? `did you mean '${meant}'? ` : ''}there are: ${names.join(', ')}`);
    }
    if (!(data instanceof Float32Array) && Object.prototype.toString.call(data) !== '[object Float32Array]') {
      throw fail('store', `'${name}' is no Float32Array`);
    }
    const count = elements(param.shape);
    if (data.length !== count) {
      throw fail('store', `'${name}' has ${data.length} elements; [${param.shape.join(', ')}] has ${count}`);
    }
    // For a tied parameter, the value under its first name is used.
    if (target === name || !named.has(target)) named.set(target, data);
  }
  if (!partial) {
    const missing = model.params.filter(({ name }) => !named.has(name)).map(({ name }) => name);
    if (missing.length > 0) {
      throw fail('store', `${missing.length} parameters are missing: ${missing.slice(0, 8).join(', ')}${missing.length > 8 ? ', ..' : ''}`,
        'upload a part with { partial: true }');
    }
  }
  const tensors = [...named].map(([name, data]) => ({ name, dtype: known.get(name)!.dtype, data }));
  await host.client.upload({ session: model.session, strict: !partial, finite: true }, tensors, site);
}

/** Downloads the parameters and the model's states, without the states of an optimizer. */
export async function downloadOwn(host: Host, model: Model, site: Error): Promise<Sent[]> {
  const { tensors } = await host.client.ask('download', { session: model.session, states: true }, [], site);
  return tensors.filter(({ name }) => !name.startsWith(OPTIMIZER));
}

/** Overwrites the parameters and the model's states: all of them, or none. */
export async function uploadOwn(host: Host, model: Model, state: TrainingState, site: Error): Promise<void> {
  const { names, dtypes, data, types } = partsOf(state);
  const own = names.flatMap((name, i) => (name.startsWith(OPTIMIZER) ? [] : [i]));
  const known = new Map(model.params.map((param) => [param.name, typeOf(param)]));
  for (const i of own) {
    const wanted = known.get(names[i]!);
    if (wanted !== undefined && wanted !== types[i]) throw fail('store', `'${names[i]}' of the state is ${types[i]}; here it is ${wanted}`);
  }
  const tensors = own.map((i) => ({ name: names[i]!, dtype: dtypes[i]!, data: data[i]! }));
  await host.client.upload({ session: model.session, strict: true, finite: false }, tensors, site);
}

/** Prefix of the names of an optimizer's states. */
const OPTIMIZER = 'optim.';

/** Downloads the parameters, by first name. */
export async function download(host: Host, model: Model, site: Error): Promise<Record<string, Float32Array>> {
  const { tensors } = await host.client.ask('download', { session: model.session, states: false }, [], site);
  return Object.fromEntries(tensors.map(({ name, data }) => [name, data as Float32Array]));
}

/** Returns the numbers of existing objects in the worker. */
export function counters(host: Host): Promise<Counters> {
  return host.client.ask('counters', {});
}
