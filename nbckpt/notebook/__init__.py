"""The notebook interface: the magic, its completion, its progress. Only this package imports IPython."""
