/// \file
/// Tunings as files: JSON, one a machine.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tuning/tuning.hpp"

namespace tutti::tuning {

/// What the messages about a file that is no tuning end with.
inline constexpr std::string_view remedy = "; run tutti-tune again, or do without by TUTTI_TUNING=off";

/// With all that was decided; ends with a line break.
std::string to_json(const Tuning& tuning);
/// Throws Error(invalid_argument) that says what is wrong. `name`: what it calls the text.
std::unique_ptr<const Tuning> from_json(std::string_view text, const std::string& name = "in JSON");
/// The same from a file of at most 16 MiB.
std::unique_ptr<const Tuning> load(const std::string& file);

/// Where a machine's tuning lies by default: its topology::hash_of_parts is the file's name, in tutti/tuning
/// in XDG_CACHE_HOME, or else in ~/.cache. Empty where neither is known.
std::string file_of(std::uint64_t machine);

/// The text of `setting` (Options::tuning): a file, "off", or "" for this machine's. Empty when there is
/// none; the machine is looked at only when some machine was tuned. Throws Error(invalid_argument) when a
/// file that was named is no tuning. One that was only found (damaged, or of another version of tutti), or a
/// machine that cannot be looked at, ends no program: the text is then of a tuning without constants, whose
/// `refused` says why.
std::string text_of(const std::string& setting);

}  // namespace tutti::tuning
