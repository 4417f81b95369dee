//! Arguments of the kernels: `CompressArgs` and `DecompressArgs` in `kernels/common/types.cuh`.
//! Both have the codec's own arguments in the middle.

use crate::header_template::HeaderTemplate;
use crate::launch::LaunchMemory;
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::error::{Error, Result};
use gridz_cuda::KernelStruct;

gridz_codecs::kernel_struct! {
    /// The part of `CompressArgs` before the codec's own arguments.
    struct CompressHead, size 56 {
        src: u64,
        src_stride: u64,
        dst: u64,
        dst_stride: u64,
        frame_bytes: u64,
        scratch: u64,
        folds: u64,
    }

    /// The same part of `DecompressArgs`.
    struct DecompressHead, size 64 {
        src: u64,
        src_stride: u64,
        frame_bytes: u64,
        max_frame_bytes: u64,
        dst: u64,
        dst_stride: u64,
        statuses: u64,
        scratch: u64,
    }

    /// The part of both after the codec's own arguments.
    pub struct Tail, size 2168 {
        pub n_chunks: u32,
        pub flags: u32,
        pub encoded: HeaderTemplate,
        pub stored: HeaderTemplate,
    }
}

/// Bytes of arguments that all GPUs and drivers accept.
const MAX_ARGUMENTS: usize = 4096;

/// The argument struct of a kernel.
#[repr(align(16))]
pub struct Arguments {
    bytes: [u8; MAX_ARGUMENTS],
    n_bytes: usize,
}

impl Arguments {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.n_bytes]
    }

    /// Appends a part. Every part consists of whole 8-byte words, so its fields are aligned.
    pub fn push(&mut self, part: &[u8]) {
        self.bytes[self.n_bytes..][..part.len()].copy_from_slice(part);
        self.n_bytes += part.len();
    }
}

/// Arguments of a kernel whose codec has the arguments `own`. `folds` is the address of the chunks'
/// folds, if there are two.
///
/// # Errors
/// `Internal` if a decompression has no buffer for statuses.
pub fn arguments(
    direction: Direction,
    memory: &LaunchMemory,
    scratch: u64,
    folds: u64,
    own: &[u8],
    tail: &Tail,
) -> Result<Arguments> {
    let mut args = Arguments { bytes: [0; MAX_ARGUMENTS], n_bytes: 0 };
    let (arrays, array_stride) = (memory.arrays.address(), memory.array_stride);
    let (slots, frame_stride) = (memory.frames.address(), memory.frame_stride);
    let frame_bytes = memory.frame_bytes.address();
    match direction {
        Direction::Compress => {
            let (src, src_stride, dst, dst_stride) = (arrays, array_stride, slots, frame_stride);
            args.push(CompressHead { src, src_stride, dst, dst_stride, frame_bytes, scratch, folds }.as_bytes());
        }
        Direction::Decompress => {
            let (src, src_stride, dst, dst_stride) = (slots, frame_stride, arrays, array_stride);
            let (max_frame_bytes, statuses) = (memory.slot_bytes, memory.statuses);
            let statuses = statuses.ok_or_else(|| Error::internal("there is no buffer for statuses"))?.address();
            let head = DecompressHead {
                src,
                src_stride,
                frame_bytes,
                max_frame_bytes,
                dst,
                dst_stride,
                statuses,
                scratch,
            };
            args.push(head.as_bytes());
        }
    }
    args.push(own);
    args.push(tail.as_bytes());
    Ok(args)
}

#[cfg(test)]
#[allow(unsafe_code, reason = "addresses that are never dereferenced")]
mod tests {
    use super::*;
    use crate::prepared::Prepared;
    use gridz_codecs::types::Array;
    use gridz_cuda::DeviceSlice;

    gridz_codecs::kernel_struct! {
        /// Arguments of two words.
        struct Own, size 16 {
            bound: u64,
            other: u64,
        }
    }

    #[test]
    fn kernels_find_the_arguments() {
        let slice = |address: usize| {
            // SAFETY: the address is never dereferenced.
            unsafe { DeviceSlice::from_raw(std::ptr::without_provenance(address), 0) }
        };
        let memory = LaunchMemory {
            arrays: slice(1),
            array_stride: 2,
            frames: slice(3),
            frame_stride: 4,
            slot_bytes: 5,
            frame_bytes: slice(6),
            statuses: Some(slice(7)),
        };
        let template = HeaderTemplate::new(&Prepared::stored(&Array::bytes(3).unwrap()).header());
        let tail = Tail { n_chunks: 9, flags: 10, encoded: template, stored: template };
        let own = Own { bound: 0x1122_3344, other: 7 };
        for (direction, head, size) in [
            (Direction::Compress, &[1, 2, 3, 4, 6, 8, 11][..], 2224),
            (Direction::Decompress, &[3, 4, 6, 5, 1, 2, 7, 8], 2232),
        ] {
            let args = arguments(direction, &memory, 8, 11, own.as_bytes(), &tail).unwrap();
            assert_eq!(args.bytes().len(), size + size_of::<Own>());
            let word = |i: usize| u64::from_le_bytes(args.bytes()[8 * i..][..8].try_into().unwrap());
            let n = head.len();
            assert_eq!((0..n).map(word).collect::<Vec<_>>(), head);
            assert_eq!([word(n), word(n + 1), word(n + 2)], [0x1122_3344, 7, 9 | 10 << 32]);
            assert_eq!(args.bytes()[8 * (n + 3)..][..1080], *template.as_bytes());
        }
    }
}
