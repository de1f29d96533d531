#include "train/loader_state.h"

#include <bit>
#include <cstdint>
#include <map>
#include <vector>

#include "core/check.h"
#include "core/printable.h"

namespace brim::train {
namespace {

std::map<std::string, int64_t> loader_numbers(const data::Loader& loader) {
  const data::LoaderOptions& o = loader.options();
  std::map<std::string, int64_t> numbers = {{"batch", o.batch},
                                            {"seed", std::bit_cast<int64_t>(o.seed)},
                                            {"shuffle", o.shuffle},
                                            {"drop_last", o.drop_last},
                                            {"world_size", o.world_size}};
  if (!loader.is_iterable()) numbers["samples"] = loader.samples();
  return numbers;
}

std::map<std::string, std::string> loader_texts(const data::Loader& loader) {
  const data::LoaderOptions& o = loader.options();
  std::map<std::string, std::string> texts = {
      {"collate", data::describe(loader.collate())}, {"sampler", "none"}, {"buckets", "none"}};
  if (o.sampler) texts["sampler"] = "sampler " + o.sampler->describe();
  if (o.buckets)
    texts["buckets"] = fmt::format("growth {}, tokens {}", o.buckets->growth, o.buckets->tokens);
  return texts;
}

}  // namespace

StateDict text_state(const std::string& text) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  const std::vector<uint8_t> copy(bytes, bytes + text.size());
  return {{"", Tensor::from(copy, {static_cast<int64_t>(copy.size())}, Device::cpu())}};
}

std::string text_of(const Tensor& text) {
  BRIM_CHECK(text.dtype() == DType::u8 && text.rank() == 1, ValueError,
             "it is a tensor of {}, and now text", text.shape().str());
  const std::vector<uint8_t> bytes = text.to_vector<uint8_t>();
  return {bytes.begin(), bytes.end()};
}

StateDict loader_state(const data::Loader& loader, const LoopPosition& at) {
  StateDict state;
  for (const auto& [what, now] : loader_numbers(loader))
    state[what] = Tensor::from<int64_t>({now}, {}, Device::cpu());
  for (const auto& [what, now] : loader_texts(loader)) state[what] = text_state(now).at("");
  if (loader.is_iterable()) state["state"] = text_state(loader.state(at.epoch, at.batch)).at("");
  return state;
}

void load_loader(const data::Loader& loader, const LoopPosition& at, const StateDict& saved) {
  if (!loader.is_iterable())
    BRIM_CHECK(at.batch <= loader.batches(), ValueError,
               "it lies after batch {} of an epoch, and the loader has {}", at.batch,
               loader.batches());
  if (at.batch == 0) return;
  const auto check = [](const std::string& what, const auto& before, const auto& now) {
    BRIM_CHECK(
        before == now, ValueError,
        "it lies amid an epoch of a loader whose {} was {}, and now it is {}; give the loader it "
        "was trained with",
        what, before, now);
  };
  const auto is_there = [&](const std::string& what, bool there) {
    BRIM_CHECK(there, ValueError, "it does not tell the loader's {}", what);
  };
  std::map<std::string, int64_t> before, now = loader_numbers(loader);
  for (const auto& [what, _] : now) {
    const auto found = saved.find(what);
    is_there(what, found != saved.end() && found->second.numel() == 1);
    before[what] = found->second.item<int64_t>();
  }
  if (before["world_size"] != now["world_size"] && !loader.is_iterable() &&
      !loader.options().buckets) {  // other ranks share the same batches
    for (std::map<std::string, int64_t>* numbers : {&before, &now}) {
      const int64_t ranks = (*numbers)["world_size"];
      for (const char* what : {"batch", "samples"}) {
        (*numbers)[what + std::string(" of all ranks")] = (*numbers)[what] * ranks;
        numbers->erase(what);
      }
      numbers->erase("world_size");
    }
  }
  for (const auto& [what, value] : now) check(what, before[what], value);
  for (const auto& [what, text] : loader_texts(loader))  // older checkpoints do not tell them
    if (saved.contains(what)) check(what, printable(text_of(saved.at(what))), printable(text));
  if (!loader.is_iterable()) return;
  is_there("state", saved.contains("state"));
  loader.load_state(text_of(saved.at("state")));
}

}  // namespace brim::train
