//! Speed of compress and decompress on raw files, next to memcpy in the same run.
//!
//! `throughput [--threads N] [--backend cpu|cuda] [--codec REQUEST] [--level scalar|avx2|avx512|all]
//! FILE.f32:256x256x256 …`, where REQUEST is a codec's name or text such as `lorenzo,level=dense` or
//! `quant,rel=1e-3`; the file name gives the element type (`.f32`, `.f64`). With `cuda`, the copies to
//! and from the GPU are included. Options apply to the files after them. Prints medians of 9 rounds,
//! or of 99 for files of up to 16 MiB, in GB/s (1e9 raw bytes a second) and ratios to memcpy.

#[path = "shared/bounds.rs"]
mod bounds;

use std::time::Instant;

use gridz::{Array, ByteOrder, Context, DType, Request, Shape, Verify};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::settings::{Backend, CpuLevel};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (mut threads, mut backend, mut levels) = (1, Backend::Cpu, vec![Isa::best().kind()]);
    let mut spec = Request::default();
    println!(
        "{:<44} {:>7} {:>8} {:>10} {:>8} {:>9} {:>9}",
        "field", "ratio", "compress", "decompress", "memcpy", "c/memcpy", "d/memcpy"
    );
    while let Some(argument) = arguments.next() {
        if argument == "--threads" {
            threads = arguments.next().ok_or("--threads needs a number")?.parse()?;
        } else if argument == "--backend" {
            backend = match arguments.next().as_deref() {
                Some("cpu") => Backend::Cpu,
                Some("cuda") => Backend::Cuda,
                _ => return Err("--backend must be cpu or cuda".into()),
            };
        } else if argument == "--codec" {
            spec = arguments.next().ok_or("--codec needs a codec")?.parse()?;
        } else if argument == "--level" {
            let name = arguments.next().ok_or("--level needs a name")?;
            levels = match name.as_str() {
                "all" => Isa::all().map(Isa::kind).collect(),
                name => vec![CpuLevel::from_name(name).ok_or("--level must be scalar, avx2, avx512 or all")?],
            };
        } else {
            for &level in &levels {
                measure(&argument, spec, threads, backend, level)?;
            }
        }
    }
    Ok(())
}

fn measure(
    argument: &str,
    spec: Request,
    threads: usize,
    backend: Backend,
    level: CpuLevel,
) -> Result<(), Failure> {
    let (file, extents) = argument.rsplit_once(':').ok_or("usage: throughput FILE.f32:256x256x256")?;
    let extents = extents.split('x').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    let dtype = if file.ends_with(".f64") { DType::F64 } else { DType::F32 };
    let raw = std::fs::read(file)?;
    let array = Array::new(dtype, ByteOrder::Little, Shape::new(&extents)?)?;
    let context = Context::new(Some(threads), None)?.on(backend, None)?.with_level(level)?;
    let rounds = if raw.len() <= 16 << 20 { 99 } else { 9 };
    let mut frame = vec![1; gridz::compress_bound(&array, &spec)? as usize];
    let mut back = vec![1; raw.len()];
    let (mut compress, mut decompress, mut memcpy) = (Vec::new(), Vec::new(), Vec::new());
    let mut n_bytes = 0;
    for _ in 0..rounds {
        let begin = Instant::now();
        n_bytes = gridz::compress(&array, &spec, &raw, &mut frame, &context)?;
        compress.push(begin.elapsed().as_secs_f64());
        back.fill(0);
        let begin = Instant::now();
        gridz::decompress(&frame[..n_bytes], gridz::Part::All, &mut back, Verify::Checksum, &context)?;
        decompress.push(begin.elapsed().as_secs_f64());
        bounds::check(&array, &raw, &back, &spec).map_err(|error| format!("{file}: {error}"))?;
        let begin = Instant::now();
        back.copy_from_slice(std::hint::black_box(&raw));
        std::hint::black_box(&mut back);
        memcpy.push(begin.elapsed().as_secs_f64());
    }
    let [c, d, m] = [compress, decompress, memcpy].map(|times| raw.len() as f64 / 1e9 / median(times));
    let name = std::path::Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    println!(
        "{:<44} {:>7.4} {c:>8.2} {d:>10.2} {m:>8.2} {:>9.3} {:>9.3}",
        match backend {
            Backend::Cuda => format!("{name} {spec:?} cuda"),
            _ => format!("{name} {spec:?} x{threads} {}", level.name()),
        },
        n_bytes as f64 / raw.len() as f64,
        c / m,
        d / m
    );
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
