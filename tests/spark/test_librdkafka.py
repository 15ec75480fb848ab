"""Settings of Java's Kafka client as librdkafka takes them; no broker is asked."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.cluster import SparkSettings
from penstock.errors import InputError
from penstock.spark.connection import Connection


def connection(**table: str) -> Connection:
    """Return the connection to nowhere that a table names, encrypted; its keys have underscores for dots."""
    given = {key.replace("_", "."): value for key, value in table.items()}
    found = Connection.of(SparkSettings(kafka={"bootstrap": "127.0.0.1:1", "security.protocol": "SSL", **given}))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def pem() -> tuple[str, str]:
    """Return a key, locked by "secret", and a certificate of it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
    made = made.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=36500))
    locked = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    text = key.private_bytes(serialization.Encoding.PEM, form, locked).decode()
    return text, made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize("inline", [False, True])
def test_stores_in_pem_serve_both_clients(tmp_path: Path, pem: tuple[str, str], inline: bool) -> None:
    """Keys and certificates in PEM, in files as in settings, are what a client of librdkafka is made with."""
    key, certificate = pem
    (tmp_path / "key.pem").write_text(key + certificate)
    (tmp_path / "ca.pem").write_text(certificate)
    kinds = {"ssl_keystore_type": "PEM", "ssl_truststore_type": "PEM", "ssl_key_password": "secret"}
    files = {"ssl_keystore_location": str(tmp_path / "key.pem"), "ssl_truststore_location": str(tmp_path / "ca.pem")}
    texts = {"ssl_keystore_key": key, "ssl_keystore_certificate_chain": certificate}
    texts["ssl_truststore_certificates"] = certificate
    found = connection(**kinds, **(texts if inline else files))
    assert found.spark["kafka.ssl.keystore.type"] == "PEM"
    assert not any("store" in name for name in found.native)
    Producer({"log_level": 0, **found.native})
    with pytest.raises(Exception, match=r"ssl\.key"):
        Producer({"log_level": 0, **connection(**{**kinds, "ssl_key_password": "wrong"}, **files).native})


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ({"ssl_truststore_location": "/trust.jks", "ssl_truststore_password": "secret"}, "ca = "),
        ({"ssl_truststore_location": "/trust.p12", "ssl_truststore_type": "PKCS12"}, "ca = "),
        ({"ssl_keystore_location": "/keys.jks", "ssl_keystore_type": "jks"}, '"PKCS12"'),
    ],
)
def test_stores_that_only_java_reads_are_refused(table: dict[str, str], hint: str) -> None:
    """A store that librdkafka cannot read is refused before anything starts, with what to do."""
    with pytest.raises(InputError, match=r"cannot read a store of the type (JKS|PKCS12)") as caught:
        connection(**table)
    assert hint in str(caught.value)


def test_a_file_of_certificates_takes_the_place_of_a_truststore(tmp_path: Path, pem: tuple[str, str]) -> None:
    """With ``ca`` no truststore counts, of either client."""
    (tmp_path / "ca.pem").write_text(pem[1])
    found = connection(ca=str(tmp_path / "ca.pem"), ssl_truststore_location="/trust.jks", ssl_truststore_password="x")  # noqa: S106
    assert {key for key in found.spark if "trust" in key} == {
        "kafka.ssl.truststore.type", "kafka.ssl.truststore.location",
    }  # fmt: skip
    Producer({"log_level": 0, **found.native})


def test_other_settings_of_java_have_their_names_there() -> None:
    """Keys in PKCS12 pass, as do acks and retries, which have no dot; what librdkafka does without is left out."""
    given = {"acks": "all", "retries": "3", "buffer_memory": "1", "fetch_max_wait_ms": "4"}
    found = connection(**given, ssl_keystore_location="/keys.p12")
    assert {"acks": "all", "retries": "3", "fetch.wait.max.ms": "4"}.items() <= found.native.items()
    assert found.native["ssl.keystore.location"] == "/keys.p12"
    assert "buffer.memory" not in found.native
    assert found.spark["kafka.acks"] == "all"
    assert found.spark["kafka.buffer.memory"] == "1"
