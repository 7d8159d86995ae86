// Turns: long work in pieces, between which the thread does what else there is. In: nothing. Out: a promise that
// settles after the messages, timers and frames that waited. What always holds: it is not throttled, as timers are.

/** Milliseconds of work after which a turn is given. */
export const TURN = 8;

/** Gives everything else its turn. */
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

/** Gives a turn whenever `TURN` milliseconds have passed since the last one. */
export function turns(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => (performance.now() - since < TURN ? undefined : turn().then(() => { since = performance.now(); }));
}
