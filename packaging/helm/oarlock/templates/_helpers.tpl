{{- define "oarlock.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "oarlock.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "oarlock.labels" -}}
{{ include "oarlock.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "oarlock.composition" -}}
{{- $name := include "oarlock.fullname" . -}}
apiVersion: oarlock.dev/v1
kind: Cluster
metadata: { name: {{ $name }} }
spec:
  server:
    address: 0.0.0.0
    # the address of a pod changes; these names of its Service do not
    names:
      - {{ $name }}
      - {{ $name }}.{{ .Release.Namespace }}
      - {{ $name }}.{{ .Release.Namespace }}.svc
      - {{ $name }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
      {{- range .Values.extraNames }}
      - {{ . | quote }}
      {{- end }}
  {{- toYaml .Values.spec | nindent 2 }}
{{- end -}}
