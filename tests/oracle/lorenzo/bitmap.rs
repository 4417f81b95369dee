//! Bitmaps ("marks").

use super::bits::string_of;

/// The bytes of each 32-bit word of a bitmap.
fn words(bitmap: &[bool]) -> Vec<[u8; 4]> {
    let word = |bitmap: &[bool]| bitmap.iter().rev().fold(0u32, |word, &mark| word << 1 | u32::from(mark));
    bitmap.chunks(32).map(|bitmap| word(bitmap).to_le_bytes()).collect()
}

/// The plain bitmap.
fn plain(bitmap: &[bool]) -> Vec<u8> {
    words(bitmap).concat()
}

/// The two-level coding of a bitmap: nonzero words, nonzero bytes of these, and these bytes.
pub fn coded(bitmap: &[bool]) -> Vec<u8> {
    let words = words(bitmap);
    let not_zero = || words.iter().filter(|&&word| word != [0; 4]).flatten().copied();
    let which_words = string_of(words.iter().map(|&word| u64::from(word != [0; 4])), 1);
    let which_bytes = string_of(not_zero().map(|byte| u64::from(byte != 0)), 1);
    let bytes = not_zero().filter(|&byte| byte != 0).collect();
    [which_words, which_bytes, bytes].concat()
}

/// The shorter coding of a block's bitmap, and true if that is the two-level one.
pub fn of_block(bitmap: &[bool], [sz, sy, sx]: [usize; 3]) -> (bool, Vec<u8>) {
    let is_before = |i: usize| sz * sy > 1 && i >= sx && bitmap[i - sx];
    let changes: Vec<bool> = (0..bitmap.len()).map(|i| bitmap[i] ^ is_before(i)).collect();
    let (plain, coded) = (plain(bitmap), coded(&changes));
    if coded.len() <= plain.len() { (true, coded) } else { (false, plain) }
}
