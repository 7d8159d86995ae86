//! Normalization of attributes beyond their effective range.
//!
//! A step that immediately leaves the range becomes the length of the range, and a gap between fewer than two
//! elements becomes 0. Steps and gaps in a graph therefore never exceed the extents of the op's operand or
//! result, and later stages can multiply them without overflow.

use super::{OpKind, Type, Window};

impl OpKind {
    /// Returns the same op with its steps and gaps normalized. `first` is the type of the first operand.
    /// Invalid attributes are left for the shape rule to reject.
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
                        *dilation = (*dilation).min(1);
                    }
                    // Every step beyond `room` leaves only one window, so use the least such step.
                    if let Some(room) = (Window { size, step: 1, dilation: *dilation }).room(n) {
                        *step = (*step).min(room + 1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::infer::infer;
    use crate::ir::{Builder, DType, Graph, Number};

    /// Returns all slices, windows and pads of small axes, including those with invalid attributes.
    fn kinds() -> Vec<(OpKind, Type)> {
        let mut kinds = Vec::new();
        for n in 0..6 {
            let ty = Type::new(DType::F32, [n]);
            for (a, b, c) in (0..7).flat_map(|a| (0..7).flat_map(move |b| (0..9).map(move |c| (a, b, c)))) {
                let of = |value: usize| vec![value];
                kinds.push((OpKind::Slice { start: of(a), limit: of(b), step: of(c) }, ty.clone()));
                kinds.push((OpKind::Windows { size: of(a), dilation: of(b), step: of(c) }, ty.clone()));
                let value = Number::Float(0.0);
                kinds.push((OpKind::Pad { low: of(a), high: of(b), interior: of(c), value }, ty.clone()));
            }
        }
        kinds
    }

    /// Returns the operand positions that an op reads according to its attributes; `None` is padding.
    fn positions(kind: &OpKind, n: usize) -> Vec<Option<usize>> {
        match kind {
            OpKind::Slice { start, limit, step } => (start[0]..limit[0]).step_by(step[0]).map(Some).collect(),
            OpKind::Windows { size, step, dilation } => {
                let window = Window { size: size[0], step: step[0], dilation: dilation[0] };
                let starts = (0..window.count(n).unwrap()).map(|i| i * step[0]);
                starts.flat_map(|start| (0..size[0]).map(move |k| Some(start + k * dilation[0]))).collect()
            }
            OpKind::Pad { low, high, interior, .. } => {
                let inner = (0..n).flat_map(|i| {
                    let gap = if i + 1 < n { interior[0] } else { 0 };
                    std::iter::once(Some(i)).chain(std::iter::repeat_n(None, gap))
                });
                let outside = |count: usize| std::iter::repeat_n(None, count);
                outside(low[0]).chain(inner).chain(outside(high[0])).collect()
            }
            _ => unreachable!("not one of the kinds"),
        }
    }

    #[test]
    fn settled_attributes_mean_the_same_for_every_small_axis() {
        let (mut legal, mut changed) = (0, 0);
        for (kind, ty) in kinds() {
            let settled = kind.clone().settled(Some(&ty));
            let mut graph = Graph::new();
            let x =
                Builder::new(&mut graph, None).op(OpKind::Input { name: "x".into(), ty: ty.clone() }, &[]);
            let types = |kind: &OpKind| infer(&graph, kind, &[x]).ok();
            let before = types(&kind);
            assert_eq!(before, types(&settled), "{kind:?} of {ty} became {settled:?}");
            if before.is_some() {
                let n = ty.shape[0];
                assert_eq!(positions(&kind, n), positions(&settled, n), "{kind:?} of {ty}: {settled:?}");
                legal += 1;
                changed += usize::from(kind != settled);
            }
        }
        assert!(legal > 3000 && changed > 500, "{legal} legal ones, {changed} changed");
    }
}
