// cuDNN's graph interface as far as it is used, without a GPU: convolutions on the host, in float64, started through the fake driver
// (libcuda.cpp), so that what is captured runs when its graph does. Attributes and kinds have the library's numbers.
// Engines, in the order in which the heuristic names them: 7 adds in any order, 8 uses tensor cores, 9 neither; it alone takes float64.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <map>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {
typedef void (*Start)(void (*)(const void*, size_t), const void*, size_t);
Start start;
int refuses = 0;
int64_t room_needed = 4096;

struct Descriptor {
  int kind;
  bool finished = false;
  std::map<int, std::vector<int64_t>> numbers;
  std::map<int, double> scales;
  int engine = 0;
};
const size_t SIZES[] = {8, 4, 1, 8, 4, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 8};
struct Tensor {
  int type, rank;
  int64_t size[5], step[5];
  void* data;
};
struct Call {
  int kind, axes;
  Tensor image, weights, result;
  int64_t dilation[3], stride[3], begin[3];
  bool rounds;
};
double at(const Tensor& t, int64_t i) {
  if (t.type == 0) return ((const float*)t.data)[i];
  if (t.type == 1) return ((const double*)t.data)[i];
  const uint16_t h = ((const uint16_t*)t.data)[i];
  if (t.type == 2) {
    _Float16 x;
    memcpy(&x, &h, 2);
    return (double)x;
  }
  const uint32_t wide = (uint32_t)h << 16;
  float x;
  memcpy(&x, &wide, 4);
  return x;
}
void put(const Tensor& t, int64_t i, double x) {
  if (t.type == 0) ((float*)t.data)[i] = (float)x;
  else if (t.type == 1) ((double*)t.data)[i] = x;
  else if (t.type == 2) ((_Float16*)t.data)[i] = (_Float16)x;
  else {
    const float narrow = (float)x;
    uint32_t wide;
    memcpy(&wide, &narrow, 4);
    ((uint16_t*)t.data)[i] = (uint16_t)((wide + 0x7FFF + (wide >> 16 & 1)) >> 16);
  }
}
int64_t count(const Tensor& t) {
  int64_t n = 1;
  for (int i = 0; i < t.rank; ++i) n *= t.size[i];
  return n;
}
double rounded(double x, bool whether) {  // to ten binary digits, as TF32 has
  if (!whether || x == 0 || !isfinite(x)) return x;
  int e;
  const double digits = frexp(x, &e);
  return ldexp(rint(ldexp(digits, 11)), e - 11);
}
void run(const void* data, size_t) {
  const Call& c = *(const Call*)data;
  const Tensor& out = c.kind == 10 ? c.result : c.kind == 12 ? c.image : c.weights;
  std::vector<double> sums(count(out), 0.0);  // by position: tensors are dense
  const int n = c.axes;
  const int64_t group = c.weights.size[1], each = c.weights.size[0] / (c.image.size[1] / group);
  int64_t o[3] = {0, 0, 0}, k[3] = {0, 0, 0};
  int64_t windows = 1, taps = 1;
  for (int i = 0; i < n; ++i) windows *= c.result.size[2 + i], taps *= c.weights.size[2 + i];
  for (int64_t b = 0; b < c.result.size[0]; ++b)
    for (int64_t f = 0; f < c.result.size[1]; ++f)
      for (int64_t w = 0; w < windows; ++w)
        for (int64_t t = 0; t < taps; ++t) {
          int64_t rest = w, more = t;
          for (int i = n; i--;) {
            o[i] = rest % c.result.size[2 + i], rest /= c.result.size[2 + i];
            k[i] = more % c.weights.size[2 + i], more /= c.weights.size[2 + i];
          }
          int64_t x = b * c.image.step[0], y = b * c.result.step[0] + f * c.result.step[1], v = f * c.weights.step[0];
          bool inside = true;
          for (int i = 0; i < n; ++i) {
            const int64_t p = o[i] * c.stride[i] + k[i] * c.dilation[i] - c.begin[i];
            inside = inside && p >= 0 && p < c.image.size[2 + i];
            x += p * c.image.step[2 + i], y += o[i] * c.result.step[2 + i], v += k[i] * c.weights.step[2 + i];
          }
          if (!inside) continue;
          for (int64_t ch = 0; ch < group; ++ch) {
            const int64_t xi = x + (f / each * group + ch) * c.image.step[1], vi = v + ch * c.weights.step[1];
            const bool r = c.rounds;
            if (c.kind == 10) sums[y] += rounded(at(c.image, xi), r) * rounded(at(c.weights, vi), r);
            else if (c.kind == 12) sums[xi] += rounded(at(c.result, y), r) * rounded(at(c.weights, vi), r);
            else sums[vi] += rounded(at(c.result, y), r) * rounded(at(c.image, xi), r);
          }
        }
  for (size_t i = 0; i < sums.size(); ++i) put(out, (int64_t)i, sums[i]);
}
bool dense(const Tensor& t) {  // channels last
  int64_t step = 1;
  const int order[] = {1, t.rank - 1, t.rank - 2, t.rank - 3, 0};
  for (int i = 0; i < t.rank; ++i) {
    const int axis = i == t.rank - 1 ? 0 : order[i];
    if (t.step[axis] != step) return false;
    step *= t.size[axis];
  }
  return true;
}
Tensor tensor(Descriptor* d) {
  Tensor t = {};
  t.type = (int)d->numbers[901][0];
  t.rank = (int)d->numbers[902].size();
  for (int i = 0; i < t.rank; ++i) t.size[i] = d->numbers[902][i], t.step[i] = d->numbers[903][i];
  return t;
}
Descriptor* part(Descriptor* d, int attribute) { return (Descriptor*)d->numbers[attribute][0]; }
int base(int kind) { return kind == 10 ? 700 : kind == 12 ? 706 : 712; }
// The attributes of image, weights and result of an operation.
Descriptor* operand(Descriptor* op, int which) {
  static const int places[3][3] = {{704, 703, 705}, {710, 709, 711}, {716, 715, 717}};
  return part(op, places[op->kind == 10 ? 0 : op->kind == 12 ? 1 : 2][which]);
}
int check(Descriptor* op) {
  if (op->scales[base(op->kind)] != 1 || op->scales[base(op->kind) + 1] != 0) return 2000;
  Descriptor* c = part(op, base(op->kind) + 2);
  const Tensor x = tensor(operand(op, 0)), w = tensor(operand(op, 1)), y = tensor(operand(op, 2));
  const size_t n = (size_t)x.rank - 2;
  if (!c->finished || w.rank != x.rank || y.rank != x.rank || n < 2 || n > 3 || (size_t)c->numbers[106][0] != n) return 2008;
  if (x.type != w.type || y.type != x.type || c->numbers[100][0] != (x.type == 1 ? 1 : 0) || c->numbers[101][0] != 1)
    return 2000;
  if (!dense(x) || !dense(w) || !dense(y)) return 3004;
  if (x.size[0] != y.size[0] || w.size[0] != y.size[1] || x.size[1] % w.size[1]) return 2008;
  if (w.size[0] % (x.size[1] / w.size[1])) return 2008;
  for (int a = 102; a <= 105; ++a)
    if (c->numbers[a].size() != n) return 2008;
  for (size_t i = 0; i < n; ++i) {
    const int64_t full = x.size[2 + i] + c->numbers[104][i] + c->numbers[105][i];
    const int64_t extent = (w.size[2 + i] - 1) * c->numbers[102][i] + 1;
    if (full < extent || (full - extent) / c->numbers[103][i] + 1 != y.size[2 + i]) return 2008;
  }
  return 0;
}
}  // namespace

API void fake_starts_with(void* function) { start = (Start)function; }
API void fake_refuses(int whether) { refuses = whether; }
API void fake_room(int64_t bytes) { room_needed = bytes; }
API size_t cudnnGetVersion() { return 92700; }
API int cudnnCreate(void** h) { return *h = (void*)1, 0; }
API int cudnnSetStream(void*, void*) { return 0; }
API int cudnnBackendCreateDescriptor(int kind, void** made) {
  Descriptor* d = new Descriptor;
  d->kind = kind;
  return *made = d, 0;
}
API int cudnnBackendDestroyDescriptor(void* d) { return delete (Descriptor*)d, 0; }
API int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, int64_t many, const void* values) {
  Descriptor* d = (Descriptor*)descriptor;
  if (d->finished) return 2000;
  if (type == 4) return d->scales[attribute] = *(const float*)values, 0;
  if (type == 5) return d->scales[attribute] = *(const double*)values, 0;
  std::vector<int64_t>& to = d->numbers[attribute];
  to.assign((size_t)many, 0);
  for (int64_t i = 0; i < many; ++i) memcpy(&to[i], (const char*)values + i * SIZES[type], SIZES[type]);
  return 0;
}
API int cudnnBackendFinalize(void* descriptor) {
  Descriptor* d = (Descriptor*)descriptor;
  d->finished = true;
  if (d->kind >= 10 && d->kind <= 12) return check(d);
  if (d->kind == 15 && refuses) return 3000;
  if (d->kind == 5 && part(d, 401)->engine == 0) return 2000;
  return 0;
}
API int cudnnBackendGetAttribute(void* descriptor, int attribute, int, int64_t most, int64_t* many, void* values) {
  Descriptor* d = (Descriptor*)descriptor;
  if (!d->finished) return 2004;
  if (attribute == 202) {
    const int64_t mode = d->numbers[200][0];
    const bool wide = tensor(operand(part(part(d, 201), 801), 0)).type == 1;
    *many = 0;
    for (int engine = mode == 2 ? 9 : wide ? 9 : 7; engine <= 9 && *many < most; ++engine) {
      Descriptor* c = ((Descriptor**)values)[(*many)++];
      c->engine = engine, c->finished = true, c->numbers[1] = {(int64_t)part(d, 201)};
    }
    return 0;
  }
  if (attribute == 300) {
    Descriptor* e = *(Descriptor**)values;
    return e->engine = d->engine, e->finished = true, *many = 1, 0;
  }
  if (attribute == 1303) {
    *many = d->engine == 7 ? 2 : d->engine == 8 ? 1 : 0;
    if (*many) ((int*)values)[0] = 0;
    if (*many == 2) ((int*)values)[1] = 4;
    return 0;
  }
  if (attribute == 1301) return *(int64_t*)values = d->engine, *many = 1, 0;
  if (attribute == 402) return *(int64_t*)values = room_needed, *many = 1, 0;
  return 2000;
}
API int cudnnBackendExecute(void*, void* plan, void* pack) {
  Descriptor *p = (Descriptor*)plan, *given = (Descriptor*)pack;
  if (!p->finished || !given->finished) return 2004;
  Descriptor* config = part(p, 401);
  Descriptor* op = part((Descriptor*)config->numbers[1][0], 801);
  Descriptor* c = part(op, base(op->kind) + 2);
  Call call = {};
  call.kind = op->kind;
  Tensor* tensors[] = {&call.image, &call.weights, &call.result};
  for (int i = 0; i < 3; ++i) {
    Descriptor* t = operand(op, i);
    *tensors[i] = tensor(t);
    for (size_t j = 0; j < given->numbers[1000].size(); ++j)
      if (given->numbers[1000][j] == t->numbers[906][0]) tensors[i]->data = (void*)given->numbers[1001][j];
    if (!tensors[i]->data || (int64_t)tensors[i]->data % t->numbers[900][0]) return 2003;
  }
  call.axes = call.image.rank - 2;
  for (int i = 0; i < call.axes; ++i)
    call.dilation[i] = c->numbers[102][i], call.stride[i] = c->numbers[103][i], call.begin[i] = c->numbers[105][i];
  call.rounds = call.image.type == 0 && config->engine == 8;
  if (given->numbers[1003][0] % 256) return 2000;
  memset((void*)given->numbers[1003][0], 0x5A, (size_t)room_needed);
  start(run, &call, sizeof call);
  return 0;
}
