! The module gridz_bulk: boxes in Fortran's order, copies, and that invalid calls return errors.
program test_bulk
  use, intrinsic :: iso_c_binding, only: c_loc
  use hdf5
  use gridz_hdf5
  use gridz_bulk
  implicit none
  integer(hsize_t), parameter :: extents(3) = [20, 30, 40], chunk(3) = [8, 9, 10]
  real, target :: field(20, 30, 40), back(20, 30, 40), part(5, 6, 7), grid(5, 15, 10)
  type(gridz_h5_part_info) :: info
  integer(hid_t) :: file, space, dcpl, set, copied, coarse
  integer :: error

  call random_number(field)
  call random_number(part)
  call h5open_f(error)
  call h5fcreate_f('test_bulk.h5', H5F_ACC_TRUNC_F, file, error)
  call h5screate_simple_f(3, extents, space, error)
  call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, error)
  call h5pset_chunk_f(dcpl, 3, chunk, error)
  call gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_FAST, error)
  call h5dcreate_f(file, 'x', H5T_NATIVE_REAL, space, set, error, dcpl)
  call h5dcreate_f(file, 'copied', H5T_NATIVE_DOUBLE, space, copied, error)

  call gridz_h5_write(set, H5T_NATIVE_REAL, c_loc(field), error)
  call must(error == 0, 'writing all')
  call gridz_h5_write(set, H5T_NATIVE_REAL, c_loc(part), error, start=[3_hsize_t, 4_hsize_t, 5_hsize_t], &
      count=shape(part, hsize_t))
  call must(error == 0, 'writing a box')
  field(4:8, 5:10, 6:12) = part
  call h5dread_f(set, H5T_NATIVE_REAL, back, extents, error)
  call must(all(transfer(back, [0]) == transfer(field, [0])), 'h5dread_f')
  part = 0
  call gridz_h5_read(set, H5T_NATIVE_REAL, c_loc(part), error, start=[1_hsize_t, 2_hsize_t, 3_hsize_t], &
      count=shape(part, hsize_t))
  call must(error == 0 .and. all(transfer(part, [0]) == transfer(field(2:6, 3:8, 4:10), [0])), 'reading a box')
  call gridz_h5_copy(set, copied, error)
  back = 0
  call gridz_h5_read(copied, H5T_NATIVE_REAL, c_loc(back), error)
  call must(error == 0 .and. all(transfer(back, [0]) == transfer(field, [0])), 'a copy')

  ! Every second element, also along a chunk extent that is not a multiple of 2 but covers the whole
  ! axis.
  call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, error)
  call h5pset_chunk_f(dcpl, 3, [8_hsize_t, 30_hsize_t, 6_hsize_t], error)
  call gridz_h5_set_mode(dcpl, GRIDZ_CODEC_MULTIGRID, GRIDZ_MODE_ABS, 1d-3, GRIDZ_LEVEL_FAST, error)
  call h5dcreate_f(file, 'coarse', H5T_NATIVE_REAL, space, coarse, error, dcpl)
  call gridz_h5_write(coarse, H5T_NATIVE_REAL, c_loc(field), error)
  call must(error == 0, 'writing by multigrid')
  call gridz_h5_inspect_progressive(coarse, info, error, level=1, start=[5_hsize_t, 0_hsize_t, 20_hsize_t], &
      count=[10_hsize_t, 30_hsize_t, 20_hsize_t])
  call must(error == 0 .and. info%rank == 3 .and. all(info%extents(:3) == shape(grid)), 'inspecting')
  call must(info%n_levels == 1 .and. info%level == 1 .and. info%array_bytes == 4*size(grid), 'levels')
  grid = 0
  call gridz_h5_read_progressive(coarse, H5T_NATIVE_REAL, c_loc(grid), error, level=1, &
      start=[5_hsize_t, 0_hsize_t, 20_hsize_t], count=[10_hsize_t, 30_hsize_t, 20_hsize_t], info=info)
  call must(error == 0 .and. all(abs(grid - field(7:15:2, ::2, 21:39:2)) <= info%bound) .and. info%bound <= 1d-3, 'a grid')
  call gridz_h5_read_progressive(coarse, H5T_NATIVE_REAL, c_loc(back), error, error=1d-3)
  call must(error == 0 .and. all(abs(back - field) <= 1e-3), 'an error')
  call gridz_h5_read_progressive(coarse, H5T_NATIVE_REAL, c_loc(back), error, layers=1)
  call must(error == 0, 'layers')
  call gridz_h5_read_progressive(coarse, H5T_NATIVE_REAL, c_loc(back), error, level=2)
  call must(error == 100 .and. index(gridz_h5_message(), 'the levels are 0 to 1') > 0, 'no such level')
  call gridz_h5_read_progressive(coarse, H5T_NATIVE_REAL, c_loc(back), error, level=1, layers=1)
  call must(error == 100 .and. index(gridz_h5_message(), 'one of level') > 0, 'two of three')
  call gridz_h5_inspect_progressive(coarse, info, error)
  call must(error == 100 .and. index(gridz_h5_message(), 'one of level') > 0, 'none of three')
  call h5dclose_f(coarse, error)

  call gridz_h5_write(set, H5T_NATIVE_REAL, c_loc(part), error, start=[0_hsize_t, 0_hsize_t], &
      count=[5_hsize_t, 6_hsize_t])
  call must(error == 100 .and. index(gridz_h5_message(), 'rank 3, start has size 2, count has size 2') > 0, &
      'two of three axes')
  call gridz_h5_write(set, H5T_NATIVE_REAL, c_loc(part), error, start=[0_hsize_t, 0_hsize_t, 38_hsize_t], &
      count=shape(part, hsize_t))
  call must(error == 100 .and. index(gridz_h5_message(), 'not inside the dataset') > 0, 'outside')
  call gridz_h5_write(set, H5T_NATIVE_REAL, c_loc(part), error, start=[0_hsize_t, 0_hsize_t, 0_hsize_t])
  call must(error == 100 .and. index(gridz_h5_message(), 'count') > 0, 'no count')
  call gridz_h5_write(space, H5T_NATIVE_REAL, c_loc(part), error)
  call must(error == 400, 'no dataset')
  call h5dclose_f(set, error)
  call h5dclose_f(copied, error)
  call h5fclose_f(file, error)
  print '(a)', 'test_bulk: all passed'

contains

  subroutine must(is_good, what)
    logical, intent(in) :: is_good
    character(*), intent(in) :: what
    if (.not. is_good) then
      print '(4a)', 'test_bulk: ', what, ': ', gridz_h5_message()
      error stop 1
    end if
  end subroutine
end program
