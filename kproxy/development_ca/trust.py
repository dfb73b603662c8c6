"""Instructions that make clients trust a CA."""

from __future__ import annotations

from kproxy.escaping import python_docstring, shell_word, terminal

_INSTRUCTIONS = """\
The CA certificate is in {path}. Give it to clients; never give them ca-key.pem.

Java (Kafka's clients and tools), with the PEM file itself, Kafka 2.7 and later:
  security.protocol=SSL
  ssl.truststore.type=PEM
  ssl.truststore.location={path}
or with a truststore:
  keytool -importcert -noprompt -alias kproxy -file {word} \\
      -keystore truststore.p12 -storetype PKCS12 -storepass changeit
  security.protocol=SSL
  ssl.truststore.location=truststore.p12
  ssl.truststore.password=changeit

librdkafka (confluent-kafka for Python, Go, .NET and JavaScript; kcat -X):
  security.protocol=SSL
  ssl.ca.location={path}

Python:
  kafka-python  KafkaConsumer(security_protocol="SSL", ssl_cafile="{string}")
  aiokafka      AIOKafkaConsumer(security_protocol="SSL", ssl_context=ssl.create_default_context(cafile="{string}"))

Go:
  pool := x509.NewCertPool()
  pool.AppendCertsFromPEM(pem)                  // pem: the content of {path}
  config := &tls.Config{{RootCAs: pool}}
  franz-go      kgo.DialTLSConfig(config)
  Sarama        Net.TLS.Enable = true, Net.TLS.Config = config
  kafka-go      kafka.Dialer{{TLS: config}}, kafka.Transport{{TLS: config}}

Node:
  KafkaJS       new Kafka({{ssl: {{ca: [fs.readFileSync("{string}")]}}}})
  any client    NODE_EXTRA_CA_CERTS={word}

Use security.protocol=SASL_SSL instead of SSL if clients log in. They must connect to a host name in the certificate.
"""


def instructions(path: str) -> str:
    """Return the settings for Java, librdkafka, Python, Go and Node; `path` is the CA's certificate (PEM)."""
    return _INSTRUCTIONS.format(path=terminal(path), word=shell_word(path), string=python_docstring(path))
