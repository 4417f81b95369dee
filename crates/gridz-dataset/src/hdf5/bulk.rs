//! Transfers whole datasets between memory and HDF5 files.
//!
//! HDF5 calls a filter for one chunk at a time, on one thread. Here all threads encode chunks of
//! the array, and HDF5 gets the finished bytes through `H5Dwrite_chunk`. They are the same bytes
//! that its filter would make. Reading is the reverse. If the file is open for reading only, all
//! threads also read the chunks from it (`descriptor`).
//!
//! Everything else falls back to `H5Dwrite` and `H5Dread`, box by box: other filters, type
//! conversions, datasets without chunks, and writing through MPI-IO. `GRIDZ_LOG=info` logs when and
//! why.
//!
//! Only the calling thread calls HDF5.

#![allow(unsafe_code)] // memory that HDF5 reads and writes

use super::abi::{self, Hid};
use super::api::Owned;
use super::chunk::ChunkFilters;
use super::dataset;
use super::dataset_store::DatasetStore;
use super::library::{Call, Library};
use super::third_party::ThirdPartyCoder;
use crate::bulk::{
    Buffer, ChunkCoder, ChunkStore, Encoded, Part, PlacedCoder, Placement, Progress, Selection, SharedBytes,
    Transfer, report,
};
use gridz::{Context, Verify};
use gridz::{Destination, Source};
use gridz_codecs::error::{Error, Result};
use gridz_codecs::format::header::MAX_HEADER_BYTES;
use gridz_codecs::settings::{self, LogLevel};
use gridz_codecs::types::{ByteOrder, DType};

/// Approximate bytes of a box that `H5Dwrite` or `H5Dread` transfers.
const BOX_BYTES: u64 = 64 << 20;

/// Options of a transfer.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Threads and memory.
    pub context: &'a Context,
    /// Maximum total size in bytes of buffers.
    pub memory_limit: u64,
    /// HDF5's data transfer property list.
    pub dxpl: Hid,
}

/// A dataset that the program has opened.
pub struct Dataset<'l> {
    pub(super) library: &'l Library<'l>,
    pub(super) id: Hid,
    pub(super) extents: Vec<u64>,
    pub(super) chunk: Option<Vec<u64>>,
    pub(super) dtype: Owned<'l>,
    pub(super) element_bytes: usize,
    dcpl: Owned<'l>,
    /// The filters that gridz applies itself, or the reason why HDF5 must apply them.
    pub(super) filters: std::result::Result<ChunkFilters, String>,
    /// A third-party filter whose chunks gridz can read.
    third_party: Option<ThirdPartyCoder>,
}

/// A box of a dataset, and its layout in memory.
pub struct Access<'d> {
    pub(super) dataset: &'d Dataset<'d>,
    start: Vec<u64>,
    count: Vec<u64>,
    memory_type: Hid,
    /// `None` = contiguous in C order.
    strides: Option<Vec<i64>>,
    pub(super) selection: Selection,
    placement: Placement,
    pub(super) way: std::result::Result<&'d ChunkFilters, String>,
    /// Decodes chunks that gridz can read but not write.
    third_party: Option<&'d ThirdPartyCoder>,
}

impl<'l> Dataset<'l> {
    /// Opens the dataset with this id for transfers with the property list `dxpl`.
    ///
    /// # Errors
    /// `Host` if the id is not a dataset, `UnsupportedJob` if the dataset has a null dataspace.
    pub fn open(library: &'l Library<'l>, id: Hid, dxpl: Hid) -> Result<Self> {
        let space = library.dataset_space(id)?;
        let extents = library.extents(space.id())?;
        let extents = extents.ok_or_else(|| Error::unsupported("the dataset has a null dataspace: no elements"))?;
        let (dtype, dcpl) = (library.dataset_type(id)?, library.dataset_plist(id)?);
        let element_bytes =
            library.api.size(dtype.id()).ok_or_else(|| dataset::not_reported("the size of the datatype"))?;
        let chunk = library.chunk(dcpl.id()).filter(|chunk| chunk.len() == extents.len());
        let pipeline =
            library.api.pipeline(dcpl.id()).ok_or_else(|| dataset::not_reported("the filter pipeline"))?;
        let mut third_party = None;
        let filters = match &chunk {
            None => Err("it is not chunked".into()),
            Some(_) if library.has_pointers(dtype.id()) => Err("its elements are of variable length".into()),
            Some(_) if library.transforms(dxpl) => Err("the transfer property list has a data transform".into()),
            Some(_) if library.keeps_edges_unfiltered(dcpl.id()) => {
                Err("its chunks at the edges are stored without filters".into())
            }
            Some(chunk) => {
                let n_bytes = chunk.iter().try_fold(element_bytes as u64, |n, &extent| n.checked_mul(extent));
                let n_bytes = n_bytes.ok_or_else(|| {
                    Error::invalid(format!(
                        "chunks {chunk:?} of elements of {element_bytes} bytes have 2^64 bytes or more, which is not \
                         supported"
                    ))
                })?;
                let filters = ChunkFilters::new(&pipeline, n_bytes);
                // The third-party codec decodes to little-endian elements.
                let element = dataset::element(&library.api, dtype.id());
                let is_little = element.is_ok_and(|element| element.order() == ByteOrder::Little);
                third_party = ThirdPartyCoder::new(&pipeline, n_bytes).filter(|_| is_little);
                let verify = if library.compares(dxpl) { Verify::Checksum } else { Verify::Structure };
                filters.map(|filters| filters.verifying(verify))
            }
        };
        Ok(Self { library, id, extents, chunk, dtype, element_bytes, dcpl, filters, third_party })
    }

    /// Extents of the dataset.
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// Selects the box of `count` elements from `start` on. In memory its elements have type
    /// `memory_type` (`None` = as in the file). `strides` are the distances in bytes along each
    /// axis (`None` = contiguous in C order).
    ///
    /// # Errors
    /// `InvalidArgument` if the box is not inside the dataset, or elements overlap in memory.
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
        let third_party = self.third_party.as_ref().filter(|_| swap == Some(1));
        let boxes = match way {
            Ok(_) => chunk.clone(),
            Err(_) if third_party.is_some() => chunk.clone(),
            Err(_) => boxes(&self.extents, chunk, memory_bytes as u64, BOX_BYTES),
        };
        let selection = Selection::new(&self.extents, &boxes, start, count)?;
        // HDF5 converts the byte order itself in the fallback.
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
            third_party,
        })
    }

    /// Bytes of an element in memory.
    pub(super) fn memory_bytes(&self, memory_type: Hid) -> Result<usize> {
        let found = self.library.api.size(memory_type);
        found.ok_or_else(|| Error::invalid("mem_type is not a datatype; pass 0 for the type of the dataset"))
    }

    /// Size in bytes of the numbers whose byte order differs in memory; 1 if elements are identical
    /// there. `None` if elements need a conversion.
    pub(super) fn swapped(&self, memory_type: Hid) -> Option<usize> {
        let api = &self.library.api;
        if self.library.types_equal(memory_type, self.dtype.id()) {
            return Some(1);
        }
        // Two enumerations may name their members differently. HDF5 converts or rejects those.
        if [memory_type, self.dtype.id()].into_iter().any(|dtype| dataset::is_enumeration(api, dtype)) {
            return None;
        }
        let (memory, file) =
            (dataset::element(api, memory_type).ok()?, dataset::element(api, self.dtype.id()).ok()?);
        let is_same =
            memory.dtype() == file.dtype() && memory.shape() == file.shape() && file.dtype() != DType::Opaque;
        is_same.then_some(if memory.order() == file.order() { 1 } else { file.dtype().number_size()? as usize })
    }

    /// The fill value of elements that were never written.
    pub(super) fn fill(&self) -> Result<Option<Vec<u8>>> {
        self.library.fill(self.dcpl.id(), self.dtype.id(), self.element_bytes)
    }
}

/// Copies all elements of a dataset to another one of the same extents. Chunks, filters and types
/// may differ.
///
/// If chunks, types and the filters of gridz are the same, the encoded bytes are copied unchanged.
///
/// # Errors
/// `InvalidArgument` for different extents, `UnsupportedJob` for elements of variable length, and
/// the errors of reading and writing.
pub fn copy<'l>(from: &'l Dataset<'l>, to: &'l Dataset<'l>, options: &Options, progress: Progress) -> Result<()> {
    if from.extents != to.extents {
        let text = format!("the datasets have different extents, {:?} and {:?}", from.extents, to.extents);
        return Err(Error::invalid(text));
    }
    if from.library.is_parallel(from.id)? || to.library.is_parallel(to.id)? {
        return Err(Error::unsupported(
            "datasets in files opened with MPI-IO cannot be copied; let each process read and write its boxes",
        ));
    }
    if to.library.transforms(options.dxpl) {
        return Err(Error::unsupported(
            "the data transform would be applied twice, for reading and for writing; pass a property list without \
             a transform",
        ));
    }
    if [from, to].iter().any(|dataset| dataset.library.has_pointers(dataset.dtype.id())) {
        return Err(Error::unsupported(
            "elements of variable length cannot be copied by this function; use H5Ocopy or h5repack",
        ));
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
    let (mut source, mut target) =
        (DatasetStore::new(&source, options.dxpl), DatasetStore::new(&target, options.dxpl));
    let (mut done, mut bytes) = (0, Buffer::new(0)?);
    for i in 0..selection.n_chunks() {
        let part = selection.part(i);
        match is_same.then(|| source.read(part.chunk(), &mut bytes)).transpose()?.flatten() {
            Some(Encoded { n_bytes, mask: 0 }) => target.write(part.chunk(), &bytes.bytes()[..n_bytes])?,
            None if is_same && is_same_fill && !target.has(part.chunk())? => {}
            // A chunk that was never written means fill values in the source but not in the target.
            _ => copy_box(from, to, &part, options, &mut bytes)?,
        }
        done += part.n_elements() * to.element_bytes as u64;
        report(progress, done, total)?;
    }
    Ok(())
}

/// Copies the elements of `part`, which consists of whole chunks, through `buffer`.
fn copy_box(from: &Dataset, to: &Dataset, part: &Part, options: &Options, buffer: &mut Buffer) -> Result<()> {
    let buffer = buffer.reserve(part.n_elements() as usize * to.element_bytes)?;
    // HDF5 leaves some bytes unchanged: elements that were never written, and new members of
    // compounds.
    buffer.fill(0);
    let silent = &mut |_, _| true;
    let dtype = Some(to.dtype.id());
    from.select(part.chunk(), part.count(), dtype, None)?.read(Destination::Host(buffer), options, silent)?;
    to.select(part.chunk(), part.count(), dtype, None)?.write(Source::Host(buffer), options, silent)
}

/// Extents of boxes of a dataset of `extents`. A box has whole chunks, contiguous in C order, with
/// about `box_bytes` together.
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
    /// Bytes of the memory range, from the lowest element to the end of the highest.
    pub fn span(&self) -> usize {
        self.placement.span()
    }

    /// Offset of the first element in the memory range, in bytes.
    pub fn first(&self) -> usize {
        self.placement.first()
    }

    /// Writes the box from `memory`.
    ///
    /// # Errors
    /// `Host`, `OutOfMemory`, `Cancelled`, `UnsupportedJob` for GPU memory that only HDF5 itself
    /// could transfer. Chunks before the one that failed are in the file.
    pub fn write(&self, memory: Source, options: &Options, progress: Progress) -> Result<()> {
        let Dataset { library, id, .. } = *self.dataset;
        let is_parallel = library.is_parallel(id)?;
        match &self.way {
            Ok(filters) if !is_parallel => {
                let fill = self.dataset.fill()?;
                let mut store = DatasetStore::new(self, options.dxpl);
                self.transfer(*filters, fill.as_deref(), options).write(&mut store, memory, progress)
            }
            way => {
                let why = way.as_ref().err().map_or("its file was opened with MPI-IO", String::as_str);
                let Source::Host(memory) = memory else { return Err(not_from_gpu(why)) };
                self.log("written", why);
                self.by_hdf5(is_parallel, options.dxpl, progress, &mut |call, which| match which {
                    // SAFETY: the whole memory range; the dataspace selects elements inside it.
                    Memory::All => unsafe { library.write(call, memory.as_ptr().add(self.placement.first())) },
                    Memory::Part(placement, part, buffer) => {
                        placement.gather(part, memory, buffer);
                        // SAFETY: a buffer with the extents of the dataspace.
                        unsafe { library.write(call, buffer.as_ptr()) }
                    }
                })
            }
        }
    }

    /// Reads the box to `memory`.
    ///
    /// # Errors
    /// Those of [`Access::write`], and `Corrupt` and other errors for damaged chunks. After an
    /// error the contents of the memory are unspecified.
    pub fn read(&self, memory: Destination, options: &Options, progress: Progress) -> Result<()> {
        let Dataset { library, id, .. } = *self.dataset;
        match self.reader() {
            Ok(coder) => {
                let fill = self.dataset.fill()?;
                // Each process reads independently, so a collective property list would be wrong.
                let dxpl = if library.is_parallel(id)? { abi::DEFAULT_PLIST } else { options.dxpl };
                let mut store = DatasetStore::new(self, dxpl);
                let file = store.placed()?;
                let placed = file.as_ref().map(|file| PlacedCoder::new(coder, file));
                let coder = placed.as_ref().map_or(coder, |placed| placed);
                self.transfer(coder, fill.as_deref(), options).read(&mut store, memory, progress)
            }
            Err(why) => {
                let Destination::Host(memory) = memory else { return Err(not_from_gpu(why)) };
                self.log("read", why);
                let is_parallel = library.is_parallel(id)?;
                self.by_hdf5(is_parallel, options.dxpl, progress, &mut |call, which| match which {
                    // SAFETY: the whole memory range; the dataspace selects elements inside it.
                    Memory::All => unsafe { library.read(call, memory.as_mut_ptr().add(self.placement.first())) },
                    Memory::Part(placement, part, buffer) => {
                        // Elements that HDF5 leaves unchanged must keep their values.
                        placement.gather(part, memory, buffer);
                        // SAFETY: a buffer with the extents of the dataspace.
                        unsafe { library.read(call, buffer.as_mut_ptr())? };
                        // SAFETY: only this thread uses the memory.
                        unsafe { placement.scatter(part, buffer, &SharedBytes::new(memory)) };
                        Ok(())
                    }
                })
            }
        }
    }

    /// The decoder of the chunks, or the reason why HDF5 must read them.
    fn reader(&self) -> std::result::Result<&dyn ChunkCoder, &str> {
        match (&self.way, self.third_party) {
            (Ok(filters), _) => Ok(*filters),
            (Err(_), Some(third_party)) => Ok(third_party),
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

    /// Maximum number of encoded bytes of a chunk, with or without the filter.
    pub(super) fn most_encoded_bytes(&self) -> usize {
        let chunk_bytes = self.selection.chunk().iter().product::<u64>() as usize * self.dataset.element_bytes;
        let bound = self.reader().map_or(0, ChunkCoder::bound);
        bound.max(chunk_bytes + MAX_HEADER_BYTES)
    }

    fn log(&self, done: &str, why: &str) {
        settings::log(LogLevel::Info, || format!("a dataset is {done} by HDF5's own functions, because {why}"));
    }

    /// Transfers the box by `H5Dwrite` or `H5Dread`: `transfer` gets the arguments of each call.
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
            // One collective call in which all processes take part, even those without elements.
            let memory_space = library.space_with(&self.count, &vec![0; rank], &self.count)?;
            if rank > 0 {
                library.select(file_space.id(), &self.start, &self.count)?;
            }
            let call = call(memory_space.id(), file_space.id());
            match &self.strides {
                Some(strides) if total > 0 => {
                    // The box as a dataset of its own, with one chunk.
                    let all = Selection::new(&self.count, &self.count, &vec![0; rank], &self.count)?;
                    let placement = Placement::new(&all, self.placement.element_bytes(), 1, Some(strides))?;
                    let mut buffer = Buffer::new(total as usize)?;
                    transfer(&call, Memory::Part(&placement, &all.part(0), buffer.bytes()))?;
                }
                _ => transfer(&call, Memory::All)?,
            }
            return report(progress, total, total);
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
                let memory_space = library.space_with(self.selection.chunk(), part.in_chunk(), part.count())?;
                transfer(
                    &call(memory_space.id(), file_space.id()),
                    Memory::Part(&self.placement, &part, buffer.reserve(n_bytes)?),
                )?;
            }
            done += part.n_elements() * self.placement.element_bytes() as u64;
            report(progress, done, total)?;
        }
        Ok(())
    }
}

fn not_from_gpu(why: &str) -> Error {
    Error::unsupported(format!(
        "the array is in GPU memory, but only HDF5 itself can transfer this dataset, because {why}; use host memory"
    ))
}

/// The memory of a call to `H5Dwrite` or `H5Dread`.
enum Memory<'a> {
    /// The caller's memory.
    All,
    /// A buffer for a part of the selection, and the placement of that part in the caller's memory.
    Part(&'a Placement, &'a Part, &'a mut [u8]),
}
