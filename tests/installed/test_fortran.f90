! The module gridz: every procedure of its generic interfaces, and that wrong calls are errors.
program test_fortran
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use, intrinsic :: ieee_arithmetic, only: ieee_value, ieee_quiet_nan
  use gridz
  implicit none
  integer(int8), allocatable :: frame(:)
  integer(int64), allocatable :: extents(:)
  integer :: status

  call real4()
  call real8()
  call wrong_calls()
  print '(a)', 'test_fortran: all passed'

contains

  subroutine must(is_good, what)
    logical, intent(in) :: is_good
    character(*), intent(in) :: what
    if (.not. is_good) then
      print '(4a)', 'test_fortran: ', what, ': ', gridz_message()
      error stop 1
    end if
  end subroutine

  subroutine real4()
    real(real32) :: a(100), b(10, 12), c(9, 8, 7), d(2, 3, 4, 5), a2(100), b2(10, 12), c2(9, 8, 7), d2(2, 3, 4, 5)
    call random_number(a)
    call random_number(b)
    call random_number(c)
    call random_number(d)
    a(7) = ieee_value(a(7), ieee_quiet_nan)
    call gridz_compress(a, frame, status)
    call must(status == GRIDZ_OK, 'compress, rank 1')
    call gridz_decompress(frame, a2, status)
    call must(status == GRIDZ_OK .and. all(transfer(a, [0]) == transfer(a2, [0])), 'rank 1')
    call gridz_compress(b, frame, status, codec='ndzip')
    call gridz_decompress(frame, b2, status)
    call must(status == GRIDZ_OK .and. all(b == b2), 'rank 2')
    call gridz_compress(c, frame, status, level=2)
    call gridz_decompress(frame, c2, status)
    call must(status == GRIDZ_OK .and. all(c == c2), 'rank 3')
    call gridz_shape(frame, extents, status)
    call must(status == GRIDZ_OK .and. all(extents == [9, 8, 7]), 'the shape')
    call gridz_compress(d, frame, status, codec='lorenzo,level=dense')
    call gridz_decompress(frame, d2, status)
    call must(status == GRIDZ_OK .and. all(d == d2), 'rank 4')
  end subroutine

  subroutine real8()
    real(real64) :: a(100), b(10, 12), c(9, 8, 7), d(2, 3, 4, 5), a2(100), b2(10, 12), c2(9, 8, 7), d2(2, 3, 4, 5)
    call random_number(a)
    call random_number(b)
    call random_number(c)
    call random_number(d)
    call gridz_compress(a, frame, status)
    call gridz_decompress(frame, a2, status)
    call must(status == GRIDZ_OK .and. all(a == a2), 'real(8), rank 1')
    call gridz_compress(b, frame, status, codec='lorenzo', level=2)
    call gridz_decompress(frame, b2, status)
    call must(status == GRIDZ_OK .and. all(b == b2), 'real(8), rank 2')
    call gridz_compress(c, frame, status)
    call gridz_decompress(frame, c2, status)
    call must(status == GRIDZ_OK .and. all(c == c2), 'real(8), rank 3')
    call gridz_compress(d, frame, status)
    call gridz_decompress(frame, d2, status)
    call must(status == GRIDZ_OK .and. all(d == d2), 'real(8), rank 4')
  end subroutine

  subroutine wrong_calls()
    real(real32) :: field(6, 4), turned(4, 6), back(24), nothing(0, 3)
    real(real64) :: wide(6, 4)
    field = 1
    call gridz_compress(field, frame, status)
    call gridz_decompress(frame, turned, status)
    call must(status == GRIDZ_ERROR_INVALID_ARGUMENT .and. index(gridz_message(), 'shape') > 0, 'another shape')
    call gridz_decompress(frame, back, status)
    call must(status == GRIDZ_ERROR_INVALID_ARGUMENT .and. index(gridz_message(), 'rank 2') > 0, 'another rank')
    call gridz_decompress(frame, wide, status)
    call must(status == GRIDZ_ERROR_INVALID_ARGUMENT .and. index(gridz_message(), 'type') > 0, 'another type')
    call gridz_decompress(frame(:size(frame) - 1), field, status)
    call must(status == GRIDZ_ERROR_TRUNCATED .and. index(gridz_message(), 'type') == 0, 'a frame that is cut')
    frame(size(frame)) = ieor(frame(size(frame)), 16_int8)
    call gridz_decompress(frame, field, status)
    call must(status == GRIDZ_ERROR_CORRUPT, 'a damaged frame')
    call gridz_decompress(frame(:0), field, status)
    call must(status == GRIDZ_ERROR_TRUNCATED, 'no frame')
    call gridz_compress(field, frame, status, codec='zip')
    call must(status == GRIDZ_ERROR_UNSUPPORTED_JOB .and. index(gridz_message(), 'zip') > 0, 'an unknown codec')
    call gridz_compress(field, frame, status, codec='lorenzo,abs=1e-3')
    call must(status == GRIDZ_ERROR_UNSUPPORTED_JOB .and. index(gridz_message(), 'lossless') > 0, 'an unknown mode')
    call gridz_compress(field, frame, status, level=-1)
    call must(status == GRIDZ_ERROR_UNSUPPORTED_JOB, 'an unknown level')
    call gridz_compress(nothing, frame, status)
    call must(status == GRIDZ_OK, 'compressing nothing')
    call gridz_decompress(frame, nothing, status)
    call must(status == GRIDZ_OK, 'decompressing nothing')
  end subroutine
end program test_fortran
