/*
 * gridz in HDF5 programs, for C and C++: the filter's number and its cd_values, and whole datasets at once.
 *
 *     hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
 *     H5Pset_chunk(dcpl, 3, chunk);
 *     if (gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_DENSE) < 0)
 *         ...
 *
 * What is set in a property list does not call gridz: HDF5 loads the plugin, and a value that gridz does not take is an
 * error of H5Dcreate that says what is allowed. Programs that do no more link with HDF5 only. Whole datasets are moved by
 * gridz itself, with all threads and not one chunk at a time; programs that call gridz_h5_write, gridz_h5_read,
 * gridz_h5_copy or gridz_h5_read_progressive link with -lgridz too:
 *
 *     if (gridz_h5_write(dset, H5T_NATIVE_FLOAT, NULL, NULL, data, NULL) != GRIDZ_OK)
 *         fprintf(stderr, "%s\n", gridz_last_error());
 *
 * The functions of this header may be called by several threads where those of HDF5 may. They are for C99 and C++.
 *
 * HDF5 looks for plugins when it creates or reads a dataset, but not when it writes to one that exists. A program that
 * does nothing else calls H5Zfilter_avail(GRIDZ_H5_FILTER) first, which loads the plugin.
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

#ifdef __cplusplus
extern "C" {
#endif

/* The filter's number, from HDF5's range for private use until one is registered. */
#define GRIDZ_H5_FILTER 34013

/* Codecs, by their numbers in files. */
#define GRIDZ_CODEC_STORED 0
#define GRIDZ_CODEC_NDZIP 1
#define GRIDZ_CODEC_LORENZO 2
#define GRIDZ_CODEC_QUANT 3
#define GRIDZ_CODEC_ZFP 4
#define GRIDZ_CODEC_MULTIGRID 5
#define GRIDZ_CODEC_HUFFMAN 6
#define GRIDZ_CODEC_CCI 7

/* Levels: 0 is a codec's default. GRIDZ_CODEC_LORENZO and GRIDZ_CODEC_QUANT have all,
   GRIDZ_CODEC_ZFP and GRIDZ_CODEC_MULTIGRID fast alone, GRIDZ_CODEC_CCI dense, its default, and fast. */
#define GRIDZ_LEVEL_DEFAULT 0
#define GRIDZ_LEVEL_FAST 1
#define GRIDZ_LEVEL_DENSE 2
#define GRIDZ_LEVEL_MAX 3

/* Room for the cd_values of every codec, those of later versions too. */
#define GRIDZ_H5_MAX_VALUES 16

/*
 * The cd_values for a codec, a mode, its value (unless that is GRIDZ_MODE_LOSSLESS) and a level. Returns how many there
 * are. For H5Pset_filter, h5repack's UD and nc_def_var_filter.
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
 * Chunks of the datasets made with this property list are compressed by a lossless codec at a level. Returns a negative
 * value if the plugin is not found (HDF5_PLUGIN_PATH must name its folder) or HDF5 refuses.
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
 * The same in a mode that has a value, such as a bound for the error of every element: GRIDZ_CODEC_QUANT takes
 * GRIDZ_MODE_ABS and GRIDZ_MODE_PWREL, GRIDZ_CODEC_ZFP takes GRIDZ_MODE_ABS, GRIDZ_MODE_RATE and GRIDZ_MODE_PRECISION.
 * H5Dcreate says what is allowed. Also negative for GRIDZ_MODE_LOSSLESS.
 */
static inline herr_t gridz_h5_set_mode(hid_t dcpl, unsigned codec, unsigned mode, double value, unsigned level)
{
    unsigned values[GRIDZ_H5_MAX_VALUES];
    const size_t n = gridz_h5_values(codec, mode, value, level, values);
    if (mode == GRIDZ_MODE_LOSSLESS || H5Zfilter_avail(GRIDZ_H5_FILTER) <= 0)
        return -1;
    return H5Pset_filter(dcpl, GRIDZ_H5_FILTER, H5Z_FLAG_MANDATORY, n, values);
}

/* ---- whole datasets, with HDF5 1.10.5 and newer ------------------------------------------------------------------- */

#if H5_VERSION_GE(1, 10, 5)

/* The functions of the program's libhdf5, which gridz does not link with. */
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
 * Writes a box of a dataset, `count` elements from `start` on along each axis, from memory at `src`: as H5Dwrite, but
 * with all threads. NULL for both is the whole dataset. `mem_type` is the type of the elements in memory; 0 = that of the
 * dataset. `options`, which may be NULL, have the threads, strides of the array in memory, and a function that is told of the
 * progress. Nobody else may read or write the dataset during the call.
 *
 * The chunks in the file are the same, byte for byte, as H5Dwrite would write through the filter. That needs a dataset in chunks
 * with gridz, alone or behind HDF5's shuffle, as its filter, and elements that have the same type in memory but for their byte
 * order; chunks that are written in part are read before. All else is done by H5Dwrite itself: other filters, conversions,
 * transforms of options->dxpl, files that are open by MPI-IO (where options->dxpl must be collective, as for H5Dwrite).
 * GRIDZ_LOG=info tells so.
 *
 * `src` may be memory of an NVIDIA GPU, which then makes the chunks, so that compressed bytes leave it. What the program's streams
 * do with it must be done before. What only H5Dwrite itself can do is refused then, and so is another byte order.
 *
 * What has been written before by H5Dwrite counts, and what is written here is seen by H5Dread. As with H5Dwrite, it is in the
 * file for certain after H5Fflush or H5Fclose. After an error the chunks before are written, and the dataset is sound.
 *
 * Errors: INVALID_ARGUMENT, UNSUPPORTED_JOB, CANCELLED by the function that is told of progress, OUT_OF_MEMORY, DEVICE, HOST,
 * and CORRUPT, TRUNCATED or UNSUPPORTED_FORMAT for damaged chunks that are to be written in part.
 */
static inline gridz_status gridz_h5_write(hid_t dset, hid_t mem_type, const hsize_t *start, const hsize_t *count,
                                          const void *src, const gridz_h5_options *options)
{
    return gridz_h5_write_by(gridz_h5_functions(), dset, mem_type, (const uint64_t *)start, (const uint64_t *)count,
                             src, options);
}

/*
 * Reads a box of a dataset to memory at `dst`, of the host or a GPU, likewise. Chunks that were never written are the dataset's fill value; where HDF5
 * has none to write, `dst` is left alone there. Files that are open by MPI-IO are read by each process for itself, but what
 * H5Dread does itself is as collective as options->dxpl says.
 */
static inline gridz_status gridz_h5_read(hid_t dset, hid_t mem_type, const hsize_t *start, const hsize_t *count,
                                         void *dst, const gridz_h5_options *options)
{
    return gridz_h5_read_by(gridz_h5_functions(), dset, mem_type, (const uint64_t *)start, (const uint64_t *)count,
                            dst, options);
}

/*
 * Reads less than there is of a box of a dataset that multigrid has written, and of each chunk only the bytes that are needed: a
 * coarser grid (GRIDZ_DETAIL_LEVEL), or all elements with a larger bound (GRIDZ_DETAIL_LAYERS, GRIDZ_DETAIL_ERROR).
 * `value` is the number that belongs to `detail`. `*info`, if it is not NULL, tells what that was; its struct_size is set.
 *
 * The box is in elements of the dataset. Of level l those elements of it come back whose index in the dataset is a multiple of 2^l along
 * each axis: ceil((start + count) / 2^l) - ceil(start / 2^l) of them, contiguous at `dst` or as options->strides say. A dataset has level l
 * if along each axis the chunk's extent is a multiple of 2^l, or one chunk has the whole axis; no more than the longest axis
 * of a chunk has; else the call fails, and says which there are. Level 0 is all elements, from the first layer. With
 * GRIDZ_DETAIL_ERROR each chunk is read in as few layers as it needs.
 *
 * Chunks that are no frames of multigrid are read as a whole: those that it did not make smaller, those of other codecs, and those from which the
 * filter was left out. Elements of other datasets so come back exact, or with the bound that they have.
 *
 * Chunks are read by all threads from the file itself, by the descriptor that HDF5 has of it (drivers sec2 and log). What
 * HDF5 has not written yet is written first (H5Fflush), where the file is open for writing. With other drivers HDF5 reads
 * the chunks, as a whole; what comes back is the same. GRIDZ_LOG=info tells so.
 *
 * `mem_type`, `dst`, `options` and errors are as for gridz_h5_read; but what H5Dread would have to do is refused as UNSUPPORTED_JOB.
 * INVALID_ARGUMENT for a level that the dataset does not have, or layers that a chunk does not have.
 */
static inline gridz_status gridz_h5_read_progressive(hid_t dset, hid_t mem_type, const hsize_t *start,
                                                     const hsize_t *count, uint32_t detail, double value, void *dst,
                                                     gridz_h5_part_info *info, const gridz_h5_options *options)
{
    return gridz_h5_read_progressive_by(gridz_h5_functions(), dset, mem_type, (const uint64_t *)start,
                                        (const uint64_t *)count, detail, value, dst, info, options);
}

/*
 * Tells in `*info`, whose struct_size is set, what gridz_h5_read_progressive would bring and read. It reads the first bytes
 * of each chunk, about 4 KiB, or, where HDF5 has to read the chunks, all. options->progress is told of chunks in place of bytes.
 */
static inline gridz_status gridz_h5_inspect_progressive(hid_t dset, const hsize_t *start, const hsize_t *count,
                                                        uint32_t detail, double value, gridz_h5_part_info *info,
                                                        const gridz_h5_options *options)
{
    return gridz_h5_inspect_progressive_by(gridz_h5_functions(), dset, (const uint64_t *)start,
                                           (const uint64_t *)count, detail, value, info, options);
}

/*
 * Copies all elements of a dataset to another one of the same extents, whose chunks, filters and type may be others. Where
 * they are the same, the chunks go as they are. Chunks that were never written are not written, if both have the same fill
 * value and chunks. Of the options, strides mean nothing. UNSUPPORTED_JOB for elements of variable length, for files that are
 * open by MPI-IO, and for transforms of options->dxpl.
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
