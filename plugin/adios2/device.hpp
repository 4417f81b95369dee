// What programs that compute on NVIDIA GPUs expect of a Put: as ADIOS2's own copy from a GPU waits for what is under way there,
// so does gridz before it reads. Links no CUDA: a program whose pointers lead to a GPU has the driver loaded.
#ifndef GRIDZ_ADIOS2_DEVICE_HPP
#define GRIDZ_ADIOS2_DEVICE_HPP

namespace gridz_adios2 {

// Waits, if `data` is in the memory of a GPU, until all work is done that its CUDA context was given. Does nothing else, and
// neither loads nor starts CUDA. Throws std::runtime_error if the work has failed.
void wait_for_device(const void *data);

} // namespace gridz_adios2

#endif // GRIDZ_ADIOS2_DEVICE_HPP
