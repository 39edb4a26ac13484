"""The files of a release: archive, packages, image, and the lists of what is in them."""
