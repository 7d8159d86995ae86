//! Initial weights and tokens that gradloom and the peers' programs share: `NAME.json` (sizes of the model,
//! names and shapes of the tensors in the order of the file), `NAME.w.bin` (float32, one tensor after the
//! other) and `NAME.tok.bin` (uint32 `[batch, context + 1]`), all little-endian.

use crate::failure::{Failure, Result};
use gradloom::Store;
use gradloom::ir::{DType, Type};
use gradloom::runtime::regular_file;
use gradloom_models::gpt2::Gpt2Config;
use serde::Deserialize;
use std::path::Path;

/// Maximum size of a file in bytes, about twice that of the largest configuration's weights.
const LARGEST: u64 = 1 << 30;

/// Shape of the data that a configuration expects.
pub(super) struct Shape {
    pub(super) model: Gpt2Config,
    pub(super) batch: usize,
}

/// Fields that are read from `NAME.json`.
#[derive(Deserialize)]
struct Description {
    vocab: usize,
    d: usize,
    heads: usize,
    layers: usize,
    ctx: usize,
    batch: usize,
    names: Vec<(String, Vec<usize>)>,
}

/// Weights under gradloom's names, and one batch of tokens.
pub(super) struct Given {
    weights: Vec<(String, Type, Vec<u8>)>,
    tokens: Vec<i32>,
    context: usize,
}

/// Reads the files of a configuration.
///
/// # Errors
/// Returns an error if a file is missing or has another size, or was made for other sizes of the model.
#[expect(clippy::disallowed_methods, reason = "our own script writes the file")]
pub(super) fn load(folder: &Path, name: &str, shape: &Shape) -> Result<Given> {
    let read = |suffix: &str| {
        let path = folder.join(format!("{name}.{suffix}"));
        regular_file::read(&path, LARGEST).map_err(|error| {
            let help = "make the files first, or leave it out for random weights";
            Failure::unreadable(&path, &error, help).context("--data-dir")
        })
    };
    let wrong = |suffix: &str, what: String| {
        Failure::failed(format!("--data-dir: {}: {what}", folder.join(format!("{name}.{suffix}")).display()))
            .help("make the files anew")
    };
    let description: Description =
        serde_json::from_slice(&read("json")?).map_err(|error| wrong("json", error.to_string()))?;
    let found = [description.vocab, description.d, description.heads, description.layers, description.ctx];
    let model = &shape.model;
    let expected = [model.vocabulary, model.width, model.heads, model.layers, model.context];
    if found != expected || description.batch != shape.batch {
        return Err(wrong(
            "json",
            format!("sizes {found:?}, not {expected:?} (vocabulary, width, heads, layers, context)"),
        ));
    }
    let bytes = read("w.bin")?;
    let mut rest = bytes.as_slice();
    let mut weights = Vec::new();
    for (theirs, extents) in description.names {
        let ours = our_name(&theirs).ok_or_else(|| wrong("json", format!("unknown tensor {theirs}")))?;
        let ty = Type::new(DType::F32, extents);
        let Some((tensor, after)) = rest.split_at_checked(ty.bytes() as usize) else {
            return Err(wrong("w.bin", format!("{} bytes: {theirs} is missing", bytes.len())));
        };
        weights.push((ours, ty, tensor.to_vec()));
        rest = after;
    }
    if !rest.is_empty() {
        return Err(wrong("w.bin", format!("{} bytes more than the tensors have", rest.len())));
    }
    let tokens = read("tok.bin")?;
    let count = shape.batch * (model.context + 1);
    if tokens.len() != 4 * count {
        return Err(wrong("tok.bin", format!("{} bytes, not {}", tokens.len(), 4 * count)));
    }
    let tokens = tokens.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    Ok(Given { weights, tokens, context: model.context })
}

impl Given {
    /// Replaces every parameter; the store's own checks detect a parameter that the file lacks.
    pub(super) fn restore(&self, store: &Store) -> Result<()> {
        let parameters = store.entries().iter().filter(|entry| entry.init.is_none()).count();
        if parameters != self.weights.len() {
            let (ours, theirs) = (parameters, self.weights.len());
            return Err(Failure::usage(format!("--data-dir: {theirs} tensors for {ours} parameters")));
        }
        let tensors: Vec<(&str, &Type, &[u8])> =
            self.weights.iter().map(|(name, ty, bytes)| (name.as_str(), ty, bytes.as_slice())).collect();
        // Ignore the error of the null device, which stores no weights.
        match store.write(&tensors) {
            Err(error) if error.kind() == gradloom::ErrorKind::Device => Ok(()),
            other => Ok(other?),
        }
    }

    /// Returns inputs and targets, each row-major `[batch, context]`.
    pub(super) fn batch(&self) -> (Vec<i32>, Vec<i32>) {
        let rows = || self.tokens.chunks_exact(self.context + 1);
        let inputs = rows().flat_map(|row| &row[..self.context]).copied().collect();
        (inputs, rows().flat_map(|row| &row[1..]).copied().collect())
    }
}

/// Returns gradloom's name of a tensor: `h3.qkvw` is `h.3.attn.c_attn.weight`.
fn our_name(theirs: &str) -> Option<String> {
    let outer = match theirs {
        "wte" => Some("wte.weight"),
        "wpe" => Some("wpe.weight"),
        "lnfg" => Some("ln_f.weight"),
        "lnfb" => Some("ln_f.bias"),
        _ => None,
    };
    if let Some(name) = outer {
        return Some(name.to_string());
    }
    let (layer, part) = theirs.strip_prefix('h')?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let part = match part {
        "ln1g" => "ln_1.weight",
        "ln1b" => "ln_1.bias",
        "qkvw" => "attn.c_attn.weight",
        "qkvb" => "attn.c_attn.bias",
        "ow" => "attn.c_proj.weight",
        "ob" => "attn.c_proj.bias",
        "ln2g" => "ln_2.weight",
        "ln2b" => "ln_2.bias",
        "fcw" => "mlp.c_fc.weight",
        "fcb" => "mlp.c_fc.bias",
        "prw" => "mlp.c_proj.weight",
        "prb" => "mlp.c_proj.bias",
        _ => return None,
    };
    Some(format!("h.{layer}.{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    fn config() -> Gpt2Config {
        Gpt2Config { vocabulary: 3, context: 2, width: 4, heads: 2, layers: 1, ..Gpt2Config::default() }
    }

    const PARTS: [&str; 12] =
        ["ln1g", "ln1b", "qkvw", "qkvb", "ow", "ob", "ln2g", "ln2b", "fcw", "fcb", "prw", "prb"];

    #[test]
    fn every_parameter_has_a_name_among_theirs() {
        let inner = PARTS.map(|part| format!("h0.{part}"));
        let theirs = ["wte", "wpe", "lnfg", "lnfb"].map(String::from).into_iter().chain(inner);
        let ours: BTreeSet<String> = theirs.map(|name| our_name(&name).unwrap()).collect();
        let expected = crate::model::parameter_types(&gradloom_models::any_model::AnyConfig::Gpt2(config()))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(ours, expected);
        for unknown in ["h0.qkv", "hx.ow", "wtf", "h.0.ow"] {
            assert_eq!(our_name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn files_are_read_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let put =
            |suffix: &str, bytes: &[u8]| fs::write(folder.path().join(format!("X.{suffix}")), bytes).unwrap();
        let message = |shape: &Shape| format!("{:?}", load(folder.path(), "X", shape).err().unwrap());
        let shape = Shape { model: config(), batch: 2 };
        assert!(message(&shape).contains("X.json: cannot be read"));
        put(
            "json",
            br#"{"vocab":3,"d":4,"heads":2,"layers":1,"ctx":2,"batch":2,"names":[["lnfg",[4]]],"more":1}"#,
        );
        put("w.bin", &[0; 15]);
        assert!(message(&shape).contains("X.w.bin: 15 bytes: lnfg is missing"));
        put("w.bin", &[0; 20]);
        assert!(message(&shape).contains("4 bytes more than the tensors have"));
        put("w.bin", &[0; 16]);
        put("tok.bin", &[0; 8]);
        assert!(message(&shape).contains("X.tok.bin: 8 bytes, not 24"));
        assert!(message(&Shape { model: config(), batch: 3 }).contains("X.json: sizes"));
        let tokens: Vec<u8> = (0..6u32).flat_map(u32::to_le_bytes).collect();
        put("tok.bin", &tokens);
        let given = load(folder.path(), "X", &shape).unwrap();
        assert_eq!(given.batch(), (vec![0, 1, 3, 4], vec![1, 2, 4, 5]));
        assert_eq!(given.weights[0].0, "ln_f.weight");
    }
}
