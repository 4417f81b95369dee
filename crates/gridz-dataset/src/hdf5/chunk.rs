//! Encodes and decodes chunks exactly as HDF5's filter pipeline would: gridz, alone or after HDF5's
//! shuffle.
//!
//! The encoded bytes are those of the filter, and everything that the filter can read is read.
//! `filter` describes the details. In short: a shuffled chunk is framed unshuffled, and a chunk
//! that does not fit its description is framed as plain bytes, unchanged.

use super::abi;
use super::api::PipelineEntry;
use super::cd::Values;
use super::filter::{FILTER_ID, is_plain_bytes};
use super::record::Record;
use super::shuffle;
use crate::bulk::{ChunkCoder, FrameCoder, Frames};
use gridz::device::DeviceSlice;
use gridz::{Context, Frame, Part, Prepared, Promise, Verify};
use gridz::{Destination, Source};
use gridz_codecs::error::{Error, Result, try_vec};
use gridz_codecs::types::Array;

/// The filter pipeline of a dataset.
#[derive(Clone)]
pub struct ChunkFilters {
    record: Record,
    prepared: Prepared,
    /// Element size of the shuffle before gridz.
    shuffle: Option<usize>,
    verify: Verify,
}

impl ChunkFilters {
    /// The pipeline of a dataset with chunks of `chunk_bytes`.
    ///
    /// # Errors
    /// The reason why gridz cannot apply it; it completes "because …".
    pub fn new(pipeline: &[PipelineEntry], chunk_bytes: u64) -> std::result::Result<Self, String> {
        let (gridz, shuffle) = match pipeline {
            [gridz] if gridz.id == FILTER_ID => (gridz, false),
            [shuffle, gridz] if shuffle.id == abi::FILTER_SHUFFLE && gridz.id == FILTER_ID => (gridz, true),
            [] => return Err("it has no filters".into()),
            _ if pipeline.iter().any(|filter| filter.id == FILTER_ID) => {
                return Err("it has filters other than gridz and shuffle".into());
            }
            [filter, ..] => return Err(format!("its filter is {} and not gridz", filter.id)),
        };
        let record = match Values::parse(&gridz.values) {
            Ok(Values::Record(record)) => record,
            Ok(Values::User(_)) => return Err("its cd_values do not describe its chunks".into()),
            Err(error) => return Err(error.context().to_owned()),
        };
        let shuffle = match (shuffle, record.shuffle()) {
            (false, None) => None,
            // Shuffling elements of one byte changes nothing.
            (true, Some(1)) => None,
            (true, Some(size)) if !is_plain_bytes(record.array()) => Some(size as usize),
            _ => return Err("its cd_values do not describe its shuffle filter".into()),
        };
        if record.array().n_bytes() != chunk_bytes {
            return Err("its chunks differ from those that its cd_values describe".into());
        }
        let prepared = record.request().and_then(|request| Prepared::new(record.array(), &request));
        let verify = Verify::Checksum;
        prepared
            .map(|prepared| Self { record, prepared, shuffle, verify })
            .map_err(|error| error.context().to_owned())
    }

    /// Sets whether checksums are verified.
    pub fn verifying(&self, verify: Verify) -> Self {
        Self { verify, ..self.clone() }
    }

    /// Whether chunks are encoded in the same way.
    pub fn same_as(&self, other: &Self) -> bool {
        self.record == other.record
    }

    /// Bits of gridz and of shuffle (0 if there is none) in a chunk's filter mask. A set bit means
    /// that the filter was left out.
    fn bits(&self) -> (u32, u32) {
        if self.record.shuffle().is_some() { (2, 1) } else { (1, 0) }
    }
}

impl ChunkCoder for ChunkFilters {
    fn bound(&self) -> usize {
        self.prepared.bound() as usize
    }

    fn encode(&self, chunk: Source, stored: &mut [u8], context: &Context) -> Result<usize> {
        self.prepared.compress(chunk, Destination::Host(stored), context)
    }

    fn decode_on_device(&self, mask: u32, stored: &[u8], chunk: DeviceSlice, context: &Context) -> Result<bool> {
        if mask != 0 {
            return Ok(false);
        }
        let frame = Frame::parse(stored)?;
        let is_array = !is_plain_bytes(&frame.info()?.array);
        let is_usual = is_array && frame.array_bytes(Some(chunk.n_bytes()))? == chunk.n_bytes();
        if is_usual {
            frame.decompress(Part::All, chunk, self.verify, context)?;
        }
        Ok(is_usual)
    }

    fn frames(&self) -> Option<Frames<'_>> {
        Some(Frames { prepared: &self.prepared, verify: self.verify, file: None })
    }

    fn decode(&self, mask: u32, stored: &[u8], chunk: &mut [u8], context: &Context) -> Result<()> {
        let (gridz, shuffle) = self.bits();
        let was_shuffled = mask & shuffle == 0;
        let wrong = |n_bytes: u64| {
            let text = format!("a chunk has {n_bytes} bytes instead of {}", chunk.len());
            Err(Error::corrupt(text))
        };
        // Whether `chunk` is shuffled at this point.
        let is_shuffled = if mask & gridz != 0 {
            if stored.len() != chunk.len() {
                return wrong(stored.len() as u64);
            }
            chunk.copy_from_slice(stored);
            was_shuffled
        } else {
            let frame = Frame::parse(stored)?;
            let is_opaque = is_plain_bytes(&frame.info()?.array);
            let n_bytes = frame.array_bytes(Some(chunk.len() as u64))?;
            let is_cut = is_opaque && 0 < n_bytes && n_bytes < chunk.len() as u64;
            if n_bytes != chunk.len() as u64 && !is_cut {
                return wrong(n_bytes);
            }
            chunk[n_bytes as usize..].fill(0);
            frame.decompress(Part::All, &mut *chunk, self.verify, context)?;
            // For an array, the filter returns shuffled bytes to HDF5. If HDF5 left out its own
            // shuffle, it uses these bytes as the chunk.
            if is_opaque { was_shuffled } else { !was_shuffled }
        };
        if let Some(size) = self.shuffle.filter(|_| is_shuffled) {
            let mut before = try_vec(chunk.len(), "a chunk")?;
            before.extend_from_slice(chunk);
            match was_shuffled {
                true => shuffle::unshuffle(size, &before, chunk),
                false => shuffle::shuffle(size, &before, chunk),
            }
        }
        Ok(())
    }
}

impl FrameCoder for ChunkFilters {
    fn array(&self, mask: u32) -> Option<&Array> {
        (mask == 0 && self.shuffle.is_none()).then(|| self.record.array())
    }

    fn promise(&self, mask: u32, first: &[u8]) -> Result<Promise> {
        match mask & self.bits().0 {
            0 => Ok(gridz::inspect(first)?.promise.unwrap_or(Promise::NONE)),
            _ => Ok(Promise::LOSSLESS),
        }
    }

    fn verify(&self) -> Verify {
        self.verify
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridz::Request;
    use gridz_codecs::types::{ByteOrder, DType, Shape};

    fn entry(id: i32, values: &[u32]) -> PipelineEntry {
        PipelineEntry { id, flags: 0, values: values.to_vec(), n_values: values.len() }
    }

    /// All ways in which HDF5 can have stored a chunk, with the result of reading it.
    #[test]
    fn masks_say_what_was_left_out() {
        let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[30, 40]).unwrap()).unwrap();
        let chunk: Vec<u8> = (0..1200).flat_map(|i| (i as f32).sqrt().to_le_bytes()).collect();
        let context = Context::lenient();
        let mut shuffled = vec![0; chunk.len()];
        shuffle::shuffle(4, &chunk, &mut shuffled);
        let compress = |array: &Array, bytes: &[u8]| {
            let request =
                if array.dtype() == DType::F32 { Request::default() } else { Request::new(0, 0).unwrap() };
            let mut frame = vec![0; gridz::compress_bound(array, &request).unwrap() as usize];
            let n = gridz::compress(array, &request, bytes, &mut frame, &context).unwrap();
            frame.truncate(n);
            frame
        };
        let plain = Array::bytes(chunk.len() as u64).unwrap();
        let read = |filters: &ChunkFilters, mask, stored: &[u8]| {
            let mut back = vec![7; chunk.len()];
            filters.decode(mask, stored, &mut back, &context).map(|()| back)
        };

        let words = Record::new(&Request::default(), array, None).unwrap().words();
        let alone = ChunkFilters::new(&[entry(FILTER_ID, &words)], 4800).unwrap();
        for (mask, stored) in [(0, compress(&array, &chunk)), (0, compress(&plain, &chunk)), (1, chunk.clone())] {
            assert_eq!(read(&alone, mask, &stored).unwrap(), chunk, "{mask}");
        }
        let words = Record::new(&Request::default(), array, Some(4)).unwrap().words();
        let behind =
            ChunkFilters::new(&[entry(abi::FILTER_SHUFFLE, &[4]), entry(FILTER_ID, &words)], 4800).unwrap();
        let mut unshuffled = vec![0; chunk.len()];
        shuffle::unshuffle(4, &chunk, &mut unshuffled);
        for (mask, stored) in [
            (0, compress(&array, &chunk)),
            (0, compress(&plain, &shuffled)),
            // HDF5 left out its shuffle, so the filter unshuffled bytes that were not shuffled.
            (1, compress(&array, &unshuffled)),
            (1, compress(&plain, &chunk)),
            (2, shuffled.clone()),
            (3, chunk.clone()),
        ] {
            assert_eq!(read(&behind, mask, &stored).unwrap(), chunk, "{mask}");
        }
        // A shorter chunk is padded with zeros, but only if it was framed as plain bytes.
        let cut = compress(&Array::bytes(100).unwrap(), &chunk[..100]);
        let back = read(&alone, 0, &cut).unwrap();
        assert!(back[..100] == chunk[..100] && back[100..].iter().all(|&byte| byte == 0));
        let half = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[15, 40]).unwrap()).unwrap();
        assert!(read(&alone, 0, &compress(&half, &chunk[..2400])).is_err());
        assert!(read(&alone, 1, &chunk[1..]).is_err());
        assert!(read(&alone, 0, &chunk).is_err());
    }

    #[test]
    fn other_pipelines_are_hdf5s_own() {
        let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[30]).unwrap()).unwrap();
        let record = |shuffle| entry(FILTER_ID, &Record::new(&Request::default(), array, shuffle).unwrap().words());
        let shuffle = || entry(abi::FILTER_SHUFFLE, &[4]);
        for (pipeline, why) in [
            (vec![], "no filters"),
            (vec![entry(1, &[6])], "its filter is 1"),
            (vec![record(None), entry(3, &[])], "other than gridz and shuffle"),
            (vec![shuffle(), record(None)], "do not describe its shuffle filter"),
            (vec![record(Some(4))], "do not describe its shuffle filter"),
            (vec![entry(FILTER_ID, &[2, 0])], "do not describe its chunks"),
        ] {
            let found = ChunkFilters::new(&pipeline, 120).map(|_| ()).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
        assert!(ChunkFilters::new(&[record(None)], 124).is_err());
        assert!(ChunkFilters::new(&[shuffle(), record(Some(4))], 120).is_ok());
    }
}
