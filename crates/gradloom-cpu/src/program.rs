//! A program loaded on the CPU: memory as planned, kernels prepared, addresses resolved.
//!
//! A step allocates nothing and decides nothing: it runs the launches as their dependencies allow.

use super::collective;
use super::device::machine;
use super::flow::{Failure, Flow, Launches, PreparedLaunch};
use super::prepare::prepare_compiled;
use super::{InstructionSet, Loops, Pool, fill_constant};
use gradloom_codegen::cpu::{CpuKernel, CpuKernels};
use gradloom_codegen::pipeline::{Code, Target};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{Graph, OpKind};
use gradloom_core::kernel::{Access, Kernel, Launch};
use gradloom_core::plan::{Plan, Region, Role};
use gradloom_device::backend::{Backend, Immediate, Loaded, Resident};
use gradloom_device::cancel::Stop;
use gradloom_device::communicator::Communicator;
use gradloom_device::content::StoreMemory;
use gradloom_device::elements::Elements;
use gradloom_device::memory::{Allocate, Memory, counted};
use gradloom_device::outcome::{out_of_i32, trap};
use gradloom_device::spans::{LaunchSpan, Spans};
use std::sync::Arc;
use std::time::Instant;

/// The CPU with a pool of threads.
#[derive(Clone, Debug)]
pub(crate) struct CpuBackend {
    pool: Arc<Pool>,
    target: Target,
    /// Minimum cost of launches that use several threads, in nanoseconds on one core.
    worth_waking: usize,
    /// Connection to the other ranks, if the device is part of a world.
    communicator: Option<Arc<dyn Communicator>>,
}

/// Minimum cost of launches that take longer than waking a thread, in nanoseconds on one core.
const WORTH_WAKING: usize = 100_000;

impl CpuBackend {
    pub(crate) fn new(threads: usize, fusion: Fusion, loops: Loops) -> Self {
        let pool = Arc::new(Pool::new(threads));
        let machine = machine(InstructionSet::detect(), loops);
        Self {
            target: Target::cpu(pool.threads()).with_fusion(fusion).with_machine(machine),
            pool,
            worth_waking: WORTH_WAKING,
            communicator: None,
        }
    }

    /// Returns the same backend, which uses all threads for any launches.
    pub(crate) fn always_waking(self) -> Self {
        Self { worth_waking: 0, ..self }
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn description(&self) -> String {
        super::describe().to_string()
    }

    fn threads(&self) -> usize {
        self.pool.threads()
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    fn op_by_op(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Self { target: self.target.clone().with_fusion(Fusion::Off), ..self.clone() }))
    }

    fn communicator(&self) -> Option<&Arc<dyn Communicator>> {
        self.communicator.as_ref()
    }

    fn in_world(&self, communicator: Arc<dyn Communicator>) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Self { communicator: Some(communicator), ..self.clone() }))
    }

    fn memory_limit(&self) -> Option<u64> {
        gradloom_device::host::memory()
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &StoreMemory,
        allocate: Allocate<'_>,
    ) -> Result<Loaded> {
        let program = CpuProgram::load(graph, plan, code.get()?, store, self, allocate)?;
        Ok(Loaded::Immediate(Box::new(program)))
    }
}

struct CpuProgram {
    graph: Arc<Graph>,
    plan: Arc<Plan>,
    pool: Arc<Pool>,
    steps: Vec<PreparedLaunch>,
    compute: Flow,
    commit: Flow,
    first_commit: usize,
    communicator: Option<Arc<dyn Communicator>>,
    /// Base address of each buffer of the plan.
    addresses: Vec<*mut u8>,
    arena: Memory,
    constants: Memory,
    scratch: Memory,
    profile: Spans,
    /// The tensors of the device that inputs are bound to, by their buffers.
    bound: Vec<(usize, Arc<Memory>)>,
    /// Keeps the store's addresses valid.
    _store: Vec<Arc<Memory>>,
}

// SAFETY: the addresses point into memory that the program owns or shares with the store; the store's locks,
// held by the caller, and `&mut self` order all access.
unsafe impl Send for CpuProgram {}

impl CpuProgram {
    fn load(
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        kernels: &CpuKernels,
        store: &StoreMemory,
        backend: &CpuBackend,
        allocate: Allocate<'_>,
    ) -> Result<Self> {
        let pool = &backend.pool;
        let worth_waking = if pool.threads() == 1 { usize::MAX } else { backend.worth_waking };
        let allocate = |bytes: u64, what: &str| {
            allocate(bytes).ok_or_else(|| {
                Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of {what}"))
                    .help("make the batch or the context smaller")
            })
        };
        let arena = allocate(plan.totals.step, "temporaries")?;
        let constants = allocate(plan.totals.constants, "constants")?;
        let scratch = allocate(plan.totals.workspace, "scratch")?;
        let mut kept: Vec<Arc<Memory>> = Vec::new();
        let mut addresses = Vec::with_capacity(plan.buffers.len());
        for buffer in &plan.buffers {
            addresses.push(match buffer.region {
                Region::Step => arena.at(counted(buffer.offset)),
                Region::Constants => constants.at(counted(buffer.offset)),
                Region::Store => {
                    let (memory, offset) = store.place(buffer.offset).expect("the store was extended first");
                    let address = memory.at(offset);
                    if !kept.iter().any(|known| Arc::ptr_eq(known, &memory)) {
                        kept.push(memory);
                    }
                    address
                }
            });
        }
        for (buffer, &address) in plan.buffers.iter().zip(&addresses) {
            if buffer.role == Role::Constant {
                let op = graph.defining_op(buffer.value).expect("constants are ops");
                // SAFETY: the buffer's bytes lie inside `constants`, which nothing else uses yet.
                let bytes = unsafe { std::slice::from_raw_parts_mut(address, counted(buffer.bytes)) };
                fill_constant(&op.kind, buffer, bytes);
            }
        }
        let address = |access: &Access| addresses[plan.buffer_of[&access.buffer]];
        let level = InstructionSet::detect();
        let kernel = |launch: &Launch, compiled: &CpuKernel| match (&launch.kernel, &backend.communicator) {
            (Kernel::Op(OpKind::Collective { op, .. }), Some(communicator)) => {
                collective::prepare(launch, *op, Arc::clone(communicator))
            }
            _ => prepare_compiled(launch, compiled, graph, level),
        };
        let prepared = |launch: &Launch, compiled: &CpuKernel, start: u64| PreparedLaunch {
            kernel: kernel(launch, compiled),
            reads: launch.reads.iter().map(|a| address(a).cast_const()).collect(),
            writes: launch.writes.iter().map(address).collect(),
            scratch: scratch.at(counted(start)),
        };
        for (launch, compiled) in plan.hoisted.iter().zip(&kernels.hoisted) {
            let launch = prepared(launch, compiled, 0);
            let done = launch.kernel.run(&launch.call(pool));
            done.map_err(|trap| Error::new(ErrorKind::Internal, trap.message))?;
        }
        let steps: Vec<PreparedLaunch> = (plan.launches.iter().zip(&kernels.launches).zip(&plan.scratch))
            .map(|((launch, compiled), &start)| prepared(launch, compiled, start))
            .collect();
        let first_commit = plan.first_commit();
        let launches = Launches { plan, kernels: &kernels.launches, prepared: &steps };
        Ok(Self {
            graph: Arc::clone(graph),
            plan: Arc::clone(plan),
            pool: Arc::clone(pool),
            compute: Flow::new(&launches, 0..first_commit, worth_waking),
            commit: Flow::new(&launches, first_commit..steps.len(), worth_waking),
            communicator: backend.communicator.clone(),
            steps,
            first_commit,
            addresses,
            arena,
            constants,
            scratch,
            profile: Spans::default(),
            bound: Vec::new(),
            _store: kept,
        })
    }

    /// Runs the compute launches or the commit launches. A profile needs one launch at a time.
    fn run(&mut self, commits: bool, stop: Stop<'_>) -> Result<()> {
        let (flow, launches) = match commits {
            false => (&self.compute, 0..self.first_commit),
            true => (&self.commit, self.first_commit..self.steps.len()),
        };
        if self.profile.on {
            for i in launches {
                stop.check()?;
                let began = Instant::now();
                self.launch(i)?;
                self.profile.note(i, began);
            }
            return Ok(());
        }
        // SAFETY: the addresses are those of the plan; `&mut self` and the store's locks, held by the caller,
        // exclude others.
        unsafe { flow.run(&self.pool, &self.steps, stop) }.map_err(|failure| match failure {
            Failure::Trap(launch, trap) => self.trapped(&self.plan.launches[launch], &trap.message),
            Failure::Stopped(error) => error,
        })
    }

    /// Has everything that looks at a buffer look elsewhere.
    fn point(&mut self, buffer: usize, to: *mut u8) {
        let value = self.plan.buffers[buffer].value;
        for (step, launch) in self.steps.iter_mut().zip(&self.plan.launches) {
            let reads = step.reads.iter_mut().zip(&launch.reads);
            reads.filter(|(_, read)| read.buffer == value).for_each(|(address, _)| *address = to);
        }
        self.addresses[buffer] = to;
    }

    /// Runs a launch alone.
    fn launch(&self, i: usize) -> Result<()> {
        let step = &self.steps[i];
        let done = step.kernel.run(&step.call(&self.pool));
        done.map_err(|trap| self.trapped(&self.plan.launches[i], &trap.message))
    }

    fn trapped(&self, launch: &Launch, message: &str) -> Error {
        let op = &self.graph.ops[launch.op];
        let failure = self.communicator.as_ref().and_then(|communicator| communicator.check().err());
        if let (OpKind::Collective { .. }, Some(failure)) = (&op.kind, failure) {
            return failure;
        }
        // Of the kernel's message, the place is right.
        let place = || message.split(" at position ").nth(1)?.split(" of ").next();
        let error = match place().filter(|_| self.graph.checks_i64(op)) {
            Some(place) => out_of_i32(place),
            None => trap(message.to_string()),
        };
        match self.graph.origin(op) {
            Some(origin) => error.at(origin.clone(), op.kind.name()),
            None => error.note(format!("in `{}`", op.kind.name())),
        }
    }

    /// Calls `f` with the address of each element, row-major.
    fn elements(&self, access: &Access, mut f: impl FnMut(*const u8)) {
        let base = self.addresses[self.plan.buffer_of[&access.buffer]];
        let size = access.dtype.bytes();
        access.layout.positions().for_each(|position| f(base.wrapping_add(position * size)));
    }

    /// Checks that the window that a launch replaces lies inside its target, which the kernel takes for
    /// granted.
    fn check_window(&self, launch: &Launch) -> Result<()> {
        if launch.kernel != Kernel::WriteRegion {
            return Ok(());
        }
        let (window, target) = (&launch.reads[0].layout.shape, &launch.writes[0].layout.shape);
        for (axis, start) in launch.reads[1..].iter().map(|a| self.scalar_i32(a)).enumerate() {
            let room = target[axis] - window[axis];
            if usize::try_from(start).map_or(true, |start| start > room) {
                let message = format!(
                    "an update of {} elements at {start} does not fit axis {axis} of {target}",
                    window[axis]
                );
                return Err(self.trapped(launch, &message));
            }
        }
        Ok(())
    }

    fn scalar_i32(&self, access: &Access) -> i32 {
        let mut value = 0;
        // SAFETY: the plan's verifier keeps accesses inside their buffers; the caller holds the store's lock.
        self.elements(access, |address| value = unsafe { address.cast::<i32>().read() });
        value
    }
}

impl Resident for CpuProgram {
    fn write(&mut self, buffer: usize, bytes: &[u8]) {
        assert_eq!(bytes.len() as u64, self.plan.buffers[buffer].bytes, "the feed was checked");
        assert!(self.bound.iter().all(|(bound, _)| *bound != buffer), "a tensor is not written to");
        // SAFETY: the buffer has that many bytes in the arena, and `&mut self` excludes a run.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.addresses[buffer], bytes.len()) };
    }

    fn bind(&mut self, buffer: usize, bytes: u64, tensor: &Arc<Memory>) -> Result<()> {
        let planned = &self.plan.buffers[buffer];
        assert!(bytes == planned.bytes && tensor.len() as u64 >= bytes, "the feed was checked");
        let value = planned.value;
        let mut writes = self.plan.launches.iter().flat_map(|launch| &launch.writes);
        let is_written = writes.any(|write| write.buffer == value);
        assert!(planned.role == Role::Input && planned.region == Region::Step && !is_written, "an input");
        self.point(buffer, tensor.at(0));
        self.bound.push((buffer, Arc::clone(tensor)));
        Ok(())
    }

    fn unbind(&mut self) {
        while let Some((buffer, _tensor)) = self.bound.pop() {
            self.point(buffer, self.arena.at(counted(self.plan.buffers[buffer].offset)));
        }
    }

    fn copy_out(&self, access: &Access, tensor: &Memory) -> Result<()> {
        let size = access.dtype.bytes();
        let base = self.addresses[self.plan.buffer_of[&access.buffer]];
        let bytes = access.layout.shape.elements() * size;
        assert!(bytes <= tensor.len(), "the tensor has the output's type");
        if access.layout.is_contiguous() {
            let from = base.wrapping_add(access.layout.offset * size);
            // SAFETY: as in `read`; the tensor is new, and the caller's alone.
            unsafe { std::ptr::copy_nonoverlapping(from, tensor.at(0), bytes) };
            return Ok(());
        }
        let mut to = 0;
        self.elements(access, |address| {
            // SAFETY: as above, element by element.
            unsafe { std::ptr::copy_nonoverlapping(address, tensor.at(to), size) };
            to += size;
        });
        Ok(())
    }

    fn run_one(&mut self, launch: usize) -> Result<()> {
        self.check_window(&self.plan.launches[launch])?;
        self.launch(launch)
    }

    fn read(&self, access: &Access, into: &mut Elements) -> Result<()> {
        let size = access.dtype.bytes();
        if access.layout.is_contiguous() {
            let base =
                self.addresses[self.plan.buffer_of[&access.buffer]].wrapping_add(access.layout.offset * size);
            let bytes = access.layout.shape.elements() * size;
            // SAFETY: the plan's verifier keeps accesses inside their buffers; the caller holds the store's
            // lock.
            into.push(unsafe { std::slice::from_raw_parts(base, bytes) });
            return Ok(());
        }
        // SAFETY: as above, element by element.
        self.elements(access, |address| {
            into.push(unsafe { std::slice::from_raw_parts(address, size) });
        });
        Ok(())
    }

    fn allocated(&self) -> u64 {
        [&self.arena, &self.constants, &self.scratch].iter().map(|memory| memory.len() as u64).sum()
    }

    fn set_profiling(&mut self, on: bool) {
        self.profile.set(on, self.steps.len());
    }

    fn spans(&self) -> &[LaunchSpan] {
        self.profile.spans()
    }

    fn unique_kernels(&self) -> usize {
        gradloom_device::outcome::unique_kernels(&self.plan)
    }
}

impl Immediate for CpuProgram {
    fn compute(&mut self, stop: Stop<'_>) -> Result<()> {
        self.profile.clear();
        self.run(false, stop)
    }

    fn check_commit(&self) -> Result<()> {
        self.plan.launches[self.first_commit..].iter().try_for_each(|launch| self.check_window(launch))
    }

    fn failed_guard(&self) -> Result<Option<&str>> {
        Ok(self.plan.guards.iter().find_map(|(name, access)| {
            let mut finite = true;
            // SAFETY: as in `scalar_i32`; guards are f32.
            self.elements(access, |address| finite &= unsafe { address.cast::<f32>().read() }.is_finite());
            (!finite).then_some(name.as_str())
        }))
    }

    fn commit(&mut self) -> Result<()> {
        self.run(true, Stop::default())
    }
}
