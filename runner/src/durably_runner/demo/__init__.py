"""``durably demo``: the main job, in one screen, with nothing staged.

A worker process converts real files and is killed with SIGKILL half-way; the same call, made
again, ends the job. What is printed is read back from the store by a handle of this process,
and from the log in which the workers noted what they began.
"""

from durably_runner.demo.show import run_demo

__all__ = ["run_demo"]
