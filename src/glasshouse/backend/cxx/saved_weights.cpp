// The plain C interface of a saved model. Everything above this line that begins with kGh describes the model.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GH_TEXT_OF(x) #x
#define GH_TEXT(x) GH_TEXT_OF(x)

static thread_local char gh_message[512];

static int gh_fail(const char* what, const char* detail) {
  snprintf(gh_message, sizeof gh_message, "%s%s%s", what, *detail ? ": " : "", detail);
  return 1;
}

// Where this library lies. Found while it is being loaded, because a relative path holds then and may not hold later.
static char gh_self[PATH_MAX];
__attribute__((constructor)) static void gh_find_self() {
  Dl_info found;
  if (kGhWeightsInside && dladdr((void*)&gh_find_self, &found) && found.dli_fname && !realpath(found.dli_fname, gh_self))
    gh_self[0] = 0;
}

// What stands behind the weights in their file; `weights_sums` in c_api.py says what the sums are for.
struct GhFooter {
  char mark[8];
  int64_t begin, bytes;
  uint64_t total, placed;
};
static bool gh_sums_match(const char* weights, const GhFooter& end) {
  const uint64_t* words = (const uint64_t*)weights;
  uint64_t total = 0, placed = 0;
  for (int64_t i = 0; i < end.bytes / 8; ++i) total += words[i], placed += words[i] * (uint64_t)(i + 1);
  return total == end.total && placed == end.placed;
}

// Maps the weights of one file, at whose end they lie. Returns 0, or 1 with a message.
static int gh_map_file(char** weights, const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return gh_fail(path, strerror(errno));
  struct stat info;
  GhFooter end{};
  const bool whole = !fstat(file, &info) &&
                     pread(file, &end, sizeof end, info.st_size - (off_t)sizeof end) == (ssize_t)sizeof end &&
                     !memcmp(end.mark, "GHWEIGHT", 8) && end.bytes == kGhWeightBytes && end.begin >= 0 &&
                     end.begin == info.st_size - (off_t)sizeof end - end.bytes;
  void* at = whole ? mmap(nullptr, kGhWeightBytes, PROT_READ, MAP_PRIVATE, file, end.begin) : MAP_FAILED;
  const int why = errno;
  close(file);
  if (!whole) return gh_fail(path, "not the file that this model was saved with");
  if (at == MAP_FAILED) return gh_fail(path, strerror(why));
  *weights = (char*)at;
  const char* verify = getenv("GLASSHOUSE_VERIFY");
  if (!(verify && !strcmp(verify, "0")) && !gh_sums_match(*weights, end))
    return gh_fail(path, "the weights are not those that were saved");
  return 0;
}

// Finds the weights: in a file of their own, or at the end of this library; one that was built again from its sources
// has none there and takes those of the library in the folder.
static int gh_map(char** weights, const char* folder) {
  char path[PATH_MAX];
  if (kGhWeightsInside && !gh_map_file(weights, gh_self)) return 0;
  if (*weights || (kGhWeightsInside && !folder)) return 1;
  const char* file = kGhWeightsInside ? "lib" GH_TEXT(GH_MODEL) ".so" : "weights.bin";
  if (snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", file) >= (int)sizeof path)
    return gh_fail("path too long", folder ? folder : "");
  return gh_map_file(weights, path);
}
