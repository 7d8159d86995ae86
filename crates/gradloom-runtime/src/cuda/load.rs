//! Loads a plan as a program that is ready to run.
//!
//! In: a graph, its plan, the texts of its kernels, the store. Out: a [`CudaProgram`]. The way: memory
//! ([`Regions`]), kernels, their addresses, one run of what never changes, and graphs of the rest, whose
//! edges follow from what each kernel touches.

use super::driver::{Call, GraphExec, KernelCall, Node, ProductCall};
use super::edges::{Touches, edges};
use super::exchange::{BEGIN, Exchange, RESULTS};
use super::gpu::Gpu;
use super::kernels::Text;
use super::memory::{CudaMemory, on_device};
use super::options::Replay;
use super::pending::Stagings;
use super::program::{CudaProgram, Member, Ready, STATUS, Segment, WORKSPACE};
use crate::gpu::{Regions, Results, host_launches};
use crate::memory::{Allocate, Memory};
use crate::profile::Spans as Times;
use crate::store::Content;
use gradloom_codegen::cuda::{CudaUnit, Parameter, Span, Spans, Work};
use gradloom_codegen::step::Owner;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Access;
use gradloom_core::plan::Plan;
use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

impl CudaProgram {
    /// Loads a plan.
    ///
    /// # Errors
    /// When the device is lost, has not enough memory, or refuses a kernel.
    pub(super) fn load(
        gpu: &Arc<Gpu>,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        units: &[CudaUnit],
        store: &Content,
        with: Allocate<'_>,
        how: Replay,
    ) -> Result<Self> {
        gpu.check()?;
        let own = [(BEGIN, "begin"), (RESULTS, "results")];
        let (blamed, texts): (Vec<Option<Owner>>, Vec<Text<'_>>) = units
            .iter()
            .filter_map(|unit| match &unit.kernel.work {
                Work::Function { name, source, .. } => {
                    Some((Some(unit.owner), (source.as_str(), name.as_str())))
                }
                Work::Product(_) => None,
            })
            .chain(own.map(|text| (None, text)))
            .unzip();
        let blame = |i: usize, error| match blamed[i] {
            Some(owner) => owner.blame(plan, graph, error),
            None => error,
        };
        let mut functions = gpu.kernels.get(gpu, &texts, blame)?.into_iter();
        let memory = Regions::new(graph, plan, store, usize::MAX, with)?;
        let results = Results::new(graph, plan, memory.status());
        let exchange = Exchange::new(gpu, plan, &memory, &results, with)?;

        let mut tables = Vec::new();
        let mut planned = Vec::new();
        for unit in units {
            let kernel = &unit.kernel;
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
                        tables.push(table);
                        tables[tables.len() - 1].at(0)
                    }
                });
            }
            let call = match &kernel.work {
                Work::Function { groups, threads, .. } => {
                    let function = functions.next().expect("each has one");
                    parameters.push(on_device(memory.status()).at(0));
                    let blocks = u32::try_from(*groups).map_err(|_| {
                        let error = Error::new(ErrorKind::Plan, "a kernel has more blocks than CUDA counts");
                        unit.owner.blame(plan, graph, error)
                    })?;
                    // A kernel without work is not launched.
                    if blocks == 0 {
                        continue;
                    }
                    Call::Kernel(KernelCall { function, blocks, threads: *threads, parameters })
                }
                Work::Product(product) => {
                    let addresses = parameters.try_into().expect("it has four");
                    let algorithm = gpu
                        .algorithms
                        .get(gpu, product, addresses)
                        .map_err(|error| unit.owner.blame(plan, graph, error))?;
                    Call::Product(ProductCall { product: *product, algorithm, addresses })
                }
            };
            let touches = touches(&kernel.spans);
            planned.push(Ready { member: Member::Planned(unit.owner), call, touches });
        }
        let (once, planned): (Vec<Ready>, Vec<Ready>) =
            planned.into_iter().partition(|ready| matches!(ready.member, Member::Planned(Owner::Hoisted(_))));
        for ready in &once {
            gpu.run(&ready.call)?;
        }

        let owners: Vec<Owner> = planned
            .iter()
            .map(|ready| match ready.member {
                Member::Planned(owner) => owner,
                _ => unreachable!("they are of the plan"),
            })
            .collect();
        // The first kernel of the step goes before all.
        let mut host = host_launches(graph, plan, &owners);
        host.iter_mut().for_each(|host| host.before += 1);
        let commits =
            |owner: &Owner| matches!(owner, Owner::Launch(launch) if *launch >= plan.first_commit());
        let pause = owners.iter().position(commits).unwrap_or(owners.len());
        let [begin, handing] = [(); 2].map(|()| functions.next().expect("they come last"));
        let (call, taken) = exchange.begin(begin, plan, memory.status());
        let mut steps = vec![Ready { member: Member::Begin, call: Call::Kernel(call), touches: taken }];
        steps.extend(planned);
        let call = Call::Kernel(exchange.results(handing, memory.status()));
        steps.insert(pause + 1, Ready { member: Member::Results, call, touches: handed_out(plan) });

        let mut program = Self {
            gpu: Arc::clone(gpu),
            plan: Arc::clone(plan),
            scalars: vec![0; plan.scalar_bytes()],
            changed_scalars: Vec::new(),
            segments: segments(&host, steps.len()),
            memory,
            steps,
            host,
            exchange,
            tables,
            bound: Vec::new(),
            uploads: 0,
            stagings: Arc::new(Stagings::new(gpu, results)),
            runs: 0,
            in_flight: VecDeque::new(),
            unique: texts.iter().map(|(source, _)| source).collect::<HashSet<_>>().len(),
            profile: Times::default(),
            poisoned: how.poisoned,
        };
        if how.captured {
            for segment in &mut program.segments {
                segment.exec = Some(build(gpu, &program.steps[segment.kernels.clone()])?);
            }
        }
        Ok(program)
    }
}

/// The kernels between what the host runs.
fn segments(host: &[crate::gpu::HostLaunch], kernels: usize) -> Vec<Segment> {
    let mut first = 0;
    let ends = host.iter().map(|host| host.before).chain([kernels]);
    ends.map(|end| Segment { kernels: std::mem::replace(&mut first, end)..end, exec: None }).collect()
}

/// Numbers of a kernel's own, on the device.
fn table(numbers: &[u32], with: Allocate<'_>) -> Result<CudaMemory> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    match with(bytes.len()) {
        Some(Memory::Cuda(memory)) => {
            memory.write(0, &bytes)?;
            Ok(memory)
        }
        _ => Err(Error::new(
            ErrorKind::Device,
            format!("no memory for {} bytes of tables on the GPU", bytes.len()),
        )
        .help("make the batch or the context smaller")),
    }
}

/// What a kernel of the plan touches.
fn touches(spans: &Spans) -> Touches {
    let place = |span: &Span| match span {
        Span::Memory(region, range) => (*region as usize, range.clone()),
        Span::Workspace(range) => (WORKSPACE, range.clone()),
    };
    let mut touches = Touches {
        reads: spans.reads.iter().map(place).collect(),
        writes: spans.writes.iter().map(place).collect(),
    };
    // Kernels that report faults need no order among themselves: the first report stays, whichever it is.
    // Those that wait for the verdict come behind the one that writes it.
    let verdict: Range<usize> = 0..4;
    if spans.decides {
        touches.writes.push((STATUS, verdict));
    } else if spans.traps || spans.gated {
        touches.reads.push((STATUS, verdict));
    }
    touches
}

/// What the kernel that hands results out reads.
fn handed_out(plan: &Plan) -> Touches {
    let range = |access: &Access| {
        let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
        (buffer.region as usize, buffer.offset..buffer.offset + buffer.bytes)
    };
    let mut reads: Vec<_> =
        plan.outputs.iter().chain(&plan.guards).map(|(_, access)| range(access)).collect();
    reads.push((STATUS, 0..4));
    reads.push((super::program::EXCHANGE, 0..4));
    Touches { reads, writes: Vec::new() }
}

/// A graph that is given back.
struct Building<'g>(&'g Gpu, super::driver::Graph);

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.0.give_back(|driver| driver.destroy_graph(self.1));
    }
}

/// Makes a graph of kernels that can be launched.
fn build(gpu: &Gpu, kernels: &[Ready]) -> Result<GraphExec> {
    let building = Building(gpu, gpu.ask("make a graph", |driver| driver.graph())?);
    let touches: Vec<Touches> = kernels.iter().map(|ready| ready.touches.clone()).collect();
    let mut nodes: Vec<Node> = Vec::with_capacity(kernels.len());
    for (ready, before) in kernels.iter().zip(edges(&touches)) {
        let before: Vec<Node> = before.into_iter().map(|i| nodes[i]).collect();
        nodes.push(gpu.add(building.1, &before, &ready.call)?);
    }
    gpu.ask("make a graph ready", |driver| driver.instantiate(building.1))
}
