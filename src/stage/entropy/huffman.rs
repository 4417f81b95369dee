//! Canonical Huffman codes of limited length, the same on every machine.

/// Longest codes that can be asked for.
pub const MAX_BITS: u32 = 16;
/// Most symbols that a code can have.
pub const MAX_SYMBOLS: usize = 4096;

/// Code lengths up to `max_bits` for symbols that occur so often, fewer than 2^32 times together; 0 for those that do not.
///
/// The two lightest nodes are merged until one is left; of equally light ones the older, and leaves are
/// older than merged nodes, in the order of the symbols. If a code gets too long, all counts are halved
/// (rounded up) and everything is done again.
pub fn lengths<const SYMBOLS: usize>(counts: &[u32; SYMBOLS], max_bits: u32) -> [u8; SYMBOLS] {
    const { assert!(SYMBOLS <= MAX_SYMBOLS) };
    let mut lengths = [0; SYMBOLS];
    let mut leaves = [(0u32, 0u32); SYMBOLS];
    let mut n = 0;
    for (symbol, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
        leaves[n] = (count, symbol as u32);
        n += 1;
    }
    assert!(max_bits <= MAX_BITS && n <= 1 << max_bits, "a code for every symbol");
    let leaves = &mut leaves[..n];
    if let [(_, symbol)] = *leaves {
        lengths[symbol as usize] = 1;
        return lengths;
    }
    loop {
        // Leaves of the same weight are in the order of their symbols.
        leaves.sort_unstable();
        let depths = depths::<SYMBOLS>(leaves);
        if depths.iter().all(|&depth| u32::from(depth) <= max_bits) {
            leaves.iter().zip(depths).for_each(|(&(_, symbol), depth)| lengths[symbol as usize] = depth);
            return lengths;
        }
        leaves.iter_mut().for_each(|(count, _)| *count = count.div_ceil(2));
    }
}

/// Depths of sorted leaves in their tree; those of more than 255 are 255.
fn depths<const SYMBOLS: usize>(leaves: &[(u32, u32)]) -> [u8; SYMBOLS] {
    let n = leaves.len();
    // Merged nodes come into being by weight, and so are merged in their turn.
    let n_merged = n.saturating_sub(1);
    let mut weights = [0; SYMBOLS];
    let (mut parents_of_leaves, mut parents) = ([0; SYMBOLS], [0; SYMBOLS]);
    let (mut leaf, mut merged) = (0, 0);
    for node in 0..n_merged {
        for _ in 0..2 {
            if leaf < n && (merged == node || leaves[leaf].0 <= weights[merged]) {
                weights[node] += leaves[leaf].0;
                parents_of_leaves[leaf] = node;
                leaf += 1;
            } else {
                weights[node] += weights[merged];
                parents[merged] = node;
                merged += 1;
            }
        }
    }
    // The last one is the root.
    let mut depths = [0_u8; SYMBOLS];
    for node in (0..n_merged.saturating_sub(1)).rev() {
        depths[node] = depths[parents[node]].saturating_add(1);
    }
    let mut of_leaves = [0; SYMBOLS];
    for leaf in 0..n {
        of_leaves[leaf] = depths[parents_of_leaves[leaf]].saturating_add(1);
    }
    of_leaves
}

/// The codes for code lengths up to `max_bits`, first bit lowest, with their symbols and lengths; `None` if they overlap or are
/// longer. They are given out in the order of length and, in each length, of the symbol, and come in that order.
pub fn codes<const SYMBOLS: usize>(
    lengths: &[u8; SYMBOLS],
    max_bits: u32,
) -> Option<impl Iterator<Item = (usize, u32, u32)>> {
    const { assert!(SYMBOLS <= MAX_SYMBOLS) };
    let mut per_length = [0u32; MAX_BITS as usize + 1];
    for &length in lengths {
        *per_length[..=max_bits as usize].get_mut(usize::from(length))? += 1;
    }
    // The first code of each length, and its place among all.
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
        // Leaf 2 and the node merged from 1 and 1 weigh the same: the leaf is older.
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
