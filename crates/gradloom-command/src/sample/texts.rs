//! Generation of one text, or of several in parallel, by one generator.

use super::{Arguments, Opened, Output, Prompt, finish_name};
use crate::device::report_tuning;
use crate::failure::{Failure, Result};
use crate::model;
use crate::output::{escaped, written};
use gradloom_models::decoding::Sampling;
use gradloom_models::generator::{Finish, Request, RequestId, TextEvent, TextGenerator, TokenLogprobs};
use std::collections::BTreeMap;

/// A text that is being generated, or waits for those before it to be printed.
struct Text {
    prompt: String,
    seed: u64,
    /// Text that was generated but not printed.
    text: String,
    tokens: Vec<(i32, Option<TokenLogprobs>)>,
    finish: Option<Finish>,
}

/// Generates texts and prints them in the order of their prompts: the first unfinished one as it grows, or
/// with `--json` each one as soon as it is finished.
pub(super) fn run(
    arguments: &Arguments,
    sampling: &Sampling,
    opened: &Opened,
    prompts: Vec<Prompt>,
) -> Result<()> {
    let Opened { session, tokenizer, ends, .. } = opened;
    let most = usize::try_from(arguments.tokens).unwrap_or(usize::MAX);
    let longest = prompts.iter().map(|prompt| prompt.tokens.len().saturating_add(most)).max().unwrap_or(0);
    let rows = prompts.len().saturating_mul(arguments.count as usize).min(arguments.batch as usize);
    let mut generator =
        TextGenerator::new(model::generator(session, tokenizer, rows, longest)?, tokenizer.get());
    let mut output = Output::new();
    let mut texts = BTreeMap::new();
    for Prompt { text, tokens } in prompts {
        for seed in (0..arguments.count).map(|i| sampling.seed.wrapping_add(i)) {
            let sampling = Sampling { seed, ..sampling.clone() };
            let (ends, logprobs) = (ends.clone(), arguments.logprobs);
            let prompt = tokens.clone();
            let request = Request { sampling, logprobs, ends, rolls: true, ..Request::new(prompt, most) };
            let text = Text { prompt: text.clone(), seed, text: String::new(), tokens: vec![], finish: None };
            if most == 0 {
                Text { finish: Some(Finish::Length), ..text }.print(&mut output, arguments, true);
                continue;
            }
            texts.insert(generator.add_encoded(request, &arguments.choice.stop)?, text);
        }
    }
    let (mut begins, mut undrawable) = (true, false);
    while !texts.is_empty() && output.result.is_ok() {
        for event in generator.step()? {
            note(&mut texts, event);
        }
        while let Some(mut first) = texts.first_entry() {
            first.get_mut().print(&mut output, arguments, begins);
            begins = first.get().finish.is_some();
            if !begins {
                break;
            }
            undrawable |= first.remove().finish == Some(Finish::NoToken);
        }
    }
    report_tuning(session.device());
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
    let Some(text) = texts.get_mut(&event.request()) else { return };
    text.text.push_str(event.text());
    match event {
        TextEvent::Token { token, logprobs, .. } => text.tokens.push((token, logprobs)),
        TextEvent::Finished { finish, .. } => text.finish = Some(finish),
    }
}

impl Text {
    /// Prints the new text, after the prompt if `begins` is true. With `--json`, prints nothing until the
    /// text is finished, and then one JSON object with the prompt and the whole text.
    fn print(&mut self, output: &mut Output, arguments: &Arguments, begins: bool) {
        if arguments.json {
            if self.finish.is_some() {
                output.put(&format!("{}\n", escaped(&self.to_json().to_string())));
            }
            return;
        }
        if begins {
            output.put_safe(&self.prompt);
        }
        output.put_safe(&std::mem::take(&mut self.text));
        if self.finish.is_some() {
            output.put(if arguments.is_many() { "\n\n" } else { "\n" });
        }
    }

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
