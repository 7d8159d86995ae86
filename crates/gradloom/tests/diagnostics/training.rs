//! Mistakes in trainers, optimizers, captures, gradients, blocks and states.

use crate::book::{Book, model};
use gradloom::ir::{CustomOp, Slice, SliceMut, Type, TypeError};
use gradloom::nn::{Module, Visitor};
use gradloom::optim::Optimizer;
use gradloom::prelude::*;
use gradloom::reference::HostTensor;

fn trainer() -> Trainer<Linear, 1> {
    Trainer::new(Linear::new(4, 1)).inputs([f32("x", [3, 4])])
}

/// Returns a complete trainer, to which mistakes are added.
fn whole() -> Trainer<Linear, 1> {
    trainer().loss(|m, [x]| m.forward(x).mean()).optimizer(Sgd::new(0.1))
}

fn compile<M: Module, const N: usize>(trainer: Trainer<M, N>) -> Result<()> {
    trainer.compile(&Device::null()).map(|_| ())
}

#[test]
fn trainers() {
    let mut book = Book::new("trainers.txt");
    book.answer("no loss", compile(trainer().optimizer(Sgd::new(0.1))));
    book.answer("no optimizer", compile(trainer().loss(|m, [x]| m.forward(x).mean())));
    book.answer("a loss of rank 2", compile(whole().loss(|m, [x]| m.forward(x))));
    book.answer("a loss of integers", compile(whole().loss(|m, [x]| m.forward(x).argmax_all())));
    book.answer("a loss of 16 bits", compile(whole().loss(|m, [x]| m.forward(x).mean().cast(DType::BF16))));
    book.answer("a detached loss", compile(whole().loss(|m, [x]| m.forward(x).mean().detach())));
    book.answer("a loss without parameters", compile(whole().loss(|_, [x]| x.mean())));
    let twice = Trainer::new(Linear::new(4, 1)).inputs([f32("x", [3, 4]), f32("x", [3, 1])]);
    book.answer("inputs of one name", compile(twice.loss(|m, [x, y]| m.forward(x).mse_loss(y))));
    let unnamed = Trainer::new(Linear::new(4, 1)).inputs([f32("", [3, 4])]);
    book.answer("an input without a name", compile(unnamed.loss(|m, [x]| m.forward(x).mean())));
    book.answer("all parameters frozen", compile(whole().freeze("*")));
    book.answer("a pattern without parameters", compile(whole().freeze("layers.*")));
    book.answer("a normalized pattern", compile(whole().normalize_gradients("head.*")));
    let groups = Groups::new(Sgd::new(0.1)).group("head.*", Sgd::new(0.01));
    book.answer("a group without parameters", compile(whole().optimizer(groups)));
    book.answer("no micro-batches", compile(whole().accumulate(0)));
    book.answer("a budget of a byte", compile(whole().memory_budget(1)));
    book.answer("a norm below 0", compile(whole().clip_norm(-1.0)));
    book.answer("a limit of 0", compile(whole().clip_value(0.0)));
    book.answer("a mean that never moves", compile(whole().average(1.0)));
    let mut numbers = |title: &str, optimizer: Box<dyn Optimizer>| {
        struct Boxed(Box<dyn Optimizer>);
        impl Optimizer for Boxed {
            fn schedule(&self) -> &Schedule {
                self.0.schedule()
            }
            fn hyperparameters(&self) -> gradloom::optim::Hyperparameters {
                self.0.hyperparameters()
            }
            fn derive(&self, numbers: &mut gradloom::optim::Hyperparameters) -> Result<()> {
                self.0.derive(numbers)
            }
            fn update(
                &self,
                step: &mut gradloom::optim::StepBuilder<'_, '_>,
                parameter: &gradloom::optim::Trainable,
            ) -> gradloom::ir::ValueId {
                self.0.update(step, parameter)
            }
        }
        book.answer(title, compile(whole().optimizer(Boxed(optimizer))));
    };
    numbers("a rate that is NaN", Box::new(Adam::new(f64::NAN)));
    numbers("a rate below 0", Box::new(AdamW::new(-1e-3)));
    numbers("a rate that f32 cannot hold", Box::new(Sgd::new(1e39)));
    numbers("a beta of 1", Box::new(Adam::new(0.1).betas(0.9, 1.0)));
    numbers("an epsilon below 0", Box::new(Adam::new(0.1).epsilon(-1e-8)));
    numbers("a decay below 0", Box::new(AdamW::new(0.1).weight_decay(-0.1)));
    numbers("a momentum above 1", Box::new(Sgd::new(0.1).momentum(1.5)));
    let rate = Schedule::Linear { from: 0.1, to: -0.1, steps: 0 };
    numbers("a schedule that ends below 0", Box::new(Sgd::new(rate)));
    book.check(26);
}

/// Two parameters with the same name.
struct Clash(Linear, Linear);

impl Module for Clash {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("layer", &self.0);
        visitor.field("layer", &self.1);
    }
}

#[derive(Module)]
struct Named {
    optim: Linear,
}

#[test]
fn models() {
    let mut book = Book::new("models.txt");
    let device = Device::null();
    book.answer("two parameters of one name", Session::new(Clash(model_layer(), model_layer()), &device, 0));
    book.answer("a field called `optim`", Session::new(Named { optim: model_layer() }, &device, 0));
    book.answer("a parameter alone", Session::new(Param::new([2], Init::Ones), &device, 0));
    let stray = Param::new([64], Init::Zeros);
    book.trace(|g| g.x * &stray);
    let stray = State::new([64], DType::F32, 0.0);
    book.trace(|g| g.x + &stray);
    let unnamed = State::new([64], DType::F32, 0.0).named("");
    book.trace(|g| g.x + &unnamed);
    let taken = State::new([64], DType::F32, 0.0).named("count");
    book.trace(|g| g.x + &taken + (&g.m.count).sum_of());
    let half = State::new([64], DType::I32, 0.5).named("half");
    book.trace(|g| g.x + half.tensor().cast(DType::F32));
    book.trace(|g| with(g.x, || g.m.count.set(g.x)));
    book.trace(|g| with(g.x, || g.m.count.set(g.m.count.tensor().cast(DType::I32))));
    book.trace(|g| {
        g.m.count.set(&g.m.count * 2.0);
        g.m.count.set(&g.m.count + 1.0);
        g.x
    });
    book.trace(|g| with(g.x, || g.m.count.update_at(&[g.ids.sum()], g.m.count.tensor())));
    book.trace(|g| with(g.x, || g.m.count.update_at(&[g.ids.sum(), g.ids.sum()], g.x)));
    book.trace(|g| checkpoint(|| with(g.x, || g.m.count.set(g.m.count.tensor()))));
    book.check(14);
}

fn model_layer() -> Linear {
    Linear::new(4, 4)
}

#[track_caller]
fn with(x: Tensor, f: impl FnOnce()) -> Tensor {
    f();
    x
}

trait SumOf {
    fn sum_of(self) -> Tensor;
}

impl SumOf for &State {
    fn sum_of(self) -> Tensor {
        self.tensor().sum()
    }
}

#[test]
fn traces() {
    let mut book = Book::new("traces.txt");
    book.trace(|g| g.x.capture("h") + g.x.capture("h"));
    book.trace(|g| g.x.capture("result.0"));
    book.trace(|g| g.x.capture(""));
    book.trace(|g| checkpoint(|| g.x.capture("h")));
    book.trace(|g| gradients(g.x, [g.x])[0]);
    book.trace(|g| gradients(g.x.mean(), vec![g.x, g.ids])[0]);
    book.trace(|g| checkpoint(|| gradients(g.x.mean(), [g.x])[0]));
    book.trace(|g| scan(3, g.x, g.ids, |x, _| (x, ())).0);
    book.trace(|g| scan(8, g.x, g.ids, |x, _| (x.sum_axes(0), ())).0);
    book.trace(|g| {
        let mut inside = None;
        let outer = checkpoint(|| *inside.insert(g.x.exp()));
        outer + inside.unwrap()
    });
    let mut leaked = None;
    let session = Session::new((), &Device::null(), 0).unwrap();
    let _ = session.infer([f32("x", [2])], |_, [x]| *leaked.insert(x)).unwrap();
    let leaked = leaked.unwrap();
    book.trace(|g| g.x * leaked);
    book.trace(|_| leaked.exp());
    book.trace(|_| leaked.softmax(0));
    book.trace(|g| with(g.x, || g.m.count.set(leaked)));
    book.trace(|_| leaked);
    book.trace(|g| gradients(g.x.sum(), [leaked])[0]);
    book.check(16);
}

/// Op that doubles a vector, with the given kind of mistake.
#[derive(Debug)]
struct Twice(&'static str);

impl CustomOp for Twice {
    fn name(&self) -> &str {
        if self.0 == "name" { "twice as much" } else { "twice" }
    }
    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        if operands[0].shape.rank() != 1 {
            let error = TypeError::new(format!("`twice` of {}", operands[0].shape));
            return Err(error.help("it takes a vector"));
        }
        Ok(vec![operands[0].clone()])
    }
    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        let all = operands[0].to_f64().into_iter().map(|x| 2.0 * x);
        Ok(vec![HostTensor::from_f64(operands[0].ty.clone(), all)])
    }
    fn run_on_host(&self, operands: &[Slice<'_>], results: &mut [SliceMut<'_>]) -> Result<(), String> {
        let (Slice::F32(x), SliceMut::F32(y)) = (&operands[0], &mut results[0]) else {
            return Err("no floats".to_string());
        };
        x.iter().zip(y.iter_mut()).for_each(|(x, y)| *y = 2.0 * x);
        if x.contains(&0.0) { Err("a zero".to_string()) } else { Ok(()) }
    }
}

#[test]
fn custom_ops() {
    let mut book = Book::new("custom.txt");
    book.trace(|g| Tensor::custom(Twice(""), [g.x])[0]);
    book.trace(|g| Tensor::custom(Twice("name"), [g.ids])[0]);
    book.trace(|g| Tensor::custom(Twice(""), [g.longs])[0]);
    let loss = whole().loss(|m, [x]| Tensor::custom(Twice(""), [m.forward(x).flatten()])[0].mean());
    book.answer("no gradient", compile(loss));
    let session = Session::new(model(), &Device::cpu(), 0).unwrap();
    let mut run = session.infer([f32("x", [2])], |_, [x]| Tensor::custom(Twice(""), [x])[0]).unwrap();
    assert_eq!(run.run([&[1.0, 2.0]]).unwrap(), [2.0, 4.0]);
    book.answer("the op fails", run.run([&[1.0, 0.0]]));
    book.check(5);
}
