//! Requests that no generator can fulfill are rejected with a message and have no effect.

use super::crowd::session;
use super::{greedy, options};
use gradloom::CpuDevice as _;
use gradloom_core::error::Error;
use gradloom_core::ir::DType;
use gradloom_models::decoding::{BeamOptions, EarlyStopping, Sampling};
use gradloom_models::generator::{Generator, GeneratorOptions, Request};
use gradloom_runtime::Device;

#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T, Error>, parts: &[&str]) {
    let text = result.unwrap_err().to_string();
    parts.iter().for_each(|part| assert!(text.contains(part), "{text}"));
}

type Change = fn(&mut Request);

#[test]
fn requests_that_cannot_be_met() {
    let session = session("gpt2", &Device::cpu());
    let mut generator = Generator::new(&session, options(10)).unwrap();
    let with = |change: Change| {
        let mut request = Request::new([1, 2, 3], 5);
        change(&mut request);
        request
    };
    let cases: [(Change, [&str; 2]); 9] = [
        (|r| r.prompt.clear(), ["a prompt of 0 tokens for a context of 256", "at least one token"]),
        (|r| r.prompt = vec![0; 257], ["a prompt of 257 tokens", "give the end"]),
        (|r| r.prompt[1] = 97, ["token 1 of the prompt is 97", "own tokenizer"]),
        (|r| r.prompt[2] = -1, ["token 2 of the prompt is -1", "own tokenizer"]),
        (|r| r.most = 0, ["0 new tokens", "at least 1"]),
        (|r| r.most = 40, ["42 tokens take 11 blocks, and the memory has 9", "at least 12 blocks"]),
        (|r| r.logprobs = Some(98), ["98 tokens, of which there are 97", "at most 97"]),
        (|r| r.sampling.top_p = 0.0, ["top-p 0", "1 allows every token"]),
        (|r| r.sampling.bias = [(97, 1.0)].into(), ["bias for token 97", "97 tokens"]),
    ];
    for (change, parts) in cases {
        says(generator.add(with(change)), &parts);
    }
    assert!(generator.is_idle());
    let id = generator.add(Request::new([1], 1)).unwrap();
    says(generator.fork(id, Sampling { temperature: -1.0, ..greedy() }), &["temperature -1"]);
    assert_eq!(generator.requests().count(), 1);
}

#[test]
fn generators_that_make_no_sense() {
    let session = session("gpt2", &Device::cpu());
    let with = |change: fn(&mut GeneratorOptions)| {
        let mut options = options(10);
        change(&mut options);
        Generator::new(&session, options)
    };
    says(with(|o| o.blocks = 1), &["a pool of 1 blocks has none for tokens"]);
    says(with(|o| o.block_size = 0), &["the block size is 0"]);
    says(with(|o| o.dtype = DType::I32), &["keys and values as i32", "f32, bf16 or f16"]);
    says(with(|o| o.rows = 0), &["0 texts at once", "at least 1"]);
    says(with(|o| o.chunk = 0), &["0 tokens of prompts in a step", "at least 1"]);
    says(with(|o| o.vocabulary = Some(98)), &["98 tokens that can follow", "1 to 97"]);
}

#[test]
fn searches_and_drafts_that_make_no_sense() {
    let session = session("gpt2", &Device::cpu());
    let mut generator = Generator::new(&session, options(10)).unwrap();
    let beams = |beams, most| BeamOptions {
        beams,
        most,
        length_penalty: 1.0,
        early_stopping: EarlyStopping::Full,
        ends: Vec::new(),
    };
    says(generator.beams(&[1, 2], beams(0, 3)), &["0 beams"]);
    says(generator.beams(&[], beams(2, 3)), &["a prompt of 0 tokens"]);
    says(generator.beams(&[1; 200], beams(2, 58)), &["200 tokens with 58 behind them for a context of 256"]);
    says(generator.beams(&[1; 30], beams(4, 20)), &["more blocks are needed", "larger pool"]);
    assert_eq!(generator.pages().counts().used, 0);

    let draft = GeneratorOptions { vocabulary: Some(90), name: "draft".to_string(), ..options(10) };
    let mut draft = Generator::new(&session, draft).unwrap();
    let request = Request::new([1], 4);
    says(
        generator.speculate(&mut draft, &request, 2, |_| {}),
        &["a draft model of 90 tokens for a model of 97"],
    );
    let mut draft = Generator::new(&session, GeneratorOptions { name: "d".into(), ..options(10) }).unwrap();
    says(generator.speculate(&mut draft, &request, 0, |_| {}), &["a draft of 0 tokens"]);
    let logprobs = Request { logprobs: Some(1), ..request };
    says(generator.speculate(&mut draft, &logprobs, 2, |_| {}), &["no log-probabilities"]);
}
