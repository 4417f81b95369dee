! The module gridz: every procedure of its generic interfaces, and that invalid calls return errors.
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
  call parts()
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
    call gridz_compress(b, frame, status, request='ndzip')
    call gridz_decompress(frame, b2, status)
    call must(status == GRIDZ_OK .and. all(b == b2), 'rank 2')
    call gridz_compress(c, frame, status, 'lorenzo,level=dense')
    call gridz_decompress(frame, c2, status)
    call must(status == GRIDZ_OK .and. all(c == c2), 'rank 3')
    call gridz_shape(frame, extents, status)
    call must(status == GRIDZ_OK .and. all(extents == [9, 8, 7]), 'the shape')
    call gridz_compress(d, frame, status, request='lorenzo,level=dense')
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
    call gridz_compress(b, frame, status, 'lorenzo,level=2')
    call gridz_decompress(frame, b2, status)
    call must(status == GRIDZ_OK .and. all(b == b2), 'real(8), rank 2')
    call gridz_compress(c, frame, status)
    call gridz_decompress(frame, c2, status)
    call must(status == GRIDZ_OK .and. all(c == c2), 'real(8), rank 3')
    call gridz_compress(d, frame, status)
    call gridz_decompress(frame, d2, status)
    call must(status == GRIDZ_OK .and. all(d == d2), 'real(8), rank 4')
  end subroutine

  ! Progressive reads: each rank and type, and invalid requests.
  subroutine parts()
    real(real32) :: a(4000), b(50, 60), c(20, 24, 28), d(8, 10, 12, 14), a2(4000), b2(50, 60), c2(10, 12, 14), d2(4, 5, 6, 7)
    real(real64) :: e(4000), f(50, 60), g(20, 24, 28), h(8, 10, 12, 14), e2(1000), f2(50, 60), g2(20, 24, 28), h2(8, 10, 12, 14)
    type(gridz_part_info) :: info
    integer :: i

    c = reshape([(sin(i*1e-3), i=1, size(c))], shape(c))
    g = c
    a = reshape(c, shape(a))
    b = reshape(c, shape(b))
    d = reshape(c, shape(d))
    e = a
    f = b
    h = d
    call gridz_compress(c, frame, status, request='multigrid,abs=1e-3,layers=2')
    call gridz_inspect_progressive(frame, info, status, level=1)
    call must(status == GRIDZ_OK .and. all(info%extents(:info%rank) == shape(c2)), 'what there would be')
    call must(info%bound == 8e-3_real64 .and. info%n_layers == 2 .and. info%frame_bytes <= size(frame), 'its bound')
    call gridz_decompress_progressive(frame(:info%frame_bytes), c2, status, level=1)
    call must(status == GRIDZ_OK .and. all(abs(c2 - c(::2, ::2, ::2)) <= 8.001e-3), 'a grid')
    call gridz_compress(a, frame, status, request='multigrid,abs=1e-3,layers=2')
    call gridz_decompress_progressive(frame, a2, status, layers=1)
    call must(status == GRIDZ_OK .and. all(abs(a2 - a) <= 8.001e-3), 'a layer, rank 1')
    call gridz_compress(b, frame, status, request='multigrid,abs=1e-3')
    call gridz_decompress_progressive(frame, b2, status, error=1d-3)
    call must(status == GRIDZ_OK .and. all(abs(b2 - b) <= 1.001e-3), 'an error, rank 2')
    call gridz_compress(d, frame, status, request='multigrid,abs=1e-3')
    call gridz_decompress_progressive(frame, d2, status, level=1)
    call must(status == GRIDZ_OK .and. all(abs(d2 - d(::2, ::2, ::2, ::2)) <= 1.001e-3), 'a grid, rank 4')
    call gridz_compress(e, frame, status, request='multigrid,abs=1e-3')
    call gridz_decompress_progressive(frame, e2, status, level=2)
    call must(status == GRIDZ_OK .and. all(abs(e2 - e(::4)) <= 1d-3), 'real(8), rank 1')
    call gridz_compress(f, frame, status, request='multigrid,abs=1e-3')
    call gridz_decompress_progressive(frame, f2, status, layers=1)
    call must(status == GRIDZ_OK .and. all(abs(f2 - f) <= 1d-3), 'real(8), rank 2')
    call gridz_compress(h, frame, status, request='multigrid,abs=1e-3')
    call gridz_decompress_progressive(frame, h2, status, level=0)
    call must(status == GRIDZ_OK .and. all(abs(h2 - h) <= 1d-3), 'real(8), rank 4')
    call gridz_compress(g, frame, status, request='multigrid,abs=1e-3')
    call gridz_decompress_progressive(frame, g2, status, error=0d0)
    call must(status == GRIDZ_OK .and. all(abs(g2 - g) <= 1d-3), 'real(8), rank 3')

    call gridz_decompress_progressive(frame, g2, status, level=1)
    call must(status == GRIDZ_ERROR_INVALID_ARGUMENT .and. index(gridz_message(), 'inspect_progressive returns') > 0, 'a shape')
    call gridz_decompress_progressive(frame, c2, status, level=1)
    call must(status == GRIDZ_ERROR_INVALID_ARGUMENT .and. index(gridz_message(), 'type') > 0, 'a type')
    call gridz_decompress_progressive(frame, g2, status, level=1, layers=1)
    call must(status == GRIDZ_ERROR_INVALID_ARGUMENT .and. index(gridz_message(), 'exactly one of level') > 0, 'two of three')
    call gridz_inspect_progressive(frame, info, status, layers=2)
    call must(status == GRIDZ_ERROR_INVALID_ARGUMENT .and. index(gridz_message(), 'the frame has 1') > 0, 'layers')
    call gridz_decompress_progressive(frame(:size(frame)/2), g2, status, layers=1)
    call must(status == GRIDZ_ERROR_TRUNCATED, 'half a frame')
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
    call gridz_compress(field, frame, status, request='zip')
    call must(status == GRIDZ_ERROR_UNSUPPORTED_JOB .and. index(gridz_message(), 'zip') > 0, 'an unknown codec')
    call gridz_compress(field, frame, status, request='lorenzo,abs=1e-3')
    call must(status == GRIDZ_ERROR_UNSUPPORTED_JOB .and. index(gridz_message(), 'lossless') > 0, 'an unknown mode')
    call gridz_compress(field, frame, status, 'lorenzo,level=9')
    call must(status == GRIDZ_ERROR_UNSUPPORTED_JOB, 'an unknown level')
    call gridz_compress(nothing, frame, status)
    call must(status == GRIDZ_OK, 'compressing nothing')
    call gridz_decompress(frame, nothing, status)
    call must(status == GRIDZ_OK, 'decompressing nothing')
  end subroutine
end program test_fortran
