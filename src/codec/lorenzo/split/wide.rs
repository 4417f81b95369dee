//! Patches of any width, as words.

use crate::codec::lorenzo::bits::{Writer, peek};
use crate::codec::lorenzo::rows::{Ahead, LANES, Rows, first_lanes};
use crate::codec::lorenzo::split::{Bitmap, GROUP, Group, Patching, pack, unpack};
use crate::codec::lorenzo::word::Word;

/// A group's patches, and room for a row behind them.
type Patches<W> = [W; GROUP + LANES];

/// The patches of a group row by row.
struct Rowwise<'a, B, W> {
    bitmap: Bitmap<B>,
    patches: &'a mut Patches<W>,
    width: u32,
    n: usize,
}

/// Packing.
impl<W: Word, S: Rows<W>> Patching<W, S> for Rowwise<'_, &mut [u8], W> {
    #[inline(always)]
    fn row(&mut self, s: S, row: S::Row) -> S::Row {
        let longer = s.larger(row, W::low_mask(self.width));
        self.bitmap.push(longer);
        s.squeeze(longer, s.shift_right(row, self.width), &mut self.patches[self.n..]);
        self.n += longer.count_ones() as usize;
        row
    }
}

/// Unpacking.
impl<W: Word, S: Rows<W>> Patching<W, S> for Rowwise<'_, &[u8], W> {
    #[inline(always)]
    fn row(&mut self, s: S, row: S::Row) -> S::Row {
        let mask = self.bitmap.next();
        // With more patches than there can be, the last ones are anything.
        let from = &self.patches[self.n.min(GROUP)..];
        self.n += mask.count_ones() as usize;
        s.or(row, s.shift_left(s.spread(mask, from), self.width))
    }
}

/// Packs numbers, marks those longer than the group's width in `bitmap`, and writes what is above it.
#[inline(always)]
pub fn write<W: Word, S: Rows<W>>(
    s: S,
    group: &Group,
    numbers: &[W],
    [patches, more]: &mut [Patches<W>; 2],
    [packed, bitmap, string]: [&mut [u8]; 3],
    ahead: &mut impl Ahead,
) {
    let mut rows = Rowwise { bitmap: Bitmap::new(bitmap), patches, width: group.width, n: 0 };
    pack(s, numbers, group.width, packed, &mut rows, ahead);
    let n = rows.n;
    let [first, marks, _] = group.patch_bytes();
    let (first, rest) = string.split_at_mut(first);
    write_string(first, group.patch, &patches[..n]);
    if group.second_patch == 0 {
        return;
    }
    let (marks, second) = rest.split_at_mut(marks);
    let mut writer = Writer::new(marks);
    let limit = W::low_mask(group.patch);
    let (mut at, mut n_more) = (0, 0);
    while at < n {
        let in_row = (n - at).min(LANES);
        let row = s.load(&patches[at..]);
        let longer = s.larger(row, limit) & first_lanes(in_row);
        writer.push(longer.into(), in_row as u32);
        s.squeeze(longer, s.shift_right(row, group.patch), &mut more[n_more..]);
        n_more += longer.count_ones() as usize;
        at += LANES;
    }
    writer.finish();
    write_string(second, group.second_patch, &more[..n_more]);
}

/// Writes the lowest `width` bits, at least one, of values.
#[inline(always)]
fn write_string<W: Word>(out: &mut [u8], width: u32, values: &[W]) {
    let mut writer = Writer::new(out);
    let mask = W::low_mask(width);
    for &value in values {
        writer.push((value & mask).to_u64(), width);
    }
    writer.finish();
}

/// The inverse of [`write`], with anything behind the string; false if the marks do not fit the group.
#[inline(always)]
pub fn read<W: Word, S: Rows<W>>(
    s: S,
    group: &Group,
    [patches, more]: &mut [Patches<W>; 2],
    packed: &[u8],
    bitmap: &[u8],
    string: &[u8],
    numbers: &mut [W],
) -> bool {
    let [first, marks, _] = group.patch_bytes();
    read_string(string, group.patch, &mut patches[..group.n_patched]);
    if group.second_patch > 0 {
        let (marks, second) = string[first..].split_at(marks);
        read_string(second, group.second_patch, &mut more[..group.n_patched_twice]);
        let (mut at, mut n) = (0, 0);
        for marks in marks.chunks(4) {
            let mut mask = [0; 4];
            mask[..marks.len()].copy_from_slice(marks);
            let mask = u32::from_le_bytes(mask);
            // Nothing is behind the last number.
            if mask & !first_lanes(group.n_patched - at) != 0 || n > group.n_patched_twice {
                return false;
            }
            let row = s.or(s.load(&patches[at..]), s.shift_left(s.spread(mask, &more[n..]), group.patch));
            s.store(row, &mut patches[at..]);
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

/// Reads values of `width` bits, at least one.
#[inline(always)]
fn read_string<W: Word>(string: &[u8], width: u32, values: &mut [W]) {
    let mask = W::low_mask(width);
    let mut at = 0;
    for value in values {
        *value = W::from_u64(peek(string, at)) & mask;
        at += width as usize;
    }
}
