//! Perplexities match those of transformers, and choices are scored as by separate forward passes.

use gradloom::CpuDevice as _;
use gradloom_core::trace::i32;
use gradloom_models::any_model::AnyModel;
use gradloom_models::data::{Bytes, Tokens};
use gradloom_models::decoding::logprobs;
use gradloom_models::evaluate::{
    Accuracy, Item, PerplexityError, Question, Scorer, perplexity, score_choices, spans,
};
use gradloom_models::gpt2::Gpt2Config;
use gradloom_models::hugging_face::Folder;
use gradloom_models::language_model::LanguageModel;
use gradloom_runtime::files::Weights;
use gradloom_runtime::{Device, Session};
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hugging_face").join(name)
}

fn session(name: &str) -> Session<AnyModel> {
    Folder::open(path(name)).unwrap().session(&Device::cpu()).unwrap()
}

/// Returns the log-probabilities of all tokens except the first, computed from logits on the host.
fn by_forward<M: LanguageModel>(session: &Session<M>, text: &[i32]) -> Vec<f64> {
    let read = text.len() - 1;
    let mut program = session.infer([i32("ids", [1, read])], |model, [ids]| model.forward(ids)).unwrap();
    let logits: Vec<f32> = program.run((&text[..read],)).unwrap();
    let rows = logits.chunks_exact(logits.len() / read).zip(&text[1..]);
    rows.map(|(logits, &id)| logprobs(logits, id as usize, 0).0).collect()
}

#[test]
fn perplexities_are_those_of_transformers() {
    for name in ["gpt2", "llama", "tied"] {
        let file = Weights::open(path(name).join("expected.safetensors")).unwrap();
        let expected = f64::from_le_bytes(file.get("perplexity").unwrap().bytes.try_into().unwrap());
        let window = file.get("window").unwrap().to_f32().unwrap();
        let window: Vec<i32> = window.into_iter().map(|x| x as i32).collect();
        let session = session(name);
        let context = session.model().sizes().context;
        let found = perplexity(&session, &Tokens::from(window.clone()), [context, context, 4]).unwrap();
        assert_eq!(found.tokens, window.len() - 1);
        let relative = found.perplexity() / expected - 1.0;
        assert!(relative.abs() < 1e-5, "{name}: {relative}");
        let bits = found.loss() * found.tokens as f64 / std::f64::consts::LN_2 / 300.0;
        assert!((found.bits_per_byte(300) / bits - 1.0).abs() < 1e-12);
    }
}

#[test]
fn a_long_text_is_scored_span_by_span() {
    let session = session("gpt2");
    let vocabulary = session.model().sizes().vocabulary as i32;
    let text: Vec<i32> = (0..100).map(|i| (i * i * 7 + i * 3 + 1) % vocabulary).collect();
    for [context, stride, batch] in [[16, 16, 4], [16, 5, 3], [7, 1, 64], [99, 50, 2]] {
        let mut nats = 0.0;
        for span in spans(text.len(), context, stride) {
            let scores = by_forward(&session, &text[span.start..=span.start + span.length]);
            nats -= scores[span.length - span.scored..].iter().sum::<f64>();
        }
        let found = perplexity(&session, &Tokens::from(text.clone()), [context, stride, batch]).unwrap();
        assert_eq!(found.tokens, 99);
        assert!((found.nats / nats - 1.0).abs() < 1e-5, "{context} by {stride}: {} {nats}", found.nats);
    }
    let short = perplexity(&session, &Tokens::from(vec![1]), [8, 8, 1]).unwrap_err();
    assert!(matches!(short, PerplexityError::TooShort { tokens: 1 }));
}

#[test]
fn choices_are_scored_as_each_alone() {
    let config =
        Gpt2Config { vocabulary: 256, context: 96, width: 32, heads: 2, layers: 2, ..<_>::default() };
    let session =
        Session::new(gradloom_models::gpt2::Gpt2::new(&config).unwrap(), &Device::cpu(), 5).unwrap();
    session.materialize().unwrap();
    let item = |context: &str, choices: &[&str], answer| Item {
        line: 1,
        context: context.to_string(),
        choices: choices.iter().map(ToString::to_string).collect(),
        answer,
    };
    let items = [
        item("The sky is", &["blue", "a number of five digits", "x"], 0),
        item(&"A long text. ".repeat(6), &["yes", "no"], 1),
        item("q", &["r", "s", "t", "u"], 3),
    ];
    let questions: Vec<Question> =
        items.iter().map(|item| Question::new(item, &Bytes, None, 96).unwrap()).collect();
    // Score batches of one choice, of two, and of all.
    for tokens in [1, 64, 100_000] {
        let scores = score_choices(&session, &questions, tokens).unwrap();
        for (question, scores) in questions.iter().zip(&scores) {
            assert_eq!(question.choices.len(), scores.len());
            for (choice, score) in question.choices.iter().zip(scores) {
                let all = by_forward(&session, &choice.tokens);
                let want: f64 = all[all.len() - choice.scored..].iter().sum();
                assert!((score / want - 1.0).abs() < 1e-5, "{score} for {want}");
            }
        }
        assert_eq!(Accuracy::of(&questions, &scores).questions, 3);
    }
}

#[test]
fn texts_that_do_not_fit_are_refused() {
    let session = session("gpt2");
    let sizes = session.model().sizes();
    let mut scorer = Scorer::new(&session, 2, 4).unwrap();
    let unknown = sizes.vocabulary as i32;
    for (text, part) in [
        (&[1][..], "a text of 1 tokens is to be scored, by a program for 2 to 5"),
        (&[1, 2, 3, 4, 5, 6], "a text of 6 tokens"),
        (&[1, unknown], "is not one of the model's"),
        (&[-1, 1], "the token -1 is not one of"),
    ] {
        let error = scorer.score(&[&[1, 2], text]).unwrap_err();
        assert!(error.message().contains(part) && error.remedies().count() == 1, "{error}");
    }
    let error = Scorer::new(&session, 1, sizes.context + 1).unwrap_err();
    assert!(error.message().contains("for a context of"), "{error}");
}
