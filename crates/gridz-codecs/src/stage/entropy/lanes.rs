//! Lanes: 32 interleaved bit strings; each row of 32 codes appends one code to every string.
//!
//! Strings are cut into 16-bit words, highest bit first. The words of all lanes form one stream, in
//! the order in which a decoder needs them. Before each row, every lane with fewer bits than the
//! longest code takes the next word, lane 0 first. So a warp, or a vector of 32 numbers, decodes a
//! row in lockstep and reads the words sequentially.
//!
//! A forward encoder would not know the contents of a word when its turn comes. So the encoder runs
//! backwards, from the last row to the first. Each of its lanes holds the bits that a decoder's
//! lane would hold. It prepends a code to these bits; where the decoder must have taken a word just
//! before, it first cuts that word off at the end. The initial number of bits in a lane is chosen
//! so that none are left after the first row.

use crate::error::{Result, try_vec};

/// Number of lanes, and of codes in a row.
pub const LANES: usize = 32;
pub const WORD_BITS: u32 = 16;
pub const WORD_BYTES: usize = 2;
/// Bits of the longest code allowed.
pub const MAX_BITS: u32 = 14;

/// Code lengths are counted and sorted in this many independent parts of the symbols, so that no
/// step waits for the one before.
const PARTS: usize = 4;

/// The canonical codes of a block by length. Codes are left-aligned in 16 bits; they ascend by
/// length and symbol.
pub struct Codes {
    /// Lengths of the shortest and the longest code. Both are 0 if there is at most one symbol,
    /// whose code then has no bits.
    pub shortest: u32,
    pub longest: u32,
    /// By length: the first 16-bit value above all codes of up to that length. Not used for the
    /// longest length.
    pub limits: [u16; LANES],
    /// By length: the number to add to a code's bits to get its rank.
    pub offsets: [u16; LANES],
    /// Number of codes of each length, in each of the equal parts and in the remainder.
    per_length: [[u16; LANES]; PARTS + 1],
}

impl Codes {
    /// Builds the codes of these lengths. `None` if a length exceeds [`MAX_BITS`] or the code is
    /// not complete. A single symbol must have length 1.
    pub fn new(lengths: &[u8]) -> Option<Self> {
        if lengths.iter().fold(0, |longest, &length| longest.max(length)) > MAX_BITS as u8 {
            return None;
        }
        let mut per_length = [[0; LANES]; PARTS + 1];
        let size = lengths.len() / PARTS;
        for i in 0..size {
            for part in 0..PARTS {
                per_length[part][usize::from(lengths[part * size + i]) % LANES] += 1;
            }
        }
        for &length in &lengths[PARTS * size..] {
            per_length[PARTS][usize::from(length) % LANES] += 1;
        }
        let mut codes = Self { shortest: 0, longest: 0, limits: [0; LANES], offsets: [0; LANES], per_length };
        let (mut code, mut rank) = (0u32, 0u32);
        for length in 1..=MAX_BITS {
            let n: u32 = per_length.iter().map(|per_length| u32::from(per_length[length as usize])).sum();
            code <<= 1;
            codes.offsets[length as usize] = rank.wrapping_sub(code) as u16;
            (code, rank) = (code + n, rank + n);
            if code > 1 << length {
                return None;
            }
            codes.limits[length as usize] = (code << (WORD_BITS - length)) as u16;
            if n > 0 {
                codes.shortest = if codes.longest == 0 { length } else { codes.shortest };
                codes.longest = length;
            }
        }
        match rank {
            0 => Some(codes),
            1 if codes.longest == 1 => Some(Self { shortest: 0, longest: 0, offsets: [0; LANES], ..codes }),
            _ => (code == 1 << MAX_BITS).then_some(codes),
        }
    }

    /// Writes the symbols that have codes to the start of `by_rank`, by length and symbol; returns
    /// their number. `lengths` starts with symbol `lowest`. The symbols without codes follow.
    pub fn rank(&self, lengths: &[u8], lowest: usize, by_rank: &mut [u16]) -> usize {
        let mut next = [[0; LANES]; PARTS + 1];
        let (mut rank, mut n) = (0, 0);
        for length in (1..=MAX_BITS as usize).chain([0]) {
            n = if length == 0 { rank } else { 0 };
            for (next, per_length) in next.iter_mut().zip(&self.per_length) {
                next[length] = rank;
                rank += per_length[length];
            }
        }
        let mut put = |part: usize, i: usize| {
            let next = &mut next[part][usize::from(lengths[i]) % LANES];
            by_rank[usize::from(*next)] = (lowest + i) as u16;
            *next += 1;
        };
        let size = lengths.len() / PARTS;
        for i in 0..size {
            (0..PARTS).for_each(|part| put(part, part * size + i));
        }
        (PARTS * size..lengths.len()).for_each(|i| put(PARTS, i));
        n.into()
    }

    /// Length of the code at the start of these bits.
    #[inline(always)]
    pub fn length(&self, bits: u16) -> u32 {
        let mut length = self.shortest;
        while length < self.longest && bits >= self.limits[length as usize % LANES] {
            length += 1;
        }
        length
    }
}

/// A left-aligned code followed by a one bit, which marks its end.
#[inline(always)]
pub fn ended(code: u16, length: u32) -> u16 {
    code | 1 << (WORD_BITS - 1 - length)
}

/// Splits an [`ended`] code into the left-aligned code and its length.
#[inline(always)]
pub fn code_of(ended: u16) -> (u16, u32) {
    (ended & ended.wrapping_sub(1), WORD_BITS - 1 - ended.trailing_zeros())
}

/// Reads the lanes of a stream.
pub struct Reader<'a> {
    /// The words, little-endian.
    pub stream: &'a [u8],
    /// Bytes taken so far.
    pub at: usize,
    /// Unread bits of each lane, left-aligned above zeros.
    pub bits: [u32; LANES],
    /// Number of unread bits of each lane.
    pub counts: [u32; LANES],
}

impl<'a> Reader<'a> {
    /// Starts before the first row.
    pub fn new(stream: &'a [u8]) -> Self {
        Self { stream, at: 0, bits: [0; LANES], counts: [0; LANES] }
    }

    /// Reads the ranks of whole rows. Words past the end are read as zero.
    pub fn read(&mut self, codes: &Codes, table: &mut Table, ranks: &mut [u16]) {
        let few = ranks.len() < table.lengths.len() / 2;
        if few {
            self.rows(codes, |bits| codes.length(bits), ranks);
        } else {
            let lengths = table.fill(codes);
            let shift = WORD_BITS - codes.longest;
            self.rows(codes, |bits| lengths[usize::from(bits) >> shift].into(), ranks);
        }
    }

    #[inline(always)]
    fn rows(&mut self, codes: &Codes, length: impl Fn(u16) -> u32, ranks: &mut [u16]) {
        for row in ranks.chunks_exact_mut(LANES) {
            for (lane, rank) in row.iter_mut().enumerate() {
                let (bits, count) = (self.bits[lane], self.counts[lane]);
                let next = self.stream.get(self.at..self.at + WORD_BYTES);
                let next = next.map_or(0, |word| u16::from_le_bytes([word[0], word[1]]));
                // Branch-free, because a branch would be mispredicted for about half of the codes.
                let takes = u32::from(count < codes.longest);
                let bits = bits | (takes * u32::from(next)).wrapping_shl(WORD_BITS.wrapping_sub(count));
                let count = count + takes * WORD_BITS;
                self.at += takes as usize * WORD_BYTES;
                let top = (bits >> WORD_BITS) as u16;
                let n = length(top);
                let code = (u32::from(top) >> (WORD_BITS - n)) as u16;
                *rank = code.wrapping_add(codes.offsets[n as usize % LANES]);
                self.bits[lane] = bits << n;
                self.counts[lane] = count - n;
            }
        }
    }

    /// Whether exactly the words of the stream were taken.
    pub fn is_done(&self) -> bool {
        self.at == self.stream.len()
    }
}

/// Lookup table of code lengths by the bits that follow.
pub struct Table {
    lengths: Vec<u8>,
}

impl Table {
    /// Allocates the table.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new() -> Result<Self> {
        let mut lengths = try_vec(1 << MAX_BITS, "a table of codes")?;
        lengths.resize(1 << MAX_BITS, 0);
        Ok(Self { lengths })
    }

    /// Fills in the code length for each value of `codes.longest` bits.
    fn fill(&mut self, codes: &Codes) -> &[u8] {
        let shift = WORD_BITS - codes.longest;
        let lengths = &mut self.lengths[..1 << codes.longest];
        let mut from = 0;
        for length in codes.shortest..=codes.longest {
            let end = if length == codes.longest {
                lengths.len()
            } else {
                usize::from(codes.limits[length as usize % LANES]) >> shift
            };
            lengths[from..end].fill(length as u8);
            from = end;
        }
        lengths
    }
}

/// Writes the lanes of a stream, from its end backwards.
pub struct Writer {
    /// Bits of each lane, left-aligned. The bits below them are arbitrary.
    pub bits: [u32; LANES],
    /// Number of bits of each lane.
    pub counts: [u32; LANES],
    /// Bits of the longest code.
    pub longest: u32,
}

impl Writer {
    /// Starts after the last row. `lane_bits` has the bits of each lane in all rows, `last` those
    /// in the last row.
    pub fn new(lane_bits: &[u32; LANES], last: &[u32; LANES], longest: u32) -> Self {
        let counts = std::array::from_fn(|lane| {
            // When a decoder reads the last row, each lane has at least `longest` bits. The count
            // is chosen so that the lane's bits fill whole words.
            let before = lane_bits[lane] - last[lane];
            longest + (longest + before).wrapping_neg() % WORD_BITS - last[lane]
        });
        Self { bits: [0; LANES], counts, longest }
    }

    /// Number of words written for lanes with these numbers of bits.
    pub fn n_words(&self, lane_bits: &[u32; LANES]) -> usize {
        lane_bits.iter().zip(self.counts).map(|(n, count)| ((n + count) / WORD_BITS) as usize).sum()
    }

    /// Prepends rows of codes in the form of [`ended`]. Writes full words to the end of `out`, and
    /// returns the index of the first byte written.
    pub fn write(&mut self, codes: &[u16], out: &mut [u8]) -> usize {
        let mut end = out.len();
        for codes in codes.chunks_exact(LANES).rev() {
            for lane in (0..LANES).rev() {
                let ((code, length), bits, count) = (code_of(codes[lane]), self.bits[lane], self.counts[lane]);
                // Branch-free, because a branch would be mispredicted for about half of the codes.
                let is_full = u32::from(count + length >= WORD_BITS + self.longest);
                if let Some((_, word)) = out[..end].split_last_chunk_mut() {
                    *word = ((bits >> ((32 - count) % 32)) as u16).to_le_bytes();
                }
                end -= is_full as usize * WORD_BYTES;
                let count = count - is_full * WORD_BITS;
                self.bits[lane] = bits >> length | u32::from(code) << WORD_BITS;
                self.counts[lane] = count + length;
            }
        }
        end
    }

    /// Writes the first word of each lane that has bits left to the end of `out`, and returns the
    /// index of the first byte written. A decoder reads these words before the first row of codes.
    pub fn finish(self, out: &mut [u8]) -> usize {
        let mut end = out.len();
        for lane in (0..LANES).rev().filter(|&lane| self.counts[lane] > 0) {
            end -= WORD_BYTES;
            out[end..end + WORD_BYTES].copy_from_slice(&((self.bits[lane] >> WORD_BITS) as u16).to_le_bytes());
        }
        end
    }
}
