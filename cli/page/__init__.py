"""The live page of a project or a team's server: what a browser on this machine is shown."""
