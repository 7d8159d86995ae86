//! Checkpoints of a world whose ranks keep shards of the optimizer's states.
//!
//! In: the store of each rank. Out: the checkpoint, with all whole entries, and beside it one file for each
//! rank with its shards, `NAME.NUMBER-WORLD.RANK-of-RANKS`. [`Weights::open`] joins them, so that any number
//! of ranks can restore the checkpoint. Invariant: the checkpoint is replaced when all files of its shards
//! are on the disk, and those of the previous one are removed afterwards, so that a crash loses neither.

use super::weights::Joined;
use super::{Entries, TensorBytes, Weights, error, write};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::plan::StoreEntry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Key of the note that describes a checkpoint's shards or, in one of their files, which shards these are.
const SHARDS: &str = "gradloom.shards";
/// Maximum number of files of shards.
const MOST_RANKS: u64 = 1 << 16;
/// Time for which rank 0 waits for the files of the other ranks.
const PATIENCE: Duration = Duration::from_secs(600);
/// Time between two looks for them.
const PAUSE: Duration = Duration::from_millis(5);

/// The part of a rank in writing a checkpoint.
#[derive(Clone, Copy)]
pub struct ShardWriter<'a> {
    /// Number of this rank.
    pub rank: usize,
    /// Number of ranks.
    pub ranks: usize,
    /// Number that all ranks of this world know, and no other world.
    pub world: u64,
    /// Number of the checkpoint: of two of this world, the later one has the larger number, unless they have
    /// the same contents.
    pub number: u64,
    /// Check that the other ranks are alive, which rank 0 calls while it waits for their files.
    pub check: &'a dyn Fn() -> Result<()>,
}

impl fmt::Debug for ShardWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardWriter").field("rank", &self.rank).finish_non_exhaustive()
    }
}

impl ShardWriter<'_> {
    /// Returns `true` if a file with this name has shards of the checkpoint with the name `checkpoint`.
    pub fn is_file_of(name: &str, checkpoint: &str) -> bool {
        Set::of(name, checkpoint).is_some()
    }

    /// Writes a checkpoint together with the other ranks, all of which must call this: the shards among
    /// `entries` to a file of this rank, and on rank 0, when the files of all ranks are on the disk,
    /// everything else to `path`.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written, or another rank's does not come. The old checkpoint is
    /// then unchanged.
    pub fn write(&self, path: &Path, entries: &[(StoreEntry, Vec<u8>)], notes: &Entries) -> Result<()> {
        let (shards, wholes): (Vec<_>, Vec<_>) =
            entries.iter().partition(|(entry, _)| !entry.whole.is_empty());
        let set = Set { number: self.number, world: self.world, ranks: self.ranks };
        let note = set.note_of(self.rank);
        let own = set.file(path, self.rank);
        write(&own, &tensors(&shards), &[(SHARDS.to_string(), note)].into())?;
        if self.rank > 0 {
            return Ok(());
        }
        let began = Instant::now();
        for rank in 1..self.ranks {
            let file = set.file(path, rank);
            while !file.exists() {
                (self.check)()?;
                if began.elapsed() > PATIENCE {
                    let message = format!("{}: rank {rank} has not written its shards", file.display());
                    return Err(Error::new(ErrorKind::File, message)
                        .help("all hosts must write to the same folder, on a file system that they share"));
                }
                std::thread::sleep(PAUSE);
            }
        }
        let whole: BTreeMap<&str, &[usize]> =
            shards.iter().map(|(entry, _)| (entry.name.as_str(), &entry.whole[..])).collect();
        let note = json!({ "set": set.tag(), "ranks": self.ranks, "whole": whole }).to_string();
        let mut notes = notes.clone();
        notes.insert(SHARDS.to_string(), note);
        write(path, &tensors(&wholes), &notes)?;
        set.remove_earlier(path);
        Ok(())
    }
}

fn tensors<'a>(entries: &[&'a (StoreEntry, Vec<u8>)]) -> Vec<TensorBytes<'a>> {
    entries.iter().map(|(entry, bytes)| TensorBytes { name: &entry.name, ty: &entry.ty, bytes }).collect()
}

/// The files of the shards of one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Set {
    number: u64,
    world: u64,
    ranks: usize,
}

impl Set {
    fn tag(self) -> String {
        format!("{}-{:016x}", self.number, self.world)
    }

    /// Returns the note in the file of a rank.
    fn note_of(self, rank: usize) -> String {
        json!({ "set": self.tag(), "ranks": self.ranks, "rank": rank }).to_string()
    }

    fn file(self, checkpoint: &Path, rank: usize) -> PathBuf {
        let name = checkpoint.file_name().unwrap_or_default().to_string_lossy();
        checkpoint.with_file_name(format!("{name}.{}.{rank}-of-{}", self.tag(), self.ranks))
    }

    /// Parses what [`Set::tag`] returns.
    fn parse(tag: &str, ranks: usize) -> Option<Self> {
        let (number, world) = tag.split_once('-')?;
        let set = Self { number: number.parse().ok()?, world: u64::from_str_radix(world, 16).ok()?, ranks };
        (set.tag() == tag).then_some(set)
    }

    /// Returns the set of a file's name; `None` for a file that is not of shards.
    fn of(name: &str, checkpoint: &str) -> Option<Self> {
        let rest = name.strip_prefix(checkpoint)?.strip_prefix('.')?;
        let rest = rest.strip_suffix(".partial").unwrap_or(rest);
        let (tag, place) = rest.split_once('.')?;
        let (rank, ranks) = place.split_once("-of-")?;
        rank.parse::<usize>().ok()?;
        Self::parse(tag, ranks.parse().ok()?)
    }

    /// Removes the files of earlier sets of this checkpoint. Errors are ignored, because the checkpoint is
    /// complete, and the next one tries again.
    fn remove_earlier(self, checkpoint: &Path) {
        // Other ranks may have written their shards of the next set already.
        remove(checkpoint, |set| set.world != self.world || set.number < self.number);
    }
}

/// Removes the files of shards that belonged to a checkpoint before it was written as a whole. Errors are
/// ignored, because the checkpoint is complete.
pub fn remove_shards(checkpoint: &Path) {
    remove(checkpoint, |_| true);
}

fn remove(checkpoint: &Path, is_old: impl Fn(Set) -> bool) {
    let name = checkpoint.file_name().unwrap_or_default().to_string_lossy();
    let folder = checkpoint.parent().filter(|folder| !folder.as_os_str().is_empty());
    for file in std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten() {
        if Set::of(&file.file_name().to_string_lossy(), &name).is_some_and(&is_old) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// Returns the tensors of which the files beside an opened checkpoint have shards, and removes the note about
/// them; `None` if it has none.
///
/// # Errors
/// Returns an error if the note is invalid, or a file is missing, damaged, or of another checkpoint.
pub(super) fn joined(path: &Path, name: &str, notes: &mut Entries) -> Result<Option<Vec<Joined>>> {
    let Some(text) = notes.remove(SHARDS) else { return Ok(None) };
    let invalid = || error::entry(name, SHARDS, "is not of the right form");
    let note = crate::python_json::parse(text.as_bytes()).map_err(|_| invalid())?;
    let ranks =
        note["ranks"].as_u64().filter(|ranks| (1..=MOST_RANKS).contains(ranks)).ok_or_else(invalid)?;
    let ranks = usize::try_from(ranks).map_err(|_| invalid())?;
    if let Some(rank) = note["rank"].as_u64() {
        let message = format!("{name}: the file has only the shards of rank {rank} of a checkpoint");
        return Err(Error::new(ErrorKind::File, message).help(format!(
            "open the checkpoint, a file in the same folder that {ranks} such files belong to"
        )));
    }
    let set = note["set"].as_str().and_then(|tag| Set::parse(tag, ranks)).ok_or_else(invalid)?;
    let mut tensors: Vec<Joined> = Vec::new();
    for (tensor, shape) in note["whole"].as_object().ok_or_else(invalid)? {
        let extent = |extent: &Value| extent.as_u64().and_then(|extent| usize::try_from(extent).ok());
        let shape: Option<Vec<usize>> = shape.as_array().and_then(|all| all.iter().map(extent).collect());
        let shape = shape.ok_or_else(invalid)?;
        tensors.push(Joined {
            name: tensor.clone(),
            shape,
            dtype: safetensors::Dtype::F32,
            bytes: Vec::new(),
        });
    }
    for rank in 0..set.ranks {
        let file_path = set.file(path, rank);
        let file = Weights::open_file(&file_path).map_err(|error| {
            error.help(format!(
                "{name} is a checkpoint of {ranks} ranks: restore all files that it began with"
            ))
        })?;
        let wrong = || {
            let message = format!("{}: the file does not have shard {rank} of {name}", file_path.display());
            Error::new(ErrorKind::File, message).help("restore the files of one checkpoint")
        };
        if file.entries().get(SHARDS) != Some(&set.note_of(rank)) || file.iter().count() != tensors.len() {
            return Err(wrong());
        }
        for tensor in &mut tensors {
            let shard = file.get(&tensor.name).filter(|shard| shard.shape.len() == 1).ok_or_else(wrong)?;
            tensor.dtype = shard.dtype;
            tensor.bytes.extend_from_slice(shard.bytes);
        }
    }
    for tensor in &tensors {
        let elements = tensor.shape.iter().try_fold(1_usize, |all, &extent| all.checked_mul(extent));
        let bytes = elements.and_then(|elements| elements.checked_mul(tensor.dtype.bitsize() / 8));
        if bytes != Some(tensor.bytes.len()) {
            return Err(invalid());
        }
    }
    Ok(Some(tensors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::ir::{DType, Number, Type};
    use std::fs;

    fn entry(name: &str, elements: usize, whole: &[usize]) -> (StoreEntry, Vec<u8>) {
        let ty = Type::new(DType::F32, [elements]);
        let bytes = (0..elements).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let (init, whole) = (Some(Number::Float(0.0)), whole.to_vec());
        (StoreEntry { name: name.to_string(), ty, init, whole, offset: 0 }, bytes)
    }

    /// Writes a checkpoint of two ranks.
    fn written(path: &Path, world: u64, number: u64) {
        for rank in [1, 0] {
            let writer = ShardWriter { rank, ranks: 2, world, number, check: &|| Ok(()) };
            writer.write(path, &[entry("m", 6, &[3, 4]), entry("p", 2, &[])], &Entries::new()).unwrap();
        }
    }

    #[test]
    fn names_are_told_from_others() {
        let of = |name: &str| ShardWriter::is_file_of(name, "state.safetensors");
        assert!(of("state.safetensors.12-00000000000000ff.1-of-2"));
        assert!(of("state.safetensors.12-00000000000000ff.1-of-2.partial"));
        for other in [
            "state.safetensors",
            "state.safetensors.partial",
            "state.safetensors.bak",
            "state.safetensors.12-ff.1-of-2",
            "state.safetensors.012-00000000000000ff.1-of-2",
            "state.safetensors.12-00000000000000FF.1-of-2",
            "state.safetensors.12-00000000000000ff.1-of-",
            "state.safetensors.12-00000000000000ff.one-of-2",
            "model.safetensors.12-00000000000000ff.1-of-2",
        ] {
            assert!(!of(other), "{other}");
        }
    }

    #[test]
    fn only_earlier_shards_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        fs::write(folder.path().join("state.safetensors.bak"), "a user's").unwrap();
        written(&path, 7, 3);
        let next = Set { number: 4, world: 7, ranks: 2 }.file(&path, 1);
        fs::write(&next, "of the next checkpoint").unwrap();
        let files = || fs::read_dir(folder.path()).unwrap().count();
        written(&path, 7, 3);
        assert_eq!(files(), 5);
        // Another world begins anew.
        written(&path, 8, 1);
        assert!(!next.exists() && files() == 4);
        assert_eq!(Weights::open(&path).unwrap().get("m").unwrap().shape, [3, 4]);
        remove_shards(&path);
        assert_eq!(files(), 2);
    }

    #[test]
    fn hostile_notes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        written(&path, 7, 3);
        for note in [
            "{}",
            "[",
            r#"{"set": "3-0000000000000007", "ranks": 0, "whole": {"m": [3, 4]}}"#,
            r#"{"set": "3-0000000000000007", "ranks": 18446744073709551615, "whole": {"m": [3, 4]}}"#,
            r#"{"set": "../../etc/passwd", "ranks": 2, "whole": {"m": [3, 4]}}"#,
            r#"{"set": "3-0000000000000007", "ranks": 2, "whole": {"m": [3, -4]}}"#,
            r#"{"set": "3-0000000000000007", "ranks": 2, "whole": {"m": [4294967296, 4294967296]}}"#,
            r#"{"set": "3-0000000000000007", "ranks": 2, "whole": {"m": [3, 5]}}"#,
            r#"{"set": "3-0000000000000007", "ranks": 2, "whole": {"n": [3, 4]}}"#,
            r#"{"set": "3-0000000000000007", "ranks": 2, "whole": {}}"#,
            r#"{"set": "3-0000000000000007", "ranks": 65536, "whole": {"m": [3, 4]}}"#,
        ] {
            let notes = [(SHARDS.to_string(), note.to_string())].into();
            write(&path, &tensors(&[&entry("p", 2, &[])]), &notes).unwrap();
            assert_eq!(Weights::open(&path).unwrap_err().kind(), ErrorKind::File, "{note}");
        }
    }
}
