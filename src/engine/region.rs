//! Part of a chunk: a box of the array in a frame.
//!
//! A codec whose blocks stand alone decodes those that the box touches. Folding has merged leading axes for the
//! codec, so a box of the array is one box for it, or one for each place on the outer merged axes that the box does not
//! cover whole; what they give lies in order in the destination. Other codecs, and many boxes in few blocks, mean
//! decoding the whole array, of which the box is then copied.

use std::time::Instant;

use crate::codec::Boxes;
use crate::codec::registry::STORED;
use crate::engine::context::Context;
use crate::engine::frame::{Verify, array_bytes, check_destination, check_payload, entry_of};
use crate::engine::memory::{Destination, Source};
use crate::engine::prepared::Prepared;
use crate::engine::{cpu, log};
use crate::error::{Error, Result};
use crate::format::fold::Fold;
use crate::format::header::Header;
use crate::types::Shape;

/// More boxes than that are not decoded one by one.
const MOST_BOXES: u64 = 4096;

/// Decompresses the elements from `start` on, `count` of them along each axis of the array in `frame`, to the start of
/// `dst`, in C order, and returns their bytes. After an error the contents of `dst` are unspecified.
///
/// Unless only structure is verified, the bytes that are decoded are compared with their checksums: of `lorenzo` those
/// of the blocks that the region touches, of `stored` none, of other codecs the payload's.
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
    decompress_region_from(Source::Host(frame), start, count, Destination::Host(dst), verify, context)
}

/// [`decompress_region`] from a source to a destination, which are in host memory as yet.
///
/// # Errors
/// As `decompress_region`; `UnsupportedJob` for memory of a GPU.
pub fn decompress_region_from(
    frame: Source,
    start: &[u64],
    count: &[u64],
    dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<usize> {
    const FUNCTION: &str = "gridz_decompress_region";
    let (frame, dst) = (frame.on_host(FUNCTION)?, dst.on_host(FUNCTION)?);
    let header = Header::parse(frame)?;
    let (array, entry) = (&header.array, entry_of(&header)?);
    let payload = &frame[header.n_bytes()..];
    check_payload(&header, payload.len() as u64)?;
    let region = Region::new(array.shape(), start, count)?;
    // Not more elements than the array has, whose bytes fit.
    let n_bytes = region.n_elements() * u64::from(array.element_size());
    check_destination(dst.len() as u64, n_bytes)?;
    let dst = &mut dst[..n_bytes as usize];
    if dst.is_empty() {
        return Ok(0);
    }
    let begin = Instant::now();
    if entry.id == STORED {
        if payload.len() as u64 != array.n_bytes() || !header.params.is_empty() {
            return Err(Error::corrupt("a stored payload is not as long as its array"));
        }
        region.copy(payload, array.element_size() as usize, dst);
    } else {
        let prepared = Prepared::of(&header)?;
        if !decode_boxes(&prepared, payload, &region, dst, verify, context)? {
            let mut whole = context.scratch(array_bytes(frame, None)? as usize)?;
            cpu::decompress(&prepared, header.payload_checksum, payload, &mut whole, verify, context)?;
            region.copy(&whole, array.element_size() as usize, dst);
        } else if prepared.is_swapped() {
            cpu::swap_bytes(dst, array.dtype());
        }
    }
    let from = frame.len() as u64;
    log::chunk("decompressed a region of", array, entry.name, (from, n_bytes), begin, log::CPU);
    Ok(n_bytes as usize)
}

/// Decodes only what the region needs; false if the codec cannot.
fn decode_boxes(
    prepared: &Prepared,
    payload: &[u8],
    region: &Region,
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<bool> {
    if prepared.fold != Fold::Merge {
        return Ok(false);
    }
    let codec = prepared.entry.codec;
    let job = cpu::job(prepared, verify, context)?;
    let Some(boxes) = region.folded(codec.max_rank()) else { return Ok(false) };
    match codec.decode_boxes(&job, payload, &boxes, dst) {
        None => Ok(false),
        Some(result) => result.map(|()| true),
    }
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
            let (start, count) = (start.len(), count.len());
            let text = format!("a region with {start} starts and {count} counts in an array of rank {rank}");
            return Err(Error::invalid(text));
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

    /// The region in the array with merged leading axes, unless those are too many boxes. It is not empty.
    fn folded(&self, max_rank: usize) -> Option<Boxes> {
        let mut spans: Vec<Span> = self.spans.iter().copied().filter(|span| span.extent != 1).collect();
        if spans.is_empty() {
            spans.push(Span { extent: 1, start: 0, count: 1 });
        }
        let mut inner = spans.split_off(spans.len().saturating_sub(max_rank));
        // Where the box covers an axis whole, places on the next outer axis follow each other.
        while let Some(outer) = spans.pop_if(|_| inner[0].count == inner[0].extent) {
            let Span { extent, .. } = inner[0];
            let [start, count] = [outer.start, outer.count].map(|n| n * extent);
            inner[0] = Span { extent: outer.extent * extent, start, count };
        }
        // The outer axes that are left, as places on the first of the inner ones.
        if spans.iter().map(|span| span.count).product::<u64>() > MOST_BOXES {
            return None;
        }
        let first = inner[0];
        let starts = places(&spans).map(|outer| outer * first.extent + first.start).collect();
        let extents = inner.iter().skip(1).map(|span| (span.start, span.count));
        let (origin, count) = std::iter::once((0, first.count)).chain(extents).unzip();
        Some(Boxes { starts, origin, count })
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
        let check = |region: Region, starts: &[u64], origin: &[u64], count: &[u64]| {
            let boxes = region.folded(3).unwrap();
            assert_eq!((&boxes.starts[..], &boxes.origin[..], &boxes.count[..]), (starts, origin, count));
        };
        check(region(&[], &[], &[]), &[0], &[0], &[1]);
        check(region(&[1, 9, 1], &[0, 2, 0], &[1, 5, 1]), &[2], &[0], &[5]);
        check(region(&[4, 5, 6], &[1, 2, 3], &[2, 3, 1]), &[1], &[0, 2, 3], &[2, 3, 1]);
        // 3 × 4 planes of 5 × 6.
        check(region(&[3, 4, 5, 6], &[1, 1, 0, 2], &[2, 3, 5, 1]), &[5, 9], &[0, 0, 2], &[3, 5, 1]);
        check(region(&[3, 4, 5, 6], &[1, 0, 0, 2], &[2, 4, 5, 1]), &[4], &[0, 0, 2], &[8, 5, 1]);
        check(region(&[2, 2, 2, 5, 6], &[0; 5], &[2, 2, 1, 5, 6]), &[0, 2, 4, 6], &[0; 3], &[1, 5, 6]);
        check(region(&[2, 2, 2, 5, 6], &[0, 1, 0, 0, 0], &[2, 1, 2, 5, 6]), &[2, 6], &[0; 3], &[2, 5, 6]);
        check(region(&[7, 2, 2, 5, 6], &[3, 0, 0, 0, 0], &[2, 2, 2, 5, 6]), &[12], &[0; 3], &[8, 5, 6]);
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
