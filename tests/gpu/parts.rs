//! Parts of frames: the results are the same for host and GPU memory, as source and as destination.

use gridz::{ByteOrder, Context, DType, Detail, ErrorKind, Part, Request, Verify};
use gridz::{Destination, Source};
use gridz_cuda::DeviceSlice;

use crate::arrays::{self, Kind, Random, array};
use crate::common::{assert_same_bytes, compress};
use crate::driver::{Memory, Stream};
use crate::{cpu, has_gpu, n_cases};

fn slice<'a>(memory: &'a Memory) -> DeviceSlice<'a> {
    // SAFETY: the memory has that many bytes, and outlives the slice.
    unsafe { DeviceSlice::from_raw(memory.ptr(), memory.n_bytes() as u64) }
}

fn on_gpu<'s>(stream: &'s Stream, bytes: &[u8]) -> Memory<'s> {
    let memory = Memory::new(stream, bytes.len(), 0);
    memory.write(0, bytes);
    stream.synchronize();
    memory
}

#[test]
fn parts_of_frames() {
    if !has_gpu("parts_of_frames") {
        return;
    }
    let (stream, context, mut random) = (Stream::new(), Context::default(), Random::new(31));
    for case in 0..n_cases(24) {
        let rank = 1 + random.below(4);
        let dtype = random.pick(&[DType::F32, DType::F64]);
        let order = random.pick(&[ByteOrder::Little, ByteOrder::Big]);
        let array = array(dtype, order, &arrays::extents(&mut random, rank, 300_000));
        let kind = random.pick(&[Kind::Walk, Kind::Mixed, Kind::Zero]);
        let raw = arrays::bytes(&array, kind, &mut random);
        let text = format!("multigrid,abs=1e-3,layers={}", 1 + random.below(4));
        let request: Request = text.parse().unwrap();
        let frame = compress(&array, &request, &raw, &cpu());
        let there = on_gpu(&stream, &frame);
        let what = format!("case {case}, {text}, {dtype:?} {order:?} {:?}", array.shape().extents());
        for detail in [
            Detail::Layers(1),
            Detail::Layers(2),
            Detail::Error(2e-3),
            Detail::Error(0.0),
            Detail::Level(1),
            Detail::Level(40),
        ] {
            let wanted = gridz::inspect_part(&frame, detail);
            let found = gridz::inspect_part(Source::Device(slice(&there)), detail);
            let (Ok(info), Ok(found)) = (&wanted, &found) else {
                let kinds = [wanted, found].map(|info| info.map_err(|error| error.kind()).unwrap_err());
                assert_eq!(kinds[0], kinds[1], "{what}, {detail:?}");
                continue;
            };
            assert_eq!(info, found, "{what}, {detail:?}");
            let n_bytes = info.n_bytes as usize;
            let mut part = vec![0; n_bytes];
            gridz::decompress(&frame, gridz::Part::Detail(detail), &mut part, Verify::Checksum, &context).unwrap();
            for (from_gpu, to_gpu) in [(true, true), (true, false), (false, true)] {
                let src = if from_gpu { Source::Device(slice(&there)) } else { Source::Host(&frame) };
                let (mut back, memory) = (vec![0; n_bytes], Memory::new(&stream, n_bytes, 0));
                let dst = if to_gpu { Destination::Device(slice(&memory)) } else { Destination::Host(&mut back) };
                let n = gridz::decompress(src, Part::Detail(detail), dst, Verify::Checksum, &context).unwrap();
                assert_eq!(n, n_bytes);
                let back = if to_gpu { memory.read_all() } else { back };
                assert_same_bytes(&back, &part, &format!("{what}, {detail:?} {from_gpu} {to_gpu}"));
            }
            let cut = on_gpu(&stream, &frame[..info.frame_bytes as usize - 1]);
            let dst = Destination::Host(&mut part);
            let error = gridz::decompress(slice(&cut), Part::Detail(detail), dst, Verify::Checksum, &context);
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Truncated, "{what}, {detail:?}");
        }
        let counts = gridz::count_blocks(&frame, &context).map_err(|error| error.kind());
        let there = gridz::count_blocks(Source::Device(slice(&there)), &context).map_err(|error| error.kind());
        assert_eq!(there, counts, "{what}");
    }
}
