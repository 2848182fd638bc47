"""The contracts between the daemon and its clients: records, layouts, specs, errors.

Pure data and pure functions. Every other package may import it, and it imports none of them: no
socket library, no compiler, no tensor library. So a client stays thin and the daemon starts fast.
docs/architecture.md has a map of its modules. A change here changes a contract: docs/contracts/ and
docs/protocol.md have the rules.
"""
