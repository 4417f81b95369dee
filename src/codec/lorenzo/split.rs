//! SPLIT: numbers of a fixed width per group, with two levels of patches.
//!
//! Most numbers of a group are short and a few are long. So all are packed with as many bits as most of
//! them need; a bitmap marks those that need more, which get some, and of these again a bitmap marks the few that need
//! more still. 1024 numbers are 32 rows of 32 lanes. Each lane is packed for itself and
//! the lanes' words lie side by side, so that packing is the same few shifts for a whole row: no number ever moves to
//! another lane of a register, or to another thread of a GPU. (The same idea: Afroozeh, Boncz: "The FastLanes
//! Compression Layout", VLDB 2023.)

mod narrow;
mod wide;

use crate::codec::lorenzo::bits::string_bytes;
use crate::codec::lorenzo::rows::{Ahead, LANES, LENGTHS, Rows};
use crate::codec::lorenzo::word::Word;
use crate::error::{Error, Result};

/// Numbers of a group.
pub const GROUP: usize = 1024;
/// Most groups of a block.
const MAX_GROUPS: usize = (1 << 14) / GROUP;
/// Bytes of a group's header.
const HEADER: usize = 8;
/// Rounds of the search for widths.
const ROUNDS: usize = 3;

/// The widths of a group and how many numbers need more than the first and than the first two of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Group {
    width: u32,
    patch: u32,
    second_patch: u32,
    n_patched: usize,
    n_patched_twice: usize,
}

impl Group {
    /// The best widths for a group of `n` numbers, of which `above[k]` are longer than k bits, for k from `shortest` up
    /// to `longest`, which all are no longer than.
    #[inline(always)]
    fn choose(n: usize, above: &[u32; 65], shortest: u32, longest: u32) -> Self {
        let rows = n.div_ceil(LANES);
        let count = |k: u32| above[k as usize] as usize;
        let mut best = packed_bytes(rows, longest);
        let (mut width, mut second) = (longest, longest);
        for _ in 0..ROUNDS {
            let before = best;
            // What does not depend on the first width.
            let rest = match second < longest {
                true => string_bytes(count(second), longest - second),
                false => 0,
            };
            let has_marks = usize::from(second < longest);
            for k in (shortest..second).rev() {
                let patches = string_bytes(count(k), second - k) + has_marks * string_bytes(count(k), 1);
                let bytes = packed_bytes(rows, k) + 4 * rows + patches + rest;
                (best, width) = if bytes < best { (bytes, k) } else { (best, width) };
            }
            if width == longest {
                break;
            }
            let fixed = packed_bytes(rows, width) + 4 * rows;
            let marks = string_bytes(count(width), 1);
            for k2 in width + 1..=longest {
                let mut bytes = fixed + string_bytes(count(width), k2 - width);
                if k2 < longest {
                    bytes += marks + string_bytes(count(k2), longest - k2);
                }
                (best, second) = if bytes < best { (bytes, k2) } else { (best, second) };
            }
            if best == before {
                break; // and so would be the next round
            }
        }
        let is_patched = width < longest;
        Self {
            width,
            patch: second - width,
            second_patch: if is_patched { longest - second } else { 0 },
            n_patched: if is_patched { count(width) } else { 0 },
            n_patched_twice: if is_patched { count(second) } else { 0 },
        }
    }

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
        if is_sound { Ok(group) } else { Err(damage("impossible widths")) }
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

    /// All patches fit bytes.
    #[inline(always)]
    fn has_narrow_patches(&self) -> bool {
        self.patch + self.second_patch <= 8
    }

    /// Bytes of its patches: the bits of the first level, the bitmap of the second level, the bits of that.
    #[inline(always)]
    fn patch_bytes(&self) -> [usize; 3] {
        let bitmap = if self.second_patch > 0 { string_bytes(self.n_patched, 1) } else { 0 };
        [string_bytes(self.n_patched, self.patch), bitmap, string_bytes(self.n_patched_twice, self.second_patch)]
    }
}

/// Bytes of the packed bits of so many rows. Words of 64 bits may end in half a word.
#[inline(always)]
fn packed_bytes(rows: usize, width: u32) -> usize {
    4 * LANES * (rows * width as usize).div_ceil(32)
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a lorenzo block has {what}"))
}

/// Memory for the work on a group. What is in it does not matter.
pub struct Scratch<W> {
    lengths: [u8; LENGTHS],
    /// Patches and second patches, and room for a row behind them.
    bytes: [[u8; GROUP + LANES]; 2],
    words: [[W; GROUP + LANES]; 2],
}

impl<W: Word> Scratch<W> {
    pub fn new() -> Self {
        Self { lengths: [0; LENGTHS], bytes: [[0; GROUP + LANES]; 2], words: [[W::default(); GROUP + LANES]; 2] }
    }
}

/// How some numbers will be coded.
pub struct Coding {
    groups: [Group; MAX_GROUPS],
    n: usize,
    n_bytes: usize,
}

impl Coding {
    /// Looks at `n` numbers, which the rest of their last row follows, zeros.
    #[inline(always)]
    pub fn choose<W: Word, S: Rows<W>>(s: S, numbers: &[W], n: usize, scratch: &mut Scratch<W>) -> Self {
        let mut coding = Self { groups: [Group::default(); MAX_GROUPS], n, n_bytes: 0 };
        let mut start = 0;
        for group in &mut coding.groups {
            if start >= n {
                break;
            }
            let size = (n - start).min(GROUP);
            *group = widths(s, &numbers[start..start + size.next_multiple_of(LANES)], size, &mut scratch.lengths);
            let [first, marks, second] = group.patch_bytes();
            coding.n_bytes += HEADER + group.packed_bytes(size) + group.bitmap_bytes(size) + first + marks + second;
            start += GROUP;
        }
        coding
    }

    /// Bytes of the numbers.
    #[inline(always)]
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Writes the numbers that were looked at to `out`, which has exactly [`Coding::n_bytes`]. A line of `ahead` is
    /// fetched for each row.
    #[inline(always)]
    pub fn write<W: Word, S: Rows<W>>(
        &self,
        s: S,
        numbers: &[W],
        scratch: &mut Scratch<W>,
        out: &mut [u8],
        ahead: &mut impl Ahead,
    ) {
        let groups = &self.groups[..self.n.div_ceil(GROUP)];
        let size = |g: usize| (self.n - g * GROUP).min(GROUP);
        let (headers, mut packed) = out.split_at_mut(HEADER * groups.len());
        let (mut n_packed, mut n_bitmaps) = (0, 0);
        for (g, group) in groups.iter().enumerate() {
            group.emit(headers[HEADER * g..].first_chunk_mut().expect("a header"));
            n_packed += group.packed_bytes(size(g));
            n_bitmaps += group.bitmap_bytes(size(g));
        }
        let rest;
        (packed, rest) = packed.split_at_mut(n_packed);
        let (mut bitmaps, mut strings) = rest.split_at_mut(n_bitmaps);
        for (g, group) in groups.iter().enumerate() {
            let numbers = &numbers[g * GROUP..][..size(g).next_multiple_of(LANES)];
            let (bits, bitmap, string);
            (bits, packed) = packed.split_at_mut(group.packed_bytes(size(g)));
            (bitmap, bitmaps) = bitmaps.split_at_mut(group.bitmap_bytes(size(g)));
            let [first, marks, second] = group.patch_bytes();
            (string, strings) = strings.split_at_mut(first + marks + second);
            if group.patch == 0 {
                pack(s, numbers, group.width, bits, &mut Unpatched, ahead);
            } else if group.has_narrow_patches() {
                narrow::write(s, group, numbers, &mut scratch.bytes, [bits, bitmap, string], ahead);
            } else {
                wide::write(s, group, numbers, &mut scratch.words, [bits, bitmap, string], ahead);
            }
        }
    }
}

/// The marks of a group's rows, a u32 for each, written or read one by one.
struct Bitmap<B> {
    bytes: B,
    at: usize,
}

impl<B> Bitmap<B> {
    #[inline(always)]
    fn new(bytes: B) -> Self {
        Self { bytes, at: 0 }
    }
}

impl Bitmap<&mut [u8]> {
    #[inline(always)]
    fn push(&mut self, mask: u32) {
        mask.write(&mut self.bytes[self.at..]);
        self.at += 4;
    }
}

impl Bitmap<&[u8]> {
    #[inline(always)]
    fn next(&mut self) -> u32 {
        let mask = u32::read(&self.bytes[self.at..]);
        self.at += 4;
        mask
    }
}

/// What is done with the patches while a group is packed or unpacked.
trait Patching<W: Word, S: Rows<W>> {
    /// The next row of a group: the whole numbers when it is packed, and their low bits when it is unpacked, which
    /// are returned with the patches.
    fn row(&mut self, s: S, row: S::Row) -> S::Row;
}

/// No patches.
struct Unpatched;

impl<W: Word, S: Rows<W>> Patching<W, S> for Unpatched {
    #[inline(always)]
    fn row(&mut self, _: S, row: S::Row) -> S::Row {
        row
    }
}

/// The widths of a group of `n` numbers, which zeros follow up to whole rows.
#[inline(always)]
fn widths<W: Word, S: Rows<W>>(s: S, numbers: &[W], n: usize, lengths: &mut [u8; LENGTHS]) -> Group {
    if n < GROUP {
        lengths.fill(0);
    }
    let longest = s.lengths(numbers, lengths);
    let mut above = [0; 65];
    // With fewer bits than that nearly all would be patched.
    let mut shortest = longest;
    while shortest > 0 {
        let start = shortest.saturating_sub(8);
        let counts = s.counts_larger(lengths, start as u8);
        let mut i = shortest - start;
        while i > 0 && 16 * counts[i as usize - 1] as usize <= 15 * n {
            i -= 1;
            above[(start + i) as usize] = counts[i as usize] as u32;
        }
        shortest = start + i;
        if i > 0 {
            break;
        }
    }
    Group::choose(n, &above, shortest, longest)
}

/// Packs the low bits of whole rows.
#[inline(always)]
fn pack<W: Word, S: Rows<W>>(
    s: S,
    numbers: &[W],
    width: u32,
    out: &mut [u8],
    patches: &mut impl Patching<W, S>,
    ahead: &mut impl Ahead,
) {
    let mask = s.splat(W::low_mask(width));
    let mut words = s.splat(W::default());
    let (mut n_bits, mut to) = (0, 0);
    let mut at = 0;
    while at < numbers.len() {
        ahead.fetch(s);
        let row = s.load(&numbers[at..]);
        let low = s.and(patches.row(s, row), mask);
        words = s.or_shifted(words, low, n_bits);
        n_bits += width;
        if n_bits >= W::BITS {
            s.store_bytes(words, &mut out[to..]);
            to += LANES * W::BYTES;
            n_bits -= W::BITS;
            words = if n_bits == 0 { s.splat(W::default()) } else { s.shift_right(low, width - n_bits) };
        }
        at += LANES;
    }
    let out = &mut out[to..];
    if out.len() == LANES * W::BYTES {
        s.store_bytes(words, out);
    } else if !out.is_empty() {
        // Half words.
        let mut last = [W::default(); LANES];
        s.store(words, &mut last);
        for (word, out) in last.iter().zip(out.chunks_exact_mut(4)) {
            (word.to_u64() as u32).write(out);
        }
    }
}

/// Reads `n` numbers from the start of `bytes` into `numbers`, which has room for whole rows and another one, and returns
/// how many bytes those are.
///
/// # Errors
/// `Corrupt` if the bytes end early or contradict each other.
#[inline(always)]
pub fn read<W: Word, S: Rows<W>>(
    s: S,
    bytes: &[u8],
    n: usize,
    numbers: &mut [W],
    scratch: &mut Scratch<W>,
) -> Result<usize> {
    let early = || damage("an early end");
    let n_groups = n.div_ceil(GROUP);
    let (headers, rest) = bytes.split_at_checked(HEADER * n_groups).ok_or_else(early)?;
    let (headers, _) = headers.as_chunks();
    let mut groups = [Group::default(); MAX_GROUPS];
    let (mut n_packed, mut n_bitmaps) = (0, 0);
    let size = |g: usize| (n - g * GROUP).min(GROUP);
    for (g, (group, header)) in groups.iter_mut().zip(headers).enumerate() {
        *group = Group::parse(header, size(g), W::BITS)?;
        n_packed += group.packed_bytes(size(g));
        n_bitmaps += group.bitmap_bytes(size(g));
    }
    let groups = &groups[..n_groups];
    let (mut packed, rest) = rest.split_at_checked(n_packed).ok_or_else(early)?;
    let (mut bitmaps, mut strings) = rest.split_at_checked(n_bitmaps).ok_or_else(early)?;
    for (g, group) in groups.iter().enumerate() {
        let numbers = &mut numbers[g * GROUP..][..size(g).next_multiple_of(LANES)];
        let bits;
        (bits, packed) = packed.split_at(group.packed_bytes(size(g)));
        let bitmap;
        (bitmap, bitmaps) = bitmaps.split_at(group.bitmap_bytes(size(g)));
        let [first, marks, second] = group.patch_bytes();
        let behind = strings.get(first + marks + second..).ok_or_else(early)?;
        let is_sound = if group.patch == 0 {
            unpack(s, bits, group.width, numbers, &mut Unpatched);
            true
        } else if group.has_narrow_patches() {
            narrow::read(s, group, &mut scratch.bytes, bits, bitmap, strings, numbers)
        } else {
            wide::read(s, group, &mut scratch.words, bits, bitmap, strings, numbers)
        };
        if !is_sound {
            return Err(damage("another number of patches than it says"));
        }
        strings = behind;
    }
    Ok(bytes.len() - strings.len())
}

/// The inverse of [`pack`].
#[inline(always)]
fn unpack<W: Word, S: Rows<W>>(
    s: S,
    packed: &[u8],
    width: u32,
    numbers: &mut [W],
    patches: &mut impl Patching<W, S>,
) {
    // Without branches, which nobody could foresee: of the word in which a number begins and of the next one, which
    // gives nothing where it is not needed. What begins in the last whole word or behind it is taken from a copy, in
    // which half words are whole and zeros follow.
    let mask = s.splat(W::low_mask(width));
    let row_bytes = LANES * W::BYTES;
    let before_last = (packed.len() / row_bytes).saturating_sub(1);
    let mut last = [0; 3 * LANES * size_of::<u64>()];
    let (whole, half) = packed[before_last * row_bytes..].split_at((packed.len() / row_bytes).min(1) * row_bytes);
    last[..whole.len()].copy_from_slice(whole);
    for i in 0..half.len() / 4 {
        last[whole.len() + i * W::BYTES..][..4].copy_from_slice(&half[4 * i..][..4]);
    }
    let (rows, _) = numbers.as_chunks_mut::<LANES>();
    let mut bit = 0;
    for row in rows {
        let from = bit / W::BITS as usize;
        let (words, from) = if from < before_last { (packed, from) } else { (&last[..], from - before_last) };
        let words = &words[from * row_bytes..][..2 * row_bytes];
        let (low, high) = (s.load_bytes(words), s.load_bytes(&words[row_bytes..]));
        let low_bits = s.and(s.shift_pair_right(low, high, bit as u32 % W::BITS), mask);
        s.store(patches.row(s, low_bits), row);
        bit += width as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::lorenzo::rows::{Nothing, Portable};

    fn round_trip<W: Word + std::fmt::Debug>(numbers: &[W]) -> usize {
        let n = numbers.len();
        let mut padded = numbers.to_vec();
        padded.resize(n.next_multiple_of(LANES), W::default());
        let coding = Coding::choose(Portable, &padded, n, &mut Scratch::new());
        let mut out = vec![0xee; coding.n_bytes()];
        coding.write(Portable, &padded, &mut Scratch::new(), &mut out, &mut Nothing);
        let mut back = vec![W::from_u64(u64::MAX); padded.len()];
        assert_eq!(read(Portable, &out, n, &mut back, &mut Scratch::new()).unwrap(), out.len());
        assert_eq!(back[..n], *numbers);
        for cut in 0..out.len() {
            assert!(
                read(Portable, &out[..cut], n, &mut back, &mut Scratch::new()).is_err(),
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

    #[test]
    fn damaged_numbers_are_errors_or_other_numbers() {
        let numbers: Vec<u32> = (0..1500).map(|i| (noise(i) >> (33 + i % 29)) as u32).collect();
        let mut padded = numbers.clone();
        padded.resize(1504, 0);
        let coding = Coding::choose(Portable, &padded, 1500, &mut Scratch::new());
        let mut out = vec![0; coding.n_bytes()];
        coding.write(Portable, &padded, &mut Scratch::new(), &mut out, &mut Nothing);
        for at in 0..out.len() {
            for bit in 0..8 {
                let mut damaged = out.clone();
                damaged[at] ^= 1 << bit;
                let _ = read(Portable, &damaged, 1500, &mut padded, &mut Scratch::new());
            }
        }
    }
}
