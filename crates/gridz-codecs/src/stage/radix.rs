//! Radix sort with digits of eight bits. Unlike a comparison sort, it has no unpredictable branches.

/// Bits of a digit.
pub const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Sorts values by their digits at these shifts, the lowest first. The sort is stable. `digit` returns
/// a digit's value; only its lowest bits are used. `spare` has the length of `values`.
/// Returns true if the result is in `spare`: after an odd number of passes.
#[inline(always)]
pub fn sort<T: Copy>(
    values: &mut [T],
    spare: &mut [T],
    shifts: impl Iterator<Item = u32>,
    digit: impl Fn(T, u32) -> usize,
) -> bool {
    let (mut from, mut to, mut is_in_spare) = (values, spare, false);
    for shift in shifts {
        let digit = |value: T| digit(value, shift) % DIGITS;
        let mut places = [0_u32; DIGITS];
        from.iter().for_each(|&value| places[digit(value)] += 1);
        let mut place = 0;
        for n in &mut places {
            (*n, place) = (place, place + *n);
        }
        for &value in &*from {
            let place = &mut places[digit(value)];
            to[*place as usize] = value;
            *place += 1;
        }
        (from, to, is_in_spare) = (to, from, !is_in_spare);
    }
    is_in_spare
}
