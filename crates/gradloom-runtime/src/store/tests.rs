//! Tests the store alone: growth, all-or-nothing writes, and concurrent readers and writers.

use super::*;
use gradloom_core::ir::parse;
use std::sync::atomic::{AtomicBool, Ordering};

fn graph(lines: &str) -> Graph {
    parse(&format!("graph {{\n{lines}\n}}")).unwrap()
}

fn counting(_: &str, ty: &Type, elements: &mut [f32]) -> Result<()> {
    assert_eq!(elements.len(), ty.elements());
    elements.iter_mut().enumerate().for_each(|(i, element)| *element += i as f32);
    Ok(())
}

/// Grows a store by a graph's entries, without loading a program.
fn extend_with(
    store: &Store,
    graph: &Graph,
    plan: impl FnOnce(&StoreLayout) -> Result<()>,
    initial: impl Fn(&str, &Type, &mut [f32]) -> Result<()>,
) -> Result<()> {
    let mut growth = store.grow(graph)?;
    plan(growth.layout())?;
    growth.allocate(&Memory::new, &initial)?;
    growth.commit();
    Ok(())
}

fn grow(store: &Store, lines: &str) -> Result<()> {
    extend_with(store, &graph(lines), |_| Ok(()), counting)
}

fn f32s(n: usize) -> Type {
    Type::new(DType::F32, [n])
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn store() -> Store {
    let store = Store::new(true, u64::MAX, 0);
    grow(
        &store,
        "%0: f32[3] = param \"w\"\n%1: f32[2] = state \"m\" {init=0.5}\n\
                  %2: u32[] = state \"n\" {init=4000000000}",
    )
    .unwrap();
    store
}

#[test]
fn parameters_are_initialised_and_states_filled() {
    let store = store();
    assert_eq!(store.read_f32("w").unwrap(), [0.0, 1.0, 2.0]);
    assert_eq!(store.read_f32("m").unwrap(), [0.5, 0.5]);
    assert_eq!(store.read("n").unwrap(), 4_000_000_000u32.to_le_bytes());
    assert_eq!(store.read_f32("n").unwrap_err().message(), "`n` is u32[], not floats");
    let error = store.read("mm").unwrap_err();
    assert_eq!(error.message(), "there is no parameter or state called `mm`");
}

#[test]
fn states_of_every_dtype_start_as_they_say() {
    let store = Store::new(true, u64::MAX, 0);
    grow(
        &store,
        "%0: i32[2] = state \"i\" {init=-7}\n%1: bool[3] = state \"b\" {init=true}\n\
                  %2: f32[1] = state \"f\" {init=-0.0}",
    )
    .unwrap();
    assert_eq!(store.read("i").unwrap(), [-7i32, -7].map(i32::to_le_bytes).concat());
    assert_eq!(store.read("b").unwrap(), [1, 1, 1]);
    assert!(store.read_f32("f").unwrap()[0].is_sign_negative());
}

#[test]
fn growth_keeps_addresses_and_contents() {
    let store = store();
    store.write(&[("w", &f32s(3), &bytes(&[7.0, 8.0, 9.0]))]).unwrap();
    let addresses = |names: &[&str]| -> Vec<usize> {
        let content = store.read_lock();
        names
            .iter()
            .map(|name| {
                let (memory, offset) = content.memory().place(content.entry(name).unwrap().offset).unwrap();
                memory.at(offset) as usize
            })
            .collect()
    };
    let before = addresses(&["w", "m", "n"]);
    for i in 0..20 {
        grow(&store, &format!("%0: f32[1000] = param \"more{i}\"\n%1: f32[3] = param \"w\"")).unwrap();
    }
    assert_eq!(addresses(&["w", "m", "n"]), before);
    assert_eq!(store.read_f32("w").unwrap(), [7.0, 8.0, 9.0], "a known parameter is not initialised again");
    assert_eq!(store.read_f32("more19").unwrap()[999], 999.0);
    assert!(addresses(&["more3"])[0].is_multiple_of(gradloom_core::plan::ALIGNMENT as usize));
    assert_eq!(store.bytes(), store.read_lock().allocated());
}

#[test]
fn a_store_of_nothing_but_empty_entries_is_a_store() {
    let store = Store::new(true, u64::MAX, 0);
    grow(&store, "%0: f32[0, 3] = param \"w\"").unwrap();
    assert!(store.read_f32("w").unwrap().is_empty());
    store.write_all(&[("w", &Type::new(DType::F32, [0, 3]), &[])]).unwrap();
    grow(&store, "%0: f32[2] = param \"v\"\n%1: f32[0] = param \"last\"").unwrap();
    assert_eq!(store.read_f32("v").unwrap(), [0.0, 1.0]);
    assert_eq!((store.read_f32("w").unwrap(), store.read_f32("last").unwrap()), (vec![], vec![]));
    assert!(store.read_lock().memory().place(0).is_some());
}

#[test]
fn initial_values_of_every_type() {
    let store = Store::new(true, u64::MAX, 0);
    grow(&store, "%0: i32[3] = param \"i\"\n%1: bool[3] = param \"b\"\n%2: f32[3] = param \"f\"").unwrap();
    assert_eq!(store.read("i").unwrap(), [0, 1, 2].map(i32::to_le_bytes).concat());
    assert_eq!(store.read("b").unwrap(), [0, 1, 1]);
    assert_eq!(store.read_f32("f").unwrap(), [0.0, 1.0, 2.0]);
}

#[test]
fn growth_that_fails_changes_nothing() {
    let store = store();
    let before = (store.entries(), store.bytes(), store.read_lock().allocated());
    let new = graph("%0: f32[5] = param \"new\"");
    let no = || Error::new(ErrorKind::Plan, "no");
    assert!(extend_with(&store, &new, |_| Err(no()), counting).is_err(), "the plan fails");
    assert!(extend_with(&store, &new, |_| Ok(()), |_, _, _| Err(no())).is_err(), "the initialiser fails");
    let mut growth = store.grow(&new).unwrap();
    growth.allocate(&Memory::new, &counting).unwrap();
    drop(growth);
    let full = store.grow(&new).unwrap().allocate(&|_| None, &counting).unwrap_err();
    assert!(full.message().starts_with("no memory for "), "{full}");
    let error = grow(&store, "%0: f32[5] = param \"new\"\n%1: f32[4] = param \"w\"").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    assert_eq!((store.entries(), store.bytes(), store.read_lock().allocated()), before);
}

#[test]
fn a_write_changes_all_entries_or_none() {
    let store = store();
    let (w, m) = (bytes(&[1.0, 1.0, 1.0]), bytes(&[2.0, 2.0]));
    type Entries<'a> = &'a [(&'a str, &'a Type, &'a [u8])];
    let wrong: [(Entries, &str); 5] = [
        (&[("w", &f32s(3), &w), ("x", &f32s(2), &m)], "there is no parameter or state called `x`"),
        (&[("w", &f32s(3), &w), ("m", &f32s(3), &m)], "`m` is f32[2], not f32[3]"),
        (&[("w", &f32s(3), &w), ("m", &f32s(2), &m[1..])], "`m` (f32[2]) takes 8 bytes, got 7"),
        (&[("w", &f32s(3), &w), ("w", &f32s(3), &w)], "`w` is given twice"),
        (&[("w", &f32s(3), &w), ("m", &Type::new(DType::U32, [2]), &m)], "`m` is f32[2], not u32[2]"),
    ];
    let version = store.version();
    for (entries, message) in wrong {
        assert_eq!(store.write(entries).unwrap_err().message(), message);
        assert_eq!(store.write_all(entries).unwrap_err().message(), message);
    }
    assert_eq!(
        store.write_all(&[("w", &f32s(3), &w), ("m", &f32s(2), &m)]).unwrap_err().message(),
        "`n` is missing"
    );
    assert_eq!(store.read_f32("w").unwrap(), [0.0, 1.0, 2.0]);
    assert_eq!(store.version(), version);
    store.write(&[("w", &f32s(3), &w), ("m", &f32s(2), &m)]).unwrap();
    assert_eq!((store.read_f32("w").unwrap(), store.read_f32("m").unwrap()), (vec![1.0; 3], vec![2.0; 2]));
    assert_eq!(store.version(), version + 1);
}

#[test]
fn a_misspelt_name_is_put_right() {
    let store = Store::new(true, u64::MAX, 0);
    grow(&store, "%0: f32[1] = param \"layers.0.weight\"\n%1: f32[1] = param \"layers.0.bias\"").unwrap();
    assert!(
        store.read("layers.0.wieght").unwrap_err().to_string().contains("did you mean `layers.0.weight`?")
    );
    assert!(!store.read("zzz").unwrap_err().to_string().contains("did you mean"));
}

#[test]
fn states_are_reset_by_prefix_and_parameters_are_not() {
    let store = Store::new(true, u64::MAX, 0);
    grow(
        &store,
        "%0: f32[1] = param \"optim.w\"\n%1: f32[1] = state \"optim.m\" {init=0.0}\n\
                  %2: f32[1] = state \"cache\" {init=0.0}",
    )
    .unwrap();
    let one = bytes(&[1.0]);
    let ty = f32s(1);
    store.write_all(&[("optim.w", &ty, &one), ("optim.m", &ty, &one), ("cache", &ty, &one)]).unwrap();
    store.reset_states("optim.").unwrap();
    let values = ["optim.w", "optim.m", "cache"].map(|name| store.read_f32(name).unwrap()[0]);
    assert_eq!(values, [1.0, 0.0, 1.0]);
}

#[test]
fn a_lost_store_is_sound_again_after_everything_was_written() {
    let store = store();
    store.write_lock().begin_commit();
    assert!(store.is_lost());
    assert_eq!(store.read_lock().check_sound().unwrap_err().kind(), ErrorKind::Lost);
    assert!(store.read("w").is_ok(), "it can still be looked at");
    store.write(&[("w", &f32s(3), &bytes(&[1.0; 3]))]).unwrap();
    store.reset_states("").unwrap();
    assert!(store.is_lost(), "a part is not enough");
    let n = 1u32.to_le_bytes();
    let all: [(&str, &Type, &[u8]); 3] = [
        ("w", &f32s(3), &bytes(&[1.0; 3])),
        ("m", &f32s(2), &bytes(&[1.0; 2])),
        ("n", &Type::scalar(DType::U32), &n),
    ];
    store.write_all(&all).unwrap();
    assert!(!store.is_lost());
}

#[test]
fn a_store_without_bytes_says_so() {
    let store = Store::new(false, u64::MAX, 0);
    grow(&store, "%0: f32[1000000, 1000000] = param \"w\"\n%1: f32[1] = state \"m\" {init=0.0}").unwrap();
    assert_eq!(store.bytes(), 4_000_000_000_256);
    for error in [store.read("w").unwrap_err(), store.reset_states("").unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Device);
    }
}

#[test]
fn readers_never_see_half_a_write() {
    // Use smaller numbers with Miri, which is about a thousand times slower.
    const ELEMENTS: usize = if cfg!(miri) { 64 } else { 4096 };
    const TURNS: usize = if cfg!(miri) { 10 } else { 200 };
    let store = Store::new(true, u64::MAX, 0);
    grow(&store, &format!("%0: f32[{ELEMENTS}] = param \"w\"")).unwrap();
    let ty = f32s(ELEMENTS);
    store.write(&[("w", &ty, &bytes(&[0.0; ELEMENTS]))]).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let seen = store.read_f32("w").unwrap();
                    assert!(seen.iter().all(|v| *v == seen[0]), "from {} to {}", seen[0], seen[ELEMENTS - 1]);
                }
            });
        }
        for turn in 0..TURNS {
            store.write(&[("w", &ty, &bytes(&[turn as f32; ELEMENTS]))]).unwrap();
            // The store also grows while it is read.
            grow(&store, &format!("%0: f32[10] = param \"more{}\"", turn % 7)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.entries().len(), 8);
}

#[test]
fn what_was_read_before_gives_its_memory() {
    let store = store();
    let mut read = store.read_all().unwrap();
    let places = |read: &[(StoreEntry, Vec<u8>)]| read.iter().map(|(_, b)| b.as_ptr()).collect::<Vec<_>>();
    let before = places(&read);
    store.write(&[("w", &f32s(3), &bytes(&[7.0, 8.0, 9.0]))]).unwrap();
    store.read_all_into(&mut read).unwrap();
    assert_eq!((&read, places(&read)), (&store.read_all().unwrap(), before));
    // The earlier result may be from before the store grew, or from another store.
    grow(&store, "%0: f32[4] = param \"v\"").unwrap();
    store.read_all_into(&mut read).unwrap();
    assert_eq!((read.len(), &read), (4, &store.read_all().unwrap()));
    let mut none = Vec::new();
    store.read_all_into(&mut none).unwrap();
    assert_eq!(none, read);
}
