//! cci: repeated rows, runs, rows that restart and numbers of any width, for all lengths of blocks.

use gridz::{ByteOrder, DType, Request};

use crate::arrays::{Random, array};
use crate::batch::{Batch, Layout};
use crate::common::generate::Input;
use crate::driver::Stream;
use crate::{has_gpu, n_cases};

const TYPES: [DType; 4] = [DType::U32, DType::U64, DType::I32, DType::I64];
const GENERATORS: [&str; 9] =
    ["stencil", "mesh", "columns", "pointers", "stencil", "mesh", "jumps", "patches", "ramp"];

#[test]
fn indices_of_all_kinds() {
    if !has_gpu("indices_of_all_kinds") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(83);
    let specs: [Request; 2] = ["cci", "cci,level=fast"].map(|text| text.parse().unwrap());
    let n_cases = n_cases(300);
    for case in 0..n_cases as usize {
        let dtype = TYPES[case % TYPES.len()];
        let order = if random.once_in(4) { ByteOrder::Big } else { ByteOrder::Little };
        // Lengths near multiples of rows and of blocks.
        let around =
            random.pick(&[1, 32, 1024, 4096, 1 << 15, 1 << 16, if n_cases < 20 { 70_000 } else { 200_000 }]);
        let n = (around + random.below(40)).saturating_sub(random.below(40)).max(1);
        let array = array(dtype, order, &[n as u64]);
        let n_chunks = random.pick(&[1, 1, 2, 5]);
        let layout = Layout { shift: if random.once_in(3) { random.below(4) } else { 0 }, ..Layout::of(n_chunks) };
        let chunks: Vec<Vec<u8>> = (0..n_chunks)
            .map(|_| {
                let generator = random.pick(&GENERATORS);
                let big_endian = order == ByteOrder::Big;
                let seed = random.below(1000) as u64;
                Input { seed, big_endian, ..Input::new(generator, dtype, &[n as u64]) }.bytes()
            })
            .collect();
        let spec = random.pick(&specs);
        let what = format!("case {case}: {dtype:?} {order:?} {n} {spec} {layout:?}");
        Batch::new(&stream, array, &spec, layout).check(&chunks, &what);
    }
}
