//! The kernels of a plan in the order in which they run, with the memory of their bindings.
//!
//! In: a plan, and its memory. Out: for each kernel its text, the bytes of each binding, and what it is part
//! of.

use super::regions::{Regions, allocate};
use super::status::STATUS_BYTES;
use crate::memory::{Allocate, Memory};
use gradloom_codegen::wgsl::{Bound, Context, Dispatch, Operands, Shaders, guards, shaders};
use gradloom_core::error::Result;
use gradloom_core::kernel::{Access, Kernel, Launch};
use gradloom_core::plan::{Plan, Region};

/// The part of a program that a kernel belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A launch that runs once, by its number among those.
    Hoisted(usize),
    /// A launch of the step.
    Launch(usize),
    /// The shader that decides whether the step commits.
    Guards,
}

impl Part {
    #[cfg(feature = "wgpu")]
    fn launch(self, plan: &Plan) -> Option<&Launch> {
        match self {
            Self::Hoisted(i) => Some(&plan.hoisted[i]),
            Self::Launch(i) => Some(&plan.launches[i]),
            Self::Guards => None,
        }
    }

    /// An error of a kernel, with the place in the user's source that it computes.
    #[cfg(feature = "wgpu")]
    pub(crate) fn blame(
        self,
        plan: &Plan,
        graph: &gradloom_core::ir::Graph,
        error: gradloom_core::error::Error,
    ) -> gradloom_core::error::Error {
        let op = self.launch(plan).map(|launch| &graph.ops[launch.op]);
        match op.and_then(|op| Some((graph.origin(op)?, op))) {
            Some((origin, op)) => error.at(origin.clone(), op.kind.name()),
            None => error,
        }
    }
}

/// Some shaders over the same operands.
pub(crate) struct Unit {
    part: Part,
    pub(crate) shaders: Shaders,
}

/// One shader of a unit.
#[derive(Clone, Copy)]
pub(crate) struct Shader<'a> {
    pub(crate) part: Part,
    pub(crate) operands: &'a Operands,
    pub(crate) dispatch: &'a Dispatch,
}

/// The kernels of a plan: those that run once, then a step's in order, with the guards between its phases.
pub(crate) fn units(context: &Context<'_>) -> Result<Vec<Unit>> {
    let plan = context.plan;
    let of = |part: fn(usize) -> Part, number: usize, launch: &Launch| -> Result<Vec<Unit>> {
        let shaders = shaders(launch, number, context)?;
        Ok(shaders.into_iter().map(|shaders| Unit { part: part(number), shaders }).collect())
    };
    let all = |part: fn(usize) -> Part, launches: &[Launch]| -> Result<Vec<Vec<Unit>>> {
        launches.iter().enumerate().map(|(number, launch)| of(part, number, launch)).collect()
    };
    let hoisted = all(Part::Hoisted, &plan.hoisted)?;
    let mut step = all(Part::Launch, &plan.launches)?;
    if let Some(launch) = plan.launches.first()
        && decides(plan, step.iter().flatten())
    {
        let guards = Unit { part: Part::Guards, shaders: guards(launch, context)? };
        step.insert(plan.first_commit(), vec![guards]);
    }
    Ok(hoisted.into_iter().chain(step).flatten().collect())
}

impl Unit {
    pub(crate) fn shaders(&self) -> impl Iterator<Item = Shader<'_>> {
        let Self { part, shaders: Shaders { operands, dispatches } } = self;
        dispatches.iter().map(|dispatch| Shader { part: *part, operands, dispatch })
    }
}

/// Whether anything can keep a step from its commit, or from being a success.
fn decides<'a>(plan: &Plan, mut step: impl Iterator<Item = &'a Unit>) -> bool {
    let traps = |shader: Shader<'_>| shader.dispatch.bindings.contains(&Bound::Status { writable: true });
    let windows = |launch: &Launch| launch.kernel == Kernel::WriteRegion;
    !plan.guards.is_empty() || plan.launches.iter().any(windows) || step.any(|unit| unit.shaders().any(traps))
}

/// The number of the first of a step's kernels that is run in a pass of its own, because the store's values
/// from before it are results: guards that are parameters themselves. Their number if there is none.
pub(crate) fn pause(plan: &Plan, step: &[Part]) -> usize {
    let stored = |access: &Access| plan.buffers[plan.buffer_of[&access.buffer]].region == Region::Store;
    if !plan.guards.iter().any(|(_, access)| stored(access)) {
        return step.len();
    }
    let commits = |part: &Part| matches!(part, Part::Launch(launch) if *launch >= plan.first_commit());
    step.iter().position(commits).unwrap_or(step.len())
}

/// The bytes behind a binding.
pub(crate) struct Place<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) start: usize,
    /// A multiple of 4, and not 0.
    pub(crate) bytes: usize,
}

/// The tables that kernels have of their own, in memory.
pub(crate) struct Tables(Vec<Memory>);

impl Tables {
    /// Writes the tables of all kernels, in their order.
    pub(crate) fn new<'a>(shaders: impl Iterator<Item = Shader<'a>>, with: Allocate<'_>) -> Result<Self> {
        let mut all = Vec::new();
        for bound in shaders.flat_map(|shader| &shader.dispatch.bindings) {
            if let Bound::Table(numbers) = bound {
                let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                let table = allocate(with, bytes.len(), "tables")?;
                table.write(0, &bytes)?;
                all.push(table);
            }
        }
        Ok(Self(all))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Memory::len).sum()
    }

    /// The tables in order, for [`places`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Memory> {
        self.0.iter()
    }
}

/// The bytes of a kernel's bindings; takes its tables from the iterator.
pub(crate) fn places<'m>(
    shader: &Shader<'_>,
    memory: &'m Regions,
    tables: &mut impl Iterator<Item = &'m Memory>,
) -> Vec<Place<'m>> {
    let operands = shader.operands;
    let mut place = |bound: &Bound| {
        let ((memory, start), bytes) = match bound {
            Bound::Operand(i) => {
                let binding = &operands.bindings[*i];
                (memory.place(binding.region, binding.range.start), binding.range.len())
            }
            Bound::Piece(i, bytes) => {
                let binding = &operands.bindings[*i];
                let (memory, start) = memory.place(binding.region, binding.range.start);
                ((memory, start + bytes.start), bytes.len())
            }
            Bound::Workspace(range) => (memory.scratch(range.start), range.len()),
            Bound::Table(numbers) => ((tables.next().expect("each has memory"), 0), 4 * numbers.len()),
            Bound::Status { .. } => ((&**memory.status(), 0), STATUS_BYTES),
        };
        assert!(bytes > 0, "bindings are not empty");
        Place { memory, start, bytes: bytes.next_multiple_of(4) }
    };
    shader.dispatch.bindings.iter().map(&mut place).collect()
}

/// Which bindings of a shader may be written.
pub(crate) fn writable(operands: &Operands, dispatch: &Dispatch) -> Vec<bool> {
    let writable = |bound: &Bound| match bound {
        Bound::Operand(i) | Bound::Piece(i, _) => operands.bindings[*i].writable,
        Bound::Workspace(_) => true,
        Bound::Table(_) => false,
        Bound::Status { writable } => *writable,
    };
    dispatch.bindings.iter().map(writable).collect()
}
