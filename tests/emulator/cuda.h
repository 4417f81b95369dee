// Features of CUDA C++ that C++ lacks, for kernels that are compiled for a CPU.
//
// One CTA runs at a time, and its threads are fibers of one CPU thread. Each fiber runs until it
// waits for other threads: at a barrier, where lanes of a warp exchange values, or where it polls
// memory. So nothing runs concurrently, and atomic operations are plain ones here.
//
// The emulator cannot show effects of the order of memory accesses, and it does not run code for
// architectures other than __CUDA_ARCH__. It shows better than a GPU: accesses out of bounds (by a
// sanitizer, in shared memory, too), memory read before it is written (it is filled with garbage),
// lanes that meet in different functions, and deadlocks.
//
// `translate.py` translates PTX, shared memory and parameters; the rest of a kernel's source is
// compiled unchanged.

#pragma once

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __CUDA_ARCH__ 900
#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)

struct Dimensions {
    unsigned x;
};
extern Dimensions threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

namespace emulator {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 kLanes = 32;

[[noreturn]] void fail(const char* what);
// Lets the other threads of the CTA run.
void yield();
// Reports progress: the launch is not a deadlock.
void note_progress();

template <typename Condition>
void wait_until(Condition condition) {
    while (!condition()) yield();
    note_progress();
}

// ---- shared memory: addresses are relative to dynamic_shared ----

extern unsigned char dynamic_shared[];
// Small, since kernels also use addresses in bits.
constexpr u32 kFirstShared = 1u << 24;
inline u32 address_of(const void* p) {
    return static_cast<u32>(static_cast<const unsigned char*>(p) - dynamic_shared + kFirstShared);
}
template <typename T>
T& shared(u32 address) {
    if (address % alignof(T) != 0) fail("a misaligned address in shared memory");
    return *reinterpret_cast<T*>(dynamic_shared + static_cast<std::ptrdiff_t>(static_cast<std::int32_t>(address - kFirstShared)));
}
template <typename T>
T& global(const void* p) {
    if (reinterpret_cast<std::uintptr_t>(p) % alignof(T) != 0) fail("a misaligned address in global memory");
    return *static_cast<T*>(const_cast<void*>(p));
}

// An asynchronous copy is performed when the thread waits for it.
void copy_later(u32 shared, const void* global, u32 n_bytes);
void copy_now();

// ---- barriers ----

void barrier(u32 id, u32 n_threads);
// Barrier of all threads of the CTA; returns true if `condition` is true for any thread.
bool barrier_any(bool condition);

// The 8 bytes of an mbarrier: the number of expected arrivals, of missing arrivals, and the round.
struct MbarrierState {
    std::uint16_t n_expected, n_missing;
    u32 round;
};
inline void init(u32 address, u32 n) {
    shared<MbarrierState>(address) = {static_cast<std::uint16_t>(n), static_cast<std::uint16_t>(n), 0};
}
inline void arrive(u32 address) {
    MbarrierState& gate = shared<MbarrierState>(address);
    if (--gate.n_missing == 0) gate.n_missing = gate.n_expected, ++gate.round;
}
inline u32 wait(u32 address, u32 parity) {
    wait_until([&] { return (shared<MbarrierState>(address).round & 1) != parity; });
    return 1;
}

// ---- exchange between lanes ----

// Passes `own` to the lanes in `mask`, which must call the same `function`; returns their values,
// by lane.
const u64* exchange(u32 mask, u64 own, const char* function);

template <typename T>
u64 to_slot(T value) {
    static_assert(sizeof(T) <= 8);
    u64 slot = 0;
    std::memcpy(&slot, &value, sizeof value);
    return slot;
}
template <typename T>
T from_slot(u64 slot) {
    T value;
    std::memcpy(&value, &slot, sizeof value);
    return value;
}
template <typename T, typename Source>
T shuffle(u32 mask, T value, u32 width, const char* function, Source source) {
    const u64* slots = exchange(mask, to_slot(value), function);
    const u32 lane = threadIdx.x % kLanes, first = lane / width * width, from = source(lane - first);
    // For a source outside the width, the result is the lane's own value.
    return from >= width ? value : from_slot<T>(slots[first + from]);
}
template <typename F>
u32 reduce(u32 mask, u32 value, const char* function, F f) {
    const u64* slots = exchange(mask, value, function);
    bool is_first = true;
    u32 result = 0;
    for (u32 lane = 0; lane < kLanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        result = is_first ? static_cast<u32>(slots[lane]) : f(result, static_cast<u32>(slots[lane]));
        is_first = false;
    }
    return result;
}

// ---- arithmetic of PTX ----

// Index of the highest set bit, or -1.
inline u32 highest_one(u64 v) { return v ? 63 - static_cast<u32>(__builtin_clzll(v)) : ~0u; }
// Selects bytes of a and b by selectors of 4 bits; a selector's top bit replicates the byte's sign.
inline u32 permute(u32 a, u32 b, u32 selectors) {
    const u64 bytes = static_cast<u64>(b) << 32 | a;
    u32 result = 0;
    for (u32 i = 0; i < 4; ++i) {
        const u32 selector = selectors >> 4 * i & 15, byte = bytes >> 8 * (selector & 7) & 255;
        result |= (selector & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
    }
    return result;
}
inline float float_of_half(std::uint16_t bits) {
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    return static_cast<float>(half);
}
inline std::uint16_t half_of_float(float x) {
    const _Float16 half = static_cast<_Float16>(x);
    std::uint16_t bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}
// Appends numbers above `limit` to a list; returns the bit mask of their lanes.
template <typename T>
u32 list_greater(T number, T limit, u32 below, u32 list);

// Evaluates `f` with a non-default rounding mode.
template <typename F>
auto rounded(int mode, F f) {
    std::fesetround(mode);
    volatile auto result = f();
    std::fesetround(FE_TONEAREST);
    return result;
}
// Converts a float to an integer, with saturation.
template <typename T, typename F>
T saturated(F x) {
    constexpr bool is_signed = std::is_signed_v<T>;
    constexpr int bits = 8 * sizeof(T) - is_signed;
    if (x != x) return sizeof(F) == 4 && sizeof(T) == 4 ? 0 : static_cast<T>(1ull << (8 * sizeof(T) - 1));
    if (x >= std::ldexp(F(1), bits)) return static_cast<T>(is_signed ? ~(1ull << bits) & (~0ull >> (63 - bits)) : ~0ull);
    if (x < (is_signed ? -std::ldexp(F(1), bits) : F(0))) return is_signed ? static_cast<T>(1ull << bits) : T(0);
    return static_cast<T>(x);
}

}  // namespace emulator

// ---- CUDA's functions ----

inline void __syncthreads() { emulator::barrier(0, blockDim.x); }
inline int __syncthreads_or(int condition) { return emulator::barrier_any(condition); }
inline int __syncthreads_and(int condition) { return !emulator::barrier_any(!condition); }
inline void __syncwarp(unsigned mask = ~0u) { emulator::exchange(mask, 0, __func__); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) { emulator::yield(); }

template <typename T>
T __shfl_sync(unsigned mask, T value, unsigned from, unsigned width = 32) {
    return emulator::shuffle(mask, value, width, __func__, [=](unsigned) { return from % width; });
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, unsigned width = 32) {
    return emulator::shuffle(mask, value, width, __func__, [=](unsigned lane) { return lane - by; });
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, unsigned width = 32) {
    return emulator::shuffle(mask, value, width, __func__, [=](unsigned lane) { return lane + by; });
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, unsigned with, unsigned width = 32) {
    return emulator::shuffle(mask, value, width, __func__, [=](unsigned lane) { return lane ^ with; });
}
inline unsigned __ballot_sync(unsigned mask, int condition) {
    const emulator::u64* slots = emulator::exchange(mask, condition != 0, __func__);
    unsigned lanes = 0;
    for (unsigned lane = 0; lane < 32; ++lane) lanes |= (mask >> lane & 1 ? static_cast<unsigned>(slots[lane]) : 0) << lane;
    return lanes;
}
inline int __any_sync(unsigned mask, int condition) { return __ballot_sync(mask, condition) != 0; }
inline int __all_sync(unsigned mask, int condition) { return __ballot_sync(mask, condition) == mask; }
template <typename T>
unsigned __match_any_sync(unsigned mask, T value) {
    const emulator::u64* slots = emulator::exchange(mask, emulator::to_slot(value), __func__);
    unsigned lanes = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        lanes |= static_cast<unsigned>((mask >> lane & 1) && slots[lane] == emulator::to_slot(value)) << lane;
    return lanes;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
    return emulator::reduce(mask, value, __func__, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
    return emulator::reduce(mask, value, __func__, [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    return emulator::reduce(mask, value, __func__, [](unsigned a, unsigned b) { return a > b ? a : b; });
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
    return emulator::reduce(mask, value, __func__, [](unsigned a, unsigned b) { return a < b ? a : b; });
}
template <typename T>
unsigned emulator::list_greater(T number, T limit, u32 below, u32 list) {
    const u32 marks = __ballot_sync(~0u, number > limit);
    if (number > limit) shared<T>(list + sizeof(T) * static_cast<u32>(__builtin_popcount(marks & below))) = number;
    return marks;
}

template <typename T, typename U, typename F>
T emulated_atomic(T* p, U value, F f) {
    T& place = emulator::global<T>(p);
    const T before = place;
    place = f(before, static_cast<T>(value));
    return before;
}
template <typename T, typename U>
T atomicAdd(T* p, U value) {
    return emulated_atomic(p, value, [](T a, T b) { return static_cast<T>(a + b); });
}
template <typename T, typename U>
T atomicOr(T* p, U value) {
    return emulated_atomic(p, value, [](T a, T b) { return static_cast<T>(a | b); });
}
template <typename T, typename U>
T atomicMax(T* p, U value) {
    return emulated_atomic(p, value, [](T a, T b) { return a > b ? a : b; });
}
template <typename T, typename U>
T atomicMin(T* p, U value) {
    return emulated_atomic(p, value, [](T a, T b) { return a < b ? a : b; });
}
template <typename T, typename U>
T atomicCAS(T* p, U expected, U value) {
    return emulated_atomic(p, value, [=](T a, T b) { return a == static_cast<T>(expected) ? b : a; });
}
template <typename T>
T __ldg(const T* p) {
    return emulator::global<const T>(p);
}
template <typename T>
T __ldcs(const T* p) {
    return emulator::global<const T>(p);
}
template <typename T>
void __stcs(T* p, T value) {
    emulator::global<T>(p) = value;
}
inline std::size_t __cvta_generic_to_shared(const void* p) { return emulator::address_of(p); }

template <typename A, typename B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline unsigned __brev(unsigned v) {
    unsigned reversed = 0;
    for (unsigned i = 0; i < 32; ++i) reversed |= (v >> i & 1) << (31 - i);
    return reversed;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selectors) { return emulator::permute(a, b, selectors & 0x7777); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return static_cast<unsigned>(((static_cast<emulator::u64>(high) << 32 | low) << (by & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return static_cast<unsigned>((static_cast<emulator::u64>(high) << 32 | low) >> (by & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by);
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<emulator::u64>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (unsigned i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
    return c;
}
inline int __dp4a(int a, int b, int c) {
    for (unsigned i = 0; i < 32; i += 8) c += static_cast<std::int8_t>(a >> i) * static_cast<std::int8_t>(b >> i);
    return c;
}
inline unsigned __vmaxu4(unsigned a, unsigned b) {
    unsigned result = 0;
    for (unsigned i = 0; i < 32; i += 8) result |= max(a >> i & 255, b >> i & 255) << i;
    return result;
}

inline float __uint_as_float(unsigned v) { return emulator::from_slot<float>(v); }
inline unsigned __float_as_uint(float x) { return static_cast<unsigned>(emulator::to_slot(x)); }
inline double __longlong_as_double(long long v) { return emulator::from_slot<double>(static_cast<emulator::u64>(v)); }
inline long long __double_as_longlong(double x) { return static_cast<long long>(emulator::to_slot(x)); }

inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline double __dsub_rd(volatile double a, volatile double b) {
    return emulator::rounded(FE_DOWNWARD, [&] { return a - b; });
}
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __double2float_rd(volatile double x) {
    return emulator::rounded(FE_DOWNWARD, [&] { return static_cast<float>(x); });
}
inline float __double2float_rz(volatile double x) {
    return emulator::rounded(FE_TOWARDZERO, [&] { return static_cast<float>(x); });
}
inline double __ll2double_rn(long long v) { return static_cast<double>(v); }
inline double __ull2double_rn(unsigned long long v) { return static_cast<double>(v); }
inline double __ull2double_rd(unsigned long long v) {
    // Round to nearest; if that is above v, take the next number below.
    const double nearest = static_cast<double>(v);
    const bool is_above = nearest >= 0x1p64 || static_cast<unsigned long long>(nearest) > v;
    return is_above ? std::nextafter(nearest, 0.0) : nearest;
}
inline double __int2double_rn(int v) { return v; }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
inline float __uint2float_rz(volatile unsigned v) {
    return emulator::rounded(FE_TOWARDZERO, [&] { return static_cast<float>(v); });
}
inline float __ull2float_rz(volatile unsigned long long v) {
    return emulator::rounded(FE_TOWARDZERO, [&] { return static_cast<float>(v); });
}
inline unsigned long long __double2ull_rz(double x) { return emulator::saturated<unsigned long long>(x); }
inline long long __double2ll_rz(double x) { return emulator::saturated<long long>(x); }
inline int __double2int_rn(double x) { return emulator::saturated<int>(std::rint(x)); }
inline unsigned __float2uint_rz(float x) { return emulator::saturated<unsigned>(x); }
inline int __float2int_rz(float x) { return emulator::saturated<int>(x); }
inline int __float2int_rn(float x) { return emulator::saturated<int>(std::rint(x)); }
