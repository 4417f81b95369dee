//! The patches of a group: bytes if all of them fit, which is nearly always so, else words.

use crate::stage::bits::{Writer, peek};
use crate::stage::pack::GROUP;
use crate::stage::rows::{LANES, Simd};
use crate::stage::word::Word;

/// A group's patches, followed by room for a row.
pub type Patches<P> = [P; GROUP + LANES];

/// A patch: the bits of a number from some bit on. Masks are those of [`Simd`].
pub trait Patch<W: Word, S: Simd<W>>: Copy + Default {
    /// Compresses the patches of the numbers in a mask, which are the bits above their `width` low
    /// bits; `width` is below the bits of a word. May overwrite 32 patches, as may
    /// [`Patch::compress`].
    fn compress_above(s: S, mask: u32, numbers: S::Row, width: u32, to: &mut [Self]);
    /// Expands the next patches to the lanes of a mask, with zeros elsewhere. `from` has at least
    /// 32 patches, also in the other functions.
    fn expand(s: S, mask: u32, from: &[Self]) -> S::Row;
    /// Mask of the first 32 patches that have more than `width` bits.
    fn longer(s: S, patches: &[Self], width: u32) -> u32;
    /// Compresses the patches of a mask.
    fn compress(s: S, mask: u32, from: &[Self], to: &mut [Self]);
    /// Combines the patches of a mask by OR with the next patches of `from`.
    fn add_expanded(s: S, mask: u32, from: &[Self], to: &mut [Self]);
    /// Writes `width` bits of each of the first `n` patches, from bit `shift` on. Zeros follow
    /// these patches.
    fn write_string(s: S, out: &mut [u8], patches: &Patches<Self>, n: usize, shift: u32, width: u32);
    /// Reads `n` fields of `width` bits, at least one, to bit `shift` of patches. The patches after
    /// them become arbitrary.
    fn read_string(s: S, string: &[u8], patches: &mut Patches<Self>, n: usize, shift: u32, width: u32);
}

impl<W: Word, S: Simd<W>> Patch<W, S> for u8 {
    #[inline(always)]
    fn compress_above(s: S, mask: u32, numbers: S::Row, width: u32, to: &mut [u8]) {
        s.compress_low_bytes(mask, numbers, width, to);
    }
    #[inline(always)]
    fn expand(s: S, mask: u32, from: &[u8]) -> S::Row {
        s.expand_low_bytes(mask, from)
    }
    #[inline(always)]
    fn longer(s: S, patches: &[u8], width: u32) -> u32 {
        s.gt_mask_bytes(patches, (1 << width) - 1)
    }
    #[inline(always)]
    fn compress(s: S, mask: u32, from: &[u8], to: &mut [u8]) {
        s.compress_bytes(mask, from, to);
    }
    #[inline(always)]
    fn add_expanded(s: S, mask: u32, from: &[u8], to: &mut [u8]) {
        s.expand_bytes(mask, from, to);
    }
    #[inline(always)]
    fn write_string(s: S, out: &mut [u8], patches: &Patches<u8>, n: usize, shift: u32, width: u32) {
        let mut to = 0;
        for eight in patches[..n.next_multiple_of(8)].as_chunks::<8>().0 {
            // Eight patches are as many bytes as a patch has bits. The next ones overwrite the
            // zeros after these bytes.
            let bits = s.pext(u64::from_le_bytes(*eight) >> shift, width);
            let out = out.get_mut(to..).unwrap_or_default();
            match out.first_chunk_mut() {
                Some(out) => *out = bits.to_le_bytes(),
                None => write_start(bits, out),
            }
            to += width as usize;
        }
    }
    #[inline(always)]
    fn read_string(s: S, string: &[u8], patches: &mut Patches<u8>, n: usize, shift: u32, width: u32) {
        let mut from = 0;
        for eight in patches[..n.next_multiple_of(8)].as_chunks_mut::<8>().0 {
            let rest = string.get(from..).unwrap_or_default();
            let bits = match rest.first_chunk() {
                Some(bits) => u64::from_le_bytes(*bits),
                None => last_bytes(rest),
            };
            *eight = (s.pdep(bits, width) << shift).to_le_bytes();
            from += width as usize;
        }
    }
}

/// Writes the lowest bytes until `out` is full.
#[inline(never)]
pub fn write_start(bits: u64, out: &mut [u8]) {
    out.copy_from_slice(&bits.to_le_bytes()[..out.len()]);
}

/// Fewer than eight bytes, padded with zeros.
#[inline(never)]
pub fn last_bytes(rest: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(bytes)
}

impl<W: Word, S: Simd<W>> Patch<W, S> for W {
    #[inline(always)]
    fn compress_above(s: S, mask: u32, numbers: S::Row, width: u32, to: &mut [W]) {
        s.compress(mask, s.shift_right(numbers, width), to);
    }
    #[inline(always)]
    fn expand(s: S, mask: u32, from: &[W]) -> S::Row {
        s.expand(mask, from)
    }
    #[inline(always)]
    fn longer(s: S, patches: &[W], width: u32) -> u32 {
        s.gt_mask(s.load(patches), W::low_mask(width))
    }
    #[inline(always)]
    fn compress(s: S, mask: u32, from: &[W], to: &mut [W]) {
        s.compress(mask, s.load(from), to);
    }
    #[inline(always)]
    fn add_expanded(s: S, mask: u32, from: &[W], to: &mut [W]) {
        s.store(s.or(s.load(to), s.expand(mask, from)), to);
    }
    #[inline(always)]
    fn write_string(_: S, out: &mut [u8], patches: &Patches<W>, n: usize, shift: u32, width: u32) {
        match width {
            0..=16 => write_fields::<W, 4>(out, &patches[..n], shift, width),
            17..=32 => write_fields::<W, 2>(out, &patches[..n], shift, width),
            _ => write_fields::<W, 1>(out, &patches[..n], shift, width),
        }
    }
    #[inline(always)]
    fn read_string(s: S, string: &[u8], patches: &mut Patches<W>, n: usize, shift: u32, width: u32) {
        if width > W::BITS - 7 {
            for (i, patch) in patches[..n].iter_mut().enumerate() {
                *patch = (W::from_u64(peek(string, i * width as usize)) & W::low_mask(width)) << shift;
            }
            return;
        }
        let n_bytes = LANES * W::BYTES;
        let (mut at, mut from) = (0, 0);
        while at < n {
            let rest = &string[from..];
            let row = if rest.len() >= n_bytes {
                s.unpack_bits(rest, width)
            } else {
                let mut last = [0; LANES * size_of::<u64>()];
                last[..rest.len()].copy_from_slice(rest);
                s.unpack_bits(&last, width)
            };
            s.store(s.shift_left(row, shift), &mut patches[at..]);
            at += LANES;
            from += LANES * width as usize / 8;
        }
    }
}

/// Writes `width` bits, at least one, of each patch from bit `shift` on. Joins `N` patches at a
/// time, which have at most 64 bits together.
#[inline(always)]
fn write_fields<W: Word, const N: usize>(out: &mut [u8], patches: &[W], shift: u32, width: u32) {
    let mask = W::low_mask(width);
    let mut writer = Writer::new(out);
    let (several, rest) = patches.as_chunks::<N>();
    for several in several {
        let mut bits = 0;
        for (k, &patch) in (0..).zip(several) {
            bits |= (patch >> shift & mask).to_u64() << (k * width);
        }
        writer.push(bits, N as u32 * width);
    }
    for &patch in rest {
        writer.push((patch >> shift & mask).to_u64(), width);
    }
    writer.finish();
}
