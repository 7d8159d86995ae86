// `singleFlight`: only the newest call matters. In: a function that returns a promise. Out: a function with
// at most one call running and one waiting. Always holds: every call settles: with its value, with 'aborted'
// if a newer call replaced it, or with the function's own error, even if the previous call failed.

/** Result of a wrapped call. */
export type SingleFlightResult<R> = { kind: 'completed'; value: R } | { kind: 'aborted' };

/** Wraps a function so that, of the calls made while one is running, only the newest runs. */
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
