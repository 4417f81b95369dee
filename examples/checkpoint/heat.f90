! A simulation that writes checkpoints through the gridz filter of HDF5 and restarts from them.
!
!     heat_f90             computes 40 steps, writes heat_f90.h5 after 20 of them
!     heat_f90 restart     reads that and computes the other 20
!
! Both print a checksum of the last state. The checksums are equal, because every bit of a
! checkpoint is restored. The state also makes a round trip through a frame in memory.
program heat
  use, intrinsic :: iso_fortran_env, only: int8, int64, real64
  use hdf5
  use gridz
  use gridz_hdf5
  implicit none
  integer, parameter :: n = 48, steps = 40, checkpoint = 20
  character(*), parameter :: file_name = 'heat_f90.h5'
  real(real64) :: t(n, n, n), next(n, n, n)
  character(16) :: argument
  integer :: first, i, error

  call h5open_f(error)
  call must(error, 'h5open_f')
  call get_command_argument(1, argument)
  if (argument == 'restart') then
    call load()
    first = checkpoint
  else
    t = 300
    t(n/4:n/2, n/3:n/2, :) = 900
    first = 0
  end if
  do i = first + 1, steps
    next = t
    next(2:n-1, 2:n-1, 2:n-1) = t(2:n-1, 2:n-1, 2:n-1) + 0.1_real64*(t(1:n-2, 2:n-1, 2:n-1) + t(3:n, 2:n-1, 2:n-1) &
        + t(2:n-1, 1:n-2, 2:n-1) + t(2:n-1, 3:n, 2:n-1) + t(2:n-1, 2:n-1, 1:n-2) + t(2:n-1, 2:n-1, 3:n) &
        - 6*t(2:n-1, 2:n-1, 2:n-1))
    t = next
    if (i == checkpoint) call save()
  end do
  call through_memory()
  print '(a,i0,a,z16.16)', 'step ', steps, ': ', checksum()
  call h5close_f(error)

contains

  subroutine must(error, what)
    integer, intent(in) :: error
    character(*), intent(in) :: what
    if (error < 0) then
      print '(3a)', 'heat_f90: ', what, ' failed'
      stop 1
    end if
  end subroutine

  subroutine save()
    integer(hid_t) :: file, space, dcpl, set
    integer(hsize_t), parameter :: extents(3) = n, chunk(3) = [n, n, n/2]
    call h5fcreate_f(file_name, H5F_ACC_TRUNC_F, file, error)
    call must(error, 'h5fcreate_f')
    call h5screate_simple_f(3, extents, space, error)
    call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, error)
    call h5pset_chunk_f(dcpl, 3, chunk, error)
    call gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_DENSE, error)
    call must(error, 'gridz_h5_set (is HDF5_PLUGIN_PATH set?)')
    call h5dcreate_f(file, 'temperature', H5T_NATIVE_DOUBLE, space, set, error, dcpl)
    call must(error, 'h5dcreate_f')
    call h5dwrite_f(set, H5T_NATIVE_DOUBLE, t, extents, error)
    call must(error, 'h5dwrite_f')
    call h5dclose_f(set, error)
    call h5pclose_f(dcpl, error)
    call h5sclose_f(space, error)
    call h5fclose_f(file, error)
    call must(error, 'h5fclose_f')
  end subroutine

  subroutine load()
    integer(hid_t) :: file, set
    integer(hsize_t), parameter :: extents(3) = n
    call h5fopen_f(file_name, H5F_ACC_RDONLY_F, file, error)
    call must(error, 'h5fopen_f')
    call h5dopen_f(file, 'temperature', set, error)
    call h5dread_f(set, H5T_NATIVE_DOUBLE, t, extents, error)
    call must(error, 'h5dread_f')
    call h5dclose_f(set, error)
    call h5fclose_f(file, error)
  end subroutine

  subroutine through_memory()
    integer(int8), allocatable :: frame(:)
    integer :: status
    call gridz_compress(t, frame, status)
    if (status == GRIDZ_OK) then
      t = 0
      call gridz_decompress(frame, t, status)
    end if
    if (status /= GRIDZ_OK) then
      print '(2a)', 'heat_f90: ', gridz_message()
      stop 1
    end if
  end subroutine

  integer(int64) function checksum()
    integer(int64), allocatable :: bits(:)
    integer :: k
    allocate (bits(size(t)))
    bits(:) = transfer(t, bits)
    checksum = 0
    do k = 1, size(bits)
      checksum = ieor(ishftc(checksum, 5), bits(k))
    end do
  end function
end program heat
