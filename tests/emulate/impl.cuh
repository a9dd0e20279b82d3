/* impl.cuh - what the parts of the emulation share: queued work, device memory, faults. Test code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_EMULATE_IMPL_CUH
#define TRI_TESTS_EMULATE_IMPL_CUH

#include "emulate.cuh"

#include <vector>

/* The program's exit code when the emulation ends it. */
enum { EMU_EXIT = 99 };

/* Append to the stream's queue, or to what is captured of it. meets: it waits for other ranks. */
cudaError_t emu_queue(cudaStream_t s, std::function<void()> work, bool meets = false);
/* Whether the collective of this number in the process is to run as soon as it is queued: alike on all ranks
 * that call the same ones in the same order. */
bool emu_is_early(uint64_t number);
/* From queued work: by the device's clock it takes so many seconds more; so many in all. */
void emu_spend(double s);
void emu_take(double s);
/* From now on launches run only these blocks, numbered x first, of a grid that is `width` wide (0: as wide as
 * it was launched); none: all blocks again. */
void emu_only(std::vector<uint64_t> blocks, unsigned width);
/* Device memory of zeros, whose pages are taken when they are written, and which counts as nothing; by
 * cudaFree. NULL if there is no space for the addresses. */
void *emu_sparse(size_t bytes);
/* Device memory that a library takes, or gives back: so many bytes fewer, or more, are free. */
void emu_take_memory(long bytes);
/* From now on waiting for a stream gives this error: a kernel's fault, which stays. cudaSuccess: no more. */
void emu_stick(cudaError_t e);
/* Device memory may be touched between the two; they nest. */
void emu_memory_begin(void);
void emu_memory_end(void);
/* NULL, or why [p, p + bytes) is not inside one device allocation. */
const char *emu_device_range(const void *p, size_t bytes);
/* Faults of this program are explained from now on. */
void emu_watch_faults(void);
/* What the address is of a fault is: text for a message, or NULL if it is none of the emulation's. */
const char *emu_explain_device(const void *p);
const char *emu_explain_shared(const void *p);
/* The shared memory a block may have: all there is, or $TRI_EMULATE_SHARED bytes, as of the last read. */
size_t emu_shared_bytes(void);
size_t emu_shared_read(void);
/* A number that changes with every call, the same in every run of a program. */
uint64_t emu_noise(void);
/* A number that has nothing of x to be seen, the same for the same x. */
uint64_t emu_mix(uint64_t x);

#endif
