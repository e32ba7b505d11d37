"""The server's side of a round: select, reserve, collect, release, settle, adapt."""
