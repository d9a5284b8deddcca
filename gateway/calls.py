"""The calls that browsers may make, read from the protos: nothing else is reachable from outside."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

from google.api import annotations_pb2
from google.api.http_pb2 import HttpRule
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from google.rpc import error_details_pb2, status_pb2
from rowlock.edge.v1 import edge_pb2

PUBLIC_SERVICE = re.compile(r"rowlock\.(?P<name>[a-z]+)\.v\d+\.(?!\w*(?:Internal|Admin)Service$)\w+Service")
VARIABLE = re.compile(r"\{([^}]*)\}")
FIELD = re.compile(r"[a-z][a-z0-9_]*")
TEMPLATE = re.compile(r"(/([a-z0-9-]+|\{[a-z0-9_]+\}))+")


@dataclass(frozen=True, slots=True)
class Call:
    """One way to reach one method."""

    service: str
    """Name of the service, as in its package: `booking`."""
    proto_service: str
    """Full name of the proto service: `rowlock.booking.v1.BookingService`."""
    name: str
    method: str
    path: str
    tokens: tuple[int, ...]
    success_status: int
    stream: bool
    """Answered by the service's HTTP/1.1 listener, not transcoded."""
    whole_body: bool
    """The body is the whole message (`body: "*"`): nothing of it is taken from a query."""

    @property
    def variables(self) -> list[str]:
        return VARIABLE.findall(self.path)

    @property
    def cluster(self) -> str:
        return f"{self.service}_stream" if self.stream else self.service


def read_image() -> descriptor_pb2.FileDescriptorSet:
    """The descriptors that protos/generate.py made."""
    image = resources.files("rowlock").joinpath("image.binpb").read_bytes()
    return descriptor_pb2.FileDescriptorSet.FromString(image)


def read_calls(image: descriptor_pb2.FileDescriptorSet) -> list[Call]:
    """Every call with an `access` option, most literal path first, so that no template hides a fixed path."""
    calls = [
        call
        for file in image.file
        for service in file.service
        for method in service.method
        for call in _calls_of(f"{file.package}.{service.name}", method)
    ]
    return sorted(calls, key=lambda call: ("{" in call.path, call.path, call.method))


def _calls_of(proto_service: str, method: descriptor_pb2.MethodDescriptorProto) -> Iterator[Call]:
    if not method.options.HasExtension(edge_pb2.access):
        return
    public = PUBLIC_SERVICE.fullmatch(proto_service)
    if public is None or not method.options.HasExtension(annotations_pb2.http):
        raise ValueError(f"{proto_service}.{method.name}: only a public service's method with an HTTP rule has access")
    access = method.options.Extensions[edge_pb2.access]
    rule = method.options.Extensions[annotations_pb2.http]
    for one in (rule, *rule.additional_bindings):
        verb, path = _verb_and_path(one)
        yield _checked(
            Call(
                service=public["name"],
                proto_service=proto_service,
                name=method.name,
                method=verb,
                path=path,
                tokens=tuple(sorted(set(access.tokens))),
                success_status=access.success_status or 200,
                stream=access.upstream == edge_pb2.UPSTREAM_EVENT_STREAM,
                whole_body=one.body == "*",
            )
        )


def _verb_and_path(rule: HttpRule) -> tuple[str, str]:
    verb = rule.WhichOneof("pattern")
    if verb not in ("get", "put", "post", "delete", "patch"):
        raise ValueError("custom HTTP verbs are not served")
    return verb.upper(), getattr(rule, verb)


def _checked(call: Call) -> Call:
    """Refuses what the routes could not guard: better no gateway than one with a hole."""
    where = f"{call.proto_service}.{call.name}"
    if not TEMPLATE.fullmatch(call.path):
        raise ValueError(f"{where}: {call.path} is not made of plain segments and whole-segment variables")
    if set(call.tokens) & {edge_pb2.TOKEN_QUEUE, edge_pb2.TOKEN_ADMISSION}:
        if call.variables != ["event_id"] or edge_pb2.TOKEN_USER not in call.tokens:
            raise ValueError(f"{where}: a queue or admission token needs {{event_id}} in the path and a user token")
        if {edge_pb2.TOKEN_QUEUE, edge_pb2.TOKEN_ADMISSION} <= set(call.tokens):
            raise ValueError(f"{where}: a call takes a queue or an admission token, not both")
    return call


def path_fields(calls: list[Call]) -> list[str]:
    """Names by which a query parameter could override a path variable, in both spellings."""
    names = {name for call in calls for name in call.variables}
    return sorted(names | {_camel(name) for name in names})


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def transcoding_image(image: descriptor_pb2.FileDescriptorSet) -> bytes:
    """What the transcoder needs: without comments, and with the types of a refusal's details."""
    files = {file.name: _without_comments(file) for file in image.file}
    for module in (status_pb2, error_details_pb2):
        _add_with_imports(module.DESCRIPTOR, files)
    return descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString(deterministic=True)


def _without_comments(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    bare = descriptor_pb2.FileDescriptorProto()
    bare.CopyFrom(file)
    bare.ClearField("source_code_info")
    return bare


def _add_with_imports(file: FileDescriptor, files: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    """A file comes after those that it imports: Envoy builds them in order."""
    if file.name in files:
        return
    for imported in file.dependencies:
        _add_with_imports(imported, files)
    files[file.name] = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
