//! Position of the largest or smallest element along an axis.
//!
//! In: one operand. Out: i32 positions, contiguous. Elements are compared by unsigned keys, in which a NaN is
//! greater than all numbers and both zeros are equal, so the result does not depend on a compiler's
//! assumptions about floats. Invariant: of equal elements, the first one is returned.

use super::super::index_at;
use super::super::ir::{Kernel, Role};
use super::each::each;
use super::key;
use super::{Builder, Value, Views, WORKGROUP};
use crate::narrow::narrow;
use gradloom_core::ir::{ArgReduceOp, CompareOp, DType};
use gradloom_core::kernel::{Layout, Schedule};

/// Number of elements that an invocation of a large workgroup loads before it compares them.
const AHEAD: u32 = 8;

/// Axis of the operand along which elements are compared.
struct Axis {
    op: ArgReduceOp,
    extent: u32,
    stride: u32,
    /// Layout of the other axes.
    outer: Layout,
}

pub(super) fn arg_reduce(
    views: &Views<'_>,
    schedule: &Schedule,
    (op, axis): (ArgReduceOp, usize),
    label: &str,
) -> Vec<Kernel> {
    let layout = views.reads[0].layout;
    let (mut shape, mut strides) = (layout.shape.to_vec(), layout.strides.clone());
    let (extent, stride) = (shape.remove(axis), strides.remove(axis));
    let outer = Layout::new(layout.offset, shape.into(), strides);
    let axis = Axis { op, extent: narrow(extent), stride: narrow(stride), outer };
    let elements = views.elements();
    let Schedule::Axes(workgroup) = *schedule else {
        return each(label, views, elements, |k, position| {
            let (_, place) = axis.best(k, views, position, [k.u32(0), k.u32(1)], 1);
            views.store(k, position, place.cast(DType::I32));
        });
    };
    if elements == 0 {
        return Vec::new();
    }
    let k = Builder::new(label, workgroup, elements);
    together(&k, views, &axis, workgroup);
    vec![k.finish()]
}

/// Appends statements with which each workgroup reduces one slice along the axis.
fn together(k: &Builder, views: &Views<'_>, axis: &Axis, workgroup: u32) {
    let (keys, places) = (k.shared(DType::U32, workgroup), k.shared(DType::U32, workgroup));
    let local = k.local();
    let ahead = if workgroup > WORKGROUP { AHEAD } else { 1 };
    let (best, place) = axis.best(k, views, k.group(), [local, k.u32(workgroup)], ahead);
    k.set_element(keys, local, best);
    k.set_element(places, local, place);
    k.barrier();
    let mut half = workgroup / 2;
    while half > 0 {
        k.when(local.below(half), || {
            let (key, at) = (k.element(keys, local + half), k.element(places, local + half));
            let (own_key, own_at) = (k.element(keys, local), k.element(places, local));
            let better = key.compare(CompareOp::Gt, own_key);
            let first = key.equals(own_key) & at.less(own_at);
            k.when(better | first, || {
                k.set_element(keys, local, key);
                k.set_element(places, local, at);
            });
        });
        k.barrier();
        half /= 2;
    }
    k.guard([Some(local.equals(k.u32(0))), views.gate(k)], || {
        let place = k.element(places, k.u32(0));
        views.store(k, k.group(), place.cast(DType::I32));
    });
}

impl Axis {
    /// Returns the greatest key and its position among every `step`-th element from `first` on, loading
    /// `ahead` elements at a time. Without elements, these are the least key and the position after the last
    /// element.
    fn best<'k>(
        &self,
        k: &'k Builder,
        views: &Views<'_>,
        position: Value<'k>,
        [first, step]: [Value<'k>; 2],
        ahead: u32,
    ) -> (Value<'k>, Value<'k>) {
        let dtype = views.reads[0].dtype;
        let buffer = k.buffer(Role::Operand(0), dtype);
        let start = index_at(k, &self.outer, position);
        let (best, place) = (k.var(k.u32(0)), k.var(k.u32(self.extent)));
        let element = |i: Value<'k>| k.load(buffer, start + i * self.stride);
        let look = |i: Value<'k>, element: Value<'k>| {
            let key = wanted(k, element, self.op);
            let better = i.equals(first) | key.compare(CompareOp::Gt, best.get());
            k.when(better, || {
                best.set(key);
                place.set(i);
            });
        };
        let stride = step * ahead;
        k.count(first, k.u32(self.extent), stride, |i| {
            if ahead == 1 {
                return look(i, element(i));
            }
            // A clamped position loads the last element again. This does not change the result, because the
            // element is not greater than itself.
            let turn = |turn: u32| (i + step * turn).min(k.u32(self.extent - 1));
            let loaded: Vec<_> = (0..ahead).map(turn).map(|i| (i, element(i))).collect();
            loaded.into_iter().for_each(|(i, element)| look(i, element));
        });
        (best.get(), place.get())
    }
}

/// Returns an element's key: the element with the greatest key is the result.
fn wanted<'k>(k: &'k Builder, x: Value<'k>, op: ArgReduceOp) -> Value<'k> {
    let flip = |key: Value<'k>| if op == ArgReduceOp::ArgMin { !key } else { key };
    let number = flip(key::of_number(k, x));
    match key::is_nan(k, x) {
        Some(is_nan) => is_nan.select(k.u32(u32::MAX), number),
        None => number,
    }
}
