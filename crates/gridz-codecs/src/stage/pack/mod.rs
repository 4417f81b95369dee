//! Packing: numbers of a fixed width per group, with two levels of patches.
//!
//! Most numbers of a group are short and a few are long. So all are packed with as many bits as
//! most of them need. A bitmap marks the numbers that need more, which get some more bits. Of
//! these, a second bitmap marks the few that need still more. A group's 1024 numbers are 32 rows of
//! 32 lanes. Each lane is packed separately, and the words of the lanes are interleaved, so that
//! packing is the same few shifts for a whole row. No number ever moves to another lane of a
//! register, or to another thread of a GPU. (The same idea: Afroozeh, Boncz: "The FastLanes
//! Compression Layout", VLDB 2023.)

mod patches;
mod read;
mod write;

use crate::error::{Error, Result};
use crate::stage::bits::string_bytes;
use crate::stage::rows::{LANES, LENGTHS};
use crate::stage::word::Word;
use patches::Patches;
pub use read::{read, read_rows};
pub use write::{Coding, choose, write};

/// Numbers of a group.
pub const GROUP: usize = 1024;
/// Maximum number of groups of a block.
const MAX_GROUPS: usize = (1 << 14) / GROUP;
/// Bytes of a group's header.
const HEADER: usize = 8;

/// The widths of a group, and how many numbers exceed the first width, and the first two together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Group {
    width: u32,
    patch: u32,
    second_patch: u32,
    n_patched: usize,
    n_patched_twice: usize,
}

impl Group {
    #[inline(always)]
    fn emit(&self, out: &mut [u8; HEADER]) {
        let [n1, n2] = [self.n_patched, self.n_patched_twice].map(|n| (n as u16).to_le_bytes());
        *out = [self.width as u8, self.patch as u8, self.second_patch as u8, 0, n1[0], n1[1], n2[0], n2[1]];
    }

    #[inline(always)]
    fn parse(bytes: &[u8; HEADER], n: usize, word_bits: u32) -> Result<Self> {
        let [width, patch, second_patch, zero, ..] = bytes.map(u32::from);
        let count = |k: usize| usize::from(u16::from_le_bytes([bytes[k], bytes[k + 1]]));
        let group = Self { width, patch, second_patch, n_patched: count(4), n_patched_twice: count(6) };
        let is_sound = zero == 0
            && width + patch + second_patch <= word_bits
            && group.n_patched <= n
            && group.n_patched_twice <= group.n_patched
            && (group.n_patched == 0) == (patch == 0)
            && (group.n_patched_twice == 0) == (second_patch == 0);
        if is_sound { Ok(group) } else { Err(damage("invalid widths")) }
    }

    /// Bytes of its packed bits.
    #[inline(always)]
    fn packed_bytes(&self, n: usize) -> usize {
        packed_bytes(n.div_ceil(LANES), self.width)
    }

    /// Bytes of the bitmap of patched numbers.
    #[inline(always)]
    fn bitmap_bytes(&self, n: usize) -> usize {
        if self.patch > 0 { 4 * n.div_ceil(LANES) } else { 0 }
    }

    /// Whether all patches fit in bytes.
    #[inline(always)]
    fn has_narrow_patches(&self) -> bool {
        self.patch + self.second_patch <= 8
    }

    /// Bytes of its patches: the bits of the first level, the bitmap and the bits of the second
    /// level.
    #[inline(always)]
    fn patch_bytes(&self) -> [usize; 3] {
        let bitmap = if self.second_patch > 0 { string_bytes(self.n_patched, 1) } else { 0 };
        [string_bytes(self.n_patched, self.patch), bitmap, string_bytes(self.n_patched_twice, self.second_patch)]
    }
}

/// Bytes of the packed bits of `rows` rows. With words of 64 bits, the last ones may be half words.
#[inline(always)]
fn packed_bytes(rows: usize, width: u32) -> usize {
    4 * LANES * (rows * width as usize).div_ceil(32)
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a group of packed numbers is damaged: it has {what}"))
}

/// Scratch memory for a group; its contents are arbitrary. It is aligned for the lengths, which are
/// accessed by whole cache lines.
#[repr(align(64))]
pub struct Scratch<W> {
    lengths: [u8; LENGTHS],
    /// Patches and second patches.
    bytes: [Patches<u8>; 2],
    words: [Patches<W>; 2],
    /// A copy of the last packed words, followed by padding.
    last: read::LastWords,
}

impl<W: Word> Scratch<W> {
    pub fn new() -> Self {
        Self {
            lengths: [0; LENGTHS],
            bytes: [[0; GROUP + LANES]; 2],
            words: [[W::default(); GROUP + LANES]; 2],
            last: [0; 3 * LANES * size_of::<u64>()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::stage::pack::patches::Patch;
    use crate::stage::rows::{NoPrefetch, PORTABLE};

    fn round_trip<W: Word + std::fmt::Debug>(numbers: &[W]) -> usize {
        let n = numbers.len();
        let mut padded = numbers.to_vec();
        padded.resize(n.next_multiple_of(LANES), W::default());
        let coding = choose(PORTABLE, &padded, n, &mut Scratch::new());
        let mut out = vec![0xee; coding.n_bytes()];
        write(PORTABLE, &coding, &padded, &mut Scratch::new(), &mut out, &mut NoPrefetch);
        let mut back = vec![W::from_u64(u64::MAX); padded.len()];
        assert_eq!(read(PORTABLE, &out, n, &mut back, &mut Scratch::new()).unwrap(), out.len());
        assert_eq!(back[..n], *numbers);
        // The bytes after the numbers may have any value.
        for more in [1, 15, 127, 128, 255, 256, 600] {
            let longer = [&out[..], &vec![0xff; more]].concat();
            back.fill(W::default());
            assert_eq!(read(PORTABLE, &longer, n, &mut back, &mut Scratch::new()).unwrap(), out.len());
            assert_eq!(back[..n], *numbers, "{more} more bytes");
        }
        for cut in 0..out.len() {
            assert!(
                read(PORTABLE, &out[..cut], n, &mut back, &mut Scratch::new()).is_err(),
                "cut to {cut} of {}",
                out.len()
            );
        }
        out.len()
    }

    fn noise(i: usize) -> u64 {
        let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn numbers_of_all_lengths_come_back() {
        for n in [1, 31, 32, 33, 1024, 1025, 2500] {
            for width in 0..=64 {
                let numbers: Vec<u64> =
                    (0..n).map(|i| if width == 0 { 0 } else { noise(i) >> (64 - width) }).collect();
                round_trip(&numbers);
                if width <= 32 {
                    round_trip(&numbers.iter().map(|&x| x as u32).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn rare_long_numbers_are_patched() {
        for (often, seldom) in [(5, 11), (3, 101), (7, 2000)] {
            let length = |i: usize| {
                if i % seldom == 1 {
                    3
                } else if i.is_multiple_of(often) {
                    44
                } else {
                    58
                }
            };
            let numbers: Vec<u64> = (0..4096).map(|i| noise(i) >> length(i)).collect();
            let n_bytes = round_trip(&numbers);
            assert!(n_bytes < 4096 * 3, "{n_bytes}");
        }
        assert_eq!(round_trip(&vec![0u32; 4096]), 4 * HEADER);
    }

    fn with_a_mark<W: Word>(n: usize, patch: u8, lane: usize) -> Result<usize> {
        let mut bytes = vec![0, patch, 0, 0, 1, 0, 0, 0];
        bytes.extend(vec![0; 4 * n.div_ceil(LANES)]);
        let at = bytes.len() - 4 + lane / 8;
        bytes[at] |= 1 << (lane % 8);
        bytes.extend(vec![0xff; string_bytes(1, patch.into())]);
        let mut numbers = vec![W::default(); n.next_multiple_of(LANES)];
        read(PORTABLE, &bytes, n, &mut numbers, &mut Scratch::new())
    }

    #[test]
    fn no_patch_is_behind_the_last_number() {
        for (n, last) in [(1, 0), (33, 0), (64, 31), (1000, 7)] {
            for patch in [1, 9] {
                assert!(with_a_mark::<u32>(n, patch, last).is_ok() && with_a_mark::<u64>(n, patch, last).is_ok());
                for lane in last + 1..LANES {
                    assert!(with_a_mark::<u32>(n, patch, lane).is_err(), "number {lane} of the last row of {n}");
                    assert!(with_a_mark::<u64>(n, patch, lane).is_err(), "number {lane} of the last row of {n}");
                }
            }
        }
    }

    #[test]
    fn patches_of_all_widths_come_back() {
        let numbers: Vec<u64> = (0..1024).map(noise).collect();
        let mut patches = [0; GROUP + LANES];
        patches[..1024].copy_from_slice(&numbers);
        for (width, shift) in (1..=64).flat_map(|width| [(width, 0), (width, (64 - width) / 2)]) {
            for n in [1, 2, 3, 4, 5, 510, 1024] {
                let mut out = vec![0xee; string_bytes(n, width)];
                u64::write_string(PORTABLE, &mut out, &patches, n, shift, width);
                for more in [0, 20] {
                    let string = [&out[..], &vec![0xff; more]].concat();
                    let mut back = [0; GROUP + LANES];
                    u64::read_string(PORTABLE, &string, &mut back, n, shift, width);
                    let mask = u64::low_mask(width) << shift;
                    assert!(back.iter().zip(&patches).take(n).all(|(&a, &b)| a == b & mask), "{n} of {width} bits");
                }
            }
        }
    }

    /// Few bits have no meaning: the padding of strings. If damage to other bits is not detected,
    /// other numbers are read, but nothing past the end of the bytes.
    #[test]
    fn damaged_numbers_are_errors_or_other_numbers() {
        let numbers: Vec<u32> = (0..1500).map(|i| (noise(i) >> (33 + i % 29)) as u32).collect();
        let mut padded = numbers.clone();
        padded.resize(1504, 0);
        let coding = choose(PORTABLE, &padded, 1500, &mut Scratch::new());
        let mut out = vec![0; coding.n_bytes()];
        write(PORTABLE, &coding, &padded, &mut Scratch::new(), &mut out, &mut NoPrefetch);
        let mut n_unseen = 0;
        for at in 0..out.len() {
            for bit in 0..8 {
                let mut damaged = out.clone();
                damaged[at] ^= 1 << bit;
                match read(PORTABLE, &damaged, 1500, &mut padded, &mut Scratch::new()) {
                    Ok(n_bytes) => {
                        assert!(n_bytes <= out.len(), "byte {at} bit {bit}");
                        n_unseen += usize::from(padded[..1500] == numbers);
                    }
                    Err(error) => assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Truncated)),
                }
            }
        }
        assert!(n_unseen * 50 < out.len() * 8, "{n_unseen} bits of {} bytes", out.len());
    }
}
