"""The web page of a daemon: who reads what, how fast, and what bounds it; read-only.

It runs in the thread of the metrics endpoint and reads snapshots that the daemon's loop publishes.
Only `metrics_endpoint` imports it, and `stoker serve` its check of the address; `recent_notes` is
there without a page too.
"""
