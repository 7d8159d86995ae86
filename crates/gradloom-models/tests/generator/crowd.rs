//! Many concurrent requests on any device: every token is right, and no memory is leaked.

use crate::decoder::Decoder;
use gradloom_models::any_model::AnyModel;
use gradloom_models::decoding::{Past, Sampling};
use gradloom_models::generator::{Event, Finish, Generator, GeneratorOptions, Request, RequestId, Totals};
use gradloom_models::hugging_face::Folder;
use gradloom_runtime::files::Weights;
use gradloom_runtime::{Device, Session};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) fn session(name: &str, device: &Device) -> Session<AnyModel> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hugging_face").join(name);
    Folder::open(path).unwrap().session(device).unwrap()
}

/// Checks that the generated text of 200 tokens matches transformers' at temperature 0, alongside other
/// requests and after a fork.
pub(crate) fn transformers_text(name: &str, device: &Device, ahead: Option<bool>) {
    let session = session(name, device);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hugging_face").join(name);
    let file = Weights::open(path.join("expected.safetensors")).unwrap();
    let ids = |tensor: &str| -> Vec<i32> {
        file.get(tensor).unwrap().to_f32().unwrap().into_iter().map(|id| id as i32).collect()
    };
    let (prompt, want) = (ids("ids")[..7].to_vec(), ids("greedy"));
    assert_eq!(want.len(), 200);
    let options = GeneratorOptions { blocks: 60, rows: 4, ahead, ..Default::default() };
    let mut generator = Generator::new(&session, options).unwrap();
    let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
    let request = Request { sampling: greedy.clone(), ..Request::new(prompt, 200) };
    let company = Request { sampling: Sampling::default(), ..Request::new([1, 2, 3], 150) };
    generator.add(company).unwrap();
    let text = generator.add(request).unwrap();
    let mut texts = BTreeMap::from([(text, Vec::new())]);
    while !generator.is_idle() {
        for event in generator.step().unwrap() {
            if let Event::Token { request, token, .. } = event {
                texts.entry(request).or_default().push(token);
            }
        }
        if texts[&text].len() == 50 && texts.len() == 2 {
            let fork = generator.fork(text, greedy.clone()).unwrap();
            texts.insert(fork, texts[&text].clone());
        }
    }
    assert_eq!(texts.len(), 3);
    for (id, tokens) in texts.into_iter().filter(|(id, _)| *id >= text) {
        assert_eq!(tokens, want, "{name}, {id}");
    }
}

/// A reproducible random generator, `splitmix64`.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((b ^ (b >> 31)) % n as u64) as usize
    }

    pub(crate) fn tokens(&mut self, count: usize) -> Vec<i32> {
        (0..count).map(|_| self.below(97) as i32).collect()
    }

    fn sampling(&mut self, has_penalties: bool) -> Sampling {
        let seed = self.below(1 << 30) as u64;
        let plain = Sampling { seed, ..Sampling::default() };
        let repetition = if has_penalties { 1.3 } else { 1.0 };
        match self.below(5) {
            0 => Sampling { temperature: 0.8, top_k: Some(20), ..plain },
            1 => Sampling { top_p: 0.9, min_p: 0.01, ..plain },
            2 => Sampling { temperature: 0.0, repetition, bias: [(7, -2.0)].into(), ..plain },
            _ => Sampling { temperature: 0.0, ..plain },
        }
    }
}

/// Returns the tokens that follow a text, computed alone with a separate cache and sampling on the host. The
/// first `prompt` tokens of the text are its prompt.
pub(crate) fn alone(session: &Session<AnyModel>, text: &[i32], prompt: usize, request: &Request) -> Vec<i32> {
    let mut decoder = Decoder::new(session, "alone").unwrap();
    decoder.reset();
    let mut past = Past::new(&text[..prompt]);
    text[prompt..].iter().for_each(|&token| past.push(token));
    let mut logits = decoder.feed(text).unwrap();
    let mut tokens = Vec::new();
    for position in text.len() - prompt..request.most {
        let token = request.sampling.choose(&logits, &past, position as u64).unwrap() as i32;
        if request.ends.contains(&token) {
            break;
        }
        tokens.push(token);
        past.push(token);
        if position + 1 < request.most {
            logits = decoder.feed(&[token]).unwrap();
        }
    }
    tokens
}

/// Expected result of a request.
struct Expected {
    request: Request,
    start: Vec<i32>,
    tokens: Vec<i32>,
    cancelled: bool,
    finish: Option<Finish>,
}

/// Runs 64 requests that arrive one after the other, most of them with a common prefix; some are forked, some
/// cancelled. The memory is too small for all that could run concurrently. If `ahead` is set, no request has
/// penalties.
pub(crate) fn crowd(name: &str, device: &Device, seed: u64, ahead: Option<bool>) -> Totals {
    let session = session(name, device);
    let options =
        GeneratorOptions { blocks: 45, block_size: 4, rows: 12, chunk: 32, ahead, ..Default::default() };
    let mut generator = Generator::new(&session, options).unwrap();
    let mut n = Numbers(seed);
    let prefixes: Vec<Vec<i32>> = [37, 50, 11].iter().map(|&length| n.tokens(length)).collect();
    let mut all: BTreeMap<RequestId, Expected> = BTreeMap::new();
    let begin = |request: Request, start: Vec<i32>| Expected {
        request,
        start,
        tokens: Vec::new(),
        cancelled: false,
        finish: None,
    };
    while all.len() < 64 || !generator.is_idle() {
        let live: Vec<RequestId> = generator.requests().collect();
        match n.below(8) {
            0..=3 if all.len() < 64 => {
                let mut prompt = match n.below(4) {
                    3 => Vec::new(),
                    which => prefixes[which].clone(),
                };
                let own = 1 + n.below(20);
                prompt.extend(n.tokens(own));
                let request = Request {
                    sampling: n.sampling(ahead.is_none()),
                    ends: vec![5],
                    shares: n.below(6) > 0,
                    ..Request::new(prompt.clone(), 1 + n.below(24))
                };
                all.insert(generator.add(request.clone()).unwrap(), begin(request, prompt));
            }
            4 if all.len() < 64 && !live.is_empty() => {
                let parent = live[n.below(live.len())];
                let sampling = n.sampling(ahead.is_none());
                let forked = generator.fork(parent, sampling.clone()).unwrap();
                let request = Request { sampling, ..all[&parent].request.clone() };
                all.insert(forked, begin(request, generator.tokens(parent).unwrap().to_vec()));
            }
            5 if live.len() > 1 && n.below(3) == 0 => {
                let cancelled = live[n.below(live.len())];
                generator.cancel(cancelled).unwrap();
                all.get_mut(&cancelled).unwrap().cancelled = true;
            }
            _ => {}
        }
        for event in generator.step().unwrap() {
            match event {
                Event::Token { request, token, .. } => all.get_mut(&request).unwrap().tokens.push(token),
                Event::Finished { request, finish } => all.get_mut(&request).unwrap().finish = Some(finish),
            }
        }
        generator.pages().check();
    }
    let counts = generator.pages().counts();
    assert_eq!((counts.used, counts.free + counts.cached), (0, 44));
    generator.forget();
    assert_eq!(generator.pages().counts().free, 44);
    assert!(all.values().filter(|text| text.cancelled).count() > 2);
    for (id, text) in all {
        let prompt = text.request.prompt.len();
        let want = alone(&session, &text.start, prompt, &text.request);
        if text.cancelled {
            assert_eq!(text.tokens, want[..text.tokens.len()], "{name}, {id}");
            continue;
        }
        assert_eq!(text.tokens, want, "{name}, {id}: {:?}", text.request);
        let whole = text.start.len() + want.len() == prompt + text.request.most;
        assert_eq!(text.finish, Some(if whole { Finish::Length } else { Finish::End(5) }), "{id}");
    }
    generator.totals()
}
