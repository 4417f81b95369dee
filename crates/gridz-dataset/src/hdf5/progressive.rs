//! Progressive reads of HDF5 datasets: only the bytes that a coarser grid, or fewer layers, need.
//!
//! HDF5 reports the addresses of the chunks. All threads read these directly from its file
//! (`descriptor`). If that is impossible, HDF5 reads whole chunks. Chunks that are not progressive
//! frames are always read as a whole: chunks that were stored, written by another codec, or not
//! filtered.

use std::collections::HashMap;

use super::abi::{self, Hid};
use super::bulk::{Dataset, Options};
use super::chunk::ChunkFilters;
use super::chunk_io::{Stored, check_encoded_bytes};
use super::descriptor::{Descriptor, Writable};
use crate::bulk::{
    Buffer, ChunkCoder, ChunkStore, Encoded, Grid, PartReader, Place, Placement, Progress, ReadAt, Tally, Transfer,
    n_levels,
};
use gridz::Destination;
use gridz::Detail;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::header::MAX_HEADER_BYTES;
use gridz_codecs::settings::{self, LogLevel};

/// A part of a box of a dataset, and its layout in memory.
pub struct PartAccess<'d> {
    dataset: &'d Dataset<'d>,
    filters: &'d ChunkFilters,
    detail: Detail,
    grid: Grid,
    placement: Placement,
}

impl<'l> Dataset<'l> {
    /// Selects the part `detail` of the box of `count` elements from `start` on. Memory is
    /// described as for [`select`](Self::select), with strides between the elements of the result.
    ///
    /// # Errors
    /// `InvalidArgument` if the box is not inside the dataset, elements overlap in memory, or the
    /// dataset does not have this level; `UnsupportedJob` for datasets that HDF5 must read.
    pub fn select_part(
        &'l self,
        (start, count): (&[u64], &[u64]),
        detail: Detail,
        memory_type: Option<Hid>,
        strides: Option<&[i64]>,
    ) -> Result<PartAccess<'l>> {
        let refused = |why: &str| {
            let text =
                format!("this dataset does not support progressive reads, because {why}; read it as a whole");
            Error::unsupported(text)
        };
        let filters = self.filters.as_ref().map_err(|why| refused(why))?;
        let chunk = self.chunk.as_ref().ok_or_else(|| refused("it is not chunked"))?;
        let level = match detail {
            Detail::Level(level) => level,
            Detail::Layers(0) => return Err(Error::invalid("0 layers were requested; request 1 or more")),
            Detail::Error(error) if error.is_nan() || error < 0.0 => {
                return Err(Error::invalid(format!("error {error:?} is invalid; give 0 or a positive number")));
            }
            Detail::Layers(_) | Detail::Error(_) => 0,
        };
        let memory_type = memory_type.unwrap_or(self.dtype.id());
        let memory_bytes = self.memory_bytes(memory_type)?;
        let swap = self.swapped(memory_type).ok_or_else(|| refused("elements have another type in memory"))?;
        let grid = Grid::new(level, &self.extents, chunk, start, count)?;
        let placement = Placement::new(grid.selection(), memory_bytes, swap, strides)?;
        Ok(PartAccess { dataset: self, filters, detail, grid, placement })
    }
}

impl PartAccess<'_> {
    /// Bytes of the memory range, from the lowest element to the end of the highest.
    pub fn span(&self) -> usize {
        self.placement.span()
    }

    /// Offset of the first element in the memory range, in bytes.
    pub fn first(&self) -> usize {
        self.placement.first()
    }

    /// Extents of the result.
    pub fn extents(&self) -> &[u64] {
        self.grid.selection().count()
    }

    /// Bytes of the result.
    pub fn n_bytes(&self) -> u64 {
        let n_elements: u64 = self.extents().iter().product();
        n_elements.saturating_mul(self.placement.element_bytes() as u64)
    }

    /// Level of the result.
    pub fn level(&self) -> u32 {
        self.grid.level()
    }

    /// Number of levels above level 0.
    pub fn n_levels(&self) -> u32 {
        n_levels(&self.dataset.extents, self.grid.chunk())
    }

    /// Reads the part to `memory` and returns statistics.
    ///
    /// # Errors
    /// `Host`, `OutOfMemory`, `Cancelled`; `Corrupt`, `Truncated` and others for damaged chunks;
    /// `InvalidArgument` for a number of layers that a chunk does not have. After an error the
    /// contents of the memory are unspecified.
    pub fn read(&self, memory: Destination, options: &Options, progress: Progress) -> Result<Tally> {
        let fill = self.dataset.fill()?;
        self.with_store(options, |reader, store| {
            let (selection, placement) = (self.grid.selection(), &self.placement);
            let &Options { context, memory_limit, .. } = options;
            let fill = fill.as_deref();
            let transfer = Transfer { selection, placement, coder: reader, fill, context, memory_limit };
            transfer.read(store, memory, progress)?;
            Ok(reader.tally())
        })
    }

    /// Returns the statistics of a read without reading. `progress` counts chunks.
    ///
    /// # Errors
    /// As for [`PartAccess::read`].
    pub fn inspect(&self, options: &Options, progress: Progress) -> Result<Tally> {
        self.with_store(options, |reader, store| reader.inspect(store, options.context, progress))
    }

    fn with_store<R>(
        &self,
        options: &Options,
        work: impl FnOnce(&PartReader, &mut Store) -> Result<R>,
    ) -> Result<R> {
        let Dataset { library, id, element_bytes, .. } = *self.dataset;
        // Each process reads independently, so a collective property list would be wrong.
        let dxpl = if library.is_parallel(id)? { abi::DEFAULT_PLIST } else { options.dxpl };
        let chunk_bytes = self.grid.chunk().iter().product::<u64>() as usize * element_bytes;
        let most_bytes = self.filters.bound().max(chunk_bytes + MAX_HEADER_BYTES);
        let found = Descriptor::of(library, id, Writable::Flush)?;
        let mut store = Store { access: self, dxpl, most_bytes, is_placed: false, index: None };
        store.index = store.all()?;
        let file = match found {
            Ok(file) => file.located(|| store.sample())?,
            Err(why) => Err(why),
        };
        let file = file.inspect_err(|why| {
            settings::log(LogLevel::Info, || format!("HDF5 reads whole chunks, because {why}"));
        });
        store.is_placed = file.is_ok();
        let file = file.as_ref().ok().map(|file| file as &dyn ReadAt);
        let reader = PartReader::new((&self.grid, self.detail), self.filters, file, element_bytes, most_bytes);
        work(&reader, &mut store)
    }
}

/// The chunks of a dataset, or their places in the file, by their position in the grid.
struct Store<'s> {
    access: &'s PartAccess<'s>,
    dxpl: Hid,
    /// Maximum number of encoded bytes of a chunk.
    most_bytes: usize,
    /// Whether `read` returns places in the file. Otherwise HDF5 reads the chunks.
    is_placed: bool,
    /// Chunks in the file by their number in the grid, if all were listed at once.
    index: Option<HashMap<u64, Stored>>,
}

impl Store<'_> {
    /// All chunks in the file. `None` if there are fewer than two, or this libhdf5 cannot list
    /// them. Looking up a single chunk walks through the index too.
    fn all(&self) -> Result<Option<HashMap<u64, Stored>>> {
        let PartAccess { dataset: Dataset { library, id, extents, .. }, grid, .. } = self.access;
        if grid.selection().n_chunks() < 2 {
            return Ok(None);
        }
        library.index(*id, extents.len(), &|chunk| grid.number_of(chunk))
    }

    /// The chunk in the file with the first element `chunk`.
    fn find(&self, chunk: &[u64]) -> Result<Option<Stored>> {
        let PartAccess { dataset: Dataset { library, id, .. }, grid, .. } = self.access;
        let found = match &self.index {
            Some(index) => grid.number_of(chunk).and_then(|number| index.get(&number).copied()),
            None => library.stored(*id, chunk)?,
        };
        found.map_or(Ok(()), |stored| check_encoded_bytes(stored.n_bytes, self.most_bytes))?;
        Ok(found)
    }

    /// Has HDF5 read the encoded bytes of a chunk to the start of `bytes`, which is replaced if it
    /// is too short. Returns the chunk's filter mask.
    fn read_whole(&self, chunk: &[u64], n_bytes: usize, bytes: &mut Buffer) -> Result<u32> {
        let Dataset { library, id, .. } = *self.access.dataset;
        library.read_chunk(id, self.dxpl, chunk, bytes.reserve(n_bytes)?)
    }

    /// The first chunk in the file, and its encoded bytes.
    fn sample(&self) -> Result<Option<(Stored, Buffer)>> {
        let grid = &self.access.grid;
        for part in grid.selection().parts() {
            let chunk = grid.chunk_at(part.chunk());
            if let Some(stored) = self.find(&chunk)? {
                let mut bytes = Buffer::new(0)?;
                self.read_whole(&chunk, stored.n_bytes as usize, &mut bytes)?;
                return Ok(Some((stored, bytes)));
            }
        }
        Ok(None)
    }
}

impl ChunkStore for Store<'_> {
    fn read(&mut self, chunk: &[u64], bytes: &mut Buffer) -> Result<Option<Encoded>> {
        let chunk = self.access.grid.chunk_at(chunk);
        let Some(stored) = self.find(&chunk)? else { return Ok(None) };
        if self.is_placed {
            let place = Place { at: stored.address, n_bytes: stored.n_bytes };
            bytes.reserve(Place::BYTES)?.copy_from_slice(&place.to_bytes());
            return Ok(Some(Encoded { n_bytes: Place::BYTES, mask: stored.mask }));
        }
        let Dataset { library, id, .. } = *self.access.dataset;
        // The index may be outdated, and this HDF5 writes the stored chunk to memory whatever its
        // length is.
        let n_bytes = match library.tells_lengths() {
            true => Some(stored.n_bytes),
            false => library.encoded_bytes(id, &chunk)?,
        };
        let Some(n_bytes) = n_bytes.filter(|&n_bytes| n_bytes <= self.most_bytes as u64) else {
            return Err(Error::new(ErrorKind::Host, "the dataset changed while it was read; read it again"));
        };
        let n_bytes = n_bytes as usize;
        self.read_whole(&chunk, n_bytes, bytes)?;
        Ok(Some(Encoded { n_bytes, mask: stored.mask }))
    }

    fn write(&mut self, _chunk: &[u64], _bytes: &[u8]) -> Result<()> {
        Err(Error::internal("grids are not written"))
    }
}
