# Sourced by rdma-lab: emulated machines. Each has a folder, $run/<guest>, that both sides see: in it go the orders, out of it
# come the command's output and status. Variables are those of rdma-lab.

# What of the caller's environment the command gets to see.
passed_on='^(PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z]*|TERM|LD_LIBRARY_PATH|PYTHONPATH|[A-Z]+SAN_OPTIONS|TUTTI_.*|GTEST_.*|OMPI_.*)='

# Settings in the form of a shell; the command and its variables may hold anything but a NUL.
write_orders() {
  local guest=$1 folder=$2
  shift 2
  {
    printf 'export LAB_HOST=%q LAB_GUESTS=%q LAB_NODES=%q LAB_RAILS=%q LAB_RESULTS=%q\n' \
      "$guest" "$guests" "$nodes" "$rails" "$results"
    printf 'LAB_DRIVER=%q LAB_MTU=%q LAB_NETEM=%q LAB_ON=%q LAB_SHELL=%q LAB_TERMINAL=%q\n' \
      "$driver" "$mtu" "${netem[*]}" "$on" "$shell" "${shell:+$(stty size <&3)}"
    printf 'LAB_SCRIPTS=%q LAB_DIRECTORY=%q\n' "$lab" "$PWD"
  } >"$folder/settings"
  printf '%s\0' "$@" >"$folder/command"
  {
    env -0 | grep -zE "$passed_on" || true
    ((${#environment[@]} == 0)) || printf '%s\0' "${environment[@]}"
  } >"$folder/environment"
}

# A folder of this machine for the guest. security_model=none: files that the guest makes are the caller's, whoever that is.
# remap: below / there are several file systems.
share() {
  local tag=$1 path=$2 more=${3-}
  options+=(-fsdev "local,id=$tag,path=${path//,/,,},security_model=none,multidevs=remap$more"
    -device "virtio-9p-pci,fsdev=$tag,mount_tag=$tag")
}

# A wire between two guests: datagrams over Unix sockets need no port, and nobody else hears them.
wire() {
  local guest=$1 name=$2 mac=$3
  options+=(-netdev "dgram,id=$name,local.type=unix,local.path=$run/$guest/$name,remote.type=unix,remote.path=$run/$((1 - guest))/$name"
    -device "virtio-net-pci,netdev=$name,mac=$mac,romfile=")
}

start_machine() {
  local guest=$1 folder=$run/$1 log=$results/kernel.log console=$run/$1/qemu.log rail
  local options=()
  write_orders "$guest" "$folder" "${@:2}"
  : >"$folder/stdout"
  : >"$folder/stderr"
  ((guests == 1)) || log=$results/kernel$guest.log
  options+=(-serial "file:$log")
  if [[ -n $shell && $guest == "$on" ]]; then
    options+=(-chardev stdio,id=terminal,signal=off -serial chardev:terminal)
    console=/dev/tty
  fi
  share root / ,readonly=on
  share lab "$folder"
  share results "$results"
  if ((guests == 2)); then
    wire "$guest" host "52:54:00:09:00:0$guest"
    for ((rail = 0; rail < rails; rail++)); do
      wire "$guest" "rail$rail" "$(printf '52:54:00:08:%02x:%02x' "$rail" "$guest")"
    done
  fi
  # Without `erms` the kernel copies by words: `rep movsb` is emulated byte by byte.
  # Nobody is to be kept from speculating there, and its ciphers are not what is tested.
  # Steady: each instruction takes a nanosecond.
  local clock=(-accel tcg,thread=multi)
  [[ -z $steady ]] || clock=(-accel tcg,thread=single -icount shift=0)
  # With rdma-lab, even when it is killed, all of this ends.
  local mortal=(setpriv --pdeathsig KILL)
  started=$SECONDS
  "${mortal[@]}" timeout --foreground --kill-after=2 "$timeout" "${mortal[@]}" qemu-system-x86_64 \
    -nodefaults -no-user-config -no-reboot -display none -machine q35 "${clock[@]}" -cpu max,-erms \
    -smp "$cpus" -m "$memory" -kernel "$kernel/boot/image" -initrd "$initramfs" \
    -append "console=ttyS0 panic=-1 oops=panic no_timer_check rcupdate.rcu_expedited=1 mitigations=off cryptomgr.notests" \
    -device virtio-rng-pci "${options[@]}" <&3 >"$console" 2>"$folder/qemu.log" &
  machines+=($!)
  show "$guest" stdout
  show "$guest" stderr >&2
}

# The output as it comes, until the machine has ended. Two guests that both run the command sign their lines.
show() {
  local guest=$1 sign=()
  [[ $guests == 1 || -n $on ]] && sign=(cat) || sign=(sed -u "s/^/lab$guest: /")
  tail -c +1 -s 0.1 -f --pid="${machines[guest]}" "$run/$guest/$2" 2>/dev/null | "${sign[@]}" &
  tails+=($!)
}

# Ends with the first status that is not 0.
wait_for_commands() {
  local guest status=0 never
  exec {never}<> <(:)
  for guest in ${on:-$(seq 0 $((guests - 1)))}; do
    until [[ -s $run/$guest/status ]]; do
      if ! kill -0 "${machines[guest]}" 2>/dev/null; then
        [[ -s $run/$guest/status ]] || machine_ended "$guest"
        break
      fi
      read -rt 0.05 -u "$never" || true  # a sleep without a process
    done
    ((status)) || status=$(<"$run/$guest/status")
  done
  kill "${machines[@]}" 2>/dev/null || true
  wait  # until all output was shown
  exit "$status"
}

machine_ended() {
  local guest=$1 log=$results/kernel.log status=0
  ((guests == 1)) || log=$results/kernel$guest.log
  wait "${machines[guest]}" || status=$?
  kill "${machines[@]}" 2>/dev/null || true
  wait
  # 137 also where another killed it: a system without memory, say.
  if ((status == 124 || (status == 137 && SECONDS - started >= timeout))); then
    echo "rdma-lab: killed after $timeout s" >&2
    exit 124
  fi
  cat "$run/$guest/qemu.log" >&2
  tail -n 60 "$log" >&2 || true
  fail "the guest ended by itself (qemu: $status); the end of its kernel's log is above"
}
