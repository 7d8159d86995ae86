//! Lowering to WGSL: what a launch is as compute shaders.
//!
//! In: a graph's kernels, and later their plan. Out: launches whose scratch is known ([`lower`]), and the
//! shaders of each ([`shaders`]). Shapes are baked into the text, offsets are not, but where several values
//! share a binding: equal layers share pipelines. Always holds: a result is a function of the operands, the
//! shapes, the [`Limits`] and the [`Choices`] alone; there are no atomic sums.

mod alone;
pub mod attention;
mod batching;
mod constructors;
mod dispatch;
mod expression;
mod functions;
mod group;
mod guards;
mod operands;
mod pieces;
mod print;
mod product;
mod shader_builder;
mod units;

pub use crate::limits::Limits;
use dispatch::checked;
pub use dispatch::{Bound, Context, Dispatch, Shaders};
pub use guards::guards;
/// Kernels that can be computed in several ways, with the shaders that measure one.
pub mod tuning {
    pub use super::alone::{Alone, alone};
    pub use crate::schedule::tuning::{Choice, Choices, Precision, Problem, candidates, from_line, to_line};
}

pub use crate::lower::gpu::{FUSION, lower, lower_fused, problems};
pub use crate::schedule::tuning::{Choices, Precision};
pub use operands::{Binding, Cuts, Element, Operand, Operands, Shared};
#[cfg(test)]
pub(crate) use product::alone as alone_product;
pub use units::{Shader, Unit, units, writable};

use crate::schedule::group as grouped;
use crate::simt;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{Access, Kernel, Launch, Part, Phase, Schedule};
use shader_builder::ShaderBuilder;

/// The shaders of a plan's launch. Those of the commit write nothing if the step's status says so.
///
/// # Errors
/// When the kernel cannot run on an adapter with these limits.
pub fn shaders(launch: &Launch, number: usize, context: &Context<'_>) -> Result<Vec<Shaders>> {
    // Where addresses have 32 bits, nothing is larger.
    if usize::BITS > 32 && !is_countable(&launch.kernel, &launch.reads, &launch.writes) {
        let message =
            format!("{} works on more positions than a GPU counts, in 32 bits", launch.kernel.name());
        return Err(Error::new(ErrorKind::Plan, message)
            .help("make the batch, the context or the tensors smaller, or use the CPU"));
    }
    let cut = pieces::in_pieces(launch, context.limits);
    let launch = cut.as_ref().unwrap_or(launch);
    let Schedule::Group(schedule) = &launch.schedule else { return Ok(vec![one(launch, number, context)?]) };
    let parts = match &launch.kernel {
        Kernel::Group(parts) => parts,
        _ => &vec![Part::whole(launch)],
    };
    let batch = |members: Vec<usize>| match members[..] {
        [only] if !grouped::is_columns(&parts[only], launch) => alone(launch, &parts[only], number, context),
        _ => {
            let members: Vec<&Part> = members.iter().map(|&i| &parts[i]).collect();
            group::together(launch, &members, schedule, number, context)
        }
    };
    batching::batches(parts, launch, context).into_iter().map(batch).collect()
}

/// Whether 32 bits can count all that a kernel works on: elements of its operands and results, and positions
/// in between. Some thousand more are left for what tiles and workgroups round up.
fn is_countable(kernel: &Kernel, reads: &[Access], writes: &[Access]) -> bool {
    const MOST: usize = u32::MAX as usize - (1 << 16);
    let ends = |access: &Access| access.layout.end() <= MOST && access.layout.shape.elements() <= MOST;
    let positions = match kernel {
        Kernel::Group(parts) => parts
            .iter()
            .all(|part| is_countable(&part.kernel, &reads[part.reads.clone()], &writes[part.writes.clone()])),
        other => other.body().is_none_or(|body| {
            body.rows.checked_mul(body.columns).is_some_and(|positions| positions <= MOST)
        }),
    };
    positions && reads.iter().chain(writes).all(ends)
}

/// The shaders of a part as a launch of its own.
fn alone(launch: &Launch, part: &Part, number: usize, context: &Context<'_>) -> Result<Shaders> {
    let mut shaders = one(&part.alone(launch), number, context)?;
    for bound in shaders.dispatches.iter_mut().flat_map(|dispatch| &mut dispatch.bindings) {
        if let Bound::Workspace(bytes) = bound {
            *bytes = bytes.start + part.workspace.start..bytes.end + part.workspace.start;
        }
    }
    Ok(shaders)
}

/// The shaders of a launch that is no group. Values that would be too many bindings share some.
fn one(launch: &Launch, number: usize, context: &Context<'_>) -> Result<Shaders> {
    let apart = bound(launch, number, context, Shared::Nothing)?;
    match checked(apart, launch, context) {
        Ok(apart) => Ok(apart),
        Err(_) => checked(bound(launch, number, context, Shared::Segment)?, launch, context),
    }
}

fn bound(launch: &Launch, number: usize, context: &Context<'_>, shared: Shared) -> Result<Shaders> {
    let Context { graph, limits, .. } = *context;
    let mut operands = Operands::new(launch, context, shared);
    if let Kernel::Dot { axes, .. } | Kernel::Op(OpKind::Dot(axes)) = &launch.kernel {
        product::vectorise(&mut operands, axes, limits);
    } else {
        product::vectorise_rows(&mut operands, launch);
    }
    let gated = launch.phase == Phase::Commit;
    let source = || ShaderBuilder::new(&operands, limits, gated, number);
    let label = launch.kernel.title();
    let views = operands.views(gated);
    let custom = simt::custom::kernels(launch, graph, &views, limits)?;
    let known = || simt::kernels::kernels(&launch.kernel, &launch.schedule, &views, &label);
    if let Some(kernels) = custom.or_else(known) {
        let dispatches = kernels.iter().map(|kernel| print::print(kernel, source())).collect();
        return Ok(Shaders { operands, dispatches });
    }
    let op = &graph.ops[launch.op];
    let message = format!("`{}` has no kernel for GPUs", launch.kernel.name());
    let error = Error::new(ErrorKind::Device, message).help("run it on the CPU");
    Err(match graph.origin(op) {
        Some(origin) => error.at(origin.clone(), op.kind.name()),
        None => error,
    })
}
