#!/usr/bin/env bash
# A resource manager in the shell: with_nats.sh 127.0.0.1:4222 STATE_FILE
#
# It speaks the text protocol of NATS over bash's /dev/tcp, and makes and reads messages with protoc (PROTOC names
# another command). With the `nats` command, requests are one line each: docs/wire-contract.md, "By hand".
set -euo pipefail
shopt -s extglob
if (($# != 2)); then
  echo "usage: $0 127.0.0.1:4222 STATE_FILE" >&2
  exit 1
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
proto=${SI_PROTO:-$here/../../proto/si/v1/si.proto}
rm=example-shell inbox=_INBOX.example.$$ state=$2 registration=""
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

encode() { ${PROTOC:-protoc} -I"$(dirname "$proto")" --encode="si.v1.$1" "$proto"; }
decode() { ${PROTOC:-protoc} -I"$(dirname "$proto")" --decode="si.v1.$1" "$proto"; }

exec 3<>"/dev/tcp/${1%:*}/${1#*:}"
printf 'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB %s 1\r\n' "$inbox" >&3

# publish SUBJECT HEADERS FILE: the reply comes to the inbox.
publish() {
  local head size
  head=$(printf 'NATS/1.0\r\n%b\r\n.' "$2")
  head=${head%.}
  size=$(stat -c %s "$3")
  printf 'HPUB %s %s %d %d\r\n%s' "$1" "$inbox" ${#head} $((${#head} + size)) "$head" >&3
  cat "$3" >&3
  printf '\r\n' >&3
}

# Waits for a message: its subject in $subject, where to acknowledge it in $reply, headers in $headers, its payload in
# $scratch/payload.
receive() {
  local line words head size
  while IFS= read -r line <&3; do
    read -ra words <<<"${line%$'\r'}"
    case ${words[0]} in
      PING) printf 'PONG\r\n' >&3 ;;
      -ERR) echo "$line" >&2 && exit 1 ;;
      MSG | HMSG)
        subject=${words[1]} size=${words[-1]} head=0 reply=""
        [ "${words[0]}" = MSG ] || head=${words[-2]}
        [ ${#words[@]} -eq $((4 + (head > 0))) ] || reply=${words[3]}
        headers=$(head -c "$head" <&3 | tr -d '\r')
        head -c $((size - head)) <&3 >"$scratch/payload"
        head -c 2 <&3 >"$scratch/end"
        return
        ;;
    esac
  done
}

# request KIND MESSAGE < text: durable when it returns.
request() {
  encode "$2" >"$scratch/request"
  publish "si.v1.rm.$rm.$1" "Nats-Msg-Id: $(</proc/sys/kernel/random/uuid)\r\nRemuda-Registration: $registration\r\n" "$scratch/request"
  receive
  grep -q '"seq"' "$scratch/payload" || { cat "$scratch/payload" >&2; exit 1; }
}
amount() { printf 'resources { key: "vcore" value { value: %d } }' "$1"; }
ask() { # APPLICATION KEY MAY_PREEMPT
  printf 'asks { applicationID: "%s" allocationKey: "%s" maxAllocations: 1 resourceAsk { %s }
    preemptionPolicy { allowPreemptOther: %s } }\n' "$1" "$2" "$(amount 1000)" "$3"
}
ask_for() { { printf 'rmID: "%s"\n' "$rm"; ask "$@"; } | request allocation AllocationRequest; }
release() { # APPLICATION UUID TYPE
  printf 'rmID: "%s" releases { allocationsToRelease { applicationID: "%s" UUID: "%s" terminationType: %s } }' \
    "$rm" "$@" | request allocation AllocationRequest
}

register() {
  local resync=report
  [ ! -e "$state" ] || resync=replay
  printf 'rmID: "%s" config: "%s" extraConfig { key: "resync" value: "%s" }' "$rm" \
    "$(sed 's/\\/\\\\/g; s/"/\\"/g' "$here/../queues.yaml" | awk '{ printf "%s\\n", $0 }')" "$resync" |
    encode RegisterResourceManagerRequest >"$scratch/request"
  publish "si.v1.rm.$rm.register" "" "$scratch/request"
  receive
  ! grep 'Nats-Service-Error:' <<<"$headers" >&2
  registration=$(sed -n 's/^Remuda-Registration: *//p' <<<"$headers")
}

report() {
  printf 'rmID: "%s" nodes { nodeID: "node-1" action: CREATE schedulableResource { %s } }' "$rm" "$(amount 4000)" |
    request node NodeRequest
  printf 'rmID: "%s" new { applicationID: "batch" queueName: "root.batch" ugi { user: "alice" } }
    new { applicationID: "urgent" queueName: "root.urgent" ugi { user: "alice" } }' "$rm" |
    request application ApplicationRequest
  { printf 'rmID: "%s"\n' "$rm"; for key in 1 2 3 4; do ask batch "batch-$key" false; done; } |
    request allocation AllocationRequest
}

# Lines "new|released KEY NODE APPLICATION UUID TYPE" of an AllocationResponse, in order; "-" for what is absent.
changes() {
  decode AllocationResponse | awk '
    function out() { print kind, f["allocationKey"], f["nodeID"], f["applicationID"], f["UUID"], f["terminationType"] }
    /^[a-zA-Z]+ \{/ { kind = $1; split("allocationKey nodeID applicationID UUID terminationType", n); for (i in n) f[n[i]] = "-" }
    /^  [a-zA-Z]+:/ { sub(":", "", $1); gsub("\"", "", $2); f[$1] = $2 }
    /^\}/ { if (kind == "new" || kind == "released") out() }'
}

done=""
handle() { # < changes. The state file has a line "UUID KEY" for each task, and "UUID -" once it has ended.
  local kind key node app uuid type task
  while read -r kind key node app uuid type; do
    task=$(sed -n "s/^$uuid //p" "$state")
    if [ "$kind" = new ] && [ -z "$task" ]; then # a callback may be repeated: a UUID is never used again
      echo "start $key on $node"
      echo "$uuid $key" >>"$state"
      case $key in
        batch-4) ask_for urgent urgent-1 true ;;   # the node is full
        urgent-1) # it is done; the next task starts when this script runs again
          release urgent "$uuid" STOPPED_BY_RM
          ask_for batch late-1 false
          done=yes ;;
        late-1) done=yes ;;
      esac
    elif [ "$kind" = released ]; then
      [ "${task:--}" = - ] || echo "stop $task: $type"
      sed -i "s/^$uuid .*/$uuid -/" "$state"
      # Requested by the scheduler: confirm it.
      [ "$type" = STOPPED_BY_RM ] || release "$app" "$uuid" "$type"
    fi
  done
}

register
[ -e "$state" ] || { report; touch "$state"; }
printf '{"batch":1,"expires":1000000000}' >"$scratch/pull"
: >"$scratch/empty"
while [ -z "$done" ]; do
  publish "\$JS.API.CONSUMER.MSG.NEXT.CALLBACKS.rm-$rm" "" "$scratch/pull"
  receive
  [ "$subject" != "$inbox" ] || continue # no callback within a second
  acknowledge=$reply
  case $subject in
    *.callback.allocation)
      changes <"$scratch/payload" >"$scratch/changes"
      handle <"$scratch/changes"
      ;;
  esac
  publish "$acknowledge" "" "$scratch/empty" # only now: an unacknowledged callback is delivered again
  receive # that the acknowledgement was taken
done
