"""A Flower app: see server.py and client.py, tasks.py for the data, faults.py for what goes wrong."""
