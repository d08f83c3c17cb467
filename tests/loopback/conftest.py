from __future__ import annotations

import signal

# Where the suite was begun in the background, a shell has it ignore Ctrl-C, and every process it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
