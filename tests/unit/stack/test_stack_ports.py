"""Busy ports are told before anything starts."""

import os
import socket

import pytest

from stack.errors import StackError
from stack.ports import DISTANCES, Ports, require_free
from stack.settings import PORTS_USED


def test_ports_follow_the_base() -> None:
    ports = Ports(9000)
    assert ports.url("gateway") == "http://127.0.0.1:9000"
    assert ports.address("issuer") == "127.0.0.1:9001"
    assert len(set(DISTANCES.values())) == len(DISTANCES)
    assert max(DISTANCES.values()) < PORTS_USED


def test_busy_port_is_named_with_its_holder_and_the_variable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(StackError) as refusal:
            require_free(Ports(number - DISTANCES["catalog"]), ["catalog"])
    sentence = str(refusal.value)
    assert f"Port {number}, where catalog should listen" in sentence
    assert f"process {os.getpid()} " in sentence
    assert "ROWLOCK_STACK_BASE_PORT" in sentence


def test_port_that_was_left_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", number)) as client:
            server.accept()[0].close()  # the server's side lingers in TIME_WAIT
            client.recv(1)
    require_free(Ports(number), ["gateway"])
