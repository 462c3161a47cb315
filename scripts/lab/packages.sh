# Sourced by scripts with a $cache: packages of Debian, downloaded and unpacked, not installed: that needs no rights.

# One at a time changes the cache, until it ends: it may have been stopped.
lock_cache() {
  exec {lock}>"$cache/lock"
  flock --timeout 900 "$lock" ||
    { echo "rdma-lab: another one has been at work in $cache for a quarter of an hour; name another folder by --cache" >&2; exit 1; }
}

# apt with the system's package lists. `apt --own-lists ...` fetches newer ones into the cache, which all use from then on.
apt() {
  local program=apt-get options=(-q -o APT::Sandbox::User=root)  # apt's own user could not write here
  [[ $1 != --own-lists ]] || { mkdir -p "$cache/apt/lists/partial"; shift; }
  [[ ! -d $cache/apt ]] || options+=(-o "Dir::State::Lists=$cache/apt/lists" -o "Dir::Cache=$cache/apt")
  case $1 in depends | pkgnames) program=apt-cache ;; esac
  "$program" "${options[@]}" "$@"
}

# Once in a script: without a network it takes seconds, and finds no more the next time.
update_lists() {
  [[ -z ${lists_updated-} ]] || return 0
  lists_updated=yes
  apt --own-lists update >&2
}

unpack() {  # PACKAGE FOLDER, which callers remove when they are interrupted, and with it what was downloaded by then
  local download
  mkdir -p "$2" && download=$(mktemp -d -p "$2") || return
  {
    (cd "$download" && apt download "$1") || { update_lists && (cd "$download" && apt download "$1"); }
  } >&2 && dpkg -x "$download"/*.deb "$2" ||
    { rm -rf "$download"; echo "rdma-lab: cannot download $1" >&2; return 1; }
  rm -rf "$download"
}
