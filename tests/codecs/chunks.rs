//! Many chunks at once on the CPU: the packed frames equal those of single calls, for any number of
//! threads, any gaps between arrays and any destination size.

use crate::common::generate::{GENERATORS, Input};
use crate::common::{Tally, assert_same_bytes, cases, compress, lossy_specs, specs, takes};
use gridz::device::{ChunkArray, compress_chunks, decompress_chunks, packed_bound};
use gridz::{Array, ByteOrder, Context, DType, ErrorKind, Request, Result, Shape, Verify};
use gridz::{Destination, Source};
use proptest::prelude::*;

/// Arrays with gaps, and their chunk description and request.
struct Case {
    chunks: ChunkArray,
    request: Request,
    raw: Vec<u8>,
}

impl Case {
    fn new(request: Request, dtype: DType, extents: &[u64], n_chunks: usize, gap: u64) -> Self {
        let input = |i: usize| Input::new(GENERATORS[i % GENERATORS.len()], dtype, extents);
        let array = input(0).array();
        let chunks = ChunkArray { array, n_chunks, stride: array.n_bytes() + gap };
        let mut raw = vec![0xa5; chunks.span("stride").unwrap() as usize];
        for i in 0..n_chunks {
            let at = i * chunks.stride as usize;
            raw[at..at + array.n_bytes() as usize].copy_from_slice(&input(i).bytes());
        }
        Self { chunks, request, raw }
    }

    fn array(&self, i: usize) -> &[u8] {
        &self.raw[i * self.chunks.stride as usize..][..self.chunks.array.n_bytes() as usize]
    }

    /// The expected packed frames, and their lengths.
    fn wanted(&self) -> (Vec<u8>, Vec<u64>) {
        let (mut packed, mut lengths) = (Vec::new(), Vec::new());
        for i in 0..self.chunks.n_chunks {
            let frame = compress(&self.chunks.array, &self.request, self.array(i), &context(1));
            lengths.push(frame.len() as u64);
            packed.extend(frame);
            packed.resize(packed.len().next_multiple_of(16), 0);
        }
        (packed, lengths)
    }

    fn compress(&self, capacity: usize, context: &Context) -> Result<(Vec<u8>, Vec<u64>)> {
        let (mut packed, mut lengths) = (vec![0x5a; capacity], vec![0; self.chunks.n_chunks]);
        let dst = Destination::Host(&mut packed);
        let end =
            compress_chunks(&self.chunks, &self.request, Source::Host(&self.raw), dst, &mut lengths, context)?;
        packed.truncate(end as usize);
        Ok((packed, lengths))
    }

    fn decompress(&self, packed: &[u8], lengths: &[u64], context: &Context) -> Result<Vec<u8>> {
        let mut back = vec![0xa5; self.raw.len()];
        let dst = Destination::Host(&mut back);
        decompress_chunks(&self.chunks, Source::Host(packed), lengths, dst, Verify::Checksum, context)?;
        Ok(back)
    }

    fn bound(&self) -> usize {
        packed_bound(&self.chunks.array, self.chunks.n_chunks).unwrap() as usize
    }
}

fn context(threads: usize) -> Context {
    Context::new(Some(threads), None).unwrap()
}

fn f32s(extents: &[u64]) -> Array {
    Array::new(DType::F32, ByteOrder::Little, Shape::new(extents).unwrap()).unwrap()
}

#[test]
fn frames_are_packed_one_by_one() {
    let tally = Tally::default();
    proptest!(cases(120), |(
        spec in 0usize..20,
        dtype in 0usize..20,
        extents in prop::collection::vec(1u64..40, 0..4),
        n_chunks in 0usize..40,
        gap in 0u64..30,
        threads in 1usize..6,
    )| {
        tally.add("cases");
        let specs: Vec<Request> = specs().chain(lossy_specs()).collect();
        let request = specs[spec % specs.len()];
        let dtypes: Vec<DType> = DType::ALL.into_iter().filter(|&dtype| takes(&request, dtype)).collect();
        let case = Case::new(request, dtypes[dtype % dtypes.len()], &extents, n_chunks, gap);
        let (packed, lengths) = case.wanted();
        tally.add_if("several frames", n_chunks > 1 && case.chunks.array.n_bytes() > 0);
        tally.add_if("packed", request.codec() != 0 && packed.get(5) == Some(&request.codec()));
        let context = context(threads);
        // Exactly enough room, a little more, and the upper bound.
        for capacity in [packed.len(), packed.len() + 100, case.bound()] {
            let made = case.compress(capacity.min(case.bound()), &context).unwrap();
            prop_assert_eq!(&made.1, &lengths);
            assert_same_bytes(&made.0, &packed, "packed frames");
        }
        if let Some(short) = packed.len().checked_sub(1) {
            let error = case.compress(short, &context).unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::DstTooSmall { need: case.bound() as u64 });
        }
        let back = case.decompress(&packed, &lengths, &context).unwrap();
        if request.mode() == gridz::Mode::Lossless {
            assert_same_bytes(&back, &case.raw, "arrays");
        }
    });
    tally.assert("several frames", 50);
    tally.assert("packed", 20);
}

#[test]
fn damage_is_reported_with_the_number_of_the_frame() {
    let case = Case::new("quant,abs=1e-3".parse().unwrap(), DType::F32, &[20, 30], 9, 0);
    for threads in [1, 4, 16] {
        let context = context(threads);
        let (mut packed, lengths) = case.compress(case.bound(), &context).unwrap();
        let at: u64 = lengths[..7].iter().map(|n_bytes| n_bytes.next_multiple_of(16)).sum();
        packed[at as usize + 90] ^= 1;
        let error = case.decompress(&packed, &lengths, &context).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.context().starts_with("frame 7: "), "{error}");
        // Wrong lengths that do not change the offsets of the frames.
        let i = (0..9).find(|&i| (2..16).contains(&(lengths[i] % 16))).expect("a length that can be changed");
        for (wrong, kind) in [(lengths[i] - 1, ErrorKind::Truncated), (lengths[i] + 1, ErrorKind::Corrupt)] {
            let mut lengths = lengths.clone();
            lengths[i] = wrong;
            let error = case.decompress(&packed, &lengths, &context).unwrap_err();
            assert!(error.kind() == kind && error.context().starts_with(&format!("frame {i}: ")), "{error}");
        }
        for wrong in [u64::MAX, u64::MAX - 20, packed.len() as u64 + 1] {
            let mut lengths = lengths.clone();
            lengths[4] = wrong;
            assert_eq!(case.decompress(&packed, &lengths, &context).unwrap_err().kind(), ErrorKind::Truncated);
        }
        let other = Case::new(case.request, DType::F32, &[30, 20], 9, 0);
        let error = other.decompress(&packed, &lengths, &context).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidArgument && error.context().starts_with("frame 0: "), "{error}");
    }
}

#[test]
fn strides_that_cannot_be_are_refused() {
    let chunks = |n_chunks, stride| ChunkArray { array: f32s(&[10]), n_chunks, stride };
    assert_eq!(chunks(0, 0).span("s").unwrap(), 0);
    assert_eq!(chunks(1, 0).span("s").unwrap(), 40);
    assert_eq!(chunks(3, 41).span("s").unwrap(), 122);
    for (n_chunks, stride) in [(2, 39), (2, u64::MAX), (usize::MAX, 40)] {
        assert_eq!(chunks(n_chunks, stride).span("s").unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(packed_bound(&f32s(&[10]), usize::MAX).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
