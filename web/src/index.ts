// The public interface of the package.

import { own } from './origin.js';
import * as layers from './nn.js';
import * as blocks from './blocks.js';
import * as functions from './ops.js';
import { call, Tensor } from './tensor.js';
import { Module } from './module.js';

own([...Object.values(functions), ...Object.values(blocks), ...Object.values(layers), Tensor, Module, call]);

// Ops: the table's functions, except where tensorgrad has other names or arguments.
export * from './ops.js';
export type { ReduceOptions as ReduceOpts } from './ops.js';
export { Tensor, type CallSite, type TensorOps } from './tensor.js';
export type { Data, Dtype } from './dtype.js';
export { checkpoint, gradients, scan, type TensorGroup } from './blocks.js';

// Models.
export { Module, type NamedParam, type Param, type ParamOptions, type State, type StateOptions } from './module.js';
export { init, type Init, type Init as InitSpec } from './init.js';
export * from './nn.js';

// Training.
export {
  compile, compileForward, trace, traceForward, type ForwardExecutorSpec, type TrainingSpec, type WhereSpec,
} from './compile.js';
export type { CompiledTraining, LossSpec, ReplaceOptions, ResetOptions, StepOptions } from './train.js';
export type { StateTensor, TrainingState } from './state.js';
export type { CompiledForward, ForwardFn, ForwardSpec, RunOptions } from './forward.js';
export { getOpInputs, type CompiledIR, type Counts, type Graph, type Inspection, type Kernel, type OpNode } from './inspect.js';
export type { InputData, InputDecl, InputDecls, InputTensors, ShapeDecl, ShapeDecl as Shape, TypedInputs } from './inputs.js';
export { Captures, type DtypeArray, type OutputArray, type QueuedResult, type RunResult, type StepResult } from './results.js';
export type * from './generated/training.js';
export { lr, type LR, type SGDConfig } from './schedule.js';
export type { ParamValues } from './session.js';
export type { Counters, Sent } from './protocol.js';

// Configuration, errors and tools.
export { configure, type Device, type Files } from './host.js';
export type { Precision } from './wasm.js';
export { GradloomError, ShapeError, type ErrorKind, type ErrorValue, type Origin } from './errors.js';
export { checkWebGPU, isWebGPUAvailable, type WebGPUFailureReason, type WebGPUSupport } from './webgpu.js';
export { loadSafetensors, readSafetensors, saveSafetensors, type SafetensorsData, type Saved } from './safetensors.js';
export { singleFlight, type SingleFlightResult } from './single-flight.js';
