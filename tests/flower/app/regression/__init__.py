"""A Flower app for tests: server.py, client.py, tasks.py (data and steps) and faults.py."""
