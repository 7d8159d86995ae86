//! Texts side by side, through one generator.

use super::{Arguments, BLOCK, Opened, Output, Prompt, finish_name, tell_context};
use crate::device::report_tuning;
use crate::failure::{Failure, Result};
use crate::output::{escaped, written};
use gradloom_models::generate::Sampling;
use gradloom_models::generator::{Finish, Request, RequestId, TextEvent, TextGenerator, TokenLogprobs};
use std::collections::BTreeMap;

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
    opened: &Opened,
    prompts: Vec<Prompt>,
) -> Result<()> {
    let Opened { session, tokenizer, sizes, ends } = opened;
    let most = usize::try_from(arguments.tokens).unwrap_or(usize::MAX);
    let length = |prompt: &Prompt| prompt.tokens.len().saturating_add(most).min(sizes.context);
    let blocks = prompts.iter().map(|prompt| length(prompt).div_ceil(BLOCK)).max().unwrap_or(0);
    let texts = prompts.len().saturating_mul(arguments.count as usize);
    let generator = opened.generator(session, texts.min(arguments.batch as usize), blocks)?;
    let mut generator = TextGenerator::new(generator, tokenizer.get());
    report_tuning(session.device());
    let mut texts = BTreeMap::new();
    for Prompt { text, tokens } in prompts {
        for seed in (0..arguments.count).map(|i| sampling.seed.wrapping_add(i)) {
            let sampling = Sampling { seed, ..sampling.clone() };
            let logprobs = arguments.logprobs;
            let ends = ends.clone();
            let request = Request { sampling, logprobs, ends, ..Request::new(tokens.clone(), most) };
            let id = generator.add_encoded(request, &arguments.choice.stop)?;
            let text = Text { prompt: text.clone(), seed, text: String::new(), tokens: vec![], finish: None };
            texts.insert(id, text);
        }
    }
    let (mut output, mut undrawable, mut cut) = (Output::new(), false, None);
    while !texts.is_empty() && output.result.is_ok() {
        for event in generator.step()? {
            note(&mut texts, event);
        }
        while let Some(first) = texts.first_entry().filter(|entry| entry.get().finish.is_some()) {
            let text = first.remove();
            undrawable |= text.finish == Some(Finish::NoToken);
            if text.finish == Some(Finish::Context) {
                cut.get_or_insert(text.tokens.len());
            }
            match arguments.json {
                true => output.put(&format!("{}\n", escaped(&text.to_json().to_string()))),
                false => {
                    let _ = output.put_safe(&text.prompt);
                    let _ = output.put_safe(&text.text);
                    output.put("\n\n");
                }
            }
        }
    }
    written(output.result)?;
    if let Some(count) = cut {
        tell_context(opened, count, arguments);
    }
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
            "finish": finish_name(self.finish),
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
