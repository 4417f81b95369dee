//! Chooses the coding of a section and writes it.

use crate::cpu::isa::Isa;
use crate::stage::bits;
use crate::stage::entropy::frequencies::add_quarters;
use crate::stage::entropy::lanes::{Codes, LANES, MAX_BITS, WORD_BITS, WORD_BYTES, Writer, code_of, ended};
use crate::stage::entropy::section::{GAP, HEAD_BYTES, LEAST_GAP, MARKED, MAX_ROWS, Work, look_up};
#[cfg(target_arch = "x86_64")]
use crate::stage::entropy::simd::{Avx2, Avx512, lanes as simd, lanes_avx2};
use crate::stage::entropy::symbols::{Number, any_symbol, have_tails, symbol, tail_bits};
use crate::stage::rows::{Simd, WithSimd, dispatch};

/// Lower limit of the maximum code length.
const FEW_BITS: u32 = 11;
/// The maximum code length is the base-2 logarithm of the number of used symbols plus this, from
/// [`FEW_BITS`] to [`MAX_BITS`].
const MORE_BITS: u32 = 3;

/// How the numbers of a block will be coded.
pub struct Coding {
    lowest: usize,
    n_symbols: usize,
    /// Number of 4-bit values that encode the code lengths.
    n_halves: usize,
    /// One bit for each row, set if the row is all zeros.
    bitmap: [u32; MAX_ROWS / 32],
    bitmap_bytes: usize,
    /// Numbers in the coded rows, with and without the padding.
    n_coded: usize,
    n_numbers: usize,
    longest: u32,
    lane_bits: [u32; LANES],
    n_words: usize,
    tail_bits: usize,
}

impl Coding {
    /// Chooses the coding of the first `n` numbers of `rows`: at least one, and at most as many as
    /// `work` has memory for. `rows` consists of whole rows. Afterwards it begins with the numbers
    /// that are coded.
    pub fn choose<T: Number>(rows: &mut [T], n: usize, work: &mut Work<T>, level: Isa) -> Self {
        dispatch(level, Choose { rows, n, work, level })
    }

    #[inline(always)]
    fn choose_inlined<T: Number>(rows: &mut [T], n: usize, work: &mut Work<T>, level: Isa) -> Self {
        let n_rows = n.div_ceil(LANES);
        let mut bitmap = [0u32; MAX_ROWS / 32];
        let mut n_marked = 0;
        let (whole_rows, rest) = rows[..n].as_chunks::<LANES>();
        let is_zero = |row: &[T]| row.iter().fold(T::default(), |any, &number| any | number) == T::default();
        // Of whole rows, whose length is constant, the compiler makes vectors.
        let are_zero = whole_rows.iter().map(|row| is_zero(row)).chain(rest.first().map(|_| is_zero(rest)));
        for (row, is_zero) in are_zero.enumerate() {
            bitmap[row / 32] |= u32::from(is_zero) << (row % 32);
            n_marked += usize::from(is_zero);
        }
        // Omit zero rows if that pays: a zero takes at least one bit, a row in the bitmap exactly
        // one.
        let is_marked = LANES * n_marked > n_rows;
        let mut n_coded = n;
        if is_marked {
            n_coded = 0;
            for (row, from) in (0..n).step_by(LANES).enumerate() {
                if bitmap[row / 32] >> (row % 32) & 1 == 0 {
                    let end = n.min(from + LANES);
                    rows.copy_within(from..end, n_coded);
                    n_coded += end - from;
                }
            }
        }
        let n_numbers = n_coded;
        n_coded = n_numbers.next_multiple_of(LANES);
        if let Some(&last) = rows[..n_numbers].last() {
            rows[n_numbers..n_coded].fill(last);
        }
        let coded = &rows[..n_coded];
        let symbols = &mut work.symbols[..n_coded];
        let [lowest, end] = dispatch(level, Symbols { numbers: coded, symbols });
        let quarters = work.quarters.first_chunk_mut().expect("made with it");
        let counts = &mut work.counts[..end];
        count(symbols, quarters, counts);
        let n_used = counts.iter().filter(|&&count| count > 0).count();
        let max_bits = (n_used.max(1).ilog2() + MORE_BITS).clamp(FEW_BITS, MAX_BITS);
        let lengths = &mut work.lengths[lowest..end];
        lengths.fill(0);
        T::set_lengths(&counts[lowest..], max_bits, lengths);
        let of_copies: usize = coded[n_numbers..].iter().map(|&number| symbol(number).1 as usize).sum();
        let mut coding = Self {
            lowest,
            n_symbols: end - lowest,
            n_halves: halve(lengths, &mut work.halves),
            bitmap,
            bitmap_bytes: if is_marked { n_rows.div_ceil(8) } else { 0 },
            n_coded,
            n_numbers,
            longest: 0,
            lane_bits: [0; LANES],
            n_words: 0,
            tail_bits: tail_bits(counts) - of_copies,
        };
        if n_used > 1 {
            coding.make_codes(work, level);
        }
        coding
    }

    /// Builds the codes of the coded numbers and counts their bits and words.
    #[inline(always)]
    fn make_codes<T: Number>(&mut self, work: &mut Work<T>, level: Isa) {
        let end = self.lowest + self.n_symbols;
        let lengths = &work.lengths[self.lowest..end];
        let all = Codes::new(lengths).expect("codes of lengths made here");
        self.longest = all.longest;
        let n_used = all.rank(lengths, self.lowest, &mut work.by_rank);
        for (rank, &symbol) in work.by_rank[..n_used].iter().enumerate() {
            let length = u32::from(work.lengths[usize::from(symbol)]);
            let code = (rank as u16).wrapping_sub(all.offsets[length as usize]);
            work.code_of[usize::from(symbol)] = ended(code << (WORD_BITS - length), length);
        }
        let codes = &mut work.codes[..self.n_coded];
        look_up(&work.code_of[..end], self.lowest, &work.symbols[..self.n_coded], codes, level);
        self.lane_bits = lane_bits(codes, level);
        self.n_words = Writer::new(&self.lane_bits, &last_row(codes), self.longest).n_words(&self.lane_bits);
    }

    /// Bytes of the section.
    pub fn n_bytes(&self) -> usize {
        HEAD_BYTES
            + WORD_BYTES * self.n_words
            + self.bitmap_bytes
            + self.length_bytes()
            + self.tail_bits.div_ceil(8)
    }

    fn length_bytes(&self) -> usize {
        self.n_halves.div_ceil(2)
    }

    /// Writes the section to `out`, which has exactly [`Coding::n_bytes`]. `rows` and `work` are
    /// those of the call of [`Coding::choose`]; no other block may have used `work` since.
    pub fn write<T: Number>(&self, rows: &[T], work: &Work<T>, level: Isa, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(HEAD_BYTES);
        let fields = [self.lowest, self.n_symbols, self.length_bytes(), self.n_words];
        for (field, bytes) in fields.iter().zip(head.chunks_exact_mut(2)) {
            bytes.copy_from_slice(&(*field as u16).to_le_bytes());
        }
        let marked = if self.bitmap_bytes > 0 { MARKED } else { 0 };
        head[8..].copy_from_slice(&(self.tail_bits.div_ceil(8) as u32 | marked).to_le_bytes());
        let (words, rest) = rest.split_at_mut(WORD_BYTES * self.n_words);
        if self.n_words > 0 {
            let codes = &work.codes[..self.n_coded];
            write_words(Writer::new(&self.lane_bits, &last_row(codes), self.longest), codes, level, words);
        }
        let (bitmap, rest) = rest.split_at_mut(self.bitmap_bytes);
        bitmap
            .iter_mut()
            .zip(self.bitmap.iter().flat_map(|word| word.to_le_bytes()))
            .for_each(|(to, byte)| *to = byte);
        let (lengths, tails) = rest.split_at_mut(self.length_bytes());
        for (halves, to) in work.halves[..self.n_halves].chunks(2).zip(lengths) {
            *to = halves[0] | halves.get(1).map_or(0, |half| half << 4);
        }
        if self.tail_bits > 0 {
            dispatch(level, Tails { numbers: &rows[..self.n_numbers], out: tails });
        }
    }
}

/// Encodes the code lengths of consecutive symbols as 4-bit values; returns the number of values.
fn halve(lengths: &[u8], halves: &mut [u8]) -> usize {
    let (mut at, mut n) = (0, 0);
    while at < lengths.len() {
        let zeros =
            lengths[at..].iter().take(LEAST_GAP + usize::from(GAP)).take_while(|&&length| length == 0).count();
        if zeros < LEAST_GAP {
            halves[n] = lengths[at];
            (at, n) = (at + 1, n + 1);
        } else {
            (halves[n], halves[n + 1]) = (GAP, (zeros - LEAST_GAP) as u8);
            (at, n) = (at + zeros, n + 2);
        }
    }
    n
}

/// [`Coding::choose`], compiled for a level.
struct Choose<'a, T: Number> {
    rows: &'a mut [T],
    n: usize,
    work: &'a mut Work<T>,
    level: Isa,
}

impl<T: Number> WithSimd<u32> for Choose<'_, T> {
    type Output = Coding;
    const UP_TO_AVX2: bool = true;

    #[inline(always)]
    fn run<S: Simd<u32>>(self, _: S) -> Coding {
        Coding::choose_inlined(self.rows, self.n, self.work, self.level)
    }
}

/// Writes the symbols of numbers; returns the lowest symbol and one more than the highest.
struct Symbols<'a, T> {
    numbers: &'a [T],
    symbols: &'a mut [u16],
}

impl<T: Number> WithSimd<u32> for Symbols<'_, T> {
    type Output = [usize; 2];
    const UP_TO_AVX2: bool = true;

    #[inline(always)]
    fn run<S: Simd<u32>>(self, _: S) -> [usize; 2] {
        let (mut least, mut end) = (u16::MAX, 0);
        let mut put = |numbers: &[T; LANES], symbols: &mut [u16; LANES], symbol: fn(T) -> u32| {
            for i in 0..LANES {
                symbols[i] = symbol(numbers[i]) as u16;
                (least, end) = (least.min(symbols[i]), end.max(symbols[i] + 1));
            }
        };
        for (numbers, symbols) in self.numbers.as_chunks().0.iter().zip(self.symbols.as_chunks_mut().0) {
            if have_tails(numbers) {
                put(numbers, symbols, |number| any_symbol(number).0);
            } else {
                put(numbers, symbols, T::to_u32);
            }
        }
        [least.min(end).into(), end.into()]
    }
}

/// Writes the tails of numbers.
struct Tails<'a, T> {
    numbers: &'a [T],
    out: &'a mut [u8],
}

impl<T: Number> WithSimd<u32> for Tails<'_, T> {
    type Output = ();
    const UP_TO_AVX2: bool = true;

    #[inline(always)]
    fn run<S: Simd<u32>>(self, _: S) {
        let mut writer = bits::Writer::new(self.out);
        let (rows, rest) = self.numbers.as_chunks();
        for row in rows {
            put_tails(row, &mut writer);
        }
        let mut last = [T::default(); LANES];
        last[..rest.len()].copy_from_slice(rest);
        put_tails(&last, &mut writer);
        writer.finish();
    }
}

/// Appends the tails of a row, four at a time, or two at a time if four do not fit in 64 bits.
#[inline(always)]
fn put_tails<T: Number>(row: &[T; LANES], writer: &mut bits::Writer) {
    // Often only few numbers have tails, such as the first difference of a block.
    if !have_tails(row) {
        return;
    }
    let (mut tails, mut n_bits) = ([0; LANES], [0; LANES]);
    for i in 0..LANES {
        n_bits[i] = any_symbol(row[i]).1;
        tails[i] = row[i].to_u32() & ((1 << n_bits[i]) - 1);
    }
    let (mut of_two, mut bits_of_two) = ([0; LANES / 2], [0; LANES / 2]);
    for i in 0..LANES / 2 {
        of_two[i] = u64::from(tails[2 * i]) | u64::from(tails[2 * i + 1]) << n_bits[2 * i];
        bits_of_two[i] = n_bits[2 * i] + n_bits[2 * i + 1];
    }
    let mut most = 0;
    for i in 0..LANES / 4 {
        most = most.max(bits_of_two[2 * i] + bits_of_two[2 * i + 1]);
    }
    if most > u64::BITS {
        for i in 0..LANES / 2 {
            writer.push_any(of_two[i], bits_of_two[i]);
        }
        return;
    }
    for i in 0..LANES / 4 {
        let of_four = of_two[2 * i] | of_two[2 * i + 1] << bits_of_two[2 * i];
        writer.push_any(of_four, bits_of_two[2 * i] + bits_of_two[2 * i + 1]);
    }
}

/// Bits of each lane.
fn lane_bits(codes: &[u16], level: Isa) -> [u32; LANES] {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Avx2::at(level) {
        return lanes_avx2::lane_bits(avx2, codes);
    }
    let codes = codes.as_chunks::<LANES>().0.as_flattened();
    std::array::from_fn(|lane| codes.iter().skip(lane).step_by(LANES).map(|&code| code_of(code).1).sum())
}

/// Code lengths of the last row, or zeros if there are no rows.
fn last_row(codes: &[u16]) -> [u32; LANES] {
    codes.last_chunk().map_or([0; LANES], |last: &[u16; LANES]| last.map(|code| code_of(code).1))
}

/// Counts symbols that are below `counts.len()`. Every fourth symbol is counted in the same of four
/// tables, whose contents are arbitrary: neighbors are often equal, and no increment should wait for
/// the one before.
#[inline(never)] // the vector instructions of the caller are of no use here
pub fn count<C: AsMut<[u32]>>(symbols: &[impl Copy + Into<usize>], quarters: &mut [C; 4], counts: &mut [u32]) {
    let mut quarters = quarters.each_mut().map(C::as_mut);
    quarters.iter_mut().for_each(|quarter| quarter[..counts.len()].fill(0));
    let (fours, rest) = symbols.as_chunks::<4>();
    for four in fours {
        for (quarter, &symbol) in quarters.iter_mut().zip(four) {
            quarter[symbol.into()] += 1;
        }
    }
    rest.iter().for_each(|&symbol| quarters[0][symbol.into()] += 1);
    add_quarters(quarters.map(|quarter| &*quarter), counts);
}

/// Writes the words of whole rows of codes; they fill `out` exactly.
fn write_words(mut writer: Writer, codes: &[u16], level: Isa, out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::at(level) {
        let end = simd::write(avx512, &mut writer, codes, out);
        writer.finish(&mut out[..end]);
        return;
    }
    let (mut end, mut n_left) = (out.len(), codes.len());
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Avx2::at(level) {
        (end, n_left) = lanes_avx2::write(avx2, &mut writer, codes, out);
    }
    let end = writer.write(&codes[..n_left], &mut out[..end]);
    writer.finish(&mut out[..end]);
}
