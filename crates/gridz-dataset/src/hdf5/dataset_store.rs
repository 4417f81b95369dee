//! The chunks of a dataset in its file, as a [`ChunkStore`].
#![allow(unsafe_code)] // memory that HDF5 reads

use std::collections::{HashMap, HashSet};

use super::abi::Hid;
use super::bulk::{Access, Dataset};
use super::chunk_io::{Stored, check_encoded_bytes};
use super::descriptor::{Descriptor, Writable};
use super::library::Call;
use crate::bulk::{Buffer, ChunkCoder, ChunkStore, Covers, Encoded, Place};
use gridz::Context;
use gridz_codecs::error::{ErrorKind, Result};
use gridz_codecs::settings::{self, LogLevel};

/// Minimum number of chunks in a selection for which the index of all chunks is read at once.
const MANY_CHUNKS: u64 = 64;

/// The chunks of a dataset in its file.
///
/// `H5Dwrite_chunk` (libhdf5 1.10 to 2.2) does not always store the filter mask when it overwrites
/// a chunk. It keeps the old mask if the new bytes have the same length, and until another chunk is
/// looked up. Read with the old mask, the new chunk would be nonsense. So a chunk from which
/// filters were left out is overwritten by `H5Dwrite`.
pub(super) struct DatasetStore<'s> {
    access: &'s Access<'s>,
    dxpl: Hid,
    /// Chunks in the file by their number in the selection, if all were listed at once.
    index: Option<HashMap<u64, Stored>>,
    is_asked: bool,
    /// Whether `read` returns places in the file instead of encoded bytes.
    is_placed: bool,
    /// Numbers of chunks that were read and had filters left out.
    left_out: HashSet<u64>,
    buffer: Option<Buffer>,
}

impl<'s> DatasetStore<'s> {
    pub(super) fn new(access: &'s Access<'s>, dxpl: Hid) -> Self {
        Self {
            access,
            dxpl,
            index: None,
            is_asked: false,
            is_placed: false,
            left_out: HashSet::new(),
            buffer: None,
        }
    }

    /// The dataset's file, if threads can read chunks from it: [`ChunkStore::read`] then returns their
    /// places. `None` if HDF5 must read the chunks: there are few of them, the file may be written
    /// meanwhile, or its driver has no descriptor.
    pub(super) fn placed(&mut self) -> Result<Option<Descriptor>> {
        let Access { dataset: Dataset { library, id, .. }, selection, .. } = self.access;
        if selection.n_chunks() < MANY_CHUNKS {
            return Ok(None);
        }
        self.list()?;
        let file = match Descriptor::of(library, *id, Writable::Refuse)? {
            Ok(_) if self.index.is_none() => Err("this libhdf5 does not list chunks"),
            Ok(file) => file.located(|| self.sample())?,
            Err(why) => Err(why),
        };
        let file = file.inspect_err(|why| {
            settings::log(LogLevel::Info, || format!("one thread reads the chunks, because {why}"));
        });
        self.is_placed = file.is_ok();
        Ok(file.ok())
    }

    /// A listed chunk and its encoded bytes.
    fn sample(&self) -> Result<Option<(Stored, Buffer)>> {
        let Access { dataset: Dataset { library, id, .. }, selection, .. } = self.access;
        let index = self.index.iter().flatten();
        let Some((&number, &stored)) = index.min_by_key(|(number, _)| **number) else { return Ok(None) };
        check_encoded_bytes(stored.n_bytes, self.access.most_encoded_bytes())?;
        let mut bytes = Buffer::new(0)?;
        let part = selection.part(number);
        library.read_chunk(*id, self.dxpl, part.chunk(), bytes.reserve(stored.n_bytes as usize)?)?;
        Ok(Some((stored, bytes)))
    }

    fn number(&self, chunk: &[u64]) -> u64 {
        self.access.selection.number_of(chunk).expect("a chunk of the selection")
    }

    /// Lists the chunks in the file, once, if there are many.
    fn list(&mut self) -> Result<()> {
        let Access { dataset: Dataset { library, id, extents, .. }, selection, .. } = self.access;
        if !self.is_asked && selection.n_chunks() >= MANY_CHUNKS {
            self.index = library.index(*id, extents.len(), &|chunk| selection.number_of(chunk))?;
        }
        self.is_asked = true;
        Ok(())
    }

    /// The chunk in the file. The outer `Option` is `None` if the chunks were not listed: there are
    /// few of them, or this libhdf5 cannot list them.
    fn indexed(&mut self, chunk: &[u64]) -> Result<Option<Option<Encoded>>> {
        self.list()?;
        let encoded = |stored: &Stored| Encoded { n_bytes: stored.n_bytes as usize, mask: stored.mask };
        Ok(self.index.as_ref().map(|index| index.get(&self.number(chunk)).map(encoded)))
    }

    /// Whether a chunk was written.
    pub(super) fn has(&mut self, chunk: &[u64]) -> Result<bool> {
        let Dataset { library, id, .. } = self.access.dataset;
        Ok(match self.indexed(chunk)? {
            Some(encoded) => encoded.is_some(),
            None => library.encoded_bytes(*id, chunk)?.is_some(),
        })
    }

    /// Whether filters were left out of the chunk in the file.
    fn has_left_out(&mut self, chunk: &[u64]) -> Result<bool> {
        if let Some(encoded) = self.indexed(chunk)? {
            return Ok(encoded.is_some_and(|encoded| encoded.mask != 0));
        }
        // A chunk that is written in part has been read before.
        if self.access.selection.part(self.number(chunk)).covers() != Covers::Part {
            // A search that may be inconclusive. A certain answer would go through all chunks for
            // each new one.
            let Dataset { library, id, .. } = self.access.dataset;
            if library.known_bytes(*id, chunk).is_none() {
                return Ok(false);
            }
            let mut buffer = self.buffer.take().map_or_else(|| Buffer::new(0), Ok)?;
            // HDF5 has a function for the mask alone, but it goes through all chunks up to this
            // one.
            let read = self.read(chunk, &mut buffer);
            self.buffer = Some(buffer);
            match read {
                // An unreadable chunk is overwritten.
                Err(error) if matches!(error.kind(), ErrorKind::Host | ErrorKind::Corrupt) => return Ok(false),
                read => read?,
            };
        }
        Ok(self.left_out.contains(&self.number(chunk)))
    }

    /// Has HDF5 write the chunk that is encoded in `bytes`.
    fn write_by_hdf5(&self, chunk: &[u64], bytes: &[u8]) -> Result<()> {
        let Access { dataset, way, .. } = self.access;
        let Dataset { library, id, extents, dtype, element_bytes, .. } = dataset;
        let filters = way.as_ref().expect("chunks that gridz makes");
        let shape = self.access.selection.chunk();
        let n_bytes = shape.iter().product::<u64>() as usize * element_bytes;
        let mut elements = Buffer::new(n_bytes)?;
        filters.decode(0, bytes, elements.bytes(), &Context::lenient())?;
        let inside = |((begin, extent), chunk): ((&u64, &u64), &u64)| (extent - begin).min(*chunk);
        let count: Vec<u64> = chunk.iter().zip(extents).zip(shape).map(inside).collect();
        let memory_space = library.space_with(shape, &vec![0; shape.len()], &count)?;
        let file_space = library.dataset_space(*id)?;
        library.select(file_space.id(), chunk, &count)?;
        let (memory_space, file_space) = (memory_space.id(), file_space.id());
        let call = Call { dataset: *id, memory_type: dtype.id(), memory_space, file_space, dxpl: self.dxpl };
        // SAFETY: elements of the dataset's type, with the extents of the dataspace.
        unsafe { library.write(&call, elements.bytes().as_ptr()) }
    }
}

impl ChunkStore for DatasetStore<'_> {
    fn read(&mut self, chunk: &[u64], bytes: &mut Buffer) -> Result<Option<Encoded>> {
        let Dataset { library, id, .. } = self.access.dataset;
        if self.is_placed {
            let stored = self.index.as_ref().and_then(|index| index.get(&self.number(chunk)));
            let Some(&Stored { n_bytes, mask, address }) = stored else { return Ok(None) };
            check_encoded_bytes(n_bytes, self.access.most_encoded_bytes())?;
            bytes.reserve(Place::BYTES)?.copy_from_slice(&Place { at: address, n_bytes }.to_bytes());
            return Ok(Some(Encoded { n_bytes: Place::BYTES, mask }));
        }
        let indexed = self.indexed(chunk)?;
        let n_bytes = match indexed {
            Some(encoded) if library.tells_lengths() => encoded.map(|encoded| encoded.n_bytes),
            Some(None) => None,
            // The index may be outdated, and this HDF5 writes the stored chunk to memory whatever
            // its length is.
            _ => library.encoded_bytes(*id, chunk)?.map(|n_bytes| n_bytes as usize),
        };
        let Some(n_bytes) = n_bytes else { return Ok(None) };
        check_encoded_bytes(n_bytes as u64, self.access.most_encoded_bytes())?;
        let mask = library.read_chunk(*id, self.dxpl, chunk, bytes.reserve(n_bytes)?)?;
        let encoded = indexed.flatten().unwrap_or(Encoded { n_bytes, mask });
        if encoded.mask != 0 {
            self.left_out.insert(self.number(chunk));
        }
        Ok(Some(encoded))
    }

    fn write(&mut self, chunk: &[u64], bytes: &[u8]) -> Result<()> {
        if self.has_left_out(chunk)? {
            return self.write_by_hdf5(chunk, bytes);
        }
        let Dataset { library, id, .. } = self.access.dataset;
        library.write_chunk(*id, self.dxpl, chunk, bytes)
    }
}
