// An instance without tensors: it numbers the commands and keeps them.

export class FakeCore {
  dead = false;
  memoryBytes = 0;
  resets = 0;
  reset() { this.resets++; this.texts = []; this.blobs = []; this.commands = []; this.tensors = 0; this.params = 0; this.traces = 0; this.fail = null; }
  constructor() { this.reset(); }
  text(text) { return this.texts.push(text) - 1; }
  blob(values) { return this.blobs.push(values) - 1; }
  command(code, args) {
    const failure = this.failing?.(code, args);
    if (failure) throw failure;
    this.commands.push([code, ...args]);
    switch (code) {
      case 0: case 3: case 6: case 9: return 0;
      case 1: return this.params++;
      case 2: return args[1];
      case 8: return this.traces++;
      default: return this.tensors++;
    }
  }
  describe() { return { dtype: 'f32', shape: [] }; }
}
