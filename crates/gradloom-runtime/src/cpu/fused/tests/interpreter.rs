//! Evaluates a body one element at a time.
//!
//! Elements are kept as float64, which holds every dtype's. Functions of f32 are rounded after every node, as
//! the kernels do; sums and products of f32 are taken in float64, so tests keep them exact or allow for
//! rounding.

use crate::cpu::math;
use gradloom_core::ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};
use gradloom_core::kernel::{Body, Level, Node, NodeKind, Store};

/// The results, in row-major order; `reads` are the operands in row-major order.
pub(super) fn interpret(body: &Body, reads: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut values: Vec<Vec<f64>> = Vec::new();
    for node in &body.nodes {
        let elements = (0..body.elements(node.level)).map(|i| element(body, node, &values, reads, i));
        let elements = elements.collect();
        values.push(elements);
    }
    let mut stores: Vec<&Store> = body.stores.iter().collect();
    stores.sort_by_key(|store| store.write());
    let result = |store: &&Store| match **store {
        Store::Whole { node, level, .. } => {
            let from = body.node(node).level;
            (0..body.elements(level)).map(|i| values[node.index()][place(body, i, level, from)]).collect()
        }
        Store::Columns { op, node, .. } => (0..body.columns)
            .map(|column| {
                let all = (0..body.rows).map(|row| values[node.index()][row * body.columns + column]);
                reduce(op, body.node(node).dtype, all)
            })
            .collect(),
    };
    stores.iter().map(result).collect()
}

/// Which element of a value of level `of` belongs to element `i` of one of level `level`.
fn place(body: &Body, i: usize, level: Level, of: Level) -> usize {
    match (level, of) {
        (_, Level::Uniform) => 0,
        (Level::Element, Level::Row) => i / body.columns,
        _ => i,
    }
}

fn element(body: &Body, node: &Node, values: &[Vec<f64>], reads: &[Vec<f64>], i: usize) -> f64 {
    let get = |operand: gradloom_core::kernel::NodeId| {
        values[operand.index()][place(body, i, node.level, body.node(operand).level)]
    };
    match &node.kind {
        NodeKind::Constant(number) => round(node.dtype, number.as_f64()),
        NodeKind::Load(read) => reads[*read][i],
        NodeKind::Column => (i % body.columns) as f64,
        NodeKind::Repeat(a) => get(*a),
        NodeKind::Accumulator => unreachable!("no product here"),
        NodeKind::Unary(op, a) => unary(*op, node.dtype, get(*a)),
        NodeKind::Binary(op, [a, b]) => binary(*op, node.dtype, get(*a), get(*b)),
        NodeKind::Compare(op, [a, b]) => {
            let (a, b) = (get(*a), get(*b));
            f64::from(u8::from(match op {
                CompareOp::Eq => a == b,
                CompareOp::Ne => a != b,
                CompareOp::Lt => a < b,
                CompareOp::Le => a <= b,
                CompareOp::Gt => a > b,
                CompareOp::Ge => a >= b,
            }))
        }
        NodeKind::Select([condition, a, b]) => {
            if get(*condition) != 0.0 {
                get(*a)
            } else {
                get(*b)
            }
        }
        NodeKind::Cast(a) => match node.dtype {
            DType::F32 => round(DType::F32, get(*a)),
            DType::I32 if body.node(*a).dtype == DType::U32 => f64::from(get(*a) as u32 as i32),
            DType::I32 => f64::from(get(*a) as i32),
            DType::U32 if body.node(*a).dtype == DType::I32 => f64::from(get(*a) as i32 as u32),
            DType::U32 => f64::from(get(*a) as u32),
            DType::Bool => f64::from(u8::from(get(*a) != 0.0)),
        },
        NodeKind::CheckIndex { index, .. } => get(*index),
        NodeKind::Reduce(op, a) => {
            let row = &values[a.index()][i * body.columns..(i + 1) * body.columns];
            reduce(*op, node.dtype, row.iter().copied())
        }
    }
}

/// Keeps what an element of the dtype can hold.
fn round(dtype: DType, value: f64) -> f64 {
    if dtype == DType::F32 { f64::from(value as f32) } else { value }
}

/// The low 32 bits of an integer.
fn wrap(dtype: DType, value: i128) -> f64 {
    if dtype == DType::I32 { f64::from(value as i32) } else { f64::from(value as u32) }
}

fn unary(op: UnaryOp, dtype: DType, a: f64) -> f64 {
    if dtype != DType::F32 {
        return match op {
            UnaryOp::Neg => wrap(dtype, -(a as i128)),
            UnaryOp::Abs => wrap(dtype, (a as i128).abs()),
            UnaryOp::Sign => f64::from(i8::from(a > 0.0) - i8::from(a < 0.0)),
            UnaryOp::Not if dtype == DType::Bool => 1.0 - a,
            UnaryOp::Not => wrap(dtype, !(a as i128)),
            _ => unreachable!("{op:?} of {dtype}"),
        };
    }
    let x = a as f32;
    f64::from(match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sign if x == 0.0 || x.is_nan() => x,
        UnaryOp::Sign => x.signum(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Exp => math::exp(x),
        UnaryOp::Expm1 => math::expm1(x),
        UnaryOp::Log => math::log(x),
        UnaryOp::Log1p => math::log1p(x),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Sin if x.abs() < math::LARGE_ANGLE => math::sin(x),
        UnaryOp::Sin => libm::sinf(x),
        UnaryOp::Cos if x.abs() < math::LARGE_ANGLE => math::cos(x),
        UnaryOp::Cos => libm::cosf(x),
        UnaryOp::Tanh => math::tanh(x),
        UnaryOp::Sigmoid => math::sigmoid(x),
        UnaryOp::Erf => math::erf(x),
        UnaryOp::Not | UnaryOp::Detach => unreachable!("{op:?} of {dtype}"),
    })
}

fn binary(op: BinaryOp, dtype: DType, a: f64, b: f64) -> f64 {
    let nan = a.is_nan() || b.is_nan();
    match op {
        BinaryOp::Min | BinaryOp::Max if nan => return f64::NAN,
        BinaryOp::Min => return if a < b { a } else { b },
        BinaryOp::Max => return if a > b { a } else { b },
        _ => {}
    }
    if dtype == DType::F32 {
        // Exact in float64 and then rounded once: addition, multiplication and division of f32 are (Figueroa,
        // 1995).
        return round(
            dtype,
            match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                BinaryOp::Rem => a % b,
                BinaryOp::Pow => f64::from(math::pow(a as f32, b as f32)),
                _ => unreachable!("{op:?} of f32"),
            },
        );
    }
    let (x, y) = (a as i128, b as i128);
    let count = (y & 31) as u32;
    match op {
        BinaryOp::Add => wrap(dtype, x + y),
        BinaryOp::Sub => wrap(dtype, x - y),
        BinaryOp::Mul => wrap(dtype, x * y),
        BinaryOp::And => wrap(dtype, x & y),
        BinaryOp::Or => wrap(dtype, x | y),
        BinaryOp::Xor => wrap(dtype, x ^ y),
        BinaryOp::Shl => wrap(dtype, x << count),
        BinaryOp::Shr => wrap(dtype, x >> count),
        _ => unreachable!("{op:?} of {dtype}"),
    }
}

fn reduce(op: ReduceOp, dtype: DType, all: impl Iterator<Item = f64>) -> f64 {
    let limits = match dtype {
        DType::F32 => (f64::NEG_INFINITY, f64::INFINITY),
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (0.0, f64::from(u32::MAX)),
    };
    let wide = dtype == DType::F32;
    match op {
        ReduceOp::Sum if wide => round(dtype, all.sum()),
        ReduceOp::Prod if wide => round(dtype, all.product()),
        ReduceOp::Sum => wrap(dtype, all.fold(0, |sum, v| sum + v as i128)),
        ReduceOp::Prod => wrap(dtype, all.fold(1, |product: i128, v| (product * v as i128) & 0xffff_ffff)),
        ReduceOp::Max => {
            all.fold(limits.0, |m, v| if m.is_nan() || v.is_nan() { f64::NAN } else { m.max(v) })
        }
        ReduceOp::Min => {
            all.fold(limits.1, |m, v| if m.is_nan() || v.is_nan() { f64::NAN } else { m.min(v) })
        }
    }
}
