// How a saved model runs on a GPU: through the driver alone, which is found when a model is made.
#include <stddef.h>

#define GH_DRIVER(X)                                                                                                           \
  X(cuInit, (unsigned))                                                                                                        \
  X(cuGetErrorString, (int, const char**))                                                                                     \
  X(cuDeviceGetCount, (int*))                                                                                                  \
  X(cuDeviceGet, (int*, int))                                                                                                  \
  X(cuDeviceGetName, (char*, int, int))                                                                                        \
  X(cuDeviceGetAttribute, (int*, int, int))                                                                                    \
  X(cuDevicePrimaryCtxRetain, (void**, int))                                                                                   \
  X(cuDevicePrimaryCtxRelease_v2, (int))                                                                                       \
  X(cuCtxPushCurrent_v2, (void*))                                                                                              \
  X(cuCtxPopCurrent_v2, (void**))                                                                                              \
  X(cuMemAlloc_v2, (uint64_t*, size_t))                                                                                        \
  X(cuMemFree_v2, (uint64_t))                                                                                                  \
  X(cuMemHostAlloc, (void**, size_t, unsigned))                                                                                \
  X(cuMemHostGetDevicePointer_v2, (uint64_t*, void*, unsigned))                                                                \
  X(cuMemFreeHost, (void*))                                                                                                    \
  X(cuMemcpyHtoDAsync_v2, (uint64_t, const void*, size_t, void*))                                                              \
  X(cuMemcpyDtoHAsync_v2, (void*, uint64_t, size_t, void*))                                                                    \
  X(cuMemcpyDtoDAsync_v2, (uint64_t, uint64_t, size_t, void*))                                                                 \
  X(cuMemsetD8Async, (uint64_t, unsigned char, size_t, void*))                                                                 \
  X(cuPointerGetAttribute, (void*, int, uint64_t))                                                                             \
  X(cuStreamCreate, (void**, unsigned))                                                                                        \
  X(cuStreamDestroy_v2, (void*))                                                                                               \
  X(cuStreamSynchronize, (void*))                                                                                              \
  X(cuModuleLoadData, (void**, const void*))                                                                                   \
  X(cuModuleUnload, (void*))                                                                                                   \
  X(cuModuleGetFunction, (void**, void*, const char*))                                                                         \
  X(cuFuncSetAttribute, (void*, int, int))                                                                                     \
  X(cuGraphCreate, (void**, unsigned))                                                                                         \
  X(cuGraphDestroy, (void*))                                                                                                   \
  X(cuGraphAddKernelNode_v2, (void**, void*, void* const*, size_t, const GhNode*))                                             \
  X(cuGraphInstantiateWithFlags, (void**, void*, unsigned long long))                                                          \
  X(cuGraphExecKernelNodeSetParams_v2, (void*, void*, const GhNode*))                                                          \
  X(cuGraphExecDestroy, (void*))                                                                                               \
  X(cuGraphLaunch, (void*, void*))                                                                                             \
  X(cuTensorMapEncodeTiled,                                                                                                    \
    (void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*, const unsigned*, int, int, int, int))     \
  X(cuTensorMapEncodeIm2col, (void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const int*, const int*, unsigned, \
                              unsigned, const unsigned*, int, int, int, int))

// CUDA_KERNEL_NODE_PARAMS, second version.
struct GhNode {
  void* function;
  unsigned grid[3], block[3], shared;
  void** parameters;
  void **extra, *kernel, *context;
};

struct GhDriver {
#define GH_DECLARE(name, types) int(*name) types;
  GH_DRIVER(GH_DECLARE)
};
static GhDriver gh_cuda;

static int gh_refused(const char* what, int status) {
  const char* text = nullptr;
  gh_cuda.cuGetErrorString(status, &text);
  char detail[400];
  snprintf(detail, sizeof detail, "%s: %s (status %d)", what, text ? text : "unknown", status);
  return gh_fail(status == 2 ? "the GPU has no room for the model" : "the CUDA driver refused", detail);
}
#define GH_DO(name, ...)                                                          \
  do {                                                                            \
    if (int status = gh_cuda.name(__VA_ARGS__)) return gh_refused(#name, status); \
  } while (0)

// Whoever comes first loads the driver; a machine without one is told by every NAME_create.
static pthread_mutex_t gh_driver_lock = PTHREAD_MUTEX_INITIALIZER;
static int gh_load_driver() {
  static bool loaded = false;
  if (loaded) return 0;
  const char* missing = "there is no GPU to run on";
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return gh_fail(missing, "libcuda.so.1, NVIDIA's driver, is not installed");
#define GH_FIND(name, types)                      \
  *(void**)&gh_cuda.name = dlsym(library, #name); \
  if (!gh_cuda.name) return gh_fail(missing, "the driver is too old (no " #name "); CUDA 12 or later is needed");
  GH_DRIVER(GH_FIND)
  if (int status = gh_cuda.cuInit(0)) {
    const char* text = nullptr;
    gh_cuda.cuGetErrorString(status, &text);
    return gh_fail(missing, text ? text : "cuInit failed");
  }
  loaded = true;
  return 0;
}

// The program of kernels, as it was built: a zip file whose parts are not compressed.
asm(".pushsection .rodata\n.balign 16\ngh_program_begin:\n.incbin \"" GH_PROGRAM "\"\ngh_program_end:\n.byte 0\n.popsection");
extern const char gh_program_begin[] __asm__("gh_program_begin");
extern const char gh_program_end[] __asm__("gh_program_end");

// For `glasshouse.load`.
GH_API const char* glasshouse_program(int64_t* bytes) { return *bytes = gh_program_end - gh_program_begin, gh_program_begin; }
GH_API const char* glasshouse_contract(void) { return kGhContract; }

static const char* gh_part(const char* name) {
  for (const char* at = gh_program_begin; at + 30 < gh_program_end && !memcmp(at, "PK\3\4", 4);) {
    uint32_t bytes;
    uint16_t length, extra;
    memcpy(&bytes, at + 18, 4), memcpy(&length, at + 26, 2), memcpy(&extra, at + 28, 2);
    const char* data = at + 30 + length + extra;
    if (length == strlen(name) && !memcmp(at + 30, name, length)) return data;
    at = data + bytes;
  }
  return nullptr;
}

struct GhBlock {
  uint64_t at;
  int64_t bytes;
};
struct GH_MODEL {
  pthread_mutex_t lock;
  int device;
  void *context, *stream, *modules[kGhKernelCount + 1], *functions[kGhLaunchCount + 1];
  char* weights;
  uint64_t arena, fixed[kGhTable];  // what the table points to in every run: weights, variables
  GhBlock staged[kGhTable];         // for inputs and outputs of the host, and values that are kept
  GhBlock counters;
  int* flag;  // the first step with a fault, seen by kernels too
  uint64_t flag_there, owned[2 * kGhTable + 1];
  int owned_count;
  void *graph, *nodes[kGhLaunchCount + 1];
  bool built;
  int64_t sizes[kGhSymbolCount + 1];  // that the graph is for
  uint64_t cells[kGhCellCount + 1], known[kGhCellCount + 1];
  void* parameters[kGhCellCount + 1];
  uint64_t mapped[kGhMapCount + 1];  // addresses that tensor maps are encoded for
};

static int gh_allocate(GH_MODEL* m, uint64_t* at, int64_t bytes) {
  GH_DO(cuMemAlloc_v2, at, (size_t)(bytes > 0 ? bytes : 1));
  m->owned[m->owned_count++] = *at;
  return 0;
}
static int gh_grow(GhBlock* block, int64_t bytes) {
  if (block->at && block->bytes >= bytes) return 0;
  if (block->at) gh_cuda.cuMemFree_v2(block->at);
  block->at = 0;
  GH_DO(cuMemAlloc_v2, &block->at, (size_t)(bytes > 0 ? bytes : 1));
  block->bytes = bytes;
  return 0;
}
static int gh_upload(GH_MODEL* m, uint64_t to, const void* from, int64_t bytes) {
  if (bytes) GH_DO(cuMemcpyHtoDAsync_v2, to, from, (size_t)bytes, m->stream);
  return 0;
}
static int gh_copy(GH_MODEL* m, uint64_t to, uint64_t from, int64_t bytes) {
  if (bytes) GH_DO(cuMemcpyDtoDAsync_v2, to, from, (size_t)bytes, m->stream);
  return 0;
}

static int gh_begin(GH_MODEL* m, int device) {
  int count = 0, major = 0, minor = 0;
  GH_DO(cuDeviceGetCount, &count);
  if (!count) return gh_fail("there is no GPU to run on", "the driver sees none");
  if (device < 0 || device >= count) return gh_fail("there is no GPU of that number", "they count from 0");
  GH_DO(cuDeviceGet, &m->device, device);
  GH_DO(cuDeviceGetAttribute, &major, 75, m->device);
  GH_DO(cuDeviceGetAttribute, &minor, 76, m->device);
  char name[200] = "", detail[300];
  gh_cuda.cuDeviceGetName(name, sizeof name, m->device);
  // Machine code runs on its own major architecture, at its minor version or a later one.
  if (major != kGhArch / 10 || minor < kGhArch % 10) {
    snprintf(detail, sizeof detail, "compiled for sm_%d, and %s is sm_%d%d", kGhArch, name, major, minor);
    return gh_fail("the model does not run on this GPU", detail);
  }
  GH_DO(cuDevicePrimaryCtxRetain, &m->context, m->device);
  GH_DO(cuCtxPushCurrent_v2, m->context);
  return 0;
}

static int gh_load(GH_MODEL* m) {
  GH_DO(cuStreamCreate, &m->stream, 1);  // not ordered with the default one
  for (int k = 0; k < kGhKernelCount; ++k) {
    const char* code = gh_part(kGhKernels[k]);
    if (!code) return gh_fail("the library is damaged: no part", kGhKernels[k]);
    GH_DO(cuModuleLoadData, &m->modules[k], code);
  }
  for (int i = 0; i < kGhLaunchCount; ++i) {
    const GhLaunch& l = kGhLaunches[i];
    GH_DO(cuModuleGetFunction, &m->functions[i], m->modules[l.kernel], l.function);
    if (l.shared) GH_DO(cuFuncSetAttribute, m->functions[i], 8, l.shared);
  }
  GH_DO(cuMemHostAlloc, (void**)&m->flag, 64, 2);
  memset(m->flag, 0, 64);
  GH_DO(cuMemHostGetDevicePointer_v2, &m->flag_there, m->flag, 0);
  for (const GhSource& s : kGhSources) {
    if (s.place < 0 || !(s.variable || s.leaves || kGhRead[s.place])) continue;  // read in another form alone
    if (gh_allocate(m, &m->fixed[s.place], s.bytes) || gh_upload(m, m->fixed[s.place], m->weights + s.offset, s.bytes))
      return 1;
  }
  for (const GhForm& f : kGhForms) {
    if (f.place < 0) continue;
    if (gh_allocate(m, &m->fixed[f.place], f.bytes) || gh_upload(m, m->fixed[f.place], m->weights + f.offset, f.bytes))
      return 1;
  }
  for (const GhUpdate& u : kGhUpdates) {
    if (u.variable < 0 || u.how == kGhCopy) continue;
    if (u.how == kGhInPlace) m->fixed[u.next] = m->fixed[u.variable];
    else if (gh_allocate(m, &m->fixed[u.next], u.bytes)) return 1;
  }
  if (gh_allocate(m, &m->arena, kGhArenaBytes + kGhWork + 64)) return 1;
  GH_DO(cuStreamSynchronize, m->stream);  // the weights' file goes
  return 0;
}

GH_API const char* GH_NAME(error)(void) { return gh_message; }

static void gh_leave(GH_MODEL* m) {
  void* popped;
  if (m->context) gh_cuda.cuCtxPopCurrent_v2(&popped);
}
static void gh_free(GH_MODEL* m) {
  if (m->context) {
    if (m->stream) gh_cuda.cuStreamSynchronize(m->stream);
    if (m->graph) gh_cuda.cuGraphExecDestroy(m->graph);
    for (int i = 0; i < m->owned_count; ++i) gh_cuda.cuMemFree_v2(m->owned[i]);
    for (GhBlock& block : m->staged)
      if (block.at) gh_cuda.cuMemFree_v2(block.at);
    if (m->counters.at) gh_cuda.cuMemFree_v2(m->counters.at);
    if (m->flag) gh_cuda.cuMemFreeHost(m->flag);
    for (int k = 0; k < kGhKernelCount; ++k)
      if (m->modules[k]) gh_cuda.cuModuleUnload(m->modules[k]);
    if (m->stream) gh_cuda.cuStreamDestroy_v2(m->stream);
    gh_leave(m);
    gh_cuda.cuDevicePrimaryCtxRelease_v2(m->device);
  }
  if (m->weights) munmap(m->weights, kGhWeightBytes);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

GH_API void GH_NAME(destroy)(GH_MODEL* m) {
  if (!m) return;
  if (m->context) gh_cuda.cuCtxPushCurrent_v2(m->context);
  gh_free(m);
}

GH_API GH_MODEL* GH_NAME(create)(const char* folder, int device) {
  gh_message[0] = 0;
  if (kGhNeedsPython[0]) return gh_fail("the model needs Python", kGhNeedsPython), nullptr;
  pthread_mutex_lock(&gh_driver_lock);
  const int no_driver = gh_load_driver();
  pthread_mutex_unlock(&gh_driver_lock);
  if (no_driver) return nullptr;
  GH_MODEL* m = (GH_MODEL*)calloc(1, sizeof(GH_MODEL));
  if (!m) return gh_fail("out of memory", ""), nullptr;
  pthread_mutex_init(&m->lock, nullptr);
  if (gh_begin(m, device) || gh_map(&m->weights, folder) || gh_load(m)) {
    gh_free(m);
    return nullptr;
  }
  munmap(m->weights, kGhWeightBytes);
  m->weights = nullptr;
  gh_leave(m);
  return m;
}

// Fills in the arguments of all launches: a context of four words, the workspace, pointers, sizes.
static void gh_fill_cells(GH_MODEL* m, const uint64_t* table, const int64_t* sizes) {
  int at = 0;
  for (const GhLaunch& l : kGhLaunches) {
    if (l.kernel < 0) continue;
    m->cells[at] = m->flag_there, m->cells[at + 1] = m->counters.at, m->cells[at + 2] = (uint64_t)l.step;
    m->cells[at + 3] = 0, m->cells[at + 4] = m->arena + kGhWork;  // nobody asks for times
    at += 5;
    for (int i = l.first; i < l.first + l.count; ++i)
      m->cells[at++] = kGhArguments[i].kind == 0   ? table[kGhArguments[i].value] + (uint64_t)kGhArguments[i].behind
                       : kGhArguments[i].kind == 1 ? m->arena + (uint64_t)kGhArguments[i].value
                       : kGhArguments[i].kind == 2 ? 0
                                                   : (uint64_t)sizes[kGhArguments[i].value];
    at += l.maps * 16;
  }
}

// Describes tensors to the copy engine whose address or size has changed (see tensor_map.py).
static int gh_encode_maps(GH_MODEL* m, const int64_t* sizes, bool all) {
  for (int i = 0; i < kGhMapCount; ++i) {
    const GhMap& map = kGhMaps[i];
    const uint64_t address = m->cells[map.source];
    if (!all && address == m->mapped[i]) continue;
    uint64_t extents[5] = {1, 1, 1, 1, 1}, steps[5] = {0, 0, 0, 0, 0};
    int64_t offset = 0;
    gh_extents(i, sizes, extents, steps, &offset);
    void* const tensor = (void*)(address + (uint64_t)offset);
    if (!extents[0] || !extents[1] || !extents[2] || !extents[3] || !extents[4]) continue;  // nothing is launched then
    alignas(64) uint64_t made[16];
    unsigned box[5] = {64}, single[5] = {1, 1, 1, 1, 1}, rank = (unsigned)map.rank;
    for (int axis = 0; axis < 4; ++axis) box[axis + 1] = (unsigned)map.box[axis];
    const unsigned strides[4] = {1, (unsigned)map.strides[0], (unsigned)map.strides[1], 1};
    if (!map.strides[0]) GH_DO(cuTensorMapEncodeTiled, made, 1, rank, tensor, extents, steps, box, single, 0, 3, 3, 0);
    else
      GH_DO(cuTensorMapEncodeIm2col, made, 1, 4, tensor, extents, steps, map.lower, map.upper, 64, box[1], strides, 0, 3, 3, 0);
    memcpy(m->cells + map.cell, made, sizeof made);
    m->mapped[i] = address;
  }
  return 0;
}

static int gh_node(GH_MODEL* m, int launch, const unsigned* grid, GhNode* node) {
  const GhLaunch& l = kGhLaunches[launch];
  memset(node, 0, sizeof *node);
  node->function = m->functions[launch];
  memcpy(node->grid, grid, sizeof node->grid);
  node->block[0] = (unsigned)l.threads, node->block[1] = node->block[2] = 1;
  node->shared = (unsigned)l.shared;
  node->parameters = m->parameters + l.cell;
  return 0;
}

// One graph node for each launch, one after the other; other sizes are another graph, other pointers set nodes.
static int gh_launch(GH_MODEL* m, const uint64_t* table, const int64_t* sizes) {
  unsigned grids[kGhLaunchCount + 1][3];
  int64_t counters = 0;
  for (int i = 0; i < kGhLaunchCount; ++i) {
    int64_t needed = 0;
    gh_grid(i, sizes, grids[i], &needed);
    if (needed > counters) counters = needed;
  }
  if (counters * 4 > m->counters.bytes) {  // left zero by each launch, so all share them
    if (gh_grow(&m->counters, counters * 4)) return 1;
    GH_DO(cuMemsetD8Async, m->counters.at, 0, (size_t)counters * 4, m->stream);
  }
  gh_fill_cells(m, table, sizes);
  const bool fits = m->built && (!kGhSymbolCount || !memcmp(sizes, m->sizes, kGhSymbolCount * sizeof *sizes));
  if (gh_encode_maps(m, sizes, !fits)) return 1;
  GhNode node;
  if (!fits) {
    if (m->graph) gh_cuda.cuGraphExecDestroy(m->graph);
    m->graph = nullptr, m->built = false;
    for (int i = 0; i < kGhLaunchCount; ++i) {
      const GhLaunch& l = kGhLaunches[i];
      m->parameters[l.cell] = m->cells + l.cell;
      for (int i = 0; i <= l.count; ++i) m->parameters[l.cell + 1 + i] = m->cells + l.cell + 4 + i;
      for (int i = 0; i < l.maps; ++i) m->parameters[l.cell + 2 + l.count + i] = m->cells + l.cell + 5 + l.count + i * 16;
    }
    void *graph = nullptr, *before = nullptr;
    GH_DO(cuGraphCreate, &graph, 0);
    int status = 0, any = 0;
    for (int i = 0; i < kGhLaunchCount && !status; ++i) {
      m->nodes[i] = nullptr;
      if (!grids[i][0] || !grids[i][1] || !grids[i][2]) continue;
      gh_node(m, i, grids[i], &node);
      status = gh_cuda.cuGraphAddKernelNode_v2(&m->nodes[i], graph, &before, before ? 1 : 0, &node);
      before = m->nodes[i], any = 1;
    }
    if (!status && any) status = gh_cuda.cuGraphInstantiateWithFlags(&m->graph, graph, 0);
    gh_cuda.cuGraphDestroy(graph);
    if (status) return gh_refused("a graph of the model's kernels", status);
    if (kGhSymbolCount) memcpy(m->sizes, sizes, kGhSymbolCount * sizeof *sizes);
    m->built = true;
  } else {
    for (int i = 0; i < kGhLaunchCount; ++i) {
      const GhLaunch& l = kGhLaunches[i];
      const size_t bytes = (5 + l.count + 16 * l.maps) * sizeof *m->cells;
      if (!m->nodes[i] || !memcmp(m->cells + l.cell, m->known + l.cell, bytes)) continue;
      gh_node(m, i, grids[i], &node);
      GH_DO(cuGraphExecKernelNodeSetParams_v2, m->graph, m->nodes[i], &node);
    }
  }
  memcpy(m->known, m->cells, sizeof m->cells);
  if (m->graph) GH_DO(cuGraphLaunch, m->graph, m->stream);
  return 0;
}

// Memory of the GPU that kernels can use as it is; anything else is copied.
static bool gh_on_gpu(const void* at) {
  unsigned kind = 0;
  return !gh_cuda.cuPointerGetAttribute(&kind, 2, (uint64_t)at) && kind == 2;
}
static bool gh_binds(const void* at) { return gh_on_gpu(at) && (uint64_t)at % 16 == 0; }

static int gh_run(GH_MODEL* m, const void* const* inputs, void* const* outputs, const int64_t* sizes) {
  uint64_t table[kGhTable];
  memcpy(table, m->fixed, sizeof table);
  // A weight or variable that is an output keeps the value that it had before this run.
  for (const GhSource& s : kGhSources) {
    if (s.place < 0 || !s.leaves) continue;
    if (gh_grow(&m->staged[s.place], s.bytes) || gh_copy(m, m->staged[s.place].at, m->fixed[s.place], s.bytes)) return 1;
    table[s.place] = m->staged[s.place].at;
  }
  for (int i = 0; i < kGhInputCount; ++i) {
    const int place = kGhInputs[i].place;
    table[place] = (uint64_t)inputs[i];
    if (gh_binds(inputs[i])) continue;
    const int64_t bytes = GH_NAME(input_bytes)(i, sizes);
    if (gh_grow(&m->staged[place], bytes)) return 1;
    table[place] = m->staged[place].at;
    if (gh_on_gpu(inputs[i]) ? gh_copy(m, table[place], (uint64_t)inputs[i], bytes)
                             : gh_upload(m, table[place], inputs[i], bytes))
      return 1;
  }
  for (int i = 0; i < kGhOutputCount; ++i) {
    const int place = kGhOutputs[i].place;
    if (!kGhOutputs[i].direct) continue;
    table[place] = (uint64_t)outputs[i];
    if (gh_binds(outputs[i])) continue;
    if (gh_grow(&m->staged[place], GH_NAME(output_bytes)(i, sizes))) return 1;
    table[place] = m->staged[place].at;
  }
  for (const GhUpdate& u : kGhUpdates)
    if (u.variable >= 0 && u.how == kGhCopy && !table[u.next]) {
      if (gh_grow(&m->staged[u.next], u.bytes)) return 1;
      table[u.next] = m->staged[u.next].at;
    }
  if (gh_launch(m, table, sizes)) return 1;
  for (int i = 0; i < kGhOutputCount; ++i) {
    const uint64_t from = table[kGhOutputs[i].place];
    const size_t bytes = (size_t)GH_NAME(output_bytes)(i, sizes);
    if (from == (uint64_t)outputs[i] || !bytes) continue;
    if (gh_on_gpu(outputs[i])) GH_DO(cuMemcpyDtoDAsync_v2, (uint64_t)outputs[i], from, bytes, m->stream);
    else GH_DO(cuMemcpyDtoHAsync_v2, outputs[i], from, bytes, m->stream);
  }
  GH_DO(cuStreamSynchronize, m->stream);
  const int bad = *m->flag;
  *m->flag = 0;
  if (bad < 0) return gh_fail("an integer was divided by zero", "");
  if (bad) return gh_fail("an index lies outside of the tensor that it points into", "");
  for (const GhUpdate& u : kGhUpdates) {
    if (u.variable < 0) continue;
    if (u.how == kGhTurns) {  // the old value's memory takes the next new one
      const uint64_t old = m->fixed[u.variable];
      m->fixed[u.variable] = m->fixed[u.next];
      m->fixed[u.next] = old;
    } else if (u.how == kGhCopy && gh_copy(m, m->fixed[u.variable], table[u.next], u.bytes)) {
      return 1;
    }
  }
  return 0;
}

GH_API int GH_NAME(run)(GH_MODEL* m, const void* const* inputs, void* const* outputs, const int64_t* sizes) {
  if (gh_check_call(m, inputs, outputs, sizes)) return 1;
  pthread_mutex_lock(&m->lock);
  int bad = gh_cuda.cuCtxPushCurrent_v2(m->context);
  bad = bad ? gh_refused("cuCtxPushCurrent", bad) : gh_run(m, inputs, outputs, sizes);
  gh_leave(m);
  pthread_mutex_unlock(&m->lock);
  return bad;
}
