// kernels.cuh: everything that generated kernels may call.
#pragma once
#include "after.cuh"
#include "attention_grad.cuh"
#include "attention_tma.cuh"
#include "conv.cuh"
#include "gemm_turns.cuh"
#include "library.cuh"
#include "norm_grad.cuh"
#include "places.cuh"
#include "products.cuh"
#include "turn.cuh"
