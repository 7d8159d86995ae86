//! Benchmark cases: graphs in text form, with their minimum arithmetic and memory traffic.

/// A graph with its minimum arithmetic and memory traffic.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) lines: String,
    /// Exclusive upper bound of index inputs.
    pub(crate) rows: u32,
    /// Number of multiplications and additions in products; 0 if not counted.
    pub(crate) flops: f64,
    /// Number of bytes that must be read and written; 0 if not counted.
    pub(crate) bytes: f64,
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    // The extents are those of batch, heads, queries, keys and depth.
    for (name, extents) in [
        ("S", [8, 4, 128, 128, 32]),
        ("M", [4, 6, 256, 256, 64]),
        ("gpt2", [4, 12, 1024, 1024, 64]),
        ("tiny", [128, 4, 8, 8, 16]),
        ("depth128", [2, 16, 1024, 1024, 128]),
    ] {
        all.push(attention(&format!("attention {name}"), extents, false));
        all.push(attention(&format!("attention_grad {name}"), extents, true));
    }
    all.push(attention("attention decode", [1, 12, 1, 1024, 64], false));
    for (rows, width, updates) in [(50257, 768, 4096), (256, 128, 1024), (12, 64, 1024), (8192, 384, 1024)] {
        all.push(scatter(rows, width, updates));
        all.push(gather(rows, width, updates));
    }
    all.push(Case {
        name: "random_bits 1M".into(),
        lines: "%0: u32[] = scalar \"a\"\n%1: u32[] = scalar \"b\"\n%2: u32[] = scalar \"c\"\n\
            %3: u32[1048576] = random_bits %0, %1, %2 {site=1}\noutput \"y\" %3"
            .into(),
        rows: 1,
        flops: 0.0,
        bytes: 4.0 * 1048576.0,
    });
    all.push(Case {
        name: "argmax 8 x 50257".into(),
        lines: "%0: f32[8, 50257] = input \"x\"\n%1: i32[8] = argmax %0 {axis=1}\noutput \"y\" %1".into(),
        rows: 1,
        flops: 0.0,
        bytes: 4.0 * 8.0 * 50257.0,
    });
    all
}

/// Returns the case of causal attention, or of its gradient alone. One query over many keys is not causal.
fn attention(name: &str, [b, h, t, s, d]: [usize; 5], gradient: bool) -> Case {
    let (q, k, sums) =
        (format!("{b}, {h}, {t}, {d}"), format!("{b}, {h}, {s}, {d}"), format!("{b}, {h}, {t}"));
    let scale = 1.0 / (d as f64).sqrt();
    let causal = if t == s { ", causal" } else { "" };
    let mut lines =
        format!("%0: f32[{q}] = input \"q\"\n%1: f32[{k}] = input \"k\"\n%2: f32[{k}] = input \"v\"\n");
    lines += &match gradient {
        false => format!(
            "%3: f32[{q}], %4: f32[{sums}] = attention %0, %1, %2 {{scale={scale}{causal}}}\noutput \"o\" %3"
        ),
        true => format!(
            "%3: f32[{q}] = input \"o\"\n%4: f32[{sums}] = input \"l\"\n%5: f32[{q}] = input \"g\"\n\
             %6: f32[{q}], %7: f32[{k}], %8: f32[{k}] = attention_grad %0, %1, %2, %3, %4, %5 \
             {{scale={scale}{causal}}}\n\
             output \"dq\" %6\noutput \"dk\" %7\noutput \"dv\" %8"
        ),
    };
    // Two products forward; seven backward, because scores are computed once for queries and once for keys.
    let pairs = (b * h * t * s) as f64 / if causal.is_empty() { 1.0 } else { 2.0 };
    let flops = 2.0 * pairs * d as f64 * if gradient { 7.0 } else { 2.0 };
    Case { name: name.into(), lines, rows: 1, flops, bytes: 0.0 }
}

fn scatter(rows: usize, width: usize, updates: usize) -> Case {
    Case {
        name: format!("scatter_add {rows}x{width} {updates}"),
        lines: format!(
            "%0: f32[{rows}, {width}] = constant 0.0\n%1: i32[{updates}] = input \"i\"\n\
             %2: f32[{updates}, {width}] = input \"u\"\n\
             %3: f32[{rows}, {width}] = scatter_add %0, %1, %2 {{batch=0}}\noutput \"y\" %3"
        ),
        rows: rows as u32,
        flops: 0.0,
        bytes: 4.0 * (width * (rows + 3 * updates)) as f64,
    }
}

fn gather(rows: usize, width: usize, count: usize) -> Case {
    Case {
        name: format!("gather {rows}x{width} {count}"),
        lines: format!(
            "%0: f32[{rows}, {width}] = input \"x\"\n%1: i32[{count}] = input \"i\"\n\
             %2: f32[{count}, {width}] = gather %0, %1 {{batch=0}}\noutput \"y\" %2"
        ),
        rows: rows as u32,
        flops: 0.0,
        bytes: 8.0 * (width * count) as f64,
    }
}
