//! Builder for compiler stages that add ops: gradients, optimizers and rewrites.
//!
//! These stages add only well-typed ops, so a [`TypeError`](super::TypeError) is a bug in gradloom and causes
//! a panic that names the op. User input never reaches this type.

use super::{
    BinaryOp, CompareOp, DType, DotAxes, Graph, Literal, Number, OpKind, OriginId, ReduceOp, Shape, Type,
    UnaryOp, ValueId,
};

/// Adds ops with a common origin to a graph.
#[derive(Debug)]
pub struct Builder<'g> {
    /// The graph under construction.
    pub graph: &'g mut Graph,
    /// Origin of the new ops.
    pub origin: Option<OriginId>,
}

impl<'g> Builder<'g> {
    /// Creates a builder whose ops have the given origin.
    pub fn new(graph: &'g mut Graph, origin: Option<OriginId>) -> Self {
        Self { graph, origin }
    }

    /// Appends an op. Returns all its results.
    #[track_caller]
    pub fn all(&mut self, kind: OpKind, operands: &[ValueId]) -> Vec<ValueId> {
        let name = kind.name();
        match self.graph.add(kind, operands, self.origin) {
            Ok(results) => results,
            Err(error) => panic!("gradloom built an ill-typed {name}: {error}; please report this"),
        }
    }

    /// Appends an op. Returns its first result.
    #[track_caller]
    pub fn op(&mut self, kind: OpKind, operands: &[ValueId]) -> ValueId {
        self.all(kind, operands)[0]
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: ValueId) -> Type {
        self.graph.ty(value).clone()
    }

    /// Returns the shape of a value.
    pub fn shape(&self, value: ValueId) -> Shape {
        self.graph.ty(value).shape.clone()
    }

    /// Appends a constant whose elements are all `value`.
    pub fn splat(&mut self, ty: &Type, value: f64) -> ValueId {
        let data = Literal::Splat(Number::of(ty.dtype, value));
        self.op(OpKind::Constant { ty: ty.clone(), data }, &[])
    }

    /// Appends a constant of the type of `like` whose elements are all `value`.
    pub fn splat_like(&mut self, like: ValueId, value: f64) -> ValueId {
        let ty = self.ty(like);
        self.splat(&ty, value)
    }

    /// Appends a rank-0 f32 constant.
    pub fn number(&mut self, value: f64) -> ValueId {
        self.splat(&Type::scalar(DType::F32), value)
    }

    /// Returns a scalar of the per-step block, which is appended if the entry block does not contain it.
    pub fn scalar(&mut self, name: &str, dtype: DType) -> ValueId {
        let kind = OpKind::Scalar { name: name.to_string(), dtype };
        let existing = self.graph.entry_ops().find(|(_, op)| op.kind == kind).map(|(_, op)| op.results[0]);
        existing.unwrap_or_else(|| self.op(kind, &[]))
    }

    /// Appends an elementwise function of one operand.
    #[track_caller]
    pub fn unary(&mut self, op: UnaryOp, x: ValueId) -> ValueId {
        self.op(OpKind::Unary(op), &[x])
    }

    /// Appends an elementwise function of two operands of the same type.
    #[track_caller]
    pub fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        self.op(OpKind::Binary(op), &[a, b])
    }

    /// Appends `a + b`.
    #[track_caller]
    pub fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Add, a, b)
    }

    /// Appends `a - b`.
    #[track_caller]
    pub fn sub(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Sub, a, b)
    }

    /// Appends `a * b`.
    #[track_caller]
    pub fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Mul, a, b)
    }

    /// Appends `a / b`.
    #[track_caller]
    pub fn div(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Div, a, b)
    }

    /// Appends `-a`.
    #[track_caller]
    pub fn neg(&mut self, a: ValueId) -> ValueId {
        self.unary(UnaryOp::Neg, a)
    }

    /// Appends `a + value`, elementwise.
    #[track_caller]
    pub fn add_number(&mut self, a: ValueId, value: f64) -> ValueId {
        let b = self.splat_like(a, value);
        self.add(a, b)
    }

    /// Appends `a * value`, elementwise.
    #[track_caller]
    pub fn mul_number(&mut self, a: ValueId, value: f64) -> ValueId {
        let b = self.splat_like(a, value);
        self.mul(a, b)
    }

    /// Appends the elementwise comparison `a op b`, whose result is bool.
    #[track_caller]
    pub fn compare(&mut self, op: CompareOp, a: ValueId, b: ValueId) -> ValueId {
        self.op(OpKind::Compare(op), &[a, b])
    }

    /// Appends the selection of `a` where `condition` is true and of `b` elsewhere.
    #[track_caller]
    pub fn select(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> ValueId {
        self.op(OpKind::Select, &[condition, a, b])
    }

    /// Appends a cast to `dtype`. Returns `x` itself if it already has that dtype.
    pub fn cast(&mut self, x: ValueId, dtype: DType) -> ValueId {
        if self.graph.ty(x).dtype == dtype { x } else { self.op(OpKind::Cast { dtype }, &[x]) }
    }

    /// Appends a reshape to `shape`. Returns `x` itself if it already has that shape.
    #[track_caller]
    pub fn reshape(&mut self, x: ValueId, shape: impl Into<Shape>) -> ValueId {
        let shape = shape.into();
        if self.graph.ty(x).shape == shape { x } else { self.op(OpKind::Reshape { shape }, &[x]) }
    }

    /// Appends a permutation of the axes. Returns `x` itself for the identity.
    #[track_caller]
    pub fn permute(&mut self, x: ValueId, perm: &[usize]) -> ValueId {
        if perm.is_sorted() { x } else { self.op(OpKind::Permute { perm: perm.to_vec() }, &[x]) }
    }

    /// Appends NumPy broadcasting to `shape`: shapes are right-aligned, and missing leading axes and extents
    /// of 1 are repeated.
    #[track_caller]
    pub fn broadcast(&mut self, x: ValueId, shape: &Shape) -> ValueId {
        let from = self.shape(x);
        if from == *shape {
            return x;
        }
        let aligned = [vec![1; shape.rank().saturating_sub(from.rank())], from.to_vec()].concat();
        let x = self.reshape(x, aligned);
        if self.graph.ty(x).shape == *shape {
            x
        } else {
            self.op(OpKind::Broadcast { shape: shape.clone() }, &[x])
        }
    }

    /// Appends a reduction over `axes`, which are removed from the shape. Returns `x` itself if `axes` is
    /// empty.
    #[track_caller]
    pub fn reduce(&mut self, op: ReduceOp, x: ValueId, axes: &[usize]) -> ValueId {
        if axes.is_empty() { x } else { self.op(OpKind::Reduce { op, axes: axes.to_vec() }, &[x]) }
    }

    /// Appends a reduction over `axes`, which are kept with extent 1.
    #[track_caller]
    pub fn reduce_keep(&mut self, op: ReduceOp, x: ValueId, axes: &[usize]) -> ValueId {
        let kept: Vec<usize> =
            self.shape(x).iter().enumerate().map(|(a, &n)| if axes.contains(&a) { 1 } else { n }).collect();
        let reduced = self.reduce(op, x, axes);
        self.reshape(reduced, kept)
    }

    /// Appends the sum of `x` to `shape`, which is the adjoint of [`Builder::broadcast`].
    #[track_caller]
    pub fn sum_to(&mut self, x: ValueId, shape: &Shape) -> ValueId {
        let from = self.shape(x);
        let missing = from.rank() - shape.rank();
        let axes: Vec<usize> =
            (0..from.rank()).filter(|&a| a < missing || (shape[a - missing] == 1 && from[a] != 1)).collect();
        let summed = self.reduce(ReduceOp::Sum, x, &axes);
        self.reshape(summed, shape.clone())
    }

    /// Appends a generalized matrix product.
    #[track_caller]
    pub fn dot(&mut self, lhs: ValueId, rhs: ValueId, axes: DotAxes) -> ValueId {
        self.op(OpKind::Dot(axes), &[lhs, rhs])
    }
}
