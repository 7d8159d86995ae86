//! One text by a search, or with the help of a draft model.

use super::{Arguments, Output, prompt};
use crate::device::report_tuning;
use crate::failure::{Failure, Result};
use crate::output::print_line;
use crate::source::Source;
use gradloom::{Device, Session};
use gradloom_models::any_model::AnyModel;
use gradloom_models::data::{Start, Tokenizer};
use gradloom_models::generate::{BeamOptions, EarlyStopping, Sampling, TextStream};
use gradloom_models::generator::{Generator, GeneratorOptions, Request};
use gradloom_models::language_model::LanguageModel;

pub(super) fn run(
    arguments: &Arguments,
    sampling: &Sampling,
    source: &Source,
    device: &Device,
) -> Result<()> {
    let text = prompt::one(arguments)?;
    let session = source.session(device)?;
    let tokenizer = source.tokenizer()?;
    let (sizes, ends) = (session.model().sizes(), source.ends(&tokenizer));
    let context = sizes.context;
    let prompt = prompt::encoded(&text, &tokenizer, sizes)?;
    let tokenizer = tokenizer.get();
    // The last token is not read any more.
    let room = context - prompt.len() + 1;
    let most = usize::try_from(arguments.tokens).unwrap_or(usize::MAX).min(room);
    let tokens = prompt.len() + most;
    report_tuning(device);
    let Some(beams) = arguments.beams else {
        let request = Request { sampling: sampling.clone(), ends, ..Request::new(prompt, most) };
        return with_draft(arguments, source, (&text, request), (&session, device), tokenizer);
    };
    let mut generator = generator(&session, tokenizer, beams as usize, tokens)?;
    let options = BeamOptions {
        beams: beams as usize,
        length_penalty: arguments.length_penalty,
        early_stopping: EarlyStopping::default(),
        most,
        ends: ends.clone(),
    };
    for (rank, found) in generator.beams(&prompt, options)?.into_iter().enumerate() {
        let mut stream = TextStream::from(tokenizer, Start::Within);
        let pieces = found.tokens.iter().filter(|token| !ends.contains(token)).map(|&id| stream.push(id));
        let mut continued: String = pieces.collect();
        continued.push_str(&stream.finish());
        if arguments.json {
            let (count, score) = (found.tokens.len(), found.score);
            print_line!(
                "{}",
                serde_json::json!({ "prompt": text, "text": continued, "tokens": count, "score": score })
            )?;
        } else if rank == 0 {
            let mut output = Output::new();
            output.put(&text);
            let _ = output.put_safe(&continued);
            output.end()?;
        }
    }
    Ok(())
}

/// A generator of its own for texts of so many tokens.
fn generator(
    session: &Session<AnyModel>,
    tokenizer: &dyn Tokenizer,
    rows: usize,
    tokens: usize,
) -> Result<Generator<AnyModel>> {
    // A block more for each: that of its last token is copied when texts part.
    let blocks = rows * (tokens.div_ceil(16) + 1) + 1;
    let vocabulary = Some(session.model().sizes().vocabulary.min(tokenizer.vocabulary()));
    Ok(Generator::new(session, GeneratorOptions { blocks, rows, vocabulary, ..Default::default() })?)
}

fn with_draft(
    arguments: &Arguments,
    source: &Source,
    (text, request): (&str, Request),
    (session, device): (&Session<AnyModel>, &Device),
    tokenizer: &dyn Tokenizer,
) -> Result<()> {
    let given = arguments.draft.as_deref().unwrap_or(&arguments.run);
    let other = Source::open(given)?;
    if other.config().vocabulary() != source.config().vocabulary() {
        let (own, other) = (source.config().vocabulary(), other.config().vocabulary());
        return Err(Failure::usage(format!(
            "--draft {}: it has {other} tokens, and the model has {own}",
            given.display()
        ))
        .help("give a model of the same tokenizer"));
    }
    let draft_session = other.session(device)?;
    let tokens = request.prompt.len() + request.most + arguments.drafted as usize;
    let mut own = generator(session, tokenizer, 1, tokens)?;
    let mut draft = generator(&draft_session, tokenizer, 1, tokens)?;
    let mut stream = TextStream::from(tokenizer, Start::Within);
    let (mut written, mut count) = (String::new(), 0);
    let mut output = (!arguments.json).then(Output::new);
    if let Some(output) = &mut output {
        output.put(text);
    }
    let on_token = |token| {
        let more = stream.push(token);
        count += 1;
        match &mut output {
            Some(output) => _ = output.put_safe(&more),
            None => written.push_str(&more),
        }
    };
    let (_, [accepted, drafted]) =
        own.speculate(&mut draft, &request, arguments.drafted as usize, on_token)?;
    let rest = stream.finish();
    written.push_str(&rest);
    match output {
        Some(mut output) => {
            let _ = output.put_safe(&rest);
            output.end()
        }
        None => print_line!(
            "{}",
            serde_json::json!({
                "prompt": text,
                "text": written,
                "tokens": count,
                "seed": request.sampling.seed,
                "drafted": drafted,
                "accepted": accepted,
            })
        ),
    }
}
