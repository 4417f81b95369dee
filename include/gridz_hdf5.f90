! gridz in HDF5 programs: selects gridz as the filter of datasets created with a property list.
!
!     use hdf5
!     use gridz_hdf5
!     call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, error)
!     call h5pset_chunk_f(dcpl, 3, chunk, error)
!     call gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_DENSE, error)
!
! This module does not call gridz; HDF5 loads the plugin. Compile this file with your program. It
! needs HDF5's Fortran modules.
!
! HDF5 loads plugins when it creates or reads a dataset, but not when it writes to an existing one.
! A program that only writes to existing datasets must first load the plugin by a call of
! h5zfilter_avail_f(GRIDZ_H5_FILTER, is_available, error).
module gridz_hdf5
  use, intrinsic :: iso_fortran_env, only: real64
  use hdf5, only: hid_t, size_t, h5pset_filter_f, h5zfilter_avail_f
  implicit none
  private

  ! Number of the filter, and numbers of codecs, levels and modes, as in gridz_hdf5.h.
  integer, parameter, public :: GRIDZ_H5_FILTER = 34013
  integer, parameter, public :: GRIDZ_CODEC_STORED = 0, GRIDZ_CODEC_NDZIP = 1, &
      GRIDZ_CODEC_LORENZO = 2, GRIDZ_CODEC_QUANT = 3, GRIDZ_CODEC_ZFP = 4, GRIDZ_CODEC_MULTIGRID = 5, GRIDZ_CODEC_HUFFMAN = 6, &
      GRIDZ_CODEC_CCI = 7
  integer, parameter, public :: GRIDZ_LEVEL_DEFAULT = 0, GRIDZ_LEVEL_FAST = 1, GRIDZ_LEVEL_DENSE = 2, GRIDZ_LEVEL_MAX = 3
  integer, parameter, public :: GRIDZ_MODE_LOSSLESS = 0, GRIDZ_MODE_ABS = 1, GRIDZ_MODE_REL = 2, &
      GRIDZ_MODE_RATE = 3, GRIDZ_MODE_PRECISION = 4, GRIDZ_MODE_PWREL = 5, GRIDZ_MODE_RMS = 6, GRIDZ_MODE_EXPERT = 7

  ! H5Z_FLAG_MANDATORY of hdf5.h. The Fortran module of HDF5 1.10 lacks this constant.
  integer, parameter :: MANDATORY = 0

  public :: gridz_h5_set, gridz_h5_set_mode

contains

  ! Selects a lossless codec and its level. `error` is negative if HDF5 does not find the plugin
  ! (HDF5_PLUGIN_PATH must contain its folder) or rejects the values.
  subroutine gridz_h5_set(dcpl, codec, level, error)
    integer(hid_t), intent(in) :: dcpl
    integer, intent(in) :: codec, level
    integer, intent(out) :: error
    call set(dcpl, [codec, GRIDZ_MODE_LOSSLESS, level], error)
  end subroutine

  ! Selects a codec, its level, and a mode with a value, such as a bound for the error of every
  ! element. GRIDZ_CODEC_QUANT supports GRIDZ_MODE_ABS and GRIDZ_MODE_PWREL. GRIDZ_CODEC_ZFP
  ! supports GRIDZ_MODE_ABS, GRIDZ_MODE_RATE and GRIDZ_MODE_PRECISION. The error of h5dcreate_f
  ! lists the allowed values. `error` is also negative for GRIDZ_MODE_LOSSLESS.
  subroutine gridz_h5_set_mode(dcpl, codec, mode, value, level, error)
    integer(hid_t), intent(in) :: dcpl
    integer, intent(in) :: codec, mode, level
    real(real64), intent(in) :: value
    integer, intent(out) :: error
    integer :: halves(2)

    ! Low half first: gridz supports little-endian machines only.
    halves = transfer(value, halves)
    error = -1
    if (mode /= GRIDZ_MODE_LOSSLESS) call set(dcpl, [codec, mode, halves, level], error)
  end subroutine

  subroutine set(dcpl, values, error)
    integer(hid_t), intent(in) :: dcpl
    integer, intent(in) :: values(:)
    integer, intent(out) :: error
    logical :: is_there

    call h5zfilter_avail_f(GRIDZ_H5_FILTER, is_there, error)
    if (.not. is_there) error = -1
    if (error >= 0) call h5pset_filter_f(dcpl, GRIDZ_H5_FILTER, MANDATORY, size(values, kind=size_t), values, error)
  end subroutine
end module gridz_hdf5
