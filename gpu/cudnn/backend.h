/* backend.h - the part of cuDNN's backend API used in this folder. It is written after NVIDIA's documentation
 * (cuDNN 9, cudnn_graph.h), so no build needs its headers. tests/gpu/cudnn_paper.sh compares it with the
 * headers if they are installed. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_CUDNN_BACKEND_H
#define TRI_GPU_CUDNN_BACKEND_H

#include <stddef.h>
#include <stdint.h>

/* cudnnStatus_t. 0 is success, 2000 to 2999 a wrong call, 3000 to 3999 not supported. */
enum { CUDNN_OK = 0, CUDNN_UNSUPPORTED = 3000, CUDNN_INTERNAL = 4000 };
/* cudnnDataType_t */
enum { CUDNN_F32 = 0, CUDNN_I32 = 4, CUDNN_BF16 = 9, CUDNN_BOOL = 11 };
/* cudnnBackendDescriptorType_t */
enum {
  CUDNN_POINTWISE = 0,
  CUDNN_ENGINE = 2,
  CUDNN_ENGINECFG = 3,
  CUDNN_ENGINEHEUR = 4,
  CUDNN_PLAN = 5,
  CUDNN_OP_POINTWISE = 13,
  CUDNN_GRAPH = 15,
  CUDNN_PACK = 16,
  CUDNN_TENSOR = 17,
  CUDNN_MATMUL = 18,
  CUDNN_OP_MATMUL = 19,
  CUDNN_REDUCTION = 21,
  CUDNN_OP_REDUCTION = 22,
  CUDNN_OP_RESHAPE = 31,
  CUDNN_DEVICEPROP = 38
};
/* cudnnBackendAttributeType_t */
enum {
  CUDNN_OF_HANDLE = 0,
  CUDNN_OF_DATA_TYPE = 1,
  CUDNN_OF_BOOL = 2,
  CUDNN_OF_INT64 = 3,
  CUDNN_OF_POINTER = 6,
  CUDNN_OF_HEUR_MODE = 8,
  CUDNN_OF_NOTE = 11,
  CUDNN_OF_POINTWISE_MODE = 14,
  CUDNN_OF_DESCRIPTOR = 15,
  CUDNN_OF_REDUCTION_MODE = 18,
  CUDNN_OF_CHAR = 24
};
/* cudnnBackendAttributeName_t */
enum {
  CUDNN_POINTWISE_MODE = 0,
  CUDNN_POINTWISE_TYPE = 1,
  CUDNN_POINTWISE_AXIS = 9,
  CUDNN_HEUR_MODE = 200,
  CUDNN_HEUR_GRAPH = 201,
  CUDNN_HEUR_RESULTS = 202,
  CUDNN_HEUR_DEVICEPROP = 204,
  CUDNN_CFG_ENGINE = 300,
  CUDNN_PLAN_HANDLE = 400,
  CUDNN_PLAN_CFG = 401,
  CUDNN_PLAN_WORKSPACE = 402,
  CUDNN_PLAN_DEVICEPROP = 407,
  CUDNN_OP_POINTWISE_DESC = 750,
  CUDNN_OP_POINTWISE_X = 751,
  CUDNN_OP_POINTWISE_B = 752,
  CUDNN_OP_POINTWISE_Y = 753,
  CUDNN_OP_POINTWISE_T = 758,
  CUDNN_GRAPH_HANDLE = 800,
  CUDNN_GRAPH_OPS = 801,
  CUDNN_TENSOR_ALIGNMENT = 900,
  CUDNN_TENSOR_TYPE = 901,
  CUDNN_TENSOR_DIMS = 902,
  CUDNN_TENSOR_STRIDES = 903,
  CUDNN_TENSOR_UID = 906,
  CUDNN_TENSOR_VIRTUAL = 907,
  CUDNN_TENSOR_BY_VALUE = 908,
  CUDNN_TENSOR_RAGGED = 913,
  CUDNN_PACK_UIDS = 1000,
  CUDNN_PACK_POINTERS = 1001,
  CUDNN_PACK_WORKSPACE = 1003,
  CUDNN_ENGINE_INDEX = 1301,
  CUDNN_ENGINE_NOTES = 1303,
  CUDNN_MATMUL_TYPE = 1500,
  CUDNN_OP_MATMUL_A = 1520,
  CUDNN_OP_MATMUL_B = 1521,
  CUDNN_OP_MATMUL_C = 1522,
  CUDNN_OP_MATMUL_DESC = 1523,
  CUDNN_OP_MATMUL_M = 1525,
  CUDNN_OP_MATMUL_N = 1526,
  CUDNN_OP_MATMUL_K = 1527,
  CUDNN_REDUCTION_MODE = 1600,
  CUDNN_REDUCTION_TYPE = 1601,
  CUDNN_OP_REDUCTION_X = 1610,
  CUDNN_OP_REDUCTION_Y = 1611,
  CUDNN_OP_REDUCTION_DESC = 1612,
  CUDNN_OP_RESHAPE_X = 2200,
  CUDNN_OP_RESHAPE_Y = 2201,
  CUDNN_DEVICEPROP_JSON = 2702
};
/* cudnnPointwiseMode_t, cudnnReduceTensorOp_t */
enum {
  CUDNN_ADD = 0,
  CUDNN_MUL = 1,
  CUDNN_SUB = 9,
  CUDNN_EXP = 13,
  CUDNN_CMP_GT = 302,
  CUDNN_CMP_GE = 303,
  CUDNN_CMP_LT = 304,
  CUDNN_AND = 400,
  CUDNN_GEN_INDEX = 501,
  CUDNN_SELECT = 601,
  CUDNN_REDUCE_ADD = 0
};
/* cudnnBackendHeurMode_t, cudnnBackendNumericalNote_t, and the most notes of cuDNN 9 */
enum { CUDNN_HEUR_FALLBACK = 2, CUDNN_HEUR_A = 3, CUDNN_NOTE_NONDETERMINISTIC = 4, CUDNN_NOTES = 32 };

typedef void *cudnn_handle, *cudnn_desc;

/* The functions of the library, cudnnGetVersion and so on. */
typedef struct cudnn_api {
  size_t (*get_version)(void);
  void (*last_error)(char *text, size_t bytes);
  int (*create)(cudnn_handle *out);
  int (*destroy)(cudnn_handle h);
  int (*set_stream)(cudnn_handle h, void *stream);
  int (*make)(int type, cudnn_desc *out);
  int (*drop)(cudnn_desc d);
  int (*set)(cudnn_desc d, int name, int type, int64_t count, const void *from);
  int (*get)(cudnn_desc d, int name, int type, int64_t most, int64_t *count, void *to);
  int (*finalize)(cudnn_desc d);
  int (*execute)(cudnn_handle h, cudnn_desc plan, cudnn_desc pack);
} cudnn_api;

#endif
