"""The exchange of runs between this clone and the team's server: a *sync* fetches what is new there, then pushes."""
