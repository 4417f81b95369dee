! Sparse matrices that stay compressed in memory, for Fortran: values of real(4) and real(8),
! indices of 4 and 8 bytes.
!
!     use gridz
!     use gridz_cci
!     type(gridz_matrix) :: a
!     call gridz_cci_create(a, starts, columns, values, n_cols, status)     ! rows, from 1, as starts(1) = 1
!     if (status /= GRIDZ_OK) print '(a)', gridz_message()
!     call gridz_cci_multiply(a, x, y, status)                              ! y = A x
!     call gridz_cci_destroy(a)
!
! Rows and columns are numbered from 1, but from 0 in error texts. gridz.h documents the procedures
! in detail. A gridz_matrix owns memory until gridz_cci_destroy, or until another matrix is created
! in the same variable. A copy of the variable refers to the same matrix. Compile gridz.f90 and this
! file with your program and link with -lgridz.
module gridz_cci
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8
  use gridz
  implicit none
  private

  ! Value codings.
  integer(c_int32_t), parameter, public :: GRIDZ_CCI_VALUES_BEST = 0
  integer(c_int32_t), parameter, public :: GRIDZ_CCI_VALUES_PLAIN = 1
  integer(c_int32_t), parameter, public :: GRIDZ_CCI_VALUES_CONSTANT = 2
  integer(c_int32_t), parameter, public :: GRIDZ_CCI_VALUES_DICTIONARY = 3
  integer(c_int32_t), parameter, public :: GRIDZ_CCI_VALUES_BLOCKS = 4
  ! Semirings of products.
  integer(c_int32_t), parameter, public :: GRIDZ_CCI_SEMIRING_PLUS_TIMES = 0
  integer(c_int32_t), parameter, public :: GRIDZ_CCI_SEMIRING_MIN_PLUS = 1
  integer(c_int32_t), parameter, public :: GRIDZ_CCI_SEMIRING_MAX_TIMES = 2
  integer(c_int32_t), parameter, public :: GRIDZ_CCI_SEMIRING_OR_AND = 3

  integer(c_int32_t), parameter :: DTYPE_I32 = 7, DTYPE_I64 = 8, DTYPE_F32 = 11, DTYPE_F64 = 12

  ! A compressed matrix.
  type, public :: gridz_matrix
    private
    type(c_ptr) :: cci = c_null_ptr
  end type

  ! Dimensions of a compressed matrix, and its coding. gridz.h documents the fields.
  type, bind(c), public :: gridz_cci_info
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: n_rows = 0, n_cols = 0, nnz = 0
    integer(c_int32_t) :: dtype = 0, values = 0, block = 0, reserved = 0
    integer(c_int64_t) :: frame_bytes = 0, value_bytes = 0
    integer(c_int64_t) :: by_distance = 0, blocked = 0, short_codes = 0, plain = 0, long_rows = 0
  end type

  type, bind(c) :: csr_t
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: n_rows = 0, n_cols = 0, nnz = 0
    integer(c_int32_t) :: dtype = 0, index_dtype = 0, layout = 0, reserved = 0
    type(c_ptr) :: starts = c_null_ptr, indices = c_null_ptr, values = c_null_ptr
  end type

  interface
    integer(c_int32_t) function c_create(csr, values, context, cci) bind(c, name='gridz_cci_create')
      import
      type(csr_t), intent(in) :: csr
      integer(c_int32_t), value :: values
      type(c_ptr), value :: context
      type(c_ptr), intent(inout) :: cci
    end function
    integer(c_int32_t) function c_open(frame, frame_bytes, context, cci) bind(c, name='gridz_cci_open')
      import
      type(c_ptr), value :: frame, context
      integer(c_size_t), value :: frame_bytes
      type(c_ptr), intent(inout) :: cci
    end function
    subroutine c_destroy(cci) bind(c, name='gridz_cci_destroy')
      import
      type(c_ptr), value :: cci
    end subroutine
    integer(c_int32_t) function c_inspect(cci, info) bind(c, name='gridz_cci_inspect')
      import
      type(c_ptr), value :: cci
      type(gridz_cci_info), intent(inout) :: info
    end function
    integer(c_int32_t) function c_frame(cci, frame, frame_bytes) bind(c, name='gridz_cci_frame')
      import
      type(c_ptr), value :: cci
      type(c_ptr), intent(out) :: frame
      integer(c_size_t), intent(out) :: frame_bytes
    end function
    integer(c_int32_t) function c_multiply(cci, semiring, transposed, n_vectors, x, x_bytes, y, y_bytes, context) &
        bind(c, name='gridz_cci_multiply')
      import
      type(c_ptr), value :: cci, x, y, context
      integer(c_int32_t), value :: semiring, transposed
      integer(c_size_t), value :: n_vectors, x_bytes, y_bytes
    end function
    integer(c_int32_t) function c_count(cci, first, n, nnz) bind(c, name='gridz_cci_count')
      import
      type(c_ptr), value :: cci
      integer(c_int64_t), value :: first, n
      integer(c_int64_t), intent(out) :: nnz
    end function
    integer(c_int32_t) function c_decode(cci, first, n, index_dtype, starts, columns, values, nnz, context) &
        bind(c, name='gridz_cci_decode')
      import
      type(c_ptr), value :: cci, starts, columns, values, context
      integer(c_int64_t), value :: first, n, nnz
      integer(c_int32_t), value :: index_dtype
    end function
  end interface

  ! gridz_cci_create(matrix, starts, indices, values, n_cols, status [, kept, by_columns]):
  ! compresses a matrix of n_cols columns. Row r has the elements starts(r) to starts(r + 1) - 1,
  ! and indices are their columns. With by_columns = .true., starts are column starts, indices are
  ! rows, and n_cols is the number of rows. kept is a value coding, one of GRIDZ_CCI_VALUES_*.
  interface gridz_cci_create
    module procedure create_i4_r4, create_i4_r8, create_i8_r4, create_i8_r8
  end interface

  ! gridz_cci_multiply(matrix, x, y, status [, semiring, transposed]): multiplies the matrix by one
  ! vector, or by several: x(n_vectors, n_cols) and y(n_vectors, n_rows). The vectors have the type
  ! of the matrix.
  interface gridz_cci_multiply
    module procedure multiply_r4_1, multiply_r4_2, multiply_r8_1, multiply_r8_2
  end interface

  ! gridz_cci_decode(matrix, first, n, starts, columns, values, status): decodes n rows, from row
  ! first on, and allocates the arrays. The elements have their original order. values have the type
  ! of the matrix.
  interface gridz_cci_decode
    module procedure decode_i4_r4, decode_i4_r8, decode_i8_r4, decode_i8_r8
  end interface

  public :: gridz_cci_create, gridz_cci_multiply, gridz_cci_decode
  public :: gridz_cci_open, gridz_cci_frame, gridz_cci_inspect, gridz_cci_destroy

contains

  ! Frees a matrix. Does nothing if none was created.
  recursive subroutine gridz_cci_destroy(matrix)
    type(gridz_matrix), intent(inout) :: matrix

    call c_destroy(matrix%cci)
    matrix%cci = c_null_ptr
  end subroutine

  ! Returns the dimensions of a matrix and its coding.
  recursive subroutine gridz_cci_inspect(matrix, info, status)
    type(gridz_matrix), intent(in) :: matrix
    type(gridz_cci_info), intent(out) :: info
    integer(c_int32_t), intent(out) :: status

    gridz_found = ''
    info%struct_size = c_sizeof(info)
    status = c_inspect(matrix%cci, info)
  end subroutine

  ! Copies the frame of a matrix. Write these bytes to store the matrix; gridz_cci_open reads them.
  recursive subroutine gridz_cci_frame(matrix, frame, status)
    type(gridz_matrix), intent(in) :: matrix
    integer(int8), allocatable, intent(out) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    integer(int8), pointer :: bytes(:)
    type(c_ptr) :: start
    integer(c_size_t) :: n_bytes
    integer :: failed

    gridz_found = ''
    status = c_frame(matrix%cci, start, n_bytes)
    if (status /= GRIDZ_OK) return
    call c_f_pointer(start, bytes, [n_bytes])
    allocate (frame(n_bytes), source=bytes, stat=failed)
    if (failed /= 0) call no_memory(status)
  end subroutine

  ! Creates a matrix from its frame, which is validated.
  recursive subroutine gridz_cci_open(matrix, frame, status)
    type(gridz_matrix), intent(inout) :: matrix
    integer(int8), contiguous, target, intent(in) :: frame(:)
    integer(c_int32_t), intent(out) :: status
    type(c_ptr) :: made

    gridz_found = ''
    made = c_null_ptr
    status = c_open(c_loc(frame), size(frame, kind=c_size_t), c_null_ptr, made)
    if (status == GRIDZ_OK) call keep(matrix, made)
  end subroutine

  recursive subroutine keep(matrix, made)
    type(gridz_matrix), intent(inout) :: matrix
    type(c_ptr), intent(in) :: made

    call c_destroy(matrix%cci)
    matrix%cci = made
  end subroutine

  subroutine no_memory(status)
    integer(c_int32_t), intent(out) :: status

    status = GRIDZ_ERROR_OUT_OF_MEMORY
    gridz_found = 'memory for the arrays of a sparse matrix could not be allocated'
  end subroutine

  recursive subroutine create(matrix, csr, n_indices, n_values, n_across, status, kept, by_columns)
    type(gridz_matrix), intent(inout) :: matrix
    type(csr_t), intent(inout) :: csr
    integer(c_size_t), intent(in) :: n_indices, n_values
    integer(c_int64_t), intent(in) :: n_across
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: kept
    logical, intent(in), optional :: by_columns
    integer(c_int32_t) :: how
    type(c_ptr) :: made

    status = GRIDZ_ERROR_INVALID_ARGUMENT
    if (csr%n_rows < 0) then
      gridz_found = 'starts is empty; it must have one element more than the matrix has rows (or columns)'
      return
    else if (n_indices /= n_values) then
      write (gridz_found, '(a,i0,a,i0,a)') 'indices has ', n_indices, ' elements, but values has ', n_values, &
          '; both must have the same size'
      return
    else if (n_across < 0) then
      write (gridz_found, '(a,i0,a)') 'n_cols is ', n_across, '; it must not be negative'
      return
    end if
    csr%struct_size = c_sizeof(csr)
    csr%nnz = n_values
    csr%n_cols = n_across
    if (present(by_columns)) then
      if (by_columns) then
        csr%layout = 1
        csr%n_cols = csr%n_rows
        csr%n_rows = n_across
      end if
    end if
    how = GRIDZ_CCI_VALUES_BEST
    if (present(kept)) how = kept
    made = c_null_ptr
    status = c_create(csr, how, c_null_ptr, made)
    if (status == GRIDZ_OK) call keep(matrix, made)
  end subroutine

  recursive subroutine multiply(matrix, dtype, n_vectors, x, x_bytes, y, y_bytes, status, semiring, transposed)
    type(gridz_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(in) :: dtype
    integer, intent(in) :: n_vectors
    type(c_ptr), intent(in) :: x, y
    integer(c_size_t), intent(in) :: x_bytes, y_bytes
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: semiring
    logical, intent(in), optional :: transposed
    integer(c_int32_t) :: ring, is_transposed

    call check_type(matrix, dtype, status)
    if (status /= GRIDZ_OK) return
    ring = GRIDZ_CCI_SEMIRING_PLUS_TIMES
    if (present(semiring)) ring = semiring
    is_transposed = 0
    if (present(transposed)) is_transposed = merge(1, 0, transposed)
    status = c_multiply(matrix%cci, ring, is_transposed, int(n_vectors, c_size_t), x, x_bytes, y, y_bytes, c_null_ptr)
  end subroutine

  ! Checks that the values of a matrix have type `dtype`. The library cannot check it, because it
  ! gets only pointers.
  recursive subroutine check_type(matrix, dtype, status)
    type(gridz_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(in) :: dtype
    integer(c_int32_t), intent(out) :: status
    integer(c_int8_t), pointer :: head(:)
    type(c_ptr) :: start
    integer(c_size_t) :: n_bytes

    gridz_found = ''
    status = c_frame(matrix%cci, start, n_bytes)
    if (status /= GRIDZ_OK) return
    call c_f_pointer(start, head, [n_bytes])
    ! Byte 5 of a frame, counted from 0, is the type of the values.
    if (head(6) == dtype) return
    status = GRIDZ_ERROR_INVALID_ARGUMENT
    gridz_found = 'the array has another real type than the values of the sparse matrix'
  end subroutine

  ! The specific procedures of the generic names.

  subroutine create_i4_r4(matrix, starts, indices, values, n_cols, status, kept, by_columns)
    type(gridz_matrix), intent(inout) :: matrix
    integer(c_int32_t), intent(in) :: starts(:), indices(:)
    real(c_float), contiguous, target, intent(in) :: values(:)
    integer(c_int32_t), intent(in) :: n_cols
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: kept
    logical, intent(in), optional :: by_columns
    integer(c_int32_t), allocatable, target :: starts_from_0(:), indices_from_0(:)
    type(csr_t) :: csr
    integer :: failed

    gridz_found = ''
    allocate (starts_from_0(size(starts)), indices_from_0(size(indices)), stat=failed)
    if (failed /= 0) then
      call no_memory(status)
      return
    end if
    starts_from_0(:) = starts - 1
    indices_from_0(:) = indices - 1
    csr%n_rows = size(starts, kind=c_int64_t) - 1
    csr%dtype = DTYPE_F32
    csr%index_dtype = DTYPE_I32
    csr%starts = c_loc(starts_from_0)
    csr%indices = c_loc(indices_from_0)
    csr%values = c_loc(values)
    call create(matrix, csr, size(indices, kind=c_size_t), size(values, kind=c_size_t), int(n_cols, c_int64_t), status, &
        kept, by_columns)
  end subroutine

  subroutine create_i4_r8(matrix, starts, indices, values, n_cols, status, kept, by_columns)
    type(gridz_matrix), intent(inout) :: matrix
    integer(c_int32_t), intent(in) :: starts(:), indices(:)
    real(c_double), contiguous, target, intent(in) :: values(:)
    integer(c_int32_t), intent(in) :: n_cols
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: kept
    logical, intent(in), optional :: by_columns
    integer(c_int32_t), allocatable, target :: starts_from_0(:), indices_from_0(:)
    type(csr_t) :: csr
    integer :: failed

    gridz_found = ''
    allocate (starts_from_0(size(starts)), indices_from_0(size(indices)), stat=failed)
    if (failed /= 0) then
      call no_memory(status)
      return
    end if
    starts_from_0(:) = starts - 1
    indices_from_0(:) = indices - 1
    csr%n_rows = size(starts, kind=c_int64_t) - 1
    csr%dtype = DTYPE_F64
    csr%index_dtype = DTYPE_I32
    csr%starts = c_loc(starts_from_0)
    csr%indices = c_loc(indices_from_0)
    csr%values = c_loc(values)
    call create(matrix, csr, size(indices, kind=c_size_t), size(values, kind=c_size_t), int(n_cols, c_int64_t), status, &
        kept, by_columns)
  end subroutine

  subroutine create_i8_r4(matrix, starts, indices, values, n_cols, status, kept, by_columns)
    type(gridz_matrix), intent(inout) :: matrix
    integer(c_int64_t), intent(in) :: starts(:), indices(:)
    real(c_float), contiguous, target, intent(in) :: values(:)
    integer(c_int64_t), intent(in) :: n_cols
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: kept
    logical, intent(in), optional :: by_columns
    integer(c_int64_t), allocatable, target :: starts_from_0(:), indices_from_0(:)
    type(csr_t) :: csr
    integer :: failed

    gridz_found = ''
    allocate (starts_from_0(size(starts)), indices_from_0(size(indices)), stat=failed)
    if (failed /= 0) then
      call no_memory(status)
      return
    end if
    starts_from_0(:) = starts - 1
    indices_from_0(:) = indices - 1
    csr%n_rows = size(starts, kind=c_int64_t) - 1
    csr%dtype = DTYPE_F32
    csr%index_dtype = DTYPE_I64
    csr%starts = c_loc(starts_from_0)
    csr%indices = c_loc(indices_from_0)
    csr%values = c_loc(values)
    call create(matrix, csr, size(indices, kind=c_size_t), size(values, kind=c_size_t), int(n_cols, c_int64_t), status, &
        kept, by_columns)
  end subroutine

  subroutine create_i8_r8(matrix, starts, indices, values, n_cols, status, kept, by_columns)
    type(gridz_matrix), intent(inout) :: matrix
    integer(c_int64_t), intent(in) :: starts(:), indices(:)
    real(c_double), contiguous, target, intent(in) :: values(:)
    integer(c_int64_t), intent(in) :: n_cols
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: kept
    logical, intent(in), optional :: by_columns
    integer(c_int64_t), allocatable, target :: starts_from_0(:), indices_from_0(:)
    type(csr_t) :: csr
    integer :: failed

    gridz_found = ''
    allocate (starts_from_0(size(starts)), indices_from_0(size(indices)), stat=failed)
    if (failed /= 0) then
      call no_memory(status)
      return
    end if
    starts_from_0(:) = starts - 1
    indices_from_0(:) = indices - 1
    csr%n_rows = size(starts, kind=c_int64_t) - 1
    csr%dtype = DTYPE_F64
    csr%index_dtype = DTYPE_I64
    csr%starts = c_loc(starts_from_0)
    csr%indices = c_loc(indices_from_0)
    csr%values = c_loc(values)
    call create(matrix, csr, size(indices, kind=c_size_t), size(values, kind=c_size_t), int(n_cols, c_int64_t), status, &
        kept, by_columns)
  end subroutine

  subroutine multiply_r4_1(matrix, x, y, status, semiring, transposed)
    type(gridz_matrix), intent(in) :: matrix
    real(c_float), contiguous, target, intent(in) :: x(:)
    real(c_float), contiguous, target, intent(inout) :: y(:)
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: semiring
    logical, intent(in), optional :: transposed

    call multiply(matrix, DTYPE_F32, 1, c_loc(x), 4*size(x, kind=c_size_t), c_loc(y), &
        4*size(y, kind=c_size_t), status, semiring, transposed)
  end subroutine

  subroutine multiply_r4_2(matrix, x, y, status, semiring, transposed)
    type(gridz_matrix), intent(in) :: matrix
    real(c_float), contiguous, target, intent(in) :: x(:, :)
    real(c_float), contiguous, target, intent(inout) :: y(:, :)
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: semiring
    logical, intent(in), optional :: transposed

    if (size(x, 1) /= size(y, 1)) then
      status = GRIDZ_ERROR_INVALID_ARGUMENT
      gridz_found = 'x and y are of different numbers of vectors, which are their first extents'
      return
    end if
    call multiply(matrix, DTYPE_F32, size(x, 1), c_loc(x), 4*size(x, kind=c_size_t), c_loc(y), &
        4*size(y, kind=c_size_t), status, semiring, transposed)
  end subroutine

  subroutine multiply_r8_1(matrix, x, y, status, semiring, transposed)
    type(gridz_matrix), intent(in) :: matrix
    real(c_double), contiguous, target, intent(in) :: x(:)
    real(c_double), contiguous, target, intent(inout) :: y(:)
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: semiring
    logical, intent(in), optional :: transposed

    call multiply(matrix, DTYPE_F64, 1, c_loc(x), 8*size(x, kind=c_size_t), c_loc(y), &
        8*size(y, kind=c_size_t), status, semiring, transposed)
  end subroutine

  subroutine multiply_r8_2(matrix, x, y, status, semiring, transposed)
    type(gridz_matrix), intent(in) :: matrix
    real(c_double), contiguous, target, intent(in) :: x(:, :)
    real(c_double), contiguous, target, intent(inout) :: y(:, :)
    integer(c_int32_t), intent(out) :: status
    integer(c_int32_t), intent(in), optional :: semiring
    logical, intent(in), optional :: transposed

    if (size(x, 1) /= size(y, 1)) then
      status = GRIDZ_ERROR_INVALID_ARGUMENT
      gridz_found = 'x and y are of different numbers of vectors, which are their first extents'
      return
    end if
    call multiply(matrix, DTYPE_F64, size(x, 1), c_loc(x), 8*size(x, kind=c_size_t), c_loc(y), &
        8*size(y, kind=c_size_t), status, semiring, transposed)
  end subroutine

  subroutine decode_i4_r4(matrix, first, n, starts, columns, values, status)
    type(gridz_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(in) :: first, n
    integer(c_int32_t), allocatable, target, intent(out) :: starts(:), columns(:)
    real(c_float), allocatable, target, intent(out) :: values(:)
    integer(c_int32_t), intent(out) :: status
    integer(c_int64_t) :: start, rows, nnz
    integer :: failed

    call check_type(matrix, DTYPE_F32, status)
    if (status /= GRIDZ_OK) return
    start = int(first, c_int64_t) - 1
    rows = int(n, c_int64_t)
    status = c_count(matrix%cci, start, rows, nnz)
    if (status /= GRIDZ_OK) return
    allocate (starts(rows + 1), columns(nnz), values(nnz), stat=failed)
    if (failed /= 0) then
      call no_memory(status)
      return
    end if
    status = c_decode(matrix%cci, start, rows, DTYPE_I32, c_loc(starts), c_loc(columns), c_loc(values), nnz, c_null_ptr)
    starts(:) = starts + 1
    columns(:) = columns + 1
  end subroutine

  subroutine decode_i4_r8(matrix, first, n, starts, columns, values, status)
    type(gridz_matrix), intent(in) :: matrix
    integer(c_int32_t), intent(in) :: first, n
    integer(c_int32_t), allocatable, target, intent(out) :: starts(:), columns(:)
    real(c_double), allocatable, target, intent(out) :: values(:)
    integer(c_int32_t), intent(out) :: status
    integer(c_int64_t) :: start, rows, nnz
    integer :: failed

    call check_type(matrix, DTYPE_F64, status)
    if (status /= GRIDZ_OK) return
    start = int(first, c_int64_t) - 1
    rows = int(n, c_int64_t)
    status = c_count(matrix%cci, start, rows, nnz)
    if (status /= GRIDZ_OK) return
    allocate (starts(rows + 1), columns(nnz), values(nnz), stat=failed)
    if (failed /= 0) then
      call no_memory(status)
      return
    end if
    status = c_decode(matrix%cci, start, rows, DTYPE_I32, c_loc(starts), c_loc(columns), c_loc(values), nnz, c_null_ptr)
    starts(:) = starts + 1
    columns(:) = columns + 1
  end subroutine

  subroutine decode_i8_r4(matrix, first, n, starts, columns, values, status)
    type(gridz_matrix), intent(in) :: matrix
    integer(c_int64_t), intent(in) :: first, n
    integer(c_int64_t), allocatable, target, intent(out) :: starts(:), columns(:)
    real(c_float), allocatable, target, intent(out) :: values(:)
    integer(c_int32_t), intent(out) :: status
    integer(c_int64_t) :: start, rows, nnz
    integer :: failed

    call check_type(matrix, DTYPE_F32, status)
    if (status /= GRIDZ_OK) return
    start = int(first, c_int64_t) - 1
    rows = int(n, c_int64_t)
    status = c_count(matrix%cci, start, rows, nnz)
    if (status /= GRIDZ_OK) return
    allocate (starts(rows + 1), columns(nnz), values(nnz), stat=failed)
    if (failed /= 0) then
      call no_memory(status)
      return
    end if
    status = c_decode(matrix%cci, start, rows, DTYPE_I64, c_loc(starts), c_loc(columns), c_loc(values), nnz, c_null_ptr)
    starts(:) = starts + 1
    columns(:) = columns + 1
  end subroutine

  subroutine decode_i8_r8(matrix, first, n, starts, columns, values, status)
    type(gridz_matrix), intent(in) :: matrix
    integer(c_int64_t), intent(in) :: first, n
    integer(c_int64_t), allocatable, target, intent(out) :: starts(:), columns(:)
    real(c_double), allocatable, target, intent(out) :: values(:)
    integer(c_int32_t), intent(out) :: status
    integer(c_int64_t) :: start, rows, nnz
    integer :: failed

    call check_type(matrix, DTYPE_F64, status)
    if (status /= GRIDZ_OK) return
    start = int(first, c_int64_t) - 1
    rows = int(n, c_int64_t)
    status = c_count(matrix%cci, start, rows, nnz)
    if (status /= GRIDZ_OK) return
    allocate (starts(rows + 1), columns(nnz), values(nnz), stat=failed)
    if (failed /= 0) then
      call no_memory(status)
      return
    end if
    status = c_decode(matrix%cci, start, rows, DTYPE_I64, c_loc(starts), c_loc(columns), c_loc(values), nnz, c_null_ptr)
    starts(:) = starts + 1
    columns(:) = columns + 1
  end subroutine

end module gridz_cci
