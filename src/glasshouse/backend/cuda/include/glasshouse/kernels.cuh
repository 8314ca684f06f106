// kernels.cuh: everything that generated kernels may call.
#pragma once
#include "attention.cuh"
#include "conv.cuh"
#include "gemm_cluster.cuh"
#include "library.cuh"
