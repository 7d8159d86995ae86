//! A device that fails on demand, for tests of gradloom and of its users.
//!
//! In: any device. Out: the same device wrapped in [`Faulty`], and [`Faults`], which specifies what fails and
//! when. Invariant: without an armed fault, operations behave as on the inner device; a fault occurs once.

use crate::Device;
use crate::backend::{Backend, Finished, Immediate, Loaded, Pending, Queued, Resident, Work};
use crate::cancel::Stop;
use crate::content::StoreMemory;
use crate::elements::Elements;
use crate::host::Pool;
use crate::memory::{Allocate, Memory};
use crate::spans::LaunchSpan;
use gradloom_codegen::pipeline::{Code, Precision, Target};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::Fused;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Access, Kernel};
use gradloom_core::plan::Plan;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// An operation of a device that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An allocation for parameters and states, temporaries, constants, or scratch.
    Allocation,
    /// A launch of a step.
    Launch,
    /// A read of a result. Each output of a program counts as one read, all guards together as one, and the
    /// start indices of all windows that a step updates as one.
    Read,
}

/// Controls the faults of a device; see [`Device::with_faults`]. Clones control the same device.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    state: Arc<Mutex<FaultState>>,
}

#[derive(Debug, Default)]
struct FaultState {
    /// Number of operations so far, by [`Fault`].
    counts: [u64; 3],
    /// Armed fault, and the index of the operation that fails, counted like `counts`.
    armed: Option<(Fault, u64)>,
    /// Memory limit in bytes, if one was set.
    memory: Option<u64>,
}

impl Faults {
    /// Makes one later operation fail: the next of its kind if `after` is 0, the one after that if it is 1.
    /// Replaces an armed fault.
    pub fn fail(&self, fault: Fault, after: u64) {
        let mut state = self.state();
        state.armed = Some((fault, state.counts[fault as usize] + after));
    }

    /// Limits the memory of the device: programs loaded later that need more than `bytes` bytes are rejected.
    pub fn limit_memory(&self, bytes: u64) {
        self.state().memory = Some(bytes);
    }

    /// Disarms a fault that has not occurred yet.
    pub fn disarm(&self) {
        self.state().armed = None;
    }

    /// Returns `true` if an armed fault has not occurred yet.
    pub fn is_armed(&self) -> bool {
        self.state().armed.is_some()
    }

    /// Returns the number of operations of this kind so far, including failed ones.
    pub fn count(&self, fault: Fault) -> u64 {
        self.state().counts[fault as usize]
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `wanted` operations that are about to run. If the armed fault is among them, counts only up to
    /// it and returns its index among them.
    fn meet(&self, fault: Fault, wanted: usize) -> Option<usize> {
        let mut state = self.state();
        let count = state.counts[fault as usize];
        let at =
            state.armed.filter(|&(kind, at)| kind == fault && (count..count + wanted as u64).contains(&at));
        if let Some((_, at)) = at {
            state.armed = None;
            state.counts[fault as usize] = at + 1;
            return Some((at - count) as usize);
        }
        state.counts[fault as usize] += wanted as u64;
        None
    }

    fn read(&self, what: &str) -> Result<()> {
        match self.meet(Fault::Read, 1) {
            Some(_) => Err(failed(&format!("reading {what}"))),
            None => Ok(()),
        }
    }
}

impl Device {
    /// Returns the same device with a handle to inject faults, for testing how a program reacts when memory
    /// runs out, a kernel fails, or a result cannot be read.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom_core::{nn::Linear, optim::Sgd, trace::f32};
    /// use gradloom_device::{Device, Fault};
    /// use gradloom_runtime::Trainer;
    ///
    /// let (device, faults) = Device::cpu().with_faults();
    /// let mut train = Trainer::new(Linear::new(3, 1))
    ///     .inputs([f32("x", [4, 3])])
    ///     .loss(|layer, [x]| layer.forward(x).square().mean())
    ///     .optimizer(Sgd::new(0.1))
    ///     .compile(&device)?;
    /// let before = train.store().read_f32("weight")?;
    ///
    /// faults.fail(Fault::Launch, 0);
    /// assert!(train.step([&[1.0f32; 12]]).is_err());
    /// assert_eq!(train.store().read_f32("weight")?, before);
    ///
    /// train.step([&[1.0f32; 12]])?.loss()?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn with_faults(&self) -> (Self, Faults) {
        let faults = Faults::default();
        let backend = Faulty { inner: Arc::clone(self.backend()), faults: faults.clone() };
        (Self::new(backend).in_precision(self.precision()), faults)
    }
}

fn failed(what: &str) -> Error {
    Error::new(ErrorKind::Device, format!("{what} failed"))
        .note("the fault was asked for with `Faults::fail`")
}

/// Makes methods that call the same method of the field `inner`.
macro_rules! forward {
    ($self:ident; $([$($receiver:tt)+] $name:ident($($argument:ident: $of:ty),*) $(-> $result:ty)?;)*) => {
        $(
            fn $name($($receiver)+ $(, $argument: $of)*) $(-> $result)? {
                $self.inner.$name($($argument),*)
            }
        )*
    };
}

#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn Backend>,
    faults: Faults,
}

impl Backend for Faulty {
    forward! { self;
        [&self] name() -> &'static str;
        [&self] threads() -> usize;
        [&self] pool() -> Arc<Pool>;
        [&self] is_resident() -> bool;
        [&self] kept_bytes() -> Option<usize>;
        [&self] buffer_bytes() -> Option<u64>;
        [&self] check() -> Result<()>;
        [&self] lose();
        [&self] target() -> &Target;
        [&self] target_of(graph: &Graph, fused: &Fused, precision: Precision) -> Target;
        [&self] emit(graph: &Graph, plan: &Plan, store: &StoreMemory) -> Result<Code>;
    }

    fn description(&self) -> String {
        format!("{}, with faults", self.inner.description())
    }

    fn memory_limit(&self) -> Option<u64> {
        let limits = [self.faults.state().memory, self.inner.memory_limit()];
        limits.into_iter().flatten().min()
    }

    fn allocate(&self, bytes: u64) -> Option<Memory> {
        match self.faults.meet(Fault::Allocation, 1) {
            Some(_) => None,
            None => self.inner.allocate(bytes),
        }
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &StoreMemory,
        allocate: Allocate<'_>,
    ) -> Result<Loaded> {
        let (plan_of, faults) = (|| Arc::clone(plan), || self.faults.clone());
        Ok(match self.inner.load(graph, plan, code, store, allocate)? {
            Loaded::Immediate(inner) => {
                Loaded::Immediate(Box::new(FaultyProgram { inner, plan: plan_of(), faults: faults() }))
            }
            Loaded::Queued(inner) => {
                Loaded::Queued(Box::new(FaultyProgram { inner, plan: plan_of(), faults: faults() }))
            }
        })
    }
}

/// A program whose launches and reads fail on demand.
struct FaultyProgram<P: ?Sized> {
    inner: Box<P>,
    plan: Arc<Plan>,
    faults: Faults,
}

impl<P: Resident + ?Sized> FaultyProgram<P> {
    /// Runs a range of launches with `whole`. If one of them is to fail, runs only those before it and
    /// returns the error.
    fn run(&mut self, range: std::ops::Range<usize>, whole: impl FnOnce(&mut P) -> Result<()>) -> Result<()> {
        let Some(failing) = self.faults.meet(Fault::Launch, range.len()) else {
            return whole(&mut *self.inner);
        };
        let failing = range.start + failing;
        for launch in range.start..failing {
            self.inner.run_one(launch)?;
        }
        Err(failed(&format!("launch {failing} (`{}`)", self.plan.launches[failing].kernel.name())))
    }

    /// Counts a read, and returns an error if it is the read for which a fault is armed.
    fn read_fault(&self, access: &Access) -> Result<()> {
        let names = self.plan.outputs.iter().chain(&self.plan.guards);
        match names.into_iter().find(|(_, known)| known == access) {
            Some((name, _)) => self.faults.read(&format!("`{name}`")),
            None => self.faults.read(&access.buffer.to_string()),
        }
    }
}

impl<P: Resident + ?Sized> Resident for FaultyProgram<P> {
    forward! { self;
        [&mut self] write(buffer: usize, bytes: &[u8]);
        [&mut self] bind(buffer: usize, bytes: u64, tensor: &Arc<Memory>) -> Result<()>;
        [&mut self] unbind();
        [&self] allocated() -> u64;
        [&self] unique_kernels() -> usize;
        [&self] replay(graph: &Graph) -> Option<gradloom_codegen::cuda::Replay>;
        [&mut self] set_step_timing(on: bool);
        [&self] step_time() -> Result<Option<std::time::Duration>>;
        [&mut self] set_profiling(on: bool);
        [&self] spans() -> &[LaunchSpan];
    }

    fn copy_out(&self, access: &Access, tensor: &Memory) -> Result<()> {
        self.read_fault(access)?;
        self.inner.copy_out(access, tensor)
    }

    fn run_one(&mut self, launch: usize) -> Result<()> {
        self.run(launch..launch + 1, |inner| inner.run_one(launch))
    }

    fn read(&self, access: &Access, into: &mut Elements) -> Result<()> {
        self.read_fault(access)?;
        self.inner.read(access, into)
    }
}

impl Immediate for FaultyProgram<dyn Immediate> {
    fn compute(&mut self, stop: Stop<'_>) -> Result<()> {
        self.run(0..self.plan.first_commit(), |inner| inner.compute(stop))
    }

    fn check_commit(&self) -> Result<()> {
        if self.plan.launches.iter().any(|launch| launch.kernel == Kernel::WriteRegion) {
            self.faults.read("the places of the windows that the step updates")?;
        }
        self.inner.check_commit()
    }

    fn failed_guard(&self) -> Result<Option<&str>> {
        if !self.plan.guards.is_empty() {
            self.faults.read("the guards")?;
        }
        self.inner.failed_guard()
    }

    fn commit(&mut self) -> Result<()> {
        self.run(self.plan.first_commit()..self.plan.launches.len(), |inner| inner.commit())
    }
}

/// A queued step fails as a whole, when it is submitted or when its results are read.
impl Queued for FaultyProgram<dyn Queued> {
    forward! { self;
        [&mut self] make_room(stop: Stop<'_>) -> Result<()>;
        [&self] can_keep(output: usize) -> bool;
        [&self] work() -> Work;
    }

    fn submit(&mut self, stop: Stop<'_>, kept: &[(usize, Arc<Memory>)]) -> Result<Box<dyn Pending>> {
        if let Some(failing) = self.faults.meet(Fault::Launch, self.plan.launches.len()) {
            return Err(failed(&format!(
                "launch {failing} (`{}`)",
                self.plan.launches[failing].kernel.name()
            )));
        }
        let inner = self.inner.submit(stop, kept)?;
        Ok(Box::new(FaultyPending { inner, faults: self.faults.clone() }))
    }
}

/// A queued step for which reading the results fails on demand.
#[derive(Debug)]
struct FaultyPending {
    inner: Box<dyn Pending>,
    faults: Faults,
}

impl Pending for FaultyPending {
    fn run(&self) -> u64 {
        self.inner.run()
    }

    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        self.inner.poll(waker)
    }

    fn wait(self: Box<Self>) -> Result<Finished> {
        self.faults.read("the step's results")?;
        self.inner.wait()
    }
}
