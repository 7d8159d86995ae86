//! A plan's launches as CUDA kernels with their parameters.
//!
//! In: a launch, and where the plan put its buffers. Out: [`CudaKernel`]s, which run one after the other. A
//! parameter is an address: of a buffer, or, where one kernel runs many parts, of the first of their buffers.

use super::library::LibraryProduct;
use super::print::print;
use crate::limits::Limits;
use crate::narrow::{elements_in, narrow};
use crate::product::{is_in_fours, reads_vectors};
use crate::schedule::group;
use crate::simt::custom::{self, on_host};
use crate::simt::kernels::{self, Table, View, Views};
use crate::simt::{Kernel, Role};
use crate::wgsl::Cuts;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DotAxes, Graph, OpKind};
use gradloom_core::kernel::{
    Access, GroupSchedule, Kernel as LaunchKernel, Launch, LibrarySchedule, Part, Phase, Schedule,
};
use gradloom_core::plan::{Plan, Region, Role as PlannedRole};
use std::ops::Range;

/// Bytes of the buffers that one address stands for, from the first to the end of the last, at most: kernels
/// count them in 32 bits.
const MOST_BYTES: u64 = u32::MAX as u64;

/// Positions from which on there are threads enough for each to take four.
const MANY: usize = 1 << 17;

/// A kernel of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct CudaKernel {
    /// What it computes, for people.
    pub label: String,
    /// How it is computed.
    pub work: Work,
    /// A function's parameters, behind which the status follows; of a library's product the left and the
    /// right operand, the result, and scratch.
    pub parameters: Vec<Parameter>,
    /// What it touches: kernels that touch the same bytes, one of them to write, keep their order.
    pub spans: Spans,
}

/// How something is computed.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// By a function of ours.
    Function {
        /// Its name in the text.
        name: String,
        /// CUDA C.
        source: String,
        /// Blocks.
        groups: usize,
        /// Threads of a block.
        threads: u32,
        /// Whether it loads something before it waits for the kernels before it.
        loads_early: bool,
    },
    /// By cuBLASLt.
    Product(LibraryProduct),
}

/// What a parameter points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A byte of a region.
    Memory(Region, u64),
    /// A byte of the scratch.
    Workspace(u64),
    /// Numbers of the kernel's own.
    Table(Vec<u32>),
    /// No byte: of an operand without elements, which no kernel looks at.
    Nothing,
}

/// What a kernel touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// What it reads.
    pub reads: Vec<Span>,
    /// What it writes, and scratch, which it also reads.
    pub writes: Vec<Span>,
    /// Whether it may report a fault in the step's status.
    pub traps: bool,
    /// Whether it writes the verdict of the step.
    pub decides: bool,
    /// Whether it looks at the step's verdict before it writes.
    pub gated: bool,
}

/// Bytes of the memory of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Of a region.
    Memory(Region, Range<u64>),
    /// Of the scratch.
    Workspace(Range<u64>),
}

impl Span {
    /// The bytes between the first and the last element of an access, if it has elements.
    pub(super) fn of(plan: &Plan, access: &Access) -> Option<Self> {
        let (region, offset) = place(plan, access);
        let range = offset + access.start()..offset + access.end();
        (!range.is_empty()).then_some(Self::Memory(region, range))
    }
}

/// The kernels of a plan's launch, whose scratch begins there; none of one that the host runs.
///
/// # Errors
/// When an op has no kernel for GPUs.
pub fn kernels(
    launch: &Launch,
    number: usize,
    scratch: u64,
    plan: &Plan,
    graph: &Graph,
    cuts: &Cuts,
) -> Result<Vec<CudaKernel>> {
    if on_host(launch, graph).is_some() {
        return Ok(Vec::new());
    }
    let Schedule::Group(schedule) = &launch.schedule else {
        return alone(launch, number, scratch..scratch + launch.workspace, plan, graph);
    };
    let parts = match &launch.kernel {
        LaunchKernel::Group(parts) => parts.clone(),
        _ => vec![Part::whole(launch)],
    };
    // One address stands for the operands of all parts: these lie in one region, as near as 32 bits count.
    let span = |access: &Access| {
        let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
        (buffer.region, buffer.offset, buffer.offset + buffer.bytes)
    };
    // Of each part, and of a batch by its first one: from where to where each operand lies.
    let mut spans: Vec<Vec<(Region, u64, u64)>> = parts
        .iter()
        .map(|Part { reads, writes, .. }| {
            launch.reads[reads.clone()].iter().chain(&launch.writes[writes.clone()]).map(span).collect()
        })
        .collect();
    // A scatter that is not in the place of its operand copies that first.
    let may_join = |part: usize| {
        let Part { kernel, reads, writes, .. } = &parts[part];
        if !matches!(kernel, LaunchKernel::Op(OpKind::Scatter { .. })) {
            return true;
        }
        let [read, write] = [&launch.reads[reads.start], &launch.writes[writes.start]];
        place(plan, read) == place(plan, write) && read.layout == write.layout
    };
    let joins = |first: usize, part: usize| {
        if !may_join(first) || !may_join(part) {
            return false;
        }
        let both = spans[first].iter().zip(&spans[part]);
        let wider: Option<Vec<_>> = both
            .map(|(&(region, start, end), &(other, from, to))| {
                let (start, end) = (start.min(from), end.max(to));
                let together = cuts.segment(region, start) == cuts.segment(region, from);
                (region == other && together && end - start <= MOST_BYTES).then_some((region, start, end))
            })
            .collect();
        let joins = wider.is_some();
        if let Some(wider) = wider {
            spans[first] = wider;
        }
        joins
    };
    let mut made = Vec::new();
    for batch in group::batches(&parts, launch, joins) {
        match batch[..] {
            [only] if !group::is_columns(&parts[only], launch) => {
                let part = &parts[only];
                let own = scratch + part.workspace.start..scratch + part.workspace.end;
                made.extend(alone(&part.alone(launch), number, own, plan, graph)?);
            }
            _ => {
                let members: Vec<&Part> = batch.iter().map(|&i| &parts[i]).collect();
                made.extend(together(launch, &members, number, scratch, plan, schedule));
            }
        }
    }
    Ok(made)
}

/// The kernels of a launch that is no group, whose scratch is these bytes.
fn alone(
    launch: &Launch,
    number: usize,
    scratch: Range<u64>,
    plan: &Plan,
    graph: &Graph,
) -> Result<Vec<CudaKernel>> {
    let vectors = reads_vectors(&launch.kernel, &launch.schedule, &launch.reads);
    let of_loop = |access| match (&launch.kernel, &launch.schedule) {
        (LaunchKernel::Loop(body), Schedule::Whole) if body.rows * body.columns < MANY => false,
        (LaunchKernel::Loop(body), _) => is_in_fours(body, access),
        #[cfg(not(target_family = "wasm"))]
        (LaunchKernel::Attention { epilogue, .. }, _) => is_in_fours(epilogue, access),
        _ => false,
    };
    let view = |(i, access)| View {
        is_early: is_early(launch, plan, access),
        ..View::of(access, of_loop(access) || vectors.get(i).copied().unwrap_or(false))
    };
    let views = Views {
        reads: launch.reads.iter().enumerate().map(view).collect(),
        writes: launch.writes.iter().map(|access| View::of(access, of_loop(access))).collect(),
        gated: launch.phase == Phase::Commit,
        in_place: launch.reads.first().zip(launch.writes.first()).is_some_and(|(read, write)| {
            place(plan, read) == place(plan, write) && read.layout == write.layout
        }),
    };
    let label = launch.kernel.title();
    if let (LaunchKernel::Op(OpKind::Dot(axes)), Schedule::Library(library)) =
        (&launch.kernel, &launch.schedule)
    {
        return Ok(vec![product(axes, library, launch, scratch, plan)]);
    }
    let custom = custom::kernels(launch, graph, &views, &Limits::cuda())?;
    let known = || kernels::kernels(&launch.kernel, &launch.schedule, &views, &label);
    let Some(kernels) = custom.or_else(known) else {
        return Err(Error::new(ErrorKind::Device, format!("`{}` has no GPU kernel", launch.kernel.name()))
            .help("use the CPU"));
    };
    let (reads, writes) = (launch.reads.iter().collect::<Vec<_>>(), launch.writes.iter().collect::<Vec<_>>());
    Ok(placed(&kernels, number, &views, plan, [&reads, &writes], &scratch))
}

/// Returns kernels whose buffers are where the plan put these operands and results, and scratch.
pub(super) fn placed(
    kernels: &[Kernel],
    number: usize,
    views: &Views<'_>,
    plan: &Plan,
    [reads, writes]: [&[&Access]; 2],
    scratch: &Range<u64>,
) -> Vec<CudaKernel> {
    let parameter = |role: Role, table: &[u32]| match role {
        Role::Operand(read) => Some(address(plan, reads[read])),
        Role::Result(write) => Some(address(plan, writes[write])),
        Role::Workspace { start, .. } => Some(Parameter::Workspace(scratch.start + start)),
        Role::Table => Some(Parameter::Table(table.to_vec())),
        Role::Status => None,
    };
    let touched = |role: Role| match role {
        Role::Operand(read) => Span::of(plan, reads[read]).into_iter().collect(),
        Role::Result(write) => Span::of(plan, writes[write]).into_iter().collect(),
        Role::Workspace { .. } => vec![Span::Workspace(scratch.clone())],
        Role::Table | Role::Status => Vec::new(),
    };
    finished(kernels, number, views, &touched, &parameter)
}

/// A product by the library.
fn product(
    axes: &DotAxes,
    schedule: &LibrarySchedule,
    launch: &Launch,
    scratch: Range<u64>,
    plan: &Plan,
) -> CudaKernel {
    let product =
        LibraryProduct::of(axes, &launch.reads, &launch.writes[0], schedule).expect("it was made to fit");
    let first = |access: &Access| {
        let (region, offset) = place(plan, access);
        Parameter::Memory(region, offset + access.start())
    };
    // It may look at zeros behind an operand, and write behind the result.
    let buffer = |access: &Access| {
        let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
        Span::Memory(buffer.region, buffer.offset..buffer.offset + buffer.bytes)
    };
    let spans = Spans {
        reads: launch.reads.iter().map(buffer).collect(),
        writes: vec![buffer(&launch.writes[0]), Span::Workspace(scratch.clone())],
        ..Spans::default()
    };
    let operands = launch.reads.iter().chain(&launch.writes).map(first);
    CudaKernel {
        label: launch.kernel.title(),
        parameters: operands.chain([Parameter::Workspace(scratch.start)]).collect(),
        work: Work::Product(product),
        spans,
    }
}

/// The kernels of parts of one class.
fn together(
    launch: &Launch,
    parts: &[&Part],
    number: usize,
    scratch: u64,
    plan: &Plan,
    schedule: &GroupSchedule,
) -> Vec<CudaKernel> {
    let form = group::Form::of_part(parts[0]).expect("parts of a class have a form");
    let accesses =
        |part: &Part| launch.reads[part.reads.clone()].iter().chain(&launch.writes[part.writes.clone()]);
    // Counted from the first part's buffer, or from the one that lies before all others.
    let first = |i: usize| {
        let offsets = parts.iter().filter_map(|part| Some(place(plan, accesses(part).nth(i)?).1));
        offsets.min().unwrap_or(0)
    };
    let firsts: Vec<u64> = (0..accesses(parts[0]).count()).map(first).collect();
    let starts = |part: &Part| {
        let start = |(i, access): (usize, &Access)| {
            narrow(elements_in(place(plan, access).1 - firsts[i], access.dtype) + access.layout.offset)
        };
        accesses(part).enumerate().map(start).collect()
    };
    let extents = |part: &Part| group::extents(part, &launch.reads[part.reads.clone()]);
    let table = Table::new(form, parts.iter().map(|part| (extents(part), starts(part))), schedule);
    let (reads, writes) = (&launch.reads[parts[0].reads.clone()], &launch.writes[parts[0].writes.clone()]);
    let vectors = match parts[0].kernel {
        LaunchKernel::Loop(_) => Vec::new(),
        _ => reads_vectors(&parts[0].kernel, &parts[0].schedule, reads),
    };
    let view = |(i, access)| View::of(access, vectors.get(i).copied().unwrap_or(false));
    let views = Views {
        reads: reads.iter().enumerate().map(view).collect(),
        writes: writes.iter().map(|access| View::of(access, false)).collect(),
        gated: launch.phase == Phase::Commit,
        in_place: false,
    };
    let address = |i: usize, access: &Access| match address(plan, access) {
        Parameter::Memory(region, _) => Parameter::Memory(region, firsts[i]),
        other => other,
    };
    let parameter = |role: Role, table: &[u32]| match role {
        Role::Operand(read) => Some(address(read, &reads[read])),
        Role::Result(write) => Some(address(reads.len() + write, &writes[write])),
        Role::Workspace { start, .. } => Some(Parameter::Workspace(scratch + start)),
        Role::Table => Some(Parameter::Table(table.to_vec())),
        Role::Status => None,
    };
    let of_all = |access: fn(&Launch, &Part, usize) -> Access, i: usize| {
        parts.iter().filter_map(|part| Span::of(plan, &access(launch, part, i))).collect()
    };
    let touched = |role: Role| match role {
        Role::Operand(read) => of_all(|launch, part, i| launch.reads[part.reads.start + i].clone(), read),
        Role::Result(write) => of_all(|launch, part, i| launch.writes[part.writes.start + i].clone(), write),
        // The first pass of each part leaves its scratch to the second.
        Role::Workspace { .. } => vec![Span::Workspace(scratch..scratch + schedule.workspace)],
        Role::Table | Role::Status => Vec::new(),
    };
    finished(&kernels::together(&views, parts, &table, schedule), number, &views, &touched, &parameter)
}

/// Whether no kernel of the step writes what is read there before the launch is done. Store and constants are
/// not written in the first phase, and no launch has an input for its result: other values may get an input's
/// bytes, but behind its last reader.
fn is_early(launch: &Launch, plan: &Plan, access: &Access) -> bool {
    let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
    let was_there =
        buffer.region != Region::Step || matches!(buffer.role, PlannedRole::Input | PlannedRole::Scalar);
    launch.phase == Phase::Compute && was_there
}

/// The address of an access's buffer.
pub(super) fn address(plan: &Plan, access: &Access) -> Parameter {
    let (region, offset) = place(plan, access);
    if access.layout.shape.elements() == 0 { Parameter::Nothing } else { Parameter::Memory(region, offset) }
}

/// Where an access's buffer begins.
fn place(plan: &Plan, access: &Access) -> (Region, u64) {
    let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
    (buffer.region, buffer.offset)
}

fn finished(
    kernels: &[Kernel],
    number: usize,
    views: &Views<'_>,
    touched: &dyn Fn(Role) -> Vec<Span>,
    parameter: &dyn Fn(Role, &[u32]) -> Option<Parameter>,
) -> Vec<CudaKernel> {
    let is_early = |role: Role| matches!(role, Role::Operand(read) if views.reads[read].is_early);
    let finish = |kernel: &Kernel| {
        let name = function_name(&kernel.label);
        let mut spans = Spans { traps: kernel.traps(), gated: kernel.is_gated(), ..Spans::default() };
        for (i, buffer) in kernel.buffers.iter().enumerate() {
            let is_written = kernel.stores_to(i);
            spans.decides |= is_written && buffer.role == Role::Status;
            let list = if is_written { &mut spans.writes } else { &mut spans.reads };
            list.extend(touched(buffer.role));
        }
        let (source, loads_early) = print(kernel, &name, number, &is_early);
        CudaKernel {
            label: kernel.label.clone(),
            parameters: kernel
                .buffers
                .iter()
                .filter_map(|buffer| parameter(buffer.role, &kernel.table))
                .collect(),
            spans,
            work: Work::Function {
                source,
                name,
                groups: kernel.groups,
                threads: kernel.workgroup,
                loads_early,
            },
        }
    };
    kernels.iter().map(finish).collect()
}

/// A function's name from what it computes, for profilers: equal kernels have equal texts.
fn function_name(label: &str) -> String {
    let words = label.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = String::from("k");
    for word in words {
        if name.len() + word.len() > 60 {
            break;
        }
        name.push('_');
        name.push_str(word);
    }
    name
}
