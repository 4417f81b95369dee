! The module gridz_cci: every procedure of its generic interfaces, and that invalid calls return
! errors.
program test_cci
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use gridz
  use gridz_cci
  implicit none
  ! . 2 . 1
  ! 3 . . .
  ! 4 5 . 6  with its columns 4, 1, 2
  integer(int32), parameter :: starts(4) = [1, 3, 4, 7], columns(6) = [2, 4, 1, 4, 1, 2]
  real(real32), parameter :: values(6) = [2, 1, 3, 6, 4, 5], x(4) = [1, 10, 100, -1], product(3) = [19, 3, 48]
  integer :: status

  call indices4()
  call indices8()
  call wrong_calls()
  print '(a)', 'test_cci: all passed'

contains

  subroutine must(is_good, what)
    logical, intent(in) :: is_good
    character(*), intent(in) :: what
    if (.not. is_good) then
      print '(4a)', 'test_cci: ', what, ': ', gridz_message()
      error stop 1
    end if
  end subroutine

  subroutine indices4()
    type(gridz_matrix) :: a, b
    type(gridz_cci_info) :: info
    integer(int8), allocatable :: frame(:)
    integer(int32), allocatable :: s(:), c(:)
    real(real32), allocatable :: v(:)
    real(real64), allocatable :: w(:)
    real(real32) :: y(3), z(4), xx(2, 4), yy(2, 3)
    real(real64) :: y8(3), xx8(2, 4), yy8(2, 3)

    call gridz_cci_create(a, starts, columns, values, 4, status)
    call must(status == GRIDZ_OK, 'create')
    call gridz_cci_inspect(a, info, status)
    call must(status == GRIDZ_OK .and. info%n_rows == 3 .and. info%n_cols == 4 .and. info%nnz == 6, 'inspect')
    call gridz_cci_multiply(a, x, y, status)
    call must(status == GRIDZ_OK .and. all(y == product), 'multiply')
    call gridz_cci_multiply(a, [1., 10., -1.], z, status, transposed=.true.)
    call must(status == GRIDZ_OK .and. all(z == [26., -3., 0., -5.]), 'the transpose')
    call gridz_cci_multiply(a, x, y, status, semiring=GRIDZ_CCI_SEMIRING_MIN_PLUS)
    call must(status == GRIDZ_OK .and. all(y == [0., 4., 5.]), 'a semiring')
    xx(1, :) = x
    xx(2, :) = 2*x
    call gridz_cci_multiply(a, xx, yy, status)
    call must(status == GRIDZ_OK .and. all(yy(1, :) == product) .and. all(yy(2, :) == 2*product), 'two vectors')

    call gridz_cci_decode(a, 2, 2, s, c, v, status)
    call must(status == GRIDZ_OK .and. all(s == [1, 2, 5]), 'starts come back')
    call must(all(c == columns(3:)) .and. all(v == values(3:)), 'elements come back')
    call gridz_cci_frame(a, frame, status)
    call must(status == GRIDZ_OK .and. size(frame) == info%frame_bytes, 'frame')
    call gridz_cci_open(b, frame, status)
    call gridz_cci_multiply(b, x, y, status)
    call must(status == GRIDZ_OK .and. all(y == product), 'open')

    ! The same arrays interpreted as columns are the transpose; a matrix may be created in place of
    ! another one.
    call gridz_cci_create(b, starts, columns, values, 4, status, by_columns=.true.)
    call gridz_cci_multiply(b, [1., 10., -1.], z, status)
    call must(status == GRIDZ_OK .and. all(z == [26., -3., 0., -5.]), 'columns')
    call gridz_cci_create(b, starts, columns, real(values, real64), 4, status, kept=GRIDZ_CCI_VALUES_PLAIN)
    call gridz_cci_multiply(b, real(x, real64), y8, status)
    call must(status == GRIDZ_OK .and. all(y8 == product), 'real(8)')
    xx8 = xx
    call gridz_cci_multiply(b, xx8, yy8, status)
    call must(status == GRIDZ_OK .and. all(yy8 == yy), 'two vectors of real(8)')
    call gridz_cci_decode(b, 1, 3, s, c, w, status)
    call must(status == GRIDZ_OK .and. all(s == starts) .and. all(c == columns) .and. all(w == values), 'all of real(8)')
    call gridz_cci_destroy(a)
    call gridz_cci_destroy(a)
    call gridz_cci_destroy(b)
  end subroutine

  subroutine indices8()
    type(gridz_matrix) :: a
    integer(int64), allocatable :: s(:), c(:)
    integer(int64) :: far(6)
    real(real32), allocatable :: v(:)
    real(real64), allocatable :: w(:)

    far = columns
    far(2) = 2_int64**40
    call gridz_cci_create(a, int(starts, int64), far, values, 2_int64**40, status)
    call must(status == GRIDZ_OK, 'create with indices of 8 bytes')
    call gridz_cci_decode(a, 1_int64, 3_int64, s, c, v, status)
    call must(status == GRIDZ_OK .and. all(s == starts) .and. all(c == far) .and. all(v == values), 'far columns')
    call gridz_cci_create(a, int(starts, int64), far, real(values, real64), 2_int64**40, status)
    call gridz_cci_decode(a, 1_int64, 3_int64, s, c, w, status)
    call must(status == GRIDZ_OK .and. all(c == far) .and. all(w == values), 'far columns of real(8)')
    call gridz_cci_destroy(a)
  end subroutine

  subroutine wrong_calls()
    type(gridz_matrix) :: a, none
    integer(int8), allocatable :: frame(:)
    integer(int32), allocatable :: s(:), c(:)
    real(real32), allocatable :: v(:)
    real(real32) :: y(3), short(2), xx(2, 4), yy(3, 3)
    real(real64) :: y8(3)

    call gridz_cci_create(a, starts, columns, values, 4, status)
    call gridz_cci_create(none, starts, columns, values, 3, status)
    call fails('column 3 of element 1 is outside the matrix, which has 3 columns')
    call gridz_cci_create(none, starts, columns(:5), values, 4, status)
    call fails('indices has 5 elements, but values has 6')
    call gridz_cci_create(none, starts(:0), columns, values, 4, status)
    call fails('starts is empty')
    call gridz_cci_create(none, starts, columns, values, -1, status)
    call fails('n_cols is -1')
    call gridz_cci_create(none, starts, columns, values, 4, status, kept=9)
    call fails('GRIDZ_CCI_VALUES_')
    call gridz_cci_multiply(none, x, y, status)
    call fails('cci is NULL')
    call gridz_cci_multiply(a, x, short, status)
    call fails('y has 2 elements')
    call gridz_cci_multiply(a, real(x, real64), y8, status)
    call fails('another real type')
    call gridz_cci_multiply(a, xx, yy, status)
    call fails('numbers of vectors')
    call gridz_cci_multiply(a, x, y, status, semiring=4)
    call fails('semiring')
    call gridz_cci_decode(a, 0, 1, s, c, v, status)
    call fails('rows')
    call gridz_cci_decode(a, 2, 3, s, c, v, status)
    call fails('rows')
    call gridz_cci_frame(a, frame, status)
    frame(200) = ieor(frame(200), 1_int8)
    call gridz_cci_open(none, frame, status)
    call must(status == GRIDZ_ERROR_CORRUPT, 'a damaged frame')
    call gridz_cci_destroy(a)
  end subroutine

  subroutine fails(words)
    character(*), intent(in) :: words
    call must(status == GRIDZ_ERROR_INVALID_ARGUMENT .and. index(gridz_message(), words) > 0, words)
  end subroutine
end program
