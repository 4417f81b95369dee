//! Scientific arrays: each is restored, and its frame has exactly the size in `sizes.toml`.
//!
//! A change of a size is a decision. To accept one:
//! `cargo test --test codecs -- --ignored real_data::bless`

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::bounds::{Bound, assert_kept};
use crate::common::real::arrays;
use crate::common::{assert_same_bytes, compress, decompress, ndzip, shared, specs, takes};
use gridz::{ByteOrder, Context, Mode, Request};
use gridz_codecs::format::header::header_bytes;
use serde_json::Value;

/// Frame sizes in bytes, by codec and file.
type Sizes = BTreeMap<String, BTreeMap<String, usize>>;

fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sizes.toml")
}

fn name_of(spec: &Request) -> String {
    match spec.mode() {
        Mode::Lossless if spec.level() == 0 => spec.name().into(),
        Mode::Lossless => format!("{} level {}", spec.name(), spec.level()),
        mode => format!("{} {} {:e} level {}", spec.name(), mode.name(), spec.value(), spec.level()),
    }
}

/// Compresses all arrays with every compressing codec, and reads them back.
fn measure(data: &Path) -> Sizes {
    let (one, two) = (Context::new(Some(1), None).unwrap(), Context::new(Some(2), None).unwrap());
    let mut sizes = Sizes::new();
    let arrays = arrays(data);
    let bounded: Request = "quant,rel=1e-3".parse().unwrap();
    for spec in specs().filter(|spec| spec.name() != "stored").chain([bounded]) {
        for real in arrays.iter().filter(|real| takes(&spec, real.array.dtype())) {
            let frame = compress(&real.array, &spec, &real.bytes, &one);
            assert_same_bytes(&compress(&real.array, &spec, &real.bytes, &two), &frame, &real.file);
            let back = decompress(&frame, &one).unwrap();
            assert_same_bytes(&decompress(&frame, &two).unwrap(), &back, &real.file);
            if spec.mode() == Mode::Lossless {
                assert_same_bytes(&back, &real.bytes, &real.file);
            } else if real.array.order() == ByteOrder::Little {
                let bound = gridz::inspect(&frame).unwrap().promise.and_then(|promise| promise.bound).unwrap();
                assert_kept(real.array.dtype(), &real.bytes, &back, Bound::Absolute(bound), None);
            }
            sizes.entry(name_of(&spec)).or_default().insert(real.file.clone(), frame.len());
        }
    }
    sizes
}

#[test]
fn arrays_come_back_and_sizes_are_as_committed() {
    let Some(shared) = shared("arrays_come_back_and_sizes_are_as_committed") else { return };
    let committed: Sizes = toml::from_str(&fs::read_to_string(table()).unwrap()).unwrap();
    let sizes = measure(&shared.join("data"));
    assert!(sizes["ndzip"].len() >= 20, "only {} arrays", sizes["ndzip"].len());
    for (codec, sizes) in &sizes {
        for (file, size) in sizes {
            assert_eq!(
                committed.get(codec).and_then(|c| c.get(file)),
                Some(size),
                "frame bytes of {file} by {codec}"
            );
        }
    }
    assert_eq!(sizes, committed, "arrays or codecs are gone");
}

/// gridz's ndzip payloads are not longer than the published implementation's.
#[test]
fn ratios_are_not_above_the_reference() {
    let Some(shared) = shared("ratios_are_not_above_the_reference") else { return };
    let data = shared.join("data");
    let reference: Value =
        serde_json::from_str(&fs::read_to_string(data.join("ndzip-ratios.json")).unwrap()).unwrap();
    let reference = reference["ratios"].as_object().unwrap();
    let mut n_compared = 0;
    println!("{:<40} {:>9} {:>9} {:>9}", "array", "reference", "payload", "frame");
    for real in arrays(&data) {
        let Some(row) = reference.get(&real.file) else { continue };
        let frame = compress(&real.array, &ndzip(), &real.bytes, &Context::default());
        let payload_bytes = frame.len() - header_bytes(real.array.shape().rank(), 0);
        let ratio = |n_bytes: usize| (n_bytes as f64 / real.bytes.len() as f64 * 1e4).round() / 1e4;
        let (theirs, payload, frame) = (row["ratio"].as_f64().unwrap(), ratio(payload_bytes), ratio(frame.len()));
        println!("{:<40} {theirs:>9.4} {payload:>9.4} {frame:>9.4}", real.file);
        assert!(payload <= theirs, "{}: {payload} against {theirs}", real.file);
        n_compared += 1;
    }
    assert_eq!(n_compared, reference.len());
}

#[test]
#[ignore = "writes tests/sizes.toml"]
fn bless() {
    let shared = shared("bless").expect("the reference data");
    let sizes = toml::to_string(&measure(&shared.join("data"))).unwrap();
    let head = "# Frame bytes of the arrays of the reference data, each as one chunk; see real_data.rs.\n\n";
    fs::write(table(), format!("{head}{sizes}")).unwrap();
}
