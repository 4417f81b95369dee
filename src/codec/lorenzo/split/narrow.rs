//! Patches of up to eight bits, which nearly all are: as bytes.

use crate::codec::lorenzo::rows::{Ahead, LANES, Rows, first_lanes};
use crate::codec::lorenzo::split::{Bitmap, GROUP, Group, Patching, pack, unpack};
use crate::codec::lorenzo::word::Word;

/// A group's patches, and room for a row behind them.
type Patches = [u8; GROUP + LANES];

/// The patches of a group row by row.
struct Rowwise<'a, B> {
    bitmap: Bitmap<B>,
    patches: &'a mut Patches,
    width: u32,
    n: usize,
}

/// Packing.
impl<W: Word, S: Rows<W>> Patching<W, S> for Rowwise<'_, &mut [u8]> {
    #[inline(always)]
    fn row(&mut self, s: S, row: S::Row) -> S::Row {
        let longer = s.larger(row, W::low_mask(self.width));
        self.bitmap.push(longer);
        s.squeeze_bytes_of(longer, row, self.width, &mut self.patches[self.n..]);
        self.n += longer.count_ones() as usize;
        row
    }
}

/// Unpacking.
impl<W: Word, S: Rows<W>> Patching<W, S> for Rowwise<'_, &[u8]> {
    #[inline(always)]
    fn row(&mut self, s: S, row: S::Row) -> S::Row {
        let mask = self.bitmap.next();
        // With more patches than there can be, the last ones are anything.
        let from = &self.patches[self.n.min(GROUP)..];
        self.n += mask.count_ones() as usize;
        s.or(row, s.shift_left(s.spread_low_bytes(mask, from), self.width))
    }
}

/// Packs numbers, marks those longer than the group's width in `bitmap`, and writes what is above it.
#[inline(always)]
pub fn write<W: Word, S: Rows<W>>(
    s: S,
    group: &Group,
    numbers: &[W],
    [patches, more]: &mut [Patches; 2],
    [packed, bitmap, string]: [&mut [u8]; 3],
    ahead: &mut impl Ahead,
) {
    let mut rows = Rowwise { bitmap: Bitmap::new(bitmap), patches, width: group.width, n: 0 };
    pack(s, numbers, group.width, packed, &mut rows, ahead);
    let n = rows.n;
    // Where another row would be read.
    patches[n..n + LANES].fill(0);
    let [first, marks, _] = group.patch_bytes();
    let (first, rest) = string.split_at_mut(first);
    write_string::<W, S>(s, first, patches, n, 0, group.patch);
    if group.second_patch == 0 {
        return;
    }
    let (marks, second) = rest.split_at_mut(marks);
    let limit = (1 << group.patch) - 1;
    let (mut at, mut n_more) = (0, 0);
    for marks in marks.chunks_mut(4) {
        let row = &patches[at..];
        let longer = s.larger_bytes(row, limit);
        marks.copy_from_slice(&longer.to_le_bytes()[..marks.len()]);
        s.squeeze_bytes(longer, row, &mut more[n_more..]);
        n_more += longer.count_ones() as usize;
        at += LANES;
    }
    more[n_more..n_more + LANES].fill(0);
    write_string::<W, S>(s, second, more, n_more, group.patch, group.second_patch);
}

/// Writes the `width` bits from bit `shift` on of the first `n` bytes, which zeros follow.
#[inline(always)]
fn write_string<W: Word, S: Rows<W>>(s: S, out: &mut [u8], values: &Patches, n: usize, shift: u32, width: u32) {
    let mut to = 0;
    for eight in values[..n.next_multiple_of(8)].as_chunks::<8>().0 {
        // Eight values are as many bytes as a value has bits; the zeros behind them are written over.
        let bits = s.gather_bits(u64::from_le_bytes(*eight) >> shift, width);
        let out = out.get_mut(to..).unwrap_or_default();
        match out.first_chunk_mut() {
            Some(out) => *out = bits.to_le_bytes(),
            None => write_start(bits, out),
        }
        to += width as usize;
    }
}

/// Writes as many of the lowest bytes as there is room for.
#[inline(never)]
fn write_start(bits: u64, out: &mut [u8]) {
    out.copy_from_slice(&bits.to_le_bytes()[..out.len()]);
}

/// The inverse of [`write`], with anything behind the string; false if the marks do not fit the group.
#[inline(always)]
pub fn read<W: Word, S: Rows<W>>(
    s: S,
    group: &Group,
    [patches, more]: &mut [Patches; 2],
    packed: &[u8],
    bitmap: &[u8],
    string: &[u8],
    numbers: &mut [W],
) -> bool {
    let [first, marks, _] = group.patch_bytes();
    read_string::<W, S>(s, string, patches, group.n_patched, 0, group.patch);
    if group.second_patch > 0 {
        let (marks, second) = string[first..].split_at(marks);
        read_string::<W, S>(s, second, more, group.n_patched_twice, group.patch, group.second_patch);
        let (mut at, mut n) = (0, 0);
        for marks in marks.chunks(4) {
            let mask = last_bytes(marks) as u32;
            // Nothing is behind the last number.
            if mask & !first_lanes(group.n_patched - at) != 0 || n > group.n_patched_twice {
                return false;
            }
            s.spread_bytes(mask, &more[n..], &mut patches[at..]);
            n += mask.count_ones() as usize;
            at += LANES;
        }
        if n != group.n_patched_twice {
            return false;
        }
    }
    let mut rows = Rowwise { bitmap: Bitmap::new(bitmap), patches, width: group.width, n: 0 };
    unpack(s, packed, group.width, numbers, &mut rows);
    rows.n == group.n_patched
}

/// Reads `n` values of `width` bits, at least one, to bit `shift` of bytes, and anything behind them.
#[inline(always)]
fn read_string<W: Word, S: Rows<W>>(s: S, string: &[u8], values: &mut Patches, n: usize, shift: u32, width: u32) {
    let mut from = 0;
    for eight in values[..n.next_multiple_of(8)].as_chunks_mut::<8>().0 {
        let rest = string.get(from..).unwrap_or_default();
        let bits = match rest.first_chunk() {
            Some(bits) => u64::from_le_bytes(*bits),
            None => last_bytes(rest),
        };
        *eight = (s.scatter_bits(bits, width) << shift).to_le_bytes();
        from += width as usize;
    }
}

/// Fewer than eight bytes, and zeros.
fn last_bytes(rest: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(bytes)
}
