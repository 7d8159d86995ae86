//! Generation of one text by a beam search, or with a draft model.

use super::{Arguments, Opened, Output, Prompt, finish_name, tell_context};
use crate::device::report_tuning;
use crate::failure::{Failure, Result};
use crate::model;
use crate::output::print_line;
use crate::source::Source;
use gradloom_models::data::Start;
use gradloom_models::decoding::{BeamOptions, EarlyStopping, Sampling, TextStream};
use gradloom_models::generator::{Finish, Request};

pub(super) fn run(
    arguments: &Arguments,
    sampling: &Sampling,
    opened: &Opened,
    source: &Source,
    Prompt { text, tokens: prompt }: Prompt,
) -> Result<()> {
    let Opened { session, tokenizer, sizes, ends } = opened;
    // Reserve no room for the last token, which the model never reads.
    let room = sizes.context - prompt.len() + 1;
    let most = usize::try_from(arguments.tokens).unwrap_or(usize::MAX).min(room);
    report_tuning(session.device());
    let Some(beams) = arguments.beams else {
        let request =
            Request { sampling: sampling.clone(), ends: ends.clone(), ..Request::new(prompt, most) };
        return with_draft(arguments, opened, source, &text, request);
    };
    let mut generator = model::generator(session, tokenizer, beams as usize, prompt.len() + most)?;
    let options = BeamOptions {
        beams: beams as usize,
        length_penalty: arguments.length_penalty,
        early_stopping: EarlyStopping::default(),
        most,
        ends: ends.clone(),
    };
    let found = generator.beams(&prompt, options)?;
    let cut = found.first().map(|best| &best.tokens).filter(|tokens| {
        let ended = tokens.last().is_some_and(|last| ends.contains(last));
        !ended && tokens.len() == most && (most as u64) < arguments.tokens
    });
    let cut = cut.map(Vec::len);
    for (rank, found) in found.into_iter().enumerate() {
        let mut stream = TextStream::from(tokenizer.get(), Start::Within);
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
            output.put_safe(&text);
            output.put_safe(&continued);
            output.end()?;
        }
    }
    if let Some(count) = cut {
        tell_context(opened, count, arguments);
    }
    Ok(())
}

fn with_draft(
    arguments: &Arguments,
    opened: &Opened,
    source: &Source,
    text: &str,
    request: Request,
) -> Result<()> {
    let session = &opened.session;
    let given = arguments.draft.as_deref().unwrap_or(&arguments.run);
    let other = Source::open(given).map_err(|failure| match arguments.draft {
        Some(_) => failure.under("--draft"),
        None => failure,
    })?;
    if other.config().vocabulary() != source.config().vocabulary() {
        let (own, other) = (source.config().vocabulary(), other.config().vocabulary());
        return Err(Failure::usage(format!(
            "--draft {}: it has {other} tokens, and the model has {own}",
            given.display()
        ))
        .help("give a model of the same tokenizer"));
    }
    let draft_session = other.session(session.device())?;
    let tokens = request.prompt.len() + request.most + arguments.drafted as usize;
    let mut own = model::generator(session, &opened.tokenizer, 1, tokens)?;
    let mut draft = model::generator(&draft_session, &opened.tokenizer, 1, tokens)?;
    let mut stream = TextStream::from(opened.tokenizer.get(), Start::Within);
    let (mut written, mut count) = (String::new(), 0);
    let mut output = (!arguments.json).then(Output::new);
    if let Some(output) = &mut output {
        output.put_safe(text);
    }
    let on_token = |token| {
        let more = stream.push(token);
        count += 1;
        match &mut output {
            Some(output) => output.put_safe(&more),
            None => written.push_str(&more),
        }
    };
    let (finish, [accepted, drafted]) =
        own.speculate(&mut draft, &request, arguments.drafted as usize, on_token)?;
    // If the context lowered the maximum length, the text ended at the context.
    let finish = match finish {
        Finish::Length if (request.most as u64) < arguments.tokens => Finish::Context,
        finish => finish,
    };
    let rest = stream.finish();
    written.push_str(&rest);
    let told = || {
        if finish == Finish::Context {
            tell_context(opened, count, arguments);
        }
    };
    match output {
        Some(mut output) => {
            output.put_safe(&rest);
            output.end().inspect(|()| told())
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
                "finish": finish_name(Some(finish)),
            })
        )
        .inspect(|()| told()),
    }
}
