"""Pages that show what was learnt: self-contained HTML, to be explored in a browser."""
