// Serves a saved model over HTTP without Python: ./http FOLDER [PORT [THREADS]]
//
//   POST /run      body: the inputs, raw row-major bytes, one behind the other; answer: the outputs likewise.
//                  Of a model with one symbolic size (its batch), the length of the body tells how many rows there are.
//   GET  /health   200 once the model runs
//   GET  /metrics  requests, errors and seconds, as Prometheus reads them
//
// It listens on this machine alone: put a proxy before it that speaks TLS and knows who may ask. examples/cpp/README.md
// says how to build it.
#include "model.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

static const size_t kMostHeader = 16 << 10, kMostBody = 64 << 20;
static const int kMostConnections = 64;

static std::atomic<long> requests, errors, microseconds;
static std::atomic<int> connections;

struct Answer {
  int status;
  std::string type, body;
};

static Answer refused(int status, const std::string& why) {
  ++errors;
  return {status, "text/plain", why + "\n"};
}

static int64_t input_bytes(const int64_t* sizes) {
  int64_t sum = 0;
  for (int i = 0; i < model_input_count(); ++i) sum += model_input_bytes(i, sizes);
  return sum;
}

// How many rows a body of this length has; -1 where no number fits. Inputs grow by the same bytes with every row.
static int64_t rows_of(int64_t length) {
  const int64_t low = std::max<int64_t>(model_symbol_low(0), 1), high = model_symbol_high(0), next = low + 1;
  const int64_t least = input_bytes(&low), row = input_bytes(&next) - least;
  if (length < least || row <= 0 || (length - least) % row) return -1;
  const int64_t rows = low + (length - least) / row;
  return high < 0 || rows <= high ? rows : -1;
}

static Answer run(model* m, const std::string& body) {
  int64_t rows = 0;
  const int64_t* sizes = nullptr;
  if (model_symbol_count()) {
    rows = rows_of((int64_t)body.size());
    sizes = &rows;
    if (rows < 0) return refused(400, "no number of rows has inputs of " + std::to_string(body.size()) + " bytes");
  } else if ((int64_t)body.size() != input_bytes(nullptr)) {
    return refused(400, "inputs are " + std::to_string(input_bytes(nullptr)) + " bytes, got " + std::to_string(body.size()));
  }
  std::vector<std::vector<char>> copies;  // each begins where its elements may lie
  std::vector<const void*> from;
  std::vector<void*> to;
  size_t at = 0, total = 0;
  for (int i = 0; i < model_input_count(); ++i) {
    const size_t count = (size_t)model_input_bytes(i, sizes);
    copies.emplace_back(body.data() + at, body.data() + at + count);
    from.push_back(copies.back().data());
    at += count;
  }
  std::vector<std::vector<char>> outputs;
  for (int i = 0; i < model_output_count(); ++i) {
    outputs.emplace_back((size_t)model_output_bytes(i, sizes));
    to.push_back(outputs.back().data());
    total += outputs.back().size();
  }
  const auto begin = std::chrono::steady_clock::now();
  if (model_run(m, from.data(), to.data(), sizes)) return refused(500, model_error());
  const auto took = std::chrono::steady_clock::now() - begin;
  microseconds += (long)std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  ++requests;
  Answer answer{200, "application/octet-stream", {}};
  answer.body.reserve(total);
  for (auto& data : outputs) answer.body.append(data.data(), data.size());
  return answer;
}

static Answer metrics() {
  char text[512];
  std::snprintf(text, sizeof text,
                "# TYPE glasshouse_requests_total counter\nglasshouse_requests_total %ld\n"
                "# TYPE glasshouse_refused_total counter\nglasshouse_refused_total %ld\n"
                "# TYPE glasshouse_run_seconds_total counter\nglasshouse_run_seconds_total %.6f\n",
                requests.load(), errors.load(), (double)microseconds.load() / 1e6);
  return {200, "text/plain; version=0.0.4", text};
}

static bool send_all(int to, const std::string& data) {
  for (size_t done = 0; done < data.size();) {
    const ssize_t sent = send(to, data.data() + done, data.size() - done, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    done += (size_t)sent;
  }
  return true;
}

// Reads until there are `count` bytes; false where the client left, or took longer than the socket's limit.
static bool read_until(int from, std::string& into, size_t count) {
  char piece[65536];
  while (into.size() < count) {
    const ssize_t got = recv(from, piece, std::min(sizeof piece, count - into.size()), 0);
    if (got <= 0) return false;
    into.append(piece, (size_t)got);
  }
  return true;
}

static Answer answer_to(model* m, const std::string& first, const std::string& body) {
  if (first.rfind("POST /run ", 0) == 0) return run(m, body);
  if (first.rfind("GET /health ", 0) == 0) return {200, "text/plain", "ok\n"};
  if (first.rfind("GET /metrics ", 0) == 0) return metrics();
  return refused(404, "there are POST /run, GET /health and GET /metrics");
}

// The length that a header gives; 0 without one, -1 where it is none, or the body comes in chunks.
static long length_in(const std::string& header) {
  std::string lower(header);
  for (char& c : lower) c = (char)std::tolower((unsigned char)c);
  if (lower.find("\r\ntransfer-encoding:") != std::string::npos) return -1;
  const size_t at = lower.find("\r\ncontent-length:");
  if (at == std::string::npos) return 0;
  char* end = nullptr;
  const long length = std::strtol(lower.c_str() + at + 17, &end, 10);
  return *end == '\r' && length >= 0 ? length : -1;
}

// One connection, request by request, until the client closes it or sends what is none.
static void converse(model* m, int client) {
  std::string pending;
  for (bool open = true; open;) {
    size_t end;
    char piece[4096];
    while ((end = pending.find("\r\n\r\n")) == std::string::npos && pending.size() < kMostHeader) {
      const ssize_t got = recv(client, piece, sizeof piece, 0);
      if (got <= 0) return;
      pending.append(piece, (size_t)got);
    }
    Answer answer;
    const long length = end == std::string::npos ? -1 : length_in(pending.substr(0, end + 2));
    if (length < 0 || (size_t)length > kMostBody) {
      answer = refused(length < 0 ? 400 : 413, "a request has a header of 16 KB and a Content-Length of 64 MB at most");
      open = false;
    } else {
      if (pending.find("100-continue") < end && !send_all(client, "HTTP/1.1 100 Continue\r\n\r\n")) return;
      if (!read_until(client, pending, end + 4 + (size_t)length)) return;
      answer = answer_to(m, pending.substr(0, pending.find("\r\n")), pending.substr(end + 4, (size_t)length));
      pending.erase(0, end + 4 + (size_t)length);
    }
    const std::string head = "HTTP/1.1 " + std::to_string(answer.status) + (answer.status == 200 ? " OK" : " Refused") +
                             "\r\nContent-Type: " + answer.type + "\r\nContent-Length: " + std::to_string(answer.body.size()) +
                             "\r\n\r\n";
    if (!send_all(client, head + answer.body)) return;
    if (open) continue;
    // What the client still sends is read, 4 MB at most: closing at once would take the answer back.
    shutdown(client, SHUT_WR);
    for (int k = 0; k < 1024 && recv(client, piece, sizeof piece, 0) > 0;) ++k;
  }
}

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s FOLDER [PORT [THREADS]]\n", argv[0]), 2;
  if (model_symbol_count() > 1) return std::fprintf(stderr, "this example serves models with one size that varies\n"), 2;
  model* m = model_create(argv[1], argc > 3 ? std::atoi(argv[3]) : 0);
  if (!m) return std::fprintf(stderr, "%s\n", model_error()), 1;

  const int server = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  here.sin_port = htons((uint16_t)(argc > 2 ? std::atoi(argv[2]) : 8080));
  socklen_t size = sizeof here;
  if (bind(server, (sockaddr*)&here, size) || listen(server, 128)) return std::perror("cannot listen"), 1;
  getsockname(server, (sockaddr*)&here, &size);
  std::printf("http://127.0.0.1:%d/run\n", ntohs(here.sin_port));
  std::fflush(stdout);

  for (;;) {
    const int client = accept(server, nullptr, nullptr);
    if (client < 0) continue;
    const timeval limit{30, 0};  // a client that says nothing does not keep a thread for longer
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connections >= kMostConnections) {
      send_all(client, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      close(client);
      continue;
    }
    ++connections;
    std::thread([m, client] {
      converse(m, client);
      close(client);
      --connections;
    }).detach();
  }
}
