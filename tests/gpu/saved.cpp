// Runs the saved model `net` of a folder on x.bin, from the host's memory and from the GPU's, and writes y.bin.
#include <stdio.h>
#include <string.h>

#include <chrono>
#include <string>
#include <vector>

#include "net.h"

int main(int, char** given) {
  const std::string folder = given[1];
  net* model = net_create((folder + "/saved").c_str(), 0);
  if (!model) return puts(net_error()), 1;
  std::vector<char> x(net_input_bytes(0, nullptr)), y(net_output_bytes(0, nullptr)), again(y.size());
  FILE* file = fopen((folder + "/x.bin").c_str(), "rb");
  if (!file || fread(x.data(), 1, x.size(), file) != x.size()) return puts("x.bin"), 1;
  fclose(file);
  const void* in[] = {x.data()};
  void* out[] = {y.data()};
  if (net_run(model, in, out, nullptr)) return puts(net_error()), 1;
  out[0] = again.data();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i)
    if (net_run(model, in, out, nullptr)) return puts(net_error()), 1;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 50;
  if (memcmp(y.data(), again.data(), y.size())) return puts("two runs differ"), 1;
  file = fopen((folder + "/y.bin").c_str(), "wb");
  fwrite(y.data(), 1, y.size(), file);
  fclose(file);
  net_destroy(model);
  printf("%.1f us a run with copies\n", seconds * 1e6);
}
