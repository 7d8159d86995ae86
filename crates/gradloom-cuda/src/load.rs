//! Loading of a plan as a program that is ready to run.
//!
//! In: a graph, its plan, the source code of its kernels, the store. Out: a [`CudaProgram`]. The steps are:
//! allocate memory ([`Regions`]), load the kernels, compute their parameters, run the hoisted launches, and
//! build graphs of the remaining launches, whose edges follow from the memory that each kernel accesses.

use super::driver::{Call, CollectiveCall, Function, KernelCall, Node, ProductCall};
use super::exchange::Exchange;
use super::gpu::Gpu;
use super::graph::{Building, Replayed};
use super::kernels::Text;
use super::memory::on_device;
use super::options::Mode;
use super::program::CudaProgram;
use gradloom_codegen::cuda::exchange::{BEGIN, RESULTS};
use gradloom_codegen::cuda::{Collective, CudaKernel, Member, Parameter, Replay, ReplayNode, Work};
use gradloom_codegen::step::Owner;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use gradloom_device::content::StoreMemory;
use gradloom_device::memory::{Allocate, Memory, counted};
use gradloom_device::queue::{Regions, Results, Stagings, host_launches, table};
use gradloom_device::spans::Spans as Times;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

impl CudaProgram {
    /// Loads a plan.
    ///
    /// # Errors
    /// Returns an error if the device is lost, has too little memory, or rejects a kernel.
    pub(super) fn load(
        gpu: &Arc<Gpu>,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        units: &[CudaKernel],
        store: &StoreMemory,
        with: Allocate<'_>,
        mode: Mode,
    ) -> Result<Self> {
        gpu.check()?;
        let own = [(BEGIN, "begin"), (RESULTS, "results")];
        let (blamed, texts): (Vec<Option<Owner>>, Vec<Text<'_>>) = units
            .iter()
            .filter_map(|unit| match &unit.work {
                Work::Function { name, source, .. } => {
                    Some((Some(unit.owner), (source.as_str(), name.as_str())))
                }
                Work::Product(_) | Work::Collective(_) => None,
            })
            .chain(own.map(|text| (None, text)))
            .unzip();
        let blame = |i: usize, error| match blamed[i] {
            Some(owner) => owner.blame(plan, graph, error),
            None => error,
        };
        let mut functions = gpu.kernels.get(gpu, &texts, blame)?.into_iter();
        let memory = Regions::new(graph, plan, store, u64::MAX, with)?;
        let results = Results::new(graph, plan, memory.status());
        let exchange = Exchange::new(gpu, plan, &memory, &results, with)?;

        let mut tables = Vec::new();
        let mut calls: Vec<Option<Call>> = Vec::with_capacity(units.len());
        for unit in units {
            let function = matches!(unit.work, Work::Function { .. }).then(|| functions.next());
            let call = call(gpu, unit, function.flatten(), &memory, &mut tables, with);
            calls.push(call.map_err(|error| unit.owner.blame(plan, graph, error))?);
        }
        for (unit, call) in units.iter().zip(&calls) {
            if let (Owner::Hoisted(_), Some(call)) = (unit.owner, call) {
                gpu.run(call)?;
            }
        }

        let replay = Replay::new(plan, graph, units);
        let [begin, handing] = [(); 2].map(|()| functions.next().expect("they come last"));
        let call_of = |node: &ReplayNode| match node.member {
            Member::Begin => Call::Kernel(exchange.begin(begin, memory.status())),
            Member::Results => Call::Kernel(exchange.results(handing, memory.status())),
            Member::Planned(_) => {
                node.unit.and_then(|unit| calls[unit].take()).expect("a node of the plan has work")
            }
        };
        let calls: Vec<Call> = replay.nodes.iter().map(call_of).collect();
        let ends = replay.segments.iter().map(|segment| segment.end);
        let host = host_launches(graph, plan, replay.cuts.iter().map(|cut| cut.launch).zip(ends));

        let mut program = Self {
            gpu: Arc::clone(gpu),
            plan: Arc::clone(plan),
            scalars: vec![0; counted(plan.scalar_bytes())],
            changed_scalars: Vec::new(),
            graphs: Vec::new(),
            replay,
            memory,
            calls,
            host,
            exchange,
            tables,
            bound: Vec::new(),
            uploads: 0,
            stagings: Arc::new(Stagings::new(results)),
            runs: 0,
            in_flight: VecDeque::new(),
            unique: texts.iter().map(|(source, _)| source).collect::<HashSet<_>>().len(),
            profile: Times::default(),
            clock: None,
            is_timed: false,
            poisoned: mode.poisoned,
        };
        if mode.captured {
            for segment in &program.replay.segments {
                let edges = program.replay.edges(segment);
                let early = program.replay.early(segment, &edges);
                program.graphs.push(build(gpu, &program.calls[segment.clone()], &edges, &early)?);
            }
        }
        Ok(program)
    }
}

/// Returns the call for a kernel of the plan; `None` for a kernel without work.
fn call(
    gpu: &Arc<Gpu>,
    kernel: &CudaKernel,
    function: Option<Function>,
    memory: &Regions,
    tables: &mut Vec<Memory>,
    with: Allocate<'_>,
) -> Result<Option<Call>> {
    let mut parameters = Vec::with_capacity(kernel.parameters.len() + 1);
    for parameter in &kernel.parameters {
        parameters.push(match parameter {
            Parameter::Memory(region, offset) => {
                let (memory, start) = memory.place(*region, *offset);
                on_device(memory).at(start)
            }
            Parameter::Workspace(offset) => {
                let (memory, start) = memory.scratch(*offset);
                on_device(memory).at(start)
            }
            Parameter::Nothing => 0,
            Parameter::Table(numbers) => {
                let table = table(numbers, with)?;
                let address = on_device(&table).at(0);
                tables.push(table);
                address
            }
        });
    }
    Ok(match &kernel.work {
        Work::Function { groups: 0, .. } => None,
        Work::Function { groups, threads, shared, .. } => {
            let function = function.expect("each has one");
            parameters.push(on_device(memory.status()).at(0));
            let blocks = u32::try_from(*groups)
                .map_err(|_| Error::new(ErrorKind::Plan, "a kernel has more blocks than CUDA counts"))?;
            let (threads, shared) = (*threads, *shared);
            if shared > 0 {
                gpu.ask("reserve shared memory", |driver| driver.allow_shared(function, shared))?;
            }
            Some(Call::Kernel(KernelCall { function, blocks, threads, shared, parameters }))
        }
        Work::Product(product) => {
            // A product without a bias has four parameters.
            parameters.resize(5, 0);
            let addresses = parameters.try_into().expect("it has five");
            let algorithm = gpu.algorithms.get(gpu, product, addresses)?;
            Some(Call::Product(ProductCall { product: *product, algorithm, addresses }))
        }
        Work::Collective(collective) => {
            let writes = parameters.split_off(collective.elements.len());
            let Collective { op, elements, dtypes } = collective.clone();
            Some(Call::Collective(CollectiveCall { op, elements, dtypes, reads: parameters, writes }))
        }
    })
}

/// Builds an executable graph of calls. Each call waits until the calls that `edges` lists for it are done.
/// If a call's entry in `early` is true and the device supports it, the call may start once all blocks of its
/// only predecessor have triggered it or ended.
fn build(gpu: &Gpu, calls: &[Call], edges: &[Vec<usize>], early: &[bool]) -> Result<Replayed> {
    let building = Building::new(gpu)?;
    let mut nodes: Vec<Node> = Vec::with_capacity(calls.len());
    for ((call, before), early) in calls.iter().zip(edges).zip(early) {
        let before: Vec<Node> = before.iter().map(|&i| nodes[i]).collect();
        nodes.push(building.add(&before, *early && gpu.starts_early(), call)?);
    }
    building.ready()
}
