//! Canonical Huffman codes of limited length, the same on every machine.

use std::ops::Range;

use crate::stage::radix::{self, DIGIT_BITS};

/// Largest `max_bits` allowed.
pub const MAX_BITS: u32 = 16;
/// Maximum number of symbols of a code.
pub const MAX_SYMBOLS: usize = 4096;
/// For up to this many symbols, less memory is cleared.
const FEW: usize = 256;

/// Code lengths, up to `max_bits`, of symbols with these counts; 0 for symbols that do not occur.
/// The sum of the counts is below 2^32.
///
/// The two lightest nodes are merged until one is left. Of equally light nodes the older one is
/// taken; leaves are older than merged nodes, and ordered by symbol. If a code gets too long, all
/// counts are halved (rounded up) and everything starts over.
pub fn lengths<const SYMBOLS: usize>(counts: &[u32; SYMBOLS], max_bits: u32) -> [u8; SYMBOLS] {
    let mut lengths = [0; SYMBOLS];
    set_lengths::<SYMBOLS>(counts, max_bits, &mut lengths);
    lengths
}

/// Like [`lengths`], for up to `MOST` symbols: sets the lengths of those that occur.
pub fn set_lengths<const MOST: usize>(counts: &[u32], max_bits: u32, lengths: &mut [u8]) {
    const { assert!(MOST <= MAX_SYMBOLS) };
    let n = counts.iter().filter(|&&count| count > 0).count();
    assert!(max_bits <= MAX_BITS && n <= 1 << max_bits, "a code for every symbol");
    // If few symbols occur, clearing memory for all takes as long as building the codes.
    if n <= FEW { set::<FEW>(counts, max_bits, lengths) } else { set::<MOST>(counts, max_bits, lengths) }
}

/// Sets the lengths of the symbols that occur, which are at most `MOST`.
fn set<const MOST: usize>(counts: &[u32], max_bits: u32, lengths: &mut [u8]) {
    // Counts, with their symbols in the lower half.
    let mut memory = [[0; MOST]; 3];
    let [leaves, first, second] = &mut memory;
    let mut n = 0;
    for (symbol, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
        leaves[n] = u64::from(count) << 32 | symbol as u64;
        n += 1;
    }
    let (leaves, mut buffers) = (&mut leaves[..n], [&mut first[..n], &mut second[..n]]);
    let symbol = |leaf: u64| leaf as u32 as usize;
    match *leaves {
        [] => return,
        [leaf] => return lengths[symbol(leaf)] = 1,
        _ => {}
    }
    let mut sorted = sort(leaves, &mut buffers);
    let mut weights = [0; MOST];
    let weights = &mut weights[..n];
    let mut tree = Tree::<MOST>::default();
    // Halving never changes the order of leaves by weight. Their symbols matter only once the tree
    // is found.
    let mut n_halvings = 0;
    let halved = |leaf: u64, n_halvings: u32| (((leaf >> 32) - 1) >> n_halvings) + 1;
    loop {
        weights.iter_mut().zip(sorted).for_each(|(weight, &leaf)| *weight = halved(leaf, n_halvings) as u32);
        tree.merge(weights);
        if tree.levels().count() <= max_bits as usize {
            break;
        }
        n_halvings += 1;
    }
    if n_halvings > 0 {
        leaves.iter_mut().for_each(|leaf| *leaf = halved(*leaf, n_halvings) << 32 | symbol(*leaf) as u64);
        sorted = sort(leaves, &mut buffers);
    }
    for (of_level, length) in tree.levels().zip(1..) {
        sorted[of_level].iter().for_each(|&leaf| lengths[symbol(leaf)] = length);
    }
}

/// Sorts leaves by count; the sort is stable. The result is in one of the two buffers.
fn sort<'a>(leaves: &[u64], buffers: &'a mut [&mut [u64]; 2]) -> &'a [u64] {
    let all = leaves.iter().fold(0, |all, leaf| all | leaf);
    let n_digits = (all >> 32).checked_ilog2().map_or(0, |bits| bits / DIGIT_BITS + 1);
    let shifts = (0..n_digits).map(|digit| 32 + digit * DIGIT_BITS);
    let [values, spare] = buffers;
    values.copy_from_slice(leaves);
    let is_in_spare = radix::sort(values, spare, shifts, |leaf, shift| (leaf >> shift) as usize);
    if is_in_spare { spare } else { values }
}

/// A tree that merges leaves until one node is left. Nodes are created in order of weight. So nodes
/// and leaves are both taken in order, and a node or leaf taken later is never deeper.
struct Tree<const MOST: usize> {
    /// Leaves that were taken before each node was made.
    taken: [u16; MOST],
    n_leaves: usize,
}

impl<const MOST: usize> Default for Tree<MOST> {
    fn default() -> Self {
        Self { taken: [0; MOST], n_leaves: 0 }
    }
}

impl<const MOST: usize> Tree<MOST> {
    /// Merges leaves of these weights, which are in ascending order.
    fn merge(&mut self, leaves: &[u32]) {
        self.n_leaves = leaves.len();
        // A node that does not exist has the largest weight.
        let mut nodes = [u32::MAX; MOST];
        let weight = |of: &[u32], i: usize| of.get(i).copied().unwrap_or(u32::MAX);
        let mut leaf = 0;
        for node in 0..leaves.len().saturating_sub(1) {
            self.taken[node] = leaf as u16;
            let merged = 2 * node - leaf;
            let of_leaves = [weight(leaves, leaf), weight(leaves, leaf + 1)];
            let of_nodes = [weight(&nodes, merged), weight(&nodes, merged + 1)];
            // Two leaves, two nodes, or one of each: that is unpredictable, so there are no
            // branches.
            let sum = |a: u32, b: u32| a.saturating_add(b);
            nodes[node] = sum(of_leaves[0], of_leaves[1])
                .min(sum(of_nodes[0], of_nodes[1]))
                .min(sum(of_leaves[0], of_nodes[0]));
            leaf += usize::from(of_leaves[0] <= of_nodes[1]) + usize::from(of_leaves[1] <= of_nodes[0]);
        }
    }

    /// The range of leaves at each depth from 1 on.
    fn levels(&self) -> impl Iterator<Item = Range<usize>> {
        let (mut first, mut end) = (self.n_leaves.saturating_sub(2), self.n_leaves);
        std::iter::from_fn(move || {
            let start = usize::from(self.taken[first]);
            let leaves = start..end;
            // The nodes before the first one of this level took this many nodes, which are deeper.
            (first, end) = (2 * first - start, start);
            (leaves.end > 0).then_some(leaves)
        })
    }
}

/// Assigns codes to symbols: yields symbol, code (first bit lowest) and length, in the order of
/// length and symbol. `None` if codes overlap or a length exceeds `max_bits`.
pub fn codes<const SYMBOLS: usize>(
    lengths: &[u8; SYMBOLS],
    max_bits: u32,
) -> Option<impl Iterator<Item = (usize, u32, u32)>> {
    const { assert!(SYMBOLS <= MAX_SYMBOLS) };
    let mut per_length = [0u32; MAX_BITS as usize + 1];
    for &length in lengths {
        *per_length[..=max_bits as usize].get_mut(usize::from(length))? += 1;
    }
    // The first code of each length, and its index among all codes.
    let mut code = 0;
    let mut next = [0; MAX_BITS as usize + 1];
    let mut places = [0; MAX_BITS as usize + 1];
    let mut n = 0;
    for length in 1..=max_bits as usize {
        (next[length], places[length]) = (code, n);
        code = (code + per_length[length]) << 1;
        n += per_length[length] as usize;
    }
    if code > 2 << max_bits {
        return None;
    }
    let mut codes = [(0, 0, 0); SYMBOLS];
    for (symbol, &length) in lengths.iter().enumerate() {
        if length > 0 {
            let (code, place) = (&mut next[usize::from(length)], &mut places[usize::from(length)]);
            codes[*place] = (symbol, code.reverse_bits() >> (32 - u32::from(length)), u32::from(length));
            *code += 1;
            *place += 1;
        }
    }
    Some(codes.into_iter().take(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: usize = 65;
    const BITS: u32 = 10;

    fn lengths_of(counts: &[u32]) -> Vec<u8> {
        let mut all = [0; SYMBOLS];
        all[..counts.len()].copy_from_slice(counts);
        lengths(&all, BITS)[..counts.len()].to_vec()
    }

    #[test]
    fn lengths_are_those_of_the_definition() {
        assert_eq!(lengths_of(&[]), [0; 0]);
        assert_eq!(lengths_of(&[0, 7]), [0, 1]);
        assert_eq!(lengths_of(&[1, 1, 2, 4]), [3, 3, 2, 1]);
        assert_eq!(lengths_of(&[5, 5, 5, 5]), [2, 2, 2, 2]);
        // The leaves of weight 2 and the node merged from 1 and 1 weigh the same. The leaves are taken
        // first.
        assert_eq!(lengths_of(&[1, 1, 2, 2]), [2, 2, 2, 2]);
    }

    #[test]
    fn long_codes_are_shortened_and_codes_never_overlap() {
        let fibonacci: Vec<u32> = (0..40)
            .scan((1, 1), |(a, b), _| {
                (*a, *b) = (*b, *a + *b);
                Some(*a)
            })
            .collect();
        let mut counts = [0; SYMBOLS];
        for n in 1..=40 {
            counts[..n].copy_from_slice(&fibonacci[..n]);
            let lengths = lengths(&counts, BITS);
            let space: u32 = lengths.iter().filter(|&&l| l > 0).map(|&l| 1 << (BITS - u32::from(l))).sum();
            assert!(space <= 1 << BITS);
            let codes: Vec<_> = codes(&lengths, BITS).unwrap().collect();
            assert_eq!(codes.len(), n);
            for (i, &(_, code, length)) in codes.iter().enumerate() {
                for &(_, other, other_length) in &codes[..i] {
                    let mask = (1 << length.min(other_length)) - 1;
                    assert_ne!(code & mask, other & mask);
                }
            }
        }
    }

    #[test]
    fn codes_follow_length_and_symbol() {
        let mut lengths = [0; SYMBOLS];
        lengths[3..7].copy_from_slice(&[2, 1, 3, 3]);
        // 0, 10, 110, 111, first bit lowest.
        let codes: Vec<_> = codes(&lengths, BITS).unwrap().collect();
        assert_eq!(codes, [(4, 0b0, 1), (3, 0b01, 2), (5, 0b011, 3), (6, 0b111, 3)]);
    }

    #[test]
    fn overlapping_codes_are_refused() {
        let mut lengths = [0; SYMBOLS];
        lengths[..3].fill(1);
        assert!(codes(&lengths, BITS).is_none());
        lengths[0] = 11;
        assert!(codes(&lengths, BITS).is_none());
    }

    #[test]
    fn many_symbols_have_codes_too() {
        // Weights that fall off so fast that the tree would be far deeper than 16.
        let mut counts = [1; MAX_SYMBOLS];
        for (i, count) in counts.iter_mut().enumerate().take(28) {
            *count = 1 << (28 - i);
        }
        for max_bits in [12, 13, 16] {
            let lengths = lengths(&counts, max_bits);
            assert!(lengths.iter().all(|&l| l > 0 && u32::from(l) <= max_bits) && lengths[0] <= lengths[4000]);
            let mut seen = vec![false; 1 << max_bits];
            for (_, code, length) in codes(&lengths, max_bits).unwrap() {
                for above in 0..1 << (max_bits - length) {
                    let at = (code | above << length) as usize;
                    assert!(!std::mem::replace(&mut seen[at], true), "{code:b} of {length} bits begins another");
                }
            }
            assert!(seen.iter().all(|&seen| seen), "a whole tree leaves nothing over");
        }
    }
}
