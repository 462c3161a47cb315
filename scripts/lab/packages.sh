# Sourced by scripts with a $cache: packages of Debian, downloaded and unpacked, not installed: that needs no rights.

# apt with the system's package lists. `apt --own-lists ...` fetches newer ones into the cache, which all use from then on.
apt() {
  local program=apt-get options=(-q -o APT::Sandbox::User=root)  # apt's own user could not write here
  [[ $1 != --own-lists ]] || { mkdir -p "$cache/apt/lists/partial"; shift; }
  [[ ! -d $cache/apt ]] || options+=(-o "Dir::State::Lists=$cache/apt/lists" -o "Dir::Cache=$cache/apt")
  case $1 in depends | pkgnames) program=apt-cache ;; esac
  "$program" "${options[@]}" "$@"
}

unpack() {  # PACKAGE FOLDER
  local download
  download=$(mktemp -d -p "$cache")
  (
    cd "$download" &&
      { apt download "$1" || { apt --own-lists update && apt download "$1"; }; } &&
      mkdir -p "$2" && dpkg -x ./*.deb "$2"
  ) >&2 || { rm -rf "$download"; echo "rdma-lab: cannot download $1" >&2; return 1; }
  rm -rf "$download"
}
