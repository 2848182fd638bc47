"""What the daemon and its clients must agree on, and nothing else.

Pure data and pure functions: no socket library, no compiler, no tensor library is imported
here, so a client stays thin and the daemon starts fast. The modules:

- `errors`: the typed errors that cross the wire;
- `canonical`: the one byte form that is hashed;
- `spec`: StreamSpec and the stream id (the arguments of the law);
- `cursor`: where a client is in a stream;
- `layout`: where each output is in a slot;
- `messages`, `codec`: the records on the wire and their bounded encoding;
- `descriptors`: passing file descriptors over the side socket;
- `version`: the versions of all of these.

A change here changes a contract: docs/contracts/ and docs/protocol.md have the rules.
"""
