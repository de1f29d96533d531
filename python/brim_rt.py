"""Engines of `brim export` in Python: libbrim_rt (brim_rt.h, BRIM_RT_ABI 1) through ctypes, in this one file.

    import brim_rt

    with brim_rt.Model("model.brim") as model, model.session() as session:
        [scores] = session.run(pixels)  # an array of NumPy's, or any other buffer
        print(model.labels[scores.argmax()])

The library is that of BRIM_RT_LIBRARY, or else lies beside this file, or where the system looks for libraries. Outputs
are NumPy's arrays where NumPy is there, and memoryviews of the same shape where it is not. A model may be used by
several threads at once, a session by one at a time, but for cancel(). Calls let other threads of Python run.
"""

import ctypes
import ctypes.util
import os

try:
    import numpy
except ImportError:
    numpy = None

F32, I64, U8, I32 = 0, 1, 2, 3
# Name, struct's format, bytes.
_TYPES = {F32: ("float32", "f", 4), I64: ("int64", "q", 8), U8: ("uint8", "B", 1), I32: ("int32", "i", 4)}
_NAMES = {code: name for name, code, _ in _TYPES.values()}
_ABI = 1
_MAX_RANK = 8
_ALIGNMENT = 64  # of engines in memory


class Error(Exception):
    """What the library reports; `code` is its brim_rt_code."""

    code = None


class InvalidArgument(Error, ValueError):
    """A number out of range, a shape or type that a port has not."""

    code = 1


class FileError(Error, OSError):
    """The file cannot be opened or mapped."""

    code = 2


class Damaged(Error):
    """The file is no engine, is cut, or was altered."""

    code = 3


class VersionError(Error):
    """The file is of another version, or of another byte order."""

    code = 4


class Unsupported(Error):
    """This runtime or CPU lacks an op or an instruction set."""

    code = 5


class NoMemory(Error, MemoryError):
    """There is no memory."""

    code = 6


class NoThread(Error):
    """The system starts no further thread."""

    code = 7


class Cancelled(Error):
    """cancel() was called."""

    code = 8


class NotEqual(Error):
    """verify(): an output is not what the file says."""

    code = 9


_ERRORS = {kind.code: kind for kind in Error.__subclasses__()}


class _Error(ctypes.Structure):
    _fields_ = (("code", ctypes.c_int), ("message", ctypes.c_char * 512))


class _Port(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * _MAX_RANK),
        ("bytes", ctypes.c_size_t),
    )


class _SessionOptions(ctypes.Structure):
    _fields_ = (
        ("batch", ctypes.c_int64),
        ("own_threads", ctypes.c_int),
        ("threads", ctypes.c_void_p),
        ("isa", ctypes.c_char_p),
    )


_HANDLE, _TEXT, _ERROR = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_Error)
_HANDLES, _PORT = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(_Port)
_FUNCTIONS = {
    "abi": (ctypes.c_int,),
    "open": (ctypes.c_int, _TEXT, _HANDLE, _HANDLES, _ERROR),
    "open_memory": (ctypes.c_int, _HANDLE, ctypes.c_size_t, _HANDLE, _HANDLES, _ERROR),
    "close": (None, _HANDLE),
    "session_create": (ctypes.c_int, _HANDLE, ctypes.POINTER(_SessionOptions), _HANDLES, _ERROR),
    "session_close": (None, _HANDLE),
    "run": (ctypes.c_int, _HANDLE, _HANDLES, _HANDLES, _ERROR),
    "cancel": (None, _HANDLE),
    "verify": (ctypes.c_int, _HANDLE, ctypes.POINTER(ctypes.c_double), _ERROR),
    "input": (_PORT, _HANDLE, ctypes.c_int),
    "output": (_PORT, _HANDLE, ctypes.c_int),
    "memory": (ctypes.c_size_t, _HANDLE),
    "isa": (_TEXT, _HANDLE),
    "step": (_TEXT, _HANDLE, ctypes.c_int),
    "batch": (ctypes.c_int64, _HANDLE, ctypes.c_int),
    "label": (_TEXT, _HANDLE, ctypes.c_int),
    "metadata": (_TEXT, _HANDLE, _TEXT),
}


class Library:
    """libbrim_rt. `path`: "" is where the head of this file says. Throws FileError."""

    def __init__(self, path=""):
        self.path = path or os.environ.get("BRIM_RT_LIBRARY") or self._find()
        try:
            library = ctypes.CDLL(self.path)
            for name, (result, *arguments) in _FUNCTIONS.items():
                function = getattr(library, f"brim_rt_{name}")
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)
            if self.abi() != _ABI:
                raise OSError(f"its ABI is {self.abi()}, and {_ABI} is wanted")
        except (OSError, AttributeError) as error:
            if "cannot open shared object file" in str(error):
                raise FileError(f"{self.path} was not found, or is no file; name libbrim_rt.so in BRIM_RT_LIBRARY") from None
            raise FileError(
                f"{self.path} is not libbrim_rt, or of another version ({error}); name it in BRIM_RT_LIBRARY"
            ) from None

    @staticmethod
    def _find():
        beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libbrim_rt.so")
        return beside if os.path.exists(beside) else ctypes.util.find_library("brim_rt") or "libbrim_rt.so"

    @staticmethod
    def check(code, error):
        if code:
            raise _ERRORS.get(code, Error)(error.message.decode("utf-8", "replace"))


_library = None


def library():
    """The one that models use unless they are given another; it is loaded at the first call."""
    global _library  # pylint: disable=global-statement
    if _library is None:
        _library = Library()
    return _library


def _all(function, handle):
    """What the function gives for 0, 1, ... until it gives nothing, which an empty text is not."""
    values = []
    while (value := function(handle, len(values))) or value == b"":
        values.append(value)
    return values


class Port:
    """An input or output. `shape`: a tuple; `dtype`: "float32", "int64", "uint8" or "int32"; `bytes`: of all elements."""

    def __init__(self, port):
        self.name = port.name.decode("utf-8", "replace")
        self.dtype, self.format, self.item_bytes = _TYPES[port.dtype]
        self.shape = tuple(port.shape[: port.rank])
        self.bytes = port.bytes

    def __repr__(self):
        return f"{self.name}: {self.dtype} {self.shape}"

    def empty(self):
        """A buffer of this type and shape: an array of NumPy's, or a memoryview."""
        if numpy is not None:
            return numpy.empty(self.shape, self.dtype)
        flat = memoryview(bytearray(self.bytes))
        return flat.cast(self.format, self.shape) if self.shape else flat.cast(self.format)

    def address(self, value, writable=False, copies=True):
        """(address, what must live as long) of a buffer whose elements are of this type and shape, or as many in a row.
        Throws InvalidArgument."""
        if numpy is not None and not isinstance(value, (bytes, bytearray, memoryview)):
            # What is no buffer would become a temporary one, and the results would be lost with it.
            value = numpy.ascontiguousarray(value) if copies else value
        try:
            view = memoryview(value)
        except TypeError:
            raise InvalidArgument(f"{self.name}: {type(value).__name__} is no buffer, as arrays and bytes are") from None
        code = view.format.lstrip("@=<")
        is_type = code == self.format or (code == "l" and self.format == "q" and view.itemsize == self.item_bytes)
        if not is_type or view.shape not in (self.shape, (self.bytes // self.item_bytes,)):
            found = getattr(value, "dtype", None) or _NAMES.get(code, code)
            raise InvalidArgument(
                f"{self.name} is {self.dtype} {self.shape}, and was given {found} {view.shape}; convert or reshape it"
            )
        if not view.c_contiguous or (writable and view.readonly):
            raise InvalidArgument(f"{self.name}: the buffer is {'read-only' if view.readonly else 'not contiguous'}")
        if hasattr(value, "ctypes"):
            return value.ctypes.data, value
        if not view.readonly:
            return ctypes.addressof(ctypes.c_char.from_buffer(view)), view
        if not copies and not isinstance(value, bytes):
            raise InvalidArgument(f"{self.name}: a read-only view cannot be bound; give its bytes, or call run()")
        data = value if isinstance(value, bytes) else view.tobytes()
        return ctypes.cast(data, ctypes.c_void_p).value, data


class _Handles:
    """A model and its sessions in the library: those of them that are open. Models and sessions share it, since the
    collector may end either of them first."""

    def __init__(self, library, model):
        self.library, self.model, self.sessions = library, model, set()

    def close_session(self, session):
        if session in self.sessions:
            self.sessions.remove(session)
            self.library.session_close(session)

    def close(self):
        for session in list(self.sessions):
            self.close_session(session)
        model, self.model = self.model, None
        if model is not None:
            self.library.close(model)


class Session:
    """Runs a model; made by Model.session()."""

    def __init__(self, model, batch, threads, isa):
        options = _SessionOptions(batch, threads, None, isa.encode() if isa else None)
        self.model, self._library, self._error = model, model.library, _Error()
        self._handles, handle = model.handles, ctypes.c_void_p()
        code = self._library.session_create(
            model.handle, ctypes.byref(options), ctypes.byref(handle), ctypes.byref(self._error)
        )
        self._library.check(code, self._error)
        self._handle = handle.value
        self._handles.sessions.add(self._handle)
        self.inputs = [Port(port.contents) for port in _all(self._library.input, handle)]
        self.outputs = [Port(port.contents) for port in _all(self._library.output, handle)]

    @property
    def handle(self):
        if self._handle not in self._handles.sessions:
            raise InvalidArgument("the session is closed")
        return self._handle

    @property
    def memory(self):
        """Bytes that it has allocated."""
        return self._library.memory(self.handle)

    @property
    def isa(self):
        """The instruction set it runs on: "avx512vnni", "avx512", "avx2", "baseline", ..."""
        return self._library.isa(self.handle).decode()

    @property
    def steps(self):
        """What a run does, step by step."""
        return [step.decode("utf-8", "replace") for step in _all(self._library.step, self.handle)]

    def run(self, *inputs):
        """The outputs for these inputs, in the order of `self.inputs`, or for one dict of them by name."""
        if len(inputs) == 1 and isinstance(inputs[0], dict):
            inputs = self._by_name(inputs[0])
        outputs = [port.empty() for port in self.outputs]
        self._bound(inputs, outputs, True)()
        return outputs

    def bind(self, inputs, outputs):
        """A function that reads these buffers, runs, and fills those: nothing is checked or copied at its calls."""
        return self._bound(inputs, outputs, False)

    def _bound(self, inputs, outputs, copies):
        reads, inputs_alive = self._pointers(inputs, self.inputs, "inputs", False, copies)
        writes, outputs_alive = self._pointers(outputs, self.outputs, "outputs", True, False)
        run, check, error = self._library.run, self._library.check, self._error
        reference = ctypes.byref(error)

        def call():
            code = run(self.handle, reads, writes, reference)
            if code:
                check(code, error)

        call.buffers = inputs_alive + outputs_alive
        return call

    def cancel(self):
        """From any thread: the run that is under way, or else the next one, throws Cancelled."""
        self._library.cancel(self.handle)

    def verify(self):
        """Runs the samples in the file. -> the largest difference as a share of the largest output. Throws NotEqual."""
        worst = ctypes.c_double()
        code = self._library.verify(self.handle, ctypes.byref(worst), ctypes.byref(self._error))
        self._library.check(code, self._error)
        return worst.value

    def close(self):
        """May be called again."""
        if hasattr(self, "_handle"):
            self._handles.close_session(self._handle)
            self._handle = None

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _by_name(self, values):
        names = [port.name for port in self.inputs]
        if sorted(values) != sorted(names):
            raise InvalidArgument(f"the inputs are {', '.join(names)}, and were given {', '.join(values) or 'none'}")
        return [values[name] for name in names]

    @staticmethod
    def _pointers(values, ports, what, writable, copies):
        if len(values) != len(ports):
            raise InvalidArgument(f"there are {len(ports)} {what} ({', '.join(map(repr, ports))}), and {len(values)} were given")
        found = [port.address(value, writable, copies) for port, value in zip(ports, values)]
        return (ctypes.c_void_p * len(found))(*(address for address, _ in found)), [kept for _, kept in found]


class Model:
    """An engine: a path, or the bytes of one, of which an aligned copy is made."""

    def __init__(self, engine, library=None):  # pylint: disable=redefined-outer-name
        self.library = library or globals()["library"]()
        self._data = None
        handle, error = ctypes.c_void_p(), _Error()
        if isinstance(engine, (bytes, bytearray, memoryview)):
            data = bytes(engine)
            code = self.library.open_memory(self._keep(data), len(data), None, ctypes.byref(handle), ctypes.byref(error))
        else:
            code = self.library.open(os.fsencode(engine), None, ctypes.byref(handle), ctypes.byref(error))
        self.library.check(code, error)
        self.handles = _Handles(self.library, handle.value)
        #: Sizes of batches that it was made for.
        self.batches = _all(self.library.batch, handle)
        #: Names of classes.
        self.labels = [label.decode("utf-8", "replace") for label in _all(self.library.label, handle)]

    @property
    def handle(self):
        if self.handles.model is None:
            raise InvalidArgument("the model is closed")
        return self.handles.model

    def metadata(self, key):
        """What the file says of itself, as "model", "mean"; None where it says nothing."""
        value = self.library.metadata(self.handle, key.encode())
        return None if value is None else value.decode("utf-8", "replace")

    def session(self, batch=0, threads=0, isa=None):
        """Takes all memory that runs need. `batch`: one of `batches` (0: the first); `threads`: its own (0: one for
        each core); `isa`: "avx512vnni", "avx512", "avx2", "baseline" (None: the best that the CPU has)."""
        return Session(self, batch, threads, isa)

    def close(self):
        """Closes its sessions, too. May be called again."""
        if hasattr(self, "handles"):
            self.handles.close()

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _keep(self, data):
        self._data = ctypes.create_string_buffer(len(data) + _ALIGNMENT)
        address = -(-ctypes.addressof(self._data) // _ALIGNMENT) * _ALIGNMENT
        ctypes.memmove(address, data, len(data))
        return address
