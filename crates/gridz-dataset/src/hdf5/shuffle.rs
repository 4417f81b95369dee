//! HDF5's shuffle filter and its inverse, bit-identical to `H5Zshuffle.c`.
//!
//! Shuffled data consists of byte planes: the first bytes of all elements, then all second bytes,
//! and so on. Trailing bytes that do not fill an element stay at the end. Elements of one byte, and
//! a single element, stay unchanged.
//!
//! The code works on tiles of eight elements by up to eight of their bytes, which it transposes as
//! words.

/// Elements of a tile.
const GROUP: usize = 8;
/// Target size of a group of elements whose bytes are processed plane by plane, so that the group
/// stays in the cache.
const CACHED_BYTES: usize = 1 << 14;
/// Minimum number of elements in a group, so that its part of a plane is at least a cache line.
const MIN_CACHED: usize = 64;

/// Shuffles `from`, which has elements of `size` bytes, into `to`, which has the same length.
pub fn shuffle(size: usize, from: &[u8], to: &mut [u8]) {
    let n = whole_elements(size, from, to);
    for_each_byte_group(size, n, |byte_group, width| match width {
        8 => split::<8>(size, n, byte_group, from, to),
        4 => split::<4>(size, n, byte_group, from, to),
        2 => split::<2>(size, n, byte_group, from, to),
        _ => split::<1>(size, n, byte_group, from, to),
    });
    for element in n - n % GROUP..n {
        for byte in 0..size {
            to[byte * n + element] = from[element * size + byte];
        }
    }
}

/// Inverse of [`shuffle`]. Both only move bytes, so shuffling the result restores any `from`.
pub fn unshuffle(size: usize, from: &[u8], to: &mut [u8]) {
    let n = whole_elements(size, from, to);
    for_each_byte_group(size, n, |byte_group, width| match width {
        8 => join::<8>(size, n, byte_group, from, to),
        4 => join::<4>(size, n, byte_group, from, to),
        2 => join::<2>(size, n, byte_group, from, to),
        _ => join::<1>(size, n, byte_group, from, to),
    });
    for element in n - n % GROUP..n {
        for byte in 0..size {
            to[element * size + byte] = from[byte * n + element];
        }
    }
}

/// Copies the bytes that keep their position, and returns the number of elements to move.
fn whole_elements(size: usize, from: &[u8], to: &mut [u8]) -> usize {
    let n = from.len().checked_div(size).filter(|&n| size > 1 && n > 1).unwrap_or(0);
    to[n * size..].copy_from_slice(&from[n * size..]);
    n
}

/// Position of a tile: its first element, and the first of the bytes of its elements.
#[derive(Clone, Copy)]
struct ByteGroup {
    element: usize,
    byte: usize,
}

/// Calls `work` with every tile and its number of bytes per element: 8, then 4, 2 and 1 for the
/// rest.
fn for_each_byte_group(size: usize, n: usize, mut work: impl FnMut(ByteGroup, usize)) {
    let cached = (CACHED_BYTES / size.max(1) / GROUP * GROUP).max(MIN_CACHED);
    let end = n - n % GROUP;
    for start in (0..end).step_by(cached) {
        let mut byte = 0;
        while byte < size {
            let width = [8, 4, 2].into_iter().find(|width| byte + width <= size).unwrap_or(1);
            for element in (start..end.min(start + cached)).step_by(GROUP) {
                work(ByteGroup { element, byte }, width);
            }
            byte += width;
        }
    }
}

/// Moves `WIDTH` bytes of eight elements to `WIDTH` planes of `n` bytes.
#[inline(always)]
fn split<const WIDTH: usize>(size: usize, n: usize, byte_group: ByteGroup, elements: &[u8], planes: &mut [u8]) {
    let mut words = [0; WIDTH];
    for k in 0..GROUP {
        let mut bytes = [0; 8];
        bytes[..WIDTH].copy_from_slice(&elements[(byte_group.element + k) * size + byte_group.byte..][..WIDTH]);
        words[k % WIDTH] |= u64::from_le_bytes(bytes) << (8 * WIDTH * (k / WIDTH));
    }
    transpose(&mut words);
    for (i, word) in words.into_iter().enumerate() {
        planes[(byte_group.byte + i) * n + byte_group.element..][..GROUP].copy_from_slice(&word.to_le_bytes());
    }
}

/// Inverse of [`split`].
#[inline(always)]
fn join<const WIDTH: usize>(size: usize, n: usize, byte_group: ByteGroup, planes: &[u8], elements: &mut [u8]) {
    let mut words = [0; WIDTH];
    for (i, word) in words.iter_mut().enumerate() {
        let bytes = &planes[(byte_group.byte + i) * n + byte_group.element..][..GROUP];
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    transpose(&mut words);
    for k in 0..GROUP {
        let bytes = (words[k % WIDTH] >> (8 * WIDTH * (k / WIDTH) % 64)).to_le_bytes();
        elements[(byte_group.element + k) * size + byte_group.byte..][..WIDTH].copy_from_slice(&bytes[..WIDTH]);
    }
}

/// Transposes the squares of `WIDTH` × `WIDTH` bytes that lie side by side in the words. In each
/// square byte `i` of word `k` and byte `k` of word `i` are swapped.
#[inline(always)]
fn transpose<const WIDTH: usize>(words: &mut [u64; WIDTH]) {
    swap_halves::<WIDTH, 4>(words, 0x0000_0000_ffff_ffff);
    swap_halves::<WIDTH, 2>(words, 0x0000_ffff_0000_ffff);
    swap_halves::<WIDTH, 1>(words, 0x00ff_00ff_00ff_00ff);
}

/// Swaps the upper right and lower left quarters of squares of 2·`HALF` bytes.
#[inline(always)]
fn swap_halves<const WIDTH: usize, const HALF: usize>(words: &mut [u64; WIDTH], mask: u64) {
    if HALF < WIDTH {
        for i in 0..WIDTH / 2 {
            let upper = i / HALF * 2 * HALF + i % HALF;
            let swapped = (words[upper] >> (8 * HALF) ^ words[upper + HALF]) & mask;
            words[upper] ^= swapped << (8 * HALF);
            words[upper + HALF] ^= swapped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference: the loops of `H5Z__filter_shuffle`.
    fn defined(size: usize, from: &[u8]) -> Vec<u8> {
        let n = from.len() / size;
        if size <= 1 || n <= 1 {
            return from.to_vec();
        }
        let mut to = Vec::new();
        for i in 0..size {
            to.extend((0..n).map(|j| from[j * size + i]));
        }
        to.extend(&from[n * size..]);
        to
    }

    #[test]
    fn it_is_what_hdf5_does_and_comes_back() {
        for size in [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 25, 100, 8192, 70_000] {
            for n in [0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 100, 1000, 4096, 5000] {
                for extra in [0, 1, size - 1] {
                    let n_bytes = n * size + extra;
                    if n_bytes > 1 << 20 {
                        continue;
                    }
                    let from: Vec<u8> = (0..n_bytes).map(|i| (i * i / 7 + i / 251) as u8).collect();
                    let (mut there, mut back) = (vec![1; n_bytes], vec![2; n_bytes]);
                    shuffle(size, &from, &mut there);
                    assert!(there == defined(size, &from), "{n} elements of {size} bytes and {extra} more");
                    unshuffle(size, &there, &mut back);
                    assert!(back == from, "{n} elements of {size} bytes and {extra} more");
                }
            }
        }
    }
}
