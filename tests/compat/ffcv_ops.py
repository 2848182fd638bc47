"""Operations as users of FFCV write them: good ones, and ones that must be refused."""

from dataclasses import replace

import numba
import numpy as np

from stoker.compat.ffcv.pipeline import AllocationQuery, Compiler, Operation


class Same(Operation):
    """Base: the same form out as in."""

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


class Shift(Same):
    """Adds a number of the row's own; each drawn in another way."""

    def __init__(self, how="array"):
        self.how = how

    def generate_code(self):
        parallel_range = Compiler.get_iterable()

        def by_array(images, dst):
            by = np.random.randint(0, 100, images.shape[0])
            for i in parallel_range(images.shape[0]):
                dst[i] = images[i] + np.uint8(by[i])
            return dst

        def in_loop(images, dst):
            for i in parallel_range(images.shape[0]):
                dst[i] = images[i] + np.uint8(np.random.randint(0, 100))
            return dst

        def in_place(images, dst):
            for i in parallel_range(images.shape[0]):
                images[i] += np.uint8(np.random.randint(100))
            return images

        def new_array(images, dst):
            return images + np.uint8(np.random.randint(100))

        chosen = {
            "array": by_array,
            "loop": in_loop,
            "in place": in_place,
            "new": new_array,
        }[self.how]
        chosen.is_parallel = self.how == "loop"
        return chosen

    def declare_state_and_memory(self, previous_state):
        if self.how in ("in place", "new"):
            return previous_state, None
        return super().declare_state_and_memory(previous_state)


class Draws(Operation):
    """Every draw that gives arrays, as fourteen numbers."""

    def generate_code(self):
        def draws(labels, dst):
            n = labels.shape[0]
            dst[:, 0] = np.random.rand(n)
            dst[:, 1:3] = np.random.rand(n, 2)
            dst[:, 3] = np.random.random(n)
            dst[:, 4] = np.random.uniform(2, 5, n)
            dst[:, 5] = np.random.uniform(low=-1.0, size=(n,))
            dst[:, 6] = np.random.normal(10.0, 2.0, size=n)
            dst[:, 7] = np.random.randn(n)
            dst[:, 8] = np.random.randint(7, size=n)
            dst[:, 9] = np.random.randint(low=5, high=9, size=(n,))
            dst[:, 10] = np.random.standard_normal(n)
            dst[:, 11] = np.random.choice(5, n)
            dst[:, 12] = np.random.choice(np.array([1.5, 2.5, 9.0]), size=(n,), replace=True)
            dst[:, 13] = np.random.choice(a=(3, 4, 5), size=n, p=[0.25, 0.0, 0.75])
            return dst

        return draws

    def declare_state_and_memory(self, previous_state):
        state = replace(previous_state, shape=(14,), dtype=np.dtype("float64"))
        return state, AllocationQuery((14,), np.dtype("float64"))


class Ids(Same):
    """The sample ids."""

    def generate_code(self):
        def ids(labels, dst, indices):
            for i in range(labels.shape[0]):
                dst[i] = indices[i]
            return dst

        ids.with_indices = True
        return ids


class Threads(Operation):
    """Counts the threads that took part. This does not belong to a row, so it is a batch op.

    Numba's threads may take rows as they come (TBB), so a row of a whole batch waits until a second
    thread has begun one; a loop that runs on one thread alone ends all the same, after its turns.
    The few rows that a build tries do not wait.
    """

    is_batch_op = True

    def __init__(self, rows):
        self.rows = rows

    def generate_code(self):
        parallel_range, whole = Compiler.get_iterable(), self.rows

        def threads(labels, dst):
            seen = np.zeros(64, np.int64)
            turns = 100_000_000 if labels.shape[0] == whole else 0
            for _ in parallel_range(labels.shape[0]):
                me, turn = numba.get_thread_id(), 0
                while seen.sum() < 2 and turn < turns:
                    turn += 1
                    seen[me] = 1  # a store for each turn: the sum cannot be read once for all
            dst[:] = seen.sum()
            return dst

        threads.is_parallel = True
        return threads

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


class Assigns(Operation):
    """Assignments to items: alike, mirrored, upside down, broadcast, of another dtype, numbers."""

    def generate_code(self):
        def assigns(images, dst):
            dst[:] = 0
            for i in range(images.shape[0]):
                dst[i, 0] = images[i]
                dst[i, 1] = images[i, :, ::-1]
                dst[i, 2] = images[i, ::-1]
                dst[i, 3] = images[i, 0]
                dst[i, 4] = images[i].astype(np.int64) + 1
                dst[i, 5] = 5
                dst[i, 6, :4] = images[i, 2:]
                dst[i, 7, 1] = images[i, -1]
                dst[i, 7, 2, 3, 1] = 9
                dst[i, 7] = dst[i, 7]
            return dst

        return assigns

    def declare_state_and_memory(self, previous_state):
        state = replace(previous_state, shape=(8, *previous_state.shape))
        return state, AllocationQuery(state.shape, state.dtype)


class Two(Operation):
    """Two memories."""

    def generate_code(self):
        def two(images, dst):
            first, second = dst
            for i in range(images.shape[0]):
                first[i] = images[i]
                second[i] = 1
                first[i] += second[i]
            return first

        return two

    def declare_state_and_memory(self, previous_state):
        query = AllocationQuery(previous_state.shape, previous_state.dtype)
        return previous_state, (query, query)


class Mean(Same):
    """Subtracts the mean of the batch: every row depends on all."""

    def generate_code(self):
        def mean(images, dst):
            dst[:] = images - np.uint8(images.mean())
            return dst

        return mean


class DeclaredMean(Mean):
    is_batch_op = True


class DeniedMean(Mean):
    is_batch_op = False


def draw_two(factor, base=1):
    return base * draw_one() + factor * draw_one()


class Helper(Same):
    """Draws in helpers: in one that is compiled, and in one that calls it twice."""

    def generate_code(self):
        draw = draw_one

        def helped(labels, dst):
            for i in range(labels.shape[0]):
                dst[i] = labels[i] + draw()
                dst[i] += draw_two(100, base=10)
            return dst

        return helped


class PassesOn(Same):
    """Passes a helper that draws to another function."""

    def generate_code(self):
        def passes_on(images, dst):
            dst[:] = images + called(draw_one)
            return dst

        return passes_on


class Chooses(Same):
    """Chooses a helper that draws from several."""

    def generate_code(self):
        several = (draw_one, draw_one)

        def chooses(images, dst):
            dst[:] = images + several[0]()
            return dst

        return chooses


class Recurses(Same):
    """Draws in a helper that calls itself."""

    def generate_code(self):
        def recurses(images, dst):
            dst[:] = images + draws_again(3)
            return dst

        return recurses


class DrawsInOrder(Same):
    """A batch op whose rows draw in a parallel loop."""

    is_batch_op = True

    def generate_code(self):
        parallel_range = Compiler.get_iterator()

        def draws_in_order(labels, dst):
            for i in parallel_range(labels.shape[0]):
                dst[i] = np.random.randint(0, 1_000_000)
            return dst

        draws_in_order.is_parallel = True
        return draws_in_order


class Orders(Operation):
    """Orders and single choices: five numbers, five more, and two."""

    def generate_code(self):
        def orders(labels, dst):
            for i in range(labels.shape[0]):
                dst[i, :5] = np.random.permutation(5)
                kept = np.arange(10, 15)
                np.random.shuffle(kept)
                dst[i, 5:10] = kept
                dst[i, 10] = np.random.choice(7)
                dst[i, 11] = np.random.choice([3.0, 4.0], p=(0.5, 0.5))
            return dst

        return orders

    def declare_state_and_memory(self, previous_state):
        state = replace(previous_state, shape=(12,), dtype=np.dtype("float64"))
        return state, AllocationQuery((12,), np.dtype("float64"))


class Seeded(Same):
    """Draws a number that the sample id alone decides, as FFCV's users do for image and target."""

    def generate_code(self):
        parallel_range = Compiler.get_iterator()

        def seeded(labels, dst, indices):
            for i in parallel_range(labels.shape[0]):
                np.random.seed(indices[i])
                dst[i] = np.random.randint(0, 1_000_000)
            return dst

        seeded.with_indices = True
        return seeded


class WithoutSource(Same):
    """Makes its code from text."""

    def generate_code(self):
        names = {"np": np}
        exec("def shifts(images, dst):\n    return images + np.uint8(np.random.randint(9))", names)
        return names["shifts"]


class SeededByNothing(Same):
    """Asks the system for a seed."""

    def generate_code(self):
        def seeded(labels, dst):
            np.random.seed()
            return labels

        return seeded


class Wraps(Same):
    """Integer arithmetic that machine code wraps and Python refuses."""

    def __init__(self, beyond=0):
        self.beyond = beyond

    def generate_code(self):
        beyond = self.beyond

        def wraps(images, dst):
            for i in range(images.shape[0]):
                for j in range(images.shape[1] + beyond):
                    dst[i, j] = images[i, j, 0, 0] * 300 - 7
            return dst

        return wraps


class Leaves(Same):
    """Ends the program."""

    def generate_code(self):
        def leaves(images, dst):
            raise SystemExit(3)

        return leaves


class LeavesLater(Same):
    """Ends the program, but not on the noise of a trial."""

    def __init__(self, error):
        self.error = error

    def generate_code(self):
        error = self.error  # numba refuses it

        def leaves_later(images, dst):
            if images[0, 0, 0, 0] == 77 and images[0, 0, 0, 1] == 78:
                raise error(4)
            dst[:] = images
            return dst

        return leaves_later


class Permutes(Same):
    """Puts the rows of a batch in another order."""

    def generate_code(self):
        def permutes(images, dst):
            dst[:] = np.random.permutation(images)
            return dst

        return permutes


class Gamma(Same):
    """Draws what has no form for a row."""

    def generate_code(self):
        def gamma(images, dst):
            dst[:] = images * np.random.gamma(2.0)
            return dst

        return gamma


class Distinct(Same):
    """Draws one number for each row, all distinct."""

    def generate_code(self):
        def distinct(images, dst):
            by = np.random.choice(200, images.shape[0], replace=False)
            for i in range(images.shape[0]):
                dst[i] = images[i] + np.uint8(by[i])
            return dst

        return distinct


class HandsOn(Same):
    """Hands a generator on."""

    def generate_code(self):
        def hands_on(images, dst):
            draw = np.random.rand
            dst[:] = images + draw(images.shape[0])
            return dst

        return hands_on


class Lies(Same):
    """Declares another dtype and shape than it gives."""

    def generate_code(self):
        def lies(images, dst):
            return images[:, :, :, 0].astype(np.float32) / np.float32(2)

        return lies


class LiesInALoop(Same):
    """The same, where it gets one row at a time."""

    def generate_code(self):
        def lies(images, dst):
            return images[:, ::-1, :, 0] * np.float32(np.random.randint(2, 3))

        return lies


class FewerRows(Same):
    """Returns one row for each two."""

    def generate_code(self):
        def fewer(images, dst):
            return images[::2]

        return fewer


class Counts(Same):
    """Wants to know how many batches came before."""

    def generate_code(self):
        def counts(images, dst, counter):
            return images

        counts.with_counter = True
        return counts


class Pair(Same):
    """Returns two arrays."""

    def generate_code(self):
        def pair(images, dst):
            return images, dst

        return pair


class Untypable(Same):
    """Runs in Python, but machine code cannot have it."""

    def generate_code(self):
        table = {"one": 1}

        def untypable(images, dst):
            dst[:] = images + table["one"]
            return dst

        return untypable


class Lambda(Same):
    def generate_code(self):
        return lambda images, dst: images


class Remembers(Same):
    """Keeps something from call to call; runs in Python only."""

    def __init__(self):
        self.calls = []

    def generate_code(self):
        calls = self.calls

        def remembers(images, dst):
            calls.append(1)
            dst[:] = images + len(calls)
            return dst

        return remembers


@numba.njit
def draw_one():
    return np.random.randint(5)


def draws_again(count):
    return np.random.randint(5) + (draws_again(count - 1) if count else 0)


def called(function):
    return function()
