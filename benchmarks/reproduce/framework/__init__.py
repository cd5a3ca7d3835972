"""What all experiments share: jobs, rows of numbers, statistics, pages."""
