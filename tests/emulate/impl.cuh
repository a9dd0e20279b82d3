/* impl.cuh - the common base of the emulation: queued work, device memory, faults. Test code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_EMULATE_IMPL_CUH
#define TRI_TESTS_EMULATE_IMPL_CUH

#include "emulate.cuh"

#include <vector>

/* The exit code of a program ended by the emulation. */
enum { EMU_EXIT = 99 };

/* Appends to the stream's queue, or to its capture. */
cudaError_t emu_queue(cudaStream_t s, std::function<void()> work);
/* The same for work that waits for other ranks. `begin` runs before the work is queued, `end` after. A
 * captured one has both at each launch of its graph. */
struct emu_meeting {
  std::function<void(cudaStream_t)> begin, end;
};
cudaError_t emu_queue_meeting(cudaStream_t s, std::function<void()> work, const emu_meeting &m);
/* Returns whether the process's collective with this number runs as soon as it is queued. The answer is the
 * same on all ranks with the same collectives in the same order. */
bool emu_is_early(uint64_t number);
/* Called from queued work. The first adds seconds of the device's clock to the work, the second sets its
 * total. */
void emu_spend(double s);
void emu_take(double s);
/* From now on launches run only these blocks, numbered x first, of a grid with this width. Width 0 keeps the
 * launched width. An empty list runs all blocks again. */
void emu_only(std::vector<uint64_t> blocks, unsigned width);
/* Returns device memory of zeros. Its pages are taken when written, and it does not count as used. Free it by
 * cudaFree. Returns NULL if there is no address space. */
void *emu_sparse(size_t bytes);
/* Takes device memory for a library, or gives it back, so this many bytes fewer or more are free. */
void emu_take_memory(long bytes);
/* From now on every wait for a stream gives this error, like the sticky error of a kernel. cudaSuccess ends
 * it. */
void emu_stick(cudaError_t e);
/* Between the two calls device memory may be touched. They nest. */
void emu_memory_begin(void);
void emu_memory_end(void);
/* Returns NULL, or the reason why [p, p + bytes) is not inside one device allocation. */
const char *emu_device_range(const void *p, size_t bytes);
/* Memory faults of this program are explained from now on. */
void emu_watch_faults(void);
/* Describes the address of a fault for a message. Returns NULL if it is not the emulation's. */
const char *emu_explain_device(const void *p);
const char *emu_explain_shared(const void *p);
/* Shared memory a block may have: all there is, or $TRI_EMULATE_SHARED bytes as of the last read. */
size_t emu_shared_bytes(void);
size_t emu_shared_read(void);
/* Returns a number that changes with every call and repeats in every run of a program. */
uint64_t emu_noise(void);
/* Hashes x to a number without visible relation to x. */
uint64_t emu_mix(uint64_t x);

#endif
