"""pretix's seating-plan JSON: what is wrong with a file, what can be mended, and the drawing in it."""
