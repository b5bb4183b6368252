from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Policy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEGRADE: _ClassVar[Policy]
    FLOOR: _ClassVar[Policy]
    SKIP: _ClassVar[Policy]
DEGRADE: Policy
FLOOR: Policy
SKIP: Policy

class ConnectRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConnectReply(_message.Message):
    __slots__ = ("node", "version", "cameras", "identity")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CAMERAS_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    node: str
    version: str
    cameras: _containers.RepeatedCompositeFieldContainer[CameraInfo]
    identity: str
    def __init__(self, node: _Optional[str] = ..., version: _Optional[str] = ..., cameras: _Optional[_Iterable[_Union[CameraInfo, _Mapping]]] = ..., identity: _Optional[str] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("camera", "jpeg", "captured_unix_ns", "age_us")
    CAMERA_FIELD_NUMBER: _ClassVar[int]
    JPEG_FIELD_NUMBER: _ClassVar[int]
    CAPTURED_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    AGE_US_FIELD_NUMBER: _ClassVar[int]
    camera: str
    jpeg: bytes
    captured_unix_ns: int
    age_us: int
    def __init__(self, camera: _Optional[str] = ..., jpeg: _Optional[bytes] = ..., captured_unix_ns: _Optional[int] = ..., age_us: _Optional[int] = ...) -> None: ...

class PublishReply(_message.Message):
    __slots__ = ("camera", "frame", "error")
    CAMERA_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    camera: str
    frame: int
    error: str
    def __init__(self, camera: _Optional[str] = ..., frame: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class CameraInfoRequest(_message.Message):
    __slots__ = ("camera",)
    CAMERA_FIELD_NUMBER: _ClassVar[int]
    camera: str
    def __init__(self, camera: _Optional[str] = ...) -> None: ...

class CameraInfoReply(_message.Message):
    __slots__ = ("cameras",)
    CAMERAS_FIELD_NUMBER: _ClassVar[int]
    cameras: _containers.RepeatedCompositeFieldContainer[CameraInfo]
    def __init__(self, cameras: _Optional[_Iterable[_Union[CameraInfo, _Mapping]]] = ...) -> None: ...

class CameraInfo(_message.Message):
    __slots__ = ("name", "node", "is_online", "width", "height", "frames_per_second", "newest_unix_ns", "oldest_unix_ns", "ladder", "ladder_is_generic", "subscribers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    IS_ONLINE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    FRAMES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    NEWEST_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    LADDER_FIELD_NUMBER: _ClassVar[int]
    LADDER_IS_GENERIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    node: str
    is_online: bool
    width: int
    height: int
    frames_per_second: float
    newest_unix_ns: int
    oldest_unix_ns: int
    ladder: _containers.RepeatedCompositeFieldContainer[Rung]
    ladder_is_generic: bool
    subscribers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., node: _Optional[str] = ..., is_online: _Optional[bool] = ..., width: _Optional[int] = ..., height: _Optional[int] = ..., frames_per_second: _Optional[float] = ..., newest_unix_ns: _Optional[int] = ..., oldest_unix_ns: _Optional[int] = ..., ladder: _Optional[_Iterable[_Union[Rung, _Mapping]]] = ..., ladder_is_generic: _Optional[bool] = ..., subscribers: _Optional[_Iterable[str]] = ...) -> None: ...

class Rung(_message.Message):
    __slots__ = ("eighths", "quality", "is_gray", "bytes", "accuracy", "accuracy_low", "cost_us")
    EIGHTHS_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    IS_GRAY_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_LOW_FIELD_NUMBER: _ClassVar[int]
    COST_US_FIELD_NUMBER: _ClassVar[int]
    eighths: int
    quality: int
    is_gray: bool
    bytes: float
    accuracy: float
    accuracy_low: float
    cost_us: int
    def __init__(self, eighths: _Optional[int] = ..., quality: _Optional[int] = ..., is_gray: _Optional[bool] = ..., bytes: _Optional[float] = ..., accuracy: _Optional[float] = ..., accuracy_low: _Optional[float] = ..., cost_us: _Optional[int] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("camera", "start_unix_ns", "stop_unix_ns", "latency_ms", "accuracy", "policy")
    CAMERA_FIELD_NUMBER: _ClassVar[int]
    START_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    STOP_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    camera: str
    start_unix_ns: int
    stop_unix_ns: int
    latency_ms: int
    accuracy: float
    policy: Policy
    def __init__(self, camera: _Optional[str] = ..., start_unix_ns: _Optional[int] = ..., stop_unix_ns: _Optional[int] = ..., latency_ms: _Optional[int] = ..., accuracy: _Optional[float] = ..., policy: _Optional[_Union[Policy, str]] = ...) -> None: ...

class SubscribeReply(_message.Message):
    __slots__ = ("subscribed", "frame", "infeasible", "feasible")
    SUBSCRIBED_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    INFEASIBLE_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_FIELD_NUMBER: _ClassVar[int]
    subscribed: Subscribed
    frame: Frame
    infeasible: Infeasible
    feasible: Feasible
    def __init__(self, subscribed: _Optional[_Union[Subscribed, _Mapping]] = ..., frame: _Optional[_Union[Frame, _Mapping]] = ..., infeasible: _Optional[_Union[Infeasible, _Mapping]] = ..., feasible: _Optional[_Union[Feasible, _Mapping]] = ...) -> None: ...

class Subscribed(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("camera", "frame", "captured_unix_ns", "age_us", "width", "height", "source_width", "source_height", "eighths", "quality", "is_gray", "accuracy", "accuracy_low", "jpeg", "skipped", "left_us", "way_us", "is_late")
    CAMERA_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    CAPTURED_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    AGE_US_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    EIGHTHS_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    IS_GRAY_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_LOW_FIELD_NUMBER: _ClassVar[int]
    JPEG_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    LEFT_US_FIELD_NUMBER: _ClassVar[int]
    WAY_US_FIELD_NUMBER: _ClassVar[int]
    IS_LATE_FIELD_NUMBER: _ClassVar[int]
    camera: str
    frame: int
    captured_unix_ns: int
    age_us: int
    width: int
    height: int
    source_width: int
    source_height: int
    eighths: int
    quality: int
    is_gray: bool
    accuracy: float
    accuracy_low: float
    jpeg: bytes
    skipped: int
    left_us: int
    way_us: int
    is_late: bool
    def __init__(self, camera: _Optional[str] = ..., frame: _Optional[int] = ..., captured_unix_ns: _Optional[int] = ..., age_us: _Optional[int] = ..., width: _Optional[int] = ..., height: _Optional[int] = ..., source_width: _Optional[int] = ..., source_height: _Optional[int] = ..., eighths: _Optional[int] = ..., quality: _Optional[int] = ..., is_gray: _Optional[bool] = ..., accuracy: _Optional[float] = ..., accuracy_low: _Optional[float] = ..., jpeg: _Optional[bytes] = ..., skipped: _Optional[int] = ..., left_us: _Optional[int] = ..., way_us: _Optional[int] = ..., is_late: _Optional[bool] = ...) -> None: ...

class Infeasible(_message.Message):
    __slots__ = ("accuracy", "latency_ms")
    ACCURACY_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    accuracy: float
    latency_ms: int
    def __init__(self, accuracy: _Optional[float] = ..., latency_ms: _Optional[int] = ...) -> None: ...

class Feasible(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnsubscribeRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class UnsubscribeReply(_message.Message):
    __slots__ = ("was_known",)
    WAS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    was_known: bool
    def __init__(self, was_known: _Optional[bool] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("node", "cameras", "news")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CAMERAS_FIELD_NUMBER: _ClassVar[int]
    NEWS_FIELD_NUMBER: _ClassVar[int]
    node: str
    cameras: _containers.RepeatedCompositeFieldContainer[CameraInfo]
    news: _containers.RepeatedCompositeFieldContainer[News]
    def __init__(self, node: _Optional[str] = ..., cameras: _Optional[_Iterable[_Union[CameraInfo, _Mapping]]] = ..., news: _Optional[_Iterable[_Union[News, _Mapping]]] = ...) -> None: ...

class News(_message.Message):
    __slots__ = ("flow", "infeasible", "feasible", "ended")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    INFEASIBLE_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    flow: int
    infeasible: Infeasible
    feasible: Feasible
    ended: Ended
    def __init__(self, flow: _Optional[int] = ..., infeasible: _Optional[_Union[Infeasible, _Mapping]] = ..., feasible: _Optional[_Union[Feasible, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RegisterReply(_message.Message):
    __slots__ = ("flows",)
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    flows: _containers.RepeatedCompositeFieldContainer[Flow]
    def __init__(self, flows: _Optional[_Iterable[_Union[Flow, _Mapping]]] = ...) -> None: ...

class Flow(_message.Message):
    __slots__ = ("flow", "camera", "start_unix_ns", "stop_unix_ns", "latency_ms", "accuracy", "policy")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    CAMERA_FIELD_NUMBER: _ClassVar[int]
    START_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    STOP_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    flow: int
    camera: str
    start_unix_ns: int
    stop_unix_ns: int
    latency_ms: int
    accuracy: float
    policy: Policy
    def __init__(self, flow: _Optional[int] = ..., camera: _Optional[str] = ..., start_unix_ns: _Optional[int] = ..., stop_unix_ns: _Optional[int] = ..., latency_ms: _Optional[int] = ..., accuracy: _Optional[float] = ..., policy: _Optional[_Union[Policy, str]] = ...) -> None: ...

class UnregisterRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class UnregisterReply(_message.Message):
    __slots__ = ("was_known",)
    WAS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    was_known: bool
    def __init__(self, was_known: _Optional[bool] = ...) -> None: ...
