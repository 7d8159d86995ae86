//! The result of lowering: launches and the location of each value's elements.

use super::{Access, Launch, Layout};
use crate::collections::IdMap;
use crate::ir::{Graph, Id, OpKind, Type, ValueId};

/// A graph lowered for one target.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Launches in a valid execution order. All are in the compute phase until the plan assigns their phases.
    pub launches: Vec<Launch>,
    /// Buffer and layout of each value of the entry block.
    pub access: IdMap<ValueId, Access>,
    /// Type of the buffer of each value that owns one. The buffer of a constant may have fewer elements than
    /// the constant.
    pub buffers: IdMap<ValueId, Type>,
    next: usize,
}

impl Lowered {
    /// Creates the buffers of a graph's leaves and constants, without launches.
    pub fn leaves(graph: &Graph) -> Self {
        let mut lowered = Self {
            launches: Vec::new(),
            access: IdMap::new(),
            buffers: IdMap::new(),
            next: graph.values.len(),
        };
        for (_, op) in graph.entry_ops() {
            let Some(&value) = op.results.first() else { continue };
            let ty = &graph.ty(value).in_words();
            match &op.kind {
                OpKind::Constant { data: crate::ir::Literal::Splat(_), .. } => {
                    let one = Type::new(ty.dtype, [1]);
                    lowered.own(value, one, Layout::splat(&ty.shape));
                }
                OpKind::Iota { axis, .. } => {
                    let strides = (0..ty.shape.rank()).map(|a| usize::from(a == *axis)).collect();
                    let layout = Layout::new(0, ty.shape.clone(), strides);
                    lowered.own(value, Type::new(ty.dtype, [ty.shape[*axis]]), layout);
                }
                kind if kind.is_external_leaf() || matches!(kind, OpKind::Constant { .. }) => {
                    lowered.own(value, ty.clone(), Layout::contiguous(&ty.shape));
                }
                _ => {}
            }
        }
        lowered
    }

    /// Allocates a buffer for a value.
    pub fn own(&mut self, value: ValueId, ty: Type, layout: Layout) -> Access {
        let access = Access { buffer: value, dtype: ty.dtype, layout, blocks: None };
        self.buffers.insert(value, ty);
        self.access.insert(value, access.clone());
        access
    }

    /// Allocates a contiguous buffer for a temporary that is not a value of the graph.
    pub fn temporary(&mut self, ty: Type) -> Access {
        let value = ValueId::from_index(self.next);
        self.next += 1;
        let layout = Layout::contiguous(&ty.shape);
        self.own(value, ty, layout)
    }
}
