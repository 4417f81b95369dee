// Entry points of the huffman kernels, and their launch parameters.

#include "choose.cuh"
#include "decompress.cuh"
#include "write.cuh"

// Defines the kernels for one element size. Their names end with `name`.
#define HUFFMAN(name, Type)                                                                                                                         \
    extern "C" __global__ void __launch_bounds__(kChooseThreads, 8) huffman_choose_##name(const __grid_constant__ CompressArgs<Flat> args) {     \
        huffman_choose<Type>(args);                                                                                                                 \
    }                                                                                                                                               \
    extern "C" __device__ const LaunchInfo huffman_choose_##name##_info = huffman_launch<Type>(kChooseThreads, sizeof(ChooseShared<Type>), 0);      \
    extern "C" __global__ void __launch_bounds__(kWriteThreads, 16) huffman_write_##name(const __grid_constant__ CompressArgs<Flat> args) {      \
        huffman_write<Type>(args);                                                                                                                  \
    }                                                                                                                                               \
    extern "C" __device__ const LaunchInfo huffman_write_##name##_info = huffman_launch<Type>(kWriteThreads, sizeof(WriteShared<Type>), 0);         \
    extern "C" __global__ void __launch_bounds__(kPlaceThreads, 4) huffman_place_##name(const __grid_constant__ CompressArgs<Flat> args) {       \
        huffman_place<Type>(args);                                                                                                                  \
    }                                                                                                                                               \
    extern "C" __device__ const LaunchInfo huffman_place_##name##_info = huffman_launch<Type>(kPlaceThreads, sizeof(PlaceShared), 1);               \
    extern "C" __global__ void __launch_bounds__(kHuffmanThreads, kHuffmanCtas) huffman_decompress_##name(const __grid_constant__ DecompressArgs<Flat> args) { \
        huffman_decompress<Type>(args);                                                                                                             \
    }                                                                                                                                               \
    extern "C" __device__ const LaunchInfo huffman_decompress_##name##_info = kHuffmanDecompressInfo<Type>;                                         \
    extern "C" __global__ void __launch_bounds__(kHuffmanThreads, 10) huffman_region_##name(const __grid_constant__ RegionArgs<Flat> args) {         \
        huffman_decompress_region<Type>(args);                                                                                                      \
    }                                                                                                                                               \
    extern "C" __device__ const LaunchInfo huffman_region_##name##_info = kHuffmanDecompressInfo<Type>;

HUFFMAN(u8, unsigned char)
HUFFMAN(u16, unsigned short)
HUFFMAN(u32, u32)
