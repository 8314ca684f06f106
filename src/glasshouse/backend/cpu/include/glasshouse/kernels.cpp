// kernels.cpp: the templates that extern.h names, compiled once for all generated files of a machine.
#undef GH_EXTERN_KERNELS
#include "winograd.h"

namespace gh {
inline namespace GH_ISA_NS {
GH_KERNELS()
GH_WINOGRAD_KERNELS()
}  // namespace GH_ISA_NS
}  // namespace gh
