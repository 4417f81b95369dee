// Entry points of the kernels of huffman, and how to launch them.

#include "decompress.cuh"

// By the bits of an element.
#define HUFFMAN(name, Type)                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(kHuffmanThreads) huffman_decompress_##name(const __grid_constant__ DecompressArgs<Numbers> args) { \
        huffman_decompress<Type>(args);                                                                                                        \
    }                                                                                                                                          \
    extern "C" __device__ const LaunchInfo huffman_decompress_##name##_info = kHuffmanDecompressInfo<Type>;                                     \
    extern "C" __global__ void __launch_bounds__(kHuffmanThreads) huffman_region_##name(const __grid_constant__ RegionArgs<Numbers> args) {       \
        huffman_decompress_region<Type>(args);                                                                                                 \
    }                                                                                                                                          \
    extern "C" __device__ const LaunchInfo huffman_region_##name##_info = kHuffmanDecompressInfo<Type>;

HUFFMAN(u8, unsigned char)
HUFFMAN(u16, unsigned short)
HUFFMAN(u32, u32)
