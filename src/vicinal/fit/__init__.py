"""Running a fit: its plan, its search, its starts, its run, and how a cut one goes on."""
