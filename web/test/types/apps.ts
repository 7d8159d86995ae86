// Typical code around a training: generic helpers, maps, types derived from values. Checked by `npm run
// check`, never run.
import { compile, compileForward, Module, Linear, LayerNorm, mean, square, sub, capture, relu, lr, type CompiledTraining, type CompiledForward, type Tensor, type InputDecls, type TypedInputs, type OptimizerConfig, type LR, type StepResult, type Captures } from 'gradloom';
// Classes with generic helpers, as applications define them.
abstract class Base extends Module { abstract fwd(x: Tensor): Tensor }
class A extends Base { l = new Linear(1, 1); fwd(x: Tensor) { return this.l.fwd(x) } }
class B extends Base { n = new LayerNorm(4); blocks: A[] = []; fwd(x: Tensor) { return this.n.fwd(x) } }
interface Deps<M extends Module> { train: CompiledTraining<M>; infer: CompiledForward<M> }
async function build<M extends Base>(model: M): Promise<Deps<M>> {
  const train = await compile({ model, loss: (m: M, { x, y }: { x: Tensor; y: Tensor }) => mean(square(sub(m.fwd(x), y))), inputs: { x: [4, 1], y: [4, 1] }, optimizer: { kind: 'adam', lr: lr.linear({ peak: 1, final: 0, steps: 3 }) } });
  const infer = await train.attach({ forward: (m: M, { x }: { x: Tensor }) => m.fwd(x), inputs: { x: [null, 1] } });
  return { train, infer };
}
const built = await build(new B());
const all: CompiledTraining<Module>[] = [built.train as CompiledTraining<Module>];
let t: Awaited<ReturnType<typeof compile<A, { x: readonly [4, 1] }>>>;
const one = await compile({ model: new A(), loss: (m, { x }) => mean(m.fwd(x)), inputs: { x: [4, 1] }, optimizer: { kind: 'sgd', lr: 0.1 } });
t = one;
type Inputs = Parameters<typeof one.step>[0];
const given: Inputs = { x: new Float32Array(4) };
function inputs<D extends InputDecls>(d: D): D { return d }
const decl = inputs({ ids: { shape: [4], dtype: 'i32' } });
const opt: OptimizerConfig = { kind: 'adamw', lr: 1e-3 as LR, weightDecay: 0.01 };
async function loop<I extends InputDecls>(tr: CompiledTraining<A, I>, b: () => TypedInputs<I>) { const r: StepResult = await tr.step(b()); if (r.kind === 'completed') { const c: Captures = r.captures; return c.has('x') ? r.loss : 0 } return NaN }
await loop(one, () => ({ x: new Float32Array(4) }));
const map = new Map<string, CompiledForward<A>>();
map.set('a', await one.attach({ forward: (m, { x }) => capture('h', relu(m.fwd(x))), inputs: { x: [1, 1] } }));
const s = await compileForward({ model: new A(), forward: (m, { x }) => m.fwd(x), inputs: { x: [null, 1] }, output: 'f32' });
const r = await s.run({ x: new Float32Array(1) }); if (r.kind === 'completed') { const o: Float32Array = r.output; void o }
const tuple = { x: [4, 1] as [number, number], y: { shape: [4] as number[], dtype: 'i32' as const } };
const two = await compile({ model: new A(), loss: (m: A, i: { x: Tensor; y: Tensor }) => mean(m.fwd(i.x)), inputs: tuple, optimizer: opt });
await two.step({ x: new Float32Array(4), y: new Int32Array(4) });
export { all, t, given, decl };
