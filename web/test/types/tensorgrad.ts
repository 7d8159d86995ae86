// The whole interface as a user of tensorgrad 0.4.6 writes it: names, argument orders, option names, shapes
// of results. Checked by `npm run check`, never run; `test/unit/interface.test.mjs` checks the values.
import {
  abs, add, arange, argmax, argmin, capture, categorical, checkWebGPU, clamp, compile, compileForward, concat, conv2d, cos, Conv2d,
  crossEntropy, div, dropout, Embedding, embedding, erf, exp, gelu, getOpInputs, greater, init, LayerNorm, leakyRelu, less, Linear,
  loadSafetensors, log, logSoftmax, lr, matmul, max, maxPool2d, mean, mergeHeads, min, Module, mul, narrow, nearestUpsample2d, neg,
  nllLoss, oneHot, ones, permute, randn, relu, reshape, RMSNorm, rope, rsqrt, ShapeError, sigmoid, silu, sin, singleFlight, softmax,
  softmaxCausal, softplus, split, splitHeads, sqrt, square, stack, stopGradient, sub, sum, swapAxes, takeAlongAxis, tanh, trace,
  traceForward, where, whereCausal, zeros,
  type AdamConfig, type AdamWConfig, type CallSite, type Captures, type CompiledForward, type CompiledIR, type CompiledTraining,
  type Conv2dLayerOptions, type Conv2dOptions, type Dtype, type DtypeArray, type EmbeddingOptions, type ForwardExecutorSpec,
  type ForwardFn, type ForwardSpec, type Graph, type InitSpec, type InputDecl, type InputDecls, type LayerNormOptions,
  type LinearOptions, type LossOptions, type LR, type MaxPool2dOptions, type OpNode, type OptimizerConfig, type OutputArray,
  type ParamOptions, type ReduceOptions, type RMSNormOptions, type RopeOptions, type RunResult, type SafetensorsData, type SGDConfig,
  type Shape, type SingleFlightResult, type StepResult, type Tensor, type TrainingSpec, type TypedInputs, type WebGPUFailureReason,
  type WebGPUSupport,
} from '../../src/index.js'

/** Fails to compile unless the two types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
function same<_T extends true>(): void {}

// A model with its own parameters, layers in lists, and optional layers.
class Block extends Module {
  norm = new LayerNorm(32, { eps: 1e-5, bias: false, decay: true })
  rms = new RMSNorm(32, { eps: 1e-6, decay: false })
  up = new Linear(32, 64, { bias: false, init: init.kaiming({ gain: 1 }), decay: true })
  down = new Linear(64, 32)
  scale = this.param([32], { init: init.ones(), decay: false, dtype: 'f32' })
  fwd(x: Tensor): Tensor {
    return add(x, mul(this.down.fwd(gelu(this.up.fwd(this.norm.fwd(x)), { approximate: 'tanh' })), this.scale))
  }
}

class MyModel extends Module {
  embed: Embedding
  blocks: Block[]
  conv = new Conv2d(3, 8, 3, { stride: 2, padding: 1, groups: 1, bias: true, init: init.randn({ scale: 0.05 }), decay: false })
  head: Linear | null
  table = this.param([4], { init: init.literal(new Float32Array(4)) })
  constructor(private readonly vocab: number, depth = 2) {
    super()
    this.embed = new Embedding(vocab, 32, { init: init.zeros(), decay: true })
    this.blocks = Array.from({ length: depth }, () => new Block())
    this.head = depth > 0 ? new Linear(32, vocab) : null
  }
  fwd(tokens: Tensor): Tensor {
    let h = this.embed.fwd(tokens)
    for (const block of this.blocks) h = block.fwd(h)
    return this.head ? this.head.fwd(h) : matmul(h, permute(this.embed.W, [1, 0]))
  }
  parts(): [number, number, Tensor, Tensor | null, number, number, number] {
    return [this.vocab, this.embed.dim, this.conv.W, this.conv.b, this.blocks[0]!.up.inDim, this.blocks[0]!.up.outDim, this.blocks[0]!.norm.eps]
  }
}

const B = 8
const inputs = {
  tokens: { shape: [B, 16], dtype: 'i32' },
  targets: { shape: [B, 16], dtype: 'i32' },
  image: [B, 3, 8, 8],
} as const

function lossFn(m: MyModel, { tokens, targets, image }: { tokens: Tensor; targets: Tensor; image: Tensor }): Tensor {
  const named: Tensor = capture('logits', m.fwd(tokens))
  return add(crossEntropy(named, targets, { reduction: 'mean' }), mul(mean(square(m.conv.fwd(image))), 0.1))
}

// Initial values as plain objects.
const starts: InitSpec[] = [
  { kind: 'randn' }, { kind: 'randn', scale: 0.1 }, { kind: 'zeros' }, { kind: 'ones' }, { kind: 'kaiming' }, { kind: 'kaiming', gain: 1 },
  { kind: 'literal', data: new Float32Array(4) },
]
// @ts-expect-error a kind that is not there
const noStart: InitSpec = { kind: 'kaimming' }

// Optimizers and learning rates as plain objects.
const rate: LR = { kind: 'warmup', peak: 0.01, steps: 10, after: { kind: 'cosineAnnealing', peak: 0.01, final: 0, steps: 90 } }
const rates: LR[] = [
  0.1, rate, { kind: 'linear', peak: 1, final: 0, steps: 5, startStep: 3 }, { kind: 'staircase', peak: 1, every: 10, gamma: 0.5 },
  { kind: 'multiStep', peak: 1, milestones: [3, 6], gamma: 0.1 }, lr.linear({ peak: 1, final: 0, steps: 5 }),
  lr.cosineAnnealing({ peak: 1, final: 0, steps: 5 }), lr.warmup({ peak: 1, steps: 3, after: 1 }),
  lr.staircase({ peak: 1, every: 2, gamma: 0.5 }), lr.multiStep({ peak: 1, milestones: [1], gamma: 0.5, startStep: 1 }),
]
const adam: AdamConfig = { kind: 'adam', lr: 0.01, beta1: 0.9, beta2: 0.95, eps: 1e-8, clipGradNorm: 1, normalizeGrads: true }
const adamw: AdamWConfig = { kind: 'adamw', lr: rate, beta1: 0.9, weightDecay: 0.1, decayFilter: (name) => name.endsWith('W'), normalizeGrads: (name) => name === 'x' }
const sgd: SGDConfig = { kind: 'sgd', lr: 0.1, momentum: 0.9, nesterov: true, weightDecay: 0.01, decayFilter: () => true, clipGradNorm: 1, normalizeGrads: false }
const optimizers: OptimizerConfig[] = [adam, adamw, sgd, { kind: 'adam', lr: 0.1 }]
// @ts-expect-error a name that is not there
const mistaken: AdamConfig = { kind: 'adam', lr: 0.1, b1: 0.9 }

// Compiled programs are stored in variables and fields, and passed to functions, typed only by the model's
// type.
let current: CompiledTraining<MyModel> | null = null
class Session {
  train?: CompiledTraining<MyModel>
  infer: CompiledForward<MyModel> | null = null
  any: CompiledTraining | null = null
}
async function oneStep(train: CompiledTraining<MyModel>, tokens: Int32Array, image: Float32Array): Promise<number> {
  const r: StepResult = await train.step({ tokens, targets: tokens, image })
  if (r.kind === 'failed') throw r.error
  if (r.kind === 'aborted') return NaN
  const captures: Captures = r.captures
  const logits: Float32Array = captures.get('logits')
  const [shape, has, names, heads]: [readonly number[], boolean, string[], Float32Array[]] =
    [captures.shape('logits'), captures.has('logits'), captures.names(), captures.perHead('logits')]
  return r.loss + logits.length + shape.length + Number(has) + names.length + heads.length
}
function generic<M extends Module>(train: CompiledTraining<M>): readonly string[] {
  return train.paramNames
}

const train = await compile({ model: new MyModel(27), loss: lossFn, inputs, optimizer: adamw, seed: 7 })
current = train
const session = new Session()
session.train = train
session.any = train
const typed: CompiledTraining<MyModel, typeof inputs> = train
await oneStep(train, new Int32Array(B * 16), new Float32Array(B * 192))
await oneStep(current, new Int32Array(B * 16), new Float32Array(B * 192))
generic(train)
same<Same<TypedInputs<typeof inputs>['tokens'], Int32Array>>()
same<Same<TypedInputs<typeof inputs>['image'], Float32Array>>()
same<Same<DtypeArray<'bool'>, Uint8Array>>()
// @ts-expect-error an input of another type
await train.step({ tokens: new Float32Array(1), targets: new Int32Array(1), image: new Float32Array(1) })
// @ts-expect-error an input is missing
await typed.step({ tokens: new Int32Array(1), image: new Float32Array(1) })
// @ts-expect-error an option that is not there
await compile({ model: new MyModel(27), loss: lossFn, inputs, optimizer: adam, seeds: 7 })

const params: Record<string, Float32Array> = await train.downloadParams()
await train.uploadParams(params)
const gradsOfLast: Record<string, Float32Array> = await train.downloadParamGrads()
await train.resetStates()
await train.reset()
await train.reset({ params: false, optimizer: true })
for (const one of rates) await train.setLR(one)
await train.replaceModel(new MyModel(27, 1), { seed: 3, optimizer: optimizers[0]! })
await train.replaceModel(new MyModel(27, 1))
const facts: [Graph, readonly unknown[], readonly number[], readonly string[], number] =
  [train.graph, train.kernels, train.outputShape, train.paramNames, train.seed]

// Forward functions, with and without a type for the result.
const predict: ForwardFn<MyModel, { tokens: { shape: [null, 16]; dtype: 'i32' } }> = (m, { tokens }) => m.fwd(tokens)
const infer = await train.attach({ forward: predict, inputs: { tokens: { shape: [null, 16], dtype: 'i32' } }, maxCachedShapes: 2 })
session.infer = infer
const ran: RunResult = await infer.run({ tokens: new Int32Array(16) })
if (ran.kind === 'completed') same<Same<typeof ran.output, Float32Array>>()
const pick = await train.attach({ forward: (m: MyModel, { tokens }: { tokens: Tensor }) => categorical(m.fwd(tokens)), inputs: { tokens: { shape: [1, 16], dtype: 'i32' } } as const, output: 'i32' })
const picked = await pick.run({ tokens: new Int32Array(16) })
if (picked.kind === 'completed') same<Same<typeof picked.output, Int32Array>>()
const kept: CompiledForward<MyModel, { tokens: { shape: readonly [1, 16]; dtype: 'i32' } }, 'i32'> = pick
same<Same<OutputArray<'i32'>, Int32Array>>()
const ir: CompiledIR = await infer.graphFor({ tokens: new Int32Array(16) })
const op: OpNode = ir.graph.ops[0]!
const site: CallSite | null = ir.graph.tensors[getOpInputs(op)[0]!]!.site
const alone = await compileForward({ model: new MyModel(27), forward: (m, { tokens }) => m.fwd(tokens), inputs: { tokens: { shape: [2, 16], dtype: 'i32' } }, seed: 1, maxCachedShapes: 1 })
await alone.uploadParams(await alone.downloadParams())
alone.destroy()
const gone: void = void train.destroy()

const traced: CompiledIR = await trace({ model: new MyModel(27), loss: lossFn, inputs, optimizer: sgd })
const grad: Tensor | undefined = traced.paramGrads['embed.W']
const lossTensor: Tensor = traced.loss
const planned = [traced.plan, traced.kernels, traced.graph.outputs, traced.graph.captures.get('logits'), lossTensor.id, lossTensor.shape, lossTensor.dtype]
await traceForward({ model: new MyModel(27), forward: (m, { tokens }) => m.fwd(tokens), inputs: { tokens: { shape: [2, 16], dtype: 'i32' } } })

// Types that are named explicitly.
const spec: TrainingSpec<MyModel, typeof inputs> = { model: new MyModel(27), loss: lossFn, inputs, optimizer: adam }
await compile(spec)
const forwardSpec: ForwardSpec<MyModel, { tokens: InputDecl }> = { forward: (m, { tokens }) => m.fwd(tokens), inputs: { tokens: { shape: [null, 16], dtype: 'i32' } } }
const executor: ForwardExecutorSpec<MyModel, { tokens: InputDecl }> = { ...forwardSpec, model: new MyModel(27) }
await compileForward(executor)
const declarations: InputDecls = inputs
const spellings: [Shape, Dtype, InitSpec, ParamOptions, LinearOptions, EmbeddingOptions, Conv2dLayerOptions, LayerNormOptions, RMSNormOptions] = [
  [1, 2], 'i32', init.kaiming(), { decay: true }, { bias: true }, { decay: true }, { stride: [1, 2] }, { bias: false }, { eps: 1 },
]
const options: [LossOptions, ReduceOptions, RopeOptions, Conv2dOptions, MaxPool2dOptions] =
  [{ reduction: 'none' }, { keepDims: true }, { base: 100 }, { stride: [1, 2], padding: 1, groups: 2 }, { stride: 2, padding: [0, 1] }]

const support: WebGPUSupport = await checkWebGPU()
const reason: WebGPUFailureReason | undefined = support.reason
const message: string = support.ok ? support.message : `${support.message} ${reason === 'no-webgpu' || reason === 'no-adapter'}`
const file: SafetensorsData = loadSafetensors(new ArrayBuffer(8))
const [tensors, shapes, skipped]: [Record<string, Float32Array>, Record<string, number[]>, Record<string, string>] = [file.tensors, file.shapes, file.skipped]
const single = singleFlight(async (x: number) => x + 1)
const flown: SingleFlightResult<number> = await single(1)
const refresh = singleFlight(() => infer.run({ tokens: new Int32Array(16) }))
await refresh()
const isShape = (error: unknown) => error instanceof ShapeError

// Every function, in the order of the interface.
function all(x: Tensor, i: Tensor, image: Tensor, w: Tensor): Tensor[] {
  const [q, k] = rope(x, x, { base: 10000 })
  return [
    add(x, x), add(x, 1), add(1, x), sub(x, 1), sub(1, x), mul(2, x), div(x, 2), div(1, x), min(x, 0), max(0, x), less(x, 1), less(1, x), greater(x, x),
    sqrt(x), rsqrt(x), log(x), exp(x), relu(x), neg(x), abs(x), tanh(x), sigmoid(x), erf(x), sin(x), cos(x), silu(x), softplus(x), square(x), stopGradient(x),
    clamp(x, 0, 1), gelu(x), gelu(x, { approximate: 'none' }), leakyRelu(x), leakyRelu(x, 0.2), where(less(x, 0), x, neg(x)), dropout(x, 0.1), randn([2, 3]),
    categorical(x), categorical(x, -1), mean(x), mean(x, -1), mean(x, 0, { keepDims: true }), sum(x), sum(x, 1, options[1]), argmax(x), argmax(x, 1), argmin(x, -1),
    reshape(x, [-1, 2]), permute(x, [1, 0]), swapAxes(x, -1, -2), narrow(x, 0, 1, 2), concat([x, x], 0), stack([x, x], -1), ...split(x, [1, 1], 0),
    splitHeads(x, 4), mergeHeads(x), q, k, matmul(x, x), oneHot(i, 5), oneHot(i, 5, 'i32'), arange(4), arange(4, 'f32'), zeros([2]), zeros([2], 'i32'), ones([2, 2]),
    embedding(w, i), takeAlongAxis(x, i, 0), softmax(x), softmax(x, 0), logSoftmax(x), logSoftmax(x, -1), softmaxCausal(x), softmaxCausal(x, -2), whereCausal(x, -1e9),
    conv2d(image, w), conv2d(image, w, { stride: 2, padding: [1, 1], groups: 1 }), maxPool2d(image, 2), maxPool2d(image, [2, 2], { stride: [2, 2], padding: 0 }),
    nearestUpsample2d(image, 2), capture('x', x), crossEntropy(x, i), crossEntropy(x, i, { reduction: 'none' }), nllLoss(x, i), nllLoss(x, i, { reduction: 'sum' }),
  ]
}

export const seen = {
  starts, noStart, gradsOfLast, adamw, mistaken, facts, kept, op, site, gone, grad, planned, declarations, spellings, options, message, tensors, shapes, skipped, flown, isShape, all,
}
