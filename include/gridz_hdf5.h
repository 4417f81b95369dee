/*
 * gridz in HDF5 programs: the filter's number and its cd_values, for C and C++.
 *
 *     hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
 *     H5Pset_chunk(dcpl, 3, chunk);
 *     if (gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_DENSE) < 0)
 *         ...
 *
 * Nothing here calls gridz: HDF5 loads the plugin, and a value that gridz does not take is an error of H5Dcreate that
 * says what is allowed. Programs link with HDF5 only. The functions of this header may be called by several threads
 * where those of HDF5 may. They are for C99 and C++.
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

#ifdef __cplusplus
extern "C" {
#endif

/* The filter's number, from HDF5's range for private use until one is registered. */
#define GRIDZ_H5_FILTER 34013

/* Codecs, by their numbers in files. */
#define GRIDZ_CODEC_STORED 0
#define GRIDZ_CODEC_NDZIP 1
#define GRIDZ_CODEC_LORENZO 2
#define GRIDZ_CODEC_SZP 3

/* Levels: 0 is a codec's default. GRIDZ_CODEC_LORENZO has both others, GRIDZ_CODEC_SZP has fast alone. */
#define GRIDZ_LEVEL_DEFAULT 0
#define GRIDZ_LEVEL_FAST 1
#define GRIDZ_LEVEL_DENSE 2

/* Modes, as in gridz.h: what a codec may do to the values, and what the number is that goes with it. */
#define GRIDZ_MODE_LOSSLESS 0
#define GRIDZ_MODE_ABS 1
#define GRIDZ_MODE_REL 2
#define GRIDZ_MODE_RATE 3
#define GRIDZ_MODE_PRECISION 4
#define GRIDZ_MODE_PWREL 5
#define GRIDZ_MODE_RMS 6
#define GRIDZ_MODE_EXPERT 7

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
 * The same in a mode that has a value, such as a bound for the error of every element: GRIDZ_CODEC_SZP takes
 * GRIDZ_MODE_ABS and GRIDZ_MODE_PWREL. H5Dcreate says what is allowed. Also negative for GRIDZ_MODE_LOSSLESS.
 */
static inline herr_t gridz_h5_set_mode(hid_t dcpl, unsigned codec, unsigned mode, double value, unsigned level)
{
    unsigned values[GRIDZ_H5_MAX_VALUES];
    const size_t n = gridz_h5_values(codec, mode, value, level, values);
    if (mode == GRIDZ_MODE_LOSSLESS || H5Zfilter_avail(GRIDZ_H5_FILTER) <= 0)
        return -1;
    return H5Pset_filter(dcpl, GRIDZ_H5_FILTER, H5Z_FLAG_MANDATORY, n, values);
}

#ifdef __cplusplus
}
#endif

#endif /* GRIDZ_HDF5_H */
