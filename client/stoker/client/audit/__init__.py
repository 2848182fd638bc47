"""`audit`: whether any data loader keeps the promises that a training relies on.

It runs the loader in processes of its own, with several numbers of workers, seeds, epochs and
ranks, hashes what it delivers, and compares. It knows nothing of the loader but its batches.
`stoker audit` and `python -m stoker.client.audit` call it. Needs no daemon.
"""

from stoker.client.audit.auditing import audit
from stoker.client.audit.loader_questions import QUESTIONS, AuditAnswer, AuditReport

__all__ = ["QUESTIONS", "AuditAnswer", "AuditReport", "audit"]
