//! `gradloom tokenize`: encodes text and decodes tokens.

use crate::failure::{Failure, Result};
use crate::format::count;
use crate::output::{print_line, printable, tell, written};
use crate::tokenizer::AnyTokenizer;
use gradloom::runtime::regular_file;
use gradloom_models::data::{SpecialTokens, Tokenizer};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// Arguments of `gradloom tokenize`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A tokenizer.json, a folder with one (or with vocab.json and merges.txt, or of a run), a GGUF file, or
    /// `bytes`.
    #[arg(value_name = "TOKENIZER")]
    tokenizer: String,
    /// Files with the text, or with ids to decode; `-` for the standard input.
    #[arg(value_name = "FILE", required_unless_present = "text", conflicts_with = "text")]
    files: Vec<PathBuf>,
    /// Text to encode, or ids to decode.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// Decode ids, which are numbers separated by blanks or commas.
    #[arg(long)]
    decode: bool,
    /// Print each token as the tokenizer spells it, one per line, with its id.
    #[arg(long, conflicts_with_all = ["decode", "json"])]
    pieces: bool,
    /// Treatment of special tokens: `found` recognizes them in the text, `added` also adds those that the
    /// tokenizer puts around a text, and `text` treats them as any other words.
    #[arg(long, value_enum, default_value_t = Special::Found, conflicts_with = "decode")]
    special: Special,
    /// Print one JSON object: ids, pieces, text, tokens, bytes.
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Found,
    Added,
    Text,
}

const EXAMPLES: &str = "\
Examples:
  gradloom tokenize models/gpt2 --text \"The plan is\"
  gradloom tokenize tokenizer.json notes.txt --pieces
  gradloom tokenize bytes --decode --text \"84 104 101\"";

/// Maximum size of a text in bytes.
const LONGEST: u64 = 1 << 30;

/// Prints the ids of text or the text of ids, and their number to the standard error.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tokenizer = AnyTokenizer::open(&arguments.tokenizer)?;
    let given = given(arguments)?;
    let (ids, text) = if arguments.decode {
        let ids = numbers(&given)?;
        if let Some(id) = ids.iter().find(|id| **id as usize >= tokenizer.get().vocabulary()) {
            let vocabulary = tokenizer.get().vocabulary();
            return Err(Failure::usage(format!("the id {id}: the tokenizer has {vocabulary} tokens"))
                .help("give the tokenizer that made the ids"));
        }
        let text = tokenizer.get().decode_all(&ids);
        (ids, text)
    } else {
        (encoded(&tokenizer, &given, arguments.special)?, given)
    };
    let told = format!("{} of {}", count(ids.len(), "token"), count(text.len(), "byte"));
    if arguments.json {
        let pieces: Vec<String> = ids.iter().map(|&id| piece(&tokenizer, id)).collect();
        return print_line!(
            "{}",
            serde_json::json!({
                "ids": ids, "pieces": pieces, "text": String::from_utf8_lossy(&text), "tokens": ids.len(),
                "bytes": text.len(),
            })
        );
    }
    if arguments.decode {
        let mut output = io::stdout().lock();
        let shown = match output.is_terminal() {
            true => printable(&String::from_utf8_lossy(&text)).into_bytes(),
            false => text,
        };
        written(output.write_all(&shown).and_then(|()| output.flush()))?;
    } else if arguments.pieces {
        let lines: Vec<String> =
            ids.iter().map(|&id| format!("{id}\t{:?}\n", piece(&tokenizer, id))).collect();
        written(io::stdout().lock().write_all(lines.concat().as_bytes()))?;
    } else {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        print_line!("{}", ids.join(" "))?;
    }
    tell!("{told}");
    Ok(())
}

fn encoded(tokenizer: &AnyTokenizer, text: &[u8], special: Special) -> Result<Vec<i32>> {
    let special = match (tokenizer, special) {
        (AnyTokenizer::Bytes(_), _) | (_, Special::Found) => return Ok(tokenizer.get().encode(text)?),
        (_, Special::Added) => SpecialTokens::Added,
        (_, Special::Text) => SpecialTokens::Text,
    };
    let text = std::str::from_utf8(text).map_err(|error| {
        Failure::usage(format!("the text is not UTF-8 from offset {} on", error.valid_up_to()))
            .help("convert it, or leave --special out")
    })?;
    match tokenizer {
        AnyTokenizer::Bpe(bpe) => Ok(bpe.encode_with(text, special)?),
        AnyTokenizer::Bytes(bytes) => Ok(bytes.encode(text.as_bytes())?),
    }
}

/// Returns a token as spelled in its tokenizer's file.
fn piece(tokenizer: &AnyTokenizer, id: i32) -> String {
    match tokenizer {
        AnyTokenizer::Bpe(bpe) => bpe.token(id).unwrap_or_default(),
        AnyTokenizer::Bytes(bytes) => String::from_utf8_lossy(&bytes.decode_all(&[id])).into_owned(),
    }
}

/// Reads the text or the ids from their source.
fn given(arguments: &Arguments) -> Result<Vec<u8>> {
    if let Some(text) = &arguments.text {
        return Ok(text.clone().into_bytes());
    }
    let mut all = Vec::new();
    for path in &arguments.files {
        let unreadable = |error| Failure::unreadable(path, &error, "check the path and the permissions");
        if path == Path::new("-") {
            io::stdin().lock().take(LONGEST).read_to_end(&mut all).map_err(unreadable)?;
        } else {
            all.extend(regular_file::read(path, LONGEST).map_err(unreadable)?);
        }
    }
    Ok(all)
}

/// Parses ids, which are separated by blanks or commas as in a JSON list.
fn numbers(text: &[u8]) -> Result<Vec<i32>> {
    let text = String::from_utf8_lossy(text);
    let words = text.split(|c: char| c.is_whitespace() || ",[]".contains(c)).filter(|word| !word.is_empty());
    let number = |word: &str| {
        word.parse().ok().filter(|id| *id >= 0).ok_or_else(|| {
            Failure::usage(format!("{:?} is no id of a token", word.chars().take(40).collect::<String>()))
                .help("give whole numbers from 0 up, with blanks or commas between them")
        })
    };
    words.map(number).collect()
}
