"""Ways of looking at a recording: one offline page, a local server, a notebook, a terminal."""
