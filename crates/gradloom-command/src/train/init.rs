//! Runs that start from an existing model.
//!
//! In: the model that `--init` names, and the flags. Out: its sizes, its tokenizer, and its parameters in a
//! session. Invariant: a flag that contradicts the model is an error, and never changes the model.

use super::options::Options;
use crate::failure::{Failure, Result};
use crate::source::Source;
use crate::tokenizer::AnyTokenizer;
use gradloom_models::any_model::AnyConfig;
use std::path::Path;

/// The model that a run starts from, and its tokenizer.
pub(crate) struct Begun {
    pub(crate) source: Source,
    pub(crate) tokenizer: AnyTokenizer,
}

impl Begun {
    /// Opens a model with its own tokenizer, or that of `--tokenizer`. `option` is the option that named the
    /// model, if any.
    pub(crate) fn open(path: &str, tokenizer: Option<&str>, option: Option<&str>) -> Result<Self> {
        let of_model = |failure: Failure| match option {
            Some(option) => failure.context(option),
            None => failure,
        };
        let source = Source::open(Path::new(path)).map_err(of_model)?;
        let tokenizer = chosen(&source, tokenizer, of_model)?;
        let (known, vocabulary) = (tokenizer.get().vocabulary(), source.config().vocabulary());
        if known > vocabulary {
            let name = tokenizer.get().name();
            let message =
                format!("{path}: the model has {vocabulary} tokens, and the tokenizer {name} {known}");
            return Err(of_model(Failure::usage(message))
                .help("name the tokenizer that belongs to the model with --tokenizer"));
        }
        Ok(Self { source, tokenizer })
    }
}

/// Returns the model's own tokenizer, which a flag may only repeat, or the flag's if the model has none.
fn chosen(
    source: &Source,
    given: Option<&str>,
    of_model: impl Fn(Failure) -> Failure,
) -> Result<AnyTokenizer> {
    let own = source.tokenizer();
    let Some(given) = given else { return own.map_err(of_model) };
    let named = AnyTokenizer::open(given).map_err(|failure| failure.context("--tokenizer"))?;
    match own {
        Ok(own) if own.name_and_sha256() != named.name_and_sha256() => {
            Err(Failure::usage(format!("--tokenizer {given}: this is not the tokenizer of the model"))
                .help("leave it out: the model's own is taken"))
        }
        _ => Ok(named),
    }
}

/// Returns the model's sizes, with the changes that flags may make.
pub(super) fn sizes(options: &Options, mut model: AnyConfig) -> Result<AnyConfig> {
    if let Some(preset) = &options.preset {
        return Err(Failure::usage(format!("--preset {preset}: --init says what the sizes are"))
            .help("leave one of them out"));
    }
    let fixed = [
        ("layers", options.layers, model.layers()),
        ("heads", options.heads, model.heads()),
        ("width", options.width, model.width()),
        ("mlp-width", options.mlp_width, model.mlp_width()),
    ];
    // GPT-2's context is fixed, because it has a vector for each position; Llama's can be reduced.
    let context = match &model {
        AnyConfig::Gpt2(_) => options.context.filter(|context| *context != model.context()),
        AnyConfig::Llama(_) => options.context.filter(|context| *context > model.context()),
    };
    let differs = fixed
        .into_iter()
        .find_map(|(flag, given, own)| given.filter(|given| *given != own).map(|given| (flag, given, own)));
    let differs = differs.or(context.map(|given| ("context", given, model.context())));
    if let Some((flag, given, own)) = differs {
        return Err(Failure::usage(format!("--{flag} {given}: the model that --init names has {own}"))
            .help("leave it out"));
    }
    match (&mut model, options.dropout) {
        (AnyConfig::Gpt2(model), Some(dropout)) => model.dropout = dropout,
        (AnyConfig::Llama(_), Some(dropout)) if dropout != 0.0 => {
            return Err(Failure::usage(format!("--dropout {dropout}: a Llama has none")).help("leave it out"));
        }
        _ => {}
    }
    if let (AnyConfig::Llama(model), Some(context)) = (&mut model, options.context) {
        model.context = context;
    }
    Ok(model)
}
