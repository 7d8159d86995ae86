//! A stable sort for short or rarely sorted lists. All element types share one implementation, whereas std's
//! sorts generate about 6 KB of machine code per type and order. Code that runs in every step on the CPU uses
//! std's sorts.

use std::cmp::Ordering;

/// Sorts a list stably.
pub fn sort<T: Ord>(list: &mut [T]) {
    sort_by(list, Ord::cmp);
}

/// Sorts a list stably by a key. The key is recomputed for each comparison.
pub fn sort_by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(list, |a, b| key(a).cmp(&key(b)));
}

/// Sorts a list stably with a comparison function.
pub fn sort_by<T>(list: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut from = sorted_positions(list.len(), &|a, b| compare(&list[a], &list[b]));
    permute(&mut from, &mut |a, b| list.swap(a, b));
}

/// Returns, for each position, the index of the element that belongs there, using a bottom-up merge sort.
fn sorted_positions(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut runs: Vec<usize> = (0..len).collect();
    let mut merged = runs.clone();
    let mut width = 1;
    while width < len {
        for start in (0..len).step_by(2 * width) {
            let (middle, end) = ((start + width).min(len), (start + 2 * width).min(len));
            let (mut left, mut right) = (start, middle);
            for place in &mut merged[start..end] {
                let from_right =
                    left == middle || (right < end && compare(runs[right], runs[left]) == Ordering::Less);
                let next = if from_right { &mut right } else { &mut left };
                *place = runs[*next];
                *next += 1;
            }
        }
        std::mem::swap(&mut runs, &mut merged);
        width *= 2;
    }
    runs
}

/// Moves the element at `from[i]` to `i` for all `i`, by swapping along the cycles of the permutation. Leaves
/// `from` as 0, 1, 2, ..
fn permute(from: &mut [usize], swap: &mut dyn FnMut(usize, usize)) {
    for first in 0..from.len() {
        let mut at = first;
        loop {
            let next = std::mem::replace(&mut from[at], at);
            if next == first {
                break;
            }
            swap(at, next);
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests all lists of up to seven numbers from 0 to 2 and some long ones. Each number is paired with its
    /// position to distinguish equal numbers.
    #[test]
    fn sorts_as_std_does() {
        let mut lists: Vec<Vec<(usize, usize)>> = Vec::new();
        for len in 0..8u32 {
            lists.extend((0..3usize.pow(len)).map(|code| {
                (0..len as usize).map(|i| (code / 3usize.pow(i as u32) % 3, i)).collect::<Vec<_>>()
            }));
        }
        lists.extend((100..140).map(|len| (0..len).map(|i| (i * 7919 % 37, i)).collect()));
        for mut list in lists {
            let mut expected = list.clone();
            expected.sort_by_key(|pair| std::cmp::Reverse(pair.0));
            sort_by_key(&mut list, |pair| std::cmp::Reverse(pair.0));
            assert_eq!(list, expected);
            expected.sort();
            sort(&mut list);
            assert_eq!(list, expected);
        }
    }
}
