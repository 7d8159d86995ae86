//! Saves and loads low-rank adapters in separate files.
//!
//! In: a session of a model with adapters. Out: the adapters' parameters, in one safetensors file or in a
//! folder in PEFT's format; and back. Invariant: adapters are loaded from a file together or not at all,
//! and only if their alpha is that of the model's adapters.
//!
//! PEFT's format: `adapter_model.safetensors` has `base_model.model.MODULE.lora_A.weight` `[rank, in]` and
//! `lora_B.weight` `[out, rank]`; `adapter_config.json` has the settings that tensors cannot store.
//! <https://huggingface.co/docs/peft/developer_guides/checkpoint>

use super::convert::transposed;
use super::error::{unreadable, unwritable};
use super::save::{LAYOUT, OF_TORCH, OURS, swapped};
use super::{Entries, Load, TensorBytes, Weights, replace_file, write};
use crate::{Session, python_json, regular_file};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::nn::{Adapter, Module};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Prefix of the note with an adapter's alpha; the weight's name follows it.
const ALPHA: &str = "gradloom.alpha.";
const CONFIG: &str = "adapter_config.json";
const TENSORS: &str = "adapter_model.safetensors";

impl<M: Module> Session<M> {
    /// Writes only the parameters of [adapters](gradloom_core::nn::LowRank) to a safetensors file, replacing
    /// an existing file atomically. The file has `NAME.lora_a` `[in, rank]` and `NAME.lora_b` `[rank, out]`,
    /// and alpha in its notes.
    ///
    /// # Errors
    /// Returns an error if the model has no adapter, if the file cannot be written, or on the null device.
    pub fn save_adapters(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut notes = Entries::from([(LAYOUT.to_string(), OURS.to_string())]);
        for (name, adapter) in self.adapters()? {
            notes.insert(format!("{ALPHA}{name}"), adapter.alpha().to_string());
        }
        let content = self.store().read_where(|entry| self.is_of_adapter(&entry.name))?;
        let tensors =
            content.iter().map(|(entry, bytes)| TensorBytes { name: &entry.name, ty: &entry.ty, bytes });
        write(path.as_ref(), &tensors.collect::<Vec<_>>(), &notes)
    }

    /// Loads a file written by [`Session::save_adapters`]. The model must have exactly these adapters.
    ///
    /// # Errors
    /// Returns the same errors as [`Weights::open`]. Also returns an error, and changes nothing, if the file
    /// has other adapters than the model, and on the null device.
    pub fn load_adapters(&self, path: impl AsRef<Path>) -> Result<()> {
        let weights = Weights::open(path)?;
        for (name, adapter) in self.adapters()? {
            let key = format!("{ALPHA}{name}");
            // If the file lacks the adapter, the load below reports its missing tensors.
            if weights.get(&format!("{name}.lora_a")).is_some() {
                check_alpha(weights.name(), name, weights.parsed_entry(&key)?, adapter)?;
            }
        }
        self.load_with(&weights, &Load::strict().adapters()).map(drop)
    }

    /// Writes the adapters to a folder in the format of the Python library PEFT, creating the folder if
    /// necessary. `prefix` precedes each name to form the module's name in PyTorch: `transformer.` for GPT-2.
    ///
    /// # Errors
    /// Returns an error if the model has no adapter, if a file cannot be written, or on the null device.
    pub fn save_peft(&self, folder: impl AsRef<Path>, prefix: &str) -> Result<()> {
        let folder = folder.as_ref();
        let adapters = self.adapters()?;
        let (rank, alpha) = (adapters[0].1.rank(), adapters[0].1.alpha());
        let (mut modules, mut ranks, mut alphas) = (Vec::new(), Map::new(), Map::new());
        for (name, adapter) in adapters {
            let module = module(prefix, name);
            if adapter.rank() != rank {
                ranks.insert(module.clone(), adapter.rank().into());
            }
            if adapter.alpha() != alpha {
                alphas.insert(module.clone(), number(adapter.alpha()));
            }
            modules.push(module);
        }
        let config = json!({
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": null, "bias": "none",
            "r": rank, "lora_alpha": number(alpha), "lora_dropout": self.adapters()?[0].1.dropout(),
            "rank_pattern": ranks, "alpha_pattern": alphas, "target_modules": modules,
            "inference_mode": true,
        });
        let content = self.store().read_where(|entry| self.is_of_adapter(&entry.name))?;
        let tensors: Vec<_> = content
            .iter()
            .map(|(entry, bytes)| {
                (in_peft(prefix, &entry.name), swapped(&entry.ty), transposed(bytes, &entry.ty))
            })
            .collect();
        let tensors: Vec<_> =
            tensors.iter().map(|(name, ty, bytes)| TensorBytes { name, ty, bytes }).collect();
        let path = folder.join(CONFIG);
        let failed = |source| unwritable(&path.display().to_string(), &source);
        std::fs::create_dir_all(folder).map_err(failed)?;
        write(&folder.join(TENSORS), &tensors, &[(LAYOUT.to_string(), OF_TORCH.to_string())].into())?;
        replace_file(&path, |file| file.write_all(format!("{config:#}\n").as_bytes())).map_err(failed)
    }

    /// Loads adapters from a folder in PEFT's format, with the same `prefix` as [`Session::save_peft`]. The
    /// model must have exactly these adapters.
    ///
    /// # Errors
    /// Returns the same errors as [`Weights::open`]. Also returns an error, and changes nothing, if the
    /// folder has other adapters than the model, or adapters of a kind that gradloom does not support (DoRA,
    /// trained biases, ..), and on the null device.
    pub fn load_peft(&self, folder: impl AsRef<Path>, prefix: &str) -> Result<()> {
        const LARGEST: u64 = 10_000_000;
        let path = folder.as_ref().join(CONFIG);
        let name = path.display().to_string();
        let bytes = regular_file::read(&path, LARGEST).map_err(|source| unreadable(&name, &source))?;
        let config =
            python_json::parse(&bytes).map_err(|error| of_peft(&name, &format!("is no JSON: {error}")))?;
        check_config(&name, &config)?;
        let alpha =
            config["lora_alpha"].as_f64().ok_or_else(|| of_peft(&name, "has no number `lora_alpha`"))?;
        let adapters = self.adapters()?;
        let patterns = config["alpha_pattern"].as_object().into_iter().flatten();
        let mut alphas: BTreeMap<String, f64> =
            adapters.iter().map(|(weight, _)| (module(prefix, weight), alpha)).collect();
        for (key, value) in patterns {
            // PEFT also allows regular expressions as keys; they are rejected here.
            match (alphas.get_mut(key), value.as_f64()) {
                (Some(alpha), Some(value)) => *alpha = value,
                _ => {
                    return Err(of_peft(
                        &name,
                        &format!("has `{key}` in `alpha_pattern`, the name of no target"),
                    ));
                }
            }
        }
        for (weight, adapter) in adapters {
            check_alpha(&name, weight, alphas[&module(prefix, weight)], adapter)?;
        }
        let weights = Weights::open(folder.as_ref().join(TENSORS))?;
        let load = Load::strict().adapters().torch().from(|name| in_peft(prefix, name));
        self.load_with(&weights, &load).map(drop)
    }

    /// Returns the adapters with the names of their weights.
    ///
    /// # Errors
    /// Returns an error if the model has no adapter.
    fn adapters(&self) -> Result<Vec<(&str, &Adapter)>> {
        self.materialize()?;
        let all = self.params().iter();
        let all: Vec<_> = all.filter_map(|used| Some((used.name.as_str(), used.param.adapter()?))).collect();
        if all.is_empty() {
            return Err(Error::new(ErrorKind::Store, "the model has no adapter")
                .help("give it adapters with `LowRank::attach` before the session is made"));
        }
        Ok(all)
    }

    fn is_of_adapter(&self, name: &str) -> bool {
        self.params().iter().any(|used| used.name == name && used.param.is_of_adapter())
    }
}

/// Checks that the file's alpha equals the model's: unlike the rank, alpha cannot be derived from shapes.
fn check_alpha(file: &str, weight: &str, alpha: f64, adapter: &Adapter) -> Result<()> {
    if alpha == adapter.alpha() {
        return Ok(());
    }
    let message =
        format!("{file}: the adapter of `{weight}` has an alpha of {alpha}, not {}", adapter.alpha());
    Err(Error::new(ErrorKind::File, message).help(format!("attach adapters with `.alpha({alpha:?})`")))
}

/// Rejects settings that change the meaning of the tensors, or that no tensor stores.
fn check_config(file: &str, config: &Value) -> Result<()> {
    if config["peft_type"] != "LORA" {
        return Err(of_peft(file, "is not of LoRA: `peft_type` is not \"LORA\""));
    }
    for key in
        ["use_rslora", "use_dora", "use_qalora", "lora_bias", "modules_to_save", "trainable_token_indices"]
    {
        if !matches!(config[key], Value::Null | Value::Bool(false)) {
            return Err(of_peft(file, &format!("has `{key}`, which gradloom has not")));
        }
    }
    Ok(())
}

fn of_peft(file: &str, problem: &str) -> Error {
    Error::new(ErrorKind::File, format!("{file}: the file {problem}"))
        .help("save an adapter of plain LoRA with PEFT's `save_pretrained`")
}

/// Returns PEFT's name for a module, derived from the name of its weight.
fn module(prefix: &str, weight: &str) -> String {
    format!("{prefix}{}", weight.strip_suffix(".weight").unwrap_or(weight))
}

/// Returns PEFT's name for a parameter of an adapter.
fn in_peft(prefix: &str, name: &str) -> String {
    let (weight, part) = name.rsplit_once(".lora_").unwrap_or((name, ""));
    format!("base_model.model.{}.lora_{}.weight", module(prefix, weight), part.to_uppercase())
}

/// Converts a number to JSON, as an integer if possible, because PEFT declares alpha as an integer.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { (value as i64).into() } else { value.into() }
}
