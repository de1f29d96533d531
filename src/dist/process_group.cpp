#include <brim/dist/process_group.h>

#include <brim/core/stream.h>

#include <filesystem>

#include "core/check.h"
#include "core/clock.h"
#include "core/printable.h"
#include "dist/flight_recorder.h"
#include "dist/link_speed.h"
#include "dist/transport.h"
#include "io/atomic_file.h"

namespace brim::dist {

ProcessGroup::ProcessGroup(std::unique_ptr<Transport> transport, GroupOptions options)
    : options_(std::move(options)),
      transport_(std::move(transport)),
      recorder_(std::make_unique<FlightRecorder>()),
      rank_(transport_->rank()),
      size_(transport_->size()) {
  if (options_.ranks_per_host != 0) transport_->set_ranks_per_host(options_.ranks_per_host);
}

ProcessGroup::~ProcessGroup() { transport_->drop_links(); }

const char* ProcessGroup::backend() const { return transport_->backend(); }
bool ProcessGroup::has_links() const { return transport_->modelled() || transport_->paced(); }

void ProcessGroup::check_alive() const {
  BRIM_CHECK(failure_.empty(), DistError, "[dist] rank {}: an earlier call failed: {}", rank_,
             failure_);
}

Call ProcessGroup::begin(const Call& call) {
  Call numbered = call;
  if (call.kind != CallKind::send && !call.is_replayed) numbered.number = ++calls_;
  recorder_->begin(numbered, steady_seconds());
  return numbered;
}

void ProcessGroup::end() { recorder_->end(steady_seconds()); }

void ProcessGroup::failed(const std::string& why) noexcept try {
  failure_ = why;
  // First, for the others wait, and a launcher may end this process soon.
  transport_->abort(why);
  std::error_code ignored;
  if (!std::filesystem::is_directory(options_.record_folder, ignored)) return;
  try {
    const std::string path = fmt::format("{}/rank-{}.json", options_.record_folder, rank_);
    io::write_file_atomically(path, recorder_->json(rank_, size_, why, steady_seconds()));
  } catch (const std::exception& e) {
    warn_on_stderr(fmt::format("[dist] no record of rank {}'s calls: {}", rank_, e.what()));
  }
} catch (...) {  // no memory for the text
}

std::shared_ptr<ProcessGroup> ProcessGroup::duplicate(std::optional<double> timeout) {
  std::shared_ptr<ProcessGroup> other;
  run({.kind = CallKind::duplicate}, [&](Transport& transport, const Call& call) {
    GroupOptions options = options_;
    options.record_folder.clear();  // one record a rank
    options.ranks_per_host = transport.ranks_per_host();
    options.timeout = timeout.value_or(transport.timeout());
    const double seconds = options.timeout;
    other = std::make_shared<ProcessGroup>(transport.duplicate(call, seconds), std::move(options));
  });
  return other;
}

void ProcessGroup::barrier() {
  run({.kind = CallKind::barrier},
      [](Transport& transport, const Call& call) { transport.meet(call); });
}

std::vector<std::string> ProcessGroup::all_gather_text(const std::string& text) {
  constexpr uint64_t kMaxBytes = 64 << 20;
  BRIM_CHECK(text.size() <= kMaxBytes, ValueError, "[dist] a text of {} B; at most {}", text.size(),
             kMaxBytes);
  std::vector<std::string> texts(static_cast<size_t>(size_));
  run({.kind = CallKind::text}, [&](Transport& transport, const Call& call) {
    const uint64_t bytes = text.size();
    std::vector<uint64_t> sizes(texts.size());
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      out.push_back({peer, &bytes, sizeof(bytes)});
      in.push_back({peer, &sizes[static_cast<size_t>(peer)], sizeof(bytes)});
    }
    transport.exchange(call, out, in);
    for (Outgoing& o : out) o.data = text.data(), o.bytes = text.size();
    for (Incoming& i : in) {
      const uint64_t theirs = sizes[static_cast<size_t>(i.from)];
      BRIM_CHECK(theirs <= kMaxBytes, DistError, "[dist] rank {} announces a text of {} B", i.from,
                 theirs);
      texts[static_cast<size_t>(i.from)].resize(theirs);
      i.data = texts[static_cast<size_t>(i.from)].data(), i.bytes = theirs;
    }
    transport.exchange(call, out, in);
  });
  texts[static_cast<size_t>(rank_)] = text;
  return texts;
}

LinkSpeed ProcessGroup::link_speed(Device device) const {
  for (const Links* const links : {transport_->modelled(), transport_->paced()})
    if (links) return modelled_speed(*links, size_);
  const std::lock_guard lock(links_mutex_);
  const auto found = links_.find(device.str());
  return found == links_.end() ? LinkSpeed() : found->second;
}

LinkSpeed ProcessGroup::measure_link(Device device) {
  LinkSpeed speed = link_speed(device);
  if (size_ == 1 || transport_->modelled()) return speed;
  if (!control_) {
    Stream::current(device).synchronize();  // calls may be queued there
    control_ = duplicate();
  }
  if (speed.latency > 0) return speed;
  Stream::current(device).synchronize();
  speed = time_link(*this, device);
  const std::lock_guard lock(links_mutex_);
  return links_[device.str()] = speed;
}

std::string ProcessGroup::settle(const std::string& key, const std::string& text) {
  if (transport_->modelled()) return text;
  BRIM_CHECK(control_, ValueError, "[dist] settle() before measure_link()");
  const auto found = settled_.find(key);
  if (found != settled_.end()) return found->second;
  const std::string first = control_->all_gather_text(key + '\n' + text)[0];
  if (!first.starts_with(key + '\n')) return "";  // the calls themselves will tell
  return settled_[key] = first.substr(key.size() + 1);
}

void ProcessGroup::check() {
  const std::lock_guard lock(mutex_);
  check_alive();
  const std::string fault = transport_->fault();
  if (fault.empty()) return;
  const std::string why = fmt::format("[dist] rank {} cannot go on: {}", rank_, fault);
  failed(why);
  raise<DistError>("{}", why);
}

void ProcessGroup::abort(const std::string& why) noexcept {
  transport_->abort(why);  // at once, whatever another thread waits for
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && failure_.empty()) failed(why);  // else the call that is under way fails
}

}  // namespace brim::dist
