//! Ops that run a block, and a custom op.

use super::{Instance, any_shape, floats};
use crate::random::Random;
use gradloom_core::ir::{
    Builder, CustomOp, DType, Graph, OpKind, Slice, SliceMut, Type, TypeError, UnaryOp, ValueId,
};
use gradloom_core::reference::HostTensor;
use std::sync::Arc;

/// Builds a block with the cursor inside it, then restores the cursor.
fn block(
    graph: &mut Graph,
    params: &[Type],
    body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Vec<ValueId>,
) -> gradloom_core::ir::BlockId {
    let block = graph.add_block(params);
    let values = graph.blocks[block].params.clone();
    let cursor = std::mem::replace(&mut graph.cursor, block);
    let results = body(&mut Builder::new(graph, None), &values);
    graph.cursor = cursor;
    graph.blocks[block].results = results;
    block
}

/// Draws a loop with two carried values, one of which is passed through (or swapped with the other), and with
/// one stacked operand and one stacked result.
pub(super) fn repeat(r: &mut Random, graph: &mut Graph) -> Instance {
    let (shape, trip, swap) = (any_shape(r), r.below(4), r.below(2) == 0);
    let ty = Type::new(DType::F32, shape.clone());
    let body = block(graph, &[ty.clone(), ty.clone(), ty], |b, x| {
        let sin = b.unary(UnaryOp::Sin, x[0]);
        let step = b.mul(sin, x[2]);
        let next = b.add(x[1], step);
        let seen = b.mul(next, x[0]);
        if swap { vec![x[1], next, seen] } else { vec![next, x[1], seen] }
    });
    let stacked = [&[trip], &shape[..]].concat();
    let operands = vec![floats(r, &shape), floats(r, &shape), floats(r, &stacked)];
    Instance { kind: OpKind::Repeat { block: body, trip, carried: 2 }, operands }
}

/// Draws a block that uses one of its results again, passes a parameter through, and returns one value twice.
pub(super) fn checkpoint(r: &mut Random, graph: &mut Graph) -> Instance {
    let shape = any_shape(r);
    let ty = Type::new(DType::F32, shape.clone());
    let inner = block(graph, std::slice::from_ref(&ty), |b, x| vec![b.unary(UnaryOp::Tanh, x[0])]);
    let outer = block(graph, &[ty.clone(), ty], |b, x| {
        let y = b.op(OpKind::Checkpoint { block: inner }, &[x[0]]);
        let z = b.mul(y, x[1]);
        vec![y, x[1], z, z]
    });
    let operands = vec![floats(r, &shape), floats(r, &shape)];
    Instance { kind: OpKind::Checkpoint { block: outer }, operands }
}

/// `a · a · b`, with a custom gradient.
#[derive(Debug)]
struct SquareTimes;

impl CustomOp for SquareTimes {
    fn name(&self) -> &str {
        "square_times"
    }
    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        match operands {
            [a, b] if a == b => Ok(vec![a.clone()]),
            _ => Err(TypeError::new("square_times takes two tensors of one type")),
        }
    }
    fn gradient(
        &self,
        b: &mut Builder<'_>,
        x: &[ValueId],
        _: &[ValueId],
        cotangents: &[Option<ValueId>],
    ) -> Option<Vec<Option<ValueId>>> {
        let g = cotangents[0]?;
        let product = b.mul(x[0], x[1]);
        let slope = b.mul_number(product, 2.0);
        let square = b.mul(x[0], x[0]);
        Some(vec![Some(b.mul(g, slope)), Some(b.mul(g, square))])
    }
    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        let (a, b) = (operands[0].to_f64(), operands[1].to_f64());
        let values = a.iter().zip(b).map(|(a, b)| a * a * b);
        Ok(vec![HostTensor::from_f64(operands[0].ty.clone(), values)])
    }
    fn run_on_host(&self, operands: &[Slice<'_>], results: &mut [SliceMut<'_>]) -> Result<(), String> {
        let ([Slice::F32(a), Slice::F32(b)], [SliceMut::F32(y)]) = (operands, results) else {
            return Err("square_times takes two f32 tensors".into());
        };
        for ((y, a), b) in y.iter_mut().zip(*a).zip(*b) {
            *y = a * a * b;
        }
        Ok(())
    }
}

pub(super) fn custom(r: &mut Random, graph: &mut Graph) -> Instance {
    graph.customs.push(Arc::new(SquareTimes));
    let shape = any_shape(r);
    Instance {
        kind: OpKind::Custom(graph.customs.len() - 1),
        operands: vec![floats(r, &shape), floats(r, &shape)],
    }
}
