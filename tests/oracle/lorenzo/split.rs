//! The coder SPLIT.

use super::bit_length;
use super::bits::string_of;

pub const GROUP: usize = 1024;
const LANES: usize = 32;

/// Encodes the numbers.
pub fn encode(numbers: &[u64], w: u32) -> Vec<u8> {
    let [mut headers, mut packed, mut bitmaps, mut strings] = [const { vec![] }; 4];
    for group in numbers.chunks(GROUP) {
        let [width, e1, e2] = widths(group);
        let longer = |bits: u32| group.iter().copied().filter(move |&r| bit_length(r) > bits);
        let (n1, n2) = (longer(width).count(), longer(width + e1).count());
        headers.extend([width as u8, e1 as u8, e2 as u8, 0]);
        headers.extend([n1 as u16, n2 as u16].iter().flat_map(|n| n.to_le_bytes()));
        packed.extend(pack(group, width, w));
        if e1 > 0 {
            for row in group.chunks(LANES) {
                let mark = |(lane, &r): (usize, &u64)| u32::from(bit_length(r) > width) << lane;
                bitmaps.extend(row.iter().enumerate().map(mark).sum::<u32>().to_le_bytes());
            }
            strings.extend(string_of(longer(width).map(|r| r >> width), e1));
        }
        if e2 > 0 {
            strings.extend(string_of(longer(width).map(|r| u64::from(bit_length(r) > width + e1)), 1));
            strings.extend(string_of(longer(width + e1).map(|r| r >> (width + e1)), e2));
        }
    }
    [headers, packed, bitmaps, strings].concat()
}

/// Packs the bits of a group.
fn pack(group: &[u64], width: u32, w: u32) -> Vec<u8> {
    let lane = |j: usize| {
        let numbers = group.chunks(LANES).map(|row| row.get(j).copied().unwrap_or(0));
        let mut bytes = string_of(numbers, width);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let lanes: Vec<Vec<u8>> = (0..LANES).map(lane).collect();
    let word = w as usize / 8;
    let mut packed = vec![];
    for start in (0..lanes[0].len()).step_by(word) {
        for lane in &lanes {
            packed.extend(&lane[start..lane.len().min(start + word)]);
        }
    }
    packed
}

/// w, e1 and e2 of a group.
fn widths(group: &[u64]) -> [u32; 3] {
    let n = group.len();
    let counts: Vec<usize> = (0..=64).map(|k| group.iter().filter(|&&r| bit_length(r) > k).count()).collect();
    let c = |k: u32| counts[k as usize];
    let max = (0..=64).find(|&k| c(k) == 0).unwrap();
    let q = (0..=max).find(|&k| 16 * c(k) <= 15 * n).unwrap();
    let string = |n: usize, bits: u32| (n * bits as usize).div_ceil(8);
    let rows = n.div_ceil(LANES);
    let size = |w: u32, s: u32| {
        let mut bytes = 128 * (rows * w as usize).div_ceil(32);
        if w < max {
            bytes += 4 * rows + string(c(w), s - w);
        }
        if s < max {
            bytes += string(c(w), 1) + string(c(s), max - s);
        }
        bytes
    };
    let (mut w, mut s) = (max, max);
    for _ in 0..3 {
        for k in (q..s).rev() {
            if size(k, s) < size(w, s) {
                w = k;
            }
        }
        for k in w + 1..=max {
            if size(w, k) < size(w, s) {
                s = k;
            }
        }
    }
    [w, s - w, max - s]
}
