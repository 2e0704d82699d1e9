# SPDX-License-Identifier: GPL-2.0-or-later
# Shell functions for what runs in the lab's dom0. Sourced before every script that the host sends.

say() { echo "$*" >&2; }
die() { say "FAIL: $*"; exit 1; }

# poll SECONDS COMMAND...: until the command succeeds; fails after that long.
poll() {
    _end=$(($(date +%s) + $1)); shift
    until "$@"; do
        [ "$(date +%s)" -lt "$_end" ] || return 1
        sleep 0.1
    done
}

free_mib() { echo $(($(labhv free) / 1024)); }
free_kib() { labhv free; }
dirty_pages() { labhv dirty; }
console_of() { echo "/var/log/xen/console/guest-$1.log"; }

# guest_domid NAME
guest_domid() {
    for _d in $(labhv domains | while read -r d _; do echo "$d"; done); do
        [ "$(xenstore-read "/local/domain/$_d/name" 2>/dev/null)" = "$1" ] && { echo "$_d"; return 0; }
    done
    return 1
}

_console_has() { grep -qE -- "$2|LAB-FAILED|Kernel panic" "$(console_of "$1")" 2>/dev/null; }

# guest_wait NAME TEXT [SECONDS]: until the guest has printed TEXT on its console.
guest_wait() {
    poll "${3:-60}" _console_has "$1" "$2" && grep -q -- "$2" "$(console_of "$1")" && return 0
    tail -n 15 "$(console_of "$1")" >&2
    die "guest $1 did not print '$2'"
}

# The lines of guest_config that a PV or PVH guest has.
_direct_boot() {
    printf '%s\n' "kernel = '/usr/lib/lab/vmlinux'" "ramdisk = '/usr/lib/lab/guest.img'"
    printf "extra = 'console=hvc0 quiet rdinit=/init"
    [ -n "$_ip" ] && printf ' lab_ip=%s' "$_ip"
    [ -n "$_fill" ] && printf ' lab_fill=%s' "$_fill"
    [ -n "$_run" ] && printf ' lab_run="%s"' "$_run"
    [ -n "$_tick" ] && printf ' lab_tick=%s' "$_tick"
    [ -n "$_off" ] && printf ' lab_off=%s lab_how=%s' "$_off" "$_how"
    printf " %s'\n" "$_extra"
}

# guest_config NAME [options of guest_start]: writes and prints /run/lab/NAME.cfg
guest_config() {
    _name=$1; shift
    _type=pv _mem=128 _vcpus=1 _cpus= _ip= _fill= _run= _off= _how= _tick= _extra= _conf=
    while [ $# -gt 0 ]; do
        case $1 in
        --type) _type=$2 ;;
        --mem) _mem=$2 ;;
        --vcpus) _vcpus=$2 ;;
        --cpus) _cpus=$2 ;;
        --ip) _ip=$2 ;;
        --fill) _fill=$2 ;;
        --run) _run=$2 ;;
        --off) _off=$2 ;;
        --how) _how=$2 ;;
        --tick) _tick=$2 ;;
        --extra) _extra=$2 ;;
        --conf) _conf=$2 ;;
        *) die "guest_start: unknown option $1" ;;
        esac
        shift 2
    done
    mkdir -p /run/lab /var/log/xen/console
    {
        echo "name = '$_name'"
        echo "type = '$_type'"
        echo "memory = $_mem"
        echo "vcpus = $_vcpus"
        [ -n "$_cpus" ] && echo "cpus = '$_cpus'"
        [ -n "$_ip" ] && echo "vif = ['script=vif-lab,ip=$_ip']"
        echo "on_crash = 'destroy'"
        [ -n "$_conf" ] && echo "$_conf"
        if [ "$_type" = hvm ]; then # it starts its firmware, and finds nothing to boot
            printf '%s\n' "vga = 'none'" "nographic = 1" "serial = 'pty'" "usb = 0"
        else
            _direct_boot
        fi
    } > "/run/lab/$_name.cfg"
    echo "/run/lab/$_name.cfg"
}

# guest_start NAME [--type pv|pvh|hvm] [--mem MIB] [--fill MIB|all] [--ip A.B.C.2] [--run 'PROG ARGS']
#             [--off SECONDS [--how poweroff|reboot|crash]] [--tick yes] [--vcpus N] [--cpus LIST] [--extra 'KERNEL ARGS']
#             [--conf 'LINES OF xl.cfg']
# Starts a guest, waits until it is ready (memory filled, network up) and prints its domid.
guest_start() {
    _cfg=$(guest_config "$@") || return 1
    rm -f "$(console_of "$1")"
    ${LAB_XL:-xl} create -q "$_cfg" >&2 || die "xl create $1"
    guest_domid "$1" || die "guest $1 ended at once"
    guest_wait "$1" LAB-READY 360
}

# guest_build NAME [options of guest_start]: the same, but it stays paused: all its memory is
# there, and it never ran. Prints its domid.
guest_build() {
    _cfg=$(guest_config "$@") || return 1
    ${LAB_XL:-xl} create -p -q "$_cfg" >&2 || die "xl create -p $1"
    guest_domid "$1"
}

# hooked COMMAND...: with scrubd's hook preloaded, as an operator does it.
hooked() { LD_PRELOAD=/usr/lib/x86_64-linux-gnu/scrubd/libscrubhook.so "$@"; }

# ticks_on NAME: a guest started with --tick goes on printing.
ticks_on() {
    _ticks=$(grep -c TICK "$(console_of "$1")")
    poll 15 sh -c "[ \$(grep -c TICK '$(console_of "$1")') -gt $_ticks ]"
}

# alive NAME: the guest runs, by the hypervisor's word.
alive() {
    _domid=$(guest_domid "$1") || return 1
    case "$(labhv domain "$_domid")" in alive*) return 0 ;; esac
    return 1
}

_gone() { case "$(labhv domain "$1")" in none*) return 0 ;; esac; return 1; }
# gone DOMID [SECONDS]: the hypervisor no longer knows the domain.
gone() { poll "${2:-30}" _gone "$1"; }

_free_near() { _f=$(($(free_kib) - $1)); [ "${_f#-}" -lt 1024 ]; }
# free_back KIB [SECONDS]: free memory is what it was, to the MiB.
free_back() {
    poll "${2:-20}" _free_near "$1" || die "free memory is $(free_kib) KiB, not $1 KiB"
}

_dirty_at_most() { [ "$(dirty_pages)" -le "$1" ]; }
# clean_below PAGES [SECONDS]: no more than PAGES are waiting to be scrubbed.
clean_below() {
    poll "${2:-60}" _dirty_at_most "$1" || die "$(dirty_pages) pages still dirty, wanted $1 at most"
}

# live_load [FILE], live_unload: as an operator does it. live_loaded: whether it is in, by the hypervisor's word.
live_load() { scrubctl hypervisor load "$@"; }
live_unload() { scrubctl hypervisor unload; }
live_loaded() { xen_livepatch list | grep -q '^scrubd .*APPLIED'; }
# Xen's own tool, past scrubctl.
xen_livepatch() { "$(ls /usr/lib/xen-*/bin/xen-livepatch)" "$@"; }
