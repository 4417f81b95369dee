//! Part of a chunk: a box of the array in a frame.
//!
//! A codec whose blocks stand alone decodes those that the box touches. Folding has merged leading axes for the
//! codec, so a box of the array is one box for it, or one for each place on the outer merged axes; what they
//! give lies in order in the destination. Other codecs decode the whole array, of which the box is then copied.

use std::time::Instant;

use crate::codec::registry::Entry;
use crate::engine::context::Context;
use crate::engine::{
    CPU, STORED, Verify, array_bytes, check_payload, decode, entry_of, is_swapped, job, log, swap_bytes, too_small,
};
use crate::error::{Error, Result};
use crate::format::fold::Fold;
use crate::format::header::Header;
use crate::types::{MAX_RANK, Shape};

/// Decompresses the elements from `start` on, `count` of them along each axis of the array in `frame`, to the start of `dst`,
/// in C order, and returns their bytes. After an error the contents of `dst` are unspecified.
///
/// Unless only structure is verified, the bytes that are decoded are compared with their checksums: of `lorenzo` those of
/// the blocks that the region touches, of `stored` none, of other codecs the payload's.
///
/// # Errors
/// `InvalidArgument` if the region is not one of the array, `DstTooSmall` if it does not fit, `Truncated`, `Corrupt`,
/// `UnsupportedFormat`, `OutOfMemory`.
pub fn decompress_region(
    frame: &[u8],
    start: &[u64],
    count: &[u64],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<usize> {
    let header = Header::parse(frame)?;
    let (array, entry) = (&header.array, entry_of(&header)?);
    let payload = &frame[header.n_bytes()..];
    check_payload(&header, payload.len() as u64)?;
    let region = Region::new(array.shape(), start, count)?;
    // Not more elements than the array has, whose bytes fit.
    let n_bytes = region.n_elements() * u64::from(array.element_size());
    let have = dst.len() as u64;
    let dst = dst.get_mut(..n_bytes as usize).ok_or_else(|| too_small(have, n_bytes))?;
    if dst.is_empty() {
        return Ok(0);
    }
    let begin = Instant::now();
    if entry.id == STORED {
        if payload.len() as u64 != array.n_bytes() || !header.params.is_empty() {
            return Err(Error::corrupt("a stored payload is not as long as its array"));
        }
        region.copy(payload, array.element_size() as usize, dst);
    } else if !decode_boxes(&header, entry, payload, &region, dst, verify, context)? {
        let mut whole = context.scratch(array_bytes(frame, None)? as usize)?;
        decode(&header, entry, payload, &mut whole, verify, context)?;
        region.copy(&whole, array.element_size() as usize, dst);
    } else if is_swapped(array, entry) {
        swap_bytes(dst, array.dtype());
    }
    log("decompressed a region of", array, entry.name, (frame.len() as u64, n_bytes), begin, CPU);
    Ok(n_bytes as usize)
}

/// Decodes only what the region needs; false if the codec cannot.
fn decode_boxes(
    header: &Header,
    entry: &Entry,
    payload: &[u8],
    region: &Region,
    mut dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<bool> {
    if header.fold != Fold::Merge {
        return Ok(false);
    }
    let array = &header.array;
    let job = job(array, entry, header.fold, header.params, verify == Verify::Checksum, context)?;
    for (origin, count) in region.folded(entry.codec.max_rank()) {
        let n_bytes = count.iter().product::<u64>() * u64::from(array.element_size());
        let (part, rest) = dst.split_at_mut(n_bytes as usize);
        dst = rest;
        match entry.codec.decode_box(&job, payload, &origin, &count, part) {
            None => return Ok(false),
            Some(result) => result?,
        }
    }
    Ok(true)
}

/// Along one axis: its extent, the first place and the number of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    extent: u64,
    start: u64,
    count: u64,
}

/// A box in an array.
struct Region {
    spans: Vec<Span>,
}

impl Region {
    fn new(shape: &Shape, start: &[u64], count: &[u64]) -> Result<Self> {
        let rank = shape.extents().len();
        if start.len() != rank || count.len() != rank {
            let given = start.len().max(count.len()).min(MAX_RANK + 1);
            return Err(Error::invalid(format!("a region of rank {given} in an array of rank {rank}")));
        }
        let mut spans = Vec::with_capacity(rank);
        for (axis, ((&extent, &start), &count)) in shape.extents().iter().zip(start).zip(count).enumerate() {
            if start > extent || count > extent - start {
                let text = format!("a region of {count} from {start} on along axis {axis}, which has {extent}");
                return Err(Error::invalid(text));
            }
            spans.push(Span { extent, start, count });
        }
        Ok(Self { spans })
    }

    fn n_elements(&self) -> u64 {
        self.spans.iter().map(|span| span.count).product()
    }

    /// Origins and extents of boxes in the array with merged leading axes, in the order of the region. The region
    /// is not empty.
    fn folded(&self, max_rank: usize) -> impl Iterator<Item = (Vec<u64>, Vec<u64>)> + use<> {
        let mut spans: Vec<Span> = self.spans.iter().copied().filter(|span| span.extent != 1).collect();
        if spans.is_empty() {
            spans.push(Span { extent: 1, start: 0, count: 1 });
        }
        let inner = spans.split_off(spans.len().saturating_sub(max_rank));
        places(&spans).map(move |outer| {
            let mut origin: Vec<u64> = inner.iter().map(|span| span.start).collect();
            origin[0] += outer * inner[0].extent;
            (origin, inner.iter().map(|span| span.count).collect())
        })
    }

    /// Copies the region's elements from all of the array's.
    fn copy(&self, array: &[u8], element_bytes: usize, dst: &mut [u8]) {
        let scalar = Span { extent: 1, start: 0, count: 1 };
        let (&row, outer) = self.spans.split_last().unwrap_or((&scalar, &[]));
        let row_bytes = row.count as usize * element_bytes;
        for (place, to) in places(outer).zip(dst.chunks_exact_mut(row_bytes)) {
            let from = (place * row.extent + row.start) as usize * element_bytes;
            to.copy_from_slice(&array[from..from + row_bytes]);
        }
    }
}

/// The places of a box in an array, as numbers of elements from its start.
fn places(spans: &[Span]) -> impl Iterator<Item = u64> + use<> {
    let spans = spans.to_vec();
    let n_places: u64 = spans.iter().map(|span| span.count).product();
    (0..n_places).map(move |mut number| {
        let (mut place, mut stride) = (0, 1);
        for span in spans.iter().rev() {
            place += (span.start + number % span.count) * stride;
            number /= span.count;
            stride *= span.extent;
        }
        place
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(extents: &[u64], start: &[u64], count: &[u64]) -> Region {
        Region::new(&Shape::new(extents).unwrap(), start, count).unwrap()
    }

    #[test]
    fn boxes_follow_the_fold() {
        let boxes = |region: Region| region.folded(3).collect::<Vec<_>>();
        assert_eq!(boxes(region(&[], &[], &[])), [(vec![0], vec![1])]);
        assert_eq!(boxes(region(&[1, 9, 1], &[0, 2, 0], &[1, 5, 1])), [(vec![2], vec![5])]);
        assert_eq!(boxes(region(&[4, 5, 6], &[1, 2, 3], &[2, 3, 1])), [(vec![1, 2, 3], vec![2, 3, 1])]);
        // 3 × 4 planes of 5 × 6.
        let of_rank_4 = boxes(region(&[3, 4, 5, 6], &[1, 1, 0, 2], &[2, 3, 5, 1]));
        assert_eq!(of_rank_4, [(vec![5, 0, 2], vec![3, 5, 1]), (vec![9, 0, 2], vec![3, 5, 1])]);
        assert_eq!(boxes(region(&[2, 2, 2, 5, 6], &[0; 5], &[2, 2, 1, 5, 6])).len(), 4);
    }

    #[test]
    fn copies_are_the_elements() {
        let array: Vec<u8> = (0..60).collect();
        let mut dst = [0; 8];
        region(&[3, 4, 5], &[1, 2, 3], &[2, 2, 2]).copy(&array, 1, &mut dst);
        assert_eq!(dst, [33, 34, 38, 39, 53, 54, 58, 59]);
        region(&[], &[], &[]).copy(&array, 8, &mut dst);
        assert_eq!(dst, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn regions_beyond_the_array_are_refused() {
        let new = |start: &[u64], count: &[u64]| Region::new(&Shape::new(&[4, 5]).unwrap(), start, count);
        for (start, count) in
            [(&[0][..], &[1][..]), (&[0, 0], &[5, 1]), (&[5, 0], &[0, 1]), (&[1, 1], &[u64::MAX, 1])]
        {
            assert!(new(start, count).is_err(), "{start:?} {count:?}");
        }
        assert!(new(&[4, 5], &[0, 0]).is_ok());
    }
}
