//! Tests that GPT-2 with cached keys and values generates the same text as without a cache.

#[path = "../../gradloom-models/tests/common/decoder.rs"]
mod decoder;

use decoder::{Decoder, TextCache};
use gradloom::ir::{DType, Graph, OpKind, Type};
use gradloom::kernel::{Kernel, Phase};
use gradloom::prelude::*;
use gradloom::reference::{HostTensor, evaluate};
use gradloom::{ErrorKind, Infer, Session, passes, plan, trace};
use gradloom_models::decoding::{Past, Sampling};
use gradloom_models::generator::{Event, Finish, Generator, GeneratorOptions, Request};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_models::language_model::LanguageModel;
use std::collections::HashMap;

fn config(context: usize) -> Gpt2Config {
    Gpt2Config {
        vocabulary: 37,
        context,
        width: 24,
        heads: 3,
        layers: 2,
        dropout: 0.1,
        ..Gpt2Config::default()
    }
}

fn session(context: usize, seed: u64) -> Session<Gpt2> {
    let session = Session::new(Gpt2::new(&config(context)).unwrap(), &Device::cpu(), seed).unwrap();
    Decoder::new(&session, "cache").unwrap();
    scatter(&session);
    session
}

/// Increases the initial weights, so that an untrained model has clear preferences and does not only repeat
/// the last token.
fn scatter(session: &Session<Gpt2>) {
    let store = session.store();
    for entry in store.entries().into_iter().filter(|entry| entry.name.ends_with("weight")) {
        let factor = match entry.name.as_str() {
            "wte.weight" => 4.0,
            name if name.contains("ln_") => 1.0,
            _ => 30.0,
        };
        let scaled: Vec<u8> =
            store.read_f32(&entry.name).unwrap().iter().flat_map(|w| (w * factor).to_le_bytes()).collect();
        store.write(&[(entry.name.as_str(), &entry.ty, &scaled[..])]).unwrap();
    }
}

/// Returns the logits of the token after one position, `[1, vocabulary]`.
fn logits_at(model: &Gpt2, ids: Tensor, position: Tensor) -> Tensor {
    let logits = model.forward(ids);
    let [_, time, vocabulary] = logits.dims();
    logits.reshape([time, vocabulary]).gather_rows(position)
}

fn uncached(session: &Session<Gpt2>) -> Infer<2, Tensor> {
    let context = session.model().config().context;
    session.infer([i32("ids", [1, context]), i32("position", [1])], |m, [x, at]| logits_at(m, x, at)).unwrap()
}

/// Returns the tokens padded to the context length, and the index of the last token.
fn padded(tokens: &[i32], context: usize) -> (Vec<i32>, [i32; 1]) {
    let mut padded = tokens.to_vec();
    padded.resize(context, 0);
    (padded, [tokens.len() as i32 - 1])
}

/// Returns the tokens that the model generates if it reads the whole text again for each token. A text longer
/// than the context is truncated to its last half.
fn uncached_text(session: &Session<Gpt2>, prompt: &[i32], count: usize, sampling: &Sampling) -> Vec<i32> {
    let context = session.model().config().context;
    let mut program = uncached(session);
    let (mut past, mut seen, mut tokens) = (Past::new(prompt), prompt.to_vec(), Vec::new());
    for position in 0..count {
        let (ids, last) = padded(&seen, context);
        let logits = program.run((&ids, &last)).unwrap();
        let token = sampling.choose(&logits, &past, position as u64).unwrap() as i32;
        tokens.push(token);
        seen.push(token);
        past.push(token);
        if seen.len() > context {
            seen.drain(..seen.len() - (context / 2).max(1));
        }
    }
    tokens
}

fn request(prompt: &[i32], count: usize, sampling: &Sampling) -> Request {
    Request { sampling: sampling.clone(), rolls: true, ..Request::new(prompt, count) }
}

/// Returns the tokens of concurrent requests, with blocks of 4 tokens, and the number of preemptions.
fn texts(session: &Session<Gpt2>, requests: &[Request], options: GeneratorOptions) -> (Vec<Vec<i32>>, u64) {
    let mut generator = Generator::new(session, GeneratorOptions { block_size: 4, ..options }).unwrap();
    let ids: Vec<_> = requests.iter().map(|request| generator.add(request.clone()).unwrap()).collect();
    let mut texts = vec![Vec::new(); ids.len()];
    while !generator.is_idle() {
        for event in generator.step().unwrap() {
            let text = ids.iter().position(|&id| id == event.request()).unwrap();
            match event {
                Event::Token { token, .. } => texts[text].push(token),
                Event::Finished { finish, .. } => assert_eq!(finish, Finish::Length),
            }
        }
        generator.pages().check();
    }
    (texts, generator.totals().preempted)
}

fn text(session: &Session<Gpt2>, prompt: &[i32], count: usize, sampling: &Sampling) -> Vec<i32> {
    let (mut texts, _) = texts(session, &[request(prompt, count, sampling)], GeneratorOptions::default());
    texts.swap_remove(0)
}

fn samplings() -> [Sampling; 4] {
    [
        Sampling { temperature: 0.0, ..Sampling::default() },
        Sampling { seed: 5, ..Sampling::default() },
        Sampling { temperature: 1.5, top_k: Some(20), top_p: 0.9, seed: 6, ..Sampling::default() },
        // Tokens outside the context still count as repeated.
        Sampling { temperature: 0.0, presence: 1.5, repetition: 1.2, ..Sampling::default() },
    ]
}

/// Texts longer than two contexts continue from their last half several times, alone and with others in a
/// pool that is too small for all of them.
#[test]
fn the_text_is_that_of_the_model_without_a_cache() {
    // A context that is a power of two, and one that is not.
    for context in [16, 13] {
        let session = session(context, 3);
        let (mut requests, mut want) = (Vec::new(), Vec::new());
        for sampling in samplings() {
            for length in [1, 2, 5, context - 1, context] {
                let prompt: Vec<i32> = (0..length as i32).map(|i| i * 7 % 37).collect();
                requests.push(request(&prompt, 40, &sampling));
                want.push(uncached_text(&session, &prompt, 40, &sampling));
                let tokens = want.last().unwrap();
                assert_eq!(&text(&session, &prompt, 40, &sampling), tokens, "{context} {prompt:?}");
                assert!(tokens.iter().collect::<std::collections::HashSet<_>>().len() > 3, "{tokens:?}");
            }
        }
        for ahead in [false, true] {
            let name = "crowd".to_string();
            let options =
                GeneratorOptions { blocks: 10, rows: 4, ahead: Some(ahead), name, ..Default::default() };
            // Only texts without penalties can be decoded ahead.
            let count = if ahead { 15 } else { 20 };
            let (got, preempted) = texts(&session, &requests[..count], options);
            assert_eq!(got, want[..count]);
            assert!(preempted > 0);
        }
    }
}

/// A text that is forked beyond the end of the context continues like its parent.
#[test]
fn a_text_is_forked_behind_the_context() {
    let session = session(13, 3);
    let [greedy, ..] = samplings();
    let want = uncached_text(&session, &[4, 9], 40, &greedy);
    let options = GeneratorOptions { rows: 2, ..GeneratorOptions::default() };
    let mut generator = Generator::new(&session, options).unwrap();
    let first = generator.add(request(&[4, 9], 40, &greedy)).unwrap();
    let mut all = std::collections::BTreeMap::from([(first, Vec::new())]);
    while !generator.is_idle() {
        for event in generator.step().unwrap() {
            if let Event::Token { request, token, .. } = event {
                all.get_mut(&request).unwrap().push(token);
            }
        }
        if [13, 14, 29].contains(&all[&first].len()) {
            let fork = generator.fork(first, greedy.clone()).unwrap();
            all.insert(fork, all[&first].clone());
        }
    }
    assert!(all.len() > 3 && all.values().all(|tokens| *tokens == want), "{all:?}");
}

#[test]
fn the_smallest_contexts_have_texts_too() {
    for context in [1, 2, 3] {
        let session = session(context, 1);
        for sampling in samplings() {
            let want = uncached_text(&session, &[4], 12, &sampling);
            assert_eq!(text(&session, &[4], 12, &sampling), want);
        }
    }
}

/// Tests that a text fed in chunks of any length has the same logits as the whole text.
#[test]
fn logits_are_those_of_the_whole_text() {
    let session = session(16, 2);
    let mut whole = uncached(&session);
    let tokens: Vec<i32> = (0..16).map(|i| i * 11 % 37).collect();
    let mut decoder = Decoder::new(&session, "cache").unwrap();
    for pieces in [vec![16], vec![1; 16], vec![3, 5, 1, 7], vec![13, 3], vec![1, 15], vec![9, 6, 1]] {
        decoder.reset();
        let mut done = 0;
        for piece in pieces {
            let logits = decoder.feed(&tokens[done..done + piece]).unwrap();
            done += piece;
            assert_eq!(decoder.length(), done);
            let (padded, last) = padded(&tokens[..done], 16);
            let want = whole.run((&padded, &last)).unwrap();
            let near = logits.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4);
            assert!(near, "after {done} tokens:\n{logits:?}\n{want:?}");
        }
    }
}

/// In float64, attention split into the cache's part and the new part is exact.
#[test]
fn the_reference_agrees_to_the_last_digits() {
    let gpt = Gpt2::new(&config(8)).unwrap();
    let cache = TextCache::new(gpt.sizes(), "cache", DType::F32);
    let graph = |inputs: &[trace::Input], f: &dyn Fn(&[Tensor]) -> Tensor| {
        let mut traced = trace::trace(&gpt, inputs, false, f, |t| vec![t]).unwrap();
        let value = traced.results[0];
        traced.graph.outputs.push(gradloom::ir::Output { name: "logits".into(), value });
        traced.graph
    };
    let step = |time| graph(&[i32("ids", [1, time]), i32("count", [])], &|x| cache.extend(&gpt, x[0], x[1]));
    let full = graph(&[i32("ids", [1, 8]), i32("at", [1])], &|x| logits_at(&gpt, x[0], x[1]));

    let weights = |name: &str, ty: &Type| {
        let key = name.bytes().fold(1.0, |key, byte| key * 1.1 + f64::from(byte)) % 100.0;
        HostTensor::from_f64(ty.clone(), (0..ty.elements()).map(|i| ((i as f64 + 1.0) * key).sin() * 0.5))
    };
    let run = |graph: &Graph, inputs: &[(&str, HostTensor)], states: &HashMap<String, HostTensor>| {
        evaluate(graph, &|kind| match kind {
            OpKind::Param { name, ty } => Some(weights(name, ty)),
            OpKind::Input { name, .. } => {
                inputs.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
            }
            OpKind::State { name, .. } => states.get(name).cloned(),
            _ => None,
        })
        .unwrap()
    };
    let ints = |shape: &[usize], values: &[i32]| {
        HostTensor::from_f64(Type::new(DType::I32, shape), values.iter().map(|&v| f64::from(v)))
    };
    let tokens = [5, 30, 11, 2, 36, 0, 19, 8];
    let mut states = HashMap::new();
    let mut done = 0;
    for (graph, time, count) in
        [(step(4), 4, 3), (step(1), 1, 1), (step(2), 2, 2), (step(1), 1, 1), (step(1), 1, 1)]
    {
        let mut ids = tokens[done..done + count].to_vec();
        ids.resize(time, 0);
        done += count;
        let mut all = tokens[..done].to_vec();
        all.resize(8, 0);
        let whole = [("ids", ints(&[1, 8], &all)), ("at", ints(&[1], &[done as i32 - 1]))];
        let want = run(&full, &whole, &HashMap::new()).output("logits").unwrap().to_f64();
        let inputs = [("ids", ints(&[1, time], &ids)), ("count", ints(&[], &[count as i32]))];
        let runs = [&graph, &passes::run(graph.clone()).0].map(|graph| run(graph, &inputs, &states));
        for step in &runs {
            let got = step.output("logits").unwrap().to_f64();
            let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-12, "after {done} tokens the logits differ by {worst}");
        }
        states.extend(runs[0].next.iter().cloned());
    }
    assert_eq!(done, 8);
}

#[test]
fn texts_of_one_session_and_of_two_do_not_mix() {
    let (a, b) = (session(16, 3), session(16, 4));
    let alone = |session: &Session<Gpt2>, tokens: &[i32]| {
        let mut decoder = Decoder::new(session, "alone").unwrap();
        decoder.reset();
        tokens.iter().map(|&token| decoder.feed(&[token]).unwrap()).collect::<Vec<_>>()
    };
    let (first, second) = ([1, 2, 3, 4, 5, 6], [30, 20, 10, 20, 30, 20]);
    let want = [alone(&a, &first), alone(&a, &second), alone(&b, &first)];
    assert!(want[0] != want[1] && want[0] != want[2]);
    let mut decoders = [
        (Decoder::new(&a, "one").unwrap(), first),
        (Decoder::new(&a, "two").unwrap(), second),
        (Decoder::new(&b, "one").unwrap(), first),
    ];
    for i in 0..6 {
        for ((decoder, tokens), want) in decoders.iter_mut().zip(&want) {
            assert_eq!(decoder.feed(&[tokens[i]]).unwrap(), want[i]);
        }
    }
    // Another decoder with the same name continues its text; a reset of one decoder does not affect the
    // others.
    assert_eq!(Decoder::new(&a, "two").unwrap().length(), 6);
    decoders[0].0.reset();
    assert_eq!(decoders.each_ref().map(|(decoder, _)| decoder.length()), [0, 6, 6]);
    assert_eq!(decoders[0].0.feed(&[1]).unwrap(), want[0][0]);
}

#[test]
fn a_reset_clears_keys_values_and_length() {
    let session = session(8, 1);
    let store = session.store();
    let states: Vec<_> = store.entries().into_iter().filter(|e| e.name.starts_with("cache.")).collect();
    assert_eq!(states.len(), 5, "a length, and keys and values of two layers");
    let mut decoder = Decoder::new(&session, "cache").unwrap();
    decoder.feed(&[1, 2, 3]).unwrap();
    assert!(states.iter().all(|e| store.read(&e.name).unwrap().iter().any(|&byte| byte != 0)));
    decoder.reset();
    assert!(states.iter().all(|e| store.read(&e.name).unwrap().iter().all(|&byte| byte == 0)));
    assert!(
        store
            .entries()
            .iter()
            .any(|e| e.init.is_none() && store.read(&e.name).unwrap().iter().any(|&b| b != 0))
    );
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let session = session(8, 1);
    let store = session.store();
    let mut decoder = Decoder::new(&session, "cache").unwrap();
    decoder.feed(&[1, 2, 3, 4, 5]).unwrap();
    let contents = || store.entries().iter().map(|e| store.read(&e.name).unwrap()).collect::<Vec<_>>();
    let before = contents();
    for tokens in [&[][..], &[1; 4]] {
        assert_eq!(decoder.feed(tokens).unwrap_err().kind(), ErrorKind::Feed);
    }
    // The step itself detects ids outside the vocabulary.
    for token in [-1, 37] {
        assert_eq!(decoder.feed(&[token]).unwrap_err().kind(), ErrorKind::Trap);
    }
    // It also detects a count or a position out of range if the model's step is used directly.
    let cache = TextCache::new(session.model().sizes(), "cache", DType::F32);
    let inputs = || [i32("ids", [1, 4]), i32("count", [])];
    let mut four = session.infer(inputs(), |m, [ids, n]| cache.extend(m, ids, n)).unwrap();
    assert_eq!(four.run((&[1; 4], &[4])).unwrap_err().kind(), ErrorKind::Trap, "5 + 4 of 8");
    assert_eq!(contents(), before);
    decoder.feed(&[6, 7, 8]).unwrap();
    assert_eq!(decoder.length(), 8);
    decoder.reset();
    let empty = contents();
    for count in [0, -1, 5, i32::MAX, i32::MIN] {
        assert_eq!(four.run((&[1; 4], &[count])).unwrap_err().kind(), ErrorKind::Trap, "{count}");
        assert_eq!(contents(), empty);
    }
    four.run((&[1; 4], &[3])).unwrap();
}

/// One program decodes a token at any position, so its launches cannot depend on the position. It writes only
/// the new keys and values.
#[test]
fn a_token_costs_no_copy_of_the_cache() {
    let session = session(64, 1);
    let decoder = Decoder::new(&session, "cache").unwrap();
    let plan = decoder.plan();
    plan::verify(plan).unwrap();
    let cache_bytes = 64 * 24 * 4;
    let caches =
        plan.buffers.iter().filter(|b| b.role == plan::Role::State && b.bytes == cache_bytes).count();
    assert_eq!(caches, 4, "keys and values of two layers");
    let written: Vec<usize> = plan
        .launches
        .iter()
        .filter(|l| l.phase == Phase::Commit && l.kernel == Kernel::WriteRegion)
        .map(|l| l.reads[0].layout.shape.elements())
        .collect();
    assert_eq!(written, [24; 4], "one position of each");
    // No buffer of a step is as large as a cache, so none is a copy of it.
    let largest = plan.buffers.iter().filter(|b| b.region == plan::Region::Step).map(|b| b.bytes).max();
    assert!(largest.unwrap() < cache_bytes, "{largest:?}");
}

/// Generation uses the current parameters while training continues.
#[test]
fn generation_follows_the_training() {
    let mut train = Trainer::new(Gpt2::new(&config(8)).unwrap())
        .inputs([i32("ids", [2, 8]), i32("targets", [2, 8])])
        .loss(|m, [x, y]| m.loss(x, y))
        .optimizer(AdamW::new(0.01))
        .compile(&Device::cpu())
        .unwrap();
    let ids: Vec<i32> = (0..16).map(|i| i % 8).collect();
    let targets: Vec<i32> = (0..16).map(|i| (i + 1) % 8).collect();
    let before = text(train.session(), &[0], 20, &samplings()[0]);
    for _ in 0..120 {
        train.step((&ids, &targets)).unwrap().loss().unwrap();
    }
    let after = text(train.session(), &[0], 7, &samplings()[0]);
    assert_ne!(before[..7], after[..]);
    assert_eq!(after, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(
        uncached_text(train.session(), &[0], 20, &samplings()[0]),
        text(train.session(), &[0], 20, &samplings()[0])
    );
}

#[test]
fn integers_and_floats_of_the_cache_have_their_types() {
    let session = session(8, 1);
    let entry = |name: &str| session.store().entries().into_iter().find(|e| e.name == name).unwrap().ty;
    assert_eq!(entry("cache.length"), Type::scalar(DType::I32));
    assert_eq!(entry("cache.h.1.values"), Type::new(DType::F32, [1, 3, 8, 8]));
}
