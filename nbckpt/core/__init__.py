"""The core: values, trees and checkpoints over a store. It needs no IPython and leaves no thread running."""
