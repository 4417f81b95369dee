//! Unpacks groups to rows of numbers.

use crate::error::Result;
use crate::stage::pack::patches::{Patch, Patches, last_bytes};
use crate::stage::pack::{GROUP, Group, HEADER, MAX_GROUPS, Scratch, damage};
use crate::stage::rows::{LANES, RowSink, Simd, Stored, first_lanes, outlined};
use crate::stage::word::Word;

/// Reads `n` numbers, at most those of a block, from the start of `bytes`; returns their bytes.
/// Passes the rows of numbers to `sink`. The lanes after the last number are arbitrary.
///
/// # Errors
/// `Corrupt` if the bytes end early or contradict each other. The sink may then have received
/// arbitrary rows.
#[inline(always)]
pub fn read_rows<W: Word, S: Simd<W>>(
    s: S,
    bytes: &[u8],
    n: usize,
    scratch: &mut Scratch<W>,
    sink: &mut impl RowSink<W, S>,
) -> Result<usize> {
    let early = || damage("too few bytes");
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
    // Each slice extends to the end of the bytes.
    let mut packed = rest;
    let mut bitmaps = packed.get(n_packed..).ok_or_else(early)?;
    let mut strings = bitmaps.get(n_bitmaps..).ok_or_else(early)?;
    for (g, group) in groups[..n_groups].iter().enumerate() {
        let words = Packed { bytes: packed, n_bytes: group.packed_bytes(size(g)), width: group.width, n: size(g) };
        let bitmap;
        (bitmap, bitmaps) = bitmaps.split_at(group.bitmap_bytes(size(g)));
        let [first, marks, second] = group.patch_bytes();
        let behind = strings.get(first + marks + second..).ok_or_else(early)?;
        let is_sound = if group.patch == 0 {
            unpack(s, words, &mut scratch.last, &mut Unpatched, sink);
            true
        } else if !patches_of(s, group, words.n, bitmap, strings, scratch) {
            false
        } else if group.has_narrow_patches() {
            unpack_patched(s, group, words, &mut scratch.last, bitmap, &scratch.bytes[0], sink)
        } else {
            unpack_patched(s, group, words, &mut scratch.last, bitmap, &scratch.words[0], sink)
        };
        if !is_sound {
            return Err(damage("a wrong number of patches"));
        }
        packed = &packed[words.n_bytes..];
        strings = behind;
    }
    Ok(bytes.len() - strings.len())
}

outlined! {
    /// Like [`read_rows`], but stores to `numbers`, which has room for whole rows.
    ///
    /// # Errors
    /// Those of [`read_rows`].
    pub fn read<'a, W>(
        s,
        bytes: &'a [u8],
        n: usize,
        numbers: &'a mut [W],
        scratch: &'a mut Scratch<W>,
    ) -> Result<usize> {
        read_rows(s, bytes, n, scratch, &mut Stored(numbers))
    }
}

/// The packed bits of a group.
#[derive(Clone, Copy)]
struct Packed<'a> {
    /// The packed bits and everything after them.
    bytes: &'a [u8],
    n_bytes: usize,
    width: u32,
    /// Numbers of the group.
    n: usize,
}

/// A copy of the last packed words: at most a whole row and a row of half words, made whole,
/// followed by zeros.
pub type LastWords = [u8; 3 * LANES * size_of::<u64>()];

/// Unpacks a group.
#[inline(always)]
fn unpack<W: Word, S: Simd<W>>(
    s: S,
    packed: Packed,
    last: &mut LastWords,
    patches: &mut impl Patching<W, S>,
    sink: &mut impl RowSink<W, S>,
) {
    let Packed { bytes, n_bytes, width, n } = packed;
    let n_rows = n.div_ceil(LANES);
    let row_bytes = LANES * W::BYTES;
    let n_whole = n_bytes / row_bytes;
    let has_half = n_bytes % row_bytes > 0;
    // Numbers that begin in this many rows of words can be read, because each of these rows has
    // another one after it.
    let n_pairs = if has_half { n_whole } else { bytes.len() / row_bytes }.saturating_sub(1);
    let n_direct = n_rows.min((n_pairs * W::BITS as usize).div_ceil(width.max(1) as usize));
    let (mut bit, mut n) = (0, n_direct);
    // A loop, because `unpack_rows` is inlined.
    for is_last in [false, true] {
        if is_last {
            if n_direct == n_rows {
                return;
            }
            // The rest is read from a copy, in which half words are made whole and zeros follow.
            last.fill(0);
            let (whole, half) = bytes[n_pairs * row_bytes..n_bytes].split_at((n_whole - n_pairs) * row_bytes);
            last[..whole.len()].copy_from_slice(whole);
            for i in 0..half.len() / 4 {
                last[whole.len() + i * W::BYTES..][..4].copy_from_slice(&half[4 * i..][..4]);
            }
            bit = n_direct * width as usize - n_pairs * W::BITS as usize;
            n = n_rows - n_direct;
        }
        let words = if is_last { &last[..] } else { bytes };
        unpack_rows(s, words, bit, width, n, patches, sink);
    }
}

/// Unpacks contiguous rows of numbers, which begin with this bit of the words.
#[inline(always)]
fn unpack_rows<W: Word, S: Simd<W>>(
    s: S,
    words: &[u8],
    mut bit: usize,
    width: u32,
    n_rows: usize,
    patches: &mut impl Patching<W, S>,
    sink: &mut impl RowSink<W, S>,
) {
    let mask = s.splat(W::low_mask(width));
    let row_bytes = LANES * W::BYTES;
    let zero = s.splat(W::default());
    let (mut low, mut high) = (zero, zero);
    // The row of words in which the numbers before began.
    let mut before = 0;
    for row in 0..n_rows {
        // Branches would be unpredictable, so always combine the words in which the numbers begin
        // with the next words. These contribute nothing where they are not needed, and may then be
        // arbitrary.
        let from = bit / W::BITS as usize;
        let words = &words[from * row_bytes..][..2 * row_bytes];
        low = if row == 0 { s.load_bytes(words) } else { s.reload_bytes(words, from != before, high, low) };
        high = s.load_bytes(&words[row_bytes..]);
        before = from;
        let low_bits = s.and(s.shift_pair_right(low, high, bit as u32 % W::BITS), mask);
        sink.take(s, patches.row(s, low_bits));
        bit += width as usize;
    }
}

/// Handles the patches while a group is unpacked.
trait Patching<W: Word, S: Simd<W>> {
    /// Completes the next row of a group, given its low bits.
    fn row(&mut self, s: S, low_bits: S::Row) -> S::Row;
}

/// There are no patches.
struct Unpatched;

impl<W: Word, S: Simd<W>> Patching<W, S> for Unpatched {
    #[inline(always)]
    fn row(&mut self, _: S, low_bits: S::Row) -> S::Row {
        low_bits
    }
}

/// Adds the patches.
struct Patched<'a, P> {
    /// The bitmap of the next rows, a u32 for each.
    bitmap: &'a [u8],
    patches: &'a Patches<P>,
    width: u32,
    n: usize,
}

impl<W: Word, S: Simd<W>, P: Patch<W, S>> Patching<W, S> for Patched<'_, P> {
    #[inline(always)]
    fn row(&mut self, s: S, low_bits: S::Row) -> S::Row {
        let (mask, rest) = self.bitmap.split_at(4);
        let mask = u32::read(mask);
        self.bitmap = rest;
        // There are never more patches than numbers before a row, but the compiler does not know
        // that.
        let from = &self.patches[self.n.min(GROUP)..];
        self.n += mask.count_ones() as usize;
        s.or(low_bits, s.shift_left(P::expand(s, mask, from), self.width))
    }
}

outlined! {
    /// Reads the patches of a group of `n` numbers to `scratch`; their strings start at `string`.
    /// False if the marks do not match the group.
    fn patches_of<'a, W>(
        s,
        group: &'a Group,
        n: usize,
        bitmap: &'a [u8],
        string: &'a [u8],
        scratch: &'a mut Scratch<W>,
    ) -> bool {
        // No number after the last one may be marked.
        let last_row = (n - 1) / LANES;
        let has_more = u32::read(&bitmap[4 * last_row..]) & !first_lanes(n - last_row * LANES) != 0;
        !has_more
            && match group.has_narrow_patches() {
                true => read_patches(s, group, &mut scratch.bytes, string),
                false => read_patches(s, group, &mut scratch.words, string),
            }
    }
}

/// Unpacks a group with patches. False if the marks do not match the group.
#[inline(always)]
fn unpack_patched<W: Word, S: Simd<W>, P: Patch<W, S>>(
    s: S,
    group: &Group,
    packed: Packed,
    last: &mut LastWords,
    bitmap: &[u8],
    patches: &Patches<P>,
    sink: &mut impl RowSink<W, S>,
) -> bool {
    let mut patched = Patched { bitmap, patches, width: group.width, n: 0 };
    unpack(s, packed, last, &mut patched, sink);
    patched.n == group.n_patched
}

/// Reads the patches of a group from the start of `string`. False if the marks do not match the
/// group.
#[inline(always)]
fn read_patches<W: Word, S: Simd<W>, P: Patch<W, S>>(
    s: S,
    group: &Group,
    [patches, more]: &mut [Patches<P>; 2],
    string: &[u8],
) -> bool {
    let [first, marks, _] = group.patch_bytes();
    P::read_string(s, string, patches, group.n_patched, 0, group.patch);
    if group.second_patch == 0 {
        return true;
    }
    let (marks, second) = string[first..].split_at(marks);
    P::read_string(s, second, more, group.n_patched_twice, group.patch, group.second_patch);
    let (mut at, mut n) = (0, 0);
    for marks in marks.chunks(4) {
        let mask = match marks.first_chunk() {
            Some(mask) => u32::from_le_bytes(*mask),
            None => last_bytes(marks) as u32,
        };
        // No number after the last one may be marked.
        if mask & !first_lanes(group.n_patched - at) != 0 || n > group.n_patched_twice {
            return false;
        }
        P::add_expanded(s, mask, &more[n..], &mut patches[at..]);
        n += mask.count_ones() as usize;
        at += LANES;
    }
    n == group.n_patched_twice
}
