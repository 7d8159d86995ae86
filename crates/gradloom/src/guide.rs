//! Compiles and runs the code of the guide (`docs/guide`) as tests. `tests/guide.rs` checks that no page is
//! missing.

macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {$(
        #[doc = include_str!(concat!("../../../docs/guide/src/", $file))]
        mod $name {}
    )*};
}

pages! {
    introduction: "introduction.md",
    first_model: "first-model.md",
    training_loop: "training-loop.md",
    shapes: "shapes.md",
    states: "states.md",
    custom: "custom.md",
    plan: "plan.md",
    memory: "memory.md",
    mistakes: "mistakes.md",
    gpu: "gpu.md",
    several_devices: "several-devices.md",
    files: "files.md",
    serving: "serving.md",
    pytorch_index: "pytorch/index.md",
    pytorch_tensors: "pytorch/tensors.md",
    pytorch_reductions: "pytorch/reductions.md",
    pytorch_layers: "pytorch/layers.md",
    pytorch_training: "pytorch/training.md",
    pytorch_rest: "pytorch/rest.md",
    jax: "jax.md",
    ztensor: "ztensor.md",
}
