//! Evaluation of fused kernels in float64, whose results must equal those of
//! [`evaluate`](gradloom_core::reference::evaluate).
//!
//! Kernels access memory only through their operands, so an error in fusion, such as a missing store, is
//! detected.

use gradloom_core::collections::IdMap;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::{Fused, KernelSpec};
use gradloom_core::ir::{DType, Graph, Literal, Number, OpKind, Type, ValueId};
use gradloom_core::kernel::{Access, Body, Kernel, Level, NodeId, NodeKind, Store};
use gradloom_core::reference::{Evaluation, HostTensor, Leaves, apply, finish};

/// Runs one step of a fused graph in float64.
///
/// # Errors
/// Returns the errors of ops as [`evaluate`](gradloom_core::reference::evaluate) does, and an error if a
/// kernel reads a buffer that was not written.
///
/// # Panics
/// Panics if an input, parameter or scalar has no value, or one of another type.
pub fn evaluate_fused(graph: &Graph, fused: &Fused, leaves: &Leaves<'_>) -> Result<Evaluation> {
    let mut machine = Machine { graph, buffers: IdMap::new() };
    for (_, op) in graph.entry_ops() {
        let Some(&value) = op.results.first() else { continue };
        let Some(ty) = fused.memory.buffers.get(&value) else { continue };
        let content = match &op.kind {
            kind if kind.is_external_leaf() => {
                let content = leaves(kind).unwrap_or_else(|| {
                    let OpKind::State { init, .. } = kind else { panic!("no value of a {}", kind.name()) };
                    splat(graph.ty(value), *init)
                });
                assert_eq!(content.ty, *graph.ty(value), "the type of a {}", kind.name());
                if content.ty == *ty { content } else { machine.one(&OpKind::Words, &[&content], ty)? }
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
    let mut values = IdMap::new();
    for (&value, access) in fused.memory.access.iter() {
        if machine.buffers.contains_key(&access.buffer) {
            let (content, ty) = (machine.read(access)?, graph.ty(value));
            let of_words = ty.dtype == DType::I64;
            let words = |content| machine.one(&OpKind::Words, &[&content], ty);
            values.insert(value, if of_words { words(content)? } else { content });
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
        Ok(tensor(&type_of(access), access.layout.positions().map(|at| buffer.get(at))))
    }

    fn write(&mut self, access: &Access, content: &HostTensor, fused: &Fused) {
        let ty = fused.memory.buffers[&access.buffer].clone();
        let empty = || splat(&ty, Number::of(ty.dtype, 0.0));
        let buffer = self.buffers.get_or_insert_with(access.buffer, empty);
        let mut numbers: Vec<Number> = (0..buffer.len()).map(|i| buffer.get(i)).collect();
        for (i, at) in access.layout.positions().enumerate() {
            numbers[at] = content.get(i);
        }
        *buffer = tensor(&ty, numbers.into_iter());
    }

    fn kernel(&mut self, spec: &KernelSpec, fused: &Fused) -> Result<()> {
        let reads = spec.reads.iter().map(|read| self.read(read)).collect::<Result<Vec<_>>>()?;
        let results = self.run(&spec.kernel, &reads, &spec.writes)?;
        for (access, result) in spec.writes.iter().zip(&results) {
            self.write(access, result, fused);
        }
        Ok(())
    }

    /// Returns the only result, of this type, of an op.
    fn one(&self, kind: &OpKind, x: &[&HostTensor], ty: &Type) -> Result<HostTensor> {
        Ok(apply(self.graph, kind, x, &[ty])?.remove(0))
    }

    fn run(&self, kernel: &Kernel, reads: &[HostTensor], writes: &[Access]) -> Result<Vec<HostTensor>> {
        match kernel {
            Kernel::Op(kind) => {
                let types: Vec<Type> = writes.iter().map(type_of).collect();
                apply(self.graph, kind, &reads.iter().collect::<Vec<_>>(), &types.iter().collect::<Vec<_>>())
            }
            Kernel::Loop(body) => self.body(body, None, reads, writes),
            Kernel::Dot { axes, epilogue } => {
                let whole = Type::new(DType::F32, [epilogue.rows, epilogue.columns]);
                let shape = axes.result_shape(&reads[0].ty.shape, &reads[1].ty.shape);
                let ty = Type::new(DType::F32, shape);
                let product = self.one(&OpKind::Dot(axes.clone()), &[&reads[0], &reads[1]], &ty)?;
                self.body(epilogue, Some(HostTensor { ty: whole, data: product.data }), reads, writes)
            }
            Kernel::Group(parts) => {
                let mut results = Vec::new();
                for part in parts {
                    let (reads, writes) = (&reads[part.reads.clone()], &writes[part.writes.clone()]);
                    results.extend(self.run(&part.kernel, reads, writes)?);
                }
                Ok(results)
            }
            Kernel::Attention { .. } => unreachable!("fusion makes no {} with epilogue", kernel.name()),
            Kernel::Copy | Kernel::WriteRegion => unreachable!("fusion makes no {}", kernel.name()),
        }
    }

    /// Returns the results of a body in the order of its writes.
    fn body(
        &self,
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
                NodeKind::Constant(number) => splat(&ty, *number),
                NodeKind::Load(read) => HostTensor { ty, data: reads[*read].data.clone() },
                NodeKind::Column => {
                    HostTensor::from_f64(ty, (0..body.rows * body.columns).map(|i| (i % body.columns) as f64))
                }
                NodeKind::Accumulator => product.clone().expect("only epilogues use the product"),
                NodeKind::Unary(op, a) => self.one(&OpKind::Unary(*op), &[&x(*a)], &ty)?,
                NodeKind::Binary(op, [a, b]) => self.one(&OpKind::Binary(*op), &[&x(*a), &x(*b)], &ty)?,
                NodeKind::Compare(op, [a, b]) => self.one(&OpKind::Compare(*op), &[&x(*a), &x(*b)], &ty)?,
                NodeKind::Select([c, a, b]) => self.one(&OpKind::Select, &[&x(*c), &x(*a), &x(*b)], &ty)?,
                NodeKind::Cast(a) => self.one(&OpKind::Cast { dtype: node.dtype }, &[&x(*a)], &ty)?,
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
                NodeKind::Reduce(op, a) => {
                    self.one(&OpKind::Reduce { op: *op, axes: vec![1] }, &[&nodes[a.index()]], &ty)?
                }
            };
            nodes.push(value);
        }
        let mut results: Vec<Option<HostTensor>> = vec![None; writes.len()];
        for store in &body.stores {
            let write = &writes[store.write()];
            let ty = type_of(write);
            let node = &nodes[store.node().index()];
            let value = match store {
                Store::Value { node: id, level, .. } => repeated(body, node, body.node(*id).level, *level),
                Store::ColumnReduce { op, .. } => {
                    let columns = Type::new(ty.dtype, [body.columns]);
                    self.one(&OpKind::Reduce { op: *op, axes: vec![0] }, &[node], &columns)?
                }
            };
            results[store.write()] = Some(HostTensor { ty, data: value.data });
        }
        Ok(results.into_iter().map(|result| result.expect("a body writes all results")).collect())
    }
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
    let source = |i: usize| match (from, to) {
        (Level::Uniform, _) => 0,
        (Level::Row, Level::Element) => i / body.columns,
        _ => i,
    };
    tensor(&ty, (0..ty.elements()).map(|i| x.get(source(i))))
}

fn tensor(ty: &Type, numbers: impl Iterator<Item = Number>) -> HostTensor {
    HostTensor::from_literal(ty, &Literal::Dense(numbers.collect()))
}

fn splat(ty: &Type, number: Number) -> HostTensor {
    HostTensor::from_literal(ty, &Literal::Splat(number))
}

fn type_of(access: &Access) -> Type {
    Type::new(access.dtype, access.layout.shape.clone())
}
