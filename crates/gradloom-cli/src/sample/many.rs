//! Texts side by side, through one generator.

use super::{Arguments, Output, prompt};
use crate::device::report_tuning;
use crate::failure::{Failure, Result};
use crate::output::written;
use crate::source::Source;
use gradloom::Device;
use gradloom_models::generate::Sampling;
use gradloom_models::generator::{
    Finish, Generator, GeneratorOptions, Request, RequestId, TextEvent, TextGenerator, TokenLogprobs,
};
use gradloom_models::language_model::LanguageModel;
use std::collections::BTreeMap;

/// Tokens of a block of the memory.
const BLOCK: usize = 16;

/// A text under way, or one that waits for those before it to be printed.
struct Text {
    prompt: String,
    seed: u64,
    text: String,
    tokens: Vec<(i32, Option<TokenLogprobs>)>,
    finish: Option<Finish>,
}

/// Writes texts in the order of their prompts, each as soon as it and those before it are whole.
pub(super) fn run(
    arguments: &Arguments,
    sampling: &Sampling,
    source: &Source,
    device: &Device,
) -> Result<()> {
    let prompts = prompt::all(arguments)?;
    let session = source.session(device)?;
    let tokenizer = source.tokenizer()?;
    let (sizes, ends) = (session.model().sizes(), source.ends(&tokenizer));
    let context = sizes.context;
    let encoded = prompts.iter().map(|text| prompt::encoded(text, &tokenizer, sizes));
    let encoded = encoded.collect::<Result<Vec<_>>>()?;
    let most = usize::try_from(arguments.tokens).unwrap_or(usize::MAX);
    let length = |prompt: &Vec<i32>| prompt.len().saturating_add(most).min(context).div_ceil(BLOCK);
    let texts = prompts.len().saturating_mul(arguments.count as usize);
    let rows = texts.min(arguments.batch as usize);
    let options = GeneratorOptions {
        blocks: rows * encoded.iter().map(length).max().unwrap_or(0) + 1,
        block_size: BLOCK,
        rows,
        vocabulary: Some(sizes.vocabulary.min(tokenizer.get().vocabulary())),
        ..GeneratorOptions::default()
    };
    let generator = Generator::new(&session, options)?;
    let mut generator = TextGenerator::new(generator, tokenizer.get());
    report_tuning(device);
    let mut texts = BTreeMap::new();
    for (text, prompt) in prompts.iter().zip(encoded) {
        for seed in (0..arguments.count).map(|i| sampling.seed.wrapping_add(i)) {
            let sampling = Sampling { seed, ..sampling.clone() };
            let logprobs = arguments.logprobs;
            let ends = ends.clone();
            let request = Request { sampling, logprobs, ends, ..Request::new(prompt.clone(), most) };
            let id = generator.add_encoded(request, &arguments.choice.stop)?;
            let text = Text { prompt: text.clone(), seed, text: String::new(), tokens: vec![], finish: None };
            texts.insert(id, text);
        }
    }
    let (mut output, mut undrawable) = (Output::new(), false);
    while !texts.is_empty() && output.result.is_ok() {
        for event in generator.step()? {
            note(&mut texts, event);
        }
        while let Some(first) = texts.first_entry().filter(|entry| entry.get().finish.is_some()) {
            let text = first.remove();
            undrawable |= text.finish == Some(Finish::NoToken);
            match arguments.json {
                true => output.put(&format!("{}\n", text.to_json())),
                false => {
                    output.put(&text.prompt);
                    let _ = output.put_safe(&text.text);
                    output.put("\n\n");
                }
            }
        }
    }
    written(output.result)?;
    match undrawable {
        true => Err(Failure::failed(
            "a text ended because no token could be chosen: logits are not numbers, or all tokens are excluded",
        )
        .help("the model's weights are damaged, or --bias excludes too much")),
        false => Ok(()),
    }
}

fn note(texts: &mut BTreeMap<RequestId, Text>, event: TextEvent) {
    match event {
        TextEvent::Token { request, token, text: more, logprobs } => {
            if let Some(text) = texts.get_mut(&request) {
                text.text.push_str(&more);
                text.tokens.push((token, logprobs));
            }
        }
        TextEvent::Finished { request, text: more, finish } => {
            if let Some(text) = texts.get_mut(&request) {
                text.text.push_str(&more);
                text.finish = Some(finish);
            }
        }
    }
}

impl Text {
    fn to_json(&self) -> serde_json::Value {
        let mut json = serde_json::json!({
            "prompt": self.prompt,
            "text": self.text,
            "tokens": self.tokens.len(),
            "seed": self.seed,
            "finish": match self.finish {
                Some(Finish::End(_)) => "end",
                Some(Finish::Stop(_)) => "stop",
                Some(Finish::Context) => "context",
                Some(Finish::NoToken) => "no token",
                Some(Finish::Length) | None => "length",
            },
        });
        let has_logprobs = self.tokens.iter().any(|(_, logprobs)| logprobs.is_some());
        if has_logprobs {
            let tokens = self.tokens.iter().filter_map(|(token, logprobs)| {
                let logprobs = logprobs.as_ref()?;
                Some(serde_json::json!({ "token": token, "logprob": logprobs.own, "top": logprobs.top }))
            });
            json["logprobs"] = tokens.collect();
        }
        json
    }
}
