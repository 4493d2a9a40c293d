"""Values of releases as people would install them."""

from typing import Any

RABBITMQ = "amqp://dragoman:p%40ss%2Fword@rabbitmq.brokers.svc:5672/"
POSTGRESQL = "postgresql://dragoman:secret@postgresql.databases.svc/dragoman"

SEVERAL: dict[str, Any] = {
    "replicas": 3,
    "adapter": {"url": RABBITMQ, "settings": {"queue-type": "quorum", "prefetch": "128"}},
    "store": {"url": POSTGRESQL},
}
EXISTING: dict[str, Any] = {
    "replicas": 2,
    # As the operators of RabbitMQ and CloudNativePG name them.
    "adapter": {"existingSecret": {"name": "rabbitmq-default-user", "key": "connection_string"}},
    "store": {"existingSecret": {"name": "postgresql-app", "key": "uri"}},
}
EXISTING_SECRETS = {
    ("rabbitmq-default-user", "connection_string"): RABBITMQ,
    ("postgresql-app", "uri"): POSTGRESQL,
}
INGRESS: dict[str, Any] = {
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "host": "events.example.org",
        "tlsSecret": "events-tls",
        "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "4m"},
    },
    "trustedProxies": ["10.244.3.0/24"],
    "egressAllow": ["10.1.0.0/16", "*.plant.example.org"],
}
PERSISTENCE: dict[str, Any] = {
    "persistence": {"size": "20Gi", "storageClass": "fast", "annotations": {"backup": "daily"}},
    "settings": {
        "default_lease": "PT1H",
        "longest_lease": 172800,
        "max_subscriptions": 2_000_000,
        "retry_delays": [1, 2.5, 30],
        "survive_power_loss": False,
        "log_format": "json",
    },
}
PROXY = "http://dragoman:p%40ss@proxy.example.org:3128"
TLS: dict[str, Any] = {"tls": {"existingSecret": "events-tls"}, "service": {"port": 443}}
SOAP_TCP: dict[str, Any] = {"soapTcp": {"enabled": True}}
MAILBOXES: dict[str, Any] = {
    "mailboxes": {
        "only": True,
        "messages": 100,
        "bytes": 2**20,
        "age": 3600,
        "idle": "PT2H",
        "overflow": "refuse",
    },
    "settings": {"max_mailboxes": 700, "max_mailboxes_per_owner": 7},
}
EVERYTHING: dict[str, Any] = {
    **SEVERAL,
    **INGRESS,
    "tls": {"existingSecret": "pods-tls", "clientCaKey": "ca.crt"},
    "identities": {"existingSecret": "identities"},
    "soapTcp": {"enabled": True, "port": 9081, "tlsPort": 9082, "host": "tcp.example.org"},
    "egress": {"ca": {"configMap": "authorities"}, "proxy": {"url": PROXY}},
    "mailboxes": {**MAILBOXES["mailboxes"], "only": False},
    "settings": {
        "destinations": [{"exchange": "orders", "pattern": "eu.#", "namespace": "urn:o"}],
        "tls_names": [{"name": "plant.example.org", "certificate": "/certificates/plant.pem"}],
        "consumers": [{"address": "*.old.example.org", "http": "1.0", "max_message": 65536}],
        "egress_certificate": "/certificates/us.pem",
    },
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {}}],
        "adminFrom": [{"podSelector": {}}],
    },
    "admin": {"port": 9090},
    "metrics": {"annotations": True},
    "serviceAccountName": "dragoman",
    "imagePullSecrets": [{"name": "registry"}],
    "priorityClassName": "high",
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraVolumes": [{"name": "authorities", "secret": {"secretName": "authorities"}}],
    "extraVolumeMounts": [{"name": "authorities", "mountPath": "/certificates"}],
    "podLabels": {"team": "events"},
    "podAnnotations": {"note": "1"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "events", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "service": {"type": "LoadBalancer", "port": 8080, "annotations": {"a": "b"}},
}
OPERATED: dict[str, Any] = {
    **EXISTING,
    "image": {"repository": "registry.example.org/dragoman", "digest": f"sha256:{'7' * 64}"},
    "autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 16, "cpu": 60},
    "tls": {"existingSecret": "pods-tls"},
    "service": {"port": 443},
    "soapTcp": {"enabled": True, "service": {"enabled": True, "annotations": {"a": "b"}}},
    "httpRoute": {
        "enabled": True,
        "host": "events.example.org",
        "parentRefs": [{"name": "public", "namespace": "gateways"}],
        "annotations": {"a": "b"},
    },
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {}}],
        "egress": {
            "enabled": True,
            "rules": [{"to": [{"namespaceSelector": {}}], "ports": [{"port": 5672}]}],
        },
    },
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
    },
    "serviceAccount": {"create": True, "annotations": {"role": "events"}},
    "extraObjects": [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{{{{ .Release.Name }}}}-{name}-dashboard"},
        }
        for name in ("one", "two")
    ],
}
MEMORY: dict[str, Any] = {"adapter": {"url": "memory:"}, "persistence": {"enabled": False}}

RELEASES = {
    "default": {},
    "several": SEVERAL,
    "existing": EXISTING,
    "ingress": INGRESS,
    "persistence": PERSISTENCE,
    "everything": EVERYTHING,
    "memory": MEMORY,
    "tls": TLS,
    "soap-tcp": SOAP_TCP,
    "mailboxes": MAILBOXES,
    "operated": OPERATED,
}
