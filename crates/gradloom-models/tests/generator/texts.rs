//! Text requests end at stop strings, and events contain whole characters.

use super::crowd::session;
use super::{greedy, options};
use gradloom::CpuDevice as _;
use gradloom_core::error::ErrorKind;
use gradloom_models::data::Bytes;
use gradloom_models::decoding::Sampling;
use gradloom_models::generator::{
    Finish, Generator, GeneratorOptions, Request, RequestId, TextEvent, TextGenerator,
};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_runtime::{Device, Fault, Session};
use std::collections::BTreeMap;

fn run(texts: &mut TextGenerator<'_>) -> BTreeMap<RequestId, (String, Finish)> {
    let mut partial: BTreeMap<RequestId, String> = BTreeMap::new();
    let mut all = BTreeMap::new();
    while !texts.generator().is_idle() {
        for event in texts.step().unwrap() {
            match event {
                TextEvent::Token { request, text, .. } => partial.entry(request).or_default().push_str(&text),
                TextEvent::Finished { request, text, finish } => {
                    let begun = partial.remove(&request).unwrap_or_default();
                    assert!(all.insert(request, (begun + &text, finish)).is_none(), "ended twice");
                }
            }
        }
    }
    assert!(partial.is_empty(), "{partial:?} did not end");
    all
}

fn model_of_bytes(device: &Device) -> Session<Gpt2> {
    let config = Gpt2Config { vocabulary: 256, context: 64, width: 32, ..Gpt2Config::DEFAULT };
    let config = Gpt2Config { heads: 2, layers: 1, dropout: 0.0, ..config };
    Session::new(Gpt2::new(&config).unwrap(), device, 3).unwrap()
}

/// Checks that a text cannot be forked while a failed step holds back the event of its last token: the fork
/// would miss the token's characters.
#[test]
fn a_text_is_not_forked_before_its_last_token_is_handed_out() {
    let (device, faults) = Device::cpu().with_faults();
    let mut refused = 0;
    for after in 0.. {
        // Use a new model for each fault, because an interrupted launch can leave states lost.
        let generator = GeneratorOptions { ahead: Some(true), ..options(30) };
        let generator = Generator::new(&model_of_bytes(&device), generator).unwrap();
        let mut texts = TextGenerator::new(generator, &Bytes);
        let id = texts.add("a b", Request { sampling: greedy(), ..Request::new([], 8) }, &[""; 0]).unwrap();
        faults.fail(Fault::Launch, after);
        let error = loop {
            match texts.step() {
                Ok(_) if texts.generator().is_idle() => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        let Some(error) = error else { break };
        if error.kind() == ErrorKind::Lost || texts.generator().requests().next().is_none() {
            continue;
        }
        if let Err(error) = texts.fork(id, greedy()) {
            assert!(error.to_string().contains("was not handed out"), "{error}");
            texts.step().unwrap();
            if texts.generator().tokens(id).is_ok() {
                refused += 1;
                texts.fork(id, greedy()).unwrap();
            }
        }
    }
    faults.disarm();
    assert!(refused > 0, "no step failed behind a token");
}

#[test]
fn stop_strings_end_texts_wherever_they_come_up() {
    let session = model_of_bytes(&Device::cpu());
    let generator = Generator::new(&session, options(100)).unwrap();
    let mut texts = TextGenerator::new(generator, &Bytes);
    // Allow only ASCII, so that each token is a character.
    let bias = (128..256).map(|token| (token, f64::NEG_INFINITY)).collect();
    let request =
        |seed| Request { sampling: Sampling { bias, seed, ..Sampling::default() }, ..Request::new([], 40) };
    let request = request(5);
    let plain = texts.add("a b", request.clone(), &[""; 0]).unwrap();
    let whole = run(&mut texts).remove(&plain).unwrap();
    assert_eq!((whole.0.len(), whole.1), (40, Finish::Length));
    let stop = |range: std::ops::Range<usize>| whole.0[range].to_string();
    let cases = [
        (vec![stop(10..13)], 10, Finish::Stop(0)),
        (
            vec!["never, ever".to_string(), stop(20..21)],
            whole.0.find(&stop(20..21)).unwrap(),
            Finish::Stop(1),
        ),
        // The last token, which ends the text anyway, completes the stop string.
        (vec![stop(37..40)], 37, Finish::Stop(0)),
        // The text ends within the stop string.
        (vec![stop(38..40) + "x"], 40, Finish::Length),
    ];
    for (stops, length, finish) in cases {
        let id = texts.add("a b", request.clone(), &stops).unwrap();
        assert_eq!(run(&mut texts)[&id], (whole.0[..length].to_string(), finish), "{stops:?}");
    }
    // A fork has the same stop strings, and a cancelled text produces no further events.
    let parent = texts.add("a b", request.clone(), &[stop(10..13)]).unwrap();
    let gone = texts.add("a b", request.clone(), &[""; 0]).unwrap();
    texts.step().unwrap();
    let fork = texts.fork(parent, request.sampling.clone()).unwrap();
    texts.cancel(gone).unwrap();
    let ended = run(&mut texts);
    assert_eq!(ended.keys().copied().collect::<Vec<_>>(), [parent, fork]);
    assert!(ended.values().all(|(_, finish)| *finish == Finish::Stop(0)), "{ended:?}");
}

#[test]
fn an_empty_prompt_begins_a_line() {
    let session = session("gpt2", &Device::cpu());
    let generator = Generator::new(&session, options(100)).unwrap();
    let mut texts = TextGenerator::new(generator, &Bytes);
    let id = texts.add("", Request { sampling: greedy(), ..Request::new([], 3) }, &[""; 0]).unwrap();
    assert_eq!(texts.generator().tokens(id).unwrap(), [10]);
    assert_eq!(run(&mut texts)[&id].1, Finish::Length);
    // A token outside the vocabulary is rejected with its position.
    let error = texts.add("aé", Request::new([], 3), &[""; 0]).unwrap_err().to_string();
    assert!(error.contains("token 0 of the prompt is 97"), "{error}");
}
