! Parallel HDF5 with the gridz filter from Fortran: a collective write and a collective read of a chunked dataset.
!
!     mpirun -n 4 collective_f90 [FILE]
!
! Each rank has some planes, which share chunks with those of its neighbors, and compares the data
! that it reads with the data that it wrote.
program collective
  use, intrinsic :: iso_fortran_env, only: real64, int64
  use mpi
  use hdf5
  use gridz_hdf5
  implicit none
  integer(hsize_t), parameter :: extents(3) = [40, 30, 50], chunk(3) = [20, 30, 16]
  real(real64), allocatable :: field(:, :, :), back(:, :, :)
  integer(hsize_t) :: start(3), count(3)
  integer(hid_t) :: fapl, dcpl, dxpl, file, set, space, memory
  integer :: rank, ranks, error, i, j, k, per_rank
  character(256) :: name

  call mpi_init(error)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, name)
  if (name == '') name = 'collective_f90.h5'
  per_rank = (int(extents(3)) + ranks - 1)/ranks
  start = [0, 0, min(rank*per_rank, int(extents(3)))]
  count = [extents(1), extents(2), min(int(per_rank, hsize_t), extents(3) - start(3))]
  allocate (field(count(1), count(2), count(3)), back(count(1), count(2), count(3)))
  do k = 1, int(count(3)); do j = 1, int(count(2)); do i = 1, int(count(1))
    field(i, j, k) = sin(i*0.1_real64)*j + (k + start(3))
  end do; end do; end do

  call h5open_f(error)
  call h5pcreate_f(H5P_FILE_ACCESS_F, fapl, error)
  call h5pset_fapl_mpio_f(fapl, MPI_COMM_WORLD, MPI_INFO_NULL, error)
  call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, error)
  call h5pset_chunk_f(dcpl, 3, chunk, error)
  call gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_FAST, error)
  call must('gridz_h5_set (is HDF5_PLUGIN_PATH set on all ranks?)')
  call h5pcreate_f(H5P_DATASET_XFER_F, dxpl, error)
  call h5pset_dxpl_mpio_f(dxpl, H5FD_MPIO_COLLECTIVE_F, error)
  call h5screate_simple_f(3, extents, space, error)
  call h5screate_simple_f(3, count, memory, error)
  if (count(3) > 0) then
    call h5sselect_hyperslab_f(space, H5S_SELECT_SET_F, start, count, error)
  else
    call h5sselect_none_f(space, error)
    call h5sselect_none_f(memory, error)
  end if
  call h5fcreate_f(trim(name), H5F_ACC_TRUNC_F, file, error, access_prp=fapl)
  call must('h5fcreate_f')
  call h5dcreate_f(file, 'x', H5T_NATIVE_DOUBLE, space, set, error, dcpl)
  call must('h5dcreate_f')
  call h5dwrite_f(set, H5T_NATIVE_DOUBLE, field, count, error, memory, space, dxpl)
  call must('the collective write')
  call h5dread_f(set, H5T_NATIVE_DOUBLE, back, count, error, memory, space, dxpl)
  call must('the collective read')
  error = -count_different()
  call must('the comparison')
  call h5dclose_f(set, error)
  call h5fclose_f(file, error)
  call must('closing')
  if (rank == 0) print '(i0,a)', ranks, ' ranks: the same bit for bit'
  call h5close_f(error)
  call mpi_finalize(error)

contains

  subroutine must(what)
    character(*), intent(in) :: what
    integer :: ignored
    if (error < 0) then
      print '(a,i0,3a)', 'collective_f90, rank ', rank, ': ', what, ' failed'
      call mpi_abort(MPI_COMM_WORLD, 1, ignored)
    end if
  end subroutine

  integer function count_different()
    count_different = int(sum(merge(0_int64, 1_int64, transfer(field, [0_int64]) == transfer(back, [0_int64]))))
  end function
end program collective
