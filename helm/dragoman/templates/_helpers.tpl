{{- define "dragoman.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "dragoman.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "dragoman.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "dragoman.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* What the Service of the administration is called. */}}
{{- define "dragoman.adminName" -}}
{{- printf "%s-admin" (include "dragoman.fullname" . | trunc 57 | trimSuffix "-") }}
{{- end }}

{{- define "dragoman.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dragoman.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dragoman.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "dragoman.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What stands behind the gateway: embedded, memory or broker. A Secret that exists is taken for a broker's. */}}
{{- define "dragoman.system" -}}
{{- $scheme := .Values.adapter.url | splitList ":" | first | lower }}
{{- if .Values.adapter.existingSecret.name }}broker
{{- else if not .Values.adapter.url }}embedded
{{- else if has $scheme (list "embedded" "memory") }}{{ $scheme }}
{{- else }}broker
{{- end }}
{{- end }}

{{/* Not empty where the store is a database elsewhere. */}}
{{- define "dragoman.database" -}}
{{- if or .Values.store.url .Values.store.existingSecret.name }}true{{ end }}
{{- end }}

{{/* Not empty where something is kept on disk: the journal of embedded:, or SQLite. */}}
{{- define "dragoman.onDisk" -}}
{{- $system := include "dragoman.system" . }}
{{- if or (eq $system "embedded") (and (eq $system "broker") (not (include "dragoman.database" .))) }}true{{ end }}
{{- end }}

{{/* Our Secret, or the one that exists: as the body of a secretKeyRef. */}}
{{- define "dragoman.secretKey" -}}
name: {{ .given.existingSecret.name | default (include "dragoman.fullname" .context) }}
key: {{ ternary .given.existingSecret.key .name (not (empty .given.existingSecret.name)) }}
{{- end }}

{{/* Not empty where there may be several gateways. */}}
{{- define "dragoman.several" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}true{{ end }}
{{- end }}

{{/* By its digest, where that is given: a tag may move. */}}
{{- define "dragoman.image" -}}
{{- with .Values.image.digest }}{{ printf "%s@%s" $.Values.image.repository . }}
{{- else }}{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* The account of the pods; empty is the namespace's own. */}}
{{- define "dragoman.serviceAccount" -}}
{{- with .Values.serviceAccount.name | default .Values.serviceAccountName }}{{ . }}
{{- else }}{{ if .Values.serviceAccount.create }}{{ include "dragoman.fullname" . }}{{ end }}
{{- end }}
{{- end }}

{{/* What the Service of SOAP.TCP is called, where it has one of its own. */}}
{{- define "dragoman.soapTcpName" -}}
{{- printf "%s-soap-tcp" (include "dragoman.fullname" . | trunc 54 | trimSuffix "-") }}
{{- end }}

{{/* The name that peers reach SOAP.TCP by; empty is that of publicUrl. */}}
{{- define "dragoman.soapTcpHost" -}}
{{- if .Values.soapTcp.host }}{{ .Values.soapTcp.host }}
{{- else if .Values.soapTcp.service.enabled }}{{ printf "%s.%s.svc" (include "dragoman.soapTcpName" .) .Release.Namespace }}
{{- end }}
{{- end }}

{{- define "dragoman.adminHost" -}}
{{- printf "%s.%s.svc" (include "dragoman.adminName" .) .Release.Namespace }}
{{- end }}

{{- define "dragoman.serviceHost" -}}
{{ include "dragoman.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* What the pods speak. */}}
{{- define "dragoman.scheme" -}}
{{ ternary "https" "http" (not (empty .Values.tls.existingSecret)) }}
{{- end }}

{{/* The ports of the pods that peers reach, by name: HTTP first. */}}
{{- define "dragoman.ports" -}}
{{ include "dragoman.scheme" . }}: 8080
{{- if .Values.soapTcp.enabled }}
soap-tcp: {{ .Values.soapTcp.port }}
{{- if .Values.soapTcp.tlsPort }}
soap-tcps: {{ .Values.soapTcp.tlsPort }}
{{- end }}
{{- end }}
{{- end }}

{{/* What a probe asks; who shows no certificate can only see that the port is open. */}}
{{- define "dragoman.probe" -}}
{{- $scheme := include "dragoman.scheme" .context }}
{{- if .context.Values.tls.clientCaKey -}}
tcpSocket: {port: {{ $scheme }}}
{{- else if eq $scheme "https" -}}
httpGet: {path: {{ .path }}, port: https, scheme: HTTPS}
{{- else -}}
httpGet: {path: {{ .path }}, port: http}
{{- end }}
{{- end }}

{{- define "dragoman.publicUrl" -}}
{{- if .Values.publicUrl }}
{{- .Values.publicUrl }}
{{- else if .Values.ingress.enabled }}
{{- ternary "https" "http" (not (empty .Values.ingress.tlsSecret)) }}://{{ .Values.ingress.host }}
{{- else if .Values.httpRoute.enabled }}
{{- ternary "https" "http" .Values.httpRoute.tls }}://{{ .Values.httpRoute.host }}
{{- else }}
{{- $scheme := include "dragoman.scheme" . }}
{{- $port := int .Values.service.port }}
{{- $usual := ternary 443 80 (eq $scheme "https") }}
{{- printf "%s://%s%s" $scheme (include "dragoman.serviceHost" .) (ternary "" (printf ":%d" $port) (eq $port $usual)) }}
{{- end }}
{{- end }}

{{/* dragoman.toml. What has a credential in it is in the environment, from a Secret. */}}
{{- define "dragoman.toml" -}}
{{- $name := include "dragoman.fullname" . }}
{{- $host := include "dragoman.serviceHost" . }}
{{- $own := list $name (printf "%s.%s" $name .Release.Namespace) $host (printf "%s.%s" $host .Values.clusterDomain) }}
{{- $admin := include "dragoman.adminName" . }}
{{- $adminHost := include "dragoman.adminHost" . }}
{{- $own = concat $own (list $admin (printf "%s.%s" $admin .Release.Namespace) $adminHost (printf "%s.%s" $adminHost .Values.clusterDomain)) }}
{{- $settings := dict "public_url" (include "dragoman.publicUrl" .) "hosts" (concat $own .Values.hosts | uniq) }}
{{- with .Values.trustedProxies }}{{ $_ := set $settings "trusted_proxies" . }}{{ end }}
{{- with .Values.egressAllow }}{{ $_ := set $settings "egress_allow" . }}{{ end }}
{{- if .Values.soapTcp.enabled }}
{{- $_ := set $settings "soap_tcp_port" .Values.soapTcp.port }}
{{- with .Values.soapTcp.tlsPort }}{{ $_ := set $settings "soap_tcps_port" . }}{{ end }}
{{- with include "dragoman.soapTcpHost" . }}{{ $_ := set $settings "soap_tcp_host" . }}{{ end }}
{{- end }}
{{- if .Values.tls.existingSecret }}
{{- $_ := set $settings "tls_certificate" "/etc/dragoman-tls/tls.crt" }}
{{- $_ := set $settings "tls_key" "/etc/dragoman-tls/tls.key" }}
{{- with .Values.tls.clientCaKey }}{{ $_ := set $settings "tls_client_ca" (printf "/etc/dragoman-tls/%s" .) }}{{ end }}
{{- end }}
{{- if .Values.identities.existingSecret }}
{{- $_ := set $settings "identities" "/etc/dragoman-identities/identities.toml" }}
{{- else }}
{{- /* Its Service is inside the cluster; say who may reach it there by a NetworkPolicy. */}}
{{- $_ := set $settings "without_identities" true }}
{{- $_ := set $settings "admin_without_identities" true }}
{{- end }}
{{- if or .Values.egress.ca.secret .Values.egress.ca.configMap }}
{{- $_ := set $settings "egress_ca" (printf "/etc/dragoman-egress/%s" .Values.egress.ca.key) }}
{{- end }}
{{- $mailboxes := .Values.mailboxes }}
{{- with $mailboxes.octets }}{{ $mailboxes = merge (dict "bytes" .) (omit $mailboxes "octets" "bytes") }}{{ end }}
{{- range $name, $value := $mailboxes }}
{{- if not (kindIs "invalid" $value) }}
{{- /* Numbers of values are floating points in Helm: TOML would have 10000.0. */}}
{{- $_ := set $settings (ternary "mailboxes_only" (printf "mailbox_%s" $name) (eq $name "only")) (ternary (int64 $value) $value (kindIs "float64" $value)) }}
{{- end }}
{{- end }}
{{- with .Values.adapter.settings }}{{ $_ := set $settings "adapter_settings" . }}{{ end }}
{{- merge $settings .Values.settings | toToml }}
{{- end }}
