//! Less than there is in a dataset of HDF5: a coarser grid, or fewer layers, from the bytes that these need.
//!
//! HDF5 tells where the chunks are, and they are read from its file directly (`descriptor`), by all threads. Where that cannot be,
//! HDF5 reads them, as a whole. Chunks that are no frames of layers and levels are read as a whole in any case: those that were
//! stored, that another codec wrote, or from which the filter was left out.

use std::collections::HashMap;

use super::abi::{self, Hid};
use super::bulk::{Dataset, Options};
use super::chunk::ChunkFilters;
use super::descriptor::Descriptor;
use super::library::Stored;
use crate::bulk::{
    Buffer, ChunkCoder, ChunkStore, Encoded, Grid, PartReader, Place, Placement, Progress, ReadAt, Tally, Transfer,
    n_levels,
};
use gridz::Detail;
use gridz::device::Destination;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::header::MAX_HEADER_BYTES;
use gridz_codecs::settings::{self, LogLevel};

/// A box of a dataset of which less than there is is to be read, and where that goes in memory.
pub struct PartAccess<'d> {
    dataset: &'d Dataset<'d>,
    filters: &'d ChunkFilters,
    detail: Detail,
    grid: Grid,
    placement: Placement,
}

impl<'l> Dataset<'l> {
    /// What is there, of `detail`, of the box of `count` elements from `start` on; for memory as
    /// [`select`](Self::select) has it, with strides from element to element of what comes back.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not inside the dataset, elements overlap in memory, or chunks do not have this level;
    /// `UnsupportedJob` for datasets that HDF5 has to read.
    pub fn select_part(
        &'l self,
        (start, count): (&[u64], &[u64]),
        detail: Detail,
        memory_type: Option<Hid>,
        strides: Option<&[i64]>,
    ) -> Result<PartAccess<'l>> {
        let refused = |why: &str| {
            let text = format!(
                "only datasets that gridz reads itself are read in part, and this is none, because {why}; read it as a whole"
            );
            Error::unsupported(text)
        };
        let filters = self.filters.as_ref().map_err(|why| refused(why))?;
        let chunk = self.chunk.as_ref().ok_or_else(|| refused("it is not in chunks"))?;
        let level = match detail {
            Detail::Level(level) => level,
            Detail::Layers(0) => return Err(Error::invalid("0 layers cannot be read; give 1 or more")),
            Detail::Error(error) if error.is_nan() || error < 0.0 => {
                return Err(Error::invalid(format!("an error of {error:?}; give 0 or a number above it")));
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
    /// Bytes of the memory, from its lowest element to the end of the highest.
    pub fn span(&self) -> usize {
        self.placement.span()
    }

    /// Bytes from the start of the memory to the first element.
    pub fn first(&self) -> usize {
        self.placement.first()
    }

    /// Extents of what comes back.
    pub fn extents(&self) -> &[u64] {
        self.grid.selection().count()
    }

    /// Its bytes.
    pub fn n_bytes(&self) -> u64 {
        let n_elements: u64 = self.extents().iter().product();
        n_elements.saturating_mul(self.placement.element_bytes() as u64)
    }

    /// Its level.
    pub fn level(&self) -> u32 {
        self.grid.level()
    }

    /// Levels above 0 that there are.
    pub fn n_levels(&self) -> u32 {
        n_levels(&self.dataset.extents, self.grid.chunk())
    }

    /// Reads it to `memory`, and tells what was read.
    ///
    /// # Errors
    /// `Host`, `OutOfMemory`, `Corrupt`, `Truncated` and others for damaged chunks, `InvalidArgument` for a number of layers that
    /// a chunk does not have, `Cancelled`. Then what has been written to the memory is unspecified.
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

    /// Tells what would be read. `progress` is told of chunks.
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
        // Each process reads for itself, so not by a list that says that all do.
        let dxpl = if library.is_parallel(id)? { abi::DEFAULT_PLIST } else { options.dxpl };
        let chunk_bytes = self.grid.chunk().iter().product::<u64>() as usize * element_bytes;
        let most_bytes = self.filters.bound().max(chunk_bytes + MAX_HEADER_BYTES);
        let found = Descriptor::of(library, id)?;
        let mut store = Store { access: self, dxpl, most_bytes, file: None, index: None };
        store.index = store.all()?;
        let file = match found {
            Ok(file) => store.base(&file)?.map(|base| (file, base)).ok_or("its chunks are not where HDF5 tells"),
            Err(why) => Err(why),
        };
        let file = file.inspect_err(|why| {
            settings::log(LogLevel::Info, || format!("chunks are read as a whole by HDF5, because {why}"));
        });
        let (file, base) = file.ok().unzip();
        store.file = base;
        let file = file.as_ref().map(|file| file as &dyn ReadAt);
        let reader = PartReader::new((&self.grid, self.detail), self.filters, file, element_bytes, most_bytes);
        work(&reader, &mut store)
    }
}

/// The chunks of a dataset, or where they are, by their places in the grid.
struct Store<'s> {
    access: &'s PartAccess<'s>,
    dxpl: Hid,
    /// Encoded bytes that a chunk can have.
    most_bytes: usize,
    /// Where in the file addresses begin; `None`: HDF5 reads the chunks.
    file: Option<u64>,
    /// What is there of all chunks of the grid, by their numbers in it, if all were asked for.
    index: Option<HashMap<u64, Stored>>,
}

impl Store<'_> {
    /// What is there of all chunks, where they are several and this libhdf5 can tell: to look for one goes through the index, too.
    fn all(&self) -> Result<Option<HashMap<u64, Stored>>> {
        let PartAccess { dataset: Dataset { library, id, extents, .. }, grid, .. } = self.access;
        if grid.selection().n_chunks() < 2 {
            return Ok(None);
        }
        let mut index = HashMap::new();
        let can = library.for_each_chunk(*id, extents.len(), |chunk, stored| {
            grid.number_of(chunk).map(|number| index.insert(number, stored));
        })?;
        Ok(can.then_some(index))
    }

    /// What is there of the chunk whose first element is `chunk`.
    fn find(&self, chunk: &[u64]) -> Result<Option<Stored>> {
        let PartAccess { dataset: Dataset { library, id, .. }, grid, .. } = self.access;
        let found = match &self.index {
            Some(index) => grid.number_of(chunk).and_then(|number| index.get(&number).copied()),
            None => library.stored(*id, chunk)?,
        };
        // A damaged file must not choose how much memory is allocated.
        match found {
            Some(Stored { n_bytes, .. }) if n_bytes > self.most_bytes as u64 => Err(Error::corrupt(format!(
                "a chunk of {n_bytes} encoded bytes, where {} are the most there can be",
                self.most_bytes
            ))),
            found => Ok(found),
        }
    }

    /// Has HDF5 read the encoded bytes of a chunk to the start of `bytes`, or of a longer buffer in place of that, and tell its
    /// filter mask.
    fn read_whole(&self, chunk: &[u64], n_bytes: usize, bytes: &mut Buffer) -> Result<u32> {
        let Dataset { library, id, .. } = *self.access.dataset;
        if bytes.n_bytes() < n_bytes {
            *bytes = Buffer::new(n_bytes)?;
        }
        library.read_chunk(id, self.dxpl, chunk, &mut bytes.bytes()[..n_bytes])
    }

    /// Where in the file addresses begin: some versions count from the end of the user block, and others from the
    /// beginning of the file. What HDF5 reads of one chunk tells. `None`: it is at neither place.
    fn base(&self, file: &Descriptor) -> Result<Option<u64>> {
        if file.user_block == 0 {
            return Ok(Some(0));
        }
        let grid = &self.access.grid;
        for part in grid.selection().parts() {
            let chunk = grid.chunk_at(part.chunk());
            let Some(Stored { n_bytes, address, .. }) = self.find(&chunk)? else { continue };
            let (mut one, mut other) = (Buffer::new(0)?, Buffer::new(n_bytes as usize)?);
            self.read_whole(&chunk, n_bytes as usize, &mut one)?;
            let mut is_at = |base: u64| {
                let is_read = file.read_at(address.saturating_add(base), other.bytes()).is_ok();
                is_read && other.bytes() == &one.bytes()[..n_bytes as usize]
            };
            return Ok(match (is_at(0), is_at(file.user_block)) {
                (true, false) => Some(0),
                (false, true) => Some(file.user_block),
                _ => None,
            });
        }
        Ok(Some(0))
    }
}

impl ChunkStore for Store<'_> {
    fn read(&mut self, chunk: &[u64], bytes: &mut Buffer) -> Result<Option<Encoded>> {
        let chunk = self.access.grid.chunk_at(chunk);
        let Some(stored) = self.find(&chunk)? else { return Ok(None) };
        if let Some(base) = self.file {
            let place = Place { at: stored.address.saturating_add(base), n_bytes: stored.n_bytes };
            if bytes.n_bytes() < Place::BYTES {
                *bytes = Buffer::new(Place::BYTES)?;
            }
            bytes.bytes()[..Place::BYTES].copy_from_slice(&place.to_bytes());
            return Ok(Some(Encoded { n_bytes: Place::BYTES, mask: stored.mask }));
        }
        let Dataset { library, id, .. } = *self.access.dataset;
        // The index may be old when HDF5 writes to our memory what there is.
        let n_bytes = match library.tells_lengths() {
            true => Some(stored.n_bytes),
            false => library.encoded_bytes(id, &chunk)?,
        };
        let Some(n_bytes) = n_bytes.filter(|&n_bytes| n_bytes <= self.most_bytes as u64) else {
            return Err(Error::new(ErrorKind::Host, "the dataset has changed while it was read"));
        };
        let n_bytes = n_bytes as usize;
        self.read_whole(&chunk, n_bytes, bytes)?;
        Ok(Some(Encoded { n_bytes, mask: stored.mask }))
    }

    fn write(&mut self, _chunk: &[u64], _bytes: &[u8]) -> Result<()> {
        Err(Error::new(ErrorKind::Internal, "grids are not written"))
    }
}
