/* Codes bytes with the Huffman codes of zstd, "huff0", block by block as zstd codes literals. Only
 * used as a peer by bench_huffman.py. zstd's public interface does not have these functions, but
 * its static library does (in Debian's libzstd-dev). They are declared here as in lib/common/huf.h
 * of the versions below.
 *
 * Output: for each block its size, a u32, and its bytes. If the size equals the block's, the bytes
 * are stored; one byte means that all are equal to it; otherwise a code table and four streams
 * follow.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zstd.h>

#if ZSTD_VERSION_NUMBER < 10504 || ZSTD_VERSION_NUMBER > 10507
#error "these functions are declared as in zstd 1.5.4 to 1.5.7 only"
#endif

size_t HUF_compressBound(size_t size);
unsigned HUF_isError(size_t code);
size_t HUF_compress4X_repeat(void *dst, size_t capacity, const void *src, size_t size, unsigned max_symbol,
                             unsigned longest_code, void *work, size_t work_size, size_t *table, int *repeat, int flags);
size_t HUF_decompress4X_hufOnly_wksp(uint32_t *table, void *dst, size_t size, const void *src, size_t src_size, void *work,
                                     size_t work_size, int flags);

/* zstd's constants: the largest block, the longest code of literals, and the longest code that its
 * decoder supports. */
enum { BLOCK = 128 << 10, LONGEST = 11, LONGEST_READ = 12 };

static int flags(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("bmi2") != 0;
#else
    return 0;
#endif
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

const char *huff0_version(void)
{
    return ZSTD_versionString();
}

size_t huff0_bound(size_t plane_bytes, size_t planes)
{
    const size_t blocks = plane_bytes / BLOCK + 1;
    return planes * (plane_bytes + blocks * sizeof(uint32_t)) + HUF_compressBound(BLOCK);
}

/* Returns the bytes written to dst, which has room for the bound. No block extends past the end of
 * a plane. */
size_t huff0_compress(const uint8_t *src, size_t plane_bytes, size_t planes, uint8_t *dst)
{
    static uint64_t work[2048]; /* zstd needs 8.5 KB */
    const uint8_t *const begin = dst;
    const int with = flags();
    for (; planes > 0; planes--) {
        for (size_t left = plane_bytes; left > 0;) {
            const size_t n = at_most(left, BLOCK), room = HUF_compressBound(n);
            size_t size = HUF_compress4X_repeat(dst + 4, room, src, n, 255, LONGEST, work, sizeof work, NULL, NULL, with);
            if (HUF_isError(size) || size == 0 || size >= n) {
                size = n;
                memcpy(dst + 4, src, n);
            }
            const uint32_t head = (uint32_t)size;
            memcpy(dst, &head, 4);
            dst += 4 + size;
            src += n;
            left -= n;
        }
    }
    return (size_t)(dst - begin);
}

/* Returns 0 on success. */
int huff0_decompress(const uint8_t *src, size_t plane_bytes, size_t planes, uint8_t *dst)
{
    static uint64_t work[1024]; /* zstd needs 2.5 KB */
    static uint32_t table[1 + (1 << LONGEST_READ)];
    const int with = flags();
    table[0] = LONGEST_READ * 0x01000001U;
    for (; planes > 0; planes--) {
        for (size_t left = plane_bytes; left > 0;) {
            const size_t n = at_most(left, BLOCK);
            uint32_t size;
            memcpy(&size, src, 4);
            src += 4;
            if (size == n)
                memcpy(dst, src, n);
            else if (size == 1)
                memset(dst, *src, n);
            else if (HUF_decompress4X_hufOnly_wksp(table, dst, n, src, size, work, sizeof work, with) != n)
                return 1;
            src += size;
            dst += n;
            left -= n;
        }
    }
    return 0;
}
