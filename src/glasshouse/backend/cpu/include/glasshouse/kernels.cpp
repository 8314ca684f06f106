// kernels.cpp: the templates that extern.h names, compiled once for all generated files of a machine: one part of them, or all.
#undef GH_EXTERN_KERNELS
#include "winograd.h"

namespace gh {
inline namespace GH_ISA_NS {
#if defined(GH_PART)
GH_PART()
#else
GH_KERNELS()
GH_WINOGRAD_KERNELS()
#endif
}  // namespace GH_ISA_NS
}  // namespace gh
