"""What an attacker tries, and what holds: each test names the hole or weakness that it closes."""
