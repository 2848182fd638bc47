"""The daemon: sockets, sessions, scheduling, workers, memory, and the command line.

Processes: the *daemon* (one thread of control; decides and moves messages; never touches a pixel,
never imports numba or torch), the *template* (a clean, single-threaded process that forks) and its
children: *workers* (fill rows of slots) and one-off *builders* (trace, bind and compile a pipeline
once per host). `state` holds every decision as pure functions `handle(event) -> [instruction]`;
everything else here is the thin I/O round it.
"""
