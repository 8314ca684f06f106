// kernels.h: everything that generated kernels use.
#pragma once
#include "attention.h"
#include "batch_norm.h"
#include "context.h"
#include "conv_any.h"
#include "conv_grad.h"
#include "depthwise.h"
#include "gemm.h"
#include "library.h"
#include "pool_grad.h"
#include "quant.h"
#include "resize.h"
#include "runs.h"
#include "winograd.h"

namespace gh {
inline namespace GH_ISA_NS {

inline double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

}  // namespace GH_ISA_NS
}  // namespace gh
