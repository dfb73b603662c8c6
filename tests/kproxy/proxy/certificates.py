"""A CA for tests, and certificates of every kind that a handshake can trip over."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Files:
    """A certificate and its key, as PEM."""

    certificate: Path
    key: Path

    def combined(self) -> Path:
        """Write both to one file, like a PEM keystore of Kafka; return its path."""
        path = self.certificate.with_name(f"{self.certificate.stem}-both.pem")
        path.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())
        return path


class Authority:
    """A CA; `path` is the file with its certificate."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(_to_pem(self._sign(self._name, self._key.public_key(), [], 0, ca=True)))

    def issue(self, *names: str, days: int = 0, password: str | None = None) -> Files:
        """Issue a certificate for these host names and addresses; `days` shifts its validity period."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        certificate = self._sign(subject, key.public_key(), names, days)
        stem = f"{self.path.stem}-{names[0].replace('*', 'any')}{days or ''}"
        files = Files(self._directory / f"{stem}.pem", self._directory / f"{stem}-key.pem")
        files.certificate.write_bytes(_to_pem(certificate))
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        pkcs8 = serialization.PrivateFormat.PKCS8
        files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, encryption))
        return files

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, names: tuple[str, ...] | list[str], days: int,
        *, ca: bool = False,
    ) -> x509.Certificate:  # fmt: skip
        now = datetime.datetime.now(datetime.UTC) + days * DAY
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY / 2)
            .not_valid_after(now + DAY / 2)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), False)
        return builder.sign(self._key, hashes.SHA256())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _to_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
