// The CUDA driver as far as it is used, without a GPU: memory of the device is memory of the host, and a "cubin" is a text
// that names a library of the host with the kernels in it (see fake_cuda/__init__.py). Every call is noted.
// Parameters of kernels are copied when a node is added or set, as the driver does.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
typedef int CUresult;

namespace {
std::string notes;
std::map<std::string, int> failing;
std::map<void*, size_t> blocks;  // what is allocated on the device
size_t taken = 0, room = (size_t)1 << 40;
int major_version = 9, minor_version = 0, devices = 1;

int noted(const char* name) {
  notes += name;
  notes += '\n';
  auto found = failing.find(name);
  return found == failing.end() ? 0 : found->second;
}
#define NOTE(name) \
  if (int status = noted(#name)) return status

typedef void (*Kernel)(unsigned, unsigned, unsigned, void**);
struct Function {
  Kernel run;
  int parameters, maps;  // the first is a context of four words, the others are one, the last ones maps of sixteen
  std::vector<int> words() const {
    std::vector<int> sizes(parameters, 1);
    sizes[0] = 4;
    for (int i = parameters - maps; i < parameters; ++i) sizes[i] = 16;
    return sizes;
  }
};
struct Module { std::map<std::string, Function> functions; };
struct Params {
  Function* function;
  unsigned grid[3], block[3], shared;
  void** parameters;
  void** extra;
  void *kernel, *context;
};
struct Node {
  Function* function = nullptr;              // of an event, and of a library's call: none
  std::vector<std::function<void()>> calls;  // of a library, in a graph of its own
  unsigned grid[3];
  std::vector<uint64_t> words;
  void set(const Params& p) {
    function = p.function;
    memcpy(grid, p.grid, sizeof grid);
    words.clear();
    int i = 0;
    for (int count : function->words()) {
      const uint64_t* from = (const uint64_t*)p.parameters[i++];
      words.insert(words.end(), from, from + count);
    }
  }
  void run() {
    for (auto& call : calls) call();
    if (!function) return;
    std::vector<void*> given;
    size_t at = 0;
    for (int count : function->words()) given.push_back(&words[at]), at += count;
    function->run(grid[0], grid[1], grid[2], given.data());
  }
};
struct Graph { std::vector<Node*> nodes; };
std::vector<std::function<void()>>* captured = nullptr;  // what libraries start goes here instead of running
bool late = false;                                       // graphs run when somebody waits, as on a GPU that is busy
std::vector<Node> waiting;                               // of graphs, with the parameters that they were launched with
void run_waiting() {
  std::vector<Node> now;
  now.swap(waiting);
  for (Node& node : now) node.run();
}
}  // namespace

// ---- For tests.
API const char* fake_notes() { return notes.c_str(); }
API void fake_start(void (*run)(const void*, size_t), const void* data,
                    size_t bytes) {  // what a library launches: copied, then run
  std::string held((const char*)data, bytes);
  const std::function<void()> call = [=] { run(held.data(), held.size()); };
  captured ? captured->push_back(call) : call();
}
API void fake_forget() { notes.clear(); }
API void fake_fail(const char* name, int status) { status ? (void)(failing[name] = status) : (void)failing.erase(name); }
API void fake_is(int major, int minor, int count) { major_version = major, minor_version = minor, devices = count; }
API size_t fake_taken() { return taken; }
API void fake_room(size_t bytes) { room = bytes; }
API void fake_late(int is_late) {
  run_waiting();
  late = is_late;
}
API void fake_wait() { run_waiting(); }
static bool from_environment() {  // for programs that cannot call the functions above
  if (const char* given = getenv("FAKE_CUDA_FAIL")) {
    std::istringstream words(given);
    std::string name;
    int status;
    while (words >> name >> status) failing[name] = status;
  }
  if (const char* given = getenv("FAKE_CUDA_DEVICES")) devices = atoi(given);
  if (const char* given = getenv("FAKE_CUDA_MAJOR")) major_version = atoi(given);
  return true;
}
static const bool read_environment = from_environment();

// ---- The driver.
API CUresult cuInit(unsigned) {
  NOTE(cuInit);
  return 0;
}
API CUresult cuGetErrorString(CUresult status, const char** text) {
  static char made[64];
  snprintf(made, sizeof made, status == 2 ? "out of memory" : "fake status %d", status);
  *text = made;
  return 0;
}
API CUresult cuDriverGetVersion(int* v) {
  *v = 13000;
  return 0;
}
API CUresult cuDeviceGetCount(int* n) {
  NOTE(cuDeviceGetCount);
  *n = devices;
  return 0;
}
API CUresult cuDeviceGet(int* d, int number) {
  NOTE(cuDeviceGet);
  *d = number;
  return number < devices ? 0 : 101;
}
API CUresult cuDeviceGetName(char* name, int size, int) {
  snprintf(name, size, "Fake GPU");
  return 0;
}
API CUresult cuDeviceGetAttribute(int* v, int which, int) {
  *v = which == 75 ? major_version : which == 76 ? minor_version : 132;
  return 0;
}
API CUresult cuDevicePrimaryCtxRetain(void** c, int) {
  NOTE(cuDevicePrimaryCtxRetain);
  *c = (void*)1;
  return 0;
}
API CUresult cuDevicePrimaryCtxRelease_v2(int) {
  NOTE(cuDevicePrimaryCtxRelease_v2);
  return 0;
}
API CUresult cuCtxSetCurrent(void*) { return 0; }
API CUresult cuCtxPushCurrent_v2(void*) { return 0; }
API CUresult cuCtxPopCurrent_v2(void** c) {
  *c = nullptr;
  return 0;
}
API CUresult cuCtxSynchronize() {
  NOTE(cuCtxSynchronize);
  run_waiting();
  return 0;
}
API CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = room - taken, *total = room;
  return 0;
}
API CUresult cuMemAlloc_v2(uint64_t* at, size_t count) {
  NOTE(cuMemAlloc_v2);
  if (taken + count > room) return 2;
  void* made = aligned_alloc(256, (count + 255) / 256 * 256);
  memset(made, 0xA5, count);  // what is read before it is written is noticed
  blocks[made] = count, taken += count;
  *at = (uint64_t)made;
  return 0;
}
API CUresult cuMemFree_v2(uint64_t at) {
  NOTE(cuMemFree_v2);
  auto found = blocks.find((void*)at);
  if (found == blocks.end()) return 1;  // freed twice, or never allocated
  taken -= found->second;
  free(found->first);
  blocks.erase(found);
  return 0;
}
API CUresult cuMemHostAlloc(void** at, size_t count, unsigned) {
  NOTE(cuMemHostAlloc);
  *at = calloc(1, count);
  return 0;
}
API CUresult cuMemFreeHost(void* at) {
  NOTE(cuMemFreeHost);
  free(at);
  return 0;
}
API CUresult cuMemHostGetDevicePointer_v2(uint64_t* there, void* here, unsigned) {
  *there = (uint64_t)here;
  return 0;
}
API CUresult cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t count, void*) {
  NOTE(cuMemcpyHtoDAsync_v2);
  run_waiting();
  memcpy((void*)to, from, count);
  return 0;
}
API CUresult cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t count, void*) {
  NOTE(cuMemcpyDtoHAsync_v2);
  run_waiting();
  memcpy(to, (void*)from, count);
  return 0;
}
API CUresult cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t count, void*) {
  NOTE(cuMemcpyDtoDAsync_v2);
  run_waiting();
  memmove((void*)to, (void*)from, count);
  return 0;
}
API CUresult cuMemsetD8Async(uint64_t at, unsigned char byte, size_t count, void*) {
  run_waiting();
  memset((void*)at, byte, count);
  return 0;
}
API CUresult cuMemsetD32Async(uint64_t at, unsigned word, size_t count, void*) {
  NOTE(cuMemsetD32Async);
  run_waiting();
  for (size_t i = 0; i < count; ++i) ((unsigned*)at)[i] = word;
  return at % 4 ? 1 : 0;
}
API CUresult cuPointerGetAttribute(void* data, int which, uint64_t at) {
  (void)which;
  for (auto& block : blocks)
    if (at >= (uint64_t)block.first && at < (uint64_t)block.first + block.second) return *(unsigned*)data = 2, 0;
  return 1;
}
API CUresult cuStreamCreate(void** s, unsigned) {
  NOTE(cuStreamCreate);
  *s = (void*)2;
  return 0;
}
API CUresult cuStreamDestroy_v2(void*) {
  NOTE(cuStreamDestroy_v2);
  return 0;
}
API CUresult cuStreamSynchronize(void*) {
  NOTE(cuStreamSynchronize);
  run_waiting();
  return 0;
}

API CUresult cuStreamBeginCapture_v2(void*, int) {
  NOTE(cuStreamBeginCapture_v2);
  captured = new std::vector<std::function<void()>>;
  return 0;
}
API CUresult cuStreamEndCapture(void*, void** g) {
  NOTE(cuStreamEndCapture);
  Graph* made = new Graph;
  made->nodes.push_back(new Node);
  made->nodes[0]->calls = *captured;
  delete captured;
  captured = nullptr;
  *g = made;
  return 0;
}

API CUresult cuModuleLoadData(void** module, const void* image) {
  NOTE(cuModuleLoadData);
  std::istringstream lines((const char*)image);
  std::string mark, path, name, symbol;
  int parameters, maps;
  std::getline(lines, mark);
  std::getline(lines, path);
  void* library = mark == "fake cubin" ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) return 200;
  Module* made = new Module;
  while (lines >> name >> symbol >> parameters >> maps)
    made->functions[name] = {(Kernel)dlsym(library, symbol.c_str()), parameters, maps};
  *module = made;
  return 0;
}
API CUresult cuModuleUnload(void* module) {
  NOTE(cuModuleUnload);
  delete (Module*)module;
  return 0;
}
API CUresult cuModuleGetFunction(void** function, void* module, const char* name) {
  NOTE(cuModuleGetFunction);
  auto& all = ((Module*)module)->functions;
  auto found = all.find(name);
  if (found == all.end() || !found->second.run) return 500;
  *function = &found->second;
  return 0;
}
API CUresult cuFuncSetAttribute(void*, int, int) {
  NOTE(cuFuncSetAttribute);
  return 0;
}
API CUresult cuFuncGetAttribute(int* v, int, void*) {
  *v = 0;
  return 0;
}

API CUresult cuEventCreate(void** e, unsigned) {
  *e = (void*)3;
  return 0;
}
API CUresult cuEventRecord(void*, void*) { return 0; }
API CUresult cuEventSynchronize(void*) { return 0; }
API CUresult cuEventElapsedTime(float* ms, void*, void*) {
  *ms = 0.5f;
  return 0;
}
API CUresult cuEventDestroy_v2(void*) { return 0; }

API CUresult cuGraphCreate(void** g, unsigned) {
  NOTE(cuGraphCreate);
  *g = new Graph;
  return 0;
}
API CUresult cuGraphDestroy(void* g) {
  NOTE(cuGraphDestroy);
  delete (Graph*)g;  // nodes live on in what was instantiated
  return 0;
}
API CUresult cuGraphAddKernelNode_v2(void** node, void* g, const void*, size_t, const Params* p) {
  NOTE(cuGraphAddKernelNode_v2);
  Node* made = new Node;
  made->set(*p);
  ((Graph*)g)->nodes.push_back(made);
  *node = made;
  return 0;
}
API CUresult cuGraphAddChildGraphNode(void** node, void* g, const void*, size_t, void* inside) {
  NOTE(cuGraphAddChildGraphNode);
  Node* made = new Node(*((Graph*)inside)->nodes[0]);
  ((Graph*)g)->nodes.push_back(made);
  *node = made;
  return 0;
}
API CUresult cuGraphExecChildGraphNodeSetParams(void*, void* node, void* inside) {
  NOTE(cuGraphExecChildGraphNodeSetParams);
  *(Node*)node = *((Graph*)inside)->nodes[0];
  return 0;
}
API CUresult cuGraphAddEventRecordNode(void** node, void* g, const void*, size_t, void*) {
  NOTE(cuGraphAddEventRecordNode);
  Node* made = new Node;
  ((Graph*)g)->nodes.push_back(made);
  *node = made;
  return 0;
}
API CUresult cuGraphAddDependencies_v2(void*, const void*, const void*, const void*, size_t) {
  NOTE(cuGraphAddDependencies_v2);
  return 0;
}
API CUresult cuGraphInstantiateWithFlags(void** e, void* g, unsigned long long) {
  NOTE(cuGraphInstantiateWithFlags);
  *e = new Graph(*(Graph*)g);
  return 0;
}
API CUresult cuGraphExecKernelNodeSetParams_v2(void* e, void* node, const Params* p) {
  NOTE(cuGraphExecKernelNodeSetParams_v2);
  (void)e;
  ((Node*)node)->set(*p);
  return 0;
}
API CUresult cuGraphExecDestroy(void* e) {
  NOTE(cuGraphExecDestroy);
  for (Node* node : ((Graph*)e)->nodes) delete node;
  delete (Graph*)e;
  return 0;
}
API CUresult cuGraphLaunch(void* e, void*) {
  NOTE(cuGraphLaunch);
  for (Node* node : ((Graph*)e)->nodes) waiting.push_back(*node);
  if (!late) run_waiting();
  return 0;
}

API CUresult cuLaunchKernel(void* f, unsigned x, unsigned y, unsigned z, unsigned, unsigned, unsigned, unsigned, void*,
                            void** p, void**) {
  NOTE(cuLaunchKernel);
  run_waiting();
  Node node;
  node.set({(Function*)f, {x, y, z}, {}, 0, p, nullptr, nullptr, nullptr});
  node.run();
  return 0;
}

// ---- Tensor maps: as `emulate.h` reads them.
struct Map {
  void* at;
  uint64_t sizes[5], steps[4];
  int32_t box[5], lower[2], upper[2], strides[2], unused;
};
static int described(Map* map, unsigned rank, void* at, const uint64_t* sizes, const uint64_t* steps, const unsigned* box) {
  memset(map, 0, sizeof *map);
  if ((uint64_t)map % 64 || (uint64_t)at % 16 || rank > 5) return 1;
  map->at = at;
  for (unsigned i = 0; i < 5; ++i) {
    map->box[i] = i < rank ? (int)box[i] : 1;
    if (!map->box[i] || map->box[i] > 256) return 1;
  }
  for (unsigned i = 0; i < rank; ++i) map->sizes[i] = sizes[i];
  for (unsigned i = 0; i + 1 < rank; ++i) {
    if (!steps[i] || steps[i] % 16) return 1;
    map->steps[i] = steps[i];
  }
  return 0;
}
API CUresult cuTensorMapEncodeTiled(Map* map, int, unsigned rank, void* at, const uint64_t* sizes, const uint64_t* steps,
                                    const unsigned* box, const unsigned*, int, int, int, int) {
  NOTE(cuTensorMapEncodeTiled);
  return box[0] == 64 ? described(map, rank, at, sizes, steps, box) : 1;
}
API CUresult cuTensorMapEncodeIm2col(Map* map, int, unsigned rank, void* at, const uint64_t* sizes, const uint64_t* steps,
                                     const int* lower, const int* upper, unsigned, unsigned pixels, const unsigned* strides,
                                     int, int, int, int) {
  NOTE(cuTensorMapEncodeIm2col);
  for (int i = 0; i < 2; ++i)
    if (lower[i] < -128 || lower[i] > 127 || upper[i] < -128 || upper[i] > 127 || strides[i + 1] > 8) return 1;
  const unsigned box[5] = {64, pixels, 1, 1, 1};
  if (int wrong = described(map, rank, at, sizes, steps, box)) return wrong;
  for (int i = 0; i < 2; ++i) map->lower[i] = lower[i], map->upper[i] = upper[i], map->strides[i] = (int)strides[i + 1];
  return 0;
}
