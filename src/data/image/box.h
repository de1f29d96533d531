// A rectangle of pixels.
#pragma once

namespace brim::data {

struct Box {
  int x = 0, y = 0, width = 0, height = 0;

  bool operator==(const Box&) const = default;
};

}  // namespace brim::data
