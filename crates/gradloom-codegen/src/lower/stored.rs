//! Kernels that read an operand in its stored format: right operands of products as 16-bit floats or
//! quantized blocks, keys and values of attention as 16-bit floats.
//!
//! In: the kernels of a graph. Out: the same kernels, which read the source of a conversion to f32 if their
//! target converts elements while loading them. A conversion without other readers is removed; any other one
//! moves right before its first reader. Invariant: no element changes, because these conversions are
//! exact.
//!
//! The pass runs after fusion, so that no graph pass can separate a conversion from its reader. It identifies
//! a conversion by the buffer that the conversion writes, so views of that buffer do not matter.

use super::{Draft, Lowering};
use crate::product::DotProblem;
use gradloom_core::fuse::KernelSpec;
use gradloom_core::ir::{BLOCK, BlockFormat, DType, DotAxes, OpKind};
use gradloom_core::kernel::{Access, Body, Kernel, Layout, Level, NodeKind, Store};

/// Operands that the products of a target read in their stored format. On every target, attention reads keys
/// and values that are stored as 16-bit floats.
#[derive(Clone, Copy)]
enum OfProducts {
    Nothing,
    Floats,
    FloatsAndBlocks,
}

/// Makes attention read the sources of float conversions.
pub(super) fn of_attention(lowering: &mut Lowering<'_>) {
    read(lowering, OfProducts::Nothing);
}

/// Makes attention and products read the sources of float conversions.
pub(super) fn floats(lowering: &mut Lowering<'_>) {
    read(lowering, OfProducts::Floats);
}

/// Makes attention and products read the sources of float conversions, and products also those of
/// `Dequantize` ops.
pub(super) fn floats_and_blocks(lowering: &mut Lowering<'_>) {
    read(lowering, OfProducts::FloatsAndBlocks);
}

fn read(lowering: &mut Lowering<'_>, of_products: OfProducts) {
    let kept = lowering.watched();
    for at in (0..lowering.kernels.len()).rev() {
        let spec = &lowering.kernels[at];
        let Some((source, format)) = conversion(spec) else { continue };
        let (buffer, source) = (spec.writes[0].buffer, source.clone());
        let of_products = match (of_products, format) {
            (OfProducts::Nothing, _) | (OfProducts::Floats, Some(_)) => false,
            (OfProducts::Floats, None) | (OfProducts::FloatsAndBlocks, _) => true,
        };
        if kept.contains(&buffer) {
            continue;
        }
        let mut first = None;
        for (user, Draft { spec, .. }) in lowering.kernels.iter_mut().enumerate().skip(at + 1) {
            let KernelSpec { kernel, reads, .. } = spec;
            each_reader(kernel, &mut |reader, operands| match reader {
                Reader::Product(axes) => {
                    let right = &reads[operands + 1];
                    if of_products
                        && right.buffer == buffer
                        && let Some(stored) = stored(axes, &reads[operands], right, &source, format)
                    {
                        reads[operands + 1] = stored;
                    }
                }
                Reader::Attention => {
                    let is_read = |read: &&mut Access| read.buffer == buffer && format.is_none();
                    for read in reads[operands + 1..operands + 3].iter_mut().filter(is_read) {
                        *read = in_place_of(read, &source);
                    }
                }
            });
            if reads.iter().any(|read| read.buffer == buffer) {
                first = first.or(Some(user));
            }
        }
        let spec = lowering.kernels.remove(at);
        if let Some(user) = first {
            lowering.kernels.insert(user - 1, spec);
        }
    }
}

/// Returns the operand of a kernel that only converts elements to f32, and the format of the operand if it
/// consists of blocks.
fn conversion(spec: &KernelSpec) -> Option<(&Access, Option<BlockFormat>)> {
    let ([source], [result]) = (&spec.reads[..], &spec.writes[..]) else { return None };
    let format = match &spec.kernel {
        Kernel::Op(OpKind::Dequantize { format }) => Some(*format),
        Kernel::Op(OpKind::Cast { dtype: DType::F32 }) => None,
        Kernel::Loop(body) if only_converts(body) => None,
        _ => return None,
    };
    let is_stored = format.is_some() || matches!(source.dtype, DType::F16 | DType::BF16);
    let in_order = source.layout.is_contiguous() && result.layout.is_contiguous();
    (is_stored && in_order && result.dtype == DType::F32).then_some((source, format))
}

/// Returns `true` if a body only converts each loaded element to f32.
fn only_converts(body: &Body) -> bool {
    let [Store::Value { node, level: Level::Element, .. }] = body.stores[..] else { return false };
    let node = body.node(node);
    let NodeKind::Cast(from) = node.kind else { return false };
    node.dtype == DType::F32 && matches!(body.node(from).kind, NodeKind::Load(_)) && body.nodes.len() == 2
}

/// A kernel that may read operands in their stored format.
enum Reader<'k> {
    Product(&'k DotAxes),
    Attention,
}

/// Calls `f` with each product and each attention op that a kernel consists of, and with the index of its
/// first operand.
fn each_reader(kernel: &Kernel, f: &mut dyn FnMut(Reader<'_>, usize)) {
    match kernel {
        Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. } => f(Reader::Product(axes), 0),
        Kernel::Op(OpKind::Attention(_)) => f(Reader::Attention, 0),
        Kernel::Group(parts) => {
            for part in parts {
                each_reader(&part.kernel, &mut |reader, operands| f(reader, part.reads.start + operands));
            }
        }
        Kernel::Attention { .. } => f(Reader::Attention, 0),
        Kernel::Op(_) | Kernel::Loop(_) | Kernel::Copy | Kernel::WriteRegion => {}
    }
}

/// Returns the access to the source of a float conversion that replaces an access to its result.
fn in_place_of(read: &Access, source: &Access) -> Access {
    let offset = source.layout.offset + read.layout.offset;
    Access { layout: Layout { offset, ..read.layout.clone() }, ..source.clone() }
}

/// Returns the stored operand that replaces the converted right operand of a product, if kernels can read it:
/// no operand needs a copy first, and sums run along whole blocks.
fn stored(
    axes: &DotAxes,
    left: &Access,
    right: &Access,
    source: &Access,
    format: Option<BlockFormat>,
) -> Option<Access> {
    let problem = DotProblem::new(axes, &left.layout, &right.layout)?;
    let Layout { offset, shape, strides } = &right.layout;
    if left.dtype != DType::F32 || shape.elements() == 0 || problem.results() == 0 {
        return None;
    }
    let Some(format) = format else { return Some(in_place_of(right, source)) };
    let contracted = |axis: &usize| axes.rhs_contract.contains(axis);
    let mut blocks = Layout {
        offset: source.layout.offset + format.bytes_of(*offset)?,
        shape: shape.clone(),
        strides: strides.clone(),
    };
    let mut extents = shape.to_vec();
    for axis in 0..shape.rank() {
        (extents[axis], blocks.strides[axis]) = match contracted(&axis) {
            // The innermost contracted axis spans all bytes of a sum, including those of the other contracted
            // axes.
            true if strides[axis] == 1 && shape[axis] > 1 => (format.bytes_of(problem.k)?, 1),
            true => (1, 1),
            false if shape[axis] == 1 => (1, 0),
            false => (shape[axis], format.bytes_of(strides[axis])?),
        };
    }
    blocks.shape = extents.into();
    let along = problem.rhs.contract_stride == 1 && problem.k.is_multiple_of(BLOCK);
    along.then(|| Access { layout: blocks, blocks: Some(format), ..source.clone() })
}
