// library.h: ops that generated code calls as functions, because a loop nest does not say them well.
#pragma once
#include "context.h"

namespace gh {
inline namespace GH_ISA_NS {

}  // namespace GH_ISA_NS
}  // namespace gh
