//! Encodes and decodes one block.
//!
//! ```text
//! u8 kind | u8 flags | u16 0 | u32 runs | u32 copies | u32 repeats | u64 base | lists | zeros to a unit
//! ```

use crate::codec::cci::copies::{self, Copy, Symbols};
use crate::codec::cci::lists;
use crate::codec::cci::literals::{self, fold_sign};
use crate::codec::cci::params::{ELEMENTS_PER_RUN, RAW_HEAD, SYMBOLS_PER, UNIT};
use crate::codec::cci::repeats::{self, Repeat};
use crate::codec::cci::runs;
use crate::cpu::isa::Isa;
use crate::cpu::thread_cache::{Cacheable, ThreadCache, bytes_of};
use crate::error::{Error, ErrorKind, Result, try_vec};
use crate::stage::entropy::lanes::LANES;
use crate::stage::entropy::log::{LOG_OF_2, log};
use crate::stage::entropy::symbols::{Number, symbol, tail_bits};
use crate::stage::rows::Simd;
use crate::stage::word::Word;

/// Block kinds: raw elements, or coded lists.
const RAW: u8 = 0;
const CODED: u8 = 1;
/// Flags of a coded block.
const HAS_RUNS: u8 = 1;
const HAS_ROWS: u8 = 2;
/// Bytes of the head, before the lists.
const HEAD: usize = 24;
/// Number of padding words after the last symbol.
const ROOM: usize = LANES;
/// The estimate of literal bits samples one of this many rows of 32 symbols.
const SAMPLE_EVERY: usize = 8;
/// Estimated bits of one copy. Entry 0: without entropy codes. Entry 1: with entropy codes. A copy
/// must be so long that its symbols would take more bits than the copy.
const COPY_BITS: [u64; 2] = [48, 28];
/// Limits of the minimum copy length.
const LEAST_LENGTHS: std::ops::RangeInclusive<u64> = 3..=32;

/// Scratch memory for blocks, cached per thread. Its contents between blocks are arbitrary.
pub struct Work<W: Word>(ThreadCache<Option<Memory<W>>>);

struct Memory<W> {
    elements: Vec<W>,
    /// The base, then the symbols.
    symbols: Vec<W>,
    lengths: Vec<u32>,
    differences: Vec<W>,
    hashes: copies::Hashes,
    copies: Vec<Copy>,
    literal_copies: Vec<Copy>,
    repeats: Vec<Repeat>,
    /// Numbers of the literal symbols.
    numbers: Vec<W>,
    starts: Vec<W>,
    literal_lengths: Vec<u32>,
    /// The lists that describe copies, or repeats.
    list_values: [Vec<u32>; 4],
    lists: lists::Work,
}

impl<W: Word> Cacheable for Option<Memory<W>> {
    fn n_bytes(&self) -> usize {
        let of = |memory: &Memory<W>| {
            let Memory { elements, symbols, differences, numbers, starts, lengths, literal_lengths, .. } = memory;
            let of_words = [elements, symbols, differences, numbers, starts].map(bytes_of).iter().sum::<usize>();
            let of_copies = bytes_of(&memory.copies) + bytes_of(&memory.literal_copies) + bytes_of(&memory.repeats);
            let of_lists =
                memory.list_values.each_ref().map(bytes_of).iter().sum::<usize>() + memory.lists.n_bytes();
            of_words
                + of_copies
                + of_lists
                + bytes_of(lengths)
                + bytes_of(literal_lengths)
                + memory.hashes.n_bytes()
        };
        self.as_ref().map_or(0, of)
    }
}

impl<W: Word> Work<W> {
    /// Allocates for blocks of up to `n` elements.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n: usize) -> Result<Self> {
        fn filled<T: Clone + Default>(n: usize) -> Result<Vec<T>> {
            let mut all = try_vec(n, "a block")?;
            all.resize(n, T::default());
            Ok(all)
        }
        let mut kept = ThreadCache::<Option<Memory<W>>>::take();
        if kept.as_ref().is_none_or(|memory| memory.numbers.len() < n + LANES) {
            let (room, most) = (n + 1 + ROOM, n / SYMBOLS_PER);
            *kept = Some(Memory {
                elements: filled(room)?,
                symbols: filled(room)?,
                lengths: filled(room)?,
                differences: filled(n + LANES)?,
                hashes: copies::Hashes::new()?,
                copies: filled(most)?,
                literal_copies: filled(most)?,
                repeats: filled(most)?,
                numbers: filled(n + LANES)?,
                // One start more than needed is written for symbols that begin no row, and starts
                // are read in whole rows.
                starts: filled(most + LANES)?,
                literal_lengths: filled(n)?,
                list_values: [filled(most)?, filled(most)?, filled(most)?, filled(most)?],
                lists: lists::Work::new(n)?,
            });
        }
        Ok(Self(kept))
    }

    fn memory(&mut self) -> &mut Memory<W> {
        self.0.as_mut().expect("made with it")
    }
}

/// Encodes elements to the start of `out`, which has room for any block. Returns the bytes of the
/// result, a multiple of the unit.
#[inline(always)]
pub fn encode<W: Word, S: Simd<W>>(
    s: S,
    work: &mut Work<W>,
    level: Isa,
    has_codes: bool,
    bytes: &[u8],
    out: &mut [u8],
) -> usize {
    let raw_end = (RAW_HEAD + bytes.len()).next_multiple_of(UNIT);
    if let Some(end) = try_encode(s, work.memory(), level, has_codes, bytes, &mut out[..raw_end - UNIT]) {
        return end;
    }
    let (head, rest) = out[..raw_end].split_at_mut(RAW_HEAD);
    head.fill(RAW);
    let (elements, zeros) = rest.split_at_mut(bytes.len());
    elements.copy_from_slice(bytes);
    zeros.fill(0);
    raw_end
}

/// Encodes elements to the start of `out`. Returns `None` if they do not fit.
#[inline(always)]
fn try_encode<W: Word, S: Simd<W>>(
    s: S,
    memory: &mut Memory<W>,
    level: Isa,
    has_codes: bool,
    bytes: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let n = bytes.len() / W::BYTES;
    let elements = &mut memory.elements[..n];
    for (element, from) in elements.iter_mut().zip(bytes.chunks_exact(W::BYTES)) {
        *element = W::read(from);
    }
    let has_runs = runs::pay(elements);
    let m = if has_runs { runs::find(s, elements, &mut memory.symbols, &mut memory.lengths) } else { n };
    let symbols = if has_runs { &memory.symbols } else { &memory.elements };
    let lengths = if has_runs { &memory.lengths[..m] } else { &[] };
    let differences = &mut memory.differences[..m + LANES];
    for (pair, to) in symbols[..m].windows(2).zip(&mut differences[1..m]) {
        *to = pair[1].wrapping_sub(pair[0]);
    }
    differences[0] = if m > 1 { differences[1] } else { W::ZERO };
    let base = symbols[0].wrapping_sub(differences[0]);
    let has_rows = literals::have_rows(&differences[..m]);
    let differences = &*differences;

    let all = Symbols { n: m, differences, lengths };
    let least = least_length(all, has_rows, has_codes);
    let n_copies = copies::find(s, all, least, &mut memory.hashes, &mut memory.copies);
    let copies = &memory.copies[..n_copies];
    let (n_repeats, n_literal) = repeats::find(copies, &mut memory.repeats, &mut memory.literal_copies);

    let mut literal =
        literals::Writer { has_rows, numbers: &mut memory.numbers, starts: &mut memory.starts, n: [0; 2] };
    let mut at = 0;
    let none = Copy { literals: 0, distance: 0, length: 0 };
    for (copy, is_last) in copies.iter().map(|copy| (copy, false)).chain([(&none, true)]) {
        let end = if is_last { m } else { at + copy.literals as usize };
        if has_runs {
            let first = literal.n[0];
            memory.literal_lengths[first..first + end - at].copy_from_slice(&lengths[at..end]);
        }
        literal.put(s, &symbols[at..], &differences[at..], end - at);
        at = end + copy.length as usize;
    }
    let [n_numbers, n_starts] = literal.finish(base);

    let (head, lists) = out.split_at_mut_checked(HEAD)?;
    head.fill(0);
    head[0] = CODED;
    head[1] = if has_runs { HAS_RUNS } else { 0 } | if has_rows { HAS_ROWS } else { 0 };
    let fields = [if has_runs { m } else { 0 }, n_copies, n_repeats];
    for (field, to) in fields.iter().zip(head[4..].chunks_exact_mut(4)) {
        to.copy_from_slice(&(*field as u32).to_le_bytes());
    }
    base.write(&mut head[16..]);
    let mut writer = lists::Writer { work: &mut memory.lists, level, has_codes, out: lists, n_bytes: 0 };
    let list_values = &mut memory.list_values;
    for (i, repeat) in memory.repeats[..n_repeats].iter().enumerate() {
        (list_values[0][i], list_values[1][i], list_values[2][i]) =
            (repeat.literals, repeat.length, repeat.distance);
    }
    for list in &list_values[..3] {
        writer.put(&list[..n_repeats])?;
    }
    for (i, copy) in memory.literal_copies[..n_literal].iter().enumerate() {
        [list_values[0][i], list_values[1][i], list_values[2][i], list_values[3][i]] = copy.numbers();
    }
    for list in list_values.iter() {
        writer.put(&list[..n_literal])?;
    }
    writer.put(&memory.numbers[..n_numbers])?;
    if has_runs {
        writer.put(&memory.literal_lengths[..n_numbers])?;
    }
    if has_rows {
        writer.put(&memory.starts[..n_starts])?;
    }
    let n_bytes = writer.n_bytes;
    let end = (HEAD + n_bytes).next_multiple_of(UNIT);
    out.get_mut(HEAD + n_bytes..end)?.fill(0);
    Some(end)
}

/// The minimum length of a copy: the number of literal symbols that, by a sample, take as many bits
/// as one copy.
#[inline(always)]
fn least_length<W: Word>(all: Symbols<W>, has_rows: bool, has_codes: bool) -> usize {
    let mut counts = <u32 as Number>::no_counts();
    let counts = counts.as_mut();
    let (mut n, mut bits) = (0_u64, 0_u64);
    for (r, row) in all.differences[..all.n].chunks(LANES).enumerate().step_by(SAMPLE_EVERY) {
        let number = |&difference: &W| match has_rows {
            true if literals::begins_row(difference) => W::ZERO,
            true => difference,
            false => fold_sign(difference),
        };
        n += row.len() as u64;
        let lengths = all.lengths.get(r * LANES..r * LANES + row.len()).unwrap_or_default();
        if has_codes {
            for difference in row {
                counts[symbol(number(difference).to_u64().min(u64::from(u32::MAX)) as u32).0] += 1;
            }
            // The lengths of runs add these bits to those of their first elements.
            bits += lengths.iter().map(|&length| u64::from(u32::BITS - length.leading_zeros())).sum::<u64>();
        } else {
            let any = row.iter().fold(W::ZERO, |any, difference| any | number(difference));
            bits += u64::from(any.bit_length()) * row.len() as u64;
            let any = lengths.iter().fold(0, |any, length| any | length);
            bits += u64::from(u32::BITS - any.leading_zeros()) * row.len() as u64;
        }
    }
    let mut sixteenths = LOG_OF_2 * bits;
    if has_codes {
        let of_codes = |&&count: &&u32| count > 0;
        let saved: u64 = counts.iter().filter(of_codes).map(|&count| u64::from(count) * log(count.into())).sum();
        sixteenths += n * log(n) - saved + LOG_OF_2 * tail_bits(counts) as u64;
    }
    let least = (LOG_OF_2 * COPY_BITS[usize::from(has_codes)] * n).div_ceil(sixteenths.max(1));
    least.clamp(*LEAST_LENGTHS.start(), *LEAST_LENGTHS.end()) as usize
}

/// Decodes a block into elements that fill `out`.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for blocks that only a later version can have written.
#[inline(always)]
pub fn decode<W: Word, S: Simd<W>>(
    s: S,
    work: &mut Work<W>,
    level: Isa,
    has_codes: bool,
    bytes: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let early = || damage("too few bytes");
    let (&[kind, flags, zeros @ ..], rest) = bytes.split_first_chunk::<RAW_HEAD>().ok_or_else(early)?;
    if kind == RAW && flags == 0 && zeros == [0; RAW_HEAD - 2] {
        out.copy_from_slice(rest.get(..out.len()).ok_or_else(early)?);
        let is_whole = (RAW_HEAD + out.len()).next_multiple_of(UNIT) == bytes.len();
        return if is_whole { Ok(()) } else { Err(damage("bytes after its elements")) };
    }
    if kind != CODED || flags > HAS_RUNS | HAS_ROWS || zeros[..2] != [0; 2] {
        let text = "a cci block is of an unknown kind; a newer gridz may read this data";
        return Err(Error::new(ErrorKind::UnsupportedFormat, text));
    }
    let (head, rest) = bytes.split_at_checked(HEAD).ok_or_else(early)?;
    let field = |i: usize| u32::from_le_bytes(*head[4 * i..].first_chunk().expect("a field")) as usize;
    let [n_runs, n_copies, n_repeats] = [1, 2, 3].map(field);
    let n = out.len() / W::BYTES;
    let (has_runs, has_rows) = (flags & HAS_RUNS > 0, flags & HAS_ROWS > 0);
    let m = if has_runs { n_runs } else { n };
    let is_base = W::BITS == 64 || head[16 + W::BYTES..].iter().all(|&byte| byte == 0);
    let most = if has_runs { n / ELEMENTS_PER_RUN } else { n };
    if m == 0
        || m > most
        || (!has_runs && n_runs > 0)
        || n_copies > m / SYMBOLS_PER
        || n_repeats > n_copies / SYMBOLS_PER
        || !is_base
    {
        return Err(damage("invalid counts"));
    }
    let base = W::read(&head[16..]);
    let memory = work.memory();
    let mut reader = lists::Reader { work: &mut memory.lists, level, has_codes, bytes: rest };

    let repeats = &mut memory.repeats[..n_repeats];
    let list_values = &mut memory.list_values;
    for list in &mut list_values[..3] {
        lists::take(s, &mut reader, &mut list[..n_repeats])?;
    }
    for (i, repeat) in repeats.iter_mut().enumerate() {
        *repeat = Repeat { literals: list_values[0][i], length: list_values[1][i], distance: list_values[2][i] };
    }
    let n_literal = repeats::check(repeats, n_copies)?;
    for list in list_values.iter_mut() {
        lists::take(s, &mut reader, &mut list[..n_literal])?;
    }
    let copies = &mut memory.copies[..n_copies];
    for (i, copy) in copies[n_copies - n_literal..].iter_mut().enumerate() {
        let numbers = [0, 1, 2, 3].map(|k| list_values[k][i]);
        *copy = Copy::of(numbers).ok_or_else(|| damage("invalid copies"))?;
    }
    repeats::expand(repeats, n_literal, copies);
    let n_numbers = copies::check(copies, m)?;
    let all_numbers = &mut memory.numbers[..n_numbers + LANES];
    let numbers = &mut all_numbers[..n_numbers];
    lists::take_rows(s, &mut reader, numbers)?;
    if has_runs {
        lists::take(s, &mut reader, &mut memory.literal_lengths[..n_numbers])?;
    }
    let n_starts = if has_rows { numbers.iter().filter(|&&number| number == W::ZERO).count() } else { 0 };
    if n_starts > m / SYMBOLS_PER {
        return Err(damage("too many rows"));
    }
    let starts = &mut memory.starts[..n_starts + LANES];
    lists::take_rows(s, &mut reader, &mut starts[..n_starts])?;
    if (bytes.len() - reader.bytes.len()).next_multiple_of(UNIT) != bytes.len() {
        return Err(damage("bytes after its lists"));
    }

    let mut literal = literals::Reader { has_rows, numbers: all_numbers, starts, n_starts: 0, start: base };
    memory.symbols[0] = base;
    let lengths = has_runs.then_some((&mut memory.lengths[..], &memory.literal_lengths[..n_numbers]));
    expand_copies(s, &mut literal, copies, &mut memory.symbols, m, lengths);
    let symbols = &memory.symbols[1..=m];
    if has_runs {
        return runs::expand(symbols, &memory.lengths[..m], out);
    }
    store(symbols, out);
    Ok(())
}

/// Rebuilds `m` symbols, after the first word of `symbols`, from literals and copies. With runs,
/// also rebuilds the lengths of all symbols from the lengths of the literals.
#[inline(always)]
fn expand_copies<W: Word, S: Simd<W>>(
    s: S,
    literal: &mut literals::Reader<W>,
    copies: &[Copy],
    symbols: &mut [W],
    m: usize,
    mut lengths: Option<(&mut [u32], &[u32])>,
) {
    let (mut at, mut first) = (1, 0);
    for copy in copies.iter().map(Some).chain([None]) {
        // Literals follow the last copy. One call, because it is inlined.
        let end = copy.map_or(m + 1, |copy| at + copy.literals as usize);
        literal.take(s, symbols[at - 1], end - at, &mut symbols[at..]);
        if let Some((all, of_literals)) = &mut lengths {
            all[at - 1..end - 1].copy_from_slice(&of_literals[first..first + end - at]);
            first += end - at;
        }
        let Some(&copy) = copy else { break };
        copies::copy(symbols, end, copy);
        if let Some((all, _)) = &mut lengths {
            copies::copy_lengths(all, end - 1, copy);
        }
        at = end + copy.length as usize;
    }
}

#[inline(always)]
fn store<W: Word>(elements: &[W], out: &mut [u8]) {
    for (to, &element) in out.chunks_exact_mut(W::BYTES).zip(elements) {
        element.write(to);
    }
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a cci block is damaged: it has {what}"))
}
