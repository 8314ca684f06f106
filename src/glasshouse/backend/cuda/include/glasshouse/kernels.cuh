// kernels.cuh: everything that generated kernels may call.
#pragma once
#include "after.cuh"
#include "attention.cuh"
#include "conv.cuh"
#include "gemm_tma.cuh"
#include "library.cuh"
