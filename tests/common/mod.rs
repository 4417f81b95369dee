//! Helpers for several test programs.
#![allow(dead_code)] // each test program uses only some of it

pub mod bounds;
pub mod damage;
pub mod decoder;
pub mod fields;
pub mod generate;
pub mod golden;
pub mod indices;
pub mod matrices;
pub mod matrix_rejects;
pub mod ndzip;
pub mod real;
pub mod repair;
pub mod vectors;
pub mod zfp;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use gridz::{Array, ByteOrder, Context, DType, ErrorKind, Mode, Request, Verify};
use gridz_codecs::codec::gpu::{Answer, Chunks, Direction};
use gridz_codecs::codec::registry::{self, CODECS};
use gridz_codecs::codec::{Decision, EncodeParams, Encoded, Job};
use gridz_codecs::format::header::Header;
use proptest::test_runner::{Config as ProptestConfig, FileFailurePersistence};
use sha2::{Digest, Sha256};

/// Asserts that a request refuses such arrays, with `says` in the error.
pub fn assert_refused(array: &Array, text: &str, says: &str) {
    let error = gridz::compress_bound(array, &text.parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains(says), "{text}: {error}");
    assert_eq!(error.kind(), ErrorKind::UnsupportedJob);
}

/// Asserts that a text is not a valid request, with `says` in the error.
pub fn assert_no_request(text: &str, says: &str) {
    let error = text.parse::<Request>().unwrap_err();
    assert!(error.to_string().contains(says), "{text}: {error}");
}

/// Every lossless codec at every distinct level.
pub fn specs() -> impl Iterator<Item = Request> {
    CODECS.iter().filter(|entry| entry.modes.contains(&Mode::Lossless)).flat_map(|entry| {
        entry.level_numbers().map(|level| Request::new(u32::from(entry.id), u32::from(level)).unwrap())
    })
}

/// Requests of every lossy codec, suitable for the generators' numbers.
pub fn lossy_specs() -> impl Iterator<Item = Request> {
    let of_quant = [
        "quant,abs=1e-3",
        "quant,abs=40",
        "quant,pwrel=1e-3",
        "quant,rel=1e-4",
        "quant,abs=1e-3,level=2",
        "quant,pwrel=1e-3,level=2",
    ];
    let of_zfp =
        ["zfp,abs=1e-2", "zfp,rel=1e-4", "zfp,rate=9.5", "zfp,precision=14", "zfp,expert,minbits=20,maxbits=300"];
    let of_multigrid = [
        "multigrid,abs=1e-3",
        "multigrid,rel=1e-4",
        "multigrid,rms=1e-2",
        "multigrid,abs=1e-3,layers=3",
        "multigrid,rms=1e-2,layers=2",
        "multigrid,rms=1e-2,s=-0.25",
    ];
    of_quant.into_iter().chain(of_zfp).chain(of_multigrid).map(|text| text.parse().unwrap())
}

/// True if a request supports arrays of this type.
pub fn takes(spec: &Request, dtype: DType) -> bool {
    let is_integer = dtype.name().contains("int");
    match spec.mode() {
        Mode::Lossless => true,
        Mode::Pwrel => registry::find(spec.codec()).unwrap().dtypes.contains(&dtype) && !is_integer,
        // zfp has no error bounds for integers.
        Mode::Abs | Mode::Rel if spec.name() == "zfp" && is_integer => false,
        _ => registry::find(spec.codec()).unwrap().dtypes.contains(&dtype),
    }
}

/// Requests of the codecs that have kernels, lossless ones and those with an error bound.
pub fn specs_of_gpus() -> impl Iterator<Item = Request> {
    // For lossless codecs, level max exists only on CPUs.
    let is_of_gpus = |spec: &Request| registry::find(spec.codec()).unwrap().gpu.is_some() && spec.level() < 3;
    let of_multigrid =
        [multigrid(Mode::Abs, 1e-3), multigrid(Mode::Rms, 1e-2), "multigrid,abs=1e-3,layers=3".parse().unwrap()];
    specs().filter(is_of_gpus).chain([1, 2, 3].map(|level| quant(Mode::Abs, 1e-3, level))).chain(of_multigrid)
}

/// A request for quant, with a bound and a level.
pub fn quant(mode: Mode, value: f64, level: u32) -> Request {
    Request::with_mode(3, mode.id().into(), value, level).unwrap()
}

/// A request for multigrid, with a bound.
pub fn multigrid(mode: Mode, value: f64) -> Request {
    Request::with_mode(5, mode.id().into(), value, 0).unwrap()
}

/// A request's parameters for its codec.
pub fn encode_params(spec: &Request) -> EncodeParams {
    let (mode, value, missing) = (spec.mode(), spec.value(), *spec.missing());
    EncodeParams { mode, value, missing, codec_params: spec.codec_params(), ..EncodeParams::lossless(spec.level()) }
}

/// True if kernels compress such arrays; some codecs have only kernels that decompress.
pub fn compresses_on_gpu(array: &Array, spec: &Request) -> bool {
    let entry = registry::find(spec.codec()).unwrap();
    let Decision::Take(plan) = entry.codec.plan(array, &encode_params(spec)) else { return true };
    let shape = plan.fold.apply(array.shape(), entry.codec.max_rank());
    let chunks = Chunks { array, shape: &shape, layout: &plan.layout };
    let answer = entry.gpu.map(|gpu| gpu.passes(Direction::Compress, &chunks));
    matches!(answer, Some(Answer::Run(_) | Answer::Incompressible))
}

/// The request that tests of ndzip use.
pub fn ndzip() -> Request {
    Request::new(1, 0).unwrap()
}

/// The root of the repository. Test programs belong to the crate there or to the one in `tests`.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    if own.ends_with("tests") { own.parent().unwrap() } else { own }
}

/// The folder with reference vectors and real data, which is not part of the project:
/// `GRIDZ_SHARED`, or `../shared` next to the project.
///
/// Without it, the calling test is skipped: that is printed, and logged in `target/skips.log`,
/// which `make test` counts. `GRIDZ_REQUIRE_SHARED=1` makes it a failure.
pub fn shared(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("GRIDZ_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    if folder.join("vectors/ndzip/manifest.json").exists() {
        return Some(folder);
    }
    let reason = format!("no reference data at {}", folder.display());
    assert!(std::env::var_os("GRIDZ_REQUIRE_SHARED").is_none(), "{test}: {reason}");
    skip(test, &reason);
    None
}

/// Logs that `test` did not run.
pub fn skip(test: &str, reason: &str) {
    let line = format!("{test}: SKIPPED, {reason}");
    eprintln!("{line}");
    let target = root().join("target");
    std::fs::create_dir_all(&target).unwrap();
    let mut log = OpenOptions::new().create(true).append(true).open(target.join("skips.log")).unwrap();
    writeln!(log, "{line}").unwrap();
}

/// Tests with very many cases run one in this number of them; all with `GRIDZ_ALL_CASES=1`, as for
/// releases.
pub fn one_in() -> usize {
    if std::env::var_os("GRIDZ_ALL_CASES").is_some() { 1 } else { 4 }
}

/// Runs `all` random cases, divided by [`one_in`]. Failures are saved next to the test's source and
/// tried first from then on.
pub fn cases(all: u32) -> ProptestConfig {
    let cases = all.div_ceil(one_in() as u32);
    let failure_persistence = Some(Box::new(FileFailurePersistence::WithSource("regressions")) as Box<_>);
    ProptestConfig { cases, failure_persistence, ..ProptestConfig::default() }
}

/// Counts a test's cases by what they reached, so that a generator that misses its target fails the
/// test.
#[derive(Debug, Default)]
pub struct Tally(RefCell<BTreeMap<&'static str, u64>>);

impl Tally {
    /// Counts one case of `what`. Every case of a test also counts as `cases`.
    pub fn add(&self, what: &'static str) {
        *self.0.borrow_mut().entry(what).or_default() += 1;
    }

    /// [`Tally::add`] if `is_so`.
    pub fn add_if(&self, what: &'static str, is_so: bool) {
        if is_so {
            self.add(what);
        }
    }

    /// Prints the counts and asserts that at least `percent` % of the cases are counted as `what`.
    #[track_caller]
    pub fn assert(&self, what: &'static str, percent: u64) {
        let counts = self.0.borrow();
        println!("{what}: {counts:?}");
        let of = |what| counts.get(what).copied().unwrap_or(0);
        assert!(
            of("cases") > 0 && 100 * of(what) >= percent * of("cases"),
            "less than {percent} % {what}: {counts:?}"
        );
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compresses with a destination of exactly the bound.
pub fn compress(array: &Array, spec: &Request, src: &[u8], context: &Context) -> Vec<u8> {
    let mut frame = vec![0xa5; gridz::compress_bound(array, spec).unwrap() as usize];
    let n = gridz::compress(array, spec, src, &mut frame, context).unwrap();
    frame.truncate(n);
    frame
}

/// Compresses at the request's own level, even if the frame of a lower one is shorter.
pub fn compress_at_level(array: &Array, spec: &Request, src: &[u8], context: &Context) -> Vec<u8> {
    let frame = compress(array, spec, src, context);
    let codec = registry::find(spec.codec()).unwrap().codec;
    let Decision::Take(plan) = codec.plan(array, &encode_params(spec)) else { return frame };
    let header = Header::parse(&frame).unwrap();
    if header.codec != spec.codec() || header.params == &plan.params[..] {
        return frame;
    }
    let mut little = src.to_vec();
    if array.order() == ByteOrder::Big {
        little.chunks_exact_mut(array.dtype().number_size().unwrap() as usize).for_each(<[u8]>::reverse);
    }
    let job = Job {
        dtype: array.dtype(),
        shape: plan.fold.apply(array.shape(), codec.max_rank()),
        layout: &plan.layout,
        pool: context.pool(),
        level: context.level().unwrap(),
        verify: true,
    };
    let mut payload = vec![0xa5; plan.bound as usize];
    let Encoded { n_bytes, sums } = codec.encode(&job, &little, &mut payload).unwrap();
    let header = Header {
        codec_version: codec.version(&plan.params),
        fold: plan.fold,
        params: &plan.params,
        payload_bytes: n_bytes as u64,
        payload_checksum: sums.finish(n_bytes as u64),
        ..header
    };
    let mut frame = vec![0; header.n_bytes()];
    header.emit(&mut frame);
    frame.extend(&payload[..n_bytes]);
    frame
}

pub fn decompress(frame: &[u8], context: &Context) -> gridz::Result<Vec<u8>> {
    let mut dst = vec![0x5a; gridz::inspect(frame)?.array.n_bytes() as usize];
    let n = gridz::decompress(frame, gridz::Part::All, &mut dst, Verify::Checksum, context)?;
    assert_eq!(n, dst.len());
    Ok(dst)
}

/// Panics with the first difference, instead of printing both arrays.
#[track_caller]
pub fn assert_same_bytes(got: &[u8], want: &[u8], what: &str) {
    if got != want {
        let first = got.iter().zip(want).position(|(a, b)| a != b);
        panic!("{what}: {} bytes instead of {}, first difference at {first:?}", got.len(), want.len());
    }
}
