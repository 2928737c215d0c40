"""Tables and the HTML report, of run folders."""
