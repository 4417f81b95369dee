//! Whole datasets between memory and HDF5 files.
//!
//! HDF5 calls a filter for one chunk at a time, on one thread. Here chunks are made of the array by all threads, and HDF5 is
//! handed the finished bytes (`H5Dwrite_chunk`), the same that its filter would have made; reading is the reverse. What
//! cannot be done so goes HDF5's own way, `H5Dwrite` and `H5Dread`, box by box: other filters, conversions, datasets
//! without chunks, writing through MPI-IO. `GRIDZ_LOG=info` says when and why.
//!
//! All calls of HDF5 are made by the calling thread.

#![allow(unsafe_code)] // memory that HDF5 reads and writes

use std::collections::{HashMap, HashSet};

use super::abi::{self, Hid};
use super::chunk::ChunkFilters;
use super::dataset;
use super::foreign::ForeignFilter;
use super::library::{Call, Library, Owned, Stored};
use crate::bulk::{
    Buffer, ChunkCoder, ChunkStore, Covers, Encoded, Part, Placement, Progress, Selection, SharedBytes, Transfer,
    cancelled,
};
use gridz::device::{Destination, Source};
use gridz::{Context, Verify};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::header::MAX_HEADER_BYTES;
use gridz_codecs::settings::{self, LogLevel};
use gridz_codecs::types::{ByteOrder, DType};

/// Bytes of a box that goes HDF5's own way, about.
const BOX_BYTES: u64 = 64 << 20;
/// Chunks of a selection from which on the index of all chunks is read at once.
const MANY_CHUNKS: u64 = 64;

/// How a transfer is to be done.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Threads and memory.
    pub context: &'a Context,
    /// Most bytes of buffers.
    pub memory_limit: u64,
    /// How HDF5 is to transfer data.
    pub dxpl: Hid,
}

/// A dataset of a program.
pub struct Dataset<'l> {
    pub(super) library: &'l Library<'l>,
    pub(super) id: Hid,
    pub(super) extents: Vec<u64>,
    pub(super) chunk: Option<Vec<u64>>,
    pub(super) dtype: Owned<'l>,
    pub(super) element_bytes: usize,
    dcpl: Owned<'l>,
    /// What HDF5 does with its chunks; or why gridz leaves that to it.
    pub(super) filters: std::result::Result<ChunkFilters, String>,
    /// A filter of others, whose chunks gridz reads.
    foreign: Option<ForeignFilter>,
}

/// A box of a dataset, and where it is in memory.
pub struct Access<'d> {
    dataset: &'d Dataset<'d>,
    start: Vec<u64>,
    count: Vec<u64>,
    memory_type: Hid,
    /// `None`: the memory is contiguous in C order.
    strides: Option<Vec<i64>>,
    selection: Selection,
    placement: Placement,
    way: std::result::Result<&'d ChunkFilters, String>,
    /// How gridz reads what it does not write.
    foreign: Option<&'d ForeignFilter>,
}

impl<'l> Dataset<'l> {
    /// The dataset with this id, for transfers by the property list `dxpl`.
    ///
    /// # Errors
    /// `Host` if it is none, or one without elements.
    pub fn open(library: &'l Library<'l>, id: Hid, dxpl: Hid) -> Result<Self> {
        let space = library.dataset_space(id)?;
        let extents = library.extents(space.id())?;
        let extents = extents.ok_or_else(|| Error::unsupported("the dataset has a null dataspace: no elements"))?;
        let (dtype, dcpl) = (library.dataset_type(id)?, library.dataset_plist(id)?);
        let element_bytes = library.api.size(dtype.id()).ok_or_else(|| told("the size of the datatype"))?;
        let chunk = library.chunk(dcpl.id()).filter(|chunk| chunk.len() == extents.len());
        let pipeline = library.api.pipeline(dcpl.id()).ok_or_else(|| told("the filter pipeline"))?;
        let mut foreign = None;
        let filters = match &chunk {
            None => Err("it is not in chunks".into()),
            Some(_) if library.has_pointers(dtype.id()) => Err("its elements are of variable length".into()),
            Some(_) if library.transforms(dxpl) => Err("HDF5 is to compute with its elements".into()),
            Some(_) if library.keeps_edges_unfiltered(dcpl.id()) => {
                Err("its chunks at the edges are kept without filters".into())
            }
            Some(chunk) => {
                let n_bytes = chunk.iter().try_fold(element_bytes as u64, |n, &extent| n.checked_mul(extent));
                let n_bytes = n_bytes.ok_or_else(|| Error::invalid("chunks of 2^64 bytes"))?;
                let filters = ChunkFilters::new(&pipeline, n_bytes);
                // Its elements are little-endian.
                let element = dataset::element(&library.api, dtype.id());
                let is_little = element.is_ok_and(|element| element.order() == ByteOrder::Little);
                foreign = ForeignFilter::new(&pipeline, n_bytes).filter(|_| is_little);
                let verify = if library.compares(dxpl) { Verify::Checksum } else { Verify::Structure };
                filters.map(|filters| filters.verifying(verify))
            }
        };
        Ok(Self { library, id, extents, chunk, dtype, element_bytes, dcpl, filters, foreign })
    }

    /// Extents of the dataset.
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// The box of `count` elements from `start` on, which in memory are of `memory_type` (`None`: as in the file), `strides`
    /// bytes from element to element along each axis (`None`: contiguous in C order).
    ///
    /// # Errors
    /// `InvalidArgument` if it is not inside the dataset, or elements overlap in memory.
    pub fn select(
        &'l self,
        start: &[u64],
        count: &[u64],
        memory_type: Option<Hid>,
        strides: Option<&[i64]>,
    ) -> Result<Access<'l>> {
        let memory_type = memory_type.unwrap_or(self.dtype.id());
        let memory_bytes = self.memory_bytes(memory_type)?;
        let swap = self.swapped(memory_type);
        let way = match (&self.filters, swap) {
            (Ok(filters), Some(_)) => Ok(filters),
            (Ok(_), None) => Err("elements have another type in memory".into()),
            (Err(why), _) => Err(why.clone()),
        };
        let unit = vec![1; self.extents.len()];
        let chunk = self.chunk.as_ref().unwrap_or(&unit);
        let foreign = self.foreign.as_ref().filter(|_| swap == Some(1));
        let boxes = match way {
            Ok(_) => chunk.clone(),
            Err(_) if foreign.is_some() => chunk.clone(),
            Err(_) => boxes(&self.extents, chunk, memory_bytes as u64, BOX_BYTES),
        };
        let selection = Selection::new(&self.extents, &boxes, start, count)?;
        // HDF5 changes the order itself where it works.
        let swap = if way.is_ok() { swap.unwrap_or(1) } else { 1 };
        let placement = Placement::new(&selection, memory_bytes, swap, strides)?;
        Ok(Access {
            dataset: self,
            start: start.to_vec(),
            count: count.to_vec(),
            memory_type,
            strides: strides.map(<[i64]>::to_vec),
            selection,
            placement,
            way,
            foreign,
        })
    }

    /// Bytes of an element in memory.
    pub(super) fn memory_bytes(&self, memory_type: Hid) -> Result<usize> {
        let found = self.library.api.size(memory_type);
        found.ok_or_else(|| Error::invalid("mem_type is no datatype; 0 means that of the dataset"))
    }

    /// Bytes of the numbers whose bytes are in another order in memory; 1 if elements are the same there. `None`: they are to
    /// be converted.
    pub(super) fn swapped(&self, memory_type: Hid) -> Option<usize> {
        let api = &self.library.api;
        if self.library.types_equal(memory_type, self.dtype.id()) {
            return Some(1);
        }
        // Those may name their members in another way, which HDF5 converts or refuses.
        if [memory_type, self.dtype.id()].into_iter().any(|dtype| dataset::is_enumeration(api, dtype)) {
            return None;
        }
        let (memory, file) =
            (dataset::element(api, memory_type).ok()?, dataset::element(api, self.dtype.id()).ok()?);
        let is_same =
            memory.dtype() == file.dtype() && memory.shape() == file.shape() && file.dtype() != DType::Opaque;
        is_same.then_some(if memory.order() == file.order() { 1 } else { file.dtype().number_size()? as usize })
    }

    /// What stands where nothing was written.
    pub(super) fn fill(&self) -> Result<Option<Vec<u8>>> {
        self.library.fill(self.dcpl.id(), self.dtype.id(), self.element_bytes)
    }
}

fn told(what: &str) -> Error {
    Error::new(ErrorKind::Host, format!("HDF5 does not tell {what}"))
}

/// Copies all elements of a dataset to another one of the same extents, whatever their chunks, filters and types.
///
/// Where both have the same chunks, filters of gridz and types the encoded bytes go as they are.
///
/// # Errors
/// `InvalidArgument` for different extents, `UnsupportedJob` for elements of variable length, and those of reading and
/// writing.
pub fn copy<'l>(from: &'l Dataset<'l>, to: &'l Dataset<'l>, options: &Options, progress: Progress) -> Result<()> {
    if from.extents != to.extents {
        let text = format!("the datasets have different extents, {:?} and {:?}", from.extents, to.extents);
        return Err(Error::invalid(text));
    }
    if from.library.is_parallel(from.id)? || to.library.is_parallel(to.id)? {
        return Err(Error::unsupported(
            "datasets in files that are open by MPI-IO cannot be copied; read and write them, each process its boxes",
        ));
    }
    if to.library.transforms(options.dxpl) {
        return Err(Error::unsupported(
            "a copy would be transformed twice, when it is read and when it is written; use a list without a transform",
        ));
    }
    if [from, to].iter().any(|dataset| dataset.library.has_pointers(dataset.dtype.id())) {
        return Err(Error::unsupported("elements of variable length cannot be copied so; use H5Ocopy or h5repack"));
    }
    let rank = to.extents.len();
    let unit = vec![1; rank];
    let chunk = to.chunk.as_ref().unwrap_or(&unit);
    let is_same = from.chunk.is_some()
        && from.chunk == to.chunk
        && to.library.types_equal(from.dtype.id(), to.dtype.id())
        && matches!((&from.filters, &to.filters), (Ok(one), Ok(other)) if one.same_as(other));
    let extents = match is_same {
        true => chunk.clone(),
        false => boxes(&to.extents, chunk, to.element_bytes as u64, BOX_BYTES.min(options.memory_limit / 2)),
    };
    let selection = Selection::new(&to.extents, &extents, &vec![0; rank], &to.extents)?;
    let total = selection.count().iter().product::<u64>() * to.element_bytes as u64;
    let fills = [from.fill()?, to.fill()?];
    let is_same_fill = fills[0] == fills[1] && fills[0].is_some();
    let all = |dataset: &'l Dataset<'l>| dataset.select(&vec![0; rank], &dataset.extents, None, None);
    let (source, target) = (all(from)?, all(to)?);
    let (mut source, mut target) = (Store::new(&source, options.dxpl), Store::new(&target, options.dxpl));
    let (mut done, mut bytes) = (0, Buffer::new(0)?);
    for i in 0..selection.n_chunks() {
        let part = selection.part(i);
        match is_same.then(|| source.read(part.chunk(), &mut bytes)).transpose()?.flatten() {
            Some(Encoded { n_bytes, mask: 0 }) => target.write(part.chunk(), &bytes.bytes()[..n_bytes])?,
            None if is_same && is_same_fill && !target.has(part.chunk())? => {}
            // A chunk that was not written is one of fill values here, but not there.
            _ => copy_box(from, to, &part, options, &mut bytes)?,
        }
        done += part.n_elements() * to.element_bytes as u64;
        if !progress(done, total) {
            return Err(cancelled());
        }
    }
    Ok(())
}

/// Copies the elements of `part`, of which a selection has whole chunks, by way of `buffer`.
fn copy_box(from: &Dataset, to: &Dataset, part: &Part, options: &Options, buffer: &mut Buffer) -> Result<()> {
    let n_bytes = part.n_elements() as usize * to.element_bytes;
    if buffer.n_bytes() < n_bytes {
        *buffer = Buffer::new(n_bytes)?;
    }
    let buffer = &mut buffer.bytes()[..n_bytes];
    // HDF5 leaves alone what is not in the file: elements that were never written, and new members of compounds.
    buffer.fill(0);
    let silent = &mut |_, _| true;
    let dtype = Some(to.dtype.id());
    from.select(part.chunk(), part.count(), dtype, None)?.read(Destination::Host(buffer), options, silent)?;
    to.select(part.chunk(), part.count(), dtype, None)?.write(Source::Host(buffer), options, silent)
}

/// Extents of boxes of a dataset of `extents`: whole chunks, as many as make about `box_bytes` and lie behind each other.
fn boxes(extents: &[u64], chunk: &[u64], element_bytes: u64, box_bytes: u64) -> Vec<u64> {
    let mut boxes = chunk.to_vec();
    let mut n_bytes = chunk.iter().fold(element_bytes, |n, &extent| n.saturating_mul(extent));
    for axis in (0..extents.len()).rev() {
        let n_chunks = extents[axis].div_ceil(chunk[axis]).max(1).min((box_bytes / n_bytes.max(1)).max(1));
        boxes[axis] = chunk[axis].saturating_mul(n_chunks);
        n_bytes = n_bytes.saturating_mul(n_chunks);
        if boxes[axis] < extents[axis] {
            break;
        }
    }
    boxes
}

impl Access<'_> {
    /// Bytes of the memory, from its lowest element to the end of the highest.
    pub fn span(&self) -> usize {
        self.placement.span()
    }

    /// Bytes from the start of the memory to the first element.
    pub fn first(&self) -> usize {
        self.placement.first()
    }

    /// Writes the box from `memory`.
    ///
    /// # Errors
    /// `Host`, `OutOfMemory`, `UnsupportedJob` for what cannot be written by several processes, `Cancelled`. Chunks before
    /// the one that failed are in the file.
    pub fn write(&self, memory: Source, options: &Options, progress: Progress) -> Result<()> {
        let Dataset { library, id, .. } = *self.dataset;
        let is_parallel = library.is_parallel(id)?;
        match &self.way {
            Ok(filters) if !is_parallel => {
                let fill = self.dataset.fill()?;
                let mut store = Store::new(self, options.dxpl);
                self.transfer(*filters, fill.as_deref(), options).write(&mut store, memory, progress)
            }
            way => {
                let why = way.as_ref().err().map_or("its file is open by MPI-IO", String::as_str);
                let Source::Host(memory) = memory else { return Err(not_from_gpu(why)) };
                self.log("written", why);
                self.by_hdf5(is_parallel, options.dxpl, progress, &mut |call, which| match which {
                    // SAFETY: all of the memory, of which the dataspace has all elements.
                    Memory::All => unsafe { library.write(call, memory.as_ptr().add(self.placement.first())) },
                    Memory::Part(placement, part, buffer) => {
                        placement.gather(part, memory, buffer);
                        // SAFETY: a buffer of the extents of the dataspace.
                        unsafe { library.write(call, buffer.as_ptr()) }
                    }
                })
            }
        }
    }

    /// Reads the box to `memory`.
    ///
    /// # Errors
    /// `Host`, `OutOfMemory`, `Corrupt` and others for damaged chunks, `Cancelled`. Then what has been written to the memory is
    /// unspecified.
    pub fn read(&self, memory: Destination, options: &Options, progress: Progress) -> Result<()> {
        let Dataset { library, id, .. } = *self.dataset;
        match self.reader() {
            Ok(coder) => {
                let fill = self.dataset.fill()?;
                // Each process reads for itself, so not by a list that says that all do.
                let dxpl = if library.is_parallel(id)? { abi::DEFAULT_PLIST } else { options.dxpl };
                let mut store = Store::new(self, dxpl);
                self.transfer(coder, fill.as_deref(), options).read(&mut store, memory, progress)
            }
            Err(why) => {
                let Destination::Host(memory) = memory else { return Err(not_from_gpu(why)) };
                self.log("read", why);
                let is_parallel = library.is_parallel(id)?;
                self.by_hdf5(is_parallel, options.dxpl, progress, &mut |call, which| match which {
                    // SAFETY: all of the memory, of which the dataspace has all elements.
                    Memory::All => unsafe { library.read(call, memory.as_mut_ptr().add(self.placement.first())) },
                    Memory::Part(placement, part, buffer) => {
                        // What HDF5 leaves alone stays as it is.
                        placement.gather(part, memory, buffer);
                        // SAFETY: a buffer of the extents of the dataspace.
                        unsafe { library.read(call, buffer.as_mut_ptr())? };
                        // SAFETY: this thread alone has the memory.
                        unsafe { placement.scatter(part, buffer, &SharedBytes::new(memory)) };
                        Ok(())
                    }
                })
            }
        }
    }

    /// What decodes chunks; or why HDF5 has to read them.
    fn reader(&self) -> std::result::Result<&dyn ChunkCoder, &str> {
        match (&self.way, self.foreign) {
            (Ok(filters), _) => Ok(*filters),
            (Err(_), Some(foreign)) => Ok(foreign),
            (Err(why), None) => Err(why),
        }
    }

    fn transfer<'a>(
        &'a self,
        coder: &'a dyn ChunkCoder,
        fill: Option<&'a [u8]>,
        options: &Options<'a>,
    ) -> Transfer<'a> {
        let &Options { context, memory_limit, .. } = options;
        Transfer { selection: &self.selection, placement: &self.placement, coder, fill, context, memory_limit }
    }

    /// Encoded bytes that a chunk can have: made by gridz, or without it.
    fn most_encoded_bytes(&self) -> usize {
        let chunk_bytes = self.selection.chunk().iter().product::<u64>() as usize * self.dataset.element_bytes;
        let bound = self.reader().map_or(0, ChunkCoder::bound);
        bound.max(chunk_bytes + MAX_HEADER_BYTES)
    }

    fn log(&self, done: &str, why: &str) {
        settings::log(LogLevel::Info, || format!("a dataset is {done} by HDF5's own functions, because {why}"));
    }

    /// Goes HDF5's own way: `transfer` is given what HDF5 is to be called with.
    fn by_hdf5(
        &self,
        is_parallel: bool,
        dxpl: Hid,
        progress: Progress,
        transfer: &mut dyn FnMut(&Call, Memory) -> Result<()>,
    ) -> Result<()> {
        let Dataset { library, id, extents, .. } = self.dataset;
        let file_space = library.dataset_space(*id)?;
        let call = |memory_space: Hid, file_space: Hid| Call {
            dataset: *id,
            memory_type: self.memory_type,
            memory_space,
            file_space,
            dxpl,
        };
        let rank = extents.len();
        let total = self.count.iter().product::<u64>() * self.placement.element_bytes() as u64;
        if is_parallel || rank == 0 {
            // One call, in which all processes take part, whatever there is to do in each.
            let memory_space = library.space_with(&self.count, &vec![0; rank], &self.count)?;
            if rank > 0 {
                library.select(file_space.id(), &self.start, &self.count)?;
            }
            let call = call(memory_space.id(), file_space.id());
            match &self.strides {
                Some(strides) if total > 0 => {
                    // The box as a dataset of its own, of one chunk.
                    let all = Selection::new(&self.count, &self.count, &vec![0; rank], &self.count)?;
                    let placement = Placement::new(&all, self.placement.element_bytes(), 1, Some(strides))?;
                    let mut buffer = Buffer::new(total as usize)?;
                    transfer(&call, Memory::Part(&placement, &all.part(0), buffer.bytes()))?;
                }
                _ => transfer(&call, Memory::All)?,
            }
            return if progress(total, total) { Ok(()) } else { Err(cancelled()) };
        }
        let (mut done, mut buffer) = (0, Buffer::new(0)?);
        for i in 0..self.selection.n_chunks() {
            let part = self.selection.part(i);
            let start: Vec<u64> = part.chunk().iter().zip(part.in_chunk()).map(|(a, b)| a + b).collect();
            library.select(file_space.id(), &start, part.count())?;
            if self.strides.is_none() {
                let memory_space = library.space_with(&self.count, part.in_selection(), part.count())?;
                transfer(&call(memory_space.id(), file_space.id()), Memory::All)?;
            } else {
                let n_bytes =
                    self.selection.chunk().iter().product::<u64>() as usize * self.placement.element_bytes();
                if buffer.n_bytes() < n_bytes {
                    buffer = Buffer::new(n_bytes)?;
                }
                let memory_space = library.space_with(self.selection.chunk(), part.in_chunk(), part.count())?;
                transfer(
                    &call(memory_space.id(), file_space.id()),
                    Memory::Part(&self.placement, &part, buffer.bytes()),
                )?;
            }
            done += part.n_elements() * self.placement.element_bytes() as u64;
            if !progress(done, total) {
                return Err(cancelled());
            }
        }
        Ok(())
    }
}

fn not_from_gpu(why: &str) -> Error {
    Error::unsupported(format!(
        "the array is in the memory of a GPU, and HDF5 itself has to move it, because {why}; use memory of the host"
    ))
}

/// The memory of a call of HDF5.
enum Memory<'a> {
    /// All of it.
    All,
    /// A buffer for a part of the selection, which lies in memory so.
    Part(&'a Placement, &'a Part, &'a mut [u8]),
}

/// The chunks of a dataset.
///
/// `H5Dwrite_chunk` (libhdf5 1.10 to 2.2) does not always note the filter mask of a chunk that is there already: not if
/// the new bytes are as many as the old ones, and not before another chunk is looked for. Read with the mask that was there before,
/// the chunk would be nonsense. So where filters were left out of a chunk, `H5Dwrite` writes over it.
struct Store<'s> {
    access: &'s Access<'s>,
    dxpl: Hid,
    /// What is there of the chunks of the selection, by their numbers in it, once all were asked for.
    index: Option<HashMap<u64, Encoded>>,
    is_asked: bool,
    /// The numbers of chunks that were read and had filters left out.
    left_out: HashSet<u64>,
    buffer: Option<Buffer>,
}

impl<'s> Store<'s> {
    fn new(access: &'s Access<'s>, dxpl: Hid) -> Self {
        Self { access, dxpl, index: None, is_asked: false, left_out: HashSet::new(), buffer: None }
    }

    fn number(&self, chunk: &[u64]) -> u64 {
        self.access.selection.number_of(chunk).expect("a chunk of the selection")
    }

    /// What is there of a chunk, if all were asked for: there are many, and this libhdf5 can tell.
    fn indexed(&mut self, chunk: &[u64]) -> Result<Option<Option<Encoded>>> {
        let Access { dataset: Dataset { library, id, extents, .. }, selection, .. } = self.access;
        if !self.is_asked && selection.n_chunks() >= MANY_CHUNKS {
            let mut index = HashMap::new();
            let can = library.for_each_chunk(*id, extents.len(), |chunk, Stored { n_bytes, mask, .. }| {
                let encoded = Encoded { n_bytes: n_bytes as usize, mask };
                selection.number_of(chunk).map(|number| index.insert(number, encoded));
            })?;
            self.index = can.then_some(index);
        }
        self.is_asked = true;
        Ok(self.index.as_ref().map(|index| index.get(&self.number(chunk)).copied()))
    }

    /// Whether a chunk was written.
    fn has(&mut self, chunk: &[u64]) -> Result<bool> {
        let Dataset { library, id, .. } = self.access.dataset;
        Ok(match self.indexed(chunk)? {
            Some(encoded) => encoded.is_some(),
            None => library.encoded_bytes(*id, chunk)?.is_some(),
        })
    }

    /// Whether filters were left out of what is there of a chunk.
    fn has_left_out(&mut self, chunk: &[u64]) -> Result<bool> {
        if let Some(encoded) = self.indexed(chunk)? {
            return Ok(encoded.is_some_and(|encoded| encoded.mask != 0));
        }
        // What stays in part has been read before.
        if self.access.selection.part(self.number(chunk)).covers() != Covers::Part {
            // A search, not what is certain: that would go through all chunks for each one that is new.
            let Dataset { library, id, .. } = self.access.dataset;
            if library.known_bytes(*id, chunk).is_none() {
                return Ok(false);
            }
            let mut buffer = self.buffer.take().map_or_else(|| Buffer::new(0), Ok)?;
            // HDF5 has a function for the mask alone, but it goes through all chunks up to this one.
            let read = self.read(chunk, &mut buffer);
            self.buffer = Some(buffer);
            match read {
                // What cannot be read is written over.
                Err(error) if matches!(error.kind(), ErrorKind::Host | ErrorKind::Corrupt) => return Ok(false),
                read => read?,
            };
        }
        Ok(self.left_out.contains(&self.number(chunk)))
    }

    /// Has HDF5 write the chunk whose encoded bytes these are.
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
        // SAFETY: elements of the dataset's type, of the extents of the dataspace.
        unsafe { library.write(&call, elements.bytes().as_ptr()) }
    }
}

impl ChunkStore for Store<'_> {
    fn read(&mut self, chunk: &[u64], bytes: &mut Buffer) -> Result<Option<Encoded>> {
        let Dataset { library, id, .. } = self.access.dataset;
        let indexed = self.indexed(chunk)?;
        let n_bytes = match indexed {
            Some(encoded) if library.tells_lengths() => encoded.map(|encoded| encoded.n_bytes),
            Some(None) => None,
            // The index may be old when HDF5 writes to our memory what there is.
            _ => library.encoded_bytes(*id, chunk)?.map(|n_bytes| n_bytes as usize),
        };
        let Some(n_bytes) = n_bytes else { return Ok(None) };
        // A damaged file must not choose how much memory is allocated.
        let most = self.access.most_encoded_bytes();
        if n_bytes > most {
            return Err(Error::corrupt(format!(
                "a chunk of {n_bytes} encoded bytes, where {most} are the most there can be"
            )));
        }
        if bytes.n_bytes() < n_bytes {
            *bytes = Buffer::new(n_bytes)?;
        }
        let mask = library.read_chunk(*id, self.dxpl, chunk, &mut bytes.bytes()[..n_bytes])?;
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
