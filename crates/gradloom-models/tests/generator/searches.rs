//! Beam search and speculative decoding over pages yield the same results as without pages.

use super::crowd::{Numbers, alone, session};
use super::{content, greedy, options, restore, scale};
use gradloom::CpuDevice as _;
use gradloom_core::trace::i32;
use gradloom_models::decoding::{BeamOptions, Beams, EarlyStopping, Sampling};
use gradloom_models::generator::{Finish, Generator, GeneratorOptions, Request};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_models::language_model::LanguageModel;
use gradloom_runtime::{Device, Session};

#[test]
fn beams_are_those_of_whole_texts() {
    for name in ["gpt2", "llama"] {
        let session = session(name, &Device::cpu());
        let prompt = Numbers(3).tokens(21);
        let options_of = |early_stopping| BeamOptions {
            beams: 5,
            most: 11,
            length_penalty: 0.7,
            early_stopping,
            ends: vec![7, 20],
        };
        for early_stopping in [EarlyStopping::Full, EarlyStopping::Never] {
            let mut generator = Generator::new(&session, options(100)).unwrap();
            let got = generator.beams(&prompt, options_of(early_stopping)).unwrap();
            generator.pages().check();
            assert_eq!(generator.pages().counts().used, 0);

            let mut forward =
                session.infer([i32("ids", [1, 32])], |m, [ids]| m.forward(ids).log_softmax(-1)).unwrap();
            let mut beams = Beams::new(options_of(early_stopping)).unwrap();
            while !beams.running().is_empty() {
                let rows = beams.running().iter().flat_map(|running| {
                    let mut text = [&prompt[..], &running.tokens].concat();
                    let last = text.len() - 1;
                    text.resize(32, 0);
                    forward.run([&text]).unwrap()[last * 97..][..97].to_vec()
                });
                let rows: Vec<f32> = rows.collect();
                beams.step(&rows).unwrap();
            }
            let want = beams.finish();
            assert_eq!(got.len(), 5);
            for (got, want) in got.iter().zip(&want) {
                assert_eq!(got.tokens, want.tokens);
                assert!((got.score - want.score).abs() < 1e-4, "{got:?}, not {want:?}");
            }
        }
    }
}

/// At temperature 0 the tokens are the model's own, however bad the draft is.
#[test]
fn a_draft_changes_no_greedy_token() {
    let (own, other) = (session("gpt2", &Device::cpu()), session("llama", &Device::cpu()));
    let request = Request { sampling: greedy(), ends: vec![], ..Request::new(Numbers(5).tokens(19), 40) };
    let want = alone(&own, &request.prompt, 19, &request);
    for drafted in [1, 3, 8] {
        let mut generator = Generator::new(&own, options(60)).unwrap();
        let mut good = GeneratorOptions { name: format!("good{drafted}"), ..options(60) };
        let mut same = Generator::new(&own, good.clone()).unwrap();
        good.name = format!("bad{drafted}");
        let mut worse = Generator::new(&other, good).unwrap();
        let mut tokens = Vec::new();
        let (finish, accepted) =
            generator.speculate(&mut same, &request, drafted, |token| tokens.push(token)).unwrap();
        assert_eq!((&tokens, finish), (&want, Finish::Length));
        assert_eq!(accepted[0], accepted[1], "the same model accepts all");
        tokens.clear();
        let (_, accepted) =
            generator.speculate(&mut worse, &request, drafted, |token| tokens.push(token)).unwrap();
        assert_eq!(tokens, want);
        assert!(accepted[0] < accepted[1], "{accepted:?}");
        let ends = Request { ends: vec![want[9]], ..request.clone() };
        tokens.clear();
        let (finish, _) =
            generator.speculate(&mut worse, &ends, drafted, |token| tokens.push(token)).unwrap();
        let first = want.iter().position(|&token| token == want[9]).unwrap();
        assert_eq!((&tokens[..], finish), (&want[..first], Finish::End(want[9])));
        for pages in [generator.pages(), same.pages(), worse.pages()] {
            pages.check();
            assert_eq!(pages.counts().used, 0);
        }
    }
}

/// Pairs of tokens drawn with a draft model have the distribution of the target model.
#[test]
fn drawn_tokens_have_the_models_own_distribution() {
    const TOKENS: usize = 5;
    const TEXTS: u64 = 3000;
    let config = Gpt2Config { vocabulary: TOKENS, context: 8, width: 16, ..Gpt2Config::DEFAULT };
    let config = Gpt2Config { heads: 2, layers: 1, dropout: 0.0, ..config };
    let session = |seed| Session::new(Gpt2::new(&config).unwrap(), &Device::cpu(), seed).unwrap();
    let (own, other) = (session(1), session(2));
    // The distributions of untrained models are similar; scaling the parameters makes them differ.
    for session in [&own, &other] {
        session.materialize().unwrap();
        let mut other = content(session);
        other.iter_mut().for_each(|(_, bytes)| scale(bytes, 6.0));
        restore(session, &other);
    }
    let mut generator = Generator::new(&own, options(10)).unwrap();
    let mut draft = Generator::new(&other, options(10)).unwrap();
    let mut counts = [0u32; TOKENS * TOKENS];
    let mut accepted = [0; 2];
    for seed in 0..TEXTS {
        let request = Request {
            sampling: Sampling { seed, top_k: Some(4), ..Sampling::default() },
            ..Request::new([2, 0], 2)
        };
        let mut tokens = Vec::new();
        let (_, of) = generator.speculate(&mut draft, &request, 1, |token| tokens.push(token)).unwrap();
        accepted = [accepted[0] + of[0], accepted[1] + of[1]];
        counts[tokens[0] as usize * TOKENS + tokens[1] as usize] += 1;
    }
    let share = accepted[0] as f64 / accepted[1] as f64;
    assert!((0.2..0.97).contains(&share), "the models should differ, but not too much: {share}");
    let mut forward = own.infer([i32("ids", [1, 3])], |model, [ids]| model.forward(ids)).unwrap();
    let sampling = Sampling { top_k: Some(4), ..Sampling::default() };
    let past = gradloom_models::decoding::Past::new(&[2, 0]);
    for first in 0..TOKENS {
        let logits = forward.run([&[2, 0, first as i32]]).unwrap();
        let p = |at: usize| sampling.probabilities(&logits[at * TOKENS..][..TOKENS], &past).unwrap();
        for second in 0..TOKENS {
            let expected = TEXTS as f64 * p(1)[first] * p(2)[second];
            let count = f64::from(counts[first * TOKENS + second]);
            assert!((count - expected).abs() < 5.0 * expected.max(1.0).sqrt(), "{count}, not {expected}");
        }
    }
}
