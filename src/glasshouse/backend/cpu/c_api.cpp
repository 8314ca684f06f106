// How a saved model runs on processors.
#if defined(GH_AMX)
#include <cpuid.h>
#include <sys/syscall.h>
#endif
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
#ifdef GH_AMX
  // The system lets a process use tiles that asks for them (arch_prctl, ARCH_REQ_XCOMP_PERM, tile data), if there are any.
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 22 & 1) == 0 || (d >> 24 & 3) != 3)
    return "amx_tile, amx_bf16, amx_int8";
  if (syscall(SYS_arch_prctl, 0x1023, 18)) return "AMX tiles, and this process may not use them";
#endif
#endif
  return nullptr;
}

struct GH_MODEL {
  pthread_mutex_t lock;
  void* pool;
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
  if (m->pool) glasshouse_end_pool(m->pool);
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
  m->pool = glasshouse_pool(threads > 0 ? threads : (int)sysconf(_SC_NPROCESSORS_ONLN));
  if (gh_map(&m->weights, folder) || gh_fill(m)) {
    GH_NAME(destroy)(m);
    return nullptr;
  }
  return m;
}

GH_API int GH_NAME(run)(GH_MODEL* m, const void* const* inputs, void* const* outputs, const int64_t* sizes) {
  if (gh_check_call(m, inputs, outputs, sizes)) return 1;
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
