/* FPC, a lossless compressor of float64, written from its description: M. Burtscher, P.
 * Ratanaworabhan, "FPC: A High-Speed Compressor for Double-Precision Floating-Point Data", IEEE
 * Transactions on Computers 58 (2009). Only used as a peer by bench_lossless.py.
 *
 * Two predictors look up each value in a table: one table has values, indexed by a hash of the
 * previous values; the other has differences, indexed by a hash of the previous differences. The
 * better guess is XORed with the value. The remainder is stored without its leading zero bytes. A
 * half byte identifies the predictor and the number of zero bytes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The logarithm of the number of entries of each table: the middle of the range in the paper. */
enum { LOG_ENTRIES = 16 };

struct predictors {
    uint64_t *values, *differences;
    size_t value_hash, difference_hash;
    uint64_t last;
};

static int begin(struct predictors *p)
{
    memset(p, 0, sizeof *p);
    p->values = calloc(2, sizeof(uint64_t) << LOG_ENTRIES);
    p->differences = p->values + ((size_t)1 << LOG_ENTRIES);
    return p->values != NULL;
}

static void guess(const struct predictors *p, uint64_t guesses[2])
{
    guesses[0] = p->values[p->value_hash];
    guesses[1] = p->differences[p->difference_hash] + p->last;
}

static void learn(struct predictors *p, uint64_t value)
{
    const size_t mask = ((size_t)1 << LOG_ENTRIES) - 1;
    const uint64_t difference = value - p->last;
    p->values[p->value_hash] = value;
    p->value_hash = ((p->value_hash << 6) ^ (size_t)(value >> 48)) & mask;
    p->differences[p->difference_hash] = difference;
    p->difference_hash = ((p->difference_hash << 2) ^ (size_t)(difference >> 40)) & mask;
    p->last = value;
}

/* Returns the compressed bytes, at most n / 2 + 1 + 8 n; 0 if out of memory. */
size_t fpc_compress(const uint64_t *values, size_t n, uint8_t *out)
{
    struct predictors p;
    uint8_t *rest = out + (n + 1) / 2;
    if (!begin(&p)) return 0;
    memset(out, 0, (n + 1) / 2);
    for (size_t i = 0; i < n; ++i) {
        uint64_t guesses[2];
        guess(&p, guesses);
        const uint64_t left[2] = {values[i] ^ guesses[0], values[i] ^ guesses[1]};
        const unsigned which = left[1] < left[0];
        unsigned zeros = left[which] ? (unsigned)__builtin_clzll(left[which]) / 8 : 8;
        if (zeros == 4) zeros = 3; /* has no code */
        const unsigned code = zeros > 4 ? zeros - 1 : zeros;
        out[i / 2] |= (uint8_t)((which << 3 | code) << 4 * (i % 2));
        memcpy(rest, &left[which], 8);
        rest += 8 - zeros;
        learn(&p, values[i]);
    }
    free(p.values);
    return (size_t)(rest - out);
}

/* Decompresses the output of fpc_compress; 8 more bytes must be readable. Returns 0 if out of
 * memory. */
int fpc_decompress(const uint8_t *bytes, size_t n, uint64_t *values)
{
    struct predictors p;
    const uint8_t *rest = bytes + (n + 1) / 2;
    if (!begin(&p)) return 0;
    for (size_t i = 0; i < n; ++i) {
        uint64_t guesses[2], left = 0;
        guess(&p, guesses);
        const unsigned half = bytes[i / 2] >> 4 * (i % 2) & 15, code = half & 7;
        const unsigned n_bytes = 8 - (code > 3 ? code + 1 : code);
        memcpy(&left, rest, 8);
        left = n_bytes < 8 ? left & (((uint64_t)1 << 8 * n_bytes) - 1) : left;
        rest += n_bytes;
        values[i] = left ^ guesses[half >> 3];
        learn(&p, values[i]);
    }
    free(p.values);
    return 1;
}
