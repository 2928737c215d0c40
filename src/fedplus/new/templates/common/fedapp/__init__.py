"""Fed+ across machines. Change data.py (a party's data), model.py and method.py as you need."""
