//! Whole datasets in an in-memory store: reads return what was written, for all boxes, strides and
//! threads. A store that fails or is slow causes no avoidable harm.

use std::collections::BTreeMap;
use std::time::Duration;

use gridz::{Array, ByteOrder, Context, DType, Error, ErrorKind, Prepared, Request, Result, Shape, Verify};
use gridz::{Destination, Source};
use gridz_dataset::bulk::{Buffer, ChunkCoder, ChunkStore, Covers, Encoded, Placement, Selection, Transfer};
use proptest::prelude::*;

/// Chunks by their first elements.
#[derive(Default)]
struct Memory {
    chunks: BTreeMap<Vec<u64>, Vec<u8>>,
    /// Fails after this number of calls.
    calls_left: Option<usize>,
    /// Sleeps at every `waits_at`-th call.
    waits_at: usize,
    n_calls: usize,
}

impl Memory {
    fn call(&mut self) -> Result<()> {
        self.n_calls += 1;
        if self.waits_at > 0 && self.n_calls.is_multiple_of(self.waits_at) {
            std::thread::sleep(Duration::from_millis(2));
        }
        match &mut self.calls_left {
            Some(0) => Err(Error::new(ErrorKind::Host, "the store is full")),
            Some(n) => {
                *n -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl ChunkStore for Memory {
    fn read(&mut self, chunk: &[u64], bytes: &mut Buffer) -> Result<Option<Encoded>> {
        self.call()?;
        let Some(stored) = self.chunks.get(chunk) else { return Ok(None) };
        if bytes.n_bytes() < stored.len() {
            *bytes = Buffer::new(stored.len())?;
        }
        bytes.bytes()[..stored.len()].copy_from_slice(stored);
        Ok(Some(Encoded { n_bytes: stored.len(), mask: 0 }))
    }

    fn write(&mut self, chunk: &[u64], bytes: &[u8]) -> Result<()> {
        self.call()?;
        self.chunks.insert(chunk.to_vec(), bytes.to_vec());
        Ok(())
    }
}

/// A coder whose chunks are frames.
struct Frames {
    prepared: Prepared,
    /// Coding takes longer for chunks whose elements begin with this byte.
    slow: Option<u8>,
}

impl Frames {
    fn of(dtype: DType, chunk: &[u64]) -> Self {
        let array = Array::new(dtype, ByteOrder::Little, Shape::new(chunk).unwrap()).unwrap();
        Self { prepared: Prepared::new(&array, &Request::default()).unwrap(), slow: None }
    }

    fn dawdle(&self, chunk: &[u8]) {
        if self.slow.is_some_and(|slow| chunk[0] == slow) {
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

impl ChunkCoder for Frames {
    fn bound(&self) -> usize {
        self.prepared.bound() as usize
    }

    fn encode(&self, chunk: Source, stored: &mut [u8], context: &Context) -> Result<usize> {
        if let Source::Host(chunk) = chunk {
            self.dawdle(chunk);
        }
        self.prepared.compress(chunk, Destination::Host(stored), context)
    }

    fn decode(&self, _: u32, stored: &[u8], chunk: &mut [u8], context: &Context) -> Result<()> {
        gridz::decompress(stored, gridz::Part::All, &mut *chunk, Verify::Checksum, context)?;
        self.dawdle(chunk);
        Ok(())
    }
}

/// A dataset, and the array that it should contain.
struct Dataset {
    extents: Vec<u64>,
    chunk: Vec<u64>,
    fill: [u8; 4],
    coder: Frames,
    store: Memory,
    expected: Vec<[u8; 4]>,
}

/// A box, the strides of its elements in memory (multiples of four), and the offset of each
/// element.
struct Box {
    selection: Selection,
    placement: Placement,
    places: Vec<usize>,
}

impl Dataset {
    fn new(extents: &[u64], chunk: &[u64]) -> Self {
        let fill = [1, 2, 3, 4];
        Self {
            extents: extents.to_vec(),
            chunk: chunk.to_vec(),
            fill,
            coder: Frames::of(DType::U32, chunk),
            store: Memory::default(),
            expected: vec![fill; extents.iter().product::<u64>() as usize],
        }
    }

    /// Indices of a box's elements in the dataset, in C order.
    fn elements(&self, start: &[u64], count: &[u64]) -> Vec<usize> {
        let n: u64 = count.iter().product();
        (0..n)
            .map(|i| {
                let (mut rest, mut at, mut stride) = (i, 0, 1);
                for axis in (0..count.len()).rev() {
                    at += (start[axis] + rest % count[axis]) * stride;
                    (rest, stride) = (rest / count[axis], stride * self.extents[axis]);
                }
                at as usize
            })
            .collect()
    }

    /// A box whose axes lie in memory in the order of `order`, the densest last, with a gap of
    /// `gap` elements after every element. Axes are reversed where `back` is true.
    fn box_of(&self, start: &[u64], count: &[u64], order: &[usize], gap: i64, back: &[bool]) -> Box {
        let selection = Selection::new(&self.extents, &self.chunk, start, count).unwrap();
        let mut strides = vec![0; count.len()];
        let mut stride = 4 * (1 + gap);
        for &axis in order.iter().rev() {
            strides[axis] = if back[axis] { -stride } else { stride };
            stride *= count[axis].max(1) as i64;
        }
        let placement = Placement::new(&selection, 4, 1, Some(&strides)).unwrap();
        let n: u64 = count.iter().product();
        let places = (0..n)
            .map(|i| {
                let (mut rest, mut at) = (i, placement.first() as i64);
                for axis in (0..count.len()).rev() {
                    at += strides[axis] * (rest % count[axis]) as i64;
                    rest /= count[axis];
                }
                at as usize
            })
            .collect();
        Box { selection, placement, places }
    }

    fn transfer<'a>(&'a self, of: &'a Box, context: &'a Context, memory_limit: u64) -> Transfer<'a> {
        Transfer {
            selection: &of.selection,
            placement: &of.placement,
            coder: &self.coder,
            fill: Some(&self.fill),
            context,
            memory_limit,
        }
    }
}

fn context(threads: usize) -> Context {
    Context::new(Some(threads), None).unwrap()
}

/// Extents, chunk, and boxes, each with an order of axes, a gap and directions.
type Case = (Vec<u64>, Vec<u64>, Vec<(Vec<u64>, Vec<u64>, Vec<usize>, i64, Vec<bool>)>);

fn cases() -> impl Strategy<Value = Case> {
    (1usize..4).prop_flat_map(|rank| {
        let extents = prop::collection::vec(1u64..14, rank);
        (extents, prop::collection::vec(1u64..8, rank)).prop_flat_map(move |(extents, chunk)| {
            let axes = extents.iter().map(|&n| (0..n).prop_flat_map(move |start| (Just(start), 0..=n - start)));
            let one = (
                axes.collect::<Vec<_>>(),
                Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
                0i64..3,
                prop::collection::vec(any::<bool>(), rank),
            );
            let one = one.prop_map(|(axes, order, gap, back)| {
                let (start, count) = axes.into_iter().unzip();
                (start, count, order, gap, back)
            });
            (Just(extents), Just(chunk), prop::collection::vec(one, 1..6))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        (extents, chunk, boxes) in cases(),
        threads in 1usize..5,
        limit in prop::sample::select(vec![0, 10_000, u64::MAX]),
    ) {
        let context = context(threads);
        let mut dataset = Dataset::new(&extents, &chunk);
        for (turn, (start, count, order, gap, back)) in boxes.iter().enumerate() {
            let of = dataset.box_of(start, count, order, *gap, back);
            let elements = dataset.elements(start, count);
            let mut memory = vec![0xcd; of.placement.span()];
            for (i, (&place, &element)) in of.places.iter().zip(&elements).enumerate() {
                let value = ((turn * 1000 + i) as u32).to_le_bytes();
                memory[place..place + 4].copy_from_slice(&value);
                dataset.expected[element] = value;
            }
            let mut store = std::mem::take(&mut dataset.store);
            let mut reports = Vec::new();
            dataset.transfer(&of, &context, limit).write(&mut store, Source::Host(&memory), &mut |done, total| {
                reports.push((done, total));
                true
            }).unwrap();
            prop_assert!(reports.is_sorted() && reports.last().is_none_or(|&(done, total)| done == total));
            prop_assert_eq!(reports.len() as u64, of.selection.n_chunks());
            // Reads all of it again into memory of the same placement, and the whole dataset into
            // memory without gaps.
            let mut back_again = vec![0xcd; of.placement.span()];
            dataset.transfer(&of, &context, limit).read(&mut store, Destination::Host(&mut back_again), &mut |_, _| true).unwrap();
            prop_assert!(back_again == memory);
            let axes: Vec<usize> = (0..extents.len()).collect();
            let whole = dataset.box_of(&vec![0; extents.len()], &extents, &axes, 0, &vec![false; extents.len()]);
            let mut memory = vec![0xcd; whole.placement.span()];
            dataset.transfer(&whole, &context, limit).read(&mut store, Destination::Host(&mut memory), &mut |_, _| true).unwrap();
            prop_assert_eq!(memory.as_chunks::<4>().0, &dataset.expected[..]);
            dataset.store = store;
        }
        // Elements of a chunk outside the dataset are fill values.
        for (first, frame) in &dataset.store.chunks {
            let mut elements = vec![0; 4 * chunk.iter().product::<u64>() as usize];
            gridz::decompress(frame, gridz::Part::All, &mut elements, Verify::Checksum, &context).unwrap();
            for (i, element) in elements.as_chunks::<4>().0.iter().enumerate() {
                let mut rest = i as u64;
                let is_outside = (0..chunk.len()).rev().any(|axis| {
                    let at = rest % chunk[axis];
                    rest /= chunk[axis];
                    first[axis] + at >= extents[axis]
                });
                prop_assert!(!is_outside || *element == dataset.fill);
            }
        }
    }
}

/// The store receives chunks in order, for any number of threads and any duration of each chunk.
#[test]
fn chunks_are_stored_in_order_by_any_number_of_threads() {
    let mut first: Option<BTreeMap<_, _>> = None;
    for threads in [1, 2, 3, 8, 16] {
        let mut dataset = Dataset::new(&[64, 50], &[4, 9]);
        dataset.coder.slow = Some(7);
        dataset.store.waits_at = 5;
        let axes = [0, 1];
        let of = dataset.box_of(&[0, 0], &[64, 50], &axes, 0, &[false; 2]);
        let memory: Vec<u8> = (0..64 * 50 * 4).map(|i| (i / 36 % 11) as u8).collect();
        let (context, mut store) = (context(threads), std::mem::take(&mut dataset.store));
        let mut last = 0;
        let mut progress = |done, _| {
            assert!(done > last);
            last = done;
            true
        };
        dataset.transfer(&of, &context, u64::MAX).write(&mut store, Source::Host(&memory), &mut progress).unwrap();
        let mut back = vec![0; memory.len()];
        dataset
            .transfer(&of, &context, u64::MAX)
            .read(&mut store, Destination::Host(&mut back), &mut |_, _| true)
            .unwrap();
        assert!(back == memory);
        assert_eq!(first.get_or_insert_with(|| store.chunks.clone()), &store.chunks, "{threads} threads");
    }
}

#[test]
fn a_store_that_fails_ends_the_transfer_and_no_more() {
    for threads in [1, 4] {
        let context = context(threads);
        let dataset = Dataset::new(&[40, 8], &[2, 8]);
        let of = dataset.box_of(&[0, 0], &[40, 8], &[0, 1], 0, &[false; 2]);
        let memory: Vec<u8> = (0..40 * 8 * 4).map(|i| i as u8).collect();
        for calls in [0, 1, 7, 19] {
            let mut store = Memory { calls_left: Some(calls), ..Memory::default() };
            let error = dataset
                .transfer(&of, &context, u64::MAX)
                .write(&mut store, Source::Host(&memory), &mut |_, _| true)
                .unwrap_err();
            assert_eq!((error.kind(), error.context()), (ErrorKind::Host, "the store is full"));
            // The chunks before the failure are complete.
            assert!(store.chunks.keys().map(|chunk| chunk[0]).eq((0..calls as u64).map(|i| 2 * i)));
            let mut read = Memory { chunks: store.chunks, calls_left: Some(calls), ..Memory::default() };
            let mut back = vec![0; memory.len()];
            let error = dataset
                .transfer(&of, &context, u64::MAX)
                .read(&mut read, Destination::Host(&mut back), &mut |_, _| true)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Host);
        }
    }
}

#[test]
fn a_transfer_can_be_ended_between_chunks() {
    for threads in [1, 4] {
        let context = context(threads);
        let dataset = Dataset::new(&[40, 8], &[2, 8]);
        let of = dataset.box_of(&[0, 0], &[40, 8], &[0, 1], 0, &[false; 2]);
        let mut memory = vec![5; 40 * 8 * 4];
        let mut store = Memory::default();
        let transfer = dataset.transfer(&of, &context, u64::MAX);
        let error =
            transfer.write(&mut store, Source::Host(&memory), &mut |done, total| done < total / 2).unwrap_err();
        assert_eq!((error.kind(), store.chunks.len()), (ErrorKind::Cancelled, 10));
        let error = transfer.read(&mut store, Destination::Host(&mut memory), &mut |_, _| false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}

/// A damaged chunk is reported as an error, and is not partially overwritten.
#[test]
fn damage_is_an_error_of_its_chunk() {
    let context = context(3);
    let dataset = Dataset::new(&[40, 8], &[2, 8]);
    let of = dataset.box_of(&[0, 0], &[40, 8], &[0, 1], 0, &[false; 2]);
    let mut memory = vec![5; 40 * 8 * 4];
    let mut store = Memory::default();
    dataset.transfer(&of, &context, u64::MAX).write(&mut store, Source::Host(&memory), &mut |_, _| true).unwrap();
    let frame = store.chunks.get_mut(&vec![20, 0]).unwrap();
    *frame.last_mut().unwrap() ^= 1;
    let damaged = frame.clone();
    let error = dataset
        .transfer(&of, &context, u64::MAX)
        .read(&mut store, Destination::Host(&mut memory), &mut |_, _| true)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let part = dataset.box_of(&[21, 0], &[1, 8], &[0, 1], 0, &[false; 2]);
    assert_eq!(part.selection.part(0).covers(), Covers::Part);
    let transfer = dataset.transfer(&part, &context, u64::MAX);
    assert_eq!(
        transfer.write(&mut store, Source::Host(&memory[..32]), &mut |_, _| true).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    assert_eq!(store.chunks[&vec![20, 0]], damaged);
}
