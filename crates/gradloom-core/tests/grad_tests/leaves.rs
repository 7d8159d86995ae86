//! Values of leaves.

use gradloom_core::ir::{Builder, DType, Graph, OpKind, Type, ValueId};
use gradloom_core::reference::{Evaluation, HostTensor, evaluate};
use std::collections::HashMap;

/// Values of a graph's leaves, by name.
#[derive(Clone, Default)]
pub(crate) struct Leaves(pub(crate) HashMap<String, HostTensor>);

impl Leaves {
    pub(crate) fn param(
        &mut self,
        b: &mut Builder<'_>,
        name: &str,
        shape: &[usize],
        values: &[f64],
    ) -> ValueId {
        let ty = Type::new(DType::F32, shape);
        self.0.insert(name.into(), HostTensor::from_f64(ty.clone(), values.iter().copied()));
        b.op(OpKind::Param { name: name.into(), ty }, &[])
    }

    pub(crate) fn input(&mut self, b: &mut Builder<'_>, name: &str, ty: Type, values: &[f64]) -> ValueId {
        self.0.insert(name.into(), HostTensor::from_f64(ty.clone(), values.iter().copied()));
        b.op(OpKind::Input { name: name.into(), ty }, &[])
    }

    #[track_caller]
    pub(crate) fn run(&self, graph: &Graph) -> Evaluation {
        let leaf = |kind: &OpKind| Graph::leaf_name(kind).and_then(|name| self.0.get(name)).cloned();
        evaluate(graph, &leaf).unwrap_or_else(|error| panic!("{error}\n{graph}"))
    }
}
