//! SPARSE.

use super::bits::string_of;
use super::split::GROUP;
use super::{bit_length, marks};

/// The bytes of the numbers; `None` where SPARSE is not considered.
pub fn encode(numbers: &[u64]) -> Option<Vec<u8>> {
    let not_zero = |numbers: &[u64]| numbers.iter().filter(|&&r| r != 0).count();
    if numbers.chunks(GROUP).any(|group| 16 * not_zero(group) > 15 * group.len()) {
        return None;
    }
    let w = numbers.iter().map(|&r| bit_length(r)).max()?;
    let marks: Vec<bool> = numbers.iter().map(|&r| r != 0).collect();
    let mut bytes = (not_zero(numbers) as u16).to_le_bytes().to_vec();
    bytes.extend([w as u8, 0]);
    bytes.extend(marks::coded(&marks));
    bytes.extend(string_of(numbers.iter().copied().filter(|&r| r != 0), w));
    Some(bytes)
}
