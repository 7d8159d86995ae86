//! `gradloom prepare`: encodes text, which may be larger than memory, as files of tokens.
//!
//! In: text, read in chunks. Out: a folder of shards and the tokenizer that made them. Invariant: the folder
//! appears under its name only when complete; only a few chunks are in memory at a time; the files depend
//! only on the text and the flags.

use crate::failure::{Failure, Result};
use crate::format::{count, thousands};
use crate::new_folder::NewFolder;
use crate::output::{print_line, program, quoted, say, tell};
use crate::run::unusable;
use crate::tokenizer::{AnyTokenizer, BYTES, FILE};
use gradloom::runtime::regular_file;
use gradloom_models::data::{
    DataError, LongText, ShardFormat, ShardWriter, Start, Tokenizer, TokenizerError, text_files,
};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Arguments of `gradloom prepare`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Text: files, folders (all text files below) or patterns such as 'src/**/*.rs'. Each file is a
    /// document.
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    /// A tokenizer.json, a folder with one (or with vocab.json and merges.txt), or `bytes`.
    #[arg(long, value_name = "TOKENIZER")]
    tokenizer: String,
    /// Folder for the tokens, which must not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Format of the files.
    #[arg(long, value_enum, default_value_t = Format::Llmc)]
    format: Format,
    /// Maximum number of tokens in a file; nanoGPT has one file.
    #[arg(long, value_name = "N", default_value_t = 100_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    shard_tokens: u64,
    /// Fraction of the text, at its end, that is held out.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    held_out: f64,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// llm.c: a header and 16 bits per token, or 32 for vocabularies above 65,536
    Llmc,
    /// nanoGPT: train.bin and val.bin, 16 bits per token
    Nanogpt,
}

const EXAMPLES: &str = "\
Examples:
  gradloom prepare corpus/ --tokenizer models/gpt2 --out tokens
  gradloom train --data tokens
  gradloom prepare books.txt --tokenizer bytes --out tokens --format nanogpt";

/// Encodes text into a new folder.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let share = arguments.held_out;
    if !(0.0..1.0).contains(&share) {
        return Err(Failure::usage(format!("--held-out {share}: must be at least 0 and below 1"))
            .help("0.1 holds the last tenth out; 0 nothing"));
    }
    let tokenizer =
        AnyTokenizer::open(&arguments.tokenizer).map_err(|failure| failure.context("--tokenizer"))?;
    let documents = documents(&arguments.text, share, &tokenizer)?;
    check_free(&arguments.out)?;
    let folder = NewFolder::begin(&arguments.out)?;
    let (files, tokens, held_out) = write(arguments, &tokenizer, &documents, folder.path())?;
    tokenizer.save(folder.path())?;
    folder.finish(FILE, || check_free(&arguments.out))?;
    print_line!(
        "{}: {} tokens of {}, {} held out, in {}",
        arguments.out.display(),
        thousands(tokens as u64),
        count(documents.iter().filter(|part| part.ends).count(), "document"),
        thousands(held_out as u64),
        count(files, "file")
    )?;
    let data = quoted(&arguments.out.display().to_string());
    // Print the flag for the byte tokenizer, which has no file that training could find.
    let flag = if arguments.tokenizer == BYTES { " --tokenizer bytes" } else { "" };
    say!("train on them with\n  {} train --data {data}{flag}", program());
    Ok(())
}

/// A document, or its part before or after the point where the held-out text begins.
struct Part {
    path: PathBuf,
    from: u64,
    bytes: u64,
    held_out: bool,
    /// True if this is the end of the document.
    ends: bool,
}

/// Splits all texts into parts, in order, of which the last `share` of the bytes is held out.
fn documents(paths: &[String], share: f64, tokenizer: &AnyTokenizer) -> Result<Vec<Part>> {
    let mut sizes = Vec::new();
    for found in text_files(paths)? {
        match found.open()? {
            Some((_, size)) => sizes.push((found.path, size)),
            None => tell!("left out {}: empty or no text", found.path.display()),
        }
    }
    let all: u64 = sizes.iter().map(|(_, size)| size).sum();
    if all == 0 {
        let path = PathBuf::from(paths.first().map_or("", String::as_str));
        return Err(DataError::NoText { path, files: 0 }.into());
    }
    let place = all - (all as f64 * share) as u64;
    let (mut before, mut parts) = (0, Vec::new());
    for (path, size) in sizes {
        let cut = match place.saturating_sub(before) {
            cut if 0 < cut && cut < size => {
                good_cut(&path, cut, tokenizer).map_err(|error| unreadable(&path, &error))?
            }
            cut => cut.min(size),
        };
        before += size;
        for (from, to, held_out) in [(0, cut, false), (cut, size, true)] {
            if from < to {
                parts.push(Part { path: path.clone(), from, bytes: to - from, held_out, ends: to == size });
            }
        }
    }
    Ok(parts)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let help = match error.kind() {
        io::ErrorKind::InvalidData => "cut the file, or take a tokenizer that splits text into words",
        _ => "check the permissions",
    };
    Failure::unreadable(path, error, help)
}

/// Returns a position to cut a file, at or shortly before `at`: one that changes no token, if there is one,
/// or the start of a word if tokens are bytes.
fn good_cut(path: &Path, at: u64, tokenizer: &AnyTokenizer) -> io::Result<u64> {
    const NEAR: u64 = 1 << 16;
    let mut file = regular_file::open_to_read(path)?;
    let from = at.saturating_sub(NEAR);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(at - from).read_to_end(&mut bytes)?;
    let good = match tokenizer {
        AnyTokenizer::Bytes(_) => None,
        AnyTokenizer::Bpe(bpe) => bpe.last_cut(&bytes),
    };
    Ok(from + good.unwrap_or_else(|| LongText::<&[u8]>::cut(&bytes)) as u64)
}

/// Writes all tokens and returns the numbers of files, of tokens, and of held-out tokens.
fn write(
    arguments: &Arguments,
    tokenizer: &AnyTokenizer,
    documents: &[Part],
    folder: &Path,
) -> Result<(usize, usize, usize)> {
    let tokenizer = tokenizer.get();
    let format = match arguments.format {
        Format::Llmc => ShardFormat::LlmC,
        Format::Nanogpt => ShardFormat::NanoGpt,
    };
    let most = usize::try_from(arguments.shard_tokens).unwrap_or(usize::MAX);
    let writer = |part| {
        ShardWriter::new(folder, part, format, tokenizer.vocabulary(), most).map_err(|error| {
            Failure::usage(format!("--format nanogpt: {error}"))
                .help("take --format llmc, which has 32 bits too")
        })
    };
    let mut writers = [writer("train")?, writer("val")?];
    let unwritable = |error| unusable(folder, &error);
    for part in documents {
        let writer = &mut writers[usize::from(part.held_out)];
        let unreadable = |error: io::Error| unreadable(&part.path, &error);
        let mut file = regular_file::open_to_read(&part.path).map_err(unreadable)?;
        file.seek(SeekFrom::Start(part.from)).map_err(unreadable)?;
        let text = file.take(part.bytes);
        let mut text = if part.from == 0 { LongText::new(text) } else { LongText::within(text) };
        let mut offset = part.from;
        loop {
            let pieces = some_pieces(&mut text, tokenizer).map_err(unreadable)?;
            if pieces.is_empty() {
                break;
            }
            for ids in encoded(tokenizer, &pieces, offset) {
                let ids =
                    ids.map_err(|error| Failure::from(error).context(&part.path.display().to_string()))?;
                writer.push(&ids).map_err(unwritable)?;
            }
            offset += pieces.iter().map(|(piece, _)| piece.len() as u64).sum::<u64>();
        }
        if let Some(end) = tokenizer.end_of_text().filter(|_| part.ends) {
            writer.push(&[end]).map_err(unwritable)?;
        }
    }
    let [training, held_out] = writers;
    let (files, tokens) = training.finish().map_err(unwritable)?;
    let (more, held_out) = held_out.finish().map_err(unwritable)?;
    Ok((files + more, tokens + held_out, held_out))
}

/// Number of chunks that are encoded in parallel.
const SIDE_BY_SIDE: usize = 64;

fn some_pieces(
    text: &mut LongText<impl Read>,
    tokenizer: &dyn Tokenizer,
) -> io::Result<Vec<(Vec<u8>, Start)>> {
    let cut = |text: &[u8]| tokenizer.last_cut(text);
    let mut pieces = Vec::new();
    while pieces.len() < SIDE_BY_SIDE
        && let Some((piece, start)) = text.next(&cut)?
    {
        pieces.push((piece.to_vec(), start));
    }
    Ok(pieces)
}

/// Encodes chunks on all processors and returns their ids in order; `offset` is the position of the first
/// chunk in its file.
fn encoded(
    tokenizer: &dyn Tokenizer,
    pieces: &[(Vec<u8>, Start)],
    offset: u64,
) -> Vec<std::result::Result<Vec<i32>, TokenizerError>> {
    let mut next = offset;
    let work: Vec<_> = pieces
        .iter()
        .map(|(piece, start)| {
            let offset = next;
            next += piece.len() as u64;
            (piece, *start, offset)
        })
        .collect();
    let encode = |share: &[(&Vec<u8>, Start, u64)]| -> Vec<_> {
        let one = |&(piece, start, offset): &(&Vec<u8>, Start, u64)| {
            let mut ids = Vec::new();
            tokenizer
                .encode_piece(piece, start, &mut ids)
                .map(|()| ids)
                .map_err(|error| error.later_by(offset))
        };
        share.iter().map(one).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let begin = |share| {
            let started = std::thread::Builder::new().spawn_scoped(scope, move || encode(share));
            // If no thread can be started, encode the share on this thread.
            started.map_err(|_| encode(share))
        };
        let begun: Vec<_> = work.chunks(work.len().div_ceil(threads)).map(begin).collect();
        let ended = begun.into_iter().map(|share| match share {
            Ok(thread) => thread.join().expect("encoding does not panic"),
            Err(done) => done,
        });
        ended.flatten().collect()
    })
}

/// Returns an error for a folder that exists.
fn check_free(out: &Path) -> Result<()> {
    match out.symlink_metadata() {
        Ok(_) => Err(Failure::usage(format!("--out {}: it is there already", out.display()))
            .help("name a folder that is not there yet")),
        Err(_) => Ok(()),
    }
}
