"""What the daemon and its clients must agree on, and nothing else.

Pure data and pure functions: no socket library, no compiler, no tensor library is imported
here, so a client stays thin and the daemon starts fast. The modules:

- `errors`: the typed errors that cross the wire;
- `canonical`: the one byte form that is hashed;
- `spec`: StreamSpec and the stream id (the law's left side);
- `cursor`: where a client is in a stream;
- `layout`: where each output lies in a slot;
- `messages`, `codec`: the records on the wire and their bounded encoding;
- `descriptors`: passing file descriptors over the side socket;
- `version`: the versions of all of these.

Every change here is a change of contract: docs/contracts/ and docs/protocol.md say the rules.
"""
