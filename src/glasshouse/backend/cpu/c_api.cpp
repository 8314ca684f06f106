
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

// Code for a wider processor would end in an illegal instruction; say so before any of it runs.
static const char* gh_missing_feature() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#define GH_NEEDS(name) \
  if (!__builtin_cpu_supports(name)) return name
#ifdef __AVX2__
  GH_NEEDS("avx2");
  GH_NEEDS("fma");
#endif
#ifdef __AVX512F__
  GH_NEEDS("avx512f");
  GH_NEEDS("avx512bw");
  GH_NEEDS("avx512vl");
#endif
#ifdef __AVX512BF16__
  GH_NEEDS("avx512bf16");
#endif
#ifdef __AVX512VNNI__
  GH_NEEDS("avx512vnni");
#endif
#endif
  return nullptr;
}

struct GH_MODEL {
  pthread_mutex_t lock;
  gh::ThreadPool* pool;
  char* weights;  // the file, mapped; pages that are only packed from can be dropped again
  char* arena;
  void* fixed[kGhTable];  // what the table points to in every run: weights, variables, packed weights
  bool owned[kGhTable];
  GH_MODEL *before, *after;  // in the list of all models
};

// A fork waits for the runs that are under way, so that the child has every lock free and every variable whole.
static pthread_mutex_t gh_models_lock = PTHREAD_MUTEX_INITIALIZER;
static GH_MODEL* gh_models = nullptr;
static void gh_before_fork() {
  pthread_mutex_lock(&gh_models_lock);
  for (GH_MODEL* m = gh_models; m; m = m->after) pthread_mutex_lock(&m->lock);
}
static void gh_after_fork() {
  for (GH_MODEL* m = gh_models; m; m = m->after) pthread_mutex_unlock(&m->lock);
  pthread_mutex_unlock(&gh_models_lock);
}
static void gh_list(GH_MODEL* m) {
  static const int registered = pthread_atfork(gh_before_fork, gh_after_fork, gh_after_fork);
  (void)registered;
  pthread_mutex_lock(&gh_models_lock);
  m->after = gh_models;
  if (gh_models) gh_models->before = m;
  gh_models = m;
  pthread_mutex_unlock(&gh_models_lock);
}
static void gh_unlist(GH_MODEL* m) {
  pthread_mutex_lock(&gh_models_lock);
  if (m->after) m->after->before = m->before;
  if (m->before) m->before->after = m->after;
  else gh_models = m->after;
  pthread_mutex_unlock(&gh_models_lock);
}

static void* gh_bytes(int64_t count) {
  void* made = nullptr;
  return posix_memalign(&made, 64, (size_t)(count > 0 ? count : 1)) ? nullptr : made;
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
static int gh_map_file(GH_MODEL* m, const char* path) {
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
  m->weights = (char*)at;
  const char* verify = getenv("GLASSHOUSE_VERIFY");
  if (!(verify && !strcmp(verify, "0")) && !gh_sums_match(m->weights, end))
    return gh_fail(path, "the weights are not those that were saved");
  return 0;
}

// Finds the weights: in a file of their own, or at the end of this library; one that was built again from its sources
// has none there and takes those of the library in the folder.
static int gh_map(GH_MODEL* m, const char* folder) {
  char path[PATH_MAX];
  if (kGhWeightsInside && !gh_map_file(m, gh_self)) return 0;
  if (m->weights || (kGhWeightsInside && !folder)) return 1;
  const char* file = kGhWeightsInside ? "lib" GH_TEXT(GH_MODEL) ".so" : "weights.bin";
  if (snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", file) >= (int)sizeof path)
    return gh_fail("path too long", folder ? folder : "");
  return gh_map_file(m, path);
}

// Packs weights one by one. What one was packed from goes back to the system, which reads it again should somebody
// want it: at no time are all weights in memory twice.
static int gh_pack(GH_MODEL* m) {
  void* table[kGhTable];
  memcpy(table, m->fixed, sizeof table);
  for (int place : kGhPacked) {
    if (place < 0) continue;
    if (!(m->fixed[place] = gh_bytes(glasshouse_packed_bytes(place)))) return gh_fail("out of memory", "");
    m->owned[place] = true;
    table[place] = m->fixed[place];
    glasshouse_prepare(m->pool, table);
    table[place] = nullptr;
    madvise(m->weights, kGhWeightBytes, MADV_DONTNEED);
  }
  return 0;
}

static int gh_fill(GH_MODEL* m) {
  for (const GhSource& s : kGhSources) {
    if (s.place < 0) continue;
    m->fixed[s.place] = m->weights + s.offset;
    if (!s.variable) continue;
    void* own = gh_bytes(s.bytes);
    if (!own) return gh_fail("out of memory", "");
    memcpy(own, m->weights + s.offset, s.bytes);
    m->fixed[s.place] = own;
    m->owned[s.place] = true;
  }
  for (const GhUpdate& u : kGhUpdates) {
    if (u.variable < 0 || u.how == kGhCopy) continue;
    if (u.how == kGhInPlace) {
      m->fixed[u.next] = m->fixed[u.variable];
      continue;
    }
    if (!(m->fixed[u.next] = gh_bytes(u.bytes))) return gh_fail("out of memory", "");
    m->owned[u.next] = true;
  }
  if (!(m->arena = (char*)gh_bytes(kGhArenaBytes))) return gh_fail("out of memory", "");
  return gh_pack(m);
}

GH_API const char* GH_NAME(error)(void) { return gh_message; }

// For `glasshouse.load`: which module.json this code belongs to.
GH_API const char* glasshouse_contract(void) { return kGhContract; }

GH_API void GH_NAME(destroy)(GH_MODEL* m) {
  if (!m) return;
  gh_unlist(m);
  for (int place = 0; place < kGhTable; ++place)
    if (m->owned[place]) free(m->fixed[place]);
  free(m->arena);
  if (m->weights) munmap(m->weights, kGhWeightBytes);
  delete m->pool;
  pthread_mutex_destroy(&m->lock);
  free(m);
}

GH_API GH_MODEL* GH_NAME(create)(const char* folder, int threads) {
  gh_message[0] = 0;
  if (kGhNeedsPython[0]) return gh_fail("the model needs Python", kGhNeedsPython), nullptr;
  if (const char* feature = gh_missing_feature()) return gh_fail("the model was built for a processor with", feature), nullptr;
  GH_MODEL* m = (GH_MODEL*)calloc(1, sizeof(GH_MODEL));
  if (!m) return gh_fail("out of memory", ""), nullptr;
  pthread_mutex_init(&m->lock, nullptr);
  gh_list(m);
  m->pool = new gh::ThreadPool(threads > 0 ? threads : (int)sysconf(_SC_NPROCESSORS_ONLN));
  if (gh_map(m, folder) || gh_fill(m)) {
    GH_NAME(destroy)(m);
    return nullptr;
  }
  return m;
}

GH_API int GH_NAME(run)(GH_MODEL* m, const void* const* inputs, void* const* outputs, const int64_t* sizes) {
  static const int64_t none[1] = {0};
  if (!sizes) {
    if (kGhSymbolCount) return gh_fail("sizes of the symbols are needed", "");
    sizes = none;
  }
  for (int i = 0; i < kGhSymbolCount; ++i)
    if (sizes[i] < kGhSymbols[i].low || sizes[i] > kGhSymbols[i].high)
      return gh_fail("a size lies outside of the range that was compiled for", kGhSymbols[i].name);
  pthread_mutex_lock(&m->lock);
  void* table[kGhTable];
  void* copies[kGhTable] = {};
  memcpy(table, m->fixed, sizeof table);
  // A weight or variable that is an output keeps the value that it had before this run.
  for (const GhSource& s : kGhSources)
    if (s.place >= 0 && s.leaves && (copies[s.place] = gh_bytes(s.bytes))) {
      memcpy(copies[s.place], m->fixed[s.place], s.bytes);
      table[s.place] = copies[s.place];
    }
  for (int i = 0; i < kGhInputCount; ++i) table[kGhInputs[i].place] = (void*)inputs[i];
  for (int i = 0; i < kGhOutputCount; ++i)
    if (kGhOutputs[i].direct) table[kGhOutputs[i].place] = outputs[i];
  const int bad = glasshouse_run(m->pool, table, m->arena, sizes, 0, kGhSteps, nullptr);
  if (!bad) {
    for (int i = 0; i < kGhOutputCount; ++i)
      if (!kGhOutputs[i].direct) memcpy(outputs[i], table[kGhOutputs[i].place], GH_NAME(output_bytes)(i, sizes));
    for (const GhUpdate& u : kGhUpdates) {
      if (u.variable < 0) continue;
      if (u.how == kGhTurns) {  // the old value's memory takes the next new one
        void* old = m->fixed[u.variable];
        m->fixed[u.variable] = m->fixed[u.next];
        m->fixed[u.next] = old;
      } else if (u.how == kGhCopy) {
        memcpy(m->fixed[u.variable], table[u.next], u.bytes);
      }
    }
  }
  for (void* copy : copies) free(copy);
  pthread_mutex_unlock(&m->lock);
  if (bad < 0) return gh_fail("an integer was divided by zero", "");
  return bad ? gh_fail("an index lies outside of the tensor that it points into", "") : 0;
}

#define GH_TENSORS(kind, list, count, shape)                                                               \
  GH_API int GH_NAME(kind##_count)(void) { return count; }                                                 \
  GH_API const char* GH_NAME(kind##_name)(int i) { return i >= 0 && i < count ? list[i].name : nullptr; }  \
  GH_API const char* GH_NAME(kind##_type)(int i) { return i >= 0 && i < count ? list[i].type : nullptr; }  \
  GH_API int GH_NAME(kind##_rank)(int i) { return i >= 0 && i < count ? list[i].rank : -1; }               \
  GH_API void GH_NAME(kind##_shape)(int i, const int64_t* sizes, int64_t* dims) { shape(i, sizes, dims); } \
  GH_API int64_t GH_NAME(kind##_bytes)(int i, const int64_t* sizes) {                                      \
    if (i < 0 || i >= count) return -1;                                                                    \
    int64_t dims[64], bytes = list[i].item;                                                                \
    shape(i, sizes, dims);                                                                                 \
    for (int d = 0; d < list[i].rank; ++d) bytes *= dims[d];                                               \
    return bytes;                                                                                          \
  }
GH_TENSORS(input, kGhInputs, kGhInputCount, gh_input_shape)
GH_TENSORS(output, kGhOutputs, kGhOutputCount, gh_output_shape)

GH_API int GH_NAME(symbol_count)(void) { return kGhSymbolCount; }
GH_API const char* GH_NAME(symbol_name)(int i) { return i >= 0 && i < kGhSymbolCount ? kGhSymbols[i].name : nullptr; }
GH_API int64_t GH_NAME(symbol_low)(int i) { return i >= 0 && i < kGhSymbolCount ? kGhSymbols[i].low : 0; }
GH_API int64_t GH_NAME(symbol_high)(int i) { return i >= 0 && i < kGhSymbolCount ? kGhSymbols[i].high : -1; }
