// A fake of libnccl.so.2 whose ranks are processes of one host, or threads of one: messages go over
// sockets, as work on the streams. The signatures are those of NVIDIA's header.
#include <nccl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "fakes/fake.h"

namespace {

using namespace brim::fake;

constexpr int kVersion = 22809;

/// Does what is queued while communicators are there, as a GPU would: ranks may wait for each other
/// on the host while their messages are on the way. A thread for each that was made, as what one
/// does may wait for what another one has to do.
class Progress {
 public:
  /// For one more communicator. It goes with the last one.
  static std::shared_ptr<Progress> get() {
    static std::mutex mutex;
    static std::weak_ptr<Progress> all;
    const std::lock_guard lock(mutex);
    auto progress = all.lock();
    if (!progress) all = progress = std::make_shared<Progress>();
    progress->threads_.emplace_back([&ending = progress->ending_] {
      while (!ending) {
        machine->go_on();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
    return progress;
  }
  ~Progress() {
    ending_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> threads_;
};

struct Message {
  int peer;
  char* data;
  size_t bytes;
};

/// What stays until the work of streams is done.
struct Links {
  explicit Links(int size) : sockets(static_cast<size_t>(size), -1) {}
  ~Links() {
    for (const int socket : sockets)
      if (socket >= 0) close(socket);
  }
  std::vector<int> sockets;
  std::shared_ptr<int> graphs = std::make_shared<int>();  // held by each node of one, too
  std::atomic<int> result = ncclInProgress;               // of what was asked for last
  std::atomic<bool> aborted = false;

  void fail(const char* why) {
    wrong("nccl", why);
    result = ncclRemoteError;
  }
  /// Until all has come and gone.
  void exchange(std::vector<Message> out, std::vector<Message> in) {
    while (!out.empty() || !in.empty()) {
      if (aborted || result == ncclRemoteError) return;
      bool moved = false;
      moved = advance(out, true) || moved;
      moved = advance(in, false) || moved;
      if (!moved) machine->pause();
    }
  }

 private:
  /// The next bytes of the first message of each peer.
  bool advance(std::vector<Message>& messages, bool is_sent) {
    bool moved = false;
    std::vector<int> met;
    for (Message& m : messages) {
      if (std::ranges::find(met, m.peer) != met.end()) continue;
      met.push_back(m.peer);
      const int socket = sockets[static_cast<size_t>(m.peer)];
      const ssize_t n = is_sent ? send(socket, m.data, m.bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : recv(socket, m.data, m.bytes, MSG_DONTWAIT);
      // NCCL's kernels wait for a rank that is gone; they do not know.
      if (n <= 0) continue;
      m.data += n, m.bytes -= static_cast<size_t>(n);
      moved = true;
    }
    std::erase_if(messages, [](const Message& m) { return m.bytes == 0; });
    return moved;
  }
};

sockaddr_un address_of(const ncclUniqueId& id, int rank, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // the name begins with 0: it is no file
  std::string name(1, '\0');
  name += std::string(id.internal, 32) + "-" + std::to_string(rank);
  std::memcpy(address.sun_path, name.data(), name.size());
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return address;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Links> links;
  std::shared_ptr<Progress> progress = Progress::get();
  int rank = 0;
  std::thread joining;
};

namespace {

/// Connects a rank to all others: it listens for those above it, and looks for those below.
void join(const std::shared_ptr<Links>& links, ncclUniqueId id, int rank) {
  const auto size = static_cast<int>(links->sockets.size());
  socklen_t bytes = 0;
  const sockaddr_un own = address_of(id, rank, bytes);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&own), bytes) != 0 ||
      listen(listener, size) != 0) {
    close(listener);
    return links->fail("the rank is there already, or is given twice");
  }
  for (int peer = 0; peer < rank && !links->aborted; ++peer) {
    const sockaddr_un address = address_of(id, peer, bytes);
    while (!links->aborted) {
      const int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), bytes) == 0 &&
          send(socket_, &rank, sizeof(rank), MSG_NOSIGNAL) == sizeof(rank)) {
        links->sockets[static_cast<size_t>(peer)] = socket_;
        break;
      }
      close(socket_);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  for (int left = size - 1 - rank; left > 0 && !links->aborted;) {
    const int socket_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket_ < 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    int peer = -1;
    if (recv(socket_, &peer, sizeof(peer), MSG_WAITALL) != sizeof(peer) || peer <= rank ||
        peer >= size) {
      close(socket_);
      continue;
    }
    links->sockets[static_cast<size_t>(peer)] = socket_;
    --left;
  }
  close(listener);
  if (!links->aborted) links->result = wanted("nccl_begins_badly") ? ncclSystemError : ncclSuccess;
}

/// What this thread has asked for since ncclGroupStart.
struct Group {
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Message> out, in;
};
thread_local Group group;
thread_local bool is_grouped = false;

ncclResult_t add(std::vector<Message>& to, const char* call, const void* data, size_t count,
                 ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  const auto refuse = [&](const char* why) {
    wrong(call, why);
    return ncclInvalidArgument;
  };
  if (!is_grouped) return refuse("outside of a group, which brim never asks for");
  if (type != ncclUint8) return refuse("not of bytes");
  if (group.comm && (group.comm != comm || group.stream != stream))
    return refuse("one group of two communicators or streams");
  if (peer < 0 || peer >= static_cast<int>(comm->links->sockets.size()) || peer == comm->rank)
    return refuse("no such peer");
  if (!is_memory(data, static_cast<int64_t>(count))) return refuse("no memory of a device");
  group.comm = comm, group.stream = stream;
  to.push_back({peer, static_cast<char*>(const_cast<void*>(data)), count});
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = wanted("nccl_old") ? 21805 : kVersion;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "a fake's error";
}
const char* ncclGetLastError(ncclComm_t) { return "as the fake was asked to"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  unsigned char random[16];
  if (getrandom(random, sizeof(random), 0) != sizeof(random)) return ncclSystemError;
  for (size_t i = 0; i < sizeof(random); ++i)
    std::snprintf(id->internal + 2 * i, 3, "%02x", static_cast<unsigned>(random[i]));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) {
    wrong("ncclCommInitRankConfig", "a rank that never comes would block this one");
    return ncclInvalidArgument;
  }
  *comm = new ncclComm;
  (*comm)->links = std::make_shared<Links>(size);
  (*comm)->rank = rank;
  (*comm)->joining = std::thread([links = (*comm)->links, id, rank] { join(links, id, rank); });
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (wanted("nccl_breaks")) comm->links->result = ncclRemoteError;
  *result = static_cast<ncclResult_t>(comm->links->result.load());
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
/// As NCCL's, it waits for the end of all graphs that hold its kernels.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  while (comm->links->graphs.use_count() > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  comm->joining.join();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->links->aborted = true;
  return ncclCommDestroy(comm);
}

ncclResult_t ncclGroupStart() {
  is_grouped = true;
  group = {};
  return ncclSuccess;
}
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(group.out, "ncclSend", data, count, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(group.in, "ncclRecv", data, count, type, peer, comm, stream);
}
ncclResult_t ncclGroupEnd() {
  is_grouped = false;
  if (!group.comm) return ncclSuccess;
  std::shared_ptr<int> graph;
  if (machine->is_captured(group.stream)) graph = group.comm->links->graphs;
  machine->submit(group.stream, [graph, links = group.comm->links, out = group.out, in = group.in] {
    links->exchange(out, in);
  });
  group = {};
  return ncclSuccess;
}

}  // extern "C"
