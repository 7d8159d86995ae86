//! Tests that unusual but valid folders and GGUF files produce the results of transformers, also after an
//! import, a run with adapters and an export.
//!
//! The files are built here from small models and the tables of `scripts/oracle/odd_files.py`.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use gradloom::ir::DType;
use gradloom::runtime::files::Weights;
use serde_json::{Map, Value, json};
use std::fs;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/odd");

/// Rows of a matrix, or the elements of a vector.
type Rows = Vec<Vec<f32>>;

/// The tables of one kind of file, and the models that they refer to.
struct Tables {
    table: Value,
    models: [Weights; 2],
}

impl Tables {
    fn new(name: &str) -> Self {
        let table =
            serde_json::from_str(&fs::read_to_string(format!("{DATA}/{name}.json")).unwrap()).unwrap();
        Self {
            table,
            models: ["gpt2", "llama"].map(|m| Weights::open(format!("{DATA}/{m}.safetensors")).unwrap()),
        }
    }

    fn cases(&self) -> &[Value] {
        self.table["cases"].as_array().unwrap()
    }

    /// Returns the shape and bytes of a tensor described by its name, its type and its parts. With only a
    /// name, it is the model's own tensor.
    fn tensor(&self, base: &str, tensor: &Value) -> (Vec<usize>, Vec<u8>) {
        let made_of: Vec<&str> = match tensor[2].as_array() {
            Some(parts) => parts.iter().map(|part| part.as_str().unwrap()).collect(),
            None => vec![tensor.as_str().unwrap()],
        };
        let found = self.models[usize::from(base == "llama")].get(made_of[0]).unwrap();
        let (mut shape, elements) = (found.shape.to_vec(), found.to_f32().unwrap());
        let width = shape.get(1).copied().unwrap_or(1);
        let mut rows: Rows = elements.chunks(width).map(<[f32]>::to_vec).collect();
        for change in &made_of[1..] {
            match *change {
                "negated" => rows.iter_mut().flatten().for_each(|x| *x = -*x),
                "zeros" => rows.iter_mut().flatten().for_each(|x| *x = 0.0),
                "transposed" => {
                    rows = (0..rows[0].len()).map(|i| rows.iter().map(|row| row[i]).collect()).collect();
                    shape.reverse();
                }
                permuted => {
                    let heads: usize = permuted.strip_prefix("permuted-").unwrap().parse().unwrap();
                    let half = rows.len() / heads / 2;
                    let order =
                        (0..rows.len()).map(|i| i / 2 / half * 2 * half + i % 2 * half + i / 2 % half);
                    rows = order.map(|i| rows[i].clone()).collect();
                }
            }
        }
        let bytes = |x: f32| match dtype(tensor) {
            "float16" => DType::F16.narrow_bits(x).to_le_bytes().to_vec(),
            "bfloat16" => DType::BF16.narrow_bits(x).to_le_bytes().to_vec(),
            "float64" => f64::from(x).to_le_bytes().to_vec(),
            _ => x.to_le_bytes().to_vec(),
        };
        (shape, rows.concat().into_iter().flat_map(bytes).collect())
    }

    /// Returns a safetensors file with metadata and tensors.
    fn safetensors(&self, base: &str, file: &Value) -> Vec<u8> {
        let (mut header, mut data) = (Map::new(), Vec::new());
        if !file[0].is_null() {
            header.insert("__metadata__".into(), file[0].clone());
        }
        for tensor in file[1].as_array().unwrap() {
            let (shape, bytes) = self.tensor(base, tensor);
            let dtype = match dtype(tensor) {
                "float16" => "F16",
                "bfloat16" => "BF16",
                "float64" => "F64",
                _ => "F32",
            };
            let offsets = [data.len(), data.len() + bytes.len()];
            let info = json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
            header.insert(tensor[0].as_str().or(tensor.as_str()).unwrap().into(), info);
            data.extend(bytes);
        }
        let mut header = Value::Object(header).to_string();
        header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
    }

    /// Writes the folder of a case as `model`.
    fn folder(&self, case: &Value, workspace: &Workspace) {
        let base = case["base"].as_str().unwrap();
        // Write the table's own text, because it has numbers that Python writes and JSON does not allow.
        workspace.put("model/config.json", case["config"].as_str().unwrap().as_bytes());
        if let Some(text) = case["generation"].as_str() {
            workspace.put("model/generation_config.json", text.as_bytes());
        }
        for (name, text) in case["files"].as_object().unwrap() {
            workspace.put(&format!("model/{name}"), text.as_str().unwrap().as_bytes());
        }
        for (name, file) in case["tensors"].as_object().unwrap() {
            workspace.put(&format!("model/{name}"), &self.safetensors(base, file));
        }
    }

    /// Writes the GGUF file of a case as `model`.
    fn gguf(&self, case: &Value, workspace: &Workspace) {
        let alignment = case["alignment"].as_u64().unwrap() as usize;
        let mut bytes = decoded(case["header"].as_str().unwrap());
        for tensor in case["data"].as_array().unwrap() {
            bytes.extend(self.tensor(case["base"].as_str().unwrap(), tensor).1);
            bytes.resize(bytes.len().next_multiple_of(alignment), 0);
        }
        workspace.put("model", &bytes);
    }

    /// Compares the results for a path with those of transformers.
    fn check(&self, case: &Value, workspace: &Workspace, path: &str) {
        let name = format!("{}: {path}", case["name"]);
        let run = |line: String| -> Value {
            let done = workspace.run(&line);
            assert_eq!(done.code, Some(0), "{name}: gradloom {line}: {}", done.stderr);
            serde_json::from_str(&done.stdout).unwrap()
        };
        workspace.put("its-text.txt", self.table["text"].as_str().unwrap().as_bytes());
        let found = run(format!("eval {path} --data its-text.txt --json"))["loss"].as_f64().unwrap();
        let expected = case["loss"].as_f64().unwrap();
        assert!(
            (found - expected).abs() < 1e-4 * expected,
            "{name}: the loss is {found}, and not {expected}"
        );
        let numbers = |key: &str| -> Vec<u64> {
            case[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
        };
        let (tokens, ends) = (numbers("tokens"), numbers("ends"));
        let end = tokens.iter().position(|token| ends.contains(token));
        let text: String = tokens[..end.unwrap_or(10)].iter().map(|token| *token as u8 as char).collect();
        let prompt = self.table["prompt"].as_str().unwrap();
        let found = run(format!("sample {path} --prompt {prompt} --tokens 10 --temperature 0 --json"));
        let finish = if end.is_some() { "end" } else { "length" };
        assert_eq!((&found["text"], &found["finish"]), (&text.into(), &finish.into()), "{name}: {ends:?}");
    }

    /// Runs all conversions on every case of a share of the table.
    fn check_all(&self, share: usize, write: impl Fn(&Value, &Workspace)) {
        for case in self.cases().iter().skip(share).step_by(SHARES) {
            let workspace = Workspace::new();
            write(case, &workspace);
            self.check(case, &workspace, "model");
            let train =
                "train --lora 1 --steps 1 --lr 1e-12 --batch 1 --context 64 --threads 1 --data text.txt";
            for line in [
                "import model imported",
                &format!("{train} --init imported --out run"),
                "export run --out exported",
                "export model --out exported-at-once",
            ] {
                let done = workspace.run(line);
                assert_eq!(done.code, Some(0), "{}: gradloom {line}: {}", case["name"], done.stderr);
            }
            for path in ["imported", "exported", "exported-at-once"] {
                self.check(case, &workspace, path);
            }
        }
    }
}

/// Returns the element type of a tensor in a table.
fn dtype(tensor: &Value) -> &str {
    tensor[1].as_str().unwrap_or("float32")
}

/// Number of tests that share a table.
const SHARES: usize = 4;

/// Decodes base64, whose letters represent six bits each.
fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters: Vec<u32> =
        text.bytes().filter_map(|b| LETTERS.iter().position(|l| *l == b)).map(|n| n as u32).collect();
    let four = |four: &[u32]| {
        let bits = four.iter().chain(&[0; 3]).take(4).fold(0, |bits, six| bits << 6 | six);
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    letters.chunks(4).flat_map(four).collect()
}

fn folders(share: usize) {
    let tables = Tables::new("folders");
    assert!(tables.cases().len() >= 60);
    tables.check_all(share, |case, workspace| tables.folder(case, workspace));
}

fn ggufs(share: usize) {
    let tables = Tables::new("ggufs");
    assert!(tables.cases().len() >= 40);
    tables.check_all(share, |case, workspace| tables.gguf(case, workspace));
}

#[test]
fn odd_folders_are_read_as_transformers_reads_them_0() {
    folders(0);
}

#[test]
fn odd_folders_are_read_as_transformers_reads_them_1() {
    folders(1);
}

#[test]
fn odd_folders_are_read_as_transformers_reads_them_2() {
    folders(2);
}

#[test]
fn odd_folders_are_read_as_transformers_reads_them_3() {
    folders(3);
}

#[test]
fn odd_gguf_files_are_read_as_their_tensors_say_0() {
    ggufs(0);
}

#[test]
fn odd_gguf_files_are_read_as_their_tensors_say_1() {
    ggufs(1);
}

#[test]
fn odd_gguf_files_are_read_as_their_tensors_say_2() {
    ggufs(2);
}

#[test]
fn odd_gguf_files_are_read_as_their_tensors_say_3() {
    ggufs(3);
}
