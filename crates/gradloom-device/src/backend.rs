//! The interface between programs and devices, implemented by the crate of each backend.

use crate::cancel::Stop;
use crate::communicator::Communicator;
use crate::content::StoreMemory;
use crate::elements::Elements;
use crate::host::Pool;
use crate::memory::{Allocate, Memory};
use crate::outcome::Outcome;
use crate::queue::cuts;
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

/// A device on which programs can be loaded.
pub trait Backend: Any + Send + Sync {
    /// Returns a short name, such as `cpu` or `cuda`.
    fn name(&self) -> &'static str;
    /// Returns the model of the device, for reports.
    fn description(&self) -> String;
    /// Returns the number of threads that run kernels.
    fn threads(&self) -> usize {
        1
    }
    /// Returns the thread pool for work on the host outside of programs, such as initial values.
    fn pool(&self) -> Arc<Pool>;
    /// Returns `true` if programs run and stores hold data; `false` for the null device.
    fn is_resident(&self) -> bool {
        true
    }
    /// Returns the maximum size of a step arena in bytes, if known. A plan that exceeds it is rejected before
    /// anything is allocated.
    fn memory_limit(&self) -> Option<u64> {
        None
    }
    /// Returns the maximum size of one allocation in bytes, a multiple of the plan's alignment; `None` if
    /// there is no limit.
    fn buffer_bytes(&self) -> Option<u64> {
        None
    }
    /// Checks that the device is usable.
    ///
    /// # Errors
    /// Returns an error if the device is lost or its results cannot be relied on for another reason.
    fn check(&self) -> Result<()> {
        Ok(())
    }
    /// Returns the size in bytes of the compiled kernels loaded from the cache of an earlier process; `None`
    /// if the device has no such cache.
    fn kept_bytes(&self) -> Option<usize> {
        None
    }
    /// Returns the same device with one kernel per op, if it can run launches one by one.
    fn op_by_op(&self) -> Option<Arc<dyn Backend>> {
        None
    }
    /// Returns the connection to the other ranks, if the device is part of a world.
    fn communicator(&self) -> Option<&Arc<dyn Communicator>> {
        None
    }
    /// Returns the same device as a part of a world, whose programs may contain collective ops.
    ///
    /// # Errors
    /// Returns an error if the device cannot communicate, or if its ranks cannot be connected.
    fn in_world(&self, _communicator: Arc<dyn Communicator>) -> Result<Arc<dyn Backend>> {
        Err(no_world(self.name()))
    }
    /// Simulates the loss of the device, for tests.
    fn lose(&self) {}
    /// Returns the target of programs, in the device's default precision.
    fn target(&self) -> &Target;
    /// Returns the target of one program in the given precision, with the tuning results for its kernels and
    /// without the features that the device lacks.
    fn target_of(&self, graph: &Graph, _fused: &Fused, precision: Precision) -> Target {
        self.target().in_precision(precision).for_graph(graph, || true)
    }
    /// Returns the kernels of a plan, for the store that the plan was made for.
    fn emit(&self, graph: &Graph, plan: &Plan, store: &StoreMemory) -> Result<Code> {
        self.target().code(graph, plan, &cuts(plan, store, u64::MAX))
    }
    /// Allocates memory for a part of the store or of a program; returns `None` if there is not enough.
    fn allocate(&self, bytes: u64) -> Option<Memory> {
        Memory::new(bytes)
    }
    /// Allocates the plan's memory with `allocate`, fills the constants and prepares the kernels.
    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &StoreMemory,
        allocate: Allocate<'_>,
    ) -> Result<Loaded>;
}

/// Returns the error of a device that cannot be part of a world.
pub(crate) fn no_world(device: &str) -> Error {
    let message = format!("`{device}` cannot be part of a world of several ranks");
    Error::new(ErrorKind::Device, message)
        .help("train on CPUs (`Device::cpu()`) or on NVIDIA GPUs through CUDA")
}

/// A program on a device, by execution model.
pub enum Loaded {
    /// A program whose steps are run by the host.
    Immediate(Box<dyn Immediate>),
    /// A program whose steps are queued as a whole on an asynchronous device.
    Queued(Box<dyn Queued>),
}

impl Loaded {
    /// Returns the program for shared access.
    pub fn resident(&self) -> &dyn Resident {
        match self {
            Self::Immediate(program) => &**program,
            Self::Queued(program) => &**program,
        }
    }

    /// Returns the program for exclusive access.
    pub fn resident_mut(&mut self) -> &mut dyn Resident {
        match self {
            Self::Immediate(program) => &mut **program,
            Self::Queued(program) => &mut **program,
        }
    }
}

/// A loaded program between its steps. It keeps the store's addresses from the time of loading; they never
/// change.
pub trait Resident: Send {
    /// Sets the bytes of the buffer with index `buffer` in the plan, which must be an input or a scalar
    /// except in a debug run.
    fn write(&mut self, buffer: usize, bytes: &[u8]);
    /// Feeds an input of `bytes` bytes from a device tensor, until [`Resident::unbind`] is called.
    fn bind(&mut self, buffer: usize, bytes: u64, tensor: &Arc<Memory>) -> Result<()> {
        let mut copy = crate::elements::zeroed(crate::memory::counted(bytes), &"a tensor on the host")?;
        tensor.read(0, &mut copy)?;
        self.write(buffer, &copy);
        Ok(())
    }
    /// Releases the tensors bound to inputs. Called after each run, even one that did not start.
    fn unbind(&mut self) {}
    /// Copies the elements of an access, row-major, to the start of a new tensor. The caller holds the
    /// store's lock.
    fn copy_out(&self, access: &Access, tensor: &Memory) -> Result<()> {
        let bytes = access.layout.shape.elements().saturating_mul(access.dtype.bytes());
        let mut elements = Elements::default();
        elements.make_room(bytes, &"a result")?;
        self.read(access, &mut elements)?;
        tensor.write(0, &elements)
    }
    /// Runs one launch, with the checks that a whole run makes before it. The caller has exclusive access to
    /// the store, and every operand has been computed.
    fn run_one(&mut self, _launch: usize) -> Result<()> {
        Err(Error::new(ErrorKind::Device, "this device does not run launches one by one")
            .help("compile for the CPU: `Device::cpu()`"))
    }
    /// Appends the elements of an access, row-major, to `into`. The caller has reserved room in `into` and
    /// holds the store's lock.
    fn read(&self, access: &Access, into: &mut Elements) -> Result<()>;
    /// Returns the number of bytes that loading allocated for the arena, constants and scratch.
    fn allocated(&self) -> u64;
    /// Returns the number of distinct kernels.
    fn unique_kernels(&self) -> usize;
    /// Returns the graphs that a step replays, if the device replays graphs.
    fn replay(&self, _graph: &Graph) -> Option<Replay> {
        None
    }
    /// Starts or stops recording the times of launches; a backend that cannot measure them ignores the call.
    fn set_profiling(&mut self, _on: bool) {}
    /// Returns the times of the last run's launches, in launch order; empty if they were not recorded.
    fn spans(&self) -> &[LaunchSpan] {
        &[]
    }
    /// Starts or stops timing whole runs with the device's clock.
    fn set_step_timing(&mut self, _on: bool) {}
    /// Waits for the last run and returns the time it took on the device; `None` if it was not timed.
    fn step_time(&self) -> Result<Option<Duration>> {
        Ok(None)
    }
}

/// A program whose steps the host runs, by calling these methods in order.
pub trait Immediate: Resident {
    /// Runs the compute launches, unless it is stopped between two of them. The caller holds the store's read
    /// lock.
    fn compute(&mut self, stop: Stop<'_>) -> Result<()>;
    /// Checks everything that could fail in the commit. The caller holds the store's read lock.
    fn check_commit(&self) -> Result<()>;
    /// Returns the name of the first guard that is not finite, if there is one.
    fn failed_guard(&self) -> Result<Option<&str>>;
    /// Runs the commit launches. The caller holds the store's write lock.
    fn commit(&mut self) -> Result<()>;
}

/// A program whose steps are queued on a device. The device decides whether a step commits.
pub trait Queued: Resident {
    /// Waits until the device can accept another step, or until it is stopped. Copies nothing to the host.
    fn make_room(&mut self, stop: Stop<'_>) -> Result<()>;
    /// Returns `true` if [`Queued::submit`] can keep the output with this index on the device.
    fn can_keep(&self, _output: usize) -> bool {
        false
    }
    /// Queues a step on the values written before, unless it is stopped before a submission. The outputs with
    /// the indices in `kept` are copied to new tensors; if `kept` is not empty, the step's results contain no
    /// outputs. The caller holds the store's lock for running steps.
    fn submit(&mut self, stop: Stop<'_>, kept: &[(usize, Arc<Memory>)]) -> Result<Box<dyn Pending>>;
    /// Returns the counters of the program's work.
    fn work(&self) -> Work;
}

/// Counters of a program's work on a device with a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Number of kernels in a step.
    pub dispatches: usize,
    /// Number of compute passes in the last step.
    pub passes: usize,
    /// Number of submissions in the last step: one, plus one for each op that the host runs in between, plus
    /// one if the device was idle and the first of many dispatches were submitted early.
    pub submits: usize,
    /// Number of custom ops without device kernels, which the host runs in the middle of a step.
    pub host_ops: usize,
    /// Number of times that results have been copied to the host.
    pub readbacks: usize,
    /// Number of times that input data has been copied from the host.
    pub uploads: usize,
    /// Number of bytes allocated in addition to the plan's, for the step's status and the tables of grouped
    /// kernels.
    pub extra_bytes: u64,
}

/// A queued step. Dropping it discards its results; the step commits or fails regardless.
pub trait Pending: Send {
    /// Returns the index of the step among all steps requested of its program, from 0.
    fn run(&self) -> u64;
    /// Returns `Ready` if the results have arrived, so that [`Pending::wait`] does not block. Otherwise
    /// registers `waker` to be woken when they arrive.
    fn poll(&mut self, waker: &Waker) -> Poll<()>;
    /// Waits for the device and returns the results.
    fn wait(self: Box<Self>) -> Result<Finished>;
}

// Prints only the name. A derived implementation would print everything that the backend holds, including
// graph and plan.
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
    /// Outcome of the step; a trap is an error, and the step then has no effect.
    pub outcome: Result<Outcome>,
    /// Bytes of each output, row-major, in plan order.
    pub outputs: Vec<Elements>,
    /// Bytes of each guard, in plan order.
    pub guards: Vec<Elements>,
    /// Failed steps of the program up to and including this one, except those already reported.
    pub failures: Vec<Failure>,
}

/// A step that had no effect.
#[derive(Debug)]
pub struct Failure {
    /// Index of the step; see [`Pending::run`].
    pub run: u64,
    /// Reason why the step did not commit.
    pub outcome: Result<Outcome>,
    /// Number of other steps that failed since the previous entry in the list; no details of them are known.
    pub others: u32,
}
