//! Kernels of whole ops, for all GPUs: one kernel, or several that run in sequence.
//!
//! In: the op, and the dtypes and layouts of its operands and results ([`Views`]). Out: [`Kernel`]s; none if
//! there are no elements. Invariants: if the views are gated, an invocation writes results only if the step
//! may commit; positions and indices fit in 32 bits, which the caller has checked.

mod arg_reduce;
mod attention;
mod body;
mod collective;
mod columns;
mod cumulate;
mod dequantize;
mod each;
mod gather;
mod group;
mod guards;
mod key;
mod map;
mod movement;
mod product;
mod random;
mod rows;
mod scatter;
mod sort;

pub(crate) use attention::attention;
pub(crate) use collective::checked;
pub use group::Table;
pub use guards::guards;
pub(crate) use product::product;

use super::ir::{Kernel, Role};
use super::{Builder, Value, index_at};
use crate::product::{DotProblem, fold_batch};
use crate::schedule::group::{body_of, is_short_total};
use gradloom_core::ir::{DType, DotAxes, OpKind};
use gradloom_core::kernel::{self, Access, Body, GroupSchedule, Layout, Part, Schedule};

/// Number of invocations of a workgroup.
pub(crate) const WORKGROUP: u32 = 256;

/// Operand or result of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Dtype of the elements.
    pub dtype: DType,
    /// Layout of the elements in the buffer.
    pub layout: &'a Layout,
    /// True if four adjacent elements, from a multiple of four on, can be accessed as a vector.
    pub has_vectors: bool,
    /// True if the operand should be loaded before the preceding kernels, which do not write it, have
    /// completed; this applies to devices that can start kernels early.
    pub is_early: bool,
}

impl<'a> View<'a> {
    /// Creates the view of a launch's operand or result.
    pub fn of(access: &'a Access, has_vectors: bool) -> Self {
        Self { dtype: access.dtype, layout: &access.layout, has_vectors, is_early: false }
    }
}

/// Operands and results of a kernel, and its constraints.
#[derive(Clone, Debug)]
pub struct Views<'a> {
    /// Operands.
    pub reads: Vec<View<'a>>,
    /// Results.
    pub writes: Vec<View<'a>>,
    /// True if results are written only if the step may commit.
    pub gated: bool,
    /// True if the first result aliases the first operand, element by element.
    pub in_place: bool,
}

/// Returns the kernels of a launch; `None` if this module does not implement its kind.
pub fn kernels(
    kernel: &kernel::Kernel,
    schedule: &Schedule,
    views: &Views<'_>,
    label: &str,
) -> Option<Vec<Kernel>> {
    let op = match kernel {
        kernel::Kernel::Loop(body) => {
            return match schedule {
                Schedule::Rows(schedule) => Some(rows::rows(views, body, schedule, label)),
                Schedule::Whole => Some(map::map(views, body, label)),
                _ => None,
            };
        }
        kernel::Kernel::Copy => return Some(movement::copy(views, label)),
        kernel::Kernel::WriteRegion => return Some(movement::write_region(views, label)),
        kernel::Kernel::Dot { axes, epilogue } => {
            return product_of(views, schedule, axes, Some(epilogue), label);
        }
        kernel::Kernel::Attention { epilogue, .. } => match schedule {
            Schedule::Attention(schedule) => {
                return Some(attention::followed(views, schedule, epilogue, label));
            }
            _ => return None,
        },
        kernel::Kernel::Op(op) => op,
        // The parts of a group are lowered one by one, or together in [`together`].
        kernel::Kernel::Group(_) => return None,
    };
    Some(match op {
        OpKind::Concat { axis } => movement::concat(views, *axis),
        OpKind::Pad { low, interior, value, .. } => movement::pad(views, low, interior, *value),
        OpKind::Dequantize { format } => dequantize::dequantize(views, *format),
        OpKind::DynamicSlice { .. } => movement::dynamic_slice(views),
        OpKind::DynamicUpdateSlice => movement::dynamic_update_slice(views),
        OpKind::RandomBits { site, ones, .. } => random::random_bits(views, *site, *ones),
        OpKind::ArgReduce { op, axis } => arg_reduce::arg_reduce(views, schedule, (*op, *axis), label),
        OpKind::Cumulate { op, reverse } => cumulate::cumulate(views, schedule, *op, *reverse),
        OpKind::Sort { descending, .. } => match schedule {
            Schedule::Sort(schedule) => sort::sort(views, schedule, *descending),
            _ => return None,
        },
        OpKind::Scatter { op, batch } => match schedule {
            Schedule::Scatter(schedule) => scatter::scatter(views, schedule, *op, *batch),
            _ => return None,
        },
        OpKind::Attention(_) | OpKind::AttentionGrad(_) => match schedule {
            Schedule::Attention(schedule) => attention(views, schedule),
            _ => return None,
        },
        OpKind::Dot(axes) => return product_of(views, schedule, axes, None, label),
        OpKind::Gather { batch } => gather::gather(views, *batch),
        // User-defined ops are implemented in [`super::custom`], collective ops by a library.
        OpKind::Custom(_) | OpKind::Collective { .. } => return None,
        // Fusion converts these ops to loops.
        OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Select
        | OpKind::Cast { .. }
        | OpKind::Reduce { .. } => return None,
        // These ops are never launched: leaves, views, and ops that passes expand.
        OpKind::Input { .. }
        | OpKind::Param { .. }
        | OpKind::State { .. }
        | OpKind::Scalar { .. }
        | OpKind::Constant { .. }
        | OpKind::Iota { .. }
        | OpKind::Reshape { .. }
        | OpKind::Permute { .. }
        | OpKind::Broadcast { .. }
        | OpKind::Slice { .. }
        | OpKind::Repeat { .. }
        | OpKind::Checkpoint { .. }
        | OpKind::Composite(_)
        | OpKind::Conv(_)
        | OpKind::Windows { .. }
        | OpKind::Words
        | OpKind::Barrier => return None,
    })
}

fn product_of(
    views: &Views<'_>,
    schedule: &Schedule,
    axes: &DotAxes,
    epilogue: Option<&Body>,
    label: &str,
) -> Option<Vec<Kernel>> {
    let Schedule::Product(schedule) = schedule else { return None };
    let problem = DotProblem::new(axes, views.reads[0].layout, views.reads[1].layout)?;
    Some(product::product(views, &fold_batch(problem), schedule, epilogue, label, None))
}

/// Returns the kernels of parts of the same class. `views` are those of the first part; the table contains
/// the start indices of each part's operands.
///
/// # Panics
/// Panics if the parts cannot be merged.
pub fn together(views: &Views<'_>, parts: &[&Part], table: &Table, schedule: &GroupSchedule) -> Vec<Kernel> {
    match (&parts[0].kernel, &parts[0].schedule) {
        (kernel::Kernel::Op(OpKind::Dot(axes)), Schedule::Product(schedule)) => {
            let problem = DotProblem::new(axes, views.reads[0].layout, views.reads[1].layout);
            let problem = fold_batch(problem.expect("it has a schedule"));
            let label = table.label(&parts[0].kernel.title());
            product::product(views, &problem, schedule, None, &label, Some(table))
        }
        (kernel::Kernel::Op(OpKind::Scatter { batch, .. }), _) => scatter::scatters(views, *batch, table),
        _ => {
            let short = parts.iter().all(|part| is_short_total(body_of(part), schedule));
            group::group(views, body_of(parts[0]), table, schedule, short)
        }
    }
}

impl Views<'_> {
    /// Returns the condition under which results are written; `None` if they are always written.
    fn gate<'k>(&self, k: &'k Builder) -> Option<Value<'k>> {
        self.gated.then(|| k.committed())
    }

    /// Loads the element of an operand at a row-major position.
    fn load<'k>(&self, k: &'k Builder, read: usize, position: Value<'k>) -> Value<'k> {
        let View { dtype, layout, .. } = self.reads[read];
        k.load(k.buffer(Role::Operand(read), dtype), index_at(k, layout, position))
    }

    /// Writes the element of the only result at a row-major position.
    fn store<'k>(&self, k: &'k Builder, position: Value<'k>, value: Value<'k>) {
        let View { dtype, layout, .. } = self.writes[0];
        k.store(k.buffer(Role::Result(0), dtype), index_at(k, layout, position), value);
    }

    /// Returns the number of elements of the only result.
    fn elements(&self) -> usize {
        self.writes[0].layout.shape.elements()
    }
}
