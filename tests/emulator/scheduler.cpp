// Runs the threads of a CTA one after another: see cuda.h. x86-64 only.
//
// GRIDZ_EMULATOR_ORDER=backward runs CTAs, warps and lanes in reverse order. GRIDZ_EMULATOR_FILL=n
// is the initial byte of shared memory (205). emulator_change() changes memory while kernels run.

#include "cuda.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#define ASAN_POISON_MEMORY_REGION(begin, n)
#define ASAN_UNPOISON_MEMORY_REGION(begin, n)
#endif

Dimensions threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

constexpr u32 kMaxThreads = 1024, kMaxShared = 228 << 10, kNamedBarriers = 16;
constexpr std::size_t kStackBytes = IS_SANITIZED ? 512 << 10 : 128 << 10;
// Number of rounds without progress after which a launch is a deadlock.
constexpr u32 kPatience = 10000;

alignas(4096) unsigned char dynamic_shared[kMaxShared + 4096];

// Saves the callee-saved registers and the stack pointer in *from, and continues with those of
// `to`.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.text
.type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch, . - emulator_switch
)");

struct Copy {
    u32 shared;
    const void* global;
    u32 n_bytes;
};

struct Fiber {
    void* stack;
    bool is_done;
    std::vector<Copy> copies;
};

// Lanes of a warp that exchange values, identified by their mask. The rounds of two lanes never
// differ by more than one.
struct Group {
    u32 mask, arrived, round;
    const char* function;
    u64 slots[2][kLanes];
};

struct Barrier {
    u32 n_arrived, round;
    bool any, result;
};

using Kernel = void (*)(const void*);

static Fiber fibers[kMaxThreads];
static std::vector<Group> groups[kMaxThreads / kLanes];
static Barrier barriers[kNamedBarriers];
static void* scheduler;
static Kernel kernel;
static const void* arguments;
static u32 n_running;
static bool has_progressed;

void fail(const char* what) {
    std::fprintf(stderr, "emulator: %s (thread %u of %u, CTA %u of %u)\n", what, threadIdx.x, blockDim.x, blockIdx.x, gridDim.x);
    std::abort();
}

// Memory that changes while kernels read it: occasionally, a part of it is overwritten from one of
// its variants, which are stored one after another.
struct Changing {
    unsigned char* memory;
    const unsigned char* variants;
    std::size_t n_bytes;
    u32 n_variants;
    u64 state;  // of a random number generator
    u64 n_changes;
};
static Changing changing;

static void change_some() {
    constexpr u64 kSeldom = 16;
    Changing& c = changing;
    if (c.n_bytes == 0) return;
    const auto random = [&] { return c.state ^= c.state << 13, c.state ^= c.state >> 7, c.state ^= c.state << 17, c.state >> 11; };
    if (random() % kSeldom != 0) return;
    // A few bytes are as likely as nearly all.
    const std::size_t first = random() % c.n_bytes, most = c.n_bytes >> random() % 20, n = random() % (most + 1);
    const std::size_t n_here = n < c.n_bytes - first ? n : c.n_bytes - first;
    std::memcpy(c.memory + first, c.variants + random() % c.n_variants * c.n_bytes + first, n_here);
    ++c.n_changes;
}

void yield() { emulator_switch(&fibers[threadIdx.x].stack, scheduler); }
void note_progress() { has_progressed = true; }

void copy_later(u32 to, const void* from, u32 n_bytes) {
    if (to % n_bytes != 0 || reinterpret_cast<std::uintptr_t>(from) % n_bytes != 0) fail("a misaligned copy");
    fibers[threadIdx.x].copies.push_back({to, from, n_bytes});
}
void copy_now() {
    for (const Copy& copy : fibers[threadIdx.x].copies) std::memcpy(&shared<unsigned char>(copy.shared), copy.global, copy.n_bytes);
    fibers[threadIdx.x].copies.clear();
}

static bool is_open(Barrier& barrier, u32 n_threads) {
    if (barrier.n_arrived < n_threads) return false;
    barrier.n_arrived = 0, ++barrier.round, barrier.result = barrier.any, barrier.any = false;
    return true;
}
static bool meet(u32 id, u32 n_threads, bool condition) {
    if (id >= kNamedBarriers || n_threads % kLanes != 0) fail("a barrier that does not exist");
    Barrier& barrier = barriers[id];
    const u32 round = barrier.round;
    ++barrier.n_arrived, barrier.any |= condition;
    // A barrier of all threads waits only for those that are still running.
    const bool is_of_all = n_threads == blockDim.x;
    wait_until([&] { return barrier.round != round || is_open(barrier, is_of_all ? n_running : n_threads); });
    return barrier.result;
}
void barrier(u32 id, u32 n_threads) { meet(id, n_threads, false); }
bool barrier_any(bool condition) { return meet(0, blockDim.x, condition); }

const u64* exchange(u32 mask, u64 own, const char* function) {
    std::vector<Group>& of_warp = groups[threadIdx.x / kLanes];
    std::size_t i = 0;
    while (i < of_warp.size() && of_warp[i].mask != mask) ++i;
    if (i == of_warp.size()) of_warp.push_back({mask, 0, 0, nullptr, {}});
    Group* group = &of_warp[i];
    const u32 lane = threadIdx.x % kLanes, round = group->round;
    if (!(mask >> lane & 1)) fail("a lane that is not in its mask");
    if (group->arrived != 0 && group->function != function) fail("lanes of a warp meet in different functions");
    group->function = function;
    group->slots[round & 1][lane] = own;
    group->arrived |= 1u << lane;
    if (group->arrived == mask) {
        group->arrived = 0, ++group->round;
        note_progress();
    } else {
        wait_until([&] { return groups[threadIdx.x / kLanes][i].round != round; });
    }
    return groups[threadIdx.x / kLanes][i].slots[round & 1];
}

static void run_fiber() {
    kernel(arguments);
    copy_now();
    Fiber& fiber = fibers[threadIdx.x];
    fiber.is_done = true;
    --n_running;
    note_progress();
    yield();
    fail("a thread continues after its end");
}

static void start(u32 thread, unsigned char* stacks) {
    void** top = reinterpret_cast<void**>(stacks + (thread + 1) * kStackBytes);
    // The stack as after a call: six registers, the address to jump to, and a null return address.
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(run_fiber);
    for (u32 i = 0; i < 6; ++i) *--top = nullptr;
    fibers[thread].stack = top;
    fibers[thread].is_done = false;
    fibers[thread].copies.clear();
}

static u32 number(const char* name, u32 otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? static_cast<u32>(std::atoi(value)) : otherwise;
}

// Runs the lanes of a warp until none makes progress.
static bool run_warp(u32 warp, bool is_backward) {
    bool has_run = false;
    do {
        has_progressed = false;
        for (u32 i = 0; i < kLanes; ++i) {
            const u32 thread = warp * kLanes + (is_backward ? kLanes - 1 - i : i);
            if (fibers[thread].is_done) continue;
            threadIdx.x = thread;
            change_some();
            emulator_switch(&scheduler, fibers[thread].stack);
        }
        has_run |= has_progressed;
    } while (has_progressed);
    return has_run;
}

static void run_cta(unsigned char* stacks, u32 n_shared, bool is_backward, u32 fill) {
    ASAN_UNPOISON_MEMORY_REGION(dynamic_shared, sizeof dynamic_shared);
    std::memset(dynamic_shared, static_cast<int>(fill), n_shared);
    ASAN_POISON_MEMORY_REGION(dynamic_shared + n_shared, sizeof dynamic_shared - n_shared);
    const u32 n_warps = blockDim.x / kLanes;
    for (u32 thread = 0; thread < blockDim.x; ++thread) start(thread, stacks);
    for (u32 warp = 0; warp < n_warps; ++warp) groups[warp].clear();
    for (Barrier& barrier : barriers) barrier = {};
    n_running = blockDim.x;
    for (u32 vain = 0; n_running != 0; ++vain) {
        if (vain == kPatience) fail("threads wait forever");
        for (u32 i = 0; i < n_warps; ++i) {
            if (run_warp(is_backward ? n_warps - 1 - i : i, is_backward)) vain = 0;
        }
    }
}

}  // namespace emulator

// From now on, memory changes while kernels of this library run; a call with n_bytes 0 ends that.
// Returns the number of changes since the previous call.
extern "C" unsigned long long emulator_change(void* memory, const void* variants, std::size_t n_bytes, unsigned n_variants, unsigned long long seed) {
    using namespace emulator;
    const u64 n_changes = changing.n_changes;
    changing = {static_cast<unsigned char*>(memory), static_cast<const unsigned char*>(variants), n_bytes, n_variants, seed | 1, 0};
    return n_changes;
}

// Runs a kernel, like cuLaunchKernel. Only one thread of the process may call this at a time.
extern "C" void emulator_launch(emulator::Kernel kernel, unsigned n_ctas, unsigned n_threads, unsigned n_shared, const void* arguments) {
    using namespace emulator;
    static unsigned char* const stacks =
        static_cast<unsigned char*>(mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (stacks == MAP_FAILED || n_threads > kMaxThreads || n_threads % kLanes != 0 || n_shared > kMaxShared) fail("an impossible launch configuration");
    // GPUs round to nearest and support subnormal numbers, whatever the caller's settings are.
    std::fenv_t of_caller;
    std::feholdexcept(&of_caller);
    std::fesetenv(FE_DFL_ENV);
    emulator::kernel = kernel, emulator::arguments = arguments;
    const char* order = std::getenv("GRIDZ_EMULATOR_ORDER");
    const bool is_backward = order != nullptr && std::strcmp(order, "backward") == 0;
    const u32 fill = number("GRIDZ_EMULATOR_FILL", 0xcd);
    blockDim.x = n_threads, gridDim.x = n_ctas;
    for (u32 i = 0; i < n_ctas; ++i) {
        blockIdx.x = is_backward ? n_ctas - 1 - i : i;
        run_cta(stacks, n_shared, is_backward, fill);
    }
    std::fesetenv(&of_caller);
}
