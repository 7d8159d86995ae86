//! Runs single launches of a program on copies of its store and memory.
//!
//! In: a program, and the inputs and scalars of one run. Out: a [`DebugRun`], which runs launches one by one
//! and returns any value in memory. Invariant: the program and its store do not change; neither a launch
//! nor the caller reads bytes that were overwritten by another value or never written.

use super::evaluate::{bytes, tensor};
use super::{Loaded, Program, fits};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Graph, Number, Type, ValueId};
use gradloom_core::kernel::{Access, Kernel, Layout};
use gradloom_core::plan::{self, Buffer, Plan};
use gradloom_core::reference::HostTensor;
use gradloom_device::elements::Elements;
use gradloom_device::memory::counted;
use std::ops::Range;
use std::sync::Arc;

/// Selection of the values that stay in memory during a [`DebugRun`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// Values stay as planned: they share bytes over time, and a value can be read until another one
    /// overwrites it.
    #[default]
    AsPlanned,
    /// Every value of a step has separate bytes and stays. Takes as much memory as all values together.
    EveryValue,
}

/// Run of a program, launch by launch, on copies of its store and memory.
///
/// Guards are ignored: launches that a failed guard would prevent can be run.
///
/// ```
/// # use gradloom_cpu::CpuDevice as _;
/// # use gradloom_core::{optim::Sgd, nn::Linear, trace::f32};
/// # use gradloom_runtime::{Device, Retention, Trainer};
/// let train = Trainer::new(Linear::new(3, 1))
///     .inputs([f32("x", [4, 3])])
///     .loss(|layer, [x]| layer.forward(x).sum())
///     .optimizer(Sgd::new(0.1))
///     .compile(&Device::cpu())?;
/// let mut run = train.debug_run([&[1.0f32; 12]], Retention::EveryValue)?;
/// for launch in 0..run.plan().launches.len() {
///     run.run(launch..launch + 1)?;
///     for write in run.plan().launches[launch].writes.clone() {
///         let value = run.read(write.buffer)?;
///         assert!(value.to_f64().iter().all(|x| x.is_finite()), "launch {launch} is the first to go wrong");
///     }
/// }
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
pub struct DebugRun {
    graph: Arc<Graph>,
    plan: Arc<Plan>,
    loaded: Loaded,
    /// State of the bytes of each buffer of the plan.
    contents: Vec<Content>,
}

/// State of the bytes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// No launch has written the bytes.
    Missing,
    /// The bytes hold the buffer's value.
    Present,
    /// The bytes hold the value of the buffer with this index.
    Taken(usize),
}

impl std::fmt::Debug for DebugRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugRun").field("launches", &self.plan.launches.len()).finish_non_exhaustive()
    }
}

impl Program {
    /// Copies the store, loads the program with the copy, and sets inputs and scalars.
    pub(crate) fn debug_run(
        &self,
        inputs: &[(&str, &[u8])],
        scalar: impl Fn(&str) -> Option<Number>,
        retention: Retention,
    ) -> Result<DebugRun> {
        if !self.backend().is_resident() {
            return Err(Error::new(ErrorKind::Device, "this device plans only: it runs no launches")
                .help("compile for the CPU: `Device::cpu()`"));
        }
        self.backend().check()?;
        let plan = match retention {
            Retention::AsPlanned => Arc::clone(&self.plan),
            Retention::EveryValue => {
                let plan = Plan::clone(&self.plan);
                Arc::new(match self.backend().buffer_bytes() {
                    Some(segment) => plan.in_segments(&self.graph, segment, false)?,
                    None => plan.without_sharing(),
                })
            }
        };
        gradloom_core::plan::verify_commit(&self.graph, &plan)?;
        let shadow = {
            let content = self.store.read_lock();
            content.check_sound()?;
            content.duplicate(&|bytes| self.backend().allocate(bytes))?
        };
        let memory = shadow.memory();
        let code = self.backend().emit(&self.graph, &plan, &memory)?;
        let allocate = |bytes| self.backend().allocate(bytes);
        let mut loaded = self.backend().load(&self.graph, &plan, &code, &memory, &allocate)?;
        let resident = loaded.resident_mut();
        for (name, bytes) in inputs {
            if let Some(port) = self.inputs.iter().find(|port| port.name == *name) {
                resident.write(port.buffer, bytes);
            }
        }
        let scalar = self.with_rank(scalar);
        for port in &self.scalars {
            resident.write(port.buffer, &port.scalar_bytes(&scalar)?);
        }
        let content = |b: &Buffer| if b.role.exists_before() { Content::Present } else { Content::Missing };
        let contents = plan.buffers.iter().map(content).collect();
        Ok(DebugRun { graph: Arc::clone(&self.graph), plan, loaded, contents })
    }
}

impl DebugRun {
    /// Returns the plan of the run: its launches, and the location of each buffer.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the graph from which the plan was made.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Runs a range of launches in order. The range need not follow the launches that ran before: a launch
    /// can run whenever its operands are in memory, and any number of times.
    ///
    /// # Errors
    /// Returns an error if the range exceeds the plan, if an operand of a launch is not in memory, or if a
    /// trap occurs. Earlier launches of the range have then run.
    pub fn run(&mut self, range: Range<usize>) -> Result<()> {
        let launches = self.plan.launches.len();
        if range.start > range.end || range.end > launches {
            return Err(Error::new(
                ErrorKind::Feed,
                format!("the plan has {launches} launches, not {}..{}", range.start, range.end),
            ));
        }
        for launch in range {
            self.run_one(launch)?;
        }
        Ok(())
    }

    fn run_one(&mut self, index: usize) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let launch = &plan.launches[index];
        // A kernel that writes a region keeps the rest of the buffer, so the buffer must be in memory.
        let kept: &[Access] = if launch.kernel == Kernel::WriteRegion { &launch.writes } else { &[] };
        for access in launch.reads.iter().chain(kept) {
            self.present(access.buffer).map_err(|error| {
                error.note(format!("launch {index} (`{}`) reads it", launch.kernel.name()))
            })?;
        }
        // Mark results as missing before the launch, because a kernel that fails may have written part of
        // them.
        let results: Vec<usize> = launch.writes.iter().map(|write| plan.buffer_of[&write.buffer]).collect();
        for &buffer in &results {
            self.take(buffer);
            self.contents[buffer] = Content::Missing;
        }
        self.loaded.resident_mut().run_one(index)?;
        results.iter().for_each(|&buffer| self.contents[buffer] = Content::Present);
        Ok(())
    }

    /// Returns the elements of a value that owns bytes, as stored in its [`Buffer`]; floats are converted
    /// exactly to float64. A parameter or state that a launch has updated by copying reads as its next value;
    /// one whose bytes were overwritten by its next value cannot be read.
    ///
    /// # Errors
    /// Returns an error if the value has no bytes (it is a view, or internal to a fused kernel), if its bytes
    /// have not been written, or if another value has overwritten them.
    pub fn read(&self, value: ValueId) -> Result<HostTensor> {
        let ty = self.plan.buffers[self.present(value)?].ty.clone();
        let layout = self.layout(value, &ty);
        let mut elements = Elements::default();
        elements.make_room(counted(ty.bytes()), &format_args!("{value} on the host"))?;
        self.loaded
            .resident()
            .read(&Access { buffer: value, dtype: ty.dtype, layout, blocks: None }, &mut elements)?;
        Ok(tensor(self.seen_as(value, ty), &elements))
    }

    /// Returns an output by name, with the elements that the whole run would return.
    ///
    /// # Errors
    /// Returns the same errors as [`DebugRun::read`]. Also returns an error if there is no output with this
    /// name.
    pub fn output(&self, name: &str) -> Result<HostTensor> {
        let outputs = &self.plan.outputs;
        let Some(number) = outputs.iter().position(|(known, _)| known == name) else {
            let names: Vec<&str> = outputs.iter().map(|(known, _)| known.as_str()).collect();
            return Err(Error::new(ErrorKind::Feed, format!("the program has no output `{name}`"))
                .help(format!("it has: {}", names.join(", "))));
        };
        let access = &outputs[number].1;
        self.present(access.buffer)?;
        let mut elements = Elements::default();
        elements.make_room(counted(fits::host_bytes(access)), &gradloom_device::elements::output(name))?;
        self.loaded.resident().read(access, &mut elements)?;
        Ok(tensor(self.graph.ty(self.graph.outputs[number].value).clone(), &elements))
    }

    /// Replaces the elements of a value that owns bytes, even if they are not in memory, to test their
    /// effect.
    ///
    /// # Errors
    /// Returns an error if the value has no bytes, or if `elements` has another type.
    pub fn write(&mut self, value: ValueId, elements: &HostTensor) -> Result<()> {
        let buffer = self.buffer(value)?;
        let ty = &self.seen_as(value, self.plan.buffers[buffer].ty.clone());
        let wrong = |message| Error::new(ErrorKind::Feed, format!("{value}: {message}"));
        if elements.ty != *ty {
            return Err(wrong(format!("its bytes are {ty}, not {}", elements.ty)));
        }
        elements.check().map_err(wrong)?;
        self.take(buffer);
        self.contents[buffer] = Content::Present;
        let (given, size) = (bytes(elements), ty.dtype.bytes());
        let mut placed = vec![0; given.len()];
        let positions = positions(&self.layout(value, &elements.ty));
        positions
            .into_iter()
            .zip(given.chunks(size))
            .for_each(|(at, element)| placed[at * size..][..size].copy_from_slice(element));
        self.loaded.resident_mut().write(buffer, &placed);
        Ok(())
    }

    /// Returns the type with which the caller sees a value: an i64 is stored as words of another type.
    fn seen_as(&self, value: ValueId, ty: Type) -> Type {
        let known = self.graph.values.iter().find(|(known, _)| *known == value);
        known.map(|(_, known)| &known.ty).filter(|ty| ty.dtype == DType::I64).cloned().unwrap_or(ty)
    }

    /// Returns the layout of a value's elements in its bytes, as written by the launch that computes it.
    fn layout(&self, value: ValueId, ty: &Type) -> Layout {
        let mut writes = self.plan.launches.iter().flat_map(|launch| &launch.writes);
        match writes.find(|write| write.buffer == value) {
            Some(write) if write.layout.shape == ty.shape => write.layout.clone(),
            _ => Layout::contiguous(&ty.shape),
        }
    }

    /// Returns the values that can be read now.
    pub fn values(&self) -> impl Iterator<Item = &Buffer> {
        let present = self.contents.iter().map(|&content| content == Content::Present);
        self.plan.buffers.iter().zip(present).filter_map(|(buffer, present)| present.then_some(buffer))
    }

    fn buffer(&self, value: ValueId) -> Result<usize> {
        self.plan.buffer_of.get(&value).copied().ok_or_else(|| {
            Error::new(ErrorKind::Feed, format!("{value} has no bytes of its own"))
                .note("it is a view of another value, or is computed inside of a kernel and never stored")
                .help("capture it in the model with `.capture(name)` to have it stored")
        })
    }

    /// Returns the buffer of a value that is in memory.
    fn present(&self, value: ValueId) -> Result<usize> {
        let buffer = self.buffer(value)?;
        let what = plan::report::label(&self.graph, &self.plan.buffers[buffer]);
        match self.contents[buffer] {
            Content::Present => Ok(buffer),
            Content::Missing => {
                Err(Error::new(ErrorKind::Feed, format!("{value} ({what}) was not computed yet"))
                    .help("run the launches before"))
            }
            Content::Taken(by) => {
                let by = &self.plan.buffers[by];
                let name = plan::report::label(&self.graph, by);
                Err(Error::new(
                    ErrorKind::Feed,
                    format!("the bytes of {value} ({what}) have been taken by {} ({name})", by.value),
                )
                .help("read it before, or keep every value: `Retention::EveryValue`"))
            }
        }
    }

    /// Marks every present value that overlaps this buffer as overwritten by it.
    fn take(&mut self, taker: usize) {
        let by = &self.plan.buffers[taker];
        for (i, other) in self.plan.buffers.iter().enumerate() {
            if i != taker && self.contents[i] == Content::Present && overlap(by, other) {
                self.contents[i] = Content::Taken(taker);
            }
        }
    }
}

/// Returns the index in the buffer of each element of a layout, in row-major order.
fn positions(layout: &Layout) -> Vec<usize> {
    layout.shape.iter().zip(&layout.strides).fold(vec![layout.offset], |all, (&extent, &stride)| {
        all.iter().flat_map(|&at| (0..extent).map(move |i| at + i * stride)).collect()
    })
}

fn overlap(a: &Buffer, b: &Buffer) -> bool {
    let bytes = |buffer: &Buffer| buffer.offset..buffer.offset + buffer.bytes;
    let (x, y) = (bytes(a), bytes(b));
    a.region == b.region && x.start.max(y.start) < x.end.min(y.end)
}

#[cfg(test)]
mod tests;
