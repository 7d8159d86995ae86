// The package's worker, which counts the modules that it makes at run time, or, with ?refuse in its address, makes none: a message on
// the channel 'loops' is answered with how many were asked for and how many there are.

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

// After that, so not a static import. What arrives meanwhile is kept for it.
const early = [];
self.onmessage = (event) => early.push(event);
await import('/dist/worker.js');
early.forEach((event) => self.onmessage(event));
