//! Lowering of a plan's launches to kernels, independent of the dialect.
//!
//! In: a plan, and a [`Placement`] of operands in the memory of a dialect. Out: [`Unit`]s, those of a step in
//! order, with the guards between its phases. Parts of a group with the same computation become one kernel if
//! their operands can be addressed together. Launches that run on the host have no unit.

mod cuts;
mod row_blocks;

use crate::collective::Collective;
use crate::library::LibraryProduct;
use crate::limits::Limits;
use crate::schedule::group::{self, Form};
use crate::simt::Kernel;
use crate::simt::custom::{self, on_host};
use crate::simt::kernels::{self, Table, Views};
use crate::step::{Owner, Window, can_fail, windows};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{CollectiveOp, Graph, OpKind};
use gradloom_core::kernel::{Access, GroupSchedule, Kernel as LaunchKernel, Launch, Part, Phase, Schedule};
use gradloom_core::plan::Plan;
use std::ops::Range;

pub use cuts::Cuts;
use row_blocks::row_blocks;

/// Placement of operands in the memory of a dialect: in bindings or at addresses.
pub trait Placement {
    /// Locations of the operands and results of kernels.
    type Operands;

    /// True if an operand has a 64-bit address, to which the indices of its elements are relative; false if
    /// indices are relative to a binding.
    const HAS_ADDRESSES: bool;

    /// Returns the limits of the device.
    fn limits(&self) -> &Limits;

    /// Returns the launch cut into parts that the device can address, if it cannot address the whole.
    fn in_pieces(&self, _launch: &Launch) -> Option<Launch> {
        None
    }

    /// Places the operands of a single launch; if `shared`, in as few bindings as possible.
    fn alone(&self, launch: &Launch, shared: bool) -> Self::Operands;

    /// Returns the batches of parts that run together, as lists of indices; a part that runs alone is a batch
    /// of one.
    fn batches(&self, parts: &[Part], launch: &Launch) -> Vec<Vec<usize>>;

    /// Places the operands and results of parts that run together at common locations. Returns these
    /// locations, with the layouts of the first part, and for each part the start indices of its operands and
    /// results, in elements.
    fn together(&self, launch: &Launch, parts: &[&Part]) -> (Self::Operands, Vec<Vec<u32>>);

    /// Returns the operands and results as kernels access them.
    fn views<'o>(&self, operands: &'o Self::Operands, gated: bool) -> Views<'o>;

    /// Checks that the device can address all memory that the kernels access.
    ///
    /// # Errors
    /// Returns an error if the device cannot address some of this memory.
    fn check(&self, _operands: &Self::Operands, _kernels: &[Kernel], _launch: &Launch) -> Result<()> {
        Ok(())
    }
}

/// Kernels on the same operands, which run in sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit<O> {
    /// Part of the program to which the kernels belong.
    pub owner: Owner,
    /// Locations of the operands and results.
    pub operands: O,
    /// Kernels or a library product.
    pub work: Work,
    /// Range of the launch's scratch memory that the kernels use.
    pub scratch: Range<u64>,
}

/// Computation of a unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Generated kernels.
    Kernels(Vec<Kernel>),
    /// Product computed by a vendor library.
    Library(LibraryProduct),
    /// Collective op computed by a vendor library.
    Collective(Collective),
}

impl<O> Unit<O> {
    /// Returns the unit's kernels; the list is empty if a library computes the unit.
    pub fn kernels(&self) -> &[Kernel] {
        match &self.work {
            Work::Kernels(kernels) => kernels,
            Work::Library(_) | Work::Collective(_) => &[],
        }
    }
}

/// Plan, with the graph that it computes.
#[derive(Clone, Copy)]
pub struct Program<'p> {
    /// Plan of the launches.
    pub plan: &'p Plan,
    /// Graph that was lowered.
    pub graph: &'p Graph,
}

/// Returns the units of a plan: first those that run only once, then those of a step in order.
///
/// # Errors
/// Returns an error if the device cannot run a kernel.
pub fn units<P: Placement>(program: Program<'_>, placement: &P) -> Result<Vec<Unit<P::Operands>>> {
    let Program { plan, .. } = program;
    let all = |owner: fn(usize) -> Owner, launches: &[Launch]| -> Result<Vec<Vec<Unit<P::Operands>>>> {
        let launches = launches.iter().enumerate();
        launches.map(|(number, launch)| of_launch(launch, owner(number), program, placement)).collect()
    };
    let hoisted = all(Owner::Hoisted, &plan.hoisted)?;
    let mut step = all(Owner::Launch, &plan.launches)?;
    let traps = |unit: &Unit<P::Operands>| unit.kernels().iter().any(Kernel::traps);
    if !plan.launches.is_empty() && (can_fail(plan) || step.iter().flatten().any(traps)) {
        step.insert(plan.first_commit(), vec![guards(plan, placement)?]);
    }
    Ok(hoisted.into_iter().chain(step).flatten().collect())
}

/// Returns the units of a launch. A launch that runs on the host has none.
///
/// # Errors
/// Returns an error if the device cannot run a kernel.
pub(crate) fn of_launch<P: Placement>(
    launch: &Launch,
    owner: Owner,
    program: Program<'_>,
    placement: &P,
) -> Result<Vec<Unit<P::Operands>>> {
    if on_host(launch, program.graph).is_some() {
        return Ok(Vec::new());
    }
    if P::HAS_ADDRESSES
        && let Some(blocks) = row_blocks(launch, MOST_POSITIONS, placement.limits())
    {
        let units = blocks.iter().map(|block| of_launch(block, owner, program, placement));
        return Ok(units.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect());
    }
    // What libraries compute is not checked, because libraries use 64-bit indices.
    let by_library = matches!(launch.schedule, Schedule::Library(_))
        || matches!(launch.kernel, LaunchKernel::Op(OpKind::Collective { .. }));
    // Parts of a group may be placed at a common address, far before their first elements.
    let is_addressed = P::HAS_ADDRESSES && !matches!(launch.schedule, Schedule::Group(_));
    let end = |access: &Access| {
        let before = if is_addressed { access.layout.offset } else { 0 };
        access.layout.end().saturating_sub(before).max(access.layout.shape.elements())
    };
    if !by_library && !is_countable(&launch.kernel, &launch.reads, &launch.writes, &end) {
        let message =
            format!("{} works on more positions than a GPU counts, in 32 bits", launch.kernel.name());
        return Err(Error::new(ErrorKind::Plan, message)
            .help("make the batch, the context or the tensors smaller, or use the CPU"));
    }
    if let LaunchKernel::Op(OpKind::Collective { op, .. }) = launch.kernel {
        return collective(launch, op, owner, placement);
    }
    let cut = placement.in_pieces(launch);
    let launch = cut.as_ref().unwrap_or(launch);
    let Schedule::Group(schedule) = &launch.schedule else {
        return Ok(vec![alone(launch, 0, owner, program, placement)?]);
    };
    let parts = match &launch.kernel {
        LaunchKernel::Group(parts) => parts,
        _ => &vec![Part::whole(launch)],
    };
    let unit = |batch: Vec<usize>| match batch[..] {
        [only] if !group::is_columns(&parts[only], launch) => {
            let part = &parts[only];
            alone(&part.alone(launch), part.workspace.start, owner, program, placement)
        }
        _ => {
            let members: Vec<&Part> = batch.iter().map(|&part| &parts[part]).collect();
            together(launch, &members, schedule, owner, placement)
        }
    };
    placement.batches(parts, launch).into_iter().map(unit).collect()
}

/// Returns the unit of a launch that is not a group. `scratch` is the offset of the launch's scratch memory
/// in that of its group.
fn alone<P: Placement>(
    launch: &Launch,
    scratch: u64,
    owner: Owner,
    Program { graph, .. }: Program<'_>,
    placement: &P,
) -> Result<Unit<P::Operands>> {
    let scratch = scratch..scratch + launch.workspace;
    if let (
        LaunchKernel::Op(OpKind::Dot(axes)) | LaunchKernel::Dot { axes, .. },
        Schedule::Library(library),
    ) = (&launch.kernel, &launch.schedule)
    {
        let product = LibraryProduct::of(axes, &launch.reads, &launch.writes[0], library);
        let work = Work::Library(product.expect("it was made to fit"));
        return Ok(Unit { owner, operands: placement.alone(launch, false), work, scratch });
    }
    let (operands, kernels) = placed(launch, placement, &|views| {
        let label = launch.kernel.title();
        let custom = custom::kernels(launch, graph, views, placement.limits())?;
        let known = || kernels::kernels(&launch.kernel, &launch.schedule, views, &label);
        custom.or_else(known).ok_or_else(|| {
            let message = format!("`{}` has no kernel for GPUs", launch.kernel.name());
            graph.blame(
                &graph.ops[launch.op],
                Error::new(ErrorKind::Device, message).help("run it on the CPU"),
            )
        })
    })?;
    Ok(Unit { owner, operands, work: Work::Kernels(kernels), scratch })
}

/// Returns the units of a collective op: one for the library, and for [`CollectiveOp::CheckedAllReduce`]
/// before it one that copies the first operand to its result, where it stays.
fn collective<P: Placement>(
    launch: &Launch,
    op: CollectiveOp,
    owner: Owner,
    placement: &P,
) -> Result<Vec<Unit<P::Operands>>> {
    let (mut launch, mut units) = (launch.clone(), Vec::new());
    if op == CollectiveOp::CheckedAllReduce {
        let first = Launch {
            kernel: LaunchKernel::Copy,
            reads: vec![launch.reads[0].clone()],
            writes: vec![launch.writes[0].clone()],
            ..launch.clone()
        };
        let (operands, kernels) = placed(&first, placement, &|views| Ok(kernels::checked(views)))?;
        units.push(Unit { owner, operands, work: Work::Kernels(kernels), scratch: 0..0 });
        launch.reads[0] = launch.writes[0].clone();
    }
    let elements = |access: &Access| access.layout.shape.elements();
    let pairs = launch.reads.iter().zip(&launch.writes);
    let elements = pairs.map(|(read, write)| elements(read).min(elements(write))).collect();
    let dtypes = launch.reads.iter().map(|read| read.dtype).collect();
    let work = Work::Collective(Collective { op, elements, dtypes });
    units.push(Unit { owner, operands: placement.alone(&launch, false), work, scratch: 0..0 });
    Ok(units)
}

/// Places the operands of a launch and builds its kernels. Operands share bindings only if the check fails
/// otherwise.
fn placed<P: Placement>(
    launch: &Launch,
    placement: &P,
    make: &dyn Fn(&Views<'_>) -> Result<Vec<Kernel>>,
) -> Result<(P::Operands, Vec<Kernel>)> {
    let gated = launch.phase == Phase::Commit;
    let place = |shared: bool| {
        let operands = placement.alone(launch, shared);
        let kernels = make(&placement.views(&operands, gated))?;
        let checked = placement.check(&operands, &kernels, launch);
        Ok::<_, Error>((checked, (operands, kernels)))
    };
    match place(false)? {
        (Ok(()), made) => Ok(made),
        (Err(_), _) => {
            let (checked, made) = place(true)?;
            checked.map(|()| made)
        }
    }
}

/// Returns the unit of parts of the same class.
fn together<P: Placement>(
    launch: &Launch,
    parts: &[&Part],
    schedule: &GroupSchedule,
    owner: Owner,
    placement: &P,
) -> Result<Unit<P::Operands>> {
    let (operands, starts) = placement.together(launch, parts);
    let form = Form::of_part(parts[0]).expect("parts of a class have a form");
    let extents = |part: &&Part| group::extents(part, &launch.reads[part.reads.clone()]);
    let table = Table::new(form, parts.iter().map(extents).zip(starts), schedule);
    let views = placement.views(&operands, launch.phase == Phase::Commit);
    let kernels = kernels::together(&views, parts, &table, schedule);
    drop(views);
    placement.check(&operands, &kernels, launch)?;
    // The unit has scratch memory, through which the two kernels of a total exchange partial results.
    Ok(Unit { owner, operands, work: Work::Kernels(kernels), scratch: 0..schedule.workspace })
}

/// Returns the unit that decides whether a step commits. The plan must have launches.
///
/// # Errors
/// Returns an error if the device cannot run the kernel.
pub(crate) fn guards<P: Placement>(plan: &Plan, placement: &P) -> Result<Unit<P::Operands>> {
    let windows: Vec<Window<'_>> = windows(plan).collect();
    let guards = plan.guards.iter().map(|(_, access)| access);
    let launch = Launch {
        op: plan.launches[0].op,
        kernel: LaunchKernel::Copy,
        reads: guards.chain(windows.iter().map(|window| window.start)).cloned().collect(),
        writes: Vec::new(),
        may_alias: Vec::new(),
        schedule: Schedule::Whole,
        workspace: 0,
        phase: Phase::Compute,
    };
    let (operands, kernels) =
        placed(&launch, placement, &|views| Ok(vec![kernels::guards(views, &windows)]))?;
    Ok(Unit { owner: Owner::Guards, operands, work: Work::Kernels(kernels), scratch: 0..0 })
}

/// Maximum number of positions of a kernel, and of elements of an operand or result, for 32-bit indices. It
/// leaves a margin of 2^16, because tiles and workgroups round up.
pub(crate) const MOST_POSITIONS: usize = (u32::MAX - (1 << 16)) as usize;

/// Returns `true` if 32-bit indices suffice for the elements of a kernel's operands and results, of which
/// `end` returns the end of the indices, and for its positions.
fn is_countable(
    kernel: &LaunchKernel,
    reads: &[Access],
    writes: &[Access],
    end: &dyn Fn(&Access) -> usize,
) -> bool {
    let positions = match kernel {
        LaunchKernel::Group(parts) => parts.iter().all(|part| {
            is_countable(&part.kernel, &reads[part.reads.clone()], &writes[part.writes.clone()], end)
        }),
        other => other.body().is_none_or(|body| {
            body.rows.checked_mul(body.columns).is_some_and(|positions| positions <= MOST_POSITIONS)
        }),
    };
    positions && reads.iter().chain(writes).all(|access| end(access) <= MOST_POSITIONS)
}
