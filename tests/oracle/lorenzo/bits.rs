//! Bit strings.

/// A bit string, the first bit first.
#[derive(Default)]
pub struct BitString(Vec<bool>);

impl BitString {
    /// Appends the low `n` bits of `field`.
    pub fn push(&mut self, field: u64, n: u32) {
        self.0.extend((0..n).map(|i| field >> i & 1 == 1));
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0.chunks(8).map(|byte| byte.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit))).collect()
    }
}

/// A string of the low `n` bits of each field.
pub fn string_of(fields: impl IntoIterator<Item = u64>, n: u32) -> Vec<u8> {
    let mut string = BitString::default();
    fields.into_iter().for_each(|field| string.push(field, n));
    string.into_bytes()
}
