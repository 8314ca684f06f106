// groups.cuh: which rows a block has, where rows lie in groups of sizes that are known on the chip alone.
//
// Contract
// - `rows_of_tile<ROWS>(ends, groups, rows, tile)`: groups end at `ends`, the last one has all rows that are left; each is cut into tiles of ROWS
//   rows, counted through all groups. Rows of tile number `tile`, none behind the last one. An end before that of an earlier group is an empty group.
#pragma once
#include "platform.cuh"

namespace gh {

struct GroupRows { int group, first, rows; };

template <int ROWS, class E> GH_FN GroupRows rows_of_tile(const E *ends, int groups, int rows, int tile) {
  int begin = 0;
  for (int g = 0; g < groups; ++g) {
    const int64_t asked = g + 1 == groups ? (int64_t)rows : (int64_t)ends[g];
    const int end = asked < rows ? (int)asked : rows;
    if (end <= begin) continue;
    const int tiles = (end - begin + ROWS - 1) / ROWS, first = begin + tile * ROWS;
    if (tile < tiles) return {g, first, end - first < ROWS ? end - first : ROWS};
    tile -= tiles, begin = end;
  }
  return {0, 0, 0};
}

}  // namespace gh
