"""Is this machine fit to run the model? Facts from the operating system, judged one line each."""
