// The calls of CUDA's runtime that only the watching of devices makes, on the CPU, and how a test's
// fake of CUPTI is told what runs. Apart from cuda_runtime_api.h, on which every kernel depends.
#pragma once

#include <cuda_runtime.h>

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };

constexpr unsigned cudaEventDefault = 0;

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end);

/// Is told of work before it is queued (0), when it begins (1) and when it ends (2). `kind` is
/// "kernel", "memset", "graph" or a copy's "to device", "to host", "on device", "between".
using EmulationWatcher = void (*)(const char* kind, int device, int phase);
extern "C" void brim_emulation_watch(EmulationWatcher watcher);
