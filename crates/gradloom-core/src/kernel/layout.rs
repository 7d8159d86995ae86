//! Strided layouts and the transformations that view ops apply to them.
//!
//! Invariant: two layouts of the same shape that address the same elements are equal, because the strides of
//! axes of extent 1, which do not affect any element, are set to their values in row-major order.

use crate::collections::sort_by;
use crate::ir::Shape;
use std::ops::Range;

/// Positions of a tensor's elements in a buffer: element `(i0, i1, ..)` is at `offset + i0·strides[0] + ..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Offset of the first element, in elements from the start of the buffer.
    pub offset: usize,
    /// Extents of the axes.
    pub shape: Shape,
    /// Strides in elements. A stride of 0 repeats elements.
    pub strides: Vec<usize>,
}

impl Layout {
    /// Creates a layout from its fields. Normalizes the strides of axes of extent 1.
    ///
    /// # Panics
    /// Panics if the number of strides differs from the number of axes.
    pub fn new(offset: usize, shape: Shape, mut strides: Vec<usize>) -> Self {
        assert_eq!(strides.len(), shape.rank(), "a stride for each axis of {shape}");
        for axis in (0..shape.rank()).rev().filter(|&axis| shape[axis] == 1) {
            strides[axis] = if axis + 1 < shape.rank() { strides[axis + 1] * shape[axis + 1] } else { 1 };
        }
        Self { offset, shape, strides }
    }

    /// Creates a row-major layout that begins at the start of the buffer.
    pub fn contiguous(shape: &Shape) -> Self {
        Self { offset: 0, shape: shape.clone(), strides: shape.strides() }
    }

    /// Creates a layout that repeats one element.
    pub fn splat(shape: &Shape) -> Self {
        Self::new(0, shape.clone(), vec![0; shape.rank()])
    }

    /// Returns `true` if the elements are contiguous in row-major order, at any offset.
    pub fn is_contiguous(&self) -> bool {
        let natural = self.shape.strides();
        self.shape.elements() == 0
            || (0..self.shape.rank()).all(|a| self.shape[a] == 1 || self.strides[a] == natural[a])
    }

    /// Returns the position in the buffer of each element, in row-major order.
    pub fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        let mut index = vec![0; self.shape.rank()];
        (0..self.shape.elements()).map(move |_| {
            let position = self.offset + index.iter().zip(&self.strides).map(|(i, s)| i * s).sum::<usize>();
            for (i, &extent) in index.iter_mut().zip(&*self.shape).rev() {
                *i += 1;
                if *i < extent {
                    break;
                }
                *i = 0;
            }
            position
        })
    }

    /// Permutes the axes: axis i of the result is axis `perm[i]`.
    pub fn permute(&self, perm: &[usize]) -> Self {
        let shape: Vec<usize> = perm.iter().map(|&a| self.shape[a]).collect();
        Self::new(self.offset, shape.into(), perm.iter().map(|&a| self.strides[a]).collect())
    }

    /// Broadcasts axes of extent 1 to `shape`.
    pub fn broadcast(&self, shape: &Shape) -> Self {
        let strides =
            (0..shape.rank()).map(|a| if self.shape[a] == shape[a] { self.strides[a] } else { 0 }).collect();
        Self::new(self.offset, shape.clone(), strides)
    }

    /// Selects the elements `start, start + step, ..` below `limit` of each axis.
    pub fn slice(&self, start: &[usize], limit: &[usize], step: &[usize]) -> Self {
        let rank = self.shape.rank();
        let shape: Vec<usize> = (0..rank).map(|a| (limit[a] - start[a]).div_ceil(step[a])).collect();
        // Keep the offset of an empty slice inside the buffer, since the slice may start at the very end.
        let offset = match shape.contains(&0) {
            true => self.offset,
            false => self.offset + (0..rank).map(|a| start[a] * self.strides[a]).sum::<usize>(),
        };
        // Ignore a step between fewer than two elements, which has no effect and may be arbitrarily large.
        let strides = (0..rank).map(|a| if shape[a] > 1 { self.strides[a] * step[a] } else { 0 }).collect();
        Self::new(offset, shape.into(), strides)
    }

    /// Creates sliding windows over the last axes; see [`crate::ir::OpKind::Windows`]. `shape` is the
    /// resulting shape.
    pub fn windows(&self, shape: &Shape, step: &[usize], dilation: &[usize]) -> Self {
        let first = self.shape.rank() - step.len();
        let mut strides = self.strides.clone();
        for (i, (step, dilation)) in step.iter().zip(dilation).enumerate() {
            strides.push(self.strides[first + i] * dilation);
            strides[first + i] *= step;
        }
        Self::new(self.offset, shape.clone(), strides)
    }

    /// Returns the layout of the same elements in another shape, or `None` if no strides can represent it.
    pub fn reshape(&self, shape: &Shape) -> Option<Self> {
        if shape.elements() == 0 {
            return Some(Self { offset: self.offset, ..Self::contiguous(shape) });
        }
        let groups = self.collapsed();
        let mut strides = vec![0; shape.rank()];
        let mut groups = groups.into_iter().rev();
        let (mut left, mut stride) = groups.next().unwrap_or((1, 1));
        for axis in (0..shape.rank()).rev() {
            let extent = shape[axis];
            if extent == 1 {
                continue;
            }
            while left == 1 {
                (left, stride) = groups.next()?;
            }
            if left % extent != 0 {
                return None;
            }
            strides[axis] = stride;
            stride *= extent;
            left /= extent;
        }
        Some(Self::new(self.offset, shape.clone(), strides))
    }

    /// Returns the minimal (extent, stride) pairs, outermost first, that visit the same elements in the same
    /// order. Omits axes of extent 1.
    pub fn collapsed(&self) -> Vec<(usize, usize)> {
        let mut groups: Vec<(usize, usize)> = Vec::new();
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            if extent == 1 {
                continue;
            }
            match groups.last_mut() {
                Some((outer, outer_stride)) if *outer_stride == stride.saturating_mul(extent) => {
                    *outer *= extent;
                    *outer_stride = stride;
                }
                _ => groups.push((extent, stride)),
            }
        }
        groups
    }

    /// Returns a range of elements of the buffer that contains those at a range of row-major positions.
    pub fn span(&self, positions: Range<usize>) -> Range<usize> {
        if positions.is_empty() {
            return 0..0;
        }
        let (mut start, mut first, mut last) = (self.offset, positions.start, positions.end - 1);
        let axes = self.collapsed();
        for (number, &(extent, stride)) in axes.iter().enumerate() {
            let inner: usize = axes[number + 1..].iter().map(|axis| axis.0).product();
            let [low, high] = [first / inner % extent, last / inner % extent];
            start += low * stride;
            if low != high {
                // Between the first and the last index of this axis, all indices of the others occur.
                let rest: usize = axes[number + 1..].iter().map(|&(n, stride)| (n - 1) * stride).sum();
                return start..start + (high - low) * stride + rest + 1;
            }
            (first, last) = (first % inner, last % inner);
        }
        start..start + 1
    }

    /// Returns (stride, extent) of the axes in descending order of strides, merging axes without gaps. Omits
    /// axes that do not address further elements: those of extent 1, and those of stride 0, which repeat
    /// elements.
    fn by_stride(&self) -> Vec<(usize, usize)> {
        let axes = self.shape.iter().zip(&self.strides).map(|(&n, &s)| (s, n));
        let mut axes: Vec<(usize, usize)> = axes.filter(|&(s, n)| n != 1 && s != 0).collect();
        sort_by(&mut axes, |a, b| b.cmp(a));
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for (stride, extent) in axes {
            match merged.last_mut() {
                Some((outer, count)) if *outer == stride.saturating_mul(extent) => {
                    (*outer, *count) = (stride, count.saturating_mul(extent))
                }
                _ => merged.push((stride, extent)),
            }
        }
        merged
    }

    /// Returns `true` if the layout addresses no element of the buffer more than once. May return `false` for
    /// an injective layout whose axes interleave.
    pub fn is_injective(&self) -> bool {
        if self.shape.elements() == 0 {
            return true;
        }
        let repeats = self.shape.iter().zip(&self.strides).any(|(&n, &stride)| n > 1 && stride == 0);
        let axes = self.by_stride();
        let spans = axes.iter().rev().scan(0, |inner, &(stride, extent)| {
            let fits = stride > *inner;
            *inner = inner.saturating_add(stride.saturating_mul(extent - 1));
            Some(fits)
        });
        !repeats && spans.into_iter().all(|fits| fits)
    }

    /// Returns `true` if two layouts definitely have no element in common: one ends before the other starts,
    /// or they occupy different columns of rows with the same pitch.
    pub fn is_disjoint(&self, other: &Layout) -> bool {
        if self.end() <= other.offset || other.end() <= self.offset {
            return true;
        }
        // Returns the length of contiguous runs and the axes around them.
        fn runs(axes: &[(usize, usize)]) -> (usize, &[(usize, usize)]) {
            match axes {
                [outer @ .., (1, width)] => (*width, outer),
                all => (1, all),
            }
        }
        let (a, b) = (self.by_stride(), other.by_stride());
        let ((width, a), (other_width, b)) = (runs(&a), runs(&b));
        let pitches = a.iter().chain(b).map(|&(stride, _)| stride);
        let Some(pitch) = pitches.clone().min() else { return false };
        let (at, other_at) = (self.offset % pitch, other.offset % pitch);
        let beside = at + width <= other_at || other_at + other_width <= at;
        pitches.clone().all(|stride| stride % pitch == 0)
            && at + width <= pitch
            && other_at + other_width <= pitch
            && beside
    }

    /// Returns one more than the position of the last element, which is the minimum number of elements of the
    /// buffer. Returns 0 if the layout is empty, and saturates at [`usize::MAX`], which exceeds the size of
    /// any buffer.
    pub fn end(&self) -> usize {
        if self.shape.elements() == 0 {
            return 0;
        }
        let last = self.shape.iter().zip(&self.strides).map(|(n, s)| (n - 1).saturating_mul(*s));
        last.fold(self.offset, usize::saturating_add).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(layout: &Layout) -> Vec<usize> {
        let mut all = vec![layout.offset];
        for (&n, &s) in layout.shape.iter().zip(&layout.strides) {
            all = all.iter().flat_map(|&p| (0..n).map(move |i| p + i * s)).collect();
        }
        all
    }

    #[test]
    fn elements_are_at_the_offset_plus_index_times_stride() {
        for shape in [&[][..], &[5], &[2, 3, 4], &[1, 3, 1], &[2, 0, 3], &[0]] {
            let natural = Layout::contiguous(&shape.to_vec().into());
            let apart =
                Layout::new(7, natural.shape.clone(), (0..shape.len()).map(|axis| 100 >> axis).collect());
            for layout in [natural, apart] {
                assert_eq!(layout.positions().collect::<Vec<_>>(), positions(&layout), "{layout:?}");
            }
        }
    }

    #[test]
    fn reshape_keeps_the_order_of_elements_or_declines() {
        let base = Layout::contiguous(&[2, 3, 4].into());
        let cases: [(Layout, Shape, bool); 7] = [
            (base.clone(), [6, 4].into(), true),
            (base.permute(&[1, 0, 2]), [3, 2, 2, 2].into(), true),
            (base.permute(&[1, 0, 2]), [6, 4].into(), false),
            (base.slice(&[0, 0, 1], &[2, 3, 3], &[1, 1, 1]), [6, 2].into(), true),
            (base.slice(&[0, 0, 1], &[2, 3, 3], &[1, 1, 1]), [12].into(), false),
            (Layout::splat(&[2, 3].into()), [3, 2].into(), true),
            (Layout::splat(&[1, 1].into()), Shape::scalar(), true),
        ];
        for (from, to, possible) in cases {
            let reshaped = from.reshape(&to);
            assert_eq!(reshaped.is_some(), possible, "{from:?} to {to}");
            if let Some(reshaped) = reshaped {
                assert_eq!(positions(&reshaped), positions(&from));
            }
        }
    }

    #[test]
    fn windows_of_one_buffer_are_told_apart() {
        let rows = Layout::contiguous(&[4, 6].into());
        let columns = |from: usize, to: usize| rows.slice(&[0, from], &[4, to], &[1, 1]);
        assert!(columns(0, 2).is_disjoint(&columns(2, 6)));
        assert!(columns(2, 6).is_disjoint(&columns(0, 2)));
        assert!(columns(0, 1).is_disjoint(&columns(1, 2)) && !columns(1, 2).is_disjoint(&columns(1, 2)));
        assert!(!columns(0, 3).is_disjoint(&columns(2, 6)));
        assert!(!rows.is_disjoint(&columns(2, 3)));
        assert!(rows.slice(&[0, 0], &[2, 6], &[1, 1]).is_disjoint(&rows.slice(&[2, 0], &[4, 6], &[1, 1])));
        let heads = |from: usize| {
            columns(from, from + 2).reshape(&[2, 2, 1, 2].into()).unwrap().permute(&[0, 2, 1, 3])
        };
        assert!(heads(0).is_disjoint(&heads(4)) && !heads(0).is_disjoint(&heads(1)));
        assert!(heads(0).is_injective() && rows.permute(&[1, 0]).is_injective());
        assert!(!Layout::splat(&[2, 3].into()).is_injective());
        assert!(!rows.slice(&[0, 0], &[1, 6], &[1, 1]).broadcast(&[4, 6].into()).is_injective());
    }

    /// Returns all layouts of rank at most 2 with extents up to 3, strides up to 4 and offsets up to 3.
    fn small_layouts() -> Vec<Layout> {
        let mut axes = vec![vec![]];
        for rank in 0..2 {
            let shorter: Vec<_> = axes.iter().filter(|list: &&Vec<_>| list.len() == rank).cloned().collect();
            for (n, stride) in (0..=3).flat_map(|n| (0..=4).map(move |stride| (n, stride))) {
                axes.extend(shorter.iter().map(|list| [&list[..], &[(n, stride)]].concat()));
            }
        }
        let layout = |axes: &Vec<(usize, usize)>, offset| {
            let (shape, strides): (Vec<usize>, Vec<usize>) = axes.iter().copied().unzip();
            Layout::new(offset, shape.into(), strides)
        };
        axes.iter().flat_map(|axes| (0..=3).map(move |offset| layout(axes, offset))).collect()
    }

    #[test]
    fn what_is_said_of_every_small_layout_is_true() {
        let layouts = small_layouts();
        let places: Vec<Vec<usize>> = layouts.iter().map(positions).collect();
        let sets: Vec<u64> = places.iter().map(|all| all.iter().fold(0, |set, p| set | 1 << p)).collect();
        let (mut disjoint, mut injective) = (0, 0);
        for (i, layout) in layouts.iter().enumerate() {
            assert_eq!(layout.end(), places[i].iter().max().map_or(0, |last| last + 1), "{layout:?}");
            if layout.is_injective() {
                injective += 1;
                assert_eq!(sets[i].count_ones() as usize, places[i].len(), "{layout:?}");
            }
            for (j, other) in layouts.iter().enumerate() {
                if layout.is_disjoint(other) {
                    disjoint += 1;
                    assert_eq!(sets[i] & sets[j], 0, "{layout:?} and {other:?}");
                }
            }
            let elements = layout.shape.elements();
            for (a, b) in
                (0..=9).flat_map(|a| (0..=9).map(move |b| (a, b))).filter(|(a, b)| a * b == elements)
            {
                if let Some(reshaped) = layout.reshape(&[a, b].into()) {
                    assert_eq!(positions(&reshaped), places[i], "{layout:?} as [{a}, {b}]");
                }
            }
        }
        let counts = (layouts.len(), injective, disjoint);
        assert!(counts.0 > 1600 && counts.1 > 900 && counts.2 > 1_000_000, "{counts:?}");
    }

    #[test]
    fn an_empty_layout_needs_no_elements() {
        let empty = Layout::contiguous(&[2, 3].into()).slice(&[2, 0], &[2, 3], &[1, 1]);
        assert_eq!((empty.shape.elements(), empty.end()), (0, 0));
        assert!(empty.is_contiguous());
    }

    #[test]
    fn equal_elements_are_equal_layouts() {
        let contiguous = |shape: &[usize]| Layout::contiguous(&Shape::from(shape));
        assert_eq!(contiguous(&[4]).reshape(&[1, 4, 1].into()), Some(contiguous(&[1, 4, 1])));
        assert_eq!(contiguous(&[3, 1, 2]).permute(&[1, 0, 2]), contiguous(&[1, 3, 2]));
        assert_eq!(contiguous(&[1, 3]).broadcast(&[1, 3].into()), contiguous(&[1, 3]));
        assert_eq!(contiguous(&[4, 3]).slice(&[0, 0], &[1, 3], &[usize::MAX, 1]), contiguous(&[1, 3]));
        assert_eq!(Layout::splat(&[1, 1].into()), contiguous(&[1, 1]));
        assert_ne!(contiguous(&[3, 3]).permute(&[1, 0]), contiguous(&[3, 3]));
    }

    #[test]
    fn a_reshape_of_no_axes_and_of_no_elements() {
        let scalar = Layout::contiguous(&[2, 2].into()).slice(&[1, 1], &[2, 2], &[1, 1]);
        let reshaped = scalar.reshape(&Shape::scalar()).expect("one element has any shape");
        assert_eq!((reshaped.offset, reshaped.shape.rank(), reshaped.end()), (3, 0, 4));
        let empty = Layout::contiguous(&[0, 3].into()).permute(&[1, 0]);
        assert_eq!(empty.reshape(&[7, 0].into()).map(|layout| layout.end()), Some(0));
    }

    #[test]
    fn spans_contain_the_elements_at_their_positions() {
        let layouts = [
            Layout::contiguous(&[3, 4, 5].into()),
            Layout { offset: 7, ..Layout::contiguous(&[3, 4, 5].into()).permute(&[2, 0, 1]) },
            Layout::new(2, [4, 3, 2].into(), vec![0, 10, 3]),
            Layout::new(1, [2, 1, 6].into(), vec![50, 9, 2]),
            Layout::splat(&[4, 3].into()),
            Layout::contiguous(&Shape::scalar()),
        ];
        for layout in layouts {
            let places = positions(&layout);
            for start in 0..=places.len() {
                for end in start..=places.len() {
                    let (span, inside) = (layout.span(start..end), &places[start..end]);
                    assert!(inside.iter().all(|place| span.contains(place)), "{start}..{end} of {layout:?}");
                    assert_eq!(span.is_empty(), inside.is_empty());
                    assert!(span.end <= layout.end(), "{start}..{end} of {layout:?}");
                }
            }
            if layout.is_contiguous() {
                assert_eq!(layout.span(1.min(places.len())..places.len()).len(), places.len() - 1);
            }
        }
    }
}
