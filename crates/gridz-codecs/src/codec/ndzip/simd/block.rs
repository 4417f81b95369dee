//! Codes one block with vector instructions.

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::marker::PhantomData;

use super::{Lanes, REGISTER};
use crate::codec::ndzip::blocks::{Coder, has_its_columns};
use crate::codec::ndzip::layout::BLOCK;
use crate::codec::ndzip::scalar::WORDS;
use crate::codec::ndzip::word::FloatWord;

/// Bytes of a cache line.
const LINE: usize = 64;
/// How far ahead elements are prefetched: the CPU does not predict accesses a row or a plane apart.
/// The distance is less than a block, and the target is the second-level cache: rows whose distance
/// is a power of two share few sets of a cache.
const PLANES_AHEAD: usize = 3;
const ROWS_AHEAD: usize = 8;

/// Plane, row and first element of the row to prefetch while row `y` of plane `z` of a block is
/// processed. At the end of the block, they are those of the next block.
#[inline(always)]
fn row_ahead<const ROW: usize, const ROWS: usize, const PLANES: usize>(
    z: usize,
    y: usize,
) -> (usize, usize, usize) {
    if PLANES > 1 {
        let z = z + PLANES_AHEAD;
        (z % PLANES, y, z / PLANES * ROW)
    } else {
        let y = y + ROWS_AHEAD;
        (0, y % ROWS, y / ROWS * ROW)
    }
}

/// Encodes the block at `src`. Returns the number of words written to `out`.
///
/// # Safety
/// The CPU must have the level; `src` must be valid for reading the block's rows, and `out` for
/// writing any block.
#[inline(always)]
unsafe fn encode_block<W: FloatWord, L: Lanes<W>, const ROW: usize, const ROWS: usize, const PLANES: usize>(
    src: *const u8,
    row: usize,
    plane: usize,
    out: *mut u8,
) -> usize {
    let per_row = ROW / L::LANES;
    let per_group = W::SIDE / L::LANES;
    let at_once = size_of::<L::Batch>() / size_of::<L::Group>();
    let groups = W::GROUPS / PLANES;
    let mut masks = [W::default(); 128];
    // SAFETY: the caller's promise. Elements: row y and plane z are below ROWS and PLANES. Columns:
    // every group writes at most as many words as it has, so it ends within the largest block.
    unsafe {
        let mut to = out.add(W::GROUPS * W::BYTES);
        let mut before = L::plane_of_zeros();
        let mut above = L::plane_of_zeros();
        for z in 0..PLANES {
            if ROWS > 1 {
                above.as_mut()[..per_row].fill(L::zero());
            }
            let mut left = L::zero();
            for g in (0..groups).step_by(at_once) {
                let mut batch = L::batch_of_zeros();
                let batch = batch.as_mut();
                for i in 0..at_once * per_group {
                    let t = g * per_group + i;
                    let (y, k) = (t / per_row, t % per_row);
                    let at = src.add((z * plane + y * row + k * L::LANES) * W::BYTES);
                    let words = L::rotated_left(L::load(at));
                    if ROWS > 1 && k * L::LANES * W::BYTES % LINE == 0 {
                        let (z, y, x) = row_ahead::<ROW, ROWS, PLANES>(z, y);
                        let ahead = (z * plane + y * row + x + k * L::LANES) * W::BYTES + LINE - 1;
                        _mm_prefetch::<_MM_HINT_T1>(src.wrapping_add(ahead).cast());
                    }
                    let mut d = L::sub(words, L::shift_in(words, if k == 0 { L::zero() } else { left }));
                    left = words;
                    if ROWS > 1 {
                        let above = &mut above.as_mut()[k];
                        (d, *above) = (L::sub(d, *above), d);
                    }
                    if PLANES > 1 {
                        let before = &mut before.as_mut()[t];
                        (d, *before) = (L::sub(d, *before), d);
                    }
                    batch[i / per_group].as_mut()[i % per_group] = L::fold_signs(d);
                }
                for group in &mut *batch {
                    *group = L::transpose(*group);
                }
                for (i, &columns) in batch.iter().enumerate() {
                    masks[z * groups + g + i] = L::pack(columns, &mut to);
                }
            }
        }
        // The highest bit of a head is that of the first column.
        for (i, mask) in masks[..W::GROUPS].iter().enumerate() {
            out.add(i * W::BYTES).cast::<W>().write_unaligned(mask.reversed());
        }
        to.offset_from_unsigned(out) / W::BYTES
    }
}

/// Decodes the block at `stream` into the bands, from word `offset` on. `bands` points to the first
/// byte of each band.
///
/// # Safety
/// The CPU must support the instructions of `L`. [`REGISTER`] bytes beyond the length that the heads
/// state must be readable at `stream`, and the block's rows must be writable in the bands.
#[inline(always)]
pub unsafe fn decode_block<W: FloatWord, L: Lanes<W>, const ROW: usize, const ROWS: usize, const PLANES: usize>(
    stream: *const u8,
    bands: &mut [&mut [u8]],
    offset: usize,
    row: usize,
) {
    let per_row = ROW / L::LANES;
    let per_group = W::SIDE / L::LANES;
    let at_once = size_of::<L::Batch>() / size_of::<L::Group>();
    let groups = W::GROUPS / PLANES;
    let mut masks = [W::default(); 128];
    let planes: [*mut u8; PLANES] = std::array::from_fn(|z| bands[z].as_mut_ptr());
    // SAFETY: the caller's promise. The masks have as many ones as the heads, so no group begins
    // beyond the block.
    unsafe {
        for (i, mask) in masks[..W::GROUPS].iter_mut().enumerate() {
            *mask = stream.add(i * W::BYTES).cast::<W>().read_unaligned().reversed();
        }
        let mut from = stream.add(W::GROUPS * W::BYTES);
        let (mut before, mut above) = (L::plane_of_zeros(), L::plane_of_zeros());
        for z in 0..PLANES {
            let to = planes[z].add(offset * W::BYTES);
            if ROWS > 1 {
                above.as_mut()[..per_row].fill(L::zero());
            }
            let mut left = L::zero();
            for g in (0..groups).step_by(at_once) {
                let mut batch = L::batch_of_zeros();
                let batch = batch.as_mut();
                for (i, columns) in batch.iter_mut().enumerate() {
                    *columns = L::unpack(masks[z * groups + g + i], &mut from);
                }
                for group in &mut *batch {
                    *group = L::transpose(*group);
                    for words in group.as_mut() {
                        *words = L::fold_signs(*words);
                    }
                }
                L::prefix_sum(batch);
                for i in 0..at_once * per_group {
                    let t = g * per_group + i;
                    let (y, k) = (t / per_row, t % per_row);
                    let mut sums = batch[i / per_group].as_ref()[i % per_group];
                    if per_row > 1 {
                        // The sum of all vectors to the left is carried without waiting for `sums`.
                        let carried = if k == 0 { L::zero() } else { left };
                        left = L::add(carried, L::last(sums));
                        sums = L::add(carried, sums);
                    }
                    if ROWS > 1 {
                        let above = &mut above.as_mut()[k];
                        *above = L::add(*above, sums);
                        sums = *above;
                    }
                    if PLANES > 1 {
                        let before = &mut before.as_mut()[t];
                        *before = L::add(*before, sums);
                        sums = *before;
                    }
                    if ROWS > 1 && k * L::LANES * W::BYTES % LINE == 0 {
                        let (z, y, x) = row_ahead::<ROW, ROWS, PLANES>(z, y);
                        let ahead = (offset + y * row + x + k * L::LANES) * W::BYTES + LINE - 1;
                        _mm_prefetch::<_MM_HINT_T1>(planes[z].wrapping_add(ahead).cast());
                    }
                    L::store(L::rotated_right(sums), to.add((y * row + k * L::LANES) * W::BYTES));
                }
            }
        }
    }
}

/// [`decode_block`], compiled for a level.
pub type DecodeBlock = unsafe fn(*const u8, &mut [&mut [u8]], usize, usize);

/// The coder of a level. Blocks are decoded by a call, because several loops decode them.
pub struct Vectors<W: FloatWord, L: Lanes<W>>(DecodeBlock, PhantomData<(W, L)>);

impl<W: FloatWord, L: Lanes<W>> Vectors<W, L> {
    /// # Safety
    /// The CPU must have the level, and `decode` must be [`decode_block`] with the coder's parameters.
    #[inline(always)]
    pub unsafe fn new(decode: DecodeBlock) -> Self {
        Self(decode, PhantomData)
    }
}

impl<W: FloatWord, L: Lanes<W>, const ROW: usize, const ROWS: usize, const PLANES: usize>
    Coder<W, ROW, ROWS, PLANES> for Vectors<W, L>
{
    #[inline(always)]
    fn encode(&mut self, src: &[u8], row: usize, plane: usize, out: &mut [u8]) -> usize {
        let n_elements = (PLANES - 1) * plane + (ROWS - 1) * row + ROW;
        assert!(src.len() >= n_elements * W::BYTES && out.len() >= (W::GROUPS + BLOCK) * W::BYTES);
        // SAFETY: the assertion above checks both lengths; the caller of `new` has promised the
        // level.
        let n_words =
            unsafe { encode_block::<W, L, ROW, ROWS, PLANES>(src.as_ptr(), row, plane, out.as_mut_ptr()) };
        n_words * W::BYTES
    }

    #[inline(always)]
    fn decode(
        &mut self,
        stream: &[u8],
        n_bytes: usize,
        bands: &mut [&mut [u8]],
        offset: usize,
        row: usize,
    ) -> bool {
        if !has_its_columns::<W>(&stream[..n_bytes]) {
            return false;
        }
        let band_bytes = (offset + (ROWS - 1) * row + ROW) * W::BYTES;
        assert!(bands.len() == PLANES && bands.iter().all(|band| band.len() >= band_bytes));
        let mut copy;
        let stream = if stream.len() >= n_bytes + REGISTER {
            stream
        } else {
            // The payload ends soon, and nothing after its end may be read.
            copy = [0; WORDS * 8 + REGISTER];
            copy[..n_bytes].copy_from_slice(&stream[..n_bytes]);
            &copy
        };
        // SAFETY: the block has the columns of its heads, and the bands have its rows; the caller
        // of `new` has promised the level.
        unsafe { self.0(stream.as_ptr(), bands, offset, row) }
        true
    }
}
