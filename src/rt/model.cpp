// Files as models: mapped, and their header and tables checked. What steps do with the tables is
// checked where a session is made of them.
#include "rt/model.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "core/hash.h"

namespace brim::rt {
namespace {

bool is_text(const brim_rt_model& model, uint32_t at) { return at < model.header().text.count; }

int check_program(const brim_rt_model& model, const ProgramRecord& p, const Failure& fail) {
  if (!is_in_file<ValueRecord>(model, p.values) || !is_in_file<StepRecord>(model, p.steps) ||
      !is_in_file<uint32_t>(model, p.ids) || !is_in_file<int64_t>(model, p.words) ||
      !is_in_file<PortRecord>(model, p.inputs) || !is_in_file<PortRecord>(model, p.outputs))
    return damaged(fail, "a table reaches beyond its end");
  constexpr uint64_t kMaxPorts = 1024;
  if (p.batch < 1 || p.pass < 1 || p.batch % p.pass != 0 || p.inputs.count > kMaxPorts ||
      p.outputs.count < 1 || p.outputs.count > kMaxPorts)
    return damaged(fail, "a size is out of range");
  return BRIM_RT_OK;
}

}  // namespace

int check_model(const brim_rt_model& model, const Failure& fail) {
  if (model.bytes < sizeof kMagic || std::memcmp(model.data, kMagic, sizeof kMagic) != 0)
    return fail(BRIM_RT_DAMAGED, "this is no engine; brim export writes one, without --onnx");
  if (model.bytes < sizeof(FileHeader)) return damaged(fail, "it ends amid its header");
  const FileHeader& h = model.header();
  if (h.byte_order != kByteOrder)
    return fail(BRIM_RT_VERSION, "the engine is of another byte order than this machine");
  if (h.format != kFormat)
    return fail(BRIM_RT_VERSION,
                "the engine is of format %u, and this runtime reads format %u; export it anew, or "
                "take the runtime that belongs to it",
                h.format, kFormat);
  if (h.bytes != model.bytes) {
    return fail(BRIM_RT_DAMAGED, "the engine has %llu bytes of the %llu it was written with",
                static_cast<unsigned long long>(model.bytes),
                static_cast<unsigned long long>(h.bytes));
  }
  if (xxh64(model.data + sizeof(FileHeader), model.bytes - sizeof(FileHeader)) != h.hash)
    return damaged(fail, "its bytes are not those that were written");
  if (!is_in_file<char>(model, h.text) || !is_in_file<MetadataRecord>(model, h.metadata) ||
      !is_in_file<uint32_t>(model, h.labels) || !is_in_file<ProgramRecord>(model, h.programs) ||
      !is_in_file<ProofRecord>(model, h.proof) || !is_in_file<char>(model, h.weights) ||
      h.weights.at % kAlignment != 0)
    return damaged(fail, "a table reaches beyond its end");
  if (h.text.count == 0 || model.data[h.text.at + h.text.count - 1] != '\0')
    return damaged(fail, "its text has no end");
  if (h.programs.count == 0) return damaged(fail, "it computes nothing");
  for (uint64_t i = 0; i < h.metadata.count; ++i) {
    const MetadataRecord& m = model.table<MetadataRecord>(h.metadata)[i];
    if (!is_text(model, m.key) || !is_text(model, m.value))
      return damaged(fail, "a name lies beyond its text");
  }
  for (uint64_t i = 0; i < h.labels.count; ++i)
    if (!is_text(model, model.table<uint32_t>(h.labels)[i]))
      return damaged(fail, "a label lies beyond its text");
  for (uint64_t i = 0; i < h.proof.count; ++i) {
    const ProofRecord& proof = model.table<ProofRecord>(h.proof)[i];
    if (!is_in_file<int64_t>(model, {proof.at, 0}) || proof.bytes > model.bytes - proof.at)
      return damaged(fail, "its proof reaches beyond its end");
  }
  for (uint64_t i = 0; i < h.programs.count; ++i)
    if (const int code = check_program(model, model.program(static_cast<int64_t>(i)), fail))
      return code;
  return BRIM_RT_OK;
}

}  // namespace brim::rt

using brim::rt::Failure;
using brim::rt::Memory;

namespace {

bool is_whole(const brim_rt_allocator* allocator) {
  return !allocator || (allocator->allocate && allocator->release);
}

/// Takes `data` over: it is unmapped where the model cannot be made.
int make_model(const void* data, size_t bytes, bool is_mapped, const brim_rt_allocator* allocator,
               brim_rt_model** model, const Failure& fail) {
  const Memory memory(allocator);
  void* const block = memory.take(sizeof(brim_rt_model));
  if (!block) {
    if (is_mapped) munmap(const_cast<void*>(data), bytes);
    return fail(BRIM_RT_NO_MEMORY, "no memory for a model");
  }
  auto* const made =
      new (block) brim_rt_model{memory, static_cast<const char*>(data), bytes, is_mapped};
  if (const int code = brim::rt::check_model(*made, fail)) {
    brim_rt_close(made);
    return code;
  }
  *model = made;
  return BRIM_RT_OK;
}

}  // namespace

int brim_rt_open(const char* path, const brim_rt_allocator* allocator, brim_rt_model** model,
                 brim_rt_error* error) {
  const Failure fail(error);
  if (!path || !model || !is_whole(allocator))
    return fail(BRIM_RT_INVALID_ARGUMENT, "brim_rt_open: a null pointer");
  *model = nullptr;
  const int file =
      open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is refused, not waited for
  if (file < 0) return fail(BRIM_RT_FILE, "%s: %s", path, std::strerror(errno));
  struct stat status;
  const bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file || status.st_size == 0) {
    close(file);
    return fail(is_file ? BRIM_RT_DAMAGED : BRIM_RT_FILE, "%s: %s", path,
                is_file ? "the file is empty" : "no regular file");
  }
  const auto bytes = static_cast<size_t>(status.st_size);
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  const int reason = errno;
  close(file);
  if (data == MAP_FAILED) return fail(BRIM_RT_FILE, "%s: %s", path, std::strerror(reason));
  brim_rt_error found{};
  const int code = make_model(data, bytes, true, allocator, model, Failure(&found));
  return code ? fail(found.code, "%s: %s", path, found.message) : BRIM_RT_OK;
}

int brim_rt_open_memory(const void* data, size_t bytes, const brim_rt_allocator* allocator,
                        brim_rt_model** model, brim_rt_error* error) {
  const Failure fail(error);
  if (!data || !model || !is_whole(allocator))
    return fail(BRIM_RT_INVALID_ARGUMENT, "brim_rt_open_memory: a null pointer");
  *model = nullptr;
  if (reinterpret_cast<uintptr_t>(data) % brim::rt::kAlignment != 0)
    return fail(BRIM_RT_INVALID_ARGUMENT,
                "brim_rt_open_memory: the file is not aligned to 64 bytes");
  return make_model(data, bytes, false, allocator, model, fail);
}

void brim_rt_close(brim_rt_model* model) {
  if (!model) return;
  if (model->is_mapped) munmap(const_cast<char*>(model->data), model->bytes);
  const Memory memory = model->memory;
  memory.give_back(model, sizeof(brim_rt_model));
}

int brim_rt_abi() { return BRIM_RT_ABI; }

int64_t brim_rt_batch(const brim_rt_model* model, int index) {
  if (!model || index < 0 || static_cast<uint64_t>(index) >= model->header().programs.count)
    return 0;
  return model->program(index).batch;
}

const char* brim_rt_label(const brim_rt_model* model, int index) {
  if (!model || index < 0 || static_cast<uint64_t>(index) >= model->header().labels.count)
    return nullptr;
  return model->text(model->table<uint32_t>(model->header().labels)[index]);
}

const char* brim_rt_metadata(const brim_rt_model* model, const char* key) {
  if (!model || !key) return nullptr;
  const brim::rt::Range& all = model->header().metadata;
  for (uint64_t i = 0; i < all.count; ++i) {
    const auto& m = model->table<brim::rt::MetadataRecord>(all)[i];
    if (std::strcmp(model->text(m.key), key) == 0) return model->text(m.value);
  }
  return nullptr;
}
