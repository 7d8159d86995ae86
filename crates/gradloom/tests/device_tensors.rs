//! Tests tensors that stay on the device: results of programs that use them, copies, and rejected uses.

mod common;

use common::devices;
use gradloom::prelude::*;
use gradloom::{DeviceTensor, ErrorKind, Infer};

#[derive(Module)]
struct Coder {
    encoder: Linear,
    decoder: Linear,
}

fn session(device: &Device) -> Session<Coder> {
    let model = Coder { encoder: Linear::new(3, 6), decoder: Linear::new(6, 2) };
    Session::new(model, device, 11).unwrap()
}

fn decoder(session: &Session<Coder>) -> Train<Coder, 2> {
    session
        .trainer()
        .only("decoder.*")
        .inputs([f32("code", [4, 6]), f32("y", [4, 2])])
        .loss(|m, [code, y]| m.decoder.forward(code).mse_loss(y))
        .optimizer(Adam::new(0.05))
        .compile(session.device())
        .unwrap()
}

fn encoder(session: &Session<Coder>) -> Infer<1, Tensor> {
    session.infer([f32("x", [4, 3])], |m, [x]| m.encoder.forward(x).relu()).unwrap()
}

fn wave(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
}

/// Returns the number of results and inputs that a program has copied from and to the host; 0 on a CPU.
fn copied(work: Option<gradloom::runtime::Work>) -> (usize, usize) {
    work.map_or((0, 0), |work| (work.readbacks, work.uploads))
}

#[test]
fn an_encoders_output_trains_a_decoder_as_through_the_host() {
    for device in devices() {
        let (stays, goes) = (session(&device), session(&device));
        let (mut encode, mut train) = (encoder(&stays), decoder(&stays));
        let (mut encode_host, mut train_host) = (encoder(&goes), decoder(&goes));
        let mut unread = Vec::new();
        let y = stays.upload(&wave(8, 3), [4, 2]).unwrap();
        for step in 0..12 {
            let x = wave(12, step);
            // Queue the next run while the steps that use earlier results are still queued.
            let code = encode.run_on_device([&x]).unwrap();
            unread.push(train.step((&code, &y)).unwrap());
            drop(code);
        }
        assert_eq!(copied(train.program().work()), (0, 0), "{}", device.name());
        assert_eq!(copied(encode.program().work()).0, 0);
        for (step, unread) in unread.iter().enumerate() {
            let code = encode_host.run([&wave(12, step)]).unwrap();
            let loss = train_host.step((&code, &wave(8, 3))).unwrap().loss().unwrap();
            assert_eq!(unread.loss().unwrap().to_bits(), loss.to_bits(), "step {step} on {}", device.name());
        }
        assert_eq!(stays.store().read_all().unwrap(), goes.store().read_all().unwrap());
    }
}

#[test]
fn a_batch_stays_beside_others_of_the_host() {
    for device in devices() {
        let session = session(&device);
        let mut train = decoder(&session);
        let code = wave(24, 1);
        let resident = session.upload(&code, [4, 6]).unwrap();
        let mut losses = Vec::new();
        // Alternate tensors and host data: host data is not written into the tensor, and a step with host
        // data does not use the tensor.
        for step in 0..6 {
            let y = wave(8, step);
            losses.push(match step % 3 {
                0 => train.step((&resident, &y)),
                1 => train.step((&wave(24, 99), &y)),
                _ => train.step((&code, &y)),
            });
        }
        assert_eq!(resident.get().unwrap(), code);
        let other = self::session(&device);
        let mut train = decoder(&other);
        for (step, loss) in losses.into_iter().enumerate() {
            let code = if step % 3 == 1 { wave(24, 99) } else { code.clone() };
            let expected = train.step((&code, &wave(8, step))).unwrap().loss().unwrap();
            assert_eq!(loss.unwrap().loss().unwrap().to_bits(), expected.to_bits(), "step {step}");
        }
    }
}

#[test]
fn a_program_takes_its_own_output() {
    for device in devices() {
        let session = Session::new(Linear::new(5, 5), &device, 3).unwrap();
        let turn = |m: &Linear, [x]: [Tensor; 1]| m.forward(x).tanh();
        let mut resident = session.infer([f32("x", [2, 5])], turn).unwrap();
        let mut host = session.infer([f32("x", [2, 5])], turn).unwrap();
        let start = wave(10, 0);
        let mut state = session.upload(&start, [2, 5]).unwrap();
        let mut expected = start;
        let mut between = Vec::new();
        for _ in 0..8 {
            state = resident.run_on_device([&state]).unwrap();
            between.push(state.clone());
            expected = host.run([&expected]).unwrap();
        }
        assert_eq!(copied(resident.program().work()), (0, 0));
        assert_eq!(state.get().unwrap(), expected);
        // The elements of a handle never change.
        let first = between[0].get().unwrap();
        resident.run_on_device([&between[3]]).unwrap();
        assert_eq!(between[0].get().unwrap(), first);
    }
}

#[test]
fn tokens_are_fed_back_and_a_trap_is_an_error_at_once() {
    for device in devices() {
        let session = Session::new((Embedding::new(7, 8), Linear::new(8, 7)), &device, 3).unwrap();
        let mut next = session
            .infer([i32("id", [1])], |m, [id]| typed::<i32>(m.1.forward(m.0.forward(id)).argmax(1)))
            .unwrap();
        let mut host = 2;
        let mut token = session.upload(&[host], [1]).unwrap();
        for _ in 0..5 {
            token = next.run_on_device([&token]).unwrap();
            host = next.run([&[host]]).unwrap()[0];
            assert_eq!(token.get_as::<i32>().unwrap(), [host]);
        }
        let outside = session.upload(&[7], [1]).unwrap();
        assert_eq!(next.run_on_device([&outside]).unwrap_err().kind(), ErrorKind::Trap);
        next.run_on_device([&token]).unwrap();
    }
}

#[test]
fn results_have_the_form_that_the_closure_gave_them() {
    for device in devices() {
        let session = Session::new(Linear::new(3, 4), &device, 3).unwrap();
        let mut infer = session
            .infer([f32("x", [2, 3]), i64("n", [3])], |m, [x, n]| {
                let y = m.forward(x).capture("y");
                let bits = typed::<bool>(y.lt(0.0));
                ([y, y.transpose(0, 1)], bits, typed::<i64>(n), y.slice(1, 1..3), x)
            })
            .unwrap();
        let (x, n) = (wave(6, 5), [1i64 << 40, -1, 3]);
        let ([y, t], bits, n_host, part, x_host) = infer.run((&x, &n)).unwrap();
        assert_eq!(infer.get("y").unwrap(), y);
        let (x_kept, n_kept) = (session.upload(&x, [2, 3]).unwrap(), session.upload(&n, [3]).unwrap());
        let ([y_kept, t_kept], bits_kept, n_kept, part_kept, x_kept) =
            infer.run_on_device((&x_kept, &n_kept)).unwrap();
        assert!(infer.get("y").is_err(), "captures of a run that stays are not read");
        assert_eq!((y_kept.get().unwrap(), t_kept.get().unwrap()), (y, t));
        assert_eq!(bits_kept.get_as::<bool>().unwrap(), bits);
        assert_eq!(n_kept.get_as::<i64>().unwrap(), n_host);
        assert_eq!((part_kept.get().unwrap(), x_kept.get().unwrap()), (part, x_host));
        let shapes = [&y_kept, &t_kept, &part_kept].map(|tensor| tensor.shape().to_vec());
        assert_eq!(shapes, [vec![2, 4], vec![4, 2], vec![2, 2]]);
        assert_eq!((n_kept.shape()[..].to_vec(), n_kept.dtype()), (vec![3], DType::I64));
    }
}

#[test]
fn narrow_elements_and_none_at_all() {
    for device in devices() {
        let session = Session::new(Linear::no_bias(1, 1), &device, 3).unwrap();
        session.set("weight", &[1.0f32]).unwrap();
        let mut infer = session
            .infer([u8("bytes", [3]), f32("none", [0, 1])], |m, [bytes, none]| {
                let wide = m.forward(bytes.cast(DType::F32).reshape([3, 1]));
                (typed::<u8>(wide.reshape([3]).cast(DType::U8)), m.forward(none))
            })
            .unwrap();
        let bytes = session.upload(&[1u8, 254, 255], [3]).unwrap();
        let none = session.upload(&[0.0f32; 0], [0, 1]).unwrap();
        let (kept, empty) = infer.run_on_device((&bytes, &none)).unwrap();
        assert_eq!(kept.get_as::<u8>().unwrap(), [1, 254, 255], "{}", device.name());
        assert_eq!((empty.get().unwrap(), empty.bytes(), none.get().unwrap()), (vec![], 0, vec![]));
        let (kept, _) = infer.run_on_device((&kept, &empty)).unwrap();
        assert_eq!(infer.run((&kept, &none)).unwrap().0, [1, 254, 255]);
    }
}

#[test]
fn batches_of_any_extent_and_debug_runs() {
    for device in devices() {
        let session = session(&device);
        let mut infer = session.infer_any_batch([f32("x", [4, 3])], |m, [x]| m.encoder.forward(x)).unwrap();
        for batch in [4, 1, 7] {
            let x = wave(3 * batch, 1);
            let kept = session.upload(&x, [batch, 3]).unwrap();
            let result = infer.run_on_device([&kept]).unwrap();
            assert_eq!(result.shape()[..], [batch, 6]);
            assert_eq!(result.get().unwrap(), infer.run([&x]).unwrap());
        }
        let mut train = decoder(&session);
        let (code, y) = (session.upload(&wave(24, 1), [4, 6]).unwrap(), wave(8, 2));
        let mut run = train.debug_run((&code, &y), gradloom::Retention::AsPlanned).unwrap();
        run.run(0..run.plan().launches.len()).unwrap();
        assert!(train.find_not_finite(&Device::cpu(), (&code, &y)).unwrap().is_none());
        train.step((&code, &y)).unwrap().loss().unwrap();
    }
}

#[test]
fn a_program_that_updates_states_keeps_its_results_too() {
    for device in devices() {
        let session =
            Session::new(gradloom::State::new([2], DType::F32, 0.0).named("sum"), &device, 1).unwrap();
        let mut count = session
            .infer([f32("x", [2])], |state, [x]| {
                let sum = state.tensor() + x;
                state.set(sum);
                sum
            })
            .unwrap();
        let one = session.upload(&[1.0f32, 10.0], [2]).unwrap();
        let sums: Vec<DeviceTensor> = (0..3).map(|_| count.run_on_device([&one]).unwrap()).collect();
        let sums: Vec<Vec<f32>> = sums.iter().map(|sum| sum.get().unwrap()).collect();
        assert_eq!(sums, [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (cpu, other) = (Device::cpu(), Device::cpu());
    let session = session(&cpu);
    let mut infer = encoder(&session);
    let x = session.upload(&[0.5f32; 12], [4, 3]).unwrap();
    let before = infer.run([&x]).unwrap();
    let mut message = |tensor: &DeviceTensor| {
        let error = infer.run([tensor]).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, text) = message(&other.upload(&[0.5f32; 12], [4, 3]).unwrap());
    assert_eq!(kind, ErrorKind::Device);
    assert!(text.starts_with("error: the tensor for the input `x` is on another device"), "{text}");
    let (kind, text) = message(&session.upload(&[1i32; 12], [4, 3]).unwrap());
    assert_eq!(kind, ErrorKind::Feed);
    assert!(text.contains("the input `x` is f32[4, 3], got i32[4, 3] of the device"), "{text}");
    assert!(text.contains(".cast(..)"), "{text}");
    let (_, text) = message(&session.upload(&[0.5f32; 12], [3, 4]).unwrap());
    assert!(text.contains("got f32[3, 4] of the device") && text.contains(".reshape([4, 3])"), "{text}");
    let (_, text) = message(&session.upload(&[0.5f32; 3], [1, 3]).unwrap());
    assert!(text.contains("got f32[1, 3] of the device"), "{text}");
    assert_eq!(infer.run([&x]).unwrap(), before, "the program can be used again");

    let error = session.upload(&[0.5f32; 3], [2, 2]).unwrap_err();
    assert_eq!(error.message(), "f32[2, 2] has 4 elements, got 3");
    assert_eq!(x.reshape([5]).unwrap_err().message(), "f32[5] has 5 elements, got 12");
    let error = x.get_as::<i32>().unwrap_err();
    assert_eq!(error.message(), "the device's tensor f32[4, 3] is f32, not i32");
    let error = Device::null().upload(&[1.0f32], [1]).unwrap_err();
    assert!(error.message().starts_with("this device plans only"), "{error}");

    let (faulty, faults) = cpu.with_faults();
    faults.fail(gradloom::runtime::Fault::Allocation, 0);
    let error = faulty.upload(&[1.0f32; 4], [4]).unwrap_err();
    assert_eq!(error.message(), "no memory for 16 bytes of f32[4]");
    faulty.upload(&[1.0f32; 4], [4]).unwrap();
}

/// The process holds the memory of tensors on the CPU and on a software GPU.
#[test]
#[cfg(target_os = "linux")]
fn memory_goes_with_the_last_handle() {
    let resident = || -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    const ELEMENTS: usize = 1 << 20;
    for device in devices() {
        let session = Session::new(Linear::no_bias(1, 1), &device, 3).unwrap();
        let mut infer =
            session.infer([f32("x", [ELEMENTS, 1])], |m, [x]| m.forward(x).reshape([ELEMENTS, 1])).unwrap();
        let x = vec![1.0f32; ELEMENTS];
        let mut turn = || {
            let x = session.upload(&x, [ELEMENTS, 1]).unwrap();
            let y = infer.run_on_device([&x]).unwrap();
            y.get().unwrap()
        };
        for _ in 0..5 {
            turn();
        }
        let before = resident();
        for _ in 0..40 {
            turn();
        }
        let growth = resident().saturating_sub(before);
        assert!(growth < 40 << 20, "{growth} bytes after 320 MiB of tensors on {}", device.name());
    }
}

#[test]
#[cfg(feature = "wgpu")]
fn a_lost_device_is_told_of() {
    let Some(device) = common::gpu() else { return };
    let session = session(&device);
    let mut infer = encoder(&session);
    let x = session.upload(&[0.5f32; 12], [4, 3]).unwrap();
    gradloom::testing::lose(&device);
    assert_eq!(x.get().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(infer.run_on_device([&x]).unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(session.upload(&[0.5f32; 12], [4, 3]).unwrap_err().kind(), ErrorKind::Lost);
}
