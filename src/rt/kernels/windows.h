// Which parts of windows over an image lie in it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace brim::rt {

/// The taps of one axis of a window that begins at `at`: [first, last).
struct Taps {
  int64_t first, last;
  Taps(int64_t at, int64_t size, int64_t kernel, int64_t dilation)
      : first(at >= 0 ? 0 : std::min(kernel, (-at + dilation - 1) / dilation)),
        last(at >= size
                 ? first
                 : std::max(first, std::min(kernel, (size - at + dilation - 1) / dilation))) {}
};

/// The outputs of one axis whose windows, without dilation, lie in the image: [begin, end).
struct InnerOutputs {
  int64_t begin, end;
  InnerOutputs(int64_t size, int64_t outputs, int64_t kernel, int64_t stride, int64_t padding)
      : begin(std::min(outputs, (padding + stride - 1) / stride)) {
    const int64_t last =
        size - kernel + padding;  // where the last window begins, in the padded image
    end = last < 0 ? begin : std::max(begin, std::min(outputs, last / stride + 1));
  }
};

}  // namespace brim::rt
