//! Type inference for every primitive: result types from operand types, or an error that suggests valid
//! operands.

use super::{
    AttentionSpec, BinaryFraction, BlockFormat, BlockId, DType, DotAxes, Graph, Literal, Number, OpKind,
    ScatterOp, Shape, Type, TypeError, ValueId, Window,
};
use crate::collections::sort;

type Result<T> = std::result::Result<T, TypeError>;

fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(TypeError::new(message))
}

/// Returns the result types of `kind` applied to `operands`.
///
/// # Errors
/// Returns an error if the number or the types of the operands are invalid.
pub fn infer(graph: &Graph, kind: &OpKind, operands: &[ValueId]) -> Result<Vec<Type>> {
    let types: Vec<&Type> = operands.iter().map(|&v| graph.ty(v)).collect();
    if let OpKind::Custom(id) = kind {
        let Some(custom) = graph.customs.get(*id) else {
            return fail(format!("custom op {id} is not registered"));
        };
        let name = custom.name();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
            return Err(TypeError::new(format!("a custom op has the name \"{name}\""))
                .help("a name has letters, digits, `_` and `.`"));
        }
        let owned: Vec<Type> = types.into_iter().cloned().collect();
        let results = custom.infer(&owned)?;
        if owned.iter().chain(&results).any(|ty| ty.dtype == DType::I64) {
            let message = format!("the custom op `{}` does not take or give i64 elements", custom.name());
            return Err(TypeError::new(message).help("convert with .cast(DType::I32)"));
        }
        return Ok(results);
    }
    if let Some(expected) = arity(kind).filter(|&expected| types.len() != expected) {
        return fail(format!("{} takes {expected} operands, got {}", kind.name(), types.len()));
    }
    one_or_many(graph, kind, &types)
}

/// Returns the number of operands, or `None` if it varies.
fn arity(kind: &OpKind) -> Option<usize> {
    Some(match kind {
        k if k.is_external_leaf() => 0,
        OpKind::Constant { .. } | OpKind::Iota { .. } => 0,
        OpKind::RandomBits { .. } | OpKind::Select | OpKind::Scatter { .. } => 3,
        OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Dot(_)
        | OpKind::Conv(_)
        | OpKind::Gather { .. }
        | OpKind::Barrier => 2,
        OpKind::Attention(spec) => 3 + spec.extra_operands(),
        OpKind::AttentionGrad(spec) => 6 + spec.extra_operands(),
        OpKind::Concat { .. }
        | OpKind::DynamicSlice { .. }
        | OpKind::DynamicUpdateSlice
        | OpKind::Collective { .. }
        | OpKind::Repeat { .. }
        | OpKind::Checkpoint { .. }
        | OpKind::Custom(_) => return None,
        _ => 1,
    })
}

fn one_or_many(graph: &Graph, kind: &OpKind, t: &[&Type]) -> Result<Vec<Type>> {
    let name = kind.name();
    if let Some(dtype) = t.iter().map(|ty| ty.dtype).find(|dtype| dtype.is_for_memory())
        && !kind.moves_elements()
    {
        return Err(TypeError::new(format!("{name} does not take {dtype} elements"))
            .help(format!("convert with .cast(DType::{:?})", dtype.computed())));
    }
    let one = |ty: Type| Ok(vec![ty]);
    match kind {
        OpKind::Input { ty, .. } | OpKind::Param { ty, .. } => one(ty.clone()),
        OpKind::State { ty, init, whole, .. } => {
            if !init.fits(ty.dtype) {
                return fail(format!("the initial value {init} does not fit a state of dtype {}", ty.dtype));
            }
            let all = whole.iter().try_fold(1_usize, |all, &extent| all.checked_mul(extent));
            let own = ty.shape.elements();
            let is_shard = ty.shape.rank() == 1 && own > 0 && all.is_some_and(|all| all.is_multiple_of(own));
            if !whole.is_empty() && !is_shard {
                return fail(format!("{ty} is not one of equal, flat parts of {whole:?}"));
            }
            one(ty.clone())
        }
        OpKind::Scalar { name, dtype } if dtype.bytes() != 4 => {
            Err(TypeError::new(format!("the scalar \"{name}\" is {dtype}: the per-step block holds numbers"))
                .help("declare it as u32 and compare it with 0, or make it an input"))
        }
        OpKind::Scalar { dtype, .. } => one(Type::scalar(*dtype)),
        OpKind::Constant { ty, data } => {
            constant(ty, data)?;
            one(ty.clone())
        }
        OpKind::Iota { ty, axis } => {
            axis_in_range(name, *axis, ty)?;
            if ty.dtype == DType::Bool || ty.dtype.is_for_memory() {
                return Err(TypeError::new(format!("iota of {}", ty.dtype))
                    .help("it counts in f32, i32 or u32; convert the result with .cast(..)"));
            }
            one(ty.clone())
        }
        OpKind::RandomBits { shape, ones, .. } => {
            if !ones.is_valid() {
                let BinaryFraction { parts, digits } = ones;
                let (least, most) = ("an odd number below 2^digits", BinaryFraction::MAX_DIGITS);
                return fail(format!(
                    "random_bits with ones={parts}, digits={digits}: ones is {least}, digits is 1 to {most}"
                ));
            }
            if t.iter().any(|ty| **ty != Type::scalar(DType::U32)) {
                return fail("random_bits takes three u32 scalars: seed_lo, seed_hi and step");
            }
            one(Type::new(DType::U32, shape.clone()))
        }
        OpKind::Unary(op) => {
            if !op.accepts(t[0].dtype) {
                return refuses(name, t[0].dtype, |dtype| op.accepts(dtype));
            }
            one(t[0].clone())
        }
        OpKind::Composite(_) => {
            if t[0].dtype != DType::F32 {
                return Err(TypeError::new(format!("{name} does not take {} elements", t[0].dtype))
                    .help("convert with .cast(DType::F32)"));
            }
            one(t[0].clone())
        }
        OpKind::Binary(op) => {
            same_type(name, t[0], t[1])?;
            if !op.accepts(t[0].dtype) {
                return refuses(name, t[0].dtype, |dtype| op.accepts(dtype));
            }
            one(t[0].clone())
        }
        OpKind::Compare(_) => {
            same_type(name, t[0], t[1])?;
            one(Type::new(DType::Bool, t[0].shape.clone()))
        }
        OpKind::Select => {
            if t[0].dtype != DType::Bool {
                return Err(TypeError::new(format!("select: the condition is {}, not bool", t[0].dtype))
                    .help("make it with a comparison, such as x.gt(0.0)"));
            }
            same_type(name, t[1], t[2])?;
            if t[0].shape != t[1].shape {
                return fail(format!(
                    "select: condition {} and branches {} differ in shape",
                    t[0].shape, t[1].shape
                ));
            }
            one(t[1].clone())
        }
        OpKind::Cast { dtype } if !t[0].dtype.casts_to(*dtype) => {
            let of = t[0].dtype;
            let way = if of.is_for_memory() { of.computed() } else { dtype.computed() };
            fail(format!("cast of {of} to {dtype}: it is converted by way of {way}"))
        }
        OpKind::Cast { dtype } => one(Type::new(*dtype, t[0].shape.clone())),
        OpKind::Dequantize { format } => dequantized(*format, t[0]).and_then(one),
        OpKind::Reduce { axes, .. } => {
            distinct_axes(name, axes, t[0])?;
            if t[0].dtype == DType::Bool {
                return no_bools(name);
            }
            one(Type::new(t[0].dtype, t[0].shape.without(axes)))
        }
        OpKind::ArgReduce { axis, .. } => {
            axis_in_range(name, *axis, t[0])?;
            if t[0].dtype == DType::Bool {
                return no_bools(name);
            }
            if t[0].shape[*axis] == 0 {
                return Err(TypeError::new(format!(
                    "{name} over axis {axis} of {}: there is no element to choose",
                    t[0].shape
                ))
                .help("the axis must have an element"));
            }
            one(Type::new(DType::I32, t[0].shape.without(&[*axis])))
        }
        OpKind::Cumulate { .. } => rows_of_numbers(name, t[0]).map(|_| vec![t[0].clone()]),
        OpKind::Sort { count, .. } => {
            let extent = rows_of_numbers(name, t[0])?;
            if *count > extent {
                return fail(format!("{name}: cannot choose {count} of {extent} elements"));
            }
            let mut shape = t[0].shape.to_vec();
            *shape.last_mut().expect("its rank is at least 1") = *count;
            Ok(vec![Type::new(t[0].dtype, shape.clone()), Type::new(DType::I32, shape)])
        }
        OpKind::Reshape { shape } => {
            if shape.elements() != t[0].elements() {
                return fail(format!(
                    "cannot reshape {} ({} elements) to {shape} ({} elements)",
                    t[0].shape,
                    t[0].elements(),
                    shape.elements()
                ));
            }
            one(Type::new(t[0].dtype, shape.clone()))
        }
        OpKind::Permute { perm } => {
            let mut sorted = perm.clone();
            sort(&mut sorted);
            if sorted != (0..t[0].shape.rank()).collect::<Vec<_>>() {
                return fail(format!("{perm:?} is not an order of the axes of {}", t[0].shape));
            }
            one(Type::new(t[0].dtype, perm.iter().map(|&a| t[0].shape[a]).collect::<Vec<_>>()))
        }
        OpKind::Broadcast { shape } => {
            let fits = shape.rank() == t[0].shape.rank()
                && t[0].shape.iter().zip(shape.iter()).all(|(&from, &to)| from == to || from == 1);
            if !fits {
                return fail(format!("cannot broadcast {} to {shape}", t[0].shape));
            }
            one(Type::new(t[0].dtype, shape.clone()))
        }
        OpKind::Slice { start, limit, step } => slice(t[0], start, limit, step).and_then(one),
        OpKind::Windows { size, step, dilation } => windows(t[0], size, step, dilation).and_then(one),
        OpKind::Conv(spec) => {
            if t.iter().any(|ty| ty.dtype != DType::F32) {
                return Err(TypeError::new(format!("conv of {} with weights {}", t[0], t[1]))
                    .help("both are f32: convert with .cast(DType::F32)"));
            }
            one(Type::new(DType::F32, spec.result_shape(&t[0].shape, &t[1].shape)?))
        }
        OpKind::Pad { low, high, interior, value } => {
            let rank = t[0].shape.rank();
            if [low, high, interior].iter().any(|v| v.len() != rank) {
                return fail(format!("pad needs an amount for each of the {rank} axes of {}", t[0].shape));
            }
            if !value.fits(t[0].dtype) {
                return fail(format!("pad: {value} is not a {} element", t[0].dtype));
            }
            let extent = |a: usize| {
                let n = t[0].shape[a];
                low[a] + high[a] + n + n.saturating_sub(1) * interior[a]
            };
            one(Type::new(t[0].dtype, (0..rank).map(extent).collect::<Vec<_>>()))
        }
        OpKind::Concat { axis } => concat(t, *axis).and_then(one),
        OpKind::Words => match (t[0].dtype, &t[0].shape[..]) {
            (DType::I64, _) => one(t[0].in_words()),
            (DType::I32, [extents @ .., 2]) => one(Type::new(DType::I64, extents)),
            _ => fail(format!("words takes i64 elements, or i32 with a last axis of two, not {}", t[0])),
        },
        OpKind::DynamicSlice { sizes } => {
            if t.is_empty() {
                return fail("dynamic_slice takes a tensor and a start for each axis");
            }
            starts(name, t[0], &t[1..])?;
            window_fits(name, t[0], sizes)?;
            one(Type::new(t[0].dtype, sizes.clone()))
        }
        OpKind::DynamicUpdateSlice => {
            if t.len() < 2 {
                return fail("dynamic_update_slice takes a tensor, an update and a start for each axis");
            }
            starts(name, t[0], &t[2..])?;
            same_dtype(name, t[0], t[1])?;
            window_fits(name, t[0], &t[1].shape)?;
            one(t[0].clone())
        }
        OpKind::Dot(axes) => dot(axes, t[0], t[1]).and_then(one),
        OpKind::Gather { batch } => {
            let rows = indexed(name, t[0], t[1], *batch)?;
            one(Type::new(t[0].dtype, rows))
        }
        OpKind::Scatter { op, batch } => {
            let rows = indexed(name, t[0], t[1], *batch)?;
            if *t[2] != Type::new(t[0].dtype, rows.clone()) {
                let message = format!("{name} to {} of updates {} at indices {}", t[0], t[2], t[1].shape);
                return Err(TypeError::new(message).help(format!("the updates are {}{rows}", t[0].dtype)));
            }
            if *op == ScatterOp::Add && t[0].dtype == DType::Bool {
                return no_bools(name);
            }
            one(t[0].clone())
        }
        OpKind::Attention(spec) => attention(spec, t),
        OpKind::AttentionGrad(spec) => {
            if spec.block_table {
                return fail("attention over a block table has no gradient");
            }
            let n = 3 + spec.extra_operands();
            let forward = attention(spec, &t[..n])?;
            if *t[n] != forward[0] || *t[n + 1] != forward[1] || *t[n + 2] != forward[0] {
                return fail(
                    "attention_grad: the last three operands must be the results and the output's cotangent",
                );
            }
            Ok(vec![t[0].clone(), t[1].clone(), t[2].clone()])
        }
        OpKind::Collective { op, ranks, .. } => t.iter().map(|ty| op.result(*ranks, ty)).collect(),
        OpKind::Repeat { block, trip, carried } => repeat(graph, *block, *trip, *carried, t),
        OpKind::Checkpoint { block } => {
            block_params(graph, name, *block, t.iter().map(|ty| (*ty).clone()))?;
            Ok(graph.blocks[*block].results.iter().map(|&v| graph.ty(v).clone()).collect())
        }
        OpKind::Barrier => one(t[0].clone()),
        OpKind::Custom(_) => unreachable!("handled by infer"),
    }
}

fn constant(ty: &Type, data: &Literal) -> Result<()> {
    let bad = match data {
        Literal::Splat(n) => (!n.fits(ty.dtype)).then_some(*n),
        Literal::Dense(values) => {
            if values.len() != ty.elements() {
                return fail(format!(
                    "a constant of type {ty} needs {} elements, got {}",
                    ty.elements(),
                    values.len()
                ));
            }
            values.iter().copied().find(|n| !n.fits(ty.dtype))
        }
    };
    match bad {
        Some(Number::Int(v)) => fail(format!("{v} does not fit a constant of dtype {}", ty.dtype)),
        Some(n) => fail(format!("{n} is not a {} element", ty.dtype)),
        None => Ok(()),
    }
}

/// Returns a suggested cast for two operands of different dtypes. Never suggests a cast that truncates
/// fractions.
pub(crate) fn cast_help(a: DType, b: DType) -> String {
    let common = if a.is_float() || b.is_float() { DType::F32 } else { a };
    format!("convert one side with .cast(DType::{common:?})")
}

fn same_dtype(name: &str, a: &Type, b: &Type) -> Result<()> {
    if a.dtype == b.dtype {
        return Ok(());
    }
    Err(TypeError::new(format!("{name} of {a} and {b}: the dtypes differ")).help(cast_help(a.dtype, b.dtype)))
}

fn same_type(name: &str, a: &Type, b: &Type) -> Result<()> {
    same_dtype(name, a, b)?;
    if a.shape != b.shape {
        return fail(format!("{name} of {} and {}: the shapes differ", a.shape, b.shape));
    }
    Ok(())
}

/// Returns the error of an elementwise op for an unsupported dtype, listing the supported dtypes.
fn refuses<T>(name: &str, dtype: DType, takes: impl Fn(DType) -> bool) -> Result<T> {
    let taken: Vec<DType> = DType::COMPUTED.into_iter().filter(|&dtype| takes(dtype)).collect();
    let names: Vec<&str> = taken.iter().map(|dtype| dtype.name()).collect();
    let message = format!("{name} does not take {dtype} elements");
    Err(TypeError::new(message).help(match &taken[..] {
        [first, ..] => format!("it takes {}: convert with .cast(DType::{first:?})", names.join(", ")),
        [] => "it takes no elements at all".to_string(),
    }))
}

fn no_bools<T>(name: &str) -> Result<T> {
    Err(TypeError::new(format!("{name} does not take bool elements"))
        .help("convert with .cast(DType::F32) or .cast(DType::I32)"))
}

fn axis_in_range(name: &str, axis: usize, ty: &Type) -> Result<()> {
    if axis < ty.shape.rank() {
        return Ok(());
    }
    fail(format!("{name}: axis {axis} is out of range for {} (rank {})", ty.shape, ty.shape.rank()))
}

/// Returns the extent of the last axis of a numeric operand.
fn rows_of_numbers(name: &str, ty: &Type) -> Result<usize> {
    if ty.dtype == DType::Bool {
        return no_bools(name);
    }
    match ty.shape.last() {
        Some(&extent) if i32::try_from(extent).is_ok() => Ok(extent),
        Some(&extent) => fail(format!("{name} takes rows of fewer than 2^31 elements, not of {extent}")),
        None => fail(format!("{name} needs an axis, and the operand is a scalar")),
    }
}

fn distinct_axes(name: &str, axes: &[usize], ty: &Type) -> Result<()> {
    for &axis in axes {
        axis_in_range(name, axis, ty)?;
    }
    if !axes.is_sorted_by(|a, b| a < b) {
        return fail(format!("{name}: axes {axes:?} must ascend and not repeat"));
    }
    Ok(())
}

fn slice(x: &Type, start: &[usize], limit: &[usize], step: &[usize]) -> Result<Type> {
    let rank = x.shape.rank();
    if start.len() != rank || limit.len() != rank || step.len() != rank {
        return fail(format!("slice needs start, limit and step for each of the {rank} axes of {}", x.shape));
    }
    let mut extents = Vec::with_capacity(rank);
    for a in 0..rank {
        if start[a] > limit[a] || limit[a] > x.shape[a] || step[a] == 0 {
            return fail(format!(
                "slice {}..{} step {} does not fit axis {a} of {}",
                start[a], limit[a], step[a], x.shape
            ));
        }
        extents.push((limit[a] - start[a]).div_ceil(step[a]));
    }
    Ok(Type::new(x.dtype, extents))
}

fn dequantized(format: BlockFormat, blocks: &Type) -> Result<Type> {
    let bytes = format.block_bytes();
    let Some((&row, others)) = blocks.shape.split_last().filter(|_| blocks.dtype == DType::U8) else {
        return Err(TypeError::new(format!("dequantize takes u8 blocks, [.., bytes], not {blocks}"))
            .help(format!("declare it as u8, with {bytes} bytes for 32 elements of {format}")));
    };
    let Some(elements) = format.elements_of(row) else {
        let message = format!("dequantize of {blocks}: rows of {row} bytes are not whole blocks of {format}");
        return Err(TypeError::new(message).help(format!("a row has {bytes} bytes for 32 elements")));
    };
    Ok(Type::new(DType::F32, [others, &[elements]].concat()))
}

fn concat(t: &[&Type], axis: usize) -> Result<Type> {
    let Some(first) = t.first() else { return fail("concat needs at least one operand") };
    axis_in_range("concat", axis, first)?;
    let mut extents = first.shape.to_vec();
    for other in &t[1..] {
        same_dtype("concat", first, other)?;
        let rest = |s: &Shape| s.without(&[axis]);
        if other.shape.rank() != first.shape.rank() || rest(&other.shape) != rest(&first.shape) {
            return fail(format!(
                "concat along axis {axis} of {} and {}: the other axes differ",
                first.shape, other.shape
            ));
        }
        extents[axis] += other.shape[axis];
    }
    Ok(Type::new(first.dtype, extents))
}

fn starts(name: &str, x: &Type, starts: &[&Type]) -> Result<()> {
    if starts.len() != x.shape.rank() || starts.iter().any(|s| **s != Type::scalar(DType::I32)) {
        let given: Vec<String> = starts.iter().map(|ty| ty.to_string()).collect();
        return Err(TypeError::new(format!("{name} of {} at starts [{}]", x.shape, given.join(", ")))
            .help("starts are i32 scalars, i32[], one for each axis"));
    }
    Ok(())
}

fn window_fits(name: &str, x: &Type, sizes: &[usize]) -> Result<()> {
    if sizes.len() == x.shape.rank() && sizes.iter().zip(x.shape.iter()).all(|(s, n)| s <= n) {
        return Ok(());
    }
    Err(TypeError::new(format!("{name}: a window of {} does not fit into {}", Shape::from(sizes), x.shape))
        .help("a window has an extent for each axis, none larger than the tensor's"))
}

fn indexed(name: &str, x: &Type, index: &Type, batch: usize) -> Result<Shape> {
    if index.dtype != DType::I32 {
        return Err(TypeError::new(format!("{name}: indices are {}, not i32", index.dtype))
            .help("declare the input with i32(..) or i64(..), or convert with .cast(DType::I32)"));
    }
    if x.shape.rank() <= batch || index.shape.rank() < batch || x.shape[..batch] != index.shape[..batch] {
        let message = format!("{name} with {batch} batch axes: {} and {} do not agree", x.shape, index.shape);
        return Err(TypeError::new(message).help("rows are numbered along the first axis after those"));
    }
    Ok([&index.shape[..], &x.shape[batch + 1..]].concat().into())
}

fn dot(axes: &DotAxes, a: &Type, b: &Type) -> Result<Type> {
    if a.dtype != DType::F32 || b.dtype != DType::F32 {
        return Err(TypeError::new(format!("dot of {a} and {b}: only f32 is multiplied"))
            .help("convert with .cast(DType::F32)"));
    }
    let used = |batch: &[usize], contract: &[usize], ty: &Type| -> Result<()> {
        let mut all = [batch, contract].concat();
        sort(&mut all);
        distinct_axes("dot", &all, ty)
    };
    used(&axes.lhs_batch, &axes.lhs_contract, a)?;
    used(&axes.rhs_batch, &axes.rhs_contract, b)?;
    let agree = |l: &[usize], r: &[usize]| {
        l.len() == r.len() && l.iter().zip(r).all(|(&i, &j)| a.shape[i] == b.shape[j])
    };
    if !agree(&axes.lhs_batch, &axes.rhs_batch) || !agree(&axes.lhs_contract, &axes.rhs_contract) {
        return fail(format!(
            "dot of {} and {}: batch axes {:?}x{:?} and contracted axes {:?}x{:?} must pair equal extents",
            a.shape, b.shape, axes.lhs_batch, axes.rhs_batch, axes.lhs_contract, axes.rhs_contract
        ));
    }
    Ok(Type::new(DType::F32, axes.result_shape(&a.shape, &b.shape)))
}

fn windows(x: &Type, size: &[usize], step: &[usize], dilation: &[usize]) -> Result<Type> {
    let (rank, axes) = (x.shape.rank(), size.len());
    if axes > rank || step.len() != axes || dilation.len() != axes {
        return fail(format!("windows over {axes} axes of {x}, with {} steps", step.len()));
    }
    let mut extents = x.shape.to_vec();
    for (i, &size) in size.iter().enumerate() {
        let (axis, window) = (rank - axes + i, Window { size, step: step[i], dilation: dilation[i] });
        let Some(count) = window.count(x.shape[axis]) else {
            return fail(format!(
                "windows of {size} elements, {} apart, every {}, do not fit axis {axis} of {x}",
                window.dilation, window.step
            ));
        };
        extents[axis] = count;
    }
    extents.extend(size);
    Ok(Type::new(x.dtype, extents))
}

fn attention(spec: &AttentionSpec, t: &[&Type]) -> Result<Vec<Type>> {
    let (q, k, v) = (t[0], t[1], t[2]);
    let wrong = |message: String, help: &str| Err(TypeError::new(message).help(help));
    let of = || format!("attention of q {q}, k {k} and v {v}");
    if [q, k, v].iter().any(|ty| ty.dtype != DType::F32 || ty.shape.rank() != 4) {
        return wrong(of(), "all three are f32, [batch, heads, length, depth]");
    }
    let [offset, length, table, kept] = spec.extra_positions();
    if let Some(window) = spec.window {
        let most = AttentionSpec::MAX_WINDOW;
        let keys =
            table.map_or(1, |table| t[table].shape.get(1).copied().unwrap_or(0)).saturating_mul(k.shape[2]);
        if !(1..=most).contains(&window) || q.shape[2].max(keys) > most as usize {
            let help = format!("a window has 1 to {most} positions, and as many queries and keys");
            return wrong(format!("{} with a window of {window} positions", of()), &help);
        }
    }
    for position in [offset, length].into_iter().flatten() {
        let (ty, batch) = (t[position], q.shape[0]);
        if ty.dtype != DType::I32 || ty.shape.rank() > 1 || ty.shape.rank() == 1 && ty.shape[0] != batch {
            let help = "query_offset and key_length are one i32, or one for each sequence, [batch]";
            return wrong(format!("attention of q {} with an offset or length {ty}", q.shape), help);
        }
    }
    if let Some(position) = table {
        let ty = t[position];
        if ty.dtype != DType::I32 || ty.shape.rank() != 2 || ty.shape[0] != q.shape[0] {
            let help = "the block table is i32, [batch, blocks]";
            return wrong(format!("attention of q {} with the block table {ty}", q.shape), help);
        }
    } else if q.shape[0] != k.shape[0] {
        return wrong(of(), "q and k have the same batch");
    }
    if k.shape[..3] != v.shape[..3] {
        return wrong(of(), "k and v have the same batch, heads and length");
    }
    if q.shape[3] != k.shape[3] {
        return wrong(of(), "q and k have the same depth, the last axis");
    }
    if k.shape[1] == 0 || !q.shape[1].is_multiple_of(k.shape[1]) {
        return Err(TypeError::new(format!(
            "attention: {} query heads over {} key/value heads",
            q.shape[1], k.shape[1]
        ))
        .help("the number of query heads must be a multiple of the number of key/value heads"));
    }
    let lead = &q.shape[..3];
    if let Some(position) = kept {
        let (ty, words) = (t[position], k.shape[2].div_ceil(32));
        if table.is_some() || ty.dtype != DType::U32 || ty.shape[..] != [lead, &[words]].concat() {
            let help = "the kept keys are u32, [batch, heads, queries, words], a bit for each key, without a \
                        block table";
            return wrong(format!("{} with the kept keys {ty}", of()), help);
        }
        if !spec.dropout.is_some_and(f64::is_finite) {
            return wrong(
                format!("{} with a factor of dropout that is not finite", of()),
                "it is 1 / (1 - p)",
            );
        }
    }
    Ok(vec![Type::new(DType::F32, [lead, &[v.shape[3]]].concat()), Type::new(DType::F32, lead)])
}

fn block_params(graph: &Graph, name: &str, block: BlockId, types: impl Iterator<Item = Type>) -> Result<()> {
    let Some(body) = graph.blocks.get(block) else { return fail(format!("{name}: no block {block}")) };
    let params: Vec<_> = body.params.iter().map(|&v| graph.ty(v).clone()).collect();
    let types: Vec<_> = types.collect();
    if params != types {
        return fail(format!("{name}: block {block} takes {params:?}, got {types:?}"));
    }
    Ok(())
}

fn repeat(graph: &Graph, block: BlockId, trip: usize, carried: usize, t: &[&Type]) -> Result<Vec<Type>> {
    if carried > t.len() {
        return fail(format!("repeat carries {carried} values but has {} operands", t.len()));
    }
    for ty in &t[carried..] {
        if ty.shape.first() != Some(&trip) {
            return fail(format!("repeat: the stacked operand {ty} needs a first axis of extent {trip}"));
        }
    }
    let entered = t.iter().enumerate().map(|(i, ty)| match i < carried {
        true => (*ty).clone(),
        false => Type::new(ty.dtype, &ty.shape[1..]),
    });
    block_params(graph, "repeat", block, entered)?;
    let results: Vec<_> = graph.blocks[block].results.iter().map(|&v| graph.ty(v).clone()).collect();
    if results.len() < carried || results[..carried].iter().zip(t).any(|(r, ty)| r != *ty) {
        return fail("repeat: the block's first results must have the types of the carried values");
    }
    let stack = |ty: &Type| Type::new(ty.dtype, [&[trip], &ty.shape[..]].concat());
    Ok(results.iter().enumerate().map(|(i, ty)| if i < carried { ty.clone() } else { stack(ty) }).collect())
}
