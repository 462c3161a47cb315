// PMI-1 over the descriptor that MPICH's mpiexec leaves in PMI_FD: lines of "cmd=... key=value ...".
// Specified in P. Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale
// Systems" (EuroMPI 2010).
//
// mpiexec serves one connection a process. A program that uses MPICH too shares it: this works before
// MPI_Init (which says "init" once more) and between MPI_Init and MPI_Finalize, not afterwards; tried with
// MPICH 4.0.2. Elsewhere, or to be independent of that, such a program makes its communicator with
// tutti/mpi.hpp.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include <tutti/error.hpp>

#include "base/file_descriptor.hpp"
#include "base/system_error.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/socket.hpp"
#include "bootstrap/variables.hpp"

namespace tutti::bootstrap {
namespace {

constexpr std::size_t longest_line = 4096;
constexpr const char* gone =
    "failed: the launcher closed the connection (after MPI_Finalize of MPICH it is gone; make the "
    "communicator earlier, or with tutti/mpi.hpp), or PMI_FD is not a launcher's: then unset it";
constexpr const char* silent = "was not answered in time; if no launcher left it in PMI_FD, unset that";
constexpr const char* incomplete = "was not answered: not all ranks asked for a communicator in time";
constexpr std::chrono::seconds goodbye_timeout{1};

class Pmi1 {
 public:
  /// Through a descriptor of its own: MPI in the same program closes the launcher's when it is finalized, and
  /// what is opened then may get its number.
  explicit Pmi1(int descriptor) : descriptor_(::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {
    if (!descriptor_ && errno != EBADF) throw_errno("PMI: a second descriptor of PMI_FD");
  }
  /// Sends a command and returns what was answered; throws unless that is `answer` and reports success. After
  /// Error(timeout) it may still be taken and answered: who asks the same again waits for that.
  std::string ask(const std::string& command, const std::string& answer, const Deadline& deadline) {
    has_spoken_ = true;
    const std::string late = std::exchange(awaited_, answer);
    if (late != answer) unsent_ += command + "\n";
    flush(command, deadline);
    std::string line = read_line(command, deadline);
    if (late != answer && value(line, "cmd") == late) line = read_line(command, deadline);
    awaited_.clear();
    const auto code = value(line, "rc").value_or("0");
    if (value(line, "cmd") != answer || code != "0")
      fail(command, "was answered with " + value(line, "cmd").value_or("nothing") + ", code " + code);
    return line;
  }
  /// As `ask`, for what stays the same: asks once.
  const std::string& learn(const std::string& command, const std::string& answer, const Deadline& deadline) {
    auto known = learned_.find(command);
    if (known == learned_.end()) known = learned_.emplace(command, ask(command, answer, deadline)).first;
    return known->second;
  }
  [[nodiscard]] bool has_spoken() const { return has_spoken_; }
  /// Of "key=value" in a line; values hold no spaces.
  static std::optional<std::string> value(const std::string& line, const std::string& key) {
    std::istringstream words(line);
    for (std::string word; words >> word;)
      if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
    return std::nullopt;
  }

 private:
  /// Quotes the command without its values: a unique id holds a secret.
  [[noreturn]] static void fail(const std::string& command, const std::string& what,
                                ErrorCode code = ErrorCode::system) {
    throw Error(code, "PMI: \"" + command.substr(0, command.find(' ')) + "\" " + what);
  }
  void flush(const std::string& command, const Deadline& deadline) {
    while (!unsent_.empty()) {
      const auto sent = send_some(descriptor_.get(), std::as_bytes(std::span(unsent_)));
      if (!sent) fail(command, gone);
      if (*sent == 0 && !wait_for(descriptor_.get(), POLLOUT, deadline))
        fail(command, "failed: the launcher reads nothing", ErrorCode::timeout);
      unsent_.erase(0, *sent);
    }
  }
  std::string read_line(const std::string& command, const Deadline& deadline) {
    while (line_.size() < longest_line) {
      std::byte one{};
      const auto received = receive_some(descriptor_.get(), std::span(&one, 1));
      if (!received) fail(command, gone);
      if (*received == 1 && one == std::byte{'\n'}) return std::exchange(line_, {});
      if (*received == 1) {
        line_ += static_cast<char>(one);
      } else if (!wait_for(descriptor_.get(), POLLIN, deadline)) {
        fail(command, awaited_ == "barrier_out" ? incomplete : silent, ErrorCode::timeout);
      }
    }
    fail(command, "was answered with an endless line");
  }

  FileDescriptor descriptor_;  ///< empty where it was none: then all commands fail
  std::string unsent_;
  std::string line_;                            ///< of which the end has not come yet
  std::string awaited_;                         ///< an answer that has not come yet; else empty
  std::map<std::string, std::string> learned_;  ///< answers by command
  bool has_spoken_ = false;
};

std::size_t longest_value(const std::string& maxes) {
  const std::string text = Pmi1::value(maxes, "vallen_max").value_or("");
  std::size_t longest = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, longest);
  if (code != std::errc() || stop != end)
    throw Error(ErrorCode::system, "PMI: the launcher's longest value has \"" + text +
                                       "\" bytes, which is no number; " + use_another);
  return longest;
}

class Pmi1Launcher final : public Launcher {
 public:
  Pmi1Launcher(Launch identity, int descriptor) : Launcher(std::move(identity)), server_(descriptor) {}
  Pmi1Launcher(const Pmi1Launcher&) = delete;
  Pmi1Launcher& operator=(const Pmi1Launcher&) = delete;
  ~Pmi1Launcher() override {
    if (!server_.has_spoken()) return;
    try {
      server_.ask("cmd=finalize", "finalize_ack", Deadline(goodbye_timeout));
    } catch (const std::exception&) {
      // MPI in the same program said it before.
    }
  }

  UniqueId agree(const std::string& interface, const Deadline& deadline) override {
    const std::string entry = "kvsname=" + space(deadline) + " key=tutti-id-" + std::to_string(number_);
    if (identity().rank == 0 && !next_.put) {
      if (!next_.offer) next_.offer = offer_id(interface, one_host(), "", deadline);
      server_.ask("cmd=put " + entry + " value=" + as_value(next_.offer->text), "put_result", deadline);
      next_.put = true;
    }
    if (!next_.met) {
      server_.ask("cmd=barrier_in", "barrier_out", deadline);
      next_.met = true;
    }
    if (next_.offer && next_.offer->failure) {
      const auto failure = next_.offer->failure;
      finish();
      std::rethrow_exception(failure);
    }
    const auto got = server_.ask("cmd=get " + entry, "get_result", deadline);
    finish();
    return id_of(from_value(Pmi1::value(got, "value").value_or("")));
  }

 private:
  /// How far this rank has come with the next id.
  struct Next {
    std::optional<Offer> offer;  ///< of rank 0
    bool put = false, met = false;
  };
  /// Where entries belong. Only who needs an id greets the launcher, and a greeting that a deadline cut off
  /// goes on in the next call, too.
  std::string space(const Deadline& deadline) {
    server_.learn("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline);
    if (longest_value(server_.learn("cmd=get_maxes", "maxes", deadline)) <= UniqueId{}.to_string().size())
      throw Error(ErrorCode::unsupported,
                  std::string("PMI: the launcher hands on no values as long as a unique id; ") + use_another);
    return Pmi1::value(server_.learn("cmd=get_my_kvsname", "my_kvsname", deadline), "kvsname").value_or("");
  }
  void finish() {
    ++number_;
    next_ = {};
  }
  /// No longer than an id, for which there is room, and without spaces, which `from_value` puts back.
  static std::string as_value(std::string text) {
    text.resize(std::min(text.size(), UniqueId{}.to_string().size()));
    std::ranges::replace_if(
        text, [](unsigned char c) { return std::isgraph(c) == 0; }, blank);
    return text;
  }
  static std::string from_value(std::string value) {
    std::ranges::replace(value, blank, ' ');
    return value;
  }
  static constexpr char blank = '~';  ///< values hold no spaces, and reasons no such character

  Pmi1 server_;
  unsigned number_ = 0;  ///< of the next id
  Next next_;
};

}  // namespace

std::unique_ptr<Launcher> find_pmi1() {
  if (!variable("PMI_FD") || !variable("PMI_RANK") || !variable("PMI_SIZE")) return nullptr;
  Launch identity{.launcher = "PMI-1",
                  .rank = required_number("PMI_RANK", "PMI_FD"),
                  .size = required_number("PMI_SIZE", "PMI_FD", 1),
                  .id = {}};
  read_local(identity, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  return std::make_unique<Pmi1Launcher>(std::move(identity), required_number("PMI_FD", "PMI_RANK"));
}

}  // namespace tutti::bootstrap
