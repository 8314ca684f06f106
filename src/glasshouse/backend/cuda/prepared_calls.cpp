// prepared_calls.cpp: makes calls of foreign functions that prepared_calls.py has laid out, one after the other.
//
// Contract
// - A word is `value`, or, where `from` is set, what stands there when the call is made, plus `value`; rounded up to a multiple of
//   `below` + 1, a power of two.
// - Functions take whole numbers and addresses alone, and give a status. All are called with MOST words: on Linux (x86-64, AArch64) a word
//   has a place of 8 bytes, of which a function reads what it declares, and the caller cleans up behind it.
// - A call without a function writes its second word to the address that is its first.
// - Gives how many calls were made: all, or those before the first one whose status is not 0, which is left in `status`.
#include <stdint.h>

namespace {
constexpr int MOST = 16;
typedef uint64_t U;
typedef int (*Function)(U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U);
struct Word {
  U value;
  const U* from;
  U below;
  U read() const { return ((from ? *from + value : value) + below) & ~below; }
};
struct Call {
  Function function;
  const Word* words;
  U count;
};
}  // namespace

extern "C" __attribute__((visibility("default"))) int64_t gh_make_calls(const Call* calls, int64_t count, int* status) {
  for (int64_t i = 0; i < count; ++i) {
    const Call& call = calls[i];
    if (!call.function) {
      *(U*)call.words[0].value = call.words[1].read();
      continue;
    }
    U w[MOST] = {};
    for (U n = 0; n < call.count; ++n) w[n] = call.words[n].read();
    *status =
        call.function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15]);
    if (*status) return i;
  }
  return count;
}
