// One training of a sample. In: the sample, sizes, learning rate, seed, device. Out: states and numbers, told to a listener. What always
// holds: the page never waits for the GPU: steps are posted to the worker, and the loss is read of every few only; drawing is
// asked for between them; a model that cannot be compiled leaves the one before running.

import { compile } from 'gradloom';

/** Longest between two losses, in milliseconds: what the curve and the numbers feel smooth with. */
const READ_EVERY = 120;
/** Our own work between two breaths of the page, in milliseconds. */
const SLICE = 5;
const MOST_UNREAD = 63;
/** Longest that what is shown is taken to take, in milliseconds. */
const SLOWEST = 400;

/** Lets the page answer input and draw. */
const breathe = () => globalThis.scheduler?.yield?.() ?? new Promise((resolve) => setTimeout(resolve));

export class Session {
  state = 'idle';
  step = 0;
  loss = NaN;
  stepsPerSecond = 0;
  /** Milliseconds from the call to a program that is ready, and of the first step. */
  timing = { compile: NaN, first: NaN };
  train = null;
  #sample;
  #options;
  #listener;
  #infer = null;
  /** Changes whenever the loop that runs has to end. */
  #turn = 0;
  #loop = Promise.resolve();
  #burst = 1;
  #rates = [];
  /** Changes of size and resets, one after another. */
  #queue = Promise.resolve();
  #gone = false;
  #shown = { at: 0, took: 0 };

  /** `options`: lr, seed, device, limit (steps after which it pauses). `listener`: change, loss,
   *  compiled, changed, failed. */
  constructor(sample, options, listener) {
    this.#sample = sample;
    this.#options = options;
    this.#listener = listener;
  }

  #set(state) {
    this.state = state;
    if (!this.#gone) this.#listener.change();
  }

  /** What is compiled, with the learning rate of the page. */
  #program(settings) {
    const { optimizer, ...program } = this.#sample.program(settings);
    return { ...program, optimizer: { ...optimizer, lr: this.#options.lr } };
  }

  async #compile(settings) {
    const program = this.#program(settings);
    const begin = performance.now();
    const train = await compile({ ...program, seed: this.#options.seed, device: this.#options.device });
    this.timing = { compile: performance.now() - begin, first: NaN };
    try {
      const infer = await train.attach(this.#sample.forward(settings));
      return { train, infer };
    } catch (thrown) {
      await train.destroy();
      throw thrown;
    }
  }

  #use({ train, infer }) {
    this.train = train;
    this.#infer = infer;
    void train.lost.then((error) => {
      if (this.train === train) this.#fail(error);
    });
    this.#listener.compiled();
  }

  /** Begins, or goes on. */
  async start() {
    if (this.state === 'running' || this.state === 'compiling') return;
    const turn = ++this.#turn;
    try {
      if (!this.train) {
        this.#set('compiling');
        const made = await this.#compile(this.#sample.settings);
        if (turn !== this.#turn) {
          await made.train.destroy();
          return;
        }
        this.#use(made);
        await this.refresh();
        if (turn !== this.#turn) return;
      }
    } catch (thrown) {
      if (turn === this.#turn) this.#fail(thrown);
      return;
    }
    this.#set('running');
    this.#rates = [];
    this.#loop = this.#run(turn);
  }

  async pause() {
    if (this.state === 'compiling') {
      this.#turn++;
      this.#set(this.train ? 'paused' : 'idle');
      return;
    }
    if (this.state !== 'running') return;
    this.#turn++;
    this.#set('paused');
    await this.#loop;
    // Meanwhile the visitor may have gone on.
    if (this.state === 'paused') await this.refresh();
  }

  /** Initial values again; it stays compiled. */
  reset() {
    return this.#queued(() => this.#reset());
  }

  async #reset() {
    await this.pause();
    // Steps that were on their way when it was paused have to arrive first.
    await this.#loop;
    try {
      await this.train?.reset();
      await this.train?.setLR(this.#options.lr);
    } catch (thrown) {
      return this.#fail(thrown);
    }
    Object.assign(this, { step: 0, loss: NaN, stepsPerSecond: 0 });
    this.#sample.again?.();
    this.#set(this.train ? 'paused' : 'idle');
    await this.refresh();
  }

  async setLR(rate) {
    this.#options.lr = rate;
    await this.train?.setLR(rate).catch((error) => this.#fail(error));
  }

  /** Other sizes. `inputs`: whether the shapes of a step's inputs change too, which needs another program; otherwise the model is replaced. */
  resize(settings, how) {
    return this.#queued(() => this.#resize(settings, how));
  }

  #queued(work) {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => undefined);
    return done;
  }

  async #resize(settings, { inputs }) {
    if (this.#gone) return false;
    const before = this.#sample.settings;
    if (!this.train) {
      this.#sample.settings = settings;
      return true;
    }
    const going = this.state === 'running';
    try {
      if (inputs) {
        if (going) await this.pause();
        await this.#loop;
        this.#set('compiling');
        const kept = await this.train.downloadState();
        const made = await this.#compile(settings);
        // Where only the batch changed, it goes on from exactly here.
        if (this.#gone) {
          await made.train.destroy();
          return false;
        }
        const same = await made.train.uploadState(kept).then(() => true, () => false);
        await this.train.destroy();
        this.#sample.settings = settings;
        this.#use(made);
        this.#set('paused');
        this.#listener.changed(same ? null : 'new model');
        if (going) void this.start();
        else await this.refresh();
      } else {
        const { model, loss, optimizer } = this.#program(settings);
        const begin = performance.now();
        await this.train.replaceModel(model, { loss, optimizer });
        this.#sample.settings = settings;
        this.timing = { compile: performance.now() - begin, first: NaN };
        this.#listener.changed('new model');
        this.#listener.compiled();
        if (!going) await this.refresh();
      }
      return true;
    } catch (thrown) {
      if (this.#gone) return false;
      this.#sample.settings = before;
      this.#listener.failed(thrown);
      if (this.state === 'compiling') this.#set('paused');
      if (inputs && going) void this.start();
      return false;
    }
  }

  /** Ends it: the worker and all it had on the GPU go. */
  async destroy() {
    this.#turn++;
    this.#gone = true;
    const { train } = this;
    this.train = null;
    this.#infer = null;
    await train?.destroy();
  }

  #fail(error) {
    if (this.#gone) return;
    this.#turn++;
    if (error?.kind === 'lost') {
      // Nothing of it can be used any more: the next start compiles again.
      const { train } = this;
      this.train = null;
      void train?.destroy();
    }
    this.#set(this.train ? 'paused' : 'idle');
    this.#listener.failed(error);
  }

  /** Runs the attached forward functions and draws what they give. */
  async refresh() {
    const infer = this.#infer;
    if (!infer || !this.train) return;
    const begin = performance.now();
    try {
      await this.#sample.refresh(infer, this.step);
    } catch (thrown) {
      return this.#fail(thrown);
    }
    // The first one compiles: that says nothing about the next.
    this.#shown = { at: performance.now(), took: Math.min(SLOWEST, performance.now() - begin) };
  }

  async #run(turn) {
    const alive = () => turn === this.#turn;
    try {
      while (alive()) {
        const limit = this.#options.limit - this.step;
        if (limit <= 0) {
          this.#turn++;
          this.#set('paused');
          await this.refresh();
          return;
        }
        const { train } = this;
        const count = Math.min(this.#burst, limit);
        const begin = performance.now();
        let worked = begin;
        for (let i = 1; i < count && alive(); i++) {
          void train.step(this.#sample.batch(), { read: false, transfer: true });
          this.step++;
          if (performance.now() - worked > SLICE) {
            await breathe();
            worked = performance.now();
          }
        }
        if (!alive()) return;
        const result = await train.step(this.#sample.batch(), { transfer: true });
        if (result.kind === 'aborted' || train !== this.train) return;
        if (result.kind === 'failed') throw result.error;
        this.step++;
        const end = performance.now();
        if (Number.isNaN(this.timing.first)) this.timing.first = (end - begin) / count;
        this.loss = result.loss;
        this.#pace(count, begin, end);
        this.#listener.loss();
        // What is shown takes a fifth of the time at most, and at least every quarter of a second is enough.
        if (end - this.#shown.at > Math.max(250, 4 * this.#shown.took)) await this.refresh();
      }
    } catch (thrown) {
      if (alive()) this.#fail(thrown);
    }
  }

  /** Steps a second over the last two seconds, and how many of the next go unread. */
  #pace(count, begin, end) {
    const rates = this.#rates;
    rates.push({ count, took: end - begin, at: end });
    while (rates.length > 2 && rates[0].at < end - 2000) rates.shift();
    const took = rates.reduce((sum, rate) => sum + rate.took, 0);
    const steps = rates.reduce((sum, rate) => sum + rate.count, 0);
    this.stepsPerSecond = 1000 * steps / Math.max(took, 0.1);
    const wanted = READ_EVERY * this.stepsPerSecond / 1000;
    this.#burst = Math.max(1, Math.min(MOST_UNREAD + 1, Math.round(wanted), 2 * this.#burst));
  }
}
