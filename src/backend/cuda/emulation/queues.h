// What emulated streams are asked to do. Nothing of it is done before somebody needs it: who waits
// for a stream or an event, or asks whether it is done, has the work done that it is about, in
// order, and what that work waits for. So memory that is read without a wait for who writes it
// still has what was there before. BRIM_EMULATED_AT_ONCE=1: all is done when it is asked for.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include <cuda_runtime_api.h>

namespace brim::cuda::emulation {

struct Queue;

/// A place in a queue, which an event is recorded as.
struct Mark {
  Queue* queue = nullptr;
  std::atomic<bool> is_reached = false;
  std::chrono::steady_clock::time_point at{};
};

/// Asks a stream of this device for work.
void enqueue(cudaStream_t stream, int device, std::function<void()> work);
/// Asks it for a mark behind what it was asked for until now.
std::shared_ptr<Mark> enqueue_mark(cudaStream_t stream, int device);
/// Asks it to wait for a mark.
void enqueue_wait(cudaStream_t stream, int device, std::shared_ptr<Mark> mark);

/// Does what stands before a mark.
void reach(Mark& mark);
/// Does all that a stream was asked for.
void finish(cudaStream_t stream, int device);
/// Does all that the streams of a device were asked for.
void finish_device(int device);
/// Does what all streams were asked for, but for those whose work another thread is at.
void go_on();
/// Within work: lets other threads do that of other streams, for which it waits.
void pause();
/// Forgets it: the GPU is lost.
void discard_all();

}  // namespace brim::cuda::emulation
