// Random numbers for the samples' data, which a seed repeats: mulberry32, whose period of 2³² is plenty.

/** Gives uniform numbers in [0, 1). */
export type Random = () => number;

export function generator(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 15), z | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A whole number from 0 to `n - 1`. */
export const below = (random: Random, n: number): number => Math.floor(random() * n);

/** A number between two. */
export const between = (random: Random, low: number, high: number): number => low + (high - low) * random();

/** A normally distributed number. */
export const normal = (random: Random): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

/** An index, each with the probability that the softmax of its logit gives; a low temperature prefers the likely. */
export function choose(random: Random, logits: Float32Array, temperature = 1): number {
  const top = Math.max(...logits);
  const weights = Array.from(logits, (logit) => Math.exp((logit - top) / temperature));
  let left = random() * weights.reduce((a, b) => a + b);
  const at = weights.findIndex((weight) => (left -= weight) < 0);
  return at < 0 ? weights.length - 1 : at;
}

/** The index of the largest number. */
export const largest = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((best, value, i, all) => (value > all[best]! ? i : best), 0);
