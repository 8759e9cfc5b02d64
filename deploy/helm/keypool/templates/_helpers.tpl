{{- define "keypool.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "keypool.labels" -}}
{{ include "keypool.selector" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{/* The name of an object: RELEASE-COMPONENT. */}}
{{- define "keypool.name" -}}
{{ printf "%s-%s" .root.Release.Name .component | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The text of a setting. Helm reads each number of a values file as a float64, and would print a large one with an
     exponent. The programs accept no exponent, so a whole number is printed as an integer. */}}
{{- define "keypool.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* The settings that servers and workers share, for the ConfigMap. */}}
{{- define "keypool.settings" -}}
ADMIN_ADDR: ":8081"
LOG_FORMAT: json
KGS_POOL_CAPACITY: {{ include "keypool.text" .Values.pool.capacity | quote }}
KGS_RESTART_BELOW: {{ include "keypool.text" .Values.pool.restartBelow | quote }}
KGS_PAGE_BELOW: {{ include "keypool.text" .Values.pool.pageBelow | quote }}
{{- range $name, $value := .Values.settings }}
{{ $name }}: {{ include "keypool.text" $value | quote }}
{{- end }}
{{- end }}

{{/* The objects of one program. The arguments are "root" (the root context), "component" (shortener or kgs), "of" (the
     values of this component), "port" (the name and the number of its port) and "env" (environment variables besides those
     of the ConfigMap and the Secret). */}}
{{- define "keypool.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "keypool.name" . }}
  labels: {{- include "keypool.labels" . | nindent 4 }}
spec:
  replicas: {{ .of.replicas }}
  selector:
    matchLabels: {{- include "keypool.selector" . | nindent 6 }}
  strategy:
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  template:
    metadata:
      labels: {{- include "keypool.labels" . | nindent 8 }}
      annotations:
        checksum/settings: {{ include "keypool.settings" .root | sha256sum }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 30 # 5 s for preStop, 15 s for the program, and a reserve
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "keypool.selector" . | nindent 14 }}
      containers:
        - name: {{ .component }}
          image: "{{ .root.Values.image.repository }}:{{ required "set image.tag" .root.Values.image.tag }}"
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [/{{ .component }}]
          ports:
            - {name: {{ .port.name }}, containerPort: {{ .port.number }}}
            - {name: admin, containerPort: 8081}
          envFrom:
            - configMapRef: {name: {{ .root.Release.Name }}-settings}
            - secretRef: {name: {{ required "set secretName to the name of a Secret with DATABASE_URL and REDIS_URL" .root.Values.secretName }}}
          {{- with .env }}
          env: {{- toYaml . | nindent 12 }}
          {{- end }}
          # /livez has status 200 while the process runs, and /readyz while the program can do its work. So an outage of
          # the database takes a pod out of the Service, but does not restart it.
          startupProbe:
            httpGet: {path: /livez, port: admin}
            periodSeconds: 2
            failureThreshold: 30 # 30 * 2 s = 60 s; a program whose start fails ends by itself within 30 s, unless it moves the links of an older schema
          livenessProbe:
            httpGet: {path: /livez, port: admin}
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: admin}
            periodSeconds: 5
            timeoutSeconds: 5
          lifecycle:
            preStop:
              sleep: {seconds: 5} # in this time the Service stops sending connections to the pod
          resources: {{- toYaml .of.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "keypool.name" . }}
  labels: {{- include "keypool.labels" . | nindent 4 }}
spec:
  minAvailable: {{ .of.minAvailable }}
  selector:
    matchLabels: {{- include "keypool.selector" . | nindent 6 }}
---
# Prometheus finds the admin listeners through this Service.
apiVersion: v1
kind: Service
metadata:
  name: {{ include "keypool.name" . }}-admin
  labels:
    {{- include "keypool.labels" . | nindent 4 }}
    keypool/metrics: "true"
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "keypool.selector" . | nindent 4 }}
  ports: [{name: admin, port: 8081, targetPort: admin}]
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "keypool.name" . }}
  labels: {{- include "keypool.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "keypool.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
    - ports: [{port: {{ .port.name }}}]
    {{- with .root.Values.networkPolicy.adminFrom }}
    - ports: [{port: admin}]
      from: {{- toYaml . | nindent 8 }}
    {{- end }}
{{- end }}
{{- end }}
