//! Ops that move elements: copies, concatenation, padding, and windows whose positions are computed at run
//! time.

use super::super::ir::{Kernel, Role};
use super::super::{index_at, index_of};
use super::each::each;
use super::{Builder, Value, Views, WORKGROUP};
use crate::narrow::narrow;
use gradloom_core::ir::{DType, Number, Shape};
use gradloom_core::kernel::Layout;

/// Returns the kernel that copies the operand's elements to the result, each in row-major order of its
/// layout.
pub(super) fn copy(views: &Views<'_>, label: &str) -> Vec<Kernel> {
    each(label, views, views.elements(), |k, position| {
        views.store(k, position, views.load(k, 0, position));
    })
}

/// Maximum number of operands that one kernel joins. Together with the result, they use all buffers that
/// desktop GPUs can bind.
const JOINED: usize = 15;

/// Returns the kernels that concatenate operands along an axis. A kernel copies several operands, each with
/// separate workgroups.
pub(super) fn concat(views: &Views<'_>, axis: usize) -> Vec<Kernel> {
    let write = &views.writes[0];
    let mut from = 0;
    let mut parts = Vec::new();
    for (i, read) in views.reads.iter().enumerate() {
        let shape = &read.layout.shape;
        let mut start = vec![0; shape.rank()];
        let mut limit = write.layout.shape.to_vec();
        (start[axis], limit[axis]) = (from, from + shape[axis]);
        from = limit[axis];
        if shape.elements() > 0 {
            parts.push((i, shape.elements(), write.layout.slice(&start, &limit, &vec![1; shape.rank()])));
        }
    }
    let groups = |elements: usize| elements.div_ceil(WORKGROUP as usize);
    let joined = |parts: &[(usize, usize, Layout)]| {
        let all = parts.iter().map(|&(_, elements, _)| groups(elements)).sum();
        let k = Builder::new("concat", WORKGROUP, all);
        let mut first = 0;
        for (i, elements, window) in parts {
            let (start, end) = (narrow(first), narrow(first + groups(*elements)));
            first += groups(*elements);
            let position = (k.group() - start) * WORKGROUP + k.local();
            let behind = (start > 0).then(|| !k.group().below(start));
            let before = (first < all).then(|| k.group().below(end));
            let inside =
                (!elements.is_multiple_of(WORKGROUP as usize)).then(|| position.below(narrow(*elements)));
            k.guard([views.gate(&k), behind, before, inside], || {
                let to = k.buffer(Role::Result(0), write.dtype);
                let value = views.load(&k, *i, position);
                k.store(to, index_at(&k, window, position), value);
            });
        }
        k.finish()
    };
    parts.chunks(JOINED).map(joined).collect()
}

/// Returns the kernel that copies the operand's elements to the result, with `value` around and between them.
pub(super) fn pad(views: &Views<'_>, low: &[usize], interior: &[usize], value: Number) -> Vec<Kernel> {
    let (read, write) = (&views.reads[0], &views.writes[0]);
    each("pad", views, views.elements(), |k, position| {
        let element = k.var(k.number(value, write.dtype));
        if read.layout.shape.elements() > 0 {
            let mut inside = k.bool(true);
            let mut from = Vec::new();
            let coordinates = coordinates(k, &write.layout.shape, position);
            for (axis, &extent) in read.layout.shape.iter().enumerate() {
                // The distance is unsigned, so positions before the first element wrap around to large
                // distances, which are out of range.
                let pitch = narrow(interior[axis] + 1);
                let distance = coordinates[axis] - narrow(low[axis]);
                inside = inside & distance.below(narrow((extent - 1) * (interior[axis] + 1) + 1));
                if pitch > 1 {
                    inside = inside & (distance % pitch).equals(k.u32(0));
                }
                from.push(distance / pitch);
            }
            k.when(inside, || {
                let buffer = k.buffer(Role::Operand(0), read.dtype);
                element.set(k.load(buffer, index_of(k, read.layout, &from)));
            });
        }
        views.store(k, position, element.get());
    })
}

/// Returns the kernel that copies a window whose start is computed at run time. A window out of range makes
/// the step fail.
pub(super) fn dynamic_slice(views: &Views<'_>) -> Vec<Kernel> {
    let (read, write) = (&views.reads[0], &views.writes[0]);
    each("dynamic_slice", views, views.elements(), |k, position| {
        let starts = checked_starts(k, views, &read.layout.shape, &write.layout.shape, 1);
        let from = sums(&coordinates(k, &write.layout.shape, position), &starts);
        let buffer = k.buffer(Role::Operand(0), read.dtype);
        views.store(k, position, k.load(buffer, index_of(k, read.layout, &from)));
    })
}

/// Returns the kernels that replace a window of the operand. A window out of range makes the step fail. The
/// result may alias the operand.
pub(super) fn dynamic_update_slice(views: &Views<'_>) -> Vec<Kernel> {
    let (window, write) = (&views.reads[1], &views.writes[0]);
    let mut kernels = Vec::new();
    if !views.in_place {
        kernels.extend(copy(views, "dynamic_update_slice: copy"));
    }
    let elements = window.layout.shape.elements();
    kernels.extend(each("dynamic_update_slice", views, elements, |k, position| {
        let starts = checked_starts(k, views, &write.layout.shape, &window.layout.shape, 2);
        store_window(k, views, 1, position, &starts);
    }));
    kernels
}

/// Returns the kernel that replaces a window of the result. The step's guards have already checked the start.
pub(super) fn write_region(views: &Views<'_>, label: &str) -> Vec<Kernel> {
    let elements = views.reads[0].layout.shape.elements();
    each(label, views, elements, |k, position| {
        let start = |axis| views.load(k, 1 + axis, k.u32(0)).cast(DType::U32);
        let starts: Vec<_> = (0..views.writes[0].layout.shape.rank()).map(start).collect();
        store_window(k, views, 0, position, &starts);
    })
}

/// Writes an element of a window, which is an operand, to the result.
fn store_window<'k>(
    k: &'k Builder,
    views: &Views<'_>,
    window: usize,
    position: Value<'k>,
    starts: &[Value<'k>],
) {
    let write = &views.writes[0];
    let to = sums(&coordinates(k, &views.reads[window].layout.shape, position), starts);
    let value = views.load(k, window, position);
    k.store(k.buffer(Role::Result(0), write.dtype), index_of(k, write.layout, &to), value);
}

/// Returns the coordinates of a row-major position.
fn coordinates<'k>(k: &'k Builder, shape: &Shape, position: Value<'k>) -> Vec<Value<'k>> {
    let mut coordinates = vec![k.u32(0); shape.rank()];
    let mut inner = 1;
    for axis in (0..shape.rank()).rev() {
        let outer = position / narrow(inner);
        coordinates[axis] = if axis > 0 { outer % narrow(shape[axis]) } else { outer };
        inner *= shape[axis];
    }
    coordinates
}

fn sums<'k>(a: &[Value<'k>], b: &[Value<'k>]) -> Vec<Value<'k>> {
    a.iter().zip(b).map(|(&a, &b)| a + b).collect()
}

/// Loads the starts of a window of `whole` from the operands from `first` on. A start out of range makes the
/// step fail, and is clamped to the nearest in range.
fn checked_starts<'k>(
    k: &'k Builder,
    views: &Views<'_>,
    whole: &Shape,
    window: &Shape,
    first: usize,
) -> Vec<Value<'k>> {
    let start = |axis: usize| {
        let start = views.load(k, first + axis, k.u32(0));
        k.check_index(start, narrow(whole[axis] - window[axis] + 1), k.u32(narrow(axis)))
    };
    (0..whole.rank()).map(start).collect()
}
