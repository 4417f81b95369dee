//! Byte groups: numbers packed in groups of eight, each with as many bits as the longest number of
//! its group.
//!
//! Eight numbers of w bits are w bytes, so groups begin at bytes and no bits are unused. A group
//! has few numbers, so a long one costs little and needs no patch. A table keeps the cost of the
//! widths small: a block has up to eight widths, and each group an index of one of them. A width
//! that few groups need is left out, and these groups take the next one.
//!
//! The bytes of a group are ⌈w / 8⌉ parts: the low bytes of its numbers, their next bytes, and so
//! on. The last part is the remaining bits of each number. So all parts but the last are plain
//! bytes, and that is a bit string of up to 64 bits.

use crate::error::{Error, Result};
use crate::stage::bits::string_bytes;
use crate::stage::rows::{BYTE_GROUPS_ROOM, LANES, LENGTHS, Prefetcher, RowSink, Simd};
use crate::stage::word::Word;

/// Numbers of a group.
pub const GROUP: usize = 8;
/// Maximum number of groups of a block.
const MAX_GROUPS: usize = LENGTHS;
/// Maximum number of widths of a block.
const MAX_WIDTHS: usize = 8;
/// Maximum number of bits of a number.
const LONGEST: usize = 64;
/// Entries of tables that are indexed by a length.
const TABLE: usize = 128;
/// Groups that are looked up at once.
const PER_LOOK_UP: usize = 64;
/// Groups of a row.
const PER_ROW: usize = LANES / GROUP;

/// The widths of a block's groups.
pub struct Widths {
    /// The widths in use, in ascending order.
    table: [u8; MAX_WIDTHS],
    n_table: usize,
    /// The table entry of each group.
    entries: [u8; MAX_GROUPS],
    /// The width of each group, followed by zeros up to a whole row.
    of_groups: [u8; MAX_GROUPS],
    n_groups: usize,
    /// Bytes of all groups.
    pub n_bytes: usize,
}

impl Widths {
    /// Empty, with room for any block.
    pub fn new() -> Self {
        let none = [0; MAX_GROUPS];
        Self { table: [0; MAX_WIDTHS], n_table: 0, entries: none, of_groups: none, n_groups: 0, n_bytes: 0 }
    }

    /// Finds the bit lengths of the groups of `n` numbers; zeros pad them to whole rows.
    #[inline(always)]
    pub fn find_lengths<W: Word, S: Simd<W>>(&mut self, s: S, numbers: &[W], n: usize) {
        let rows = n.div_ceil(GROUP).next_multiple_of(PER_ROW);
        self.of_groups.fill(0);
        s.group_lengths(&numbers[..rows * GROUP], &mut self.of_groups[..rows]);
    }

    /// Chooses the widths of `n` numbers after [`Self::find_lengths`].
    #[inline(always)]
    pub fn choose<S: Simd<u64>>(&mut self, s: S, n: usize) {
        let n_groups = n.div_ceil(GROUP);
        // The last counts are for lengths that do not occur.
        let mut counts = [0u32; LONGEST + 8];
        let (mut before, mut length) = (n_groups as u64, 0);
        while before > 0 {
            let larger = s.counts_larger(&self.of_groups, length as u8);
            let mut i = 0;
            while i < larger.len() {
                counts[length] = (before - larger[i]) as u32;
                (before, length, i) = (larger[i], length + 1, i + 1);
            }
        }
        self.n_groups = n_groups;
        let entry_of = self.choose_table(&counts);
        let mut width_of = [0; TABLE];
        let mut length = 0;
        while length <= LONGEST {
            width_of[length] = self.table[usize::from(entry_of[length]) % MAX_WIDTHS];
            length += 1;
        }
        let groups = n_groups.next_multiple_of(PER_LOOK_UP);
        self.entries[..groups].copy_from_slice(&self.of_groups[..groups]);
        s.look_up(&entry_of, &mut self.entries[..groups]);
        s.look_up(&width_of, &mut self.of_groups[..groups]);
        self.clear_end(groups);
    }

    /// Clears the entries and widths after the last group.
    #[inline(always)]
    fn clear_end(&mut self, groups: usize) {
        self.entries[self.n_groups..groups].fill(0);
        self.of_groups[self.n_groups..groups].fill(0);
    }

    /// Chooses the table, given the number of groups of every length; returns the entry of each
    /// length.
    #[inline(always)]
    fn choose_table(&mut self, counts: &[u32; LONGEST + 8]) -> [u8; TABLE] {
        // The widths in use, and how many groups have each.
        let (mut widths, mut n_of, mut n) = ([0u8; LONGEST + 1], [0u32; LONGEST + 1], 0);
        let mut n_bytes = 0;
        let mut width = 0;
        while width <= LONGEST {
            if counts[width] > 0 {
                (widths[n], n_of[n]) = (width as u8, counts[width]);
                n_bytes += width as u32 * counts[width];
                n += 1;
            }
            width += 1;
        }
        let mut best = u32::MAX;
        loop {
            if n <= MAX_WIDTHS {
                let all = n_bytes + n as u32 + string_bytes(self.n_groups, index_bits(n)) as u32;
                if all < best {
                    best = all;
                    self.n_bytes = n_bytes as usize;
                    self.n_table = n;
                    self.table[..n].copy_from_slice(&widths[..n]);
                }
            }
            if n == 1 {
                break;
            }
            // The width that costs the fewest bytes if it is left out.
            let (mut least, mut which) = (u32::MAX, 0);
            for i in 0..n - 1 {
                let more = n_of[i] * u32::from(widths[i + 1] - widths[i]);
                (least, which) = if more < least { (more, i) } else { (least, which) };
            }
            n_bytes += least;
            n_of[which + 1] += n_of[which];
            for i in which..n - 1 {
                (widths[i], n_of[i]) = (widths[i + 1], n_of[i + 1]);
            }
            n -= 1;
        }
        let (mut entry_of, mut k) = ([0; TABLE], 0);
        let mut length = 0;
        while length <= LONGEST {
            while k + 1 < self.n_table && usize::from(self.table[k]) < length {
                k += 1;
            }
            entry_of[length] = k as u8;
            length += 1;
        }
        entry_of
    }

    pub fn table(&self) -> &[u8] {
        &self.table[..self.n_table]
    }

    /// Bytes of the groups' entries.
    pub fn index_bytes(&self) -> usize {
        string_bytes(self.n_groups, index_bits(self.n_table))
    }

    /// Bytes of the entries for the groups of `n` numbers, if the table has `n_table` widths.
    pub fn bytes_of_index(n_table: usize, n: usize) -> usize {
        string_bytes(n.div_ceil(GROUP), index_bits(n_table))
    }

    /// Writes the entry of each group to `out`, which has exactly [`Widths::index_bytes`].
    #[inline(always)]
    pub fn write_index<W: Word, S: Simd<W>>(&self, s: S, out: &mut [u8]) {
        let n_bits = index_bits(self.n_table);
        if n_bits == 0 {
            return;
        }
        let n = n_bits as usize;
        let (mut from, mut at) = (0, 0);
        while at < out.len() {
            let eight = *self.entries[from..].first_chunk().expect("entries up to a whole look-up");
            let bits = s.pext(u64::from_le_bytes(eight), n_bits).to_le_bytes();
            if out.len() - at >= 8 {
                out[at..at + 8].copy_from_slice(&bits);
            } else {
                let left = n.min(out.len() - at);
                out[at..at + left].copy_from_slice(&bits[..left]);
            }
            (from, at) = (from + 8, at + n);
        }
    }

    /// Reads the widths of `n` numbers from a table and the entries of the groups.
    ///
    /// # Errors
    /// `Corrupt` for a table that is not in ascending order or exceeds the bits of a word, or for
    /// an entry that is not in it.
    #[inline(always)]
    pub fn read<S: Simd<u64>>(&mut self, s: S, table: &[u8], index: &[u8], (n, limit): (usize, u32)) -> Result<()> {
        let (mut is_in_order, mut i) = (true, 1);
        while i < table.len() {
            is_in_order &= table[i - 1] < table[i];
            i += 1;
        }
        if !is_in_order || table.last().is_some_and(|&width| u32::from(width) > limit) {
            return Err(Error::corrupt("a block is damaged: its table of widths is invalid"));
        }
        self.n_table = table.len();
        self.table[..table.len()].copy_from_slice(table);
        self.n_groups = n.div_ceil(GROUP);
        let groups = self.n_groups.next_multiple_of(PER_LOOK_UP);
        let n_bits = index_bits(table.len());
        if n_bits > 0 {
            let (mut to, mut at) = (0, 0);
            while at < index.len() {
                let mut bits = [0; 8];
                if index.len() - at >= 8 {
                    bits.copy_from_slice(&index[at..at + 8]);
                } else {
                    bits[..index.len() - at].copy_from_slice(&index[at..]);
                }
                let eight = s.pdep(u64::from_le_bytes(bits), n_bits);
                self.entries[to..to + 8].copy_from_slice(&eight.to_le_bytes());
                (to, at) = (to + 8, at + n_bits as usize);
            }
        }
        let known = if n_bits == 0 { 0 } else { self.n_groups };
        self.entries[known..groups].fill(0);
        let (mut at, mut beyond) = (0, 0);
        while at < groups {
            beyond |= s.gt_mask_bytes(&self.entries[at..], table.len() as u8 - 1);
            at += LANES;
        }
        if beyond != 0 {
            return Err(Error::corrupt("a block is damaged: a group has a width that is not in the block's table"));
        }
        let mut width_of = [0; TABLE];
        width_of[..table.len()].copy_from_slice(table);
        self.of_groups[..groups].copy_from_slice(&self.entries[..groups]);
        s.look_up(&width_of, &mut self.of_groups[..groups]);
        self.clear_end(groups);
        // In four sums, which stay below 2^16.
        let mut sums = 0u64;
        let mut at = 0;
        while at < groups {
            let eight =
                u64::from_le_bytes(*self.of_groups[at..].first_chunk().expect("widths up to a whole look-up"));
            sums += (eight & 0x00ff_00ff_00ff_00ff) + (eight >> 8 & 0x00ff_00ff_00ff_00ff);
            at += 8;
        }
        self.n_bytes = ((sums & 0xffff) + (sums >> 16 & 0xffff) + (sums >> 32 & 0xffff) + (sums >> 48)) as usize;
        Ok(())
    }

    /// Packs the numbers to `out`, which has exactly the bytes of the groups. Prefetches a line of
    /// `ahead` for each row.
    #[inline(always)]
    pub fn pack<W: Word, S: Simd<W>>(&self, s: S, numbers: &[W], mut out: &mut [u8], ahead: &mut impl Prefetcher) {
        let mut k = 0;
        while k * PER_ROW < self.n_groups {
            ahead.prefetch_next(s);
            let row = s.load(&numbers[k * LANES..]);
            let (widths, n_bytes) = self.widths_of(k);
            if out.len() >= BYTE_GROUPS_ROOM {
                s.pack_byte_groups(row, widths, out);
            } else {
                let mut last = [0; BYTE_GROUPS_ROOM];
                s.pack_byte_groups(row, widths, &mut last);
                out[..n_bytes].copy_from_slice(&last[..n_bytes]);
            }
            out = &mut out[n_bytes..];
            k += 1;
        }
    }

    /// Unpacks the numbers in `bytes`, which has exactly the bytes of the groups, row by row. Zeros
    /// follow the last number.
    #[inline(always)]
    pub fn unpack<W: Word, S: Simd<W>>(&self, s: S, mut bytes: &[u8], sink: &mut impl RowSink<W, S>) {
        let mut k = 0;
        while k * PER_ROW < self.n_groups {
            let (widths, n_bytes) = self.widths_of(k);
            if bytes.len() >= BYTE_GROUPS_ROOM {
                sink.take(s, s.unpack_byte_groups(widths, bytes));
            } else {
                let mut last = [0; BYTE_GROUPS_ROOM];
                last[..bytes.len()].copy_from_slice(bytes);
                sink.take(s, s.unpack_byte_groups(widths, &last));
            }
            bytes = &bytes[n_bytes..];
            k += 1;
        }
    }

    /// The widths of the groups of row `k`, and their bytes.
    #[inline(always)]
    fn widths_of(&self, k: usize) -> ([u8; PER_ROW], usize) {
        let widths: [u8; PER_ROW] = *self.of_groups[k * PER_ROW..].first_chunk().expect("the groups of a row");
        // The sum of four bytes.
        let pairs = u32::from_le_bytes(widths);
        let pairs = (pairs & 0x00ff_00ff) + (pairs >> 8 & 0x00ff_00ff);
        (widths, ((pairs + (pairs >> 16)) & 0xffff) as usize)
    }
}

/// Bits of an index of the table.
fn index_bits(n_table: usize) -> u32 {
    (n_table.max(1) - 1).checked_ilog2().map_or(0, |log| log + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::rows::{NoPrefetch, PORTABLE, Portable};

    struct Unpacked<W>(Vec<W>);

    impl<W: Word> RowSink<W, Portable> for Unpacked<W> {
        fn take(&mut self, _: Portable, row: [W; LANES]) {
            self.0.extend(row);
        }
    }

    fn noise(i: usize) -> u64 {
        let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn round_trip<W: Word + std::fmt::Debug>(numbers: &[W]) -> usize {
        let n = numbers.len();
        let mut padded = numbers.to_vec();
        padded.resize(n.next_multiple_of(LANES), W::default());
        let mut widths = Widths::new();
        widths.find_lengths(PORTABLE, &padded, n);
        widths.choose(PORTABLE, n);
        let (mut index, mut out) = (vec![0xee; widths.index_bytes()], vec![0xee; widths.n_bytes]);
        widths.write_index::<W, _>(PORTABLE, &mut index);
        widths.pack(PORTABLE, &padded, &mut out, &mut NoPrefetch);
        let mut back = Widths::new();
        back.read(PORTABLE, widths.table(), &index, (n, W::BITS)).unwrap();
        assert_eq!((back.n_bytes, back.table()), (widths.n_bytes, widths.table()));
        let mut unpacked: Unpacked<W> = Unpacked(Vec::new());
        back.unpack(PORTABLE, &out, &mut unpacked);
        assert_eq!(unpacked.0, padded);
        index.len() + out.len() + widths.table().len()
    }

    #[test]
    fn numbers_of_all_lengths_come_back() {
        for n in [1, 7, 8, 9, 31, 32, 33, 1024, 4095, 1 << 13] {
            for bits in 0..=64 {
                let numbers: Vec<u64> = (0..n).map(|i| noise(i).checked_shr(64 - bits).unwrap_or(0)).collect();
                round_trip(&numbers);
                if bits <= 32 {
                    round_trip(&numbers.iter().map(|&x| x as u32).collect::<Vec<_>>());
                }
            }
            round_trip(&(0..n).map(|i| noise(i) >> (noise(i / 8 + 77) % 64)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn zeros_take_a_table_of_one() {
        assert_eq!(round_trip(&[0u32; 4096]), 1);
        // One of 512 groups is longer: the entries take 64 bytes, and the numbers of this group one
        // byte.
        let mut numbers = [0u32; 4096];
        numbers[100] = 1;
        assert_eq!(round_trip(&numbers), 2 + 64 + 1);
    }

    #[test]
    fn damage_is_found() {
        let mut widths = Widths::new();
        let mut read = |table: &[u8], byte| {
            let index = vec![byte; Widths::bytes_of_index(table.len(), 100)];
            [32, 64].map(|limit| widths.read(PORTABLE, table, &index, (100, limit)).is_ok())
        };
        assert_eq!(read(&[3, 2], 0), [false, false]);
        assert_eq!(read(&[3, 3], 0), [false, false]);
        assert_eq!(read(&[3, 33], 0), [false, true]);
        assert_eq!(read(&[3, 32, 33], 0), [false, true]);
        assert_eq!(read(&[3, 30, 31], 0xff), [false, false]);
        assert_eq!(read(&[3, 30, 31, 32], 0xff), [true, true]);
    }
}
