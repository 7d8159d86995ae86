//! Tensors of files, where they lie.

use super::checksum::Checksum;
use super::error::{self, Differences};
use super::{Bytes, Entries, FileKind, METADATA_KEY, convert, header, safetensors_dtype};
use crate::{python_json, regular_file};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Type;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The tensors of a safetensors file, or of several that an index joins, mapped into memory: opening reads
/// the headers alone, unless the file is one of ours, whose checksum is verified.
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
    /// The path, or what else stands for it in messages.
    name: String,
    shards: Vec<Shard>,
    tensors: BTreeMap<String, Place>,
    /// Other names of tensors, as PyTorch's `save_model` notes them.
    aliases: BTreeMap<String, String>,
    /// Tensors that an index names and the files lack, with the file that should have each.
    lost: BTreeMap<String, String>,
    /// Texts in the header of a file that is not one of several.
    metadata: BTreeMap<String, String>,
    /// `None` for a file without gradloom's notes.
    entries: Option<Entries>,
}

#[derive(Debug)]
struct Shard {
    bytes: Bytes,
    /// Offset of the tensors' data.
    data: usize,
}

#[derive(Debug)]
struct Place {
    shard: usize,
    info: TensorInfo,
}

/// A tensor in a file.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    pub(super) dtype: safetensors::Dtype,
    /// Its extents.
    pub shape: &'a [usize],
    /// Its elements, little-endian, row-major.
    pub bytes: &'a [u8],
}

impl Found<'_> {
    /// Returns the elements as f32, if they are floats of 16, 32 or 64 bits or integers.
    ///
    /// # Errors
    /// When they are of another type.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        convert::to_f32(self.dtype, self.bytes).ok_or_else(|| {
            Error::new(ErrorKind::File, format!("tensors of {} are not read as f32", self.dtype))
                .help("convert it with the program that wrote it, or take its bytes as they are")
        })
    }
}

impl Found<'_> {
    /// Returns the type of its elements: `f32`.
    pub fn type_name(&self) -> String {
        self.dtype.to_string().to_lowercase()
    }
}

/// Type and shape: `f32[2, 3]`.
impl std::fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.type_name(), self.shape)
    }
}

impl Weights {
    /// Opens a file; an index (`model.safetensors.index.json`, as transformers writes it) with the files that
    /// it names; or a folder that has either.
    ///
    /// While they are in use, the files must not be cut off by another process. To replace one, rename
    /// another to its name, as [`Session::save`](crate::Session::save) does.
    ///
    /// # Errors
    /// When a file cannot be read, is no safetensors file, or is damaged; when the index does not fit its
    /// files.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_path(path.as_ref())
    }

    fn open_path(path: &Path) -> Result<Self> {
        let path = if path.is_dir() { in_folder(path)? } else { path.to_path_buf() };
        if path.extension().is_some_and(|extension| extension == "json") {
            return Self::open_index(&path);
        }
        let name = path.display().to_string();
        let file = regular_file::open_to_read(&path).map_err(|source| error::unreadable(&name, &source))?;
        let (bytes, metadata) = header::map(&file, &name)?;
        Self::of(name, bytes, &metadata)
    }

    /// Takes a whole file that is in memory.
    ///
    /// # Errors
    /// As [`Weights::open`].
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
            // Whether it is one that is needed, the model knows.
            let lost = names.into_iter().filter(|name| !weights.tensors.contains_key(name));
            let lost: Vec<_> = lost.map(|name| (name, shard.clone())).collect();
            weights.lost.extend(lost);
        }
        Ok(weights)
    }

    /// Returns the error of tensors that are not the wanted ones: of a file with others than its index
    /// says, that it is damaged.
    pub(super) fn of_another_model(&self, differences: &Differences, help: &str) -> Error {
        let lost = differences.missing.iter().find_map(|name| Some((name, self.lost.get(name)?)));
        let Some((name, shard)) = lost else {
            return error::of_another_model(&self.name, differences).help(help);
        };
        let message = format!("{shard}: the file has no `{name}`, which {} says it has", self.name);
        Error::new(ErrorKind::File, message).help("get index and files once more")
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
        // Files are written in the order of their data; see `write`.
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

    /// Sets another name for messages: the origin of the weights.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns the path as it was given; for bytes, what stands for it in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns all tensors by name, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Found<'_>)> {
        self.tensors.iter().map(|(name, place)| (name.as_str(), self.found(place)))
    }

    /// Returns the tensor of this name. In a file of `safetensors.torch.save_model`, which has one of
    /// several names that share a tensor, the others give it, too.
    pub fn get(&self, name: &str) -> Option<Found<'_>> {
        let kept = || self.tensors.get(self.aliases.get(name)?);
        self.tensors.get(name).or_else(kept).map(|place| self.found(place))
    }

    /// Returns the texts in the file's header; of several files, none.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Returns the writer's notes: gradloom's, or, in a file without them, the texts in its header.
    pub fn entries(&self) -> &Entries {
        self.entries.as_ref().unwrap_or(&self.metadata)
    }

    /// Returns whether gradloom wrote the file, which is verified in that case.
    pub fn is_verified(&self) -> bool {
        self.entries.is_some()
    }

    /// Returns a note.
    ///
    /// # Errors
    /// When it is not there.
    pub fn entry(&self, key: &str) -> Result<&str> {
        match self.entries().get(key) {
            Some(text) => Ok(text),
            None if self.is_verified() => Err(error::entry(&self.name, key, "is missing")),
            None => Err(error::foreign(&self.name, &Differences::default())),
        }
    }

    /// Returns a note as a value.
    ///
    /// # Errors
    /// As [`entry`](Self::entry), and when the text does not parse.
    pub fn parsed_entry<T: std::str::FromStr>(&self, key: &str) -> Result<T> {
        self.entry(key)?.parse().map_err(|_| error::entry(&self.name, key, "is not of the right form"))
    }

    /// Returns the bytes of exactly these tensors, in their order.
    ///
    /// # Errors
    /// When a tensor is missing, unknown, or of another type; the message tells which.
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

/// Returns the checksum and the entries in gradloom's notes.
fn notes(text: &str) -> Option<(String, Entries)> {
    #[expect(clippy::disallowed_methods, reason = "the notes are our own")]
    let value: Value = serde_json::from_str(text).ok()?;
    let object = value.as_object().filter(|object| object.len() == 2)?;
    let entries = object.get("entries")?.as_object()?.iter();
    let entries = entries.map(|(key, value)| Some((key.clone(), value.as_str()?.to_string())));
    Some((object.get("sha256")?.as_str()?.to_string(), entries.collect::<Option<_>>()?))
}

/// Returns the file or the index of weights in a folder.
fn in_folder(folder: &Path) -> Result<PathBuf> {
    let name = folder.display().to_string();
    let failed = |source| error::unreadable(&name, &source);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        found.push(entry.map_err(failed)?.path());
    }
    // Beside them may be other files of tensors, such as the state of a run. Of the two, transformers takes
    // the first.
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

/// Returns the error of a folder without a safetensors file: names the weights of another kind that it has.
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

/// Returns the files that an index names, with their tensors.
fn index(bytes: &[u8]) -> std::result::Result<BTreeMap<PathBuf, BTreeSet<String>>, String> {
    let value = python_json::parse(bytes)?;
    let map = value.get("weight_map").and_then(Value::as_object).ok_or("it has no `weight_map`")?;
    let mut files: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for (tensor, file) in map {
        let file = file.as_str().ok_or_else(|| format!("`{tensor}` has no file's name"))?;
        // A file of someone else must not lead to others of the user's.
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

/// Returns true for a file that is in another folder than below the index's: a part of its path is a link.
/// The file itself may be one, as downloads of the Hub have it.
fn leads_out(index: &Path, file: &Path) -> bool {
    let folder = |path: &Path| match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.canonicalize(),
        _ => Path::new(".").canonicalize(),
    };
    // One that is not there is told when it is opened.
    folder(index).is_ok_and(|index| folder(file).is_ok_and(|file| !file.starts_with(index)))
}
