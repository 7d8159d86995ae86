// `singleFlight`: the newest call wins. In: a function that gives a promise. Out: one of which at most one
// call is under way and one waits. What always holds: every call settles: with its value, with 'aborted' if a
// newer one took its place, or with the function's own error, also when the call before it failed.

/** What a wrapped call gives. */
export type SingleFlightResult<R> = { kind: 'completed'; value: R } | { kind: 'aborted' };

/** Wraps a function so that calls that come while one is under way are reduced to the newest. */
export function singleFlight<A, R>(f: (arg: A) => Promise<R>): (arg: A) => Promise<SingleFlightResult<R>> {
  let active = false;
  let waiting: { arg: A; settle: (result: SingleFlightResult<R> | Promise<SingleFlightResult<R>>) => void } | null = null;

  const start = async (arg: A): Promise<SingleFlightResult<R>> => {
    active = true;
    try {
      return { kind: 'completed', value: await f(arg) };
    } finally {
      active = false;
      const next = waiting;
      waiting = null;
      if (next) next.settle(start(next.arg));
    }
  };

  return (arg) => {
    if (!active) return start(arg);
    waiting?.settle({ kind: 'aborted' });
    return new Promise((resolve) => { waiting = { arg, settle: resolve }; });
  };
}
