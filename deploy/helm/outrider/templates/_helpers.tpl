{{- define "outrider.labels" -}}
app.kubernetes.io/name: outrider
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "outrider.image" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "outrider.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "outrider.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Has "outrider" in it, whatever the release is called: PodMonitors make a job of it, which alerts look for. */}}
{{- define "outrider.fullname" -}}
{{- if contains "outrider" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-outrider{{ end }}
{{- end }}

{{- /* Labels and annotations of a pod. `root`: the chart's context; `component`: verifier or drafter. */}}
{{- define "outrider.podMetadata" -}}
{{- $own := index .root.Values .component -}}
labels:
  {{- include "outrider.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- range $name, $value := $own.podLabels }}
  {{ $name }}: {{ $value | quote }}
  {{- end }}
annotations:
  {{- toYaml $own.podAnnotations | nindent 2 }}
{{- end }}

{{- /* Where a pod may run. The same arguments. */}}
{{- define "outrider.scheduling" -}}
{{- $own := index .root.Values .component -}}
imagePullSecrets:
  {{- toYaml .root.Values.imagePullSecrets | nindent 2 }}
nodeSelector:
  {{- toYaml $own.nodeSelector | nindent 2 }}
tolerations:
  {{- toYaml $own.tolerations | nindent 2 }}
affinity:
  {{- toYaml $own.affinity | nindent 2 }}
{{- $pods := dict "app.kubernetes.io/name" "outrider" "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/component" .component }}
{{- with $own.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  -
    {{- ternary . (merge (dict "labelSelector" (dict "matchLabels" $pods)) .) (hasKey . "labelSelector") | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- with $own.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* What fills /models before the program starts. Also `folder`: that of the default pair. */}}
{{- define "outrider.initContainers" -}}
{{- $models := .root.Values.models -}}
{{- if eq $models.source "image" }}
- name: model
  {{- include "outrider.image" .root | nindent 2 }}
  command: [cp, -r, /usr/share/outrider/models/{{ .folder }}, /models/]
  resources:
    requests: {cpu: 50m, memory: 32Mi}
    limits: {memory: 64Mi}
  securityContext:
    {{- include "outrider.containerSecurity" .root | nindent 4 }}
  volumeMounts: [{name: models, mountPath: /models}]
{{- else if eq $models.source "init" }}
{{- toYaml $models.init }}
{{- else }}[]
{{- end }}
{{- end }}

{{- /* Variables of a program. */}}
{{- define "outrider.environment" -}}
{{- $own := index .root.Values .component -}}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- range $own.env }}
  -
    {{- toYaml . | nindent 4 }}
  {{- end }}
envFrom:
  {{- toYaml $own.envFrom | nindent 2 }}
{{- end }}

{{- define "outrider.volumeMounts" -}}
{{- $own := index .root.Values .component -}}
- {name: models, mountPath: /models, readOnly: true}
{{- if .root.Values.tls.enabled }}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end }}
{{- if and .root.Values.tokens.clientSecret (eq .component "verifier") }}
- {name: client-tokens, mountPath: /tokens/clients, readOnly: true}
{{- end }}
{{- if .root.Values.tokens.drafterSecret }}
- {name: drafter-tokens, mountPath: /tokens/drafters, readOnly: true}
{{- end }}
{{- if .root.Values.traces.volume }}
- {name: traces, mountPath: /traces}
{{- end }}
{{- range $own.extraVolumeMounts }}
-
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The secret with a component's certificate. The same arguments as podMetadata. */}}
{{- define "outrider.tlsSecret" -}}
{{- index .root.Values.tls (printf "%sSecret" .component) | default (printf "%s-%s-tls" .root.Release.Name .component) }}
{{- end }}

{{- define "outrider.volumes" -}}
{{- $own := index .root.Values .component -}}
- name: models
  {{- if eq .root.Values.models.source "claim" }}
  persistentVolumeClaim: {claimName: {{ .root.Values.models.claim }}, readOnly: true}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- if .root.Values.tls.enabled }}
- name: tls
  secret: {secretName: {{ include "outrider.tlsSecret" . }}, defaultMode: 0440}
{{- end }}
{{- with .root.Values.tokens }}
{{- if and .clientSecret (eq $.component "verifier") }}
- name: client-tokens
  secret: {secretName: {{ .clientSecret }}, defaultMode: 0440}
{{- end }}
{{- if .drafterSecret }}
- name: drafter-tokens
  secret: {secretName: {{ .drafterSecret }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- with .root.Values.traces.volume }}
-
  {{- toYaml (merge (dict "name" "traces") .) | nindent 2 }}
{{- end }}
{{- range $own.extraVolumes }}
-
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The rule that lets pods look up names. */}}
{{- define "outrider.dns" -}}
- to:
    {{- range .Values.networkPolicy.dns }}
    -
      {{- toYaml . | nindent 6 }}
    {{- end }}
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end }}

{{- define "outrider.extraEgress" -}}
{{- range .Values.networkPolicy.extraEgress }}
-
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
