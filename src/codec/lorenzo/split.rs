//! SPLIT: numbers of a fixed width per group, with two levels of patches.
//!
//! Most numbers of a group are short and a few are long. So all are packed with as many bits as most of
//! them need; a bitmap marks those that need more, which get some, and of these again a bitmap marks the few that need
//! more still. 1024 numbers are 32 rows of 32 lanes. Each lane is packed for itself and
//! the lanes' words lie side by side, so that packing is the same few shifts for a whole row: no number ever moves to
//! another lane of a register, or to another thread of a GPU. (The same idea: Afroozeh, Boncz: "The FastLanes
//! Compression Layout", VLDB 2023.)

use crate::codec::lorenzo::bits::{Writer, peek, string_bytes};
use crate::codec::lorenzo::word::Word;
use crate::error::{Error, Result};

/// Numbers of a group.
pub const GROUP: usize = 1024;
/// Lanes of a row.
pub const LANES: usize = 32;
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
    /// The best widths for a group of `n` numbers, of which `above[k]` are longer than k bits, up to `longest`.
    fn choose(n: usize, above: &[u16; 65], longest: u32) -> Self {
        let rows = n.div_ceil(LANES);
        let count = |k: u32| usize::from(above[k as usize]);
        let cost = |k: u32, k2: u32| {
            let mut bytes = packed_bytes(rows, k) + 4 * rows + string_bytes(count(k), k2 - k);
            if k2 < longest {
                bytes += string_bytes(count(k), 1) + string_bytes(count(k2), longest - k2);
            }
            bytes
        };
        // With fewer bits than that nearly all would be patched.
        let shortest = (0..longest).find(|&k| 16 * count(k) <= 15 * n).unwrap_or(longest);
        let mut best = packed_bytes(rows, longest);
        let (mut width, mut second) = (longest, longest);
        for _ in 0..ROUNDS {
            for k in (shortest..second).rev() {
                let bytes = cost(k, second);
                if bytes < best {
                    (best, width) = (bytes, k);
                }
            }
            if width == longest {
                break;
            }
            for k2 in width + 1..=longest {
                let bytes = cost(width, k2);
                if bytes < best {
                    (best, second) = (bytes, k2);
                }
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

    fn emit(&self, out: &mut [u8; HEADER]) {
        let [n1, n2] = [self.n_patched, self.n_patched_twice].map(|n| (n as u16).to_le_bytes());
        *out = [self.width as u8, self.patch as u8, self.second_patch as u8, 0, n1[0], n1[1], n2[0], n2[1]];
    }

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
    fn packed_bytes(&self, n: usize) -> usize {
        packed_bytes(n.div_ceil(LANES), self.width)
    }

    /// Bytes of the bitmap of patched numbers.
    fn bitmap_bytes(&self, n: usize) -> usize {
        if self.patch > 0 { 4 * n.div_ceil(LANES) } else { 0 }
    }

    /// Bytes of its patches: the bits of the first level, the bitmap of the second level, the bits of that.
    fn patch_bytes(&self) -> [usize; 3] {
        let bitmap = if self.second_patch > 0 { string_bytes(self.n_patched, 1) } else { 0 };
        [string_bytes(self.n_patched, self.patch), bitmap, string_bytes(self.n_patched_twice, self.second_patch)]
    }
}

/// Bytes of the packed bits of so many rows. Words of 64 bits may end in half a word.
fn packed_bytes(rows: usize, width: u32) -> usize {
    4 * LANES * (rows * width as usize).div_ceil(32)
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a lorenzo block has {what}"))
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
    pub fn choose<W: Word>(numbers: &[W], n: usize) -> Self {
        let mut coding = Self { groups: [Group::default(); MAX_GROUPS], n, n_bytes: 0 };
        for (group, numbers) in coding.groups.iter_mut().zip(numbers[..n].chunks(GROUP)) {
            let (above, longest) = lengths(numbers);
            *group = Group::choose(numbers.len(), &above, longest);
            coding.n_bytes += HEADER
                + group.packed_bytes(numbers.len())
                + group.bitmap_bytes(numbers.len())
                + group.patch_bytes().iter().sum::<usize>();
        }
        coding
    }

    /// Bytes of the numbers.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Writes the numbers that were looked at to `out`, which has exactly [`Coding::n_bytes`].
    #[inline(always)]
    pub fn write<W: Word>(&self, numbers: &[W], out: &mut [u8]) {
        let groups = &self.groups[..self.n.div_ceil(GROUP)];
        let numbers = numbers[..self.n.next_multiple_of(LANES)].chunks(GROUP);
        let (headers, mut out) = out.split_at_mut(HEADER * groups.len());
        let (headers, _) = headers.as_chunks_mut();
        for ((group, header), numbers) in groups.iter().zip(headers).zip(numbers.clone()) {
            group.emit(header);
            let (packed, rest) = out.split_at_mut(group.packed_bytes(numbers.len()));
            pack(numbers, group.width, packed);
            out = rest;
        }
        let n_bitmaps =
            groups.iter().zip(numbers.clone()).map(|(group, numbers)| group.bitmap_bytes(numbers.len()));
        let (mut bitmaps, mut out) = out.split_at_mut(n_bitmaps.sum());
        let mut patches = [W::default(); GROUP];
        for (group, numbers) in groups.iter().zip(numbers).filter(|(group, _)| group.patch > 0) {
            let bitmap;
            (bitmap, bitmaps) = bitmaps.split_at_mut(group.bitmap_bytes(numbers.len()));
            let n = collect_patches(numbers, group.width, bitmap, &mut patches);
            let patches = &patches[..n];
            let [first, marks, second] = group.patch_bytes();
            let strings;
            (strings, out) = out.split_at_mut(first + marks + second);
            let (first, strings) = strings.split_at_mut(first);
            write_string(first, group.patch, patches.iter().map(|&patch| patch & W::low_mask(group.patch)));
            if group.second_patch > 0 {
                let (marks, second) = strings.split_at_mut(marks);
                let rests = patches.iter().map(|&patch| patch >> group.patch);
                let is_longer = rests.clone().map(|rest| W::from_u64(u64::from(rest != W::default())));
                write_string(marks, 1, is_longer);
                write_string(second, group.second_patch, rests.filter(|&rest| rest != W::default()));
            }
        }
    }
}

/// How many numbers are longer than each number of bits, and the longest length.
#[inline(always)]
fn lengths<W: Word>(numbers: &[W]) -> ([u16; 65], u32) {
    // Next numbers often have the same length: several tables, so that none waits for the count before.
    let mut counts = [[0u16; 65]; 4];
    let (fours, rest) = numbers.as_chunks::<4>();
    for four in fours {
        for (counts, number) in counts.iter_mut().zip(four) {
            counts[number.bit_length() as usize] += 1;
        }
    }
    for number in rest {
        counts[0][number.bit_length() as usize] += 1;
    }
    let mut above = [0; 65];
    let mut longest = 0;
    for k in (1..=W::BITS as usize).rev() {
        let n: u16 = counts.iter().map(|counts| counts[k]).sum();
        above[k - 1] = above[k] + n;
        if n > 0 {
            longest = longest.max(k as u32);
        }
    }
    (above, longest)
}

/// Packs the low bits of whole rows.
#[inline(always)]
fn pack<W: Word>(numbers: &[W], width: u32, out: &mut [u8]) {
    if width == 0 {
        return;
    }
    let (rows, _) = numbers.as_chunks::<LANES>();
    let mask = W::low_mask(width);
    let mut words = [W::default(); LANES];
    let (mut n_bits, mut at) = (0, 0);
    for row in rows {
        for (word, &number) in words.iter_mut().zip(row) {
            *word |= (number & mask) << n_bits;
        }
        n_bits += width;
        if n_bits >= W::BITS {
            for (word, out) in words.iter().zip(out[at..][..LANES * W::BYTES].chunks_exact_mut(W::BYTES)) {
                word.write(out);
            }
            at += LANES * W::BYTES;
            n_bits -= W::BITS;
            for (word, &number) in words.iter_mut().zip(row) {
                // Twice, because a shift may not be by all bits.
                *word = (number & mask) >> (width - n_bits - 1) >> 1;
            }
            if n_bits == 0 {
                words = [W::default(); LANES];
            }
        }
    }
    let out = &mut out[at..];
    let bytes = out.len() / LANES;
    if bytes > 0 {
        for (word, out) in words.iter().zip(out.chunks_exact_mut(bytes)) {
            out.copy_from_slice(&word.to_u64().to_le_bytes()[..bytes]);
        }
    }
}

/// Marks the numbers longer than `width` in `bitmap` and collects what is above it; their number.
#[inline(always)]
fn collect_patches<W: Word>(numbers: &[W], width: u32, bitmap: &mut [u8], patches: &mut [W; GROUP]) -> usize {
    let (rows, _) = numbers.as_chunks::<LANES>();
    let mut n = 0;
    for (row, marks) in rows.iter().zip(bitmap.chunks_exact_mut(4)) {
        let mut mask = 0u32;
        for (lane, &number) in row.iter().enumerate() {
            mask |= u32::from(number >> width != W::default()) << lane;
        }
        marks.copy_from_slice(&mask.to_le_bytes());
        while mask != 0 {
            patches[n] = row[mask.trailing_zeros() as usize] >> width;
            n += 1;
            mask &= mask - 1;
        }
    }
    n
}

#[inline(always)]
fn write_string<W: Word>(out: &mut [u8], n_bits: u32, fields: impl Iterator<Item = W>) {
    let mut writer = Writer::new(out);
    fields.for_each(|field| writer.push(field.to_u64(), n_bits));
    writer.finish();
}

/// Reads `n` numbers from the start of `bytes` and returns how many bytes those are. `numbers` has room for
/// whole rows.
///
/// # Errors
/// `Corrupt` if the bytes end early or contradict each other.
#[inline(always)]
pub fn read<W: Word>(bytes: &[u8], n: usize, numbers: &mut [W]) -> Result<usize> {
    let early = || damage("an early end");
    let n_groups = n.div_ceil(GROUP);
    let (headers, mut rest) = bytes.split_at_checked(HEADER * n_groups).ok_or_else(early)?;
    let (headers, _) = headers.as_chunks();
    let mut groups = [Group::default(); MAX_GROUPS];
    let mut n_bitmaps = 0;
    let size = |g: usize| (n - g * GROUP).min(GROUP);
    let numbers = &mut numbers[..n.next_multiple_of(LANES)];
    for (g, (group, header)) in groups.iter_mut().zip(headers).enumerate() {
        *group = Group::parse(header, size(g), W::BITS)?;
        n_bitmaps += group.bitmap_bytes(size(g));
    }
    let groups = &groups[..n_groups];
    for ((g, group), numbers) in groups.iter().enumerate().zip(numbers.chunks_mut(GROUP)) {
        let packed;
        (packed, rest) = rest.split_at_checked(group.packed_bytes(size(g))).ok_or_else(early)?;
        unpack(packed, group.width, numbers);
    }
    let (mut bitmaps, mut rest) = rest.split_at_checked(n_bitmaps).ok_or_else(early)?;
    for ((g, group), numbers) in groups.iter().enumerate().zip(numbers.chunks_mut(GROUP)) {
        if group.patch == 0 {
            continue;
        }
        let bitmap;
        (bitmap, bitmaps) = bitmaps.split_at(group.bitmap_bytes(size(g)));
        let [first, marks, second] = group.patch_bytes();
        let strings;
        (strings, rest) = rest.split_at_checked(first + marks + second).ok_or_else(early)?;
        let mut patches = [W::default(); GROUP];
        read_patches(group, strings, &mut patches)?;
        if !apply_patches(numbers, size(g), group, bitmap, &patches) {
            return Err(damage("another number of patches than it says"));
        }
    }
    Ok(bytes.len() - rest.len())
}

/// The inverse of [`pack`].
#[inline(always)]
fn unpack<W: Word>(packed: &[u8], width: u32, numbers: &mut [W]) {
    let (rows, _) = numbers.as_chunks_mut::<LANES>();
    if width == 0 {
        rows.as_flattened_mut().fill(W::default());
        return;
    }
    let mask = W::low_mask(width);
    let mut rest = packed;
    let mut next = || {
        let mut words = [W::default(); LANES];
        if let Some((bytes, behind)) = rest.split_at_checked(LANES * W::BYTES) {
            words.iter_mut().zip(bytes.chunks_exact(W::BYTES)).for_each(|(word, bytes)| *word = W::read(bytes));
            rest = behind;
        } else {
            // Half words.
            for (word, bytes) in words.iter_mut().zip(rest.chunks_exact(4)) {
                *word = W::from_u64(u32::read(bytes).into());
            }
            rest = &[];
        }
        words
    };
    let mut words = next();
    let mut n_used = 0;
    for row in rows {
        if n_used == W::BITS {
            words = next();
            n_used = 0;
        }
        for (number, &word) in row.iter_mut().zip(&words) {
            *number = word >> n_used;
        }
        n_used += width;
        if n_used > W::BITS {
            words = next();
            n_used -= W::BITS;
            for (number, &word) in row.iter_mut().zip(&words) {
                *number |= word << (width - n_used);
            }
        }
        row.iter_mut().for_each(|number| *number = *number & mask);
    }
}

/// Reads what the patched numbers have above the group's width.
#[inline(always)]
fn read_patches<W: Word>(group: &Group, strings: &[u8], patches: &mut [W; GROUP]) -> Result<()> {
    let [first, marks, _] = group.patch_bytes();
    let (first, strings) = strings.split_at(first);
    let patches = &mut patches[..group.n_patched];
    let mask = W::low_mask(group.patch);
    for (i, patch) in patches.iter_mut().enumerate() {
        *patch = W::from_u64(peek(first, i * group.patch as usize)) & mask;
    }
    if group.second_patch > 0 {
        let (marks, second) = strings.split_at(marks);
        let mask = W::low_mask(group.second_patch);
        let mut n = 0;
        for (marks, patches) in marks.iter().zip(patches.chunks_mut(8)) {
            let mut marks = u32::from(*marks);
            while marks != 0 && n < group.n_patched_twice {
                let more = W::from_u64(peek(second, n * group.second_patch as usize)) & mask;
                let Some(patch) = patches.get_mut(marks.trailing_zeros() as usize) else { break };
                *patch |= more << group.patch;
                n += 1;
                marks &= marks - 1;
            }
            if marks != 0 {
                n = usize::MAX;
                break;
            }
        }
        if n != group.n_patched_twice {
            return Err(damage("another number of second patches than it says"));
        }
    }
    Ok(())
}

/// Puts the patches of `size` numbers in their places; false if the bitmap has another number of them, or one behind
/// the last number.
#[inline(always)]
fn apply_patches<W: Word>(
    numbers: &mut [W],
    size: usize,
    group: &Group,
    bitmap: &[u8],
    patches: &[W; GROUP],
) -> bool {
    let (rows, _) = numbers.as_chunks_mut::<LANES>();
    let last = bitmap.last_chunk().map_or(0, |marks| u32::from_le_bytes(*marks));
    if u64::from(last) >> ((size - 1) % LANES + 1) != 0 {
        return false;
    }
    let mut n = 0;
    for (row, marks) in rows.iter_mut().zip(bitmap.chunks_exact(4)) {
        let mut marks = u32::read(marks);
        while marks != 0 {
            let Some(&patch) = patches.get(n) else { return false };
            row[marks.trailing_zeros() as usize] |= patch << group.width;
            n += 1;
            marks &= marks - 1;
        }
    }
    n == group.n_patched
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<W: Word + std::fmt::Debug>(numbers: &[W]) -> usize {
        let n = numbers.len();
        let mut padded = numbers.to_vec();
        padded.resize(n.next_multiple_of(LANES), W::default());
        let coding = Coding::choose(&padded, n);
        let mut out = vec![0xee; coding.n_bytes()];
        coding.write(&padded, &mut out);
        let mut back = vec![W::from_u64(u64::MAX); padded.len()];
        assert_eq!(read(&out, n, &mut back).unwrap(), out.len());
        assert_eq!(back[..n], *numbers);
        for cut in 0..out.len() {
            assert!(read(&out[..cut], n, &mut back).is_err(), "cut to {cut} of {}", out.len());
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
                } else if i % often == 0 {
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
        let coding = Coding::choose(&padded, 1500);
        let mut out = vec![0; coding.n_bytes()];
        coding.write(&padded, &mut out);
        for at in 0..out.len() {
            for bit in 0..8 {
                let mut damaged = out.clone();
                damaged[at] ^= 1 << bit;
                let _ = read(&damaged, 1500, &mut padded);
            }
        }
    }
}
