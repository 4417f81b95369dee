//! Header templates for kernels: the part of a frame's header that is known before its payload.

use gridz_codecs::format::header::{CRC_AT, Header, MAX_HEADER_BYTES, PAYLOAD_FIELDS};

/// Bits of the fields that depend on the payload.
const FIELD_BITS: usize = 8 * (PAYLOAD_FIELDS.end - PAYLOAD_FIELDS.start);
/// The polynomial of CRC-32C, bit-reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

gridz_codecs::kernel_struct! {
    /// The header that all frames of a launch with one codec have in common, and the constants by
    /// which a kernel completes it (`FrameForm` in `kernels/common/types.cuh`). The CRC is linear:
    /// each bit of the payload's fields flips it by a pattern that does not depend on the other
    /// bits.
    pub struct HeaderTemplate, size 1080 {
        /// Length of the header.
        pub n_bytes: u32,
        /// CRC-32C of `words`.
        pub crc: u32,
        /// The change of the CRC when bit `i % 8` of byte `16 + i / 8` is set.
        pub crc_of_bit: [u32; FIELD_BITS],
        /// The header with zeros for the payload's length, its checksum and the CRC; zeros after
        /// the header.
        pub words: [u32; MAX_HEADER_BYTES / 4],
    }
}

impl HeaderTemplate {
    /// The template of headers like `header`, for any payload.
    pub fn new(header: &Header) -> Self {
        let mut bytes = [0; MAX_HEADER_BYTES];
        let n_bytes = header.n_bytes();
        Header { payload_bytes: 0, payload_checksum: 0, ..*header }.emit(&mut bytes);
        bytes[CRC_AT..CRC_AT + 4].fill(0);
        let crc = crc32c::crc32c(&bytes[..n_bytes]);
        let words = std::array::from_fn(|i| u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[4 * i + k])));
        // The effect of the last bit. The effect of each earlier bit is that of its successor,
        // advanced by one CRC step.
        bytes[PAYLOAD_FIELDS.end - 1] = 0x80;
        let mut flips = crc32c::crc32c(&bytes[..n_bytes]) ^ crc;
        let mut crc_of_bit = [0; FIELD_BITS];
        for entry in crc_of_bit.iter_mut().rev() {
            *entry = flips;
            flips = (flips >> 1) ^ (POLYNOMIAL * (flips & 1));
        }
        Self { n_bytes: n_bytes as u32, crc, crc_of_bit, words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridz_codecs::format::fold::Fold;
    use gridz_codecs::types::{Array, ByteOrder, DType, Shape};
    use gridz_cuda::KernelStruct;

    fn header(rank: usize, params: &[u8]) -> Header<'_> {
        let shape = Shape::new(&vec![3; rank]).unwrap();
        Header {
            codec: 1,
            codec_version: 1,
            fold: Fold::Flat,
            array: Array::new(DType::F64, ByteOrder::Big, shape).unwrap(),
            params,
            payload_bytes: 7,
            payload_checksum: 9,
        }
    }

    const PARAMS: [u8; 255] = [0xa7; 255];

    fn headers() -> [Header<'static>; 4] {
        [header(0, &[]), header(3, &[]), header(4, &PARAMS[..5]), header(32, &PARAMS)]
    }

    fn bytes_of(template: &HeaderTemplate) -> Vec<u8> {
        template.words.iter().flat_map(|word| word.to_le_bytes()).take(template.n_bytes as usize).collect()
    }

    /// Completes a header as a kernel does.
    fn complete(template: &HeaderTemplate, payload_bytes: u64, payload_checksum: u64) -> Vec<u8> {
        let fields = u128::from(payload_bytes) | u128::from(payload_checksum) << 64;
        let flips = (0..FIELD_BITS).filter(|i| fields >> i & 1 == 1).map(|i| template.crc_of_bit[i]);
        let crc = flips.fold(template.crc, |crc, flip| crc ^ flip);
        let mut bytes = bytes_of(template);
        bytes[PAYLOAD_FIELDS].copy_from_slice(&fields.to_le_bytes());
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn each_bit_flips_the_bits_of_the_definition() {
        for header in headers() {
            let template = HeaderTemplate::new(&header);
            let bytes = bytes_of(&template);
            assert_eq!(template.crc, crc32c::crc32c(&bytes));
            for i in 0..FIELD_BITS {
                let mut flipped = bytes.clone();
                flipped[PAYLOAD_FIELDS.start + i / 8] ^= 1 << (i % 8);
                assert_eq!(template.crc_of_bit[i], crc32c::crc32c(&flipped) ^ template.crc, "bit {i}");
            }
        }
    }

    #[test]
    fn a_completed_template_is_the_header_that_the_cpu_writes() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for header in headers() {
            let template = HeaderTemplate::new(&header);
            for (payload_bytes, payload_checksum) in
                (0..100).map(|_| (next(), next())).chain([(0, 0), (u64::MAX, 1)])
            {
                let mut emitted = vec![0; header.n_bytes()];
                Header { payload_bytes, payload_checksum, ..header }.emit(&mut emitted);
                assert_eq!(complete(&template, payload_bytes, payload_checksum), emitted);
            }
        }
    }

    #[test]
    fn kernels_find_the_fields() {
        assert_eq!(std::mem::offset_of!(HeaderTemplate, words), 520);
        let template = HeaderTemplate::new(&header(3, &[]));
        assert_eq!(
            (template.n_bytes, template.words[0].to_le_bytes(), template.words[16..].iter().sum::<u32>()),
            (64, *b"GRDZ", 0)
        );
        assert_eq!(template.as_bytes().len(), 1080);
    }
}
