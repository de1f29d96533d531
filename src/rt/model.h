// An opened engine: the file in memory, its header and tables checked.
#pragma once

#include "rt/failure.h"
#include "rt/format.h"
#include "rt/memory.h"

struct brim_rt_model {
  brim::rt::Memory memory;
  const char* data = nullptr;
  size_t bytes = 0;
  bool is_mapped = false;

  const brim::rt::FileHeader& header() const {
    return *reinterpret_cast<const brim::rt::FileHeader*>(data);
  }
  /// Of a range that was checked.
  template <class T>
  const T* table(const brim::rt::Range& range) const {
    return reinterpret_cast<const T*>(data + range.at);
  }
  const char* text(uint32_t at) const { return data + header().text.at + at; }
  const brim::rt::ProgramRecord& program(int64_t i) const {
    return table<brim::rt::ProgramRecord>(header().programs)[i];
  }
};

namespace brim::rt {

/// For what a file holds that none holds which brim wrote.
inline int damaged(const Failure& fail, const char* what) {
  return fail(BRIM_RT_DAMAGED, "the engine is damaged: %s; write it anew with brim export", what);
}

/// Whether `range` lies in the file, as records of T.
template <class T>
bool is_in_file(const brim_rt_model& model, const Range& range) {
  return range.at % alignof(T) == 0 && range.at <= model.bytes &&
         range.count <= (model.bytes - range.at) / sizeof(T);
}

/// BRIM_RT_OK, or what is wrong with the file.
int check_model(const brim_rt_model& model, const Failure& fail);

}  // namespace brim::rt
