"""Count to ten. A restart continues where the last checkpoint was."""

import pickle

import adaptdl.checkpoint
import adaptdl.env


class Counter(adaptdl.checkpoint.State):
    def __init__(self):
        super().__init__("counter")
        self.value = 0

    def save(self, fileobj):
        pickle.dump(self.value, fileobj)

    def load(self, fileobj):
        self.value = pickle.load(fileobj)


counter = Counter()
restored = adaptdl.checkpoint.load_state(counter)
print("restored", restored, "at", counter.value, "of restart", adaptdl.env.num_restarts())
while counter.value < 10:
    counter.value += 1
    if counter.value % 4 == 0:
        adaptdl.checkpoint.save_all_states()
        if adaptdl.env.num_restarts() == 0 and counter.value == 8:
            break
print("counted to", counter.value)
