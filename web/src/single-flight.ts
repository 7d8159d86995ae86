// `singleFlight`: the newest call wins. In: a function that gives a promise. Out: one of which at most one
// call is under way and one waits. What always holds: every call settles: with its value, with 'aborted' if a
// newer one took its place, or with the function's own error, also when the call before it failed.

/** What a wrapped call gives. */
export type SingleFlightResult<R> = { kind: 'completed'; value: R } | { kind: 'aborted' };

/** Wraps a function so that calls that come while one is under way are reduced to the newest. */
export function singleFlight<A extends unknown[], R>(f: (...args: A) => Promise<R>): (...args: A) => Promise<SingleFlightResult<R>> {
  let active = false;
  let waiting: { args: A; settle: (result: SingleFlightResult<R> | Promise<SingleFlightResult<R>>) => void } | null = null;

  const start = async (args: A): Promise<SingleFlightResult<R>> => {
    active = true;
    try {
      return { kind: 'completed', value: await f(...args) };
    } finally {
      active = false;
      const next = waiting;
      waiting = null;
      if (next) next.settle(start(next.args));
    }
  };

  return (...args) => {
    if (!active) return start(args);
    waiting?.settle({ kind: 'aborted' });
    return new Promise((resolve) => { waiting = { args, settle: resolve }; });
  };
}
