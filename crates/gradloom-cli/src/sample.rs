//! `gradloom sample`.

use crate::device::{DeviceArguments, report_tuning};
use crate::failure::{Failure, Result};
use crate::model::Writer;
use crate::output::{print_line, printable, written};
use crate::source::Source;
use gradloom::runtime::regular_file;
use gradloom_models::generate::Sampling;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// What `gradloom sample` takes.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// Folder of a run of `gradloom train`, its model.safetensors, a folder of transformers (config.json,
    /// model.safetensors), or a GGUF file.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Text that the model goes on from; `-` for the standard input.
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    prompt: String,
    /// File with the text that the model goes on from.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Print one JSON object when all is written: prompt, text, tokens, seed.
    #[arg(long)]
    json: bool,
    /// How many tokens to write.
    #[arg(long, value_name = "N", default_value_t = 200)]
    tokens: u64,
    /// 0 always takes the likeliest token, 1 follows the model, above 1 gets wilder.
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    temperature: f64,
    /// Choose among the K likeliest tokens only. [default: all]
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Choose among the likeliest tokens that together have probability P.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f64,
    /// Another seed, another text.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArguments,
}

const EXAMPLES: &str = "\
Examples:
  gradloom sample runs/tiny-1 --prompt \"The plan \"
  cat notes.txt | gradloom sample runs/tiny-1 --prompt -
  gradloom sample runs/tiny-1 --tokens 1000 --temperature 0.6 --top-p 0.95 --seed 7";

/// Writes text to the standard output as it comes: the prompt, then what follows.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sampling = Sampling {
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        top_p: arguments.top_p,
        seed: arguments.seed,
        ..Sampling::default()
    };
    sampling.validate()?;
    let device = arguments.device.open()?;
    let source = Source::open(&arguments.run)?;
    let prompt = prompt(arguments)?;
    let session = source.session(&device)?;
    let tokenizer = source.tokenizer()?;
    let mut writer = Writer::new(&session, tokenizer.get())?;
    report_tuning(&device);
    if arguments.json {
        let mut text = String::new();
        writer.write(&prompt, arguments.tokens, &sampling, |piece| {
            text.push_str(piece);
            ControlFlow::Continue(())
        })?;
        let (tokens, seed) = (arguments.tokens, arguments.seed);
        return print_line!(
            "{}",
            serde_json::json!({ "prompt": prompt, "text": text, "tokens": tokens, "seed": seed })
        );
    }
    let mut output = io::stdout().lock();
    let mut result = put(&mut output, &prompt);
    if result.is_ok() {
        let is_terminal = output.is_terminal();
        writer.write(&prompt, arguments.tokens, &sampling, |text| {
            result = if is_terminal { put(&mut output, &printable(text)) } else { put(&mut output, text) };
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    written(result.and_then(|()| put(&mut output, "\n")))
}

/// Most bytes of a prompt: far more than any model sees of it.
const LONGEST_PROMPT: u64 = 16 << 20;

/// The prompt, from wherever it comes.
fn prompt(arguments: &Arguments) -> Result<String> {
    if let Some(path) = &arguments.prompt_file {
        return regular_file::read_to_string(path, LONGEST_PROMPT).map_err(|error| {
            Failure::usage(format!("--prompt-file {}: cannot be read: {error}", path.display()))
                .help("give a file of UTF-8 text")
        });
    }
    if arguments.prompt != "-" {
        return Ok(arguments.prompt.clone());
    }
    let mut text = String::new();
    let read = io::stdin().lock().take(LONGEST_PROMPT).read_to_string(&mut text);
    read.map_err(|error| {
        Failure::usage(format!("--prompt -: the standard input cannot be read: {error}"))
            .help("give UTF-8 text")
    })?;
    Ok(text)
}

fn put(output: &mut impl Write, text: &str) -> io::Result<()> {
    output.write_all(text.as_bytes())?;
    output.flush()
}
