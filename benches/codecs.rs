//! Compression and decompression of one 4 MiB chunk per codec, CPU level and element type, with one
//! thread, compared with memcpy.
//!
//! The field is a smooth 3-D wave with noise in its lower mantissa bits: about as compressible as
//! simulation output. For files of your own use the example `throughput`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gridz::{Array, ByteOrder, Context, DType, Request, Shape, Verify};
use gridz_codecs::codec::registry::CODECS;
use gridz_codecs::cpu::isa::Isa;

const EXTENTS: [u64; 3] = [64, 128, 128];

fn wave(dtype: DType) -> (Array, Vec<u8>) {
    let extents = if dtype == DType::F64 { [EXTENTS[0] / 2, EXTENTS[1], EXTENTS[2]] } else { EXTENTS };
    let array = Array::new(dtype, ByteOrder::Little, Shape::new(&extents).unwrap()).unwrap();
    let mut noise = 1u32;
    let mut bytes = Vec::with_capacity(array.n_bytes() as usize);
    for i in 0..array.shape().n_elements() {
        let [z, y, x] = [i / (extents[1] * extents[2]), i / extents[2] % extents[1], i % extents[2]];
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let value = 300.0 + 10.0 * (z as f64 / 9.0).sin() * (y as f64 / 17.0).cos() + (x as f64 / 31.0).sin();
        let value = value * (1.0 + f64::from(noise >> 8) * 1e-12);
        match dtype {
            DType::F64 => bytes.extend(value.to_le_bytes()),
            _ => bytes.extend((value as f32).to_le_bytes()),
        }
    }
    (array, bytes)
}

/// Every codec at each of its distinct levels.
fn specs() -> impl Iterator<Item = Request> {
    CODECS.iter().flat_map(|entry| {
        entry.level_numbers().map(|level| Request::new(u32::from(entry.id), u32::from(level)).unwrap())
    })
}

fn codecs(criterion: &mut Criterion) {
    for dtype in [DType::F32, DType::F64] {
        let (array, raw) = wave(dtype);
        let mut group = criterion.benchmark_group(dtype.name());
        group.throughput(Throughput::BytesDecimal(raw.len() as u64));
        let mut copy = vec![0; raw.len()];
        group.bench_function("memcpy", |bench| bench.iter(|| copy.copy_from_slice(std::hint::black_box(&raw))));
        for (spec, level) in specs().flat_map(|spec| Isa::all().map(move |level| (spec, level))) {
            if spec.name() == "stored" && level != Isa::best() {
                continue; // a copy has no levels
            }
            let context = Context::new(Some(1), None).unwrap().with_level(level.kind()).unwrap();
            let name = format!("{} {} {}", spec.name(), spec.level(), level.kind().name());
            let mut frame = vec![0; gridz::compress_bound(&array, &spec).unwrap() as usize];
            let n = gridz::compress(&array, &spec, &raw, &mut frame, &context).unwrap();
            group.bench_function(BenchmarkId::new("compress", &name), |bench| {
                let mut frame = frame.clone();
                bench.iter(|| gridz::compress(&array, &spec, &raw, &mut frame, &context).unwrap());
            });
            let mut back = vec![0; raw.len()];
            gridz::decompress(&frame[..n], gridz::Part::All, &mut back, Verify::Checksum, &context).unwrap();
            assert_eq!(back, raw);
            group.bench_function(BenchmarkId::new("decompress", &name), |bench| {
                bench.iter(|| {
                    gridz::decompress(&frame[..n], gridz::Part::All, &mut back, Verify::Checksum, &context).unwrap()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, codecs);
criterion_main!(benches);
