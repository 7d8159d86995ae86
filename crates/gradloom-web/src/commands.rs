//! Commands that trace a model from another language.
//!
//! In: numbers, which may refer to texts and blobs interned before. Out: ids, counted from 0 in the order of
//! the commands. Equal commands therefore have equal ids: the page traces a model and sends its commands to
//! the worker, which repeats the trace. Invariant: a command that fails changes nothing but the open
//! trace. An error of an op invalidates the trace; after any other error, the script abandons it.

use crate::arguments::Arguments;
use crate::model::Model;
use crate::optimizer;
use gradloom_core::decimal::Decimal;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Origin, Type};
use gradloom_core::nn::{Param, State};
use gradloom_core::trace::{self, Input, OpenCheckpoint, OpenScan, Recording, Tensor, Traced};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};
use std::sync::Arc;

include!(concat!(env!("OUT_DIR"), "/ops.rs"));

/// A finished trace and the inputs that it declared.
#[derive(Clone)]
pub(crate) struct Trace {
    pub(crate) inputs: Vec<Input>,
    pub(crate) traced: Traced,
}

/// A block that has been opened.
enum OpenBlock {
    Checkpoint(OpenCheckpoint),
    Scan { open: OpenScan, carried: usize },
}

/// An open trace. Blocks are declared first, so they are dropped first, the innermost one before the others.
struct Open {
    blocks: Blocks,
    recording: Recording,
    inputs: Vec<Input>,
    tensors: Vec<Tensor>,
}

#[derive(Default)]
struct Blocks(Vec<OpenBlock>);

impl Drop for Blocks {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// Everything created by commands.
#[derive(Default)]
pub(crate) struct Commands {
    pub(crate) texts: Vec<String>,
    pub(crate) blobs: Vec<Arc<[f32]>>,
    pub(crate) model: Model,
    open: Option<Open>,
    pub(crate) traces: Vec<Option<Trace>>,
}

impl Commands {
    /// Returns a tensor of the open trace.
    pub(crate) fn tensor(&self, id: usize) -> Option<Tensor> {
        self.open.as_ref()?.tensors.get(id).copied()
    }

    /// Runs a command.
    ///
    /// # Errors
    /// Returns an error if the user's model is wrong, or if the interface is misused.
    pub(crate) fn run(&mut self, code: u32, numbers: &[f64]) -> Result<usize> {
        match code {
            0 => {
                self.model = Model::default();
                Ok(0)
            }
            1 => {
                let added = param(&mut Arguments::new(self, code, numbers))?;
                self.model.params.push(added);
                Ok(self.model.params.len() - 1)
            }
            2 => {
                let mut arguments = Arguments::new(self, code, numbers);
                let (name, of) = (arguments.text()?.to_string(), arguments.index()?);
                let tied =
                    self.model.params.get(of).ok_or_else(|| misuse("there is no such parameter"))?.1.tie();
                self.model.params.push((name, tied));
                Ok(of)
            }
            3 => {
                let training = numbers.first().is_some_and(|&training| training != 0.0);
                // Drop an open trace before the next one opens, because recordings must end in reverse order.
                self.open = None;
                let recording = Recording::open(&self.model, training)?;
                let blocks = Blocks::default();
                self.open = Some(Open { blocks, recording, inputs: Vec::new(), tensors: Vec::new() });
                Ok(0)
            }
            8 => {
                let results = Arguments::new(self, code, numbers).rest(Arguments::tensor)?;
                let Open { blocks, recording, inputs, .. } = self.open.take().ok_or_else(no_trace)?;
                if !blocks.0.is_empty() {
                    return Err(misuse("a block is open"));
                }
                let traced = recording.finish(&results)?;
                self.traces.push(Some(Trace { inputs, traced }));
                Ok(self.traces.len() - 1)
            }
            9 => {
                self.open = None;
                Ok(0)
            }
            11 => {
                let mut arguments = Arguments::new(self, code, numbers);
                let (name, dtype, init) =
                    (arguments.text()?.to_string(), arguments.dtype()?, arguments.number()?);
                let state = State::of_type(Type::new(dtype, arguments.rest(Arguments::index)?), init);
                self.model.states.push((name, state));
                Ok(self.model.states.len() - 1)
            }
            13..=19 => self.several(code, numbers),
            _ => self.trace(code, numbers),
        }
    }

    /// Runs a command of the open trace that creates several tensors, or none. Returns the id of the first
    /// one, which is the number of existing tensors.
    fn several(&mut self, code: u32, numbers: &[f64]) -> Result<usize> {
        let mut open = self.open.take().ok_or_else(no_trace)?;
        let made = self.within(&mut open, code, numbers);
        let error = open.recording.error();
        let first = open.tensors.len();
        if let Ok(made) = &made {
            open.tensors.extend(made);
        }
        self.open = Some(open);
        match error {
            Some(error) => Err(error),
            None => made.map(|_| first),
        }
    }

    /// Returns the tensors created by a command of [`Commands::several`].
    fn within(&self, open: &mut Open, code: u32, numbers: &[f64]) -> Result<Vec<Tensor>> {
        let mut arguments = Arguments::new(self, code, numbers);
        let tensors = &open.tensors;
        let tensor = |arguments: &mut Arguments<'_>| {
            let id = arguments.index()?;
            tensors.get(id).copied().ok_or_else(|| misuse("there is no such tensor"))
        };
        let list = |arguments: &mut Arguments<'_>| {
            let count = arguments.index()?;
            (0..count).map(|_| tensor(arguments)).collect::<Result<Vec<_>>>()
        };
        let none = || misuse("no such block is open");
        Ok(match code {
            13 | 14 => {
                let id = arguments.index()?;
                let (_, state) = self.model.states.get(id).ok_or_else(|| misuse("there is no such state"))?;
                let value = tensor(&mut arguments)?;
                let starts = arguments.rest(tensor)?;
                if code == 13 {
                    state.set(value)
                } else {
                    state.update_at(&starts, value)
                }
                Vec::new()
            }
            15 => {
                let loss = tensor(&mut arguments)?;
                trace::gradients(loss, arguments.rest(tensor)?)
            }
            16 => {
                open.blocks.0.push(OpenBlock::Checkpoint(OpenCheckpoint::begin()));
                Vec::new()
            }
            17 => {
                let results = arguments.rest(tensor)?;
                let Some(OpenBlock::Checkpoint(block)) = open.blocks.0.pop() else { return Err(none()) };
                block.end(&results)
            }
            18 => {
                let trip = arguments.index()?;
                let (carried, stacked) = (list(&mut arguments)?, list(&mut arguments)?);
                let Some((block, inside)) = OpenScan::begin(trip, &carried, &stacked) else {
                    return Ok(Vec::new());
                };
                open.blocks.0.push(OpenBlock::Scan { open: block, carried: carried.len() });
                inside
            }
            _ => {
                let (last, outputs) = (list(&mut arguments)?, list(&mut arguments)?);
                let Some(OpenBlock::Scan { open: block, carried }) = open.blocks.0.pop() else {
                    return Err(none());
                };
                if last.len() != carried {
                    return Err(misuse("a loop hands on as many tensors as it carries"));
                }
                block.end(&last, &outputs).unwrap_or_default()
            }
        })
    }

    /// Runs a command of the open trace that creates one tensor, and returns its id.
    fn trace(&mut self, code: u32, numbers: &[f64]) -> Result<usize> {
        let open = self.open.as_ref().ok_or_else(no_trace)?;
        let mut arguments = Arguments::new(self, code, numbers);
        let mut declared = None;
        let tensor = match code {
            4 => {
                let (name, dtype) = (arguments.text()?.to_string(), arguments.dtype()?);
                let shape = arguments.rest(Arguments::index)?;
                if dtype == DType::Bool {
                    let message = format!("the input `{name}` is bool");
                    return Err(Error::new(ErrorKind::Trace, message)
                        .help("declare it as i32, and compare it: `ne(x, 0)`"));
                }
                let input = Input { name, ty: Type::new(dtype, shape) };
                let tensor = open.recording.input(&input)?;
                declared = Some(input);
                tensor
            }
            5 => {
                let id = arguments.index()?;
                let (_, param) =
                    self.model.params.get(id).ok_or_else(|| misuse("there is no such parameter"))?;
                param.tensor()
            }
            12 => {
                let id = arguments.index()?;
                let (_, state) = self.model.states.get(id).ok_or_else(|| misuse("there is no such state"))?;
                state.tensor()
            }
            6 => {
                let (file, line, column) =
                    (arguments.text()?.to_string(), arguments.index()?, arguments.index()?);
                let origin = Origin { file, line: line as u32, column: column as u32 };
                open.recording.at((line > 0).then_some(origin));
                return Ok(0);
            }
            7 => {
                let (tensor, name) = (arguments.tensor()?, arguments.text()?);
                tensor.capture(name)
            }
            10 => {
                let (data, dtype) = (arguments.blob()?, arguments.dtype()?);
                // Reject integers that may be inexact: elements are passed as f32, which represents all
                // integers up to 2^24.
                let inexact = |element: &&f32| element.fract() != 0.0 || element.abs() > 16_777_216.0;
                if let Some(element) = data.iter().find(inexact).filter(|_| !dtype.is_float()) {
                    let message = format!("{} in a constant of dtype {dtype}", Decimal::from(*element));
                    return Err(Error::new(ErrorKind::Trace, message)
                        .help("whole numbers up to 16777216 can be constants; pass others as an input"));
                }
                let shape = arguments.rest(Arguments::index)?;
                trace::literal(&data, shape).cast(dtype)
            }
            _ => call(code, &mut arguments)?,
        };
        if let Some(error) = open.recording.error() {
            return Err(error);
        }
        let open = self.open.as_mut().expect("it was open above");
        open.inputs.extend(declared);
        open.tensors.push(tensor);
        Ok(open.tensors.len() - 1)
    }
}

/// Creates a parameter with its path.
fn param(arguments: &mut Arguments<'_>) -> Result<(String, Param)> {
    let name = arguments.text()?.to_string();
    let (decay, frozen) = (arguments.integer()?, arguments.bool()?);
    let (kind, a, b, blob) =
        (arguments.index()?, arguments.number()?, arguments.number()?, arguments.integer()?);
    let init = optimizer::init(kind, [a, b], || {
        let values = usize::try_from(blob).ok().and_then(|blob| arguments.commands.blobs.get(blob));
        values.cloned().ok_or_else(|| misuse("there is no such blob"))
    })?;
    let dtype = arguments.dtype()?;
    if !dtype.is_float() {
        return Err(misuse(&format!("a parameter of dtype {dtype}: parameters are floats")));
    }
    let param = Param::of_type(Type::new(dtype, arguments.rest(Arguments::index)?), init);
    if decay >= 0 {
        param.set_decay(decay == 1);
    }
    if frozen {
        param.freeze();
    }
    Ok((name, param))
}

/// Returns the error for a misuse of the interface between the languages, which is a bug in the TypeScript
/// part.
pub(crate) fn misuse(what: &str) -> Error {
    Error::new(ErrorKind::Internal, what)
}

fn no_trace() -> Error {
    Error::new(ErrorKind::Trace, "no trace is open: tensors exist only while a model is traced")
}
