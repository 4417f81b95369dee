//! Transfers a selection between an array in memory and a store of chunks.
#![allow(unsafe_code, reason = "threads write parts of one memory")]

use std::sync::Mutex;

use crate::bulk::buffer::Buffer;
use crate::bulk::pipeline;
use crate::bulk::placement::Placement;
use crate::bulk::selection::{Covers, Part, Selection};
use crate::bulk::store::{ChunkCoder, ChunkStore, Encoded};
use gridz::Context;
use gridz::device::{DeviceChunk, DeviceSlice};
use gridz::{Destination, Source};
use gridz_codecs::cpu::pool::{Pool, lock};
use gridz_codecs::cpu::shared::SharedBytes;
use gridz_codecs::error::{Error, ErrorKind, Result};

/// Progress callback. After every chunk it gets the number of array bytes done and the total.
/// Returning false cancels the transfer.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Tasks in flight per thread: one that it works on, and one that waits for it or for the store.
const TASKS_PER_THREAD: usize = 2;
/// Larger tasks have only one more in flight than there are threads. Their buffers have left the
/// cache before they are reused, and each new buffer consists of untouched pages.
const LARGE_TASK_BYTES: usize = 32 << 20;

/// A transfer of a selection.
pub struct Transfer<'a> {
    /// The selected box of the dataset.
    pub selection: &'a Selection,
    /// Layout of the box in memory.
    pub placement: &'a Placement,
    /// Encodes and decodes chunks.
    pub coder: &'a dyn ChunkCoder,
    /// Fill value of elements that were never written, in the byte order of chunks. `None`: reads
    /// leave the memory unchanged, and writes use zeros.
    pub fill: Option<&'a [u8]>,
    /// Threads and memory.
    pub context: &'a Context,
    /// Maximum total size in bytes of buffers, but always enough for one chunk.
    pub memory_limit: u64,
}

/// Reusable buffers, last in first out, because the last one may still be in a cache.
#[derive(Default)]
pub(super) struct Buffers(Mutex<Vec<Buffer>>);

impl Buffers {
    /// A buffer of at least `n_bytes` with arbitrary contents.
    pub(super) fn take(&self, n_bytes: usize) -> Result<Buffer> {
        let kept = lock(&self.0).pop().filter(|kept| kept.n_bytes() >= n_bytes);
        kept.map_or_else(|| Buffer::new(n_bytes), Ok)
    }

    pub(super) fn put(&self, buffer: Buffer) {
        lock(&self.0).push(buffer);
    }
}

/// Distribution of the work over threads.
struct Split<'a> {
    pool: &'a Pool,
    /// Context for the work on one chunk.
    context: &'a Context,
    window: usize,
}

/// A write task: a chunk on its way to the store.
struct Outgoing {
    part: Part,
    /// The stored chunk, if it exists and some of its elements are kept.
    before: Option<(Encoded, Buffer)>,
}

/// A read task: a chunk on its way from the store.
struct Incoming {
    part: Part,
    /// Description of the encoded bytes, if the chunk was ever written.
    encoded: Option<Encoded>,
    bytes: Buffer,
}

/// Calls the progress callback.
///
/// # Errors
/// `Cancelled` if it cancels the transfer.
pub fn report(progress: Progress, done: u64, total: u64) -> Result<()> {
    if progress(done, total) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Cancelled,
        "the progress callback canceled the transfer; the chunks that were reported before are complete",
    ))
}

impl Transfer<'_> {
    /// Bytes of a chunk.
    fn chunk_bytes(&self) -> usize {
        self.selection.chunk().iter().product::<u64>() as usize * self.placement.element_bytes()
    }

    /// Bytes of `part`.
    pub(super) fn bytes_of(&self, part: &Part) -> u64 {
        part.n_elements() * self.placement.element_bytes() as u64
    }

    pub(super) fn total_bytes(&self) -> u64 {
        match self.selection.n_chunks() {
            0 => 0,
            _ => self.selection.count().iter().product::<u64>() * self.placement.element_bytes() as u64,
        }
    }

    /// Distributes the work: many chunks run in parallel, each on one thread; few chunks run one
    /// after the other, each on all threads. `alone` is a context of one thread. A task needs
    /// `bytes_of_task` bytes.
    fn split<'a>(&'a self, alone: &'a Context, bytes_of_task: usize) -> Split<'a> {
        let all = self.context.pool();
        let affordable = (self.memory_limit / bytes_of_task.max(1) as u64).max(1) as usize;
        let is_large = bytes_of_task > LARGE_TASK_BYTES;
        let wanted = if is_large { all.threads() + 1 } else { all.threads() * TASKS_PER_THREAD };
        let window = wanted.min(affordable);
        if window > all.threads() / 2 && all.threads() > 1 && self.selection.n_chunks() >= window as u64 {
            Split { pool: all, context: alone, window }
        } else {
            Split { pool: alone.pool(), context: self.context, window: 1 }
        }
    }

    /// Writes the selection from `memory`, which is laid out as the placement says.
    ///
    /// # Errors
    /// Those of the store and of the coder; `OutOfMemory`; `Cancelled`. The chunks before the
    /// failed one are in the store.
    pub fn write(&self, store: &mut dyn ChunkStore, memory: Source, progress: Progress) -> Result<()> {
        let n_done = self.write_on_gpus(store, memory, progress)?;
        let (chunk_bytes, bound) = (self.chunk_bytes(), self.coder.bound());
        let alone = self.context.of_one_thread()?;
        let Split { pool, context, window } = self.split(&alone, chunk_bytes + 2 * bound);
        let (chunks, encoded) = (Buffers::default(), Buffers::default());
        let store = std::cell::RefCell::new(store);
        let mut parts = (n_done..self.selection.n_chunks()).map(|i| self.selection.part(i));
        let mut done = (0..n_done).map(|i| self.bytes_of(&self.selection.part(i))).sum();
        let begin = || {
            let Some(part) = parts.next() else { return Ok(None) };
            let mut before = None;
            if part.covers() == Covers::Part {
                let mut bytes = encoded.take(0)?;
                let found = store.borrow_mut().read(part.chunk(), &mut bytes)?;
                before = found.map(|found| (found, bytes));
            }
            Ok(Some(Outgoing { part, before }))
        };
        let work = |Outgoing { part, mut before }: Outgoing| {
            let mut out = encoded.take(bound)?;
            let n_bytes = match memory {
                Source::Host(memory) => self.encode(&part, &mut before, memory, out.bytes(), context, &chunks)?,
                Source::Device(memory) => {
                    self.encode_on_device(&part, &mut before, memory, out.bytes(), context, &chunks)?
                }
            };
            before.into_iter().for_each(|(_, bytes)| encoded.put(bytes));
            Ok((part, out, n_bytes))
        };
        let finish = |(part, mut out, n_bytes): (Part, Buffer, usize)| {
            store.borrow_mut().write(part.chunk(), &out.bytes()[..n_bytes])?;
            encoded.put(out);
            done += self.bytes_of(&part);
            report(progress, done, self.total_bytes())
        };
        pipeline::run(pool, window, begin, work, finish)
    }

    /// Encodes the chunk of `part` to the start of `out`. Returns the number of encoded bytes.
    fn encode(
        &self,
        part: &Part,
        before: &mut Option<(Encoded, Buffer)>,
        memory: &[u8],
        out: &mut [u8],
        context: &Context,
        chunks: &Buffers,
    ) -> Result<usize> {
        let chunk_bytes = self.chunk_bytes();
        if let Some(at) = self.placement.contiguous(part)
            && part.covers() == Covers::Whole
        {
            return self.coder.encode(Source::Host(&memory[at..at + chunk_bytes]), out, context);
        }
        let mut buffer = chunks.take(chunk_bytes)?;
        let chunk = &mut buffer.bytes()[..chunk_bytes];
        self.restore(part, before, chunk, context)?;
        self.placement.gather(part, memory, chunk);
        let n_bytes = self.coder.encode(Source::Host(chunk), out, context)?;
        chunks.put(buffer);
        Ok(n_bytes)
    }

    /// Like [`Transfer::encode`], for an array in GPU memory. Only encoded bytes are downloaded.
    fn encode_on_device(
        &self,
        part: &Part,
        before: &mut Option<(Encoded, Buffer)>,
        memory: DeviceSlice,
        out: &mut [u8],
        context: &Context,
        chunks: &Buffers,
    ) -> Result<usize> {
        let (chunk_bytes, is_whole) = (self.chunk_bytes(), part.covers() == Covers::Whole);
        if let Some(at) = self.placement.contiguous(part).filter(|_| is_whole) {
            let chunk = memory.slice(at as u64..(at + chunk_bytes) as u64)?;
            return self.coder.encode(Source::Device(chunk), out, context);
        }
        let copy = self.placement.box_of(part).ok_or_else(swapped)?;
        let device_chunk = DeviceChunk::new(memory, chunk_bytes, context)?;
        if !is_whole {
            let mut buffer = chunks.take(chunk_bytes)?;
            self.restore(part, before, &mut buffer.bytes()[..chunk_bytes], context)?;
            device_chunk.write(&buffer.bytes()[..chunk_bytes])?;
            chunks.put(buffer);
        }
        device_chunk.gather(&copy)?;
        self.coder.encode(Source::Device(device_chunk.chunk()), out, context)
    }

    /// Fills `chunk` with the elements that a partial write keeps.
    fn restore(
        &self,
        part: &Part,
        before: &mut Option<(Encoded, Buffer)>,
        chunk: &mut [u8],
        context: &Context,
    ) -> Result<()> {
        match before {
            Some((found, bytes)) => {
                self.coder.decode(found.mask, &bytes.bytes()[..found.n_bytes], chunk, context)?;
            }
            None if part.covers() != Covers::Whole => fill_with(chunk, self.fill),
            None => {}
        }
        Ok(())
    }

    /// Reads the selection to `memory`, which is laid out as the placement says.
    ///
    /// # Errors
    /// As for [`Transfer::write`]. After an error the contents of the memory are unspecified.
    pub fn read(&self, store: &mut dyn ChunkStore, memory: Destination, progress: Progress) -> Result<()> {
        let memory = match memory {
            Destination::Host(memory) => Memory::Host(SharedBytes::new(memory)),
            Destination::Device(memory) => Memory::Device(memory),
        };
        let (rest, mut done) = self.read_on_gpus(store, &memory, progress)?;
        let chunk_bytes = self.chunk_bytes();
        let alone = self.context.of_one_thread()?;
        let Split { pool, context, window } = self.split(&alone, chunk_bytes + self.coder.bound());
        let (chunks, buffers) = (Buffers::default(), Buffers::default());
        let mut parts = rest.into_iter().map(|i| self.selection.part(i));
        let begin = || {
            let Some(part) = parts.next() else { return Ok(None) };
            let mut bytes = buffers.take(0)?;
            let encoded = store.read(part.chunk(), &mut bytes)?;
            Ok(Some(Incoming { part, encoded, bytes }))
        };
        let work = |Incoming { part, encoded, mut bytes }: Incoming| {
            let found = encoded.map(|Encoded { mask, n_bytes }| (mask, &bytes.bytes()[..n_bytes]));
            self.decode_to(&memory, &part, found, context, &chunks)?;
            Ok((part, bytes))
        };
        let finish = |(part, bytes): (Part, Buffer)| {
            buffers.put(bytes);
            done += self.bytes_of(&part);
            report(progress, done, self.total_bytes())
        };
        pipeline::run(pool, window, begin, work, finish)
    }

    /// Decodes a chunk and copies `part` of it to `memory`. `found`: the mask and the encoded bytes;
    /// without them, writes the fill value.
    pub(super) fn decode_to(
        &self,
        memory: &Memory,
        part: &Part,
        found: Option<(u32, &[u8])>,
        context: &Context,
        chunks: &Buffers,
    ) -> Result<()> {
        match memory {
            Memory::Host(memory) => self.decode(part, found, memory, context, chunks),
            Memory::Device(memory) => self.decode_on_device(part, found, *memory, context, chunks),
        }
    }

    /// [`Transfer::decode_to`] for host memory.
    fn decode(
        &self,
        part: &Part,
        found: Option<(u32, &[u8])>,
        memory: &SharedBytes,
        context: &Context,
        chunks: &Buffers,
    ) -> Result<()> {
        let Some((mask, encoded)) = found else {
            if let Some(element) = self.fill {
                // SAFETY: the parts of a selection share no elements, elements of a placement share
                // no bytes, and each part has one task.
                unsafe { self.placement.fill(part, element, memory) };
            }
            return Ok(());
        };
        let chunk_bytes = self.chunk_bytes();
        if let Some(at) = self.placement.contiguous(part)
            && part.covers() == Covers::Whole
        {
            // SAFETY: the same.
            let chunk = unsafe { memory.part(at..at + chunk_bytes) };
            return self.coder.decode(mask, encoded, chunk, context);
        }
        let mut buffer = chunks.take(chunk_bytes)?;
        let chunk = &mut buffer.bytes()[..chunk_bytes];
        self.coder.decode(mask, encoded, chunk, context)?;
        // SAFETY: the same.
        unsafe { self.placement.scatter(part, chunk, memory) };
        chunks.put(buffer);
        Ok(())
    }

    /// [`Transfer::decode_to`] for GPU memory. Usually only encoded bytes are
    /// uploaded.
    fn decode_on_device(
        &self,
        part: &Part,
        found: Option<(u32, &[u8])>,
        memory: DeviceSlice,
        context: &Context,
        chunks: &Buffers,
    ) -> Result<()> {
        if found.is_none() && self.fill.is_none() {
            return Ok(());
        }
        let chunk_bytes = self.chunk_bytes();
        if let (Some((mask, encoded)), Some(at), Covers::Whole) =
            (found, self.placement.contiguous(part), part.covers())
        {
            let chunk = memory.slice(at as u64..(at + chunk_bytes) as u64)?;
            if self.coder.decode_on_device(mask, encoded, chunk, context)? {
                return Ok(());
            }
        }
        let copy = self.placement.box_of(part).ok_or_else(swapped)?;
        let device_chunk = DeviceChunk::new(memory, chunk_bytes, context)?;
        let is_there = match found {
            Some((mask, encoded)) => self.coder.decode_on_device(mask, encoded, device_chunk.chunk(), context)?,
            None => false,
        };
        if !is_there {
            let mut buffer = chunks.take(chunk_bytes)?;
            let chunk = &mut buffer.bytes()[..chunk_bytes];
            match found {
                Some((mask, encoded)) => self.coder.decode(mask, encoded, chunk, context)?,
                None => fill_with(chunk, self.fill),
            }
            device_chunk.write(chunk)?;
            chunks.put(buffer);
        }
        device_chunk.scatter(&copy)
    }
}

/// The caller's memory, to which several threads write.
pub(super) enum Memory<'m> {
    Host(SharedBytes<'m>),
    Device(DeviceSlice<'m>),
}

fn swapped() -> Error {
    Error::new(
        ErrorKind::UnsupportedJob,
        "elements in the file have another byte order, which is not supported for GPU memory; pass the memory type \
         with the file's byte order, or copy the array to the host first",
    )
}

/// Fills `chunk` with copies of `element`, or with zeros.
fn fill_with(chunk: &mut [u8], element: Option<&[u8]>) {
    match element {
        Some(element) if element.iter().any(|&byte| byte != 0) => {
            chunk.chunks_exact_mut(element.len()).for_each(|place| place.copy_from_slice(element));
        }
        _ => chunk.fill(0),
    }
}
