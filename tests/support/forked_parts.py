"""Runs a script that executes others, all forked from a warm process: `output_of(script, *words)`.

Benchmarks measure each part in a fresh interpreter, which imports PyTorch for three seconds of
processor time. A test of what they print needs no fresh one. The script's `subprocess.run` forks
the process of the script, which runs the same command line. Other commands than Python scripts
are refused. Private daemons of loaders are forked too.
"""

import subprocess
from collections.abc import Sequence

from warm import Script

DRIVER = """
import atexit, os, runpy, subprocess, sys, traceback

def become(command, out, environment):
    status = 1
    try:
        os.dup2(out, 1)
        os.environ.update(environment or {})
        sys.argv[:], sys.path[0] = command[1:], os.path.dirname(command[1])
        runpy.run_path(command[1], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(status)

def run(command, *, check, stdout, text, timeout, start_new_session=False, env=None):
    assert command[0] == sys.executable and command[1].endswith(".py"), command
    assert stdout == subprocess.PIPE and text
    sys.stdout.flush()
    (reads, writes), pid = os.pipe(), os.fork()
    if not pid:
        become(command, writes, env)
    os.close(writes)
    with open(reads) as said:
        told = said.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if check and status:
        raise subprocess.CalledProcessError(status, command, told)
    return subprocess.CompletedProcess(command, status, told)

subprocess.run = run
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def output_of(script: object, *words: object, imports: Sequence[str]) -> str:
    """Run a script; return what it printed.

    Args:
        script: its path.
        words: its arguments.
        imports: modules that it and its parts import, and that take long.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Script("-c", DRIVER, script, *words, imports=imports, daemons=True, **pipes) as process:
        printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, printed + errors
    return printed
