// driver.h: what every test driver needs: a pool by handle, exported names.
#pragma once
#include "glasshouse/threadpool.h"
#define API extern "C" __attribute__((visibility("default")))
API void* pool_new(int threads) { return new gh::ThreadPool(threads); }
API void pool_free(void* p) { delete (gh::ThreadPool*)p; }
