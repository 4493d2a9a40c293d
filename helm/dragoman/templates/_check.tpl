{{/* Refuses values that fit the schema, but not each other. */}}
{{- define "dragoman.check" -}}
{{- $system := include "dragoman.system" . }}
{{- range $name, $given := dict "adapter" .Values.adapter "store" .Values.store "egress.proxy" .Values.egress.proxy }}
{{- if and $given.url $given.existingSecret.name }}
{{- fail (printf "%s: give url or existingSecret.name, not both" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.adapter.url (not (regexMatch "^[A-Za-z][A-Za-z0-9+.-]*:" .Values.adapter.url)) }}
{{- fail "adapter.url: must be a URL such as amqp://user:password@rabbitmq:5672/" }}
{{- end }}
{{- if and .Values.store.url (not (regexMatch "^postgresql([+]psycopg)?://" .Values.store.url)) }}
{{- fail "store.url: must begin with postgresql://; leave it empty for SQLite in the volume" }}
{{- end }}
{{- if .Values.autoscaling.enabled }}
{{- $partitions := int (get .Values.adapter.settings "partitions" | default "16") }}
{{- if gt (int .Values.autoscaling.maxReplicas) $partitions }}
{{- fail (printf "autoscaling.maxReplicas: RabbitMQ's messages are in %d partitions, and a gateway without one has nothing to do" $partitions) }}
{{- end }}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) }}
{{- fail "autoscaling.minReplicas: is more than maxReplicas" }}
{{- end }}
{{- end }}
{{- if include "dragoman.several" . }}
{{- if ne $system "broker" }}
{{- fail (printf "replicas: %s: is for one gateway; several need a broker: set adapter.url or adapter.existingSecret.name" $system) }}
{{- end }}
{{- if not (include "dragoman.database" .) }}
{{- fail "replicas: SQLite is for one gateway; several need PostgreSQL: set store.url or store.existingSecret.name" }}
{{- end }}
{{- end }}
{{- if and (include "dragoman.onDisk" .) (not .Values.persistence.enabled) }}
{{- $what := ternary "embedded: keeps messages" "SQLite keeps subscriptions" (eq $system "embedded") }}
{{- fail (printf "persistence.enabled: %s on disk, which needs a volume; adapter.url=memory: keeps nothing and needs none" $what) }}
{{- end }}
{{- if not .Values.tls.existingSecret }}
{{- if .Values.tls.clientCaKey }}
{{- fail "tls.clientCaKey: who shows no certificate asks for none: set tls.existingSecret" }}
{{- end }}
{{- if .Values.soapTcp.tlsPort }}
{{- fail "soapTcp.tlsPort: TLS needs a certificate: set tls.existingSecret" }}
{{- end }}
{{- end }}
{{- if and .Values.soapTcp.tlsPort (not .Values.soapTcp.enabled) }}
{{- fail "soapTcp.tlsPort: SOAP.TCP is off: set soapTcp.enabled" }}
{{- end }}
{{- if .Values.soapTcp.enabled }}
{{- if has (int .Values.admin.port) (list (int .Values.soapTcp.port) (int .Values.soapTcp.tlsPort)) }}
{{- fail "admin.port: SOAP.TCP has it; choose another" }}
{{- end }}
{{- $ports := list 8080 (int .Values.soapTcp.port) (int .Values.soapTcp.tlsPort) }}
{{- if ne (len $ports) (len (uniq $ports)) }}
{{- fail "soapTcp: port and tlsPort are two, and 8080 is that of HTTP" }}
{{- end }}
{{- if and (not .Values.soapTcp.service.enabled) (has (int .Values.service.port) (rest $ports)) }}
{{- fail "service.port: the Service has that of SOAP.TCP already" }}
{{- end }}
{{- end }}
{{- if eq (int .Values.admin.port) 8080 }}
{{- fail "admin.port: 8080 is that of SOAP; choose another" }}
{{- end }}
{{- if and .Values.egress.ca.secret .Values.egress.ca.configMap }}
{{- fail "egress.ca: give secret or configMap, not both" }}
{{- end }}
{{- if and .Values.mailboxes.only (or (eq $system "broker") (and .Values.adapter.url (eq $system "embedded"))) }}
{{- fail "mailboxes.only: nothing is published then; leave adapter out" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- fail "ingress.host: an Ingress needs the name that peers use" }}
{{- end }}
{{- if and .Values.httpRoute.enabled (or (not .Values.httpRoute.host) (not .Values.httpRoute.parentRefs)) }}
{{- fail "httpRoute: needs the host that peers use, and parentRefs, the Gateway that they come through" }}
{{- end }}
{{- if and .Values.soapTcp.service.enabled (not .Values.soapTcp.enabled) }}
{{- fail "soapTcp.service: SOAP.TCP is off: set soapTcp.enabled" }}
{{- end }}
{{- if and .Values.serviceAccount.name .Values.serviceAccountName }}
{{- fail "serviceAccountName: is the former name of serviceAccount.name; give one of them" }}
{{- end }}
{{- end }}
