"""Where runs live: their ids, their folders on this machine, their homes in object stores."""
