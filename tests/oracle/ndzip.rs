//! A second ndzip, written only from the published description of the stream.
//!
//! Every step follows the definition, one bit or one element at a time. Nothing is optimized, and no
//! code is shared with the crate. Words are stored in u64, whatever their width.

/// Number of elements in a block.
const BLOCK: usize = 4096;

/// An array: `bits` per word, up to three extents.
pub struct Ndzip {
    bits: usize,
    extents: Vec<usize>,
    side: usize,
    blocks: Vec<usize>,
}

impl Ndzip {
    pub fn new(bits: usize, extents: &[u64]) -> Self {
        let extents: Vec<usize> = extents.iter().map(|&n| n as usize).collect();
        let side = [4096, 64, 16][extents.len() - 1];
        let blocks = extents.iter().map(|n| n / side).collect();
        Self { bits, extents, side, blocks }
    }

    fn bytes(&self) -> usize {
        self.bits / 8
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    fn n_groups(&self) -> usize {
        BLOCK / self.bits
    }

    fn n_blocks(&self) -> usize {
        self.blocks.iter().product()
    }

    /// Number of bytes of the offset table and its padding.
    fn data_base(&self) -> usize {
        (4 * self.n_blocks()).next_multiple_of(self.bytes())
    }

    /// The array index of every element of block `number`, in in-block order.
    fn block_indices(&self, number: usize) -> Vec<usize> {
        let corner = unravel(number, &self.blocks);
        let sides = vec![self.side; self.extents.len()];
        (0..BLOCK)
            .map(|i| {
                let inside = unravel(i, &sides);
                let place: Vec<usize> = inside.iter().zip(&corner).map(|(i, b)| b * self.side + i).collect();
                ravel(&place, &self.extents)
            })
            .collect()
    }

    /// The array index of every border element, in array order.
    fn border_indices(&self) -> Vec<usize> {
        let outside = |&index: &usize| {
            unravel(index, &self.extents).iter().zip(&self.blocks).any(|(x, n)| *x >= n * self.side)
        };
        (0..self.extents.iter().product()).filter(outside).collect()
    }

    fn read(&self, bytes: &[u8]) -> Vec<u64> {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        bytes.chunks_exact(self.bytes()).map(word).collect()
    }

    fn write(&self, words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()[..self.bytes()].to_vec()).collect()
    }

    /// The stream for the array `raw`.
    pub fn encode(&self, raw: &[u8]) -> Vec<u8> {
        let values = self.read(raw);
        let (mut table, mut words) = (Vec::new(), Vec::new());
        for block in 0..self.n_blocks() {
            let block: Vec<u64> = self.block_indices(block).iter().map(|&i| values[i]).collect();
            words.extend(self.encode_block(&block));
            table.extend((words.len() as u32).to_le_bytes());
        }
        words.extend(self.border_indices().iter().map(|&i| values[i]));
        table.resize(self.data_base(), 0);
        table.extend(self.write(&words));
        table
    }

    fn encode_block(&self, block: &[u64]) -> Vec<u64> {
        let rotated: Vec<u64> = block.iter().map(|w| (w << 1 | w >> (self.bits - 1)) & self.mask()).collect();
        let residuals: Vec<u64> = (0..BLOCK).map(|i| self.fold_sign(self.residual(&rotated, i))).collect();
        let groups = residuals.chunks(self.bits);
        let heads: Vec<u64> = groups.clone().map(|group| group.iter().fold(0, |or, word| or | word)).collect();
        let columns = groups.flat_map(|group| self.transpose(group)).filter(|&column| column != 0);
        heads.iter().copied().chain(columns).collect()
    }

    /// Sum over all subsets A of the axes of (−1)^|A| · v[x − 1_A].
    fn residual(&self, block: &[u64], i: usize) -> u64 {
        let sides = vec![self.side; self.extents.len()];
        let x = unravel(i, &sides);
        let mut sum = 0u64;
        for subset in 0..1usize << x.len() {
            let before: Option<Vec<usize>> =
                x.iter().enumerate().map(|(k, x)| x.checked_sub(subset >> k & 1)).collect();
            let value = before.map_or(0, |place| block[ravel(&place, &sides)]);
            sum = if subset.count_ones() % 2 == 0 { sum.wrapping_add(value) } else { sum.wrapping_sub(value) };
        }
        sum & self.mask()
    }

    fn fold_sign(&self, word: u64) -> u64 {
        let top = 1 << (self.bits - 1);
        if word & top != 0 { word ^ (top - 1) } else { word }
    }

    fn transpose(&self, group: &[u64]) -> Vec<u64> {
        let last = self.bits - 1;
        let bit = |c: usize, j: usize| (group[j] >> (last - c) & 1) << (last - j);
        (0..self.bits).map(|c| (0..self.bits).map(|j| bit(c, j)).sum()).collect()
    }

    /// The array's bytes, or `None` if `stream` fails one of the checks that a decoder should make.
    pub fn decode(&self, stream: &[u8]) -> Option<Vec<u8>> {
        let (table, data) = stream.split_at_checked(self.data_base())?;
        let ends: Vec<usize> = table[..4 * self.n_blocks()]
            .chunks(4)
            .map(|end| u32::from_le_bytes(end.try_into().unwrap()) as usize)
            .collect();
        let border = self.border_indices();
        let n_words = ends.last().unwrap_or(&0) + border.len();
        if data.len() != n_words * self.bytes() {
            return None;
        }
        let words = self.read(data);
        let mut values = vec![0; self.extents.iter().product()];
        let mut start = 0;
        for (block, &end) in ends.iter().enumerate() {
            let decoded = self.decode_block(words.get(start..end)?)?;
            for (i, value) in self.block_indices(block).into_iter().zip(decoded) {
                values[i] = value;
            }
            start = end;
        }
        for (i, &value) in border.into_iter().zip(&words[start..]) {
            values[i] = value;
        }
        Some(self.write(&values))
    }

    fn decode_block(&self, words: &[u64]) -> Option<Vec<u64>> {
        let (heads, columns) = words.split_at_checked(self.n_groups())?;
        if heads.iter().map(|head| head.count_ones() as usize).sum::<usize>() != columns.len() {
            return None;
        }
        let mut columns = columns.iter().copied();
        let mut block = Vec::new();
        for head in heads {
            let is_stored = |c: usize| head >> (self.bits - 1 - c) & 1 == 1;
            let group: Vec<u64> =
                (0..self.bits).map(|c| if is_stored(c) { columns.next().unwrap() } else { 0 }).collect();
            block.extend(self.transpose(&group).into_iter().map(|word| self.fold_sign(word)));
        }
        // A prefix sum along every axis.
        for axis in 0..self.extents.len() {
            let stride = self.side.pow(axis as u32);
            for i in 0..BLOCK {
                if !(i / stride).is_multiple_of(self.side) {
                    block[i] = block[i].wrapping_add(block[i - stride]) & self.mask();
                }
            }
        }
        Some(block.into_iter().map(|w| w >> 1 | (w & 1) << (self.bits - 1)).collect())
    }
}

/// Coordinates of element `i` of an array in C order.
fn unravel(mut i: usize, extents: &[usize]) -> Vec<usize> {
    let mut place = vec![0; extents.len()];
    for (x, n) in place.iter_mut().zip(extents).rev() {
        (*x, i) = (i % n, i / n);
    }
    place
}

/// The inverse of `unravel`.
fn ravel(place: &[usize], extents: &[usize]) -> usize {
    place.iter().zip(extents).fold(0, |i, (x, n)| i * n + x)
}
