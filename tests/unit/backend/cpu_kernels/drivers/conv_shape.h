// conv_shape.h: the sizes of a convolution, from the numbers that a test gives.
#pragma once
#include "glasshouse/conv.h"

// a: N H W C OH OW OC kh kw sh sw ph pw dh dw groups
static gh::ConvShape shape(const long* a) {
  gh::ConvShape s{a[0], a[1], a[2], a[3], a[4], a[5], a[6], (int)a[7], (int)a[8]};
  s.sh = (int)a[9], s.sw = (int)a[10], s.ph = (int)a[11], s.pw = (int)a[12], s.dh = (int)a[13], s.dw = (int)a[14];
  s.groups = a[15];
  return s;
}
