//! Generates the interface to TypeScript, as Rust code that reads it and as TypeScript modules: the table of
//! ops, and schedules, initial values and optimizers.

#[path = "table/mod.rs"]
mod table;

use std::path::Path;
use table::{options, print, training};

fn main() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gradloom-core/src");
    let [trace, nn, optim] = ["trace", "nn", "optim"].map(|folder| core.join(folder));
    for folder in [&trace, &nn, &optim] {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-changed=table");
    let ops = table::read(&[&trace, &nn.join("layers")]);
    let options = options::read(&table::parse(&trace));
    let (optim, nn) = (table::parse(&optim), table::parse(&nn));
    let out = std::env::var("OUT_DIR").expect("cargo says where");
    for (name, text) in [
        ("ops.rs", print::rust(&ops) + &options::rust(&options)),
        ("ops.ts", print::typescript(&ops, &options)),
        ("training.rs", training::rust(&optim, &nn)),
        ("training.ts", training::typescript(&optim, &nn)),
    ] {
        std::fs::write(Path::new(&out).join(name), text).expect("the build folder can be written");
    }
}
