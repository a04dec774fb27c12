{{/* The order of an upgrade (docs/operations.md), behind the streams. All others come last. */}}
{{- define "remuda.order" -}}
nats core rmproxy config events
{{- end }}

{{/* The tag of an image. In an upgrade by steps, services behind `through` keep that of the version before. */}}
{{- define "remuda.tag" -}}
{{- $order := splitList " " (include "remuda.order" .root) -}}
{{- $done := true -}}
{{- if and .root.Values.upgrade.through (ne .name "cli") -}}
{{- $done = false -}}
{{- $reached := false -}}
{{- range $name := $order -}}
{{- if and (not $reached) (eq $name $.name) -}}{{- $done = true -}}{{- end -}}
{{- if eq $name $.root.Values.upgrade.through -}}{{- $reached = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if $done -}}
{{- .root.Values.image.tag -}}
{{- else -}}
{{- required "upgrade.from: expected the tag of the version before, because upgrade.through is given" .root.Values.upgrade.from -}}
{{- end -}}
{{- end }}

{{/* The whole name of an image of remuda: (dict "root" $ "name" "core" "of" .Values.core) */}}
{{- define "remuda.image" -}}
{{- .of.image | default (printf "%sremuda/%s:%s" .root.Values.image.registry .name (include "remuda.tag" .)) -}}
{{- end }}

{{/* The addresses of the NATS servers, for clients. */}}
{{- define "remuda.url" -}}
{{- if .Values.nats.enabled -}}
{{- $servers := list -}}
{{- range $n := until (int .Values.nats.replicas) -}}
{{- $servers = append $servers (printf "tls://nats-%d.nats.%s.svc.%s:4222" $n $.Release.Namespace $.Values.clusterDomain) -}}
{{- end -}}
{{- join "," $servers -}}
{{- else -}}
{{- required "nats.url: expected the addresses of your NATS servers, because nats.enabled is false" .Values.nats.url -}}
{{- end -}}
{{- end }}

{{/* Not empty: some of the scheduler is installed, not only front ends for one that runs elsewhere. */}}
{{- define "remuda.onTheBus" -}}
{{- range $name := list "nats" "core" "rmproxy" "config" "events" "grpc" "web" "resmgr" "placement" "archive" "history" "shadow" -}}
{{- if (get $.Values $name).enabled -}}{{ $name }} {{ end -}}
{{- end -}}
{{- end }}

{{/* The settings of all services on the bus: those that the chart makes, under those of the values. */}}
{{- define "remuda.settings" -}}
{{- $made := dict
  "nats" (dict "url" (include "remuda.url" .) "ca" "/run/secrets/tls/ca.pem" "seed" "/run/secrets/key/seed"
    "replicas" (ternary 1 3 (and .Values.nats.enabled (eq (int .Values.nats.replicas) 1))))
  "log" (dict "format" "json")
  "core" (dict "standbys" (ternary 1 0 (gt (int .Values.core.replicas) 1)))
  "grpc" (dict "host" "0.0.0.0" "certificate" "/run/secrets/grpc/grpc.pem" "key" "/run/secrets/grpc/grpc.key" "client_ca" "/run/secrets/tls/ca.pem")
  "web" (dict "host" "0.0.0.0" "open" true)
  "config" (dict "file" "/etc/remuda/queues/queues.yaml") -}}
{{- if .Values.resmgr.enabled -}}
{{- $_ := set $made "resmgr" (dict "host" "0.0.0.0" "certificate" "/run/secrets/resmgr/resmgr.pem" "key" "/run/secrets/resmgr/resmgr.key"
  "client_ca" "/run/secrets/tls/ca.pem" "clients" (list "placement=placement" "jobmgr=jobs" "hostmgr=hosts" "respool=pools")) -}}
{{- end -}}
{{- if .Values.placement.enabled -}}
{{- $_ := set $made "placement" (dict "resmgr" "resmgr:5394" "ca" "/run/secrets/tls/ca.pem"
  "certificate" "/run/secrets/resmgr/client-placement.pem" "key" "/run/secrets/resmgr/client-placement.key") -}}
{{- end -}}
{{- if .Values.tempo.enabled -}}
{{- $_ := set $made "traces" (dict "endpoint" "http://tempo:4318") -}}
{{- end -}}
{{- toYaml (mergeOverwrite $made (deepCopy .Values.settings)) -}}
{{- end }}

{{/* Of every pod that needs no other user. */}}
{{- define "remuda.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "remuda.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The health pages of a service. */}}
{{- define "remuda.probes" -}}
livenessProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
startupProbe:
  httpGet: {path: /livez, port: health}
  failureThreshold: 60
  periodSeconds: 2
{{- end }}

{{/* Where pods run: (dict "root" $ "of" .Values.core) */}}
{{- define "remuda.placed" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .of.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .of.nodeSelector | default .root.Values.pods.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .of.tolerations | default .root.Values.pods.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .of.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "remuda.pull" -}}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{/* Annotations of pods: (dict "root" $ "of" .Values.core "more" (dict "checksum/settings" ...)) */}}
{{- define "remuda.annotations" -}}
{{- with merge (dict) (.of.annotations | default dict) .more .root.Values.pods.annotations }}
annotations: {{ toJson . }}
{{- end }}
{{- end }}

{{/* How many pods may be away, so that a node can be drained: (dict "app" "core" "of" .Values.core "needed" true) */}}
{{- define "remuda.budget" -}}
apiVersion: {{ .root.Capabilities.APIVersions.Has "policy/v1" | ternary "policy/v1" "policy/v1beta1" }}
kind: PodDisruptionBudget
metadata:
  name: {{ .app }}
  namespace: {{ .root.Release.Namespace }}
spec:
  {{- if and .needed (gt (int .of.replicas) 1) }}
  minAvailable: 1
  {{- else }}
  maxUnavailable: 1
  {{- end }}
  selector:
    matchLabels: {app: {{ .app }}}
{{- end }}

{{/* Spread over nodes: (dict "app" "core" "unsatisfiable" "ScheduleAnyway") */}}
{{- define "remuda.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: {{ .unsatisfiable | default "ScheduleAnyway" }}
    labelSelector:
      matchLabels: {app: {{ .app }}}
{{- end }}

{{/* Who may act in whose name, as the job of the keys takes it. Kubernetes' front end is an RM of its own. */}}
{{- define "remuda.access" -}}
{{- $rms := .Values.keys.resourceManagers -}}
{{- if .Values.kubernetes.enabled -}}{{- $rms = append $rms "kubernetes" -}}{{- end -}}
{{- if .Values.test.enabled -}}{{- $rms = append $rms "helm-test" -}}{{- end -}}
{{- range $rm := uniq $rms }}
- --rm={{ $rm }}
{{- end }}
{{- range $name, $groups := .Values.keys.operators }}
- --operator={{ join "+" (prepend ($groups | default list) $name) }}
{{- end }}
{{- range $name, $operators := .Values.keys.actsAs }}
- {{ printf "--front-end=%s=%s" $name (join "," $operators) | quote }}
{{- end }}
{{- if .Values.keys.certificates }}
{{- range $name := .Values.keys.clients }}
- --client={{ $name }}
{{- end }}
{{- else }}
- --no-certificates
{{- end }}
{{- if .Values.grafana.enabled }}
- --password=grafana
{{- end }}
- --domain={{ .Values.clusterDomain }}
{{- end }}
