"""What a run will take and how fast it can be, from the configuration and three rates, before anything is loaded."""
