"""The notebook's face; a package, or the library of the same name would be found in its place."""
