/*
 * gridz in HDF5 programs, for C and C++: number and cd_values of the filter, and transfer of whole
 * datasets.
 *
 *     hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
 *     H5Pset_chunk(dcpl, 3, chunk);
 *     if (gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_DENSE) < 0)
 *         ...
 *
 * Setting the filter in a property list does not call gridz; HDF5 loads the plugin. If gridz does
 * not support a value, H5Dcreate fails, and its error lists the allowed values. Programs that only
 * set the filter by numbers link with HDF5 only. gridz itself transfers whole datasets, with all
 * threads and many chunks at a time. Programs that call gridz_h5_set_request, gridz_h5_write,
 * gridz_h5_read, gridz_h5_copy, gridz_h5_read_progressive or gridz_h5_inspect_progressive also link
 * with -lgridz:
 *
 *     if (gridz_h5_write(dset, H5T_NATIVE_FLOAT, NULL, NULL, data, NULL) != GRIDZ_OK)
 *         fprintf(stderr, "%s\n", gridz_last_error());
 *
 * Several threads may call the functions of this header at the same time if the HDF5 library allows
 * that for its own functions. The header is for C99 and C++.
 *
 * HDF5 loads plugins when it creates or reads a dataset, but not when it writes to an existing one.
 * A program that only writes to existing datasets must first load the plugin by a call of
 * H5Zfilter_avail(GRIDZ_H5_FILTER).
 */
#ifndef GRIDZ_HDF5_H
#define GRIDZ_HDF5_H

#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)
#error "gridz_hdf5.h needs C99 (-std=c99 or newer)"
#endif

#include <stdint.h>
#include <string.h>

#include <hdf5.h>

#include "gridz.h"
#include "gridz_hdf5_by.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of the filter, in HDF5's range for private use until a number is registered. */
#define GRIDZ_H5_FILTER 34013

/* Numbers of the codecs in files. */
#define GRIDZ_CODEC_STORED 0
#define GRIDZ_CODEC_NDZIP 1
#define GRIDZ_CODEC_LORENZO 2
#define GRIDZ_CODEC_QUANT 3
#define GRIDZ_CODEC_ZFP 4
#define GRIDZ_CODEC_MULTIGRID 5
#define GRIDZ_CODEC_HUFFMAN 6
#define GRIDZ_CODEC_CCI 7

/* Levels. 0 is the codec's default. GRIDZ_CODEC_LORENZO and GRIDZ_CODEC_QUANT have all levels,
   GRIDZ_CODEC_ZFP and GRIDZ_CODEC_MULTIGRID only fast, GRIDZ_CODEC_CCI dense (its default) and fast. */
#define GRIDZ_LEVEL_DEFAULT 0
#define GRIDZ_LEVEL_FAST 1
#define GRIDZ_LEVEL_DENSE 2
#define GRIDZ_LEVEL_MAX 3

/* Array size that is enough for the cd_values of every codec, also in later versions. */
#define GRIDZ_H5_MAX_VALUES 16

/*
 * Writes the cd_values for a codec, a mode and its value, and a level to `values`, and returns
 * their number. `value` is ignored in mode GRIDZ_MODE_LOSSLESS. For H5Pset_filter, h5repack's UD
 * and nc_def_var_filter.
 */
static inline size_t gridz_h5_values(unsigned codec, unsigned mode, double value, unsigned level,
                                     unsigned values[GRIDZ_H5_MAX_VALUES])
{
    size_t n = 0;
    values[n++] = codec;
    values[n++] = mode;
    if (mode != GRIDZ_MODE_LOSSLESS) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        values[n++] = (unsigned)(bits & 0xffffffffu);
        values[n++] = (unsigned)(bits >> 32);
    }
    values[n++] = level;
    return n;
}

/*
 * Selects a lossless codec and its level for the datasets created with this property list. Returns
 * a negative value if HDF5 does not find the plugin (HDF5_PLUGIN_PATH must contain its folder) or
 * rejects the values.
 */
static inline herr_t gridz_h5_set(hid_t dcpl, unsigned codec, unsigned level)
{
    unsigned values[GRIDZ_H5_MAX_VALUES];
    const size_t n = gridz_h5_values(codec, GRIDZ_MODE_LOSSLESS, 0.0, level, values);
    if (H5Zfilter_avail(GRIDZ_H5_FILTER) <= 0)
        return -1;
    return H5Pset_filter(dcpl, GRIDZ_H5_FILTER, H5Z_FLAG_MANDATORY, n, values);
}

/*
 * Like gridz_h5_set, in a mode with a value, such as a bound for the error of every element.
 * GRIDZ_CODEC_QUANT supports GRIDZ_MODE_ABS and GRIDZ_MODE_PWREL. GRIDZ_CODEC_ZFP supports
 * GRIDZ_MODE_ABS, GRIDZ_MODE_RATE and GRIDZ_MODE_PRECISION. The error of H5Dcreate lists the
 * allowed values. Also returns a negative value for GRIDZ_MODE_LOSSLESS.
 */
static inline herr_t gridz_h5_set_mode(hid_t dcpl, unsigned codec, unsigned mode, double value, unsigned level)
{
    unsigned values[GRIDZ_H5_MAX_VALUES];
    const size_t n = gridz_h5_values(codec, mode, value, level, values);
    if (mode == GRIDZ_MODE_LOSSLESS || H5Zfilter_avail(GRIDZ_H5_FILTER) <= 0)
        return -1;
    return H5Pset_filter(dcpl, GRIDZ_H5_FILTER, H5Z_FLAG_MANDATORY, n, values);
}

/*
 * Like gridz_h5_set, with a request in text form, such as "quant,abs=1e-3". Programs that call it also
 * link with -lgridz. After an invalid request gridz_last_error returns the text.
 */
static inline herr_t gridz_h5_set_request(hid_t dcpl, const char *request)
{
    uint32_t values[64];
    size_t n;
    if (gridz_cd_values(request, values, sizeof values / sizeof *values, &n) != GRIDZ_OK || H5Zfilter_avail(GRIDZ_H5_FILTER) <= 0)
        return -1;
    return H5Pset_filter(dcpl, GRIDZ_H5_FILTER, H5Z_FLAG_MANDATORY, n, values);
}

/* ---- whole datasets, with HDF5 1.10.5 and newer ------------------------------------------------------------------- */

#if H5_VERSION_GE(1, 10, 5)

/* Functions of the program's libhdf5. gridz is not linked with libhdf5 and calls it through this table. */
static inline const gridz_h5_function *gridz_h5_functions(void)
{
#define GRIDZ_H5_(name) {#name, (gridz_function)name}
    static const gridz_h5_function functions[] = {
        GRIDZ_H5_(H5get_libversion),
        GRIDZ_H5_(H5Dget_space),
        GRIDZ_H5_(H5Dget_type),
        GRIDZ_H5_(H5Dget_create_plist),
        GRIDZ_H5_(H5Dread),
        GRIDZ_H5_(H5Dwrite),
        GRIDZ_H5_(H5Dwrite_chunk),
#if H5_VERSION_GE(2, 0, 0)
        GRIDZ_H5_(H5Dread_chunk2),
#else
        GRIDZ_H5_(H5Dread_chunk),
#endif
        GRIDZ_H5_(H5Dget_chunk_storage_size),
        GRIDZ_H5_(H5Dget_chunk_info_by_coord),
#if H5_VERSION_GE(1, 14, 0)
        GRIDZ_H5_(H5Dchunk_iter),
#endif
        GRIDZ_H5_(H5Pget_layout),
        GRIDZ_H5_(H5Pget_chunk),
        GRIDZ_H5_(H5Pget_chunk_opts),
        GRIDZ_H5_(H5Pget_fill_time),
        GRIDZ_H5_(H5Pfill_value_defined),
        GRIDZ_H5_(H5Pget_fill_value),
        GRIDZ_H5_(H5Pget_nfilters),
        GRIDZ_H5_(H5Pget_filter2),
        GRIDZ_H5_(H5Pmodify_filter),
#ifdef H5_HAVE_PARALLEL
        GRIDZ_H5_(H5Fget_mpi_atomicity),
#endif
        GRIDZ_H5_(H5Pget_data_transform),
        GRIDZ_H5_(H5Pget_edc_check),
        GRIDZ_H5_(H5Pclose),
        GRIDZ_H5_(H5Screate_simple),
        GRIDZ_H5_(H5Sget_simple_extent_type),
        GRIDZ_H5_(H5Sget_simple_extent_ndims),
        GRIDZ_H5_(H5Sget_simple_extent_dims),
        GRIDZ_H5_(H5Sselect_hyperslab),
        GRIDZ_H5_(H5Sselect_none),
        GRIDZ_H5_(H5Sclose),
        GRIDZ_H5_(H5Tequal),
        GRIDZ_H5_(H5Tget_class),
        GRIDZ_H5_(H5Tget_size),
        GRIDZ_H5_(H5Tget_order),
        GRIDZ_H5_(H5Tget_sign),
        GRIDZ_H5_(H5Tget_precision),
        GRIDZ_H5_(H5Tget_fields),
        GRIDZ_H5_(H5Tget_ebias),
        GRIDZ_H5_(H5Tget_super),
        GRIDZ_H5_(H5Tget_array_ndims),
        GRIDZ_H5_(H5Tget_array_dims2),
        GRIDZ_H5_(H5Tget_nmembers),
        GRIDZ_H5_(H5Tget_member_index),
        GRIDZ_H5_(H5Tget_member_offset),
        GRIDZ_H5_(H5Tget_member_type),
        GRIDZ_H5_(H5Tis_variable_str),
        GRIDZ_H5_(H5Tclose),
        GRIDZ_H5_(H5Iget_file_id),
        GRIDZ_H5_(H5Fclose),
        GRIDZ_H5_(H5Fflush),
        GRIDZ_H5_(H5Fget_access_plist),
        GRIDZ_H5_(H5Fget_create_plist),
        GRIDZ_H5_(H5Fget_intent),
        GRIDZ_H5_(H5Fget_vfd_handle),
        GRIDZ_H5_(H5FDdriver_query),
        GRIDZ_H5_(H5Pget_driver),
        GRIDZ_H5_(H5Pget_userblock),
        GRIDZ_H5_(H5Eget_auto2),
        GRIDZ_H5_(H5Eset_auto2),
        GRIDZ_H5_(H5Ewalk2),
        {NULL, NULL},
    };
#undef GRIDZ_H5_
    return functions;
}

/*
 * Writes a box of a dataset, `count` elements from `start` on along each axis, from memory at
 * `src`: like H5Dwrite, but with all threads. NULL for both selects the whole dataset. `mem_type`
 * is the type of the elements in memory; 0 = that of the dataset. `options` may be NULL; it
 * contains the threads, the strides of the array in memory, and a progress callback. No other
 * thread or process may read or write the dataset during the call.
 *
 * The chunks in the file are byte-identical to those that H5Dwrite writes through the filter. gridz
 * encodes them itself if the dataset is chunked, its filter is gridz, alone or after HDF5's
 * shuffle, and the elements in memory have the type of the dataset, except for the byte order.
 * Chunks that are written partly are read first. In all other cases gridz calls H5Dwrite: other
 * filters, type conversions, data transforms of options->dxpl, and files opened with MPI-IO
 * (options->dxpl must then be collective, as for H5Dwrite). GRIDZ_LOG=info logs such calls.
 *
 * `src` may be memory of an NVIDIA GPU. The GPU then encodes the chunks, so that only compressed
 * bytes are copied to the host. The caller must first wait for all work of its streams on that
 * memory. Cases that need H5Dwrite fail then, and so does another byte order.
 *
 * Coherent with H5Dwrite and H5Dread on the same dataset. As after H5Dwrite, the data is certain to
 * be in the file only after H5Fflush or H5Fclose. After an error the chunks before the failed one
 * have been written, and the dataset is valid.
 *
 * Errors: INVALID_ARGUMENT; UNSUPPORTED_JOB; CANCELLED by the progress callback; OUT_OF_MEMORY;
 * DEVICE; HOST; CORRUPT, TRUNCATED or UNSUPPORTED_FORMAT for damaged chunks that are written
 * partly.
 */
static inline gridz_status gridz_h5_write(hid_t dset, hid_t mem_type, const hsize_t *start, const hsize_t *count,
                                          const void *src, const gridz_h5_options *options)
{
    return gridz_h5_write_by(gridz_h5_functions(), dset, mem_type, (const uint64_t *)start, (const uint64_t *)count,
                             src, options);
}

/*
 * Reads a box of a dataset to memory of the host or a GPU at `dst`. The arguments are those of
 * gridz_h5_write. Chunks that were never written are filled with the dataset's fill value. If HDF5
 * would not write a fill value, `dst` is left unchanged there. In files opened with MPI-IO each
 * process reads independently, but calls of H5Dread are collective if options->dxpl says so.
 */
static inline gridz_status gridz_h5_read(hid_t dset, hid_t mem_type, const hsize_t *start, const hsize_t *count,
                                         void *dst, const gridz_h5_options *options)
{
    return gridz_h5_read_by(gridz_h5_functions(), dset, mem_type, (const uint64_t *)start, (const uint64_t *)count,
                            dst, options);
}

/*
 * Progressive read of a box of a dataset that multigrid has compressed: a coarser grid
 * (GRIDZ_DETAIL_LEVEL), or all elements with a larger error bound (GRIDZ_DETAIL_LAYERS,
 * GRIDZ_DETAIL_ERROR). Only the needed bytes of each chunk are read. `value` is the number that
 * belongs to `detail`. `*info` receives a description of the result, unless `info` is NULL. The
 * caller has set its struct_size.
 *
 * The box is in elements of the dataset. Level l returns the elements of the box whose index in the
 * dataset is a multiple of 2^l along each axis: ceil((start + count) / 2^l) - ceil(start / 2^l)
 * elements along each axis. They are contiguous at `dst`, unless options->strides is set. The
 * dataset has level l if, along each axis, the chunk's extent is a multiple of 2^l or one chunk
 * spans the whole axis. The longest axis of a chunk limits the number of levels. For another level
 * the call fails, and the error lists the levels. Level 0 returns all elements, from the first
 * layer. With GRIDZ_DETAIL_ERROR each chunk is read in the fewest layers that it needs.
 *
 * Chunks that are not frames of multigrid are read as a whole: those that multigrid could not make
 * smaller, those of other codecs, and those written without the filter. Their elements are exact,
 * or have the error bound of their codec.
 *
 * All threads read chunks directly from the file, by HDF5's file descriptor (drivers sec2 and log).
 * If the file is open for writing, H5Fflush is called first. With other drivers HDF5 reads whole
 * chunks, and the result is the same. GRIDZ_LOG=info logs such reads.
 *
 * `mem_type`, `dst`, `options` and errors are as for gridz_h5_read, but cases that need H5Dread
 * fail with UNSUPPORTED_JOB. INVALID_ARGUMENT also for a level that the dataset does not have, or
 * layers that a chunk does not have.
 */
static inline gridz_status gridz_h5_read_progressive(hid_t dset, hid_t mem_type, const hsize_t *start,
                                                     const hsize_t *count, uint32_t detail, double value, void *dst,
                                                     gridz_h5_part_info *info, const gridz_h5_options *options)
{
    return gridz_h5_read_progressive_by(gridz_h5_functions(), dset, mem_type, (const uint64_t *)start,
                                        (const uint64_t *)count, detail, value, dst, info, options);
}

/*
 * Describes the result of gridz_h5_read_progressive, and how many bytes it reads, in `*info`, whose
 * struct_size the caller has set. Reads only the first bytes of each chunk, about 4 KiB, or whole
 * chunks if HDF5 has to read them. options->progress counts chunks instead of bytes.
 */
static inline gridz_status gridz_h5_inspect_progressive(hid_t dset, const hsize_t *start, const hsize_t *count,
                                                        uint32_t detail, double value, gridz_h5_part_info *info,
                                                        const gridz_h5_options *options)
{
    return gridz_h5_inspect_progressive_by(gridz_h5_functions(), dset, (const uint64_t *)start,
                                           (const uint64_t *)count, detail, value, info, options);
}

/*
 * Copies all elements of a dataset to another dataset of the same extents. Its chunks, filters and
 * type may differ. If they are the same, chunks are copied without decoding. Chunks that were never
 * written are skipped if both datasets have the same chunks and fill value. options->strides is
 * ignored. UNSUPPORTED_JOB for elements of variable length, for files opened with MPI-IO, and for
 * data transforms of options->dxpl.
 */
static inline gridz_status gridz_h5_copy(hid_t src_dset, hid_t dst_dset, const gridz_h5_options *options)
{
    return gridz_h5_copy_by(gridz_h5_functions(), src_dset, dst_dset, options);
}

#endif /* HDF5 1.10.5 */

#ifdef __cplusplus
}
#endif

#endif /* GRIDZ_HDF5_H */
