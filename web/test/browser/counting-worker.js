// The package's worker, which counts the modules that it compiles at run time or, with ?refuse in its URL,
// compiles none. A message on the channel 'loops' is answered with the numbers of requested and of existing
// modules.

const refuses = new URL(self.location.href).searchParams.has('refuse');
const seen = { asked: 0, made: 0 };
const { Instance } = WebAssembly;
WebAssembly.Instance = new Proxy(Instance, {
  construct(target, args) {
    seen.asked++;
    if (refuses) throw new WebAssembly.CompileError('refused');
    seen.made++;
    return Reflect.construct(target, args);
  },
});
const channel = new BroadcastChannel('loops');
channel.onmessage = ({ data }) => { if (data === 'count') channel.postMessage(seen); };

// Imported after the setup above, so not statically. Messages that arrive meanwhile are kept.
const early = [];
self.onmessage = (event) => early.push(event);
await import('/dist/worker.js');
early.forEach((event) => self.onmessage(event));
