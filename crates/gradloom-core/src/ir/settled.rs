//! Canonical form of attributes that no element depends on.
//!
//! A step that leads out of the range at once is the range's length, and a gap between fewer than two
//! elements is 0. So steps and gaps of a graph are never larger than the extents beside them, and what later
//! stages multiply with them stays countable.

use super::{OpKind, Type, Window};

impl OpKind {
    /// Returns the same op with its steps and gaps limited: those without an effect get the value that is
    /// kept in their place. `first` is the type of the first operand. Attributes that do not fit are left
    /// for the shape rule to refuse.
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
                    // The shortest step that leaves one window stands for all longer ones.
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

    /// Returns every slice, window and pad of small axes, with attributes beyond what fits.
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

    /// Returns the positions of the operand that an op reads, by its attributes as they are.
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
