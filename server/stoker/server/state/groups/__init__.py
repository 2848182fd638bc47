"""Groups of sessions: joining, the memory that they share, and the delivery of batches.

A session without a group is the only member of its own. Members of a mirror share the slots of one
`group`; those of a fork have a group each, and share decoded samples (`forks`). `group_delivery`
drives their runs, `group_slab` has the memory, `group_joining` the rules for members.
"""
