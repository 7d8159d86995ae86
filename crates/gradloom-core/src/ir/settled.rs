//! Canonical form of attributes that no element depends on.
//!
//! A step that leads out of the range at once is the range's length, and a gap between fewer than two
//! elements is 0. So steps and gaps of a graph are never larger than the extents beside them, and what later
//! stages multiply with them stays countable.

use super::{OpKind, Type, Window};

impl OpKind {
    /// The same op, with steps and gaps that say nothing set to what they are kept as. `first` is the type of
    /// the first operand. Attributes that do not fit are left for the shape rule to refuse.
    pub(super) fn settled(mut self, first: Option<&Type>) -> Self {
        match &mut self {
            OpKind::Slice { start, limit, step } => {
                for ((start, limit), step) in start.iter().zip(limit).zip(step) {
                    *step = (*step).min(limit.saturating_sub(*start).max(1));
                }
            }
            OpKind::Windows { size, step, dilation } => {
                let extents = first.map_or(&[][..], |ty| &ty.shape);
                let windowed = &extents[extents.len().saturating_sub(size.len())..];
                for (((&size, step), dilation), &n) in size.iter().zip(step).zip(dilation).zip(windowed) {
                    if size == 1 {
                        *dilation = 1;
                    }
                    let window = Window { size, step: *step, dilation: *dilation };
                    if window.count(n) == Some(1) {
                        *step = 1;
                    }
                }
            }
            OpKind::Pad { interior, .. } => {
                let extents = first.map_or(&[][..], |ty| &ty.shape);
                for (gap, _) in interior.iter_mut().zip(extents).filter(|(_, n)| **n < 2) {
                    *gap = 0;
                }
            }
            _ => {}
        }
        self
    }
}
