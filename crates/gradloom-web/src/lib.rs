use gradloom_core::{ir, grad, optim, passes, plan};
use gradloom_codegen::wgsl;
#[unsafe(no_mangle)]
pub extern "C" fn compile(p: *const u8, n: usize) -> *const u8 {
    let text = unsafe { std::str::from_utf8(std::slice::from_raw_parts(p, n)).unwrap() };
    let out = inner(text).unwrap_or_else(|e| e.to_string());
    Box::leak(out.into_boxed_str()).as_ptr()
}
fn inner(text: &str) -> Result<String, Box<dyn std::error::Error>> {
    let mut graph = ir::parse(text)?;
    let loss = graph.output("loss").unwrap();
    let params: Vec<_> = graph.entry_ops().filter(|(_, o)| matches!(o.kind, ir::OpKind::Param{..})).map(|(_, o)| o.results[0]).collect();
    let grads = grad::append(&mut graph, loss, None, &params)?;
    let t: Vec<_> = params.iter().zip(grads).map(|(&v, g)| optim::Trainable { name: "x".into(), value: v, gradient: g.unwrap(), decay: None }).collect();
    let graph = optim::attach(graph, &t, &optim::AdamW::new(1e-3), true)?;
    let (graph, _) = passes::run(graph);
    let limits = wgsl::Limits::default();
    let choices = wgsl::Choices::default();
    let lowered = wgsl::lower(&graph, &limits, &choices)?;
    let mut layout = plan::StoreLayout::default();
    layout.extend(&graph)?;
    let plan = plan::plan(&graph, lowered, &layout, None)?;
    let cuts = wgsl::Cuts::default();
    let context = wgsl::Context { plan: &plan, graph: &graph, limits: &limits, choices: &choices, cuts: &cuts };
    let mut out = String::new();
    for (i, l) in plan.launches.iter().enumerate() {
        for s in wgsl::shaders(l, i, &context)? { for d in s.dispatches { out += &d.source; } }
    }
    Ok(out)
}
#[cfg(feature="cpu")]
#[unsafe(no_mangle)]
pub extern "C" fn run(p: *const u8, n: usize) -> f32 {
    let text = unsafe { std::str::from_utf8(std::slice::from_raw_parts(p, n)).unwrap() };
    let graph = ir::parse(text).unwrap();
    let device = gradloom_runtime::Device::cpu();
    let m = gradloom_core::nn::Linear::new(3,2);
    let _ = graph;
    let s = gradloom_runtime::Session::new(m, &device, 3).unwrap();
    let mut f = s.infer([gradloom_core::trace::f32("x",[1,3])], |l,[x]| l.forward(x)).unwrap();
    f.run([&[0.0f32;3]]).unwrap()[0]
}
