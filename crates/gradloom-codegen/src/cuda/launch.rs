//! A plan's launches as CUDA kernels with their parameters.
//!
//! In: a launch, and where the plan put its buffers. Out: [`CudaKernel`]s, which run one after the other. A
//! parameter is an address: of a buffer, or, where one kernel runs many parts, of the region that their
//! buffers are in.

use super::print::print;
use crate::narrow::narrow;
use crate::product::reads_vectors;
use crate::schedule::{group, schedule};
use crate::simt::kernels::{self, Table, View, Views};
use crate::simt::{Kernel, Role};
use crate::wgsl::{Choices, Limits};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::kernel::{Access, Kernel as LaunchKernel, Launch, Part, Phase};
use gradloom_core::plan::{Plan, Region};

/// A kernel of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct CudaKernel {
    /// What it computes, for people.
    pub label: String,
    /// Its function in the text.
    pub name: String,
    /// CUDA C.
    pub source: String,
    /// The function's parameters, behind which the status follows.
    pub parameters: Vec<Parameter>,
    /// Blocks.
    pub groups: usize,
    /// Threads of a block.
    pub threads: u32,
}

/// What a parameter points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A byte of a region.
    Memory(Region, usize),
    /// A byte of the scratch.
    Workspace(usize),
    /// Numbers of the kernel's own.
    Table(Vec<u32>),
}

/// What kernels are made for.
#[derive(Clone, Copy, Debug)]
pub struct Device<'d> {
    /// What it allows.
    pub limits: &'d Limits,
    /// How products and attention are computed.
    pub choices: &'d Choices,
}

/// The kernels of a plan's launch.
///
/// # Errors
/// When an op has no kernel for GPUs.
pub fn kernels(launch: &Launch, number: usize, plan: &Plan, device: Device<'_>) -> Result<Vec<CudaKernel>> {
    let parts = match &launch.kernel {
        LaunchKernel::Group(parts) => parts.clone(),
        LaunchKernel::Loop(body) if group::is_short(body, &launch.reads, &launch.writes) => {
            vec![Part::whole(launch)]
        }
        _ => return alone(launch, number, 0, plan, device),
    };
    let region = |access: &Access| plan.buffers[plan.buffer_of[&access.buffer]].region;
    let regions = |part: &Part| -> Vec<Region> {
        let accesses = launch.reads[part.reads.clone()].iter().chain(&launch.writes[part.writes.clone()]);
        accesses.map(region).collect()
    };
    let mut made = Vec::new();
    for crew in group::crews(&parts, launch, |first, part| regions(&parts[first]) == regions(&parts[part])) {
        match crew[..] {
            [only] if !group::is_columns(&parts[only], launch) => {
                let part = &parts[only];
                made.extend(alone(&part.alone(launch), number, part.workspace.start, plan, device)?);
            }
            _ => {
                let members: Vec<&Part> = crew.iter().map(|&i| &parts[i]).collect();
                made.extend(together(launch, &members, number, plan, device));
            }
        }
    }
    Ok(made)
}

/// The kernels of a launch that is no group, whose scratch starts at a byte.
fn alone(
    launch: &Launch,
    number: usize,
    scratch: usize,
    plan: &Plan,
    Device { limits, choices }: Device<'_>,
) -> Result<Vec<CudaKernel>> {
    let schedule = schedule(&launch.kernel, &launch.reads, limits, choices);
    let vectors = reads_vectors(&launch.kernel, &launch.reads);
    let view = |(i, access)| view(access, vectors.get(i).copied().unwrap_or(false));
    let views = Views {
        reads: launch.reads.iter().enumerate().map(view).collect(),
        writes: launch.writes.iter().map(|access| self::view(access, false)).collect(),
        gated: launch.phase == Phase::Commit,
        in_place: launch
            .reads
            .first()
            .zip(launch.writes.first())
            .is_some_and(|(read, write)| place(plan, read) == place(plan, write) && read.layout == write.layout),
    };
    let label = launch.kernel.title();
    let Some(kernels) = kernels::kernels(&launch.kernel, &schedule, &views, &label) else {
        return Err(Error::new(ErrorKind::Device, format!("`{}` has no GPU kernel", launch.kernel.name()))
            .help("use the CPU"));
    };
    let address = |access: &Access| {
        let (region, offset) = place(plan, access);
        Parameter::Memory(region, offset)
    };
    let parameter = |role: Role, table: &[u32]| match role {
        Role::Operand(read) => address(&launch.reads[read]),
        Role::Result(write) => address(&launch.writes[write]),
        Role::Workspace { start, .. } => Parameter::Workspace(scratch + start),
        Role::Table => Parameter::Table(table.to_vec()),
    };
    Ok(finished(&kernels, number, &parameter))
}

/// The kernels of parts of one class.
fn together(
    launch: &Launch,
    parts: &[&Part],
    number: usize,
    plan: &Plan,
    Device { limits, .. }: Device<'_>,
) -> Vec<CudaKernel> {
    let schedule = group::schedule(limits);
    let body = group::body_of(parts[0]);
    let form = group::Form::of(body).expect("parts of a class have a form");
    let accesses = |part: &Part| {
        launch.reads[part.reads.clone()].iter().chain(&launch.writes[part.writes.clone()])
    };
    // Counted from the region's start.
    let start = |access: &Access| narrow(place(plan, access).1 / 4 + access.layout.offset);
    let bodies = parts.iter().map(|part| (group::body_of(part), accesses(part).map(start).collect()));
    let table = Table::new(form, bodies, &schedule);
    let (reads, writes) = (&launch.reads[parts[0].reads.clone()], &launch.writes[parts[0].writes.clone()]);
    let views = Views {
        reads: reads.iter().map(|access| view(access, false)).collect(),
        writes: writes.iter().map(|access| view(access, false)).collect(),
        gated: launch.phase == Phase::Commit,
        in_place: false,
    };
    let short = parts.iter().all(|part| group::is_short_total(group::body_of(part), &schedule));
    let region = |access: &Access| Parameter::Memory(place(plan, access).0, 0);
    let parameter = |role: Role, table: &[u32]| match role {
        Role::Operand(read) => region(&reads[read]),
        Role::Result(write) => region(&writes[write]),
        Role::Workspace { start, .. } => Parameter::Workspace(start),
        Role::Table => Parameter::Table(table.to_vec()),
    };
    finished(&kernels::group(&views, body, &table, &schedule, short), number, &parameter)
}

fn view(access: &Access, has_vectors: bool) -> View<'_> {
    View { dtype: access.dtype, layout: &access.layout, has_vectors }
}

/// Where an access's buffer begins.
fn place(plan: &Plan, access: &Access) -> (Region, usize) {
    let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
    (buffer.region, buffer.offset)
}

fn finished(
    kernels: &[Kernel],
    number: usize,
    parameter: &dyn Fn(Role, &[u32]) -> Parameter,
) -> Vec<CudaKernel> {
    let finish = |(i, kernel): (usize, &Kernel)| {
        let name = format!("kernel_{number}_{i}");
        CudaKernel {
            label: kernel.label.clone(),
            source: print(kernel, &name, number),
            name,
            parameters: kernel.buffers.iter().map(|buffer| parameter(buffer.role, &kernel.table)).collect(),
            groups: kernel.groups,
            threads: kernel.workgroup,
        }
    };
    kernels.iter().enumerate().map(finish).collect()
}
