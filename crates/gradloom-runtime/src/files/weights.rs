//! Tensors in files that are mapped into memory.

use super::checksum::Checksum;
use super::error::{self, Differences};
use super::{Bytes, Entries, FileKind, METADATA_KEY, convert, header, safetensors_dtype, shards};
use crate::{python_json, regular_file};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Type;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Tensors of a safetensors file, or of several files joined by an index, mapped into memory. Opening reads
/// only the headers, except for files of gradloom, whose checksum is verified.
///
/// ```no_run
/// # use gradloom_runtime::files::Weights;
/// let weights = Weights::open("model.safetensors")?;
/// for (name, tensor) in weights.iter() {
///     println!("{name}: {tensor}");
/// }
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Weights {
    /// Path, or another name of the origin, for messages.
    name: String,
    shards: Vec<Shard>,
    tensors: BTreeMap<String, Place>,
    /// Aliases of tensors, as recorded by PyTorch's `save_model`.
    aliases: BTreeMap<String, String>,
    /// Names of tensors in the index that the files lack, each with the file that should have it.
    lost: BTreeMap<String, String>,
    /// Texts in the header; empty if there are several files.
    metadata: BTreeMap<String, String>,
    /// Notes of gradloom; `None` for a file without them.
    entries: Option<Entries>,
}

#[derive(Debug)]
struct Shard {
    bytes: Bytes,
    /// Offset of the tensors' data in bytes.
    data: usize,
}

#[derive(Debug)]
struct Place {
    shard: usize,
    info: TensorInfo,
}

/// Tensor that was joined from the shards of several ranks.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: safetensors::Dtype,
    pub(super) bytes: Vec<u8>,
}

/// Tensor in a file.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    pub(super) dtype: safetensors::Dtype,
    /// Extents of the tensor.
    pub shape: &'a [usize],
    /// Elements, little-endian, row-major.
    pub bytes: &'a [u8],
}

impl Found<'_> {
    /// Returns the elements as f32 if they are integers, or floats of 16, 32 or 64 bits.
    ///
    /// # Errors
    /// Returns an error if they are of another type.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        convert::to_f32(self.dtype, self.bytes).ok_or_else(|| {
            Error::new(ErrorKind::File, format!("tensors of {} are not read as f32", self.dtype))
                .help("convert it with the program that wrote it, or take its bytes as they are")
        })
    }
}

impl Found<'_> {
    /// Returns the type of the elements, such as `f32`.
    pub fn type_name(&self) -> String {
        self.dtype.to_string().to_lowercase()
    }
}

/// Prints type and shape: `f32[2, 3]`.
impl std::fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.type_name(), self.shape)
    }
}

impl Weights {
    /// Opens a file; an index (`model.safetensors.index.json`, as written by transformers) with the files
    /// that it names; or a folder that contains either.
    ///
    /// No other process may truncate the files while they are in use. To replace a file, rename another to
    /// its name, as [`Session::save`](crate::Session::save) does.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, is not a safetensors file, or is damaged, or if the index
    /// does not match its files.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_path(path.as_ref())
    }

    fn open_path(path: &Path) -> Result<Self> {
        let path = if path.is_dir() { in_folder(path)? } else { path.to_path_buf() };
        if path.extension().is_some_and(|extension| extension == "json") {
            return Self::open_index(&path);
        }
        let mut weights = Self::open_file(&path)?;
        if let Some(notes) = &mut weights.entries
            && let Some(joined) = shards::joined(&path, &weights.name, notes)?
        {
            joined.into_iter().for_each(|tensor| weights.add(tensor));
        }
        Ok(weights)
    }

    /// Opens a safetensors file, without the shards beside it.
    pub(super) fn open_file(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = regular_file::open_to_read(path).map_err(|source| error::unreadable(&name, &source))?;
        let (bytes, metadata) = header::map(&file, &name)?;
        Self::of(name, bytes, &metadata)
    }

    /// Reads a complete file from memory.
    ///
    /// # Errors
    /// Returns the same errors as [`Weights::open`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let (name, bytes) = ("the file in memory".to_string(), bytes.into());
        let metadata = header::parse(&bytes, bytes.len() as u64, &name)?;
        Self::of(name, bytes.into(), &metadata)
    }

    fn of(name: String, bytes: Bytes, metadata: &Metadata) -> Result<Self> {
        let mut weights = Self { name, ..Self::default() };
        weights.metadata =
            metadata.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        weights.push(bytes, metadata, |_| true);
        weights.entries = weights.verified_entries()?;
        Ok(weights)
    }

    fn open_index(path: &Path) -> Result<Self> {
        const LARGEST: u64 = 100_000_000;
        let name = path.display().to_string();
        let bytes = regular_file::read(path, LARGEST).map_err(|source| error::unreadable(&name, &source))?;
        let files = index(&bytes).map_err(|reason| {
            Error::new(ErrorKind::File, format!("{name}: the index cannot be used: {reason}"))
                .help("an index has `weight_map`: tensors' names with the files beside it that have them")
        })?;
        let mut weights = Self { name, ..Self::default() };
        for (file, names) in files {
            let shard_path = path.with_file_name(&file);
            let shard = shard_path.display().to_string();
            if leads_out(path, &shard_path) {
                let message =
                    format!("{shard}: the folder of the file is a link out of that of {}", weights.name);
                return Err(Error::new(ErrorKind::File, message).help("put the file itself beside the index"));
            }
            let opened = regular_file::open_to_read(&shard_path);
            let opened = opened.map_err(|source| error::unreadable(&shard, &source))?;
            let (bytes, metadata) = header::map(&opened, &shard)?;
            weights.push(bytes, &metadata, |tensor| names.contains(tensor));
            // A missing tensor is not yet an error, because only the model determines whether it is needed.
            let lost = names.into_iter().filter(|name| !weights.tensors.contains_key(name));
            let lost: Vec<_> = lost.map(|name| (name, shard.clone())).collect();
            weights.lost.extend(lost);
        }
        Ok(weights)
    }

    /// Creates the error for tensors that are not the wanted ones. If the index lists a missing tensor, the
    /// error reports the file that lacks it.
    pub(super) fn of_another_model(&self, differences: &Differences, help: &str) -> Error {
        let lost = differences.missing.iter().find_map(|name| Some((name, self.lost.get(name)?)));
        let Some((name, shard)) = lost else {
            return error::of_another_model(&self.name, differences).help(help);
        };
        let message = format!("{shard}: the file has no `{name}`, which {} says it has", self.name);
        Error::new(ErrorKind::File, message).help("get index and files once more")
    }

    /// Adds a tensor that was joined from shards.
    fn add(&mut self, Joined { name, shape, dtype, bytes }: Joined) {
        let info = TensorInfo { dtype, shape, data_offsets: (0, bytes.len()) };
        self.tensors.insert(name, Place { shard: self.shards.len(), info });
        self.shards.push(Shard { bytes: bytes.into(), data: 0 });
    }

    /// Adds the wanted tensors of a file.
    fn push(&mut self, bytes: Bytes, metadata: &Metadata, wanted: impl Fn(&str) -> bool) {
        let (shard, data) = (self.shards.len(), bytes.len() - metadata.data_len());
        self.shards.push(Shard { bytes, data });
        for (name, info) in metadata.tensors().into_iter().filter(|(name, _)| wanted(name)) {
            self.tensors.insert(name, Place { shard, info: info.clone() });
        }
        for (alias, name) in metadata.metadata().iter().flatten() {
            if self.tensors.contains_key(name) && !self.tensors.contains_key(alias) {
                self.aliases.insert(alias.clone(), name.clone());
            }
        }
    }

    fn verified_entries(&self) -> Result<Option<Entries>> {
        let Some(text) = self.metadata.get(METADATA_KEY) else { return Ok(None) };
        let changed = || error::changed(&self.name);
        let (sha256, entries) = notes(text).ok_or_else(changed)?;
        let mut checksum = Checksum::new(&entries);
        // Sort the tensors in the order of their data, which the checksum covers; see `write`.
        let mut tensors: Vec<_> = self.tensors.iter().collect();
        tensors.sort_by_key(|(name, place)| (place.info.data_offsets, *name));
        for (name, place) in tensors {
            checksum.tensor(name, place.info.dtype, &place.info.shape, self.found(place).bytes);
        }
        if checksum.finish() == sha256 { Ok(Some(entries)) } else { Err(changed()) }
    }

    fn found<'a>(&'a self, place: &'a Place) -> Found<'a> {
        let Shard { bytes, data } = &self.shards[place.shard];
        let (start, end) = place.info.data_offsets;
        Found { dtype: place.info.dtype, shape: &place.info.shape, bytes: &bytes[data + start..data + end] }
    }

    /// Sets the name used in messages, such as the origin of the weights.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns the path as it was given, or the name used in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns all tensors, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Found<'_>)> {
        self.tensors.iter().map(|(name, place)| (name.as_str(), self.found(place)))
    }

    /// Returns the tensor with this name. Files of `safetensors.torch.save_model` store a shared tensor under
    /// one of its names; the other names also return it.
    pub fn get(&self, name: &str) -> Option<Found<'_>> {
        let kept = || self.tensors.get(self.aliases.get(name)?);
        self.tensors.get(name).or_else(kept).map(|place| self.found(place))
    }

    /// Returns the texts in the file's header; empty if there are several files.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Returns the notes of gradloom, or, in a file without them, the texts in its header.
    pub fn entries(&self) -> &Entries {
        self.entries.as_ref().unwrap_or(&self.metadata)
    }

    /// Returns `true` if gradloom wrote the file. The checksum of such a file is verified when it is opened.
    pub fn is_verified(&self) -> bool {
        self.entries.is_some()
    }

    /// Returns the text of a note.
    ///
    /// # Errors
    /// Returns an error if the note is missing.
    pub fn entry(&self, key: &str) -> Result<&str> {
        match self.entries().get(key) {
            Some(text) => Ok(text),
            None if self.is_verified() => Err(error::entry(&self.name, key, "is missing")),
            None => Err(error::foreign(&self.name, &Differences::default())),
        }
    }

    /// Returns a parsed note.
    ///
    /// # Errors
    /// Returns the same errors as [`entry`](Self::entry). Also returns an error if the text cannot be parsed.
    pub fn parsed_entry<T: std::str::FromStr>(&self, key: &str) -> Result<T> {
        self.entry(key)?.parse().map_err(|_| error::entry(&self.name, key, "is not of the right form"))
    }

    /// Returns the bytes of exactly the wanted tensors, in the given order.
    ///
    /// # Errors
    /// Returns an error if a tensor is missing, unknown, or of another type; the message names it.
    pub fn exactly<'a>(
        &'a self,
        wanted: impl IntoIterator<Item = (&'a str, &'a Type)>,
    ) -> Result<Vec<(&'a str, &'a Type, &'a [u8])>> {
        let wanted: Vec<_> = wanted.into_iter().collect();
        let differences = self.differences(&wanted);
        if !differences.is_empty() {
            let help = "use the configuration that the file was made with";
            return Err(self.of_another_model(&differences, help));
        }
        let found = |name| self.get(name).expect("no tensor is missing").bytes;
        Ok(wanted.into_iter().map(|(name, ty)| (name, ty, found(name))).collect())
    }

    /// Returns the differences between the file's tensors and the wanted ones.
    pub fn differences(&self, wanted: &[(&str, &Type)]) -> Differences {
        let mut differences = Differences::default();
        for &(name, ty) in wanted {
            match self.get(name) {
                None => differences.missing.push(name.to_string()),
                Some(found) if found.dtype != safetensors_dtype(ty.dtype) || found.shape != &ty.shape[..] => {
                    differences.mismatched.push((name.to_string(), ty.to_string(), found.to_string()));
                }
                Some(_) => {}
            }
        }
        let names: BTreeSet<&str> = wanted.iter().map(|(name, _)| *name).collect();
        let unknown = self.tensors.keys().filter(|name| !names.contains(name.as_str()));
        differences.unknown = unknown.cloned().collect();
        differences
    }
}

/// Parses the checksum and the entries in gradloom's notes.
fn notes(text: &str) -> Option<(String, Entries)> {
    #[expect(clippy::disallowed_methods, reason = "the notes are our own")]
    let value: Value = serde_json::from_str(text).ok()?;
    let object = value.as_object().filter(|object| object.len() == 2)?;
    let entries = object.get("entries")?.as_object()?.iter();
    let entries = entries.map(|(key, value)| Some((key.clone(), value.as_str()?.to_string())));
    Some((object.get("sha256")?.as_str()?.to_string(), entries.collect::<Option<_>>()?))
}

/// Returns the path of the weights' file or index in a folder.
fn in_folder(folder: &Path) -> Result<PathBuf> {
    let name = folder.display().to_string();
    let failed = |source| error::unreadable(&name, &source);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        found.push(entry.map_err(failed)?.path());
    }
    // Prefer these files, because the folder may contain other tensors, such as the state of a run. If both
    // files exist, transformers loads the first.
    for usual in ["model.safetensors", "model.safetensors.index.json"] {
        if let Some(path) = found.iter().find(|path| path.file_name().is_some_and(|name| name == usual)) {
            return Ok(path.clone());
        }
    }
    let ending = |ending: &str| -> Vec<&PathBuf> {
        found.iter().filter(|path| path.to_string_lossy().ends_with(ending)).collect()
    };
    let (indices, files) = (ending(".safetensors.index.json"), ending(".safetensors"));
    match (&indices[..], &files[..]) {
        ([index], _) => Ok((*index).clone()),
        ([], [file]) => Ok((*file).clone()),
        ([], []) => Err(without_weights(&name, &found)),
        _ => {
            let count = indices.len().max(files.len());
            Err(Error::new(ErrorKind::File, format!("{name}: the folder has {count} files of weights"))
                .help("give the path of one, or of an index (.safetensors.index.json) of several"))
        }
    }
}

/// Creates the error for a folder without a safetensors file; it names weights of another kind in the folder.
fn without_weights(folder: &str, entries: &[PathBuf]) -> Error {
    let kinds = entries.iter().filter_map(|path| Some((path, FileKind::of_file(path).ok()?)));
    let mut foreign: Vec<(&PathBuf, FileKind)> = kinds.filter(|(_, kind)| kind.is_certain()).collect();
    foreign.sort();
    let message = format!("{folder}: no safetensors file in this folder");
    match foreign.first() {
        None => {
            Error::new(ErrorKind::File, message).help("give the folder of a model, or the path of a file")
        }
        Some((path, kind)) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Error::new(ErrorKind::File, format!("{message}; its {name} is {kind}")).help(kind.remedy())
        }
    }
}

/// Returns the files in an index, each with its tensors.
fn index(bytes: &[u8]) -> std::result::Result<BTreeMap<PathBuf, BTreeSet<String>>, String> {
    let value = python_json::parse(bytes)?;
    let map = value.get("weight_map").and_then(Value::as_object).ok_or("it has no `weight_map`")?;
    let mut files: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for (tensor, file) in map {
        let file = file.as_str().ok_or_else(|| format!("`{tensor}` has no file's name"))?;
        // Reject paths outside the folder, because the index may be untrusted.
        let parts = Path::new(file).components().filter(|part| *part != Component::CurDir);
        let parts: Option<PathBuf> =
            parts.map(|part| matches!(part, Component::Normal(_)).then_some(part)).collect();
        let Some(path) = parts.filter(|path| !path.as_os_str().is_empty()) else {
            return Err(format!(
                "`{tensor}` is in {file:?}, which is not the name of a file in the folder of the index"
            ));
        };
        files.entry(path).or_default().insert(tensor.clone());
    }
    Ok(files)
}

/// Returns `true` if a link in the path leads out of the folder of the index. The file itself may be a link,
/// as in downloads from the Hub.
fn leads_out(index: &Path, file: &Path) -> bool {
    let folder = |path: &Path| match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.canonicalize(),
        _ => Path::new(".").canonicalize(),
    };
    // Accept a missing file, which is reported when it is opened.
    folder(index).is_ok_and(|index| folder(file).is_ok_and(|file| !file.starts_with(index)))
}
