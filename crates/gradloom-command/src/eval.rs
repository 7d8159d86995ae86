//! `gradloom eval`: the perplexity of a text, and the accuracy on multiple-choice questions.
//!
//! In: a model's files, and text, tokens or questions. Out: a few figures. Invariant: the model's own
//! tokenizer encodes the text; every token is scored once.

use crate::device::{DeviceArguments, report_tuning};
use crate::failure::{Failure, Result};
use crate::format::{count, thousands};
use crate::output::print_line;
use crate::place::check_is_text;
use crate::source::Source;
use crate::tokenizer::AnyTokenizer;
use gradloom::Session;
use gradloom_models::any_model::AnyModel;
use gradloom_models::data::{DataError, ShardPaths, TokenShards, Tokens, load};
use gradloom_models::evaluate::{
    Accuracy, Item, ItemError, Perplexity, PerplexityError, Question, items, perplexity, score_choices,
};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Arguments of `gradloom eval`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Folder of a run of `gradloom train`, its model.safetensors, a folder of transformers, or a GGUF file.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Text to score, which the model should not have been trained on: files, folders (all text files below)
    /// or patterns such as 'src/**/*.rs'. Or tokens of the model's tokenizer: .bin files, or a folder of
    /// them, of which the held-out part is scored.
    #[arg(long, value_name = "TEXT", num_args = 1.., required_unless_present = "choices")]
    data: Option<Vec<String>>,
    /// Multiple-choice questions, one per line: {"context": "..", "choices": ["..", ".."], "answer": 0}. A
    /// space separates the context from a choice, unless one of them has a blank there.
    #[arg(long, value_name = "FILE.jsonl")]
    choices: Option<PathBuf>,
    /// Maximum number of tokens that the model reads at a time. [default: the model's context, at most 2048]
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    /// Number of tokens between the starts of consecutive windows. A smaller number gives tokens more context
    /// and takes longer. [default: half the context]
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Number of texts in a batch; the result does not depend on it. [default: as many as have about 2048
    /// tokens]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Print one JSON object instead of lines for people.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArguments,
}

const EXAMPLES: &str = "\
Examples:
  gradloom eval runs/tiny-1 --data held-out.txt
  gradloom eval models/gpt2 --data tokens/ --stride 512
  gradloom eval model.gguf --choices hellaswag.jsonl --json

The loss is the mean over all tokens but the first, in nats; the perplexity is its exponential. Bits per
byte compare models with different tokenizers. Of questions, `accuracy` goes by the sum of the
log-probabilities of a choice's tokens, `accuracy_norm` by this sum for each byte of the choice.";

/// Maximum context used by default, because some models have a context for which no machine has the memory.
const LONGEST: usize = 2048;
/// Approximate number of tokens in a batch.
const AT_ONCE: usize = 2048;

/// Measures how well a model predicts, and prints the figures.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let device = arguments.device.open()?;
    let source = Source::open(&arguments.path)?;
    let tokenizer = source.tokenizer()?;
    let vocabulary = source.config().vocabulary();
    let most = source.config().context();
    let spans = spans(arguments, most)?;
    // Read the texts before the weights, so that errors in the texts are reported early.
    let text = arguments.data.as_deref().map(|data| Text::read(data, &tokenizer, vocabulary)).transpose()?;
    let questions = arguments.choices.as_deref().map(|path| questions(path, &tokenizer, most)).transpose()?;
    let session = source.session(&device)?;
    session.materialize()?;
    let mut found = json!({});
    if let Some(text) = text {
        let result = perplexity(&session, &text.tokens, spans).map_err(|error| failed(error, arguments))?;
        if !result.loss().is_finite() {
            let message = format!("{}: the loss is {}", arguments.path.display(), result.loss());
            return Err(Failure::failed(message).help("the model's weights are damaged, or it has diverged"));
        }
        let bits = text.bytes.map(|bytes| result.bits_per_byte(bytes));
        if !arguments.json {
            tell_perplexity(&result, bits, spans)?;
        }
        let [context, stride, _] = spans;
        found["loss"] = json!(result.loss());
        found["perplexity"] = json!(result.perplexity());
        found["bits_per_byte"] = json!(bits);
        found["tokens"] = json!(result.tokens);
        found["bytes"] = json!(text.bytes);
        found["context"] = json!(context);
        found["stride"] = json!(stride);
        found["tokens_per_s"] = json!(speed(&result));
    }
    if let Some(questions) = questions {
        let accuracy = answered(&session, &questions, arguments.batch)?;
        if !arguments.json {
            tell_accuracy(&accuracy)?;
        }
        found["questions"] = json!(accuracy.questions);
        found["right"] = json!(accuracy.right);
        found["right_norm"] = json!(accuracy.right_by_byte);
        found["accuracy"] = json!(accuracy.accuracy());
        found["accuracy_norm"] = json!(accuracy.accuracy_by_byte());
    }
    report_tuning(&device);
    if arguments.json { print_line!("{found:#}") } else { Ok(()) }
}

/// Returns the context, the stride and the batch, checked against the model's context `most`.
fn spans(arguments: &Arguments, most: usize) -> Result<[usize; 3]> {
    let context = arguments.context.unwrap_or(most.min(LONGEST));
    if context == 0 || context > most {
        return Err(Failure::usage(format!("--context {context}: the model reads from 1 to {most} tokens"))
            .help("leave it out for what suits the model"));
    }
    let stride = arguments.stride.unwrap_or(context.div_ceil(2));
    if stride == 0 || stride > context {
        return Err(Failure::usage(format!("--stride {stride}: must be from 1 to the context, {context}"))
            .help("leave it out for half the context; the context itself is the fastest"));
    }
    let batch = arguments.batch.unwrap_or_else(|| (AT_ONCE / context).max(1));
    if batch == 0 || batch.checked_mul(context).is_none_or(|tokens| tokens > 1 << 30) {
        let message = format!("--batch {batch}: must be at least 1, and of no more than 2^30 tokens in all");
        return Err(Failure::usage(message).help("leave it out for what is fast"));
    }
    Ok([context, stride, batch])
}

/// Tokens to score, and the number of bytes that they encode, if known.
struct Text {
    tokens: Tokens,
    bytes: Option<usize>,
}

impl Text {
    fn read(paths: &[String], tokenizer: &AnyTokenizer, vocabulary: usize) -> Result<Self> {
        let failure = |error: DataError| Failure::from(error).context("--data");
        if let Some(found) = ShardPaths::find(paths).map_err(failure)? {
            tokenizer.check_shards(&found, "--data")?;
            let part = if found.held_out.is_empty() { &found.training } else { &found.held_out };
            let vocabulary = vocabulary.min(tokenizer.get().vocabulary());
            let tokens = Tokens::Shards(TokenShards::open(part, vocabulary).map_err(failure)?);
            return Ok(Self { tokens, bytes: None });
        }
        let mut text = load(paths).map_err(failure)?;
        // Remove the newline that loading has added if the last file does not end with one.
        if text.sources.last().is_some_and(|path| !ends_a_line(path)) {
            text.bytes.pop();
        }
        let encoded = tokenizer.get().encode(&text.bytes);
        let mut tokens = encoded.map_err(|error| Failure::from(error).context("--data"))?;
        tokenizer.check_tokens(&tokens, vocabulary)?;
        let mut bytes = text.bytes.len();
        match tokenizer.get().beginning() {
            Some(beginning) => tokens.insert(0, beginning),
            // Exclude the bytes of the first token, which is not scored.
            None => bytes -= tokenizer.get().decode_all(&tokens[..tokens.len().min(1)]).len().min(bytes),
        }
        Ok(Self { tokens: tokens.into(), bytes: Some(bytes) })
    }
}

/// Returns `true` if a file ends with a newline or cannot be read.
fn ends_a_line(path: &Path) -> bool {
    let last = |path: &Path| {
        let (mut file, mut last) = (File::open(path)?, [0]);
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok::<_, io::Error>(last)
    };
    last(path).map_or(true, |last| last == *b"\n")
}

fn questions(path: &Path, tokenizer: &AnyTokenizer, context: usize) -> Result<Vec<Question>> {
    let failure = |error| Failure::from(error).context("--choices");
    let beginning = tokenizer.get().beginning();
    let of_line = |item: &Item| {
        Question::new(item, tokenizer.get(), beginning, context).map_err(|problem| {
            failure(ItemError::Line { path: path.to_path_buf(), line: item.line, problem })
        })
    };
    check_is_text(path, "give a file of questions, an object in JSON on each line")
        .map_err(|failure| failure.context("--choices"))?;
    items(path).map_err(failure)?.iter().map(of_line).collect()
}

fn answered(session: &Session<AnyModel>, questions: &[Question], batch: Option<usize>) -> Result<Accuracy> {
    let longest = questions.iter().flat_map(|question| &question.choices).map(|choice| choice.tokens.len());
    let at_once = batch.map_or(AT_ONCE, |batch| batch.saturating_mul(longest.max().unwrap_or(1)));
    Ok(Accuracy::of(questions, &score_choices(session, questions, at_once)?))
}

fn failed(error: PerplexityError, arguments: &Arguments) -> Failure {
    let what = arguments.data.iter().flatten().next().map_or("", String::as_str);
    match error {
        PerplexityError::TooShort { .. } => {
            Failure::usage(format!("--data {what}: {error}")).help("give more text")
        }
        PerplexityError::Data(error) => Failure::from(error).context("--data"),
        PerplexityError::Program(error) => error.into(),
    }
}

fn speed(result: &Perplexity) -> f64 {
    result.tokens as f64 / result.took.as_secs_f64().max(1e-9)
}

fn tell_perplexity(result: &Perplexity, bits: Option<f64>, [context, stride, _]: [usize; 3]) -> Result<()> {
    print_line!("loss          {:.4} nats a token", result.loss())?;
    print_line!("perplexity    {:.4}", result.perplexity())?;
    if let Some(bits) = bits {
        print_line!("bits per byte {bits:.4}")?;
    }
    print_line!(
        "tokens        {}, {context} at once, every {}; {:.0} tokens/s",
        thousands(result.tokens as u64),
        thousands(stride as u64),
        speed(result)
    )
}

fn tell_accuracy(accuracy: &Accuracy) -> Result<()> {
    let of = |right| format!("{} of {}", thousands(right as u64), count(accuracy.questions, "question"));
    print_line!("accuracy      {:.4} ({})", accuracy.accuracy(), of(accuracy.right))?;
    print_line!("accuracy_norm {:.4} ({})", accuracy.accuracy_by_byte(), of(accuracy.right_by_byte))
}
