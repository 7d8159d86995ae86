//! Evaluation of fused kernels in float64, whose results must equal those of [`evaluate`](super::evaluate).
//!
//! Kernels access memory only through their operands, so an error in fusion, such as a missing store, is
//! detected.

use super::evaluate::{Memory, finish, leaf_value};
use super::{Evaluation, HostTensor, Leaves, elementwise, indices, matmul, movement, op, reduce};
use crate::collections::IdMap;
use crate::error::{Error, ErrorKind, Result};
use crate::fuse::{Fused, KernelSpec};
use crate::ir::{DType, Graph, Number, Op, OpId, OpKind, Type, ValueId};
use crate::kernel::{Access, Body, Kernel, Level, NodeId, NodeKind, Store};

/// Runs one step of a fused graph in float64.
///
/// # Errors
/// Returns the same errors as [`evaluate`](super::evaluate), and an error if a kernel reads a buffer that was
/// not written.
pub fn evaluate_fused(graph: &Graph, fused: &Fused, leaves: &Leaves<'_>) -> Result<Evaluation> {
    let mut machine = Machine { graph, buffers: IdMap::new() };
    for (_, op) in graph.entry_ops() {
        let Some(&value) = op.results.first() else { continue };
        let Some(ty) = fused.memory.buffers.get(&value) else { continue };
        let content = match &op.kind {
            kind if kind.is_external_leaf() => {
                let content = leaf_value(kind, graph.ty(value), leaves)?;
                if content.ty == *ty { content } else { movement::words(&content, ty) }
            }
            OpKind::Constant { data, .. } => HostTensor::from_literal(ty, data),
            OpKind::Iota { .. } => HostTensor::from_f64(ty.clone(), (0..ty.elements()).map(|i| i as f64)),
            _ => continue,
        };
        machine.buffers.insert(value, content);
    }
    for spec in &fused.kernels {
        machine.kernel(spec, fused)?;
    }
    let mut values: Memory = IdMap::new();
    for (&value, access) in fused.memory.access.iter() {
        if machine.buffers.contains_key(&access.buffer) {
            let (content, ty) = (machine.read(access)?, graph.ty(value));
            let of_words = ty.dtype == DType::I64;
            values.insert(value, if of_words { movement::words(&content, ty) } else { content });
        }
    }
    finish(graph, values)
}

struct Machine<'g> {
    graph: &'g Graph,
    buffers: IdMap<ValueId, HostTensor>,
}

impl Machine<'_> {
    fn read(&self, access: &Access) -> Result<HostTensor> {
        let Some(buffer) = self.buffers.get(&access.buffer) else {
            let message = format!("a kernel reads {}, which nothing wrote", access.buffer);
            return Err(Error::new(ErrorKind::Verify, message));
        };
        let ty = Type::new(access.dtype, access.layout.shape.clone());
        Ok(movement::strided(buffer, &ty, access.layout.offset, &access.layout.strides))
    }

    fn write(&mut self, access: &Access, content: &HostTensor, fused: &Fused) {
        let ty = fused.memory.buffers[&access.buffer].clone();
        let empty = || HostTensor::from_f64(ty.clone(), std::iter::repeat_n(0.0, ty.elements()));
        let buffer = self.buffers.get_or_insert_with(access.buffer, empty);
        let mut numbers: Vec<Number> = (0..buffer.len()).map(|i| buffer.get(i)).collect();
        let mut next = 0;
        indices::each_index(&access.layout.shape, &mut |index| {
            numbers[access.layout.offset + indices::position(index, &access.layout.strides)] =
                content.get(next);
            next += 1;
        });
        *buffer = HostTensor::from_numbers(ty, numbers);
    }

    fn kernel(&mut self, spec: &KernelSpec, fused: &Fused) -> Result<()> {
        let reads = spec.reads.iter().map(|read| self.read(read)).collect::<Result<Vec<_>>>()?;
        let results = self.run(&spec.kernel, spec.op, &reads, &spec.writes)?;
        for (access, result) in spec.writes.iter().zip(&results) {
            self.write(access, result, fused);
        }
        Ok(())
    }

    fn run(
        &self,
        kernel: &Kernel,
        id: OpId,
        reads: &[HostTensor],
        writes: &[Access],
    ) -> Result<Vec<HostTensor>> {
        let ty = |access: &Access| Type::new(access.dtype, access.layout.shape.clone());
        match kernel {
            Kernel::Op(OpKind::Dot(axes)) => {
                Ok(vec![matmul::dot(axes, &reads[0], &reads[1], &ty(&writes[0]))])
            }
            Kernel::Op(OpKind::Reshape { .. }) => {
                Ok(vec![HostTensor { ty: ty(&writes[0]), data: reads[0].data.clone() }])
            }
            Kernel::Op(kind) => {
                let op = Op { kind: kind.clone(), ..self.graph.ops[id].clone() };
                op::apply(self.graph, &op, &reads.iter().collect::<Vec<_>>())
            }
            Kernel::Loop(body) => run_body(body, None, reads, writes),
            Kernel::Dot { axes, epilogue } => {
                let whole = Type::new(DType::F32, [epilogue.rows, epilogue.columns]);
                let product = matmul::dot(axes, &reads[0], &reads[1], &dot_type(axes, reads));
                run_body(epilogue, Some(HostTensor { ty: whole, data: product.data }), reads, writes)
            }
            Kernel::Group(parts) => {
                let mut results = Vec::new();
                for part in parts {
                    let (reads, writes) = (&reads[part.reads.clone()], &writes[part.writes.clone()]);
                    results.extend(self.run(&part.kernel, id, reads, writes)?);
                }
                Ok(results)
            }
            Kernel::Attention { .. } => unreachable!("fusion makes no {} with epilogue", kernel.name()),
            Kernel::Copy | Kernel::WriteRegion => unreachable!("fusion makes no {}", kernel.name()),
        }
    }
}

fn dot_type(axes: &crate::ir::DotAxes, reads: &[HostTensor]) -> Type {
    use crate::ir::DotAxes;
    let extents = |x: &HostTensor, list: &[usize]| list.iter().map(|&a| x.ty.shape[a]).collect::<Vec<_>>();
    let (l, r) = (&reads[0], &reads[1]);
    let left = DotAxes::free(l.ty.shape.rank(), &axes.lhs_batch, &axes.lhs_contract);
    let right = DotAxes::free(r.ty.shape.rank(), &axes.rhs_batch, &axes.rhs_contract);
    Type::new(DType::F32, [extents(l, &axes.lhs_batch), extents(l, &left), extents(r, &right)].concat())
}

/// Returns the results of a body in the order of its writes.
fn run_body(
    body: &Body,
    product: Option<HostTensor>,
    reads: &[HostTensor],
    writes: &[Access],
) -> Result<Vec<HostTensor>> {
    body.check().map_err(|message| Error::new(ErrorKind::Verify, message))?;
    let mut nodes: Vec<HostTensor> = Vec::with_capacity(body.nodes.len());
    for node in &body.nodes {
        let ty = Type::new(node.dtype, extents(body, node.level));
        let x = |id: NodeId| repeated(body, &nodes[id.index()], body.node(id).level, node.level);
        let value = match &node.kind {
            NodeKind::Constant(number) => HostTensor::from_numbers(ty, [*number]),
            NodeKind::Load(read) => HostTensor { ty, data: reads[*read].data.clone() },
            NodeKind::Column => {
                HostTensor::from_f64(ty, (0..body.rows * body.columns).map(|i| (i % body.columns) as f64))
            }
            NodeKind::Accumulator => product.clone().expect("only epilogues use the product"),
            NodeKind::Unary(op, a) => elementwise::unary(*op, &x(*a)),
            NodeKind::Binary(op, [a, b]) => elementwise::binary(*op, &x(*a), &x(*b))?,
            NodeKind::Compare(op, [a, b]) => elementwise::compare(*op, &x(*a), &x(*b)),
            NodeKind::Select([c, a, b]) => elementwise::select(&x(*c), &x(*a), &x(*b)),
            NodeKind::Cast(a) => elementwise::cast(&x(*a), node.dtype)?,
            NodeKind::Repeat(a) => x(*a),
            NodeKind::CheckIndex { index, extent } => {
                let index = x(*index);
                if let Some(outside) = index.to_f64().iter().find(|&&i| i < 0.0 || i >= *extent as f64) {
                    return Err(Error::new(
                        ErrorKind::Trap,
                        format!("index {outside} is not in 0..{extent}"),
                    ));
                }
                index
            }
            NodeKind::CheckDivisor(divisor) => {
                let divisor = x(*divisor);
                if divisor.to_f64().contains(&0.0) {
                    return Err(Error::new(ErrorKind::Trap, "an integer was divided by zero"));
                }
                divisor
            }
            NodeKind::Reduce(op, a) => reduce::reduce(*op, &[1], &nodes[a.index()], &ty),
        };
        nodes.push(value);
    }
    let mut results: Vec<Option<HostTensor>> = vec![None; writes.len()];
    for store in &body.stores {
        let write = &writes[store.write()];
        let ty = Type::new(write.dtype, write.layout.shape.clone());
        let node = &nodes[store.node().index()];
        let value = match store {
            Store::Value { node: id, level, .. } => repeated(body, node, body.node(*id).level, *level),
            Store::ColumnReduce { op, .. } => {
                reduce::reduce(*op, &[0], node, &Type::new(ty.dtype, [body.columns]))
            }
        };
        results[store.write()] = Some(HostTensor { ty, data: value.data });
    }
    Ok(results.into_iter().map(|result| result.expect("a body writes all results")).collect())
}

fn extents(body: &Body, level: Level) -> Vec<usize> {
    match level {
        Level::Uniform => vec![],
        Level::Row => vec![body.rows],
        Level::Element => vec![body.rows, body.columns],
    }
}

fn repeated(body: &Body, x: &HostTensor, from: Level, to: Level) -> HostTensor {
    let ty = Type::new(x.ty.dtype, extents(body, to));
    let stride = match (from, to) {
        (Level::Uniform, _) => vec![0; ty.shape.rank()],
        (Level::Row, Level::Element) => vec![1, 0],
        _ => ty.shape.strides(),
    };
    movement::strided(x, &ty, 0, &stride)
}
