//! The simulated grid as a device, whose host runs the phases of a step.

use crate::machine::Machine;
use crate::place::{Operand, Operands, Places};
use gradloom_codegen::kernels::{Program, Unit, Work, units};
use gradloom_codegen::pipeline::{Code, Target};
use gradloom_codegen::simt::{Fault, Kernel, verify};
use gradloom_codegen::step::{Owner, STATUS_WORDS, STEP_WORDS, Status, Verdict, host_steps};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Graph};
use gradloom_core::kernel::Access;
use gradloom_core::plan::Plan;
use gradloom_device::backend::{Backend, Immediate, Loaded, Resident};
use gradloom_device::cancel::Stop;
use gradloom_device::content::StoreMemory;
use gradloom_device::elements::Elements;
use gradloom_device::host::Pool;
use gradloom_device::memory::{Allocate, counted};
use gradloom_device::outcome::unique_kernels;
use gradloom_device::queue::{Regions, Results};
use std::sync::Arc;

pub(crate) struct GridBackend {
    target: Target,
    pool: Arc<Pool>,
}

impl GridBackend {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, pool: Arc::new(Pool::new(1)) }
    }
}

impl Backend for GridBackend {
    fn name(&self) -> &'static str {
        "grid"
    }

    fn description(&self) -> String {
        format!("a simulated grid for {}", self.target.name())
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn emit(&self, graph: &Graph, plan: &Plan, _: &StoreMemory) -> Result<Code> {
        let places = Places { plan, limits: &self.target.limits };
        Ok(Code::new::<Vec<Unit<Operands>>>(units(Program { plan, graph }, &places)?))
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &StoreMemory,
        allocate: Allocate<'_>,
    ) -> Result<Loaded> {
        let units = Arc::new(code.get::<Vec<Unit<Operands>>>()?.clone());
        let owners: Vec<Owner> = units.iter().map(|unit| unit.owner).collect();
        if !host_steps(graph, plan, &owners).is_empty() {
            let message = "the simulated grid runs no ops of the host";
            return Err(Error::new(ErrorKind::Device, message).help("use `Device::cpu()`"));
        }
        let regions = Regions::new(graph, plan, store, u64::MAX, allocate)?;
        let results = Results::new(graph, plan, regions.status());
        let (plan, status) = (Arc::clone(plan), vec![0; STATUS_WORDS]);
        let mut program = GridProgram { plan, units, regions, results, status };
        program.run_where(|owner| matches!(owner, Owner::Hoisted(_)))?;
        Ok(Loaded::Immediate(Box::new(program)))
    }
}

struct GridProgram {
    plan: Arc<Plan>,
    units: Arc<Vec<Unit<Operands>>>,
    regions: Regions,
    results: Results,
    /// Words of the status of the last step.
    status: Vec<u32>,
}

impl GridProgram {
    /// Runs the units whose owner satisfies `wanted`, in order.
    fn run_where(&mut self, wanted: impl Fn(Owner) -> bool) -> Result<()> {
        let units = Arc::clone(&self.units);
        units.iter().filter(|unit| wanted(unit.owner)).try_for_each(|unit| self.run(unit))
    }

    fn run(&mut self, unit: &Unit<Operands>) -> Result<()> {
        let Work::Kernels(kernels) = &unit.work else {
            return Err(Error::new(ErrorKind::Internal, "the simulated grid has no library of products"));
        };
        let elements = |operand: &Operand| self.elements(operand);
        let reads = unit.operands.reads.iter().map(elements).collect::<Result<Vec<_>>>()?;
        let before = unit.operands.writes.iter().map(elements).collect::<Result<Vec<_>>>()?;
        let some = |words: &Vec<u32>| words.iter().copied().map(Some).collect();
        let mut machine = Machine {
            operands: reads,
            results: before.iter().map(some).collect(),
            workspace: vec![None; counted(unit.scratch.end - unit.scratch.start).div_ceil(4)],
            faults: Vec::new(),
            checked: Vec::new(),
            committed: true,
            status: std::mem::take(&mut self.status),
        };
        let wrong = |what: String, kernel: &Kernel| {
            Error::new(ErrorKind::Internal, format!("{what}\n{kernel}")).note("found on the simulated grid")
        };
        let ran = kernels.iter().try_for_each(|kernel| {
            verify(kernel).map_err(|error| wrong(error.to_string(), kernel))?;
            machine.run(kernel).map_err(|what| wrong(what, kernel))
        });
        self.status = std::mem::take(&mut machine.status);
        ran?;
        for ((operand, words), before) in unit.operands.writes.iter().zip(&machine.results).zip(&before) {
            self.write_changes(operand, words, before)?;
        }
        self.trapped(unit.owner, &machine)
    }

    fn elements(&self, operand: &Operand) -> Result<Vec<u32>> {
        let mut bytes = vec![0; counted(operand.bytes.end - operand.bytes.start)];
        // Return early, because an operand without elements may have no memory.
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let (memory, start) = self.regions.place(operand.region, operand.bytes.start);
        memory.read(start, &mut bytes)?;
        let dtype = operand.dtype();
        Ok(bytes.chunks_exact(dtype.bytes()).map(|element| decoded(dtype, element)).collect())
    }

    /// Writes only the elements that kernels changed, because several results may be windows of the same
    /// bytes.
    fn write_changes(&self, operand: &Operand, words: &[Option<u32>], before: &[u32]) -> Result<()> {
        let dtype = operand.dtype();
        for (i, (word, before)) in words.iter().zip(before).enumerate() {
            if let Some(word) = word.filter(|word| word != before) {
                let (memory, start) = self.regions.place(operand.region, operand.bytes.start);
                memory.write(start + i * dtype.bytes(), &encoded(dtype, word)[..dtype.bytes()])?;
            }
        }
        Ok(())
    }

    /// Checks the faults that kernels reported.
    ///
    /// # Errors
    /// Returns the trap of the fault with the smallest position, if any fault was reported.
    fn trapped(&self, owner: Owner, machine: &Machine) -> Result<()> {
        let faults = machine.faults.iter().zip(&machine.checked);
        let Some(((fault, position), index)) = faults.min_by_key(|((_, position), _)| *position) else {
            return Ok(());
        };
        let bound = match fault {
            Fault::Index(_, extent) => *extent as usize,
            Fault::Divisor(_) => 0,
        };
        let (position, index) = (*position as usize, index.cast_signed());
        self.results.outcome(Verdict::Trapped { launch: owner.number(), position, index, bound }).map(|_| ())
    }

    /// Returns the verdict of the guards on the last step.
    fn verdict(&self) -> Verdict {
        let bytes: Vec<u8> = self.status.iter().flat_map(|word| word.to_le_bytes()).collect();
        Status::new(&bytes).verdict()
    }
}

impl Resident for GridProgram {
    fn write(&mut self, buffer: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let buffer = &self.plan.buffers[buffer];
        let (memory, start) = self.regions.place(buffer.region, buffer.offset);
        memory.write(start, bytes).expect("memory of the host takes bytes");
    }

    fn run_one(&mut self, launch: usize) -> Result<()> {
        self.run_where(|owner| owner == Owner::Launch(launch))
    }

    fn read(&self, access: &Access, into: &mut Elements) -> Result<()> {
        self.regions.read(&self.plan, access, into)
    }

    fn allocated(&self) -> u64 {
        self.regions.planned()
    }

    fn unique_kernels(&self) -> usize {
        unique_kernels(&self.plan)
    }
}

impl Immediate for GridProgram {
    fn compute(&mut self, stop: Stop<'_>) -> Result<()> {
        stop.check()?;
        self.status[..STEP_WORDS].fill(0);
        let first_commit = self.plan.first_commit();
        self.run_where(|owner| match owner {
            Owner::Launch(launch) => launch < first_commit,
            Owner::Guards => true,
            Owner::Hoisted(_) => false,
        })
    }

    fn check_commit(&self) -> Result<()> {
        self.results.outcome(self.verdict()).map(|_| ())
    }

    fn failed_guard(&self) -> Result<Option<&str>> {
        Ok(match self.verdict() {
            Verdict::NotFinite(guard) => Some(&self.plan.guards[guard].0),
            _ => None,
        })
    }

    fn commit(&mut self) -> Result<()> {
        let first_commit = self.plan.first_commit();
        self.run_where(|owner| matches!(owner, Owner::Launch(launch) if launch >= first_commit))
    }
}

/// Decodes an element into the bits that kernels compute with; 16-bit floats are widened to f32.
fn decoded(dtype: DType, bytes: &[u8]) -> u32 {
    match *bytes {
        [byte] => byte.into(),
        [low, high] => dtype.of_narrow_bits(u16::from_le_bytes([low, high])).to_bits(),
        _ => bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word)),
    }
}

/// Returns an element encoded in the first bytes of the array.
fn encoded(dtype: DType, word: u32) -> [u8; 4] {
    match dtype {
        DType::F16 | DType::BF16 => u32::from(dtype.narrow_bits(f32::from_bits(word))).to_le_bytes(),
        _ => word.to_le_bytes(),
    }
}
