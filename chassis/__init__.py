"""What any service needs to run, and nothing about tickets."""
