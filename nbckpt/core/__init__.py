"""The core: values, trees and checkpoints over a store. It knows no IPython and keeps no thread running."""
