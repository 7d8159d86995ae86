//! The interface between programs and devices, which each backend implements in a crate of its own.

use crate::cancel::Stop;
use crate::content::StoreMemory;
use crate::elements::Elements;
use crate::host::Pool;
use crate::memory::{Allocate, Memory};
use crate::outcome::Outcome;
use crate::spans::LaunchSpan;
use gradloom_codegen::cuda::Replay;
use gradloom_codegen::pipeline::{Code, Precision, Target};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::Fused;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Access;
use gradloom_core::plan::Plan;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A device that programs can be loaded on.
pub trait Backend: Any + Send + Sync {
    /// Returns a short name, such as `cpu` or `cuda`.
    fn name(&self) -> &'static str;
    /// Returns the model of the device, for reports.
    fn description(&self) -> String;
    /// Returns the number of threads that compute.
    fn threads(&self) -> usize {
        1
    }
    /// Returns threads of the host for work outside of programs, such as initial values.
    fn pool(&self) -> Arc<Pool>;
    /// Returns whether programs run and stores keep their bytes; false for the null device.
    fn is_resident(&self) -> bool {
        true
    }
    /// Returns the largest size of a step arena in bytes, if known: a larger plan is refused before anything
    /// is allocated.
    fn memory_limit(&self) -> Option<u64> {
        None
    }
    /// Returns the largest size of one allocation in bytes, a multiple of the plan's alignment, if there is
    /// such a limit.
    fn buffer_bytes(&self) -> Option<u64> {
        None
    }
    /// # Errors
    /// When the device is lost, or cannot be relied on for another reason.
    fn check(&self) -> Result<()> {
        Ok(())
    }
    /// Returns the bytes of compiled kernels that were kept from an earlier process; `None` where none are
    /// kept.
    fn kept_bytes(&self) -> Option<usize> {
        None
    }
    /// Returns the same device with a kernel for each op, if it can run launches one by one.
    fn op_by_op(&self) -> Option<Arc<dyn Backend>> {
        None
    }
    /// Takes the device away, for tests.
    fn lose(&self) {}
    /// The target of programs, in the device's own precision.
    fn target(&self) -> &Target;
    /// The target of one program, in a precision: with what was measured for its kernels, and without what
    /// the device turns out not to have.
    fn target_of(&self, graph: &Graph, _fused: &Fused, precision: Precision) -> Target {
        self.target().in_precision(precision).for_graph(graph, || true)
    }
    /// The texts of a plan's kernels, over the store that it was made for.
    fn emit(&self, _graph: &Graph, _plan: &Plan, _store: &StoreMemory) -> Result<Code> {
        Ok(Code::default())
    }
    /// Memory for a part of the store or of a program; `None` when there is not that much.
    fn allocate(&self, bytes: u64) -> Option<Memory> {
        Memory::new(bytes)
    }
    /// Allocates what the plan says with `allocate`, fills constants, prepares kernels.
    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &StoreMemory,
        allocate: Allocate<'_>,
    ) -> Result<Loaded>;
}

/// A program on a device, by the way in which its steps run.
pub enum Loaded {
    /// The host runs the steps itself.
    Immediate(Box<dyn Immediate>),
    /// Steps are queued whole on a device that works beside the host.
    Queued(Box<dyn Queued>),
}

impl Loaded {
    /// Returns the program.
    pub fn resident(&self) -> &dyn Resident {
        match self {
            Self::Immediate(program) => &**program,
            Self::Queued(program) => &**program,
        }
    }

    /// Returns the program, to be run or written to.
    pub fn resident_mut(&mut self) -> &mut dyn Resident {
        match self {
            Self::Immediate(program) => &mut **program,
            Self::Queued(program) => &mut **program,
        }
    }
}

/// A program on a device, between its steps. Addresses of the store are those at the time of loading,
/// which never change.
pub trait Resident: Send {
    /// Sets the bytes of a buffer, by its index in the plan: of an input or scalar, or, in a debug run, of
    /// any.
    fn write(&mut self, buffer: usize, bytes: &[u8]);
    /// Sets an input of so many bytes to those of a tensor of the device, until [`Resident::unbind`].
    fn bind(&mut self, buffer: usize, bytes: u64, tensor: &Arc<Memory>) -> Result<()> {
        let mut copy = crate::elements::zeroed(crate::memory::counted(bytes), &"a tensor on the host")?;
        tensor.read(0, &mut copy)?;
        self.write(buffer, &copy);
        Ok(())
    }
    /// Gives the tensors of inputs back, behind a run or where there was none.
    fn unbind(&mut self) {}
    /// Copies the elements of an access, row-major, to the start of a new tensor. The store is locked.
    fn copy_out(&self, access: &Access, tensor: &Memory) -> Result<()> {
        let bytes = access.layout.shape.elements().saturating_mul(access.dtype.bytes());
        let mut elements = Elements::default();
        elements.make_room(bytes, &"a result")?;
        self.read(access, &mut elements)?;
        tensor.write(0, &elements)
    }
    /// Runs one launch, after the checks that a whole run makes before it. The store is the caller's alone,
    /// and every operand is there.
    fn run_one(&mut self, _launch: usize) -> Result<()> {
        Err(Error::new(ErrorKind::Device, "this device does not run launches one by one")
            .help("compile for the CPU: `Device::cpu()`"))
    }
    /// Appends the elements of an access, row-major, for which the caller has made room. The store is locked.
    fn read(&self, access: &Access, into: &mut Elements) -> Result<()>;
    /// Bytes that loading asked the system for: arena, constants, scratch.
    fn allocated(&self) -> u64;
    /// Number of different kernels.
    fn unique_kernels(&self) -> usize;
    /// The graphs that a step replays, on a device that does.
    fn replay(&self, _graph: &Graph) -> Option<Replay> {
        None
    }
    /// Starts or stops noting when launches run; a backend that cannot tell ignores it.
    fn set_profiling(&mut self, _on: bool) {}
    /// When the launches of the last run ran, in that order; nothing when that was not noted.
    fn spans(&self) -> &[LaunchSpan] {
        &[]
    }
    /// Starts or stops timing whole runs by the device's clock.
    fn set_step_timing(&mut self, _on: bool) {}
    /// The time that the device took for the last run, for whose end it waits; none if it was not timed.
    fn step_time(&self) -> Result<Option<Duration>> {
        Ok(None)
    }
}

/// A program whose steps the host runs itself, in the order of these methods.
pub trait Immediate: Resident {
    /// Runs the compute launches, unless it is stopped between two of them. The store is locked for reading.
    fn compute(&mut self, stop: Stop<'_>) -> Result<()>;
    /// Checks what could fail in the commit. The store is locked for reading.
    fn check_commit(&self) -> Result<()>;
    /// Name of the first guard that is not finite.
    fn failed_guard(&self) -> Result<Option<&str>>;
    /// Runs the commit launches. The store is locked for writing.
    fn commit(&mut self) -> Result<()>;
}

/// A program whose steps are queued on a device, which decides itself whether they commit.
pub trait Queued: Resident {
    /// Waits until the device has few enough steps to do for another one, or until it is stopped; nothing is
    /// copied to the host for it.
    fn make_room(&mut self, stop: Stop<'_>) -> Result<()>;
    /// Returns whether [`Queued::submit`] can keep an output, by its number, on the device.
    fn can_keep(&self, _output: usize) -> bool {
        false
    }
    /// Queues a step on what was written before, unless it is stopped before a submission. The outputs with
    /// these numbers are copied to new tensors; where there are some, the step's results have no outputs. The
    /// caller has the store's turn.
    fn submit(&mut self, stop: Stop<'_>, kept: &[(usize, Arc<Memory>)]) -> Result<Box<dyn Pending>>;
    /// The work of a step.
    fn work(&self) -> Work;
}

/// The work of a program's steps on a device with a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Kernels that a step runs.
    pub dispatches: usize,
    /// Compute passes of the last step.
    pub passes: usize,
    /// Submissions of the last step: one, and one more for each op that the host runs in between; of many
    /// dispatches to a device that was idle, the first are submitted early.
    pub submits: usize,
    /// Users' ops that the host runs in the middle of a step, as they have no kernels for the device.
    pub host_ops: usize,
    /// Number of times that results were copied to the host so far.
    pub readbacks: usize,
    /// Number of times that data of an input was copied from the host so far.
    pub uploads: usize,
    /// Bytes that the device gave beyond the plan: the step's status, tables of grouped kernels.
    pub extra_bytes: u64,
}

/// A step that was queued. Dropping it forgets its results; the step takes effect or not all the same.
pub trait Pending: Send {
    /// Number of the step among all that its program was asked for, from 0.
    fn run(&self) -> u64;
    /// Returns `Ready` if [`Pending::wait`] would not have to wait; the waker is woken when that is so.
    fn poll(&mut self, waker: &Waker) -> Poll<()>;
    /// Waits for the device.
    fn wait(self: Box<Self>) -> Result<Finished>;
}

// By hand: derived for the backends, it would bring a text of everything that they hold, graph and plan
// included.
impl fmt::Debug for dyn Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for dyn Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.run())
    }
}

/// The results of a step.
#[derive(Debug)]
pub struct Finished {
    /// A trap is an error; nothing took effect then.
    pub outcome: Result<Outcome>,
    /// Bytes of each output, row-major, in the plan's order.
    pub outputs: Vec<Elements>,
    /// Bytes of each guard.
    pub guards: Vec<Elements>,
    /// The program's steps up to this one that failed, as far as they were in no other step's list.
    pub failures: Vec<Failure>,
}

/// A step that took no effect.
#[derive(Debug)]
pub struct Failure {
    /// See [`Pending::run`].
    pub run: u64,
    /// The failure that kept it from its commit.
    pub outcome: Result<Outcome>,
    /// Number of others that failed since the one in the list before, of which nothing else is known.
    pub others: u32,
}
