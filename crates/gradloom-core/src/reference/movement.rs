//! Views and data movement: permute, broadcast, slice, pad, concat, and windows with dynamic starts.

use super::error::trap;
use super::indices::{each_index, position};
use super::{HostData, HostTensor};
use crate::error::Result;
use crate::ir::{BlockFormat, DType, Number, Type, words_of};

/// Returns the tensor of type `ty` whose element at an index is the element of `x` at `base` plus the index
/// times `strides`.
pub(super) fn strided(x: &HostTensor, ty: &Type, base: usize, strides: &[usize]) -> HostTensor {
    let mut elements = Vec::with_capacity(ty.elements());
    each_index(&ty.shape, &mut |index| elements.push(x.get(base + position(index, strides))));
    HostTensor::from_numbers(ty.clone(), elements)
}

pub(super) fn dequantize(format: BlockFormat, blocks: &HostTensor, ty: &Type) -> HostTensor {
    let bytes: Vec<u8> = (0..blocks.len()).map(|i| blocks.integer(i) as u8).collect();
    let blocks = bytes.chunks_exact(format.block_bytes());
    HostTensor::from_f64(ty.clone(), blocks.flat_map(|block| format.decode(block).map(f64::from)))
}

/// Permutes the axes: axis i of the result is axis `perm[i]` of x.
pub(super) fn permute(x: &HostTensor, perm: &[usize], ty: &Type) -> HostTensor {
    let strides = x.ty.shape.strides();
    strided(x, ty, 0, &perm.iter().map(|&axis| strides[axis]).collect::<Vec<_>>())
}

/// Broadcasts axes of extent 1.
pub(super) fn broadcast(x: &HostTensor, ty: &Type) -> HostTensor {
    let strides = x.ty.shape.strides().into_iter().zip(x.ty.shape.iter());
    strided(x, ty, 0, &strides.map(|(stride, &n)| if n == 1 { 0 } else { stride }).collect::<Vec<_>>())
}

/// Selects every `step`th element from `start`.
pub(super) fn slice(x: &HostTensor, start: &[usize], step: &[usize], ty: &Type) -> HostTensor {
    let strides = x.ty.shape.strides();
    let stepped: Vec<_> = strides.iter().zip(step).map(|(stride, step)| stride * step).collect();
    strided(x, ty, position(start, &strides), &stepped)
}

/// Creates sliding windows over the last axes.
pub(super) fn windows(x: &HostTensor, step: &[usize], dilation: &[usize], ty: &Type) -> HostTensor {
    let mut strides = x.ty.shape.strides();
    let first = strides.len() - step.len();
    for (i, (step, dilation)) in step.iter().zip(dilation).enumerate() {
        strides.push(strides[first + i] * dilation);
        strides[first + i] *= step;
    }
    strided(x, ty, 0, &strides)
}

/// Writes `part` into `whole`. The element at an index is written to `base` plus the index times `strides`.
fn scatter(whole: &mut [Number], part: &HostTensor, base: usize, strides: &[usize]) {
    let mut next = 0;
    each_index(&part.ty.shape, &mut |index| {
        whole[base + position(index, strides)] = part.get(next);
        next += 1;
    });
}

/// Pads x with `value` around and between its elements.
pub(super) fn pad(x: &HostTensor, low: &[usize], interior: &[usize], value: Number, ty: &Type) -> HostTensor {
    let strides = ty.shape.strides();
    let spread: Vec<_> = strides.iter().zip(interior).map(|(stride, gap)| stride * (gap + 1)).collect();
    let mut elements = vec![value; ty.elements()];
    scatter(&mut elements, x, position(low, &strides), &spread);
    HostTensor::from_numbers(ty.clone(), elements)
}

pub(super) fn concat(parts: &[&HostTensor], axis: usize, ty: &Type) -> HostTensor {
    let strides = ty.shape.strides();
    // All elements are overwritten below, because the parts' extents add up to that of the result.
    let mut elements = vec![Number::of(ty.dtype, 0.0); ty.elements()];
    let mut start = 0;
    for part in parts {
        scatter(&mut elements, part, start * strides[axis], &strides);
        start += part.ty.shape[axis];
    }
    HostTensor::from_numbers(ty.clone(), elements)
}

/// Converts 64-bit numbers to 32-bit words, the low one first, or vice versa.
pub(super) fn words(x: &HostTensor, ty: &Type) -> HostTensor {
    let numbers: Vec<i64> = match ty.dtype {
        DType::I64 => {
            (0..ty.elements()).map(|i| x.integer(2 * i) & 0xffff_ffff | x.integer(2 * i + 1) << 32).collect()
        }
        _ => return HostTensor::from_numbers(ty.clone(), (0..x.len()).flat_map(|i| words_of(x.get(i)))),
    };
    HostTensor { ty: ty.clone(), data: HostData::Int(numbers) }
}

/// Returns the start of a window with extents `sizes` in a tensor with extents `whole`, after checking that
/// the window is within bounds.
fn window_start(whole: &[usize], sizes: &[usize], starts: &[&HostTensor]) -> Result<Vec<usize>> {
    let mut checked = Vec::with_capacity(starts.len());
    for (axis, start) in starts.iter().enumerate() {
        let start = start.integer(0);
        let (extent, size) = (whole[axis], sizes[axis]);
        match usize::try_from(start).ok().filter(|start| *start <= extent - size) {
            Some(start) => checked.push(start),
            None => {
                return Err(trap(format!(
                    "index {start} on axis {axis} is out of range: a window of {size} in an extent of \
                     {extent} starts at 0..={}",
                    extent - size
                )));
            }
        }
    }
    Ok(checked)
}

pub(super) fn dynamic_slice(x: &HostTensor, starts: &[&HostTensor], ty: &Type) -> Result<HostTensor> {
    let start = window_start(&x.ty.shape, &ty.shape, starts)?;
    Ok(slice(x, &start, &vec![1; start.len()], ty))
}

pub(super) fn dynamic_update_slice(
    x: &HostTensor,
    update: &HostTensor,
    starts: &[&HostTensor],
) -> Result<HostTensor> {
    let start = window_start(&x.ty.shape, &update.ty.shape, starts)?;
    let strides = x.ty.shape.strides();
    let mut elements: Vec<_> = (0..x.len()).map(|i| x.get(i)).collect();
    scatter(&mut elements, update, position(&start, &strides), &strides);
    Ok(HostTensor::from_numbers(x.ty.clone(), elements))
}
