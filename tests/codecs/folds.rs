//! Arrays whose data suits one of two folds.

use std::collections::BTreeMap;

use gridz::{Array, ByteOrder, Context, DType, Part, Request, Shape, Verify};

use crate::common::{compress, decompress};

/// The number of the fold in a frame's header.
const FOLD: usize = 10;

const REQUESTS: [&str; 7] = [
    "lorenzo,level=fast",
    "lorenzo,level=dense",
    "lorenzo,level=max",
    "quant,abs=0.25",
    "quant,rel=1e-3,level=dense",
    "quant,abs=0.25,level=max",
    "quant,pwrel=1e-3",
];

/// A number that depends on the position, and on nothing near it.
fn noise(at: [u64; 3]) -> f32 {
    let mixed = at.iter().fold(1u64, |mixed, &k| (mixed ^ k).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23));
    1.0 + (mixed >> 52) as f32
}

/// An array of float32 with this number at each position.
fn field<const N: usize>(
    extents: [u64; N],
    order: ByteOrder,
    number: impl Fn([u64; N]) -> f32,
) -> (Array, Vec<u8>) {
    let array = Array::new(DType::F32, order, Shape::new(&extents).unwrap()).unwrap();
    let mut bytes = Vec::new();
    for i in 0..array.shape().n_elements() {
        let (mut at, mut rest) = ([0; N], i);
        for axis in (0..N).rev() {
            (at[axis], rest) = (rest % extents[axis], rest / extents[axis]);
        }
        let number = number(at);
        match order {
            ByteOrder::Big => bytes.extend(number.to_be_bytes()),
            _ => bytes.extend(number.to_le_bytes()),
        }
    }
    (array, bytes)
}

/// Arrays, and the folds that suit them.
fn fields(order: ByteOrder) -> [(u8, Array, Vec<u8>); 5] {
    let time = |[t, z, y, x]: [u64; 4]| noise([z, y, x]) + t as f32;
    let height = |[t, z, y, x]: [u64; 4]| noise([t, y, x]) + z as f32;
    let of = |fold, (array, bytes)| (fold, array, bytes);
    [
        of(3, field([9, 6, 10, 13], order, time)),
        of(3, field([5, 1, 4, 3, 20, 9], order, |[t, _, z, k, y, x]| time([t, z * 3 + k, y, x]))),
        of(0, field([9, 6, 10, 13], order, height)),
        of(1, field([3, 5000], order, |[y, x]| noise([y, x / 16, 1]))),
        of(0, field([3, 5000], order, |[y, x]| noise([x, 0, 0]) + y as f32)),
    ]
}

#[test]
fn frames_have_the_fold_that_suits_the_data() {
    let (context, mut n_seen) = (Context::default(), BTreeMap::new());
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for (fold, array, bytes) in fields(order) {
            for text in REQUESTS {
                let request: Request = text.parse().unwrap();
                let frame = compress(&array, &request, &bytes, &context);
                let what = format!("{text} {:?} {order:?}", array.shape());
                assert_eq!(frame[FOLD], fold, "{what}");
                *n_seen.entry((text, fold)).or_insert(0) += 1;
                assert!(frame.len() < bytes.len() * 4 / 5, "{what}: {} of {} bytes", frame.len(), bytes.len());
                let back = decompress(&frame, &context).unwrap();
                if request.codec() == 2 {
                    assert!(back == bytes, "{what}");
                }

                let extents = array.shape().extents();
                let start: Vec<u64> = extents.iter().map(|n| n / 3).collect();
                let count: Vec<u64> =
                    extents.iter().zip(&start).map(|(n, start)| (n - start).div_ceil(2)).collect();
                let mut region = vec![0; 4 * count.iter().product::<u64>() as usize];
                let part = Part::Region { start: &start, count: &count };
                gridz::decompress(&frame[..], part, &mut region[..], Verify::Checksum, &context).unwrap();
                let mut n_compared = 0;
                for (i, element) in back.chunks_exact(4).enumerate() {
                    let (mut rest, mut to, mut stride) = (i as u64, 0, 1);
                    let mut is_inside = true;
                    for axis in (0..extents.len()).rev() {
                        let at = rest % extents[axis];
                        is_inside &= (start[axis]..start[axis] + count[axis]).contains(&at);
                        to += stride * at.wrapping_sub(start[axis]).min(count[axis]) as usize;
                        stride *= count[axis] as usize;
                        rest /= extents[axis];
                    }
                    if is_inside {
                        assert_eq!(&region[4 * to..4 * to + 4], element, "{what}: element {i}");
                        n_compared += 1;
                    }
                }
                assert_eq!(4 * n_compared, region.len());
            }
        }
    }
    assert_eq!(n_seen.len(), 3 * REQUESTS.len());
}

#[test]
fn missing_elements_do_not_decide() {
    // Where there is land, the fill value; the range is that of all other elements.
    let land = |[_, z, y, x]: [u64; 4]| (x + y + z) % 7 < 3;
    let sea = |at: [u64; 4]| if land(at) { 1e30 } else { noise([at[1], at[2], at[3]]) + at[0] as f32 };
    let (array, bytes) = field([9, 6, 10, 13], ByteOrder::Little, sea);
    for text in ["quant,rel=1e-3,fill=1e30", "quant,rel=1e-3,level=max,fill=1e30"] {
        let frame = compress(&array, &text.parse().unwrap(), &bytes, &Context::default());
        assert_eq!(frame[FOLD], 3, "{text}");
    }
}
