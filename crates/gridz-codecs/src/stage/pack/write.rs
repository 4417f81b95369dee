//! Chooses the widths of groups, and packs these.

use crate::stage::bits::string_bytes;
use crate::stage::pack::patches::{Patch, Patches, write_start};
use crate::stage::pack::{GROUP, Group, HEADER, MAX_GROUPS, Scratch, packed_bytes};
use crate::stage::rows::{LANES, LENGTHS, Prefetcher, Simd, outlined};
use crate::stage::word::Word;

/// Rounds of the search for widths.
const ROUNDS: usize = 3;

impl Group {
    /// Chooses the widths for a group of `n` numbers. `above[k]` of them are longer than k bits,
    /// for k from `shortest` to `longest`, which no number exceeds.
    #[inline(always)]
    fn choose(n: usize, above: &[u32; 65], shortest: u32, longest: u32) -> Self {
        let rows = n.div_ceil(LANES);
        let count = |k: u32| above[k as usize] as usize;
        let mut best = packed_bytes(rows, longest);
        let (mut width, mut second) = (longest, longest);
        for _ in 0..ROUNDS {
            let before = best;
            // The part that does not depend on the first width.
            let rest = match second < longest {
                true => string_bytes(count(second), longest - second),
                false => 0,
            };
            let has_bitmap = usize::from(second < longest);
            for k in (shortest..second).rev() {
                let patches = string_bytes(count(k), second - k) + has_bitmap * string_bytes(count(k), 1);
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
                break; // the next round would not improve it either
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
}

/// How some numbers will be coded.
pub struct Coding {
    groups: [Group; MAX_GROUPS],
    n: usize,
    n_bytes: usize,
    /// How many numbers are not zero, unless more than 15 of 16 are so in any group; and the bits
    /// of the longest number.
    n_nonzero: Option<usize>,
    longest: u32,
}

impl Coding {
    /// Bytes of the numbers.
    #[inline(always)]
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// How many numbers are not zero, and the bits of the longest. `None` if more than 15 of 16 are
    /// not zero in any group.
    #[inline(always)]
    pub fn nonzero(&self) -> Option<(usize, u32)> {
        self.n_nonzero.map(|n| (n, self.longest))
    }
}

outlined! {
    /// Chooses the coding of `n` numbers; zeros pad their last row.
    pub fn choose<'a, W>(s, numbers: &'a [W], n: usize, scratch: &'a mut Scratch<W>) -> Coding {
        let groups = [Group::default(); MAX_GROUPS];
        let mut coding = Coding { groups, n, n_bytes: 0, n_nonzero: Some(0), longest: 0 };
        let mut start = 0;
        for group in &mut coding.groups {
            if start >= n {
                break;
            }
            let size = (n - start).min(GROUP);
            let numbers = &numbers[start..start + size.next_multiple_of(LANES)];
            let (longest, above) = widths(s, numbers, size, &mut scratch.lengths, group);
            coding.longest = coding.longest.max(longest);
            coding.n_nonzero = coding.n_nonzero.zip(above).map(|(n, above)| n + above);
            let [first, marks, second] = group.patch_bytes();
            coding.n_bytes += HEADER + group.packed_bytes(size) + group.bitmap_bytes(size) + first + marks + second;
            start += GROUP;
        }
        coding
    }

    /// Writes the numbers that [`choose`] saw to `out`, which has exactly [`Coding::n_bytes`].
    /// Prefetches a line of `ahead` for each row.
    pub fn write<'a, W, P: Prefetcher>(
        s,
        coding: &'a Coding,
        numbers: &'a [W],
        scratch: &'a mut Scratch<W>,
        out: &'a mut [u8],
        ahead: &'a mut P,
    ) {
        let groups = &coding.groups[..coding.n.div_ceil(GROUP)];
        let size = |g: usize| (coding.n - g * GROUP).min(GROUP);
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
                write_patched(s, group, numbers, &mut scratch.bytes, [bits, bitmap, string], ahead);
            } else {
                write_patched(s, group, numbers, &mut scratch.words, [bits, bitmap, string], ahead);
            }
        }
    }
}

/// Chooses the widths of a group of `n` numbers, which zeros pad to whole rows. Returns the longest
/// length, and how many numbers are not zero, unless these are more than 15 of 16.
#[inline(always)]
fn widths<W: Word, S: Simd<W>>(
    s: S,
    numbers: &[W],
    n: usize,
    lengths: &mut [u8; LENGTHS],
    group: &mut Group,
) -> (u32, Option<usize>) {
    if n < GROUP {
        lengths.fill(0);
    }
    let longest = s.lengths(numbers, lengths);
    let mut above = [0; 65];
    // With fewer bits, nearly all numbers would be patched.
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
    *group = Group::choose(n, &above, shortest, longest);
    (longest, (shortest == 0).then_some(above[0] as usize))
}

/// Handles the patches while a group is packed.
trait Patching<W: Word, S: Simd<W>> {
    /// Handles the next row of the group.
    fn row(&mut self, s: S, row: S::Row);
}

/// There are no patches.
struct Unpatched;

impl<W: Word, S: Simd<W>> Patching<W, S> for Unpatched {
    #[inline(always)]
    fn row(&mut self, _: S, _: S::Row) {}
}

/// Marks the patches and stores them contiguously.
struct Patched<'a, P> {
    /// The bitmap of the rows, a u32 for each.
    bitmap: &'a mut [u8],
    patches: &'a mut Patches<P>,
    width: u32,
    row: usize,
    n: usize,
}

impl<W: Word, S: Simd<W>, P: Patch<W, S>> Patching<W, S> for Patched<'_, P> {
    #[inline(always)]
    fn row(&mut self, s: S, row: S::Row) {
        let longer = s.gt_mask(row, W::low_mask(self.width));
        longer.write(&mut self.bitmap[4 * self.row..]);
        P::compress_above(s, longer, row, self.width, &mut self.patches[self.n..]);
        self.row += 1;
        self.n += longer.count_ones() as usize;
    }
}

/// Packs the low bits of whole rows.
#[inline(always)]
fn pack<W: Word, S: Simd<W>>(
    s: S,
    numbers: &[W],
    width: u32,
    out: &mut [u8],
    patches: &mut impl Patching<W, S>,
    ahead: &mut impl Prefetcher,
) {
    let mask = s.splat(W::low_mask(width));
    let mut words = s.splat(W::default());
    let (mut n_bits, mut to) = (0, 0);
    let mut at = 0;
    while at < numbers.len() {
        ahead.prefetch_next(s);
        let row = s.load(&numbers[at..]);
        patches.row(s, row);
        let low = s.and(row, mask);
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

/// Packs numbers, marks those longer than the group's width in `bitmap`, and writes their bits
/// above this width.
#[inline(always)]
fn write_patched<W: Word, S: Simd<W>, P: Patch<W, S>>(
    s: S,
    group: &Group,
    numbers: &[W],
    [patches, more]: &mut [Patches<P>; 2],
    [packed, bitmap, string]: [&mut [u8]; 3],
    ahead: &mut impl Prefetcher,
) {
    let mut rows = Patched { bitmap, patches, width: group.width, row: 0, n: 0 };
    pack(s, numbers, group.width, packed, &mut rows, ahead);
    let n = rows.n;
    // Up to a row of patches is read after the last one.
    patches[n..n + LANES].fill(P::default());
    let [first, marks, _] = group.patch_bytes();
    let (first, rest) = string.split_at_mut(first);
    P::write_string(s, first, patches, n, 0, group.patch);
    if group.second_patch == 0 {
        return;
    }
    let (marks, second) = rest.split_at_mut(marks);
    let (mut at, mut n_more) = (0, 0);
    for marks in marks.chunks_mut(4) {
        let row = &patches[at..];
        let longer = P::longer(s, row, group.patch);
        match marks.first_chunk_mut() {
            Some(marks) => *marks = longer.to_le_bytes(),
            None => write_start(longer.into(), marks),
        }
        P::compress(s, longer, row, &mut more[n_more..]);
        n_more += longer.count_ones() as usize;
        at += LANES;
    }
    more[n_more..n_more + LANES].fill(P::default());
    P::write_string(s, second, more, n_more, group.patch, group.second_patch);
}
