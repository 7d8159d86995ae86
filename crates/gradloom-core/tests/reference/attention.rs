//! Attention and its gradient, compared with values that were computed by hand and with independent formulas.

use crate::{INF, NAN, assert_close, assert_same, eval, run, trap};

/// ln 3, for which the softmax weights are simple fractions.
const LN_3: f64 = 1.098_612_288_668_109_8;

struct Case<'a> {
    q: (&'a str, &'a [f64]),
    k: (&'a str, &'a [f64]),
    v: (&'a str, &'a [f64]),
    /// Shape of the output.
    out: &'a str,
    sums: &'a str,
    /// Operand `query_offset`, if any.
    offset: Option<f64>,
    length: Option<f64>,
    /// Shape and entries of the block table, if any.
    table: Option<(&'a str, &'a [f64])>,
    causal: bool,
}

/// One query and three keys of depth 1, with scale 1 and the scores 0, ln 3 and 0.
const ONE_QUERY: Case<'static> = Case {
    q: ("[1, 1, 1, 1]", &[1.0]),
    k: ("[1, 1, 3, 1]", &[0.0, LN_3, 0.0]),
    v: ("[1, 1, 3, 2]", &[10.0, 1.0, 20.0, 2.0, 30.0, 3.0]),
    out: "[1, 1, 1, 2]",
    sums: "[1, 1, 1]",
    offset: None,
    length: None,
    table: None,
    causal: false,
};

impl Case<'_> {
    /// Returns the lines before the op, and the part of the op's text that follows its results.
    fn lines(&self) -> (String, String) {
        let mut lines = String::new();
        let mut operands = String::from("%0, %1, %2");
        let mut flags = String::from("{scale=1.0");
        for (i, (name, (shape, _))) in [("q", self.q), ("k", self.k), ("v", self.v)].into_iter().enumerate() {
            lines += &format!("%{i}: f32{shape} = input \"{name}\"\n");
        }
        let extra = [
            ("query_offset", self.offset.map(|_| "[]")),
            ("key_length", self.length.map(|_| "[]")),
            ("block_table", self.table.map(|(shape, _)| shape)),
        ];
        for (i, (name, shape)) in extra.into_iter().enumerate() {
            if let Some(shape) = shape {
                lines += &format!("%{}: i32{shape} = input \"{name}\"\n", i + 3);
                operands += &format!(", %{}", i + 3);
                flags += &format!(", {name}");
            }
        }
        if self.causal {
            flags += ", causal";
        }
        (lines, format!("attention {operands} {flags}}}"))
    }

    fn text(&self) -> String {
        let (lines, op) = self.lines();
        format!(
            "{lines}%6: f32{}, %7: f32{} = {op}\noutput \"out\" %6\noutput \"sums\" %7",
            self.out, self.sums
        )
    }

    fn with_values<R>(&self, f: impl FnOnce(&[(&str, &[f64])]) -> R) -> R {
        let [offset, length] = [self.offset, self.length].map(|v| [v.unwrap_or_default()]);
        let table = self.table.map_or(&[][..], |(_, entries)| entries);
        f(&[
            ("q", self.q.1),
            ("k", self.k.1),
            ("v", self.v.1),
            ("query_offset", &offset),
            ("key_length", &length),
            ("block_table", table),
        ])
    }

    /// Returns the output and the log-sum-exp.
    fn results(&self) -> [Vec<f64>; 2] {
        let evaluation = self.with_values(|values| run(&self.text(), values)).unwrap();
        ["out", "sums"].map(|name| evaluation.output(name).unwrap().to_f64())
    }

    #[track_caller]
    fn check(&self, out: &[f64], sums: &[f64]) {
        let [actual_out, actual_sums] = self.results();
        assert_close(actual_out, out);
        assert_close(actual_sums, sums);
    }

    #[track_caller]
    fn check_trap(&self, message: &str) {
        assert_eq!(self.with_values(|values| trap(&self.text(), values)), message);
    }
}

#[test]
fn weights_are_a_softmax() {
    // The weights are 1/5, 3/5 and 1/5.
    ONE_QUERY.check(&[20.0, 2.0], &[5_f64.ln()]);
    // Adding a constant to all scores changes only the log-sum-exp, even where exp would overflow.
    let keys = [1000.0, 1000.0 + LN_3, 1000.0];
    let [out, sums] = Case { k: ("[1, 1, 3, 1]", &keys), ..ONE_QUERY }.results();
    assert!((out[0] - 20.0).abs() < 1e-11 && (sums[0] - 1000.0 - 5_f64.ln()).abs() < 1e-11);
}

#[test]
fn the_scale_multiplies_the_scores() {
    let lines = "%0: f32[1, 1, 1, 2] = constant [1.0, 1.0]\n\
                 %1: f32[1, 1, 2, 2] = constant [0.0, 0.0, 1.0, 1.0]\n\
                 %2: f32[1, 1, 2, 1] = constant [1.0, 5.0]\n";
    let quarter =
        format!("{lines}%9: f32[1, 1, 1, 1], %8: f32[1, 1, 1] = attention %0, %1, %2 {{scale=0.25}}");
    // The scores are 0 and 2 · 0.25.
    let weight = 0.5_f64.exp() / (1.0 + 0.5_f64.exp());
    assert_close(eval(&quarter, &[]), &[1.0 + 4.0 * weight]);
}

#[test]
fn the_causal_mask_follows_the_offset() {
    let queries = Case {
        q: ("[1, 1, 3, 1]", &[1.0, 1.0, 1.0]),
        out: "[1, 1, 3, 2]",
        sums: "[1, 1, 3]",
        causal: true,
        ..ONE_QUERY
    };
    // Query 0 attends to key 0, query 1 to keys 0 and 1 with the weights 1/4 and 3/4, and query 2 to all
    // keys.
    queries.check(&[10.0, 1.0, 17.5, 1.75, 20.0, 2.0], &[0.0, 4_f64.ln(), 5_f64.ln()]);
    Case { offset: Some(1.0), ..queries }
        .check(&[17.5, 1.75, 20.0, 2.0, 20.0, 2.0], &[4_f64.ln(), 5_f64.ln(), 5_f64.ln()]);
    // Query 0 is before key 0, so it attends to no key.
    Case { offset: Some(-1.0), ..queries }
        .check(&[0.0, 0.0, 10.0, 1.0, 17.5, 1.75], &[-INF, 0.0, 4_f64.ln()]);
    // Without the mask the offset has no effect.
    Case { offset: Some(-1.0), causal: false, ..queries }
        .check(&[20.0, 2.0, 20.0, 2.0, 20.0, 2.0], &[5_f64.ln(); 3]);
}

#[test]
fn keys_beyond_the_key_length_are_not_read() {
    let poisoned = Case {
        k: ("[1, 1, 3, 1]", &[0.0, LN_3, NAN]),
        v: ("[1, 1, 3, 2]", &[10.0, 1.0, 20.0, 2.0, NAN, NAN]),
        ..ONE_QUERY
    };
    Case { length: Some(2.0), ..poisoned }.check(&[17.5, 1.75], &[4_f64.ln()]);
    Case { length: Some(1.0), ..poisoned }.check(&[10.0, 1.0], &[0.0]);
    // Without keys, the output is 0, not NaN.
    let [out, sums] = Case { length: Some(0.0), ..poisoned }.results();
    assert_same(out, &[0.0, 0.0]);
    assert_same(sums, &[-INF]);
    Case { length: Some(3.0), ..ONE_QUERY }.check(&[20.0, 2.0], &[5_f64.ln()]);
    Case { length: Some(4.0), ..ONE_QUERY }.check_trap("attention: key_length 4 is out of range 0..=3");
    Case { length: Some(-1.0), ..ONE_QUERY }.check_trap("attention: key_length -1 is out of range 0..=3");
}

#[test]
fn no_keys_at_all() {
    let none = Case { k: ("[1, 1, 0, 1]", &[]), v: ("[1, 1, 0, 2]", &[]), ..ONE_QUERY };
    let [out, sums] = none.results();
    assert_same(out, &[0.0, 0.0]);
    assert_same(sums, &[-INF]);
}

#[test]
fn not_a_number_spreads_to_its_query_only() {
    let two = Case { q: ("[1, 1, 2, 1]", &[NAN, 1.0]), out: "[1, 1, 2, 2]", sums: "[1, 1, 2]", ..ONE_QUERY };
    two.check(&[NAN, NAN, 20.0, 2.0], &[NAN, 5_f64.ln()]);
}

#[test]
fn query_heads_share_key_heads_in_groups() {
    // Four query heads over two key heads with one key each, so the output is the value of key head h / 2.
    let grouped = Case {
        q: ("[1, 4, 1, 1]", &[1.0, 2.0, 3.0, 4.0]),
        k: ("[1, 2, 1, 1]", &[1.0, 10.0]),
        v: ("[1, 2, 1, 1]", &[5.0, 7.0]),
        out: "[1, 4, 1, 1]",
        sums: "[1, 4, 1]",
        ..ONE_QUERY
    };
    grouped.check(&[5.0, 5.0, 7.0, 7.0], &[1.0, 2.0, 30.0, 40.0]);
}

#[test]
fn sequences_of_a_batch_do_not_mix() {
    let batch = Case {
        q: ("[2, 1, 1, 1]", &[1.0, 2.0]),
        k: ("[2, 1, 1, 1]", &[3.0, 4.0]),
        v: ("[2, 1, 1, 1]", &[5.0, 6.0]),
        out: "[2, 1, 1, 1]",
        sums: "[2, 1, 1]",
        ..ONE_QUERY
    };
    batch.check(&[5.0, 6.0], &[3.0, 8.0]);
}

/// Two sequences over a pool of three blocks of two keys; sequence 0 has blocks 2 and 0, sequence 1 has
/// blocks 1 and 1.
const PAGED: Case<'static> = Case {
    q: ("[2, 1, 1, 1]", &[1.0, 1.0]),
    k: ("[3, 1, 2, 1]", &[0.0, 0.0, 0.0, LN_3, LN_3, 0.0]),
    v: ("[3, 1, 2, 1]", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    out: "[2, 1, 1, 1]",
    sums: "[2, 1, 1]",
    table: Some(("[2, 2]", &[2.0, 0.0, 1.0, 1.0])),
    ..ONE_QUERY
};

#[test]
fn a_block_table_finds_keys_in_a_pool() {
    // Sequence 0 has scores ln 3, 0, 0, 0 for the values 5, 6, 1, 2; sequence 1 has scores 0, ln 3, 0, ln 3
    // for 3, 4, 3, 4.
    PAGED.check(&[24.0 / 6.0, 30.0 / 8.0], &[6_f64.ln(), 8_f64.ln()]);
    Case { length: Some(3.0), ..PAGED }.check(&[22.0 / 5.0, 18.0 / 5.0], &[5_f64.ln(), 5_f64.ln()]);
    Case { causal: true, offset: Some(1.0), ..PAGED }
        .check(&[21.0 / 4.0, 15.0 / 4.0], &[4_f64.ln(), 4_f64.ln()]);
}

#[test]
fn entries_of_the_block_table_are_checked_where_keys_exist() {
    let table: &[f64] = &[2.0, -1.0, 1.0, 3.0];
    let unused = Case { table: Some(("[2, 2]", table)), length: Some(2.0), ..PAGED };
    unused.check(&[21.0 / 4.0, 15.0 / 4.0], &[4_f64.ln(), 4_f64.ln()]);
    Case { length: Some(3.0), ..unused }.check_trap(
        "attention: index -1 (block 1 of sequence 0 in the block table) is out of range for a pool of 3 \
         blocks",
    );
    let high: &[f64] = &[2.0, 0.0, 3.0, 1.0];
    Case { table: Some(("[2, 2]", high)), ..PAGED }.check_trap(
        "attention: index 3 (block 0 of sequence 1 in the block table) is out of range for a pool of 3 \
         blocks",
    );
}

/// Returns small pseudorandom numbers of both signs.
fn noise(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 37 + seed * 101 + 11) % 53) as f64 / 26.5 - 1.0).collect()
}

/// Checks gradients of attention with grouped heads, a causal mask with an offset, and a key length.
fn check_gradient(offset: f64, length: f64) {
    let (q, k, v, seed) =
        (noise(2 * 4 * 3 * 2, 1), noise(2 * 2 * 5 * 2, 2), noise(2 * 2 * 5 * 3, 3), noise(72, 4));
    let forward = "%0: f32[2, 4, 3, 2] = input \"q\"\n%1: f32[2, 2, 5, 2] = input \"k\"\n\
                   %2: f32[2, 2, 5, 3] = input \"v\"\n\
                   %3: i32[] = input \"offset\"\n%4: i32[] = input \"length\"\n\
                   %5: f32[2, 4, 3, 3] = input \"seed\"\n\
                   %6: f32[2, 4, 3, 3], %7: f32[2, 4, 3] = attention %0, %1, %2, %3, %4 \
                   {scale=0.7, causal, query_offset, key_length}\n";
    let loss = |q: &[f64], k: &[f64], v: &[f64]| {
        let lines =
            format!("{forward}%8: f32[2, 4, 3, 3] = mul %6, %5\n%9: f32[] = sum %8 {{axes=[0, 1, 2, 3]}}");
        eval(
            &lines,
            &[("q", q), ("k", k), ("v", v), ("seed", &seed), ("offset", &[offset]), ("length", &[length])],
        )[0]
    };
    let lines = format!(
        "{forward}%8: f32[2, 4, 3, 2], %9: f32[2, 2, 5, 2], %10: f32[2, 2, 5, 3] = \
         attention_grad %0, %1, %2, %3, %4, %6, %7, %5 {{scale=0.7, causal, query_offset, key_length}}\n\
         output \"q\" %8\noutput \"k\" %9\noutput \"v\" %10"
    );
    let values: &[(&str, &[f64])] =
        &[("q", &q), ("k", &k), ("v", &v), ("seed", &seed), ("offset", &[offset]), ("length", &[length])];
    let evaluation = run(&lines, values).unwrap();
    let step = 1e-5;
    for (name, x) in [("q", &q), ("k", &k), ("v", &v)] {
        let gradient = evaluation.output(name).unwrap().to_f64();
        assert_eq!(gradient.len(), x.len());
        for i in 0..x.len() {
            let moved = |by: f64| {
                let mut moved = x.clone();
                moved[i] += by;
                match name {
                    "q" => loss(&moved, &k, &v),
                    "k" => loss(&q, &moved, &v),
                    _ => loss(&q, &k, &moved),
                }
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            assert!(
                (gradient[i] - slope).abs() < 1e-8,
                "d{name}[{i}] = {} but the slope is {slope}",
                gradient[i]
            );
        }
    }
}

#[test]
fn the_gradient_is_the_slope() {
    check_gradient(2.0, 4.0);
    check_gradient(0.0, 5.0);
}

#[test]
fn the_gradient_of_queries_that_see_nothing_is_zero() {
    check_gradient(-2.0, 5.0);
    check_gradient(0.0, 0.0);
}
