/* missing.h - the operations of kernels.h that have no CUDA kernel yet: their places in the table stay NULL. Layer 1. */
#ifndef TRI_GPU_MISSING_H
#define TRI_GPU_MISSING_H

/* One line per operation; who writes tri_cuda_NAME deletes its line. */
#define TRI_CUDA_MISSING_attn_bwd 0,

/* tri_cuda_NAME, or NULL if NAME stands above. */
#define TRI_CUDA_SECOND(a, b, ...)       b
#define TRI_CUDA_CHOOSE(missing, kernel) TRI_CUDA_SECOND(missing NULL, kernel, 0)
#define TRI_CUDA_ENTRY(name)             TRI_CUDA_CHOOSE(TRI_CUDA_MISSING_##name, tri_cuda_##name)

#endif
