//! Programs may set other rounding modes or flush small numbers to zero; compression and
//! decompression must give the same results.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code)] // the MXCSR register

use std::arch::asm;

use gridz::{Array, ByteOrder, Context, CpuLevel, DType, Request, Shape, Verify};

/// Runs `work` with the MXCSR register set to `state`.
fn in_state<T>(state: u32, work: impl FnOnce() -> T) -> T {
    let mut before = 0u32;
    // SAFETY: the register is saved to a word, and set to a value that C programs may set; `work`
    // must support that state.
    unsafe { asm!("stmxcsr [{}]", "ldmxcsr [{}]", in(reg) &raw mut before, in(reg) &raw const state) };
    let result = work();
    // SAFETY: as above; restores the previous value.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const before) };
    result
}

/// Rounding up with results and operands flushed to zero; rounding down, up, towards zero; flushing
/// only.
const HOSTILE: [u32; 5] = [0xdfc0, 0x3f80, 0x5f80, 0x7f80, 0x9fc0];

#[test]
fn arrays_are_coded_alike_however_the_program_rounds() {
    // Fractions that are not multiples of a power of two; a chunk for one thread, and one for
    // several.
    for n in [5000u64, 300_000] {
        let f64s: Vec<u8> = (0..n).flat_map(|i| ((i * i % 9973) as f64 / 100.0).to_le_bytes()).collect();
        let f32s: Vec<u8> = (0..n).flat_map(|i| ((i * i % 9973) as f32 / 100.0).to_le_bytes()).collect();
        for (dtype, values) in [(DType::F64, f64s), (DType::F32, f32s)] {
            let array = Array::new(dtype, ByteOrder::Little, Shape::new(&[n]).unwrap()).unwrap();
            let lossless = ["lorenzo", "lorenzo,level=dense", "lorenzo,level=max"];
            let quant = ["quant,abs=1e-3", "quant,rel=1e-5", "quant,pwrel=1e-4"];
            let zfp = ["zfp,abs=1e-3", "zfp,rel=1e-5", "zfp,rate=9"];
            let multigrid = [
                "multigrid,abs=1e-3",
                "multigrid,rel=1e-5",
                "multigrid,rms=1e-2",
                "multigrid,rel=1e-5,layers=3",
                "multigrid,rms=1e-2,s=-0.25",
            ];
            for text in lossless.into_iter().chain(quant).chain(zfp).chain(multigrid) {
                let request: Request = text.parse().unwrap();
                let compress = |context: &Context| {
                    let mut frame = vec![0; gridz::compress_bound(&array, &request).unwrap() as usize];
                    let n = gridz::compress(&array, &request, &values, &mut frame, context).unwrap();
                    frame.truncate(n);
                    frame
                };
                let frame = compress(&Context::default());
                let is_lossless = text.starts_with("lorenzo");
                let counts = gridz::count_blocks(&frame, &Context::default()).unwrap();
                // Level max computes in floats, whatever map it chooses.
                assert!(!is_lossless || counts.decimal > 0 || text.ends_with("max"), "{text}");
                let mut expected = vec![0; values.len()];
                gridz::decompress(&frame, gridz::Part::All, &mut expected, Verify::Checksum, &Context::default())
                    .unwrap();
                assert!(!is_lossless || expected == values, "{text}");
                for level in [CpuLevel::Scalar, CpuLevel::Avx2, CpuLevel::Avx512] {
                    let Ok(context) = Context::default().with_level(level) else { continue };
                    for state in HOSTILE {
                        let mut back = vec![0; values.len()];
                        let same = in_state(state, || {
                            let same = compress(&context);
                            gridz::decompress(&frame, gridz::Part::All, &mut back, Verify::Checksum, &context)
                                .unwrap();
                            same
                        });
                        assert!(same == frame && back == expected, "{text} {dtype:?} {n} {level:?} {state:x}");
                    }
                }
            }
        }
    }
}

/// In a state that flushes subnormal numbers to zero, they must neither become zero nor compare
/// equal to it.
#[test]
fn subnormal_numbers_keep_their_bound() {
    let values: Vec<f32> = (0..5000).map(|i| i as f32 * 3.7e-42).collect();
    let raw: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[5000]).unwrap()).unwrap();
    let request: Request = "quant,abs=3e-39".parse().unwrap();
    for state in HOSTILE {
        let mut back = vec![0; raw.len()];
        in_state(state, || {
            let mut frame = vec![0; gridz::compress_bound(&array, &request).unwrap() as usize];
            let n = gridz::compress(&array, &request, &raw, &mut frame, &Context::default()).unwrap();
            gridz::decompress(&frame[..n], gridz::Part::All, &mut back, Verify::Checksum, &Context::default())
                .unwrap();
        });
        for (x, bytes) in values.iter().zip(back.as_chunks().0) {
            let error = f64::from(*x) - f64::from(f32::from_le_bytes(*bytes));
            assert!(error.abs() <= 3e-39, "{state:x}: {x:e} is {error:e} off");
        }
    }
}
