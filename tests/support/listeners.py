"""Listeners of row fillers that keep what they hear."""

from stoker.server.rows.listener import RowListener


class Heard(RowListener):
    """Keeps the rows and samples that begin, in order, and where the last rows go."""

    def __init__(self, rows=None, samples=None):
        self.rows = [] if rows is None else rows
        self.samples = [] if samples is None else samples
        self.arrays = []

    def rows_begin(self, outputs):
        self.arrays = outputs

    def row_begins(self, row):
        self.rows.append(row)

    def sample_begins(self, sample_id):
        self.samples.append(sample_id)
