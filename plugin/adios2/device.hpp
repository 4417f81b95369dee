// Synchronization that programs with NVIDIA GPUs expect of a Put: ADIOS2's own copy from a GPU
// waits for pending work, and so must gridz before it reads. Links no CUDA: a program with GPU
// pointers has already loaded the driver.
#ifndef GRIDZ_ADIOS2_DEVICE_HPP
#define GRIDZ_ADIOS2_DEVICE_HPP

namespace gridz_adios2 {

// If `data` is in GPU memory, waits until all work submitted to its CUDA context is done. Otherwise
// does nothing, and neither loads nor initializes CUDA. Throws std::runtime_error if the work has
// failed.
void wait_for_device(const void *data);

} // namespace gridz_adios2

#endif // GRIDZ_ADIOS2_DEVICE_HPP
