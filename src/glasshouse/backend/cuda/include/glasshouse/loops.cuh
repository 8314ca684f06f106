// loops.cuh: what kernels call that are loops and folds alone: a tenth of all headers, which halves the time of a small kernel in NVRTC.
#pragma once
#include "reduce.cuh"
