"""Test that connection settings can be pickled, compare by value, and hide secrets in their representation."""

from __future__ import annotations

import pickle

from pyspark_rocketmq.net.settings import NetSettings, TlsSettings


def test_secrets_are_not_shown() -> None:
    """The representation of TLS settings shows neither the key's password nor PEM text."""
    settings = NetSettings(tls=TlsSettings(trust_cert="PEM TEXT", client_key_password="hush"))

    assert "hush" not in repr(settings)
    assert "PEM TEXT" not in repr(settings)


def test_equal_settings_are_one_key() -> None:
    """Settings equal their unpickled copy, so both find the same pool."""
    settings = NetSettings(tls=TlsSettings(trust_cert_path="ca.pem"))

    assert {settings: 1}[pickle.loads(pickle.dumps(settings))] == 1


def test_servers_are_verified_unless_told_otherwise() -> None:
    """By default, TLS settings demand that the server's certificate is verified."""
    assert TlsSettings().verify_server


def test_deadlines_come_from_the_settings() -> None:
    """The deadline to connect and the deadline of a request have the spans that the settings give."""
    settings = NetSettings(connect_timeout_s=1.0, request_timeout_s=2.0)

    assert settings.connect_deadline().seconds == 1.0
    assert settings.request_deadline().seconds == 2.0
