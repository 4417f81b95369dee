/* The float datasets of an HDF5 file, written and read through several filters:
 *
 *     compare FILE.h5 PICTURE.svg
 *
 * prints one row per filter: how many times smaller the data becomes, the speeds of H5Dwrite and H5Dread
 * with the filter, to an HDF5 file in memory, and the largest error.  Every value is checked: a filter
 * without loss must return every bit, and a bounded one must keep its bound.  Otherwise the exit status is 1.
 *
 * Reads the first 32 MB of each dataset of at least 64 kB, up to 128 MB in total.  Their chunks are
 * those of the file, or about 256 kB if it has none.  The bound is 1/1000 of a dataset's range.
 *
 * PICTURE.svg shows a plane of the first dataset that has two axes, and the bounded codecs' results.
 * Nothing of gridz is linked; the numbers given to H5Pset_filter are those that the command
 * `gridz cd-values` prints.
 */
#include <hdf5.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GRIDZ = 34013, BLOSC2 = 32026, LEAST_BYTES = 64 * 1000, MOST_BYTES = 32 * 1000 * 1000, MOST_IN_ALL = 128 * 1000 * 1000, SHOWN = 256 };
#define RELATIVE 1e-3

/* ---- failures ------------------------------------------------------------------------------------ */

static void fail(const char *what)
{
    fprintf(stderr, "compare: %s failed\n", what);
    exit(1);
}

/* HDF5 has already printed its error stack. */
static hid_t check(hid_t result, const char *what)
{
    if (result < 0)
        fail(what);
    return result;
}

static void *allocate(size_t n_bytes)
{
    void *memory = malloc(n_bytes > 0 ? n_bytes : 1);
    if (memory == NULL)
        fail("allocation");
    return memory;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the data ------------------------------------------------------------------------------------ */

typedef struct {
    char *path;
    int rank;
    hsize_t extents[H5S_MAX_RANK]; /* of the part that is taken */
    size_t n, element;             /* number of elements, and bytes of one: 4 or 8 */
    hid_t type, properties;        /* native type; properties without filters */
    void *values;
    double bound, range; /* absolute bound */
} field;

static double value_of(const field *f, const void *values, size_t i)
{
    return f->element == 4 ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

/* The properties of `dataset` with its chunks and its fill value, without filters. */
static hid_t properties_of(hid_t dataset, const field *f)
{
    hsize_t chunk[H5S_MAX_RANK];
    hid_t properties = check(H5Dget_create_plist(dataset), "H5Dget_create_plist");
    if (H5Pget_layout(properties) != H5D_CHUNKED) {
        size_t room = 65536; /* elements */
        for (int axis = f->rank - 1; axis >= 0; axis--) {
            hsize_t most = f->rank > 2 ? 64 : f->rank == 2 ? 256 : 65536;
            most = most < room ? most : room;
            chunk[axis] = f->extents[axis] < most ? f->extents[axis] : most;
            room = room / chunk[axis] > 0 ? room / chunk[axis] : 1;
        }
        hid_t chunked = check(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
        H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
        check(H5Pfill_value_defined(properties, &defined), "H5Pfill_value_defined");
        if (defined == H5D_FILL_VALUE_USER_DEFINED) {
            double fill;
            check(H5Pget_fill_value(properties, H5T_NATIVE_DOUBLE, &fill), "H5Pget_fill_value");
            check(H5Pset_fill_value(chunked, H5T_NATIVE_DOUBLE, &fill), "H5Pset_fill_value");
        }
        H5Pclose(properties);
        properties = chunked;
        check(H5Pset_chunk(properties, f->rank, chunk), "H5Pset_chunk");
    } else {
        check(H5Premove_filter(properties, H5Z_FILTER_ALL), "H5Premove_filter");
    }
    return properties;
}

/* True if an element counts for the range and the bound: a number, and not the dataset's fill value. */
static bool counts(double value, bool has_fill, double fill)
{
    return isfinite(value) && !(has_fill && value == fill);
}

/* Reads the first part of a dataset.  Returns false if the dataset is not compared. */
static bool load(hid_t file, const char *path, size_t room, field *f)
{
    memset(f, 0, sizeof *f);
    hid_t dataset = check(H5Dopen2(file, path, H5P_DEFAULT), "H5Dopen2");
    hid_t type = check(H5Dget_type(dataset), "H5Dget_type"), space = check(H5Dget_space(dataset), "H5Dget_space");
    f->rank = H5Sget_simple_extent_type(space) == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space) : 0;
    f->element = H5Tget_size(type);
    bool taken = H5Tget_class(type) == H5T_FLOAT && (f->element == 4 || f->element == 8) && f->rank > 0;
    if (taken) {
        check(H5Sget_simple_extent_dims(space, f->extents, NULL), "H5Sget_simple_extent_dims");
        size_t bytes = f->element;
        for (int axis = 0; axis < f->rank; axis++)
            bytes *= f->extents[axis];
        const size_t most = room < MOST_BYTES ? room : MOST_BYTES;
        for (int axis = 0; axis < f->rank && bytes > most; axis++) {
            const size_t rest = bytes / f->extents[axis];
            f->extents[axis] = most / rest > 0 ? most / rest : 1;
            bytes = rest * f->extents[axis];
        }
        f->n = bytes / f->element;
        taken = f->n * f->element >= LEAST_BYTES;
    }
    if (taken) {
        const hsize_t start[H5S_MAX_RANK] = {0};
        f->type = f->element == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
        f->values = allocate(f->n * f->element);
        check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, f->extents, NULL), "H5Sselect_hyperslab");
        hid_t memory = check(H5Screate_simple(f->rank, f->extents, NULL), "H5Screate_simple");
        check(H5Dread(dataset, f->type, memory, space, H5P_DEFAULT, f->values), "H5Dread");
        H5Sclose(memory);
        f->path = allocate(strlen(path) + 1);
        strcpy(f->path, path);
        f->properties = properties_of(dataset, f);
        H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
        double fill = 0, least = INFINITY, most = -INFINITY;
        H5Pfill_value_defined(f->properties, &defined);
        if (defined == H5D_FILL_VALUE_USER_DEFINED)
            check(H5Pget_fill_value(f->properties, H5T_NATIVE_DOUBLE, &fill), "H5Pget_fill_value");
        for (size_t i = 0; i < f->n; i++) {
            const double value = value_of(f, f->values, i);
            if (counts(value, defined == H5D_FILL_VALUE_USER_DEFINED, fill))
                least = value < least ? value : least, most = value > most ? value : most;
        }
        f->range = most - least;
        f->bound = RELATIVE * f->range;
        if (!(f->range > 0 && isfinite(f->range))) { /* constant, or nothing but NaN */
            free(f->values), free(f->path), H5Pclose(f->properties);
            taken = false;
        }
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    return taken;
}

/* ---- filters ------------------------------------------------------------------------------------- */

typedef enum { GZIP, BLOSC2_ZSTD, LORENZO, QUANT, MULTIGRID, FILTERS } filter;

static const char *const names[FILTERS] = {
    "gzip 4 with shuffle", "Blosc2, zstd 3", "gridz lorenzo", "gridz quant, 1e-3 of range", "gridz multigrid, 1e-3 of range",
};

static bool is_bounded(filter kind)
{
    return kind == QUANT || kind == MULTIGRID;
}

static bool is_available(filter kind)
{
    const H5Z_filter_t id = kind == GZIP ? H5Z_FILTER_DEFLATE : kind == BLOSC2_ZSTD ? BLOSC2 : GRIDZ;
    htri_t found;
    H5E_BEGIN_TRY { found = H5Zfilter_avail(id); } H5E_END_TRY
    return found > 0;
}

/* The creation properties of `f` with a filter. */
static hid_t filtered(const field *f, filter kind)
{
    hid_t properties = check(H5Pcopy(f->properties), "H5Pcopy");
    /* Codec, mode (0 is lossless, 1 an absolute bound), and the bound as two words of a float64. */
    unsigned words[7] = {kind == LORENZO ? 2 : kind == QUANT ? 3 : 5, 1, 0, 0};
    uint64_t bits;
    memcpy(&bits, &f->bound, sizeof bits);
    switch (kind) {
    case GZIP:
        check(H5Pset_shuffle(properties), "H5Pset_shuffle");
        check(H5Pset_deflate(properties, 4), "H5Pset_deflate");
        break;
    case BLOSC2_ZSTD: /* 3 of 9, with byte shuffle, zstd */
        memset(words, 0, sizeof words);
        words[4] = 3, words[5] = 1, words[6] = 5;
        check(H5Pset_filter(properties, BLOSC2, H5Z_FLAG_MANDATORY, 7, words), "H5Pset_filter of Blosc2");
        break;
    case LORENZO:
        check(H5Pset_filter(properties, GRIDZ, H5Z_FLAG_MANDATORY, 1, words), "H5Pset_filter of gridz");
        break;
    default:
        words[2] = (unsigned)bits, words[3] = (unsigned)(bits >> 32);
        check(H5Pset_filter(properties, GRIDZ, H5Z_FLAG_MANDATORY, 4, words), "H5Pset_filter of gridz");
    }
    return properties;
}

typedef struct {
    double stored, write_seconds, read_seconds;
} outcome;

/* Writes and reads a field once; `back` receives its values. */
static outcome once(const field *f, filter kind, void *back)
{
    outcome result;
    hsize_t most[H5S_MAX_RANK];
    for (int axis = 0; axis < f->rank; axis++) /* a chunk may be larger than the part that is taken */
        most[axis] = H5S_UNLIMITED;
    hid_t access = check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
    check(H5Pset_fapl_core(access, MOST_BYTES, false), "H5Pset_fapl_core");
    hid_t file = check(H5Fcreate("in-memory.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access), "H5Fcreate");
    hid_t space = check(H5Screate_simple(f->rank, f->extents, most), "H5Screate_simple");
    hid_t properties = filtered(f, kind);
    hid_t dataset = check(H5Dcreate2(file, "field", f->type, space, H5P_DEFAULT, properties, H5P_DEFAULT), "H5Dcreate2");

    double begin = now();
    check(H5Dwrite(dataset, f->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, f->values), "H5Dwrite");
    check(H5Dclose(dataset), "H5Dclose");
    result.write_seconds = now() - begin;
    dataset = check(H5Dopen2(file, "field", H5P_DEFAULT), "H5Dopen2"); /* with an empty chunk cache */
    result.stored = (double)H5Dget_storage_size(dataset);
    begin = now();
    check(H5Dread(dataset, f->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, back), "H5Dread");
    result.read_seconds = now() - begin;

    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
    H5Pclose(access);
    check(H5Fclose(file), "H5Fclose");
    return result;
}

/* As `once`, with the best times of three; a slow filter runs once. */
static outcome best(const field *f, filter kind, void *back)
{
    outcome result = once(f, kind, back);
    for (int again = 0; again < 2 && result.write_seconds + result.read_seconds < 0.5; again++) {
        const outcome next = once(f, kind, back);
        result.write_seconds = fmin(result.write_seconds, next.write_seconds);
        result.read_seconds = fmin(result.read_seconds, next.read_seconds);
    }
    return result;
}

/* The largest error, or infinity if a filter without loss changed a bit or NaN did not come back. */
static double largest_error(const field *f, filter kind, const void *back)
{
    if (!is_bounded(kind))
        return memcmp(f->values, back, f->n * f->element) == 0 ? 0 : INFINITY;
    double largest = 0;
    for (size_t i = 0; i < f->n; i++) {
        const double a = value_of(f, f->values, i), b = value_of(f, back, i);
        const double error = a == b || (isnan(a) && isnan(b)) ? 0 : fabs(a - b);
        largest = error <= largest ? largest : isnan(error) ? INFINITY : error;
    }
    return largest;
}

/* ---- the picture --------------------------------------------------------------------------------- */

/* A plane of a field: its last two axes, in the middle of the others, at most SHOWN cells long. */
typedef struct {
    size_t height, width, row, first;
} plane;

static plane plane_of(const field *f)
{
    const size_t ny = f->extents[f->rank - 2], nx = f->extents[f->rank - 1];
    plane p = {ny < SHOWN ? ny : SHOWN, nx < SHOWN ? nx : SHOWN, nx, 0};
    size_t stride = ny * nx;
    for (int axis = f->rank - 3; axis >= 0; axis--) {
        /* The last of the slowest axis, which is often time, and the middle of the others. */
        p.first += stride * (axis == 0 && f->rank > 3 ? f->extents[axis] - 1 : f->extents[axis] / 2);
        stride *= f->extents[axis];
    }
    p.first += (ny - p.height) / 2 * nx + (nx - p.width) / 2;
    return p;
}

/* The color at `place` between 0 and 1 of a scale of evenly spaced colors; gray for NaN. */
static void color(unsigned char rgb[3], double place, const unsigned char (*scale)[3], int n)
{
    memset(rgb, 128, 3);
    if (isnan(place))
        return;
    const double at = fmin(fmax(place, 0), 1) * (n - 1);
    const int below = at < n - 1 ? (int)at : n - 2;
    for (int i = 0; i < 3; i++)
        rgb[i] = (unsigned char)(scale[below][i] + (at - below) * (scale[below + 1][i] - scale[below][i]) + 0.5);
}

static const unsigned char values_scale[5][3] = {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
static const unsigned char errors_scale[3][3] = {{33, 102, 172}, {247, 247, 247}, {178, 24, 43}};

static size_t big_endian(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
    return 4;
}

/* Appends a chunk of a PNG file. */
static size_t png_chunk(unsigned char *to, const char *kind, const unsigned char *data, size_t n)
{
    big_endian(to, (uint32_t)n);
    memcpy(to + 4, kind, 4);
    if (n > 0)
        memcpy(to + 8, data, n);
    uint32_t crc = ~0u;
    for (size_t i = 4; i < 8 + n; i++) {
        crc ^= to[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return 8 + n + big_endian(to + 8 + n, ~crc);
}

/* Makes a PNG file of RGB pixels, each row with a zero byte before it; the pixels are not compressed. */
static size_t png(unsigned char *to, const unsigned char *rows, size_t height, size_t width)
{
    const size_t row = 1 + 3 * width, n = height * row;
    unsigned char head[13] = {0}, *body = allocate(n + 5 * (n / 65535 + 1) + 6);
    size_t length = 2, used = 8;
    memcpy(body, "\x78\x01", 2);
    for (size_t done = 0; done < n;) {
        const size_t part = n - done < 65535 ? n - done : 65535;
        body[length++] = done + part == n;
        body[length++] = part & 255, body[length++] = (unsigned char)(part >> 8);
        body[length++] = ~part & 255, body[length++] = (unsigned char)(~part >> 8 & 255);
        memcpy(body + length, rows + done, part);
        length += part, done += part;
    }
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < n; i++)
        a = (a + rows[i]) % 65521, b = (b + a) % 65521;
    length += big_endian(body + length, b << 16 | a);
    memcpy(to, "\x89PNG\r\n\x1a\n", 8);
    big_endian(head, (uint32_t)width), big_endian(head + 4, (uint32_t)height);
    head[8] = 8, head[9] = 2; /* 8 bits each of red, green and blue */
    used += png_chunk(to + used, "IHDR", head, sizeof head);
    used += png_chunk(to + used, "IDAT", body, length);
    used += png_chunk(to + used, "IEND", NULL, 0);
    free(body);
    return used;
}

/* One image of the picture: `values`, or their errors from `original`, which are drawn from -bound to bound. */
static void panel(FILE *out, const field *f, const void *values, const void *original, int column, int row_of, const char *title)
{
    const plane p = plane_of(f);
    const size_t row = 1 + 3 * p.width;
    unsigned char *rows = allocate(p.height * row), *file = allocate(p.height * row + 4096);
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < p.height * p.width; i++) {
        const double value = value_of(f, f->values, p.first + i / p.width * p.row + i % p.width);
        if (isfinite(value))
            least = fmin(least, value), most = fmax(most, value);
    }
    for (size_t y = 0; y < p.height; y++) {
        rows[y * row] = 0;
        for (size_t x = 0; x < p.width; x++) {
            const size_t i = p.first + y * p.row + x;
            unsigned char *pixel = rows + y * row + 1 + 3 * x;
            if (original == NULL)
                color(pixel, (value_of(f, values, i) - least) / (most - least), values_scale, 5);
            else
                color(pixel, 0.5 + (value_of(f, values, i) - value_of(f, original, i)) / (2 * f->bound), errors_scale, 3);
        }
    }
    const size_t n = png(file, rows, p.height, p.width);
    const int left = 20 + column * (SHOWN + 20), top = 70 + row_of * (SHOWN + 40);
    fprintf(out, "<text x=\"%d\" y=\"%d\">%s</text>\n", left, top - 8, title);
    fprintf(out, "<image x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" preserveAspectRatio=\"xMidYMid\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64,", left, top, SHOWN, SHOWN);
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t three = (uint32_t)file[i] << 16 | (i + 1 < n ? (uint32_t)file[i + 1] << 8 : 0) | (i + 2 < n ? file[i + 2] : 0);
        fprintf(out, "%c%c%c%c", digits[three >> 18], digits[three >> 12 & 63], i + 1 < n ? digits[three >> 6 & 63] : '=', i + 2 < n ? digits[three & 63] : '=');
    }
    fprintf(out, "\"/>\n");
    free(rows), free(file);
}

/* Writes text to an XML document. */
static void escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        if (strchr("&<>", *text) != NULL)
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
}

static void picture(const char *path, const field *f, void *back)
{
    FILE *out = fopen(path, "w");
    if (out == NULL)
        fail("opening the picture");
    char title[200];
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"13\">\n"
                 "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"20\" y=\"28\" font-size=\"16\">A plane of ",
            3 * (SHOWN + 20) + 20, 70 + 2 * (SHOWN + 40));
    escaped(out, f->path);
    fprintf(out, "</text>\n");
    panel(out, f, f->values, NULL, 0, 0, "original");
    for (filter kind = QUANT; kind <= MULTIGRID; kind++) {
        const outcome result = once(f, kind, back);
        snprintf(title, sizeof title, "%s: %.1f times smaller", kind == QUANT ? "quant" : "multigrid", (double)(f->n * f->element) / result.stored);
        panel(out, f, back, NULL, kind - QUANT + 1, 0, title);
        panel(out, f, back, f->values, kind - QUANT + 1, 1, "errors, within 1/1000 of the range");
    }
    fprintf(out, "</svg>\n");
    if (fclose(out) != 0)
        fail("writing the picture");
}

/* ---- the table ----------------------------------------------------------------------------------- */

typedef struct {
    field *fields;
    size_t n, bytes;
} table;

/* The paths of all datasets.  Collected first, because a program must not exit within a callback of HDF5. */
typedef struct {
    char **paths;
    size_t n;
} list;

static herr_t collect(hid_t root, const char *path, const H5O_info_t *info, void *data)
{
    (void)root;
    list *datasets = data;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    char **paths = realloc(datasets->paths, (datasets->n + 1) * sizeof *paths), *copy = malloc(strlen(path) + 1);
    datasets->paths = paths != NULL ? paths : datasets->paths;
    if (paths == NULL || copy == NULL)
        return -1;
    datasets->paths[datasets->n++] = strcpy(copy, path);
    return 0;
}

/* Prints a row; false if a value differs by more than the filter may. */
static bool print_row(const table *t, filter kind, void *back)
{
    double stored = 0, write_seconds = 0, read_seconds = 0, largest = 0;
    bool is_right = true;
    for (size_t i = 0; i < t->n; i++) {
        const field *f = &t->fields[i];
        const outcome result = best(f, kind, back);
        const double error = largest_error(f, kind, back);
        stored += result.stored, write_seconds += result.write_seconds, read_seconds += result.read_seconds;
        largest = fmax(largest, error / f->range);
        is_right = is_right && error <= (is_bounded(kind) ? f->bound : 0);
    }
    char error[64] = "none";
    if (!is_right)
        strcpy(error, is_bounded(kind) ? "BEYOND THE BOUND" : "VALUES DIFFER");
    else if (is_bounded(kind))
        snprintf(error, sizeof error, "%.6f of range", largest);
    printf("  %-30s %9.2f %9.2f %9.2f   %s\n", names[kind], (double)t->bytes / stored, (double)t->bytes / write_seconds / 1e9,
           (double)t->bytes / read_seconds / 1e9, error);
    fflush(stdout);
    return is_right;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s FILE.h5 PICTURE.svg\n", argv[0]);
        return 2;
    }
    hid_t file = check(H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT), "H5Fopen");
    list datasets = {0};
    check(H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, collect, &datasets), "H5Ovisit");
    table t = {.fields = allocate(datasets.n * sizeof *t.fields)};
    size_t longest = 0;
    for (size_t i = 0; i < datasets.n; i++) {
        field *f = &t.fields[t.n];
        if (t.bytes < MOST_IN_ALL && load(file, datasets.paths[i], MOST_IN_ALL - t.bytes, f)) {
            const size_t n_bytes = f->n * f->element;
            t.bytes += n_bytes, t.n++;
            longest = n_bytes > longest ? n_bytes : longest;
        }
        free(datasets.paths[i]);
    }
    free(datasets.paths);
    H5Fclose(file);
    if (t.n == 0) {
        printf("%s has no floats of %d kB and more to compare codecs with.\n", argv[1], LEAST_BYTES / 1000);
        return 0;
    }
    void *back = allocate(longest);
    /* Starts the threads, and prints gridz's note on multigrid before the table instead of within it. */
    if (is_available(MULTIGRID))
        once(&t.fields[0], MULTIGRID, back);
    printf("%.0f MB of floats, written to HDF5 in memory and read back:\n\n", (double)t.bytes / 1e6);
    printf("  %-30s %9s %9s %9s   %s\n", "", "times", "write", "read", "largest");
    printf("  %-30s %9s %9s %9s   %s\n", "", "smaller", "GB/s", "GB/s", "error");
    bool is_right = true;
    for (filter kind = 0; kind < FILTERS; kind++) {
        if (is_available(kind))
            is_right = print_row(&t, kind, back) && is_right;
        else if (kind >= LORENZO)
            fail("loading gridz's plugin (is its folder in HDF5_PLUGIN_PATH?)");
    }
    const field *shown = NULL;
    for (size_t i = 0; i < t.n && shown == NULL; i++)
        if (t.fields[i].rank >= 2 && t.fields[i].extents[t.fields[i].rank - 2] >= 8 && t.fields[i].extents[t.fields[i].rank - 1] >= 8)
            shown = &t.fields[i];
    if (shown != NULL) {
        picture(argv[2], shown, back);
        printf("\nThe picture %s shows what the bound does; open it in a browser.\n", argv[2]);
    }
    for (size_t i = 0; i < t.n; i++)
        free(t.fields[i].values), free(t.fields[i].path), H5Pclose(t.fields[i].properties);
    free(t.fields), free(back);
    return !is_right;
}
