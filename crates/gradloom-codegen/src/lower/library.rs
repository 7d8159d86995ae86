//! Products that a library of the device's vendor computes.
//!
//! In: a product that the target's library takes. Out: a launch by the library, whose operands are of the
//! dtype that it wants: one that is not is copied first, once for all products that share it.

use super::{Lowering, Target};
use crate::cuda::{EXTENT_ALIGNMENT, LibraryProduct, Room};
use crate::product::copied_layout;
use gradloom_core::collections::sort_by_key;
use gradloom_core::fuse::watched;
use gradloom_core::ir::{DType, DotAxes, Number, OpId, OpKind, Shape, Type, ValueId};
use gradloom_core::kernel::{
    Access, Body, Kernel, Layout, Level, LibrarySchedule, Node, NodeId, NodeKind, Part, Schedule, Store,
};
use std::ops::Range;

impl<T: Target> Lowering<'_, T> {
    /// Whether the library computes a product without what follows from it.
    pub(super) fn is_for_library(&self, kernel: &Kernel, reads: &[Access], writes: &[Access]) -> bool {
        let (axes, result) = match kernel {
            Kernel::Op(OpKind::Dot(axes)) => (axes, (writes[0].layout.clone(), writes[0].dtype)),
            Kernel::Dot { axes, epilogue } => {
                let positions: Shape = [epilogue.rows, epilogue.columns].into();
                (axes, (Layout::contiguous(&positions), product_dtype(writes)))
            }
            _ => return false,
        };
        !self.commits && self.target.library(axes, reads, (&result.0, result.1)).is_some()
    }

    /// Prepares a product for the library, if it is one for it.
    pub(super) fn library(
        &mut self,
        op: OpId,
        axes: &DotAxes,
        reads: &mut [Access],
        write: &Access,
    ) -> Option<Schedule> {
        let result = (&write.layout, write.dtype);
        let dtype = self.target.library(axes, reads, result).filter(|_| !self.commits)?;
        for read in &mut *reads {
            if read.dtype != dtype {
                *read = self.rounded(op, read, dtype);
            }
        }
        let product = LibraryProduct::new(axes, [&reads[0].layout, &reads[1].layout], dtype, result)?;
        if !product.m.is_multiple_of(EXTENT_ALIGNMENT) {
            self.make_room(write, product.m);
        }
        let product = product.rounded_up(
            self.room(&reads[0], true),
            self.room(&reads[1], true),
            self.room(write, false),
        );
        let extents = [product.m, product.n, product.k];
        let rounds = self.target.rounds_to_tf32();
        Some(Schedule::Library(LibrarySchedule { workspace: product.scratch(), extents, rounds }))
    }

    /// What lies behind a matrix that is all that is in a buffer, if it must be with zeros.
    fn room(&self, access: &Access, zeros: bool) -> Room {
        let of = |padded: &&Padded| {
            let is_whole = access.layout.offset == 0 && access.layout.shape.elements() == padded.elements;
            padded.buffer == access.buffer && is_whole && (padded.is_zero || !zeros)
        };
        self.padded.iter().find(of).map_or_else(Room::default, |padded| padded.room)
    }

    /// Lets a matrix of so many rows, which is all that is in a temporary, have more of them behind it.
    fn make_room(&mut self, access: &Access, rows: usize) {
        let stays = |value: ValueId| self.lowered.access.get(&value).map(|access| access.buffer);
        if watched(self.graph).into_iter().filter_map(stays).any(|buffer| buffer == access.buffer) {
            return;
        }
        let Some(ty) = self.lowered.buffers.get_mut(&access.buffer) else { return };
        let is_whole = access.layout.shape == ty.shape && access.layout.is_contiguous();
        if is_whole && ty.shape.rank() == 2 && ty.shape[0] == rows {
            let all = rows.next_multiple_of(EXTENT_ALIGNMENT);
            let (elements, room) = (ty.elements(), Room { elements: 0, lines: all - rows });
            ty.shape = [all, ty.shape[1]].into();
            self.padded.push(Padded { buffer: access.buffer, elements, room, is_zero: false });
        }
    }

    /// A copy of another dtype. Products share it.
    fn rounded(&mut self, op: OpId, from: &Access, dtype: DType) -> Access {
        let order = rounded_order(&from.layout);
        let shape = from.layout.shape.clone();
        let from = Access { layout: from.layout.permute(&order), ..from.clone() };
        let copy = match self.rounded.iter().find(|(known, _)| *known == from) {
            Some((_, copy)) => copy.clone(),
            None => {
                let to = self.copied(op, &from, dtype);
                self.rounded.push((from, to.clone()));
                to
            }
        };
        Access { layout: copied_layout(&shape, &order), ..copy }
    }
}

impl<T: Target> Lowering<'_, T> {
    /// Copies an operand to another dtype, a matrix with rows of zeros behind it that make their number
    /// aligned.
    fn copied(&mut self, op: OpId, from: &Access, dtype: DType) -> Access {
        let shape = &from.layout.shape;
        let copy = Kernel::Loop(identity(shape));
        let [rows, columns] = match shape[..] {
            [rows, columns] if !rows.is_multiple_of(EXTENT_ALIGNMENT) => [rows, columns],
            _ => {
                let to = self.lowered.temporary(Type::new(dtype, shape.clone()));
                self.push(op, copy, vec![from.clone()], vec![to.clone()]);
                return to;
            }
        };
        let all = rows.next_multiple_of(EXTENT_ALIGNMENT);
        let whole = self.lowered.temporary(Type::new(dtype, [all, columns]));
        let window = |first: usize, limit: usize| Access {
            layout: whole.layout.slice(&[first, 0], &[limit, columns], &[1, 1]),
            ..whole.clone()
        };
        let (to, behind) = (window(0, rows), window(rows, all));
        let parts = vec![part(copy, 0..1, 0), part(zeros(&behind.layout.shape), 1..1, 1)];
        self.push(op, Kernel::Group(parts), vec![from.clone()], vec![to.clone(), behind]);
        let room = Room { elements: 0, lines: all - rows };
        self.padded.push(Padded { buffer: to.buffer, elements: rows * columns, room, is_zero: true });
        to
    }
}

/// A buffer that is larger than what is in it.
pub(super) struct Padded {
    pub(super) buffer: ValueId,
    /// How many elements are in it.
    pub(super) elements: usize,
    pub(super) room: Room,
    /// Whether there are zeros behind what is in it.
    pub(super) is_zero: bool,
}

/// A part of a group with these reads and one write.
pub(super) fn part(kernel: Kernel, reads: Range<usize>, write: usize) -> Part {
    Part { kernel, reads, writes: write..write + 1, schedule: Schedule::Whole, workspace: 0..0 }
}

/// A loop that writes zeros.
pub(super) fn zeros(shape: &Shape) -> Kernel {
    let zero =
        Node { kind: NodeKind::Constant(Number::Float(0.0)), dtype: DType::F32, level: Level::Uniform };
    Kernel::Loop(Body { nodes: vec![zero], ..identity(shape) })
}

/// The layout of an operand once it is of another dtype.
pub(super) fn rounded_layout(layout: &Layout) -> Layout {
    copied_layout(&layout.shape, &rounded_order(layout))
}

/// Axes from the widest stride to the narrowest one: neighbours stay neighbours.
fn rounded_order(layout: &Layout) -> Vec<usize> {
    let mut order: Vec<usize> = (0..layout.shape.rank()).collect();
    sort_by_key(&mut order, |&axis| std::cmp::Reverse(layout.strides[axis]));
    order
}

/// The dtype of a product that a loop follows: of 16 bits if all that comes of it is.
pub(super) fn product_dtype(writes: &[Access]) -> DType {
    let mut dtypes = writes.iter().map(|write| write.dtype);
    let first = dtypes.next().unwrap_or(DType::F32);
    if dtypes.all(|dtype| dtype == first) && first.is_float() { first } else { DType::F32 }
}

/// A loop that copies.
fn identity(shape: &Shape) -> Body {
    let columns = shape.last().copied().unwrap_or(1);
    Body {
        rows: shape.elements() / columns.max(1),
        columns,
        nodes: vec![Node { kind: NodeKind::Load(0), dtype: DType::F32, level: Level::Element }],
        stores: vec![Store::Value { node: NodeId(0), level: Level::Element, write: 0 }],
    }
}
