//! Concurrent requests to one generator: each gets the same tokens as when it is run alone, and no memory is
//! leaked.

mod crowd;
#[path = "../common/decoder.rs"]
mod decoder;
mod refused;
mod searches;
mod texts;

use crowd::{Numbers, alone, crowd, session};
use decoder::Decoder;
use gradloom::CpuDevice as _;
use gradloom_core::error::ErrorKind;
use gradloom_core::ir::DType;
use gradloom_models::decoding::{BeamOptions, EarlyStopping, Sampling, logprobs};
use gradloom_models::generator::{Event, Finish, Generator, GeneratorOptions, Request, RequestId};
use gradloom_models::language_model::LanguageModel;
use gradloom_runtime::{Device, Fault, Session};

fn greedy() -> Sampling {
    Sampling { temperature: 0.0, ..Sampling::default() }
}

fn options(blocks: usize) -> GeneratorOptions {
    GeneratorOptions { blocks, block_size: 4, rows: 4, chunk: 16, ..Default::default() }
}

/// Tokens of a request, and the reason why it ended.
type Text = (Vec<i32>, Option<Finish>);

/// Runs all requests to completion.
fn finish(generator: &mut Generator, ids: &[RequestId]) -> Vec<Text> {
    let mut texts = vec![(Vec::new(), None); ids.len()];
    while !generator.is_idle() {
        for event in generator.step().unwrap() {
            let of = |id: RequestId| ids.iter().position(|&other| other == id).unwrap();
            match event {
                Event::Token { request, token, .. } => texts[of(request)].0.push(token),
                Event::Finished { request, finish } => texts[of(request)].1 = Some(finish),
            }
        }
        generator.pages().check();
    }
    texts
}

#[test]
fn a_crowd_of_requests_gets_what_each_gets_alone() {
    for (name, seed) in [("gpt2", 1), ("llama", 2)] {
        let totals = crowd(name, &Device::cpu(), seed, None);
        assert!(totals.found > 500 && totals.preempted > 0, "the case is too easy: {totals:?}");
        assert_eq!(totals.ahead, 0, "the CPU does not work beside the host");
    }
}

/// Checks that tokens are the same if steps are queued before the tokens of the previous one are read.
#[test]
fn a_crowd_that_is_queued_ahead_gets_the_same() {
    for (name, seed) in [("gpt2", 2), ("llama", 3), ("gpt2", 8), ("llama", 6)] {
        let totals = crowd(name, &Device::cpu(), seed, Some(true));
        assert!(totals.preempted > 0 && totals.ahead > 10, "the case is too easy: {totals:?}");
    }
}

/// Checks that all steps except the prompt's and the one after it are queued ahead, and none is queued for an
/// unwanted token.
#[test]
fn steps_are_queued_ahead() {
    let session = session("gpt2", &Device::cpu());
    let mut generator =
        Generator::new(&session, GeneratorOptions { ahead: Some(true), ..options(100) }).unwrap();
    let request = Request { sampling: greedy(), ..Request::new(Numbers(6).tokens(9), 12) };
    let id = generator.add(request.clone()).unwrap();
    let want = alone(&session, &request.prompt, 9, &request);
    assert_eq!(finish(&mut generator, &[id]), [(want.clone(), Some(Finish::Length))]);
    // The prompt's step yields the first of the 12 tokens, and the next step the second. The other 10 steps
    // are queued ahead.
    assert_eq!((generator.totals().ahead, generator.totals().computed), (10, 9 + 11));

    // A token that ends the text is detected only after one more has been computed.
    let last = (1..11).rev().find(|&i| !want[..i].contains(&want[i])).unwrap();
    let id = generator.add(Request { ends: vec![want[last]], shares: false, ..request.clone() }).unwrap();
    assert_eq!(finish(&mut generator, &[id]), [(want[..last].to_vec(), Some(Finish::End(want[last])))]);
    // The surplus step is settled together with the next text's.
    let next = Request { shares: false, ..request.clone() };
    let id = generator.add(next).unwrap();
    assert_eq!(finish(&mut generator, &[id]), [(want, Some(Finish::Length))]);
    assert_eq!(generator.totals().computed, 2 * (9 + 11) + 9 + last as u64 + 1);

    // With penalties, for which the host counts tokens, no step is queued ahead.
    let ahead = generator.totals().ahead;
    let sampling = Sampling { repetition: 1.3, ..greedy() };
    let penalised = Request { sampling, ..request };
    let id = generator.add(penalised.clone()).unwrap();
    let want = alone(&session, &penalised.prompt, 9, &penalised);
    assert_eq!(finish(&mut generator, &[id]), [(want, Some(Finish::Length))]);
    assert_eq!(generator.totals().ahead, ahead);
}

#[test]
fn texts_are_those_of_transformers_over_200_tokens() {
    for name in ["gpt2", "llama", "tied"] {
        for ahead in [false, true] {
            crowd::transformers_text(name, &Device::cpu(), Some(ahead));
        }
    }
}

/// Checks that the total number of examined texts is proportional to the number of requests: a step examines
/// only a limited number of waiting texts.
#[test]
fn scheduling_takes_time_by_the_number_of_texts() {
    let session = crowd::session("gpt2", &Device::cpu());
    let looked_at = |texts: i32| {
        let options = GeneratorOptions { rows: 4, blocks: 33, block_size: 4, ..GeneratorOptions::default() };
        let mut generator = Generator::new(&session, options).unwrap();
        for text in 0..texts {
            generator.add(Request::new([3, text % 90, text / 90], 2)).unwrap();
        }
        let mut ended = 0;
        while !generator.is_idle() {
            let events = generator.step().unwrap();
            ended += events.iter().filter(|event| matches!(event, Event::Finished { .. })).count();
        }
        assert_eq!(ended, texts as usize);
        generator.totals().looked_at
    };
    let (few, many) = (looked_at(50), looked_at(400));
    assert!(many < 10 * few, "{few} looks for 50 texts, {many} for 400");
}

#[test]
fn what_prompts_have_in_common_is_computed_once() {
    let session = session("gpt2", &Device::cpu());
    let common = Numbers(4).tokens(40);
    let prompt = |i: i32| [&common[..], &[i]].concat();
    let mut generator = Generator::new(&session, options(100)).unwrap();
    let ids: Vec<_> = (0..4).map(|i| generator.add(Request::new(prompt(i), 1)).unwrap()).collect();
    finish(&mut generator, &ids);
    assert_eq!(generator.totals().computed, 41 + 3);
    assert_eq!(generator.totals().found, 3 * 40);
    let id = generator.add(Request { shares: false, ..Request::new(prompt(9), 1) }).unwrap();
    finish(&mut generator, &[id]);
    assert_eq!(generator.totals().computed, 41 + 3 + 41, "a private text finds nothing");
}

/// Checks that no text has to wait or is preempted, and that a search fits in memory too.
#[test]
fn options_hold_what_they_are_made_for() {
    let session = session("gpt2", &Device::cpu());
    for (texts, tokens) in [(1, 2), (1, 16), (1, 17), (3, 40), (5, 33)] {
        let name = format!("{texts}.{tokens}");
        let options = GeneratorOptions { name, ..GeneratorOptions::holding(texts, tokens) };
        let mut generator = Generator::new(&session, options).unwrap();
        let prompts: Vec<_> = (0..texts).map(|i| Numbers(i as u64).tokens(tokens / 2)).collect();
        let most = tokens - tokens / 2;
        let ids: Vec<_> =
            prompts.iter().map(|prompt| generator.add(Request::new(&prompt[..], most)).unwrap()).collect();
        assert!(finish(&mut generator, &ids).iter().all(|text| text.0.len() == most));
        assert_eq!(generator.totals().preempted, 0);
        let search = BeamOptions {
            beams: texts,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::default(),
            most,
            ends: vec![],
        };
        assert_eq!(generator.beams(&prompts[0], search).unwrap().len(), texts);
        assert_eq!(generator.pages().capacity(), texts * (tokens.div_ceil(16) + 1), "and no more");
    }
}

#[test]
fn texts_end_for_the_reason_that_is_told() {
    let session = session("gpt2", &Device::cpu());
    let mut generator = Generator::new(&session, options(100)).unwrap();
    let text = Numbers(6).tokens(250);
    let plain = |length: usize, most| Request { sampling: greedy(), ..Request::new(&text[..length], most) };
    let want = alone(&session, &text[..9], 9, &plain(9, 8));
    let last = (1..8).rev().find(|&i| !want[..i].contains(&want[i])).unwrap();
    let ends = Request { ends: vec![want[last]], ..plain(9, 8) };
    let nothing = (0..97).map(|token| (token, f64::NEG_INFINITY)).collect();
    let nothing = Request { sampling: Sampling { bias: nothing, ..greedy() }, ..plain(5, 3) };
    let ids = [plain(9, 8), ends, nothing, plain(250, 100)].map(|request| generator.add(request).unwrap());
    let texts = finish(&mut generator, &ids);
    assert_eq!(texts[0], (want.clone(), Some(Finish::Length)));
    assert_eq!(texts[1], (want[..last].to_vec(), Some(Finish::End(want[last]))));
    assert_eq!(texts[2], (vec![], Some(Finish::NoToken)));
    // The model reads 256 tokens, and one more follows.
    assert_eq!((texts[3].0.len(), texts[3].1), (7, Some(Finish::Context)));
    assert_eq!(texts[3].0, alone(&session, &text, 250, &plain(250, 7)));
}

#[test]
fn log_probabilities_are_those_of_the_host() {
    let session = session("llama", &Device::cpu());
    let mut generator = Generator::new(&session, options(100)).unwrap();
    let prompt = Numbers(7).tokens(6);
    let request = Request { logprobs: Some(3), sampling: greedy(), ..Request::new(prompt.clone(), 4) };
    let first = generator.add(request).unwrap();
    // A concurrent request needs more log-probabilities, and another one needs none.
    generator.add(Request { logprobs: Some(5), ..Request::new(prompt.clone(), 9) }).unwrap();
    generator.add(Request::new(prompt.clone(), 9)).unwrap();
    let mut decoder = Decoder::new(&session, "alone").unwrap();
    let mut logits = decoder.feed(&prompt).unwrap();
    let mut seen = 0;
    while !generator.is_idle() {
        for event in generator.step().unwrap() {
            let Event::Token { request, token, logprobs: got } = event else { continue };
            match (request == first, got) {
                (true, Some(got)) => {
                    let (own, top) = logprobs(&logits, token as usize, 3);
                    assert!((f64::from(got.own) - own).abs() < 1e-4);
                    for ((id, got), (want_id, want)) in got.top.into_iter().zip(top) {
                        assert!(id as usize == want_id && (f64::from(got) - want).abs() < 1e-4);
                        seen += 1;
                    }
                    logits = decoder.feed(&[token]).unwrap();
                }
                (false, Some(got)) => assert_eq!(got.top.len(), 5),
                (is_first, None) => assert!(!is_first),
            }
        }
    }
    assert_eq!(seen, 12);
}

/// Returns the name and contents of every parameter and state.
fn content<M: LanguageModel>(session: &Session<M>) -> Vec<(String, Vec<u8>)> {
    let store = session.store();
    let entries = store.entries().into_iter();
    entries.map(|entry| (entry.name.clone(), store.read(&entry.name).unwrap())).collect()
}

fn restore<M: LanguageModel>(session: &Session<M>, content: &[(String, Vec<u8>)]) {
    let entries = session.store().entries();
    let all = entries.iter().zip(content).map(|(e, (name, bytes))| (name.as_str(), &e.ty, &bytes[..]));
    session.store().write_all(&all.collect::<Vec<_>>()).unwrap();
}

#[test]
fn a_failed_step_can_be_tried_again() {
    let (device, faults) = Device::cpu().with_faults();
    let session = session("gpt2", &device);
    let common = Numbers(8).tokens(18);
    let requests: Vec<Request> = (0..3)
        .map(|i| Request { sampling: greedy(), ..Request::new([&common[..], &[i]].concat(), 6) })
        .collect();
    let want: Vec<_> = requests.iter().map(|r| alone(&session, &r.prompt, r.prompt.len(), r)).collect();
    let cases = [
        (Fault::Launch, false, 3, 40),
        (Fault::Read, false, 1, 4),
        (Fault::Launch, true, 3, 40),
        (Fault::Read, true, 1, 4),
    ];
    for (fault, ahead, stride, least) in cases {
        let mut failed = 0;
        // Limit the memory to two of the texts, so that others have to wait, and fork one inside a block, so
        // that a copy can fail.
        for after in (0..).step_by(stride) {
            let name = format!("{fault:?}{after}.{ahead}");
            let options = GeneratorOptions { name, ahead: Some(ahead), ..options(14) };
            let mut generator = Generator::new(&session, options).unwrap();
            let content = content(&session);
            let mut ids: Vec<_> = requests.iter().map(|r| generator.add(r.clone()).unwrap()).collect();
            let mut texts = vec![Vec::new(); 4];
            faults.fail(fault, after);
            while !generator.is_idle() {
                match generator.step() {
                    Ok(events) => {
                        for event in events {
                            if let Event::Token { request, token, .. } = event {
                                texts[ids.iter().position(|&id| id == request).unwrap()].push(token);
                            }
                        }
                    }
                    Err(error) => {
                        failed += 1;
                        if error.kind() == ErrorKind::Lost {
                            // Restore the pools: launches that update them in place were interrupted.
                            restore(&session, &content);
                            generator.forget();
                        } else {
                            assert!(error.to_string().contains("Faults::fail"), "{error}");
                        }
                    }
                }
                generator.pages().check();
                if ids.len() == 3 && texts[0].len() >= 2 {
                    ids.push(generator.fork(ids[0], greedy()).unwrap());
                    texts[3] = texts[0].clone();
                }
            }
            assert_eq!(texts[..3], want[..], "{fault:?} after {after}, ahead: {ahead}");
            assert_eq!(texts[3], want[0], "{fault:?} after {after}, ahead: {ahead}");
            assert_eq!(generator.pages().counts().used, 0);
            if faults.is_armed() {
                break;
            }
        }
        faults.disarm();
        assert!(failed > least, "{fault:?}: {failed}");
    }
}

/// Checks that the events before a failed step are returned, even if the step was queued ahead for a text
/// that the previous step has ended.
#[test]
fn what_came_before_a_failed_step_is_handed_out() {
    let (device, faults) = Device::cpu().with_faults();
    let session = session("gpt2", &device);
    let request = Request { sampling: greedy(), ..Request::new(Numbers(11).tokens(5), 8) };
    let written = alone(&session, &request.prompt, request.prompt.len(), &request);
    let end = (1..8).find(|&n| !written[..n].contains(&written[n])).expect("not all tokens are the same");
    let request = Request { ends: vec![written[end]], ..request };
    let mut behind = 0;
    for after in 0.. {
        let options = GeneratorOptions { name: format!("ends{after}"), ahead: Some(true), ..options(8) };
        let mut generator = Generator::new(&session, options).unwrap();
        let content = content(&session);
        let id = generator.add(request.clone()).unwrap();
        faults.fail(Fault::Launch, after);
        let mut events = Vec::new();
        while !generator.is_idle() {
            match generator.step() {
                Ok(some) => events.extend(some),
                Err(error) => {
                    behind += usize::from(generator.requests().next().is_none());
                    if error.kind() == ErrorKind::Lost {
                        restore(&session, &content);
                        generator.forget();
                    } else {
                        assert!(error.to_string().contains("Faults::fail"), "{error}");
                    }
                }
            }
        }
        let tokens = written[..end].iter().map(|&token| (id, Some(token)));
        let want: Vec<_> = tokens.chain([(id, None)]).collect();
        let token = |event: &Event| match *event {
            Event::Token { token, .. } => Some(token),
            Event::Finished { .. } => None,
        };
        let came: Vec<_> = events.iter().map(|event| (event.request(), token(event))).collect();
        assert_eq!(came, want, "after {after}");
        if faults.is_armed() {
            break;
        }
    }
    faults.disarm();
    assert!(behind > 0, "no step failed behind the last one");
}

/// Two texts end when the memory is full. The older one needs space for one more token, but must not preempt
/// the younger one for a step queued ahead, which may never be needed.
#[test]
fn no_text_gives_its_blocks_for_a_step_ahead() {
    let session = session("gpt2", &Device::cpu());
    let options = GeneratorOptions { ahead: Some(true), ..options(5) };
    let mut generator = Generator::new(&session, options).unwrap();
    assert_eq!(generator.pages().capacity(), 4);
    // Index of the token that ends each text. The tokens before it and the prompt of three fill two blocks of
    // four.
    let last = 5;
    let ends_there = |seed| {
        let sampling = Sampling { seed, ..Sampling::default() };
        let request = Request { sampling, ..Request::new(Numbers(seed + 1).tokens(3), 12) };
        let written = alone(&session, &request.prompt, request.prompt.len(), &request);
        let is_new = !written[..last].contains(&written[last]);
        is_new.then(|| (Request { ends: vec![written[last]], ..request }, written[..last].to_vec()))
    };
    let (requests, want): (Vec<_>, Vec<_>) = (0..).filter_map(ends_there).take(2).unzip();
    let ids: Vec<_> = requests.into_iter().map(|request| generator.add(request).unwrap()).collect();
    let texts: Vec<_> = finish(&mut generator, &ids).into_iter().map(|(tokens, _)| tokens).collect();
    assert_eq!(texts, want);
    let totals = generator.totals();
    assert!(totals.ahead > 0 && totals.preempted == 0, "{totals:?}");
}

#[test]
fn new_parameters_need_new_keys_and_values() {
    let session = session("gpt2", &Device::cpu());
    let mut generator =
        Generator::new(&session, GeneratorOptions { ahead: Some(true), ..options(40) }).unwrap();
    let request = Request { sampling: greedy(), ..Request::new(Numbers(9).tokens(21), 12) };
    let id = generator.add(request.clone()).unwrap();
    for _ in 0..6 {
        generator.step().unwrap();
    }
    let so_far = generator.tokens(id).unwrap().to_vec();
    let mut other = content(&session);
    other.iter_mut().filter(|(name, _)| !name.starts_with("pages")).for_each(|(_, bytes)| scale(bytes, 1.5));
    restore(&session, &other);
    generator.forget();
    let texts = finish(&mut generator, &[id]);
    assert_eq!(texts[0].0, alone(&session, &so_far, 21, &request));
}

fn scale(bytes: &mut [u8], factor: f32) {
    for element in bytes.as_chunks_mut::<4>().0 {
        *element = (f32::from_le_bytes(*element) * factor).to_le_bytes();
    }
}

/// A fork that is still being read continues, although an older text waits for more blocks than are
/// available.
#[test]
fn a_text_in_memory_goes_on_beside_one_that_waits() {
    let session = session("gpt2", &Device::cpu());
    let mut generator = Generator::new(&session, GeneratorOptions { chunk: 8, ..options(11) }).unwrap();
    let first = Numbers(40).tokens(24);
    let second = [&first[..4], &Numbers(41).tokens(32)].concat();
    let a = generator.add(Request::new(first, 1)).unwrap();
    let b = generator.add(Request::new(second, 1)).unwrap();
    generator.step().unwrap();
    let fork = generator.fork(a, greedy()).unwrap();
    let texts = finish(&mut generator, &[a, b, fork]);
    assert!(texts.iter().all(|(tokens, end)| tokens.len() == 1 && *end == Some(Finish::Length)), "{texts:?}");
}

/// With half the memory, each concurrent text equals the one computed alone with the same precision.
#[test]
fn keys_and_values_may_have_16_bits() {
    let session = session("gpt2", &Device::cpu());
    let requests: Vec<Request> = (0..5)
        .map(|i| Request { sampling: greedy(), ..Request::new(Numbers(30 + i).tokens(9 + i as usize), 20) })
        .collect();
    let mut texts = Vec::new();
    for (name, rows) in [("alone", 1), ("together", 4)] {
        let options = GeneratorOptions { name: name.to_string(), rows, dtype: DType::BF16, ..options(60) };
        let mut generator = Generator::new(&session, options).unwrap();
        let ids: Vec<_> = requests.iter().map(|r| generator.add(r.clone()).unwrap()).collect();
        texts.push(finish(&mut generator, &ids));
    }
    assert_eq!(texts[0], texts[1]);
    let state = session.store().entries().into_iter().find(|e| e.name == "alone.h.0.keys").unwrap();
    assert_eq!(state.ty.dtype, DType::BF16);
}

/// A cancelled text releases its blocks and produces no further events.
#[test]
fn cancelled_texts_leave_nothing() {
    let session: Session<_> = session("gpt2", &Device::cpu());
    let mut generator =
        Generator::new(&session, GeneratorOptions { ahead: Some(true), ..options(20) }).unwrap();
    let ids = [0, 1, 2].map(|i| generator.add(Request::new(Numbers(i).tokens(9), 50)).unwrap());
    (0..6).for_each(|_| _ = generator.step().unwrap());
    assert!(generator.totals().ahead > 0);
    for id in ids {
        generator.cancel(id).unwrap();
        let error = generator.cancel(id).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Feed);
        assert!(error.to_string().contains(&format!("{id} is not under way")), "{error}");
    }
    assert!(generator.is_idle());
    assert_eq!(generator.step().unwrap(), []);
    assert_eq!(generator.pages().counts().used, 0);
}
