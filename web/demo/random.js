// Random numbers that a seed repeats. In: a seed. Out: a function that gives uniform numbers in [0, 1). mulberry32, whose period of
// 2³² is plenty for drawings and batches.

export function generator(seed) {
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
export const below = (random, n) => Math.floor(random() * n);

/** A number between two. */
export const between = (random, low, high) => low + (high - low) * random();

/** A normally distributed number. */
export const normal = (random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
