//! The name and attributes of each primitive. Attributes that follow from the types of operands and results
//! are not printed.

use super::literal::{number, write_literal};
use super::{Printer, quote};
use crate::ir::{AttentionSpec, DotAxes, Graph, OpKind};
use std::fmt::{self, Display};

impl Printer<'_> {
    /// The op's name and what stands right after it.
    pub(super) fn head(&self, f: &mut impl fmt::Write, kind: &OpKind) -> fmt::Result {
        f.write_str(kind.name())?;
        if let Some(name) = Graph::leaf_name(kind) {
            write!(f, " {}", quote(name))?;
        }
        if let Some(block) = kind.block() {
            write!(f, " {}", self.block_name(block))?;
        }
        match kind {
            OpKind::Constant { ty, data } => {
                f.write_char(' ')?;
                write_literal(f, ty, data, self.elide)
            }
            OpKind::Custom(id) => match self.graph.customs.get(*id) {
                Some(custom) => write!(f, " {}", quote(custom.name())),
                None => write!(f, " ?{id}"),
            },
            _ => Ok(()),
        }
    }
}

fn list(values: &[usize]) -> String {
    format!("[{}]", values.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}

fn assign(name: &str, value: impl Display) -> String {
    format!("{name}={value}")
}

/// Attributes in the order in which they are printed: `name=value`, or the name of a flag that is set.
pub(super) fn attributes(kind: &OpKind) -> Vec<String> {
    match kind {
        OpKind::Input { .. }
        | OpKind::Param { .. }
        | OpKind::Scalar { .. }
        | OpKind::Constant { .. }
        | OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Select
        | OpKind::Cast { .. }
        | OpKind::Reshape { .. }
        | OpKind::Broadcast { .. }
        | OpKind::DynamicSlice { .. }
        | OpKind::DynamicUpdateSlice
        | OpKind::Checkpoint { .. }
        | OpKind::Barrier
        | OpKind::Custom(_) => Vec::new(),
        OpKind::State { init, .. } => vec![assign("init", number(*init))],
        OpKind::Iota { axis, .. } | OpKind::ArgReduce { axis, .. } | OpKind::Concat { axis } => {
            vec![assign("axis", axis)]
        }
        OpKind::RandomBits { site, .. } => vec![assign("site", site)],
        OpKind::Reduce { axes, .. } => vec![assign("axes", list(axes))],
        OpKind::Permute { perm } => vec![assign("perm", list(perm))],
        OpKind::Slice { start, limit, step } => {
            vec![assign("start", list(start)), assign("limit", list(limit)), assign("step", list(step))]
        }
        OpKind::Pad { low, high, interior, value } => vec![
            assign("low", list(low)),
            assign("high", list(high)),
            assign("interior", list(interior)),
            assign("value", number(*value)),
        ],
        OpKind::Dot(axes) => dot(axes),
        OpKind::Gather { batch } | OpKind::ScatterAdd { batch } => vec![assign("batch", batch)],
        OpKind::Attention(spec) | OpKind::AttentionGrad(spec) => attention(spec),
        OpKind::Repeat { trip, carried, .. } => vec![assign("trip", trip), assign("carried", carried)],
    }
}

/// Empty lists are left out.
fn dot(axes: &DotAxes) -> Vec<String> {
    let lists = [
        ("lhs_batch", &axes.lhs_batch),
        ("rhs_batch", &axes.rhs_batch),
        ("lhs_contract", &axes.lhs_contract),
        ("rhs_contract", &axes.rhs_contract),
    ];
    lists.iter().filter(|(_, axes)| !axes.is_empty()).map(|(name, axes)| assign(name, list(axes))).collect()
}

fn attention(spec: &AttentionSpec) -> Vec<String> {
    let flags = [
        ("causal", spec.causal),
        ("query_offset", spec.query_offset),
        ("key_length", spec.key_length),
        ("block_table", spec.block_table),
    ];
    let set = flags.iter().filter(|(_, set)| *set).map(|(name, _)| (*name).to_string());
    std::iter::once(assign("scale", super::literal::float(spec.scale))).chain(set).collect()
}
