/* Is every dataset of one HDF5 file, bit for bit, the dataset of the same name in another?
 *
 *     verify REFERENCE.h5 FILE.h5
 *
 * prints one row per dataset of REFERENCE and exits with 1 if any value, type or extent differs, or a
 * dataset is missing.  The columns:
 *
 *   codec     what compressed the chunks of FILE, taken from the chunks themselves: byte 5 of each
 *             gridz frame, and its parameter.  "lorenzo 30/32": the other two chunks did not shrink and
 *             are stored raw, or another codec wrote them.
 *             "-": gridz is not in the dataset's filter pipeline.
 *   raw       bytes of the dataset's elements; "-" where they have variable length, because then
 *             HDF5 keeps the data elsewhere and a filter sees only the pointers, and where HDF5 has
 *             stored nothing because nothing was written
 *   stored    bytes of the dataset in FILE
 *   write     speed of H5Dwrite and H5Dclose to an HDF5 file in memory, with the creation
 *             properties that the dataset has in FILE
 *   read      speed of H5Dread from FILE, decompression included
 *
 * Speeds are raw megabytes (10^6 bytes) per second; "-" where gridz is not in the pipeline or the
 * dataset is too small to be timed.
 *
 * Datasets are compared in slabs of about 64 MB, so files may be larger than the memory.  Values are
 * read in the type they have in the file, so HDF5 converts nothing on the way.  Only references are
 * left to h5diff: they are addresses within their file, which a copy has to change.
 */
#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GRIDZ_FILTER_ID = 34013, SLAB_BYTES = 64 * 1000 * 1000, TIMED_BYTES = 100 * 1000, SMALL_CHUNK = 4096 };

/* ---- failures ------------------------------------------------------------------------------------ */

/* HDF5 has already printed its error stack. */
static hid_t check(hid_t result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "verify: %s failed\n", what);
        exit(1);
    }
    return result;
}

static void *allocate(size_t n_bytes)
{
    void *memory = malloc(n_bytes > 0 ? n_bytes : 1);
    if (memory == NULL) {
        fprintf(stderr, "verify: no memory for %zu bytes\n", n_bytes);
        exit(1);
    }
    return memory;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- equality of elements ------------------------------------------------------------------------ */

/* How a type stores data outside its elements' own bytes. */
typedef enum { IN_PLACE, VARIABLE_LENGTH, REFERENCES } kind;

static kind kind_of(hid_t type)
{
    kind worst = IN_PLACE, part;
    hid_t inner;
    switch (H5Tget_class(type)) {
    case H5T_REFERENCE:
        return REFERENCES;
    case H5T_STRING:
        return H5Tis_variable_str(type) > 0 ? VARIABLE_LENGTH : IN_PLACE;
    case H5T_VLEN:
    case H5T_ARRAY:
        inner = check(H5Tget_super(type), "H5Tget_super");
        part = kind_of(inner);
        worst = H5Tget_class(type) == H5T_VLEN && part == IN_PLACE ? VARIABLE_LENGTH : part;
        H5Tclose(inner);
        return worst;
    case H5T_COMPOUND:
        for (int i = 0; i < H5Tget_nmembers(type); i++) {
            inner = check(H5Tget_member_type(type, (unsigned)i), "H5Tget_member_type");
            part = kind_of(inner);
            worst = part > worst ? part : worst;
            H5Tclose(inner);
        }
        return worst;
    default:
        return IN_PLACE;
    }
}

static bool same(hid_t type, const unsigned char *a, const unsigned char *b, size_t n);

/* Compares one element of a type that is not IN_PLACE. */
static bool same_element(hid_t type, const unsigned char *a, const unsigned char *b)
{
    bool equal = true;
    hid_t inner;
    switch (H5Tget_class(type)) {
    case H5T_STRING: {
        char *s, *t;
        memcpy(&s, a, sizeof s);
        memcpy(&t, b, sizeof t);
        return s == NULL || t == NULL ? s == t : strcmp(s, t) == 0;
    }
    case H5T_VLEN: {
        hvl_t s, t;
        memcpy(&s, a, sizeof s);
        memcpy(&t, b, sizeof t);
        inner = check(H5Tget_super(type), "H5Tget_super");
        equal = s.len == t.len && same(inner, s.p, t.p, s.len);
        H5Tclose(inner);
        return equal;
    }
    case H5T_ARRAY: {
        inner = check(H5Tget_super(type), "H5Tget_super");
        equal = same(inner, a, b, H5Tget_size(type) / H5Tget_size(inner));
        H5Tclose(inner);
        return equal;
    }
    default: /* compound */
        for (int i = 0; equal && i < H5Tget_nmembers(type); i++) {
            const size_t at = H5Tget_member_offset(type, (unsigned)i);
            inner = check(H5Tget_member_type(type, (unsigned)i), "H5Tget_member_type");
            equal = same(inner, a + at, b + at, 1);
            H5Tclose(inner);
        }
        return equal;
    }
}

/* Compares `n` elements. */
static bool same(hid_t type, const unsigned char *a, const unsigned char *b, size_t n)
{
    const size_t size = H5Tget_size(type);
    if (n == 0)
        return true;
    if (kind_of(type) == IN_PLACE)
        return memcmp(a, b, n * size) == 0;
    for (size_t i = 0; i < n; i++)
        if (!same_element(type, a + i * size, b + i * size))
            return false;
    return true;
}

/* ---- one dataset --------------------------------------------------------------------------------- */

typedef struct {
    hid_t id, type, properties; /* properties: the creation properties */
    int rank;
    hsize_t extents[H5S_MAX_RANK], n_elements;
    bool chunked, filtered; /* filtered: by gridz */
    hsize_t chunk[H5S_MAX_RANK];
} dataset;

static dataset open_dataset(hid_t file, const char *path)
{
    dataset d = {.id = check(H5Dopen2(file, path, H5P_DEFAULT), "H5Dopen2")};
    d.type = check(H5Dget_type(d.id), "H5Dget_type");
    d.properties = check(H5Dget_create_plist(d.id), "H5Dget_create_plist");
    hid_t space = check(H5Dget_space(d.id), "H5Dget_space");
    d.rank = H5Sget_simple_extent_ndims(space);
    check(H5Sget_simple_extent_dims(space, d.extents, NULL), "H5Sget_simple_extent_dims");
    d.n_elements = (hsize_t)check(H5Sget_simple_extent_npoints(space), "H5Sget_simple_extent_npoints");
    H5Sclose(space);
    d.chunked = H5Pget_layout(d.properties) == H5D_CHUNKED;
    if (d.chunked)
        check(H5Pget_chunk(d.properties, d.rank, d.chunk), "H5Pget_chunk");
    for (int i = 0; i < H5Pget_nfilters(d.properties); i++) {
        unsigned flags;
        size_t n_values = 0;
        const int id = H5Pget_filter2(d.properties, (unsigned)i, &flags, &n_values, NULL, 0, NULL, NULL);
        d.filtered = d.filtered || id == GRIDZ_FILTER_ID;
    }
    return d;
}

static void close_dataset(dataset *d)
{
    H5Tclose(d->type);
    H5Pclose(d->properties);
    H5Dclose(d->id);
}

/* The possible writers of a chunk. */
enum { STORED, NDZIP, LORENZO_FAST, LORENZO_DENSE, QUANT, ZFP, NEWER, N_WRITERS };

static const char *const writer_names[] = {"stored", "ndzip", "lorenzo", "lorenzo dense", "quant", "zfp", "newer codec"};

/* Parses a frame (src/format/SPEC.md): byte 5 is the codec. The codec's parameters follow 40 bytes
 * and 8 bytes for each axis; byte 9 is the number of axes, byte 11 the number of parameter bytes.
 * */
static int writer_of(const unsigned char *frame, size_t n_bytes)
{
    switch (frame[5]) {
    case 0:
        return STORED;
    case 1:
        return NDZIP;
    case 2: {
        const size_t at = 40 + 8 * (size_t)frame[9];
        return frame[11] != 1 || at >= n_bytes ? NEWER : frame[at] <= 12 ? LORENZO_FAST : LORENZO_DENSE;
    }
    case 3:
        return QUANT;
    case 4:
        return ZFP;
    default:
        return NEWER;
    }
}

/* The codecs that wrote the chunks. */
typedef struct {
    size_t chunks, by[N_WRITERS];
} census;

/* Reads every chunk verbatim from the file and inspects its frame. */
static census count_codecs(const dataset *d)
{
    census count = {0};
    hsize_t at[H5S_MAX_RANK] = {0};
    unsigned char *bytes = NULL;
    hsize_t room = 0;
    for (int axis = 0; axis >= 0;) {
        hsize_t n_bytes = 0;
        herr_t found;
        H5E_BEGIN_TRY { found = H5Dget_chunk_storage_size(d->id, at, &n_bytes); } H5E_END_TRY
        if (found >= 0 && n_bytes > 0) { /* else the chunk was never written */
            if (n_bytes > room) {
                free(bytes);
                bytes = allocate(room = n_bytes);
            }
            uint32_t skipped_filters = 0;
            check(H5Dread_chunk(d->id, H5P_DEFAULT, at, &skipped_filters, bytes), "H5Dread_chunk");
            const bool is_frame = skipped_filters == 0 && n_bytes > 40 && memcmp(bytes, "GRDZ", 4) == 0;
            count.chunks++;
            /* An optional filter that failed leaves the raw chunk. */
            count.by[is_frame ? writer_of(bytes, n_bytes) : STORED]++;
        }
        for (axis = d->rank - 1; axis >= 0; axis--) { /* the next chunk, last axis fastest */
            at[axis] += d->chunk[axis];
            if (at[axis] < d->extents[axis])
                break;
            at[axis] = 0;
        }
    }
    free(bytes);
    return count;
}

/* Every chunk has a header, and the codecs work on blocks of 4096 elements or more: in smaller
 * chunks they achieve less, and ndzip nothing. */
static bool too_small(const dataset *d)
{
    hsize_t n_elements = 1;
    for (int axis = 0; axis < d->rank; axis++)
        n_elements *= d->chunk[axis];
    const H5T_class_t class = H5Tget_class(d->type);
    return d->filtered && (class == H5T_FLOAT || class == H5T_INTEGER) && n_elements < SMALL_CHUNK &&
           n_elements < d->n_elements;
}

static void describe_codecs(const dataset *d, char *text, size_t size)
{
    const census count = d->filtered ? count_codecs(d) : (census){0};
    int most = STORED; /* the writer of most chunks; STORED only if no codec compressed any */
    for (int writer = NDZIP; writer < N_WRITERS; writer++)
        if (count.by[writer] > (most == STORED ? 0 : count.by[most]))
            most = writer;
    if (count.chunks == 0)
        snprintf(text, size, "%s", d->filtered ? "no chunks" : "-");
    else if (count.by[most] == count.chunks)
        snprintf(text, size, "%s", writer_names[most]);
    else
        snprintf(text, size, "%s %zu/%zu", writer_names[most], count.by[most], count.chunks);
}

/* Seconds for writing a slab to an in-memory file through the filters of `d`. */
static double time_write(const dataset *d, const hsize_t *extents, const void *values)
{
    hsize_t most[H5S_MAX_RANK];
    for (int axis = 0; axis < d->rank; axis++) /* a chunk may be larger than a slab */
        most[axis] = H5S_UNLIMITED;
    hid_t access = check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
    check(H5Pset_fapl_core(access, SLAB_BYTES, false), "H5Pset_fapl_core");
    hid_t file = check(H5Fcreate("in-memory.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access), "H5Fcreate");
    hid_t space = check(H5Screate_simple(d->rank, extents, most), "H5Screate_simple");
    hid_t copy = check(H5Dcreate2(file, "slab", d->type, space, H5P_DEFAULT, d->properties, H5P_DEFAULT), "H5Dcreate2");

    const double begin = now();
    check(H5Dwrite(copy, d->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dwrite");
    check(H5Dclose(copy), "H5Dclose");
    const double seconds = now() - begin;

    H5Sclose(space);
    check(H5Fclose(file), "H5Fclose");
    H5Pclose(access);
    return seconds;
}

typedef struct {
    const char *difference; /* NULL: none */
    double raw_bytes, read_seconds, write_seconds;
} comparison;

/* Compares the values slab by slab; a slab consists of whole chunks of `d` along the first axis. */
static comparison compare(const dataset *reference, const dataset *d)
{
    comparison result = {.difference = NULL};
    const size_t element = H5Tget_size(d->type);
    if (d->n_elements == 0)
        return result;
    const hsize_t rows = d->rank > 0 ? d->extents[0] : 1, row_elements = d->n_elements / rows;
    const hsize_t unit = d->chunked ? d->chunk[0] : 1;
    const hsize_t unit_bytes = unit * row_elements * element;
    const hsize_t slab_rows = unit * (unit_bytes < SLAB_BYTES ? SLAB_BYTES / unit_bytes : 1);
    const hsize_t most_rows = slab_rows < rows ? slab_rows : rows;
    unsigned char *a = allocate(most_rows * row_elements * element);
    unsigned char *b = allocate(most_rows * row_elements * element);
    const bool in_place = kind_of(d->type) == IN_PLACE;

    for (hsize_t row = 0; row < rows; row += slab_rows) {
        hsize_t start[H5S_MAX_RANK] = {row}, count[H5S_MAX_RANK];
        memcpy(count, d->extents, sizeof count);
        count[0] = rows - row < slab_rows ? rows - row : slab_rows;
        const hsize_t n_elements = count[0] * row_elements;

        hid_t from = check(H5Dget_space(d->id), "H5Dget_space");
        if (d->rank > 0)
            check(H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL), "H5Sselect_hyperslab");
        hid_t to = d->rank > 0 ? H5Screate_simple(d->rank, count, NULL) : H5Screate(H5S_SCALAR);
        check(to, "H5Screate");
        check(H5Dread(reference->id, d->type, to, from, H5P_DEFAULT, a), "H5Dread of the reference");
        const double begin = now();
        const bool readable = H5Dread(d->id, d->type, to, from, H5P_DEFAULT, b) >= 0;
        result.read_seconds += now() - begin;
        result.raw_bytes += (double)(n_elements * element);
        if (!readable)
            result.difference = "NO: cannot be read";
        else if (!same(d->type, a, b, n_elements))
            result.difference = "NO: values differ";
        if (readable && d->filtered && in_place)
            result.write_seconds += time_write(d, count, a);
        if (!in_place) {
            H5Dvlen_reclaim(d->type, to, H5P_DEFAULT, a);
            if (readable)
                H5Dvlen_reclaim(d->type, to, H5P_DEFAULT, b);
        }
        H5Sclose(to);
        H5Sclose(from);
        if (!readable)
            break;
    }
    free(a);
    free(b);
    return result;
}

/* ---- the table ----------------------------------------------------------------------------------- */

typedef struct {
    hid_t reference, file;
    int width; /* of the longest path */
    size_t datasets, different, references, too_small;
    double raw_bytes, stored_bytes, reference_bytes; /* reference: as stored there */
} table;

#define ROW "  %-*s %-20s %-13s %13s %13s %7s %6s %6s  %s\n"

static void print_head(int width)
{
    printf(ROW, width, "", "", "", "", "", "", "write", "read", "");
    printf(ROW, width, "dataset", "type and shape", "codec", "raw bytes", "stored bytes", "ratio", "MB/s", "MB/s",
           "verified");
}

/* Formats a number into `text`, or "-" unless `known`. */
static const char *show(char text[24], bool known, int decimals, double value)
{
    if (known)
        snprintf(text, 24, "%.*f", decimals, value);
    else
        strcpy(text, "-");
    return text;
}

static void print_row(int width, const char *path, const char *shape, const char *codec, bool sized, double raw,
                      double stored, bool timed, double write_seconds, double read_seconds, const char *verdict)
{
    char columns[5][24];
    printf(ROW, width, path, shape, codec, show(columns[0], sized, 0, raw), show(columns[1], true, 0, stored),
           show(columns[2], sized && stored > 0, 3, raw / stored),
           show(columns[3], timed && write_seconds > 0, 0, raw / write_seconds / 1e6),
           show(columns[4], timed && read_seconds > 0, 0, raw / read_seconds / 1e6), verdict);
}

/* For example "f32 3x128x128x128". */
static void describe_shape(const dataset *d, char *text, size_t size)
{
    static const struct { H5T_class_t class; const char *name; bool sized; } names[] = {
        {H5T_FLOAT, "f", true}, {H5T_STRING, "string", false}, {H5T_COMPOUND, "compound", false},
        {H5T_ENUM, "enum", false}, {H5T_ARRAY, "array", false}, {H5T_VLEN, "list", false},
        {H5T_REFERENCE, "reference", false}, {H5T_OPAQUE, "opaque", false}, {H5T_BITFIELD, "bits", true},
    };
    const H5T_class_t class = H5Tget_class(d->type);
    const char *name = "other";
    bool sized = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].class == class)
            name = names[i].name, sized = names[i].sized;
    if (class == H5T_INTEGER)
        name = H5Tget_sign(d->type) == H5T_SGN_NONE ? "u" : "i", sized = true;
    int used = snprintf(text, size, "%s", name);
    if (sized)
        used += snprintf(text + used, size - (size_t)used, "%zu", 8 * H5Tget_size(d->type));
    if (sized && H5Tget_size(d->type) > 1 && H5Tget_order(d->type) == H5T_ORDER_BE)
        used += snprintf(text + used, size - (size_t)used, "be");
    for (int axis = 0; axis < d->rank && (size_t)used < size; axis++)
        used += snprintf(text + used, size - (size_t)used, "%s%llu", axis == 0 ? " " : "x",
                         (unsigned long long)d->extents[axis]);
}

static bool same_form(const dataset *a, const dataset *b)
{
    return a->rank == b->rank && a->n_elements == b->n_elements && memcmp(a->extents, b->extents, sizeof a->extents) == 0 &&
           H5Tequal(a->type, b->type) > 0;
}

static void add_row(table *t, const char *path)
{
    char shape[200], codec[64];
    dataset reference = open_dataset(t->reference, path);
    t->datasets++;
    describe_shape(&reference, shape, sizeof shape);
    htri_t there;
    H5E_BEGIN_TRY { there = H5Oexists_by_name(t->file, path, H5P_DEFAULT); } H5E_END_TRY
    if (there <= 0) { /* negative: even its group is missing */
        t->different++;
        printf("  %-*s %-20s NO: missing\n", t->width, path, shape);
        close_dataset(&reference);
        return;
    }
    dataset d = open_dataset(t->file, path);
    if (!same_form(&reference, &d)) {
        t->different++;
        printf("  %-*s %-20s NO: another type or shape\n", t->width, path, shape);
    } else {
        const kind kind = kind_of(d.type);
        const double stored = (double)H5Dget_storage_size(d.id);
        comparison c = {.difference = NULL};
        describe_codecs(&d, codec, sizeof codec);
        if (kind != REFERENCES)
            c = compare(&reference, &d);
        const bool sized = kind == IN_PLACE && stored > 0;
        const bool timed = sized && d.filtered && c.difference == NULL && c.raw_bytes >= TIMED_BYTES;
        print_row(t->width, path, shape, codec, sized, c.raw_bytes, stored, timed, c.write_seconds,
                  c.read_seconds, kind == REFERENCES ? "by h5diff" : c.difference == NULL ? "yes" : c.difference);
        t->different += c.difference != NULL;
        t->references += kind == REFERENCES;
        t->too_small += too_small(&d);
        t->raw_bytes += sized ? c.raw_bytes : 0;
        t->stored_bytes += sized ? stored : 0;
        t->reference_bytes += sized ? (double)H5Dget_storage_size(reference.id) : 0;
    }
    fflush(stdout);
    close_dataset(&d);
    close_dataset(&reference);
}

/* The paths of all datasets.  They are collected first because check() exits, and a program must
 * not exit from within a callback of HDF5. */
typedef struct {
    char **paths;
    size_t n, room;
} list;

static herr_t collect(hid_t root, const char *path, const H5O_info_t *info, void *data)
{
    (void)root;
    list *datasets = data;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    if (datasets->n == datasets->room) {
        datasets->room = 2 * datasets->room + 16;
        char **paths = realloc(datasets->paths, datasets->room * sizeof *paths);
        if (paths == NULL)
            return -1;
        datasets->paths = paths;
    }
    datasets->paths[datasets->n] = malloc(strlen(path) + 1);
    if (datasets->paths[datasets->n] == NULL)
        return -1;
    strcpy(datasets->paths[datasets->n++], path);
    return 0;
}

static hid_t open_file(const char *path)
{
    hid_t file;
    H5E_BEGIN_TRY { file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT); } H5E_END_TRY
    if (file < 0) {
        fprintf(stderr, "verify: %s is not a readable HDF5 file\n", path);
        exit(2);
    }
    return file;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s REFERENCE.h5 FILE.h5\n", argv[0]);
        return 2;
    }
    table t = {.reference = open_file(argv[1]), .file = open_file(argv[2]), .width = sizeof "dataset" - 1};
    list datasets = {0};
    check(H5Ovisit(t.reference, H5_INDEX_NAME, H5_ITER_INC, collect, &datasets), "H5Ovisit");
    for (size_t i = 0; i < datasets.n; i++)
        t.width = (int)strlen(datasets.paths[i]) > t.width ? (int)strlen(datasets.paths[i]) : t.width;
    print_head(t.width);
    for (size_t i = 0; i < datasets.n; i++) {
        add_row(&t, datasets.paths[i]);
        free(datasets.paths[i]);
    }
    free(datasets.paths);
    H5Fclose(t.reference);
    H5Fclose(t.file);
    if (t.stored_bytes > 0)
        print_row(t.width, "total", "", "", true, t.raw_bytes, t.stored_bytes, false, 0, 0, "");
    if (t.reference_bytes < 0.99 * t.raw_bytes)
        printf("  %s was compressed before: %.0f bytes, ratio %.3f\n", argv[1], t.reference_bytes,
               t.raw_bytes / t.reference_bytes);
    if (t.too_small > 0)
        printf("  %zu of numbers in chunks of fewer than %d elements, too few to be compressed well; to enlarge them:\n"
               "      h5repack -l DATASET:CHUNK=64x64x64 ...\n", t.too_small, SMALL_CHUNK);
    if (t.different > 0)
        printf("  %zu of %zu datasets DIFFER\n", t.different, t.datasets);
    else
        printf("  %zu datasets, bit for bit the same\n", t.datasets - t.references);
    return t.different > 0;
}
