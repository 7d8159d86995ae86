//! Loads the parameters and states of a model from a file.

use super::checkpoint::{PREFIX, VERSION};
use super::convert::{converted, fits, transposed};
use super::error::Differences;
use super::save::{LAYOUT, OF_TORCH, OURS};
use super::{Found, Weights};
use crate::Session;
use crate::train::{Base, ModelEntry};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{BLOCK, BlockFormat, DType, Type};
use gradloom_core::nn::{Module, Pattern};
use gradloom_core::optim::STATE_PREFIX;
use gradloom_device::memory::counted;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::path::Path;

/// Options for loading: the tensors to load, and their names in the file.
///
/// Floats are converted to floats of the parameter's type, of any width; integers are converted to integer
/// types that can represent them.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
/// use gradloom::files::{Load, Source};
/// // A PyTorch checkpoint that calls the encoder `backbone`; its head is not loaded.
/// let load = Load::partial().only("encoder.*").torch().from(|name| name.replace("encoder", "backbone"));
/// ```
#[must_use]
#[derive(Default)]
pub struct Load<'f> {
    partial: bool,
    torch: bool,
    prefix: String,
    only: Option<Pattern>,
    adapters: bool,
    source: Option<Box<Naming<'f>>>,
}

/// Function from a parameter's name to its location in a file.
type Naming<'f> = dyn Fn(&str) -> Source + 'f;

/// Location of a parameter in a file: the name of a tensor, and its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    transposed: bool,
}

impl Source {
    /// Creates a location with the given tensor name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), transposed: false }
    }

    /// Marks the parameter as a matrix that the file stores in column-major order.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { transposed: true, ..self }
    }
}

impl From<&str> for Source {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Source {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl fmt::Debug for Load<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partial, torch, prefix, only, .. } = self;
        let mut text = f.debug_struct("Load");
        text.field("partial", partial).field("torch", torch).field("prefix", prefix).field("only", only);
        text.finish_non_exhaustive()
    }
}

impl<'f> Load<'f> {
    /// Requires the file to have exactly the parameters and states of the model, with their shapes.
    pub fn strict() -> Self {
        Self::default()
    }

    /// Loads each tensor that is in the file and fits. Other parameters and states keep their values, and are
    /// reported.
    pub fn partial() -> Self {
        Self { partial: true, ..Self::default() }
    }

    /// Sets the prefix of the names in the file, such as `transformer.`. Tensors in the file without it are
    /// ignored.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Restricts the load to parameters and states whose names match a pattern, such as `encoder.*`. Other
    /// tensors in the file are ignored.
    pub fn only(self, pattern: impl Into<Pattern>) -> Self {
        Self { only: Some(pattern.into()), ..self }
    }

    /// Restricts the load to parameters of adapters; other tensors in the file count as superfluous.
    pub(super) fn adapters(self) -> Self {
        Self { adapters: true, ..self }
    }

    /// Sets a function that maps each parameter's name to its location in the file: a tensor name or a
    /// [`Source`]. [`Load::prefix`] is prepended to the returned name.
    pub fn from<S: Into<Source>>(self, source: impl Fn(&str) -> S + 'f) -> Self {
        Self { source: Some(Box::new(move |name| source(name).into())), ..self }
    }

    /// Declares the file as written by PyTorch: weights of linear and recurrent layers are `[out, in]`,
    /// weights of recurrent layers have names such as `weight_ih_l0`, and `num_batches_tracked` is ignored.
    pub fn torch(self) -> Self {
        Self { torch: true, ..self }
    }
}

/// Report of the tensors that were loaded from a file, and of those that were not.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Names of the parameters and states that were loaded.
    pub taken: Vec<String>,
    /// Names, as expected in the file, of parameters and states that the file lacks.
    pub missing: Vec<String>,
    /// Names of tensors in the file that were not used.
    pub skipped: Vec<String>,
    /// Name, type in the model, and type in the file, of each tensor whose types differ.
    pub mismatched: Vec<(String, String, String)>,
}

impl Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.differences();
        write!(f, "{} taken", self.taken.len())?;
        if left.is_empty() { Ok(()) } else { write!(f, "; {left}") }
    }
}

impl LoadReport {
    fn differences(&self) -> Differences {
        Differences {
            missing: self.missing.clone(),
            unknown: self.skipped.clone(),
            mismatched: self.mismatched.clone(),
        }
    }
}

impl<M: Module> Session<M> {
    /// Loads every parameter and state of the model from a safetensors file, by name. Nothing changes if one
    /// is missing, superfluous or of another shape. A file without any adapter is one of the base model: the
    /// model's adapters then keep their values. [`Session::load_with`] loads other files.
    ///
    /// # Errors
    /// Returns the same errors as [`Weights::open`]. Also returns an error if the file's tensors are not
    /// those of the model, or on the null device.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<()> {
        self.load_with(&Weights::open(path)?, &Load::strict()).map(drop)
    }

    /// Loads parameters and states of the model from `weights`, all or none of them, with the options in
    /// `load`. The state of a training run in the files is ignored.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if the load is strict and a tensor is missing, superfluous, or
    /// does not fit. Also returns an error on the null device.
    pub fn load_with(&self, weights: &Weights, load: &Load<'_>) -> Result<LoadReport> {
        self.base().load_with(weights, load)
    }
}

impl Base {
    fn load_with(&self, weights: &Weights, load: &Load<'_>) -> Result<LoadReport> {
        check_layout(weights, load)?;
        let mut report = LoadReport::default();
        let mut chosen: Vec<Chosen<'_>> = Vec::new();
        let mut used = BTreeSet::new();
        let mut entries = self.model_entries()?;
        let is_there = |entry: &ModelEntry| {
            let source = load.source_of(&entry.name, entry.transposed_in_torch);
            load.find(weights, &source.name).is_some()
        };
        // If the file has no adapter, it is one of the base model: skip the model's adapters.
        if load.adapters {
            entries.retain(|entry| entry.of_adapter);
        } else if !entries.iter().any(|entry| entry.of_adapter && is_there(entry)) {
            entries.retain(|entry| !entry.of_adapter);
        }
        for entry in entries {
            if load.only.as_ref().is_some_and(|only| !only.matches(&entry.name)) {
                continue;
            }
            let names = [&entry.name].into_iter().chain(&entry.aliases);
            let sources: Vec<Source> =
                names.map(|name| load.source_of(name, entry.transposed_in_torch)).collect();
            let mut found = None;
            for source in &sources {
                if let Some((name, tensor)) = load.find(weights, &source.name) {
                    found = found.or(Some((tensor, source.transposed)));
                    used.insert(name);
                }
            }
            let Some((tensor, by_columns)) = found else {
                report.missing.push(sources[0].name.clone());
                continue;
            };
            let as_there = |shape: &[usize]| match (by_columns, shape) {
                (true, &[rows, columns]) => vec![columns, rows],
                (_, shape) => shape.to_vec(),
            };
            let shape = as_there(&entry.ty.shape);
            // Floats are encoded as blocks when they are loaded; files of gradloom already contain blocks.
            let blocks = entry.blocks.filter(|(_, shape)| {
                tensor.shape == as_there(shape) && fits(tensor.dtype, tensor.bytes, DType::F32)
            });
            if let Some((format, _)) = blocks {
                report.taken.push(entry.name.clone());
                let by_columns = by_columns != entry.transposed_in_torch;
                chosen.push(Chosen {
                    name: entry.name,
                    ty: entry.ty,
                    tensor,
                    by_columns,
                    blocks: Some(format),
                });
            } else if tensor.shape == shape && fits(tensor.dtype, tensor.bytes, entry.ty.dtype) {
                report.taken.push(entry.name.clone());
                chosen.push(Chosen { name: entry.name, ty: entry.ty, tensor, by_columns, blocks: None });
            } else {
                let wanted = format!("{}{shape:?}", entry.ty.dtype);
                report.mismatched.push((sources[0].name.clone(), wanted, tensor.to_string()));
            }
        }
        let nothing =
            [&report.taken, &report.missing].into_iter().all(Vec::is_empty) && report.mismatched.is_empty();
        if let (Some(only), true) = (&load.only, nothing) {
            let message = format!("no parameter or state is called {only}");
            return Err(Error::new(ErrorKind::Store, message).help("`summary()` lists their names"));
        }
        report.skipped = load.skipped(weights, &used);
        let differences = report.differences();
        if !load.partial && !differences.is_empty() {
            return Err(weights.of_another_model(
                &differences,
                "`load_with(&Weights::open(path)?, &Load::partial())` takes what fits, `Load::strict().from(..)` \
                     other names, `Load::strict().torch()` a file of PyTorch",
            ));
        }
        let bytes: Vec<Cow<'_, [u8]>> = chosen.iter().map(Chosen::bytes).collect();
        let all: Vec<_> = chosen
            .iter()
            .zip(&bytes)
            .map(|(chosen, bytes)| (chosen.name.as_str(), &chosen.ty, &bytes[..]))
            .collect();
        self.store.write(&all)?;
        Ok(report)
    }
}

/// Tensor that becomes a parameter or state.
struct Chosen<'w> {
    name: String,
    /// Type in the store.
    ty: Type,
    tensor: Found<'w>,
    /// True if the file stores the matrix transposed relative to the store.
    by_columns: bool,
    /// Block format in which its floats are encoded.
    blocks: Option<BlockFormat>,
}

impl<'w> Chosen<'w> {
    /// Returns the bytes to write to the store.
    fn bytes(&self) -> Cow<'w, [u8]> {
        let dtype = if self.blocks.is_some() { DType::F32 } else { self.ty.dtype };
        let mut bytes = converted(self.tensor.dtype, self.tensor.bytes, dtype);
        if let (true, &[rows, columns]) = (self.by_columns, self.tensor.shape) {
            bytes = transposed(&bytes, &Type::new(dtype, [rows, columns])).into();
        }
        let Some(format) = self.blocks else { return bytes };
        let mut blocks = Vec::with_capacity(counted(self.ty.bytes()));
        for block in bytes.as_chunks::<{ 4 * BLOCK }>().0 {
            let numbers =
                std::array::from_fn(|i| f32::from_le_bytes([0, 1, 2, 3].map(|byte| block[4 * i + byte])));
            format.encode(&numbers, &mut blocks);
        }
        blocks.into()
    }
}

/// Checks that the layout noted in the file is the expected one, because the shape of a square matrix does
/// not reveal it.
fn check_layout(weights: &Weights, load: &Load<'_>) -> Result<()> {
    let entries = weights.entries();
    let written = entries.get(LAYOUT).map(String::as_str);
    let is_checkpoint = entries.contains_key(&format!("{PREFIX}{VERSION}"));
    let help = match (written.or(is_checkpoint.then_some(OURS)), load.torch) {
        (Some(OF_TORCH), false) => "load it with `load_with(.., &Load::strict().torch())`",
        (Some(OURS), true) => "load it without `.torch()`",
        _ => return Ok(()),
    };
    let has = if load.torch { "gradloom's layout" } else { "PyTorch's layout" };
    let message = format!("{}: the weights of linear layers have {has}", weights.name());
    Err(Error::new(ErrorKind::File, message).help(help))
}

impl Load<'_> {
    fn source_of(&self, name: &str, transposed_in_torch: bool) -> Source {
        let source = self.source.as_ref().map_or_else(|| name.into(), |source| source(name));
        Source {
            name: format!("{}{}", self.prefix, source.name),
            transposed: source.transposed != (self.torch && transposed_in_torch),
        }
    }

    fn find<'w>(&self, weights: &'w Weights, name: &str) -> Option<(String, Found<'w>)> {
        let of_layer = self.torch.then(|| format!("{name}_l0"));
        [Some(name.to_string()), of_layer]
            .into_iter()
            .flatten()
            .find_map(|name| weights.get(&name).map(|tensor| (name, tensor)))
    }

    /// Returns the names of unused tensors that may have been meant for this model.
    fn skipped(&self, weights: &Weights, used: &BTreeSet<String>) -> Vec<String> {
        if self.only.is_some() {
            return Vec::new();
        }
        let left_alone = |name: &str| {
            !name.starts_with(&self.prefix)
                || name.starts_with(STATE_PREFIX)
                || (self.torch && name.ends_with("num_batches_tracked"))
        };
        let names = weights.iter().map(|(name, _)| name.to_string());
        names.filter(|name| !used.contains(name) && !left_alone(name)).collect()
    }
}
