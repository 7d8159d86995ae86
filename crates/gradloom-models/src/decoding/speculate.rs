//! Speculative decoding: acceptance of drafted tokens by a larger model, and choice of the token that follows
//! them.
//!
//! In: tokens drawn by a draft model, the distributions that they were drawn from, and those of the target
//! model at the same positions, all after temperature and truncation
//! ([`Sampling::probabilities`](super::Sampling::probabilities)). Out: the number of accepted tokens, and the
//! next token. Invariant: the tokens have exactly the target model's distribution: Leviathan, Kalman and
//! Matias, "Fast Inference from Transformers via Speculative Decoding" (2023), algorithm 1 and appendix A.1;
//! Chen et al., "Accelerating Large Language Model Decoding with Speculative Sampling" (2023).

use super::sampling::draw;

/// Result of verifying a draft against the target model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Number of accepted tokens.
    pub count: usize,
    /// Token that follows the accepted ones.
    pub next: usize,
}

/// Decides which of the `drafted` tokens to accept.
///
/// `draft` contains the distribution from which each token was drawn. `target` contains the distributions of
/// the target model at the same positions, and one more for the position after the last token. `accept` and
/// `correct` return a random number in 0..1 for a position. The numbers must be independent of each other and
/// of those with which the draft was drawn; [`Draw::Accept`](super::Draw::Accept) and
/// [`Draw::Correction`](super::Draw::Correction) are meant for them.
///
/// Token x is accepted with probability min(1, target(x) / draft(x)). The first rejected token is replaced by
/// a draw from max(0, target - draft), and the drafted tokens after it are discarded. If all are accepted,
/// the next token is drawn from the last distribution.
pub(crate) fn speculate(
    drafted: &[usize],
    draft: &[impl AsRef<[f64]>],
    target: &[impl AsRef<[f64]>],
    mut accept: impl FnMut(usize) -> f64,
    mut correct: impl FnMut(usize) -> f64,
) -> Accepted {
    debug_assert_eq!([draft.len(), target.len()], [drafted.len(), drafted.len() + 1]);
    for (place, &token) in drafted.iter().enumerate() {
        let (q, p) = (draft[place].as_ref(), target[place].as_ref());
        debug_assert!(q.len() == p.len() && q[token] > 0.0);
        if accept(place) * q[token] < p[token] {
            continue;
        }
        let left: Vec<f64> = p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect();
        // Draw from the target if no weight remains, which happens if the distributions are equal except for
        // rounding.
        let from = if left.iter().any(|&weight| weight > 0.0) { &left } else { p };
        return Accepted { count: place, next: draw(from, correct(place)) };
    }
    let last = drafted.len();
    Accepted { count: last, next: draw(target[last].as_ref(), correct(last)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of cells in the unit interval. Every threshold in the tests is a multiple of 1 / `GRID`.
    const GRID: usize = 60;

    fn middle(cell: usize) -> f64 {
        (cell as f64 + 0.5) / GRID as f64
    }

    /// Returns the exact distribution of the outcomes at one position: drafted tokens are weighted by their
    /// probability, and random numbers are the midpoints of the cells between thresholds.
    fn marginal(draft: &[f64], target: &[f64], next: &[f64]) -> Vec<f64> {
        let mut first = vec![0.0; target.len()];
        for (token, &q) in draft.iter().enumerate().filter(|(_, q)| **q > 0.0) {
            for a in 0..GRID {
                for c in 0..GRID {
                    let done = speculate(&[token], &[draft], &[target, next], |_| middle(a), |_| middle(c));
                    let Accepted { count, next } = done;
                    first[if count == 1 { token } else { next }] += q / (GRID * GRID) as f64;
                }
            }
        }
        first
    }

    #[track_caller]
    fn near(got: &[f64], want: &[f64]) {
        let near = got.len() == want.len() && got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12);
        assert!(near, "{got:?}, not {want:?}");
    }

    #[test]
    fn the_first_token_has_the_targets_distribution() {
        // Ratios below 1 are 1/2, 1/3, 2/3, 3/4 and 0; the remaining weight is divided into parts of 1/5,
        // 1/4, 1/3 and 1/2. All of these are multiples of 1 / `GRID`.
        let pairs: [(&[f64], &[f64]); 7] = [
            (&[0.5, 0.25, 0.25], &[0.25, 0.25, 0.5]),
            (&[0.75, 0.25, 0.0], &[0.25, 0.5, 0.25]),
            (&[0.0, 0.4, 0.6], &[0.5, 0.2, 0.3]),
            (&[0.4, 0.4, 0.2], &[0.4, 0.4, 0.2]),
            (&[1.0, 0.0, 0.0], &[0.0, 0.25, 0.75]),
            (&[0.25, 0.25, 0.25, 0.25], &[0.0, 0.5, 0.3, 0.2]),
            (&[1.0], &[1.0]),
        ];
        for (draft, target) in pairs {
            near(&marginal(draft, target, target), target);
        }
    }

    /// Drafts two tokens with context-dependent distributions. The joint distribution of the first two output
    /// tokens is the target's, even if the second one comes from the next call.
    #[test]
    fn two_tokens_have_the_targets_joint_distribution() {
        let draft = [[0.5, 0.5], [0.8, 0.2], [0.5, 0.5]];
        let target = [[0.25, 0.75], [0.4, 0.6], [0.9, 0.1]];
        // Row 0 is the first position; row 1 + t is the position after token t.
        let mut joint = [[0.0; 2]; 2];
        const CELLS: usize = 20;
        let middle = |cell: usize| (cell as f64 + 0.5) / CELLS as f64;
        for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let drawn = draft[0][first] * draft[1 + first][second];
            for cells in 0..CELLS.pow(3) {
                let [a, b, c] = [cells % CELLS, cells / CELLS % CELLS, cells / CELLS / CELLS].map(middle);
                let places = [target[0], target[1 + first], [0.5, 0.5]];
                let done = speculate(
                    &[first, second],
                    &[draft[0], draft[1 + first]],
                    &places,
                    |place| [a, b][place],
                    |_| c,
                );
                let Accepted { count, next } = done;
                let weight = drawn / CELLS.pow(3) as f64;
                match count {
                    // Weight the second token by the target's distribution: it comes from the next call,
                    // which the other test covers.
                    0 => (0..2).for_each(|t| joint[next][t] += weight * target[1 + next][t]),
                    1 => joint[first][next] += weight,
                    _ => joint[first][second] += weight,
                }
            }
        }
        for first in 0..2 {
            let want = target[1 + first].map(|p| p * target[0][first]);
            near(&joint[first], &want);
        }
    }

    #[test]
    fn greedy_is_plain_greedy() {
        let sure = |token: usize| {
            let mut row = [0.0; 4];
            row[token] = 1.0;
            row
        };
        let target = [sure(2), sure(0), sure(3), sure(1)];
        for (drafted, count, next) in
            [([2, 0, 3], 3, 1), ([2, 0, 1], 2, 3), ([2, 3, 3], 1, 0), ([1, 0, 3], 0, 2)]
        {
            let draft = drafted.map(sure);
            for uniform in [0.0, 0.5, 1.0 - f64::EPSILON] {
                let done = speculate(&drafted, &draft, &target, |_| uniform, |_| uniform);
                assert_eq!(done, Accepted { count, next });
            }
        }
        // Without drafted tokens, the next token is drawn from the target.
        let none: [[f64; 4]; 0] = [];
        assert_eq!(speculate(&[], &none, &[[0.25; 4]], |_| 0.0, |_| 0.6), Accepted { count: 0, next: 2 });
    }
}
