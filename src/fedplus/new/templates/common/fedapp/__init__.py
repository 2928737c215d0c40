"""Fed+ across machines. Yours to change: data.py (what a party holds), model.py and method.py."""
