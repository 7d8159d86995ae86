// Yielding: long work in pieces, between which the thread handles other events. In: nothing. Out: a promise
// that resolves after the pending messages, timers and frames. Always holds: it is not throttled, as timers
// are.

/** Milliseconds of work before yielding. */
export const TURN = 8;

/** Yields to other events. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** Returns a function that yields if `TURN` milliseconds have passed since the last time. */
export function turns(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => (performance.now() - since < TURN ? undefined : turn().then(() => { since = performance.now(); }));
}
