"""A program whose trials fail in many ways, and which records each failure."""

MAIN = """
import json, os, socket, sys, time
import windlass as wl
import errors, cases, fussy

class Boom(Exception):
    def __init__(self, text, left):
        super().__init__(text, left)
        self.left = left

def boom():
    raise Boom("out of luck", 3)

def text_of(error):
    try:
        return str(error)
    except RuntimeError as refused:
        return repr(refused)

def describe(error):
    notes = getattr(error, "__notes__", [])
    if sys.version_info < (3, 11):  # there are no notes: it is the first of the causes
        first = error
        while first.__cause__ is not None:
            first = first.__cause__
        if type(first).__name__ == "RemoteTraceback":
            notes = [str(first).strip()]
    fields = ("trial_id", "exit_code", "signal", "log_tail", "type_name", "text", "traceback")
    return {
        "type": type(error).__module__ + "." + type(error).__qualname__,
        "text": text_of(error)[:20000],
        "length": len(text_of(error)),
        "args": [repr(arg)[:200] for arg in error.args],
        "notes": notes,
        "cause": repr(error.__cause__),
        "is_ours": isinstance(error, wl.WindlassError),
        **{name: getattr(error, name) for name in fields if hasattr(error, name)},
    }

def outcome(trial):
    try:
        return {"value": repr(trial.result(timeout=100))}
    except BaseException as error:
        told = describe(error)
        told["is_boom"] = isinstance(error, Boom)
        told["is_own"] = isinstance(error, errors.OwnError)
        if hasattr(error, "exceptions"):
            told["parts"] = [repr(each) for each in error.exceptions]
        return told

light = dict(cpus=0.05)
trials = {name: wl.run(**light)(getattr(cases, name)).submit() for name in cases.NAMES}
trials["boom"] = wl.run(**light)(boom).submit()
trials["late"] = wl.run(**light, timeout=0.3)(cases.wait_for_ever).submit()
trials["fussy"] = wl.run(**light)(fussy.never_reached).submit()
with open(sys.argv[1], "w") as file:
    json.dump({name: outcome(trial) for name, trial in trials.items()}, file)
"""

ERRORS = """
class OwnError(Exception):
    pass

class OddError(Exception):
    def __init__(self, *, path, line):
        super().__init__(f"{path}:{line} is odd")

class LockedError(Exception):
    def __init__(self):
        import threading
        super().__init__("holds a lock")
        self.lock = threading.Lock()

class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class Halt(BaseException):
    pass
"""

FUSSY = """
import os
if "WINDLASS_TRIAL_ID" in os.environ:
    raise OSError("cannot be imported there")

def never_reached():
    return 1
"""

CASES = """
import os, signal, socket, sys, time
import errors

def value_error():
    raise ValueError("bad lr")

def own_error():
    raise errors.OwnError("of a module", {"n": 1})

def odd_error():
    raise errors.OddError(path="data.csv", line=3)

def locked_error():
    raise errors.LockedError()

def mute_error():
    raise errors.MuteError()

def halt():
    raise errors.Halt("everything")

def local_error():
    class Inner(ValueError):
        pass
    raise Inner("made here")

def chained():
    try:
        {}["missing"]
    except KeyError as error:
        raise RuntimeError("the config is wrong") from error

def group():
    raise ExceptionGroup("two problems", [ValueError("one"), errors.OwnError("two")])

def recursion():
    return recursion()

def huge():
    raise ValueError("x" * 3_000_000)

def foreign():
    raise ValueError("\\u00fc" * 200_000)

def surrogate():
    raise ValueError("bad name \\udcff")

def interrupted():
    raise KeyboardInterrupt

def exit_3():
    print("last words")
    os._exit(3)

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

def crashed():
    os.kill(os.getpid(), signal.SIGSEGV)

def talkative():
    for number in range(60):
        print("line", number)
    print("10%\\r20%\\r30%", end="")
    sys.stdout.flush()
    os._exit(1)

def sys_exit_2():
    sys.exit(2)

def sys_exit_0():
    sys.exit(0)

def sys_exit_text():
    sys.exit("the data is not there")

def no_module():
    import sklearn_that_nobody_has.linear_model

def known_package():
    raise ModuleNotFoundError("No module named 'cv2'", name="cv2")

def no_name():
    from json import no_such_name

def memory_error():
    raise MemoryError("cannot allocate 1 TB")

def port_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        socket.create_server(taken.getsockname())

def no_file():
    open("data/train.csv")

def no_absolute_file():
    open("/nowhere/train.csv")

def wait_for_ever():
    while True:
        time.sleep(0.01)

def lock_returned():
    import threading
    return {"model": [1, threading.Lock()]}

left_out = {"wait_for_ever"} if sys.version_info >= (3, 11) else {"wait_for_ever", "group"}
NAMES = [name for name, value in list(globals().items())
         if callable(value) and name not in left_out]
"""
