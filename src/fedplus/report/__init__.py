"""Tables, the HTML report and the live board, all of run folders."""
