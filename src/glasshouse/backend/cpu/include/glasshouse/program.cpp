// program.cpp: the code of program.h, compiled once for all programs of a machine.
#undef GH_EXTERN_KERNELS
#include "program.h"
