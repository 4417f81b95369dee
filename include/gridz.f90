! gridz for Fortran: compresses arrays of integers of 1, 2, 4 and 8 bytes, real(4) and real(8), rank 1
! to 7, to frames, and restores them bit for bit or within an error bound.
!
!     use gridz
!     integer(int8), allocatable :: frame(:)
!     call gridz_compress(field, frame, status, 'quant,abs=1e-3')   ! field(nx, ny, nz)
!     if (status /= GRIDZ_OK) print *, gridz_message()
!     call gridz_decompress(frame, field, status)
!
! The first index varies fastest in Fortran, the last index in gridz and HDF5. So a frame of
! field(nx, ny, nz) has the extents nz, ny, nx, and gridz_decompress restores it to an array of
! shape (nx, ny, nz). A status is an integer(c_int32_t): GRIDZ_OK or one of GRIDZ_ERROR_*.
! gridz_message() returns the text of the calling thread's last error. Several threads may call all
! procedures at the same time. If they are threads of OpenMP, compile this file with OpenMP enabled,
! too. Compile this file with your program and link with -lgridz.
module gridz
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int64
  implicit none
  private

  integer(c_int32_t), parameter, public :: GRIDZ_OK = 0
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_INVALID_ARGUMENT = 100
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_DST_TOO_SMALL = 101
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_UNSUPPORTED_JOB = 102
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_CANCELLED = 103
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_CORRUPT = 200
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_TRUNCATED = 201
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_UNSUPPORTED_FORMAT = 202
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_OUT_OF_MEMORY = 300
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_DEVICE = 301
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_HOST = 400
  integer(c_int32_t), parameter, public :: GRIDZ_ERROR_INTERNAL = 900

  ! Element types of a frame, in gridz_frame_info.
  integer(c_int32_t), parameter, public :: GRIDZ_DTYPE_OPAQUE = 0, GRIDZ_DTYPE_U8 = 1, GRIDZ_DTYPE_U16 = 2, &
      GRIDZ_DTYPE_U32 = 3, GRIDZ_DTYPE_U64 = 4, GRIDZ_DTYPE_I8 = 5, GRIDZ_DTYPE_I16 = 6, GRIDZ_DTYPE_I32 = 7, &
      GRIDZ_DTYPE_I64 = 8, GRIDZ_DTYPE_F16 = 9, GRIDZ_DTYPE_BF16 = 10, GRIDZ_DTYPE_F32 = 11, GRIDZ_DTYPE_F64 = 12, &
      GRIDZ_DTYPE_C64 = 13, GRIDZ_DTYPE_C128 = 14
  integer, parameter :: MAX_RANK = 32

  ! Error text of the last call if this module or gridz_cci, not the library, found the error. Empty
  ! otherwise. gridz_message() returns it.
  character(120), save, public :: gridz_found = ''
  !$omp threadprivate(gridz_found)

  ! The structs of gridz.h.
  type, bind(c) :: array_t
    integer(c_size_t) :: struct_size = 0
    integer(c_int32_t) :: dtype = 0, byte_order = 0, element_size = 0, rank = 0
    type(c_ptr) :: extents = c_null_ptr
  end type
  type, bind(c) :: options_t
    integer(c_size_t) :: struct_size = 0
    type(c_ptr) :: context = c_null_ptr, request = c_null_ptr
    integer(c_int64_t) :: flags = 0
    type(c_ptr) :: fill_value = c_null_ptr
    integer(c_size_t) :: n_fill_values = 0
    type(c_ptr) :: valid_min = c_null_ptr, valid_max = c_null_ptr
  end type

  ! Description of a frame, as in gridz.h. extents(:rank) are in Fortran's order. gridz_codec_of(info)
  ! returns the name of the codec. bound is the largest error of an element, NaN if there is none.
  type, bind(c), public :: gridz_frame_info
    integer(c_size_t) :: struct_size = 0
    integer(c_int32_t) :: dtype = 0, byte_order = 0, element_size = 0, rank = 0
    integer(c_int64_t) :: extents(MAX_RANK) = 0, array_bytes = 0, frame_bytes = 0
    type(c_ptr) :: codec_name = c_null_ptr
    integer(c_int32_t) :: codec = 0, mode = 0
    real(c_double) :: value = 0, bound = 0
  end type

  ! Description of a part of a frame, as in gridz_progressive.h. extents(:rank) are in Fortran's order.
  type, bind(c), public :: gridz_part_info
    integer(c_size_t) :: struct_size = 0
    integer(c_int32_t) :: rank = 0, level = 0
    integer(c_int64_t) :: extents(MAX_RANK) = 0, array_bytes = 0, frame_bytes = 0
    integer(c_int32_t) :: n_levels = 0, layers = 0, n_layers = 0, mode = 0
    real(c_double) :: value = 0, bound = 0
  end type

  interface
    integer(c_int32_t) function c_bound(array, options, bound) bind(c, name='gridz_compress_bound')
      import
      type(array_t), intent(in) :: array
      type(options_t), intent(in) :: options
      integer(c_size_t), intent(out) :: bound
    end function
    integer(c_int32_t) function c_compress(array, src, src_bytes, dst, capacity, n_bytes, options) &
        bind(c, name='gridz_compress')
      import
      type(array_t), intent(in) :: array
      type(c_ptr), value :: src, dst
      integer(c_size_t), value :: src_bytes, capacity
      integer(c_size_t), intent(out) :: n_bytes
      type(options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_decompress(frame, frame_bytes, dst, capacity, n_bytes, options) &
        bind(c, name='gridz_decompress')
      import
      type(c_ptr), value :: frame, dst
      integer(c_size_t), value :: frame_bytes, capacity
      integer(c_size_t), intent(out) :: n_bytes
      type(options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_inspect(frame, frame_bytes, info) bind(c, name='gridz_inspect')
      import
      type(c_ptr), value :: frame
      integer(c_size_t), value :: frame_bytes
      type(gridz_frame_info), intent(inout) :: info
    end function
    integer(c_int32_t) function c_decompress_progressive(frame, frame_bytes, detail, value, dst, capacity, info, options) &
        bind(c, name='gridz_decompress_progressive')
      import
      type(c_ptr), value :: frame, dst
      integer(c_size_t), value :: frame_bytes, capacity
      integer(c_int32_t), value :: detail
      real(c_double), value :: value
      type(gridz_part_info), intent(inout) :: info
      type(options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_inspect_progressive(frame, frame_bytes, detail, value, info) &
        bind(c, name='gridz_inspect_progressive')
      import
      type(c_ptr), value :: frame
      integer(c_size_t), value :: frame_bytes
      integer(c_int32_t), value :: detail
      real(c_double), value :: value
      type(gridz_part_info), intent(inout) :: info
    end function
    type(c_ptr) function c_last_error() bind(c, name='gridz_last_error')
      import
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import
      type(c_ptr), value :: text
    end function
  end interface

  ! gridz_compress(field, frame, status [, request]): compresses field, a contiguous array of integers,
  ! real(4) or real(8), rank 1 to 7, and allocates frame. request is text such as 'lorenzo,level=dense' or
  ! 'quant,abs=1e-3'. The default is that of the library: lossless and fast.
  interface gridz_compress
    module procedure compress_int8_1, compress_int8_2, compress_int8_3, compress_int8_4, &
      compress_int8_5, compress_int8_6, compress_int8_7, &
      compress_int16_1, compress_int16_2, compress_int16_3, compress_int16_4, &
      compress_int16_5, compress_int16_6, compress_int16_7, &
      compress_int32_1, compress_int32_2, compress_int32_3, compress_int32_4, &
      compress_int32_5, compress_int32_6, compress_int32_7, &
      compress_int64_1, compress_int64_2, compress_int64_3, compress_int64_4, &
      compress_int64_5, compress_int64_6, compress_int64_7, &
      compress_real4_1, compress_real4_2, compress_real4_3, compress_real4_4, &
      compress_real4_5, compress_real4_6, compress_real4_7, &
      compress_real8_1, compress_real8_2, compress_real8_3, compress_real8_4, &
      compress_real8_5, compress_real8_6, compress_real8_7
  end interface

  ! gridz_decompress(frame, field, status): field has the type and shape of the compressed array.
  ! Another type or shape is an error, and so is a damaged frame. After such damage the contents of
  ! field are unspecified.
  interface gridz_decompress
    module procedure decompress_int8_1, decompress_int8_2, decompress_int8_3, decompress_int8_4, &
      decompress_int8_5, decompress_int8_6, decompress_int8_7, &
      decompress_int16_1, decompress_int16_2, decompress_int16_3, decompress_int16_4, &
      decompress_int16_5, decompress_int16_6, decompress_int16_7, &
      decompress_int32_1, decompress_int32_2, decompress_int32_3, decompress_int32_4, &
      decompress_int32_5, decompress_int32_6, decompress_int32_7, &
      decompress_int64_1, decompress_int64_2, decompress_int64_3, decompress_int64_4, &
      decompress_int64_5, decompress_int64_6, decompress_int64_7, &
      decompress_real4_1, decompress_real4_2, decompress_real4_3, decompress_real4_4, &
      decompress_real4_5, decompress_real4_6, decompress_real4_7, &
      decompress_real8_1, decompress_real8_2, decompress_real8_3, decompress_real8_4, &
      decompress_real8_5, decompress_real8_6, decompress_real8_7
  end interface

  ! gridz_decompress_progressive(frame, field, status, level | layers | error): decompresses a part
  ! of a frame of multigrid: the grid of a level, the first layers, or the fewest layers whose error
  ! bound is at most error. gridz_inspect_progressive reports how many bytes of the frame are
  ! needed, and the shape that field must have. The rest of the frame may be missing.
  interface gridz_decompress_progressive
    module procedure progressive_real4_1, progressive_real4_2, progressive_real4_3, progressive_real4_4, &
      progressive_real4_5, progressive_real4_6, progressive_real4_7, &
      progressive_real8_1, progressive_real8_2, progressive_real8_3, progressive_real8_4, &
      progressive_real8_5, progressive_real8_6, progressive_real8_7
  end interface

  public :: gridz_compress, gridz_decompress, gridz_decompress_progressive, gridz_inspect, gridz_inspect_progressive
  public :: gridz_shape, gridz_codec_of, gridz_message

contains

  ! Returns the shape of the array in a frame, in Fortran's order.
  recursive subroutine gridz_shape(frame, extents, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(int64), allocatable, intent(out) :: extents(:)
    integer(c_int32_t), intent(out) :: status
    type(gridz_frame_info) :: info

    call inspect(frame, info, status)
    if (status == GRIDZ_OK) extents = info%extents(info%rank:1:-1)
  end subroutine

  ! Describes a frame from its header, which is in its first 560 bytes.
  recursive subroutine gridz_inspect(frame, info, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    type(gridz_frame_info), intent(out) :: info
    integer(c_int32_t), intent(out) :: status

    call inspect(frame, info, status)
    if (status == GRIDZ_OK) info%extents(:info%rank) = info%extents(info%rank:1:-1)
  end subroutine

  ! Returns the name of the codec of a frame; empty if this version of gridz lacks that codec.
  recursive function gridz_codec_of(info) result(text)
    type(gridz_frame_info), intent(in) :: info
    character(:), allocatable :: text

    text = ''
    if (c_associated(info%codec_name)) text = fortran_text(info%codec_name)
  end function

  ! Returns the error text of the calling thread's last failed call.
  recursive function gridz_message() result(text)
    character(:), allocatable :: text

    text = trim(gridz_found)
    if (text == '') text = fortran_text(c_last_error())
  end function

  ! Converts a text of the library.
  recursive function fortran_text(start) result(text)
    type(c_ptr), intent(in) :: start
    character(:), allocatable :: text
    character(kind=c_char), pointer :: chars(:)
    integer :: i

    call c_f_pointer(start, chars, [c_strlen(start)])
    allocate (character(size(chars)) :: text)
    do i = 1, size(chars)
      text(i:i) = chars(i)
    end do
  end function

  recursive subroutine inspect(frame, info, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    type(gridz_frame_info), intent(out) :: info
    integer(c_int32_t), intent(out) :: status

    gridz_found = ''
    info%struct_size = c_sizeof(info)
    status = c_inspect(c_loc(frame), size(frame, kind=c_size_t), info)
  end subroutine

  ! Compresses the array at `data`; `extents` are in Fortran's order.
  recursive subroutine compress(data, dtype, element_bytes, extents, frame, status, request)
    type(c_ptr), intent(in) :: data
    integer(c_int32_t), intent(in) :: dtype
    integer(c_size_t), intent(in) :: element_bytes
    integer(c_int64_t), intent(in) :: extents(:)
    integer(int8), allocatable, target, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    character(kind=c_char), allocatable, target :: text(:)
    integer(c_int64_t), target :: reversed(size(extents))
    integer(int8), allocatable, target :: room(:)
    type(array_t) :: array
    type(options_t) :: options
    integer(c_size_t) :: bound, n_bytes
    integer :: failed

    gridz_found = ''
    reversed = extents(size(extents):1:-1)
    array%struct_size = c_sizeof(array)
    array%dtype = dtype
    array%rank = size(extents)
    array%extents = c_loc(reversed)
    options%struct_size = c_sizeof(options)
    if (present(request)) then
      text = transfer(trim(request)//c_null_char, [c_null_char])
      options%request = c_loc(text)
    end if
    status = c_bound(array, options, bound)
    if (status /= GRIDZ_OK) return
    allocate (room(bound), stat=failed)
    if (failed /= 0) then
      status = GRIDZ_ERROR_OUT_OF_MEMORY
      write (gridz_found, '(a,i0,a)') 'memory for a frame of up to ', bound, ' bytes could not be allocated'
      return
    end if
    status = c_compress(array, data, product(extents)*element_bytes, c_loc(room), bound, n_bytes, options)
    if (status == GRIDZ_OK) frame = room(:n_bytes)
  end subroutine

  recursive subroutine decompress(frame, data, dtype, element_bytes, extents, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    type(c_ptr), intent(in) :: data
    integer(c_int32_t), intent(in) :: dtype
    integer(c_size_t), intent(in) :: element_bytes
    integer(c_int64_t), intent(in) :: extents(:)
    integer(c_int32_t), intent(out) :: status
    type(gridz_frame_info) :: info
    type(options_t) :: options
    integer(c_size_t) :: n_bytes

    call inspect(frame, info, status)
    if (status /= GRIDZ_OK) return
    call compare(info%dtype, info%byte_order, info%extents(info%rank:1:-1), dtype, extents, 'gridz_shape', status)
    if (status /= GRIDZ_OK) return
    options%struct_size = c_sizeof(options)
    status = c_decompress(c_loc(frame), size(frame, kind=c_size_t), data, product(extents)*element_bytes, n_bytes, &
        options)
  end subroutine

  ! Describes a part of a frame: exactly one of level, layers and error is present. The first bytes
  ! of the frame are enough.
  recursive subroutine gridz_inspect_progressive(frame, info, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    type(gridz_part_info), intent(out) :: info
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    integer(c_int32_t) :: detail
    real(c_double) :: value

    call detailed(detail, value, status, level, layers, error)
    if (status /= GRIDZ_OK) return
    info%struct_size = c_sizeof(info)
    status = c_inspect_progressive(c_loc(frame), size(frame, kind=c_size_t), detail, value, info)
    info%extents(:info%rank) = info%extents(info%rank:1:-1)
  end subroutine

  recursive subroutine decompress_part(frame, data, dtype, element_bytes, extents, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    type(c_ptr), intent(in) :: data
    integer(c_int32_t), intent(in) :: dtype
    integer(c_size_t), intent(in) :: element_bytes
    integer(c_int64_t), intent(in) :: extents(:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    type(gridz_frame_info) :: array
    type(gridz_part_info) :: info
    type(options_t) :: options
    integer(c_int32_t) :: detail
    real(c_double) :: value

    call inspect(frame, array, status)
    if (status == GRIDZ_OK) call gridz_inspect_progressive(frame, info, status, level, layers, error)
    if (status /= GRIDZ_OK) return
    call compare(array%dtype, array%byte_order, info%extents(:info%rank), dtype, extents, &
        'gridz_inspect_progressive', status)
    if (status /= GRIDZ_OK) return
    call detailed(detail, value, status, level, layers, error)
    options%struct_size = c_sizeof(options)
    status = c_decompress_progressive(c_loc(frame), size(frame, kind=c_size_t), detail, value, data, &
        product(extents)*element_bytes, info, options)
  end subroutine

  ! Converts the one argument that is present to `detail` and `value` of the C function.
  recursive subroutine detailed(detail, value, status, level, layers, error)
    integer(c_int32_t), intent(out) :: detail, status
    real(c_double), intent(out) :: value
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error

    gridz_found = ''
    status = GRIDZ_OK
    detail = 0
    value = 0
    if (count([present(level), present(layers), present(error)]) /= 1) then
      gridz_found = 'give exactly one of level, layers and error'
      status = GRIDZ_ERROR_INVALID_ARGUMENT
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

  ! Compares type and shape of the array in a frame with those of an argument. Extents are in
  ! Fortran's order. `source` is the name of the procedure that returns the shape, for the error
  ! text.
  recursive subroutine compare(dtype, byte_order, have, wanted_dtype, wanted, source, status)
    integer(c_int32_t), intent(in) :: dtype, byte_order, wanted_dtype
    integer(c_int64_t), intent(in) :: have(:), wanted(:)
    character(*), intent(in) :: source
    integer(c_int32_t), intent(out) :: status

    status = GRIDZ_ERROR_INVALID_ARGUMENT
    if (dtype /= wanted_dtype .or. (dtype /= GRIDZ_DTYPE_I8 .and. byte_order /= native_order())) then
      gridz_found = 'the array in the frame has another element type or byte order than the argument'
    else if (size(have) /= size(wanted)) then
      write (gridz_found, '(a,i0,a,i0)') 'the array in the frame has rank ', size(have), ', the argument has rank ', size(wanted)
    else if (any(have /= wanted)) then
      gridz_found = 'the array in the frame has another shape than the argument; '//source//' returns its shape'
    else
      status = GRIDZ_OK
    end if
  end subroutine

  ! GRIDZ_BYTE_ORDER_LITTLE or GRIDZ_BYTE_ORDER_BIG.
  pure integer(c_int32_t) function native_order()
    native_order = merge(1, 2, transfer(1, 0_int8) == 1_int8)
  end function

  ! The specific procedures of the generic names.
  ! Generated by scripts/fortran_kinds.py up to the end; do not edit.

  subroutine compress_int8_1(field, frame, status, request)
    integer(c_int8_t), contiguous, target, intent(in) :: field(:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int8_2(field, frame, status, request)
    integer(c_int8_t), contiguous, target, intent(in) :: field(:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int8_3(field, frame, status, request)
    integer(c_int8_t), contiguous, target, intent(in) :: field(:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int8_4(field, frame, status, request)
    integer(c_int8_t), contiguous, target, intent(in) :: field(:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int8_5(field, frame, status, request)
    integer(c_int8_t), contiguous, target, intent(in) :: field(:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int8_6(field, frame, status, request)
    integer(c_int8_t), contiguous, target, intent(in) :: field(:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int8_7(field, frame, status, request)
    integer(c_int8_t), contiguous, target, intent(in) :: field(:,:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int16_1(field, frame, status, request)
    integer(c_int16_t), contiguous, target, intent(in) :: field(:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int16_2(field, frame, status, request)
    integer(c_int16_t), contiguous, target, intent(in) :: field(:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int16_3(field, frame, status, request)
    integer(c_int16_t), contiguous, target, intent(in) :: field(:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int16_4(field, frame, status, request)
    integer(c_int16_t), contiguous, target, intent(in) :: field(:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int16_5(field, frame, status, request)
    integer(c_int16_t), contiguous, target, intent(in) :: field(:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int16_6(field, frame, status, request)
    integer(c_int16_t), contiguous, target, intent(in) :: field(:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int16_7(field, frame, status, request)
    integer(c_int16_t), contiguous, target, intent(in) :: field(:,:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int32_1(field, frame, status, request)
    integer(c_int32_t), contiguous, target, intent(in) :: field(:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int32_2(field, frame, status, request)
    integer(c_int32_t), contiguous, target, intent(in) :: field(:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int32_3(field, frame, status, request)
    integer(c_int32_t), contiguous, target, intent(in) :: field(:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int32_4(field, frame, status, request)
    integer(c_int32_t), contiguous, target, intent(in) :: field(:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int32_5(field, frame, status, request)
    integer(c_int32_t), contiguous, target, intent(in) :: field(:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int32_6(field, frame, status, request)
    integer(c_int32_t), contiguous, target, intent(in) :: field(:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int32_7(field, frame, status, request)
    integer(c_int32_t), contiguous, target, intent(in) :: field(:,:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int64_1(field, frame, status, request)
    integer(c_int64_t), contiguous, target, intent(in) :: field(:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int64_2(field, frame, status, request)
    integer(c_int64_t), contiguous, target, intent(in) :: field(:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int64_3(field, frame, status, request)
    integer(c_int64_t), contiguous, target, intent(in) :: field(:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int64_4(field, frame, status, request)
    integer(c_int64_t), contiguous, target, intent(in) :: field(:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int64_5(field, frame, status, request)
    integer(c_int64_t), contiguous, target, intent(in) :: field(:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int64_6(field, frame, status, request)
    integer(c_int64_t), contiguous, target, intent(in) :: field(:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_int64_7(field, frame, status, request)
    integer(c_int64_t), contiguous, target, intent(in) :: field(:,:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real4_1(field, frame, status, request)
    real(c_float), contiguous, target, intent(in) :: field(:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real4_2(field, frame, status, request)
    real(c_float), contiguous, target, intent(in) :: field(:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real4_3(field, frame, status, request)
    real(c_float), contiguous, target, intent(in) :: field(:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real4_4(field, frame, status, request)
    real(c_float), contiguous, target, intent(in) :: field(:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real4_5(field, frame, status, request)
    real(c_float), contiguous, target, intent(in) :: field(:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real4_6(field, frame, status, request)
    real(c_float), contiguous, target, intent(in) :: field(:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real4_7(field, frame, status, request)
    real(c_float), contiguous, target, intent(in) :: field(:,:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real8_1(field, frame, status, request)
    real(c_double), contiguous, target, intent(in) :: field(:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real8_2(field, frame, status, request)
    real(c_double), contiguous, target, intent(in) :: field(:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real8_3(field, frame, status, request)
    real(c_double), contiguous, target, intent(in) :: field(:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real8_4(field, frame, status, request)
    real(c_double), contiguous, target, intent(in) :: field(:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real8_5(field, frame, status, request)
    real(c_double), contiguous, target, intent(in) :: field(:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real8_6(field, frame, status, request)
    real(c_double), contiguous, target, intent(in) :: field(:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine compress_real8_7(field, frame, status, request)
    real(c_double), contiguous, target, intent(in) :: field(:,:,:,:,:,:,:)
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    character(*), intent(in), optional :: request
    call compress(c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), frame, status, request)
  end subroutine

  subroutine decompress_int8_1(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int8_t), contiguous, target, intent(inout) :: field(:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int8_2(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int8_t), contiguous, target, intent(inout) :: field(:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int8_3(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int8_t), contiguous, target, intent(inout) :: field(:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int8_4(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int8_t), contiguous, target, intent(inout) :: field(:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int8_5(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int8_t), contiguous, target, intent(inout) :: field(:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int8_6(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int8_t), contiguous, target, intent(inout) :: field(:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int8_7(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int8_t), contiguous, target, intent(inout) :: field(:,:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I8, 1_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int16_1(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int16_t), contiguous, target, intent(inout) :: field(:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int16_2(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int16_t), contiguous, target, intent(inout) :: field(:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int16_3(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int16_t), contiguous, target, intent(inout) :: field(:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int16_4(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int16_t), contiguous, target, intent(inout) :: field(:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int16_5(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int16_t), contiguous, target, intent(inout) :: field(:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int16_6(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int16_t), contiguous, target, intent(inout) :: field(:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int16_7(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int16_t), contiguous, target, intent(inout) :: field(:,:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I16, 2_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int32_1(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int32_t), contiguous, target, intent(inout) :: field(:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int32_2(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int32_t), contiguous, target, intent(inout) :: field(:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int32_3(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int32_t), contiguous, target, intent(inout) :: field(:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int32_4(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int32_t), contiguous, target, intent(inout) :: field(:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int32_5(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int32_t), contiguous, target, intent(inout) :: field(:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int32_6(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int32_t), contiguous, target, intent(inout) :: field(:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int32_7(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int32_t), contiguous, target, intent(inout) :: field(:,:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int64_1(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int64_t), contiguous, target, intent(inout) :: field(:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int64_2(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int64_t), contiguous, target, intent(inout) :: field(:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int64_3(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int64_t), contiguous, target, intent(inout) :: field(:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int64_4(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int64_t), contiguous, target, intent(inout) :: field(:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int64_5(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int64_t), contiguous, target, intent(inout) :: field(:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int64_6(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int64_t), contiguous, target, intent(inout) :: field(:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_int64_7(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int64_t), contiguous, target, intent(inout) :: field(:,:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_I64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real4_1(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real4_2(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real4_3(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real4_4(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real4_5(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real4_6(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real4_7(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real8_1(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real8_2(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real8_3(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real8_4(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real8_5(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real8_6(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine decompress_real8_7(frame, field, status)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    call decompress(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status)
  end subroutine

  subroutine progressive_real4_1(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real4_2(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real4_3(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real4_4(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real4_5(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real4_6(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real4_7(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_float), contiguous, target, intent(inout) :: field(:,:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F32, 4_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real8_1(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real8_2(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real8_3(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real8_4(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real8_5(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real8_6(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

  subroutine progressive_real8_7(frame, field, status, level, layers, error)
    integer(int8), contiguous, target, intent(in) :: frame(:)
    real(c_double), contiguous, target, intent(inout) :: field(:,:,:,:,:,:,:)
    integer(c_int32_t), intent(out) :: status
    integer, intent(in), optional :: level, layers
    real(c_double), intent(in), optional :: error
    call decompress_part(frame, c_loc(field), GRIDZ_DTYPE_F64, 8_c_size_t, shape(field, c_int64_t), status, level, layers, &
        error)
  end subroutine

end module gridz
