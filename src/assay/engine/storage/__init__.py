"""Storage of runs: their ids, their folders on this machine, and their copies in object stores."""
