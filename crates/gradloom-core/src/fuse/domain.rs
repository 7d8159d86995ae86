//! The domain of a kernel: the number of positions and their division into rows.

/// The positions of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    /// Number of positions.
    pub(super) elements: usize,
    /// Number of rows and columns, if a division into rows is required.
    pub(super) split: Option<(usize, usize)>,
}

impl Domain {
    /// Returns the common domain of two kernels, in which each computes one element per position, one per
    /// row, or one in total. Returns `None` if no such domain exists.
    ///
    /// `splits` are the divisions into rows that the values passed between the kernels require.
    pub(super) fn unify(
        self,
        other: Domain,
        splits: impl IntoIterator<Item = (usize, usize)>,
    ) -> Option<Domain> {
        let elements = self.elements.max(other.elements);
        let smaller = self.elements.min(other.elements);
        let mut split = None;
        for wanted in [self.split, other.split].into_iter().flatten().chain(splits) {
            if split.is_some_and(|known| known != wanted) || wanted.0 * wanted.1 != elements {
                return None;
            }
            split = Some(wanted);
        }
        if smaller == elements {
            return Some(Domain { elements, split });
        }
        // The smaller kernel computes one element per row or one in total, so it must not have rows itself.
        let small = if self.elements == smaller { self } else { other };
        let by_rows = split.is_some_and(|(rows, _)| rows == smaller);
        (small.split.is_none() && (by_rows || smaller == 1)).then_some(Domain { elements, split })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(elements: usize, split: Option<(usize, usize)>) -> Domain {
        Domain { elements, split }
    }

    #[test]
    fn a_map_takes_the_rows_of_a_reduction() {
        let reduction = domain(12, Some((3, 4)));
        assert_eq!(domain(12, None).unify(reduction, []), Some(reduction));
        assert_eq!(reduction.unify(domain(3, None), []), Some(reduction));
        assert_eq!(domain(1, None).unify(reduction, []), Some(reduction));
        assert_eq!(domain(3, None).unify(domain(12, None), [(3, 4)]), Some(reduction));
    }

    #[test]
    fn what_does_not_line_up_stays_apart() {
        let reduction = domain(12, Some((3, 4)));
        for other in [domain(4, None), domain(12, Some((4, 3))), domain(3, Some((1, 3))), domain(24, None)] {
            assert_eq!(reduction.unify(other, []), None, "{other:?}");
            assert_eq!(other.unify(reduction, []), None, "{other:?}");
        }
        assert_eq!(domain(3, None).unify(domain(12, None), []), None);
        assert_eq!(domain(3, None).unify(domain(12, None), [(4, 3)]), None);
        assert_eq!(domain(12, None).unify(domain(12, None), [(3, 5)]), None);
    }
}
