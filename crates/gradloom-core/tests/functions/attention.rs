//! Attention heads and causal masks.

use super::{assert_near, check_gradients, drawn, error, value};
use gradloom_core::trace::{AttentionOptions, literal};

#[test]
fn heads_become_an_axis_and_merge_again() {
    for (lead, time, heads, depth) in
        [(&[2][..], 3, 2, 4), (&[], 5, 1, 3), (&[2, 1], 1, 3, 1), (&[0], 2, 2, 2)]
    {
        let flat = [lead, &[time, heads * depth]].concat();
        let split = [lead, &[heads, time, depth]].concat();
        let x = [drawn(&flat, 1)];
        let batches: usize = lead.iter().product();
        let mut want = Vec::new();
        for (b, h, t) in
            (0..batches).flat_map(|b| (0..heads).flat_map(move |h| (0..time).map(move |t| (b, h, t))))
        {
            let from = ((b * time + t) * heads + h) * depth;
            want.extend_from_slice(&x[0].data[from..from + depth]);
        }
        assert_near(&value(&x, |x| x[0].split_heads(heads)), &split, &want, 0.0);
        assert_near(&value(&x, |x| x[0].split_heads(heads).merge_heads()), &flat, &x[0].data, 0.0);
    }
}

#[test]
fn causal_softmax_sees_no_later_key() {
    for shape in [&[4, 4][..], &[1, 1], &[2, 3, 3], &[0, 0]] {
        let x = [drawn(shape, 2)];
        let n = shape[shape.len() - 1];
        let mut want = Vec::new();
        for (row, scores) in x[0].data.chunks(n.max(1)).enumerate() {
            let seen: Vec<f64> = scores[..=row % n].iter().map(|v| v.exp()).collect();
            let total: f64 = seen.iter().sum();
            want.extend((0..n).map(|key| seen.get(key).map_or(0.0, |v| v / total)));
        }
        assert_near(&value(&x, |x| x[0].softmax_causal()), shape, &want, 1e-14);
        let filled = x[0].data.iter().enumerate().map(|(i, &v)| if i % n <= i / n % n { v } else { -5.0 });
        let want: Vec<f64> = filled.collect();
        assert_near(&value(&x, |x| x[0].where_causal(-5.0)), shape, &want, 0.0);
    }
    check_gradients(&[drawn(&[2, 3, 3], 3)], |x| x[0].softmax_causal());
}

#[test]
fn self_attention_of_packed_heads_by_its_formula() {
    let (time, heads, depth) = (3, 2, 2);
    let width = heads * depth;
    let x = [drawn(&[1, time, 3 * width], 4)];
    let at =
        |t: usize, part: usize, h: usize, d: usize| x[0].data[t * 3 * width + part * width + h * depth + d];
    let mut want = vec![0.0; time * width];
    for h in 0..heads {
        for q in 0..time {
            let score = |k: usize| (0..depth).map(|d| at(q, 0, h, d) * at(k, 1, h, d)).sum::<f64>();
            let weights: Vec<f64> = (0..=q).map(|k| (score(k) / (depth as f64).sqrt()).exp()).collect();
            let total: f64 = weights.iter().sum();
            for d in 0..depth {
                want[q * width + h * depth + d] =
                    weights.iter().enumerate().map(|(k, w)| w / total * at(k, 2, h, d)).sum();
            }
        }
    }
    let got = value(&x, |x| x[0].self_attention(heads, AttentionOptions::causal()));
    assert_near(&got, &[1, time, width], &want, 1e-13);
}

/// The scores of heads without elements are 0, so each query attends to its keys alike.
#[test]
fn heads_of_depth_0_average_the_values() {
    let x = [drawn(&[1, 1, 2, 0], 1), drawn(&[1, 1, 2, 0], 2), drawn(&[1, 1, 2, 1], 3)];
    let [first, second] = x[2].data[..] else { panic!("two values") };
    let want = [first, (first + second) / 2.0];
    for has_bias in [false, true] {
        let got = value(&x, |x| {
            let options = AttentionOptions::causal();
            let bias = || literal(&[0.0], [1, 1, 1, 1]);
            x[0].attention(x[1], x[2], if has_bias { options.bias(bias()) } else { options })
        });
        assert_near(&got, &[1, 1, 2, 1], &want, 1e-14);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let text = error(&[drawn(&[2, 5], 1)], |x| x[0].split_heads(2)).to_string();
    assert!(text.contains("the last axis of [2, 5] does not divide into 2 heads"), "{text}");
    let text = error(&[drawn(&[5], 1)], |x| x[0].split_heads(1)).to_string();
    assert!(text.contains("it takes [.., time, width]"), "{text}");
    let text = error(&[drawn(&[2, 5], 1)], |x| x[0].merge_heads()).to_string();
    assert!(text.contains("it takes [.., heads, time, depth]"), "{text}");
    let text = error(&[drawn(&[2, 3], 1)], |x| x[0].where_causal(0.0)).to_string();
    assert!(text.contains("`where_causal` of [2, 3]") && text.contains("equally many"), "{text}");
    let text =
        error(&[drawn(&[1, 2, 8], 1)], |x| x[0].self_attention(2, AttentionOptions::full())).to_string();
    assert!(text.contains("`self_attention` of [1, 2, 8] with 2 heads"), "{text}");
}
