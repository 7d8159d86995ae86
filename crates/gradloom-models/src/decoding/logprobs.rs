//! Log-probabilities of tokens on the host.

/// Returns the natural logarithms of the softmax probabilities of the logits, without temperature and
/// truncation: that of `token`, or NaN if it is out of range, and those of the `n` most likely tokens with
/// their ids, in descending order.
///
/// Of equal logits, the lower id comes first. NaN ranks above all numbers and makes all results NaN.
pub fn logprobs(logits: &[f32], token: usize, n: usize) -> (f64, Vec<(usize, f64)>) {
    let values: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
    let most = values.iter().copied().fold(f64::NEG_INFINITY, |a, b| if a > b || a.is_nan() { a } else { b });
    let sum = values.iter().map(|value| libm::exp(value - most)).sum::<f64>();
    let logarithm = |id: usize| values[id] - most - libm::log(sum);
    let mut order: Vec<usize> = (0..values.len()).collect();
    let rank = |id: usize| if values[id].is_nan() { f64::INFINITY } else { values[id] };
    // Adding 0 turns -0 into 0, so that they compare as equal.
    order.sort_by(|&a, &b| (rank(b) + 0.0).total_cmp(&(rank(a) + 0.0)).then(a.cmp(&b)));
    order.truncate(n);
    let own = if token < values.len() { logarithm(token) } else { f64::NAN };
    (own, order.into_iter().map(|id| (id, logarithm(id))).collect())
}

#[cfg(test)]
mod tests {
    use super::logprobs;

    #[test]
    fn they_are_those_of_the_softmax() {
        let logits = [2.0f32.ln(), 5.0f32.ln(), f32::NEG_INFINITY, 1.0f32.ln(), 2.0f32.ln()];
        let (own, top) = logprobs(&logits, 3, 4);
        assert!((own - 0.1f64.ln()).abs() < 1e-6);
        let want = [(1, 0.5f64), (0, 0.2), (4, 0.2), (3, 0.1)];
        assert_eq!(top.len(), 4);
        for ((id, got), (want_id, want)) in top.into_iter().zip(want) {
            assert!(id == want_id && (got - want.ln()).abs() < 1e-6, "{id}: {got}");
        }
        assert_eq!(logprobs(&logits, 2, 9).0, f64::NEG_INFINITY);
        assert_eq!(logprobs(&logits, 2, 9).1.len(), 5);
        assert!(logprobs(&logits, 5, 0).0.is_nan() && logprobs(&[], 0, 1).1.is_empty());
        let (own, top) = logprobs(&[0.0, f32::NAN], 0, 1);
        assert!(own.is_nan() && top[0].0 == 1 && top[0].1.is_nan());
    }
}
