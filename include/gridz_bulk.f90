! Transfer of whole HDF5 datasets: like h5dwrite_f and h5dread_f but with all threads, for datasets
! that gridz compresses.
!
!     use hdf5
!     use gridz_bulk
!     call gridz_h5_write(dset, H5T_NATIVE_REAL, c_loc(field), status)
!     if (status /= 0) print '(a)', gridz_h5_message()
!
! Compile this file with your program, which needs HDF5's Fortran modules and is linked with
! -lgridz. gridz_hdf5.h documents the procedures in detail.
module gridz_bulk
  use, intrinsic :: iso_c_binding
  use hdf5, only: hid_t, hsize_t, h5dget_space_f, h5sclose_f, h5sget_simple_extent_ndims_f
  implicit none
  private

  ! gridz_h5_options. Zero in all fields except struct_size selects the defaults.
  type, bind(c) :: options_t
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: context = c_null_ptr, strides = c_null_ptr
    type(c_funptr) :: progress = c_null_funptr
    type(c_ptr) :: progress_data = c_null_ptr
    integer(c_int64_t) :: memory_limit = 0, dxpl = 0
    type(c_ptr) :: stream = c_null_ptr
  end type

  ! Description of a part of a dataset, as in gridz.h. extents(:rank) are in Fortran's order.
  type, bind(c), public :: gridz_h5_part_info
    integer(c_size_t) :: struct_size = 0
    integer(c_int32_t) :: rank = 0, level = 0
    integer(c_int64_t) :: extents(32) = 0, array_bytes = 0, n_chunks = 0, stored_bytes = 0, read_bytes = 0
    integer(c_int32_t) :: n_levels = 0, layers = 0, n_layers = 0, reserved = 0
    real(c_double) :: bound = 0, rms = 0
  end type

  interface
    integer(c_int32_t) function c_write(functions, dset, mem_type, start, count, src, options) &
        bind(c, name='gridz_h5_write_by')
      import
      type(c_ptr), value :: functions, start, count, src
      integer(c_int64_t), value :: dset, mem_type
      type(options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_read(functions, dset, mem_type, start, count, dst, options) &
        bind(c, name='gridz_h5_read_by')
      import
      type(c_ptr), value :: functions, start, count, dst
      integer(c_int64_t), value :: dset, mem_type
      type(options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_copy(functions, src, dst, options) bind(c, name='gridz_h5_copy_by')
      import
      type(c_ptr), value :: functions
      integer(c_int64_t), value :: src, dst
      type(options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_read_progressive(functions, dset, mem_type, start, count, detail, value, dst, info, options) &
        bind(c, name='gridz_h5_read_progressive_by')
      import
      type(c_ptr), value :: functions, start, count, dst
      integer(c_int64_t), value :: dset, mem_type
      integer(c_int32_t), value :: detail
      real(c_double), value :: value
      type(gridz_h5_part_info), intent(inout) :: info
      type(options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_inspect_progressive(functions, dset, start, count, detail, value, info, options) &
        bind(c, name='gridz_h5_inspect_progressive_by')
      import
      type(c_ptr), value :: functions, start, count
      integer(c_int64_t), value :: dset
      integer(c_int32_t), value :: detail
      real(c_double), value :: value
      type(gridz_h5_part_info), intent(inout) :: info
      type(options_t), intent(in) :: options
    end function
    type(c_ptr) function c_last_error() bind(c, name='gridz_last_error')
      import
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import
      type(c_ptr), value :: text
    end function
  end interface

  integer(c_int32_t), parameter :: INVALID_ARGUMENT = 100

  ! Error text of the last call if this module, not the library, found the error. Empty otherwise.
  character(200) :: found = ''
  !$omp threadprivate(found)

  public :: gridz_h5_write, gridz_h5_read, gridz_h5_copy, gridz_h5_message
  public :: gridz_h5_read_progressive, gridz_h5_inspect_progressive

contains

  ! Writes a dataset, or a box of it, from the contiguous array at `src`. The box has `count`
  ! elements from `start` on along each axis, counted from 0, with the axes in Fortran's order.
  ! `mem_type` is the type of the elements in memory. `dxpl` is a data transfer property list;
  ! MPI-IO needs one. `status` is 0 on success; otherwise gridz_h5_message() returns the error text.
  subroutine gridz_h5_write(dset, mem_type, src, status, start, count, dxpl)
    integer(hid_t), intent(in) :: dset, mem_type
    type(c_ptr), intent(in) :: src
    integer, intent(out) :: status
    integer(hsize_t), intent(in), optional :: start(:), count(:)
    integer(hid_t), intent(in), optional :: dxpl
    integer(c_int64_t), target :: box(32, 2)
    type(c_ptr) :: places(2)

    call boxed(dset, box, places, status, start, count)
    if (status == 0) status = c_write(c_null_ptr, int(dset, c_int64_t), int(mem_type, c_int64_t), places(1), places(2), src, &
        options(dxpl))
  end subroutine

  ! Reads a dataset, or a box of it, to the contiguous array at `dst`. Arguments as for
  ! gridz_h5_write.
  subroutine gridz_h5_read(dset, mem_type, dst, status, start, count, dxpl)
    integer(hid_t), intent(in) :: dset, mem_type
    type(c_ptr), intent(in) :: dst
    integer, intent(out) :: status
    integer(hsize_t), intent(in), optional :: start(:), count(:)
    integer(hid_t), intent(in), optional :: dxpl
    integer(c_int64_t), target :: box(32, 2)
    type(c_ptr) :: places(2)

    call boxed(dset, box, places, status, start, count)
    if (status == 0) status = c_read(c_null_ptr, int(dset, c_int64_t), int(mem_type, c_int64_t), places(1), places(2), dst, &
        options(dxpl))
  end subroutine

  ! Reads a part of a dataset that multigrid has compressed to the contiguous array at `dst`: the
  ! grid of a level (`level`), the first layers (`layers`), or the fewest layers whose error bound
  ! is at most `error`. Exactly one of the three is present. `start` and `count` are in elements of
  ! the dataset. A grid has the elements in this box whose indices, counted from 0, are multiples of
  ! 2**level.
  subroutine gridz_h5_read_progressive(dset, mem_type, dst, status, level, layers, error, start, count, dxpl, info)
    integer(hid_t), intent(in) :: dset, mem_type
    type(c_ptr), intent(in) :: dst
    integer, intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    integer(hsize_t), intent(in), optional :: start(:), count(:)
    integer(hid_t), intent(in), optional :: dxpl
    type(gridz_h5_part_info), intent(out), optional :: info
    integer(c_int64_t), target :: box(32, 2)
    type(c_ptr) :: places(2)
    type(gridz_h5_part_info) :: part
    integer(c_int32_t) :: detail
    real(c_double) :: value

    call detailed(detail, value, status, level, layers, error)
    if (status == 0) call boxed(dset, box, places, status, start, count)
    if (status /= 0) return
    part%struct_size = c_sizeof(part)
    status = c_read_progressive(c_null_ptr, int(dset, c_int64_t), int(mem_type, c_int64_t), places(1), places(2), detail, value, &
        dst, part, options(dxpl))
    if (present(info)) info = turned(part)
  end subroutine

  ! Describes what gridz_h5_read_progressive would read. Only the first bytes of each chunk are
  ! read.
  subroutine gridz_h5_inspect_progressive(dset, info, status, level, layers, error, start, count)
    integer(hid_t), intent(in) :: dset
    type(gridz_h5_part_info), intent(out) :: info
    integer, intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    integer(hsize_t), intent(in), optional :: start(:), count(:)
    integer(c_int64_t), target :: box(32, 2)
    type(c_ptr) :: places(2)
    integer(c_int32_t) :: detail
    real(c_double) :: value

    call detailed(detail, value, status, level, layers, error)
    if (status == 0) call boxed(dset, box, places, status, start, count)
    if (status /= 0) return
    info%struct_size = c_sizeof(info)
    status = c_inspect_progressive(c_null_ptr, int(dset, c_int64_t), places(1), places(2), detail, value, info, options())
    info = turned(info)
  end subroutine

  ! Copies all elements of a dataset to another dataset of the same extents.
  subroutine gridz_h5_copy(src, dst, status)
    integer(hid_t), intent(in) :: src, dst
    integer, intent(out) :: status
    found = ''
    status = c_copy(c_null_ptr, int(src, c_int64_t), int(dst, c_int64_t), options())
  end subroutine

  ! Returns the error text of the calling thread's last failed call.
  function gridz_h5_message() result(text)
    character(:), allocatable :: text
    character(kind=c_char), pointer :: chars(:)
    type(c_ptr) :: start
    integer :: i

    if (found /= '') then
      text = trim(found)
      return
    end if
    start = c_last_error()
    call c_f_pointer(start, chars, [c_strlen(start)])
    allocate (character(size(chars)) :: text)
    do i = 1, size(chars)
      text(i:i) = chars(i)
    end do
  end function

  ! Converts the one argument that is present to `detail` and `value` of the C function.
  subroutine detailed(detail, value, status, level, layers, error)
    integer(c_int32_t), intent(out) :: detail
    real(c_double), intent(out) :: value
    integer, intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error

    found = ''
    status = 0
    detail = 0
    value = 0
    if (count([present(level), present(layers), present(error)]) /= 1) then
      found = 'give exactly one of level, layers and error'
      status = INVALID_ARGUMENT
    else if (present(level)) then
      value = level
    else if (present(layers)) then
      detail = 1
      value = layers
    else
      detail = 2
      value = error
    end if
  end subroutine

  ! The same description with the extents in Fortran's order.
  function turned(info)
    type(gridz_h5_part_info), intent(in) :: info
    type(gridz_h5_part_info) :: turned

    turned = info
    turned%extents(:info%rank) = info%extents(info%rank:1:-1)
  end function

  ! Writes start and count in the file's order of axes to `box`, and pointers to both to `places`. A
  ! null pointer stands for an absent argument.
  subroutine boxed(dset, box, places, status, start, count)
    integer(hid_t), intent(in) :: dset
    integer(c_int64_t), target, intent(out) :: box(32, 2)
    type(c_ptr), intent(out) :: places(2)
    integer, intent(out) :: status
    integer(hsize_t), intent(in), optional :: start(:), count(:)
    integer(hid_t) :: space
    integer :: rank, given(2), error

    found = ''
    status = 0
    box = 0
    places = c_null_ptr
    if (.not. (present(start) .or. present(count))) return
    call h5dget_space_f(dset, space, error)
    if (error < 0) return   ! the library reports the invalid dataset
    call h5sget_simple_extent_ndims_f(space, rank, error)
    call h5sclose_f(space, error)
    given = rank
    if (present(start)) given(1) = size(start)
    if (present(count)) given(2) = size(count)
    if (any(given /= rank)) then
      write (found, '(a,i0,a,i0,a,i0)') 'start and count must have one number per axis: the dataset has rank ', rank, &
          ', start has size ', given(1), ', count has size ', given(2)
      status = INVALID_ARGUMENT
      return
    end if
    if (present(start)) then
      box(:size(start), 1) = start(size(start):1:-1)
      places(1) = c_loc(box(1, 1))
    end if
    if (present(count)) then
      box(:size(count), 2) = count(size(count):1:-1)
      places(2) = c_loc(box(1, 2))
    end if
  end subroutine

  function options(dxpl)
    integer(hid_t), intent(in), optional :: dxpl
    type(options_t) :: options

    options%struct_size = c_sizeof(options)
    if (present(dxpl)) options%dxpl = dxpl
  end function
end module gridz_bulk
