//! Tests the choice of the next token on devices: it equals the host's choice in float64 for each row,
//! follows the host's distribution, and takes few launches.

mod common;

use gradloom::prelude::*;
use gradloom::{Infer, Session};
use gradloom_models::decoding::{Choices, Past, Rows, Sampling, SamplingError, logprobs};

/// Choices that support every option of a row.
const ALL: Choices = Choices { greedy_only: false, top_k: true, top_p: true, min_p: true, logprobs: None };

/// Reproducible random numbers, from SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns an approximately normal number, the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Request at one of its tokens.
#[derive(Clone, Debug)]
struct Row {
    logits: Vec<f32>,
    sampling: Sampling,
    past: Past,
    position: u64,
}

impl Row {
    fn random(n: &mut Numbers, vocabulary: usize) -> Self {
        let kind = n.below(8);
        let logits = (0..vocabulary).map(|_| match kind {
            // Many ties, all ties, a few excluded tokens, one likely token, many equal tokens below others,
            // exclusion by a large negative number, large numbers.
            0 => (n.normal() * 2.0).round() as f32 / 2.0,
            1 => 1.5,
            2 if n.below(3) == 0 => f32::NEG_INFINITY,
            3 => (n.normal() * 0.1 - if n.below(vocabulary) == 0 { 0.0 } else { 9.0 }) as f32,
            4 => (n.normal() as f32).max(0.5),
            5 if n.below(2) == 0 => -1e9,
            6 => 1000.0 + (n.normal() * 4.0).round() as f32 / 4.0,
            _ => (n.normal() * 3.0) as f32,
        });
        let mut logits: Vec<f32> = logits.collect();
        if logits.iter().all(|&logit| logit <= -1e9) {
            logits[vocabulary / 2] = 0.25;
        }
        let mut tokens =
            |most: usize| -> Vec<i32> { (0..n.below(most)).map(|_| n.below(vocabulary) as i32).collect() };
        let mut past = Past::new(&tokens(20));
        tokens(20).into_iter().for_each(|token| past.push(token));
        let biased = tokens(4);
        let mut bias: Vec<(i32, f64)> =
            biased.into_iter().map(|id| (id, n.pick(&[-1.0, 2.5, f64::NEG_INFINITY]))).collect();
        if vocabulary < 4 || kind == 5 {
            bias.clear();
        }
        let sampling = Sampling {
            temperature: n.pick(&[0.0, 1e-40, 0.3, 0.8, 1.0, 1.0, 1.7, if kind == 5 { 30.0 } else { 1e30 }]),
            top_k: n.pick(&[None, None, Some(1), Some(2), Some(5), Some(40), Some(usize::MAX)]),
            top_p: n.pick(&[1.0, 1.0, 1e-300, 0.1123, 0.5321, 0.9017, 0.9991]),
            min_p: n.pick(&[0.0, 0.0, 0.0517, 0.311, 0.9993]),
            // Choose penalties for which large logits stay exact in f32.
            repetition: if kind == 6 { 0.5 } else { n.pick(&[1.0, 1.0, 1.25, 0.5]) },
            presence: n.pick(&[0.0, 0.0, 0.75, -0.5]),
            frequency: n.pick(&[0.0, 0.0, 0.25, -0.125]),
            bias: bias.into_iter().collect(),
            seed: n.next(),
        };
        Self { logits, sampling, past, position: n.below(1 << 20) as u64 }
    }

    fn on_host(&self) -> Result<usize, SamplingError> {
        self.sampling.choose(&self.logits, &self.past, self.position)
    }

    /// Returns `true` if the token could be drawn if the bounds or the random number differed by a few units
    /// in the last place of f32.
    fn is_nearly(&self, token: usize) -> bool {
        let uniform = self.sampling.uniform(self.position, gradloom_models::decoding::Draw::Token);
        let off = [1.0 - 4e-6, 1.0, 1.0 + 4e-6];
        off.iter().any(|top_p| {
            off.iter().any(|min_p| {
                let sampling = Sampling {
                    top_p: (self.sampling.top_p * top_p).min(1.0),
                    min_p: (self.sampling.min_p * min_p).min(1.0),
                    ..self.sampling.clone()
                };
                let p = sampling.probabilities(&self.logits, &self.past).unwrap();
                let before: f64 = p[..token].iter().sum();
                p[token] > 0.0 && (before - 4e-6..before + p[token] + 4e-6).contains(&uniform)
            })
        })
    }
}

/// Program for rows with the same vocabulary, with past tokens and biases.
struct Program {
    run: Infer<5, Tensor>,
    vocabulary: usize,
}

impl Program {
    fn new(device: &Device, choices: Choices, rows: usize, vocabulary: usize) -> Self {
        let session = Session::new((), device, 0).unwrap();
        let run = session.infer(inputs(rows, vocabulary), |(), x| choices.choose(x[0], operands(x)).token);
        Self { run: run.unwrap(), vocabulary }
    }

    fn tokens(&mut self, rows: &[Row]) -> Vec<f32> {
        let fed = Fed::new(rows, self.vocabulary);
        self.run.run(fed.feed()).unwrap()
    }
}

fn inputs(rows: usize, vocabulary: usize) -> [gradloom::trace::Input; 5] {
    [
        f32("logits", [rows, vocabulary]),
        f32("numbers", [rows, Sampling::NUMBERS]),
        gradloom::trace::u32("words", [rows, Sampling::WORDS]),
        i32("past", [rows, vocabulary]),
        f32("bias", [rows, vocabulary]),
    ]
}

fn operands([_, numbers, words, past, bias]: [Tensor; 5]) -> Rows {
    Rows { numbers, words, past: Some(past), bias: Some(bias) }
}

struct Fed {
    logits: Vec<f32>,
    numbers: Vec<f32>,
    words: Vec<u32>,
    past: Vec<i32>,
    bias: Vec<f32>,
}

impl Fed {
    fn new(rows: &[Row], vocabulary: usize) -> Self {
        Self {
            logits: rows.iter().flat_map(|row| row.logits.clone()).collect(),
            numbers: rows.iter().flat_map(|row| row.sampling.numbers()).collect(),
            words: rows.iter().flat_map(|row| row.sampling.words(row.position)).collect(),
            past: rows.iter().flat_map(|row| row.past.row(vocabulary)).collect(),
            bias: rows.iter().flat_map(|row| row.sampling.biases(vocabulary).unwrap()).collect(),
        }
    }

    #[allow(clippy::type_complexity)]
    fn feed(&self) -> (&[f32], &[f32], &[u32], &[i32], &[f32]) {
        (&self.logits, &self.numbers, &self.words, &self.past, &self.bias)
    }
}

#[test]
fn rows_have_the_hosts_tokens() {
    const ROWS: usize = 32;
    for device in common::devices() {
        let mut n = Numbers(7);
        let (mut rows_seen, mut moved) = (0, 0);
        for (vocabulary, runs) in [(1, 4), (2, 20), (7, 60), (64, 60), (333, 40), (1500, 8)] {
            let mut program = Program::new(&device, ALL, ROWS, vocabulary);
            for _ in 0..runs {
                let rows: Vec<Row> = (0..ROWS).map(|_| Row::random(&mut n, vocabulary)).collect();
                for (row, got) in rows.iter().zip(program.tokens(&rows)) {
                    let want = row.on_host();
                    rows_seen += 1;
                    match want {
                        Err(SamplingError::Excluded) => assert_eq!(got, -1.0, "{row:?}"),
                        Err(error) => panic!("{error}"),
                        Ok(want) if want as f32 == got => {}
                        Ok(want) => {
                            moved += 1;
                            let near = got >= 0.0 && row.is_nearly(got as usize);
                            assert!(near, "{got}, not {want}: {row:?}");
                        }
                    }
                }
            }
        }
        assert!(rows_seen > 3000 && moved * 500 < rows_seen, "{moved} of {rows_seen} rows differ");
    }
}

#[test]
fn what_rows_do_not_ask_for_can_be_left_out() {
    const ROWS: usize = 16;
    let device = Device::cpu();
    let mut n = Numbers(99);
    let vocabulary = 50;
    let plain = |sampling: Sampling| Sampling {
        repetition: 1.0,
        presence: 0.0,
        frequency: 0.0,
        bias: Default::default(),
        ..sampling
    };
    let kinds: [fn(Sampling) -> Sampling; 6] = [
        |s| Sampling { temperature: 0.0, ..s },
        |s| Sampling { top_k: None, top_p: 1.0, min_p: 0.0, ..s },
        |s| Sampling { top_p: 1.0, min_p: 0.0, ..s },
        |s| Sampling { top_k: None, min_p: 0.0, ..s },
        |s| Sampling { top_k: None, top_p: 1.0, ..s },
        |s| s,
    ];
    for kind in kinds {
        let mut rows: Vec<Row> = (0..ROWS).map(|_| Row::random(&mut n, vocabulary)).collect();
        rows.iter_mut().for_each(|row| row.sampling = kind(plain(row.sampling.clone())));
        let choices = Choices::of(rows.iter().map(|row| &row.sampling));
        let session = Session::new((), &device, 0).unwrap();
        let mut run = session
            .infer(inputs(ROWS, vocabulary), |(), x| {
                choices.choose(x[0], Rows { past: None, bias: None, ..operands(x) }).token
            })
            .unwrap();
        let got = run.run(Fed::new(&rows, vocabulary).feed()).unwrap();
        for (row, got) in rows.iter().zip(got) {
            let same = row.on_host() == Ok(got as usize);
            assert!(same || row.is_nearly(got as usize), "{choices:?} {got} {row:?}");
        }
    }
}

#[test]
fn the_settings_of_a_batch_say_what_is_traced() {
    let with = |change: fn(&mut Sampling)| {
        let mut sampling = Sampling::default();
        change(&mut sampling);
        sampling
    };
    let greedy = with(|s| (s.temperature, s.top_k, s.top_p, s.min_p) = (0.0, Some(3), 0.5, 0.5));
    assert_eq!(Choices::of([&greedy]), Choices { greedy_only: true, ..Choices::default() });
    assert_eq!(Choices::of([&Sampling::default(), &greedy]), Choices::default());
    let all = [with(|s| s.top_k = Some(3)), with(|s| s.top_p = 0.5), with(|s| s.min_p = 0.5)];
    assert_eq!(Choices::of(&all), ALL);
    assert_eq!(Choices::of(&all[..1]), Choices { top_k: true, ..Choices::default() });
}

/// Pearson's chi-squared statistic is within five standard deviations of its mean.
#[test]
fn frequencies_follow_the_distribution() {
    const ROWS: usize = 1024;
    let device = Device::cpu();
    let mut n = Numbers(5);
    let vocabulary = 40;
    let logits: Vec<f32> = (0..vocabulary).map(|_| (n.normal() * 1.5) as f32).collect();
    let mut past = Past::new(&[1, 2, 3]);
    [3, 3, 4].into_iter().for_each(|token| past.push(token));
    let settings = [
        Sampling { seed: 1, ..Sampling::default() },
        Sampling { seed: 2, temperature: 1.6, top_p: 0.85, ..Sampling::default() },
        Sampling { seed: 3, top_k: Some(9), min_p: 0.05, frequency: 0.5, ..Sampling::default() },
        Sampling { seed: 4, temperature: 0.7, repetition: 1.4, presence: 0.3, ..Sampling::default() },
    ];
    let mut program = Program::new(&device, ALL, ROWS, vocabulary);
    for sampling in settings {
        let probabilities = sampling.probabilities(&logits, &past).unwrap();
        let mut counts = vec![0u32; vocabulary];
        let runs = 200;
        for run in 0..runs {
            let row = |i: usize| Row {
                logits: logits.clone(),
                sampling: sampling.clone(),
                past: past.clone(),
                position: (run * ROWS + i) as u64,
            };
            let rows: Vec<Row> = (0..ROWS).map(row).collect();
            program.tokens(&rows).into_iter().for_each(|token| counts[token as usize] += 1);
        }
        let draws = (runs * ROWS) as f64;
        let (mut statistic, mut kept) = (0.0, 0);
        for (&count, p) in counts.iter().zip(&probabilities) {
            if *p == 0.0 {
                assert_eq!(count, 0);
                continue;
            }
            kept += 1;
            statistic += (f64::from(count) - p * draws).powi(2) / (p * draws);
        }
        let freedom = f64::from(kept - 1);
        let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
        assert!(kept > 2 && statistic < bound, "{statistic} with {freedom} degrees of freedom: {sampling:?}");
    }
}

#[test]
fn broken_rows_have_no_token_and_harm_no_other() {
    let good = Row {
        logits: vec![0.0, 3.0, 1.0],
        sampling: Sampling { top_k: Some(1), ..Sampling::default() },
        past: Past::default(),
        position: 0,
    };
    let with = |logits: [f32; 3]| Row { logits: logits.to_vec(), ..good.clone() };
    let mut rows = vec![
        good.clone(),
        with([0.0, f32::NAN, 1.0]),
        with([f32::INFINITY, 0.0, 1.0]),
        with([f32::NEG_INFINITY; 3]),
        with([f32::NEG_INFINITY, f32::NEG_INFINITY, -3e38]),
        with([f32::NAN; 3]),
        good.clone(),
        good.clone(),
    ];
    let ban = |id| (id, f64::NEG_INFINITY);
    rows[6].sampling.bias = [ban(0), ban(1), ban(2)].into();
    rows[7].sampling.bias = [ban(1)].into();
    let want = [1.0, -1.0, -1.0, -1.0, 2.0, -1.0, -1.0, 2.0];
    for device in common::devices() {
        for temperature in [0.0, 1.0] {
            rows.iter_mut().for_each(|row| row.sampling.temperature = temperature);
            for row in &rows {
                let host = row.on_host().map_or(-1.0, |token| token as f32);
                assert_eq!(host, want[rows.iter().position(|r| std::ptr::eq(r, row)).unwrap()]);
            }
            for choices in [ALL, Choices { logprobs: Some(2), ..ALL }] {
                let mut program = Program::new(&device, choices, rows.len(), 3);
                assert_eq!(program.tokens(&rows), want);
            }
        }
    }
}

#[test]
fn log_probabilities_are_the_models_own() {
    const ROWS: usize = 20;
    let vocabulary = 30;
    for device in common::devices() {
        let mut n = Numbers(31);
        let choices = Choices { logprobs: Some(5), ..ALL };
        let session = Session::new((), &device, 0).unwrap();
        let mut run = session
            .infer(inputs(ROWS, vocabulary), |(), x| {
                let chosen = choices.choose(x[0], operands(x));
                let logprobs = chosen.logprobs.unwrap();
                [chosen.token, logprobs.token, logprobs.top, logprobs.ids]
            })
            .unwrap();
        let mut rows: Vec<Row> = (0..ROWS).map(|_| Row::random(&mut n, vocabulary)).collect();
        rows[3].logits[4] = f32::NAN;
        let [tokens, own, top, ids] = run.run(Fed::new(&rows, vocabulary).feed()).unwrap();
        for (i, row) in rows.iter().enumerate() {
            if tokens[i] < 0.0 {
                assert!(own[i].is_nan());
                continue;
            }
            let (want, best) = logprobs(&row.logits, tokens[i] as usize, 5);
            let near = |got: f32, want: f64| {
                f64::from(got) == want || (f64::from(got) - want).abs() < 2e-5 * want.abs().max(1.0)
            };
            assert!(near(own[i], want), "{}, not {want}", own[i]);
            for (at, (id, want)) in best.into_iter().enumerate() {
                assert_eq!(ids[5 * i + at], id as f32);
                assert!(near(top[5 * i + at], want), "{}, not {want}", top[5 * i + at]);
            }
        }
        assert_eq!(tokens[3], -1.0);
    }
}

#[test]
fn the_past_goes_on_on_the_device() {
    let mut past = [Past::new(&[1, 3]), Past::new(&[]), Past::new(&[0])];
    past[0].push(3);
    let rows = |past: &[Past; 3]| past.iter().flat_map(|past| past.row(4)).collect::<Vec<i32>>();
    for device in common::devices() {
        let session = Session::new((), &device, 0).unwrap();
        let inputs = [i32("past", [3, 4]), i32("token", [3])];
        let mut run = session.infer(inputs, |(), [past, token]| Past::after(past, token)).unwrap();
        let got = run.run([&rows(&past)[..], &[3, 2, -1]]).unwrap();
        let mut want = past.clone();
        want[0].push(3);
        want[1].push(2);
        assert_eq!(got, rows(&want).into_iter().map(|code| code as f32).collect::<Vec<f32>>());
    }
}

/// Counts the launches for GPT-2's vocabulary on a device that fuses like a GPU.
#[test]
fn passes_are_fused() {
    let launches = |choices: Choices, extra: bool| {
        let session = Session::new((), &Device::null(), 0).unwrap();
        let run = session.infer(inputs(8, 50_257), |(), x| {
            let rows = operands(x);
            let rows = if extra { rows } else { Rows { past: None, bias: None, ..rows } };
            choices.choose(x[0], rows).token
        });
        run.unwrap().plan().launches.len()
    };
    let greedy = Choices { greedy_only: true, ..Choices::default() };
    let counts = [
        launches(greedy, false),
        launches(Choices::default(), false),
        launches(Choices { min_p: true, ..Choices::default() }, false),
        launches(Choices { top_k: true, ..Choices::default() }, false),
        launches(Choices { top_p: true, ..Choices::default() }, false),
        launches(ALL, false),
        launches(greedy, true),
        launches(ALL, true),
    ];
    assert_eq!(counts, [1, 1, 1, 2, 2, 3, 1, 3]);
}
